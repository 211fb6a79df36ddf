"""TVAE (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019), many draws at once.

A variational autoencoder of mixed rows: numbers within components of mixtures by a normal law,
components and categories by softmax. Written from the paper; the constants that it leaves open are
those of its authors' releases under the MIT licence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from proxyguard.adapters.networks import TvaeSettings
from proxyguard.errors import DrawError
from proxyguard.neural.batched import Adam, new_linear, product
from proxyguard.neural.encoding import EncodedTables, Layout, encode_tables
from proxyguard.neural.mixtures import COMPONENTS
from proxyguard.neural.noise import Purpose, Streams
from proxyguard.neural.releases import SLICE, SampledRows, SampledTable, TrainingTables, collect

# Standard deviation of a number within its component, to begin with.
START = 0.1
NARROWEST, WIDEST = 0.01, 1.0


@dataclass(frozen=True, slots=True)
class Dense:
    """An affine layer of every draw, of columns of features: ``(draws, out, in)`` and its bias.

    Rows of a table are columns here, so that sums over a block of coordinates run over whole
    vectors.
    """

    weight: Tensor
    bias: Tensor  # (draws, out, 1)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return ``(draws, out, rows)`` of ``(draws, in, rows)``."""
        return product(self.weight, inputs, added=self.bias)

    def at(self, draws: Tensor) -> Dense:
        """Return the layer of some draws."""
        return Dense(self.weight[draws], self.bias[draws])

    def gradient(self, inputs: Tensor, outputs: Tensor, into: Dense) -> None:
        """Put the gradients of weight and bias, given those of the layer's outputs."""
        product(outputs, inputs.transpose(1, 2), out=into.weight)
        torch.sum(outputs, dim=2, keepdim=True, out=into.bias)


@dataclass(frozen=True, slots=True)
class TvaeNetworks:
    """The networks of several draws; gradients have the same form.

    Attributes
    ----------
    flat
        ``(draws, parameters)``: everything that is learned; the layers are views of it.
    encoder, head, decoder
        Layers, with ReLU behind all but the head and the last. The head gives means, then log
        variances.
    deviations
        ``(draws, numbers, 1)``: of numbers within their components.
    """

    flat: Tensor
    encoder: list[Dense]
    head: Dense
    decoder: list[Dense]
    deviations: Tensor

    @property
    def embedding(self) -> int:
        """Dimension of the latent law."""
        return int(self.decoder[0].weight.shape[2])

    def at(self, draws: Tensor) -> TvaeNetworks:
        """Return the networks of some draws, to sample from."""
        return TvaeNetworks(
            self.flat[draws],
            [layer.at(draws) for layer in self.encoder],
            self.head.at(draws),
            [layer.at(draws) for layer in self.decoder],
            self.deviations[draws],
        )


def _widths(width: int, settings: TvaeSettings) -> list[tuple[int, int]]:
    """Return the layers as inputs and outputs: encoder, head, decoder."""
    through = [width, *settings.compress, 2 * settings.embedding]
    back = [settings.embedding, *settings.decompress, width]
    return [*pairwise(through), *pairwise(back)]


def _networks(flat: Tensor, width: int, settings: TvaeSettings) -> TvaeNetworks:
    """Return networks whose parameters lie in ``flat``."""
    layers, start = [], 0
    for inputs, outputs in _widths(width, settings):
        middle, stop = start + inputs * outputs, start + (inputs + 1) * outputs
        layers.append(
            Dense(flat[:, start:middle].unflatten(1, (outputs, inputs)), flat[:, middle:stop, None])
        )
        start = stop
    depth = len(settings.compress)
    return TvaeNetworks(
        flat, layers[:depth], layers[depth], layers[depth + 1 :], flat[:, start:, None]
    )


def _started(encoded: EncodedTables, streams: Streams, settings: TvaeSettings) -> TvaeNetworks:
    """Return networks as they are before training."""
    width, numbers = encoded.layout.width, encoded.layout.numbers
    widths = _widths(width, settings)
    size = sum((a + 1) * b for a, b in widths) + numbers
    network = _networks(torch.empty((len(streams), size), device=streams.device), width, settings)
    network.deviations.fill_(START)
    layers = [*network.encoder, network.head, *network.decoder]
    for k, (layer, (inputs, outputs)) in enumerate(zip(layers, widths, strict=True)):
        # Coordinates that a draw has not are 0: its layer starts as one without them.
        drawn = new_linear(streams, k, inputs, outputs, encoded.width if k == 0 else None)
        layer.weight.copy_(drawn.weight.detach().transpose(1, 2))
        layer.bias.copy_(drawn.bias.detach().transpose(1, 2))
    return network


