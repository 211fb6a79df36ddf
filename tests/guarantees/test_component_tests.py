"""Component tests: p-values of a mean at its limit are super-uniform (theory section 1)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

import proxyguard as pg
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.exact.betting import FixedCapital
from proxyguard.exact.mean import hoeffding_pvalue
from proxyguard.losses.cell import Reading
from proxyguard.registry.test import ComponentTest

pytestmark = pytest.mark.guarantee

LEVEL = 0.05

# Laws on the unit scale whose mean is exactly the limit: (limit, sampler).
LAWS = {
    "Bernoulli .10": (0.1, lambda rng, shape: (rng.random(shape) < 0.1).astype(float)),
    "Bernoulli .50": (0.5, lambda rng, shape: (rng.random(shape) < 0.5).astype(float)),
    "Beta(.4, 2.6)": (0.4 / 3.0, lambda rng, shape: rng.beta(0.4, 2.6, shape)),
    "three values": (0.5, lambda rng, shape: rng.choice([0, 0.5, 1], shape, p=[0.1, 0.8, 0.1])),
    "rare and large": (0.02, lambda rng, shape: 0.8 * (rng.random(shape) < 0.025)),
}  # fmt: skip
MEAN_TESTS = [t.value for t in ComponentTest if t is not ComponentTest.BINOMIAL]
# Without an own batch of uniforms for each trial, trials of this test would share them.
PER_TRIAL = "randomized_binomial"


def read(
    values: np.ndarray,
    limit: float,
    test: str,
    *,
    design: object = None,
    records: pg.Records | None = None,
    seed: int = 1,
    two_valued: bool = False,
) -> ReleaseEvidence:
    """Read trials, (trials, records), as one release each by the real reader and tests."""
    requirement = pg.Requirement(name="loss", low=0, high=1, limit=limit, two_valued=two_valued)
    reading = Reading(
        requirements=(requirement,),
        design=design or pg.Iid(),
        tests=(ComponentTest(test),),
        level=LEVEL,
        violation_level=LEVEL,
        seed=seed,
    )
    losses = pg.LossArray(values[:, :, None], records or pg.Records())
    return gather_evidence(losses, reading)


def both(values: np.ndarray, limit: float, test: str, **how: object) -> tuple[int, int]:
    """Count false validations and false violations among trials, (trials, records)."""
    if test == PER_TRIAL:
        found = [read(row[None], limit, test, seed=s, **how) for s, row in enumerate(values)]
    else:
        found = [read(values, limit, test, **how)]
    return (
        sum(int(np.sum(e.pvalues <= LEVEL)) for e in found),
        sum(int(np.sum(e.violation_pvalues <= LEVEL)) for e in found),
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("test", MEAN_TESTS)
def test_iid_records_at_the_limit(test, law, within_budget):
    limit, sample = LAWS[law]
    trials, n = (800, 150) if test == PER_TRIAL else (3000, 150)
    rng = np.random.default_rng(101)
    validated, violated = both(sample(rng, (trials, n)), limit, test)
    assert within_budget(validated, trials, LEVEL)
    assert within_budget(violated, trials, LEVEL)


@pytest.mark.parametrize("n", [2, 17, 150, 900])
def test_binomial_at_the_limit(n, within_budget):
    values = (np.random.default_rng(102).random((4000, n)) < 0.1).astype(float)
    validated, violated = both(values, 0.1, "binomial", two_valued=True)
    assert within_budget(validated, 4000, LEVEL)
    assert within_budget(violated, 4000, LEVEL)


def test_the_exact_test_spends_its_level(within_budget):
    # The size is the largest attainable p-value that does not exceed the level.
    counts = np.arange(451)
    attainable = stats.binom.cdf(counts, 450, 0.5)
    size = attainable[attainable <= LEVEL].max()
    values = (np.random.default_rng(103).random((6000, 450)) < 0.5).astype(float)
    validated, _ = both(values, 0.5, "binomial", two_valued=True)
    assert within_budget(validated, 6000, LEVEL)
    assert stats.binomtest(validated, 6000, size).pvalue > 1e-4


def test_betting_spends_most_of_its_level(within_budget):
    values = np.random.default_rng(104).beta(0.4, 2.6, (4000, 400))
    validated, _ = both(values, 0.4 / 3.0, "betting")
    assert within_budget(validated, 4000, LEVEL)
    assert validated > 0.4 * LEVEL * 4000


def test_twin_betting_on_sorted_rows(within_budget, beyond_doubt):
    # A table sorted by class: the losses of one class come first.
    values = np.sort((np.random.default_rng(105).random((800, 200)) < 0.5).astype(float), axis=1)
    # The reader's own random order, one for each trial.
    honest = sum(
        int(read(row[None], 0.5, "betting", seed=s).pvalues[0, 0] <= LEVEL)
        for s, row in enumerate(values)
    )
    claimed, _ = both(values, 0.5, "betting", records=pg.Records(random_order=True))
    assert within_budget(honest, 800, LEVEL)
    assert beyond_doubt(claimed, 800, LEVEL)


def test_twin_empirical_bernstein_without_its_second_term(within_budget, beyond_doubt):
    n = 20
    values = (np.random.default_rng(106).random((4000, n)) < 0.1).astype(float)
    validated, _ = both(values, 0.1, "empirical_bernstein")
    gap, spread = 0.1 - values.mean(axis=1), 2 * values.var(axis=1, ddof=1) / n
    with np.errstate(divide="ignore"):
        dropped = np.where(gap > 0, 2 * np.exp(-(gap**2) / spread), 1.0)
    assert within_budget(validated, 4000, LEVEL)
    assert beyond_doubt(int(np.sum(dropped <= LEVEL)), 4000, LEVEL)  # .9^20 = .12 have no error


def test_twin_binomial_without_its_clause(within_budget, beyond_doubt):
    # Nine records always err and one errs half the time: an average mean of .95, and
    # P(Bin(10, .95) <= 9) = .401 although nine errors come half the time.
    level = 0.41
    values = np.ones((4000, 10))
    values[:, 9] = np.random.default_rng(107).random(4000) < 0.5
    how = {"design": pg.Independent(), "two_valued": True}
    clause = int(np.sum(read(values, 0.95, "binomial", **how).pvalues <= level))
    none = int(np.sum(read(values, 0.95, "binomial", two_valued=True).pvalues <= level))
    assert within_budget(clause, 4000, level)
    assert beyond_doubt(none, 4000, level)


STRATA = np.repeat(["rare", "common"], [10, 190])
UNEQUAL = pg.Stratified(sizes={"rare": 10, "common": 190}, weights={"rare": "1/2", "common": "1/2"})


@pytest.mark.parametrize("rare", [0.5, 0.1, 0.9])
@pytest.mark.parametrize("test", ["hoeffding", "betting_fixed"])
def test_unequal_strata_at_the_limit(test, rare, within_budget):
    rng = np.random.default_rng(108)
    risk = np.where(STRATA == "rare", rare, 1.0 - rare)  # the weighted mean is .5
    values = (rng.random((4000, 200)) < risk).astype(float)
    how = {"design": UNEQUAL, "records": pg.Records(strata=STRATA)}
    validated, violated = both(values, 0.5, test, **how)
    assert within_budget(validated, 4000, LEVEL)
    assert within_budget(violated, 4000, LEVEL)


def test_twin_hoeffding_with_all_records_as_effective_size(beyond_doubt):
    assert float(UNEQUAL.effective_size) == 38.0
    values = (np.random.default_rng(109).random((4000, 200)) < 0.5).astype(float)
    how = {"design": UNEQUAL, "records": pg.Records(strata=STRATA)}
    mean = read(values, 0.5, "hoeffding", **how).columns[0].mean
    wrong = int(np.sum(hoeffding_pvalue(mean, 200, 0.5) <= LEVEL))
    assert beyond_doubt(wrong, 4000, LEVEL)


def test_twin_fixed_stakes_with_equal_weights(beyond_doubt):
    # The weighted mean is .5; the plain mean of the records is .14.
    risk = np.where(STRATA == "rare", 0.9, 0.1)
    values = (np.random.default_rng(110).random((1000, 200)) < risk).astype(float)
    ignored, _ = both(values, 0.5, "betting_fixed")
    assert beyond_doubt(ignored, 1000, LEVEL)


def test_twin_a_stake_beyond_the_admissible_one(beyond_doubt):
    with pytest.raises(ValueError, match="stakes must lie in"):
        FixedCapital(columns=1, v=0.5, largest_weight=1.0, stakes=(3.0,))
    # Mean 1, but it is no longer nonnegative: half of the products are huge.
    values = (np.random.default_rng(111).random((2000, 40)) < 0.5).astype(float)
    capital = np.prod(1.0 + 3.0 * (0.5 - values) / 0.5, axis=1)
    assert beyond_doubt(int(np.sum(capital >= 1 / LEVEL)), 2000, LEVEL)


@pytest.mark.parametrize("test", ["hoeffding", "chernoff", "bentkus", "binomial", PER_TRIAL])
@pytest.mark.parametrize("rare", [0.02, 0.5])
def test_records_that_are_not_identically_distributed(test, rare, within_budget):
    # Proportional strata: 60 and 140 records with a plain mean of .3.
    risk = np.repeat([rare, (60 - 60 * rare) / 140], [60, 140])
    strata = np.repeat([1, 2], [60, 140])
    design = pg.Stratified(sizes={1: 60, 2: 140}, weights={1: "0.3", 2: "0.7"})
    trials = 300 if test == PER_TRIAL else 4000
    values = (np.random.default_rng(112).random((trials, 200)) < risk).astype(float)
    how = {"design": design, "records": pg.Records(strata=strata)}
    validated, violated = both(values, 0.3, test, two_valued=test == "binomial", **how)
    assert within_budget(validated, trials, LEVEL)
    assert within_budget(violated, trials, LEVEL)


@pytest.mark.parametrize("test", ["hoeffding", "bentkus", "binomial", "betting_fixed"])
def test_a_sample_without_replacement(test, within_budget):
    # 60 of a pool of 200 records, 20 of which err.
    rng = np.random.default_rng(113)
    order = rng.random((4000, 200)).argsort(axis=1)[:, :60]
    values = (order < 20).astype(float)
    how = {"design": pg.WithoutReplacement(pool=200), "two_valued": test == "binomial"}
    validated, violated = both(values, 0.1, test, **how)
    assert within_budget(validated, 4000, LEVEL)
    assert within_budget(violated, 4000, LEVEL)


def clustered(rng: np.random.Generator, trials: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (losses, labels, sizes): 40 clusters of 1 or 9 records that err together."""
    sizes = np.tile([1, 9], 20)
    labels = np.repeat(np.arange(40), sizes)
    return (rng.random((trials, 40)) < 0.3)[:, labels].astype(float), labels, sizes


