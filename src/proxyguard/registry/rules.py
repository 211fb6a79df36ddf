"""Registered rules: limits, slacks, cutoffs and roles that follow from development data.

A rule is declared before its inputs exist and resolved once, at registration, with the
inputs recorded beside the result. Numbers are added and rounded in decimals, so that a
limit is the number a person would get by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

import numpy as np
from numpy.typing import ArrayLike

from proxyguard.errors import RegistryError
from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance
from proxyguard.registry.requirement import Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A number that a rule gave, with the rule and the inputs behind it."""

    value: str
    rule: str
    inputs: Mapping[str, str]


def round_up(value: Decimal, step: Decimal) -> Decimal:
    """Return the least multiple of ``step`` that is at least ``value``.

    >>> round_up(Decimal("0.14079"), Decimal("0.001"))
    Decimal('0.141')
    """
    if step <= 0:
        raise RegistryError(f"a rounding step must be positive, got {step}")
    return (value / step).to_integral_value(ROUND_CEILING) * step


def limit_from_source(
    risk: str, *, plus: str, step: str | None = None, at_most: str | None = None
) -> Resolved:
    """Return the source's risk plus a budget, rounded up, and at most a ceiling.

    >>> limit_from_source("0.09079", plus="0.05", step="0.001").value
    '0.141'
    """
    limit = _decimal("risk", risk) + _decimal("plus", plus)
    if step is not None:
        limit = round_up(limit, _decimal("step", step))
    if at_most is not None:
        limit = min(limit, _decimal("at_most", at_most))
    inputs = {"risk": risk, "plus": plus, "step": step, "at_most": at_most}
    return Resolved(
        value=str(limit),
        rule="source risk plus a budget, rounded up, at most a ceiling",
        inputs={name: text for name, text in inputs.items() if text is not None},
    )


def cutoff_from_pilot(largest: str, *, margin: str, step: str) -> Resolved:
    """Return the pilot's largest mean plus a margin, rounded up: where scores are cut off."""
    cutoff = round_up(
        _decimal("largest", largest) + _decimal("margin", margin), _decimal("step", step)
    )
    return Resolved(
        value=str(cutoff),
        rule="largest pilot mean plus a margin, rounded up",
        inputs={"largest": largest, "margin": margin, "step": step},
    )


def slack_from_plan(
    grid: Sequence[str],
    requirements: Sequence[Requirement],
    *,
    n_records: int,
    alpha_target: float,
    allowance: str,
) -> Resolved:
    """Return the smallest slack whose planned allowance ``kappa/alpha_Z`` is small enough.

    One slack serves all requirements, scaled by each one's range; ``kappa`` is the Chernoff
    ceiling of paper Eq. (11). An error when no slack of the grid suffices: a larger target
    or a larger slack is needed, and choosing one afterwards would be a new rule.
    """
    most = float(_decimal("allowance", allowance))
    for text in sorted(grid, key=lambda one: _decimal("slack", one)):
        slack = float(_decimal("slack", text))
        kappa = max(
            chernoff_ceiling(r.unit_limit - slack, r.unit_limit, n_records) for r in requirements
        )
        if markov_allowance(kappa, alpha_target) <= most:
            return Resolved(
                value=text,
                rule="smallest slack of the grid with a planned allowance at most the given one",
                inputs={
                    "grid": ", ".join(grid),
                    "n_records": str(n_records),
                    "alpha_target": repr(alpha_target),
                    "allowance": allowance,
                },
            )
    raise RegistryError(
        f"no slack of {list(grid)} brings the planned allowance to {allowance} at n = {n_records}"
    )


def choose_roles(
    margins: Mapping[str, ArrayLike], *, moderate: float, among: str = "likely"
) -> dict[str, str]:
    """Return which configuration is ``high``, ``moderate`` and ``degraded``, from pilot margins.

    ``margins`` holds each configuration's smallest margin (limit minus risk) over its
    requirements, one value a pilot release. High has the largest 10th percentile; degraded,
    among the rest, the smallest 90th; moderate, of those left, the median closest to
    ``moderate``: among all of them, or among the likely ones, which have a positive 10th
    percentile (or all left, if none has). Ties go to the configuration named first.
    """
    if len(margins) < 3:
        raise RegistryError(f"three roles need three configurations, got {len(margins)}")
    pilots = {name: np.asarray(values, dtype=np.float64) for name, values in margins.items()}
    if any(values.size == 0 or not np.all(np.isfinite(values)) for values in pilots.values()):
        raise RegistryError("every configuration needs finite pilot margins")
    tenth = {name: float(np.percentile(values, 10)) for name, values in pilots.items()}
    ninetieth = {name: float(np.percentile(values, 90)) for name, values in pilots.items()}
    high = max(pilots, key=lambda name: tenth[name])
    rest = [name for name in pilots if name != high]
    degraded = min(rest, key=lambda name: ninetieth[name])
    left = [name for name in rest if name != degraded]
    if among == "likely":
        left = [name for name in left if tenth[name] > 0.0] or left
    middle = min(left, key=lambda name: abs(float(np.median(pilots[name])) - moderate))
    return {"high": high, "moderate": middle, "degraded": degraded}


def _decimal(name: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except (ArithmeticError, TypeError, ValueError):
        raise RegistryError(f"{name} must be a number written as text, got {text!r}") from None
    if not value.is_finite():
        raise RegistryError(f"{name} must be a finite number, got {text!r}")
    return value
