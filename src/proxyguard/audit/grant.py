"""A second party's consent: the target's key for one registry and one set of releases."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from proxyguard.audit.folder import GRANT, RELEASES, AuditFolder, check_folder
from proxyguard.audit.manifest import check_manifest
from proxyguard.audit.seal import LOSSES, POSITION, check_steward
from proxyguard.audit.verify import refuse_unsound
from proxyguard.documents.canonical import digest
from proxyguard.documents.document import FORMAT
from proxyguard.documents.ledger import (
    Frozen,
    Grant,
    GrantedAgain,
    GrantStatement,
    Sealed,
    SealedMember,
)
from proxyguard.documents.registry import Registry
from proxyguard.errors import RegistryError, SealError, StageError, VoidGrant
from proxyguard.registry.declaration import Member
from proxyguard.seal.crypto import Person, Recipient, SigningKey, signed_by
from proxyguard.seal.fingerprint import RecordSet
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.lineage import GrantRequest, LineageStore, met_words
from proxyguard.seal.storage import OBJECT, exclusive, now, write_atomic
from proxyguard.tables.columns import typed
from proxyguard.tables.files import read_table_bytes, to_frame

if TYPE_CHECKING:
    import pandas as pd


def grant(
    folder: AuditFolder, steward_key: Path, memory: LineageStore, again: str | None = None
) -> GrantStatement:
    """Release the target's key for what is registered and frozen now, and for nothing else.

    The steward checks the whole folder first, as `verify` does. The key is encrypted to the
    audit's author.

    Parameters
    ----------
    folder
        The audit's folder, in which `grant.json` is written.
    steward_key
        The file of the steward's own key, for which the target was sealed.
    memory
        The steward's own store: a target is granted once, whatever became of the folder, and so
        are its records, in whatever seal, order or columns they come.
    again
        Why records that were seen before are granted all the same; the certificate repeats it.

    Returns
    -------
    GrantStatement
        What was signed.

    Raises
    ------
    SealError
        Where the folder does not hold, or the target was sealed for somebody else.
    StageError
        Where it was granted or opened already, or the releases are not drawn yet.
    TargetReused
        Where records were granted before, and ``again`` says nothing.

    Warns
    -----
    VoidGrant
        Where a file lay in the grant's place that is no grant for this folder.
    """
    if again is not None and not again.strip():
        raise RegistryError("to grant records again needs a reason; give one")
    steward = SigningKey.load(steward_key)
    # Locked: what the author records meanwhile is not granted unseen. And one step: what was
    # checked is what is granted.
    with exclusive(folder.path), folder.step():
        journal = folder.journal()
        check_folder(folder, journal)
        if journal.ledger.schedule is Schedule.FIXED and journal.ledger.has(Stage.DRAWN):
            check_manifest(folder, folder.registry(journal), journal)
        sealed = journal.ledger.sealed
        if sealed.steward != steward.identity:
            raise SealError("this target was not sealed for the steward whose key was given")
        author = str(journal.ledger.author)
        check_steward(steward.identity, author)
        void = why_void(folder, journal) if folder.has(GRANT) else None
        if folder.has(GRANT) and void is None:
            raise StageError("granted already; a grant is given once")
        if journal.ledger.has(Stage.OPENED):
            raise StageError("the target has been opened")
        refuse_unsound(folder, "not granted", besides=[GRANT])
        if void is not None:
            # Whoever can write into the folder could otherwise keep the steward from granting.
            warnings.warn(f"the {GRANT} that lay here is replaced: {void}", VoidGrant, stacklevel=2)
        # The second half of an identity is the key that its person reads with.
        recipient = Recipient(author[64:])
        unwrapped = {
            name: folder.sealed_target(member).unwrap(Person(steward.exchange))
            for name, member in sealed.members.items()
        }
        registry = folder.registry(journal)
        request = GrantRequest(
            name=sealed.name,
            targets=tuple(m.commitment for m in sealed.members.values()),
            registry=registry.digest,
            releases=release_set(journal),
            roles=_roles(folder, registry, sealed, unwrapped, memory),
        )
        # In the store before the grant is written: a kill in between loses no record, and the
        # same grant is given when it is asked for again.
        met = memory.grant(request, again=again is not None)
        statement = GrantStatement(
            format=FORMAT,
            registry=request.registry,
            releases=request.releases,
            targets={name: m.commitment for name, m in sealed.members.items()},
            head=journal.ledger.head,
            keys={name: recipient.wrap(key) for name, key in unwrapped.items()},
            author=author,
            steward=steward.identity,
            again=GrantedAgain(reason=str(again), met=met_words(met)) if met else None,
            time=now(),
        )
        signed = Grant(grant=statement, signature=steward.sign(statement.to_bytes()))
        write_atomic(folder / GRANT, signed.to_bytes())
    return statement


def why_void(folder: AuditFolder, journal: Journal) -> str | None:
    """Return why the file in the grant's place is no grant for this folder, if it is none.

    Anybody can put a file there, or leave the grant of another folder or of an earlier claim.
    """
    try:
        read_grant(folder, journal)
    except SealError as error:
        return str(error)
    return None


def _roles(
    folder: AuditFolder,
    registry: Registry,
    sealed: Sealed,
    keys: Mapping[str, bytes],
    memory: LineageStore,
) -> dict[tuple[str, str], RecordSet]:
    """Return the records of every target, decrypted and as committed to, and of development."""
    roles = {}
    for member in registry.declaration.members:
        recorded = sealed.members[member.name]
        file = folder.sealed_target(recorded)
        file.check(keys[member.name], recorded.commitment)
        table = pa.concat_tables(list(file.tables(keys[member.name]))).drop_columns([POSITION])
        if table.num_rows != recorded.records:
            raise SealError(
                f"{member.name}: the sealed file holds {table.num_rows} records, the ledger says "
                f"{recorded.records}; nothing was granted"
            )
        roles[member.name, "target"] = memory.table(_frame(member, recorded, table)).records()
        for role in recorded.development:
            name = f"development/{recorded.index}.{role}.parquet"
            developed = read_table_bytes(folder.read(name, most=OBJECT), name)
            roles[member.name, role] = memory.table(developed).records()
    return roles


def _frame(member: Member, sealed: SealedMember, table: pa.Table) -> pd.DataFrame:
    """Return target records with the types of the development part; losses as one value each."""
    if member.target.losses is None:
        return typed(to_frame(table), sealed.kind_of, member.target.read.missing, member.columns)
    import pandas as pd

    return pd.DataFrame({LOSSES: [row.as_py().hex() for row in table.column(LOSSES)]})


def release_set(journal: Journal) -> str:
    """Return the digest of the frozen releases; of a sequential audit, that there are none yet.

    Raises
    ------
    StageError
        Where a fixed audit has no releases yet.
    """
    if journal.ledger.schedule is Schedule.SEQUENTIAL:
        return digest("drawn after opening")
    drawn = journal.ledger.find(Frozen)
    if not drawn:
        raise StageError(f"the releases must be drawn first; there is no {RELEASES}")
    return drawn[0].body.releases


def read_grant(folder: AuditFolder, journal: Journal) -> GrantStatement | None:
    """Return the grant that fits this audit, or nothing where no steward is needed.

    Raises
    ------
    StageError
        Where the target was sealed for a steward who has granted nothing yet.
    SealError
        Where a grant lies here that is not the steward's, or covers something else.
    """
    steward = journal.ledger.sealed.steward
    # Every key that signed, also one that was handed over since: whoever had it is the author.
    if steward is not None and steward[:64] in journal.signers:
        raise SealError("the steward is the author, so nobody else granted the opening")
    if steward is None:
        if folder.has(GRANT):
            raise SealError(f"{GRANT} is here, and no steward was named when the target was sealed")
        return None
    if not folder.has(GRANT):
        raise StageError(
            "the target was sealed for a steward; ask them to run: proxyguard grant DIR --key KEY"
        )
    signed = folder.document(Grant, GRANT)
    if not signed_by(steward[:64], signed.signature, signed.grant.to_bytes()):
        raise SealError(f"{GRANT} does not carry the steward's signature")
    _check_grant(signed.grant, folder, journal)
    return signed.grant


def _check_grant(statement: GrantStatement, folder: AuditFolder, journal: Journal) -> None:
    sealed = journal.ledger.sealed
    heads = [entry.digest for entry in journal.ledger.entries]
    targets = {name: m.commitment for name, m in sealed.members.items()}
    covered = {
        "registry": statement.registry == folder.registry(journal).digest,
        "releases": statement.releases == release_set(journal),
        "targets": statement.targets == targets and statement.keys.keys() == targets.keys(),
        "steward": statement.steward == sealed.steward,
    }
    for name, covers in covered.items():
        if not covers:
            raise SealError(
                f"the grant does not cover the {name} of this audit; it covers exactly one set"
            )
    # A head that is gone: entries were cut after the steward looked, to register something else.
    if statement.head not in heads:
        raise SealError("the ledger was rolled back behind the grant, or is another one")
    # Whose key was in force when the steward looked; later ones are linked by rotations.
    author = str(journal.ledger.author_after(heads.index(statement.head)))
    if statement.author != author:
        raise SealError(
            f"the grant is for author {statement.author[:16]}..., and the ledger was "
            f"signed by {author[:16]}... when it was given"
        )


def granted_again(statement: GrantStatement | None) -> str | None:
    """Return in words that the steward granted records that were seen before, and why."""
    if statement is None or statement.again is None:
        return None
    return f"records were granted again ({statement.again.reason}): {statement.again.met}"


def granted_key(statement: GrantStatement, member: str, author: SigningKey) -> bytes:
    """Return the target's key that the grant holds for the author.

    Parameters
    ----------
    statement
        What the steward signed.
    member
        Whose target the key opens.
    author
        The key that was the author's when the steward granted.

    Raises
    ------
    SealError
        Where it does not open with that key.
    """
    key = Person(author.exchange).unwrap(statement.keys[member])
    if key is None:
        raise SealError("the grant's key does not open with its author's key; it was edited")
    return key
