"""What is seen of a target before it is sealed: that every record can be read later."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.draw.catalog import FILL_MISSING
from proxyguard.draw.outcome import negative_label, outcomes
from proxyguard.errors import TableError
from proxyguard.registry.declaration import Member
from proxyguard.registry.target import (
    ClusteredDesign,
    StratifiedDesign,
    Target,
    WithoutReplacementDesign,
)
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_text, typed

if TYPE_CHECKING:
    import pandas as pd


def check_target(
    member: Member, records: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """See that every target record can be read later; nothing is computed from them."""
    target = member.target
    try:
        typed(records, kinds, target.read.missing)
    except TableError as error:
        raise TableError(f"target: {error}") from None
    if len(records) == 0 or len(development) == 0:
        raise TableError(
            f"the target has {len(records)} records and development {len(development)}; both "
            "need some"
        )
    _check_design(target, records)
    _check_clusters(target, records, development)
    _check_missing(member, records, kinds, development)
    if target.predicted is None:
        return
    column = target.predicted.column
    outcomes(records[column], target.predicted, "target")
    outcomes(development[column], target.predicted, "development")
    negative = negative_of(target, development)
    if target.predicted.kind == "binary":
        known = {canonical_value(str(target.positive)), negative}
        other = {canonical_value(str(v)) for v in records[column]} - known
        if other:
            raise TableError(
                f"target: {column!r} has {sorted(map(str, other))[:3]}, development only "
                f"{sorted(map(str, known))}"
            )


def _check_clusters(target: Target, records: pd.DataFrame, development: pd.DataFrame) -> None:
    """Refuse a cluster that is in the target and in development: its records are dependent."""
    if not isinstance(target.design, ClusteredDesign):
        return
    by = target.design.by
    both = {canonical_value(as_text(v)) for v in records[by]} & {
        canonical_value(as_text(v)) for v in development[by]
    }
    if both:
        raise TableError(
            f"{len(both)} clusters of {by!r}, for example {min(both)!r}, are in the target and in "
            "development; records of one cluster depend on each other, so keep them together"
        )


def _check_missing(
    member: Member, records: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """Refuse missing or infinite numbers that no model can have learned to live with."""
    target = member.target
    averaged = {part.query.mean for part in member.requirement if part.query is not None}
    filled = member.procedure is not None and FILL_MISSING.issuperset(member.procedure.library)
    numbers = typed(records, kinds, target.read.missing)
    for name, kind in kinds.items():
        if name in averaged and kind == "number" and np.isnan(numbers[name].to_numpy()).any():
            raise TableError(  # found later, it would stop an audit that is opened already
                f"target: column {name!r} has missing values, and a requirement is about its "
                "mean; mend the column, or ask for the share of something that is always there"
            )
        if kind != "number" or name in target.exclude or name == target.outcome:
            continue
        own = numbers[name].to_numpy()
        if np.isinf(own).any() or np.isinf(development[name].to_numpy()).any():
            raise TableError(f"column {name!r} has infinite values; mend or exclude it")
        if not filled and np.isnan(own).any() and not development[name].isna().any():
            raise TableError(
                f"target: column {name!r} has missing values and development has none, so no "
                "procedure learns what to do with them; exclude the column, mend it, or name a "
                f"procedure that fills gaps ({', '.join(sorted(FILL_MISSING))})"
            )


def _check_design(target: Target, records: pd.DataFrame) -> None:
    """See that strata, clusters and pool are as declared; only their column is read."""
    design = target.design
    if isinstance(design, StratifiedDesign | ClusteredDesign):
        labels = [canonical_value(as_text(v)) for v in records[design.by]]
        counts = Counter(labels)
        if counts[""]:
            raise TableError(
                f"target: {counts['']} records have no label in {design.by!r}, the column of the "
                "design; a record whose stratum or cluster is not known may depend on any other, "
                "so label it or leave it out before sealing"
            )
        if isinstance(design, StratifiedDesign):
            sizes = {canonical_value(name): size for name, size in design.sizes.items()}
            if dict(counts) != sizes:
                raise TableError(
                    f"target: strata of {design.by!r} have sizes {dict(counts)}, declared {sizes}"
                )
        elif design.max_size is not None and max(counts.values()) > design.max_size:
            raise TableError(
                f"target: a cluster of {design.by!r} has {max(counts.values())} records, declared "
                f"max_size {design.max_size}"
            )
    elif isinstance(design, WithoutReplacementDesign):
        drawn = target.draw is not None
        if drawn and design.pool != len(records):
            raise TableError(
                f"the population has {len(records)} records, declared pool {design.pool}"
            )
        if not drawn and design.pool < len(records):
            raise TableError(f"{len(records)} records cannot come from a pool of {design.pool}")


def negative_of(target: Target, development: pd.DataFrame) -> str | None:
    """Return the other label of a binary outcome; of other outcomes nothing."""
    if target.predicted is None or target.predicted.kind != "binary":
        return None
    return negative_label(development[target.predicted.column], target.predicted)
