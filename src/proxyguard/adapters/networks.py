"""What can be declared of TVAE, CTGAN and TabDDPM, and what is fixed: the one list of it.

From it options are checked and described, networks are trained, and the tables of
`docs/generators.md` are written. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from proxyguard.adapters.settings import (
    Mechanism,
    decimal,
    one_of,
    option,
    pair,
    positive_decimal,
    whole,
    widths,
)
from proxyguard.errors import RegistryError

Device = Literal["auto", "cpu", "cuda"]
ConditionLaw = Literal["frequencies", "log frequencies"]
# Facts of a draw that are known by name: what it was computed on, by what, and with how many
# others. A draw of a network of ours has them all.
DEVICE, PROCESSOR, LIBRARY, TOGETHER = "device", "processor", "torch", "together"
# How TVAE and CTGAN see numbers, as they describe it.
MIXTURES = (
    "Bayesian Gaussian mixtures of at most 10 components, Dirichlet process prior 0.001, started "
    "by k-means, at most 100 steps; components with a weight above 0.005 are used; variances are "
    "raised by 0.000001, as by scikit-learn, or by 0.01 of the column's variance if that is less: "
    "a column with a standard deviation below 0.01 is regularised less than by scikit-learn"
)
# Of which the widths of TabDDPM are multiples: the products of a CPU have other last bits where a
# matrix starts within a cache line, and the matrices of a batch follow each other in memory.
MULTIPLE = 16
# Running averages of Adam are below 1; at 1 they would never move.
BELOW_ONE = 1.0 - 2.0**-20


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings(Mechanism):
    """What is chosen about every kind: where draws are computed, and how many at once."""

    device: Device = option("auto", one_of("auto", "cpu", "cuda"))
    """"cpu", "cuda", or "auto": a GPU where there is one."""
    together: int = option(50, whole)
    """Draws that are trained at once, at most."""
    memory: int = option(4_000, whole)
    """Megabytes that a batch may take, as estimated, by which fewer are; what a device does not
    hold is halved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TvaeSettings(NetworkSettings):
    """What a TVAE is trained by."""

    name: ClassVar[str] = "tvae"
    mechanism: ClassVar[str] = "TVAE, trained anew by every draw"
    fixed: ClassVar[Mapping[str, str]] = {
        "optimiser": "Adam, betas 0.9 and 0.999, decay as part of the gradient",
        "numbers": MIXTURES,
        "deviations": "one for each number, from 0.1 on, kept within 0.01 and 1",
        "choice": "the component and the category of the highest logit",
        "condition by": "rejection",
    }

    epochs: int = option(300, whole)
    """Passes over the training rows; the last step of a pass has the rest."""
    batch_size: int = option(500, whole)
    """Rows of a step."""
    embedding: int = option(128, whole)
    """Dimension of the latent normal law."""
    compress: tuple[int, ...] = option((128, 128), widths)
    """Widths of the hidden layers of the encoder."""
    decompress: tuple[int, ...] = option((128, 128), widths)
    """Widths of the hidden layers of the decoder."""
    learning_rate: float = option(1e-3, positive_decimal)
    """Of Adam."""
    weight_decay: float = option(1e-5, decimal)
    """Of Adam: it is part of the gradient, and the deviations decay too."""
    loss_factor: float = option(2.0, positive_decimal)
    """Weight of the rows' loss beside the divergence."""


