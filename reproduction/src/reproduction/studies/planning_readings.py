"""What to see in the rows of the planning tables: C1 to C3."""

from __future__ import annotations

from collections.abc import Mapping

from reproduction.studies.costs import OURS, PAPERS
from reproduction.studies.sentences import Reading, Rows, percent, pick


def _cost_plan(rows: Rows) -> list[str]:
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


def _sensitivity(rows: Rows) -> list[str]:
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


_SHOWN = ("mode switches", "largest regret", "largest loss of power")


def _range(values: list[float]) -> str:
    """Return the least and the largest value, or the one that all have."""
    least, most = (f"{value:.1f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


_LAW = (
    "Ours is the cheapest plan with power .95 for reliability .8 under a law that goes with the "
    "two rates: two-valued losses, reliability the larger rate, and the margin at which named mode "
    "on 500 records recognizes the named share of 30 releases. Power is every plan's chance to "
    "validate .8 under that law. This is no contest on equal terms: ours knows the law's family "
    "and may take any size, the paper's planner has two rates, a grid of 25 sizes and no target, "
    "and maximizes a projected bound."
)

PLANNING_READINGS: Mapping[str, Reading] = {
    "cost-plan": Reading(
        asks="The plan that the paper's planner chooses for a budget of 10,000 target records, "
        "what it chooses with the sharp bound in the place of the direct one, and what our "
        "planner chooses. " + _LAW,
        see=_cost_plan,
        beware="The projection for named plans does not depend on the number of records, so a "
        "named plan always takes the smallest.",
    ),
    "mode-phase": Reading(
        asks="The same planners with a moderate and with a high rate of recognized releases.",
        see=_cost_plan,
        beware="The paper's named plans have 250 records because their projection does not depend "
        "on the number of records, not because 250 are enough.",
    ),
    "cost-plan-sensitivity": Reading(
        asks="What the planners lose when both pilot rates are wrong by up to .10. Bounds are lost "
        "over 49 pairs of errors, by a planner's own projections. Power is lost over the nine "
        "pairs of -.10, 0 and .10 against what ours has at the true rates; here ours spends the "
        "budget for power, as the others spend it for their bounds.",
        see=_sensitivity,
        beware="The sharp bound has the larger loss of bound in its worst pair because its bound "
        "at the true rates is the larger one: the plan it then takes is the paper's.",
    ),
}
