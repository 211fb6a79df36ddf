"""Describe attacked releases: what attacks find, copies, distances. None of it decides anything.

`GroupFigures` looks at the first releases of a group while they are attacked. What it says of
members and of open rows follows from the folder alone, and `check_figures` finds it again for
`verify`; of the target it counts who is flagged at thresholds that members choose. No score of a
target record is kept, and under a disclosure the counts are not written either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.attacks import BEYOND, SUCCESS, Attacked, Found, MemberAttacks
from proxyguard.audit.home import one_thread
from proxyguard.documents.canonical import Plain
from proxyguard.documents.evidence import AttackFigures, ExposureFigures, JsonNumber
from proxyguard.documents.releases import AnyDraw, DrawnRelease
from proxyguard.errors import SealError
from proxyguard.exact.rounding import Array
from proxyguard.exposure.descriptive import (
    LEVELS,
    Copies,
    ReleaseDescription,
    describe_release,
    random_release,
)
from proxyguard.exposure.representation import Rows
from proxyguard.exposure.statistics import Census
from proxyguard.registry.exposure import THRESHOLDS

# Releases of a group that are described; more would say the same, and cost as much as attacking.
DESCRIBED = 20
# What is said of the target.
_OF_TARGET = ("alarms", "alarms_least", "alarms_most", "threshold_alarms")
# By how much what is found again may differ: scores of another machine's arithmetic may change
# places, and a share of some hundred rows moves by one of them. Rows that are equal are equal on
# every machine, and of a share of them only the division may be rounded otherwise.
_SHARES, _QUANTILES, _COUNTED = 0.02, 1e-4, 1e-9
_OF_SCORES = ("hits", "open_alarms", "threshold_hits", "baseline_hits", "baseline_alarms")


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What one requirement's attack says of one release; shares at its thresholds."""

    members: int
    thresholds: Array  # those of the curve, then the requirement's own, where it has one
    curve: int  # how many are of the curve
    hits: Array
    open_alarms: Array | None  # nothing without rows that the attacks do not know
    member_scores: Array
    open_scores: Array | None
    flagged: NDArray[np.int64]  # nonmembers of the target, at the same thresholds

    @classmethod
    def of(cls, told: Found, others: Array | None) -> _Seen:
        """Count members and open rows at the thresholds that the members choose."""
        # Unweighted on both sides: strata are weighted where something is decided.
        census = Census(told.census.scores)
        if told.question.kind.counts_success:
            thresholds, registered = np.array([SUCCESS]), None
        else:
            thresholds = census.thresholds[census.registered(THRESHOLDS)]
            registered = told.threshold
        curve = thresholds.size
        if registered is not None:
            thresholds = np.append(thresholds, registered)
        return cls(
            told.members,
            thresholds,
            curve,
            census.share(thresholds),
            None if others is None else Census(others).share(thresholds),
            _quantiles(census.scores),
            None if others is None else _quantiles(others),
            np.zeros(thresholds.size, dtype=np.int64),
        )


def _quantiles(scores: Array) -> Array:
    # By a score itself: between minus infinity and a number there is nothing to interpolate.
    return np.quantile(scores, LEVELS, method="inverted_cdf")


