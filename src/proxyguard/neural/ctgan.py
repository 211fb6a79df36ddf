"""CTGAN (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019), the networks of many draws.

A generator makes rows from noise and a condition, one category of one column; a critic tells real
rows of that category from them. A row is laid out the same way in every draw: the normalised
numbers, then for each of them as many places as a mixture may have components, then the categories
of the source. Components and categories that a draw has not are never generated, and count in no
width, so that a draw neither knows nor feels what the draws beside it have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from proxyguard.adapters.networks import ConditionLaw, CtganSettings
from proxyguard.errors import DrawError
from proxyguard.neural.adversaries import WORDS, RowCritic, RowGenerator
from proxyguard.neural.encoding import EncodedTables, Layout, encode_tables
from proxyguard.neural.noise import Purpose, Streams
from proxyguard.neural.releases import SampledRows, SampledTable, TrainingTables, collect


def _choices(layout: Layout, rows: Tensor, first: int = 0) -> Iterator[tuple[int, int, Tensor]]:
    """Yield where in ``rows`` a group of blocks starts and stops, and the group, one by one.

    ``rows`` has the coordinates from ``first`` on, at which a block begins.
    """
    for group in layout.groups:
        if group.start >= first:
            start, stop = group.start - first, group.coordinates.stop - first
            yield start, stop, rows[..., start:stop].unflatten(-1, (group.count, group.size))


class RowConditions:
    """Which categories rows are conditioned on, and the training rows that have each.

    A condition is a coordinate of a row, counted from the first category on.
    """

    def __init__(self, encoded: EncodedTables, device: torch.device) -> None:
        layout = encoded.layout
        # On the CPU: a GPU has no deterministic running sums in floating point.
        codes = encoded.chosen[..., layout.numbers :].cpu()
        draws, self.rows, columns = codes.shape
        sizes = [layout.sizes[column] for column in layout.order]
        counts = torch.zeros((draws, sum(sizes)), dtype=torch.int64)
        firsts = torch.zeros_like(counts)
        orders = torch.empty((draws, columns, self.rows), dtype=torch.int64)
        self._blocks: list[tuple[int, int]] = []
        for column, size in enumerate(sizes):
            start = sum(sizes[:column])
            block = slice(start, start + size)
            self._blocks.append((start, start + size))
            category = codes[..., column]
            ones = torch.ones_like(category)
            counts[:, block].scatter_add_(1, category, ones)
            orders[:, column] = category.argsort(dim=1, stable=True)
            # Where in this column's order the rows of a category begin.
            before = counts[:, block].cumsum(dim=1) - counts[:, block]
            firsts[:, block] = before + column * self.rows
        self.present = (counts > 0).to(device)
        self._limits = {
            law: self._cumulated(counts, law).to(device) for law in get_args(ConditionLaw)
        }
        draw = torch.arange(draws)[:, None]
        self._firsts = (firsts + draw * columns * self.rows).reshape(-1).to(device)
        self._counts = counts.reshape(-1).to(device)
        self._orders = orders.reshape(-1).to(device)
        self.column_of = torch.tensor(
            [column for column, size in enumerate(sizes) for _ in range(size)], device=device
        )
        self._shift = (draw * sum(sizes)).to(device)

    def _cumulated(self, counts: Tensor, law: ConditionLaw) -> Tensor:
        """Return the cumulated chances of all conditions, ``(draws, categories)``."""
        weights = counts.to(torch.float64)
        if law == "log frequencies":
            weights = weights.log1p()
        for start, stop in self._blocks:
            block = weights[:, start:stop]
            block /= block.sum(dim=1, keepdim=True) * len(self._blocks)
        # Above the last category that there is no number is drawn, whatever was rounded.
        total = counts.cumsum(dim=1)
        return torch.where(total == self.rows * len(self._blocks), math.inf, weights.cumsum(dim=1))

    def choose(self, words: Tensor, law: ConditionLaw, draws: Tensor | None = None) -> Tensor:
        """Return a condition for each word of noise: any column alike, its category by the law."""
        limits = self._limits[law]
        # All 32 bits, in float64: a rare category keeps its chance.
        uniform = (words.to(torch.float64) + 0.5) / WORDS
        return torch.searchsorted(
            limits if draws is None else limits[draws], uniform.contiguous(), right=True
        )

    def matching(self, condition: Tensor, words: Tensor) -> Tensor:
        """Return for each condition a training row that has it, any of them alike."""
        place = condition + self._shift
        # The upper half of a word times a count is below the count.
        picked = (words * self._counts[place]) >> 32
        return self._orders[self._firsts[place] + picked]


class CtganNetworks:
    """The generators and critics of several draws, which learn at the same time.

    Parameters
    ----------
    encoded
        Their training rows.
    streams
        The noise of the draws.
    settings
        What is chosen; the same for all of them.
    """

    def __init__(self, encoded: EncodedTables, streams: Streams, settings: CtganSettings) -> None:
        self._encoded, self._streams, self._settings = encoded, streams, settings
        self._layout = encoded.layout
        self._categories = sum(self._layout.sizes)
        self._first_category = self._layout.width - self._categories
        draws, rows, _ = encoded.chosen.shape
        device = streams.device
        self.steps = settings.steps(rows)
        self._rows = rows
        self._table = self._layout.rows(encoded.alphas, encoded.chosen).flatten(0, 1)
        self._first_row = (torch.arange(draws, device=device) * rows)[:, None]
        self._places = torch.arange(self._categories, device=device)
        self._absent = torch.zeros(encoded.seen.shape, device=device)
        self._absent.masked_fill_(~encoded.seen, -math.inf)
        self._absent = self._absent[:, None]
        self.conditions = RowConditions(encoded, device) if self._categories else None
        present = encoded.seen[:, self._first_category :].sum(dim=1)
        self.generator = RowGenerator(streams, encoded, settings, present)
        self.critic = RowCritic(streams, encoded, settings, encoded.width + present)
        # On the device, so that a recorded step counts it up when it is replayed.
        self._count = torch.zeros((), dtype=torch.int64, device=device)

    def train(self, *, graph: bool = True) -> None:
        """Take all steps; on a GPU one is recorded and replayed, unless ``graph`` is false."""
        if self._streams.device.type == "cuda" and graph and self.steps > 1:
            self._replay()
        else:
            for _ in range(self.steps):
                self.step()
        self.generator.forget()

    def _replay(self) -> None:
        """Take all steps on a GPU, as one launch each after the first."""
        # The first step runs by itself, on a stream of its own, so that what libraries set up at
        # their first use is not recorded.
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step()
        except RuntimeError as error:
            # A recording that ran out of memory fails again when it ends, which would hide why:
            # whoever halves the batch asks for the first error.
            if isinstance(error.__context__, torch.OutOfMemoryError):
                raise error.__context__ from None
            raise
        for _ in range(self.steps - 1):
            graph.replay()
        torch.cuda.synchronize()  # before the graph goes, and its memory with it

    def step(self) -> None:
        """Take one step of the generator, after those of the critic that belong to it."""
        for _ in range(self._settings.critic_steps):
            self.trace_critic()
            self.critic.adam.step()
        self.trace_generator()
        self.generator.adam.step()

    def trace_critic(self) -> None:
        """Set the critic's gradients, from real and generated rows of the same conditions."""
        settings, streams, width = self._settings, self._streams, self._layout.width
        count = self._count.add_(1)
        draws, rows = len(streams), settings.batch_size
        batch = torch.empty((draws, 3, rows, width + self._categories), device=streams.device)
        real, fake, between = batch.unbind(1)
        words = streams.bits(Purpose.ROWS, count, (rows,))
        condition, one_hot = self._conditions(count)
        if self.conditions is None or condition is None:
            chosen = (words * self._rows) >> 32
        else:
            # In another order than the generator's: a group of real rows and the group of
            # generated ones beside it do not share their conditions.
            order = streams.permutation(Purpose.SHUFFLE, count, rows)
            shuffled = condition.gather(1, order)
            chosen = self.conditions.matching(shuffled, words)
            real[..., width:] = shuffled[..., None] == self._places
            fake[..., width:] = one_hot
        chosen = (chosen + self._first_row).reshape(-1)
        real[..., :width] = self._table.index_select(0, chosen).reshape(draws, rows, width)
        array = self.generator.inputs(self._noise(count), one_hot)
        self._activate(self.generator.learn(array), count, fake)
        groups = rows // settings.pac
        mix = streams.uniform(Purpose.PENALTY, count, (groups, 1))
        apart = (real - fake).reshape(draws, groups, -1).mul_(mix)
        torch.add(apart.reshape(fake.shape), fake, out=between)
        self.critic.trace(batch.reshape(draws, 3 * groups, -1), self._dropped(count, 3 * groups))

    def trace_generator(self) -> None:
        """Set the generator's gradients, from the critic's scores and the conditions kept."""
        settings, streams, layout = self._settings, self._streams, self._layout
        count = self._count.add_(1)
        draws, rows = len(streams), settings.batch_size
        batch = torch.empty((draws, rows, layout.width + self._categories), device=streams.device)
        condition, one_hot = self._conditions(count)
        if one_hot is not None:
            batch[..., layout.width :] = one_hot
        array = self.generator.inputs(self._noise(count), one_hot)
        logits = self.generator.learn(array)
        self._activate(logits, count, batch)
        groups = rows // settings.pac
        slope = self.critic.slope(
            batch.reshape(draws, groups, -1), self._dropped(count, groups)
        ).reshape(batch.shape)
        wanted = torch.empty_like(logits)
        alphas = batch[..., : layout.numbers]
        wanted[..., : layout.numbers] = slope[..., : layout.numbers] * (1.0 - alphas * alphas)
        for start, stop, chances in _choices(layout, batch[..., : layout.width]):
            rising = slope[..., start:stop].unflatten(-1, chances.shape[-2:]) * chances
            rising -= chances * rising.sum(dim=-1, keepdim=True)
            wanted[..., start:stop] = rising.div_(settings.temperature).flatten(-2)
        if self.conditions is not None and condition is not None:
            wanted[..., self._first_category :] += self._missed(logits, condition)
        self.generator.trace(array, wanted)

    def _missed(self, logits: Tensor, condition: Tensor) -> Tensor:
        """Return the gradient of the mean cross-entropy of the column that a condition names."""
        assert self.conditions is not None
        first = self._first_category
        present = logits[..., first:] + self._absent[..., first:]
        missed = torch.empty_like(present)
        for start, stop, choices in _choices(self._layout, present, first):
            missed[..., start:stop] = choices.softmax(dim=-1).flatten(-2)
        columns = self.conditions.column_of
        missed -= (condition[..., None] == self._places).to(torch.float32)
        named = columns[condition][..., None] == columns
        return missed.mul_(named).div_(self._settings.batch_size)

    def _conditions(self, count: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the conditions of a batch, and each as zeros and a one; or nothing."""
        if self.conditions is None:
            return None, None
        words = self._streams.bits(Purpose.CONDITION, count, (self._settings.batch_size,))
        condition = self.conditions.choose(words, "log frequencies")
        return condition, (condition[..., None] == self._places).to(torch.float32)

    def _noise(self, count: Tensor) -> Tensor:
        shape = (self._settings.batch_size, self._settings.embedding)
        return self._streams.normal(Purpose.GENERATOR, count, shape)

    def _dropped(self, count: Tensor, groups: int) -> Tensor:
        shape = (groups, sum(self._settings.critic))
        return self._streams.bits(Purpose.DROPOUT, count, shape)

    def _activate(self, logits: Tensor, count: Tensor, rows: Tensor) -> None:
        """Write generated rows: normalised numbers by tanh, choices by a Gumbel softmax."""
        numbers, width = self._layout.numbers, self._layout.width
        rows[..., :numbers] = logits[..., :numbers].tanh()
        shape = (self._settings.batch_size, width - numbers)
        noisy = _gumbel(self._streams, Purpose.GUMBEL, count, shape)
        noisy.add_(logits[..., numbers:]).add_(self._absent[..., numbers:])
        noisy.div_(self._settings.temperature)
        for start, stop, choices in _choices(self._layout, noisy, numbers):
            rows[..., numbers + start : numbers + stop] = choices.softmax(dim=-1).flatten(-2)

    def sample(
        self, draws: Sequence[int], rows: int, turn: int = 0, *,
        law: ConditionLaw = "frequencies", wanted: Tensor | None = None,
    ) -> SampledRows:  # fmt: skip
        """Return new rows of some draws, made by the networks as they are.

        Batch normalisation uses its running averages. A component or category is the highest one
        after Gumbel noise, that is, it is drawn by its chance.

        Parameters
        ----------
        draws
            Which of them.
        rows
            How many rows.
        turn
            Rows of another turn are others.
        law
            By which law the category of a condition is drawn, of a column that is drawn uniformly.
        wanted
            ``(draws, rows)``: the conditions of the rows instead, as coordinates counted from the
            first category on. They make a category likely and not certain.
        """
        device, size = self._streams.device, self._settings.batch_size
        index = torch.tensor(list(draws), device=device)
        streams = Streams([self._streams.seeds[draw] for draw in draws], device)
        turns = -(-rows // size)
        pieces = []
        for piece in range(turns):
            part = slice(piece * size, min(rows, piece * size + size))
            given = None if wanted is None else wanted[:, part].to(device)
            pieces.append(
                self._piece(
                    streams, index, part.stop - part.start, turn * turns + piece, law, given
                )
            )
        alphas, chosen, finite = (torch.cat(kind, dim=1) for kind in zip(*pieces, strict=True))
        numbers, codes = self._encoded.at(index).decode(alphas, chosen)
        return SampledRows(
            numbers.cpu().numpy(), codes.cpu().numpy(), finite.all(dim=1).cpu().numpy()
        )

    def _piece(
        self,
        streams: Streams,
        index: Tensor,
        rows: int,
        step: int,
        law: ConditionLaw,
        condition: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the numbers and choices of at most a batch of rows, and whether they are any."""
        layout, size = self._layout, self._settings.batch_size
        # Noise of a whole batch, also for the last rows: a row does not depend on their number.
        one_hot = None
        if self.conditions is not None:
            if condition is None:
                words = streams.bits(Purpose.CLASSES, step, (size,))[:, :rows]
                condition = self.conditions.choose(words, law, index)
            one_hot = (condition[..., None] == self._places).to(torch.float32)
        noise = streams.normal(Purpose.SAMPLE, step, (size, self._settings.embedding))[:, :rows]
        logits = self.generator.apply(self.generator.inputs(noise, one_hot), index)
        gumbel = _gumbel(streams, Purpose.CATEGORY, step, (size, layout.width - layout.numbers))
        alphas = logits[..., : layout.numbers].tanh()
        finite = logits.isfinite().all(dim=2)
        logits[..., layout.numbers :] += gumbel[:, :rows]
        return alphas, layout.choices(logits, self._encoded.seen[index]), finite


def _gumbel(streams: Streams, use: Purpose, step: int | Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return numbers of the Gumbel law."""
    return streams.uniform(use, step, shape).log_().neg_().log_().neg_()


def draw_tables(
    tables: TrainingTables, seeds: Sequence[int], settings: CtganSettings, device: torch.device
) -> list[SampledTable | DrawError]:
    """Train on the table of every draw, and return their releases.

    Where categories are wanted, rows are made under them as conditions, in their turn. With
    "rejection" a row takes a place of the category that it came out with, whichever
    condition it was made under, and rows are made until all places are taken; without, every row
    is kept in the place whose condition it was made under.

    A draw that does not train to finite numbers, or whose rows never have the category that is
    wanted, is an error in the place of its release.
    """
    streams = Streams(seeds, device)
    encoded = encode_tables(tables, streams)
    network = CtganNetworks(encoded, streams, settings)
    network.train()
    layout, asked = encoded.layout, tables.wanted
    first = layout.width - sum(layout.sizes)

    def more(draws: Sequence[int], rows: int, turn: int) -> SampledRows:
        places = []
        for draw in draws:
            want = asked[draw]
            if want is not None:
                begin = layout.block(want.column).start - first
                now = (turn * rows + np.arange(rows)) % len(want.codes)
                places.append(torch.from_numpy(begin + want.codes[now]))
        return network.sample(
            draws,
            rows,
            turn,
            law=settings.conditions_by,
            wanted=torch.stack(places) if places else None,
        )

    if settings.condition_by == "likelihood":
        tables = replace(tables, wanted=[None] * len(seeds))
    return collect(more, tables)


def bytes_of_draw(tables: TrainingTables, settings: CtganSettings) -> int:
    """Return about how much memory a draw of such tables takes."""
    n, layout = len(tables.codes[0]), Layout(tables.numbers.shape[2], tables.sizes)
    hidden, units = sum(settings.generator), sum(settings.critic)
    row = layout.width + sum(layout.sizes)
    inputs = settings.embedding + sum(layout.sizes)
    # Products of all widths are more than any network of these has.
    weights = (inputs + hidden) * (hidden + layout.width) + (settings.pac * row + units) * units
    rows, groups = settings.batch_size, 3 * settings.batch_size // settings.pac
    # Words of noise are whole numbers of 64 bits, and a dozen of them live while four are made.
    noise = 6 * max(rows * max(settings.embedding, layout.width), groups * units)
    activity = rows * (5 * (inputs + hidden) + 10 * row) + groups * 6 * units
    mixtures = 2 * n * layout.numbers * 40
    kept = n * (layout.width + 4 * (layout.numbers + len(layout.sizes)))
    return 4 * (5 * weights + max(noise + activity, mixtures) + kept)
