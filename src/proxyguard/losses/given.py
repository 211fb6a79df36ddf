"""Losses as people have them: arrays, DataFrames, files; each form means one thing.

A plain array is releases x records x requirements, and with two axes releases x records of one
requirement. A DataFrame with the columns ``release`` and ``record`` is long: a row for each of
their pairs, and a column for each requirement, by its name. Any other DataFrame is wide: a row a
record, a column a release, of one requirement; a column ``record`` names the records. DataFrames
are those of pandas and polars, and tables of Arrow. Where ``record`` names the records, labels that
come beside the losses are matched by ``Records.ids``. A file is ``.npy`` (an array), ``.npz`` (an
array ``losses``, and the names ``releases`` and ``requirements``) or a long or wide table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.errors import LossMismatch, UnreadValue
from proxyguard.exact.rounding import Array
from proxyguard.losses.records import AnyArray, Records
from proxyguard.registry.target import TableReading
from proxyguard.tables.columns import Series, as_text, typed
from proxyguard.tables.files import as_frame, read_table

if TYPE_CHECKING:
    import pandas as pd


# The columns that make a table of losses a long one.
KEYS = ("release", "record")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamedLosses:
    """An array of losses with the names that came with it.

    Attributes
    ----------
    values
        Releases x records x requirements.
    releases, records
        Their names, where they have some.
    requirements
        The names of the last axis, where they came with the losses.
    """

    values: AnyArray
    releases: tuple[str, ...] | None = None
    records: tuple[str, ...] | None = None
    requirements: tuple[str, ...] | None = None

    def about(self, names: Sequence[str]) -> NamedLosses:
        """Return them with the last axis in the order of these requirements.

        Raises
        ------
        LossMismatch
            They are about others.
        """
        known = self.requirements
        if known is None or not names or known == tuple(names):
            return self
        if sorted(known) != sorted(names):
            raise LossMismatch(f"the losses are about {list(known)}, declared are {list(names)}")
        values = self.values[:, :, [known.index(name) for name in names]]
        return NamedLosses(
            values=values, releases=self.releases, records=self.records, requirements=tuple(names)
        )

    def in_order_of(self, records: Records) -> NamedLosses:
        """Return them with the records in the order of what is known of them, matched by id.

        A table has its records in the order in which they first occur, and labels in another order
        would be another record's.

        Raises
        ------
        LossMismatch
            The losses name their records, and the labels have no ids or others.
        """
        if self.records is None:
            return self
        if records.ids is None:
            columns = (records.strata, records.clusters, records.weights)
            if not records.groups and all(column is None for column in columns):
                return self  # no label could be another record's
            raise LossMismatch(
                "the losses name their records in the column 'record', and records has no ids: "
                "nobody can say whose labels are whose; give records.ids, the names in that column "
                "in the order of the labels"
            )
        known = {name: k for k, name in enumerate(Records(ids=self.records).texts("ids"))}
        wanted = records.texts("ids")
        missing, others = set(wanted) - set(known), set(known) - set(wanted)
        if missing or others or len(wanted) != len(known):
            raise LossMismatch(
                f"records.ids has {len(wanted)} names and the losses have {len(known)} records: "
                f"{len(missing)} of records.ids have no losses, and {len(others)} of the losses "
                "are not in records.ids; both are about the same records"
            )
        values = self.values[:, [known[name] for name in wanted]]
        return NamedLosses(
            values=values, releases=self.releases, records=tuple(wanted),
            requirements=self.requirements,
        )  # fmt: skip


def loose_losses(losses: object, names: Sequence[str]) -> NamedLosses:
    """Return losses that came as a DataFrame or as a file.

    Parameters
    ----------
    losses
        A DataFrame, a table of Arrow, or the path of a file.
    names
        The requirements, by whose names the columns of a long table are found.
    """
    if isinstance(losses, str | PathLike):
        return loss_file(Path(losses), names)
    return from_frame(as_frame(losses, "losses"), names)


def loss_file(path: Path, names: Sequence[str]) -> NamedLosses:
    """Return the losses of a file; see the head of this module for its forms."""
    if path.suffix not in (".npy", ".npz"):
        return from_frame(read_table(path, TableReading()), names, path.name)
    arrays = load_arrays(path)
    if "losses" not in arrays:
        raise LossMismatch(f"{path.name} has the arrays {sorted(arrays)}, expected one of losses")
    values = with_axes(arrays["losses"], len(names), path.name)
    named = {
        axis: tuple(map(str, arrays[axis].tolist()))
        for axis in ("releases", "requirements")
        if axis in arrays
    }
    return NamedLosses(values=values, **named).about(names)


def load_arrays(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of an npz file, or the one of an npy file as ``losses``.

    Raises
    ------
    LossMismatch
        It is none, or holds objects, which would run code.
    """
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return {"losses": content}
            return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise LossMismatch(f"there are no losses at {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise LossMismatch(
            f"{path.name} holds no plain arrays; write it with numpy.savez(path, losses=..., "
            "releases=..., requirements=...)"
        ) from error


