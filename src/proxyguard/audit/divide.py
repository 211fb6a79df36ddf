"""Which rows of a table are the target, and which are development: training and validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.library import split_table
from proxyguard.audit.data import DataFolders
from proxyguard.draw.outcome import outcomes
from proxyguard.errors import TableError
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.registry.target import ClusteredDesign, StratifiedDesign, Target
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_text
from proxyguard.tables.files import RawTable

if TYPE_CHECKING:
    import pandas as pd

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A target and the development part beside it, as they stand in their files."""

    target: pd.DataFrame
    positions: Positions  # of the target's rows in their file
    development: pd.DataFrame  # in blocks: training, then validation
    rest: Positions | None  # of the development rows, where both come from one table
    whole: pd.DataFrame | None  # that table, unused rows included


def divide(member: Member, data: DataFolders) -> Parts:
    """Return the target and the development part of a member, by position in their files."""
    target = member.target
    if target.table is not None:
        raw = RawTable(data.find(target.table), target.read)
        check_columns(member, raw.columns)
        if member.development.blocks is None:
            chosen = reserve_rows(raw, target)
            rest = np.setdiff1d(np.arange(len(raw)), chosen)
        else:
            training, validation, chosen = block_rows(raw, member)
            rest = np.concatenate([training, validation])
        whole = raw.take(np.arange(len(raw)))
        return Parts(raw.take(chosen), chosen, raw.take(rest), rest, whole)
    raw = RawTable(data.find(str(target.file or target.population)), target.read)
    everything = np.arange(len(raw))
    source = RawTable(data.find(str(member.development.table)), target.read)
    check_columns(member, source.columns)
    missing = set(source.columns) - set(raw.columns)
    if missing:
        raise TableError(
            f"the target lacks the columns {sorted(missing)} of {member.development.table!r}"
        )
    return Parts(
        raw.take(everything)[source.columns],
        everything,
        source.take(np.arange(len(source))),
        None,
        None,
    )


def check_columns(member: Member, columns: list[str]) -> None:
    """See that every column that the declaration names is there."""
    target = member.target
    named = {target.outcome, target.design_column, *target.exclude}
    for part in member.requirement:
        named |= set(part.group or ())
        if part.query is not None:
            named |= part.query.columns
    missing = sorted(str(name) for name in named - {None} if name not in columns)
    if missing:
        raise TableError(
            f"the declaration names the columns {missing}, and the table has {columns}; is "
            "read.separator right?"
        )


def reserve_rows(raw: RawTable, target: Target) -> Positions:
    """Return the row positions set aside, drawn before any outcome is parsed.

    Fixed-size strata read the stratum column, and nothing else.
    """
    assert target.reserve is not None  # the caller has a table with a reserve
    rng = np.random.default_rng(target.reserve.seed)
    if isinstance(target.design, ClusteredDesign):
        return _reserve_clusters(raw, target.design.by, int(target.reserve.clusters or 0), rng)
    if not isinstance(target.design, StratifiedDesign):
        rows = target.reserve.rows or 0
        if rows >= len(raw):
            raise TableError(f"{rows} rows are to be reserved, and {target.table!r} has {len(raw)}")
        return np.sort(rng.choice(len(raw), size=rows, replace=False)).astype(np.int64)
    labels = np.array([canonical_value(text) for text in raw.column(target.design.by)])
    chosen = []
    for stratum, size in target.design.sizes.items():
        inside = np.flatnonzero(labels == canonical_value(stratum))
        if inside.size <= size:
            raise TableError(
                f"stratum {stratum!r} of {target.design.by!r} is to give {size} records and has "
                f"{inside.size}"
            )
        chosen.append(rng.choice(inside, size=size, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def block_rows(raw: RawTable, member: Member) -> tuple[Positions, Positions, Positions]:
    """Return the row positions of training, validation and target, dealt out by stratum."""
    target, blocks, design = member.target, member.development.blocks, member.target.design
    assert blocks is not None  # the declaration was checked
    assert target.reserve is not None
    assert isinstance(design, StratifiedDesign)
    rng = np.random.default_rng(target.reserve.seed)
    labels = np.array([canonical_value(text) for text in raw.column(design.by)])
    dealt: list[list[Positions]] = [[], [], []]
    for stratum in design.sizes:
        inside = rng.permutation(np.flatnonzero(labels == canonical_value(stratum)))
        sizes = (
            blocks.training[stratum], blocks.validation.get(stratum, 0), design.sizes[stratum],
        )  # fmt: skip
        if inside.size < sum(sizes):
            raise TableError(
                f"stratum {stratum!r} of {design.by!r} is to give {' + '.join(map(str, sizes))} "
                f"records and has {inside.size}"
            )
        ends = np.cumsum(sizes)
        for part, begin, end in zip(dealt, (0, *ends), ends, strict=False):
            part.append(np.sort(inside[begin:end]))
    training, validation, chosen = (np.concatenate(part).astype(np.int64) for part in dealt)
    return training, validation, np.sort(chosen)


def _reserve_clusters(raw: RawTable, by: str, wanted: int, rng: np.random.Generator) -> Positions:
    """Return the rows of whole clusters: a cluster on both sides would tell its own outcome."""
    labels = np.array([canonical_value(text) for text in raw.column(by)])
    known = np.unique(labels)
    if wanted >= known.size:
        raise TableError(f"{wanted} clusters are to be reserved, and {by!r} has {known.size}")
    return np.flatnonzero(np.isin(labels, rng.choice(known, size=wanted, replace=False)))


def split_development(
    member: Member, development: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the training and the validation part, by the registered seed."""
    blocks = member.development.blocks
    if blocks is not None:
        end = sum(blocks.training.values())
        first, second = development.iloc[:end], development.iloc[end:]
        return first.reset_index(drop=True), (
            second.reset_index(drop=True) if blocks.validation else None
        )
    part = member.development.validation
    if part is None:
        return development.reset_index(drop=True), None
    design = member.target.design
    if isinstance(design, ClusteredDesign) and design.by in development.columns:
        return _split_clusters(development, design.by, number(part.fraction), part.seed)
    classes = None
    outcome = member.target.predicted
    if part.stratify and outcome is not None and outcome.kind != "regression":
        classes = outcomes(development[outcome.column], outcome, "development")
    return split_table(development, classes, number(part.fraction), part.seed)


def _split_clusters(
    development: pd.DataFrame, by: str, fraction: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training and validation with whole clusters in either, by the registered seed."""
    labels = development[by].map(as_text)
    known = np.unique(labels.to_numpy())
    wanted = max(1, round(fraction * known.size))
    if wanted >= known.size:
        raise TableError(f"{known.size} clusters of {by!r} cannot be divided")
    chosen = np.random.default_rng(seed).choice(known, size=wanted, replace=False)
    inside = labels.isin(chosen.tolist()).to_numpy()
    first, second = development[~inside], development[inside]
    return first.reset_index(drop=True), second.reset_index(drop=True)
