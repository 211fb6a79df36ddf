"""Evidence as a document and back: what an audit writes down and a verifier reads.

`evidence_record` writes the statistics and what follows from them. `read_evidence` takes the
statistics alone and derives the rest anew, so that nobody has to believe a recorded p-value.
`check_counts` asks whether there can be losses with these statistics at all.
"""

from __future__ import annotations

from dataclasses import fields
from math import e, inf
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyguard.documents.evidence import (
    ColumnRecord,
    Derived,
    GroupEvidence,
    Matrix,
    Numbers,
)
from proxyguard.errors import SealError
from proxyguard.evidence.component import on_own_range
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of, is_published
from proxyguard.exact.betting import ROOM
from proxyguard.exact.rounding import GUARD, Array
from proxyguard.losses.cell import Column, Reading, share_column
from proxyguard.losses.records import record_weights
from proxyguard.registry.design import (
    Design,
    Sampling,
    Stratified,
    StratifiedClusters,
    WeightedClusters,
    clusters_of,
    tests_excess,
)
from proxyguard.registry.requirement import Form, Requirement

_COUNTS = ("count", "indicators", "count_low", "indicators_low")
# The types of arrays that are no doubles.
_KINDS = {**dict.fromkeys((*_COUNTS, "missing"), "i8"), "unmeasured": "?"}


def evidence_record(evidence: ReleaseEvidence) -> GroupEvidence:
    """Return the statistics that certificates rest on, and what is derived from them.

    Numbers that decide are written by `repr`, which reads back as the same double.
    """
    return GroupEvidence(
        releases=evidence.releases,
        requirements=tuple(r.name for r in evidence.requirements),
        limits=tuple(repr(r.limit) for r in evidence.requirements),
        tests=tuple(t.value for t in evidence.tests),
        columns=tuple(_column_record(column) for column in evidence.columns),
        derived=derived_record(evidence),
    )


def derived_record(evidence: ReleaseEvidence) -> Derived:
    """Return p-values and estimates, which the statistics determine."""
    return Derived(
        pvalues=_matrix(evidence.pvalues),
        violation_pvalues=_matrix(evidence.violation_pvalues),
        estimates=_matrix(evidence.estimates),
    )


def read_evidence(record: GroupEvidence, reading: Reading) -> ReleaseEvidence:
    """Return the evidence that a record holds, derived anew from its statistics.

    Parameters
    ----------
    record
        What was written down, by anybody.
    reading
        What was registered: requirements, tests, design, digits.

    Raises
    ------
    SealError
        If it is about other requirements, limits or tests than were registered, or its statistics
        are not of all releases, or are finer than a registered disclosure allows.
    """
    if list(record.limits) != [repr(r.limit) for r in reading.requirements]:
        raise SealError(
            f"the evidence is about the limits {list(record.limits)}, not the registered"
        )
    names = [r.name for r in reading.requirements]
    tests = [t.value for t in reading.tests]
    if list(record.requirements) != names or list(record.tests) != tests:
        raise SealError(
            f"the evidence is about {list(record.requirements)} by {list(record.tests)}, "
            f"registered were {names} by {tests}"
        )
    if len(record.columns) != len(names):
        raise SealError(f"the evidence has {len(record.columns)} columns for {len(names)} of them")
    columns = tuple(_read_column(column) for column in record.columns)
    # Before anything is computed: numpy would repeat a single number for all releases.
    for requirement, column in zip(reading.requirements, columns, strict=True):
        _check_shapes(column, requirement.name, len(record.releases))
        _check_directions(column, requirement)
        _check_rounding(column, requirement, reading.digits)
    return evidence_of(
        columns,
        reading,
        releases=record.releases,
    )


def _check_shapes(column: Column, name: str, releases: int) -> None:
    """Raise unless every statistic is of all releases, before anything is computed from them."""
    for field in fields(Column):
        statistic = getattr(column, field.name)
        if not isinstance(statistic, np.ndarray):
            continue
        pair = field.name.startswith("log_") or field.name == "ends"  # both ways of all releases
        shape = (2, releases) if pair else (releases,)
        if statistic.shape[: len(shape)] != shape or statistic.ndim > 2:
            raise SealError(f"{name}: {field.name} is not of {releases} releases")


