"""The report of an audit's folder, rebuilt from its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit.development import measures_of
from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    EVIDENCE,
    RELEASES,
    REPORTS,
    AuditFolder,
    open_envelope,
    recorded_files,
)
from proxyguard.audit.integrity import check_folder
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.certificate import Advice, Predicate, ReportAdvice, Statement
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import RegistryError, SealError, StageError
from proxyguard.modes.evidence import Decision
from proxyguard.modes.planning import planned
from proxyguard.report.advice import (
    Unsettled,
    advice_words,
    advise,
    find_sizes,
    unit_deviations,
    unit_means,
)
from proxyguard.report.compare import Compared, Comparison, compare
from proxyguard.report.content import Report, build_report, to_json
from proxyguard.report.evidence import binding_of, failed_releases
from proxyguard.report.html import comparison_markdown, comparison_page, to_html, to_markdown
from proxyguard.report.notebook import report_fragment
from proxyguard.report.sources import Levels, Sources, to_csv
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILES: dict[str, Callable[[Report, Sources], bytes]] = {
    "report.md": lambda report, sources: to_markdown(report).encode(),
    "report.html": lambda report, sources: to_html(report, sources).encode(),
    "report.json": to_json,
    "report.csv": lambda report, sources: to_csv(sources),
}


def sources_of(folder: AuditFolder, journal: Journal) -> Sources:
    """Return the record that a certified audit's report is built from."""
    if not journal.ledger.has(Stage.CERTIFIED):
        raise StageError("there is no certificate yet; run proxyguard open")
    check_folder(folder, journal)
    value, signer = open_envelope(folder.read(CERTIFICATE))
    statement = Statement.of(value, CERTIFICATE)
    evidence = folder.document(Evidence, EVIDENCE)
    registry = folder.registry(journal)
    advised = ADVICE in recorded_files(journal.ledger.entries)
    predicate, claim = statement.predicate, registry.declaration.claim
    return Sources(
        name=predicate.name,
        purpose=predicate.purpose,
        attestation=predicate.attestation.words,
        status=predicate.claim_status,
        verdicts=predicate.verdicts,
        not_claimed=predicate.not_claimed,
        groups=evidence.by_group,
        levels=Levels(
            alpha=Fraction(claim.alpha),
            beta=None if claim.beta is None else Fraction(claim.beta),
            pooled=bool(claim.pooled_violations),
        ),
        family=predicate.family,
        predicate=predicate,
        registry=registry,
        manifest=folder.document(ReleaseManifest, RELEASES) if folder.has(RELEASES) else None,
        ledger=journal.ledger.entries,
        signer=signer,
        subjects=statement.subjects,
        head=journal.ledger.head,
        advice=advice_for(
            registry, predicate, evidence, folder.document(Advice, ADVICE) if advised else None
        ),
    )


def advice_for(
    registry: Registry, predicate: Predicate, evidence: Evidence, recorded: Advice | None = None
) -> list[ReportAdvice]:
    """Return what would settle each unresolved mechanism; nothing about named releases.

    The sizes are those that were recorded with the certificate. An audit without such a record
    has them searched for.
    """
    cases = unsettled_in(registry, predicate, evidence)
    if recorded is None:
        return [advise(case) for case in cases]
    if set(recorded.sizes) != {case.mechanism for case in cases}:
        raise SealError(f"{ADVICE} is about {sorted(recorded.sizes)}, and others are unresolved")
    return [advice_words(case, recorded.sizes[case.mechanism]) for case in cases]


def advice_record(registry: Registry, predicate: Predicate, evidence: Evidence) -> Advice | None:
    """Return the sizes to record beside the certificate; None where every verdict is settled."""
    sizes = {
        case.mechanism: find_sizes(case) for case in unsettled_in(registry, predicate, evidence)
    }
    return Advice(format=FORMAT, sizes=sizes) if sizes else None


def unsettled_in(registry: Registry, predicate: Predicate, evidence: Evidence) -> list[Unsettled]:
    """Return the unresolved mechanisms of a certificate as the planner takes them."""
    declaration = registry.declaration
    if declaration.claim.level != "mechanism":
        return []
    (member,) = declaration.members
    requirements = tuple(
        measure.requirement
        for measure in measures_of(member, registry.members[member.name].requirements)
    )
    shares = set((declaration.claim.shares or {}).values())
    found = []
    for verdict in predicate.verdicts:
        group = evidence.groups.get(verdict.mechanism)
        if verdict.decision is not Decision.UNRESOLVED or group is None:
            continue
        failures = predicate.failed.get(verdict.mechanism, ())
        failed = failed_releases(verdict.mechanism, failures)
        binding = binding_of(verdict.mechanism, group, failed)
        found.append(
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
                seed=int(registry.digest[:8], 16),
                sequential=declaration.claim.mode == "sequential",
                unequal=len(shares) > 1,
                digits=declaration.digits,
            )
        )
    return found


def report_of(folder: AuditFolder, journal: Journal) -> Report:
    """Return the report of a certified audit."""
    return build_report(sources_of(folder, journal))


def figures_of(folder: AuditFolder, journal: Journal, scheme: str) -> dict[str, list[Figure]]:
    """Return the report's pictures as figures, by what they are about; needs [plots]."""
    from proxyguard.report.charts import pictures_of
    from proxyguard.report.picture import to_figure

    sources = sources_of(folder, journal)
    found = pictures_of(build_report(sources), sources)
    return {about: [to_figure(one, scheme=scheme) for one in own] for about, own in found.items()}


def page_of(folder: AuditFolder) -> str:
    """Return the report of a certified audit as a page."""
    sources = sources_of(folder, folder.journal())
    return to_html(build_report(sources), sources)


def fragment_of(folder: AuditFolder) -> str:
    """Return the verdicts of a certified audit and the tables behind them, for a notebook."""
    return report_fragment(report_of(folder, folder.journal()))


def report_bytes(folder: AuditFolder, journal: Journal) -> dict[str, bytes]:
    """Return the report's files; the same audit gives the same bytes."""
    sources = sources_of(folder, journal)
    report = build_report(sources)
    return {name: _FILES[name](report, sources) for name in REPORTS}


def write_comparison(folders: Sequence[Path], out: Path) -> Path:
    """Write several audits side by side as a page, Markdown or JSON, by the file's ending."""
    writers: dict[str, Callable[[Comparison], bytes]] = {
        ".html": lambda found: comparison_page(found).encode(),
        ".md": lambda found: comparison_markdown(found).encode(),
        ".json": lambda found: canonical_bytes(found.to_dict()),
    }
    if out.suffix not in writers:
        raise RegistryError(
            f"a comparison is written as {', '.join(writers)}; {str(out)!r} ends in none of them"
        )
    audits = []
    for place in folders:
        folder = AuditFolder(place)
        sources = sources_of(folder, folder.journal())
        name = folder.path.resolve().name
        audits.append(Compared(place=name, report=build_report(sources), sources=sources))
    write_atomic(out, writers[out.suffix](compare(audits)))
    return out


def write_report(folder: AuditFolder, journal: Journal) -> list[str]:
    """Write the report beside the certificate and return the names of its files."""
    for name, content in report_bytes(folder, journal).items():
        folder.write(name, content)
    return list(REPORTS)
