"""Stream 1,000,000 records x 100 releases x 3 requirements and print the peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

import proxyguard as pg

R, N, J, CHUNK = 100, 1_000_000, 3, 20_000


def chunks(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield losses of the next records for all releases."""
    for _ in range(N // CHUNK):
        yield rng.random((R, CHUNK, J))


def peak() -> float:
    """Return the peak resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Certify the stream by betting, the test that keeps most state."""
    requirements = [pg.Requirement(name=f"loss {j}", low=0, high=1, limit=0.51) for j in range(J)]
    before = peak()
    start = time.process_time()
    stream = pg.LossStream(
        chunks=chunks(np.random.default_rng(0)),
        n_releases=R,
        n_records=N,
        n_requirements=J,
        random_order=True,
    )
    certificate = pg.certify(stream, requirements, reliability_target="0.8", seed=1)
    spent = time.process_time() - start
    print(f"{R} releases x {N:,} records x {J} requirements in chunks of {CHUNK:,}")
    print(
        f"  {certificate.decision.value}, reliability at least {certificate.reliability_lower:.4f}"
    )
    print(f"  peak above the interpreter {peak() - before:.0f} MiB (300), {spent:.1f} s CPU")


if __name__ == "__main__":
    main()