@pytest.mark.parametrize(
    "design",
    [pg.Clustered(), pg.Clustered(weighting="record", max_size=9)],
    ids=["cluster-weighted", "record-weighted"],
)
@pytest.mark.parametrize("test", ["empirical_bernstein", "bentkus", "betting"])
def test_clusters_at_the_limit(test, design, within_budget):
    values, labels, _ = clustered(np.random.default_rng(114), 3000)
    how = {"design": design, "records": pg.Records(clusters=labels)}
    validated, violated = both(values, 0.3, test, **how)
    assert within_budget(validated, 3000, LEVEL)
    assert within_budget(violated, 3000, LEVEL)


def test_twin_clusters_taken_for_records(beyond_doubt):
    values, _, _ = clustered(np.random.default_rng(115), 3000)
    validated, _ = both(values, 0.3, "bentkus")
    assert beyond_doubt(validated, 3000, LEVEL)


def strata_of_clusters(rng: np.random.Generator, trials: int) -> tuple[np.ndarray, ...]:
    """Return (losses, strata, clusters): 8 and 32 clusters of 5 records that err together.

    The strata err at rates of .5 and .1, so that the mean is .3 where each counts for a half.
    """
    strata = np.repeat(["rare", "common"], [8, 32])
    errs = rng.random((trials, 40)) < np.where(strata == "rare", 0.5, 0.1)
    return errs[:, np.repeat(np.arange(40), 5)].astype(float), strata, np.repeat(np.arange(40), 5)


