"""Figures of the paper's text, beside ours: found by the product from what was published."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.documents.certificate import ClaimStatusRecord
from proxyguard.exact.contamination import markov_allowance, ramp_radius
from proxyguard.registry.test import ramp_ceiling, ramp_sensitivity
from reproduction.audits import beside, details
from reproduction.audits.analyse import Bounds, Run, bounds_of, with_widest_ramp
from reproduction.audits.published import AUDITS, DIRECT, NAMED
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
    run: Run = SimpleNamespace(paper=None, ours=None)  # type: ignore[assignment]  # not looked at
    words = beside.direct_only({"text-unigram": run})
    assert "6 times" in words
    assert "text-unigram, moderate, paper's settings; text-unigram, moderate, our" in words
    assert words.count("| validated |") == 2
    decided[DIRECT] = decided[NAMED]
    assert "Direct-only: none. Both modes decide alike every time." in beside.direct_only(
        {"text-unigram": run}
    )
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
