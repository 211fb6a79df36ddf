"""``proxyguard``: the verbs, and what their exit codes mean.

0 done, 1 error, 2 usage, 5 integrity failure; ``check`` and ``plan`` 3 where no outcome could
validate the claim; ``open``, ``run`` and ``try`` also 3 unresolved and 4 violation, the worst
mechanism winning, and 7 where they would end with 0 but no guarantee remains; ``verify`` 6 where a
part could not be checked; 128 and the signal's number where one ended the command: 130 for SIGINT,
143 for SIGTERM, 129 for SIGHUP.
"""

from __future__ import annotations

import _thread
import re
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn, Protocol, TextIO, cast

import typer
from typer.core import TyperGroup

import proxyguard
from proxyguard.cli import look, plan, show, steps, trial
from proxyguard.errors import ProxyGuardError
from proxyguard.printable import printable


class _Formatter(Protocol):
    """What is asked of click's formatter of help."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Write below a heading."""

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write words and what they mean, in two columns."""


class _Verbs(TyperGroup):
    """The verbs under headings, as people meet them, each with the whole of its first line."""

    def format_commands(self, ctx: object, formatter: _Formatter) -> None:
        """Write every heading with its verbs."""
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, (self.commands[name].help or "").partition("\n")[0]) for name in verbs]
                )


app = typer.Typer(
    name="proxyguard",
    cls=_Verbs,
    help="Does work done on a substitute table hold on the real one? Sealed audits.",
    epilog=show.Exit.words(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
VERBS = {
    "To begin": ("try", "demo", "explain"),
    "An audit": ("init", "plan", "check", "run", "status", "verify", "report"),
    "Its steps one by one, which run does": ("seal", "register", "draw", "grant", "open"),
    "Seldom": ("amend", "deviate", "correct", "rotate-key", "log", "schema", "doctor"),
}
for verb in (
    trial.try_, steps.demo, look.explain, steps.init, plan.plan, steps.check, steps.run,
    look.status, look.verify, look.report, steps.seal, steps.register, steps.draw, steps.grant,
    steps.open_, steps.amend, steps.deviate, steps.correct, steps.rotate_key, look.log,
    steps.schema, look.doctor,
):  # fmt: skip
    app.command(verb.__name__.strip("_").replace("_", "-"))(verb)


def _say_version(wanted: bool) -> None:
    if wanted:
        show.say(f"proxyguard {proxyguard.__version__}")
        raise typer.Exit(show.Exit.DONE)


@app.callback()
def about(
    version: Annotated[bool, typer.Option(
        "--version", is_eager=True, callback=_say_version,
        help="Print the version, and end.")] = False,
) -> None:  # fmt: skip
    """Does work done on a substitute table hold on the real one? Sealed audits."""


# What click calls ClickException; typer brings a click of its own, under no public name.
USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[2])


class UsageError(Protocol):
    """What is asked of an error of click's."""

    message: str
    exit_code: int

    def show(self) -> None:
        """Print how the command is called."""


