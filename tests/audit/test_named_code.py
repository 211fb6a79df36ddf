"""Verifying a stranger's folder runs no code of the stranger's, unless that is asked for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

from models.as_pipeline import as_pipeline
from proxyguard.audit.apart import Describe, References, ask, rescore_apart, run_apart
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CORRECTION, DECLARATION, EVIDENCE, RELEASES
from proxyguard.audit.verify import Scope
from proxyguard.cli.main import app
from proxyguard.draw import confine as landlock
from proxyguard.draw.catalog import (
    is_ours,
    load_callable,
    load_generator,
    load_ours,
    only_our_code,
)
from proxyguard.draw.processes import LINUX
from proxyguard.errors import RegistryError, UntrustedCode
from proxyguard.models.stored import load_model, skops_bytes

DUMPABLE = """\
import sys
from proxyguard.draw.processes import unreadable_memory
from proxyguard.draw.processes import prctl, prctl_value
prctl(4, int(sys.argv[1]))
with unreadable_memory():
    within = prctl_value(3)
print(within, prctl_value(3))
"""


@pytest.mark.skipif(not LINUX, reason="an attribute of processes on Linux")
@pytest.mark.parametrize("before", [0, 1])
def test_memory_that_was_unreadable_before_stays_so(before: int) -> None:
    words = [sys.executable, "-c", DUMPABLE, str(before)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["0", str(before)]


MODULE = '''\
import json
import os
import socket
from pathlib import Path

import numpy as np

ROOT = Path({root!r})


def spring():
    """Say where this ran, and what it could get hold of there."""
    def reads(path):
        try:
            return bool(path.read_bytes())
        except OSError as error:
            return type(error).__name__

    seen = {{
        "process": os.getpid(),
        "environment": sorted(os.environ),
        "home": os.path.expanduser("~"),
        "key": reads(ROOT / "home" / "signing.pem"),
        "evidence": reads(ROOT / "audit" / "evidence.json"),
        "target": reads(ROOT / "audit" / "target" / "0.sealed"),
        "other file": reads(ROOT / "private.txt"),
    }}
    # Through a socket: where this runs apart it can write nothing that anybody finds.
    with socket.create_connection(("127.0.0.1", {port})) as line:
        line.sendall(json.dumps(seen).encode())
        line.shutdown(socket.SHUT_WR)
        line.recv(1)  # until it is written down


def same(x):
    spring()
    return x


def squared(y, p):
    spring()
    return (np.asarray(p) - np.asarray(y)) ** 2
'''


def audit_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def sprung(root: Path) -> dict[str, Any] | None:
    """Return what the trap saw, if it was sprung."""
    place = root / "sprung.json"
    return json.loads(place.read_text()) if place.exists() else None


def write_down(listener: socket.socket, place: Path) -> None:
    """Write what a sprung trap says, whichever process it was sprung in."""
    with suppress(OSError):  # the listener is closed
        while True:
            line, _ = listener.accept()
            with line, line.makefile("rb") as said:
                place.write_bytes(said.read())
                line.sendall(b".")


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module that a folder may name, on the import path of whoever verifies."""
    root = tmp_path_factory.mktemp("trap")
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(
            target=write_down, args=(listener, root / "work" / "sprung.json"), daemon=True
        ).start()
        (root / "pg_trap.py").write_text(MODULE.format(root=str(root / "work"), port=port))
        patch.syspath_prepend(str(root))
        patch.setenv("PROXYGUARD_HOME", str(root / "work" / "home"))
        yield root
    sys.modules.pop("pg_trap", None)


LOSS = (
    'loss = "brier"\nform = "absolute"\nlimit = { source_validation_plus = "0.10", '
    'round_up = "0.001" }',
    'loss = "pg_trap:squared"\nlow = "0"\nhigh = "1"\nform = "absolute"\nlimit = "0.4"',
)
PATH = (
    'library = ["fixed_logistic"]\n'
    'choose = { loss = "cost", false_negative = "2", thresholds = 51 }',
    'library = ["sklearn.linear_model:LogisticRegression"]',
)


