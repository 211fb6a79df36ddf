"""The memory between audits: which records had which role in which audit.

The store lies outside the audit folder. It holds keyed fingerprints and nothing else of a
record; the key lies in a file of its own beside it, so that a copy of the store alone cannot
be tried against guessed records. It answers two questions: has a target record been seen
before, and was a sealed target opened before under another declaration?
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.documents.ledger import Overlap
from proxyguard.errors import DiskError, KeyMissing, TargetReused
from proxyguard.seal.fingerprint import SIZE, RecordSet, RecordView, TablePrints, meet
from proxyguard.seal.storage import (
    private_file,
    private_folder,
    random_bytes,
    read_private,
    write_once,
)

if TYPE_CHECKING:
    import pandas as pd

STORE_FORMAT = 2
# What SQLite writes beside its file; it holds rows of the store.
_BESIDE = ("-journal", "-wal", "-shm")
_SCHEMA = """
create table if not exists store (format integer not null, key_digest text not null);
create table if not exists roles (
  audit text not null, name text not null, member text not null, role text not null,
  identity text not null, prints blob not null, occurrences blob not null,
  primary key (audit, member, role));
create table if not exists views (
  audit text not null, member text not null, role text not null, place integer not null,
  words text not null, size integer not null, chance real not null, thin integer not null,
  prints blob not null, counts blob not null,
  primary key (audit, member, role, place));
create table if not exists audits (audit text primary key, sealed integer not null);
create table if not exists grants (
  target text primary key, audit text not null, registry text not null, releases text not null);
create table if not exists openings (
  target text primary key, audit text not null, registry text not null, releases text not null);
"""


# Sets of records by member and role.
RecordSets = Mapping[tuple[str, str], RecordSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A set of records that the store knows."""

    audit: str  # its number
    name: str
    member: str
    role: str
    records: RecordSet
    opened: bool  # whether a target of that audit had been opened, or its key granted


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """What a steward is asked to grant: the targets of one audit, for one claim."""

    name: str  # of the audit
    targets: tuple[str, ...]  # commitments
    registry: str
    releases: str
    roles: RecordSets  # what the sealed files and the development parts hold

    @property
    def number(self) -> str:
        """Under which the store keeps it: by the commitments, for an audit's number is chosen."""
        return "granted " + hashlib.sha256("".join(sorted(self.targets)).encode()).hexdigest()


def find_overlaps(
    audit: str,
    name: str,
    roles: RecordSets,
    known: Iterable[Known],
    expected: Mapping[tuple[str, str], float],
) -> list[Overlap]:
    """Return how each target among an audit's roles meets the others, and what else is known.

    Parameters
    ----------
    audit, name
        The number and the name of the audit.
    roles
        Its sets of records.
    known
        The sets of records of other audits; its own among them are left out.
    expected
        The number of twins by coincidence between a member's target and a role in its own table;
        for other tables it is estimated from how often records repeat.
    """
    others = [
        Known(audit=audit, name=name, member=member, role=role, records=records, opened=False)
        for (member, role), records in roles.items()
    ]
    others += [records for records in known if records.audit != audit]
    overlaps = []
    for (member, role), target in roles.items():
        if role != "target":
            continue
        for other in others:
            same_audit = other.audit == audit
            if same_audit and (other.member, other.role) == (member, role):
                continue
            same = other.records.table == target.table
            meeting = meet(target.views, other.records.views)
            shared, twins = target.shared_with(other.records), target.twins_in(other.records)
            number = meeting.expected
            if same_audit and other.member == member and same:
                number = expected.get((member, other.role), number)
            # Of one table it is known which records are the same, and which only equal.
            excess = meeting.excess and not same
            opened = not same_audit and other.opened
            overlap = Overlap(
                audit=other.name,
                member=other.member,
                role=other.role,
                same_table=same,
                records=len(other.records),
                shared=shared,
                twins=twins if same else max(twins, meeting.twins if meeting.excess else 0),
                expected_twins=f"{number:.1f}",
                excess=excess,
                columns=meeting.columns if meeting.excess else "all columns",
                same_audit=same_audit,
                opened=opened,
                reused=Overlap.reuse(
                    role=other.role,
                    shared=shared,
                    excess=excess,
                    same_audit=same_audit,
                    opened=opened,
                ),
            )
            if overlap.shared or overlap.twins or overlap.same_audit:
                overlaps.append(overlap)
    return overlaps


