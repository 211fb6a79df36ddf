"""Time a first look at 40 releases of 10,000 rows and 20 columns, in CPU seconds of all processes.

Elapsed time is printed beside it: on two idle cores it is a little more than half of the CPU time.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import proxyguard as pg

ROWS, RELEASES = 10_000, 40


def table(rows: int, seed: int) -> pd.DataFrame:
    """Return twelve numbers, seven texts and a yes or no that some of them tell."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=rows)
    columns: dict[str, object] = {
        f"number {k}": np.round(0.3 * common + rng.normal(size=rows), 4) for k in range(12)
    }
    for k in range(7):
        columns[f"text {k}"] = np.array(list("abcdefgh"))[np.minimum(7, rng.poisson(1.5, rows))]
    ill = rng.random(rows) < 1.0 / (1.0 + np.exp(-2.0 * common))
    return pd.DataFrame({**columns, "ill": np.where(ill, "yes", "no")})


def spent() -> float:
    """Return the CPU seconds of this process and of all that it has waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def main() -> None:
    """Print CPU and elapsed seconds for named files, one generator's files, and a generator."""
    with TemporaryDirectory() as work:
        folder = Path(work, "synthetic")
        folder.mkdir()
        table(ROWS, 0).to_csv(Path(work, "real.csv"), index=False)
        for k in range(RELEASES):
            table(ROWS, 10 + k).to_csv(folder / f"{k:02d}.csv", index=False)
        holdout = table(3 * ROWS // 10, 1)
        ways: dict[str, dict[str, object]] = {
            "files, each by itself": {"releases": folder, "holdout": holdout},
            "files of one generator": {
                "releases": folder, "holdout": holdout, "independent": True,
            },
            "bootstrap, drawn here": {"generator": "bootstrap"},
        }  # fmt: skip
        print(f"{RELEASES} releases x {ROWS:,} rows x 20 columns, two workers")
        for name, given in ways.items():
            before, start = spent(), time.perf_counter()
            pg.try_out(Path(work, "real.csv"), outcome="ill", workers=2, **given)  # type: ignore[arg-type]
            elapsed = time.perf_counter() - start
            print(f"{name}: {spent() - before:.0f} s CPU, {elapsed:.0f} s elapsed")


if __name__ == "__main__":
    main()
