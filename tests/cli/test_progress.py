"""Whoever waits sees how far a step is, also where there is no terminal to draw a bar on."""

from __future__ import annotations

import io
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from proxyguard.cli import show
from proxyguard.progress import NotebookLine, log_lines, progress_here


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def waited_for(stream: io.StringIO, words: str) -> bool:
    """Return whether these words are written soon, on a machine that may be busy."""
    end = time.monotonic() + 20.0
    while words not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.005)
    return words in stream.getvalue()


def test_a_log_gets_a_line_while_a_step_works_and_when_it_is_done() -> None:
    stream = io.StringIO()
    with log_lines(stream, every=0.01) as advance:
        advance("bootstrap", 0, 200)
        advance("bootstrap", 50, 200)
        # Nothing is told to it meanwhile: one draw may take an hour.
        assert waited_for(stream, "bootstrap: 50 of 200 (25 %), about ")
        assert " left\n" in stream.getvalue()
        advance("bootstrap", 200, 200)
    assert stream.getvalue().endswith("bootstrap: 200 of 200, after 1 s\n")


def test_a_log_does_not_mention_what_is_done_soon() -> None:
    stream = io.StringIO()
    with log_lines(stream) as advance:
        for done in range(5):
            advance("bootstrap", done, 4)
    assert stream.getvalue() == ""


def test_a_name_cannot_steer_a_log_or_begin_a_line_of_it() -> None:
    stream = io.StringIO()
    with log_lines(stream, every=0.01) as advance:
        advance("a\x1b[2J\nok   b", 1, 3)
        assert waited_for(stream, "of 3")
    assert "\x1b" not in stream.getvalue()
    assert all(line.startswith("a\\x1b[2J\\nok   b: 1 of 3") for line in
               stream.getvalue().splitlines())  # fmt: skip


def test_the_command_line_writes_lines_without_a_terminal_and_nothing_beside_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(log_lines.__wrapped__, "__defaults__", (None, 0.01))
    with show.bars(False) as advance:
        advance("bootstrap", 1, 3)
        assert waited_for(stream, "bootstrap: 1 of 3 (33 %)")
    stream.truncate(0)
    with show.bars(True) as advance:
        advance("bootstrap", 1, 3)
        time.sleep(0.05)
    assert stream.getvalue().strip("\0") == ""


class Cell:
    """What a notebook shows, as IPython's ``display`` would."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, shown: object, *, display_id: bool) -> Cell.Handle:
        assert display_id  # else a line could not be written over
        self.lines.append(repr(shown))
        return Cell.Handle(self.lines, len(self.lines) - 1)

    class Handle:
        def __init__(self, lines: list[str], index: int) -> None:
            self.lines, self.index = lines, index

        def update(self, shown: object) -> None:
            self.lines[self.index] = repr(shown)


def test_a_notebook_has_one_line_for_each_task() -> None:
    cell, clock = Cell(), Clock()
    line = NotebookLine(cell, clock)
    line("first", 0, 4)
    clock.now = 10.0
    line("first", 1, 4)
    assert cell.lines == ["first: 1 of 4 (25 %), about 30 s left"]
    line("first", 2, 4)  # too soon to be read
    assert cell.lines == ["first: 1 of 4 (25 %), about 30 s left"]
    line("first", 4, 4)  # the end is always told
    line("second", 0, 2)
    assert cell.lines == ["first: 4 of 4 (100 %)", "second: 0 of 2 (0 %)"]


@pytest.mark.parametrize(("kernel", "lines"), [(object(), 1), (None, 0)])
def test_a_line_is_shown_in_a_notebook_and_not_in_a_terminal(
    kernel: object, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell()
    shell, shown = ModuleType("IPython"), ModuleType("IPython.display")
    shell.get_ipython = lambda: SimpleNamespace(kernel=kernel)  # type: ignore[attr-defined]
    shown.display = cell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    progress_here()("bootstrap", 1, 4)
    assert len(cell.lines) == lines


def test_a_program_that_imports_the_package_is_told_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress_here()("bootstrap", 1, 4)
    assert capsys.readouterr() == ("", "")
