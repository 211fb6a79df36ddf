"""How far a step is, where there is no terminal to draw a bar on: in logs and in notebooks.

A log gets a line every ten seconds, with the count, the share and the time left; what is done
sooner is not mentioned. A notebook gets one line that is written over. Neither goes into a file of
the audit: how long something took is nobody's evidence.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol, TextIO, cast

from proxyguard.printable import printable, write_line

# Is told what is done, how much of it, and of how much.
Progress = Callable[[str, int, int], None]
# Seconds between two lines of a log.
EVERY = 10.0
# Seconds between two looks of a notebook's line.
_REDRAWN = 0.2


def duration(seconds: float) -> str:
    """Return a span of time as a person says it.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.4, 59.0, 90.0, 5400.0, 200_000.0)]
    ['1 s', '59 s', '2 min', '1 h 30 min', '2 d 7 h']
    """
    if seconds < 60.0:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60.0)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def left_words(done: int, total: int, began_with: int, seconds: float) -> str:
    """Return how far a task is, and how long it has to go at the pace it had.

    Parameters
    ----------
    done, total
        How much is done, and of how much.
    began_with
        How much was done before the time was taken.
    seconds
        How long the rest of what is done took.

    Examples
    --------
    >>> left_words(50, 200, 20, 60.0)
    '50 of 200 (25 %), about 5 min left'
    >>> left_words(20, 200, 20, 60.0)
    '20 of 200 (10 %)'
    """
    share = f"{done:,} of {total:,} ({100 * done // total if total else 100} %)"
    if not began_with < done < total:
        return share
    return f"{share}, about {duration(seconds * (total - done) / (done - began_with))} left"


class Pace:
    """The tasks of a step, each with when it began and how far it is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}

    def words(self, what: str, done: int, total: int) -> str:
        """Return how far a task is in words; the first time that it is named is its beginning."""
        began, before = self._began.setdefault(what, (self._clock(), done))
        return f"{printable(what)}: {left_words(done, total, before, self._clock() - began)}"

    def seconds(self, what: str) -> float:
        """Return how long ago a task began."""
        return self._clock() - self._began[what][0]


class _Log:
    """Says how far a step is, a line for each look at it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pace = Pace()
        self._lock = threading.Lock()
        self._now: tuple[str, int, int] | None = None
        self._told = False  # whether a line was written of the task at hand

    def advance(self, what: str, done: int, total: int) -> None:
        """Take note; what was mentioned is also said to be done."""
        with self._lock:
            if self._now is None or self._now[0] != what:
                self._told = False
            self._now = what, done, total
            self._pace.words(what, done, total)  # its beginning
            if done >= total and self._told:
                took = duration(self._pace.seconds(what))
                write_line(f"{what}: {done:,} of {total:,}, after {took}", self._stream)
                self._told = False

    def tell(self) -> None:
        """Write how far the task at hand is, unless it is done."""
        with self._lock:
            # A task of one part has no share, and where there are many such each would have a line.
            if self._now is not None and self._now[1] < self._now[2] and self._now[2] > 1:
                write_line(self._pace.words(*self._now), self._stream)
                self._told = True


@contextmanager
def log_lines(stream: TextIO | None = None, every: float = EVERY) -> Iterator[Progress]:
    """Give a progress callback that writes a line every ten seconds.

    Parameters
    ----------
    stream
        Where to; the error stream unless given.
    every
        Seconds between two lines.
    """
    log, ended = _Log(stream or sys.stderr), threading.Event()

    # By the clock and not by what is done: one draw may take an hour, and services that run jobs
    # end one that says nothing.
    def watch() -> None:
        while not ended.wait(every):
            log.tell()

    teller = threading.Thread(target=watch, daemon=True)
    teller.start()
    try:
        yield log.advance
    finally:
        ended.set()
        teller.join()


class _Handle(Protocol):
    """What IPython gives for a line that is written over."""

    def update(self, shown: object) -> None:
        """Show something else in its place."""


class _Display(Protocol):
    """``IPython.display.display``."""

    def __call__(self, shown: object, *, display_id: bool) -> _Handle:
        """Show something in the cell that is running."""


class _Line:
    """A line of a notebook as IPython shows it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class NotebookLine:
    """One line for each task, in the cell that is running."""

    def __init__(self, show: _Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._show, self._clock = show, clock
        self._pace = Pace(clock)
        self._handles: dict[str, _Handle] = {}
        self._shown = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Write the line over, not more often than anybody could read it."""
        line = _Line(self._pace.words(what, done, total))
        if what not in self._handles:
            self._handles[what] = self._show(line, display_id=True)
        elif done >= total or self._clock() - self._shown >= _REDRAWN:
            self._handles[what].update(line)
        else:
            return
        self._shown = self._clock()


def progress_here() -> Progress:
    """Return what tells how far a step is: a line in a notebook, and nothing elsewhere.

    A library that writes where nobody asked is in the way; a cell that says nothing for ten
    minutes looks dead.
    """
    # Asked of what is loaded: to look for IPython would import it where nobody has a notebook.
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if running is None or getattr(running, "kernel", None) is None:  # a terminal has no kernel
        return lambda what, done, total: None
    return NotebookLine(cast("_Display", import_module("IPython.display").display))
