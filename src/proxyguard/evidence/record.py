"""Evidence as plain values and back: what an audit writes down and a verifier reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import SealError
from proxyguard.evidence.disclosure import is_published
from proxyguard.evidence.releases import ReleaseEvidence, evidence_of
from proxyguard.losses.cell import Column, Reading, share_column
from proxyguard.registry.design import Clustered

_COUNTS = ("count", "indicators", "count_low", "indicators_low")


def evidence_record(evidence: ReleaseEvidence) -> dict[str, Any]:
    """Return the statistics that certificates rest on, and what is derived from them."""
    return {
        "releases": list(evidence.releases),
        "requirements": [r.name for r in evidence.requirements],
        "limits": [repr(r.limit) for r in evidence.requirements],
        "tests": [t.value for t in evidence.tests],
        "bounds_level": repr(evidence.bounds_level),
        "columns": [_column_record(column) for column in evidence.columns],
        "derived": derived_record(evidence),
    }


def derived_record(evidence: ReleaseEvidence) -> dict[str, Any]:
    """Return p-values, estimates and simultaneous bounds, which the statistics determine."""
    return {
        "pvalues": _plain(evidence.pvalues),
        "violation_pvalues": _plain(evidence.violation_pvalues),
        "estimates": _plain(evidence.estimates),
        "lower": _plain(evidence.lower),
        "upper": _plain(evidence.upper),
        "bounds_tests": list(evidence.bounds_tests),
    }


def read_evidence(record: Mapping[str, Any], reading: Reading) -> ReleaseEvidence:
    """Return the evidence that a record holds, derived anew from its statistics."""
    if record["limits"] != [repr(r.limit) for r in reading.requirements]:
        raise SealError(f"the evidence is about the limits {record['limits']}, not the registered")
    names = [r.name for r in reading.requirements]
    if record["requirements"] != names or record["tests"] != [t.value for t in reading.tests]:
        raise SealError(
            f"the evidence is about {record['requirements']} by {record['tests']}, registered "
            f"were {names} by {[t.value for t in reading.tests]}"
        )
    columns = tuple(_read_column(column) for column in record["columns"])
    for name, column in zip(names, columns, strict=True):
        _check_rounding(column, name, reading.digits)
    return evidence_of(
        columns,
        reading,
        releases=tuple(record["releases"]),
        bounds_level=float(record["bounds_level"]),
    )


def _check_rounding(column: Column, name: str, digits: int | None) -> None:
    """Raise where statistics are finer than registered, or rounded though nothing says so."""
    if digits is None:
        rounded = (column.mean_low, column.count_low, column.indicators_low)
        if any(value is not None for value in rounded):
            raise SealError(f"{name}: the evidence is rounded, and no disclosure is registered")
    elif not is_published(column, digits):
        raise SealError(
            f"{name}: the evidence holds statistics that are not rounded, up and down, to the "
            f"{digits} registered digits"
        )


def check_counts(record: Mapping[str, Any], reading: Reading, n_records: int) -> None:
    """Raise unless the statistics count the records that there are: all, but for subgroups."""
    for requirement, column in zip(reading.requirements, record["columns"], strict=True):
        counted = column["n"]
        whole = requirement.group is None and not isinstance(reading.design, Clustered)
        if counted > n_records or (whole and counted != n_records):
            raise SealError(
                f"{requirement.name}: {counted} records were counted, and there are {n_records}"
            )
        if "answer" in column:
            _check_share(_read_column(column), requirement.name)


def _check_share(column: Column, name: str) -> None:
    """Raise unless counts, answers, means and variances of a share go together."""
    count, answer = column.count, column.answer
    if count is None or answer is None or column.variance is None:
        raise SealError(f"{name}: a share has counts, answers and variances, and some are missing")
    if np.any((count < 0) | (count > column.n)) or not np.all((answer >= 0.0) & (answer <= 1.0)):
        raise SealError(f"{name}: counts or answers of the share are beyond what there can be")
    # A draw without answers counts all records; the others see one target, and so one count.
    drawn = (answer > 0.0) | (count < column.n)
    for counts in (count, count if column.count_low is None else column.count_low):
        several = np.unique(counts[drawn])
        if several.size > 1:
            raise SealError(f"{name}: the same target has {several} records in a cell")
    again = share_column(column.n, count, answer, column.count_low)
    for what in ("mean", "variance", "mean_low"):
        recorded, expected = getattr(column, what), getattr(again, what)
        if (recorded is None) != (expected is None) or (
            recorded is not None and not np.allclose(recorded, expected, rtol=1e-9, atol=1e-12)
        ):
            raise SealError(f"{name}: {what} does not follow from counts and answers")


def _column_record(column: Column) -> dict[str, Any]:
    values = {}
    for field in fields(Column):
        value = getattr(column, field.name)
        if value is not None:
            values[field.name] = _plain(value) if isinstance(value, np.ndarray) else value
    return values


def _read_column(record: Mapping[str, Any]) -> Column:
    values: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, list):
            values[name] = _array(value, np.int64 if name in _COUNTS else np.float64)
        else:
            values[name] = value if name == "n" else float(value)
    return Column(**values)


def _plain(values: NDArray[Any]) -> Any:
    """Return nested lists; infinities, which JSON lacks, as text."""
    if values.ndim > 1:
        return [_plain(row) for row in values]
    return [_finite(v) for v in values.tolist()]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value in (inf, -inf):
        return "inf" if value > 0 else "-inf"
    return value


def _array(values: list[Any], dtype: Any) -> NDArray[Any]:
    return np.array(
        [_array(v, dtype) if isinstance(v, list) else dtype(v) for v in values], dtype=dtype
    )
