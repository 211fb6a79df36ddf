"""Seconds for draws of TVAE on a table like Rice: 500 rows, 7 numbers, two classes.

Torch and numpy are all it needs, so that it runs on a machine that has a GPU and little else:

    PYTHONPATH=src python benchmarks/bench_neural.py --device cuda --draws 1000 --config high

Three ways of making the same draws, in one run. Together: mixtures, training and sampling of all
draws, timed each. Alone: the same functions with one draw at a time, for `--alone` draws. Plain,
where scikit-learn is installed: one draw at a time with scikit-learn's mixtures and modules of
torch.nn (`tests/neural/plain_tvae.py`), which is what one would write. On a CPU all
times are seconds of processor time of one thread, which others on the machine change little, and
two cores make two draws at once either way. There the matrix products of the training are timed
without all else, too: they are the same work in any batch, so that their time bounds from above how
many times as fast a batch can be. Without torch it says so and ends.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

if find_spec("torch") is None:
    print("TVAE: not measured, torch is not installed")
    sys.exit(0)
import torch

from proxyguard.adapters.networks import TvaeSettings
from proxyguard.neural import tvae
from proxyguard.neural.batched import chosen_device, in_batches, product, reproducible
from proxyguard.neural.encoding import encode_tables
from proxyguard.neural.noise import Streams
from proxyguard.neural.releases import TrainingTables

MODERATE = TvaeSettings(embedding=64, epochs=80)
CONFIGS = {
    "high": replace(MODERATE, epochs=200),
    "moderate": MODERATE,
    "degraded": TvaeSettings(
        embedding=32, compress=(64, 64), decompress=(64, 64), batch_size=300, epochs=50
    ),
}
ROWS = {"high": (500, 2_000), "moderate": (500, 2_000), "degraded": (300, 1_000)}
CENTRES = np.array(
    [
        [11_550, 14_160], [430, 487], [176, 205], [83.4, 88.8], [0.877, 0.901], [11_800, 14_490],
        [0.668, 0.653],
    ]
)  # fmt: skip
SPREADS = np.array([1_040, 20, 9, 5.2, 0.018, 1_070, 0.078])


def rice_like(rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two classes of correlated numbers, with the means and deviations of Rice."""
    rng = np.random.default_rng(0)
    classes = (rng.random(rows) < 0.43).astype(np.int64)
    size = rng.normal(size=(rows, 1))
    noise = 0.8 * size + 0.6 * rng.normal(size=(rows, len(SPREADS)))
    return CENTRES[:, classes].T + SPREADS * noise, classes[:, None]


@dataclass(frozen=True)
class Seconds:
    """What the stages of a draw took, of all draws."""

    mixtures: float
    training: float
    sampling: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.mixtures + self.training + self.sampling


def now(device: torch.device) -> float:
    """Return seconds: of the processor on a CPU, on a GPU of the clock, with nothing under way."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def tables_of(config: str, draws: int) -> TrainingTables:
    """Return the same table for every draw."""
    rows, released = ROWS[config]
    repeated = (np.repeat(part[None], draws, axis=0) for part in rice_like(rows))
    return TrainingTables(*repeated, (2,), released, [None] * draws)


def draw(seeds: Sequence[int], config: str, device: torch.device) -> Seconds:
    """Make draws together, from the table to the release's arrays."""
    settings, tables = CONFIGS[config], tables_of(config, len(seeds))

    def clock() -> float:
        return now(device)

    with reproducible():
        start = clock()
        streams = Streams(seeds, device)
        encoded = encode_tables(tables, streams)
        fitted = clock()
        network = tvae.train(encoded, streams, settings)
        trained = clock()
        made = tvae.sample(network, encoded, streams, tables.rows)
        _ = [part.cpu().numpy() for part in made]
        return Seconds(fitted - start, trained - fitted, clock() - trained)


