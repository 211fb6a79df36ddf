"""Features of Taiwan default, and limits for its numbers that see no target row.

Derived features are winsorised in the paper. Here that is a step of its own: `winsor_limits`
takes quantiles from a development part, and `winsorised` applies them to any part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyguard import TableError

if TYPE_CHECKING:
    import pandas as pd


def with_features(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the raw columns, then 14 derived ones and the groups of three codes, one by one.

    Every feature is a function of its own row.
    """
    frame = raw.copy()
    outcome = frame.pop("default.payment.next.month")
    late = frame[["PAY_0", *(f"PAY_{k}" for k in range(2, 7))]]
    bill = frame[[f"BILL_AMT{k}" for k in range(1, 7)]]
    paid = frame[[f"PAY_AMT{k}" for k in range(1, 7)]]
    limit = frame["LIMIT_BAL"]
    frame = frame.assign(
        months_delayed=(late > 0).sum(axis=1).astype(np.float64),
        months_severely_delayed=(late >= 2).sum(axis=1).astype(np.float64),
        delay_max=late.max(axis=1),
        delay_mean=late.mean(axis=1),
        bill_total=bill.sum(axis=1),
        bill_mean=bill.mean(axis=1),
        payment_total=paid.sum(axis=1),
        payment_mean=paid.mean(axis=1),
        bill_first_by_limit=bill["BILL_AMT1"] / limit,
        bill_mean_by_limit=bill.mean(axis=1) / limit,
        payment_by_bill=paid.sum(axis=1) / (bill.sum(axis=1).abs() + 1.0),
        bill_change=bill["BILL_AMT1"] - bill["BILL_AMT6"],
        payment_change=paid["PAY_AMT1"] - paid["PAY_AMT6"],
        limit_log=np.log1p(limit),
        **_groups(frame["SEX"], "sex", {"male": 1, "female": 2}, other=False),
        **_groups(frame["EDUCATION"], "education", {str(k): k for k in range(1, 5)}),
        **_groups(frame["MARRIAGE"], "marriage", {str(k): k for k in range(1, 4)}),
    )
    frame[outcome.name] = outcome
    return frame


def _groups(
    codes: pd.Series[Any], name: str, groups: Mapping[str, int], *, other: bool = True
) -> dict[str, pd.Series[Any]]:
    """Return one column of 0 and 1 a group, and one for every other code."""
    columns = {f"{name}_{group}": codes == code for group, code in groups.items()}
    if other:
        columns[f"{name}_other"] = ~codes.isin(list(groups.values()))
    return {column: values.astype(np.float64) for column, values in columns.items()}


def winsor_limits(
    development: pd.DataFrame, *, outcome: str, tail: float = 0.01, fewest: int = 8
) -> dict[str, tuple[float, float]]:
    """Return the lower and upper quantile of each number column of a development part.

    Columns with fewer than ``fewest`` different values are left out, as is the outcome. The
    part must not hold target rows: the published tables took quantiles of all rows.
    """
    limits = {}
    for name in development.columns:
        values = development[name]
        if name != outcome and values.dtype.kind == "f" and values.nunique() >= fewest:
            low, high = np.nanquantile(values.to_numpy(), (tail, 1.0 - tail))
            limits[str(name)] = (float(low), float(high))
    return limits


def winsorised(frame: pd.DataFrame, limits: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """Return a table with its columns kept inside limits that another table gave."""
    missing = [name for name in limits if name not in frame.columns]
    if missing:
        raise TableError(f"limits were given for {missing}, which are no columns of the table")
    inside = {name: frame[name].clip(low, high) for name, (low, high) in limits.items()}
    return frame.assign(**inside)
