"""Layers with a leading axis of draws, and how many draws are computed at once.

A layer of a batch is one stack of weights, and its product one batched product: on a CPU with one
thread every draw gets the bits that it gets alone, on a GPU all draws take little longer than one.
The former holds for all widths by the setting of Intel's library that the package makes on import;
without it a product has other last bits where a matrix starts within a cache line, and those of a
batch follow each other in memory.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from proxyguard.adapters.networks import DEVICE, LIBRARY, PROCESSOR, Device
from proxyguard.errors import DrawError
from proxyguard.neural.noise import Purpose, Streams

# Without it cuBLAS refuses to be deterministic.
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
Result = TypeVar("Result")


def chosen_device(device: Device) -> torch.device:
    """Return the device that draws are computed on.

    To be asked in the process that draws and never before it is forked: to ask for a GPU may
    start CUDA, which does not survive a fork.

    Raises
    ------
    DrawError
        If a GPU is asked for and there is none.
    """
    if device == "cpu":
        return torch.device("cpu")
    os.environ.setdefault(WORKSPACE, ":4096:8")  # before the first product on the GPU
    present = torch.cuda.is_available()
    if device == "cuda" and not present:
        raise DrawError(
            'device is "cuda", and PyTorch sees no GPU here; run it where there is one, or '
            'register device = "auto" or "cpu"'
        )
    return torch.device("cuda" if present else "cpu")


def arithmetic(device: torch.device) -> dict[str, str]:
    """Return what the last bits of a draw depend on: device, processor and version of torch.

    What a draw says of itself (``seed.computed``), with how many were computed together.
    """
    if device.type == "cuda":
        processor = str(torch.cuda.get_device_name(device))
    else:
        # By its widest instructions, which torch chooses its code by, and not by its model.
        processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {DEVICE: device.type, PROCESSOR: processor, LIBRARY: str(torch.__version__)}


@contextmanager
def reproducible() -> Iterator[None]:
    """Compute, within, by algorithms that give the same bits each time.

    Threads are left as they are: a drawing process has one.
    """
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def product(
    left: Tensor, right: Tensor, *, added: Tensor | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the product of each draw's matrices; on a CPU its bits are the same in any batch.

    Parameters
    ----------
    left, right
        ``(draws, a, b)`` and ``(draws, b, c)``.
    added
        What is added, ``(draws, a, c)`` or what broadcasts to it.
    out
        Where the product is put.
    """
    if right.shape[2] == 1 and left.device.type == "cpu":
        # One matrix times one column goes to another routine of PyTorch than several of them, with
        # other last bits, and so do several whose results are put apart. So a lone one is computed
        # beside itself, as a batch is, and nothing is put where it belongs before the end.
        lone = len(left) == 1
        if lone:
            left, right = left.expand(2, -1, -1), right.expand(2, -1, -1)
            added = None if added is None else added.expand(2, -1, -1)
        made = torch.bmm(left, right) if added is None else torch.baddbmm(added, left, right)
        made = made[:1] if lone else made
        return made if out is None else out.copy_(made)
    if added is None:
        return torch.bmm(left, right, out=out)
    return torch.baddbmm(added, left, right, out=out)


@dataclass(frozen=True, slots=True)
class Linear:
    """An affine layer of every draw: ``weight`` (draws, in, out) and ``bias`` (draws, 1, out)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the layer's output for ``(draws, rows, in)``."""
        return torch.baddbmm(self.bias, rows, self.weight)

    @property
    def parameters(self) -> list[Tensor]:
        """What is learned."""
        return [self.weight, self.bias]

    def at(self, draws: Tensor) -> Linear:
        """Return the layer of some draws."""
        return Linear(self.weight[draws], self.bias[draws])


def new_linear(
    streams: Streams, layer: int, inputs: int, outputs: int, fan_in: Tensor | None = None
) -> Linear:
    """Return a layer as PyTorch starts one: weights and biases uniform within 1 / sqrt(inputs).

    Parameters
    ----------
    streams
        The streams of the draws.
    layer
        The number of the layer in its network: each has numbers of its own.
    inputs, outputs
        The widths, equal for all draws.
    fan_in
        How many inputs each draw really has, ``(draws,)``, where the others are padding.
    """
    width = torch.full((len(streams),), float(inputs), device=streams.device)
    if fan_in is not None:
        width = fan_in.to(streams.device, torch.float32)
    bound = width.rsqrt()[:, None, None]
    drawn = streams.uniform(Purpose.WEIGHTS, layer, (inputs + 1, outputs))
    values = (2.0 * drawn - 1.0) * bound
    return Linear(
        values[:, :inputs].clone().requires_grad_(), values[:, inputs:].clone().requires_grad_()
    )


class Adam:
    """Adam and AdamW, the bits of PyTorch's, without a look at the GPU of the machine.

    `torch.optim` asks at every step whether a GPU is recording, which starts one that nobody asked
    for: in a draw that may not use it this is an error.

    Parameters
    ----------
    parameters
        What is learned.
    decay
        How fast weights decay.
    coupled
        Whether the decay is part of the gradient (Adam), or a share of the rate by which weights
        shrink at every step (AdamW).
    """

    FIRST, SECOND, TINY = 0.9, 0.999, 1e-8

    def __init__(
        self, parameters: Sequence[Tensor], *, decay: float = 0.0, coupled: bool = False
    ) -> None:
        self._parameters, self._decay, self._coupled = list(parameters), decay, coupled
        self._means = [torch.zeros_like(p) for p in self._parameters]
        self._squares = [torch.zeros_like(p) for p in self._parameters]
        self._steps = 0

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Move what is learned by one step; where the decay is coupled, gradients are used up."""
        self._steps += 1
        move = rate / (1.0 - self.FIRST**self._steps)
        root = (1.0 - self.SECOND**self._steps) ** 0.5
        state = zip(self._parameters, gradients, self._means, self._squares, strict=True)
        with torch.no_grad():
            for parameter, gradient, mean, square in state:
                if self._decay and self._coupled:
                    gradient.add_(parameter, alpha=self._decay)
                elif self._decay:
                    parameter.mul_(1.0 - rate * self._decay)
                mean.lerp_(gradient, 1.0 - self.FIRST)
                square.mul_(self.SECOND).addcmul_(gradient, gradient, value=1.0 - self.SECOND)
                size = square.sqrt().div_(root).add_(self.TINY)
                parameter.addcdiv_(mean, size, value=-move)


def in_batches(
    run: Callable[[Sequence[int]], Sequence[Result]], seeds: Sequence[int], most: int
) -> list[tuple[Result, int]]:
    """Return what ``run`` makes of each seed, and how many it was computed together with.

    At most ``most`` are computed at once. Where the device's memory does not hold so many, half
    of them are, from there on; a single draw that it does not hold is an error.

    Raises
    ------
    DrawError
        If one draw alone does not fit the memory of the device.
    """
    made: list[tuple[Result, int]] = []
    size = max(1, min(most, len(seeds)))
    while len(made) < len(seeds):
        these = seeds[len(made) : len(made) + size]
        try:
            results = run(these)
        except torch.OutOfMemoryError:
            if len(these) == 1:
                raise DrawError(
                    "one draw alone does not fit the memory of the GPU; register smaller widths, "
                    'a smaller batch_size or device = "cpu"'
                ) from None
            size = len(these) // 2
            # Outside the handler's frame nothing holds the tensors of the failed try any more.
            torch.cuda.empty_cache()
            continue
        made += [(result, len(these)) for result in results]
    return made
