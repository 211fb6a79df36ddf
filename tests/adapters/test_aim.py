"""AIM and MST: cells, workloads and what is promised; with OpenDP's packages also the fits."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.adapters.aim import LEARNED, Aim, BinCells, CategoryCells
from proxyguard.adapters.kept import kept_folders
from proxyguard.adapters.marginals import Factors
from proxyguard.adapters.privacy import epsilon_at, privacy_lines, privacy_of
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Generator, Seed
from proxyguard.errors import RegistryError, TableError

BOUNDS = {"a": ["0", "10"], "b": ["0", "1"], "len": ["-1", "1"]}
CATEGORIES = {"group": ["u", "v", "w"], "y": ["0", "1"]}


def source(n: int = 400) -> pd.DataFrame:
    """Return numbers and text of which `a` and `group` know the outcome; one column is `len`."""
    rng = np.random.default_rng(16)
    y = rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "a": np.clip(rng.normal(2.0 + 5.0 * y, 1.5), 0.0, 10.0),
            "b": rng.random(n),
            "group": pd.Series(np.array(["u", "v", "w"])[y + rng.integers(0, 2, n)], dtype=object),
            "len": rng.uniform(-1.0, 1.0, n),
            "y": y.astype(float),
        }
    )


def aim(**options: Any) -> Aim:
    chosen = {"bounds": BOUNDS, "categories": CATEGORIES, "bins": 4, "outcome": "y",
              "delta": "1e-6"}  # fmt: skip
    if not {"epsilon", "rho"} & set(options):
        chosen["rho"] = "2"
    return Aim(**{**chosen, **options})


def prepared(generator: Any, frame: pd.DataFrame | None = None) -> Any:
    generator.prepare(source() if frame is None else frame, np.random.default_rng(0))
    return generator


class TestCells:
    def test_a_number_is_in_the_bin_that_begins_at_or_below_it_and_the_largest_in_the_last(self):
        bins = BinCells(low=0.0, high=3.0, count=6, missing=False, values="middle")
        column = pd.Series([0.0, 0.49, 0.5, 2.99, 3.0, -7.0, 99.0])
        assert bins.encode(column).tolist() == [0, 0, 1, 5, 5, 0, 5]

    def test_a_bin_is_released_as_its_middle(self):
        bins = BinCells(low=-1.0, high=1.0, count=4, missing=False, values="middle")
        released = bins.decode(np.arange(4), np.random.default_rng(0))
        np.testing.assert_allclose(released, [-0.75, -0.25, 0.25, 0.75])

    @given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 20), st.integers(0, 2**32))
    def test_a_placed_number_is_within_the_bounds_and_in_its_bin(self, low, width, count, seed):
        bins = BinCells(low=low, high=low + width, count=count, missing=False, values="uniform")
        codes = np.arange(count)
        placed = bins.decode(codes, np.random.default_rng(seed))
        assert low <= placed.min() <= placed.max() <= low + width
        # Numbers within last digits of an edge may fall into the neighbour.
        assert np.abs(bins.encode(pd.Series(placed)) - codes).max() <= 1

    def test_uniform_numbers_differ_within_a_bin(self):
        bins = BinCells(low=0.0, high=1.0, count=2, missing=False, values="uniform")
        placed = bins.decode(np.zeros(1000, dtype=np.int64), np.random.default_rng(1))
        assert 0.0 <= placed.min() < 0.01
        assert 0.49 < placed.max() < 0.5

    def test_missing_numbers_are_one_more_cell_where_they_are_announced(self):
        bins = BinCells(low=0.0, high=1.0, count=2, missing=True, values="middle")
        column = pd.Series([0.1, math.nan, 0.9])
        assert bins.encode(column).tolist() == [0, 2, 1]
        np.testing.assert_array_equal(
            bins.decode(np.array([2, 0]), np.random.default_rng(0)), [math.nan, 0.25]
        )
        with pytest.raises(TableError, match="'a' has missing numbers, and missing does not name"):
            prepared(aim(), source().assign(a=math.nan))

    @pytest.mark.parametrize("ends", [["0", "1e400"], ["-1e400", "0"]])
    def test_bounds_that_no_double_holds_are_refused(self, ends):
        with pytest.raises(RegistryError, match=r"a bound of 'a' is a number, .* got '-?1e400'"):
            aim(bounds={**BOUNDS, "a": ends})

    @pytest.mark.parametrize("ends", [["-1e308", "1e308"], ["0", "1e308"]])
    def test_bounds_whose_bins_doubles_cannot_tell_apart_are_refused(self, ends):
        with pytest.raises(RegistryError, match=r"bounds of 'a' .* no finite double"):
            aim(bounds={**BOUNDS, "a": ends})
        learned = source().assign(a=np.where(source()["y"] > 0, 1e308, -1e307))
        with pytest.raises(TableError, match=r"'a' goes from .* which is no range"):
            prepared(aim(bounds=LEARNED), learned)

    def test_the_widest_bounds_that_are_taken_have_all_their_bins(self):
        frame = source().assign(a=np.linspace(-2e307, 2e307, len(source())))
        generator = prepared(aim(bounds={**BOUNDS, "a": ["-2e307", "2e307"]}), frame)
        assert np.bincount(generator._codes["a"]).tolist() == [100, 100, 100, 100]
        released = generator._cells["a"].decode(np.arange(4), np.random.default_rng(0))
        np.testing.assert_allclose(released, [-1.5e307, -0.5e307, 0.5e307, 1.5e307])

    def test_categories_come_back_as_the_source_has_them(self):
        numbers = CategoryCells(labels=("0", "1", ""), number=True)
        codes = numbers.encode(pd.Series([1.0, math.nan, 0.0]))
        assert codes.tolist() == [1, 2, 0]
        np.testing.assert_array_equal(
            numbers.decode(codes, np.random.default_rng(0)), [1.0, math.nan, 0.0]
        )
        text = CategoryCells(labels=("b", "a"), number=False)
        codes = text.encode(pd.Series(["a", "b"], dtype=object))
        assert text.decode(codes, np.random.default_rng(0)).tolist() == ["a", "b"]

    def test_a_value_outside_the_public_categories_is_an_error_that_does_not_tell_it(self):
        secret = source().assign(group=pd.Series(["u", "w-4711"] * 200, dtype=object))
        with pytest.raises(TableError, match="'group' has values that are not among") as caught:
            prepared(aim(), secret)
        assert "4711" not in str(caught.value)

    def test_categories_and_bounds_may_be_declared_to_come_from_the_training_rows(self):
        generator = prepared(aim(bounds=LEARNED, categories={"group": LEARNED, "y": LEARNED}))
        cells = generator._cells
        assert cells["group"].labels == ("u", "v", "w")
        assert cells["y"].labels == ("0", "1")
        assert (cells["a"].low, cells["a"].high) == (source()["a"].min(), source()["a"].max())


class TestWorkload:
    def test_all_pairs_and_those_with_the_outcome(self):
        assert len(prepared(aim())._candidates()) == 10
        pairs = prepared(aim(workload="pairs with the outcome"))._candidates()
        assert pairs == [("a", "y"), ("b", "y"), ("group", "y"), ("len", "y")]

    def test_pairs_with_too_many_cells_are_left_out(self):
        pairs = prepared(aim(max_cells=8))._candidates()
        assert pairs == [("a", "y"), ("b", "y"), ("group", "y"), ("len", "y")]
        with pytest.raises(RegistryError, match="no pair of the workload"):
            prepared(aim(max_cells=4))

    def test_random_pairs_are_drawn_anew_from_every_seed_and_again_from_the_same(self):
        generator = prepared(aim(workload="random", pairs=3))
        drawn = [tuple(generator._drawn_pairs(Seed(s))) for s in range(40)]
        assert drawn == [tuple(generator._drawn_pairs(Seed(s))) for s in range(40)]
        assert all(len(set(pairs)) == 3 for pairs in drawn)
        assert len(set(drawn)) > 20
        assert {pair for pairs in drawn for pair in pairs} == set(generator._candidates())

    def test_a_draw_says_that_it_drew_its_workload(self):
        seed = Seed(1)
        prepared(aim(workload="random", pairs=3))._drawn_pairs(seed)
        assert seed.taken == ["the pairs that may be measured"]

    def test_columns_in_no_pair_are_measured_alone_or_not_at_all(self):
        pairs = [("a", "y")]
        assert prepared(aim())._measured(pairs) == ["a", "b", "group", "len", "y"]
        generator = prepared(aim(workload="random", pairs=1, singles="in the workload"))
        assert generator._measured(pairs) == ["a", "y"]
        assert "never measured, and uniform" in str(generator.describe())

    def test_more_random_pairs_than_there_are_is_an_error(self):
        with pytest.raises(RegistryError, match="pairs = 11 are drawn from 10"):
            prepared(aim(workload="random", pairs=11))


class TestPrivacy:
    def test_rho_is_registered_and_stated_at_the_delta(self):
        described = aim(rho="0.4").describe()
        assert described["rho"] == "0.4"
        assert aim(rho="1/3").describe()["rho"] == "1/3"
        stated = privacy_of(described)
        assert stated is not None
        assert stated.rho == Fraction("0.4")
        least = epsilon_at(stated.rho, stated.delta)
        assert least <= stated.epsilon < least + 1e-9
        assert (stated.delta, stated.fits, stated.seeded) == (
            Fraction(1, 10**6),
            "each draw",
            False,
        )

    def test_one_fit_and_many_are_different_claims(self):
        many = privacy_of(aim(epsilon="5"))
        once = privacy_of(aim(epsilon="5", fit="once", folder="fit"))
        assert many is not None
        assert once is not None
        assert (many.fits, once.fits) == ("each draw", "once")
        assert many.rho is not None
        told = privacy_lines(many, 30)[0]
        assert "is a private fit of its own" in told
        # 13.9 + 2 sqrt(13.9 log(1e6)) = 41.6 by the simple formula, and less by this one.
        assert float(epsilon_at(30 * many.rho, many.delta)) < 41.6
        assert "delta 1e-06 by adding up (rho 13.892 of zero-concentrated privacy)" in told
        assert "One private fit (epsilon 5, delta 1e-06" in privacy_lines(once, 30)[0]

    def test_what_comes_from_the_training_rows_is_said_to_be_covered_by_nothing(self):
        learned = {"group": LEARNED, "y": ["0", "1"]}
        stated = privacy_of(aim(bounds=LEARNED, categories=learned, rows=100))
        assert stated is not None
        assert [words.split(" of")[0] for words in stated.not_covered[:2]] == [
            "bounds",
            "categories",
        ]
        public = privacy_of(aim(rows=100))
        assert public is not None
        assert not [w for w in public.not_covered if LEARNED in w or "number of rows" in w]

    def test_that_a_release_has_as_many_rows_as_the_source_is_the_first_thing_not_covered(self):
        stated = privacy_of(aim(bounds=LEARNED))
        assert stated is not None
        first = "the number of rows of a release, which is exactly that of the source: one row"
        assert stated.not_covered[0].startswith(first)
        assert privacy_lines(stated, 2)[1].startswith(f"Not covered: {first}")

    def test_that_a_source_with_unannounced_gaps_fails_is_said_to_be_covered_by_nothing(self):
        stated = privacy_of(aim(rows=100))
        assert stated is not None
        (words,) = (w for w in stated.not_covered if "fails" in w)
        assert "outside its registered domain, or is missing" in words

    def test_all_fits_together_are_told_at_the_delta_that_is_registered(self):
        stated = privacy_of(aim(epsilon="1", delta="1e-9"))
        assert stated is not None
        assert stated.rho is not None
        told = privacy_lines(stated, 5)[0]
        # At 1e-6, which nobody registered, it would be 1.831.
        assert "or epsilon 2.329, delta 1e-09 by adding up" in told
        assert 2.328 < epsilon_at(5 * stated.rho, Fraction("1e-9")) <= 2.329

    def test_settings_can_be_sealed_and_are_the_same_after_preparing(self):
        generator = aim(workload="random", pairs=2)
        before = canonical_bytes(dict(generator.describe()))
        assert before == canonical_bytes(dict(prepared(generator).describe()))
        assert isinstance(generator, Generator)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": "1", "rho": "1"}, "epsilon, or rho"),
        ({"delta": "1"}, "delta is above 0 and below 1"),
        ({"algorithm": "mwem"}, 'algorithm is "aim" or "mst"'),
        ({"workload": "random"}, "says how many pairs"),
        ({"pairs": 3}, "says how many pairs"),
        ({"workload": "pairs with the outcome", "outcome": None}, "needs outcome"),
        ({"algorithm": "mst", "workload": "random", "pairs": 3}, "options of AIM"),
        ({"algorithm": "mst", "rounds": 3}, "options of AIM"),
        ({"fit": "once"}, "names the folder"),
        ({"folder": "fit"}, "names the folder"),
        ({"fit": "once", "folder": "../fit"}, "inside the data folders"),
        ({"fit": "once", "folder": "f", "workload": "random", "pairs": 2}, "drawn anew"),
        ({"bins": 1}, "bins is a whole number"),
        ({"bounds": {"a": ["1", "1"]}}, "bounds of 'a' rise"),
        ({"bounds": {"a": "wide"}}, "two numbers"),
        ({"bounds": "public"}, "mapping by column"),
        ({"categories": {"y": ["0", "0"]}}, "different texts"),
        ({"singles_share": "1"}, "singles_share is above 0 and below 1"),
        ({"values": "left"}, 'values is "middle" or "uniform"'),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        aim(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": {"a": ["0", "1"], "len": ["0", "1"]}}, "'b' has neither bounds nor categories"),
        ({"bounds": {**BOUNDS, "y": ["0", "1"]}}, "'y' has both"),
        ({"bounds": {**BOUNDS, "z": ["0", "1"]}}, r"bounds has \['z'\]"),
        ({"bounds": {**BOUNDS, "group": ["0", "1"]}, "categories": {"y": LEARNED}}, "has text"),
        ({"outcome": "z"}, r"outcome name \['z'\]"),
        ({"categories": {"group": LEARNED, "y": ["no"]}}, "'y', and its categories have others"),
    ],
)
def test_a_source_that_is_not_as_declared_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        prepared(aim(**options))


def test_the_kept_fit_has_a_folder_that_preparing_may_change(tmp_path: Path) -> None:
    assert kept_folders("aim", {"folder": "fit"}, tmp_path) == [str(tmp_path / "fit")]
    assert kept_folders("aim", {}, tmp_path) == []


def test_factors_are_kept_and_read_as_they_were() -> None:
    factors = Factors({("a", "y"): np.array([[0.5, 1.0]]), ("b",): np.zeros(3)}, 400.5)
    again = Factors.from_tables(factors.to_tables())
    assert again.total == factors.total
    assert list(again.logs) == list(factors.logs)
    np.testing.assert_array_equal(again.logs[("a", "y")], factors.logs[("a", "y")])
    with pytest.raises(TableError, match="holds no factors"):
        Factors.from_tables({"a": np.zeros(2)})


def test_it_is_found_by_its_name_and_needs_nothing_to_describe_itself() -> None:
    options = {"rho": "1", "delta": "1e-6", "bounds": BOUNDS, "categories": CATEGORIES}
    before = set(sys.modules)
    generator = load_generator("aim", options)
    assert isinstance(generator, Aim)
    prepared(generator).describe()
    # They start threads, after which a process that forks may hang.
    assert not {"jax", "mbi", "polars"} & (set(sys.modules) - before)
