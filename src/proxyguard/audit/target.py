"""The opened target: its records in sealed order, chunk by chunk, typed and with outcomes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.seal import LOSSES, POSITION
from proxyguard.documents.canonical import digest
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.ledger import SealedMember
from proxyguard.draw.protocol import outcomes
from proxyguard.errors import LossMismatch, SealError
from proxyguard.exact.rounding import Array
from proxyguard.losses.measure import group_name
from proxyguard.losses.query import CodedRecords
from proxyguard.losses.records import Records
from proxyguard.registry.declaration import Member
from proxyguard.registry.target import StratifiedDesign
from proxyguard.seal.journal import Journal
from proxyguard.seal.sealed_file import ROWS, nonce_of
from proxyguard.tables.columns import as_labels, typed
from proxyguard.tables.files import to_frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Some target records.

    Attributes
    ----------
    frame
        The records, typed as development was; of given losses, the columns beside them.
    positions
        Where each record stood in the table that was sealed.
    y
        The outcomes, where something is predicted.
    records
        Ids, strata, clusters and subgroups, as the tests read them.
    given
        Losses that were computed elsewhere, (R, m, J).
    """

    frame: pd.DataFrame
    positions: NDArray[np.int64]
    y: Array | None
    records: Records
    given: Array | None = None

    def rows(self, start: int, stop: int) -> Chunk:
        """Return some of the records, by their order in the chunk: from ``start`` to ``stop``."""
        if start == 0 and stop >= len(self.positions):
            return self
        rows, records = slice(start, stop), self.records
        return Chunk(
            frame=self.frame.iloc[rows],
            positions=self.positions[rows],
            y=None if self.y is None else self.y[rows],
            records=Records(
                ids=_rows(records.ids, start, stop),
                strata=_rows(records.strata, start, stop),
                clusters=_rows(records.clusters, start, stop),
                weights=_rows(records.weights, start, stop),
                groups={name: np.asarray(mask)[rows] for name, mask in records.groups.items()},
                random_order=records.random_order,
            ),
            given=None if self.given is None else self.given[:, rows],
        )


def _rows(labels: ArrayLike | None, start: int, stop: int) -> ArrayLike | None:
    return None if labels is None else np.asarray(labels)[start:stop]


