"""What the copula and the Bayesian network owe alike: every kind of table, every shared option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from conformance.draws import DrawHere
from conformance.generator import BatchConformance
from proxyguard.adapters.tabular import ANEW, CORRUPTION, ONCE, SAMPLING, TRAINING_ROWS
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.catalog import is_random, load_generator
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import FittedRelease
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.tables.files import Schema, table_bytes

NAMES = ("copula", "bayesian_network")
ONE_IN_A_MILLION = 1e-6


def text(values: Any) -> pd.Series:
    return pd.Series(np.asarray(values, dtype=object), dtype=object)


def mixed(n: int = 300, seed: int = 3) -> pd.DataFrame:
    """Numbers with gaps, whole numbers, ties at zero, constants, rare and missing text."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    income = np.exp(base)
    income[rng.random(n) < 0.2] = np.nan
    kind = np.where(base > 1, "high", np.where(base > -0.5, "middle", ""))
    kind[0] = "rare"
    return pd.DataFrame(
        {
            "income": income,
            "label": text(np.where(base + rng.normal(size=n) > 0, "yes", "no")),
            "children": np.maximum(np.rint(base + rng.normal(size=n)), 0.0),
            "same": np.full(n, 7.0),
            "kind": text(kind),
            "empty": np.full(n, np.nan),
            "only": text(["x"] * n),
            "flag": (base > 0).astype(float),
        }
    ).set_index(np.arange(50, 50 + n))


def prepared(name: str, source: pd.DataFrame | None = None, **options: Any) -> Any:
    generator = load_generator(name, options)
    generator.prepare(mixed() if source is None else source, np.random.default_rng(0))
    return generator


class TestCopula(BatchConformance):
    stage = SAMPLING
    seeds = (11, 12)
    name = "copula"
    options: dict[str, Any] = {"discrete": ["flag"]}  # noqa: RUF012 - read by subclasses only

    def make(self) -> Any:
        return load_generator(self.name, self.options)

    def source(self) -> pd.DataFrame:
        return mixed()


class TestCopulaRefitted(TestCopula):
    stage = TRAINING_ROWS
    options = {  # noqa: RUF012
        "train_rows": 100,
        "rows": 80,
        "corruption": {"column": "label", "share": "0.2", "kind": "flip"},
        "condition": {"column": "label", "equal": True},
    }


class TestBayesianNetwork(TestCopula):
    name = "bayesian_network"


class TestBayesianNetworkRefitted(TestCopulaRefitted):
    name = "bayesian_network"


class TestBayesianNetworkBootstrap(TestCopula):
    name = "bayesian_network"
    stage = TRAINING_ROWS
    options = {"bootstrap": True, "within": "uniform", "degree": 3}  # noqa: RUF012


@pytest.mark.parametrize("name", NAMES)
def test_they_are_random_generators_of_ours(name: str) -> None:
    assert is_random(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"bootstrap": True}, {"train_rows": 40}])
