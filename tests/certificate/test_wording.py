"""What a certificate says: the sentence, what lies behind it, and what it does not say."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from html import unescape
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.certificate import wording

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)

ABSOLUTE = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True)
RELATIVE = pg.Requirement(name="regret", low=-1, high=1, limit=0.1, form="relative")
BRIER = pg.Requirement(name="Brier", low=0, high=1, limit=0.3)
R, N = 60, 500


def losses(rate: float, *requirements: pg.Requirement) -> NDArray[np.float64]:
    rng = np.random.default_rng(51)
    one = (rng.random((R, N)) < rate).astype(float)
    return np.stack([one if r.low == 0 else one - 0.5 for r in requirements], axis=2)


def certify(rate: float = 0.05, *requirements: pg.Requirement, **choices: Any) -> pg.Certificate:
    requirements = requirements or (ABSOLUTE, RELATIVE, BRIER)
    choices = {"reliability_target": 0.8, "seed": 99} | choices
    values: Any = losses(rate, *requirements)
    if choices.get("mode") == "collective":
        values = pg.LossBatches([pg.LossArray(one[None]) for one in values])
    return pg.certify(values, requirements, **choices)


def test_the_sentence_of_a_validation_can_be_read_by_a_steward() -> None:
    certificate = certify()
    share = re.fullmatch(
        r"With 95 % confidence, at least (\d+\.\d) % of future releases of this mechanism meet "
        r"all 3 requirements on the registered target\.",
        certificate.sentence,
    )
    assert share is not None
    # Rounded down, never up.
    assert float(share[1]) / 100 <= certificate.reliability_lower < float(share[1]) / 100 + 0.001


def test_the_sentence_of_a_violation_rounds_up() -> None:
    certificate = certify(0.5, beta="0.1")
    share = re.fullmatch(
        r"With 90 % confidence, at most (\d+\.\d) % of future releases of this mechanism meet "
        r"all 3 requirements on the registered target; 80 % were required\.",
        certificate.sentence,
    )
    assert share is not None
    assert float(share[1]) / 100 - 0.001 < certificate.reliability_upper <= float(share[1]) / 100


def test_the_sentence_of_an_open_question_claims_no_violation() -> None:
    certificate = certify(reliability_target="0.99")
    assert certificate.decision is pg.Decision.UNRESOLVED
    assert certificate.sentence.startswith("The audit does not settle whether more than 99 %")
    shown = re.search(
        r" It shows at least (\d+\.\d) %, with 95 % confidence\.", certificate.sentence
    )
    assert shown is not None
    assert 0.9 < float(shown[1]) / 100 <= certificate.reliability_lower
    assert certificate.sentence.endswith("That is not evidence of a violation.")


def test_relative_claims_are_called_relative_transfer() -> None:
    other = pg.Requirement(name="second", low=-1, high=1, limit=0.2, form="relative")
    assert "meet all 2 relative-transfer requirements" in certify(0.05, RELATIVE, other).sentence
    assert "meet the relative-transfer requirement 'regret'" in certify(0.05, RELATIVE).sentence
    assert "relative-transfer" not in certify(0.05, RELATIVE, ABSOLUTE).sentence
    assert "meet the requirement 'error'" in certify(0.05, ABSOLUTE).sentence


def test_what_is_not_claimed_follows_from_the_forms() -> None:
    adequate, as_good = "that the procedure is adequate", "does as well as the source"
    both, relative, absolute = (
        str(certify(0.05, *r)) for r in ((ABSOLUTE, RELATIVE), (RELATIVE,), (ABSOLUTE,))
    )
    assert adequate in relative
    assert as_good not in relative
    assert as_good in absolute
    assert adequate not in absolute
    assert adequate not in both
    assert as_good not in both


def test_the_text_holds_all_that_stands_behind_the_sentence() -> None:
    certificate = certify()
    text = str(certificate)
    assert text.splitlines()[0] == "VALIDATED: mechanism"
    assert certificate.sentence in text
    favorable = certificate.lower.steps[0][1]
    for part in (
        f"{favorable}, releases 60, kappa",  # counts
        "error alpha 0.05",  # budgets
        "error beta 0.05",
        "theory section 2, sharp p-value",  # the theorem
        "theory section 4, direct violation",
        "Not claimed: ",
        "resembles the target distribution",
        "causal transport",
        "retuned after the target was opened",
        "choices asserted by the caller",
        "(seed 99, given by the caller)",
        "Evidence: 60 releases, 500 target records, 3 requirements,",
        "test binomial, betting",
        "mode direct",
        "error: limit 0.2",
    ):
        assert part in text, part


def test_the_likeness_that_queries_claim_is_not_denied() -> None:
    share = pg.Requirement(name="s", low=-1, high=1, limit=0.1, form="query")
    error = pg.Requirement(name="e", low=0, high=1, limit=0.1)
    likeness = [line for line in wording.not_claimed([error, share]) if "resembles" in line]
    assert likeness == [
        "that the release resembles the target distribution in anything that was not asked of it"
    ]


@pytest.mark.parametrize(
    ("choices", "parts"),
    [
        (
            {"mode": "named"},
            ["recognized releases (Holm)", "alpha_R 0.025 + alpha_M 0.025", "Theorem 5"],
        ),
        (
            {"bound": "paper", "threshold": "0.0005"},
            ["favorable scores", "alpha_Q 0.025 + alpha_Z 0.025", "Theorem 6"],
        ),
        ({"mode": "hybrid"}, ["alpha_N 0.025 + alpha_D 0.025", "Proposition 16"]),
        (
            {"mode": "collective", "dependence": "independent"},
            ["valid releases at least (tail-Simes)", "Theorem 9"],
        ),
        ({"mode": "count"}, ["Of these 60 releases at least", "97.5 % confidence"]),
    ],
    ids=lambda x: str(x)[:40],
)
def test_each_mode_names_its_count_budget_and_theorem(
    choices: dict[str, Any], parts: list[str]
) -> None:
    text = str(certify(**choices))
    assert all(part in text for part in parts)


def test_the_vocabulary_of_the_modes_is_kept_apart() -> None:
    # Recognized, favorable and valid are three things in the paper.
    named, direct = str(certify(mode="named")), str(certify())
    assert "recognized" in named
    assert "favorabl" not in named
    assert "favorable" in direct
    assert "recognized" not in direct


@pytest.mark.parametrize(
    ("alpha", "beta", "said"), [(0.05, 0.05, "90 %"), ("0.01", "0.05", "94 %")]
)
def test_two_bounds_shown_together_say_their_joint_coverage(
    alpha: Any, beta: Any, said: str
) -> None:
    certificate = certify(alpha=alpha, beta=beta)
    assert f"Shown together, the two bounds hold with {said} confidence." in str(certificate)
    assert float(certificate.joint_coverage) == pytest.approx(float(said[:2]) / 100)
    assert "Shown together" not in str(certify(beta=None))


def test_two_bounds_that_cannot_hold_together_promise_nothing() -> None:
    for alpha, beta in (("0.4", "0.6"), ("0.5", "0.6")):
        text = str(certify(alpha=alpha, beta=beta))
        assert "Nothing is claimed about the two bounds together." in text
        assert "Shown together" not in text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Fraction(1, 20), "95 %"),
        (Fraction(1, 40), "97.5 %"),
        (Fraction(1, 60), "98.33 %"),  # 98.333..., down
        (Fraction(1, 150), "99.333 %"),
        (Fraction(1, 1000), "99.9 %"),
        (Fraction(1, 30_000), "99.99666 %"),
        (Fraction("1e-7"), "99.99999 %"),
        (Fraction("1e-30"), f"99.{'9' * 28} %"),
        (Fraction(1), "0 %"),
    ],
    ids=str,
)
def test_a_confidence_is_rounded_down_and_never_certain(error: Fraction, said: str) -> None:
    assert wording.confidence(error) == said


def test_the_confidence_of_a_certificate_is_never_a_hundred_percent() -> None:
    certificate = certify(0.0, alpha="1e-7", reliability_target="0.5")
    assert certificate.sentence.startswith("With 99.99999 % confidence")
    assert "100 %" not in str(certificate)


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 releases"), (1, "1 release"), (2, "2 releases"), (1234, "1,234 releases")],
)
def test_one_is_singular(number: int, said: str) -> None:
    assert wording.counted(number, "release") == said


def test_clusters_are_counted_as_clusters() -> None:
    text = str(
        pg.certify(
            np.full((1, 60, 1), 0.1), [LOSS], design=pg.Clustered(), reliability_target=0.8,
            records=pg.Records(clusters=np.repeat(np.arange(12), 5)),
        )
    )  # fmt: skip
    assert "Evidence: 1 release, 12 clusters, 1 requirement," in text
    assert "target record" not in text


def test_a_subgroup_without_a_record_has_no_estimates_to_show() -> None:
    group = pg.Requirement(name="g", low=0, high=1, limit=0.2, group="g")
    text = str(
        pg.certify(
            losses(0.05, ABSOLUTE, group), [ABSOLUTE, group], reliability_target=0.8,
            records=pg.Records(groups={"g": np.zeros(N, dtype=bool)}),
        )
    )  # fmt: skip
    assert "  g: limit 0.2, no record counts" in text.splitlines()
    assert "nan" not in text


@pytest.mark.parametrize(
    "choices",
    [{}, {"mode": "named"}, {"mode": "hybrid"}, {"mode": "count"}, {"bound": "paper"},
     {"beta": None}, {"test": "betting_fixed"}],
    ids=str,
)  # fmt: skip
def test_a_certificate_converts_to_json_and_back(choices: dict[str, Any]) -> None:
    certificate = certify(**choices)
    plain = certificate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["decision"] == certificate.decision.value
    assert plain["reliability_lower"] == certificate.reliability_lower
    assert plain["reliability_upper"] == certificate.reliability_upper
    assert plain["seed"] == 99
    assert plain["sentence"] == certificate.sentence
    assert "choices asserted by the caller" in plain["basis"]
    assert plain["n_records"] == {"error": N, "regret": N, "Brier": N}
    amounts = [part["amount"] for part in plain["lower"]["budget"]]
    assert all(re.fullmatch(r"\d+/\d+", amount) for amount in amounts)


def test_numpy_numbers_do_not_hide_in_the_dict() -> None:
    family = {"a": losses(0.05, ABSOLUTE), "b": losses(0.5, ABSOLUTE)}
    for kind in ("decisions", "bounds"):
        made = pg.certify(family, [ABSOLUTE], reliability_target=0.8, family=kind)
        assert json.loads(json.dumps(made.to_dict(), allow_nan=False)) == made.to_dict()
    releases = pg.certify_releases({"t": pg.NamedReleases(family["a"], [ABSOLUTE])})
    assert json.loads(json.dumps(releases.to_dict(), allow_nan=False)) == releases.to_dict()


def test_the_frame_has_one_row_a_release_and_requirement() -> None:
    certificate = certify()
    frame = certificate.to_frame()
    assert frame.shape == (R * 3, 11)
    row = frame[(frame.release == "17") & (frame.requirement == "regret")].iloc[0]
    evidence = certificate.evidence
    assert row.estimate == evidence.estimates[17, 1]
    assert row.pvalue == evidence.pvalues[17, 1]
    assert row.violation_pvalue == evidence.violation_pvalues[17, 1]
    told = evidence.limits(*certificate.levels)
    counted = frame[(frame.release == "17") & (frame.test == "binomial")].iloc[0]
    assert (counted.lower, counted.upper) == (told.lower[17, 0], told.upper[17, 0])
    assert np.isnan([row.lower, row.upper]).all()  # a bet says nothing of other limits
    assert (row.limit, row.n, row.test) == (0.1, N, "betting")
    assert row.mechanism == "mechanism"


HOSTILE = "<script>alert('x')</script>&"


def test_a_hostile_name_cannot_act_in_a_notebook() -> None:
    requirement = pg.Requirement(name=HOSTILE, low=0, high=1, limit=0.2)
    values = losses(0.05, requirement)
    shown = [
        pg.certify(values, [requirement], reliability_target=0.8)._repr_html_(),
        pg.certify({HOSTILE: values}, [requirement], reliability_target=0.8)._repr_html_(),
        pg.certify_releases(
            {HOSTILE: pg.NamedReleases(pg.LossArray(values[:1], releases=[HOSTILE]), [requirement])}
        )._repr_html_(),
    ]
    for html in shown:
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_the_notebook_shows_the_text() -> None:
    certificate = certify()
    shown = unescape(certificate._repr_html_()).replace("\N{NO-BREAK SPACE}", " ")
    assert certificate.sentence in shown


def test_estimates_of_different_sizes_are_said() -> None:
    group = pg.Requirement(name="g", low=0, high=1, limit=0.2, group="g")
    mask = np.arange(N) < 123
    certificate = pg.certify(
        losses(0.05, ABSOLUTE, group),
        [ABSOLUTE, group],
        records=pg.Records(groups={"g": mask}),
        reliability_target=0.8,
    )
    assert "123 to 500 target records" in str(certificate)


def test_a_collective_certificate_says_what_was_asserted_about_dependence() -> None:
    stated = {"independent": "independent", "prds": "PRDS"}
    for dependence, word in stated.items():
        text = str(certify(mode="collective", dependence=dependence))
        assert f"Asserted: release p-values are {word}, each release having its own batch" in text
    assert "Asserted:" not in str(certify())


def test_a_sequential_audit_tells_its_story_at_every_stage() -> None:
    plan = pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.005)
    audit = pg.SequentialAudit(plan)
    assert "open whether more than 80 %" in str(audit)
    audit.add(np.zeros(20, dtype=bool))
    assert audit.finished  # no later look can cross
    assert "not evidence of a violation" in audit.sentence
    good = pg.SequentialAudit(plan)
    good.add(np.ones(20, dtype=bool))
    assert good.sentence.startswith(
        "With 95 % confidence, at every look at once, more than 80.0 % of future releases"
    )
    assert "theory section 5" in str(good)
    assert json.loads(json.dumps(good.to_dict()))["budget"] == [
        {"symbol": "alpha", "event": "reliability overstated", "amount": "1/20"}
    ]


def test_a_stream_lists_its_rounds_and_what_holds_for_all_of_them() -> None:
    stream = pg.CandidateStream([LOSS], seed=5)
    stream.submit(np.zeros((200, 1)), pg.Records(ids=np.arange(200)))
    stream.submit(np.ones((200, 1)), pg.Records(ids=np.arange(200, 400)))
    text = str(stream)
    assert "round 1: validated" in text
    assert "round 2: unresolved" in text
    assert "Proposition 19" in text
    assert "seed 5" in text
    assert [r["decision"] for r in json.loads(json.dumps(stream.to_dict()))["rounds"]] == [
        "validated",
        "unresolved",
    ]


def test_violated_cells_are_counted_under_the_requirement_that_was_declared() -> None:
    cells = [
        f"shares: a = {k} (target {side} release)" for k in range(9) for side in ("above", "below")
    ]
    query = {"low": -1, "high": 1, "limit": 0.1, "form": "query"}
    asked = [
        ABSOLUTE,
        pg.Requirement(name="cost: own", low=0, high=1, limit=0.1),
        pg.Requirement(name="mean (target above release)", **query),
        *(pg.Requirement(name=name, **query) for name in cells),
    ]
    broken = [cells[7], "error", "cost: own", cells[2], "mean (target above release)", cells[0]]
    assert wording.violated_words(broken, asked) == (
        "shares (3 of 9; worst: a = 3), error, cost: own and mean (target above release)"
    )
    # The worst is told first, by the p-values of a violation.
    values = losses(0.4, ABSOLUTE)[:1]
    member = pg.NamedReleases(
        np.concatenate([values, np.ones_like(values)], axis=2),
        [ABSOLUTE, pg.Requirement(name="cost", low=0, high=1, limit=0.2, two_valued=True)],
    )
    (verdict,) = pg.certify_releases({"t": member}, seed=1).verdicts
    assert verdict.violated == ("cost", "error")


def test_no_verdict_of_any_kind_is_stated_as_a_fact() -> None:
    mixed = {"good": losses(0.05, ABSOLUTE), "bad": losses(0.6, ABSOLUTE)}
    releases = pg.certify_releases(
        {name: pg.NamedReleases(values[:3], [ABSOLUTE]) for name, values in mixed.items()},
        alpha="0.05", beta="0.02",
    )  # fmt: skip
    named = [
        wording.release_sentence(verdict, [ABSOLUTE], alpha="0.05", beta="0.02")
        for verdict in releases.verdicts
    ]
    # One level for all releases: that of the family, not one a release.
    assert named[0].startswith("With 95 % confidence, for all named releases at once, this release")
    assert named[-1] == "With 98 % confidence, for all named releases at once, this release " + (
        "violates error."
    )
    plan = pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.005)
    sequential = pg.SequentialAudit(plan)
    sequential.add(np.ones(20, dtype=bool))
    families = [
        pg.certify(mixed, [ABSOLUTE], reliability_target=0.8, seed=1, family=kind)
        for kind in ("decisions", "bounds")
    ]
    decided = [c for family in families for c in family.values()]
    assert {c.decision.value for c in decided} == {"validated", "violation"}
    sentences = [*named, sequential.sentence, *(c.sentence for c in decided)]
    assert all("confidence" in sentence for sentence in sentences)
