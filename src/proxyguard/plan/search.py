"""The chance that an audit validates under a law, and the search over ways and sizes for it.

Given the target, favorable scores of R draws are binomial, so only the target is simulated
and the rest is a sum. Where one two-valued requirement orders all releases, the target has a
sum of its own and nothing is simulated. Counts after Holm, and means of ramp scores, draw
the kinds of release as well. What decides, and how, the mode of the claim says.

`power` predicts one plan. `Search` asks for many, on few targets and within an effort: it tunes
every way at a size (`tune`), leaves behind the ways that fall back, and looks for the sizes that
reach a goal for the least or have the most power within a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.exact.betting import STAKES
from proxyguard.exact.binomial import lower_tail, upper_tail
from proxyguard.exact.rounding import Array
from proxyguard.exact.sharp import critical_count
from proxyguard.exact.special import special
from proxyguard.modes.catalog import planned_modes
from proxyguard.modes.planning import AuditPlan, Planned, Way, at_least, least_size
from proxyguard.plan.law import Law
from proxyguard.plan.question import Question, settings
from proxyguard.plan.targets import Targets
from proxyguard.progress import Progress as Progress
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A predicted chance of validation; ``standard_error`` is 0 where a sum gave it."""

    value: float
    standard_error: float
    repetitions: int  # 0: exact

    @property
    def exact(self) -> bool:
        """Whether nothing was simulated."""
        return self.repetitions == 0

    @property
    def shown(self) -> str:
        """The chance as every text and file has it."""
        return f"{self.value:.3f}"

    @property
    def words(self) -> str:
        """The chance with how it was computed."""
        error = f"Monte Carlo error {self.standard_error:.3f}"
        return f"{self.shown} ({'exact' if self.exact else error})"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {**asdict(self), "exact": self.exact}


def power(law: Law, audit: AuditPlan, *, repetitions: int = 1000, seed: int = 0) -> Power:
    """Return the chance that an audit validates: exact where a sum gives it, else simulated."""
    exact = exact_power(law, audit)
    if exact is not None:
        return Power(value=exact, standard_error=0.0, repetitions=0)
    targets = Targets(
        law, audit.n, repetitions=repetitions, seed=seed, digits=audit.digits, strata=audit.strata
    )
    return power_on(targets, audit, seed=seed)


