"""Mixed tables as numbers and codes, the way back, and the options that generators share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from proxyguard.adapters.tabular import (
    CATEGORIES,
    CORRUPTION,
    TRAINING_ROWS,
    SharedOptions,
    Slot,
    read_tabular,
    sampling_stream,
)
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError


def text(*values: str) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def messy() -> pd.DataFrame:
    """Every kind of column: gaps, whole numbers, constants, nothing at all, missing text."""
    return pd.DataFrame(
        {
            "rate": [0.25, np.nan, 0.75, 0.5],
            "class": text("b", "a", "", "a"),
            "count": [3.0, 9.0, 4.0, 4.0],
            "grade": [2.0, 1.0, np.nan, 2.0],
            "same": [7.0] * 4,
            "empty": [np.nan] * 4,
            "only": text("x", "x", "x", "x"),
        }
    ).set_index(pd.Index([10, 11, 12, 13]))


def test_a_table_becomes_complete_numbers_and_codes_in_the_stated_order() -> None:
    table = read_tabular(messy(), discrete=["grade"])
    assert table.number_names == ("rate", "count", "same")
    assert table.code_names == ("class", "grade", "only", "rate (is missing)")
    # The lower of the two middle numbers, .25 .5 .75: one that occurs.
    np.testing.assert_array_equal(table.numbers[:, 0], [0.25, 0.5, 0.75, 0.5])
    np.testing.assert_array_equal(table.codes[:, 0], [2, 1, 0, 1])  # "", "a", "b"
    np.testing.assert_array_equal(table.codes[:, 1], [1, 0, 2, 1])  # 1, 2, missing
    np.testing.assert_array_equal(table.codes[:, 3], [0, 1, 0, 0])
    assert table.sizes == (3, 3, 1, 2)
    assert table.order == (
        Slot("number", 0), Slot("code", 3), Slot("code", 0), Slot("number", 1), Slot("code", 1),
        Slot("number", 2), Slot("code", 2),
    )  # fmt: skip
    assert len(table) == 4


@pytest.mark.parametrize("discrete", [(), ("grade",), ("grade", "rate", "empty", "class")])
def test_what_was_read_is_given_back(discrete: tuple[str, ...]) -> None:
    table = read_tabular(messy(), discrete=discrete)
    back = table.table(table.numbers, table.codes)
    pd.testing.assert_frame_equal(back, messy().reset_index(drop=True))


numbers = st.one_of(
    st.none(),
    st.integers(-50, 50).map(float),
    st.floats(-1e9, 1e9, allow_nan=False),
)
texts = st.text(alphabet="ab 1.\u00e9", max_size=3)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, list[str]]:
    n = draw(st.integers(1, 12))
    columns: dict[str, Any] = {}
    for k in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            columns[f"n{k}"] = np.array(
                draw(st.lists(numbers, min_size=n, max_size=n)), dtype=np.float64
            )
        else:
            columns[f"t{k}"] = text(*draw(st.lists(texts, min_size=n, max_size=n)))
    discrete = [name for name in columns if draw(st.booleans())]
    return pd.DataFrame(columns), discrete


@given(tables(), st.sampled_from(["source", "none"]))
def test_every_table_comes_back_as_it_was(
    given_table: tuple[pd.DataFrame, list[str]], clip: Any
) -> None:
    source, discrete = given_table
    if all(source[name].isna().all() and name not in discrete for name in source):
        with pytest.raises(RegistryError, match="nothing to learn from"):
            read_tabular(source, discrete=discrete)
        return
    table = read_tabular(source, discrete=discrete, clip=clip)
    assert np.isfinite(table.numbers).all()
    assert ((table.codes >= 0) & (table.codes < np.array(table.sizes, dtype=int))).all()
    assert len(table.order) == table.numbers.shape[1] + table.codes.shape[1]
    pd.testing.assert_frame_equal(table.table(table.numbers, table.codes), source)


@given(tables(), st.integers(0, 2**32 - 1))
def test_whatever_a_model_gives_a_release_has_values_of_the_source_s_kinds(
    given_table: tuple[pd.DataFrame, list[str]], seed: int
) -> None:
    source, _ = given_table
    rng = np.random.default_rng(seed)
    source["t"] = text(*["u"] * len(source))  # at least this can be learned
    table = read_tabular(source)
    sampled = rng.normal(scale=1e6, size=(30, len(table.number_names)))
    codes = np.column_stack([rng.integers(0, size, 30) for size in table.sizes])
    release = table.table(sampled, codes)
    assert list(release.columns) == list(source.columns)
    assert list(release.dtypes) == list(source.dtypes)
    for name in source:
        known = source[name].dropna()
        if source[name].dtype.kind != "f":
            assert set(release[name]) <= set(source[name])
        elif len(known):
            inside = release[name].dropna()
            assert inside.between(known.min(), known.max()).all()
            if (known == np.rint(known)).all():
                assert (inside == np.rint(inside)).all()
            if len(known) == len(source):
                assert not release[name].isna().any()
        else:
            assert release[name].isna().all()


def test_numbers_leave_the_range_of_the_source_only_without_clipping() -> None:
    source = pd.DataFrame({"rate": [0.0, 0.5], "count": [1.0, 4.0]})
    given_numbers, codes = [[-3.0, 9.7]], np.empty((1, 0), dtype=int)
    clipped = read_tabular(source).table(given_numbers, codes)
    assert clipped.to_numpy().tolist() == [[0.0, 4.0]]
    free = read_tabular(source, clip="none").table(given_numbers, codes)
    assert free.to_numpy().tolist() == [[-3.0, 10.0]]  # whole numbers all the same


def test_numbers_of_a_network_are_taken_in_their_precision() -> None:
    table = read_tabular(pd.DataFrame({"x": [0.0, 1.0, 0.5]}))
    release = table.table(np.full((2, 1), 0.25, dtype=np.float32), np.empty((2, 0), dtype=np.uint8))
    assert release["x"].tolist() == [0.25, 0.25]
    assert release["x"].dtype == np.float64


def test_a_release_does_not_change_what_the_model_gave() -> None:
    table = read_tabular(messy())
    sampled = table.numbers + 0.4
    kept = sampled.copy()
    table.table(sampled, table.codes)
    np.testing.assert_array_equal(sampled, kept)


def test_truth_values_whole_numbers_and_dates_are_read_as_the_audit_has_them() -> None:
    source = pd.DataFrame(
        {
            "yes": [True, False, True],
            "n": np.array([1, 2, 3], dtype=np.int32),
            "gap": pd.array([1, None, 3], dtype="Int64"),
            "day": pd.to_datetime(["2026-01-02", None, "2026-01-01"]),
            "kind": pd.Categorical(["u", "v", "u"]),
        }
    )
    table = read_tabular(source)
    assert table.number_names == ("n", "gap")
    assert table.code_names == ("yes", "day", "kind", "gap (is missing)")
    back = table.table(table.numbers, table.codes)
    assert back["yes"].tolist() == [True, False, True]
    assert back["n"].tolist() == [1.0, 2.0, 3.0]
    assert back["gap"].isna().tolist() == [False, True, False]
    assert back["day"].tolist() == ["2026-01-02 00:00:00", "", "2026-01-01 00:00:00"]
    assert back["kind"].tolist() == ["u", "v", "u"]


def test_some_rows_keep_the_categories_and_ranges_of_the_source() -> None:
    table = read_tabular(messy())
    few = table.rows(np.array([0, 0]))
    assert len(few) == 2
    assert few.sizes == table.sizes
    np.testing.assert_array_equal(few.high, table.high)
    assert few.table(few.numbers, few.codes)["class"].tolist() == ["b", "b"]


def test_a_column_of_too_many_categories_is_refused_by_name() -> None:
    source = pd.DataFrame({"x": np.arange(CATEGORIES + 1.0)})
    source["id"] = [f"p{k}" for k in range(CATEGORIES + 1)]
    with pytest.raises(RegistryError, match=r"copula: 'id' has 1,001 categories, .*exclude"):
        read_tabular(source, where="copula")
    few = source.iloc[:-1]
    assert read_tabular(few, discrete=["x"]).sizes == (CATEGORIES, CATEGORIES)
    with pytest.raises(RegistryError, match="'x' has 1,001 categories"):
        read_tabular(source.drop(columns="id"), discrete=["x"])


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (messy().iloc[:0], {}, "nothing to learn from 0 rows"),
        (messy()[["empty"]], {}, r"nothing to learn from 4 rows of the columns \['empty'\]"),
        (messy()[[]], {}, "nothing to learn from 4 rows"),
        (messy(), {"discrete": ["nope"]}, r"discrete names \['nope'\], which the source has not"),
        (pd.DataFrame({"x": [1.0, -np.inf]}), {}, "'x' is -inf in row 1 of the source"),
        (pd.DataFrame({"x": [np.inf]}), {"discrete": ["x"]}, "'x' is inf in row 0"),
    ],
)
def test_a_source_that_cannot_be_learned_is_refused_in_words(
    source: pd.DataFrame, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(RegistryError, match=words):
        read_tabular(source, **options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("nan", "gave nan for 'count', row 2; it did not train to finite numbers"),
        ("code", "gave code 3 for 'class', row 0, which has 3 categories"),
        ("negative", r"gave code -1 for 'rate \(is missing\)', row 1"),
        ("shape", r"of the shapes \(\(4, 4\), \(4, 3\)\).* and got \(3, 4\) and \(4, 3\)"),
        ("empty", r"with at least one row, and got \(0, 4\) and \(0, 3\)"),
    ],
)
def test_what_a_model_cannot_have_meant_fails_the_draw(change: str, words: str) -> None:
    table = read_tabular(messy().drop(columns="grade").assign(more=[1.5, 2.0, 2.0, 1.0]))
    sampled, codes = table.numbers.copy(), table.codes.copy()
    if change == "nan":
        sampled[2, 1] = np.nan
    elif change == "code":
        codes[0, 0] = 3
    elif change == "negative":
        codes[1, 2] = -1
    elif change == "shape":
        sampled = sampled[:3]
    else:
        sampled, codes = sampled[:0], codes[:0]
    with pytest.raises(DrawError, match=words):
        table.table(sampled, codes)


@pytest.mark.parametrize(
    ("label", "code"), [("1", 1), (1, 1), (1.0, 1), ("1.0", 1), (2, 2), ("", 3), (0.5, 0)]
)
def test_a_category_of_numbers_is_named_by_any_spelling(label: Any, code: int) -> None:
    source = pd.DataFrame({"grade": [2.0, 1.0, np.nan, 0.5]})
    assert read_tabular(source, discrete=["grade"]).code_of("grade", label) == code


def test_of_two_texts_that_are_one_number_the_spelling_decides() -> None:
    table = read_tabular(pd.DataFrame({"t": text("1", "1.0", "True")}))
    assert [table.code_of("t", label) for label in ("1", "1.0", True, "01")] == [0, 1, 2, 0]


def test_a_category_or_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    table = read_tabular(messy(), where="tvae")
    with pytest.raises(RegistryError, match=r"tvae: condition names 'c' of 'class'.*'', 'a', 'b'"):
        table.code_of("class", "c")
    with pytest.raises(RegistryError, match=r"'count', which holds numbers; list it in discrete"):
        table.code_of("count", 3)
    with pytest.raises(RegistryError, match=r"corruption names 'nope', which the source has not"):
        table.code_column("nope", "corruption")


def options(**given_options: Any) -> SharedOptions:
    return SharedOptions.of(given_options, "test")


def labelled(n: int = 400) -> pd.DataFrame:
    """Four fifths of one label and one of another; a third that one row has."""
    labels = ["no"] * (n - n // 5 - 1) + ["yes"] * (n // 5) + ["rare"]
    return pd.DataFrame({"row": np.arange(float(n)), "y": text(*labels)})


def test_a_draw_without_options_of_its_own_is_trained_on_the_source_and_says_nothing() -> None:
    seed, table = Seed(1), options().read(labelled())
    assert options().training(table, seed) is table
    assert (seed.taken, seed.members) == ([], None)
    assert not options().redraws_training


def test_training_rows_are_drawn_without_replacement_and_named_as_members() -> None:
    shared, seed = options(train_rows=100), Seed(5)
    trained = shared.training(shared.read(labelled()), seed)
    rows = trained.numbers[:, 0].astype(int)
    assert len(set(rows)) == 100
    # As a study does that takes them first from default_rng(seed).
    np.testing.assert_array_equal(rows, np.random.default_rng(5).choice(400, 100, replace=False))
    np.testing.assert_array_equal(seed.members, np.sort(rows))
    assert seed.taken == [TRAINING_ROWS]
    other = shared.training(shared.read(labelled()), Seed(6))
    assert set(other.numbers[:, 0]) != set(trained.numbers[:, 0])


def test_a_bootstrap_of_training_rows_has_them_more_than_once() -> None:
    shared, seed = options(bootstrap=True), Seed(5)
    trained = shared.training(shared.read(labelled()), seed)
    assert len(trained) == 400
    assert seed.members is not None
    # 1 - 1/e of 400 rows are expected, with a standard deviation of about 6.2.
    assert 215 < seed.members.size < 290
    assert options(bootstrap=True, train_rows=900).read(labelled()) is not None  # more than rows


def test_all_rows_without_replacement_are_no_stage_that_is_redrawn() -> None:
    shared, seed = options(train_rows=400), Seed(5)
    trained = shared.training(shared.read(labelled()), seed)
    np.testing.assert_array_equal(trained.numbers, shared.read(labelled()).numbers)
    assert (seed.taken, seed.members) == ([], None)


def changed(shared: SharedOptions, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labels of a draw's training rows, as they were and as they are trained on."""
    table = shared.read(labelled())
    trained = shared.training(table, Seed(seed))
    rows = trained.numbers[:, 0].astype(int)
    return table.codes[rows, 0], trained.codes[:, 0]


