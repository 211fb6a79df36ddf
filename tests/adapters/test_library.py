"""The learning procedure chooses what a plain loop would choose, and says what it redrew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyguard.adapters.library import (
    Library,
    best_temperature,
    best_threshold,
    last_fifth,
    split_table,
)
from proxyguard.adapters.pipelines import make_estimator
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.protocol import Seed, predict
from proxyguard.errors import DrawError, RegistryError, TableError
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome

Array = NDArray[np.float64]
BINARY = Outcome(column="y", positive="yes")
NAMES = ("a", "b")

HELPER = """\
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Base(ClassifierMixin, BaseEstimator):
    shift = 0.0
    fitted = []

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        Base.fitted.append(len(y))
        return self

    def predict_proba(self, x):
        p = np.clip(1.0 / (1.0 + np.exp(-x[:, 0])) + self.shift, 0.0, 1.0)
        return np.stack([1.0 - p, p], axis=1)


class Alpha(Base):
    pass


class Zeta(Base):
    pass


class Worse(Base):
    shift = 0.3


class Random(Base):
    def __init__(self, random_state=None, depth=1):
        self.random_state, self.depth = random_state, depth
"""


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of estimators that answer at once and count their fits."""
    (tmp_path / "pg_estimators.py").write_text(HELPER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pg_estimators", raising=False)
    import pg_estimators  # type: ignore[import-not-found]

    return pg_estimators


def table(n: int = 100, seed: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    y = np.where(a + 0.5 * rng.normal(size=n) > 0, "yes", "no").astype(object)
    return pd.DataFrame({"b": b, "y": pd.Series(y, dtype=object), "a": a})


def library(*names: str, **declared: Any) -> Library:
    return Library(Procedure(library=names, **declared), BINARY, NAMES)


def costs_by_a_loop(y: Array, p: Array, weight: float, count: int) -> list[float]:
    """The cost of every threshold, record by record: missed positives and false alarms."""
    costs = []
    for threshold in np.linspace(0.0, 1.0, count):
        cost = 0.0
        for outcome, probability in zip(y.tolist(), p.tolist(), strict=True):
            decided = probability >= threshold  # on the threshold is positive
            if outcome == 1.0 and not decided:
                cost += weight
            if outcome == 0.0 and decided:
                cost += 1.0
        costs.append(cost)
    return costs


@given(
    # Multiples of a sixteenth: probabilities on thresholds, and sums without rounding.
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 16)), min_size=1, max_size=20),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 5.0]),
    st.sampled_from([1, 2, 5, 9, 17, 33]),
)
def test_the_threshold_is_the_first_cheapest_of_a_plain_loop(
    records: list[tuple[int, int]], weight: float, count: int
) -> None:
    y = np.array([float(outcome) for outcome, _ in records])
    p = np.array([place / 16 for _, place in records])
    costs = costs_by_a_loop(y, p, weight, count)
    best = costs.index(min(costs))
    threshold, loss = best_threshold(y, p, weight, count)
    assert threshold == np.linspace(0.0, 1.0, count)[best]
    assert loss == min(costs) / (max(weight, 1.0) * y.size)
    assert 0.0 <= loss <= 1.0


