"""A Bayesian network of all columns, found greedily by mutual information; no privacy.

The structure is that of PrivBayes (Zhang et al. 2017) without its noise: columns are put in an
order, and each is sampled given a few of those before it. Numbers are counted in bins, and a
missing number is one more bin; a sampled bin becomes a number again by one of its training
numbers, or by a number anywhere in it.

How it is found
 * Mutual information is that of the counts, less what independent columns of so many values would
   seem to have on average, ``(a - 1)(b - 1) / 2n``, where ``a`` and ``b`` count the values, or
   combinations of parents, that occur. With few rows in a cell this takes off too much rather than
   too little: a parent that only seems to tell something would copy training rows.
 * The order starts with the root: the column of the condition, else the one that tells most about
   all others. Then comes, again and again, the column of which one that is there already tells
   most; with ``degree = 1`` this is the tree of Chow and Liu.
 * Each column gets up to ``degree`` of the earlier ones as parents, one at a time: the one that
   raises most what all its parents tell of it, if any does by more than noise, and if the table of
   its chances has at most ``max_cells`` cells.
 * What two columns tell of a third only together, as its sum modulo 2, is not found.
 * Chances given the parents are counts plus ``pseudocount`` rows of the column's own shares, so
   that a combination of parents that no training row has gives these shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.settings import Mechanism, decimal, one_of, option, whole
from proxyguard.adapters.tabular import CategoryCodes, FittedGenerator, Tabular
from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import Array

# Of one table of chances: configurations times categories are added to uniform numbers of 32 bits,
# and stay exact.
MOST_CELLS = 1_000_000
# Standard deviations by which a parent has to tell more than nothing: many are tried.
NOISE = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """One column of the source as a variable with few values.

    A column of numbers has ``edges``, and its bin ``k`` the numbers from ``edges[k - 1]`` on and
    below ``edges[k]``; with gaps, its last value is a missing number.
    """

    number: int | None
    code: int | None
    edges: Array
    low: Array  # the least and the largest number of the source in each bin
    high: Array
    size: int

    def values(self, table: Tabular) -> NDArray[np.int64]:
        """Return the value of every row."""
        if self.number is None:
            return table.codes[:, self.code]
        bins = np.searchsorted(self.edges, table.numbers[:, self.number], side="right")
        if self.code is not None:
            bins[table.codes[:, self.code] == 1] = self.size - 1
        return bins.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Chances:
    """How one variable is sampled: its parents, and the sums of its chances given them."""

    node: int
    parents: tuple[int, ...]
    sums: Array  # (configurations * size,): the sums within a configuration, plus its number


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFit:
    """The variables in the order in which they are sampled, and the training numbers by bin."""

    chances: tuple[_Chances, ...]
    inside: dict[
        int, tuple[Array, NDArray[np.int64]]
    ]  # numbers in order of bins, and where bins start

    @property
    def structure(self) -> dict[int, tuple[int, ...]]:
        """The parents of each variable, in the order of sampling."""
        return {step.node: step.parents for step in self.chances}


def _edges(given: object, name: str) -> dict[str, tuple[float, ...]]:
    declared = given or {}
    if not isinstance(declared, Mapping):
        raise RegistryError(f"{name} gives numbers by column, got {given!r}")
    read: dict[str, tuple[float, ...]] = {}
    for column, ends in sorted(declared.items()):
        if isinstance(ends, str) or not isinstance(ends, Sequence):
            raise RegistryError(f"{name} of {column!r} is a list of numbers, got {ends!r}")
        edge = f"bayesian_network: an edge of {column!r}"
        numbers = tuple(decimal(end, edge, low=-np.inf) for end in ends)
        if list(numbers) != sorted(set(numbers)):
            raise RegistryError(f"{name} of {column!r} are numbers in rising order, got {ends!r}")
        read[column] = numbers
    return read


def _cells(given: object, name: str) -> int:
    cells = whole(given, name)
    if cells > MOST_CELLS:
        raise RegistryError(f"{name} is at most {MOST_CELLS:,}, got {cells:,}")
    return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesianNetworkSettings(Mechanism):
    """What is chosen about a Bayesian network."""

    name: ClassVar[str] = "bayesian_network"
    mechanism: ClassVar[str] = "Bayesian network, greedy by mutual information, without privacy"
    fixed: ClassVar[Mapping[str, str]] = {
        "chosen here": "bins end at quantiles of the whole source where edges gives no others, "
        "and a missing number is a bin of its own; mutual information less its bias under "
        "independence; columns in the order in which earlier ones tell most of them, and "
        f"parents one at a time while they tell {NOISE:g} standard deviations of noise more; "
        "the pseudocount is rows of the column's own shares in the training rows",
    }

    degree: int = option(2, partial(whole, least=0))
    """How many earlier columns a column is sampled given, at most."""
    bins: int = option(10, whole)
    """Bins of a column of numbers, which end at quantiles of the source."""
    edges: Mapping[str, tuple[float, ...]] = option({}, _edges)
    """The ends between their bins for single columns, instead."""
    within: Literal["empirical", "uniform"] = option("empirical", one_of("empirical", "uniform"))
    """What becomes of a bin: one of the training numbers in it, or a number anywhere between the
    least and the largest of the source there ("uniform")."""
    pseudocount: float = option(1.0, decimal)
    """Rows of the column's own shares that count beside those with the same parents."""
    max_cells: int = option(20_000, _cells)
    """Cells of one table of chances, at most; 1,000,000 is the limit."""


