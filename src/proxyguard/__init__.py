"""Does work done on a substitute table hold on the real one? Answers with guarantees.

`certify` turns per-record losses of independent releases into a certificate about the
mechanism that made them; `certify_releases` validates named releases; `Audit` is the whole
sealed audit, from a declaration to a certificate that a stranger can check.

The imports below are the list of public names, each written ``name as name``; there is no other.
numpy and scipy are enough for them. `Audit` and what it returns need the extra ``audit`` and are
loaded when they are first named.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from proxyguard.certificate.certify import certify as certify
from proxyguard.certificate.certify import supports as supports
from proxyguard.certificate.mechanism import Certificate as Certificate
from proxyguard.certificate.mechanism import FamilyCertificate as FamilyCertificate
from proxyguard.certificate.releases import NamedReleases as NamedReleases
from proxyguard.certificate.releases import ReleaseCertificate as ReleaseCertificate
from proxyguard.certificate.releases import certify_releases as certify_releases
from proxyguard.certificate.sequential import CandidateStream as CandidateStream
from proxyguard.certificate.sequential import FavorableScore as FavorableScore
from proxyguard.certificate.sequential import SequentialAudit as SequentialAudit
from proxyguard.errors import BrokenTable as BrokenTable
from proxyguard.errors import BudgetOverspent as BudgetOverspent
from proxyguard.errors import Busy as Busy
from proxyguard.errors import DigestMismatch as DigestMismatch
from proxyguard.errors import DiskError as DiskError
from proxyguard.errors import DocumentError as DocumentError
from proxyguard.errors import DrawError as DrawError
from proxyguard.errors import KeyExists as KeyExists
from proxyguard.errors import KeyMissing as KeyMissing
from proxyguard.errors import LossError as LossError
from proxyguard.errors import LossMismatch as LossMismatch
from proxyguard.errors import LossOutOfBounds as LossOutOfBounds
from proxyguard.errors import MissingExtra as MissingExtra
from proxyguard.errors import ProxyGuardError as ProxyGuardError
from proxyguard.errors import RegistryError as RegistryError
from proxyguard.errors import SealError as SealError
from proxyguard.errors import StageError as StageError
from proxyguard.errors import StoodOpen as StoodOpen
from proxyguard.errors import TableError as TableError
from proxyguard.errors import TargetReused as TargetReused
from proxyguard.errors import UnansweredDraw as UnansweredDraw
from proxyguard.errors import Unprotected as Unprotected
from proxyguard.errors import UnsupportedDesign as UnsupportedDesign
from proxyguard.errors import UntrustedCode as UntrustedCode
from proxyguard.errors import VoidGrant as VoidGrant
from proxyguard.extras import need as _need
from proxyguard.losses.read import LossArray as LossArray
from proxyguard.losses.read import LossBatches as LossBatches
from proxyguard.losses.read import LossStream as LossStream
from proxyguard.losses.read import Moments as Moments
from proxyguard.losses.records import Records as Records
from proxyguard.modes.claim import Claim as Claim
from proxyguard.modes.evidence import Decision as Decision
from proxyguard.modes.sequential import SequentialPlan as SequentialPlan
from proxyguard.plan.law import Law as Law
from proxyguard.plan.law import assumed_law as assumed_law
from proxyguard.plan.law import pilot_law as pilot_law
from proxyguard.plan.question import Question as Question
from proxyguard.plan.recommend import recommend as recommend
from proxyguard.registry.design import Clustered as Clustered
from proxyguard.registry.design import Iid as Iid
from proxyguard.registry.design import Independent as Independent
from proxyguard.registry.design import Stratified as Stratified
from proxyguard.registry.design import WithoutReplacement as WithoutReplacement
from proxyguard.registry.requirement import Form as Form
from proxyguard.registry.requirement import Requirement as Requirement

if TYPE_CHECKING:
    from proxyguard.audit.audit import Audit as Audit
    from proxyguard.audit.outcome import SealedCertificate as SealedCertificate

__version__ = "0.1.0"

_WITH_EXTRA = {
    "Audit": "proxyguard.audit.audit",
    "SealedCertificate": "proxyguard.audit.outcome",
}

# Computed, so that the imports stay the only list; type checkers read those.
__all__ = sorted(
    [name for name, kind in globals().items() if callable(kind) and name[0] != "_"]
    + list(_WITH_EXTRA)
)


def __getattr__(name: str) -> object:
    if name not in _WITH_EXTRA:
        raise AttributeError(f"module 'proxyguard' has no attribute {name!r}")
    _need(f"proxyguard.{name}")
    globals()[name] = getattr(_import_module(_WITH_EXTRA[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
