"""C1 to C3: the paper's cost planner, its mode phases, and what wrong pilot rates cost.

Beside it stand the same planner with the sharp bound in the place of the direct one (same
grid, same rates, same tie rule), and our own planner. Ours needs a law and a target, not two
rates: it is given one law that goes with those rates. All three plans are then judged by their
power under that law, each as the package would certify it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from scipy import special

from proxyguard import Claim, Law, Question, Requirement, assumed_law, recommend
from proxyguard.exact.binomial import lower_tail
from proxyguard.modes.planning import AuditPlan, planned
from proxyguard.plan.search import conditional_power, exact_power
from proxyguard.plan.targets import Targets
from reproduction.studies.paper_planner import PaperGrid, PaperPlan
from reproduction.studies.study import (
    Array,
    Cell,
    Metrics,
    Outcome,
    Published,
    Status,
    Study,
    Wanted,
    tally,
)

GRID = PaperGrid()
SHARP_GRID = PaperGrid(sharp=True)
REQUIREMENT = Requirement(name="loss", low=0, high=1, limit=GRID.tolerance, two_valued=True)
RATIOS = (0.01, 0.1, 1.0, 10.0, 100.0)
ERRORS = (-0.10, -0.05, -0.02, 0.0, 0.02, 0.05, 0.10)
COARSE_ERRORS = (-0.10, 0.0, 0.10)
"""Errors over which plans are compared by power: ours is a search for each pair."""
TRUTH = {"direct": 0.95, "named": 0.80}
TARGET, WANTED = "0.8", 0.95
"""The reliability that plans are to validate, and the power that ours is asked for."""
PILOT_RECORDS, PILOT_RELEASES = 500, 30
MOST_RECOGNIZED = 0.995
"""Share of valid releases recognized where a pilot recognizes all: more has no finite margin."""

TARGETS = 2000
"""Simulated targets where no sum gives the power of a plan: in named mode."""
PAPERS, SHARP, OURS = "paper's planner", "sharp bound", "our planner"
"""Plans are judged by their power only beside ours: it is no measure of the paper's."""

Rates = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan that can be registered, and what it costs."""

    audit: AuditPlan
    requirements: tuple[Requirement, ...]
    cost: float

    def powers(self, law: Law) -> Array:
        """Return the chance that this audit validates under a law: a sum, or one a target."""
        own = law.requiring(self.requirements)
        exact = exact_power(own, self.audit)
        if exact is not None:
            return np.array([exact])
        return conditional_power(
            Targets(own, self.audit.n, repetitions=TARGETS, seed=0), self.audit
        )


def law_of(direct: float, named: float) -> Law:
    """Return a law of two-valued losses that goes with two rates of a pilot.

    Reliability is the larger rate. The margin is the one at which a valid release passes the
    binomial test on the pilot's records, at Holm's first step over its releases, as often as
    named mode recognized one: a beta quantile. How many scores a slack makes favorable then
    follows from the margin, and need not be the direct rate.
    """
    reliability = max(direct, named)
    level = GRID.alpha / 2 / PILOT_RELEASES
    counts = np.arange(PILOT_RECORDS + 1)
    most = np.count_nonzero(lower_tail(counts, PILOT_RECORDS, GRID.tolerance) <= level) - 1
    share = min(named / reliability, MOST_RECOGNIZED)
    risk = 1.0 - float(special.betaincinv(PILOT_RECORDS - most, most + 1, share))
    return assumed_law(
        [REQUIREMENT], margins=[GRID.tolerance - risk], deviations=[None], reliability=reliability
    )


def registered(plan: PaperPlan, grid: PaperGrid, ratio: float) -> Planned:
    """Return a plan of the paper's planner as an audit of one two-valued loss."""
    requirement = REQUIREMENT
    wanted: dict[str, str] = {"reliability_target": TARGET, "mode": plan.mode}
    if plan.mode == "named":
        wanted |= {"test": "binomial", "release_share": str(plan.share)}
    else:
        requirement = replace(requirement, slack=plan.slack)
        wanted |= {"score": "slack", "bound": "sharp" if grid.sharp else "paper"}
        wanted |= {} if grid.sharp else {"target_share": str(plan.share)}
    audit = AuditPlan(claim=planned(Claim.of(wanted)), n=plan.n, releases=plan.releases)
    return Planned(audit=audit, requirements=(requirement,), cost=plan.cost(ratio))


@cache
def our_plan(ratio: float, direct: float, named: float, wanted: float | None) -> Planned:
    """Return our plan within the budget: the cheapest with a power, or the most powerful."""
    question = Question(
        reliability_target=TARGET, release_cost=ratio, budget=GRID.budget, power=wanted,
        most_releases=max(GRID.releases), modes=("direct", "named"),
        tests=("binomial",),  # type: ignore[arg-type]  # names are taken as well
    )  # fmt: skip
    chosen = recommend(law_of(direct, named), question).chosen
    return Planned(audit=chosen.plan, requirements=chosen.requirements, cost=chosen.cost)


