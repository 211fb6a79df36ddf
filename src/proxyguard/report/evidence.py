"""The evidence as tables: requirements, which of them binds, scores, bounds, budgets, picks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import Any

import numpy as np

from proxyguard.certificate.picks import read_picks
from proxyguard.certificate.wording import confidence
from proxyguard.report.parts import Table, Verdict, amount, cut, in_order

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


def groups_in(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evidence by mechanism, or by candidate where a stream judged each alone."""
    groups = dict(evidence["groups"])
    if not groups:
        for score in evidence.get("scores", []):
            record = score["statistics"]
            groups[str(record["releases"][0])] = record
    return groups


def binding_of(name: str, group: Mapping[str, Any], failed: set[str]) -> Binding | None:
    """Return which requirement binds: the largest p-value, then the least margin.

    A margin is measured against the width of its own bound, so that scales do not matter.
    A failed draw has the worst loss everywhere, which says nothing about requirements.
    """
    kept = [r for r, release in enumerate(group["releases"]) if str(release) not in failed]
    if not kept:
        return None
    derived = group["derived"]
    pvalues, estimates, upper = (
        _array([derived[key][r] for r in kept]) for key in ("pvalues", "estimates", "upper")
    )
    limits = _array([float(limit) for limit in group["limits"]])
    margin = (limits - estimates) / np.maximum(upper - estimates, 1e-300)
    largest = pvalues == pvalues.max(axis=1, keepdims=True)
    bound = np.argmin(np.where(largest, margin, np.inf), axis=1)
    names = list(group["requirements"])
    counts = np.bincount(bound, minlength=len(names))
    most = int(np.argmax(counts))
    return Binding(
        mechanism=name,
        requirement=names[most],
        counts=tuple((one, int(count)) for one, count in zip(names, counts, strict=True)),
        releases=len(kept),
    )


