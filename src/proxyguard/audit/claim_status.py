"""The claim status of an audit: the paper's four columns, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from proxyguard.documents.ledger import (
    Amended,
    Deviated,
    Frozen,
    Opened,
    Overlap,
    Registered,
    Sealed,
)
from proxyguard.registry.declaration import Declaration
from proxyguard.seal.ledger import Ledger
from proxyguard.seal.lineage import worst_met


def claim_status(
    declaration: Declaration, ledger: Ledger, granted_again: str | None = None
) -> dict[str, str]:
    """Return evidence, lineage, registered and guarantee, in words.

    ``granted_again`` is what a steward said who granted records that were seen before.
    """
    lineage = _overlaps(ledger)
    reused = any(overlap.reused for overlap in lineage)
    prior = [m.target.prior_use for m in declaration.members if m.target.prior_use is not None]
    deviations = ledger.find(Deviated)
    amendments = len(ledger.find(Amended))
    evidence = "prospective audit of a sealed target"
    if reused or granted_again is not None:
        evidence = "same-table sensitivity: target records had a role before"
    elif prior:
        evidence = "registered audit of records that were analysed before"
    if deviations:
        evidence += f"; {len(deviations)} recorded deviations"
    reasons = lineage_reasons(declaration, lineage) + _forgotten(ledger)
    if granted_again is not None:
        reasons.append(granted_again)
    if prior:
        reasons.append(f"the declaration says: {'; '.join(prior)}")
    reasons += _late_amendments(declaration, ledger)
    reasons += [f"deviation: {entry.body.reason}" for entry in deviations]
    given = _given_elsewhere(declaration)
    if given:
        evidence = f"{given} made elsewhere; their order is not enforced here"
        reasons.append(
            f"the {given} existed before the claim was registered, so that it was not fitted to "
            "them is the author's word"
        )
    return {
        "evidence": evidence,
        "lineage": lineage_words(lineage),
        "registered": "yes"
        + (f"; amended {amendments} times before opening" if amendments else ""),
        "guarantee": "yes" if not reasons else "no: " + "; ".join(reasons),
    }


def _late_amendments(declaration: Declaration, ledger: Ledger) -> list[str]:
    """Return why amendments cost the guarantee: a mechanism's draws had been seen by then.

    So do draws that were dropped and came out otherwise when they were made again.
    """
    if declaration.claim.level == "releases":
        return []
    drawn = ledger.find(Frozen)
    amended = ledger.find(Amended)
    reasons = []
    if any(drawn and entry.index > drawn[0].index for entry in amended):
        reasons.append(
            "the claim was amended after the releases were drawn, which its author could look at"
        )
    elif any(entry.body.pending for entry in amended):
        some = max(entry.body.pending for entry in amended)
        reasons.append(
            f"the claim was amended after {some} releases were drawn, which its author could look "
            "at"
        )
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


def _overlaps(ledger: Ledger) -> list[Overlap]:
    told = [entry.body.lineage for entry in ledger.find(Sealed)]
    told += [entry.body.lineage for entry in ledger.find(Registered)]
    told += [entry.body.lineage for entry in ledger.find(Opened)]
    return worst_met(told)


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
            f"{overlap.twins} target records have the values of records in {_where(overlap)} "
            f"({overlap.columns}), {overlap.expected_twins} expected, which coincidence does not "
            f"explain{word}"
        )
    return reasons


def lineage_warnings(declaration: Declaration, lineage: Sequence[Overlap]) -> list[str]:
    """Return the same before the target is opened, when it can still be exchanged."""
    return [
        f"the certificate would say: guarantee no: {reason}"
        for reason in lineage_reasons(declaration, lineage)
    ]


def _where(overlap: Overlap) -> str:
    return f"{overlap.role} of {'this audit' if overlap.same_audit else repr(overlap.audit)}"


def lineage_words(lineage: Sequence[Overlap]) -> str:
    """Return where the target's records, or records with their values, were met."""
    parts = []
    for overlap in lineage:
        where = _where(overlap)
        if overlap.shared:
            unopened = overlap.role == "target" and not overlap.opened
            parts.append(
                f"{overlap.shared} target records were in {where}"
                + (", not opened then" if unopened else "")
            )
        elif overlap.twins:
            parts.append(
                f"{overlap.twins} target records have value twins in {where}, "
                f"{overlap.expected_twins} expected by coincidence"
            )
    return "; ".join(parts) or "the lineage store of this home knows no earlier use"
