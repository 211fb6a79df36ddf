"""What is required, in one sentence: every loss, form, query, attack, group, score and design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from proxyguard.documents.registry import ResolvedQuery
from proxyguard.losses.measure import measure_exposure, measure_loss, measure_query
from proxyguard.losses.query import BoundedQuery, expand
from proxyguard.registry.design import (
    DESIGNS,
    Clustered,
    Design,
    Iid,
    Independent,
    Stratified,
    StratifiedClusters,
    Weighted,
    WeightedClusters,
    WithoutReplacement,
)
from proxyguard.registry.exposure import ExposureKind, ExposurePart
from proxyguard.registry.parts import Choose, RequirementPart
from proxyguard.registry.requirement import (
    PERCENT,
    PREDICTIONS,
    Form,
    LossWords,
    Requirement,
    promise,
    required,
)
from proxyguard.registry.target import Outcome

BINARY = Outcome(column="ill", positive="yes")
CLASSES = Outcome(column="stage", classes=("a", "b", "c"))
NUMBER = Outcome(column="income", range=("0", "500"))
SOURCE = "the model trained on the real development data"
MODEL = "a model trained on a release"

# (loss and its settings, outcome) and what is required below a limit of 0.1.
LOSSES: list[tuple[dict[str, Any], Outcome, str, str, str]] = [
    ({"loss": "error"}, BINARY, "error rate", "10 %", "10 percentage points"),
    ({"loss": "error", "threshold": "0.3"}, BINARY, "error rate, at the decision threshold 0.3,",
     "10 %", "10 percentage points"),
    ({"loss": "brier"}, BINARY, "Brier score", *["0.1 (on a scale from 0 to 1)"] * 2),
    ({"loss": "log"}, BINARY, "log loss", *["0.1 (on a scale from 0 to 1)"] * 2),
    ({"loss": "cost", "false_negative": "5", "threshold": "0.3"}, BINARY,
     "mean cost of decisions (5 for a missed positive, 1 for a false alarm), at the decision "
     "threshold 0.3,", *["0.5 a record (0.1 of the largest)"] * 2),
    ({"loss": "error"}, CLASSES, "error rate", "10 %", "10 percentage points"),
    ({"loss": "brier"}, CLASSES, "Brier score", *["0.1 (on a scale from 0 to 1)"] * 2),
    ({"loss": "log"}, CLASSES, "log loss", *["0.1 (on a scale from 0 to 1)"] * 2),
    ({"loss": "squared"}, NUMBER, "mean squared error",
     *["25000 squared units of the outcome (0.1 of the squared range 0 to 500)"] * 2),
    ({"loss": "absolute"}, NUMBER, "mean absolute error",
     *["50 units of the outcome (0.1 of the range 0 to 500)"] * 2),
    ({"loss": "pinball", "quantile": "0.9"}, NUMBER, "mean pinball loss of the 0.9 quantile",
     *["50 units of the outcome (0.1 of the range 0 to 500)"] * 2),
    ({"loss": "squared", "unit": "euro"}, NUMBER, "mean squared error",
     *["0.1 squared euro (on a scale from 0 to 250000 squared euro)"] * 2),
    ({"loss": "absolute", "unit": "euro"}, NUMBER, "mean absolute error",
     *["0.1 euro (on a scale from 0 to 500 euro)"] * 2),
    ({"loss": "pinball", "quantile": "0.9", "unit": "euro"}, NUMBER,
     "mean pinball loss of the 0.9 quantile", *["0.1 euro (on a scale from 0 to 500 euro)"] * 2),
    ({"loss": "mine:loss", "low": "0", "high": "4", "unit": "days"}, BINARY,
     "mean loss 'mine:loss'", *["0.1 days (on a scale from 0 to 4 days)"] * 2),
    ({"loss": "mine:loss", "low": "0", "high": "4"}, BINARY, "mean loss 'mine:loss'",
     *["0.1 (on a scale from 0 to 4)"] * 2),
]  # fmt: skip


def part(**settings: Any) -> RequirementPart:
    """Return a declared requirement."""
    return RequirementPart.model_validate({"name": "r", "limit": "0.1", **settings})


def told(declared: RequirementPart, outcome: Outcome = BINARY, **settings: Any) -> str:
    """Return the sentence of a declared loss."""
    given = {"limit": str(declared.limit), "slack": None, "choose": None, **settings}
    return measure_loss(declared, outcome=outcome, **given).requirement.sentence


@pytest.mark.parametrize(("settings", "outcome", "words", "level", "gap"), LOSSES)
def test_every_loss_has_its_words_its_limit_and_its_unit(
    settings: Mapping[str, Any], outcome: Outcome, words: str, level: str, gap: str
) -> None:
    absolute = told(part(form="absolute", **settings), outcome)
    assert absolute == f"The {words} of {MODEL} must stay below {level}."
    relative = told(part(form="relative", **settings), outcome)
    assert relative == f"The {words} of {MODEL} may exceed that of {SOURCE} by less than {gap}."


def test_every_known_loss_is_asked_for() -> None:
    known = {"error", "brier", "log", "cost", "squared", "absolute", "pinball", "mine:loss"}
    assert {settings["loss"] for settings, *_ in LOSSES} == known


@pytest.mark.parametrize(("limit", "end"), [
    ("0", f"must stay below that of {SOURCE}."),
    ("-0.01", f"must lie below that of {SOURCE} by more than 1 percentage point."),
    ("0.07", f"may exceed that of {SOURCE} by less than 7 percentage points."),
])  # fmt: skip
def test_a_release_may_have_to_be_better_than_the_source(limit: str, end: str) -> None:
    said = told(part(form="relative", loss="error", limit=limit))
    assert said == f"The error rate of {MODEL} {end}"


def test_predictions_thresholds_and_groups_are_said() -> None:
    declared = part(form="absolute", loss="error", group={"site": "north"})
    said = told(declared, choose=Choose(loss="error"), whose=PREDICTIONS)
    assert said == (
        "Among records of the group site = north, the error rate, at the decision threshold that "
        "each procedure chooses, of the predictions of a release must stay below 10 %."
    )


def test_slack_and_ramp_are_the_cutoff_of_a_score() -> None:
    declared = part(form="relative", loss="error", ramp="0.02")
    said = told(declared, slack="0.03")
    assert said.endswith(
        "by less than 10 percentage points (cutoff of its score: 7 percentage points, after a ramp "
        "of 2 percentage points)."
    )
    assert told(part(form="absolute", loss="error"), slack="0.03").endswith(
        "below 10 % (cutoff of its score: 7 %)."
    )


MOMENTS = {"age": ("1", "2"), "cost": ("900.0", "400.0")}  # declared constants come first


@pytest.mark.parametrize(("query", "said"), [
    ({"mean": "age", "range": ["0", "120"]},
     "The mean of 'age', its values cut to 0 to 120, in a release may differ from that in the "
     "target by less than 0.1."),
    ({"ratio": ["cost", "days"], "ranges": {"cost": ["0", "9000"], "days": ["0", "30"]}},
     "The mean of 'cost', its values cut to 0 to 9000, divided by the mean of 'days', its values "
     "cut to 0 to 30, in a release may differ from that in the target by less than 0.1."),
    ({"correlation": ["age", "cost"], "range": ["-4", "4"], "standard": {"age": ["50", "12.5"]}},
     "The mean product of 'age' (less 50, divided by 12.5) and 'cost' (less 900, divided by 400), "
     "cut to -4 to 4, in a release may differ from that in the target by less than 0.1."),
    ({"share": {"sex": "f", "ill": "yes"}},
     "The share of records with sex = f, ill = yes in a release may differ from that in the target "
     "by less than 10 percentage points."),
    ({"marginals": [["sex", "ill"], ["sex"]]},
     "The share of records in each cell of 'sex' x 'ill', 'sex' in a release may differ from that "
     "in the target by less than 10 percentage points."),
    ({"mean": "{attacks}", "range": ("0", "1")},
     "The mean of '{attacks}', its values cut to 0 to 1, in a release may differ from that in the "
     "target by less than 0.1."),
    ({"marginals": {"columns": ["sex", "ill", "site", "ward"], "ways": 2}},
     "The share of records in each cell of 'sex' x 'ill', 'sex' x 'site', 'sex' x 'ward' and 3 "
     "more tables in a release may differ from that in the target by less than 10 percentage "
     "points."),
])  # fmt: skip
def test_a_query_is_one_sentence_for_both_sides_and_all_its_cells(
    query: Mapping[str, Any], said: str
) -> None:
    declared = part(form="query", query=query)
    assert declared.query is not None
    domains = dict.fromkeys(declared.query.columns, ("a", "b"))
    measures = [
        measure
        for asked in expand("r", declared.query, domains, MOMENTS)
        for measure in measure_query(
            declared, BoundedQuery.of(ResolvedQuery.model_validate(asked.recorded()), {}),
            limit="0.1", slack=None,
        )
    ]  # fmt: skip
    assert required([measure.requirement for measure in measures]) == (said,)


EXPOSED = {
    ExposureKind.ADVANTAGE: {"threshold": {"quantile": "0.95"}},
    ExposureKind.TPR: {"fpr": "0.01"},
}


@pytest.mark.parametrize("kind", ExposureKind)
def test_every_exposure_is_one_sentence_for_all_its_attacks(kind: ExposureKind) -> None:
    attack = {
        ExposureKind.ATTRIBUTE: {"kind": "nearest row", "secret": "ill"},
        ExposureKind.LINKABILITY: {"kind": "linkability", "sides": [["a"], ["b"]]},
    }.get(kind, {"kind": "dcr"})
    attacking = ExposurePart.model_validate({"attack": {"one": attack, "two": attack}})
    settings = {"exposure": kind.value, "attacks": ["one", "two"], **EXPOSED.get(kind, {})}
    measures = measure_exposure(part(**settings), attacking, Iid())
    (said,) = required([measure.requirement for measure in measures])
    assert "the 2 attacks one (" in said
    assert "10 " in said
    assert "{" not in said
    assert not said[0].islower()
    assert said.endswith(".")


OVER: list[tuple[Design, str]] = [
    (Iid(), ""),
    (Independent(), ", averaged over these target records"),
    (WithoutReplacement(pool=5000), ", averaged over the pool of 5,000 records"),
    (Stratified(sizes={"a": 10, "b": 10}, weights={"a": Fraction(1, 4), "b": Fraction(3, 4)}),
     ", averaged over the strata with their registered weights"),
    (StratifiedClusters(sizes={"a": 10, "b": 10}, weights=dict.fromkeys("ab", Fraction(1, 2))),
     ", averaged over clusters, each counting once, in strata with their registered weights"),
    (StratifiedClusters(sizes={"a": 10, "b": 10}, weights=dict.fromkeys("ab", Fraction(1, 2)),
                        clusters=Clustered(weighting="record", max_size=9)),
     ", averaged over records, whatever their cluster, with the registered weights of the strata "
     "as their shares of all clusters"),
    (StratifiedClusters(sizes={"a": 10, "b": 10}, sampled={"a": 10, "b": 20},
                        clusters=WeightedClusters(max_weight=5, origin="design")),
     ", averaged over the persons that records represent, whatever their cluster, strata with "
     "their shares of the clusters that the whole survey sampled, as its author states them"),
    (StratifiedClusters(sizes={"a": 10, "b": 10}, weights=dict.fromkeys("ab", Fraction(1, 2)),
                        clusters=WeightedClusters(max_weight=5, origin="within strata")),
     ", averaged over the persons that records represent, whatever their cluster, each weight "
     "times the registered weight of its stratum over the stratum's number of sampled clusters"),
    (WeightedClusters(max_weight=5, origin="design"),
     ", averaged over the persons that records represent, whatever their cluster"),
    (Clustered(), ", averaged over clusters, each counting once"),
    (Weighted(max_weight=5, origin="design"), ", averaged over the persons that records represent"),
    (Clustered(weighting="record", max_size=9), ", averaged over records, whatever their cluster"),
]  # fmt: skip


@pytest.mark.parametrize(("design", "over"), OVER)
def test_every_design_says_what_means_are_over(design: Design, over: str) -> None:
    error = Requirement(
        name="error", low=0, high=1, limit=0.1, two_valued=True,
        quantity=LossWords(words="loss of a release"),
    )  # fmt: skip
    assert required([error], design.over) == (f"The loss of a release must stay below 0.1{over}.",)
    # A release has no design: it answers with all its records alike.
    asked = replace(error, form=Form.QUERY, quantity=LossWords(words="mean of x"))
    own = f", the target's {over[2:]}, the release's over its own records, each counting once"
    assert required([asked], design.over)[0].endswith(f"by less than 0.1{own if over else ''}.")
    assert {type(one) for one, _ in OVER} == set(DESIGNS)


def test_losses_computed_elsewhere_are_those_of_a_release() -> None:
    words = "mean of 'x', a loss that was computed elsewhere,"
    asked = LossWords(words=words, unit=PERCENT, whose="a release")
    assert promise(asked, "relative", 0.1) == (
        f"the {words} of a release may exceed that of the source by less than 10 percentage points"
    )


@pytest.mark.parametrize(("settings", "said"), [
    ({"two_valued": True}, "The share of 'x' must stay below 10 %."),
    ({}, "The mean of 'x' must stay below 0.1 (on a scale from 0 to 1)."),
    ({"missing": "worst"},
     "The mean of 'x' must stay below 0.1 (on a scale from 0 to 1), a missing loss counting as the "
     "worst."),
    ({"form": "relative", "low": -1},
     "The mean of 'x' less that of the source must stay below 0.1 (on a scale from -1 to 1)."),
    ({"slack": 0.02, "ramp": 0.01},
     "The mean of 'x' must stay below 0.1 (on a scale from 0 to 1) (cutoff of its score: 0.08, "
     "after a ramp of 0.01)."),
])  # fmt: skip
def test_losses_that_nobody_described_are_told_by_name_and_bounds(
    settings: Mapping[str, Any], said: str
) -> None:
    given = {"name": "x", "low": 0, "high": 1, "limit": 0.1, **settings}
    assert Requirement(**given).sentence == said
