"""The paper's light neural generator: a denoising autoencoder with random features.

Each draw corrupts the source, encodes it with a random tanh layer, fits a linear decoder by
ridge regression, and decodes corrupted source rows beside fresh labels. Corruption, layer,
decoder, labels and rows are all drawn anew from the draw's seed. `Labels`, the two classes of a
binary outcome as the source writes them, serves the text generator too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.settings import decimal, one_of, positive_decimal, whole
from proxyguard.draw.protocol import Seed, outcomes
from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.registry.target import Outcome

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Labels:
    """Which class every source row has, and how the source writes class 0 and class 1."""

    classes: NDArray[np.intp]
    written: NDArray[np.object_]

    def write(self, classes: NDArray[np.intp]) -> NDArray[np.object_]:
        """Return classes as the source writes them."""
        return np.asarray(self.written[classes])


def read_labels(source: pd.DataFrame, column: str, positive: str | int) -> Labels:
    """Return the labels of a source that has both classes.

    Parameters
    ----------
    source
        The source table.
    column
        The outcome's column.
    positive
        The label that is class 1, as declared.

    Raises
    ------
    RegistryError
        If the source has no such column, or one class only.
    TableError
        If an outcome is missing, or the labels are not the positive one and one other.
    """
    if column not in source.columns:
        raise RegistryError(f"the source has no outcome {column!r}; it has {list(source.columns)}")
    numbers = outcomes(source[column], Outcome(column=column, positive=positive), "the source")
    classes = numbers.astype(np.intp)
    if np.unique(classes).size < 2:
        found = sorted(set(source[column].map(str)))
        raise RegistryError(
            f"the source needs both classes of {column!r}, {positive!r} and another; found {found}"
        )
    values = source[column].to_numpy()
    written = values[[int(np.argmax(classes == 0)), int(np.argmax(classes == 1))]]
    return Labels(classes, written)


Rounding = Literal["integer columns", "published", "none"]

STAGE = "corruption, hidden layer, decoder, labels and rows"
# Draws are computed together up to about this many values: more would leave the cache.
STACKED = 1 << 18


class DenoisingAutoencoder:
    """Rows decoded from noisy source rows by an autoencoder that every draw fits anew.

    ``label_fidelity`` is the chance that a row is decoded from a source row of its own class
    and not of the other one. ``rounding`` says which decoded columns become whole numbers:
    those that hold only whole numbers in the source ("integer columns"), all of them, as the
    published generator does, which destroys rates ("published"), or none ("none").
    """

    def __init__(
        self,
        *,
        outcome: str,
        positive: str | int,
        rows: int,
        hidden: int,
        train_noise: str | float,
        sample_noise: str | float,
        label_fidelity: str | float,
        ridge: str | float,
        rounding: Rounding = "integer columns",
    ) -> None:
        self._outcome, self._positive = outcome, positive
        self._rows = whole(rows, "denoising: rows", least=2)
        self._hidden = whole(hidden, "denoising: hidden")
        self._train_noise = decimal(train_noise, "denoising: train_noise")
        self._sample_noise = decimal(sample_noise, "denoising: sample_noise")
        self._fidelity = decimal(label_fidelity, "denoising: label_fidelity", high=1.0)
        self._ridge = positive_decimal(ridge, "denoising: ridge")
        self._rounding = one_of(*get_args(Rounding))(rounding, "denoising: rounding")
        self._columns: list[str] = []
        self._labels: Labels | None = None

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {
            "mechanism": "denoising autoencoder with random features, fitted by every draw",
            "outcome": self._outcome,
            "positive": self._positive,
            "rows": self._rows,
            "hidden": self._hidden,
            "train_noise": repr(self._train_noise),
            "sample_noise": repr(self._sample_noise),
            "label_fidelity": repr(self._fidelity),
            "ridge": repr(self._ridge),
            "rounding": self._rounding,
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Scale the source's features to [0, 1], class 0 first, one row a feature."""
        labels = read_labels(source, self._outcome, self._positive)
        self._columns = [str(name) for name in source.columns]
        names = [name for name in self._columns if name != self._outcome]
        wrong = [name for name in names if source[name].dtype.kind not in "fiub"]
        if wrong or not names:
            raise RegistryError(
                f"denoising: every column but {self._outcome!r} is a number, and there is at "
                f"least one; {wrong} are text: code them as numbers first"
            )
        values = source[names].to_numpy(dtype=np.float64).T
        if not np.all(np.isfinite(values)):
            raise RegistryError("denoising: the source has missing or infinite numbers; fill them")
        order = np.argsort(labels.classes, kind="stable")
        self._labels, self._header, self._inputs = labels, source.columns, len(names) + 1
        self._sizes = np.bincount(labels.classes, minlength=2)
        self._low, self._high = values.min(axis=1)[:, None], values.max(axis=1)[:, None]
        # A constant column has no span; with 1 for it, it is scaled to 0 and decoded to its one
        # number.
        span = np.where(self._high > self._low, self._high - self._low, 1.0)
        self._scaled = np.ascontiguousarray(((values - self._low) / span)[:, order])
        self._classes = labels.classes[order].astype(np.float64)
        rounded = {
            "integer columns": np.all(values == np.rint(values), axis=1),
            "published": np.full(len(names), True),
            "none": np.full(len(names), False),
        }
        self._whole = np.flatnonzero(rounded[self._rounding])

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        return self.draw_many([seed])[0]

    def draw_many(self, seeds: Sequence[Seed]) -> list[pd.DataFrame]:
        """Return one release a seed, fitted together: the same as one by one.

        The arrays of several draws are stacked, and every product and solution runs over the
        stack one draw at a time, so that a draw's bits do not depend on its company.
        """
        assert self._labels is not None  # prepare comes first
        wide = max(self._rows, self._classes.size) * (self._hidden + 1)
        count = max(1, STACKED // wide)
        return [
            release
            for start in range(0, len(seeds), count)
            for release in self._draw_stack(seeds[start : start + count])
        ]

    def _draw_stack(self, seeds: Sequence[Seed]) -> list[pd.DataFrame]:
        # In which order a stream is used is part of the generator: another order gives other
        # releases for the registered seeds.
        streams = [seed.rng(STAGE) for seed in seeds]
        design = self._noisy(streams, self._train_noise, [self._scaled] * len(streams))
        # Classes are encoded as they are: only features are corrupted.
        design[:, -2] = self._classes
        layers = self._layers(streams)
        decoders = self._fit(_encode(layers, design))
        classes = [self._draw_classes(rng) for rng in streams]
        anchors = [
            self._scaled.take(self._draw_anchors(rng, own), axis=1)
            for rng, own in zip(streams, classes, strict=True)
        ]
        design = self._noisy(streams, self._sample_noise, anchors)
        design[:, -2] = classes
        decoded = decoders @ _encode(layers, design)
        self._to_original_units(decoded)
        return [self._table(values, own) for values, own in zip(decoded, classes, strict=True)]

    def _noisy(
        self, streams: Sequence[np.random.Generator], scale: float, clean: Sequence[Array]
    ) -> Array:
        """Return ``(draws, p + 2, n)``: noisy features in [0, 1], room for classes, ones."""
        p, n = clean[0].shape
        design = np.empty((len(streams), p + 2, n))
        features = design[:, :p]
        for rng, place, values in zip(streams, features, clean, strict=True):
            rng.standard_normal(out=place)
            place *= scale
            place += values
        np.clip(features, 0.0, 1.0, out=features)
        design[:, -1] = 1.0
        return design

    def _layers(self, streams: Sequence[np.random.Generator]) -> Array:
        """Return the hidden layers, ``(draws, hidden, p + 2)``: weights, then the bias."""
        inputs = self._inputs
        layers = np.empty((len(streams), self._hidden, inputs + 1))
        for rng, layer in zip(streams, layers, strict=True):
            layer[:, :-1] = rng.normal(0.0, 1.0 / np.sqrt(inputs), (self._hidden, inputs))
            layer[:, -1] = rng.uniform(-0.5, 0.5, self._hidden)
        return layers

    def _fit(self, encoded: Array) -> Array:
        """Return the ridge decoders, ``(draws, p, hidden + 1)``; the constant is not penalised."""
        gram = encoded @ encoded.transpose(0, 2, 1)
        place = np.arange(self._hidden)
        gram[:, place, place] += self._ridge
        decoders = np.linalg.solve(gram, encoded @ self._scaled.T)
        return decoders.transpose(0, 2, 1)

    def _draw_classes(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return as many of class 0 as of class 1 (one more for odd rows), in random order."""
        return rng.permutation(np.arange(self._rows) % 2)

    def _draw_anchors(
        self, rng: np.random.Generator, classes: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Return a source row for each row: of its class with the label fidelity, else not."""
        matched = rng.random(classes.size) < self._fidelity
        wanted = np.where(matched, classes, 1 - classes)
        start = np.array([0, self._sizes[0]])  # class 0 comes first
        return start[wanted] + rng.integers(0, self._sizes[wanted])

    def _to_original_units(self, decoded: Array) -> None:
        """Clip to [0, 1], undo the scaling, round, and keep within the source's range."""
        np.clip(decoded, 0.0, 1.0, out=decoded)
        decoded *= self._high - self._low
        decoded += self._low
        for k in self._whole:  # feature by feature: a mask would be far slower
            np.rint(decoded[:, k], out=decoded[:, k])
        # Rounding may step over an end that is no whole number.
        np.clip(decoded, self._low, self._high, out=decoded)

    def _table(self, values: Array, classes: NDArray[np.intp]) -> pd.DataFrame:
        import pandas as pd

        assert self._labels is not None
        table = pd.DataFrame(values.T)
        written = self._labels.write(classes)
        place = self._columns.index(self._outcome)
        table.insert(place, len(values), pd.Series(written, dtype=written.dtype))
        table.columns = self._header  # one header for all releases: to make each its own is slow
        return table


def _encode(layers: Array, design: Array) -> Array:
    """Return ``(draws, hidden + 1, n)``: the hidden units of each row, and a constant."""
    draws, hidden, _ = layers.shape
    encoded = np.empty((draws, hidden + 1, design.shape[2]))
    units = encoded[:, :-1]
    np.matmul(layers, design, out=units)
    np.tanh(units, out=units)
    encoded[:, -1] = 1.0
    return encoded
