"""One thread, one hypothesis profile and fixed seeds: a test means the same on every machine."""

from __future__ import annotations

import os
import random

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


@pytest.fixture(scope="session", autouse=True)
def repeatable_session() -> Iterator[None]:
    """Salts and keys of what many tests share come from a fixed sequence too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_bytes", random.Random(20260803).randbytes)
        yield


@pytest.fixture(autouse=True)
def repeatable_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds, salts and keys come from a fixed sequence, still one after the other."""
    monkeypatch.setattr("secrets.randbits", random.Random(20260801).getrandbits)
    monkeypatch.setattr("secrets.token_bytes", random.Random(20260802).randbytes)
