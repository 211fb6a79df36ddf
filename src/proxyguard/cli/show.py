"""How the command line speaks: words for people, JSON for programs, one code for each end.

Nothing else in `cli` writes: whatever a folder chose, a file's name, a reason, a mechanism, goes
through `say`, `complain`, `give` or `bars`, and there through one escaping function. No text
can move the cursor, hide or colour what stands beside it, or begin a line of its own.

Here are also the options that verbs share, and the audit that a command is about.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from proxyguard.printable import printable, shortly, some, write_line
from proxyguard.progress import Progress, log_lines

if TYPE_CHECKING:
    from rich.progress import TaskID

    from proxyguard.audit.audit import Audit
    from proxyguard.audit.outcome import SealedCertificate
    from proxyguard.audit.status import StandingVerdict, Status


class Exit(IntEnum):
    """How a command ends, for programs; README and ``proxyguard --help`` say the same.

    Of several that apply, verify gives the first of BROKEN, PARTLY and DONE, and open and run
    the first of VIOLATION, UNRESOLVED, UNGUARANTEED and DONE; verify --require-validated gives
    BROKEN, then these, then PARTLY.
    """

    DONE = 0, "done, validated, or everything holds"
    ERROR = 1, "an error that can be mended"
    USAGE = 2, "wrong usage"
    UNRESOLVED = 3, "unresolved, or it could not succeed"
    VIOLATION = 4, "violation"
    BROKEN = 5, "the record is broken"
    PARTLY = 6, "it holds as far as it was checked"
    UNGUARANTEED = 7, "validated, but no guarantee remains"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        """Return a code that knows what it means."""
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    @classmethod
    def words(cls) -> str:
        """Return what every code means, for the help."""
        return "Exit codes: " + "; ".join(f"{int(code)} {code.meaning}" for code in cls) + "."


MARKS = {
    Decision.VALIDATED: "✓ VALIDATED",
    Decision.UNRESOLVED: "? UNRESOLVED",
    Decision.VIOLATION: "✗ VIOLATION",
}
# How a terminal writes a verdict: bold, and green, yellow or red.
STYLES = {Decision.VALIDATED: "1;32", Decision.UNRESOLVED: "1;33", Decision.VIOLATION: "1;31"}
BOLD = "1"
# Verdicts, and requirements, that a terminal has room for.
MOST_VERDICTS = 20
MOST_REQUIRED = 12
# Named releases that have lines of their own, and names in a line that stands for more.
MOST_NAMED = 5
# Letters of an interval's bar.
BAR = 40
# Those that this command is about, for what is said when it is interrupted.
audits: list[Audit] = []


def exit_code(error: ProxyGuardError) -> Exit:
    """Return 5 for a broken record and 1 for everything that can be mended and tried again.

    Parameters
    ----------
    error
        What ended the command.

    Notes
    -----
    A `SealError` says that a record is broken, unless it is of a kind that the user mends: a step
    too early, a key that is missing or there already, a folder in use, a disk, an opening without
    protection.
    """
    mendable = isinstance(
        error, StageError | KeyMissing | KeyExists | Busy | DiskError | Unprotected
    )
    return Exit.BROKEN if isinstance(error, SealError) and not mendable else Exit.ERROR


def verdict_code(decisions: Collection[Decision]) -> Exit:
    """Return the code of the worst decision.

    Parameters
    ----------
    decisions
        Those of all mechanisms; where nothing was decided, nothing is validated.
    """
    if Decision.VIOLATION in decisions:
        return Exit.VIOLATION
    unsettled = Decision.UNRESOLVED in decisions or not decisions
    return Exit.UNRESOLVED if unsettled else Exit.DONE


def outcome_code(standing: Status) -> Exit:
    """Return the code of a certified audit: a pipeline must not take it for validated too easily.

    Parameters
    ----------
    standing
        How the audit stands now: what remains of the guarantee is what the report says, deviations
        after the certificate included.
    """
    lost = next((verdict.warning for verdict in standing.verdicts if verdict.warning), "")
    return decided_code([verdict.decision for verdict in standing.verdicts], lost)


def decided_code(decisions: Collection[Decision], lost: str) -> Exit:
    """Return the code of the worst decision, or that all are validated without a guarantee.

    Parameters
    ----------
    decisions
        Those of all mechanisms.
    lost
        Why no guarantee remains; empty where one does.
    """
    worst = verdict_code(decisions)
    return Exit.UNGUARANTEED if worst is Exit.DONE and lost else worst


def say(text: str = "", *, indent: str = "", style: str = "") -> None:
    """Print one line; ``style`` is for a terminal, the numbers of its escape sequence.

    Parameters
    ----------
    text
        One line; what could act in a terminal is written by its number.
    indent
        What the line begins with.
    style
        Of a terminal: the numbers of its escape sequence.
    """
    write_line(text, sys.stdout, indent=indent, style=style)


def complain(text: str) -> None:
    """Print an error; every line of it says whose it is.

    Parameters
    ----------
    text
        One or more lines; a name with a line break in it cannot begin a line of its own.
    """
    for line in text.split("\n"):
        write_line(f"proxyguard: {line}", sys.stderr)


def give(values: object) -> None:
    """Print plain values as JSON, in which nothing steers a terminal either.

    Parameters
    ----------
    values
        What JSON can hold.
    """
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    # Controls above 0x7e and signs that turn the direction of writing are valid in JSON as they
    # are; they stand within its strings alone, where they may be written by number.
    print("".join(c if c.isprintable() or c == "\n" else _by_number(c) for c in text))


def _by_number(letter: str) -> str:
    """Return a letter as JSON writes it by number: two of them beyond 16 bits."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2))


