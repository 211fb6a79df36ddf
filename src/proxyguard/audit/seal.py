"""Set the target aside and encrypt it, before anything else is decided (the audit's first step).

`seal` divides the table (`reserve`), sees that every target record can be read later, encrypts
the target to ``target/N.sealed`` and writes the development part to ``development/``. Losses that
were computed elsewhere are sealed as an array.

`mean_warnings` and `group_warnings` say beforehand what the published statistics of an audit would
give away of its target: every release has a mean of every requirement over the same records, and
to somebody who knows the features and the releases, which are in the folder, each mean is one
linear equation in the labels. With as many equations as records they have one solution.
`docs/threat-model.md` has the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from proxyguard.audit.development import MemberDevelopment, Workplace, development_file
from proxyguard.audit.folder import DECLARATION, AuditFolder
from proxyguard.audit.home import DataFolders, Home
from proxyguard.audit.members import MemberCounts
from proxyguard.audit.outcome import Sealing
from proxyguard.audit.reserve import (
    Division,
    Fingerprinted,
    divide,
    fingerprint_parts,
    lineage_warnings,
    refuse_leaks,
    split_development,
)
from proxyguard.audit.rules import planned_records, provisional_measure
from proxyguard.documents.canonical import digest
from proxyguard.documents.ledger import DevelopmentRole, Overlap, Sealed, SealedMember
from proxyguard.draw.catalog import FILL_MISSING, TAKE_INFINITE
from proxyguard.draw.protocol import lost_texts, negative_of, outcomes
from proxyguard.errors import (
    LossMismatch,
    ProxyGuardError,
    RegistryError,
    StageError,
    TableError,
    UnreadValue,
)
from proxyguard.exposure.descriptive import Copies
from proxyguard.losses.cell import Clusters
from proxyguard.losses.given import check_bounds, read_loss_file
from proxyguard.losses.measure import group_name
from proxyguard.losses.query import CodedRecords, codings
from proxyguard.losses.records import Records, weight_shares
from proxyguard.printable import some, toml
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Weighted, clusters_of
from proxyguard.registry.fields import Query
from proxyguard.registry.parts import DIGITS, least_digits, rounding_objections, useful_digits
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.target import StratifiedDesign, Target, WithoutReplacementDesign
from proxyguard.seal.crypto import Holder, Passphrase, Recipient, identity_problem
from proxyguard.seal.fingerprint import RecordSet, TablePrints, canonical_value
from proxyguard.seal.journal import writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import Known, find_overlaps
from proxyguard.seal.sealed_file import seal_table
from proxyguard.seal.storage import now, random_bytes
from proxyguard.tables.columns import as_labels, kinds_of, row_name, typed
from proxyguard.tables.files import recoded_note, table_bytes, text_is_recoded, to_arrow

if TYPE_CHECKING:
    import pandas as pd


# Column of the sealed file: the record's row in the table it came from.
POSITION = "__position__"


LOSSES = "__losses__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """For whom the target is encrypted: a key file here, a passphrase, or a steward."""

    passphrase: str | None = None
    """What the author will be asked for at the opening."""
    steward: str | None = None
    """The identity of a person who grants the opening."""
    by_steward: bool = False
    """Whether who seals is a steward, and holds the key for an author."""


def seal(
    folder: AuditFolder, home: Home, data: DataFolders, keeper: Keeper, software: dict[str, str],
    trial: int | None = None,
) -> Sealing:  # fmt: skip
    """Seal every target of the declaration, write the development parts, record the step.

    Parameters
    ----------
    folder
        The audit folder.
    home
        The home: its signing key, its keys of targets and its lineage store.
    data
        Where the tables lie that the declaration names.
    keeper
        For whom the target is encrypted.
    software
        Versions to record.
    trial
        Of a trial, which claims nothing, its seed: what was sealed with one has no guarantee.

    Returns
    -------
    Sealing
        The ledger's entry, and what the author should know.

    Raises
    ------
    StageError
        The target is sealed already.
    TableError
        A table cannot be divided, or a target record could not be read later.
    TargetReused
        Target records are in this audit's own development part.
    """
    if keeper.by_steward and keeper.steward is not None:
        raise RegistryError(
            "a steward who seals holds the key, and nobody grants: give --as-steward or --steward"
        )
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
        # Before the target is encrypted: a kill must not leave a sealed target unknown here.
        store.remember(audit, declaration.name, all_roles(ready))
        holder = _holder(home, audit, keeper)
        members, files = {}, {}
        warnings = lineage_warnings(declaration, overlaps)
        for index, prepared in enumerate(ready):
            made, member = (
                seal_member(folder, prepared, index, data, holder, trial),
                prepared.member,
            )
            members[member.name] = made.sealed
            files.update(made.files)
            n = planned_records(member, made.sealed.records)
            warnings += mean_warnings(
                declaration, member, requirements=made.means, n=n,
                limits=[*written_limits(member).values()],
            )  # fmt: skip
            warnings += made.warnings
            recoded = [name for name in member.tables if text_is_recoded(data.find(name))]
            warnings += map(recoded_note, recoded)
        sealed = Sealed(
            audit=audit,
            name=declaration.name,
            declaration=digest(declaration.sealed_part()),
            members=members,
            lineage=tuple(overlaps),
            files=files,
            author=key.identity,
            steward=keeper.steward,
            by_steward=keeper.by_steward,
            time=now(),
            software=software,
            trial=trial,
        )
        journal.record(sealed, key)
        # Last: until then the store does not count these records. A kill between the two is mended
        # by `check_lineage`, which every later step begins with.
        home.lineage.confirm(audit)
    return Sealing(record=sealed, warnings=tuple(warnings))


def _refuse_inside(folder: AuditFolder, member: Member, data: DataFolders) -> None:
    """Refuse tables in the audit folder: whoever gets the folder would get the target in clear."""
    for name in member.tables:
        if data.find(name).resolve().is_relative_to(folder.path.resolve()):
            raise TableError(
                f"{name!r} lies in the audit folder, which is given to others; keep it outside, "
                "beside the folder or where --data points"
            )


def check_sealed_part(folder: AuditFolder, declaration: Declaration, sealed: Sealed) -> None:
    """Raise when the declaration's target or development is not the one that was sealed."""
    if digest(declaration.sealed_part()) != sealed.declaration:
        raise StageError(
            "[target], [columns] or [development] in audit.toml differ from what was sealed; "
            f"restore them, or {sealed_anew(folder)}"
        )


