"""A claim is read strictly, and says before any loss is read what it does not cover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.modes.catalog import claim_modes
from proxyguard.modes.claim import Claim
from proxyguard.modes.count import Count
from proxyguard.modes.direct import Direct
from proxyguard.registry.test import Bound, ComponentTest, Family, Score, default_test

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True, slack=0.05)
BRIER = pg.Requirement(name="Brier", low=0, high=1, limit=0.2, slack=0.05, ramp=0.05)
WOMEN = pg.Requirement(name="women", low=0, high=1, limit=0.2, slack=0.05, ramp=0.05, group="w")

HALVES = {"a": "1/2", "b": "1/2"}
DESIGNS = {
    "iid": pg.Iid(),
    "with_replacement": pg.Iid(with_replacement=True),
    "independent": pg.Independent(),
    "without_replacement": pg.WithoutReplacement(pool=1000),
    "proportional": pg.Stratified(sizes={"a": 50, "b": 50}, weights=HALVES),
    "weighted": pg.Stratified(sizes={"a": 60, "b": 40}, weights=HALVES),
    "clustered": pg.Clustered(),
    "record_clustered": pg.Clustered(weighting="record", max_size=9),
    "strata_of_clusters": pg.StratifiedClusters(sizes={"a": 60, "b": 40}, weights=HALVES),
    "proportional_strata_of_clusters": pg.StratifiedClusters(
        sizes={"a": 30, "b": 30}, weights=HALVES
    ),
    "survey": pg.Weighted(max_weight=4, origin="design"),
}
IIDS = {"iid", "with_replacement"}
CLUSTERS = {"clustered", "record_clustered", "survey"}
UNWEIGHTED = IIDS | CLUSTERS | {"independent", "without_replacement", "proportional"}

PROPORTIONAL_CLUSTERS = {"proportional_strata_of_clusters"}

# The last column of theory.md's table, row by row. A cluster, or a weighted
# record, counts as one iid value, which is not two-valued, so `binomial` does not cover them.
COVERED = {
    "empirical_bernstein": IIDS | CLUSTERS,
    "hoeffding": set(DESIGNS),
    "chernoff": UNWEIGHTED | PROPORTIONAL_CLUSTERS,
    "bentkus": UNWEIGHTED | PROPORTIONAL_CLUSTERS,
    "binomial": UNWEIGHTED - CLUSTERS,
    "randomized_binomial": UNWEIGHTED | PROPORTIONAL_CLUSTERS,
    "betting": IIDS | CLUSTERS,
    "betting_fixed": set(DESIGNS),
}


def claim(**choices: Any) -> Claim:
    return Claim.of({"reliability_target": 0.8} | choices)  # type: ignore[arg-type]


class Untouchable:
    """Chunks that nobody may look at."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the losses were read before the claim was checked")


def unread(n_requirements: int = 1) -> pg.LossStream:
    return pg.LossStream(
        chunks=Untouchable(),
        n_releases=40,
        n_records=100,
        n_requirements=n_requirements,
        random_order=True,
    )


def test_an_unread_stream_does_raise_when_it_is_read() -> None:
    with pytest.raises(AssertionError, match="were read"):
        pg.certify(unread(), [BRIER], reliability_target=0.8)


def test_an_unknown_choice_is_refused_by_name() -> None:
    with pytest.raises(RegistryError, match="slakc") as caught:
        claim(slakc=0.1)
    assert " threshold," in str(caught.value)
    with pytest.raises(RegistryError, match="relability_target"):
        pg.certify(unread(), [BRIER], relability_target=0.8)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("bound", Bound),
        ("score", Score),
        ("family", Family),
        ("test", ComponentTest),
    ],
)
def test_an_unknown_name_lists_the_options(key: str, kind: Any) -> None:
    with pytest.raises(RegistryError, match="'sharpest'") as caught:
        claim(**{key: "sharpest"})
    assert all(repr(member.value) in str(caught.value) for member in kind)


def test_an_unknown_mode_lists_the_modes() -> None:
    with pytest.raises(RegistryError, match='"sharpest"') as caught:
        claim(mode="sharpest")
    assert all(name in str(caught.value) for name in (kind.mode for kind in claim_modes()))


