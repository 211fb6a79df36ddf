"""The kinds of value that a declaration is made of, each refusing what it cannot mean."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from proxyguard.errors import RegistryError
from proxyguard.registry.numbers import MOST_DRAWS, MOST_POOL, MOST_RECORDS, exact, share


def _decimal(text: str) -> str:
    try:
        exact(text)
    except RegistryError:
        raise ValueError(
            f'expected a number written as text, such as "0.05", got {text!r}'
        ) from None
    return text


def _share(text: str) -> str:
    if not 0 < Fraction(_decimal(text)) < 1:
        raise ValueError(f'expected a number between 0 and 1, such as "0.05", got {text!r}')
    try:
        share(text, "a level or share")
    except RegistryError as error:
        raise ValueError(str(error)) from None
    return text


def _inside(text: str) -> str:
    if text.startswith("/") or "\\" in text or ".." in text.split("/"):
        raise ValueError(
            f"expected a path inside the data folders, with forward slashes, got {text!r}"
        )
    return text


def number(text: str) -> float:
    """Return a declared number as the nearest double: ``0.05``, ``1/6``."""
    return float(Fraction(text))


Decimal = Annotated[StrictStr, AfterValidator(_decimal)]
Share = Annotated[StrictStr, AfterValidator(_share)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=2000)]
FilePath = Annotated[StrictStr, Field(min_length=1, max_length=500), AfterValidator(_inside)]
# Bounded where they are read: lists and arrays are made from them, and a registry from anybody
# must not exhaust the memory of whoever verifies it.
Count = Annotated[StrictInt, Field(ge=1, le=MOST_RECORDS)]
DrawCount = Annotated[StrictInt, Field(ge=1, le=MOST_DRAWS)]
GridSize = Annotated[StrictInt, Field(ge=1, le=10_001)]  # thresholds that are tried
PoolSize = Annotated[StrictInt, Field(ge=1, le=MOST_POOL)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**32)]  # what every library takes as a seed
Label = StrictStr | StrictInt | bool


class DeclarationPart(BaseModel):
    """A frozen part of a declaration; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
