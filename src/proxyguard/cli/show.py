"""How the command line speaks: words for people, JSON for programs, one code for each end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proxyguard.errors import (
    Busy,
    DiskError,
    KeyExists,
    KeyMissing,
    ProxyGuardError,
    SealError,
    StageError,
)

if TYPE_CHECKING:
    from proxyguard.audit.resolve import Progress

DONE, ERROR, USAGE, UNRESOLVED, VIOLATION, BROKEN = 0, 1, 2, 3, 4, 5
MARKS = {"validated": "✓ VALIDATED", "unresolved": "? UNRESOLVED", "violation": "✗ VIOLATION"}
_COLOURS = {"validated": "32", "unresolved": "33", "violation": "31"}


def exit_code(error: ProxyGuardError) -> int:
    """Return 5 for a broken record and 1 for everything that can be mended and tried again."""
    mendable = isinstance(error, StageError | KeyMissing | KeyExists | Busy | DiskError)
    return BROKEN if isinstance(error, SealError) and not mendable else ERROR


def verdict_code(verdicts: list[Mapping[str, Any]]) -> int:
    """Return the code of the worst verdict."""
    decisions = {verdict["decision"] for verdict in verdicts}
    if "violation" in decisions:
        return VIOLATION
    return UNRESOLVED if "unresolved" in decisions or not decisions else DONE


def say(text: str = "") -> None:
    """Print a line."""
    print(text)


def give(value: Any) -> None:
    """Print plain values as JSON."""
    json.dump(value, sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
    print()


def coloured(decision: str) -> str:
    """Return the verdict's word, with colour where a person looks."""
    word = MARKS[decision]
    return f"\033[1;{_COLOURS[decision]}m{word}\033[0m" if sys.stdout.isatty() else word


def show_verdicts(predicate: Mapping[str, Any]) -> None:
    """Print every verdict with its sentence, and who attests to the opening."""
    for verdict in predicate["verdicts"]:
        say(f"{coloured(verdict['decision'])}: {verdict['mechanism']}")
        say(f"    {verdict['sentence']}")
    status = predicate["claim_status"]
    say()
    say(f"Guarantee: {status['guarantee']}. Evidence: {status['evidence']}.")
    say(f"Lineage: {status['lineage']}.")
    say(f"Attestation: {predicate['attestation']['words']}.")


@contextmanager
def bars(quiet: bool) -> Iterator[Progress]:
    """Give a progress callback that draws one bar a task, with its time left."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:  # fmt: skip
        known: dict[str, Any] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = progress.add_task(what, total=total)
            progress.update(known[what], completed=done, total=total)

        yield advance
