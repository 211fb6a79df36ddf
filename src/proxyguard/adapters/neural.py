"""Generators that train networks, all draws of a batch together: TVAE.

What they have in common is here once: the shared options, the device, how many draws are trained
at once, and that a draw which fails does so alone. The arithmetic is in `proxyguard.neural`, which
needs torch; to describe itself a generator does not.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from glob import glob
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from proxyguard.adapters.settings import decimal, positive_decimal, whole
from proxyguard.adapters.tabular import (
    SharedOptions,
    Tabular,
    refuse_unknown,
    shared_options,
)
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from proxyguard.neural.batched import Device
    from proxyguard.neural.releases import SampledTable, TrainingTables, WantedCodes
    from proxyguard.neural.tvae import TvaeSettings


TRAINING = "start, order of rows and noise of the training"
SAMPLING = "rows of the release"
MIXTURES = (
    "Bayesian Gaussian mixtures of at most 10 components, Dirichlet process prior 0.001, started "
    "by k-means, at most 100 steps; components with a weight above 0.005 are used; variances are "
    "raised by 0.000001, as by scikit-learn, or by 0.01 of the column's variance if that is less: "
    "a column with a standard deviation below 0.01 is regularised less than by scikit-learn"
)
"""How TVAE and CTGAN see numbers, as they describe it."""
TOGETHER = 50
MEMORY = 4_000
"""Megabytes that a batch takes at most, as estimated; what a device does not hold is halved."""


# The files by which Linux knows a GPU: of NVIDIA, of AMD, and where Windows lies beneath.
_GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")


class NeuralGenerator(ABC):
    """Networks that every draw trains anew, those of several draws as one product.

    Parameters
    ----------
    device
        "cpu", "cuda", or "auto": a GPU where there is one.
    together
        Draws that are trained at once, at most.
    memory
        Megabytes that a batch may take, by which fewer are.
    shared
        The options of `shared_options`.
    """

    name: ClassVar[str]
    on_cpu: ClassVar[int] = 8
    """Draws at once on a CPU: more would leave its cache."""

    def __init__(
        self,
        *,
        device: str = "auto",
        together: int = TOGETHER,
        memory: int = MEMORY,
        **shared: object,
    ) -> None:
        refuse_unknown(self.name, shared, type(self))
        if device not in ("auto", "cpu", "cuda"):
            raise RegistryError(f'{self.name}: device is "auto", "cpu" or "cuda", got {device!r}')
        self._device: Device = device  # type: ignore[assignment] # one of the three, as seen above
        self.batch = whole(together, f"{self.name}: together")
        self._memory = whole(memory, f"{self.name}: memory")
        self._shared: SharedOptions = shared_options(self.name, **shared)  # type: ignore[arg-type] # checked there
        self._table: Tabular | None = None

    @abstractmethod
    def _settings(self) -> Mapping[str, object]:
        """Return the settings of this kind of generator."""

    @abstractmethod
    def _draw_tables(
        self, tables: TrainingTables, seeds: Sequence[int], device: torch.device
    ) -> Sequence[SampledTable | DrawError]:
        """Train and sample, with torch."""

    @abstractmethod
    def _bytes(self, table: Tabular, n: int, rows: int) -> int:
        """Return about how much memory a draw takes, of so many rows trained on and given."""

    def describe(self) -> Mapping[str, object]:
        """Return the settings."""
        return {
            **self._settings(),
            **self._shared.describe(),
            "device": self._device,
            "together": self.batch,
            "memory": self._memory,
        }

    def check_source(self, source: pd.DataFrame) -> None:
        """Refuse a source that draws could not start from; nothing is trained."""
        self._shared.read(source)

    def check_machine(self) -> None:
        """Refuse this machine where draws ask for a device that it has not."""
        # By the files of devices: to ask torch would start CUDA here, in a process that may fork.
        known = sys.platform in ("linux", "darwin")
        if self._device == "cuda" and known and not any(map(glob, _GPU_FILES)):
            raise RegistryError(
                f'{self.name}: device is "cuda", and there is no GPU here; draw where there is '
                'one, or register device = "auto" or "cpu"'
            )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source as numbers and codes."""
        # Loaded once, before draws are forked; a device is not looked for until then.
        import proxyguard.neural.batched  # noqa: F401 - for those that draw

        self._table = self._shared.read(source)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        release = self.draw_many([seed])[0]
        if isinstance(release, DrawError):
            raise release
        return release

    def draw_many(self, seeds: Sequence[Seed]) -> list[pd.DataFrame | DrawError]:
        """Return one release a seed, trained together; the error of a draw that failed."""
        from proxyguard.neural.batched import arithmetic, chosen_device, in_batches, reproducible

        table = self._prepared
        trained: dict[int, Tabular] = {}
        wanted: dict[int, WantedCodes | None] = {}
        results: dict[int, pd.DataFrame | DrawError] = {}
        for k, seed in enumerate(seeds):
            try:
                trained[k] = self._shared.training(table, seed)
                wanted[k] = self._wanted(table, trained[k])
            except DrawError as error:
                results[k] = error
            seed.take(TRAINING)
            seed.take(SAMPLING)
        device = chosen_device(self._device)
        rows = self._shared.release_rows(table)

        def run(draws: Sequence[int]) -> Sequence[SampledTable | DrawError]:
            return self._draw_tables(
                _stacked([trained[k] for k in draws], [wanted[k] for k in draws], rows),
                [int(seeds[k]) for k in draws],
                device,
            )

        going = [k for k in trained if k not in results]
        with reproducible():
            made = in_batches(run, going, self._at_once(table, trained, rows, device))
        facts = arithmetic(device)
        for k, (release, together) in zip(going, made, strict=True):
            seeds[k].computed(**facts, together=together)
            results[k] = self._release(release)
        return [results[k] for k in range(len(seeds))]

    @property
    def _prepared(self) -> Tabular:
        assert self._table is not None  # prepare comes first
        return self._table

    def _at_once(
        self, table: Tabular, trained: Mapping[int, Tabular], rows: int, device: torch.device
    ) -> int:
        """Return how many draws are computed at once."""
        n = max((len(training) for training in trained.values()), default=1)
        fitting = self._memory * 10**6 // self._bytes(table, n, rows)
        most = self.batch if device.type != "cpu" else min(self.batch, self.on_cpu)
        return max(1, min(most, fitting))

    def _wanted(self, table: Tabular, trained: Tabular) -> WantedCodes | None:
        from proxyguard.neural.releases import WantedCodes

        wanted = self._shared.wanted(table, trained)
        return None if wanted is None else WantedCodes(*wanted)

    def _release(self, release: SampledTable | DrawError) -> pd.DataFrame | DrawError:
        try:
            if isinstance(release, DrawError):
                raise DrawError(f"{self.name}: {release}")
            return self._prepared.table(release.numbers, release.codes)
        except DrawError as error:
            return error


