"""The ways to audit that a planner compares: modes, tests, and settings to tune for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from functools import lru_cache
from math import ceil

import numpy as np

from proxyguard.errors import RegistryError
from proxyguard.exact.sharp import critical_count, default_threshold, largest_threshold
from proxyguard.plan.law import Law
from proxyguard.plan.power import AuditPlan
from proxyguard.plan.question import Question
from proxyguard.registry.claim import Claim, Mode
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest

SHARES = ("0.5", "0.8", "0.9", "0.95")
TARGET_SHARES = ("0.5", "0.8", "0.9")
SLACKS = (0.3, 0.45, 0.6, 0.75, 0.9)
"""Slacks that are tried, as shares of the margin."""
RAMPS = (0.3, 0.6, 1.0)
"""Ramp widths that are tried, as shares of the cutoff's distance to the lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One kind of audit: its mode, bound and score, and how its releases are tested."""

    mode: Mode
    bound: str = ""  # "", "paper", "rescaled" or "sharp"
    score: str = ""  # "", "pvalue" or "slack"
    test: ComponentTest | None = None  # None: by declaration

    @property
    def label(self) -> str:
        """The way in words."""
        parts = [self.mode.value, self.bound, "slack score" if self.score == "slack" else ""]
        return ", ".join(part for part in parts if part)

    @property
    def tests(self) -> str:
        """The tests in words."""
        if self.score == "slack" or self.mode in (Mode.SMOOTH, Mode.BLOCK):
            return "-"
        return "by declaration" if self.test is None else self.test.value


def ways(question: Question, requirements: tuple[Requirement, ...]) -> list[Way]:
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
    if len({Claim.tests(_BLANK, question.design, (r,)) for r in requirements}) > 1:
        tests.insert(0, None)  # the declared losses differ, and so do their default tests
    found: list[Way] = []
    for mode in question.modes:
        if mode is Mode.DIRECT:
            found += [Way(mode=mode, bound="sharp", score="pvalue", test=t) for t in tests]
            found += [Way(mode=mode, bound=b, score="slack") for b in _BOUNDS]
        elif mode in (Mode.NAMED, Mode.COUNT):
            found += [Way(mode=mode, test=t) for t in tests]
        elif mode is Mode.HYBRID:
            found += [Way(mode=mode, bound="sharp", score="pvalue", test=t) for t in tests]
        elif mode is Mode.SMOOTH and question.iid:
            found += [Way(mode=mode, bound=b) for b in _BOUNDS]
        elif mode is Mode.BLOCK and question.iid:
            found.append(Way(mode=mode))
    return found


_BOUNDS = ("sharp", "rescaled", "paper")
_BLANK = Claim(reliability_target="1/2")  # type: ignore[arg-type]  # read at the door


def settings(
    way: Way, question: Question, law: Law, n: int, releases: int
) -> Iterator[tuple[AuditPlan, tuple[Requirement, ...]]]:
    """Yield the plans of one way at one size, with the requirements' slacks and ramps."""
    mode = way.mode
    if mode in (Mode.DIRECT, Mode.HYBRID) and way.score == "pvalue":
        share = 2 if mode is Mode.HYBRID else 1
        for threshold in thresholds(releases, question.target, question.level / share):
            yield _plan(way, question, n, releases, threshold=threshold), law.requirements
    elif mode is Mode.NAMED:
        for share_text in SHARES:
            yield _plan(way, question, n, releases, release_share=share_text), law.requirements
    elif mode is Mode.COUNT:
        for share_text in TARGET_SHARES:
            yield _plan(way, question, n, releases, target_share=share_text), law.requirements
    else:
        yield from _slack_settings(way, question, law, n, releases)


def _slack_settings(
    way: Way, question: Question, law: Law, n: int, releases: int
) -> Iterator[tuple[AuditPlan, tuple[Requirement, ...]]]:
    split = way.bound in ("paper", "rescaled")
    for slack in SLACKS:
        for ramp in RAMPS if way.mode is Mode.SMOOTH else (None,):
            try:
                requirements = with_slacks(law, slack, ramp)
            except RegistryError:  # a cutoff below the loss's lower bound: no such setting
                continue
            if way.mode is Mode.BLOCK:
                for size in block_sizes(n):
                    yield _plan(way, question, n, releases, block_size=size), requirements
                continue
            for share in TARGET_SHARES if split else (None,):
                choices = {} if share is None else {"target_share": share}
                yield _plan(way, question, n, releases, **choices), requirements


def _plan(way: Way, question: Question, n: int, releases: int, **choices: object) -> AuditPlan:
    wanted: dict[str, object] = {
        "mode": way.mode,
        "reliability_target": question.reliability_target,
        "alpha": question.alpha,
        "test": way.test,
        **choices,
    }
    if way.bound:
        wanted["bound"] = way.bound
    if way.score:
        wanted["score"] = way.score
    return AuditPlan(
        claim=Claim.of(wanted),  # type: ignore[arg-type]  # checked at the door there
        n=n,
        releases=releases,
        mechanisms=question.mechanisms,
        design=question.design,
        digits=question.digits,
    )


@lru_cache(maxsize=1024)
def thresholds(releases: int, target: float, alpha: float) -> tuple[str, ...]:
    """Return the score thresholds worth trying, as decimals that can be registered.

    The critical count is a step function of ``t`` and the largest ``t`` with a given count
    dominates, so one threshold a count is enough; counts run from the oracle's upwards, around
    the default rule's.
    """
    default = default_threshold(releases, target=target, alpha=alpha)
    if default is None:
        return ()
    oracle = int(critical_count(releases, target=target, kappa=0.0, alpha=alpha))
    step = releases * (1.0 - target) / 10.0
    # Far above the oracle's count where records are few: there a lenient score is worth more.
    steps = (0.0, 0.125, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, 6.0)
    wanted = {oracle + ceil(step * share) for share in steps}
    found = [default] + [
        largest_threshold(count, releases, target=target, alpha=alpha)
        for count in sorted(wanted)
        if count <= releases
    ]
    return tuple(dict.fromkeys(decimal_down(t) for t in found if t > 1e-12))


def decimal_down(value: float, digits: int = 4) -> str:
    """Return a positive number as a decimal of so many significant digits, rounded down.

    >>> decimal_down(0.0157499), decimal_down(0.2)
    ('0.01574', '0.2')
    """
    rounded = Context(prec=digits, rounding=ROUND_DOWN).create_decimal(repr(value))
    return f"{rounded.normalize():f}"


def with_slacks(law: Law, slack: float, ramp: float | None) -> tuple[Requirement, ...]:
    """Return the requirements with slacks, and ramps, as shares of what there is room for."""
    found = []
    for requirement, margin in zip(law.requirements, law.margins, strict=True):
        own = float(decimal_down(slack * float(margin)))
        tight = replace(requirement, slack=own, ramp=None)
        if ramp is not None:
            room = float(Decimal(repr(tight.cutoff)) - Decimal(repr(requirement.low)))
            tight = replace(tight, ramp=float(decimal_down(ramp * room)))
        found.append(tight)
    return tuple(found)


def block_sizes(n: int) -> list[int]:
    """Return block sizes worth trying: from a few blocks to many."""
    return sorted({int(m) for m in np.rint(np.geomspace(max(2, n // 200), max(2, n // 4), 5))})
