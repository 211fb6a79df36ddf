"""Which rows are the target, which are development, and where the target's records were before.

`divide` takes the rows of target and development by position, `split_development` divides the
latter by what its rows are for, and `fingerprint_parts` says whose records are whose. Whether
the target's records were seen before, by another audit or by this one's development part, is
asked by check, seal, register, amend and open alike (`check_lineage`): a leak into the development
part stops each of them, and earlier use costs the guarantee. `claim_status` is what a certificate
says of all this: the paper's four columns, each with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.library import split_table
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import DataFolders, Home
from proxyguard.documents.certificate import ClaimStatusRecord
from proxyguard.documents.ledger import (
    Amended,
    DevelopmentRole,
    Deviated,
    Frozen,
    Opened,
    Overlap,
    Registered,
    Sealed,
)
from proxyguard.draw.protocol import outcomes
from proxyguard.errors import TableError, TargetReused
from proxyguard.printable import did_you_mean, found, nearest, some
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.fields import number
from proxyguard.registry.numbers import is_written_number
from proxyguard.registry.parts import Development
from proxyguard.registry.target import ClusteredDesign, StratifiedDesign, Target
from proxyguard.seal.fingerprint import (
    OPEN,
    RecordSet,
    TablePrints,
    canonical_value,
    expected_twins,
)
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Ledger
from proxyguard.seal.lineage import worst_met
from proxyguard.tables.columns import as_labels, as_text, have_value
from proxyguard.tables.files import SHOWN, Positions, RawTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A target and the development part beside it, as they stand in their files."""

    target: pd.DataFrame
    """The target's records, unread."""
    positions: Positions
    """Of these rows in their file."""
    development: pd.DataFrame
    """The development part; in blocks, training before validation."""
    rest: Positions | None = None
    """Of the development rows, where both come from one table."""
    whole: pd.DataFrame | None = None
    """That table, unused rows included."""
    unlabelled: int = 0
    """Rows that would be the target's and have no outcome, where such are left out."""
    gaps: float = 0.0
    """Share of the development rows that have no outcome, and are left out."""
    surveyed: Mapping[str, int] = field(default_factory=dict)
    """Clusters of each stratum that are in these files, of the survey that the target is part of;
    where strata count by what it sampled."""


def divide(member: Member, data: DataFolders) -> Division:
    """Return the target and the development part of a member, by position in their files.

    Parameters
    ----------
    member
        The declared member; its losses are not given.
    data
        Where its tables lie.

    Raises
    ------
    TableError
        A table or a column is missing, or has fewer rows than are to be set aside.
    """
    target = member.target
    if target.table is not None:
        raw = RawTable(data.find(target.table), target.read)
        _refuse_seen(target, raw)
        check_columns(member, raw.columns)
        if member.development.blocks is None:
            chosen = reserve_rows(raw, target)
            every = np.setdiff1d(np.arange(len(raw)), chosen)
            rest = _known(raw, target, every)
        else:
            training, validation, chosen = block_rows(raw, member)
            every = rest = np.concatenate([training, validation])
        whole = raw.take()
        kept = _claimed(raw, target, chosen)
        lost = len(chosen) - len(kept)
        gaps = 1.0 - len(rest) / max(len(every), 1)
        return Division(
            raw.take(kept), kept, raw.take(rest), rest, whole, lost, gaps, _surveyed(target, [raw])
        )
    raw = RawTable(data.find(str(target.file or target.population)), target.read)
    _refuse_seen(target, raw)
    everything = np.arange(len(raw))
    source = RawTable(data.find(str(member.development.table)), target.read)
    check_columns(member, source.columns)
    missing = set(source.columns) - set(raw.columns)
    if missing:
        raise TableError(
            f"the target lacks the columns {sorted(missing)} of {member.development.table!r}"
        )
    development = source.take(_known(source, target, np.arange(len(source))))
    kept = _claimed(raw, target, everything)
    same = [source] if member.development.survey == "the target's" else []
    # Columns that development lacks are dropped: nothing that is learned there could use them.
    return Division(
        raw.take(kept)[source.columns], kept, development, unlabelled=len(raw) - len(kept),
        gaps=1.0 - len(development) / max(len(source), 1),
        surveyed=_surveyed(target, [raw, *same]),
    )  # fmt: skip


