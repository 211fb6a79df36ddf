"""The target of an audit as declared: where its records come from, and how they were sampled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field, StrictStr, model_validator

from proxyguard.printable import found
from proxyguard.registry.design import (
    Clustered,
    Design,
    Iid,
    Stratified,
    StratifiedClusters,
    Weighted,
    WeightedClusters,
    WithoutReplacement,
    as_design,
    counts_by_sample,
    shares_of,
    stratum_shares,
)
from proxyguard.registry.fields import (
    DecimalText,
    DeclarationPart,
    FilePath,
    Label,
    Name,
    PoolSize,
    Positive,
    SeedNumber,
    Share,
    TableDigest,
    Text,
    number,
)
from proxyguard.registry.numbers import fold
from proxyguard.registry.requirement import check_range


class Reserve(DeclarationPart):
    """Rows of one table set aside by a registered seed, before any outcome is parsed.

    ``rows`` is left out for a stratified design, whose sizes say how many records of each stratum,
    or how many whole clusters where it is sampled by these, and for a clustered one, of which whole
    ``clusters`` are set aside.
    """

    example: ClassVar[str] = "{ rows = 1000, seed = 1 }"

    rows: Positive | None = None
    """How many records."""
    clusters: Positive | None = None
    """How many whole clusters."""
    seed: SeedNumber
    """Seed of the choice."""


class PopulationDraw(DeclarationPart):
    """Records drawn from a sealed population."""

    size: Positive
    """How many records."""
    replace: bool
    """Whether with replacement."""
    seed: SeedNumber
    """Seed of the draw."""


class ClusteredDesign(DeclarationPart):
    """Clusters of dependent records, and what weighs alike: clusters, records, or persons."""

    by: Name
    """The column that holds the clusters."""
    weighting: Literal["cluster", "record", "weight"] = "cluster"
    """Whether clusters or records weigh alike, or records have design weights."""
    max_size: Positive | None = None
    """Records of the largest cluster there can be."""
    weight: Name | None = None
    """The column that holds how many persons a record represents, where records have weights."""
    max_weight: DecimalText | None = None
    """The most that the records of one cluster could weigh together."""
    origin: Literal["design", "within strata", "calibrated"] | None = None
    """Where weights come from: the design, or that within strata, where they compare records of one
    stratum alone; those that were calibrated on the sample are refused."""

    LATER = ("weight", "max_weight", "origin")

    @model_validator(mode="after")
    def _weights_together(self) -> ClusteredDesign:
        parts = {name: getattr(self, name) for name in self.LATER}
        lacking = [name for name, given in parts.items() if given is None]
        weighted = self.weighting == "weight"
        if (weighted and lacking) or (not weighted and len(lacking) < len(parts)):
            raise ValueError(
                "clusters of records with weights have all of "
                'weighting = "weight", weight = "COLUMN", max_weight = "..." (of a whole cluster) '
                'and origin = "design", and other clusters none of these'
            )
        if weighted:
            _ = self.clustered
        return self

    @property
    def clustered(self) -> Clustered:
        """The rule by which clusters count."""
        if self.max_weight is None or self.origin is None:
            return Clustered(weighting=self.weighting, max_size=self.max_size)
        return WeightedClusters(
            max_weight=Fraction(self.max_weight), origin=self.origin, max_size=self.max_size
        )


# Keys of weights of records, which are none of strata.
_OF_RECORDS = frozenset({"weight", "weighting", "max_weight", "origin"})


class StratifiedDesign(DeclarationPart):
    """Fixed stratum sizes with registered weights (Proposition 11).

    Beside design weights of records strata count by what the survey sampled of them, and have
    ``sampled`` in place of ``weights``.
    """

    example: ClassVar[str] = (
        '{ by = "sex", sizes = { f = 500, m = 400 }, weights = { f = "0.5", m = "0.5" } }'
    )

    by: Name
    """The column that holds the strata."""
    sizes: dict[Name, Positive]
    """Records of each stratum, or clusters where it is sampled by clusters."""
    weights: dict[Name, Share | PoolSize] | None = None
    """Share of each stratum in the population, which sum to 1; or how many it has there, whole
    numbers that are divided by their sum."""
    clusters: ClusteredDesign | None = None
    """How each stratum is sampled by whole clusters, where it is."""
    sampled: dict[Name, Positive] | None = None
    """Beside design weights of records: how many clusters of each stratum the whole survey sampled
    whose weights these are, a pilot that was set apart included."""

    LATER = ("clusters", "sampled")

    @model_validator(mode="before")
    @classmethod
    def _as_surveys_have_it(cls, written: object) -> object:
        """Say where what surveys have stands, which would be no key of strata, or no table."""
        if not isinstance(written, Mapping) or not isinstance(written.get("sizes"), Mapping):
            return written
        weighted = _OF_RECORDS & set(written) or isinstance(written.get("weights"), str)
        if weighted:
            sampled = ", ".join(f"{name} = ..." for name in written["sizes"])
            raise ValueError(
                "the weights of records stand with the clusters in which these were sampled: "
                'clusters = { by = "COLUMN", weighting = "weight", weight = "COLUMN", max_weight = '
                f'"...", origin = "design" }}, and sampled = {{ {sampled} }} beside sizes. Records '
                "that were sampled one by one are clusters of one record: by a column that differs "
                "in every row, and sizes count records"
            )
        if isinstance(written.get("by"), list):
            raise ValueError(
                "strata of several columns are those of one that joins them, such as north-urban: "
                'add it to the table, and write by = "COLUMN"'
            )
        return written

    @model_validator(mode="after")
    def _agree(self) -> StratifiedDesign:
        for name, counted in (("weights", self.weights), ("sampled", self.sampled)):
            if counted is not None and set(self.sizes) != set(counted):
                raise ValueError(
                    f"sizes and {name} must name the same strata: sizes have "
                    f"{', '.join(self.sizes)}, {name} {', '.join(counted)}"
                )
        if not self.by_sample and self.weights is None:
            asked = ", ".join(f"{name} = ..." for name in self.sizes)
            raise ValueError(
                "weights are missing: the strata's shares of the population, which sum to 1, or "
                f"how many each has there, weights = {{ {asked} }}"
            )
        if not self.by_sample and self.sampled is not None and self.clusters is None:
            raise ValueError(
                "sampled is for strata whose records have design weights, which stand under "
                "clusters; here strata count by weights, their shares of the population: leave "
                "sampled out"
            )
        _ = self.stratified  # its own words say what is wrong with them
        return self

    @property
    def by_sample(self) -> bool:
        """Whether strata count by what the survey sampled of them: beside design weights."""
        return self.clusters is not None and counts_by_sample(self.clusters.clustered)

    @property
    def stratified(self) -> Stratified:
        """The design that component tests rely on."""
        sizes, weights = dict(self.sizes), stratum_shares(self.weights or {"": 1})
        if self.clusters is None:
            return Stratified(sizes=sizes, weights=weights)
        return StratifiedClusters(
            sizes=sizes, weights={} if self.weights is None else weights,
            sampled=self.sampled or {}, clusters=self.clusters.clustered,
        )  # fmt: skip


class WeightedDesign(DeclarationPart):
    """Records with design weights; the claim is per person represented."""

    weight: Name
    """The column that holds how many persons a record represents."""
    max_weight: DecimalText
    """The largest weight that a record could have."""
    origin: Literal["design", "calibrated"]
    """Where weights come from; those that were calibrated on the sample are refused."""

    @model_validator(mode="after")
    def _known_before(self) -> WeightedDesign:
        Weighted(max_weight=Fraction(self.max_weight), origin=self.origin)
        return self


class WithoutReplacementDesign(DeclarationPart):
    """A simple random sample from a pool disjoint from development."""

    pool: PoolSize
    """Records of the pool."""


class TableReading(DeclarationPart):
    """How a text table is read; Parquet needs none of it."""

    separator: StrictStr = Field(default=",", min_length=1, max_length=1)
    """What stands between values."""
    header: bool = True
    """Whether the first line names the columns."""
    columns: tuple[Name, ...] = ()
    """Names of the columns, where the file has no header."""
    missing: tuple[StrictStr, ...] = ("", "NA", "NaN", "nan")
    """Texts that stand for a missing value."""

    @model_validator(mode="after")
    def _named(self) -> TableReading:
        if self.header == bool(self.columns):
            raise ValueError("give columns where the file has no header, and only there")
        if (self.separator != "\t" and not " " <= self.separator <= "~") or self.separator == '"':
            raise ValueError(
                f"separator is {self.separator!r}; expected is a tab, or a sign of ASCII other "
                "than a quotation mark"
            )
        return self


_NO_UNIT = re.compile(r"[()+\-\u2212]|^[\s\d]|\s$|^[.,']+$")


class ColumnPart(DeclarationPart):
    """How one column is read, wherever a table of the audit is: development, target, releases.

    A date is read as its days since 1970-01-01, with the time of day as a fraction.
    """

    kind: Literal["number", "date", "category", "text"] | None = None
    """What it holds; a category, or a text, stays as it is written, also where it looks like a
    number."""
    thousands: Literal[",", ".", " ", "'"] | None = None
    """What stands between groups of three digits, of a number."""
    decimal: Literal[".", ","] | None = None
    """What stands before the decimals, of a number; a point unless told."""
    unit: StrictStr | None = Field(default=None, min_length=1, max_length=20)
    """What may stand before or after each number, as "$" or "%": "12 %" is 12, "($5)" is -5."""
    format: StrictStr | None = Field(default=None, min_length=2, max_length=80)
    """How a date is written, as "%d.%m.%Y"; years first ("2024-01-31") unless told."""
    missing: tuple[StrictStr, ...] = ()
    """Texts that stand for a missing value, besides those of target.read."""
    exclude: bool = False
    """Whether no procedure uses it, and no release needs to have it."""
    fold_case: bool = False
    """Whether texts are read in small letters and without outer blanks, so that "Yes" is "yes"."""
    same: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    """Texts that are read as another one: { J = "Ja" }, and of a number { "<5" = "2.5" }."""

    LATER = ("unit", "fold_case", "same")

    @model_validator(mode="after")
    def _one_kind(self) -> ColumnPart:
        if self.fold_case and self.kind in ("number", "date"):
            raise ValueError(f"fold_case is of texts, and kind is {self.kind!r}; leave one out")
        of_numbers = {self.thousands, self.decimal, self.unit} != {None}
        if of_numbers and self.kind != "number":
            raise ValueError('thousands, decimal and unit are of a number: write kind = "number"')
        if self.unit is not None and _NO_UNIT.search(self.unit):
            raise ValueError(
                f'unit is {self.unit!r}; write what stands beside each number alone, as "$", '
                "without its digits, plus, minus, parentheses and outer blanks"
            )
        if self.format is not None and self.kind != "date":
            raise ValueError('format is of a date: write kind = "date"')
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise ValueError(
                f"thousands and decimal are both {self.thousands!r}; write decimal too, as "
                'thousands = ".", decimal = ","'
            )
        if self.format is not None and "%" not in self.format:
            raise ValueError(f'format is {self.format!r}; write how a date is, as "%d.%m.%Y"')
        return self

    @model_validator(mode="after")
    def _read_once(self) -> ColumnPart:
        for text, other in self.same.items():
            if not text.strip() or not other.strip() or other in self.missing:
                raise ValueError(
                    f"same reads {text!r} as {other!r}; a text that stands for a missing value "
                    "stands in missing"
                )
            if text in self.missing or other in self.same:
                twice = text if text in self.missing else other
                raise ValueError(f"same and missing say of {twice!r} twice what it is; once is all")
            for each in (text, other):
                read = fold(each) if self.fold_case else each.strip()
                if each != read:
                    raise ValueError(f"in same {each!r} is read as {read!r}; write that")
        return self

    @property
    def holds(self) -> Literal["number", "text"] | None:
        """What its values are once they are read; nothing where that is not declared."""
        if self.kind is None:
            return "text" if self.fold_case else None
        return "number" if self.kind in ("number", "date") else "text"


DeclaredColumns = Mapping[str, ColumnPart]


class Outcome(DeclarationPart):
    """What is predicted: a yes or no, one of several classes, or a number in a range."""

    column: Name
    """The column."""
    positive: Label | None = None
    """The label of a yes."""
    classes: tuple[Label, ...] | None = Field(default=None, min_length=2)
    """The labels of several classes."""
    range: tuple[DecimalText, DecimalText] | None = None
    """The ends of a number's range."""
    clip: bool = False
    """Whether a number outside the range is moved to its nearer end, in every table."""
    missing: tuple[StrictStr, ...] | None = None
    """Texts of a missing outcome, where those of the target count at their worst."""

    @property
    def kind(self) -> Literal["binary", "multiclass", "regression"]:
        """Which losses apply."""
        if self.positive is not None:
            return "binary"
        return "multiclass" if self.classes is not None else "regression"


