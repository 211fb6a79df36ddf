"""Set the target aside and encrypt it, before anything else is decided (the audit's first step)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from proxyguard.adapters.library import split_table
from proxyguard.audit.data import DataFolders
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import Home
from proxyguard.audit.loss_file import check_bounds, read_loss_file
from proxyguard.draw.outcome import negative_label, outcomes
from proxyguard.errors import RegistryError, StageError, TableError
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.fields import number
from proxyguard.registry.target import (
    ClusteredDesign,
    StratifiedDesign,
    Target,
    WithoutReplacementDesign,
)
from proxyguard.seal.canonical import digest
from proxyguard.seal.crypto import Holder, Passphrase, Recipient
from proxyguard.seal.entropy import now, random_bytes
from proxyguard.seal.fingerprint import RecordSet, canonical_value, expected_twins
from proxyguard.seal.journal import writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import LineageStore
from proxyguard.seal.sealed_file import seal_table
from proxyguard.seal.table import RawTable, as_text, kinds_of, table_bytes, to_arrow, typed

if TYPE_CHECKING:
    import pandas as pd

POSITION = "__position__"
"""Column of the sealed file: the record's row in the table it came from."""
LOSSES = "__losses__"

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """For whom the target is encrypted: a key file here, a passphrase, or a steward."""

    passphrase: str | None = None
    steward: str | None = None  # identity of a person who grants the opening


def seal(
    folder: AuditFolder, home: Home, data: DataFolders, keeper: Keeper, software: dict[str, str]
) -> dict[str, Any]:
    """Seal every target of the declaration, write the development parts, record the step."""
    declaration = folder.declaration()
    key = home.make_signing_key()
    with writing(folder.path) as journal:
        if journal.ledger.has(Stage.SEALED):
            raise StageError("sealed: the target is sealed already, and it is sealed once")
        check_steward(keeper.steward, key.identity)
        audit = random_bytes(16).hex()
        holder = _holder(home, audit, keeper)
        members, files = {}, {}
        for index, member in enumerate(declaration.members):
            _refuse_inside(folder, member, data)
            sealed = seal_member(folder, member, index, data, holder, home.lineage, audit,
                                 declaration.name)  # fmt: skip
            members[member.name] = sealed
            files.update(sealed.pop("files"))
        body = {
            "audit": audit,
            "name": declaration.name,
            "declaration": digest(declaration.sealed_part()),
            "members": members,
            "files": files,
            "author": key.identity,
            "steward": keeper.steward,
            "time": now(),
            "software": software,
        }
        journal.record(Stage.SEALED, body, key)
        home.lineage.confirm(audit)
    return body


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


def check_sealed_part(declaration: Declaration, sealed: dict[str, Any]) -> None:
    """Raise when the declaration's target or development is not the one that was sealed."""
    if digest(declaration.sealed_part()) != sealed["declaration"]:
        raise StageError(
            "target or development in audit.toml differ from what was sealed; restore them, or "
            "start a new audit with a fresh target"
        )


def check_steward(steward: str | None, author: str) -> None:
    """Refuse a steward who is no second person, or no person at all."""
    if steward is None:
        return
    if re.fullmatch("[0-9a-f]{128}", steward) is None:
        raise RegistryError(
            "a steward's identity is 128 hexadecimal digits, as grant --make-key prints it"
        )
    if author[:64] == steward[:64] or author[64:] == steward[64:]:
        raise RegistryError("the steward is a second person; this identity is the author's own")


def _holder(home: Home, audit: str, keeper: Keeper) -> Holder:
    if keeper.steward is not None:
        return Recipient(keeper.steward[64:])
    if keeper.passphrase is not None:
        return Passphrase(keeper.passphrase)
    return home.make_target_key(audit)