def _check_directions(column: Column, requirement: Requirement) -> None:
    """Raise where one direction has an answer of its own, and the requirement does not ask so.

    Only at several thresholds, or with a sample of members, do the two directions look at two
    numbers: elsewhere a second answer would be one that nobody compares.
    """
    if column.answer is None:
        if column.answer_low is not None:
            raise SealError(f"{requirement.name}: an answer of one direction alone is on record")
        return
    if (column.answer_low is not None) != requirement.two_directions:
        raise SealError(
            f"{requirement.name}: answers of {'one' if column.answer_low is None else 'both'} "
            "directions are on record, and the requirement asks otherwise"
        )


def _check_rounding(column: Column, requirement: Requirement, digits: int | None) -> None:
    """Raise where statistics are finer than registered, or rounded though nothing says so."""
    name = requirement.name
    if digits is None:
        rounded: tuple[object, ...] = (column.mean_low, column.count_low, column.indicators_low)
        if column.answer_low is not None:
            # Each direction has a mean of its own, and its own count at thresholds of its own.
            rounded = (column.count_low if requirement.thresholds == 1 else None,)
        if requirement.fills_missing:
            rounded = ()  # each direction has statistics of its own fill
        if any(statistic is not None for statistic in rounded):
            raise SealError(f"{name}: the evidence is rounded, and no disclosure is registered")
    elif not is_published(column, digits, requirement.thresholds):
        raise SealError(
            f"{name}: the evidence holds statistics that are not rounded, up and down, to the "
            f"{digits} registered digits"
        )


class Size(NamedTuple):
    """How many records, or clusters, count for a subgroup, and what they weigh on average."""

    units: int
    share: float | None


# Of each subgroup of one target; ``None`` is all of it.
Sizes = dict[str | None, Size]
# What statistics of one sample may differ by: they are sums of the same numbers in other orders.
SLACK = 1e-9


def check_counts(
    record: GroupEvidence, reading: Reading, n_records: int, sizes: Sizes | None = None
) -> None:
    """Raise unless the statistics are ones that losses on the records that there are can have.

    All records count, but for subgroups; and a subgroup has one size, whichever requirement asks.

    Parameters
    ----------
    record
        What was written down, by anybody.
    reading
        What was registered.
    n_records
        Records of the sealed target.
    sizes
        The sizes that other statistics of the same target had; it gets these too.

    Raises
    ------
    SealError
        If no losses give these statistics: somebody wrote them.
    """
    sizes = {} if sizes is None else sizes
    for requirement, column in zip(reading.requirements, record.columns, strict=True):
        sizes.setdefault(requirement.group, Size(column.n, column.size_share))
    for j, (requirement, column) in enumerate(
        zip(reading.requirements, record.columns, strict=True)
    ):
        counted, read = column.n, _read_column(column)
        _check_shapes(read, requirement.name, len(record.releases))
        known = sizes[requirement.group]
        if known.units != counted:
            raise SealError(
                f"{requirement.name}: {counted} records were counted, and {known.units} for "
                f"another requirement of the same group, {requirement.group!r}"
            )
        design = reading.design
        whole = requirement.group is None and clusters_of(design) is None
        if isinstance(design, StratifiedClusters) and counted != design.n_records:
            raise SealError(
                f"{requirement.name}: {counted} clusters were counted, registered are "
                f"{design.n_records}"
            )
        if counted > n_records or (whole and counted != n_records):
            raise SealError(
                f"{requirement.name}: {counted} records were counted, and there are {n_records}"
            )
        if (column.size_share is not None) != (tests_excess(reading.design) and counted > 0):
            raise SealError(
                f"{requirement.name}: the mean weight of a unit belongs to designs whose units "
                "weigh differently, and to no other"
            )
        _check_weight(column, requirement, design, n_records, sizes)
        if column.unmeasured is not None and requirement.form is not Form.EXPOSURE:
            raise SealError(f"{requirement.name}: every release has losses, and none is unmeasured")
        if column.answer is not None:
            _check_share(read, requirement)
        _check_ranges(read, reading, j)
        _check_fills(read, requirement, design)


