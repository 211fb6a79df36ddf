"""Each feature of a target keeps the error budget, and ignoring it breaks the budget.

Every simulation sits at the boundary: the registered mean equals its limit, so the release
is invalid and a p-value at most ALPHA is a false recognition. Where records are alike in
all repetitions, one call scores many: each release of the array is one repetition, with
its own independent records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import proxyguard as pg
from proxyguard.evidence.releases import gather_evidence
from proxyguard.losses.cell import Reading
from proxyguard.registry.test import ComponentTest

pytestmark = pytest.mark.guarantee

ALPHA = 0.05
LIMIT = 0.2
LOSS = pg.Requirement(name="loss", low=0, high=1, limit=LIMIT)
HIT = replace(LOSS, two_valued=True)


def holds(false: Iterable[Any] | NDArray[Any], level: float = ALPHA) -> bool:
    """Whether so many errors are no one-in-a-million event at the promised rate."""
    errors = np.asarray(false, dtype=bool)
    return bool(binom.sf(errors.sum() - 1, errors.size, level) > 1e-6)


def broken(false: Iterable[Any] | NDArray[Any], level: float = ALPHA) -> bool:
    """Whether so many errors rule the promised rate out beyond doubt."""
    errors = np.asarray(false, dtype=bool)
    return bool(binom.sf(errors.sum() - 1, errors.size, level) < 1e-12)


def recognized(
    values: NDArray[Any],
    test: str,
    *,
    requirement: pg.Requirement = LOSS,
    design: Any = None,
    records: pg.Records | None = None,
    seed: int = 1,
) -> NDArray[np.bool_]:
    """Return which releases (repetitions) have a p-value at most ALPHA."""
    reading = Reading(
        requirements=(requirement,),
        design=design or pg.Iid(),
        tests=(ComponentTest(test),),
        level=ALPHA,
        violation_level=ALPHA,
        seed=seed,
    )
    losses = pg.LossArray(values[:, :, None], records or pg.Records())
    return gather_evidence(losses, reading).release_pvalues <= ALPHA


@pytest.mark.parametrize("test", ["betting", "bentkus", "binomial", "empirical_bernstein"])
def test_a_subgroup_is_judged_by_its_own_records(test: str) -> None:
    rng = np.random.default_rng(101)
    member = rng.random(600) < 0.25
    hits = rng.random((2000, 600)) < np.where(member, LIMIT, 0.05)
    own = replace(HIT, group="g")
    records = pg.Records(groups={"g": member})
    assert holds(recognized(hits, test, requirement=own, records=records))
    assert broken(recognized(hits, test, requirement=HIT))


def test_a_subgroup_of_random_size_keeps_the_budget_at_every_size() -> None:
    # Theory 1: given membership the p-value is valid; small and empty groups included.
    rng = np.random.default_rng(102)
    own = replace(HIT, group="g")
    false, sizes = [], []
    for _ in range(600):
        member = rng.random(40) < 0.2
        hits = rng.random((1, 40)) < LIMIT
        false.append(
            recognized(hits, "binomial", requirement=own, records=pg.Records(groups={"g": member}))[
                0
            ]
        )
        sizes.append(member.sum())
    assert min(sizes) < 4
    assert holds(false)


@pytest.mark.parametrize("test", ["betting", "bentkus", "betting_fixed", "empirical_bernstein"])
def test_clusters_are_the_units_of_a_cluster_weighted_claim(test: str) -> None:
    rng = np.random.default_rng(103)
    labels = np.repeat(np.arange(60), 20)
    means = (rng.random((1500, 60)) < LIMIT).astype(float)  # records of a cluster agree
    values = means[:, labels]
    shuffled = rng.permutation(labels.size)
    values, labels = values[:, shuffled], labels[shuffled]
    used = recognized(values, test, design=pg.Clustered(), records=pg.Records(clusters=labels))
    assert holds(used)
    assert broken(recognized(values, test))


def test_a_record_weighted_claim_over_clusters_counts_every_record(effort: Any) -> None:
    # Half the clusters have 1 record and mean .05, half have 25 and the rest of the loss:
    # the mean over records is the limit, the mean over clusters lies well below it.
    rng = np.random.default_rng(104)
    rate = {1: 0.05, 25: (13 * LIMIT - 0.5 * 0.05) / 12.5}
    assert (0.5 * 1 * rate[1] + 0.5 * 25 * rate[25]) / 13 == pytest.approx(LIMIT)
    used, by_cluster, by_record = [], [], []
    for _ in range(effort.times(whole=300, reduced=100)):
        sizes = rng.choice([1, 25], 150)
        clusters = np.repeat(np.arange(150), sizes)
        bad = rng.random(150) < np.where(sizes == 1, rate[1], rate[25])
        values = bad[clusters][None].astype(float)
        records = pg.Records(clusters=clusters)
        claim = pg.Clustered(weighting="record", max_size=25)
        used.append(recognized(values, "bentkus", design=claim, records=records)[0])
        by_cluster.append(recognized(values, "bentkus", design=pg.Clustered(), records=records)[0])
        by_record.append(recognized(values, "bentkus")[0])
    assert holds(used)
    assert broken(by_cluster)  # the wrong weights
    assert broken(by_record)  # the right weights, the wrong unit


def test_a_record_weighted_claim_can_still_be_won() -> None:
    rng = np.random.default_rng(105)
    clusters = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    values = (rng.random((200, 400)) < 0.08)[:, clusters].astype(float)
    claim = pg.Clustered(weighting="record", max_size=4)
    for test in ("betting", "bentkus"):
        won = recognized(values, test, design=claim, records=pg.Records(clusters=clusters))
        assert won.mean() > 0.9


@pytest.mark.parametrize("test", ["hoeffding", "betting_fixed"])
def test_registered_stratum_weights_are_used(test: str) -> None:
    rng = np.random.default_rng(106)
    strata = np.repeat(["city", "land"], 300)
    # .9 * .22 + .1 * .02 = .2; the plain mean of the records is .12.
    hits = rng.random((2000, 600)) < np.where(strata == "city", 0.22, 0.02)
    design = pg.Stratified(sizes={"city": 300, "land": 300}, weights={"city": "0.9", "land": "0.1"})
    records = pg.Records(strata=strata)
    assert holds(recognized(hits, test, design=design, records=records))
    assert broken(recognized(hits, test))


def test_strata_with_other_weights_do_not_have_the_size_of_their_records() -> None:
    # One record in ten carries nine tenths of the weight: an exponent with n = 500 instead
    # of the effective size would be far off, even for the right mean.
    rng = np.random.default_rng(107)
    strata = np.repeat(["rare", "common"], [50, 450])
    design = pg.Stratified(
        sizes={"rare": 50, "common": 450}, weights={"rare": "0.9", "common": "0.1"}
    )
    hits = rng.random((2000, 500)) < LIMIT
    records = pg.Records(strata=strata)
    assert holds(recognized(hits, "hoeffding", design=design, records=records))
    weights = np.where(strata == "rare", 0.9 / 50, 0.1 / 450)
    moments = pg.Moments(n=500, mean=(hits @ weights)[:, None])
    reading = Reading(
        requirements=(LOSS,), design=pg.Iid(), tests=(ComponentTest.HOEFFDING,),
        level=ALPHA, violation_level=ALPHA,
    )  # fmt: skip
    assert broken(gather_evidence(moments, reading).release_pvalues <= ALPHA)


def test_records_drawn_with_replacement_count_as_often_as_they_were_drawn() -> None:
    # One record of the sealed population is drawn with probability .2 and fails always.
    rng = np.random.default_rng(108)
    chance = np.r_[LIMIT, np.full(999, (1 - LIMIT) / 999)]
    design = pg.Iid(with_replacement=True)
    used, once = [], []
    for _ in range(300):
        ids = rng.choice(1000, 150, p=chance)
        records = pg.Records(ids=ids)
        hits = (ids == 0)[None].astype(float)
        used.append(
            recognized(hits, "binomial", requirement=HIT, design=design, records=records)[0]
        )
        distinct = np.unique(ids)
        once.append(
            recognized(
                (distinct == 0)[None].astype(float),
                "binomial",
                requirement=HIT,
                records=pg.Records(ids=distinct),
            )[0]
        )
    assert holds(used)
    assert broken(once)
    with pytest.raises(pg.LossMismatch, match="occurs"):
        recognized(hits, "binomial", requirement=HIT, records=records)


def test_a_record_drawn_twice_gets_two_uniforms() -> None:
    # Eight different records, 400 draws; every loss sits on the limit.
    rng = np.random.default_rng(109)
    design = pg.Iid(with_replacement=True)
    used, shared = [], []
    for seed in range(400):
        ids = rng.integers(0, 8, 400)
        records = pg.Records(ids=ids)
        values = np.full((1, 400), LIMIT)
        used.append(
            recognized(values, "randomized_binomial", design=design, records=records, seed=seed)[0]
        )
        indicator = (rng.random(8) < LIMIT)[ids][None].astype(float)  # one uniform an id
        shared.append(
            recognized(indicator, "binomial", requirement=HIT, design=design, records=records)[0]
        )
    assert holds(used)
    assert sum(used) > 0
    assert broken(shared)


def test_every_requirement_has_its_own_sample_size() -> None:
    # Labels for the second requirement exist on 60 of the 1,500 records.
    rng = np.random.default_rng(110)
    few, many = rng.binomial(60, LIMIT, 2000) / 60, rng.binomial(1500, 0.05, 2000) / 1500
    mean = np.stack([many, few], axis=1)
    requirements = (LOSS, replace(LOSS, name="audited"))

    def false(n: list[int]) -> NDArray[np.bool_]:
        reading = Reading(
            requirements=requirements, design=pg.Iid(), tests=(ComponentTest.BENTKUS,) * 2,
            level=ALPHA, violation_level=ALPHA,
        )  # fmt: skip
        evidence = gather_evidence(pg.Moments(n=n, mean=mean), reading)
        assert evidence.n_records == tuple(n)
        return evidence.release_pvalues <= ALPHA

    assert holds(false([1500, 60]))
    assert broken(false([1500, 1500]))


def test_per_requirement_sizes_of_an_array_are_those_of_its_subgroups() -> None:
    rng = np.random.default_rng(111)
    labelled = np.zeros(800, dtype=bool)
    labelled[rng.choice(800, 50, replace=False)] = True
    audited = replace(LOSS, name="audited", group="labelled")
    # Records without a label have no loss to report; counting them as 0 would validate.
    hits = (rng.random((2000, 800)) < LIMIT).astype(float)
    values = np.stack([(rng.random((2000, 800)) < 0.05).astype(float), hits], axis=2)
    reading = Reading(
        requirements=(LOSS, audited), design=pg.Iid(), tests=(ComponentTest.BETTING,) * 2,
        level=ALPHA, violation_level=ALPHA,
    )  # fmt: skip
    records = pg.Records(groups={"labelled": labelled})
    evidence = gather_evidence(pg.LossArray(values, records), reading)
    assert evidence.n_records == (800, 50)
    assert holds(evidence.release_pvalues <= ALPHA)
    values[:, ~labelled, 1] = 0.0
    padded = replace(reading, requirements=(LOSS, replace(audited, group=None)))
    filled = gather_evidence(pg.LossArray(values, records), padded)
    assert broken(filled.release_pvalues <= ALPHA)


def test_sorted_rows_do_not_fool_betting_unless_their_order_is_called_random() -> None:
    # One permutation serves all releases, so every repetition has its own seed.
    rng = np.random.default_rng(112)
    hits = np.sort((rng.random((500, 1, 400)) < LIMIT).astype(float), axis=2)  # by class
    permuted = [recognized(one, "betting", seed=seed)[0] for seed, one in enumerate(hits)]
    assert holds(permuted)
    assert sum(permuted) > 0
    called = pg.Records(random_order=True)
    stated = recognized(hits[:, 0], "betting", records=called)
    assert broken(stated)
    assert stated.mean() > 0.99
    # Rows that do stand in random order may be called so.
    assert holds(recognized(rng.permuted(hits[:, 0], axis=1), "betting", records=called))


def test_certify_permutes_sorted_rows_by_itself(effort: Any) -> None:
    rng = np.random.default_rng(113)
    false = []
    for seed in range(effort.times(whole=300, reduced=100)):
        rate = 0.1 + 0.2 * np.sort(rng.random(400))  # rows by date, the loss drifting upwards
        losses = (rng.random((1, 400)) < rate).astype(float)[:, :, None]
        certificate = pg.certify(
            losses, [LOSS], reliability_target=0.5, test="betting", threshold=ALPHA, seed=seed
        )
        false.append(certificate.lower.steps[0][1] > 0)
    assert holds(false)


def test_ten_tables_form_one_holm_family(effort: Any) -> None:
    # Each table has its own source, target, size and limit; every release sits on its limit.
    rng = np.random.default_rng(114)
    limits = np.linspace(0.1, 0.4, 10)
    sizes = np.arange(100, 600, 50)
    requirements = [
        pg.Requirement(
            name="regret", low=0, high=1, limit=float(limit), two_valued=True, form="relative"
        )
        for limit in limits
    ]
    together, alone = [], []
    for _ in range(effort.times(whole=150, reduced=60)):
        members = {
            f"table {k}": pg.NamedReleases(
                (rng.random((1, sizes[k], 1)) < requirements[k].limit), [requirements[k]]
            )
            for k in range(10)
        }
        family = pg.certify_releases(members, alpha=ALPHA, beta=None, seed=1)
        together.append(bool(family.validated))
        alone.append(
            any(
                pg.certify_releases({name: one}, alpha=ALPHA, beta=None, seed=1).validated
                for name, one in members.items()
            )
        )
    assert holds(together)
    assert broken(alone)


def test_one_shared_target_is_not_a_set_of_separate_batches(effort: Any) -> None:
    # Twenty releases that fail alike: on one target their p-values are one p-value.
    rng = np.random.default_rng(115)
    releases, level = 20, ALPHA / 2  # alpha_R of the named budget
    choices: dict[str, Any] = {
        "mode": "collective", "combination": "fisher", "dependence": "independent",
        "reliability_target": 0.5, "alpha": ALPHA, "beta": None, "seed": 1,
    }  # fmt: skip
    separate, shared = [], []
    for _ in range(effort.times(whole=200, reduced=120)):
        batches = rng.random((releases, 1, 150, 1)) < LIMIT
        own = pg.LossBatches([pg.LossArray(batch) for batch in batches])
        separate.append(pg.certify(own, [HIT], **choices).lower.steps[0][1] > 0)
        # One array cannot be passed off as batches; copies without ids can.
        copies = pg.LossBatches([pg.LossArray(batches[0])] * releases)
        shared.append(pg.certify(copies, [HIT], **choices).lower.steps[0][1] > 0)
    assert holds(separate, level)
    assert broken(shared, level)
    with pytest.raises(pg.UnsupportedDesign, match="one shared target"):
        pg.certify(np.repeat(batches[0], releases, axis=0), [HIT], **choices)
