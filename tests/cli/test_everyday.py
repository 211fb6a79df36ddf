"""What people type around an audit: a version, a completed word, a steward's key, the next step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import proxyguard as pg
from conformance.typed import DECLARATION, proxyguard, write_table
from proxyguard.cli.main import app
from proxyguard.seal.crypto import SigningKey


def test_the_version_is_told() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"proxyguard {pg.__version__}\n")


def completed(words: str, home: Path) -> list[str]:
    """Return what bash is offered after these words."""
    environment = {
        **os.environ, "_PROXYGUARD_COMPLETE": "complete_bash", "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1), "HOME": str(home),
    }  # fmt: skip
    command = [sys.executable, "-c",
               "import sys; sys.argv = ['proxyguard']; "
               "from proxyguard.extras import command; command()"]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_verbs_and_options(tmp_path: Path) -> None:
    assert set(completed("proxyguard re", tmp_path)) == {"register", "report"}
    assert "--junit" in completed("proxyguard verify --ju", tmp_path)


def test_completion_is_offered_and_can_be_read_before_it_is_installed(tmp_path: Path) -> None:
    said = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "--install-completion" in said
    assert "--show-completion" in said


def test_a_steward_makes_a_key_without_an_audit(tmp_path: Path) -> None:
    key = tmp_path / "steward.pem"
    done = CliRunner().invoke(app, ["grant", "--key", str(key), "--make-key"])
    assert done.exit_code == 0
    assert done.stdout.split()[-1] == SigningKey.load(key).identity
    assert [path.name for path in tmp_path.iterdir()] == ["steward.pem"]


def test_a_grant_without_a_folder_says_what_to_name(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["grant", "--key", str(tmp_path / "steward.pem")])
    assert done.exit_code == 2
    assert "proxyguard grant DIR" in done.stderr


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize("steward", [False, True])
def test_draw_names_the_step_that_comes_next(tmp_path: Path, steward: bool) -> None:
    write_table(tmp_path / "data" / "table.csv")
    (tmp_path / "typed.toml").write_text(DECLARATION)
    made = proxyguard(tmp_path, "grant", "--key", "steward.pem", "--make-key")
    option = ["--steward", made.stdout.split()[-1]] if steward else []
    assert proxyguard(tmp_path, "init", "audit", "--declaration", "typed.toml").returncode == 0
    assert proxyguard(tmp_path, "seal", "audit", "--data", "data", *option).returncode == 0
    assert proxyguard(tmp_path, "register", "audit", "--data", "data").returncode == 0
    drawn = proxyguard(tmp_path, "draw", "audit", "--data", "data", "--workers", "1")
    words = (
        "Next, by the steward: proxyguard grant audit --key KEY"
        if steward
        else "Next: proxyguard open audit"
    )
    assert drawn.stdout.splitlines()[-1] == words
    if steward:
        granted = proxyguard(tmp_path, "grant", "audit", "--key", "steward.pem", "--home", "their")
        assert granted.returncode == 0, granted.stderr
    opened = proxyguard(tmp_path, "open", "audit", "--data", "data", "--junit", "open.xml")
    assert opened.returncode == 0, opened.stderr
    (case,) = ElementTree.parse(tmp_path / "open.xml").getroot()[0]
    assert (case.get("name"), len(case)) == ("bootstrap", 0)
    verified = proxyguard(tmp_path, "verify", "audit", "--junit", "verify.xml")
    assert verified.returncode == 0
    found = ElementTree.parse(tmp_path / "verify.xml").getroot()[0]
    assert (found.get("failures"), found.get("skipped")) == ("0", "0")
    assert "ledger: chain and signatures" in [case.get("name") for case in found]
