"""A file is found, or downloaded whole, or refused; nothing in between is ever read."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import proxyguard
import reproduction
from proxyguard.errors import TableError
from reproduction.datasets import fetch as files
from reproduction.datasets.catalog import CATALOG, DataSet, File
from reproduction.datasets.fetch import content, fetch, path

SOURCES = os.pathsep.join(
    str(Path(str(one.__file__)).parents[1]) for one in (proxyguard, reproduction)
)
CONTENT = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500))

CHILD = """\
import os, signal, sys
from pathlib import Path
from reproduction.datasets import fetch
from reproduction.datasets.catalog import CATALOG, DataSet, File
from reproduction import files as storage
address, digest, size, mode = sys.argv[1:]
CATALOG["tiny"] = DataSet(
    name="tiny", title="Tiny", about="For tests.", rows=500, outcome="b", positive="1",
    files=(File(path="tiny/tiny.csv", rows=500, bytes=int(size), sha256=digest,
                members=("inner.zip", "folder/tiny.csv")),),
    page="https://example.org", address=address, licence="none", citation="none",
)
if mode == "killed":
    storage.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
print("ready", flush=True)
print(fetch.fetch("tiny")[0])
"""


def child(tiny: DataSet, cache: Path, mode: str = "whole") -> subprocess.Popen[str]:
    (file,) = tiny.files
    arguments = [str(tiny.address), str(file.sha256), str(file.bytes), mode]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": SOURCES, "XDG_CACHE_HOME": str(cache.parents[1])},
    )  # fmt: skip


def everything_in(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_good_download_is_unpacked_verified_and_kept(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    seen: list[tuple[str, int, int]] = []
    (place,) = fetch("tiny", progress=lambda *step: seen.append(step))
    assert place == cache / "tiny" / "tiny.csv"
    assert place.read_bytes() == CONTENT
    assert everything_in(cache) == ["tiny/tiny.csv"]
    assert seen[-1][0] == "tiny, KiB"
    assert seen[-1][1] == seen[-1][2]
    fetch("tiny")
    assert server.asked == ["/tiny.zip"]


def refused(words: str) -> None:
    with pytest.raises(TableError, match=words):
        fetch("tiny")


def test_a_truncated_download_leaves_nothing(tiny: DataSet, server: Any, cache: Path) -> None:
    whole = server.answers["/tiny.zip"].body
    server.put("/tiny.zip", whole[:-40], promised=len(whole))
    refused(f"promised {len(whole)} bytes and gave {len(whole) - 40}")
    assert everything_in(cache) == []


def test_a_truncated_download_without_a_stated_length_leaves_nothing(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    server.put("/tiny.zip", server.answers["/tiny.zip"].body[:-40])
    refused("the archive is broken")
    assert everything_in(cache) == []


def test_a_tampered_download_leaves_nothing(
    tiny: DataSet, server: Any, cache: Path, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    forged = CONTENT.replace(b"7,49\n", b"7,48\n")
    assert len(forged) == len(CONTENT)
    inner = pack({"folder/tiny.csv": forged})
    server.put("/tiny.zip", pack({"inner.zip": inner}))
    refused("is not the file of the catalog: promised .* nothing was kept")
    assert everything_in(cache) == []
    with pytest.raises(TableError, match="run: python -m reproduction data fetch tiny"):
        path("tiny")


def test_a_wrong_member_is_named_with_what_is_there(
    tiny: DataSet, server: Any, cache: Path, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    server.put("/tiny.zip", pack({"inner.zip": pack({"folder/small.csv": CONTENT})}))
    refused("expected 'folder/tiny.csv' in the archive, found 'folder/small.csv'")
    assert everything_in(cache) == []


def test_a_page_in_place_of_an_archive_is_refused(tiny: DataSet, server: Any, cache: Path) -> None:
    server.put("/tiny.zip", b"<html>Please accept our terms</html>")
    refused("neither zip nor tar; the address may answer with a page")


def test_an_answer_that_is_an_error_says_so(tiny: DataSet, server: Any, cache: Path) -> None:
    server.put("/tiny.zip", status=503)
    refused("could not be fetched from .*503")


def test_a_redirection_is_followed_to_safe_places_only(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    whole = server.answers["/tiny.zip"].body
    server.put("/tiny.zip", status=302, location="http://example.invalid/tiny.zip")
    refused("fetched over https, or over http from this machine; got http://example.invalid")
    server.put("/tiny.zip", status=302, location="file:///etc/passwd")
    refused("could not be fetched from .* is not allowed")
    server.put("/moved.zip", whole)
    server.put("/tiny.zip", status=302, location=f"{server.root}/moved.zip")
    fetch("tiny")
    assert content("tiny") == CONTENT


@pytest.mark.parametrize("address", ["http://example.invalid/a", "ftp://example.invalid/a"])
def test_only_https_leaves_this_machine(tiny: DataSet, cache: Path, address: str) -> None:
    with pytest.raises(TableError, match="data are fetched over https"):
        fetch("tiny", source=address)


def test_a_download_without_end_is_stopped(
    tiny: DataSet, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST", 100)
    refused("gives more than the 100 bytes allowed")
    assert everything_in(cache) == []


def test_a_file_with_the_official_content_serves_as_well(
    tiny: DataSet, server: Any, cache: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "by-hand.zip"
    archive.write_bytes(server.answers["/tiny.zip"].body)
    fetch("tiny", source=archive)
    assert content("tiny") == CONTENT
    assert server.asked == []


def test_a_kill_between_download_and_rename_is_harmless(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    process = child(tiny, cache, "killed")
    process.communicate(timeout=60)
    assert process.returncode == -9
    left = everything_in(cache)
    assert left
    assert all(name.endswith(".part") for name in left)
    with pytest.raises(TableError, match="run: python -m reproduction data fetch tiny"):
        path("tiny")
    fetch("tiny")
    assert everything_in(cache) == ["tiny/tiny.csv"]


def test_a_partial_file_is_neither_read_nor_kept(tiny: DataSet, cache: Path) -> None:
    (cache / "tiny").mkdir(parents=True)
    (cache / "tiny" / "download.part").write_bytes(b"PK half an archive")
    (cache / "tiny" / "tiny.csv.part").write_bytes(CONTENT[:100])
    fetch("tiny")
    assert everything_in(cache) == ["tiny/tiny.csv"]
    assert content("tiny") == CONTENT


def test_two_fetches_at_once_download_once_and_both_succeed(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    gate = threading.Event()
    server.put("/tiny.zip", server.answers["/tiny.zip"].body, hold=gate)
    first = child(tiny, cache)
    assert server.busy.wait(timeout=60)  # the first holds the folder and waits for its bytes
    second = child(tiny, cache)
    assert second.stdout is not None
    assert second.stdout.readline() == "ready\n"
    time.sleep(0.3)  # enough to reach the lock; without one it would ask the server now
    gate.set()
    said = [process.communicate(timeout=60)[0].split()[-1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert said == [str(cache / "tiny" / "tiny.csv")] * 2
    assert server.asked == ["/tiny.zip"]
    assert everything_in(cache) == ["tiny/tiny.csv"]


def test_the_users_folder_comes_before_the_cache_and_the_cache_before_a_download(
    tiny: DataSet, server: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch("tiny")
    assert path("tiny") == cache / "tiny" / "tiny.csv"
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path / "mine"))
    assert path("tiny") == cache / "tiny" / "tiny.csv"
    mine = tmp_path / "mine" / "tiny" / "tiny.csv.gz"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(gzip.compress(CONTENT))
    assert path("tiny") == mine
    assert fetch("tiny") == (mine,)
    assert content("tiny") == CONTENT
    assert server.asked == ["/tiny.zip"]


def test_a_damaged_file_of_the_cache_is_refused_and_fetched_again(
    tiny: DataSet, server: Any, cache: Path
) -> None:
    (place,) = fetch("tiny")
    before = place.stat()
    place.write_bytes(CONTENT.replace(b"7,49\n", b"7,48\n"))
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time say nothing
    with pytest.raises(TableError, match="is not the file of the catalog"):
        path("tiny")
    with pytest.raises(TableError, match="is not the file of the catalog"):
        content("tiny")
    fetch("tiny")
    assert content("tiny") == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize("bad", [b"no gzip at all", gzip.compress(CONTENT)[:-30]])
def test_a_damaged_file_of_the_user_is_an_error_and_is_left_alone(
    bad: bytes, tiny: DataSet, server: Any, cache: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path))
    mine = tmp_path / "tiny" / "tiny.csv.gz"
    mine.parent.mkdir()
    mine.write_bytes(bad)
    refused("tiny.csv.gz .*remove it and run: python -m reproduction data fetch tiny")
    assert mine.read_bytes() == bad
    assert server.asked == []


def test_of_several_files_all_are_kept_or_none(
    tiny: DataSet, server: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = tiny.files
    absent = replace(file, path="tiny/second.csv", members=("inner.zip", "second.csv"))
    monkeypatch.setitem(CATALOG, "tiny", replace(tiny, files=(file, absent)))
    refused("expected 'second.csv' in the archive")
    assert everything_in(cache) == []
    with pytest.raises(TableError, match=r"has the files \['tiny.csv', 'second.csv'\]"):
        path("tiny")


@pytest.mark.parametrize("name", ["compas", "give_me_some_credit"])
def test_personal_data_are_the_users_to_get(name: str, cache: Path) -> None:
    with pytest.raises(TableError, match=r"is not fetched \(no open licence.*--file FILE"):
        fetch(name)
    with pytest.raises(TableError, match=r"is not fetched \(no open licence.*--file FILE"):
        path(name)


def test_what_scikit_learn_ships_has_no_file(cache: Path) -> None:
    for ask in (fetch, path):
        with pytest.raises(TableError, match="ships inside scikit-learn"):
            ask("wdbc")


def test_an_unknown_name_is_answered_with_the_known_ones(cache: Path) -> None:
    with pytest.raises(TableError, match="there is no data set 'magik'; there are magic, spam"):
        path("magik")


@pytest.mark.parametrize("place", ["/etc/passwd", "../x", "a/../../x", "a\\b", "a//b", "./a"])
def test_no_file_of_the_catalog_can_lie_outside_its_folder(place: str) -> None:
    with pytest.raises(ValueError, match="leads down from a data folder"):
        File(path=place, rows=1, bytes=1, sha256="0")