def show_outcome(standing: Status, certificate: SealedCertificate) -> None:
    """Print what an audit ended with, and who attests to the opening.

    Parameters
    ----------
    standing
        How the audit stands now.
    certificate
        What was certified.
    """
    show_verdicts(standing.verdicts)
    say()
    show_required(standing.required)
    for record in certificate.predicate.epsilon or ():
        say(f"Claimed epsilon: {record.sentence}")
    say()
    show_standing(standing)
    say(f"Evidence: {certificate.predicate.claim_status.evidence}.")
    if standing.lineage:
        say(f"Lineage: {standing.lineage}.")
    for condition in standing.conditions:
        say(f"On condition: {condition}.")
    for line in stated_lines([s.about for s in certificate.predicate.stated_not_checked]):
        say(line)


def show_story(folder: Path) -> None:
    """Print what an audit of the demonstration showed: what was asked, and each verdict on it.

    Parameters
    ----------
    folder
        The audit's folder.

    Notes
    -----
    That teaching data carry no guarantee is said by whoever tells the story, at its end.
    """
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.status import status_of
    from proxyguard.report.record import NO_GUARANTEE

    standing = status_of(AuditFolder(folder))
    say()
    show_verdicts(
        [
            replace(v, warning="", advice="", sentence=v.sentence.removeprefix(NO_GUARANTEE))
            for v in standing.verdicts
        ]
    )
    say()
    show_required(standing.required)
    say()


def answer(
    json: bool,
    values: Mapping[str, object],
    lines: Iterable[str] = (),
    *,
    folder: Path | None = None,
    after: Iterable[str] = (),
) -> None:
    """Print what a step gave: as JSON, or as lines.

    Parameters
    ----------
    json
        Whether plain values were asked for.
    values, lines
        The same in both forms.
    folder
        Of a step that wrote into the ledger: its head is told, for a cut ledger is found by a
        head that was noted elsewhere.
    after
        Lines that stand below the head.
    """
    if json:
        give(values if folder is None else {**values, "head": _head(folder)})
        return
    for line in lines:
        say(line)
    if folder is not None:
        say(f"Ledger head {_head(folder)}")
        say("Note it outside the folder: verify --head finds entries that were cut since.")
    for line in after:
        say(line)


def _head(folder: Path) -> str:
    """Return the digest of the last entry, read anew: the step has just written it."""
    from proxyguard.audit.folder import AuditFolder

    return AuditFolder(folder).journal().ledger.head


def missing_lines(missing: Iterable[str]) -> Iterator[str]:
    """Yield what the next step needs and has not, such as releases that nobody has made yet.

    Parameters
    ----------
    missing
        Tables and folders that are not there.
    """
    for line in missing:
        yield f"Put first beside the folder, or where --data points: {line}"


def stated_lines(about: Sequence[str]) -> Iterator[str]:
    """Yield what stays the author's word; the report has the sentences.

    Parameters
    ----------
    about
        What is stated and not checked.
    """
    if about:
        yield f"Stated by the author, not checked: {', '.join(map(shortly, about))}."


