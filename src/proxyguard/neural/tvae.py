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
from torch.nn import functional

from proxyguard.errors import DrawError
from proxyguard.neural.batched import Linear, new_linear
from proxyguard.neural.encoding import EncodedTables, Layout, encode
from proxyguard.neural.mixtures import COMPONENTS
from proxyguard.neural.noise import Purpose, Streams
from proxyguard.neural.releases import SLICE, SampledRows, SampledTable, TrainingTables, collect

BETAS = (0.9, 0.999)
START = 0.1
"""Standard deviation of a number within its component, to begin with."""
NARROWEST, WIDEST = 0.01, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TvaeSettings:
    """What a TVAE is trained by.

    Attributes
    ----------
    embedding
        Dimension of the latent normal law.
    compress, decompress
        Widths of the hidden layers of encoder and decoder.
    batch_size, epochs
        Rows of a step, and passes over the training rows; the last step of a pass has the rest.
    learning_rate, weight_decay
        Of Adam; the decay is part of the gradient, and the deviations decay too.
    loss_factor
        Weight of the rows' loss beside the divergence.
    """

    embedding: int = 128
    compress: tuple[int, ...] = (128, 128)
    decompress: tuple[int, ...] = (128, 128)
    batch_size: int = 500
    epochs: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    loss_factor: float = 2.0


@dataclass(frozen=True, slots=True)
class TvaeNetworks:
    """The networks of several draws.

    Attributes
    ----------
    encoder, decoder
        Layers with ReLU between them; those of the encoder end in means and log variances.
    deviations
        ``(draws, 1, numbers)``: of numbers within their components.
    """

    encoder: list[Linear]
    mean: Linear
    log_variance: Linear
    decoder: list[Linear]
    deviations: Tensor

    @property
    def parameters(self) -> list[Tensor]:
        """What is learned."""
        layers = [*self.encoder, self.mean, self.log_variance, *self.decoder]
        return [tensor for layer in layers for tensor in layer.parameters] + [self.deviations]

    def at(self, draws: Tensor) -> TvaeNetworks:
        """Return the networks of some draws, to sample from."""
        return TvaeNetworks(
            [layer.at(draws) for layer in self.encoder],
            self.mean.at(draws),
            self.log_variance.at(draws),
            [layer.at(draws) for layer in self.decoder],
            self.deviations[draws],
        )


def bytes_of_draw(n: int, rows: int, layout: Layout, settings: TvaeSettings) -> int:
    """Return about how much memory a draw takes, with so many rows to train on and to give."""
    batch, width = min(n, settings.batch_size), layout.width
    sizes = [width, *settings.compress, 2 * settings.embedding, *settings.decompress, width]
    weights = sum((a + 1) * b for a, b in pairwise(sizes))
    # Parameters, gradients and two moments; what a step keeps of each layer and its gradient, the
    # latent noise with its words; rows that are sampled; numbers in mixtures, in double precision.
    step = batch * (6 * sum(sizes) + 12 * settings.embedding)
    turn = 2 * min(rows, SLICE) * (sum(sizes[2:]) + 12 * settings.embedding)
    mixtures = 2 * n * layout.numbers * (3 * COMPONENTS + 10)
    kept = 2 * n * (2 * layout.numbers + len(layout.sizes))
    return 4 * (4 * weights + max(step, turn, mixtures) + kept)


def _new(encoded: EncodedTables, streams: Streams, settings: TvaeSettings) -> TvaeNetworks:
    width = encoded.layout.width
    layers: list[Linear] = []

    def layer(inputs: int, outputs: int, fan_in: Tensor | None = None) -> Linear:
        layers.append(new_linear(streams, len(layers), inputs, outputs, fan_in))
        return layers[-1]

    def chain(inputs: int, widths: Sequence[int], fan_in: Tensor | None = None) -> list[Linear]:
        sizes = [inputs, *widths]
        return [
            layer(before, after, fan_in if k == 0 else None)
            for k, (before, after) in enumerate(pairwise(sizes))
        ]

    # Coordinates that a draw has not are 0 and take no part: its layer starts as one without them.
    encoder = chain(width, settings.compress, encoded.width)
    last = settings.compress[-1]
    mean, log_variance = layer(last, settings.embedding), layer(last, settings.embedding)
    decoder = chain(settings.embedding, [*settings.decompress, width])
    deviations = torch.full(
        (len(streams), 1, encoded.layout.numbers), START, device=streams.device
    ).requires_grad_()
    return TvaeNetworks(encoder, mean, log_variance, decoder, deviations)


def _through(layers: Sequence[Linear], rows: Tensor) -> Tensor:
    for layer in layers:
        rows = torch.relu(layer(rows))
    return rows


