"""How many target records each method needs for 80 % power (theory section 2, below its table).

1,000 releases, reliability .95, claimed .8 at total error .05. One long sequence of records is
drawn for every repetition and an audit of size ``n`` reads the first ``n`` of it, so sizes are
compared on common random numbers. Every method is tuned, at every size, on pilot repetitions
that are not counted; betting, the costliest, has one threshold for all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError
from proxyguard.exact.betting import betting_pvalue
from proxyguard.exact.binomial import clopper_pearson_lower, upper_tail
from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance
from proxyguard.exact.mean import bentkus_pvalue, empirical_bernstein_pvalue
from proxyguard.exact.sharp import critical_count, largest_threshold
from proxyguard.exact.special import special
from proxyguard.studies import mode_targets
from proxyguard.studies.counts import Array, Counts, pvalue_table
from proxyguard.studies.study import Cell, Metrics, Outcome, Published, Status, Study, Wanted, tally

R, ETA, TARGET, ALPHA, POWER = 1000, 0.95, 0.8, 0.05, 0.8
STEP, SMALLEST = 1.05, 100
LEAST_REPETITIONS = 3  # of a block: a third of them tunes
RELEASE_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # phi
TARGET_SHARES = (0.25, 0.5, 0.75, 0.9)  # f
SLACKS = tuple(float(share) for share in np.linspace(0.1, 0.98, 45))  # of the family's margin
BETTING_COUNT = 921  # scores to reach; near the best for every other test of every family
BETTING_REPETITIONS = 100  # where a column a distinct release has to be read

Flags = NDArray[np.bool_]


class Drawn(Protocol):
    """Releases and a long sequence of records, of which a first part is read."""

    limits: tuple[float, ...]
    margin: float  # slacks are tuned as shares of it
    valid: Flags  # (reps, R)

    def excess(self, n: int) -> Array:
        """Return the largest of mean less limit over requirements, (reps, R)."""

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R)."""


def means_test(test: str, mean: Array, variance: Array, n: int, limit: float) -> Array:
    """Return the p-values of a test that reads moments only."""
    if test == "bentkus":
        return bentkus_pvalue(np.clip(mean, 0.0, 1.0), n, limit)
    if test == "empirical Bernstein":
        return empirical_bernstein_pvalue(np.clip(mean, 0.0, 1.0), variance, n, limit)
    raise ValueError(f"{test} reads more than moments")


