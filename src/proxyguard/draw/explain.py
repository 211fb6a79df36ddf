"""Why a draw gave no release, in words: what its code raised, where, and what it was refused."""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

from proxyguard.draw.messages import WORDS, Failed, ReadFiles, in_words
from proxyguard.errors import ProxyGuardError


def failure(
    seed: int, files: ReadFiles, error: BaseException, computed: Mapping[str, str] | None = None
) -> Failed:
    """Return the record of a draw that gave no release; of a file, which one it was."""
    words = error_words(error)
    for name in files:
        if Path(name).name not in words:
            words = f"{name}: {words}"
    return Failed(seed=seed, error=words, files=dict(files), computed=dict(computed or {}))


def error_words(error: BaseException) -> str:
    """Return one line about an error; a user's own also says where it arose.

    It reaches the report, which is no place for the folders of whoever drew.
    """
    if isinstance(error, ProxyGuardError):
        return in_words(_without_folders(str(error)))
    # Shorter than what is taken, which has room for the place and the advice after it.
    words = in_words(_without_folders(f"{type(error).__name__}: {_said_by(error)}"), WORDS // 2)
    told = f"{words}{where(error)}"
    if isinstance(error, SystemExit):
        told = f"it called sys.exit: {told}; a generator returns a table or raises"
    refused = _refused_path(error)
    if refused is not None:
        told += (
            "; a draw may not read what is neither code nor development data, nor write outside "
            f"its temporary folder. {refused} was refused: if it is a device, an interpreter or a "
            f"model that the draws need, register it with allow = [{json.dumps(refused)}] in the "
            "mechanism's table"
        )
    return told


def _said_by(error: BaseException) -> str:
    """Return an error's own words; whoever raised it also made what turns it into text."""
    try:
        return str(error)
    except BaseException as again:
        return f"(no words: its __str__ raised {type(again).__name__})"


def where(error: BaseException) -> str:
    """Say where an error arose, without a look at the source: the name may be that of a FIFO."""
    places = [(frame.f_code.co_filename, line) for frame, line in _frames(error)]
    if not places:
        return ""
    file, line = places[-1]
    return f" (in {in_words(Path(file).name, 200)}, line {line})"


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(error.__traceback__)


SHARED_MEMORY = "/dev/shm"
# A chain of causes is made by the generator's code, and may lead back to itself.
_CAUSES = 10
# Modules of multiprocessing whose locks and memory lie in /dev/shm, which their errors hide.
_SHARED = ("synchronize.py", "shared_memory.py", "heap.py")


def _refused_path(error: BaseException) -> str | None:
    """Return what a draw was refused, also where its code wrapped the refusal in another error.

    A path in the user's home is written with a tilde, which ``allow`` reads: the words reach the
    report.
    """
    cause: BaseException | None = error
    for _ in range(_CAUSES):
        if cause is None:
            break
        if _in_shared_memory(cause):
            return SHARED_MEMORY
        if isinstance(cause, PermissionError):
            if not isinstance(cause.filename, str):
                return "PATH"
            path, home = os.path.abspath(cause.filename), os.path.expanduser("~")
            return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
        cause = cause.__cause__ or cause.__context__
    return None


def _in_shared_memory(error: BaseException) -> bool:
    """Return whether it was shared memory that was refused, as its users in Python say it."""
    if not isinstance(error, PermissionError):
        words = _said_by(error)
        return "shared memory" in words and "Permission denied" in words
    files = [Path(frame.f_code.co_filename) for frame, _ in _frames(error)]
    return any(file.parent.name == "multiprocessing" and file.name in _SHARED for file in files)


_QUOTED = re.compile(r"""(['"])/(?:[^'"/]+/)*([^'"/]+)/?\1""")
_BARE = re.compile(r"""(?<![\w.:/'"])/(?:[^\s'":,;()/]+/)+([^\s'":,;()/]+)""")


def _without_folders(text: str) -> str:
    """Return text in which every absolute path is its last part alone."""
    return _BARE.sub(r"\1", _QUOTED.sub(r"\1\2\1", text))
