"""The attacks that a declaration may name, and a suite of them on one release.

A score is a fixed function of one record, given the release, members, reference and seed: it is the
same to the last bit whichever other rows are scored with it. Larger means that the record looks
like a member; attacks that succeed or not give 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from proxyguard.errors import AttackRefused, RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.exposure.attributes import Linkability, ModelSecret, NearestSecret, Secret
from proxyguard.exposure.descriptive import random_release
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
from proxyguard.exposure.named import Apart, NamedAttack
from proxyguard.exposure.representation import Rows
from proxyguard.registry.exposure import JITTER, AttackPart
from proxyguard.registry.fields import number

Fit = Callable[[AttackPart, Ground], Attack]


def _jitter(part: AttackPart) -> float:
    return number(JITTER if part.jitter is None else part.jitter)


def _secret(part: AttackPart, ground: Ground) -> Secret:
    names = ground.release.representation.names
    known = [name for name in names if name != part.secret] if part.known is None else part.known
    tolerance = 0.0 if part.tolerance is None else number(part.tolerance)
    return Secret.of(ground.reference.frame, str(part.secret), known, tolerance)


# How each kind of attack is fitted to a release.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupScores:
    """The scores of several groups of rows, and which attacks gave none.

    Attributes
    ----------
    groups
        Scores by attack, for each group in the order in which they were given.
    refused
        Why an attack by import path gave no scores that a claim could rest on, by attack; it is in
        no group. Once the target is open that is no way out: such an attack counts as the worst.
    """

    groups: tuple[dict[str, Array], ...]
    refused: dict[str, str]


class AttackSuite:
    """Several attacks on one release; what they share is worked out once.

    Parameters
    ----------
    ground
        The release, and what is known of members and others.
    attacks
        Fitted attacks of ours by name.
    named
        Attacks by import path.
    """

    def __init__(
        self, ground: Ground, attacks: Mapping[str, Attack], named: Mapping[str, NamedAttack]
    ) -> None:
        self._ground, self._attacks, self._named = ground, dict(attacks), dict(named)

    @classmethod
    def fit(
        cls,
        attacks: Mapping[str, AttackPart],
        release: Rows,
        reference: Rows,
        members: Rows,
        seed: int,
        draw: int = 0,
        apart: Apart | None = None,
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
            The rows that the release was made from. Attacks by import path do not see them.
        seed, draw
            The attacker's seed, and the release's own: noise on the reference is of the first
            alone.
        apart
            How attacks by import path are run; without it they are refused.

        Raises
        ------
        RegistryError
            There is no attack of this kind, or it is of others and may not be run here.
        UnsupportedDesign
            The release, the reference or the members have no rows.
        TableError
            A column that an attack reads is missing.
        """
        ground = Ground(release, reference, members, seed, draw)
        ours: dict[str, Attack] = {}
        named: dict[str, NamedAttack] = {}
        columns = list(release.representation.names)
        for name, part in attacks.items():
            if part.kind in ATTACKS:
                ours[name] = ATTACKS[part.kind](part, ground)
            elif part.by_path and apart is not None:
                named[name] = NamedAttack(
                    name=name,
                    path=part.kind,
                    options=part.options,
                    release=release.frame[columns],
                    reference=reference.frame[columns],
                    apart=apart,
                )
            else:
                raise RegistryError(
                    f"there is no attack of the kind {part.kind!r} here; kinds are "
                    f"{sorted(ATTACKS)}, and an import path where code of others may be run"
                )
        return cls(ground, ours, named)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attacks."""
        return (*self._attacks, *self._named)

    def scores(self, rows: Rows) -> dict[str, Array]:
        """Return the scores of these rows, ``(n,)`` for each attack; every one is a number.

        Raises
        ------
        AttackRefused
            An attack by import path gave no scores that a claim could rest on.
        TableError
            A column that an attack reads is missing.
        """
        scored = self.score_together([rows])
        for reason in scored.refused.values():
            raise AttackRefused(reason)
        return scored.groups[0]

    def score_together(self, groups: Sequence[Rows]) -> GroupScores:
        """Return the scores of several groups of rows.

        Attacks by import path get the rows of all groups shuffled together, so that they cannot
        know which are members: members, calibration and target belong into one call.

        Raises
        ------
        TableError
            A column that an attack reads is missing.
        """
        scores = tuple(self._our_scores(rows) for rows in groups)
        refused: dict[str, str] = {}
        for name, attack in self._named.items():
            frames = [rows.frame[list(rows.representation.names)] for rows in groups]
            try:
                theirs = attack.scores(frames)
            except AttackRefused as error:
                refused[name] = str(error)
                continue
            for ours, part in zip(scores, theirs, strict=True):
                ours[name] = part
        return GroupScores(groups=scores, refused=refused)

    def _our_scores(self, rows: Rows) -> dict[str, Array]:
        view = View(self._ground, rows)
        scores: dict[str, Array] = {}
        # Who asks for most neighbours first: the others' are among them.
        for name in sorted(self._attacks, key=lambda name: -self._attacks[name].neighbors):
            scores[name] = self._attacks[name].score(view)
        return {name: scores[name] for name in self._attacks}


def try_attacks(
    attacks: Mapping[str, AttackPart], reference: Rows, groups: Sequence[Rows], apart: Apart
) -> None:
    """Try the attacks by import path on a random release, before anything depends on them.

    Parameters
    ----------
    attacks
        Settings by name; those of ours are left out.
    reference
        Rows of others.
    groups
        Open rows: members, and calibration rows.
    apart
        How their code is run.

    Raises
    ------
    AttackRefused
        One of them failed, or its score of a row depends on other rows.
    """
    named = {name: part for name, part in attacks.items() if part.by_path}
    if not named:
        return
    drawn = random_release(reference.frame, len(reference), 0)
    release = Rows(drawn, reference.representation)
    suite = AttackSuite.fit(named, release, reference, groups[0], 0, apart=apart)
    for reason in suite.score_together(groups).refused.values():
        raise AttackRefused(reason)
