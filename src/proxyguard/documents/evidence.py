"""`evidence.json`: the statistics of the losses, and nothing else of the target."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from proxyguard.documents.document import Count, Digest, Document, Format, Hex, NumberText

Number = Annotated[float, Field(allow_inf_nan=False)] | Literal["inf", "-inf"]
"""A number; infinities, which JSON lacks, are texts."""
Numbers = tuple[Number, ...]
Matrix = tuple[tuple[Number, ...], ...]
Counts = tuple[Count, ...]
Text = Annotated[str, Field(min_length=1)]


class ColumnRecord(Document):
    """The statistics of one requirement over all releases, on the unit scale."""

    n: Count = Field(description="Records, or clusters, that count for the requirement.")
    mean: Numbers = Field(description="Mean of each release, rounded up where it is rounded.")
    variance: Numbers | None = Field(default=None, description="Variance of each release.")
    count: Counts | None = Field(
        default=None, description="Losses of each release at the upper bound, if two-valued."
    )
    answer: Numbers | None = Field(
        default=None, description="Of a share: what each release answers."
    )
    indicators: Counts | None = Field(
        default=None, description="Of the randomized binomial test: its count for each release."
    )
    size_share: float | None = Field(
        default=None, description="Mean size of the clusters, as a share of the largest."
    )
    log_peak: Matrix | None = Field(
        default=None, description="Of betting: the largest log capital, for and against."
    )
    log_final: Matrix | None = Field(
        default=None, description="Of betting: the last log capital, for and against."
    )
    log_evalue: Matrix | None = Field(
        default=None, description="Of betting with a fixed stake: the log e-values."
    )
    block_means: Matrix | None = Field(
        default=None, description="Of the block bound: the means of the blocks of each release."
    )
    mean_low: Numbers | None = Field(
        default=None, description="Mean of each release, rounded down, of a disclosure."
    )
    count_low: Counts | None = Field(
        default=None, description="Count of each release, rounded down, of a disclosure."
    )
    indicators_low: Counts | None = Field(
        default=None, description="Randomized count, rounded down, of a disclosure."
    )


class Derived(Document):
    """What the statistics determine: rows are releases, columns requirements."""

    pvalues: Matrix = Field(description="P-values for validity.")
    violation_pvalues: Matrix = Field(description="P-values for violation.")
    estimates: Matrix = Field(description="Estimated means, on the scale of the loss.")
    lower: Matrix = Field(description="Simultaneous lower limits.")
    upper: Matrix = Field(description="Simultaneous upper limits.")
    bounds_tests: tuple[str, ...] = Field(description="The tests that the limits come from.")


class GroupEvidence(Document):
    """The statistics of releases that are read together."""

    releases: tuple[str, ...] = Field(description="The releases, by name or seed.")
    requirements: tuple[str, ...] = Field(description="The requirements, by name.")
    limits: tuple[NumberText, ...] = Field(description="Their limits.")
    tests: tuple[str, ...] = Field(description="The registered test of each.")
    bounds_level: NumberText = Field(description="The error level of the simultaneous limits.")
    columns: tuple[ColumnRecord, ...] = Field(description="The statistics, by requirement.")
    derived: Derived = Field(description="What follows from the statistics.")


class ExcludedEvidence(GroupEvidence):
    """The statistics of draws that an amendment excluded; they decide nothing."""

    label: Text = Field(description="That this is descriptive.")


class Diagnostics(Document):
    """What is shown beside the certificate and decides nothing."""

    label: Text = Field(description="That this is not certified.")
    unscored: dict[str, dict[str, Annotated[int, Field(ge=1)]]] = Field(
        description="Records without a prediction, by group and release."
    )
    auc: dict[str, dict[str, float | None]] | None = Field(
        default=None, description="Area under the curve, by group and release."
    )
    source_auc: dict[str, float | None] | None = Field(
        default=None, description="Area under the curve of the source, by group."
    )


class Score(Document):
    """The score of one release of an audit that draws after opening."""

    release: Digest = Field(description="The committed release.")
    statistics: GroupEvidence = Field(description="Its statistics.")


class Evidence(Document):
    """What every opening reveals."""

    format: Format = Field(description="The format of this document.")
    registry: Digest = Field(description="The registry that the target was opened for.")
    releases: Digest = Field(description="The releases that it was opened for.")
    seed: str = Field(pattern="^[0-9]+$", description="Seed of all randomness of the tests.")
    nonces: dict[str, Hex] = Field(description="What the seal kept secret of it, by member.")
    groups: dict[str, GroupEvidence] = Field(description="The statistics, by group.")

    @property
    def by_group(self) -> dict[str, GroupEvidence]:
        """The statistics by mechanism, or by candidate where a stream judged each alone."""
        return dict(self.groups)

    @classmethod
    def _kind(cls, value: object) -> type[Any]:
        if cls is not Evidence:
            return cls
        later = isinstance(value, dict) and "scores" in value
        return SequentialEvidence if later else FixedEvidence


class FixedEvidence(Evidence):
    """The evidence of an audit whose releases were all frozen before the opening."""

    excluded: dict[str, ExcludedEvidence] = Field(description="Excluded draws, by group.")
    secondary: dict[str, dict[str, GroupEvidence]] = Field(
        description="The statistics under other limits, by specification and group."
    )
    diagnostics: Diagnostics = Field(description="What decides nothing.")


class SequentialEvidence(Evidence):
    """The evidence of an audit that draws after opening."""

    scores: tuple[Score, ...] = Field(description="Every score, in the order of the draws.")

    @property
    def by_group(self) -> dict[str, GroupEvidence]:
        """The statistics by mechanism, or by candidate where a stream judged each alone."""
        if self.groups:
            return dict(self.groups)
        return {score.statistics.releases[0]: score.statistics for score in self.scores}
