"""Refute a claimed privacy parameter by guessing who was trained on (theory section 6, E8).

With ``inclusion = "coins"`` a fair coin for each training row, tossed from the draw's seed, decided
whether it is a member of that draw. An attack that is fitted to the release and the reference rows
scores all training rows; the highest are guessed "in", the lowest "out", and the right guesses of
all draws are counted. Too many of them refute the claimed epsilon; few of them prove nothing, so
that this is a statement beside the verdicts and never one of the requirements.

Nothing here reads the target, and all that is read lies in the folder once releases are frozen.
`decide.predicate_of` asks for it at the opening and in `verify` alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from proxyguard.audit.attacks import MemberAttacks
from proxyguard.audit.development import MemberDevelopment
from proxyguard.documents.certificate import EpsilonRecord
from proxyguard.documents.releases import AnyDraw, ReleaseManifest
from proxyguard.draw.protocol import coin_bits, members_in
from proxyguard.errors import SealError
from proxyguard.exact.exposure import epsilon_lower, epsilon_pvalue
from proxyguard.exact.rounding import Array, weaken_pvalue
from proxyguard.exposure.representation import Rows
from proxyguard.registry.exposure import EpsilonPart
from proxyguard.registry.fields import number


def best_guesses(scores: Array, guesses: int, order: int | str) -> NDArray[np.int8]:
    """Return a guess for every row: 1 for in, -1 for out, 0 where none is made.

    Parameters
    ----------
    scores
        Of all rows that a coin was tossed for, higher for rows that look like members.
    guesses
        How many are made, an even number: one half about the highest scores, one about the lowest.
    order
        Decides, by a hash, the order of rows with the same score; never their places in the table.
    """
    digest = hashlib.shake_256(f"proxyguard guesses {order}".encode()).digest(8 * scores.size)
    keys = np.frombuffer(digest, dtype="<u8")
    # In single precision: the last places of another machine's arithmetic move no guess.
    with np.errstate(over="ignore"):
        ranked = np.lexsort((keys, scores.astype(np.float32)))
    guessed = np.zeros(scores.size, dtype=np.int8)
    guessed[ranked[: guesses // 2]] = -1
    guessed[ranked[scores.size - guesses // 2 :]] = 1
    return guessed


class Guesser:
    """Guesses of one attack about the draws of one mechanism.

    Parameters
    ----------
    development
        The training rows, for each of which a coin was tossed, and the reference rows.
    part
        The claimed epsilon, with the attack that is to refute it.
    """

    def __init__(self, development: MemberDevelopment, part: EpsilonPart) -> None:
        self._part, self._attacks = part, MemberAttacks(development, ())
        # All rows and not the included ones: an attack must not see the coins.
        self._rows = Rows(development.members(), self._attacks.representation)
        self._attacking = development.member.attacking

    def __len__(self) -> int:
        return len(self._rows)

    def right(self, draw: AnyDraw) -> int:
        """Return how many guesses about one draw are right.

        None where it failed, or the attack cannot be made on its release: the registered number
        of guesses counts all the same, for a mechanism could choose when to fail.
        """
        part, n = self._part, len(self._rows)
        if part.guesses > n:
            raise SealError(f"{part.guesses} guesses about each draw, of {n} training rows")
        settings = {part.attack: self._attacking.settings(part.attack)}
        scores = self._attacks.scores(draw, settings, self._rows).get(part.attack)
        if scores is None:
            return 0
        order = f"{self._attacking.seed} {draw.seed}"
        guessed = best_guesses(scores, part.guesses, order)
        included = members_in(coin_bits(draw.seed, n), n)
        return int(np.count_nonzero(guessed == np.where(included, 1, -1)))


def epsilon_records(
    developments: Sequence[MemberDevelopment], manifest: ReleaseManifest
) -> tuple[EpsilonRecord, ...]:
    """Return what became of every claimed epsilon.

    Parameters
    ----------
    developments
        The development parts of all members that claim some.
    manifest
        The frozen releases. Excluded ones count too: whoever could leave out draws whose coins
        were guessed badly would refute any claim.
    """
    declared = [(own, part) for own in developments for part in own.member.epsilons]
    with threadpool_limits(1):  # sums in another order are other scores
        return tuple(_record(own, part, manifest, len(declared)) for own, part in declared)


def _record(
    development: MemberDevelopment, part: EpsilonPart, manifest: ReleaseManifest, family: int
) -> EpsilonRecord:
    member = development.member
    name = member.guessed(part).name
    draws = manifest.draws(member.name, name)
    guesser = Guesser(development, part)
    right = sum(guesser.right(draw) for draw in draws)
    guesses, coins = len(draws) * part.guesses, len(draws) * len(guesser)
    claimed, delta, alpha = number(part.claimed), number(part.delta), number(part.alpha)
    pvalue = epsilon_pvalue(right, guesses, claimed, delta=delta, coins=coins)
    adjusted = float(weaken_pvalue(family * pvalue))
    # Rounded down, so that all declared epsilons together spend no more than alpha.
    level = float(np.nextafter(alpha / family, 0.0))
    lower = epsilon_lower(right, guesses, alpha=level, delta=delta, coins=coins)
    refuted = adjusted <= alpha
    return EpsilonRecord(
        mechanism=name, claimed=part.claimed, delta=part.delta, attack=part.attack,
        alpha=part.alpha, draws=len(draws), coins=coins, guesses=guesses, right=right,
        pvalue=adjusted, lower=lower, refuted=refuted,
        sentence=_sentence(name, part, right, guesses, lower, refuted=refuted),
    )  # fmt: skip


def _sentence(
    name: str, part: EpsilonPart, right: int, guesses: int, lower: float, *, refuted: bool
) -> str:
    claim = f"epsilon {part.claimed}" + (f", delta {part.delta}" if number(part.delta) else "")
    counted = (
        f"{part.attack} guessed for {guesses:,} coins whether they put a row into training, "
        f"{right:,} times right"
    )
    if not refuted:
        return (
            f"Not refuted: that {name} has {claim} for one row more or less. {counted}. This "
            "proves nothing: another attack may guess better, and no guesses confirm an epsilon."
        )
    given = " with this delta" if number(part.delta) else ""
    # Rounded down: the words must not say more than was shown.
    shown = floor(1000 * max(lower, number(part.claimed))) / 1000
    return (
        f"Refuted, at error level {part.alpha}: that {name} has {claim} for one row more or "
        f"less. {counted}; its epsilon{given} is above {shown:g}."
    )
