"""Every query of the page on queries is one that a declaration may have, and says what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.losses.query import BoundedQuery, CodedRecords, codings
from proxyguard.registry.fields import Query

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")
BLOCKS = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block["query"]))
def test_a_query_of_the_page_can_be_declared(block: dict[str, object]) -> None:
    assert float(str(block["limit"])) > 0.0
    assert Query.model_validate(block["query"]).columns


def test_a_quantile_is_asked_as_the_share_below_a_cut_point() -> None:
    (block,) = [block for block in BLOCKS if "bins" in block["query"]]
    query = Query.model_validate(block["query"])
    coding = codings(query)["weight"]
    weights = pd.DataFrame({"weight": [49.9, 50.0, 10.0, 70.0, np.nan]})
    below, above = coding.labels
    shares = [
        BoundedQuery(label, 0.0, 1.0, cell=(("weight", label),), coding={"weight": coding}).answer(
            CodedRecords(weights)
        )
        for label in (below, above)
    ]
    assert shares == [0.4, 0.4]  # an end belongs above, and what is missing to neither
