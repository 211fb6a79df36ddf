"""What is wrong with a declaration, in the words of its author.

The models of a declaration say which keys there are, what each must be and what it means; from
them, and from what was found, come the line, what was expected and what to write. Where a value may
be one of several kinds, only the kind that was meant is spoken of.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from proxyguard.printable import REPEATED, did_you_mean, found, nearest
from proxyguard.registry.fields import DecimalText, DescribedModel, Share, described

KeyPath = tuple[int | str, ...]
FILE = "audit.toml"
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.|=)""")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """One thing that is wrong: where it stands, what was expected there, what was found."""

    path: KeyPath
    """Keys and numbers that lead to it, and nothing else."""
    kind: str
    """What pydantic calls it."""
    message: str
    expected: object
    """The type of what stands there; of an unknown key, None."""
    owner: object
    """The model whose key it is."""
    given: object
    chosen: tuple[tuple[KeyPath, object], ...]
    """Where a value may be of several kinds, the kind that this fault is about."""


def explain_errors(
    error: ValidationError, model: type[DescribedModel], declared: object, text: str = "",
    what: str = FILE,
) -> str:  # fmt: skip
    """Return one line a fault, in the order of the file.

    Parameters
    ----------
    error
        What reading the declaration gave.
    model
        The declaration.
    declared
        The values that were read.
    text
        The text that they stand in, or nothing.
    what
        What is read.
    """
    faults = list(_meant([_fault(problem, model) for problem in error.errors()]))
    where = _lines_of(text)
    likely = {(*fault.path[:-1], name) for fault in faults for name in _near(fault, declared)}
    lines = []
    for fault in faults:
        # A misspelt key is missing under its right name too, which says nothing more.
        if fault.kind == "missing" and fault.path in likely:
            continue
        line = next((where[fault.path[:k]] for k in range(len(fault.path), 0, -1)
                     if fault.path[:k] in where), 0)  # fmt: skip
        lines.append((line, f"{_place(fault.path, declared)}: {_words(fault, model, declared)}"))
    said = dict.fromkeys(
        f"  line {line}, {words}" if line else f"  {words}" for line, words in sorted(lines)
    )
    return "\n".join([f"{what} cannot be honoured:", *said])


def explain_toml(error: tomllib.TOMLDecodeError, text: str) -> str:
    """Return what is wrong with a text that is no TOML: the line, and what was probably meant."""
    at = _AT_LINE.search(str(error))
    if at is None:
        return f"{FILE} is no TOML: {error}; is it the file that was meant?"
    number = int(at[1])
    line = text.splitlines()[number - 1]
    hint = next((words for pattern, words in _HINTS if pattern.search(line)), "")
    said = _AT_LINE.sub("", str(error)).strip()
    said = next((words for begin, words in _TWICE.items() if said.startswith(begin)), said)
    # Of what is no line of a declaration nothing is repeated: it may be a record.
    shown = f": {line.strip()[:REPEATED]}" if hint or _KEY.match(line) else ""
    return f"{FILE}, line {number} is no TOML{shown}\n  {hint or said}"


_TWICE = {
    "Cannot overwrite": "this key has a value above already",
    "Cannot declare": "this section stands above already; of several each has double brackets",
}
_HINTS = (
    (re.compile("=\\s*[\u2018-\u201e\u00ab]"), 'text stands in plain quotation marks: "text"'),
    (re.compile(r"^\s*[\w.-]+\s*:"), "a key and its value have an equals sign between them"),
    (re.compile(r"=\s*(True|False)\b"), "write true or false, in small letters"),
    (re.compile(r"=\s*(None|null|nil)\b"), "a key without a value is left out"),
    (re.compile(r'"[^"]*\\'), 'a path has forward slashes: "folder/file.csv"'),
    (re.compile(r"=\s*\d[\d.]*(%|,\d)"), 'write a number as text, with a point: "0.05"'),
    (re.compile(r"""=\s*("[^"]*|'[^']*)$"""), "the closing quotation mark is missing"),
    (re.compile(r"^\s*\[+[^\[\]]*\]?$"), "a section stands in brackets: [claim], [[mechanism]]"),
    (re.compile(r"=\s*[A-Za-zÀ-ÿ]"), 'text stands in quotation marks: "text"'),
    (re.compile(r"=\s*$"), "the value is missing"),
)  # fmt: skip


# ---- from what pydantic says to faults


