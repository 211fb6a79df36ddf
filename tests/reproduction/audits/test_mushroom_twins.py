"""Secondary Mushroom: 9,788 of 10,000 reserved records have value twins, and none is reused.

The number is that of the published reserve (seed 8480201, class and 17 categorical features).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from proxyguard.registry.target import TableReading
from proxyguard.seal.fingerprint import TablePrints, expected_twins, meet
from proxyguard.tables.files import RawTable

DATA = os.environ.get("PROXYGUARD_DATA")
TABLE = Path(str(DATA)) / "secondary_mushroom" / "secondary_data.csv.gz"
NUMERIC = {"cap-diameter", "stem-height", "stem-width"}


@pytest.mark.reproduction
@pytest.mark.skipif(
    DATA is None or not TABLE.exists(),
    reason="PROXYGUARD_DATA does not name a folder with secondary_mushroom",
)
def test_value_twins_are_as_many_as_coincidence_explains_and_no_reuse() -> None:
    raw = RawTable(TABLE, TableReading(separator=";"))
    columns = [name for name in raw.columns if name not in NUMERIC]
    table = TablePrints(raw.take(np.arange(len(raw)))[columns], b"k" * 32)
    rng = np.random.default_rng(8480201)
    chosen = np.sort(rng.choice(len(raw), size=10_000, replace=False))
    rest = np.setdiff1d(np.arange(len(raw)), chosen)
    target, development = table.records(chosen), table.records(rest)
    assert target.twins_in(development) == 9788
    assert target.shared_with(development) == 0
    assert expected_twins(table.prints, 10_000) == pytest.approx(9788, abs=50)
    # The same judgement where nothing says that both parts are of one table.
    meeting = meet(target.views, development.views)
    assert not meeting.excess
    assert meeting.expected == pytest.approx(9788, rel=0.05)
