"""Attacks of others: code that a declaration names, which fits and scores in a process of its own.

The class has ``fit(release, reference)`` and ``score(rows)``, on frames, and nothing else in reach:
a fresh interpreter without keys, held to a list of what it may read (`draw.confine`), on which
neither the audit folder nor the table stands, without network, and with so much time as it is
given. Rows of members, calibration and target come shuffled together, under no name and in no order
that would tell which are which.

What a certificate rests on is that a score is a fixed function of one row. Of every batch a few
rows, chosen by chance, are therefore scored again in a fresh process, each of them alone in a fork.
Other scores than before mean that the attack looks at other rows or at chance: it is refused.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from proxyguard.draw.catalog import load_callable
from proxyguard.draw.confine import Needs, confine, leave_network
from proxyguard.draw.processes import (
    LENGTH,
    ChildLine,
    answer_once,
    in_a_fork,
    put,
    refuse_without_fork,
    started,
)
from proxyguard.errors import AttackRefused, UntrustedCode
from proxyguard.exact.rounding import Array
from proxyguard.tables.files import read_table_bytes, table_bytes

if TYPE_CHECKING:
    import pandas as pd

# Rows of a batch that are scored again alone.
CHECKED = 12
# Seconds that an attack has to fit, and to score one batch.
TIMEOUT = 600.0
_WORDS = 500
_TABLES = ("the release", "the reference rows", "the rows to score")


class ForeignAttack(Protocol):
    """What a class that an import path names has."""

    def fit(self, release: pd.DataFrame, reference: pd.DataFrame) -> None:
        """Learn what there is to learn from a release, beside rows that it was not made from."""

    def score(self, rows: pd.DataFrame) -> Sequence[float]:
        """Return a number for each row, larger where it looks like a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How code of others is run.

    Attributes
    ----------
    forbidden
        Files and folders that it may not read: keys, the target, the home.
    timeout
        Seconds that it has for one batch.
    """

    forbidden: tuple[str, ...] = ()
    timeout: float = TIMEOUT


class _AttackJob(BaseModel):
    """What the child is asked for; the tables follow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    options: dict[str, JsonValue]
    forbidden: tuple[str, ...]
    alone: bool


