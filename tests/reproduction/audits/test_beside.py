"""Figures of the paper's text, beside ours: found by the product from what was published."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.documents.certificate import ClaimStatusRecord
from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance, ramp_radius
from proxyguard.registry.test import ramp_ceiling, ramp_sensitivity
from reproduction.audits import beside, details
from reproduction.audits.analyse import Bounds, Run, bounds_of, with_widest_ramp
from reproduction.audits.published import AUDITS, DIRECT, NAMED, Published, Row, Times
from reproduction.studies.catalog import STUDIES

TEXT = tuple(
    pg.Requirement(name=name, low=0, high=1, limit=float(limit), slack=slack)
    for (name, limit), slack in zip(
        AUDITS["text-unigram"].limits.items(), (0.03, 0.02, 0.03), strict=True
    )
)
TEXT_RECORDS = 4000
ALPHA_Z = 0.05 * 0.9 / 3  # the target's share of the error, divided over three configurations


def bounds(**changes: Any) -> Bounds:
    plain: dict[str, Any] = {
        "releases": 30, "count": 30, "lower": 0.9, "violations": 0, "upper": 1.0,
        "decision": "validated", "local": (0.9, 1.0), "pvalues": (0.01, 1.0), "steps": {},
    }  # fmt: skip
    return Bounds(**{**plain, **changes})


def test_thirty_of_thirty_recognized_releases_have_the_published_p_value() -> None:
    # Published for MAGIC and Taiwan: .00124 (App. L, App. N), which is .8 to the power of 30.
    losses = np.zeros((30, 2000, 1))
    requirement = [pg.Requirement(name="error", low=0, high=1, limit=0.1)]
    certificate = pg.certify(
        losses, requirement, reliability_target=0.8, seed=1,
        **dict(AUDITS["magic-bootstrap"].claims[NAMED]),
    )  # fmt: skip
    found = bounds_of(certificate.to_dict())
    row = AUDITS["magic-bootstrap"].rows["row bootstrap"]
    assert found.count == row.recognized
    assert beside._same_digits(beside._outer_pvalue(found, row.verdict), row.pvalue) == row.pvalue


def test_a_published_violation_is_compared_with_the_p_value_of_that_direction() -> None:
    both = bounds(pvalues=(0.25, 0.5))
    assert beside._outer_pvalue(both, "validated") == 0.25
    assert beside._outer_pvalue(both, "violation") == 0.5


def test_trivial_policies_break_the_limits_that_the_paper_says() -> None:
    # App. L: constant .5 exceeds the relative limits of Brier and Cost5x, prevalence that of
    # Cost5x; prevalence meets all ceilings.
    risks = {
        policy: [float(x) for x in own]
        for policy, own in AUDITS["taiwan-bootstrap"].references.items()
    }
    absolute = ["Brier risk", "log-loss risk", "Cost5x risk"]
    limits = dict(zip(absolute, (0.18, 0.07, 0.16), strict=True))
    limits |= {name.replace("risk", "transfer"): 0.04 for name in absolute}
    constant = details.broken_limits(risks, "constant", absolute, limits)
    assert constant == "Brier risk, Brier transfer, Cost5x transfer"
    assert details.broken_limits(risks, "prevalence", absolute, limits) == "Cost5x transfer"
    assert details.broken_limits(risks, "source", absolute, limits) == "none"


def test_no_ramp_of_the_text_audit_leaves_anything_of_its_smooth_certificate() -> None:
    # Published: the allowance for three factors reaches one. The widest ramps have the least.
    widest = tuple(with_widest_ramp(one) for one in TEXT)
    least = ramp_radius(ramp_sensitivity(widest, TEXT_RECORDS), TEXT_RECORDS, alpha=ALPHA_Z)
    assert least > 1.0
    for share in (0.9, 0.5, 0.1):
        narrower = tuple(replace(one, ramp=share * (one.ramp or 0.0)) for one in widest)
        radius = ramp_radius(ramp_sensitivity(narrower, TEXT_RECORDS), TEXT_RECORDS, alpha=ALPHA_Z)
        assert radius >= least
    # What a narrower ramp costs is not made good by its ceiling, which is next to nothing.
    assert markov_allowance(ramp_ceiling(widest, TEXT_RECORDS), ALPHA_Z) < 1e-4


def test_direct_only_decisions_are_named_and_other_differences_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published = AUDITS["text-unigram"]
    decided = {
        NAMED: {"high": "validated", "moderate": "unresolved", "degraded": "unresolved"},
        DIRECT: {"high": "validated", "moderate": "validated", "degraded": "unresolved"},
    }

    def analysed(audit: object, choices: Any) -> dict[str, Bounds]:
        return {name: bounds(decision=one) for name, one in decided[choices["mode"]].items()}

    monkeypatch.setattr(beside, "analyse", analysed)
    run: Any = SimpleNamespace(paper="an audit", ours="an audit")  # not looked at

    def shown() -> str:
        return beside.direct_only(beside.both_modes("text-unigram", run))

    words = shown()
    assert "6 times" in words
    assert "text-unigram, moderate, paper's settings; text-unigram, moderate, our" in words
    assert words.count("| validated |") == 2
    decided[DIRECT] = decided[NAMED]
    assert "Direct-only: none. Both modes decide alike every time." in shown()
    run.ours = None  # its draws are not made
    assert "3 times" in shown()
    assert set(published.rows) == set(decided[NAMED])


def test_the_table_of_claims_has_every_experiment_and_names_what_there_is() -> None:
    experiments = beside.read_experiments()
    assert len(experiments) == 19  # Tab. claim_status
    for one in experiments:
        assert one.studies or one.audits or one.elsewhere
        assert set(one.studies) <= set(STUDIES)
    named = {name for one in experiments for name in one.audits}
    ours = {
        name for name, audit in AUDITS.items()
        if not (audit.rows or audit.verdicts or audit.tallies)  # nothing of it was printed
    }  # fmt: skip
    assert set(AUDITS) - ours <= named


def test_a_long_status_is_cut_to_its_first_reasons_and_says_so() -> None:
    status = ClaimStatusRecord(
        evidence="registered audit", lineage="; ".join(f"{k} met" for k in range(9)),
        registered="yes", guarantee="no: the declaration says: a; b; a; b",
    )  # fmt: skip
    assert beside.shortened(status) == (
        "registered audit", "0 met; 1 met; and 7 more", "yes", "no: the declaration says: a; b",
    )  # fmt: skip


DECLARATION = """
format = 1
name = "tiny"
purpose = "May bootstrap tables stand in for this table?"
[target]
table = "table.csv"
reserve = { rows = 400, seed = 1 }
outcome = "ill"
positive = "yes"
[development]
validation = { fraction = "0.25", seed = 2 }
[procedure]
library = ["fixed_logistic"]
[[requirement]]
name = "Brier"
loss = "brier"
form = "absolute"
limit = "0.4"
slack = "0.1"
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 20
seeds = { first = 100 }
[claim]
mode = "direct"
bound = "paper"
score = "slack"
test = "empirical_bernstein"
reliability_target = "0.5"
"""
CLAIM = {"mode": "direct", "bound": "paper", "score": "slack", "test": "empirical_bernstein",
         "target_share": "0.5", "family": "bounds"}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An audit of a table that was made up, from its declaration to its certificate."""
    work = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(5)
    age = rng.normal(50, 10, 1000).round(1)
    ill = np.where(age + rng.normal(0, 8, 1000) > 55, "yes", "no")
    rows = [f"{a},{b}" for a, b in zip(age, ill, strict=True)]
    (work / "table.csv").write_text("age,ill\n" + "\n".join(rows))
    audit = pg.Audit(work / "audit", home=work / "home", data=[work])
    audit.init(DECLARATION)
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    return Run(paper=audit, ours=audit)


