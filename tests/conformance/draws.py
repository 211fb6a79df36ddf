"""Drawing as the drawing process does, without the seconds that starting it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxyguard.adapters.worker import make_learner
from proxyguard.draw.confine import guard_here
from proxyguard.draw.protocol import Seed
from proxyguard.draw.worker import Worker


def draw_here(
    job: Mapping[str, Any], seeds: Sequence[int], *, keep: Callable[..., None], **_: Any
) -> None:
    """Stand for ``draw_all`` where starting a process is not what is tested."""
    worker = Worker(job, make_learner(job))
    for seed in seeds:
        record, release, model = worker.draw(Seed(seed))
        stated = {"prepared_at_random": worker.prepared_at_random, "guard": guard_here()}
        keep({**record, **stated}, release, model)
