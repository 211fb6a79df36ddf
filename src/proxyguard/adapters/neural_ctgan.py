"""CTGAN: a generator of rows and a critic of them, which every draw trains anew.

The arithmetic is in `proxyguard.neural.ctgan`, which needs torch; to describe itself the generator
does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from proxyguard.adapters.neural import MIXTURES, NeuralGenerator, widths
from proxyguard.adapters.settings import decimal, positive_decimal, whole
from proxyguard.adapters.tabular import Tabular
from proxyguard.errors import DrawError, RegistryError

if TYPE_CHECKING:
    import torch

    from proxyguard.neural.adversaries import CtganSettings
    from proxyguard.neural.releases import SampledTable, TrainingTables

ConditionsBy = Literal["frequencies", "log frequencies"]
ConditionBy = Literal["rejection", "likelihood"]
BETA = 1.0 - 2.0**-20
"""Running averages of Adam are below 1; at 1 they would never move."""


class Ctgan(NeuralGenerator):
    """Rows of a conditional generative adversarial network that every draw trains anew.

    CTGAN of Xu, Skoularidou, Cuesta-Infante and Veeramachaneni (2019). Where nothing is declared,
    the constants are theirs.

    Parameters
    ----------
    epochs, batch_size
        Passes over the training rows, each of as many steps as whole batches fit them and at least
        one, and rows of a step, a multiple of ``pac``.
    embedding
        Dimension of the noise that a row is made from.
    generator, critic
        Widths of the hidden layers.
    pac
        Rows that the critic judges together.
    critic_steps
        Steps of the critic for one of the generator.
    generator_rate, critic_rate, generator_decay, critic_decay, betas
        Of Adam; the decay is part of the gradient.
    temperature
        Of the Gumbel softmax.
    slope, dropout
        Of the critic's leaky ReLU, and the share of its units that each step leaves out.
    penalty
        Weight of the gradient penalty.
    momentum
        How fast the averages follow by which batch normalisation works in a release.
    conditions_by
        Every row is made under a condition, a category of a column that is drawn uniformly. In a
        release the category is drawn by its frequency among the training rows, as in the paper, or
        by "log frequencies", as in training and in later releases of the authors' package.
    condition_by
        A ``condition`` of the release makes a category likely and not certain. With "rejection"
        rows without it are made again, and where there are several categories a row counts as one
        of the category that it came out with; with "likelihood" rows are kept, as the package does.
    shared
        The options of `NeuralGenerator`.
    """

    name = "ctgan"

    def __init__(
        self,
        *,
        epochs: int = 300,
        batch_size: int = 500,
        embedding: int = 128,
        generator: Sequence[int] = (256, 256),
        critic: Sequence[int] = (256, 256),
        pac: int = 10,
        critic_steps: int = 1,
        generator_rate: str | float = "0.0002",
        critic_rate: str | float = "0.0002",
        generator_decay: str | float = "0.000001",
        critic_decay: str | float = "0.000001",
        betas: Sequence[str | float] = ("0.5", "0.9"),
        temperature: str | float = "0.2",
        slope: str | float = "0.2",
        dropout: str | float = "0.5",
        penalty: str | float = 10,
        momentum: str | float = "0.1",
        conditions_by: str = "frequencies",
        condition_by: str = "rejection",
        **shared: object,
    ) -> None:
        super().__init__(**shared)  # type: ignore[arg-type] # as declared, checked there
        self._epochs = whole(epochs, "ctgan: epochs")
        self._batch_size = whole(batch_size, "ctgan: batch_size", least=2)
        self._embedding = whole(embedding, "ctgan: embedding")
        self._generator = widths(generator, "ctgan: generator")
        self._critic = widths(critic, "ctgan: critic")
        self._pac = whole(pac, "ctgan: pac")
        if self._batch_size % self._pac:
            raise RegistryError(
                f"ctgan: batch_size is a multiple of pac, the rows that are judged together, got "
                f"{self._batch_size} and {self._pac}"
            )
        self._critic_steps = whole(critic_steps, "ctgan: critic_steps")
        self._generator_rate = positive_decimal(generator_rate, "ctgan: generator_rate")
        self._critic_rate = positive_decimal(critic_rate, "ctgan: critic_rate")
        self._generator_decay = decimal(generator_decay, "ctgan: generator_decay")
        self._critic_decay = decimal(critic_decay, "ctgan: critic_decay")
        if isinstance(betas, str) or not isinstance(betas, Sequence) or len(betas) != 2:
            raise RegistryError(f'ctgan: betas are two, such as ["0.5", "0.9"], got {betas!r}')
        self._first_beta, self._second_beta = (
            decimal(beta, f"ctgan: betas[{k}]", high=BETA) for k, beta in enumerate(betas)
        )
        self._temperature = positive_decimal(temperature, "ctgan: temperature")
        self._slope = decimal(slope, "ctgan: slope", high=1.0)
        self._dropout = decimal(dropout, "ctgan: dropout", high=BETA)
        self._penalty = decimal(penalty, "ctgan: penalty")
        self._momentum = decimal(momentum, "ctgan: momentum", high=1.0)
        self._conditions_by: ConditionsBy = conditions_by  # type: ignore[assignment] # seen below
        self._condition_by: ConditionBy = condition_by  # type: ignore[assignment] # seen below
        for name, declared, choices in (
            ("conditions_by", conditions_by, get_args(ConditionsBy)),
            ("condition_by", condition_by, get_args(ConditionBy)),
        ):
            if declared not in choices:
                raise RegistryError(
                    f'ctgan: {name} is "{choices[0]}" or "{choices[1]}", got {declared!r}'
                )

    def _settings(self) -> Mapping[str, object]:
        return {
            "mechanism": "CTGAN, trained anew by every draw",
            "epochs": self._epochs,
            "batch_size": self._batch_size,
            "embedding": self._embedding,
            "generator": list(self._generator),
            "critic": list(self._critic),
            "pac": self._pac,
            "critic_steps": self._critic_steps,
            "generator_rate": repr(self._generator_rate),
            "critic_rate": repr(self._critic_rate),
            "generator_decay": repr(self._generator_decay),
            "critic_decay": repr(self._critic_decay),
            "betas": [repr(self._first_beta), repr(self._second_beta)],
            "temperature": repr(self._temperature),
            "slope": repr(self._slope),
            "dropout": repr(self._dropout),
            "penalty": repr(self._penalty),
            "momentum": repr(self._momentum),
            "conditions_by": self._conditions_by,
            "condition_by": self._condition_by,
            "optimiser": "Adam, decay as part of the gradient",
            "numbers": MIXTURES,
            "training conditions": "a column of categories uniformly, its category by log(1 + "
            "count); real rows are any of that category",
            "conditions of a release": "under a condition rows are made for its categories in "
            "their turn; by rejection a release takes each row as one of the category that it came "
            "out with, whichever it was made for; by likelihood it stays where it was made for",
            "normalisation": "by the batch in training, by running averages in a release",
            "choice": "component and category after Gumbel noise, that is, by their chances",
        }

    @property
    def _ctgan(self) -> CtganSettings:
        from proxyguard.neural.adversaries import CtganSettings

        return CtganSettings(
            embedding=self._embedding,
            generator_widths=self._generator,
            critic_widths=self._critic,
            epochs=self._epochs,
            batch_size=self._batch_size,
            pac=self._pac,
            critic_steps=self._critic_steps,
            generator_rate=self._generator_rate,
            critic_rate=self._critic_rate,
            generator_decay=self._generator_decay,
            critic_decay=self._critic_decay,
            first_beta=self._first_beta,
            second_beta=self._second_beta,
            temperature=self._temperature,
            slope=self._slope,
            dropout=self._dropout,
            penalty=self._penalty,
            momentum=self._momentum,
            law=self._conditions_by,
            reject=self._condition_by == "rejection",
        )

    def _draw_tables(
        self, tables: TrainingTables, seeds: Sequence[int], device: torch.device
    ) -> Sequence[SampledTable | DrawError]:
        from proxyguard.neural.ctgan import draw_tables

        return draw_tables(tables, seeds, self._ctgan, device)

    def _bytes(self, table: Tabular, n: int, rows: int) -> int:
        from proxyguard.neural.ctgan import bytes_of_draw
        from proxyguard.neural.encoding import Layout

        return bytes_of_draw(n, Layout(table.numbers.shape[1], table.sizes), self._ctgan)