class Target(DeclarationPart):
    """The records that decide, sealed before anything else; one source of four."""

    table: FilePath | None = None
    """A table, of which a part is reserved."""
    reserve: Reserve | None = None
    """The part that is reserved."""
    file: FilePath | None = None
    """A target that was kept apart from the start."""
    population: FilePath | None = None
    """A population, from which records are drawn."""
    draw: PopulationDraw | None = None
    """How records are drawn from the population."""
    losses: FilePath | None = None
    """Losses that were computed elsewhere: releases x records x requirements."""
    read: TableReading = Field(default_factory=TableReading)
    """How the table is read."""
    design: (
        Literal["iid"]
        | StratifiedDesign
        | ClusteredDesign
        | WeightedDesign
        | WithoutReplacementDesign
    ) = "iid"
    """How the records were sampled."""
    outcome: Name | None = None
    """The column that is predicted."""
    positive: Label | None = None
    """The label of a yes, of a binary outcome."""
    classes: tuple[Label, ...] | None = Field(default=None, min_length=2)
    """The labels, of an outcome of several classes."""
    range: tuple[DecimalText, DecimalText] | None = None
    """The ends of the range, of an outcome that is a number."""
    clip: bool = False
    """Whether an outcome outside its range counts as the nearer end, in every table."""
    missing_outcomes: Literal["refuse", "worst", "leave out"] = "refuse"
    """What a target record without an outcome is: an error, at either bound of the loss, or none of
    those that the claim is about. Nobody learns from a row without one; queries are answered on all
    rows, but where such are left out on either side."""
    exclude: tuple[Name, ...] = ()
    """Columns that no procedure uses, and that no release needs to have."""
    prior_use: Text | None = None
    """What was done with these records before, if anything."""
    coincidence: Text | None = None
    """Why records of another table may have the same values."""
    seen: dict[Text, TableDigest] = Field(default_factory=dict)
    """Tables that were looked at before, each with the digest of its records: none of them may be
    the target, whatever home knows of it. A trial writes them."""

    LATER = ("clip", "missing_outcomes", "seen")

    @model_validator(mode="after")
    def _one_source(self) -> Target:
        given = {
            "table and reserve": (self.table, self.reserve),
            "file": (self.file,),
            "population and draw": (self.population, self.draw),
            "losses": (self.losses,),
        }
        # Two of them would leave open which records were sealed.
        named = [name for name, parts in given.items() if any(p is not None for p in parts)]
        whole = [name for name, parts in given.items() if all(p is not None for p in parts)]
        if len(named) != 1 or named != whole:
            lone = self._lone() if len(named) == 1 else ""
            raise ValueError(
                f"name one source of target records ({', or '.join(given)}), got "
                f"{lone or ' and '.join(named) or 'none'}"
            )
        return self

    def _lone(self) -> str:
        """Return the half that is given of a source of two, and how to write the other."""
        wants = {"table": "reserve", "reserve": "table", "population": "draw", "draw": "population"}
        lone = next(key for key, other in wants.items()
                    if getattr(self, key) is not None and getattr(self, other) is None)  # fmt: skip
        written = {
            "table": '"patients.csv"', "population": '"registry.csv"', "reserve": Reserve.example,
            "draw": "{ size = 1000, replace = true, seed = 1 }",
        }[wants[lone]]  # fmt: skip
        return f"{lone} alone; write {wants[lone]} = {written} beside it"

    @model_validator(mode="after")
    def _reserved_rows(self) -> Target:
        if self.reserve is None:
            return self
        # A cluster that is cut in two would leave records of it in development.
        clustered = isinstance(self.design, ClusteredDesign)
        if clustered != (self.reserve.clusters is not None) or (clustered and self.reserve.rows):
            raise ValueError(
                "a clustered target reserves whole clusters, reserve = { clusters = N, seed = S }, "
                "and no other design does"
            )
        if clustered:
            return self
        if self.clusters is not None:
            if self.reserve.rows is not None:
                raise ValueError(
                    "of strata that are sampled by clusters whole clusters are reserved, as many "
                    "of each stratum as its size says: leave reserve.rows out"
                )
            return self
        if isinstance(self.design, StratifiedDesign):
            if self.reserve.rows not in (None, sum(self.design.sizes.values())):
                raise ValueError("reserve.rows differs from the sum of the stratum sizes")
        elif self.reserve.rows is None:
            raise ValueError(
                "reserve needs rows, how many records are set aside, such as reserve = "
                f"{Reserve.example}"
            )
        return self

    @model_validator(mode="after")
    def _losses_by_cluster(self) -> Target:
        if self.losses is not None and len(self.design_columns) > 1:
            raise ValueError(
                "a file of losses has one column for the design, of strata, clusters or weights: "
                "give the target's records, or certify the losses in Python with "
                "StratifiedClusters or WeightedClusters"
            )
        return self

    @property
    def clusters(self) -> ClusteredDesign | None:
        """How clusters are named and count, where those are sampled."""
        if isinstance(self.design, StratifiedDesign):
            return self.design.clusters
        return self.design if isinstance(self.design, ClusteredDesign) else None

    @property
    def reserve_rows(self) -> int | None:
        """How many records are set aside; nothing where the declaration does not count them."""
        if self.reserve is None:
            return None
        if self.clusters is not None:
            return None  # whole clusters have as many records as they have
        if isinstance(self.design, StratifiedDesign):
            return sum(self.design.sizes.values())
        return self.reserve.rows

    @model_validator(mode="after")
    def _known_design(self) -> Target:
        as_design(self.sampling_design)
        return self

    @model_validator(mode="after")
    def _pool_apart(self) -> Target:
        # Here, because registration, check, correction and verification all read a target.
        if self.reserve is not None and isinstance(self.design, WithoutReplacementDesign):
            raise ValueError(
                "a pool is disjoint from development, and a reserve is cut from the same table: "
                "leave design out, or give the target as a file of its own"
            )
        return self

    @model_validator(mode="after")
    def _one_outcome(self) -> Target:
        kinds = [k for k in ("positive", "classes", "range") if getattr(self, k) is not None]
        if (self.outcome is None and kinds) or (self.outcome is not None and len(kinds) != 1):
            given = "missing" if self.outcome is None else found(self.outcome)
            raise ValueError(
                "an outcome has one of positive, classes or range, and nothing else does; outcome "
                f"is {given}, and there is {' and '.join(kinds) or 'none of them'}. Write "
                'positive = "yes" for two labels, classes = ["a", "b", "c"] for several, '
                'range = ["0", "100"] for a number'
            )
        if self.clip and self.range is None:
            raise ValueError("clip moves a number into its range; the outcome has no range")
        if self.missing_outcomes == "worst" and self.outcome is None and self.losses is None:
            raise ValueError("missing_outcomes is about an outcome or given losses; name one")
        if self.missing_outcomes == "leave out" and (self.outcome is None or self.design != "iid"):
            # Sizes, weights and clusters are registered of all records, and hold for them alone.
            raise ValueError(
                'missing_outcomes = "leave out" is for an outcome of records that are an iid sample'
                '; with strata, clusters, weights, a pool or given losses write "worst", under '
                "which a share of the outcome is that of records known to have the value"
            )
        if self.range is not None and not Fraction(self.range[0]) < Fraction(self.range[1]):
            raise ValueError(
                f'range must increase, the smaller end first; got "{self.range[0]}" and '
                f'"{self.range[1]}"'
            )
        if self.range is not None:
            check_range(f"the range of {self.outcome!r}", *(number(end) for end in self.range))
        return self

    @model_validator(mode="after")
    def _replacement(self) -> Target:
        if self.draw is None:
            return self
        if self.draw.replace and self.design != "iid":
            raise ValueError("records drawn with replacement are iid; leave design out")
        if not self.draw.replace and not isinstance(self.design, WithoutReplacementDesign):
            raise ValueError(
                "records drawn without replacement have design = { pool = N }, N the population"
            )
        return self

    @property
    def sampling_design(self) -> Design:
        """The design that component tests rely on."""
        if isinstance(self.design, StratifiedDesign):
            return self.design.stratified
        if self.clusters is not None:
            return self.clusters.clustered
        if isinstance(self.design, WeightedDesign):
            return Weighted(max_weight=Fraction(self.design.max_weight), origin=self.design.origin)
        if isinstance(self.design, WithoutReplacementDesign):
            return WithoutReplacement(pool=self.design.pool)
        return Iid(with_replacement=self.draw is not None and self.draw.replace)

    @property
    def predicted(self) -> Outcome | None:
        """The outcome and its domain, where there is one."""
        if self.outcome is None:
            return None
        return Outcome(
            column=self.outcome, positive=self.positive, classes=self.classes, range=self.range,
            clip=self.clip, missing=self.read.missing if self.missing_outcomes == "worst" else None,
        )  # fmt: skip

    @property
    def labelled(self) -> str | None:
        """The outcome, where rows that lack it are left out of the target and of releases.

        Not where they count at their worst: a release answers queries with all its rows, as the
        target does, and only its models are trained without them.
        """
        return self.outcome if self.missing_outcomes == "leave out" else None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that hold target rows, by the names that the declaration has for them."""
        names = (self.table, self.file, self.population, self.losses)
        return tuple(name for name in names if name is not None)

    @property
    def design_column(self) -> str | None:
        """The column that holds strata, clusters or weights; of several the first."""
        return next(iter(self.design_columns), None)

    @property
    def weight_column(self) -> str | None:
        """The column that holds weights."""
        if isinstance(self.design, WeightedDesign):
            return self.design.weight
        return None if self.clusters is None else self.clusters.weight

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that hold strata or clusters, strata first."""
        strata = (self.design.by,) if isinstance(self.design, StratifiedDesign) else ()
        return strata if self.clusters is None else (*strata, self.clusters.by)

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The columns that hold strata, clusters or weights, in this order."""
        weights = () if self.weight_column is None else (self.weight_column,)
        return (*self.label_columns, *weights)

    @property
    def estimand(self) -> str:
        """What the means of this audit are means over, in words."""
        once = self.clusters is None or self.clusters.weighting == "cluster"
        over = "clusters, each counting once" if once else "records, whatever their cluster"
        if self.weight_column is not None and self.clusters is not None:
            over = (
                "the persons that records represent, whatever their cluster, by design weights in "
                f"{self.weight_column!r} (at most {self.clusters.max_weight} a cluster)"
            )
        if isinstance(self.design, StratifiedDesign):
            # Sorted: a registry's mapping has no order, and verify compares these words.
            counted = self.design.sampled if self.design.by_sample else self.design.weights
            counts = ", ".join(f"{name} {w}" for name, w in sorted((counted or {}).items()))
            equal = len(set(self.design.stratified.weights.values())) == 1
            kind = "an equal mixture" if equal else "the registered mixture"
            what = "sampled by the whole survey" if self.design.by_sample else "weights"
            words = f"{kind} of the strata of {self.design.by!r} ({what} {counts})"
            if self.clusters is None:
                return words
            shares = "" if once else f", {shares_of(self.clusters.clustered)}"
            return (
                f"{words}, each by its clusters of {self.clusters.by!r}, a mean over {over}{shares}"
            )
        if self.clusters is not None:
            return f"the law of the clusters of {self.clusters.by!r}, a mean over {over}"
        if isinstance(self.design, WeightedDesign):
            return (
                f"the persons that the records represent, each record counting by its design "
                f"weight in {self.design.weight!r} (at most {self.design.max_weight})"
            )
        if isinstance(self.design, WithoutReplacementDesign):
            return f"the pool of {self.design.pool:,} records that the target was drawn from"
        left_out = self.missing_outcomes == "leave out"
        known = f" that have an outcome {self.outcome!r}" if left_out else ""
        if self.draw is not None:
            return (
                f"this empirical population, the sealed file {self.population!r}, each of its "
                f"records{known} equally likely"
            )
        source = self.table or self.file or self.losses
        return f"the law of the records of {source!r}{known}, at their natural prevalence"