class TargetRecords(Protocol):
    """The records that releases are scored on: a whole target, or the batch of a round."""

    @property
    def n_records(self) -> int:
        """The number of records that are scored."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records in the sealed, random order."""

    def whole(self) -> Chunk:
        """Return all records at once, for designs that need them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningSeed:
    """The seed of uniforms, blocks and orders of clusters in one opening (theory section 1).

    It hashes what the target was opened for, the registry and the frozen releases, and the
    nonces of all targets. So nobody could choose a claim or a release by it, one sealed target
    gives every claim another seed, and whoever has the folder can compute it again.
    """

    value: int
    nonces: dict[str, str]  # by member, as revealed

    @classmethod
    def of(cls, journal: Journal, nonces: Mapping[str, str]) -> OpeningSeed:
        """Return the seed of the recorded opening.

        Parameters
        ----------
        journal
            The ledger, which records for which claim and releases the target was opened.
        nonces
            Of every target, by member: kept secret in the sealed file until it is opened.
        """
        # From the opening and not from the registry at hand: a correction, made when the nonces
        # are known, must not get a seed by its design.
        opened = journal.ledger.opened
        value = _seed(
            {
                "registry": opened.registry,
                "releases": opened.releases,
                "nonces": dict(nonces),
            }
        )
        return cls(value=value, nonces=dict(nonces))

    @property
    def text(self) -> str:
        """The seed as the evidence says it."""
        return str(self.value)


def round_seed(seed: int, release: str) -> int:
    """Return the seed of one round of a stream, by the digest that was committed before it.

    A candidate comes after the opening, when the nonce is known: its own digest is what was
    frozen before its round.
    """
    return _seed({"seed": str(seed), "release": release})


def _seed(about: Mapping[str, object]) -> int:
    """Return 48 bits of a digest, a number that JSON holds exactly."""
    return int(digest({"purpose": "proxyguard seed", **about})[:12], 16)


def check_seed(journal: Journal, evidence: Evidence) -> None:
    """Raise unless the seed on record is that of the opening and of the sealed nonces.

    An author who tries seeds until the randomness of the tests suits has to find a nonce whose
    digest was published when the target was sealed.

    Raises
    ------
    SealError
        Where a nonce is another one, or the seed does not follow from them.
    """
    sealed = journal.ledger.sealed.members
    nonces = evidence.nonces
    published = {name: member.nonce_digest for name, member in sealed.items()}
    revealed = {
        name: hashlib.sha256(bytes.fromhex(nonce)).hexdigest() for name, nonce in nonces.items()
    }
    if revealed != published:
        raise SealError("the nonces of the evidence are not those that were sealed")
    expected = OpeningSeed.of(journal, nonces).text
    if evidence.seed != expected:
        raise SealError(
            f"the evidence was made with seed {evidence.seed}; registry, releases and nonces "
            f"give {expected}"
        )


class OpenTarget:
    """A sealed target with its key: what only an opened audit has.

    Parameters
    ----------
    folder
        The audit's folder, in which the sealed file lies.
    member
        Whose target it is: how its records are read, drawn and grouped.
    sealed
        What the ledger recorded of it.
    key
        What decrypts it.

    Raises
    ------
    SealError
        Where the file is not the one that was committed to.
    """

    def __init__(
        self, folder: AuditFolder, member: Member, sealed: SealedMember, key: bytes
    ) -> None:
        file = folder.sealed_target(sealed)
        # Before a record is used: a file that was swapped since is not the committed one.
        file.check(key, sealed.commitment)
        self._member, self._sealed = member, sealed
        self.rows, self.salt = file.rows, file.salt(key)
        self.stored: Callable[[], Iterator[pa.Table]] = partial(file.tables, key)

    @classmethod
    def received(
        cls,
        member: Member,
        sealed: SealedMember,
        *,
        rows: int,
        salt: bytes,
        tables: Sequence[pa.Table],
    ) -> OpenTarget:
        """Return a target whose records somebody else decrypted; no key is known here."""
        target = cls.__new__(cls)
        target._member, target._sealed = member, sealed
        target.rows, target.salt = rows, salt
        target.stored = lambda: iter(tables)
        return target

    @property
    def n_records(self) -> int:
        """The number of records that are scored."""
        draw = self._member.target.draw
        return self.rows if draw is None else draw.size

    @property
    def nonce(self) -> str:
        """What the opening reveals for the seed, which nobody knew before."""
        return nonce_of(self.salt).hex()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records in the sealed, random order."""
        for table in self._tables():
            yield self._chunk(table)

    def whole(self) -> Chunk:
        """Return all records at once, for designs that need them together."""
        return self._chunk(pa.concat_tables(list(self._tables())))

    def _tables(self) -> Iterator[pa.Table]:
        draw = self._member.target.draw
        if draw is None:
            yield from self.stored()
            return
        population = pa.concat_tables(list(self.stored())).combine_chunks()
        # By the registered seed: nobody chooses the sample once the population is decrypted.
        rng = np.random.default_rng(draw.seed)
        size = population.num_rows
        chosen = (
            rng.integers(0, size, size=draw.size)
            if draw.replace
            else rng.choice(size, size=draw.size, replace=False)
        )
        for start in range(0, draw.size, ROWS):
            yield population.take(pa.array(chosen[start : start + ROWS]))

    def _chunk(self, table: pa.Table) -> Chunk:
        positions = np.asarray(table.column(POSITION).to_numpy(), dtype=np.int64)
        target = self._member.target
        if target.losses is not None:
            return self._given_chunk(table, positions)
        raw = to_frame(table.drop_columns([POSITION]))
        frame = typed(raw, self._sealed.kind_of, target.read.missing, self._member.columns)
        y = None
        if target.predicted is not None:
            y = outcomes(frame[target.predicted.column], target.predicted, "target", secret=True)
        return Chunk(frame=frame, positions=positions, y=y, records=self._records(frame, positions))

    def _given_chunk(self, table: pa.Table, positions: NDArray[np.int64]) -> Chunk:
        import pandas as pd

        shape = (len(self._sealed.releases or ()), len(self._sealed.requirements or ()))
        cells = table.column(LOSSES).combine_chunks()
        # Stored as the bytes of doubles, one row a record, so that none is rounded.
        flat = np.frombuffer(b"".join(cells.to_pylist()), dtype=np.float64)
        values = flat.reshape(len(positions), *shape).transpose(1, 0, 2)
        names = [name for name in table.column_names if name not in (POSITION, LOSSES)]
        frame = pd.DataFrame({name: table.column(name).to_pylist() for name in names})
        return Chunk(
            frame=frame,
            positions=positions,
            y=None,
            records=self._records(frame, positions),
            given=values,
        )

    def _records(self, frame: pd.DataFrame, positions: NDArray[np.int64]) -> Records:
        design = self._member.target.design
        clusters, weight = self._member.target.clusters, self._member.target.weight_column
        coded = CodedRecords(frame)
        groups = {
            group_name(part.group): coded.inside(part.group.items())
            for part in self._member.requirement
            if part.group is not None
        }
        return Records(
            ids=positions,
            strata=as_labels(frame[design.by]) if isinstance(design, StratifiedDesign) else None,
            clusters=None if clusters is None else as_labels(frame[clusters.by]),
            weights=None if weight is None else frame[weight],
            groups=groups,
            random_order=True,
        )


class Batch:
    """Some records of the target in sealed order: those of one round, which no other sees.

    Raises
    ------
    LossMismatch
        Where the target has no such records left.
    """

    def __init__(self, target: OpenTarget, size: int, index: int) -> None:
        # In sealed order, which is random: a batch is a random part of the target.
        self._target, self._start, self.n_records = target, index * size, size
        if self._start + size > target.n_records:
            raise LossMismatch(
                f"round {index + 1} needs {size} fresh records, and {target.n_records} were sealed "
                "in all; the stream is over"
            )

    def chunks(self) -> Iterator[Chunk]:
        """Yield the batch's records."""
        seen = 0
        for chunk in self._target.chunks():
            first, last = self._start - seen, self._start + self.n_records - seen
            seen += len(chunk.positions)
            if last > 0 and first < len(chunk.positions):
                yield chunk.rows(max(0, first), min(last, len(chunk.positions)))

    def whole(self) -> Chunk:
        """Return the batch's records at once."""
        return self._target.whole().rows(self._start, self._start + self.n_records)
