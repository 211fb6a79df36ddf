"""What is known of each target record besides its losses: labels, weights, subgroups.

`Records` holds the labels of one array of losses; the functions compare them with the registered
design before a loss is read, and give records of strata their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import LossMismatch
from proxyguard.registry.design import (
    Design,
    Iid,
    Stratified,
    Weighted,
    WithoutReplacement,
    clusters_of,
    has_weights,
)
from proxyguard.registry.numbers import canonical_label

# An array of whatever type: labels are whole numbers or canonical text, losses any numbers.
AnyArray: TypeAlias = "NDArray[np.generic[object]]"


@dataclass(frozen=True, eq=False, kw_only=True)
class Records:
    """Ids, strata, clusters, weights and subgroups of target records, in the order of the losses.

    Labels are compared as values of a sealed table are: 1, 1.0, "1" and "1 " are one label.
    A missing label is refused, because nobody can say whose it is. Strata and clusters belong
    to a design that uses them; a subgroup that no requirement names changes nothing, because
    subgroups only choose which records count.

    Parameters
    ----------
    ids
        Who each record is: no record counts twice, and mechanisms of a family list the same ones.
    strata
        The stratum of each record, for `Stratified`.
    clusters
        The cluster of each record, for `Clustered`.
    weights
        How many persons each record represents, for `Weighted` and `WeightedClusters`: numbers
        from 0 on.
    groups
        Subgroups by name, each with a truth value for every record, for `Requirement.group`.
    random_order
        States that the records stand in an order drawn at random when the target was sealed;
        tests that read them one after the other rely on it. It says nothing about clusters,
        whose order is always drawn here: the first record of a random order is more likely to
        come from a large cluster.

    Raises
    ------
    LossMismatch
        Where a label or weight is missing, a weight negative, or a subgroup has no truth values.

    Examples
    --------
    >>> records = Records(ids=["a", "b", "c"], groups={"women": [True, False, True]})
    >>> records.group("women").sum()
    np.int64(2)
    """

    ids: ArrayLike | None = None
    strata: ArrayLike | None = None
    clusters: ArrayLike | None = None
    weights: ArrayLike | None = None
    groups: Mapping[str, ArrayLike] = field(default_factory=dict)
    random_order: bool = False

    def __post_init__(self) -> None:
        for name in LABELS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _labels(name, getattr(self, name)))
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights))
        if not isinstance(self.groups, Mapping):
            raise LossMismatch(
                f"records.groups maps names of subgroups to booleans, got {self.groups!r}"
            )
        masks = {name: _mask(name, values) for name, values in self.groups.items()}
        object.__setattr__(self, "groups", masks)
        if not isinstance(self.random_order, bool | np.bool_):
            raise LossMismatch(f"random_order is True or False, got {self.random_order!r}")

    def check_length(self, n: int) -> None:
        """Refuse labels of more or fewer records than the ``n`` that there are losses of."""
        columns = {name: getattr(self, name) for name in (*LABELS, "weights")}
        columns |= {f"groups[{name!r}]": mask for name, mask in self.groups.items()}
        for name, column in columns.items():
            if column is not None and column.shape != (n,):
                raise LossMismatch(
                    f"records.{name} has shape {column.shape}, the losses have {n} records"
                )

    def column(self, name: str) -> AnyArray | None:
        """Return ids, strata, clusters or weights, as ``name`` says; labels are canonical."""
        values = getattr(self, name)
        return None if values is None else np.asarray(values)

    def texts(self, name: str) -> list[str]:
        """Return ids, strata or clusters, as ``name`` says, as text to compare between batches."""
        column = self.column(name)
        return [] if column is None else [str(label) for label in column.tolist()]

    def same_as(self, first: Records) -> bool:
        """Return whether these are the records of ``first``, as far as both say who they are.

        Ids that were given once have to be shown again; the labels that tests use, and whether
        the order is a random one, are the same from the start.
        """
        return (
            (first.ids is None or same_labels(self.column("ids"), first.column("ids")))
            and all(
                same_labels(self.column(name), first.column(name))
                for name in ("strata", "clusters", "weights")
            )
            and set(self.groups) == set(first.groups)
            and all(np.array_equal(mask, first.groups[name]) for name, mask in self.groups.items())
            and self.random_order == first.random_order
        )

    def group(self, name: str) -> NDArray[np.bool_]:
        """Return the membership of subgroup ``name``."""
        if name not in self.groups:
            raise LossMismatch(
                f"a requirement is about subgroup {name!r}; records.groups has "
                f"{sorted(self.groups)}"
            )
        return np.asarray(self.groups[name])


LABELS = ("ids", "strata", "clusters")


def check_labels(records: Records, design: Design) -> None:
    """Refuse labels that the design does not use, and a design without the labels it needs.

    Records of one cluster, or of strata with fixed sizes, are no independent draws of one law.
    A test that ignores such a label counts them as if they were, and validates what is invalid. So
    does one that ignores how many persons each record represents.
    """
    needed = needs(design)
    dependent = "dependent records would count as independent ones"
    unequal = "records that represent many persons would count like those that represent one"
    remedy = _design_for(records)
    for name, harm in (("strata", dependent), ("clusters", dependent), ("weights", unequal)):
        given = getattr(records, name) is not None
        if given and name not in needed:
            raise LossMismatch(
                f"records.{name} was given, and the design {type(design).__name__} does not use "
                f"it: {harm}. Declare design={remedy}, "
                f"or leave {name} out if they say nothing about how the target was sampled"
            )
        if not given and name in needed:
            what = "number" if name == "weights" else "label"
            raise LossMismatch(f"the design needs records.{name}, one {what} a record")


def _design_for(records: Records) -> str:
    """Return the one design that uses all the labels that there are."""
    strata, clusters = records.strata is not None, records.clusters is not None
    how = "" if not clusters else "Clustered()"
    if records.weights is not None:
        bounds = '(max_weight=..., origin="design")'
        how = f"WeightedClusters{bounds}" if clusters or strata else f"Weighted{bounds}"
    if not strata:
        return how
    if not how:
        return "Stratified(sizes=..., weights=...)"
    single = "" if clusters else ", and as records.clusters a label of its own for every record"
    counting = "weights" if records.weights is None else "sampled"  # of a survey, by design weights
    return f"StratifiedClusters(sizes=..., {counting}=..., clusters={how}){single}"


def same_labels(first: AnyArray | None, second: AnyArray | None) -> bool:
    """Return whether two columns list the same labels in one order."""
    if first is None or second is None:
        return first is second
    if first.dtype.kind == second.dtype.kind:
        return np.array_equal(first, second)
    # Numbers beside texts: both are canonical, so that equal labels have one spelling.
    return np.array_equal(first.astype(np.str_), second.astype(np.str_))


def check_ids(ids: AnyArray | None, design: Design) -> None:
    """Refuse repeated record ids, unless the target was drawn with replacement."""
    if ids is None or (isinstance(design, Iid) and design.with_replacement):
        return
    values, counts = np.unique(ids, return_counts=True)
    if np.any(counts > 1):
        often = values.tolist()[np.argmax(counts)]
        raise LossMismatch(
            f"record id {often!r} occurs {counts.max()} times (blanks around an id and the "
            "spelling of a number do not count: 1.0 is 1); repeated records are legal only in a "
            "target declared Iid(with_replacement=True)"
        )


def check_size(n: int, design: Design) -> None:
    """Refuse a number of records that the design does not allow."""
    if n < 1:
        raise LossMismatch("the target has no record")
    units = clusters_of(design) is None
    if isinstance(design, Stratified) and units and n != design.n_records:
        raise LossMismatch(
            f"the strata were registered with {design.n_records} records, the losses have {n}"
        )
    if isinstance(design, WithoutReplacement) and n > design.pool:
        raise LossMismatch(f"{n} records cannot come from a pool of {design.pool}")


def stratum_counts(strata: AnyArray) -> dict[str, int]:
    """Return how many records each stratum has."""
    values, counts = np.unique(strata, return_counts=True)
    return dict(zip(map(str, values.tolist()), counts.tolist(), strict=True))


def check_strata(counts: Mapping[str, int], design: Stratified) -> None:
    """Refuse stratum sizes other than the registered ones."""
    if dict(counts) != dict(design.sizes):
        raise LossMismatch(
            f"strata were registered with sizes {dict(design.sizes)}, the records have "
            f"{dict(counts)}"
        )


def record_weights(design: Stratified) -> dict[str, float]:
    """Return the weight ``omega = w_g/n_g`` of a record of each stratum."""
    # Divided as fractions and rounded once.
    return {g: float(design.weights[g] / design.sizes[g]) for g in design.sizes}


def stratum_weights(strata: AnyArray, design: Stratified) -> NDArray[np.float64]:
    """Return each record's weight ``omega = w_g/n_g``."""
    weight = record_weights(design)
    names, inverse = np.unique(strata, return_inverse=True)
    try:
        return np.array([weight[str(name)] for name in names.tolist()])[inverse]
    except KeyError as error:
        raise LossMismatch(
            f"stratum {error} is not registered; the design names {list(design.sizes)}"
        ) from None


