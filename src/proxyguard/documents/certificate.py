"""What is certified, and what is said about it.

The verdicts, by what they are about; then the predicate that a certificate states, the statement
and its signed envelope (`certificate.json`), its correction (`corrections/0.json`), the advice
(`advice.json`); last `report.json`: everything that a report's page says, for programs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag

from proxyguard.documents.document import (
    Amount,
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
from proxyguard.modes.evidence import Decision

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class BudgetShare(Document):
    """One part of an error budget."""

    symbol: str
    """Its symbol."""
    event: str
    """The event that it pays for."""
    amount: str
    """The amount, an exact fraction."""


class BoundStep(Document):
    """A number on the way to a bound."""

    label: str
    """What it is."""
    value: float
    """The number."""


class BoundRecord(Document):
    """A one-sided confidence bound on the chance that a fresh release is valid."""

    value: float
    """The bound."""
    rests_on: str
    """The theorem that it rests on."""
    pvalue: float | None
    """P-value against the registered target."""
    steps: tuple[BoundStep, ...]
    """The numbers that it is built from, in order."""
    budget: tuple[BudgetShare, ...]
    """The error levels that it spends."""
    level: float | None = None
    """At which each requirement's test told single releases apart, where one did."""


class _OfReleases:
    """What a verdict about releases does not say: a named release has no reliability."""

    reliability_target: ClassVar[None] = None
    reliability_lower: ClassVar[None] = None
    reliability_upper: ClassVar[None] = None


class _Verdict(Document):
    """What every verdict says."""

    mechanism: str
    """The mechanism, or the named release, that it is about."""
    decision: Decided
    """What is decided; unresolved is no evidence of a violation."""
    sentence: str
    """The decision in words."""


class MechanismVerdict(_Verdict):
    """What is decided about a mechanism."""

    reliability_target: float
    """The reliability that must be exceeded."""
    reliability_lower: float | None
    """Certified lower bound, if it is one."""
    reliability_upper: float | None
    """Certified upper bound, if it is one."""
    joint_coverage: float | None
    """How sure both bounds are together."""
    certified: Literal["bounds", "decisions"]
    """Whether the bounds are certified, or the decision alone."""
    adjusted_pvalue: float | None
    """P-value, adjusted for all mechanisms."""
    adjusted_pvalue_level: str | None
    """The budget that it is compared with."""
    mode: str
    """The mode of the claim."""
    bound: str | None
    """Which bound is used, where the mode has several."""
    tests: dict[str, str]
    """The test of each requirement."""
    n_releases: Amount
    """Releases."""
    n_records: dict[str, Amount]
    """Records, by requirement."""
    lower: BoundRecord
    """The lower bound."""
    upper: BoundRecord | None
    """The upper bound, if there is one."""
    design: str
    """The sampling design."""
    dependence: str
    """What is assumed about releases or requirements."""
    seed: Whole
    """Seed of the randomness of the tests."""
    seed_given_by_caller: bool
    """Whether a caller chose the seed."""
    basis: str
    """On what the certificate rests besides the statistics."""
    not_claimed: tuple[str, ...]
    """What is not established."""
    notes: tuple[str, ...]
    """What a reader should know besides."""
    adjusted_release_pvalues: dict[str, float]
    """P-values of the releases, adjusted for their number, for reading."""


class ReleaseVerdict(_OfReleases, _Verdict):
    """What is decided about a named release."""

    member: str
    """The member that it belongs to."""
    release: str
    """The release."""
    pvalue: float
    """P-value for validity."""
    adjusted: float
    """P-value, adjusted for all releases."""
    binding: str
    """The requirement that it is least certain of."""
    violated: tuple[str, ...]
    """Requirements that are shown to be violated, the worst first."""


class CorrectedReleaseVerdict(ReleaseVerdict):
    """What a corrective certificate says of a named release."""

    joint_coverage: None
    """Nothing: a correction has no confidence level."""


