"""Tables as networks see them: numbers within components of mixtures, and categories, as blocks.

The layout is that of the source and not of a draw: every column of numbers has room for all
components, every column of categories for all categories of the source, and a draw says which of
them it has. So a draw's networks have the same shape in every company.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from proxyguard.neural.mixtures import COMPONENTS, Mixtures, fit_mixtures
from proxyguard.neural.noise import Purpose, Streams
from proxyguard.neural.releases import TrainingTables


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Blocks of one size beside each other: one-hot coordinates of several columns.

    Attributes
    ----------
    first
        The number of the first block among all.
    start
        The coordinate where that block begins.
    count, size
        How many blocks, and how many coordinates each has.
    """

    first: int
    start: int
    count: int
    size: int

    @property
    def coordinates(self) -> slice[int, int, None]:
        """Where the group is in a row."""
        return slice(self.start, self.start + self.count * self.size)

    @property
    def blocks(self) -> slice[int, int, None]:
        """Which blocks it has."""
        return slice(self.first, self.first + self.count)


def by_size(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the columns of categories by their number of categories: equal ones are adjacent."""
    return tuple(sorted(range(len(sizes)), key=lambda k: (sizes[k], k)))


def groups_by_size(sizes: Sequence[int], first: int, start: int) -> Iterator[BlockGroup]:
    """Yield the blocks of columns of categories in the order of `by_size`, as groups of one size.

    Parameters
    ----------
    sizes
        Categories of each column.
    first, start
        The number of the first block, and the coordinate where it begins.
    """
    for size, columns in groupby(sorted(sizes)):
        group = BlockGroup(first, start, len(list(columns)), size)
        yield group
        first, start = first + group.count, group.coordinates.stop


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a row has what: a number within its component for each column, then blocks.

    Blocks are the components of each column of numbers, then the columns of categories in the
    order of their sizes, so that those of one size are a group.

    Attributes
    ----------
    numbers
        Columns of numbers; their normalised numbers are the first coordinates.
    sizes
        Categories of each column of categories.
    """

    numbers: int
    sizes: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The columns of categories in the order of their blocks."""
        return by_size(self.sizes)

    @property
    def groups(self) -> tuple[BlockGroup, ...]:
        """The blocks, as groups of one size."""
        components = BlockGroup(0, self.numbers, self.numbers, COMPONENTS)
        categories = groups_by_size(self.sizes, self.numbers, components.coordinates.stop)
        return *((components,) if self.numbers else ()), *categories

    @property
    def width(self) -> int:
        """Coordinates of a row."""
        return self.numbers * (1 + COMPONENTS) + sum(self.sizes)

    def block(self, column: int) -> slice[int, int, None]:
        """Return the coordinates of a column of categories."""
        before = self.order[: self.order.index(column)]
        start = self.numbers * (1 + COMPONENTS) + sum(self.sizes[k] for k in before)
        return slice(start, start + self.sizes[column])

    def rows(self, alphas: Tensor, chosen: Tensor) -> Tensor:
        """Return rows as networks see them, ``(draws, rows, width)``.

        Parameters
        ----------
        alphas
            ``(draws, rows, numbers)``: numbers within their components.
        chosen
            ``(draws, rows, blocks)``: the coordinate of each block that is 1.
        """
        pieces = [alphas]
        for group in self.groups:
            every = torch.arange(group.size, device=chosen.device)
            hot = chosen[:, :, group.blocks, None] == every
            pieces.append(hot.flatten(2).to(alphas.dtype))
        return torch.cat(pieces, dim=2)

    def choices(self, logits: Tensor, seen: Tensor) -> Tensor:
        """Return the highest coordinate of every block, ``(draws, rows, blocks)``.

        Parameters
        ----------
        logits
            ``(draws, rows, width)``.
        seen
            ``(draws, width)``: the coordinates that a draw has; no other is chosen.
        """
        # The package of the original authors takes the highest after tanh, which in float32 is 1
        # from about 9 on: of several such the first would win.
        chosen = []
        for group in self.groups:
            absent = ~seen[:, None, group.coordinates]
            block = logits[:, :, group.coordinates].masked_fill(absent, -torch.inf)
            chosen.append(block.unflatten(2, (group.count, group.size)).argmax(dim=3))
        return torch.cat(chosen, dim=2)

    def codes(self, chosen: Tensor) -> Tensor:
        """Return the columns of categories in the order of the table, ``(draws, rows, q)``."""
        back = sorted(range(len(self.sizes)), key=lambda k: self.order[k])
        return chosen[:, :, [self.numbers + k for k in back]]


@dataclass(frozen=True, slots=True)
class EncodedTables:
    """The training tables of several draws, encoded by mixtures that each draw has of its own.

    Attributes
    ----------
    layout
        Where a row has what.
    mixtures
        Of the columns of numbers; nothing where there are none.
    alphas
        ``(draws, rows, numbers)``: numbers within their components, float32.
    chosen
        ``(draws, rows, blocks)``: the coordinate of every block that is 1.
    seen
        ``(draws, width)``: the coordinates that a draw has, of components that are kept and of
        categories that its training rows have. The others are always 0.
    """

    layout: Layout
    mixtures: Mixtures | None
    alphas: Tensor
    chosen: Tensor
    seen: Tensor

    @property
    def width(self) -> Tensor:
        """How many coordinates each draw has, ``(draws,)``."""
        return self.seen.sum(dim=1)

    def at(self, draws: Tensor) -> EncodedTables:
        """Return those of some draws."""
        return EncodedTables(
            self.layout,
            None if self.mixtures is None else self.mixtures.at(draws),
            self.alphas[draws],
            self.chosen[draws],
            self.seen[draws],
        )

    def decode(self, alphas: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return numbers ``(draws, rows, p)`` in float64 and codes ``(draws, rows, q)``."""
        p = self.layout.numbers
        if self.mixtures is None:
            numbers = alphas.to(torch.float64)  # without columns
        else:
            numbers = self.mixtures.decode(alphas, chosen[:, :, :p])
        return numbers, self.layout.codes(chosen)


def encode_tables(tables: TrainingTables, streams: Streams) -> EncodedTables:
    """Return the training tables of several draws as networks see them, where they are trained."""
    numbers, codes = (
        torch.from_numpy(t).to(streams.device) for t in (tables.numbers, tables.codes)
    )
    return encode(numbers, codes, tables.sizes, streams)


def encode(numbers: Tensor, codes: Tensor, sizes: Sequence[int], streams: Streams) -> EncodedTables:
    """Return the training tables of several draws as networks see them.

    Parameters
    ----------
    numbers
        ``(draws, rows, p)``, finite, in float64.
    codes
        ``(draws, rows, q)``: categories as whole numbers.
    sizes
        How many categories each column of codes has in the source.
    streams
        The noise of the draws.
    """
    draws, n, p = numbers.shape
    layout = Layout(p, tuple(sizes))
    seen = torch.zeros((draws, layout.width), dtype=torch.bool, device=numbers.device)
    seen[:, :p] = True
    mixtures = None
    alphas = torch.empty((draws, n, 0), dtype=torch.float32, device=numbers.device)
    chosen = codes[:, :, list(layout.order)]
    if p:
        values = numbers.transpose(1, 2).contiguous()
        mixtures = fit_mixtures(values, streams)
        alphas, components = mixtures.encode(values, streams.uniform(Purpose.COMPONENT, 0, (p, n)))
        chosen = torch.cat([components, chosen], dim=2)
        seen[:, p : p * (1 + COMPONENTS)] = mixtures.kept.flatten(1)
    for group in layout.groups[1 if p else 0 :]:
        for k in range(group.count):
            start = group.start + k * group.size
            # One value is written, however often: the order of writing does not matter.
            seen[:, start : start + group.size].scatter_(1, chosen[:, :, group.first + k], True)
    return EncodedTables(layout, mixtures, alphas.contiguous(), chosen.contiguous(), seen)
