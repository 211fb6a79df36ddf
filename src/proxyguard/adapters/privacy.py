"""What the releases of an audit cost in privacy, if all of them were given out.

One private fit that is sampled many times costs its epsilon once, whatever is done with it
afterwards. A mechanism that fits anew in every draw costs one epsilon a draw: released
together, R draws cost the composition of R fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from importlib.metadata import version
from typing import Literal

from scipy.optimize import minimize_scalar

from proxyguard.adapters.settings import exact, whole
from proxyguard.draw.protocol import Generator
from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import GUARD

Fits = Literal["once", "each draw"]
NoiseLaw = Literal["any", "laplace"]
WrittenNumber = str | float | Fraction
# The delta at which costs are shown, unless the fits need more or their rhos are known.
LEAST_DELTA = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyStatement:
    """What a generator says of its privacy: one fit, and how often it fits.

    Attributes
    ----------
    epsilon, delta
        What one fit costs.
    unit
        What is protected, in words: whose presence changes nothing by more than that.
    fits
        Whether one fit is sampled by all draws, or each draw fits anew.
    rho
        What one fit costs in zero-concentrated privacy (zCDP), where that is known: refits cost the
        sum of their rhos, which is less than any composition of their epsilons and deltas.
    not_covered
        What the promise does not speak of, in words.

    Raises
    ------
    RegistryError
        If these are no numbers of a promise, or a fit with a delta is to be of several parts.
    """

    epsilon: Fraction
    delta: Fraction
    unit: str
    fits: Fits
    parts: int = 1  # how many equal pure-epsilon steps one fit is made of
    seeded: bool = False  # whether its noise can be made again from a recorded seed
    rho: Fraction | None = None
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and 0 <= self.delta < 1):
            raise RegistryError(
                "a privacy statement has an epsilon above 0 and a delta of at least 0 and below 1, "
                f"got epsilon {self.epsilon}, delta {self.delta}"
            )
        if self.fits not in ("once", "each draw") or self.parts < 1:
            raise RegistryError(
                'a privacy statement says fits = "once" or "each draw", of at least one part; got '
                f"fits {self.fits!r}, parts {self.parts}"
            )
        # Refits are told by rho alone: one that is too small would understate all of them.
        if self.rho is not None and not (
            self.rho > 0 and self.delta and epsilon_at(self.rho, self.delta) <= self.epsilon
        ):
            raise RegistryError(
                f"a privacy statement with rho {self.rho} promises the epsilon that it gives at a "
                f"delta above 0, or more; got epsilon {self.epsilon}, delta {self.delta}"
            )
        # A fit is composed from equal steps without a delta; how one would divide among them is not
        # known here.
        if self.parts > 1 and self.delta:
            raise RegistryError("only a fit with delta 0 is divided into parts")

    def to_dict(self) -> dict[str, object]:
        """Return plain values; numbers are text."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "unit": self.unit,
            "fits": self.fits,
            "parts": self.parts,
            "seeded": self.seeded,
            "rho": None if self.rho is None else str(self.rho),
            "not_covered": list(self.not_covered),
        }


