"""The evidence as tables: requirements, which of them binds, scores, bounds, budgets, picks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.certificate.picks import read_picks
from proxyguard.certificate.wording import confidence
from proxyguard.documents.certificate import (
    BudgetShare,
    Failure,
    MechanismVerdict,
    SecondaryBounds,
    SecondaryDecision,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.report.sources import Sources, Table, Verdict, amount, cut

MOST_ROWS = 100
"""Requirements that a table on a page has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """How often each requirement is the one that a release is least certain of."""

    mechanism: str
    requirement: str  # the one that binds most releases
    counts: tuple[tuple[str, int], ...]
    releases: int

    def words(self) -> str:
        """Return the requirement and its share of the releases."""
        count = dict(self.counts)[self.requirement]
        return f"{self.requirement!r} binds {count} of {self.releases} releases"


def binding_of(name: str, group: GroupEvidence, failed: set[str]) -> Binding | None:
    """Return which requirement binds: the largest p-value, then the least margin.

    A margin is measured against the width of its own bound, so that scales do not matter.
    A failed draw has the worst loss everywhere, which says nothing about requirements.
    """
    kept = [r for r, release in enumerate(group.releases) if release not in failed]
    if not kept:
        return None
    derived = group.derived
    pvalues, estimates, upper = (
        _array([rows[r] for r in kept])
        for rows in (derived.pvalues, derived.estimates, derived.upper)
    )
    limits = _array([float(limit) for limit in group.limits])
    margin = (limits - estimates) / np.maximum(upper - estimates, 1e-300)
    largest = pvalues == pvalues.max(axis=1, keepdims=True)
    bound = np.argmin(np.where(largest, margin, np.inf), axis=1)
    names = group.requirements
    counts = np.bincount(bound, minlength=len(names))
    most = int(np.argmax(counts))
    return Binding(
        mechanism=name,
        requirement=names[most],
        counts=tuple((one, int(count)) for one, count in zip(names, counts, strict=True)),
        releases=len(kept),
    )


