"""Orders that hold on any input: limits and p-values agree, and no bound falls below a weaker one.

These are statements about numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyguard.exact.betting import (
    betting_fixed_pvalue,
    betting_fixed_upper,
    betting_pvalue,
    betting_upper,
)
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.evalues import largest_invalid_count
from proxyguard.exact.mean import (
    bentkus_pvalue,
    bentkus_upper,
    binomial_pvalue,
    binomial_upper,
    chernoff_pvalue,
    chernoff_upper,
    empirical_bernstein_pvalue,
    empirical_bernstein_upper,
    hoeffding_pvalue,
    hoeffding_upper,
)
from proxyguard.exact.sharp import sharp_lower

Array = np.ndarray


@dataclass(frozen=True)
class Pair:
    """A p-value and the limit it inverts to, both read from records on the unit scale."""

    pvalue: Callable[[Array, float], float]
    upper: Callable[[Array, float], float]


def strata(u: Array) -> tuple[Array, Array, float]:
    """Return strata of one third and two thirds of the records, weighted 60 to 40."""
    cut = u.size // 3
    weights = np.concatenate([np.full(cut, 0.6 / cut), np.full(u.size - cut, 0.4 / (u.size - cut))])
    return weights, weights @ u, 1.0 / (0.36 / cut + 0.16 / (u.size - cut))


def indicators(u: Array) -> int:
    """Return how many fixed uniforms fall below their records, as the randomized test does."""
    return int(np.count_nonzero(np.random.default_rng(77).random(u.size) < u))


def ones(u: Array) -> int:
    """Return the count of the upper value after rounding the records to their two bounds."""
    return int(np.count_nonzero(u > 0.5))


PAIRS = {
    "empirical_bernstein": Pair(
        lambda u, v: float(empirical_bernstein_pvalue(u.mean(), u.var(ddof=1), u.size, v)),
        lambda u, d: float(empirical_bernstein_upper(u.mean(), u.var(ddof=1), u.size, delta=d)),
    ),
    "hoeffding": Pair(
        lambda u, v: float(hoeffding_pvalue(u.mean(), u.size, v)),
        lambda u, d: float(hoeffding_upper(u.mean(), u.size, delta=d)),
    ),
    "hoeffding, weighted": Pair(
        lambda u, v: float(hoeffding_pvalue(*strata(u)[1:], v)),
        lambda u, d: float(hoeffding_upper(*strata(u)[1:], delta=d)),
    ),
    "chernoff": Pair(
        lambda u, v: float(chernoff_pvalue(u.mean(), u.size, v)),
        lambda u, d: float(chernoff_upper(u.mean(), u.size, delta=d)),
    ),
    "bentkus": Pair(
        lambda u, v: float(bentkus_pvalue(u.mean(), u.size, v)),
        lambda u, d: float(bentkus_upper(u.mean(), u.size, delta=d)),
    ),
    "binomial": Pair(
        lambda u, v: float(binomial_pvalue(ones(u), u.size, v)),
        lambda u, d: float(binomial_upper(ones(u), u.size, delta=d)),
    ),
    "binomial, not identical": Pair(
        lambda u, v: float(binomial_pvalue(ones(u), u.size, v, identical=False)),
        lambda u, d: float(binomial_upper(ones(u), u.size, delta=d, identical=False)),
    ),
    "randomized_binomial": Pair(
        lambda u, v: float(binomial_pvalue(indicators(u), u.size, v)),
        lambda u, d: float(binomial_upper(indicators(u), u.size, delta=d)),
    ),
    "betting": Pair(
        lambda u, v: float(betting_pvalue(u, v, level=0.02)[0]),
        lambda u, d: float(betting_upper(u, level=0.02, delta=d)[0]),
    ),
    "betting_fixed": Pair(
        lambda u, v: float(betting_fixed_pvalue(u, v)[0]),
        lambda u, d: float(betting_fixed_upper(u, delta=d)[0]),
    ),
    "betting_fixed, weighted": Pair(
        lambda u, v: float(betting_fixed_pvalue(u, v, strata(u)[0])[0]),
        lambda u, d: float(betting_fixed_upper(u, strata(u)[0], delta=d)[0]),
    ),
}


@pytest.mark.parametrize("violation", [False, True], ids=["validation", "violation"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_pvalue_is_at_most_delta_exactly_when_the_limit_lies_below(
    name: str, violation: bool
) -> None:
    rng = np.random.default_rng(20260819)
    pair = PAIRS[name]
    decided = {True: 0, False: 0}
    for _ in range(12):
        size = int(rng.integers(6, 120))
        u = rng.beta(*rng.choice([[1.0, 6.0], [0.3, 1.0], [2.0, 2.0]]), size=size)
        if violation:
            u = 1.0 - u  # and v below stands for 1 - v
        for delta in (0.3, 0.05, 1e-4):
            limit = pair.upper(u, delta)
            # 1e-9 is far above the guards of both, far below any spacing of interest.
            trials = [limit - 1e-9, limit + 1e-9, *rng.random(3)]
            for v in (x for x in trials if 0.0 < x < 1.0 and abs(x - limit) > 0.9e-9):
                rejects = pair.pvalue(u, float(v)) <= delta
                assert rejects == (limit < v), (size, delta, v, limit)
                decided[rejects] += 1
    assert min(decided.values()) > 20  # both answers occurred


@given(
    st.integers(2, 200),
    st.floats(0.005, 0.995),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10),
)
def test_bentkus_is_at_most_chernoff_and_chernoff_at_most_hoeffding(
    n: int, v: float, means: list[float]
) -> None:
    mean = np.array(means)
    bentkus, chernoff = bentkus_pvalue(mean, n, v), chernoff_pvalue(mean, n, v)
    # Bentkus carries the stated error of its table, below 1e-9 at this n.
    assert np.all(bentkus <= chernoff * (1.0 + 1e-9))
    assert np.all(chernoff <= hoeffding_pvalue(mean, n, v) * (1.0 + 1e-11))


@given(st.integers(1, 300), st.floats(0.005, 0.995))
def test_the_exact_binomial_test_is_at_most_bentkus(n: int, v: float) -> None:
    counts = np.arange(n + 1)
    exact = binomial_pvalue(counts, n, v)
    assert np.all(exact <= bentkus_pvalue(counts / n, n, v) * (1.0 + 1e-11))
    assert np.all(exact <= binomial_pvalue(counts, n, v, identical=False))


def paper_lower(k: int, n: int, kappa: float, draws: float, target: float) -> float:
    """Return the paper's direct bound, Eq. (13), before any guard on the allowance."""
    return max(0.0, float(clopper_pearson_lower(k, n, alpha=draws)) - kappa / target)