HALVES = {"rare": "1/2", "common": "1/2"}


@pytest.mark.parametrize(
    ("weights", "limit", "test"),
    [
        (HALVES, 0.3, "hoeffding"),
        (HALVES, 0.3, "betting_fixed"),
        ({"rare": "0.2", "common": "0.8"}, 0.18, "bentkus"),
    ],
)
@pytest.mark.parametrize("weighting", ["cluster", "record"])
def test_strata_of_clusters_at_the_limit(weights, limit, test, weighting, within_budget):
    values, strata, clusters = strata_of_clusters(np.random.default_rng(120), 3000)
    design = pg.StratifiedClusters(
        sizes={"rare": 8, "common": 32}, weights=weights,
        clusters=pg.Clustered(weighting=weighting, max_size=6),
    )  # fmt: skip
    records = pg.Records(strata=strata[clusters], clusters=clusters)
    validated, violated = both(values, limit, test, design=design, records=records)
    assert within_budget(validated, 3000, LEVEL)
    assert within_budget(violated, 3000, LEVEL)


def test_twins_without_the_clusters_and_without_the_strata(beyond_doubt):
    values, strata, clusters = strata_of_clusters(np.random.default_rng(121), 2000)
    single = pg.Stratified(sizes={"rare": 40, "common": 160}, weights=HALVES)
    validated, _ = both(
        values, 0.3, "hoeffding", design=single, records=pg.Records(strata=strata[clusters])
    )
    assert beyond_doubt(validated, 2000, LEVEL)
    validated, _ = both(
        values, 0.3, "bentkus", design=pg.Clustered(), records=pg.Records(clusters=clusters)
    )
    assert beyond_doubt(validated, 2000, LEVEL)


