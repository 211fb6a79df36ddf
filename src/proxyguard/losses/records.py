"""What is known of each target record besides its losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch
from proxyguard.registry.design import Clustered, Design, Iid, Stratified, WithoutReplacement


@dataclass(frozen=True, eq=False, kw_only=True)
class Records:
    """Ids, strata, clusters and subgroups of target records, in the order of the losses.

    ``random_order`` states that the records stand in an order drawn at random when the
    target was sealed; tests that read them one after the other rely on it. It says nothing
    about clusters, whose order is always drawn here: the first record of a random order is
    more likely to come from a large cluster.
    """

    ids: ArrayLike | None = None
    strata: ArrayLike | None = None
    clusters: ArrayLike | None = None
    groups: Mapping[str, ArrayLike] = field(default_factory=dict)
    random_order: bool = False

    def column(self, name: str, n: int) -> NDArray[Any] | None:
        """Return ids, strata or clusters as an array of length ``n``."""
        return _column(name, getattr(self, name), n)

    def group(self, name: str, n: int) -> NDArray[np.bool_]:
        """Return the membership of subgroup ``name``."""
        if name not in self.groups:
            raise LossMismatch(
                f"a requirement is about subgroup {name!r}; records.groups has "
                f"{sorted(self.groups)}"
            )
        mask = _column(f"groups[{name!r}]", self.groups[name], n)
        if mask is None or mask.dtype != np.bool_:
            raise LossMismatch(f"groups[{name!r}] must be booleans, one a record")
        return mask


def check_ids(ids: NDArray[Any] | None, design: Design) -> None:
    """Refuse repeated record ids, unless the target was drawn with replacement."""
    if ids is None or (isinstance(design, Iid) and design.with_replacement):
        return
    values, counts = unique(ids, "ids")
    if np.any(counts > 1):
        often = values.tolist()[np.argmax(counts)]
        raise LossMismatch(
            f"record id {often!r} occurs {counts.max()} times; repeated records are legal only "
            "in a target declared Iid(with_replacement=True)"
        )


def unique(column: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the different labels of a column and how often each occurs."""
    try:
        return np.unique(column, return_counts=True)
    except TypeError:
        raise LossMismatch(
            f"records.{name} mixes labels that cannot be compared, for example a missing one "
            "among text; give every record a label of one type"
        ) from None


def check_size(n: int, design: Design) -> None:
    """Refuse a number of records that the design does not allow."""
    if n < 1:
        raise LossMismatch("the target has no record")
    if isinstance(design, Stratified) and n != design.n_records:
        raise LossMismatch(
            f"the strata were registered with {design.n_records} records, the losses have {n}"
        )
    if isinstance(design, WithoutReplacement) and n > design.pool:
        raise LossMismatch(f"{n} records cannot come from a pool of {design.pool}")


def stratum_counts(strata: NDArray[Any]) -> dict[Any, int]:
    """Return how many records each stratum has."""
    values, counts = unique(strata, "strata")
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def check_strata(counts: Mapping[Any, int], design: Stratified) -> None:
    """Refuse stratum sizes other than the registered ones."""
    if dict(counts) != dict(design.sizes):
        raise LossMismatch(
            f"strata were registered with sizes {dict(design.sizes)}, the records have "
            f"{dict(counts)}"
        )


def stratum_weights(strata: NDArray[Any], design: Stratified) -> NDArray[np.float64]:
    """Return each record's weight ``omega = w_g/n_g``."""
    weight = {g: float(design.weights[g] / design.sizes[g]) for g in design.sizes}
    values, place = np.unique(strata, return_inverse=True)
    try:
        return np.array([weight[value] for value in values.tolist()])[place]
    except KeyError as error:
        raise LossMismatch(
            f"stratum {error} is not registered; the design names {list(design.sizes)}"
        ) from None


def needs(design: Design) -> str | None:
    """Return the per-record column that a design cannot do without."""
    if isinstance(design, Stratified):
        return "strata"
    return "clusters" if isinstance(design, Clustered) else None


def _column(name: str, values: ArrayLike | None, n: int) -> NDArray[Any] | None:
    if values is None:
        return None
    column = np.asarray(values)
    if column.shape != (n,):
        raise LossMismatch(f"records.{name} has shape {column.shape}, the losses have {n} records")
    return column