def _passed(layers: Sequence[Dense], inputs: Tensor) -> list[Tensor]:
    """Return the inputs, and the outputs of every layer behind ReLU."""
    values = [inputs]
    for layer in layers:
        values.append(layer(values[-1]).relu_())
    return values


def _returned(
    layers: Sequence[Dense], values: Sequence[Tensor], outputs: Tensor, into: Sequence[Dense]
) -> Tensor:
    """Put the gradients of layers, and return that of the outputs of the first.

    ``outputs`` is the gradient of the last layer's outputs, before any ReLU.
    """
    for k in range(len(layers) - 1, 0, -1):
        layers[k].gradient(values[k], outputs, into[k])
        outputs = product(layers[k].weight.transpose(1, 2), outputs)
        outputs = torch.ops.aten.threshold_backward(outputs, values[k], 0.0)
    layers[0].gradient(values[0], outputs, into[0])
    return outputs


def _gradients(
    network: TvaeNetworks,
    inputs: Tensor,
    noise: Tensor,
    encoded: EncodedTables,
    factor: float,
    into: TvaeNetworks,
) -> None:
    """Put the gradients of each draw's loss.

    The loss is ``factor`` times the rows' loss plus the divergence, both as means over rows: of
    numbers the squared distance over twice the variance and the log deviation, of blocks the cross
    entropy, and ``-1/2 sum(1 + log variance - mean^2 - variance)``.

    Parameters
    ----------
    network
        The networks.
    inputs
        ``(draws, coordinates, rows)``: the rows of the step.
    noise
        ``(draws, embedding, rows)``.
    encoded
        Says what the coordinates are, and which of them a draw has.
    factor
        Weight of the rows' loss.
    into
        Where gradients are put.
    """
    rows, size, p = inputs.shape[2], network.embedding, network.deviations.shape[1]
    there = _passed(network.encoder, inputs)
    head = network.head(there[-1])
    mean, log_variance = head[:, :size], head[:, size:]
    deviation = torch.exp(0.5 * log_variance)
    scattered = deviation * noise
    back = _passed(network.decoder[:-1], mean + scattered)
    output = network.decoder[-1](back[-1])
    # From here on `output` becomes the gradient of the rows' loss by it.
    output.masked_fill_(~encoded.seen[:, :, None], -math.inf)
    for group in encoded.layout.groups:
        blocks = output[:, group.coordinates].unflatten(1, (group.count, group.size))
        blocks.sub_(blocks.amax(dim=2, keepdim=True)).exp_()
        blocks.div_(blocks.sum(dim=2, keepdim=True))
    numbers, given = output[:, :p], inputs[:, :p]
    numbers.tanh_()
    output[:, p:].sub_(inputs[:, p:])
    apart = numbers - given
    inverse = 1.0 / network.deviations
    squares = (apart * apart).sum(dim=2, keepdim=True).div_(rows)
    into.deviations.copy_(factor * inverse * (1.0 - squares * inverse * inverse))
    # The derivative of tanh, by its value.
    numbers.square_().neg_().add_(1.0).mul_(apart).mul_(inverse * inverse)
    output.mul_(factor / rows)
    latent = _returned(network.decoder, back, output, into.decoder)
    latent = product(network.decoder[0].weight.transpose(1, 2), latent)
    by_head = torch.empty_like(head)
    torch.add(latent, mean, alpha=1.0 / rows, out=by_head[:, :size])
    spread = by_head[:, size:]
    torch.mul(deviation, deviation, out=spread)
    spread.sub_(1.0).mul_(0.5 / rows).addcmul_(latent, scattered, value=0.5)
    _returned([*network.encoder, network.head], there, by_head, [*into.encoder, into.head])


def _minibatches(encoded: EncodedTables, streams: Streams, size: int) -> Iterator[Tensor]:
    """Yield the rows of each step, ``(draws, coordinates, rows)``, without end."""
    n = encoded.chosen.shape[1]

    def columns(alphas: Tensor, chosen: Tensor) -> Tensor:
        return encoded.layout.rows(alphas, chosen).transpose(1, 2).contiguous()

    if n <= size:  # in whatever order, a step has all rows
        whole = columns(encoded.alphas, encoded.chosen)
        while True:
            yield whole
    epoch = 0
    while True:
        order = streams.permutation(Purpose.SHUFFLE, epoch, n)
        for start in range(0, n, size):
            rows = order[:, start : start + size, None]
            yield columns(
                encoded.alphas.gather(1, rows.expand(-1, -1, encoded.alphas.shape[2])),
                encoded.chosen.gather(1, rows.expand(-1, -1, encoded.chosen.shape[2])),
            )
        epoch += 1


