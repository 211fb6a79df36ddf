"""Certificates, audits that go on, and plans as notebook cells and pages.

Whatever is shown is verdicts and tables of the report: of a certificate those that its page has,
of a plan what to register, what else was considered, and what it takes at the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.certificate.releases import ReleaseCertificate
from proxyguard.certificate.sequential import CandidateStream, SequentialAudit
from proxyguard.documents.certificate import Report, ReportTable, ReportVerdict, SequentialVerdict
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import Option
from proxyguard.report.content import build_report, build_verdict
from proxyguard.report.html import fragment, to_html
from proxyguard.report.plan_page import plan_page
from proxyguard.report.sources import sources_of, table

# Sections of a report that stand in a notebook cell.
CELL_SECTIONS = ("evidence", "not certified")

# What a cell is made of: verdicts, then tables.
CellParts = tuple[Sequence[ReportVerdict], Sequence[ReportTable]]


def fragment_of(shown: object) -> str:
    """Return a certificate or plan for a notebook: verdicts, then tables.

    Parameters
    ----------
    shown
        A certificate, an audit that goes on, or a plan.

    Raises
    ------
    TypeError
        Where it is none of these.
    """
    return fragment(*parts_of(shown))


def page_of(shown: object) -> str:
    """Return a certificate in memory, or a plan, as a whole page; `sources_of` says of which kinds.

    Parameters
    ----------
    shown
        What `pg.certify`, `pg.certify_releases` or `pg.recommend` gave.

    Raises
    ------
    TypeError
        Where it is none of these.
    """
    if isinstance(shown, PlanReport):
        shown = shown.found
    if isinstance(shown, Recommendation):
        return plan_page(shown)
    sources = sources_of(shown)
    return to_html(build_report(sources), sources)


def report_fragment(report: Report) -> str:
    """Return the verdicts of a report and the tables behind them, for a notebook.

    Parameters
    ----------
    report
        What `build_report` gave.
    """
    return fragment(*_of_report(report))


def _of_report(report: Report) -> CellParts:
    """Return the verdicts of a report, and those of its tables that stand in a cell."""
    tables = [shown for shown in report.tables if shown.section in CELL_SECTIONS]
    listed = table("Not claimed", ("what",), [(line,) for line in report.not_claimed])
    return report.verdicts, [*tables, listed]


@singledispatch
def parts_of(shown: object) -> CellParts:
    """Return the verdicts and tables that something is shown by."""
    raise TypeError(f"{type(shown).__name__} has no page")


@parts_of.register(Certificate)
@parts_of.register(FamilyCertificate)
@parts_of.register(ReleaseCertificate)
def _(certificate: Certificate | FamilyCertificate | ReleaseCertificate) -> CellParts:
    return _of_report(build_report(sources_of(certificate)))


@parts_of.register
def _(audit: SequentialAudit) -> CellParts:
    rows = [
        ("draws", f"{audit.draws} of at most {audit.plan.looks[-1]}"),
        ("favorable scores", str(audit.favorable)),
        ("looks", ", ".join(map(str, audit.plan.looks))),
        ("rests on", audit.rests_on),
        ("basis", wording.ASSERTED),
    ]
    # An audit in memory has no name for its mechanism.
    recorded = {**audit.to_dict(), "mechanism": "mechanism"}
    verdict = build_verdict(SequentialVerdict.model_validate(recorded, strict=False))
    return [verdict], [table("The audit so far", ("what", "value"), rows)]


@parts_of.register
def _(stream: CandidateStream) -> CellParts:
    rows = [
        (str(judged.number), judged.decision.value, f"{judged.pvalue:.3g}", f"{judged.level:.3g}")
        for judged in stream.rounds
    ]
    note = str(stream).partition("\n")[0]
    return [], [table("Rounds", ("round", "decision", "p-value", "level"), rows, note)]


@parts_of.register
def _(plan: PlanReport) -> CellParts:
    return [], plan_tables(plan)


@parts_of.register
def _(recommendation: Recommendation) -> CellParts:
    return [], plan_tables(PlanReport(found=recommendation))


def plan_tables(plan: PlanReport) -> list[ReportTable]:
    """Return the tables of a plan; a cell leaves out those without rows.

    Parameters
    ----------
    plan
        What `proxyguard plan` found, with its stress test if there is one.
    """
    stress = [
        (f"{tried.reliability:.3f}", f"x {tried.margin_factor:g}", f"{tried.power:.3f}",
         "exact" if tried.standard_error == 0.0 else f"+-{tried.standard_error:.3f}",
         f"{tried.regret:.3f}")
        for tried in plan.stress
    ]  # fmt: skip
    needs = plan.found.needs
    least = (
        ("favorable scores or recognized releases", needs.least_count),
        ("draws, if all of them score", needs.least_releases),
        ("records, if no loss is ever made", needs.least_records),
        ("threshold, at most", needs.largest_threshold),
    )
    return [
        _chosen(plan),
        _options("Every way at these sizes", plan.found.alternatives,
                 "Tuned on other targets than these powers are from."),
        _options("Sizes that were tried", plan.found.sizes,
                 "Powers of the search, on few simulated targets."),
        table("If the pilot was wrong",
              ("reliability", "margins", "chance of validation", "error", "regret"), stress),
        table("Necessary, whatever the releases score", ("what", "least"),
              [(words, f"{number:.4g}") for words, number in least if number is not None]),
    ]  # fmt: skip


def _chosen(plan: PlanReport) -> ReportTable:
    """Return the plan itself: the law it is about, its sizes, its way, and what it reaches."""
    found = plan.found
    option = found.chosen
    rows = [
        ("law", f"{found.law.origin}; {found.law.reliability:.1%} of releases valid"),
        (f"target {found.question.unit}", f"{option.plan.n:,}"),
        ("draws", f"{option.plan.releases:,}"),
        ("way", f"{option.way.label}; tests: {option.way.tests}"),
        ("reliability above", f"{option.plan.claim.target:g}"),
        ("chance of validation", f"{found.most}{option.power.words}"),
        ("cost", f"{option.cost:,.10g}"),
        *(("requirements", line) for line in found.scope),
    ]
    if found.shortfall:
        rows.append(("falls short", found.shortfall))
    if plan.hopeless:
        rows += [("cannot succeed", why) for why in found.needs.obstacles]
    if plan.sequential is not None:
        draws = f"{plan.sequential.expected_draws:.1f} draws on average"
        chance = f"validation with probability {plan.sequential.validation:.3f}"
        rows.append(("one look after the other", f"{draws}, {chance}"))
    note = "A prediction about the law that is written here, and about nothing else."
    return table("Plan", ("what", "value"), rows, note)


def _options(title: str, options: Sequence[Option], note: str) -> ReportTable:
    """Return ways or sizes beside each other, each with its chance of validation."""
    rows = [
        (option.way.label, option.way.tests, f"{option.plan.n:,}", f"{option.plan.releases:,}",
         f"{option.cost:,.10g}", option.power.words)
        for option in options
    ]  # fmt: skip
    return table(
        title, ("way", "tests", "records", "draws", "cost", "chance of validation"), rows, note
    )
