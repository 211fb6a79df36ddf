"""Losses that were computed elsewhere, in any language: npz, or Parquet in long form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import TableError
from proxyguard.registry.fields import number
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.target import Reading
from proxyguard.tables.columns import as_text
from proxyguard.tables.files import read_table


@dataclass(frozen=True, slots=True, eq=False)
class GivenLosses:
    """An array of losses with its names."""

    values: NDArray[np.float64]  # (R, n, J)
    releases: tuple[str, ...]
    requirements: tuple[str, ...]
    labels: list[str] | None  # strata or clusters, one a record


def read_loss_file(path: Path, design_column: str | None) -> GivenLosses:
    """Read a loss array.

    An npz file has ``losses`` (releases x records x requirements), ``releases`` and
    ``requirements`` (their names), and a column for strata or clusters where the design
    has them. A Parquet file has one row for each release and record, with the columns
    ``release`` and ``record``, and one column for each requirement.
    """
    if path.suffix == ".npz":
        return _from_npz(path, design_column)
    return _from_parquet(path, design_column)


def given_bounds(part: RequirementPart) -> tuple[float, float]:
    """Return the declared bounds: by default [0, 1], and [-1, 1] of a difference."""
    if part.low is not None and part.high is not None:
        return number(part.low), number(part.high)
    return (-1.0, 1.0) if part.form == "relative" else (0.0, 1.0)


def check_bounds(given: GivenLosses, requirements: Sequence[RequirementPart]) -> None:
    """Refuse losses outside their declared bounds, before they are sealed."""
    names = [part.name for part in requirements]
    if list(given.requirements) != names:
        raise TableError(f"the losses are about {list(given.requirements)}, declared are {names}")
    for j, part in enumerate(requirements):
        low, high = given_bounds(part)
        column = given.values[:, :, j]
        wrong = np.argwhere(~((column >= low) & (column <= high)))
        if wrong.size:
            r, i = (int(k) for k in wrong[0])
            raise TableError(
                f"{part.name}: release {given.releases[r]}, record {i} has {column[r, i]}, "
                f"declared bounds [{low:g}, {high:g}]"
            )


def _from_npz(path: Path, design_column: str | None) -> GivenLosses:
    try:
        with np.load(path, allow_pickle=False) as content:
            held = {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError) as error:
        raise TableError(f"{path.name} is no npz file without objects: {error}") from error
    needed = ["losses", "releases", "requirements", *([design_column] if design_column else [])]
    missing = [name for name in needed if name not in held]
    if missing:
        raise TableError(f"{path.name} lacks the arrays {missing}; it has {sorted(held)}")
    values = np.asarray(held["losses"], dtype=np.float64)
    releases = tuple(str(r) for r in held["releases"].tolist())
    requirements = tuple(str(r) for r in held["requirements"].tolist())
    if values.ndim != 3 or (values.shape[0], values.shape[2]) != (
        len(releases),
        len(requirements),
    ):
        raise TableError(
            f"{path.name}: losses have shape {values.shape}, named are {len(releases)} releases "
            f"and {len(requirements)} requirements"
        )
    labels = None
    if design_column is not None:
        labels = [as_text(v) for v in held[design_column].tolist()]
        if len(labels) != values.shape[1]:
            raise TableError(
                f"{path.name}: {design_column!r} has {len(labels)} labels for {values.shape[1]} "
                "records"
            )
    return GivenLosses(values, releases, requirements, labels)


def _from_parquet(path: Path, design_column: str | None) -> GivenLosses:
    frame: Any = read_table(path, Reading())
    extra = [design_column] if design_column else []
    missing = [c for c in ("release", "record", *extra) if c not in frame.columns]
    if missing:
        raise TableError(f"{path.name} lacks the columns {missing}; it has {list(frame.columns)}")
    requirements = [c for c in frame.columns if c not in ("release", "record", *extra)]
    releases = list(dict.fromkeys(frame["release"].map(as_text)))
    records = list(dict.fromkeys(frame["record"].map(as_text)))
    if len(frame) != len(releases) * len(records):
        raise TableError(
            f"{path.name} has {len(frame)} rows, expected one for each of {len(releases)} releases "
            f"and {len(records)} records"
        )
    ordered = frame.assign(
        release=frame["release"].map(as_text), record=frame["record"].map(as_text)
    ).set_index(["release", "record"])
    if not ordered.index.is_unique:
        raise TableError(f"{path.name} has two rows for one release and record")
    whole = ordered.reindex([(release, record) for release in releases for record in records])
    values = whole[requirements].to_numpy(dtype=np.float64)
    labels = None
    if design_column is not None:
        labels = [as_text(v) for v in whole[design_column].to_numpy()[: len(records)]]
    return GivenLosses(
        values.reshape(len(releases), len(records), len(requirements)),
        tuple(releases),
        tuple(str(r) for r in requirements),
        labels,
    )
