"""How a test reads error rates: beyond their level without doubt, or far from an exact sum."""

from __future__ import annotations

from scipy.stats import beta, binomtest

from reproduction.studies.rows import Row

ERRORS = ("false validation", "false violation")


def lower_limit(row: Row) -> float:
    """The one-sided 99.9 % Clopper-Pearson lower limit, by scipy's quantile."""
    errors = round(row.value * row.repetitions)
    return float(beta.ppf(0.001, errors, row.repetitions - errors + 1)) if errors else 0.0


def beyond(rows: list[Row], level: float) -> list[tuple[str, float]]:
    """The error rates that exceed their level beyond doubt."""
    rates = [row for row in rows if row.metric in ERRORS]
    assert rates
    return [(row.method, row.value) for row in rates if lower_limit(row) > level]


def far_from_exact(rows: list[Row]) -> list[tuple[str, float, float]]:
    """The rates that an exact sum makes a one-in-a-million event."""
    return [
        (row.method, row.value, row.exact)
        for row in rows
        if row.exact is not None
        and row.wilson is not None
        and binomtest(round(row.value * row.repetitions), row.repetitions, row.exact).pvalue < 1e-6
    ]
