"""From a declaration of somebody else to a sealed target: what each command says comes next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from conformance.typed import DECLARATION, write_table
from proxyguard.audit.audit import Audit
from proxyguard.cli.main import app
from proxyguard.seal.ledger import Stage

CODE = """\
generator = "code"
options.name = "drawn"
options.text = '''
SECRET = "a path of the author"

def drawn(source, rng):
    return source.iloc[rng.integers(0, len(source), 50)]
'''
"""


def typed(folder: Path, verb: str, *rest: str) -> Result:
    home = ("--home", str(folder.parent / "home"))
    return CliRunner().invoke(app, [verb, str(folder), *home, *rest])


def begun(root: Path, text: str) -> tuple[Path, Result]:
    (root / "their.toml").write_text(text)
    return root / "audit", typed(root / "audit", "init", "--from", str(root / "their.toml"))


def test_init_says_what_is_to_be_put_where_and_what_to_type(tmp_path: Path) -> None:
    folder, done = begun(tmp_path, DECLARATION)
    lines = done.stdout.splitlines()
    place = f"{tmp_path / 'table.csv'}: the real table"
    assert lines[-2] == f"Put first beside the folder, or where --data points: {place}"
    assert lines[-1] == f"Next: proxyguard check {folder}"


def test_after_the_seal_files_that_are_still_to_be_made_are_asked_for(tmp_path: Path) -> None:
    files = 'generator = "files"\noptions = { folder = "drawn", pattern = "*.csv", first = 100 }'
    write_table(tmp_path / "data" / "table.csv")
    folder, _ = begun(tmp_path, DECLARATION.replace('generator = "bootstrap"', files))
    place = f"{tmp_path / 'drawn'}: the folder of the releases"
    asked = [f"Put first beside the folder, or where --data points: {place}",
             f"Next: proxyguard register {folder}"]  # fmt: skip
    done = typed(folder, "seal", "--data", str(tmp_path / "data"))
    assert done.stdout.splitlines()[-2:] == asked
    status = CliRunner().invoke(app, ["status", str(folder)])
    assert status.stdout.splitlines()[-2:] == asked
    (tmp_path / "drawn").mkdir()
    assert "Put first" not in CliRunner().invoke(app, ["status", str(folder)]).stdout


def test_init_shows_the_code_that_a_page_brings(tmp_path: Path) -> None:
    text = DECLARATION.replace('generator = "bootstrap"\n', CODE).replace(
        '"fixed_logistic"', '"theirs:Learner"'
    )
    write_table(tmp_path / "data" / "table.csv")
    folder, done = begun(tmp_path, text)
    assert "without keys and target: go on only if you trust what you read here" in done.stdout
    assert '    | SECRET = "a path of the author"' in done.stdout.splitlines()
    assert "run code of others: theirs:Learner." in done.stdout
    again = typed(folder.parent / "other", "init", "--from", str(tmp_path / "their.toml"), "--json")
    said = json.loads(again.stdout)
    assert list(said["carried_code"]) == ["bootstrap"]
    assert said["named_code"] == ["theirs:Learner"]


def test_init_says_why_what_it_wrote_cannot_be_honoured(tmp_path: Path) -> None:
    folder, done = begun(tmp_path, "format = 1\n")
    assert done.exit_code == 1
    assert (folder / "audit.toml").exists()
    said = str(done.exception)
    assert f"{folder / 'audit.toml'} is there to be mended: audit.toml cannot be honoured:" in said
    assert "purpose: missing" in said


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ('positive = "yes"', 'positive = "ja"', 1, "problem: "),
        ('"0.3"\n', '"0.99"\n', 3, "cannot succeed: "),
    ],
)
def test_run_seals_nothing_that_check_would_stop(
    tmp_path: Path, old: str, new: str, code: int, words: str
) -> None:
    write_table(tmp_path / "data" / "table.csv")
    folder, _ = begun(tmp_path, DECLARATION.replace(old, new))
    done = typed(folder, "run", "--data", str(tmp_path / "data"))
    assert done.exit_code == code, done.output
    assert done.stdout.startswith(words)
    assert done.stdout.splitlines()[-1] == "Nothing was sealed."
    assert not Audit(folder, home=tmp_path / "home").journal().ledger.has(Stage.SEALED)


def test_run_prints_what_check_warns_of_before_it_opens(tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "table.csv")
    loose = DECLARATION.replace('limit = "0.30"', 'limit = "0.60"')
    held = '[development]\nvalidation = { fraction = "0.25", seed = 1 }\n\n[procedure]'
    folder, _ = begun(tmp_path, loose.replace("[procedure]", held))
    done = typed(folder, "run", "--data", str(tmp_path / "data"))
    assert done.exit_code in (0, 3), done.output
    said = done.stdout
    policy = "warning: risk: the constant policy, which learns nothing, has 0.2500"
    assert policy in said
    assert said.index(policy) < said.index("Report: ")


def test_check_names_what_comes_next_and_never_contradicts_its_warnings(tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "table.csv")
    folder, _ = begun(tmp_path, DECLARATION)
    data = ("--data", str(tmp_path / "data"))
    good = typed(folder, "check", *data).stdout.splitlines()
    assert good[-2] == "Nothing stands in the way."
    assert good[-1].startswith(f"Next: proxyguard run {folder} (")
    declared = (folder / "audit.toml").read_text()
    used = declared.replace('positive = "yes"\n', 'positive = "yes"\nprior_use = "a pilot"\n')
    (folder / "audit.toml").write_text(used)
    lost = typed(folder, "check", *data)
    assert lost.exit_code == 0
    assert "guarantee no: the declaration says: a pilot" in lost.stdout
    assert "Nothing stands in the way" not in lost.stdout
    assert "the certificate would have no guarantee" in lost.stdout


def test_check_reads_the_outcomes_of_named_releases(tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "table.csv")
    table = (tmp_path / "data" / "table.csv").read_text()
    named, rest = "", table.splitlines()
    for k in range(5):
        lost = [rest[0], rest[1].rsplit(",", 1)[0] + ",", *rest[2:]]
        (tmp_path / "data" / f"r{k}.csv").write_text("\n".join(lost) + "\n")
        named += f'[[release]]\nname = "r{k}"\nfile = "r{k}.csv"\n'
    head = DECLARATION[: DECLARATION.index("[[mechanism]]")]
    folder, _ = begun(tmp_path, head + named + '[claim]\nlevel = "releases"\n')
    done = typed(folder, "check", "--data", str(tmp_path / "data"))
    assert done.exit_code == 1
    assert "problem: r0.csv, row 1: 'label' is missing; give it one, or write" in done.stdout
    assert "the same of r1.csv, row 1; r2.csv, row 1; r3.csv, row 1; r4.csv, row 1" in done.stdout
    declared = (folder / "audit.toml").read_text()
    (folder / "audit.toml").write_text(
        declared.replace("[target]\n", '[target]\nmissing_outcomes = "leave out"\n')
    )
    assert typed(folder, "check", "--data", str(tmp_path / "data")).exit_code == 0


UNSEEDED = """
import numpy as np

