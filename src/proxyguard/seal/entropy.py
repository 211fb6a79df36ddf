"""The operating system's randomness and clock, in one place that a test can hold still."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


def random_bytes(size: int) -> bytes:
    """Return bytes nobody can guess: salts, keys, nonces."""
    return secrets.token_bytes(size)


def now() -> str:
    """Return the time in UTC, to the second, as RFC 3339 writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