def privacy_of(generator: Generator | Mapping[str, object]) -> PrivacyStatement | None:
    """Return what a generator, or its recorded ``describe()``, says of privacy, if it does.

    Raises
    ------
    RegistryError
        If it says something of privacy that is no statement: a number is missing, or is none.
    """
    described = generator if isinstance(generator, Mapping) else generator.describe()
    stated = described.get("privacy")
    if stated is None:
        return None
    try:
        # A generator of others may have written this: its form is checked, and what it promises
        # stays the word of its author.
        if not isinstance(stated, Mapping):
            raise TypeError("expected a mapping")
        return PrivacyStatement(
            epsilon=Fraction(str(stated["epsilon"])),
            delta=Fraction(str(stated["delta"])),
            unit=str(stated["unit"]),
            fits=stated["fits"],
            parts=int(stated.get("parts", 1)),
            seeded=bool(stated.get("seeded", False)),
            rho=None if stated.get("rho") is None else Fraction(str(stated["rho"])),
            not_covered=tuple(str(words) for words in stated.get("not covered", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, RegistryError):
            raise
        raise RegistryError(
            "describe()['privacy'] has epsilon, delta, unit and fits, with numbers as text; got "
            f"{stated!r}: {error!r}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyCost:
    """What several fits on the same rows cost together.

    ``basic_epsilon`` and ``basic_delta`` are sums, and hold as they are. ``epsilon_upper``
    holds at ``at_delta``, and is never above the double that ``basic_epsilon`` rounds up to.
    """

    fits: int
    epsilon: Fraction  # of one fit
    delta: Fraction
    basic_epsilon: Fraction
    basic_delta: Fraction
    epsilon_upper: float
    at_delta: Fraction
    accountant: str

    def to_dict(self) -> dict[str, object]:
        """Return plain values; numbers are text."""
        return {
            "fits": self.fits,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "basic": {"epsilon": str(self.basic_epsilon), "delta": str(self.basic_delta)},
            "composed": {"epsilon": repr(self.epsilon_upper), "delta": str(self.at_delta)},
            "accountant": self.accountant,
        }


def composed(
    fits: int,
    epsilon: WrittenNumber,
    delta: WrittenNumber = "0",
    *,
    at_delta: WrittenNumber = "1e-6",
    parts: int = 1,
    noise: NoiseLaw = "any",
) -> PrivacyCost:
    """Return the cost of ``fits`` fits of ``epsilon`` and ``delta`` each, at ``at_delta``.

    Each fit is made of ``parts`` steps of ``epsilon / parts``. With ``noise = "any"`` a step
    may be anything that keeps that promise, and the answer is the best that holds for all
    of them (optimal composition). Discrete Laplace noise on counts is such a worst case, so
    nothing smaller holds for it. ``noise = "laplace"`` is for continuous Laplace noise.

    Guarantee
    ---------
    All fits together are ``(basic_epsilon, basic_delta)`` and ``(epsilon_upper, at_delta)``
    differentially private. dp-accounting rounds privacy losses up; what doubles err by is on the
    same side, and a delta that they cannot tell from none is answered by basic composition.

    Parameters
    ----------
    fits
        How many fits there are on the same rows.
    epsilon, delta
        What one of them costs.
    at_delta
        The delta at which the epsilon of all of them is wanted, at least the sum of theirs.
    parts
        Of how many equal steps one fit is made.
    noise
        What is known of a step's noise.

    Raises
    ------
    RegistryError
        If no epsilon holds at this delta, a number is none, or dp-accounting is not installed.
    """
    one = PrivacyStatement(epsilon=exact(epsilon, "epsilon"), delta=exact(delta, "delta"), unit="",
                           fits="each draw", parts=parts)  # fmt: skip
    limit = exact(at_delta, "at_delta")
    whole(fits, "fits")
    if not fits * one.delta <= limit < 1 or limit <= 0:
        raise RegistryError(
            f"{fits} fits with delta {one.delta} each have delta {fits * one.delta} by basic "
            f"composition; at_delta is above 0, at least that, and below 1, got {limit}"
        )
    if noise not in ("any", "laplace") or (noise == "laplace" and one.delta):
        raise RegistryError(
            f'noise is "any", or "laplace" with delta 0; got {noise!r}, delta {one.delta}'
        )
    upper = _accounted(one, fits * parts, limit, noise)
    accountant = f"dp-accounting {version('dp-accounting')}, privacy loss distributions"
    return _cost(one, fits, upper, limit, accountant)


def _cost(
    one: PrivacyStatement, fits: int, upper: float, at_delta: Fraction, accountant: str
) -> PrivacyCost:
    """Return what fits cost of which an accountant says an upper bound at some delta."""
    basic, delta = fits * one.epsilon, fits * one.delta
    # Basic composition holds too, at its own delta and at no smaller one: on a coarse grid the
    # accountant may give more than that.
    if delta <= at_delta:
        upper = min(upper, _least_double(basic))
    return PrivacyCost(
        fits=fits,
        epsilon=one.epsilon,
        delta=one.delta,
        basic_epsilon=basic,
        basic_delta=delta,
        epsilon_upper=upper,
        at_delta=at_delta,
        accountant=accountant,
    )


def _accounted(one: PrivacyStatement, steps: int, at_delta: Fraction, noise: NoiseLaw) -> float:
    """Return the epsilon at which all steps together have ``at_delta``, by dp-accounting."""
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError as error:
        raise RegistryError(
            f'composing private fits needs dp-accounting: pip install "proxyguard[dp]" ({error})'
        ) from error
    # Chances are convolved to about 1e-15, and to 1e-17 more with each step: a hundred times that
    # is left free. A delta without that room is one of which doubles say nothing.
    room = float(at_delta - Fraction(1000 + steps, 10**15))
    if room <= 0.0:
        return math.inf
    # Steps of a little more epsilon and delta: what holds for them holds for those asked about.
    step = _least_double(one.epsilon / one.parts)
    if noise == "laplace":
        # Losses lie anywhere in [-step, step]; each is rounded up to the grid, so that all
        # steps together are overstated by at most one part in ten thousand, or, where that
        # would be too fine a grid to convolve, one in a million for each step.
        grid = max(step / 1e4, steps * step / 1e6)
        law = privacy_loss_distribution.from_laplace_mechanism(
            1.0 / step, value_discretization_interval=grid
        )
    else:
        # Losses are -step or step, so this grid rounds none of them.
        law = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(step, _least_double(one.delta)),
            value_discretization_interval=step,
        )
    return float(law.self_compose(steps).get_epsilon_for_delta(room)) * (1.0 + GUARD)


def _least_double(number: Fraction) -> float:
    """Return the least double that is not below a number."""
    nearest = float(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a rho at which zero-concentrated privacy gives ``epsilon`` and ``delta``.

    Guarantee
    ---------
    What is rho-zCDP with the rho returned is ``(epsilon, delta)`` differentially private
    (`epsilon_at`); twelve digits, rounded down.
    """
    # epsilon_at rises with rho; epsilon itself is too much.
    low, high = Fraction(0), epsilon
    while True:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_at(middle, delta) <= epsilon else (low, middle)
        scale = 10 ** max(0, 12 - math.floor(math.log10(float(high))))
        digits = Fraction(math.floor(low * scale), scale)
        # Shown and registered in these digits, and so it has to hold in these digits.
        if digits > 0 and high - low < Fraction(1, scale) and epsilon_at(digits, delta) <= epsilon:
            return digits


def epsilon_at(rho: Fraction, delta: Fraction) -> float:
    """Return an epsilon at which rho-zCDP is ``(epsilon, delta)`` differentially private.

    By Canonne, Kamath and Steinke (2020, The Discrete Gaussian): for every order a > 1
    the epsilon ``a rho + log(1 - 1/a) + log(1/(a delta))/(a - 1)`` holds. The best order is
    looked for; whichever is found holds.
    """
    square, log_delta = float(rho), math.log(float(delta))

    def epsilon_of(log_excess: float) -> float:
        excess = math.exp(log_excess)  # the order less 1
        order = 1.0 + excess
        return order * square + math.log(excess / order) - (log_delta + math.log(order)) / excess

    best = minimize_scalar(epsilon_of, bounds=(-12.0, 24.0), method="bounded")
    # Terms of both signs are added, each with some last digits: a claim may only be weakened.
    return max(0.0, float(best.fun)) + max(1e-9, 1e-12 * float(best.fun))


def shown_delta(statement: PrivacyStatement, draws: int) -> Fraction:
    """Return the delta at which the composition of ``draws`` refits is shown.

    It is ``LEAST_DELTA``, or twice the deltas of all fits where these sum up to more than half
    of it: below their sum nothing holds, and room above it is what composition needs. The rhos of
    fits give an epsilon at every delta, and it is shown at that of one fit, so that one and all can
    be compared.
    """
    if statement.rho is not None:
        return statement.delta
    return max(LEAST_DELTA, 2 * draws * statement.delta)


def cost_of(
    statement: PrivacyStatement, draws: int, *, at_delta: WrittenNumber | None = None
) -> PrivacyCost | None:
    """Return the composition of ``draws`` refits; nothing where there is one fit to pay for.

    Without ``at_delta`` it is that of `shown_delta`.
    """
    # Whatever is done with the outcome of a private fit costs nothing more (post-processing).
    if statement.fits == "once" or draws == 1:
        return None
    limit = shown_delta(statement, draws) if at_delta is None else at_delta
    if statement.rho is not None:
        return _summed(statement, statement.rho, draws, exact(limit, "at_delta"))
    return composed(
        draws, statement.epsilon, statement.delta, at_delta=limit, parts=statement.parts
    )


def _summed(one: PrivacyStatement, rho: Fraction, draws: int, at_delta: Fraction) -> PrivacyCost:
    """Return what refits cost whose rhos are known: the rho of all is the sum."""
    if not 0 < at_delta < 1:
        raise RegistryError(f"at_delta is above 0 and below 1, got {at_delta}")
    accountant = f"rho {_short(draws * rho)} of zero-concentrated privacy"
    return _cost(one, draws, epsilon_at(draws * rho, at_delta), at_delta, accountant)


def privacy_lines(
    statement: PrivacyStatement, draws: int, *, at_delta: WrittenNumber | None = None,
    anew: bool = False,
) -> list[str]:  # fmt: skip
    """Return the words of a certificate on what ``draws`` releases cost together.

    Parameters
    ----------
    statement
        What the generator says of its privacy.
    draws
        How many releases there are.
    at_delta
        The delta at which their composition is shown; that of `shown_delta` if it is left out.
    anew
        Whether the audit prepares the generator for every draw, so that each is a fit of its own.
    """
    statement = replace(statement, fits="each draw") if anew else statement
    lines = [_promised(statement, draws, at_delta)]
    # First of all lines, because it takes back what the others promise.
    if statement.seeded:
        lines.insert(
            0,
            "Not private against whoever knows the seed, which the audit records: the noise can be "
            "made again and taken off. What follows holds against those who do not know it.",
        )
    return lines + [f"Not covered: {one}." for one in statement.not_covered]


def _promised(statement: PrivacyStatement, draws: int, at_delta: WrittenNumber | None) -> str:
    """Return what one release costs, and all of them."""
    promise = f"epsilon {_short(statement.epsilon)}"
    if statement.delta:
        promise += f", delta {_short(statement.delta)}"
    if statement.fits == "once":
        return (
            f"One private fit ({promise}; unit: {statement.unit}) is sampled {_times(draws)}. "
            "Sampling a private fit costs nothing more: all releases together cost the same "
            f"{promise}."
        )
    if draws == 1:
        return f"One draw is one private fit ({promise}; unit: {statement.unit})."
    words = (
        f"Each of {draws} draws is a private fit of its own ({promise}; unit: {statement.unit}). "
        "To release one draw costs that. "
    )
    # A delta of 1 promises nothing, and `composed` refuses it.
    if at_delta is None and shown_delta(statement, draws) >= 1:
        return (
            f"{words}To release all {draws} is not private in any useful sense: their deltas sum "
            f"up to {_short(draws * statement.delta)}."
        )
    cost = cost_of(statement, draws, at_delta=at_delta)
    assert cost is not None  # several refits
    twice = at_delta is None and cost.at_delta > LEAST_DELTA and statement.rho is None
    how = "optimal composition" if statement.rho is None else "adding up"
    return (
        f"{words}To release all {draws} costs epsilon {_short(cost.basic_epsilon)}, delta "
        f"{_short(cost.basic_delta)} by basic composition, or epsilon "
        f"{_upward(cost.epsilon_upper)}, delta {_short(cost.at_delta)}"
        f"{' (twice that of basic composition)' if twice else ''} by {how} "
        f"({cost.accountant})."
    )


def _times(draws: int) -> str:
    return "once" if draws == 1 else f"{draws} times"


def _short(cost: Fraction) -> str:
    """Return an exact cost in few digits, rounded up so that it is never understated."""
    if cost.denominator == 1:
        return str(cost.numerator)
    digits = Context(prec=6, rounding=ROUND_CEILING)
    return f"{float(digits.divide(cost.numerator, cost.denominator)):g}"


def _upward(value: float) -> str:
    """Return a cost with three decimals, rounded up so that it is never understated."""
    thousandths = -((-Fraction(value) * 1000) // 1)
    return f"{float(thousandths / 1000):.3f}"