def test_of_equally_cheap_thresholds_the_first_is_taken() -> None:
    y, p = np.array([0.0, 1.0]), np.array([0.25, 0.75])
    # 0.5 and 0.75 both divide the two; 0.25 calls the first one positive.
    assert best_threshold(y, p, 1.0, 5) == (0.5, 0.0)
    # With one class there is nothing to lose at the very first threshold.
    assert best_threshold(np.ones(3), np.array([0.2, 0.4, 0.9]), 5.0, 501) == (0.0, 0.0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_miscalibration_is_recovered(temperature: float) -> None:
    rng = np.random.default_rng(20260819)
    logit = rng.normal(scale=1.5, size=20_000)
    y = (rng.random(logit.size) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float64)
    p = 1.0 / (1.0 + np.exp(-temperature * logit))
    true = 1.0 / (1.0 + np.exp(-logit))
    # The inverse temperature b is a logistic coefficient: its information at the truth is
    # the sum of p (1 - p) (T z)^2, and T = 1/b has the standard error T^2 se(b).
    information = float(np.sum(true * (1.0 - true) * (temperature * logit) ** 2))
    error = temperature**2 / np.sqrt(information)
    assert abs(best_temperature(y, p) - temperature) < 5 * error
    assert 5 * error < 0.12 * temperature  # the check has teeth


def test_calibrated_probabilities_are_what_the_procedure_predicts(helper: Any) -> None:
    frame = table()
    fitted = library("pg_estimators:Alpha", calibrate="temperature").fit(frame, frame, Seed(1))
    assert fitted.temperature is not None
    assert fitted.temperature != 1.0
    x = frame[["a", "b"]].to_numpy()
    raw = fitted.estimator.predict_proba(x)[:, 1]
    logit = np.log(raw) - np.log1p(-raw)
    expected = 1.0 / (1.0 + np.exp(-logit / fitted.temperature))
    np.testing.assert_allclose(predict(fitted, x, BINARY), expected, rtol=1e-12)
    assert fitted.threshold is None  # nothing was said about thresholds


@pytest.mark.parametrize("order", [("Zeta", "Alpha"), ("Alpha", "Zeta")])
@pytest.mark.parametrize("choose", [None, {"thresholds": 11}])
def test_a_tie_between_pipelines_goes_to_the_first_of_the_alphabet(
    helper: Any, order: tuple[str, str], choose: dict[str, Any] | None
) -> None:
    names = [f"pg_estimators:{name}" for name in order]
    fitted = library(*names, choose=choose).fit(table(), table(seed=9), Seed(1))
    assert fitted.selected == "pg_estimators:Alpha"
    assert type(fitted.estimator) is helper.Alpha


def test_the_pipeline_with_the_least_validation_loss_is_kept(helper: Any) -> None:
    validation = table(seed=9)
    fitted = library("pg_estimators:Worse", "pg_estimators:Zeta").fit(table(), validation, Seed(1))
    assert fitted.selected == "pg_estimators:Zeta"
    p = 1.0 / (1.0 + np.exp(-validation["a"].to_numpy()))
    y = (validation["y"] == "yes").to_numpy(dtype=np.float64)
    assert fitted.notes["loss"] == pytest.approx(np.mean((p - y) ** 2), rel=1e-12)


def test_the_threshold_is_chosen_on_the_validation_part_by_the_declared_cost(helper: Any) -> None:
    validation = table(seed=9)
    y = (validation["y"] == "yes").to_numpy(dtype=np.float64)
    p = 1.0 / (1.0 + np.exp(-validation["a"].to_numpy()))
    found = {}
    for loss, weight in (("cost", 4.0), ("error", 1.0)):
        choose = {"loss": loss, "false_negative": "4", "thresholds": 21}
        fitted = library("pg_estimators:Alpha", choose=choose).fit(table(), validation, Seed(1))
        costs = costs_by_a_loop(y, p, weight, 21)
        assert fitted.threshold == np.linspace(0.0, 1.0, 21)[costs.index(min(costs))]
        assert fitted.notes["loss"] == pytest.approx(min(costs) / (weight * len(y)), rel=1e-12)
        found[loss] = fitted.threshold
    assert found["cost"] < found["error"]  # missing a positive costs four times as much


def test_one_pipeline_without_a_rule_needs_no_validation(helper: Any) -> None:
    fitted = library("pg_estimators:Alpha").fit(table(), None, Seed(1))
    assert (fitted.threshold, fitted.temperature, dict(fitted.notes)) == (None, None, {})


@pytest.mark.parametrize("label", ["yes", "no"])
def test_a_release_of_one_class_teaches_nothing(label: str) -> None:
    with pytest.raises(DrawError, match="one class only"):
        library("logistic").fit(table().assign(y=label), table(), Seed(1))


def test_a_release_that_lacks_a_feature_or_has_another_outcome_is_an_error() -> None:
    with pytest.raises(TableError, match=r"columns \['b'\] are missing"):
        library("logistic").fit(table().drop(columns="b"), None, Seed(1))
    third = table()
    third.loc[0, "y"] = "maybe"
    with pytest.raises(TableError, match="the release: 'y'"):
        library("logistic").fit(third, None, Seed(1))


def test_validation_from_the_release_is_a_fifth_of_it_and_a_recorded_stage(helper: Any) -> None:
    seed = Seed(1)
    chosen = library("pg_estimators:Alpha", validation="release", choose={"thresholds": 11})
    # The development part is there and is not looked at: it would fail.
    chosen.fit(table(100), table(5).assign(y="maybe"), seed)
    assert helper.Base.fitted == [80]
    assert seed.taken == ["validation part of the release"]


def test_validation_from_the_end_of_the_release_takes_no_seed(helper: Any) -> None:
    seed, rows = Seed(1), table(52)
    declared = {"validation": "end of release", "choose": {"loss": "cost", "thresholds": 11}}
    chosen = library("pg_estimators:Alpha", **declared)
    fitted = chosen.fit(rows, None, seed)
    assert helper.Base.fitted[-1] == 41  # four fifths of 52, rounded down
    assert seed.taken == []
    last = rows.iloc[41:]
    p = 1.0 / (1.0 + np.exp(-last["a"].to_numpy()))
    y = (last["y"] == "yes").to_numpy(dtype=np.float64)
    assert fitted.notes["loss"] == pytest.approx(min(costs_by_a_loop(y, p, 1.0, 11)) / 11)
    with pytest.raises(DrawError, match="has no last fifth"):
        last_fifth(rows.iloc[:1])


@pytest.mark.parametrize("name", ["balanced_logistic", "balanced_boosting"])
def test_balanced_models_take_text_and_gaps_and_give_classes_equal_weight(name: str) -> None:
    rng = np.random.default_rng(3)
    kind = rng.choice(["x", "y", "z"], size=600)
    number = rng.normal(size=600)
    y = (rng.random(600) < np.where(kind == "x", 0.25, 0.02)).astype(float)
    number[:50] = np.nan
    mixed = make_estimator(name, {}, Seed(1)).fit(pd.DataFrame({"k": kind, "n": number}), y)
    asked = pd.DataFrame({"k": ["x", "y", "never seen"], "n": [np.nan, 0.0, 1.0]})
    p = mixed.predict_proba(asked)[:, 1]
    assert p[0] > 0.5 > p[1]  # one in four is the larger half once classes weigh the same
    numbers = make_estimator(name, {}, Seed(1)).fit(number[:, None], y)  # an array: no text
    assert np.all(np.isfinite(numbers.predict_proba([[np.nan]])))
    assert type(mixed).__module__.startswith("proxyguard.models")


def test_the_source_is_fitted_whole_and_chooses_on_the_validation_part(helper: Any) -> None:
    seed = Seed(1)
    chosen = library("pg_estimators:Alpha", validation="release", choose={"thresholds": 11})
    chosen.fit(table(100), table(50), seed, source=True)
    assert helper.Base.fitted == [100]
    assert seed.taken == []


def test_where_nothing_is_chosen_the_whole_release_is_fitted(helper: Any) -> None:
    seed = Seed(1)
    library("pg_estimators:Alpha", validation="release").fit(table(100), None, seed)
    assert helper.Base.fitted == [100]
    assert seed.taken == []


def test_a_release_too_small_to_divide_is_an_error(helper: Any) -> None:
    frame = table(100)
    frame["y"] = ["yes", *["no"] * 99]
    chosen = library("pg_estimators:Alpha", validation="release", choose={"thresholds": 11})
    with pytest.raises(DrawError, match="cannot be divided"):
        chosen.fit(frame, None, Seed(1))


@given(st.integers(0, 2**40), st.sampled_from([0.2, 0.25, 0.5]))
def test_a_divided_table_loses_nothing_and_keeps_the_share_of_each_class(
    seed: int, fraction: float
) -> None:
    frame = pd.DataFrame({"x": range(40), "y": [1.0] * 20 + [0.0] * 20})
    classes = frame["y"].to_numpy()
    first, second = split_table(frame, classes, fraction, seed)
    assert sorted([*first["x"], *second["x"]]) == list(range(40))
    assert second["y"].sum() == 20 * fraction
    assert len(second) == 40 * fraction
    assert list(second.index) == list(range(len(second)))
    again = split_table(frame, classes, fraction, seed)
    pd.testing.assert_frame_equal(again[1], second)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("logistic", []),
        ("fixed_logistic", ["logistic fit"]),
        ("onehot_logistic", ["logistic fit"]),
        ("forest", ["forest fit"]),
        ("boosting", ["boosting fit"]),
    ],
)
def test_a_pipeline_says_whether_it_takes_a_seed(name: str, stages: list[str]) -> None:
    seed = Seed(41)
    last = make_estimator(name, {}, seed).model
    assert seed.taken == stages
    assert last.get_params()["random_state"] == (41 if stages else None)


