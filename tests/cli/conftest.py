"""What a command starts starts warm; tests of how processes end start theirs themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.warm import STARTERS, started_by


@pytest.fixture(scope="module", autouse=True)
def starts_warm() -> Iterator[None]:
    with started_by(*STARTERS):
        yield
