"""Answers tested on the range of their own losses, at the limit (theory section 1, *Ranges*).

A release's answer is frozen before the target is read, so that the ends of what is tested are
constants. Every trial is a target of its own, at exactly the limit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Measure, measure_query
from proxyguard.losses.query import BoundedQuery, CodedRecords, Denominator
from proxyguard.losses.read import LossReader
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.test import ComponentTest

pytestmark = pytest.mark.guarantee

LEVEL, LIMIT = 0.05, 0.1
PART = RequirementPart.model_validate(
    {"name": "q", "form": "query", "limit": "0.1", "query": {"share": {"a": "1"}}}
)
SHARE = BoundedQuery("q", 0.0, 1.0, cell=(("a", "1"),))
MEAN = BoundedQuery("q", 0.0, 5.0, column="a")
RATIO = BoundedQuery("q", 0.0, 5.0, "a", per=Denominator("b", 0.0, 1.0))
IID = ("betting", "betting_fixed", "hoeffding", "chernoff", "bentkus", "empirical_bernstein")


def read(
    measure: Measure, values: np.ndarray, answer: float, test: str, *, design: object,
    ends: np.ndarray | None = None, **columns: np.ndarray,
) -> ReleaseEvidence:  # fmt: skip
    """Read trials, (trials, records, ...), as one release each that gives one answer."""
    losses = np.stack([measure.of_query_values(trial, answer) for trial in values])
    reading = Reading(
        requirements=(measure.requirement,), design=design, tests=(ComponentTest(test),),
        level=LEVEL, violation_level=LEVEL, seed=1,
    )  # fmt: skip
    array = pg.LossArray(losses[:, :, None], pg.Records(random_order=True, **columns))
    if ends is None:
        ends = np.repeat(np.array(measure.ends(answer))[:, None], len(values), axis=1)
    reader = LossReader(array, reading, [ends])
    reader.add(array)
    names = tuple(map(str, range(len(values))))
    return evidence_of(reader.finish().columns, reading, releases=names)


def wrong(found: ReleaseEvidence) -> tuple[int, int]:
    """Count false validations and false violations."""
    pair = (found.pvalues, found.violation_pvalues)
    return int(np.sum(pair[0] <= LEVEL)), int(np.sum(pair[1] <= LEVEL))


def rare_number(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of 0 and, one in fifty, 5: their mean is 0.1."""
    return np.where(rng.random(shape) < 0.02, 5.0, 0.0)


def sides(query: BoundedQuery) -> tuple[Measure, Measure]:
    return measure_query(PART, query, limit=str(LIMIT), slack=None)


@pytest.mark.parametrize("test", IID)
@pytest.mark.parametrize("side", [0, 1], ids=["above", "below"])
def test_a_mean_at_the_limit(test, side, within_budget):
    rng = np.random.default_rng(301)
    # The target's mean is 0.1: above an answer of 0 by the limit, and below one of 0.2.
    answer = (0.0, 0.2)[side]
    found = read(sides(MEAN)[side], rare_number(rng, (3000, 150)), answer, test, design=pg.Iid())
    for errors in wrong(found):
        assert within_budget(errors, 3000, LEVEL)


@pytest.mark.parametrize("test", IID)
@pytest.mark.parametrize("side", [0, 1], ids=["above", "below"])
def test_a_ratio_at_the_limit(test, side, within_budget):
    rng = np.random.default_rng(302)
    below = (rng.random((3000, 150)) < 0.3).astype(float)
    above = rare_number(rng, below.shape) * below  # of those below the line one in fifty
    answer = (0.0, 0.2)[side]
    found = read(
        sides(RATIO)[side], np.stack([above, below], axis=2), answer, test, design=pg.Iid()
    )
    for errors in wrong(found):
        assert within_budget(errors, 3000, LEVEL)


def survey(rng: np.random.Generator, trials: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return (0 or 1, labels) of 60 clusters of 3 records in strata with weights.

    A cluster says one thing, by 4 persons a record in the north and 1 in the south; as many of the
    survey's clusters are in the north as in the south, and of the target's two thirds. Of all
    persons .08 say yes: .05 in the north, .2 in the south.
    """
    clusters = np.repeat(np.arange(60), 3)
    north = np.arange(60) < 40
    says = rng.random((trials, 60)) < np.where(north, 0.05, 0.2)
    return says[:, clusters].astype(float), {
        "strata": np.where(north, "north", "south")[clusters], "clusters": clusters,
        "weights": np.where(north, 4.0, 1.0)[clusters],
    }  # fmt: skip


SURVEY = pg.StratifiedClusters(
    sizes={"north": 40, "south": 20}, sampled={"north": 40, "south": 40},
    clusters=pg.WeightedClusters(max_weight=15, origin="design"),
)  # fmt: skip


@pytest.mark.parametrize("test", ["betting_fixed", "hoeffding"])
@pytest.mark.parametrize("limit", ["0.05", "0.079"])
@pytest.mark.parametrize("side", [0, 1], ids=["above", "below"])
def test_a_share_in_strata_of_clusters_with_weights_at_the_limit(test, limit, side, within_budget):
    values, columns = survey(np.random.default_rng(303), 2000)
    measure = measure_query(PART, SHARE, limit=limit, slack=None)[side]
    answer = 0.08 - float(limit) if side == 0 else 0.08 + float(limit)
    found = read(measure, values, answer, test, design=SURVEY, **columns)
    for errors in wrong(found):
        assert within_budget(errors, 2000, LEVEL)


@pytest.mark.parametrize("test", ["betting", "betting_fixed", "hoeffding"])
def test_twin_with_the_ends_that_the_sample_shows(test, beyond_doubt):
    rng = np.random.default_rng(304)
    measure = sides(MEAN)[0]
    values = rare_number(rng, (2000, 100))  # of one sample in eight no record has the 5
    ends = np.stack([values.min(axis=1), values.max(axis=1)])
    validated, _ = wrong(read(measure, values, 0.0, test, design=pg.Iid(), ends=ends))
    assert beyond_doubt(validated, 2000, LEVEL)


def test_a_side_that_no_target_can_fail_is_shown_by_few_clusters():
    values, columns = survey(np.random.default_rng(305), 1)
    measure = measure_query(PART, SHARE, limit="0.05", slack=None)[1]
    # Nothing is below an answer of .01 by .05; on [-1, 1] these 60 clusters cannot tell.
    plain = np.repeat([[-1.0], [1.0]], 1, axis=1)
    own, wide = (
        read(measure, values, 0.01, "betting_fixed", design=SURVEY, ends=ends, **columns)
        for ends in (None, plain)
    )
    assert own.pvalues[0, 0] < 1e-20
    assert wide.pvalues[0, 0] > 0.2


def test_records_are_the_corners_and_no_further():
    """What is tested of any record lies between the ends, to the last bit."""
    rng = np.random.default_rng(306)
    numbers = rng.choice([0.0, 5.0, 0.1, 4.9, 1.0 / 3.0, 17.0, -2.0], (4000, 2))
    records = CodedRecords(pd.DataFrame(numbers, columns=["a", "b"]))
    for query in (MEAN, RATIO, SHARE):
        for measure in sides(query):
            for answer in rng.uniform(0.0, 1.0, 20):
                low, high = measure.ends(float(answer))
                losses = measure.of_query_values(query.values(records), float(answer))
                assert low <= losses.min()
                assert losses.max() <= high
                assert (low, high) != (measure.requirement.low, measure.requirement.high)
    assert measure.ends(None) == (measure.requirement.low, measure.requirement.high)
