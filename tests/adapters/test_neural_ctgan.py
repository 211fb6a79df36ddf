"""CTGAN as a generator: batches bit for bit, messy tables, conditions, draws that fail alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conformance.generator import BatchConformance  # noqa: E402 - after the skip
from conformance.networks import NetworkConformance, messy  # noqa: E402
from proxyguard.adapters.networks import CtganSettings  # noqa: E402
from proxyguard.adapters.neural import TRAINING, Ctgan, Tvae  # noqa: E402
from proxyguard.draw.catalog import load_generator  # noqa: E402
from proxyguard.draw.protocol import Seed  # noqa: E402
from proxyguard.errors import RegistryError  # noqa: E402
from proxyguard.neural import ctgan, mixtures  # noqa: E402

SMALL: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 20,
    "embedding": 4,
    "generator": [8, 6],
    "critic": [8],
    "pac": 5,
    "device": "cpu",
}


class TestCtgan(NetworkConformance, BatchConformance):
    stage = TRAINING
    name = "ctgan"
    small = SMALL

    def make(self) -> Any:
        return load_generator("ctgan", SMALL)

    def source(self) -> pd.DataFrame:
        return messy()

    def spoil(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        plain = ctgan.CtganNetworks.train

        def broken(networks: ctgan.CtganNetworks) -> None:
            plain(networks)
            for k, each in enumerate(networks._streams.seeds):
                if each == seed:
                    networks.generator.adam.parameters[0][k, 0, 0] = torch.nan

        monkeypatch.setattr(ctgan.CtganNetworks, "train", broken)


prepared = TestCtgan().with_options


class TestCtganOfSomeRows(BatchConformance):
    stage = "which rows"

    def make(self) -> Any:
        corruption = {"column": "y", "share": "0.2", "kind": "flip"}
        options = {**SMALL, "train_rows": 31, "rows": 12, "corruption": corruption}
        return load_generator("ctgan", {**options, "discrete": ["grade"], "together": 3})

    def source(self) -> pd.DataFrame:
        return messy()


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
    plain, settings = Ctgan().describe(), Ctgan()._settings
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
        assert changed._settings != settings
    assert Ctgan(**others)._settings == CtganSettings(
        embedding=3, generator=(5,), critic=(6, 7), epochs=7, batch_size=30, pac=3,
        critic_steps=2, generator_rate=0.5, critic_rate=0.25, generator_decay=0.125,
        critic_decay=0.0, betas=(0.25, 0.75), temperature=0.5, slope=0.1,
        dropout=0.25, penalty=5.0, momentum=0.5, conditions_by="log frequencies",
        condition_by="likelihood",
    )  # fmt: skip


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
