"""What a report says: binding requirements, budgets that add up, health, plan, provenance."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.documents.certificate import (
    Failure,
    MechanismVerdict,
    Report,
    ReportTable,
    RoundVerdict,
)
from proxyguard.documents.evidence import (
    Derived,
    GroupEvidence,
    ScoreRecord,
    SequentialEvidence,
)
from proxyguard.documents.ledger import (
    Certified,
    Committed,
    Deviated,
    Favored,
    Frozen,
    Judged,
    Opened,
    Registered,
    Sealed,
)
from proxyguard.documents.releases import FailedDraw
from proxyguard.registry.parts import ClaimPart, PlanPart
from proxyguard.report.charts import budget_pictures, pictures_of
from proxyguard.report.content import build_report, report_values, to_json
from proxyguard.report.evidence import binding_of, budget_parts
from proxyguard.report.html import to_html, to_markdown
from proxyguard.report.record import times_table
from proxyguard.report.sources import (
    SECTIONS,
    Sources,
    amount,
    few_digits,
    range_words,
    sources_of,
    to_csv,
)
from report.synthetic import (
    drawn,
    entries,
    manifest_of,
    predicate_of,
    registry_of,
    sealed_as,
    synthetic_sources,
    unmarked,
)

HOSTILE = '</script><img src=x onerror="alert(1)">| `x` \u202e{{7*7}} [a](javascript:b) =1+1'
FIRST = pg.Requirement(name="first", low=0, high=1, limit=0.3)
SECOND = pg.Requirement(name="second", low=0, high=1, limit=0.4)

NOON = "2026-01-01T12:00:00Z"


def losses(mean: float, releases: int = 40, n: int = 600, seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    one = rng.beta(4 * mean, 4 * (1 - mean), size=(releases, n, 1))
    return np.concatenate([one, 0.5 * one], axis=2)


def family(**choices: Any) -> Sources:
    values = {"good": losses(0.15), "middling": losses(0.28), "bad": losses(0.5)}
    found = pg.certify(values, [FIRST, SECOND], reliability_target=0.8, seed=1, **choices)
    return sources_of(found)


def table(report: Report, title: str) -> ReportTable:
    return next(one for one in report.tables if one.title == title)


def group_of(pvalues: Any, violation_pvalues: Any) -> GroupEvidence:
    return GroupEvidence.model_construct(
        releases=tuple(str(r) for r in range(len(pvalues))),
        requirements=("first", "second"),
        limits=("0.3", "0.4"),
        derived=Derived.model_construct(pvalues=pvalues, violation_pvalues=violation_pvalues),
    )


def test_the_largest_pvalue_binds_and_ties_go_to_the_one_nearest_a_violation() -> None:
    group = group_of(
        [[0.2, 0.1], [0.01, 0.5], [1.0, 1.0], [1.0, 1.0]],
        [[0.9, 0.9], [1.0, 0.6], [0.4, 0.02], [0.0, 0.0]],
    )
    # Release 2 ties. Release 3 is a failed draw.
    found = binding_of("m", group, {"3"})
    assert found is not None
    assert found.counts == (("first", 1), ("second", 2))
    assert (found.requirement, found.releases) == ("second", 3)
    assert (dict(found.counts)["second"], found.releases) == (2, 3)
    assert binding_of("m", group, {"0", "1", "2", "3"}) is None


def test_binding_is_what_the_evidence_calls_binding() -> None:
    certificate = pg.certify(losses(0.28), [FIRST, SECOND], reliability_target=0.8, seed=1)
    report = build_report(sources_of(certificate))
    expected = np.bincount(certificate.evidence.binding, minlength=2)
    assert [count for _, count in report.bindings[0].counts] == expected.tolist()
    assert report.verdicts[0].binding == "first"


def test_what_was_required_stands_in_every_form_of_the_report() -> None:
    sources = family()
    report = build_report(sources)
    first, second = report.required
    assert first == "The mean of 'first' must stay below 0.3 (on a scale from 0 to 1)."
    assert report_values(report, sources)["required"] == [first, second]
    assert "The mean of &#39;first&#39; must stay below 0.3" in to_html(report, sources)
    # Before the evidence, which means nothing to who does not know what was asked.
    markdown = to_markdown(report)
    assert markdown.index("must stay below 0.3") < markdown.index("## Not claimed")
    certificate = pg.certify(losses(0.15), [FIRST, SECOND], reliability_target=0.8, seed=1)
    assert first in str(certificate)


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"mode": "named"},
        {"mode": "named", "pooled_violations": True},
        {"mode": "count"},
        {"mode": "hybrid"},
        {"mode": "direct", "bound": "paper"},
        {"shares": {"good": "0.7", "middling": "0.2", "bad": "0.1"}},
    ],
    ids=str,
)
def test_the_budgets_add_up_to_what_was_registered(choices: dict[str, Any]) -> None:
    report = build_report(family(alpha="0.05", beta="0.04", **choices))
    rows = table(report, "Error budget").rows
    for budget, whole in (("validation", Fraction(1, 20)), ("violation", Fraction(1, 25))):
        own = [row for row in rows if row[0] == budget]
        parts = [Fraction(row[4].split(" = ")[0]) for row in own if row[1] != "sum"]
        (total,) = (Fraction(row[4].split(" = ")[0]) for row in own if row[1] == "sum")
        assert sum(parts) == total == whole


def test_amounts_are_exact() -> None:
    assert [amount("1/40"), amount("1/60")] == ["0.025", "1/60 = 0.016667"]


def test_tables_stand_in_the_order_of_the_page() -> None:
    report = build_report(family())
    places = [SECTIONS.index(one.section) for one in report.tables]
    assert places == sorted(places)
    assert report.section("evidence") == tuple(
        one for one in report.tables if one.section == "evidence"
    )


def test_only_the_registered_bound_counts_as_certified() -> None:
    by_holm = build_report(family(family="decisions"))
    assert all(not verdict.certified for verdict in by_holm.verdicts)
    assert all("not certified by itself" in verdict.lines[0] for verdict in by_holm.verdicts)
    assert all(verdict.certified for verdict in build_report(family(family="bounds")).verdicts)


def test_planned_against_happened() -> None:
    sources = family()
    plan = PlanPart(
        records=500, draws=30, power="0.9", reliability="0.95", margins={"first": "0.1"},
        origin="a pilot", cost=None, seed=0,
    )  # fmt: skip
    report = build_report(replace(sources, registry=registry_of([FIRST, SECOND], plan=plan)))
    rows = {row[0]: row[1:] for row in table(report, "Plan against outcome").rows}
    assert rows["target records"] == ("500", "600")
    assert rows["draws"] == ("30", "good: 40; middling: 40; bad: 40")
    assert "good: validated" in rows["chance of validation"][1]
    assert rows["margin of first"][1].startswith("good: 0.1")
    assert not any(one.title == "Plan against outcome" for one in build_report(sources).tables)


def test_failed_and_repeated_draws_are_counted() -> None:
    sources = family()
    draws = [
        drawn(1, content="a", rows=7),
        drawn(2, content="a", rows=7),
        drawn(1, content="b", rows=9),
        FailedDraw.model_construct(status="timeout", seed=4, error="slow", guard=""),
    ]
    failed = {"good": (Failure(seed=4, status="timeout", error="slow"),)}
    sealed = sealed_as(sources, predicate_of(sources, failed=failed))
    report = build_report(replace(sealed, manifest=manifest_of({"good": draws})))
    row = ("good", "4", "1 timeout", "1", "0", "7 to 9", "")
    assert table(report, "Rows and models").rows == (row,)
    alike = manifest_of({"good": draws[:2]})
    (of_one_size,) = table(build_report(replace(sealed, manifest=alike)), "Rows and models").rows
    assert of_one_size[5] == "7"
    assert table(report, "Failed draws").rows == (("good", "4", "timeout", "slow"),)


def test_the_report_says_how_draws_were_computed_where_generators_say_it() -> None:
    sources = family()
    cpu = {"together": "50", "device": "cpu"}
    draws = [drawn(1, computed=cpu), drawn(2, computed=cpu), drawn(3, computed={"device": "cuda"})]
    sealed = sealed_as(sources, predicate_of(sources))
    manifest = manifest_of({"good": [*draws, drawn(4)], "bad": [drawn(5)]})
    report = build_report(replace(sealed, manifest=manifest))
    assert table(report, "How draws were computed").rows == (
        ("good", "2", "device cpu, together 50"),
        ("good", "1", "device cuda"),
    )
    silent = build_report(replace(sealed, manifest=manifest_of({"good": [drawn(4)]})))
    assert not any(one.title == "How draws were computed" for one in silent.tables)


def test_a_long_ledger_is_shortened_and_says_so() -> None:
    steps = [
        Committed.model_construct(time=NOON, record=drawn(i), release="f" * 64, files={})
        if i % 2 == 0
        else Judged.model_construct(
            time=NOON, round=i, decision="unresolved", level="0.1", release="f" * 64
        )
        for i in range(400)
    ]
    report = build_report(replace(family(), ledger=entries(*steps)))
    ledger = table(report, "Ledger")
    assert len(ledger.rows) == 20
    assert "380 draws and scores" in ledger.note


def test_json_has_everything_and_is_canonical() -> None:
    sources = family()
    report = build_report(sources)
    values = json.loads(to_json(report, sources))
    assert to_json(report, sources) == to_json(build_report(sources), sources)
    assert [one["sentence"] for one in values["verdicts"]] == [v.sentence for v in report.verdicts]
    assert len(values["tables"]) == len(report.tables)
    assert "rows" not in values  # report.csv has them
    # Decided by Holm: what is shown is what the decision says, and the bound is on record.
    assert report.verdicts[0].lower == 0.8 < values["certificate"]["verdicts"][0]["lower"]["value"]
    assert report_values(report, sources)["format"] == 1


def test_rows_are_those_of_the_evidence() -> None:
    sources = family()
    rows = list(csv.DictReader(io.StringIO(to_csv(sources).decode(), newline="")))
    assert [row["mechanism"] for row in rows[::80]] == ["good", "middling", "bad"]
    group = sources.groups["middling"]
    mine = [row for row in rows if row["mechanism"] == "middling"]
    pvalues, estimates = (
        [number for one in matrix for number in one]
        for matrix in (group.derived.pvalues, group.derived.estimates)
    )
    assert [float(row["pvalue"]) for row in mine] == [few_digits(p, up=True) for p in pvalues]
    np.testing.assert_allclose([float(row["pvalue"]) for row in mine], pvalues, rtol=1e-8)
    assert all(float(row["pvalue"]) >= p for row, p in zip(mine, pvalues, strict=True))
    assert [row["estimate"] for row in mine] == [repr(few_digits(e)) for e in estimates]
    assert max(len(row["estimate"]) for row in mine) <= 12
    assert {row["decision"] for row in mine} == {"unresolved"}
    favorable = int(sources.verdicts[1].lower.steps[0].value)
    assert 0 < favorable < 40
    scored = {row["release"] for row in mine if row["score"] == "1"}
    assert len(scored) == favorable
    worst_in = max(float(r["release_pvalue"]) for r in mine if r["score"] == "1")
    best_out = min(float(r["release_pvalue"]) for r in mine if r["score"] == "0")
    assert worst_in < best_out


def test_names_of_users_cannot_become_markup_or_formulas() -> None:
    requirement = pg.Requirement(name=HOSTILE, low=0, high=1, limit=0.3)
    found = pg.certify({HOSTILE: losses(0.28)[:, :, :1], "=cmd()": losses(0.2)[:, :, :1]},
                       [requirement], reliability_target=0.8, seed=1)  # fmt: skip
    sources = sources_of(found)
    report = build_report(sources)
    text = to_markdown(report)
    assert "<img" not in text.replace("\\<img", "")
    assert "\u202e" not in text
    cells = list(csv.reader(io.StringIO(to_csv(sources).decode(), newline="")))
    assert {row[0] for row in cells[1:]} == {HOSTILE, "'=cmd()"}


def test_very_long_and_right_to_left_names_are_kept_whole_in_the_values() -> None:
    name = "\u05d0" * 200
    found = pg.certify({name: losses(0.2), "b": losses(0.2)}, [FIRST, SECOND],
                       reliability_target=0.8, seed=1)  # fmt: skip
    sources = sources_of(found)
    values = json.loads(to_json(build_report(sources), sources))
    assert values["verdicts"][0]["name"] == name


def test_a_thousand_releases_and_six_requirements_take_less_than_two_seconds() -> None:
    requirements = [pg.Requirement(name=f"r{j}", low=0, high=1, limit=0.3) for j in range(6)]
    rng = np.random.default_rng(6)
    means = np.clip(rng.normal(0.262, 0.02, size=(1000, 1, 6)), 0.01, 0.99)
    values = rng.beta(4 * means, 4 * (1 - means), size=(1000, 200, 6))
    certificate = pg.certify(
        values, requirements, reliability_target=0.8, test="bentkus", seed=1, beta=None
    )
    sources = sources_of(certificate)
    spent = []
    for _ in range(3):  # a busy machine slows single runs; one quick run shows the work
        start = process_time()
        report = build_report(sources)
        sizes = [len(to_markdown(report)), len(to_csv(sources)), len(to_json(report, sources))]
        spent.append(process_time() - start)
    assert sum(sizes) < 4e6
    assert min(spent) < 2.0


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"mode": "named", "pooled_violations": True},
        {"mode": "hybrid"},
        {"mode": "hybrid", "pooled_violations": True},
        {"shares": {"good": "0.7", "middling": "0.2", "bad": "0.1"}},
    ],
    ids=str,
)
def test_the_budget_s_picture_has_the_parts_of_its_table(choices: dict[str, Any]) -> None:
    sources = family(alpha="0.05", beta="0.04", **choices)
    parts = budget_parts(sources)
    pictures = budget_pictures(sources)
    assert len(pictures) == 2
    for picture, budget in zip(pictures, ("validation", "violation"), strict=True):
        places = [picture.says.index(f"{name}: {symbol} ") for name, symbol, *_ in parts[budget]]
        assert places == sorted(places)  # in the order of the verdicts
        whole = {"validation": "0.05", "violation": "0.04"}[budget]
        assert picture.says.endswith(f"sum {whole} of {whole}.")
        assert "Holm" not in picture.title


def test_a_table_says_what_was_shown_of_each_requirement_and_never_against_a_verdict() -> None:
    values = {"good": losses(0.15), "hasty": losses(0.28)}
    sources = sources_of(
        pg.certify(values, [FIRST, SECOND], reliability_target=0.8, test="bentkus", seed=1)
    )
    page = build_report(sources)
    shown = {}
    for verdict in sources.verdicts:
        assert isinstance(verdict, MechanismVerdict)
        name, level = verdict.mechanism, verdict.lower.level
        one = table(page, f"Requirements: {name}")
        told = sources.told[name]
        assert told.level == level is not None
        met = np.array(sources.groups[name].derived.pvalues) <= level
        column = one.columns.index("shown below the limit")
        assert {row[0]: row[column] for row in one.rows} == {
            requirement: f"{met[:, j].sum()} of 40"
            for j, requirement in enumerate(("first", "second"))
        }
        column = one.columns.index("limit that all would meet")
        for row in one.rows:
            assert (float(row[column]) <= 0.3) is row[column - 1].startswith("40 of")
        assert f"at level {level:.3g}, by which releases are told apart" in one.note
        shown[name] = met.all()
    assert len(set(shown.values())) == 2


def test_where_no_test_is_turned_around_no_limit_is_shown_and_it_says_why() -> None:
    betting = pg.certify(losses(0.2), [FIRST, SECOND], reliability_target=0.8, seed=1)
    smooth = pg.certify(
        losses(0.2), [replace(r, slack=0.02, ramp=0.05) for r in (FIRST, SECOND)],
        reliability_target=0.8, seed=1, mode="smooth",
    )  # fmt: skip
    for certificate, shown, why in (
        (betting, True, "a bet is made against the registered limit alone"),
        (smooth, False, "The claim tells no single release apart"),
    ):
        sources = sources_of(certificate)
        one = table(build_report(sources), "Requirements: mechanism")
        assert ("shown below the limit" in one.columns) is shown
        assert "limit that all would meet" not in one.columns
        assert why in one.note
        rows = list(csv.DictReader(io.StringIO(to_csv(sources).decode(), newline="")))
        assert {row["lower"] + row["upper"] for row in rows} == {""}


def test_nothing_stands_under_no_heading() -> None:
    sealed, memory = synthetic_sources(R=3), family()
    for sources, there in ((sealed, True), (memory, False)):
        report = build_report(sources)
        assert ("What the claim is about" in to_html(report, sources)) is there
        assert ("## What this is about" in to_markdown(report)) is there


def test_both_ends_of_an_interval_say_how_sure_they_are_together() -> None:
    good = losses(0.15, releases=200)
    half = np.concatenate([losses(0.6, releases=100), good[100:]])  # every second one is valid
    found = pg.certify(
        {"half": half, "good": good}, [FIRST, SECOND], seed=1, reliability_target=0.8,
        family="bounds", alpha="0.05", beta="0.05",
    )  # fmt: skip
    sources = sources_of(found)
    report = build_report(sources)
    shown = {verdict.name: verdict.together for verdict in report.verdicts}
    telling = ["half"]  # the other one has no upper bound below 1
    words = "Each end holds with 95 %, both together with 90 % confidence."
    assert [name for name, said in shown.items() if said == words] == telling
    assert "both together with 90" in to_html(report, sources)
    decided = build_report(family(family="decisions"))
    assert all(verdict.together == "" for verdict in decided.verdicts)  # nothing is certified


def without_guarantee(sources: Sources, words: str) -> Sources:
    return replace(sources, status=sources.status.model_copy(update={"guarantee": words}))


def test_a_lost_guarantee_stands_on_every_card() -> None:
    sources = without_guarantee(family(), "no: the target was seen before")
    report = build_report(sources)
    said = "No guarantee remains: the target was seen before."
    assert all(verdict.warning == said for verdict in report.verdicts)
    page = unmarked(to_html(report, sources))
    shown = said.replace("No guarantee remains", "<strong>No guarantee remains</strong>")
    assert page.count(shown) == 1
    assert page.index(shown) < page.index("<h3>good</h3>")
    # In bold stands what tells lines apart, and no line as a whole.
    assert not re.search(r"<(p|li|dd)[^>]*>\s*<strong>[^<]*[ ][^<]*</strong>\s*</\1>", page)
    assert "<dd><strong>no</strong>: the target was seen before</dd>" in page
    markdown = to_markdown(report)
    assert "**No guarantee remains**: the target was seen before." in markdown
    assert not [
        line for line in markdown.splitlines() if re.fullmatch(r"\*\*[^*]* [^*]*\*\*", line)
    ]
    # Neither green nor the words of a finding by themselves.
    assert 'class="pg-verdict pg-is-validated"' not in page
    assert page.count("No guarantee remains. With one this would read: ") == 3
    assert page.count("With 95\u00a0% confidence") == page.count("would read: With 95\u00a0% conf")
    assert page.count('<span class="pg-lost">no guarantee remains</span></p>') == 3
    assert to_markdown(report).count("No guarantee remains") == 6
    for fine in ("yes", "not known, but nothing speaks against it"):
        assert build_report(without_guarantee(family(), fine)).verdicts[0].warning == ""


def test_a_deviation_recorded_later_costs_the_guarantee_on_the_cards() -> None:
    ledger = entries(Certified(time=NOON, files={}), Deviated(time=NOON, reason="late"))
    report = build_report(replace(family(), ledger=ledger))
    assert report.verdicts[0].warning == "No guarantee remains: deviation recorded later: late."


@pytest.mark.parametrize(
    ("lower", "upper", "decision", "words"),
    [
        (0.8, 1.0, "validated", "more than 80 %"),
        (0.85, 1.0, "validated", "at least 85.0 %"),
        (0.8, 1.0, "unresolved", "at least 80.0 %"),
        (0.0, 0.8, "violation", "less than 80 %"),
        (0.0, 0.7, "violation", "at most 70.0 %"),
        (0.9, 0.2, "unresolved", "contradictory: at least 90.0 %, at most 20.0 %"),
    ],
)
def test_an_end_on_the_target_says_what_was_decided(
    lower: float, upper: float, decision: str, words: str
) -> None:
    assert range_words(lower, upper, decision=decision, target=0.8) == words


def test_no_control_that_turns_writing_reaches_the_page() -> None:
    name = "a \u202e\u2066b"
    requirement = pg.Requirement(name=name, low=0, high=1, limit=0.3)
    found = pg.certify({name: losses(0.28)[:, :, :1], "b": losses(0.2)[:, :, :1]}, [requirement],
                       reliability_target=0.8, seed=1)  # fmt: skip
    sources = sources_of(found)
    page = to_html(build_report(sources), sources)
    assert not {"\u202e", "\u2066"} & set(page)
    assert "a \\u202e\\u2066b" in page


def test_every_look_says_which_count_validates() -> None:
    scored = [Favored.model_construct(time=NOON, favorable=True) for _ in range(20)]
    claim = ClaimPart(
        mode="sequential", looks=(20, 40), reliability_target="0.8", threshold="0.005"
    )
    registry = registry_of([FIRST, SECOND], claim=claim)
    rows = table(build_report(replace(family(), ledger=entries(*scored), registry=registry)),
                 "The sequential path").rows  # fmt: skip
    # The audit of these looks validates at the first one that its boundary names.
    audit = pg.SequentialAudit(
        pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.005)
    )
    audit.add(np.ones(20, dtype=bool))
    assert audit.decision is pg.Decision.VALIDATED
    assert rows[0][:2] == ("look at 20 draws", "20")
    assert int(rows[0][2]) <= 20 < int(rows[1][2]) <= 40
    assert rows[1][1] == "not reached"


def test_the_candidates_of_a_stream_have_pictures() -> None:
    sources = family()
    one = sources.groups["good"]
    first = {name: rows[:1] for name, rows in dict(one.derived).items()}
    record = one.model_copy(
        update={"releases": ("candidate 1",), "derived": one.derived.model_copy(update=first)}
    )
    evidence = SequentialEvidence.model_construct(
        groups={}, scores=(ScoreRecord.model_construct(statistics=record),)
    )
    verdict = RoundVerdict(
        mechanism="candidate 1", round=1, decision="validated", level="0.05",
        rests_on="Proposition 19", sentence="s",
    )  # fmt: skip
    told = {"candidate 1": sources.told["good"]}
    stream = replace(sources, groups=evidence.by_group, told=told, verdicts=(verdict,))
    report = build_report(stream)
    assert stream.group_names == ["candidate 1"]
    assert len(pictures_of(report, stream)["candidate 1"]) >= 2  # one a requirement
    assert "candidate 1" in to_html(report, stream)


def test_steps_are_timed_from_one_entry_to_the_next() -> None:
    stages = [(Sealed, 0), (Registered, 2), (Frozen, 62), (Opened, 63), (Certified, 70)]
    bodies = [
        kind.model_construct(time=f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z")
        for kind, at in stages
    ]
    table = times_table(entries(*bodies))
    assert [row[1] for row in table.rows] == ["2 s", "60 s", "1 s", "7 s"]
    again = entries(*bodies[:3], Frozen.model_construct(time="2026-01-01T00:01:32Z"))
    assert dict(times_table(again).rows)[table.rows[1][0]] == "90 s"


def test_the_page_of_a_certificate_in_memory_invents_no_record() -> None:
    sources = family()
    assert (sources.predicate, sources.registry, sources.manifest) == (None, None, None)
    assert (list(sources.ledger), sources.signer, sources.head) == ([], "", "")
    report = build_report(sources)
    assert {one.section for one in report.tables} == {"evidence"}
    assert report.verify.startswith("nothing to verify: no folder was sealed")
    assert report.about == report.notes == ()
