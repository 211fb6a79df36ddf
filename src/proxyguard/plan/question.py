"""What a planner is asked: which claim, which sizes are open, what they cost, and by which ways.

A `Question` is checked when it is made; `ways` are those that its design and the declared losses
allow, and `settings` the plans of one way at one size, both as the modes list them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np

from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.modes.catalog import DEFAULT, planned_mode, planned_names
from proxyguard.modes.planning import Planned, Setting, Way, oracle_releases, weighted_strata
from proxyguard.plan.law import Law
from proxyguard.registry.design import (
    Design,
    Iid,
    Sampling,
    Stratified,
    StratifiedClusters,
    Weighted,
    WeightedClusters,
    as_design,
    clusters_of,
    tests_excess,
)
from proxyguard.registry.numbers import MOST_DRAWS, Level, listed, members, real, share, whole
from proxyguard.registry.numbers import MOST_RECORDS as LARGEST_TARGET
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, default_test

# Numbers of draws, and of records, that a search tries along one axis.
SIZES = 9

# Largest sizes that a search tries where nothing else limits them.
MOST_RECORDS, MOST_RELEASES = 20_000, 2_000


@dataclass(frozen=True, kw_only=True)
class Question:
    """The open choices of an audit and their costs, ``record_cost n + release_cost R``.

    Parameters
    ----------
    reliability_target
        ``eta_0``, which the reliability is to be shown to exceed.
    alpha
        The error of the validation direction.
    mechanisms
        How many mechanisms share ``alpha``.
    n, releases
        Target records and draws, where they are fixed; the search chooses them otherwise.
    most_records, most_releases
        The largest sizes that the search may take.
    record_cost, release_cost
        What a record and a draw cost.
    screening_cost
        What it costs to see whether a record belongs to a subgroup, for every record of the target.
    labelled
        The share of screened records that cost ``record_cost`` beside it: below 1 where all
        requirements are about subgroups, and then read from the law.
    budget
        The most that both together may cost.
    power
        The cheapest plan that reaches this chance of validation is wanted; without it the most
        powerful one.
    design
        How the target is sampled; iid unless said otherwise.
    modes, tests
        Those that are compared; all that can be planned unless said otherwise.
    digits
        Statistics are rounded to so many digits before they decide, as a registered disclosure
        rounds them.

    Raises
    ------
    RegistryError
        Where a number is none, or no size is within the budget.

    Examples
    --------
    >>> question = Question(reliability_target="0.8", n=1000, budget=1500, release_cost=10)
    >>> question.cost(1000, 50)
    1500.0
    """

    reliability_target: Level
    alpha: Level = "0.05"
    mechanisms: int = 1
    n: int | None = None
    releases: int | None = None
    most_records: int | None = None
    most_releases: int | None = None
    record_cost: float = 1.0
    release_cost: float = 1.0
    screening_cost: float = 0.0
    labelled: float = 1.0
    budget: float | None = None
    power: float | None = None
    design: Design = field(default_factory=Iid)
    modes: tuple[str, ...] = field(default_factory=planned_names)
    tests: tuple[ComponentTest, ...] = tuple(ComponentTest)
    digits: int | None = None  # of a disclosure: statistics are rounded before they decide

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("reliability_target", "alpha"):
            put(name, share(getattr(self, name), name))
        put("mechanisms", whole(self.mechanisms, "mechanisms", most=MOST_DRAWS))
        # What one mechanism gets has to be a level too: among many it may become too small to
        # compute with.
        share(Fraction(self.alpha) / self.mechanisms, "alpha / mechanisms")
        for name in ("n", "releases", "most_records", "most_releases"):
            most = LARGEST_TARGET if name in ("n", "most_records") else MOST_DRAWS
            if getattr(self, name) is not None:
                put(name, whole(getattr(self, name), name, most=most))
        for name in ("record_cost", "release_cost", "screening_cost"):
            put(name, real(getattr(self, name), name, low=0.0))
        put("labelled", real(self.labelled, "labelled", low=0.0, high=1.0))
        if self.budget is not None:
            put("budget", real(self.budget, "budget", low=0.0))
        if self.digits is not None:
            put("digits", whole(self.digits, "digits"))
            if self.digits > 6:
                raise RegistryError(f"digits of a disclosure are 1 to 6, got {self.digits}")
        if self.power is not None:
            put("power", float(share(self.power, "power")))
        put("design", as_design(self.design))
        if tests_excess(self.design):
            raise RegistryError(_unequal(self.design))
        put("modes", self._read_modes())
        put("tests", members(ComponentTest, self.tests, "tests"))
        if self.budget is not None and not self.sizes():
            raise RegistryError(
                f"no size is within the budget {self.budget:g}: validating a reliability above "
                f"{self.target:g} at error {self.level:.3g} takes at least {self.least_releases} "
                f"draws, which cost {self.release_cost * self.least_releases:g} without a record"
            )

    def _read_modes(self) -> tuple[str, ...]:
        """Return the names of the modes that are open, each once."""
        known = planned_names()
        asked = listed(self.modes, "modes")
        unplanned = [name for name in asked if name not in known]
        if unplanned:
            raise RegistryError(
                f"modes has {unplanned}, which cannot be planned; there are {list(known)}"
            )
        names = tuple(str(name) for name in asked)
        if not names or len(set(names)) < len(names):
            raise RegistryError(f"modes names one or more, each once, got {self.modes!r}")
        return names

    @property
    def kinds(self) -> list[type[Planned]]:
        """The modes that are open."""
        return [planned_mode(name) for name in self.modes]

    @property
    def target(self) -> float:
        """``eta_0``."""
        return float(Fraction(self.reliability_target))

    @property
    def level(self) -> float:
        """The error of one mechanism: Holm's first step over all of them."""
        return float(Fraction(self.alpha) / self.mechanisms)

    @property
    def least_releases(self) -> int:
        """The fewest draws that could validate, if every release were known to be valid."""
        return oracle_releases(target=self.target, alpha=self.level)

    def cost(self, n: int, releases: int) -> float:
        """Return what an audit of ``n`` records and so many ``releases`` costs."""
        return self.each_record * n + self.release_cost * releases

    @property
    def each_record(self) -> float:
        """What one record of the target costs on average."""
        return self.screening_cost + self.record_cost * self.labelled

    def about(self, law: Law) -> Question:
        """Return the question with what ``law`` says of its subgroups; all else stays."""
        if law.counting is None:
            return self
        if not self.iid:
            raise UnsupportedDesign(
                "a subgroup is planned for on iid records; make it a stratum of the design, "
                f"which is {type(self.design).__name__}, or leave its requirement out"
            )
        # Of a rare group a target needs many records.
        most = self.most_records or min(
            LARGEST_TARGET, ceil(MOST_RECORDS / float(law.shares.min()))
        )
        return replace(self, labelled=law.labelled, most_records=most)

    def offered(self) -> tuple[ComponentTest, ...]:
        """Return the tests that the design's sampling allows."""
        sampling = self.design.sampling
        return tuple(test for test in self.tests if sampling in test.samplings)

    @property
    def unit(self) -> str:
        """What ``n`` counts: records, or clusters."""
        return "records" if clusters_of(self.design) is None else "clusters"

    @property
    def iid(self) -> bool:
        """Whether the records are iid, which smooth and block certificates need."""
        return self.design.sampling is Sampling.IID

    def strata(self, n: int) -> Stratified | None:
        """Return the strata of ``n`` records, where they weigh otherwise than their sizes do."""
        return weighted_strata(self.design, n)

    @property
    def unlimited(self) -> bool:
        """Whether nothing keeps a search from taking all the records of the world."""
        return (self.n, self.most_records, self.budget, self.power) == (None,) * 4

    def sizes(self) -> list[tuple[int, int]]:
        """Return the sizes ``(n, R)`` that a search tries: for each R the most records."""
        pairs = [(self.most_records_with(r), r) for r in self._release_grid()]
        return [(n, releases) for n, releases in pairs if n >= 1]

    def _release_grid(self) -> list[int]:
        if self.releases is not None:
            return [self.releases]
        most = self.most_releases or MOST_RELEASES
        if self.budget is not None and self.release_cost > 0.0:
            # Beside the draws one record has to be paid for at the least.
            spent = self.each_record * (self.n or 1)
            most = min(most, floor((self.budget - spent) / self.release_cost + 1e-9))
        least = self.least_releases
        return [] if most < least else geometric(least, most, SIZES)

    def most_records_with(self, releases: int, budget: float | None = None) -> int:
        """Return how many records ``budget`` leaves beside so many ``releases``; 0 if none."""
        budget = self.budget if budget is None else budget
        if self.n is not None:
            # A cost is a rounded sum: one that meets the budget as written must not miss it.
            cost = self.cost(self.n, releases)
            return self.n if budget is None or cost <= budget + 1e-9 else 0
        most = self.most_records or MOST_RECORDS
        if budget is not None and self.release_cost * releases > budget + 1e-9:
            return 0
        if budget is not None and self.each_record > 0.0:
            left = budget - self.release_cost * releases
            most = min(most, floor(left / self.each_record + 1e-9))
        return most