def trusting(name: str) -> tuple[str, str]:
    return ("[procedure]\n", f'[procedure]\ntrusted = ["{name}"]\n')


CHANGES = {
    "loss": LOSS,
    "correction": LOSS,
    "path": PATH,
    "model": trusting("pg_trap.same"),
    "undeclared model": trusting("pg_trap.spring"),
}
Certified = Callable[[str], Path]


def trap_a_model(audit: Audit, forge: Any) -> None:
    """Let the first stored model call a function of the trap."""
    first = forge.draws_of(json.loads(audit.folder.read(RELEASES)))[0]
    plain = as_pipeline(load_model(audit.folder.store.get(first["model"]), "a model"))
    step = FunctionTransformer(load_callable("pg_trap:same"))
    address = audit.folder.store.put(skops_bytes(make_pipeline(step, plain)))
    forge.manifest(audit, lambda m: forge.draws_of(m)[0].update(model=address))


@pytest.fixture(scope="module")
def certify(
    trap: Path,
    stages: Path,
    draw_here: Callable[..., None],
    forge: Any,
    set_apart: Callable[[Audit], None],
) -> Certified:
    """Return a function that certifies the small audit with one change, once for each change.

    Its author's own opening springs the trap, which is set again.
    """
    work = trap / "work"

    def new(kind: str) -> Path:
        kept = trap / kind
        shutil.rmtree(work, ignore_errors=True)
        if not kept.exists():
            shutil.copytree(stages / "new", work)
            audit = audit_in(work)
            text = (audit.folder / DECLARATION).read_text()
            old, changed = CHANGES[kind]
            assert old in text
            (audit.folder / DECLARATION).write_text(text.replace(old, changed, 1))
            if kind == "correction":  # only a target in a file of its own has a pool
                set_apart(audit)
            audit.seal()
            audit.register()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("proxyguard.audit.draw.draw_all", draw_here)
                audit.draw()
                if "model" in kind:
                    trap_a_model(audit, forge)
                # An author whose own program does not ask can certify what it should refuse.
                patch.setattr(
                    "proxyguard.adapters.library.Library.trusted", lambda self: ["pg_trap.same"]
                )
                audit.open()
            if kind == "correction":
                audit.correct("the target was a sample from a pool", {"pool": 1000})
            assert kind == "path" or sprung(work) is not None
            (work / "sprung.json").unlink(missing_ok=True)
            shutil.move(work, kept)
        shutil.copytree(kept, work)
        return work

    return new


def verify_command(root: Path, *options: str) -> Any:
    arguments = ["verify", str(root / "audit"), "--home", str(root / "home"), *options]
    return CliRunner().invoke(app, arguments)


def test_a_model_type_that_only_the_folder_trusts_is_not_built(certify: Certified) -> None:
    root = certify("model")
    found = audit_in(root).verify(with_target=True)
    assert sprung(root) is None
    assert found.good, found.findings
    (words,) = found.not_checked
    assert words.startswith("losses: computed again from the target: ")
    assert "pg_trap.same" in words
    shown = verify_command(root, "--with-target")
    assert shown.exit_code == 6
    assert "not checked: losses" in shown.output
    assert "Everything holds" not in shown.output
    assert sprung(root) is None


def test_the_verifiers_own_list_of_types_is_trusted(certify: Certified) -> None:
    root = certify("model")
    shown = verify_command(root, "--with-target", "--trust", "pg_trap.same")
    assert shown.exit_code == 0, shown.output
    seen = sprung(root)
    assert seen is not None
    assert seen["process"] == os.getpid()


