"""What is certified: the verdicts, the signed certificate, its correction, and the advice.

`report.json`: everything that a report's page says, for programs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from proxyguard.documents.document import (
    Count,
    Digest,
    Document,
    Format,
    Identity,
    NumberText,
    PublicKey,
    Whole,
)
from proxyguard.documents.evidence import Diagnostics, FixedEvidence
from proxyguard.documents.ledger import Decided, DesignText

MECHANISM = "The mechanism, or the named release, that it is about."
DECISION = "What is decided; unresolved is no evidence of a violation."
SENTENCE = "The decision in words."
RESTS_ON = "The theorem that it rests on."
BASIS = "On what the certificate rests besides the statistics."
NOT_CLAIMED = "What is not established."
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class BudgetShare(Document):
    """One part of an error budget."""

    symbol: str = Field(description="Its symbol.")
    event: str = Field(description="The event that it pays for.")
    amount: str = Field(description="The amount, an exact fraction.")


class BoundStep(Document):
    """A number on the way to a bound."""

    label: str = Field(description="What it is.")
    value: float = Field(description="The number.")


class BoundRecord(Document):
    """A one-sided confidence bound on the chance that a fresh release is valid."""

    value: float = Field(description="The bound.")
    rests_on: str = Field(description=RESTS_ON)
    pvalue: float | None = Field(description="P-value against the registered target.")
    steps: tuple[BoundStep, ...] = Field(description="The numbers that it is built from, in order.")
    budget: tuple[BudgetShare, ...] = Field(description="The error levels that it spends.")


class _OfReleases:
    """What a verdict about releases does not say: a named release has no reliability."""

    reliability_target: ClassVar[None] = None
    reliability_lower: ClassVar[None] = None
    reliability_upper: ClassVar[None] = None


class MechanismVerdict(Document):
    """What is decided about a mechanism."""

    mechanism: str = Field(description=MECHANISM)
    decision: Decided = Field(description=DECISION)
    sentence: str = Field(description=SENTENCE)
    reliability_target: float = Field(description="The reliability that must be exceeded.")
    reliability_lower: float | None = Field(description="Certified lower bound, if it is one.")
    reliability_upper: float | None = Field(description="Certified upper bound, if it is one.")
    joint_coverage: float | None = Field(description="How sure both bounds are together.")
    certified: Literal["bounds", "decisions"] = Field(
        description="Whether the bounds are certified, or the decision alone."
    )
    adjusted_pvalue: float | None = Field(description="P-value, adjusted for all mechanisms.")
    adjusted_pvalue_level: str | None = Field(description="The budget that it is compared with.")
    mode: str = Field(description="The mode of the claim.")
    bound: str | None = Field(description="Which bound is used, where the mode has several.")
    tests: dict[str, str] = Field(description="The test of each requirement.")
    n_releases: Count = Field(description="Releases.")
    n_records: dict[str, Count] = Field(description="Records, by requirement.")
    lower: BoundRecord = Field(description="The lower bound.")
    upper: BoundRecord | None = Field(description="The upper bound, if there is one.")
    design: str = Field(description="The sampling design.")
    dependence: str = Field(description="What is assumed about releases or requirements.")
    seed: Whole = Field(description="Seed of the randomness of the tests.")
    seed_given_by_caller: bool = Field(description="Whether a caller chose the seed.")
    basis: str = Field(description=BASIS)
    not_claimed: tuple[str, ...] = Field(description=NOT_CLAIMED)
    notes: tuple[str, ...] = Field(description="What a reader should know besides.")
    adjusted_release_pvalues: dict[str, float] = Field(
        description="P-values of the releases, adjusted for their number, for reading."
    )


class ReleaseVerdict(_OfReleases, Document):
    """What is decided about a named release."""

    mechanism: str = Field(description=MECHANISM)
    member: str = Field(description="The member that it belongs to.")
    release: str = Field(description="The release.")
    decision: Decided = Field(description=DECISION)
    sentence: str = Field(description=SENTENCE)
    pvalue: float = Field(description="P-value for validity.")
    adjusted: float = Field(description="P-value, adjusted for all releases.")
    binding: str = Field(description="The requirement that it is least certain of.")
    violated: tuple[str, ...] = Field(description="Requirements that are shown to be violated.")


class CorrectedReleaseVerdict(ReleaseVerdict):
    """What a corrective certificate says of a named release."""

    joint_coverage: None = Field(description="Nothing: a correction has no confidence level.")


class SequentialVerdict(Document):
    """What is decided about a mechanism that was drawn until a boundary was crossed."""

    mechanism: str = Field(description=MECHANISM)
    decision: Decided = Field(description=DECISION)
    sentence: str = Field(description=SENTENCE)
    reliability_target: float = Field(description="The reliability that must be exceeded.")
    reliability_lower: float | None = Field(description="Certified lower bound.")
    draws: Count = Field(description="Draws that were made.")
    favorable: Count = Field(description="Draws with a favorable score.")
    finished: bool = Field(description="Whether no further draw could change the decision.")
    largest_number_of_draws: Count = Field(description="Draws that were registered.")
    kappa: float = Field(description="The threshold of the score.")
    bound: str = Field(description="Which bound is used.")
    rests_on: str = Field(description=RESTS_ON)
    budget: tuple[BudgetShare, ...] = Field(description="The error levels that it spends.")
    basis: str = Field(description=BASIS)

    reliability_upper: ClassVar[None] = None  # drawn until a boundary is crossed: it has none


class RoundVerdict(_OfReleases, Document):
    """What is decided about one candidate of a stream."""

    mechanism: str = Field(description=MECHANISM)
    round: Count = Field(description="Number of the round.")
    decision: Decided = Field(description=DECISION)
    level: NumberText = Field(description="The error level of the round.")
    rests_on: str = Field(description=RESTS_ON)
    sentence: str = Field(description=SENTENCE)


def _verdict_kind(value: Any) -> str:
    """Return which form a verdict has, by the key that no other form has."""
    has = value.__contains__ if isinstance(value, dict) else type(value).model_fields.__contains__
    if has("round"):
        return "round verdict"
    if has("largest_number_of_draws"):
        return "sequential verdict"
    if has("member"):
        return "corrected verdict" if has("joint_coverage") else "release verdict"
    return "mechanism verdict"


VerdictRecord = Annotated[
    Annotated[MechanismVerdict, Tag("mechanism verdict")]
    | Annotated[ReleaseVerdict, Tag("release verdict")]
    | Annotated[CorrectedReleaseVerdict, Tag("corrected verdict")]
    | Annotated[SequentialVerdict, Tag("sequential verdict")]
    | Annotated[RoundVerdict, Tag("round verdict")],
    Discriminator(_verdict_kind),
]


class ReleaseFamily(Document):
    """What all verdicts about named releases have in common."""

    mode: Literal["releases"] = Field(description="The mode of the claim.")
    alpha: str = Field(description="Error level of validation.")
    beta: str | None = Field(description="Error level of violation, if there is one.")
    rests_on: str = Field(description=RESTS_ON)
    seed: Whole = Field(description="Seed of the randomness of the tests.")
    seed_given_by_caller: bool = Field(description="Whether a caller chose the seed.")
    basis: str = Field(description=BASIS)
    not_claimed: tuple[str, ...] = Field(description=NOT_CLAIMED)


class PickGroup(Document):
    """The e-values of one group's releases, in whole numbers of one unit."""

    alpha: tuple[str, str] = Field(description="Its error level: numerator and denominator.")
    thresholds: tuple[str, ...] = Field(description="Thresholds of the calibrator.")
    unit: str = Field(description="The unit, a fraction.")
    releases: tuple[str, ...] = Field(description="The releases.")
    evalues: tuple[str, ...] = Field(description="Their e-values, in units.")


