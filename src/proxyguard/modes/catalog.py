"""The one list of modes, and how a claim is read from what a caller wrote.

A new mode is a class in a file of its own, and an entry in `MODES`. A keyword that no mode had
before is an entry of `Choices` too, for whoever checks types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TypedDict, TypeVar

from proxyguard.errors import RegistryError
from proxyguard.exact.multiplicity import Dependence
from proxyguard.modes.block import Block
from proxyguard.modes.claim import Claim, MechanismClaim, Mode, component, read_choice
from proxyguard.modes.collective import Collective
from proxyguard.modes.count import Count
from proxyguard.modes.direct import Direct
from proxyguard.modes.hybrid import Hybrid
from proxyguard.modes.named import Named
from proxyguard.modes.planning import Planned
from proxyguard.modes.releases import Releases
from proxyguard.modes.sequential import Sequential
from proxyguard.modes.smooth import Smooth
from proxyguard.modes.stream import Stream
from proxyguard.printable import did_you_mean, found
from proxyguard.registry.numbers import Level
from proxyguard.registry.test import Bound, ComponentTest, Family, Score

OneMode = TypeVar("OneMode", bound=Mode)

# Every mode, the plainest first; the first is the default.
MODES: tuple[type[Mode], ...] = (
    Direct,  # Theorem 6; theory section 2
    Named,  # Theorem 5
    Count,  # theory section 3
    Hybrid,  # Proposition 16
    Smooth,  # Theorem 12
    Block,  # Theorem 13
    Collective,  # Theorem 9: independent batches only
    Releases,  # Theorem 4: named releases, no mechanism
    Sequential,  # theory section 5: draws after the opening, look by look
    Stream,  # Proposition 19: candidates after the opening, round by round
)

# The mode of a claim about a mechanism that names none.
DEFAULT = Direct.mode

# The mode of a claim about named releases.
NO_MECHANISM = Releases.mode


class Choices(TypedDict, total=False):
    """The keywords of a claim, with numbers and names as a caller writes them."""

    mode: str
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
    pooled_violations: bool
    stakes: Sequence[float]


def mode_names() -> list[str]:
    """Return the names of all modes, in the order of the list."""
    return [kind.mode for kind in MODES]


def claim_modes() -> list[type[Claim]]:
    """Return the modes of a fixed audit: every draw is made before a record is looked at."""
    return [kind for kind in MODES if issubclass(kind, Claim)]


def planned_modes() -> tuple[type[Planned], ...]:
    """Return the modes whose chance of validation can be predicted, the plainest first."""
    return tuple(kind for kind in MODES if issubclass(kind, Planned))


def planned_mode(name: str) -> type[Planned]:
    """Return the class of a mode that can be planned, by its name."""
    return _named(name, planned_modes(), "a mode that can be planned")


def planned_names() -> tuple[str, ...]:
    """Return the names of the modes that can be planned."""
    return tuple(kind.mode for kind in planned_modes())


def own_batch_modes() -> list[str]:
    """Return the modes in which every release has a batch of records of its own."""
    return [kind.mode for kind in MODES if kind.own_batches]


def ramp_modes() -> list[str]:
    """Return the modes in which ramps may be chosen by a rule."""
    return [kind.mode for kind in MODES if kind.chooses_ramps]


def mode_class(name: object) -> type[Mode]:
    """Return the class of a mode by its name."""
    return _named(name, MODES)


def _claim_class(name: object) -> type[Claim]:
    """Return the class of a mode that is certified at once, from all its releases."""
    return _named(name, claim_modes())


def _named(name: object, kinds: Sequence[type[OneMode]], what: str = "mode") -> type[OneMode]:
    """Return the class of these that has a name; an error lists them, and the nearest name."""
    for kind in kinds:
        if isinstance(name, str) and kind.mode == name:
            return kind
    names = [kind.mode for kind in kinds]
    near = did_you_mean(name, names) if isinstance(name, str) else ""
    raise RegistryError(f"{what} is one of {', '.join(names)}, got {found(name)}{near}")


def about_mechanism(name: object) -> bool:
    """Return whether a mode of a fixed audit makes a claim about a mechanism."""
    return issubclass(_claim_class(name), MechanismClaim)


def mechanism_claim(choices: Mapping[str, object]) -> MechanismClaim:
    """Return a claim about a mechanism; choices of another kind are refused."""
    claim = claim_of(choices)
    if not isinstance(claim, MechanismClaim):
        raise RegistryError(
            f'mode="{claim.mode}" makes no claim about a mechanism: use certify_releases'
        )
    return claim


def claim_of(choices: Mapping[str, object]) -> Claim:
    """Return a claim in the mode that the choices name; unknown keys and names are refused.

    A choice that only other modes have is read as strictly, and kept as an objection to the
    claim unless it is their default.
    """
    given = dict(choices)
    kind = _claim_class(given.pop("mode", DEFAULT))
    known = {
        item.name: item for mode in claim_modes() for item in fields(mode) if item.name != "unused"
    }
    unknown = set(given) - set(known)
    if unknown:
        raise RegistryError(
            f"unknown choices: {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted({'mode', *known}))}"
            + "".join(did_you_mean(name, known) for name in sorted(unknown))
        )
    own = {item.name for item in fields(kind)}
    unused = []
    for name in [name for name in given if name not in own]:
        read = read_choice(known[name], given.pop(name))
        if read != known[name].default:
            unused.append((name, read))
    claim = component(kind, **given, unused=tuple(unused))
    claim.__post_init__()  # the door: every choice is read and checked
    return claim
