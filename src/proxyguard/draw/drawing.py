"""What one draw is and what one fit is, in whichever process they are made.

`Worker` has the generator of a job and gives tables; `Fitter` has its procedure and learns from
them. Which process has which, and what it may do, is in `draw.worker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.draw.catalog import is_built_in, load_generator
from proxyguard.draw.job import DrawJob, FitJob
from proxyguard.draw.messages import Answer, FittedRelease, Made, Prepared, failure, packed
from proxyguard.draw.protocol import (
    DrawsMany,
    Generator,
    Learner,
    Seed,
    coin_bits,
    learnable,
    member_bits,
    members_in,
    outcomes,
)
from proxyguard.draw.sources import (
    Described,
    changed_generator,
    changed_procedure,
    refuse_changes,
    set_root,
)
from proxyguard.errors import DrawError
from proxyguard.models.stored import model_bytes
from proxyguard.tables.columns import with_dates
from proxyguard.tables.files import (
    as_frame,
    content_digest,
    is_table,
    read_table_bytes,
    table_bytes,
)

if TYPE_CHECKING:
    import pandas as pd


# The stage of a mechanism that is declared to have no randomness and shows none.
NO_SEED = "nothing: the draws leave their seed alone"
# Stands for the table of a seed that is drawn by itself.
_ALONE = object()


class Fitter:
    """One procedure, ready to be fitted on releases.

    Parameters
    ----------
    job
        What a release holds, and where the validation part lies.
    learner
        The procedure; nothing where releases are not learned from.

    Raises
    ------
    DrawError
        If the procedure is not what was registered.
    """

    def __init__(self, job: FitJob, learner: Learner | None) -> None:
        refuse_changes("the procedure", list(changed_procedure(job.learner, learner)))
        self._schema = job.schema_of_releases
        self._learner = None if self._schema.predictions else learner
        self._outcome = job.outcome
        self._validation = (
            None
            if job.validation is None
            else read_table_bytes(Path(job.validation).read_bytes(), "the validation part")
        )

    def fit(self, made: Made, table: bytes) -> Answer:
        """Return the record of one draw and the bytes of its release and of its model."""
        return self._answer(made, self._schema.received(table))

    def refit(self, made: Made, stored: bytes) -> Answer:
        """Return what `fit` returned, from the release that was stored."""
        return self._answer(made, self._schema.records(read_table_bytes(stored, "the release")))

    def _answer(self, made: Made, release: pd.DataFrame) -> Answer:
        if len(release) == 0:
            raise DrawError("the release has no record")  # which answers no query
        seed = Seed(made.seed)
        seed.taken = list(made.stages)
        fitted, unlabelled = None, made.unlabelled
        if self._learner is not None:
            known = learnable(release, self._outcome)
            unlabelled += len(release) - len(known)
            fitted = self._learner.fit(known, self._validation, seed)
        said = FittedRelease(
            seed=made.seed,
            rows=len(release),
            content=content_digest(release),
            stages=list(seed.taken),
            files=made.files,
            selected=None if fitted is None else fitted.selected,
            threshold=None if fitted is None else _text(fitted.threshold),
            temperature=None if fitted is None else _text(fitted.temperature),
            predictions=self._schema.predictions,
            members=made.members,
            computed=made.computed,
            unlabelled=unlabelled,
        )
        model = b"" if fitted is None else model_bytes(fitted.estimator)
        return Answer(said, table_bytes(release), model)


def _text(number: float | None) -> str | None:
    return None if number is None else repr(float(number))


class Worker:
    """One generator, ready to draw.

    Parameters
    ----------
    job
        The generator, its options, its source, and what was registered of it.

    Raises
    ------
    DrawError
        If what was loaded describes itself otherwise than was registered.
    RegistryError
        If it cannot be loaded, or does not take its options.
    """

    def __init__(self, job: DrawJob) -> None:
        self._job = job
        self._schema = job.schema_of_releases
        self._may_ignore_seed = job.may_ignore_seed
        self._generator = load_generator(job.generator, job.options)
        # In this process the code was loaded anew: what it says of itself now is what draws.
        if job.registered is not None:
            described = Described.by(job.generator, self._generator)
            known = job.registered
            changes = changed_generator(known.describe, known.origin, described)
            refuse_changes(job.generator, list(changes))
        set_root(self._generator, job.root)
        source = read_table_bytes(Path(job.source).read_bytes(), "the source")
        # Of what a release has: an excluded column is in no source of a draw.
        source = source[[name for name in source.columns if name in self._schema.kinds]]
        if not is_built_in(job.generator):  # ours take dates for numbers
            source = with_dates(source, self._schema.columns)
        self._source = source if job.coins else None
        self._source_rows = len(source)
        self.prepared = Prepared(prepared_at_random=False)
        if job.coins:
            return  # nothing is prepared that two draws would share
        rng = np.random.default_rng(job.prepare_seed)
        # Seen from the stream and not asked for: no honest generator can forget to say it.
        before = repr(rng.bit_generator.state)
        self._generator.prepare(source, rng)
        self.prepared = Prepared(
            prepared_at_random=repr(rng.bit_generator.state) != before,
            prepared_from=dict(getattr(self._generator, "prepared_from", {})),
        )

    def draw_many(self, seeds: Sequence[Seed]) -> Sequence[object]:
        """Return what `draw` takes for each of several seeds; where that fails, nothing yet.

        One bad seed must not fail the others of its batch: they are then drawn one by one.
        """
        together = isinstance(self._generator, DrawsMany) and not self._job.coins
        if len(seeds) < 2 or not together:
            return [_ALONE] * len(seeds)
        assert isinstance(self._generator, DrawsMany)  # said above
        try:  # no more than one too many: what it gives may have no end
            tables = [*islice(iter(self._generator.draw_many(seeds)), len(seeds) + 1)]
        except BaseException:  # whatever it was, the seed that it belongs to raises it again
            return [_ALONE] * len(seeds)
        if len(tables) != len(seeds):
            given = "more" if len(tables) > len(seeds) else str(len(tables))
            raise DrawError(
                f"draw_many was asked for {len(seeds)} releases and gave {given}; it returns one "
                "for each seed, in the order of the seeds"
            )
        return tables

    def draw(self, seed: Seed, table: object = _ALONE) -> tuple[Made, bytes]:
        """Return what is said of one draw, and its table as bytes."""
        job = self._job
        # What `draw_many` gave in the place of a release: this seed fails, and the others stay.
        if isinstance(table, DrawError):
            raise table
        if table is _ALONE:
            table = (self._generator if self._source is None else self._tossed(seed)).draw(seed)
        if not is_table(table):
            raise DrawError(
                "a draw returns a table, such as a pandas.DataFrame, and gave a "
                f"{type(table).__name__}"
            )
        if not seed.used and not self._may_ignore_seed:
            raise DrawError(
                "the draw left its seed alone, so that nothing makes this release again, and "
                'releases may all be one: use the seed, such as seed.rng("sampling"). If it is '
                'used where this is not seen, in native code, say seed.take("sampling"); if the '
                "mechanism has no randomness, declare deterministic = true"
            )
        if not seed.taken:
            seed.taken.append("the release" if seed.used else NO_SEED)
        if self._source is not None and seed.members is not None:
            raise DrawError(
                'with inclusion = "coins" a draw is trained on the rows that it gets, which its '
                "coins name; leave seed.trained_on out"
            )
        named = member_bits(seed, self._source_rows)
        if self._source is not None:
            named = coin_bits(int(seed), self._source_rows)
        frame = as_frame(table, "the release").reset_index(drop=True)
        made = Made(
            seed=int(seed),
            stages=list(seed.taken),
            files=dict(seed.files),
            members=named.hex() or None,
            computed=dict(seed.facts),
            unlabelled=self._schema.unlabelled(frame),
        )
        records = self._schema.records(frame)
        learned = job.procedure is not None and not job.predictions
        if len(records) and learned and job.outcome is not None:
            # Told here by its row: what is sent has no trace of rows that were left out.
            known = learnable(records, job.outcome)
            outcomes(known[job.outcome.column], job.outcome, "the release")
        return made, self._schema.sent(records)

    def _tossed(self, seed: Seed) -> Generator:
        """Return the generator made anew, and prepared on the rows of this draw's coins alone.

        What it prepares at random is of this draw too: draws that shared it would not be
        independent, and guesses about them could not be added up.
        """
        job, source = self._job, self._source
        assert source is not None  # only of a job with coins
        rows = len(source)
        mask = members_in(coin_bits(seed.take("which rows are trained on"), rows), rows)
        generator = load_generator(job.generator, job.options)
        set_root(generator, job.root)
        # The last number keeps this stream apart from that of every plain seed.
        rng = np.random.default_rng([job.prepare_seed, int(seed), 1])
        before = repr(rng.bit_generator.state)
        generator.prepare(source[mask].reset_index(drop=True), rng)
        if repr(rng.bit_generator.state) != before:
            seed.take("preparation")
        if getattr(generator, "prepared_from", {}):
            raise DrawError(
                "its preparation is kept and used by all draws, and with inclusion = "
                '"coins" each is prepared on other rows; let it keep nothing'
            )
        return generator


def tables(worker: Worker, numbers: Sequence[int]) -> bytes:
    """Return what a generator gives for these seeds."""
    seeds = [Seed(number) for number in numbers]
    try:
        given = worker.draw_many(seeds)
    except DrawError as error:
        return b"".join(packed(failure(number, {}, error)) for number in numbers)
    content = []
    for seed, table in zip(seeds, given, strict=True):
        try:
            made, sent = worker.draw(seed, table)
            content.append(packed(made, sent))
        except MemoryError:
            raise  # as if it had been killed for want of memory: it does not count as a failure
        except BaseException as error:  # a generator may call sys.exit
            content.append(packed(failure(int(seed), seed.files, error, seed.facts)))
    return b"".join(content)