def about_one_release(level: Fraction) -> Question:
    """Return the question whether one named release is shown to be good at this level.

    It is that about a mechanism of which one draw is taken, and all are valid: its chance of
    validation is the release's. What is left open is said by `dataclasses.replace`.

    Parameters
    ----------
    level
        What Holm asks of the smallest p-value of the family.
    """
    # The score loses what is asked for to the draw: a fiftieth of the level at the most.
    least = min(Fraction(1, 10_000), level / 50)
    return Question(reliability_target=least, alpha=level, releases=1, modes=(DEFAULT,))


def _unequal(design: Design) -> str:
    """Return why a design whose units weigh differently is not planned, and what comes near."""
    rule = clusters_of(design)
    if rule is None:
        assert isinstance(design, Weighted)  # the one design whose single records weigh
        units, instead, most = "records", "Clustered()", f"max_weight {float(design.max_weight):g}"
        mean = "the mean weight"
    elif isinstance(rule, WeightedClusters):
        units, instead, most = "clusters", "Clustered()", f"max_weight {float(rule.max_weight):g}"
        mean = "what the records of a cluster weigh together on average"
    else:
        units, instead, most = "clusters", "Clustered()", f"max_size {rule.max_size}"
        mean = "the mean size of a cluster"
    # In strata betting is not covered; a plan of their clusters is asked for without the strata.
    tests = "betting_fixed" if isinstance(design, Stratified | StratifiedClusters) else "betting"
    in_strata = ', in strata "betting_fixed"' if tests == "betting" and rule is not None else ""
    return (
        f"a plan's units weigh alike, and the {units} of this design do not: plan with design="
        f'{instead} and tests that bet, tests=("{tests}",){in_strata}, and take as '
        f"many {units} times {most} divided by {mean}: a first figure and no promise, too low "
        "where weights vary much. Other tests need up to about its square, and binomial "
        "covers no such design (theory section 1 says what a unit tells)"
    )