PRINTED = Published(
    title="Tiny", data=(), claims={DIRECT: CLAIM}, limits={"Brier": "0.35"},
    rows={"bootstrap": Row(releases=20)}, auc=("0.9", "0.8"), smooth="vacuous",
    steps={"kappa": "0.000000", "score rate at least": "0.123"},
    times=Times(draws="14", target="6.3"),
)  # fmt: skip


def test_the_steps_of_a_bound_are_the_certificates_own_and_those_of_published_limits(
    run: Run,
) -> None:
    (verdict,) = run.paper.certificate().to_dict()["verdicts"]
    own = {step["label"]: step["value"] for step in verdict["lower"]["steps"]}
    # Half of the error pays for the target, as it does by default.
    shown = beside.steps(run, PRINTED)
    cells = re.search(r"\| bootstrap \| kappa \| 0\.000000 \| (\S+) \| (\S+) \|", shown)
    assert cells is not None
    assert float(cells[1]) == pytest.approx(own["kappa"], abs=6e-7)
    assert float(cells[2]) == pytest.approx(chernoff_ceiling(0.25, 0.35, 400), abs=6e-7)
    rate = re.search(r"\| score rate at least \| 0\.123 \| (\S+) \|", shown)
    assert rate is not None
    assert float(rate[1]) == pytest.approx(own["score rate at least"], abs=6e-4)


