"""What a declaration says about exposure: which attacks, how they see a row, which limit.

An attack scores single rows, higher for rows that it takes for members. `ExposureKind` is what is
required of its scores, `AttackPart` an attack with its settings, `ExposurePart` the table
``[exposure]`` that all of them share, and `ExposureQuestion` one kind asked of one attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from pydantic import Field, JsonValue, model_validator

from proxyguard.registry.fields import (
    DecimalText,
    DeclarationPart,
    Name,
    Positive,
    SeedNumber,
    Share,
    Text,
    number,
)
from proxyguard.registry.requirement import PERCENT, Unit


class ExposureKind(Enum):
    """What is required of an attack's scores.

    Attributes
    ----------
    ADVANTAGE
        At one registered threshold, members are flagged hardly more often than others.
    EVERYWHERE
        The same at every threshold at once.
    TPR
        No threshold with few false alarms finds more than so many members.
    AUC
        A member outscores a fresh record hardly more often than a coin says.
    ATTRIBUTE
        A secret column is guessed for members hardly more often than for others.
    LINKABILITY
        Two halves of a row are linked for members hardly more often than for others.
    """

    ADVANTAGE = "advantage"
    EVERYWHERE = "advantage everywhere"
    TPR = "tpr at fpr"
    AUC = "membership auc"
    ATTRIBUTE = "attribute inference"
    LINKABILITY = "linkability"

    @property
    def counts_success(self) -> bool:
        """Whether an attack succeeds or fails at a row, so that no threshold is needed."""
        return self in (ExposureKind.ATTRIBUTE, ExposureKind.LINKABILITY)

    @property
    def is_difference(self) -> bool:
        """Whether the limit is on a share of members less that of others."""
        return self not in (ExposureKind.TPR, ExposureKind.AUC)


# Attacks of our own by what they are asked for; an import path scores for membership.
MEMBERSHIP = (
    "dcr", "calibrated dcr", "nearest-neighbour ratio", "density", "domias", "gen-lra",
    "gen-lra refit", "share in radius", "synthetic among nearest", "classifier",
)  # fmt: skip
ATTRIBUTE = ("nearest row", "model")
LINKABILITY = ("linkability",)
_KINDS = frozenset({*MEMBERSHIP, *ATTRIBUTE, *LINKABILITY})
# The neighbours that an attack looks at, where its settings do not say.
NEIGHBORS = {"gen-lra": 10, "gen-lra refit": 10, "synthetic among nearest": 20, "linkability": 1}
# Whose densities could be singular without noise.
JITTERED = ("density", "domias", "gen-lra refit")
# The noise where settings do not say.
JITTER = "1e-6"
# At how many thresholds a violation of "advantage everywhere" is looked for.
THRESHOLDS = 20


class ThresholdRule(DeclarationPart):
    """From which score on a row is flagged: a quantile of scores of open rows.

    The quantile is a score itself, the next higher one between two of them. Scores of reference
    rows are no choice: attacks that divide by a density of these rows underrate them.
    """

    quantile: Share
    """The quantile: 0.95 flags about one row in twenty."""
    of: Literal["calibration", "members"] = "calibration"
    """Whose scores they are."""


class AttackPart(DeclarationPart):
    """One attack and its settings; one of ours without settings needs no entry."""

    kind: Name
    """One of ours, or an import path, module:class."""
    neighbors: Positive | None = None
    """How many nearest rows it looks at."""
    jitter: DecimalText | None = None
    """Standard deviation of the noise that keeps densities from being singular; else 1e-6."""
    secret: Name | None = None
    """Of attribute inference: the column that is guessed."""
    known: tuple[Name, ...] | None = None
    """Of attribute inference: the columns that the attacker knows; left out, all others."""
    tolerance: DecimalText | None = None
    """Of attribute inference: how far off a guessed number may be, as a share of the guess."""
    sides: tuple[tuple[Name, ...], tuple[Name, ...]] | None = None
    """Of linkability: the columns of the two halves."""
    options: dict[Name, JsonValue] = Field(default_factory=dict)
    """Options of an attack by import path."""

    @model_validator(mode="after")
    def _fits(self) -> AttackPart:
        if self.asks is None:
            known = ", ".join((*MEMBERSHIP, *ATTRIBUTE, *LINKABILITY))
            raise ValueError(f"no attack {self.kind!r}; there are {known}, or module:class")
        if self.options and not self.by_path:
            raise ValueError(f"{self.kind!r} has no options; they are for attacks by import path")
        if self.neighbors is not None and self.kind not in NEIGHBORS:
            raise ValueError(f"{self.kind!r} looks at no number of neighbors; leave it out")
        attribute = self.kind in ATTRIBUTE
        if attribute != (self.secret is not None):
            raise ValueError(f"{', '.join(ATTRIBUTE)} guess a secret column, and no other does")
        if not attribute and (self.known is not None or self.tolerance is not None):
            raise ValueError("known and tolerance are of attacks that guess a secret column")
        if self.known is not None and (not self.known or self.secret in self.known):
            raise ValueError(f"known names columns other than the secret, got {list(self.known)}")
        if self.tolerance is not None and number(self.tolerance) < 0:
            raise ValueError(f"tolerance is no negative number, got {self.tolerance!r}")
        # Not by which fields are set: a registry is written with all of them, and read again.
        if self.jitter is not None and self.kind not in JITTERED:
            raise ValueError(
                f"{self.kind!r} adds no jitter, {', '.join(JITTERED)} do; leave jitter out"
            )
        if self.jitter is not None and number(self.jitter) < 0:
            raise ValueError(f"jitter is no negative number, got {self.jitter!r}")
        if (self.kind in LINKABILITY) != (self.sides is not None):
            raise ValueError("linkability, and nothing else, has the columns of two sides")
        if self.sides is not None and (
            not all(self.sides) or set.intersection(*map(set, self.sides))
        ):
            raise ValueError(f"the two sides have different columns, got {self.sides}")
        return self

    @property
    def by_path(self) -> bool:
        """Whether it is code of others, named by import path."""
        return ":" in self.kind

    @property
    def asks(self) -> Literal["membership", "attribute", "linkability"] | None:
        """What it tells of a row; nothing where there is no such attack."""
        if self.kind in MEMBERSHIP or self.by_path:
            return "membership"
        if self.kind in ATTRIBUTE:
            return "attribute"
        return "linkability" if self.kind in LINKABILITY else None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it names."""
        sides = (name for side in self.sides or () for name in side)
        return frozenset({*(self.known or ()), *sides} | ({self.secret} if self.secret else set()))

    @property
    def k(self) -> int:
        """The neighbours it looks at."""
        return self.neighbors or NEIGHBORS.get(self.kind, 1)


