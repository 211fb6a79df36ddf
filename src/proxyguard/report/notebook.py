"""Certificates, plans and tables as pages and notebook cells, from the parts of the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from proxyguard.certificate import wording
from proxyguard.certificate.certify_releases import ReleaseCertificate
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.certificate.sequential import SequentialAudit
from proxyguard.certificate.stream import CandidateStream
from proxyguard.documents.certificate import SequentialVerdict
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.report import PlanReport
from proxyguard.report.content import Report, build_report, build_verdict
from proxyguard.report.html import fragment, to_html
from proxyguard.report.parts import Table, Verdict
from proxyguard.report.plans import plan_tables
from proxyguard.report.sources import sources_of

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
