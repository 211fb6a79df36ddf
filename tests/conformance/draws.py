"""Drawing as the drawing processes do, without the seconds that starting them takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proxyguard.adapters.worker import make_learner
from proxyguard.draw.confine import guard_here
from proxyguard.draw.drawing import Fitter, Worker
from proxyguard.draw.job import AskJob, DrawJob
from proxyguard.draw.messages import DrawResult, Said, Unready, error_words, packed, readiness
from proxyguard.draw.pool import Draws
from proxyguard.draw.protocol import Seed
from proxyguard.draw.sources import answer
from proxyguard.errors import RegistryError


class DrawHere:
    """A job's generator and its procedure, both in this process."""

    def __init__(self, job: DrawJob) -> None:
        self._worker, self._fitter = Worker(job), Fitter(job, make_learner(job))

    def draw(self, seed: int) -> DrawResult:
        """Return what is said of one draw, its release and its model."""
        said, release, model = self._fitter.fit(*self._worker.draw(Seed(seed)))
        return DrawResult(
            said=said,
            release=release,
            model=model,
            guard=guard_here(),
            prepared=self._worker.prepared,
        )


def nothing_changed() -> None:
    """Stand for a check that sees nothing changed."""


def draw_here(
    job: DrawJob,
    seeds: Sequence[int],
    *,
    keep: Callable[..., None],
    check: Callable[[], None] = nothing_changed,
    **_: Any,
) -> None:
    """Stand for ``draw_all`` where starting a process is not what is tested."""
    if not seeds:
        return
    drawing = DrawHere(job)
    for seed in seeds:
        check()
        result = drawing.draw(seed)
        check()
        keep(result)


def ask_here(job: AskJob, *, kind: Any, **_: Any) -> Any:
    """Stand for ``asked``: what a generator says of itself, with its code in this process."""
    said: Said
    try:
        said = answer(job)
    except Exception as error:
        said = Unready(error=error_words(error))
    return readiness(packed(said), job, kind, RegistryError)


def draw_groups_here(groups: Sequence[Draws], **settings: Any) -> None:
    """Draw the seeds of several jobs, one job after the other."""
    for group in groups:
        draw_here(group.job, group.seeds, keep=group.keep, check=group.check, **settings)


def draw_here_with(patch: pytest.MonkeyPatch) -> None:
    """Let audits draw and ask in this process until the patch is undone."""
    patch.setattr("proxyguard.audit.jobs.asked", ask_here)
    for module in ("draw", "sequential"):
        patch.setattr(f"proxyguard.audit.{module}.draw_all", draw_here)
    patch.setattr("proxyguard.audit.development.draw_groups", draw_groups_here)
