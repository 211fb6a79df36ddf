"""What MLflow is told: verdicts, bounds and the page, under names that it takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import proxyguard as pg
from proxyguard.audit import tracking
from proxyguard.audit.audit import Audit
from proxyguard.audit.status import status_of
from proxyguard.cli.main import app


class Tracker(ModuleType):
    """MLflow's functions, as its documentation has them, with its refusals."""

    def __init__(self, active: object | None = None) -> None:
        super().__init__("mlflow")
        self.__spec__ = ModuleSpec("mlflow", None)
        self.active, self.runs, self.logged, self.tags, self.files = active, [], {}, {}, []  # type: ignore[var-annotated]

    def active_run(self) -> object | None:
        return self.active

    @contextmanager
    def start_run(self, *, run_name: str) -> Any:
        self.runs.append(run_name)
        self.active = object()
        yield self.active
        self.active = None

    def _check(self, names: Any) -> None:
        assert self.active is not None
        for name in names:
            assert re.fullmatch(r"[\w\-. /]{1,250}", name, re.ASCII), name

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self._check(metrics)
        self.logged |= metrics

    def set_tags(self, tags: dict[str, str]) -> None:
        self._check(tags)
        assert all(len(text) <= 5000 for text in tags.values())
        self.tags |= tags

    def log_artifact(self, local_path: str, artifact_path: str) -> None:
        self.files.append((Path(local_path).read_bytes()[:15], artifact_path))


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Tracker:
    stand_in = Tracker()
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    return stand_in


def test_a_certified_audit_is_logged_into_a_run_of_its_own(
    at: Callable[[str], Audit], tracker: Tracker
) -> None:
    audit = at("certified")
    (verdict,) = audit.status().verdicts
    folder = audit.folder.path
    done = CliRunner().invoke(app, ["report", str(folder), "--mlflow"])
    assert done.exit_code == 0, done.output
    assert tracker.runs == ["small"]
    assert tracker.active is None
    assert tracker.logged["bootstrap.lower"] == verdict.lower
    assert tracker.logged["bootstrap.target"] == 0.6
    assert tracker.tags["proxyguard.bootstrap.verdict"] == verdict.decision.value
    assert tracker.tags["proxyguard.head"] == audit.status().head
    assert tracker.files == [(b"<!DOCTYPE html>", "proxyguard")]


def test_a_run_that_somebody_began_goes_on(at: Callable[[str], Audit], tracker: Tracker) -> None:
    tracker.active = theirs = object()
    tracking.log_to_mlflow(at("certified").folder)
    assert tracker.runs == []
    assert tracker.active is theirs


def test_any_mechanism_has_a_name_that_is_taken_and_its_own(
    at: Callable[[str], Audit], tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = at("certified").folder
    standing = status_of(folder)
    names = ["a:b", "a*b", "x" * 400, "\x1b[2J\n"]
    many = tuple(
        replace(standing.verdicts[0], mechanism=name, sentence="s" * 9000) for name in names
    )
    monkeypatch.setattr(tracking, "status_of", lambda _: replace(standing, verdicts=many))
    logged = tracking.log_to_mlflow(folder)
    assert {"a_b.lower", "a_b 2.lower"} <= set(logged)
    assert len([name for name in logged if name.endswith(".lower")]) == len(names)


def test_without_mlflow_it_is_said_what_to_install(
    at: Callable[[str], Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    with pytest.raises(pg.ProxyGuardError, match="pip install mlflow"):
        tracking.log_to_mlflow(at("certified").folder)


def test_an_audit_without_a_verdict_has_nothing_to_log(
    at: Callable[[str], Audit], tracker: Tracker
) -> None:
    with pytest.raises(pg.StageError, match="nothing is certified yet"):
        tracking.log_to_mlflow(at("drawn").folder)
    assert tracker.runs == []


def test_several_audits_are_not_logged_at_once(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), str(tmp_path), "--mlflow"])
    assert done.exit_code == 2
