"""Numbers are read as they were written, and what is none is refused at once."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.errors import RegistryError
from proxyguard.registry import numbers
from proxyguard.registry.numbers import exact
from proxyguard.registry.parts import ClaimPart


@given(st.fractions(min_value=-1, max_value=1), st.floats(-1e9, 1e9), st.integers())
def test_every_kind_of_number_is_read_as_written(a: Fraction, b: float, c: int) -> None:
    assert exact(a) == exact(str(a)) == a
    assert exact(b) == exact(np.float64(b)) == exact(Decimal(repr(b))) == Fraction(repr(b))
    if abs(c) < 2**60:
        read = exact(np.int64(c))
        assert read == c
        assert type(read.numerator) is int  # numpy's would overflow in the next product


@pytest.mark.parametrize("number", [np.float32(0.05), np.float16(0.05), Decimal("0.050"), "5e-2"])
def test_a_twentieth_is_a_twentieth_however_it_is_held(number: Any) -> None:
    assert exact(number) == Fraction(1, 20)


@pytest.mark.parametrize(
    "number", ["1e999999999", "1e-999999999", Decimal("1e999999"), "1E+1_000_000", "1e400"]
)
def test_a_number_that_would_fill_the_memory_is_refused_at_once(number: Any) -> None:
    start = process_time()
    with pytest.raises(RegistryError, match="a level must be a number"):
        exact(number)
    assert process_time() - start < 1.0


def test_a_declaration_cannot_fill_the_memory_by_an_exponent() -> None:
    with pytest.raises(ValueError, match="expected a number written as text"):
        ClaimPart.model_validate({"reliability_target": "0.8", "alpha": "1e-999999999"})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: numbers.whole(2.0, "n"), "n must be a whole number of at least 1, got 2.0"),
        (lambda: numbers.whole(-1, "seed", least=0), "seed must be a whole number of at least 0"),
        (lambda: numbers.real("x", "budget"), "budget must be a number, got 'x'"),
        (lambda: numbers.real(-1, "budget", low=0.0), "budget must be at least 0, got -1"),
        (lambda: numbers.real(2, "eta", low=0.0, high=1.0), r"eta must be in \[0, 1\], got 2"),
        (lambda: numbers.share("1", "alpha"), r"alpha must lie in \(0, 1\), got '1'"),
        (lambda: numbers.flag("no", "futility"), "futility is True or False, got 'no'"),
        (lambda: numbers.listed("abc", "modes"), "modes must be a list, got 'abc'"),
        (lambda: numbers.reals([1, "x"], "levels"), r"levels\[1\] must be a number, got 'x'"),
    ],
)
def test_a_refusal_names_the_argument_and_what_it_got(call: Any, words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        call()