def test_named_code_that_was_asked_for_runs_without_key_and_home(certify: Certified) -> None:
    root = certify("model")
    (root / "private.txt").write_text("of the verifier")
    shown = verify_command(root, "--with-target", "--run-named-code")
    assert shown.exit_code == 0, shown.output
    seen = sprung(root)
    assert seen is not None
    assert seen["process"] != os.getpid()
    assert "PROXYGUARD_HOME" not in seen["environment"]
    assert not Path(seen["home"]).exists()  # it was a scratch folder
    for secret in ("key", "evidence", "target"):
        assert seen[secret] == "PermissionError"
    if landlock.version():  # the hook knows what is forbidden, and no list of what is allowed
        assert seen["other file"] == "PermissionError"


def test_a_model_that_not_even_the_folder_trusts_is_a_finding(certify: Certified) -> None:
    root = certify("undeclared model")
    for options in ({}, {"run_named_code": True}):
        problems = [f.problem for f in audit_in(root).verify(with_target=True, **options).findings]
        assert any("does not name ['pg_trap.same'] either" in words for words in problems)
    assert sprung(root) is None


def test_a_loss_that_the_folder_names_is_not_imported(certify: Certified) -> None:
    root = certify("loss")
    for with_target in (False, True):
        found = audit_in(root).verify(with_target=with_target)
        assert found.good, found.findings
        assert sprung(root) is None
        assert any("pg_trap:squared" in words for words in found.not_checked)
        assert len(found.not_checked) == 2 + with_target  # references, risks, and the losses


def test_a_loss_that_the_folder_names_is_computed_again_where_it_is_asked_for(
    certify: Certified, forge: Any
) -> None:
    root = certify("loss")
    found = audit_in(root).verify(with_target=True, run_named_code=True)
    assert found.good, found.findings
    assert found.complete
    seen = sprung(root)
    assert seen is not None
    assert seen["process"] != os.getpid()

    def edit(evidence: dict[str, Any]) -> None:
        for column in evidence["groups"]["bootstrap"]["columns"]:
            for name, value in column.items():
                if isinstance(value, list) and isinstance(value[0], float):
                    column[name] = [v * 0.999 for v in value]
        forge.derive(audit_in(root), evidence)

    forge.certificate(audit_in(root), evidence=edit)
    assert audit_in(root).verify(with_target=True).good  # without the loss nobody can tell
    problems = audit_in(root).verify(with_target=True, run_named_code=True).findings
    assert [f.place for f in problems] == [EVIDENCE]


