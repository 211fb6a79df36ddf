"""Drawing as the drawing processes do, without the seconds that starting them takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxyguard.adapters.worker import make_learner
from proxyguard.draw.answers import Answer
from proxyguard.draw.confine import guard_here
from proxyguard.draw.fitting import Fitter
from proxyguard.draw.protocol import Seed
from proxyguard.draw.worker import Worker


class DrawHere:
    """A job's generator and its procedure, both in this process."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._worker, self._fitter = Worker(job), Fitter(job, make_learner(job))

    def draw(self, seed: int) -> Answer:
        """Return the record, the release and the model of one draw."""
        record, release, model = self._fitter.fit(*self._worker.draw(Seed(seed)))
        return {**record, **self._worker.prepared, "guard": guard_here()}, release, model


def nothing_changed() -> None:
    """Stand for a check that sees nothing changed."""


def draw_here(
    job: Mapping[str, Any],
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
        answer = drawing.draw(seed)
        check()
        keep(*answer)
