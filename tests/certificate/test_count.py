"""The e-value count: how many of these releases, and of any subset, are valid."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

import proxyguard as pg
from proxyguard.modes.count import ValidCount

HIT = pg.Requirement(name="hit", low=0, high=1, limit=0.2, two_valued=True)


def closed_testing(evalues: list[Fraction], subset: tuple[int, ...], alpha: Fraction) -> int:
    """The most releases of a subset that can be invalid, by testing every intersection.

    An intersection I is kept while the mean of its e-values is below 1/alpha; at most
    |S and I| of S are invalid, for the worst I that is kept (Goeman and Solari 2011).
    """
    worst = 0
    for size in range(1, len(evalues) + 1):
        for chosen in combinations(range(len(evalues)), size):
            if sum(evalues[r] for r in chosen) < size / alpha:
                worst = max(worst, len(set(chosen) & set(subset)))
    return worst


def made(evalues: list[Any], alpha: str = "1/10") -> ValidCount:
    names = tuple("abcdefghij"[: len(evalues)])
    return ValidCount(releases=names, evalues=evalues, alpha=Fraction(alpha))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_every_subset_agrees_with_full_closed_testing(values: list[int]) -> None:
    evalues, alpha = [Fraction(v) for v in values], Fraction(1, 10)
    count = made(evalues)
    for size in range(len(values) + 1):
        for subset in combinations(range(len(values)), size):
            names = [count.releases[r] for r in subset]
            assert count.of(names) == size - closed_testing(evalues, subset, alpha)


def test_all_none_and_one() -> None:
    # E - 1/alpha is -10, -7, -1, 5, 25, 50: running sums -10, -17, -18, -13, 12, 62.
    count = made([Fraction(v) for v in (0, 3, 9, 15, 35, 60)])
    assert count.of(count.releases) == count.at_least == 2
    assert count.of([]) == 0
    # Alone, each faces the negative ones outside, -18 in all for the last three.
    assert [count.of([name]) for name in count.releases] == [0, 0, 0, 0, 1, 1]
    assert count.of(["d", "e"]) == 1
    assert count.of(["e", "f"]) == 2


def test_a_subset_is_named_by_releases_at_hand() -> None:
    count = made([Fraction(1), Fraction(50)])
    with pytest.raises(pg.RegistryError, match="'z'"):
        count.of(["a", "z"])
    assert count.of(["b", "b"]) == count.of(["b"])


def counts(*hits: int, n: int = 400) -> NDArray[np.float64]:
    return (np.arange(n)[None, :, None] < np.array(hits)[:, None, None]).astype(float)


def certify(values: Any, **choices: Any) -> pg.Certificate:
    choices = {"mode": "count", "reliability_target": 0.8, "seed": 1} | choices
    return pg.certify(values, [HIT], **choices)


def test_the_certificate_carries_its_count() -> None:
    certificate = certify(counts(*[30] * 45, *[200] * 5))
    assert certificate.count is not None
    assert certificate.count.alpha == Fraction(1, 40)
    k = certificate.count.at_least
    assert 40 <= k <= 45
    assert certificate.lower.steps[0] == ("valid releases at least (e-value count)", k)
    assert certificate.reliability_lower == pytest.approx(beta.ppf(0.025, k, 50 - k + 1), rel=1e-9)
    assert f"Of these 50 releases at least {k} are valid, with 97.5 % confidence." in str(
        certificate
    )
    good = [str(r) for r in range(45)]
    assert certificate.count.of(good) >= k
    assert certificate.count.of(["49"]) == 0
    assert pg.certify(counts(30), [HIT], reliability_target=0.8).count is None


def test_at_the_bonferroni_threshold_it_is_the_bonferroni_count() -> None:
    # theory section 3: threshold(alpha_Z/R), a tie in every comparison, exact rationals.
    values = counts(*range(30, 80))
    certificate = certify(values, threshold=Fraction(1, 40 * 50))
    p = certificate.evidence.release_pvalues
    assert certificate.count is not None
    expected = int((p <= 0.025 / 50).sum())
    assert 0 < expected < 50
    assert certificate.count.at_least == expected


def test_one_perfect_release_at_the_bonferroni_threshold_is_counted() -> None:
    # E = 400 and nine zeros have mean 40 = 1/alpha_Z: the tie is decided exactly.
    certificate = certify(counts(0, *[400] * 9), threshold=Fraction(1, 400))
    assert certificate.count is not None
    assert certificate.count.alpha == Fraction(1, 40)
    assert certificate.count.evalues == [400, *[0] * 9]
    assert certificate.count.at_least == 1
    assert certificate.count.of(["0"]) == 1


def test_the_count_grows_with_better_releases() -> None:
    seen = []
    for good in range(0, 51, 10):
        certificate = certify(counts(*[30] * good, *[200] * (50 - good)))
        assert certificate.count is not None
        seen.append(certificate.count.at_least)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 50)


def test_the_capital_of_betting_is_an_evalue_too() -> None:
    values = counts(*[30] * 45, *[200] * 5)
    for test in ("betting", "betting_fixed"):
        certificate = certify(values, calibrator="capital", test=test)
        assert certificate.count is not None
        assert certificate.count.at_least == 45
        assert max(certificate.count.evalues[45:]) < 1 < min(certificate.count.evalues[:45])


def test_a_false_discovery_list_is_labelled_as_one() -> None:
    count = certify(counts(*[30] * 45, *[200] * 5)).count
    assert count is not None
    listed = count.discovery_list(rate=0.1)
    assert set(listed.releases) == {str(r) for r in range(45)}
    assert "false discovery rate" in listed.label
    assert "no statement about any one release" in listed.label
