"""What to see in rows where a sentence alone does not do: it is counted, ordered or compared."""

from __future__ import annotations

import numpy as np

from reproduction.studies.costs import OURS, PAPERS
from reproduction.studies.exposure import DESIGN, EXACT, HIGHEST, LOWEST, PAIRED
from reproduction.studies.rows import Row
from reproduction.studies.sentences import Rows, percent, pick, say
from reproduction.studies.study import Status


def powers_by_law(rows: Rows) -> list[str]:
    """Return the power of each test under the three laws of B3."""
    found = []
    for method in dict.fromkeys(row.method for row in rows if row.method.startswith("Holm")):
        found += say(
            f"`{method}` at 1,000 records: power {{b}} (beta), {{r}} (rare subgroup), {{c}} "
            "(correlated candidates).",
            b=pick(rows, method, "power", law="beta", n=1000),
            r=pick(rows, method, "power", law="rare", n=1000),
            c=pick(rows, method, "power", law="correlated", n=1000),
        )
    return found


def near_boundary(rows: Rows) -> list[str]:
    """Return the false validation that the paper printed of one run, beside a sum."""
    oracle = pick(rows, "oracle", "false validation", bad=0.12)
    if oracle is None or oracle.exact is None:
        return []
    return [
        "At risk .120 the paper prints a false validation of .0169, one Monte Carlo run; with "
        f"all labels right a binomial sum gives {oracle.exact:.4f}."
    ]


def mean_powers(rows: Rows) -> list[str]:
    """Return the mean power of each component test, and the largest rate at the limit."""
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


def undecidable_design(rows: Rows) -> list[str]:
    """Return what the paper's pairs would have to show, and what the exact count shows of them."""
    found = []
    for pairs in (27, 100, 250):
        at = {"claim": DESIGN, "n": pairs}
        high = pick(rows, f"{PAIRED}, .05/12", HIGHEST, **at)
        low = pick(rows, f"{PAIRED}, .05/12", LOWEST, **at)
        ours = pick(rows, f"{EXACT}, .05/12", "power", **at)
        if high is not None and low is not None and ours is not None:
            found.append(
                f"With {pairs} pairs the paper's test validates at a mean difference of at most "
                f"{high.value:.3f}, and finds a violation from {low.value:.3f} on; the exact count "
                f"of the same {pairs} records validates a release without a leak in "
                f"{percent(ours.value)} of the runs."
            )
    return found


def cells_without_count(rows: Rows) -> list[str]:
    """Return by certificate in how many cells nothing can validate."""
    needed = [row for row in rows if row.metric == "needed"]
    out = [
        f"`{method}` in {sum(row.value > row.cell['R'] for row in own)} of {len(own)}"
        for method in dict.fromkeys(row.method for row in needed)
        if (own := [row for row in needed if row.method == method])
    ]
    return [f"Cells in which no count of favorable scores validates: {', '.join(out)}."]


def draws_saved(rows: Rows) -> list[str]:
    """Return how many draws a sequential audit takes."""
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


def labels_needed(rows: Rows) -> list[str]:
    """Return the fewest records by law, for the better of the paper's modes and for ours."""
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


def least_releases(rows: Rows) -> list[str]:
    """Return how many releases named mode and the sharp certificate need at the least."""
    found = []
    for target in (0.8, 0.9):
        named, sharp = (
            pick(rows, method, "least releases", eta_0=target, H=5) for method in ("named", "sharp")
        )
        if named is not None and sharp is not None:
            found.append(
                f"With fewer than {named.value:g} releases of each of 5 mechanisms named mode, "
                f"half of its error for the draws, cannot validate {target:g}, whatever they "
                f"score; the sharp certificate needs {sharp.value:g}, as an oracle does."
            )
    return found


def costs_and_powers(rows: Rows) -> list[str]:
    """Return what the plans of the paper's planner and of ours cost, and their power."""
    found = []
    for named in dict.fromkeys(row.cell["named"] for row in rows):
        for ratio in (1.0, 100.0):
            at = {"ratio": ratio, "named": named}
            four = [pick(rows, m, k, **at) for m in (PAPERS, OURS) for k in ("cost", "power")]
            if None not in four:
                theirs, their_power, ours, our_power = (row.value for row in four if row)
                found.append(
                    f"Release cost {ratio:g}, named rate {named:g}: the "
                    f"paper's plan costs {theirs:,.0f} and validates in {percent(their_power)} of "
                    f"audits, ours costs {ours:,.0f} and validates in {percent(our_power)}."
                )
    return found


_SHOWN = ("mode switches", "largest regret", "largest loss of power")


def losses_of_wrong_pilots(rows: Rows) -> list[str]:
    """Return what wrong pilots cost each planner."""
    found = []
    for method in dict.fromkeys(row.method for row in rows):
        own = {m: [r.value for r in rows if (r.method, r.metric) == (method, m)] for m in _SHOWN}
        switches, regret, power = (own[metric] for metric in _SHOWN)
        if switches and regret:
            found.append(
                f"`{method}`: a wrong pilot switches the mode in {_range(switches)} % of the 49 "
                f"pairs of errors; by its own projections it loses up to {max(regret):.3f} of "
                "bound."
            )
        if power:
            found.append(f"`{method}` loses up to {100 * max(power):.1f} points of power.")
    return found


def _range(values: list[float]) -> str:
    """Return the least and the largest value, or the one that all have."""
    least, most = (f"{value:.1f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"
