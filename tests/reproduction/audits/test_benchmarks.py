"""The tables of the audits of known generators have the published parts.

Published: Rice's limits .151, .134384 and .112 from the source's risks on its planning rows, and
its risks .0780, .0611 and .0329 on the audit target; targets of 54, 200 and 6,000 records.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.adapters.pipelines import fixed_logistic
from proxyguard.draw.protocol import Seed
from reproduction.audits import reproduce
from reproduction.audits.benchmarks import (
    BENCHMARKS,
    RICE_SEED,
    SPAMBASE_FEATURES,
    rice_parts,
    write_benchmark,
    write_spambase,
)
from reproduction.audits.published import AUDITS
from reproduction.datasets import load

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]


def test_the_limits_of_rice_follow_from_its_source_to_every_printed_digit() -> None:
    table = load.rice()
    x = table.drop(columns="Class").to_numpy(dtype=np.float64)
    y = (table["Class"] == "Cammeo").to_numpy(dtype=np.float64)
    source, planning, target = rice_parts(len(table))
    model = fixed_logistic(Seed(RICE_SEED)).fit(x[source], y[source])

    def risks(rows: np.ndarray) -> list[float]:
        p, z = model.predict_proba(x[rows])[:, 1], y[rows]
        missed, alarms = (p < 1 / 6) & (z == 1), (p >= 1 / 6) & (z == 0)
        return [
            float(np.mean((p >= 0.5) != z)),
            float(np.mean((p - z) ** 2)),
            float(np.mean(missed + alarms / 5)),
        ]

    limits = [min(risk + 0.08, top) for risk, top in
              zip(risks(planning), (0.25, 0.20, 0.18), strict=True)]  # fmt: skip
    printed = AUDITS["rice-tvae"].limits.values()
    for limit, text in zip(limits, printed, strict=True):
        assert f"{limit:.{len(text) - 2}f}" == text
    assert [f"{risk:.4f}" for risk in risks(target)] == ["0.0780", "0.0611", "0.0329"]


def test_the_parts_of_rice_are_apart_and_its_target_is_drawn_with_replacement() -> None:
    source, planning, target = rice_parts(3810)
    assert (source.size, planning.size, target.size) == (500, 1000, 2000)
    development = set(source) | set(planning)
    assert len(development) == 1500
    assert not development & set(target)
    # Of 2,000 draws from 2,310 rows, 2310 (1 - (1 - 1/2310)^2000) = 1,338 different ones.
    assert len(set(target)) == pytest.approx(1338, abs=60)


@pytest.mark.parametrize(("audit", "name", "sizes"), [
    ("aim-heart", "heart", (162, 54, 54)), ("tabddpm-heart", "heart", (162, 54, 54)),
    ("aim-german", "german", (600, 200, 200)), ("tabddpm-german", "german-uci", (600, 200, 200)),
])  # fmt: skip
def test_sealing_gives_the_published_parts(
    tmp_path: Path, audit: str, name: str, sizes: tuple[int, int, int]
) -> None:
    folder = tmp_path / "data" / "benchmarks"
    folder.mkdir(parents=True)
    write_benchmark(name, folder)
    sealed = reproduce.open_folder(audit, tmp_path, None)
    reproduce.begin(sealed, (reproduce.HERE / audit / "audit.toml").read_text("utf-8"))
    parts = BENCHMARKS[name].parts(audit.partition("-")[0])
    assert tuple(map(len, parts)) == sizes
    for role, rows in zip(("training", "validation"), parts, strict=False):
        written = pd.read_parquet(sealed.folder.path / f"development/0.{role}.parquet")
        np.testing.assert_allclose(written.to_numpy(float), rows.to_numpy(float), rtol=1e-12)


def test_numbers_are_winsorised_by_training_rows_alone() -> None:
    raw = load.statlog_heart()
    training, _, target = BENCHMARKS["heart"].positions(raw, "tabddpm")
    low, high = np.quantile(raw["chol"].to_numpy()[training], (0.01, 0.99))
    parts = BENCHMARKS["heart"].parts("tabddpm")
    np.testing.assert_allclose(
        parts[2]["chol"].to_numpy(), raw["chol"].to_numpy()[target].clip(low, high)
    )
    assert set(parts[0]["class"]) == {1.0, 2.0}


def test_spambase_keeps_the_first_twelve_features_of_its_schema(tmp_path: Path) -> None:
    write_spambase(tmp_path)
    table = pd.read_csv(tmp_path / "spambase-prefix.csv")
    assert table.shape == (4601, 13)
    assert list(table.columns) == [*load.spambase().columns[:12], "spam"]
    pd.testing.assert_frame_equal(table.astype(float), load.spambase()[list(table.columns)])


def test_most_records_of_spambase_fall_into_the_first_bin_of_a_word() -> None:
    table = load.spambase().iloc[:, :SPAMBASE_FEATURES].to_numpy(dtype=np.float64)

    def first_bin(bins: int, ends: np.ndarray) -> float:
        return float(np.mean(np.floor(bins * np.minimum(table, ends) / ends) == 0))

    assert f"{first_bin(6, table.max(axis=0)):.0%}" == "97%"  # the published six bins
    assert f"{first_bin(10, np.ones(SPAMBASE_FEATURES)):.0%}" == "78%"
    (note,) = (one for one in AUDITS["spambase-aim"].notes if "97 %" in one)
    assert "78 %" in note
