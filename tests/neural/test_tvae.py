"""TVAE of many draws at once: its gradients, its steps, and its law beside a plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from torch.nn import functional  # noqa: E402 - after the skip
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from neural.plain_tvae import PlainSettings, draw_plain  # noqa: E402
from proxyguard.adapters.networks import TvaeSettings  # noqa: E402
from proxyguard.errors import DrawError  # noqa: E402
from proxyguard.neural import tvae  # noqa: E402
from proxyguard.neural.encoding import EncodedTables, Layout, encode  # noqa: E402
from proxyguard.neural.noise import Purpose, Streams  # noqa: E402
from proxyguard.neural.releases import TrainingTables  # noqa: E402
from proxyguard.neural.tvae import TvaeNetworks, draw_tables  # noqa: E402

SETTINGS = TvaeSettings(
    embedding=6, compress=(16, 12), decompress=(10, 14), batch_size=40, epochs=3
)
SIZES = (3, 2)


def table(n: int = 100, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two numbers that depend on a class, and a category that depends on the first."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    first = rng.normal(2.0 * label, 0.6)
    second = rng.lognormal(0.4 * first, 0.5)
    level = np.digitize(first + rng.normal(0, 0.3, n), [0.5, 1.8])
    return np.column_stack([first, second]), np.column_stack([level, label])


def encoded_tables(seeds: list[int], n: int = 100) -> EncodedTables:
    tables = [table(n, seed) for seed in seeds]
    numbers, codes = (torch.from_numpy(np.stack(parts)) for parts in zip(*tables, strict=True))
    return encode(numbers, codes, SIZES, Streams(seeds))


def test_a_layout_has_a_place_for_every_column_whatever_a_draw_has() -> None:
    layout = Layout(2, (5, 2, 5, 3))
    assert layout.width == 2 * 11 + 15
    assert [layout.block(k) for k in range(4)] == [
        slice(27, 32), slice(22, 24), slice(32, 37), slice(24, 27),
    ]  # fmt: skip
    assert [(g.first, g.start, g.count, g.size) for g in layout.groups] == [
        (0, 2, 2, 10), (2, 22, 1, 2), (3, 24, 1, 3), (4, 27, 2, 5),
    ]  # fmt: skip
    codes = torch.tensor([[[4, 1, 0, 2]]])
    chosen = torch.cat([torch.tensor([[[3, 7]]]), codes[:, :, list(layout.order)]], dim=2)
    rows = layout.rows(torch.tensor([[[0.5, -0.5]]]), chosen)
    assert rows[0, 0].nonzero()[:, 0].tolist() == [0, 1, 5, 19, 23, 26, 31, 32]
    assert torch.equal(layout.codes(chosen), codes)
    for k in range(4):
        assert int(rows[0, 0, layout.block(k)].argmax()) == int(codes[0, 0, k])
    seen = torch.ones((1, layout.width), dtype=torch.bool)
    assert torch.equal(layout.choices(rows, seen), chosen)
    seen[0, 31] = False  # the category that is highest is not one of this draw's
    assert int(layout.codes(layout.choices(rows, seen))[0, 0, 0]) == 0


def plain_loss(
    network: TvaeNetworks, encoded: EncodedTables, noise: torch.Tensor, factor: float
) -> torch.Tensor:
    """The loss as the paper writes it, draw by draw and block by block, for autograd."""
    total = torch.zeros(())
    rows = encoded.layout.rows(encoded.alphas, encoded.chosen)
    p = encoded.layout.numbers
    for d in range(len(rows)):
        hidden = rows[d]
        for layer in network.encoder:
            hidden = torch.relu(functional.linear(hidden, layer.weight[d], layer.bias[d, :, 0]))
        head = functional.linear(hidden, network.head.weight[d], network.head.bias[d, :, 0])
        mean, log_variance = head.chunk(2, dim=1)
        hidden = mean + torch.exp(log_variance / 2) * noise[d].T
        for layer in network.decoder[:-1]:
            hidden = torch.relu(functional.linear(hidden, layer.weight[d], layer.bias[d, :, 0]))
        last = network.decoder[-1]
        output = functional.linear(hidden, last.weight[d], last.bias[d, :, 0])
        deviation = network.deviations[d, :, 0]
        law = torch.distributions.Normal(torch.tanh(output[:, :p]), deviation)
        # The density without its constant, which has no gradient.
        loss = -law.log_prob(encoded.alphas[d]).sum()
        for group in encoded.layout.groups:
            for k in range(group.count):
                start = group.start + k * group.size
                here = torch.arange(start, start + group.size)[
                    encoded.seen[d, start : start + group.size]
                ]
                target = (here - start == encoded.chosen[d, :, group.first + k, None]).float()
                loss = loss + functional.cross_entropy(output[:, here], target, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        total = total + (factor * loss + divergence) / len(rows[d])
    return total


def test_gradients_are_those_of_the_loss() -> None:
    encoded = encoded_tables([1, 2, 3])
    assert not bool(encoded.seen.all())  # there is something to leave out
    streams = Streams([1, 2, 3])
    network = tvae._started(encoded, streams, SETTINGS)
    network.deviations.copy_(0.05 + 0.3 * torch.rand(network.deviations.shape))
    inputs = next(tvae._minibatches(encoded, streams, 1000))
    noise = streams.normal(Purpose.LATENT, 0, (SETTINGS.embedding, inputs.shape[2]))
    flat = torch.empty_like(network.flat)
    into = tvae._networks(flat, encoded.layout.width, SETTINGS)
    tvae._gradients(network, inputs, noise, encoded, 2.0, into)
    leaf = network.flat.clone().requires_grad_()
    again = tvae._networks(leaf, encoded.layout.width, SETTINGS)
    plain_loss(again, encoded, noise, 2.0).backward()
    assert leaf.grad is not None
    torch.testing.assert_close(flat, leaf.grad, rtol=2e-4, atol=2e-5)
    assert float(flat.abs().max()) > 0.1


def test_the_benchmark_times_the_products_of_a_training_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The bound on what a batch could save rests on it.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    bench = import_module("bench_neural")

    def operations(run: Callable[[TvaeSettings], object], epochs: int) -> int:
        settings = replace(bench.CONFIGS["degraded"], epochs=epochs)
        monkeypatch.setitem(bench.CONFIGS, "degraded", settings)
        with FlopCounterMode(display=False) as counter:
            run(settings)
        return counter.get_total_flops()

    encoded = bench.encode_tables(bench.tables_of("degraded", 1), Streams([0]))
    trained, timed = (
        operations(run, 3) - operations(run, 1)
        for run in (
            lambda settings: tvae.train(encoded, Streams([0]), settings),
            lambda _: bench.products(1, "degraded"),
        )
    )
    assert trained == timed > 0


def test_a_pass_has_every_row_once_and_the_last_step_the_rest() -> None:
    encoded = encoded_tables([1, 2], n=50)
    whole = encoded.layout.rows(encoded.alphas, encoded.chosen).transpose(1, 2)
    batches = tvae._minibatches(encoded, Streams([1, 2]), 20)
    passes = [[next(batches) for _ in range(3)] for _ in range(2)]
    for parts in passes:
        assert [part.shape[2] for part in parts] == [20, 20, 10]
        for d in range(2):
            given = torch.cat(parts, dim=2)[d, 0].sort().values
            assert torch.equal(given, whole[d, 0].sort().values)
    assert not torch.equal(passes[0][0], passes[1][0])
    assert not torch.equal(passes[0][0][0], whole[0, :, :20])


@pytest.mark.parametrize("batch_size", [40, 500])
def test_a_draw_has_the_same_bits_alone_and_in_company(batch_size: int) -> None:
    settings = replace(SETTINGS, batch_size=batch_size, epochs=6)
    seeds = [5, 6, 7, 8]
    together = tvae.train(encoded_tables(seeds), Streams(seeds), settings)
    for k in (0, 2):
        alone = tvae.train(encoded_tables([seeds[k]]), Streams([seeds[k]]), settings)
        assert torch.equal(together.flat[k], alone.flat[0])


@pytest.mark.parametrize(
    ("n", "rows", "settings"),
    [
        (81, 5, SETTINGS),
        (30, 1, replace(SETTINGS, embedding=64, decompress=(128, 128))),
        (5, 5, replace(SETTINGS, batch_size=1)),
        (200, 5, replace(SETTINGS, batch_size=200, embedding=1, decompress=(64, 64))),
    ],
    ids=["a last step of one row", "a release of one row", "steps of one row", "widths of one"],
)
def test_one_row_at_a_time_gives_the_same_bits_alone_and_in_company(
    n: int, rows: int, settings: TvaeSettings
) -> None:
    def released(seeds: list[int]) -> list[Any]:
        encoded, streams = encoded_tables(seeds, n), Streams(seeds)
        network = tvae.train(encoded, streams, settings)
        return [network.flat, *tvae.sample(network, encoded, streams, rows)]

    together = released([5, 6, 7])
    for k, seed in enumerate([5, 6, 7]):
        for whole, alone in zip(together, released([seed]), strict=True):
            assert torch.equal(whole[k], alone[0])


def test_deviations_stay_within_their_limits() -> None:
    settings = replace(SETTINGS, learning_rate=0.3, epochs=10)
    network = tvae.train(encoded_tables([1]), Streams([1]), settings)
    assert float(network.deviations.min()) >= 0.01
    assert float(network.deviations.max()) <= 1.0


def figures(numbers: NDArray[np.float64], codes: NDArray[np.int64]) -> dict[str, float]:
    """What an audit would look at in a release, and how it does as training data."""
    source, labels = table(400, seed=77)
    features = np.column_stack([numbers, codes[:, 0]])
    design = np.column_stack([np.ones(len(features)), features])
    weights = np.linalg.lstsq(design, codes[:, 1], rcond=None)[0]
    fresh = np.column_stack([np.ones(400), source, labels[:, 0]])
    return {
        "mean of the first": numbers[:, 0].mean(),
        "deviation of the first": numbers[:, 0].std(),
        "median of the second": float(np.median(numbers[:, 1])),
        "highest of the second": numbers[:, 1].max(),
        "correlation": np.corrcoef(numbers.T)[0, 1],
        "correlation with the class": np.corrcoef(numbers[:, 0], codes[:, 1] + 1e-9)[0, 1]
        if codes[:, 1].std()
        else 0.0,
        "share of the class": codes[:, 1].mean(),
        "share of a level": (codes[:, 0] == 1).mean(),
        "error of a learner": ((fresh @ weights > 0.5) != labels[:, 1]).mean(),
    }


def test_the_law_is_that_of_a_plain_tvae_one_draw_at_a_time(effort: Any) -> None:
    draws = effort.times(whole=200, reduced=40)
    numbers, codes = table()
    settings = replace(SETTINGS, epochs=25, batch_size=60, learning_rate=3e-3)
    tables = TrainingTables(
        numbers=np.repeat(numbers[None], draws, axis=0),
        codes=np.repeat(codes[None], draws, axis=0),
        sizes=SIZES,
        rows=300,
        wanted=[None] * draws,
    )
    ours = []
    for release in draw_tables(tables, range(draws), settings, torch.device("cpu")):
        assert not isinstance(release, DrawError)
        ours.append(figures(release.numbers, release.codes))
    plain = PlainSettings(6, (16, 12), (10, 14), batch_size=60, epochs=25, learning_rate=3e-3)
    theirs = [figures(*draw_plain(numbers, codes, seed, plain, 300)) for seed in range(draws)]
    for name in ours[0]:
        mine, other = ([figure[name] for figure in made] for made in (ours, theirs))
        assert stats.ks_2samp(mine, other).pvalue > 1e-4, name
    # The figures can tell laws apart: a fifth of the steps makes another one.
    short = draw_tables(tables, range(draws), replace(settings, epochs=5), torch.device("cpu"))
    less = [figures(r.numbers, r.codes) for r in short if not isinstance(r, DrawError)]
    least = min(
        stats.ks_2samp([f[name] for f in ours], [f[name] for f in less]).pvalue for name in ours[0]
    )
    assert least < 1e-4