def _refuse_seen(target: Target, raw: RawTable) -> None:
    """Refuse a table that the declaration says was looked at, in whatever home and order."""
    if not target.seen:
        return
    identity = TablePrints(raw.take(np.arange(len(raw))), OPEN).identity
    for name in (name for name, digest in target.seen.items() if digest == identity):
        raise TargetReused(
            f"{target.files[0]!r} has the records of {name!r}, which were looked at before this "
            "audit: give records that nobody has looked at"
        )


def _surveyed(target: Target, files: Sequence[RawTable]) -> dict[str, int]:
    """Return how many clusters of each stratum the files of one survey have.

    Of all rows, those without an outcome too: what was sampled was sampled.
    """
    design = target.design
    if not isinstance(design, StratifiedDesign) or design.clusters is None or not design.by_sample:
        return {}
    clusters: set[tuple[str, str]] = set()
    for raw in files:
        strata = _labels_of(raw, design.by).tolist()
        clusters |= set(zip(strata, _labels_of(raw, design.clusters.by).tolist(), strict=True))
    return dict(Counter(stratum for stratum, _ in clusters))


def _claimed(raw: RawTable, target: Target, rows: Positions) -> Positions:
    """Return the rows, of those for the target, that the claim is about."""
    return rows if target.labelled is None else _known(raw, target, rows)


def _known(raw: RawTable, target: Target, rows: Positions) -> Positions:
    """Return the rows with an outcome, where one may be missing.

    Nobody learns from a row without an outcome, and development may be any rows.
    """
    if target.outcome is None or target.missing_outcomes == "refuse":
        return rows
    texts = np.array(raw.column(target.outcome), dtype=object)[rows]
    return np.asarray(rows[have_value(texts, target.read.missing)])


def check_columns(member: Member, columns: list[str]) -> None:
    """See that every column that the declaration names is there."""
    target = member.target
    named = {target.outcome, *target.design_columns, *member.excluded, *member.columns}
    for requirement in member.requirement:
        named |= set(requirement.group or ())
        if requirement.query is not None:
            named |= requirement.query.columns
        for attack in requirement.attacks or ():
            named |= member.attacking.settings(attack).columns
    missing = sorted(str(name) for name in named - {None} if name not in columns)
    if missing:
        raise TableError(_missing_columns(missing, columns, target.read.separator))


def _missing_columns(missing: list[str], columns: list[str], separator: str) -> str:
    """Say which columns the table lacks, and why that may be."""
    said = f"the table has no column {', '.join(map(found, missing))}, which the declaration names"
    others = [sign for sign in (",", ";", "\t", "|") if sign != separator]
    between = next((sign for sign in others if len(columns) == 1 and sign in columns[0]), None)
    if between is not None:
        written = "\\t" if between == "\t" else between
        return (
            f"{said}; values seem to be separated by {'tabs' if between == chr(9) else between}: "
            f'write read = {{ separator = "{written}" }} under [target]'
        )
    # A line of values in the place of names may be a record, which no message repeats.
    if any(is_written_number(name) or not name for name in columns):
        return (
            f"{said}; its first line has numbers or nothing in the place of names: if it is a "
            "record, write read = { header = false, columns = [...] } under [target]"
        )
    near = [did_you_mean(name, columns) for name in missing if nearest(name, columns)]
    return f"{said}; it has {some([*map(found, columns)], SHOWN)}{''.join(near)}"


def _labels_of(raw: RawTable, by: str) -> NDArray[np.str_]:
    """Return the stratum or cluster of every row, compared by value."""
    return np.array(as_labels(raw.column(by)))


