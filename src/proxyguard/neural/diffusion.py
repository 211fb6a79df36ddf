"""TabDDPM (Kotelnikov, Baranchuk, Rubachev and Babenko 2023), many draws at once.

Numbers are diffused by Gaussian noise (Ho, Jain and Abbeel 2020), categories by a multinomial chain
that keeps a category or replaces it by any one alike (Hoogeboom and others 2021); a network learns
to undo both, and a release is what it makes of pure noise. The constants that the paper leaves open
are those of its authors' code (MIT licence). First come the chains, then the network.

On a CPU every draw has the bits that it has alone. So widths are multiples of 16, and of PyTorch's
elementwise functions some compute the last few numbers of a tensor otherwise than the rest, among
them `sigmoid`, `silu`, `logaddexp` and its fused optimisers: with them a draw's bits would depend
on where it lies in the batch, so none of them stands here on a CPU's way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxyguard.adapters.networks import MULTIPLE, TabDdpmSettings
from proxyguard.neural.batched import Adam, Linear, new_linear
from proxyguard.neural.encoding import BlockGroup, by_size, groups_by_size
from proxyguard.neural.noise import Purpose, Streams

# The cosine schedule starts so far from its top: its first steps would add almost nothing.
OFFSET = 0.008
# No step of the schedule adds more.
MOST_NOISE = 0.999
# The logarithm of a chance of none: times 0 it is 0, where that of minus infinity is not.
NEVER = -1e30


@dataclass(frozen=True, slots=True)
class NoiseSchedule:
    """How much noise each step of the diffusion adds.

    Attributes
    ----------
    beta
        ``(times,)``: the variance that step t adds.
    kept
        ``(times,)``: the share of the first variance that is left after step t, the product of
        all 1 - beta so far.
    """

    beta: NDArray[np.float64]
    kept: NDArray[np.float64]

    @property
    def before(self) -> NDArray[np.float64]:
        """The share that is left before step t; all of it before the first."""
        return np.concatenate([[1.0], self.kept[:-1]])


def cosine_schedule(times: int) -> NoiseSchedule:
    """Return the cosine schedule of Nichol and Dhariwal (2021).

    Examples
    --------
    >>> cosine_schedule(100).beta[[0, 50, 99]].round(6).tolist()
    [0.000631, 0.031546, 0.999]
    """
    ends = np.arange(times + 1) / times
    level = np.cos((ends + OFFSET) / (1.0 + OFFSET) * np.pi / 2.0) ** 2
    beta = np.minimum(1.0 - level[1:] / level[:-1], MOST_NOISE)
    return NoiseSchedule(beta, np.cumprod(1.0 - beta))


def aligned(width: int) -> int:
    """Return the width with padding to a multiple of `MULTIPLE`."""
    return -(-width // MULTIPLE) * MULTIPLE


@dataclass(frozen=True, slots=True)
class DiffusedLayout:
    """What a row of the network consists of: numbers, then the categories of every column.

    Attributes
    ----------
    numbers
        How many columns of numbers there are.
    sizes
        How many categories each column of codes has.
    classes
        How many classes the network is told; 0 where it is told none.
    """

    numbers: int
    sizes: tuple[int, ...] = ()
    classes: int = 0

    @property
    def width(self) -> int:
        """Numbers and categories together."""
        return self.numbers + sum(self.sizes)

    @property
    def padded(self) -> int:
        """The width of a row as the network sees it, with zeros at its end."""
        return aligned(self.width)

    @property
    def order(self) -> tuple[int, ...]:
        """The columns of codes by their number of categories, so that equal ones are adjacent."""
        return by_size(self.sizes)

    @property
    def groups(self) -> Iterator[BlockGroup]:
        """The columns of equal sizes, in `order`."""
        return groups_by_size(self.sizes, 0, self.numbers)


class Process:
    """The chain that adds noise, and its way back; times are counted from 0.

    What depends on the time alone is computed in double precision, and looked up.
    """

    def __init__(self, times: int, layout: DiffusedLayout, device: torch.device) -> None:
        self.times = times
        schedule = cosine_schedule(times)
        alpha, before = 1.0 - schedule.beta, schedule.before

        def table(values: NDArray[np.float64]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        def chances(kept: NDArray[np.float64], size: int) -> tuple[Tensor, Tensor]:
            other = (1.0 - kept) / size
            logs = np.full_like(other, NEVER)
            np.log(other, out=logs, where=other > 0.0)
            return table(np.log(kept + other)), table(logs)

        self._kept = table(schedule.kept)
        self._signal, self._noise = table(np.sqrt(schedule.kept)), table(np.sqrt(1 - schedule.kept))
        self._growth, self._spread = table(1.0 / np.sqrt(alpha)), table(np.sqrt(schedule.beta))
        self._predicted = table(schedule.beta / np.sqrt(1.0 - schedule.kept))
        self._before = table(np.log(before))
        sizes = [layout.sizes[k] for k in layout.order]
        self.sizes = torch.tensor(sizes, dtype=torch.float32, device=device)
        # By the number of categories, the chances that one step, and that all steps before it,
        # end in the category that they start from, and in each other one.
        self._step = {size: chances(alpha, size) for size in set(sizes)}
        self._past = {size: chances(before, size) for size in set(sizes)}

    def diffused(self, numbers: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """Return numbers after step t, ``(draws, rows, p)``, from those at the start."""
        return self._signal[times][..., None] * numbers + self._noise[times][..., None] * noise

    def diffused_codes(self, codes: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """Return codes after step t, ``(draws, rows, q)``.

        A code is left with the chance that is kept, and else any one alike; ``noise``
        ``(draws, rows, 2, q)`` says which.
        """
        left = noise[:, :, 0] < self._kept[times][..., None]
        return torch.where(left, codes, self.any_codes(noise[:, :, 1]))

    def any_codes(self, noise: Tensor) -> Tensor:
        """Return codes of which each is as likely, from uniform numbers ``(..., q)``."""
        # Below 1 by 2^-24 at least: the product with a size is rounded to below the size.
        return (noise * self.sizes).long()

    def step_back(self, numbers: Tensor, predicted: Tensor, time: int, noise: Tensor) -> Tensor:
        """Return numbers before step t, given those after it and the noise as predicted.

        The mean of the posterior at x0 = (x - sqrt(1 - A) e) / sqrt(A), which is
        (x - beta e / sqrt(1 - A)) / sqrt(1 - beta); the variance is beta, and none at the last.
        """
        mean = (numbers - self._predicted[time] * predicted) * self._growth[time]
        return mean if time == 0 else mean + self._spread[time] * noise

    def log_posterior(self, start: Tensor, codes: Tensor, times: Tensor) -> Tensor:
        """Return the logarithms of the chances of each category before step t.

        Parameters
        ----------
        start
            ``(..., k)``: the logarithms of the chances of each category at the start.
        codes
            ``(...)``: the codes after step t.
        times
            The times, which broadcast against the codes.
        """
        size, times = start.shape[-1], times[..., None]
        before = _log_sum(start + self._before[times], self._past[size][1][times])
        return torch.log_softmax(self._after(codes, times, size) + before, -1)

    def divergence(self, start: Tensor, true: Tensor, codes: Tensor, times: Tensor) -> Tensor:
        """Return how far the posterior that is learned is from the true one, by Kullback-Leibler.

        At the first time this is minus the logarithm of the chance of the true code.

        Parameters
        ----------
        start
            ``(..., k)``: the logarithms of the chances that the network gives each category.
        true, codes
            ``(...)``: the codes at the start and after step t.
        times
            The times, which broadcast against the codes.
        """
        size, later = start.shape[-1], times[..., None]
        same, other = self._past[size]
        before = torch.where(is_code(true, size), same[later], other[later])
        exact = torch.log_softmax(self._after(codes, later, size) + before, -1)
        learned = self.log_posterior(start, codes, times)
        return (exact.exp() * (exact - learned)).sum(-1)

    def _after(self, codes: Tensor, times: Tensor, size: int) -> Tensor:
        """Return the log chances of the codes after step t given each category before it."""
        same, other = self._step[size]
        return torch.where(is_code(codes, size), same[times], other[times])


def is_code(codes: Tensor, size: int) -> Tensor:
    """Return ``(..., size)``: whether it is the code."""
    return codes[..., None] == torch.arange(size, device=codes.device)


def _log_sum(a: Tensor, b: Tensor) -> Tensor:
    """Return log(exp(a) + exp(b)); `logaddexp` has other last bits at a tensor's end."""
    return torch.maximum(a, b) + torch.log1p(torch.exp(-(a - b).abs()))


