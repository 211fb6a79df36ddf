"""Members are read by exact name, within limits, and nothing is written anywhere."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from proxyguard.errors import TableError
from reproduction.datasets.archive import unpack

Pack = Callable[[dict[str, bytes]], bytes]


def tarred(members: dict[str, bytes], link: str | None = None) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link is not None:
            member = tarfile.TarInfo("link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
    return sink.getvalue()


def test_every_kind_of_archive_is_read_however_deep(pack: Pack) -> None:
    assert unpack(b"plain") == b"plain"
    assert unpack(gzip.compress(b"x")) == b"x"
    assert unpack(lzma.compress(b"x")) == b"x"
    assert unpack(pack({"a": b"x"}), ("a",)) == b"x"
    assert unpack(pack({"a.gz": gzip.compress(b"x")}), ("a.gz",)) == b"x"
    inside = pack({"b.zip": pack({"c/d": b"x"})})
    assert unpack(inside, ("b.zip", "c/d")) == b"x"
    assert unpack(lzma.compress(tarred({"e": b"x"})), ("e",)) == b"x"
    assert unpack(gzip.compress(tarred({"e": b"x"})), ("e",)) == b"x"


def test_a_name_that_leads_out_of_the_archive_writes_nothing(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for archive in (pack({"../out": b"bad", "a": b"x"}), tarred({"../out": b"bad", "a": b"x"})):
        assert unpack(archive, ("a",)) == b"x"
        assert unpack(archive, ("../out",)) == b"bad"
    assert os.listdir(tmp_path) == ["work"]
    assert os.listdir(work) == []


def test_a_link_is_not_followed() -> None:
    with pytest.raises(TableError, match="'link' is no plain file"):
        unpack(tarred({"a": b"x"}, link="/etc/passwd"), ("link",))


@pytest.mark.parametrize("wrap", [gzip.compress, lzma.compress])
def test_content_that_swells_past_the_limit_is_refused(
    wrap: Callable[[bytes], bytes], pack: Pack
) -> None:
    bomb = bytes(10_000)
    with pytest.raises(TableError, match="more than the 9999 bytes"):
        unpack(wrap(bomb), most=9_999)
    with pytest.raises(TableError, match="more than the 9999 bytes"):
        unpack(pack({"a": bomb}), ("a",), most=9_999)
    assert unpack(wrap(bomb), most=10_000) == bomb


def test_broken_archives_are_errors_that_say_so(pack: Pack) -> None:
    whole = pack({"a": bytes(range(256)) * 50})
    spoilt = whole.replace(whole[60:70], bytes(10), 1)
    for broken in (whole[:100], spoilt, gzip.compress(bytes(999))[:-9], lzma.compress(b"x")[:-9]):
        with pytest.raises(TableError, match="the archive is broken"):
            unpack(broken, ("a",))


def test_a_missing_member_is_named_beside_those_there(pack: Pack) -> None:
    with pytest.raises(TableError, match="expected 'b' in the archive, found 'a', 'c'"):
        unpack(pack({"c": b"", "a": b""}), ("b",))
    with pytest.raises(TableError, match="expected 'b' in the archive, found 'a'"):
        unpack(tarred({"a": b""}), ("b",))
    with pytest.raises(TableError, match="found 5 bytes that are neither zip nor tar"):
        unpack(b"hello", ("b",))
