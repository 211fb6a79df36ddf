"""The two ways to work with a steward run as the page says; each person has a home."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from conformance import warm
from conformance.typed import DECLARATION, Done, environment, write_table

PAGE = Path(__file__).parents[2] / "docs" / "steward.md"
BLOCK = re.compile(r"As the (author|steward):\n\n```sh\n(.*?)```", re.DOTALL)


def steps(section: str) -> list[tuple[str, list[str]]]:
    """Return who types what, in order, below a heading of the page."""
    text = PAGE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [(who, shlex.split(line, comments=False)) for who, block in BLOCK.findall(text)
             for line in block.splitlines()]  # fmt: skip
    assert lines
    return lines


def typed(root: Path, who: str, words: list[str]) -> Done:
    """Type one command as one person."""
    import sys

    place = root / who
    command = [sys.executable, "-m", "proxyguard.cli.main", *words[1:]]
    return warm.run(command, cwd=place, env=environment(place / "home"))


def walk(root: Path, section: str) -> dict[str, Done]:
    """Do what a section says, and return what each person's command said."""
    said: dict[str, Done] = {}
    identity = ""
    for who, words in steps(section):
        if words[0] == "cp":
            source, target = root / who / words[-2], root / who / words[-1]
            copy = shutil.copytree if "-r" in words else shutil.copyfile
            copy(source, target)
            continue
        if words[0] == "rm":
            shutil.rmtree(root / who / words[-1])
            continue
        expected = int(words[-1]) if "#" in words else 0
        words = words[: words.index("#")] if "#" in words else words
        done = typed(root, who, [identity if word == "IDENTITY" else word for word in words])
        assert done.returncode == expected, (who, words, done.stdout, done.stderr)
        if "--make-key" in words:
            identity = done.stdout.split()[-1]
        said[f"{who} {words[1]}"] = done
    return said


@pytest.fixture
def people(tmp_path: Path) -> Path:
    for who in ("author", "steward"):
        (tmp_path / who).mkdir()
    (tmp_path / "author" / "audit.toml").write_text(DECLARATION)
    return tmp_path


@pytest.mark.whole
def test_the_author_seals_and_the_steward_grants(people: Path) -> None:
    write_table(people / "author" / "data" / "table.csv")
    said = walk(people, "The author seals, and the steward grants")
    assert said["author draw"].stdout.splitlines()[-1].startswith("Next, by the steward: ")
    assert "self-attested" not in said["author open"].stdout
    (steward,) = set(re.findall(r"steward ([0-9a-f]{16})\.\.\.", said["steward status"].stdout))
    assert f"steward {steward}... holds the target's key; " in said["steward status"].stdout
    for command in ("author open", "steward verify"):
        assert (
            f"opening granted by steward {steward}..., who held the target's key"
            in said[command].stdout
        )
    assert f"steward {steward}" in (people / "author/audit/report.md").read_text()
    assert "Everything holds." in said["steward verify"].stdout
    assert not (people / "steward" / "data").exists()


@pytest.mark.whole
def test_the_steward_seals_and_the_table_stays(people: Path) -> None:
    write_table(people / "steward" / "vault" / "table.csv")
    said = walk(people, "The steward seals, and the table stays")
    assert "Guarantee: yes" in said["steward open"].stdout
    assert "Everything holds." in said["author verify"].stdout
    signer = re.findall(r"Signed by ([0-9a-f]{16})", said["author verify"].stdout)[0]
    words = f"self-attested: a steward by their own word, {signer}..., held the target's key"
    for command in ("steward open", "author verify"):
        assert words in said[command].stdout
    assert words in (people / "author/certified/report.md").read_text()
    # A reader without the development part is told what was not seen, and nothing is ticked.
    assert "rests on rows not seen" in said["steward verify"].stdout
    # Rows of development are in the folder as Parquet; of the table's text nothing is.
    table = (people / "steward" / "vault" / "table.csv").read_bytes()
    author = [path for path in (people / "author").rglob("*") if path.is_file()]
    assert author
    assert not [path for path in author if path.name == "table.csv" or table in path.read_bytes()]
    keys = [path for path in author if path.suffix in (".key", ".pem")]
    assert not keys  # and no key was handed out


def test_every_command_of_the_page_is_one(people: Path) -> None:
    page = PAGE.read_text("utf-8")
    blocks = sum(len(block.splitlines()) for _, block in BLOCK.findall(page))
    assert blocks == sum(
        len(steps(section))
        for section in re.findall(r"^## (.*)$", page, re.MULTILINE)
    )  # fmt: skip
    assert page.count("```sh") == len(BLOCK.findall(page))  # each says whose it is


@pytest.mark.whole
def test_the_steward_seals_and_the_author_draws(people: Path) -> None:
    write_table(people / "steward" / "vault" / "table.csv")
    (people / "author" / "releases").mkdir()
    for k in range(4):
        rng = np.random.default_rng(50 + k)
        x = rng.normal(size=(300, 2)).round(4)
        signal = x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=300)
        label = np.where(signal > 0, "yes", "no")
        lines = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
        text = "\n".join(["first,second,label", *lines]) + "\n"
        (people / "author" / "releases" / f"{k}.csv").write_text(text)
    declared = DECLARATION.replace(
        'generator = "bootstrap"\n', 'generator = "files"\noptions = { folder = "releases" }\n'
    ).replace("seeds = { first = 100 }\n", "")
    (people / "steward" / "files.toml").write_text(declared)
    said = walk(people, "The steward seals, and the author draws")
    assert "Guarantee: yes" in said["steward run"].stdout
    assert (people / "author" / "development" / "0.training.parquet").exists()
    assert (people / "author" / "opened" / "certificate.json").exists()
