"""Generators that train networks: batches bit for bit, messy tables, draws that fail alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conformance.generator import BatchConformance  # noqa: E402 - after the skip
from proxyguard.adapters.neural import SAMPLING, TRAINING, Tvae  # noqa: E402
from proxyguard.draw.catalog import load_generator  # noqa: E402
from proxyguard.draw.protocol import Seed  # noqa: E402
from proxyguard.errors import DrawError, RegistryError  # noqa: E402
from proxyguard.neural import releases  # noqa: E402

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


def messy(n: int = 50) -> pd.DataFrame:
    """Numbers with gaps, whole numbers, a constant, truth values, rare and missing categories."""
    rng = np.random.default_rng(5)
    income = rng.lognormal(3, 1, n)
    income[::2] = np.nan
    children = rng.integers(0, 5, n).astype(float)
    town = np.where(np.arange(n) == 3, "rare", rng.choice(["a", "b", ""], n))
    return pd.DataFrame(
        {
            "income": income,
            "town": pd.Series(town, dtype=object),
            "children": children,
            "same": np.full(n, 7.5),
            "member": rng.random(n) < 0.5,
            "empty": np.full(n, np.nan),
            "grade": rng.integers(1, 4, n).astype(float),
            "y": pd.Series(np.where(children > 1, "yes", "no"), dtype=object),
        }
    )


def prepared(table: pd.DataFrame | None = None, **options: Any) -> Tvae:
    generator = Tvae(**{**SMALL, **options})
    generator.prepare(messy() if table is None else table, np.random.default_rng(0))
    return generator


class TestTvae(BatchConformance):
    stage = TRAINING

    def make(self) -> Any:
        return load_generator("tvae", SMALL)

    def source(self) -> pd.DataFrame:
        return messy()


class TestTvaeOfSomeRows(BatchConformance):
    stage = "which rows"

    def make(self) -> Any:
        corruption = {"column": "y", "share": "0.2", "kind": "flip"}
        options = {**SMALL, "train_rows": 31, "rows": 12, "corruption": corruption}
        return load_generator("tvae", {**options, "discrete": ["grade"], "together": 3})

    def source(self) -> pd.DataFrame:
        return messy()


def test_a_release_has_the_columns_kinds_and_gaps_of_the_source() -> None:
    source = messy()
    release = prepared(rows=400, discrete=["grade"], **LEARNED).draw(Seed(1))
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


@pytest.mark.parametrize("names", [["income"], ["town", "y"], ["same"], ["same", "y"]])
def test_a_table_of_one_kind_of_columns_is_learned(names: list[str]) -> None:
    release = prepared(messy()[names]).draw(Seed(3))
    assert list(release.columns) == names
    assert len(release) == 50


def test_a_category_that_no_training_row_has_is_not_drawn() -> None:
    source = messy(200)
    generator = prepared(source, train_rows=20, rows=300)
    missed = 0
    for seed in map(Seed, range(6)):
        release = generator.draw(seed)
        assert seed.members is not None
        known = set(source["town"].iloc[seed.members])
        assert set(release["town"]) <= known
        missed += "rare" not in known
    assert missed  # or nothing was tried


def test_a_condition_holds_in_every_row() -> None:
    condition: dict[str, Any] = {"column": "y", "value": "yes"}
    assert set(prepared(condition=condition, **LEARNED).draw(Seed(1))["y"]) == {"yes"}
    equal = prepared(condition={"column": "y", "equal": True}, rows=30, **LEARNED).draw(Seed(1))
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


def test_a_draw_that_does_not_train_to_numbers_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from proxyguard.neural import tvae

    plain = tvae.train

    def broken(encoded: Any, streams: Any, settings: Any) -> Any:
        network = plain(encoded, streams, settings)
        for k, seed in enumerate(streams.seeds):
            if seed == 2:
                with torch.no_grad():
                    network.decoder[0].weight[k, 0, 0] = torch.nan
        return network

    generator = prepared()
    alone = [generator.draw(Seed(seed)) for seed in (1, 3)]
    monkeypatch.setattr(tvae, "train", broken)
    first, failed, last = generator.draw_many([Seed(1), Seed(2), Seed(3)])
    assert isinstance(failed, DrawError)
    assert "tvae: the network did not train to finite numbers" in str(failed)
    pd.testing.assert_frame_equal(first, alone[0])
    pd.testing.assert_frame_equal(last, alone[1])
    with pytest.raises(DrawError, match="finite"):
        generator.draw(Seed(2))


def test_a_draw_says_how_it_was_computed_and_what_it_redraws() -> None:
    seeds = [Seed(seed) for seed in range(5)]
    prepared(together=2).draw_many(seeds)
    for seed, together in zip(seeds, "22221", strict=True):
        assert seed.facts["device"] == "cpu"
        assert seed.facts["torch"] == torch.__version__
        assert seed.facts["together"] == together
        assert seed.taken == [TRAINING, SAMPLING]


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
    with pytest.raises(RegistryError, match=r"no option 'epoch'; do you mean 'epochs'\?") as caught:
        Tvae(epoch=3)
    assert "train_rows" in str(caught.value)
    assert "shared_options" not in str(caught.value)
