"""An audit's outcome in MLflow, for those who keep their experiments there.

MLflow is not ours and not needed: the function asks for it when it is called. What is logged are
copies for a dashboard; the folder alone is the record, and its head says which one it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.status import StandingVerdict, status_of
from proxyguard.errors import ProxyGuardError, StageError
from proxyguard.printable import printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PAGE = "report.html"
AUDIT = "proxyguard.audit"
_NO_NAME = re.compile(r"[^\w .-]", re.ASCII)
# Letters of a tag, of which MLflow takes 5,000.
LONGEST_TEXT = 4000
# Letters of a mechanism's name in the name of a metric, of which MLflow takes 250 in all.
LONGEST = 200


class _Tracker(Protocol):
    """What is asked of the module ``mlflow``."""

    def active_run(self) -> object | None:
        """Return the run that is going on, if there is one."""

    def start_run(self, *, run_name: str) -> AbstractContextManager[object]:
        """Begin a run, which ends with the context."""

    def log_metrics(self, metrics: dict[str, float]) -> None:
        """Log numbers by name."""

    def set_tags(self, tags: dict[str, str]) -> None:
        """Log text by name."""

    def log_artifact(self, local_path: str, artifact_path: str) -> None:
        """Copy a file."""


def log_to_mlflow(folder: AuditFolder) -> dict[str, float]:
    """Log verdicts, bounds and the page of a certified audit to MLflow.

    Into the run that is active, or into one of its own that is named for the audit.

    Parameters
    ----------
    folder
        The audit's folder.

    Returns
    -------
    dict of str to float
        The metrics that were logged, by name.

    Raises
    ------
    ProxyGuardError
        Where MLflow is not installed.
    StageError
        Where nothing is certified yet.
    """
    if find_spec("mlflow") is None:
        raise ProxyGuardError("MLflow is not installed here; type: pip install mlflow")
    standing = status_of(folder)
    if not standing.verdicts:
        raise StageError("nothing is certified yet, so there is no verdict to log; run open")
    tracker = cast("_Tracker", import_module("mlflow"))
    metrics: dict[str, float] = {}
    tags = {
        AUDIT: printable(standing.name or ""),
        "proxyguard.guarantee": printable(standing.guarantee or ""),
        "proxyguard.attestation": printable(standing.attestation or ""),
        "proxyguard.head": standing.head,
    }
    for name, verdict in _named(standing.verdicts):
        tags[f"proxyguard.{name}.verdict"] = verdict.decision.value
        tags[f"proxyguard.{name}.sentence"] = printable(verdict.sentence)
        bounds = {"lower": verdict.lower, "upper": verdict.upper, "target": verdict.target}
        metrics |= {f"{name}.{bound}": at for bound, at in bounds.items() if at is not None}
    # A run that somebody has begun is theirs, and goes on after this.
    run = nullcontext() if tracker.active_run() else tracker.start_run(run_name=tags[AUDIT])
    with run:
        tracker.set_tags({name: text[:LONGEST_TEXT] for name, text in tags.items()})
        tracker.log_metrics(metrics)
        if folder.has(PAGE):
            tracker.log_artifact(str(folder / PAGE), "proxyguard")
    return metrics


def _named(verdicts: Sequence[StandingVerdict]) -> Iterator[tuple[str, StandingVerdict]]:
    """Yield verdicts, each with a name that MLflow takes and no other has."""
    known: set[str] = set()
    for verdict in verdicts:
        plain = _NO_NAME.sub("_", verdict.mechanism)[:LONGEST]
        name, number = plain, 2
        while name in known:
            name, number = f"{plain} {number}", number + 1
        known.add(name)
        yield name, verdict
