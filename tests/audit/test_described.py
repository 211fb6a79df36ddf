"""Somebody else's generator is asked about itself where it cannot read the target or the keys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyguard.audit import jobs
from proxyguard.audit.audit import Audit
from proxyguard.draw import confine as landlock
from proxyguard.draw import pool
from proxyguard.draw.catalog import EXTRAS, TORCH
from proxyguard.draw.job import AskJob
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError

DECLARATION = """\
format = 1
name = "spied on"
purpose = "What can a generator see where it does not draw?"

[target]
table = "table.csv"
reserve = { rows = 60, seed = 11 }
outcome = "label"
positive = "yes"

[[requirement]]
name = "share"
form = "query"
limit = "0.5"
query = { share = { label = "yes" } }

[[mechanism]]
name = "spy"
generator = "pg_spy:Spy"
draws = 2
seeds = { first = 100 }

[claim]
reliability_target = "0.1"
"""
SEQUENTIAL = 'mode = "sequential"\nthreshold = "0.01"\nlooks = [1, 2]\n'
SPY = """\
from pathlib import Path

ROOT = Path({root!r})


def could():
    done = []
    for name in ("data/table.csv", "home/signing.pem", "audit/ledger.jsonl"):
        try:
            (ROOT / name).read_bytes()
            done.append("read " + name)
        except OSError:
            pass
    try:
        (ROOT / "left").write_text("for the draws")
        done.append("left a word")
    except OSError:
        pass
    return done


IMPORTED = could()


class Spy:
    batch = 4

    def __init__(self):
        self.made = could()

    def describe(self):
        return {{"imported": IMPORTED, "made": self.made, "asked": could()}}

    def survey(self, seeds, schema):
        return []

    def prepare(self, source, rng):
        self._source = source

    def draw(self, seed):
        rng = seed.rng("rows")
        return self._source.iloc[rng.integers(len(self._source), size=40)]
