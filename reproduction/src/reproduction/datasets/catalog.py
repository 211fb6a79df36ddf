"""Which data sets there are, and what every file of them has to be: `catalog.toml`, read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Any

from proxyguard import RegistryError, TableError
from reproduction.datasets.recipes import RECIPES, Recipe, unchanged


class Origin(Enum):
    """Where the files of a data set come from."""

    DOWNLOAD = "download"
    USER = "a file from the user"
    SCIKIT_LEARN = "scikit-learn"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a data set: its place, its size, its digest, and how it is had."""

    path: str  # below a data folder, uncompressed
    rows: int  # records, without headers and blank lines
    bytes: int | None = None  # nothing is known of the files that users bring
    sha256: str | None = None
    members: tuple[str, ...] = ()  # the way into the download, archive in archive
    recipe: Recipe = unchanged

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if "\\" in self.path or not all(parts) or {".", ".."} & set(parts):
            raise RegistryError(
                f"a file's path leads down from a data folder, with forward slashes; got "
                f"{self.path!r}"
            )

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set of the catalog: what it is, whose it is, and where it is had."""

    name: str
    title: str
    about: str
    rows: int  # records of all its tables
    outcome: str  # the column to predict in the loaded table
    positive: str  # the label of it that counts as positive, as a declaration writes it
    page: str
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    origin: Origin = Origin.DOWNLOAD
    address: str | None = None
    sha256: str | None = None  # of scikit-learn's arrays, where there are no files: see `wdbc`
    unchecked: tuple[str, ...] = ()  # what could not be confirmed at the official source

    def file(self, name: str | None = None) -> File:
        """Return the file of this name, or the only one."""
        chosen = [file for file in self.files if name in (None, file.name)]
        if len(chosen) != 1:
            raise TableError(
                f"{self.name} has the files {[file.name for file in self.files]}; name one of "
                f"them, got {name!r}"
            )
        return chosen[0]


def entry(name: str) -> DataSet:
    """Return the data set of this name."""
    if name not in CATALOG:
        raise TableError(f"there is no data set {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name]


def read_catalog(text: str) -> dict[str, DataSet]:
    """Return the data sets of a catalog by name, in its order."""
    tables = tomllib.loads(text)
    remarks = tables.pop("remarks")
    return {name: _data_set(name, facts, remarks) for name, facts in tables.items()}


def _data_set(name: str, facts: Mapping[str, Any], remarks: Mapping[str, str]) -> DataSet:
    return DataSet(
        **{
            **facts,
            "name": name,
            "origin": Origin(facts.get("origin", Origin.DOWNLOAD.value)),
            "files": tuple(_file(one) for one in facts.get("files", ())),
            "unchecked": tuple(remarks.get(one, one) for one in facts["unchecked"]),
        }
    )


def _file(facts: Mapping[str, Any]) -> File:
    return File(
        **{
            **facts,
            "members": tuple(facts.get("members", ())),
            "recipe": RECIPES[facts.get("recipe", "unchanged")],
        }
    )


CATALOG = read_catalog(files(__package__).joinpath("catalog.toml").read_text(encoding="utf-8"))
