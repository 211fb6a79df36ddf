"""The page about generators names each of them, and every option of those that learn a table."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import proxyguard
from proxyguard.adapters.tabular import shared_options
from proxyguard.draw.catalog import GENERATORS

PRODUCT = Path(proxyguard.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "generators.md").read_text("utf-8")
WORDS = set(re.findall(r"`([\w.:]+)`", PAGE)) | set(re.findall(r"`(\w+) = ", PAGE))
SHARED = [
    option.name
    for option in inspect.signature(shared_options).parameters.values()
    if option.kind is inspect.Parameter.KEYWORD_ONLY
]
LEARNED = ("tvae", "ctgan", "tabddpm", "copula", "bayesian_network", "aim")


def options_of(name: str) -> list[str]:
    """Return the keywords that a generator's class takes, by its text: torch may not be here."""
    module, _, kind = GENERATORS[name].partition(":")
    file = PRODUCT / (module.removeprefix("proxyguard.").replace(".", "/") + ".py")
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            made = next(f for f in node.body if getattr(f, "name", "") == "__init__")
            assert isinstance(made, ast.FunctionDef)
            shared = SHARED if made.args.kwarg is not None else []
            return [*(argument.arg for argument in made.args.kwonlyargs), *shared]
    raise AssertionError(f"{file} has no {kind}")


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_page_names_every_generator(name: str) -> None:
    assert name in WORDS


@pytest.mark.parametrize("name", LEARNED)
def test_the_page_names_every_option(name: str) -> None:
    options = options_of(name)
    assert len(options) > 5
    assert not [option for option in options if option not in WORDS]