def rescaled_lower(k: int, n: int, kappa: float, draws: float, target: float) -> float:
    """Return ``[(pi_CP - c)/(1 - c)]_+`` with ``c = kappa/alpha_Z``, theory section 2."""
    c = kappa / target
    rate = float(clopper_pearson_lower(k, n, alpha=draws))
    return 0.0 if c >= 1.0 else max(0.0, (rate - c) / (1.0 - c))


def e_value_lower(k: int, n: int, kappa: float, draws: float, target: float) -> float:
    """Return the bound from the e-value count with ``E = S/kappa``, theory section 3."""
    evalues = [1 / Fraction(kappa)] * k + [Fraction(0)] * (n - k)
    invalid = largest_invalid_count(evalues, alpha=Fraction(target))
    return float(clopper_pearson_lower(n - invalid, n, alpha=draws))


audits = st.tuples(
    st.sampled_from([1, 2, 10, 30, 100, 1000]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 1e-6, 0.001, 0.004, 0.01, 0.03, 0.06]),
    st.sampled_from([0.01, 0.05, 0.2]),
).map(lambda a: (a[0], round(a[0] * (1 - a[1] ** 3)), a[2], a[3]))
SPLITS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)


@settings(max_examples=60)
@given(audits)
def test_sharp_is_at_least_rescaled_and_rescaled_at_least_the_papers_bound_at_every_split(
    audit: tuple[int, int, float, float],
) -> None:
    n, k, kappa, alpha = audit
    sharp = sharp_lower(k, n, kappa=kappa, alpha=alpha)
    for share in SPLITS:
        draws, target = alpha * (1.0 - share), alpha * share
        rescaled = rescaled_lower(k, n, kappa, draws, target)
        assert rescaled >= paper_lower(k, n, kappa, draws, target) * (1.0 - 1e-15)
        # The search for the sharp limit stops at 1e-9 at the latest.
        assert sharp >= rescaled - 1e-9


@settings(max_examples=60)
@given(audits.filter(lambda a: a[2] > 0.0))
def test_sharp_is_at_least_the_e_value_bound_at_the_same_threshold_at_every_split(
    audit: tuple[int, int, float, float],
) -> None:
    n, k, kappa, alpha = audit
    sharp = sharp_lower(k, n, kappa=kappa, alpha=alpha)
    for share in SPLITS:
        draws, target = alpha * (1.0 - share), alpha * share
        count_bound = e_value_lower(k, n, kappa, draws, target)
        assert sharp >= count_bound - 1e-9


@given(audits.filter(lambda a: a[2] > 0.0))
def test_the_e_value_bound_is_at_least_the_papers_bound_when_the_draws_have_half_or_less(
    audit: tuple[int, int, float, float],
) -> None:
    n, k, kappa, alpha = audit
    # alpha_Q <= 1/2 as a level, at every split; E = S/kappa.
    for draws in (alpha / 50, alpha / 2, 0.5):
        for target in (alpha / 50, alpha / 2, 0.5):
            count_bound = e_value_lower(k, n, kappa, draws, target)
            assert count_bound >= paper_lower(k, n, kappa, draws, target) - 1e-12


def least_count(bound: Callable[[int], float], n: int) -> int | None:
    return next((k for k in range(n + 1) if bound(k) > 0.8), None)


@pytest.mark.parametrize(
    ("n", "kappa", "even", "uneven", "rescaled"),
    [
        # theory section 2: scores needed to validate .8 at .05; None is "impossible".
        (1000, 0.001, 863, 854, 833),
        (1000, 0.005, None, 934, 863),
        (1000, 0.01, None, None, 901),
        (1000, 0.02, None, None, 973),
        (100, 0.003, 98, 96, 91),
        (100, 0.01, None, None, 95),
        (30, 0.003, None, None, 29),
    ],
)
def test_the_weaker_columns_of_the_table_are_reproduced(
    n: int, kappa: float, even: int | None, uneven: int | None, rescaled: int
) -> None:
    assert least_count(lambda k: paper_lower(k, n, kappa, 0.025, 0.025), n) == even
    assert least_count(lambda k: paper_lower(k, n, kappa, 0.005, 0.045), n) == uneven
    assert least_count(lambda k: rescaled_lower(k, n, kappa, 0.025, 0.025), n) == rescaled