def test_ranking_times_and_the_smooth_certificate_come_from_the_audit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "AUDITS", {"tiny": PRINTED})
    diagnostics = run.paper.certificate().predicate.diagnostics
    assert diagnostics is not None
    (source,) = (diagnostics.source_auc or {}).values()
    assert f"| source | 0.9 | {source:.1f} |" in beside.ranking(run, PRINTED)
    assert "| mean of 20 releases | 0.8 |" in beside.ranking(run, PRINTED)
    ((name, draws, _, target, _),) = beside.published_times("tiny", run)
    assert (name, draws, target) == ("tiny", "14", "6.3")
    smooth = beside.smooth(run, PRINTED)
    assert "Published: vacuous." in smooth
    assert re.search(r"\| bootstrap \| [01]\.\d{4} \| \S+ \| \d\.\d{3} \| [01]\.\d{4} \|", smooth)


def test_status_and_subject_of_a_claim_are_the_certificates_words(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicate = run.paper.certificate().predicate
    monkeypatch.setattr(beside, "AUDITS", {"tiny": PRINTED})
    row = beside.Experiment(
        name="Tiny", evidence="e", lineage="l", registered="r", guarantee="g",
        audits=("tiny", "another"),
    )  # fmt: skip
    monkeypatch.setattr(beside, "read_experiments", lambda: (row,))
    shown = beside.claim_status({"tiny": beside.shortened(predicate.claim_status)})
    assert "| Tiny | published | e | l | r | g |" in shown
    assert f"|  | `tiny` | {predicate.claim_status.evidence} |" in shown
    assert "|  | `another` | not run here |" in shown
    ((_, _, redrawn, fixed, _),) = beside.about("tiny", run)
    assert redrawn == "; ".join(predicate.redraws["bootstrap"])
    assert fixed == "; ".join(predicate.conditional_on["bootstrap"])


def test_a_printed_difference_of_auc_and_the_source_s_threshold_stand_beside_ours(
    run: Run,
) -> None:
    diagnostics = run.paper.certificate().predicate.diagnostics
    assert diagnostics is not None
    (source,) = (diagnostics.source_auc or {}).values()
    (own,) = (diagnostics.auc or {}).values()
    assert source is not None
    mean = np.mean([area for area in own.values() if area is not None])
    shown = beside.ranking(run, replace(PRINTED, auc=None, auc_change="-0.203"))
    assert f"| source |  | {source:.3f} |" in shown
    assert f"| mean of 20 releases, less the source's | -0.203 | {mean - source:.3f} |" in shown
    printed = replace(PRINTED, source={"threshold": "0.33"})
    registry = run.paper.folder.registry(run.paper.journal())
    model = registry.members["target"].facts.source
    assert model is not None
    threshold = float(model.threshold or "nan")
    assert f"| threshold | 0.33 | {threshold:.2f} |" in beside.source_model(run, printed)
    assert beside.source_model(run, PRINTED) == ""