class GroupFigures:
    """The figures of one group, gathered while its releases are attacked.

    Parameters
    ----------
    attacks
        The attacks on the group's releases.
    draws
        Its releases in order; the first `DESCRIBED` that there are will be described.
    """

    def __init__(self, attacks: MemberAttacks, draws: Sequence[AnyDraw]) -> None:
        self._attacks = attacks
        there = [d for d in draws if isinstance(d, DrawnRelease) and not d.failed]
        self._draws = {draw.label: draw for draw in there[:DESCRIBED]}
        self._shared: Rows | None = None  # the members of all draws that name none
        self._described: dict[str, ReleaseDescription] = {}
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._nonmembers: dict[tuple[str, int], int] = {}

    def see(
        self,
        attacked: Attacked,
        scores: Mapping[str, Array],
        masks: Sequence[NDArray[np.bool_]],
    ) -> None:
        """Count who is flagged among some records of the target.

        Parameters
        ----------
        attacked
            The attacks on one release.
        scores
            Scores of the records, by attack; they are not kept.
        masks
            By measure, which records count.
        """
        label = attacked.draw.label
        if label not in self._described:
            self.describe(attacked)
        if label not in self._described:
            return
        for j, told in self._ours(attacked):
            fresh = np.sort(scores[told.question.attack][masks[j]])
            seen = self._seen[label, j]
            below = np.searchsorted(fresh, seen.thresholds, side="left")
            seen.flagged[:] += fresh.size - below
            self._nonmembers[label, j] = self._nonmembers.get((label, j), 0) + fresh.size

    def describe(self, attacked: Attacked) -> None:
        """Describe a release from what lies open, if it is one of those that are described."""
        draw = self._draws.get(attacked.draw.label)
        if draw is None or attacked.release is None or not self._ours(attacked):
            return
        try:
            described = describe_release(
                attacked.release, self._members(draw), self._compared, self._copies(draw)
            )
        except BEYOND:
            # Text where members have numbers, say: it is not among those described, which are told.
            del self._draws[draw.label]
            return
        self._described[draw.label] = described
        for j, seen in self._look(attacked).items():
            self._seen[draw.label, j] = seen

    def _look(self, attacked: Attacked) -> dict[int, _Seen]:
        """Return what each attack says of members, and of calibration rows where there are any.

        No other open rows can stand for others: attacks are fitted on the reference rows (a density
        is divided by theirs, a distance compared with the one to them), and a release that knows
        nobody is drawn from them.
        """
        calibration = self._attacks.calibration
        scores = {} if calibration is None else attacked.scores(calibration)[0]
        return {
            j: _Seen.of(told, scores.get(told.question.attack)) for j, told in self._ours(attacked)
        }

    def _ours(self, attacked: Attacked) -> list[tuple[int, Found]]:
        """Return what attacks of the package found; code of others is asked for no description."""
        return [(j, told) for j, told in attacked.found.items() if not self._attacks.is_named(j)]

    def _members(self, draw: DrawnRelease) -> Rows:
        """Return the members of a draw in the columns that attacks see; others name records."""
        if draw.members is not None:
            return self._visible(draw)
        if self._shared is None:
            self._shared = self._visible(draw)
        return self._shared

    def _visible(self, draw: DrawnRelease) -> Rows:
        fitted = self._attacks.representation
        return Rows(self._attacks.members_of(draw).frame[list(fitted.names)], fitted)

    def _copies(self, draw: DrawnRelease) -> Copies:
        members = self._members(draw)
        return members.keep("copies", lambda: Copies(members.frame), Copies)

    @property
    def _compared(self) -> Rows:
        """The rows whose distances are described: no attack has a part in these."""
        calibration = self._attacks.calibration
        return self._attacks.reference if calibration is None else calibration

    def _baseline(self) -> dict[int, _Seen]:
        """Return what the attacks say of a release that knows nobody."""
        first = next(iter(self._described))
        draw = self._draws[first]
        frame = random_release(
            self._attacks.reference.frame, self._described[first].rows, self._attacks.seed
        )
        attacked = self._attacks.attack(
            draw, Rows(frame, self._attacks.representation), named=False
        )
        return self._look(attacked)

    def document(self, *, target: bool) -> ExposureFigures | None:
        """Return the figures of all releases that were described; nothing where none was.

        Parameters
        ----------
        target
            Whether shares of the target's nonmembers are written.
        """
        if not self._described:
            return None
        releases = list(self._described.values())
        baseline = self._baseline()
        attacks = [
            self._figures(j, baseline[j], target=target)
            for j in range(len(self._attacks.measures))
            # An attack that cannot be fitted says nothing.
            if j in baseline and any((label, j) in self._seen for label in self._described)
        ]

        def mean(name: str) -> float:
            return float(np.mean([getattr(each, name) for each in releases]))

        members = [len(self._members(self._draws[name])) for name in self._described]
        return ExposureFigures(
            releases=tuple(self._described),
            open_rows="reference" if self._attacks.calibration is None else "calibration",
            levels=LEVELS,
            rows=sum(each.rows for each in releases),
            copies=sum(each.copies for each in releases),
            copied_members=float(
                np.mean([e.copied_members / n for e, n in zip(releases, members, strict=True)])
            ),
            identical_members=mean("identical_members"),
            identical_others=mean("identical_others"),
            member_distances=_mean([np.array(each.member_distances) for each in releases]),
            other_distances=_mean([np.array(each.other_distances) for each in releases]),
            attacks=tuple(attacks),
        )

    def _figures(self, j: int, baseline: _Seen, *, target: bool) -> AttackFigures:
        labels = [label for label in self._described if (label, j) in self._seen]
        seen = [self._seen[label, j] for label in labels]
        measure = self._attacks.measures[j]
        assert measure.exposure is not None  # the attacks have no other measures
        alarms: Array | None = None
        if target and all(self._nonmembers.get((label, j)) for label in labels):
            alarms = np.array(
                [
                    each.flagged / self._nonmembers[label, j]
                    for label, each in zip(labels, seen, strict=True)
                ]
            )

        curve = seen[0].curve
        at_threshold = slice(curve, curve + 1)

        def at_own(arrays: Sequence[Array] | Array) -> float | None:
            """Return the mean at the requirement's own threshold, where it has one."""
            means = np.mean(arrays, axis=0)[at_threshold]
            return float(means[0]) if means.size else None

        hits = [each.hits for each in seen]
        return AttackFigures(
            requirement=measure.requirement.name,
            attack=measure.exposure.attack,
            members=seen[0].members,
            hits=_mean(hits, curve),
            alarms=None if alarms is None else _mean(alarms, curve),
            alarms_least=None if alarms is None else _json(alarms.min(axis=0)[:curve]),
            alarms_most=None if alarms is None else _json(alarms.max(axis=0)[:curve]),
            open_alarms=_mean_if([each.open_alarms for each in seen], curve),
            threshold_hits=at_own(hits),
            threshold_alarms=None if alarms is None else at_own(alarms),
            baseline_hits=_json(baseline.hits[:curve]),
            baseline_alarms=_mean_if([baseline.open_alarms], curve),
            member_scores=_mean([each.member_scores for each in seen]),
            open_scores=_mean_if([each.open_scores for each in seen]),
        )


