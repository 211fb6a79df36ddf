"""`report.json`: everything that a report's page says, for programs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxyguard.documents.certificate import Predicate
from proxyguard.documents.document import Count, Digest, Document, Format, PublicKey


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