def test_flipped_labels_are_all_wrong_and_any_other_one() -> None:
    shared = options(corruption={"column": "y", "share": "0.2", "kind": "flip"})
    before, after = changed(shared, 3)
    assert (before != after).sum() == 80
    # Of a flipped "no" (code 0) half become "rare" (1): at most a one-in-a-million share.
    flipped = after[(before == 0) & (after != 0)]
    rare = int((flipped == 1).sum())
    assert binom.cdf(rare, flipped.size, 0.5) > 1e-6
    assert binom.sf(rare - 1, flipped.size, 0.5) > 1e-6


def test_overwritten_labels_are_the_stated_one_some_of_which_were_it_already() -> None:
    shared = options(
        train_rows=200,
        corruption={"column": "y", "share": "0.25", "kind": "overwrite", "label": "yes"},
    )
    before, after = changed(shared, 3)
    assert set(after[before != after]) == {2}
    assert 0 < (before != after).sum() < 50
    seed = Seed(3)
    shared.training(shared.read(labelled()), seed)
    assert seed.taken == [TRAINING_ROWS, CORRUPTION]
    # One stream: the rows first, then which of them.
    rng = np.random.default_rng(3)
    rows = rng.choice(400, 200, replace=False)
    expected = np.unique(rng.choice(200, 50, replace=False)[:])
    was = read_tabular(labelled()).codes[rows, 0]
    np.testing.assert_array_equal(np.flatnonzero(before != after), expected[was[expected] != 2])


