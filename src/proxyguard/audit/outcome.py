"""What an audit gives: the objects that its steps give back, its report, and where it stands.

A step writes a document and gives it back as an object; nothing is defined here that the
document does not say. The vocabulary is that of `certify`: verdicts have a ``decision``, a
``sentence`` and a ``reliability_lower``, and certificates ``to_frame``, ``to_html`` and a form
of their own in a notebook. The report is built from the record alone, by `audit_sources`, so that
the same folder gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    EVIDENCE,
    RELEASES,
    REPORTS,
    AuditFolder,
    check_folder,
    open_envelope,
    recorded_files,
    withheld_files,
)
from proxyguard.audit.rules import measures_in, required_by
from proxyguard.certificate.picks import read_picks
from proxyguard.certificate.wording import verdicts_text
from proxyguard.documents.canonical import Plain, canonical_bytes
from proxyguard.documents.certificate import (
    Advice,
    Correction,
    Predicate,
    ReleaseVerdict,
    Report,
    ReportAdvice,
    VerdictRecord,
)
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence, FixedEvidence, SequentialEvidence
from proxyguard.documents.ledger import Amended, Sealed
from proxyguard.documents.registry import ExcludedDraw, Registry
from proxyguard.documents.releases import AnyDraw, FailedDraw, ReleaseManifest
from proxyguard.errors import RegistryError, SealError, StageError
from proxyguard.evidence.releases import Limits
from proxyguard.modes.count import ValidCount
from proxyguard.modes.evidence import Decision
from proxyguard.modes.planning import planned
from proxyguard.report.advice import (
    MOST_ADVISED,
    AdviceCase,
    Unsettled,
    UnsettledRelease,
    advice_words,
    advise,
    find_sizes,
    unit_deviations,
    unit_means,
)
from proxyguard.report.compare import Compared, Comparison, compare
from proxyguard.report.content import build_report, to_json
from proxyguard.report.evidence import binding_of, failed_releases
from proxyguard.report.html import comparison_markdown, comparison_page, to_html, to_markdown
from proxyguard.report.notebook import report_fragment
from proxyguard.report.record import WITH_ONE, lost_guarantee, shown_verdicts
from proxyguard.report.sources import COLUMNS, Sources, SpentLevels, evidence_rows, to_csv
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Columns of `report.csv` that a frame of a certificate has, and that of named releases besides.
FRAME = COLUMNS[: COLUMNS.index("test") + 1]
OF_RELEASES = ("adjusted_pvalue", "decision")


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
    ramp: str | None
    """Its width, where a rule chose it."""
    rule: str
    unit: str = ""
    """What limit, slack and ramp are in, where that is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The claim that is in force: registered, or amended since."""

    document: Registry
    void: tuple[ExcludedDraw, ...] = ()
    """Exclusions of earlier amendments that this one did not repeat."""

    @classmethod
    def of(cls, folder: AuditFolder) -> Registration:
        """Return what is registered in a folder now."""
        journal = folder.journal()
        registry = folder.registry(journal)
        step = journal.ledger.claims[-1].body
        return cls(
            document=registry,
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
                ramp=None if resolved.ramp is None else resolved.ramp.value,
                rule=resolved.limit.rule,
                unit=resolved.part.own_unit,
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
    lost
        Why no guarantee remains, or nothing where one does.

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
    lost: str = ""

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
        # Before its signature: whoever exchanges the file can sign theirs with a key of their own.
        folder.check_files({CERTIFICATE: recorded_files(journal.ledger.entries)[CERTIFICATE]})
        statement, signer = open_envelope(folder.read(CERTIFICATE))
        return cls(
            predicate=statement.predicate,
            signer=signer,
            subjects=statement.subjects,
            folder=folder,
            lost=lost_guarantee(statement.predicate.claim_status, journal.ledger.entries),
        )

    @property
    def name(self) -> str:
        """The audit's name."""
        return self.predicate.name

    @property
    def verdicts(self) -> tuple[VerdictRecord, ...]:
        """The verdicts, in the order of the declaration; their sentences say what they lack."""
        return shown_verdicts(self.predicate.verdicts, self.lost)

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
            first = f"{self.lost} {WITH_ONE}\n" if self.lost else ""
            return first + self.predicate.text
        return verdicts_text(self.verdicts)

    __repr__ = __str__

    def picks(self) -> dict[str, ValidCount]:
        """Return, for each mechanism, how many of any releases that one picks are valid."""
        if self.predicate.picks is None:
            raise RegistryError(
                "picks: no budget was registered for choosing releases after looking, so nothing "
                "can be said about a choice; register [picks] in an audit on a fresh target"
            )
        return read_picks(self.predicate.picks)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement.

        Returns
        -------
        pandas.DataFrame
            The columns of `Certificate.to_frame`, or of named releases those of
            `ReleaseCertificate.to_frame`; numbers have the digits that `report.csv` has.

        Raises
        ------
        SealError
            Where a file of the folder is not the one that the ledger vouches for.
        """
        import pandas as pd

        frame = pd.DataFrame(evidence_rows(self._sources()), columns=list(COLUMNS))
        return frame[[*FRAME, *(() if self.predicate.family is None else OF_RELEASES)]]

    def to_html(self) -> str:
        """Return the report of the audit as a page, which asks for nothing from outside."""
        sources = self._sources()
        return to_html(build_report(sources), sources)

    def _repr_html_(self) -> str:
        return report_fragment(build_report(self._sources()))

    def _sources(self) -> Sources:
        """Read the record again, which may no longer be what was certified."""
        # One step: files that are exchanged while this reads would make a page of two records.
        with self.folder.step():
            return audit_sources(self.folder, self.folder.journal())

    def to_dict(self) -> dict[str, Plain]:
        """Return what the certificate says as plain values, ready for JSON."""
        return self.predicate.to_dict()


_FILES: dict[str, Callable[[Report, Sources], bytes]] = {
    "report.md": lambda report, sources: to_markdown(report).encode(),
    "report.html": lambda report, sources: to_html(report, sources).encode(),
    "report.json": to_json,
    "report.csv": lambda report, sources: to_csv(sources),
}


def audit_sources(folder: AuditFolder, journal: Journal) -> Sources:
    """Return the record that a certified audit's report is built from."""
    if not journal.ledger.has(Stage.CERTIFIED):
        raise StageError("there is no certificate yet; run proxyguard open")
    # A page that is built from exchanged files would show them under the author's signature.
    check_folder(folder, journal, besides=withheld_files(folder, journal))
    statement, signer = open_envelope(folder.read(CERTIFICATE))
    evidence = folder.document(Evidence, EVIDENCE)
    registry = folder.registry(journal)
    # By the ledger and not by the file: advice that was laid here later is nobody's.
    advised = ADVICE in recorded_files(journal.ledger.entries)
    predicate, claim = statement.predicate, registry.declaration.claim
    manifest = folder.document(ReleaseManifest, RELEASES) if folder.has(RELEASES) else None
    return Sources(
        name=predicate.name,
        purpose=predicate.purpose,
        attestation=predicate.attestation.words,
        status=predicate.claim_status,
        verdicts=predicate.verdicts,
        required=required_by(registry),
        not_claimed=predicate.not_claimed,
        groups=evidence.by_group,
        levels=SpentLevels(
            alpha=Fraction(claim.alpha),
            beta=None if claim.beta is None else Fraction(claim.beta),
            pooled=bool(claim.pooled_violations),
        ),
        told=_limits(registry, manifest, evidence, predicate),
        family=predicate.family,
        predicate=predicate,
        registry=registry,
        manifest=manifest,
        ledger=journal.ledger.entries,
        signer=signer,
        subjects=statement.subjects,
        head=journal.ledger.head,
        advice=advice_for(
            registry, predicate, evidence, folder.document(Advice, ADVICE) if advised else None
        ),
    )


