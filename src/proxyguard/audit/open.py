"""Open the target once, score, certify from the evidence, sign (the audit's last step).

Per-record outputs, written only on request and only encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from proxyguard.adapters.library import Library
from proxyguard.audit.decide import (
    EXCLUDED,
    NOT_CERTIFIED,
    Group,
    all_not_claimed,
    decide,
    groups_of,
    readings_of,
    secondary_readings,
)
from proxyguard.audit.development import Workplace
from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    EVIDENCE,
    GRANT,
    RECORDS,
    RELEASES,
    AuditFolder,
    check_folder,
    open_envelope,
    sign_statement,
    statement,
)
from proxyguard.audit.grant import granted_again, granted_key, read_grant, release_set
from proxyguard.audit.home import Home, load_key_file
from proxyguard.audit.manifest import check_manifest
from proxyguard.audit.outcome import advice_record, write_report
from proxyguard.audit.register import recorded_privacy, refuse_changed_losses
from proxyguard.audit.reserve import check_lineage, claim_status, knows_seal
from proxyguard.audit.score import Scored, Scorer
from proxyguard.audit.stated import stated_not_checked
from proxyguard.audit.target import Chunk, OpeningSeed, OpenTarget
from proxyguard.audit.verify import refuse_unsound
from proxyguard.documents.certificate import Advice, Predicate
from proxyguard.documents.document import FORMAT
from proxyguard.documents.evidence import (
    Diagnostics,
    Evidence,
    ExcludedEvidence,
    FixedEvidence,
    GroupEvidence,
)
from proxyguard.documents.ledger import Certified, GrantStatement, Opened, Sealed
from proxyguard.documents.registry import Registry, SourceModel
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import SealError, StageError
from proxyguard.evidence.record import evidence_record
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.rounding import round_count_up
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Predicted
from proxyguard.registry.declaration import Member
from proxyguard.seal.crypto import Holder, Passphrase, Person, Recipient, SigningKey
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Ledger, Schedule, Stage
from proxyguard.seal.sealed_file import seal_table
from proxyguard.seal.storage import now


class RecordWriter:
    """Collects positions, outcomes, predictions and thresholds as they are scored."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def attach(self, scorer: Scorer, mechanism: str) -> Scorer:
        """Return the scorer, now also telling what it predicts."""

        def keep(chunk: Chunk, source: Predicted | None, releases: dict[str, Predicted]) -> None:
            for name, predicted in releases.items():
                self._parts.append(_table(chunk, source, mechanism, name, predicted))

        return replace(scorer, on_chunk=keep)

    def sealed(self, holder: Holder) -> bytes:
        """Return all records, encrypted for their holder."""
        table = pa.concat_tables(self._parts) if self._parts else pa.table({"position": []})
        return seal_table(table, [holder]).content


def _table(
    chunk: Chunk, source: Predicted | None, mechanism: str, release: str, predicted: Predicted
) -> pa.Table:
    n = len(chunk.positions)
    missing = np.full(n, np.nan)
    return pa.table(
        {
            "mechanism": pa.array([mechanism] * n),
            "release": pa.array([release] * n),
            "position": pa.array(chunk.positions),
            "outcome": pa.array(missing if chunk.y is None else chunk.y),
            "source": pa.array((missing if source is None else source.values).tolist()),
            "prediction": pa.array(predicted.values.tolist()),
            "threshold": pa.array(
                np.full(n, np.nan if predicted.threshold is None else predicted.threshold)
            ),
        }
    )


SELF_ATTESTED = "self-attested: no second party granted the opening"


