"""A word for every term: for `proxyguard explain`, for docs/glossary.md, and for the page.

The terms stand in glossary.toml. A key of `audit.toml` is explained by the sentence that the schema
has for it, below the term of its name where there is one. Written anew:
``python -m proxyguard.report.glossary docs/glossary.md``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import JsonValue

from proxyguard.errors import RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of reports, commands and declarations, in one or two sentences."""

    name: str
    text: str
    also: tuple[str, ...] = ()  # further names that it is asked for by
    forms: tuple[str, ...] = ()  # words that a page explains where they first occur
    anchor: str = ""  # its name in addresses and ids


@cache
def terms() -> tuple[Term, ...]:
    """Return every term, in the order of the file: what belongs together stands together."""
    text = files("proxyguard.report").joinpath("glossary.toml").read_text("utf-8")
    return tuple(
        Term(
            name=name,
            text=entry["text"],
            also=tuple(entry.get("also", ())),
            forms=tuple(entry.get("forms", ())),
            anchor=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        )
        for name, entry in tomllib.loads(text).items()
    )


@cache
def _by_name() -> dict[str, Term]:
    """Return the terms by all their names; a term's own name goes before another's further one.

    What a page explains, `explain` knows too: a reader types the word that was read.
    """
    forms = {_plain(form): term for term in terms() for form in term.forms}
    named = {_plain(also): term for term in terms() for also in term.also}
    return forms | named | {_plain(term.name): term for term in terms()}


def explain(asked: str, commands: Mapping[str, str] | None = None) -> Term:
    """Return a term, or a key of ``audit.toml`` with what the schema says of it.

    Parameters
    ----------
    asked
        A term, in any case and number, with spaces, hyphens or underscores.
    commands
        What each command does, which is said of its name too.

    Returns
    -------
    Term
        Its text has a line for the term, and one for each thing that a key of this name means.

    Raises
    ------
    RegistryError
        Where there is no such term; the message names those that are spelled alike.

    Examples
    --------
    >>> explain("Favorable-Score").name
    'favorable score'
    """
    asked = _plain(asked)
    verbs = {
        _plain(name): f"The command proxyguard {name}: {words}"
        for name, words in (commands or {}).items()
    }
    for spelt in (asked, f"{asked}s", asked.removesuffix("s"), f"{asked.removesuffix('ies')}y"):
        term = _explained(spelt, verbs)
        if term is not None:
            return term
    names = {*_by_name(), *(_plain(path.rpartition(".")[2]) for path, _ in keys()), *verbs}
    near = get_close_matches(asked, sorted(names), n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else "none is spelled alike."
    raise RegistryError(f"no term {asked!r}; {hint} `proxyguard explain` lists all terms")


def _explained(asked: str, verbs: Mapping[str, str]) -> Term | None:
    """Return what is known of a name as a term, a key and a command; nothing of no such name."""
    known = _by_name().get(asked)
    said: dict[str, list[str]] = {}
    for path, sentence in keys():
        if f".{_plain(path)}".endswith(f".{asked}"):  # "alpha" and "claim.alpha" mean this key
            said.setdefault(sentence, []).append(path)
    lines = [f"{', '.join(paths)} in audit.toml: {words}" for words, paths in said.items()]
    lines += [verbs[asked]] if asked in verbs else []
    if known is not None:
        return replace(known, text="\n".join([known.text, *lines]))
    return Term(name=asked, text="\n".join(lines)) if lines else None


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().lower()))


@cache
def keys() -> tuple[tuple[str, str], ...]:
    """Return the keys of ``audit.toml``, as claim.alpha, each with what the schema says of it.

    A key that stands in parts of several kinds comes once for each kind; those of a candidate are
    the audit's own.
    """
    from proxyguard.registry.declaration import Declaration

    schema = Declaration.model_json_schema()

    def below(node: JsonValue, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, list):
            for option in node:
                yield from below(option, path)
        for word, inner in node.items() if isinstance(node, dict) else ():
            if word == "$ref":
                yield from below(schema["$defs"][str(inner).rpartition("/")[2]], path)
            elif word == "properties" and isinstance(inner, dict):
                for key, described in inner.items():
                    assert isinstance(described, dict)  # a schema of its own
                    yield f"{path}{key}", str(described["description"])
                    yield from below(described, f"{path}{key}.")
            elif word != "$defs":
                yield from below(inner, path)

    told = dict.fromkeys(below(schema, ""))
    audit = {path for path, _ in told}
    return tuple(
        (path, words) for path, words in told
        if not path.startswith("candidate.") or path.removeprefix("candidate.") not in audit
    )  # fmt: skip


def glossary_page() -> str:
    """Return docs/glossary.md: every term in the order of the alphabet."""
    lines = [
        "# Glossary",
        "",
        "<!-- written by `python -m proxyguard.report.glossary docs/glossary.md` -->",
        "",
        "The text that `proxyguard explain TERM` prints, and that a page shows where a term first",
        "occurs. Keys of `audit.toml` are explained by `proxyguard explain KEY` too.",
        "",
    ]
    for term in sorted(terms(), key=lambda term: term.name.lower()):
        also = f" (also: {', '.join(term.also)})" if term.also else ""
        lines += [f'<a id="{term.anchor}"></a>**{term.name}**{also}: {term.text}', ""]
    return "\n".join(lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(glossary_page(), encoding="utf-8")