def _limits(
    registry: Registry, manifest: ReleaseManifest | None, evidence: Evidence, predicate: Predicate
) -> Mapping[str, Limits]:
    """Return what the tests showed means to exceed and to stay below, derived anew."""
    # Here: steps give the objects of this file back, and so import it first.
    from proxyguard.audit.decide import fixed_limits
    from proxyguard.audit.sequential import OneByOne

    if isinstance(evidence, SequentialEvidence):
        return OneByOne.of(registry).limits(evidence)
    if manifest is None or not isinstance(evidence, FixedEvidence):
        raise SealError(f"{RELEASES} is missing, and releases were frozen before the opening")
    return fixed_limits(registry, manifest, evidence, predicate)


def advice_for(
    registry: Registry, predicate: Predicate, evidence: Evidence, recorded: Advice | None = None
) -> list[ReportAdvice]:
    """Return what would settle each unresolved mechanism, and the nearest named releases.

    The sizes are those that were recorded with the certificate. An audit without such a record
    has them searched for.
    """
    cases = unsettled_in(registry, predicate, evidence)
    if recorded is None:
        return [advise(case) for case in cases]
    # The sizes are the author's word; which verdicts are unresolved is not.
    if set(recorded.sizes) != {case.mechanism for case in cases}:
        raise SealError(f"{ADVICE} is about {sorted(recorded.sizes)}, and others are unresolved")
    # Not searched for again: the report has to come out byte by byte wherever it is built.
    return [advice_words(case, recorded.sizes[case.mechanism]) for case in cases]


def advice_record(registry: Registry, predicate: Predicate, evidence: Evidence) -> Advice | None:
    """Return the sizes to record beside the certificate; None where every verdict is settled."""
    sizes = {
        case.mechanism: find_sizes(case) for case in unsettled_in(registry, predicate, evidence)
    }
    return Advice(format=FORMAT, sizes=sizes) if sizes else None


def unsettled_in(
    registry: Registry, predicate: Predicate, evidence: Evidence
) -> Sequence[AdviceCase]:
    """Return the unresolved verdicts of a certificate as the planner takes them."""
    if registry.declaration.claim.level == "mechanism":
        return _unsettled_mechanisms(registry, predicate, evidence)
    return _unsettled_releases(registry, predicate, evidence)


