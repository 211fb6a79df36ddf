"""A private fit that is made once and kept: its noise cannot be made again from a seed.

It lies in two files of one folder (`KeptFit`):

 * ``tables.json``: the settings and the noisy tables, which cost epsilon once and may be shown.
 * ``source.json``: which rows were fitted, as a keyed digest with its key. It is written first.
   It is as private as the source itself and is never given out.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.adapters.files import FOLDER
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.errors import DiskError, RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.seal.fingerprint import fingerprints, identify
from proxyguard.seal.storage import write_flushed

if TYPE_CHECKING:
    import pandas as pd

# The name of the kept tables in their folder.
FILE = "tables.json"

# The name of what says which rows they were fitted on.
SOURCE = "source.json"

# Generators that keep a fit where they are given a folder for it.
KEEPING = frozenset({"categorical", "aim"})


class KeptFit:
    """The tables of one private fit in a folder; they are fitted if there are none."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._place, self._settings = folder / FILE, settings

    def tables(
        self, source: pd.DataFrame, fit_tables: Callable[[], Mapping[str, Array]]
    ) -> tuple[dict[str, Array], str]:
        """Return the noisy tables of this source, and the digest of the file they stand in.

        Parameters
        ----------
        source
            The rows that are fitted, or were.
        fit_tables
            Makes the tables by name, which costs epsilon; called where there are none yet.

        Raises
        ------
        RegistryError
            If the folder holds the fit of other rows, or with other settings.
        TableError
            If its files are not those of one fit.
        DiskError
            If the fit could not be kept; nothing may be drawn from it then.
        """
        # The rows are bound before any noise is drawn: a kill in between leaves a fit that can
        # still be made, and never tables of which nobody knows the rows.
        fit = self._bound(source)
        if not self._place.exists():
            tables = {name: table.tolist() for name, table in fit_tables().items()}
            content = {"format": 2, "fit": fit, "settings": self._settings, "tables": tables}
            _write_once(self._place, canonical_bytes(content))
        # Read back also by whoever wrote: of two that fitted at once one won, and to draw from the
        # other's tables as well would cost epsilon twice.
        content_bytes = self._place.read_bytes()
        return self._read(content_bytes, fit), hashlib.sha256(content_bytes).hexdigest()

    def _bound(self, source: pd.DataFrame) -> str:
        """Return the name of the fit on this source; another source is refused.

        The noise hides each row, and a digest of all rows would undo that for whoever can guess
        all but one of them. So the digest is keyed and stands in a file of its own, apart from
        the tables. Its key lies beside it, which gives nothing away that is not given already:
        the folder is one of the data folders, where the source itself is.
        """
        place = self._place.with_name(SOURCE)
        if not place.exists():
            # To bind these tables to the rows at hand would let the fit of other rows pass for
            # theirs.
            if self._place.exists():
                raise TableError(
                    f"{self._place} is a private fit of which {place.name} should say on which "
                    "rows it was made, and that file is missing; put it back, or name another "
                    "folder to fit again, which costs epsilon again"
                )
            key = secrets.token_bytes(32)
            content = {"format": 1, "fit": secrets.token_hex(16), "key": key.hex(),
                       "rows": _identity(source, key)}  # fmt: skip
            _write_once(place, canonical_bytes(content), private=True)
        try:
            kept = json.loads(place.read_bytes())
            fit, key, rows = str(kept["fit"]), bytes.fromhex(kept["key"]), str(kept["rows"])
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(f"{place} does not say which rows were fitted: {error!r}") from error
        found = _identity(source, key)
        if found != rows:
            raise RegistryError(
                f"{self._place.parent} holds the private fit of other rows: their keyed digest is "
                f"{rows[:16]}..., that of this source {found[:16]}.... Give the source that was "
                "fitted, or name another folder to fit this one, which costs epsilon again"
            )
        return fit

    def _read(self, content: bytes, fit: str) -> dict[str, Array]:
        """Return kept tables, which must be of this fit and have these very settings."""
        place = self._place
        try:
            kept = json.loads(content)
            same = canonical_bytes(kept["settings"]) == canonical_bytes(self._settings)
            tables = {
                str(name): np.array(table, dtype=np.float64)
                for name, table in kept["tables"].items()
            }
            other = kept["fit"] != fit
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TableError(f"{place} holds no tables of a private fit: {error!r}") from error
        if not same:
            raise RegistryError(
                f"{place} was fitted with other settings: {kept['settings']}; name another folder "
                "to fit again, which costs epsilon again"
            )
        if other:
            raise TableError(
                f"{place} holds the tables of another fit than {SOURCE} beside it tells of; put "
                "both files of one fit back, or name another folder, which costs epsilon again"
            )
        if not all(np.isfinite(table).all() for table in tables.values()):
            raise TableError(f"{place} holds tables with numbers that are not finite")
        return tables


def _identity(source: pd.DataFrame, key: bytes) -> str:
    """Return the keyed digest of the rows, whatever their order."""
    return identify(fingerprints(source, key), [str(name) for name in source.columns])[0]


def _write_once(place: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file that is not there yet; of several writers the first one wins.

    A ``private`` one is readable by its owner alone.
    """
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_flushed(part, content, private=private)
        try:
            # A link and no rename, which would replace tables that somebody may have drawn from.
            os.link(part, place)
        except FileExistsError:
            return  # another process fitted first: its tables are the ones to read
        finally:
            part.unlink()
    except OSError as error:
        raise DiskError(
            f"the private fit could not be kept at {place} ({error.strerror or error}); nothing "
            "was drawn from it, mend the disk and run the step again"
        ) from error


def inner_folder(folder: str | None, name: str) -> str | None:
    """Return where a fit is to be kept, a path inside the data folders; None keeps none.

    Raises
    ------
    RegistryError
        If it leads out of them.
    """
    # The folder is opened for writing to the process that prepares: a path that leads out of the
    # data folders would open others.
    if folder is not None and (Path(folder).is_absolute() or ".." in Path(folder).parts):
        raise RegistryError(f"{name} is a path inside the data folders, got {folder!r}")
    return folder


def kept_folders(generator: str, options: Mapping[str, object], root: Path) -> list[str]:
    """Return where a generator of ours keeps the fit that it may make only once.

    Parameters
    ----------
    generator
        The generator by name; others than `KEEPING` keep nothing.
    options
        Its options, as declared.
    root
        The folder that the paths in them start from.

    Returns
    -------
    list
        Folders that may be changed while the generator prepares.
    """
    folder = options.get(FOLDER)
    return [str(root / folder)] if generator in KEEPING and isinstance(folder, str) else []


def kept_files(folder: str) -> tuple[str, str]:
    """Return the two files of a kept fit; with both there, preparing only reads."""
    return str(Path(folder) / FILE), str(Path(folder) / SOURCE)
