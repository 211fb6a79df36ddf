"""Numbers of a declaration as they are written."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from proxyguard.adapters.settings import exact
from proxyguard.errors import RegistryError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0.1", Fraction(1, 10)),
        ("1e-6", Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        (0.1, Fraction(1, 10)),  # not the double's 0.1000000000000000055
        (np.float64(0.1), Fraction(1, 10)),
        (3, Fraction(3)),
        (Fraction(2, 7), Fraction(2, 7)),
    ],
)
def test_a_number_is_what_is_written(value: object, expected: Fraction) -> None:
    assert exact(value, "x") == expected


@pytest.mark.parametrize("value", ["much", "1/0", "nan", float("inf"), True, None, [1]])
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(RegistryError, match=r'share is a number, such as "1" or "0\.1", got'):
        exact(value, "share")


def test_limits_are_named_and_the_upper_one_is_allowed() -> None:
    assert exact("1", "share", above=0, most=1) == 1
    for value in ("0", "1.5", "x"):
        with pytest.raises(RegistryError, match="share is a number above 0 and at most 1"):
            exact(value, "share", above=0, most=1)
