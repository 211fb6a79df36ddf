"""Where a report comes from: ledger, digests, signers, lineage, software."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.certificate.wording import CHOSEN_AFTER_OPENING
from proxyguard.documents.certificate import ClaimStatusRecord, Predicate
from proxyguard.documents.ledger import (
    Amended,
    Certified,
    Committed,
    Corrected,
    Developed,
    Deviated,
    Favored,
    Frozen,
    Judged,
    LedgerBody,
    Opened,
    Overlap,
    Registered,
    Rotated,
    Sealed,
)
from proxyguard.documents.registry import DrawnMechanism, Registry
from proxyguard.report.sources import Sources, Table
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.lineage import worst_met

Ledger = Sequence[Entry[LedgerBody]]


def status_table(predicate: Predicate | None) -> Table:
    """Return the claim's status with its reasons; nothing where nothing was registered."""
    status = None if predicate is None else predicate.claim_status
    return Table(
        title="Claim status",
        columns=("evidence", "target lineage", "registered", "guarantee"),
        rows=()
        if status is None
        else ((status.evidence, status.lineage, status.registered, status.guarantee),),
        section="provenance",
    )


def stated_table(predicate: Predicate | None) -> Table:
    """Return what stays the author's word, whatever is verified."""
    listed = () if predicate is None else predicate.stated_not_checked
    return Table(
        title="Stated, not checked",
        columns=("about", "the author's word"),
        rows=tuple((stated.about, stated.words) for stated in listed),
        note="Nothing in the folder shows these; verify computes the rest again.",
        section="provenance",
    )


def lineage_table(ledger: Ledger) -> Table:
    """Return where target records, or records with their values, were met elsewhere."""
    bodies = [entry.body for entry in ledger]
    met = worst_met(
        [body.lineage for body in bodies if isinstance(body, Sealed | Registered | Opened)]
    )
    rows = tuple(
        (one.audit, one.role, str(one.records), str(one.shared), str(one.twins), one.expected_twins)
        for one in met
    )
    return Table(
        title="Target records met elsewhere",
        columns=("audit", "role", "records", "the same records", "value twins",
                 "expected by coincidence"),
        rows=rows,
        note=_twin_words(met),
        section="provenance",
    )  # fmt: skip


def _twin_words(met: Sequence[Overlap]) -> str:
    """Return what value twins are, and where there are too many of them to be other records."""
    words = "Value twins are records with the same values that no table shows to be the same ones."
    many = [f"{one.role} of {one.audit}" for one in met if one.excess]
    if not many:
        return f"{words} They are no more than coincidence explains, and are not counted as reuse."
    return (
        f"{words} Those in {', '.join(many)} are more than coincidence explains: they are "
        "taken for the same records under another coding."
    )


def ledger_table(ledger: Ledger) -> Table:
    """Return every recorded step with what it says in short."""
    shown = _shortened(ledger)
    return Table(
        title="Ledger",
        columns=("step", "time", "what", "digest of the entry before"),
        rows=tuple(
            (
                entry.stage.value,
                entry.body.time,
                _said(entry.body),
                entry.previous,
            )
            for entry in shown
        ),
        note=""
        if len(shown) == len(ledger)
        else f"{len(ledger) - len(shown)} draws and scores in between are in the folder's ledger.",
        section="provenance",
    )


KEPT = 5
"""Steps that are shown at either end of a long run of draws and scores."""


def _shortened(ledger: Ledger) -> list[Entry[LedgerBody]]:
    several = (Stage.DRAWN, Stage.SCORED)
    single = [i for i, entry in enumerate(ledger) if entry.stage in several]
    dropped = set(single[2 * KEPT : -2 * KEPT])
    return [entry for i, entry in enumerate(ledger) if i not in dropped]


def _said(body: LedgerBody) -> str:
    """Return what an entry says, in short."""
    match body:
        case Sealed(steward=who):
            return "target set aside; " + (
                "no steward" if who is None else f"steward {_short(who)}"
            )
        case Developed():
            return "the source fitted and judged on development data"
        case Registered():
            return f"declaration {_short(body.declaration)}, {body.path.value} path"
        case Amended():
            return f"amendment: {body.reason}"
        case Frozen():
            return f"all releases, digest {_short(body.releases)}"
        case Committed():
            return f"{body.record.label}, digest {_short(body.release)}"
        case Opened():
            return "self-attested" if body.grant is None else "granted"
        case Favored():
            return "favorable" if body.favorable else "not favorable"
        case Judged():
            return body.decision
        case Certified():
            return "evidence and certificate"
        case Deviated():
            return f"deviation: {body.reason}"
        case Rotated():
            return f"signing key handed over to {_short(body.successor)}"
        case Corrected():
            return f"corrective certificate ({body.reason}): {_decided(body)}"
    raise TypeError(f"{type(body).__name__} is no step of a ledger")


