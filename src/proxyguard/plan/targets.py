"""Simulated targets of one size: sample means, variances and p-values under a law.

Only the target is simulated. What follows from it for R draws is computed, or drawn from the
few kinds of release, in `plan.search`. With a loss of 0 or 1 the mean and the variance follow from
the count of errors, so that each test is a table (`count_pvalues`), and a release passes when its
count lies below a bar; betting reads the order too, and has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.betting import STAKES, BettingCapital
from proxyguard.exact.contamination import most_at_cutoff, slack_score
from proxyguard.exact.mean import share_pvalue
from proxyguard.exact.rounding import (
    Array,
    Integers,
    count_variance,
    round_count_down,
    round_count_up,
    round_down,
    round_pvalue,
    round_up,
)
from proxyguard.exact.special import special
from proxyguard.plan.law import Law, Others
from proxyguard.registry.design import Stratified
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, Statistics, pvalues

Places = NDArray[np.intp]
Targeted = NDArray[np.bool_] | None  # some of the targets; None: all

# Drawn records that exist at once.
TILE = 200_000

# Requirements beside those of a search that are counted at once.
BESIDE = 32


class Targets:
    """``repetitions`` targets of ``n`` records under a law, the same for every question asked.

    With ``digits`` its statistics are the rounded ones on which an audit with a registered
    disclosure decides (`evidence.releases`). ``strata`` are those that weigh otherwise than their
    sizes do, at the size of the targets: in each of them losses have the one law.
    """

    def __init__(
        self, law: Law, n: int, *, repetitions: int, seed: int, aim: float | None = None,
        digits: int | None = None, strata: Stratified | None = None,
    ) -> None:  # fmt: skip
        self.digits, self.strata = digits, strata
        self.law, self.n, self.repetitions, self._seed = law, n, repetitions, seed
        self._aim = aim  # one level for all of betting's stakes: a search need not be exact
        self._kept: dict[tuple[ComponentTest, int, float], Array] = {}
        self._read: dict[tuple[str, int, float], Array] = {}
        self._worst: dict[tuple[tuple[ComponentTest, ...], float], Array] = {}
        self._blocks: dict[int, Array] = {}

    @cached_property
    def drawn(self) -> tuple[tuple[Array, ...], ...]:
        """How often each kind of record is drawn, (repetitions, m_j): by stratum and requirement.

        All records are one stratum where none weighs otherwise than its size does.
        """
        # Drawn as counts, so that a target of a million records costs what one of hundreds does.
        rng = np.random.default_rng([self._seed, self.n])
        sizes = [self.n] if self.strata is None else list(self.strata.sizes.values())
        if self.law.joint:  # one record brings all losses that are known as well as each other
            records, luck = self.law.records[0], self.law.luck
            sure = [np.inf] * len(self.law.records) if luck is None else list(luck.records)
            chances = {well: self._populations(records, well, rng) for well in dict.fromkeys(sure)}
        else:
            sure = list(map(float, range(len(self.law.records))))
            chances = {j: c / c.sum() for j, c in zip(sure, self.law.records, strict=True)}
        drawn: list[tuple[Array, ...]] = []
        for size in sizes:
            kinds = {
                well: rng.multinomial(size, chance, self.repetitions).astype(np.float64)
                for well, chance in chances.items()
            }
            drawn.append(tuple(kinds[well] for well in sure))
        return tuple(drawn)

    def _populations(self, records: Array, well: float, rng: np.random.Generator) -> Array:
        """Return the chances of the kinds of record: of one population, or of one a target."""
        if not np.isfinite(well):
            return np.asarray(records / records.sum())
        weights = rng.standard_gamma(records * well, (self.repetitions, records.size))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def rates(self, scores: Array | NDArray[np.bool_]) -> Array:
        """Return the chance that a fresh draw scores on each target, of scores of every kind."""
        return np.asarray(np.sum(scores * self.releases, axis=1))

    @property
    def releases(self) -> Array:
        """The chances of the kinds of release: one row for all targets, or one for each."""
        law, luck = self.law, self.law.luck
        if luck is None:
            return law.releases[None]
        rng, valid = np.random.default_rng([self._seed, self.n, 2]), law.valid
        share = np.full(self.repetitions, law.reliability)
        if not luck.known and 0.0 < law.reliability < 1.0:
            # Jeffreys' prior adds half a release to either side, as `pilot_law` does to the share.
            counted = luck.pilots + 1.0
            share = rng.beta(counted * share, counted * (1.0 - share))
        weights = rng.standard_gamma(
            luck.pilots * law.releases, (self.repetitions, law.releases.size)
        )
        for inside, mass in ((valid, share), (~valid, 1.0 - share)):
            total = np.sum(weights[:, inside], axis=1)
            weights[:, inside] *= (mass / np.maximum(total, 1e-300))[:, None]
        return np.asarray(weights)

    @cached_property
    def _each(self) -> tuple[float, ...]:
        """What a record of each stratum counts in a mean of all of them, 1 on average."""
        if self.strata is None:
            return (1.0,)
        sizes, weights = self.strata.sizes, self.strata.weights
        return tuple(float(weights[g] * self.n / sizes[g]) for g in sizes)

    @cached_property
    def counts(self) -> tuple[Array, ...]:
        """How much each kind of record counts, (repetitions, m_j) for each requirement."""
        if self.strata is None:
            return self.drawn[0]
        return tuple(
            np.sum([each * count for each, count in zip(self._each, counts, strict=True)], axis=0)
            for counts in zip(*self.drawn, strict=True)
        )

    def _tiles(self, j: int) -> Iterator[tuple[int, Places]]:
        """Yield the first of some targets, and which kind of record each place has, (c, n).

        Records are exchangeable: given the counts, every order is equally likely. Drawn anew
        from the seed on every pass, so that nothing of size n is kept; in a joint law the order
        is the same for every requirement.
        """
        kinds = np.arange(self.law.records[j].size)
        step = max(1, TILE // self.n)
        for start in range(0, self.repetitions, step):
            counts = self.counts[j][start : start + step].astype(np.int64)
            sorted_places = np.repeat(np.tile(kinds, len(counts)), counts.ravel())
            rng = np.random.default_rng([self._seed, self.n, start, 0 if self.law.joint else j])
            yield start, rng.permuted(sorted_places.reshape(len(counts), self.n), axis=1)

    @cached_property
    def counted_kinds(self) -> tuple[Array, ...]:
        """How often each kind of record occurs that counts, (repetitions, m_j)."""
        if self.law.counting is None:
            return self.counts
        return tuple(c * mask for c, mask in zip(self.counts, self.law.counting, strict=True))

    def sizes(self, j: int) -> Integers:
        """Return how many records count for a requirement, (repetitions,): all, or its group."""
        return self._sizes[j]

    @cached_property
    def _sizes(self) -> list[Integers]:
        return [
            np.asarray(np.rint(kinds.sum(axis=1)), dtype=np.int64) for kinds in self.counted_kinds
        ]

    @cached_property
    def sample_means(self) -> Array:
        """The sample means, (repetitions, A, J), as they are; 0 of no record."""
        means = [
            kinds @ table.T / np.maximum(1, self.sizes(j))[:, None]
            for j, (kinds, table) in enumerate(
                zip(self.counted_kinds, self.law.losses, strict=True)
            )
        ]
        return np.clip(np.stack(means, axis=2), 0.0, 1.0)

    @cached_property
    def means(self) -> Array:
        """The sample means, (repetitions, A, J), as they decide."""
        return self._published(self.sample_means)

    def _published(self, means: Array) -> Array:
        """Return means as they decide: rounded up where a disclosure is registered."""
        return means if self.digits is None else np.minimum(1.0, round_up(means, self.digits))

    def variances(self, j: int, targets: Targeted, n: int) -> Array:
        """Return the Bessel variances of a requirement, as they decide, on targets of one size."""
        table, means = self.law.losses[j], _of(self.sample_means, targets)[:, :, j]
        squares = _of(self.counted_kinds[j], targets) @ (table**2).T
        # The difference cancels where losses hardly vary, and may be a last digit below 0.
        variances = np.maximum(0.0, squares - n * means**2) / max(1, n - 1)
        if self.digits is None:
            return np.asarray(variances)
        # As the audit does: rounded alone, a variance would tell more than its count.
        if self.law.requirements[j].two_valued:
            count = np.rint(means * n).astype(np.int64)
            return count_variance(
                n, round_count_up(count, n, self.digits), round_count_down(count, n, self.digits)
            )
        return round_up(variances, self.digits)

    def release_pvalues(self, tests: tuple[ComponentTest, ...], *, level: float) -> Array:
        """Return the intersection-union p-value of every kind of release, (repetitions, A)."""
        # Settings of one size differ in thresholds and numbers of draws, and rarely in p-values.
        aims = ComponentTest.BETTING in tests or self.law.answers is None
        key = (tests, (self._aim or level) if aims else 0.0)
        if key not in self._worst:
            count = len(self.law.requirements)
            found = [self.pvalues(test, j, level=level) for j, test in enumerate(tests[:count])]
            worst = np.asarray(np.max(found, axis=0))
            for other in self._other_pvalues(tests[count:], level):
                np.maximum(worst, other, out=worst)
            self._worst[key] = worst
        return self._worst[key]

    def _other_pvalues(self, tests: tuple[ComponentTest, ...], level: float) -> Iterator[Array]:
        """Yield the p-values of requirements that a search leaves out, none of which is kept."""
        others = self.law.others
        if others is None:
            return
        for start in range(0, len(tests), BESIDE):
            block = list(enumerate(tests))[start : start + BESIDE]
            inside = {j: others.inside(j) for j, test in block if test is ComponentTest.BINOMIAL}
            shares = {j: column for j, column in inside.items() if column is not None}
            if shares:
                counts = self.counts[-1] @ np.stack(list(shares.values()), axis=1)
                for j, count in zip(shares, self.counted(counts, self.n).T, strict=True):
                    yield self._share_pvalues(count, others, j)
            for j, test in block:
                if j not in shares:
                    yield self._on_same_records(others.alone(j, others.kinds)).pvalues(
                        test, 0, level=level
                    )

    def _share_pvalues(self, count: Integers, others: Others, j: int) -> Array:
        """Return the p-values of a share on targets with so many records inside."""
        values, places = np.unique(count, return_inverse=True)
        limits = others.answers[others.kinds, j] + others.requirements[j].limit
        table = share_pvalue(values[:, None], self.n, limits)
        return (table if self.digits is None else round_pvalue(table, self.digits))[places]

    def _on_same_records(self, law: Law) -> Targets:
        """Return the same targets under another law on the same kinds of record."""
        return self._drawing(law, tuple(counts[-1:] for counts in self.drawn))

    def _drawing(self, law: Law, drawn: tuple[tuple[Array, ...], ...]) -> Targets:
        """Return targets of the same size whose kinds of record were drawn so often."""
        other = Targets(
            law, self.n, repetitions=self.repetitions, seed=self._seed, aim=self._aim,
            digits=self.digits, strata=self.strata,
        )  # fmt: skip
        other.drawn = drawn
        return other

    def pvalues(self, test: ComponentTest, j: int, *, level: float) -> Array:
        """Return one requirement's p-values, (repetitions, A); ``level`` is betting's aim.

        The exact test of a share has a limit of its own for every release, which follows from the
        release's answer. Where the law has none betting stands in, whose power is nearly the same.
        """
        if self._share(test, j) and self.law.answers is None:
            test = ComponentTest.BETTING
        # No other test aims at a level, so that its p-values are computed once for all levels.
        stake = (self._aim or level) if test is ComponentTest.BETTING else 0.0
        key = (test, j, stake)
        if key not in self._kept:
            computed = self._pvalues(test, j, stake)
            self._kept[key] = (
                computed if self.digits is None else round_pvalue(computed, self.digits)
            )
        return self._kept[key]

    def _pvalues(self, test: ComponentTest, j: int, stake: float) -> Array:
        if self.law.counting is None:
            return self._tested(test, _Simulated(self, j, stake, None, self.n))
        # A subgroup has as many records as were drawn: tests hold given their number, so that
        # targets of one number are tested together.
        sizes = self.sizes(j)
        found = np.ones((self.repetitions, self.law.releases.size))
        for n in np.unique(sizes[sizes > 0]):
            same = sizes == n
            found[same] = self._tested(test, _Simulated(self, j, stake, same, int(n)))
        return found

    def _share(self, test: ComponentTest, j: int) -> bool:
        """Whether a test is the exact one of a share."""
        return test is ComponentTest.BINOMIAL and self.law.requirements[j].indicator

    def _tested(self, test: ComponentTest, of: _Simulated) -> Array:
        """Return p-values as the audit has them: of a share against each release's own answer."""
        if test is not ComponentTest.BINOMIAL:
            return pvalues(test, of)
        # Many targets have the same count, and each count is asked for once.
        counts, inverse = np.unique(of.count, return_inverse=True)
        places = inverse.reshape(of.mean.shape)
        if not self._share(test, of.j):
            return np.asarray(pvalues(test, _Counted(of.n, of.v, counts))[places])
        limits = of.answers + self.law.requirements[of.j].limit
        table = share_pvalue(counts[:, None], of.n, limits)
        return np.asarray(table[places, np.arange(limits.size)])

    def once(self, statistic: str, j: int, level: float) -> Array:
        """Return what reads single records; a subgroup asks again for each of its sizes."""
        key = (statistic, j, level)
        if key not in self._read:
            v = self.law.requirements[j].unit_limit
            if statistic == "indicators":
                self._read[key] = self.randomized(j)
            elif statistic == "log_peak":
                self._read[key] = self.peaks(j, v, level)
            else:
                self._read[key] = self.fixed(j, v)
        return self._read[key]

    def requiring(self, requirements: Sequence[Requirement]) -> Targets:
        """Return these targets for other slacks and ramps; nothing is drawn again."""
        return self.under(self.law.requiring(requirements))

    def under(self, law: Law) -> Targets:
        """Return these targets for a law with the same losses on the same records."""
        _ = self.sample_means  # drawn and counted here, once, and not anew in every copy
        other = copy(self)
        other.law = law
        return other

    def counted(self, counts: Array, n: int) -> Integers:
        """Return counts out of ``n`` as they decide."""
        whole = np.rint(counts).astype(np.int64)
        return whole if self.digits is None else round_count_up(whole, n, self.digits)

    def moved(self, law: Law, kinds: Sequence[int]) -> Targets:
        """Return these targets after more of their records have gone to an end of the scale.

        ``law`` is this one after a larger shift (`Law.shifted`), and ``kinds`` how many kinds of
        record each requirement had before any. All records but those that go are the same ones, so
        that powers on both targets can be compared.
        """
        rng = np.random.default_rng([self._seed, self.n, 1])
        masks = law.counting or tuple(np.ones(c.size, dtype=bool) for c in law.records)
        drawn: list[tuple[Array, ...]] = []
        for before in self.drawn:
            counts: dict[int, Array] = {}  # of a joint law many requirements have the same
            for j, first in enumerate(kinds):
                if id(before[j]) in counts:
                    continue
                stay = law.records[j][:first].sum() / self.law.records[j][:first].sum()
                here = before[j][:, :first]
                going = rng.binomial(here.astype(np.int64), float(np.clip(1.0 - stay, 0.0, 1.0)))
                # To the end of the scale in the same subgroups.
                groups = np.stack(masks if law.joint else masks[j : j + 1], axis=1)
                same = np.all(groups[:first, None] == groups[None, first:], axis=2)
                there = going @ same.astype(np.float64)
                gone = before[j][:, first:]
                there[:, : gone.shape[1]] += gone
                counts[id(before[j])] = np.hstack([here - going, there])
            drawn.append(tuple(counts[id(count)] for count in before))
        return self._drawing(law, tuple(drawn))

    def _capital(self, logs: Array) -> Array:
        """Return log capitals as they decide: rounded down where a disclosure is registered."""
        return logs if self.digits is None else round_down(logs, self.digits)

    def fixed(self, j: int, v: float) -> Array:
        """Return log capitals of fixed stakes: products over records, so counts suffice."""
        table, largest = self.law.losses[j], max(self._each)
        kinds: Sequence[Array] = [self.counted_kinds[j]]
        if self.strata is not None:
            kinds = [counts[j] for counts in self.drawn]
        logs = np.zeros((self.repetitions, len(table), len(STAKES)))
        for each, count in zip(self._each, kinds, strict=True):
            # A record of little weight is bet on with little, as `FixedCapital` does.
            gain = (each / largest) * (v - table) / (1.0 - v)
            for s, f in enumerate(STAKES):
                logs[:, :, s] += count @ np.log1p(f * gain).T
        average = special.logsumexp(logs, axis=2) - np.log(len(STAKES))
        return self._capital(np.maximum(0.0, average))

    def randomized(self, j: int) -> Array:
        """Return how many records of each target lie below their own uniform number."""
        table = self.law.losses[j]
        if self.law.counting is not None:  # no uniform number lies below what does not count
            table = np.where(self.law.counting[j], table, 0.0)
        counts = np.empty((self.repetitions, len(table)))
        for start, places in self._tiles(j):
            rows = slice(start, start + len(places))
            # One uniform a record, whatever the requirement: they are part of the target.
            uniforms = np.random.default_rng([self._seed, self.n, start]).random(places.shape)
            for a, losses in enumerate(table):
                counts[rows, a] = np.count_nonzero(uniforms < losses[places], axis=1)
        return counts

    def peaks(self, j: int, v: float, level: float) -> Array:
        """Return the largest log capitals of bets that aim at a level."""
        table = self.law.losses[j]
        logs = np.zeros((self.repetitions, len(table)))
        if self.law.counting is not None:
            return self._capital(self._group_peaks(j, v, level))
        for start, places in self._tiles(j):
            rows = slice(start, start + len(places))
            for a, losses in enumerate(table):
                capital = BettingCapital(
                    columns=len(places), n=self.n, v=v, level=level, violation_level=None
                )
                capital.update(losses[places])
                logs[rows, a] = capital.log_peak()[0]
        return self._capital(logs)

    def _group_peaks(self, j: int, v: float, level: float) -> Array:
        """Return log capitals of bets on the records that count, one target after the other."""
        assert self.law.counting is not None  # the caller asked
        table, inside = self.law.losses[j], self.law.counting[j]
        logs = np.zeros((self.repetitions, len(table)))
        for start, places in self._tiles(j):
            for row, drawn in enumerate(places, start):
                losses = table[:, drawn[inside[drawn]]]
                if losses.shape[1] == 0:  # nothing to bet on
                    continue
                capital = BettingCapital(
                    columns=len(table), n=losses.shape[1], v=v, level=level, violation_level=None
                )
                capital.update(losses)
                logs[row] = capital.log_peak()[0]
        return logs

    def block_means(self, size: int) -> Array:
        """Return means over blocks of records, (repetitions, blocks, A, J)."""
        if size not in self._blocks:
            self._blocks[size] = self._block_means(size)
        return self._blocks[size]

    def _block_means(self, size: int) -> Array:
        blocks = self.n // size
        means = np.empty(
            (self.repetitions, blocks, self.law.releases.size, len(self.law.requirements))
        )
        for j, table in enumerate(self.law.losses):
            for start, places in self._tiles(j):
                rows = slice(start, start + len(places))
                inside = places[:, : blocks * size]
                # One kind of release at a time: a tally of kinds of record would be mostly zeros.
                for a, losses in enumerate(table):
                    drawn = losses[inside].reshape(len(places), blocks, size)
                    means[rows, :, a, j] = drawn.mean(axis=2)
        return self._published(means)