# The longest wave of the embedding of times, in steps over two pi.
SLOWEST = 10_000.0
# Noise is computed for so many steps in one call, or for so many numbers of a draw: on a GPU a call
# costs the same for one step as for all. They are part of which numbers a seed gives.
STEPS_AT_ONCE, NUMBERS_AT_ONCE = 16, 1 << 16
# Where the vectors of classes stand among the layers that take noise for their weights.
CLASS_LAYER = 1_000


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows that each draw is trained on.

    Attributes
    ----------
    numbers
        ``(draws, n, p)``, float32, scaled.
    codes
        ``(draws, n, q)``, int64.
    classes
        ``(draws, n)``, int64, where the network is told classes.
    """

    numbers: Tensor
    codes: Tensor
    classes: Tensor | None = None

    def to(self, device: torch.device) -> TrainingRows:
        """Return the same on a device."""
        classes = None if self.classes is None else self.classes.to(device)
        return TrainingRows(self.numbers.to(device), self.codes.to(device), classes)

    def at(self, draws: Tensor) -> TrainingRows:
        """Return the rows of some draws."""
        classes = None if self.classes is None else self.classes[draws]
        return TrainingRows(self.numbers[draws], self.codes[draws], classes)

    def taken(self, positions: Tensor) -> TrainingRows:
        """Return some rows of each draw, ``(draws, batch)``."""

        def rows(columns: Tensor) -> Tensor:
            where = positions[:, :, None].expand(-1, -1, columns.shape[2])
            return columns.gather(1, where)

        classes = None if self.classes is None else self.classes.gather(1, positions)
        return TrainingRows(rows(self.numbers), rows(self.codes), classes)


def _silu(x: Tensor) -> Tensor:
    """Return x times its logistic function; why not `silu` is said at the top."""
    return x * (0.5 + 0.5 * torch.tanh(0.5 * x))


def time_features(times: int, width: int) -> NDArray[np.float64]:
    """Return ``(times, width)``: cosines, then sines, of t at falling frequencies."""
    half = width // 2
    angles = np.arange(times)[:, None] * SLOWEST ** (-np.arange(half) / half)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


@dataclass(frozen=True, slots=True)
class Network:
    """The networks of all draws: rows with noise, times and classes in, noise and logits out.

    Attributes
    ----------
    layout
        What a row consists of.
    features
        ``(times, embedding)``: the fixed features of every time.
    absent
        ``(draws, 1, width)``: what is added to the logits: nothing, and for a category that none
        of a draw's training rows has, so little that it is never drawn.
    entry, times, hidden, exit
        The layers: of rows, of times (two), after their sum, and to a row.
    classes
        ``(draws, classes, embedding)``: a vector for each class, where there are classes, and
        padding.
    """

    layout: DiffusedLayout
    features: Tensor
    absent: Tensor
    entry: Linear
    times: tuple[Linear, Linear]
    hidden: tuple[Linear, ...]
    exit: Linear
    classes: Tensor | None

    def __call__(
        self,
        rows: Tensor,
        times: Tensor,
        classes: Tensor | None,
        dropped: Sequence[Tensor] = (),
    ) -> Tensor:
        """Return ``(draws, rows, padded width)``.

        Parameters
        ----------
        rows
            ``(draws, rows, padded width)``: numbers and categories with noise, from `joined`.
        times, classes
            ``(draws, rows)``.
        dropped
            ``(draws, rows, units)`` for every hidden layer: what its units are multiplied by.
        """
        first, second = self.times
        state = self.entry(rows) + second(_silu(first(self.features[times])))
        if self.classes is not None and classes is not None:
            # A product, since the gradient of a lookup has no fixed order of summation on a GPU.
            chosen = is_code(classes, self.classes.shape[1]).to(rows.dtype)
            state = state + torch.bmm(chosen, _silu(self.classes))
        for k, layer in enumerate(self.hidden):
            state = torch.relu(layer(state))
            if dropped:
                state = state * dropped[k]
        return self.exit(state)

    @property
    def layers(self) -> tuple[Linear, ...]:
        """All layers, in the order of their noise."""
        return (self.entry, *self.times, *self.hidden, self.exit)

    @property
    def parameters(self) -> list[Tensor]:
        """What is learned."""
        vectors = [] if self.classes is None else [self.classes]
        return [p for layer in self.layers for p in layer.parameters] + vectors

    def copy(self) -> Network:
        """Return the same networks, which learn nothing."""
        return self._changed(lambda tensor: tensor.detach().clone())

    def at(self, draws: Tensor) -> Network:
        """Return the networks of some draws."""
        return self._changed(lambda tensor: tensor[draws])

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Network:
        def layer(linear: Linear) -> Linear:
            return Linear(change(linear.weight), change(linear.bias))

        first, second = self.times
        return replace(
            self,
            absent=change(self.absent),
            entry=layer(self.entry),
            times=(layer(first), layer(second)),
            hidden=tuple(layer(linear) for linear in self.hidden),
            exit=layer(self.exit),
            classes=None if self.classes is None else change(self.classes),
        )

    def joined(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Return rows: the numbers, for every category whether it is the code, and padding."""
        blocks = [
            is_code(codes[:, :, group.blocks], group.size).flatten(2).to(numbers.dtype)
            for group in self.layout.groups
        ]
        padding = numbers.new_zeros(*numbers.shape[:2], self.layout.padded - self.layout.width)
        return torch.cat([numbers, *blocks, padding], dim=2)

    def logits(self, output: Tensor) -> Iterator[tuple[BlockGroup, Tensor]]:
        """Return for the columns of each size ``(draws, rows, columns, size)``: log chances."""
        for group in self.layout.groups:
            block = output[:, :, group.coordinates] + self.absent[:, :, group.coordinates]
            yield group, torch.log_softmax(block.unflatten(2, (-1, group.size)), -1)

    @property
    def finite(self) -> Tensor:
        """``(draws,)``: whether all that a draw has learned is a number."""
        alright = [torch.isfinite(p.detach()).flatten(1).all(dim=1) for p in self.parameters]
        return torch.stack(alright).all(dim=0)


