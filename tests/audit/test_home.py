"""A home is its owner's alone: keys, the lineage store and the key of its fingerprints."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from conformance import warm
from proxyguard.audit import home as home_module
from proxyguard.audit.audit import Audit
from proxyguard.audit.home import Home, examine, load_key_file, one_thread
from proxyguard.audit.verify import Verification
from proxyguard.cli.show import Exit, exit_code
from proxyguard.errors import DiskError, KeyMissing, StoodOpen, Unprotected
from proxyguard.seal.crypto import SigningKey
from proxyguard.seal.lineage import LineageStore

At = Callable[[str], Audit]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def lenient() -> Iterator[None]:
    """Make files as a person does whose shell lets everybody read them."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """Return who may do what with a folder and with everything in it."""
    places = [root, *root.rglob("*")]
    return {p.relative_to(root).as_posix(): stat.S_IMODE(p.stat().st_mode) for p in places}


@pytest.mark.usefixtures("lenient")
def test_everything_in_a_home_is_its_owner_s_alone_from_the_first_byte(tmp_path: Path) -> None:
    home = Home(tmp_path / "new" / "home")
    home.make_signing_key()
    store = home.lineage
    home.make_target_key("ab" * 16)
    base = sqlite3.connect(home.root / "lineage.sqlite")
    base.execute("insert into audits values ('one', 1)")  # a transaction that is not over
    found = modes(home.root)
    base.close()
    folders = {".", "targets"}
    assert {name for name in found if found[name] == 0o700} == folders
    assert {name for name in found if found[name] == 0o600} == found.keys() - folders
    assert {"lineage.sqlite", "lineage.sqlite-journal", "lineage.key"} < found.keys()
    assert store.key_path == home.root / "lineage.key"


def test_the_store_does_not_hold_the_key_of_its_fingerprints(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    _ = home.lineage
    key = bytes.fromhex((home.root / "lineage.key").read_text())
    content = (home.root / "lineage.sqlite").read_bytes()
    assert len(key) == 32
    assert key not in content
    assert key.hex().encode() not in content


@pytest.mark.parametrize("name", [".", "lineage.sqlite", "lineage.key", "signing.pem", "targets"])
def test_what_stood_open_is_closed_and_the_user_is_told(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    _ = home.lineage
    home.make_target_key("ab" * 16)
    place = home.root / name
    place.chmod(0o755 if place.is_dir() else 0o644)

    def use() -> None:
        home.signing_key()
        _ = home.lineage
        home.make_target_key("cd" * 16)

    with pytest.warns(StoodOpen, match="was open to other users of this machine") as told:
        use()
    assert [str(one.message).split(" was open")[0] for one in told] == [str(place)]
    assert all(not mode & 0o077 for mode in modes(home.root).values())


def test_the_journal_of_a_killed_process_is_closed_too(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    _ = home.lineage
    wal = home.root / "lineage.sqlite-wal"
    wal.touch()
    wal.chmod(0o644)
    with pytest.warns(StoodOpen, match="lineage.sqlite-wal was open"):
        _ = home.lineage


def test_a_key_file_outside_the_home_is_closed_when_it_is_used(at: At, tmp_path: Path) -> None:
    place = tmp_path / "steward.pem"
    SigningKey.create().save(place)
    place.chmod(0o640)
    with pytest.warns(StoodOpen, match=r"steward.pem was open .* \(mode 640\)"):
        SigningKey.load(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    audit = at("drawn")
    key = next((audit.home.root / "targets").iterdir())
    outside = tmp_path / "target.key"
    key.rename(outside)
    outside.chmod(0o604)
    with pytest.warns(StoodOpen, match=r"target.key was open"):
        audit.open(key_file=outside)


def test_a_folder_that_serves_others_too_is_refused_and_not_closed_to_them(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "somebody's notes").touch()
    shared.chmod(0o755)
    for use in (lambda home: home.lineage, Home.make_signing_key):
        with pytest.raises(Unprotected, match="holds other things than keys"):
            use(Home(shared))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    (shared / "somebody's notes").unlink()
    shared.chmod(0o1777)  # as /tmp is, where everybody may put something at any time
    with pytest.raises(Unprotected, match="can be entered by others"):
        Home(shared).make_signing_key()
    assert list(shared.iterdir()) == []


def test_a_home_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to(tmp_path / "real")
    with pytest.raises(Unprotected, match=r"is a link to .*real; keys are kept in a folder"):
        Home(tmp_path / "home").make_signing_key()
    with pytest.raises(Unprotected, match="is a link"):
        _ = Home(tmp_path / "home").lineage


@as_root
def test_a_home_of_somebody_else_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    os.chown(home.root, 65534, 65534)
    with pytest.raises(Unprotected, match="belongs to the user with number 65534"):
        home.signing_key()
    assert any("65534" in problem for problem in examine(home.root).problems)


@as_root
def test_a_readable_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "steward.pem"
    SigningKey.create().save(place)
    place.chmod(0o644)
    os.chown(place, 65534, 65534)
    with pytest.raises(Unprotected, match=r"copy it to a place of your own"):
        SigningKey.load(place)


def test_a_store_whose_key_is_gone_or_another_s_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"
    key = LineageStore(path).key_path
    right = key.read_bytes()
    key.unlink()
    with pytest.raises(KeyMissing, match=r"there is no .*lineage\.key, and without it"):
        LineageStore(path)
    assert not key.exists()  # a new key would silently know none of the old records
    for content in (b"ab" * 32, b"no key", b"abcd", b"\xff\xfe"):
        key.write_bytes(content)
        key.chmod(0o600)
        with pytest.raises(KeyMissing, match=r"lineage\.key is n"):
            LineageStore(path)
    key.write_bytes(right)
    LineageStore(path)


def test_a_store_killed_after_its_key_was_made_goes_on_with_that_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lineage.sqlite"
    with monkeypatch.context() as broken:
        broken.setattr("proxyguard.seal.lineage._SCHEMA", "this is no SQL")
        with pytest.raises(Exception, match="syntax error"):
            LineageStore(path)
    made = (tmp_path / "lineage.key").read_bytes()
    LineageStore(path)
    assert (tmp_path / "lineage.key").read_bytes() == made


def test_the_command_line_says_in_one_line_what_stood_open(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    home.root.chmod(0o755)
    command = [sys.executable, "-m", "proxyguard.cli.main", "doctor", "--home", str(home.root)]
    done = warm.run(command)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"proxyguard: {home.root} was open to other users of this machine (mode 755) and is closed "
        "now (mode 700); whoever read it before still knows what it held"
    ]


def test_a_retired_key_is_on_the_disk_before_another_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    SigningKey.create().save(home.next_path)
    done: list[str] = []
    sync, move = home_module.sync_folder, os.replace
    monkeypatch.setattr(
        home_module, "sync_folder", lambda path: (done.append(f"sync {path.name}"), sync(path))
    )
    monkeypatch.setattr(
        os, "replace", lambda *names: (done.append(f"move to {names[1].name}"), move(*names))
    )
    home.retire()
    assert done == ["sync retired", "move to signing.pem", "sync home"]


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)


def loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def endless(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 5 * 2**30)


@pytest.mark.parametrize("odd", [fifo, loop, folder, endless])
def test_a_secret_that_is_no_file_of_ours_is_named_and_says_nothing_about_an_audit(
    tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    home.make_target_key("ab" * 16)
    result = Verification()
    for path, load in (
        (home.signing_path, SigningKey.load),
        (home.target_key_path("ab" * 16), load_key_file),
    ):
        odd(path)
        with pytest.raises(Unprotected, match=f"{path.name} .*put the key back") as caught:
            result.step("target", "the target", partial(load, path))
        assert exit_code(caught.value) == Exit.ERROR
    assert result.findings == []


def test_a_store_that_is_no_database_can_be_moved_away(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make_signing_key()
    home.lineage_path.touch(0o600)
    home.lineage_path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)
    with pytest.raises(
        DiskError, match=r"lineage\.sqlite cannot be used: .*move it away"
    ) as caught:
        LineageStore(home.lineage_path)
    assert exit_code(caught.value) == Exit.ERROR


def test_libraries_keep_to_one_thread_and_those_that_are_loaded_later_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info()}

    with threadpool_limits(2):
        before = threads()
        with one_thread():
            assert threads() == {1} != before
        assert threads() == before
        # Imports bring libraries: once there was one, all are looked for again.
        looked: list[int] = []
        monkeypatch.setattr("threadpoolctl.ThreadpoolController", lambda: looked.append(1))
        monkeypatch.setitem(sys.modules, "just_loaded", os)
        with pytest.raises(AttributeError):
            one_thread()
        assert looked == [1]
        home_module._threaded.cache_clear()