def cost_plan(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the chosen plan at one cost ratio (C1, C2)."""
    ratio = cell["ratio"]
    rates = {"direct": 0.95, "named": cell["named"]}

    def projected(planner: PaperGrid) -> Metrics:
        plan = planner.choose(ratio, rates)
        bound = planner.projection(plan, rates[plan.mode])
        slack = {} if plan.mode == "named" else {"slack": [plan.slack]}
        found = judged(registered(plan, planner, ratio))
        return {"projected bound": [bound], **slack, **found}

    def judged(plan: Planned) -> Metrics:
        power = {"power": plan.powers(law_of(**rates))} if OURS in wanted else {}
        return {
            "n": [plan.audit.n],
            "R": [plan.audit.releases],
            "direct": [plan.audit.claim.mode == "direct"],
            "cost": [plan.cost],
            **power,
        }

    return tally(
        {
            PAPERS: lambda: projected(GRID),
            SHARP: lambda: projected(SHARP_GRID),
            OURS: lambda: judged(our_plan(ratio, **rates, wanted=WANTED)),
        },
        wanted,
    )


def sensitivity(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return how often wrong pilot rates switch the mode, and what they cost (C3)."""
    ratio = cell["ratio"]

    def projected(planner: PaperGrid) -> Metrics:
        def choose(rates: Rates) -> Planned:
            return registered(planner.choose(ratio, rates), planner, ratio)

        power = _power_lost(ratio, choose) if OURS in wanted else {}
        return {**_bound_lost(planner, ratio), **power}

    def ours(rates: Rates) -> Planned:
        return our_plan(ratio, rates["direct"], rates["named"], None)

    return tally(
        {
            PAPERS: lambda: projected(GRID),
            SHARP: lambda: projected(SHARP_GRID),
            OURS: lambda: _power_lost(ratio, ours),
        },
        wanted,
    )


def wrong_rates(errors: Sequence[float]) -> list[dict[str, float]]:
    """Return the rates of every pair of pilot errors, within [0, 1]."""
    return [
        {
            "direct": min(1.0, max(0.0, round(TRUTH["direct"] + direct, 10))),
            "named": min(1.0, max(0.0, round(TRUTH["named"] + named, 10))),
        }
        for direct, named in product(errors, errors)
    ]


def _bound_lost(planner: PaperGrid, ratio: float) -> Metrics:
    """Return what a planner loses over all pairs of errors, by its own projections."""
    oracle = planner.choose(ratio, TRUTH)
    best = planner.projection(oracle, TRUTH[oracle.mode])
    plans = [planner.choose(ratio, rates) for rates in wrong_rates(ERRORS)]
    regrets = [max(0.0, best - planner.projection(plan, TRUTH[plan.mode])) for plan in plans]
    return {
        "mode switches": [100.0 * float(np.mean([plan.mode != oracle.mode for plan in plans]))],
        "mean regret": [float(np.mean(regrets))],
        "largest regret": [max(regrets)],
    }


def _power_lost(ratio: float, choose: Callable[[Rates], Planned]) -> Metrics:
    """Return how far plans from wrong rates fall behind ours from the true ones, in power."""
    law = law_of(**TRUTH)
    best = our_plan(ratio, **TRUTH, wanted=None).powers(law)
    lost = [
        float(np.mean(best)) - choose(rates).powers(law) for rates in wrong_rates(COARSE_ERRORS)
    ]
    # Plans are judged on the same targets; one whose power is a sum has no more than its value.
    targets = max(one.size for one in lost)
    each = np.stack([np.broadcast_to(one, targets) for one in lost])
    return {
        "mean loss of power": each.mean(axis=0),
        "largest loss of power": each[int(np.argmax(each.mean(axis=1)))],
    }


_METHODS = {
    PAPERS: Status.REGISTERED,
    SHARP: Status.OURS,
    OURS: Status.OURS,
}


def _published(rows: tuple[tuple[float, int, int, int], ...]) -> dict[
    tuple[int, str, str], Published
]:  # fmt: skip
    return {
        (i, PAPERS, metric): Published(value=value, digits=digits)
        for i, (bound, n, releases, direct) in enumerate(rows)
        for metric, value, digits in (
            ("projected bound", bound, 6), ("n", n, 0), ("R", releases, 0), ("direct", direct, 0),
            *((("slack", 0.06, 2),) if direct else ()),
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
_DIFFERS = (
    "Nothing; these figures are computed, and compared to the last printed digit. The power of a "
    "named plan is simulated on 2,000 targets and has its error beside it."
)
COST_PLAN = Study(
    name="cost-plan",
    paper="cost_planning",
    seed=0,
    repetitions=1,
    cells=tuple({"ratio": ratio, "named": 0.80} for ratio in RATIOS),
    simulate=cost_plan,
    methods=_METHODS,
    published=_published(_MODERATE),
    differs=_DIFFERS,
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
    differs=_DIFFERS,
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
        (i, PAPERS, metric): Published(value=value, digits=digits)
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
    differs=_DIFFERS,
)