def _stacked(
    trained: Sequence[Tabular], wanted: Sequence[WantedCodes | None], rows: int
) -> TrainingTables:
    from proxyguard.neural.releases import TrainingTables

    return TrainingTables(
        numbers=np.stack([table.numbers for table in trained]),
        codes=np.stack([table.codes for table in trained]),
        sizes=trained[0].sizes,
        rows=rows,
        wanted=wanted,
    )


class Tvae(NeuralGenerator):
    """Rows of a variational autoencoder of mixed tables that every draw trains anew.

    TVAE of Xu, Skoularidou, Cuesta-Infante and Veeramachaneni (2019).

    Parameters
    ----------
    epochs, batch_size
        Passes over the training rows, and rows of a step.
    embedding
        Dimension of the latent normal law.
    compress, decompress
        Widths of the hidden layers of encoder and decoder.
    learning_rate, weight_decay
        Of Adam; the decay is part of the gradient.
    loss_factor
        Weight of the rows' loss beside the divergence.
    shared
        The options of `NeuralGenerator`.
    """

    name = "tvae"

    def __init__(
        self,
        *,
        epochs: int = 300,
        batch_size: int = 500,
        embedding: int = 128,
        compress: Sequence[int] = (128, 128),
        decompress: Sequence[int] = (128, 128),
        learning_rate: str | float = "0.001",
        weight_decay: str | float = "0.00001",
        loss_factor: str | float = 2,
        **shared: object,
    ) -> None:
        super().__init__(**shared)  # type: ignore[arg-type] # as declared, checked there
        self._epochs = whole(epochs, "tvae: epochs")
        self._batch_size = whole(batch_size, "tvae: batch_size")
        self._embedding = whole(embedding, "tvae: embedding")
        self._compress = widths(compress, "tvae: compress")
        self._decompress = widths(decompress, "tvae: decompress")
        self._learning_rate = positive_decimal(learning_rate, "tvae: learning_rate")
        self._weight_decay = decimal(weight_decay, "tvae: weight_decay")
        self._loss_factor = positive_decimal(loss_factor, "tvae: loss_factor")

    def _settings(self) -> Mapping[str, object]:
        return {
            "mechanism": "TVAE, trained anew by every draw",
            "epochs": self._epochs,
            "batch_size": self._batch_size,
            "embedding": self._embedding,
            "compress": list(self._compress),
            "decompress": list(self._decompress),
            "learning_rate": repr(self._learning_rate),
            "weight_decay": repr(self._weight_decay),
            "loss_factor": repr(self._loss_factor),
            "optimiser": "Adam, betas 0.9 and 0.999, decay as part of the gradient",
            "numbers": MIXTURES,
            "deviations": "one for each number, from 0.1 on, kept within 0.01 and 1",
            "choice": "the component and the category of the highest logit",
            "condition by": "rejection",
        }

    @property
    def _tvae(self) -> TvaeSettings:
        from proxyguard.neural.tvae import TvaeSettings

        return TvaeSettings(
            embedding=self._embedding,
            compress=self._compress,
            decompress=self._decompress,
            batch_size=self._batch_size,
            epochs=self._epochs,
            learning_rate=self._learning_rate,
            weight_decay=self._weight_decay,
            loss_factor=self._loss_factor,
        )

    def _draw_tables(
        self, tables: TrainingTables, seeds: Sequence[int], device: torch.device
    ) -> Sequence[SampledTable | DrawError]:
        from proxyguard.neural.tvae import draw_tables

        return draw_tables(tables, seeds, self._tvae, device)

    def _bytes(self, table: Tabular, n: int, rows: int) -> int:
        from proxyguard.neural.encoding import Layout
        from proxyguard.neural.tvae import bytes_of_draw

        layout = Layout(table.numbers.shape[1], table.sizes)
        return bytes_of_draw(n, rows, layout, self._tvae)


def widths(declared: object, name: str) -> tuple[int, ...]:
    """Return the widths of hidden layers, at least one."""
    if isinstance(declared, str) or not isinstance(declared, Sequence) or not declared:
        raise RegistryError(f"{name} is a list of widths, such as [128, 128], got {declared!r}")
    return tuple(whole(width, f"{name}[{k}]") for k, width in enumerate(declared))