def _mean(arrays: Sequence[Array] | Array, most: int | None = None) -> tuple[JsonNumber, ...]:
    """Return the mean over releases, of the first so many entries."""
    return _json(np.mean(arrays, axis=0)[:most])


def _mean_if(
    arrays: Sequence[Array | None], most: int | None = None
) -> tuple[JsonNumber, ...] | None:
    """Return the mean over releases; nothing where there are no calibration rows."""
    there = [array for array in arrays if array is not None]
    return _mean(there, most) if there else None


def _json(numbers: Array) -> tuple[JsonNumber, ...]:
    """Return numbers as JSON has them; an infinite score is a text."""
    return tuple(
        number if np.isfinite(number) else ("inf" if number > 0 else "-inf")
        for number in numbers.tolist()
    )


def check_figures(figures: GroupFigures, shown: ExposureFigures | None, where: str) -> None:
    """Raise unless what is said of members and open rows is what the folder gives again.

    Shares of the target's nonmembers cannot be found again without it: they are shares, and rise
    with the share of members.

    Parameters
    ----------
    figures
        The releases of a group, described again.
    shown
        The figures on record.
    where
        What an error calls the group.

    Raises
    ------
    SealError
        Where a figure is another one.
    """
    with one_thread():
        expected = figures.document(target=False)
    if shown is None or expected is None:
        if shown is not expected:
            raise SealError(f"{where}: the figures of exposure do not fit the releases")
        return
    for attack in shown.attacks:
        at_threshold = attack.threshold_alarms
        for shares in (
            attack.alarms,
            attack.alarms_least,
            attack.alarms_most,
            None if at_threshold is None else (at_threshold,) * len(attack.hits),
        ):
            _check_shares(shares, len(attack.hits), f"{where}, {attack.requirement}")
    if [a.requirement for a in expected.attacks] != [a.requirement for a in shown.attacks]:
        raise SealError(f"{where}: the figures of exposure are of other requirements")
    hidden = dict.fromkeys(_OF_TARGET)
    told = [a.model_copy(update=hidden) for a in shown.attacks]
    for mine, theirs in zip((expected, *expected.attacks), (shown, *told), strict=True):
        _check_alike(mine.to_dict(), theirs.to_dict(), where)


def _check_shares(shares: tuple[JsonNumber, ...] | None, number: int, where: str) -> None:
    if shares is None:
        return
    numbers = np.array(shares, dtype=np.float64)
    rising = bool(np.all(np.diff(numbers) >= 0.0))
    if len(shares) != number or not rising or not np.all((numbers >= 0.0) & (numbers <= 1.0)):
        raise SealError(f"{where}: shares of nonmembers that are flagged cannot be {shares}")


def _check_alike(first: Mapping[str, Plain], second: Mapping[str, Plain], where: str) -> None:
    """Raise where one set of figures has others than the other, beyond another arithmetic."""
    for name in sorted(first.keys() | second.keys()):
        a, b = first.get(name), second.get(name)
        if name == "attacks":
            continue
        curve = name in _OF_SCORES or name.endswith(("scores", "distances"))
        if curve and a is not None and b is not None:
            mine, theirs = (np.array(x, dtype=np.float64) for x in (a, b))
            near = _SHARES if name in _OF_SCORES else _QUANTILES
            same = mine.shape == theirs.shape and bool(np.allclose(mine, theirs, near, near))
        elif isinstance(a, float) and isinstance(b, float):
            same = abs(a - b) <= _COUNTED
        else:
            same = a == b
        if not same:
            raise SealError(f"{where}: the figures of exposure say {name} {b}, and it is {a}")