def needs(design: Design) -> tuple[str, ...]:
    """Return the per-record columns that a design cannot do without."""
    used = {
        "strata": isinstance(design, Stratified),
        "clusters": clusters_of(design) is not None,
        "weights": has_weights(design),
    }
    return tuple(name for name, is_used in used.items() if is_used)


def weight_shares(weights: AnyArray, design: Weighted, before: int = 0) -> NDArray[np.float64]:
    """Return each record's weight over the registered largest one; a larger one is refused.

    ``before`` counts the records of earlier chunks.
    """
    numbers, bound = weights.astype(np.float64), float(design.max_weight)
    above = np.flatnonzero(numbers > bound)
    if above.size:
        raise LossMismatch(
            f"records.weights: record {before + above[0]} has a weight above the registered "
            f"max_weight {bound:g}; register the largest weight that the sampling could give, "
            "whatever the sample holds"
        )
    return numbers / bound


def _labels(name: str, given: object) -> AnyArray:
    """Return labels as whole numbers, or else as canonical text; missing ones are refused.

    Whole numbers stay numbers, which sort a hundred times faster and are canonical as they are.
    """
    column = _one_column(name, given)
    if column.dtype.kind in "iu" and (column.size == 0 or column.max() < 2**63):
        return column.astype(np.int64)
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # of what is no number, and is refused below
            whole = column.astype(np.int64)
        # From 2**53 on two whole numbers can be one double, and two records one label.
        if np.array_equal(whole, column) and np.all(np.abs(column) < 2**53):
            return whole
    # A timestamp as a plain value would be a whole number, and its label another one elsewhere.
    values = column.tolist() if column.dtype.kind in "biufcOUS" else list(column)
    texts: dict[tuple[type, object], str] = {}
    for index, label in enumerate(values):
        try:
            if (type(label), label) not in texts:  # by type too: 1 and True are equal
                texts[type(label), label] = canonical_label(label)
        except (TypeError, UnicodeDecodeError) as error:
            raise LossMismatch(f"records.{name}: record {index}: {error}") from None
        if not texts[type(label), label]:
            raise LossMismatch(
                f"records.{name}: record {index} has no label, got {label!r}; a record that "
                "cannot be told from others cannot be shown to be fresh, so give it one"
            )
    return np.array([texts[type(label), label] for label in values], dtype=np.str_)