def geometric(low: int, high: int, count: int) -> list[int]:
    """Return whole numbers from low to high in equal ratios, both ends included."""
    return sorted({int(x) for x in np.rint(np.geomspace(low, high, count))} | {low, high})


def ways(question: Question, requirements: Sequence[Requirement]) -> list[Way]:
    """Return every way that the design and the losses allow.

    On two-valued losses the randomised binomial test is the binomial one, and is left out.
    """
    two_valued = all(r.two_valued for r in requirements)
    tests: list[ComponentTest | None] = [
        test
        for test in question.offered()
        if not any(test.objections(question.design, r) for r in requirements)
        and not (test is ComponentTest.RANDOMIZED_BINOMIAL and two_valued)
    ]
    if len({default_test(question.design, r) for r in requirements}) > 1:
        tests.insert(0, None)  # the declared losses differ, and so do their default tests
    offered = [
        replace(way, ordered=question.iid)
        for kind in question.kinds
        for way in kind.ways(question, tests)
    ]
    if any(r.group is not None for r in requirements):
        # What scores by means has a ceiling that changes with a subgroup's size, which is random.
        offered = [way for way in offered if way.tests != "-"]
    return offered


def settings(way: Way, question: Question, law: Law, n: int, releases: int) -> Iterator[Setting]:
    """Yield the plans of one way at one size, with the requirements' slacks and ramps."""
    return way.kind.settings(way, question, law, n, releases)