def _of(values: Array, targets: Targeted) -> Array:
    """Return what belongs to some targets."""
    return values if targets is None else np.asarray(values[targets])


class _Simulated(Statistics):
    """The statistics of one requirement on those simulated targets where ``n`` records count."""

    def __init__(self, targets: Targets, j: int, level: float, same: Targeted, n: int) -> None:
        super().__init__(n, targets.law.requirements[j].unit_limit)
        self._targets, self.j, self._level, self._same = targets, j, level, same

    @property
    def effective_size(self) -> float:
        strata = self._targets.strata
        return super().effective_size if strata is None else float(strata.effective_size)

    @property
    def mean(self) -> Array:
        return _of(self._targets.means, self._same)[:, :, self.j]

    @property
    def variance(self) -> Array:
        return self._targets.variances(self.j, self._same, self.n)

    @property
    def count(self) -> Integers:
        means = _of(self._targets.sample_means, self._same)[:, :, self.j]
        requirement = self._targets.law.requirements[self.j]
        if requirement.indicator:  # what is counted is 0 or 1 before the answer is taken off
            means = requirement.from_unit(means) + self.answers
        return self._targets.counted(means * self.n, self.n)

    @property
    def answers(self) -> Array:
        """What the kinds of release answer, (A,), of a share."""
        answers = self._targets.law.answers
        assert answers is not None  # without them no share is counted
        return np.asarray(answers[:, self.j])

    @property
    def indicators(self) -> Integers:
        read = self._targets.once("indicators", self.j, 0.0)
        return self._targets.counted(_of(read, self._same), self.n)

    @property
    def log_peak(self) -> Array:
        return _of(self._targets.once("log_peak", self.j, self._level), self._same)

    @property
    def log_evalue(self) -> Array:
        return _of(self._targets.once("log_evalue", self.j, 0.0), self._same)