class SequentialVerdict(_Verdict):
    """What is decided about a mechanism that was drawn until a boundary was crossed."""

    reliability_target: float
    """The reliability that must be exceeded."""
    reliability_lower: float | None
    """Certified lower bound."""
    draws: Amount
    """Draws that were made."""
    favorable: Amount
    """Draws with a favorable score."""
    finished: bool
    """Whether no further draw could change the decision."""
    largest_number_of_draws: Amount
    """Draws that were registered."""
    kappa: float
    """The threshold of the score."""
    bound: str
    """Which bound is used."""
    rests_on: str
    """The theorem that it rests on."""
    budget: tuple[BudgetShare, ...]
    """The error levels that it spends."""
    basis: str
    """On what the certificate rests besides the statistics."""

    reliability_upper: ClassVar[None] = None  # drawn until a boundary is crossed: it has none


class RoundVerdict(_OfReleases, _Verdict):
    """What is decided about one candidate of a stream."""

    round: Amount
    """Number of the round."""
    level: NumberText
    """The error level of the round."""
    rests_on: str
    """The theorem that it rests on."""


def _verdict_kind(plain: Any) -> str:
    """Return which form a verdict has, by the key that no other form has."""
    # A key that says the form would be one more that a forger can set: the fields say it already.
    has = plain.__contains__ if isinstance(plain, dict) else type(plain).model_fields.__contains__
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

    mode: Literal["releases"]
    """The mode of the claim."""
    alpha: str
    """Error level of validation."""
    beta: str | None
    """Error level of violation, if there is one."""
    rests_on: str
    """The theorem that it rests on."""
    level: float
    """The level at which Holm's procedure stopped: a release with a p-value up to it is valid."""
    violation_level: float | None = None
    """The same of violations, of releases and requirements together."""
    seed: Whole
    """Seed of the randomness of the tests."""
    seed_given_by_caller: bool
    """Whether a caller chose the seed."""
    basis: str
    """On what the certificate rests besides the statistics."""
    not_claimed: tuple[str, ...]
    """What is not established."""


class PickGroup(Document):
    """The e-values of one group's releases, in whole numbers of one unit."""

    alpha: tuple[str, str]
    """Its error level: numerator and denominator."""
    thresholds: tuple[str, ...]
    """Thresholds of the calibrator."""
    unit: str
    """The unit, a fraction."""
    releases: tuple[str, ...]
    """The releases."""
    evalues: tuple[str, ...]
    """Their e-values, in units."""


class PicksRecord(Document):
    """How many of the releases that a reader picks are valid."""

    alpha: str
    """The error level, apart from the claim's."""
    rests_on: str
    """The theorem that it rests on."""
    sentence: str
    """What holds, in words."""
    mechanisms: dict[str, PickGroup]
    """The e-values, by group."""


class DrawCountsRecord(Document):
    """What became of the draws of a mechanism."""

    registered: Amount
    """Draws that were registered."""
    delivered: Amount
    """Draws that gave a release."""
    failed: Amount
    """Draws that gave none."""
    excluded: Amount
    """Draws that an amendment left out."""
    used: Amount
    """Draws that the claim counts, failed ones among them."""


class Failure(Document):
    """A draw that gave no release."""

    seed: Whole
    """The seed of the draw."""
    status: Literal["failed", "timeout"]
    """Whether it failed or was too slow."""
    error: str
    """Why, in words."""


class SecondaryDecision(Document):
    """What the claim would say of a named release under other limits; it never decides."""

    decision: Decided
    """What is decided; unresolved is no evidence of a violation."""


class SecondaryBounds(SecondaryDecision):
    """What the claim would say of a mechanism under other limits; it never decides."""

    lower: float
    """Lower bound."""
    upper: float | None
    """Upper bound, if there is one."""


def _secondary_kind(plain: Any) -> str:
    has = "lower" in plain if isinstance(plain, dict) else isinstance(plain, SecondaryBounds)
    return "mechanism verdict" if has else "release verdict"


SecondaryResult = Annotated[
    Annotated[SecondaryBounds, Tag("mechanism verdict")]
    | Annotated[SecondaryDecision, Tag("release verdict")],
    Discriminator(_secondary_kind),
]


class SecondaryRecord(Document):
    """A secondary specification and what came of it."""

    label: str
    """That this is not certified."""
    limits: dict[str, str]
    """The other limits, by requirement."""
    results: dict[str, SecondaryResult]
    """What the claim would say."""