def products(draws: int, config: str) -> float:
    """Return seconds a draw of the matrix products of the training alone, on a CPU."""
    settings, tables = CONFIGS[config], tables_of(config, draws)
    with reproducible():
        streams = Streams(range(draws))
        encoded = encode_tables(tables, streams)
        network = tvae.train(encoded, streams, replace(settings, epochs=1))
        layers = [*network.encoder, network.head, *network.decoder]
        rows = settings.batch_size  # as many as a table has, so that a pass is one step
        given = [torch.zeros((draws, layer.weight.shape[2], rows)) for layer in layers]
        gradients = [torch.empty_like(layer.weight) for layer in layers]
        start = time.process_time()
        for _ in range(settings.epochs):
            for k, layer in enumerate(layers):
                outputs = layer(given[k])
                product(outputs, given[k].transpose(1, 2), out=gradients[k])
                if k:  # nobody asks for the gradient of the rows themselves
                    product(layer.weight.transpose(1, 2), outputs)
        return (time.process_time() - start) / draws


def draw_all(seeds: Sequence[int], config: str, device: torch.device, together: int) -> Seconds:
    """Make draws batch by batch."""
    pieces: list[Seconds] = []

    def run(some: Sequence[int]) -> Sequence[None]:
        pieces.append(draw(some, config, device))
        return [None] * len(some)

    in_batches(run, seeds, together)
    return Seconds(
        *(sum(getattr(piece, name) for piece in pieces) for name in Seconds.__dataclass_fields__)
    )


def plain(config: str) -> Callable[[int], object] | None:
    """Return how a draw is made in the plain way, if it can be here."""
    if find_spec("sklearn") is None:
        return None
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from neural.plain_tvae import PlainSettings, draw_plain

    s = CONFIGS[config]
    settings = PlainSettings(s.embedding, s.compress, s.decompress, s.batch_size, s.epochs)
    numbers, codes = rice_like(ROWS[config][0])
    return lambda seed: draw_plain(numbers, codes, seed, settings, ROWS[config][1])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--config", choices=tuple(CONFIGS), default="moderate")
    parser.add_argument("--together", type=int, help="all on a GPU, 8 on a CPU")
    parser.add_argument("--alone", type=int, default=2, help="draws that are made one by one")
    arguments = parser.parse_args()
    draws, config = arguments.draws, arguments.config
    seeds = list(range(1, draws + 1))
    device = chosen_device(arguments.device)
    torch.set_num_threads(1)
    draw(seeds[:1], config, device)  # what starts once is not the cost of a draw
    start = now(device)
    made = draw_all(
        seeds, config, device, arguments.together or (8 if device.type == "cpu" else draws)
    )
    spent = now(device) - start
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "one thread of a CPU"
    settings = CONFIGS[config]
    estimate = tvae.bytes_of_draw(tables_of(config, 1), settings) / 1e6
    print(f"TVAE, {draws} draws of {config} ({settings.epochs} steps), {where}")
    print(f"  together: {spent:8.2f} s, {1e3 * spent / draws:8.2f} ms a draw")
    for name in Seconds.__dataclass_fields__:
        print(f"    {name:<10}{getattr(made, name):8.2f} s")
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 1e6
        print(f"  memory: {peak / draws:.1f} MB a draw at most, {estimate:.1f} MB as estimated")
    start = now(device)
    for seed in seeds[: arguments.alone]:
        draw([seed], config, device)
    alone = (now(device) - start) / min(arguments.alone, draws)
    print(f"  alone:    {1e3 * alone:8.2f} ms a draw, {alone * draws / spent:6.1f} times as long")
    if device.type == "cpu":
        least = min(products(1, config), products(min(8, draws), config))
        print(
            f"    of which products of the network, which no batch saves: {1e3 * least:.2f} ms; "
            f"all else for nothing would be {alone / least:.1f} times as fast"
        )
    plainly = plain(config)
    if plainly is None:
        print("  plain:    not measured, scikit-learn is not installed")
        return
    start = time.process_time()
    for seed in seeds[: arguments.alone]:
        plainly(seed)
    each = (time.process_time() - start) / min(arguments.alone, draws)
    ratio = each * draws / spent
    print(f"  plain:    {1e3 * each:8.2f} ms a draw on a CPU, {ratio:6.1f} times as long")


if __name__ == "__main__":
    main()
