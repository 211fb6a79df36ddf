"""The page about generators names each of them, and the options of those that learn a table."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from proxyguard.adapters.aim import Aim
from proxyguard.adapters.bayesian_network import BayesianNetworkSettings
from proxyguard.adapters.copula import CopulaSettings
from proxyguard.adapters.networks import (
    CtganSettings,
    NetworkSettings,
    TabDdpmSettings,
    TvaeSettings,
)
from proxyguard.adapters.settings import Options
from proxyguard.adapters.tabular import SharedOptions
from proxyguard.draw.catalog import GENERATORS

PATH = Path(__file__).parents[2] / "docs" / "generators.md"
PAGE = PATH.read_text("utf-8")
WORDS = set(re.findall(r"`([\w.:]+)`", PAGE)) | set(re.findall(r"`(\w+) = ", PAGE))
SHARED = [option.name for option in fields(SharedOptions)]
KINDS = (TvaeSettings, CtganSettings, TabDdpmSettings, CopulaSettings, BayesianNetworkSettings)
TABLES = {"networks": NetworkSettings, **{kind.name: kind for kind in KINDS}}
"""What the page has a table of options for, written between two comments of this name."""


def described(kind: type[Options]) -> dict[str, str]:
    """Return what stands under each field in the text of its class."""
    body = cast("ast.ClassDef", ast.parse(inspect.getsource(kind)).body[0]).body
    return {
        cast("ast.Name", field.target).id: " ".join(cast("str", said.value.value).split())
        for field, said in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
    }


def table_of(name: str) -> str:
    """Return the table of options as the page has it."""
    kind = TABLES[name]
    unless = {option: json.dumps(given) for option, given in kind().describe().items()}
    rows = [
        f"| `{option}` | {'' if unless[option] == 'null' else f'`{unless[option]}`'} | {words} |"
        for option, words in described(kind).items()
    ]
    lines = ["| option | unless told | what it is |", "| --- | --- | --- |", *rows]
    return "\n".join([f"<!-- {name} -->", "", *lines, "", "<!-- end -->"])


def test_every_option_says_what_it_is() -> None:
    for kind in TABLES.values():
        given = [field.name for field in fields(kind)]
        if kind is not NetworkSettings and issubclass(kind, NetworkSettings):
            given = given[len(fields(NetworkSettings)) :]
        assert list(described(kind)) == given


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_of_options_are_current(name: str) -> None:
    # `python -m house.test_generators_page`, in tests, writes them.
    assert table_of(name) in PAGE


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_page_names_every_generator(name: str) -> None:
    assert name in WORDS


def test_the_page_names_every_other_option() -> None:
    options = [*SHARED, *inspect.signature(Aim).parameters]
    assert len(options) > 20
    assert not [option for option in options if option not in WORDS]


if __name__ == "__main__":
    for name in TABLES:
        PAGE = re.sub(
            f"<!-- {name} -->.*?<!-- end -->", lambda _, name=name: table_of(name), PAGE, flags=re.S
        )
    PATH.write_text(PAGE, "utf-8")