class LineageStore:
    """The store in one SQLite file, and the key of its fingerprints beside it.

    Parameters
    ----------
    path
        The file; it is made, with its key, where it is not there.

    Raises
    ------
    KeyMissing
        If the store holds fingerprints and its key is gone, or another one.
    DiskError
        If it cannot be used, or another version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        private_folder(path.parent)
        with self._usable():
            # Before SQLite opens it: a journal takes the mode of the file that it belongs to.
            private_file(path)
            for beside in (path.with_name(path.name + suffix) for suffix in _BESIDE):
                if beside.exists():
                    private_file(beside)
            self._key = self._read_key(self._header())
        with self._connect() as base:
            base.executescript(_SCHEMA)
            base.execute("begin immediate")
            if base.execute("select 1 from store").fetchone() is None:
                base.execute("insert into store values (?, ?)", (STORE_FORMAT, _digest(self._key)))

    @property
    def key_path(self) -> Path:
        """Where the key of the fingerprints lies."""
        return self._path.with_suffix(".key")

    def _header(self) -> str | None:
        """Return the digest of the store's key; of a store that is being made, nothing."""
        with self._connect() as base:
            known = base.execute("select 1 from sqlite_master where name = 'store'").fetchone()
            row = None if known is None else base.execute("select * from store").fetchone()
        if row is not None and row[0] != STORE_FORMAT:
            raise DiskError(
                f"{self._path} has format {row[0]}; this version reads {STORE_FORMAT}. "
                "Fingerprints cannot be made anew without the records: keep the file with the "
                "version that wrote it, or move it away, and audits before now are not remembered"
            )
        return None if row is None else str(row[1])

    def _read_key(self, digest: str | None) -> bytes:
        """Return the key; a new one only for a store that holds nothing yet."""
        if digest is None and not self.key_path.exists():
            with suppress(FileExistsError):  # another process was quicker; its key serves as well
                write_once(self.key_path, random_bytes(32).hex().encode() + b"\n")
        try:
            key = bytes.fromhex(read_private(self.key_path).decode().strip())
        except FileNotFoundError:
            raise KeyMissing(
                f"there is no {self.key_path}, and without it the fingerprints in {self._path} "
                "mean nothing; restore it, or move the store away, and audits before now are not "
                "remembered"
            ) from None
        except ValueError as error:
            raise KeyMissing(f"{self.key_path} is no key of 64 hexadecimal digits") from error
        if len(key) != 32 or digest not in (None, _digest(key)):
            raise KeyMissing(f"{self.key_path} is not the key of {self._path}; restore that one")
        return key

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            base = sqlite3.connect(self._path, timeout=30.0)
            try:
                with base:
                    yield base
            finally:
                base.close()
        except sqlite3.OperationalError as error:  # locked, full, read-only: it can be mended
            raise DiskError(f"the lineage store {self._path} is not usable: {error}") from error
        except sqlite3.DatabaseError as error:
            raise DiskError(
                f"the lineage store {self._path} cannot be used: {error}; restore it, or move it "
                "away with its key, and audits before now are not remembered"
            ) from error

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskError(
                f"the lineage store {self._path} is not usable: {error.strerror or error}"
            ) from error

    def table(self, frame: pd.DataFrame) -> TablePrints:
        """Return the fingerprints of a table's records."""
        return TablePrints(frame, self._key)

    def remember(self, audit: str, name: str, roles: RecordSets) -> None:
        """Record the roles of an audit that is about to be sealed.

        They count from `confirm` on: a seal that was killed before it was recorded has
        opened nothing.
        """
        with self._connect() as base:
            base.execute("insert or ignore into audits values (?, 0)", (audit,))
            _insert(base, audit, name, roles)

    def confirm(self, audit: str) -> None:
        """Let an audit's records count; its seal is in the ledger."""
        with self._connect() as base:
            base.execute("update audits set sealed = 1 where audit = ?", (audit,))

    def knows(self, audit: str) -> bool:
        """Return whether the roles of an audit were recorded here."""
        with self._connect() as base:
            row = base.execute("select 1 from audits where audit = ?", (audit,)).fetchone()
        return row is not None

    def overlaps(self, audit: str, expected: Mapping[tuple[str, str], float]) -> list[Overlap]:
        """Return how each target of a sealed audit meets every other known set of records."""
        known = self.known()
        ours = [records for records in known if records.audit == audit]
        roles = {(records.member, records.role): records.records for records in ours}
        return find_overlaps(audit, ours[0].name if ours else "", roles, known, expected)

    def known(self) -> list[Known]:
        """Return every set of records of the audits that were sealed."""
        opened = self._opened()
        with self._connect() as base:
            sealed = "where audit in (select audit from audits where sealed = 1)"
            return [
                replace(records, opened=records.audit in opened)
                for records in _known(base, sealed, ())
            ]

    def _opened(self) -> set[str]:
        with self._connect() as base:
            return {row[0] for row in base.execute("select audit from openings").fetchall()}

    def grant(self, request: GrantRequest, *, again: bool) -> list[Overlap]:
        """Record that the keys of an audit's targets are released; return what speaks against it.

        A target is granted once: for another registry or other releases it is refused. Records
        that were granted before, or stood in clear in the development part of what was, are
        refused in whatever seal they come, unless this is done ``again`` on purpose. All of it
        is one transaction, so that of two grants at once one sees the other, and a kill leaves
        everything or nothing; asked again, the same request is granted again.

        Parameters
        ----------
        request
            What is asked for.
        again
            Whether records that were met before are granted all the same.

        Returns
        -------
        list[Overlap]
            Where the records were met; empty unless ``again`` is set.

        Raises
        ------
        TargetReused
            If the target was granted for another claim, or its records were met before.
        """
        with self._connect() as base:
            base.execute("begin immediate")
            for target in request.targets:
                row = base.execute(
                    "select registry, releases from grants where target = ?", (target,)
                ).fetchone()
                if row is not None and row != (request.registry, request.releases):
                    raise TargetReused(
                        "this target's key was granted before, for another registry or other "
                        "releases; a target is granted once"
                    )
            granted = "where audit in (select audit from grants) and audit != ?"
            known = [
                replace(records, opened=True)
                for records in _known(base, granted, (request.number,))
            ]
            overlaps = find_overlaps(request.number, request.name, request.roles, known, {})
            met = [overlap for overlap in overlaps if overlap.reused or overlap.leaked]
            if met and not again:
                raise TargetReused(
                    f"records of this target were seen before: {met_words(met)}. Ask for a fresh "
                    "target, or grant it --again REASON, which the grant and the certificate "
                    "repeat"
                )
            _insert(base, request.number, request.name, request.roles)
            base.executemany(
                "insert or ignore into grants values (?, ?, ?, ?)",
                [(t, request.number, request.registry, request.releases) for t in request.targets],
            )
        return met

    def was_opened(self, target: str) -> bool:
        """Return whether the opening of a sealed target was begun."""
        with self._connect() as base:
            row = base.execute("select 1 from openings where target = ?", (target,)).fetchone()
        return row is not None

    def open(self, target: str, *, audit: str, registry: str, releases: str) -> None:
        """Record that a sealed target is opened, before its key is used.

        Asked again for the same claim it does nothing, so that an opening that was killed can
        be finished.

        Raises
        ------
        TargetReused
            If it was opened for another registry or other releases.
        """
        with self._connect() as base:
            # Locked before it is read: of two processes that open at once, one sees the other.
            base.execute("begin immediate")
            before = base.execute(
                "select audit, registry, releases from openings where target = ?", (target,)
            ).fetchone()
            if before is None:
                base.execute(
                    "insert into openings values (?, ?, ?, ?)", (target, audit, registry, releases)
                )
            elif before != (audit, registry, releases):
                raise TargetReused(
                    "this sealed target was opened before, for registry "
                    f"{before[1][:16]}... and releases {before[2][:16]}...; it decides once. Seal "
                    "a fresh target"
                )


