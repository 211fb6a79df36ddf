"""Evidence of unreliability by named violations (Theorem 8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyguard.certificate.decision import ReliabilityBound
from proxyguard.exact.binomial import clopper_pearson_upper, lower_tail
from proxyguard.registry.budget import Budget


def certify_violation(
    violated: NDArray[np.bool_], budget: Budget, *, reliability_target: float
) -> ReliabilityBound:
    """Upper-bound reliability by the releases with a detected violation, ``violated`` (R, J).

    Guarantee
    ---------
    Paper Theorem 8: outside probability ``beta_R`` no detected violation is false; then,
    outside ``beta_M``, the bound is at least the reliability. ``violated`` must come from
    Holm at ``beta_R`` over the registered release-requirement family.
    """
    n_releases = violated.shape[0]
    detected = int(np.count_nonzero(violated.any(axis=1)))
    left = n_releases - detected
    return ReliabilityBound(
        value=float(clopper_pearson_upper(left, n_releases, alpha=float(budget["beta_M"]))),
        budget=budget,
        rests_on="Theorem 8",
        steps=(("releases with a detected violation", detected), ("releases", n_releases)),
        pvalue=float(lower_tail(left, n_releases, reliability_target)),
        outer="beta_M",
    )
