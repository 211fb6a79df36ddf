"""Set the target aside and encrypt it, before anything else is decided (the audit's first step)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from proxyguard.audit.check_target import check_target, negative_of
from proxyguard.audit.claim_status import lineage_warnings
from proxyguard.audit.data import DataFolders
from proxyguard.audit.disclosure import count_requirements, group_warnings, mean_warnings
from proxyguard.audit.divide import Parts, divide, split_development
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import Home
from proxyguard.audit.limits import planned_records
from proxyguard.audit.lineage import Fingerprinted, fingerprint_parts, refuse_leaks
from proxyguard.audit.loss_file import check_bounds, read_loss_file
from proxyguard.audit.outcome import Sealing
from proxyguard.documents.ledger import DevelopmentRole, Overlap, Sealed, SealedMember
from proxyguard.errors import RegistryError, StageError, TableError
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.seal.canonical import digest
from proxyguard.seal.crypto import Holder, Passphrase, Recipient
from proxyguard.seal.entropy import now, random_bytes
from proxyguard.seal.fingerprint import RecordSet, Table
from proxyguard.seal.journal import writing
from proxyguard.seal.keys import identity_problem
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import Known, find_overlaps
from proxyguard.seal.sealed_file import seal_table
from proxyguard.tables.columns import kinds_of, typed
from proxyguard.tables.files import table_bytes, to_arrow

if TYPE_CHECKING:
    import pandas as pd

POSITION = "__position__"
"""Column of the sealed file: the record's row in the table it came from."""
LOSSES = "__losses__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """For whom the target is encrypted: a key file here, a passphrase, or a steward."""

    passphrase: str | None = None
    steward: str | None = None  # identity of a person who grants the opening


def seal(
    folder: AuditFolder, home: Home, data: DataFolders, keeper: Keeper, software: dict[str, str]
) -> Sealing:
    """Seal every target of the declaration, write the development parts, record the step."""
    declaration = folder.declaration()
    key = home.make_signing_key()
    with writing(folder.path) as journal:
        if journal.ledger.has(Stage.SEALED):
            raise StageError("sealed: the target is sealed already, and it is sealed once")
        check_steward(keeper.steward, key.identity)
        audit = random_bytes(16).hex()
        for member in declaration.members:
            _refuse_inside(folder, member, data)
        store = home.lineage
        ready = [prepare_member(member, data, store.table) for member in declaration.members]
        # Before a key or a file is made: a target that was seen in development is not sealed.
        overlaps = overlaps_of(audit, declaration, ready, store.known())
        refuse_leaks(declaration, overlaps)
        store.remember(audit, declaration.name, all_roles(ready))
        holder = _holder(home, audit, keeper)
        members, files = {}, {}
        warnings = lineage_warnings(declaration, overlaps)
        for index, one in enumerate(ready):
            made = seal_member(folder, one, index, data, holder)
            members[one.member.name] = made.sealed
            files.update(made.files)
            warnings += mean_warnings(
                declaration, one.member, requirements=made.means,
                n=planned_records(one.member, made.sealed.records),
            )  # fmt: skip
            warnings += made.warnings
        sealed = Sealed(
            audit=audit,
            name=declaration.name,
            declaration=digest(declaration.sealed_part()),
            members=members,
            lineage=tuple(overlaps),
            files=files,
            author=key.identity,
            steward=keeper.steward,
            time=now(),
            software=software,
        )
        journal.record(sealed, key)
        home.lineage.confirm(audit)
    return Sealing(record=sealed, warnings=tuple(warnings))


def _refuse_inside(folder: AuditFolder, member: Member, data: DataFolders) -> None:
    """Refuse tables in the audit folder: whoever gets the folder would get the target in clear."""
    target = member.target
    names = (target.table, target.file, target.population, target.losses, member.development.table)
    for name in names:
        place = None if name is None else data.find(name)
        if place is not None and place.resolve().is_relative_to(folder.path.resolve()):
            raise TableError(
                f"{name!r} lies in the audit folder, which is given to others; keep it outside, "
                "beside the folder or where --data points"
            )


def check_sealed_part(declaration: Declaration, sealed: Sealed) -> None:
    """Raise when the declaration's target or development is not the one that was sealed."""
    if digest(declaration.sealed_part()) != sealed.declaration:
        raise StageError(
            "target or development in audit.toml differ from what was sealed; restore them, or "
            "start a new audit with a fresh target"
        )


def check_steward(steward: str | None, author: str) -> None:
    """Refuse a steward who is no second person, or no person at all."""
    if steward is None:
        return
    problem = identity_problem(steward)
    if problem is not None:
        raise RegistryError(
            f"{steward[:16]}... is no steward's identity: {problem}; give the one that "
            "grant --make-key prints"
        )
    if author[:64] == steward[:64] or author[64:] == steward[64:]:
        raise RegistryError("the steward is a second person; this identity is the author's own")