def show_required(required: Sequence[str]) -> None:
    """Print what was required of a release, one line for each requirement; of many the first.

    Parameters
    ----------
    required
        The sentences.
    """
    say("Required of a release:")
    for line in required[:MOST_REQUIRED]:
        say(line, indent="    ")
    if len(required) > MOST_REQUIRED:
        say(f"... and {len(required) - MOST_REQUIRED} more; the report has them all", indent="    ")


def show_standing(standing: Status) -> None:
    """Print what remains of the guarantee, who attests to the opening, and what was admitted."""
    say(f"Guarantee: {standing.guarantee}.")
    say(f"Attestation: {standing.attestation}.")
    for reason in standing.deviations:
        say(f"Deviation: {reason}")


def show_verdicts(verdicts: Sequence[StandingVerdict], *, unseen: str = "") -> None:
    """Print every verdict: mark and word, sentence, interval, what binds, what next.

    Parameters
    ----------
    verdicts
        In the order of the certificate.
    unseen
        Why a verdict that was certified has no tick here; nothing where it was derived whole.
    """
    # A warning is about the whole audit: its reason stands once, its short form at every verdict.
    for warning in dict.fromkeys(verdict.warning for verdict in verdicts if verdict.warning):
        say(warning, style=BOLD)
    alike = [v for v in verdicts if v.target is None]
    if len(alike) > MOST_NAMED:
        _show_named(alike, unseen)
        verdicts = [v for v in verdicts if v.target is not None]
    for verdict in verdicts[:MOST_VERDICTS]:
        doubt = _doubt(verdict, unseen)
        say(f"{_mark(verdict, doubt)}: {verdict.mechanism}{doubt}", style=_style(verdict, doubt))
        for line in _verdict_lines(verdict):
            say(line, indent="    ")
    rest = Counter(verdict.decision.value for verdict in verdicts[MOST_VERDICTS:])
    if rest:
        listed = ", ".join(f"{count:,} {decision}" for decision, count in rest.items())
        say(f"... and {listed}; the report has them all")


def _doubt(verdict: StandingVerdict, unseen: str) -> str:
    """Return why a verdict is not to be taken as it reads, or nothing."""
    doubt = "no guarantee remains" if verdict.warning else unseen
    return f" ({doubt})" if doubt else ""


def _mark(verdict: StandingVerdict, doubt: str) -> str:
    """Return the sign and word of a verdict: where it is in doubt no tick."""
    mark = MARKS[verdict.decision]
    return f"?{mark[1:]}" if doubt else mark


def _style(verdict: StandingVerdict, doubt: str) -> str:
    return STYLES[Decision.UNRESOLVED if doubt else verdict.decision]


def _show_named(verdicts: Sequence[StandingVerdict], unseen: str) -> None:
    """Print many named releases by what was decided of them, each sentence once."""
    for decision in MARKS:
        decided = [v for v in verdicts if v.decision is decision]
        if not decided:
            continue
        doubt = _doubt(decided[0], unseen)
        say(f"{_mark(decided[0], doubt)}: {len(decided)} of {len(verdicts)} releases{doubt}",
            style=_style(decided[0], doubt))  # fmt: skip
        say(some([v.mechanism for v in decided], MOST_NAMED), indent="    ")
        for line in dict.fromkeys(v.sentence for v in decided):
            each = line.replace("this release", "each of these releases")
            say(each if decided[1:] else line, indent="    ")
        binding = Counter(v.binding for v in decided if v.binding).most_common(MOST_NAMED)
        if binding:
            counts = ", ".join(f"{name} ({count})" for name, count in binding)
            say(f"Binding requirement: {counts}", indent="    ")
        for verdict in decided:
            if verdict.advice:
                say(f"{verdict.mechanism}, what next: {verdict.advice}", indent="    ")


def _verdict_lines(verdict: StandingVerdict) -> Iterator[str]:
    """Yield what stands below a verdict's mark."""
    yield verdict.sentence
    # A family's decisions that settle nothing leave no interval.
    settled = verdict.certified or verdict.decision is not Decision.UNRESOLVED
    if verdict.target is not None and verdict.lower is not None and settled:
        yield from _interval_lines(verdict, verdict.lower, verdict.target)
    if verdict.binding:
        yield f"Binding requirement: {verdict.binding}"
    if verdict.advice:
        yield f"What next: {verdict.advice}"


