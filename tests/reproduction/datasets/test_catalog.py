"""Every entry is complete, and every file that is here is the one that the entry states."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import tarfile
from pathlib import Path

import pytest

from reproduction.datasets.catalog import CATALOG, DataSet, File, Origin, read_catalog
from reproduction.datasets.load import TABLES
from reproduction.datasets.recipes import RECIPES

DATA = os.environ.get("PROXYGUARD_DATA")
FILES = [
    pytest.param(file, id=file.path)
    for one in CATALOG.values() if one.origin is Origin.DOWNLOAD for file in one.files
]  # fmt: skip


def raw(path: str) -> bytes:
    """Return a file's content from the user's folder, read without the package."""
    if DATA is None:
        pytest.skip("PROXYGUARD_DATA is not set")
    for suffix, read in (("", bytes), (".gz", gzip.decompress), (".xz", lzma.decompress)):
        place = Path(DATA) / f"{path}{suffix}"
        if place.exists():
            return read(place.read_bytes())
    pytest.skip(f"PROXYGUARD_DATA has no {path}")


def records(path: str, content: bytes) -> int:
    if path.endswith(".tar"):
        return len(tarfile.open(fileobj=io.BytesIO(content)).getmembers())
    lines = [line for line in content.splitlines() if line.strip()]
    if path.endswith(".arff"):
        return len(lines) - lines.index(b"@DATA") - 1
    lines = [line for line in lines if not line.startswith(b"|")]  # a remark in adult.test
    return len(lines) - path.endswith(".csv")


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_here_has_the_stated_rows_bytes_and_digest(file: File) -> None:
    content = raw(file.path)
    assert len(content) == file.bytes
    assert hashlib.sha256(content).hexdigest() == file.sha256
    assert records(file.path, content) == file.rows


@pytest.mark.parametrize("one", CATALOG.values(), ids=lambda one: one.name)
def test_an_entry_says_all_that_a_user_has_to_know(one: DataSet) -> None:
    assert re.fullmatch(r"[a-z_]+", one.name)
    assert all((one.title, one.about, one.outcome, one.licence, one.citation, one.page))
    assert one.name in TABLES
    if one.origin is Origin.DOWNLOAD:
        assert one.address is not None
        assert one.address.startswith("https://")
        assert all(re.fullmatch(r"[0-9a-f]{64}", str(file.sha256)) for file in one.files)
        assert len({file.path.split("/")[0] for file in one.files}) == 1  # one lock covers all
    else:
        assert one.address is None
    if one.origin is Origin.SCIKIT_LEARN:
        assert re.fullmatch(r"[0-9a-f]{64}", str(one.sha256))


def test_tables_and_catalog_have_the_same_names() -> None:
    assert list(TABLES) == list(CATALOG)


def test_remarks_are_sentences_and_every_recipe_is_used() -> None:
    remarks = [remark for one in CATALOG.values() for remark in one.unchecked]
    assert all(" " in remark for remark in remarks)
    used = {file.recipe for one in CATALOG.values() for file in one.files}
    assert used == set(RECIPES.values())


ENTRY = """
[remarks]
address = "nobody opened the address"

[small]
title = "Small"
about = "A table."
rows = 3
outcome = "y"
positive = "1"
page = "https://example.org/small"
address = "https://example.org/small.zip"
licence = "CC0"
citation = "Nobody (2026)."
unchecked = ["address", "the number of rows"]

[[small.files]]
path = "small/small.csv"
rows = 3
bytes = 12
sha256 = "00"
members = ["inner.zip", "small.csv"]
recipe = "cdc_without_id"
"""


def test_a_catalog_is_read_with_its_remarks_and_recipes() -> None:
    (one,) = read_catalog(ENTRY).values()
    assert (one.name, one.origin) == ("small", Origin.DOWNLOAD)
    assert one.unchecked == ("nobody opened the address", "the number of rows")
    assert one.files[0].members == ("inner.zip", "small.csv")
    assert one.files[0].recipe is RECIPES["cdc_without_id"]


@pytest.mark.parametrize(
    "line", ['licences = "CC0"', 'origin = "somewhere"'], ids=["misspelt", "no such origin"]
)
def test_an_entry_that_says_something_else_is_refused(line: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_catalog(ENTRY.replace('licence = "CC0"', f'licence = "CC0"\n{line}'))