def _seed_of(registry: Registry) -> int:
    """Return a seed that the same audit has wherever it is asked."""
    return int(registry.digest[:8], 16)


def _unsettled_releases(
    registry: Registry, predicate: Predicate, evidence: Evidence
) -> list[UnsettledRelease]:
    """Return the unresolved named releases that are nearest to being validated."""
    declaration = registry.declaration
    unresolved = sorted(
        (
            verdict for verdict in predicate.verdicts
            if isinstance(verdict, ReleaseVerdict) and verdict.decision is Decision.UNRESOLVED
        ),
        key=lambda verdict: verdict.pvalue,
    )  # fmt: skip
    cases = []
    for verdict in unresolved[:MOST_ADVISED]:
        member, group = declaration.member(verdict.member), evidence.groups[verdict.member]
        requirements = tuple(m.requirement for m in measures_in(registry, member))
        row = group.releases.index(verdict.release)
        derived = group.derived
        cases.append(
            UnsettledRelease(
                mechanism=verdict.mechanism,
                claim=declaration.claim.to_claim(),
                design=member.target.sampling_design,
                requirements=requirements,
                means=unit_means(group, requirements)[[row]],
                deviations=unit_deviations(group),
                n=max(column.n for column in group.columns),
                binding=verdict.binding,
                seed=_seed_of(registry),
                digits=declaration.digits,
                estimates=np.array(derived.estimates[row], dtype=np.float64),
                pvalues=np.array(derived.pvalues[row], dtype=np.float64),
                family=len(predicate.verdicts),
                unresolved=len(unresolved),
            )
        )
    return cases


def _unsettled_mechanisms(
    registry: Registry, predicate: Predicate, evidence: Evidence
) -> list[Unsettled]:
    """Return the unresolved mechanisms."""
    declaration = registry.declaration
    (member,) = declaration.members
    requirements = tuple(m.requirement for m in measures_in(registry, member))
    shares = set((declaration.claim.shares or {}).values())
    unsettled = []
    for verdict in predicate.verdicts:
        group = evidence.groups.get(verdict.mechanism)
        if verdict.decision is not Decision.UNRESOLVED or group is None:
            continue
        failures = predicate.failed.get(verdict.mechanism, ())
        failed = failed_releases(verdict.mechanism, failures)
        binding = binding_of(verdict.mechanism, group, failed)
        unsettled.append(
            Unsettled(
                mechanism=verdict.mechanism,
                claim=planned(declaration.claim.fixed_claim()),
                design=member.target.sampling_design,
                requirements=requirements,
                means=unit_means(group, requirements),
                deviations=unit_deviations(group),
                n=max(column.n for column in group.columns),
                mechanisms=len(predicate.verdicts),
                binding="" if binding is None else binding.requirement,
                seed=_seed_of(registry),
                sequential=declaration.claim.sequential,
                unequal=len(shares) > 1,
                digits=declaration.digits,
            )
        )
    return unsettled


def drawn_figures(folder: AuditFolder, journal: Journal, scheme: str) -> dict[str, list[Figure]]:
    """Return the report's pictures as figures, by what they are about; needs [plots]."""
    from proxyguard.report.charts import pictures_of
    from proxyguard.report.picture import to_figure

    sources = audit_sources(folder, journal)
    return {
        about: [to_figure(picture, scheme=scheme) for picture in pictures]
        for about, pictures in pictures_of(build_report(sources), sources).items()
    }


def report_bytes(folder: AuditFolder, journal: Journal) -> dict[str, bytes]:
    """Return the report's files; the same audit gives the same bytes."""
    sources = audit_sources(folder, journal)
    report = build_report(sources)
    return {name: _FILES[name](report, sources) for name in REPORTS}


def write_comparison(folders: Sequence[Path], out: Path) -> Path:
    """Write several audits side by side as a page, Markdown or JSON, by the file's ending."""
    writers: dict[str, Callable[[Comparison], bytes]] = {
        ".html": lambda compared: comparison_page(compared).encode(),
        ".md": lambda compared: comparison_markdown(compared).encode(),
        ".json": lambda compared: canonical_bytes(compared.to_dict()),
    }
    if out.suffix not in writers:
        raise RegistryError(
            f"a comparison is written as {', '.join(writers)}; {str(out)!r} ends in none of them"
        )
    audits = []
    for path in folders:
        folder = AuditFolder(path)
        sources = audit_sources(folder, folder.journal())
        # Resolved, so that "." has a name; without its path, which says where somebody keeps it.
        name = folder.path.resolve().name
        audits.append(Compared(place=name, report=build_report(sources), sources=sources))
    write_atomic(out, writers[out.suffix](compare(audits)))
    return out


def write_report(folder: AuditFolder, journal: Journal) -> list[str]:
    """Write the report beside the certificate and return the names of its files."""
    # No entry vouches for these files, because they follow from ones that have an entry.
    for name, content in report_bytes(folder, journal).items():
        folder.write(name, content)
    return list(REPORTS)
