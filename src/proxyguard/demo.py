"""A worked example: three ways of making a stand-in table, certified on one target.

Run with ``make demo`` or ``python -m proxyguard.demo``. Everything is simulated here:
each release of a mechanism has its own error rate and calibration, and all releases are
scored on the same 2,000 target records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyguard import Form, Requirement, certify
from proxyguard.certificate.wording import at_least, at_most

SEED = 20260801
N_RELEASES = 60
N_RECORDS = 2000

REQUIREMENTS = (
    Requirement(name="error", low=0, high=1, limit=0.15, two_valued=True),
    Requirement(name="Brier", low=0, high=1, limit=0.12),
    Requirement(name="cost transfer", low=-1, high=1, limit=0.03, form=Form.RELATIVE),
)

MECHANISMS = {
    "bootstrap": (0.100, 0.005),  # centre and spread of a release's own error rate
    "small synthesizer": (0.136, 0.010),
    "broken synthesizer": (0.185, 0.010),
}


def simulate(centre: float, spread: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return losses of independent releases on shared records, (R, n, J)."""
    record = np.random.default_rng(SEED).random((N_RECORDS, 3))  # the shared target
    rate = np.clip(rng.normal(centre, spread, (N_RELEASES, 1)), 0.01, 0.5)
    error = (record[:, 0] < rate).astype(np.float64)
    brier = np.where(error > 0, 0.25 + 0.5 * record[:, 1], 0.09 * record[:, 1])
    source = (record[:, 0] < 0.09).astype(np.float64)
    return np.stack([error, brier, 0.2 * (error - source)], axis=2)


def main() -> None:
    """Certify the three mechanisms as one family and print what a steward would read."""
    rng = np.random.default_rng(SEED + 1)
    losses = {name: simulate(*law, rng) for name, law in MECHANISMS.items()}
    family = certify(
        losses, REQUIREMENTS, reliability_target="0.8", alpha="0.05", family="bounds", seed=SEED
    )
    for name, certificate in family.items():
        print(f"\n=== {name} ===\n{certificate}")
    print("\nIn short:")
    for name, certificate in family.items():
        low = at_least(certificate.reliability_lower)
        high = at_most(certificate.reliability_upper)
        print(f"  {certificate.decision.value:<10} {name:<20} reliability {low} to {high}")


if __name__ == "__main__":
    main()