def _check_weight(
    column: ColumnRecord, requirement: Requirement, design: Design, n_records: int, sizes: Sizes
) -> None:
    """Raise unless units of these sizes and these groups can weigh so much on average."""
    n, share = column.n, column.size_share
    if share is None:
        return
    known, every = sizes[requirement.group].share, sizes.get(None)
    low, high = 0.0, 1.0  # w/w_max is in [0, 1]: theory 1, weights
    clusters = clusters_of(design)
    if clusters is not None and clusters.weighting == "record":
        # w_c = m_c/m_max, and sum m_c = n_records: theory 1, designs. Each record counts once in
        # the cluster that it is in.
        each = n_records / (clusters.max_size or 1)
        low, high = (each * weight for weight in _unit_weights(design, n))
    elif clusters is None and every is not None and every.share is not None and n:
        # mass - (N - n) <= sum of w over the subgroup <= mass, and each w <= 1: what a subgroup
        # leaves of the weights, the other records have; none has more than all.
        mass = every.units * every.share
        low, high = max(0.0, mass - (every.units - n)) / n, min(1.0, mass / n)
    if known is None or abs(known - share) > SLACK or not low - SLACK <= share <= high + SLACK:
        raise SealError(f"{requirement.name}: records of this target cannot weigh {share:g} each")


def _unit_weights(design: Design, n: int) -> tuple[float, float]:
    """Return the least and the largest weight of a unit in a mean of ``n`` units."""
    if isinstance(design, Stratified) and design.sampling is Sampling.WEIGHTED:
        weights = record_weights(design).values()
        return min(weights), max(weights)
    return 1.0 / max(n, 1), 1.0 / max(n, 1)


def _check_fills(column: Column, requirement: Requirement, design: Design) -> None:
    """Raise unless statistics of the two directions differ by the missing losses, and only so."""
    name, missing = requirement.name, column.missing
    if (missing is not None) != requirement.fills_missing:
        raise SealError(f"{name}: missing losses are on record where none are filled, or none are")
    if missing is None:
        if column.variance_low is not None:
            raise SealError(f"{name}: a second variance is on record, and no loss was filled")
        return
    # Theory 1, missing losses: x+ - x- is 1 where one is missing, and 0 elsewhere, so that the two
    # means are sum of omega_i over the missing apart.
    apart = column.mean - column.against.mean
    low, high = _filled(column, missing, design)
    close = (apart >= low - SLACK) & (apart <= high + SLACK)
    if column.mean_low is None or not np.all(close & (missing >= 0)):
        raise SealError(f"{name}: the two directions differ by other than the missing losses")
    pairs = ((column.variance, column.variance_low), (column.indicators, column.indicators_low))
    if any((first is None) != (second is None) for first, second in pairs):
        raise SealError(f"{name}: a statistic of one direction alone is on record")
    # Where nothing is missing both directions saw the same losses.
    whole = missing == 0
    same = [np.abs(apart) <= SLACK]
    same += [np.abs(first - second) <= SLACK for first, second in pairs
             if first is not None and second is not None]  # fmt: skip
    if any(np.any(whole & ~alike) for alike in same):
        raise SealError(f"{name}: the two directions differ, and no loss is missing")
    ones, ones_low = column.indicators, column.indicators_low
    if ones is not None and ones_low is not None:
        filled = ones - ones_low
        if np.any((filled < 0) | (filled > missing)):
            raise SealError(f"{name}: draws of the two directions differ by more than is missing")
    low_count = column.count_low
    if (column.count is None) != (low_count is None) or (
        column.count is not None
        and low_count is not None
        and np.any(column.count - low_count != missing)
    ):
        raise SealError(f"{name}: the two counts differ by other than the missing losses")


