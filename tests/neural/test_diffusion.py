"""TabDDPM of many draws at once: its law, its arithmetic, and what a draw owes to its company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conftest import Effort  # noqa: E402 - after the skip
from neural.plain_tabddpm import PlainTabDdpm  # noqa: E402 - after the skip
from proxyguard.adapters.networks import TabDdpmSettings  # noqa: E402
from proxyguard.errors import DrawError, RegistryError  # noqa: E402
from proxyguard.neural.batched import chosen_device, reproducible  # noqa: E402
from proxyguard.neural.diffusion import (  # noqa: E402
    DiffusedLayout,
    TrainingRows,
    _silu,
    _Training,
    classes_as_trained,
    new_network,
    sample,
    time_features,
    train,
)
from proxyguard.neural.noise import Streams  # noqa: E402
from proxyguard.neural.releases import TrainingTables  # noqa: E402
from proxyguard.neural.tabddpm import draw_tables, nearest  # noqa: E402

SMALL = TabDdpmSettings(
    steps=12, batch_size=16, times=9, hidden=(48, 16), embedding=16, average=0.9, dropout=0.0
)
MIXED = DiffusedLayout(3, (4, 2, 4, 1), 3)


def mixed_rows(draws: int, n: int = 41) -> TrainingRows:
    """Return rows of three numbers, four codes and three classes; other ones for each draw."""
    rng = np.random.default_rng(3)
    numbers = torch.tensor(rng.normal(size=(draws, n, 3)), dtype=torch.float32)
    codes = np.stack([rng.integers(0, k, (draws, n)) for k in MIXED.sizes], axis=2)
    return TrainingRows(numbers, torch.tensor(codes), torch.tensor(rng.integers(0, 3, (draws, n))))


def some(rows: TrainingRows, i: int) -> TrainingRows:
    assert rows.classes is not None
    return TrainingRows(rows.numbers[i : i + 1], rows.codes[i : i + 1], rows.classes[i : i + 1])


def release(
    rows: TrainingRows,
    streams: Streams,
    layout: DiffusedLayout,
    settings: TabDdpmSettings,
    count: int = 29,
) -> tuple[torch.Tensor, ...]:
    network = train(rows, streams, layout, settings)
    classes = classes_as_trained(rows, streams, count)
    return *sample(network, streams, settings, count, classes), *network.parameters


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_a_draw_has_the_same_bits_alone_and_in_company(dropout: float) -> None:
    settings = replace(SMALL, dropout=dropout)
    streams, rows = Streams([8, 3, 5, 11, 2]), mixed_rows(5)
    together = release(rows, streams, MIXED, settings)
    for i in range(5):
        alone = release(some(rows, i), streams.part(i, i + 1), MIXED, settings)
        for whole, single in zip(together, alone, strict=True):
            assert torch.equal(whole[i], single[0])
    assert not torch.equal(together[0][0], together[0][1])


def test_training_on_a_cpu_does_not_ask_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a GPU was asked for")  # as the optimisers of PyTorch do

    monkeypatch.setattr(torch.accelerator, "current_accelerator", asked)
    monkeypatch.setattr(torch.cuda, "is_available", asked)
    train(mixed_rows(1), Streams([1]), MIXED, replace(SMALL, steps=1))


def test_a_width_that_would_move_the_last_bits_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"multiples of 16, got \[24\]"):
        replace(SMALL, hidden=(24,))


def test_padding_changes_neither_the_start_of_weights_nor_what_is_learned() -> None:
    assert MIXED.width == 14
    assert MIXED.padded == 16
    rows = mixed_rows(1)
    network = train(rows, Streams([1]), MIXED, replace(SMALL, steps=1))
    start = new_network(rows.codes, Streams([1]), MIXED, SMALL)
    assert float(start.entry.weight.detach().abs().max()) == pytest.approx(14**-0.5, rel=0.02)
    moved = (network.entry.weight != start.entry.weight.detach()).any(dim=2)[0]
    assert moved.tolist() == [True] * 14 + [False] * 2


def test_a_draw_that_does_not_stay_finite_fails_alone() -> None:
    rows = mixed_rows(3)
    numbers = rows.numbers.clone()
    numbers[1, 0, 0] = 1e38
    spoilt = replace(rows, numbers=numbers)
    streams = Streams([8, 3, 5])
    network = train(spoilt, streams, MIXED, SMALL)
    assert network.finite.tolist() == [True, False, True]
    alone = train(some(rows, 2), streams.part(2, 3), MIXED, SMALL)
    for whole, single in zip(network.parameters, alone.parameters, strict=True):
        assert torch.equal(whole[2], single[0])


def test_an_epoch_takes_every_row_once_and_keeps_the_last_batch() -> None:
    rows = mixed_rows(2)
    training = _Training(rows, Streams([1, 2]), MIXED, SMALL)
    for epoch in range(2):
        seen = []
        for batch, size in enumerate((16, 16, 9)):
            assert training.begin(3 * epoch + batch) == size
            seen.append(training.positions[:, :size].clone())
        order = torch.cat(seen, dim=1)
        assert torch.equal(order.sort(dim=1).values, torch.arange(41).expand(2, 41))
        assert not torch.equal(order[0], order[1])


def test_the_rate_falls_after_each_step_and_the_average_follows_the_weights() -> None:
    training = _Training(mixed_rows(1), Streams([1]), MIXED, SMALL)
    mean = [p.detach().clone() for p in training.network.parameters]
    for step in range(SMALL.steps):
        training.learn(training.begin(step))
        gone = max(step - 1, 0) / SMALL.steps  # what was set after the step before
        assert float(training.rate) == pytest.approx(1e-3 * (1 - gone), rel=1e-6)
        mean = [
            0.9 * m + 0.1 * p.detach()
            for m, p in zip(mean, training.network.parameters, strict=True)
        ]
    for kept, expected in zip(training.average.parameters, mean, strict=True):
        torch.testing.assert_close(kept, expected, rtol=1e-5, atol=1e-6)


def test_noise_is_not_used_twice_between_steps_and_calls() -> None:
    training = _Training(mixed_rows(1, n=10), Streams([1]), MIXED, replace(SMALL, steps=40))
    seen = set()
    for step in range(40):
        training.begin(step)
        for noise in training.noise.values():
            seen.add(float(noise.index_select(1, training.at).flatten()[0]))
        training.at.add_(1)
    assert len(seen) == 3 * 40


def test_the_pieces_of_the_network_are_those_of_the_paper() -> None:
    x = torch.linspace(-30.0, 30.0, 1001)
    torch.testing.assert_close(_silu(x), torch.nn.functional.silu(x), rtol=1e-5, atol=1e-6)
    features = time_features(100, 128)
    assert features.shape == (100, 128)
    assert features[7, 3] == pytest.approx(np.cos(7 * 10_000 ** (-3 / 64)), rel=1e-12)
    assert features[7, 64 + 3] == pytest.approx(np.sin(7 * 10_000 ** (-3 / 64)), rel=1e-12)


def simple_rows(draws: int, n: int) -> TrainingRows:
    """Return two correlated numbers, a category that follows one, and a class that moves both."""
    rng = np.random.default_rng(11)
    y = (rng.random(n) < 0.3).astype(np.int64)
    a = rng.normal(size=n)
    b = 0.8 * a + 0.6 * rng.normal(size=n) + 1.5 * y
    x = np.column_stack([a, b])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    c = np.column_stack([(a > 0.3).astype(np.int64), rng.choice(3, size=n, p=[0.7, 0.2, 0.1])])
    same = [
        torch.tensor(x, dtype=torch.float32), torch.tensor(c), torch.tensor(y),
    ]  # fmt: skip
    return TrainingRows(*(t.expand(draws, *t.shape) for t in same))


def figures(x: np.ndarray, c: np.ndarray, y: np.ndarray) -> list[float]:
    """Return what a release is compared by; medians, since a few rows wander far off."""
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    above = x > np.median(x, axis=0)
    return [
        *middle, *(high - low), (above[:, 0] == above[:, 1]).mean(), (c[:, 0] == 1).mean(),
        (c[:, 1] == 0).mean(), (c[:, 1] == 2).mean(),
        ((c[:, 0] == 1) == above[:, 0]).mean(), y.mean(),
        np.median(x[y == 1, 1]) - np.median(x[y == 0, 1]),
    ]  # fmt: skip


def test_a_trained_model_has_the_law_of_its_table() -> None:
    rows = simple_rows(2, 300)
    settings = TabDdpmSettings(
        steps=900, times=50, hidden=(64, 64), embedding=32, learning_rate=5e-3, average=0.99
    )
    streams = Streams([21, 22])
    network = train(rows, streams, DiffusedLayout(2, (2, 3), 2), settings)
    count = 4000
    classes = classes_as_trained(rows, streams, count)
    assert classes is not None
    assert rows.classes is not None
    numbers, codes = sample(network, streams, settings, count, classes)
    true = figures(rows.numbers[0].numpy(), rows.codes[0].numpy(), rows.classes[0].numpy())
    for i in range(2):
        made = figures(numbers[i].numpy(), codes[i].numpy(), classes[i].numpy())
        np.testing.assert_allclose(made, true, atol=0.2)
        kept = np.abs(numbers[i].numpy()).max(axis=1) < 4
        assert kept.mean() > 0.95  # nothing keeps a row from wandering off
        original = np.corrcoef(rows.numbers[0].numpy().T)[0, 1]
        assert np.corrcoef(numbers[i].numpy()[kept].T)[0, 1] == pytest.approx(original, abs=0.08)


def test_releases_have_the_law_of_a_plain_implementation(effort: Effort) -> None:
    draws, n, count = effort.times(whole=200, reduced=40), 80, 200
    settings = TabDdpmSettings(
        steps=120, times=12, learning_rate=5e-3, average=0.97, embedding=16, hidden=(32, 32)
    )
    rows = simple_rows(draws, n)
    streams = Streams(range(1000, 1000 + draws))
    network = train(rows, streams, DiffusedLayout(2, (2, 3), 2), settings)
    classes = classes_as_trained(rows, streams, count)
    assert classes is not None
    assert rows.classes is not None
    numbers, codes = sample(network, streams, settings, count, classes)
    ours = np.array(
        [figures(*(t[i].numpy() for t in (numbers, codes, classes))) for i in range(draws)]
    )
    plain = []
    torch.manual_seed(4)  # the start of the modules' weights
    for i in range(draws):
        generator = torch.Generator().manual_seed(i)
        model = PlainTabDdpm((2, 3), settings)
        model.fit(rows.numbers[0], rows.codes[0], rows.classes[0], generator)
        plain.append(figures(*(t.numpy() for t in model.sample(count, generator))))
    for k, reference in enumerate(np.array(plain).T):
        assert stats.ks_2samp(ours[:, k], reference).pvalue > 1e-3, k


@pytest.mark.parametrize("power", [-1000, 1000], ids=["tiny", "huge"])
def test_a_column_is_learned_the_same_whatever_its_unit(power: int) -> None:
    numbers = np.random.default_rng(2).normal(3.0, 2.0, (1, 40, 2))

    def released(numbers: np.ndarray) -> np.ndarray:
        tables = TrainingTables(numbers, np.zeros((1, 40, 0), dtype=np.int64), (), 20, [None])
        (made,) = draw_tables(tables, [7], SMALL, torch.device("cpu"))
        assert not isinstance(made, DrawError), made
        return made.numbers

    # A power of 2 rounds nothing: the releases differ by the unit alone.
    assert np.array_equal(released(np.ldexp(numbers, power)), np.ldexp(released(numbers), power))


def test_the_nearest_of_huge_levels_is_found() -> None:
    assert nearest(np.array([1.5e308]), np.array([1.0e308, 1.6e308])).tolist() == [1.6e308]


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_a_recorded_step_gives_the_bits_of_single_launches_and_nearly_those_of_a_cpu(
    dropout: float,
) -> None:
    settings = replace(SMALL, steps=30, dropout=dropout)  # two sizes of batches, both recorded
    rows, seeds = mixed_rows(3), [8, 3, 5]
    streams = Streams(seeds, chosen_device("cuda"))
    with reproducible():
        recorded, launched = (
            train(rows, streams, MIXED, settings, graph=graph) for graph in (True, False)
        )
        there = train(rows, Streams(seeds), MIXED, settings)
    for a, b, c in zip(recorded.parameters, launched.parameters, there.parameters, strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a.cpu(), c, rtol=1e-2, atol=1e-3)
