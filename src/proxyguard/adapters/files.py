"""Releases that exist already: a folder of files, stored predictions, named tables.

A file that is no release (it lacks a column, is empty or cannot be read) is the failure of its
own draw and of no other. What such draws count as is the mechanism's ``on_failure``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

from proxyguard.draw.messages import DeliveredFile
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError, UnreadValue
from proxyguard.printable import did_you_mean, found, nearest, some
from proxyguard.registry.explain import explain_errors
from proxyguard.registry.parts import DELIVERED
from proxyguard.registry.target import TableReading
from proxyguard.tables.files import RawTable, Schema, content_digest, is_prediction, read_file

if TYPE_CHECKING:
    import pandas as pd

# The import path of a named stand-in.
NAMED = "proxyguard.adapters.files:NamedFile"
# Options that lead to files: of a folder of releases, and of a named one.
FOLDER, PATTERN, PATH = "folder", "pattern", "path"
# What stands between the values of releases: who made them need not know the table's.
FIRST_LINE = "the most frequent of , ; tab and | in a file's first line"


def declared_files(
    generator: str, options: Mapping[str, object], root: Path
) -> tuple[list[str], list[str]]:
    """Return the files that a generator of this page reads, and the folders that it lists.

    The files by their names, not their folder: the target may lie beside them.

    Parameters
    ----------
    generator
        The generator by name or import path; one of another page reads none.
    options
        Its options, as declared.
    root
        The folder that the paths in them start from.

    Raises
    ------
    RegistryError
        If a pattern is none for names of files in its folder.
    """
    if generator == NAMED:
        return [str(options[PATH])], []
    if generator not in DELIVERED:
        return [], []
    folder = root / str(options[FOLDER])
    return [str(path) for path in _matching(folder, str(options.get(PATTERN, "*")))], [str(folder)]


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Return what a pattern stands for in a folder, and nowhere else."""
    parts = pattern.split("/")
    # ".." leads out of the declared folder and "**" through all beneath it, and every file that
    # matches is opened to draws.
    if any(part in ("", ".", "..", "**") or "\0" in part for part in parts):
        raise RegistryError(
            f"the pattern {pattern[:80]!r} is none for names of files in a folder; expected is one "
            "such as '*.csv'"
        )
    return list(folder.glob(pattern))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delivery:
    """A file that stands for a release, read once and as its draw will read it."""

    file: DeliveredFile
    """The file, as a generator says of it."""
    records: pd.DataFrame | None = None
    """Its records; nothing where it is no release, or that was not asked."""
    error: TableError | None = None
    """Why it is no release."""
    columns: tuple[str, ...] = ()
    """What it has, those that no release needs among them."""
    rows: int = 0
    """How many it has, without an outcome too."""
    recoded: bool = False
    """Whether its text is no UTF-8."""


class _Delivered:
    """How a table that exists already is read: when it is looked at, and when it is drawn."""

    _reading: TableReading
    # Whether each file says what separates its values, or that is declared for these very files.
    _own_separator = True

    def _deliver(self, path: Path, name: str, seed: int, schema: Schema | None) -> Delivery:
        """Return the file of a seed as it is now; without a schema, its digest alone."""
        digest, raw = None, None
        error: TableError | None = None
        try:
            content = read_file(path)
            # Of the bytes that are parsed below, and not of another reading: the file may be
            # replaced meanwhile.
            digest = hashlib.sha256(content).hexdigest()
            if schema is None:
                return Delivery(file=DeliveredFile(name=name, seed=seed, sha256=digest))
            raw = self._raw(path, name, content, list(schema.kinds))
            records = schema.records(raw.take())
            if len(records) == 0:
                without = f" with an outcome {schema.labelled!r}" if len(raw) else ""
                raise TableError(f"{name} has no record{without}")
        except UnreadValue as unread:
            error = unread.within(name)
        except TableError as problem:
            error = problem
            if path.name not in str(problem):
                error = TableError(f"{name}: {problem}")
        file = DeliveredFile(
            name=name, seed=seed, sha256=digest,
            content=content_digest(records) if error is None else None,
            problem=None if error is None else str(error),
        )  # fmt: skip
        return Delivery(
            file=file, error=error, records=records if error is None else None,
            columns=() if raw is None else tuple(raw.columns), rows=0 if raw is None else len(raw),
            recoded=raw is not None and raw.recoded,
        )  # fmt: skip

    def _raw(self, path: Path, name: str, content: bytes, columns: Sequence[str]) -> RawTable:
        """Return a file's rows; an error that names it where it lacks a column."""
        raw = RawTable(path, self._reading, content, own_separator=self._own_separator)
        self._check_columns(name, raw.columns, columns)
        return raw

    def _check_columns(self, name: str, present: Sequence[str], wanted: Sequence[str]) -> None:
        missing = set(wanted) - set(present)
        if missing:
            # Of its other columns alone: where it has the right one too, none was misspelt.
            near = [f"{found(n)} for {found(m)}" for m in sorted(missing)
                    for n in nearest(m, set(present) - set(wanted))]  # fmt: skip
            raise TableError(
                f"{name} lacks the columns {', '.join(map(found, sorted(missing)))} of the source"
                + (f"; it has {', '.join(near)}" if near else "")
            )


