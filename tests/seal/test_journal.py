"""A ledger on disk survives a kill at any write, refuses a second writer, shows any edit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxyguard.errors import KeyMissing, SealError, StageError
from proxyguard.seal import storage
from proxyguard.seal.journal import NAME, Journal, writing
from proxyguard.seal.keys import SigningKey, signed_by
from proxyguard.seal.ledger import Stage

A = "a" * 64
STEPS: list[tuple[Stage, dict[str, Any]]] = [
    (Stage.SEALED, {"target": A}),
    (Stage.REGISTERED, {"declaration": A}),
    (Stage.DRAWN, {"releases": A}),
    (Stage.OPENED, {}),
    (Stage.CERTIFIED, {"certificate": A}),
]


KEY = SigningKey.create()
STEPS[0][1]["author"] = KEY.identity


@pytest.fixture
def key() -> SigningKey:
    return KEY


def record_all(folder: Path, key: SigningKey) -> None:
    """Record what is missing, as a resumed run does."""
    with writing(folder) as journal:
        for stage, body in STEPS[len(journal.ledger.entries) :]:
            journal.record(stage, body, key)


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


def test_every_changed_byte_of_the_file_is_noticed(tmp_path: Path, key: SigningKey) -> None:
    record_all(tmp_path, key)
    path = tmp_path / NAME
    honest = path.read_bytes()
    for place in range(len(honest)):
        changed = bytearray(honest)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(SealError):
            Journal(tmp_path)


def test_an_entry_of_another_signer_is_refused(tmp_path: Path, key: SigningKey) -> None:
    with writing(tmp_path) as journal:
        journal.record(*STEPS[0], key)
        with pytest.raises(SealError, match="made at init"):
            journal.record(*STEPS[1], SigningKey.create())
        assert len(journal.ledger.entries) == 1


def test_a_refused_step_changes_no_byte(tmp_path: Path, key: SigningKey) -> None:
    with writing(tmp_path) as journal:
        journal.record(*STEPS[0], key)
        before = (tmp_path / NAME).read_bytes()
        with pytest.raises(StageError):
            journal.record(Stage.OPENED, {}, key)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_full_disk_is_an_error_and_the_audit_goes_on_once_mended(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with writing(tmp_path) as journal:
        journal.record(*STEPS[0], key)
        with monkeypatch.context() as broken:
            broken.setattr(storage.os, "fsync", full)
            with pytest.raises(SealError, match="No space left"):
                journal.record(*STEPS[1], key)
        assert len(journal.ledger.entries) == 1
        journal.record(*STEPS[1], key)
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
        journal.record(*STEPS[0], key)
        journal.rotate(key, heir, "2026-01-01T00:00:00+00:00")
        with pytest.raises(KeyMissing, match="proxyguard rotate-key"):
            journal.record(*STEPS[1], key)
        journal.record(*STEPS[1], heir)
    again = Journal(tmp_path)
    assert again.signers == (key.public, heir.public)
    assert again.signer == heir.public


def test_nobody_is_made_an_author_without_their_own_key(tmp_path: Path, key: SigningKey) -> None:
    victim = SigningKey.create()
    with writing(tmp_path) as journal:
        journal.record(*STEPS[0], key)
        journal.record(Stage.ROTATED, {"successor": victim.identity, "consent": key.sign(b"")}, key)
    with pytest.raises(SealError, match="who has not consented"):
        Journal(tmp_path)