def _array(values: Sequence[object]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def failed_releases(name: str, failures: Sequence[Failure]) -> set[str]:
    """Return the names of the draws that failed; they are those of their seeds."""
    seeds = [failure.seed for failure in failures]
    return {str(seed) for seed in seeds} | {f"{name}/{seed}" for seed in seeds}


def requirement_tables(sources: Sources) -> list[Table]:
    """Return estimates and bounds of every requirement, one table a mechanism."""
    return [
        _requirements(
            name,
            sources.groups[name],
            sources.rules(name),
            bounds_words(name, sources.groups[name], sources.verdict(name)),
        )
        for name in sources.group_names
    ]


def bounds_words(name: str, group: GroupEvidence, verdict: VerdictRecord | None) -> str:
    """Return how sure the bounds of one group's requirements are, by adding their errors.

    A sequential audit stops where its scores tell it to, so that all the draws it might have
    made count.
    """
    level = Fraction(repr(float(group.bounds_level)))
    draws = len(group.releases)
    if isinstance(verdict, SequentialVerdict):
        draws = max(draws, verdict.largest_number_of_draws)
    spent = 2 * draws * len(group.requirements) * level
    spent = Fraction(f"{float(spent):.9g}")  # 0.05, not 0.05000000000000001
    if spent < 1:
        return (
            f"Bounds of all releases and requirements of {name} hold at once with "
            f"{confidence(spent)} confidence"
        )
    return (
        f"Bounds of {name} hold each by itself with {confidence(level)} confidence, not all at once"
    )


def nearest_limits(group: GroupEvidence, most: int) -> list[int]:
    """Return the places of the requirements with the least room below their limits, in order.

    Room is what the largest upper bound of any release leaves, against the width of the bounds.
    """
    limits = np.array([float(limit) for limit in group.limits])
    if limits.size <= most:
        return list(range(limits.size))
    upper, lower = _array(group.derived.upper), _array(group.derived.lower)
    room = (limits - upper.max(axis=0)) / np.maximum((upper - lower).max(axis=0), 1e-12)
    return sorted(int(j) for j in np.argsort(room, kind="stable")[:most])


def _requirements(name: str, group: GroupEvidence, rules: Mapping[str, str], sure: str) -> Table:
    estimates, upper = _array(group.derived.estimates), _array(group.derived.upper)
    rows, places = [], nearest_limits(group, MOST_ROWS)
    for j in places:
        requirement = group.requirements[j]
        declared = requirement.split(" (target ")[0]
        limit = float(group.limits[j])
        met = int(np.count_nonzero(estimates[:, j] < limit))
        below = int(np.count_nonzero(upper[:, j] < limit))
        rows.append(
            (
                requirement,
                f"{limit:g}",
                rules.get(requirement) or rules.get(declared.split(":")[0], ""),
                str(group.columns[j].n) if group.columns else "",  # collective: one batch each
                cut(estimates[:, j].min(), up=False),
                cut(fsum(estimates[:, j]) / len(estimates), up=True),
                cut(estimates[:, j].max(), up=True),
                cut(upper[:, j].max(), up=True),
                f"{met} / {below} of {len(estimates)}",
                group.tests[j],
            )
        )
    return Table(
        title=f"Requirements: {name}",
        columns=("requirement", "limit", "limit's rule", "records", "least", "mean", "largest",
                 "largest upper bound", "estimate / upper bound below the limit", "test"),
        rows=tuple(rows),
        note=f"Estimates over the releases. {sure}; they are for reading and decide nothing."
        + left_out(group, len(places)),
    )  # fmt: skip


def left_out(group: GroupEvidence, shown: int) -> str:
    """Return that not all requirements are shown and where they are, nothing if all are."""
    total = len(group.requirements)
    if shown == total:
        return ""
    return (
        f" Shown are the {shown:,} of {total:,} requirements with the least room below their "
        "limits; report.csv and report.json have all."
    )


def binding_table(bindings: Sequence[Binding]) -> Table:
    """Return which requirement binds how many releases of each mechanism."""
    rows = tuple(
        (one.mechanism, requirement, str(count), f"{100 * count / one.releases:.0f} %")
        for one in bindings
        for requirement, count in one.counts
        if count or len(one.counts) <= MOST_ROWS
    )
    return Table(
        title="Which requirement binds",
        columns=("mechanism", "requirement", "releases", "share"),
        rows=rows,
        note="A release is bound by the requirement with its largest p-value; among equal ones "
        "by the one nearest to its limit. Failed draws are left out.",
    )


def score_table(verdicts: Sequence[VerdictRecord]) -> Table:
    """Return the counts that the bounds start from."""
    rows = []
    for verdict in verdicts:
        if isinstance(verdict, SequentialVerdict):
            rows.append((verdict.mechanism, "favorable scores", str(verdict.favorable),
                         str(verdict.draws)))  # fmt: skip
        if not isinstance(verdict, MechanismVerdict):
            continue
        for bound in (verdict.lower, verdict.upper):
            steps = [] if bound is None else bound.steps
            counted = {step.label: step.value for step in steps}
            releases = str(int(counted.get("releases", verdict.n_releases)))
            for step in steps:
                label = step.label.removeprefix("named: ").removeprefix("direct: ")
                if label.startswith(_SCORES):
                    rows.append((verdict.mechanism, step.label, f"{step.value:.6g}", releases))
    return Table(
        title="Scores",
        columns=("mechanism", "what was counted", "count or mean", "of releases"),
        rows=tuple(rows),
    )


_SCORES = (
    "favorable scores", "violating scores", "recognized releases", "valid releases", "mean ",
    "ramp scores", "releases with a detected violation",
)  # fmt: skip


def step_table(verdicts: Sequence[Verdict]) -> Table:
    """Return how every bound is built; the changes of one bound add up to it."""
    rows = []
    for verdict in verdicts:
        for one in verdict.waterfalls:
            for step in one.steps:
                rows.append((verdict.name, one.side, step.label, f"{step.change:+.6f}",
                             f"{step.after:.6f}"))  # fmt: skip
    return Table(
        title="How the bounds are built",
        columns=("mechanism", "bound", "step", "change", "leaves"),
        rows=tuple(rows),
        note="Shares of releases. The first line is what was counted, the last one leaves the "
        "bound; in between stands the bound that there would be without contamination.",
    )


Spent = tuple[str, str, str, Fraction]  # mechanism, part, what it pays for, amount


def budget_table(sources: Sources) -> Table:
    """Return what the error budgets pay for, with the sum of each."""
    rows: list[tuple[str, ...]] = []
    for budget, parts in budget_parts(sources).items():
        rows += [(budget, *words, amount(share)) for *words, share in parts]
        if parts:
            total = sum((part[-1] for part in parts), Fraction(0))
            rows.append((budget, "sum", "", "any of these errors", amount(total)))
    return Table(
        title="Error budget",
        columns=("budget", "mechanism", "part", "pays for", "amount"),
        rows=tuple(rows),
        note="Each budget is spent separately; what is said with two of them together holds "
        "outside the sum of both.",
    )


def budget_parts(sources: Sources) -> dict[str, list[Spent]]:
    """Return the parts of every budget, in the order of the verdicts."""
    return {
        "validation": _bound_parts(sources, "alpha"),
        "violation": _bound_parts(sources, "beta"),
        "picks": _pick_parts(sources),
    }


def _bound_parts(sources: Sources, symbol: Literal["alpha", "beta"]) -> list[Spent]:
    """Return the parts of one direction; what a family spends together stands there once."""
    if sources.family is not None:  # named releases: one Holm family spends all of it
        whole = sources.family.alpha if symbol == "alpha" else sources.family.beta
        event = "Holm over all registered releases"
        return [] if whole is None else [("all releases", symbol, event, Fraction(whole))]
    pooled = symbol == "beta" and sources.levels.pooled
    spent: list[Spent] = []
    for verdict in sources.verdicts:
        for share in _spent_by(verdict, symbol):
            once = pooled and share.symbol == "beta_R"
            name = "all mechanisms" if once else verdict.mechanism
            row = (name, share.symbol, share.event, Fraction(share.amount))
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


def _pick_parts(sources: Sources) -> list[Spent]:
    groups = {} if sources.picks is None else sources.picks.mechanisms
    event = "too many of some choice of releases called valid"
    return [
        (name, "alpha", event, Fraction(*(int(number) for number in groups[name].alpha)))
        for name in sources.in_order(groups)
    ]


def picks_table(sources: Sources) -> list[Table]:
    """Return what the budget for choosing releases says of all, and of the best ones."""
    picks = sources.picks
    if picks is None:
        return []
    rows = []
    counts = read_picks(picks.to_dict())
    for name in sources.in_order(counts):
        count = counts[name]
        positive = [r for r, e in zip(count.releases, count.evalues, strict=True) if e > 0]
        rows.append(
            (name, str(len(count.releases)), str(count.at_least), str(len(positive)),
             str(count.of(positive)))
        )  # fmt: skip
    return [
        Table(
            title="Pick releases and see the bound",
            columns=("mechanism", "releases", "valid at least", "with an e-value above 0",
                     "valid at least among those"),
            rows=tuple(rows),
            note=f"{picks.sentence} [{picks.rests_on}]",
            section="picks",
        )
    ]  # fmt: skip


def uncertified_table(sources: Sources) -> Table:
    """Return what was computed on the same target and decides nothing."""
    predicate = sources.predicate
    rows = []
    for name, spec in ({} if predicate is None else predicate.secondary).items():
        limits = ", ".join(f"{requirement} {limit}" for requirement, limit in spec.limits.items())
        for mechanism in sources.in_order(spec.results):
            result = spec.results[mechanism]
            rows.append(
                (f"secondary {name!r} ({limits})", mechanism, result.decision.value,
                 _secondary_bounds(result))
            )  # fmt: skip
    diagnostics = None if predicate is None else predicate.diagnostics
    if diagnostics is not None and diagnostics.auc is not None:  # a disclosure keeps it back
        for name in sources.in_order(diagnostics.auc):
            known = [auc for auc in diagnostics.auc[name].values() if auc is not None]
            source = (diagnostics.source_auc or {}).get(name)
            if known:
                rows.append(
                    ("AUC", name, f"mean {sum(known) / len(known):.4f}",
                     "" if source is None else f"source {source:.4f}")
                )  # fmt: skip
    return Table(
        title="Not certified",
        columns=("what", "mechanism", "result", "bounds or source"),
        rows=tuple(rows),
        note="Computed on the same target. Only the registered certificate decides.",
        section="not certified",
    )


def _secondary_bounds(result: SecondaryDecision) -> str:
    if not isinstance(result, SecondaryBounds):
        return ""
    upper = "" if result.upper is None else f", upper {cut(result.upper, up=True)}"
    return f"lower {cut(result.lower, up=False)}{upper}"
