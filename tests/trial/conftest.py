"""A home of their own for all trials here: each remembers the records that it looked at.

What a trial starts starts warm.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.warm import STARTERS, started_by


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROXYGUARD_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", autouse=True)
def starts_warm() -> Iterator[None]:
    with started_by(*STARTERS):
        yield