def test_a_release_of_a_messy_table_has_its_columns_kinds_and_values(
    name: str, options: dict[str, Any]
) -> None:
    source = mixed()
    release = prepared(name, discrete=["flag"], rows=2000, **options).draw(Seed(1))
    assert release.shape == (2000, 8)
    assert list(release.columns) == list(source.columns)
    assert list(release.dtypes) == list(source.dtypes)
    assert set(release["label"]) == {"yes", "no"}
    assert set(release["kind"]) <= set(source["kind"])
    assert (release["same"] == 7.0).all()
    assert release["empty"].isna().all()
    assert set(release["only"]) == {"x"}
    assert set(release["flag"]) == {0.0, 1.0}
    assert (release["children"] == np.rint(release["children"])).all()
    assert release["children"].between(source["children"].min(), source["children"].max()).all()
    known = release["income"].dropna()
    assert known.between(source["income"].min(), source["income"].max()).all()
    assert 0.05 < release["income"].isna().mean() < 0.5
    assert not release[["children", "same", "flag"]].isna().any().any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "columns",
    [
        {"x": [1.0]},
        {"t": ["a"]},
        {"x": [1.0, np.nan]},
        {"x": [1.0, 2.0], "t": ["a", "b"]},
        {"x": [np.nan, 1.0], "y": [1.0, np.nan]},  # no row in common
        {"x": [3.0, 3.0], "t": ["a", "a"]},
        {"x": list(range(30)), "y": list(range(30)), "z": list(range(30))},  # all one column
        {"t": list("abcde") * 4, "u": list("abcde") * 4, "v": list("edcba") * 4},
    ],
)
@pytest.mark.parametrize("bootstrap", [False, True])
def test_small_and_degenerate_tables_are_drawn(
    name: str, columns: dict[str, Any], bootstrap: bool
) -> None:
    source = pd.DataFrame(
        {
            key: text(values) if isinstance(values[0], str) else np.array(values, dtype=float)
            for key, values in columns.items()
        }
    )
    generator = prepared(name, source, bootstrap=bootstrap, rows=50)
    for seed in range(3):
        release = generator.draw(Seed(seed))
        assert list(release.dtypes) == list(source.dtypes)
        for key in source:
            known = release[key].dropna()
            if key == "t" or known.dtype == object:
                assert set(known) <= set(source[key])
            elif source[key].notna().all():
                assert len(known) == 50


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.sampled_from(NAMES), st.booleans())
def test_tables_of_all_shapes_are_drawn_and_keep_to_the_source(
    seed: int, n: int, name: str, bootstrap: bool
) -> None:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for k in range(int(rng.integers(1, 6))):
        if rng.random() < 0.5:
            values = rng.normal(size=n).round(int(rng.integers(0, 4)))
            columns[f"x{k}"] = np.where(rng.random(n) < rng.random() * 0.9, np.nan, values)
        else:
            columns[f"t{k}"] = text(rng.choice(list("abcdefg"), n))
    source = pd.DataFrame({**columns, "t": text(rng.choice(["u", "v"], n))})
    release = prepared(name, source, bootstrap=bootstrap, rows=40).draw(Seed(seed))
    for key in source:
        values = release[key].dropna()
        if source[key].dtype == object:
            assert set(values) <= set(source[key])
        else:
            assert values.between(source[key].min(), source[key].max()).all()
            if source[key].notna().all():
                assert len(values) == 40


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_categories_gaps_and_ties_are_those_of_the_source(name: str) -> None:
    source = mixed(2000)
    options = {"margins": "empirical"} if name == "copula" else {}
    release = prepared(name, source, rows=100_000, **options).draw(Seed(20261116))
    for column in ("label", "kind", "children"):
        shares = source[column].value_counts(normalize=True)
        counts = release[column].value_counts().reindex(shares.index, fill_value=0)
        assert counts.sum() == 100_000
        statistic = float(((counts - 100_000 * shares) ** 2 / (100_000 * shares)).sum())
        assert statistic < chi2.isf(ONE_IN_A_MILLION, len(shares) - 1)
    missing = float(source["income"].isna().mean())
    # Five standard deviations.
    spread = 5 * np.sqrt(missing * (1 - missing) / 100_000)
    assert abs(release["income"].isna().mean() - missing) < spread