class Interrupted(BaseException):
    """A signal asks the command to end; no error, so nothing that catches errors stops it.

    Attributes
    ----------
    signal
        The signal; 128 and its number are the exit code.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


_ASKED_TO_END = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextmanager
def _listening() -> Iterator[None]:
    """Let a signal end the command as an error would: workers are ended on the way out.

    A second signal is ignored while workers are ended. Handlers are restored for whoever calls
    `run` from a program of their own.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for known in _ASKED_TO_END:  # a second one must not cut the tidying short
            signal.signal(known, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.getsignal(number) for number in _ASKED_TO_END}

    def listen() -> None:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, interrupt)

    # Python drops what is raised while it frees an object. A command that was asked to end in just
    # that moment would go on, and hear no further signal: so it is asked again, a moment later.
    report = sys.unraisablehook

    def ask_again(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, Interrupted):
            report(dropped)
            return
        listen()
        asked = dropped.exc_value.signal
        main_thread = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main_thread is not None:
            again = partial(signal.pthread_kill, main_thread, asked)
        else:  # Windows, where nothing wakes a call that waits
            again = partial(_thread.interrupt_main, asked)
        threading.Timer(0.01, again).start()

    listen()
    sys.unraisablehook = ask_again
    try:
        yield
    finally:  # for whoever calls this from a program of their own
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_interrupted(interrupted: Interrupted, command: list[str]) -> None:
    """Say what ended the command, what is kept, and what to type.

    Parameters
    ----------
    interrupted
        Which signal it was.
    command
        What a person types before the verb.
    """
    kept = "what was recorded is kept"
    if show.audits:
        from proxyguard.audit.status import kept_words

        try:
            kept = kept_words(show.audits[-1].folder)
        except ProxyGuardError as error:
            kept = f"what was recorded is as it was, and cannot be read: {error}"
    show.complain(f"ended by {interrupted}; {kept}. To go on, type:")
    show.complain(shlex.join([*command, *sys.argv[1:]]))


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning that is meant for the user as one line, and others as Python does."""
    if issubclass(category, ProxyGuardError):
        show.complain(str(message))
    else:
        show.complain(warnings.formatwarning(message, category, filename, lineno, line).rstrip())


def main() -> None:
    """Run one command of ``proxyguard``."""
    run(app, ["proxyguard"])


def run(commands: typer.Typer, command: list[str]) -> NoReturn:
    """Run one command; an error is one clear message and its code, never a traceback.

    Parameters
    ----------
    commands
        What can be typed.
    command
        What a person types before the verb, for a message that says how to go on.

    Raises
    ------
    SystemExit
        Always, with a code of `show.Exit`, or 128 and the number of a signal.
    """
    # Python would print the file and line of ours, which help nobody.
    warnings.showwarning = _say_warning
    try:
        with _listening():
            code = _as_typed(commands)(standalone_mode=False, prog_name=" ".join(command))
        sys.exit(code or show.Exit.DONE)
    except USAGE_ERROR as error:
        sys.exit(_show_usage(cast("UsageError", error)))
    except typer.Abort:  # the input ended where a passphrase was asked for
        show.complain("ended without an answer; nothing was changed")
        sys.exit(show.Exit.ERROR)
    except ProxyGuardError as error:
        show.complain(str(error))
        sys.exit(show.exit_code(error))
    # Before OSError and the rest: it says nothing about the folder, and no fault of ours either.
    except MemoryError:
        show.complain(
            "this machine has too little memory for that; nothing was found about the folder, what "
            "was recorded is kept, and the step can be run again where there is more"
        )
        sys.exit(show.Exit.ERROR)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        show.complain(f"{named}{error.strerror or error}".replace("Errno", "error"))
        sys.exit(show.Exit.ERROR)
    except Exception as error:  # a fault of ours: say where, and that nothing recorded is lost
        where = traceback.extract_tb(error.__traceback__)[-1]
        show.complain(
            f"a fault of ours, please report it: {type(error).__name__}: {error} "
            f"({Path(where.filename).name}, line {where.lineno}); it says nothing about the "
            "folder, and what was recorded is kept"
        )
        sys.exit(show.Exit.ERROR)
    except Interrupted as interrupted:
        _say_interrupted(interrupted, command)
        sys.exit(128 + interrupted.signal)


def _as_typed(commands: typer.Typer) -> typer.Typer:
    """Return the one verb that is typed, or all that can be typed where it is none of them.

    The options of a verb are read from its types, and those of all verbs would take longer than
    many a command has to do.
    """
    verbs = [verb for verb in commands.registered_commands if verb.name in sys.argv[1:2]]
    if not verbs:
        return commands
    typed = copy(commands)
    typed.registered_commands, typed.registered_groups = verbs, []
    return typed


# What typer's own words for a value are in ours.
_PLAINLY = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Input should be a valid integer.*", "expected a whole number"),
        (r"Input should be a valid number.*", "expected a number"),
        (r"Input should be greater than or equal to ([-\d.]+)", r"expected at least \1"),
        (r"Input should be less than or equal to ([-\d.]+)", r"expected at most \1"),
    )
)


def _show_usage(error: UsageError) -> int:
    """Print how a command is called; a shell expands ``*`` to names that a folder chose.

    Parameters
    ----------
    error
        What click complains of; its words may repeat an argument.
    """
    for argument in sys.argv[1:]:
        error.message = error.message.replace(argument, printable(argument))
    for pattern, words in _PLAINLY:
        error.message = pattern.sub(words, error.message)
    unknown = re.search(r"No such command '([\w-]+)'", error.message)
    if unknown is not None and "Did you mean" not in error.message:
        from proxyguard.printable import did_you_mean

        error.message = error.message.rstrip(".") + did_you_mean(
            unknown[1], [name for verbs in VERBS.values() for name in verbs]
        )
    error.show()
    return int(error.exit_code)


if __name__ == "__main__":
    main()
