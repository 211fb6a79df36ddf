"""An e-value for each release (theory section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from proxyguard.errors import UnsupportedDesign
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.evalues import mixture_evalues

LARGEST = 600.0
"""Cap on a log e-value: exp(600) is far above any 1/alpha, and a cap only weakens."""


def calibrated_evalues(
    evidence: ReleaseEvidence, *, thresholds: Sequence[Fraction]
) -> list[Fraction]:
    """Return the mixture calibrator of the release p-values, exact.

    Guarantee
    ---------
    Mean at most 1 over the target whenever the release is invalid.
    """
    return mixture_evalues(evidence.release_pvalues, thresholds=thresholds)


def violation_evalues(
    evidence: ReleaseEvidence, *, thresholds: Sequence[Fraction]
) -> list[Fraction]:
    """Return e-values against validity: mean at most 1 whenever the release is valid."""
    return mixture_evalues(evidence.release_violation_pvalues, thresholds=thresholds)


def capital_evalues(evidence: ReleaseEvidence) -> list[float]:
    """Return the betting capital of each release, the least over its requirements.

    Guarantee
    ---------
    An invalid release fails some requirement, whose capital has mean at most 1; the
    minimum is no larger.
    """
    logs = []
    for column, test in zip(evidence.columns, evidence.tests, strict=True):
        log = column.log_final if column.log_final is not None else column.log_evalue
        if log is None:
            raise UnsupportedDesign(
                f"{test.value} has no betting capital: register thresholds for the e-value count, "
                "or use betting or betting_fixed"
            )
        logs.append(log[0])
    least = np.minimum(np.min(logs, axis=0), LARGEST)
    with np.errstate(under="ignore"):
        return [float(value) for value in np.exp(least)]