class _Counted(Statistics):
    """Counts of errors out of ``n``, as they decide."""

    def __init__(self, n: int, v: float, counts: Integers) -> None:
        super().__init__(n, v)
        self._counts = counts

    @property
    def mean(self) -> Array:
        return np.asarray(self._counts / self.n)

    @property
    def count(self) -> Integers:
        return self._counts


class _EveryCount(Statistics):
    """The statistics of every count of errors from 0 to ``n``, rounded by a disclosure's digits."""

    def __init__(self, n: int, v: float, digits: int | None) -> None:
        super().__init__(n, v)
        self._digits = digits
        self._high = self._low = np.arange(n + 1)
        if digits is not None:
            self._low = round_count_down(self._high, n, digits)
            self._high = round_count_up(self._high, n, digits)

    @property
    def mean(self) -> Array:
        mean = np.arange(self.n + 1) / self.n
        return mean if self._digits is None else np.minimum(1.0, round_up(mean, self._digits))

    @property
    def variance(self) -> Array:
        # Of losses of 0 and 1; the largest one where counts are rounded.
        return count_variance(self.n, self._high, self._low)

    @property
    def count(self) -> Integers:
        return self._high

    @property
    def indicators(self) -> Integers:
        return self._high


@cache
def count_pvalues(test: ComponentTest, n: int, v: float, digits: int | None = None) -> Array | None:
    """Return the p-value of every count, ``None`` for a test that is no function of it.

    With ``digits`` statistics and p-values are rounded as a registered disclosure rounds them. A
    count whose share lies on the grid may then have a smaller variance than the count before it;
    its p-value is held up to that one's, so that no power is promised that is not there.
    """
    if test.bets or n < test.least_records:
        return None
    table = pvalues(test, _EveryCount(n, v, digits))
    if digits is not None:
        return np.maximum.accumulate(round_pvalue(table, digits))
    # `most_errors_tested` bisects this table, and a dip would lead it astray unseen.
    if np.any(np.diff(table) < 0.0):
        raise ValueError(f"{test.value} does not rise with the count for n {n}, limit {v}")
    return table


def most_accepted(cutoff: float, n: int, digits: int | None) -> int:
    """Return the largest count whose mean, as it decides, keeps its cutoff; -1 if none does."""
    if digits is None:
        return most_at_cutoff(cutoff, n)
    kept = slack_score(_EveryCount(n, cutoff, digits).mean[:, None], np.array([cutoff]))
    return int(np.count_nonzero(kept)) - 1
