"""`evidence.json`: the statistics of the losses, and nothing else of the target.

From the inside out: the statistics of one requirement, of the releases of one group, and of an
opening, which has one form for releases that were frozen before it and one for those drawn after.
A verifier takes the statistics and derives the rest anew; what is `Derived` is for reading.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from proxyguard.documents.document import Amount, Digest, Document, Format, Hex, NumberText

# A number; infinities, which JSON lacks, are texts.
JsonNumber = Annotated[float, Field(allow_inf_nan=False)] | Literal["inf", "-inf"]
Numbers = tuple[JsonNumber, ...]
Matrix = tuple[tuple[JsonNumber, ...], ...]
Amounts = tuple[Amount, ...]
LabelText = Annotated[str, Field(min_length=1)]


class ColumnRecord(Document):
    """The statistics of one requirement over all releases, on the unit scale."""

    n: Amount
    """Records, or clusters, that count for the requirement."""
    mean: Numbers
    """Mean of each release, rounded up where it is rounded."""
    variance: Numbers | None = None
    """Variance of each release."""
    count: Amounts | None = None
    """Losses of each release at the upper bound, if two-valued."""
    answer: Numbers | None = None
    """Of a share: what each release answers."""
    ends: Matrix | None = None
    """Of a query: the least and the greatest loss that each release can have, by its own answer."""
    indicators: Amounts | None = None
    """Of the randomized binomial test: its count for each release."""
    size_share: float | None = None
    """Mean size of the clusters, as a share of the largest."""
    log_peak: Matrix | None = None
    """Of betting: the largest log capital, for and against."""
    log_final: Matrix | None = None
    """Of betting: the last log capital, for and against."""
    log_evalue: Matrix | None = None
    """Of betting with a fixed stake: the log e-values."""
    block_means: Matrix | None = None
    """Of the block bound: the means of the blocks of each release."""
    mean_low: Numbers | None = None
    """Mean of each release that speaks against it, of a disclosure or of missing losses."""
    count_low: Amounts | None = None
    """Count of each release that speaks against it, of the same."""
    indicators_low: Amounts | None = None
    """Randomized count that speaks against a release, of the same."""
    variance_low: Numbers | None = None
    """Variance of each release where missing losses are at their lower bound."""
    missing: Amounts | None = None
    """Losses of each release that were missing and are counted at their bounds, where they may."""
    answer_low: Numbers | None = None
    """Of an exposure: the answer at the threshold, or limit, that speaks against a release."""
    unmeasured: tuple[StrictBool, ...] | None = None
    """Of an exposure: the releases that the attack could not be made on, where there are some."""


class Derived(Document):
    """What the statistics determine: rows are releases, columns requirements."""

    pvalues: Matrix
    """P-values for validity."""
    violation_pvalues: Matrix
    """P-values for violation."""
    estimates: Matrix
    """Estimated means, on the scale of the loss."""


class GroupEvidence(Document):
    """The statistics of releases that are read together."""

    releases: tuple[str, ...]
    """The releases, by name or seed."""
    requirements: tuple[str, ...]
    """The requirements, by name."""
    limits: tuple[NumberText, ...]
    """Their limits."""
    tests: tuple[str, ...]
    """The registered test of each."""
    columns: tuple[ColumnRecord, ...]
    """The statistics, by requirement."""
    derived: Derived
    """What follows from the statistics."""


class ExcludedEvidence(GroupEvidence):
    """The statistics of draws that an amendment excluded; they decide nothing."""

    label: LabelText
    """That this is descriptive."""


class AttackFigures(Document):
    """What one attack says of members and others, as means over the releases described.

    Shares are those of rows that are flagged at thresholds which members alone choose: the k-th of
    m flags k/m of them. An attack that succeeds or not has one.
    """

    requirement: str
    """The requirement that the attack is of."""
    attack: str
    """Its name."""
    members: Amount
    """Members of the first release, or those in the group of the requirement."""
    hits: Numbers
    """Shares of members."""
    alarms: Numbers | None = None
    """Shares of the target's nonmembers; nothing under a disclosure."""
    alarms_least: Numbers | None = None
    """The smallest of any release."""
    alarms_most: Numbers | None = None
    """The largest of any release."""
    open_alarms: Numbers | None = None
    """Shares of calibration rows, where there are any: attacks know all other open rows."""
    threshold_hits: float | None = None
    """At the requirement's own threshold, where it has one: the share of members."""
    threshold_alarms: float | None = None
    """The same of the target's nonmembers; nothing under a disclosure."""
    baseline_hits: Numbers
    """Of a release that knows nobody: shares of members."""
    baseline_alarms: Numbers | None = None
    """Of a release that knows nobody: shares of calibration rows, where there are any."""
    member_scores: Numbers
    """Quantiles of the members' scores."""
    open_scores: Numbers | None = None
    """Quantiles of the scores of calibration rows, where there are any; no target's are written."""


