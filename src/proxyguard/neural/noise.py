"""Random numbers as a function of seed, use, step and position, computed where they are needed.

The bits are those of Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): the seed is the key; the
position in an array, the step of training and the use are the counter. So a draw's numbers depend
neither on the draws beside it nor on how many were asked for before. The integers are the same on
every device, and so are the uniform numbers; normal ones differ in last bits, by the logarithms
and cosines of the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
# Words of 32 bits that one counter gives.
LANES = 4
# Counters that a CPU works on at a time: their words stay in its cache through all rounds.
CACHED = 1 << 15


class Purpose(IntEnum):
    """What noise is for: each use has a stream of its own. Numbers are never given anew."""

    WEIGHTS = 0
    SHUFFLE = 1
    START = 2
    COMPONENT = 3
    LATENT = 4
    SAMPLE = 5
    ALPHA = 6
    CONDITION = 7
    ROWS = 8
    GENERATOR = 9
    GUMBEL = 10
    DROPOUT = 11
    PENALTY = 12
    TIME = 13
    DIFFUSED = 14
    CATEGORY = 15
    CLASSES = 16


def philox(counter: Sequence[Tensor], key: Sequence[Tensor]) -> list[Tensor]:
    """Return the four words of each counter, as whole numbers below 2^32 in int64.

    Parameters
    ----------
    counter
        Four tensors of words, which broadcast against each other and against the key.
    key
        Two tensors of words.
    """
    shape = np.broadcast_shapes(*(word.shape for word in (*counter, *key)))
    c0, c1, c2, c3 = (word.expand(shape) for word in counter)
    k0, k1 = key
    for _ in range(ROUNDS):
        # A product of two words may pass 2^63: int64 then wraps, and its bits are still those of
        # the unsigned product. The shift keeps the sign, which the mask takes away.
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((second >> 32) & MASK).bitwise_xor_(c1).bitwise_xor_(k0),
            second.bitwise_and_(MASK),
            ((first >> 32) & MASK).bitwise_xor_(c3).bitwise_xor_(k1),
            first.bitwise_and_(MASK),
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return [c0, c1, c2, c3]


def _philox_into(
    words: NDArray[np.int64], start: int, step: int, use: int, keys: NDArray[np.int64]
) -> None:
    """Put the words of counters from ``start`` on, as `philox` gives them: three times as fast.

    Parameters
    ----------
    words
        ``(draws, 4, counters)``, where they are put.
    start, step, use
        The position of the first counter, and the rest of it.
    keys
        ``(draws, 2)``.
    """
    mask, half = np.uint64(MASK), np.uint64(32)
    shape = (words.shape[0], words.shape[2])
    positions = np.arange(start, start + shape[1], dtype=np.uint64)
    c0, c1, c2, c3 = (np.empty(shape, dtype=np.uint64) for _ in range(LANES))
    c0[:], c1[:], c2[:], c3[:] = positions & mask, positions >> half, step, use
    first, second = np.empty_like(c0), np.empty_like(c0)
    k0, k1 = keys[:, :1].astype(np.uint64), keys[:, 1:].astype(np.uint64)
    for _ in range(ROUNDS):
        np.multiply(c0, np.uint64(MULTIPLIERS[0]), out=first)
        np.multiply(c2, np.uint64(MULTIPLIERS[1]), out=second)
        np.right_shift(second, half, out=c0)
        np.bitwise_xor(c0, c1, out=c0)
        np.bitwise_xor(c0, k0, out=c0)
        np.right_shift(first, half, out=c2)
        np.bitwise_xor(c2, c3, out=c2)
        np.bitwise_xor(c2, k1, out=c2)
        np.bitwise_and(second, mask, out=c1)
        np.bitwise_and(first, mask, out=c3)
        k0 = (k0 + np.uint64(KEY_STEPS[0])) & mask
        k1 = (k1 + np.uint64(KEY_STEPS[1])) & mask
    for lane, word in enumerate((c0, c1, c2, c3)):
        words[:, lane] = word


class Streams:
    """The random numbers of several draws, one row of every tensor for each.

    Parameters
    ----------
    seeds
        The registered seeds, of which the low 64 bits are used.
    device
        Where the numbers are computed.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seeds = tuple(int(seed) % 2**64 for seed in seeds)
        self.device = torch.device(device)
        words = [[seed & MASK, seed >> 32] for seed in self.seeds]
        self._key = torch.tensor(words, dtype=torch.int64, device=self.device)

    def __len__(self) -> int:
        """Return how many draws there are."""
        return len(self.seeds)

    def bits(self, use: Purpose, step: int | Tensor, shape: Sequence[int]) -> Tensor:
        """Return whole numbers below 2^32, ``(draws, *shape)``.

        ``shape`` is that of one draw, whatever its batch: padding that another draw needs would
        move the numbers of this one. ``step`` may be a tensor of one number, which a captured
        graph counts up.
        """
        count = math.prod(shape)
        blocks = -(-count // LANES)
        positions = torch.arange(blocks, dtype=torch.int64, device=self.device)
        steps = torch.as_tensor(step, dtype=torch.int64, device=self.device).reshape(1)
        uses = torch.full((1,), int(use), dtype=torch.int64, device=self.device)
        words = torch.empty((len(self), LANES, blocks), dtype=torch.int64, device=self.device)
        if self.device.type == "cpu":
            # Pieces that do not leave the cache.
            width = max(1, CACHED // max(1, len(self)))
            for start in range(0, blocks, width):
                piece = words[:, :, start : start + width]
                _philox_into(piece.numpy(), start, int(steps), int(use), self._key.numpy())
        else:
            keys = (self._key[:, :1], self._key[:, 1:])
            lanes = philox((positions & MASK, positions >> 32, steps, uses), keys)
            torch.stack(torch.broadcast_tensors(*lanes), dim=1, out=words)
        return words.reshape(len(self), -1)[:, :count].reshape(len(self), *shape)

    def uniform(self, use: Purpose, step: int | Tensor, shape: Sequence[int]) -> Tensor:
        """Return numbers between 0 and 1, neither of which occurs, ``(draws, *shape)``."""
        # 23 bits and the half step, which keeps 0 and 1 away, are the 24 bits of a float32. With
        # 24 the half would round the greatest number up to 1, once in 2^24.
        high = self.bits(use, step, shape) >> 9
        return (high.to(torch.float32) + 0.5) * 2.0**-23

    def normal(self, use: Purpose, step: int | Tensor, shape: Sequence[int]) -> Tensor:
        """Return standard normal numbers, ``(draws, *shape)``, by Box and Muller."""
        count = math.prod(shape)
        pairs = -(-count // 2)
        words = self.bits(use, step, (2, pairs)).to(torch.float32)
        # All 32 bits: with 24 no number would lie beyond 5.8. Near 1 the sum rounds to 1, whose
        # logarithm is 0.
        radius = ((words[:, 0] + 0.5) * 2.0**-32).clamp_(max=1.0).log_().mul_(-2.0).sqrt_()
        angle = words[:, 1] * (2.0 * math.pi * 2.0**-32)
        both = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)
        return both[:, :count].reshape(len(self), *shape)

    def permutation(self, use: Purpose, step: int | Tensor, rows: int) -> Tensor:
        """Return the positions of so many rows in random order, ``(draws, rows)``."""
        # Ties of 32 bits keep their order, which moves a permutation's chance by less than
        # rows^2 2^-33.
        return torch.argsort(self.bits(use, step, (rows,)), dim=1, stable=True)

    def part(self, start: int, stop: int) -> Streams:
        """Return the noise of some of the draws, the same as among all."""
        return Streams(self.seeds[start:stop], self.device)
