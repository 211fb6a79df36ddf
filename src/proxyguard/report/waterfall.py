"""How a bound is built, step by step, for every mode: the steps add up to the bound.

Counted share of the releases, less what the draws leave uncertain (the bound if nothing
contaminated the scores), less what invalid releases may have contributed, is the bound. An
upper bound goes the other way. Nothing here is computed that the certificate did not record,
except the bound without contamination, which is for reading.
"""

from __future__ import annotations

from fractions import Fraction

from proxyguard.documents.certificate import BoundRecord
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.report.parts import Step, Waterfall

_COUNTED = (
    "recognized releases", "valid releases at least", "valid releases at most",
    "releases with a detected violation",
)  # fmt: skip
"""Counts from which invalid releases were taken out before."""

DIGITS = 9
"""Digits that every machine agrees on."""


def waterfall_of(bound: BoundRecord, *, side: str, certified: bool = True) -> Waterfall | None:
    """Return the steps of a recorded bound; None where it has no count to start from."""
    steps, alpha = _component(bound)
    value = bound.value
    label, count = steps[0] if steps else ("", 0.0)
    releases = dict(steps).get("releases")
    if not releases:
        return None
    share = count if label.startswith("mean") else count / releases
    counted = label.startswith(_COUNTED)
    upper = side == "upper"
    if upper and label.startswith(("violating scores", "releases with a detected")):
        share = 1.0 - share
    middle = value if counted else _without_contamination(steps, alpha, upper)
    # Computed here and not recorded: its last digits are the machine's, and are left out. The
    # guards of both limits differ there too, and neither may pass the bound.
    middle = round(middle, DIGITS)
    middle = min(middle, value) if upper else max(middle, value)
    shown = f"{count:.6g}" if label.startswith("mean") else f"{count:.0f} of {releases:.0f}"
    first = Step(label=f"{label.split(' (')[0]}: {shown}", change=share, after=share)
    if counted:
        last = "contamination: taken out in the count"
    else:
        last = "contamination by " + (
            "valid releases that score as violating" if upper
            else "invalid releases that score favorably"
        )  # fmt: skip
    return Waterfall(
        side=side,
        certified=certified,
        steps=(
            first,
            Step(label="uncertainty of the draws", change=middle - share, after=middle),
            Step(label=last, change=value - middle, after=value),
        ),
    )


def _component(bound: BoundRecord) -> tuple[list[tuple[str, float]], float]:
    """Return the steps and the level of a bound, or of its largest component.

    A bound of several components has a step "x bound" for each, in the order of their levels,
    and the steps of each under "x: ".
    """
    steps = [(step.label, step.value) for step in bound.steps]
    levels = [float(Fraction(share.amount)) for share in bound.budget]
    components = [(label, value) for label, value in steps if label.endswith(" bound")]
    if not components:
        return steps, sum(levels)
    values = [value for _, value in components]
    largest = values.index(max(values))
    prefix = components[largest][0].removesuffix("bound").strip() + ": "
    own = [(label.removeprefix(prefix), v) for label, v in steps if label.startswith(prefix)]
    return own, levels[largest]


def _without_contamination(steps: list[tuple[str, float]], alpha: float, upper: bool) -> float:
    """Return the bound if no release had scored by mistake."""
    values = dict(steps)
    for label in ("score rate at least", "score mean at least"):
        if label in values:
            return values[label]
    if "radius r_{R,B}" in values:
        return max(0.0, values["mean witness"] - values["radius r_{R,B}"])
    count, releases = int(steps[0][1]), int(values["releases"])
    clean = float(clopper_pearson_lower(count, releases, alpha=alpha))
    return 1.0 - clean if upper else clean
