"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from proxyguard import DiskError

LEFTOVER = ".part"
"""Suffix of a file that is being written."""


def write_atomic(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path``: a reader sees all of it or nothing, after a kill too."""
    part = path.with_name(f"{path.name}.{os.getpid()}{LEFTOVER}")  # another process has its own
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or the new name could outlive a crash without its bytes
        os.replace(part, path)
    except OSError as error:
        raise DiskError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed, mend "
            "the disk and run it again"
        ) from error


def sweep(folder: Path) -> None:
    """Remove what killed writes left behind; nobody else may be writing there."""
    for leftover in folder.glob(f"*{LEFTOVER}"):
        leftover.unlink()
