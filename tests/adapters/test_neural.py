"""Generators that train networks: batches bit for bit, messy tables, draws that fail alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conformance.generator import BatchConformance  # noqa: E402 - after the skip
from conformance.networks import NetworkConformance, messy  # noqa: E402
from proxyguard.adapters.neural import TRAINING, Tvae  # noqa: E402
from proxyguard.draw.catalog import load_generator  # noqa: E402
from proxyguard.draw.protocol import Seed  # noqa: E402
from proxyguard.errors import DrawError, RegistryError  # noqa: E402
from proxyguard.neural import releases, tvae  # noqa: E402

SMALL: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 20,
    "embedding": 4,
    "compress": [8],
    "decompress": [8],
    "device": "cpu",
}

LEARNED: dict[str, Any] = {"epochs": 150, "learning_rate": "0.01"}
"""Enough for every common category to come."""


class TestTvae(NetworkConformance, BatchConformance):
    stage = TRAINING
    name = "tvae"
    small = SMALL
    learned = LEARNED

    def make(self) -> Any:
        return load_generator("tvae", SMALL)

    def source(self) -> pd.DataFrame:
        return messy()

    def spoil(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        plain = tvae.train

        def broken(encoded: Any, streams: Any, settings: Any) -> Any:
            network = plain(encoded, streams, settings)
            for k, each in enumerate(streams.seeds):
                if each == seed:
                    with torch.no_grad():
                        network.decoder[0].weight[k, 0, 0] = torch.nan
            return network

        monkeypatch.setattr(tvae, "train", broken)


prepared = TestTvae().with_options


class TestTvaeOfSomeRows(BatchConformance):
    stage = "which rows"

    def make(self) -> Any:
        corruption = {"column": "y", "share": "0.2", "kind": "flip"}
        options = {**SMALL, "train_rows": 31, "rows": 12, "corruption": corruption}
        return load_generator("tvae", {**options, "discrete": ["grade"], "together": 3})

    def source(self) -> pd.DataFrame:
        return messy()


def test_a_condition_holds_in_every_row() -> None:
    condition: dict[str, Any] = {"column": "y", "value": "yes"}
    assert set(prepared(condition=condition, **LEARNED).draw(Seed(1))["y"]) == {"yes"}
    equal = prepared(condition={"column": "y", "equal": True}, rows=30, **LEARNED).draw(Seed(2))
    assert equal["y"].value_counts().to_dict() == {"yes": 15, "no": 15}


def test_a_condition_that_the_network_never_meets_fails_that_draw_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(releases, "TURNS", 3)
    source = messy(60)
    generator = prepared(source, condition={"column": "town", "value": "rare"}, epochs=40)
    outcomes = generator.draw_many([Seed(seed) for seed in range(4)])
    failed = [outcome for outcome in outcomes if isinstance(outcome, DrawError)]
    assert failed
    assert "tvae: of 180 rows that the network gave, too few" in str(failed[0])


def test_memory_bounds_how_many_draws_are_trained_at_once() -> None:
    source = messy(2_000)
    seeds = [Seed(seed) for seed in range(3)]
    prepared(source, memory=1, together=3, epochs=1).draw_many(seeds)
    assert [seed.facts["together"] for seed in seeds] == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "gpu"}, 'tvae: device is "auto", "cpu" or "cuda"'),
        ({"epochs": 0}, "tvae: epochs is a whole number"),
        ({"compress": []}, "tvae: compress is a list of widths"),
        ({"decompress": [8, "x"]}, r"tvae: decompress\[1\] is a whole number"),
        ({"learning_rate": 0}, "tvae: learning_rate is a number above 0"),
        ({"together": 0}, "tvae: together is a whole number"),
        ({"clip": "maybe"}, "tvae: clip is"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        Tvae(**options)


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(RegistryError, match="epoch"):
        load_generator("tvae", {"epoch": 3})


def test_no_device_is_looked_for_before_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> bool:
        raise AssertionError("CUDA was asked for before a fork")

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    generator = prepared(device="auto")
    generator.describe()
    with pytest.raises(AssertionError, match="CUDA"):
        generator.draw(Seed(1))


def test_an_option_that_there_is_not_is_named_with_the_nearest() -> None:
    with pytest.raises(
        RegistryError, match=r"no option 'epoch'; did you mean \"epochs\"\?"
    ) as caught:
        Tvae(epoch=3)
    assert "train_rows" in str(caught.value)
    assert "shared_options" not in str(caught.value)
