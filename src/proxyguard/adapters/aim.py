"""AIM and MST through OpenDP: private tables from noisy counts of single columns and of pairs.

Every column is counted in the cells of a domain: a column of numbers in ``bins`` bins of one
width between two bounds, any other by its categories. A share of the budget measures columns
alone. The rest is spent by AIM (McKenna et al. 2022), which picks the pair that its model describes
worst, adds noise to its counts and fits again, or by MST (McKenna et al. 2021). OpenDP counts, adds
the noise and accounts for it, and mbi fits the graphical model and samples cells. Which pairs there
are to pick from, the workload, is an option: it decides what a release can know of the outcome.

What is ours: cells and what stands for them in a release (OpenDP would place values up to one unit
beyond its outermost cuts, whatever the scale), the workload, and the counts of single columns, in
one measurement of OpenDP's, of which the scale is known and need not be searched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Inexact
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.kept import FILE, KeptFit, inner_folder
from proxyguard.adapters.marginals import ColumnPair, Factors, FitPlan, fit_privately
from proxyguard.adapters.privacy import epsilon_at, rho_within
from proxyguard.adapters.settings import exact, one_of, pair, whole
from proxyguard.adapters.tabular import CategoryCodes
from proxyguard.draw.processes import in_a_fork
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.tables.columns import Series, as_text, coded

if TYPE_CHECKING:
    import pandas as pd


PlacedAs = Literal["middle", "uniform"]
FromTraining = Literal["from the training rows"]
WORKLOAD = "the pairs that may be measured"
FIT = "the private fit, whose noise is the system's"
ROWS = "rows of the release"
LEARNED = "from the training rows"
# What fits and samples; each draw records their versions.
PACKAGES = ("opendp", "mbi", "jax", "polars")
# Rounds of AIM for each column, where none are registered: the default of its authors.
ROUNDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BinCells:
    """A column of numbers, in bins of one width; one more where numbers may be missing."""

    low: float
    high: float
    count: int
    missing: bool
    values: PlacedAs

    @property
    def size(self) -> int:
        """How many cells the column has."""
        return self.count + self.missing

    def encode(self, column: Series) -> CategoryCodes:
        """Return the cell of each number; what lies outside the bounds counts in the end bin."""
        numbers = column.to_numpy(dtype=np.float64)
        gaps = np.isnan(numbers)
        if gaps.any() and not self.missing:
            raise TableError(
                f"aim: {column.name!r} has missing numbers, and missing does not name it; name it "
                "there, and they are one more cell of it"
            )
        inside = np.clip(np.where(gaps, self.low, numbers), self.low, self.high)
        cells = np.floor(self.count * (inside - self.low) / (self.high - self.low))
        codes = np.minimum(cells, self.count - 1).astype(np.int64)  # the maximum is in the last
        return np.where(gaps, self.count, codes)

    def decode(self, codes: CategoryCodes, rng: np.random.Generator) -> Array:
        """Return a number for each cell: the middle of its bin, or one drawn within it."""
        within = np.full(codes.size, 0.5) if self.values == "middle" else rng.random(codes.size)
        numbers = self.low + (codes + within) * ((self.high - self.low) / self.count)
        # Rounding may step over the upper end.
        return np.where(codes == self.count, np.nan, np.clip(numbers, self.low, self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryCells:
    """A column by its categories, written as text; "" is a missing value."""

    labels: tuple[str, ...]
    number: bool  # whether the source has numbers there

    @property
    def size(self) -> int:
        """How many cells the column has."""
        return len(self.labels)

    def encode(self, column: Series) -> CategoryCodes:
        """Return the number of each value's category."""
        cells = {label: k for k, label in enumerate(self.labels)}
        codes = coded(column, lambda value: cells.get(as_text(value), -1))
        # Which values is not said: they are rows of the source, and this text is recorded.
        if (codes < 0).any():
            raise TableError(
                f"aim: {column.name!r} has values that are not among its registered categories "
                f"{list(self.labels)[:20]}; register every category that it can have"
            )
        return codes

    def decode(self, codes: CategoryCodes, rng: np.random.Generator) -> Array | NDArray[np.object_]:
        """Return the category of each cell, as a number where the source has numbers."""
        if self.number:
            return np.array([math.nan if v == "" else float(v) for v in self.labels])[codes]
        return np.array(self.labels, dtype=object)[codes]