@pytest.mark.parametrize("name", NAMES)
def test_a_condition_on_a_category_holds_in_every_row_and_changes_the_others(name: str) -> None:
    source = mixed(2000)
    release = prepared(
        name, source, rows=20_000, condition={"column": "kind", "value": "high"}
    ).draw(Seed(2))
    assert set(release["kind"]) == {"high"}
    children = source.groupby("kind")["children"].mean()
    assert abs(release["children"].mean() - children["high"]) < 0.25
    assert children["high"] - source["children"].mean() > 0.6
    equal = prepared(name, source, rows=1000, condition={"column": "kind", "equal": True})
    assert set(equal.draw(Seed(2))["kind"].value_counts()) == {250}


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_text_can_be_the_condition(name: str) -> None:
    release = prepared(name, rows=10, condition={"column": "kind", "value": ""}).draw(Seed(2))
    assert set(release["kind"]) == {""}


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_that_cannot_meet_its_condition_fails_alone(name: str) -> None:
    generator = prepared(name, train_rows=150, condition={"column": "kind", "value": "rare"})
    seeds = [Seed(s) for s in range(8)]
    given_tables = generator.draw_many(seeds)
    failed = [isinstance(table, DrawError) for table in given_tables]
    assert 0 < sum(failed) < 8
    for seed, table, bad in zip(range(8), given_tables, failed, strict=True):
        if bad:
            with pytest.raises(DrawError, match="no row that this draw is trained on has 'rare'"):
                generator.draw(Seed(seed))
        else:
            pd.testing.assert_frame_equal(table, generator.draw(Seed(seed)))


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_say_what_a_draw_redraws(name: str) -> None:
    once, anew = load_generator(name, {}), load_generator(name, {"bootstrap": True})
    assert once.describe()["redrawn"] == ONCE
    assert anew.describe()["redrawn"] == ANEW
    seed = Seed(1)
    prepared(name).draw(seed)
    assert (seed.taken, seed.members) == ([SAMPLING], None)
    options = {"corruption": {"column": "label", "share": "0.1", "kind": "flip"}}
    seed = Seed(1)
    prepared(name, train_rows=50, **options).draw(seed)
    assert seed.taken == [TRAINING_ROWS, CORRUPTION, SAMPLING]
    assert seed.members is not None
    assert seed.members.size == 50


@pytest.mark.parametrize("name", NAMES)
def test_every_option_changes_the_settings(name: str) -> None:
    changes: list[dict[str, Any]] = [
        {"rows": 5}, {"discrete": ["flag"]}, {"train_rows": 5}, {"bootstrap": True},
        {"clip": "none"}, {"condition": {"column": "kind", "equal": True}},
        {"corruption": {"column": "label", "share": "0.1", "kind": "flip"}},
    ]  # fmt: skip
    changes += {
        "copula": [{"margins": "empirical"}, {"ordering": "labels"}],
        "bayesian_network": [
            {"degree": 1}, {"bins": 3}, {"edges": {"income": ["1"]}}, {"within": "uniform"},
            {"pseudocount": "0"}, {"max_cells": 100},
        ],
    }[name]  # fmt: skip
    plain = canonical_bytes(dict(load_generator(name, {}).describe()))
    described = [canonical_bytes(dict(load_generator(name, c).describe())) for c in changes]
    assert len({plain, *described}) == len(changes) + 1


@pytest.mark.parametrize("name", NAMES)
def test_what_the_source_cannot_honour_is_refused_before_any_draw(name: str) -> None:
    with pytest.raises(RegistryError, match=f"{name}: train_rows is 301"):
        prepared(name, train_rows=301)
    with pytest.raises(RegistryError, match=f"{name}: 'id' has 1,200 categories"):
        prepared(name, pd.DataFrame({"id": text([f"p{k}" for k in range(1200)])}))
    with pytest.raises(
        RegistryError, match=f"^{name}: there is no option 'row'; did you mean \"rows\""
    ):
        load_generator(name, {"row": 3})


@pytest.mark.parametrize("name", NAMES)
def test_they_draw_in_the_drawing_process_and_name_their_members(name: str, tmp_path: Path) -> None:
    source = mixed().reset_index(drop=True)
    (tmp_path / "source").write_bytes(table_bytes(source))
    kinds = {key: "number" if source[key].dtype == float else "text" for key in source}
    job = DrawJob(
        name=name,
        generator=name,
        options={"train_rows": 100},
        schema_of_releases=Schema(kinds=kinds),
        source=str(tmp_path / "source"),
        root=str(tmp_path),
    )
    said = DrawHere(job).draw(4).said
    assert isinstance(said, FittedRelease)
    assert said.stages == [TRAINING_ROWS, SAMPLING]
    assert said.members is not None
    assert sum(byte.bit_count() for byte in bytes.fromhex(said.members)) == 100
