"""Which audit to register: a law and a question in, a `Recommendation` out.

A coarse search on few simulated targets (`plan.search`) picks sizes and settings; what is reported
about the chosen plan comes from fresh targets, so that picking the luckiest of many does not
flatter it. Beside it stands what an audit needs whatever its releases score: `needs` asks the mode,
`paper_limits` the paper's own statements (Propositions 14, 17 and 18, Theorem 15). Where a need is
not met, no outcome at all can validate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.exact.binomial import upper_tail, wilson_interval
from proxyguard.exact.mean import log_chernoff
from proxyguard.exact.planning import (
    direct_shortfall,
    least_records,
    least_releases_named,
    sufficient_records_named,
)
from proxyguard.modes.planning import AuditNeeds, AuditPlan, RampCost, Way
from proxyguard.plan.law import Law
from proxyguard.plan.question import Question, ways
from proxyguard.plan.search import (
    CLOSE,
    COARSE,
    EFFORT,
    LEAST_TARGETS,
    NEAR,
    TOLERANCE,
    Option,
    Pool,
    Power,
    Progress,
    Search,
    affordable,
    bets_on,
    doubted_law,
    judged,
    next_size,
    open_ways,
    plainness,
    power,
    tune,
)
from proxyguard.printable import ShownAsPage
from proxyguard.registry.design import Stratified, sees_losses
from proxyguard.registry.numbers import MOST_REPETITIONS, callback, flag, real, whole
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, Requirements

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain


def needs(requirements: Requirements, audit: AuditPlan) -> AuditNeeds:
    """Return the necessary limits of one audit, and why it cannot succeed if it cannot."""
    return audit.claim.needs(audit, requirements, audit.levels(requirements))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperLimits:
    """What the paper's own statements say about one size."""

    least_records: int | None  # Proposition 14, for registered slacks
    least_releases: int  # Proposition 18
    sufficient_records: int | None  # Proposition 17; None: some margin is not positive
    direct_shortfall: float | None  # Theorem 15, at half the margin as slack

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "proposition_14_least_records": self.least_records,
            "proposition_18_least_releases": self.least_releases,
            "proposition_17_sufficient_records": self.sufficient_records,
            "theorem_15_direct_shortfall": self.direct_shortfall,
        }


def paper_limits(
    requirements: Requirements, margins: Sequence[float], audit: AuditPlan, *, failure: float = 0.1
) -> PaperLimits:
    """Return the paper's necessary and sufficient sizes, budgets split in halves.

    ``failure`` is the chance that a sufficient size falls short nevertheless.
    """
    alpha = float(audit.claim.alpha) / audit.mechanisms
    target = audit.claim.target
    # The paper's sizes are for a common margin and width. The narrowest stands for all, as a share
    # of its range: limits in kg and in percent have no margins to compare.
    margin, width = min(m / r.width for m, r in zip(margins, requirements, strict=True)), 1.0
    least = None
    if all(r.slack is not None for r in requirements):
        # The least divergence belongs to the largest ceiling, which is the one that is charged.
        divergence = min(-float(log_chernoff(r.unit_cutoff, 1, r.unit_limit)) for r in requirements)
        least = least_records(divergence, target=target, alpha_target=alpha / 2)
    positive = margin > 0.0
    return PaperLimits(
        least_records=least,
        least_releases=least_releases_named(target=target, alpha_mechanism=alpha / 2),
        sufficient_records=sufficient_records_named(
            margin=margin, width=width, alpha=alpha / 2, beta=failure,
            n_releases=audit.releases, n_requirements=len(requirements),
        ) if positive else None,
        direct_shortfall=direct_shortfall(
            n_records=audit.n, n_releases=audit.releases, n_requirements=len(requirements),
            margin=margin, slack=margin / 2, width=width, budget=(alpha / 2, alpha / 2),
            failure=(failure / 2, failure / 2),
        ) if positive else None,
    )  # fmt: skip


# Simulated targets of the table of ways, and of the chosen plan.
TABLE, FINE = 1000, 4000

# Pairs of a requirement and a kind of release that a plan is judged on, some seconds.
MOST_JUDGED = 20_000

