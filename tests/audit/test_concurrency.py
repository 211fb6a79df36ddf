"""Real processes: killed with `kill -9` at five moments, and two of them at the same work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest

from conformance.warm import Popen
from proxyguard.audit.audit import Audit
from proxyguard.audit.home import Home
from proxyguard.cli import main, show
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.seal.storage import LEFTOVER, exclusive

At = Callable[[str], Audit]


def command(verb: str, audit: Audit) -> list[str]:
    """Return the command line of a verb on an audit made by ``at``."""
    root = audit.folder.path.parent
    return [
        sys.executable, "-m", "proxyguard.cli.main", verb, str(audit.folder.path),
        "--home", str(root / "home"), "--data", str(root / "data"), "--workers", "1",
    ]  # fmt: skip


def stored(folder: Path) -> dict[str, bytes]:
    """Return the store's objects by their address."""
    return {place.name: place.read_bytes() for place in (folder / "store").glob("*/*")}


def openings(audit: Audit) -> int:
    """Return how often targets were opened, as the lineage store remembers it."""
    base = sqlite3.connect(audit.home.root / "lineage.sqlite")
    try:
        return int(base.execute("select count(*) from openings").fetchone()[0])
    finally:
        base.close()


def steps(audit: Audit) -> Counter[str]:
    """Return how often each step is in the ledger."""
    return Counter(entry.stage.value for entry in audit.journal().ledger.entries)


def entries(audit: Audit) -> int:
    """Return the number of ledger entries, without checking them."""
    ledger = audit.folder / "ledger.jsonl"
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


MOMENTS: dict[str, Callable[[Audit], bool]] = {
    "sealing": lambda audit: (audit.folder / "target").exists(),
    "sealed": lambda audit: entries(audit) >= 1,
    "registered": lambda audit: entries(audit) >= 3,
    "drawing": lambda audit: any(audit.folder.path.glob("draws/*/*.json")),
    "opened": lambda audit: entries(audit) >= 5,
}


def killed_at(moment: str, audit: Audit) -> bool:
    """Run an audit and kill it at this moment; return whether it was still at work then."""
    # A group of its own, so that the drawing processes die at the same instant.
    with Popen(
        command("run", audit),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        end = time.monotonic() + 120.0
        while not MOMENTS[moment](audit) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert MOMENTS[moment](audit)
    return process.returncode == -signal.SIGKILL and "certified" not in steps(audit)


DRAWS = (8, 40, 200)
"""As many as the undisturbed audit has; more where a run was over before it could be killed."""


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_audit_goes_on_after_kill_9(
    at: At,
    stages: Path,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for draws in DRAWS:
        audit = at("new")
        declaration = audit.folder / "audit.toml"
        text = declaration.read_text()
        assert text.count("draws = 8\n") == 1
        declaration.write_text(text.replace("draws = 8\n", f"draws = {draws}\n"))
        if killed_at(moment, audit):
            break
        shutil.rmtree(audit.folder.path.parent)
    else:
        pytest.fail(f"no run could be killed: {moment}")
    kept = {path.name: path.read_bytes() for path in audit.folder.path.glob("draws/*/*.json")}
    assert bool(kept) is (moment == "drawing")

    certificate = audit.run().to_dict()
    assert certificate is not None
    # Releases and models depend on the registered seeds alone; scores also on the salt.
    undisturbed = Audit(stages / "certified" / "audit", home=stages / "certified" / "home")
    assert stored(undisturbed.folder.path).items() <= stored(audit.folder.path).items()
    if draws == DRAWS[0]:
        assert stored(audit.folder.path) == stored(undisturbed.folder.path)
        decided = [v["decision"] for v in certificate["verdicts"]]
        assert decided == list(undisturbed.certificate().decisions.values())
    manifest = json.loads(audit.folder.read("releases.json"))
    records = manifest["members"]["target"]["bootstrap"]["draws"]
    assert {name: canonical_bytes(one) for one in records
            if (name := f"{one['seed']}.json") in kept} == kept  # fmt: skip
    assert [one["seed"] for one in records] == list(range(100, 100 + draws))
    assert set(steps(audit).values()) == {1}
    assert openings(audit) == 1
    assert not list(audit.folder.path.rglob(f"*{LEFTOVER}"))
    assert not (audit.folder / "draws").exists()
    monkeypatch.setattr(sys, "argv", ["proxyguard", "verify", str(audit.folder.path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr().out
    assert ended.value.code == show.Exit.DONE, said
    assert "nothing vouches" not in said


def at_once(verb: str, audit: Audit) -> list[tuple[int, str]]:
    """Run a verb in two processes at once; return their codes and what they complained of."""
    started = [
        Popen(command(verb, audit), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = []
    for process in started:
        _, complaint = process.communicate(timeout=300)
        found.append((process.returncode, complaint))
    return found


@pytest.mark.reduced(cases=1)
@pytest.mark.parametrize(
    ("before", "verb", "after"),
    [("registered", "draw", "drawn"), ("drawn", "open", "certified")],
)
def test_two_processes_at_one_step_record_it_once(
    at: At, stages: Path, before: str, verb: str, after: str
) -> None:
    audit = at(before)
    undisturbed = Audit(stages / "certified" / "audit")
    done = (
        show.Exit.DONE
        if verb == "draw"
        else show.verdict_code(undisturbed.certificate().decisions.values())
    )
    found = at_once(verb, audit)
    # The second finds the folder held, or the step done.
    assert done in [code for code, _ in found], found
    for code, complaint in found:
        assert code in (done, show.Exit.ERROR), complaint
        if code == show.Exit.ERROR:
            assert "another process is working on" in complaint
    assert steps(audit)[after] == 1
    assert not (audit.folder / "draws").exists()
    reports = [audit.folder / name for name in ("report.md", "report.html")]
    assert [path.exists() for path in reports] == [verb == "open"] * 2
    assert stored(audit.folder.path) == stored(undisturbed.folder.path)
    audit.run()
    assert set(steps(audit).values()) == {1}
    assert openings(audit) == 1
    verified = audit.verify()
    assert verified.good, verified.findings
    assert verified.unknown == []


@pytest.mark.parametrize(
    ("stage", "verb"),
    [
        ("new", "seal"), ("sealed", "register"), ("registered", "draw"), ("drawn", "open"),
        ("certified", "report"), ("certified", "run"),
    ],
)  # fmt: skip
def test_a_folder_that_is_held_is_left_alone(
    at: At,
    stage: str,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit = at(stage)
    before = {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}
    arguments = ["proxyguard", verb, str(audit.folder.path), "--home", str(audit.home.root)]
    if verb != "report":
        arguments += ["--data", str(audit.folder.path.parent / "data")]
    monkeypatch.setattr(sys, "argv", arguments)
    with exclusive(audit.folder.path), pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == show.Exit.ERROR
    assert "another process is working on" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()} == before


def test_a_folder_that_is_held_can_be_looked_at(at: At) -> None:
    audit = at("registered")
    with exclusive(audit.folder.path):
        assert audit.status().next == "draw"
        assert audit.verify().good


def test_many_who_start_at_once_share_one_signing_key(tmp_path: Path) -> None:
    home, together = Home(tmp_path / "home"), Barrier(8)

    def make(_: int) -> str:
        together.wait()
        return home.make_signing_key().public

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(make, range(8)))
    assert found == {home.signing_key().public}
    assert [path.name for path in home.root.iterdir()] == ["signing.pem"]
    assert home.signing_path.stat().st_mode & 0o777 == 0o600
