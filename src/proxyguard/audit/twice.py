"""One seed drawn twice, before anything is sealed: is a release what its seed gives?

A draw that something beside its seed decides (numpy's own generator, a clock, the order of a set)
passes every step, and nobody can draw it again. So `check` draws a seed that is none of the
declared ones, from the training part, in two processes that share nothing, and keeps no release.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from proxyguard.audit.jobs import generator_fields, release_schema
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult, Failed
from proxyguard.draw.pool import DrawingPool, draw_all, ended_after, nothing_registered
from proxyguard.errors import DrawError, RegistryError
from proxyguard.tables.files import table_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from proxyguard.audit.development import Workplace
    from proxyguard.registry.declaration import Member
    from proxyguard.registry.parts import MechanismPart

# Seconds that either process may take; what needs longer is not tried.
LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class Tried:
    """What two draws of one seed showed."""

    end: Literal["same", "other", "failed", "slow"]
    why: str = ""


def drawn_twice(
    place: Workplace, member: Member, mechanism: MechanismPart, training: pd.DataFrame,
    kinds: Mapping[str, str],
) -> Tried:  # fmt: skip
    """Draw one seed in two processes and compare the releases.

    Parameters
    ----------
    place
        What the command works with.
    member, mechanism
        What is drawn; its generator is code of others.
    training
        The rows that draws are made from.
    kinds
        What each column holds.
    """
    generator = str(mechanism.generator)
    schema = release_schema(member, kinds, generator)
    declared = {seed for m in member.mechanism for seed in m.seed_list}
    seed = next(seed for seed in count(2**31 - 1, -1) if seed not in declared)
    contents = []
    with TemporaryDirectory(prefix="proxyguard-") as folder:
        source = Path(folder) / "training.parquet"
        source.write_bytes(table_bytes(training))
        job = DrawJob(
            **generator_fields(place, member, generator, mechanism.options),
            name=mechanism.name, source=str(source), source_rows=len(training),
            kinds=dict(schema.kinds), missing=schema.missing, columns=dict(schema.columns),
            labelled=schema.labelled, allow=tuple(mechanism.allow),
            prepare_seed=mechanism.prepare_seed, may_ignore_seed=mechanism.deterministic,
            coins=mechanism.inclusion == "coins",
        )  # fmt: skip
        # Not forks of one process: what it made at random once, both would have alike.
        with DrawingPool() as other:
            for pool in (place.pool, other):
                result = _drawn(job, seed, pool)
                if isinstance(result, Tried):
                    return result
                contents.append(result)
    return Tried("same" if contents[0] == contents[1] else "other")


def _drawn(job: DrawJob, seed: int, pool: DrawingPool) -> str | Tried:
    """Return the digest of one draw's records, or how it ended without."""
    results: list[DrawResult] = []
    with ended_after(LIMIT, pool.end) as late:
        try:
            draw_all(job, [seed], pool=pool, workers=1, timeout=LIMIT, keep=results.append,
                     check=nothing_registered)  # fmt: skip
        except (DrawError, RegistryError) as error:
            return Tried("slow") if late.is_set() else Tried("failed", str(error))
    said = results[0].said
    if isinstance(said, Failed):
        return Tried("slow" if said.status == "timeout" else "failed", said.error)
    return said.content
