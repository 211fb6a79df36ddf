"""Exposure requirements are declared in full, or refused with what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

from proxyguard.errors import RegistryError
from proxyguard.evidence.component import component_pvalues
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.losses.cell import share_column
from proxyguard.losses.measure import measure_exposure
from proxyguard.registry.declaration import Declaration, read_declaration
from proxyguard.registry.design import Iid
from proxyguard.registry.exposure import NEIGHBORS, THRESHOLDS, AttackPart, ExposureKind
from proxyguard.registry.requirement import Form, Requirement
from proxyguard.registry.test import ComponentTest, default_test

HEAD = """
format = 1
name = "clinic"
purpose = "Does a release give members away?"
[target]
table = "patients.csv"
reserve = { rows = 500, seed = 1 }
[[mechanism]]
name = "row bootstrap"
generator = "bootstrap"
draws = 30
seeds = { first = 1 }
[claim]
reliability_target = "0.8"
"""
SPLIT = """
[development]
members = "0.6"
reference = "0.3"
calibration = "0.1"
split_seed = 7
"""
EVERYWHERE = """
[[requirement]]
name = "told apart"
exposure = "advantage everywhere"
attacks = ["dcr", "domias"]
limit = "0.10"
"""


def declared(*parts: str) -> Declaration:
    return read_declaration(HEAD + "".join(parts))


def requirement(**keys: str) -> str:
    written = "\n".join(f"{key} = {text}" for key, text in keys.items())
    return f'\n[[requirement]]\nname = "found"\n{written}\n'


def test_the_name_of_an_attack_is_not_given_to_another() -> None:
    with pytest.raises(RegistryError, match=r"the name of another attack.*'share in radius'"):
        declared(SPLIT, EVERYWHERE, "[exposure.attack.dcr]\nkind = 'share in radius'")
    declared(SPLIT, EVERYWHERE, "[exposure.attack.domias]\nkind = 'domias'\njitter = '1e-5'")


@pytest.mark.parametrize("kind", ["share in radius", "domias", "mine:Attack"])
def test_settings_that_were_written_with_all_fields_are_read_again(kind: str) -> None:
    settings = AttackPart(kind=kind)
    assert AttackPart.model_validate(settings.model_dump()) == settings


def test_what_attacks_is_told_beside_the_name_that_an_author_gave_it() -> None:
    named = EVERYWHERE.replace('"domias"', '"DCR, best of all"')
    theirs = "[exposure.attack.'DCR, best of all']\nkind = 'share in radius'"
    (member,) = declared(SPLIT, named, theirs).members
    (part,) = member.exposures
    measures = measure_exposure(part, member.attacking, Iid())
    told = [measure.requirement.attack for measure in measures]
    assert told == ["dcr", "DCR, best of all (share in radius)"]


def test_an_exposure_needs_no_form_and_is_one_requirement_for_each_attack() -> None:
    (member,) = declared(SPLIT, EVERYWHERE).members
    (part,) = member.exposures
    assert part.form == "exposure"
    measures = measure_exposure(part, member.attacking, Iid())
    assert [m.requirement.name for m in measures] == ["told apart: dcr", "told apart: domias"]
    for measure in measures:
        assert measure.requirement.form is Form.EXPOSURE
        assert (measure.requirement.low, measure.requirement.high) == (-1.0, 1.0)
        assert measure.requirement.thresholds == THRESHOLDS
        assert default_test(Iid(), measure.requirement) is ComponentTest.BINOMIAL


def test_the_share_that_is_found_at_few_false_alarms_becomes_a_limit_on_what_is_not_flagged() -> (
    None
):
    text = requirement(exposure='"tpr at fpr"', attacks='["dcr"]', fpr='"0.01"', limit='"0.10"')
    (member,) = declared(SPLIT, text).members
    (measure,) = measure_exposure(member.exposures[0], member.attacking, Iid())
    assert measure.requirement.limit == 0.99
    assert measure.requirement.two_valued
    assert measure.exposure is not None
    assert (measure.exposure.ceiling, measure.exposure.fpr) == (0.1, 0.01)


def test_a_membership_auc_is_a_mean_between_0_and_1() -> None:
    text = requirement(exposure='"membership auc"', attacks='["density"]', limit='"0.55"')
    (member,) = declared(SPLIT, text).members
    (measure,) = measure_exposure(member.exposures[0], member.attacking, Iid())
    assert (measure.requirement.low, measure.requirement.high) == (0.0, 1.0)
    assert default_test(Iid(), measure.requirement) is ComponentTest.BETTING


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((EVERYWHERE,), "rows that nothing was trained on"),
        ((SPLIT.replace('"0.1"', '"0.2"'), EVERYWHERE), "sum to 1"),
        ((SPLIT.replace("split_seed = 7", ""), EVERYWHERE), "go together"),
        ((SPLIT, EVERYWHERE, "[exposure.attack.mine]\nkind = 'dcr'"), "no requirement names"),
        ((SPLIT, EVERYWHERE.replace('"dcr"', '"dcrr"')), "no attack 'dcrr'"),
        ((SPLIT, EVERYWHERE.replace('"dcr"', '"linkability"')), "two sides"),
        ((SPLIT, EVERYWHERE.replace('"domias"', '"dcr"')), "once each"),
        ((SPLIT, EVERYWHERE + 'slack = "0.01"'), "no slack"),
        ((SPLIT, EVERYWHERE.replace('"0.10"', '"1.10"')), "between 0 and 1"),
        ((SPLIT, EVERYWHERE + 'loss = "brier"'), "neither loss nor query"),
        ((SPLIT, EVERYWHERE + 'fpr = "0.01"'), "has fpr"),
        ((SPLIT, EVERYWHERE.replace(" everywhere", "")), "from which score on"),
        (
            (SPLIT, EVERYWHERE, '[exposure]\nmember_sample = { rows = 10, error = "0.01" }'),
            "members are sampled only",
        ),
        ((SPLIT, EVERYWHERE, "[exposure]\nsame_law = 'one table'"), "same_law says why two tables"),
        (
            (
                SPLIT.replace('calibration = "0.1"', "").replace("0.3", "0.4"),
                requirement(
                    exposure='"advantage"', attacks='["dcr"]', limit='"0.05"',
                    threshold='{ quantile = "0.95" }',
                ),
            ),
            "give development.calibration",
        ),
        (
            (SPLIT, EVERYWHERE.replace("advantage everywhere", "attribute inference")),
            "is of membership",
        ),
        (
            (SPLIT, requirement(form='"query"', query='{ share = { ill = "1" } }', limit='"0.2"')),
            "there is none",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(parts: tuple[str, ...], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        declared(*parts)


def test_members_are_not_sampled_where_strata_weigh_them() -> None:
    # The limits of a sample are for a plain share of it, and strata make the share a mixture.
    strata = '[target.design]\nby = "site"\n'
    strata += 'sizes = { a = 300, b = 200 }\nweights = { a = "0.6", b = "0.4" }\n'
    flagged = requirement(
        exposure='"advantage"', attacks='["dcr"]', limit='"0.05"',
        threshold='{ quantile = "0.95" }',
    )  # fmt: skip
    sample = '[exposure]\nmember_sample = { rows = 10, error = "0.01" }'
    reserve = "reserve = { rows = 500, seed = 1 }"
    by_stratum = HEAD.replace(reserve, "reserve = { seed = 1 }").replace(
        "[[mechanism]]", strata + "[[mechanism]]"
    )
    assert read_declaration(by_stratum + SPLIT + flagged).members
    assert declared(SPLIT, flagged, sample).members
    with pytest.raises(RegistryError, match="strata of the target weigh the members"):
        read_declaration(by_stratum + SPLIT + flagged + sample)


def test_a_target_with_a_table_of_its_own_needs_a_word_on_why_it_has_the_members_law() -> None:
    head = HEAD.replace(
        'table = "patients.csv"\nreserve = { rows = 500, seed = 1 }', 'file = "kept.csv"'
    )
    split = SPLIT.replace("[development]", '[development]\ntable = "patients.csv"')
    with pytest.raises(RegistryError, match=r"exposure\.same_law"):
        read_declaration(head + split + EVERYWHERE)
    said = '[exposure]\nsame_law = "a random third of the same visits"\n'
    assert read_declaration(head + split + EVERYWHERE + said).exposure is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "dcr", "neighbors": 3}, "number of neighbors"),
        ({"kind": "dcr", "options": {"a": 1}}, "import path"),
        ({"kind": "nearest row"}, "secret column"),
        ({"kind": "nearest row", "secret": "x", "known": ["x"]}, "other than the secret"),
        ({"kind": "nearest row", "secret": "x", "tolerance": "-1"}, "negative"),
        ({"kind": "dcr", "tolerance": "1"}, "guess a secret"),
        ({"kind": "linkability", "sides": [["a"], ["a", "b"]]}, "different columns"),
        ({"kind": "dcr", "sides": [["a"], ["b"]]}, "two sides"),
        ({"kind": "density", "jitter": "-0.1"}, "negative"),
        ({"kind": "dcr", "jitter": "0.5"}, "adds no jitter"),
        ({"kind": "gen-lra", "jitter": "1e-6"}, "adds no jitter"),
        ({"kind": "mine:Attack", "jitter": "0.5"}, "adds no jitter"),
    ],
)
def test_settings_that_an_attack_would_ignore_are_refused(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        AttackPart.model_validate(settings)


def test_attacks_look_at_the_neighbours_that_are_declared_or_usual() -> None:
    assert AttackPart(kind="gen-lra").k == NEIGHBORS["gen-lra"]
    assert AttackPart(kind="gen-lra", neighbors=200).k == 200
    assert {kind for kind in ExposureKind if kind.counts_success} == {
        ExposureKind.ATTRIBUTE, ExposureKind.LINKABILITY,
    }  # fmt: skip


def test_many_thresholds_and_a_sample_of_members_cost_what_the_union_bound_says() -> None:
    count, answer = np.array([90, 99]), np.array([0.7, 0.7])
    column = share_column(100, count, answer, np.array([95, 99]), np.array([0.6, 0.7]))
    plain = Requirement(name="a", low=-1, high=1, limit=0.1, indicator=True)
    many = Requirement(
        name="a", low=-1, high=1, limit=0.1, indicator=True, thresholds=20, member_error=0.001
    )
    test = ComponentTest.BINOMIAL
    validation, violation = component_pvalues(column, plain, test, Iid())
    validation_many, violation_many = component_pvalues(column, many, test, Iid())
    assert np.all(validation_many >= np.minimum(1.0, validation + 0.001))
    assert validation_many == pytest.approx(np.minimum(1.0, validation + 0.001))
    assert violation_many == pytest.approx(np.minimum(1.0, 20 * violation + 0.001))
    # The side that speaks against a release is its own count against its own answer.
    assert violation[0] == pytest.approx(float(binomial_pvalue(np.array(5), 100, 0.3)), rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"thresholds": 0}, {"thresholds": True}, {"member_error": 1.0}, {"member_error": -0.1}],
)
def test_corrections_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RegistryError, match=r"thresholds|member_error"):
        Requirement(name="a", low=-1, high=1, limit=0.1, **wrong)  # type: ignore[arg-type] # on purpose