def _filled(column: Column, missing: NDArray[np.int64], design: Design) -> tuple[Array, Array]:
    """Return the least and the most by which so many missing losses set two means apart."""
    least, most = _unit_weights(design, column.n)
    share, clusters = column.size_share, clusters_of(design)
    lost = missing.astype(np.float64)
    low, high = least * lost, most * lost
    if isinstance(clusters, WeightedClusters):
        low = 0.0 * low  # it may weigh nothing, or all that its cluster does
    elif clusters is not None:
        # omega_c/m_max <= omega_i <= omega_c: one record of a cluster counts for its part of the
        # cluster's mean, or of the largest one.
        low = low / (clusters.max_size or inf)
        high = high if share is None else high / (clusters.max_size or 1)
    elif share is not None:
        # share = sum of omega w, and w <= 1: those that are not missing weigh at most 1 - lost.
        low = np.maximum(0.0, share - (1.0 - low))
    return low, np.minimum(high, 1.0 if share is None else share)


def _check_ranges(column: Column, reading: Reading, j: int) -> None:
    """Raise where a statistic is beyond what any losses of ``n`` records give."""
    requirement, n = reading.requirements[j], column.n
    # What rounding up may add to a number, where statistics are published rounded.
    slack = 0.0 if reading.digits is None else 10.0**-reading.digits
    # Var <= 1/4 for numbers in [0, 1] (theory 1, Bernstein), times n/(n - 1), and then rounded up.
    top = 0.25 * n / max(n - 1, 1) + slack
    ranges: dict[str, tuple[float, float]] = {
        "mean": (0.0, 1.0), "mean_low": (0.0, 1.0), "block_means": (0.0, 1.0),
        "size_share": (0.0, 1.0), "variance": (0.0, top), "variance_low": (0.0, top),
        **dict.fromkeys(_COUNTS, (0, n)),
    }  # fmt: skip
    for what, (low, high) in ranges.items():
        statistic = getattr(column, what)
        if statistic is None:
            continue
        if not np.all((statistic >= low) & (statistic <= high * (1.0 + GUARD))):
            raise SealError(f"{requirement.name}: {what} is not between {low:g} and {high:g}")
    if column.ends is not None:
        _check_ends(column.ends, requirement)
    if column.answer is None and n:
        pairs = [(column.mean, column.variance, column.count)]
        if column.mean_low is not None:
            low_variance = column.variance_low if requirement.fills_missing else None
            pairs.append((column.mean_low, low_variance, column.count_low))
        for mean, variance, count in pairs:
            _check_moments(mean, variance, count, column, reading, j)
        _check_block_sum(column, reading, requirement)
    for what in ("log_peak", "log_final", "log_evalue"):
        capital = getattr(column, what)
        if capital is None:
            continue
        if not np.all(np.isfinite(capital) & (capital <= _largest_capital(column, reading, j))):
            raise SealError(
                f"{requirement.name}: {what} is more than any bet gains on {n} losses of this mean"
            )


def _check_ends(ends: Array, requirement: Requirement) -> None:
    """Raise unless these can be ends of losses of answers to a query, with the limit between them.

    Whether they are those of the releases' own answers says whoever has the releases.
    """
    low, high = ends
    v = requirement.unit_limit
    inside = (low >= 0.0) & (low <= max(0.0, v - ROOM)) & (high >= min(1.0, v + ROOM))
    if requirement.form is not Form.QUERY or not np.all(inside & (high <= 1.0)):
        raise SealError(f"{requirement.name}: no releases' losses have such ends")


