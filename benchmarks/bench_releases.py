"""Time `certify_releases` on ten times as many named releases, in one run.

Prints ratios: 10 is linear. Run it on a quiet machine (``make bench``).
"""

from __future__ import annotations

import time

import numpy as np

import proxyguard as pg

RECORDS = 50
SIZES = (200, 2_000, 20_000)
ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)


def seconds(releases: int, members: int) -> float:
    """Return the least CPU time of three certificates of so many releases in so many members."""
    losses = np.random.default_rng(1).random((members, releases // members, RECORDS, 1)) < 0.05
    family = {f"member {m}": pg.NamedReleases(losses[m], [ERROR]) for m in range(members)}
    spent = []
    for _ in range(3):
        start = time.process_time()
        certificate = pg.certify_releases(family, seed=1)
        str(certificate)
        spent.append(time.process_time() - start)
    return min(spent)


def main() -> None:
    """Print the time of each size, in one member and in many, beside that of a tenth of it."""
    seconds(10, 1)  # what is imported on first use is not what is measured
    for name, members_of in (
        ("one member", lambda n: 1),
        ("ten releases a member", lambda n: n // 10),
    ):
        before = None
        for releases in SIZES:
            spent = seconds(releases, members_of(releases))
            ratio = "" if before is None else f"   {spent / before:5.1f} times a tenth of it"
            print(f"{name:<22} {releases:7,} releases {spent * 1e3:9.1f} ms{ratio}")
            before = spent


if __name__ == "__main__":
    main()
