"""Candidates proposed one after the other, each on a fresh batch (Proposition 19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from proxyguard.certificate import wording
from proxyguard.errors import LossMismatch, TargetReused, UnsupportedDesign
from proxyguard.evidence.releases import gather_evidence
from proxyguard.exact.multiplicity import spending_level
from proxyguard.losses.array import LossArray, as_array
from proxyguard.losses.cell import Reading
from proxyguard.losses.records import Records, check_labels
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.modes.decision import Decision
from proxyguard.pages import fragment_of
from proxyguard.registry.design import Design, WithoutReplacement, as_design
from proxyguard.registry.numbers import Level, as_seed, exact
from proxyguard.registry.requirement import Requirement, as_requirements
from proxyguard.registry.test import ComponentTest

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The verdict on the candidate of one round."""

    number: int
    decision: Decision  # validated or unresolved; the stream has no violation direction
    pvalue: float
    level: float  # 6 alpha / (pi^2 t^2)
    rests_on: str = "Proposition 19"


class CandidateStream:
    """An open-ended search that may look at every earlier verdict.

    Guarantee
    ---------
    Paper Proposition 19: the chance that an invalid candidate is ever validated is at
    most ``alpha``, however each candidate depends on earlier rounds, because every round
    is judged on records that no earlier round has seen. A record that comes back is
    refused.
    """

    def __init__(
        self,
        requirements: Sequence[Requirement],
        *,
        alpha: Level = "0.05",
        design: Design | None = None,
        test: ComponentTest | str | None = None,
        seed: int | None = None,
    ) -> None:
        self._claim = Claim.of(
            {"mode": NO_MECHANISM, "alpha": exact(alpha), "beta": None, "test": test}
        )
        self._requirements = as_requirements(requirements)
        self._design = as_design(design)
        if isinstance(self._design, WithoutReplacement):
            raise UnsupportedDesign(
                "each round of a stream needs an independent batch; batches drawn one after the "
                "other from one pool without replacement are not independent"
            )
        self._claim.require_support(self._design, self._requirements)
        self._seed = as_seed(seed)
        self._used: set[tuple[str, str]] = set()  # what the rounds so far were judged on
        self._rounds: list[Round] = []

    @property
    def seed(self) -> int:
        """The seed behind the random orders and uniforms of all rounds."""
        return self._seed

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The verdicts so far."""
        return tuple(self._rounds)

    def __str__(self) -> str:
        return wording.stream_text(self)

    def _repr_html_(self) -> str:
        return fragment_of(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return all rounds as plain values, ready for JSON."""
        return {
            "alpha": str(self._claim.alpha),
            "rests_on": "Proposition 19",
            "seed": self._seed,
            "basis": wording.ASSERTED,
            "rounds": [
                {
                    "number": r.number,
                    "decision": r.decision.value,
                    "pvalue": r.pvalue,
                    "level": r.level,
                }
                for r in self._rounds
            ],
        }

    @property
    def alpha(self) -> Fraction:
        """The error budget of the whole stream."""
        return self._claim.alpha

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What every candidate must satisfy."""
        return self._requirements

    def submit(self, losses: ArrayLike, records: Records) -> Round:
        """Judge the next candidate by its losses, (records, requirements), on a fresh batch."""
        if not isinstance(records, Records):
            raise LossMismatch(f"a round needs Records with the ids of its batch, got {records!r}")
        values = as_array(losses)
        array = LossArray(values[None] if values.ndim == 2 else values, records)
        if array.shape[0] != 1:
            raise LossMismatch(f"one candidate a round, got {array.shape[0]}")
        check_labels(records, self._design)
        if records.ids is None:
            raise LossMismatch("a stream needs records.ids, to see that every batch is fresh")
        # Records of one cluster depend on each other: the cluster is what must be fresh.
        batch = {("record", label) for label in records.texts("ids")} | {
            ("cluster", label) for label in records.texts("clusters")
        }
        again = batch & self._used
        if again:
            noun, label = min(again)
            raise TargetReused(
                f"records or clusters were seen in an earlier round, {len(again)} of them, for "
                f"example {noun} {label}; every round needs records that shaped no earlier "
                "candidate"
            )
        number = len(self._rounds) + 1
        level = spending_level(number, alpha=float(self._claim.alpha))
        reading = Reading(
            requirements=self._requirements,
            design=self._design,
            tests=self._claim.tests(self._design, self._requirements),
            level=level,
            violation_level=level,
            seed=self._seed + number,
        )
        evidence = gather_evidence(array, reading, bounds_level=level)
        pvalue = float(evidence.release_pvalues[0])
        verdict = Round(
            number=number,
            decision=Decision.VALIDATED if pvalue <= level else Decision.UNRESOLVED,
            pvalue=pvalue,
            level=level,
        )
        # Only now: a batch that was refused has been looked at by nobody.
        self._used |= batch
        self._rounds.append(verdict)
        return verdict
