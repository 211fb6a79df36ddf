"""What to see in the rows of the studies that the paper lacks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reproduction.studies.rows import Row
from reproduction.studies.sentences import Reading, Rows, largest_error, percent, pick, say
from reproduction.studies.study import Status


def _component(rows: Rows) -> list[str]:
    powers: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.metric == "power":
            powers.setdefault(row.method, {})[str(row.cell)] = row.value
    most = max((len(values) for values in powers.values()), default=0)
    wide = {method: values for method, values in powers.items() if len(values) >= most - 1}
    common = set.intersection(*(set(values) for values in wide.values())) if wide else set()
    everywhere = {m: float(np.mean([v[law] for law in common])) for m, v in wide.items()}
    ordered = sorted(everywhere.items(), key=lambda item: -item[1])
    means = ", ".join(f"`{method}` {percent(mean)}" for method, mean in ordered)
    level = [row for row in rows if row.metric == "false validation"]
    worst = max(level, key=lambda row: row.value, default=None)
    found = [f"Mean power over the {len(common)} laws that all of these read: {means}."]
    found = found if means else []
    if worst is not None and worst.wilson is not None:
        found.append(
            f"At the limit the largest rate is {percent(worst.value)} (`{worst.method}`, 95 % "
            f"limits {percent(worst.wilson[0])} and {percent(worst.wilson[1])}); the level is 1 %."
        )
    return found


def _sharp_counts(rows: Rows) -> list[str]:
    needed = [row for row in rows if row.metric == "needed"]
    out = [
        f"`{method}` in {sum(row.value > row.cell['R'] for row in own)} of {len(own)}"
        for method in dict.fromkeys(row.method for row in needed)
        if (own := [row for row in needed if row.method == method])
    ]
    return [f"Cells in which no count of favorable scores validates: {', '.join(out)}."]


def _sharp_rates(rows: Rows) -> list[str]:
    at = {"R": 1000, "n": 500, "eta": 0.95}
    return say(
        "With 500 records, 1,000 releases and reliability .95 the paper's direct mode validates "
        "in {d} of the runs, the sharp form in {b} with bentkus and in {r} with the randomized "
        "binomial test.",
        d=pick(rows, "direct", "validated", **at),
        b=pick(rows, "sharp, bentkus", "validated", **at),
        r=pick(rows, "sharp, randomized binomial", "validated", **at),
    )


def _sequential(rows: Rows) -> list[str]:
    found = []
    for eta in (0.9, 0.95):
        sharp = pick(rows, "sequential, sharp", "expected draws", eta=eta)
        other = pick(rows, "sequential, rescaled", "expected draws", eta=eta)
        if sharp is not None and other is not None:
            found.append(
                f"At a score rate of {eta:.2f} the sharp form stops after {sharp.value:.0f} draws "
                f"on average, the rescaled one after {other.value:.0f}, instead of 1,000."
            )
    return found


def _violation(rows: Rows) -> list[str]:
    at = {"reliability": 0.6, "R": 1000, "n": 1000}
    return [
        *say(
            "At reliability .60 with 1,000 releases and records Holm proves the violation in {h} "
            "of the runs, the direct form in {d}.",
            h=pick(rows, "Holm, binomial", "violation", **at),
            d=pick(rows, "direct sharp, binomial", "violation", **at),
        ),
        *largest_error([row for row in rows if row.cell.get("reliability") == 0.8], "violation"),
    ]


def _worst_case(rows: Rows) -> list[str]:
    return largest_error(rows, "false")


def _labels(rows: Rows) -> list[str]:
    needed = [row for row in rows if row.metric == "labels"]
    found = []
    for law in dict.fromkeys(row.cell["family"] for row in needed):
        own = [row for row in needed if row.cell["family"] == law]
        papers = [row for row in own if row.status != Status.OURS.value]
        ours = [row for row in own if row.status == Status.OURS.value]
        if papers and ours:
            old, best = (min(group, key=_size) for group in (papers, ours))
            found.append(
                f"{law}: {_size(old):,.0f} records for `{old.method}`, the better of the paper's "
                f"modes, and {_size(best):,.0f} for `{best.method}`."
            )
    low = [1.0 - row.value / row.exact for row in needed if row.exact]
    if low:
        found.append(
            f"Where a sum gives the exact size, the simulated one lies up to {percent(max(low))} "
            "below it."
        )
    return found


def _size(row: Row) -> float:
    """Return the exact size where a sum gives it, else the simulated one."""
    return row.value if row.exact is None else row.exact


OWN_READINGS: Mapping[str, Reading] = {
    "component-tests": Reading(
        asks="Seven laws of a loss: how often does each component test pass a release inside its "
        "limit, and one exactly at it?",
        see=_component,
    ),
    "sharp-counts": Reading(
        asks="How many favorable scores validate reliability .80 at error .05, by certificate.",
        see=_sharp_counts,
    ),
    "sharp-rates": Reading(
        asks="How often the sharp certificate validates in the paper's primary comparison, with "
        "one registered threshold for each number of releases.",
        see=_sharp_rates,
        beware="At reliability .80 a validation is an error.",
    ),
    "labels-needed": Reading(
        asks="The fewest target records with which each method, tuned, reaches 80 % power.",
        see=_labels,
        beware="A simulated size is the first on the grid whose noisy power reaches 80 %, so it "
        "leans low; the sentences above use exact sizes where there are any. Theory's own sizes "
        "are compared through the power there, taking its repetitions to be 400.",
    ),
    "sequential-draws": Reading(
        asks="Draws that a sequential audit needs, with a look every 25.",
        see=_sequential,
        beware="Theory does not say at which draws it looks, so its 108 and 51 are compared to "
        "within 5 draws; its 625 and 155 for the rescaled form came out at no schedule tried.",
    ),
    "violation-direct-holm": Reading(
        asks="Proving that a mechanism is unreliable: the paper's Holm form (Theorem 8) and the "
        "direct form (theory section 4).",
        see=_violation,
    ),
    "worst-case": Reading(
        asks="Reliability exactly at the target, every invalid release exactly at its limit, one "
        "shared target: no certificate may err more often than its budget says.",
        see=_worst_case,
    ),
}