class Opener:
    """One opening of one audit: the keys it may use and what they unlock."""

    def __init__(
        self,
        place: Workplace,
        home: Home,
        *,
        key_file: Any = None,
        passphrase: str | None = None,
        steward_key: Any = None,
        write_records: bool = False,
        trusted: Sequence[str] | None = None,
        targets: Mapping[str, OpenTarget] | None = None,
    ) -> None:
        self.place, self.home = place, home
        self.folder: AuditFolder = place.folder
        self._key_file, self._passphrase = key_file, passphrase
        self._steward_key = steward_key
        self._write_records = write_records
        self._trusted = (
            trusted  # whoever verifies has a list of their own, the author a declaration
        )
        self._targets = targets or {}  # decrypted elsewhere, where there is no key here
        self._unwrapped: dict[str, bytes] = {}

    def open(self) -> None:
        """Open the target and certify; again, check that the same is certified."""
        author = self.home.signing_key()
        with writing(self.folder.path) as journal:
            if journal.ledger.schedule is Schedule.SEQUENTIAL:
                raise StageError("opened: this audit draws after opening; use the sequential path")
            registry = self.folder.registry(journal)
            if not journal.ledger.has(Stage.DRAWN):
                raise StageError("opened: all releases must be drawn first, run proxyguard draw")
            check_folder(self.folder, journal)
            check_manifest(self.folder, registry, journal)
            grant = self.record_opening(journal, registry, author)
            evidence = self._evidence(journal, registry, grant)
            name = evidence.digest
            predicate = predicate_of(self.folder, journal, registry, evidence, grant)
            content = sign_statement(
                statement(subjects_of(journal, registry, name), predicate), author
            )
            advice = partial(
                advice_record, registry, Predicate.of(predicate, CERTIFICATE), evidence
            )
            self._certify(journal, author, content, evidence, name, advice)
            write_report(self.folder, journal)

    def record_opening(
        self, journal: Journal, registry: Registry, author: SigningKey
    ) -> GrantStatement | None:
        """Record that the target is opened, before any key is used; once."""
        refuse_changed_losses(registry)
        journal.check_signer(author)  # before the target is claimed, which cannot be undone
        grant = read_grant(self.folder, journal)
        if grant is None:
            self._holder(journal)  # a key that is not here is missed before anything is recorded
        sealed = journal.ledger.sealed
        releases = release_set(journal)
        if not journal.ledger.has(Stage.OPENED):
            refuse_unsound(self.folder, "not opened")
            overlaps = check_lineage(self.folder, journal, self.home)
            granted = None if grant is None else self.folder.sha256(GRANT)
            opened = Opened(
                registry=registry.digest,
                releases=releases,
                lineage=tuple(overlaps),
                seal_known=knows_seal(journal, self.home),
                grant=granted,
                files={} if granted is None else {GRANT: granted},
                time=now(),
            )
            self._claim_target(sealed, registry, releases)
            journal.record(opened, author)
        self._claim_target(sealed, registry, releases)
        return grant

    def _claim_target(self, sealed: Sealed, registry: Registry, releases: str) -> None:
        for member in sealed.members.values():
            self.home.lineage.open(
                member.commitment,
                audit=sealed.audit,
                registry=registry.digest,
                releases=releases,
            )

    def _holder(self, journal: Journal) -> Holder:
        if self._passphrase is not None:
            return Passphrase(self._passphrase)
        path = self._key_file or self.home.target_key_path(journal.ledger.sealed.audit)
        return load_key_file(path)

    def target(
        self,
        journal: Journal,
        member: Member,
        grant: GrantStatement | None,
    ) -> OpenTarget:
        """Use the key; only an opened audit gets here."""
        if not journal.ledger.has(Stage.OPENED):
            raise StageError("the target has not been opened")
        if member.name in self._targets:
            return self._targets[member.name]
        sealed = journal.ledger.sealed.members[member.name]
        if member.name not in self._unwrapped:
            file = self.folder.sealed_target(sealed)
            if self._steward_key is not None:
                steward = Person(SigningKey.load(self._steward_key).exchange)
                self._unwrapped[member.name] = file.unwrap(steward)
            elif grant is not None:
                # Of the author at the time of the grant, who may have handed over since.
                author = self.home.key_of(grant.author)
                self._unwrapped[member.name] = granted_key(grant, member.name, author)
            else:
                self._unwrapped[member.name] = file.unwrap(self._holder(journal))
        return OpenTarget(self.folder, member, sealed, self._unwrapped[member.name])

    def scorer(
        self, registry: Registry, group: Group, target: OpenTarget, sources: Mapping[str, str]
    ) -> Scorer:
        """Return what scores a group's releases."""
        resolved = registry.members[group.member.name]
        source: SourceModel | str | None = sources.get(group.member.name)
        if source is None:
            source = resolved.source
        return Scorer(
            folder=self.folder,
            member=group.member,
            measures=group.measures,
            target=target,
            features=resolved.features,
            source=source,
            trusted=self._types(group.member, resolved.features),
            progress=self.place.progress,
        )

    def _types(self, member: Member, features: Sequence[str]) -> Sequence[str]:
        """Return the types that stored models may contain beside our own.

        The author's own declaration says it where the author opens. It is no reason for anyone
        else to build such a type: ``trusted`` in a stranger's folder could name anything.
        """
        procedure, outcome = member.procedure, member.target.predicted
        if self._trusted is not None:
            return self._trusted
        if procedure is None or outcome is None:
            return ()
        return Library(procedure, outcome, features).trusted()

    def _evidence(
        self, journal: Journal, registry: Registry, grant: GrantStatement | None
    ) -> FixedEvidence:
        """Score every group and return all evidence."""
        manifest = self.folder.document(ReleaseManifest, RELEASES)
        groups = groups_of(registry, manifest)
        targets = {m.name: self.target(journal, m, grant) for m in registry.declaration.members}
        seed = OpeningSeed.of(journal, {name: one.nonce for name, one in targets.items()})
        readings = readings_of(registry, groups, seed.value)
        gathered = _Gathered(
            secondary={spec.name: {} for spec in registry.declaration.secondary},
            digits=registry.declaration.digits,
        )
        wanted = self._write_records and not journal.ledger.has(Stage.CERTIFIED)
        writer = RecordWriter() if wanted else None
        for group in groups:
            reading, levels = readings[group.name]
            others = secondary_readings(registry, group, reading)
            target = targets[group.member.name]
            scorer = self.scorer(registry, group, target, manifest.sources)
            if writer is not None:
                scorer = writer.attach(scorer, group.name)
            scored = scorer.score(group.name, group.draws, [reading, *others.values()])
            gathered.add(group, scored, reading, others, levels.bounds, target.n_records)
            if group.excluded:
                extra = scorer.score(f"{group.name}, excluded", group.excluded, [reading])
                gathered.exclude(group, extra, reading, levels.bounds)
        if writer is not None:
            self.folder.write(RECORDS, writer.sealed(self._records_holder(journal, grant)))
        return FixedEvidence(
            format=FORMAT,
            registry=registry.digest,
            releases=release_set(journal),
            seed=seed.text,
            nonces=seed.nonces,
            groups=gathered.groups,
            excluded=gathered.excluded,
            secondary=gathered.secondary,
            diagnostics=gathered.diagnostics,
        )

    def rescore(self, journal: Journal, registry: Registry) -> Evidence:
        """Compute the evidence again from an opened target, for verifying and correcting."""
        grant = read_grant(self.folder, journal)
        self._write_records = False
        return self._evidence(journal, registry, grant)

    def unlocked(self, journal: Journal, registry: Registry) -> dict[str, OpenTarget]:
        """Return the targets of an opened audit by member, for verifying."""
        grant = read_grant(self.folder, journal)
        return {m.name: self.target(journal, m, grant) for m in registry.declaration.members}

    def secrets(self) -> list[Path]:
        """Return where the keys lie that this opening may use."""
        given = [Path(p) for p in (self._key_file, self._steward_key) if p is not None]
        return [self.home.root, *given]

    def _records_holder(self, journal: Journal, grant: GrantStatement | None) -> Holder:
        steward = journal.ledger.sealed.steward
        if grant is None or steward is None:
            return self._holder(journal)
        return Recipient(steward[64:])

    def _certify(
        self,
        journal: Journal,
        author: SigningKey,
        content: bytes,
        evidence: FixedEvidence,
        name: str,
        advice: Callable[[], Advice | None],
    ) -> None:
        """Write and record the certificate, or see that the recorded one is the same."""
        done = journal.ledger.find(Certified)
        if done:
            before = done[0].body.files
            recorded, _ = open_envelope(self.folder.read(CERTIFICATE))
            # The statement and not its bytes: the author may have handed over to another key.
            if before[EVIDENCE] != name or recorded != open_envelope(content)[0]:
                raise SealError(
                    "scoring again gave other evidence than was certified; the recorded "
                    "certificate stands, and this machine or its libraries differ from those "
                    "that made it"
                )
            return
        files = {
            EVIDENCE: self.folder.put(EVIDENCE, evidence),
            CERTIFICATE: self.folder.write(CERTIFICATE, content),
        }
        found = advice()
        if found is not None:
            files[ADVICE] = self.folder.put(ADVICE, found)
        if self.folder.has(RECORDS):
            files[RECORDS] = self.folder.sha256(RECORDS)
        journal.record(Certified(files=files, time=now()), author)


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """The evidence of an opening while its groups are scored, one after the other."""

    digits: int | None
    groups: dict[str, GroupEvidence] = field(default_factory=dict)
    excluded: dict[str, ExcludedEvidence] = field(default_factory=dict)
    secondary: dict[str, dict[str, GroupEvidence]]
    auc: dict[str, dict[str, float | None]] = field(default_factory=dict)
    source_auc: dict[str, float | None] = field(default_factory=dict)
    unscored: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(
        self, group: Group, scored: Scored, reading: Reading, others: Mapping[str, Reading],
        level: float, n: int,
    ) -> None:  # fmt: skip
        """Add the statistics of a group, also as ``others``, secondary specifications, read it."""
        names = tuple(draw.label for draw in group.draws)
        record, *more = (
            evidence_record(evidence_of(columns, read_as, releases=names, bounds_level=level))
            for columns, read_as in zip(scored.columns, (reading, *others.values()), strict=True)
        )
        self.groups[group.name] = record
        for spec, secondary in zip(others, more, strict=True):
            self.secondary[spec][group.name] = secondary
        self.auc[group.name], self.source_auc[group.name] = scored.auc, scored.source_auc
        if scored.unscored:
            self.unscored[group.name] = {
                name: count
                if self.digits is None
                else int(round_count_up(np.int64(count), n, self.digits))
                for name, count in scored.unscored.items()
            }

    def exclude(self, group: Group, scored: Scored, reading: Reading, level: float) -> None:
        """Add the statistics of a group's excluded draws, which decide nothing."""
        names = tuple(draw.label for draw in group.excluded)
        evidence = evidence_of(scored.columns[0], reading, releases=names, bounds_level=level)
        record = evidence_record(evidence)
        self.excluded[group.name] = ExcludedEvidence(label=EXCLUDED, **dict(record))

    @property
    def diagnostics(self) -> Diagnostics:
        """What decides nothing. An AUC has no side that weakens a claim, and is not rounded."""
        shown = self.digits is None
        return Diagnostics(
            label=NOT_CERTIFIED,
            unscored=self.unscored,
            auc=self.auc if shown else None,
            source_auc=self.source_auc if shown else None,
        )