class PicksRecord(Document):
    """How many of the releases that a reader picks are valid."""

    alpha: str = Field(description="The error level, apart from the claim's.")
    rests_on: str = Field(description=RESTS_ON)
    sentence: str = Field(description="What holds, in words.")
    mechanisms: dict[str, PickGroup] = Field(description="The e-values, by group.")


class DrawCountsRecord(Document):
    """What became of the draws of a mechanism."""

    registered: Count = Field(description="Draws that were registered.")
    delivered: Count = Field(description="Draws that gave a release.")
    failed: Count = Field(description="Draws that gave none.")
    excluded: Count = Field(description="Draws that an amendment left out.")
    used: Count = Field(description="Draws that the claim counts, failed ones among them.")


class Failure(Document):
    """A draw that gave no release."""

    seed: Whole = Field(description="The seed of the draw.")
    status: Literal["failed", "timeout"] = Field(description="Whether it failed or was too slow.")
    error: str = Field(description="Why, in words.")


class SecondaryDecision(Document):
    """What the claim would say of a named release under other limits; it never decides."""

    decision: Decided = Field(description=DECISION)


class SecondaryBounds(SecondaryDecision):
    """What the claim would say of a mechanism under other limits; it never decides."""

    lower: float = Field(description="Lower bound.")
    upper: float | None = Field(description="Upper bound, if there is one.")


