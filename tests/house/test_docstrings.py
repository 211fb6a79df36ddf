"""Every public name says what it takes, gives back and refuses, and shows it in an example."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import proxyguard as pg

ERRORS = [
    name for name in pg.__all__
    if inspect.isclass(getattr(pg, name)) and issubclass(getattr(pg, name), Exception)
]  # fmt: skip
NAMES = [name for name in pg.__all__ if name not in ERRORS]
MADE = {
    "Certificate", "FamilyCertificate", "ReleaseCertificate", "SealedCertificate", "Trial",
}  # fmt: skip
"""Classes that the package makes and users read: their fields are Attributes."""


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by their titles."""
    parts = re.split(r"^(\w+)\n-+$", docstring, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> set[str]:
    """Return the names that a section describes: unindented lines, several parted by commas."""
    heads = re.findall(r"^[\w*].*$", section, flags=re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(":")[0].split(",")}


def parameters(call: object) -> set[str]:
    """Return what a function takes, or a class when it is made."""
    return set(inspect.signature(call).parameters) - {"self", "cls"}  # type: ignore[arg-type]


def faults(public: object, *, made: bool = False) -> list[str]:
    """Return what the docstring of a class or function leaves out."""
    given = sections(inspect.getdoc(public) or "")
    missing = []
    if isinstance(public, enum.EnumType):
        wanted, title = set(public.__members__), "Attributes"
    else:
        wanted, title = parameters(public), "Attributes" if made else "Parameters"
    missing += [f"{title}: {name}" for name in sorted(wanted - described(given.get(title, "")))]
    if inspect.isfunction(public):
        missing += [title for title in ("Returns", "Raises") if not given.get(title, "").strip()]
    if not isinstance(public, enum.EnumType) and not given.get("Examples", "").strip():
        missing.append("Examples")
    return missing


def methods(public: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods that a class defines, without its properties."""
    for name, member in vars(public).items():
        call = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(call):
            yield name, call


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_described_and_shown(name: str) -> None:
    assert not faults(getattr(pg, name), made=name in MADE)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in MADE | {"Decision", "Form"}]
)
def test_an_example_runs(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(pg, name)) or "")


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_happened(name: str) -> None:
    assert (inspect.getdoc(getattr(pg, name)) or "").strip().endswith((".", "``."))


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(pg, name))])
def test_a_method_speaks_of_all_that_it_takes(name: str) -> None:
    silent = []
    for method, call in methods(getattr(pg, name)):
        text = inspect.getdoc(call) or ""  # type: ignore[arg-type]
        named = described(sections(text).get("Parameters", ""))
        named |= set(re.findall(r"``(\w+)``", text))
        if not text or parameters(call) - named:
            silent.append(f"{method}: {sorted(parameters(call) - named) or 'no docstring'}")
    if name == "Claim":  # its methods are asked by the package, in the words of its own modules
        silent = [line for line in silent if line.startswith("of:")]
    assert not silent


def test_the_steps_of_an_audit_say_what_they_return() -> None:
    silent = [
        method
        for method, call in methods(pg.Audit)
        if parameters(call)
        and call.__annotations__["return"] != "None"  # type: ignore[attr-defined]
        and "Returns" not in sections(inspect.getdoc(call) or "")  # type: ignore[arg-type]
    ]
    assert not silent


def test_what_is_left_out_would_be_seen() -> None:
    def planted(losses: object, seed: int) -> int:
        """Return it.

        Parameters
        ----------
        losses
            Some.
        """
        return seed

    assert faults(planted) == ["Parameters: seed", "Returns", "Raises", "Examples"]


def strings_for_nobody(source: str) -> list[int]:
    """Return the lines of texts that stand by themselves below the first line of a file."""
    return [
        statement.lineno
        for statement in ast.parse(source).body[1:]
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ]


def test_a_constant_is_explained_by_a_comment() -> None:
    assert strings_for_nobody('"""A file."""\n\nMOST = 3\n"""The most."""\n') == [4]
    assert not strings_for_nobody('"""A file."""\n\n# The most.\nMOST = 3\n')
    root = Path(pg.__file__).parent
    explained = {path: strings_for_nobody(path.read_text("utf-8")) for path in root.rglob("*.py")}
    assert not {path: lines for path, lines in explained.items() if lines}
