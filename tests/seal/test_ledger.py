"""The order of an audit's steps, and that no recorded step can be rewritten unnoticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.documents.ledger import Body, LedgerEntry, read_body
from proxyguard.errors import DigestMismatch, DocumentError, SealError, StageError
from proxyguard.seal.ledger import ORIGIN, Entry, Ledger, Stage

A, B = "a" * 64, "b" * 64
AUTHOR, HEIR = "1" * 128, "2" * 128
KEY = AUTHOR[:64]
STATISTICS = {
    "releases": ["r"], "requirements": [], "limits": [], "tests": [],
    "columns": [], "derived": {"pvalues": [], "violation_pvalues": [], "estimates": []},
}  # fmt: skip
FAILED = {"seed": 1, "status": "failed", "error": "none", "guard": "audit hook"}
LEAST: dict[Stage, dict[str, Any]] = {
    Stage.SEALED: {
        "audit": "0" * 32, "name": "small", "declaration": A, "lineage": [], "steward": None,
        "author": AUTHOR, "software": {}, "files": {"target/0.sealed": A}, "members": {
            "target": {
                "index": 0, "records": 3, "commitment": A, "nonce_digest": A, "kinds": [],
                "negative": None, "estimand": "the mean", "development": {}, "expected_twins": {},
            },
        },
    },
    Stage.DEVELOPED: {"members": {}, "files": {}},
    Stage.REGISTERED: {"declaration": A, "path": "fixed", "lineage": [], "files": {}},
    Stage.AMENDED: {"reason": "fewer rows", "void": [], "pending": 0, "files": {}},
    Stage.DRAWN: {"registry": A, "again": [], "files": {}},
    Stage.OPENED: {
        "registry": A, "releases": A, "lineage": [], "seal_known": True, "grant": None, "files": {},
    },
    Stage.SCORED: {"favorable": True, "statistics": STATISTICS},
    Stage.CERTIFIED: {"files": {}},
    Stage.DEVIATED: {"reason": "the reserve was stratified"},
    Stage.CORRECTED: {"reason": "?", "design": "iid", "decisions": {}, "correction": B,
                      "files": {}},
    Stage.ROTATED: {"consent": "00"},
}  # fmt: skip
"""The least that each step says, but for what its tests are about."""


def said(stage: Stage, changes: dict[str, Any]) -> Body:
    """Return what a step says, and that a draw of a sequential audit commits one release."""
    committed = stage is Stage.DRAWN and "release" in changes
    least = {"record": FAILED, "files": {}} if committed else LEAST[stage]
    return read_body(stage, {**least, **changes, "time": "now"}, stage.value)


FIXED: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, {}),
    (Stage.DEVELOPED, {}),
    (Stage.REGISTERED, {"declaration": A}),
    (Stage.AMENDED, {"declaration": B, "supersedes": A}),
    (Stage.DRAWN, {"releases": A}),
    (Stage.OPENED, {}),
    (Stage.CERTIFIED, {}),
    (Stage.DEVIATED, {}),
    (Stage.CORRECTED, {}),
]
SEQUENTIAL: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, {}),
    (Stage.REGISTERED, {"declaration": A, "path": "sequential"}),
    (Stage.OPENED, {}),
    (Stage.DRAWN, {"release": A}),
    (Stage.SCORED, {"release": A, "favorable": True}),
    (Stage.DRAWN, {"release": B}),
    (Stage.SCORED, {"release": B, "favorable": False}),
    (Stage.CERTIFIED, {}),
]


def ledger(steps: list[tuple[Stage, dict[str, Any]]]) -> Ledger:
    record = Ledger()
    for stage, body in steps:
        record.append(said(stage, body), KEY)
    return record


def up_to(stage: Stage, steps: list[tuple[Stage, dict[str, Any]]] = FIXED) -> Ledger:
    """Return the audit just before its first step of this kind."""
    return ledger(steps[: [s for s, _ in steps].index(stage)])


@pytest.mark.parametrize("steps", [FIXED, SEQUENTIAL], ids=["fixed", "sequential"])
def test_a_whole_audit_is_recorded_in_order_and_reads_back(
    steps: list[tuple[Stage, dict[str, Any]]],
) -> None:
    record = ledger(steps)
    assert [entry.stage for entry in record.entries] == [stage for stage, _ in steps]
    assert record.entries[0].previous == ORIGIN
    lines = [entry.content for entry in record.entries]
    again = Ledger(Entry.of(LedgerEntry.read(line, "a line")) for line in lines)
    assert again.head == record.head
    assert [entry.content for entry in again.entries] == lines


@pytest.mark.parametrize(
    ("before", "stage", "body", "why"),
    [
        (0, Stage.DEVELOPED, {}, "sealed first"),
        (0, Stage.OPENED, {}, "sealed first"),
        (1, Stage.SEALED, {}, "once"),
        (1, Stage.DRAWN, {"releases": A}, "registered first"),
        (3, Stage.DEVELOPED, {}, "ends with registration"),
        (3, Stage.REGISTERED, {"declaration": B}, "once"),
        (3, Stage.OPENED, {}, "drawn first"),
        (3, Stage.AMENDED, {"declaration": B, "supersedes": B}, "supersedes"),
        (4, Stage.AMENDED, {"declaration": A, "supersedes": A}, "supersedes"),
        (3, Stage.CERTIFIED, {}, "not been opened"),
        (3, Stage.DEVIATED, {}, "not been opened"),
        (5, Stage.DRAWN, {"releases": B}, "once"),
        (6, Stage.OPENED, {}, "once"),
        (6, Stage.AMENDED, {"declaration": A, "supersedes": B}, "opened; record a deviation"),
        (6, Stage.SCORED, {"release": A}, "fixed audit"),
        (6, Stage.CORRECTED, {}, "no certificate"),
        (9, Stage.CORRECTED, {}, "there is one correction already"),
        (7, Stage.CERTIFIED, {}, "once"),
        (7, Stage.DRAWN, {"releases": A}, "certified"),
        (4, Stage.DRAWN, {"release": A}, "freezes its draws together"),
    ],
)
def test_a_step_out_of_order_is_refused_and_changes_nothing(
    before: int, stage: Stage, body: dict[str, Any], why: str
) -> None:
    record = ledger(FIXED[:before])
    head = record.head
    with pytest.raises(StageError, match=why):
        record.append(said(stage, body), KEY)
    assert record.head == head


@pytest.mark.parametrize(
    ("before", "stage", "body", "why"),
    [
        (2, Stage.DRAWN, {"release": A}, "after the target is opened"),
        (4, Stage.DRAWN, {"release": B}, "not been scored"),
        (4, Stage.SCORED, {"release": B}, "committed just before"),
        (3, Stage.SCORED, {"release": A}, "committed just before"),
        (5, Stage.SCORED, {"release": A}, "committed just before"),
        (4, Stage.CERTIFIED, {}, "not been scored"),
        (3, Stage.DRAWN, {"releases": A}, "name its release"),
        (8, Stage.DRAWN, {"release": A}, "certified"),
    ],
)
def test_a_sequential_audit_commits_each_draw_before_its_score(
    before: int, stage: Stage, body: dict[str, Any], why: str
) -> None:
    with pytest.raises(StageError, match=why):
        ledger(SEQUENTIAL[:before]).append(said(stage, body), KEY)


def test_the_declaration_in_force_is_the_last_amendment() -> None:
    assert up_to(Stage.REGISTERED).declaration is None
    assert up_to(Stage.AMENDED).declaration == A
    assert up_to(Stage.DRAWN).declaration == B


def test_releases_can_be_excluded_after_drawing_and_before_opening() -> None:
    record = up_to(Stage.OPENED)
    void = [{"mechanism": "m", "seed": 3}]
    amended = {"declaration": A, "supersedes": B, "void": void}
    record.append(said(Stage.AMENDED, amended), KEY)
    record.append(said(Stage.OPENED, {}), KEY)
    assert record.declaration == A


@given(
    st.integers(0, len(FIXED) - 2),
    st.sampled_from(["body", "stage", "previous", "signer", "dropped"]),
)
def test_rewriting_any_step_but_the_last_breaks_the_chain(index: int, what: str) -> None:
    entries = list(ledger(FIXED).entries)
    if what == "body":
        changed = entries[index].body.model_copy(update={"time": "later"})
        entries[index] = replace(entries[index], body=changed)
    elif what == "stage":
        other = Stage.DEVIATED if entries[index].stage is not Stage.DEVIATED else Stage.DEVELOPED
        entries[index] = replace(entries[index], body=said(other, {}))
    elif what == "signer":
        entries[index] = replace(entries[index], signer=HEIR[:64])
    elif what == "previous":
        entries[index] = replace(entries[index], previous=B)
    else:
        del entries[index]
    with pytest.raises((DigestMismatch, StageError)):
        Ledger(entries)


def test_a_rewritten_last_step_shows_only_in_the_head() -> None:
    # Why the head has to be signed or published.
    entries = list(ledger(FIXED).entries)
    honest = Ledger(entries).head
    entries[-1] = replace(entries[-1], body=said(Stage.CORRECTED, {"correction": A}))
    assert Ledger(entries).head != honest


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 3}, "format 3"),
        ({"stage": "peeked"}, "stage: .*found 'peeked'"),
        ({"note": "hello"}, "note"),
        ({"index": "0"}, "index: .*valid integer"),
    ],
)
def test_an_entry_of_another_make_is_refused_by_name(change: dict[str, Any], why: str) -> None:
    entry = ledger(FIXED[:1]).entries[0].to_dict()
    with pytest.raises(SealError, match=why):
        Entry.of(LedgerEntry.of({**entry, **change}, "a line"))


def test_what_cannot_be_sealed_is_not_recorded() -> None:
    record = Ledger()
    with pytest.raises(SealError, match="nan"):
        record.append(said(Stage.CORRECTED, {"design": {"share": float("nan")}}), KEY)
    assert record.entries == ()


def test_a_seal_is_signed_by_the_author_it_names() -> None:
    with pytest.raises(StageError, match=r"its author is 1{16}\.\.\., and it is signed by 2{16}"):
        Ledger().append(said(Stage.SEALED, {}), HEIR[:64])
    for author in (None, KEY, AUTHOR.replace("1", "g"), 7):
        with pytest.raises(DocumentError, match="author: "):
            said(Stage.SEALED, {"author": author})


def test_another_key_signs_only_after_the_one_before_handed_over() -> None:
    record = up_to(Stage.DRAWN)
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(said(Stage.DRAWN, {"releases": A}), HEIR[:64])
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(said(Stage.ROTATED, {"successor": HEIR}), HEIR[:64])
    record.append(said(Stage.ROTATED, {"successor": HEIR}), KEY)
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(said(Stage.DRAWN, {"releases": A}), KEY)  # who handed over signs no more
    record.append(said(Stage.DRAWN, {"releases": A}), HEIR[:64])
    assert (record.signer, record.author) == (HEIR[:64], HEIR)
    assert record.author_after(0) == AUTHOR


def test_a_key_that_was_given_up_does_not_come_back() -> None:
    record = up_to(Stage.DRAWN)
    record.append(said(Stage.ROTATED, {"successor": HEIR}), KEY)
    with pytest.raises(StageError, match="has signed here before"):
        record.append(said(Stage.ROTATED, {"successor": AUTHOR}), HEIR[:64])
    with pytest.raises(DocumentError, match="successor: "):
        said(Stage.ROTATED, {"successor": AUTHOR[:64]})


@pytest.mark.parametrize(
    ("note", "body"),
    [(Stage.DEVIATED, {"reason": "a power cut"}), (Stage.ROTATED, {"successor": HEIR})],
)
def test_a_note_between_a_committed_draw_and_its_score_keeps_them_together(
    note: Stage, body: dict[str, Any]
) -> None:
    record = ledger(SEQUENTIAL[:4])
    record.append(said(note, body), KEY)
    assert record.waiting is not None
    key = str(record.signer)
    with pytest.raises(StageError, match="not been scored"):
        record.append(said(Stage.DRAWN, {"release": B}), key)
    record.append(said(*SEQUENTIAL[4]), key)
    assert record.waiting is None
