"""The pilots of the CDC audit, drawn in the paper's order, choose the published configurations."""

from __future__ import annotations

import os

import numpy as np
import pytest

from reproduction.audits.cdc_roles import Division, margins, roles
from reproduction.audits.published import AUDITS

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]


@pytest.fixture(scope="module")
def division() -> Division:
    return Division()


def test_the_division_gives_the_published_limits(division: Division) -> None:
    published = [float(value) for value in AUDITS["cdc-neural"].limits.values()]
    # .24943 is printed with five digits, and the others are exact.
    assert division.limits() == pytest.approx(published, abs=5e-6)


@pytest.mark.whole
def test_the_paper_s_order_of_draws_gives_the_published_roles(division: Division) -> None:
    (own,) = margins(division, 1)
    assert roles(own) == dict(AUDITS["cdc-neural"].roles)
    # A near tie: 07 is below 08 by less than a tenth of the spread of either.
    ends = {one: float(np.quantile(own[one], 0.9)) for one in ("07", "08")}
    assert 0.0 < ends["08"] - ends["07"] < 0.1 * min(np.ptp(own["07"]), np.ptp(own["08"]))
