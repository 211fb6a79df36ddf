"""What a trial's audit measured, read from its record and told in the words of the demands."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from proxyguard.adapters.library import Library
from proxyguard.audit.audit import Audit
from proxyguard.audit.development import load_fitted, policy_predictions
from proxyguard.audit.folder import EVIDENCE
from proxyguard.audit.rules import measures_in
from proxyguard.certificate.wording import at_least, at_most, confidence, percent
from proxyguard.documents.certificate import MechanismVerdict, Predicate, ReleaseVerdict
from proxyguard.documents.evidence import Evidence, GroupEvidence
from proxyguard.draw.protocol import Fitted, Seed, features, outcomes, predict
from proxyguard.errors import DrawError
from proxyguard.exact.multiplicity import holm
from proxyguard.exact.rounding import Array
from proxyguard.losses.measure import SIDES, Measure, loss_of
from proxyguard.modes.evidence import Decision
from proxyguard.modes.planning import planned
from proxyguard.plan.law import drawn_together, estimated_law, nearest_requirements
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import recommend
from proxyguard.plan.targets import Targets
from proxyguard.registry.design import Design
from proxyguard.registry.parts import ClaimPart, Procedure, RequirementPart
from proxyguard.registry.requirement import Form, Requirement, required
from proxyguard.registry.target import Outcome
from proxyguard.report.advice import (
    EFFORT,
    KINDS,
    REPETITIONS,
    Unsettled,
    law_of,
    nearest,
    unit_deviations,
    unit_means,
)
from proxyguard.trial.demands import Demand, Gain, decimal, losses_of, number_words
from proxyguard.trial.rows import Standing
from proxyguard.trial.trial import SeenConclusion, SeenRequirement, SeenVerdict

if TYPE_CHECKING:
    import pandas as pd


# Sentences on what one demand requires that a reader is given; there is one for each mean.
MOST_SENTENCES = 3


# Share of good releases that an audit shows that is large enough, and of targets that show one.
MOSTLY = 0.8
# Sizes and limits that are tried beyond those that the normal law proposes, and by how much more.
TRIES, STEP = 4, 1.25
# More records than this are no advice.
MOST_FRESH = 100_000


# Folds of the rows that train on which a gain is estimated, and how many rows that takes at most.
FOLDS, MOST_FOLDED = 3, 20_000


def gains_of(
    development: pd.DataFrame, outcome: Outcome, learner: str, *, seed: int
) -> dict[str, Gain]:
    """Return by loss what a model of the rows that train gains; no row that judges is asked.

    Parameters
    ----------
    development
        The rows that train, typed, without columns that are left out.
    outcome
        What is predicted.
    learner
        The learner that sources and releases are compared by.
    seed
        Of the folds.

    Returns
    -------
    dict
        On rows that the model did not learn from; nothing where a fold teaches nothing.
    """
    order = np.random.default_rng([seed, 2]).permutation(len(development))[:MOST_FOLDED]
    names = [name for name in development.columns if name != outcome.column]
    library = Library(Procedure(library=(learner,)), outcome, names)
    judged: list[tuple[Array, Array, Array]] = []
    for held in np.array_split(order, FOLDS):
        taught, rest = (development.iloc[rows] for rows in (np.setdiff1d(order, held), held))
        seen, truth = (outcomes(rows[outcome.column], outcome, "") for rows in (taught, rest))
        try:
            model = library.fit(taught, None, Seed(seed))
        except DrawError:  # one label alone
            return {}
        constant = policy_predictions("prevalence", seen, truth.size, outcome)
        judged.append((truth, constant, predict(model, features(rest, names), outcome)))
    truth, constant, learned = map(np.concatenate, zip(*judged, strict=True))
    gains = {}
    for name, (declared, *_) in losses_of(outcome).items():
        part = RequirementPart(name=name, loss=declared, form="absolute", limit="0.5")
        loss = loss_of(part, outcome, None)(None)
        gained = loss(truth, constant) - loss(truth, learned)
        error = float(gained.std() / np.sqrt(gained.size))
        gains[name] = Gain(mean=float(gained.mean()), error=error)
    return gains


def needed_errors(level: float) -> float:
    """Return how many standard errors a mean lies below a limit that it is mostly shown to keep.

    >>> round(needed_errors(0.05), 2)
    2.49
    """
    return float(norm.isf(level) + norm.isf(1.0 - MOSTLY))


@dataclass(frozen=True, kw_only=True)
class NamedChance:
    """Named releases as they were estimated, and the claim of the audit that follows."""

    requirements: Sequence[Requirement]
    means: Array
    """Unit means, (R, J)."""
    deviations: Array
    """Deviations of a loss on the unit scale, (J,)."""
    claim: ClaimPart
    design: Design
    seed: int

    @cached_property
    def good(self) -> Array:
        """The means of the releases that keep all limits."""
        limits = np.array([r.unit_limit for r in self.requirements])
        return self.means[np.all(self.means < limits, axis=1)]

    @property
    def _errors(self) -> float:
        return needed_errors(float(Fraction(self.claim.alpha)) / len(self.means))

    def is_most(self, shown: Array) -> bool:
        """Return whether most good releases are shown on average."""
        return bool(np.mean(shown) >= MOSTLY * len(self.good))

    def shown(self, n: int, limits: Sequence[Requirement] | None = None) -> Array:
        """Return how many good releases Holm's procedure finds, on each of simulated targets."""
        requirements = self.requirements if limits is None else limits
        good = self.good
        ends = np.array([r.unit_limit for r in requirements])
        margins = (ends - good) / np.maximum(self.deviations, 1e-9)
        kept = nearest_requirements(margins)
        # A few kinds of release, and the requirements that they come nearest to missing.
        order = np.argsort(margins.min(axis=1), kind="stable")
        parts = np.array_split(good[order][:, kept], min(KINDS, len(good)))
        sizes = [len(part) for part in parts]
        law = estimated_law(
            [requirements[j] for j in kept],
            means=np.array([part.mean(axis=0) for part in parts]),
            chances=np.array(sizes) / len(good),
            deviations=self.deviations[kept].tolist(),
            origin="",
        )
        alpha = float(Fraction(self.claim.alpha))
        tests = self.claim.fixed_claim().tests(self.design, law.requirements)
        targets = Targets(law, n, repetitions=REPETITIONS // 4, seed=self.seed)
        pvalues = targets.release_pvalues(tests, level=alpha / len(self.means))
        rest = np.ones(len(self.means) - len(good))  # they count among all, and are never found
        return np.array(
            [holm(np.append(np.repeat(p, sizes), rest), alpha=alpha).sum() for p in pvalues]
        )

    def records_for(self, places: Sequence[int]) -> float:
        """Return about how many records show most good releases to keep these requirements."""
        limits = np.array([self.requirements[j].unit_limit for j in places])
        margins = np.maximum(limits - self.good[:, places], 1e-9)
        sizes = (self._errors * self.deviations[places] / margins) ** 2
        return float(np.quantile(sizes.max(axis=1), MOSTLY))

    def enough_records(self, least: int, near: float) -> int | None:
        """Return how many records show most good releases; nothing where hardly any number does."""
        for _ in range(TRIES):
            size = int(float(f"{max(least, near):.1e}"))
            if size > MOST_FRESH:
                break
            if size > least and self.is_most(self.shown(size)):
                return size
            near = size * STEP
        return None

    def enough_limit(self, n: int, places: Sequence[int], asked: float) -> float | None:
        """Return a limit of some requirements with which ``n`` records show most good releases.

        Parameters
        ----------
        n
            The records.
        places
            The requirements, which have one limit.
        asked
            Their limit now, as it is typed.

        Returns
        -------
        float or None
            As it is typed, or nothing where other requirements stand in the way, too.
        """
        widths = np.array([self.requirements[j].width for j in places])
        lows = np.array([self.requirements[j].low for j in places])
        limits = np.array([self.requirements[j].limit for j in places])
        reach = self.good[:, places] + self._errors * self.deviations[places] / np.sqrt(n)
        times = float(np.quantile(np.max((lows + reach * widths) / limits, axis=1), MOSTLY))
        for _ in range(TRIES):
            limit = float(f"{asked * max(1.0, times):.1e}")
            if limit >= 0.5:
                break
            wider = list(self.requirements)
            for j, old in zip(places, limits, strict=True):
                wider[j] = replace(wider[j], limit=float(old) * limit / asked)
            if self.is_most(self.shown(n, wider)):
                return limit
            times = STEP * limit / asked
        return None


@dataclass(frozen=True, kw_only=True)
class SeenRecord:
    """The record of a trial's audit, with the names that the user gave."""

    predicate: Predicate
    claim: ClaimPart
    design: Design
    groups: Mapping[str, GroupEvidence]
    """The evidence of what makes releases, by its name; of named releases there is one group."""
    measures: Sequence[Measure]
    names: Mapping[str, Sequence[str]]
    """The releases as the user calls them, in the order of the evidence."""
    n_records: int
    outcome: Outcome | None
    source: Fitted | None
    """The model of the real rows, where something is predicted."""

    @classmethod
    def of(cls, audit: Audit, names: Mapping[str, Sequence[str]], n_records: int) -> SeenRecord:
        """Return the record of the one target that a trial's audit has."""
        registry = audit.folder.registry(audit.journal())
        (member,) = registry.declaration.members
        groups = audit.folder.document(Evidence, EVIDENCE).by_group
        model = registry.members[member.name].source
        # Named releases are one group, whatever the record calls it.
        order = names if set(names) == set(groups) else groups
        return cls(
            predicate=audit.certificate().predicate,
            claim=registry.declaration.claim,
            design=member.target.sampling_design,
            groups={name: groups[name] for name in order},
            measures=measures_in(registry, member),
            names=names,
            n_records=n_records,
            outcome=member.target.predicted,
            source=None if model is None else load_fitted(audit.folder, model.model, model, ()),
        )

    def promises(self, demand: Demand) -> tuple[str, ...]:
        """Return what one demand requires of a release, in the words of every report."""
        asked = [m.requirement for m in self.measures if m.part in demand.scale]
        said = required(asked, self.design.over)
        more = len(said) - MOST_SENTENCES
        shown = said if more <= 0 else (*said[:MOST_SENTENCES], f"So of {more:,} more columns.")
        return (*shown, demand.why) if demand.why else shown

    def _places(self, demand: Demand) -> list[int]:
        """Return where the losses of a demand stand."""
        return [j for j, measure in enumerate(self.measures) if measure.part in demand.scale]

    def requirement(self, demand: Demand, *, decided: bool) -> SeenRequirement:
        """Return what was seen of one demand, in its unit.

        Parameters
        ----------
        demand
            Whose losses are told; of many shares the largest deviation of each release.
        decided
            Whether anything is decided here.
        """
        at = self._places(demand)
        scale = np.array([demand.scale[self.measures[j].part] for j in at])
        estimates = np.concatenate(
            [np.array(group.derived.estimates, dtype=np.float64) for group in self.groups.values()]
        )[:, at] * scale  # fmt: skip
        widest = np.argmax(estimates, axis=1)
        several = len(at) > (2 if demand.two_sided else 1)
        makers = self.names if len(self.names) > 1 else {"": self.names[next(iter(self.names))]}
        return SeenRequirement(
            name=demand.name,
            promise=" ".join(self.promises(demand)),
            limit=demand.limit,
            unit=demand.unit,
            makers=tuple(maker for maker, names in makers.items() for _ in names),
            releases=tuple(name for names in self.names.values() for name in names),
            estimates=tuple(float(e) for e in estimates[np.arange(len(estimates)), widest]),
            where=tuple(_where(self.measures[at[j]]) if several else "" for j in widest),
            decided=self._decided_of(at) if decided else "",
        )

    def _decided_of(self, at: Sequence[int]) -> str:
        """Say of how many releases a demand was shown to hold, or to be missed.

        A release that meets all requirements is among those that meet each: its p-value of all is
        the largest of these.
        """
        alpha = float(Fraction(self.claim.alpha))
        groups = {
            name: np.array(group.derived.pvalues, dtype=np.float64)[:, at].max(axis=1)
            for name, group in self.groups.items()
        }
        if self._mechanisms:  # of what makes releases nothing is decided by one of them
            shown = {name: int((pvalues <= alpha).sum()) for name, pvalues in groups.items()}
            shares = "; ".join(
                f"{f'{name}: ' if len(groups) > 1 else ''}{count:,} of {len(groups[name]):,}"
                for name, count in shown.items()
            )
            return f"Shown to hold, each release taken alone: {shares}."
        (pvalues,) = groups.values()
        names = {self.measures[j].requirement.name for j in at}
        verdicts = [v for v in self.predicate.verdicts if isinstance(v, ReleaseVerdict)]
        missed = np.array([bool(names.intersection(v.violated)) for v in verdicts])
        holds = holm(pvalues, alpha=alpha) & ~missed
        counts = {"holds": holds, "is missed": missed, "stays open": ~holds & ~missed}
        told = [f"{words} for {int(of.sum()):,}" for words, of in counts.items() if of.any()]
        return f"It {', '.join(told)} of {len(verdicts):,} releases."

    def finest(self, demand: Demand) -> float:
        """Return the least difference that these records can tell of a demand, in its unit.

        About: of a release that is as good as the table, four of five such targets show it.
        """
        at = self._places(demand)
        deviations = [unit_deviations(group)[at] for group in self.groups.values()]
        widths = np.array([
            self.measures[j].requirement.width * demand.scale[self.measures[j].part] for j in at
        ])  # fmt: skip
        spread = float(np.median(np.concatenate([d * widths for d in deviations])))
        return self._deviations_needed * spread / float(np.sqrt(self.n_records))

    @property
    def _deviations_needed(self) -> float:
        """How many standard errors lie between a mean and a limit that it is shown to keep."""
        alpha, tried = float(Fraction(self.claim.alpha)), 1
        if not self._mechanisms:
            (names,) = self.names.values()
            tried = len(names)
        return needed_errors(alpha / tried)

    @cached_property
    def _mechanisms(self) -> list[MechanismVerdict]:
        """The verdicts on what makes releases, in the user's order; none on named ones."""
        said = [v for v in self.predicate.verdicts if isinstance(v, MechanismVerdict)]
        return sorted(said, key=lambda verdict: list(self.names).index(verdict.mechanism))

    def verdicts(self, unusable: Mapping[str, str]) -> tuple[SeenVerdict, ...]:
        """Return the decision on what makes the releases, or on each named one.

        Parameters
        ----------
        unusable
            Named releases that nothing can be learned from: they meet nothing, without any test.
        """
        if self._mechanisms:
            return tuple(
                SeenVerdict(
                    name=v.mechanism, decision=v.decision, asked=v.reliability_target,
                    # Where a family is decided by its p-values, no bound belongs to the decision.
                    lower=v.reliability_lower if v.certified == "bounds" else None,
                    upper=v.reliability_upper if v.certified == "bounds" else None,
                )
                for v in self._mechanisms
            )  # fmt: skip
        (names,) = self.names.values()
        named = zip(names, (v.decision for v in self.predicate.verdicts), strict=True)
        failed = ((name, Decision.VIOLATION) for name in unusable)
        return tuple(SeenVerdict(name=name, decision=said) for name, said in (*named, *failed))

    def conclusions(self, unusable: Mapping[str, str]) -> tuple[SeenConclusion, ...]:
        """Return what is decided, in plain words: of each generator, or of all named releases."""
        sure = confidence(Fraction(self.claim.alpha))
        if self._mechanisms:
            return tuple(self._of_mechanism(verdict, sure) for verdict in self._mechanisms)
        return (*self._of_named(sure), *_of_unusable(unusable))

    def _of_mechanism(self, v: MechanismVerdict, sure: str) -> SeenConclusion:
        alone = len(self._mechanisms) == 1
        at_once = "" if alone else ", for all generators at once"
        aim, asked = v.reliability_target, percent(v.reliability_target)
        meet = "of fresh releases meet all requirements"
        lower = at_least(v.lower.value, aim)
        upper = at_most(1.0 if v.upper is None else v.upper.value, aim)
        if v.certified == "decisions":
            shown = {
                Decision.VALIDATED: f"more than {asked} {meet}",
                Decision.VIOLATION: f"fewer than {asked} {meet}, and more were asked for",
                Decision.UNRESOLVED: f"nothing shows whether more than {asked} {meet}",
            }[v.decision]
        else:
            shown = {
                Decision.VALIDATED: f"at least {lower} {meet}",
                Decision.VIOLATION: f"at most {upper} {meet}",
                Decision.UNRESOLVED: f"between {lower} and {upper} {meet}",
            }[v.decision] + f"; more than {asked} were asked for"
        if v.decision is Decision.UNRESOLVED:
            said = [f"{shown}.", "That is no evidence against them: more records or more releases "
                    "would tell."]  # fmt: skip
        else:
            said = [f"with {sure} confidence{at_once}, {shown}."]
        if v.decision is not Decision.VALIDATED:
            said += self._held_back(self.groups[v.mechanism])
        name = "" if alone else v.mechanism
        return SeenConclusion(name=name, decision=v.decision, sentences=tuple(said))

    def _held_back(self, group: GroupEvidence) -> Iterator[str]:
        """Say which requirements keep releases from being shown good, each taken alone."""
        pvalues = np.array(group.derived.pvalues, dtype=np.float64)
        short = pvalues.max(axis=1) > float(Fraction(self.claim.alpha))
        parts = [self.measures[j].part for j in np.argmax(pvalues[short], axis=1)]
        if parts:
            yield (
                f"{len(parts):,} of {len(short):,} releases, each taken alone, are not shown to "
                f"meet all requirements; {_least_certain(parts)}."
            )

    def _of_named(self, sure: str) -> Iterator[SeenConclusion]:
        (names,) = self.names.values()
        verdicts = [v for v in self.predicate.verdicts if isinstance(v, ReleaseVerdict)]
        said = {
            Decision.VALIDATED: "meet all requirements",
            Decision.UNRESOLVED: "stay open: more records would tell",
            Decision.VIOLATION: "miss a requirement",
        }
        for decision, meaning in said.items():
            chosen = [
                (name, v) for name, v in zip(names, verdicts, strict=True) if v.decision is decision
            ]
            if not chosen:
                continue
            which = ", ".join(name for name, _ in chosen[:6])
            which += " and more" if len(chosen) > 6 else ""
            level = "" if decision is Decision.UNRESOLVED else f"with {sure} confidence at once, "
            lines = [f"{level}{len(chosen):,} of {len(names):,} releases {meaning} ({which})."]
            if decision is Decision.UNRESOLVED:
                least = _least_certain([self._part_of(v.binding) for _, v in chosen])
                lines.append(f"{least[0].upper()}{least[1:]}.")
            yield SeenConclusion(name="", decision=decision, sentences=tuple(lines))

    def _part_of(self, requirement: str) -> str:
        parts = {measure.requirement.name: measure.part for measure in self.measures}
        return parts.get(requirement, requirement)

    def lenient(
        self, demands: Sequence[Demand], source: pd.DataFrame, judging: pd.DataFrame
    ) -> dict[str, str]:
        """Say of every limit that a model which learned nothing keeps that it does.

        Where one answer is nearly always right, no release is far worse than the real rows.
        """
        if self.source is None or self.outcome is None:
            return {}
        outcome = self.outcome
        y, truth = (outcomes(rows[outcome.column], outcome, "") for rows in (source, judging))
        names = [name for name in source.columns if name != outcome.column]
        learned = predict(self.source, features(judging, names), outcome)
        constant = policy_predictions("prevalence", y, truth.size, outcome)
        losses = {m.part: m.loss(None) for m in self.measures if m.loss is not None}
        said = {}
        for demand in (demand for demand in demands if demand.name in losses):
            scale, loss = demand.scale[demand.name], losses[demand.name]
            real, nothing = (float(loss(truth, p).mean()) * scale for p in (learned, constant))
            if nothing <= real:
                said[demand.name] = (
                    f"The limit of {demand.name!r} says nothing here: the model of the real rows "
                    f"comes to {number_words(real, demand.unit)}, one that always gives the same "
                    f"answer to {number_words(nothing, demand.unit)}, so the columns hardly tell "
                    f"{outcome.column!r}. No other limit would say more: predict a column that "
                    "others tell."
                )
            elif nothing - real < demand.limit:
                said[demand.name] = (
                    f"The limit of {demand.name!r} says little here: a model that always gives the "
                    f"same answer comes to {number_words(nothing, demand.unit)}, the model of the "
                    f"real rows to {number_words(real, demand.unit)}, so a release that teaches "
                    f"nothing keeps it too. {self._smaller(demand, (nothing - real) / 2.0)}"
                )
        return said

    def _smaller(self, demand: Demand, limit: float) -> str:
        """Propose a smaller limit, as it is shown; one that records cannot settle is none."""
        finest = self.finest(demand)
        if limit < finest:
            return (
                f"No limit that says more can be settled: {self.n_records:,} records cannot tell "
                f"differences under about {number_words(float(f'{finest:.1e}'), demand.unit)} here."
                " Predict a column that others tell."
            )
        typed = decimal(float(f"{limit * demand.asked / demand.limit:.1g}"))
        return f"A smaller one: --limit {shlex.quote(f'{demand.name}={typed}')}"

    def failures(self) -> list[str]:
        """Return which draws of generators gave no release, and why; of each the first three."""
        return [
            f"{name}, {failure.seed}: no usable release, which counts as the worst one: "
            f"{failure.error}"
            for name, failures in self.predicate.failed.items()
            for failure in failures[:3]
        ]

    def power(self, standing: Standing, seed: int, fresh: int, demands: Sequence[Demand]) -> str:
        """Return the chance of an audit on so many fresh records, as the planner has it."""
        if not standing.unseen:
            return (
                "No chance is told of an audit that follows: figures that may flatter say nothing "
                "of it."
            )
        if any(measure.exposure is not None for measure in self.measures):
            return "The planner does not model attacks, so no chance is told."
        if not self._mechanisms:
            return self._chance_of_named(seed, fresh, demands)
        if len(self._mechanisms) == 1:
            return self._chance(self._mechanisms[0], seed, fresh)
        return " ".join(f"{v.mechanism}: {self._chance(v, seed, fresh)}" for v in self._mechanisms)

    def _chance(self, verdict: MechanismVerdict, seed: int, fresh: int) -> str:
        requirements = tuple(measure.requirement for measure in self.measures)
        claim, group = planned(self.claim.fixed_claim()), self.groups[verdict.mechanism]
        case = Unsettled(
            mechanism=verdict.mechanism, claim=claim,
            design=self.design, requirements=requirements, means=self._likely_means(group),
            deviations=unit_deviations(group), n=self.n_records,
            mechanisms=len(self._mechanisms), binding="",
        )  # fmt: skip
        if case.reliability <= claim.target:
            return (
                f"By the estimates {int(case.valid.sum())} of {case.releases} releases keep all "
                f"limits: were that the truth, no audit for more than "
                f"{percent(claim.target)} could succeed, of whatever size."
            )
        every = len(case.requirements)
        near = nearest(case)  # of the valid releases, of which there are some
        # The audit that follows, and no other: its tests, its mode, its sizes.
        tests = tuple(dict.fromkeys(claim.tests(self.design, near.requirements)))
        question = Question(
            reliability_target=str(claim.target), n=fresh, releases=case.releases,
            modes=(claim.mode,), tests=tests, mechanisms=len(self._mechanisms),
        )  # fmt: skip
        plan = recommend(
            law_of(near), question, seed=seed, repetitions=REPETITIONS, effort=EFFORT, compare=False
        )
        kept = len(near.requirements)  # of fewer requirements more releases score
        most = (
            "" if kept == every else f"at most (the {kept} of {every:,} nearest to their limits) "
        )
        return (
            f"With {fresh:,} fresh records and {case.releases} fresh releases, such an "
            f"audit would succeed with a chance of {most}{plan.chosen.power.value:.0%}, were these "
            "estimates the truth; proxyguard plan says what other sizes would do."
        )

    def _likely_means(self, group: GroupEvidence) -> Array:
        """Return unit means without the luck of these records, which all releases share."""
        requirements = [measure.requirement for measure in self.measures]
        means = unit_means(group, requirements)
        asked = np.array([r.form is Form.QUERY for r in requirements])
        if asked.any():
            same = np.array([-r.low / r.width for r in requirements])[asked]  # no difference at all
            shared = means[:, asked].mean(axis=0) - same
            noise = np.mean(unit_deviations(group)[asked] ** 2) / self.n_records
            means[:, asked] -= shared - drawn_together(shared, float(noise))[0]
        return means

    def _chance_of_named(self, seed: int, fresh: int, demands: Sequence[Demand]) -> str:
        """Return how many named releases an audit would find, and what is in its way."""
        (group,) = self.groups.values()
        named = NamedChance(
            requirements=[measure.requirement for measure in self.measures],
            means=self._likely_means(group), deviations=unit_deviations(group),
            claim=self.claim, design=self.design, seed=seed,
        )  # fmt: skip
        of = (
            f"By the estimates {len(named.good):,} of {len(named.means):,} releases keep all limits"
        )
        if not len(named.good):
            return f"{of}: were that the truth, no audit could show one of them to be good."
        shown = named.shown(fresh)
        said = (
            f"{of}. Were the estimates the truth, such an audit on {fresh:,} fresh "
            f"records would show {np.mean(shown):.3g} of them to be good on average, and all of "
            f"them with a chance of {np.mean(shown == len(named.good)):.0%}."
        )
        if named.is_most(shown):
            return said
        wanted = {demand.name: named.records_for(self._places(demand)) for demand in demands}
        worst = max(demands, key=lambda demand: wanted[demand.name])
        records = named.enough_records(fresh, max(wanted.values()))
        limit = named.enough_limit(fresh, self._places(worst), worst.asked)
        would = [] if records is None else [f"about {records:,} fresh records"]
        if limit is not None:
            would.append(f"--limit {shlex.quote(f'{worst.name}={decimal(limit)}')}")
        said += f" In the way stands {worst.name!r}"
        return f"{said}: {' or '.join(would)} would do." if would else f"{said}."


def _least_certain(parts: Sequence[str]) -> str:
    count = Counter(parts).most_common(3)
    return "least certain is " + ", ".join(f"{part!r} in {often:,}" for part, often in count)


def _of_unusable(unusable: Mapping[str, str]) -> Iterator[SeenConclusion]:
    if unusable:
        which = "; ".join(f"{name}: {why}" for name, why in list(unusable.items())[:6])
        more = f"; and {len(unusable) - 6:,} more" if len(unusable) > 6 else ""
        yield SeenConclusion(
            name="", decision=Decision.VIOLATION,
            sentences=(f"cannot be used, so that no requirement is met: {which}{more}.",),
        )  # fmt: skip


def _where(measure: Measure) -> str:
    """Return which share or mean a measure is about, without what all of its kind are called."""
    if measure.query is not None and measure.query.cell:
        return ", ".join(f"{column} = {label}" for column, label in measure.query.cell)
    name = measure.requirement.name
    for side in SIDES:
        name = name.removesuffix(side)
    return name.removeprefix(f"{measure.part}: ")
