"""Time four attacks on one release and on 200, beside one plain pass over the same distances.

DCR, density, DOMIAS and Gen-LRA in 10 dimensions. First one release of 2,000 rows with a reference
of 1,000 against 20,000 scored rows; then 200 releases of 2,000 rows, each against 2,000 nonmembers
and 1,000 members, as an opened audit scores them: what the reference alone gives is worked out once
for all releases. The plain pass computes the Euclidean distance of every scored row to every row of
a release, with SciPy, and keeps nothing of it. Then come the other attacks, one by one. Printed are
seconds of processor time with one thread, the ratio to the plain pass of the same run, and the peak
of memory above what was there before.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from proxyguard.exposure.attacks import ATTACKS, AttackSuite
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.registry.exposure import AttackPart

DIMENSION, RELEASE, REFERENCE = 10, 2000, 1000
SCORED = 20_000
RELEASES, NONMEMBERS, MEMBERS = 200, 2000, 1000
FOUR = ("dcr", "density", "domias", "gen-lra")
STEP = 128  # rows of one call of the plain pass


def frame(rows: int, seed: int) -> pd.DataFrame:
    """Return rows of correlated numbers."""
    axes = np.random.default_rng(0).normal(size=(DIMENSION, DIMENSION))
    values = np.random.default_rng([1, seed]).normal(size=(rows, DIMENSION)) @ axes
    return pd.DataFrame(values, columns=[f"x{k}" for k in range(DIMENSION)])


def peak() -> float:
    """Return the peak resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def plain(scored: np.ndarray, release: np.ndarray) -> float:
    """Return the seconds of one pass over the distances."""
    start = time.process_time()
    for k in range(0, len(scored), STEP):
        cdist(scored[k : k + STEP], release)
    return time.process_time() - start


def main() -> None:
    """Print the times of the four attacks, and those of the others."""
    reference_frame = frame(REFERENCE, 1)
    fitted = Representation.fit(reference_frame, None, DIMENSION)
    rows = [Rows(frame(n, k), fitted) for k, n in enumerate((SCORED, NONMEMBERS, MEMBERS), start=2)]
    scored, nonmembers, members = rows
    release = Rows(frame(RELEASE, 5), fitted)
    four = {kind: AttackPart(kind=kind) for kind in FOUR}
    with threadpool_limits(1):
        one_release(four, release, Rows(reference_frame, fitted), members, scored)
        many_releases(four, Rows(reference_frame, fitted), members, nonmembers)
        others(release, Rows(reference_frame, fitted), members, scored)


def one_release(
    attacks: dict[str, AttackPart], release: Rows, reference: Rows, members: Rows, scored: Rows
) -> None:
    """Print the time and the memory of the four attacks on one release."""
    distances = plain(scored.array, release.array)
    before, start = peak(), time.process_time()
    AttackSuite.fit(attacks, release, reference, members, 911).scores(scored)
    spent = time.process_time() - start
    print(f"{', '.join(attacks)}: {len(release):,} rows of a release, {len(reference):,} of the "
          f"reference, {len(scored):,} scored rows, {DIMENSION} dimensions")  # fmt: skip
    print(f"  {spent:.2f} s CPU (3), plain pass {distances:.2f} s, ratio {spent / distances:.1f}, "
          f"peak {peak() - before:.0f} MB above {before:.0f} (500)")  # fmt: skip


def many_releases(
    attacks: dict[str, AttackPart], reference: Rows, members: Rows, nonmembers: Rows
) -> None:
    """Print the time of the four attacks on many releases."""
    spent = distances = 0.0
    before = peak()
    for k in range(RELEASES):
        made = frame(RELEASE, 100 + k)
        start = time.process_time()
        release = Rows(made, reference.representation)
        suite = AttackSuite.fit(attacks, release, reference, members, 911, k)
        for rows in (members, nonmembers):
            suite.scores(rows)
        spent += time.process_time() - start
        if k % 20 == 0:  # a tenth of them, multiplied
            distances += 20 * sum(
                plain(rows.array, release.array) for rows in (members, nonmembers)
            )
    print(f"{RELEASES} releases of {RELEASE:,} rows x ({len(nonmembers):,} nonmembers + "
          f"{len(members):,} members) x {len(attacks)} attacks")  # fmt: skip
    print(f"  {spent:.1f} s CPU (60), plain passes {distances:.1f} s, ratio "
          f"{spent / distances:.1f}, peak {peak() - before:.0f} MB above {before:.0f}")  # fmt: skip


def others(release: Rows, reference: Rows, members: Rows, scored: Rows) -> None:
    """Print the time of each of the other attacks."""
    settings = {
        "nearest row": {"secret": "x0", "tolerance": "0.05"},
        "model": {"secret": "x0", "tolerance": "0.05"},
        "linkability": {"sides": (("x0", "x1"), ("x2", "x3"))},
    }
    print(f"each of the others, {len(scored):,} scored rows, seconds")
    for kind in ATTACKS:
        if kind in FOUR:
            continue
        part = AttackPart.model_validate({"kind": kind, **settings.get(kind, {})})
        start = time.process_time()
        AttackSuite.fit({kind: part}, release, reference, members, 911).scores(scored)
        print(f"  {kind:<26}{time.process_time() - start:>7.2f}")


if __name__ == "__main__":
    main()