@pytest.mark.parametrize(
    "choices",
    [
        {"reliability_target": None},
        {"reliability_target": 1},
        {"reliability_target": 0},
        {"alpha": 0},
        {"alpha": 1},
        {"beta": 1},
        {"threshold": 0},
        {"threshold": 1.5},
        {"violation_threshold": 0},
        {"alpha": "much"},
        {"combination": "stouffer"},
        {"calibrator": "kelly"},
        {"mode": "block"},
        {"mode": "block", "block_size": 0},
    ],
    ids=str,
)
def test_a_choice_outside_its_range_is_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        claim(**choices)


def test_levels_are_exact_fractions_however_they_are_written() -> None:
    made = claim(alpha=0.05, threshold="0.01", reliability_target="4/5")
    assert isinstance(made, Direct)
    assert (made.alpha, made.threshold) == (Fraction(1, 20), Fraction(1, 100))
    assert made.reliability_target == Fraction(4, 5)
    mixture = claim(mode="count", thresholds=[0.1, "0.2"])
    assert mixture.choices()["thresholds"] == (Fraction(1, 10), Fraction(1, 5))


def test_a_claim_made_directly_is_read_like_any_other() -> None:
    written: dict[str, Any] = {
        "mode": "count", "alpha": 0.05, "reliability_target": "4/5", "thresholds": [0.1, "0.2"],
        "test": {"error": "binomial"}, "stakes": [1 / 2],
    }  # fmt: skip
    own = {name: value for name, value in written.items() if name != "mode"}
    made = Count(**own)
    assert made == Claim.of(written)
    assert (made.mode, made.alpha) == ("count", Fraction(1, 20))
    assert made.thresholds == (Fraction(1, 10), Fraction(1, 5))
    assert made.test == {"error": ComponentTest.BINOMIAL}
    assert made.stakes == (0.5,)
    assert Claim.of(made.choices()) == made


@pytest.mark.parametrize(
    "choices",
    [
        {"thresholds": ["0"]},
        {"thresholds": ["0.1", 1]},
        {"threshold": "0.1", "thresholds": ["0.1"]},
    ],
    ids=str,
)
def test_thresholds_lie_inside_the_unit_interval_and_stand_alone(choices: dict[str, Any]) -> None:
    with pytest.raises(RegistryError, match="threshold"):
        claim(mode="count", **choices)


# One choice for each field that some mode lacks, in a mode that lacks it.
IDLE: list[tuple[str, dict[str, Any]]] = [
    ("bound", {"mode": "named", "bound": "paper"}),
    ("score", {"mode": "count", "score": "slack"}),
    ("threshold", {"mode": "named", "threshold": "0.01"}),
    ("violation_threshold", {"mode": "hybrid", "violation_threshold": "0.01"}),
    ("reliability_target", {"mode": "releases"}),
    ("release_share", {"release_share": "0.1"}),
    ("target_share", {"mode": "named", "target_share": "0.1"}),
    ("named_share", {"named_share": "0.1"}),
    ("family", {"mode": "releases", "reliability_target": None, "family": "bounds"}),
    ("shares", {"mode": "releases", "reliability_target": None, "shares": {"a": 1}}),
    ("dependence", {"dependence": "independent"}),
    ("combination", {"combination": "fisher"}),
    ("calibrator", {"calibrator": "capital"}),
    ("thresholds", {"thresholds": ["0.01"]}),
    ("block_size", {"block_size": 5}),
    ("pooled_violations", {"pooled_violations": False}),
]


@pytest.mark.parametrize(("name", "choices"), IDLE, ids=[name for name, _ in IDLE])
def test_a_choice_that_the_mode_would_ignore_is_an_objection(
    name: str, choices: dict[str, Any]
) -> None:
    made = claim(**choices)
    (reason,) = made.supports(pg.Iid(), [BRIER])
    assert f"mode {made.mode} does not use {name}, which was set to" in reason
    with pytest.raises(UnsupportedDesign, match=f"does not use {name},"):
        made.require_support(pg.Iid(), [BRIER])


def test_every_choice_that_some_mode_ignores_is_tried_above() -> None:
    names = [{item.name for item in fields(mode)} for mode in claim_modes()]
    assert {name for name, _ in IDLE} == set.union(*names) - set.intersection(*names)


