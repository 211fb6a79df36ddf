"""What was certified from losses in memory, as the record that a report is built from.

There is no ledger, no seal and no draw on record; the report says so where a sealed audit
would show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from proxyguard.certificate import wording
from proxyguard.certificate.certify_releases import ReleaseCertificate
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.evidence.record import evidence_record
from proxyguard.report.content import Sources


@singledispatch
def sources_of(value: object) -> Sources:
    """Return the record that a certificate amounts to, without seal, ledger and draws."""
    raise TypeError(f"{type(value).__name__} has no page of its own")


@sources_of.register
def _(value: Certificate) -> Sources:
    return _sources({value.mechanism: value})


@sources_of.register
def _(value: FamilyCertificate) -> Sources:
    return _sources(value)


@sources_of.register
def _(value: ReleaseCertificate) -> Sources:
    whole: dict[str, Any] = value.to_dict()
    del whole["verdicts"]
    verdicts = [
        {
            **verdict.to_dict(),
            "mechanism": verdict.name,
            "sentence": wording.release_sentence(
                verdict.to_dict(), alpha=whole["alpha"], beta=whole["beta"]
            ),
        }
        for verdict in value.verdicts
    ]
    groups = {name: evidence_record(one).to_dict() for name, one in value.evidence.items()}
    claim = {"alpha": whole["alpha"], "beta": whole["beta"]}
    predicate = {"verdicts": verdicts, "family": whole, "not_claimed": whole["not_claimed"]}
    return _framed("Named releases", predicate, groups, claim)


def _sources(family: Mapping[str, Certificate]) -> Sources:
    certificates = list(family.values())
    claim = certificates[0].claim
    groups = {name: evidence_record(one.evidence).to_dict() for name, one in family.items()}
    predicate = {
        "verdicts": [one.to_dict() for one in certificates],
        "not_claimed": list(wording.not_claimed(certificates[0].evidence.requirements)),
    }
    levels = {
        "alpha": str(claim.alpha),
        "beta": None if claim.beta is None else str(claim.beta),
        "pooled_violations": claim.choices().get("pooled_violations"),
    }
    name = certificates[0].mechanism if len(certificates) == 1 else "Family of mechanisms"
    return _framed(name, predicate, groups, levels)


def _framed(
    name: str,
    predicate: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Any]],
    claim: Mapping[str, Any],
) -> Sources:
    """Return the record with what a sealed audit would say of itself, said of this one."""
    limits = {
        "requirements": [
            {"part": {"name": requirement}, "limit": {"rule": "as given", "value": limit}}
            for requirement, limit in _limits(groups)
        ]
    }
    frame = {
        "name": name,
        "purpose": "Certified from losses in memory.",
        "attestation": {"kind": "asserted", "words": wording.ASSERTED},
        "claim_status": {
            "evidence": "losses given by the caller",
            "lineage": "not known here",
            "registered": "no",
            "guarantee": "as far as what the caller asserts is so",
        },
        "estimand": {},
        "software": {},
    }
    return Sources(
        predicate={**frame, **predicate},
        evidence={"groups": dict(groups)},
        registry={
            "declaration": {"claim": dict(claim), "plan": None},
            "members": dict.fromkeys([*groups, "all"], limits),
        },
        ledger=(),
        signer="",
    )


def _limits(groups: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for group in groups.values():
        found |= dict(zip(group["requirements"], group["limits"], strict=True))
    return list(found.items())
