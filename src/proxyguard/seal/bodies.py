"""What the body of each ledger entry must hold: the door through which every reader goes.

A signature says who wrote an entry, not that it is one. Every command takes names, digests and
numbers out of these bodies, so they are checked where the ledger is read and before an entry is
written; what lacks a key, has another type or says more than its step says is a `SealError` that
names entry and key. A key that nobody reads would be signed, and seem to be vouched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from proxyguard.errors import SealError
from proxyguard.registry.numbers import MOST_RECORDS
from proxyguard.seal.inside import is_address
from proxyguard.seal.ledger import Entry, Path, Stage

Test = Callable[[object], bool]
Shape = Mapping[str, tuple[Test, str]]
"""For each key of a body, what its value passes, and that in words."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_RECORDS


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_design(value: object) -> bool:
    return _is_text(value) or _is_mapping(value)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list_of_mappings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, Mapping) for part in value)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _are_files(value: object) -> bool:
    return isinstance(value, Mapping) and all(is_address(digest) for digest in value.values())


def _are_kinds(value: object) -> bool:
    return isinstance(value, list) and all(
        _is_list_of_texts(pair) and len(pair) == 2 for pair in value
    )


def _are_parts(value: object) -> bool:
    """Return whether roles of the development part are counted; a role is part of a file name."""
    roles = {"training", "validation"}
    return (
        isinstance(value, Mapping) and set(value) <= roles and all(map(_is_count, value.values()))
    )


def _are_numbers(value: object) -> bool:
    number = re.compile(r"\d+\.\d|inf|nan")
    return isinstance(value, Mapping) and all(
        isinstance(text, str) and number.fullmatch(text) is not None for text in value.values()
    )


def _matches(pattern: str) -> Test:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


TEXT = (_is_text, "a text")
COUNT = (_is_count, f"a whole number from 0 to {MOST_RECORDS:,}")
FLAG = (_is_flag, "true or false")
DESIGN = (_is_design, "a design or its name")
DIGEST = (is_address, "a digest")
MAPPING = (_is_mapping, "a mapping")
MAPPINGS = (_is_list_of_mappings, "a list of mappings")
TEXTS = (_is_list_of_texts, "a list of texts")
IDENTITY = (_matches("[0-9a-f]{128}"), "an identity of 128 hexadecimal digits")
RECORDED: Shape = {
    "files": (_are_files, "files by their digests"),
    "time": TEXT,
}

MEMBER: Shape = {
    "index": COUNT,
    "records": COUNT,
    "commitment": DIGEST,
    "nonce_digest": DIGEST,
    "kinds": (_are_kinds, "a list of columns with their kinds"),
    "negative": (_or_none(_is_text), "a label or nothing"),
    "estimand": TEXT,
    "development": (_are_parts, "the sizes of training and validation"),
    "expected_twins": (_are_numbers, "numbers with one decimal"),
}
LOSSES: Shape = {"releases": TEXTS, "requirements": TEXTS}
"""What is said besides of losses that were computed elsewhere."""

BODIES: Mapping[Stage, Shape] = {
    Stage.SEALED: {
        # It names a key file in the home of whoever opens: another text could lead anywhere.
        "audit": (_matches("[0-9a-f]{32}"), "32 hexadecimal digits"),
        "name": TEXT,
        "declaration": DIGEST,
        "members": (lambda value: isinstance(value, Mapping) and bool(value), "targets by name"),
        "lineage": MAPPINGS,
        "author": IDENTITY,
        "steward": (_or_none(IDENTITY[0]), f"{IDENTITY[1]}, or nothing"),
        "software": MAPPING,
        **RECORDED,
    },
    Stage.DEVELOPED: {"members": MAPPING, **RECORDED},
    Stage.REGISTERED: {"declaration": DIGEST, "path": TEXT, "lineage": MAPPINGS, **RECORDED},
    Stage.AMENDED: {
        "declaration": DIGEST,
        "supersedes": DIGEST,
        "reason": TEXT,
        "void": MAPPINGS,
        "pending": COUNT,
        **RECORDED,
    },
    Stage.DRAWN: {"releases": DIGEST, "registry": DIGEST, "again": MAPPINGS, **RECORDED},
    Stage.OPENED: {
        "registry": DIGEST,
        "releases": DIGEST,
        "lineage": MAPPINGS,
        "seal_known": FLAG,
        "grant": (_or_none(is_address), "a digest or nothing"),
        **RECORDED,
    },
    Stage.SCORED: {"release": DIGEST, "favorable": FLAG, "statistics": MAPPING, "time": TEXT},
    Stage.CERTIFIED: RECORDED,
    Stage.DEVIATED: {"reason": TEXT, "time": TEXT},
    Stage.CORRECTED: {
        "reason": TEXT,
        "design": DESIGN,
        "decisions": MAPPING,
        "correction": DIGEST,
        **RECORDED,
    },
    Stage.ROTATED: {"successor": IDENTITY, "consent": TEXT, "time": TEXT},
}
COMMITTED: Shape = {"release": DIGEST, "record": MAPPING, **RECORDED}
"""A draw of a sequential audit."""
JUDGED: Shape = {
    "release": DIGEST,
    "round": COUNT,
    "decision": TEXT,
    "level": TEXT,
    "statistics": MAPPING,
    "time": TEXT,
}
"""The score of a candidate of a stream."""
ASKED_AGAIN: Shape = {**BODIES[Stage.DEVIATED], "design": DESIGN}
"""A deviation that is the wish for a second correction."""


def check_body(entry: Entry, path: Path) -> None:
    """Raise unless an entry says all that its step says, and nothing else."""
    step = f"entry {entry.index} of the ledger ({entry.stage.value})"
    if not _are_files(entry.body.get("files", {})):
        raise SealError(f"{step} does not list its files by their digests")
    _check_shape(entry.body, _shape_of(entry, path), step)
    if entry.stage is Stage.SEALED:
        for name, member in entry.body["members"].items():
            _check_member(name, member, entry.body["files"], step)


def _shape_of(entry: Entry, path: Path) -> Shape:
    """Return what a body is held to; some steps have a second form."""
    if entry.stage is Stage.DRAWN and path is Path.SEQUENTIAL:
        return COMMITTED
    if entry.stage is Stage.SCORED and "round" in entry.body:
        return JUDGED
    if entry.stage is Stage.DEVIATED and "design" in entry.body:
        return ASKED_AGAIN
    return BODIES[entry.stage]


def _check_member(name: str, member: Any, files: Mapping[str, str], step: str) -> None:
    where = f"{step}, target {name[:80]!r}"
    if not isinstance(member, Mapping):
        raise SealError(f"{where} is no mapping")
    losses = any(key in member for key in LOSSES)
    _check_shape(member, {**MEMBER, **LOSSES} if losses else MEMBER, where)
    index = member["index"]
    parts = [f"development/{index}.{role}.parquet" for role in member["development"]]
    for file in (f"target/{index}.sealed", *parts):
        if file not in files:
            raise SealError(f"{where}: nothing vouches for {file}")


def _check_shape(body: Mapping[str, Any], shape: Shape, where: str) -> None:
    for key, (test, words) in shape.items():
        if key not in body:
            raise SealError(
                f"{where} has no {key!r}, which is {words}; whoever signed it left it out"
            )
        if not test(body[key]):
            raise SealError(
                f"{where} has {str(body[key])[:80]!r} as {key!r}, which is {words}; whoever signed "
                "it wrote that"
            )
    for key in sorted(set(body) - set(shape)):
        raise SealError(
            f"{where} has {key[:80]!r}, which is nothing that this step says; whoever signed it "
            "wrote that"
        )
