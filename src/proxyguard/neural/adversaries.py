"""The two networks of a CTGAN, a generator and a critic, of many draws, and what is set for them.

Gradients are written out. A critic of linear layers, leaky ReLU and dropout is linear around a
row, so that its slope at a row, which the penalty holds near 1, is itself a product of the weights;
the gradient of the penalty needs no second pass through a graph of operations, and a whole step can
be recorded and replayed on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from proxyguard.adapters.networks import CtganSettings
from proxyguard.neural.batched import new_linear, product
from proxyguard.neural.encoding import EncodedTables
from proxyguard.neural.noise import Streams

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
