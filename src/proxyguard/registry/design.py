"""How the target records were sampled: what the component tests may rely on.

Three kinds of sampling decide which tests are valid (theory section 1):

 * iid                   independent records of one law (also: drawn with replacement
                         from a sealed population; also: clusters, one value a cluster;
                         also: records with design weights, one weighted value a record)
 * independent           independent records, not identically distributed; the claim is
                         about the average of their means. Strata sampled in proportion
                         to their weights, and simple random sampling without replacement
                         from a pool disjoint from development, behave alike
 * weighted              fixed strata whose weights are not proportional to their sizes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import ceil, inf
from typing import TypeVar

from proxyguard.errors import RegistryError
from proxyguard.registry.numbers import (
    MOST_POOL,
    MOST_RECORDS,
    canonical_label,
    exact,
    flag,
    is_whole,
    whole,
)

Quantity = TypeVar("Quantity", int, Fraction)


class Sampling(Enum):
    """The part of a design that decides which component tests are valid."""

    IID = "iid"
    INDEPENDENT = "independent"
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Iid:
    """Independent records of one law.

    Parameters
    ----------
    with_replacement
        States that the records were drawn with replacement from a sealed population, so that a
        record id may occur more than once.

    Examples
    --------
    >>> Iid().sampling.value
    'iid'
    """

    with_replacement: bool = False
    sampling = Sampling.IID
    over = ""  # what a mean is over, where a sentence must say so

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "with_replacement", flag(self.with_replacement, "with_replacement")
        )


@dataclass(frozen=True, slots=True)
class Independent:
    """Independent records that need not share a law; the claim is about their average mean.

    Examples
    --------
    >>> Independent().sampling.value
    'independent'
    """

    sampling = Sampling.INDEPENDENT
    over = "averaged over these target records"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutReplacement:
    """A simple random sample without replacement from a finite pool.

    The pool must be disjoint from development and sampled after it. A random split of one
    table into development and reserve is not that: given the development part the reserve
    is fixed; declare its rows as `Iid`.

    Parameters
    ----------
    pool
        How many records the pool has.

    Examples
    --------
    >>> WithoutReplacement(pool=5000).sampling.value
    'independent'
    """

    pool: int
    sampling = Sampling.INDEPENDENT

    def __post_init__(self) -> None:
        object.__setattr__(self, "pool", whole(self.pool, "pool", most=MOST_POOL))

    @property
    def over(self) -> str:
        """What a mean is over, in words."""
        return f"averaged over the pool of {self.pool:,} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratified:
    """Fixed stratum sizes and registered target weights (paper Proposition 11).

    Each stratum is an iid or a without-replacement sample. The estimand is the weighted
    mean; with weights in proportion to the sizes it is the plain mean of the records. Strata
    are named as the records name them, in canonical text: 1, 1.0 and "1" are one stratum.

    Parameters
    ----------
    sizes
        How many target records each stratum has.
    weights
        The share of each stratum in the population, summing to exactly 1, decimal strings and
        numbers being read exactly; or how many each has there, whole numbers, which are divided by
        their sum. They are facts of the population: how many records of a stratum were set apart
        for development changes nothing about them.

    Raises
    ------
    RegistryError
        Where the two do not name the same strata, or weights are neither shares that sum to 1 nor
        whole numbers.

    Examples
    --------
    >>> sizes = {"city": 300, "rural": 100}
    >>> design = Stratified(sizes=sizes, weights={"city": "0.6", "rural": "0.4"})
    >>> design.n_records, design.proportional
    (400, False)
    >>> Stratified(sizes=sizes, weights={"city": 6_000_000, "rural": 4_000_000}) == design
    True
    """

    sizes: Mapping[str, int]
    weights: Mapping[str, Fraction]  # decimal strings and numbers are read exactly

    def __post_init__(self) -> None:
        for name in ("sizes", "weights"):
            if not isinstance(getattr(self, name), Mapping):
                raise RegistryError(f"{name} map strata to numbers, got {getattr(self, name)!r}")
        sizes = _by_stratum("sizes", self.sizes)
        weights = stratum_shares(_by_stratum("weights", self.weights))
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "weights", weights)
        if set(self.sizes) != set(weights):
            raise RegistryError(
                f"strata sizes name {sorted(map(str, self.sizes))}, "
                f"weights name {sorted(map(str, weights))}; both must name every stratum"
            )
        if any(not is_whole(size) or size < 1 for size in self.sizes.values()):
            raise RegistryError(
                f"every stratum has a whole number of records, at least 1; got {dict(self.sizes)}"
            )

    @property
    def over(self) -> str:
        """What a mean is over, in words."""
        return "averaged over the strata with their registered weights"

    @property
    def n_records(self) -> int:
        """The registered total size."""
        return sum(self.sizes.values())

    @property
    def proportional(self) -> bool:
        """Whether ``w_g/n_g`` is the same in every stratum."""
        return len({self.weights[g] / self.sizes[g] for g in self.sizes}) == 1

    @property
    def sampling(self) -> Sampling:
        """Proportional strata behave like independent records; others are weighted."""
        return Sampling.INDEPENDENT if self.proportional else Sampling.WEIGHTED

    @property
    def effective_size(self) -> Fraction:
        """``1 / sum_g(w_g^2/n_g)``, at most the number of records."""
        return 1 / sum((self.weights[g] ** 2 / self.sizes[g] for g in self.sizes), Fraction(0))

    def of_size(self, n: int) -> Stratified:
        """Return these strata with ``n`` records in all, in the proportions of their sizes.

        Each keeps one record at the least, and its weight.

        >>> halves = {"city": "1/2", "rural": "1/2"}
        >>> Stratified(sizes={"city": 300, "rural": 100}, weights=halves).of_size(1000).sizes
        {'city': 750, 'rural': 250}
        """
        if n == self.n_records:
            return self
        total, sizes, reached, given = self.n_records, {}, 0, 0
        for stratum, size in self.sizes.items():
            reached += size
            # Each ends at its share of the whole, so that rounding never adds up.
            sizes[stratum] = max(1, round(Fraction(reached * n, total)) - given)
            given += sizes[stratum]
        return self._with_sizes(sizes)

    def _with_sizes(self, sizes: Mapping[str, int]) -> Stratified:
        return Stratified(sizes=sizes, weights=self.weights)


def stratum_shares(weights: Mapping[str, object]) -> dict[str, Fraction]:
    """Return weights of strata as shares that sum to exactly 1.

    Parameters
    ----------
    weights
        Such shares; or whole numbers, how many each stratum has, which are divided by their sum.

    Raises
    ------
    RegistryError
        They are neither: rounded shares sum to something else, and nobody but their author knows
        which of them is off.

    Examples
    --------
    >>> stratum_shares({"city": "0.6", "rural": "0.4"}) == stratum_shares({"city": 3, "rural": 2})
    True
    """
    read = {stratum: exact(weight, "a stratum's weight") for stratum, weight in weights.items()}
    total = sum(read.values(), Fraction(0))
    if any(weight <= 0 for weight in read.values()):
        raise RegistryError(
            f"stratum weights must be positive and sum to exactly 1, got {dict(weights)}"
        )
    if total != 1 and not all(weight.denominator == 1 for weight in read.values()):
        decimal = f"{float(total):.15g}"
        shown = decimal if Fraction(decimal) == total else str(total)
        raise RegistryError(
            f"stratum weights must sum to exactly 1, and sum to {shown}; give in their place how "
            "many each stratum has in the population, as whole numbers, which are divided by their "
            "sum, or shares as decimal text or fractions that sum to 1"
        )
    return {stratum: weight / total for stratum, weight in read.items()}


def _by_stratum(name: str, values: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the values by canonical names of strata; two spellings of one name are refused."""
    named: dict[str, Quantity] = {}
    for label, quantity in values.items():
        try:
            # As the records are read: else "01" in the design would be no stratum of theirs.
            stratum = canonical_label(label)
        except (TypeError, UnicodeDecodeError) as error:
            raise RegistryError(f"{name}: {error}") from None
        if not stratum or stratum in named:
            raise RegistryError(
                f"{name} must name every stratum once, in canonical text; got {list(values)}"
            )
        named[stratum] = quantity
    return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """Independent clusters of dependent records; the cluster is the unit of inference.

    Parameters
    ----------
    weighting
        ``"cluster"`` makes a claim about the mean of cluster means; ``"record"`` about the mean
        over records, which needs ``max_size``.
    max_size
        A registered bound on the size of every cluster that could be sampled.

    Examples
    --------
    >>> Clustered(weighting="record", max_size=12).max_size
    12
    """

    weighting: str = "cluster"
    max_size: int | None = None
    sampling = Sampling.IID

    def __post_init__(self) -> None:
        if not isinstance(self.weighting, str) or self.weighting not in ("cluster", "record"):
            raise RegistryError(f'weighting is "cluster" or "record", got {self.weighting!r}')
        if self.max_size is not None:
            object.__setattr__(
                self, "max_size", whole(self.max_size, "max_size", most=MOST_RECORDS)
            )
        if self.weighting == "record" and self.max_size is None:
            raise RegistryError(
                "a record-weighted claim over clusters needs max_size, a bound on the size of "
                f"every cluster that could be sampled; got {self.max_size!r}"
            )

    @property
    def over(self) -> str:
        """What a mean is over, in words."""
        if self.weighting == "cluster":
            return "averaged over clusters, each counting once"
        return "averaged over records, whatever their cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedClusters(Stratified):
    """Strata, each sampled by whole clusters, which are the units of inference.

    Clusters of a stratum are an iid or a without-replacement sample of its clusters. Their values
    take the place of records in `Stratified`: sizes count clusters, and the claim is about the
    weighted mean over strata of the mean over clusters. How strata count depends on how their
    records do (theory section 1, *Weights in clusters and strata*):

     * clusters or records that count alike, and weights of origin ``"within strata"``: `weights`,
       the strata's shares of all clusters of the population
     * design weights, which say how many persons of the population a record represents and hold
       already how thinly its stratum was sampled: `sampled`, the clusters that the survey sampled
       whose weights these are. Shares of the population would count every stratum twice; shares of
       the target would count a stratum for too little of which a pilot took more than of others.

    Where single records are sampled in strata, and have weights, each record is a cluster of its
    own.

    Parameters
    ----------
    sizes
        How many clusters of the target each stratum has.
    weights
        The share of each stratum in all clusters, or how many clusters it has, as in `Stratified`;
        left out beside design weights.
    sampled
        Beside design weights: how many clusters of each stratum the whole survey sampled, a pilot
        that was set apart included.
    clusters
        How clusters count within a stratum: `Clustered`, or `WeightedClusters`.

    Raises
    ------
    RegistryError
        As for `Stratified`, where the clusters are not declared as `Clustered`, or where strata
        count by another fact than their records need.

    Examples
    --------
    >>> halves = {"north": "1/2", "south": "1/2"}
    >>> design = StratifiedClusters(sizes={"north": 20, "south": 30}, weights=halves)
    >>> design.clusters.weighting, design.proportional
    ('cluster', False)

    A survey of 40 households in either stratum, of which a pilot took 10 in the south:

    >>> persons = WeightedClusters(max_weight=800, origin="design")
    >>> survey, left = {"north": 40, "south": 40}, {"north": 40, "south": 30}
    >>> StratifiedClusters(sizes=left, sampled=survey, clusters=persons).weights["south"]
    Fraction(1, 2)
    """

    weights: Mapping[str, Fraction] = field(default_factory=dict)
    sampled: Mapping[str, int] = field(default_factory=dict)
    clusters: Clustered = field(default_factory=Clustered)

    def __post_init__(self) -> None:
        if not isinstance(self.clusters, Clustered):
            raise RegistryError(f"clusters is Clustered(...), got {self.clusters!r}")
        if not isinstance(self.sampled, Mapping):
            raise RegistryError(f"sampled maps strata to numbers, got {self.sampled!r}")
        if counts_by_sample(self.clusters):
            shares, sampled = self._shares_of_sample()
            object.__setattr__(self, "sampled", sampled)
            object.__setattr__(self, "weights", shares)
        elif self.sampled:
            raise RegistryError(
                "sampled is for strata whose records have design weights, which say how many "
                "persons each represents; here strata count by weights, their shares of all "
                "clusters of the population: leave sampled out"
            )
        # By name: a class with slots is made anew, and super() looks for the old one.
        Stratified.__post_init__(self)

    def _shares_of_sample(self) -> tuple[Mapping[str, Fraction], Mapping[str, int]]:
        """Return the strata's shares of the survey that design weights are of, and its clusters."""
        if not isinstance(self.sizes, Mapping):
            raise RegistryError(f"sizes map strata to numbers, got {self.sizes!r}")
        sizes, sampled = _by_stratum("sizes", self.sizes), _by_stratum("sampled", self.sampled)
        if not sampled:
            asked = ", ".join(f"{g} = ..." for g in sorted(sizes))
            raise RegistryError(
                "beside design weights of records write sampled in place of weights: how many "
                "clusters of each stratum the survey sampled whose weights these are, a pilot that "
                f"was set apart included, sampled = {{ {asked} }}. A record's weight holds how "
                "thinly its stratum was sampled by that survey, so that strata count by their "
                "shares of it: shares of the population would count them twice, and shares of the "
                "target too little where a pilot took more of a stratum than of others. Where a "
                "record's weight compares it with records of its own stratum alone, write origin "
                f'= "{WITHIN}", and weights, the strata\'s shares of all clusters'
            )
        if set(sampled) != set(sizes):
            raise RegistryError(
                f"strata sizes name {sorted(sizes)}, sampled names {sorted(sampled)}; both must "
                "name every stratum"
            )
        few = [g for g in sorted(sizes) if not _at_least(sampled[g], sizes[g])]
        if few:
            told = ", ".join(f"{g} {sampled[g]} (target {sizes[g]})" for g in few)
            raise RegistryError(
                "sampled counts the clusters of the whole survey, whole numbers that are at least "
                f"the target's: {told}"
            )
        total = sum(sampled.values())
        shares = {g: Fraction(int(count), int(total)) for g, count in sampled.items()}
        if self.weights and stratum_shares(_by_stratum("weights", self.weights)) != shares:
            raise RegistryError(
                "beside sampled leave weights out: strata count by their shares of what the survey "
                "sampled"
            )
        return shares, sampled

    def _with_sizes(self, sizes: Mapping[str, int]) -> Stratified:
        # A survey that is as many times larger as this takes: strata keep their shares of it.
        times = max((ceil(sizes[name] / n) for name, n in self.sampled.items()), default=1)
        sampled = {name: n * times for name, n in self.sampled.items()}
        weights = {} if sampled else self.weights
        return StratifiedClusters(
            sizes=sizes, weights=weights, sampled=sampled, clusters=self.clusters
        )

    @property
    def over(self) -> str:
        """What a mean is over, in words."""
        if self.clusters.weighting == "cluster":
            return f"{self.clusters.over}, in strata with their registered weights"
        return f"{self.clusters.over}, {shares_of(self.clusters)}"


