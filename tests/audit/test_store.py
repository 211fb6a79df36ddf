"""What is stored keeps its bytes or is found out, and is written once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.audit.folder import Store
from proxyguard.errors import DigestMismatch, DiskError, SealError
from proxyguard.seal.storage import FolderFiles


@given(st.lists(st.binary(max_size=64), max_size=6))
def test_every_object_comes_back_and_equal_ones_are_one(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    store = Store(FolderFiles(tmp_path_factory.mktemp("audit")))
    addresses = [store.put(content) for content in contents]
    assert [store.get(address) for address in addresses] == contents
    assert store.addresses() == set(addresses)
    assert len(set(addresses)) == len(set(contents))


def test_an_address_is_the_sha256_of_the_bytes_and_tells_the_place(tmp_path: Path) -> None:
    # sha256 of no bytes at all: openssl dgst -sha256 /dev/null.
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    store = Store(FolderFiles(tmp_path))
    assert store.put(b"") == empty
    assert store.path(empty) == tmp_path / "store" / "e3" / empty
    assert store.path(empty).read_bytes() == b""


def test_a_store_that_was_never_written_to_is_empty(tmp_path: Path) -> None:
    assert Store(FolderFiles(tmp_path)).addresses() == set()
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    store = Store(FolderFiles(tmp_path))
    place = store.path(store.put(b"release"))
    before = (place.stat().st_ino, place.stat().st_mtime_ns)
    store.put(b"release")
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == before


def test_a_missing_object_is_named_by_its_address(tmp_path: Path) -> None:
    store = Store(FolderFiles(tmp_path))
    address = store.put(b"release")
    store.path(address).unlink()
    with pytest.raises(SealError, match=f"{address[:16]}... is missing"):
        store.get(address)


def test_every_changed_byte_of_an_object_is_noticed(tmp_path: Path) -> None:
    store = Store(FolderFiles(tmp_path))
    content = b"a small release"
    address = store.put(content)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        store.path(address).write_bytes(changed)
        with pytest.raises(DigestMismatch) as caught:
            store.get(address)
        assert caught.value.sealed == address
        assert caught.value.found == hashlib.sha256(changed).hexdigest()
    for other in (content[:-1], content + b"\x00", b""):
        store.path(address).write_bytes(other)
        with pytest.raises(DigestMismatch, match=f"store/{address[:2]}/{address}"):
            store.get(address)


def test_an_object_put_again_over_a_changed_one_does_not_hide_the_change(tmp_path: Path) -> None:
    store = Store(FolderFiles(tmp_path))
    address = store.put(b"release")
    store.path(address).write_bytes(b"another")
    assert store.put(b"release") == address
    with pytest.raises(DigestMismatch):
        store.get(address)


def test_a_disk_that_cannot_be_written_is_an_error_and_leaves_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(FolderFiles(tmp_path))
    kept = store.put(b"kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("proxyguard.seal.storage.os.replace", full)
        with pytest.raises(DiskError, match="No space left"):
            store.put(b"release")
    assert store.get(kept) == b"kept"
    assert not store.path(hashlib.sha256(b"release").hexdigest()).exists()
    assert store.get(store.put(b"release")) == b"release"
