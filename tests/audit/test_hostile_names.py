"""No text that a folder chooses steers the terminal on which it is read."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyte
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.cli import show
from proxyguard.cli.main import main

At = Callable[[str], Audit]
COLUMNS, LINES = 80, 40
LIE = "Everything holds."
NAMES = {
    "clears the screen": f"\x1b[2J\x1b[1;1H{LIE}\x1b[8m",
    "goes back in the line": f"x\r\x1b[K{LIE}\x1b[8m",
    "goes up": f"x\x1b[3A\r{LIE}",
    "is two lines": f"x\n{LIE}",
    "has the controls of one byte": f"\x9b2J\x9b1;1H{LIE}",
    "sets the title": f"\x1b]0;{LIE}\x07\x1b]52;c;cm0gLXJm\x07",
    "turns the writing": f"\u202e{LIE[::-1]}\u2066",
    "fills the line": f"x{' ' * 74}{LIE}",
    "fills the line with wide letters": "\u7a7a" * 36 + "   " + LIE,
    "erases by backspaces": f"x{chr(8) * 60}{LIE}",
    "is no UTF-8": os.fsdecode(b"\xff\xfe\x1b[2J\x1b[1;1H" + LIE.encode()),
    "is markup": f"[conceal]x[bold] {LIE}",
}


class Terminal(io.TextIOWrapper):
    """A stream that says to be a terminal and draws what it gets on a screen."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        # A terminal's driver writes a line end as two controls.
        self.stream.feed(text.encode("utf-8").replace(b"\n", b"\r\n"))
        return len(text)

    def shows(self, *arguments: str) -> int:
        """Run a command whose words come here; return its code."""
        with redirect_stdout(self), redirect_stderr(self):
            return proxyguard(*arguments)

    @property
    def lines(self) -> list[str]:
        """What a person sees, without the letters that are concealed."""
        return [line.rstrip() for line in self.screen.display]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns, to be put in the place of both streams."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(LINES))
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def proxyguard(*arguments: str) -> int:
    """Run a command here and return its code."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(sys, "argv", ["proxyguard", *arguments])
        here.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_file_name_prints_that_everything_holds_over_a_broken_folder(
    at: At, name: str, terminal: Terminal
) -> None:
    audit = at("sealed")
    (audit.folder / "target" / "0.sealed").write_bytes(b"{}")
    (audit.folder / name).write_bytes(b"")
    assert terminal.shows("verify", str(audit.folder.path)) == show.Exit.BROKEN
    lines = terminal.lines
    assert "This folder does not hold." in lines
    assert not any(line.startswith(LIE) for line in lines)
    assert any(line.startswith("BAD  target/0.sealed: was changed") for line in lines)
    assert "nothing vouches for this file" in " ".join(" ".join(lines).split())
    assert terminal.screen.title == ""
    assert "\u202e" not in "".join(lines)


def test_a_thousand_files_do_not_push_the_verdict_off_the_screen(
    at: At, terminal: Terminal
) -> None:
    audit = at("sealed")
    (audit.folder / "target" / "0.sealed").write_bytes(b"{}")
    for index in range(1000):
        (audit.folder / f"file {index:03}").write_bytes(b"")
    assert terminal.shows("verify", str(audit.folder.path)) == show.Exit.BROKEN
    assert "note 990 more files that nothing vouches for; --json names them all" in terminal.lines
    assert any(line.startswith("BAD  target/0.sealed") for line in terminal.lines)


def test_a_true_terminal_shows_the_same(at: At) -> None:
    audit = at("sealed")
    (audit.folder / "target" / "0.sealed").write_bytes(b"{}")
    (audit.folder / NAMES["clears the screen"]).write_bytes(b"")
    made = Terminal()

    def feed(descriptor: int) -> bytes:
        content = os.read(descriptor, 65536)
        made.stream.feed(content)
        return b"."  # and not to our own standard output

    command = [sys.executable, "-m", "proxyguard.cli.main", "verify", str(audit.folder.path)]
    status = pty.spawn(command, feed, lambda _: b"")
    assert os.waitstatus_to_exitcode(status) == show.Exit.BROKEN
    assert "This folder does not hold." in made.lines
    assert not any(line.startswith(LIE) for line in made.lines)


def test_json_about_any_file_name_is_json_and_plain_text(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = at("sealed")
    for name in NAMES.values():
        (audit.folder / name).write_bytes(b"")
    assert proxyguard("verify", str(audit.folder.path), "--json") == show.Exit.DONE
    text = capsys.readouterr().out
    assert set(json.loads(text)["unknown"]) == set(NAMES.values())
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [("status", "NAME"), ("verify", "NAME", "NAME"), ("--NAME",), ("NAME",),
     ("report", "NAME", "NAME"), ("init", "x", "--declaration", "NAME")],
)  # fmt: skip
def test_no_name_on_the_command_line_is_obeyed_when_it_is_complained_about(
    arguments: tuple[str, ...], tmp_path: Path, terminal: Terminal
) -> None:
    name = f"{tmp_path}/\x1b[2J\x1b[1;1H\n{LIE}"  # as a shell puts it in the place of *
    assert terminal.shows(*(one.replace("NAME", name) for one in arguments)) != show.Exit.DONE
    assert LIE in " ".join(" ".join(terminal.lines).split())
    assert not any(line.startswith(LIE) for line in terminal.lines)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_name_steers_a_progress_bar(name: str, terminal: Terminal) -> None:
    with redirect_stdout(terminal), redirect_stderr(terminal):
        with show.bars(False) as progress:
            progress(f"[conceal]{name}", 1, 2)
        show.say("done")
    assert "done" in terminal.lines
    # Shown as written, and not read as markup.
    assert any("[conceal]" in line for line in terminal.lines)
    assert not any(line.startswith(LIE) for line in terminal.lines)


def test_a_reason_of_a_megabyte_does_not_scroll_the_verdict_away(
    at: At, terminal: Terminal
) -> None:
    audit = at("certified")
    audit.deviate("x" * 1_000_000)
    assert terminal.shows("status", str(audit.folder.path)) == show.Exit.DONE
    assert any("letters more" in line for line in terminal.lines)
    assert any(line.startswith("Next: proxyguard verify") for line in terminal.lines)
