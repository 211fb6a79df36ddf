"""Records of audits that were never run, for pages of any size: real certificates of made losses.

Losses are random, the certificate and the e-values are computed from them as an audit does;
the frame around them (ledger, lineage, software) is the least that a report can be made of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from proxyguard.certificate.mechanism import certify
from proxyguard.certificate.picks import picks_record
from proxyguard.documents.certificate import (
    AdvisedSizes,
    Attestation,
    ClaimStatusRecord,
    Predicate,
    ReportAdvice,
    SecondaryBounds,
    SecondaryRecord,
)
from proxyguard.documents.evidence import AttackFigures, Diagnostics, ExposureFigures
from proxyguard.documents.ledger import (
    Certified,
    Developed,
    Frozen,
    LedgerBody,
    Opened,
    Registered,
    Schedule,
    Sealed,
    SealedMember,
)
from proxyguard.documents.registry import (
    RegisteredMember,
    Registry,
    ResolvedNumber,
    ResolvedRequirement,
)
from proxyguard.documents.releases import AnyDraw, DrawGroup, DrawnRelease, ReleaseManifest
from proxyguard.losses.read import LossArray
from proxyguard.losses.records import Records
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.parts import ClaimPart, Picks, RequirementPart
from proxyguard.registry.requirement import Requirement
from proxyguard.report.sources import Sources, sources_of
from proxyguard.seal.ledger import Entry

SEED = 20260901
LIMIT = 0.3
ENTRY = "0" * 64
STATUS = ClaimStatusRecord(
    evidence="registered audit",
    lineage="the lineage store of this home knows no earlier use",
    registered="yes",
    guarantee="yes",
)
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
    advice: Sequence[ReportAdvice] = (),
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
    base = sources_of(family)
    evidence = {name: certificate.evidence for name, certificate in family.items()}
    chosen = None
    if picks:
        chosen = picks_record(Picks(alpha="0.05"), evidence, counted=False)
    predicate = predicate_of(
        base,
        name=name,
        purpose=purpose,
        text=str(family),
        redraws=dict.fromkeys(means, ("rows of the release",)),
        conditional_on=dict.fromkeys(means, ("the source table",)),
        secondary={"strict": _secondary(list(means))},
        picks=chosen,
    )
    return replace(
        sealed_as(base, predicate),
        registry=registry_of(claimed),
        ledger=_ledger(),
        manifest=manifest_of({mechanism: _draws(R) for mechanism in means}),
        advice=advice,
    )


def exposed_sources(*, R: int = 4, target: bool = True, calibration: bool = True) -> Sources:
    """Return the record of an audit that asks of exposure too, with figures of its attacks."""
    sources = synthetic_sources(R=R)
    parts = [
        RequirementPart(name="told apart", exposure="advantage everywhere", limit="0.10",
                        attacks=("dcr", "domias")),
        RequirementPart(name="flagged", exposure="advantage", limit="0.05", attacks=("dcr",),
                        threshold={"quantile": "0.95"}),
        RequirementPart(name="few found", exposure="tpr at fpr", limit="0.10", fpr="0.01",
                        attacks=("dcr",)),
        RequirementPart(name="area", exposure="membership auc", limit="0.55", attacks=("dcr",)),
        RequirementPart(name="income", exposure="attribute inference", limit="0.05",
                        attacks=("guess",)),
    ]  # fmt: skip
    resolved = tuple(
        ResolvedRequirement.model_construct(
            part=part,
            limit=ResolvedNumber(value=str(part.limit), rule="as declared", inputs={}),
            queries=(),
        )
        for part in parts
    )
    assert sources.registry is not None
    assert sources.predicate is not None
    target_member = sources.registry.members["target"]
    member = target_member.model_copy(
        update={"requirements": (*target_member.requirements, *resolved)}
    )
    registry = sources.registry.model_copy(update={"members": {"target": member}})
    names = (("told apart: dcr", "dcr"), ("told apart: domias", "domias"), ("flagged", "dcr"),
             ("few found", "dcr"), ("area", "dcr"), ("income", "guess"))  # fmt: skip
    figures = ExposureFigures(
        releases=tuple(str(100 + r) for r in range(R)),
        open_rows="calibration" if calibration else "reference",
        levels=(0.0, 0.25, 0.5, 0.75, 1.0), rows=400 * R, copies=7, copied_members=0.0123,
        identical_members=0.02, identical_others=0.01,
        member_distances=(0.0, 0.2, 0.4, 0.9, 3.0), other_distances=(0.1, 0.3, 0.45, 0.95, 3.1),
        attacks=tuple(
            attack_figures(
                name, attack, 1 if attack == "guess" else 20, target=target, calibration=calibration
            )
            for name, attack in names
        ),
    )  # fmt: skip
    diagnostics = Diagnostics(
        label="not certified: decides nothing", unscored={},
        exposure=dict.fromkeys(("careful", "careless"), figures),
    )  # fmt: skip
    sealed, *later = sources.bodies
    assert isinstance(sealed, Sealed)
    own = SealedMember.model_construct(records=400, copies=3, development={})
    return replace(
        sealed_as(sources, sources.predicate.model_copy(update={"diagnostics": diagnostics})),
        registry=registry,
        ledger=entries(sealed.model_copy(update={"members": {"target": own}}), *later),
    )


def attack_figures(
    requirement: str, attack: str, thresholds: int, *, target: bool = True, calibration: bool = True
) -> AttackFigures:
    """Return made figures of an attack that finds a few members more than others."""
    found = tuple((k + 1) / thresholds for k in range(thresholds))
    if thresholds == 1:
        found = (0.62,)
    alarms = tuple(max(0.0, share - 0.04 * (1.0 - share)) for share in found)
    own = requirement in ("flagged", "few found")
    return AttackFigures(
        requirement=requirement, attack=attack, members=900, hits=found,
        alarms=alarms if target else None,
        alarms_least=tuple(0.9 * share for share in alarms) if target else None,
        alarms_most=tuple(min(1.0, 1.1 * share) for share in alarms) if target else None,
        open_alarms=alarms if calibration else None,
        baseline_hits=found, baseline_alarms=found if calibration else None,
        threshold_hits=0.08 if own else None,
        threshold_alarms=0.05 if own and target else None,
        member_scores=("-inf", -0.9, -0.4, -0.2, 0.0),
        open_scores=(-3.1, -0.95, -0.45, -0.3, -0.1) if calibration else None,
    )  # fmt: skip


def predicate_of(sources: Sources, **changes: Any) -> Predicate:
    """Return what a certificate with these verdicts would say."""
    said = {
        "verdicts": sources.verdicts,
        "redraws": {}, "conditional_on": {}, "draws": {}, "failed": {}, "secondary": {},
        "name": sources.name,
        "purpose": sources.purpose,
        "level": "mechanism",
        "estimand": {"target": "the law of made losses"},
        "claim_status": STATUS,
        "attestation": Attestation(
            kind="self-attested", words="self-attested: no second party granted the opening"
        ),
        "ledger": ENTRY,
        "software": {"python": "3.11", "numpy": "2"},
        "stated_not_checked": (),
        "not_claimed": sources.not_claimed,
        "excluded": {},
    }  # fmt: skip
    return Predicate(**{**said, **changes})


def sealed_as(sources: Sources, predicate: Predicate) -> Sources:
    """Return the sources of an audit that certified this predicate."""
    return replace(
        sources,
        name=predicate.name,
        purpose=predicate.purpose,
        attestation=predicate.attestation.words,
        status=predicate.claim_status,
        verdicts=predicate.verdicts,
        predicate=predicate,
        signer="ab" * 32,
        head=ENTRY,
    )


def registry_of(
    requirements: Sequence[Requirement], *, claim: ClaimPart | None = None, plan: Any = None
) -> Registry:
    """Return a registry of what a report reads of one, and nothing else."""
    resolved = tuple(
        ResolvedRequirement.model_construct(
            part=RequirementPart.model_construct(name=one.name),
            limit=ResolvedNumber(value=repr(one.limit), rule="as declared", inputs={}),
            queries=(),
        )
        for one in requirements
    )
    member = RegisteredMember.model_construct(
        stand_ins={}, requirements=resolved, mechanisms={}, source=None, procedure=None
    )
    declaration = Declaration.model_construct(
        claim=claim or ClaimPart(reliability_target="0.8", beta="0.05"), plan=plan
    )
    return Registry.model_construct(declaration=declaration, members={"target": member})


def unmarked(page: str) -> str:
    """Return a page as it is read: without the marks of the terms that it explains."""
    return re.sub(r'<button type="button" class="pg-term"[^>]*>([^<]*)</button>', r"\1", page)


def manifest_of(draws: Mapping[str, Sequence[AnyDraw]]) -> ReleaseManifest:
    """Return a manifest of these draws."""
    groups = {name: DrawGroup.model_construct(draws=tuple(own)) for name, own in draws.items()}
    return ReleaseManifest.model_construct(members={"target": groups})


def drawn(seed: int, **changes: Any) -> DrawnRelease:
    """Return a draw that gave a release."""
    said = {"status": "drawn", "seed": seed, "rows": 400, "content": None, "model": None,
            "selected": None, "guard": ""}  # fmt: skip
    return DrawnRelease.model_construct(**{**said, **changes})


def entries(*bodies: LedgerBody) -> tuple[Entry[LedgerBody], ...]:
    """Return a ledger of these steps, which nobody signed."""
    return tuple(
        Entry(index=index, signer="", body=body, previous=ENTRY)
        for index, body in enumerate(bodies)
    )


def _losses(
    rng: np.random.Generator, mean: float, spread: float, R: int, n: int, J: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return losses in [0, 1] whose means differ a little between releases and requirements."""
    own = rng.normal(mean, spread, size=(R, 1, 1)) - 0.03 * np.arange(J)
    shape = np.clip(own, 0.01, 0.99)
    return np.asarray(rng.beta(4.0 * shape, 4.0 * (1.0 - shape), size=(R, n, J)))


