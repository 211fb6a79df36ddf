"""CTGAN of one draw, with the modules and the noise of PyTorch and the mixtures of scikit-learn.

Written from the same description as the product and sharing none of its code: what the product's
law is compared with.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from torch import Tensor, nn
from torch.nn import functional

from proxyguard.adapters.networks import CtganSettings


class Residual(nn.Module):
    """Linear, batch normalisation and ReLU, beside what was given."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.cat([torch.relu(self.norm(self.linear(rows))), rows], dim=1)


class PlainCtgan:
    """One table, and draws that each train on it anew."""

    def __init__(
        self,
        settings: CtganSettings,
        numbers: np.ndarray,
        codes: np.ndarray,
        sizes: Sequence[int],
    ) -> None:
        self.settings, self.numbers, self.codes, self.sizes = settings, numbers, codes, sizes

    def draw(self, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Train on the table and return numbers and codes of new rows."""
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        table = self._encode(rng)
        settings = self.settings
        inputs = settings.embedding + sum(self.sizes)
        layers: list[nn.Module] = []
        for width in settings.generator:
            layers.append(Residual(inputs, width))
            inputs += width
        generator = nn.Sequential(*layers, nn.Linear(inputs, table.shape[1]))
        layers, inputs = [], settings.pac * (table.shape[1] + sum(self.sizes))
        for width in settings.critic:
            layers += [
                nn.Linear(inputs, width), nn.LeakyReLU(settings.slope), nn.Dropout(settings.dropout)
            ]  # fmt: skip
            inputs = width
        critic = nn.Sequential(*layers, nn.Linear(inputs, 1))
        self._train(generator, critic, torch.tensor(table, dtype=torch.float32), rng)
        return self._sample(generator, rows, rng)

    def _encode(self, rng: np.random.Generator) -> np.ndarray:
        self.mixtures, self.blocks, pieces, place = [], [], [], 0
        for values in self.numbers.T:
            mixture = BayesianGaussianMixture(
                n_components=10, weight_concentration_prior=0.001, n_init=1,
                random_state=int(rng.integers(2**31)),
            )  # fmt: skip
            with warnings.catch_warnings():
                # A hundred steps are the law, converged or not.
                warnings.simplefilter("ignore", ConvergenceWarning)
                mixture.fit(values[:, None])
            kept = mixture.weights_ > 0.005
            means = mixture.means_[kept, 0]
            deviations = np.sqrt(mixture.covariances_[kept, 0, 0])
            chances = mixture.predict_proba(values[:, None])[:, kept] + 1e-6
            chances /= chances.sum(axis=1, keepdims=True)
            component = np.array([rng.choice(len(means), p=row) for row in chances])
            alpha = (values - means[component]) / (4.0 * deviations[component])
            pieces += [np.clip(alpha, -0.99, 0.99)[:, None], np.eye(len(means))[component]]
            self.mixtures.append((means, deviations))
            self.blocks.append(("number", place, place + 1))
            self.blocks.append(("component", place + 1, place + 1 + len(means)))
            place += 1 + len(means)
        for column, size in zip(self.codes.T, self.sizes, strict=True):
            pieces.append(np.eye(size)[column])
            self.blocks.append(("category", place, place + size))
            place += size
        return np.concatenate(pieces, axis=1)

    def _condition(self, count: int, rng: np.random.Generator, *, logs: bool) -> np.ndarray:
        """Return columns and categories, one of each a row."""
        columns = rng.integers(len(self.sizes), size=count)
        categories = []
        for column, size in zip(self.codes.T, self.sizes, strict=True):
            weights = np.bincount(column, minlength=size).astype(float)
            weights = np.log1p(weights) if logs else weights
            categories.append(rng.choice(size, size=count, p=weights / weights.sum()))
        return np.column_stack([columns, np.array(categories)[columns, np.arange(count)]])

    def _matching(self, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return for each condition a training row that has it."""
        rows = np.empty(len(chosen), dtype=np.int64)
        for column, category in np.unique(chosen, axis=0):
            here = (chosen == [column, category]).all(axis=1)
            having = np.flatnonzero(self.codes[:, column] == category)
            rows[here] = rng.choice(having, size=here.sum())
        return rows

    def _vector(self, chosen: np.ndarray) -> Tensor:
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        vector = torch.zeros((len(chosen), sum(self.sizes)))
        vector[np.arange(len(chosen)), starts[chosen[:, 0]] + chosen[:, 1]] = 1.0
        return vector

    def _activated(self, logits: Tensor) -> Tensor:
        return torch.cat(
            [
                logits[:, start:stop].tanh()
                if kind == "number"
                else functional.gumbel_softmax(
                    logits[:, start:stop], tau=self.settings.temperature, dim=1
                )
                for kind, start, stop in self.blocks
            ],
            dim=1,
        )

    def _train(
        self, generator: nn.Module, critic: nn.Module, table: Tensor, rng: np.random.Generator
    ) -> None:
        settings, size, pac = self.settings, self.settings.batch_size, self.settings.pac
        betas = settings.betas
        of_generator = torch.optim.Adam(
            generator.parameters(), settings.generator_rate, betas,
            weight_decay=settings.generator_decay,
        )  # fmt: skip
        of_critic = torch.optim.Adam(
            critic.parameters(), settings.critic_rate, betas, weight_decay=settings.critic_decay
        )
        for _ in range(settings.epochs * max(1, len(table) // size)):
            chosen = self._condition(size, rng, logs=True)
            vector = self._vector(chosen)
            order = rng.permutation(size)
            matching = self._matching(chosen[order], rng)
            noise = torch.randn(size, settings.embedding)
            fake = self._activated(generator(torch.cat([noise, vector], dim=1))).detach()
            fake = torch.cat([fake, vector], dim=1).reshape(size // pac, -1)
            real = torch.cat([table[matching], vector[order]], dim=1).reshape(size // pac, -1)
            mix = torch.rand(size // pac, 1)
            between = (mix * real + (1.0 - mix) * fake).requires_grad_()
            slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
            penalty = settings.penalty * ((slope.norm(dim=1) - 1.0) ** 2).mean()
            of_critic.zero_grad()
            (critic(fake).mean() - critic(real).mean() + penalty).backward()
            of_critic.step()

            chosen = self._condition(size, rng, logs=True)
            vector = self._vector(chosen)
            noise = torch.randn(size, settings.embedding)
            logits = generator(torch.cat([noise, vector], dim=1))
            fake = torch.cat([self._activated(logits), vector], dim=1).reshape(size // pac, -1)
            missed = torch.zeros(())
            categories = [block for block in self.blocks if block[0] == "category"]
            for column, (_, start, stop) in enumerate(categories):
                named = chosen[:, 0] == column
                missed = missed + functional.cross_entropy(
                    logits[named, start:stop], torch.from_numpy(chosen[named, 1]), reduction="sum"
                )
            of_generator.zero_grad()
            (missed / size - critic(fake).mean()).backward()
            of_generator.step()

    @torch.no_grad()
    def _sample(
        self, generator: nn.Module, rows: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        generator.eval()
        vector = self._vector(self._condition(rows, rng, logs=False))
        noise = torch.randn(rows, self.settings.embedding)
        made = self._activated(generator(torch.cat([noise, vector], dim=1))).numpy()
        numbers, codes, mixtures = [], [], iter(self.mixtures)
        for kind, start, stop in self.blocks:
            if kind == "number":
                alpha = made[:, start]
                continue
            choice = made[:, start:stop].argmax(axis=1)
            if kind == "category":
                codes.append(choice)
                continue
            means, deviations = next(mixtures)
            numbers.append(4.0 * deviations[choice] * alpha + means[choice])
        return np.column_stack(numbers), np.column_stack(codes)
