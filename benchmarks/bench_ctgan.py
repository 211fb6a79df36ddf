"""Seconds for draws of CTGAN on a table like Rice: 500 rows, 7 numbers, two classes.

Torch and numpy are all it needs, so that it runs on a machine that has a GPU and little else:

    PYTHONPATH=src python benchmarks/bench_ctgan.py --device cuda --draws 1000

Without torch it says so and ends. On a CPU it trains few draws for few steps unless the options say
otherwise, together and one by one. With a GPU it also compares what a recorded graph gives with
what the same kernels give when each is launched by itself (`--steps-compared`).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

if find_spec("torch") is None:
    print("CTGAN: not measured, torch is not installed")
    sys.exit(0)
import torch

from proxyguard.adapters.networks import CtganSettings
from proxyguard.neural.batched import chosen_device, reproducible
from proxyguard.neural.ctgan import CtganNetworks, bytes_of_draw
from proxyguard.neural.encoding import Layout, encode
from proxyguard.neural.noise import Streams
from proxyguard.neural.releases import TrainingTables

LAYOUT = Layout(7, (2,))


@dataclass
class Seconds:
    """Where the time of draws went."""

    encoding: float = 0.0
    training: float = 0.0
    sampling: float = 0.0

    @property
    def total(self) -> float:
        return self.encoding + self.training + self.sampling


def rice_like(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two classes of grains: sizes, lengths and shapes that go together."""
    rng = np.random.default_rng(0)
    grain = (rng.random(rows) < 0.57).astype(np.int64)
    size = rng.normal(14_000 - 3_000 * grain, 1_300)
    length = 210 * np.sqrt(size / 14_000) + rng.normal(0, 6, rows)
    shape = np.clip(0.91 - 0.03 * grain + rng.normal(0, 0.02, rows), 0.7, 0.95)
    width = length * np.sqrt(1 - shape**2)
    extent = rng.uniform(0.5, 0.85, rows)
    outline = 2.5 * length + rng.normal(0, 10, rows)
    numbers = [size, outline, length, width, shape, size * rng.normal(1.02, 0.005, rows), extent]
    return np.column_stack(numbers), grain[:, None]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--draws", type=int, help="1,000 on a GPU, 4 on a CPU")
    parser.add_argument("--together", type=int, help="200 on a GPU, all on a CPU")
    parser.add_argument("--epochs", type=int, help="300 on a GPU, 10 on a CPU")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--steps-compared", type=int, default=20)
    arguments = parser.parse_args()
    device = chosen_device(arguments.device)
    on_gpu = device.type == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    draws = arguments.draws or (1_000 if on_gpu else 4)
    together = arguments.together or (200 if on_gpu else draws)
    settings = CtganSettings(epochs=arguments.epochs or (300 if on_gpu else 10))
    numbers, codes = (torch.from_numpy(part).to(device) for part in rice_like(arguments.rows))

    def clock() -> float:
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def draw(seeds: range, seconds: Seconds, steps: int | None = None, graph: bool = True) -> float:
        """Draw releases, add the seconds, and return the mean of all numbers, which is finite."""
        start = clock()
        streams = Streams(seeds, device)
        tables = (part.expand(len(seeds), *part.shape) for part in (numbers, codes))
        encoded = encode(*tables, LAYOUT.sizes, streams)
        networks = CtganNetworks(encoded, streams, settings)
        networks.steps = networks.steps if steps is None else steps
        encoded_at = clock()
        networks.train(graph=graph)
        trained_at = clock()
        rows = networks.sample(range(len(seeds)), arguments.rows)
        assert rows.finite.all()
        seconds.encoding += encoded_at - start
        seconds.training += trained_at - encoded_at
        seconds.sampling += clock() - trained_at
        return float(rows.numbers.mean())

    with reproducible():
        if on_gpu:  # what starts once is not the cost of a draw
            draw(range(2), Seconds(), steps=3)
            torch.cuda.reset_peak_memory_stats()
        seconds = Seconds()
        for first in range(0, draws, together):
            draw(range(first, min(draws, first + together)), seconds)
        steps = settings.steps(arguments.rows)
        print(
            f"CTGAN, {draws} draws of {arguments.rows} rows, {steps} steps, {together} together on "
            f"{device.type}: encoding {seconds.encoding:.2f} s, training {seconds.training:.2f} s, "
            f"sampling {seconds.sampling:.2f} s, {seconds.total:.2f} s in all"
        )
        shapes = [np.broadcast_to(0, (1, *part.shape)) for part in (numbers, codes)]
        tables = TrainingTables(*shapes, LAYOUT.sizes, arguments.rows, [None])
        estimate = min(draws, together) * bytes_of_draw(tables, settings) / 1e6
        if not on_gpu:
            alone = Seconds()
            for seed in range(draws):
                draw(range(seed, seed + 1), alone)
            print(
                f"memory estimated {estimate:.0f} MB; one by one {alone.total:.2f} s, "
                f"{alone.total / seconds.total:.2f} times as long"
            )
            return
        peak = torch.cuda.max_memory_reserved() / 1e6
        print(f"memory estimated {estimate:.0f} MB, reserved at most {peak:.0f} MB")
        compared = [
            draw(range(10), Seconds(), arguments.steps_compared, graph) for graph in (True, False)
        ]
        equal = compared[0] == compared[1]
        print(
            f"graph and single launches after {arguments.steps_compared} steps: "
            f"{'equal' if equal else 'DIFFER'}"
        )
        if not equal:
            sys.exit(1)


if __name__ == "__main__":
    main()