def shares_of(clusters: Clustered) -> str:
    """Return in words how strata count whose clusters do not count alike."""
    if counts_by_sample(clusters):
        return (
            "strata with their shares of the clusters that the whole survey sampled, as its author "
            "states them"
        )
    if isinstance(clusters, WeightedClusters):
        # The factor of a record in what is claimed: weights may hold the strata's shares already.
        return (
            "each weight times the registered weight of its stratum over the stratum's number of "
            "sampled clusters"
        )
    # A stratum of large clusters has a larger part of the records than of the clusters.
    return "with the registered weights of the strata as their shares of all clusters"


def _at_least(sampled: object, size: object) -> bool:
    """Return whether a survey sampled a whole number, no fewer than the target has of it."""
    if not is_whole(sampled):
        return False
    return not is_whole(size) or int(sampled) >= int(size)  # a size that is none is told as such


def counts_by_sample(clusters: Clustered | None) -> bool:
    """Return whether strata count by what a survey sampled of them: beside design weights."""
    return isinstance(clusters, WeightedClusters) and not within_strata(clusters)


# Weights of such an origin say nothing of how thinly a stratum was sampled.
WITHIN = "within strata"


def within_strata(design: Design) -> bool:
    """Return whether weights of records compare those of one stratum alone."""
    return isinstance(design, WeightedClusters) and design.origin == WITHIN