def test_a_mapping_of_tests_must_name_every_requirement() -> None:
    made = claim(test={"error": "binomial", "Brier": "bentkus"})
    assert made.tests(pg.Iid(), [ERROR, BRIER]) == (
        ComponentTest.BINOMIAL,
        ComponentTest.BENTKUS,
    )
    for names in ({"error": "binomial"}, {"error": "binomial", "Brier": "bentkus", "x": "bentkus"}):
        (reason,) = claim(test=names).supports(pg.Iid(), [ERROR, BRIER])
        assert "the requirements are" in reason
        with pytest.raises(UnsupportedDesign, match="the requirements are"):
            pg.certify(unread(2), [ERROR, BRIER], test=names, reliability_target=0.8)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("test", COVERED)
def test_a_test_covers_the_designs_of_theorys_table_and_no_others(test: str, design: str) -> None:
    reasons = claim(test=test).supports(DESIGNS[design], [ERROR])
    if design in COVERED[test]:
        assert reasons == []
    else:
        assert any(test in reason for reason in reasons)
        # Another test covers the design, unless the losses are what this one does not take.
        named = [r.rsplit("; ", 1)[1].split()[0] for r in reasons if r.endswith(" covers it")]
        assert all(design in COVERED[other] for other in named)
        assert named or test == "binomial"
        with pytest.raises(UnsupportedDesign, match=test):
            pg.certify(unread(), [ERROR], design=DESIGNS[design], test=test, reliability_target=0.8)


@pytest.mark.parametrize(
    ("design", "two_valued", "other"),
    [
        ("iid", "binomial", "betting"),
        ("with_replacement", "binomial", "betting"),
        ("independent", "binomial", "betting_fixed"),
        ("without_replacement", "binomial", "betting_fixed"),
        ("proportional", "binomial", "bentkus"),
        ("weighted", "betting_fixed", "betting_fixed"),
        ("clustered", "betting", "betting"),
        ("record_clustered", "betting", "betting"),
        ("strata_of_clusters", "betting_fixed", "betting_fixed"),
        ("proportional_strata_of_clusters", "betting_fixed", "betting_fixed"),
        ("survey", "betting", "betting"),
    ],
)
def test_the_default_test_follows_from_the_declaration(
    design: str, two_valued: str, other: str
) -> None:
    assert default_test(DESIGNS[design], ERROR).value == two_valued
    assert default_test(DESIGNS[design], BRIER).value == other
    # The default is one that covers the design.
    assert design in COVERED[two_valued] & COVERED[other]


