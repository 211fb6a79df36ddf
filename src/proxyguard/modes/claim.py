"""What is claimed and at which error levels: what the claims of all modes have in common.

A claim is frozen before any loss is read. Its class is its mode: a subclass has the fields of
that mode and no others, and answers every question that depends on it. A field is read at the
door by the function that stands beside its default, so that numbers and names may be given as a
caller writes them.

The life of a claim:

1. written: keywords of `certify` (`catalog.Choices`), or ``[claim]`` (`registry.parts.ClaimPart`)
2. read: `Claim.of` takes the class of its mode, `read_choice` each field; nothing changes it then
3. refused before anything is drawn, with every reason: `Claim.supports`
4. divided: `Claim.levels` gives each mechanism its `Levels`, by the number of draws
5. component: `Claim.tests` says which test makes a p-value of each requirement's losses
6. scored: a release by the largest of its p-values against `Levels.threshold`; from here on no
   loss is seen, only `MechanismEvidence`
7. bounded: `MechanismClaim.lower_bound` and `upper_bound`, at these levels; the one file of a mode
8. decided: `certificate.mechanism.decide` compares the bound with `MechanismClaim.target`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeVar

from proxyguard.errors import RegistryError, UnsupportedDesign
from proxyguard.exact.betting import STAKES
from proxyguard.modes.evidence import MechanismEvidence, ReliabilityBound
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design, Iid, Weighted, clusters_of
from proxyguard.registry.numbers import AnEnum, Level, alike_names, listed, member, share
from proxyguard.registry.requirement import Form
from proxyguard.registry.test import ComponentTest, Family, Requirements, default_test

if TYPE_CHECKING:
    from proxyguard.modes.count import ValidCount

Tests = Sequence[ComponentTest]
Reader = Callable[[object, str], object]
Default = TypeVar("Default")
_READ = "read"


def read_by(reader: Reader, default: Default, *, optional: bool = False) -> Default:
    """Return a field whose content is read at the door; ``optional``: it may be None."""

    def read(written: object, name: str) -> object:
        return None if optional and written is None else reader(written, name)

    return field(default=default, metadata={_READ: read})


def level(default: str) -> Fraction:
    """Return a field for a number strictly between 0 and 1."""
    return read_by(share, Fraction(default))


def optional_level(default: str | None = None) -> Fraction | None:
    """Return a field for a number strictly between 0 and 1, or None."""
    return read_by(share, None if default is None else Fraction(default), optional=True)


def choice(kind: type[AnEnum], default: AnEnum) -> AnEnum:
    """Return a field for a member of an enumeration, or its name."""
    return read_by(lambda value, name: member(kind, value, name), default)


def word(*options: str) -> str:
    """Return a field for one of some words, the first by default."""

    def read(value: object, name: str) -> str:
        if not isinstance(value, str) or value not in options:
            raise RegistryError(f"{name} is one of {options}, got {value!r}")
        return value

    return read_by(read, options[0])


def read_choice(item: Field[object], value: object) -> object:
    """Return a value as the field of a claim reads it."""
    read: Reader = item.metadata[_READ]
    return read(value, item.name)


def _read_test(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return {key: member(ComponentTest, test, name) for key, test in value.items()}
    return member(ComponentTest, value, name)


def _read_shares(value: object, name: str) -> object:
    if not isinstance(value, Mapping):
        raise RegistryError(f"{name} map names of mechanisms to shares, got {value!r}")
    return value


def _read_stakes(value: object, name: str) -> tuple[float, ...]:
    stakes = tuple(float(share(f, f"{name}[{i}]")) for i, f in enumerate(listed(value, name)))
    if not stakes:
        raise RegistryError(f"{name} are fractions of the largest one, and none is given")
    return stakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Local budgets and thresholds of one mechanism."""

    lower: Budget
    direct: Budget | None  # the hybrid's second component
    upper: Budget | None
    threshold: Fraction  # t of the validation score
    violation_threshold: Fraction
    betting: float  # the level at which betting stakes aim
    betting_violation: float
    share: Fraction  # of the family budgets
    notes: tuple[str, ...] = ()

    @property
    def violation(self) -> Budget:
        """The budget of the violation direction, of a claim that has one."""
        assert self.upper is not None  # set whenever the claim has a violation direction
        return self.upper