def _short(digest: str) -> str:
    return f"{digest[:16]}..."


def _decided(body: Corrected) -> str:
    return "; ".join(f"{name} {decision}" for name, decision in body.decisions.items())


def digest_table(sources: Sources) -> Table:
    """Return who signed and which bytes everything rests on; nothing where nobody signed."""
    rows: list[tuple[str, str]] = []
    if sources.predicate is not None:
        rows = [("signed by", sources.signer), ("ledger, last entry", sources.head)]
        rows += [
            (f"key handed over from {_short(entry.signer)} to", entry.body.successor[:64])
            for entry in sources.ledger
            if isinstance(entry.body, Rotated)
        ]
        steward = sources.predicate.attestation.steward
        rows += [] if steward is None else [("steward", steward)]
        rows += [(f"digest of {name}", sha) for name, sha in sorted(sources.subjects.items())]
        for entry in sources.ledger:
            if isinstance(entry.body, Certified | Corrected):
                rows += [
                    (f"{name} ({entry.stage.value})", sha)
                    for name, sha in sorted(entry.body.files.items())
                ]
    return Table(
        title="Digests and signers",
        columns=("what", "SHA-256 or public key"),
        rows=tuple(rows),
        section="provenance",
    )


def software_table(sources: Sources) -> Table:
    """Return the versions at sealing and at registration."""
    seals = [entry.body.software for entry in sources.ledger if isinstance(entry.body, Sealed)]
    sealed = seals[0] if seals else {}
    registered = {} if sources.predicate is None else sources.predicate.software
    names = sorted({*sealed, *registered})
    return Table(
        title="Software",
        columns=("package", "at sealing", "at registration"),
        rows=tuple((n, sealed.get(n, ""), registered.get(n, "")) for n in names),
        section="provenance",
    )


def generator_table(registry: Registry | None) -> Table:
    """Return what made the releases: generator, where its code came from, its settings."""
    rows = []
    for member in () if registry is None else registry.members.values():
        for name, mechanism in member.mechanisms.items():
            settings = "; ".join(f"{k} {v}" for k, v in sorted(mechanism.describe.items()))
            code = ("", "")
            if isinstance(mechanism, DrawnMechanism):
                code = mechanism.origin.path, mechanism.origin.version
            rows.append((name, mechanism.generator, *code, settings))
    return Table(
        title="Generators",
        columns=("mechanism", "generator", "code", "version", "settings"),
        rows=tuple(rows),
        section="provenance",
    )


def notes_of(sources: Sources) -> list[str]:
    """Return what was changed, admitted or corrected, in words."""
    notes = []
    for entry in sources.ledger:
        body = entry.body
        if isinstance(body, Amended):
            notes.append(f"Amended before opening: {body.reason}")
            notes += [
                f"{draw.mechanism}: the exclusion of draw {draw.seed} is void, because this "
                "amendment did not repeat it"
                for draw in body.void
            ]
        elif isinstance(body, Frozen):
            notes += [
                f"{draw.mechanism}: draw {draw.seed} was dropped and made again; it came out "
                f"{'the same' if draw.same else 'otherwise'}"
                for draw in body.again
            ]
        elif isinstance(body, Deviated):
            notes.append(f"Deviation recorded after opening: {body.reason}")
        elif isinstance(body, Corrected):
            notes.append(
                f"Corrective certificate ({body.reason}), which does not replace the record: "
                f"{_decided(body)}. {CHOSEN_AFTER_OPENING}"
            )
    excluded = None if sources.predicate is None else sources.predicate.excluded
    for name, releases in (excluded or {}).items():
        notes.append(f"{name}: draws {', '.join(releases)} are descriptive, by amendment")
    return notes


def guarantee_of(status: ClaimStatusRecord, ledger: Ledger) -> str:
    """Return the guarantee as certified, and what was admitted after that."""
    words = status.guarantee
    later = _later_deviations(ledger)
    return words if not later else f"{words}; but deviations were recorded later, see the notes"


def lost_guarantee(status: ClaimStatusRecord, ledger: Ledger) -> str:
    """Return why no guarantee remains, or nothing where one does."""
    head, _, why = status.guarantee.partition(":")
    reasons = [why.strip() or "as certified"] if head.strip() == "no" else []
    reasons += [f"deviation recorded later: {reason}" for reason in _later_deviations(ledger)]
    return f"No guarantee remains: {'; '.join(reasons)}." if reasons else ""


def _later_deviations(ledger: Ledger) -> list[str]:
    """Return the reasons of the deviations that were recorded after the certificate."""
    stages = [entry.stage for entry in ledger]
    first = stages.index(Stage.CERTIFIED) if Stage.CERTIFIED in stages else len(stages)
    return [entry.body.reason for entry in ledger[first:] if isinstance(entry.body, Deviated)]
