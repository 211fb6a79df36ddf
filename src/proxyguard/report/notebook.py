"""Certificates, plans and tables as pages and notebook cells, from the parts of the report.

A plan as tables: what to register, what else was considered, what it takes at the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.certificate.releases import ReleaseCertificate
from proxyguard.certificate.sequential import CandidateStream, SequentialAudit
from proxyguard.documents.certificate import SequentialVerdict
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import Option, Power
from proxyguard.report.content import Report, build_report, build_verdict
from proxyguard.report.html import fragment, to_html
from proxyguard.report.sources import Table, Verdict, sources_of


def plan_tables(plan: PlanReport) -> tuple[Table, ...]:
    """Return the tables of a plan; those without rows are left out."""
    tables = (
        _chosen(plan),
        _options(
            "Every way at these sizes", plan.found.alternatives,
            "Tuned on other targets than these powers are from.",
        ),
        _options(
            "Sizes that were tried", plan.found.sizes,
            "Powers of the search, on few simulated targets.",
        ),
        _stress(plan),
        _needs(plan),
    )  # fmt: skip
    return tuple(table for table in tables if table.rows)


def _chosen(plan: PlanReport) -> Table:
    found = plan.found
    option = found.chosen
    rows = [
        ("law", f"{found.law.origin}; {found.law.reliability:.1%} of releases valid"),
        ("target records", f"{option.plan.n:,}"),
        ("draws", f"{option.plan.releases:,}"),
        ("way", f"{option.way.label}; tests: {option.way.tests}"),
        ("reliability above", f"{option.plan.claim.target:g}"),
        ("chance of validation", power_words(option.power)),
        ("cost", f"{option.cost:,.10g}"),
    ]
    if not found.reaches:
        rows.append(("falls short of", f"{found.question.power:g}"))
    if plan.hopeless:
        rows += [("cannot succeed", why) for why in found.needs.obstacles]
    if plan.sequential is not None:
        rows.append(
            ("one look after the other", f"{plan.sequential.expected_draws:.1f} draws on average, "
             f"validation with probability {plan.sequential.validation:.3f}")
        )  # fmt: skip
    return Table(
        title="Plan", columns=("what", "value"), rows=tuple(rows), section="plan",
        note="A prediction about the law that is written here, and about nothing else.",
    )  # fmt: skip


def power_words(power: Power) -> str:
    """Return a power with its Monte Carlo error."""
    if power.exact:
        return f"{power.value:.3f} (exact)"
    return f"{power.value:.3f} (Monte Carlo error {power.standard_error:.3f})"


def _options(title: str, options: Sequence[Option], note: str) -> Table:
    rows = tuple(
        (one.way.label, one.way.tests, f"{one.plan.n:,}", f"{one.plan.releases:,}",
         f"{one.cost:,.10g}", power_words(one.power))
        for one in options
    )  # fmt: skip
    columns = ("way", "tests", "records", "draws", "cost", "chance of validation")
    return Table(title=title, columns=columns, rows=rows, note=note, section="plan")


def _stress(plan: PlanReport) -> Table:
    rows = tuple(
        (f"{one.reliability:.3f}", f"x {one.margin_factor:g}", f"{one.power:.3f}",
         f"{one.regret:.3f}")
        for one in plan.stress
    )  # fmt: skip
    return Table(
        title="If the pilot was wrong",
        columns=("reliability", "margins", "chance of validation", "regret"),
        rows=rows,
        section="plan",
    )


def _needs(plan: PlanReport) -> Table:
    needs = plan.found.needs
    rows = tuple(
        (words, f"{value:.4g}")
        for words, value in (
            ("favorable scores or recognized releases", needs.least_count),
            ("draws, if all of them score", needs.least_releases),
            ("records, if no loss is ever made", needs.least_records),
            ("threshold, at most", needs.largest_threshold),
        )
        if value is not None
    )
    return Table(
        title="Necessary, whatever the releases score", columns=("what", "least"), rows=rows,
        section="plan",
    )  # fmt: skip


SHOWN = ("evidence", "not certified")
"""Sections of a report that stand in a notebook cell."""


def fragment_of(value: object) -> str:
    """Return a certificate or plan for a notebook: verdicts, then tables."""
    verdicts, tables = parts_of(value)
    return fragment(verdicts, tables)


def page_of(value: object) -> str:
    """Return a certificate as a whole page."""
    sources = sources_of(value)
    return to_html(build_report(sources), sources)


def tables_html(tables: Sequence[Table]) -> str:
    """Return tables for a notebook."""
    return fragment((), tables)


def report_fragment(report: Report) -> str:
    """Return the verdicts of a report and the tables behind them, for a notebook."""
    return fragment(*report_parts(report))


def report_parts(report: Report) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    """Return the verdicts of a report, and those of its tables that stand in a notebook."""
    tables = [table for table in report.tables if table.section in SHOWN]
    return report.verdicts, (*tables, _listed("Not claimed", report.not_claimed))


@singledispatch
def parts_of(value: object) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    """Return the verdicts and tables that a value is shown by."""
    raise TypeError(f"{type(value).__name__} has no page")


@parts_of.register(Certificate)
@parts_of.register(FamilyCertificate)
@parts_of.register(ReleaseCertificate)
def _(value: Any) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    return report_parts(build_report(sources_of(value)))


@parts_of.register
def _(value: SequentialAudit) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    plan = value.plan
    rows = (
        ("draws", f"{value.draws} of at most {plan.looks[-1]}"),
        ("favorable scores", str(value.favorable)),
        ("looks", ", ".join(map(str, plan.looks))),
        ("rests on", value.rests_on),
        ("basis", wording.ASSERTED),
    )
    recorded = {**value.to_dict(), "mechanism": "mechanism"}
    verdict = build_verdict(SequentialVerdict.model_validate(recorded, strict=False))
    return (verdict,), (Table(title="The audit so far", columns=("what", "value"), rows=rows),)


@parts_of.register
def _(value: CandidateStream) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    rows = tuple(
        (str(one.number), one.decision.value, f"{one.pvalue:.3g}", f"{one.level:.3g}")
        for one in value.rounds
    )
    columns = ("round", "decision", "p-value", "level")
    return (), (
        Table(title="Rounds", columns=columns, rows=rows, note=str(value).partition("\n")[0]),
    )


@parts_of.register
def _(value: PlanReport) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    return (), plan_tables(value)


@parts_of.register
def _(value: Recommendation) -> tuple[tuple[Verdict, ...], tuple[Table, ...]]:
    return (), plan_tables(PlanReport(found=value))


def _listed(title: str, lines: Sequence[str]) -> Table:
    return Table(title=title, columns=("what",), rows=tuple((line,) for line in lines))
