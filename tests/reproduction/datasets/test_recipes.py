"""What official sources give becomes the catalog's bytes.

Where the official file differs from the one in use, it is rebuilt here from the latter and
compared with the digest that other projects record for the official address.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from proxyguard.errors import TableError
from reproduction.datasets import recipes
from reproduction.datasets.fetch import content

DATA = os.environ.get("PROXYGUARD_DATA")
GROUP_SIZES = {
    # Documents a group in 20news-bydate, from the collection's page: train, test.
    "alt.atheism": (480, 319), "comp.graphics": (584, 389),
    "comp.os.ms-windows.misc": (591, 394), "comp.sys.ibm.pc.hardware": (590, 392),
    "comp.sys.mac.hardware": (578, 385), "comp.windows.x": (593, 395),
    "misc.forsale": (585, 390), "rec.autos": (594, 396), "rec.motorcycles": (598, 398),
    "rec.sport.baseball": (597, 397), "rec.sport.hockey": (600, 399), "sci.crypt": (595, 396),
    "sci.electronics": (591, 393), "sci.med": (594, 396), "sci.space": (593, 394),
    "soc.religion.christian": (599, 398), "talk.politics.guns": (546, 364),
    "talk.politics.mideast": (564, 376), "talk.politics.misc": (465, 310),
    "talk.religion.misc": (377, 251),
}  # fmt: skip


def needs(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        DATA is None or not (Path(DATA) / folder).exists(),
        reason=f"PROXYGUARD_DATA does not name a folder with {folder}",
    )


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_survey_loses_its_id_and_writes_numbers_with_a_point() -> None:
    official = b"ID,y,a,b\r\n0,1,40,0\r\n1,0,5,12\r\n"
    assert recipes.cdc_without_id(official) == b"y,a,b\n1.0,40.0,0.0\n0.0,5.0,12.0\n"


@needs("cdc_diabetes")
def test_the_official_survey_file_becomes_the_one_in_use() -> None:
    ours = content("cdc")
    header, *rows = ours.decode().splitlines()
    lines = [f"ID,{header}", *(f"{i},{row.replace('.0', '')}" for i, row in enumerate(rows))]
    official = ("\r\n".join(lines) + "\r\n").encode()
    # Recorded by several projects for archive.ics.uci.edu/static/public/891/data.csv.
    assert sha256(official) == "9f71fda9d4ae5f4878c99b9233b6a16accfa9a17c194116a6b78100540934964"
    assert recipes.cdc_without_id(official) == ours


@pytest.mark.parametrize(
    ("number", "written"),
    # R 4: format(x, digits = 15) is fixed unless the scientific form is shorter.
    [("20000", "20000"), ("100000", "1e+05"), ("120000", "120000"), ("-100000", "-1e+05"),
     ("1000000", "1e+06"), ("1000001", "1000001"), ("0", "0"), ("-2", "-2"),
     ("10000000000", "1e+10")],
)  # fmt: skip
def test_round_numbers_are_written_as_in_the_copy_in_use(number: str, written: str) -> None:
    row = ",".join([number] * 25).encode()
    made = recipes.taiwan_with_names(b"header\r\n" + row + b"\r\n")
    assert made.splitlines()[1].decode().split(",") == [written] * 25


@needs("taiwan_default")
def test_the_official_credit_file_becomes_the_one_in_use() -> None:
    ours = content("taiwan")
    lines = [",".join(["ID", *(f"X{k}" for k in range(1, 24)), "Y"])]
    for row in ours.decode().splitlines()[1:]:
        lines.append(",".join(str(int(float(value))) for value in row.split(",")))
    official = ("\r\n".join(lines) + "\r\n").encode()
    # Recorded by several projects for archive.ics.uci.edu/static/public/350/data.csv.
    assert sha256(official) == "45bcf4df62ff2e237a74eb155cabfb4bbbc171219a0637daef44fdad07503dd0"
    assert recipes.taiwan_with_names(official) == ours


@needs("covertype")
def test_the_official_forest_file_gets_a_header() -> None:
    ours = content("covertype")
    official = ours[ours.index(b"\n") + 1 :]
    # Recorded by several projects for covtype.data, uncompressed.
    assert sha256(official) == "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945"
    assert recipes.covertype_with_header(official) == ours


def whole_collection() -> bytes:
    """Return the collection with its true names for our two groups and empty files for others."""
    ours = io.BytesIO(content("newsgroups", "20news-bydate-hockey-space.tar"))
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as whole, tarfile.open(fileobj=ours) as chosen:
        for part, which in (("test", 1), ("train", 0)):
            for group, sizes in reversed(GROUP_SIZES.items()):  # no order is relied upon
                for number in range(0 if group in recipes.GROUPS else sizes[which]):
                    whole.addfile(tarfile.TarInfo(f"20news-bydate-{part}/{group}/{number}"))
        for member in chosen.getmembers():
            text = chosen.extractfile(member)
            member.mtime, member.uname = 1_000_000, "someone"
            whole.addfile(member, text)
    return sink.getvalue()


@pytest.mark.whole
@needs("newsgroups")
def test_two_groups_and_their_order_are_taken_from_the_whole_collection() -> None:
    whole = whole_collection()
    ours = content("newsgroups", "20news-bydate-hockey-space.tar")
    assert recipes.newsgroups_archive(whole) == ours
    for part in ("train", "test"):
        made = recipes.newsgroups_order(part)(whole)
        assert made == content("newsgroups", f"order-{part}.txt")


def test_another_archive_is_no_collection_of_news() -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("else"))
    with pytest.raises(TableError, match="expected the collection with 20news-bydate-train"):
        recipes.newsgroups_archive(sink.getvalue())


def test_compressed_sources_are_unpacked_before_a_recipe_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from reproduction.datasets.catalog import CATALOG
    from reproduction.datasets.fetch import fetch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PROXYGUARD_DATA", raising=False)
    made = b"y,a\n1.0,2.0\n"
    (file,) = CATALOG["cdc"].files
    file = replace(file, bytes=len(made), sha256=sha256(made))
    monkeypatch.setitem(CATALOG, "cdc", replace(CATALOG["cdc"], files=(file,)))
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(b"ID,y,a\r\n0,1,2\r\n"))
    (place,) = fetch("cdc", source=tmp_path / "data.csv.gz")
    assert place.read_bytes() == made