@dataclass(kw_only=True)
class Columns:
    """All valid releases have one and the same loss on a record.

    An invalid one loses everything on a small share of the records, so that its mean lies at
    the limit, and agrees with the valid ones elsewhere.
    """

    limits: tuple[float, ...]
    margin: float
    valid: Flags
    losses: Array  # (reps, records)
    hard: Flags  # (reps, records)
    own: np.random.Generator
    _uniforms: Array | None = None

    def _pair(self, n: int) -> tuple[Array, Array]:
        good = self.losses[:, :n]
        return good, np.where(self.hard[:, :n], 1.0, good)

    def _spread(self, pair: Sequence[Array]) -> Array:
        return np.where(self.valid, pair[0][:, None], pair[1][:, None])

    def excess(self, n: int) -> Array:
        """Return mean less limit, (reps, R)."""
        return self._spread([u.mean(axis=1) for u in self._pair(n)]) - self.limits[0]

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R)."""
        return self._spread([self._test(test, u, n, level) for u in self._pair(n)])

    def _test(self, test: str, u: Array, n: int, level: float) -> Array:
        (limit,) = self.limits
        if test == "betting":
            return betting_pvalue(u, limit, level=level)
        if test == "randomized binomial":
            if self._uniforms is None:
                self._uniforms = self.own.random(self.losses.shape)
            counts = (self._uniforms[:, :n] < u).sum(axis=1)
            return np.asarray(pvalue_table(n, limit)[counts])
        return means_test(test, u.mean(axis=1), u.var(axis=1, ddof=1), n, limit)


@dataclass(kw_only=True)
class Steps:
    """Losses ``(1 - c) 1{u_i < theta} + c w_ij``: releases with equal ranks have equal losses."""

    limits: tuple[float, ...]
    margin: float
    valid: Flags
    thetas: Array  # (reps, R, J)
    uniforms: Array  # (reps, records)
    smooth: float  # c
    noise: Array  # (reps, records, J)
    own: np.random.Generator
    _coins: dict[int, Array] = field(default_factory=dict)

    def excess(self, n: int) -> Array:
        """Return the largest of mean less limit over requirements, (reps, R)."""
        return np.stack([self._excess(one, n) for one in range(len(self.thetas))])

    def _excess(self, one: int, n: int) -> Array:
        ranks = np.searchsorted(np.sort(self.uniforms[one, :n]), self.thetas[one])
        mean = (1 - self.smooth) * ranks / n + self.smooth * self.noise[one, :n].mean(axis=0)
        return np.asarray((mean - np.array(self.limits)).max(axis=1))

    def pvalues(self, test: str, n: int, level: float) -> Array:
        """Return release p-values, (reps, R), or of the first repetitions if they cost much."""
        reps = len(self.thetas)
        if test == "betting":
            reps = min(reps, BETTING_REPETITIONS)
        return np.stack([self._release_pvalues(one, test, n, level) for one in range(reps)])

    def _release_pvalues(self, one: int, test: str, n: int, level: float) -> Array:
        order = np.argsort(self.uniforms[one, :n])
        ranks = np.searchsorted(self.uniforms[one, :n][order], self.thetas[one])
        found = np.zeros(R)
        for j in range(len(self.limits)):
            distinct, back = np.unique(ranks[:, j], return_inverse=True)
            found = np.maximum(found, self._test(one, j, test, order, distinct, level)[back])
        return found

    def _test(
        self, one: int, j: int, test: str, order: Counts, ranks: Counts, level: float
    ) -> Array:
        """Return the p-value of requirement ``j`` for releases with these ranks."""
        n, c, limit = len(order), self.smooth, self.limits[j]
        w = self.noise[one, :n, j]
        if test == "betting":
            place = np.empty(n, dtype=np.int64)
            place[order] = np.arange(n)
            return betting_pvalue(
                (1 - c) * (place[None, :] < ranks[:, None]) + c * w, limit, level=level
            )
        if test == "randomized binomial":
            coins = self._coin(one)[:n, j]
            high, low = coins < 1 - c + c * w, coins < c * w
            counts = _running(high[order])[ranks] + low.sum() - _running(low[order])[ranks]
            return np.asarray(pvalue_table(n, limit)[np.rint(counts).astype(np.int64)])
        mean = ((1 - c) * ranks + c * w.sum()) / n
        squares = (
            (1 - c) ** 2 * ranks + 2 * c * (1 - c) * _running(w[order])[ranks] + c * c * (w @ w)
        )
        return means_test(test, mean, np.maximum(0.0, squares - n * mean**2) / (n - 1), n, limit)

    def _coin(self, one: int) -> Array:
        while len(self._coins) <= one:  # in order, so that a repetition keeps its own
            self._coins[len(self._coins)] = self.own.random(self.noise.shape[1:])
        return self._coins[one]


def _running(values: NDArray[np.bool_] | Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One loss family: how it is drawn, and the largest size that is tried."""

    draw: Callable[[np.random.Generator, int, int], Drawn]
    largest: int

    def sizes(self) -> list[int]:
        """Return the sizes that are tried, in steps of 5 %."""
        steps = int(np.log(self.largest / SMALLEST) / np.log(STEP))
        return [round(SMALLEST * STEP**i) for i in range(steps + 1)]


def primary(rng: np.random.Generator, reps: int, records: int) -> Steps:
    """Draw the primary study's smoothed Bernoulli losses (B12, moderate evidence)."""
    releases = mode_targets.draw_releases(rng, mode_targets.MODERATE, (reps, R), ETA)
    means = np.array(mode_targets.LIMITS) - np.moveaxis(releases.margins, 0, -1)
    return Steps(
        limits=mode_targets.LIMITS,
        margin=mode_targets.MODERATE.margin[0] + mode_targets.MODERATE.jitter,
        valid=releases.valid,
        thetas=(means - mode_targets.SMOOTH / 2) / (1 - mode_targets.SMOOTH),
        uniforms=rng.random((reps, records)),
        smooth=mode_targets.SMOOTH,
        noise=rng.random((reps, records, len(mode_targets.LIMITS))),
        own=rng.spawn(1)[0],
    )