def test_missing_losses_speak_for_neither_direction(within_budget, beyond_doubt):
    # At the limit; losses are missing where they are large, then where they are small.
    trials, n = 2000, 150
    rng = np.random.default_rng(122)
    rule = pg.Requirement(name="loss", low=0, high=1, limit=0.5, missing="worst")
    wrong = {}
    for name, lost in (("large", 1.0), ("small", 0.0)):
        loss = (rng.random((trials, n)) < 0.5).astype(float)
        loss[(loss == lost) & (rng.random((trials, n)) < 0.3)] = np.nan
        found = pg.certify(
            loss[:, :, None], [rule], reliability_target=0.5, seed=1, test="bentkus"
        ).evidence
        assert within_budget(int((found.pvalues <= 0.05).sum()), trials, 0.05)
        assert within_budget(int((found.violation_pvalues <= 0.05).sum()), trials, 0.05)
        plain = dataclasses.replace(rule, missing="refuse")
        for fill in (0.0, 1.0):
            one = pg.certify(
                np.nan_to_num(loss, nan=fill)[:, :, None], [plain],
                reliability_target=0.5, seed=1, test="bentkus",
            ).evidence  # fmt: skip
            wrong[name, fill] = one
    # The twins fill both directions with one bound, which finds what is not there.
    assert beyond_doubt(int((wrong["large", 0.0].pvalues <= 0.05).sum()), trials, 0.05)
    assert beyond_doubt(int((wrong["small", 1.0].violation_pvalues <= 0.05).sum()), trials, 0.05)


def surveyed(rng: np.random.Generator, trials: int, heavy: float) -> tuple[np.ndarray, ...]:
    """Return (losses, weights) of 60 records, a tenth of which stand for nine persons each.

    The mean per person is .3 whatever the rate ``heavy`` of errors of the heavy records.
    """
    weights = np.where(rng.random((trials, 60)) < 0.1, 9.0, 1.0)
    risk = np.where(weights == 9.0, heavy, 0.6 - heavy)  # half of all persons on either side
    return (rng.random((trials, 60)) < risk).astype(float), weights


def both_weighted(values: np.ndarray, weights: np.ndarray, test: str) -> np.ndarray:
    """Count false validations and false violations; each trial has weights of its own."""
    design = pg.Weighted(max_weight=9, origin="design")
    found = [
        read(row[None], 0.3, test, design=design, records=pg.Records(weights=w), seed=s)
        for s, (row, w) in enumerate(zip(values, weights, strict=True))
    ]
    pvalues = np.array([[e.pvalues[0, 0], e.violation_pvalues[0, 0]] for e in found])
    return np.sum(pvalues <= LEVEL, axis=0)


@pytest.mark.parametrize("test", ["empirical_bernstein", "bentkus", "betting", PER_TRIAL])
def test_weighted_records_at_the_limit(test, within_budget, repeat):
    trials = repeat(1200)
    values, weights = surveyed(np.random.default_rng(117), trials, 0.55)
    validated, violated = both_weighted(values, weights, test)
    assert within_budget(int(validated), trials, LEVEL)
    assert within_budget(int(violated), trials, LEVEL)