def _absent(codes: Tensor, layout: DiffusedLayout) -> Tensor:
    """Return `Network.absent` of training codes, which are in the layout's order."""
    added = torch.zeros((codes.shape[0], 1, layout.width), device=codes.device)
    for group in layout.groups:
        seen = is_code(codes[:, :, group.blocks], group.size).any(dim=1).flatten(1)
        added[:, 0, group.coordinates] = torch.where(seen, 0.0, NEVER)
    return added


def new_network(
    codes: Tensor, streams: Streams, layout: DiffusedLayout, settings: TabDdpmSettings
) -> Network:
    """Return networks as PyTorch would start them; vectors of classes start standard normal.

    ``codes`` ``(draws, n, q)``, in the layout's order, say which categories there are.
    """
    wide, widths = settings.embedding, settings.hidden
    ends = [wide, *widths]
    shapes = [
        (layout.padded, wide),
        (wide, wide),
        (wide, wide),
        *pairwise(ends),
        (ends[-1], layout.padded),
    ]
    inputs = [layout.width, wide, wide, *ends]
    entry, first, second, *hidden, last = (
        new_linear(streams, k, *shape, fan_in=torch.full((len(streams),), real))
        for k, (shape, real) in enumerate(zip(shapes, inputs, strict=True))
    )
    classes = None
    if layout.classes:
        classes = streams.normal(Purpose.WEIGHTS, CLASS_LAYER, (aligned(layout.classes), wide))
        classes = classes.clone().requires_grad_()
    features = torch.tensor(
        time_features(settings.times, wide), dtype=torch.float32, device=streams.device
    )
    absent = _absent(codes, layout)
    return Network(layout, features, absent, entry, (first, second), tuple(hidden), last, classes)


