"""Records of audits that were never run, for pages of any size: real certificates of made losses.

Losses are random, the certificate and the e-values are computed from them as an audit does;
the frame around them (ledger, lineage, software) is the least that a report can be made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from proxyguard.certificate.certify import certify
from proxyguard.certificate.picks import picks_record
from proxyguard.evidence.record import evidence_record
from proxyguard.losses.array import LossArray
from proxyguard.losses.records import Records
from proxyguard.registry.picks import Picks
from proxyguard.registry.requirement import Requirement
from proxyguard.report.content import Sources

SEED = 20260901
LIMIT = 0.3
ENTRY = "0" * 64
THREE = {"careful": 0.20, "hasty": 0.285, "careless": 0.42}
"""Mechanisms by mean loss: one is validated, one stays open, one violates its claim."""


def synthetic_sources(
    *,
    means: Mapping[str, float] = THREE,
    R: int = 30,
    n: int = 400,
    requirements: Sequence[str] = ("error", "cost", "calibration"),
    spread: float = 0.02,
    picks: bool = True,
    name: str = "synthetic",
    purpose: str = "Does this page show what the certificate says?",
    releases: Sequence[str] | None = None,
    advice: Sequence[Mapping[str, Any]] = (),
) -> Sources:
    """Return the record of an audit of these mechanisms, the same for the same arguments."""
    claimed = tuple(Requirement(name=one, low=0.0, high=1.0, limit=LIMIT) for one in requirements)
    rng = np.random.default_rng(SEED)
    labels = list(releases) if releases is not None else [str(100 + r) for r in range(R)]
    losses = {
        mechanism: LossArray(
            _losses(rng, mean, spread, R, n, len(claimed)), Records(random_order=True), labels
        )
        for mechanism, mean in means.items()
    }
    family = certify(
        losses, claimed, reliability_target=0.8, alpha="0.05", beta="0.05", family="bounds",
        test="bentkus", seed=1,
    )  # fmt: skip
    evidence = {name: certificate.evidence for name, certificate in family.items()}
    predicate = _frame(name, purpose, list(means)) | {
        "verdicts": [certificate.to_dict() for certificate in family.values()],
        "not_claimed": list(next(iter(family.values())).to_dict()["not_claimed"]),
        "text": str(family),
    }
    if picks:
        predicate["picks"] = picks_record(Picks(alpha="0.05"), evidence, counted=False)
    return Sources(
        predicate=predicate,
        evidence={
            "groups": {m: evidence_record(e).to_dict() for m, e in evidence.items()},
            "seed": "1",
        },
        registry=_registry(claimed, list(means)),
        ledger=_ledger(),
        signer="ab" * 32,
        manifest={"members": {"target": {m: {"draws": _draws(R)} for m in means}}},
        head=ENTRY,
        advice=advice,
    )


def _losses(
    rng: np.random.Generator, mean: float, spread: float, R: int, n: int, J: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return losses in [0, 1] whose means differ a little between releases and requirements."""
    own = rng.normal(mean, spread, size=(R, 1, 1)) - 0.03 * np.arange(J)
    shape = np.clip(own, 0.01, 0.99)
    return np.asarray(rng.beta(4.0 * shape, 4.0 * (1.0 - shape), size=(R, n, J)))


def _draws(R: int) -> list[dict[str, Any]]:
    return [{"seed": 100 + r, "status": "drawn", "rows": 400} for r in range(R)]


def _frame(name: str, purpose: str, mechanisms: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "purpose": purpose,
        "level": "mechanism",
        "attestation": {
            "kind": "self-attested",
            "words": "self-attested: no second party granted the opening",
        },
        "claim_status": {
            "evidence": "registered audit",
            "guarantee": "yes",
            "lineage": "the lineage store of this home knows no earlier use",
            "registered": "yes",
        },
        "estimand": {"target": "the law of made losses"},
        "redraws": {one: ["rows of the release"] for one in mechanisms},
        "conditional_on": {one: ["the source table"] for one in mechanisms},
        "excluded": {},
        "failed": {},
        "secondary": {
            "strict": {
                "label": "not certified: computed on the same target, decides nothing",
                "limits": {"error": "0.12"},
                "results": {
                    one: {"decision": "unresolved", "lower": 0.1, "upper": 0.9}
                    for one in mechanisms
                },
            }
        },
        "software": {"python": "3.11", "numpy": "2"},
        "ledger": ENTRY,
    }


def _registry(requirements: Sequence[Requirement], mechanisms: Sequence[str]) -> dict[str, Any]:
    declared = [
        {"part": {"name": one.name}, "limit": {"rule": "as declared", "value": repr(one.limit)}}
        for one in requirements
    ]
    return {
        "declaration": {
            "claim": {"alpha": "0.05", "beta": "0.05", "reliability_target": "0.8", "mode": None,
                      "level": "mechanism", "family": "bounds", "bound": None},
            "plan": None,
            "mechanism": [{"name": one, "draws": 1} for one in mechanisms],
        },
        "members": {"target": {"requirements": declared, "mechanisms": {}}},
    }  # fmt: skip


def _ledger() -> list[dict[str, Any]]:
    bodies: dict[str, dict[str, Any]] = {
        "sealed": {"lineage": [], "members": {"target": {"records": 400}}, "files": {}},
        "developed": {"members": {}},
        "registered": {"lineage": [], "declaration": ENTRY, "path": "fixed"},
        "drawn": {"releases": ENTRY, "registry": ENTRY},
        "opened": {"lineage": [], "grant": None, "registry": ENTRY, "releases": ENTRY},
        "certified": {"files": {}},
    }
    return [
        {"stage": stage, "index": index, "previous": ENTRY,
         "body": {"time": f"2026-09-01T10:0{index}:00Z"} | body}
        for index, (stage, body) in enumerate(bodies.items())
    ]  # fmt: skip