def test_twin_weights_left_out(beyond_doubt):
    # Heavy records err more often than not: a plain mean of .1 where it is .3 per person.
    values, _ = surveyed(np.random.default_rng(118), 1000, 0.55)
    validated, _ = both(values, 0.3, "betting")
    assert beyond_doubt(validated, 1000, LEVEL)


def test_twin_weights_scaled_to_the_sample(beyond_doubt):
    # The weighted mean as if it were one of 60 records: six of them decide it.
    values, weights = surveyed(np.random.default_rng(119), 2000, 0.55)
    ratio = (weights * values).sum(axis=1) / weights.sum(axis=1)
    assert beyond_doubt(int(np.sum(hoeffding_pvalue(ratio, 60, 0.3) <= LEVEL)), 2000, LEVEL)


MEMBERS = np.repeat(np.arange(40), 5)
HEAVY = np.array([8.0, 4.0, 4.0, 2.0, 2.0])


def surveyed_clusters(
    rng: np.random.Generator, trials: int, heavy: np.ndarray, risks: tuple[float, float]
) -> tuple[np.ndarray, ...]:
    """Return (losses, weights) of 40 clusters of 5 records that err together.

    Heavy clusters stand for 20 persons, and light ones for 5; ``risks`` are theirs.
    """
    errs = rng.random((trials, 40)) < np.where(heavy, *risks)
    weights = np.where(heavy[:, :, None], HEAVY, 1.0).reshape(len(heavy), 200)
    return errs[:, MEMBERS].astype(float), weights


def both_surveyed(
    values: np.ndarray, weights: np.ndarray, test: str, design: pg.Clustered | pg.Weighted
) -> np.ndarray:
    """Count false validations and false violations; each trial has weights of its own."""
    known = {"weights": weights, "clusters": np.broadcast_to(MEMBERS, weights.shape)}
    if isinstance(design, pg.Weighted):
        del known["clusters"]
    elif not isinstance(design, pg.WeightedClusters):
        del known["weights"]
    wrong = np.zeros(2, dtype=int)
    for k, row in enumerate(values):
        records = pg.Records(**{name: labels[k] for name, labels in known.items()})
        found = read(row[None], 0.3, test, design=design, records=records, seed=k)
        wrong += [found.pvalues[0, 0] <= LEVEL, found.violation_pvalues[0, 0] <= LEVEL]
    return wrong


# A quarter of the clusters is heavy, and 5.714 of 10 persons are in them: .3 of the persons err.
SURVEY = (0.5, 1 / 30)


@pytest.mark.parametrize("test", ["empirical_bernstein", "bentkus", "betting"])
def test_weighted_clusters_at_the_limit(test, within_budget, repeat):
    rng, trials = np.random.default_rng(123), repeat(1200)
    values, weights = surveyed_clusters(rng, trials, rng.random((trials, 40)) < 0.25, SURVEY)
    design = pg.WeightedClusters(max_weight=20, origin="design")
    for wrong in both_surveyed(values, weights, test, design):
        assert within_budget(int(wrong), trials, LEVEL)


def test_twins_without_the_weights_and_without_the_clusters(beyond_doubt):
    rng = np.random.default_rng(124)
    values, weights = surveyed_clusters(rng, 400, rng.random((400, 40)) < 0.25, SURVEY)
    alike, _ = both_surveyed(values, weights, "betting", pg.Clustered())
    assert beyond_doubt(int(alike), 400, LEVEL)
    values, weights = surveyed_clusters(rng, 400, rng.random((400, 40)) < 0.25, SURVEY)
    single = pg.Weighted(max_weight=8, origin="design")
    apart, _ = both_surveyed(values, weights, "betting", single)
    assert beyond_doubt(int(apart), 400, LEVEL)


def strata_with_weights(
    counting: dict[str, dict[str, object]], test: str, seed: int, origin: str = "design"
) -> tuple[int, int]:
    """Count what is wrong of 800 records, of which a fifth are rare and stand for half the persons.

    Of the persons .3 err: of those whom rare records represent .5, and .1 of the others.
    """
    rare = np.arange(800) < 160
    values = np.random.default_rng(seed).random((1000, 800)) < np.where(rare, 0.5, 0.1)
    design = pg.StratifiedClusters(
        sizes={"rare": 160, "common": 640},
        clusters=pg.WeightedClusters(max_weight=4, origin=origin), **counting,
    )  # fmt: skip
    records = pg.Records(
        strata=np.where(rare, "rare", "common"), clusters=np.arange(800),
        weights=np.where(rare, 4.0, 1.0),
    )  # fmt: skip
    return both(values.astype(float), 0.3, test, design=design, records=records)