def _secondary_kind(value: Any) -> str:
    has = "lower" in value if isinstance(value, dict) else isinstance(value, SecondaryBounds)
    return "mechanism verdict" if has else "release verdict"


SecondaryResult = Annotated[
    Annotated[SecondaryBounds, Tag("mechanism verdict")]
    | Annotated[SecondaryDecision, Tag("release verdict")],
    Discriminator(_secondary_kind),
]


class SecondaryRecord(Document):
    """A secondary specification and what came of it."""

    label: str = Field(description="That this is not certified.")
    limits: dict[str, str] = Field(description="The other limits, by requirement.")
    results: dict[str, SecondaryResult] = Field(description="What the claim would say.")


class ClaimStatusRecord(Document):
    """The status of a claim, each with its reason."""

    evidence: str = Field(description="What kind of evidence it is.")
    lineage: str = Field(description="Where the target's records were met before.")
    registered: str = Field(description="Whether the claim was registered.")
    guarantee: str = Field(description="Whether a guarantee remains, and if not, why.")


class Attestation(Document):
    """Who stands behind the opening."""

    kind: Literal["self-attested", "granted"] = Field(description="The author alone, or a steward.")
    words: str = Field(description="The same, in words.")
    steward: Identity | None = Field(default=None, description="The steward, if there is one.")
    grant: Digest | None = Field(default=None, description="The head that the steward looked at.")


class Stated(Document):
    """What its author says and nothing in the folder shows."""

    about: str = Field(description="What it is about.")
    words: str = Field(description="What is said.")


class DisclosureRecord(Document):
    """How finely statistics were given away."""

    digits: Count = Field(description="Digits that every statistic is rounded to.")
    words: str = Field(description="The same, in words.")


class _Decisions(Document):
    """What was decided, and what is reported beside it."""

    verdicts: tuple[VerdictRecord, ...] = Field(description="The verdicts.")
    text: str | None = Field(default=None, description="All verdicts in words.")
    family: ReleaseFamily | None = Field(
        default=None, description="Of named releases: what all verdicts have in common."
    )
    redraws: dict[str, tuple[str, ...]] = Field(description="What every draw redraws.")
    conditional_on: dict[str, tuple[str, ...]] = Field(description="What is the same for all.")
    draws: dict[str, DrawCountsRecord] = Field(description="What became of the draws.")
    failed: dict[str, tuple[Failure, ...]] = Field(description="The draws that gave no release.")
    secondary: dict[str, SecondaryRecord] = Field(description="Secondary specifications.")


class Predicate(_Decisions):
    """What a certificate says."""

    name: str = Field(description="The audit's name.")
    purpose: str = Field(description="What it is for.")
    level: Literal["mechanism", "releases"] = Field(description="What the claim is about.")
    estimand: dict[str, str] = Field(description="What means are over, by member.")
    claim_status: ClaimStatusRecord = Field(description="The status of the claim.")
    attestation: Attestation = Field(description="The author alone, or a steward too.")
    ledger: Digest = Field(description="Digest of the entry that records the opening.")
    software: dict[str, str] = Field(description="Versions that the registry was made with.")
    stated_not_checked: tuple[Stated, ...] = Field(description="What stays the author's word.")
    not_claimed: tuple[str, ...] = Field(description=NOT_CLAIMED)
    privacy: dict[str, tuple[str, ...]] | None = Field(
        default=None, description="What releases cost in privacy, in words."
    )
    disclosure: DisclosureRecord | None = Field(
        default=None, description="How finely statistics were given away, if not as they are."
    )
    diagnostics: Diagnostics | None = Field(
        default=None, description="What decides nothing; of a fixed audit."
    )
    excluded: dict[str, tuple[str, ...]] | None = Field(
        default=None, description="Excluded releases by group; of a fixed audit."
    )
    picks: PicksRecord | None = Field(
        default=None, description="How many of any releases that are picked are valid."
    )