# How often the records of a plan are corrected where fresh targets give it another power.
CORRECTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Recommendation(ShownAsPage):
    """The plan to register, what else was considered, and what it rests on."""

    question: Question
    law: Law
    chosen: Option
    doubted: Power  # of the chosen plan, if the pilot was too hopeful
    doubted_reliability: float  # and how many releases are valid then
    alternatives: tuple[Option, ...]  # every way, tuned, at the chosen size
    sizes: tuple[Option, ...]  # the best way at every size that was tried
    needs: AuditNeeds
    paper: PaperLimits
    judged: Law  # that the chosen plan was judged under: with all requirements where that is quick
    every: int  # requirements there are, of which `law` may have the nearest alone
    seed: int
    ramps: tuple[RampCost, ...] = ()  # what other widths would cost, where scores have ramps
    complete: bool = True  # whether the search asked every test at every size that decides

    @property
    def reaches(self) -> bool:
        """Whether the wanted power is reached, where one was wanted."""
        wanted = self.question.power
        return wanted is None or self.chosen.power.value >= wanted

    @property
    def shortfall(self) -> str | None:
        """That the wanted power is not reached, and why; None where it is, or none is wanted."""
        if self.reaches:
            return None
        # No more than the search has seen.
        why = self._too_few_draws or "no affordable size reaches it."
        if not self._too_few_draws and self.judged.others is not None:
            why = f"no size that was tried with all {self.every:,} requirements reaches it."
        elif not self._too_few_draws and not self.complete:
            why = (
                "no size that was tried reaches it. Not every test was tried at every size, which "
                "takes too long: fewer records at the most, or a fixed number of draws, leave more "
                "time for each."
            )
        return f"That is short of the wanted {self.question.power:g}: {why}"

    @property
    def _too_few_draws(self) -> str | None:
        """That the wanted power fails at the fixed number of draws, whatever the records."""
        releases, valid = self.question.releases, self.law.reliability
        if releases is None or self.question.power is None:
            return None
        counts = np.arange(1, releases + 1)
        enough = upper_tail(counts, releases, self.question.target) <= self.question.level
        least = int(counts[enough][0]) if enough.any() else releases
        chance = float(upper_tail(least, releases, valid))
        if chance >= self.question.power:
            return None
        return (
            f"of the {releases} draws {least} have to be valid, of which the chance is about "
            f"{chance:.3g} where {valid:.1%} of releases are, with any number of records: take "
            "more draws."
        )

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why the plan cannot succeed, or falls short of the wanted power; empty if it does not."""
        return (*self.needs.obstacles, *([self.shortfall] if self.shortfall else []))

    @property
    def sizes_asked(self) -> tuple[str, str]:
        """The two numbers that a person asks for first."""
        plan = self.chosen.plan
        return f"Target {self.question.unit}: {plan.n:,}", f"Draws: {plan.releases:,}"

    @property
    def summary(self) -> tuple[str, ...]:
        """The answer in three lines, and more where it is not what was wanted, or may be more."""
        chance = f"Chance of validating a reliability above {self.chosen.plan.claim.target:g}"
        short = (self.shortfall,) if self.shortfall else ()
        asked = f"{chance}: {self.most}{self.chosen.power.words}"
        return (*self.sizes_asked, *self._strata_words, asked, *short)

    @property
    def _strata_words(self) -> tuple[str, ...]:
        """How many units each stratum has, where they are not as many as were declared."""
        design, n = self.question.design, self.chosen.plan.n
        if not isinstance(design, Stratified) or n == design.n_records:
            return ()
        sizes = ", ".join(f"{name} {size:,}" for name, size in design.of_size(n).sizes.items())
        return (f"Strata: {sizes}; scaled from {design.n_records:,} in their proportions",)

    @property
    def most(self) -> str:
        """What to say before the chance: nothing, or that it may be less."""
        return "at most " if len(self.judged.every) < self.every else ""

    @property
    def scope(self) -> tuple[str, ...]:
        """With how many requirements the chances are told, where not all of them are with all."""
        if len(self.law.requirements) == self.every:
            return ()
        if self.most:
            return (
                f"All {self.every:,} requirements leave no more chance than the nearest do: every "
                "chance here is the most that there may be. To simulate all takes minutes, or a "
                "slack or ramp of each.",
            )
        kinds = self.judged.releases.size
        few = f", on {kinds} releases" if kinds < self.law.releases.size else ""
        return (
            f"The chance of this plan is that with all {self.every:,} requirements{few}. Ways, "
            "other sizes and other laws were compared with the nearest, which leave more.",
        )

    def __str__(self) -> str:
        return "\n".join(self.summary)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "requirements": {"all": self.every, "judged": len(self.judged.every)},
            "law": {
                "origin": self.law.origin,
                "reliability": self.law.reliability,
                "margins": {
                    r.name: float(m)
                    for r, m in zip(self.law.requirements, self.law.margins, strict=True)
                },
            },
            "chosen": self.chosen.to_dict(),
            "doubted": {
                "reliability": self.doubted_reliability,
                "power": self.doubted.to_dict(),
            },
            "reaches_wanted_power": self.reaches,
            "shortfall": self.shortfall,
            "alternatives": [option.to_dict() for option in self.alternatives],
            "sizes": [option.to_dict() for option in self.sizes],
            "needs": {**asdict(self.needs), "obstacles": list(self.needs.obstacles)},
            "paper": self.paper.to_dict(),
            "ramps": [{**asdict(one), "ramps": list(one.ramps)} for one in self.ramps],
            "digits": self.question.digits,
            "seed": self.seed,
        }


def past_hope(law: Law, target: float) -> str:
    """Say why no audit should validate a mechanism, what holds it up, and how sure that is.

    Parameters
    ----------
    law
        The law of its releases, which are valid too seldom.
    target
        The share of valid releases that is asked for.
    """
    said = [
        f"{law.origin}: {law.reliability:.1%} of releases meet every requirement, not above the "
        f"{target:g} that are asked for: no audit should validate this mechanism"
    ]
    missed = law.releases @ (law.means >= law.limits - 1e-12)
    worst = int(missed.argmax())
    if missed[worst] > 0.0:
        name = law.requirements[worst].name
        said.append(f"{name!r} is missed most, by {missed[worst]:.0%} of releases")
    if law.sampled:
        low, high = wilson_interval(int(law.valid.sum()), law.releases.size)
        said.append(
            f"so few pilots leave anything from {low:.0%} to {high:.0%} possible: draw more of "
            "them by --pilot-draws, relax that limit in audit.toml, or plan for a share that you "
            "assume, by --reliability"
        )
    return "; ".join(said)


def recommend(
    law: Law,
    question: Question,
    *,
    seed: int = 0,
    repetitions: int = FINE,
    effort: float = EFFORT,
    compare: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Recommendation:
    """Return the most powerful plan within the question's limits, or the cheapest good one.

    Parameters
    ----------
    law
        What is believed about the mechanism: every power is one under this law.
    question
        Which claim is made, which sizes are open, and what they cost.
    seed
        Of the simulated targets.
    repetitions
        Simulated targets for the power of the chosen plan.
    effort
        How many losses one evaluation of a search may bet on, and a tenth of what the chosen plan
        may: less is quicker, and every power says its Monte Carlo error. Where so few do not do,
        tests that bet on records are left out of the search; and a search that takes too many
        evaluations ends with the best sizes so far.
    compare
        Whether every way is tuned at the chosen sizes and listed; else only those that were still
        ahead in the search, which is quicker.
    progress
        Called with what is done, how much of it, and of how much.

    Returns
    -------
    Recommendation
        The plan (``chosen``), what else was considered, and why a plan could not succeed
        (``needs``).

    Raises
    ------
    RegistryError
        Where the law is not more reliable than the target, or nothing limits the records.

    Examples
    --------
    >>> from proxyguard import Question, Requirement, assumed_law
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> law = assumed_law([error], margins=[0.04], reliability=0.95)
    >>> question = Question(reliability_target="0.8", n=1000, releases=60, modes=["direct"])
    >>> found = recommend(law, question, repetitions=200)
    >>> found.chosen.way.label, round(found.chosen.power.value, 1)
    ('direct, sharp', 1.0)
    """
    if not isinstance(law, Law) or not isinstance(question, Question):
        raise RegistryError(f"recommend takes a Law and a Question, got {law!r} and {question!r}")
    seed = whole(seed, "seed", least=0)
    repetitions = whole(repetitions, "repetitions", most=MOST_REPETITIONS)
    effort, compare = real(effort, "effort", low=1.0), flag(compare, "compare")
    callback(progress, "progress")
    if law.reliability <= question.target + 1e-9:  # a sum of chances is rounded
        raise RegistryError(past_hope(law, question.target))
    if question.unlimited:
        raise RegistryError(
            "nothing limits the number of records: fix it, give a budget or a largest number, or "
            "ask for a power"
        )
    _check_units(law, question)
    question, whole_law = question.about(law), law
    law = law.alone
    everything = ways(question, law.requirements)
    sound = [way for way in everything if not _dominated(way, law.requirements, question)]
    searched = [way for way in sound if way.kind.searched(way)] or sound
    small = law.thinned()  # of a thousand pilots few differ; the chosen plan is judged on all
    search = Search(small, question, searched, seed, progress, effort)
    found = search.cheapest() if question.power is not None else search.most_powerful()
    best = search.pick().plan

    def tuned_at(n: int, releases: int, compared: Sequence[Way]) -> list[Option]:
        tuning = Pool(small, question, n, releases, seed=seed, repetitions=COARSE, effort=effort)
        # Judged on targets that tuned nothing: on its own ones the luckiest setting looks better
        # than it is.
        fresh = Pool(
            small, question, n, releases, seed=seed + 1, repetitions=TABLE, effort=effort
        )  # fmt: skip
        made, still_open = [], open_ways(compared, small, n, effort)
        for done, way in enumerate(still_open, start=1):
            option = tune(small, question, way, tuning.of(way), releases)
            if option is not None:
                made.append(judged(law, option, fresh.of(way, tuned=True)))
            progress("ways", done, len(still_open))
        return made

    # Chosen is among the ways that the search left ahead; every other is for the table alone.
    rivals = tuned = tuned_at(best.n, best.releases, search.ways)
    top = max(option.power.value for option in rivals)
    # Among ways that are alike, the plainest: what a reader has seen before.
    chosen = max(
        (o for o in rivals if o.power.value >= top - CLOSE),
        key=lambda o: (plainness(o.way), o.power.exact, o.power.value),
    )
    if top == 0.0:  # what it would take is then told of the way that needs the least
        chosen = min(rivals, key=_need)
    chosen = _reaching(
        whole_law, question, [chosen, *_larger(found, chosen)], seed + 2, (repetitions, effort)
    )
    if compare:  # one table is about one size
        tuned = tuned_at(chosen.plan.n, chosen.plan.releases, everything)
    doubt, under = doubted_law(law, question.target), _judged_under(whole_law, chosen, effort)
    if under.others is None:  # what is compared is judged alike
        tuned = _with(tuned, chosen)
    return Recommendation(
        question=question, law=law, chosen=chosen,
        # Doubted with the nearest requirements alone: no more than what all leave undoubted.
        doubted=min(
            _afresh(doubt, chosen, seed + 3, (min(TABLE, repetitions), effort)).power,
            chosen.power, key=lambda power: power.value,
        ),
        doubted_reliability=doubt.reliability,
        alternatives=tuple(sorted(tuned, key=lambda o: -o.power.value)),
        sizes=(*(o for o in found if not _same_size(o, chosen)), chosen),
        needs=needs(chosen.requirements, chosen.plan),
        paper=paper_limits(chosen.requirements, [float(m) for m in law.margins], chosen.plan),
        judged=under, every=len(whole_law.every),
        seed=seed, complete=search.complete,
        ramps=chosen.plan.claim.ramp_costs(chosen.plan, chosen.requirements, small),
    )  # fmt: skip


def _same_size(one: Option, other: Option) -> bool:
    return (one.plan.n, one.plan.releases) == (other.plan.n, other.plan.releases)


def _with(tuned: Sequence[Option], chosen: Option) -> list[Option]:
    """Return the ways with the chosen one as it was judged: a plan has one power."""
    return [
        chosen if _same_size(option, chosen) and option.way == chosen.way else option
        for option in tuned
    ]


def _larger(known: Sequence[Option], chosen: Option) -> list[Option]:
    """Return the sizes with more draws than the chosen one has, the cheapest of each number first.

    A search sees few targets, so that a number of draws may have seemed enough that is not.
    """
    cheapest: dict[int, Option] = {}
    for option in sorted(known, key=lambda option: (option.cost, -option.power.value)):
        if option.plan.releases > chosen.plan.releases and option.power.value >= chosen.power.value:
            cheapest.setdefault(option.plan.releases, option)
    return list(cheapest.values())[:CORRECTIONS]


def _reaching(
    law: Law, question: Question, options: Sequence[Option], seed: int, limits: tuple[int, float]
) -> Option:
    """Return the first option that reaches the goal on fresh targets, or else the first of all."""
    tried = []
    for option in options:
        tried.append(_enough(law, question, option, seed, limits))
        if question.power is None or tried[-1].power.value >= question.power:
            return tried[-1]
    return max(tried, key=lambda option: option.power.value)


def _check_units(law: Law, question: Question) -> None:
    """Refuse losses of 0 and 1 where units are clusters: their means spread far less."""
    counted = [r.name for r in law.every if r.two_valued]
    if counted and not sees_losses(question.design):
        raise RegistryError(
            f"{', '.join(counted)}: two-valued, and the units of this design are clusters, whose "
            "means are not: leave two_valued out, and give margins, standard deviations and pilot "
            "losses as those of cluster means"
        )


def _need(option: Option) -> tuple[int, int, int]:
    """Order hopeless options by their obstacles, the plainest first, then by records needed."""
    found = needs(option.requirements, option.plan)
    return len(found.obstacles), -plainness(option.way), found.least_records or 10**9


def _dominated(way: Way, requirements: Sequence[Requirement], question: Question) -> bool:
    """Whether another test is never behind: such a way is compared, and never recommended.

    Bentkus is never above Chernoff and Chernoff never above Hoeffding; on two-valued losses
    the binomial test is exact, and never above any of them. Of these Hoeffding's alone covers
    strata that weigh otherwise than their sizes do, and is ahead of bets there at times.
    """
    if way.test is ComponentTest.HOEFFDING:
        return question.design.sampling in ComponentTest.CHERNOFF.samplings
    if way.test is ComponentTest.CHERNOFF:
        return True
    return way.test is ComponentTest.BENTKUS and all(r.two_valued for r in requirements)


def _enough(
    law: Law, question: Question, option: Option, seed: int, limits: tuple[int, float]
) -> Option:
    """Return the option on fresh targets, with more or fewer records where the goal was missed."""
    first = tried = _afresh(law, option, seed, limits)
    goal, releases = question.power, option.plan.releases
    if goal is None or question.n is not None:
        return first
    # Every correction has fresh targets of its own; they are few, so that luck picks little.
    low, high, chosen = 0, question.most_records_with(releases) + 1, None
    for left in range(CORRECTIONS if law.others is None else 2 * CORRECTIONS, -1, -1):
        reached, n = tried.power.value, tried.plan.n
        if reached >= goal:
            chosen, high = tried, n
        else:
            low = n
        if not left or goal <= reached < goal + 2 * NEAR or high <= TOLERANCE * low + 1:
            break
        n = next_size(n, reached, goal, low, high)
        if law.others is not None:  # of many requirements power rises more steeply than one's
            most = question.most_records_with(releases)
            n = min(n, 2 * low) if high > most else round((low * high) ** 0.5)
        larger = replace(option, plan=replace(option.plan, n=n), cost=question.cost(n, releases))
        tried = _afresh(law, larger, seed, limits)
    # Where the draws limit the power, more records buy nothing: then the first plan stands.
    return chosen or (first if law.others is None else tried)


def _judged_under(law: Law, option: Option, effort: float) -> Law:
    """Return the law with all requirements where an option can be judged by them in some seconds.

    A slack or a ramp has to be chosen for each: such plans are judged by the nearest alone.
    """
    few = law.thinned()
    quick = bets_on(few, option.plan.n, option.way) * LEAST_TARGETS <= 10 * effort
    quick = quick and few.releases.size * len(law.every) <= MOST_JUDGED
    return few if quick and law.others is not None and option.way.tests != "-" else law.alone


def _afresh(law: Law, option: Option, seed: int, limits: tuple[int, float]) -> Option:
    """Return the option with its power on targets that no choice has seen, so many at the most."""
    repetitions, effort = limits
    law = _judged_under(law, option, effort)
    size, way = option.plan.n, option.way
    # Better few kinds of release on many targets than all of them on a handful.
    if affordable(bets_on(law, size, way), 10 * effort, repetitions) < min(repetitions, TABLE):
        law = law.thinned()
    repetitions = affordable(bets_on(law, size, way), 10 * effort, repetitions)
    own = law.requiring(option.requirements)
    return replace(option, power=power(own, option.plan, repetitions=repetitions, seed=seed))
