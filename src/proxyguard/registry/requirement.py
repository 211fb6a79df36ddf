"""What a release must satisfy: one bounded loss, one limit (paper Definition 2)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError


class Form(Enum):
    """Whether a requirement compares with the source procedure or stands alone."""

    RELATIVE = "relative"  # paired with the source procedure, Eq. (1)
    ABSOLUTE = "absolute"
    QUERY = "query"  # one side of |answer of the release - answer of the target| < limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A promise that the mean of one bounded loss stays below a limit.

    Paper Definition 2 and Eq. (2), with the slack of Eq. (10) and the ramp of Theorem 12
    for the scores that use them.

    >>> Requirement(name="error", low=0, high=1, limit=0.10).unit_limit
    0.1
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

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise RegistryError(f"a requirement needs a name, got {self.name!r}")
        try:
            object.__setattr__(self, "form", Form(self.form))
        except ValueError:
            options = " or ".join(repr(form.value) for form in Form)
            raise RegistryError(f"{self.name}: form is {options}, got {self.form!r}") from None
        for name in ("low", "high", "limit", "slack", "ramp"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Real):
                raise RegistryError(f"{self.name}: {name} must be a number, got {value!r}")
        if not -np.inf < self.low < self.limit < self.high < np.inf:
            raise RegistryError(
                f"{self.name}: need finite low < limit < high, got "
                f"{self.low!r} < {self.limit!r} < {self.high!r}"
            )
        if self.slack is not None and not self.low < self.cutoff < self.limit:
            raise RegistryError(
                f"{self.name}: need low < limit - slack < limit, got slack {self.slack!r}, "
                f"so {self.low!r} < {self.cutoff!r} < {self.limit!r}"
            )
        if self.ramp is not None and not 0.0 < _decimal(self.ramp) <= (
            _decimal(self.cutoff) - _decimal(self.low)
        ):
            raise RegistryError(
                f"{self.name}: need 0 < ramp <= cutoff - low, got ramp {self.ramp!r} with "
                f"cutoff {self.cutoff!r} and low {self.low!r}"
            )

    @property
    def cutoff(self) -> float:
        """The stricter empirical cutoff ``tau_j - s_j`` of Eq. (10), subtracted in decimals.

        ``0.3 - 0.1`` in doubles is below ``0.2``, so a mean of 20 in 100 would not pass.
        """
        if self.slack is None:
            raise RegistryError(f"{self.name}: this score needs a slack, and none is registered")
        return float(_decimal(self.limit) - _decimal(self.slack))

    @property
    def width(self) -> float:
        """The range ``b_j - a_j``."""
        return self.high - self.low

    @property
    def unit_limit(self) -> float:
        """The limit on the unit scale, ``v = (tau - a)/(b - a)``."""
        return self._unit(_decimal(self.limit))

    @property
    def unit_cutoff(self) -> float:
        """The cutoff on the unit scale."""
        return self._unit(_decimal(self.cutoff))

    @property
    def unit_ramp(self) -> float:
        """The ramp width on the unit scale, ``h_j/(b_j - a_j)``."""
        if self.ramp is None:
            raise RegistryError(f"{self.name}: this score needs a ramp, and none is registered")
        return float(_decimal(self.ramp) / (_decimal(self.high) - _decimal(self.low)))

    def _unit(self, value: Decimal) -> float:
        low, high = _decimal(self.low), _decimal(self.high)
        return float((value - low) / (high - low))

    def from_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value on the registered scale."""
        return self.low + values * self.width


def _decimal(value: float) -> Decimal:
    """Read a number as it was written: ``Decimal("0.1")`` for ``0.1``."""
    return Decimal(repr(float(value)))