class Sha256(Document):
    """A digest, as in-toto writes it."""

    sha256: Digest = Field(description="The digest.")


class Subject(Document):
    """Something that the certificate is about."""

    name: str = Field(description="What it is.")
    digests: Sha256 = Field(alias="digest", description="Its digest.")


class Statement(Document):
    """An in-toto statement about these digests."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(
        alias="_type", description="That this is a statement of in-toto."
    )
    predicate_type: Literal["urn:proxyguard:certificate:1"] = Field(
        alias="predicateType", description="That it is a certificate of ours."
    )
    subject: tuple[Subject, ...] = Field(description="What it is about.")
    predicate: Predicate = Field(description="What it says.")

    @property
    def subjects(self) -> dict[str, str]:
        """The digests that it is about, by name."""
        return {subject.name: subject.digests.sha256 for subject in self.subject}


def base64_text(text: str) -> str:
    """Return base64 that is spelt in the one way that we write it."""
    try:
        spelt = b64encode(b64decode(text, validate=True)).decode()
    except ValueError:
        spelt = ""
    if spelt != text:
        raise ValueError("expected base64 in canonical form; it was edited")
    return text


class Signature(Document):
    """A signature of DSSE."""

    keyid: PublicKey = Field(description="The key that signed.")
    sig: str = Field(description="The signature, in base64.")

    @field_validator("sig")
    @classmethod
    def _spelt_as_written(cls, sig: str) -> str:
        return base64_text(sig)


class Envelope(Document):
    """`certificate.json`: a statement in a signed DSSE envelope."""

    payload_type: Literal["application/vnd.in-toto+json"] = Field(
        alias="payloadType", description="That the payload is a statement of in-toto."
    )
    payload: str = Field(description="The statement, in base64.")
    signatures: tuple[Signature] = Field(description="The one signature.")

    @property
    def content(self) -> bytes:
        """The bytes of the statement, which are signed."""
        return b64decode(self.payload)

    @field_validator("payload")
    @classmethod
    def _spelt_as_written(cls, payload: str) -> str:
        return base64_text(payload)


class Correction(_Decisions):
    """`corrections/0.json`: the certificate under a corrected sampling design."""

    format: Format = Field(description="The format of this document.")
    reason: str = Field(description="Why it was made.")
    design: DesignText = Field(description="The sampling design that it turned out to be.")
    label: str = Field(description="That it has no confidence level of its own.")
    corrects: Digest = Field(description="The registry that it corrects.")
    evidence: FixedEvidence = Field(description="The statistics under that design.")


class AdvisedSizes(Document):
    """An audit that would probably validate."""

    n: Count = Field(description="Target records, or clusters.")
    R: Count = Field(description="Draws.")
    power: Share = Field(description="The chance of validation, simulated.")
    power_error: Share = Field(description="Monte Carlo error of that chance.")
    mode: str = Field(description="The mode that it would register.")
    bound: Literal["", "paper", "rescaled", "sharp"] = Field(description="Its bound, if it has.")
    score: Literal["", "pvalue", "slack"] = Field(description="Its score, if it has.")
    test: str | None = Field(description="Its test; nothing: by declaration.")


class Advice(Document):
    """`advice.json`: sizes that would probably settle each unresolved mechanism."""

    format: Format = Field(description="The format of this document.")
    sizes: dict[str, AdvisedSizes | None] = Field(
        description="By mechanism; nothing where no sizes are advised."
    )


class ReportStep(Document):
    """One step on the way from a count to a bound."""

    label: str = Field(description="What the step is.")
    change: float = Field(description="How far it goes.")
    after: float = Field(description="Where it ends.")


class ReportWaterfall(Document):
    """How a bound is built."""

    side: Literal["lower", "upper"] = Field(description="Which bound.")
    certified: bool = Field(description="Whether the bound is certified by itself.")
    steps: tuple[ReportStep, ...] = Field(description="The steps; the last ends at the bound.")


class ReportVerdict(Document):
    """One verdict as the page shows it."""

    name: str = Field(description="The mechanism, or the named release.")
    decision: Literal["VALIDATED", "UNRESOLVED", "VIOLATION"] = Field(description="The decision.")
    sentence: str = Field(description="The decision in words.")
    lines: tuple[str, ...] = Field(description="The numbers behind it, in words.")
    target: float | None = Field(description="The reliability that must be exceeded.")
    lower: float | None = Field(description="The lower bound.")
    upper: float | None = Field(description="The upper bound.")
    certified: bool = Field(description="Whether the bounds are certified by themselves.")
    binding: str = Field(description="The requirement that most releases are held up by.")
    warning: str = Field(description="What a reader must know before the sentence.")
    together: str = Field(description="How sure both ends of the interval are.")
    waterfalls: tuple[ReportWaterfall, ...] = Field(description="How the bounds are built.")


class ReportTable(Document):
    """A table of the page."""

    title: str = Field(description="Its heading.")
    columns: tuple[str, ...] = Field(description="The heads of its columns.")
    rows: tuple[tuple[str, ...], ...] = Field(description="Its rows.")
    note: str = Field(description="A note below it.")
    section: str = Field(description="Where on the page it belongs.")


class ReportAdvice(Document):
    """What would settle an unresolved verdict on a fresh target."""

    mechanism: str = Field(description="The mechanism.")
    binding: str = Field(description="The requirement that most releases are held up by.")
    reliability: float = Field(description="The share of valid releases that is planned with.")
    n_here: Count = Field(description="Records of this audit.")
    R_here: Count = Field(description="Draws of this audit.")
    n: Count | None = Field(description="Records that are advised.")
    R: Count | None = Field(description="Draws that are advised.")
    power: float | None = Field(description="The chance of validation, simulated.")
    power_error: float | None = Field(description="Monte Carlo error of that chance.")
    mode: str | None = Field(description="The mode that it would register.")
    bound: str | None = Field(description="Its bound, if it has one.")
    score: str | None = Field(description="Its score, if it has one.")
    test: str | None = Field(description="Its test; nothing: by declaration.")
    sentence: str = Field(description="The advice in words.")


class ReportBinding(Document):
    """How often each requirement is the one that a release is least certain of."""

    mechanism: str = Field(description="The mechanism.")
    requirement: str = Field(description="The requirement that binds most releases.")
    counts: tuple[tuple[str, Count], ...] = Field(description="Releases, by requirement.")
    releases: Count = Field(description="All releases.")


class ReportRows(Document):
    """The evidence row by row, as `report.csv` has it."""

    columns: tuple[str, ...] = Field(description="The heads of the columns.")
    values: tuple[tuple[str | int | float | bool | None, ...], ...] = Field(
        description="One row for each release and requirement."
    )


class ReportDocument(Document):
    """A whole report."""

    format: Format = Field(description="The format of this document.")
    name: str = Field(description="The audit's name.")
    purpose: str = Field(description="What it is for.")
    attestation: str = Field(description="Who stands behind the opening.")
    guarantee: str = Field(description="Whether a guarantee remains, and if not, why.")
    verdicts: tuple[ReportVerdict, ...] = Field(description="The verdicts.")
    about: tuple[str, ...] = Field(description="What the claim is about and conditional on.")
    not_claimed: tuple[str, ...] = Field(description="What is not established.")
    tables: tuple[ReportTable, ...] = Field(description="The tables of the page.")
    verify: str = Field(description="How to check the folder.")
    notes: tuple[str, ...] = Field(description="What a reader should know besides.")
    advice: tuple[ReportAdvice, ...] = Field(description="What would settle what is unresolved.")
    bindings: tuple[ReportBinding, ...] = Field(description="Which requirement binds.")
    picks: str = Field(description="The sentence of the budget for picks, if one is registered.")
    certificate: Predicate = Field(description="What the certificate says.")
    subjects: dict[str, Digest] = Field(description="The digests that the certificate is about.")
    signer: PublicKey = Field(description="The key that signed the certificate.")
    head: Digest = Field(description="The head of the ledger.")
    rows: ReportRows = Field(description="The evidence row by row.")
