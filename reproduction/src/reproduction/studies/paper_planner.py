"""The paper's cost planner: projected bounds, budgets, tie rule.

It projects a lower bound from a rate of recognized or favorable releases, which it takes as
given at every size: a named projection does not see ``n`` at all. Kept as a choice, so that
its tables come out; ``sharp`` puts the sharp bound in the place of the paper's direct one, and
`plan.recommend` uses how recognition depends on both sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import floor

from proxyguard import RegistryError
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.exact.contamination import chernoff_ceiling, markov_allowance
from proxyguard.exact.sharp import sharp_lower


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPlan:
    """One affordable audit: its mode, sizes and settings."""

    mode: str  # "named" or "direct"
    n: int
    releases: int
    share: float  # release share of named mode, target share of direct mode
    slack: float = 0.0

    def cost(self, ratio: float) -> float:
        """Return ``c_Z n + c_Q R`` with a target record at cost 1."""
        return self.n + ratio * self.releases


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperGrid:
    """What the paper's planner chooses among; the defaults are the published ones."""

    budget: float = 10_000.0
    tolerance: float = 0.3  # of one loss in [0, 1]
    alpha: float = 0.05
    records: Sequence[int] = (250, 500, 1000, 2000, 5000)
    releases: Sequence[int] = (30, 100, 250, 500, 1000)
    slacks: Sequence[float] = (0.03, 0.04, 0.05, 0.06)
    target_shares: Sequence[float] = (0.5, 0.8, 0.9)
    named_shares: Sequence[float] = (0.5, 0.8, 0.9)
    sharp: bool = False  # project direct plans with the sharp bound, which needs no target share

    def plans(self, ratio: float) -> Iterator[PaperPlan]:
        """Yield every plan within the budget at this cost of a release."""
        for n, releases in product(self.records, self.releases):
            if n + ratio * releases > self.budget:
                continue
            for share in self.named_shares:
                yield PaperPlan(mode="named", n=n, releases=releases, share=share)
            for share, slack in product(self.target_shares, self._possible_slacks):
                yield PaperPlan(mode="direct", n=n, releases=releases, share=share, slack=slack)

    @property
    def _possible_slacks(self) -> list[float]:
        """The slacks that leave a cutoff above 0."""
        return [slack for slack in self.slacks if slack < self.tolerance]

    def projection(self, plan: PaperPlan, rate: float) -> float:
        """Return the projected lower bound if this share of releases is recognized."""
        count = floor(plan.releases * rate + 1e-9)  # 1000 x 0.95 is 950, whatever floats say
        if plan.mode == "named":
            return _limit(count, plan.releases, self.alpha * (1 - plan.share))
        kappa = _ceiling(self.tolerance, plan.slack, plan.n)
        if self.sharp:
            return _sharp(count, plan.releases, kappa, self.alpha)
        limit = _limit(count, plan.releases, self.alpha * (1 - plan.share))
        return max(0.0, limit - markov_allowance(kappa, self.alpha * plan.share))

    def choose(self, ratio: float, rates: Mapping[str, float]) -> PaperPlan:
        """Return the paper's choice: the largest projection, then the cheapest, and so on."""
        if not all(0.0 <= rate <= 1.0 for rate in rates.values()):
            raise RegistryError(f"rates of recognized releases lie in [0, 1], got {dict(rates)}")
        affordable = list(self.plans(ratio))
        if not affordable:
            raise RegistryError(
                f"no plan of the paper's grid is within the budget {self.budget:g}; its smallest "
                f"has {min(self.records)} records and {min(self.releases)} draws"
            )
        return max(
            affordable,
            key=lambda plan: (
                self.projection(plan, rates[plan.mode]), -plan.cost(ratio), plan.n,
                plan.releases, plan.mode == "direct",
            ),
        )  # fmt: skip


@cache
def _ceiling(tolerance: float, slack: float, n: int) -> float:
    return chernoff_ceiling(tolerance - slack, tolerance, n)


@cache
def _limit(count: int, releases: int, alpha: float) -> float:
    return float(clopper_pearson_lower(count, releases, alpha=alpha))


@cache
def _sharp(count: int, releases: int, kappa: float, alpha: float) -> float:
    return sharp_lower(count, releases, kappa=kappa, alpha=alpha)