def subjects_of(journal: Journal, registry: Registry, evidence: str) -> dict[str, str]:
    """Return the digests that the certificate is about."""
    sealed = journal.ledger.sealed
    targets = {f"target:{name}": m.commitment for name, m in sealed.members.items()}
    return {
        "registry": registry.digest,
        "releases": release_set(journal),
        "evidence": evidence,
        **targets,
    }


def predicate_of(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    evidence: FixedEvidence,
    grant: GrantStatement | None,
) -> dict[str, Any]:
    """Return what the certificate says, from the record alone."""
    manifest = folder.document(ReleaseManifest, RELEASES)
    declaration = registry.declaration
    decided = decide(registry, manifest, evidence, basis_of(registry, grant))
    return {
        **frame_of(journal, registry, grant),
        "not_claimed": all_not_claimed(groups_of(registry, manifest)),
        "diagnostics": evidence.diagnostics.to_dict(),
        "excluded": {name: list(excluded.releases) for name, excluded in evidence.excluded.items()},
        **decided,
        "level": declaration.claim.level,
    }


def frame_of(journal: Journal, registry: Registry, grant: GrantStatement | None) -> dict[str, Any]:
    """Return what every certificate says of its audit, whatever was decided."""
    declaration = registry.declaration
    (opened,) = journal.ledger.find(Opened)
    private = recorded_privacy(registry)
    return {
        **({"privacy": private} if private else {}),
        "name": declaration.name,
        "purpose": declaration.purpose,
        "estimand": {m.name: m.target.estimand for m in declaration.members},
        "claim_status": claim_status(declaration, until_certified(journal), granted_again(grant)),
        "attestation": attestation(grant),
        "ledger": opened.digest,
        "software": registry.software,
        "stated_not_checked": [one.to_dict() for one in stated_not_checked(registry)],
        **({} if declaration.digits is None else {"disclosure": disclosed(declaration.digits)}),
    }


