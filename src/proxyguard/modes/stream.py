"""Candidates proposed one after the other, each on a fresh batch (Proposition 19)."""

from __future__ import annotations

from typing import ClassVar

from proxyguard.modes.claim import Mode
from proxyguard.registry.design import Design, Iid


class Stream(Mode):
    """Candidates come from outside while the audit goes on, and each round has its own records."""

    mode: ClassVar[str] = "stream"
    after_opening: ClassVar[bool] = True
    in_rounds: ClassVar[bool] = True

    @classmethod
    def target_objections(cls, design: Design) -> list[str]:
        """Return why a target cannot be divided into rounds; empty where it can."""
        # Batches of one finite population, or of one stratum or cluster, depend on each other:
        # what a round learned of them would reach the next candidate.
        if isinstance(design, Iid):
            return []
        return [
            "the batches of a stream are independent records; the design is "
            f"{type(design).__name__}, whose records are not"
        ]
