"""CTGAN (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019), the networks of many draws.

A generator makes rows from noise and a condition, one category of one column; a critic tells real
rows of that category from them. A row is laid out the same way in every draw: the normalised
numbers, then for each of them as many places as a mixture may have components, then the categories
of the source. Components and categories that a draw has not are never generated, and count in no
width, so that a draw neither knows nor feels what the draws beside it have.

Gradients are written out. A critic of linear layers, leaky ReLU and dropout is linear around a
row, so that its slope at a row, which the penalty holds near 1, is itself a product of the weights;
the gradient of the penalty needs no second pass through a graph of operations, and a whole step can
be recorded and replayed on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from proxyguard.adapters.networks import ConditionLaw, CtganSettings
from proxyguard.errors import DrawError
from proxyguard.neural.batched import new_linear, product
from proxyguard.neural.encoding import EncodedTables, Layout, encode_tables
from proxyguard.neural.noise import Purpose, Streams
from proxyguard.neural.releases import SampledRows, SampledTable, TrainingTables, collect

# Added to the variance by batch normalisation, as PyTorch does.
NORM_EPSILON = 1e-5
ADAM_EPSILON = 1e-8
# Words of noise are below it.
WORDS = float(2**32)


class FlatAdam:
    """Parameters of every draw in one stretch of memory, and their optimiser.

    Every operation is a plain one, rounded once: the last bits of a fused one depend on where in
    memory, and so beside which other draws, a parameter stands.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, int, int]], *, rate: float, decay: float,
        betas: tuple[float, float], device: torch.device,
    ) -> None:  # fmt: skip
        sizes = [math.prod(shape) for shape in shapes]
        self._values, self._slopes, self._first, self._second = (
            torch.zeros(sum(sizes), device=device) for _ in range(4)
        )
        self.parameters = self._views(self._values, shapes, sizes)
        self.gradients = self._views(self._slopes, shapes, sizes)
        self._rate, self._decay, self._betas = rate, decay, betas
        # The betas to the power of the step; on the device, where a replayed step raises them.
        self._powers = [torch.ones((), dtype=torch.float64, device=device) for _ in betas]

    @staticmethod
    def _views(
        flat: Tensor, shapes: Sequence[tuple[int, int, int]], sizes: Sequence[int]
    ) -> list[Tensor]:
        pieces = zip(flat.split(list(sizes)), shapes, strict=True)
        return [piece.view(shape) for piece, shape in pieces]

    def step(self) -> None:
        """Move the parameters by the gradients, which it destroys."""
        b1, b2 = self._betas
        rate = (self._rate / (1.0 - self._powers[0].mul_(b1))).float()
        grown = (1.0 - self._powers[1].mul_(b2)).rsqrt().float()
        slopes = self._slopes
        slopes += self._values * self._decay
        self._first.mul_(b1).add_(slopes * (1.0 - b1))
        self._second.mul_(b2).add_(slopes.mul_(slopes).mul_(1.0 - b2))
        scale = torch.sqrt(self._second).mul_(grown).add_(ADAM_EPSILON)
        self._values.sub_(torch.div(self._first, scale, out=scale).mul_(rate))