class MemberSample(DeclarationPart):
    """A simple random sample of the members, where all of them are too many to score."""

    rows: Positive
    """How many members are scored, a sample of its own for each release."""
    error: Share
    """The error of the sample, which is added to every p-value."""


# Attacks that a claimed epsilon may be tested with: fitted without a look at the members. Those by
# import path are none of them: the seeds are registered, and their code could toss the coins again.
GUESSING = tuple(name for name in MEMBERSHIP if name != "share in radius")


class EpsilonPart(DeclarationPart):
    """A privacy parameter that somebody claims, to be refuted; it can never be confirmed."""

    claimed: DecimalText
    """The claimed epsilon."""
    delta: DecimalText = "0"
    """The claimed delta."""
    mechanism: Name | None = None
    """Of which mechanism; left out where there is one."""
    attack: Name
    """The attack that guesses who was trained on: one of ours, or one of [exposure.attack]."""
    guesses: Positive
    """Guesses about each draw: one half the highest scores, "in", the other the lowest, "out"."""
    alpha: Share = "0.05"
    """The error level of all declared epsilons together."""

    @model_validator(mode="after")
    def _possible(self) -> EpsilonPart:
        if number(self.claimed) < 0 or not 0 <= number(self.delta) < 1:
            raise ValueError(
                f"need claimed >= 0 and 0 <= delta < 1, got {self.claimed} and {self.delta}"
            )
        if self.guesses % 2:
            raise ValueError(f"one half of the guesses is in, one out: {self.guesses} is odd")
        return self