# Everything else that no theorem covers: a word of the reason, the choices, the design.
UNSUPPORTED: list[tuple[str, dict[str, Any], str, list[pg.Requirement]]] = [
    *(
        (f"{choices['mode']} mode needs iid", choices, design, [BRIER])
        for choices in ({"mode": "smooth"}, {"mode": "block", "block_size": 5})
        for design in ("independent", "without_replacement", "proportional", "weighted")
    ),
    ("separate batch", {"mode": "collective"}, "iid", [BRIER]),
    (
        "tail-Fisher",
        {"mode": "collective", "dependence": "prds", "combination": "fisher"},
        "iid",
        [BRIER],
    ),
    ("does not use dependence", {"mode": "direct", "dependence": "independent"}, "iid", [BRIER]),
    ("does not use dependence", {"mode": "named", "dependence": "prds"}, "iid", [BRIER]),
    ("subgroup of random size", {"score": "slack"}, "iid", [WOMEN]),
    ("subgroup of random size", {"mode": "hybrid", "score": "slack"}, "iid", [WOMEN]),
    ("subgroup of random size", {"mode": "smooth", "bound": "paper"}, "iid", [WOMEN]),
    ("subgroup of random size", {"mode": "block", "block_size": 5}, "iid", [WOMEN]),
    *(
        ("subgroup requirements", {}, design, [WOMEN])
        for design in sorted(set(DESIGNS) - IIDS - {"survey"})
    ),
    ("two_valued", {"test": "binomial"}, "iid", [BRIER]),
    ("two_valued", {"test": {"error": "binomial", "Brier": "binomial"}}, "iid", [ERROR, BRIER]),
    ("needs a slack", {"score": "slack"}, "iid", [
        pg.Requirement(name="plain", low=0, high=1, limit=0.2)
    ]),
    ("needs a ramp", {"mode": "smooth"}, "iid", [ERROR]),
    ("excess over the limit", {"score": "slack"}, "record_clustered", [BRIER]),
    ("excess over the limit", {"score": "slack"}, "survey", [BRIER]),
    ("must differ", {}, "iid", [BRIER, BRIER]),
    ("at least one requirement", {}, "iid", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "choices", "design", "requirements"),
    UNSUPPORTED,
    ids=[f"{i}-{case[0]}-{case[2]}" for i, case in enumerate(UNSUPPORTED)],
)
def test_what_no_theorem_covers_is_refused_before_any_loss_is_read(
    reason: str, choices: dict[str, Any], design: str, requirements: list[pg.Requirement]
) -> None:
    assert any(reason in said for said in claim(**choices).supports(DESIGNS[design], requirements))
    assert pg.supports(
        requirements, design=DESIGNS[design], reliability_target=0.8, **choices
    ) == claim(**choices).supports(DESIGNS[design], requirements)
    with pytest.raises(UnsupportedDesign, match=reason):
        pg.certify(
            unread(max(1, len(requirements))),
            requirements,
            design=DESIGNS[design],
            reliability_target=0.8,
            **choices,
        )
    with pytest.raises(UnsupportedDesign, match=reason):
        pg.certify(
            {"first": np.zeros((3, 4, 1)), "second": unread()},
            requirements,
            design=DESIGNS[design],
            reliability_target=0.8,
            **choices,
        )


def test_every_reason_is_given_at_once() -> None:
    made = claim(mode="smooth", test="betting", dependence="prds")
    reasons = made.supports(DESIGNS["weighted"], [ERROR])
    assert len(reasons) == 4
    with pytest.raises(UnsupportedDesign) as caught:
        made.require_support(DESIGNS["weighted"], [ERROR])
    assert all(reason in str(caught.value) for reason in reasons)


# The nearest neighbours of the refusals above are covered.
@pytest.mark.parametrize(
    ("choices", "design", "requirements"),
    [
        ({"mode": "smooth"}, "iid", [BRIER]),
        ({"mode": "smooth"}, "clustered", [BRIER]),
        ({"mode": "block", "block_size": 5}, "with_replacement", [BRIER]),
        ({"mode": "collective", "dependence": "prds"}, "iid", [BRIER]),
        (
            {"mode": "collective", "dependence": "independent", "combination": "fisher"},
            "iid",
            [BRIER],
        ),
        ({"score": "slack", "bound": "paper"}, "iid", [WOMEN]),
        ({"score": "slack", "bound": "rescaled"}, "iid", [WOMEN]),
        ({"score": "slack"}, "weighted", [BRIER]),
        ({}, "with_replacement", [WOMEN]),
        ({"test": {"error": "binomial", "Brier": "bentkus"}}, "iid", [ERROR, BRIER]),
    ],
    ids=str,
)
def test_the_neighbours_of_the_refusals_are_supported(
    choices: dict[str, Any], design: str, requirements: list[pg.Requirement]
) -> None:
    assert claim(**choices).supports(DESIGNS[design], requirements) == []


def test_named_releases_are_refused_before_any_loss_is_read() -> None:
    member = pg.NamedReleases(unread(), [BRIER], design=DESIGNS["weighted"])
    with pytest.raises(UnsupportedDesign, match="betting is valid"):
        pg.certify_releases({"table": member}, test="betting")
    with pytest.raises(RegistryError, match="certify_releases"):
        pg.certify(unread(), [BRIER], mode="releases")


def test_a_bad_share_is_refused_before_any_loss_is_read() -> None:
    family = {"a": unread(), "b": unread()}
    with pytest.raises(pg.RegistryError, match="at most 1"):
        pg.certify(family, [BRIER], reliability_target=0.8, shares={"a": "0.7", "b": "0.7"})
    with pytest.raises(pg.RegistryError, match=r"\(0, 1\)"):
        pg.certify(unread(), [BRIER], reliability_target=0.8, mode="named", release_share=1)
