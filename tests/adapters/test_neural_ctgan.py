"""CTGAN as a generator: batches bit for bit, messy tables, conditions, draws that fail alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from adapters.test_neural import messy  # noqa: E402 - after the skip
from conformance.generator import BatchConformance  # noqa: E402
from proxyguard.adapters.neural import SAMPLING, TRAINING, Tvae  # noqa: E402
from proxyguard.adapters.neural_ctgan import Ctgan  # noqa: E402
from proxyguard.draw.catalog import load_generator  # noqa: E402
from proxyguard.draw.protocol import Seed  # noqa: E402
from proxyguard.errors import DrawError, RegistryError  # noqa: E402
from proxyguard.neural import ctgan, mixtures  # noqa: E402
from proxyguard.neural.adversaries import CtganSettings  # noqa: E402

SMALL: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 20,
    "embedding": 4,
    "generator": [8, 6],
    "critic": [8],
    "pac": 5,
    "device": "cpu",
}


def prepared(table: pd.DataFrame | None = None, **options: Any) -> Ctgan:
    generator = Ctgan(**{**SMALL, **options})
    generator.prepare(messy() if table is None else table, np.random.default_rng(0))
    return generator


class TestCtgan(BatchConformance):
    stage = TRAINING

    def make(self) -> Any:
        return load_generator("ctgan", SMALL)

    def source(self) -> pd.DataFrame:
        return messy()


class TestCtganOfSomeRows(BatchConformance):
    stage = "which rows"

    def make(self) -> Any:
        corruption = {"column": "y", "share": "0.2", "kind": "flip"}
        options = {**SMALL, "train_rows": 31, "rows": 12, "corruption": corruption}
        return load_generator("ctgan", {**options, "discrete": ["grade"], "together": 3})

    def source(self) -> pd.DataFrame:
        return messy()


def test_without_options_a_generator_has_the_published_settings() -> None:
    assert Ctgan()._ctgan == CtganSettings()


def test_the_regularisation_of_mixtures_is_described_as_it_is() -> None:
    for generator in (Tvae(), Ctgan()):
        told = str(generator.describe()["numbers"])
        assert f"raised by {mixtures.REGULAR:.6f}" in told
        assert f"{mixtures.DROWNING} of the column's variance" in told
        least = (mixtures.REGULAR / mixtures.DROWNING) ** 0.5
        assert f"a standard deviation below {least:.2f}" in told
    for deviation, added in ((0.02, mixtures.REGULAR), (0.005, 0.01 * 0.005**2)):
        regular = mixtures._regular(torch.tensor([deviation], dtype=torch.float64))
        assert float(regular) * deviation**2 == pytest.approx(added)


def test_every_setting_is_described_as_it_is_used() -> None:
    plain, settings = Ctgan().describe(), Ctgan()._ctgan
    others: dict[str, Any] = {
        "epochs": 7, "batch_size": 30, "embedding": 3, "generator": [5], "critic": [6, 7],
        "pac": 3, "critic_steps": 2, "generator_rate": "0.5", "critic_rate": "0.25",
        "generator_decay": "0.125", "critic_decay": 0, "betas": ["0.25", "0.75"],
        "temperature": "0.5", "slope": "0.1", "dropout": "0.25", "penalty": 5, "momentum": "0.5",
        "conditions_by": "log frequencies", "condition_by": "likelihood",
    }  # fmt: skip
    for name, declared in others.items():
        fitting = {"batch_size": 30} if name == "pac" else {"pac": 1}
        changed = Ctgan(**{**fitting, name: declared})
        assert changed.describe()[name] != plain[name], name
        assert changed._ctgan != settings
    assert Ctgan(**others)._ctgan == CtganSettings(
        embedding=3, generator_widths=(5,), critic_widths=(6, 7), epochs=7, batch_size=30, pac=3,
        critic_steps=2, generator_rate=0.5, critic_rate=0.25, generator_decay=0.125,
        critic_decay=0.0, first_beta=0.25, second_beta=0.75, temperature=0.5, slope=0.1,
        dropout=0.25, penalty=5.0, momentum=0.5, law="log frequencies", reject=False,
    )  # fmt: skip


def test_a_release_has_the_columns_kinds_and_gaps_of_the_source() -> None:
    source = messy()
    release = prepared(rows=400, discrete=["grade"]).draw(Seed(1))
    assert list(release.columns) == list(source.columns)
    assert dict(release.dtypes) == dict(source.dtypes)
    assert len(release) == 400
    assert release["income"].isna().any()
    assert release["income"].notna().any()
    assert set(release["town"]) <= set(source["town"])
    assert set(release["grade"]) <= {1.0, 2.0, 3.0}
    assert (release["same"] == 7.5).all()
    assert release["empty"].isna().all()
    assert (release["children"] % 1.0 == 0.0).all()
    for name in ("income", "children"):
        known = release[name].dropna()
        assert known.between(source[name].min(), source[name].max()).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_table_of_few_rows_is_learned_all_the_same(n: int) -> None:
    release = prepared(messy(50).iloc[10 : 10 + n], rows=5).draw(Seed(3))
    assert len(release) == 5


@pytest.mark.parametrize(
    "names", [["income"], ["children"], ["town", "y"], ["same"], ["same", "y"]]
)
def test_a_table_of_one_kind_of_columns_is_learned(names: list[str]) -> None:
    release = prepared(messy()[names]).draw(Seed(3))
    assert list(release.columns) == names
    assert len(release) == 50


def test_a_category_that_no_training_row_has_is_not_drawn() -> None:
    source = messy(200)
    generator = prepared(source, train_rows=20, rows=300)
    missed = 0
    for seed in map(Seed, range(4)):
        release = generator.draw(seed)
        assert seed.members is not None
        known = set(source["town"].iloc[seed.members])
        assert set(release["town"]) <= known
        missed += "rare" not in known
    assert missed  # or nothing was tried


def test_a_condition_holds_in_every_row_or_is_only_asked_for() -> None:
    condition: dict[str, Any] = {"column": "y", "value": "yes"}
    assert set(prepared(condition=condition).draw(Seed(1))["y"]) == {"yes"}
    equal = prepared(condition={"column": "y", "equal": True}, rows=30).draw(Seed(1))
    assert equal["y"].value_counts().to_dict() == {"yes": 15, "no": 15}
    asked = prepared(condition=condition, condition_by="likelihood", rows=200).draw(Seed(1))
    assert set(asked["y"]) == {"yes", "no"}  # after four steps


def test_a_condition_that_no_training_row_has_fails_that_draw_alone() -> None:
    source = messy(60)
    condition = {"column": "town", "value": "rare"}
    generator = prepared(source, condition=condition, train_rows=30)
    seeds = [Seed(seed) for seed in range(6)]
    outcomes = generator.draw_many(seeds)
    for seed, outcome in zip(seeds, outcomes, strict=True):
        assert seed.members is not None
        has = "rare" in set(source["town"].iloc[seed.members])
        assert isinstance(outcome, pd.DataFrame) == has
        if isinstance(outcome, pd.DataFrame):
            assert set(outcome["town"]) == {"rare"}
    assert len({type(outcome) for outcome in outcomes}) == 2  # or nothing was tried


def test_a_draw_that_does_not_train_to_numbers_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = ctgan.CtganNetworks.train

    def broken(self: ctgan.CtganNetworks) -> None:
        plain(self)
        for k, seed in enumerate(self._streams.seeds):
            if seed == 2:
                self.generator.adam.parameters[0][k, 0, 0] = torch.nan

    generator = prepared()
    alone = [generator.draw(Seed(seed)) for seed in (1, 3)]
    monkeypatch.setattr(ctgan.CtganNetworks, "train", broken)
    first, failed, last = generator.draw_many([Seed(1), Seed(2), Seed(3)])
    assert isinstance(failed, DrawError)
    assert "ctgan: the network did not train to finite numbers" in str(failed)
    pd.testing.assert_frame_equal(first, alone[0])
    pd.testing.assert_frame_equal(last, alone[1])


def test_a_draw_says_how_it_was_computed_and_what_it_redraws() -> None:
    seeds = [Seed(seed) for seed in range(3)]
    prepared(together=2).draw_many(seeds)
    for seed, together in zip(seeds, "221", strict=True):
        assert seed.facts["device"] == "cpu"
        assert seed.facts["together"] == together
        assert seed.taken == [TRAINING, SAMPLING]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 25}, "ctgan: batch_size is a multiple of pac"),
        ({"batch_size": 1, "pac": 1}, "ctgan: batch_size is a whole number of at least 2"),
        ({"generator": []}, "ctgan: generator is a list of widths"),
        ({"critic": 8}, "ctgan: critic is a list of widths"),
        ({"dropout": 1}, "ctgan: dropout is a number from 0 to"),
        ({"betas": ["0.5"]}, "ctgan: betas are two"),
        ({"betas": ["0.5", 1]}, r"ctgan: betas\[1\] is a number"),
        ({"conditions_by": "rank"}, 'ctgan: conditions_by is "frequencies" or "log frequencies"'),
        ({"condition_by": "luck"}, 'ctgan: condition_by is "rejection" or "likelihood"'),
        ({"temperature": 0}, "ctgan: temperature is a number above 0"),
        ({"device": "gpu"}, "ctgan: device is"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        Ctgan(**options)
