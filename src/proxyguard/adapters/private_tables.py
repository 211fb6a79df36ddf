"""One private fit, kept: counts with OpenDP's noise, and whose counts they are.

The noise cannot be made again from a seed, so whoever fits first keeps the noisy tables and
everybody else reads them. Two files lie in the folder:

 * ``tables.json``: the settings and the noisy tables, which cost epsilon once and may be shown.
 * ``source.json``: which rows were fitted, as a keyed digest with its key. It is written first.
   It is as private as the source itself and is never given out.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import DiskError, RegistryError, TableError
from proxyguard.seal.canonical import canonical_bytes
from proxyguard.seal.fingerprint import fingerprints, identify
from proxyguard.seal.storage import write_flushed

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Counts = Sequence[NDArray[np.int64]]
FILE = "tables.json"
"""The name of the kept tables in their folder."""

SOURCE = "source.json"
"""The name of what says which rows they were fitted on."""


class KeptFit:
    """The tables of one private fit in a folder; they are fitted if there are none."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._place, self._settings, self._columns = folder / FILE, settings, columns

    def tables(
        self, source: pd.DataFrame, counts: Counts, epsilon: Fraction
    ) -> tuple[list[Array], str]:
        """Return the noisy tables of this source, and the digest of the file they stand in."""
        fit = self._bound(source)
        if not self._place.exists():
            noisy = private_counts(counts, epsilon)
            tables = dict(zip(self._columns, (t.tolist() for t in noisy), strict=True))
            content = {"format": 2, "fit": fit, "settings": self._settings, "tables": tables}
            _write_once(self._place, canonical_bytes(content))
        content_bytes = self._place.read_bytes()
        shapes = [table.shape for table in counts]
        return self._read(content_bytes, fit, shapes), hashlib.sha256(content_bytes).hexdigest()

    def _bound(self, source: pd.DataFrame) -> str:
        """Return the name of the fit on this source; another source is refused.

        The noise hides each row, and a digest of all rows would undo that for whoever can guess
        all but one of them. So the digest is keyed and stands in a file of its own, apart from
        the tables. Its key lies beside it, which gives nothing away that is not given already:
        the folder is one of the data folders, where the source itself is.
        """
        place = self._place.with_name(SOURCE)
        if not place.exists():
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

    def _read(self, content: bytes, fit: str, shapes: list[tuple[int, ...]]) -> list[Array]:
        """Return kept tables, which must be of this fit and have these very settings."""
        place = self._place
        try:
            kept = json.loads(content)
            same = canonical_bytes(kept["settings"]) == canonical_bytes(self._settings)
            tables = [np.array(kept["tables"][name], dtype=np.float64) for name in self._columns]
            other = kept["fit"] != fit
        except (ValueError, KeyError, TypeError) as error:
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
        if [table.shape for table in tables] != shapes or not all(
            np.isfinite(table).all() for table in tables
        ):
            raise TableError(f"{place} holds tables that do not fit the registered domains")
        return tables


def _identity(source: pd.DataFrame, key: bytes) -> str:
    """Return the keyed digest of the rows, whatever their order."""
    return identify(fingerprints(source, key), [str(name) for name in source.columns])[0]


def private_counts(counts: Counts, epsilon: Fraction) -> list[NDArray[np.int64]]:
    """Return counts with OpenDP's discrete Laplace noise, all tables for ``epsilon`` together.

    Guarantee
    ---------
    One row more or less changes one cell of each table by 1, so the tables laid end to end
    by ``len(counts)`` in L1. OpenDP's own map from that distance to epsilon, which rounds
    up, is at most ``epsilon``.
    """
    measurement = laplace_measurement(len(counts), epsilon)
    flat = np.concatenate([table.ravel() for table in counts])
    noisy = np.array(measurement([int(v) for v in flat]), dtype=np.int64)
    ends = np.cumsum([table.size for table in counts])[:-1]
    parts = np.split(noisy, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, counts, strict=True)]


def laplace_measurement(tables: int, epsilon: Fraction) -> Any:
    """Return OpenDP's Laplace measurement on counts for an L1 distance of ``tables``.

    On whole numbers its noise is ``k`` with a chance in proportion to ``exp(-|k| / scale)``,
    and it costs the distance divided by the scale.
    """
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise RegistryError(
            f'noise = "opendp" needs OpenDP: pip install "proxyguard[dp]" ({error})'
        ) from error
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    scale = float(tables / epsilon)
    while True:
        measurement: Any = dp.m.make_laplace(*space, scale=scale)
        if Fraction(measurement.map(tables)) <= epsilon:
            return measurement
        scale = math.nextafter(scale, math.inf)  # rounding may only add noise


def _write_once(place: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file that is not there yet; of several writers the first one wins.

    A ``private`` one is readable by its owner alone.
    """
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_flushed(part, content, private=private)
        try:
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