class ExposurePart(DeclarationPart):
    """How attacks see a row, and what all of them share."""

    components: Positive | None = None
    """Principal components of the reference rows; left out, all coordinates."""
    seed: SeedNumber = 0
    """Seed of the attacker's randomness, with that of the draw."""
    same_law: Text | None = None
    """Why members and target have one law, where the target has a table of its own."""
    member_sample: MemberSample | None = None
    """The members that are scored, where they are too many."""
    attack: dict[Name, AttackPart] = Field(default_factory=dict)
    """Attacks by the name that requirements call them."""
    epsilon: EpsilonPart | tuple[EpsilonPart, ...] = ()
    """Claimed privacy parameters, to be refuted."""

    @property
    def epsilons(self) -> tuple[EpsilonPart, ...]:
        """All claimed privacy parameters."""
        return (self.epsilon,) if isinstance(self.epsilon, EpsilonPart) else self.epsilon

    @model_validator(mode="after")
    def _names(self) -> ExposurePart:
        # A certificate says who attacked by these names: "dcr" that is something else would lie.
        other = {
            name: part.kind
            for name, part in self.attack.items()
            if (name in _KINDS or ":" in name) and name != part.kind
        }
        for name, kind in other.items():
            raise ValueError(
                f"exposure.attack.{name!r} has the name of another attack and the kind {kind!r}; "
                "give it a name of its own"
            )
        return self

    def settings(self, attack: str) -> AttackPart:
        """Return an attack that a requirement names: declared, or one of ours as it is."""
        return self.attack.get(attack) or AttackPart(kind=attack)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureQuestion:
    """One kind of exposure, asked of one attack.

    Attributes
    ----------
    kind
        What is required of the scores.
    attack, settings
        The attack by name, and how it is made.
    ceiling
        The declared limit: of the advantage, of the share that is found, or of the AUC.
    rule
        Of `ExposureKind.ADVANTAGE`: from which score on rows are flagged.
    fpr
        Of `ExposureKind.TPR`: the share of false alarms.
    """

    kind: ExposureKind
    attack: str
    settings: AttackPart
    ceiling: float
    rule: ThresholdRule | None = None
    fpr: float | None = None

    @property
    def promise(self) -> str:
        """What is promised where the limit is kept, with ``{attacks}`` for who attacks."""
        return _PROMISES[self.kind].format(
            attacks="{attacks}",
            points=Unit(factor=100, level=" points").amount(self.ceiling),
            share=PERCENT.amount(self.ceiling),
            alarms=PERCENT.amount(self.fpr or 0.0),
            secret=self.settings.secret,
        )


_PROMISES = {
    ExposureKind.ADVANTAGE: (
        "members are flagged by {attacks}, at a registered threshold, less than {points} more "
        "often than others"
    ),
    ExposureKind.EVERYWHERE: (
        "no threshold of {attacks} tells members from others by {points} or more"
    ),
    ExposureKind.TPR: (
        "no threshold of {attacks} finds {share} of the members with false alarms on at most "
        "{alarms} of others"
    ),
    ExposureKind.AUC: (
        "a member is ranked above another record by {attacks} in less than {share} of pairs"
    ),
    ExposureKind.ATTRIBUTE: (
        "{secret!r} is guessed by {attacks} for members less than {points} more often than for "
        "others"
    ),
    ExposureKind.LINKABILITY: (
        "two halves of a row are linked by {attacks} for members less than {points} more often "
        "than for others"
    ),
}
