"""The attacks that a declaration may name, and a suite of them on one release.

A score is a fixed function of one record, given the release, members, reference and seed: it is the
same to the last bit whichever other rows are scored with it. Larger means that the record looks
like a member; attacks that succeed or not give 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.exposure.attributes import Linkability, ModelSecret, NearestSecret, Secret
from proxyguard.exposure.membership import (
    Attack,
    CalibratedDistance,
    Classifier,
    ClosestDistance,
    DensityScore,
    DistanceRatio,
    Domias,
    GenLra,
    GenLraRefit,
    Ground,
    ShareInRadius,
    SyntheticAmongNearest,
    View,
)
from proxyguard.exposure.representation import Rows
from proxyguard.registry.exposure import AttackPart
from proxyguard.registry.fields import number

Fit = Callable[[AttackPart, Ground], Attack]


def _jitter(part: AttackPart) -> float:
    return number(part.jitter)


def _secret(part: AttackPart, ground: Ground) -> Secret:
    names = ground.release.representation.names
    known = [name for name in names if name != part.secret] if part.known is None else part.known
    tolerance = 0.0 if part.tolerance is None else number(part.tolerance)
    return Secret.of(ground.reference.frame, str(part.secret), known, tolerance)


ATTACKS: dict[str, Fit] = {
    "dcr": lambda part, ground: ClosestDistance(),
    "calibrated dcr": lambda part, ground: CalibratedDistance(),
    "nearest-neighbour ratio": lambda part, ground: DistanceRatio(),
    "density": lambda part, ground: DensityScore(_jitter(part)),
    "domias": lambda part, ground: Domias(_jitter(part)),
    "gen-lra": lambda part, ground: GenLra(ground, part.k),
    "gen-lra refit": lambda part, ground: GenLraRefit(ground, part.k, _jitter(part)),
    "share in radius": lambda part, ground: ShareInRadius(ground.radius),
    "synthetic among nearest": lambda part, ground: SyntheticAmongNearest(part.k),
    "classifier": lambda part, ground: Classifier(ground),
    "nearest row": lambda part, ground: NearestSecret(ground, _secret(part, ground)),
    "model": lambda part, ground: ModelSecret(ground, _secret(part, ground)),
    "linkability": lambda part, ground: Linkability(ground, part.sides or ((), ()), part.k),
}
"""How each kind of attack is fitted to a release."""


class AttackSuite:
    """Several attacks on one release; what they share is worked out once.

    Parameters
    ----------
    ground
        The release, and what is known of members and others.
    attacks
        Fitted attacks by name.
    """

    def __init__(self, ground: Ground, attacks: Mapping[str, Attack]) -> None:
        self._ground, self._attacks = ground, dict(attacks)

    @classmethod
    def fit(
        cls,
        attacks: Mapping[str, AttackPart],
        release: Rows,
        reference: Rows,
        members: Rows,
        seed: int,
        draw: int = 0,
    ) -> AttackSuite:
        """Return the attacks, fitted to a release.

        Parameters
        ----------
        attacks
            Settings by the name that the declaration gives each attack.
        release
            The release.
        reference
            Rows of others, the same for all releases: what they give is worked out once.
        members
            The rows that the release was made from.
        seed, draw
            The attacker's seed, and the release's own: noise on the reference is of the first
            alone.

        Raises
        ------
        RegistryError
            There is no attack of this kind.
        UnsupportedDesign
            The release, the reference or the members have no rows.
        TableError
            A column that an attack reads is missing.
        """
        ground = Ground(release, reference, members, seed, draw)
        unknown = {name: part.kind for name, part in attacks.items() if part.kind not in ATTACKS}
        if unknown:
            raise RegistryError(
                f"there is no attack of the kind {sorted(unknown.values())}; kinds are "
                f"{sorted(ATTACKS)}"
            )
        return cls(
            ground, {name: ATTACKS[part.kind](part, ground) for name, part in attacks.items()}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attacks."""
        return tuple(self._attacks)

    def scores(self, rows: Rows) -> dict[str, Array]:
        """Return the scores of these rows, ``(n,)`` for each attack; every one is a number.

        Raises
        ------
        TableError
            A column that an attack reads is missing.
        """
        view = View(self._ground, rows)
        scores: dict[str, Array] = {}
        # Who asks for most neighbours first: the others' are among them.
        for name in sorted(self._attacks, key=lambda name: -self._attacks[name].neighbors):
            scores[name] = self._attacks[name].score(view)
        return {name: scores[name] for name in self._attacks}