def _digest(key: bytes) -> str:
    """Return what tells one key from another and nothing about it."""
    return hashlib.sha256(b"proxyguard lineage key" + key).hexdigest()


def _known(base: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[Known]:
    rows = base.execute(
        "select audit, name, member, role, identity, prints, occurrences from roles "
        f"{where} order by rowid",
        values,
    ).fetchall()
    return [
        Known(
            audit=audit,
            name=name,
            member=member,
            role=role,
            records=RecordSet(
                identity,
                np.frombuffer(prints, dtype=f"V{SIZE}"),
                np.frombuffer(occurrences, dtype="<i8").astype(np.int64),
                _views(base, audit, member, role),
            ),
            opened=False,
        )
        for audit, name, member, role, identity, prints, occurrences in rows
    ]


def met_words(met: Sequence[Overlap]) -> str:
    """Return how many records were met where."""
    return ", ".join(
        f"{max(overlap.shared, overlap.twins)} in {overlap.role} of "
        + ("this audit" if overlap.same_audit else f"{overlap.audit!r}, granted before")
        for overlap in met
    )


def worst_met(told: Sequence[Sequence[Overlap]]) -> list[Overlap]:
    """Return what a ledger says of a target's records, the worst that any step recorded.

    ``told`` is what each step recorded at which the store was asked, first to last. A store that
    was deleted after the seal knows nothing at the opening; what the seal recorded stands.
    """
    met: list[Overlap] = []
    for overlaps in reversed(told):
        met += [
            earlier for earlier in overlaps if not any(_as_bad(later, earlier) for later in met)
        ]
    return met


def _as_bad(later: Overlap, earlier: Overlap) -> bool:
    """Return whether a later step tells of the same meeting, and of no less."""
    return _meeting(later) == _meeting(earlier) and all(
        now >= before for now, before in zip(_badness(later), _badness(earlier), strict=True)
    )


def _meeting(overlap: Overlap) -> tuple[str, str, str, bool]:
    return overlap.audit, overlap.member, overlap.role, overlap.same_audit


def _badness(overlap: Overlap) -> tuple[int, int, bool, bool, bool]:
    return overlap.shared, overlap.twins, overlap.excess, overlap.opened, overlap.reused


def _insert(base: sqlite3.Connection, audit: str, name: str, roles: RecordSets) -> None:
    for (member, role), records in roles.items():
        prints, occurrences = records.prints.tobytes(), records.occurrences.astype("<i8").tobytes()
        base.execute(
            "insert or replace into roles values (?, ?, ?, ?, ?, ?, ?)",
            (audit, name, member, role, records.table, prints, occurrences),
        )
        base.execute(
            "delete from views where audit = ? and member = ? and role = ?", (audit, member, role)
        )
        base.executemany(
            "insert into views values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (audit, member, role, number, view.words, view.size, view.chance, view.thin,
                 view.values.astype("<u8").tobytes(), view.counts.astype("<u4").tobytes())
                for number, view in enumerate(records.views)
            ),
        )  # fmt: skip


def _views(base: sqlite3.Connection, audit: str, member: str, role: str) -> tuple[RecordView, ...]:
    rows = base.execute(
        "select prints, counts, size, chance, words, thin from views "
        "where audit = ? and member = ? and role = ? order by place",
        (audit, member, role),
    )
    return tuple(
        RecordView(
            np.frombuffer(prints, dtype="<u8"),
            np.frombuffer(counts, dtype="<u4").astype(np.int64),
            *facts,
        )
        for prints, counts, *facts in rows.fetchall()
    )
