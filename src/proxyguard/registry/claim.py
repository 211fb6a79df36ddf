"""The registered choices of one claim: mode, bound, tests, levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import TypedDict

from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.exact.betting import STAKES
from proxyguard.exact.multiplicity import Dependence
from proxyguard.registry.design import Clustered, Design, Iid, Sampling
from proxyguard.registry.numbers import MOST_RECORDS, Level, flag, listed, member, share, whole
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest, default_test
from proxyguard.registry.value import alike_names


class Mode(Enum):
    """Which theorem the claim rests on."""

    RELEASES = "releases"  # named releases, no mechanism: Theorem 4
    NAMED = "named"  # Theorem 5
    DIRECT = "direct"  # Theorem 6; theory section 2
    SMOOTH = "smooth"  # Theorem 12
    BLOCK = "block"  # Theorem 13
    HYBRID = "hybrid"  # Proposition 16
    COLLECTIVE = "collective"  # Theorem 9: independent batches only
    COUNT = "count"  # theory section 3


class Bound(Enum):
    """How contamination by invalid releases is accounted for."""

    PAPER = "paper"  # as published
    RESCALED = "rescaled"  # only invalid releases contaminate
    SHARP = "sharp"  # no split between draws and target


class Score(Enum):
    """What makes a release score favorably."""

    PVALUE = "pvalue"  # its p-value is at most the threshold
    SLACK = "slack"  # every mean is at most its cutoff, Eq. (10)


class Family(Enum):
    """What is certified for several mechanisms at once."""

    DECISIONS = "decisions"  # familywise decisions, by Holm
    BOUNDS = "bounds"  # simultaneous bounds, at local levels that sum to the budget


class Choices(TypedDict, total=False):
    """The keywords of `Claim`, with numbers and names as a caller writes them."""

    mode: Mode | str
    bound: Bound | str
    score: Score | str
    test: ComponentTest | str | Mapping[str, ComponentTest | str] | None
    threshold: Level | None
    violation_threshold: Level | None
    reliability_target: Level | None
    alpha: Level
    beta: Level | None
    release_share: Level
    target_share: Level
    named_share: Level
    family: Family | str
    shares: Mapping[str, Level] | None
    dependence: Dependence | str
    combination: str
    calibrator: str
    thresholds: Sequence[Level]
    block_size: int | None
    bounds_level: Level | None
    pooled_violations: bool
    stakes: Sequence[float]


_ENUMS = {
    "mode": Mode, "bound": Bound, "score": Score, "family": Family, "dependence": Dependence,
}  # fmt: skip
_LEVELS = (
    "alpha", "beta", "threshold", "violation_threshold", "reliability_target",
    "release_share", "target_share", "named_share", "bounds_level",
)  # fmt: skip

_OPTIONAL = ("beta", "threshold", "violation_threshold", "reliability_target", "bounds_level")

COUNTED = frozenset({Mode.NAMED, Mode.COLLECTIVE, Mode.HYBRID})
"""Modes that count recognized releases, and detect violations by Holm."""
_MECHANISM = frozenset(Mode) - {Mode.RELEASES}
_USED_BY: dict[str, frozenset[Mode]] = {
    "bound": frozenset({Mode.DIRECT, Mode.SMOOTH, Mode.HYBRID}),
    "score": frozenset({Mode.DIRECT, Mode.HYBRID}),
    "threshold": frozenset({Mode.DIRECT, Mode.HYBRID, Mode.COUNT}),
    "violation_threshold": _MECHANISM - COUNTED,
    "reliability_target": _MECHANISM,
    "release_share": COUNTED,
    "target_share": frozenset({Mode.DIRECT, Mode.SMOOTH, Mode.HYBRID, Mode.COUNT}),
    "named_share": frozenset({Mode.HYBRID}),
    "family": _MECHANISM,
    "shares": _MECHANISM,
    "dependence": frozenset({Mode.COLLECTIVE}),
    "combination": frozenset({Mode.COLLECTIVE}),
    "calibrator": frozenset({Mode.COUNT}),
    "thresholds": frozenset({Mode.COUNT}),
    "block_size": frozenset({Mode.BLOCK}),
    "pooled_violations": COUNTED,
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is claimed and at which error levels; frozen before any loss is read."""

    mode: Mode = Mode.DIRECT
    bound: Bound = Bound.SHARP
    score: Score = Score.PVALUE
    test: ComponentTest | Mapping[str, ComponentTest] | None = None  # None: by declaration
    threshold: Fraction | None = None  # t of the validation score; None: the default rule
    violation_threshold: Fraction | None = None
    reliability_target: Fraction | None = None  # eta_0
    alpha: Fraction = Fraction(1, 20)
    beta: Fraction | None = Fraction(1, 20)  # None: no violation direction
    release_share: Fraction = Fraction(1, 2)  # lambda: alpha_R / alpha
    target_share: Fraction = Fraction(1, 2)  # alpha_Z / alpha
    named_share: Fraction = Fraction(1, 2)  # alpha_N / alpha of the hybrid
    family: Family = Family.DECISIONS
    shares: Mapping[str, Level] | None = None  # of the family budgets; None: equal
    dependence: Dependence = Dependence.ARBITRARY
    combination: str = "simes"  # or "fisher", for collective mode
    calibrator: str = "threshold"  # or "capital", for the e-value count
    thresholds: tuple[Fraction, ...] = ()  # of the calibrator; empty: one, by the default rule
    block_size: int | None = None  # m of Theorem 13
    bounds_level: Fraction | None = None  # of the requirement bounds, which never decide
    pooled_violations: bool = True  # one Holm family over all mechanisms, as in the paper
    stakes: tuple[float, ...] = STAKES  # registered grid of betting_fixed

    @classmethod
    def of(cls, choices: Choices) -> Claim:
        """Read a claim from what a caller wrote; unknown keys and names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = set(choices) - known
        if unknown:
            raise RegistryError(
                f"unknown choices {sorted(unknown)}; the registered choices are {sorted(known)}"
            )
        return cls(**choices)  # type: ignore[arg-type]  # converted at the door below

    def __post_init__(self) -> None:
        self._convert()
        if self.mode is not Mode.RELEASES and self.reliability_target is None:
            raise RegistryError(
                "a claim about a mechanism needs reliability_target, the share of fresh releases "
                "that must be valid; named releases alone go to certify_releases"
            )
        if self.thresholds and self.threshold is not None:
            raise RegistryError("give threshold or thresholds, not both")
        if not self.stakes:
            raise RegistryError("stakes are fractions of the largest one, and none is given")
        for name, options in (
            ("combination", ("simes", "fisher")),
            ("calibrator", ("threshold", "capital")),
        ):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in options:
                raise RegistryError(f"{name} is one of {options}, got {getattr(self, name)!r}")
        if self.mode is Mode.BLOCK and self.block_size is None:
            raise RegistryError("block mode needs block_size")

    def _convert(self) -> None:
        """Turn names and numbers as a caller writes them into members and fractions."""

        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for key, kind in _ENUMS.items():
            put(key, member(kind, getattr(self, key), key))
        for key in _LEVELS:
            if key not in _OPTIONAL or getattr(self, key) is not None:
                put(key, share(getattr(self, key), key))
        put(
            "thresholds",
            tuple(share(t, "thresholds") for t in listed(self.thresholds, "thresholds")),
        )
        stakes = enumerate(listed(self.stakes, "stakes"))
        put("stakes", tuple(float(share(f, f"stakes[{i}]")) for i, f in stakes))
        put("pooled_violations", flag(self.pooled_violations, "pooled_violations"))
        if self.shares is not None and not isinstance(self.shares, Mapping):
            raise RegistryError(f"shares map names of mechanisms to shares, got {self.shares!r}")
        if self.block_size is not None:
            put("block_size", whole(self.block_size, "block_size", most=MOST_RECORDS))
        if isinstance(self.test, Mapping):
            put("test", {k: member(ComponentTest, v, "test") for k, v in self.test.items()})
        elif self.test is not None:
            put("test", member(ComponentTest, self.test, "test"))

    @property
    def target(self) -> float:
        """``eta_0`` as a float; an error for claims about releases alone."""
        if self.reliability_target is None:
            raise RegistryError("this claim is about named releases and has no reliability target")
        return float(self.reliability_target)

    def tests(
        self, design: Design, requirements: Sequence[Requirement]
    ) -> tuple[ComponentTest, ...]:
        """Return the component test of each requirement."""
        if isinstance(self.test, Mapping):
            names = {r.name for r in requirements}
            if set(self.test) != names:
                raise RegistryError(
                    f"tests name {sorted(map(str, self.test))}, the requirements are "
                    f"{sorted(names)}"
                )
            return tuple(self.test[r.name] for r in requirements)
        # Block means and betting capital are made of single records, and shares are counted.
        records = self.mode is Mode.BLOCK or (
            self.mode is Mode.COUNT and self.calibrator == "capital"
        )
        return tuple(
            self.test or default_test(design, replace(r, indicator=False) if records else r)
            for r in requirements
        )

    def covers(self, design: Design, requirements: Sequence[Requirement]) -> bool:
        """Return whether the registered tests, or the defaults, cover requirements on a design."""
        tests = self.tests(design, requirements)
        return not any(t.objections(design, r) for t, r in zip(tests, requirements, strict=True))

    def supports(self, design: Design, requirements: Sequence[Requirement]) -> list[str]:
        """Return every reason why this claim is not covered on this design; empty if it is.

        Walks the checks that certification relies on, before any loss is read.
        """
        reasons = _requirement_objections(design, requirements) + self._idle_choices()
        try:
            tests = self.tests(design, requirements)
        except RegistryError as error:
            return [*reasons, str(error)]
        for requirement, test in zip(requirements, tests, strict=True):
            reasons += test.objections(design, requirement)
            if self.mode is Mode.BLOCK and test is ComponentTest.BINOMIAL and requirement.indicator:
                reasons.append(f"{requirement.name!r} is a share, which binomial has no blocks of")
        reasons += self._score_objections(design, requirements)
        if self.mode is Mode.COUNT and self.calibrator == "capital":
            reasons += [
                f"{test.value} has no betting capital: register thresholds for the e-value count, "
                "or use betting or betting_fixed"
                for test in self.tests(design, requirements)
                if test not in (ComponentTest.BETTING, ComponentTest.BETTING_FIXED)
            ]
        if self.mode is Mode.COLLECTIVE and self.dependence is Dependence.ARBITRARY:
            reasons.append(
                "collective mode needs release p-values stated to be independent or PRDS, which "
                "means a separate batch of target records for each release (Theorem 9)"
            )
        if (
            self.mode is Mode.COLLECTIVE
            and self.combination == "fisher"
            and self.dependence is Dependence.PRDS
        ):
            reasons.append("tail-Fisher needs independent release p-values; PRDS is not enough")
        return reasons

    def _idle_choices(self) -> list[str]:
        """Return choices that this mode does not use: ignoring one would change the claim."""
        defaults = {field.name: field.default for field in fields(self)}
        return [
            f"mode {self.mode.value} does not use {name}, which was set to "
            f"{getattr(self, name)!r}; leave it out or choose another mode"
            for name, modes in _USED_BY.items()
            if self.mode not in modes and getattr(self, name) != defaults[name]
        ]

    def require_support(self, design: Design, requirements: Sequence[Requirement]) -> None:
        """Raise `UnsupportedDesign` with every reason when the claim is not covered."""
        reasons = self.supports(design, requirements)
        if reasons:
            raise UnsupportedDesign("; ".join(dict.fromkeys(reasons)))

    def _score_objections(self, design: Design, requirements: Sequence[Requirement]) -> list[str]:
        slack = self.mode in (Mode.SMOOTH, Mode.BLOCK) or (
            self.mode in (Mode.DIRECT, Mode.HYBRID) and self.score is Score.SLACK
        )
        if not slack:
            return []
        reasons = [
            f"{r.name!r} needs a slack for this score" for r in requirements if r.slack is None
        ]
        if self.mode is Mode.SMOOTH:
            reasons += [f"{r.name!r} needs a ramp" for r in requirements if r.ramp is None]
        if self.mode in (Mode.SMOOTH, Mode.BLOCK) and design.sampling is not Sampling.IID:
            reasons.append(
                f"{self.mode.value} mode needs iid records (Theorems 12 and 13), and the design "
                f"is {type(design).__name__}"
            )
        if isinstance(design, Clustered) and self.mode is Mode.BLOCK:
            reasons.append("block mode partitions single records, and the design is Clustered")
        if isinstance(design, Clustered) and design.weighting == "record":
            reasons.append(
                "record-weighted clusters are tested through their excess over the limit, to "
                "which a slack does not apply: use the p-value score"
            )
        if any(r.group is not None for r in requirements) and (
            self.mode in (Mode.SMOOTH, Mode.BLOCK) or self.bound is Bound.SHARP
        ):
            reasons.append(
                "a slack score on a subgroup of random size has a ceiling that depends on the "
                'data: use the p-value score, or bound="paper" or "rescaled"'
            )
        return reasons


def _requirement_objections(design: Design, requirements: Sequence[Requirement]) -> list[str]:
    names = [r.name for r in requirements]
    reasons = []
    if not names:
        reasons.append("at least one requirement is needed")
    again = [name for name, times in Counter(names).items() if times > 1]
    if again:
        reasons.append(f"requirement names must differ, and there is more than one of {again}")
    alike = alike_names(list(dict.fromkeys(names)))
    if alike is not None:
        reasons.append(f"requirement names must differ to the eye too: {alike}")
    if any(r.group is not None for r in requirements) and not isinstance(design, Iid):
        reasons.append(
            "subgroup requirements condition on which records belong to the group, which is "
            f"covered for iid records; the design is {type(design).__name__}"
        )
    return reasons