@pytest.mark.parametrize("test", ["bentkus", "betting_fixed", "hoeffding"])
def test_strata_with_weights_at_the_limit(test, within_budget):
    for wrong in strata_with_weights({"sampled": {"rare": 200, "common": 800}}, test, 125):
        assert within_budget(wrong, 1000, LEVEL)


def test_twin_strata_with_the_shares_of_persons(beyond_doubt):
    # Half of all persons are rare ones: registered so, each heavy record counts twice, were its
    # weight said to be one of its stratum alone; a design weight is refused there.
    _, violated = strata_with_weights({"weights": HALVES}, "hoeffding", 126, "within strata")
    assert beyond_doubt(violated, 1000, LEVEL)


def after_a_pilot(sampled: dict[str, int], test: str, seed: int) -> tuple[int, int]:
    """Count what is wrong of what a pilot left of a survey: all of the north, a fifth of the south.

    The survey sampled 500 of 25,000 households in the north, of which .02 err, and 500 of as many
    in the south, of which .18 do: of all households .1, the limit. The pilot took 400 in the south.
    """
    south = np.arange(600) >= 500
    values = np.random.default_rng(seed).random((1000, 600)) < np.where(south, 0.18, 0.02)
    design = pg.StratifiedClusters(
        sizes={"north": 500, "south": 100}, sampled=sampled,
        clusters=pg.WeightedClusters(max_weight=50, origin="design"),
    )  # fmt: skip
    records = pg.Records(
        strata=np.where(south, "south", "north"), clusters=np.arange(600),
        weights=np.full(600, 50.0),
    )  # fmt: skip
    return both(values.astype(float), 0.1, test, design=design, records=records)


@pytest.mark.parametrize("test", ["betting_fixed", "hoeffding"])
def test_a_pilot_of_one_stratum_at_the_limit(test, within_budget):
    for wrong in after_a_pilot({"north": 500, "south": 500}, test, 127):
        assert within_budget(wrong, 1000, LEVEL)


@pytest.mark.parametrize("test", ["betting_fixed", "bentkus"])
def test_twin_that_takes_the_target_for_the_survey(test, beyond_doubt):
    # Strata in their shares of what the pilot left: the south counts for a sixth and not a half.
    validated, _ = after_a_pilot({"north": 500, "south": 100}, test, 128)
    assert beyond_doubt(validated, 1000, LEVEL)


@pytest.mark.parametrize("test", ["bentkus", "binomial", "betting"])
def test_a_subgroup_of_random_size(test, within_budget):
    rng = np.random.default_rng(116)
    wrong = np.zeros(2, dtype=int)
    requirement = pg.Requirement(
        name="loss", low=0, high=1, limit=0.5, two_valued=test == "binomial", group="rare"
    )
    reading = Reading(
        requirements=(requirement,),
        design=pg.Iid(),
        tests=(ComponentTest(test),),
        level=LEVEL,
        violation_level=LEVEL,
        seed=3,
    )
    for _ in range(600):
        member = rng.random(100) < 0.1
        # Outside the group nothing errs, which must not help.
        values = (rng.random(100) < np.where(member, 0.5, 0.0)).astype(float)
        losses = pg.LossArray(values[None, :, None], pg.Records(groups={"rare": member}))
        found = gather_evidence(losses, reading)
        wrong += [found.pvalues[0, 0] <= LEVEL, found.violation_pvalues[0, 0] <= LEVEL]
    assert within_budget(int(wrong[0]), 600, LEVEL)
    assert within_budget(int(wrong[1]), 600, LEVEL)


def test_twin_a_searched_seed(within_budget, beyond_doubt):
    # Losses that all equal the limit leave everything to the uniforms.
    values = np.full((1, 60), 0.5)
    first = searched = 0
    for trial in range(200):
        found = [
            bool(read(values, 0.5, PER_TRIAL, seed=10 * trial + s).pvalues[0, 0] <= LEVEL)
            for s in range(10)
        ]
        first += found[0]
        searched += any(found)
    assert within_budget(first, 200, LEVEL)
    assert beyond_doubt(searched, 200, LEVEL)