def _fault(problem: ErrorDetails, model: type[BaseModel]) -> _Fault:
    """Return a problem with the path that its author wrote, and the types along it."""
    kind: object = model
    owner: object = None
    path: list[int | str] = []
    chosen: list[tuple[KeyPath, object]] = []
    for word in problem["loc"]:
        kinds = _kinds(kind)
        if len(kinds) > 1:  # pydantic names the kind that it tried
            kind = _named(kinds, str(word))
            chosen.append((tuple(path), kind))
        elif word != "[key]":
            owner, kind = kinds[0], _inside(kinds[0], word)
            path.append(word)
    return _Fault(
        path=tuple(path), kind=problem["type"], expected=kind, owner=owner, given=problem["input"],
        message=problem["msg"].removeprefix("Value error, "), chosen=tuple(chosen),
    )  # fmt: skip


def _kinds(hint: object) -> tuple[object, ...]:
    """Return what a value may be, where it is given at all."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for kind in get_args(hint) if kind is not NoneType)
    return (hint,)


def _bare(hint: object) -> object:
    """Return a type without what it is annotated with."""
    return _bare(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def _named(kinds: Sequence[object], name: str) -> object:
    """Return the kind that pydantic's name for it stands for."""
    for kind in kinds:
        bare = _bare(kind)
        if is_model(bare) and re.search(rf"\b{bare.__name__}\b", name):
            return kind
        origin = get_origin(bare)
        if origin is not None and name.startswith(f"{getattr(origin, '__name__', '')}[".lower()):
            return kind
        if isinstance(bare, type) and issubclass(bare, Enum) and name.startswith("enum["):
            return kind
    texts = [k for k in kinds if isinstance(_bare(k), type) and not is_model(_bare(k))]
    return texts[0] if texts else kinds[0]


def _inside(kind: object, word: int | str) -> object:
    """Return the type of what stands under a key or a number."""
    bare = _bare(kind)
    if is_model(bare):
        return get_type_hints(bare, include_extras=True).get(str(word))
    arguments = get_args(bare)
    if get_origin(bare) is tuple:
        return arguments[0] if arguments[-1] is Ellipsis else arguments[int(word)]
    return arguments[1] if get_origin(bare) is dict else None


def is_model(kind: object) -> TypeGuard[type[DescribedModel]]:
    """Return whether a type is a part of a declaration."""
    return isinstance(kind, type) and issubclass(kind, DescribedModel)


def _meant(faults: Sequence[_Fault]) -> Iterator[_Fault]:
    """Yield the faults of the kinds that were meant, and not of the others that were tried."""
    tried: dict[KeyPath, dict[str, list[_Fault]]] = {}
    for fault in faults:
        for place, kind in fault.chosen:
            tried.setdefault(place, {}).setdefault(repr(kind), []).append(fault)
    other: set[int] = set()
    for place, by_kind in tried.items():
        # A kind that what was found is none of is not meant, nor one whose keys it has not. Of two
        # with one fault each, the one that has all of its keys is.
        fits = {
            kind: sum(
                1.5 if f.kind == "missing" else 1.0
                for f in own
                if f.path != place or f.kind == "value_error"
            )
            for kind, own in by_kind.items()
            if not any(f.path == place and f.kind != "value_error" for f in own)
        }
        best = min(fits, key=lambda kind: fits[kind], default=None)
        if best is not None:
            other |= {id(f) for kind, own in by_kind.items() if kind != best for f in own}
    paths = {fault.path for fault in faults}
    seen: set[KeyPath] = set()
    for fault in faults:
        longer = any(len(p) > len(fault.path) and p[: len(fault.path)] == fault.path for p in paths)
        # A list counts as too short when its members failed: said is only why they did.
        if id(fault) in other or (longer and not fault.chosen and fault.kind != "value_error"):
            continue
        at_choice = fault.chosen and fault.chosen[-1][0] == fault.path
        if at_choice and fault.kind != "value_error":
            if fault.path in seen:
                continue  # once for all kinds together
            seen.add(fault.path)
        yield fault


# ---- where it stands