def _decoded(network: TvaeNetworks, latent: Tensor) -> Tensor:
    return network.decoder[-1](_through(network.decoder[:-1], latent))


def _minibatches(
    encoded: EncodedTables, streams: Streams, size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the numbers and choices of the rows of each step, without end."""
    n = encoded.chosen.shape[1]
    if n <= size:  # in whatever order, a step has all rows
        while True:
            yield encoded.alphas, encoded.chosen
    epoch = 0
    while True:
        order = streams.permutation(Purpose.SHUFFLE, epoch, n)
        for start in range(0, n, size):
            rows = order[:, start : start + size, None]
            yield (
                encoded.alphas.gather(1, rows.expand(-1, -1, encoded.alphas.shape[2])),
                encoded.chosen.gather(1, rows.expand(-1, -1, encoded.chosen.shape[2])),
            )
        epoch += 1


def _loss(
    network: TvaeNetworks,
    encoded: EncodedTables,
    alphas: Tensor,
    chosen: Tensor,
    noise: Tensor,
    barred: Tensor,
    factor: float,
) -> Tensor:
    """Return the sum over draws of their losses."""
    layout, count = encoded.layout, chosen.shape[1]
    hidden = _through(network.encoder, layout.rows(alphas, chosen))
    mean, log_variance = network.mean(hidden), network.log_variance(hidden)
    latent = mean + torch.exp(0.5 * log_variance) * noise
    output = _decoded(network, latent)
    p = layout.numbers
    deviation = network.deviations
    apart = (alphas - torch.tanh(output[:, :, :p])) / deviation
    rows = 0.5 * (apart * apart).sum() + count * deviation.log().sum()
    for group in layout.groups:
        logits = output[:, :, group.coordinates] + barred[:, None, group.coordinates]
        chances = functional.log_softmax(logits.unflatten(2, (group.count, group.size)), dim=3)
        rows = rows - chances.gather(3, chosen[:, :, group.blocks, None]).sum()
    divergence = -0.5 * (1.0 + log_variance - mean * mean - log_variance.exp()).sum()
    return (factor * rows + divergence) / count


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
    network = _new(encoded, streams, settings)
    barred = torch.zeros(encoded.seen.shape, device=streams.device)
    barred.masked_fill_(~encoded.seen, -math.inf)
    optimiser = torch.optim.Adam(
        network.parameters,
        lr=settings.learning_rate,
        betas=BETAS,
        weight_decay=settings.weight_decay,
        foreach=True,
    )
    n = encoded.chosen.shape[1]
    steps = settings.epochs * -(-n // settings.batch_size)
    batches = _minibatches(encoded, streams, settings.batch_size)
    for step in range(steps):
        alphas, chosen = next(batches)
        noise = streams.normal(Purpose.LATENT, step, (chosen.shape[1], settings.embedding))
        optimiser.zero_grad()
        loss = _loss(network, encoded, alphas, chosen, noise, barred, settings.loss_factor)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            network.deviations.clamp_(NARROWEST, WIDEST)
    return network


def sample(
    network: TvaeNetworks, encoded: EncodedTables, streams: Streams, rows: int, turn: int = 0
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
    embedding = network.decoder[0].weight.shape[1]
    p = encoded.layout.numbers
    with torch.no_grad():
        output = _decoded(network, streams.normal(Purpose.SAMPLE, turn, (rows, embedding)))
        noise = streams.normal(Purpose.ALPHA, turn, (rows, p))
        alphas = (torch.tanh(output[:, :, :p]) + network.deviations * noise).clamp_(-1.0, 1.0)
    numbers, codes = encoded.decode(alphas, encoded.layout.choices(output, encoded.seen))
    return numbers, codes, output.isfinite().flatten(1).all(dim=1)


def draw_tables(
    tables: TrainingTables, seeds: Sequence[int], settings: TvaeSettings, device: torch.device
) -> list[SampledTable | DrawError]:
    """Train on the table of every draw, and return their releases.

    A draw that does not train to finite numbers, or whose rows never have the category that is
    wanted, is an error in the place of its release.
    """
    streams = Streams(seeds, device)
    encoded = encode(
        torch.from_numpy(tables.numbers).to(device),
        torch.from_numpy(tables.codes).to(device),
        tables.sizes,
        streams,
    )
    network = train(encoded, streams, settings)

    def more(draws: Sequence[int], rows: int, turn: int) -> SampledRows:
        index = torch.tensor(draws, device=device)
        chosen = Streams([seeds[k] for k in draws], device)
        numbers, codes, finite = sample(network.at(index), encoded.at(index), chosen, rows, turn)
        return SampledRows(numbers.cpu().numpy(), codes.cpu().numpy(), finite.cpu().numpy())

    return collect(more, tables)
