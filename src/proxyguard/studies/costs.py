"""C1 to C3: the paper's cost planner, its mode phases, and what wrong pilot rates cost.

Ours beside it is the same planner with the sharp bound in the place of the direct one: same
grid, same rates, same tie rule. Our own planner needs more than two rates.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from proxyguard.plan.paper import PaperGrid
from proxyguard.studies.study import Cell, Metrics, Outcome, Published, Status, Study, Wanted, tally

GRID = PaperGrid()
SHARP_GRID = PaperGrid(sharp=True)
RATIOS = (0.01, 0.1, 1.0, 10.0, 100.0)
ERRORS = (-0.10, -0.05, -0.02, 0.0, 0.02, 0.05, 0.10)
TRUTH = {"direct": 0.95, "named": 0.80}


def cost_plan(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the chosen plan at one cost ratio (C1, C2)."""
    rates = {"direct": 0.95, "named": cell["named"]}

    def chosen(planner: PaperGrid) -> Metrics:
        plan = planner.choose(cell["ratio"], rates)
        return {
            "projected bound": [planner.projection(plan, rates[plan.mode])],
            "n": [plan.n],
            "R": [plan.releases],
            "direct": [plan.mode == "direct"],
        }

    return tally(
        {"paper's planner": lambda: chosen(GRID), "sharp bound": lambda: chosen(SHARP_GRID)},
        wanted,
    )


def sensitivity(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often wrong pilot rates switch the mode, and what they cost (C3)."""
    return tally(
        {
            "paper's planner": lambda: _wrong_rates(GRID, cell["ratio"]),
            "sharp bound": lambda: _wrong_rates(SHARP_GRID, cell["ratio"]),
        },
        wanted,
    )


def _wrong_rates(planner: PaperGrid, ratio: float) -> Metrics:
    """Return what a planner loses over all pairs of errors, by its own projections."""
    oracle = planner.choose(ratio, TRUTH)
    best = planner.projection(oracle, TRUTH[oracle.mode])
    switches, regrets = [], []
    for direct, named in product(ERRORS, ERRORS):
        rates = {
            "direct": min(1.0, max(0.0, round(TRUTH["direct"] + direct, 10))),
            "named": min(1.0, max(0.0, round(TRUTH["named"] + named, 10))),
        }
        plan = planner.choose(ratio, rates)
        switches.append(plan.mode != oracle.mode)
        regrets.append(max(0.0, best - planner.projection(plan, TRUTH[plan.mode])))
    return {
        "mode switches": [100.0 * float(np.mean(switches))],
        "mean regret": [float(np.mean(regrets))],
        "largest regret": [max(regrets)],
    }


_METHODS = {"paper's planner": Status.REGISTERED, "sharp bound": Status.OURS}


def _published(rows: tuple[tuple[float, int, int, int], ...]) -> dict[
    tuple[int, str, str], Published
]:  # fmt: skip
    return {
        (i, "paper's planner", metric): Published(value=value, digits=digits)
        for i, (bound, n, releases, direct) in enumerate(rows)
        for metric, value, digits in (
            ("projected bound", bound, 6), ("n", n, 0), ("R", releases, 0), ("direct", direct, 0),
        )
    }  # fmt: skip


_MODERATE = (
    (0.934610, 5000, 1000, 1), (0.934610, 5000, 1000, 1), (0.934610, 5000, 1000, 1),
    (0.927072, 5000, 500, 1), (0.779265, 5000, 30, 1),
)  # fmt: skip
_HIGH = (
    (0.969280, 250, 1000, 0), (0.969280, 250, 1000, 0), (0.969280, 250, 1000, 0),
    (0.963528, 250, 500, 0), (0.827831, 250, 30, 0),
)  # fmt: skip
COST_PLAN = Study(
    name="cost-plan",
    paper="cost_planning",
    seed=0,
    repetitions=1,
    cells=tuple({"ratio": ratio, "named": 0.80} for ratio in RATIOS),
    simulate=cost_plan,
    methods=_METHODS,
    published=_published(_MODERATE),
)
MODE_PHASE = Study(
    name="mode-phase",
    paper="Table cost_planning",
    seed=0,
    repetitions=1,
    cells=tuple({"ratio": ratio, "named": named} for named in (0.80, 0.98) for ratio in RATIOS),
    simulate=cost_plan,
    methods=_METHODS,
    published=_published((*_MODERATE, *_HIGH)),
)
COST_PLAN_SENSITIVITY = Study(
    name="cost-plan-sensitivity",
    paper="Table cost_planning_sensitivity",
    seed=0,
    repetitions=1,
    cells=tuple({"ratio": ratio} for ratio in RATIOS),
    simulate=sensitivity,
    methods=_METHODS,
    published={
        (i, "paper's planner", metric): Published(value=value, digits=digits)
        for i, three in enumerate(
            (
                *((6.1224, 0.009843, 0.160769),) * 3,
                (6.1224, 0.010094, 0.164864),
                (8.1633, 0.013464, 0.164931),
            )
        )
        for metric, value, digits in zip(
            ("mode switches", "mean regret", "largest regret"), three, (4, 6, 6), strict=True
        )
    },
)
