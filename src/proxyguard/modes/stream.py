"""Candidates proposed one after the other, each on a fresh batch (Proposition 19)."""

from __future__ import annotations

from typing import ClassVar

from proxyguard.modes.claim import Mode
from proxyguard.registry.design import Design, Iid, Weighted


class Stream(Mode):
    """Candidates come from outside while the audit goes on, and each round has its own records."""

    mode: ClassVar[str] = "stream"
    after_opening: ClassVar[bool] = True
    in_rounds: ClassVar[bool] = True

    @classmethod
    def target_objections(cls, design: Design) -> list[str]:
        """Return why a target cannot be divided into rounds; empty where it can."""
        # Weights leave records iid. Batches of one finite population, or of one stratum or cluster,
        # depend on each other: what a round learned of them would reach the next candidate.
        if isinstance(design, Iid | Weighted):
            return []
        return [
            "a round of a stream takes the next records of the target in a random order, and those "
            f"of {type(design).__name__} are then no sample of their own: declare records of one "
            "law, with weights or without, or bring each round's sample to CandidateStream in "
            "Python"
        ]