def _lines_of(text: str) -> dict[KeyPath, int]:
    """Return the line of every section and key; of one that stands in another's line, none."""
    lines: dict[KeyPath, int] = {}
    counts: dict[str, int] = {}
    section: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if (header := _HEADER.match(line)) is not None:
            names = [word.strip().strip("\"'") for word in header[2].split(".")]
            section = ()
            for k, name in enumerate(names):
                section += (name,)
                dotted = ".".join(names[: k + 1])
                if k == len(names) - 1 and header[1] == "[[":
                    counts[dotted] = counts.get(dotted, -1) + 1
                if dotted in counts:
                    section += (counts[dotted],)
            lines.setdefault(section, number)
            lines.setdefault(tuple(names), number)
        elif (key := _KEY.match(line)) is not None:
            lines.setdefault((*section, key[1].strip("\"'")), number)
    return lines


def _place(path: KeyPath, declared: object) -> str:
    """Return where a fault stands: ``[[requirement]] "risk" limit``."""
    sections: list[str] = []
    keys: list[str] = []
    at = declared
    for word in path:
        inner = at.get(word) if isinstance(at, Mapping) else None
        if isinstance(at, list) and isinstance(word, int):
            inner = at[word] if word < len(at) else None  # one too few
            if isinstance(inner, Mapping) and keys:
                name = inner.get("name")
                number = f'"{name}"' if isinstance(name, str) else f"number {word + 1}"
                sections.append(f"[[{'.'.join(keys)}]] {number}")
                keys = []
            else:
                keys[-1:] = [f"{keys[-1]} number {word + 1}"] if keys else [f"number {word + 1}"]
        else:
            keys.append(str(word))
            if not sections and len(keys) == 1 and isinstance(inner, Mapping):
                sections, keys = [f"[{word}]"], []
            elif len(path) == 1 and isinstance(inner, list):
                sections, keys = [f"[[{word}]]"], []
        at = inner
    return " ".join([*sections, *([".".join(keys)] if keys else [])]) or "the declaration"


# ---- in words


def _words(fault: _Fault, model: type[DescribedModel], declared: object) -> str:
    key = str(fault.path[-1]) if fault.path else ""
    if fault.kind == "value_error":
        return fault.message
    if fault.kind == "extra_forbidden":
        return _unknown(fault, key, model, declared)
    if fault.kind == "missing" and fault.path and isinstance(fault.path[-1], int):
        return "missing; there is one too few"
    if fault.kind == "missing":
        about = dict(described(fault.owner)).get(key, "") if is_model(fault.owner) else ""
        about = f" ({about[0].lower()}{about[1:].rstrip('.')})" if about else ""
        return f"missing{about}; write for example {_written(key, fault.expected)}"
    expected = fault.expected
    if fault.chosen and fault.chosen[-1][0] == fault.path:
        owner = fault.owner
        expected = _inside(owner, key) if is_model(owner) else expected
    return _mismatch(fault, key, expected)


def _unknown(fault: _Fault, key: str, model: type[DescribedModel], declared: object) -> str:
    said = "unknown key; a key that is ignored would change the claim"
    if fault.owner is not model and key in model.model_fields:
        return f"{said}; it is no key of a table: write it at the top, before the first [table]"
    for name in _near(fault, declared):
        return f"{said}; did you mean {name}?"
    elsewhere = [
        f"[[{name}]]" if get_origin(_bare(kind)) is tuple else f"[{name}]"
        for name, hint in get_type_hints(model, include_extras=True).items()
        for kind in _kinds(hint)
        for part in [_bare(kind), *get_args(_bare(kind))]
        if is_model(part) and key in part.model_fields and part is not fault.owner
    ]
    if elsewhere and len(elsewhere) <= 3:
        return f"{said}; it is a key of {' and of '.join(dict.fromkeys(elsewhere))}"
    known = sorted(fault.owner.model_fields) if is_model(fault.owner) else []
    return f"{said}; there are {', '.join(known)}"


def _near(fault: _Fault, declared: object) -> list[str]:
    """Return the key that an unknown one was probably meant to be: one that is not there too."""
    if fault.kind != "extra_forbidden" or not is_model(fault.owner):
        return []
    beside = declared
    for word in fault.path[:-1]:
        if isinstance(beside, Mapping):
            beside = beside.get(word)
        elif isinstance(beside, list) and isinstance(word, int):
            beside = beside[word]
    there = beside if isinstance(beside, Mapping) else {}
    return nearest(str(fault.path[-1]), [k for k in fault.owner.model_fields if k not in there])


