"""From what an official source gives to the bytes that the catalog knows, where they differ.

The results are compared with the catalog's digests, so a source that changed is refused and
never read differently.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import numpy as np

from proxyguard import TableError
from reproduction.datasets import columns

GROUPS = ("rec.sport.hockey", "sci.space")

Recipe = Callable[[bytes], bytes]


def unchanged(content: bytes) -> bytes:
    """Return the content."""
    return content


def covertype_with_header(content: bytes) -> bytes:
    """Return UCI's covtype.data below a line with its column names."""
    return ",".join(columns.COVERTYPE).encode() + b"\n" + content


def cdc_without_id(content: bytes) -> bytes:
    """Return UCI's data.csv without its ID column and with its whole numbers written as ``1.0``.

    That is how the preparers of the table published it.
    """
    header, *rows = content.decode("ascii").splitlines()
    lines = [header.partition(",")[2]]
    lines += [row.partition(",")[2].replace(",", ".0,") + ".0" for row in rows]
    return ("\n".join(lines) + "\n").encode()


def taiwan_with_names(content: bytes) -> bytes:
    """Return UCI's data.csv with the names of its columns in place of X1 to X23 and Y.

    Numbers with one digit other than zero and five zeros or more read ``1e+05``, as R wrote
    them in the copy that is in use.
    """
    _, *rows = content.decode("ascii").splitlines()
    lines = [",".join(f'"{name}"' for name in columns.TAIWAN)]
    lines += [",".join(map(_as_r_writes, row.split(","))) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def _as_r_writes(number: str) -> str:
    digits = number.removeprefix("-")
    if len(digits) < 6 or digits[1:].strip("0"):
        return number
    return f"{number[: len(number) - len(digits) + 1]}e+{len(digits) - 1:02d}"


def newsgroups_archive(content: bytes) -> bytes:
    """Return the two groups of the whole collection as a tar file with fixed facts about files."""
    sink = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content), mode="r:") as whole,
        tarfile.open(fileobj=sink, mode="w", format=tarfile.USTAR_FORMAT) as chosen,
    ):
        for document in (*_documents(whole, "train"), *_documents(whole, "test")):
            if _group(document) in GROUPS:
                member = tarfile.TarInfo(document.name)
                member.size = document.size
                chosen.addfile(member, whole.extractfile(document))
    return sink.getvalue()


def newsgroups_order(part: str) -> Recipe:
    """Return the recipe for the order in which scikit-learn gives the documents of a part."""

    def order(content: bytes) -> bytes:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as whole:
            documents = _documents(whole, part)
        # scikit-learn shuffles the whole part by this generator when it first reads it, and
        # keeps that order when some groups are taken.
        places = np.arange(len(documents))
        np.random.RandomState(0).shuffle(places)
        chosen = [documents[i] for i in places if _group(documents[i]) in GROUPS]
        return "".join(f"{one.name.partition('/')[2]}\n" for one in chosen).encode()

    return order


def _group(document: tarfile.TarInfo) -> str:
    return document.name.split("/")[1]


def _documents(whole: tarfile.TarFile, part: str) -> list[tarfile.TarInfo]:
    """Return the documents of a part, group by group, by name in each."""
    found = [
        member for member in whole.getmembers()
        if member.isreg() and member.name.startswith(f"20news-bydate-{part}/")
    ]  # fmt: skip
    if not found:
        raise TableError(
            f"expected the collection with 20news-bydate-{part} in it, found "
            f"{whole.getnames()[:3]}; the official archive may have changed"
        )
    return sorted(found, key=lambda member: member.name.split("/"))


RECIPES: dict[str, Recipe] = {
    "unchanged": unchanged,
    "covertype_with_header": covertype_with_header,
    "cdc_without_id": cdc_without_id,
    "taiwan_with_names": taiwan_with_names,
    "newsgroups_archive": newsgroups_archive,
    "newsgroups_order_train": newsgroups_order("train"),
    "newsgroups_order_test": newsgroups_order("test"),
}
"""By the name that the catalog has for each."""