def _draws(R: int) -> list[DrawnRelease]:
    return [drawn(100 + r) for r in range(R)]


def _secondary(mechanisms: Sequence[str]) -> SecondaryRecord:
    return SecondaryRecord(
        label="not certified: computed on the same target, decides nothing",
        limits={"error": "0.12"},
        results={
            one: SecondaryBounds(decision="unresolved", lower=0.1, upper=0.9) for one in mechanisms
        },
    )


def _ledger() -> tuple[Entry[LedgerBody], ...]:
    times = (f"2026-09-01T10:0{index}:00Z" for index in range(6))
    return entries(
        Sealed.model_construct(
            lineage=(), members={}, files={}, software={}, steward=None, time=next(times)
        ),
        Developed(members={}, files={}, time=next(times)),
        Registered(lineage=(), declaration=ENTRY, path=Schedule.FIXED, files={}, time=next(times)),
        Frozen.model_construct(
            releases=ENTRY, registry=ENTRY, again=(), files={}, time=next(times)
        ),
        Opened.model_construct(
            lineage=(), grant=None, registry=ENTRY, releases=ENTRY, files={}, time=next(times)
        ),
        Certified(files={}, time=next(times)),
    )


def advice_of(mechanism: str, sentence: str) -> ReportAdvice:
    """Return advice in these words, without sizes."""
    sizes = dict.fromkeys(AdvisedSizes.model_fields)
    return ReportAdvice(
        mechanism=mechanism, sentence=sentence, binding="", reliability=0.9, n_here=400, R_here=30,
        **sizes,
    )  # fmt: skip