def _array(values: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def failed_releases(predicate: Mapping[str, Any], name: str) -> set[str]:
    """Return the names of the draws that failed; they are those of their seeds."""
    failures = predicate.get("failed", {}).get(name, [])
    return {str(one["seed"]) for one in failures} | {f"{name}/{one['seed']}" for one in failures}


def requirement_tables(
    predicate: Mapping[str, Any], evidence: Mapping[str, Any], registry: Mapping[str, Any]
) -> list[Table]:
    """Return estimates and bounds of every requirement, one table a mechanism."""
    groups, members = groups_in(evidence), registry["members"]
    return [
        _requirements(name, groups[name], members, bounds_words(name, groups, predicate))
        for name in in_order(list(groups), predicate)
    ]


def bounds_words(name: str, groups: Mapping[str, Any], predicate: Mapping[str, Any]) -> str:
    """Return how sure the bounds of one group's requirements are, by adding their errors.

    A sequential audit stops where its scores tell it to, so that all the draws it might have
    made count.
    """
    group = groups[name]
    level = Fraction(repr(float(group["bounds_level"])))
    draws = len(group["releases"])
    for verdict in predicate["verdicts"]:
        if verdict["mechanism"] == name:
            draws = max(draws, int(verdict.get("largest_number_of_draws", 0)))
    spent = 2 * draws * len(group["requirements"]) * level
    spent = Fraction(f"{float(spent):.9g}")  # 0.05, not 0.05000000000000001
    if spent < 1:
        return (
            f"Bounds of all releases and requirements of {name} hold at once with "
            f"{confidence(spent)} confidence"
        )
    return (
        f"Bounds of {name} hold each by itself with {confidence(level)} confidence, not all at once"
    )


def nearest_limits(group: Mapping[str, Any], most: int) -> list[int]:
    """Return the places of the requirements with the least room below their limits, in order.

    Room is what the largest upper bound of any release leaves, against the width of the bounds.
    """
    limits = np.array([float(limit) for limit in group["limits"]])
    if limits.size <= most:
        return list(range(limits.size))
    upper, lower = (_array(group["derived"][side]) for side in ("upper", "lower"))
    room = (limits - upper.max(axis=0)) / np.maximum((upper - lower).max(axis=0), 1e-12)
    return sorted(int(j) for j in np.argsort(room, kind="stable")[:most])


def _requirements(
    name: str, group: Mapping[str, Any], members: Mapping[str, Any], sure: str
) -> Table:
    derived = group["derived"]
    own = members[name] if name in members else next(iter(members.values()))
    rules = {one["part"]["name"]: one["limit"]["rule"] for one in own["requirements"]}
    estimates, upper = _array(derived["estimates"]), _array(derived["upper"])
    rows, places = [], nearest_limits(group, MOST_ROWS)
    for j in places:
        requirement = group["requirements"][j]
        declared = requirement.split(" (target ")[0]
        limit = float(group["limits"][j])
        met = int(np.count_nonzero(estimates[:, j] < limit))
        below = int(np.count_nonzero(upper[:, j] < limit))
        rows.append(
            (
                requirement,
                f"{limit:g}",
                rules.get(requirement) or rules.get(declared.split(":")[0], ""),
                str(group["columns"][j]["n"]) if group["columns"] else "",
                cut(estimates[:, j].min(), up=False),
                cut(fsum(estimates[:, j]) / len(estimates), up=True),
                cut(estimates[:, j].max(), up=True),
                cut(upper[:, j].max(), up=True),
                f"{met} / {below} of {len(estimates)}",
                group["tests"][j],
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


def left_out(group: Mapping[str, Any], shown: int) -> str:
    """Return that not all requirements are shown and where they are, nothing if all are."""
    total = len(group["requirements"])
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


def score_table(predicate: Mapping[str, Any]) -> Table:
    """Return the counts that the bounds start from."""
    rows = []
    for verdict in predicate["verdicts"]:
        if "favorable" in verdict:  # a sequential audit
            rows.append((verdict["mechanism"], "favorable scores", str(verdict["favorable"]),
                         str(verdict["draws"])))  # fmt: skip
        for side in ("lower", "upper"):
            steps = [(s["label"], s["value"]) for s in (verdict.get(side) or {}).get("steps", [])]
            releases = str(int(dict(steps).get("releases", verdict.get("n_releases", 0))))
            for label, value in steps:
                plain = label.removeprefix("named: ").removeprefix("direct: ")
                if plain.startswith(_SCORES):
                    rows.append((verdict["mechanism"], label, f"{value:.6g}", releases))
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


def budget_table(predicate: Mapping[str, Any], registry: Mapping[str, Any]) -> Table:
    """Return what the error budgets pay for, with the sum of each."""
    rows: list[tuple[str, ...]] = []
    for budget, parts in budget_parts(predicate, registry).items():
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


def budget_parts(
    predicate: Mapping[str, Any], registry: Mapping[str, Any]
) -> dict[str, list[Spent]]:
    """Return the parts of every budget, in the order of the verdicts."""
    pooled = bool(registry["declaration"]["claim"].get("pooled_violations"))
    return {
        "validation": _bound_parts(predicate, "lower", pooled=False),
        "violation": _bound_parts(predicate, "upper", pooled=pooled),
        "picks": _pick_parts(predicate),
    }


def _bound_parts(predicate: Mapping[str, Any], side: str, *, pooled: bool) -> list[Spent]:
    """Return the parts of one direction; what a family spends together stands there once."""
    symbol = {"lower": "alpha", "upper": "beta"}[side]
    whole = predicate.get("family", {}).get(symbol)
    if whole is not None:  # named releases: one Holm family spends all of it
        return [("all releases", symbol, "Holm over all registered releases", Fraction(whole))]
    found: list[Spent] = []
    for verdict in predicate["verdicts"]:
        own = verdict.get("budget", []) if side == "lower" else []
        for part in (verdict.get(side) or {}).get("budget", own):
            once = pooled and part["symbol"] == "beta_R"
            name = "all mechanisms" if once else verdict["mechanism"]
            row = (name, part["symbol"], part["event"], Fraction(part["amount"]))
            if not once or row not in found:
                found.append(row)
    return found


def _pick_parts(predicate: Mapping[str, Any]) -> list[Spent]:
    mechanisms = (predicate.get("picks") or {"mechanisms": {}})["mechanisms"]
    event = "too many of some choice of releases called valid"
    return [
        (name, "alpha", event, Fraction(*(int(part) for part in mechanisms[name]["alpha"])))
        for name in in_order(list(mechanisms), predicate)
    ]


def picks_table(predicate: Mapping[str, Any]) -> list[Table]:
    """Return what the budget for choosing releases says of all, and of the best ones."""
    picks = predicate.get("picks")
    if picks is None:
        return []
    rows = []
    counts = read_picks(picks)
    for name in in_order(list(counts), predicate):
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
            note=f"{picks['sentence']} [{picks['rests_on']}]",
            section="picks",
        )
    ]  # fmt: skip


def uncertified_tables(predicate: Mapping[str, Any]) -> list[Table]:
    """Return what was computed on the same target and decides nothing."""
    rows = []
    for name, spec in predicate.get("secondary", {}).items():
        for mechanism in in_order(list(spec["results"]), predicate):
            result = spec["results"][mechanism]
            bounds = ", ".join(
                f"{side} {cut(result[side], up=side == 'upper')}"
                for side in ("lower", "upper")
                if result.get(side) is not None
            )
            limits = ", ".join(f"{one} {limit}" for one, limit in spec["limits"].items())
            rows.append((f"secondary {name!r} ({limits})", mechanism, result["decision"], bounds))
    diagnostics = predicate.get("diagnostics") or {}
    auc = diagnostics.get("auc", {})  # not given away where a disclosure is registered
    for name in in_order(list(auc), predicate):
        known = [v for v in auc[name].values() if v is not None]
        source = diagnostics["source_auc"].get(name)
        if known:
            rows.append(
                ("AUC", name, f"mean {sum(known) / len(known):.4f}",
                 "" if source is None else f"source {source:.4f}")
            )  # fmt: skip
    return [
        Table(
            title="Not certified",
            columns=("what", "mechanism", "result", "bounds or source"),
            rows=tuple(rows),
            note="Computed on the same target. Only the registered certificate decides.",
            section="not certified",
        )
    ]