def with_axes(values: AnyArray, n_requirements: int, where: str = "losses") -> AnyArray:
    """Return an array with three axes; one with two is releases x records of one requirement.

    Parameters
    ----------
    values
        The array.
    n_requirements
        How many requirements there are; 0 where that is not known.
    where
        What an error calls it.

    Raises
    ------
    LossMismatch
        It has other axes, or two and several requirements are declared.
    """
    expected = "(releases, records, requirements), or (releases, records) of one requirement"
    if values.ndim == 2 and n_requirements <= 1:
        return values[:, :, None]
    if values.ndim != 3:
        shape = f"{where} must be an array of shape {expected}; found is {values.shape}"
        several = f", and there are {n_requirements} requirements" if values.ndim == 2 else ""
        raise LossMismatch(shape + several)
    return values


def from_frame(frame: pd.DataFrame, names: Sequence[str], where: str = "losses") -> NamedLosses:
    """Return the losses of a long or a wide table.

    Parameters
    ----------
    frame
        The table.
    names
        The requirements; none where they are not known.
    where
        What an error calls it.

    Raises
    ------
    LossMismatch
        It is neither, or both could be meant.
    """
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) < len(columns):
        raise LossMismatch(f"{where} has two columns of one name: {columns[:20]}")
    table = frame.set_axis(columns, axis=1)
    if set(KEYS) <= set(columns):
        return _from_long(table, names, where)
    form = (
        "expected is a long table, with the columns release, record and one for each requirement, "
        "or a wide one, a row a record and a column a release, of one requirement"
    )
    if "release" in columns or set(columns) & set(names) or len(names) > 1:
        raise LossMismatch(
            f"{where} has the columns {columns[:20]}"
            f"{f' for {len(names)} requirements' if len(names) > 1 else ''}; {form}"
        )
    records = None
    if "record" in columns:
        records = tuple(table.pop("record").map(as_text))
    if table.shape[1] == 0:
        raise LossMismatch(f"{where} has no column of losses; {form}")
    return NamedLosses(
        values=_doubles(table, where).T[:, :, None], releases=tuple(table.columns), records=records
    )


def _from_long(frame: pd.DataFrame, names: Sequence[str], where: str) -> NamedLosses:
    requirements = [name for name in frame.columns if name not in KEYS]
    keyed = frame.assign(**{key: frame[key].map(as_text) for key in KEYS})
    releases, records = (tuple(dict.fromkeys(keyed[key])) for key in KEYS)
    if len(frame) != len(releases) * len(records):
        raise LossMismatch(
            f"{where} has {len(frame)} rows, expected one for each of {len(releases)} releases "
            f"and {len(records)} records"
        )
    # As many rows as there are pairs, and no pair twice: then none is missing.
    keyed[requirements] = _doubles(frame[requirements], where)  # an error names a row as it came
    ordered = keyed.set_index(list(KEYS))
    if not ordered.index.is_unique:
        raise LossMismatch(f"{where} has two rows for one release and record")
    whole = ordered.reindex(list(product(releases, records)))
    values = whole[requirements].to_numpy(dtype=np.float64)
    return NamedLosses(
        values=values.reshape(len(releases), len(records), len(requirements)),
        releases=releases,
        records=records,
        requirements=tuple(requirements),
    ).about(names)


def _doubles(table: pd.DataFrame, where: str) -> Array:
    """Return a table's losses; a blank one is missing, as the requirement says what that is."""
    try:
        return np.asarray(table.to_numpy(dtype=np.float64, na_value=np.nan))
    except (ValueError, TypeError):
        pass  # one of them is text: a file of CSV is, and says by it which losses are missing
    losses = dict.fromkeys(table.columns, "number")
    try:
        return typed(table, losses, TableReading().missing).to_numpy(dtype=np.float64)
    except UnreadValue as error:
        kinds = [name for name in table.columns if _no_numbers(table[name])]
        wrong = f"column {error.column!r}, row {error.row + 1} is no number; mend it, or leave it "
        wrong += "blank where the loss is missing"
        if kinds:
            wrong = (
                f"the columns {kinds[:5]} hold no numbers, and a column is the losses of a release "
                "or of a requirement; what is known of the records goes into records"
            )
        raise LossMismatch(f"{where}: {wrong}") from None


def _no_numbers(values: Series) -> bool:
    import pandas as pd

    return bool(pd.to_numeric(values, errors="coerce").isna().all())