def _holder(home: Home, audit: str, keeper: Keeper) -> Holder:
    if keeper.steward is not None:
        return Recipient(keeper.steward[64:])
    if keeper.passphrase is not None:
        return Passphrase(keeper.passphrase)
    return home.make_target_key(audit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready:
    """A member whose target could be sealed: its parts, read and fingerprinted."""

    member: Member
    parts: Parts | None = None  # of given losses, nothing
    kinds: dict[str, str] = field(default_factory=dict)
    development: pd.DataFrame | None = None
    prints: Fingerprinted = field(default_factory=Fingerprinted)


def prepare_member(
    member: Member, data: DataFolders, table: Callable[[pd.DataFrame], Table]
) -> Ready:
    """Read and fingerprint a member's target and development part; nothing is written."""
    if member.target.losses is not None:
        return Ready(member=member)
    parts = divide(member, data)
    kinds = kinds_of_member(member, parts.development)
    development = typed(parts.development, kinds, member.target.read.missing)
    check_target(member, parts.target, kinds, development)
    prints = fingerprint_parts(member, parts, development, table)
    return Ready(member=member, parts=parts, kinds=kinds, development=development, prints=prints)


def all_roles(ready: Sequence[Ready]) -> dict[tuple[str, str], RecordSet]:
    """Return the sets of records of all members."""
    return {name: records for one in ready for name, records in one.prints.roles.items()}


def overlaps_of(
    audit: str, declaration: Declaration, ready: Sequence[Ready], known: Iterable[Known]
) -> list[Overlap]:
    """Return where the targets' records were met before, as opening will say it."""
    expected = {
        (one.member.name, role): number
        for one in ready
        for role, number in one.prints.expected.items()
    }
    return find_overlaps(audit, declaration.name, all_roles(ready), known, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedTarget:
    """What sealing one target made: its entry in the ledger, its files, and what to warn of."""

    sealed: SealedMember
    files: dict[str, str]
    means: int  # statistics of the target that the audit will give away
    warnings: list[str]


def seal_member(
    folder: AuditFolder, ready: Ready, index: int, data: DataFolders, holder: Holder
) -> SealedTarget:
    """Seal one target and write its files."""
    member, parts, kinds, development = ready.member, ready.parts, ready.kinds, ready.development
    if parts is None or development is None:
        return _seal_losses(folder, member, index, data, holder)
    order = np.random.default_rng(int.from_bytes(random_bytes(32))).permutation(len(parts.target))
    if member.target.draw is not None:
        order = np.arange(len(parts.target))  # the registered draw is random by itself
    records = parts.target.iloc[order].reset_index(drop=True)
    records[POSITION] = parts.positions[order]
    sealed = seal_table(to_arrow(records), [holder])
    training, validation = split_development(member, development)
    target_name = f"target/{index}.sealed"
    files = {target_name: folder.write(target_name, sealed.content)}
    roles: dict[DevelopmentRole, pd.DataFrame | None] = {
        "training": training,
        "validation": validation,
    }
    for role, part in roles.items():
        if part is not None:
            path = f"development/{index}.{role}.parquet"
            files[path] = folder.write(path, table_bytes(part))
    return SealedTarget(
        sealed=SealedMember(
            index=index,
            records=len(parts.target),
            commitment=sealed.commitment,
            nonce_digest=sealed.nonce_digest,
            kinds=tuple(kinds.items()),  # in the order of the table
            negative=negative_of(member.target, development),
            estimand=member.target.estimand,
            development={role: len(part) for role, part in roles.items() if part is not None},
            expected_twins={
                role: f"{number:.1f}" for role, number in ready.prints.expected.items()
            },
        ),
        files=files,
        means=count_requirements(member, kinds, training),
        warnings=group_warnings(member, parts.target),
    )


def kinds_of_member(member: Member, development: pd.DataFrame) -> dict[str, str]:
    """Return the kind of every column, from the development part."""
    target = member.target
    text = [target.outcome] if target.outcome is not None and target.range is None else []
    if target.design_column is not None:
        text.append(target.design_column)
    return kinds_of(development, target.read.missing, text)


def _seal_losses(
    folder: AuditFolder, member: Member, index: int, data: DataFolders, holder: Holder
) -> SealedTarget:
    """Seal an array of losses that was computed elsewhere, within their declared bounds."""
    target = member.target
    given = read_loss_file(data.find(str(target.losses)), target.design_column)
    check_bounds(given, member.requirement)
    n_releases, n, n_requirements = given.values.shape
    order = np.random.default_rng(int.from_bytes(random_bytes(32))).permutation(n)
    flat = np.ascontiguousarray(given.values.transpose(1, 0, 2)[order]).reshape(n, -1)
    width = n_releases * n_requirements * 8
    columns: dict[str, Any] = {
        POSITION: pa.array(order.astype(np.int64)),
        LOSSES: pa.array([row.tobytes() for row in flat], type=pa.binary(width)),
    }
    if given.labels is not None:
        columns[str(target.design_column)] = pa.array([given.labels[i] for i in order])
    sealed = seal_table(pa.table(columns), [holder])
    name = f"target/{index}.sealed"
    return SealedTarget(
        sealed=SealedMember(
            index=index,
            records=n,
            commitment=sealed.commitment,
            nonce_digest=sealed.nonce_digest,
            kinds=(),
            negative=None,
            estimand=target.estimand,
            development={},
            expected_twins={},
            releases=tuple(given.releases),
            requirements=tuple(given.requirements),
        ),
        files={name: folder.write(name, sealed.content)},
        means=n_requirements,
        warnings=[],
    )