class FileFolder(_Delivered):
    """The files of a folder, in the order of their names; seed ``first + i`` is file ``i``.

    That they are independent draws of one mechanism is what whoever made them says.

    Parameters
    ----------
    folder
        The folder, from the folder that declared paths start from.
    pattern
        Which names in it are releases.
    first
        The seed of the first file.
    **reading
        How the files are read, as in the declaration of a table; without ``separator`` each file's
        first line says it.
    """

    root = Path()  # set to the folder that declared paths start from

    def __init__(self, folder: str, pattern: str = "*", first: int = 0, **reading: object) -> None:
        self._folder, self._pattern, self._first = folder, pattern, first
        self._reading = _read_as(reading)
        self._own_separator = "separator" not in reading
        self._columns: tuple[str, ...] = ()

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {
            "mechanism": "files that exist already",
            "folder": self._folder,
            "pattern": self._pattern,
            "first": self._first,
            "read": _read_words(self._reading, self._own_separator),
        }

    def survey(self, seeds: Sequence[int], schema: Schema | None) -> list[DeliveredFile]:
        """Return the file of every seed as it is now; without a schema, its digest alone."""
        return [delivery.file for delivery in self.deliveries(seeds, schema)]

    def deliveries(self, seeds: Sequence[int], schema: Schema | None) -> Iterator[Delivery]:
        """Yield the same, each file with its records as its draw will read them."""
        files = self._files()
        without = [s for s in seeds if not 0 <= s - self._first < len(files)]
        if without:
            # What is wrong with those that are there is told with it, and not at the next check.
            there = (
                self._deliver(path, self._name(path), self._first + i, schema)
                for i, path in enumerate(files)
            )
            odd = [str(delivery.error) for delivery in there if delivery.error is not None]
            raise RegistryError("; ".join([self._too_few(len(files), len(seeds), without), *odd]))
        for seed in seeds:
            path = files[seed - self._first]
            yield self._deliver(path, self._name(path), seed, schema)

    def _too_few(self, files: int, draws: int, without: Sequence[int]) -> str:
        """Say how many files there are for so many draws, and what to write."""
        if not files:
            others = len(list((self.root / self._folder).iterdir()))
            fits = f" that fits the pattern {self._pattern!r}, of {others} there" if others else ""
            return f"{self._folder!r} has no file{fits}; put the releases there, or name another"
        if draws > files:
            return (
                f"{draws} draws are declared, and {self._folder!r} has {files} files; write draws "
                f"= {files}"
            )
        return (
            f"seeds {some([*map(str, without)], 5)} stand for no file of {self._folder!r}, which "
            f"has {files}; leave seeds out, or write seeds = {{ first = {self._first} }}"
        )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """See that there is a folder; what is wrong with one of its files fails one draw."""
        self._files()
        self._columns = tuple(str(name) for name in source.columns)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the file of this seed."""
        files = self._files()
        place = int(seed) - self._first
        if not 0 <= place < len(files):
            raise RegistryError(
                f"seed {int(seed)} stands for file {place} of {self._folder!r}, which has "
                f"{len(files)}; register first = {self._first} and as many draws as files"
            )
        path = files[place]
        # Read through the seed, which notes the digest of the very bytes that become the release.
        name = self._name(path)
        raw = self._raw(path, name, seed.read(name, path), self._columns)
        seed.take(f"the file in {self._folder}, drawn by whoever made it")
        return raw.take()

    def _name(self, path: Path) -> str:
        return f"{self._folder}/{path.name}"

    def _files(self) -> list[Path]:
        folder = self.root / self._folder
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "is not there"
            raise RegistryError(
                f"{folder} {what}; name the folder that the releases lie in, beside the audit or "
                "where --data points"
            )
        # By name: a folder's own order is the file system's, and a copy would give seeds other
        # files.
        files = sorted(path for path in _matching(folder, self._pattern) if path.is_file())
        for path in files:  # its name is registered as text
            if path.name.encode("utf-8", "replace") != os.fsencode(path.name):
                raise RegistryError(
                    f"{self._folder!r} has a file {path.name!r}, whose name is no UTF-8 text; "
                    "rename it"
                )
        return files


class StoredPredictions(FileFolder):
    """Predictions for the target's records, one file a release; nothing is fitted here.

    A file has the column ``position``, the record's row in the target file or table, and
    ``prediction``, or one column a class named ``class 0``, ``class 1`` and so on. The file
    named by ``source`` holds those of the source procedure, for relative requirements.
    """

    def __init__(
        self,
        folder: str,
        source: str | None = None,
        pattern: str = "*",
        first: int = 0,
        **reading: object,
    ) -> None:
        super().__init__(folder, pattern, first, **reading)
        self.source = source

    def survey(self, seeds: Sequence[int], schema: Schema | None) -> list[DeliveredFile]:
        """Return the files of the draws, and that of the source's predictions."""
        surveyed = super().survey(seeds, schema)
        if self.source is not None:
            content = read_file(self.root / self._folder / self.source)
            surveyed.append(
                DeliveredFile(
                    name=f"{self._folder}/{self.source}",
                    seed=None,
                    sha256=hashlib.sha256(content).hexdigest(),
                )
            )
        return surveyed

    def _check_columns(self, name: str, present: Sequence[str], wanted: Sequence[str]) -> None:
        """See that a file has positions and predictions."""
        if "position" not in present or sum(map(is_prediction, present)) < 2:
            raise TableError(
                f"{name} needs the columns position and prediction (or class 0, class 1, ...); it "
                f"has {list(present)}"
            )

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {**super().describe(), "mechanism": "predictions that exist already",
                "source": self.source}  # fmt: skip

    def _files(self) -> list[Path]:
        # The source's predictions are no draw: counted among them they would shift seeds.
        return [path for path in super()._files() if path.name != self.source]