def _betas(given: object, name: str) -> tuple[float, float]:
    both = pair(given, f'{name} are two, such as ["0.5", "0.9"]')
    first, second = (decimal(beta, f"{name}[{k}]", high=BELOW_ONE) for k, beta in enumerate(both))
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class CtganSettings(NetworkSettings):
    """What is chosen about a CTGAN; the published settings where nothing is declared."""

    name: ClassVar[str] = "ctgan"
    mechanism: ClassVar[str] = "CTGAN, trained anew by every draw"
    fixed: ClassVar[Mapping[str, str]] = {
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

    epochs: int = option(300, whole)
    """Passes over the training rows, each of as many steps as whole batches fit them, at least
    one."""
    batch_size: int = option(500, partial(whole, least=2))
    """Rows of a step, a multiple of `pac`."""
    embedding: int = option(128, whole)
    """Dimension of the noise that a row is made from."""
    generator: tuple[int, ...] = option((256, 256), widths)
    """Widths of the generator's hidden layers."""
    critic: tuple[int, ...] = option((256, 256), widths)
    """Widths of the critic's hidden layers."""
    pac: int = option(10, whole)
    """Rows that the critic judges together."""
    critic_steps: int = option(1, whole)
    """Steps of the critic for one of the generator."""
    generator_rate: float = option(2e-4, positive_decimal)
    """Of the generator's Adam."""
    critic_rate: float = option(2e-4, positive_decimal)
    """Of the critic's Adam."""
    generator_decay: float = option(1e-6, decimal)
    """Of the generator's Adam, as part of the gradient."""
    critic_decay: float = option(1e-6, decimal)
    """Of the critic's Adam, as part of the gradient."""
    betas: tuple[float, float] = option((0.5, 0.9), _betas)
    """Running averages of both."""
    temperature: float = option(0.2, positive_decimal)
    """Of the Gumbel softmax."""
    slope: float = option(0.2, partial(decimal, high=1.0))
    """Of the critic's leaky ReLU."""
    dropout: float = option(0.5, partial(decimal, high=BELOW_ONE))
    """The share of the critic's units that each step leaves out."""
    penalty: float = option(10.0, decimal)
    """Weight of the gradient penalty."""
    momentum: float = option(0.1, partial(decimal, high=1.0))
    """How fast the averages follow by which batch normalisation works in a release."""
    conditions_by: ConditionLaw = option("frequencies", one_of("frequencies", "log frequencies"))
    """Every row is made under a condition, a category of a column that is drawn uniformly; in a
    release by its "frequencies" among the training rows, as in the paper, or by "log frequencies",
    as in training and in later releases of the authors' package."""
    condition_by: Literal["rejection", "likelihood"] = option(
        "rejection", one_of("rejection", "likelihood")
    )
    """A `condition` makes a category likely and not certain. With "rejection" rows without it are
    made again, and where there are several categories a row counts as one of the category that it
    came out with; with "likelihood" rows are kept, as published."""

    def __post_init__(self) -> None:
        """Refuse rows of a step that cannot be judged in equal groups."""
        if self.batch_size % self.pac:
            raise RegistryError(
                "ctgan: batch_size is a multiple of pac, the rows that are judged together, got "
                f"{self.batch_size} and {self.pac}"
            )

    def steps(self, rows: int) -> int:
        """Return how many steps the generator takes on so many training rows."""
        return self.epochs * max(1, rows // self.batch_size)


def _column(given: object, name: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise RegistryError(f"{name} is the name of a column, got {given!r}")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class TabDdpmSettings(NetworkSettings):
    """How a TabDDPM is built and trained; the defaults are those of the published audit."""

    name: ClassVar[str] = "tabddpm"
    mechanism: ClassVar[str] = "TabDDPM, trained anew by every draw"
    fixed: ClassVar[Mapping[str, str]] = {
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

    outcome: str | None = option(None, _column)
    """A column of categories that the network is told and does not make itself; in a release it has
    the frequencies of the training rows, or what `condition` says. Without it a `condition` names
    the column that is told; with neither, all columns are made."""
    categories: Literal["multinomial", "as numbers"] = option(
        "multinomial", one_of("multinomial", "as numbers")
    )
    """"multinomial" diffusion, or "as numbers", as in the audit of the paper: a number of 0 or 1
    for every category, which is diffused as numbers are, and the greatest of which says the
    category."""
    scaling: Literal["standard", "quantile"] = option("standard", one_of("standard", "quantile"))
    """"standard" for mean 0 and deviation 1, or "quantile" for normal scores of ranks."""
    nearest: int = option(32, partial(whole, least=0))
    """A column of at most so many different numbers, all of them whole, is set to the nearest
    number trained on; 0 for none."""
    steps: int = option(5_000, whole)
    """Steps of the optimiser."""
    batch_size: int = option(4_096, whole)
    """Rows of a step."""
    times: int = option(100, partial(whole, least=2))
    """Steps of the diffusion."""
    learning_rate: float = option(1e-3, positive_decimal)
    """Of AdamW; it falls linearly to nothing."""
    weight_decay: float = option(0.0, decimal)
    """Of AdamW."""
    average: float = option(0.999, partial(decimal, high=0.999999))
    """What a running average of the weights keeps at every step. Rows are sampled with the average,
    which starts from random weights: with fewer steps than several times 1 / (1 - average) it has
    not forgotten them."""
    hidden: tuple[int, ...] = option((256, 256, 256), widths)
    """Widths of the hidden layers, multiples of 16."""
    embedding: int = option(128, whole)
    """Width of the embeddings of times and classes, a multiple of 16."""
    dropout: float = option(0.0, partial(decimal, high=0.99))
    """The share of hidden units that a step leaves out."""

    def __post_init__(self) -> None:
        """Refuse widths that draws would not have the same bits with in every batch."""
        uneven = [width for width in (*self.hidden, self.embedding) if width % MULTIPLE]
        if uneven:
            raise RegistryError(
                f"tabddpm: the widths in hidden, and embedding, are multiples of {MULTIPLE}, got "
                f"{uneven}"
            )
