"""The command line says what happened, in words or JSON, and ends with the code that means it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from conformance.typed import DECLARATION, Done, environment, proxyguard, write_table
from proxyguard.audit.audit import Audit
from proxyguard.audit.check import Begun
from proxyguard.cli import show, steps

LOSSES = """\
format = 1
name = "computed elsewhere"
purpose = "Does the worst verdict give the code?"

[target]
losses = "losses.npz"

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "{limit}"

[[mechanism]]
name = "given"
generator = "losses"
draws = 8
seeds = { first = 1 }

[claim]
reliability_target = "{reliability}"
"""


def assert_one_message(done: Done, code: int, words: str) -> None:
    """An error is one message on the error stream, and no traceback."""
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("proxyguard: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


STEPS: list[tuple[str, ...]] = [
    ("init", "--declaration", "typed.toml"),
    ("check", "--data", "data"),
    ("seal", "--data", "data"),
    ("register", "--data", "data"),
    ("draw", "--data", "data", "--workers", "1"),
    ("open", "--data", "data"),
    ("report",),
    ("verify",),
    ("status",),
    ("log",),
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Done]]:
    """A whole audit, typed step by step, and what every step said."""
    root = tmp_path_factory.mktemp("typed")
    write_table(root / "data" / "table.csv")
    (root / "typed.toml").write_text(DECLARATION)
    said = {}
    for verb, *options in STEPS:
        said[verb] = proxyguard(root, verb, "audit", *options, "--json")
        assert said[verb].returncode == 0, (verb, said[verb].stderr)
    return root, said


@pytest.fixture
def copied(typed: tuple[Path, dict[str, Done]], tmp_path: Path) -> Path:
    """A copy of the certified audit, to be spoilt."""
    root = tmp_path / "copy"
    shutil.copytree(typed[0], root)
    return root


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A folder that is only initialised, as the command would."""
    from proxyguard.audit.audit import Audit

    Audit(tmp_path / "audit", home=tmp_path / "home").init(DECLARATION)
    return tmp_path


def test_every_step_gives_its_result_as_json(typed: tuple[Path, dict[str, Done]]) -> None:
    root, said = typed
    found: dict[str, Any] = {verb: json.loads(done.stdout) for verb, done in said.items()}
    assert all(done.stderr == "" for done in said.values())
    assert found["init"]["declaration"] == "audit/audit.toml"
    assert found["check"]["good"] is True
    assert found["seal"]["members"]["target"]["records"] == 200
    limit = found["register"]["members"]["target"]["requirements"][0]["limit"]
    assert limit == {"value": "0.30", "rule": "as declared", "inputs": {}}
    draws = found["draw"]["members"]["target"]["bootstrap"]["draws"]
    assert [(d["seed"], d["status"]) for d in draws] == [(100 + i, "drawn") for i in range(4)]
    assert [v["decision"] for v in found["open"]["verdicts"]] == ["validated"]
    assert [Path(f).name for f in found["report"]["files"]] == [
        "report.md", "report.html", "report.json", "report.csv",
    ]  # fmt: skip
    assert found["verify"]["good"] is True
    assert found["verify"]["unknown"] == []
    assert found["verify"]["decisions"] == {"bootstrap": "validated"}
    assert found["verify"]["no_guarantee"] == ""
    assert found["status"]["next"] == "verify"
    assert [step["stage"] for step in found["status"]["steps"]] == [
        "sealed", "developed", "registered", "drawn", "opened", "certified",
    ]  # fmt: skip
    assert found["log"]["signers"] == found["verify"]["signers"] == [found["init"]["signer"]]
    assert [e["digest"] for e in found["log"]["entries"]][-1] == found["status"]["head"]
    assert (root / "home" / "signing.pem").stat().st_mode & 0o077 == 0


def test_people_get_words(typed: tuple[Path, dict[str, Done]]) -> None:
    root, _ = typed
    verified = proxyguard(root, "verify", "audit")
    assert verified.returncode == 0
    assert verified.stdout.rstrip().endswith("Everything holds.")
    assert "ok   ledger: chain and signatures" in verified.stdout
    assert "✓ VALIDATED: bootstrap" in verified.stdout
    status = proxyguard(root, "status", "audit")
    assert status.stdout.splitlines()[0] == "typed"
    assert "✓ VALIDATED: bootstrap" in status.stdout
    log = proxyguard(root, "log", "audit")
    assert log.stdout.count("      digest ") == 6