def _mismatch(fault: _Fault, key: str, expected: object) -> str:
    """Say what was expected and what was found, and what to write where that can be told."""
    given, kinds = fault.given, [_bare(kind) for kind in _kinds(expected)]
    origins = [get_origin(kind) for kind in kinds]
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    if isinstance(given, Mapping) and lists and is_model(get_args(lists[0])[0]):
        return f"there may be several of it; write [[{key}]], in double brackets"
    if isinstance(given, list) and is_model(kinds[0]) and len(kinds) == 1:
        return f"there is one of it; write [{key}], in single brackets"
    if fault.kind == "too_short" and not given:
        return f"is missing or empty; write for example {_written(key, expected)}"
    bound = re.search(r"(greater|less) than or equal to (-?\d+)", fault.message)
    if bound is not None:
        least = "at least" if bound[1] == "greater" else "at most"
        return f"is {least} {int(bound[2]):,}, found {found(given)}"
    size = re.search(r"at (least|most) (\d+) (character|item)", fault.message)
    if size is not None and isinstance(given, str | list | tuple):
        unit = "sign" if isinstance(given, str) else "member"
        unit += "" if size[2] == "1" else "s"
        return f"has at {size[1]} {size[2]} {unit}, found {len(given)}"
    said = f"is {_expected(expected)}, found {found(given)}"
    choices = [*_choices(kinds)]
    if choices and isinstance(given, str):
        return said + did_you_mean(given, choices)
    if isinstance(given, int | float) and not isinstance(given, bool) and str in kinds:
        return f'{said}; write {key} = "{given}", in quotation marks'
    if isinstance(given, str) and re.fullmatch(r"\s*\d+\s*", given) and int in kinds:
        return f"{said}; write {key} = {given.strip()}, without quotation marks"
    if isinstance(given, str) and tuple in origins and not any(is_model(k) for k in kinds):
        return f'{said}; write {key} = ["{given}"]'
    return f"{said}; write for example {_written(key, expected)}"


def _choices(kinds: Iterable[object]) -> Iterator[str]:
    for kind in kinds:
        if get_origin(kind) is Literal:
            yield from map(str, get_args(kind))
        elif isinstance(kind, type) and issubclass(kind, Enum):
            yield from (str(option.value) for option in kind)


def _expected(hint: object) -> str:
    """Return what a value must be, in words."""
    return ", or ".join(dict.fromkeys(_one_expected(kind) for kind in _kinds(hint)))


def _one_expected(hint: object) -> str:
    bare = _bare(hint)
    choices = list(_choices([bare]))
    if len(choices) == 1:
        return f'"{choices[0]}"'
    if choices:
        return f"one of {', '.join(f'{choice!r}' for choice in choices)}".replace("'", '"')
    if is_model(bare):
        return f"a table such as {_table(bare)}"
    if hint == Share:
        return "a number between 0 and 1, as text"
    if hint == DecimalText:
        return "a number, as text"
    kinds: tuple[tuple[object, str], ...] = (
        (str, "text"), (int, "a whole number"), (bool, "true or false"), (float, "a number"),
        (tuple, "a list"), (dict, "a table"),
    )  # fmt: skip
    is_one = (bare, get_origin(bare))
    return next((words for kind, words in kinds if kind in is_one), "another kind of value")


def _written(key: str, hint: object) -> str:
    """Return an example of what to write under a key."""
    kind = _kinds(hint)[0]
    bare = _bare(kind)
    if is_model(bare) and not any(field.is_required() for field in bare.model_fields.values()):
        return f"[{key}] and its keys under it"
    if get_origin(bare) is tuple and is_model(get_args(bare)[0]):
        return f"[[{key}]] and its keys under it"
    return f"{key} = {_example(kind)}"


def _example(hint: object) -> str:
    bare = _bare(hint)
    choices = list(_choices([bare]))
    if choices:
        return f'"{choices[0]}"'
    if hint in (Share, DecimalText):
        return '"0.05"'
    if is_model(bare):
        return _table(bare)
    if get_origin(bare) is tuple:
        return f"[{_example(get_args(bare)[0])}]"
    examples: tuple[tuple[object, str], ...] = ((int, "100"), (bool, "true"), (str, '"..."'))
    return next((written for kind, written in examples if kind == bare), "{ ... }")


def _table(model: type[DescribedModel]) -> str:
    if model.example:
        return model.example
    hints = get_type_hints(model, include_extras=True)
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    pairs = ", ".join(f"{name} = {_example(_kinds(hints[name])[0])}" for name in needed)
    return f"{{ {pairs or '...'} }}"