class ClaimStatusRecord(Document):
    """The status of a claim, each with its reason."""

    evidence: str
    """What kind of evidence it is."""
    lineage: str
    """Where the target's records were met before."""
    registered: str
    """Whether the claim was registered."""
    guarantee: str
    """Whether a guarantee remains, and if not, why."""


class Attestation(Document):
    """Who stands behind the opening."""

    kind: Literal["self-attested", "granted"]
    """The author alone, or a steward."""
    words: str
    """The same, in words."""
    steward: Identity | None = None
    """The steward, if there is one."""
    grant: Digest | None = None
    """The head that the steward looked at."""


class Stated(Document):
    """What its author says and nothing in the folder shows."""

    about: str
    """What it is about."""
    words: str
    """What is said."""


class DisclosureRecord(Document):
    """How finely statistics were given away."""

    digits: Amount
    """Digits that every statistic is rounded to."""
    words: str
    """The same, in words."""


class Decisions(Document):
    """What was decided, and what is reported beside it."""

    verdicts: tuple[VerdictRecord, ...]
    """The verdicts."""
    text: str | None = None
    """The verdicts in words; of many, how many there are of each kind, and the worst."""
    family: ReleaseFamily | None = None
    """Of named releases: what all verdicts have in common."""
    redraws: dict[str, tuple[str, ...]]
    """What every draw redraws."""
    conditional_on: dict[str, tuple[str, ...]]
    """What is the same for all."""
    draws: dict[str, DrawCountsRecord]
    """What became of the draws."""
    failed: dict[str, tuple[Failure, ...]]
    """The draws that gave no release."""
    secondary: dict[str, SecondaryRecord]
    """Secondary specifications."""


class EpsilonRecord(Document):
    """A claimed privacy parameter that guesses about coins refute, or do not; never confirmed."""

    mechanism: str
    """The mechanism that it is claimed of."""
    claimed: NumberText
    """The claimed epsilon."""
    delta: NumberText
    """The claimed delta."""
    attack: str
    """The attack that guessed."""
    alpha: NumberText
    """The error level of all claimed epsilons together."""
    draws: Amount
    """Draws, all that were frozen."""
    coins: Amount
    """Coins that were tossed: one for each draw and training row."""
    guesses: Amount
    """Guesses about them, as many as were registered."""
    right: Amount
    """Guesses that were right."""
    pvalue: Probability
    """P-value of the claim, adjusted for all claimed epsilons."""
    lower: float
    """What epsilon is at least, at the claimed delta; 0 where nothing is shown."""
    refuted: bool
    """Whether the claim is refuted; where it is not, that proves nothing."""
    sentence: str
    """The same in words."""


class Predicate(Decisions):
    """What a certificate says."""

    name: str
    """The audit's name."""
    purpose: str
    """What it is for."""
    level: Literal["mechanism", "releases"]
    """What the claim is about."""
    estimand: dict[str, str]
    """What means are over, by member."""
    claim_status: ClaimStatusRecord
    """The status of the claim."""
    attestation: Attestation
    """The author alone, or a steward too."""
    ledger: Digest
    """Digest of the entry that records the opening."""
    software: dict[str, str]
    """Versions that the registry was made with."""
    stated_not_checked: tuple[Stated, ...]
    """What stays the author's word."""
    not_claimed: tuple[str, ...]
    """What is not established."""
    privacy: dict[str, tuple[str, ...]] | None = None
    """What releases cost in privacy, in words."""
    disclosure: DisclosureRecord | None = None
    """How finely statistics were given away, if not as they are."""
    diagnostics: Diagnostics | None = None
    """What decides nothing; of a fixed audit."""
    excluded: dict[str, tuple[str, ...]] | None = None
    """Excluded releases by group; of a fixed audit."""
    picks: PicksRecord | None = None
    """How many of any releases that are picked are valid."""
    epsilon: tuple[EpsilonRecord, ...] | None = None
    """Claimed privacy parameters, refuted or not; of a fixed audit that declares some."""


class Sha256Digest(Document):
    """A digest, as in-toto writes it."""

    sha256: Digest
    """The digest."""


class Subject(Document):
    """Something that the certificate is about."""

    name: str
    """What it is."""
    digests: Sha256Digest = Field(alias="digest")
    """Its digest."""


