"""Generators that train networks, all draws of a batch together: TVAE, CTGAN, TabDDPM.

What they have in common is here once: the device, how many draws are trained at once, and that a
draw which fails does so alone. Their options are in `adapters.networks`. The arithmetic is in
`proxyguard.neural`, which needs torch; to describe itself a generator does not.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from glob import glob
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from proxyguard.adapters.networks import (
    CtganSettings,
    NetworkSettings,
    TabDdpmSettings,
    TvaeSettings,
)
from proxyguard.adapters.tabular import CodedGenerator, Tabular
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from proxyguard.neural.releases import SampledTable, TrainingTables, WantedCodes

TRAINING = "start, order of rows and noise of the training"
SAMPLING = "rows of the release"


# The files by which Linux knows a GPU: of NVIDIA, of AMD, and where Windows lies beneath.
_GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")

OfNetworks = TypeVar("OfNetworks", bound=NetworkSettings)
Read = TypeVar("Read", bound=NetworkSettings, contravariant=True)


class Networks(Protocol[Read]):
    """A module of `proxyguard.neural` that learns tables."""

    def draw_tables(
        self, tables: TrainingTables, seeds: Sequence[int], settings: Read, device: torch.device
    ) -> Sequence[SampledTable | DrawError]:
        """Train on the table of every draw, and return their releases."""

    def bytes_of_draw(self, tables: TrainingTables, settings: Read) -> int:
        """Return about how much memory a draw of such tables takes."""


class NeuralGenerator(CodedGenerator[OfNetworks]):
    """Networks that every draw trains anew, those of several draws as one product."""

    on_cpu: ClassVar[int] = 8
    """Draws at once on a CPU: more would leave its cache."""

    @property
    @abstractmethod
    def _networks(self) -> Networks[OfNetworks]:
        """What trains and samples, with torch: loaded by the first draw."""

    @property
    def batch(self) -> int:
        """Draws that are trained at once, at most."""
        return self._settings.together

    def check_machine(self) -> None:
        """Refuse this machine where draws ask for a device that it has not."""
        # By the files of devices: to ask torch would start CUDA here, in a process that may fork.
        known = sys.platform in ("linux", "darwin")
        if self._settings.device == "cuda" and known and not any(map(glob, _GPU_FILES)):
            raise RegistryError(
                f'{self._settings.name}: device is "cuda", and there is no GPU here; draw where '
                'there is one, or register device = "auto" or "cpu"'
            )

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source as numbers and codes."""
        # Loaded once, before draws are forked; a device is not looked for until then.
        import proxyguard.neural.batched  # noqa: F401 - for those that draw

        self._table = self._coded(source)

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release."""
        release = self.draw_many([seed])[0]
        if isinstance(release, DrawError):
            raise release
        return release

    def draw_many(self, seeds: Sequence[Seed]) -> list[pd.DataFrame | DrawError]:
        """Return one release a seed, trained together; the error of a draw that failed."""
        from proxyguard.neural.batched import arithmetic, chosen_device, in_batches, reproducible
        from proxyguard.neural.releases import TrainingTables

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
        device = chosen_device(self._settings.device)
        rows = self._shared.release_rows(table)

        def tables_of(draws: Sequence[int]) -> TrainingTables:
            return TrainingTables(
                numbers=np.stack([trained[k].numbers for k in draws]),
                codes=np.stack([trained[k].codes for k in draws]),
                sizes=table.sizes,
                rows=rows,
                wanted=[wanted[k] for k in draws],
                told=self._told(table),
            )

        def run(draws: Sequence[int]) -> Sequence[SampledTable | DrawError]:
            return self._networks.draw_tables(
                tables_of(draws), [int(seeds[k]) for k in draws], self._settings, device
            )

        going = [k for k in trained if k not in results]
        # All draws have as many training rows, and so take as much memory as the first.
        size = self._networks.bytes_of_draw(tables_of(going[:1]), self._settings) if going else 1
        with reproducible():
            made = in_batches(run, going, self._at_once(size, device))
        facts = arithmetic(device)
        for k, (release, together) in zip(going, made, strict=True):
            seeds[k].computed(**facts, together=together)
            results[k] = self._release(release)
        return [results[k] for k in range(len(seeds))]

    def _told(self, table: Tabular) -> int | None:
        """Return the column of codes that networks are told and do not make, if any."""
        return None

    def _at_once(self, size: int, device: torch.device) -> int:
        """Return how many draws are computed at once, each of which takes so many bytes."""
        fitting = self._settings.memory * 10**6 // size
        most = self.batch if device.type != "cpu" else min(self.batch, self.on_cpu)
        return max(1, min(most, fitting))

    def _wanted(self, table: Tabular, trained: Tabular) -> WantedCodes | None:
        from proxyguard.neural.releases import WantedCodes

        wanted = self._shared.wanted(table, trained)
        return None if wanted is None else WantedCodes(*wanted)

    def _release(self, release: SampledTable | DrawError) -> pd.DataFrame | DrawError:
        try:
            if isinstance(release, DrawError):
                raise DrawError(f"{self._settings.name}: {release}")
            return self._prepared.table(release.numbers, release.codes)
        except DrawError as error:
            return error


class Tvae(NeuralGenerator[TvaeSettings]):
    """Rows of a variational autoencoder of mixed tables that every draw trains anew.

    TVAE of Xu, Skoularidou, Cuesta-Infante and Veeramachaneni (2019).
    """

    _kind = TvaeSettings

    @property
    def _networks(self) -> Networks[TvaeSettings]:
        from proxyguard.neural import tvae

        return tvae


class Ctgan(NeuralGenerator[CtganSettings]):
    """Rows of a conditional generative adversarial network that every draw trains anew.

    CTGAN of Xu, Skoularidou, Cuesta-Infante and Veeramachaneni (2019). Where nothing is declared,
    the constants are theirs.
    """

    _kind = CtganSettings

    @property
    def _networks(self) -> Networks[CtganSettings]:
        from proxyguard.neural import ctgan

        return ctgan


class TabDdpm(NeuralGenerator[TabDdpmSettings]):
    """Rows of a diffusion model of mixed tables that every draw trains anew.

    TabDDPM of Kotelnikov, Baranchuk, Rubachev and Babenko (2023): numbers are diffused by Gaussian
    noise, categories by a multinomial chain. The defaults are those of the paper's audit.
    """

    _kind = TabDdpmSettings

    def __init__(self, **options: object) -> None:
        outcome, discrete = options.get("outcome"), options.get("discrete", ())
        if (
            isinstance(outcome, str)
            and isinstance(discrete, Sequence)
            and not isinstance(discrete, str)
        ):
            options = {**options, "discrete": [*discrete, outcome]}
        super().__init__(**options)

    @property
    def _networks(self) -> Networks[TabDdpmSettings]:
        from proxyguard.neural import tabddpm

        return tabddpm

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Read the source as numbers and codes."""
        outcome = self._settings.outcome
        if outcome is not None and outcome not in source.columns:
            raise RegistryError(
                f"tabddpm: outcome names {outcome!r}, which the source has not; it has "
                f"{list(source.columns)}"
            )
        super().prepare(source, rng)
        table = self._prepared
        if not table.numbers.shape[1] and len(table.sizes) == (self._told(table) is not None):
            raise RegistryError(
                "tabddpm: the source has no column that is not empty beside the one that the "
                "network is told; there is nothing to learn"
            )

    def _told(self, table: Tabular) -> int | None:
        if self._settings.outcome is not None:
            return table.code_column(self._settings.outcome, "outcome")
        condition = self._shared.condition
        return None if condition is None else table.code_column(condition.column)
