"""A plan as tables: what to register, what else was considered, what it takes at the least."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.plan.power import Power
from proxyguard.plan.report import PlanReport
from proxyguard.plan.search import Option
from proxyguard.report.parts import Table


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
