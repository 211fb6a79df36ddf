"""One-hot logistic regression by Newton's method, for tables of categorical features alone.

A category is a code, so sums over a one-hot table are counts of codes, and its Hessian holds
weighted counts of pairs of codes. The objective, and so its minimiser, is that of
`pipelines.onehot_logistic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from proxyguard.adapters.newton import Array, binary, minimise, with_coefficients
from proxyguard.draw.protocol import Seed

Codes = NDArray[np.int32]


class CodedDesign:
    """One-hot columns of coded features, ``(n, features)``, and a last column of ones."""

    def __init__(self, codes: Codes, sizes: Sequence[int]) -> None:
        widths = np.array(sizes, dtype=np.int32)
        starts = np.cumsum(widths, dtype=np.int32) - widths
        self._width = int(widths.sum())
        last = np.full((codes.shape[0], 1), self._width, dtype=np.int32)
        self._onehot = _ones_at(np.hstack([codes + starts, last]), self._width + 1)
        # One column for each pair of categories of two features, and where it stands in the
        # Hessian: there every pair is needed at once, for new weights each time.
        left, right = np.tril_indices(widths.size, -1)
        cells = widths[left] * widths[right]
        ends = np.cumsum(cells, dtype=np.int32)
        pairs = codes.take(left, axis=1)
        pairs *= widths[right]
        pairs += codes.take(right, axis=1)
        pairs += ends - cells
        self._pairs = _ones_at(pairs, int(cells.sum()))
        within = np.arange(self._pairs.shape[1]) - np.repeat(ends - cells, cells)
        across = np.repeat(widths[right], cells)
        self._rows = np.repeat(starts[left], cells) + within // across
        self._columns = np.repeat(starts[right], cells) + within % across

    @property
    def size(self) -> int:
        """The number of coefficients, the intercept among them."""
        return self._width + 1

    def scores(self, coefficients: Array) -> Array:
        """Return the score of every record."""
        return np.asarray(self._onehot @ coefficients)

    def sums(self, residuals: Array) -> Array:
        """Return the residuals summed over the records of each category."""
        return np.asarray(self._onehot.T @ residuals)

    def gram(self, weights: Array) -> Array:
        """Return the weighted counts of every two categories together."""
        found = np.zeros((self.size, self.size))
        counts = self.sums(weights)
        np.fill_diagonal(found, counts)  # two categories of one feature never meet
        found[-1], found[:, -1] = counts, counts
        found[self._rows, self._columns] = self._pairs.T @ weights
        found[self._columns, self._rows] = found[self._rows, self._columns]
        return found


def _ones_at(columns: Codes, width: int) -> csr_array:
    """Return a sparse table with ones in these columns of each row, and zeros elsewhere."""
    n, count = columns.shape
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(count)
    return csr_array((np.ones(columns.size), columns.ravel(), ends), shape=(n, width))


class FastOnehotLogistic:
    """What `pipelines.onehot_logistic` fits to categories, by Newton's method."""

    def fit(self, x: Any, y: Any) -> Pipeline:
        """Return the fitted pipeline: scikit-learn's encoder and logistic regression."""
        outcomes = binary(y)
        codes, categories = _encoded(x)
        design = CodedDesign(codes, [len(known) for known in categories])
        w = minimise(design, outcomes, design.size)
        return make_pipeline(_encoder(list(x), categories), with_coefficients(w, max_iter=2000))


def _encoded(table: Any) -> tuple[Codes, list[NDArray[Any]]]:
    """Return the code of every value, and the categories of each feature in order."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame) or table.select_dtypes("number").shape[1]:
        raise ValueError(
            "fast_onehot_logistic takes categorical features only, and some are numbers; use "
            "onehot_logistic, or fast_logistic where all are numbers"
        )
    codes = np.empty(table.shape, dtype=np.int32)
    categories = []
    for k, name in enumerate(table):
        codes[:, k], known = pd.factorize(table[name].to_numpy(dtype=object), sort=True)
        categories.append(known)
    if codes.min() < 0:
        raise ValueError("a categorical feature has missing values; give them a text of their own")
    return codes, categories


def _encoder(names: list[str], categories: Sequence[NDArray[Any]]) -> OneHotEncoder:
    """Return scikit-learn's encoder, fitted on a few rows that hold every category.

    All that it learns is the set of categories, and that takes no more rows than the longest
    set has members. Fitting it on the release would take longer than the regression.
    """
    rows = max(len(known) for known in categories)
    few = np.stack([np.resize(known, rows) for known in categories], axis=1)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(few)
    encoder.feature_names_in_ = np.array(names, dtype=object)
    return encoder


def fast_onehot_logistic(seed: Seed) -> FastOnehotLogistic:
    """One column a category and logistic regression with C = 1; takes no seed."""
    return FastOnehotLogistic()