VALID_RISKS, INVALID_RISKS, BERNOULLI_LIMIT = (0.055, 0.065), (0.105, 0.115), 0.10
BERNOULLI_MARGIN = BERNOULLI_LIMIT - VALID_RISKS[0]


def bernoulli(rng: np.random.Generator, reps: int, records: int) -> Steps:
    """Draw losses ``1{u_i < risk_r}``, valid risks around .06 and invalid ones above .10."""
    valid = rng.random((reps, R)) < ETA
    risk = np.where(
        valid, rng.uniform(*VALID_RISKS, (reps, R)), rng.uniform(*INVALID_RISKS, (reps, R))
    )
    return Steps(
        limits=(BERNOULLI_LIMIT,),
        margin=BERNOULLI_MARGIN,
        valid=valid,
        thetas=risk[..., None],
        uniforms=rng.random((reps, records)),
        smooth=0.0,
        noise=np.zeros((reps, records, 1)),
        own=rng.spawn(1)[0],
    )


def brier(rng: np.random.Generator, reps: int, records: int) -> Columns:
    """Draw Brier-like losses, Beta(.4, 2.6) against .16."""
    return _columns(rng, rng.beta(0.4, 2.6, (reps, records)), mean=0.4 / 3, limit=0.16)


def regret(rng: np.random.Generator, reps: int, records: int) -> Columns:
    """Draw relative regrets, normal with mean .01 and sd .12 in [-1, 1], against .04."""
    losses = (np.clip(rng.normal(0.01, 0.12, (reps, records)), -1.0, 1.0) + 1.0) / 2.0
    return _columns(rng, losses, mean=0.505, limit=0.52)


def _columns(rng: np.random.Generator, losses: Array, *, mean: float, limit: float) -> Columns:
    return Columns(
        limits=(limit,),
        margin=limit - mean,
        valid=rng.random((len(losses), R)) < ETA,
        losses=losses,
        hard=rng.random(losses.shape) < (limit - mean) / (1.0 - mean),
        own=rng.spawn(1)[0],
    )


PRIMARY, BERNOULLI = "smoothed Bernoulli, three requirements", "Bernoulli .06 against .10"
FAMILIES = {
    PRIMARY: Family(draw=primary, largest=4000),
    BERNOULLI: Family(draw=bernoulli, largest=4000),
    "Beta(.4, 2.6) against .16": Family(draw=brier, largest=8000),
    "normal regret .01 against .04": Family(draw=regret, largest=20_000),
}


def named_flags(ordered: Array) -> list[Flags]:
    """Return which repetitions the named certificate validates, by release share."""
    found = []
    for share in RELEASE_SHARES:
        needed = _least(_lower_limits(ALPHA * (1 - share)))
        levels = ALPHA * share / np.arange(R, 0, -1)
        found.append(np.all(ordered[:, :needed] <= levels[:needed], axis=1))
    return found


def direct_flags(drawn: Drawn, n: int) -> list[Flags]:
    """Return which repetitions the paper's direct certificate validates, by slack and share."""
    ordered = np.sort(drawn.excess(n), axis=1)
    return [
        ordered[:, needed - 1] <= -slack if needed <= R else np.zeros(len(ordered), dtype=bool)
        for slack, needed in direct_settings(drawn.limits, drawn.margin, n)
    ]


def direct_settings(limits: Sequence[float], margin: float, n: int) -> list[tuple[float, int]]:
    """Return each slack with the scores that validate at it, once a share of the budget."""
    found = []
    for slack in (part * margin for part in SLACKS):
        kappa = max(chernoff_ceiling(limit - slack, limit, n) for limit in limits)
        for share in TARGET_SHARES:
            allowance = markov_allowance(kappa, ALPHA * share)
            found.append((slack, _least(_lower_limits(ALPHA * (1 - share)) - allowance)))
    return found


@cache
def _lower_limits(level: float) -> Array:
    return clopper_pearson_lower(np.arange(R + 1), R, alpha=level)


def _least(limits: Array) -> int:
    """Return the least count whose limit lies above the target, ``R + 1`` if none does."""
    return int(np.searchsorted(limits, TARGET, side="right"))


