"""Missing losses: filled by direction, counted, and said (theory section 1)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.errors import SealError
from proxyguard.evidence.record import check_counts, evidence_record, read_evidence
from proxyguard.exact.mean import empirical_bernstein_pvalue
from proxyguard.registry.test import ComponentTest

LOSS = pg.Requirement(name="loss", low=-1, high=1, limit=0.1, missing="worst")
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True, missing="worst")
RNG = np.random.default_rng(5)
VALUES = np.stack([RNG.uniform(-1, 1, (5, 300)), RNG.random((5, 300)) < 0.15], axis=2).astype(float)
VALUES[RNG.random((5, 300)) < 0.1] = np.nan
RECORDS: dict[str, pg.Records] = {
    "iid": pg.Records(random_order=True),
    "weights": pg.Records(weights=RNG.choice([0.5, 3.0], size=300), random_order=True),
    "clusters": pg.Records(clusters=np.repeat(np.arange(60), 5), random_order=True),
    "strata": pg.Records(strata=np.repeat(["a", "b"], 150)),
    "group": pg.Records(groups={"g": RNG.random(300) < 0.4}, random_order=True),
}
DESIGNS: dict[str, Any] = {
    "iid": pg.Iid(),
    "weights": pg.Weighted(max_weight=3, origin="design"),
    "clusters": pg.Clustered(),
    "strata": pg.Stratified(sizes={"a": 150, "b": 150}, weights={"a": "0.3", "b": "0.7"}),
    "group": pg.Iid(),
}


def evidence(values: np.ndarray, rules: list[pg.Requirement], kind: str, test: Any) -> Any:
    if kind == "group":
        rules = [dataclasses.replace(rule, group="g") for rule in rules]
    return pg.certify(
        pg.LossArray(values, RECORDS[kind]), rules, design=DESIGNS[kind],
        reliability_target=0.5, seed=1, test=test,
    ).evidence  # fmt: skip


def filled(side: str) -> np.ndarray:
    """Fill by hand, with one bound for both directions."""
    bounds = [getattr(rule, side) for rule in (LOSS, ERROR)]
    return np.where(np.isnan(VALUES), np.array(bounds)[None, None, :], VALUES)


TESTS = ["empirical_bernstein", "hoeffding", "bentkus", "betting", "betting_fixed",
         "randomized_binomial", {"loss": "bentkus", "error": "binomial"}]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        *[("iid", test) for test in TESTS],
        *[("group", test) for test in TESTS],
        *[("weights", test) for test in TESTS[:-1]],
        *[("clusters", test) for test in TESTS[:-1]],
        ("strata", "hoeffding"),
        ("strata", "betting_fixed"),
    ],
)
def test_each_direction_is_that_of_its_own_fill(kind: str, test: Any) -> None:
    plain = [dataclasses.replace(rule, missing="refuse") for rule in (LOSS, ERROR)]
    found = evidence(VALUES, [LOSS, ERROR], kind, test)
    high, low = (evidence(filled(side), plain, kind, test) for side in ("high", "low"))
    np.testing.assert_array_equal(found.pvalues, high.pvalues)
    np.testing.assert_array_equal(found.violation_pvalues, low.violation_pvalues)
    np.testing.assert_array_equal(found.estimates, high.estimates)
    both, upper, lower = (each.limits(0.01, 0.01) for each in (found, high, low))
    np.testing.assert_allclose(both.upper, upper.upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(both.lower, lower.lower, rtol=0, atol=1e-12)
    inside = RECORDS[kind].group("g") if kind == "group" else np.ones(300, dtype=bool)
    for j, column in enumerate(found.columns):
        assert column.missing.tolist() == np.isnan(VALUES[:, inside, j]).sum(axis=1).tolist()


def test_without_missing_losses_nothing_changes() -> None:
    whole = filled("low")
    plain = [dataclasses.replace(rule, missing="refuse") for rule in (LOSS, ERROR)]
    found, other = (evidence(whole, rules, "iid", None) for rules in ([LOSS, ERROR], plain))
    np.testing.assert_array_equal(found.pvalues, other.pvalues)
    np.testing.assert_array_equal(found.violation_pvalues, other.violation_pvalues)


def test_chunks_count_missing_losses_together() -> None:
    stream = pg.LossStream(
        chunks=[VALUES[:, :70], VALUES[:, 70:]],
        n_releases=5, n_records=300, n_requirements=2,
    )  # fmt: skip
    found = pg.certify(stream, [LOSS, ERROR], reliability_target=0.5, test="bentkus").evidence
    whole = evidence(VALUES, [LOSS, ERROR], "iid", "bentkus")
    np.testing.assert_array_equal(found.pvalues, whole.pvalues)
    np.testing.assert_array_equal(found.columns[0].missing, whole.columns[0].missing)


def test_the_default_refuses_and_says_how_to_count() -> None:
    rule = dataclasses.replace(LOSS, missing="refuse")
    with pytest.raises(pg.LossOutOfBounds, match='declare missing="worst"'):
        pg.certify(VALUES[:, :, :1], [rule], reliability_target=0.5)
    # What is there is checked all the same.
    wrong = VALUES[:, :, :1].copy()
    wrong[2, 5] = 7.0
    with pytest.raises(pg.LossOutOfBounds, match="release 2, record 5"):
        pg.certify(wrong, [LOSS], reliability_target=0.5)


def test_the_certificate_says_how_many() -> None:
    certificate = pg.certify(VALUES, [LOSS, ERROR], reliability_target=0.5, seed=1)
    counts = np.isnan(VALUES[:, :, 0]).sum(axis=1)
    assert f"{counts.min()} to {counts.max()} losses of a release missing" in str(certificate)
    said = "holds where whether a loss is missing depends on its own record alone"
    assert f"betting {said}" in str(certificate)
    rising = pg.certify(VALUES, [LOSS, ERROR], reliability_target=0.5, seed=1, test="hoeffding")
    assert said not in str(rising)


def test_a_plan_refuses_what_it_does_not_model() -> None:
    with pytest.raises(pg.RegistryError, match="limits that are lower by the share"):
        pg.assumed_law([LOSS], margins=[0.1], reliability=0.9)
    with pytest.raises(pg.RegistryError, match="only a loss can be missing"):
        pg.Requirement(name="s", low=-1, high=1, limit=0.1, indicator=True, missing="worst")
    with pytest.raises(pg.UnsupportedDesign, match="do not say which losses were missing"):
        pg.certify(pg.Moments(n=9, mean=[[0.0]]), [LOSS], reliability_target=0.5, test="bentkus")


def test_a_record_of_two_fills_is_read_back_and_no_other_is() -> None:
    found = evidence(
        VALUES, [LOSS, ERROR], "iid", {"loss": "empirical_bernstein", "error": "binomial"}
    )
    record = evidence_record(found)
    again = read_evidence(record, found.reading)
    np.testing.assert_array_equal(again.pvalues, found.pvalues)
    np.testing.assert_array_equal(again.violation_pvalues, found.violation_pvalues)
    check_counts(record, found.reading, 300)
    columns = record.columns
    for j, change in (
        (0, {"mean_low": columns[0].mean}),
        (0, {"missing": tuple(k + 1 for k in columns[0].missing or ())}),
        (0, {"missing": None}),
        (0, {"variance_low": None}),
        (1, {"count_low": columns[1].count}),
    ):
        forged = list(columns)
        forged[j] = columns[j].model_copy(update=change)
        with pytest.raises(SealError):
            check_counts(record.model_copy(update={"columns": tuple(forged)}), found.reading, 300)


@pytest.mark.parametrize("test", [t for t in ComponentTest if t.rises and t.value != "binomial"])
@pytest.mark.parametrize("lost", ["after the first error", "all but the small ones"])
def test_tests_that_rise_hold_whatever_made_losses_missing(test: Any, lost: str) -> None:
    """A loss of a record never lowers a p-value, in either direction (theory section 1)."""
    whole = RNG.random((4, 80)) * 0.6
    gone = whole.copy()
    if lost == "after the first error":
        gone[:, int(np.argmax(whole[0] > 0.5)) :] = np.nan
    else:
        gone[whole > np.median(whole, axis=1)[:, None]] = np.nan
    rule = pg.Requirement(name="loss", low=0, high=1, limit=0.3, missing="worst")
    asked: Any = {"reliability_target": 0.5, "seed": 1, "test": test}
    plain, filled = (
        pg.certify(
            pg.LossArray(values[:, :, None], pg.Records(random_order=True)), [rule], **asked
        ).evidence
        for values in (whole, gone)
    )
    assert np.all(filled.pvalues >= plain.pvalues * (1 - 1e-9))
    assert np.all(filled.violation_pvalues >= plain.violation_pvalues * (1 - 1e-9))


def test_a_test_that_does_not_rise_may_fall_with_a_loss() -> None:
    # Its twin: ten losses rise to what the others are, and their variance is gone.
    before, after = np.r_[np.zeros(10), np.full(90, 0.3)], np.full(100, 0.3)
    pvalues = [
        float(empirical_bernstein_pvalue(x.mean(), x.var(ddof=1), 100, 0.6))
        for x in (before, after)
    ]
    assert pvalues[1] < pvalues[0]
    assert not ComponentTest.EMPIRICAL_BERNSTEIN.rises
