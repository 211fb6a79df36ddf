"""Files of a folder are opened by the same rules where no folder can be opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from proxyguard.errors import Busy, SealError, Unprotected
from proxyguard.seal import storage


@pytest.fixture(autouse=True)
def by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "opens_folders", lambda: False)


def link_to_a_file(folder: Path) -> str:
    (folder / "file").symlink_to(folder.parent / "outside")
    return "file"


def link_on_the_way(folder: Path) -> str:
    (folder / "below").symlink_to(folder.parent)
    return "below/outside"


def a_fifo(folder: Path) -> str:
    os.mkfifo(folder / "file")
    return "file"


def a_folder(folder: Path) -> str:
    (folder / "file").mkdir()
    return "file"


def a_file_on_the_way(folder: Path) -> str:
    (folder / "below").write_text("no folder")
    return "below/file"


def too_large(folder: Path) -> str:
    (folder / "file").write_bytes(bytes(101))
    return "file"


@pytest.mark.parametrize(
    "put", [link_to_a_file, link_on_the_way, a_fifo, a_folder, a_file_on_the_way, too_large]
)
def test_what_is_no_plain_file_of_the_folder_is_refused(
    tmp_path: Path, put: Callable[[Path], str]
) -> None:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SealError, match="put there"):
        storage.read_inside(tmp_path / "folder", put(tmp_path / "folder"), most=100)


def test_a_plain_file_is_read_and_a_missing_one_is_missing(tmp_path: Path) -> None:
    storage.write_inside(tmp_path, "below/deep/file", b"content")
    assert storage.read_inside(tmp_path, "below/deep/file") == b"content"
    with pytest.raises(FileNotFoundError):
        storage.read_inside(tmp_path, "below/none")


def test_a_file_that_is_swapped_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("looked at")
    (tmp_path / "other").write_text("put there since")
    opened = os.open

    def swap(path: Path, flags: int, *rest: int) -> int:
        os.replace(tmp_path / "other", tmp_path / "file")
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(SealError, match="was changed while it was opened"):
        storage.read_inside(tmp_path, "file")


def test_nothing_is_written_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "below").symlink_to(tmp_path / "outside")
    with pytest.raises(SealError, match="below a link"):
        storage.write_inside(tmp_path / "folder", "below/file", b"")
    assert not any((tmp_path / "outside").iterdir())


def test_keys_are_not_kept_behind_a_link(tmp_path: Path) -> None:
    storage.private_folder(tmp_path / "home")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(Unprotected, match="is a link to"):
        storage.private_folder(tmp_path / "link")


@pytest.mark.parametrize("windows", [False, True])
def test_a_folder_has_one_writer(
    tmp_path: Path, windows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if windows:
        import fcntl

        locks = ModuleType("msvcrt")
        locks.LK_NBLCK = 2  # type: ignore[attr-defined]

        def locking(handle: int, mode: int, size: int) -> None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PermissionError(13, "Permission denied") from error

        locks.locking = locking  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", locks)
    with storage.exclusive(tmp_path), pytest.raises(Busy), storage.exclusive(tmp_path):
        pass
    with storage.exclusive(tmp_path):  # and it is let go
        assert not any(tmp_path.iterdir())  # no lock file in what is given to others
    with pytest.raises(FileNotFoundError), storage.exclusive(tmp_path / "none"):
        pass


@pytest.mark.parametrize("name", ["a\\b", "C:b", "file:stream"])
def test_names_that_lead_elsewhere_on_windows_are_none_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "FORBIDDEN", "\0\\:")
    with pytest.raises(SealError, match="no name of a file"):
        storage.read_inside(tmp_path, name)
