"""The steps of an audit come in order, once each, and end in a certificate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.draw.confine import guard_here
from proxyguard.errors import StageError

At = Callable[[str], Audit]


def test_a_whole_audit_is_certified_and_verified(at: At) -> None:
    audit = at("certified")
    certificate = audit.certificate().to_dict()
    assert [v["mechanism"] for v in certificate["verdicts"]] == ["bootstrap"]
    assert certificate["claim_status"]["guarantee"] == "yes"
    assert certificate["attestation"]["kind"] == "self-attested"
    found = audit.verify()
    assert found.good, found.findings
    assert found.unknown == []


@pytest.mark.parametrize(
    ("stage", "step"),
    [
        ("new", "register"), ("new", "draw"), ("new", "open"), ("sealed", "seal"),
        ("sealed", "draw"), ("sealed", "open"), ("registered", "register"),
        ("registered", "open"), ("registered", "seal"), ("certified", "seal"),
    ],
)  # fmt: skip
def test_a_step_too_early_or_twice_changes_nothing(at: At, stage: str, step: str) -> None:
    audit = at(stage)
    before = {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}
    with pytest.raises(StageError):
        getattr(audit, step)()
    assert {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()} == before


def test_opening_again_reproduces_the_same_bytes_and_adds_nothing(at: At) -> None:
    audit = at("certified")
    before = {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}
    audit.open()
    assert {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()} == before


def test_the_manifest_says_how_every_draw_was_made_and_nothing_that_was_declared(at: At) -> None:
    frozen = json.loads(at("drawn").folder.read("releases.json"))["members"]["target"]["bootstrap"]
    assert "deterministic" not in frozen
    assert [record["seed"] for record in frozen["draws"]] == list(range(100, 108))
    for record in frozen["draws"]:
        assert record["format"] == 1
        assert record["prepared_at_random"] is False
        assert record["guard"] == guard_here()


def test_the_report_says_what_held_the_draws(at: At) -> None:
    report = (at("certified").folder / "report.md").read_text()
    assert "What held the draws" in report
    assert f"8 by {guard_here()}" in report


def test_a_process_that_was_started_before_it_was_needed_makes_the_draws_and_ends(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def noted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*words, **options))
        return started[-1]

    monkeypatch.setattr("proxyguard.draw.pool.subprocess.Popen", noted)
    audit = at("registered")
    with audit._drawing_soon():
        (early,) = started
        assert audit.draw().mechanisms
    assert started == [early]
    assert early.returncode == 0
    assert audit.place.pool is not audit.place.pool  # a later step starts its own