def test_reference_policies_that_named_code_finds_otherwise_are_a_finding(
    certify: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = audit_in(certify("loss"))

    read = References.read

    def other(job: References, answer: object) -> dict[str, dict[str, float]]:
        computed = read(job, answer)
        computed["constant"]["Brier risk"] += 0.01
        return computed

    monkeypatch.setattr(References, "read", other)
    (finding,) = audit.verify(run_named_code=True).findings
    assert finding.place == "registry"
    assert "reference policies, constant, Brier risk does not follow" in finding.problem


def test_a_correction_is_computed_again_apart_and_under_its_own_design(
    certify: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = certify("correction")
    step = "correction: losses computed again from the target"
    unasked = audit_in(root).verify(with_target=True)
    assert unasked.good, unasked.findings
    assert sprung(root) is None
    assert any(words.startswith(step) for words in unasked.not_checked)
    designs = []

    def kept(*job: Any, **options: Any) -> Any:
        designs.append(job[3])
        return rescore_apart(*job, **options)

    monkeypatch.setattr("proxyguard.audit.verify_claim.rescore_apart", kept)
    asked = audit_in(root).verify(with_target=True, run_named_code=True)
    assert asked.good, asked.findings
    assert asked.complete
    assert step in asked.checked
    assert designs == [None, {"pool": 1000}]
    # Under the registered design the same losses give other statistics, and that is found.
    monkeypatch.setattr(
        "proxyguard.audit.verify_claim.rescore_apart",
        lambda opener, journal, registry, design, *, timeout: rescore_apart(
            opener, journal, registry, None, timeout=timeout
        ),
    )
    wrong = audit_in(root).verify(with_target=True, run_named_code=True)
    assert [finding.place for finding in wrong.findings] == [CORRECTION]


def test_a_procedure_by_import_path_is_not_imported_by_verify(certify: Certified) -> None:
    root = certify("path")
    found = audit_in(root).verify(with_target=True)
    assert found.good, found.findings  # skops knows the stored type by itself, without the path
    with only_our_code(), pytest.raises(UntrustedCode, match=r"sklearn\.linear_model:Logistic"):
        load_callable("sklearn.linear_model:LogisticRegression")
    # Whoever ran it hands on the command that leaves nothing unchecked.
    ran = CliRunner().invoke(app, ["run", str(root / "audit"), "--home", str(root / "home")])
    assert "audit --redraw 1 --run-named-code\n" in ran.output


def test_a_broken_record_comes_before_one_that_holds_as_far_as_checked(certify: Certified) -> None:
    root = certify("loss")
    (root / "audit" / "report.md").write_text("VALIDATED")
    shown = verify_command(root, "--with-target")
    assert shown.exit_code == 5
    assert "not checked: risks" in shown.output
    assert "This folder does not hold." in shown.output


def test_code_that_is_not_here_is_not_checked_and_no_broken_record(certify: Certified) -> None:
    root = certify("loss")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [p for p in sys.path if not p.endswith("trap0")])
        found = audit_in(root).verify(with_target=True, run_named_code=True)
    assert found.good, found.findings
    assert any("could not be run here" in words for words in found.not_checked)


@pytest.mark.parametrize("name", ["callable", "pg_trap:same"])
def test_a_generator_that_stands_for_other_code_is_not_made(trap: Path, name: str) -> None:
    options = {"function": "pg_trap:same"} if name == "callable" else {}
    with only_our_code(), pytest.raises(UntrustedCode, match="pg_trap:same is code that"):
        load_generator(name, options)
    with only_our_code():
        assert load_generator("bootstrap", {}).describe()["rows"] is None


def test_a_file_in_the_audit_folder_is_never_imported(
    stages: Path, tmp_path: Path, forge: Any
) -> None:
    shutil.copytree(stages / "registered", tmp_path / "work")
    folder = tmp_path / "work" / "audit"
    for name in ("numpy", "pandas", "typing_extensions", "proxyguard"):
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\n"
            "raise ImportError('the module of an audit folder')\n"
        )
    environment = {**os.environ, "PROXYGUARD_HOME": str(tmp_path / "work" / "home")}
    command = [str(Path(sys.executable).parent / "proxyguard")]
    done = subprocess.run(
        [*command, "draw", ".", "--workers", "1"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not (tmp_path / "imported").exists()
    assert done.returncode == 0, done.stderr


def test_a_generator_of_an_installed_package_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry point is code that somebody installed, and that the folder asks for by name."""
    package = tmp_path / "pg_gold-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pg-gold\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[proxyguard.generators]\ngold = pg_gold:Gold\nbootstrap = pg_gold:Gold\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with only_our_code(), pytest.raises(UntrustedCode, match="pg_gold:Gold is code that"):
        load_generator("gold", {})
    assert not is_ours("gold")
    assert load_ours("bootstrap", {}).describe()["rows"] is None  # claimed by another, and ours


@pytest.mark.whole
def test_a_sequential_audit_runs_named_code_apart_too(
    trap: Path, stages: Path, draw_here: Callable[..., None]
) -> None:
    work = trap / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(stages / "new", work)
    audit = audit_in(work)
    text = (audit.folder / DECLARATION).read_text().replace(*LOSS)
    text = text.replace(
        'reliability_target = "0.6"',
        'reliability_target = "0.5"\nmode = "sequential"\nthreshold = "0.01"\nlooks = [8]',
    )
    start, end = text.index("[[secondary]]"), text.index("[claim]")
    (audit.folder / DECLARATION).write_text(text[:start] + text[end:])
    audit.seal()
    audit.register()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyguard.audit.sequential.draw_all", draw_here)
        audit.open()
    (work / "sprung.json").unlink()
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert sprung(work) is None
    assert len(found.not_checked) == 3  # references, risks, and the losses
    found = audit.verify(with_target=True, run_named_code=True)
    assert found.good, found.findings
    assert found.complete
    seen = sprung(work)
    assert seen is not None
    assert seen["process"] != os.getpid()


LINGERING = """\
import os
import socket
import time


class Lingering:
    name = "lingering"

    def __init__(self, hang):
        self.hang = hang

    def describe(self):
        # Twice forked and in a session of its own: neither child nor group of who started it.
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                line = socket.create_connection(("127.0.0.1", {port}))
                line.sendall(b".")
                time.sleep(120)
            os._exit(0)
        os.wait()
        time.sleep(120 if self.hang else 0)
        return {{}}

    def prepare(self, source, rng):
        pass

    def draw(self, seed):
        raise NotImplementedError
"""


@pytest.fixture
def lingering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A generator that leaves a process behind, and what that process holds on to while it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (tmp_path / "pg_lingering.py").write_text(LINGERING.format(port=listener.getsockname()[1]))
        monkeypatch.syspath_prepend(str(tmp_path))
        listener.settimeout(20)
        yield listener


def is_gone(line: socket.socket) -> bool:
    """Return whether the process has ended that holds the other end."""
    line.settimeout(5)
    with line:
        assert line.recv(1) == b"."
        try:
            return line.recv(1) == b""
        except TimeoutError:
            return False


@pytest.mark.skipif(not LINUX, reason="elsewhere nobody adopts what left its group")
def test_named_code_that_does_not_answer_is_ended_with_all_it_started(
    at: Callable[[str], Audit], lingering: socket.socket
) -> None:
    lines = []
    job = Describe(generator="pg_lingering:Lingering", options={"hang": True})
    with pytest.raises(UntrustedCode, match=r"not answer within 1 seconds .* --timeout"):
        # Whatever the machine takes to load it, the time is over when it runs.
        run_apart(
            at("certified").folder, job, (), lambda out: lines.append(lingering.accept()),
            timeout=1.0,
        )  # fmt: skip
    assert is_gone(lines[0][0])


@pytest.mark.skipif(not LINUX, reason="elsewhere nobody adopts what left its group")
def test_what_named_code_leaves_behind_is_ended_when_it_has_answered(
    at: Callable[[str], Audit], lingering: socket.socket
) -> None:
    folder = at("certified").folder
    job = Describe(generator="pg_lingering:Lingering", options={"hang": False})
    assert ask(folder, job, timeout=60.0).describe == {}
    assert is_gone(lingering.accept()[0])


@pytest.mark.usefixtures("starts_cold")
def test_named_code_that_takes_no_records_is_ended_too(at: Callable[[str], Audit]) -> None:
    """A pipe holds some 64 KiB: whoever sends more waits for somebody who reads."""
    sent = 0

    def send(out: Any) -> None:
        nonlocal sent
        while sent < 1 << 24:
            sent += out.write(bytes(1 << 16))

    folder = at("certified").folder
    job = Describe(generator="pg_sleep:Sleep", options={})
    with pytest.raises(UntrustedCode, match=r"not answer within 0\.5 seconds"):
        run_apart(folder, job, (), send, timeout=0.5)  # less than its libraries take to load
    assert sent < 1 << 24


@pytest.mark.usefixtures("starts_cold")
def test_a_part_that_runs_out_of_time_is_not_checked(certify: Certified) -> None:
    root = certify("loss")
    found = audit_in(root).verify(run_named_code=True, timeout=0.2)
    assert found.good, found.findings
    assert [words.partition(":")[0] for words in found.not_checked] == ["references", "risks"]
    assert all("within 0.2 seconds" in words for words in found.not_checked)
    shown = verify_command(root, "--run-named-code", "--timeout", "0")
    assert shown.exit_code == 2


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(RegistryError, match="timeout is a number of seconds"):
        Scope(timeout=timeout)
