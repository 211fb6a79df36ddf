"""Time draws of the generators that need no network, on a mixed table of 10,000 rows.

Half of its 20 columns are numbers, one with gaps; five hold two categories and five seven.
Printed are milliseconds of processor time a draw, the best of several rounds: where the one fit
to the source is sampled, and where every draw is fitted to a bootstrap of the rows; before them the
time of as many uniform numbers and their conversion to a table, which no generator is without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from proxyguard.adapters.tabular import read_tabular
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed

ROWS, COLUMNS, ROUNDS, DRAWS = 10_000, 20, 5, 4


def table() -> pd.DataFrame:
    """Return numbers, two categories and seven, all of them dependent."""
    rng = np.random.default_rng(20261116)
    mixing = rng.normal(size=(6, COLUMNS))
    latent = rng.normal(size=(ROWS, 6)) @ mixing + 1.5 * rng.normal(size=(ROWS, COLUMNS))
    columns: dict[str, Any] = {}
    for k in range(COLUMNS):
        if k < 10:
            columns[f"number {k}"] = np.rint(latent[:, k]) if k % 3 == 0 else latent[:, k]
        else:
            ends = np.quantile(
                latent[:, k], np.arange(1, 2 if k < 15 else 7) / (2 if k < 15 else 7)
            )
            labels = np.array([f"category {c}" for c in rng.permutation(7)], dtype=object)
            columns[f"text {k}"] = labels[np.searchsorted(ends, latent[:, k])]
    source = pd.DataFrame(columns)
    source.loc[rng.random(ROWS) < 0.1, "number 1"] = np.nan
    return source


def milliseconds(draw: Callable[[Seed], object]) -> float:
    """Return the processor time of one draw, the best of several rounds."""
    times = []
    for number in range(ROUNDS):
        start = time.process_time()
        for k in range(DRAWS):
            draw(Seed(DRAWS * number + k))
        times.append((time.process_time() - start) / DRAWS)
    return 1000.0 * min(times)


def least(source: pd.DataFrame) -> Callable[[Seed], object]:
    """Return a draw of nothing but uniform numbers and codes, as a table."""
    tabular = read_tabular(source)
    sizes = np.array(tabular.sizes)

    def draw(seed: Seed) -> object:
        rng = seed.rng("everything")
        numbers = rng.random(tabular.numbers.shape)
        return tabular.table(numbers, (rng.random(tabular.codes.shape) * sizes).astype(np.int64))

    return draw


def main() -> None:
    """Print the times of every generator."""
    source = table()
    with threadpool_limits(1):
        floor = milliseconds(least(source))
        print(f"uniform numbers as a table of {ROWS:,} x {COLUMNS}: {floor:.1f} ms")
        print(f"{'generator':<20}{'sampled ms':>12}{'refitted ms':>13}{'200 refitted, s':>17}")
        for name in ("copula", "bayesian_network"):
            times = []
            for bootstrap in (False, True):
                generator = load_generator(name, {"bootstrap": bootstrap})
                generator.prepare(source, np.random.default_rng(0))
                times.append(milliseconds(generator.draw))
            print(f"{name:<20}{times[0]:>12.1f}{times[1]:>13.1f}{0.2 * times[1]:>17.1f}")


if __name__ == "__main__":
    main()
