"""Exposure at the boundary of its nulls, and twins that must fail (theory section 6).

Every trial has frozen members with known scores and a fresh target, and the ceiling is put where
the truth is: the advantage of the very threshold that the trial uses, from the law itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import proxyguard as pg
from proxyguard.audit.attacks import best_guesses
from proxyguard.draw.protocol import coin_bits, members_in
from proxyguard.evidence.releases import gather_evidence
from proxyguard.exact.exposure import (
    advantage_pvalues,
    epsilon_pvalue,
    everywhere_pvalue,
    everywhere_violation_pvalue,
    tpr_pvalues,
)
from proxyguard.exact.multiplicity import intersection_union
from proxyguard.exposure.statistics import (
    Census,
    ThresholdCounter,
    auc_losses,
    flags,
    higher_quantile,
    member_sample,
    sampled_share,
)
from proxyguard.losses.cell import Reading
from proxyguard.registry.test import ComponentTest

pytestmark = pytest.mark.guarantee

Array = NDArray[np.float64]
Verdict = Callable[[int, int, float], bool]
LEVEL = 0.05
# Scores of nonmembers are uniform, so that phi(c) = 1 - c; members lean to high scores.
MEMBERS = np.sqrt((np.arange(400) + 0.5) / 400)


@pytest.mark.parametrize("n", [27, 250, 1000])
def test_advantage_at_a_calibrated_threshold(
    n: int, within_budget: Verdict, effort: pytest.FixtureRequest
) -> None:
    trials = effort.times(whole=8000, reduced=2000)
    rng, census = np.random.default_rng(601), Census(MEMBERS)
    validated = violated = 0
    for _ in range(trials):
        c = higher_quantile(rng.random(100), "0.8")
        share = float(census.share(c))
        flagged = np.count_nonzero(flags(rng.random(n), c))
        p, q = advantage_pvalues(flagged, n, share, share - (1.0 - c))
        validated += bool(p <= LEVEL)
        violated += bool(q <= LEVEL)
    assert within_budget(validated, trials, LEVEL)
    assert within_budget(violated, trials, LEVEL)
    if n == 1000:  # exact: counts lie so close that little of the level is left
        assert validated > 0.6 * LEVEL * trials
        assert violated > 0.6 * LEVEL * trials


def test_twin_a_threshold_picked_on_the_target(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    # No leak: members are as uniform as others, and every threshold has the advantage 1/800. Where
    # the target shows the largest one, it looks like a leak.
    trials = effort.times(whole=3000, reduced=800)
    census, n, truth = Census((np.arange(400) + 0.5) / 400), 300, 1 / 800
    rng = np.random.default_rng(602)
    paid = picked = 0
    for _ in range(trials):
        counter = ThresholdCounter(census)
        counter.add(rng.random(n))
        worst = counter.worst(truth, 20)
        _, q = advantage_pvalues(n - worst.count_low, n, 1.0 - worst.answer_low, truth)
        paid += bool(20 * q <= LEVEL)
        best = int(np.argmax(census.shares - counter.flagged / n))
        _, q = advantage_pvalues(counter.flagged[best], n, census.shares[best], truth)
        picked += bool(q <= LEVEL)
    assert within_budget(paid, trials, LEVEL)
    assert beyond_doubt(picked, trials, LEVEL)


def peak(tau: float) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return ``phi`` at the threshold with ``T = t``, and its inverse: ``adv`` has one peak.

    It rises as a line from 0 to ``tau`` at the median member and falls as one from there.
    """

    def phi(t: Array) -> Array:
        return t - 2.0 * tau * np.minimum(t, 1.0 - t)

    def inverse(u: Array) -> Array:
        low = u / (1.0 - 2.0 * tau)
        return np.where(low <= 0.5, low, (u + 2.0 * tau) / (1.0 + 2.0 * tau))

    return phi, inverse


def chance_above(rates: Array, needed: NDArray[np.int64], n: int) -> float:
    """Return the chance that ``K(c) >= needed`` at every threshold, ``phi(c)`` rising.

    Counts between thresholds are independent Poisson counts, given that all are ``n`` together:
    one convolution a threshold, and no simulation.
    """
    mass = np.zeros(n + 1)
    mass[0] = 1.0
    for step, least in zip(np.diff(rates, prepend=0.0), needed, strict=True):
        mass = np.convolve(mass, stats.poisson.pmf(np.arange(60), n * step))[: n + 1]
        mass[:least] = 0.0
    rest = stats.poisson.pmf(n - np.arange(n + 1), n * (1.0 - rates[-1]))
    return float(mass @ rest / stats.poisson.pmf(n, n))


