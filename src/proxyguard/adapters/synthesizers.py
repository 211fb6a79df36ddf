"""Synthesizers of other packages, refitted in every draw: CTGAN, SDV, SmartNoise.

The packages are a user's own (some are not free software) and are imported when a generator
of theirs is prepared, before any draw. Options go to their constructors as they are. Each
draw seeds Python's, NumPy's and PyTorch's generators from its registered seed, fits anew and
samples, so that everything random is redrawn, but for what a package draws from fixed seeds of its
own: that is among the settings as what draws are conditional on.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from proxyguard.adapters.settings import exact, one_of, pair, whole
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError, TableError

if TYPE_CHECKING:
    import pandas as pd

STAGE = "fit and sampling"
# What SDV calls the one table of a source.
TABLE = "table"

# Synthesizers of SmartNoise that count in bins; their noise is the system's (seen in 1.0.8).
COUNTING = ("aim", "mst", "mwem")
# Those of them with delta 0.
PURE = ("mwem",)


class Synthesizer(Protocol):
    """A model of one of these packages, as far as it is used here."""

    def fit(self, *arguments: object, **options: object) -> object:
        """Learn from a table, and what its package wants to know of it."""

    def sample(self, rows: int, /) -> pd.DataFrame:
        """Return so many rows."""

    def set_random_state(self, number: int, /) -> None:
        """Seed it; ctgan has this name."""

    def _set_random_state(self, number: int, /) -> None:
        """Seed it; SDV has this one."""


class Models(Protocol):
    """What makes models: a class of ctgan or SDV, or SmartNoise's factory."""

    def __call__(self, *arguments: object, **options: object) -> Synthesizer:
        """Return a model that is not fitted."""

    def create(self, name: str, /, **options: object) -> Synthesizer:
        """Return a model of this name."""


@contextmanager
def seeded(seed: int) -> Iterator[int]:
    """Seed the global generators, PyTorch's where it is loaded, and put them back after.

    Parameters
    ----------
    seed
        The registered seed, of which the low 32 bits are used: NumPy's global generator takes no
        more.

    Yields
    ------
    int
        The number that they were seeded with.
    """
    number = seed % 2**32
    # Not imported for this: a package that does not use it need not have it installed.
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    tensors = None if torch is None else torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - these packages draw from it
    if torch is not None:
        torch.manual_seed(number)
    try:
        yield number
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(tensors)


class _Refitted:
    """What the adapters share: a package, a model of it, its options and the source."""

    where = ""  # our name for it
    package = ""  # what is imported
    distribution = ""  # what is installed

    def __init__(self, model: str, rows: int | None, options: Mapping[str, object] | None) -> None:
        if rows is not None:
            whole(rows, f"{self.where}: rows")
        if not isinstance(options or {}, Mapping):
            raise RegistryError(f"{self.where}: options is a mapping by name, got {options!r}")
        try:
            self._version = version(self.distribution)
        except PackageNotFoundError:
            raise RegistryError(
                f"{self.where}: the package {self.distribution} is not here; it is no part of "
                f"proxyguard. Mind its licence, then: pip install {self.distribution}"
            ) from None
        self._model, self._rows, self._options = model, rows, dict(options or {})
        self._source: pd.DataFrame | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the settings and the version of the package."""
        return {
            "mechanism": f"{self._model} of {self.distribution}, fitted anew in every draw",
            "package": self.distribution,
            "version": self._version,
            "model": self._model,
            "options": self._options,
            "rows": self._rows,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Import the package, before any fork, and keep the source."""
        self._load()
        self._check(source)
        self._source = source.reset_index(drop=True)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release from a model fitted for it."""
        assert self._source is not None  # prepare comes first
        with seeded(seed.take(STAGE)) as number:
            # A copy: the release is given the columns and kinds of the source below, which the
            # package must not have changed.
            sampled = self._sample(self._source.copy(), self._rows or len(self._source), number)
        return like_source(sampled, self._source, self.where)

    def _load(self) -> Models:
        """Return what makes models."""
        try:
            return cast("Models", getattr(import_module(self.package), self._model))
        except ImportError as error:
            raise RegistryError(f"{self.where}: {self.package} does not load: {error}") from error
        except AttributeError:
            raise RegistryError(
                f"{self.where}: {self.distribution} {self._version} has no {self._model}"
            ) from None

    def _check(self, source: pd.DataFrame) -> None:
        """Refuse a source that the model cannot take; by default it takes all."""

    def _sample(self, source: pd.DataFrame, rows: int, number: int) -> pd.DataFrame:
        """Return rows of a model fitted to the source."""
        raise NotImplementedError

    def _refuse_missing(self, source: pd.DataFrame) -> None:
        """Refuse missing numbers where the package takes none."""
        gaps = [name for name in numbers_of(source) if source[name].isna().any()]
        if gaps:
            raise TableError(f"{self.where}: {gaps} have missing numbers; fill them in the table")


def numbers_of(source: pd.DataFrame) -> list[str]:
    """Return the columns that hold numbers; the others hold text."""
    return [str(name) for name in source.columns if source[name].dtype.kind == "f"]


def like_source(sampled: pd.DataFrame, source: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a sample with the source's columns in their order, numbers as numbers.

    Parameters
    ----------
    sampled
        What a package gave.
    source
        The table that it was fitted to.
    where
        Our name for the package, as the error begins with it.

    Raises
    ------
    DrawError
        If there is no row, or a column is missing.
    """
    absent = [name for name in source.columns if name not in sampled.columns]
    if absent or not len(sampled):
        raise DrawError(
            f"{where} gave {len(sampled)} rows with the columns {list(sampled.columns)}; the "
            f"source has {absent} as well"
        )
    numbers = numbers_of(source)
    kinds = {name: np.float64 if name in numbers else object for name in source.columns}
    release = sampled[list(source.columns)].astype(kinds)
    return release.reset_index(drop=True)