ColumnCells = BinCells | CategoryCells


class Aim:
    """AIM or MST on the cells of the source, fitted anew in every draw or once for all.

    Parameters
    ----------
    epsilon, delta, rho
        What one fit costs: ``rho`` of zero-concentrated privacy, or ``epsilon``, which is turned
        into a rho. Both are stated at ``delta``.
    bounds
        The public range of each column of numbers that is binned; or "from the training rows",
        for one column or all, which the privacy does not cover.
    categories
        The public categories of each other column; or "from the training rows", likewise.
    bins
        How many bins a column of numbers has.
    missing
        Columns of numbers in which some may be missing.
    outcome
        The column that "pairs with the outcome" are about.
    workload
        Which pairs AIM may measure: "all pairs", "pairs with the outcome", or "random", so many
        ``pairs`` drawn anew in every draw from its seed, as the published audits had it.
    max_cells
        Pairs with more cells are never in the workload.
    singles
        Which columns are measured alone first: "all", or those "in the workload", as published.
        Others are then never measured, and uniform over their cells.
    singles_share
        The share of rho that these measurements take.
    max_size
        What AIM's model may take of memory, in MB.
    rounds
        At most so many rounds of AIM; 16 for each column unless told.
    measure_split
        The share of what is left that measures; the rest picks what is measured.
    fit, folder
        Whether "each draw" fits, or the one fit that lies in ``folder`` is sampled by all
        ("once"). These are different claims: of the mechanism, and of one of its models.
    sampling
        "round" keeps the model's counts up to rounding; "sample" draws rows independently.
    values
        What stands for a bin: its "middle", or a number that is "uniform" in it.
    rows
        The size of a release. That of the source unless told: the privacy does not cover it, and
        a release then shows whether a row was added or removed.
    """

    root = Path()  # set to the folder that declared paths start from

    def __init__(
        self,
        *,
        delta: str | float,
        epsilon: str | float | None = None,
        rho: str | float | None = None,
        bounds: Mapping[str, Sequence[str | float] | FromTraining] | FromTraining | None = None,
        categories: Mapping[str, Sequence[str] | FromTraining] | FromTraining | None = None,
        bins: int = 10,
        missing: Sequence[str] = (),
        algorithm: Literal["aim", "mst"] = "aim",
        outcome: str | None = None,
        workload: Literal["all pairs", "pairs with the outcome", "random"] = "all pairs",
        pairs: int | None = None,
        max_cells: int = 5_000,
        singles: Literal["all", "in the workload"] = "all",
        singles_share: str | float = "0.5",
        max_size: str | float = "80",
        rounds: int | None = None,
        measure_split: str | float = "0.9",
        fit: Literal["each draw", "once"] = "each draw",
        folder: str | None = None,
        sampling: Literal["round", "sample"] = "round",
        values: PlacedAs = "middle",
        rows: int | None = None,
    ) -> None:
        self._delta = _share(delta, "aim: delta")
        if (epsilon is None) == (rho is None):
            raise RegistryError(
                "aim: give epsilon, or rho of zero-concentrated privacy, and not both; got epsilon "
                f"{epsilon!r}, rho {rho!r}"
            )
        # In digits, which may lie below the double that they stand for: so of the next one.
        if rho is not None:
            self._rho = exact(rho, "aim: rho", above=0)
            upper = epsilon_at(self._rho, self._delta)
            self._epsilon = Fraction(repr(math.nextafter(upper, math.inf)))
        else:
            self._epsilon = exact(epsilon, "aim: epsilon", above=0)
            self._rho = rho_within(self._epsilon, self._delta)
        self._bins = whole(bins, "aim: bins", least=2)
        self._bounds = _by_column(bounds, "bounds", partial(_range, bins=self._bins))
        self._categories = _by_column(categories, "categories", _labels)
        self._missing = tuple(missing)
        one_of("aim", "mst")(algorithm, "aim: algorithm")
        one_of("all pairs", "pairs with the outcome", "random")(workload, "aim: workload")
        one_of("all", "in the workload")(singles, "aim: singles")
        one_of("each draw", "once")(fit, "aim: fit")
        one_of("round", "sample")(sampling, "aim: sampling")
        one_of("middle", "uniform")(values, "aim: values")
        if (workload == "random") != (pairs is not None):
            raise RegistryError(
                'aim: workload = "random" says how many pairs it draws, pairs = 20, and no other '
                f"does; got workload {workload!r}, pairs {pairs!r}"
            )
        if workload == "pairs with the outcome" and outcome is None:
            raise RegistryError('aim: workload = "pairs with the outcome" needs outcome')
        if algorithm == "mst" and (workload, singles, rounds) != ("all pairs", "all", None):
            raise RegistryError(
                "aim: MST chooses a tree among all pairs after measuring every column; workload, "
                f"singles and rounds are options of AIM, got {workload!r}, {singles!r}, {rounds!r}"
            )
        if fit == "once" and workload == "random":
            raise RegistryError(
                'aim: workload = "random" is drawn anew in every draw, and fit = "once" has one '
                "fit for all of them"
            )
        if (fit == "once") != (folder is not None):
            raise RegistryError(
                'aim: fit = "once" names the folder where the fit is kept, whose noise cannot be '
                f'made again, and fit = "each draw" keeps none; got fit {fit!r}, folder {folder!r}'
            )
        self._algorithm, self._outcome, self._workload = algorithm, outcome, workload
        self._pairs = None if pairs is None else whole(pairs, "aim: pairs")
        self._max_cells = whole(max_cells, "aim: max_cells", least=4)
        self._singles = singles
        self._singles_share = _share(singles_share, "aim: singles_share")
        self._max_size = exact(max_size, "aim: max_size", above=0)
        self._rounds = None if rounds is None else whole(rounds, "aim: rounds")
        self._measure_split = _share(measure_split, "aim: measure_split")
        self._fit, self._folder = fit, inner_folder(folder, "aim: folder")
        self._sampling, self._values = sampling, values
        self._rows = None if rows is None else whole(rows, "aim: rows")
        self.prepared_from: dict[str, str] = {}
        self._cells: dict[str, ColumnCells] = {}
        self._codes: dict[str, CategoryCodes] = {}
        self._source_rows = 0
        self._kept: Factors | None = None
        self._stage = ROWS

    def describe(self) -> Mapping[str, object]:
        """Return the settings and the privacy statement."""
        name = {"aim": "AIM", "mst": "MST"}[self._algorithm]
        described: dict[str, object] = {
            "mechanism": f"{name} of OpenDP, "
            + ("fitted anew in every draw" if self._fit == "each draw" else "fitted once"),
            **self._fit_settings(),
            "fit": self._fit,
            "folder": self._folder,
            "sampling": self._sampling,
            "values": self._values,
            "rows": self._rows,
            "repeatable": "no: the noise comes from the system, and from no seed"
            if self._fit == "each draw"
            else "releases from the kept fit and their seeds; the fit is not, whose noise comes "
            "from the system",
            "chosen here": "numbers outside their bounds count in the end bins; a column with one "
            "cell is released as it is and not measured",
            "privacy": self._privacy(),
        }
        if self._algorithm == "aim":
            described["columns in no measured pair"] = (
                "have the counts of their own measurement, independent of all others"
                if self._singles == "all"
                else "are independent of all others; those in no pair of the workload are never "
                "measured, and uniform over their cells"
            )
        return described

    def _fit_settings(self) -> dict[str, object]:
        """Return what a fit depends on besides the source."""
        return {
            "algorithm": self._algorithm,
            "rho": _digits(self._rho),
            "bins": self._bins,
            "bounds": _written(self._bounds),
            "categories": _written(self._categories),
            "missing": list(self._missing),
            "outcome": self._outcome,
            "workload": self._workload,
            "pairs": self._pairs,
            "max_cells": self._max_cells,
            "singles": self._singles,
            "singles_share": str(self._singles_share),
            "max_size": str(self._max_size),
            "rounds": self._rounds or f"{ROUNDS} a column",
            "measure_split": str(self._measure_split),
        }

    def _privacy(self) -> dict[str, object]:
        """Return what is promised, to whom, and what is not."""
        uncovered = [
            f"{what} of columns, which are declared to come {LEARNED}"
            for what, declared in (("bounds", self._bounds), ("categories", self._categories))
            if declared == LEARNED or (isinstance(declared, dict) and LEARNED in declared.values())
        ]
        if self._rows is None:
            # Before all else: it tells neighbours apart with certainty, whatever the noise.
            uncovered.insert(
                0,
                "the number of rows of a release, which is exactly that of the source: one row "
                "added or removed shows in it. Register rows, a public number, and it is covered",
            )
        uncovered += [
            "a person with several rows, and a row replaced by another (which costs more)",
            "that preparing fails where a value lies outside its registered domain, or is missing "
            "where the domain has no cell for that",
            "everything else an audit reads from the same source without noise",
        ]
        return {
            "epsilon": str(self._epsilon),
            "delta": str(self._delta),
            "rho": _digits(self._rho),
            "unit": "one row of the source, added or removed",
            "fits": self._fit,
            "seeded": False,
            "composition": f"rho {_digits(self._rho)} of zero-concentrated privacy, of which "
            f"{self._singles_share} measures single columns and OpenDP's accountant spends the "
            f"rest; it gives this epsilon at this delta by Canonne, Kamath and Steinke (2020). "
            "Other packages convert otherwise: rho is what fits are made with",
            "public": "bounds and categories that are registered, and all other settings",
            "not covered": uncovered,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Count rows into cells; with one fit for all draws, make it or read it."""
        self._cells = self._domains(source)
        self._codes = {name: cells.encode(source[name]) for name, cells in self._cells.items()}
        self._source_rows = len(source)
        known = [name for name, cells in self._cells.items() if cells.size > 1]
        if len(known) < 2:
            raise RegistryError(f"aim: two columns with several cells are needed, found {known}")
        candidates = self._candidates()
        if not candidates:
            raise RegistryError(
                f"aim: no pair of the workload {self._workload!r} has at most {self._max_cells} "
                "cells; raise max_cells or take fewer bins"
            )
        if self._pairs is not None and self._pairs > len(candidates):
            raise RegistryError(
                f"aim: pairs = {self._pairs} are drawn from {len(candidates)} with at most "
                f"{self._max_cells} cells"
            )
        if self._fit == "once":
            # Taking a number tells the drawing process, which watches this stream, that the
            # preparation is random.
            rng.random()
            kept = KeptFit(self.root / str(self._folder), self._fit_settings())
            tables, digest = kept.tables(source, partial(self._fit_apart, candidates))
            self._kept = Factors.from_tables(tables)
            self._stage = f"{ROWS}, from the private fit with digest {digest}"
            self.prepared_from = {f"{self._folder}/{FILE}": digest}

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        import pandas as pd

        assert self._cells  # prepare comes first
        seed.computed(**{package: version(package) for package in PACKAGES})
        factors = self._kept
        if factors is None:
            pairs = self._drawn_pairs(seed)
            seed.take(FIT)
            factors = self._fitted(pairs)
        rows = self._rows or self._source_rows
        drawn = factors.sample(rows, self._sampling, seed.take(self._stage))
        # A stream of its own: that of the seed alone has drawn the workload.
        rng = np.random.default_rng([seed.take(self._stage), 1])
        columns = {}
        for name, cells in self._cells.items():
            # What was never measured has no model but the uniform one.
            codes = drawn[name] if name in drawn else rng.integers(0, cells.size, rows)
            columns[name] = cells.decode(codes, rng)
        return pd.DataFrame(columns)

    def _domains(self, source: pd.DataFrame) -> dict[str, ColumnCells]:
        """Return the cells of every column, in the source's order."""
        names = [str(name) for name in source.columns]
        for what, declared in (("bounds", self._bounds), ("categories", self._categories)):
            absent = sorted(set(declared) - set(names)) if isinstance(declared, dict) else []
            if absent:
                raise RegistryError(f"aim: {what} has {absent}, which the source has not")
        extra = sorted({*self._missing, *filter(None, [self._outcome])} - set(names))
        if extra:
            raise RegistryError(f"aim: missing and outcome name {extra}, which the source has not")
        return {name: self._domain(source[name], name) for name in names}

    def _domain(self, column: Series, name: str) -> ColumnCells:
        number = column.dtype.kind in "fiu"
        ends = self._bounds.get(name) if isinstance(self._bounds, dict) else None
        labels = self._categories.get(name) if isinstance(self._categories, dict) else None
        if ends is not None and labels is not None:
            raise RegistryError(f"aim: {name!r} has both bounds and categories")
        if ends is None and labels is None:
            # Said for all: numbers are binned, and everything else is a category.
            ends = LEARNED if number and self._bounds == LEARNED else None
            labels = LEARNED if ends is None and self._categories == LEARNED else None
        if ends is None and labels is None:
            raise RegistryError(
                f"aim: {name!r} has neither bounds nor categories; a column of numbers that is "
                f'binned needs its public range, bounds.{name} = ["0", "1"], and any other its '
                f'public categories, or "{LEARNED}", which the privacy does not cover'
            )
        if labels is not None:
            found = sorted({as_text(value) for value in column.unique()})
            chosen = tuple(found) if labels == LEARNED else tuple(labels)
            return CategoryCells(
                labels=_as_numbers(chosen, name) if number else chosen, number=number
            )
        if not number:
            raise RegistryError(f"aim: {name!r} has bounds, and the source has text in it")
        assert ends is not None
        if ends == LEARNED:
            numbers = column.to_numpy(dtype=np.float64)
            if not np.isfinite(numbers).any():
                raise TableError(f"aim: {name!r} has no number from which bounds could be taken")
            low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            if not (low < high and _is_binnable(low, high, self._bins)):
                raise TableError(
                    f"aim: {name!r} goes from {low} to {high} in the training rows, which is no "
                    "range; give it categories or bounds"
                )
        else:
            low, high = (float(Fraction(end)) for end in ends)
        return BinCells(
            low=low, high=high, count=self._bins, missing=name in self._missing,
            values=self._values,
        )  # fmt: skip

    def _candidates(self) -> list[ColumnPair]:
        """Return the pairs that the workload is made of, or drawn from."""
        sizes = {name: cells.size for name, cells in self._cells.items() if cells.size > 1}
        pairs = [p for p in combinations(sizes, 2) if sizes[p[0]] * sizes[p[1]] <= self._max_cells]
        if self._workload == "pairs with the outcome":
            return [pair for pair in pairs if self._outcome in pair]
        return pairs

    def _drawn_pairs(self, seed: Seed) -> list[ColumnPair]:
        """Return the workload of one draw."""
        candidates = self._candidates()
        if self._pairs is None:
            return candidates
        chosen = seed.rng(WORKLOAD).choice(len(candidates), self._pairs, replace=False)
        return [candidates[k] for k in sorted(chosen.tolist())]

    def _measured(self, pairs: Sequence[ColumnPair]) -> list[str]:
        """Return the columns that the model is of, in the source's order."""
        covered = {name for pair in pairs for name in pair}
        return [
            name
            for name, cells in self._cells.items()
            if cells.size > 1 and (self._singles == "all" or name in covered)
        ]

    def _fitted(self, pairs: Sequence[ColumnPair]) -> Factors:
        """Return a private fit for this workload."""
        names = self._measured(pairs)
        plan = FitPlan(
            algorithm=self._algorithm,
            rho=self._rho,
            singles_share=self._singles_share,
            measure_split=float(self._measure_split),
            max_size=float(self._max_size),
            rounds=self._rounds or ROUNDS * len(self._cells),
        )
        codes = {name: self._codes[name] for name in names}
        return fit_privately(codes, {name: self._cells[name].size for name in names}, pairs, plan)

    def _fit_apart(self, pairs: Sequence[ColumnPair]) -> dict[str, Array]:
        """Return the factors of one fit, made in a fork: this process has draws to fork yet."""

        def tables() -> bytes:
            factors = self._fitted(pairs).to_tables()
            return json.dumps({name: table.tolist() for name, table in factors.items()}).encode()

        content = in_a_fork(tables).made
        if content is None:
            raise DrawError("aim: the process of the private fit ended before it told its outcome")
        return {name: np.array(table) for name, table in json.loads(content).items()}


def _digits(number: Fraction) -> str:
    """Return a number as decimal digits, or as a fraction where they would not end."""
    try:
        return str(Context(prec=40, traps=[Inexact]).divide(number.numerator, number.denominator))
    except Inexact:
        return str(number)


def _share(value: object, name: str) -> Fraction:
    share = exact(value, name, above=0)
    if share >= 1:
        raise RegistryError(f"{name} is above 0 and below 1, got {value!r}")
    return share


# What is declared of columns by name, or of all of them; each may be `LEARNED`.
ColumnSettings = dict[str, tuple[str, ...] | str] | str


def _by_column(
    declared: object, name: str, read: Callable[[object, str], tuple[str, ...]]
) -> ColumnSettings:
    """Return what is declared of columns, checked."""
    if declared == LEARNED:
        return LEARNED
    if declared is not None and not isinstance(declared, Mapping):
        raise RegistryError(
            f'aim: {name} is a mapping by column, or "{LEARNED}" for all; got {declared!r}'
        )
    return {
        str(column): LEARNED if of_column == LEARNED else read(of_column, str(column))
        for column, of_column in sorted((declared or {}).items())
    }


def _is_binnable(low: float, high: float, bins: int) -> bool:
    """Return whether numbers of a range have bins: what `BinCells` computes stays finite."""
    return math.isfinite(bins * (high - low))


def _range(ends: object, name: str, *, bins: int) -> tuple[str, ...]:
    """Return a range of two numbers, the lower one first."""
    both = pair(ends, f'aim: the bounds of {name!r} are two numbers, or "{LEARNED}"')
    low, high = (exact(end, f"aim: a bound of {name!r}") for end in both)
    if not _is_binnable(float(low), float(high), bins):
        raise RegistryError(
            f"aim: the bounds of {name!r} are {ends!r}, and {bins} times their width is no finite "
            "double, so that numbers cannot be told to be in one bin or another; register a "
            "narrower range"
        )
    if not float(low) < float(high):
        raise RegistryError(f"aim: the bounds of {name!r} rise, got {ends!r}")
    return str(low), str(high)


def _labels(labels: object, name: str) -> tuple[str, ...]:
    """Return categories as text, all different."""
    texts: tuple[str, ...] = ()
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        texts = tuple(as_text(label) for label in labels)
    if not texts or len(set(texts)) < len(texts):
        raise RegistryError(
            f'aim: the categories of {name!r} are a list of different texts, or "{LEARNED}"; got '
            f"{labels!r}"
        )
    return texts


def _as_numbers(labels: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the categories of a column of numbers, written as the column's numbers are."""
    try:
        return tuple("" if label == "" else as_text(float(label)) for label in labels)
    except ValueError as error:
        raise RegistryError(
            f"aim: the source has numbers in {name!r}, and its categories have others: {error}"
        ) from error


def _written(declared: ColumnSettings) -> object:
    """Return what is declared of columns as plain values."""
    if isinstance(declared, str):
        return declared
    return {name: d if isinstance(d, str) else list(d) for name, d in declared.items()}