def train(encoded: EncodedTables, streams: Streams, settings: TvaeSettings) -> TvaeNetworks:
    """Train the networks of all draws together.

    Parameters
    ----------
    encoded
        The training rows of each draw.
    streams
        The noise of the draws.
    settings
        Widths, steps and rates.
    """
    network = _started(encoded, streams, settings)
    flat = torch.empty_like(network.flat)
    gradients = _networks(flat, encoded.layout.width, settings)
    adam = Adam([network.flat], decay=settings.weight_decay, coupled=True)
    steps = settings.epochs * -(-encoded.chosen.shape[1] // settings.batch_size)
    batches = _minibatches(encoded, streams, settings.batch_size)
    for step in range(steps):
        inputs = next(batches)
        noise = streams.normal(Purpose.LATENT, step, (settings.embedding, inputs.shape[2]))
        _gradients(network, inputs, noise, encoded, settings.loss_factor, gradients)
        adam.step([flat], settings.learning_rate)
        network.deviations.clamp_(NARROWEST, WIDEST)
    return network


def sample(
    network: TvaeNetworks,
    encoded: EncodedTables,
    streams: Streams,
    rows: int,
    turn: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return new rows of every draw.

    Parameters
    ----------
    network, encoded
        What was trained, and on what.
    streams
        The noise of the draws.
    rows
        How many rows.
    turn
        Rows of another turn are others.

    Returns
    -------
    tuple
        Numbers ``(draws, rows, p)`` in float64, codes ``(draws, rows, q)``, and which draws
        trained to finite numbers.
    """
    latent = streams.normal(Purpose.SAMPLE, turn, (network.embedding, rows))
    output = network.decoder[-1](_passed(network.decoder[:-1], latent)[-1])
    p = encoded.layout.numbers
    noise = streams.normal(Purpose.ALPHA, turn, (p, rows))
    alphas = (torch.tanh(output[:, :p]) + network.deviations * noise).clamp_(-1.0, 1.0)
    chosen = encoded.layout.choices(output.transpose(1, 2), encoded.seen)
    numbers, codes = encoded.decode(alphas.transpose(1, 2), chosen)
    return numbers, codes, output.isfinite().flatten(1).all(dim=1)


def bytes_of_draw(tables: TrainingTables, settings: TvaeSettings) -> int:
    """Return about how much memory a draw of such tables takes."""
    n, layout = len(tables.codes[0]), Layout(tables.numbers.shape[2], tables.sizes)
    batch, width = min(n, settings.batch_size), layout.width
    sizes = [width, *settings.compress, 2 * settings.embedding, *settings.decompress, width]
    weights = sum((a + 1) * b for a, b in pairwise(sizes))
    # Parameters, gradients and two moments; what a step keeps of each layer and its gradient, the
    # latent noise with its words; rows that are sampled; numbers in mixtures, in double precision.
    step = batch * (6 * sum(sizes) + 12 * settings.embedding)
    turn = 2 * min(tables.rows, SLICE) * (sum(sizes[2:]) + 12 * settings.embedding)
    mixtures = 2 * n * layout.numbers * (3 * COMPONENTS + 10)
    kept = 2 * n * (2 * layout.numbers + len(layout.sizes))
    return 4 * (4 * weights + max(step, turn, mixtures) + kept)


def draw_tables(
    tables: TrainingTables, seeds: Sequence[int], settings: TvaeSettings, device: torch.device
) -> list[SampledTable | DrawError]:
    """Train on the table of every draw, and return their releases.

    A draw that does not train to finite numbers, or whose rows never have the category that is
    wanted, is an error in the place of its release.
    """
    streams = Streams(seeds, device)
    encoded = encode_tables(tables, streams)
    network = train(encoded, streams, settings)

    def more(draws: Sequence[int], rows: int, turn: int) -> SampledRows:
        index = torch.tensor(draws, device=device)
        chosen = Streams([seeds[k] for k in draws], device)
        some = network.at(index), encoded.at(index)
        numbers, codes, finite = sample(*some, chosen, rows, turn)
        return SampledRows(numbers.cpu().numpy(), codes.cpu().numpy(), finite.cpu().numpy())

    return collect(more, tables)
