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
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.errors import LossMismatch, TableError, UnreadValue
from proxyguard.exact.rounding import Array
from proxyguard.losses.read import with_axes
from proxyguard.losses.records import AnyArray, Records
from proxyguard.printable import found
from proxyguard.registry.fields import number
from proxyguard.registry.numbers import canonical_value
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.target import TableReading
from proxyguard.tables.columns import Series, as_text, typed
from proxyguard.tables.files import as_frame, read_table

if TYPE_CHECKING:
    import pandas as pd


# The columns that make a table of losses a long one.
KEYS = ("release", "record")
# Files of arrays; all others hold tables.
ARRAYS = (".npy", ".npz")


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
        return replace(self, values=values, requirements=tuple(names))

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
        return replace(self, values=values, records=tuple(wanted))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GivenLosses(NamedLosses):
    """Losses of a file, all of whose releases and requirements have names.

    Attributes
    ----------
    labels
        Strata, clusters or weights, one a record, where the design has them.
    """

    values: Array
    releases: tuple[str, ...]
    requirements: tuple[str, ...]
    labels: list[str] | None = None


def loose_losses(losses: object, names: Sequence[str]) -> NamedLosses:
    """Return losses that came as a DataFrame or as a file.

    Parameters
    ----------
    losses
        A DataFrame, a table of Arrow, or the path of a file.
    names
        The requirements, by whose names the columns of a long table are found.
    """
    if not isinstance(losses, str | PathLike):
        return from_frame(as_frame(losses, "losses"), names)
    path = Path(losses)
    if path.suffix in ARRAYS:
        return _from_arrays(load_arrays(path), names, path.name)
    return from_frame(read_table(path, TableReading()), names, path.name)


def read_loss_file(path: Path, design_column: str | None, names: Sequence[str]) -> GivenLosses:
    """Read the losses of a declaration, in one of the forms of this module.

    Strata, clusters or weights stand in an array or a column of their own, where the design has
    them; an npy file has no place for them.

    Parameters
    ----------
    path
        The file: ``.npy``, ``.npz``, or a table.
    design_column
        The column of strata, clusters or weights, where the design has one.
    names
        The declared requirements, by whose names the columns of a long table are found.

    Raises
    ------
    TableError
        The file has not these arrays or columns, or not one row for each release and record.
    """
    labels = None
    try:
        if path.suffix in ARRAYS:
            arrays = load_arrays(path)
            if design_column is not None and path.suffix == ".npy":
                raise TableError(
                    f"{path.name} holds the losses alone, and the design needs {design_column!r} "
                    "of every record; write an npz file with both"
                )
            needed = ["losses", "releases", "requirements", *filter(None, [design_column])]
            missing = [name for name in needed if name not in arrays]
            if missing and path.suffix == ".npz":
                raise TableError(f"{path.name} lacks the arrays {missing}; it has {sorted(arrays)}")
            if design_column is not None:
                labels = [as_text(label) for label in arrays[design_column].ravel().tolist()]
            named = _from_arrays(arrays, names, path.name)
        else:
            frame = read_table(path, TableReading())
            if design_column is not None:
                labels = _take_labels(frame, design_column, path.name)
            named = from_frame(frame, names, path.name)
    except LossMismatch as error:
        raise TableError(str(error)) from None
    n_releases, n_records, n_requirements = named.values.shape
    known = named.requirements or tuple(names)
    if len(known) != n_requirements or len(named.releases or ()) not in (0, n_releases):
        raise TableError(
            f"{path.name}: losses have shape {named.values.shape}, named are "
            f"{len(named.releases or ())} releases and {len(known)} requirements"
        )
    if labels is not None and len(labels) != n_records:
        raise TableError(
            f"{path.name}: {design_column!r} has {len(labels)} labels for {n_records} records"
        )
    return GivenLosses(
        values=np.asarray(named.values, dtype=np.float64),
        releases=named.releases or tuple(map(str, range(n_releases))),
        records=named.records,
        requirements=known,
        labels=labels,
    )


def _take_labels(frame: pd.DataFrame, column: str, where: str) -> list[str]:
    """Take the column of labels out of a table of losses, and return one label a record."""
    if column not in frame.columns:
        raise TableError(f"{where} lacks the column {column!r} of the design")
    labels = frame.pop(column).map(as_text)
    if "record" not in frame.columns:
        return list(labels)
    records = frame["record"].map(as_text)
    first = ~records.duplicated()
    known = dict(zip(records[first], labels[first].map(canonical_value), strict=True))
    # Strata, clusters and weights belong to the records, whatever the release.
    other = np.flatnonzero(labels.map(canonical_value) != records.map(known))
    if other.size:
        raise TableError(
            f"{where}, row {other[0] + 1}: {column!r} is another than in the first row of the same "
            f"record, and so it is in {other.size:,} rows; it belongs to the record, so give it "
            "alike with every release"
        )
    return list(labels[first])


def _from_arrays(arrays: dict[str, AnyArray], names: Sequence[str], where: str) -> NamedLosses:
    if "losses" not in arrays:
        raise LossMismatch(f"{where} has the arrays {sorted(arrays)}, expected one of losses")
    values = with_axes(arrays["losses"], len(names), where)
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


def given_bounds(part: RequirementPart) -> tuple[float, float]:
    """Return the declared bounds: by default [0, 1], and [-1, 1] of a difference."""
    if part.low is not None and part.high is not None:
        return number(part.low), number(part.high)
    return (-1.0, 1.0) if part.form == "relative" else (0.0, 1.0)


def check_bounds(
    given: GivenLosses, requirements: Sequence[RequirementPart], *, gaps: bool = False
) -> None:
    """Refuse losses outside their declared bounds, before they are sealed; ``gaps`` may be NaN."""
    names = [declared.name for declared in requirements]
    if list(given.requirements) != names:
        raise TableError(
            f"the losses are about {', '.join(map(found, given.requirements))}, declared are "
            f"{', '.join(map(found, names))}; call them alike, in one order"
        )
    for j, declared in enumerate(requirements):
        low, high = given_bounds(declared)
        column = given.values[:, :, j]
        wrong = np.argwhere(~((column >= low) & (column <= high) | (gaps & np.isnan(column))))
        if wrong.size:
            r, i = (int(k) for k in wrong[0])
            # Where it is and never what: a loss may tell the outcome.
            missing = np.isnan(column[r, i])
            odd = "no number" if missing else "a value outside its bounds"
            remedy = (
                'mend the loss, or write missing_outcomes = "worst" in [target]'
                if missing
                else "mend the loss, or the bounds"
            )
            raise TableError(
                f"{declared.name}: release {given.releases[r]}, record {i} (from 0) has {odd}, "
                f"declared are low = {low:g} and high = {high:g}"
                + (f", and so have {len(wrong) - 1:,} others" if len(wrong) > 1 else "")
                + f"; {remedy}"
            )