def test_corruption_leaves_the_source_as_it_is() -> None:
    shared = options(corruption={"column": "y", "share": "1", "kind": "flip"})
    table = shared.read(labelled())
    kept = table.codes.copy()
    shared.training(table, Seed(1))
    np.testing.assert_array_equal(table.codes, kept)


def test_a_condition_says_the_category_of_every_row() -> None:
    shared = options(rows=7, condition={"column": "y", "value": "yes"})
    table = shared.read(labelled())
    column, codes = shared.wanted(table, table) or (None, np.empty(0))
    assert column == 0
    assert codes.tolist() == [2] * 7
    equal = options(rows=7, condition={"column": "y", "equal": True})
    assert (equal.wanted(table, table) or ())[1].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert options().wanted(table, table) is None
    assert options().release_rows(table) == 400
    assert equal.release_rows(table) == 7


def test_a_category_that_a_draw_was_not_trained_on_fails_or_has_no_rows() -> None:
    shared = options(rows=4, condition={"column": "y", "value": "rare"})
    table = shared.read(labelled())
    trained = table.rows(np.arange(390))
    with pytest.raises(DrawError, match=r"no row that this draw is trained on has 'rare' in 'y'"):
        shared.wanted(table, trained)
    equal = options(rows=4, condition={"column": "y", "equal": True})
    assert (equal.wanted(table, trained) or ())[1].tolist() == [0, 2, 0, 2]


