"""Tables of TabDDPM: how numbers are scaled, categories told, and releases read back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proxyguard.adapters.networks import TabDdpmSettings
from proxyguard.errors import DrawError
from proxyguard.neural.diffusion import (
    DiffusedLayout,
    TrainingRows,
    bytes_of_rows,
    classes_as_trained,
    sample,
    train,
)
from proxyguard.neural.noise import Streams
from proxyguard.neural.releases import (
    SLICE,
    SampledRows,
    SampledTable,
    TableCodes,
    TableNumbers,
    TrainingTables,
    collect,
)

# Quantiles that the scaling "quantile" is made of: one for so many rows, within these.
KNOTS_PER_ROWS, LEAST_KNOTS, MOST_KNOTS = 30, 10, 1_000
# Ranks are kept so far from 0 and 1, whose normal scores are infinite.
EDGE = 1e-7


def layout_of(tables: TrainingTables, settings: TabDdpmSettings) -> DiffusedLayout:
    """Return what the network sees of tables: numbers, and all codes but those that it is told."""
    numbers, sizes = tables.numbers.shape[2], tables.sizes
    told = 0 if tables.told is None else sizes[tables.told]
    diffused = tuple(size for k, size in enumerate(sizes) if k != tables.told)
    if settings.categories == "as numbers":
        return DiffusedLayout(numbers + sum(diffused), (), told)
    return DiffusedLayout(numbers, diffused, told)


class _Standard:
    """Every column of every draw with mean 0 and deviation 1."""

    def __init__(self, numbers: TableNumbers) -> None:
        # In units of the power of 2 above the greatest number: that rounds nothing, and squares
        # neither vanish nor overflow, whatever the unit of the column.
        greatest = np.abs(numbers).max(axis=1, keepdims=True)
        self._power = np.frexp(greatest)[1]
        numbers = np.ldexp(numbers, -self._power)
        # A constant is 0 throughout, and comes back as what it was whatever the network says. Its
        # computed deviation need not be 0.
        constant = numbers.min(axis=1, keepdims=True) == numbers.max(axis=1, keepdims=True)
        self._mean = np.where(constant, numbers[:, :1], numbers.mean(axis=1, keepdims=True))
        self._deviation = np.where(constant, 0.0, numbers.std(axis=1, keepdims=True))

    def scaled(self, numbers: TableNumbers) -> TableNumbers:
        divisor = np.where(self._deviation > 0.0, self._deviation, 1.0)
        return np.asarray((np.ldexp(numbers, -self._power) - self._mean) / divisor)

    def restored(self, scaled: TableNumbers, draws: Sequence[int]) -> TableNumbers:
        index = list(draws)
        numbers = scaled * self._deviation[index] + self._mean[index]
        return np.asarray(np.ldexp(numbers, self._power[index]))


class _Quantile:
    """Every column of every draw by the normal scores of its ranks, ties by their middle."""

    def __init__(self, numbers: TableNumbers) -> None:
        n = numbers.shape[1]
        knots = max(min(n // KNOTS_PER_ROWS, MOST_KNOTS), LEAST_KNOTS)
        self._ranks = np.linspace(0.0, 1.0, knots)
        self._knots = np.quantile(numbers, self._ranks, axis=1)  # (knots, draws, p)

    def scaled(self, numbers: TableNumbers) -> TableNumbers:
        ranks = np.empty_like(numbers)
        for draw, k in np.ndindex(numbers.shape[0], numbers.shape[2]):
            knots, values = self._knots[:, draw, k], numbers[draw, :, k]
            below = np.interp(-values, -knots[::-1], -self._ranks[::-1])
            ranks[draw, :, k] = 0.5 * (np.interp(values, knots, self._ranks) - below)
        inside = torch.from_numpy(np.clip(ranks, EDGE, 1.0 - EDGE))
        return np.asarray(torch.special.ndtri(inside).numpy())

    def restored(self, scaled: TableNumbers, draws: Sequence[int]) -> TableNumbers:
        ranks = torch.special.ndtr(torch.from_numpy(scaled)).numpy()
        numbers = np.empty_like(scaled)
        for i, draw in enumerate(draws):
            for k in range(scaled.shape[2]):
                knots = self._knots[:, draw, k]
                numbers[i, :, k] = np.interp(ranks[i, :, k], self._ranks, knots)
        return numbers


class _Coding:
    """The tables of several draws as networks see them, and the way back."""

    def __init__(self, tables: TrainingTables, settings: TabDdpmSettings) -> None:
        self.tables, self.settings = tables, settings
        self.diffused = [k for k in range(len(tables.sizes)) if k != tables.told]
        self.sizes = [tables.sizes[k] for k in self.diffused]
        self.layout = layout_of(tables, settings)
        scaling = _Standard if settings.scaling == "standard" else _Quantile
        self._numbers: _Standard | _Quantile = scaling(tables.numbers)
        flags = self._hot(tables.codes)
        self._flags, self._seen = _Standard(flags), flags.max(axis=1, keepdims=True) > 0.0

    def _hot(self, codes: TableCodes) -> TableNumbers:
        """Return ``(draws, n, categories)``, 1 where a category is the code, else 0."""
        columns = zip(self.diffused, self.sizes, strict=True)
        flags = [codes[:, :, [k]] == np.arange(size) for k, size in columns]
        return np.concatenate([np.empty((*codes.shape[:2], 0)), *flags], axis=2)

    def rows(self) -> TrainingRows:
        """Return what is trained on."""
        numbers, codes = self._numbers.scaled(self.tables.numbers), self.tables.codes
        diffused = codes[:, :, self.diffused]
        if self.settings.categories == "as numbers":
            flags = self._flags.scaled(self._hot(codes))
            numbers, diffused = np.concatenate([numbers, flags], axis=2), diffused[:, :, :0]
        told = self.tables.told
        return TrainingRows(
            torch.tensor(numbers, dtype=torch.float32),
            torch.tensor(diffused),
            None if told is None else torch.tensor(codes[:, :, told]),
        )

    def read(
        self, numbers: Tensor, codes: Tensor, classes: Tensor | None, draws: Sequence[int]
    ) -> tuple[TableNumbers, TableCodes]:
        """Return sampled rows of these draws as numbers and codes of the table."""
        p = self.tables.numbers.shape[2]
        given = numbers.cpu().double().numpy()
        complete = np.zeros((*given.shape[:2], len(self.tables.sizes)), dtype=np.int64)
        if self.settings.categories == "as numbers":
            flags = self._flags.restored(given[:, :, p:], draws)
            # Else what is 0 throughout would be the greatest where all others come out below.
            flags = np.where(self._seen[list(draws)], flags, -np.inf)
            start = 0
            for k, size in zip(self.diffused, self.sizes, strict=True):
                complete[:, :, k] = flags[:, :, start : start + size].argmax(axis=2)
                start += size
        else:
            complete[:, :, self.diffused] = codes.cpu().numpy()
        if classes is not None and self.tables.told is not None:
            complete[:, :, self.tables.told] = classes.cpu().numpy()
        restored = self._numbers.restored(given[:, :, :p], draws)
        for i, draw in enumerate(draws):
            for k in range(p):
                levels = self._levels(draw, k)
                if levels.size:
                    restored[i, :, k] = nearest(restored[i, :, k], levels)
        return restored, complete

    def _levels(self, draw: int, k: int) -> TableNumbers:
        """Return the different numbers of a column, if they are few and whole; else none."""
        trained = self.tables.numbers[draw, :, k]
        if not self.settings.nearest or not np.array_equal(trained, np.rint(trained)):
            return np.empty(0)
        levels = np.unique(trained)
        return levels if levels.size <= self.settings.nearest else np.empty(0)


def nearest(numbers: TableNumbers, levels: TableNumbers) -> TableNumbers:
    """Return for each number the nearest of the levels, which rise; of two the lower.

    Examples
    --------
    >>> nearest(np.array([-3.0, 1.4, 1.5, 9.0]), np.array([0.0, 1.0, 2.0])).tolist()
    [0.0, 1.0, 1.0, 2.0]
    """
    middles = levels[1:] / 2.0 + levels[:-1] / 2.0  # the sum alone might overflow
    return np.asarray(levels[np.searchsorted(middles, numbers, side="left")])


def draw_tables(
    tables: TrainingTables, seeds: Sequence[int], settings: TabDdpmSettings, device: torch.device
) -> list[SampledTable | DrawError]:
    """Train on the table of every draw, and return their releases.

    A draw that does not train to finite numbers, or whose rows never have the category that is
    wanted, is an error in the place of its release. Wanted classes are told to the network; the
    categories of other columns are waited for.
    """
    streams = Streams(seeds, device)
    coding = _Coding(tables, settings)
    rows = coding.rows()
    network = train(rows, streams, coding.layout, settings)

    def more(draws: Sequence[int], count: int, turn: int) -> SampledRows:
        index = torch.tensor(draws)
        chosen = Streams([seeds[k] for k in draws], device)
        classes = classes_as_trained(rows.at(index), chosen, count, turn)
        for i, draw in enumerate(draws):
            wanted = tables.wanted[draw]
            if wanted is not None and wanted.column == tables.told and classes is not None:
                these = (turn * count + np.arange(count)) % tables.rows
                classes[i] = torch.from_numpy(wanted.codes[these]).to(device)
        still = network.at(index.to(device))
        sampled = sample(still, chosen, settings, count, classes, turn)
        numbers, codes = coding.read(*sampled, classes, draws)
        finite: NDArray[np.bool_] = still.finite.cpu().numpy()
        return SampledRows(numbers, codes, finite & np.isfinite(numbers).all(axis=(1, 2)))

    return collect(more, tables)


def bytes_of_draw(tables: TrainingTables, settings: TabDdpmSettings) -> int:
    """Return about how much memory a draw of such tables takes."""
    layout, rows = layout_of(tables, settings), tables.numbers.shape[1]
    return bytes_of_rows(layout, settings, rows, min(tables.rows, SLICE))