def disclosed(digits: int) -> dict[str, Any]:
    """Return what a certificate says of rounded statistics."""
    return {
        "digits": digits,
        "words": f"every statistic of the target is rounded to {digits} digits, to the side that "
        "weakens the claim, and all decisions are taken on the rounded values; rounding is no "
        "privacy guarantee",
    }


def until_certified(journal: Journal) -> Any:
    """Return the ledger as the certificate saw it: later entries add and do not change it."""
    kept = []
    for entry in journal.ledger.entries:
        if entry.stage is Stage.CERTIFIED:
            break
        kept.append(entry)
    return Ledger(kept)


def attestation(grant: GrantStatement | None) -> dict[str, Any]:
    """Return who stands behind the opening."""
    if grant is None:
        return {"kind": "self-attested", "words": SELF_ATTESTED}
    return {
        "kind": "granted",
        "words": f"opening granted by steward {grant.steward[:16]}... for this registry and "
        "these releases" + (f"; {granted_again(grant)}" if granted_again(grant) else ""),
        "steward": grant.steward,
        "grant": grant.head,
    }


def basis_of(registry: Registry, grant: GrantStatement | None) -> str:
    """Return the certificate's basis in one sentence."""
    who = SELF_ATTESTED if grant is None else attestation(grant)["words"]
    return (
        f"registered (digest {registry.digest[:16]}...) and all releases frozen before the sealed "
        f"target was opened; {who}"
    )
