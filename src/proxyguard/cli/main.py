"""``proxyguard``: the verbs, and what their exit codes mean.

0 done, 1 error, 2 usage, 5 integrity failure; ``open`` and ``run`` also 3 unresolved and
4 violation, the worst mechanism winning, and 7 where they would end with 0 but no guarantee
remains; ``verify`` 6 where a part could not be checked; 128 and the signal's number where one
ended the command: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
"""

from __future__ import annotations

import shlex
import signal
import sys
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import TextIO

import typer

from proxyguard.cli import data, decide, demo, look, options, plan, prepare, show, study
from proxyguard.errors import ProxyGuardError, StoodOpen

app = typer.Typer(
    name="proxyguard",
    help="Does work done on a substitute table hold on the real one? Sealed audits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (
    prepare.init, plan.plan, prepare.check, prepare.seal, prepare.register, prepare.amend,
    decide.draw, decide.grant, look.report, look.verify, look.status, look.log, look.doctor,
    decide.run, decide.deviate, decide.correct, decide.rotate_key, prepare.schema, demo.demo,
):  # fmt: skip
    app.command()(verb)
app.command("open")(decide.open_)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")


class Interrupted(BaseException):
    """A signal asks the command to end; no error, so nothing that catches errors stops it."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


_ASKED_TO_END = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def _listen() -> None:
    """Let a signal end the command as an error would: workers are ended on the way out."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for known in _ASKED_TO_END:  # a second one must not cut the tidying short
            signal.signal(known, signal.SIG_IGN)
        raise Interrupted(number)

    for number in _ASKED_TO_END:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, interrupt)


def _say_interrupted(interrupted: Interrupted) -> None:
    """Say what ended the command, what is kept, and what to type."""
    kept = "what was recorded is kept"
    if options.audits:
        from proxyguard.audit.status import kept_words

        try:
            kept = kept_words(options.audits[-1].folder)
        except ProxyGuardError as error:
            kept = f"what was recorded is as it was, and cannot be read: {error}"
    print(
        f"proxyguard: ended by {interrupted}; {kept}. To go on, type:\n"
        f"    {shlex.join(['proxyguard', *sys.argv[1:]])}",
        file=sys.stderr,
    )


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning that is meant for the user as one line, and others as Python does."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if issubclass(category, StoodOpen):
        text = f"proxyguard: {message}\n"
    print(text, end="", file=file or sys.stderr)


def main() -> None:
    """Run one command; an error is one clear message and its code, never a traceback."""
    _listen()
    warnings.showwarning = _say_warning
    try:
        app()
    except ProxyGuardError as error:
        print(f"proxyguard: {error}", file=sys.stderr)
        sys.exit(show.exit_code(error))
    except OSError as error:
        print(f"proxyguard: {error}", file=sys.stderr)
        sys.exit(show.Exit.ERROR)
    except Exception as error:  # a fault of ours: say where, and that nothing recorded is lost
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"proxyguard: an error that should have been caught earlier: {type(error).__name__}: "
            f"{error} ({Path(where.filename).name}, line {where.lineno}); what was recorded is "
            "kept, please report this",
            file=sys.stderr,
        )
        sys.exit(show.Exit.ERROR)
    except Interrupted as interrupted:
        _say_interrupted(interrupted)
        sys.exit(128 + interrupted.signal)


if __name__ == "__main__":
    main()