class Statement(Document):
    """An in-toto statement about these digests."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    """That this is a statement of in-toto."""
    predicate_type: Literal["urn:proxyguard:certificate:1"] = Field(alias="predicateType")
    """That it is a certificate of ours."""
    subject: tuple[Subject, ...]
    """What it is about."""
    predicate: Predicate
    """What it says."""

    @classmethod
    def about(cls, subjects: Mapping[str, str], predicate: Predicate) -> Self:
        """Return the statement that says ``predicate`` of these digests, given by name."""
        return cls(
            type_="https://in-toto.io/Statement/v1",
            predicate_type="urn:proxyguard:certificate:1",
            subject=tuple(
                Subject(name=name, digests=Sha256Digest(sha256=digest))
                for name, digest in sorted(subjects.items())
            ),
            predicate=predicate,
        )

    @property
    def subjects(self) -> dict[str, str]:
        """The digests that it is about, by name."""
        return {subject.name: subject.digests.sha256 for subject in self.subject}


def _base64(text: str) -> str:
    # Padding bits and line breaks decode alike: a second spelling would be a second file.
    try:
        spelt = b64encode(b64decode(text, validate=True)).decode()
    except ValueError:
        spelt = ""
    if spelt != text:
        raise ValueError("expected base64 in canonical form; it was edited")
    return text


# Bytes in base64, spelt in the one way that we write it.
Base64 = Annotated[str, AfterValidator(_base64)]


class Signature(Document):
    """A signature of DSSE."""

    keyid: PublicKey
    """The key that signed."""
    sig: Base64
    """The signature, in base64."""


class Envelope(Document):
    """`certificate.json`: a statement in a signed DSSE envelope."""

    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    """That the payload is a statement of in-toto."""
    payload: Base64
    """The statement, in base64."""
    signatures: tuple[Signature]
    """The one signature."""

    @property
    def content(self) -> bytes:
        """The bytes of the statement, which are signed."""
        return b64decode(self.payload)


class Correction(Decisions):
    """`corrections/0.json`: the certificate under a corrected sampling design."""

    format: Format
    """The format of this document."""
    reason: str
    """Why it was made."""
    design: DesignText
    """The sampling design that it turned out to be."""
    label: str
    """That it has no confidence level of its own."""
    corrects: Digest
    """The registry that it corrects."""
    evidence: FixedEvidence
    """The statistics under that design."""

    @property
    def decisions(self) -> dict[str, Decision]:
        """What it says of each mechanism or named release."""
        return {verdict.mechanism: verdict.decision for verdict in self.verdicts}


class AdvisedSizes(Document):
    """An audit that would probably validate."""

    n: Amount
    """Target records, or clusters."""
    R: Amount
    """Draws."""
    power: Probability
    """The chance of validation, simulated."""
    power_error: Probability
    """Monte Carlo error of that chance."""
    targets: Amount
    """Targets that it was simulated on; 0: it is a sum, and nothing was simulated."""
    requirements: Amount
    """Requirements that it was planned with, the nearest to their limits."""
    mode: str
    """The mode that it would register."""
    bound: Literal["", "paper", "rescaled", "sharp"]
    """Its bound, if it has."""
    score: Literal["", "pvalue", "slack"]
    """Its score, if it has."""
    test: str | None
    """Its test; nothing: by declaration."""


class Advice(Document):
    """`advice.json`: sizes that would probably settle each unresolved mechanism or release."""

    format: Format
    """The format of this document."""
    sizes: dict[str, AdvisedSizes | None]
    """By mechanism or named release; nothing where no sizes are advised."""


class ReportStep(Document):
    """One step on the way from a count to a bound."""

    label: str
    """What the step is."""
    change: float
    """How far it goes."""
    after: float
    """Where it ends."""


class ReportWaterfall(Document):
    """How a bound is built."""

    side: Literal["lower", "upper"]
    """Which bound."""
    certified: bool
    """Whether the bound is certified by itself."""
    steps: tuple[ReportStep, ...]
    """The steps; the last ends at the bound."""


class ReportVerdict(Document):
    """One verdict as the page shows it."""

    name: str
    """The mechanism, or the named release."""
    decision: Literal["VALIDATED", "UNRESOLVED", "VIOLATION"]
    """The decision."""
    sentence: str
    """The decision in words."""
    lines: tuple[str, ...]
    """The numbers behind it, in words."""
    target: float | None
    """The reliability that must be exceeded."""
    lower: float | None
    """The lower bound."""
    upper: float | None
    """The upper bound."""
    certified: bool
    """Whether the bounds are certified by themselves."""
    binding: str
    """The requirement that most releases are held up by."""
    warning: str
    """What a reader must know before the sentence."""
    together: str
    """How sure both ends of the interval are."""
    waterfalls: tuple[ReportWaterfall, ...]
    """How the bounds are built."""


class ReportTable(Document):
    """A table of the page."""

    title: str
    """Its heading."""
    columns: tuple[str, ...]
    """The heads of its columns."""
    rows: tuple[tuple[str, ...], ...]
    """Its rows."""
    note: str
    """A note below it."""
    section: str
    """Where on the page it belongs."""


class ReportAdvice(Document):
    """What would settle an unresolved verdict on a fresh target."""

    mechanism: str
    """The mechanism, or the named release."""
    binding: str
    """The requirement that most releases are held up by."""
    reliability: float
    """The share of valid releases that is planned with."""
    n_here: Amount
    """Records of this audit."""
    R_here: Amount
    """Draws of this audit."""
    n: Amount | None
    """Records that are advised."""
    R: Amount | None
    """Draws that are advised."""
    power: float | None
    """The chance of validation, simulated."""
    power_error: float | None
    """Monte Carlo error of that chance."""
    targets: Amount | None
    """Targets that it was simulated on; 0: it is a sum, and nothing was simulated."""
    requirements: Amount | None
    """Requirements that it was planned with, the nearest to their limits."""
    mode: str | None
    """The mode that it would register."""
    bound: str | None
    """Its bound, if it has one."""
    score: str | None
    """Its score, if it has one."""
    test: str | None
    """Its test; nothing: by declaration."""
    sentence: str
    """The advice in words."""


class ReportBinding(Document):
    """How often each requirement is the one that a release is least certain of."""

    mechanism: str
    """The mechanism."""
    requirement: str
    """The requirement that binds most releases."""
    counts: tuple[tuple[str, Amount], ...]
    """Releases, by requirement."""
    releases: Amount
    """All releases."""


class Report(Document):
    """A whole report: what the page says, and what `report.json` has under the same names."""

    name: str
    """The audit's name."""
    purpose: str
    """What it is for."""
    attestation: str
    """Who stands behind the opening."""
    guarantee: str
    """Whether a guarantee remains, and if not, why."""
    verdicts: tuple[ReportVerdict, ...]
    """The verdicts."""
    required: tuple[str, ...]
    """What was required of a release, a sentence for each requirement."""
    conditions: tuple[str, ...]
    """What verdicts rest on that the author states of releases made elsewhere."""
    lineage: str
    """Where the target was met before, where that matters."""
    about: tuple[str, ...]
    """What the claim is about and conditional on."""
    not_claimed: tuple[str, ...]
    """What is not established."""
    tables: tuple[ReportTable, ...]
    """The tables of the page."""
    verify: str
    """How to check the folder."""
    notes: tuple[str, ...]
    """What a reader should know besides."""
    advice: tuple[ReportAdvice, ...]
    """What would settle what is unresolved."""
    bindings: tuple[ReportBinding, ...]
    """Which requirement binds."""
    picks: str
    """The sentence of the budget for picks, if one is registered."""
    exposure: tuple[str, ...]
    """Whom claims about exposure are about, and what they do not say."""

    def section(self, name: str) -> tuple[ReportTable, ...]:
        """Return the tables of one section."""
        return tuple(table for table in self.tables if table.section == name)


class ReportDocument(Report):
    """A report as its file has it, with the certificate and the evidence behind it."""

    format: Format
    """The format of this document."""
    certificate: Predicate
    """What the certificate says."""
    subjects: dict[str, Digest]
    """The digests that the certificate is about."""
    signer: PublicKey
    """The key that signed the certificate."""
    head: Digest
    """The head of the ledger."""
