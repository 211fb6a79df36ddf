"""Rounded statistics: never a stronger claim than the losses make, and what they still tell."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.certificate.mechanism import certify_evidence, reading_of
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.errors import SealError, UnsupportedDesign
from proxyguard.evidence import releases as disclosure
from proxyguard.evidence.record import evidence_record, read_evidence
from proxyguard.evidence.releases import (
    ReleaseEvidence,
    evidence_of,
    gather_evidence,
    is_published,
    publish,
)
from proxyguard.exact.rounding import (
    round_count_down,
    round_count_up,
    round_down,
    round_pvalue,
    round_up,
)
from proxyguard.losses.cell import Column, Reading, share_column
from proxyguard.losses.read import LossArray
from proxyguard.modes.claim import Claim, Levels
from proxyguard.registry.test import ComponentTest

Array = NDArray[np.float64]
ORDER = {pg.Decision.VIOLATION: 0, pg.Decision.UNRESOLVED: 1, pg.Decision.VALIDATED: 2}
TESTS = [
    "empirical_bernstein", "hoeffding", "chernoff", "bentkus", "betting", "betting_fixed",
    "binomial", "randomized_binomial",
]  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "direct": {},
    "slack": {"score": "slack"},
    "paper": {"score": "slack", "bound": "paper", "target_share": "0.9"},
    "named": {"mode": "named"},
    "hybrid": {"mode": "hybrid"},
    "count": {"mode": "count", "threshold": "0.001"},
    "capital": {"mode": "count", "test": "betting", "beta": None},
    "smooth": {"mode": "smooth", "beta": None},
    "block": {"mode": "block", "block_size": 5, "beta": None},
}


def requirement(*, two_valued: bool = False) -> pg.Requirement:
    return pg.Requirement(
        name="loss", low=0, high=1, limit=0.2, slack=0.08, ramp=0.1, two_valued=two_valued
    )


def read(values: Array, choices: dict[str, Any], *, two_valued: bool) -> tuple[Claim, Levels, Any]:
    """How these losses are read, and at which levels."""
    claim = Claim.of({"reliability_target": 0.7} | choices)
    levels = claim.levels(n_releases=len(values), n_requirements=1)
    reading = reading_of(claim, (requirement(two_valued=two_valued),), pg.Iid(), levels, 3)
    return claim, levels, reading


def losses(seed: int, mean: float, *, two_valued: bool, releases: int = 30, n: int = 90) -> Array:
    rng = np.random.default_rng(seed)
    means = np.clip(mean + 0.04 * rng.normal(size=(releases, 1)), 0.0, 1.0)
    draws = rng.random((releases, n))
    values = (draws < means).astype(float) if two_valued else np.clip(means * 2 * draws, 0, 1)
    return values[:, :, None]


def gathered(values: Array, reading: Reading, digits: int | None) -> ReleaseEvidence:
    return gather_evidence(LossArray(values), replace(reading, digits=digits))


@given(st.floats(0.0, 1.0), st.integers(1, 6))
def test_rounding_moves_to_a_multiple_on_its_side_and_stays_there(x: float, digits: int) -> None:
    up, down = (float(f(x, digits)) for f in (round_up, round_down))
    assert down <= x * (1 + 1e-15)
    assert x <= up * (1 + 1e-15) + 1e-300
    assert up - down <= 10.0**-digits * (1 + 1e-9)
    assert (float(repr(round(up, digits))), float(repr(round(down, digits)))) == (up, down)
    assert float(round_up(up, digits)) == float(round_down(up, digits)) == up


def test_a_rounded_zero_has_one_spelling_and_infinities_stay() -> None:
    for rounding in (round_up, round_down):
        assert repr(rounding([0.0, -0.0], 3).tolist()) == "[0.0, 0.0]"
        assert rounding([np.inf, -np.inf], 3).tolist() == [np.inf, -np.inf]
    assert repr(round_down([1e-9, -1e-9], 3).tolist()) == "[0.0, -0.001]"
    assert repr(round_up([1e-9, -1e-9], 3).tolist()) == "[0.001, 0.0]"


@given(st.integers(1, 3000), st.data(), st.integers(1, 6))
def test_counts_round_to_the_extreme_ones_that_look_alike(
    n: int, data: st.DataObject, digits: int
) -> None:
    k, grid = data.draw(st.integers(0, n)), 10**digits
    up, down = (int(f(np.int64(k), n, digits)) for f in (round_count_up, round_count_down))
    alike = [c for c in range(n + 1) if -(-c * grid // n) == -(-k * grid // n)]
    assert up == max(alike)
    assert down == min(c for c in range(n + 1) if c * grid // n == k * grid // n)
    assert down <= k <= up
    assert int(round_count_up(np.int64(up), n, digits)) == up
    if grid >= n:
        assert up == down == k


@given(st.floats(1e-300, 1.0), st.integers(1, 6))
def test_a_pvalue_rounds_up_in_significant_digits(p: float, digits: int) -> None:
    rounded = float(round_pvalue([p], digits)[0])
    assert p <= rounded <= min(1.0, p * (1.0 + 10.0 ** (1 - digits)) * (1 + 1e-12))
    assert float(f"{rounded:.{digits - 1}e}") == rounded
    assert float(round_pvalue([rounded], digits)[0]) == rounded


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (-250.0, 40_000.0)])
def test_a_rounded_estimate_has_no_more_digits_than_its_steps(low: float, high: float) -> None:
    wide = pg.Requirement(name="loss", low=low, high=high, limit=low + 0.7 * (high - low))
    claim = Claim.of({"reliability_target": 0.7})
    levels = claim.levels(n_releases=200, n_requirements=1)
    reading = reading_of(claim, (wide,), pg.Iid(), levels, 3)
    rng = np.random.default_rng(5)
    values = low + (high - low) * rng.random((200, 40, 1)) * rng.random((200, 1, 1))
    evidence = gathered(values, reading, 3)
    step = (Fraction(repr(high)) - Fraction(repr(low))) / 1000
    steps = {float(Fraction(repr(low)) + k * step) for k in range(1001)}
    # Each is the very double that its decimal reads as: rounded up, it stays as it is.
    assert set(evidence.estimates.ravel().tolist()) <= steps
    plain = gathered(values, reading, None).estimates
    assert np.all(evidence.estimates >= plain - 1e-9 * (high - low))


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("test", TESTS)
def test_no_rounded_pvalue_is_smaller_and_no_rounded_limit_tighter(test: str, digits: int) -> None:
    two_valued = test == "binomial"
    for seed, mean in enumerate((0.05, 0.12, 0.2, 0.3, 0.6)):
        values = losses(seed, mean, two_valued=two_valued)
        _, _, reading = read(values, {"test": test}, two_valued=two_valued)
        plain, rounded = (gathered(values, reading, d) for d in (None, digits))
        assert np.all(rounded.pvalues >= plain.pvalues)
        assert np.all(rounded.violation_pvalues >= plain.violation_pvalues)
        exact, coarse = (evidence.limits(0.01, 0.01) for evidence in (plain, rounded))
        known = np.isfinite(exact.upper)
        assert np.all((coarse.lower <= exact.lower)[known])
        assert np.all((coarse.upper >= exact.upper)[known])
        if digits == 1 and known.any():  # two digits tell every count of so few records
            assert not np.array_equal(coarse.upper, exact.upper)


def no_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round to the nearest, as one would without thinking."""

    def nearest(values: Any, digits: int) -> Array:
        return np.asarray(np.round(values, digits))

    def nearest_count(count: Any, n: int, digits: int) -> Any:
        return np.rint(np.round(count / n, digits) * n).astype(np.int64)

    for name in ("round_up", "round_down"):
        monkeypatch.setattr(disclosure, name, nearest)
    for name in ("round_count_up", "round_count_down"):
        monkeypatch.setattr(disclosure, name, nearest_count)


