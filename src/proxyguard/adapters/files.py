"""Releases that exist already: a folder of tables, or of predictions made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.registry.target import Reading
from proxyguard.seal.table import RawTable, read_table

if TYPE_CHECKING:
    import pandas as pd

NAMED = "proxyguard.adapters.files:NamedFile"
"""The import path of a named stand-in."""


def declared_files(
    generator: str, options: Mapping[str, Any], root: Path
) -> tuple[list[str], list[str]]:
    """Return the files that a generator of this page reads, and the folders that it lists.

    The files by their names, not their folder: the target may lie beside them.
    """
    if generator == NAMED:
        return [str(options["path"])], []
    if generator not in ("files", "predictions"):
        return [], []
    folder = root / str(options["folder"])
    return [str(path) for path in folder.glob(str(options.get("pattern", "*")))], [str(folder)]


class FileFolder:
    """The files of a folder, in the order of their names; seed ``first + i`` is file ``i``.

    That they are independent draws of one mechanism is what whoever made them says.
    """

    root = Path()  # set to the folder that declared paths start from

    def __init__(self, folder: str, pattern: str = "*", first: int = 0, **reading: Any) -> None:
        self._folder, self._pattern, self._first = folder, pattern, first
        self._reading = Reading.model_validate(reading)

    def describe(self) -> Mapping[str, Any]:
        """Return the settings."""
        return {
            "mechanism": "files that exist already",
            "folder": self._folder,
            "pattern": self._pattern,
            "first": self._first,
            "read": self._reading.model_dump(mode="json"),
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Check that every file has the source's columns, before any is used."""
        wanted = {str(name) for name in source.columns}
        for path in self._files():
            missing = wanted - set(RawTable(path, self._reading).columns)
            if missing:
                raise TableError(
                    f"{self._folder}/{path.name} lacks the columns {sorted(missing)} of the source"
                )

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the file of this seed."""
        files = self._files()
        place = int(seed) - self._first
        if not 0 <= place < len(files):
            raise RegistryError(
                f"seed {int(seed)} stands for file {place} of {self._folder!r}, which has "
                f"{len(files)}; register first = {self._first} and as many draws as files"
            )
        seed.take(f"the file in {self._folder}, drawn by whoever made it")
        return read_table(files[place], self._reading)

    def _files(self) -> list[Path]:
        folder = self.root / self._folder
        if not folder.is_dir():
            raise RegistryError(f"there is no folder of releases at {folder}")
        return sorted(path for path in folder.glob(self._pattern) if path.is_file())


class StoredPredictions(FileFolder):
    """Predictions for the target's records, one file a release; nothing is fitted here.

    A file has the column ``position``, the record's row in the target file or table, and
    ``prediction``, or one column a class named ``class 0``, ``class 1`` and so on. The file
    named by ``source`` holds those of the source procedure, for relative requirements.
    """

    def __init__(self, folder: str, source: str | None = None, **options: Any) -> None:
        super().__init__(folder, **options)
        self.source = source

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Check that every file has positions and predictions."""
        for path in self._files():
            columns = RawTable(path, self._reading).columns
            if "position" not in columns or not any(
                c == "prediction" or c.startswith("class ") for c in columns
            ):
                raise TableError(
                    f"{self._folder}/{path.name} needs the columns position and prediction (or "
                    f"class 0, class 1, ...); it has {columns}"
                )

    def describe(self) -> Mapping[str, Any]:
        """Return the settings."""
        return {**super().describe(), "mechanism": "predictions that exist already",
                "source": self.source}  # fmt: skip

    def _files(self) -> list[Path]:
        return [path for path in super()._files() if path.name != self.source]


class NamedFile:
    """One named stand-in, a table that exists already.

    ``lacks`` names columns of the source that it does not have: what is learned from it
    does without them.
    """

    def __init__(self, path: str, read: Mapping[str, Any], lacks: Sequence[str] = ()) -> None:
        self._path, self._reading = Path(path), Reading.model_validate(dict(read))
        self._lacks = tuple(lacks)

    def describe(self) -> Mapping[str, Any]:
        """Return the file's name."""
        return {"mechanism": "a named table", "file": self._path.name,
                "read": self._reading.model_dump(mode="json"),
                "lacks": list(self._lacks)}  # fmt: skip

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Check that the file has the source's columns."""
        missing = {str(c) for c in source.columns} - set(
            RawTable(self._path, self._reading).columns
        )
        if missing - set(self._lacks):
            raise TableError(
                f"{self._path.name} lacks the columns {sorted(missing - set(self._lacks))} of the "
                "source; if its schema is another one, register release.lacks"
            )

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the table."""
        seed.take("the stand-in table, made by whoever gave it")
        return read_table(self._path, self._reading)
