"""How the command line speaks: words for people, JSON for programs, one code for each end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyguard.errors import (
    Busy,
    DiskError,
    KeyExists,
    KeyMissing,
    ProxyGuardError,
    SealError,
    StageError,
    Unprotected,
)
from proxyguard.report.printable import printable

if TYPE_CHECKING:
    from proxyguard.audit.resolve import Progress
    from proxyguard.audit.status import Status


class Exit(IntEnum):
    """How a command ends, for programs; README and ``proxyguard --help`` say the same.

    Of several that apply, verify gives the first of BROKEN, PARTLY and DONE, and open and run
    the first of VIOLATION, UNRESOLVED, UNGUARANTEED and DONE.
    """

    DONE = 0  # done, validated, or everything holds
    ERROR = 1  # something can be mended and tried again
    USAGE = 2
    UNRESOLVED = 3
    VIOLATION = 4
    BROKEN = 5  # the record is broken
    PARTLY = 6  # it holds as far as it was checked
    UNGUARANTEED = 7  # validated, and no guarantee remains


MARKS = {"validated": "✓ VALIDATED", "unresolved": "? UNRESOLVED", "violation": "✗ VIOLATION"}
_COLOURS = {"validated": "32", "unresolved": "33", "violation": "31"}
_STYLES = {"validated": "green", "unresolved": "yellow", "violation": "red"}


def exit_code(error: ProxyGuardError) -> Exit:
    """Return 5 for a broken record and 1 for everything that can be mended and tried again."""
    mendable = isinstance(
        error, StageError | KeyMissing | KeyExists | Busy | DiskError | Unprotected
    )
    return Exit.BROKEN if isinstance(error, SealError) and not mendable else Exit.ERROR


def verdict_code(verdicts: list[Mapping[str, Any]]) -> Exit:
    """Return the code of the worst verdict."""
    decisions = {verdict["decision"] for verdict in verdicts}
    if "violation" in decisions:
        return Exit.VIOLATION
    unsettled = "unresolved" in decisions or not decisions
    return Exit.UNRESOLVED if unsettled else Exit.DONE


def outcome_code(folder: Path, predicate: Mapping[str, Any]) -> Exit:
    """Return the code of a certified audit: a pipeline must not take it for validated too easily.

    What remains of the guarantee is what the report says, deviations after the certificate
    included.
    """
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.report.provenance import lost_guarantee

    worst = verdict_code(predicate["verdicts"])
    ledger = [entry.to_dict() for entry in AuditFolder(folder).journal().ledger.entries]
    lost = worst is Exit.DONE and lost_guarantee(predicate, ledger)
    return Exit.UNGUARANTEED if lost else worst


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


def show_outcome(folder: Path, predicate: Mapping[str, Any]) -> None:
    """Print what an audit ended with, and who attests to the opening."""
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.status import status_of

    found = status_of(AuditFolder(folder))
    show_verdicts(found.verdicts)
    say()
    show_standing(found)
    status = predicate["claim_status"]
    say(printable(f"Evidence: {status['evidence']}. Lineage: {status['lineage']}."))
    say_stated([str(one["about"]) for one in predicate["stated_not_checked"]])


def say_stated(about: Sequence[str]) -> None:
    """Print what stays the author's word; the report has the sentences."""
    if about:
        say(printable(f"Stated by the author, not checked: {', '.join(about)}."))


def show_standing(found: Status) -> None:
    """Print what remains of the guarantee, who attests to the opening, and what was admitted."""
    say(printable(f"Guarantee: {found.guarantee}."))
    say(printable(f"Attestation: {found.attestation}."))
    for reason in found.deviations:
        say(printable(f"Deviation: {reason}"))


def show_verdicts(verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Print every verdict: mark and word, sentence, interval, what binds, what next."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    # Text is never read as markup, so that no name can style, link or hide anything.
    console = Console(highlight=False, markup=False, emoji=False)
    # A warning is about the whole audit: its reason stands once, its short form at every verdict.
    for warning in dict.fromkeys(v["warning"] for v in verdicts if v.get("warning")):
        console.print(Text(printable(warning), style="bold"), soft_wrap=not console.is_terminal)
    for verdict in verdicts:
        title = Text(MARKS[verdict["decision"]], style=f"bold {_STYLES[verdict['decision']]}")
        title.append(f": {printable(verdict['mechanism'])}", style="bold")
        if verdict.get("warning"):
            title.append(" (no guarantee remains)")
        console.print(title, soft_wrap=not console.is_terminal)
        for line in _verdict_lines(verdict):
            if console.is_terminal:
                console.print(Padding(Text(line), (0, 0, 0, 4)))
            else:
                console.print(Text(f"    {line}"), soft_wrap=True)


def _verdict_lines(verdict: Mapping[str, Any]) -> Iterator[str]:
    yield printable(verdict["sentence"])
    if verdict.get("target") is not None and verdict.get("lower") is not None:
        yield from _interval_lines(verdict)
    if verdict.get("binding"):
        yield f"Binding requirement: {printable(verdict['binding'])}"
    if verdict.get("advice"):
        yield f"What next: {printable(verdict['advice'])}"


def _interval_lines(verdict: Mapping[str, Any]) -> Iterator[str]:
    # Here and not above: they need numpy, and most of the command line does not.
    from proxyguard.certificate.wording import percent
    from proxyguard.report.parts import range_words

    lower, upper, target = verdict["lower"], verdict.get("upper"), verdict["target"]
    top = 1.0 if upper is None else upper
    if lower <= top:
        yield interval_bar(lower, upper, target)
    words = range_words(lower, top, decision=verdict["decision"], target=target)
    mark = "" if verdict["certified"] else " (for reading)"
    yield f"{words}{mark}; required: more than {percent(target)}"
    if verdict.get("together"):
        yield str(verdict["together"])


BAR = 40
"""Letters of an interval's bar."""


def interval_bar(lower: float, upper: float | None, target: float) -> str:
    """Return an interval on a line from 0 to 100 %, the target across it; never drawn shorter."""
    top = 1.0 if upper is None else upper
    line, span, across = _letters(("─", "━", "┃"), (".", "=", "|"))
    first, last = min(BAR - 1, floor(lower * BAR)), ceil(top * BAR)
    letters = [span if first <= i < last else line for i in range(BAR)]
    letters[min(BAR - 1, int(target * BAR))] = across
    return f"0 % {''.join(letters)} 100 %"


Letters = tuple[str, str, str]


def _letters(wanted: Letters, plain: Letters) -> Letters:
    """Return letters that this terminal can write."""
    try:
        "".join(wanted).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return plain
    return wanted


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
