"""Blocks that were simulated once are kept, so that a run resumes where it was cut short.

A block's name is the digest of all that its sums depend on: the study and cell, the block,
its repetitions, the seed, the methods, the sources of product and reproduction and the versions
of the numerical libraries. A file says what it holds and carries a digest of that; one that does
not fit is computed again, with a warning, and never believed. ``joblib.Memory`` would not do: it
knows a function's arguments and own text, and a sum here rests on the text of both packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import proxyguard
import reproduction
from proxyguard import DiskError
from reproduction.files import write_atomic
from reproduction.studies.study import Cell, Outcome, Sums

PACKAGES = tuple(Path(str(one.__file__)).parent for one in (proxyguard, reproduction))


class DamagedBlock(UserWarning):
    """A kept block is not what was written; it is computed again."""


def default_cache() -> Path:
    """Return where blocks are kept unless a run says otherwise."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "proxyguard" / "studies"


@cache
def source_digest(packages: tuple[Path, ...] = PACKAGES) -> str:
    """Return the digest of every source that a study may rest on: all but the command lines."""
    sources = {
        path.relative_to(package.parent).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for package in packages
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] != "cli"
    }
    return digest(sources)


def digest(content: Any) -> str:
    """Return the SHA-256 of plain values, whatever the order of their keys."""
    written = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(written.encode()).hexdigest()


def block_key(
    *,
    study: str,
    cell: Cell,
    place: int,
    block: int,
    repetitions: int,
    seed: int,
    methods: frozenset[str],
) -> str:
    """Return the digest of everything that the sums of a block depend on."""
    return digest(
        {
            "study": study,
            "cell": cell,
            "place": place,
            "block": block,
            "repetitions": repetitions,
            "seed": str(seed),
            "methods": sorted(methods),
            "source": source_digest(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        }
    )


class BlockCache:
    """A folder of blocks."""

    def __init__(self, folder: Path) -> None:
        # One folder a state of the sources, so that those of old states can be removed.
        self._folder = folder / source_digest()[:16]

    def path(self, key: str) -> Path:
        """Return the file of a block."""
        return self._folder / f"{key}.json"

    def get(self, key: str) -> Outcome | None:
        """Return the sums of a block, or ``None`` when they are not kept or were damaged."""
        path = self.path(key)
        try:
            return _decode(path.read_bytes(), key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            warnings.warn(
                f"{path} is damaged ({error}); its block is computed again",
                DamagedBlock,
                stacklevel=2,
            )
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep the sums of a block; a kill leaves the whole file or none."""
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, _encode(key, outcome))
        except (OSError, DiskError) as error:
            raise DiskError(
                f"{path} could not be written ({error}); choose another folder "
                "with --cache, or none with --no-cache"
            ) from error


def _encode(key: str, outcome: Outcome) -> bytes:
    """Return the bytes of a block; hexadecimal floats come back to the last bit."""
    sums = [
        [method, metric, one.n, one.total.hex(), one.squares.hex()]
        for (method, metric), one in outcome.items()
    ]
    content: dict[str, Any] = {"key": key, "sums": sums}
    return json.dumps({**content, "digest": digest(content)}).encode()


def _decode(written: bytes, key: str) -> Outcome:
    """Return the sums that were written under a key, or raise ``ValueError``."""
    content = json.loads(written)
    if not isinstance(content, Mapping) or set(content) != {"key", "sums", "digest"}:
        raise ValueError("it is no block")
    if content["key"] != key:
        raise ValueError("it is another block's")
    if content["digest"] != digest({"key": key, "sums": content["sums"]}):
        raise ValueError("its digest is another one")
    return {
        (method, metric): Sums(n, float.fromhex(total), float.fromhex(squares))
        for method, metric, n, total, squares in content["sums"]
    }