AtLevels = tuple[MechanismEvidence, Levels]


class Mode:
    """What everybody may ask of a mode without knowing which one it is."""

    mode: ClassVar[str]
    """Its name, as it is registered."""
    about: ClassVar[str] = "releases"
    """Whether it makes a claim about a ``mechanism``, or about named ``releases`` alone."""
    after_opening: ClassVar[bool] = False
    """Whether draws and scores follow each other after the target is opened."""
    in_rounds: ClassVar[bool] = False
    """Whether each draw after the opening has records of its own, and comes from outside."""
    own_batches: ClassVar[bool] = False
    """Whether every release is scored on records of its own, instead of one shared target."""
    counts_valid: ClassVar[bool] = False
    """Whether the claim itself counts the valid ones among any releases (theory section 3)."""
    chooses_ramps: ClassVar[bool] = False
    """Whether releases score along ramps whose widths a rule may choose (theory section 2)."""

    @classmethod
    def target_objections(cls, design: Design) -> list[str]:
        """Return why a target of this design cannot be opened as the mode opens it."""
        return []


@dataclass(frozen=True, kw_only=True)
class Claim(Mode, ABC):
    """What is claimed and at which error levels; frozen before any loss is read.

    `Claim.of` reads the choices of a caller and returns a claim in the mode that they name; each
    mode has fields of its own beside these.

    Parameters
    ----------
    test
        The component test of every requirement, or one for each by name; by declaration if None.
    alpha
        The error of the validation direction, over the whole family.
    beta
        The error of the violation direction; None for no such direction.
    stakes
        The registered grid of ``betting_fixed``, fractions of the largest stake.
    unused
        Choices of other modes that were made: `supports` objects to each.

    Examples
    --------
    >>> claim = Claim.of({"reliability_target": "0.8", "alpha": "0.05"})
    >>> claim.mode, str(claim.alpha)
    ('direct', '1/20')
    """

    test: ComponentTest | Mapping[str, ComponentTest] | None = read_by(
        _read_test, None, optional=True
    )  # None: by declaration
    alpha: Fraction = level("1/20")
    beta: Fraction | None = optional_level("1/20")  # None: no violation direction
    stakes: tuple[float, ...] = read_by(_read_stakes, STAKES)  # registered grid of betting_fixed
    unused: tuple[tuple[str, object], ...] = ()  # choices that were made, of other modes

    @staticmethod
    def of(choices: Mapping[str, object]) -> Claim:
        """Read a claim from what a caller wrote; unknown keys and names are refused.

        Parameters
        ----------
        choices
            The keywords of `certify`, or of ``[claim]`` in a declaration, with their values.

        Returns
        -------
        Claim
            Of the class of the mode that ``choices`` name, ``direct`` where they name none.

        Raises
        ------
        RegistryError
            For a key or a name that there is not, or a number that is no level.

        Examples
        --------
        >>> Claim.of({"mode": "named", "reliability_target": 0.8}).mode
        'named'
        """
        # The list names the classes that are made of this one, so it is read when asked.
        from proxyguard.modes.catalog import claim_of

        return claim_of(choices)

    def __post_init__(self) -> None:
        for item in fields(self):
            if _READ in item.metadata:
                object.__setattr__(self, item.name, read_choice(item, getattr(self, item.name)))

    def choices(self) -> dict[str, object]:
        """Return the choices that make this claim: `Claim.of` takes them."""
        own = {i.name: getattr(self, i.name) for i in fields(self) if i.name != "unused"}
        return {"mode": self.mode, **own, **dict(self.unused)}

    @property
    def block_size(self) -> int | None:
        """Records of a block, where the mode needs means over blocks."""
        return None

    @property
    def reads_records(self) -> bool:
        """Whether the evidence is made of single records, so that shares are not counted."""
        return False

    def tests(self, design: Design, requirements: Requirements) -> tuple[ComponentTest, ...]:
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
        return tuple(
            self.test
            or default_test(design, replace(r, indicator=False) if self.reads_records else r)
            for r in requirements
        )

    def covers(self, design: Design, requirements: Requirements) -> bool:
        """Return whether the registered tests, or the defaults, cover requirements on a design."""
        tests = self.tests(design, requirements)
        return not any(t.objections(design, r) for t, r in zip(tests, requirements, strict=True))

    def supports(self, design: Design, requirements: Requirements) -> list[str]:
        """Return every reason why this claim is not covered on this design; empty if it is.

        Walks the checks that certification relies on, before any loss is read.
        """
        # All reasons at once: who mends one should not learn of the next after another run.
        reasons = _requirement_objections(design, requirements)
        # Ignoring a choice would change the claim that somebody thinks is made.
        reasons += [
            f"mode {self.mode} does not use {name}, which was set to {value!r}; leave it out or "
            "choose another mode"
            for name, value in self.unused
        ]
        try:
            tests = self.tests(design, requirements)
        except RegistryError as error:
            return [*reasons, str(error)]
        for requirement, test in zip(requirements, tests, strict=True):
            reasons += test.objections(design, requirement)
        return reasons + self.objections(design, requirements, tests)

    def objections(self, design: Design, requirements: Requirements, tests: Tests) -> list[str]:
        """Return what this mode does not cover, beside what no test covers."""
        return []

    def require_support(self, design: Design, requirements: Requirements) -> None:
        """Raise `UnsupportedDesign` with every reason when the claim is not covered."""
        reasons = self.supports(design, requirements)
        if reasons:
            raise UnsupportedDesign("; ".join(dict.fromkeys(reasons)))

    @abstractmethod
    def lower_budget(self) -> Budget:
        """Return the family budget of the validation direction."""

    def upper_budget(self) -> Budget | None:
        """Return the family budget of the violation direction, None without one."""
        return None if self.beta is None else self.violation_budget(self.beta)

    @abstractmethod
    def violation_budget(self, beta: Fraction) -> Budget:
        """Return the budget of a violation direction at total error ``beta``."""

    def levels(
        self, *, n_releases: int, n_requirements: int, share: Fraction = Fraction(1)
    ) -> Levels:
        """Return the levels of one mechanism with ``share`` of the family budgets."""
        lower = self.lower_budget().scaled(share)
        # Every part of a budget is divided alike: shares of a family sum to at most 1, so that
        # the union bound over mechanisms holds for each part and for the whole.
        family_upper = self.upper_budget()
        upper = None if family_upper is None else family_upper.scaled(share)
        threshold, notes = self.score_threshold(lower, n_releases)
        violation = self.violation_score_threshold(upper, n_releases)
        return Levels(
            lower=lower,
            direct=None,
            upper=upper,
            threshold=threshold,
            violation_threshold=violation,
            betting=self.betting_level(lower, threshold, n_releases),
            betting_violation=self.betting_violation_level(
                upper, violation, n_releases, n_requirements
            ),
            share=share,
            notes=notes,
        )

    def score_threshold(self, local: Budget, n_releases: int) -> tuple[Fraction, tuple[str, ...]]:
        """Return the level ``t`` of the validation score, and what there is to say about it."""
        return local.total, ()

    def violation_score_threshold(self, local: Budget | None, n_releases: int) -> Fraction:
        """Return the level ``t`` of the violation score."""
        return self.alpha  # where violations are corrected by Holm instead

    def betting_level(self, lower: Budget, threshold: Fraction, n_releases: int) -> float:
        """Return the level at which betting stakes aim: where it is decided."""
        return float(threshold)

    def betting_violation_level(
        self, upper: Budget | None, threshold: Fraction, n_releases: int, n_requirements: int
    ) -> float:
        """Return the level at which the stakes of the violation direction aim."""
        # q_r is J times the least of J p-values (theory section 4): one has to reach t/J.
        return float(threshold) / n_requirements