class ExposureFigures(Document):
    """What releases have of their members beside others; a census that decides nothing."""

    releases: tuple[str, ...]
    """The releases described: the first ones that there are."""
    open_rows: Literal["calibration", "reference"]
    """Which rows, open and not trained on, distances are compared with."""
    levels: Numbers
    """The levels of all quantiles."""
    rows: Amount
    """Rows of these releases."""
    copies: Amount
    """Those that equal a member's in every column that attacks see."""
    copied_members: float
    """Share of members that a release has a copy of, as a mean over releases."""
    identical_members: float
    """Share of a release's rows at no distance from a member."""
    identical_others: float
    """Share of a release's rows at no distance from an open row."""
    member_distances: Numbers
    """Quantiles of the members' distances to a release."""
    other_distances: Numbers
    """Quantiles of the open rows' distances to a release."""
    attacks: tuple[AttackFigures, ...]
    """What attacks say, by requirement."""


class Diagnostics(Document):
    """What is shown beside the certificate and decides nothing."""

    label: LabelText
    """That this is not certified."""
    unscored: dict[str, dict[str, Annotated[int, Field(ge=1)]]]
    """Records without a prediction, by group and release."""
    auc: dict[str, dict[str, float | None]] | None = None
    """Area under the curve, by group and release."""
    source_auc: dict[str, float | None] | None = None
    """Area under the curve of the source, by group."""
    exposure: dict[str, ExposureFigures] | None = None
    """What releases have of their members, by group; where an exposure is asked for."""


class ScoreRecord(Document):
    """The score of one release of an audit that draws after opening."""

    release: Digest
    """The committed release."""
    statistics: GroupEvidence
    """Its statistics."""


class Evidence(Document):
    """What every opening reveals."""

    format: Format
    """The format of this document."""
    registry: Digest
    """The registry that the target was opened for."""
    releases: Digest
    """The releases that it was opened for."""
    seed: str = Field(pattern="^[0-9]+$")
    """Seed of all randomness of the tests."""
    nonces: dict[str, Hex]
    """What the seal kept secret of it, by member."""
    groups: dict[str, GroupEvidence]
    """The statistics, by group."""

    @property
    def by_group(self) -> dict[str, GroupEvidence]:
        """The statistics by mechanism, or by candidate where a stream judged each alone."""
        return dict(self.groups)

    @classmethod
    def _kind(cls, plain: object) -> type[Any]:
        # A reader that names a form gets that form or an error, never the other one.
        if cls is not Evidence:
            return cls
        later = isinstance(plain, dict) and "scores" in plain
        return SequentialEvidence if later else FixedEvidence


class FixedEvidence(Evidence):
    """The evidence of an audit whose releases were all frozen before the opening."""

    excluded: dict[str, ExcludedEvidence]
    """Excluded draws, by group."""
    secondary: dict[str, dict[str, GroupEvidence]]
    """The statistics under other limits, by specification and group."""
    diagnostics: Diagnostics
    """What decides nothing."""


class SequentialEvidence(Evidence):
    """The evidence of an audit that draws after opening."""

    scores: tuple[ScoreRecord, ...]
    """Every score, in the order of the draws."""

    @property
    def by_group(self) -> dict[str, GroupEvidence]:
        """The statistics by mechanism, or by candidate where a stream judged each alone."""
        if self.groups:
            return dict(self.groups)
        return {score.statistics.releases[0]: score.statistics for score in self.scores}
