"""The two labels of a binary outcome, for generators that treat its classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.draw.outcome import outcomes
from proxyguard.errors import RegistryError
from proxyguard.registry.target import Outcome

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Labels:
    """Which class every source row has, and how the source writes class 0 and class 1."""

    classes: NDArray[np.intp]
    written: NDArray[Any]

    def write(self, classes: NDArray[Any]) -> NDArray[Any]:
        """Return classes as the source writes them."""
        return np.asarray(self.written[classes])


def read_labels(source: pd.DataFrame, column: str, positive: str | int) -> Labels:
    """Return the labels of a source that has both classes."""
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
