"""What our generators that learn a table have in common: options, and for most a fit and samples.

A generator without a neural network is fitted anew where a draw has training rows or labels of its
own. Otherwise the one fit to the source is made when the generator is prepared, and a draw is a
sample of it: the certificate is then about releases of this fit, and says nothing about another
source or another fit.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from proxyguard.adapters.settings import Mechanism
from proxyguard.adapters.tabular import (
    CategoryCodes,
    SharedOptions,
    Tabular,
    sampling_stream,
    shared_options,
)
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.printable import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

OptionsOfKind = TypeVar("OptionsOfKind", bound=Mechanism)
FittedModel = TypeVar("FittedModel")

SAMPLING = "rows of the release"
ONCE = "the sampled rows alone, conditional on the one fit to the source"
ANEW = "the training rows or labels of the draw, the fit to them, and the sampled rows"


class CodedGenerator(ABC, Generic[OptionsOfKind]):
    """A generator that learns a table as numbers and codes, with the options of its kind.

    Parameters
    ----------
    options
        Those of its settings and of `shared_options`.
    """

    _kind: type[OptionsOfKind]

    def __init__(self, **options: object) -> None:
        name, named = self._kind.name, {each.name for each in fields(self._kind)}
        shared = {option: given for option, given in options.items() if option not in named}
        _refuse_unknown(name, shared, named)
        self._shared: SharedOptions = shared_options(name, **shared)  # type: ignore[arg-type] # checked there
        self._settings = self._kind.read(options, name)
        self._table: Tabular | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings, and what is fixed."""
        chosen = self._settings
        return {
            "mechanism": chosen.mechanism,
            **chosen.describe(),
            **chosen.fixed,
            **self._shared.describe(),
        }

    def check_source(self, source: pd.DataFrame) -> None:
        """Refuse a source that draws could not start from; nothing is fitted."""
        self._shared.read(source)

    @property
    def _prepared(self) -> Tabular:
        assert self._table is not None  # prepare comes first
        return self._table


def _refuse_unknown(where: str, options: Mapping[str, object], named: Iterable[str]) -> None:
    """Refuse an option that is neither named nor a shared one, and say which is nearest."""
    shared = list(inspect.signature(shared_options).parameters)[1:]
    known = sorted([*named, *shared])
    for option in options:
        if option not in known:
            meant = did_you_mean(option, known) or "."
            raise RegistryError(f"{where}: there is no option {option!r}{meant} There are {known}")


class FittedGenerator(CodedGenerator[OptionsOfKind], Generic[OptionsOfKind, FittedModel]):
    """A generator that fits a model to numbers and codes, and samples rows of it."""

    _once: FittedModel | None = None

    def describe(self) -> dict[str, object]:
        """Return the settings, and what a draw redraws."""
        return {
            **super().describe(),
            "redrawn": ANEW if self._shared.redraws_training else ONCE,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source, and fit once where no draw has training rows of its own."""
        self._table = self._shared.read(source)
        self._read(self._table)
        self._once = None if self._shared.redraws_training else self._fit(self._table)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        table = self._prepared
        trained = self._shared.training(table, seed)
        wanted = self._shared.wanted(table, trained)
        model = self._fit(trained) if self._once is None else self._once
        rng = sampling_stream(seed, SAMPLING)
        numbers, codes = self._sample(model, rng, self._shared.release_rows(table), wanted)
        return table.table(numbers, codes)

    def draw_many(self, seeds: Sequence[Seed]) -> list[pd.DataFrame | DrawError]:
        """Return one release a seed, each as `draw` gives it; a draw that fails fails alone.

        Each is computed by itself, in numpy over all of its rows: stacked draws would leave the
        cache and be slower. What this saves is a process for each of them.
        """
        releases: list[pd.DataFrame | DrawError] = []
        for seed in seeds:
            try:
                releases.append(self.draw(seed))
            except DrawError as error:
                releases.append(error)
        return releases

    @abstractmethod
    def _read(self, table: Tabular) -> None:
        """Take from the whole source what all fits share."""

    @abstractmethod
    def _fit(self, trained: Tabular) -> FittedModel:
        """Return the model of these rows."""

    @abstractmethod
    def _sample(
        self,
        model: FittedModel,
        rng: np.random.Generator,
        rows: int,
        wanted: tuple[int, CategoryCodes] | None,
    ) -> tuple[Array, CategoryCodes]:
        """Return so many rows, as numbers and codes; ``wanted`` are the codes of one column."""