class CtganModel(_Refitted):
    """CTGAN or TVAE of the package ctgan.

    ``discrete`` names columns of numbers that are categories; text always is. ``options`` go
    to the constructor, ``epochs`` for one. On a GPU a seed may not repeat a release.
    """

    where, package, distribution = "ctgan_package", "ctgan", "ctgan"

    def __init__(
        self,
        *,
        model: str = "CTGAN",
        rows: int | None = None,
        discrete: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        one_of("CTGAN", "TVAE")(model, "ctgan_package: model")
        super().__init__(model, rows, options)
        self._discrete = tuple(discrete)

    def describe(self) -> Mapping[str, object]:
        """Return the settings and the version of the package."""
        return {
            **super().describe(),
            "discrete": list(self._discrete),
            "conditional on": "the fixed seeds of its encoders: mixtures of numbers, and which "
            "component of them a number belongs to, are the same in all draws of one table",
        }

    def _check(self, source: pd.DataFrame) -> None:
        absent = [name for name in self._discrete if name not in source.columns]
        if absent:
            raise RegistryError(f"ctgan_package: discrete names {absent}, which the source has not")
        self._refuse_missing(source)

    def _sample(self, source: pd.DataFrame, rows: int, number: int) -> pd.DataFrame:
        numbers = [name for name in numbers_of(source) if name not in self._discrete]
        model = self._load()(**self._options)
        model.set_random_state(number)
        model.fit(source, [name for name in source.columns if name not in numbers])
        return model.sample(rows)


class SdvModel(_Refitted):
    """A single-table synthesizer of SDV, by the name of its class.

    Numbers are declared as numerical and text as categorical; ``columns`` says otherwise for
    single columns, in the words of SDV's metadata.

    Notes
    -----
    SDV samples from a seed of its own unless told otherwise, so that refits which learn
    nothing random give the same release each time. Its own method, which has no public
    name, sets the seed. Encoders of categories keep their fixed seeds and are conditioned
    upon.
    """

    where, package, distribution = "sdv_package", "sdv.single_table", "sdv"

    def __init__(
        self,
        *,
        model: str = "GaussianCopulaSynthesizer",
        rows: int | None = None,
        columns: Mapping[str, Mapping[str, object]] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(model, rows, options)
        self._columns = {name: dict(words) for name, words in (columns or {}).items()}

    def describe(self) -> Mapping[str, object]:
        """Return the settings and the version of the package."""
        return {
            **super().describe(),
            "columns": self._columns,
            "conditional on": "the fixed seeds of SDV's encoders",
        }

    def _check(self, source: pd.DataFrame) -> None:
        absent = [name for name in self._columns if name not in source.columns]
        if absent:
            raise RegistryError(
                f"sdv_package: columns describes {absent}, which the source has not"
            )

    def _metadata(self, source: pd.DataFrame) -> object:
        numbers = numbers_of(source)
        columns = {
            str(name): self._columns.get(
                str(name), {"sdtype": "numerical" if name in numbers else "categorical"}
            )
            for name in source.columns
        }
        kind = import_module("sdv.metadata").Metadata
        return kind.load_from_dict({"tables": {TABLE: {"columns": columns}}})

    def _sample(self, source: pd.DataFrame, rows: int, number: int) -> pd.DataFrame:
        model = self._load()(self._metadata(source), **self._options)
        by_name = int(self._version.split(".")[0]) >= 2  # since then tables come by their name
        model.fit({TABLE: source} if by_name else source)
        if not hasattr(model, "_set_random_state"):
            raise DrawError(
                f"sdv {self._version} has no way to seed sampling that is known here, so its draws "
                "would not be independent; use a version of 1.x or 2.0"
            )
        model._set_random_state(number)
        sampled = model.sample(rows)
        return cast("pd.DataFrame", sampled[TABLE]) if by_name else sampled


class SmartNoiseModel(_Refitted):
    """A private synthesizer of SmartNoise that counts: aim, mst or mwem.

    ``epsilon`` and ``delta`` are those of one fit, and every draw is a fit. ``bounds`` gives
    each column of numbers its public range, so that nothing is spent on learning it; there
    it is counted in ``bins`` bins of one width.

    Notes
    -----
    Their noise comes from the system. So draws are independent, and a seed does not repeat
    one: what was drawn can be checked against its frozen bytes, and not drawn again.
    """

    where, package, distribution = "smartnoise_package", "snsynth", "smartnoise-synth"

    def __init__(
        self,
        *,
        model: str,
        epsilon: str | float,
        delta: str | float | None = None,
        bounds: Mapping[str, Sequence[str | float]] | None = None,
        bins: int = 10,
        rows: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        one_of(*COUNTING)(model, "smartnoise_package: model")
        # The certificate states what is declared here: a delta of a model that has none, or none of
        # one that has, would be a false statement.
        if (delta is None) != (model in PURE):
            raise RegistryError(
                f"smartnoise_package: {model!r} {'has no' if model in PURE else 'needs a'} delta, "
                f"got {delta!r}"
            )
        self._epsilon = exact(epsilon, "smartnoise_package: epsilon")
        self._delta = Fraction(0) if delta is None else exact(delta, "smartnoise_package: delta")
        if (
            self._epsilon <= 0
            or not 0 <= self._delta < 1
            or (delta is not None and not self._delta)
        ):
            raise RegistryError(
                "smartnoise_package: epsilon is above 0, and delta above 0 and below 1; got "
                f"epsilon {epsilon!r}, delta {delta!r}"
            )
        self._bounds = {name: _range(name, ends) for name, ends in (bounds or {}).items()}
        self._bins = whole(bins, "smartnoise_package: bins", least=2)
        super().__init__(model, rows, options)

    def describe(self) -> Mapping[str, object]:
        """Return the settings, the version of the package and the privacy statement."""
        return {
            **super().describe(),
            "epsilon": str(self._epsilon),
            "delta": str(self._delta),
            "bounds": {name: [str(end) for end in ends] for name, ends in self._bounds.items()},
            "bins": self._bins,
            "repeatable": "no: the noise comes from the system, and from no seed",
            "privacy": {
                "epsilon": str(self._epsilon),
                "delta": str(self._delta),
                "unit": "one row of the source, as the package defines it",
                "fits": "each draw",
                "seeded": False,
                "not covered": [
                    "the categories of text columns, which the package takes from the source",
                    *(
                        ["the number of rows of a release, which is that of the source"]
                        if self._rows is None
                        else []
                    ),
                    "everything else an audit reads from the same source without noise",
                ],
            },
        }

    def _load(self) -> Models:
        try:
            return cast("Models", import_module(self.package).Synthesizer)
        except ImportError as error:
            raise RegistryError(
                f"smartnoise_package: {self.package} does not load: {error}"
            ) from error

    def _check(self, source: pd.DataFrame) -> None:
        numbers = numbers_of(source)
        # A range that is read off the source is a statistic of it, given out without noise.
        if set(numbers) != set(self._bounds):
            raise RegistryError(
                f"smartnoise_package: bounds gives every column of numbers its public range; the "
                f"source has {numbers}, bounds {sorted(self._bounds)}"
            )
        self._refuse_missing(source)

    def _encoders(self) -> dict[str, object]:
        """Return how each column of numbers is encoded, with its public range."""
        kinds = import_module("snsynth.transform")
        ranges = {n: {"lower": float(a), "upper": float(b)} for n, (a, b) in self._bounds.items()}
        return {name: kinds.BinTransformer(bins=self._bins, **r) for name, r in ranges.items()}

    def _sample(self, source: pd.DataFrame, rows: int, number: int) -> pd.DataFrame:
        # The seed's number is not used: noise that a recorded seed repeats could be taken off
        # again.
        private = {} if self._model in PURE else {"delta": float(self._delta)}
        model = self._load().create(
            self._model, epsilon=float(self._epsilon), **private, **self._options
        )
        text = [str(name) for name in source.columns if name not in self._bounds]
        model.fit(source, transformer=self._encoders(), categorical_columns=text)
        return model.sample(rows)


def _range(name: str, ends: object) -> tuple[Fraction, Fraction]:
    """Return a range of two numbers, the lower one first."""
    both = pair(ends, f"smartnoise_package: the bounds of {name!r} are two numbers")
    low, high = (exact(end, f"smartnoise_package: a bound of {name!r}") for end in both)
    if low >= high:
        raise RegistryError(f"smartnoise_package: the bounds of {name!r} rise, got {ends!r}")
    return low, high