def reserve_rows(raw: RawTable, target: Target) -> Positions:
    """Return the row positions set aside, drawn before any outcome is parsed.

    Fixed-size strata and clusters read their own column, and nothing else.
    """
    assert target.reserve is not None  # the caller has a table with a reserve
    rng = np.random.default_rng(target.reserve.seed)
    if isinstance(target.design, ClusteredDesign):
        return _reserve_clusters(raw, target.design.by, int(target.reserve.clusters or 0), rng)
    if not isinstance(target.design, StratifiedDesign):
        rows = target.reserve.rows or 0
        if rows >= len(raw):
            raise TableError(
                f"{rows:,} rows are to be reserved, and {target.table!r} has {len(raw):,}; reserve "
                "fewer, so that some are left to develop on"
            )
        # In the order of the file: the order in which tests read is drawn by the seal, from entropy
        # that nobody registers.
        return np.sort(rng.choice(len(raw), size=rows, replace=False)).astype(np.int64)
    labels = _labels_of(raw, target.design.by)
    if target.design.clusters is not None:
        return _reserve_by_stratum(raw, labels, target.design, target.design.clusters.by, rng)
    chosen = []
    for stratum, size in target.design.sizes.items():
        inside = np.flatnonzero(labels == canonical_value(stratum))
        # One record at least stays: development would otherwise know nothing of the stratum.
        if inside.size <= size:
            raise TableError(
                f"stratum {stratum!r} of {target.design.by!r} is to give {size} records and has "
                f"{inside.size}"
            )
        # Within each stratum: sizes are fixed, so that weights are known before anything is read.
        chosen.append(rng.choice(inside, size=size, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def block_rows(raw: RawTable, member: Member) -> tuple[Positions, Positions, Positions]:
    """Return the row positions of training, validation and target, dealt out by stratum."""
    target, blocks, design = member.target, member.development.blocks, member.target.design
    assert blocks is not None  # the declaration was checked
    assert target.reserve is not None
    assert isinstance(design, StratifiedDesign)
    rng = np.random.default_rng(target.reserve.seed)
    labels = _labels_of(raw, design.by)
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
        for rows, begin, end in zip(dealt, (0, *ends), ends, strict=False):
            rows.append(np.sort(inside[begin:end]))
    training, validation, chosen = (np.concatenate(rows).astype(np.int64) for rows in dealt)
    return training, validation, np.sort(chosen)


def _reserve_clusters(raw: RawTable, by: str, wanted: int, rng: np.random.Generator) -> Positions:
    """Return the rows of whole clusters: a cluster on both sides would tell its own outcome."""
    labels = _labels_of(raw, by)
    # Sorted, so that the seed chooses the same clusters in whatever order the rows stand.
    known = np.unique(labels)
    if wanted >= known.size:
        raise TableError(f"{wanted} clusters are to be reserved, and {by!r} has {known.size}")
    return np.flatnonzero(np.isin(labels, rng.choice(known, size=wanted, replace=False)))


def _reserve_by_stratum(
    raw: RawTable, strata: NDArray[np.str_], design: StratifiedDesign, by: str,
    rng: np.random.Generator,
) -> Positions:  # fmt: skip
    """Return the rows of whole clusters, as many of each stratum as its size says."""
    clusters = _labels_of(raw, by)
    nameless = np.flatnonzero((strata == "") | (clusters == ""))
    if nameless.size:
        raise TableError(
            f"row {nameless[0] + 1} has no {design.by!r} or no {by!r}, and {nameless.size:,} rows "
            "in all: a record whose cluster is not known may depend on those of any other; label "
            "it or take it out of the table"
        )
    _, first = np.unique(clusters, return_index=True)
    home = dict(zip(clusters[first].tolist(), strata[first].tolist(), strict=True))
    torn = np.flatnonzero(strata != np.array([home[cluster] for cluster in clusters.tolist()]))
    if torn.size:
        raise TableError(
            f"row {torn[0] + 1} is in another stratum of {design.by!r} than the first row of its "
            f"cluster of {by!r}; clusters are sampled within a stratum, so name those of different "
            "strata differently"
        )
    chosen = []
    # Sorted, as are the clusters: neither the order of rows nor that of the sizes changes them.
    for stratum, size in sorted(design.sizes.items()):
        known = np.unique(clusters[strata == canonical_value(stratum)])
        # One at least stays, as of records.
        if known.size <= size:
            raise TableError(
                f"stratum {stratum!r} of {design.by!r} is to give {size} clusters of {by!r} and "
                f"has {known.size}; one at least stays in development"
                + ("" if known.size else ", and a stratum is named as the column writes it")
            )
        chosen.append(rng.choice(known, size=size, replace=False))
    return np.flatnonzero(np.isin(clusters, np.concatenate(chosen)))


def split_development(
    member: Member, development: pd.DataFrame
) -> dict[DevelopmentRole, pd.DataFrame]:
    """Return the parts of development by what they are for, by the registered seeds.

    Parameters
    ----------
    member
        The declared member.
    development
        The rows of its development part, with at least the outcome and the design's column.

    Returns
    -------
    dict
        Training first, and then whatever rows are set aside for.

    Raises
    ------
    TableError
        There are too few rows for every part to have some.
    """
    training, validation = _choosing_apart(member, development)
    parts: dict[DevelopmentRole, pd.DataFrame] = {"training": training}
    if validation is not None:
        parts["validation"] = validation
    held = held_out_sizes(member.development, len(development))
    if not held:
        return parts
    wanted, left = sum(held.values()), len(training)
    if min(held.values()) == 0 or wanted >= left:
        raise TableError(
            f"{len(development)} development rows are too few for the shares of [development]: "
            f"{', '.join(f'{size} {role}' for role, size in held.items())} and {left - wanted} "
            "members; every part needs some"
        )
    # At random and not by outcome: members are to be like the target, which is sampled so.
    order = np.random.default_rng(member.development.split_seed).permutation(left)
    taken = 0
    for role, size in held.items():
        parts[role] = _rows_at(training, order[taken : taken + size])
        taken += size
    parts["training"] = _rows_at(training, order[taken:])
    return parts


def held_out_sizes(declared: Development, rows: int) -> dict[DevelopmentRole, int]:
    """Return how many of so many development rows attacks compare with, rounded down, by role."""
    shares: dict[DevelopmentRole, str | None] = {
        "reference": declared.reference,
        "calibration": declared.calibration,
    }
    return {
        role: int(Fraction(share) * rows) for role, share in shares.items() if share is not None
    }


def _rows_at(table: pd.DataFrame, places: Positions) -> pd.DataFrame:
    return table.iloc[np.sort(places)].reset_index(drop=True)


def _choosing_apart(
    member: Member, development: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return development without and with the rows that choose, where some are set aside."""
    blocks, validation = member.development.blocks, member.development.validation
    if blocks is not None:
        end = sum(blocks.training.values())
        first, second = development.iloc[:end], development.iloc[end:]
        return first.reset_index(drop=True), (
            second.reset_index(drop=True) if blocks.validation else None
        )
    if validation is None:
        return development.reset_index(drop=True), None
    clusters, fraction = member.target.clusters, number(validation.fraction)
    if clusters is not None and clusters.by in development.columns:
        return _split_clusters(development, clusters.by, fraction, validation.seed)
    classes = None
    outcome = member.target.predicted
    if validation.stratify and outcome is not None and outcome.kind != "regression":
        classes = outcomes(development[outcome.column], outcome, "development")
    return split_table(development, classes, fraction, validation.seed)


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


# Column of the rows that are divided in place of their records.
ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprinted:
    """A member's sets of records, as the lineage store keeps and compares them."""

    roles: dict[tuple[str, str], RecordSet] = field(default_factory=dict)
    """By member and role: target, and the parts of development."""
    expected: dict[str, float] = field(default_factory=dict)
    """Value twins of the target that coincidence explains, by role, within its own table."""


def fingerprint_parts(
    member: Member,
    division: Division,
    development: pd.DataFrame,
    table: Callable[[pd.DataFrame], TablePrints],
) -> Fingerprinted:
    """Return which records have which role.

    Parameters
    ----------
    member
        The declared member.
    division
        Its target and development part, as they stand in their files.
    development
        The typed development part, whose outcomes decide who is training and who validation.
    table
        What fingerprints records, by the key of a lineage store.
    """
    import pandas as pd

    tagged = division.development.reset_index(drop=True)
    rows = pd.DataFrame({ROW: np.arange(len(tagged))})
    for column in (member.target.outcome, *member.target.design_columns):
        if column is not None:
            rows[column] = development[column].to_numpy()
    if division.rest is not None and division.whole is not None:
        # In the order of the file: which of two equal records is which must not depend on roles.
        whole = rest = table(division.whole)
        target, at = whole.records(division.positions), division.rest
    else:
        whole, rest = None, table(tagged)
        target, at = table(division.target).records(), np.arange(len(tagged))
    roles = {(member.name, "target"): target}
    expected: dict[str, float] = {}
    for role, chosen in split_development(member, rows).items():
        records = rest.records(at[chosen[ROW].to_numpy()])
        roles[member.name, role] = records
        # How often values repeat by coincidence is known of one table, divided at random.
        if whole is not None:
            expected[role] = expected_twins(whole.prints, len(target), len(records))
    return Fingerprinted(roles=roles, expected=expected)


def refuse_leaks(declaration: Declaration, overlaps: list[Overlap]) -> None:
    """Refuse a target whose records are in this audit's own development part.

    Raises
    ------
    TargetReused
        The same records are, or more value twins than coincidence explains and the declaration
        does not say why they are others.
    """
    said = {member.name: member.target.coincidence for member in declaration.members}
    for overlap in overlaps:
        if not overlap.leaked:
            continue
        # No sentence excuses these: they are the same records, not others with their values.
        if overlap.shared:
            raise TargetReused(
                f"{overlap.shared} records of the target are also in {overlap.role} of this audit; "
                "take them out of development"
            )
        if said[overlap.member] is None:
            raise TargetReused(
                f"{overlap.twins} records of the target have the values of a {overlap.role} "
                f"record ({overlap.columns}), where two parts of one table would have about "
                f"{float(overlap.expected_twins):.0f}; take them out of development, or say in "
                "target.coincidence why they are other records, and the certificate says that its "
                "guarantee rests on that"
            )


def check_lineage(folder: AuditFolder, journal: Journal, home: Home) -> list[Overlap]:
    """Return where a sealed audit's target records were met; a leak is an error.

    Raises
    ------
    TargetReused
        They are in this audit's own development part.
    """
    sealed = journal.ledger.sealed
    store = home.lineage
    # A kill between ledger and store left the seal unconfirmed; the ledger says that it was made.
    store.confirm(sealed.audit)
    expected = {
        (name, role): float(twins)
        for name, member in sealed.members.items()
        for role, twins in member.expected_twins.items()
    }
    overlaps = store.overlaps(sealed.audit, expected)
    refuse_leaks(folder.declaration(), overlaps)
    return overlaps


def knows_seal(journal: Journal, home: Home) -> bool:
    """Return whether the store still has what this audit's seal wrote into it.

    One that was deleted since, or another home's, says of every record that it is fresh.
    """
    return home.lineage.knows(journal.ledger.sealed.audit)


def claim_status(
    declaration: Declaration, ledger: Ledger, granted_again: str | None = None
) -> ClaimStatusRecord:
    """Return evidence, lineage, registered and guarantee, in words.

    Parameters
    ----------
    declaration
        The declaration in force.
    ledger
        The ledger up to the certificate.
    granted_again
        What a steward said who granted records that were seen before.
    """
    told = [entry.body.lineage for entry in ledger.find(Sealed)]
    told += [entry.body.lineage for entry in ledger.find(Registered)]
    told += [entry.body.lineage for entry in ledger.find(Opened)]
    # The worst answer counts: a store that was exchanged between two steps knows less.
    lineage = worst_met(told)
    reused = any(overlap.reused for overlap in lineage)
    prior = [m.target.prior_use for m in declaration.members if m.target.prior_use is not None]
    deviations = ledger.find(Deviated)
    given = _given_elsewhere(declaration)
    amendments = len(ledger.find(Amended))
    evidence = "prospective audit of a sealed target"
    if reused or granted_again is not None:
        evidence = "same-table sensitivity: target records had a role before"
    elif prior:
        evidence = "registered audit of records that were analysed before"
    if deviations:
        evidence += f"; {len(deviations)} recorded deviations"
    # All of them: a reader who can excuse the first must see the others.
    reasons = lineage_reasons(declaration, lineage) + _forgotten(ledger)
    if granted_again is not None:
        reasons.append(granted_again)
    reasons += guarantee_reasons(declaration, ledger)
    if given:
        evidence = f"{given} made elsewhere; their order is not enforced here"
    changed = f"; amended {amendments} times before opening" if amendments else ""
    return ClaimStatusRecord(
        evidence=evidence,
        lineage=lineage_words(lineage, declaration.name),
        registered=f"yes{changed}",
        guarantee="yes" if not reasons else "no: " + "; ".join(reasons),
    )


def guarantee_reasons(declaration: Declaration, ledger: Ledger) -> list[str]:
    """Return why a certificate has no guarantee, besides what its records met before.

    Known from the declaration and what was recorded so far, so that `check` can tell it too.
    """
    prior = [m.target.prior_use for m in declaration.members if m.target.prior_use is not None]
    reasons = [f"the declaration says: {'; '.join(prior)}"] if prior else []
    reasons += [
        f"a trial and no audit: order and uniforms follow from the seed {entry.body.trial}, which "
        "its author chose"
        for entry in ledger.find(Sealed)
        if entry.body.trial is not None
    ]
    reasons += _late_amendments(declaration, ledger)
    reasons += [f"deviation: {entry.body.reason}" for entry in ledger.find(Deviated)]
    given = _given_elsewhere(declaration)
    if given:
        reasons.append(
            f"the {given} existed before the claim was registered, so that it was not fitted to "
            "them is the author's word"
        )
    return reasons


def _late_amendments(declaration: Declaration, ledger: Ledger) -> list[str]:
    """Return why amendments cost the guarantee: a mechanism's draws had been seen by then.

    So do draws that were dropped and came out otherwise when they were made again.
    """
    # A claim about named releases rests on the target alone, which nobody has looked at yet.
    if declaration.claim.level == "releases":
        return []
    drawn = ledger.find(Frozen)
    amended = ledger.find(Amended)
    reasons = []
    if any(drawn and entry.index > drawn[0].index for entry in amended):
        reasons.append(
            "the claim was amended after the releases were drawn, which its author could look at"
        )
    # Draws that waited could be looked at too, though nothing was frozen.
    elif any(entry.body.pending for entry in amended):
        some = max(entry.body.pending for entry in amended)
        reasons.append(
            f"the claim was amended after {some} releases were drawn, which its author could look "
            "at"
        )
    # What came out the same again left nothing to choose between.
    others = [
        f"{draw.mechanism}:{draw.seed}"
        for entry in drawn
        for draw in entry.body.again
        if not draw.same
    ]
    if others:
        reasons.append(f"draws were made again and came out otherwise: {', '.join(others)}")
    return reasons


def _given_elsewhere(declaration: Declaration) -> str | None:
    """Return what the author brought along instead of having it computed here."""
    if any(m.target.losses is not None for m in declaration.members):
        return "losses"
    generators = {g.generator for m in declaration.members for g in m.mechanism}
    return "predictions" if "predictions" in generators else None


def _forgotten(ledger: Ledger) -> list[str]:
    """Return why a store that lost this audit's own seal costs the guarantee."""
    if all(entry.body.seal_known for entry in ledger.find(Opened)):
        return []
    return [
        "the lineage store at the opening did not know this audit's own seal, so whatever else it "
        "knew of these records was lost too"
    ]


def lineage_reasons(declaration: Declaration, lineage: Sequence[Overlap]) -> list[str]:
    """Return why what the target's records met costs the guarantee."""
    reasons = []
    if any(overlap.reused and overlap.shared for overlap in lineage):
        reasons.append("target records shaped something before this audit")
    said = {member.name: member.target.coincidence for member in declaration.members}
    for overlap in lineage:
        if not overlap.excess or not (overlap.reused or overlap.leaked):
            continue
        word = f"; the declaration says: {said.get(overlap.member)}" if overlap.leaked else ""
        reasons.append(
            f"{overlap.twins} target records have the values of records in "
            f"{_where(overlap, declaration.name)} ({overlap.columns}), {overlap.expected_twins} "
            f"expected, which coincidence does not explain{word}"
        )
    return reasons


def lineage_warnings(declaration: Declaration, lineage: Sequence[Overlap]) -> list[str]:
    """Return the same before the target is opened, when it can still be exchanged."""
    return [
        f"the certificate would say: guarantee no: {reason}"
        for reason in lineage_reasons(declaration, lineage)
    ]


def _where(overlap: Overlap, name: str) -> str:
    """Return where records were met by an audit of this name, which others may have too."""
    if overlap.same_audit:
        return f"{overlap.role} of this audit"
    other = "another folder called " if overlap.audit == name else ""
    return f"{overlap.role} of {other}{overlap.audit!r}"


def lineage_words(lineage: Sequence[Overlap], name: str) -> str:
    """Return where the target's records, or records with their values, were met by an audit."""
    words = []
    for overlap in lineage:
        where = _where(overlap, name)
        if overlap.shared:
            unopened = overlap.role == "target" and not overlap.opened
            words.append(
                f"{overlap.shared} target records were in {where}"
                + (", not opened then" if unopened else "")
            )
        elif overlap.twins:
            words.append(
                f"{overlap.twins} target records have value twins in {where}, "
                f"{overlap.expected_twins} expected from how often values repeat"
            )
    return "; ".join(words) or "the lineage store of this home knows no earlier use"