"""
HELD = pytest.mark.skipif(
    landlock.version() == 0, reason="without Landlock an audit hook refuses less"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a table, and beside it a generator on the import path."""
    rng = np.random.default_rng(1)
    rows = [f"{x:.4f},{'yes' if x > 0 else 'no'}" for x in rng.normal(size=160)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").write_text("\n".join(["first,label", *rows]) + "\n")
    write(tmp_path, SPY.format(root=str(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield tmp_path
    sys.modules.pop("pg_spy", None)


def write(root: Path, text: str) -> None:
    (root / "code").mkdir(exist_ok=True)
    (root / "code" / "pg_spy.py").write_text(text)


def audit_of(root: Path, text: str = DECLARATION) -> Audit:
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(text)
    return audit


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was asked in a process apart, in order."""
    names: list[str] = []

    def counted(job: AskJob, **settings: Any) -> Any:
        names.append(job.name)
        return pool.asked(job, **settings)

    monkeypatch.setattr(jobs, "asked", counted)
    return names


@pytest.mark.whole
@HELD
def test_no_step_of_an_audit_loads_somebody_elses_generator_where_it_could_read_the_target(
    root: Path, processes: list[str]
) -> None:
    audit = audit_of(root)
    steps: dict[str, Callable[[], Any]] = {
        "check": audit.check, "seal": audit.seal, "check it sealed": audit.check,
        "register": audit.register, "draw": audit.draw, "open": audit.open,
        "status": audit.status, "report": audit.report, "verify": audit.verify,
    }  # fmt: skip
    asked = {}
    for step, take in steps.items():
        processes.clear()
        outcome = take()
        asked[step] = list(processes)
        assert "pg_spy" not in sys.modules, step
        assert not (root / "left").exists(), step
        if step.startswith("check"):
            assert outcome.problems == []
    assert {step for step, names in asked.items() if names} == {
        "check", "check it sealed", "register", "draw",
    }  # fmt: skip
    assert all(names in ([], ["spy"]) for names in asked.values())  # one process a command
    registered = (
        audit.folder.registry(audit.journal()).members["target"].to_dict()["mechanisms"]["spy"]
    )
    # It was loaded, made and asked, and could do nothing anywhere.
    assert registered["describe"] == {"imported": [], "made": [], "asked": []}
    assert registered["batch"] == 1
    assert registered["files"] == []
    assert list(registered["origin"]["code"]) == ["pg_spy"]


@HELD
def test_a_sequential_audit_asks_somebody_elses_generator_apart_after_opening(
    root: Path, processes: list[str]
) -> None:
    audit = audit_of(root, DECLARATION + SEQUENTIAL)
    audit.seal()
    audit.register()
    processes.clear()
    audit.open(most=2)
    assert processes == ["spy"]
    assert "pg_spy" not in sys.modules
    assert not (root / "left").exists()


def test_names_of_procedures_and_losses_are_tried_apart(root: Path) -> None:
    write(root, "def loss(y, p):\n    return (y - p) ** 2\n")
    text = DECLARATION.replace(
        'form = "query"\nlimit = "0.5"\nquery = { share = { label = "yes" } }',
        'form = "absolute"\nlimit = "0.5"\nloss = "pg_spy:{loss}"\nlow = "0"\nhigh = "1"',
    ).replace('generator = "pg_spy:Spy"', 'generator = "bootstrap"')
    text = text.replace(
        "[[requirement]]", '[procedure]\nlibrary = ["{learner}"]\n\n[[requirement]]'
    )
    audit = audit_of(root, text.replace("{loss}", "loss").replace("{learner}", "pg_spy:learn"))
    assert audit.check().problems == ["'pg_spy:learn' cannot be loaded: pg_spy has no learn"]
    assert "pg_spy" not in sys.modules


def test_check_says_what_to_install_for_a_generator_of_ours_and_which_name_moved(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "bootstrap", TORCH)
    monkeypatch.setitem(sys.modules, "torch", None)
    audit = audit_of(root, DECLARATION.replace("pg_spy:Spy", "bootstrap"))
    assert audit.check().problems == [
        "spy: generator = 'bootstrap' needs the extra torch; type: pip install "
        '"proxyguard[torch]" (not installed here: torch); before it: pip install torch==2.13.0'
    ]
    place = audit.folder / "audit.toml"
    place.write_text(DECLARATION.replace("pg_spy:Spy", "sdv"))
    (problem,) = audit.check().problems
    assert problem.startswith("spy: ")
    assert "'sdv_package'" in problem


class TestWhatGoesWrong:
    """Whatever code does that is asked about itself ends in an error of ours."""

    def refusal(self, root: Path, text: str, kind: type[ProxyGuardError]) -> str:
        write(root, text)
        place = audit_of(root).place
        (member,) = place.folder.declaration().members
        with pytest.raises(kind) as refused:
            place.descriptions.of(place, member, member.mechanism[0])
        assert "pg_spy" not in sys.modules
        return str(refused.value)

    def test_it_ends_the_process(self, root: Path) -> None:
        words = self.refusal(root, "import os\nos._exit(0)\n", RegistryError)
        assert "spy: the generator ended its process (exit code 0) while it was loaded" in words

    def test_it_hangs(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "PATIENCE", 2.0)
        words = self.refusal(root, "import time\ntime.sleep(600)\n", DrawError)
        assert "gave no answer in 2 s" in words

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("batch = 0", "a wrong batch"),
            ("code = [3]", "a wrong code.0"),
        ],
    )
    def test_it_answers_nonsense(self, root: Path, line: str, said: str) -> None:
        text = f"class Spy:\n    {line}\n    draw_many = draw = prepare = print\n"
        text += "    describe = lambda self: {}\n"
        words = self.refusal(root, text, DrawError)
        assert f"answered a record of status told with {said}" in words

    def test_it_raises(self, root: Path) -> None:
        words = self.refusal(root, "raise KeyError('no such model')\n", RegistryError)
        assert words == "spy: KeyError: 'no such model' (in pg_spy.py, line 1)"

    def test_it_nests_its_settings_deeper_than_documents_are_read(self, root: Path) -> None:
        nested = (
            "class Spy:\n    draw = prepare = print\n    def describe(self):\n        told = {}\n"
        )
        nested += (
            "        for _ in range(300):\n            told = {'in': told}\n        return told\n"
        )
        words = self.refusal(root, nested, RegistryError)
        assert "nested more than 16 deep" in words
