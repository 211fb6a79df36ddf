"""The aggregates of Adult end to end, with fewer draws and fewer target records.

The noise of the sampler is OpenDP's and differs from run to run. What is asserted of it rests on
cells that are off by .1 and more because the sampler knows no dependence within a class of income:
noise with scale 15 on counts of thousands would have to reach a thousand, which has a chance below
exp(-1000 / 15) < 1e-28 a count, and there are 218 counts.
"""

from __future__ import annotations

import json
import os
import tomllib
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from reproduction.audits.analyse import certified_bounds
from reproduction.audits.reproduce import HERE, prepare_data, with_draws
from reproduction.audits.workload import marginals, workload

NAME = "adult-aggregates"
DRAWS = 3
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.whole,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> pg.Audit:
    work = tmp_path_factory.mktemp("aggregates")
    prepare_data(NAME, work / "data")
    text = with_draws((HERE / NAME / "audit.toml").read_text(encoding="utf-8"), DRAWS)
    shortened = text.replace("reserve = { rows = 16000,", "reserve = { rows = 6000,")
    assert shortened != text
    audit = pg.Audit(work / NAME, home=work / "home", data=[work / "data"])
    audit.init(shortened)
    audit.run()
    assert audit.verify().good
    return audit


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns as the declaration codes them, by pandas and from the file itself."""
    declared = tomllib.loads((HERE / NAME / "audit.toml").read_text(encoding="utf-8"))
    query = declared["requirement"][0]["query"]
    found = {}
    for name in COLUMNS:
        if name in query["bins"]:
            ends = [float(end) for end in query["bins"][name]]
            found[name] = pd.cut(frame[name].astype(float), [-np.inf, *ends, np.inf], right=False,
                                 labels=False)  # fmt: skip
        elif name in query["groups"]:
            group = {v: k for k, values in query["groups"][name].items() for v in values}
            found[name] = frame[name].astype(str).map(group).fillna("the rest")
        else:
            found[name] = frame[name].astype(str)
    return pd.DataFrame(found)


def test_the_workload_is_every_pair_of_columns(audit: pg.Audit) -> None:
    found = marginals(audit, "row bootstrap")
    assert [one.columns for one in found] == list(combinations(COLUMNS, 2))
    assert len(found) == 105
    # 6 ages, 4 kinds of work, 4 weights, 5 degrees twice, 3 states, 5 occupations, 6 relationships,
    # 5 races, 2 sexes, 3 gains, 3 losses, 4 hours, 3 countries, 2 incomes: 60 in all, so that there
    # are (60^2 - 264)/2 pairs, 264 the sum of squares.
    assert sum(len(one.cells) for one in found) == (60**2 - 264) // 2 == 1668


@pytest.mark.parametrize("mechanism", ["row bootstrap", "noisy histograms"])
def test_discrepancies_are_those_of_pandas_tables(audit: pg.Audit, mechanism: str) -> None:
    table = pd.read_csv(audit.folder.path.parent / "data" / "adult" / "adult-train.csv", dtype=str)
    rows = np.random.default_rng(1994).choice(len(table), size=6000, replace=False)
    target = coded(table.iloc[np.sort(rows)])
    drawn = json.loads(audit.folder.read("releases.json"))["members"]["target"][mechanism]["draws"]
    found = marginals(audit, mechanism)
    release = coded(pd.read_parquet(audit.folder.store.path(drawn[1]["release"])))
    for one in found:
        here, there = (
            pd.crosstab(*(frame[c] for c in one.columns), normalize="all").stack()
            for frame in (release, target)
        )
        off = here.sub(there, fill_value=0.0).abs().to_numpy()
        # Cells that are empty on both sides are not in these tables.
        by_pandas = np.sort(np.append(off, np.zeros(len(one.cells) - off.size)))
        # The report has nine digits.
        np.testing.assert_allclose(np.sort(one.off[1]), by_pandas, rtol=1e-8, atol=1e-12)


def test_the_bootstrap_answers_and_independent_columns_cannot(audit: pg.Audit) -> None:
    verdicts = certified_bounds(audit)
    assert verdicts["noisy histograms"].violations == DRAWS
    # Seeded, so the same on every run; three draws cannot validate a reliability of .8.
    assert verdicts["row bootstrap"].violations == 0
    by_table = {one.columns: one for one in marginals(audit, "noisy histograms")}
    for columns in (("education", "education-num"), ("relationship", "sex")):
        assert by_table[columns].within == 0
        assert by_table[columns].worst[1] > 0.1
    # A pair with income is sampled as it was counted: the noise is all that it is off by. A count
    # is off by 90 with a chance of exp(-6), and .03 of 26,561 rows are 796.
    assert by_table["sex", "income"].within == DRAWS
    assert all(one.within == DRAWS for one in marginals(audit, "row bootstrap"))


def test_the_releases_are_private_and_the_certificate_says_so(audit: pg.Audit) -> None:
    (words, *uncovered) = audit.certificate().to_dict()["privacy"]["noisy histograms"]
    assert words.startswith("One private fit (epsilon 1; unit: one row of the source")
    assert f"sampled {DRAWS} times" in words
    assert not any("seed" in line for line in (words, *uncovered))
    kept = audit.folder.path.parent / "data" / "adult" / "aggregates-fit"
    assert sorted(place.name for place in kept.iterdir()) == ["source.json", "tables.json"]


def test_the_page_counts_tables_and_names_the_worst(audit: pg.Audit) -> None:
    text = workload(audit)
    assert "row bootstrap: 105 tables of 1668 cells, 3336 requirements." in text
    assert f"105 tables have every cell within 0.03 in all {DRAWS} releases" in text
    assert "| education x education-num | 25 | high school, 9 to under 10 |" in text