def test_the_pipelines_are_those_of_the_paper() -> None:
    # The paper's appendix "Learning procedure": 300 trees with three records a leaf, 200
    # iterations of 31 leaves at rate 0.05, and logistic regression with C = 1.
    forest = make_estimator("forest", {}, Seed(0)).model.get_params()
    assert (forest["n_estimators"], forest["min_samples_leaf"]) == (300, 3)
    boosting = make_estimator("boosting", {}, Seed(0)).model.get_params()
    assert (boosting["max_iter"], boosting["max_leaf_nodes"], boosting["learning_rate"]) == (
        200,
        31,
        0.05,
    )
    for name in ("logistic", "fixed_logistic", "onehot_logistic"):
        assert make_estimator(name, {}, Seed(0)).model.get_params()["C"] == 1.0


def test_pipelines_of_a_library_record_their_stages_in_the_draw() -> None:
    seed = Seed(2)
    chosen = library("fixed_logistic", "logistic", choose={"thresholds": 11})
    chosen.fit(table(), table(seed=9), seed)
    assert seed.taken == ["logistic fit"]


def test_an_estimator_by_import_path_gets_its_options_and_the_seed(helper: Any) -> None:
    seed = Seed(23)
    estimator = make_estimator("pg_estimators:Random", {"depth": 4}, seed)
    assert (estimator.random_state, estimator.depth) == (23, 4)
    assert seed.taken == ["Random fit"]
    plain = Seed(23)
    make_estimator("pg_estimators:Alpha", {}, plain)
    assert plain.taken == []


