"""A private sampler of categories, one class at a time: noisy histograms, sampled many times.

Fitting counts the classes, and for every feature the categories by class, and adds Laplace
noise to each count. All that follows (clipping, pseudocount, sampling) uses the noisy counts
alone, so that any number of releases costs the epsilon of the one fit.

Where the noise comes from
 * ``noise = "opendp"``: OpenDP's discrete Laplace measurement, for releases that are meant
   to be private. Its noise cannot be made again from a seed. So the noisy tables are kept
   (`KeptFit`), in ``folder`` of the data folders: whoever prepares first fits, everybody else
   (another drawing process, a resumed audit, a later check) reads. They are never fitted
   twice; a second fit is another folder, and costs epsilon again, and so is a fit of other
   rows: the folder knows which rows were fitted and serves no others. Every draw records the
   digest of the tables it was drawn from, so an audit shows that there was one fit, and which.
 * ``noise = "seeded"``: from the random stream of ``prepare``, to repeat a study. An audit
   records that seed, and whoever knows it can take the noise off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.kept import FILE, KeptFit, inner_folder
from proxyguard.adapters.settings import exact, one_of, whole
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.tables.columns import Series, as_text, coded

if TYPE_CHECKING:
    import pandas as pd

    # What the numbers of a column's categories stand for, or what fills a blank one.
    ReleaseValues = float | str | Array | pd.CategoricalDtype


Counts = Sequence[NDArray[np.int64]]


class Measurement(Protocol):
    """What adds noise to counts, as OpenDP has it."""

    def __call__(self, counts: list[int], /) -> list[int]:
        """Return the counts with noise."""

    def map(self, distance: float, /) -> float:
        """Return the epsilon that neighbours at this distance cost."""


def private_counts(counts: Counts, epsilon: Fraction) -> list[NDArray[np.int64]]:
    """Return counts with OpenDP's discrete Laplace noise, all tables for ``epsilon`` together.

    Parameters
    ----------
    counts
        Tables of one source, in each of which a row stands in one cell.
    epsilon
        What all of them may cost.

    Returns
    -------
    list
        Noisy tables of the same shapes; their counts may be below 0.

    Raises
    ------
    RegistryError
        If OpenDP is not installed.

    Guarantee
    ---------
    One row more or less changes one cell of each table by 1, so the tables laid end to end
    by ``len(counts)`` in L1. OpenDP's own map from that distance to epsilon, which rounds
    up, is at most ``epsilon``.
    """
    # One call for all tables: the measurement's own map then speaks of them together, and nothing
    # is composed by hand.
    measurement = laplace_measurement(len(counts), epsilon)
    flat = np.concatenate([table.ravel() for table in counts])
    noisy = np.array(measurement([int(v) for v in flat]), dtype=np.int64)
    ends = np.cumsum([table.size for table in counts])[:-1]
    parts = np.split(noisy, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, counts, strict=True)]


def laplace_measurement(tables: int, epsilon: Fraction) -> Measurement:
    """Return OpenDP's Laplace measurement on counts for an L1 distance of ``tables``.

    On whole numbers its noise is ``k`` with a chance in proportion to ``exp(-|k| / scale)``,
    and it costs the distance divided by the scale.
    """
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise RegistryError(
            f'noise = "opendp" needs OpenDP: pip install "proxyguard[dp]" ({error})'
        ) from error
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    # The nearest double may lie below the exact scale, and would cost more than epsilon: what
    # counts is OpenDP's map, not this division.
    scale = float(tables / epsilon)
    while True:
        measurement: Measurement = dp.m.make_laplace(*space, scale=scale)
        if Fraction(measurement.map(tables)) <= epsilon:
            return measurement
        scale = math.nextafter(scale, math.inf)  # rounding may only add noise


Codes = NDArray[np.int8 | np.int16]
# With more categories than this, searching is faster than comparing with every one.
MANY = 64


class CategoricalSampler:
    """Classes by their noisy shares, then each feature by its noisy shares within the class.

    ``domains`` maps every column, the outcome included, to its registered categories: the
    public schema. It is never learned from the source, and a value outside it counts as
    ``unknown``, or is an error where the domain has no such category. The privacy is given
    as ``epsilon`` or as the ``scale`` of the noise in each table. ``rows`` is the size of a
    release, a public number. Columns in ``blank`` are left empty. The domain of a column in
    ``floor`` is numbers in rising order, and every number of the source counts as the largest
    of them that is not above it, or as the first; so that no number can fall outside.
    """

    root = Path()  # set to the folder that declared paths start from

    def __init__(
        self,
        *,
        outcome: str,
        domains: Mapping[str, Sequence[str]],
        rows: int,
        epsilon: str | float | None = None,
        scale: str | float | None = None,
        pseudocount: str | float = "1",
        noise: Literal["opendp", "seeded"] = "opendp",
        folder: str | None = None,
        unknown: str = "?",
        blank: Sequence[str] = (),
        floor: Sequence[str] = (),
    ) -> None:
        self._domains = _checked_domains(domains, outcome)
        self._floor = {name: _steps(self._domains, name) for name in sorted(floor)}
        self._outcome, self._unknown, self._blank = outcome, unknown, tuple(blank)
        self._rows = whole(rows, "categorical: rows")
        if (epsilon is None) == (scale is None):
            raise RegistryError(
                "categorical: give epsilon, or the scale of the noise, and not both"
            )
        # An exact fraction: the certificate states it, and a rounded quotient could state less than
        # was spent.
        self._epsilon = (
            exact(epsilon, "categorical: epsilon", above=0) if scale is None
            else len(self._domains) / exact(scale, "categorical: scale", above=0)
        )  # fmt: skip
        self._pseudocount = exact(pseudocount, "categorical: pseudocount", above=0)
        one_of("opendp", "seeded")(noise, "categorical: noise")
        if (noise == "opendp") != (folder is not None):
            raise RegistryError(
                'categorical: noise = "opendp" cannot be made again, so name the folder where its '
                'tables are kept; noise = "seeded" keeps none. '
                f"Got noise {noise!r}, folder {folder!r}"
            )
        if set(self._blank) & set(self._domains):
            raise RegistryError(
                f"categorical: {sorted(set(self._blank) & set(self._domains))} are both blank and "
                "in domains"
            )
        self._noise, self._folder = noise, inner_folder(folder, "categorical: folder")
        widest = max(len(values) for values in self._domains.values())
        self._kind: type[np.int8 | np.int16] = (
            np.int8 if widest <= np.iinfo(np.int8).max else np.int16
        )
        self._columns: tuple[str, ...] = ()
        self._stage = "records of the release"
        self.prepared_from: dict[str, str] = {}
        self._shares: list[Array] = []
        self._labels: dict[str, ReleaseValues] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `codes`: the outcome, then the features in the source's order."""
        return self._columns

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in each table: the number of tables divided by epsilon."""
        return len(self._domains) / self._epsilon

    def describe(self) -> Mapping[str, object]:
        """Return the settings and the privacy statement."""
        return {
            "mechanism": "categories sampled by class from histograms with Laplace noise",
            **self._fit_settings(),
            "rows": self._rows,
            "pseudocount": str(self._pseudocount),
            "blank": list(self._blank),
            "folder": self._folder,
            "chosen here": "noisy counts are clipped at 0, the pseudocount is added to every cell, "
            "and each table is divided by its sum within a class",
            "privacy": self._privacy(),
        }

    def _fit_settings(self) -> dict[str, object]:
        """Return what the noisy tables depend on besides the source."""
        return {
            "outcome": self._outcome,
            "domains": {name: list(values) for name, values in self._domains.items()},
            **({"floor": list(self._floor)} if self._floor else {}),  # fits without it are kept
            "unknown": self._unknown,
            "noise": self._noise,
            "scale": str(self.scale),
        }

    def _privacy(self) -> dict[str, object]:
        """Return what is promised, to whom, and what is not."""
        tables = len(self._domains)
        uncovered = [
            "a person with several rows, and a row replaced by another (which costs twice epsilon)",
            "that fitting fails where a value lies outside a domain without the unknown category"
            + (", or is missing in a column in floor" if self._floor else ""),
            "everything else an audit reads from the same source without noise: the source "
            "procedure, its limits, the validation part",
        ]
        if self._noise == "seeded":
            uncovered.append(
                "what the low digits of a double give away: this Laplace noise is made in floating "
                "point, where some sums of count and noise cannot come from every count"
            )
        return {
            "epsilon": str(self._epsilon),
            "delta": "0",
            "unit": "one row of the source, added or removed",
            "fits": "once",
            "parts": tables,
            "seeded": self._noise == "seeded",
            "composition": f"{tables} histograms, one of the classes and one of each feature by "
            f"class; a row stands in one cell of each, so each has L1 sensitivity 1 and costs "
            f"1/scale = {self._epsilon / tables}; together {self._epsilon}",
            "public": "the domains, the number of rows of a release and all other settings; they "
            "are registered and never learned from the source",
            "not covered": uncovered,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Fit once, or read the tables of the one fit there is."""
        self._columns = self._ordered(source)
        counts = self._counts(source)
        if self._noise == "seeded":
            scale = float(self.scale)
            noisy = [table + rng.laplace(scale=scale, size=table.shape) for table in counts]
        else:
            # OpenDP draws from the system. Taking one number tells the drawing process, which
            # watches this stream, that the preparation is random.
            rng.random()
            kept = KeptFit(self.root / str(self._folder), self._fit_settings())
            tables, digest = kept.tables(source, partial(self._private_tables, counts))
            noisy = [tables.get(name, np.empty(0)) for name in self._columns]
            if [table.shape for table in noisy] != [table.shape for table in counts]:
                raise TableError(
                    f"{self._folder}/{FILE} holds tables that do not fit the registered domains"
                )
            self._stage = f"records of the release, from the private fit with digest {digest}"
            self.prepared_from = {f"{self._folder}/{FILE}": digest}
        self._shares = [_shares(table, float(self._pseudocount)) for table in noisy]
        self._labels = {str(name): self._release_values(source, str(name)) for name in source}

    def _private_tables(self, counts: Counts) -> dict[str, Array]:
        """Return the noisy tables by column, made for the one fit there is."""
        noisy = private_counts(counts, self._epsilon)
        return {
            name: table.astype(np.float64) for name, table in zip(self._columns, noisy, strict=True)
        }

    def _ordered(self, source: pd.DataFrame) -> tuple[str, ...]:
        """Return the outcome and then the features; the source must have the domains' columns.

        Their order is the source's and not that of ``domains``: a sealed mapping has no order.
        """
        names = [str(name) for name in source.columns]
        wanted = {*self._domains, *self._blank}
        if set(names) != wanted:
            raise RegistryError(
                f"categorical: the source lacks the columns {sorted(wanted - set(names))} of "
                f"domains and blank, and they lack its columns {sorted(set(names) - wanted)}"
            )
        features = [name for name in names if name in self._domains and name != self._outcome]
        return (self._outcome, *features)

    def _counts(self, source: pd.DataFrame) -> list[NDArray[np.int64]]:
        """Return the table of the classes, and of each feature by class: (C,), (C, k), ..."""
        classes = self._encoded(source, self._outcome)
        n_classes = len(self._domains[self._outcome])
        tables = [np.bincount(classes, minlength=n_classes)]
        for name in self._columns[1:]:
            k = len(self._domains[name])
            cells = classes * k + self._encoded(source, name)
            tables.append(np.bincount(cells, minlength=n_classes * k).reshape(n_classes, k))
        return tables

    def _encoded(self, source: pd.DataFrame, name: str) -> NDArray[np.int64]:
        """Return the number of each value's category."""
        if name in self._floor:
            return _floored(source[name], self._floor[name])
        domain = {value: k for k, value in enumerate(self._domains[name])}
        # The domain is never extended by what the source has: a category that is there because one
        # row has it gives that row away.
        other = domain.get(self._unknown, -1)
        numbers = coded(source[name], lambda value: domain.get(as_text(value), other))
        # Which values is not said: they are rows of the source, and this text is recorded.
        if (numbers < 0).any():
            raise TableError(
                f"categorical: column {name!r} has values that are not in its domain "
                f"{list(domain)}; register every value that it can have, or the unknown category "
                f"{self._unknown!r}"
            )
        return numbers

    def _release_values(self, source: pd.DataFrame, name: str) -> ReleaseValues:
        """Return what the numbers of `codes` stand for in a column: text, or numbers."""
        import pandas as pd

        number = source[name].dtype.kind == "f"
        if name in self._blank:
            return np.nan if number else ""
        domain = self._domains[name]
        if not number:
            return pd.CategoricalDtype(pd.Index(domain, dtype=object))
        try:
            return np.array([np.nan if v == self._unknown else float(v) for v in domain])
        except ValueError as error:
            raise RegistryError(
                f"categorical: the source has numbers in {name!r}, and its domain has none: {error}"
            ) from error

    def codes(self, seed: Seed) -> Codes:
        """Return one release as numbers of categories: (1 + features, rows), as in `columns`."""
        assert self._shares  # prepare comes first
        rng = seed.rng(self._stage)
        n, ends = self._rows, [np.cumsum(shares, axis=-1) for shares in self._shares]
        result: Codes = np.empty((len(ends), n), dtype=self._kind)
        result[0] = _places(rng.random(n), ends[0])
        # Rows of class 0 first, then of class 1: each feature takes its uniforms in that order.
        order = np.argsort(result[0], kind="stable")
        stops = np.cumsum(np.bincount(result[0], minlength=ends[0].size))
        for k in range(1, len(ends)):
            uniform = rng.random(n)
            start = 0
            for own, stop in zip(ends[k], stops.tolist(), strict=True):
                result[k, order[start:stop]] = _places(uniform[start:stop], own)
                start = stop
        return result

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release; its text columns are pandas categoricals over their domains."""
        import pandas as pd

        codes = dict(zip(self._columns, self.codes(seed), strict=True))
        columns: dict[str, object] = {}
        for name, values in self._labels.items():
            if name in self._blank:
                kind = np.float64 if isinstance(values, float) else object
                columns[name] = pd.Series(np.full(self._rows, values, dtype=kind), dtype=kind)
            elif isinstance(values, pd.CategoricalDtype):
                # Not validated: the codes are those of `_places`, which gives no other.
                columns[name] = pd.Categorical.from_codes(codes[name], dtype=values, validate=False)
            else:
                columns[name] = np.asarray(values)[codes[name]]
        return pd.DataFrame(columns)


def _checked_domains(
    domains: Mapping[str, Sequence[str]], outcome: str
) -> dict[str, tuple[str, ...]]:
    """Return the domains by name, or say which one is none."""
    if not isinstance(domains, Mapping) or outcome not in domains or len(domains) < 2:
        raise RegistryError(
            "categorical: domains maps the outcome and at least one feature to their categories; "
            f"the outcome is {outcome!r}, got {domains!r}"
        )
    for name, values in domains.items():
        good = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 1
        if (
            not good
            or not all(isinstance(v, str) for v in values)
            or len(set(values)) < len(values)
        ):
            raise RegistryError(
                f"categorical: the domain of {name!r} is a list of two or more different texts, "
                f"got {values!r}"
            )
        if len(values) > np.iinfo(np.int16).max:
            raise RegistryError(
                f"categorical: the domain of {name!r} has {len(values)} categories; at most "
                f"{np.iinfo(np.int16).max} can be sampled"
            )
    # In one order, so that settings do not depend on how a mapping was written down.
    return {str(name): tuple(domains[name]) for name in sorted(domains)}


def _steps(domains: Mapping[str, Sequence[str]], name: str) -> Array:
    """Return the numbers that a column's values are rounded down to."""
    try:
        steps = np.array([float(value) for value in domains[name]])
    except (KeyError, ValueError) as error:
        raise RegistryError(f"categorical: {name!r} in floor has no domain of numbers") from error
    if not np.all(np.diff(steps) > 0.0):
        raise RegistryError(
            f"categorical: {name!r} is in floor, so its domain is numbers in rising order, got "
            f"{list(domains[name])}"
        )
    return steps


def _floored(column: Series, steps: Array) -> NDArray[np.int64]:
    """Return the number of the largest step at or below each value, the first for smaller ones."""
    values = np.asarray(column, dtype=np.float64)
    if np.isnan(values).any():
        raise TableError(f"categorical: column {column.name!r} in floor has missing values")
    return np.maximum(np.searchsorted(steps, values, side="right") - 1, 0).astype(np.int64)


def _shares(noisy: Array, pseudocount: float) -> Array:
    """Return shares within a class: clipped at 0, the pseudocount added, divided by the sum."""
    # The pseudocount is above 0: noise may leave no count of a class above 0, and 0 / 0 is no
    # share.
    counts = np.maximum(noisy, 0.0) + pseudocount
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _places(uniform: Array, ends: Array) -> NDArray[np.intp]:
    """Return how many of the cumulated shares lie at or below each uniform number.

    The last one is 1 up to rounding and left out, so that every place is a category.
    """
    inner = ends[:-1]
    if ends.size > MANY:
        return inner.searchsorted(uniform, side="right")
    return np.asarray((uniform >= inner[:, np.newaxis]).sum(axis=0, dtype=np.int8))