def _check_moments(
    mean: Array, variance: Array | None, count: NDArray[np.int64] | None,
    column: Column, reading: Reading, j: int,
) -> None:  # fmt: skip
    """Raise unless units that weigh so much can have this mean, this variance and this count.

    What is tested of a unit is ``v + w (u - v)``, with ``w`` in [0, 1] and of mean `size_share`: a
    forger who is held to [0, 1] alone would find light records further from the limit than any are.
    """
    requirement, n = reading.requirements[j], column.n
    v, name = requirement.unit_limit, requirement.name
    share = 1.0 if column.size_share is None else column.size_share
    slack = SLACK if reading.digits is None else 2.0 * 10.0**-reading.digits
    # Theory 1, weights: mean Y = v + mean(w u) - v mean(w), and 0 <= mean(w u) <= mean(w) = share.
    mass = mean - v * (1.0 - share)  # of w u
    if not np.all((mass >= -slack) & (mass <= share + slack)):
        raise SealError(
            f"{name}: a mean is not between {v * (1.0 - share):g} and "
            f"{v * (1.0 - share) + share:g}, and units that weigh {share:g} have no other"
        )
    if reading.design.sampling is Sampling.WEIGHTED:
        return  # the mean is one of strata, and the variance is read by no test
    # Theory 1, binomial: a loss that is 0 or 1 has mean K/n.
    if (
        count is not None
        and reading.digits is None
        and np.any(np.abs(mean * n - count) > n * SLACK)
    ):
        raise SealError(f"{name}: a mean is not that of so many losses at their bound")
    if variance is None:
        return
    mass = np.clip(mass, 0.0, share)
    rest, bessel = share - mass, n / max(n - 1, 1)  # of w (1 - u)
    # (Y - v)^2 = w^2 (u - v)^2 <= w (u - v)^2 <= w u (1 - v)^2 + w (1 - u) v^2, convex in u; less
    # (mean - v)^2 and times n/(n - 1) this bounds the variance.
    above, below, square = (1.0 - v) * mass, v * rest, (mean - v) ** 2
    high = bessel * ((1.0 - v) * above + v * below - square)
    low = np.zeros_like(high)
    if requirement.two_valued and clusters_of(reading.design) is None:
        # Of a share q with u = 1, sum (Y - v)^2/n >= above^2/q + below^2/(1 - q) (Cauchy-Schwarz on
        # either side), least at q = above/(above + below), within mass <= q <= 1 - rest.
        both = above + below
        ones = np.clip(np.divide(above, both, where=both > 0.0, out=mass.copy()), mass, 1.0 - rest)
        square_above = np.divide(above**2, ones, where=ones > 0.0, out=np.zeros_like(low))
        square_below = np.divide(below**2, 1.0 - ones, where=ones < 1.0, out=np.zeros_like(low))
        low = bessel * (square_above + square_below - square)
    if not np.all((variance >= low - slack) & (variance <= high + slack)):
        raise SealError(f"{name}: losses of this mean have another variance")


def _check_block_sum(column: Column, reading: Reading, requirement: Requirement) -> None:
    """Raise unless the blocks leave to the records outside them what those can have."""
    plain = requirement.group is None and clusters_of(reading.design) is None
    if column.block_means is None or reading.block_size is None or not plain:
        return
    # Theorem 13's blocks: n mean - b sum of the block means is the sum over the records outside,
    # each in [0, 1].
    count, rest = divmod(column.n, reading.block_size)
    outside = column.n * column.mean - reading.block_size * column.block_means.sum(axis=1)
    slack = column.n * (SLACK if reading.digits is None else 2.0 * 10.0**-reading.digits)
    if column.block_means.shape[1] != count or np.any(
        (outside < -slack) | (outside > rest + slack)
    ):
        raise SealError(f"{requirement.name}: the block means are not those of losses of this mean")