class RowGenerator:
    """Rows from noise and a condition: linear, batch normalisation, ReLU, kept beside the input.

    The noise, the condition and what each layer adds stand in one array, the newest layer first:
    what a layer reads is the end of it, so that nothing is copied to be joined.
    """

    def __init__(
        self, streams: Streams, encoded: EncodedTables, settings: CtganSettings, own: Tensor
    ) -> None:
        draws, device = len(streams), streams.device
        self._widths = settings.generator
        self._momentum = settings.momentum
        self._embedding = settings.embedding
        categories = sum(encoded.layout.sizes)
        self._input = settings.embedding + categories
        outputs = [*self._widths, encoded.layout.width]
        reads = [self._input + sum(self._widths[:layer]) for layer in range(len(outputs))]
        shapes: list[tuple[int, int, int]] = []
        for read, width in zip(reads, outputs, strict=True):
            shapes += [(draws, read, width), (draws, 1, width)]
        for width in self._widths:
            shapes += [(draws, 1, width), (draws, 1, width)]
        self.adam = FlatAdam(
            shapes, rate=settings.generator_rate, decay=settings.generator_decay,
            betas=settings.betas, device=device,
        )  # fmt: skip
        parameters = self.adam.parameters
        for layer, (read, width) in enumerate(zip(reads, outputs, strict=True)):
            # Of the categories a layer starts as one that reads those of the draw alone.
            started = new_linear(streams, layer, read, width, own + (read - categories))
            parameters[2 * layer].copy_(started.weight.detach())
            parameters[2 * layer + 1].copy_(started.bias.detach())
        self._norms = 2 * len(outputs)
        for scale in parameters[self._norms :: 2]:
            scale.fill_(1.0)
        self.means = [torch.zeros((draws, 1, width), device=device) for width in self._widths]
        self.variances = [torch.ones((draws, 1, width), device=device) for width in self._widths]
        self._normal: list[tuple[Tensor, Tensor]] = []

    def inputs(self, noise: Tensor, condition: Tensor | None) -> Tensor:
        """Return the array that layers read and write, ``(draws, rows, ...)``, its end filled."""
        draws, rows, _ = noise.shape
        hidden = sum(self._widths)
        array = torch.empty((draws, rows, hidden + self._input), device=noise.device)
        array[..., hidden : hidden + self._embedding] = noise
        if condition is not None:
            array[..., hidden + self._embedding :] = condition
        return array

    def learn(self, array: Tensor) -> Tensor:
        """Fill the array, and return the rows before they are made numbers and choices.

        Each layer is normalised by the rows that it is given, and the running averages follow.
        """
        draws, rows, _ = array.shape
        average = torch.full((draws, 1, rows), 1.0 / rows, device=array.device)
        self._normal.clear()
        end = sum(self._widths)
        for layer, width in enumerate(self._widths):
            weight, bias, scale, shift = self._layer(layer, self.adam.parameters)
            units = product(array[..., end:], weight, added=bias)
            mean = product(average, units)
            units -= mean
            variance = product(average, units * units)
            self._follow(layer, mean, variance, rows)
            inverse = (variance + NORM_EPSILON).rsqrt_()
            units *= inverse
            self._normal.append((units, inverse))
            array[..., end - width : end] = (units * scale).add_(shift).relu_()
            end -= width
        weight, bias = self.adam.parameters[self._norms - 2 : self._norms]
        return product(array, weight, added=bias)

    def apply(self, array: Tensor, draws: Tensor) -> Tensor:
        """Fill the array, of some of the draws, and return their rows as `learn` does.

        Each layer is normalised by the running averages.
        """
        parameters = [values[draws] for values in self.adam.parameters]
        end = sum(self._widths)
        for layer, width in enumerate(self._widths):
            weight, bias, scale, shift = self._layer(layer, parameters)
            units = product(array[..., end:], weight, added=bias)
            units -= self.means[layer][draws]
            units *= (self.variances[layer][draws] + NORM_EPSILON).rsqrt_()
            array[..., end - width : end] = units.mul_(scale).add_(shift).relu_()
            end -= width
        weight, bias = parameters[self._norms - 2 : self._norms]
        return product(array, weight, added=bias)

    def forget(self) -> None:
        """Give back the memory of what `learn` left for `trace`."""
        self._normal.clear()

    def _layer(self, layer: int, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return weight and bias of a hidden layer, scale and shift of its normalisation."""
        norm = self._norms + 2 * layer
        return *parameters[2 * layer : 2 * layer + 2], *parameters[norm : norm + 2]

    def _follow(self, layer: int, mean: Tensor, variance: Tensor, rows: int) -> None:
        keep, move = 1.0 - self._momentum, self._momentum
        self.means[layer].mul_(keep).add_(mean * move)
        # The running variance is the unbiased one, as in PyTorch.
        self.variances[layer].mul_(keep).add_(variance * (move * rows / max(1, rows - 1)))

    def trace(self, array: Tensor, wanted: Tensor) -> None:
        """Set the gradients, given that of the rows that `learn` returned last."""
        draws, rows, _ = array.shape
        ones = torch.ones((draws, 1, rows), device=array.device)
        parameters, gradients = self.adam.parameters, self.adam.gradients
        hidden = sum(self._widths)
        last = self._norms - 2
        product(array.mT, wanted, out=gradients[last])
        product(ones, wanted, out=gradients[last + 1])
        # Of noise and condition no slope is needed: they come last and are left out.
        flow = product(wanted, parameters[last][:, :hidden].mT)
        start = 0
        for layer in reversed(range(len(self._widths))):
            end = start + self._widths[layer]
            normal, inverse = self._normal[layer]
            norm = self._norms + 2 * layer
            slope = flow[..., start:end] * (array[..., start:end] > 0)
            product(ones, slope * normal, out=gradients[norm])
            product(ones, slope, out=gradients[norm + 1])
            slope -= gradients[norm + 1] / rows
            slope -= normal * (gradients[norm] / rows)
            slope *= parameters[norm] * inverse
            product(array[..., end:].mT, slope, out=gradients[2 * layer])
            product(ones, slope, out=gradients[2 * layer + 1])
            if end < hidden:
                flow[..., end:] += product(slope, parameters[2 * layer][:, : hidden - end].mT)
            start = end


class RowCritic:
    """A score of ``pac`` rows at once: linear, leaky ReLU and dropout, then one number.

    The last layer has no bias: it would move all scores alike, and only their differences count.
    """

    def __init__(
        self, streams: Streams, encoded: EncodedTables, settings: CtganSettings, own: Tensor
    ) -> None:
        draws, device = len(streams), streams.device
        self._widths = settings.critic
        self._slope, self._penalty = settings.slope, settings.penalty
        # A unit whose word of noise is below this is left out.
        self._dropped = round(settings.dropout * WORDS)
        self._scaled = 1.0 / (1.0 - settings.dropout)
        inputs = settings.pac * (encoded.layout.width + sum(encoded.layout.sizes))
        reads, outputs = [inputs, *self._widths], [*self._widths, 1]
        shapes: list[tuple[int, int, int]] = []
        for read, width in zip(reads, outputs, strict=True):
            shapes += [(draws, read, width), (draws, 1, width)]
        self.adam = FlatAdam(
            shapes[:-1], rate=settings.critic_rate, decay=settings.critic_decay,
            betas=settings.betas, device=device,
        )  # fmt: skip
        self._weights, self._biases = self.adam.parameters[::2], self.adam.parameters[1::2]
        before = len(settings.generator) + 1  # layers have numbers across both networks
        for layer, (read, width) in enumerate(zip(reads, outputs, strict=True)):
            fan_in = own * settings.pac if layer == 0 else None
            started = new_linear(streams, before + layer, read, width, fan_in)
            self._weights[layer].copy_(started.weight.detach())
            if layer < len(self._biases):
                self._biases[layer].copy_(started.bias.detach())

    def _read(self, groups: Tensor, words: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return what each layer reads, and the slope of each hidden unit."""
        read, slopes = [groups], []
        kept = (words >= self._dropped).to(torch.float32).mul_(self._scaled)
        pieces = kept.split(list(self._widths), dim=2) if self._widths else []
        for weight, bias, piece in zip(self._weights[:-1], self._biases, pieces, strict=True):
            units = product(read[-1], weight, added=bias)
            slope = torch.where(units > 0, piece, piece * self._slope)
            slopes.append(slope)
            read.append(units.mul_(slope))
        return read, slopes

    def _flows(self, slopes: Sequence[Tensor], flow: Tensor) -> list[Tensor]:
        """Return the slope behind each layer, the first layer's first, given the last one's."""
        flows = [flow]
        for weight, slope in zip(self._weights[:0:-1], reversed(slopes), strict=True):
            flows.insert(0, product(flows[0], weight.mT).mul_(slope))
        return flows

    def trace(self, groups: Tensor, words: Tensor) -> None:
        """Set the gradients for real groups, generated ones, and as many between them.

        The loss is the mean score of the generated less that of the real groups, and the penalty
        times the mean of (slope - 1)^2 over those between. ``groups`` is overwritten.
        """
        draws, rows, _ = groups.shape
        count = rows // 3
        sign = torch.ones((draws, rows, 1), device=groups.device)
        sign[:, :count] = -1.0 / count
        sign[:, count : 2 * count] = 1.0 / count
        read, slopes = self._read(groups, words)
        flows = self._flows(slopes, sign)
        slope = product(flows[0][:, 2 * count :], self._weights[0].mT)
        length = torch.linalg.vector_norm(slope, dim=2, keepdim=True)
        # Where dropout left no way to the score the slope is 0 and has no direction.
        pull = (1.0 - 1.0 / length).masked_fill_(length == 0, 0.0)
        pull = slope.mul_(pull).mul_(2.0 * self._penalty / count)
        # A weight's share of a score is the unit that it reads times the slope behind it, and its
        # share of the penalty the pull that has come to that unit times the same slope. So the
        # pull takes the unit's place in the groups between, and one product gives both.
        read[0][:, 2 * count :] = pull
        for weight, unit_slope, units in zip(self._weights[:-1], slopes, read[1:], strict=True):
            pull = product(pull, weight).mul_(unit_slope[:, 2 * count :])
            units[:, 2 * count :] = pull
        scored = torch.ones((draws, 1, rows), device=groups.device)
        scored[..., 2 * count :] = 0.0  # a bias moves no slope
        gradients = self.adam.gradients
        for layer, (units, flow) in enumerate(zip(read, flows, strict=True)):
            product(units.mT, flow, out=gradients[2 * layer])
            if layer < len(self._biases):
                product(scored, flow, out=gradients[2 * layer + 1])

    def slope(self, groups: Tensor, words: Tensor) -> Tensor:
        """Return the gradient of minus the mean score with respect to the groups."""
        draws, rows, _ = groups.shape
        sign = torch.full((draws, rows, 1), -1.0 / rows, device=groups.device)
        _, slopes = self._read(groups, words)
        return product(self._flows(slopes, sign)[0], self._weights[0].mT)


def _choices(layout: Layout, rows: Tensor, first: int = 0) -> Iterator[tuple[int, int, Tensor]]:
    """Yield where in ``rows`` a group of blocks starts and stops, and the group, one by one.

    ``rows`` has the coordinates from ``first`` on, at which a block begins.
    """
    for group in layout.groups:
        if group.start >= first:
            start, stop = group.start - first, group.coordinates.stop - first
            yield start, stop, rows[..., start:stop].unflatten(-1, (group.count, group.size))


class RowConditions:
    """Which categories rows are conditioned on, and the training rows that have each.

    A condition is a coordinate of a row, counted from the first category on.
    """

    def __init__(self, encoded: EncodedTables, device: torch.device) -> None:
        layout = encoded.layout
        # On the CPU: a GPU has no deterministic running sums in floating point.
        codes = encoded.chosen[..., layout.numbers :].cpu()
        draws, self.rows, columns = codes.shape
        sizes = [layout.sizes[column] for column in layout.order]
        counts = torch.zeros((draws, sum(sizes)), dtype=torch.int64)
        firsts = torch.zeros_like(counts)
        orders = torch.empty((draws, columns, self.rows), dtype=torch.int64)
        self._blocks: list[tuple[int, int]] = []
        for column, size in enumerate(sizes):
            start = sum(sizes[:column])
            block = slice(start, start + size)
            self._blocks.append((start, start + size))
            category = codes[..., column]
            ones = torch.ones_like(category)
            counts[:, block].scatter_add_(1, category, ones)
            orders[:, column] = category.argsort(dim=1, stable=True)
            # Where in this column's order the rows of a category begin.
            before = counts[:, block].cumsum(dim=1) - counts[:, block]
            firsts[:, block] = before + column * self.rows
        self.present = (counts > 0).to(device)
        self._limits = {
            law: self._cumulated(counts, law).to(device) for law in get_args(ConditionLaw)
        }
        draw = torch.arange(draws)[:, None]
        self._firsts = (firsts + draw * columns * self.rows).reshape(-1).to(device)
        self._counts = counts.reshape(-1).to(device)
        self._orders = orders.reshape(-1).to(device)
        self.column_of = torch.tensor(
            [column for column, size in enumerate(sizes) for _ in range(size)], device=device
        )
        self._shift = (draw * sum(sizes)).to(device)

    def _cumulated(self, counts: Tensor, law: ConditionLaw) -> Tensor:
        """Return the cumulated chances of all conditions, ``(draws, categories)``."""
        weights = counts.to(torch.float64)
        if law == "log frequencies":
            weights = weights.log1p()
        for start, stop in self._blocks:
            block = weights[:, start:stop]
            block /= block.sum(dim=1, keepdim=True) * len(self._blocks)
        # Above the last category that there is no number is drawn, whatever was rounded.
        total = counts.cumsum(dim=1)
        return torch.where(total == self.rows * len(self._blocks), math.inf, weights.cumsum(dim=1))

    def choose(self, words: Tensor, law: ConditionLaw, draws: Tensor | None = None) -> Tensor:
        """Return a condition for each word of noise: any column alike, its category by the law."""
        limits = self._limits[law]
        # All 32 bits, in float64: a rare category keeps its chance.
        uniform = (words.to(torch.float64) + 0.5) / WORDS
        return torch.searchsorted(
            limits if draws is None else limits[draws], uniform.contiguous(), right=True
        )

    def matching(self, condition: Tensor, words: Tensor) -> Tensor:
        """Return for each condition a training row that has it, any of them alike."""
        place = condition + self._shift
        # The upper half of a word times a count is below the count.
        picked = (words * self._counts[place]) >> 32
        return self._orders[self._firsts[place] + picked]


class CtganNetworks:
    """The generators and critics of several draws, which learn at the same time.

    Parameters
    ----------
    encoded
        Their training rows.
    streams
        The noise of the draws.
    settings
        What is chosen; the same for all of them.
    """

    def __init__(self, encoded: EncodedTables, streams: Streams, settings: CtganSettings) -> None:
        self._encoded, self._streams, self._settings = encoded, streams, settings
        self._layout = encoded.layout
        self._categories = sum(self._layout.sizes)
        self._first_category = self._layout.width - self._categories
        draws, rows, _ = encoded.chosen.shape
        device = streams.device
        self.steps = settings.steps(rows)
        self._rows = rows
        self._table = self._layout.rows(encoded.alphas, encoded.chosen).flatten(0, 1)
        self._first_row = (torch.arange(draws, device=device) * rows)[:, None]
        self._places = torch.arange(self._categories, device=device)
        self._absent = torch.zeros(encoded.seen.shape, device=device)
        self._absent.masked_fill_(~encoded.seen, -math.inf)
        self._absent = self._absent[:, None]
        self.conditions = RowConditions(encoded, device) if self._categories else None
        present = encoded.seen[:, self._first_category :].sum(dim=1)
        self.generator = RowGenerator(streams, encoded, settings, present)
        self.critic = RowCritic(streams, encoded, settings, encoded.width + present)
        # On the device, so that a recorded step counts it up when it is replayed.
        self._count = torch.zeros((), dtype=torch.int64, device=device)

    def train(self, *, graph: bool = True) -> None:
        """Take all steps; on a GPU one is recorded and replayed, unless ``graph`` is false."""
        if self._streams.device.type == "cuda" and graph and self.steps > 1:
            self._replay()
        else:
            for _ in range(self.steps):
                self.step()
        self.generator.forget()

    def _replay(self) -> None:
        """Take all steps on a GPU, as one launch each after the first."""
        # The first step runs by itself, on a stream of its own, so that what libraries set up at
        # their first use is not recorded.
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step()
        except RuntimeError as error:
            # A recording that ran out of memory fails again when it ends, which would hide why:
            # whoever halves the batch asks for the first error.
            if isinstance(error.__context__, torch.OutOfMemoryError):
                raise error.__context__ from None
            raise
        for _ in range(self.steps - 1):
            graph.replay()
        torch.cuda.synchronize()  # before the graph goes, and its memory with it

    def step(self) -> None:
        """Take one step of the generator, after those of the critic that belong to it."""
        for _ in range(self._settings.critic_steps):
            self.trace_critic()
            self.critic.adam.step()
        self.trace_generator()
        self.generator.adam.step()

    def trace_critic(self) -> None:
        """Set the critic's gradients, from real and generated rows of the same conditions."""
        settings, streams, width = self._settings, self._streams, self._layout.width
        count = self._count.add_(1)
        draws, rows = len(streams), settings.batch_size
        batch = torch.empty((draws, 3, rows, width + self._categories), device=streams.device)
        real, fake, between = batch.unbind(1)
        words = streams.bits(Purpose.ROWS, count, (rows,))
        condition, one_hot = self._conditions(count)
        if self.conditions is None or condition is None:
            chosen = (words * self._rows) >> 32
        else:
            # In another order than the generator's: a group of real rows and the group of
            # generated ones beside it do not share their conditions.
            order = streams.permutation(Purpose.SHUFFLE, count, rows)
            shuffled = condition.gather(1, order)
            chosen = self.conditions.matching(shuffled, words)
            real[..., width:] = shuffled[..., None] == self._places
            fake[..., width:] = one_hot
        chosen = (chosen + self._first_row).reshape(-1)
        real[..., :width] = self._table.index_select(0, chosen).reshape(draws, rows, width)
        array = self.generator.inputs(self._noise(count), one_hot)
        self._activate(self.generator.learn(array), count, fake)
        groups = rows // settings.pac
        mix = streams.uniform(Purpose.PENALTY, count, (groups, 1))
        apart = (real - fake).reshape(draws, groups, -1).mul_(mix)
        torch.add(apart.reshape(fake.shape), fake, out=between)
        self.critic.trace(batch.reshape(draws, 3 * groups, -1), self._dropped(count, 3 * groups))

    def trace_generator(self) -> None:
        """Set the generator's gradients, from the critic's scores and the conditions kept."""
        settings, streams, layout = self._settings, self._streams, self._layout
        count = self._count.add_(1)
        draws, rows = len(streams), settings.batch_size
        batch = torch.empty((draws, rows, layout.width + self._categories), device=streams.device)
        condition, one_hot = self._conditions(count)
        if one_hot is not None:
            batch[..., layout.width :] = one_hot
        array = self.generator.inputs(self._noise(count), one_hot)
        logits = self.generator.learn(array)
        self._activate(logits, count, batch)
        groups = rows // settings.pac
        slope = self.critic.slope(
            batch.reshape(draws, groups, -1), self._dropped(count, groups)
        ).reshape(batch.shape)
        wanted = torch.empty_like(logits)
        alphas = batch[..., : layout.numbers]
        wanted[..., : layout.numbers] = slope[..., : layout.numbers] * (1.0 - alphas * alphas)
        for start, stop, chances in _choices(layout, batch[..., : layout.width]):
            rising = slope[..., start:stop].unflatten(-1, chances.shape[-2:]) * chances
            rising -= chances * rising.sum(dim=-1, keepdim=True)
            wanted[..., start:stop] = rising.div_(settings.temperature).flatten(-2)
        if self.conditions is not None and condition is not None:
            wanted[..., self._first_category :] += self._missed(logits, condition)
        self.generator.trace(array, wanted)

    def _missed(self, logits: Tensor, condition: Tensor) -> Tensor:
        """Return the gradient of the mean cross-entropy of the column that a condition names."""
        assert self.conditions is not None
        first = self._first_category
        present = logits[..., first:] + self._absent[..., first:]
        missed = torch.empty_like(present)
        for start, stop, choices in _choices(self._layout, present, first):
            missed[..., start:stop] = choices.softmax(dim=-1).flatten(-2)
        columns = self.conditions.column_of
        missed -= (condition[..., None] == self._places).to(torch.float32)
        named = columns[condition][..., None] == columns
        return missed.mul_(named).div_(self._settings.batch_size)

    def _conditions(self, count: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the conditions of a batch, and each as zeros and a one; or nothing."""
        if self.conditions is None:
            return None, None
        words = self._streams.bits(Purpose.CONDITION, count, (self._settings.batch_size,))
        condition = self.conditions.choose(words, "log frequencies")
        return condition, (condition[..., None] == self._places).to(torch.float32)

    def _noise(self, count: Tensor) -> Tensor:
        shape = (self._settings.batch_size, self._settings.embedding)
        return self._streams.normal(Purpose.GENERATOR, count, shape)

    def _dropped(self, count: Tensor, groups: int) -> Tensor:
        shape = (groups, sum(self._settings.critic))
        return self._streams.bits(Purpose.DROPOUT, count, shape)

    def _activate(self, logits: Tensor, count: Tensor, rows: Tensor) -> None:
        """Write generated rows: normalised numbers by tanh, choices by a Gumbel softmax."""
        numbers, width = self._layout.numbers, self._layout.width
        rows[..., :numbers] = logits[..., :numbers].tanh()
        shape = (self._settings.batch_size, width - numbers)
        noisy = _gumbel(self._streams, Purpose.GUMBEL, count, shape)
        noisy.add_(logits[..., numbers:]).add_(self._absent[..., numbers:])
        noisy.div_(self._settings.temperature)
        for start, stop, choices in _choices(self._layout, noisy, numbers):
            rows[..., numbers + start : numbers + stop] = choices.softmax(dim=-1).flatten(-2)

    def sample(
        self, draws: Sequence[int], rows: int, turn: int = 0, *,
        law: ConditionLaw = "frequencies", wanted: Tensor | None = None,
    ) -> SampledRows:  # fmt: skip
        """Return new rows of some draws, made by the networks as they are.

        Batch normalisation uses its running averages. A component or category is the highest one
        after Gumbel noise, that is, it is drawn by its chance.

        Parameters
        ----------
        draws
            Which of them.
        rows
            How many rows.
        turn
            Rows of another turn are others.
        law
            By which law the category of a condition is drawn, of a column that is drawn uniformly.
        wanted
            ``(draws, rows)``: the conditions of the rows instead, as coordinates counted from the
            first category on. They make a category likely and not certain.
        """
        device, size = self._streams.device, self._settings.batch_size
        index = torch.tensor(list(draws), device=device)
        streams = Streams([self._streams.seeds[draw] for draw in draws], device)
        turns = -(-rows // size)
        pieces = []
        for piece in range(turns):
            part = slice(piece * size, min(rows, piece * size + size))
            given = None if wanted is None else wanted[:, part].to(device)
            pieces.append(
                self._piece(
                    streams, index, part.stop - part.start, turn * turns + piece, law, given
                )
            )
        alphas, chosen, finite = (torch.cat(kind, dim=1) for kind in zip(*pieces, strict=True))
        numbers, codes = self._encoded.at(index).decode(alphas, chosen)
        return SampledRows(
            numbers.cpu().numpy(), codes.cpu().numpy(), finite.all(dim=1).cpu().numpy()
        )

    def _piece(
        self,
        streams: Streams,
        index: Tensor,
        rows: int,
        step: int,
        law: ConditionLaw,
        condition: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the numbers and choices of at most a batch of rows, and whether they are any."""
        layout, size = self._layout, self._settings.batch_size
        # Noise of a whole batch, also for the last rows: a row does not depend on their number.
        one_hot = None
        if self.conditions is not None:
            if condition is None:
                words = streams.bits(Purpose.CLASSES, step, (size,))[:, :rows]
                condition = self.conditions.choose(words, law, index)
            one_hot = (condition[..., None] == self._places).to(torch.float32)
        noise = streams.normal(Purpose.SAMPLE, step, (size, self._settings.embedding))[:, :rows]
        logits = self.generator.apply(self.generator.inputs(noise, one_hot), index)
        gumbel = _gumbel(streams, Purpose.CATEGORY, step, (size, layout.width - layout.numbers))
        alphas = logits[..., : layout.numbers].tanh()
        finite = logits.isfinite().all(dim=2)
        logits[..., layout.numbers :] += gumbel[:, :rows]
        return alphas, layout.choices(logits, self._encoded.seen[index]), finite


def _gumbel(streams: Streams, use: Purpose, step: int | Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return numbers of the Gumbel law."""
    return streams.uniform(use, step, shape).log_().neg_().log_().neg_()


def draw_tables(
    tables: TrainingTables, seeds: Sequence[int], settings: CtganSettings, device: torch.device
) -> list[SampledTable | DrawError]:
    """Train on the table of every draw, and return their releases.

    Where categories are wanted, rows are made under them as conditions, in their turn. With
    "rejection" a row takes a place of the category that it came out with, whichever
    condition it was made under, and rows are made until all places are taken; without, every row
    is kept in the place whose condition it was made under.

    A draw that does not train to finite numbers, or whose rows never have the category that is
    wanted, is an error in the place of its release.
    """
    streams = Streams(seeds, device)
    encoded = encode_tables(tables, streams)
    network = CtganNetworks(encoded, streams, settings)
    network.train()
    layout, asked = encoded.layout, tables.wanted
    first = layout.width - sum(layout.sizes)

    def more(draws: Sequence[int], rows: int, turn: int) -> SampledRows:
        places = []
        for draw in draws:
            want = asked[draw]
            if want is not None:
                begin = layout.block(want.column).start - first
                now = (turn * rows + np.arange(rows)) % len(want.codes)
                places.append(torch.from_numpy(begin + want.codes[now]))
        return network.sample(
            draws,
            rows,
            turn,
            law=settings.conditions_by,
            wanted=torch.stack(places) if places else None,
        )

    if settings.condition_by == "likelihood":
        tables = replace(tables, wanted=[None] * len(seeds))
    return collect(more, tables)


def bytes_of_draw(tables: TrainingTables, settings: CtganSettings) -> int:
    """Return about how much memory a draw of such tables takes."""
    n, layout = len(tables.codes[0]), Layout(tables.numbers.shape[2], tables.sizes)
    hidden, units = sum(settings.generator), sum(settings.critic)
    row = layout.width + sum(layout.sizes)
    inputs = settings.embedding + sum(layout.sizes)
    # Products of all widths are more than any network of these has.
    weights = (inputs + hidden) * (hidden + layout.width) + (settings.pac * row + units) * units
    rows, groups = settings.batch_size, 3 * settings.batch_size // settings.pac
    # Words of noise are whole numbers of 64 bits, and a dozen of them live while four are made.
    noise = 6 * max(rows * max(settings.embedding, layout.width), groups * units)
    activity = rows * (5 * (inputs + hidden) + 10 * row) + groups * 6 * units
    mixtures = 2 * n * layout.numbers * 40
    kept = n * (layout.width + 4 * (layout.numbers + len(layout.sizes)))
    return 4 * (5 * weights + max(noise + activity, mixtures) + kept)