class BayesianNetwork(FittedGenerator[BayesianNetworkSettings, NetworkFit]):
    """Columns sampled one after the other, each given up to ``degree`` of those before it.

    The column of a condition is the root.

    Examples
    --------
    >>> import pandas as pd
    >>> from proxyguard.draw.protocol import Seed
    >>> source = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "a", "b", "b"]})
    >>> generator = BayesianNetwork(rows=3, bins=2, condition={"column": "y", "value": "b"})
    >>> generator.prepare(source, np.random.default_rng(0))
    >>> list(generator.draw(Seed(1))["y"])
    ['b', 'b', 'b']
    """

    _kind = BayesianNetworkSettings
    _nodes: tuple[_Node, ...] = ()

    def _read(self, table: Tabular) -> None:
        wrong = sorted(set(self._settings.edges) - set(table.number_names))
        if wrong:
            raise RegistryError(
                f"bayesian_network: edges names {wrong}, which are no columns of numbers; the "
                f"source has {list(table.number_names)}"
            )
        nodes = []
        for column in table.columns:
            if column.number is not None:
                known = table.numbers[:, column.number]
                if column.code is not None:
                    known = known[table.codes[:, column.code] == 0]
                nodes.append(self._binned(column.name, known, column.number, column.code))
            elif column.code is not None:
                empty = np.empty(0)
                nodes.append(
                    _Node(None, column.code, empty, empty, empty, table.sizes[column.code])
                )
        self._nodes = tuple(nodes)

    def _binned(self, name: str, known: Array, number: int, code: int | None) -> _Node:
        """Return a column of numbers in bins, none of which is empty in the source."""
        declared = self._settings.edges.get(name)
        if declared is not None:
            edges = np.array(declared, dtype=np.float64)
        else:
            edges = np.quantile(
                known, np.arange(1, self._settings.bins) / self._settings.bins, method="higher"
            )
        # A bin without a number of the source could give none: ends that leave one are left out.
        bins = np.searchsorted(np.unique(edges), known, side="right")
        order = np.sort(known)
        starts = np.flatnonzero(np.diff(np.sort(bins))) + 1
        low, high = order[np.append(0, starts)], order[np.append(starts - 1, known.size - 1)]
        size = low.size + (code is not None)
        return _Node(number, code, low[1:], low, high, size)

    def _fit(self, trained: Tabular) -> NetworkFit:
        values = [node.values(trained) for node in self._nodes]
        counting = _Counting(values, [node.size for node in self._nodes])
        chances: list[_Chances] = []
        for k in self._order(counting):
            parents = self._parents(counting, k, [step.node for step in chances])
            chances.append(self._chances(counting, k, parents))
        inside = {}
        for k, node in enumerate(self._nodes):
            if node.number is not None and self._settings.within == "empirical":
                order = np.argsort(values[k], kind="stable")
                starts = np.searchsorted(values[k][order], np.arange(node.low.size + 1))
                inside[k] = trained.numbers[order, node.number], starts
        return NetworkFit(tuple(chances), inside)

    def _order(self, counting: _Counting) -> list[int]:
        """Return the variables in the order of sampling: always the one that is told most."""
        d = len(self._nodes)
        information = np.zeros((d, d))
        for j in range(d):
            for k in range(j):
                information[j, k] = information[k, j] = counting.information(j, (k,))
        root = int(np.argmax(information.sum(axis=1)))
        if self._shared.condition is not None and self._table is not None:
            code = self._table.code_column(self._shared.condition.column)
            columns = [node.code if node.number is None else None for node in self._nodes]
            root = columns.index(code)
        order = [root]
        waiting = np.arange(d) != root
        told = information[root].copy()
        while waiting.any():
            newest = int(np.argmax(np.where(waiting, told, -np.inf)))
            order.append(newest)
            waiting[newest] = False
            np.maximum(told, information[newest], out=told)
        return order

    def _parents(self, counting: _Counting, node: int, earlier: Sequence[int]) -> tuple[int, ...]:
        """Return up to ``degree`` of the earlier variables, given which this one is sampled."""
        parents: tuple[int, ...] = ()
        while len(parents) < self._settings.degree:
            gains = [
                (counting.gain(node, parents, k), -k)
                for k in earlier
                if k not in parents
                and counting.cells(node, (*parents, k)) <= self._settings.max_cells
            ]
            if not gains or max(gains)[0] <= 0.0:
                break
            parents = (*parents, -max(gains)[1])  # of equals, the first in the table
        return parents

    def _chances(self, counting: _Counting, node: int, parents: tuple[int, ...]) -> _Chances:
        counts = counting.table(node, parents)
        shares = counts.sum(axis=0) / counts.sum()
        total = counts.sum(axis=1, keepdims=True) + self._settings.pseudocount
        # Without a pseudocount a configuration that never occurs has no chances of its own.
        weights = np.where(total > 0.0, counts + self._settings.pseudocount * shares, shares)
        sums = np.cumsum(weights, axis=1)
        sums /= sums[:, -1:]  # the last is 1 exactly, as is every one after the last chance
        sums += np.arange(len(sums))[:, np.newaxis]
        return _Chances(node, parents, sums.ravel())

    def _sample(
        self,
        model: NetworkFit,
        rng: np.random.Generator,
        rows: int,
        wanted: tuple[int, CategoryCodes] | None,
    ) -> tuple[Array, CategoryCodes]:
        values: dict[int, NDArray[np.int64]] = {}
        for step in model.chances:
            size = self._nodes[step.node].size
            if wanted is not None and not values:  # the root
                values[step.node] = wanted[1]
                continue
            configuration = np.zeros(rows, dtype=np.int64)
            for parent in step.parents:
                configuration = configuration * self._nodes[parent].size + values[parent]
            # Of 32 bits, so that the sum is exact and stays below the next configuration.
            uniform = rng.integers(0, 2**32, size=rows) * 2.0**-32
            cell = np.searchsorted(step.sums, uniform + configuration, side="right")
            values[step.node] = cell - configuration * size
        assert self._table is not None  # prepare comes first
        numbers = np.empty((rows, len(self._table.number_names)))
        codes = np.empty((rows, len(self._table.code_names)), dtype=np.int64)
        for k, node in enumerate(self._nodes):
            if node.number is None:
                codes[:, node.code] = values[k]
                continue
            bins = values[k]
            if node.code is not None:
                codes[:, node.code] = bins == node.size - 1
                bins = np.minimum(bins, node.low.size - 1)  # a missing number may be any
            numbers[:, node.number] = self._placed(model, k, bins, rng.random(rows))
        return numbers, codes

    def _placed(self, model: NetworkFit, k: int, bins: NDArray[np.int64], uniform: Array) -> Array:
        """Return a number in each bin."""
        node = self._nodes[k]
        if self._settings.within == "uniform":
            return np.asarray(node.low[bins] + uniform * (node.high[bins] - node.low[bins]))
        numbers, starts = model.inside[k]
        counts = np.diff(starts)[bins]
        chosen = starts[bins] + (uniform * counts).astype(np.int64)
        # Of a bin without training rows, which only a missing number is put in, any will do.
        return np.asarray(numbers[np.minimum(chosen, numbers.size - 1)])