def _largest_capital(column: Column, reading: Reading, j: int) -> NDArray[np.float64]:
    """Return an upper bound of the log capital of any bet on losses of a mean: (2, R).

    A stake loses at most all: a loss ``u`` of weight ``w`` multiplies the capital by at most ``1 +
    w (v - u)/(1 - v)``, and by at most 1 above the limit. Let ``p`` be the share of losses below
    it. Their ``w (v - u)`` sum to the most where the others have ``w`` and ``u`` of 1, as far as
    the mean lets them: by concavity to ``n p log(C/p)`` with ``1 - p`` at most the mean of ``w u``
    and ``C = 1 + (mean of w (v - u))/(1 - v)``, which is the largest at ``p = C/e``. Strata with
    weights of their own make those weights ``w``, as shares of the largest.
    """
    column, v = on_own_range(column, reading.requirements[j])
    n = column.n
    share = 1.0 if column.size_share is None else column.size_share
    # Rounded means were rounded apart: each direction takes the one that allows more.
    most, least = column.mean, column.against.mean
    if not reading.requirements[j].fills_missing:  # else each has a mean of its own, not rounded
        most, least = least, most
    means = np.stack([most, 1.0 - least])
    limits = np.stack(np.broadcast_arrays(v, 1.0 - v)).reshape(2, -1)
    scale = 1.0 / max(n * _unit_weights(reading.design, n)[1], 1.0)
    mass = scale * np.clip(means - limits * (1.0 - share), 0.0, share)
    largest = 1.0 + (limits * scale * share - mass) / (1.0 - limits)
    below = np.clip(largest / e, 1.0 - mass, 1.0)
    gain = below * np.log(np.maximum(largest, GUARD) / np.maximum(below, GUARD))
    return np.asarray(n * np.maximum(gain, 0.0) + GUARD * (n + 1))


def _check_share(column: Column, requirement: Requirement) -> None:
    """Raise unless counts, answers, means and variances of a share go together."""
    count, answer, name = column.count, column.answer, requirement.name
    if count is None or answer is None or column.variance is None:
        raise SealError(f"{name}: a share has counts, answers and variances, and some are missing")
    answers = (answer,) if column.answer_low is None else (answer, column.answer_low)
    inside = all(np.all((each >= 0.0) & (each <= 1.0)) for each in answers)
    if np.any((count < 0) | (count > column.n)) or not inside:
        raise SealError(f"{name}: counts or answers of the share are beyond what there can be")
    if requirement.form is not Form.EXPOSURE:
        # A draw without answers counts all records; the others see one target, and so one count.
        # An attack on another release flags other records.
        drawn = (answer > 0.0) | (count < column.n)
        for counts in (count, count if column.count_low is None else column.count_low):
            several = np.unique(counts[drawn])
            if several.size > 1:
                raise SealError(f"{name}: the same target has {several} records in a cell")
    again = share_column(column.n, count, answer, column.count_low, column.answer_low)
    for what in ("mean", "variance", "mean_low"):
        recorded, expected = getattr(column, what), getattr(again, what)
        if (recorded is None) != (expected is None) or (
            recorded is not None and not np.allclose(recorded, expected, rtol=1e-9, atol=1e-12)
        ):
            raise SealError(f"{name}: {what} does not follow from counts and answers")


def _column_record(column: Column) -> ColumnRecord:
    """Return the statistics of one requirement as a document holds them."""
    statistics = {field.name: _plain(getattr(column, field.name)) for field in fields(Column)}
    return ColumnRecord.model_validate(statistics)


def _read_column(record: ColumnRecord) -> Column:
    """Return the statistics of one requirement as arrays."""
    arrays = {}
    for field in fields(Column):
        statistic = getattr(record, field.name)
        if statistic is not None and field.name not in ("n", "size_share"):
            # As doubles the texts "inf" and "-inf" are numbers too.
            arrays[field.name] = np.array(statistic, dtype=_KINDS.get(field.name, "f8"))
    mean = arrays.pop("mean")
    return Column(
        n=record.n, mean=mean, size_share=record.size_share, **{"variance": None, **arrays}
    )


def _plain(statistic: object) -> object:
    """Return an array as nested tuples; infinities, which JSON lacks, as text."""
    if not isinstance(statistic, np.ndarray):
        return statistic
    return _row(statistic.tolist()) if statistic.ndim == 1 else _matrix(statistic)


def _matrix(values: NDArray[np.float64]) -> Matrix:
    return tuple(_row(row) for row in values.tolist())


def _row(numbers: list[float]) -> Numbers:
    return tuple(_INFINITIES.get(number, number) for number in numbers)


_INFINITIES: dict[float, Literal["inf", "-inf"]] = {inf: "inf", -inf: "-inf"}
