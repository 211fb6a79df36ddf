"""What people copy into their services has commands and options that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from proxyguard.cli.main import app

FOLDER = Path(__file__).parents[2] / "examples" / "ci"
LINE = re.compile(r"(?:run: |--rm [^`]*?|^ {4})proxyguard ([a-z-]+ [^`\n]*)", re.MULTILINE)


def commands() -> list[list[str]]:
    """Return every command of the examples, as a shell divides it."""
    texts = [path.read_text("utf-8").replace("\\\n", "") for path in sorted(FOLDER.iterdir())]
    return [shlex.split(line) for text in texts for line in LINE.findall(text)]


def problems(words: list[str]) -> list[str]:
    """Return which verb or options of a command there are not."""
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if words[0] not in verbs:
        return [words[0]]
    known = {name for parameter in verbs[words[0]].params for name in parameter.opts}
    return [word for word in words[1:] if word.startswith("--") and word not in known]


def test_every_command_is_one() -> None:
    assert [words[0] for words in commands()] == ["verify", "run", "try", "verify", "check", "run"]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_an_example_has_options_that_there_are(words: list[str]) -> None:
    assert not problems(words)


def test_an_option_that_is_gone_would_be_noticed() -> None:
    assert problems(["verify", "audit", "--junitt"]) == ["--junitt"]
    assert problems(["verfy"]) == ["verfy"]


def test_the_recipes_say_that_they_were_not_run() -> None:
    assert "Neither was run here" in (FOLDER / "README.md").read_text("utf-8")
    recipe = (FOLDER / "Containerfile").read_text("utf-8")
    assert recipe.index("USER steward") < recipe.index("ENTRYPOINT")  # never as root
