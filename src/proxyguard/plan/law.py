"""What is believed about a mechanism before its audit: kinds of release on kinds of record.

A law is finite: a few kinds of release, each with its chance, and their losses on kinds of
record, each with its chance. Pilot releases on pilot records are such a law as they are;
assumed margins become one. Means, reliability and every simulated audit follow from it, so
that a prediction is about the law that is written down and about nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.errors import RegistryError
from proxyguard.exact.rounding import Array
from proxyguard.exact.special import special
from proxyguard.registry.numbers import Level, exact, flag, listed, real, real_array, reals
from proxyguard.registry.requirement import Requirement

# Kinds of record that stand for a continuous loss.
QUANTILES = 400

# Kinds of valid release that stand for a spread of margins: few leave out the least margins, on
# which a chance depends most (of .666, 7 of them make .674 and 15 make .667).
SPREAD = 15

# Requirements that a law has at the most, those nearest to their limits: a workload has thousands.
NEAREST = 10

# Kinds of release that stand for many where a search asks often.
REPRESENTATIVES = 48


# What a record of pilots counts where their luck is taken off. Half a one, since the margins that
# somebody plans with are those that look wide, and do so by luck more often than not.
COUNTED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Luck:
    """How few pilots a law is read from: others would have said something else.

    Every simulated target then has a population and a mechanism of its own, as far from the pilots
    as theirs may be: records are weighted as Rubin's bootstrap (1981) weights them, releases
    likewise, and the share of valid ones is drawn from a beta law with its mean and as many
    releases as there are pilots, which is what Jeffreys' prior makes of them. A chance is an
    average over all these: it comes true about as often as it says, where pilots' figures taken
    for the truth promise more.

    Attributes
    ----------
    pilots
        Pilot releases.
    known
        Whether the share of valid releases is taken as known: it was assumed.
    records
        For each requirement as how many records its mean is known.
    """

    pilots: int
    known: bool
    records: tuple[float, ...]


def drawn_together(shared: Array, noise: float) -> tuple[Array, float]:
    """Return by how much less a release's answers differ than they seem to, and how sure that is.

    Of hundreds of shares the worst are so by the luck of these records too, which all releases
    share and fresh records have not: taken for the truth they would look hopeless. What all
    releases have in common is drawn towards no difference, as James and Stein do. Both sides of a
    query are one number, and two of them are the price of the estimate: one query or two stay.

    Parameters
    ----------
    shared
        The mean difference of the releases on each side of every query, unit scale.
    noise
        The mean variance of these differences over other records.

    Returns
    -------
    tuple
        The part of each difference that stays, and the share of the noise that it still has.
    """
    queries = shared.size / 2.0
    part = min(1.0, noise / max(float(np.mean(shared**2)), 1e-300)) if shared.size else 0.0
    stays = 1.0 - part * max(0.0, 1.0 - 2.0 / max(queries, 1.0))
    return shared * stays, stays


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Others:
    """Requirements that a search leaves out and its chosen plan is judged on, one at a time.

    Attributes
    ----------
    requirements
        What a release must satisfy too.
    alone
        Gives the law of one of them, by its number, on some kinds of release, by theirs.
    inside
        Gives which kinds of record a share counts; None of what is no share of all the records.
    answers
        What the kinds of release answer, one row a kind and one column a requirement.
    kinds
        Which kinds of release are asked about.
    """

    requirements: tuple[Requirement, ...]
    alone: Callable[[int, NDArray[np.intp]], Law]
    inside: Callable[[int], Array | None]
    answers: Array
    kinds: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Law:
    """A mechanism's releases and target records, as finite laws on the unit scale.

    `pilot_law` and `assumed_law` make one.

    Parameters
    ----------
    requirements
        What a release must satisfy.
    losses
        For each requirement one row a kind of release and one column a kind of record.
    records
        For each requirement the chances of the kinds of record.
    releases
        The chances of the kinds of release. They may sum to less than 1: the rest are invalid
        releases that never score.
    joint
        Whether one record brings the losses of all requirements, as pilots do; otherwise
        requirements are independent of each other.
    origin
        Where the law is from, in words.
    counting
        For each requirement which kinds of record count for it, those of its subgroup; None where
        all records count for all.
    answers
        What every kind of release answers itself where a requirement is about a share, one row a
        kind and one column a requirement; None where that is not known, or there are no shares.
    sampled
        Whether the kinds of record are a sample of them, as those of pilots are.
    others
        Of a joint law: requirements on the same records beside these, on which a plan that was
        found without them is judged.
    luck
        How few pilots the law is read from; None where it is taken for the truth.

    Raises
    ------
    RegistryError
        Where shapes disagree, or chances or losses are none.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)
    >>> law = Law(
    ...     requirements=(error,), losses=([[0, 1], [1, 1]],), records=([0.96, 0.04],),
    ...     releases=[0.9, 0.1], joint=True, origin="nine of ten releases lose 4 % of the records",
    ... )
    >>> law.reliability, law.margins.round(2)
    (0.9, array([0.06]))
    """

    requirements: tuple[Requirement, ...]
    losses: tuple[Array, ...]  # J arrays, (A, m_j)
    records: tuple[Array, ...]  # J arrays, (m_j,), each summing to 1
    releases: Array  # (A,)
    joint: bool
    origin: str
    counting: tuple[NDArray[np.bool_], ...] | None = None  # J arrays, (m_j,)
    answers: Array | None = None  # (A, J)
    sampled: bool = False
    others: Others | None = None
    luck: Luck | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("requirements", _different(self.requirements))
        filled = [r.name for r in self.requirements if r.fills_missing]
        if filled:
            raise RegistryError(
                f"a law of losses knows of none that are missing, and {filled} fill them: plan "
                "with limits that are lower by the share that will be missing, times the range"
            )
        for name in ("losses", "records"):
            put(name, tuple(real_array(one, name) for one in listed(getattr(self, name), name)))
        put("releases", real_array(self.releases, "chances of releases"))
        put("joint", flag(self.joint, "joint"))
        put("sampled", flag(self.sampled, "sampled"))
        if not isinstance(self.origin, str):
            raise RegistryError(f"origin says in words where a law is from, got {self.origin!r}")
        if not len(self.requirements) == len(self.losses) == len(self.records) > 0:
            raise RegistryError("a law needs losses and record chances for every requirement")
        for table, chance in zip(self.losses, self.records, strict=True):
            if self.releases.ndim != 1 or table.shape != (self.releases.size, chance.size):
                raise RegistryError(
                    f"{self.releases.size} kinds of release and {chance.size} of record, and "
                    f"losses of shape {table.shape}"
                )
            # Scaled losses are rounded; a plan is no claim, so that a last digit may be over.
            if not np.all((table >= -1e-9) & (table <= 1.0 + 1e-9)):
                raise RegistryError("losses of a law lie in [0, 1], the unit scale")
            if not np.all(chance >= 0.0) or abs(chance.sum() - 1.0) > 1e-9:
                raise RegistryError("chances of records must be nonnegative and sum to 1")
        if not (self.others is None or (self.joint and isinstance(self.others, Others))):
            raise RegistryError(f"others are Others(...) of a joint law, got {self.others!r}")
        if not (self.luck is None or isinstance(self.luck, Luck)):
            raise RegistryError(f"luck is what pilot_law makes of pilots, got {self.luck!r}")
        if self.joint and len({chance.size for chance in self.records}) > 1:
            raise RegistryError("a joint law has one kind of record for all requirements")
        if self.counting is not None:
            masks = tuple(_truths(mask) for mask in listed(self.counting, "counting"))
            put("counting", masks)
            if [mask.shape for mask in masks] != [chance.shape for chance in self.records]:
                raise RegistryError("counting says of each kind of record whether it counts")
            for requirement, share in zip(self.requirements, self.shares, strict=True):
                if not share > 0.0:
                    raise RegistryError(f"{requirement.name}: no record of the law counts for it")
        if not np.all(self.releases >= 0.0) or not self.releases.sum() <= 1.0 + 1e-9:
            raise RegistryError("chances of releases must be nonnegative and sum to at most 1")
        if self.answers is not None:
            put("answers", real_array(self.answers, "answers"))
            if self.answers.shape != (self.releases.size, len(self.requirements)):
                raise RegistryError(
                    f"answers are one a kind of release and requirement, got {self.answers.shape}"
                )

    @property
    def alone(self) -> Law:
        """The law without the requirements that a search leaves out."""
        return self if self.others is None else replace(self, others=None)

    @property
    def every(self) -> tuple[Requirement, ...]:
        """All requirements, those last that a search leaves out."""
        return self.requirements + (() if self.others is None else self.others.requirements)

    @property
    def means(self) -> Array:
        """The true mean of every kind of release and requirement, (A, J), unit scale."""
        within = self._within
        return np.stack(
            [table @ chance for table, chance in zip(self.losses, within, strict=True)], axis=1
        )

    @property
    def shares(self) -> Array:
        """The share of the records that count for each requirement, (J,)."""
        if self.counting is None:
            return np.ones(len(self.records))
        pairs = zip(self.records, self.counting, strict=True)
        return np.array([float(chance[mask].sum()) for chance, mask in pairs])

    @property
    def labelled(self) -> float:
        """The share of the records that count for some requirement, never understated."""
        if self.counting is None:
            return 1.0
        if self.joint:
            return min(1.0, float(self.records[0][np.any(self.counting, axis=0)].sum()))
        groups = {r.group: s for r, s in zip(self.requirements, self.shares, strict=True)}
        return min(1.0, float(sum(groups.values())))

    @property
    def _within(self) -> tuple[Array, ...]:
        """The chances of the kinds of record among those that count."""
        if self.counting is None:
            return self.records
        triples = zip(self.records, self.counting, self.shares, strict=True)
        return tuple(chance * mask / share for chance, mask, share in triples)

    @property
    def deviations(self) -> Array:
        """The standard deviation of a loss of every kind of release, (A, J), unit scale."""
        squares = [
            table**2 @ chance for table, chance in zip(self.losses, self._within, strict=True)
        ]
        # Off 0, since margins are divided by it.
        return np.sqrt(np.maximum(np.stack(squares, axis=1) - self.means**2, 1e-18))

    @property
    def limits(self) -> Array:
        """The limits on the unit scale, (J,)."""
        return np.array([r.unit_limit for r in self.requirements])

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which kinds of release meet every requirement: every mean strictly below its limit."""
        # A mean at the limit is invalid, also when its sum was rounded down.
        return np.asarray(np.all(self.means < self.limits - 1e-12, axis=1))

    @property
    def reliability(self) -> float:
        """``eta``: the chance that a fresh release is valid."""
        return min(1.0, float(self.releases[self.valid].sum()))

    @property
    def margins(self) -> Array:
        """The distance of every requirement's mean to its limit over valid releases, (J,)."""
        valid = self.valid
        if not np.any(self.releases[valid] > 0.0):
            raise RegistryError("no kind of release in this law is valid; there is no margin")
        share = self.releases[valid] / self.releases[valid].sum()
        width = np.array([r.width for r in self.requirements])
        return np.asarray((self.limits - share @ self.means[valid]) * width)

    @property
    def spread(self) -> Array:
        """How far margins of valid releases stray from their mean, in deviations, (J,)."""
        valid = self.valid
        share = self.releases[valid] / self.releases[valid].sum()
        means = self.means[valid]
        return np.asarray(np.sqrt(np.maximum(share @ (means - share @ means) ** 2, 0.0)))

    @property
    def chance_spread(self) -> Array:
        """How far they would stray if all were alike and the pilot's few records differed, (J,).

        0 where the records of the law are no sample.
        """
        if not self.sampled:
            return np.zeros(len(self.requirements))
        valid = self.valid
        share = self.releases[valid] / self.releases[valid].sum()
        found = []
        for table, chance in zip(self.losses, self._within, strict=True):
            apart = table[valid] - share @ table[valid]  # a hard record is hard for every release
            variance = share @ (apart**2 @ chance - (apart @ chance) ** 2)
            found.append(max(0.0, float(variance)) / max(1, int(np.count_nonzero(chance))))
        return np.sqrt(found)

    @property
    def _ends(self) -> tuple[Array, Array]:
        """The worst and the best loss that each kind of release can have, (A, J) each.

        A share is 0 or 1 less the answer of the release, and never leaves these two.
        """
        worst, best = np.ones(self.means.shape), np.zeros(self.means.shape)
        for j, requirement in enumerate(self.requirements):
            if self.answers is not None and requirement.indicator:
                answer = self.answers[:, j]
                worst[:, j] = (1.0 - answer - requirement.low) / requirement.width
                best[:, j] = (-answer - requirement.low) / requirement.width
        return worst, best

    def requiring(self, requirements: Sequence[Requirement]) -> Law:
        """Return the law with slacks and ramps of other ``requirements``; all else stays."""
        if requirements is self.requirements:  # nothing to check again: a search asks often
            return self
        return replace(self, requirements=tuple(requirements))

    def with_reliability(self, reliability: float) -> Law:
        """Return the law with another chance of valid releases, ``reliability``.

        Where the law has no invalid kind, the rest never scores; where it has no valid kind,
        there is nothing to be reliable.
        """
        reliability = real(reliability, "reliability", low=0.0, high=1.0)
        valid = self.valid
        have = float(self.releases[valid].sum())
        if have == 0.0 and reliability > 0.0:
            raise RegistryError("no kind of release in this law is valid")
        chances = np.where(valid, self.releases * (reliability / have if have else 0.0), 0.0)
        lost = float(self.releases[~valid].sum())
        if lost > 0.0:
            chances += np.where(valid, 0.0, self.releases * ((1.0 - reliability) / lost))
        return replace(self, releases=chances)

    def thinned(self, kinds: int = REPRESENTATIVES) -> Law:
        """Return the law on ``kinds`` of its kinds of release, each standing for those like it.

        Kinds are ordered by their narrowest margin in standard deviations, and the middle of
        each equal part stays. Valid and invalid ones are thinned apart: the reliability stays.
        """
        if self.releases.size <= 2 * kinds:
            return self
        narrowest = np.max((self.means - self.limits) / self.deviations, axis=1)
        count_invalid = int(np.count_nonzero(~self.valid))
        # Few invalid pilots decide how often a score errs: they get a quarter of the places.
        share = round(kinds * count_invalid / self.releases.size)
        places = min(count_invalid, max(kinds // 4, share), kinds - 1)
        picks, chances = [], []
        for group, count in ((self.valid, kinds - places), (~self.valid, places)):
            order = np.flatnonzero(group)[np.argsort(narrowest[group], kind="stable")]
            total = float(self.releases[order].sum())
            if count == 0 or total == 0.0:
                continue
            reached = np.cumsum(self.releases[order]) / total
            middles = np.searchsorted(reached, (np.arange(count) + 0.5) / count)
            picks.append(order[middles])
            chances.append(np.full(count, total / count))
        chosen = np.concatenate(picks)
        return replace(
            self, losses=tuple(table[chosen] for table in self.losses),
            releases=np.concatenate(chances),
            answers=None if self.answers is None else self.answers[chosen],
            others=self.others and replace(self.others, kinds=self.others.kinds[chosen]),
        )  # fmt: skip

    def with_margins(self, factor: float) -> Law:
        """Return the law with its smallest unit-scale margin multiplied by ``factor``."""
        factor = real(factor, "factor of the margins")
        width = np.array([r.width for r in self.requirements])
        return self.shifted(float((1.0 - factor) * np.min(self.margins / width)))

    def shifted(self, worse: float) -> Law:
        """Return the law with the means of valid releases moved up by about ``worse``, unit scale.

        A share of the records gets the worst loss (the best, if ``worse`` is negative), so
        that two-valued losses stay two-valued; it is the share that moves the average valid
        release by ``worse``. Invalid releases get the worst loss there and stay invalid.
        """
        worse = real(worse, "shift of the means")
        if worse == 0.0:
            return self
        valid = self.valid
        share_of = np.where(valid, self.releases, 0.0)
        worst, best = self._ends
        there = (worst - self.means) if worse > 0.0 else (self.means - best)
        room = share_of @ there / max(float(share_of.sum()), 1e-300)
        losses, records = [], []
        shares = [min(1.0, abs(worse) / r) if r > 0.0 else 0.0 for r in room]
        # One record brings all losses in a joint law, so one share serves all of them.
        if self.joint:
            shares = [float(np.mean(shares))] * len(shares)
        masks = self.counting or tuple(np.ones(c.size, dtype=bool) for c in self.records)
        counting = []
        for j, (table, chance, share) in enumerate(
            zip(self.losses, self.records, shares, strict=True)
        ):
            # Of the records in each combination of groups the same share: no group grows by it.
            groups = np.stack(masks if self.joint else masks[j : j + 1], axis=1)
            kinds, label = np.unique(groups, axis=0, return_inverse=True)
            mass = np.bincount(label.ravel(), weights=chance)
            extra = np.where(valid & (worse < 0.0), best[:, j], worst[:, j])
            losses.append(np.hstack([table, np.repeat(extra[:, None], len(kinds), axis=1)]))
            records.append(np.append(chance * (1.0 - share), share * mass))
            counting.append(np.append(masks[j], kinds[:, j if self.joint else 0]))
        return replace(
            self, losses=tuple(losses), records=tuple(records),
            counting=None if self.counting is None else tuple(counting),
            others=None,  # they know nothing of the records that are added
        )  # fmt: skip


def pilot_law(
    losses: ArrayLike, requirements: Sequence[Requirement], *, reliability: Level | None = None,
    counting: ArrayLike | None = None, answers: ArrayLike | None = None, share: Level = 1,
    truth: bool = False, known_records: Sequence[float] | None = None,
) -> Law:  # fmt: skip
    """Return the law of pilot releases on pilot records.

    A fresh release is one of the pilots, a fresh record one of theirs, as far as so few can tell.

    Parameters
    ----------
    losses
        Of the pilots: releases x records x requirements, on the registered scales.
    requirements
        One for each slice of the last axis.
    reliability
        The share of valid releases; read from the pilots unless given, by one rule for all who
        plan: ``(valid + 1/2)/(pilots + 1)``, since a few pilots say little about rare failures.
    counting
        Which records count for which requirement, records x requirements: those of its subgroup.
        All of them unless given; losses of records that do not count do not matter.
    answers
        What each pilot answers itself, pilots x requirements, where a requirement is about a
        share: with them its exact test is planned, and betting in its place without.
    share
        Which part of the target's records is like these: below 1 of pilots that were judged on the
        records of one subgroup alone, which all requirements are then about.
    truth
        Whether the pilots' figures are taken for the truth. Unless they are, every chance under the
        law is an average over what other pilots on other records might have said: few of them
        promise less.
    known_records
        For each requirement on how many records its mean is known, as many as there are unless
        given; each counts `COUNTED`.

    Returns
    -------
    Law
        With one kind of release for each pilot and one kind of record for each record.

    Raises
    ------
    RegistryError
        Where losses have another shape or leave their bounds.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.1)
    >>> pilot_law(np.full((20, 500, 1), 0.05), [error], reliability=0.95).origin
    '20 pilot releases on 500 records'
    """
    requirements, values = _different(requirements), real_array(losses, "pilot losses")
    if values.ndim != 3 or 0 in values.shape or values.shape[2] != len(requirements):
        raise RegistryError(
            "pilot losses have three axes, releases x records x requirements "
            f"({len(requirements)}), got shape {values.shape}"
        )
    part = real(share, "share", low=0.0, high=1.0)
    if not part > 0.0 or (part < 1.0 and counting is not None):
        raise RegistryError(
            f"share is above 0 and at most 1, and counting says it by itself; got {share!r}"
        )
    requirements = _grouped(requirements, [part] * len(requirements))
    tables = []
    for j, requirement in enumerate(requirements):
        column = values[:, :, j]
        if not np.all((column >= requirement.low) & (column <= requirement.high)):
            raise RegistryError(
                f"{requirement.name}: pilot losses leave the bounds [{requirement.low:g}, "
                f"{requirement.high:g}]"
            )
        tables.append((column - requirement.low) / requirement.width)
    count, n = values.shape[:2]
    chances, masks = np.full(n, 1.0 / n), _masks(counting, n, len(requirements))
    if part < 1.0:  # one kind of record more, outside the subgroup
        tables = [np.hstack([table, np.zeros((count, 1))]) for table in tables]
        chances = np.append(chances * part, 1.0 - part)
        masks = tuple(np.arange(n + 1) < n for _ in tables)
    law = Law(
        requirements=tuple(requirements),
        losses=tuple(tables),
        records=tuple(chances for _ in tables),
        releases=np.full(count, 1.0 / count),
        joint=True,
        origin=f"{count} pilot releases on {n} records",
        counting=masks,
        answers=None if answers is None else real_array(answers, "answers"),
        sampled=True,
    )
    if flag(truth, "truth"):
        if known_records is not None:
            raise RegistryError("known_records say how far pilots are known: leave truth out")
    else:
        known = [n / part] * len(requirements) if known_records is None else known_records
        seen = reals(known, "known_records")
        if len(seen) != len(requirements) or min(seen) <= 0.0:
            raise RegistryError(f"known_records are above 0, one a requirement, got {seen}")
        counted = tuple(COUNTED * records for records in seen)
        law = replace(law, luck=Luck(pilots=count, known=reliability is not None, records=counted))
    return (
        _cautious(law) if reliability is None else law.with_reliability(float(exact(reliability)))
    )


def _cautious(law: Law) -> Law:
    """Return a pilot law with ``(valid + 1/2)/(pilots + 1)`` in place of the share of valid ones.

    Twenty valid pilots of twenty do not make every release valid. A law without a valid
    pilot stays as it is: nothing is known of what a valid release would look like.
    """
    valid, pilots = int(np.count_nonzero(law.valid)), law.releases.size
    if not valid:
        return law
    counted = f"{valid} of {pilots} valid, counted as {valid + 0.5:g} of {pilots + 1}"
    fresh = law.with_reliability((valid + 0.5) / (pilots + 1.0))
    return replace(fresh, origin=f"{law.origin}, {counted}")


def _masks(
    counting: ArrayLike | None, records: int, requirements: int
) -> tuple[NDArray[np.bool_], ...] | None:
    """Return a mask for each requirement, None where every record counts for all."""
    if counting is None:
        return None
    masks = _truths(counting)
    if masks.shape != (records, requirements):
        raise RegistryError(
            f"counting is True or False for each of {records} records and {requirements} "
            f"requirements, got shape {masks.shape}"
        )
    return None if masks.all() else tuple(masks.T)


def _truths(given: object) -> NDArray[np.bool_]:
    """Return which records count, or say that this is no array of truth values."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise RegistryError(f"counting is no rectangular array: {error}") from None
    if array.dtype != bool:
        raise RegistryError(f"counting is True or False for each record, got {array.dtype} values")
    return array


def _different(requirements: object) -> tuple[Requirement, ...]:
    """Return requirements with a name each, or say that they are none."""
    given = listed(requirements, "requirements")
    read = tuple(one for one in given if isinstance(one, Requirement))
    if len(read) != len(given) or not read or len({r.name for r in read}) < len(read):
        raise RegistryError(f"requirements are Requirement(...) of different names, got {given!r}")
    return read


def _grouped(
    requirements: Sequence[Requirement], shares: Sequence[float]
) -> tuple[Requirement, ...]:
    """Return requirements about a part of the records as such, though nothing names the part."""
    return tuple(
        replace(r, group=f"the subgroup of {r.name}") if share < 1.0 and r.group is None else r
        for r, share in zip(requirements, shares, strict=True)
    )


def nearest_requirements(margins: Array) -> NDArray[np.intp]:
    """Return which `NEAREST` requirements some release comes nearest to missing, in their order.

    ``margins`` are those of releases in deviations of the loss, (V, J). Most of a workload lie far
    from their limits, and to plan with all of them takes minutes.
    """
    return np.sort(np.argsort(margins.min(axis=0), kind="stable")[:NEAREST])


def estimated_law(
    requirements: Sequence[Requirement],
    *,
    means: ArrayLike,
    chances: ArrayLike,
    deviations: Sequence[float],
    origin: str,
) -> Law:
    """Return the law of kinds of release with these unit means, (A, J), and chances, (A,).

    As `assumed_law`: records are shared, so a hard record is hard for every kind, and
    requirements are independent of each other. ``deviations`` are standard deviations of a
    loss on the unit scale, one a requirement; they do not matter for two-valued losses.
    """
    # Off the ends of the scale, where no beta law has a mean.
    values = np.clip(np.asarray(means, dtype=np.float64), 1e-6, 1.0 - 1e-6)
    losses, records = [], []
    for j, requirement in enumerate(requirements):
        if requirement.two_valued:
            table, chance = _two_valued(values[:, j])
        else:
            # No loss with this mean spreads further than a two-valued one.
            most = 0.98 * float(np.sqrt(values[:, j] * (1.0 - values[:, j])).min())
            deviation = min(max(deviations[j], 1e-4 * most), most) * requirement.width
            table, chance = _beta(values[:, j], requirement, deviation)
        losses.append(table)
        records.append(chance)
    return Law(
        requirements=tuple(requirements),
        losses=tuple(losses),
        records=tuple(records),
        releases=np.asarray(chances, dtype=np.float64),
        joint=False,
        origin=origin,
    )


def assumed_law(
    requirements: Sequence[Requirement],
    *,
    margins: Sequence[Level],
    deviations: Sequence[Level | None] | None = None,
    reliability: Level,
    spread: Level = 0.0,
    excess: Level = 0.0,
    shares: Sequence[Level] | None = None,
) -> Law:
    """Return the law of valid releases ``margins`` below their limits, and of invalid ones.

    Records are shared: a hard record is hard for every release. An invalid release fails one
    requirement, each equally often.

    Parameters
    ----------
    requirements
        What a release must satisfy. Losses are two-valued where it says so, else of a beta law.
    margins
        How far below its limit the mean of each requirement lies, on its registered scale.
    deviations
        The standard deviation of each loss, on its registered scale; by default half of what
        two-valued losses with this mean would have.
    reliability
        The share of releases that is valid.
    spread
        How far margins of valid releases are spread evenly around the given ones, as a share.
    excess
        By how many margins an invalid release misses its limit; 0 is exactly at the limit.
    shares
        The share of the records that count for each requirement, below 1 for a subgroup's.

    Returns
    -------
    Law
        That `recommend` plans under.

    Raises
    ------
    RegistryError
        Where a margin leaves no mean within the bounds, or numbers are none.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)
    >>> law = assumed_law([error], margins=[0.04], reliability=0.95)
    >>> round(law.reliability, 2), law.margins.round(2)
    (0.95, array([0.04]))
    """
    requirements, distances = _different(requirements), reals(margins, "margins")
    if len(distances) != len(requirements):
        raise RegistryError(f"{len(requirements)} requirements need as many margins")
    reliability = real(reliability, "reliability", low=0.0, high=1.0)
    spread, excess = real(spread, "spread", low=0.0), real(excess, "excess", low=0.0)
    if spread >= 1.0:
        raise RegistryError(f"spread is a share of the margin, below 1, got {spread:g}")
    spreads: list[float | None] = [None] * len(requirements)
    if deviations is not None:
        spreads = [
            None if value is None else real(value, "deviations")
            for value in listed(deviations, "deviations")
        ]
    if len(spreads) != len(requirements):
        raise RegistryError(f"{len(requirements)} requirements need as many deviations")
    for requirement, margin in zip(requirements, distances, strict=True):
        if not 0.0 < margin / requirement.width < requirement.unit_limit:
            raise RegistryError(
                f"{requirement.name}: a margin lies above 0 and leaves a mean above "
                f"{requirement.low:g}, got {margin:g} below the limit {requirement.limit:g}"
            )
    every, releases = assumed_kinds(
        requirements, distances, reliability=reliability, spread=spread, excess=excess
    )
    sizes = [1.0] * len(requirements) if shares is None else reals(shares, "shares")
    if len(sizes) != len(requirements) or not all(0.0 < share <= 1.0 for share in sizes):
        raise RegistryError(f"shares are above 0 and at most 1, one a requirement, got {shares}")
    requirements = _grouped(requirements, sizes)
    losses, records, counting = [], [], []
    for j, requirement in enumerate(requirements):
        means = every[:, j]
        if np.any(means <= 0.0) or np.any(means >= 1.0):
            raise RegistryError(
                f"{requirement.name}: spread or excess moves a mean out of its bounds"
            )
        table, chance = (
            _two_valued(means) if requirement.two_valued
            else _beta(means, requirement, spreads[j])
        )  # fmt: skip
        share = sizes[j]
        if share < 1.0:  # one kind of record more, outside the subgroup
            table = np.hstack([table, np.zeros((len(table), 1))])
            chance = np.append(chance * share, 1.0 - share)
        losses.append(table)
        records.append(chance)
        counting.append(np.arange(chance.size) < chance.size - (share < 1.0))
    words = ", ".join(f"{r.name} {m:g}" for r, m in zip(requirements, distances, strict=True))
    return Law(
        requirements=tuple(requirements),
        losses=tuple(losses),
        records=tuple(records),
        releases=releases,
        joint=False,
        origin=f"assumed margins ({words})",
        counting=tuple(counting) if min(sizes) < 1.0 else None,
    )


def assumed_kinds(
    requirements: Sequence[Requirement], margins: Sequence[float], *, reliability: float,
    spread: float, excess: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the unit means, (A, J), and chances, (A,), of the kinds of release of assumed margins.

    Valid releases have margins of the same spread in all requirements. An invalid one meets all
    but one, so that only this one's test stands between it and a favorable score.
    """
    stretch = np.array([1.0])
    if spread > 0.0:
        # Midpoints of equal steps, so that the mean margin is the given one.
        stretch = 1.0 + spread * (2.0 * (np.arange(SPREAD) + 0.5) / SPREAD - 1.0)
    count = len(requirements)
    failing = np.arange(count) if reliability < 1.0 else np.arange(0)
    means = []
    for j, (requirement, margin) in enumerate(zip(requirements, margins, strict=True)):
        unit, limit = margin / requirement.width, requirement.unit_limit
        bad = np.where(failing == j, limit + excess * unit, limit - unit)
        means.append(np.concatenate([limit - unit * stretch, bad]))
    valid = np.full(stretch.size, reliability / stretch.size)
    invalid = np.full(failing.size, (1.0 - reliability) / count)
    return np.stack(means, axis=1), np.concatenate([valid, invalid])


def _two_valued(means: Array) -> tuple[Array, Array]:
    """Return nested two-valued losses: a record that is lost at a risk is lost at larger ones."""
    # Nested losses are what lets `exact_power` sum over targets in place of drawing them.
    risks = np.unique(means)
    chance = np.diff(risks, prepend=0.0, append=1.0)
    table = (np.arange(risks.size + 1) < np.searchsorted(risks, means)[:, None] + 1).astype(float)
    return table, chance


def _beta(means: Array, requirement: Requirement, deviation: float | None) -> tuple[Array, Array]:
    """Return beta losses by their quantiles, with the stated means."""
    spread = np.sqrt(means * (1.0 - means))
    ratio = np.full(means.shape, 0.5)
    if deviation is not None:
        ratio = deviation / requirement.width / spread
    if not np.all((ratio > 0.0) & (ratio < 1.0)):
        raise RegistryError(
            f"{requirement.name}: a loss with this mean has a standard deviation above 0 and "
            f"below {float(spread.min() * requirement.width):.4g}, got {deviation}; declare "
            "two_valued losses as such"
        )
    weight = 1.0 / ratio**2 - 1.0  # of a beta law with this mean and variance
    middle = (np.arange(QUANTILES) + 0.5) / QUANTILES
    table = special.betaincinv((means * weight)[:, None], ((1 - means) * weight)[:, None], middle)
    # Quantiles miss the mean a little; move it into place between the ends of the scale.
    have = table.mean(axis=1, keepdims=True)
    want = means[:, None]
    up = want >= have
    table = np.where(
        up, table + (1.0 - table) * (want - have) / (1.0 - have), table * (want / have)
    )
    return np.asarray(table), np.full(QUANTILES, 1.0 / QUANTILES)
