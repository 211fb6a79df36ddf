"""Drawing processes that start warm, for files of tests that are not about how they start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.warm import started_by


@pytest.fixture(scope="module")
def starts_warm() -> Iterator[None]:
    """Let pools start their processes from one that has imported already."""
    with started_by("proxyguard.draw.pool"):
        yield
