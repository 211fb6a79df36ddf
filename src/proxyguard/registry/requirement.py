"""What a release must satisfy: one bounded loss, one limit (paper Definition 2).

How it is told in words comes first, then `Requirement`, last the registered rules, by which limits,
slacks, cutoffs and roles follow from development data.

A rule is declared before its inputs exist and resolved once, at registration, with the
inputs recorded beside the result. Numbers are added and rounded in decimals, so that a
limit is the number a person would get by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import inf, ulp
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import RegistryError
from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance
from proxyguard.registry.numbers import flag, member, whole

# How far apart doubles may lie in a range, as a share of its width.
HELD = 1e-9

# How many widths from 0 a range may lie where a mean meets a cutoff, or where means alone are
# given: farther out a mean on its cutoff has lost the digits that say so, and `TIE_GUARD` does not
# give them back.
FARTHEST = 64.0

# Widths of a range: squares of its losses, for variances, neither vanish nor overflow.
NARROWEST, WIDEST = 1e-100, 1e100


def check_range(name: str, low: float, high: float) -> None:
    """Refuse a range of losses, or of what they are made from, that doubles cannot hold.

    At 1e15 neighbouring doubles are 1/8 apart: a loss, a limit or a width there is off by more
    than any test can forgive, and a mean at its limit would be validated.
    """
    if not -inf < low < high < inf:
        raise RegistryError(f"{name}: need a finite range low < high, got {low!r} and {high!r}")
    width, spacing = high - low, ulp(max(abs(low), abs(high)))
    if not NARROWEST <= width <= WIDEST:
        raise RegistryError(
            f"{name}: the range [{low!r}, {high!r}] has width {width:g}, and doubles hold the "
            f"variances of widths from {NARROWEST:g} to {WIDEST:g}; rescale the loss"
        )
    if spacing > HELD * width:
        raise RegistryError(
            f"{name}: doubles in the range [{low!r}, {high!r}] are {spacing:g} apart, "
            f"{spacing / width:.1g} of its width, and {HELD:g} is needed; shift the loss so that "
            "its range starts near 0"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """How a person reads a mean, or a difference of two.

    Parameters
    ----------
    factor
        What a value is multiplied by before it is printed.
    level
        What stands behind a mean.
    gap
        What stands behind a difference of two means; as behind a mean unless given.
    aside
        What stands beside a limit, in brackets; ``{}`` is the number as it is registered.

    Examples
    --------
    >>> PERCENT.amount(0.05), PERCENT.amount(0.05, gap=True)
    ('5 %', '5 percentage points')
    >>> Unit(factor=500, level=" dollars", aside="{} of the range 0 to 500").limit(0.1)
    '50 dollars (0.1 of the range 0 to 500)'
    """

    factor: float = 1.0
    level: str = ""
    gap: str | None = None
    aside: str = ""

    def amount(self, value: float, *, gap: bool = False) -> str:
        """Return a value in this unit, as a person writes it."""
        behind = self.level if not gap or self.gap is None else self.gap
        # In fractions: 0.07 of 100 is 7, and in doubles it is 7.000000000000001.
        shown = plain_number(_written(value) * _written(self.factor))
        if behind == " percentage points" and shown == "1":
            behind = " percentage point"
        return f"{shown}{behind}"

    def limit(self, value: float, *, gap: bool = False) -> str:
        """Return a limit in this unit, with what stands beside it."""
        said = self.amount(value, gap=gap)
        if not self.aside:
            return said
        return f"{said} ({self.aside.replace('{}', plain_number(_written(value)))})"


PERCENT = Unit(factor=100, level=" %", gap=" percentage points")
NUMBER = Unit()


def between(low: float, high: float) -> Unit:
    """Return the unit of a number that says little without its scale.

    >>> between(0, 1).limit(0.2)
    '0.2 (on a scale from 0 to 1)'
    """
    return Unit(aside=f"on a scale from {low:.10g} to {high:.10g}")


def own_unit(name: str, low: float, high: float) -> Unit:
    """Return the unit of numbers that are registered in it.

    >>> own_unit("kg", 0, 50).limit(2.5)
    '2.5 kg (on a scale from 0 to 50 kg)'
    """
    return Unit(level=f" {name}", aside=f"on a scale from {low:.10g} to {high:.10g} {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWords:
    """What a requirement limits, in words.

    Parameters
    ----------
    words
        What the mean is called: ``error rate``.
    unit
        In which unit a person reads it.
    whose
        Whose it is: `MODEL`, `PREDICTIONS`, or nothing where the words say it.
    own
        What stands behind its numbers as they are registered, where they are in a named unit.
    """

    words: str
    unit: Unit = NUMBER
    whose: str = ""
    own: str = ""


MODEL = "a model trained on a release"
PREDICTIONS = "the predictions of a release"
SOURCE = {
    MODEL: "the model trained on the real development data",
    PREDICTIONS: "the predictions of the source",
}


def promise(
    quantity: LossWords,
    form: str,
    limit: float,
    *,
    cutoff: float | None = None,
    ramp: float | None = None,
) -> str:
    """Return what is required, in one sentence without its first capital and its full stop.

    Parameters
    ----------
    quantity
        What is limited.
    form
        ``"relative"``, ``"absolute"`` or ``"query"``.
    limit
        What the mean must stay strictly below.
    cutoff
        What an observed mean must not exceed, of a score with a slack.
    ramp
        The width below the cutoff over which a smooth score falls.

    Examples
    --------
    >>> error = LossWords(words="error rate", unit=PERCENT, whose=MODEL)
    >>> promise(error, "absolute", 0.1)
    'the error rate of a model trained on a release must stay below 10 %'
    >>> print(promise(error, "relative", 0.05, cutoff=0.03))
    the error rate of a model trained on a release may exceed that of the model trained on the real
    development data by less than 5 percentage points (cutoff of its score: 3 percentage points)
    >>> share = LossWords(words="share of records with ill = yes", unit=PERCENT)
    >>> print(promise(share, "query", 0.02))
    the share of records with ill = yes in a release may differ from that in the target by less than
    2 percentage points
    """
    unit, gap = quantity.unit, form != "absolute"
    subject = f"the {quantity.words}"
    if form == "query":
        said = f"{subject} in a release may differ from that in the target by less than "
        said += unit.limit(limit, gap=True)
    else:
        subject += f" of {quantity.whose}" if quantity.whose else ""
        source = f"that of {SOURCE.get(quantity.whose, 'the source')}"
        if form == "absolute":
            said = f"{subject} must stay below {unit.limit(limit)}"
        elif limit > 0:
            said = f"{subject} may exceed {source} by less than {unit.limit(limit, gap=True)}"
        elif limit < 0:
            said = f"{subject} must lie below {source} by more than "
            said += unit.limit(-limit, gap=True)
        else:
            said = f"{subject} must stay below {source}"
    if cutoff is None:
        return said
    falls = "" if ramp is None else f", after a ramp of {unit.amount(ramp, gap=True)}"
    return f"{said} (cutoff of its score: {unit.amount(cutoff, gap=gap)}{falls})"


def sentence(said: str, group: str | None = None, over: str = "") -> str:
    """Return a promise as a sentence, with the records that count and what means are over.

    >>> sentence("the error rate must stay below 10 %", "site = north")
    'Among records of the group site = north, the error rate must stay below 10 %.'
    """
    whole = said if group is None else f"among records of the group {group}, {said}"
    whole = f"{whole}, {over}" if over else whole
    return f"{whole[0].upper()}{whole[1:]}."


def plain_number(number: Fraction) -> str:
    """Return a number as a person writes it: 10 and 2.5, neither 10.0 nor 2.5000000001."""
    return f"{float(number):.15g}"


# The group of target records that requirements about exposure count.
NONMEMBERS = "records that equal no member's"


class Form(Enum):
    """Whether a requirement compares with the source procedure or stands alone.

    Attributes
    ----------
    RELATIVE
        The loss is paired with that of the source procedure: paper Eq. (1).
    ABSOLUTE
        The loss stands alone.
    QUERY
        One side of ``|answer of the release - answer of the target| < limit``.
    EXPOSURE
        What an attack on the release finds among members, and not among others.
    """

    RELATIVE = "relative"  # paired with the source procedure, Eq. (1)
    ABSOLUTE = "absolute"
    QUERY = "query"  # one side of |answer of the release - answer of the target| < limit
    EXPOSURE = "exposure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A promise that the mean of one bounded loss stays below a limit.

    Paper Definition 2 and Eq. (2), with the slack of Eq. (10) and the ramp of Theorem 12
    for the scores that use them.

    Parameters
    ----------
    name
        What the loss is called, in tables and sentences.
    low, high
        The bounds ``a_j`` and ``b_j`` of the loss: a loss outside them is refused, never clipped.
    limit
        ``tau_j``, which the mean must stay strictly below.
    form
        Whether the loss is paired with the source's, see `Form`.
    two_valued
        Declares that the loss takes the values ``low`` and ``high`` alone, so that exact binomial
        tests are valid.
    indicator
        Declares a share of a query: 0 or 1 a record, less the release's own answer.
    slack
        ``s_j``: scores with a slack compare with the cutoff ``limit - slack``.
    ramp
        ``h_j``: the width over which a smooth score falls from 1 to 0 below the cutoff.
    group
        Only records of this subgroup count, see `Records`.
    missing
        What a missing loss is: ``"refuse"`` an error, ``"worst"`` one at its upper bound where
        validity is claimed and at its lower bound where a violation is.
    thresholds
        ``m``: a violation is looked for at so many thresholds, and its p-value multiplied by it.
    member_error
        ``alpha_1``: the error of a sample of members, which is added to every p-value.
    promise, attack
        What it promises in words, where its limit does not say it: of an exposure, with
        ``{attacks}`` for who attacks, and the attack; of a ratio.
    quantity
        What the loss is in words, for its `sentence`; left out, its name and bounds.

    Raises
    ------
    RegistryError
        Where the numbers are none, not ordered, or such that doubles cannot hold their range.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, slack=0.02)
    >>> error.cutoff
    0.08
    >>> Requirement(name="loss in dollars", low=0, high=500, limit=50).unit_limit
    0.1
    >>> Requirement(name="brier", low=0, high=1, limit=0.2).sentence
    "The mean of 'brier' must stay below 0.2 (on a scale from 0 to 1)."
    """

    name: str
    low: float  # a_j
    high: float  # b_j
    limit: float  # tau_j
    form: Form = Form.ABSOLUTE
    two_valued: bool = False  # the loss takes only the values low and high
    indicator: bool = False  # 0 or 1 a record, less the release's own answer: a share of a query
    slack: float | None = None  # s_j
    ramp: float | None = None  # h_j
    group: str | None = None  # only records of this subgroup count
    missing: str = "refuse"  # or "worst": at either bound, whichever weakens what is claimed
    thresholds: int = 1  # m, over which a violation is corrected
    member_error: float = 0.0  # alpha_1, of a sample of members
    promise: str | None = None  # in words, where the limit does not say it
    attack: str | None = None  # of an exposure: by which attack
    quantity: LossWords | None = None  # what its loss is, in words

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise RegistryError(f"a requirement needs a name, got {self.name!r}")
        object.__setattr__(self, "form", member(Form, self.form, f"{self.name}: form"))
        for name in ("low", "high", "limit", "slack", "ramp"):
            if name not in ("slack", "ramp") or getattr(self, name) is not None:
                object.__setattr__(self, name, self._number(name))
        for name in ("two_valued", "indicator"):
            flag(getattr(self, name), f"{self.name}: {name}")
        for name, what in (
            ("group", "the name of a subgroup"),
            ("promise", "a promise in words"),
            ("attack", "the name of an attack"),
        ):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, str) or not given):
                raise RegistryError(f"{self.name}: {name} is {what}, got {given!r}")
        if not isinstance(self.missing, str) or self.missing not in ("refuse", "worst"):
            raise RegistryError(
                f'{self.name}: missing is "refuse" or "worst", got {self.missing!r}'
            )
        if self.missing == "worst" and (self.indicator or self.form is Form.EXPOSURE):
            raise RegistryError(
                f"{self.name}: only a loss can be missing; a share counts records in a cell, and a "
                "record without a value is in none"
            )
        if self.quantity is not None and not isinstance(self.quantity, LossWords):
            raise RegistryError(f"{self.name}: quantity is a LossWords, got {self.quantity!r}")
        whole(self.thresholds, f"{self.name}: thresholds")
        object.__setattr__(self, "member_error", float(self._number("member_error")))
        if not 0.0 <= self.member_error < 1.0:
            raise RegistryError(
                f"{self.name}: member_error is at least 0 and below 1, got {self.member_error!r}"
            )
        if not -inf < self.low < self.limit < self.high < inf:
            raise RegistryError(
                f"{self.name}: need finite low < limit < high, got "
                f"{self.low!r} < {self.limit!r} < {self.high!r}"
            )
        check_range(self.name, self.low, self.high)
        if self.slack is not None and not self.low < self.cutoff < self.limit:
            raise RegistryError(
                f"{self.name}: need low < limit - slack < limit, got slack {self.slack!r}, "
                f"so {self.low!r} < {self.cutoff!r} < {self.limit!r}"
            )
        if self.slack is not None and self.is_far:
            raise RegistryError(
                f"{self.name}: in the range [{self.low!r}, {self.high!r}] a mean on the cutoff "
                f"{self.cutoff!r} cannot be told from one above it; shift the loss so that its "
                "range starts near 0, or leave slack out"
            )
        if self.ramp is not None and not 0 < _written(self.ramp) <= (
            _written(self.cutoff) - _written(self.low)
        ):
            raise RegistryError(
                f"{self.name}: need 0 < ramp <= cutoff - low, got ramp {self.ramp!r} with "
                f"cutoff {self.cutoff!r} and low {self.low!r}"
            )
        self._check_units()

    def _number(self, name: str) -> float:
        """Return a bound as a number that arrays can be compared with; text is refused."""
        given: object = getattr(self, name)
        if isinstance(given, bool) or not isinstance(given, Real | Decimal):
            raise RegistryError(f"{self.name}: {name} must be a number, got {given!r}")
        try:
            number = float(given)
        except (OverflowError, ValueError):  # whole numbers and signalling decimals
            number = inf
        if not -inf < number < inf:
            raise RegistryError(
                f"{self.name}: {name} must be a finite number that a double holds, got {given!r}"
            )
        # A whole number stays one, so that errors print the bounds as they were declared.
        return int(number) if isinstance(given, Integral) else number

    def _check_units(self) -> None:
        """Refuse limits, cutoffs and ramps that meet each other or an end on the unit scale."""
        limit = self.unit_limit
        # The violation direction tests 1 - v, which must not be an end either.
        held = 0.0 < limit < 1.0 and 1.0 - limit < 1.0
        if self.slack is not None:
            held = held and 0.0 < self.unit_cutoff < limit
        if self.ramp is not None:
            held = held and self.unit_ramp > 0.0
        if not held:
            raise RegistryError(
                f"{self.name}: in doubles, limit {self.limit!r}"
                + (f", slack {self.slack!r}" if self.slack is not None else "")
                + (f", ramp {self.ramp!r}" if self.ramp is not None else "")
                + f" cannot be told from an end of [{self.low!r}, {self.high!r}] or from each "
                "other; register a narrower range or a limit, slack and ramp that differ"
            )

    @property
    def cutoff(self) -> float:
        """The stricter empirical cutoff ``tau_j - s_j`` of Eq. (10), subtracted in decimals.

        ``0.3 - 0.1`` in doubles is below ``0.2``, so a mean of 20 in 100 would not pass.
        """
        if self.slack is None:
            raise RegistryError(f"{self.name}: this score needs a slack, and none is registered")
        return _difference(self.limit, self.slack)

    @property
    def sentence(self) -> str:
        """What is required, in one plain sentence."""
        return required([self])[0]

    @property
    def unit(self) -> str:
        """What stands behind its numbers as they are registered, " kg"; nothing behind most."""
        return "" if self.quantity is None or not self.quantity.own else f" {self.quantity.own}"

    @property
    def is_far(self) -> bool:
        """Whether the range lies so far from 0 that doubles cannot tell a tie in it."""
        return max(abs(self.low), abs(self.high)) > FARTHEST * self.width

    @property
    def width(self) -> float:
        """The range ``b_j - a_j``."""
        return self.high - self.low

    @property
    def two_directions(self) -> bool:
        """Whether validation and violation look at two thresholds, or at two limits of a share."""
        return self.thresholds > 1 or self.member_error > 0.0

    @property
    def fills_missing(self) -> bool:
        """Whether missing losses are filled, with another bound in each direction."""
        return self.missing == "worst"

    @property
    def unit_limit(self) -> float:
        """The limit on the unit scale, ``v = (tau - a)/(b - a)``."""
        return _part(self.limit, self.low, self.low, self.high)

    @property
    def unit_cutoff(self) -> float:
        """The cutoff on the unit scale."""
        return _part(self.cutoff, self.low, self.low, self.high)

    @property
    def unit_ramp(self) -> float:
        """The ramp width on the unit scale, ``h_j/(b_j - a_j)``."""
        if self.ramp is None:
            raise RegistryError(f"{self.name}: this score needs a ramp, and none is registered")
        return _part(self.ramp, 0.0, self.low, self.high)

    def from_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``values`` of the unit scale on the registered scale."""
        return self.low + values * self.width


def required(requirements: Sequence[Requirement], over: str = "") -> tuple[str, ...]:
    """Return what is required, a sentence for each promise.

    Both sides of a query, all cells of a workload and all attacks of an exposure make one promise.

    Parameters
    ----------
    requirements
        The requirements.
    over
        What means are over, of a design other than iid: its ``over``.

    Examples
    --------
    >>> both = [
    ...     Requirement(name=f"age ({side})", low=-90, high=90, limit=2, form="query",
    ...                 quantity=LossWords(words="mean of age"), group="sex = f")
    ...     for side in ("above", "below")
    ... ]
    >>> print(*required(both))
    Among records of the group sex = f, the mean of age in a release may differ from that in the
    target by less than 2.
    """
    attacks: dict[tuple[str, str | None, str], list[str]] = {}
    for r in requirements:
        means = over
        if over and r.form is Form.QUERY:  # a release has no design, whatever the target's is
            means = f"the target's {over}, the release's over its own records, each counting once"
        named = attacks.setdefault((_promised(r), r.group, means), [])
        named += [r.attack] if r.attack else []
    return tuple(
        # Braces in a column's name are not for us to fill in.
        sentence(said.replace("{attacks}", attackers(names)) if names else said,
                 None if group == NONMEMBERS else group, means)
        for (said, group, means), names in attacks.items()
    )  # fmt: skip


def attackers(names: Sequence[str]) -> str:
    """Return who attacks, in words.

    >>> attackers(["dcr"]), attackers(["dcr", "density"])
    ('the attack dcr', 'the 2 attacks dcr and density')
    """
    if len(names) == 1:
        return f"the attack {names[0]}"
    return f"the {len(names)} attacks {', '.join(names[:-1])} and {names[-1]}"


def _promised(r: Requirement) -> str:
    """Return what a requirement promises, of losses that nobody described by name and bounds."""
    if r.promise is not None:
        return r.promise
    quantity, form = r.quantity, r.form.value
    if quantity is None:
        share = r.two_valued and (r.low, r.high) == (0, 1)
        words = f"share of {r.name!r}" if share else f"mean of {r.name!r}"
        # Whose mean it is compared with stands in the words: nobody said whose losses these are.
        words += " less that of the source" if r.form is Form.RELATIVE else ""
        quantity = LossWords(words=words, unit=PERCENT if share else between(r.low, r.high))
        form = "absolute"
    cutoff = None if r.slack is None else r.cutoff
    said = promise(quantity, form, r.limit, cutoff=cutoff, ramp=r.ramp)
    return f"{said}, a missing loss counting as the worst" if r.missing == "worst" else said


# A planner asks for the same few numbers a hundred thousand times.
@lru_cache(maxsize=1 << 14)
def _written(number: float) -> Fraction:
    """Read a number as it was written: ``Fraction(1, 10)`` for ``0.1``."""
    return Fraction(repr(float(number)))


@lru_cache(maxsize=1 << 14)
def _difference(number: float, less: float) -> float:
    """Return a difference in fractions, rounded once."""
    return float(_written(number) - _written(less))


@lru_cache(maxsize=1 << 14)
def _part(number: float, start: float, low: float, high: float) -> float:
    """Return how far a number lies from ``start``, as a part of the range from low to high."""
    # In fractions, and rounded once: 0.3 of [0, 1] is 0.3 and no double beside it.
    low_, high_ = _written(low), _written(high)
    return float((_written(number) - _written(start)) / (high_ - low_))


def as_requirements(requirements: object) -> tuple[Requirement, ...]:
    """Return the requirements on given losses, or say that they are none.

    Losses do not tell which answer a release gave, so that a share is read as any other mean.
    """
    if isinstance(requirements, Sequence) and all(
        isinstance(requirement, Requirement) for requirement in requirements
    ):
        return tuple(replace(requirement, indicator=False) for requirement in requirements)
    what = "one; write [requirement]" if isinstance(requirements, Requirement) else "others"
    raise RegistryError(
        "requirements are a list of Requirement(name=..., low=..., high=..., limit=...), got "
        f"{what}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A number that a rule gave, with the rule and the inputs behind it."""

    value: str
    rule: str
    inputs: Mapping[str, str]


def next_multiple(number: Decimal, step: Decimal) -> Decimal:
    """Return the least multiple of ``step`` that is at least ``number``.

    >>> next_multiple(Decimal("0.14079"), Decimal("0.001"))
    Decimal('0.141')
    """
    if step <= 0:
        raise RegistryError(f"a rounding step must be positive, got {step}")
    return (number / step).to_integral_value(ROUND_CEILING) * step


def limit_from_source(
    risk: str, *, plus: str, step: str | None = None, at_most: str | None = None
) -> Resolved:
    """Return the source's risk plus a budget, rounded up, and at most a ceiling.

    >>> limit_from_source("0.09079", plus="0.05", step="0.001").value
    '0.141'
    """
    limit = _decimal("risk", risk) + _decimal("plus", plus)
    if step is not None:
        limit = next_multiple(limit, _decimal("step", step))
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
    cutoff = next_multiple(
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
    for text in sorted(grid, key=lambda slack: _decimal("slack", slack)):
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
        number = Decimal(text)
    except (ArithmeticError, TypeError, ValueError):
        raise RegistryError(f"{name} must be a number written as text, got {text!r}") from None
    if not number.is_finite():
        raise RegistryError(f"{name} must be a finite number, got {text!r}")
    return number
