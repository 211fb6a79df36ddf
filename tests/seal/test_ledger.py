"""The order of an audit's steps, and that no recorded step can be rewritten unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import DigestMismatch, SealError, StageError
from proxyguard.seal.ledger import ORIGIN, Entry, Ledger, Stage

A, B = "a" * 64, "b" * 64
AUTHOR, HEIR = "1" * 128, "2" * 128
KEY = AUTHOR[:64]
FIXED: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, {"target": A, "author": AUTHOR}),
    (Stage.DEVELOPED, {"pilot": A}),
    (Stage.REGISTERED, {"declaration": A}),
    (Stage.AMENDED, {"declaration": B, "supersedes": A, "reason": "fewer rows"}),
    (Stage.DRAWN, {"releases": A}),
    (Stage.OPENED, {}),
    (Stage.CERTIFIED, {"certificate": A}),
    (Stage.DEVIATED, {"reason": "the reserve was stratified"}),
    (Stage.CORRECTED, {"certificate": B}),
]
SEQUENTIAL: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, {"target": A, "author": AUTHOR}),
    (Stage.REGISTERED, {"declaration": A, "path": "sequential"}),
    (Stage.OPENED, {}),
    (Stage.DRAWN, {"release": A}),
    (Stage.SCORED, {"release": A, "favorable": True}),
    (Stage.DRAWN, {"release": B}),
    (Stage.SCORED, {"release": B, "favorable": False}),
    (Stage.CERTIFIED, {"certificate": A}),
]


def ledger(steps: list[tuple[Stage, dict[str, Any]]]) -> Ledger:
    record = Ledger()
    for stage, body in steps:
        record.append(stage, body, KEY)
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
    lines = [entry.to_bytes() for entry in record.entries]
    again = Ledger(Entry.from_dict(json.loads(line)) for line in lines)
    assert again.head == record.head
    assert [entry.to_bytes() for entry in again.entries] == lines


@pytest.mark.parametrize(
    ("before", "stage", "body", "why"),
    [
        (0, Stage.DEVELOPED, {}, "sealed first"),
        (0, Stage.OPENED, {}, "sealed first"),
        (1, Stage.SEALED, {}, "once"),
        (1, Stage.DRAWN, {}, "registered first"),
        (1, Stage.REGISTERED, {}, "name its declaration"),
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
        (9, Stage.DEVIATED, {"decisions": {"m": "validated"}}, "decides nothing"),
        (7, Stage.CERTIFIED, {}, "once"),
        (7, Stage.DRAWN, {}, "certified"),
    ],
)
def test_a_step_out_of_order_is_refused_and_changes_nothing(
    before: int, stage: Stage, body: dict[str, Any], why: str
) -> None:
    record = ledger(FIXED[:before])
    head = record.head
    with pytest.raises(StageError, match=why):
        record.append(stage, body, KEY)
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
        (3, Stage.DRAWN, {}, "name its release"),
        (8, Stage.DRAWN, {"release": A}, "certified"),
    ],
)
def test_a_sequential_audit_commits_each_draw_before_its_score(
    before: int, stage: Stage, body: dict[str, Any], why: str
) -> None:
    with pytest.raises(StageError, match=why):
        ledger(SEQUENTIAL[:before]).append(stage, body, KEY)


def test_the_declaration_in_force_is_the_last_amendment() -> None:
    assert up_to(Stage.REGISTERED).declaration is None
    assert up_to(Stage.AMENDED).declaration == A
    assert up_to(Stage.DRAWN).declaration == B


def test_releases_can_be_excluded_after_drawing_and_before_opening() -> None:
    record = up_to(Stage.OPENED)
    record.append(Stage.AMENDED, {"declaration": A, "supersedes": B, "excluded": ["3"]}, KEY)
    record.append(Stage.OPENED, {}, KEY)
    assert record.declaration == A


@given(
    st.integers(0, len(FIXED) - 2),
    st.sampled_from(["body", "stage", "previous", "signer", "dropped"]),
)
def test_rewriting_any_step_but_the_last_breaks_the_chain(index: int, what: str) -> None:
    entries = list(ledger(FIXED).entries)
    if what == "body":
        entries[index] = replace(entries[index], body={**entries[index].body, "extra": "1"})
    elif what == "stage":
        other = Stage.DEVIATED if entries[index].stage is not Stage.DEVIATED else Stage.DEVELOPED
        entries[index] = replace(entries[index], stage=other)
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
    entries[-1] = replace(entries[-1], body={"certificate": A})
    assert Ledger(entries).head != honest


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 3}, "format 3"),
        ({"stage": "peeked"}, "unknown step 'peeked'"),
        ({"note": "hello"}, "note"),
        ({"index": "0"}, "whole number"),
    ],
)
def test_an_entry_of_another_make_is_refused_by_name(change: dict[str, Any], why: str) -> None:
    entry = ledger(FIXED[:1]).entries[0].to_dict()
    with pytest.raises(SealError, match=why):
        Entry.from_dict({**entry, **change})


def test_what_cannot_be_sealed_is_not_recorded() -> None:
    record = Ledger()
    with pytest.raises(SealError, match="nan"):
        record.append(Stage.SEALED, {"author": AUTHOR, "share": float("nan")}, KEY)
    assert record.entries == ()


def test_a_seal_is_signed_by_the_author_it_names() -> None:
    with pytest.raises(StageError, match=r"its author is 1{16}\.\.\., and it is signed by 2{16}"):
        Ledger().append(Stage.SEALED, {"author": AUTHOR}, HEIR[:64])
    for author in (None, KEY, AUTHOR.replace("1", "g"), 7):
        with pytest.raises(StageError, match="must name its author by identity"):
            Ledger().append(Stage.SEALED, {"author": author}, KEY)


def test_another_key_signs_only_after_the_one_before_handed_over() -> None:
    record = up_to(Stage.DRAWN)
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(Stage.DRAWN, {"releases": A}, HEIR[:64])
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(Stage.ROTATED, {"successor": HEIR}, HEIR[:64])
    record.append(Stage.ROTATED, {"successor": HEIR}, KEY)
    with pytest.raises(StageError, match="has not handed over to it"):
        record.append(Stage.DRAWN, {"releases": A}, KEY)  # who handed over signs no more
    record.append(Stage.DRAWN, {"releases": A}, HEIR[:64])
    assert (record.signer, record.author) == (HEIR[:64], HEIR)
    assert record.author_after(0) == AUTHOR


def test_a_key_that_was_given_up_does_not_come_back() -> None:
    record = up_to(Stage.DRAWN)
    record.append(Stage.ROTATED, {"successor": HEIR}, KEY)
    with pytest.raises(StageError, match="has signed here before"):
        record.append(Stage.ROTATED, {"successor": AUTHOR}, HEIR[:64])
    with pytest.raises(StageError, match="name its successor by identity"):
        record.append(Stage.ROTATED, {"successor": AUTHOR[:64]}, HEIR[:64])


@pytest.mark.parametrize(
    ("note", "body"),
    [(Stage.DEVIATED, {"reason": "a power cut"}), (Stage.ROTATED, {"successor": HEIR})],
)
def test_a_note_between_a_committed_draw_and_its_score_keeps_them_together(
    note: Stage, body: dict[str, Any]
) -> None:
    record = ledger(SEQUENTIAL[:4])
    record.append(note, body, KEY)
    assert record.waiting is not None
    key = str(record.signer)
    with pytest.raises(StageError, match="not been scored"):
        record.append(Stage.DRAWN, {"release": B}, key)
    record.append(*SEQUENTIAL[4], key)
    assert record.waiting is None
