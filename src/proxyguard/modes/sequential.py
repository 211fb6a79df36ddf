"""Draw, score, look, perhaps stop: what a sequential audit registers (theory section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from proxyguard.errors import RegistryError
from proxyguard.exact.sequential import Boundary, sharp_boundary
from proxyguard.modes.claim import Mode
from proxyguard.registry.budget import Budget, direct_budget, sharp_budget
from proxyguard.registry.numbers import exact, flag, look_numbers, member, real, reals, share
from proxyguard.registry.test import Bound


class Sequential(Mode):
    """One mechanism is drawn and looked at, by a `SequentialPlan`, until a look settles it."""

    mode: ClassVar[str] = "sequential"
    about: ClassVar[str] = "mechanism"
    after_opening: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SequentialPlan:
    """What a sequential audit registers before its first draw.

    Parameters
    ----------
    looks
        The numbers of draws at which the scores may be looked at; the last is the largest number
        of draws.
    reliability_target
        ``eta_0``, which the reliability is to be shown to exceed.
    kappa
        The ceiling of the registered score, `FavorableScore.threshold`.
    alpha
        The error over all looks together.
    bound
        ``sharp``, or ``rescaled``.
    target_share
        ``alpha_Z/alpha`` of the rescaled form.
    levels
        Further reliabilities to be tested along with the target, increasing: the reported bound is
        the largest of them that is crossed together with all below it.
    futility
        Stop when no later look can cross; stopping early never costs coverage.

    Raises
    ------
    RegistryError
        Where looks or levels do not increase, or a level is none.

    Examples
    --------
    >>> plan = SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.01)
    >>> str(plan.budget.total)
    '1/20'
    """

    looks: tuple[int, ...]
    reliability_target: float
    kappa: float
    alpha: Fraction = Fraction(1, 20)  # levels and shares may be written as text or decimals
    bound: Bound = Bound.SHARP
    target_share: Fraction = Fraction(9, 10)  # alpha_Z/alpha of the rescaled form
    levels: tuple[float, ...] = ()
    futility: bool = True

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("bound", member(Bound, self.bound, "bound"))
        put("looks", look_numbers(self.looks))
        put("reliability_target", float(share(self.reliability_target, "reliability_target")))
        ceiling = exact(self.kappa, "kappa")
        put("kappa", real(self.kappa, "kappa", low=0.0, high=1.0))
        put("alpha", share(self.alpha, "alpha"))
        put("target_share", share(self.target_share, "target_share"))
        put("levels", reals(self.levels, "levels"))
        put("futility", flag(self.futility, "futility"))
        if self.kappa == 1.0:
            raise RegistryError("kappa must lie below 1: every invalid release would score")
        if ceiling > 0:  # one that vanishes would say that no invalid release ever scores
            share(ceiling, "kappa")
        ladder = (self.reliability_target, *self.levels)
        if any(a >= b for a, b in pairwise(ladder)) or ladder[-1] >= 1.0:
            raise RegistryError(
                f"levels must increase from the target {self.reliability_target}, got {self.levels}"
            )
        # Made for what they refuse: a part that vanishes is to be told here, not at the first look.
        sharp_budget(self.alpha)
        direct_budget(self.alpha, target_share=self.target_share)
        if self.bound is Bound.PAPER:
            raise RegistryError("sequential audits are rescaled or sharp; the paper has none")

    @property
    def budget(self) -> Budget:
        """The error budget: undivided for the sharp form."""
        if self.bound is Bound.SHARP:
            return sharp_budget(self.alpha)
        return direct_budget(self.alpha, target_share=self.target_share)

    @cached_property
    def boundaries(self) -> tuple[Boundary | None, ...]:
        """The sharp boundary of the target and of every further level."""
        return tuple(
            # Each level has all of alpha: they are tested upwards and a bound needs all below it,
            # so that a false bound has crossed the least false level (theory section 5).
            sharp_boundary(self.looks, target=eta, kappa=self.kappa, alpha=float(self.alpha))
            for eta in (self.reliability_target, *self.levels)
        )

    def objections(self) -> list[str]:
        """Return why no outcome at all could validate; empty where some could."""
        if self.bound is not Bound.SHARP or self.boundaries[0] is not None:
            return []
        return [
            f"no number of favorable scores at the looks {list(self.looks[-3:])} can show a "
            f"reliability above {self.reliability_target:g}: register more draws"
        ]