def stronger_decisions(mode: str, digits: int, *, audits: int) -> int:
    """How often rounded statistics validate, or show a violation, where the losses did not."""
    found = 0
    for seed in range(audits):
        two_valued = bool(seed % 2) and mode != "capital"
        mean = (0.06, 0.09, 0.11, 0.13, 0.2, 0.24, 0.27, 0.3, 0.35, 0.4)[seed % 10]
        values = losses(seed, mean, two_valued=two_valued)
        claim, levels, reading = read(values, MODES[mode], two_valued=two_valued)
        plain, rounded = (
            certify_evidence(claim, {"m": (gathered(values, reading, d), levels)})["m"]
            for d in (None, digits)
        )
        if ORDER[rounded.decision] != 1 and rounded.decision is not plain.decision:
            found += 1
        found += rounded.reliability_lower > plain.reliability_lower
        if plain.upper is not None and rounded.upper is not None:
            found += rounded.reliability_upper < plain.reliability_upper
    return found


@pytest.mark.parametrize("mode", MODES)
def test_no_decision_on_rounded_statistics_is_stronger_than_that_on_the_losses(mode: str) -> None:
    assert stronger_decisions(mode, 2, audits=20) == 0
    assert stronger_decisions(mode, 1, audits=20) == 0


@pytest.mark.parametrize("test", TESTS)
def test_rounding_to_the_nearest_would_make_pvalues_smaller(
    test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_side(monkeypatch)
    two_valued = test == "binomial"
    smaller = 0
    for seed, mean in enumerate((0.05, 0.1, 0.4)):
        values = losses(seed, mean, two_valued=two_valued, n=700)
        _, _, reading = read(values, {"test": test}, two_valued=two_valued)
        plain, rounded = (gathered(values, reading, d) for d in (None, 2))
        smaller += int(np.count_nonzero(rounded.pvalues < plain.pvalues))
        smaller += int(np.count_nonzero(rounded.violation_pvalues < plain.violation_pvalues))
    assert smaller > 0


def test_rounding_to_the_nearest_would_claim_more_than_the_losses_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_side(monkeypatch)
    assert stronger_decisions("slack", 1, audits=60) > 0


def test_an_invalid_mechanism_is_validated_by_rounding_to_the_nearest_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All means are .2043 against a limit of .204 and a cutoff of .2: no release looks valid.
    tight = pg.Requirement(name="loss", low=0, high=1, limit=0.204, slack=0.004)
    column = Column(n=200_000, mean=np.full(40, 0.2043), variance=None)
    claim = Claim.of({"reliability_target": 0.8, "score": "slack", "beta": None})
    levels = claim.levels(n_releases=40, n_requirements=1)
    reading = replace(
        reading_of(claim, (tight,), pg.Iid(), levels, 1), tests=(ComponentTest.CHERNOFF,)
    )

    def decide(digits: int | None) -> pg.Decision:
        evidence = evidence_of(
            (column,), replace(reading, digits=digits),
            releases=tuple(map(str, range(40))),
        )  # fmt: skip
        return certify_evidence(claim, {"m": (evidence, levels)})["m"].decision

    assert decide(None) is decide(2) is pg.Decision.UNRESOLVED
    no_side(monkeypatch)
    assert decide(2) is pg.Decision.VALIDATED


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**31), st.booleans(), st.sampled_from(TESTS))
def test_publishing_twice_changes_nothing_and_a_record_reads_back(
    digits: int, seed: int, two_valued: bool, test: str
) -> None:
    two_valued = two_valued or test == "binomial"
    values = losses(seed, 0.15, two_valued=two_valued, releases=5, n=37)
    _, _, reading = read(values, {"test": test}, two_valued=two_valued)
    evidence = gathered(values, reading, digits)
    assert is_published(evidence.columns[0], digits)
    record = evidence_record(evidence)
    again = evidence_record(read_evidence(record, replace(reading, digits=digits)))
    assert again == record
    for name, part in record.columns[0].to_dict().items():
        if name in ("mean", "mean_low"):
            assert all(round(x, digits) == x for x in part)