class _Counting:
    """Counts of the training rows by the values of some variables."""

    def __init__(self, values: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> None:
        self._values, self._sizes = values, sizes
        self._entropies: dict[tuple[int, ...], tuple[float, int]] = {}

    def cells(self, node: int, parents: tuple[int, ...]) -> int:
        """Return how many cells the table of a variable given others has."""
        return prod(self._sizes[k] for k in (*parents, node))

    def table(self, node: int, parents: tuple[int, ...]) -> Array:
        """Return counts, ``(configurations of the parents, values)``."""
        cells = self._cell((*parents, node))
        counts = np.bincount(cells, minlength=self.cells(node, parents))
        return counts.reshape(-1, self._sizes[node]).astype(np.float64)

    def _cell(self, nodes: tuple[int, ...]) -> NDArray[np.int64]:
        cells = self._values[nodes[0]]
        for k in nodes[1:]:
            cells = cells * self._sizes[k] + self._values[k]
        return cells

    def _entropy(self, nodes: tuple[int, ...]) -> tuple[float, int]:
        """Return the entropy of some variables in nats, and how many cells occur."""
        known = tuple(sorted(nodes))
        if known not in self._entropies:
            counts = np.bincount(self._cell(known))
            counts = counts[counts > 0]
            n = self._values[0].size
            entropy = np.log(n) - float(np.sum(counts * np.log(counts))) / n
            self._entropies[known] = float(entropy), counts.size
        return self._entropies[known]

    def _freedom(self, node: int, parents: tuple[int, ...]) -> int:
        """Return the degrees of freedom of a variable given others, of values that occur."""
        return (self._entropy((node,))[1] - 1) * (self._entropy(parents)[1] - 1)

    def information(self, node: int, parents: tuple[int, ...]) -> float:
        """Return the mutual information of a variable and others, less its bias.

        The bias is that of independent variables: twice the rows times the information of their
        counts is chi-squared, with so many degrees of freedom on average.
        """
        entropies = [self._entropy(nodes)[0] for nodes in ((node,), parents, (*parents, node))]
        bias = self._freedom(node, parents) / (2 * self._values[0].size)
        return entropies[0] + entropies[1] - entropies[2] - bias

    def gain(self, node: int, parents: tuple[int, ...], further: int) -> float:
        """Return by how much a further parent tells more than one of noise could.

        That is `NOISE` standard deviations of the chi-squared law.
        """
        told = self.information(node, parents) if parents else 0.0
        freedom = self._freedom(node, (*parents, further))
        freedom -= self._freedom(node, parents) if parents else 0
        noise = NOISE * np.sqrt(2.0 * max(freedom, 0)) / (2 * self._values[0].size)
        return self.information(node, (*parents, further)) - told - float(noise)
