"""Seconds for draws of TabDDPM on a table like Heart: 162 rows, 13 numbers, two classes.

Torch and numpy are all it needs, so that it runs on a machine that has a GPU and little else:

    PYTHONPATH=src python benchmarks/bench_diffusion.py --device cuda --draws 100

Without torch it says so and ends. On a CPU it trains for a tenth of the steps unless `--steps` says
otherwise. With a GPU it also compares what a recorded graph gives with what the same kernels give
when each is launched by itself (`--steps-compared`): they are equal to the bit. `--mixed` adds
columns of categories, `--no-graph` launches every kernel.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

if find_spec("torch") is None:
    print("TabDDPM: not measured, torch is not installed")
    sys.exit(0)
import torch

from proxyguard.adapters.networks import TabDdpmSettings
from proxyguard.neural.batched import chosen_device, reproducible
from proxyguard.neural.diffusion import (
    DiffusedLayout,
    TrainingRows,
    bytes_of_rows,
    classes_as_trained,
    sample,
    train,
)
from proxyguard.neural.noise import Streams

MIXED = (2, 2, 3, 3, 4, 7)
"""Categories of the columns that `--mixed` adds, as many as Adult's small ones have."""


def heart_like(draws: int, rows: int, sizes: tuple[int, ...]) -> TrainingRows:
    """Return the same rows for every draw: correlated numbers that depend on the class."""
    rng = np.random.default_rng(0)
    classes = (rng.random(rows) < 0.44).astype(np.int64)
    mixing = rng.normal(size=(13, 13)) / 4.0 + np.eye(13)
    numbers = rng.normal(size=(rows, 13)) @ mixing + classes[:, None] * rng.normal(size=13)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    codes = (rng.random((rows, len(sizes))) * np.array(sizes)).astype(np.int64)

    def stacked(values: np.ndarray, kind: torch.dtype) -> torch.Tensor:
        tensor = torch.tensor(values, dtype=kind)
        return tensor.expand(draws, *tensor.shape)

    return TrainingRows(
        stacked(numbers, torch.float32), stacked(codes, torch.int64), stacked(classes, torch.int64)
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--rows", type=int, default=162)
    parser.add_argument("--steps", type=int, help="5,000 on a GPU, 500 on a CPU")
    parser.add_argument("--steps-compared", type=int, default=200)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--no-graph", action="store_true")
    arguments = parser.parse_args()
    device = chosen_device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    sizes = MIXED if arguments.mixed else ()
    layout = DiffusedLayout(13, sizes, 2)
    settings = TabDdpmSettings(steps=arguments.steps or (500 if device.type == "cpu" else 5_000))
    draws, rows = arguments.draws, arguments.rows
    table = heart_like(draws, rows, sizes)
    streams = Streams(range(1, draws + 1), device)

    def clock() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    with reproducible():
        if device.type == "cuda":  # what starts once is not the cost of a draw
            train(table, streams, layout, replace(settings, steps=10))
            torch.cuda.reset_peak_memory_stats()
        start = clock()
        network = train(table, streams, layout, settings, graph=not arguments.no_graph)
        trained = clock()
        classes = classes_as_trained(table, streams, rows)
        numbers, codes = sample(network, streams, settings, rows, classes)
        numbers, codes = numbers.cpu(), codes.cpu()
        sampled = clock()
        print(
            f"TabDDPM, {draws} draws of {rows} rows, {settings.steps} steps on {device.type}: "
            f"training {trained - start:.2f} s, sampling {sampled - trained:.2f} s, "
            f"{sampled - start:.2f} s in all; finite {int(network.finite.sum())} of {draws}; "
            f"mean {float(numbers.mean()):+.3f}, sd {float(numbers.std()):.3f}"
        )
        estimate = draws * bytes_of_rows(layout, settings, rows, rows) / 1e6
        if device.type != "cuda":
            print(f"memory estimated {estimate:.0f} MB")
            return
        peak = torch.cuda.max_memory_reserved() / 1e6
        print(f"memory estimated {estimate:.0f} MB, reserved at most {peak:.0f} MB")
        few = replace(settings, steps=arguments.steps_compared)
        results = [
            sample(train(table, streams, layout, few, graph=graph), streams, few, rows, classes)
            for graph in (True, False)
        ]
        equal = all(torch.equal(a, b) for a, b in zip(*results, strict=True))
        print(
            f"graph and single launches after {few.steps} steps: {'equal' if equal else 'DIFFER'}"
        )
        if not equal:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