# Weights of such an origin make each record depend on all others of the sample.
CALIBRATED = (
    "weights that were calibrated on the sample itself (post-stratified, raked, scaled to a total) "
    "depend on all of its records, so that no two weighted records are independent, and no test "
    'covers them: give the weights from before calibration, with origin "design"; a '
    "post-stratified sample is covered as strata whose weights are the population's shares"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """Independent records, each with the number of persons that it represents.

    The claim is per person represented: it is about the mean of ``w x`` over the mean of ``w``
    (theory section 1). A claim per record leaves the weights out and declares `Iid`.

    Parameters
    ----------
    max_weight
        ``w_max``, a registered bound on the weight of every record that could be sampled; a
        decimal string or number is read exactly.
    origin
        ``"design"`` states that a record's weight follows from how it was sampled, and would be
        the same in any other sample. Weights that were calibrated on the sample are refused.

    Raises
    ------
    RegistryError
        Where the bound is not positive, or the weights are no design weights.

    Examples
    --------
    >>> Weighted(max_weight="12.5", origin="design").max_weight
    Fraction(25, 2)
    """

    max_weight: Fraction
    origin: str
    sampling = Sampling.IID
    over = "averaged over the persons that records represent"

    def __post_init__(self) -> None:
        try:
            bound = exact(self.max_weight)
            scaled = float(bound)
        except (RegistryError, OverflowError):
            bound, scaled = Fraction(0), 0.0
        if not 0.0 < scaled < inf:
            raise RegistryError(
                "max_weight is the largest weight that a record could have, a positive number; "
                f"got {self.max_weight!r}"
            )
        object.__setattr__(self, "max_weight", bound)
        if isinstance(self.origin, str) and self.origin == "calibrated":
            raise RegistryError(CALIBRATED)
        if not isinstance(self.origin, str) or self.origin != "design":
            raise RegistryError(
                'origin says where the weights come from: "design" for weights that were known '
                f"before the records were drawn; got {self.origin!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedClusters(Clustered):
    """Independent clusters of dependent records with weights; the cluster is the unit of inference.

    The claim is per person represented, as for `Weighted`, whatever the clusters (theory section
    1). A cluster whose persons are few tells little.

    Parameters
    ----------
    max_weight
        A registered bound on what the records of one cluster weigh together, of every cluster that
        could be sampled; a decimal string or number is read exactly.
    origin
        ``"design"``, as for `Weighted`; or ``"within strata"``, beside strata, for design weights
        that compare records of one stratum and leave to its registered weight what it stands for.
    max_size
        A registered bound on the size of every cluster, if there is any.

    Raises
    ------
    RegistryError
        As for `Weighted`.

    Examples
    --------
    >>> WeightedClusters(max_weight=800, origin="design").weighting
    'weight'
    """

    weighting: str = field(default="weight", init=False)
    max_weight: Fraction
    origin: str

    def __post_init__(self) -> None:
        origin = "design" if isinstance(self.origin, str) and self.origin == WITHIN else self.origin
        weights = Weighted(max_weight=self.max_weight, origin=origin)
        object.__setattr__(self, "max_weight", weights.max_weight)
        if self.max_size is not None:
            object.__setattr__(
                self, "max_size", whole(self.max_size, "max_size", most=MOST_RECORDS)
            )

    @property
    def over(self) -> str:
        """What a mean is over, in words."""
        return "averaged over the persons that records represent, whatever their cluster"


Design = Iid | Independent | WithoutReplacement | Stratified | Clustered | Weighted
DESIGNS = (
    Iid,
    Independent,
    WithoutReplacement,
    Stratified,
    StratifiedClusters,
    Clustered,
    WeightedClusters,
    Weighted,
)


def clusters_of(design: Design) -> Clustered | None:
    """Return how clusters count, where those are the units of inference; else nothing."""
    if isinstance(design, StratifiedClusters):
        return design.clusters
    return design if isinstance(design, Clustered) else None


def sees_losses(design: Design) -> bool:
    """Return whether tests see the losses of single records as they are.

    Cluster means and weighted losses are values between the bounds: none of them is a count.
    """
    return clusters_of(design) is None and not isinstance(design, Weighted)


def tests_excess(design: Design) -> bool:
    """Return whether tests see a unit's excess over the limit, scaled by what the unit weighs.

    The mean of such a claim is a ratio of two means of the target (theory section 1).
    """
    clusters = clusters_of(design)
    return has_weights(design) or (clusters is not None and clusters.weighting == "record")


def has_weights(design: Design) -> bool:
    """Return whether each record has a weight, how many persons it represents."""
    return isinstance(design, Weighted) or isinstance(clusters_of(design), WeightedClusters)


def as_design(design: object) -> Design:
    """Return the declared design, iid where none is; anything else is refused."""
    if design is None:
        return Iid()
    if isinstance(design, DESIGNS):
        if within_strata(design):
            raise RegistryError(f'weights "{WITHIN}" are beside strata: write origin = "design"')
        return design
    names = ", ".join(f"{kind.__name__}(...)" for kind in DESIGNS)
    raise RegistryError(f"design is one of {names}, got {design!r}")