def test_an_estimator_inside_another_gets_the_seed_too() -> None:
    from sklearn.tree import DecisionTreeClassifier

    seed = Seed(23)
    options = {"estimator": DecisionTreeClassifier()}
    estimator = make_estimator("sklearn.ensemble:BaggingClassifier", options, seed)
    assert estimator.get_params()["estimator__random_state"] == 23
    assert estimator.get_params()["random_state"] == 23
    assert seed.taken == ["BaggingClassifier fit"]


def test_an_estimator_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(RegistryError, match="sklearn:Absent"):
        make_estimator("sklearn:Absent", {}, Seed(1))
    with pytest.raises(RegistryError, match='no procedure "absent"'):
        make_estimator("absent", {}, Seed(1))


def test_one_seed_fits_one_model_and_missing_numbers_are_imputed() -> None:
    frame = table()
    frame.loc[::5, "a"] = np.nan
    x = table(seed=9)[["a", "b"]].to_numpy()
    one = library("logistic").fit(frame, None, Seed(5))
    two = library("logistic").fit(frame, None, Seed(6))  # it takes no seed
    np.testing.assert_array_equal(predict(one, x, BINARY), predict(two, x, BINARY))


def test_text_features_are_encoded_and_an_unseen_category_is_no_error() -> None:
    frame = table().assign(b=pd.Series(["u", "v"] * 50, dtype=object))
    fitted = library("onehot_logistic").fit(frame, None, Seed(5))
    unseen = pd.DataFrame({"a": [0.0, 0.0], "b": pd.Series(["u", "w"], dtype=object)})
    p = predict(fitted, unseen, BINARY)
    assert p.shape == (2,)
    assert ((p > 0.0) & (p < 1.0)).all()


def test_settings_can_be_sealed_and_say_where_each_pipeline_comes_from(helper: Any) -> None:
    chosen = library("logistic", "pg_estimators:Alpha", choose={"thresholds": 11})
    settings = chosen.describe().to_dict()
    canonical_bytes(settings)
    assert settings["features"] == ["a", "b"]
    path = "proxyguard.adapters.pipelines:logistic"
    assert settings["pipelines"]["logistic"]["path"] == path
    assert settings["pipelines"]["pg_estimators:Alpha"]["path"] == "pg_estimators:Alpha"


def test_the_types_of_estimators_by_import_path_are_trusted_where_they_are_defined() -> None:
    chosen = library("logistic", "sklearn.linear_model:Ridge")
    # sklearn.linear_model only passes the name on; the class lives in its _ridge module.
    assert list(chosen.trusted()) == ["sklearn.linear_model._ridge.Ridge"]
    assert list(library("logistic").trusted()) == []


def test_several_classes_are_chosen_by_the_halved_brier_score() -> None:
    outcome = Outcome(column="y", classes=("low", "mid", "high"))
    rng = np.random.default_rng(3)
    a = rng.normal(size=150)
    labels = np.array(["low", "mid", "high"], dtype=object)[np.digitize(a, [-0.5, 0.5])]
    frame = pd.DataFrame({"a": a, "b": rng.normal(size=150), "y": labels})
    chosen = Library(
        Procedure(library=("sklearn.naive_bayes:GaussianNB", "logistic")), outcome, NAMES
    )
    fitted = chosen.fit(frame, frame, Seed(1))
    p = predict(fitted, frame[["a", "b"]].to_numpy(), outcome)
    hit = np.stack([labels == name for name in ("low", "mid", "high")], axis=1)
    score = np.mean(((p - hit) ** 2).sum(axis=1)) / 2.0
    assert fitted.notes["loss"] == pytest.approx(score, rel=1e-12)
    assert 0.0 <= fitted.notes["loss"] <= 1.0


def test_a_table_with_text_is_told_which_pipelines_take_it() -> None:
    table = pd.DataFrame({"town": ["a", "b"] * 20, "x": np.arange(40.0), "y": ["0", "1"] * 20})
    outcome = Outcome(column="y", positive="1")
    plain = Library(Procedure(library=("logistic",), seed=1), outcome, ("town", "x"))
    with pytest.raises(DrawError) as caught:
        plain.fit(table, None, Seed(1))
    words = str(caught.value)
    assert words == (
        "column 'town' has text, which the learner 'logistic' does not take; exclude it, or write "
        'library = ["default"], which takes any table'
    )
    taken = Library(Procedure(library=("default",), seed=1), outcome, ("town", "x"))
    assert taken.fit(table, None, Seed(1)).selected == "default"
