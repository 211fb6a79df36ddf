"""Time the package's logistic regressions beside scikit-learn's ``newton-cholesky``.

Both minimise liblinear's objective, on a column of ones whose weight is penalised too, to the
same accuracy: a gradient of 1e-9. They run in turn in one process; printed are milliseconds of
processor time, the best of several rounds, and their ratio. Tables are made, of the sizes that
the paper's audits have. Standardising and coding, which both need, are not timed, except for
what each makes of the codes of a one-hot table.

The package has a solver of its own because this ratio is 3 and more (`adapters/newton.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from proxyguard.adapters.newton import GRADIENT, CodedDesign, DenseDesign, minimise, standardised

Array = NDArray[np.float64]
ROUNDS = 15
NUMBERS = {
    "Online Shoppers, 1,000 x 17": (1000, 17),
    "CDC Diabetes, 5,000 x 21": (5000, 21),
    "Covertype, 10,000 x 54": (10_000, 54),
}


def main() -> None:
    """Print both times and their ratio for each table."""
    print(f"{'table':<36}{'ours ms':>9}{'scikit-learn ms':>17}{'ratio':>7}")
    with threadpool_limits(1):
        for name, (n, p) in NUMBERS.items():
            row(name, *numbers(n, p))
        row("Secondary Mushroom, 8,000 x 17 texts", *categories(8000, 17, 7))


def row(name: str, ours: Callable[[], Array], theirs: Callable[[], Array]) -> None:
    """Run both, see that they end at the same coefficients, and print their times."""
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        found = []
        for k, fit in enumerate((ours, theirs)):
            start = time.process_time()
            found.append(fit())
            times[k].append(time.process_time() - start)
        np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-7)
    fast, slow = (1e3 * min(taken) for taken in times)
    print(f"{name:<36}{fast:>9.2f}{slow:>17.2f}{slow / fast:>7.1f}", flush=True)


def newton_cholesky(design: Any, y: Array) -> Array:
    """Fit scikit-learn's solver; its objective is a mean, ours a sum."""
    model = LogisticRegression(
        solver="newton-cholesky", fit_intercept=False, tol=GRADIENT / y.size, max_iter=200
    )
    return np.asarray(model.fit(design, y).coef_[0])


def numbers(n: int, p: int) -> tuple[Callable[[], Array], Callable[[], Array]]:
    """Return both fits of a table of numbers."""
    rng = np.random.default_rng(1)
    x = rng.gamma(1.0, 20.0, (n, p))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(x[:, :5] - 20.0).sum(axis=1) / 40.0))) * 1.0
    rows, _, _ = standardised(x)
    columns = np.ascontiguousarray(rows.T)  # as scikit-learn takes it without a copy
    return (
        lambda: minimise(DenseDesign(rows), y, p + 1),
        lambda: newton_cholesky(columns, y),
    )


def categories(n: int, p: int, k: int) -> tuple[Callable[[], Array], Callable[[], Array]]:
    """Return both fits of a table of texts, of which one category after the other is rarer."""
    rng = np.random.default_rng(2)
    y = (rng.random(n) < 0.5) * 1.0
    drawn = rng.gamma(1.0, 1.5, (n, p)) + y[:, None] * (np.arange(p) % 3 == 0)
    codes = np.minimum(drawn.astype(np.int32), k - 1)

    def ours() -> Array:
        design = CodedDesign(codes, [k] * p)
        return minimise(design, y, design.size)

    def theirs() -> Array:
        places = np.hstack([codes + k * np.arange(p), np.full((n, 1), k * p)])
        ends = np.arange(n + 1) * (p + 1)
        ones = csr_array((np.ones(places.size), places.ravel(), ends), shape=(n, k * p + 1))
        return newton_cholesky(ones, y)

    return ours, theirs


if __name__ == "__main__":
    main()
