"""Two verdicts on a Monte Carlo error rate, and the laws that several theorems share.

A guarantee holds when the one-sided 99.9 % Clopper-Pearson lower limit of its error rate does
not exceed the budget. A twin drops one named term of the procedure, and the
same limit must exceed the budget: it shows that the first check could have failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats


def _lower_limit(errors: int, trials: int) -> float:
    # scipy's quantile, not the package's own limit.
    return float(stats.beta.ppf(0.001, errors, trials - errors + 1)) if errors else 0.0


@pytest.fixture(scope="session")
def repeat(effort: Any) -> Callable[..., int]:
    """How often something is done that a whole run does so often: a quarter where it is reduced.

    Both verdicts allow for the number of repetitions: fewer see larger faults alone, and a twin
    whose fault is a small one keeps a larger share of them.
    """

    def times(whole: int, share: int = 4) -> int:
        return effort.times(whole=whole, reduced=whole // share)

    return times


@pytest.fixture(scope="session")
def within_budget() -> Callable[[int, int, float], bool]:
    """Whether an error rate does not refute the budget."""

    def check(errors: int, trials: int, level: float) -> bool:
        print(f"error rate {errors}/{trials} = {errors / trials:.4f}, budget {level:g}")
        return _lower_limit(errors, trials) <= level

    return check


@pytest.fixture(scope="session")
def beyond_doubt() -> Callable[[int, int, float], bool]:
    """Whether an error rate exceeds the budget beyond doubt, as a twin's must."""

    def check(errors: int, trials: int, level: float) -> bool:
        print(f"twin's error rate {errors}/{trials} = {errors / trials:.4f}, budget {level:g}")
        return _lower_limit(errors, trials) > level

    return check


@pytest.fixture(scope="session")
def two_sample() -> Callable[..., float]:
    """Fisher's exact p-value that two Monte Carlo runs have one rate.

    ``alternative="less"`` asks only whether ours is worse than the printed rate.
    """

    def pvalue(
        ours: int, trials: int, printed: float, printed_trials: int, alternative: str = "two-sided"
    ) -> float:
        theirs = round(printed * printed_trials)
        print(f"ours {ours}/{trials} = {ours / trials:.4f}, printed {printed:g}")
        table = [[ours, trials - ours], [theirs, printed_trials - theirs]]
        return float(stats.fisher_exact(table, alternative=alternative).pvalue)

    return pvalue


@pytest.fixture(scope="session")
def worst_share() -> Callable[..., tuple[float, float]]:
    """The two-point law of theory section 2 that scores ``count`` or more most often.

    Returns ``(b, chance)``: with probability ``kappa/b`` a share ``b`` of the invalid releases
    scores, else none does. Found on a grid with scipy's binomial, then refined.
    """

    def find(count: int, n_releases: int, target: float, kappa: float) -> tuple[float, float]:
        def chance(b: NDArray[np.float64] | float) -> NDArray[np.float64]:
            rate = 1.0 - (1.0 - target) * (1.0 - np.asarray(b))
            tail = stats.binom.sf(count - 1, n_releases, rate)
            none = stats.binom.sf(count - 1, n_releases, target)
            return np.asarray(none + kappa / b * (tail - none))

        grid = np.linspace(kappa, 1.0, 2001)
        best = int(np.argmax(chance(grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        found = optimize.minimize_scalar(lambda b: -chance(b), bounds=(low, high), method="bounded")
        b = max((float(found.x), float(grid[best])), key=lambda b: float(chance(b)))
        return b, float(chance(b))

    return find


@pytest.fixture(scope="session")
def one_record_losses() -> Callable[..., NDArray[np.bool_]]:
    """Losses of a real audit that follows the two-point law exactly, (releases, 1, 1).

    The target is one record, whose law hides a coin (``bad`` with probability ``kappa/share``)
    and a place on a circle. A good release never errs. Every other release errs unless the
    record is bad and lies within ``share`` of the release's own place, so its mean loss is
    ``1 - kappa``, and given a bad record the releases that do not err are independent draws.
    """

    def losses(
        rng: np.random.Generator, good: NDArray[np.bool_], *, kappa: float, share: float
    ) -> NDArray[np.bool_]:
        bad = rng.random() < kappa / share
        near = (rng.random(good.size) + rng.random()) % 1.0 < share
        return (~(good | (bad & near)))[:, None, None]

    return losses