@given(st.integers(1, 500), st.data(), st.integers(1, 4))
def test_a_share_is_rounded_by_its_count_and_its_variance_covers_every_count_between(
    n: int, data: st.DataObject, digits: int
) -> None:
    k = data.draw(st.integers(0, n))
    answer = np.array([0.25, 0.5])
    plain = share_column(n, np.array([k, k]), answer)
    rounded = publish(plain, digits)
    assert rounded.count is not None
    assert rounded.count_low is not None
    assert rounded.variance is not None
    assert rounded.mean_low is not None
    for count in range(int(rounded.count_low[0]), int(rounded.count[0]) + 1):
        between = share_column(n, np.array([count, count]), answer)
        assert between.variance is not None
        assert np.all(rounded.variance >= between.variance * (1 - 1e-12))
        assert np.all((rounded.mean_low <= between.mean) & (between.mean <= rounded.mean))
    assert is_published(rounded, digits)


@given(st.integers(20, 500), st.data(), st.integers(1, 2))
def test_limits_of_a_share_of_members_leave_the_counts_of_both_directions_one(
    n: int, data: st.DataObject, digits: int
) -> None:
    k = np.array([data.draw(st.integers(0, n))])
    lower, upper = np.array([0.25]), np.array([0.5])
    rounded = publish(share_column(n, k, lower, k, upper), digits)
    assert is_published(rounded, digits)
    # A count for validation and another for violation: each is rounded, and of one number only.
    far = np.array([0 if k[0] > n / 2 else n])
    other = publish(share_column(n, np.maximum(k, far), lower, np.minimum(k, far), upper), digits)
    assert not is_published(other, digits)
    assert is_published(other, digits, thresholds=20)


