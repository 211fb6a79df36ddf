"""A private graphical model of cells, by OpenDP and mbi: fitted with AIM or MST, and sampled.

Columns of cells come in, and `Factors` go out: plain numbers that rows are drawn from. What a fit
costs is told in rho of zero-concentrated privacy (zCDP).

JAX and polars start threads, after which no process may fork: both are loaded where something is
fitted or sampled, which is in the fork that draws.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np

from proxyguard.adapters.categorical import Measurement
from proxyguard.adapters.kept import FILE
from proxyguard.adapters.synthesizers import seeded
from proxyguard.adapters.tabular import CategoryCodes
from proxyguard.errors import DrawError, TableError
from proxyguard.exact.rounding import Array

ColumnPair = tuple[str, str]


class Domain(Protocol):
    """The sizes of columns, as mbi has them."""

    def size(self, columns: tuple[str, ...], /) -> int:
        """Return how many cells a table of these columns has."""


class Measured(Protocol):
    """Noisy counts of a table, as mbi has them."""

    clique: tuple[str, ...]
    stddev: float


class GraphicalFactors(Protocol):
    """Tables by the columns they are of, as mbi has them."""

    def supports(self, columns: tuple[str, ...], /) -> bool:
        """Return whether a table has all of these columns."""

    def expand(self, cliques: Sequence[tuple[str, ...]], /) -> GraphicalFactors:
        """Return the same model in larger tables."""

    def __sub__(self, other: GraphicalFactors, /) -> GraphicalFactors:
        """Return the differences."""

    def __rmul__(self, number: np.float64, /) -> GraphicalFactors:
        """Return multiples."""

    def dot(self, other: GraphicalFactors, /) -> np.float64:
        """Return the sum of products."""


class GraphicalModel(Protocol):
    """What mbi fits."""

    total: float


# Steps of mirror descent in each round; as many as mbi takes.
STEPS = 1_000
# One thread, on the processor: beside it other draws run. Read when the libraries are loaded.
THREADS = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "POLARS_MAX_THREADS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPlan:
    """What one private fit is asked for besides the counts."""

    algorithm: Literal["aim", "mst"]
    rho: Fraction
    singles_share: Fraction
    measure_split: float
    max_size: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Factors:
    """A private graphical model as plain numbers: all that a fit gives, and rows are drawn from.

    ``logs`` are the logarithms of its factors, each by the columns that it is of; ``total`` is the
    noisy number of rows.
    """

    logs: Mapping[tuple[str, ...], Array]
    total: float

    def to_tables(self) -> dict[str, Array]:
        """Return tables by name, as `KeptFit` keeps them."""
        factors = {json.dumps(clique): table for clique, table in self.logs.items()}
        return {TOTAL: np.array([self.total]), **factors}

    @classmethod
    def from_tables(cls, tables: Mapping[str, Array]) -> Factors:
        """Return what `to_tables` was made of."""
        try:
            logs = {tuple(json.loads(name)): t for name, t in tables.items() if name != TOTAL}
            return cls(logs, float(tables[TOTAL][0]))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise TableError(f"aim: {FILE} holds no factors of a model: {error!r}") from error

    def sample(self, rows: int, method: str, number: int) -> dict[str, CategoryCodes]:
        """Return the cells of so many rows by column, drawn by mbi from a seed."""
        os.environ.update(THREADS)
        import mbi

        sizes = {
            name: size
            for clique, table in self.logs.items()
            for name, size in zip(clique, table.shape, strict=True)
        }
        domain = mbi.Domain.fromdict(sizes)
        factors = {c: mbi.Factor(domain.project(c), table) for c, table in self.logs.items()}
        potentials = mbi.CliqueVector(domain, list(factors), factors)
        # Rows are drawn from the potentials alone, so that the marginals need not be computed.
        model = mbi.MarkovRandomField(potentials=potentials, marginals=potentials, total=self.total)
        with seeded(number):  # mbi draws from the global generator
            drawn = model.synthetic_data(rows, method).df
        return {name: np.asarray(drawn[name], dtype=np.int64) for name in sizes}


# The kept table that holds the noisy number of rows; the others are named by their columns.
TOTAL = "total"


def fit_privately(
    codes: Mapping[str, CategoryCodes],
    sizes: Mapping[str, int],
    pairs: Sequence[ColumnPair],
    plan: FitPlan,
) -> Factors:
    """Return a private graphical model of columns of cells, rho-zCDP for ``plan.rho``.

    Parameters
    ----------
    codes
        The cell of every row, by column.
    sizes
        How many cells a column has.
    pairs
        What AIM may measure.
    plan
        The algorithm and its budget.

    Raises
    ------
    DrawError
        If OpenDP refuses: the memory that is allowed holds no model, for one.

    Guarantee
    ---------
    One row more or less changes one cell of every column's counts by 1. These are measured at
    once, and OpenDP's map says that their rho is at most the share of it; a compositor of OpenDP's
    spends at most the rest. Rhos of measurements on the same rows add up.
    """
    os.environ.update(THREADS)
    import mbi
    import opendp.prelude as dp
    import polars as pl
    from opendp.extras import mbi as opendp_mbi
    from opendp.mod import OpenDPException

    dp.enable_features("contrib")
    # Names of our own: OpenDP refuses a column named "len".
    short = {name: f"c{k}" for k, name in enumerate(codes)}
    counts = [np.bincount(codes[name], minlength=sizes[name]) for name in codes]
    noisy, scale, spent = gaussian_counts(counts, plan.rho * plan.singles_share)
    measured = [
        mbi.LinearMeasurement(table.astype(np.float64), (column,), stddev=scale)
        for column, table in zip(short.values(), noisy, strict=True)
    ]
    domain = mbi.Domain.fromdict({short[name]: size for name, size in sizes.items()})
    start = opendp_mbi.ContingencyTable(
        # Keys of a table that is given are taken as they are: no cell is added for values that
        # are not among them, of which there are none.
        keys={short[name]: list(range(size)) for name, size in sizes.items()},
        cuts={},
        marginals=opendp_mbi.Marginals({counted.clique: [counted] for counted in measured}),
        model=mirror_descent(domain, measured),
    )
    rest = _most_double(plan.rho - spent)
    context = dp.Context.compositor(
        data=pl.LazyFrame({short[n]: pl.Series(c, dtype=pl.Int64) for n, c in codes.items()}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rest),
    )
    algorithm = (
        opendp_mbi.AIM(
            estimator=mirror_descent,
            oneway="unkeyed",  # all keys are known: single columns were measured above
            queries=[opendp_mbi.Count(by=(short[a], short[b])) for a, b in pairs],
            measure_split=plan.measure_split,
            max_size=plan.max_size,
            rounds=plan.rounds,
        )
        if plan.algorithm == "aim"
        else opendp_mbi.MST(
            estimator=mirror_descent, oneway="unkeyed", measure_split=plan.measure_split
        )
    )
    try:
        query = context.query(rho=rest).contingency_table(table=start, algorithm=algorithm)
        model = query.release().model
    except (OpenDPException, ValueError) as error:
        raise DrawError(f"OpenDP gave no model: {error}") from error
    long = {column: name for name, column in short.items()}
    logs = {
        tuple(long[column] for column in clique): np.asarray(model.potentials[clique].values)
        for clique in model.potentials.cliques
    }
    return Factors(logs, float(model.total))


def mirror_descent(
    domain: Domain, measured: Sequence[Measured], *, potentials: GraphicalFactors | None = None
) -> GraphicalModel:
    """Return the model that fits noisy counts best, as OpenDP asks for it in every round.

    It takes the steps of mbi's own (`mbi.estimation.mirror_descent`), by mbi's oracle and loss.
    That one has three functions compiled for the graph of a round, which is most of what a round
    costs: for the steepness of the loss, for marginals, and for a step with two calls of the
    oracle. Here the steepness is computed, and one function with one call serves for all: a step of
    length 0 from nowhere gives the marginals to begin with.
    """
    import jax
    import mbi

    loss = mbi.marginal_loss.from_linear_measurements(measured)
    total = mbi.estimation.minimum_variance_unbiased_total(measured)
    start = mbi.CliqueVector.zeros(domain, loss.cliques) if potentials is None else potentials
    if not all(start.supports(clique) for clique in loss.cliques):
        start = start.expand(loss.cliques)
    oracle = partial(mbi.marginal_oracles.message_passing_fast, total=total)

    def step(_: int, state: Descent) -> Descent:
        slope = jax.grad(loss)(state.marginals)
        further = state.potentials - state.length * slope
        marginals = oracle(further)
        loss_there = loss(marginals)
        gain = 0.5 * state.length * slope.dot(state.marginals - marginals)
        enough = state.loss - loss_there >= gain  # Armijo's condition
        longer = Descent(further, marginals, loss_there, 1.01 * state.length)
        shorter = state._replace(length=0.5 * state.length)
        after: Descent = jax.tree.map(partial(jax.numpy.where, enough), longer, shorter)
        return after

    descend = jax.jit(lambda steps, state: jax.lax.fori_loop(0, steps, step, state))
    nowhere = jax.tree.map(jax.numpy.zeros_like, jax.eval_shape(oracle, start))
    real = jax.eval_shape(loss, nowhere).dtype.type  # a loop keeps the kinds of its numbers
    first = descend(1, Descent(start, nowhere, real(np.inf), real(0.0)))
    length = real(2.0 / (steepness(domain, loss.cliques, measured) * total))
    last = descend(STEPS, first._replace(length=length))
    model: GraphicalModel = mbi.MarkovRandomField(
        potentials=last.potentials, marginals=last.marginals, total=total
    )
    return model


class Descent(NamedTuple):
    """Where mirror descent stands: the model, its marginals and loss, and the next step's length.

    JAX takes it apart and puts it together again, with numbers or with what stands for them.
    """

    potentials: GraphicalFactors
    marginals: GraphicalFactors
    loss: np.float64
    length: np.float64


def steepness(
    domain: Domain, cliques: Sequence[tuple[str, ...]], measured: Sequence[Measured]
) -> float:
    """Return the Lipschitz constant of the gradient of the squared loss of noisy counts.

    In a table of ``n`` cells a measurement of ``m`` of its sums has a Hessian with the largest
    eigenvalue ``n / m / stddev**2``, of the constant vector; that vector is common to all
    measurements of one table, so that their eigenvalues add up.
    """
    sums = dict.fromkeys(cliques, 0.0)
    for counted in measured:
        # As mbi projects: from the first table that has its columns.
        table = next(c for c in cliques if set(counted.clique) <= set(c))
        cells = domain.size(table) / domain.size(counted.clique)
        sums[table] += cells / float(counted.stddev) ** 2
    return max(sums.values())


def gaussian_counts(
    counts: Sequence[CategoryCodes], rho: Fraction
) -> tuple[list[CategoryCodes], float, Fraction]:
    """Return tables with OpenDP's discrete Gaussian noise, its scale, and the rho they cost.

    Guarantee
    ---------
    One row more or less changes one cell of each table by 1, so all of them laid end to end by
    the root of their number in L2. OpenDP's map from that distance, which rounds up, is at most
    ``rho``.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    distance = math.nextafter(math.sqrt(len(counts)), math.inf)
    scale = distance / math.sqrt(2.0 * float(rho))
    while True:
        measurement: Measurement = dp.m.make_gaussian(*space, scale=scale)
        spent = Fraction(measurement.map(distance))
        if spent <= rho:
            break
        scale = math.nextafter(scale, math.inf)  # rounding may only add noise
    noisy = np.array(measurement([int(count) for count in np.concatenate(counts)]), dtype=np.int64)
    return np.split(noisy, np.cumsum([table.size for table in counts])[:-1]), scale, spent


def _most_double(number: Fraction) -> float:
    """Return the largest double that is not above a number."""
    nearest = float(number)
    return nearest if nearest <= number else math.nextafter(nearest, 0.0)
