"""What a trial's audit measured, read from its record and told in the words of the demands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import EVIDENCE
from proxyguard.audit.rules import measures_of
from proxyguard.certificate.wording import at_least, at_most, confidence, percent
from proxyguard.documents.certificate import MechanismVerdict, Predicate
from proxyguard.documents.evidence import Evidence, GroupEvidence
from proxyguard.losses.measure import Measure
from proxyguard.modes.evidence import Decision
from proxyguard.modes.planning import planned
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import recommend
from proxyguard.registry.design import Design
from proxyguard.registry.parts import ClaimPart
from proxyguard.report.advice import (
    EFFORT,
    REPETITIONS,
    Unsettled,
    law_of,
    nearest,
    unit_deviations,
    unit_means,
)
from proxyguard.trial.demands import Demand
from proxyguard.trial.rows import Standing
from proxyguard.trial.trial import SeenRequirement

SIDES = (" (target above release)", " (target below release)")
"""How the two sides of a query are called; the sign of a deviation says which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRecord:
    """The record of a trial's audit, with the names that the user gave."""

    predicate: Predicate
    claim: ClaimPart
    design: Design
    group: GroupEvidence
    measures: Sequence[Measure]
    names: tuple[str, ...]
    """The releases as the user calls them, in the order of the evidence."""
    n_records: int

    @classmethod
    def of(cls, audit: Audit, names: Sequence[str], n_records: int) -> SeenRecord:
        """Return the record of the one group of releases that a trial's audit has."""
        registry = audit.folder.registry(audit.journal())
        (member,) = registry.declaration.members
        (group,) = audit.folder.document(Evidence, EVIDENCE).by_group.values()
        return cls(
            predicate=audit.certificate().predicate,
            claim=registry.declaration.claim,
            design=member.target.sampling_design,
            group=group,
            measures=measures_of(member, registry.members[member.name].requirements),
            names=tuple(names),
            n_records=n_records,
        )

    def requirement(self, demand: Demand, *, interval: bool) -> SeenRequirement:
        """Return what was seen of one demand, in its unit.

        Parameters
        ----------
        demand
            Whose losses are told; of many shares the largest deviation of each release.
        interval
            Whether an interval may be told, which is none where the releases may have seen the
            records.
        """
        derived = self.group.derived
        at = [j for j, measure in enumerate(self.measures) if measure.part in demand.scale]
        scale = np.array([demand.scale[self.measures[j].part] for j in at])
        estimates, lower, upper = (
            np.array(rows, dtype=np.float64)[:, at] * scale
            for rows in (derived.estimates, derived.lower, derived.upper)
        )
        widest = np.argmax(estimates, axis=1)
        rows = np.arange(len(estimates))
        several = len(at) > (2 if demand.two_sided else 1)
        return SeenRequirement(
            name=demand.name,
            promise=demand.promise,
            limit=demand.limit,
            unit=demand.unit,
            releases=self.names,
            estimates=tuple(float(e) for e in estimates[rows, widest]),
            # The largest of all upper limits bounds the largest mean at the level of one of them:
            # whichever it is, its own limit lies no higher. Lower limits have no such bound.
            lower=tuple(float(e) for e in lower[:, 0]) if interval and len(at) == 1 else None,
            upper=tuple(float(e) for e in upper.max(axis=1)) if interval else None,
            where=tuple(_where(self.measures[at[j]]) if several else "" for j in widest),
        )

    @property
    def sure(self) -> str:
        """How sure all intervals are together."""
        return (
            "The intervals of a requirement hold for all releases at once with "
            f"{confidence(Fraction(self.claim.alpha))} confidence, and are for reading: the "
            "decision is made by tests of all requirements together"
        )

    def decisions(self) -> dict[str, Decision]:
        """Return the decision on what makes the releases, or on each named one."""
        if self._about_mechanism:
            return {v.mechanism: v.decision for v in self.predicate.verdicts}
        return dict(zip(self.names, (v.decision for v in self.predicate.verdicts), strict=True))

    @property
    def _about_mechanism(self) -> bool:
        return isinstance(self.predicate.verdicts[0], MechanismVerdict)

    def reliability(self) -> tuple[float, float, float] | None:
        """Return the ends of the interval for the share of good releases, and what was asked."""
        verdict = self.predicate.verdicts[0]
        if not isinstance(verdict, MechanismVerdict):
            return None
        upper = 1.0 if verdict.upper is None else verdict.upper.value
        return verdict.lower.value, upper, verdict.reliability_target

    def sentences(self) -> tuple[str, ...]:
        """Return what is decided, in plain words."""
        sure = confidence(Fraction(self.claim.alpha))
        reliability = self.reliability()
        if reliability is None:
            return tuple(self._of_named(sure))
        lower, upper, asked = reliability
        decision = self.predicate.verdicts[0].decision
        wanted = f"more than {percent(asked)} were asked for"
        if decision is Decision.VALIDATED:
            return (
                f"Validated: with {sure} confidence, at least {at_least(lower)} of fresh releases "
                f"meet all requirements; {wanted}.",
            )
        if decision is Decision.VIOLATION:
            return (
                f"Violation: with {sure} confidence, at most {at_most(upper)} of fresh releases "
                f"meet all requirements; {wanted}.",
            )
        return (
            f"Unresolved: between {at_least(lower)} and {at_most(upper)} of fresh releases meet "
            f"all requirements; {wanted}. That is no evidence against them: more records or more "
            "releases would tell.",
        )

    def _of_named(self, sure: str) -> Iterator[str]:
        decisions = self.decisions()
        said = {
            Decision.VALIDATED: ("Validated", "meet all requirements"),
            Decision.VIOLATION: ("Violation", "miss a requirement"),
            Decision.UNRESOLVED: ("Unresolved", "stay open: more records would tell"),
        }
        for decision, (word, meaning) in said.items():
            chosen = [name for name, d in decisions.items() if d is decision]
            if not chosen:
                continue
            which = ", ".join(chosen[:6]) + (" and more" if len(chosen) > 6 else "")
            level = "" if decision is Decision.UNRESOLVED else f"with {sure} confidence at once, "
            yield (
                f"{word}: {level}{len(chosen):,} of {len(decisions):,} releases {meaning} "
                f"({which})."
            )

    def failures(self) -> list[str]:
        """Return which draws gave no release, and why."""
        return [
            f"{name}, {failure.seed}: no usable release, which counts as the worst one: "
            f"{failure.error}"
            for name, failures in self.predicate.failed.items()
            for failure in failures[:3]
        ]

    def power(self, standing: Standing, seed: int) -> str:
        """Return the chance of an audit of this size on fresh records, as the planner has it."""
        if not standing.unseen:
            return (
                "No chance is told of an audit that follows: figures that may flatter say nothing "
                "of it."
            )
        verdict = self.predicate.verdicts[0]
        if not isinstance(verdict, MechanismVerdict):
            return (
                "The planner knows claims about what makes releases, and this one is about the "
                "tables themselves, so no chance is told."
            )
        if any(measure.exposure is not None for measure in self.measures):
            return "The planner does not model attacks, so no chance is told."
        requirements = tuple(measure.requirement for measure in self.measures)
        claim = planned(self.claim.fixed_claim())
        case = Unsettled(
            mechanism=verdict.mechanism, claim=claim,
            design=self.design, requirements=requirements,
            means=unit_means(self.group, requirements),
            deviations=unit_deviations(self.group), n=self.n_records, mechanisms=1, binding="",
        )  # fmt: skip
        if case.reliability <= claim.target:
            return (
                f"{int(case.valid.sum())} of {case.releases} releases have all estimates below the "
                f"limits: were that the truth, no audit for more than "
                f"{percent(claim.target)} could succeed, of whatever size."
            )
        case = nearest(case)  # of the valid releases, of which there are some
        # The audit that follows, and no other: its tests, its mode, its sizes.
        tests = tuple(dict.fromkeys(claim.tests(self.design, case.requirements)))
        question = Question(
            reliability_target=str(claim.target), n=self.n_records, releases=case.releases,
            modes=(claim.mode,), tests=tests,
        )  # fmt: skip
        plan = recommend(
            law_of(case), question, seed=seed, repetitions=REPETITIONS, effort=EFFORT, compare=False
        )
        return (
            f"With {self.n_records:,} fresh records and {case.releases} fresh releases, such an "
            f"audit would succeed with a chance of {plan.chosen.power.value:.0%}, were these "
            "estimates the truth; proxyguard plan says what other sizes would do."
        )


def _where(measure: Measure) -> str:
    """Return which share or mean a measure is about, without what all of its kind are called."""
    name = measure.requirement.name
    for side in SIDES:
        name = name.removesuffix(side)
    return name.removeprefix(f"{measure.part}: ")
