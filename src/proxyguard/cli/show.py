"""How the command line speaks: words for people, JSON for programs, one code for each end.

Nothing else in `cli` writes: whatever a folder chose, a file's name, a reason, a mechanism, goes
through `say`, `complain`, `give` or `bars`, and there through one escaping function. No text
can move the cursor, hide or colour what stands beside it, or begin a line of its own.

The options that verbs share.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from proxyguard.modes.evidence import Decision
from proxyguard.printable import printable, write_line

if TYPE_CHECKING:
    from rich.progress import TaskID

    from proxyguard.audit.development import Progress
    from proxyguard.audit.outcome import SealedCertificate, StandingVerdict, Status
    from proxyguard.documents.canonical import Plain

if TYPE_CHECKING:
    from proxyguard.audit.audit import Audit


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

    @classmethod
    def words(cls) -> str:
        """Return what every code means, for the help."""
        meant = {
            cls.DONE: "done, validated, or everything holds",
            cls.ERROR: "an error that can be mended",
            cls.USAGE: "wrong usage",
            cls.UNRESOLVED: "unresolved",
            cls.VIOLATION: "violation",
            cls.BROKEN: "the record is broken",
            cls.PARTLY: "it holds as far as it was checked",
            cls.UNGUARANTEED: "validated, but no guarantee remains",
        }
        return "Exit codes: " + "; ".join(f"{int(code)} {meant[code]}" for code in cls) + "."


MARKS = {
    Decision.VALIDATED: "✓ VALIDATED",
    Decision.UNRESOLVED: "? UNRESOLVED",
    Decision.VIOLATION: "✗ VIOLATION",
}
STYLES = {Decision.VALIDATED: "1;32", Decision.UNRESOLVED: "1;33", Decision.VIOLATION: "1;31"}
"""How a terminal writes a verdict: bold, and green, yellow or red."""
BOLD = "1"


def exit_code(error: ProxyGuardError) -> Exit:
    """Return 5 for a broken record and 1 for everything that can be mended and tried again."""
    mendable = isinstance(
        error, StageError | KeyMissing | KeyExists | Busy | DiskError | Unprotected
    )
    return Exit.BROKEN if isinstance(error, SealError) and not mendable else Exit.ERROR


def verdict_code(decisions: Collection[Decision]) -> Exit:
    """Return the code of the worst decision."""
    if Decision.VIOLATION in decisions:
        return Exit.VIOLATION
    unsettled = Decision.UNRESOLVED in decisions or not decisions
    return Exit.UNRESOLVED if unsettled else Exit.DONE


def outcome_code(folder: Path, certificate: SealedCertificate) -> Exit:
    """Return the code of a certified audit: a pipeline must not take it for validated too easily.

    What remains of the guarantee is what the report says, deviations after the certificate
    included.
    """
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.report.record import lost_guarantee

    worst = verdict_code(certificate.decisions.values())
    ledger = AuditFolder(folder).journal().ledger.entries
    lost = worst is Exit.DONE and lost_guarantee(certificate.predicate.claim_status, ledger)
    return Exit.UNGUARANTEED if lost else worst


def say(text: str = "", *, indent: str = "", style: str = "") -> None:
    """Print one line; ``style`` is for a terminal, the numbers of its escape sequence."""
    write_line(text, sys.stdout, indent=indent, style=style)


def complain(text: str) -> None:
    """Print an error; every line of it says whose it is."""
    for line in text.split("\n"):
        write_line(f"proxyguard: {line}", sys.stderr)


def give(value: Plain) -> None:
    """Print plain values as JSON, in which nothing steers a terminal either."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    # Controls above 0x7e and signs that turn the direction of writing are valid in JSON as they
    # are; they stand within its strings alone, where they may be written by number.
    print("".join(c if c.isprintable() or c == "\n" else _by_number(c) for c in text))


def _by_number(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2))


def show_outcome(folder: Path, certificate: SealedCertificate) -> None:
    """Print what an audit ended with, and who attests to the opening."""
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.outcome import status_of

    found = status_of(AuditFolder(folder))
    show_verdicts(found.verdicts)
    say()
    show_standing(found)
    status = certificate.predicate.claim_status
    say(f"Evidence: {status.evidence}. Lineage: {status.lineage}.")
    say_stated([stated.about for stated in certificate.predicate.stated_not_checked])