def _weights(given: object) -> NDArray[np.float64]:
    """Return weights as numbers; the error names the record, and never its weight."""
    column = _one_column("weights", given)
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise LossMismatch("records.weights must be numbers, one a record") from None
    wrong = np.flatnonzero(~((numbers >= 0.0) & np.isfinite(numbers)))
    if wrong.size:
        what = "a negative weight" if numbers[wrong[0]] < 0.0 else "no finite weight"
        raise LossMismatch(
            f"records.weights: record {wrong[0]} has {what}; a weight is how many persons the "
            "record represents, 0 or more"
        )
    return numbers


def _mask(name: object, values: object) -> NDArray[np.bool_]:
    if not isinstance(name, str) or not name:
        raise LossMismatch(f"a subgroup needs a name, got {name!r}")
    mask = _one_column(f"groups[{name!r}]", values)
    # Numbers would be taken for positions, and choose other records.
    if mask.dtype != np.bool_:
        raise LossMismatch(f"groups[{name!r}] must be booleans, one a record")
    return np.asarray(mask, dtype=np.bool_)


def _one_column(name: str, values: object) -> AnyArray:
    if isinstance(values, np.ma.MaskedArray):
        raise LossMismatch(f"records.{name} is a masked array, whose mask would be lost")
    if isinstance(values, str | bytes | Mapping):
        raise LossMismatch(f"records.{name} must be one label a record, got {values!r}")
    try:
        if hasattr(values, "__array__"):
            column = np.asarray(values)
        else:
            # Through objects: numpy would write a missing value among texts as the text "nan".
            column = np.array(list(values), dtype=object)  # type: ignore[call-overload]  # asked here
            if {type(item) for item in column.flat} <= {bool, np.bool_}:
                column = column.astype(np.bool_)
    except (TypeError, ValueError) as error:
        raise LossMismatch(f"records.{name} must be one label a record: {error}") from None
    if column.ndim != 1:
        raise LossMismatch(f"records.{name} has shape {column.shape}, expected one label a record")
    return column