class _AttackSaid(BaseModel):
    """What the child answers; its scores follow."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    error: str | None = None
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAttack:
    """An attack by import path, fitted to one release.

    Attributes
    ----------
    name
        What the declaration calls it.
    path, options
        Where its class is, and what it is made with.
    release, reference
        Frames of the columns that attacks read.
    apart
        How its code is run.
    """

    name: str
    path: str
    options: Mapping[str, JsonValue]
    release: pd.DataFrame
    reference: pd.DataFrame
    apart: Apart

    def scores(self, groups: Sequence[pd.DataFrame]) -> list[Array]:
        """Return the scores of each group of rows, which are scored shuffled together.

        Raises
        ------
        AttackRefused
            It failed, did not answer in time, gave no finite number for a row, or gave a row alone
            another score than among others.
        """
        import pandas as pd

        rows = pd.concat(groups, ignore_index=True)
        # From the system and no seed: the code might know the seed, and with it the order.
        rng = np.random.default_rng(secrets.randbits(128))
        order = rng.permutation(len(rows))
        shuffled = self._answered(rows.iloc[order], alone=False)
        chosen = rng.permutation(len(rows))[:CHECKED]
        again = self._answered(rows.iloc[order[chosen]], alone=True)
        for position, score in zip(chosen, again, strict=True):
            if score != shuffled[position]:
                raise AttackRefused(
                    f"attack {self.name!r} gave a row the score {score!r} alone and "
                    f"{shuffled[position]!r} among {len(rows):,} rows: its score depends on other "
                    "rows or on chance, and a claim is about a fixed function of one row. Score "
                    "each row from that row and what was fitted alone, draw chance in fit from a "
                    "seed of the options, and round scores whose last digits depend on the order "
                    "of a sum"
                )
        scores = np.empty(len(rows))
        scores[order] = shuffled
        ends = np.cumsum([len(group) for group in groups])[:-1]
        return np.split(scores, ends)

    def _answered(self, rows: pd.DataFrame, *, alone: bool) -> Array:
        """Return what a fresh process says of these rows."""
        job = _AttackJob(
            path=self.path,
            options=dict(self.options),
            # Absolute: the child works in a folder of its own.
            forbidden=tuple(os.path.abspath(path) for path in self.apart.forbidden),
            alone=alone,
        )
        tables = [table_bytes(frame) for frame in (self.release, self.reference, rows)]
        try:
            said, content = _asked(job, tables, 8 * len(rows), self.apart.timeout)
        except UntrustedCode as error:
            raise self._refused(f"was not heard: {error}") from None
        if said.error is not None:
            raise self._refused(f"failed: {said.error[:_WORDS]}")
        scores = np.frombuffer(content, dtype="<f8").astype(np.float64)
        if scores.size != len(rows) or not np.isfinite(scores).all():
            raise self._refused(
                f"gave {scores.size:,} scores for {len(rows):,} rows, of which "
                f"{int(np.isfinite(scores).sum()):,} are finite numbers; score returns one for "
                "each row, in their order"
            )
        return scores

    def _refused(self, what: str) -> AttackRefused:
        return AttackRefused(f"attack {self.name!r} ({self.path}) {what}")


def _asked(
    job: _AttackJob, tables: Sequence[bytes], most: int, timeout: float
) -> tuple[_AttackSaid, bytes]:
    """Start a process, give it a job and return what it answers."""
    refuse_without_fork("an attack by import path")
    with started("proxyguard.exposure.named", timeout) as line:
        with suppress(BrokenPipeError):  # it ended early, which the missing answer says
            line.write(job.model_dump_json().encode() + b"\n")
            for table in tables:
                put(line, table)
            line.close()
        return _received(line, most)


def _received(line: ChildLine, most: int) -> tuple[_AttackSaid, bytes]:
    head = line.read(int.from_bytes(line.read(LENGTH), "big") & 0xFFFF)
    try:
        said = _AttackSaid.model_validate_json(head)
    except ValidationError:
        return _AttackSaid(error="it ended without an answer"), b""
    # Bounded by what was asked for: code that says more fills no memory.
    return said, line.read(said.size) if 0 <= said.size <= most else b""


def _do_job(source: IO[bytes]) -> bytes:
    """Fit and score."""
    job = _AttackJob.model_validate_json(source.readline())
    release, reference, rows = (
        read_table_bytes(_exactly(source, int.from_bytes(_exactly(source, LENGTH), "big")), name)
        for name in _TABLES
    )
    try:
        needs = Needs(forbidden=job.forbidden, reads=(), code=(job.path,))
        confine(needs, str(Path.cwd()))
        leave_network()  # from here on other code than ours may be loaded
        attack = cast("ForeignAttack", load_callable(job.path)(**job.options))
        attack.fit(release, reference)
        content = _alone(attack, rows) if job.alone else _scored(attack, rows)
        said = _AttackSaid(size=len(content))
    except Exception as error:  # whatever the code raises is told, and refuses it
        text = f"{type(error).__name__}: {error}"[:_WORDS].encode(errors="replace").decode()
        said, content = _AttackSaid(error=text), b""
    head = said.model_dump_json().encode()
    return len(head).to_bytes(LENGTH, "big") + head + content


def _scored(attack: ForeignAttack, rows: pd.DataFrame) -> bytes:
    scores = np.asarray(attack.score(rows), dtype="<f8")
    if scores.shape != (len(rows),):
        raise ValueError(f"score gave an array of shape {scores.shape} for {len(rows)} rows")
    return scores.tobytes()


def _alone(attack: ForeignAttack, rows: pd.DataFrame) -> bytes:
    """Return the scores of rows, each of which a fork sees that has seen no other."""
    content = b""
    for k in range(len(rows)):
        single = rows.iloc[[k]].reset_index(drop=True)
        forked = in_a_fork(partial(_scored, attack, single))
        if forked.made is None:
            raise ValueError("score gave nothing for a row by itself")
        content += forked.made
    return content


def _exactly(source: IO[bytes], size: int) -> bytes:
    content = source.read(size)
    if len(content) != size:
        raise ValueError("the job was cut off")
    return content


if __name__ == "__main__":
    answer_once(_do_job)