def sealed_anew(folder: AuditFolder) -> str:
    """Return how the tables of an unopened audit can be read otherwise than they were sealed."""
    return (
        "seal the same tables again in a new folder, as long as nobody opened the target: "
        f"proxyguard init NEW --from {folder.path / DECLARATION}, change NEW/{DECLARATION} (but "
        f"not which rows are the target's), proxyguard run NEW, and never open {folder.path}"
    )


def check_steward(steward: str | None, author: str) -> None:
    """Refuse a steward who is no second person, or no person at all.

    Raises
    ------
    RegistryError
        The identity is none, or shares a key with the author's.
    """
    if steward is None:
        return
    problem = identity_problem(steward)
    if problem is not None:
        raise RegistryError(
            f"{steward[:16]}... is no steward's identity: {problem}; give the one that "
            "grant --make-key prints"
        )
    # Either key alone would do: one signs the grant, the other opens the target.
    if author[:64] == steward[:64] or author[64:] == steward[64:]:
        raise RegistryError("the steward is a second person; this identity is the author's own")


def _holder(home: Home, audit: str, keeper: Keeper) -> Holder:
    """Return for whom the target's key is wrapped: steward, passphrase, or a key file here."""
    if keeper.steward is not None:
        return Recipient(keeper.steward[64:])
    if keeper.passphrase is not None:
        return Passphrase(keeper.passphrase)
    return home.make_target_key(audit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedMember:
    """A member whose target could be sealed: its parts, read and fingerprinted."""

    member: Member
    division: Division | None = None
    """The rows of target and development; nothing of given losses."""
    kinds: dict[str, str] = field(default_factory=dict)
    """What each column holds that is written down, as the development part tells."""
    development: pd.DataFrame | None = None
    """The development part, with the columns that are withheld."""
    parts: dict[DevelopmentRole, pd.DataFrame] = field(default_factory=dict)
    """The development part, divided by what its rows are for."""
    prints: Fingerprinted = field(default_factory=Fingerprinted)
    """Which records have which role."""
    counts: MemberCounts | None = None
    """Members and nonmembers, where a requirement is about exposure."""


class UnsealedDevelopment(MemberDevelopment):
    """The development part of a member before sealing writes it."""

    def __init__(self, place: Workplace, ready: PreparedMember) -> None:
        self.place, self.member, self.kinds = place, ready.member, ready.kinds
        self._parts = ready.parts

    def training(self) -> pd.DataFrame:
        """Return the rows that sources and releases will be made from."""
        return self._parts["training"]

    def validation(self) -> pd.DataFrame | None:
        """Return the rows that will choose, where some are set aside."""
        return self._parts.get("validation")


def prepare_member(
    member: Member, data: DataFolders, table: Callable[[pd.DataFrame], TablePrints]
) -> PreparedMember:
    """Read and fingerprint a member's target and development part; nothing is written.

    Parameters
    ----------
    member
        The declared member.
    data
        Where its tables lie.
    table
        What fingerprints records, by the key of a lineage store.

    Raises
    ------
    TableError
        The table cannot be divided, or a target record could not be read later.
    """
    if member.target.losses is not None:
        return PreparedMember(member=member)
    division = divide(member, data)
    kinds = kinds_of_member(member, division.development)
    development = read_development(member, division, kinds)
    try:
        check_target(member, division.target, kinds, development)
    except UnreadValue as error:
        raise error.within(member.target.files[0]) from None
    check_surveyed(member, division)
    # The files of these parts are in clear: what nothing needs, such as a name, is in none.
    kept = {name: kind for name, kind in kinds.items() if name not in member.withheld}
    parts = split_development(member, development[list(kept)])
    return PreparedMember(
        member=member,
        division=division,
        kinds=kept,
        development=development,
        parts=parts,
        prints=fingerprint_parts(member, division, development, table),
        counts=_count_members(member, division.target, kept, parts),
    )


def read_development(member: Member, division: Division, kinds: dict[str, str]) -> pd.DataFrame:
    """Return the development part with its columns read by their kinds.

    Raises
    ------
    UnreadValue
        A value is of another kind.
    """
    target = member.target
    try:
        return typed(division.development, kinds, target.read.missing, member.columns)
    except UnreadValue as error:
        raise error.within(str(target.table or member.development.table)) from None


def _count_members(
    member: Member, records: pd.DataFrame, kinds: Mapping[str, str],
    parts: Mapping[DevelopmentRole, pd.DataFrame],
) -> MemberCounts | None:  # fmt: skip
    """Count members and nonmembers, and see that attacks can be judged by them."""
    # Also where only an epsilon is claimed: a requirement that is amended later asks for the count.
    if member.development.reference is None:
        return None
    members = parts["training"]
    # By the types of development, as opening reads them: "NA" and "" may both be missing.
    read = typed(records, dict(kinds), member.target.read.missing, member.columns)
    # In what attacks see, as opening compares them: with a number of each row nobody had a copy.
    copies = Copies(members[member.attacked(kinds)]).among(read)
    rows = {role: len(part) for role, part in parts.items()}
    counts = MemberCounts.of(member, rows, len(records), int(copies.sum()), members)
    counts.require(members, kinds)
    return counts


def all_roles(ready: Sequence[PreparedMember]) -> dict[tuple[str, str], RecordSet]:
    """Return the sets of records of all members."""
    return {role: records for m in ready for role, records in m.prints.roles.items()}


def overlaps_of(
    audit: str, declaration: Declaration, ready: Sequence[PreparedMember], known: Iterable[Known]
) -> list[Overlap]:
    """Return where the targets' records were met before, as opening will say it."""
    expected = {
        (prepared.member.name, role): twins
        for prepared in ready
        for role, twins in prepared.prints.expected.items()
    }
    return find_overlaps(audit, declaration.name, all_roles(ready), known, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedTarget:
    """What sealing one target made."""

    sealed: SealedMember
    """Its entry in the ledger."""
    files: dict[str, str]
    """Its files with their digests."""
    means: int
    """How many means of the target each release will publish."""
    warnings: list[str]
    """What the author should know."""


def seal_member(
    folder: AuditFolder, ready: PreparedMember, index: int, data: DataFolders, holder: Holder,
    trial: int | None,
) -> SealedTarget:  # fmt: skip
    """Seal one target and write its files."""
    member, division, development = ready.member, ready.division, ready.development
    if division is None or development is None:
        return _seal_losses(folder, member, index, data, holder)
    n = len(division.target)
    # The registered draw is random by itself; every other order is drawn here, for tests that
    # read records one after the other.
    order = _random_order(n, trial) if member.target.draw is None else np.arange(n)
    records = division.target.iloc[order].reset_index(drop=True)
    records[POSITION] = division.positions[order]
    sealed = seal_table(to_arrow(records), [holder], salt=_secret("salt", trial))
    parts, counts = ready.parts, ready.counts
    files = {(name := _target_file(index)): folder.write(name, sealed.content)}
    for role, rows in parts.items():
        name = development_file(index, role)
        files[name] = folder.write(name, table_bytes(rows))
    return SealedTarget(
        sealed=SealedMember(
            index=index,
            records=n,
            commitment=sealed.commitment,
            nonce_digest=sealed.nonce_digest,
            kinds=tuple(ready.kinds.items()),  # in the order of the table
            negative=negative_of(development, member.target.predicted),
            estimand=member.target.estimand,
            development={role: len(rows) for role, rows in parts.items()},
            expected_twins={role: f"{twins:.1f}" for role, twins in ready.prints.expected.items()},
            copies=None if counts is None else counts.copies,
            unlabelled=(
                division.unlabelled if member.target.missing_outcomes == "leave out" else None
            ),
        ),
        files=files,
        means=count_requirements(member, ready.kinds, parts["training"]),
        warnings=[
            *survey_warnings(member, division),
            *group_warnings(member, division.target),
            *([] if counts is None else counts.warnings()),
        ],
    )


def _random_order(n: int, trial: int | None = None) -> NDArray[np.int64]:
    """Return an order that nobody chose: tests may read the records one after the other."""
    secret = _secret("order", trial)
    return np.random.default_rng(int.from_bytes(secret)).permutation(n)


def _secret(purpose: str, trial: int | None) -> bytes:
    """Return 32 bytes of the system; of a trial those of its seed, which the ledger records."""
    said = f"proxyguard trial {trial}: {purpose}"
    return random_bytes(32) if trial is None else sha256(said.encode()).digest()


def _target_file(index: int) -> str:
    return f"target/{index}.sealed"


def kinds_of_member(member: Member, development: pd.DataFrame) -> dict[str, str]:
    """Return the kind of every column, from the development part."""
    target = member.target
    text = [target.outcome] if target.outcome is not None and target.range is None else []
    text.extend(target.label_columns)
    return kinds_of(development, target.read.missing, text, member.columns)


def _seal_losses(
    folder: AuditFolder, member: Member, index: int, data: DataFolders, holder: Holder
) -> SealedTarget:
    """Seal an array of losses that was computed elsewhere, within their declared bounds."""
    target = member.target
    given = read_loss_file(data.find(str(target.losses)), target.design_column, member.loss_names)
    check_bounds(given, member.requirement, gaps=target.missing_outcomes == "worst")
    n_releases, n, n_requirements = given.values.shape
    order = _random_order(n)
    # Record by record: the sealed file is read in chunks of records.
    flat = np.ascontiguousarray(given.values.transpose(1, 0, 2)[order]).reshape(n, -1)
    width = n_releases * n_requirements * 8
    columns: dict[str, pa.Array] = {
        POSITION: pa.array(order.astype(np.int64)),
        LOSSES: pa.array([row.tobytes() for row in flat], type=pa.binary(width)),
    }
    if target.weight_column is not None:
        _check_weights(target, given.labels or ())
    if given.labels is not None:
        columns[str(target.design_column)] = pa.array([given.labels[i] for i in order])
    sealed = seal_table(pa.table(columns), [holder])
    name = _target_file(index)
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


def check_target(
    member: Member, records: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """See that every target record can be read later; nothing is computed from them.

    What is found here stops a seal; found later, it would stop an audit that is opened already.

    Parameters
    ----------
    member
        The declared member.
    records
        The target's records, as they stand in their file.
    kinds
        What each column holds, as the development part tells.
    development
        The typed development part.

    Raises
    ------
    TableError
        A value is of another kind, a design's label or size is not as declared, a cluster is on
        both sides, or an outcome or a gap is one that development does not have.
    """
    target = member.target
    try:
        numbers = typed(records, kinds, target.read.missing, member.columns)
    except UnreadValue:
        raise  # whoever knows the file says which of its rows it is
    except TableError as error:
        raise TableError(f"target: {error}") from None
    if len(records) == 0 or len(development) == 0:
        raise TableError(
            f"the target has {len(records)} records and development {len(development)}; both "
            "need some"
        )
    _check_design(target, records, numbers)
    _check_clusters(target, records, development)
    _check_missing(member, numbers, kinds, development)
    if target.predicted is None:
        return
    column = target.predicted.column
    # Development first: of what is wrong in both its labels may be shown.
    outcomes(development[column], target.predicted, "development")
    labels = numbers[column] if kinds[column] == "text" else records[column]
    if target.predicted.kind == "binary":
        known = {
            canonical_value(str(target.positive)),
            negative_of(development, target.predicted),
            NO_LABEL,
        }
        known |= lost_texts(target.predicted)
        other = np.flatnonzero([label not in known for label in as_labels(labels)])
        if other.size:
            seen = ", ".join(f'"{label}"' for label in sorted(known - {None, NO_LABEL}, key=str))
            more = f" (and {other.size - 1:,} more)" if other.size > 1 else ""
            raise TableError(
                f"target, {row_name(labels, int(other[0]))}{more}: {column!r} has a label that "
                f"development has not; known are {seen}; mend the label, or leave more rows to "
                "development"
            )
    outcomes(labels, target.predicted, "target", secret=True)


def _check_clusters(target: Target, records: pd.DataFrame, development: pd.DataFrame) -> None:
    """Refuse a cluster that is in the target and in development: its records are dependent."""
    if target.clusters is None:
        return
    by = target.clusters.by
    both = set(as_labels(records[by])) & set(as_labels(development[by]))
    if both:
        raise TableError(
            f"{len(both)} clusters of {by!r} are in the target and in development; records of one "
            "cluster depend on each other, so keep them together"
        )


def check_surveyed(member: Member, division: Division) -> None:
    """Refuse more clusters of a survey than it is said to have sampled.

    Design weights hold how thinly each stratum was sampled, a pilot included: strata that count by
    what is left for the target count for less than their persons where the pilot took more.

    Raises
    ------
    TableError
        Target and development have more, or some of a stratum that is not declared.
    """
    design = member.target.design
    if not division.surveyed or not isinstance(design, StratifiedDesign):
        return
    sampled = {canonical_value(name): count for name, count in (design.sampled or {}).items()}
    here = division.surveyed
    where = "target and development have" if division.rest is None else "the table has"
    remedy = (
        '; where development is of another survey, write survey = "another" under [development]'
        if division.rest is None else ""
    )  # fmt: skip
    others = sorted(set(here) - set(sampled))
    if others:
        raise TableError(
            f"{where} clusters of strata of {design.by!r} that sampled does not name, "
            f"{some(others)}: nothing would be claimed about their persons; take their rows out, "
            f"or declare them{remedy}"
        )
    few = [name for name in sampled if here.get(name, 0) > sampled[name]]
    if few:
        told = ", ".join(f"{g} {here[g]:,} (sampled {sampled[g]:,})" for g in few)
        least = toml({g: max(here.get(g, 0), count) for g, count in sampled.items()})
        raise TableError(
            f"{where} more clusters than the survey is said to have sampled, in {design.by!r}: "
            f"{told}; sampled counts the whole survey, what was set apart for development "
            f"included: write sampled = {least}, or more where others of it are not "
            f"here{remedy}"
        )


def survey_warnings(member: Member, division: Division) -> list[str]:
    """Return of which strata the survey sampled more clusters than there are here."""
    design = member.target.design
    if not division.surveyed or not isinstance(design, StratifiedDesign):
        return []
    lacking = {
        name: (count, division.surveyed.get(canonical_value(name), 0))
        for name, count in (design.sampled or {}).items()
        if division.surveyed.get(canonical_value(name), 0) < count
    }
    if not lacking:
        return []
    told = ", ".join(
        f"{name} {count:,} sampled, {count - here:,} not here"
        for name, (count, here) in lacking.items()
    )
    return [
        f"{member.name}: clusters that the survey sampled are in neither target nor development: "
        f"{told}; right where they were set aside at random within their stratum, and wrong where "
        "weights make up for clusters that did not answer: those were not sampled, as far as such "
        "weights go"
    ]


def _check_missing(
    member: Member, numbers: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """Refuse missing or infinite numbers that no model can have learned to live with."""
    target = member.target
    asked = [r.query.averaged for r in member.requirement if r.query is not None]
    averaged = frozenset[str]().union(*asked)
    library = () if member.procedure is None else member.procedure.library
    filled = bool(library) and FILL_MISSING.issuperset(library)
    unbounded = bool(library) and TAKE_INFINITE.issuperset(library)
    for name, kind in kinds.items():
        if name in averaged and kind == "number" and np.isnan(numbers[name].to_numpy()).any():
            raise TableError(
                f"target: column {name!r} has missing values, and a requirement is about its "
                "mean, whatever its group; mend the column, or ask for the mean where it is there "
                "as ratio = [FILLED, THERE]: in every table THERE is 1 where the number is there "
                "and 0 elsewhere, FILLED the number and 0 elsewhere"
            )
        if kind != "number" or name in member.excluded or name == target.outcome:
            continue
        column = numbers[name].to_numpy()
        infinite = np.isinf(column).any() or np.isinf(development[name].to_numpy()).any()
        if infinite and not unbounded:
            raise TableError(
                f"column {name!r} has infinite values; mend or exclude it, or write "
                'library = ["default"], which takes them'
            )
        if not filled and np.isnan(column).any() and not development[name].isna().any():
            raise TableError(
                f"target: column {name!r} has missing values and development has none, so no "
                "procedure learns what to do with them; exclude the column, mend it, or name a "
                f"procedure that fills gaps ({', '.join(sorted(FILL_MISSING))})"
            )


# What a missing label reads as.
NO_LABEL = ""


def _check_design(target: Target, records: pd.DataFrame, numbers: pd.DataFrame) -> None:
    """See that strata, clusters, weights and pool are as declared; only their column is read."""
    design = target.design
    labels = {}
    for by in target.label_columns:
        labels[by] = as_labels(records[by])
        unlabelled = labels[by].count(NO_LABEL)
        if unlabelled:
            raise TableError(
                f"target: {unlabelled} records have no label in {by!r}, the column of the "
                "design; a record whose stratum or cluster is not known may depend on any other, "
                "so label it or leave it out before sealing"
            )
    clusters = target.clusters
    if isinstance(design, StratifiedDesign):
        strata = labels[design.by]
        if clusters is not None:
            strata = _strata_of_clusters(design.by, strata, clusters.by, labels[clusters.by])
        counts = Counter(strata)
        sizes = {canonical_value(name): size for name, size in design.sizes.items()}
        if dict(counts) != sizes:
            what = "records" if clusters is None else "clusters"
            told = ", ".join(f"{name} {counts[name]} (declared {size})"
                             for name, size in sizes.items())  # fmt: skip
            others = sum(counts.values()) - sum(counts[name] for name in sizes)
            raise TableError(
                f"target: the strata of {design.by!r} are not as declared, in {what}: {told}"
                + (f", and {others} of strata that are not declared" if others else "")
            )
    if clusters is not None and clusters.max_size is not None:
        largest = max(Counter(labels[clusters.by]).values())
        if largest > clusters.max_size:
            raise TableError(
                f"target: a cluster of {clusters.by!r} has {largest} records, declared "
                f"max_size {clusters.max_size}"
            )
    if target.weight_column is not None:
        members = None if clusters is None else np.array(labels[clusters.by])
        _check_weights(target, numbers[target.weight_column].to_numpy(), members)
    elif isinstance(design, WithoutReplacementDesign):
        drawn = target.draw is not None
        if drawn and design.pool != len(records):
            raise TableError(
                f"the population has {len(records)} records, declared pool {design.pool}"
            )
        if not drawn and design.pool < len(records):
            raise TableError(f"{len(records)} records cannot come from a pool of {design.pool}")


def _strata_of_clusters(by: str, strata: list[str], name: str, clusters: list[str]) -> list[str]:
    """Return the stratum of every cluster; a cluster of two strata is refused."""
    pairs = dict.fromkeys(zip(clusters, strata, strict=True))
    again = [cluster for cluster, times in Counter(c for c, _ in pairs).items() if times > 1]
    if again:
        raise TableError(
            f"target: {len(again)} clusters of {name!r}, one of them with row "
            f"{clusters.index(again[0]) + 1}, have records in two strata of {by!r}; clusters are "
            "sampled within a stratum, so name those of different strata differently"
        )
    return [stratum for _, stratum in pairs]


def _check_weights(
    target: Target, weights: ArrayLike, clusters: NDArray[np.str_] | None = None
) -> None:
    """Refuse records without a weight of 0 to the largest one; the error never shows a weight."""
    design = target.sampling_design
    rule = clusters_of(design)
    try:
        known = np.asarray(Records(weights=weights).weights)
        if rule is not None and clusters is not None:
            Clusters.of(clusters, rule, False, 0, known)
        elif isinstance(design, Weighted):
            weight_shares(known, design)
    except LossMismatch as error:
        raise TableError(f"target: {target.weight_column!r} holds the weights: {error}") from None


# Warn from a quarter as many published means as there are records.
EQUATIONS = 4


# Warn of groups with fewer records: a mean over nine of them is close to nine labels.
FEW = 10

# Digits of a disclosure that is proposed, where fewer are fine enough for the limits.
USUAL_DIGITS = 3


def releases_of(member: Member) -> int:
    """Return how many releases are scored on a member's target, where the declaration says so."""
    return member.draws + len(member.release)


def mean_warnings(
    declaration: Declaration, member: Member, *, requirements: int, n: int,
    limits: Sequence[Requirement],
) -> list[str]:  # fmt: skip
    """Return what to know where many means are published of few records.

    Parameters
    ----------
    declaration
        The declaration, whose disclosure may round what is published.
    member
        The declared member.
    requirements
        How many means each release publishes.
    n
        How many target records they are over.
    limits
        Of the requirements those whose limits are known.
    """
    warnings = []
    releases, digits = releases_of(member), declaration.digits
    useful = useful_digits(n, limits)
    if releases * requirements * EQUATIONS >= n:
        remedy = "register fewer releases or requirements, or more records"
        sound = not rounding_objections(member.target.sampling_design, limits)
        if digits is None and useful and sound and member.target.missing_outcomes != "worst":
            proposed = min(useful[-1], max(useful[0], USUAL_DIGITS))
            remedy += f", or disclosure = {{ digits = {proposed} }} before the first table"
        remedy = (
            remedy
            if digits is None
            else f"rounding to {digits} digits makes that harder and guarantees nothing"
        )
        warnings.append(
            f"{member.name}: {releases} releases x {requirements} requirements publish "
            f"{releases * requirements:,} means of {n:,} records; somebody who knows the features "
            f"may solve for the outcomes: {remedy}"
        )
    if digits is not None and 10**digits >= n:
        remedy = f"{useful[-1]} digits do" if useful else _no_digits(n, limits)
        warnings.append(
            f"{member.name}: rounding to {digits} digits changes no count out of {n:,} records; "
            f"{remedy}"
        )
    return warnings


def _no_digits(n: int, limits: Sequence[Requirement]) -> str:
    """Return what to do where digits that round a count of ``n`` are too few for a limit."""
    fewest = max(map(least_digits, limits), default=DIGITS.start)
    other = "wider limits, or no disclosure"
    if fewest not in DIGITS:
        return f"no digits are fine enough for the limits: {other}"
    return (
        f"{fewest} digits are the fewest that are fine enough for the limits, and round counts of "
        f"more than {10**fewest:,} records: so many records, {other}"
    )


def rounding_warnings(
    member: Member, digits: int | None, requirements: Mapping[str, Requirement], n: int | None
) -> list[str]:
    """Return of which limits a disclosure's step is no small part: what is just below them fails.

    Parameters
    ----------
    member
        The declared member.
    digits
        Of its disclosure; None where there is none.
    requirements
        One requirement for each declared one, with bounds and limit.
    n
        How many target records there are; None where that is not known yet.
    """
    warnings, limits = [], list(requirements.values())
    for name, requirement in requirements.items():
        if digits is None or digits >= least_digits(requirement):
            continue
        width = 1.0 if requirement.indicator else requirement.width
        useful = useful_digits(10**DIGITS.stop if n is None else n, limits)
        remedy = f"digits = {useful[0]} is fine enough" if useful else _no_digits(n or 0, limits)
        warnings.append(
            f"{member.name}: {name}: a disclosure of {digits} digits rounds against the claim "
            f"in steps of {width / 10**digits:g}, and the limit is {requirement.limit:g}: releases "
            f"well below it may not score; {remedy}"
        )
    return warnings


def written_limits(member: Member) -> dict[str, Requirement]:
    """Return what is known of limits that are plain numbers, before queries are made."""
    limits = {}
    for part in member.requirement:
        if not isinstance(part.limit, str):
            continue
        query = part.query
        with suppress(ProxyGuardError):  # a limit that cannot be is told elsewhere
            if query is not None and (query.marginals or query.share) is not None:
                limits[part.name] = Requirement(
                    name=part.name, low=-1, high=1, limit=float(part.limit), indicator=True
                )
            elif part.loss is not None and member.target.predicted is not None:
                measure = provisional_measure(part, member, part.limit)
                limits[part.name] = measure.requirement
    return limits


def group_warnings(member: Member, target: pd.DataFrame) -> list[str]:
    """Return which subgroups have so few records that a mean over them tells outcomes.

    Said to whoever seals, and not written down: sizes of groups are facts about the target.
    """
    groups = {
        group_name(requirement.group): requirement.group
        for requirement in member.requirement
        if requirement.group is not None
    }
    records = CodedRecords(target)
    sizes = {name: int(records.inside(group.items()).sum()) for name, group in groups.items()}
    return [
        f"{member.name}: the group {name!r} has {size} records in the target; means over "
        f"fewer than {FEW} tell much of single outcomes, and little can be shown with them"
        for name, size in sizes.items()
        if size < FEW
    ]


def count_requirements(member: Member, kinds: Mapping[str, str], training: pd.DataFrame) -> int:
    """Return how many means a release will have: two for every cell that a query stands for."""
    records = CodedRecords(training)

    def labels(query: Query, column: str) -> int:
        if column in (coding := codings(query)):
            return len(coding[column].labels)
        known = column in training.columns and kinds.get(column) == "text"
        return len(records.codes(column)[1]) if known else 1

    def means(query: Query | None) -> int:
        if query is None:
            return 1
        cells = sum(prod(labels(query, c) for c in columns) for columns in query.tables)
        return 2 * max(1, cells)

    return sum(means(requirement.query) for requirement in member.requirement)