@dataclass(frozen=True, kw_only=True)
class MechanismClaim(Claim, ABC):
    """A claim about the share of fresh releases that are valid."""

    about: ClassVar[str] = "mechanism"

    reliability_target: Fraction | None = optional_level()  # eta_0
    family: Family = choice(Family, Family.DECISIONS)
    shares: Mapping[str, Level] | None = read_by(
        _read_shares, None, optional=True
    )  # of the family budgets; None: equal

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reliability_target is None:
            raise RegistryError(
                "a claim about a mechanism needs reliability_target, the share of fresh releases "
                "that must be valid; named releases alone go to certify_releases"
            )

    @property
    def target(self) -> float:
        """``eta_0`` as a float."""
        assert self.reliability_target is not None  # checked above
        return float(self.reliability_target)

    @property
    def sequential(self) -> bool:
        """Whether a sequential audit may go by this claim's score (theory section 5)."""
        return False

    def stated(self) -> dict[str, str | None]:
        """Return the choices that a certificate repeats by name, for readers."""
        return {"mode": self.mode, "bound": None, "dependence": "arbitrary"}

    def assertions(self) -> list[str]:
        """Return what the caller vouches for beside the design, in sentences."""
        return []

    @abstractmethod
    def lower_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the lower confidence bound on the reliability.

        Guarantee
        ---------
        That of the certificate which the mode names; the bound says what it rests on.
        """

    def valid_count(self, evidence: MechanismEvidence, levels: Levels) -> ValidCount | None:
        """Return the count of valid releases behind the bound, where the mode makes one."""
        return None

    def upper_bounds(self, audits: Mapping[str, AtLevels]) -> dict[str, ReliabilityBound | None]:
        """Return the violation bound of each mechanism of the family."""
        if self.beta is None:
            return dict.fromkeys(audits)
        return {
            name: self.upper_bound(evidence, levels) for name, (evidence, levels) in audits.items()
        }

    @abstractmethod
    def upper_bound(self, evidence: MechanismEvidence, levels: Levels) -> ReliabilityBound:
        """Return the upper confidence bound on the reliability of one mechanism."""


SomeClaim = TypeVar("SomeClaim", bound=Claim)


def component(kind: type[SomeClaim], **values: object) -> SomeClaim:
    """Return a claim that is a part of another one, with values that were read already.

    It does not pass the door: a share of a registered level may lie below what a caller may write.
    """
    # Not through __init__: keywords differ from mode to mode, and the door is a second step.
    made = object.__new__(kind)
    for item in fields(kind):
        object.__setattr__(made, item.name, values.get(item.name, item.default))
    return made


def group_objections(design: Design) -> list[str]:
    """Return why a design does not cover requirements about a subgroup; empty if it does."""
    if isinstance(design, Iid | Weighted):
        return []
    return [
        "subgroup requirements condition on which records belong to the group, which is covered "
        f"for iid and for weighted records; the design is {type(design).__name__}: ask for the "
        "group's mean as a query, ratio = [ABOVE, BELOW], where in every table column BELOW is 1 "
        "in the group and 0 elsewhere, and ABOVE the number in the group and 0 elsewhere"
    ]


def _requirement_objections(design: Design, requirements: Requirements) -> list[str]:
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
    if any(r.group is not None for r in requirements):
        reasons += group_objections(design)
    exposed = [r.name for r in requirements if r.form is Form.EXPOSURE]
    if exposed and clusters_of(design) is not None:
        reasons.append(
            f"{exposed} are about exposure, where members count by row and the target by cluster: "
            "a difference between large clusters and small ones would be taken for exposure; "
            "declare a target of single records"
        )
    if exposed and isinstance(design, Weighted):
        reasons.append(
            f"{exposed} are about exposure, where members count by row and the target by weight: "
            "a difference between heavy records and light ones would be taken for exposure; "
            "declare a target of records that count alike"
        )
    return reasons