@cache
def thresholds(target: float, alpha: float) -> tuple[tuple[int, float], ...]:
    """Return each count worth aiming at, with the largest threshold at which it validates."""
    oracle = int(critical_count(R, target=target, kappa=0.0, alpha=alpha))
    found = ((k, largest_threshold(k, R, target=target, alpha=alpha)) for k in range(oracle, R + 1))
    return tuple((k, t) for k, t in found if t > 0.0)


def sharp_flags(drawn: Drawn, test: str, n: int) -> list[Flags]:
    """Return which repetitions the sharp certificate validates, by threshold."""
    if test == "betting":  # stakes follow the threshold, so each one costs a pass
        level = largest_threshold(BETTING_COUNT, R, target=TARGET, alpha=ALPHA)
        return [_reach(drawn.pvalues(test, n, level), BETTING_COUNT) <= level]
    ordered = np.sort(drawn.pvalues(test, n, ALPHA), axis=1)
    return [ordered[:, k - 1] <= t for k, t in thresholds(TARGET, ALPHA)]


def _reach(pvalues: Array, count: int) -> Array:
    """Return the p-value that so many releases of each repetition reach."""
    return np.asarray(np.partition(pvalues, count - 1, axis=1)[:, count - 1])


def evaluate(drawn: Drawn, method: str, n: int) -> Flags:
    """Return which repetitions a method validates, tuned on a third of them that is left out."""
    if method == "named":
        flags = named_flags(np.sort(drawn.pvalues("empirical Bernstein", n, ALPHA), axis=1))
    elif method == "direct":
        flags = direct_flags(drawn, n)
    else:
        flags = sharp_flags(drawn, method.removeprefix("sharp, "), n)
    if len(flags) == 1:
        return flags[0]
    pilot = len(flags[0]) // 3
    best = max(flags, key=lambda one: float(one[:pilot].mean()))
    return best[pilot:]


def smallest(sizes: Sequence[int], power: Callable[[int], float]) -> int:
    """Return the smallest size that reaches the power.

    A search for one crossing, then a look at the three sizes below: discrete tests make the
    power a little uneven.
    """
    at = bisect_left(range(len(sizes)), True, key=lambda i: power(sizes[i]) >= POWER)
    if at == len(sizes):
        raise RegistryError(
            f"the search promises a size with power {POWER:g}; none up to {sizes[-1]:,} records "
            "reached it in this run; with few repetitions the power is too noisy: use 30 or more"
        )
    while True:
        lower = [i for i in range(max(0, at - 3), at) if power(sizes[i]) >= POWER]
        if not lower:
            return sizes[at]
        at = lower[0]