def power_on(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Power:
    """Return the chance that an audit validates, over targets that were simulated already."""
    chance = conditional_power(targets, audit, seed=seed)
    # One target more that fails and one that validates: what was not seen is not impossible.
    error = float(np.append(chance, [0.0, 1.0]).std(ddof=1) / np.sqrt(chance.size))
    return Power(value=float(chance.mean()), standard_error=error, repetitions=chance.size)


def score_rates(targets: Targets, audit: AuditPlan) -> Array:
    """Return ``pi(Z)`` of every target: the chance that a fresh draw scores favorably on it."""
    levels = audit.levels(targets.law.every)
    return targets.rates(audit.claim.scores(targets, audit, levels))


def conditional_power(targets: Targets, audit: AuditPlan, *, seed: int = 0) -> Array:
    """Return the chance of validation given each target, over the draws."""
    if targets.digits != audit.digits:
        raise ValueError(f"targets read with {targets.digits} digits, a plan with {audit.digits}")
    # Settings of one size see the same draws, so that luck does not choose between them.
    rng = np.random.default_rng([seed, audit.n, audit.releases])
    return audit.claim.chance(targets, audit, audit.levels(targets.law.every), rng)


def exact_power(law: Law, audit: AuditPlan) -> float | None:
    """Return the power as a sum where each two-valued requirement orders all releases.

    A release with risk ``r`` passes exactly when at most ``c`` records are lost at ``r``, and a
    release with a smaller risk loses no more. So the kinds that pass are the first of their
    order, and the chance of each such set is a difference of two binomial tails; requirements
    on records of their own are independent. ``None`` where this does not apply.
    """
    found = exact_score_rates(law, audit)
    if found is None:
        return None
    rates, chance = found
    least = audit.claim.least_count(audit, law.requirements, audit.levels(law.requirements))
    if least is None:
        return None
    if least > audit.releases:
        return 0.0
    # Chances are differences of rounded tails, and may be a last digit below 0.
    return float(np.clip(chance @ at_least(least, audit.releases, rates), 0.0, 1.0))


def exact_score_rates(law: Law, audit: AuditPlan) -> tuple[Array, Array] | None:
    """Return the values that ``pi(Z)`` takes over targets and their chances, where a sum does."""
    # A weighted mean is no count, and of pilots every target has a population of its own.
    if not _nested(law) or audit.strata is not None or law.luck is not None:
        return None
    levels = audit.levels(law.requirements)
    tails = []
    for requirement, risks in zip(law.requirements, law.means.T, strict=True):
        accepted = audit.claim.most_errors(audit, requirement, levels)
        if accepted is None:
            return None
        tails.append(
            np.zeros(risks.size) if accepted < 0
            else lower_tail(np.full(risks.size, accepted), audit.n, risks)
        )  # fmt: skip
    return rates_of_nested(law.releases, law.means, tails)


# Sets of kinds of release that a sum may run over, before those that are alike are merged.
MOST_SETS = 4096


def rates_of_nested(
    releases: Array, means: Array, tails: Sequence[Array]
) -> tuple[Array, Array] | None:
    """Return score rates and their chances where each requirement orders the kinds of release.

    ``tails`` has for each requirement the chance with which every kind passes it: kinds with a
    smaller mean pass whenever one with a larger mean does. ``None`` where there are too many sets.
    """
    sets, chances = np.ones((1, releases.size), dtype=bool), np.ones(1)
    if len(tails) == 1:  # the sets are nested, and a search asks for thousands
        order = np.argsort(means[:, 0])
        passes = tails[0][order]
        rates = np.concatenate([[0.0], np.cumsum(releases[order])])
        return rates, np.concatenate([[1.0], passes]) - np.concatenate([passes, [0.0]])
    for risks, tail in zip(means.T, tails, strict=True):
        order = np.argsort(risks, kind="stable")
        first = np.tri(releases.size + 1, releases.size, -1, dtype=bool)[:, np.argsort(order)]
        passes = tail[order]
        # Kinds up to the i-th pass and the next does not.
        chance = np.concatenate([[1.0], passes]) - np.concatenate([passes, [0.0]])
        if len(sets) * len(first) > MOST_SETS:
            return None
        both = (sets[:, None] & first[None]).reshape(-1, releases.size)
        distinct, same = np.unique(both, axis=0, return_inverse=True)
        summed = np.zeros(len(distinct))
        np.add.at(summed, same.ravel(), np.outer(chances, chance).ravel())
        sets, chances = distinct[summed != 0.0], summed[summed != 0.0]
    return sets @ releases, chances


def _nested(law: Law) -> bool:
    """Whether all requirements are two-valued, each lost on records that contain each other."""
    if law.joint and len(law.every) > 1:  # one record then decides about several
        return False
    if law.counting is not None:  # how many records count is random
        return False
    if not all(requirement.two_valued for requirement in law.requirements):
        return False
    for table, means in zip(law.losses, law.means.T, strict=True):
        ordered = table[np.argsort(means)]
        if not np.all((ordered == 0.0) | (ordered == 1.0)) or np.any(np.diff(ordered, axis=0) < 0):
            return False
    return True


# Simulated targets of the search.
COARSE = 200

# Plans whose power differs by less are alike: doubt and then the cost decide between them.
CLOSE = 0.005

# Settings of one way at one size whose power differs by less are alike.
ALIKE = 0.001

# Of its margin, what a law keeps when it is doubted; reliability loses half its excess.
DOUBTED_MARGIN = 0.85

# How far the largest sizes may fall short of a goal, on few targets, before it is given up.
OUT_OF_REACH = 0.2

# Losses that one evaluation of a search may bet on, a fraction of a second.
EFFORT = 6e6

# Fewest targets that are bet on; evaluations that this many may cost before betting is left out of
# a search; evaluations that a search may cost in all.
LEAST_TARGETS, DEAREST, EVALUATIONS = 60, 8, 40

# Losses that could be bet on in the time that a way is tuned in without any.
TUNING = 200_000

# How far behind, where powers are neither small nor near 1, a way is not asked again.
BEHIND = 0.1

# Ratio to which a least number of records is bracketed, and how near to the goal will do.
TOLERANCE, NEAR = 1.05, 0.01

# About how many sizes a search tries, for who watches it.
SIZES_TRIED = 30

# Where the probit of a power is a line in the root of the records, minus its value at none.
STEEP = 2.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """One way at one size, tuned: what it would register, and its predicted power."""

    way: Way
    plan: AuditPlan
    requirements: tuple[Requirement, ...]
    power: Power
    cost: float

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        tuned = self.plan.claim.registered()
        return {
            "mode": self.way.mode,
            "way": self.way.label,
            "tests": self.way.tests,
            "n": self.plan.n,
            "releases": self.plan.releases,
            "settings": {
                name: float(value) if isinstance(value, Fraction) else value
                for name, value in tuned.items()
                if not isinstance(value, Enum)  # bound and score are in the way's words
            },
            "slacks": {r.name: r.slack for r in self.requirements if r.slack is not None},
            "ramps": {r.name: r.ramp for r in self.requirements if r.ramp is not None},
            "power": self.power.to_dict(),
            "cost": self.cost,
        }


def plainness(way: Way) -> int:
    """Order ways by how plain they are: the default certificate first, a slack score last."""
    return -2 * planned_modes().index(way.kind) - (way.score == "slack")


class Pool:
    """Targets of one size: one set for tests of moments, a smaller one where records are read."""

    def __init__(
        self, law: Law, question: Question, n: int, releases: int, *, seed: int,
        repetitions: int, effort: float,
    ) -> None:  # fmt: skip
        self._law, self._n, self._seed, self._repetitions = law, n, seed, repetitions
        self._question, self._releases, self._effort = question, releases, effort
        self._aims: dict[type[Planned], float | None] = {}
        self._kept: dict[object, Targets] = {}
        self.bets = 0  # what the targets so far cost, if each is bet on once

    def of(self, way: Way, *, tuned: bool = False) -> Targets:
        """Return the targets for a way; ``tuned``: its stakes are settled, so bet by them."""
        reads = way.reads_records
        if way.kind not in self._aims:
            self._aims[way.kind] = way.kind.aim(self._question, self._releases)
        aim = self._aims[way.kind]
        # An aim changes the stakes of betting and nothing else, so that all tests of moments share
        # one set of targets.
        key = (reads, None if tuned or not reads else aim)
        if key not in self._kept:
            repetitions = self._repetitions
            each = bets_on(self._law, self._n, way)
            repetitions = affordable(each, self._effort, repetitions)
            self.bets += repetitions * each
            self._kept[key] = Targets(
                self._law, self._n, repetitions=repetitions, seed=self._seed, aim=key[1],
                digits=self._question.digits, strata=self._question.strata(self._n),
            )  # fmt: skip
        return self._kept[key]


def bets_on(law: Law, n: int, way: Way) -> int:
    """Return how many losses are bet on for one target.

    Of a way that bets on none, how many could be in the time that the target's counts are drawn
    in, and the means and p-values of all kinds of release computed from them.
    """
    kinds = law.releases.size
    if way.reads_records:
        ordered = 0 if law.counting is None else n  # drawn in an order, few of them to bet on
        # By declaration a loss of 0 or 1 is counted, and so is a share whose answers are known.
        counted = [
            way.test is None and (r.two_valued or (r.indicator and law.answers is not None))
            for r in law.every
        ]
        read, count = ~np.array(counted), len(law.requirements)
        units = float(law.shares[read[:count]].sum()) + int(np.count_nonzero(read[count:]))
        return round(kinds * units * n) + ordered
    drawn = sum(chance.size for chance in (law.records[:1] if law.joint else law.records))
    # A share beside those of the search is counted once for all kinds of release.
    each = [
        1 if r.indicator and r.group is None else kinds for r in law.every[len(law.requirements) :]
    ]
    beside = 4 * kinds * len(each) + sum(each) * (drawn // 100)
    # Fixed stakes multiply over the kinds of record, once for each stake.
    stakes = len(STAKES) if way.test is ComponentTest.BETTING_FIXED else 1
    tested = sum(kinds * (4 + stakes * chance.size // 100) for chance in law.records)
    return 2 * drawn + tested + beside


def affordable(each: int, effort: float, most: int) -> int:
    """Return how many targets may be simulated that cost so many bets, at least `LEAST_TARGETS`."""
    return int(max(LEAST_TARGETS, min(most, effort / each)))


def open_ways(ways: Sequence[Way], law: Law, n: int, effort: float) -> list[Way]:
    """Return the ways that can be simulated within the effort; all of them where none can.

    On very many records, or requirements, betting takes minutes; tests of means and counts do
    not, and need more records.
    """
    most = DEAREST * effort / LEAST_TARGETS
    cheap = [way for way in ways if not way.reads_records or bets_on(law, n, way) <= most]
    return cheap or list(ways)


def most_bet_on(ways: Sequence[Way], law: Law, n: int, effort: float) -> int:
    """Return the most records, ``n`` at the most, at which all of these ways are open."""
    beyond = least_size(lambda size: len(open_ways(ways, law, size, effort)) < len(ways), 1, n)
    return beyond - 1


class Search:
    """Options at the sizes that are worth a look."""

    def __init__(
        self, law: Law, question: Question, searched: Sequence[Way], seed: int,
        progress: Progress, effort: float = EFFORT,
    ) -> None:  # fmt: skip
        self._law, self._question, self._seed, self._effort = law, question, seed, effort
        self._left = EVALUATIONS * effort  # a search of many sizes of a large law ends by this
        self._start = first_guess(law)  # records that are tried first
        # Betting takes a hundred times as long as all else, and needs somewhat fewer records: it
        # is asked only near the sizes that the other tests find.
        self.ways = [way for way in searched if not way.reads_records]
        self._later = [way for way in searched if way.reads_records] if self.ways else []
        self.ways = self.ways or list(searched)
        # Of the sizes at which betting takes too long only the other tests are known.
        self._bet_on = most_bet_on(
            [*self.ways, *self._later], law, max(1, question.most_records_with(1)), effort
        )
        self.complete = True  # whether all ways were asked at all sizes that decide
        self._progress = progress
        self._found: dict[tuple[int, int], Option] = {}
        self._asked: set[tuple[int, int, bool]] = set()
        self._doubts: dict[tuple[int, int], float] = {}
        self._sizes = question.sizes()
        if not self._sizes:
            raise RegistryError(
                "no number of draws within the limits can validate: at least "
                f"{question.least_releases} are needed"
            )

    def most_powerful(self) -> list[Option]:
        """Try the largest affordable sizes, then twice between the best and its neighbours."""
        self._try(self._sizes)
        if self._all_ways():
            self._try([(self._question.most_records_with(r), r) for r in self._near_best()])
        for _ in range(2 if len(self._sizes) > 1 else 0):
            middle = {round((a * b) ** 0.5) for a, b in pairwise(self._near_best())}
            self._try([(self._question.most_records_with(r), r) for r in sorted(middle)])
        return self._known()

    def _all_ways(self) -> bool:
        """Let the ways that bet take part from now on; whether there are any."""
        later, self._later = self._later, []
        self.ways = [*self.ways, *later]
        return bool(later)

    def _near_best(self) -> list[int]:
        """Return the best number of draws so far between its neighbours among those tried."""
        tried = sorted({releases for _, releases in self._found})
        middle = tried.index(self.pick().plan.releases)
        return tried[max(0, middle - 1) : middle + 2]

    def cheapest(self) -> list[Option]:
        """Bisect the records for each number of draws, never beyond the best cost so far."""
        goal = self._question.power
        assert goal is not None  # the caller asked for a power
        grid = [releases for _, releases in self._sizes]
        # With most of both and no budget to share, smaller sizes fare no better than this. It is
        # asked first, so that a search which its effort ends early claims no less.
        if self._question.budget is None and len(grid) > 1 and not self._in_reach(goal):
            return self._known()
        # From the middle outwards: there ways differ, and what is dear is seen to be so.
        middle = 2.5 * self._question.least_releases
        outwards = sorted(grid, key=lambda releases: abs(log(releases / middle)))
        best = self._cheapest_of(outwards, goal, None)
        if self._all_ways():
            near = outwards if best is None else self._near_best()
            best = self._cheapest_of(near, goal, best)
        for _ in range(2 if best is not None and len(grid) > 1 else 0):
            between = [round((a * b) ** 0.5) for a, b in pairwise(self._near_best())]
            best = self._cheapest_of(between, goal, best)
        if best is None:  # out of reach at every number of draws: say what the largest would do
            self._try(self._sizes[-1:])
        self._progress("sizes", len(self._found), len(self._found))
        return self._known()

    def _cheapest_of(self, draws: Sequence[int], goal: float, best: Option | None) -> Option | None:
        """Return the cheapest option with one of these numbers of draws, or the best so far."""
        for releases in draws:
            best = self._least(releases, goal, best) or best
        return best

    def pick(self) -> Option:
        """Return the option at the best size: cheapest that reaches the goal, or most powerful.

        A budget may be spent in many ways that are alike under the law. Then the one that does
        best under the doubted law is taken: a pilot that saw no invalid release would otherwise
        call for a handful of draws. Where nothing says what may be spent, the cheapest is.
        """
        found, goal = self._known(), self._question.power
        enough = [o for o in found if goal is not None and o.power.value >= goal]
        if enough:
            return min(enough, key=lambda o: (o.cost, -o.power.value))
        best = max(o.power.value for o in found)
        close = [o for o in found if o.power.value >= best - CLOSE]
        if self._question.budget is not None and best > 0.0 and len(close) > 1:
            doubted = [self._doubted(option) for option in close]
            close = [o for o, d in zip(close, doubted, strict=True) if d >= max(doubted) - CLOSE]
        return min(close, key=lambda o: (o.cost, -o.power.value))

    def _doubted(self, option: Option) -> float:
        """Return an option's power under the doubted law."""
        size = (option.plan.n, option.plan.releases)
        if size not in self._doubts:
            law = doubted_law(self._law, self._question.target)
            pool = self._pool(law, *size)
            found = judged(law, option, pool.of(option.way, tuned=True))
            self._doubts[size] = found.power.value
        return self._doubts[size]

    def _pool(self, law: Law, n: int, releases: int) -> Pool:
        return Pool(
            law, self._question, n, releases, seed=self._seed, repetitions=COARSE,
            effort=self._effort,
        )  # fmt: skip

    def _least(self, releases: int, goal: float, best: Option | None) -> Option | None:
        """Return the cheapest option with so many draws, if it reaches the goal for less."""
        budget = self._question.budget if best is None else best.cost
        most = self._question.most_records_with(releases, budget)
        if most < 1 or self._hopeless(releases, goal):
            return None
        if not self._later and self._bet_on < most:
            # The other tests were asked before, at all sizes; a bet needs fewer records than these.
            self.complete = best is not None
            most = max(1, self._bet_on)
        if self._left <= 0.0:
            self.complete = best is not None
            return None
        option = self._least_within(most, releases, goal)
        if option is None or best is None:
            return option
        return option if option.cost < best.cost else None

    def _least_within(self, most: int, releases: int, goal: float) -> Option | None:
        """Return the option with the fewest records up to ``most`` that reaches the goal.

        The records between one size that fails and one that does are narrowed to `TOLERANCE`,
        from the number that the draws before needed.
        """
        if self._question.n is not None:
            option = self._at(most, releases)
            return option if option.power.value >= goal else None
        low, high, n = 0, most + 1, min(self._start, most)
        before = 0.0
        while self._left > 0.0 and high > TOLERANCE * low + 1:
            reached = self._at(n, releases).power.value
            if reached >= goal:
                high = n
                # Near the goal few records are left to save, and every look costs an evaluation.
                if reached < goal + NEAR:
                    break
            # Fewer records would hardly have more power: these draws are given up.
            elif n == most:
                return None
            # More records hardly help: most of them say at once whether any number would do.
            elif low > 0 and high > most and reached < before + NEAR:
                low, n = n, most
                continue
            else:
                low, before = n, reached
            n = next_size(n, reached, goal, low, high)
        if high > most:
            return None
        self._start = high
        return self._at(high, releases)

    def _hopeless(self, releases: int, goal: float) -> bool:
        """Whether so few draws fall short of the goal even with all the records of the world."""
        question = self._question
        oracle = int(
            critical_count(releases, target=question.target, kappa=0.0, alpha=question.level)
        )
        if oracle > releases:
            return True
        if self._law.luck is not None:  # the mechanism may be better than its pilots were
            return False
        # Invalid releases score with probability alpha at the most, or nothing validates. How that
        # varies from target to target can help: no more than the chords of the chance allow.
        rates = np.linspace(self._law.reliability, 1.0, 101)
        chance = upper_tail(oracle, releases, rates)
        share = question.level * (rates[-1] - rates[0])  # by which the mean rate exceeds the least
        above = rates > rates[0]  # none where every release is valid
        chords = (chance[above] - chance[0]) / (rates[above] - rates[0])
        most = chance[0] + share * np.max(chords, initial=0.0)
        steady = float(upper_tail(oracle, releases, min(1.0, rates[0] + share)))
        return max(float(most), steady) < goal - NEAR

    def _in_reach(self, goal: float) -> bool:
        """Whether some way comes near the goal with most records and draws, the quickest first.

        Tests that bet are asked too, on the most records that they can be simulated on: they may
        reach with a tenth of the records what no other test does with all of them.
        """
        n, releases = self._sizes[-1]
        every = [*self.ways, *self._later]
        for size in sorted({n, min(n, self._bet_on)} - {0}, reverse=True):
            pool = self._pool(self._law, size, releases)
            ways = open_ways(every, self._law, size, self._effort)
            for way in sorted(ways, key=lambda way: way.reads_records):
                option = tune(self._law, self._question, way, pool.of(way), releases)
                if option is not None and option.power.value >= goal - OUT_OF_REACH:
                    return True
        self._all_ways()
        self._at(n, releases)
        self.complete = n <= self._bet_on
        return False

    def _try(self, sizes: Sequence[tuple[int, int]]) -> None:
        for n, releases in sizes:
            self._at(n, releases)

    def _known(self) -> list[Option]:
        return list(self._found.values())

    def _at(self, n: int, releases: int) -> Option:
        asked = (n, releases, not self._later)
        if asked not in self._asked:
            self._asked.add(asked)
            option = self._best_at(n, releases)
            known = self._found.get((n, releases), option)
            # A way that bet was not always asked: the better of two answers about one size stays.
            self._found[n, releases] = max(known, option, key=lambda o: o.power.value)
            self._progress("sizes", len(self._asked), max(len(self._asked) + 1, SIZES_TRIED))
        return self._found[n, releases]

    def _best_at(self, n: int, releases: int) -> Option:
        """Return the best way at one size, on few targets."""
        law, question = self._law, self._question
        pool = self._pool(law, n, releases)
        ways = open_ways(self.ways, law, n, self._effort)
        options = [tune(law, question, way, pool.of(way), releases) for way in ways]
        known = [option for option in options if option is not None]
        self._left -= pool.bets + TUNING * len(ways)
        if not known:
            raise RegistryError(f"no way to audit is open at n = {n}, R = {releases}")
        best = max(known, key=lambda o: (o.power.value, plainness(o.way)))
        if 0.3 < best.power.value < 0.95:
            # Far behind where it matters is far behind elsewhere: do not ask again.
            near = {o.way for o in known if o.power.value > best.power.value - BEHIND}
            self.ways = [way for way in self.ways if way in near or way not in ways]
        return best


def first_guess(law: Law) -> int:
    """Return about how many records the narrowest margin needs, measured in its deviations."""
    # A mean of n records strays by its deviation over sqrt(n): what is needed goes with the square
    # of deviation over margin. The search corrects the factor.
    narrow = ((law.limits - law.means) / law.deviations * np.sqrt(law.shares))[law.valid].min()
    rarest = float(law.shares.min())
    return int(np.clip((2.0 * STEEP / max(narrow, 1e-4)) ** 2 / 2.0, 50, 10_000 / rarest))


def next_size(n: int, reached: float, goal: float, low: int, high: int) -> int:
    """Return where to look next: where the line through this power meets the goal, or between.

    ``low`` fails, and ``high`` does or is one too many.
    """
    # A power of 0 or 1 on few targets has no finite probit; clipped it is merely far away.
    here, there = special.ndtri(np.clip([reached, goal], 0.002, 0.998)) + STEEP
    # A little beyond, so that the other side is known next.
    guess = n * (there / max(here, 1.0)) ** 2 * (1.04 if reached < goal else 0.96)
    if low >= n and guess >= high:  # of the far side nothing is known but that it is far
        guess = (n * high) ** 0.5
    return int(min(max(round(guess), low + 1), high - 1))


def tune(law: Law, question: Question, way: Way, targets: Targets, releases: int) -> Option | None:
    """Return a way with its best settings on these targets; ``None`` if it has none.

    Settings cost nothing, so doubt decides between those that are alike: a threshold that
    asks nearly all releases to score is as good as any if nearly all are valid, and worthless
    if they are not.
    """
    cost = question.cost(targets.n, releases)
    nothing = Power(value=-1.0, standard_error=0.0, repetitions=0)
    options = [
        judged(
            law,
            Option(way=way, plan=plan, requirements=requirements, power=nothing, cost=cost),
            targets,
        )
        for plan, requirements in settings(way, question, law, targets.n, releases)
    ]
    best = max((o.power.value for o in options), default=0.0)
    close = [o for o in options if o.power.value >= best - ALIKE]
    # Doubt is asked only where a sum answers: simulated, it would cost as much as the search.
    if len(close) < 2 or not close[0].power.exact:
        return max(options, key=lambda o: o.power.value, default=None)
    doubt = doubted_law(law, question.target)
    return max(
        close,
        key=lambda o: (exact_power(doubt.requiring(o.requirements), o.plan) or 0.0, o.power.value),
    )


def judged(law: Law, option: Option, targets: Targets) -> Option:
    """Return the option with its power: exact where a sum gives it, else on these targets."""
    exact = exact_power(law.requiring(option.requirements), option.plan)
    value = (
        power_on(targets.requiring(option.requirements), option.plan)
        if exact is None
        else Power(value=exact, standard_error=0.0, repetitions=0)
    )
    return replace(option, power=value)


def doubted_law(law: Law, target: float) -> Law:
    """Return the law as it is if the pilot was too hopeful.

    Half of what its reliability has above the target is taken away, and a part of its margins,
    unless no release would be left valid. A release that its smaller margin makes invalid stays
    invalid: to replace it by one of those with wide margins would be hope, and no doubt.
    """
    rarer = law.with_reliability((law.reliability + target) / 2)
    tighter = rarer.with_margins(DOUBTED_MARGIN)
    return tighter if tighter.reliability > 0.0 else rarer
