"""The chains of TabDDPM: how noise is added to numbers and categories, and taken away again.

Numbers are diffused by Gaussian noise (Ho, Jain and Abbeel 2020), categories by a multinomial chain
that keeps a category or replaces it by any one alike (Hoogeboom and others 2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxyguard.adapters.networks import MULTIPLE
from proxyguard.neural.encoding import BlockGroup, by_size, groups_by_size

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
