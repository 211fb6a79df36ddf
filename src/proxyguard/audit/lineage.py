"""Were the target's records seen before, by another audit or by this one's development part?

Asked by check, seal, register, amend and open alike; a leak into the development part stops
each of them, and earlier use costs the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.audit.divide import Parts, split_development
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import Home
from proxyguard.documents.ledger import Overlap, Sealed
from proxyguard.errors import TargetReused
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.seal.fingerprint import RecordSet, Table, expected_twins
from proxyguard.seal.journal import Journal

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprinted:
    """A member's sets of records by role, and the twins to be expected within its own table."""

    roles: dict[tuple[str, str], RecordSet] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)


def fingerprint_parts(
    member: Member,
    parts: Parts,
    development: pd.DataFrame,
    table: Callable[[pd.DataFrame], Table],
) -> Fingerprinted:
    """Return which records have which role; ``development`` is the typed development part."""
    import pandas as pd

    tagged = parts.development.reset_index(drop=True)
    rows = pd.DataFrame({"row": np.arange(len(tagged))})
    for column in (member.target.outcome, member.target.design_column):
        if column is not None:
            rows[column] = development[column].to_numpy()
    training, validation = split_development(member, rows)
    if parts.rest is not None and parts.whole is not None:
        # In the order of the file: which of two equal records is which must not depend on roles.
        whole = rest = table(parts.whole)
        target, at = whole.records(parts.positions), parts.rest
    else:
        whole, rest = None, table(tagged)
        target, at = table(parts.target).records(), np.arange(len(tagged))
    roles = {(member.name, "target"): target}
    expected = {}
    for role, chosen in (("training", training), ("validation", validation)):
        if chosen is not None:
            records = rest.records(at[chosen["row"].to_numpy()])
            roles[member.name, role] = records
            if whole is not None:
                expected[role] = expected_twins(whole.prints, len(target), len(records))
    return Fingerprinted(roles=roles, expected=expected)


def refuse_leaks(declaration: Declaration, overlaps: list[Overlap]) -> None:
    """Refuse a target whose records are in this audit's own development part."""
    said = {member.name: member.target.coincidence for member in declaration.members}
    for overlap in overlaps:
        if not overlap.leaked:
            continue
        if overlap.shared:
            raise TargetReused(
                f"{overlap.shared} records of the target are also in {overlap.role} of this audit; "
                "take them out of development"
            )
        if said[overlap.member] is None:
            raise TargetReused(
                f"{overlap.twins} records of the target have the values of a {overlap.role} "
                f"record ({overlap.columns}), about {float(overlap.expected_twins):.0f} would by "
                "coincidence; take them out of development, or say in target.coincidence why they "
                "are other records, and the certificate says that its guarantee rests on that"
            )


def check_lineage(folder: AuditFolder, journal: Journal, home: Home) -> list[Overlap]:
    """Return where a sealed audit's target records were met; a leak is an error."""
    sealed = journal.ledger.sealed
    store = home.lineage
    store.confirm(sealed.audit)
    overlaps = store.overlaps(sealed.audit, _expected(sealed))
    refuse_leaks(folder.declaration(), overlaps)
    return overlaps


def knows_seal(journal: Journal, home: Home) -> bool:
    """Return whether the store still has what this audit's seal wrote into it.

    One that was deleted since, or another home's, says of every record that it is fresh.
    """
    return home.lineage.knows(journal.ledger.sealed.audit)


def _expected(sealed: Sealed) -> dict[tuple[str, str], float]:
    return {
        (name, role): float(number)
        for name, member in sealed.members.items()
        for role, number in member.expected_twins.items()
    }