def test_the_stream_of_sampling_has_nothing_of_the_stream_of_training() -> None:
    seed = Seed(9)
    sampling = sampling_stream(seed, "sampling").random(1000)
    assert seed.taken == ["sampling"]
    assert not np.isin(sampling, np.random.default_rng(9).random(5000)).any()
    assert not np.isin(sampling, sampling_stream(Seed(10), "sampling").random(5000)).any()


def test_shared_options_are_described_as_plain_values() -> None:
    shared = options(
        rows=10,
        discrete=["a", "a"],
        train_rows=5,
        corruption={"column": "y", "share": 0.1, "kind": "overwrite", "label": 1},
        condition={"column": "y", "value": 1.0},
        clip="none",
    )
    described = shared.describe()
    canonical_bytes(described)
    assert described["discrete"] == ["a"]
    assert described["corruption"] == {
        "column": "y", "share": "1/10", "kind": "overwrite", "label": "1",
    }  # fmt: skip
    assert described["condition"] == {"column": "y", "value": "1"}
    assert options(condition={"column": "y", "equal": True}).describe()["condition"] == {
        "column": "y",
        "equal": True,
    }
    assert set(described) == set(options().describe())


@pytest.mark.parametrize(
    ("given_options", "words"),
    [
        ({"rows": 0}, "test: rows is a whole number of at least 1"),
        ({"train_rows": True}, "test: train_rows is a whole number"),
        ({"discrete": "y"}, "discrete is a list of column names, got 'y'"),
        ({"discrete": [1]}, "discrete is a list of column names"),
        ({"bootstrap": "yes"}, "bootstrap is true or false"),
        ({"clip": "range"}, 'clip is "source" or "none", got \'range\''),
        ({"corruption": "y"}, "corruption is {column, share, kind"),
        ({"corruption": {"column": "y", "share": "0.1"}}, "corruption is {column"),
        ({"corruption": {"column": "y", "share": "0.1", "kind": "flip", "label": "a"}}, "label}"),
        ({"corruption": {"column": "y", "share": "0.1", "kind": "overwrite"}}, "corruption is"),
        ({"corruption": {"column": "y", "share": "2", "kind": "flip"}}, "share is a number above"),
        ({"corruption": {"column": "y", "share": "0.1", "kind": "flip", "x": 1}}, "got .*'x': 1"),
        ({"condition": {"column": "y"}}, r"condition is {column, value} or"),
        ({"condition": {"column": "y", "equal": False}}, "condition is"),
        ({"condition": {"column": "y", "value": "a", "equal": True}}, "condition is"),
        ({"condition": {"column": 1, "value": "a"}}, "condition is"),
        ({"condition": ["y"]}, "condition is"),
    ],
)
def test_options_that_mean_nothing_are_refused(given_options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        options(**given_options)


@pytest.mark.parametrize(
    ("given_options", "words"),
    [
        ({"train_rows": 401}, "train_rows is 401, and the source has 400 rows"),
        ({"corruption": {"column": "row", "share": "1", "kind": "flip"}}, "which holds numbers"),
        (
            {"corruption": {"column": "y", "share": "1", "kind": "overwrite", "label": "maybe"}},
            "corruption names 'maybe' of 'y'",
        ),
        ({"corruption": {"column": "z", "share": "1", "kind": "flip"}}, "corruption names 'z'"),
        ({"corruption": {"column": "one", "share": "1", "kind": "flip"}}, "one category alone"),
        ({"condition": {"column": "y", "value": "maybe"}}, "condition names 'maybe' of 'y'"),
        ({"condition": {"column": "z", "equal": True}}, "condition names 'z'"),
    ],
)
def test_options_that_the_source_cannot_honour_are_refused_when_it_is_read(
    given_options: dict[str, Any], words: str
) -> None:
    with pytest.raises(RegistryError, match=words):
        options(**given_options).read(labelled().assign(one="u"))
