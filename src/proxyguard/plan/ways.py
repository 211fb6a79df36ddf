"""The ways to audit that a planner compares, one mode after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proxyguard.modes.planning import Setting, Way
from proxyguard.plan.law import Law
from proxyguard.plan.question import Question
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, default_test


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
    return [way for kind in question.kinds for way in kind.ways(question, tests)]


def settings(way: Way, question: Question, law: Law, n: int, releases: int) -> Iterator[Setting]:
    """Yield the plans of one way at one size, with the requirements' slacks and ramps."""
    return way.kind.settings(way, question, law, n, releases)
