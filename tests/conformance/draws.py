"""Drawing as the drawing processes do, without the seconds that starting them takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxyguard.adapters.worker import make_learner
from proxyguard.draw.answers import Answer, explain, packed, readiness
from proxyguard.draw.confine import guard_here
from proxyguard.draw.protocol import Seed
from proxyguard.draw.sources import answer
from proxyguard.draw.worker import Fitter, Worker
from proxyguard.errors import RegistryError


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


def ask_here(job: Mapping[str, Any], *, kind: Any, **_: Any) -> Any:
    """Stand for ``asked``: what a generator says of itself, with its code in this process."""
    try:
        said = answer(job)
    except Exception as error:
        said = {"status": "unready", "error": explain(error)}
    return readiness(packed(said), job, kind, RegistryError)