class NamedFile(_Delivered):
    """One named stand-in, a table that exists already.

    ``lacks`` names columns of the source that it does not have: what is learned from it
    does without them.
    """

    def __init__(self, path: str, read: Mapping[str, object], lacks: Sequence[str] = ()) -> None:
        self._path, self._reading = Path(path), TableReading.model_validate(dict(read))
        self._lacks = tuple(lacks)
        self._columns: tuple[str, ...] = ()

    def describe(self) -> Mapping[str, object]:
        """Return the file's name."""
        return {"mechanism": "a named table", "file": self._path.name,
                "read": _read_words(self._reading, own_separator=True),
                "lacks": list(self._lacks)}  # fmt: skip

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Take note of the columns that the file has to have."""
        self._columns = tuple(str(c) for c in source.columns if c not in self._lacks)

    def delivery(self, seed: int, schema: Schema) -> Delivery:
        """Return the file as it is now, read as its draw will read it."""
        return self._deliver(self._path, self._path.name, seed, schema)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return the table."""
        seed.take("the stand-in table, made by whoever gave it")
        name = self._path.name
        return self._raw(self._path, name, seed.read(name, self._path), self._columns).take()

    def _check_columns(self, name: str, present: Sequence[str], wanted: Sequence[str]) -> None:
        try:
            super()._check_columns(name, present, wanted)
        except TableError as error:
            lacks = ", ".join(map(found, sorted(set(wanted) - set(present))))
            remedy = f"if it was made without them, write lacks = [{lacks}] in its [[release]]"
            raise TableError(f"{error}; {remedy}") from None


def _read_words(reading: TableReading, own_separator: bool) -> dict[str, object]:
    """Return how files are read, as it is recorded."""
    read: dict[str, object] = reading.model_dump(mode="json")
    return {**read, "separator": FIRST_LINE} if own_separator else read


def _read_as(options: Mapping[str, object]) -> TableReading:
    """Return how files are read, by the options that are no others."""
    known = (*TableReading.model_fields, FOLDER, PATTERN, "first")
    for option in options:
        if option not in known:
            raise RegistryError(
                f"there is no option {option} of files{did_you_mean(option, known)}; there are "
                f"{', '.join(known)}"
            )
    try:
        return TableReading.model_validate(dict(options))
    except ValidationError as error:
        raise RegistryError(
            explain_errors(error, TableReading, options, "", "the options")
        ) from None