def test_the_end_says_what_checking_takes_and_what_the_folder_gives_away(
    typed: tuple[Path, dict[str, Done]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = typed[0] / "audit"
    certificate = Audit(folder).certificate()
    plain = [*steps._check_lines(certificate, folder)]
    assert plain[0] == f"Whoever has the folder can check this: proxyguard verify {folder}"
    held = sum(certificate.folder.journal().ledger.sealed.members["target"].development.values())
    assert f"holds {held:,} records in clear, in development/" in plain[1]
    assert len(plain) == 2
    named = Begun(missing=(), named=("mine.trees:Forest", "mine.trees:Bush"), carried=())
    monkeypatch.setattr("proxyguard.audit.check.begun", lambda *_, **__: named)
    first, second, third, _ = steps._check_lines(certificate, folder)
    assert first.endswith("--redraw 1 --run-named-code")
    assert "code of others" in second
    assert third.endswith("in the same version: mine.trees.")


def test_verify_asks_for_more_than_a_sound_record_where_it_is_told_to(
    typed: tuple[Path, dict[str, Done]], tmp_path: Path
) -> None:
    shutil.copytree(typed[0], tmp_path / "copy")
    root = tmp_path / "copy"
    assert proxyguard(root, "verify", "audit", "--require-validated").returncode == 0
    deviated = proxyguard(root, "deviate", "audit", "--reason", "the table was looked at before")
    assert deviated.returncode == 0, deviated.stderr
    for options, code in ((), 0), (("--require-validated",), 7):
        verified = proxyguard(root, "verify", "audit", *options, "--junit", "verify.xml")
        assert verified.returncode == code
        assert "VALIDATED: bootstrap (no guarantee remains)" in verified.stdout
        failures = ElementTree.parse(root / "verify.xml").getroot()[0].get("failures")
        assert failures == ("1" if options else "0")


def test_the_machine_and_the_schema_are_described(tmp_path: Path) -> None:
    doctor = proxyguard(tmp_path, "doctor", "--json")
    assert doctor.returncode == 0
    found = json.loads(doctor.stdout)
    assert found["problems"] == []
    assert found["facts"]["home"] == str(tmp_path / "home")
    schema = proxyguard(tmp_path, "schema")
    assert schema.returncode == 0
    assert json.loads(schema.stdout)["additionalProperties"] is False
    as_json = proxyguard(tmp_path, "schema", "--json")
    assert (as_json.returncode, as_json.stdout) == (0, schema.stdout)


@pytest.mark.parametrize(
    ("scale", "reliability", "code", "decision"),
    # Losses that were computed elsewhere have no guarantee, which only 0 could hide.
    [(0.2, "0.3", 7, "validated"), (0.6, "0.5", 3, "unresolved"), (1.0, "0.5", 4, "violation")],
)
def test_run_takes_all_steps_and_ends_with_the_code_of_the_worst_verdict(
    tmp_path: Path, scale: float, reliability: str, code: int, decision: str
) -> None:
    losses = np.random.default_rng(2).uniform(0.0, scale, size=(8, 300, 1))
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses,
        releases=np.array([f"r{i}" for i in range(8)]),
        requirements=np.array(["risk"]),
    )
    text = LOSSES.replace("{limit}", "0.30").replace("{reliability}", reliability)
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.toml").write_text(text)
    done = proxyguard(tmp_path, "run", "audit", "--data", "data", "--json")
    assert done.returncode == code, done.stderr
    assert [v["decision"] for v in json.loads(done.stdout)["verdicts"]] == [decision]
    if decision == "violation":
        again = proxyguard(tmp_path, "run", "audit")
        assert again.returncode == code
        assert "? VIOLATION: given (no guarantee remains)" in again.stdout
        assert "Whoever has the folder can check this: proxyguard verify audit" in again.stdout
        assert "in clear" not in again.stdout  # losses alone: no development part


@pytest.mark.whole
def test_a_validated_audit_without_a_guarantee_ends_with_a_code_of_its_own(copied: Path) -> None:
    for verb in ("open", "run"):
        assert proxyguard(copied, verb, "audit", "--data", "data").returncode == 0
    assert proxyguard(copied, "deviate", "audit", "--reason", "looked").returncode == 0
    for verb in ("open", "run"):
        done = proxyguard(copied, verb, "audit", "--data", "data")
        assert done.returncode == 7
        assert "(no guarantee remains)" in done.stdout
        said = " ".join(proxyguard(copied, verb, "--help").stdout.split())
        assert "no guarantee remains" in said
    page = (Path(__file__).parents[2] / "docs" / "howto" / "audit.md").read_text(encoding="utf-8")
    said = " ".join(proxyguard(copied, "--help").stdout.split())
    for code in show.Exit:
        assert f"| {code.value} | " in page, code
        assert f" {code.value} " in said.split("Exit codes:")[1], code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "nowhere"), "there is no audit folder at nowhere"),
        (("register", "audit"), "the target must be sealed first"),
        (("seal", "audit"), "there is no 'table.csv' in"),
        (("init", "audit"), "is here already"),
        (("draw", "audit", "--json"), "nothing is registered yet"),
    ],
)
def test_what_can_be_mended_is_code_1(fresh: Path, arguments: tuple[str, ...], words: str) -> None:
    assert_one_message(proxyguard(fresh, *arguments), 1, words)


