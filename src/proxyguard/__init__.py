"""Does work done on a substitute table hold on the real one? Answers with guarantees.

`certify` turns per-record losses of independent releases into a certificate about the
mechanism that made them; `certify_releases` validates named releases; `Audit` is the whole
sealed audit, from a declaration to a certificate that a stranger can check.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxyguard.audit.audit import Audit
    from proxyguard.audit.outcome import SealedCertificate
    from proxyguard.certificate.certify import certify, supports
    from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
    from proxyguard.certificate.releases import NamedReleases, ReleaseCertificate, certify_releases
    from proxyguard.certificate.sequential import (
        CandidateStream,
        FavorableScore,
        SequentialAudit,
        SequentialPlan,
    )
    from proxyguard.errors import (
        BrokenTable,
        BudgetOverspent,
        Busy,
        DigestMismatch,
        DiskError,
        DocumentError,
        DrawError,
        KeyExists,
        KeyMissing,
        LossError,
        LossMismatch,
        LossOutOfBounds,
        ProxyGuardError,
        RegistryError,
        SealError,
        StageError,
        StoodOpen,
        TableError,
        TargetReused,
        UnansweredDraw,
        Unprotected,
        UnsupportedDesign,
        UntrustedCode,
        VoidGrant,
    )
    from proxyguard.losses.read import LossArray, LossBatches, LossStream, Moments
    from proxyguard.losses.records import Records
    from proxyguard.modes.claim import Claim
    from proxyguard.modes.evidence import Decision
    from proxyguard.plan.law import Law, assumed_law, pilot_law
    from proxyguard.plan.question import Question
    from proxyguard.plan.recommend import recommend
    from proxyguard.registry.design import (
        Clustered,
        Iid,
        Independent,
        Stratified,
        WithoutReplacement,
    )
    from proxyguard.registry.requirement import Form, Requirement

__version__ = "0.1.0"


# Loaded when first named, so that the command line starts without what it does not use.
_HOME = {
    "Audit": "proxyguard.audit.audit",
    "BrokenTable": "proxyguard.errors",
    "BudgetOverspent": "proxyguard.errors",
    "Busy": "proxyguard.errors",
    "CandidateStream": "proxyguard.certificate.sequential",
    "Certificate": "proxyguard.certificate.mechanism",
    "Claim": "proxyguard.modes.claim",
    "Clustered": "proxyguard.registry.design",
    "Decision": "proxyguard.modes.evidence",
    "DigestMismatch": "proxyguard.errors",
    "DiskError": "proxyguard.errors",
    "DocumentError": "proxyguard.errors",
    "DrawError": "proxyguard.errors",
    "FamilyCertificate": "proxyguard.certificate.mechanism",
    "FavorableScore": "proxyguard.certificate.sequential",
    "Form": "proxyguard.registry.requirement",
    "Iid": "proxyguard.registry.design",
    "Independent": "proxyguard.registry.design",
    "KeyExists": "proxyguard.errors",
    "KeyMissing": "proxyguard.errors",
    "Law": "proxyguard.plan.law",
    "LossArray": "proxyguard.losses.read",
    "LossBatches": "proxyguard.losses.read",
    "LossError": "proxyguard.errors",
    "LossMismatch": "proxyguard.errors",
    "LossOutOfBounds": "proxyguard.errors",
    "LossStream": "proxyguard.losses.read",
    "NamedReleases": "proxyguard.certificate.releases",
    "Moments": "proxyguard.losses.read",
    "ProxyGuardError": "proxyguard.errors",
    "Question": "proxyguard.plan.question",
    "Records": "proxyguard.losses.records",
    "RegistryError": "proxyguard.errors",
    "ReleaseCertificate": "proxyguard.certificate.releases",
    "Requirement": "proxyguard.registry.requirement",
    "SealError": "proxyguard.errors",
    "SealedCertificate": "proxyguard.audit.outcome",
    "SequentialAudit": "proxyguard.certificate.sequential",
    "SequentialPlan": "proxyguard.certificate.sequential",
    "StageError": "proxyguard.errors",
    "StoodOpen": "proxyguard.errors",
    "Stratified": "proxyguard.registry.design",
    "TableError": "proxyguard.errors",
    "TargetReused": "proxyguard.errors",
    "Unprotected": "proxyguard.errors",
    "UnsupportedDesign": "proxyguard.errors",
    "UnansweredDraw": "proxyguard.errors",
    "UntrustedCode": "proxyguard.errors",
    "VoidGrant": "proxyguard.errors",
    "WithoutReplacement": "proxyguard.registry.design",
    "assumed_law": "proxyguard.plan.law",
    "certify": "proxyguard.certificate.certify",
    "certify_releases": "proxyguard.certificate.releases",
    "pilot_law": "proxyguard.plan.law",
    "recommend": "proxyguard.plan.recommend",
    "supports": "proxyguard.certificate.certify",
}

__all__ = [
    "Audit",
    "BrokenTable",
    "BudgetOverspent",
    "Busy",
    "CandidateStream",
    "Certificate",
    "Claim",
    "Clustered",
    "Decision",
    "DigestMismatch",
    "DiskError",
    "DocumentError",
    "DrawError",
    "FamilyCertificate",
    "FavorableScore",
    "Form",
    "Iid",
    "Independent",
    "KeyExists",
    "KeyMissing",
    "Law",
    "LossArray",
    "LossBatches",
    "LossError",
    "LossMismatch",
    "LossOutOfBounds",
    "LossStream",
    "Moments",
    "NamedReleases",
    "ProxyGuardError",
    "Question",
    "Records",
    "RegistryError",
    "ReleaseCertificate",
    "Requirement",
    "SealError",
    "SealedCertificate",
    "SequentialAudit",
    "SequentialPlan",
    "StageError",
    "StoodOpen",
    "Stratified",
    "TableError",
    "TargetReused",
    "UnansweredDraw",
    "Unprotected",
    "UnsupportedDesign",
    "UntrustedCode",
    "VoidGrant",
    "WithoutReplacement",
    "assumed_law",
    "certify",
    "certify_releases",
    "pilot_law",
    "recommend",
    "supports",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'proxyguard' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
