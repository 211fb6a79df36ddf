"""What the steps of an audit give back: each a document of the audit, with words of its own.

A step writes a document and gives it back as an object; nothing is defined here that the
document does not say. The vocabulary is that of `certify`: verdicts have a ``decision``, a
``sentence`` and a ``reliability_lower``, and certificates ``to_frame``, ``to_html`` and a form
of their own in a notebook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxyguard.audit.folder import (
    CERTIFICATE,
    AuditFolder,
    open_envelope,
    recorded_files,
    registry_name,
)
from proxyguard.certificate.picks import read_picks
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import Correction, Predicate, Statement, VerdictRecord
from proxyguard.documents.ledger import Amended, Sealed
from proxyguard.documents.registry import ExcludedDraw, Registry
from proxyguard.documents.releases import AnyDraw, FailedDraw, ReleaseManifest
from proxyguard.errors import RegistryError, StageError
from proxyguard.modes.count import ValidCount
from proxyguard.modes.evidence import Decision
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Stage

if TYPE_CHECKING:
    import pandas as pd

FRAME = (
    "mechanism", "release", "requirement", "n", "estimate", "lower", "upper", "limit", "pvalue",
    "violation_pvalue", "test",
)  # fmt: skip
"""The columns of `Certificate.to_frame`, which a sealed certificate has too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What sealing recorded, and what it advises to mend while that is still possible."""

    record: Sealed
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {**self.record.to_dict(), "warnings": list(self.warnings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one requirement asks for, as its rule resolved it."""

    member: str
    requirement: str
    limit: str
    slack: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The claim that is in force: registered, or amended since."""

    document: Registry
    void: tuple[ExcludedDraw, ...] = ()
    """Exclusions of earlier amendments that this one did not repeat."""

    @classmethod
    def of(cls, folder: AuditFolder) -> Registration:
        """Return what is registered in a folder now."""
        claims = folder.journal().ledger.claims
        if not claims:
            raise StageError("nothing is registered yet; run proxyguard register")
        step = claims[-1].body
        return cls(
            document=folder.document(Registry, registry_name(len(claims) - 1)),
            void=step.void if isinstance(step, Amended) else (),
        )

    @property
    def digest(self) -> str:
        """The digest that the ledger names."""
        return self.document.digest

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limit of every requirement, in the order of the declaration."""
        return tuple(
            Limit(
                member=name,
                requirement=resolved.part.name,
                limit=resolved.limit.value,
                slack=None if resolved.slack is None else resolved.slack.value,
                rule=resolved.limit.rule,
            )
            for name in (member.name for member in self.document.declaration.members)
            for resolved in self.document.members[name].requirements
        )

    def to_dict(self) -> dict[str, Plain]:
        """Return the registry as plain values, ready for JSON."""
        return self.document.to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDraws:
    """The draws of one mechanism, or the one of a named release."""

    mechanism: str
    draws: tuple[AnyDraw, ...]

    @property
    def failed(self) -> tuple[FailedDraw, ...]:
        """The draws that gave no release; they count as the worst one."""
        return tuple(draw for draw in self.draws if isinstance(draw, FailedDraw))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenReleases:
    """Every release of an audit, drawn and frozen before the target is opened."""

    manifest: ReleaseManifest

    @property
    def mechanisms(self) -> tuple[FrozenDraws, ...]:
        """The draws of every mechanism and named release, member by member."""
        return tuple(
            FrozenDraws(mechanism=name, draws=drawn.draws)
            for mechanisms in self.manifest.members.values()
            for name, drawn in mechanisms.items()
        )

    def to_dict(self) -> dict[str, Plain]:
        """Return the manifest as plain values, ready for JSON."""
        return self.manifest.to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """The verdict on one candidate of a stream."""

    candidate: str
    number: int
    decision: Decision  # validated or unresolved; the stream has no violation direction
    pvalue: float
    level: float

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {
            "candidate": self.candidate,
            "round": self.number,
            "decision": self.decision.value,
            "pvalue": self.pvalue,
            "level": repr(self.level),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectiveCertificate:
    """What a corrected sampling design says, once; a second wish is recorded as a deviation."""

    document: Correction | None
    deviation: str | None = None
    design: Plain = None

    @property
    def verdicts(self) -> tuple[VerdictRecord, ...]:
        """What it says of each mechanism; nothing where it is a deviation."""
        return () if self.document is None else self.document.verdicts

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        if self.document is None:
            return {"deviation": self.deviation, "design": self.design}
        return self.document.to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCertificate:
    """The signed certificate of a sealed audit.

    `Audit.open` gives it, and `Audit.certificate` again. Evidence and page are read from the
    audit's folder when they are asked for, and refused where they are no longer those that were
    certified.

    Attributes
    ----------
    predicate
        What it says, as it was signed.
    signer
        The identity of the key that signed it.
    subjects
        Digests of the files that it is about.
    folder
        Where it was read.

    Examples
    --------
    ::

        certificate = audit.certificate()
        certificate.decisions                       # {"bootstrap": Decision.VALIDATED}
        certificate.verdicts[0].reliability_lower   # 0.83
        certificate.to_frame()                      # one row for each release and requirement
    """

    predicate: Predicate
    signer: str
    subjects: Mapping[str, str]
    folder: AuditFolder = field(repr=False, compare=False)

    @classmethod
    def of(cls, folder: AuditFolder, journal: Journal) -> SealedCertificate:
        """Return the certificate that a ledger records.

        Parameters
        ----------
        folder
            The audit's folder.
        journal
            The ledger as it stands there.

        Raises
        ------
        StageError
            Where nothing is certified yet.
        DigestMismatch
            Where the file is not the one that the ledger vouches for.
        """
        if not journal.ledger.has(Stage.CERTIFIED):
            raise StageError("there is no certificate yet; run proxyguard open")
        folder.check_files({CERTIFICATE: recorded_files(journal.ledger.entries)[CERTIFICATE]})
        value, signer = open_envelope(folder.read(CERTIFICATE))
        statement = Statement.of(value, CERTIFICATE)
        return cls(
            predicate=statement.predicate,
            signer=signer,
            subjects=statement.subjects,
            folder=folder,
        )

    @property
    def name(self) -> str:
        """The audit's name."""
        return self.predicate.name

    @property
    def verdicts(self) -> tuple[VerdictRecord, ...]:
        """The verdicts, in the order of the declaration."""
        return self.predicate.verdicts

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision on each mechanism or named release."""
        return {verdict.mechanism: verdict.decision for verdict in self.verdicts}

    @property
    def guarantee(self) -> str:
        """Whether a guarantee remained when it was certified, and if not, why."""
        return self.predicate.claim_status.guarantee

    @property
    def attestation(self) -> str:
        """Who stands behind the opening, in words."""
        return self.predicate.attestation.words

    @property
    def not_claimed(self) -> tuple[str, ...]:
        """What the certificate does not establish."""
        return self.predicate.not_claimed

    def __getitem__(self, mechanism: str) -> VerdictRecord:
        for verdict in self.verdicts:
            if verdict.mechanism == mechanism:
                return verdict
        raise KeyError(mechanism)

    def __str__(self) -> str:
        if self.predicate.text is not None:
            return self.predicate.text
        return "\n".join(
            f"{verdict.decision.upper()}: {verdict.mechanism}\n{verdict.sentence}"
            for verdict in self.verdicts
        )

    def picks(self) -> dict[str, ValidCount]:
        """Return, for each mechanism, how many of any releases that one picks are valid."""
        if self.predicate.picks is None:
            raise RegistryError(
                "picks: no budget was registered for choosing releases after looking, so nothing "
                "can be said about a choice; register [picks] in an audit on a fresh target"
            )
        return read_picks(self.predicate.picks.to_dict())

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement: estimate, bounds, p-values.

        Raises
        ------
        SealError
            Where a file of the folder is not the one that the ledger vouches for.
        """
        import pandas as pd

        from proxyguard.audit.report import sources_of
        from proxyguard.report.sources import COLUMNS, evidence_rows

        rows = evidence_rows(sources_of(self.folder, self.folder.journal()))
        frame = pd.DataFrame(rows, columns=list(COLUMNS)).rename(columns={"records": "n"})
        return frame[list(FRAME)]

    def to_html(self) -> str:
        """Return the report of the audit as a page, which asks for nothing from outside."""
        from proxyguard.audit.report import page_of

        return page_of(self.folder)

    def _repr_html_(self) -> str:
        from proxyguard.audit.report import fragment_of

        return fragment_of(self.folder)

    def to_dict(self) -> dict[str, Plain]:
        """Return what the certificate says as plain values, ready for JSON."""
        return self.predicate.to_dict()
