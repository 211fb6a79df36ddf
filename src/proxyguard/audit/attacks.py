"""Fit attacks to a frozen release, and count among the members what they find.

An attack is fitted to one release, its members, reference rows and the attacker's seed, all of
which lie in the folder before the target is opened. Given these its score is a fixed function of
one record. `MemberAttacks` makes it and counts the members (`Found`: a threshold, and the share of
them that is flagged there, which is a number); what it says of the target, `exposure` counts.

Nothing stops an opened audit. A record that an attack cannot score has the score minus infinity: no
threshold of its own flags it, member or not. So completed, the attack is still a function of one
record, and both directions stay exact for it; for validation it is the worst that a nonmember can
say. An attack that cannot be made on a release tells nothing of it: its p-values are 1 in both
directions, so that it cannot validate and is no evidence of a violation. Both are told among the
records without a prediction.

Reads stored releases and the development part; writes nothing. `check_found` compares the shares of
members on record with those found again, for `verify`.

`epsilon_records` refutes a claimed privacy parameter by guessing who was trained on (theory section
6, E8). With ``inclusion = "coins"`` a fair coin for each training row, tossed from the draw's seed,
decided whether it is a member of that draw. An attack that is fitted to the release and the
reference rows scores all training rows; the highest are guessed "in", the lowest "out", and the
right guesses of all draws are counted. Too many of them refute the claimed epsilon; few of them
prove nothing, so that this is a statement beside the verdicts and never one of the requirements.
`decide.predicate_of` asks for it at the opening and in `verify` alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.audit.development import MemberDevelopment
from proxyguard.audit.home import one_thread
from proxyguard.audit.score import is_worst
from proxyguard.documents.certificate import EpsilonRecord
from proxyguard.documents.evidence import ColumnRecord, GroupEvidence
from proxyguard.documents.releases import AnyDraw, DrawnRelease, ReleaseManifest
from proxyguard.draw.protocol import coin_bits, members_in
from proxyguard.errors import DrawError, LossMismatch, SealError, UntrustedCode
from proxyguard.exact.exposure import epsilon_lower, epsilon_pvalue
from proxyguard.exact.rounding import Array, round_down, round_up, weaken_pvalue
from proxyguard.exposure.attacks import AttackSuite
from proxyguard.exposure.descriptive import Copies
from proxyguard.exposure.named import Apart
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.exposure.statistics import (
    Census,
    auc_losses,
    flag_losses,
    flags,
    member_sample,
    registered_threshold,
    sampled_share,
)
from proxyguard.losses.measure import Measure
from proxyguard.losses.query import CodedRecords
from proxyguard.registry.design import Stratified
from proxyguard.registry.exposure import (
    AttackPart,
    EpsilonPart,
    ExposureKind,
    ExposureQuestion,
)
from proxyguard.registry.fields import number
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.target import StratifiedDesign
from proxyguard.tables.columns import as_labels

if TYPE_CHECKING:
    import pandas as pd

# What an attack may raise on rows or a release that it cannot deal with. Errors of the folder and
# of this machine are none of these.
BEYOND = (ValueError, TypeError, ArithmeticError, KeyError, DrawError)
# What is called a success by attacks that succeed or not.
SUCCESS = 0.5
# How far scores of another machine's arithmetic may lie apart, relative to their size.
APART = 1e-7
# By how much shares of members may differ once their threshold is the same.
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What an attack finds among the members of one release, for one requirement.

    Attributes
    ----------
    question
        What is asked of the attack.
    requirement
        The requirement.
    census
        The scores of the members, or of the sample of them that was scored.
    members
        How many members there are.
    threshold
        From which score on a record is flagged; nothing where all scores count.
    """

    question: ExposureQuestion
    requirement: Requirement
    census: Census
    members: int
    threshold: float | None

    @property
    def answer(self) -> float:
        """The share of members that is not flagged at the threshold, for validation."""
        return float(self.unflagged_shares(self.census.share([self._at]))[0][0])

    @property
    def answer_low(self) -> float:
        """The same for violation, which differs where members were sampled."""
        return float(self.unflagged_shares(self.census.share([self._at]))[1][0])

    @property
    def _at(self) -> float:
        assert self.threshold is not None  # of everywhere and of an AUC all scores count
        return self.threshold

    def unflagged_shares(self, shares: Array) -> tuple[Array, Array]:
        """Return which shares of all members are not flagged, for validation and for violation.

        ``shares`` are those of the scored members that are flagged.
        """
        if self.census.size == self.members:
            return 1.0 - shares, 1.0 - shares
        size = self.census.size
        limits = [
            sampled_share(
                np.arange(size) < round(size * share), self.members,
                error=self.requirement.member_error,
            )
            for share in shares.tolist()
        ]  # fmt: skip
        return (
            np.array([1.0 - each.upper for each in limits]),
            np.array([1.0 - each.lower for each in limits]),
        )

    def losses(self, scores: Array) -> Array:
        """Return the loss of every nonmember with these scores."""
        if self.threshold is None:
            return auc_losses(self.census, scores)
        flagged = flags(scores, self.threshold)
        if self.question.kind is ExposureKind.TPR:
            return np.where(flagged, 0.0, 1.0)
        return flag_losses(flagged, 1.0 - self.answer)

    def unflagged(self, scores: Array) -> int:
        """Return how many nonmembers with these scores are not flagged."""
        return int(np.count_nonzero(~flags(scores, self._at)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attacked:
    """The attacks on one release: fitted, and with what each finds among the members."""

    draw: AnyDraw
    suites: Sequence[AttackSuite]
    """What scores, each some of our attacks; those that could not be fitted are missing."""
    found: Mapping[int, Found]
    """By measure; missing where the attack could not be fitted, or the draw failed."""
    named: Mapping[str, Array] = field(default_factory=dict)
    """Scores of the whole target by attacks of others, which were asked once."""
    release: Rows | None = None
    """What was attacked; nothing where the draw failed."""

    def scores(self, rows: Rows) -> tuple[dict[str, Array], int]:
        """Return the scores of some records by attack, and how many records had none.

        Where there are attacks of others, the records are the whole target.
        """
        scores = dict(self.named)
        without = np.zeros(len(rows), dtype=bool)
        for suite in self.suites:
            for name, each in _scored(suite, rows).items():
                nothing = np.isnan(each)
                without |= nothing
                scores[name] = np.where(nothing, -np.inf, each)
        return scores, int(without.sum())


def _scored(suite: AttackSuite, rows: Rows) -> dict[str, Array]:
    """Return scores; NaN for those records alone that an attack cannot score."""
    try:
        return suite.scores(rows)
    except BEYOND:
        # One record at a time: a record's score depends on nothing but that record.
        scores = {name: np.full(len(rows), np.nan) for name in suite.names}
    for i in range(len(rows)):
        try:
            alone = suite.scores(Rows(rows.frame.iloc[i : i + 1], rows.representation))
        except BEYOND:
            continue  # stays NaN, which counts as minus infinity
        for name, score in alone.items():
            scores[name][i] = score[0]
    return scores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ScoredMembers:
    """The members of one draw that are scored: all of them, or samples."""

    rows: Rows
    counting: Sequence[NDArray[np.bool_]]  # by requirement: which of the rows count
    sizes: Sequence[int]  # by requirement: how many members there are, scored or not


class MemberAttacks:
    """Attacks on the releases of one member, from what lies open in the folder.

    Parameters
    ----------
    development
        The development part: members, reference and calibration rows.
    measures
        The requirements about exposure.
    apart
        How attacks by import path are run; nothing where code of others is not.
    """

    def __init__(
        self,
        development: MemberDevelopment,
        measures: Sequence[Measure],
        apart: Apart | None = None,
    ) -> None:
        self._development, self.measures, self._apart = development, measures, apart
        self._member = development.member
        self._attacking = self._member.attacking
        self._questions = [_question(measure) for measure in measures]
        attacks = {q.attack: q.settings for q in self._questions}
        self._ours = {name: settings for name, settings in attacks.items() if not settings.by_path}
        self.named = {name: settings for name, settings in attacks.items() if settings.by_path}
        self._members: dict[str | None, Rows] = {}

    @cached_property
    def representation(self) -> Representation:
        """How all attacks see a row, learned from reference rows."""
        columns = self._development.attacked
        return Representation.fit(self._reference, columns, self._attacking.components)

    @property
    def seed(self) -> int:
        """The attacker's seed."""
        return self._attacking.seed

    @cached_property
    def _reference(self) -> pd.DataFrame:
        return self._development.reference()

    @cached_property
    def reference(self) -> Rows:
        """The reference rows as points."""
        return Rows(self._reference, self.representation)

    @cached_property
    def calibration(self) -> Rows | None:
        """The calibration rows as points, where thresholds are taken from some."""
        frame = self._development.calibration()
        return None if frame is None else Rows(frame, self.representation)

    @cached_property
    def copied(self) -> Copies:
        """The values of all members of all draws that attacks see, which no nonmember has."""
        return Copies(self._development.members()[self._development.attacked])

    def is_named(self, j: int) -> bool:
        """Whether the attack of a measure is of others."""
        return self._questions[j].attack in self.named

    def inside(self, frame: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
        """Return, by name, the target records that requirements about exposure count."""
        names = {m.requirement.group: m for m in self.measures if m.requirement.group is not None}
        if not names:
            return {}
        fresh, coded = ~self.copied.among(frame), CodedRecords(frame)
        return {
            name: fresh if not measure.group else fresh & coded.inside(measure.group)
            for name, measure in names.items()
        }

    def on(self, draw: AnyDraw, target: Rows | None = None) -> Attacked:
        """Fit every attack to one stored release, and count the members.

        Parameters
        ----------
        draw
            The record of the release.
        target
            The whole target, where it is open: attacks of others score it in one call with the
            members, so that they cannot know which are which.

        Raises
        ------
        SealError
            Where what is stored of the draw is not what its record says.
        UntrustedCode
            Where attacks are of others, and their code is not run here.
        """
        if not isinstance(draw, DrawnRelease) or draw.failed:
            return Attacked(draw=draw, suites=(), found={})
        return self.attack(draw, self.rows_of(draw), target)

    def rows_of(self, draw: DrawnRelease) -> Rows:
        """Return a stored release as points."""
        frame = self._development.place.folder.stored_table(draw.release, draw.label)
        # What a release lacks stands for a missing value, which the reference fills in.
        lacking = [name for name in self.representation.names if name not in frame.columns]
        return Rows(frame.assign(**dict.fromkeys(lacking, np.nan)), self.representation)

    def attack(
        self, draw: DrawnRelease, release: Rows, target: Rows | None = None, *, named: bool = True
    ) -> Attacked:
        """Fit every attack to a release, with the members and the seed of a draw.

        Parameters
        ----------
        draw
            Whose members and seed they are.
        release
            What is attacked: the release of the draw, or another one to compare it with.
        target
            As in `on`.
        named
            Whether attacks of others are asked too.
        """
        members = self.members_of(draw)
        suites = list(self._fitted(release, members, draw.seed))
        attacked = Attacked(draw=draw, suites=suites, found={}, release=release)
        counted = self._sampled(members, draw.seed)
        open_rows = [counted.rows, *([] if self.calibration is None else [self.calibration])]
        scored, *others = (attacked.scores(rows)[0] for rows in open_rows)
        calibrated = others[0] if others else {}
        theirs_on_target: dict[str, Array] = {}
        for name in self.named if named else ():
            rows = [*open_rows, *([] if target is None else [target])]
            theirs = self._asked(name, release, members, rows)
            if theirs is not None:
                scored[name] = theirs[0]
                calibrated |= {name: theirs[1]} if self.calibration is not None else {}
                theirs_on_target |= {name: theirs[-1]} if target is not None else {}
        found = {}
        for j, question in enumerate(self._questions):
            if question.attack in scored:
                scores = scored[question.attack]
                each = self._found(j, counted, scores, calibrated.get(question.attack))
                if each is not None:
                    found[j] = each
        return replace(attacked, found=found, named=theirs_on_target)

    def _asked(
        self, name: str, release: Rows, members: Rows, groups: Sequence[Rows]
    ) -> list[Array] | None:
        """Return what an attack of others says of some rows; nothing where it is refused."""
        part = self.named[name]
        if self._apart is None:
            raise UntrustedCode(
                f"the attack {name!r} is {part.kind}, which is not of this package; its code runs "
                "in a process of its own, where that is asked for",
                names=(part.kind,),
            )
        try:
            suite = AttackSuite.fit(
                {name: part}, release, self.reference, members, self._attacking.seed,
                apart=self._apart,
            )  # fmt: skip
            scored = suite.score_together(groups)
        except BEYOND:
            return None
        return None if scored.refused else [group[name] for group in scored.groups]

    def scores(
        self, draw: AnyDraw, attacks: Mapping[str, AttackPart], rows: Rows
    ) -> dict[str, Array]:
        """Return what attacks of ours make of these rows, given a release and nothing else.

        Fitted with these rows in place of the members, so that the scores cannot tell who was
        trained on but by the release. Attacks that could not be fitted, and those on a failed
        draw, are missing; a row without a score has minus infinity.
        """
        if not isinstance(draw, DrawnRelease) or draw.failed:
            return {}
        suites = list(self._fitted(self.rows_of(draw), rows, draw.seed, attacks))
        return Attacked(draw=draw, suites=suites, found={}).scores(rows)[0]

    def members_of(self, draw: DrawnRelease) -> Rows:
        """Return the members of a draw; encoded once for all draws that share them."""
        key = draw.members
        if key not in self._members:
            rows = Rows(self._development.members_of(draw), self.representation)
            if key is not None:
                return rows  # of this draw alone, and not kept
            self._members[key] = rows
        return self._members[key]

    def _fitted(
        self,
        release: Rows,
        members: Rows,
        seed: int,
        attacks: Mapping[str, AttackPart] | None = None,
    ) -> Iterator[AttackSuite]:
        """Yield the fitted attacks: all in one, or each alone where one of them cannot be."""
        known = self._ours if attacks is None else attacks

        def fit(names: Sequence[str]) -> AttackSuite:
            # With the draw's own seed: attackers of two draws have nothing at random in common.
            return AttackSuite.fit(
                {name: known[name] for name in names}, release, self.reference, members,
                self._attacking.seed, seed,
            )  # fmt: skip

        together = [list(known)] if known else []
        while together:
            names = together.pop(0)
            try:
                yield fit(names)
            except BEYOND:
                # At least one of them cannot be; one that cannot be alone has no `Found`, and every
                # loss of its requirements is the upper bound.
                together += [[name] for name in names] if len(names) > 1 else []

    def _sampled(self, members: Rows, seed: int) -> _ScoredMembers:
        """Return which members are scored, and which of them count for each requirement.

        A group has a sample of its own: in one of all members it might be missing, and of a share
        of nobody nothing follows.
        """
        counting = [
            CodedRecords(members.frame).inside(measure.group)
            if measure.group
            else np.ones(len(members), dtype=bool)
            for measure in self.measures
        ]
        sizes = [int(inside.sum()) for inside in counting]
        sample = self._attacking.member_sample
        if sample is None or sample.rows >= len(members):
            return _ScoredMembers(rows=members, counting=counting, sizes=sizes)
        own = _sampling_seed(self._attacking.seed, seed)
        positions = [np.flatnonzero(inside) for inside in counting]
        chosen = [
            each[member_sample(each.size, min(sample.rows, each.size), own)] if each.size else each
            for each in positions
        ]
        scored = np.unique(np.concatenate(chosen))
        return _ScoredMembers(
            rows=Rows(members.frame.iloc[scored], self.representation),
            counting=[np.isin(scored, each) for each in chosen],
            sizes=sizes,
        )

    def _found(
        self, j: int, members: _ScoredMembers, scores: Array, calibration: Array | None
    ) -> Found | None:
        """Return what one requirement makes of the members' scores; nothing where there are none.

        A group restricts the members as it does the target. A threshold is one for everybody.
        """
        counted, question = members.counting[j], self._questions[j]
        if not counted.any():
            return None
        try:
            census = Census(scores[counted], *self._strata(members.rows.frame[counted]))
            threshold = _threshold(question, census, scores, calibration)
        except LossMismatch:
            return None  # a stratum without a member of this draw, or no row to calibrate with
        return Found(
            question=question, requirement=self.measures[j].requirement, census=census,
            members=members.sizes[j], threshold=threshold,
        )  # fmt: skip

    def _strata(
        self, members: pd.DataFrame
    ) -> tuple[NDArray[np.str_], Mapping[str, Fraction]] | tuple[()]:
        """Return strata of members and their registered weights, where the target has some."""
        declared, design = self._member.target.design, self._member.target.sampling_design
        if not isinstance(declared, StratifiedDesign) or not isinstance(design, Stratified):
            return ()
        return np.array(as_labels(members[declared.by])), design.weights


def _question(measure: Measure) -> ExposureQuestion:
    assert measure.exposure is not None  # selected by the caller
    return measure.exposure


def _sampling_seed(seed: int, draw: int) -> int:
    """Return a seed of the two: no draw samples the members that another one does."""
    return int(np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0])


def _threshold(
    question: ExposureQuestion, census: Census, members: Array, calibration: Array | None
) -> float | None:
    """Return from which score on records are flagged; a function of open rows alone."""
    match question.kind:
        case ExposureKind.ADVANTAGE:
            assert question.rule is not None  # checked where it is declared
            return registered_threshold(question.rule, calibration, members)
        case ExposureKind.TPR:
            return census.threshold_for(question.ceiling)
        case ExposureKind.ATTRIBUTE | ExposureKind.LINKABILITY:
            return SUCCESS
        case ExposureKind.EVERYWHERE | ExposureKind.AUC:
            return None


def check_found(
    attacks: MemberAttacks,
    indices: Sequence[int],
    draws: Sequence[AnyDraw],
    evidence: GroupEvidence,
    digits: int | None,
    describe: Callable[[Attacked], None] = lambda attacked: None,
) -> None:
    """Raise unless the shares of members on record are those that the attacks find again.

    Needs no target: release, members, reference rows and seeds lie in the folder. A share decides
    as much as a count does, so that an author who wrote another one would move the limit.

    Parameters
    ----------
    attacks
        The attacks of the member.
    indices
        Which columns of the evidence the measures of the attacks are.
    draws, evidence
        The releases, and what is on record of them.
    digits
        Of a registered disclosure, to which shares of two directions are rounded.
    describe
        Shown every attacked release, so that none is attacked twice.

    Raises
    ------
    SealError
        Where a share is another one, or an attack cannot be made on a release that has statistics,
        or could be made on one that is said to have none.
    """
    with one_thread():
        for r, draw in enumerate(draws):
            if draw.failed:
                continue  # whose statistics are compared with the worst for all requirements
            attacked = attacks.on(draw)
            describe(attacked)
            for j, index in enumerate(indices):
                column, found = evidence.columns[index], attacked.found.get(j)
                name = evidence.requirements[index]
                unmeasured = column.unmeasured is not None and column.unmeasured[r]
                worst = is_worst(column, float(evidence.derived.pvalues[r][index]), r)
                # Modes that bet read the capital besides the p-value: it has none to show either.
                if unmeasured and not worst:
                    raise SealError(
                        f"{name}: nothing could be measured of release {evidence.releases[r]}, "
                        "and better statistics than the worst are on record"
                    )
                if unmeasured and attacks.is_named(j):
                    continue  # it may have been refused for what it made of target records
                if unmeasured != (found is None):
                    raise SealError(
                        f"{name}: by the record the attack "
                        f"{'cannot' if unmeasured else 'can'} be made on release "
                        f"{evidence.releases[r]}, and here it {'can' if unmeasured else 'cannot'}"
                    )
                if found is None:
                    continue
                if column.answer is not None and column.n:
                    where = f"{name}, release {evidence.releases[r]}"
                    rounded = digits if column.answer_low is not None else None
                    _check_answers(found, column, r, rounded, where)


def _check_answers(
    found: Found, column: ColumnRecord, r: int, digits: int | None, where: str
) -> None:
    assert column.answer is not None  # asked by the caller
    stated = {"validation": float(column.answer[r])}
    if column.answer_low is not None:
        stated["violation"] = float(column.answer_low[r])
    for direction, answer in stated.items():
        low, high = _possible(found, direction)
        if digits is not None:
            # As `evidence.releases.publish` rounds; for another machine's last bit, a step more.
            low, high = (
                (round_down(low - _SAME, digits), high)
                if direction == "validation"
                else (low, round_up(high + _SAME, digits))
            )
        # Negated, so that a NaN on record is wrong and not silently close.
        if not np.any((answer >= low - _SAME) & (answer <= high + _SAME)):
            near = low[np.argmin(np.abs(low - answer))]
            raise SealError(
                f"{where}: for {direction} {1 - answer:.6g} of the members are flagged by the "
                f"record, and the attack flags {1 - near:.6g}"
            )


def _possible(found: Found, direction: str) -> tuple[Array, Array]:
    """Return from where to where the share that is not flagged may lie, at each threshold.

    Scores that another machine computed may lie on the other side of a threshold that they nearly
    meet. A score that equals it here does so there: if ties could be broken at will, an author
    could say of every copied row that it is just below.
    """
    census = found.census
    side = 0 if direction == "validation" else 1
    if found.threshold is None:
        thresholds, shares = census.thresholds, census.shares
        # Thresholds that nearly meet are one: from its first to its last any share may be right.
        apart = np.diff(thresholds) > _reach(thresholds[1:], thresholds)
        starts = np.concatenate([[True], apart])
        first = np.flatnonzero(starts)
        last = np.append(first[1:], thresholds.size) - 1
        if side == 1:
            registered = census.registered(found.requirement.thresholds)
            chosen = np.unique(np.cumsum(starts)[registered] - 1)
            first, last = first[chosen], last[chosen]
        highest, lowest = shares[first], shares[last]
    else:
        c = found.threshold
        reach = float(_reach(np.array([c]), census.thresholds)[0])
        here, above, beyond = census.share([c, np.nextafter(c, np.inf), c + reach])
        highest, lowest = census.share([c - reach]), np.array([here - above + beyond])
    return found.unflagged_shares(highest)[side], found.unflagged_shares(lowest)[side]


def _reach(scores: Array, members: Array) -> Array:
    """Return how far from each score another machine's may lie.

    As differences of numbers of size 1 do, or of the members' own size where that is less: scores
    of a millionth would otherwise all be one, and any share would do. Below that is the rounding of
    coordinates, which are of size 1 whatever the scores are.
    """
    sizes = np.abs(members[np.isfinite(members)])
    least = min(1.0, max(1e-6, float(sizes.max(initial=0.0))))
    finite = np.isfinite(scores)
    return np.where(finite, APART * np.maximum(least, np.abs(np.where(finite, scores, 0.0))), 0.0)


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
    declared = [(rows, claim) for rows in developments for claim in rows.member.epsilons]
    with one_thread():
        return tuple(_epsilon_record(*each, manifest, len(declared)) for each in declared)


def _epsilon_record(
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
        sentence=_epsilon_sentence(name, part, right, guesses, lower, refuted=refuted),
    )  # fmt: skip


def _epsilon_sentence(
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