def needed_counts(shares: Array, n: int, tau: float) -> NDArray[np.int64]:
    """Return the fewest flagged nonmembers that validate at each threshold, by bisection."""
    low, high = np.full(shares.size, -1), np.full(shares.size, n)
    while (high - low > 1).any():
        middle = (low + high + 1) // 2
        passes = advantage_pvalues(middle, n, shares, tau)[0] <= LEVEL
        low, high = np.where(passes, low, middle), np.where(passes, middle, high)
    return high


def test_advantage_everywhere_with_its_peak_at_one_threshold(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    tau, n, trials = 0.1, 500, effort.times(whole=6000, reduced=1500)
    _, inverse = peak(tau)
    ranks = np.arange(1, 401) / 400
    census = Census(1.0 - ranks)  # the member of rank t scores 1 - t
    sizes = {
        ceiling: chance_above(peak(ceiling)[0](ranks), needed_counts(ranks, n, ceiling), n)
        for ceiling in (tau, 0.15)
    }
    size = sizes[tau]
    # Printed: .026 of .05 at a law with one peak, whose height is not.
    assert 0.02 < size < 0.026 < sizes[0.15] < 0.03
    rng = np.random.default_rng(603)
    validated = alone = smallest = 0
    for _ in range(trials):
        counter = ThresholdCounter(census)
        counter.add(1.0 - inverse(rng.random(n)))
        worst = counter.worst(tau, 20)
        p, _ = advantage_pvalues(n - worst.count, n, 1.0 - worst.answer, tau)
        validated += bool(p <= LEVEL)
        pvalues, _ = advantage_pvalues(counter.flagged, n, census.shares, tau)
        alone += bool(pvalues[census.shares == 0.5] <= LEVEL)
        smallest += bool(pvalues.min() <= LEVEL)
    assert within_budget(validated, trials, LEVEL)
    assert stats.binomtest(validated, trials, size).pvalue > 1e-4
    # The threshold alone, if it were known, spends the level; the smallest p-value is none.
    assert within_budget(alone, trials, LEVEL)
    assert alone > 0.6 * LEVEL * trials
    assert beyond_doubt(smallest, trials, LEVEL)


def test_the_power_of_advantage_everywhere_is_that_of_the_table() -> None:
    # Printed for members without a leak: .09, .29, .75, .98 and .73, .99, 1, 1. They come from a
    # simulation of unknown size, ours from sums; a few hundred trials err by .02.
    printed = {0.05: (0.09, 0.29, 0.75, 0.98), 0.10: (0.73, 0.99, 1.0, 1.0)}
    ranks = np.arange(1, 1001) / 1000
    for tau, row in printed.items():
        for n, value in zip((250, 500, 1000, 2000), row, strict=True):
            ours = chance_above(ranks, needed_counts(ranks, n, tau), n)
            assert ours == pytest.approx(value, abs=0.025), (tau, n)


def test_violation_everywhere_pays_for_its_thresholds(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    # The advantage is .1 at each of sixteen thresholds, which split the nonmembers evenly.
    trials, n = effort.times(whole=8000, reduced=2000), 400
    rates = np.arange(1, 17) / 20
    counts = np.cumsum(
        np.random.default_rng(604).multinomial(n, [0.05] * 16 + [0.2], trials), axis=1
    )
    flagged, shares = counts[:, :16], rates + 0.1
    paid = everywhere_violation_pvalue(flagged, n, shares, 0.1)
    _, each = advantage_pvalues(flagged, n, shares, 0.1)
    assert within_budget(int(np.sum(paid <= LEVEL)), trials, LEVEL)
    assert beyond_doubt(int(np.sum(each.min(axis=1) <= LEVEL)), trials, LEVEL)
    assert within_budget(
        int(np.sum(everywhere_pvalue(flagged, n, shares, 0.1) <= LEVEL)), trials, LEVEL
    )


@pytest.mark.parametrize("share", ["0.02", "0.1", "0.5"])
def test_members_found_at_the_false_alarms_that_finding_them_costs(
    share: str, within_budget: Verdict, effort: pytest.FixtureRequest
) -> None:
    trials, n = effort.times(whole=20_000, reduced=5000), 500
    c = Census(MEMBERS).threshold_for(share)
    rng = np.random.default_rng(605)
    counts = np.count_nonzero(rng.random((trials, n)) >= c, axis=1)
    for pvalues in tpr_pvalues(counts, n, 1.0 - c):
        assert within_budget(int(np.sum(pvalues <= LEVEL)), trials, LEVEL)


def test_the_membership_auc_at_its_limit(
    within_budget: Verdict, effort: pytest.FixtureRequest
) -> None:
    trials, n = effort.times(whole=3000, reduced=1000), 200
    census = Census(MEMBERS)
    rng = np.random.default_rng(606)
    losses = np.stack([auc_losses(census, rng.random(n)) for _ in range(trials)])
    # A uniform score is below a member's with the chance that is the member's score.
    requirement = pg.Requirement(name="auc", low=0, high=1, limit=float(MEMBERS.mean()))
    reading = Reading(
        requirements=(requirement,),
        design=pg.Iid(),
        tests=(ComponentTest.BETTING,),
        level=LEVEL,
        violation_level=LEVEL,
        seed=1,
    )
    evidence = gather_evidence(pg.LossArray(losses[:, :, None], pg.Records()), reading)
    assert within_budget(int(np.sum(evidence.pvalues <= LEVEL)), trials, LEVEL)
    assert within_budget(int(np.sum(evidence.violation_pvalues <= LEVEL)), trials, LEVEL)


def test_a_suite_is_as_exposed_as_its_worst_attack(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    # Four attacks on the same records; one is at its ceiling and three see nothing.
    trials, n = effort.times(whole=8000, reduced=2000), 400
    scores = np.random.default_rng(607).random((trials, n, 4))
    flagged = np.count_nonzero(scores >= 0.9, axis=1)
    shares = np.array([0.2, 0.1, 0.1, 0.1])
    p, _ = advantage_pvalues(flagged, n, shares, 0.1)
    assert within_budget(int(np.sum(intersection_union(p) <= LEVEL)), trials, LEVEL)
    assert int(np.sum(intersection_union(p) <= LEVEL)) > 0.5 * LEVEL * trials
    assert beyond_doubt(int(np.sum(p.min(axis=1) <= LEVEL)), trials, LEVEL)


def test_twin_a_radius_from_the_pooled_rows(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    """A record is flagged within a radius of the release, which the target helps to choose.

    Distances are 1, 2 or 3. The advantage is .1 within 1 and within 2. The pooled median is 1
    exactly when so many nonmembers lie within 1 that this radius validates; else it is 2, and the
    claim is tried again there.
    """
    trials, n = effort.times(whole=8000, reduced=2500), 1000
    members = np.repeat([1.0, 2.0], [536, 464])
    shares, rates = {1.0: 0.536, 2.0: 1.0, 3.0: 1.0}, {1.0: 0.436, 2.0: 0.9, 3.0: 1.0}
    rng = np.random.default_rng(608)
    wrong = {"members": 0, "pooled": 0}
    for _ in range(trials):
        distances = rng.choice([1.0, 2.0, 3.0], n, p=[0.436, 0.464, 0.1])
        medians = {
            "members": float(np.sort(members)[499]),
            "pooled": float(np.sort(np.concatenate([members, distances]))[999]),
        }
        for rows, radius in medians.items():
            p, _ = advantage_pvalues(np.count_nonzero(distances <= radius), n, shares[radius], 0.1)
            wrong[rows] += bool(p <= LEVEL) and shares[radius] - rates[radius] > 0.0999
    assert within_budget(wrong["members"], trials, LEVEL)
    assert beyond_doubt(wrong["pooled"], trials, LEVEL)


def kernel(points: Array, at: Array, width: float = 0.02) -> Array:
    """Return a Gaussian density of points, up to a factor."""
    return np.exp(-0.5 * ((at[:, None] - points) / width) ** 2).mean(axis=1) + 1e-12


def test_twin_reference_rows_as_calibration(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    """Density of the release over density of the reference, which is high at reference rows.

    They score low, because they were in the denominator: a threshold that one in twenty of them
    reaches is reached by many more fresh rows, and false alarms counted among them are too few.
    """
    trials, n = effort.times(whole=600, reduced=200), 150
    rng = np.random.default_rng(609)
    grid = (np.arange(4000) + 0.5) / 4000  # the law of records: uniform
    wrong, alarms = {"fresh": 0, "reference": 0}, {"fresh": 0.0, "reference": 0.0}
    for _ in range(trials):
        release, reference, members = rng.random(150), rng.random(150), rng.random(300)

        def score(at: Array, s: Array = release, r: Array = reference) -> Array:
            return np.log(kernel(s, at)) - np.log(kernel(r, at))

        at_law = score(grid)
        c = higher_quantile(score(rng.random(150)), "0.95")
        alarms["fresh"] += float(np.mean(at_law >= c)) / trials
        calibrated = higher_quantile(score(reference), "0.95")
        alarms["reference"] += float(np.mean(at_law >= calibrated)) / trials
        # The advantage is what it is, about 0, and the ceiling is put there.
        share, rate = float(Census(score(members)).share(c)), float(np.mean(at_law >= c))
        for rows, target in (("fresh", rng.random(n)), ("reference", reference)):
            count = np.count_nonzero(flags(score(target), c))
            _, q = advantage_pvalues(count, n, share, share - rate)
            wrong[rows] += bool(q <= LEVEL)
    assert within_budget(wrong["fresh"], trials, LEVEL)
    assert beyond_doubt(wrong["reference"], trials, LEVEL)
    assert alarms["fresh"] < 0.06
    assert alarms["reference"] > 0.08


def test_a_sample_of_members_pays_for_its_error_and_twins_do_not(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    """A table in the order of its scores, of which a few hundred members are scored.

    The first twin takes the first rows of a sorted sample of twice the size; the second takes the
    share of the sample for that of the members.
    """
    trials, n, error = effort.times(whole=4000, reduced=1200), 1000, 0.01
    flagged = np.arange(5000) >= 4000  # the last fifth of the table
    rate, tau = 0.1, 0.1
    rng = np.random.default_rng(610)
    counts = rng.binomial(n, rate, trials)
    honest = against = sorted_rows = plain = 0
    for seed, count in enumerate(counts):
        sample = flagged[member_sample(5000, 300, seed)]
        limits = sampled_share(sample, 5000, error=error)
        p, _ = advantage_pvalues(count, n, limits.upper, tau)
        _, q = advantage_pvalues(count, n, limits.lower, tau)
        honest += bool(p + error <= LEVEL)
        against += bool(q + error <= LEVEL)
        first = flagged[member_sample(5000, 600, seed)[:300]]
        p, _ = advantage_pvalues(count, n, sampled_share(first, 5000, error=error).upper, tau)
        sorted_rows += bool(p + error <= LEVEL)
        p, _ = advantage_pvalues(count, n, sample.mean(), tau)
        plain += bool(p <= LEVEL)
    assert within_budget(honest, trials, LEVEL)
    assert within_budget(against, trials, LEVEL)
    assert beyond_doubt(sorted_rows, trials, LEVEL)
    assert beyond_doubt(plain, trials, LEVEL)


def test_coins_refute_epsilon_within_the_level_and_a_fixed_split_does_not(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    """Each coin is told with odds e^epsilon; the twin puts one row of each pair in.

    A right guess about one row of a pair is then a right guess about the other too.
    """
    trials, rows, epsilon = effort.times(whole=20_000, reduced=4000), 200, 1.0
    rate = np.exp(epsilon) / (1.0 + np.exp(epsilon))
    table = np.array([epsilon_pvalue(w, rows, epsilon) for w in range(rows + 1)])
    rng = np.random.default_rng(611)
    coins = rng.binomial(rows, rate, trials)
    pairs = 2 * rng.binomial(rows // 2, rate, trials)
    assert within_budget(int(np.sum(table[coins] <= LEVEL)), trials, LEVEL)
    assert beyond_doubt(int(np.sum(table[pairs] <= LEVEL)), trials, LEVEL)


def test_guesses_about_several_draws_add_up_and_twins_do_not(
    within_budget: Verdict, beyond_doubt: Verdict, effort: pytest.FixtureRequest
) -> None:
    """Randomized response: every draw releases each coin, flipped with odds e^-epsilon.

    At the boundary of the claim the right guesses of all draws are binomial. In the first twin all
    draws share one preparation, their flips; the second breaks ties by a look at the coins.
    """
    trials, rows, draws, guesses, epsilon = effort.times(whole=6000, reduced=1500), 100, 4, 40, 1.0
    chance = np.exp(epsilon) / (1.0 + np.exp(epsilon))
    table = [epsilon_pvalue(w, draws * guesses, epsilon) for w in range(draws * guesses + 1)]
    rng = np.random.default_rng(612)
    wrong = {"coins": 0, "one preparation": 0, "ties by coins": 0}
    for trial in range(trials):
        shared = rng.random(rows) < chance
        right = dict.fromkeys(wrong, 0)
        for draw in range(draws):
            seed = trial * draws + draw
            coins = members_in(coin_bits(seed, rows), rows)
            told = np.where(rng.random(rows) < chance, coins, ~coins).astype(float)
            scores = {
                "coins": told,
                "one preparation": np.where(shared, coins, ~coins).astype(float),
                "ties by coins": told + 0.1 * coins,
            }
            for case, score in scores.items():
                # One order of ties for all draws: the shared flips are then of the same rows.
                order = trial if case == "one preparation" else seed
                guessed = best_guesses(score, guesses, order)
                right[case] += int(np.count_nonzero(guessed == np.where(coins, 1, -1)))
        for case, count in right.items():
            wrong[case] += table[count] <= LEVEL
    assert within_budget(wrong["coins"], trials, LEVEL)
    assert wrong["coins"] > 0.3 * LEVEL * trials
    assert beyond_doubt(wrong["one preparation"], trials, LEVEL)
    assert beyond_doubt(wrong["ties by coins"], trials, LEVEL)
