"""The two-axis block certificate (Theorem 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log
from typing import ClassVar

import numpy as np

from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.exact.contamination import block_radius
from proxyguard.exact.rounding import Array
from proxyguard.modes import planning
from proxyguard.modes.claim import Levels, Tests, read_by
from proxyguard.modes.direct import slack_objections
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound, rescale
from proxyguard.modes.planning import (
    Asked,
    AuditNeeds,
    AuditPlan,
    Choice,
    Planned,
    Rng,
    Settings,
    Way,
)
from proxyguard.modes.smooth import iid_objections
from proxyguard.modes.violation import ScoredViolations
from proxyguard.plan.law import Law
from proxyguard.plan.targets import Targets
from proxyguard.registry import budget as budgets
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Clustered, Design
from proxyguard.registry.numbers import MOST_RECORDS, whole
from proxyguard.registry.test import ComponentTest, Requirements, block_ceiling, block_witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvidence:
    """Hard or ramped scores of every release on every block of the target."""

    n_releases: int
    n_blocks: int
    block_size: int
    mean_witness: float
    kappa: float  # kappa_m


def score_by_block(evidence: MechanismEvidence, *, block_size: int) -> BlockEvidence:
    """Return the mean witness over releases and blocks; ramped where every ramp is registered."""
    requirements = evidence.requirements
    means = [column.block_means for column in evidence.columns]
    if any(mean is None for mean in means):
        raise LossMismatch("block scores need single records, and these statistics have none")
    stacked = np.stack([mean for mean in means if mean is not None], axis=2)  # (R, B, J)
    return BlockEvidence(
        n_releases=evidence.n_releases,
        n_blocks=stacked.shape[1],
        block_size=block_size,
        mean_witness=float(block_witnesses(requirements, stacked).mean()),
        kappa=block_ceiling(requirements, block_size),
    )


def certify_block(evidence: BlockEvidence, budget: Budget) -> ReliabilityBound:
    """Lower-bound reliability by the mean witness over releases and target blocks.

    Guarantee
    ---------
    Paper Theorem 13: with probability at least ``1 - alpha`` the bound does not exceed
    the reliability, for iid targets split by a partition that was frozen beforehand.
    """
    # A draw moves the mean by at most 1/R and a block by at most 1/B, so that one step of bounded
    # differences pays for releases and target together, and nothing has to be split.
    radius = block_radius(evidence.n_releases, evidence.n_blocks, alpha=float(budget.total))
    return ReliabilityBound(
        value=rescale(max(0.0, evidence.mean_witness - radius), evidence.kappa),
        budget=budget,
        rests_on="Theorem 13",
        steps=(
            ("mean witness", evidence.mean_witness),
            ("releases", evidence.n_releases),
            ("blocks", evidence.n_blocks),
            ("radius r_{R,B}", radius),
            ("kappa_m", evidence.kappa),
        ),
    )


def block_sizes(n: int) -> list[int]:
    """Return block sizes worth trying: from a few blocks to many."""
    return sorted({int(m) for m in np.rint(np.geomspace(max(2, n // 200), max(2, n // 4), 5))})


def _read_size(value: object, name: str) -> int:
    return whole(value, name, most=MOST_RECORDS)


@dataclass(frozen=True, kw_only=True)
class Block(ScoredViolations, Planned):
    """Releases are scored on every block of a partition of the target."""

    mode: ClassVar[str] = "block"
    tested: ClassVar[bool] = False

    block_size: int | None = read_by(_read_size, None, optional=True)  # m of Theorem 13

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_size is None:
            raise RegistryError("block mode needs block_size")

    @property
    def size(self) -> int:
        """Records of a block."""
        assert self.block_size is not None  # checked above
        return self.block_size

    @property
    def reads_records(self) -> bool:
        """Whether the evidence is made of single records: block means are."""
        return True

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what Theorem 13 does not cover."""
        reasons = [
            f"{requirement.name!r} is a share, which binomial has no blocks of"
            for requirement, test in zip(requirements, tests, strict=True)
            if test is ComponentTest.BINOMIAL and requirement.indicator
        ]
        reasons += iid_objections(self.mode, design)
        if isinstance(design, Clustered):
            reasons.append("block mode partitions single records, and the design is Clustered")
        return reasons + slack_objections(design, requirements, random_size=False)

    def lower_budget(self) -> Budget:
        """Return the undivided budget."""
        return budgets.sharp_budget(self.alpha)

    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the bound of Theorem 13."""
        size = evidence.reading.block_size
        assert size is not None  # read by this claim
        return certify_block(score_by_block(evidence, block_size=size), levels.lower)

    @classmethod
    def ways(cls, question: Asked, tests: Sequence[ComponentTest | None]) -> list[Way]:
        """Return the one way, on iid records."""
        return [Way(kind=cls)] if question.iid else []

    @classmethod
    def settings(cls, way: Way, question: Asked, law: Law, n: int, releases: int) -> Settings:
        """Yield several slacks and sizes of blocks."""
        for requirements in planning.slack_settings(law):
            for size in block_sizes(n):
                yield way.plan(question, n, releases, block_size=size), requirements

    def registered(self) -> dict[str, Choice]:
        """Return the size of a block."""
        return {"block_size": self.size}

    def least_count(
        self, plan: AuditPlan, requirements: Requirements, levels: Levels
    ) -> int | None:
        """Return None: a mean over releases and blocks decides, not a count."""
        return None

    def needs(self, plan: AuditPlan, requirements: Requirements, levels: Levels) -> AuditNeeds:
        """Return whether the radius of Theorem 13 leaves room above the target."""
        releases, blocks = plan.releases, plan.n // self.size
        alpha = float(levels.lower.total)
        room = (1.0 - block_ceiling(requirements, self.size)) * (1.0 - self.target)
        # sqrt((1/R + 1/B) log(1/alpha)/2) < room, with as many blocks as there could be.
        least = floor(-log(alpha) / (2.0 * room**2)) + 1 if room > 0.0 else None
        radius = block_radius(releases, blocks, alpha=alpha) if blocks else 1.0
        obstacles = []
        if blocks == 0 or radius >= room:
            obstacles.append(
                f"{releases} releases and {blocks} blocks of {self.size} records leave a radius of "
                f"{radius:.3g} (Theorem 13), and only {room:.3g} lies between the target and 1"
            )
        return AuditNeeds(
            least_releases=least,
            obstacles=tuple(obstacles),
        )

    def chance(self, targets: Targets, plan: AuditPlan, levels: Levels, rng: Rng) -> Array:
        """Return the share of redraws whose mean witness lies far enough above the target."""
        requirements, target = targets.law.requirements, self.target
        blocks = plan.n // self.size
        none = np.zeros(targets.repetitions)
        if blocks == 0:
            return none
        # Records that fill no whole block are left over, as the certificate leaves them.
        radius = block_radius(plan.releases, blocks, alpha=float(levels.lower.total))
        if radius >= 1.0 - target:  # no witness can reach so far
            return none
        kappa = block_ceiling(requirements, self.size)
        # What `certify_block` reports, solved for the mean: (m - r - kappa)/(1 - kappa) > eta_0.
        least = target + kappa * (1.0 - target) + radius
        if least >= 1.0:  # a mean of scores in [0, 1] is never above it: nothing is to simulate
            return none
        witness = block_witnesses(requirements, targets.block_means(self.size))
        score = witness.mean(axis=1)  # (repetitions, A)
        return planning.drawn(
            targets,
            plan,
            lambda times: np.asarray((times * score).sum(axis=1) / plan.releases > least),
            rng,
        )