def labels_needed(
    cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return the smallest size of 80 % power, and the power at the size that theory prints."""
    if repetitions < LEAST_REPETITIONS:
        raise RegistryError(
            f"labels-needed tunes on a third of each block of 300 repetitions; the last block has "
            f"{repetitions}, and needs {LEAST_REPETITIONS} or more"
        )
    family = FAMILIES[cell["family"]]
    sizes = family.sizes()
    drawn = family.draw(rng, repetitions + (repetitions + 1) // 2, sizes[-1])

    def search(method: str) -> Metrics:
        flags = cache(lambda n: evaluate(drawn, method, n))
        size = smallest(sizes, lambda n: float(flags(n).mean()))
        found: dict[str, list[int] | Flags] = {"labels": [size], "validated there": flags(size)}
        if method in PRINTED and cell["family"] == PRIMARY:
            found["validated at the printed size"] = flags(PRINTED[method])
        return found

    return tally({name: partial(search, name) for name in METHODS}, wanted)


def exact_labels(cell: Cell) -> dict[tuple[str, str], float]:
    """Return the exact sizes for Bernoulli losses, where a score is a limit on the errors."""
    if cell["family"] != BERNOULLI:
        return {}
    sizes = FAMILIES[cell["family"]].sizes()
    return {
        (method, "labels"): smallest(sizes, cache(partial(exact_power, method)))
        for method in ("direct", "sharp, empirical Bernstein", "sharp, bentkus",
                       "sharp, randomized binomial")
    }  # fmt: skip


def exact_power(method: str, n: int) -> float:
    """Return the power of a method that scores by the number of errors, tuned."""
    options = _direct_options(n) if method == "direct" else _sharp_options(method, n)
    best: dict[int, int] = {}  # the least count to reach for each largest passing error count
    for most, needed in options:
        if most >= 0 and needed <= R:
            best[most] = min(needed, best.get(most, R))
    return max((_scores_reach(n, most, needed) for most, needed in best.items()), default=0.0)


def _sharp_options(method: str, n: int) -> list[tuple[int, int]]:
    """Return the most errors that score at each threshold, and the scores to reach."""
    share = np.arange(n + 1) / n
    test = method.removeprefix("sharp, ")
    if test == "randomized binomial":  # the indicators are the losses themselves
        table = pvalue_table(n, BERNOULLI_LIMIT)
    else:
        variance = share * (1 - share) * n / (n - 1)
        table = means_test(test, share, variance, n, BERNOULLI_LIMIT)
    return [(int(np.count_nonzero(table <= t)) - 1, k) for k, t in thresholds(TARGET, ALPHA)]


def _direct_options(n: int) -> list[tuple[int, int]]:
    """Return the most errors that score at each slack, and the scores to reach."""
    share = np.arange(n + 1) / n
    return [
        (int(np.count_nonzero(share - BERNOULLI_LIMIT <= -slack)) - 1, needed)
        for slack, needed in direct_settings((BERNOULLI_LIMIT,), BERNOULLI_MARGIN, n)
    ]


def _scores_reach(n: int, most: int, needed: int) -> float:
    """Return the chance that ``needed`` of the releases err on at most ``most`` records.

    A release does when its risk is at most the order statistic ``U_(most + 1)``.
    """

    def reached(place: Array) -> Array:
        share = [uniform_cdf(place, VALID_RISKS), uniform_cdf(place, INVALID_RISKS)]
        return upper_tail(needed, R, ETA * share[0] + (1 - ETA) * share[1])

    return over_order_statistic(reached, n, most + 1)


def uniform_cdf(x: Array, ends: tuple[float, float]) -> Array:
    """Return the chance that a uniform between the ends lies at or below ``x``."""
    return np.asarray(np.clip((x - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0))


def over_order_statistic(chance: Callable[[Array], Array], n: int, rank: int) -> float:
    """Return the mean of a chance over the ``rank``-th smallest of ``n`` uniforms.

    It has a Beta(rank, n - rank + 1) law: a sum over 8,001 points within 12 standard deviations.
    """
    a, b = float(rank), n - rank + 1.0
    mean = a / (a + b)
    reach = 12.0 * np.sqrt(mean * (1 - mean) / (a + b))
    x = np.linspace(max(1e-9, mean - reach), min(1 - 1e-9, mean + reach), 8001)
    with np.errstate(under="ignore"):
        density = np.exp(
            special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
        )
        return min(1.0, float(density @ chance(x) / density.sum()))


PRINTED = {"named": 2100, "direct": 1250, "sharp, bentkus": 690, "sharp, randomized binomial": 520}
METHODS = {
    "named": Status.REGISTERED,
    "direct": Status.REGISTERED,
    "sharp, empirical Bernstein": Status.OURS,
    "sharp, bentkus": Status.OURS,
    "sharp, randomized binomial": Status.OURS,
    "sharp, betting": Status.OURS,
}
LABELS_NEEDED = Study(
    name="labels-needed",
    own=True,
    paper="theory section 2, labels for 80 % power",
    seed=8202,
    repetitions=300,
    cells=tuple({"family": name} for name in FAMILIES),
    simulate=labels_needed,
    exact=exact_labels,
    block=300,
    methods=METHODS,
    published={
        # Printed as the sizes, "about", at which power is 80 %; repetitions taken as 400.
        (0, method, "validated at the printed size"): Published(
            value=0.8, digits=1, repetitions=400
        )
        for method in ("named", "direct", "sharp, randomized binomial")
    },
    differs=(
        "Sizes in steps of 5 %; the power at theory's sizes is compared, since those are rounded. "
        "Its size for bentkus belongs to an older, weaker form and is a ceiling for ours."
    ),
)