@pytest.mark.parametrize(
    "change",
    [
        lambda column: column["mean"].__setitem__(0, 0.1234),
        lambda column: column["mean_low"].__setitem__(0, column["mean"][0] - 0.05),
        lambda column: column["mean_low"].__setitem__(0, column["mean"][0] + 0.01),
        lambda column: column.pop("mean_low"),
        lambda column: column["count"].__setitem__(0, column["count"][0] + 1),
        lambda column: column["count_low"].__setitem__(0, column["count_low"][0] - 20),
    ],
    ids=["finer", "two means", "turned round", "one mean", "finer count", "two counts"],
)
def test_a_record_that_is_not_rounded_as_registered_is_refused(change: Any) -> None:
    values = losses(1, 0.15, two_valued=True, n=1000)
    _, _, reading = read(values, {"test": "binomial"}, two_valued=True)
    rounded = replace(reading, digits=2)
    record = evidence_record(gathered(values, reading, 2))
    read_evidence(record, rounded)
    changed = record.to_dict()
    change(changed["columns"][0])
    changed = GroupEvidence.of(changed, "the evidence")
    with pytest.raises(SealError, match="rounded"):
        read_evidence(changed, rounded)


def test_rounded_statistics_without_a_registered_disclosure_are_refused() -> None:
    values = losses(1, 0.15, two_valued=False)
    _, _, reading = read(values, {"test": "bentkus"}, two_valued=False)
    record = evidence_record(gathered(values, reading, 2))
    with pytest.raises(SealError, match="no disclosure is registered"):
        read_evidence(record, reading)


def test_a_ratio_of_two_means_has_no_weaker_side() -> None:
    column = Column(n=10, mean=np.array([0.2]), variance=None, size_share=0.5)
    with pytest.raises(UnsupportedDesign, match="ratio"):
        publish(column, 3)


# What a folder gives away: the means of R releases are R linear equations in the n labels, and
# whoever has the features and the stored models knows every coefficient.


def recovered(predictions: Array, labels: Array, digits: int | None) -> int:
    """How many labels somebody reads off the published means, knowing the predictions."""
    n = labels.size
    brier = pg.Requirement(name="Brier", low=0, high=1, limit=0.3)
    claim = Claim.of({"reliability_target": 0.8})
    levels = claim.levels(n_releases=len(predictions), n_requirements=1)
    reading = reading_of(claim, (brier,), pg.Iid(), levels, 1)
    values = ((predictions - labels) ** 2)[:, :, None]
    published = evidence_record(gathered(values, reading, digits)).columns[0]
    mean = np.array(published.mean)
    if digits is not None:
        mean = (mean + np.array(published.mean_low)) / 2
    # (f - y)^2 = f^2 + y (1 - 2 f) for a label of 0 or 1.
    solution, *_ = np.linalg.lstsq(
        (1.0 - 2.0 * predictions) / n, mean - (predictions**2).mean(axis=1), rcond=1e-15
    )
    return int(np.count_nonzero((solution > 0.5) == (labels == 1.0)))


def attack(*, spread: float, digits: int | None) -> int:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60, 20))
    labels = (rng.random(60) < 0.5).astype(float)
    weights = rng.normal(size=20) + spread * rng.normal(size=(80, 20))
    return recovered(1.0 / (1.0 + np.exp(-weights @ x.T)), labels, digits)


def test_means_of_eighty_releases_give_away_sixty_labels() -> None:
    assert attack(spread=1.0, digits=None) == 60
    assert attack(spread=0.1, digits=None) == 60  # releases that are much alike


def test_rounding_hides_labels_only_where_releases_are_alike() -> None:
    # The truth about disclosure = { digits = 3 }: it is no privacy guarantee.
    # Right by chance are about 30 of 60. The figures stand in docs/threat-model.md.
    told = {
        spread: [attack(spread=spread, digits=digits) for digits in (6, 4, 3, 2, 1)]
        for spread in (1.0, 0.1, 0.03)
    }
    assert told[1.0][:4] == [60, 60, 60, 60]  # releases that differ: 2 digits hide nothing
    assert told[1.0][4] <= 50
    assert told[0.1][0] == 60
    assert 50 <= told[0.1][1] < 60
    assert told[0.1][2] <= 46
    assert told[0.03][2] <= 40
