"""How the draws went, what was planned against what happened, the looks taken, and privacy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from proxyguard.exact.sequential import sharp_boundary
from proxyguard.report.evidence import groups_in
from proxyguard.report.parts import Table, in_order

Ledger = Sequence[Mapping[str, Any]]


def draw_records(
    manifest: Mapping[str, Any] | None, ledger: Ledger, predicate: Mapping[str, Any]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the record of every draw, by mechanism; of a sequential audit from its ledger."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    if manifest is not None:
        several = len(manifest["members"]) > 1
        for member, mechanisms in manifest["members"].items():
            for name, content in mechanisms.items():
                found[f"{member}/{name}" if several else name] = list(content["draws"])
        return found
    records = [e["body"]["record"] for e in ledger if e["stage"] == "drawn"]
    if records:
        name = predicate["verdicts"][0]["mechanism"] if len(predicate["verdicts"]) == 1 else ""
        found[name or "every candidate"] = records
    return found


def health_table(draws: Mapping[str, Sequence[Mapping[str, Any]]], predicate: Any) -> Table:
    """Return how many draws there are, failed, and repeat each other."""
    rows = []
    for name in in_order(list(draws), predicate):
        records = draws[name]
        states = Counter(str(one["status"]) for one in records)
        sizes = sorted(int(one["rows"]) for one in records if one.get("rows") is not None)
        rows.append(
            (
                name,
                str(len(records)),
                _words(states, ("drawn", "given")),
                str(_copies(one.get("content") for one in records)),
                str(_copies(one.get("model") for one in records)),
                "" if not sizes else f"{sizes[0]:,} to {sizes[-1]:,}",
                ", ".join(f"{k} {v}" for k, v in sorted(
                    Counter(str(r["selected"]) for r in records if r.get("selected")).items())),
            )
        )  # fmt: skip
    return Table(
        title="Draws",
        columns=("mechanism", "draws", "not drawn", "same table as another", "same model",
                 "rows of a release", "model chosen"),
        rows=tuple(rows),
        note="A failed draw counts as a release with the worst loss everywhere.",
        section="draws",
    )  # fmt: skip


def guard_table(
    draws: Mapping[str, Sequence[Mapping[str, Any]]],
    predicate: Mapping[str, Any],
    registry: Mapping[str, Any],
) -> Table:
    """Return what kept draws from reading the target, and what else they were allowed to read."""
    claimed = registry["declaration"]
    allowed = {
        part["name"]: ", ".join(part.get("allow") or ())
        for member in (claimed, *(claimed.get("candidate") or ()))
        for part in member.get("mechanism") or ()
    }
    rows = []
    for name in in_order(list(draws), predicate):
        held = Counter(str(one["guard"]) for one in draws[name] if one.get("guard") is not None)
        if held:
            words = ", ".join(f"{count} by {guard}" for guard, count in sorted(held.items()))
            rows.append((name, words, allowed.get(name.rpartition("/")[2], "")))
    return Table(
        title="What held the draws",
        columns=("mechanism", "draws held", "registered to be read besides"),
        rows=tuple(rows),
        note="Landlock: the kernel let a draw read code, the development part and what is "
        "registered, nothing else. Audit hook: Python refused the target's files, the ledger and "
        "the keys; native code could have read them. The same held others' generators "
        "where a command asked them to describe themselves. The record is the author's.",
        section="draws",
    )


def counts_table(predicate: Mapping[str, Any]) -> Table:
    """Return what became of the registered draws, as the certificate says it."""
    counts = predicate.get("draws", {})
    columns = ("registered", "delivered", "failed", "excluded", "used")
    return Table(
        title="What became of the draws",
        columns=("mechanism", *columns),
        rows=tuple(
            (name, *(str(counts[name][column]) for column in columns))
            for name in in_order(list(counts), predicate)
        ),
        note="A failed draw is used, with every loss at its upper bound. An excluded draw was "
        "taken out by an amendment before the target was opened.",
        section="draws",
    )


STEPS = {
    "developed": "rules and pilots on development data",
    "registered": "registering the claim",
    "amended": "amending it before opening",
    "drawn": "drawing, training on and freezing the releases",
    "opened": "opening the target",
    "scored": "drawing and scoring up to a look",
    "certified": "scoring and certifying",
}


def times_table(ledger: Sequence[Mapping[str, Any]]) -> Table:
    """Return how long every kind of step took, from the entry before it to its own."""
    seconds: dict[str, float] = {}
    before: datetime | None = None
    for entry in ledger:
        if not entry["body"].get("time"):
            continue
        now = datetime.fromisoformat(entry["body"]["time"])
        if before is not None and entry["stage"] in STEPS:
            took = (now - before).total_seconds()
            seconds[entry["stage"]] = seconds.get(entry["stage"], 0.0) + took
        before = now
    rows = [(STEPS[stage], f"{took:,.0f} s") for stage, took in seconds.items()]
    return Table(
        title="Times",
        columns=("step", "at the most"),
        rows=tuple(rows),
        note="From one entry of the ledger to the next, waiting included; single draws are not "
        "timed, so that the same seeds leave the same record.",
        section="draws",
    )


def _words(states: Mapping[str, int], fine: tuple[str, ...]) -> str:
    bad = [f"{count} {state}" for state, count in sorted(states.items()) if state not in fine]
    return ", ".join(bad) or "0"


def _copies(values: Iterable[Any]) -> int:
    """Return how many values are there more than once, beyond the first."""
    counts = Counter(value for value in values if value is not None)
    return sum(count - 1 for count in counts.values())


def failure_table(predicate: Mapping[str, Any]) -> Table:
    """Return every draw that failed, and why."""
    rows = tuple(
        (name, str(one["seed"]), one["status"], one["error"])
        for name, failures in predicate.get("failed", {}).items()
        for one in failures
    )
    return Table(
        title="Failed draws",
        columns=("mechanism", "seed", "status", "reason"),
        rows=rows,
        note="Every loss of a failed draw counts as its upper bound.",
        section="draws",
    )


def unscored_table(predicate: Mapping[str, Any]) -> Table:
    """Return what could not be scored on the target, and how it counted."""
    unscored = (predicate.get("diagnostics") or {}).get("unscored", {})
    rows = tuple(
        (name, str(release), str(words))
        for name, releases in sorted(unscored.items())
        for release, words in (
            releases.items() if isinstance(releases, Mapping) else enumerate(releases)
        )
    )
    return Table(
        title="Releases that could not be scored everywhere",
        columns=("mechanism", "release", "what happened"),
        rows=rows,
        note="Such a record has the worst loss; the others count as they are.",
        section="draws",
    )


def reference_table(ledger: Ledger) -> Table:
    """Return what policies that learn nothing would lose, for judging the limits."""
    rows: list[tuple[str, ...]] = []
    for entry in ledger:
        if entry["stage"] != "developed":
            continue
        rows = []
        for member, facts in entry["body"]["members"].items():
            for name, risk in facts.get("risks", {}).items():
                policies = [
                    f"{policy} {float(losses[name]):.4f}"
                    for policy, losses in facts.get("references", {}).items()
                ]
                rows.append((member, name, f"{float(risk):.4f}", ", ".join(policies)))
    return Table(
        title="Reference policies on validation data",
        columns=("member", "loss of", "source", "policies that learn nothing"),
        rows=tuple(rows),
        note="A limit that such a policy meets says little. None of this saw the target.",
        section="draws",
    )


def plan_table(
    predicate: Mapping[str, Any], evidence: Mapping[str, Any], registry: Mapping[str, Any]
) -> Table:
    """Return what was planned beside what happened; empty where no plan was registered."""
    plan = registry["declaration"].get("plan")
    rows: list[tuple[str, ...]] = []
    if plan is not None:
        groups = groups_in(evidence)
        rows.append(("chance of validation", plan["power"], _decisions(predicate)))
        rows.append(("share of valid releases", plan["reliability"], _intervals(predicate)))
        rows.append(("target records", f"{plan['records']:,}", _sizes(groups)))
        rows.append(("draws", f"{plan['draws']:,}", _releases(groups, predicate)))
        for name, margin in plan["margins"].items():
            rows.append((f"margin of {name}", margin, _margins(name, groups, predicate)))
        if plan.get("cost") is not None:
            rows.append(("cost", plan["cost"], "not recorded"))
        rows.append(("where the plan came from", plan["origin"], ""))
    return Table(
        title="Plan against outcome",
        columns=("what", "planned", "happened"),
        rows=tuple(rows),
        note="The plan was registered before the target was opened; it decides nothing.",
        section="plan",
    )


def _decisions(predicate: Mapping[str, Any]) -> str:
    return "; ".join(f"{v['mechanism']}: {v['decision']}" for v in predicate["verdicts"])


def _intervals(predicate: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{v['mechanism']}: {v['reliability_lower']:.3f} to {v.get('reliability_upper', 1.0):.3f}"
        for v in predicate["verdicts"]
        if "reliability_lower" in v
    )


def _sizes(groups: Mapping[str, Any]) -> str:
    sizes = sorted({column["n"] for group in groups.values() for column in group["columns"]})
    return ", ".join(f"{n:,}" for n in sizes)


def _releases(groups: Mapping[str, Any], predicate: Mapping[str, Any]) -> str:
    names = in_order(list(groups), predicate)
    return "; ".join(f"{name}: {len(groups[name]['releases']):,}" for name in names)


def _margins(name: str, groups: Mapping[str, Any], predicate: Mapping[str, Any]) -> str:
    words = []
    for mechanism in in_order(list(groups), predicate):
        group = groups[mechanism]
        if name in group["requirements"]:
            j = group["requirements"].index(name)
            limit = float(group["limits"][j])
            estimates = [row[j] for row in group["derived"]["estimates"]]
            valid = [limit - e for e in estimates if e < limit]
            if valid:
                words.append(f"{mechanism}: {sum(valid) / len(valid):.6f}")
    return "; ".join(words) or "no estimate below the limit"


def sequential_table(predicate: Mapping[str, Any], registry: Mapping[str, Any],
                     ledger: Ledger) -> Table:  # fmt: skip
    """Return the favorable scores at every registered look that was reached, or each round."""
    scored = [entry["body"] for entry in ledger if entry["stage"] == "scored"]
    claim = registry["declaration"]["claim"]
    rows: list[tuple[str, ...]] = []
    columns: tuple[str, ...] = ("when", "decision", "time")
    if scored and claim.get("looks"):
        columns = ("when", "favorable scores", "count that validates", "time")
        least = dict(look_boundary(claim))
        for look in claim["looks"]:
            reached = look <= len(scored)
            count = sum(bool(one["favorable"]) for one in scored[:look])
            rows.append((f"look at {look} draws", str(count) if reached else "not reached",
                         _least_words(least.get(look), look),
                         scored[look - 1]["time"] if reached else ""))  # fmt: skip
        total = sum(bool(one["favorable"]) for one in scored)
        rows.append((f"ended after {len(scored)} draws", str(total), "", scored[-1]["time"]))
    elif scored:
        rows = [
            (f"round {one['round']}", f"{one['decision']} at level {float(one['level']):.3g}",
             one["time"])
            for one in scored
        ]  # fmt: skip
    return Table(
        title="The sequential path",
        columns=columns,
        rows=tuple(rows),
        note="Every release was committed to the ledger before it was scored.",
        section="sequential",
    )


def _least_words(least: int | None, look: int) -> str:
    """Return the count that validates at a look; some looks come too early for any."""
    if least is None:
        return "not recorded"
    return str(least) if least <= look else "none"


def look_boundary(claim: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return (look, least count that validates) of a registered claim with a sharp bound."""
    if claim.get("bound") not in (None, "sharp"):
        return []
    looks = tuple(int(look) for look in claim["looks"])
    return _boundary(looks, claim["reliability_target"], claim["threshold"], claim["alpha"])


@lru_cache(maxsize=8)  # an exact count of paths: seconds at a thousand looks
def _boundary(
    looks: tuple[int, ...], reliability: str, threshold: str, alpha: str
) -> list[tuple[int, int]]:
    found = sharp_boundary(
        looks,
        target=float(Fraction(reliability)),
        kappa=float(Fraction(threshold)),
        alpha=float(Fraction(alpha)),
    )
    if found is None:
        return []
    return [(int(n), int(c)) for n, c in zip(found.looks, found.counts, strict=True)]


def privacy_table(predicate: Mapping[str, Any]) -> Table:
    """Return what the releases of private mechanisms cost."""
    return Table(
        title="Privacy",
        columns=("mechanism", "what its releases cost"),
        rows=tuple(
            (name, line) for name, lines in sorted(predicate.get("privacy", {}).items())
            for line in lines
        ),
        note="As the mechanism states it; the audit does not measure privacy.",
        section="privacy",
    )  # fmt: skip