def test_a_check_that_fails_says_why_and_is_code_1(fresh: Path) -> None:
    done = proxyguard(fresh, "check", "audit", "--json")
    assert done.returncode == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert "there is no 'table.csv' in" in problem
    (fresh / "audit" / "audit.toml").write_text(DECLARATION.replace("draws = 4", "draws = 0"))
    assert_one_message(proxyguard(fresh, "check", "audit"), 1, "draws")


@pytest.mark.parametrize(
    "arguments",
    [("opn", "audit"), ("status",), ("status", "audit", "--jsno"), ("amend", "audit"),
     ("draw", "audit", "--workers", "0")],
)  # fmt: skip
def test_what_was_typed_wrongly_is_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = proxyguard(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr


def spoil_evidence(folder: Path) -> None:
    place = folder / "evidence.json"
    place.write_bytes(place.read_bytes().replace(b"0", b"1", 1))


def cut_ledger(folder: Path) -> None:
    place = folder / "ledger.jsonl"
    place.write_bytes(place.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("spoil", "place"), [(spoil_evidence, "evidence.json"), (cut_ledger, "ledger.jsonl")]
)
def test_a_broken_folder_is_code_5(copied: Path, spoil: Callable[[Path], None], place: str) -> None:
    spoil(copied / "audit")
    done = proxyguard(copied, "verify", "audit", "--json")
    assert done.returncode == 5
    found = json.loads(done.stdout)
    assert found["good"] is False
    assert [finding["place"] for finding in found["findings"]] == [place]
    if spoil is cut_ledger:
        assert_one_message(
            proxyguard(copied, "status", "audit"), 5, "does not end with a whole line"
        )
    else:
        words = proxyguard(copied, "verify", "audit")
        assert words.returncode == 5
        assert "BAD  evidence.json: was changed" in words.stdout
        assert words.stdout.rstrip().endswith("This folder does not hold.")


LIBRARIES = "numpy, scipy.special, pydantic, typer, cryptography.hazmat.primitives.serialization"


@pytest.mark.parametrize("verb", ["status", "log", "verify"])
def test_looking_at_a_folder_takes_little_more_than_to_load_its_libraries(
    fresh: Path, verb: str
) -> None:
    heavy = {"pandas", "pyarrow", "sklearn", "jinja2", "matplotlib"}
    code = (
        "import sys, time\n"
        "from proxyguard.cli.main import main\n"
        f"sys.argv = ['proxyguard', {verb!r}, 'audit', '--json']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"assert not {heavy!r} & set(sys.modules), sorted({heavy!r} & set(sys.modules))\n"
        "print(time.process_time(), file=sys.stderr)\n"
    )
    bare = f"import sys, time\nimport {LIBRARIES}\nprint(time.process_time(), file=sys.stderr)\n"

    def seconds(source: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", source],
            cwd=fresh, env=environment(fresh / "home"), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert source is bare or json.loads(done.stdout)
        return float(done.stderr)

    # A busy machine slows single runs, of both: the quickest of each tell how much work they are.
    spent, loading = [], []
    for _ in range(6):
        spent.append(seconds(code))
        loading.append(seconds(bare))
        if min(spent) < 2.5 * min(loading):
            return
    pytest.fail(f"every run took too long: {spent}, the libraries alone {loading}")