def with_head(values: Mapping[str, Plain], folder: Path) -> dict[str, Plain]:
    """Return what a step gave, with the ledger's head after it."""
    return {**values, "head": _head(folder)}


def say_head(folder: Path) -> None:
    """Print the ledger's head after a step: a cut ledger is found by a head noted elsewhere."""
    say(f"Ledger head {_head(folder)}")
    say("Note it outside the folder: verify --head finds entries that were cut since.")


def _head(folder: Path) -> str:
    from proxyguard.audit.folder import AuditFolder

    return AuditFolder(folder).journal().ledger.head


def say_stated(about: Sequence[str]) -> None:
    """Print what stays the author's word; the report has the sentences."""
    if about:
        say(f"Stated by the author, not checked: {', '.join(about)}.")


def show_standing(found: Status) -> None:
    """Print what remains of the guarantee, who attests to the opening, and what was admitted."""
    say(f"Guarantee: {found.guarantee}.")
    say(f"Attestation: {found.attestation}.")
    for reason in found.deviations:
        say(f"Deviation: {reason}")


def show_verdicts(verdicts: Sequence[StandingVerdict]) -> None:
    """Print every verdict: mark and word, sentence, interval, what binds, what next."""
    # A warning is about the whole audit: its reason stands once, its short form at every verdict.
    for warning in dict.fromkeys(verdict.warning for verdict in verdicts if verdict.warning):
        say(warning, style=BOLD)
    for verdict in verdicts:
        lost = " (no guarantee remains)" if verdict.warning else ""
        decision = verdict.decision
        say(f"{MARKS[decision]}: {verdict.mechanism}{lost}", style=STYLES[decision])
        for line in _verdict_lines(verdict):
            say(line, indent="    ")


def _verdict_lines(verdict: StandingVerdict) -> Iterator[str]:
    yield verdict.sentence
    if verdict.target is not None and verdict.lower is not None:
        yield from _interval_lines(verdict, verdict.lower, verdict.target)
    if verdict.binding:
        yield f"Binding requirement: {verdict.binding}"
    if verdict.advice:
        yield f"What next: {verdict.advice}"


def _interval_lines(verdict: StandingVerdict, lower: float, target: float) -> Iterator[str]:
    # Here and not above: they need numpy, and most of the command line does not.
    from proxyguard.certificate.wording import percent
    from proxyguard.report.sources import range_words

    top = 1.0 if verdict.upper is None else verdict.upper
    if lower <= top:
        yield interval_bar(lower, verdict.upper, target)
    words = range_words(lower, top, decision=verdict.decision, target=target)
    mark = "" if verdict.certified else " (for reading)"
    yield f"{words}{mark}; required: more than {percent(target)}"
    if verdict.together:
        yield verdict.together


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
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:  # fmt: skip
        known: dict[str, TaskID] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = progress.add_task(printable(what), total=total)
            progress.update(known[what], completed=done, total=total)

        yield advance


Folder = Annotated[Path, typer.Argument(help="The audit folder.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print plain values instead of words.")]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home", envvar="PROXYGUARD_HOME", help="Where keys and the lineage store are kept."
    ),
]
Data = Annotated[
    list[Path] | None, typer.Option("--data", help="A folder with the declared files; repeatable.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that draw at once.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The key file of the target, if not in --home.")
]
AskPassphrase = Annotated[
    bool, typer.Option("--passphrase", help="Ask for the target's passphrase.")
]

audits: list[Audit] = []
"""Those that this command is about, for what is said when it is interrupted."""


def audit_of(
    folder: Path, home: Path | None, data: list[Path] | None, workers: int | None, progress: Any
) -> Audit:
    """Return the audit that a command is about."""
    from proxyguard.audit.audit import Audit

    audits.append(Audit(folder, home=home, data=data or (), workers=workers, progress=progress))
    return audits[-1]


def ask_passphrase(wanted: bool, *, confirm: bool = False) -> str | None:
    """Ask for a passphrase without showing it."""
    if not wanted:
        return None
    words: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
    return words
