"""A home of their own for all trials here: each remembers the records that it looked at.

What a trial starts starts warm, and chances are found on few simulated targets.
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


@pytest.fixture(scope="session", autouse=True)
def foretells_soon() -> Iterator[None]:
    """Foretell an audit's chance on fewer targets: tests/plan has how good such a chance is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyguard.trial.seen.REPETITIONS", 80)
        patch.setattr("proxyguard.trial.seen.EFFORT", 20_000)
        yield
