"""The component tests by name: which designs and losses each one covers.

A name never changes its meaning; a different test is a new name.
"""

from __future__ import annotations

from enum import Enum

from proxyguard.registry.design import Clustered, Design, Sampling
from proxyguard.registry.requirement import Requirement

_ANY = frozenset(Sampling)
_UNWEIGHTED = frozenset({Sampling.IID, Sampling.INDEPENDENT})
_IID = frozenset({Sampling.IID})


class ComponentTest(Enum):
    """A registered choice of p-value for one bounded mean (theory section 1)."""

    EMPIRICAL_BERNSTEIN = "empirical_bernstein"
    HOEFFDING = "hoeffding"
    CHERNOFF = "chernoff"
    BENTKUS = "bentkus"
    BINOMIAL = "binomial"
    RANDOMIZED_BINOMIAL = "randomized_binomial"
    BETTING = "betting"
    BETTING_FIXED = "betting_fixed"

    @property
    def samplings(self) -> frozenset[Sampling]:
        """The kinds of sampling under which the p-value is super-uniform."""
        return _SAMPLINGS[self]

    @property
    def order_dependent(self) -> bool:
        """Whether the records must be in random order."""
        return self is ComponentTest.BETTING

    @property
    def needs_records(self) -> bool:
        """Whether moments do not suffice."""
        return self in (
            ComponentTest.BETTING,
            ComponentTest.BETTING_FIXED,
            ComponentTest.RANDOMIZED_BINOMIAL,
        )

    @property
    def least_records(self) -> int:
        """The smallest sample for which the test can be below 1."""
        return 2 if self is ComponentTest.EMPIRICAL_BERNSTEIN else 1

    def objections(self, design: Design, requirement: Requirement) -> list[str]:
        """Return why this test does not cover a requirement on this design; empty if it does.

        Asked before any data is read.
        """
        found = []
        if design.sampling not in self.samplings:
            names = " or ".join(sorted(s.value for s in self.samplings))
            found.append(
                f"{self.value} is valid for {names} sampling, and the design is "
                f"{type(design).__name__} ({design.sampling.value})"
            )
        if self is ComponentTest.BINOMIAL and not (requirement.two_valued or requirement.indicator):
            found.append(
                f"binomial needs losses declared two_valued, and {requirement.name!r} is not"
            )
        if self is ComponentTest.BINOMIAL and isinstance(design, Clustered):
            found.append("binomial needs single records; a cluster mean is not two-valued")
        return found


_SAMPLINGS = {
    ComponentTest.EMPIRICAL_BERNSTEIN: _IID,
    ComponentTest.HOEFFDING: _ANY,
    ComponentTest.CHERNOFF: _UNWEIGHTED,
    ComponentTest.BENTKUS: _UNWEIGHTED,
    ComponentTest.BINOMIAL: _UNWEIGHTED,
    ComponentTest.RANDOMIZED_BINOMIAL: _UNWEIGHTED,
    ComponentTest.BETTING: _IID,
    ComponentTest.BETTING_FIXED: _ANY,
}


def default_test(design: Design, requirement: Requirement) -> ComponentTest:
    """Return the default test: it follows from what was declared, never from the values.

    >>> from proxyguard.registry.design import Iid
    >>> default_test(Iid(), Requirement(name="Brier", low=0, high=1, limit=0.2)).value
    'betting'
    """
    if design.sampling is Sampling.WEIGHTED:
        return ComponentTest.BETTING_FIXED
    counted = requirement.two_valued or requirement.indicator
    if counted and not isinstance(design, Clustered):
        return ComponentTest.BINOMIAL
    return ComponentTest.BETTING if design.sampling is Sampling.IID else ComponentTest.BENTKUS