class _Training:
    """Networks in training. One step is a fixed sequence of kernels, which a graph can hold."""

    def __init__(
        self,
        rows: TrainingRows,
        streams: Streams,
        layout: DiffusedLayout,
        settings: TabDdpmSettings,
    ) -> None:
        device, draws = streams.device, len(streams)
        self.settings, self.streams, self.layout = settings, streams, layout
        order = torch.tensor(layout.order, dtype=torch.int64)
        self.rows = replace(rows, codes=rows.codes[:, :, order]).to(device)
        self.network = new_network(self.rows.codes, streams, layout, settings)
        self.average = self.network.copy()
        self.process = Process(settings.times, layout, device)
        self.count = int(rows.codes.shape[1])
        self.batch = min(settings.batch_size, self.count)
        self.batches = -(-self.count // self.batch)
        p, q = layout.numbers, len(layout.sizes)
        self.at_once = steps_at_once(self.batch, p + 2 * q + 1)
        self.shapes = {
            Purpose.DIFFUSED: (self.at_once, self.batch, p),
            Purpose.TIME: (self.at_once, self.batch),
            Purpose.CATEGORY: (self.at_once, self.batch, 2, q),
        }
        # Where a graph looks for its noise, its rows and its step.
        self.noise = {
            use: torch.zeros((draws, *shape), device=device) for use, shape in self.shapes.items()
        }
        self.order = torch.zeros((draws, self.count), dtype=torch.int64, device=device)
        self.positions = torch.zeros((draws, self.batch), dtype=torch.int64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        # On a GPU the rate is a tensor too, and one kernel moves all weights.
        self.rate = torch.tensor(settings.learning_rate, device=device)
        self.fused = self.adam = None
        if device.type == "cuda":
            self.fused = torch.optim.AdamW(
                self.network.parameters,
                lr=self.rate,
                weight_decay=settings.weight_decay,
                fused=True,
                capturable=True,
            )
        else:
            self.adam = Adam(self.network.parameters, decay=settings.weight_decay)

    def begin(self, step: int) -> int:
        """Lay out the noise and the rows of a step, and return how many rows it has."""
        if step % self.at_once == 0:
            call = step // self.at_once
            for use, shape in self.shapes.items():
                if math.prod(shape):
                    draw = self.streams.normal if use is Purpose.DIFFUSED else self.streams.uniform
                    self.noise[use].copy_(draw(use, call, shape))
            self.at.zero_()
        if self.batches == 1:  # all rows, whose order changes nothing
            return self.count
        epoch, batch = divmod(step, self.batches)
        if batch == 0:
            self.order.copy_(self.streams.permutation(Purpose.SHUFFLE, epoch, self.count))
        these = self.order[:, batch * self.batch : (batch + 1) * self.batch]
        size = min(self.batch, self.count - batch * self.batch)
        self.positions[:, :size].copy_(these)
        return size

    def learn(self, size: int) -> None:
        """Take one step of the optimiser on a batch of so many rows."""
        rows = self.rows if self.batches == 1 else self.rows.taken(self.positions[:, :size])
        parameters = self.network.parameters
        gradients = torch.autograd.grad(self.loss(rows, size), parameters)
        # Set after a step, as the authors do, so that the next one has it: the first two are alike.
        gone = (self.step.double() - 1.0).clamp_(min=0.0) / self.settings.steps
        self.rate.copy_(self.settings.learning_rate * (1.0 - gone))
        if self.adam is not None:
            self.adam.step(gradients, float(self.rate))
        if self.fused is not None:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            self.fused.step()
        with torch.no_grad():
            for mean, parameter in zip(self.average.parameters, parameters, strict=True):
                mean.lerp_(parameter, 1.0 - self.settings.average)
        self.step.add_(1)
        self.at.add_(1)

    def loss(self, rows: TrainingRows, size: int) -> Tensor:
        """Return the sum over draws of their losses: no draw's gradient knows another draw.

        The mean squared error of the noise of numbers, and for categories the divergence of the
        posteriors over the chance of the time, a mean over columns.
        """
        noise = {use: n.index_select(1, self.at)[:, 0, :size] for use, n in self.noise.items()}
        times = (noise[Purpose.TIME] * self.settings.times).long()
        numbers = self.process.diffused(rows.numbers, times, noise[Purpose.DIFFUSED])
        codes = self.process.diffused_codes(rows.codes, times, noise[Purpose.CATEGORY])
        inputs = self.network.joined(numbers, codes)
        output = self.network(inputs, times, rows.classes, self._dropped(size))
        total = output.new_zeros(len(self.streams))
        p, q = self.layout.numbers, len(self.layout.sizes)
        if p:
            total = total + (output[:, :, :p] - noise[Purpose.DIFFUSED]).square().mean(dim=(1, 2))
        for group, start in self.network.logits(output):
            chosen = rows.codes[:, :, group.blocks], codes[:, :, group.blocks]
            far = self.process.divergence(start, *chosen, times[..., None])
            total = total + far.sum(dim=2).mean(dim=1) * (self.settings.times / q)
        return total.sum()

    def _dropped(self, size: int) -> list[Tensor]:
        rate, widths = self.settings.dropout, self.settings.hidden
        if not rate:
            return []
        masks = []
        for k, width in enumerate(widths):
            call = self.step * len(widths) + k
            uniform = self.streams.uniform(Purpose.DROPOUT, call, (self.batch, width))
            masks.append((uniform[:, :size] >= rate).float() / (1.0 - rate))
        return masks


def steps_at_once(batch: int, numbers: int) -> int:
    """Return for how many steps noise is computed in one call, by a draw's numbers in a row."""
    return max(1, min(STEPS_AT_ONCE, NUMBERS_AT_ONCE // max(1, batch * numbers)))


def train(
    rows: TrainingRows,
    streams: Streams,
    layout: DiffusedLayout,
    settings: TabDdpmSettings,
    *,
    graph: bool = True,
) -> Network:
    """Return the running averages of networks that were trained on the rows of each draw.

    Parameters
    ----------
    rows
        The rows, as many for every draw.
    streams
        The draws' noise, on the device that trains.
    layout, settings
        The columns, and how networks are built and trained.
    graph
        Whether a GPU repeats a recorded step instead of being told each kernel again; the kernels
        and so the bits are the same.
    """
    training = _Training(rows, streams, layout, settings)
    if graph and streams.device.type == "cuda":
        _train_by_graph(training)
    else:
        for step in range(settings.steps):
            training.learn(training.begin(step))
    return training.average


# Steps of each size before one is recorded: libraries set themselves up in the first.
WARM = 3


def _train_by_graph(training: _Training) -> None:
    # What is recorded must not run on the stream that every kernel joins by default.
    stream = torch.cuda.Stream(training.streams.device)
    stream.wait_stream(torch.cuda.current_stream(training.streams.device))
    graphs: dict[int, torch.cuda.CUDAGraph] = {}
    taken: dict[int, int] = {}
    with torch.cuda.stream(stream):
        for step in range(training.settings.steps):
            size = training.begin(step)
            taken[size] = taken.get(size, 0) + 1
            if taken[size] <= WARM:
                training.learn(size)
                continue
            if size not in graphs:
                # Gradients of eager steps would be held beside those of the graph.
                for parameter in training.network.parameters:
                    parameter.grad = None
                graphs[size] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[size], stream=stream):
                    training.learn(size)
            graphs[size].replay()
    torch.cuda.current_stream(training.streams.device).wait_stream(stream)
    # The memory of a graph goes with it: nothing may still run in it.
    stream.synchronize()


def sample(
    network: Network,
    streams: Streams,
    settings: TabDdpmSettings,
    count: int,
    classes: Tensor | None,
    turn: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return rows that the networks make of noise.

    Parameters
    ----------
    network
        What `train` returned.
    streams, settings
        As it was trained with.
    count
        How many rows.
    classes
        ``(draws, count)``: the class of each row, where the networks were told classes.
    turn
        Each turn has noise of its own, for rows beside those of the turns before.

    Returns
    -------
    tuple
        Numbers ``(draws, count, p)``, scaled as those trained on, and codes ``(draws, count, q)``.
    """
    layout, device = network.layout, streams.device
    process = Process(settings.times, layout, device)
    p, q = layout.numbers, len(layout.sizes)
    numbers = streams.normal(Purpose.START, 2 * turn, (count, p))
    codes = process.any_codes(streams.uniform(Purpose.START, 2 * turn + 1, (count, q)))
    classes = None if classes is None else classes.to(device)
    for time in reversed(range(settings.times)):
        times = torch.full((len(streams), count), time, dtype=torch.int64, device=device)
        output = network(network.joined(numbers, codes), times, classes)
        call = turn * settings.times + time
        noise = streams.normal(Purpose.SAMPLE, call, (count, p))
        numbers = process.step_back(numbers, output[:, :, :p], time, noise)
        if not q:
            continue
        # The greatest of log chances with Gumbel noise each is a draw by these chances.
        uniform = streams.uniform(
            Purpose.GUMBEL, turn * settings.times + time, (count, sum(layout.sizes))
        )
        gumbel = -torch.log(-torch.log(uniform))
        after = codes
        drawn = []
        for group, start in network.logits(output):
            chances = process.log_posterior(start, after[:, :, group.blocks], times[..., None])
            blocks = slice(group.coordinates.start - p, group.coordinates.stop - p)
            drawn.append((chances + gumbel[:, :, blocks].unflatten(2, (-1, group.size))).argmax(-1))
        codes = torch.cat(drawn, dim=2)
    place = torch.tensor(np.argsort(layout.order), dtype=torch.int64, device=device)
    return numbers, codes[:, :, place]


def classes_as_trained(
    rows: TrainingRows, streams: Streams, count: int, turn: int = 0
) -> Tensor | None:
    """Return ``(draws, count)``: classes drawn by their frequencies in the rows of each draw."""
    if rows.classes is None:
        return None
    classes = rows.classes.to(streams.device)
    drawn = streams.uniform(Purpose.CLASSES, turn, (count,)) * float(classes.shape[1])
    # Of many rows the product may round up to their number.
    return classes.gather(1, drawn.long().clamp_(max=classes.shape[1] - 1))


def bytes_of_rows(
    layout: DiffusedLayout, settings: TabDdpmSettings, rows: int, released: int
) -> int:
    """Return about how much memory one draw of a batch takes, in bytes.

    Weights, gradients, both moments and the average; rows; what a step keeps of a batch for its
    gradients, or a sampled release; and noise, whose whole numbers have 64 bits.
    """
    wide, widths, width = settings.embedding, settings.hidden, layout.padded
    ends = [wide, *widths, width]
    weights = (width + 1) * wide + 2 * (wide + 1) * wide + aligned(layout.classes) * wide
    weights += sum((a + 1) * b for a, b in pairwise(ends))
    batch = max(min(settings.batch_size, rows), released)
    # Inputs and outputs of every layer and their gradients; a category has about ten numbers.
    units = 2 * (4 * wide + 2 * sum(widths) + 2 * width) + 10 * sum(layout.sizes)
    noise = layout.numbers + 2 * len(layout.sizes) + 1
    steps = steps_at_once(min(settings.batch_size, rows), noise)
    words = 12 * max(steps * batch * noise, batch * width, max(ends) * max(ends))
    return 4 * (5 * weights + rows * (width + 2) + batch * units) + 4 * words