BROKEN = {broken}

class Mine:
    def describe(self):
        return {{"mechanism": "rows"}}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        rng = seed.rng("rows")
        if BROKEN:
            return self.source[["first"]]
        {more}
        return self.source.sample(50, replace=True, random_state=rng).reset_index(drop=True)
"""


@pytest.mark.parametrize(
    ("more", "broken", "options", "words"),
    [
        ("pass", False, (), "fact: bootstrap: one seed drawn twice gives the same release"),
        # Of numpy's own generator, which forks of one process would share.
        ("rng = np.random.randint(10**6)", False, (),
         "warning: bootstrap: one seed drawn twice gives two releases, so something else"),
        ("pass", True, (), "warning: bootstrap: a draw that was tried on the training rows failed"),
        ("pass", True, ("--no-draw",), ""),
    ],
)  # fmt: skip
@pytest.mark.reduced(cases=2)
def test_check_draws_one_seed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, broken: bool,
    options: tuple[str, ...], words: str,
) -> None:  # fmt: skip
    (tmp_path / "code").mkdir()
    text = UNSEEDED.format(more=more, broken=broken)
    (tmp_path / "code" / "theirs.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "code")
    write_table(tmp_path / "data" / "table.csv")
    folder, _ = begun(tmp_path, DECLARATION.replace('"bootstrap"\ndraws', '"theirs:Mine"\ndraws'))
    done = typed(folder, "check", "--data", str(tmp_path / "data"), *options)
    assert words in done.stdout, done.output
    assert ("drawn twice" in done.stdout or "was tried" in done.stdout) is bool(words)
