"""One thread and one hypothesis profile, so that a test means the same on every machine."""

from __future__ import annotations

import os

# Read when the libraries are loaded, so this precedes the first import of numpy.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

from collections.abc import Iterator

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("proxyguard", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("proxyguard")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Hold libraries to one thread even if a plugin imported numpy before this file."""
    with threadpool_limits(limits=1):
        yield
