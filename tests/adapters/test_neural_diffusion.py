"""TabDDPM as a generator: batches bit for bit, messy tables, conditions, draws that fail alone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conformance.generator import BatchConformance  # noqa: E402 - after the skip
from conformance.networks import NetworkConformance, messy  # noqa: E402
from proxyguard.adapters.neural import TRAINING, TabDdpm  # noqa: E402
from proxyguard.draw.catalog import load_generator  # noqa: E402
from proxyguard.draw.protocol import Seed  # noqa: E402
from proxyguard.errors import DrawError, RegistryError  # noqa: E402
from proxyguard.neural import releases, tabddpm  # noqa: E402

SMALL: dict[str, Any] = {
    "steps": 6,
    "batch_size": 20,
    "times": 8,
    "hidden": [16],
    "embedding": 16,
    "average": "0.5",
    "device": "cpu",
}
TRAINED = {"steps": 400, "times": 20, "hidden": [48, 48], "learning_rate": "0.01", "average": 0.97}


class TestTabDdpm(NetworkConformance, BatchConformance):
    stage = TRAINING
    name = "tabddpm"
    small = SMALL
    learned: ClassVar[dict[str, Any]] = {**TRAINED, "steps": 200, "outcome": "y"}

    def make(self) -> Any:
        return load_generator("tabddpm", {**SMALL, "outcome": "y"})

    def source(self) -> pd.DataFrame:
        return messy()

    def spoil(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        plain = tabddpm.train

        def broken(rows: Any, streams: Any, layout: Any, settings: Any) -> Any:
            network = plain(rows, streams, layout, settings)
            for k, each in enumerate(streams.seeds):
                if each == seed:
                    network.exit.weight[k, 0, 0] = torch.nan
            return network

        monkeypatch.setattr(tabddpm, "train", broken)

    @pytest.mark.parametrize("categories", ["multinomial", "as numbers"])
    @pytest.mark.parametrize("scaling", ["standard", "quantile"])
    def test_so_has_one_by_any_scaling_and_coding(self, categories: str, scaling: str) -> None:
        release = self.checked_release(categories=categories, scaling=scaling)
        assert set(release["children"]) <= {0.0, 2.0, 5.0, 6.0, 9.0}
        assert set(release["y"]) == {"yes", "no"}

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_so_are_few_rows_by_ranks_of_a_class(self, n: int) -> None:
        for scaling in ("standard", "quantile"):
            table = messy(50).iloc[10 : 10 + n]
            generator = self.with_options(table, rows=5, outcome="y", scaling=scaling)
            assert len(generator.draw(Seed(3))) == 5

    @pytest.mark.parametrize(
        ("names", "outcome"),
        [(["town", "y"], "y"), (["same", "y"], "y"), (["children", "grade"], "grade")],
    )
    def test_a_table_of_one_kind_beside_a_class_is_learned(
        self, names: list[str], outcome: str
    ) -> None:
        release = self.with_options(messy()[names], outcome=outcome).draw(Seed(3))
        assert list(release.columns) == names
        assert len(release) == 50

    def test_a_category_as_numbers_that_no_training_row_has_is_not_drawn(self) -> None:
        self.test_a_category_that_no_training_row_has_is_not_drawn(categories="as numbers")


prepared = TestTabDdpm().with_options


class TestTabDdpmOfSomeRowsAsNumbers(BatchConformance):
    stage = "which rows"

    def make(self) -> Any:
        corruption = {"column": "y", "share": "0.2", "kind": "flip"}
        options = {**SMALL, "train_rows": 31, "rows": 12, "corruption": corruption}
        more = {"categories": "as numbers", "scaling": "quantile", "together": 3}
        return load_generator("tabddpm", {**options, **more})

    def source(self) -> pd.DataFrame:
        return messy()


@pytest.mark.parametrize("categories", ["multinomial", "as numbers"])
def test_a_trained_release_follows_its_table(categories: str) -> None:
    rng = np.random.default_rng(2)
    n = 300
    y = rng.random(n) < 0.3
    x = rng.normal(size=n) + 2.0 * y
    kind = np.where(rng.random(n) < 0.9, np.where(x > 0.6, "high", "low"), "other")
    source = pd.DataFrame(
        {"x": 1000.0 + 50.0 * x, "kind": pd.Series(kind, dtype=object), "y": y.astype(float)}
    )
    options = {**TRAINED, "batch_size": 300, "steps": 800, "categories": categories}
    release = prepared(source, rows=2000, outcome="y", **options).draw(Seed(4))
    # Of a short training: in units of the deviation, and of a share.
    for label in (0.0, 1.0):
        true, made = (t.loc[t["y"] == label, "x"] for t in (source, release))
        assert abs(made.median() - true.median()) < 0.35 * source["x"].std()
    assert abs(release["y"].mean() - source["y"].mean()) < 0.05
    shares = [t["kind"].value_counts(normalize=True) for t in (source, release)]
    assert (shares[0] - shares[1]).abs().max() < 0.12
    limit = 1000.0 + 50.0 * 0.6
    for name, above in (("high", True), ("low", False)):
        rows = release.loc[release["kind"] == name, "x"]
        assert ((rows > limit) == above).mean() > 0.75


def test_columns_of_few_whole_numbers_have_the_nearest_number_trained_on_if_told_so() -> None:
    rows = {"rows": 200, "clip": "none"}
    assert set(prepared(**rows).draw(Seed(1))["children"]) <= {0.0, 2.0, 5.0, 6.0, 9.0}
    free = prepared(nearest=2, **rows).draw(Seed(1))["children"]
    assert not set(free) <= {0.0, 2.0, 5.0, 6.0, 9.0}
    assert (free % 1.0 == 0.0).all()


def test_a_condition_on_the_outcome_is_told_to_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "SLICE", 7)  # the rows of a release come in several turns
    monkeypatch.setattr(releases, "TURNS", 1)  # and none of them is made in vain
    for outcome in ("y", None):
        condition: dict[str, Any] = {"column": "y", "value": "yes"}
        release = prepared(outcome=outcome, condition=condition).draw(Seed(1))
        assert set(release["y"]) == {"yes"}
        generator = prepared(outcome=outcome, condition={"column": "y", "equal": True}, rows=30)
        assert generator.draw(Seed(1))["y"].value_counts().to_dict() == {"yes": 15, "no": 15}


def test_a_condition_on_another_column_is_waited_for() -> None:
    condition = {"column": "member", "value": True}
    release = prepared(outcome="y", condition=condition).draw(Seed(1))
    assert release["member"].all()
    assert set(release["y"]) == {"yes", "no"}


def test_rows_of_several_turns_are_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "SLICE", 20)
    release = prepared(messy()[["income"]].dropna(), rows=60, clip="none").draw(Seed(1))
    assert release["income"].nunique() == 60


def test_a_rate_that_is_too_great_is_a_failed_draw_and_no_release() -> None:
    outcome = prepared(learning_rate="1e30", steps=8).draw_many([Seed(1)])[0]
    assert isinstance(outcome, DrawError)
    assert "register a smaller learning rate" in str(outcome)


def test_every_option_is_described() -> None:
    plain = dict(TabDdpm().describe())
    others: dict[str, Any] = {
        "outcome": "y", "categories": "as numbers", "scaling": "quantile", "nearest": 0, "steps": 7,
        "batch_size": 8, "times": 9, "learning_rate": "0.5", "weight_decay": "0.1",
        "average": "0.9", "hidden": [32], "embedding": 32, "dropout": "0.2", "rows": 3,
        "train_rows": 4, "bootstrap": True, "clip": "none", "device": "cpu", "together": 3,
        "memory": 5, "condition": {"column": "y", "equal": True},
        "corruption": {"column": "y", "share": "0.5", "kind": "flip"}, "discrete": ["z"],
    }  # fmt: skip
    for option, other in others.items():
        changed = dict(TabDdpm(**{option: other}).describe())
        assert changed[option] != plain[option], option


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outcome": 3}, "tabddpm: outcome is the name of a column"),
        ({"categories": "numbers"}, 'categories is "multinomial" or "as numbers"'),
        ({"scaling": "log"}, 'scaling is "standard" or "quantile"'),
        ({"times": 1}, "times is a whole number of at least 2"),
        ({"average": 1}, "average is a number from 0 to 0.999999"),
        ({"hidden": [256, 100]}, r"multiples of 16, got \[100\]"),
        ({"embedding": 8}, r"multiples of 16, got \[8\]"),
        ({"dropout": 1}, "dropout is a number"),
        ({"discrete": "x", "outcome": "y"}, "discrete is a list"),
        ({"device": "gpu"}, 'tabddpm: device is "auto"'),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        TabDdpm(**options)


def test_a_source_that_the_options_do_not_fit_is_refused() -> None:
    with pytest.raises(RegistryError, match="outcome names 'z', which the source has not"):
        prepared(outcome="z")
    with pytest.raises(RegistryError, match="there is nothing to learn"):
        prepared(messy()[["y", "empty"]], outcome="y")
