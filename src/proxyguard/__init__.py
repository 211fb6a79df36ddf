"""Does work done on a substitute table hold on the real one? Answers with guarantees.

`certify` turns per-record losses of independent releases into a certificate about the
mechanism that made them; `certify_releases` validates named releases.
"""

from proxyguard.certificate.certify import certify, supports
from proxyguard.certificate.certify_releases import Member, ReleaseCertificate, certify_releases
from proxyguard.certificate.decision import Decision
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.certificate.sequential import FavorableScore, SequentialAudit, SequentialPlan
from proxyguard.certificate.stream import CandidateStream
from proxyguard.errors import (
    BudgetOverspent,
    LossError,
    LossMismatch,
    LossOutOfBounds,
    ProxyGuardError,
    RegistryError,
    TargetReused,
    UnsupportedDesign,
)
from proxyguard.losses.array import LossArray, LossBatches, LossStream, Moments
from proxyguard.losses.records import Records
from proxyguard.registry.claim import Claim
from proxyguard.registry.design import Clustered, Iid, Independent, Stratified, WithoutReplacement
from proxyguard.registry.requirement import Form, Requirement

__version__ = "0.1.0"

__all__ = [
    "BudgetOverspent",
    "CandidateStream",
    "Certificate",
    "Claim",
    "Clustered",
    "Decision",
    "FamilyCertificate",
    "FavorableScore",
    "Form",
    "Iid",
    "Independent",
    "LossArray",
    "LossBatches",
    "LossError",
    "LossMismatch",
    "LossOutOfBounds",
    "LossStream",
    "Member",
    "Moments",
    "ProxyGuardError",
    "Records",
    "RegistryError",
    "ReleaseCertificate",
    "Requirement",
    "SequentialAudit",
    "SequentialPlan",
    "Stratified",
    "TargetReused",
    "UnsupportedDesign",
    "WithoutReplacement",
    "certify",
    "certify_releases",
    "supports",
]