def _interval_lines(verdict: StandingVerdict, lower: float, target: float) -> Iterator[str]:
    # Here and not above: they need numpy, and most of the command line does not.
    """Yield the interval as a bar and in words; crossed bounds have no bar."""
    from proxyguard.certificate.wording import percent
    from proxyguard.report.sources import range_words

    top = 1.0 if verdict.upper is None else verdict.upper
    if lower <= top:
        yield interval_bar(lower, verdict.upper, target)
    words = range_words(lower, top, decision=verdict.decision, target=target)
    yield f"{words}; required: more than {percent(target)}"
    if verdict.together:
        yield verdict.together


def interval_bar(lower: float, upper: float | None, target: float) -> str:
    """Return an interval on a line from 0 to 100 %, the target across it; never drawn shorter.

    Parameters
    ----------
    lower, upper
        The ends; without an upper one it goes to 100 %.
    target
        The reliability that must be exceeded.

    Notes
    -----
    Ends are rounded outwards, so that no bar claims more than its numbers.
    """
    top = 1.0 if upper is None else upper
    line, span, across = "─━┃"
    try:
        "─━┃".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # this terminal cannot write them
        line, span, across = ".=|"
    first, last = min(BAR - 1, floor(lower * BAR)), ceil(top * BAR)
    letters = [span if first <= i < last else line for i in range(BAR)]
    # The target is drawn last: it is seen even where the interval covers it.
    letters[min(BAR - 1, int(target * BAR))] = across
    return f"0 % {''.join(letters)} 100 %"


@contextmanager
def at_work(
    folder: Path,
    home: Path | None,
    data: list[Path] | None,
    workers: int | None = None,
    *,
    json: bool,
) -> Iterator[Audit]:
    """Give the audit that a command is about, which says on the terminal how far a step is.

    Parameters
    ----------
    folder, home, data, workers
        As `audit_of` has them.
    json
        Whether plain values were asked for, and no words.
    """
    with bars(json) as progress:
        yield audit_of(folder, home, data, workers, progress)


@contextmanager
def bars(quiet: bool) -> Iterator[Progress]:
    """Give a progress callback that draws one bar a task, with its time left.

    Parameters
    ----------
    quiet
        Whether plain values were asked for.

    Notes
    -----
    Where nobody looks at a terminal rich is not even loaded: a log gets a line every ten seconds.
    """
    if quiet:
        yield lambda what, done, total: None
        return
    if not sys.stderr.isatty():
        with log_lines(sys.stderr) as advance:
            yield advance
        return
    from rich import progress as rich
    from rich.console import Console

    with rich.Progress(
        rich.TextColumn("{task.description}", markup=False), rich.BarColumn(),
        rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TextColumn("left"),
        rich.TimeRemainingColumn(), console=Console(stderr=True),
    ) as progress:  # fmt: skip
        known: dict[str, TaskID] = {}

        # What a bar is called may be a mechanism's name, which its author chose.
        def advance(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = progress.add_task(printable(what), total=total)
            progress.update(known[what], completed=done, total=total)

        yield advance


Folder = Annotated[Path, typer.Argument(help="The audit folder.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print plain values instead of words.")]
HomeFolder = Annotated[
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
TargetKey = Annotated[
    Path | None, typer.Option("--key-file", help="The key file of the target, if not in --home.")
]
AskPassphrase = Annotated[
    bool, typer.Option("--passphrase", help="Ask for the target's passphrase.")
]


def audit_of(
    folder: Path,
    home: Path | None,
    data: list[Path] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Return the audit that a command is about, and remember it.

    Parameters
    ----------
    folder
        The audit's folder.
    home
        Where keys are kept; the user's own unless given.
    data
        Folders with the declared files.
    workers
        Processes that draw at once.
    progress
        What is told how far a step is.
    """
    from proxyguard.audit.audit import Audit

    # A second audit of one command is the one that it was interrupted in.
    audits.append(Audit(folder, home=home, data=data or (), workers=workers, progress=progress))
    return audits[-1]


def ask_passphrase(wanted: bool, *, confirm: bool = False) -> str | None:
    """Ask for a passphrase without showing it.

    Parameters
    ----------
    wanted
        Whether the option was given.
    confirm
        Whether it is asked for twice, as when it is chosen.
    """
    if not wanted:
        return None
    words: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
    return words
