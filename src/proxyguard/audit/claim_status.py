"""The claim status of an audit: the paper's four columns, each with its reason."""

from __future__ import annotations

from typing import Any

from proxyguard.registry.declaration import Declaration
from proxyguard.seal.ledger import Ledger, Stage


def claim_status(declaration: Declaration, ledger: Ledger) -> dict[str, str]:
    """Return evidence, lineage, registered and guarantee, in words."""
    lineage = _overlaps(ledger)
    reused = [one for one in lineage if _reused(one)]
    prior = [m.target.prior_use for m in declaration.members if m.target.prior_use is not None]
    deviations = ledger.find(Stage.DEVIATED)
    amendments = len(ledger.find(Stage.AMENDED))
    evidence = "prospective audit of a sealed target"
    if reused:
        evidence = "same-table sensitivity: target records had a role before"
    elif prior:
        evidence = "registered audit of records that were analysed before"
    if deviations:
        evidence += f"; {len(deviations)} recorded deviations"
    reasons = []
    if reused:
        reasons.append("target records shaped something before this audit")
    if prior:
        reasons.append(f"the declaration says: {'; '.join(prior)}")
    reasons += [f"deviation: {entry.body['reason']}" for entry in deviations]
    return {
        "evidence": evidence,
        "lineage": _lineage_words(lineage),
        "registered": "yes"
        + (f"; amended {amendments} times before opening" if amendments else ""),
        "guarantee": "yes" if not reasons else "no: " + "; ".join(reasons),
    }


def _overlaps(ledger: Ledger) -> list[dict[str, Any]]:
    opened = ledger.find(Stage.OPENED)
    registered = ledger.find(Stage.REGISTERED)
    entry = (opened or registered)[-1]
    return [dict(one) for one in entry.body.get("lineage", [])]


def _reused(one: dict[str, Any]) -> bool:
    earlier = not one["same_audit"]
    return bool(earlier and one["shared"] > 0 and (one["role"] != "target" or one["opened"]))


def _lineage_words(lineage: list[dict[str, Any]]) -> str:
    parts = []
    for one in lineage:
        where = f"{one['role']} of {'this audit' if one['same_audit'] else repr(one['audit'])}"
        if one["shared"]:
            unopened = one["role"] == "target" and not one["opened"]
            parts.append(
                f"{one['shared']} target records were in {where}"
                + (", not opened then" if unopened else "")
            )
        elif one["twins"]:
            parts.append(
                f"{one['twins']} target records have value twins in {where}, "
                f"{one['expected_twins']} expected by coincidence"
            )
    return "; ".join(parts) or "no target record is known to have been used before"
