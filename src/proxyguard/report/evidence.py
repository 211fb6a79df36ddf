"""The evidence as tables: requirements, which of them binds, scores, bounds, budgets, picks.

All of it is read from the recorded statistics and verdicts; nothing is decided here. Bounds of
single releases are for reading, and every table that has them says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import fsum, inf, isfinite
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyguard.certificate.picks import read_picks
from proxyguard.documents.certificate import (
    BudgetShare,
    Failure,
    MechanismVerdict,
    ReportBinding,
    ReportTable,
    ReportVerdict,
    SecondaryBounds,
    SecondaryDecision,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.report.picture import decimals
from proxyguard.report.sources import (
    QueryAnswers,
    ReleaseAnswer,
    Sources,
    amount,
    answers_of,
    by_declared,
    cut,
    rounding_digits,
    table,
)

# Requirements that a table on a page has room for.
MOST_ROWS = 100
# Decimals that a reader tells from each other.
MOST_DECIMALS = 9
# Rules of limits that say nothing: a table in which all are such has no column for them.
PLAIN_RULES = ("as declared", "as given", "")


def binding_of(name: str, group: GroupEvidence, failed: set[str]) -> ReportBinding | None:
    """Return which requirement binds: the largest p-value, then the least one of a violation.

    A failed draw has the worst loss everywhere, which says nothing about requirements.

    Parameters
    ----------
    name
        The mechanism, or the group of named releases.
    group
        Its evidence.
    failed
        The names of the draws that gave no release.

    Returns
    -------
    ReportBinding or None
        How many releases each requirement binds; None where every draw failed.
    """
    kept = [r for r, release in enumerate(group.releases) if release not in failed]
    if not kept:
        return None
    derived = group.derived
    pvalues, violations = (
        _array([rows[r] for r in kept]) for rows in (derived.pvalues, derived.violation_pvalues)
    )
    largest = pvalues == pvalues.max(axis=1, keepdims=True)
    bound = np.argmin(np.where(largest, violations, np.inf), axis=1)
    counts = np.bincount(bound, minlength=len(group.requirements))
    return ReportBinding(
        mechanism=name,
        requirement=group.requirements[int(np.argmax(counts))],
        counts=tuple(zip(group.requirements, counts.tolist(), strict=True)),
        releases=len(kept),
    )


def _array(numbers: Sequence[object]) -> NDArray[np.float64]:
    """Return recorded numbers, texts among them, as floats."""
    return np.array(numbers, dtype=np.float64)


def failed_releases(name: str, failures: Sequence[Failure]) -> set[str]:
    """Return the names of the draws that failed; they are those of their seeds.

    Parameters
    ----------
    name
        The mechanism.
    failures
        Its draws that gave no release.

    Notes
    -----
    Of several members a release is called ``mechanism/seed``, of one by its seed alone; either
    name is in the set.
    """
    seeds = [failure.seed for failure in failures]
    return {str(seed) for seed in seeds} | {f"{name}/{seed}" for seed in seeds}


def bindings_of(sources: Sources) -> tuple[ReportBinding, ...]:
    """Return which requirement binds, for every mechanism in the order of the verdicts."""
    bindings = (
        binding_of(name, sources.groups[name], failed_releases(name, sources.failed.get(name, ())))
        for name in sources.group_names
    )
    return tuple(binding for binding in bindings if binding is not None)


def nearest_limits(group: GroupEvidence, most: int) -> list[int]:
    """Return the places of the requirements with the least room below their limits, in order.

    Parameters
    ----------
    group
        The evidence.
    most
        How many requirements there is room for.
    """
    return sorted(by_room(group)[:most])


def by_room(group: GroupEvidence) -> list[int]:
    """Return the places of all requirements, those with the least room below their limits first."""
    pvalues, violations = _array(group.derived.pvalues), _array(group.derived.violation_pvalues)
    # The least certain release first; where that is one that failed in everything, all others.
    order = np.lexsort((violations.min(axis=0), -pvalues.mean(axis=0), -pvalues.max(axis=0)))
    return [int(j) for j in order]


def left_out(group: GroupEvidence, shown: int) -> str:
    """Return that not all requirements are shown and where they are, nothing if all are."""
    total = len(group.requirements)
    if shown == total:
        return ""
    return (
        f" Shown are the {shown:,} of {total:,} requirements with the least room below their "
        "limits; report.csv has all."
    )


def requirement_table(sources: Sources, name: str) -> ReportTable:
    """Return the estimates of every requirement of one group, and what its tests said of them.

    Of many requirements those nearest to their limits are shown, and the note says so.
    """
    group, rules, units = sources.groups[name], sources.rules(name), sources.units(name)
    estimates, places = _array(group.derived.estimates), nearest_limits(group, MOST_ROWS)
    shown, upper = _shown(sources, name), sources.told[name].upper
    exact = rounding_digits(sources) is None  # rounded figures are counted against no limit
    limited = bool(np.isfinite(upper[:, places]).any())
    ruled = any(by_declared(rules, group.requirements[j]) not in PLAIN_RULES for j in places)
    rows = []
    for j in places:
        requirement, estimate = group.requirements[j], estimates[:, j]
        limit, most = float(group.limits[j]), upper[:, j].max()
        met = [estimate < limit] if exact else []
        met += [] if shown is None else [shown[:, j]]
        rows.append((
            requirement, f"{limit:g}{units[j]}",
            *([by_declared(rules, requirement)] if ruled else []),
            f"{group.columns[j].n:,}" if group.columns else "",  # collective: one batch each
            _near(estimate.min(), limit, up=False),
            _near(fsum(estimate) / len(estimate), limit),
            _near(estimate.max(), limit),
            *(f"{np.count_nonzero(which):,} of {len(which):,}" for which in met),
            *([_near(most, limit) if isfinite(most) else ""] if limited else []), group.tests[j],
        ))  # fmt: skip
    return table(
        f"Requirements: {name}",
        ("requirement", "limit", *(["limit's rule"] if ruled else []), sources.counted(name),
         "least estimate", "mean", "largest",
         *(["estimates below the limit"] if exact else []),
         *([] if shown is None else ["shown below the limit"]),
         *(["limit that all would meet"] if limited else []), "test"),
        rows,
        f"Estimates over the releases.{shown_words(sources, name)}"
        + rounded_words(sources) + left_out(group, len(places)),
    )  # fmt: skip


def answer_table(sources: Sources, name: str) -> ReportTable:
    """Return what releases and target answer to every query, the difference, and its limit.

    Named releases have a row each, draws of a mechanism one row together. Of many rows those are
    shown whose answers are the furthest apart.
    """
    releases = sources.groups[name].releases
    rows: list[tuple[float, tuple[str, ...]]] = []
    for asked in answers_of(sources, name):
        each = [(release, (a,)) for release, a in zip(releases, asked.answers, strict=True)]
        for called, some in each if sources.family else [(f"{len(releases):,}", asked.answers)]:
            apart = max((abs(a.apart) for a in some if a.apart is not None), default=inf)
            rows.append((-apart / asked.limit, _answer_row(asked, called, some)))
    shown = sorted(sorted(range(len(rows)), key=lambda k: rows[k][0])[:MOST_ROWS])
    more = len(rows) - len(shown)
    return table(
        f"Answers: {name}",
        ("query", "release" if sources.family else "releases", "release's answer",
         "target's answer", "difference", "limit"),
        [rows[k][1] for k in shown],
        "A difference is the target's answer less the release's; it is an estimate and decides "
        "nothing." + rounded_words(sources)
        + (f" {more:,} more rows, with smaller differences, are in report.csv." if more else ""),
    )  # fmt: skip


def _answer_row(asked: QueryAnswers, called: str, some: Sequence[ReleaseAnswer]) -> tuple[str, ...]:
    scale, unit, apart = (100.0, " %", " points") if asked.share else (1.0, *2 * (asked.unit,))
    limit = scale * asked.limit
    digits = decimals(limit) - 1
    released = sorted(a.release for a in some if a.release is not None)
    differences = sorted(a.apart for a in some if a.apart is not None)
    silent = len(some) - len(released)
    lacking = "no answer" if silent == len(some) else f"{silent} without one" if silent else ""
    said = _span([f"{scale * answer:z.{digits}f}" for answer in released], unit)
    return (
        asked.query, called, ", ".join(filter(None, (said, lacking))),
        "" if asked.target is None else f"{scale * asked.target:z.{digits}f}{unit}",
        _span([_difference(scale * d, limit, digits) for d in differences], apart),
        f"{limit:.10g}{apart}",
    )  # fmt: skip


def _difference(apart: float, limit: float, digits: int) -> str:
    """Return a difference with as many digits as leave it on its side of the limit."""
    while (round(abs(apart), digits) < limit) != (abs(apart) < limit):
        digits += 1
    return f"{apart:+z.{digits}f}"


def _span(written: Sequence[str], unit: str) -> str:
    """Return the first and the last of some numbers, or the one that both are."""
    if not written:
        return ""
    ends = dict.fromkeys((written[0], written[-1]))
    return f"{' to '.join(ends)}{unit}"


def _near(number: float, limit: float, *, up: bool = True) -> str:
    """Return a number as `cut` does; one that only a double tells from its limit is said to be."""
    shown = cut(number, up=up, than=limit)
    if len(shown.partition(".")[2]) <= MOST_DECIMALS:
        return shown
    return f"just {'below' if number < limit else 'above'} {limit:g}"


def _shown(sources: Sources, name: str) -> NDArray[np.bool_] | None:
    """Return which requirements each release was shown to meet, (R, J); None where none is."""
    level = sources.told[name].level
    return None if level is None else _array(sources.groups[name].derived.pvalues) <= level


def shown_words(sources: Sources, name: str) -> str:
    """Return by what single releases were shown to meet a requirement, and what has no limits."""
    level, upper = sources.told[name].level, sources.told[name].upper
    if level is None:
        return " The claim tells no single release apart, so that nothing is shown of one."
    words = f" Shown below is what the test shows at level {level:.3g}, by which releases are told"
    words += " apart."
    if np.isfinite(upper).any():
        words += (
            " The limit that all would meet is the least for which the same tests would show all of"
            " them below."
        )
    if np.isnan(upper).any():
        words += (
            " Some tests have no such limit: a bet is made against the registered limit alone, an"
            " exposure is measured at thresholds of its own, and no record's loss is kept to try"
            " another."
        )
    return words


def rounded_words(sources: Sources) -> str:
    """Return that statistics are rounded, where a disclosure was registered."""
    digits = rounding_digits(sources)
    if digits is None:
        return ""
    return (
        f" Figures are in steps of {10.0**-digits:g} of a loss's range, so that one at or above a "
        "limit may be below it: none is counted or crossed out by it. "
        f"Every statistic is rounded to {digits} digits, against the claim."
    )


def binding_table(bindings: Sequence[ReportBinding]) -> ReportTable:
    """Return which requirement binds how many releases of each mechanism.

    Of a workload with more requirements than a table has room for, those that bind nothing are
    left out.
    """
    rows = [
        (binding.mechanism, requirement, str(count), f"{100 * count / binding.releases:.0f} %")
        for binding in bindings
        for requirement, count in binding.counts
        if count or len(binding.counts) <= MOST_ROWS
    ]
    return table(
        "Which requirement binds", ("mechanism", "requirement", "releases", "share"), rows,
        "A release is bound by the requirement with its largest p-value; among equal ones "
        "by the one with the least p-value of a violation. Failed draws are left out.",
    )  # fmt: skip


def step_table(verdicts: Sequence[ReportVerdict]) -> ReportTable:
    """Return how every bound is built; the changes of one bound add up to it."""
    rows = [
        (verdict.name, built.side, step.label, f"{step.change:+.6f}", f"{step.after:.6f}")
        for verdict in verdicts
        for built in verdict.waterfalls
        for step in built.steps
    ]
    return table(
        "How the bounds are built", ("mechanism", "bound", "step", "change", "leaves"), rows,
        "Shares of releases. The first line is what was counted, the last one leaves the "
        "bound; in between stands the bound that there would be without contamination.",
    )  # fmt: skip


class Spent(NamedTuple):
    """A part of an error budget: who spends it, its symbol, what it pays for, how much."""

    mechanism: str
    symbol: str
    event: str
    share: Fraction


def budget_table(sources: Sources) -> ReportTable:
    """Return what the error budgets pay for, with the sum of each."""
    rows: list[tuple[str, ...]] = []
    for budget, spent in budget_parts(sources).items():
        rows += [(budget, s.mechanism, s.symbol, s.event, amount(s.share)) for s in spent]
        if spent:
            total = sum((s.share for s in spent), Fraction(0))
            rows.append((budget, "sum", "", "any of these errors", amount(total)))
    return table(
        "Error budget", ("budget", "mechanism", "part", "pays for", "amount"), rows,
        "Each budget is spent separately; what is said with two of them together holds "
        "outside the sum of both.",
    )  # fmt: skip


def budget_parts(sources: Sources) -> dict[str, list[Spent]]:
    """Return the parts of every budget, in the order of the verdicts.

    Returns
    -------
    dict of str to list of Spent
        By budget: validation, violation and picks. A budget that nothing spends has no parts.
    """
    picks = {} if sources.picks is None else sources.picks.mechanisms
    return {
        "validation": _bound_parts(sources, "alpha"),
        "violation": _bound_parts(sources, "beta"),
        "picks": [
            Spent(name, "alpha", "too many of some choice of releases called valid",
                  Fraction(*(int(number) for number in picks[name].alpha)))
            for name in sources.in_order(picks)
        ],
    }  # fmt: skip


def _bound_parts(sources: Sources, symbol: Literal["alpha", "beta"]) -> list[Spent]:
    """Return the parts of one direction; what a family spends together stands there once."""
    if sources.family is not None:  # named releases: one Holm family spends all of it
        whole = sources.family.alpha if symbol == "alpha" else sources.family.beta
        event = "Holm over all registered releases"
        return [] if whole is None else [Spent("all releases", symbol, event, Fraction(whole))]
    pooled = symbol == "beta" and sources.levels.pooled
    spent: list[Spent] = []
    for verdict in sources.verdicts:
        for share in _spent_by(verdict, symbol):
            once = pooled and share.symbol == "beta_R"
            name = "all mechanisms" if once else verdict.mechanism
            row = Spent(name, share.symbol, share.event, Fraction(share.amount))
            # Every verdict of a pooled family carries the same share, which is spent once.
            if not once or row not in spent:
                spent.append(row)
    return spent


def _spent_by(verdict: VerdictRecord, symbol: Literal["alpha", "beta"]) -> tuple[BudgetShare, ...]:
    """Return what one verdict spends of the budget for validation, or of that for violation."""
    if isinstance(verdict, SequentialVerdict):
        return verdict.budget if symbol == "alpha" else ()
    if not isinstance(verdict, MechanismVerdict):
        return ()
    bound = verdict.lower if symbol == "alpha" else verdict.upper
    return () if bound is None else bound.budget


def picks_table(sources: Sources) -> ReportTable:
    """Return what the budget for choosing releases says of all, and of the best ones.

    The best ones are those with a positive e-value; any other choice can be made on the page.
    """
    picks, rows, note = sources.picks, [], ""
    if picks is not None:
        note = f"{picks.sentence} [{picks.rests_on}]"
        counts = read_picks(picks)
        for name in sources.in_order(counts):
            count = counts[name]
            positive = [r for r, e in zip(count.releases, count.evalues, strict=True) if e > 0]
            numbers = (len(count.releases), count.at_least, len(positive), count.of(positive))
            rows.append((name, *map(str, numbers)))
    return table(
        "Pick releases and see the bound",
        ("mechanism", "releases", "valid at least", "with an e-value above 0",
         "valid at least among those"),
        rows, note, "picks",
    )  # fmt: skip


def uncertified_table(sources: Sources) -> ReportTable:
    """Return what was computed on the same target and decides nothing.

    Secondary limits and the area under the curve; both are for reading alone.
    """
    predicate = sources.predicate
    rows = []
    for name, spec in ({} if predicate is None else predicate.secondary).items():
        limits = ", ".join(f"{requirement} {limit}" for requirement, limit in spec.limits.items())
        for mechanism in sources.in_order(spec.results):
            result = spec.results[mechanism]
            about = f"secondary {name!r} ({limits})"
            rows.append((about, mechanism, result.decision.value, _secondary_bounds(result)))
    diagnostics = None if predicate is None else predicate.diagnostics
    if diagnostics is not None and diagnostics.auc is not None:  # a disclosure keeps it back
        for name in sources.in_order(diagnostics.auc):
            known = [auc for auc in diagnostics.auc[name].values() if auc is not None]
            source = (diagnostics.source_auc or {}).get(name)
            if known:
                compared = "" if source is None else f"source {source:.4f}"
                rows.append(("AUC", name, f"mean {sum(known) / len(known):.4f}", compared))
    return table(
        "Not certified", ("what", "mechanism", "result", "bounds or source"), rows,
        "Computed on the same target. Only the registered certificate decides.", "not certified",
    )  # fmt: skip


def _secondary_bounds(result: SecondaryDecision) -> str:
    """Return the bounds under other limits; a named release has none."""
    if not isinstance(result, SecondaryBounds):
        return ""
    upper = "" if result.upper is None else f", upper {cut(result.upper, up=True)}"
    return f"lower {cut(result.lower, up=False)}{upper}"
