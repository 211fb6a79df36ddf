"""TabDDPM once more, one draw at a time and as plainly as it can be written: the law's reference.

Modules and optimiser of PyTorch, noise of its generator, transition matrices instead of logarithms,
x0 and the coefficients of its posterior instead of one formula. It has the package's settings, and
none of its code.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from proxyguard.adapters.networks import TabDdpmSettings


class PlainNetwork(nn.Module):
    """Rows with noise, a time and a class in, a row out."""

    def __init__(self, width: int, classes: int, embedding: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.embedding = embedding
        self.entry = nn.Linear(width, embedding)
        self.time = nn.Sequential(
            nn.Linear(embedding, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )
        self.classes = nn.Embedding(classes, embedding)
        layers: list[nn.Module] = []
        for before, after in zip((embedding, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(widths[-1], width))

    def forward(self, x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return a row."""
        half = self.embedding // 2
        waves = torch.exp(-math.log(10_000) * torch.arange(half) / half)
        angles = t[:, None] * waves
        features = torch.cat([angles.cos(), angles.sin()], dim=1)
        state = self.entry(x) + self.time(features) + nn.functional.silu(self.classes(y))
        return self.body(state)


class PlainTabDdpm:
    """Train on numbers, codes and classes, then sample."""

    def __init__(self, sizes: tuple[int, ...], settings: TabDdpmSettings) -> None:
        self.sizes, self.steps, self.times = sizes, settings.steps, settings.times
        self.rate, self.keep = settings.learning_rate, settings.average
        self.embedding, self.widths = settings.embedding, settings.hidden
        u = np.arange(self.times + 1) / self.times
        level = np.cos((u + 0.008) / 1.008 * np.pi / 2) ** 2
        self.beta = np.minimum(1 - level[1:] / level[:-1], 0.999)
        self.bar = np.cumprod(1 - self.beta)
        self.matrices = {size: self.chain(size) for size in sizes}

    def chain(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the matrices of every step, and of all steps before it and before the next."""
        steps = [(1 - b) * np.eye(size) + b / size for b in self.beta]
        products = [np.eye(size)]
        for step in steps:
            products.append(products[-1] @ step)
        first, second = (torch.tensor(np.array(m), dtype=torch.float32) for m in (steps, products))
        return first, second

    def posterior(self, start: torch.Tensor, code: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the law before step t, (rows, size), given that of the start."""
        steps, products = self.matrices[start.shape[1]]
        prior = torch.bmm(start[:, None], products[t])[:, 0]
        joint = prior * steps[t, :, code]
        return joint / joint.sum(dim=1, keepdim=True)

    def blocks(self, output: torch.Tensor, p: int) -> list[torch.Tensor]:
        """Return the chances of each column's categories."""
        return [b.softmax(dim=1) for b in output[:, p:].split(list(self.sizes), dim=1)]

    def joined(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """Return rows with one-hot codes."""
        hot = [nn.functional.one_hot(c[:, k], size) for k, size in enumerate(self.sizes)]
        return torch.cat([x, *(h.float() for h in hot)], dim=1)

    def fit(
        self, x: torch.Tensor, c: torch.Tensor, y: torch.Tensor, generator: torch.Generator
    ) -> None:
        """Train on all rows in every step."""
        n, p = x.shape
        network = PlainNetwork(p + sum(self.sizes), int(y.max()) + 1, self.embedding, self.widths)
        mean = {name: w.detach().clone() for name, w in network.named_parameters()}
        optimizer = torch.optim.AdamW(network.parameters(), lr=self.rate, weight_decay=0.0)
        bar = torch.tensor(self.bar, dtype=torch.float32)
        for step in range(self.steps):
            t = torch.randint(self.times, (n,), generator=generator)
            noise = torch.randn(n, p, generator=generator)
            xt = bar[t].sqrt()[:, None] * x + (1 - bar[t]).sqrt()[:, None] * noise
            ct = torch.stack(
                [
                    torch.multinomial(
                        self.matrices[size][1][t + 1, c[:, k]], 1, generator=generator
                    )[:, 0]
                    for k, size in enumerate(self.sizes)
                ],
                dim=1,
            )
            output = network(self.joined(xt, ct), t, y)
            loss = ((output[:, :p] - noise) ** 2).mean()
            for k, guess in enumerate(self.blocks(output, p)):
                hot = nn.functional.one_hot(c[:, k], self.sizes[k]).float()
                true = self.posterior(hot, ct[:, k], t)
                learned = self.posterior(guess, ct[:, k], t)
                far = torch.xlogy(true, true) - torch.xlogy(true, learned)
                loss = loss + far.sum(dim=1).mean() * self.times / len(self.sizes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = self.rate * (1 - step / self.steps)
            for name, w in network.named_parameters():
                mean[name] = self.keep * mean[name] + (1 - self.keep) * w.detach()
        network.load_state_dict(mean)
        self.network, self.y, self.p = network, y, p

    @torch.no_grad()
    def sample(self, rows: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return numbers, codes and classes."""
        y = self.y[torch.randint(len(self.y), (rows,), generator=generator)]
        x = torch.randn(rows, self.p, generator=generator)
        c = torch.stack(
            [torch.randint(size, (rows,), generator=generator) for size in self.sizes], dim=1
        )
        for t in reversed(range(self.times)):
            times = torch.full((rows,), t)
            output = self.network(self.joined(x, c), times, y)
            bar, beta = self.bar[t], self.beta[t]
            before = self.bar[t - 1] if t else 1.0
            x0 = (x - math.sqrt(1 - bar) * output[:, : self.p]) / math.sqrt(bar)
            mean = (
                beta * math.sqrt(before) / (1 - bar) * x0
                + (1 - before) * math.sqrt(1 - beta) / (1 - bar) * x
            )
            x = (
                mean
                if t == 0
                else mean + math.sqrt(beta) * torch.randn(x.shape, generator=generator)
            )
            c = torch.stack(
                [
                    torch.multinomial(
                        self.posterior(guess, c[:, k], times), 1, generator=generator
                    )[:, 0]
                    for k, guess in enumerate(self.blocks(output, self.p))
                ],
                dim=1,
            )
        return x, c, y
