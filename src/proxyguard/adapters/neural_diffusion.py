"""TabDDPM: rows that networks make of noise by undoing a diffusion, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.adapters.neural import NeuralGenerator, widths
from proxyguard.adapters.settings import decimal, positive_decimal, whole
from proxyguard.adapters.tabular import Tabular
from proxyguard.errors import DrawError, RegistryError

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from proxyguard.neural.releases import SampledTable, TrainingTables
    from proxyguard.neural.tabddpm import TableSettings

MULTIPLE = 16
"""Of which widths are multiples: the same draw has other last bits in a batch otherwise."""


class TabDdpm(NeuralGenerator):
    """Rows of a diffusion model of mixed tables that every draw trains anew.

    TabDDPM of Kotelnikov, Baranchuk, Rubachev and Babenko (2023): numbers are diffused by Gaussian
    noise, categories by a multinomial chain. The defaults are those of the paper's audit.

    Parameters
    ----------
    outcome
        A column of categories that the network is told and does not make itself; in a release it
        has the frequencies of the training rows, or what ``condition`` says. Without it a
        ``condition`` names the column that is told; with neither, all columns are made.
    categories
        "multinomial", or "as numbers", as in the audit of the paper: a number of 0 or 1 for every
        category, which is diffused as numbers are, and the greatest of which says the category.
    scaling
        "standard" for mean 0 and deviation 1, or "quantile" for normal scores of ranks.
    nearest
        A column of at most so many different numbers, all of them whole, is set to the nearest
        number trained on; 0 for none.
    steps, batch_size
        Steps of the optimiser, and rows of each.
    times
        Steps of the diffusion.
    learning_rate, weight_decay
        Of AdamW; the rate falls linearly to nothing.
    average
        What a running average of the weights keeps at every step. Rows are sampled with the
        average, which starts from random weights: with fewer steps than several times
        1 / (1 - average) it has not forgotten them.
    hidden, embedding
        Widths of the hidden layers, and of the embeddings of times and classes; multiples of 16.
    dropout
        The share of hidden units that a step leaves out.
    shared
        The options of `NeuralGenerator`.
    """

    name = "tabddpm"

    def __init__(
        self,
        *,
        outcome: str | None = None,
        categories: str = "multinomial",
        scaling: str = "standard",
        nearest: int = 32,
        steps: int = 5_000,
        batch_size: int = 4_096,
        times: int = 100,
        learning_rate: str | float = "0.001",
        weight_decay: str | float = "0",
        average: str | float = "0.999",
        hidden: Sequence[int] = (256, 256, 256),
        embedding: int = 128,
        dropout: str | float = "0",
        **shared: object,
    ) -> None:
        if outcome is not None and not isinstance(outcome, str):
            raise RegistryError(f"tabddpm: outcome is the name of a column, got {outcome!r}")
        discrete = shared.get("discrete", ())
        if outcome is not None and isinstance(discrete, Sequence) and not isinstance(discrete, str):
            shared = {**shared, "discrete": [*discrete, outcome]}
        super().__init__(**shared)  # type: ignore[arg-type] # as declared, checked there
        self._outcome = outcome
        if categories not in ("multinomial", "as numbers"):
            raise RegistryError(
                f'tabddpm: categories is "multinomial" or "as numbers", got {categories!r}'
            )
        if scaling not in ("standard", "quantile"):
            raise RegistryError(f'tabddpm: scaling is "standard" or "quantile", got {scaling!r}')
        self._multinomial, self._standard = categories == "multinomial", scaling == "standard"
        self._nearest = whole(nearest, "tabddpm: nearest", least=0)
        self._steps = whole(steps, "tabddpm: steps")
        self._batch_size = whole(batch_size, "tabddpm: batch_size")
        self._times = whole(times, "tabddpm: times", least=2)
        self._learning_rate = positive_decimal(learning_rate, "tabddpm: learning_rate")
        self._weight_decay = decimal(weight_decay, "tabddpm: weight_decay")
        self._average = decimal(average, "tabddpm: average", high=0.999999)
        self._hidden = widths(hidden, "tabddpm: hidden")
        self._embedding = whole(embedding, "tabddpm: embedding")
        uneven = [width for width in (*self._hidden, self._embedding) if width % MULTIPLE]
        if uneven:
            raise RegistryError(
                f"tabddpm: the widths in hidden, and embedding, are multiples of {MULTIPLE}, got "
                f"{uneven}"
            )
        self._dropout = decimal(dropout, "tabddpm: dropout", high=0.99)

    def _settings(self) -> Mapping[str, object]:
        return {
            "mechanism": "TabDDPM, trained anew by every draw",
            "outcome": self._outcome,
            "categories": "multinomial" if self._multinomial else "as numbers",
            "scaling": "standard" if self._standard else "quantile",
            "nearest": self._nearest,
            "steps": self._steps,
            "batch_size": self._batch_size,
            "times": self._times,
            "learning_rate": repr(self._learning_rate),
            "weight_decay": repr(self._weight_decay),
            "average": repr(self._average),
            "hidden": list(self._hidden),
            "embedding": self._embedding,
            "dropout": repr(self._dropout),
            "optimiser": "AdamW, betas 0.9 and 0.999, the rate falling linearly to 0",
            "schedule": "cosine with offset 0.008, at most 0.999 a step",
            "loss": "mean squared error of the noise of numbers, and the divergence of the "
            "posteriors of categories over the chance of the time, a mean over their columns; "
            "times uniform",
            "input": "categories as 0 and 1",
            "samples": "ancestral, from the running average of the weights; variance beta, none in "
            "the last step; nothing is clipped on the way",
            "classes": "as often as in the training rows, independently",
            "unseen": "a category that no training row of a draw has is not drawn",
        }

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source as numbers and codes."""
        if self._outcome is not None and self._outcome not in source.columns:
            raise RegistryError(
                f"tabddpm: outcome names {self._outcome!r}, which the source has not; it has "
                f"{list(source.columns)}"
            )
        super().prepare(source, rng)
        table = self._prepared
        told = self._told(table)
        if not table.numbers.shape[1] and len(table.sizes) == (told is not None):
            raise RegistryError(
                "tabddpm: the source has no column that is not empty beside the one that the "
                "network is told; there is nothing to learn"
            )

    def _told(self, table: Tabular) -> int | None:
        """Return the column of codes that the network is told, if any."""
        if self._outcome is not None:
            return table.code_column(self._outcome, "outcome")
        condition = self._shared.condition
        return None if condition is None else table.code_column(condition.column)

    def _learned(self, table: Tabular) -> TableSettings:
        from proxyguard.neural.diffusion import DiffusionSettings
        from proxyguard.neural.tabddpm import TableSettings

        network = DiffusionSettings(
            steps=self._steps,
            batch_size=self._batch_size,
            times=self._times,
            rate=self._learning_rate,
            weight_decay=self._weight_decay,
            average=self._average,
            widths=self._hidden,
            embedding=self._embedding,
            dropout=self._dropout,
        )
        return TableSettings(
            network=network,
            classes=self._told(table),
            categories="multinomial" if self._multinomial else "as numbers",
            scaling="standard" if self._standard else "quantile",
            nearest=self._nearest,
        )

    def _draw_tables(
        self, tables: TrainingTables, seeds: Sequence[int], device: torch.device
    ) -> Sequence[SampledTable | DrawError]:
        from proxyguard.neural.tabddpm import draw_tables

        return draw_tables(tables, seeds, self._learned(self._prepared), device)

    def _bytes(self, table: Tabular, n: int, rows: int) -> int:
        from proxyguard.neural.tabddpm import bytes_of_table_draw

        settings = self._learned(table)
        return bytes_of_table_draw(table.numbers.shape[1], table.sizes, settings, n, rows)