def seal_member(
    folder: AuditFolder,
    member: Member,
    index: int,
    data: DataFolders,
    holder: Holder,
    lineage: LineageStore,
    audit: str,
    name: str,
) -> dict[str, Any]:
    """Seal one target; return what the ledger says of it."""
    if member.target.losses is not None:
        return _seal_losses(folder, member, index, data, holder)
    parts = _divide(member, data)
    kinds = _kinds(member, parts.development)
    development = typed(parts.development, kinds, member.target.read.missing)
    _check_target(member, parts.target, kinds, development)
    order = np.random.default_rng(int.from_bytes(random_bytes(32))).permutation(len(parts.target))
    if member.target.draw is not None:
        order = np.arange(len(parts.target))  # the registered draw is random by itself
    records = parts.target.iloc[order].reset_index(drop=True)
    records[POSITION] = parts.positions[order]
    sealed = seal_table(to_arrow(records), [holder])
    training, validation = split_development(member, development)
    target_name = f"target/{index}.sealed"
    files = {target_name: folder.write(target_name, sealed.content)}
    roles = {"training": training, "validation": validation}
    for role, part in roles.items():
        if part is not None:
            path = f"development/{index}.{role}.parquet"
            files[path] = folder.write(path, table_bytes(part))
    expected = _remember(member, parts, development, lineage, audit, name)
    return {
        "index": index,
        "records": len(parts.target),
        "commitment": sealed.commitment,
        "kinds": [[name, kind] for name, kind in kinds.items()],  # in the order of the table
        "negative": _negative(member.target, development),
        "estimand": member.target.estimand,
        "development": {role: len(part) for role, part in roles.items() if part is not None},
        "expected_twins": {role: f"{number:.1f}" for role, number in expected.items()},
        "files": files,
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """A target and the development part beside it, as they stand in their files."""

    target: pd.DataFrame
    positions: Positions  # of the target's rows in their file
    development: pd.DataFrame  # in blocks: training, then validation
    rest: Positions | None  # of the development rows, where both come from one table
    whole: pd.DataFrame | None  # that table, unused rows included


def _divide(member: Member, data: DataFolders) -> _Parts:
    target = member.target
    if target.table is not None:
        raw = RawTable(data.find(target.table), target.read)
        check_columns(member, raw.columns)
        if member.development.blocks is None:
            chosen = reserve_rows(raw, target)
            rest = np.setdiff1d(np.arange(len(raw)), chosen)
        else:
            training, validation, chosen = block_rows(raw, member)
            rest = np.concatenate([training, validation])
        whole = raw.take(np.arange(len(raw)))
        return _Parts(raw.take(chosen), chosen, raw.take(rest), rest, whole)
    raw = RawTable(data.find(str(target.file or target.population)), target.read)
    everything = np.arange(len(raw))
    source = RawTable(data.find(str(member.development.table)), target.read)
    check_columns(member, source.columns)
    missing = set(source.columns) - set(raw.columns)
    if missing:
        raise TableError(
            f"the target lacks the columns {sorted(missing)} of {member.development.table!r}"
        )
    return _Parts(
        raw.take(everything)[source.columns],
        everything,
        source.take(np.arange(len(source))),
        None,
        None,
    )


def check_columns(member: Member, columns: list[str]) -> None:
    """See that every column that the declaration names is there."""
    target = member.target
    named = {target.outcome, target.design_column, *target.exclude}
    for part in member.requirement:
        named |= set(part.group or ())
        if part.query is not None:
            named |= {part.query.mean, *(part.query.share or ())}
            named |= {c for marginal in part.query.marginals or () for c in marginal}
    missing = sorted(str(name) for name in named - {None} if name not in columns)
    if missing:
        raise TableError(
            f"the declaration names the columns {missing}, and the table has {columns}; is "
            "read.separator right?"
        )


def reserve_rows(raw: RawTable, target: Target) -> Positions:
    """Return the row positions set aside, drawn before any outcome is parsed.

    Fixed-size strata read the stratum column, and nothing else.
    """
    assert target.reserve is not None  # the caller has a table with a reserve
    rng = np.random.default_rng(target.reserve.seed)
    if isinstance(target.design, ClusteredDesign):
        return _reserve_clusters(raw, target.design.by, int(target.reserve.clusters or 0), rng)
    if not isinstance(target.design, StratifiedDesign):
        rows = target.reserve.rows or 0
        if rows >= len(raw):
            raise TableError(f"{rows} rows are to be reserved, and {target.table!r} has {len(raw)}")
        return np.sort(rng.choice(len(raw), size=rows, replace=False)).astype(np.int64)
    labels = np.array([canonical_value(text) for text in raw.column(target.design.by)])
    chosen = []
    for stratum, size in target.design.sizes.items():
        inside = np.flatnonzero(labels == canonical_value(stratum))
        if inside.size <= size:
            raise TableError(
                f"stratum {stratum!r} of {target.design.by!r} is to give {size} records and has "
                f"{inside.size}"
            )
        chosen.append(rng.choice(inside, size=size, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def block_rows(raw: RawTable, member: Member) -> tuple[Positions, Positions, Positions]:
    """Return the row positions of training, validation and target, dealt out by stratum."""
    target, blocks, design = member.target, member.development.blocks, member.target.design
    assert blocks is not None  # the declaration was checked
    assert target.reserve is not None
    assert isinstance(design, StratifiedDesign)
    rng = np.random.default_rng(target.reserve.seed)
    labels = np.array([canonical_value(text) for text in raw.column(design.by)])
    dealt: list[list[Positions]] = [[], [], []]
    for stratum in design.sizes:
        inside = rng.permutation(np.flatnonzero(labels == canonical_value(stratum)))
        sizes = (
            blocks.training[stratum], blocks.validation.get(stratum, 0), design.sizes[stratum],
        )  # fmt: skip
        if inside.size < sum(sizes):
            raise TableError(
                f"stratum {stratum!r} of {design.by!r} is to give {' + '.join(map(str, sizes))} "
                f"records and has {inside.size}"
            )
        ends = np.cumsum(sizes)
        for part, begin, end in zip(dealt, (0, *ends), ends, strict=False):
            part.append(np.sort(inside[begin:end]))
    training, validation, chosen = (np.concatenate(part).astype(np.int64) for part in dealt)
    return training, validation, np.sort(chosen)


def _reserve_clusters(raw: RawTable, by: str, wanted: int, rng: np.random.Generator) -> Positions:
    """Return the rows of whole clusters: a cluster on both sides would tell its own outcome."""
    labels = np.array([canonical_value(text) for text in raw.column(by)])
    known = np.unique(labels)
    if wanted >= known.size:
        raise TableError(f"{wanted} clusters are to be reserved, and {by!r} has {known.size}")
    return np.flatnonzero(np.isin(labels, rng.choice(known, size=wanted, replace=False)))


def _kinds(member: Member, development: pd.DataFrame) -> dict[str, str]:
    target = member.target
    text = [target.outcome] if target.outcome is not None and target.range is None else []
    if target.design_column is not None:
        text.append(target.design_column)
    return kinds_of(development, target.read.missing, text)


def _check_target(
    member: Member, records: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """See that every target record can be read later; nothing is computed from them."""
    target = member.target
    try:
        typed(records, kinds, target.read.missing)
    except TableError as error:
        raise TableError(f"target: {error}") from None
    if len(records) == 0 or len(development) == 0:
        raise TableError(
            f"the target has {len(records)} records and development {len(development)}; both "
            "need some"
        )
    _check_design(target, records)
    _check_clusters(target, records, development)
    _check_missing(member, records, kinds, development)
    if target.predicted is None:
        return
    column = target.predicted.column
    outcomes(records[column], target.predicted, "target")
    outcomes(development[column], target.predicted, "development")
    negative = _negative(target, development)
    if target.predicted.kind == "binary":
        known = {canonical_value(str(target.positive)), negative}
        other = {canonical_value(str(v)) for v in records[column]} - known
        if other:
            raise TableError(
                f"target: {column!r} has {sorted(map(str, other))[:3]}, development only "
                f"{sorted(map(str, known))}"
            )


def _check_clusters(target: Target, records: pd.DataFrame, development: pd.DataFrame) -> None:
    """Refuse a cluster that is in the target and in development: its records are dependent."""
    if not isinstance(target.design, ClusteredDesign):
        return
    by = target.design.by
    both = {canonical_value(as_text(v)) for v in records[by]} & {
        canonical_value(as_text(v)) for v in development[by]
    }
    if both:
        raise TableError(
            f"{len(both)} clusters of {by!r}, for example {min(both)!r}, are in the target and in "
            "development; records of one cluster depend on each other, so keep them together"
        )


def _check_missing(
    member: Member, records: pd.DataFrame, kinds: dict[str, str], development: pd.DataFrame
) -> None:
    """Refuse missing or infinite numbers that no model can have learned to live with."""
    target = member.target
    numbers = typed(records, kinds, target.read.missing)
    for name, kind in kinds.items():
        if kind != "number" or name in target.exclude or name == target.outcome:
            continue
        own = numbers[name].to_numpy()
        if np.isinf(own).any() or np.isinf(development[name].to_numpy()).any():
            raise TableError(f"column {name!r} has infinite values; mend or exclude it")
        if np.isnan(own).any() and not development[name].isna().any():
            raise TableError(
                f"target: column {name!r} has missing values and development has none, so no "
                "procedure learns what to do with them; exclude the column or mend it"
            )


def _check_design(target: Target, records: pd.DataFrame) -> None:
    """See that strata, clusters and pool are as declared; only their column is read."""
    design = target.design
    if isinstance(design, StratifiedDesign | ClusteredDesign):
        labels = [canonical_value(as_text(v)) for v in records[design.by]]
        counts = Counter(labels)
        if isinstance(design, StratifiedDesign):
            sizes = {canonical_value(name): size for name, size in design.sizes.items()}
            if dict(counts) != sizes:
                raise TableError(
                    f"target: strata of {design.by!r} have sizes {dict(counts)}, declared {sizes}"
                )
        elif design.max_size is not None and max(counts.values()) > design.max_size:
            raise TableError(
                f"target: a cluster of {design.by!r} has {max(counts.values())} records, declared "
                f"max_size {design.max_size}"
            )
    elif isinstance(design, WithoutReplacementDesign):
        drawn = target.draw is not None
        if drawn and design.pool != len(records):
            raise TableError(
                f"the population has {len(records)} records, declared pool {design.pool}"
            )
        if not drawn and design.pool < len(records):
            raise TableError(f"{len(records)} records cannot come from a pool of {design.pool}")


def _negative(target: Target, development: pd.DataFrame) -> str | None:
    if target.predicted is None or target.predicted.kind != "binary":
        return None
    return negative_label(development[target.predicted.column], target.predicted)


def split_development(
    member: Member, development: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the training and the validation part, by the registered seed."""
    blocks = member.development.blocks
    if blocks is not None:
        end = sum(blocks.training.values())
        first, second = development.iloc[:end], development.iloc[end:]
        return first.reset_index(drop=True), (
            second.reset_index(drop=True) if blocks.validation else None
        )
    part = member.development.validation
    if part is None:
        return development.reset_index(drop=True), None
    design = member.target.design
    if isinstance(design, ClusteredDesign) and design.by in development.columns:
        return _split_clusters(development, design.by, number(part.fraction), part.seed)
    classes = None
    outcome = member.target.predicted
    if part.stratify and outcome is not None and outcome.kind != "regression":
        classes = outcomes(development[outcome.column], outcome, "development")
    return split_table(development, classes, number(part.fraction), part.seed)


def _split_clusters(
    development: pd.DataFrame, by: str, fraction: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training and validation with whole clusters in either, by the registered seed."""
    labels = development[by].map(as_text)
    known = np.unique(labels.to_numpy())
    wanted = max(1, round(fraction * known.size))
    if wanted >= known.size:
        raise TableError(f"{known.size} clusters of {by!r} cannot be divided")
    chosen = np.random.default_rng(seed).choice(known, size=wanted, replace=False)
    inside = labels.isin(chosen.tolist()).to_numpy()
    first, second = development[~inside], development[inside]
    return first.reset_index(drop=True), second.reset_index(drop=True)


def _remember(
    member: Member,
    parts: _Parts,
    development: pd.DataFrame,
    lineage: LineageStore,
    audit: str,
    name: str,
) -> dict[str, float]:
    """Tell the lineage store which records have which role; return the twins to be expected."""
    import pandas as pd

    tagged = parts.development.reset_index(drop=True)
    rows = pd.DataFrame({"row": np.arange(len(tagged))})
    for column in (member.target.outcome, member.target.design_column):
        if column is not None:
            rows[column] = development[column].to_numpy()
    training, validation = split_development(member, rows)
    whole = None
    if parts.rest is not None and parts.whole is not None:
        # In the order of the file: which of two equal records is which must not depend on roles.
        identity, whole, occurrences = lineage.records(parts.whole)
        target = RecordSet(identity, whole[parts.positions], occurrences[parts.positions])
        rest = RecordSet(identity, whole[parts.rest], occurrences[parts.rest])
    else:
        target = RecordSet(*lineage.records(parts.target))
        rest = RecordSet(*lineage.records(tagged))
    expected = {}
    roles = {(member.name, "target"): target}
    for role, chosen in (("training", training), ("validation", validation)):
        if chosen is not None:
            where = chosen["row"].to_numpy()
            expected[role] = (
                len(target) * rest.twinned()
                if whole is None
                else expected_twins(whole, len(target), len(where))
            )
            roles[member.name, role] = RecordSet(
                rest.table, rest.prints[where], rest.occurrences[where]
            )
    lineage.remember(audit, name, roles)
    return expected


def _seal_losses(
    folder: AuditFolder, member: Member, index: int, data: DataFolders, holder: Holder
) -> dict[str, Any]:
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
    return {
        "index": index,
        "records": n,
        "commitment": sealed.commitment,
        "kinds": [],
        "negative": None,
        "estimand": target.estimand,
        "development": {},
        "expected_twins": {},
        "releases": list(given.releases),
        "requirements": list(given.requirements),
        "files": {name: folder.write(name, sealed.content)},
    }
