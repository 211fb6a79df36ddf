"""TVAE one draw at a time, in the plainest way: scikit-learn's mixtures, modules of torch.nn.

The reference for the law of `proxyguard.neural.tvae`, and for its speed. It shares no line with
it: rows are built column by column, padded nowhere, and noise is torch's own.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class PlainSettings:
    """As `TvaeSettings`."""

    embedding: int
    compress: tuple[int, ...]
    decompress: tuple[int, ...]
    batch_size: int
    epochs: int
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    loss_factor: float = 2.0


def encode_numbers(
    values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the encoded column ``(n, 1 + kept)``, and means and deviations of its components."""
    model = BayesianGaussianMixture(
        n_components=10,
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=0.001,
        n_init=1,
        random_state=int(rng.integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(values[:, None])
    kept = model.weights_ > 0.005
    means, deviations = model.means_[kept, 0], np.sqrt(model.covariances_[kept, 0, 0])
    chances = model.predict_proba(values[:, None])[:, kept] + 1e-6
    chances /= chances.sum(axis=1, keepdims=True)
    chosen = np.array([rng.choice(kept.sum(), p=row) for row in chances])
    alpha = np.clip((values - means[chosen]) / (4 * deviations[chosen]), -0.99, 0.99)
    return np.column_stack([alpha, np.eye(kept.sum())[chosen]]), means, deviations


def draw_plain(
    numbers: NDArray[np.float64],
    codes: NDArray[np.int64],
    seed: int,
    settings: PlainSettings,
    rows: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return one release of a table of numbers ``(n, p)`` and codes ``(n, q)``."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    pieces: list[NDArray[np.float64]] = []
    columns: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for values in numbers.T:
        encoded, means, deviations = encode_numbers(values, rng)
        pieces.append(encoded)
        columns.append((means, deviations))
    labels = [np.unique(column) for column in codes.T]
    for column, known in zip(codes.T, labels, strict=True):
        pieces.append((column[:, None] == known).astype(float))
    table = torch.tensor(np.hstack(pieces), dtype=torch.float32)
    blocks: list[tuple[int | None, slice]] = []  # where a column's number is, and its block
    start = 0
    for means, _ in columns:
        blocks.append((start, slice(start + 1, start + 1 + means.size)))
        start += 1 + means.size
    for known in labels:
        blocks.append((None, slice(start, start + known.size)))
        start += known.size
    width = start

    def chain(inputs: int, widths: tuple[int, ...]) -> list[nn.Module]:
        modules: list[nn.Module] = []
        for outputs in widths:
            modules += [nn.Linear(inputs, outputs), nn.ReLU()]
            inputs = outputs
        return modules

    encoder = nn.Sequential(*chain(width, settings.compress))
    head = nn.Linear(settings.compress[-1], settings.embedding)
    spread = nn.Linear(settings.compress[-1], settings.embedding)
    decoder = nn.Sequential(
        *chain(settings.embedding, settings.decompress), nn.Linear(settings.decompress[-1], width)
    )
    sigma = nn.Parameter(torch.full((width,), 0.1))
    parameters = [p for m in (encoder, head, spread, decoder) for p in m.parameters()] + [sigma]
    optimiser = torch.optim.Adam(
        parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    for _ in range(settings.epochs):
        for chosen in torch.randperm(len(table)).split(settings.batch_size):
            real = table[chosen]
            hidden = encoder(real)
            mu, logvar = head(hidden), spread(hidden)
            output = decoder(mu + torch.exp(0.5 * logvar) * torch.randn_like(mu))
            loss = torch.zeros(())
            for number, block in blocks:
                if number is not None:
                    apart = real[:, number] - torch.tanh(output[:, number])
                    loss = loss + (apart**2 / 2 / sigma[number] ** 2).sum()
                    loss = loss + torch.log(sigma[number]) * len(real)
                target = real[:, block].argmax(dim=1)
                loss = loss + functional.cross_entropy(output[:, block], target, reduction="sum")
            kld = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum()
            total = (settings.loss_factor * loss + kld) / len(real)
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
            sigma.data.clamp_(0.01, 1.0)
    with torch.no_grad():
        output = decoder(torch.randn(rows, settings.embedding))
        alphas = torch.clamp(torch.tanh(output) + sigma * torch.randn_like(output), -1, 1).numpy()
    made: list[NDArray[np.float64]] = []
    for (number, block), (means, deviations) in zip(blocks, columns, strict=False):
        component = output[:, block].argmax(dim=1).numpy()
        made.append(means[component] + 4 * deviations[component] * alphas[:, number])
    given = [
        known[output[:, block].argmax(dim=1).numpy()]
        for (_, block), known in zip(blocks[len(columns) :], labels, strict=True)
    ]
    return np.column_stack(made), np.column_stack(given)
