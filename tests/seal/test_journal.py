"""A ledger on disk survives a kill at any write, refuses a second writer, shows any edit."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.ledger import Body, read_body
from proxyguard.errors import KeyMissing, SealError, StageError
from proxyguard.seal import storage
from proxyguard.seal.crypto import SigningKey, signed_by
from proxyguard.seal.journal import NAME, Journal, writing
from proxyguard.seal.ledger import FORMAT, ORIGIN, Stage

A = "a" * 64
TIME = "2026-01-01T00:00:00+00:00"
KEY = SigningKey.create()
MEMBER: dict[str, Any] = {
    "index": 0, "records": 3, "commitment": A, "nonce_digest": A, "kinds": [["x", "number"]],
    "negative": None, "estimand": "the mean", "development": {"training": 5},
    "expected_twins": {"training": "0.0"},
}  # fmt: skip
SEALED: dict[str, Any] = {
    "audit": "0" * 32, "name": "small", "declaration": A, "members": {"target": MEMBER},
    "lineage": [], "author": KEY.identity, "steward": None, "software": {},
    "files": {"target/0.sealed": A, "development/0.training.parquet": A}, "time": TIME,
}  # fmt: skip
REGISTERED = {"declaration": A, "path": "fixed", "lineage": [], "files": {}, "time": TIME}
DRAWN = {"releases": A, "registry": A, "again": [], "files": {}, "time": TIME}
OPENED = {
    "registry": A, "releases": A, "lineage": [], "seal_known": True, "grant": None, "files": {},
    "time": TIME,
}  # fmt: skip
STEPS: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, SEALED),
    (Stage.REGISTERED, REGISTERED),
    (Stage.DRAWN, DRAWN),
    (Stage.OPENED, OPENED),
    (Stage.CERTIFIED, {"files": {}, "time": TIME}),
]


@pytest.fixture
def key() -> SigningKey:
    return KEY


def said(stage: Stage, body: dict[str, Any]) -> Body:
    return read_body(stage, body, f"the step {stage.value}")


def record_all(folder: Path, key: SigningKey) -> None:
    """Record what is missing, as a resumed run does."""
    with writing(folder) as journal:
        for stage, body in STEPS[len(journal.ledger.entries) :]:
            journal.record(said(stage, body), key)


def test_steps_are_read_back_from_the_disk(tmp_path: Path, key: SigningKey) -> None:
    record_all(tmp_path, key)
    again = Journal(tmp_path)
    assert [entry.stage for entry in again.ledger.entries] == [stage for stage, _ in STEPS]
    assert again.signer == key.public
    assert os.listdir(tmp_path) == [NAME]


class Killed(BaseException):
    """Stands for the end of the process: nothing below the test may catch it."""


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stop at the n-th system call of `storage`: countdown[0] is set by the test."""
    countdown = [-1]

    def wrap(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if countdown[0] == 0:
                raise Killed
            countdown[0] -= 1
            return real(*args, **kwargs)

        return call

    fake = type("os", (), {name: getattr(os, name) for name in dir(os)})
    for name in ("fdopen", "fsync", "replace"):
        setattr(fake, name, staticmethod(wrap(getattr(os, name))))
    monkeypatch.setattr(storage, "os", fake)
    return countdown


def test_a_kill_at_every_write_loses_nothing_and_repeats_nothing(
    tmp_path: Path, key: SigningKey, killing: list[int]
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    record_all(whole, key)
    expected = (whole / NAME).read_bytes()
    kills = 0
    for stop in range(1000):
        folder = tmp_path / str(stop)
        folder.mkdir()
        killing[0] = stop
        try:
            record_all(folder, key)
        except Killed:
            kills += 1
            killing[0] = -1
            # What is on the disk is the record up to some step, whole and signed.
            written = (folder / NAME).read_bytes() if (folder / NAME).exists() else b""
            assert expected.startswith(written)
            assert (
                Journal(folder).ledger.entries
                == Journal(whole).ledger.entries[: written.count(b"\n")]
            )
            record_all(folder, key)
        else:
            break
        assert (folder / NAME).read_bytes() == expected
        assert os.listdir(folder) == [NAME]
    # Open, flush, rename and flush the folder, for each of the five steps.
    assert kills == 4 * len(STEPS)


def test_a_second_writer_is_told_so(tmp_path: Path, key: SigningKey) -> None:
    with (
        writing(tmp_path),
        pytest.raises(SealError, match="another process"),
        writing(tmp_path),
    ):
        pass
    record_all(tmp_path, key)  # the lock is free again


def test_a_killed_process_leaves_no_lock(tmp_path: Path, key: SigningKey) -> None:
    code = (
        "import sys, time; from pathlib import Path; from proxyguard.seal.journal import writing\n"
        "with writing(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SealError, match="another process"):
            record_all(tmp_path, key)
        process.kill()
    record_all(tmp_path, key)


def test_every_changed_byte_of_the_file_is_noticed(
    tmp_path: Path, key: SigningKey, effort: Any
) -> None:
    record_all(tmp_path, key)
    path = tmp_path / NAME
    honest = path.read_bytes()
    for place in range(0, len(honest), effort.times(whole=1, reduced=7)):
        changed = bytearray(honest)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(SealError):
            Journal(tmp_path)


def test_an_entry_of_another_signer_is_refused(tmp_path: Path, key: SigningKey) -> None:
    with writing(tmp_path) as journal:
        journal.record(said(*STEPS[0]), key)
        with pytest.raises(SealError, match="made at init"):
            journal.record(said(*STEPS[1]), SigningKey.create())
        assert len(journal.ledger.entries) == 1


def test_a_refused_step_changes_no_byte(tmp_path: Path, key: SigningKey) -> None:
    with writing(tmp_path) as journal:
        journal.record(said(*STEPS[0]), key)
        before = (tmp_path / NAME).read_bytes()
        with pytest.raises(StageError):
            journal.record(said(Stage.OPENED, OPENED), key)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_full_disk_is_an_error_and_the_audit_goes_on_once_mended(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with writing(tmp_path) as journal:
        journal.record(said(*STEPS[0]), key)
        with monkeypatch.context() as broken:
            broken.setattr(storage.os, "fsync", full)
            with pytest.raises(SealError, match="No space left"):
                journal.record(said(*STEPS[1]), key)
        assert len(journal.ledger.entries) == 1
        journal.record(said(*STEPS[1]), key)
    assert len(Journal(tmp_path).ledger.entries) == 2


def test_a_key_is_written_once_for_its_owner_alone(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "author.key"
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(path).public == key.public
    with pytest.raises(SealError, match="never replaced"):
        key.save(path)
    with pytest.raises(SealError, match="no key at"):
        SigningKey.load(tmp_path / "other.key")
    path.write_bytes(b"not a key")
    with pytest.raises(SealError, match="no private key"):
        SigningKey.load(path)


def test_signatures_are_deterministic_and_bound_to_key_and_message(key: SigningKey) -> None:
    signature = key.sign(b"head")
    assert signature == key.sign(b"head")
    assert signed_by(key.public, signature, b"head")
    assert not signed_by(key.public, signature, b"other")
    assert not signed_by(SigningKey.create().public, signature, b"head")
    assert not signed_by("zz", signature, b"head")


def test_a_rotation_is_signed_by_the_old_key_and_consented_to_by_the_new_one(
    tmp_path: Path, key: SigningKey
) -> None:
    heir = SigningKey.create()
    with writing(tmp_path) as journal:
        journal.record(said(*STEPS[0]), key)
        journal.rotate(key, heir, "2026-01-01T00:00:00+00:00")
        with pytest.raises(KeyMissing, match="proxyguard rotate-key"):
            journal.record(said(*STEPS[1]), key)
        journal.record(said(*STEPS[1]), heir)
    again = Journal(tmp_path)
    assert again.signers == (key.public, heir.public)
    assert again.signer == heir.public


def test_nobody_is_made_an_author_without_their_own_key(tmp_path: Path, key: SigningKey) -> None:
    victim = SigningKey.create()
    with writing(tmp_path) as journal:
        journal.record(said(*STEPS[0]), key)
        body = {"successor": victim.identity, "consent": key.sign(b""), "time": TIME}
        journal.record(said(Stage.ROTATED, body), key)
    with pytest.raises(SealError, match="who has not consented"):
        Journal(tmp_path)


def written(folder: Path, steps: list[tuple[Stage, dict[str, Any]]]) -> None:
    """Write a ledger of these steps, chained and signed by its author, whatever they say."""
    lines, previous = [], ORIGIN
    for index, (stage, body) in enumerate(steps):
        entry = {
            "format": FORMAT, "index": index, "stage": stage.value, "signer": KEY.public,
            "body": body, "previous": previous,
        }  # fmt: skip
        content = canonical_bytes(entry)
        lines.append(canonical_bytes({"entry": entry, "signature": KEY.sign(content)}) + b"\n")
        previous = sha256(content).hexdigest()
    (folder / NAME).write_bytes(b"".join(lines))


ODD = (None, 7, "x", [], {}, [7], True)
SAME: dict[str, tuple[object, ...]] = {
    # Values of `ODD` that a body may well have.
    "name": ("x",), "estimand": ("x",), "time": ("x",), "negative": (None, "x"), "path": (),
    "lineage": ([],), "again": ([],), "kinds": ([],), "steward": (None,), "grant": (None,),
    "software": ({},), "expected_twins": ({},), "development": ({},), "index": (), "records": (7,),
    "files": ({},), "seal_known": (True,),
}  # fmt: skip


@pytest.mark.parametrize("step", range(len(STEPS)), ids=[stage.value for stage, _ in STEPS])
def test_a_signed_entry_that_lacks_a_key_or_has_another_type_or_says_more_is_named(
    tmp_path: Path, step: int
) -> None:
    stage, body = STEPS[step]
    for key in body:
        less = {name: value for name, value in body.items() if name != key}
        odd = [{**body, key: value} for value in ODD if value not in SAME.get(key, ())]
        for changed in (less, *odd, {**body, "more": "x"}):
            written(tmp_path, [*STEPS[:step], (stage, changed), *STEPS[step + 1 :]])
            with pytest.raises(SealError, match=f"{stage.value}"):
                Journal(tmp_path)


@pytest.mark.parametrize("key", sorted(MEMBER))
def test_a_seal_that_does_not_say_what_a_target_is_is_named(tmp_path: Path, key: str) -> None:
    less = {name: value for name, value in MEMBER.items() if name != key}
    odd = [{**MEMBER, key: value} for value in ODD if value not in SAME.get(key, ())]
    for member in (less, *odd, "x"):
        written(tmp_path, [(Stage.SEALED, {**SEALED, "members": {"target": member}})])
        with pytest.raises(
            SealError, match=r"entry 0 of the ledger \(sealed\): (members\.target|target 'target')"
        ):
            Journal(tmp_path)


@pytest.mark.parametrize("file", sorted(SEALED["files"]))
def test_a_seal_vouches_for_every_file_that_it_speaks_of(tmp_path: Path, file: str) -> None:
    files = {name: digest for name, digest in SEALED["files"].items() if name != file}
    written(tmp_path, [(Stage.SEALED, {**SEALED, "files": files})])
    with pytest.raises(SealError, match=f"nothing vouches for {file}"):
        Journal(tmp_path)


def test_a_step_that_nobody_could_read_back_is_not_recorded(tmp_path: Path) -> None:
    with writing(tmp_path) as journal:
        with pytest.raises(SealError, match="audit: is missing"):
            journal.record(said(Stage.SEALED, {"author": KEY.identity}), KEY)
        assert not journal.ledger.entries
    assert not (tmp_path / NAME).exists()
