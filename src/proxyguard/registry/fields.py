"""The kinds of value that a declaration is made of, each refusing what it cannot mean."""

from __future__ import annotations

import ast
import inspect
import textwrap
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictInt,
    StrictStr,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

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


DecimalText = Annotated[StrictStr, AfterValidator(_decimal)]
Share = Annotated[StrictStr, AfterValidator(_share)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=2000)]
FilePath = Annotated[StrictStr, Field(min_length=1, max_length=500), AfterValidator(_inside)]
# Bounded where they are read: lists and arrays are made from them, and a registry from anybody
# must not exhaust the memory of whoever verifies it.
Positive = Annotated[StrictInt, Field(ge=1, le=MOST_RECORDS)]
DrawCount = Annotated[StrictInt, Field(ge=1, le=MOST_DRAWS)]
GridSize = Annotated[StrictInt, Field(ge=1, le=10_001)]  # thresholds that are tried
PoolSize = Annotated[StrictInt, Field(ge=1, le=MOST_POOL)]
SeedNumber = Annotated[StrictInt, Field(ge=0, lt=2**32)]  # what every library takes as a seed
Label = StrictStr | StrictInt | bool


# The format of `audit.toml` and of every document of an audit: one number, for one release reads
# and writes all of them.
Format = Literal[1]
FORMAT: Format = 1


class DescribedModel(BaseModel):
    """A model whose fields are described, in its schema, by the text under each of them.

    pydantic can read these texts too, but does so when a class is made: for all documents of an
    audit that takes a tenth of a second of every start, and schemas are asked for once a release.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        # From the class itself up: a field that is declared again is described by its own text.
        for kind in cls.__mro__:
            for name, text in _described(kind) if issubclass(kind, DescribedModel) else ():
                field = cls.model_fields.get(name)
                if field is not None:
                    properties[field.alias or name].setdefault("description", text)
        return schema


@cache  # one class is a part of many schemas, and its file is parsed to find it
def _described(kind: type[DescribedModel]) -> list[tuple[str, str]]:
    """Return the fields that a class itself declares, each with the text that stands under it."""
    described = []
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)  # the source of a class
    for field, text in pairwise(made.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(words))):
                described.append((name, inspect.cleandoc(words)))
    return described


class DeclarationPart(DescribedModel):
    """A frozen part of a declaration; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
