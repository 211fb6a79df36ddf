"""From losses to the certificate of one mechanism, or of a family of them.

`certify` is the one call; `certify_evidence` goes on from what an audit wrote down, and `decide`
compares the bounds with the target over the whole family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.certificate import wording
from proxyguard.errors import LossMismatch, LossOutOfBounds, RegistryError, UnsupportedDesign
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.exact.multiplicity import holm, holm_adjusted
from proxyguard.extras import need
from proxyguard.losses.cell import Reading
from proxyguard.losses.read import (
    LossArray,
    LossBatches,
    Losses,
    LossStream,
    as_losses,
    check_records,
)
from proxyguard.losses.records import Records, same_labels
from proxyguard.modes.catalog import Choices, mechanism_claim, own_batch_modes
from proxyguard.modes.claim import Claim, Levels, MechanismClaim
from proxyguard.modes.count import ValidCount
from proxyguard.modes.evidence import Decision, ReliabilityBound
from proxyguard.printable import ShownAsPage
from proxyguard.registry.budget import Budget, family_shares
from proxyguard.registry.design import Design, as_design
from proxyguard.registry.numbers import as_seed
from proxyguard.registry.requirement import Requirement, as_requirements
from proxyguard.registry.test import Family

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.documents.canonical import Plain


AnyLosses = ArrayLike | Losses
EvidenceAtLevels = tuple[ReleaseEvidence, Levels]
# Of the tests that tell single releases apart: for validity, for violations.
ReadingLevels = tuple[float | None, float | None]


@overload
def certify(
    losses: Mapping[str, AnyLosses],
    requirements: Sequence[Requirement],
    *,
    design: Design = ...,
    records: Records | None = ...,
    seed: int | None = ...,
    **choices: Unpack[Choices],
) -> FamilyCertificate: ...


@overload
def certify(
    losses: AnyLosses,
    requirements: Sequence[Requirement],
    *,
    design: Design = ...,
    records: Records | None = ...,
    seed: int | None = ...,
    **choices: Unpack[Choices],
) -> Certificate: ...


def certify(
    losses: AnyLosses | Mapping[str, AnyLosses],
    requirements: Sequence[Requirement],
    *,
    design: Design | None = None,
    records: Records | None = None,
    seed: int | None = None,
    **choices: Unpack[Choices],
) -> Certificate | FamilyCertificate:
    """Certify the mechanism that made these releases, or a family of mechanisms.

    Parameters
    ----------
    losses
        Releases x records x requirements: an array, a `LossArray`, a `LossStream` of
        chunks, or `Moments`; or a mapping of mechanism names to those, all scored on the
        same target records. An array of two axes is releases x records of one requirement.
        A DataFrame (pandas, polars, Arrow) with the columns ``release`` and ``record`` has one
        column for each requirement; any other has a row a record and a column a release. A path
        is a file of one of these.
    requirements
        One `Requirement` for each slice of the last axis.
    design
        How the target was sampled; iid unless said otherwise.
    records
        Ids, strata, clusters and subgroups of the records, for plain arrays. Strata and
        clusters are refused under a design that does not use them.
    seed
        Of the random order in which order-dependent tests read the records, of the
        uniforms of `randomized_binomial` and of the blocks. Drawn afresh unless given;
        the certificate records it.
    **choices
        The registered choices of `Claim`: ``reliability_target``, ``alpha``, ``beta``,
        ``mode``, ``bound``, ``test``, ``threshold``, ``family`` and the rest.

    Returns
    -------
    Certificate or FamilyCertificate
        The verdict on the mechanism; of a mapping, one for each under a common budget.

    Raises
    ------
    RegistryError
        Where a choice is none that there is.
    UnsupportedDesign
        Where no theorem covers the choices on this design: before any loss is read.
    LossError
        Where losses leave their bounds or disagree with their declaration; nothing is clipped.

    Guarantee
    ---------
    That of the certificate which the mode names; each bound says what it rests on.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.random.default_rng(1).random((40, 2000, 1)) < 0.05
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> certificate = certify(losses, [error], reliability_target=0.8, alpha=0.05)
    >>> certificate.decision.value, round(certificate.reliability_lower, 3)
    ('validated', 0.918)
    """
    # Everything that was asserted is read and checked before the first loss is.
    claim = mechanism_claim(choices)
    requirements = as_requirements(requirements)
    design = as_design(design)
    claim.require_support(design, requirements)
    given, seed = seed is not None, as_seed(seed)
    family: dict[str, AnyLosses] = (
        dict(losses) if isinstance(losses, Mapping) else {"mechanism": losses}
    )
    if not family or not all(isinstance(name, str) and name for name in family):
        raise RegistryError(f"a family maps names of mechanisms to losses, got {list(family)}")
    arrays = {}
    for name, one in family.items():
        with naming(name, family=isinstance(losses, Mapping)):
            arrays[name] = as_losses(one, records, [r.name for r in requirements])
            check_records(arrays[name], design)
    # One target for all: the claim is about the registered target, and there is one of it.
    _check_batches(arrays, claim)
    _same_sizes(arrays)
    shares = family_shares(list(arrays), claim.shares)
    # One seed for all members: orders and uniforms belong to places of the target, and are shared
    # by all releases and mechanisms (theory section 1).
    audits = {}
    for name, array in arrays.items():
        with naming(name, family=isinstance(losses, Mapping)):
            audits[name] = _gather(array, claim, requirements, design, seed, shares[name])
    _same_ids({name: evidence.ids for name, (evidence, _) in audits.items()})
    decided = certify_evidence(claim, audits, seed_given=given)
    return decided if isinstance(losses, Mapping) else decided["mechanism"]


def certify_evidence(
    claim: MechanismClaim,
    audits: Mapping[str, EvidenceAtLevels],
    *,
    seed_given: bool = True,
    basis: str = wording.ASSERTED,
) -> FamilyCertificate:
    """Certify from evidence alone: what an audit wrote down is all that this looks at.

    Guarantee
    ---------
    That of the certificate which the mode names; each bound says what it rests on.
    """
    # All members at once: where violations are pooled they are one Holm family.
    uppers = claim.upper_bounds(audits)
    certificates = {}
    for name, (evidence, levels) in audits.items():
        certificates[name] = Certificate(
            mechanism=name,
            # Open until `decide` has seen every member: Holm compares their p-values.
            decision=Decision.UNRESOLVED,
            claim=claim,
            evidence=evidence,
            lower=claim.lower_bound(evidence, levels),
            upper=uppers[name],
            count=claim.valid_count(evidence, levels),
            seed_given=seed_given,
            notes=levels.notes,
            basis=basis,
        )
    return FamilyCertificate(
        decide(certificates, outer=claim.lower_budget(), outer_violation=claim.upper_budget())
    )


def supports(
    requirements: Sequence[Requirement], *, design: Design | None = None, **choices: Unpack[Choices]
) -> list[str]:
    """Return why these choices are not covered on this design; an empty list if they are.

    Walks the very checks of `certify`, before anything is drawn or read.

    Parameters
    ----------
    requirements
        What a release must satisfy.
    design
        How the target is sampled; iid unless said otherwise.
    **choices
        As `certify` takes them.

    Returns
    -------
    list of str
        Every reason, each a sentence.

    Raises
    ------
    RegistryError
        Where a choice is none that there is.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10)
    >>> supports([error], reliability_target=0.8, test="binomial")
    ["binomial needs losses declared two_valued, and 'error' is not"]
    """
    return Claim.of(choices).supports(as_design(design), as_requirements(requirements))


@contextmanager
def naming(member: str, *, family: bool = True) -> Iterator[None]:
    """Let an error about losses say in which member of a family it happened."""
    try:
        yield
    except LossOutOfBounds as error:
        raise (error.within(member) if family else error) from None
    except LossMismatch as error:
        raise LossMismatch(f"{member}: {error}" if family else str(error)) from None


def _gather(
    losses: Losses,
    claim: Claim,
    requirements: tuple[Requirement, ...],
    design: Design,
    seed: int,
    share: Fraction,
) -> EvidenceAtLevels:
    levels = claim.levels(n_releases=losses.shape[0], n_requirements=len(requirements), share=share)
    return gather_evidence(losses, reading_of(claim, requirements, design, levels, seed)), levels


def reading_of(
    claim: Claim, requirements: tuple[Requirement, ...], design: Design, levels: Levels, seed: int
) -> Reading:
    return Reading(
        requirements=requirements,
        design=design,
        tests=claim.tests(design, requirements),
        level=levels.betting,
        violation_level=levels.betting_violation,
        seed=seed,
        stakes=claim.stakes,
        block_size=claim.block_size,
    )


def _check_batches(arrays: Mapping[str, Losses], claim: Claim) -> None:
    """Separate batches belong to the modes that say so, and a shared target does not."""
    others = " or ".join(own_batch_modes())
    for name, one in arrays.items():
        if isinstance(one, LossBatches) and not claim.own_batches:
            raise UnsupportedDesign(
                f"{name!r} has separate batches of records; mode {claim.mode} scores all "
                f"releases on one shared target, use {others} mode"
            )
        # Moments do not say which records they are of: that these are separate samples is then what
        # the caller vouches for.
        if claim.own_batches and isinstance(one, LossArray | LossStream):
            raise UnsupportedDesign(
                f"{name!r} is an array of releases on one shared target, so its release p-values "
                "are not independent: give each release its own batch of records (LossBatches), "
                "or Moments of separate samples"
            )


def _same_sizes(arrays: Mapping[str, Losses]) -> None:
    """Refuse a family whose members were not scored on equally many records."""
    arrays = {n: one for n, one in arrays.items() if not isinstance(one, LossBatches)}
    sizes = {name: one.shape[1] for name, one in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise LossMismatch(
            f"mechanisms of one family share the target, but have {sizes} records; audits on "
            "different targets belong to certify_releases or to separate certificates"
        )


def _same_ids(family: Mapping[str, NDArray[np.generic[object]] | None]) -> None:
    """Refuse a family whose members list other records, or the same ones in another order."""
    # Without ids nothing can be compared beyond the number of records.
    given = [(name, ids) for name, ids in family.items() if ids is not None]
    for name, ids in given[1:]:
        first, expected = given[0]
        if not same_labels(ids, expected):
            theirs, ours = ids.astype(np.str_), expected.astype(np.str_)
            index = int(np.argmax(theirs != ours))
            raise LossMismatch(
                f"record {index} is {theirs[index]} in {name!r} and {ours[index]} in {first!r}; "
                "mechanisms of one family must list the same records in one order"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate(ShownAsPage):
    """The verdict on one mechanism, with all that a reader needs to follow it.

    `certify` makes it. ``reliability_lower`` and ``reliability_upper`` are one-sided bounds with
    separate budgets. In a family certified for decisions they are ``eta_0`` where the decision
    says so and trivial elsewhere, because nothing more is certified there.

    Attributes
    ----------
    mechanism
        Its name.
    decision
        Validated, unresolved or violation.
    claim
        What was claimed, and at which levels.
    evidence
        All that the decision looked at: statistics and p-values of every release.
    lower, upper
        The bounds of the two directions with the counts and budgets behind them; no ``upper``
        where there is no violation direction.
    n_mechanisms
        How many mechanisms share the budgets.
    certified
        Whether the bounds are certified, or the decisions alone.
    adjusted_pvalue
        Holm's over the family, where that decided.
    count
        How many of any releases that one picks are valid, where the mode says so.
    seed_given
        Whether the caller gave the seed.
    notes
        What there is to say about levels and thresholds.
    basis
        Who stands for the order of choices and losses.

    Examples
    --------
    >>> from proxyguard import Requirement, certify
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> certificate = certify(np.zeros((40, 300, 1)), [error], reliability_target=0.8)
    >>> print(certificate.sentence)
    With 95 % confidence, at least 91.8 % of future releases of this mechanism meet the requirement
    'error' on the registered target.
    """

    mechanism: str
    decision: Decision
    claim: MechanismClaim
    evidence: ReleaseEvidence
    lower: ReliabilityBound
    upper: ReliabilityBound | None
    n_mechanisms: int = 1
    certified: Family = Family.BOUNDS
    adjusted_pvalue: float | None = None  # Holm over the family, where that decided
    count: ValidCount | None = None
    seed_given: bool = True
    notes: tuple[str, ...] = ()
    basis: str = wording.ASSERTED

    @property
    def reliability_target(self) -> float:
        """``eta_0``."""
        return self.claim.target

    @property
    def certifies_bounds(self) -> bool:
        """Whether the bounds themselves are certified, not only the decision."""
        return self.certified is Family.BOUNDS

    @property
    def reliability_lower(self) -> float:
        """A lower confidence bound on the chance that a fresh release is valid."""
        if self.certifies_bounds:
            return self.lower.value
        return self.reliability_target if self.decision is Decision.VALIDATED else 0.0

    @property
    def reliability_upper(self) -> float:
        """An upper confidence bound on the chance that a fresh release is valid."""
        if self.upper is None:
            return 1.0
        if self.certifies_bounds:
            return self.upper.value
        return self.reliability_target if self.decision is Decision.VIOLATION else 1.0

    @property
    def levels(self) -> ReadingLevels:
        """The levels at which tests told single releases apart: valid ones, violating ones."""
        return self.lower.level, None if self.upper is None else self.upper.level

    @property
    def joint_coverage(self) -> Fraction:
        """The level at which the lower and the upper bound hold together, by a union bound."""
        beta = self.claim.beta if self.upper is not None else None
        return 1 - self.claim.alpha - (beta or 0)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence for a person who has to decide."""
        return wording.mechanism_sentence(self)

    def __str__(self) -> str:
        return wording.mechanism_text(self)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Plain]:
        """Return the certificate as plain values, ready for JSON."""
        return {
            "mechanism": self.mechanism,
            "decision": self.decision.value,
            "sentence": self.sentence,
            "reliability_target": self.reliability_target,
            "reliability_lower": self.reliability_lower,
            "reliability_upper": self.reliability_upper,
            "joint_coverage": float(self.joint_coverage) if self.certifies_bounds else None,
            "certified": self.certified.value,
            "adjusted_pvalue": self.adjusted_pvalue,
            "adjusted_pvalue_level": self.lower.outer if self.adjusted_pvalue is not None else None,
            **self.claim.stated(),
            "tests": {
                r.name: t.value
                for r, t in zip(self.evidence.requirements, self.evidence.tests, strict=True)
            },
            "n_releases": self.evidence.n_releases,
            "n_records": {
                r.name: n
                for r, n in zip(self.evidence.requirements, self.evidence.n_records, strict=True)
            },
            "lower": _bound_dict(self.lower),
            "upper": None if self.upper is None else _bound_dict(self.upper),
            "design": repr(self.evidence.reading.design),
            "seed": self.evidence.reading.seed,
            "seed_given_by_caller": self.seed_given,
            "basis": self.basis,
            "not_claimed": list(wording.not_claimed(self.evidence.requirements)),
            "notes": list(self.notes),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement.

        Returns
        -------
        pandas.DataFrame
            ``n`` records that count (or clusters), the ``estimate`` of the mean beside its
            ``limit``, and p-values: for validity, and for a violation. ``upper`` is the least limit
            that the release would have met by the same ``test`` at the level of its score, and
            ``lower`` the greatest that it would have been shown to exceed: they lie on the side of
            the limit on which the p-value decided, and say nothing more. They are not a number
            where no statistic says them, as of a betting test, or where no p-value tells single
            releases apart.
        """
        return evidence_frame({self.mechanism: (self.evidence, self.levels)})


@dataclass(frozen=True, slots=True, eq=False)
class FamilyCertificate(ShownAsPage, Mapping[str, Certificate]):
    """Certificates of several mechanisms under one registered family budget.

    `certify` makes it of a mapping; it is one itself, of names to certificates.

    Attributes
    ----------
    members
        The certificate of each mechanism.

    Examples
    --------
    >>> from proxyguard import Requirement, certify
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> losses = {"good": np.zeros((60, 300, 1)), "bad": np.ones((60, 300, 1))}
    >>> family = certify(losses, [error], reliability_target=0.8)
    >>> {name: str(decision) for name, decision in family.decisions.items()}
    {'good': 'validated', 'bad': 'violation'}
    """

    members: Mapping[str, Certificate]

    def __getitem__(self, name: str) -> Certificate:
        return self.members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision on each mechanism."""
        return {name: certificate.decision for name, certificate in self.items()}

    def __str__(self) -> str:
        return wording.family_text(self)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Plain]:
        """Return every certificate as plain values, ready for JSON."""
        return {name: certificate.to_dict() for name, certificate in self.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the evidence of all mechanisms, as `Certificate.to_frame` has it of one."""
        return evidence_frame({name: (c.evidence, c.levels) for name, c in self.items()})


def decide(
    certificates: Mapping[str, Certificate], *, outer: Budget, outer_violation: Budget | None
) -> dict[str, Certificate]:
    """Return the certificates with their decisions, for one mechanism or a family.

    Simultaneous bounds decide by crossing the target: ``L > eta_0`` or ``U < eta_0``,
    strictly. Familywise decisions come from Holm over the mechanisms' p-values, each
    direction at its own family budget. Bounds without a p-value hold simultaneously as
    they are, at their local levels, and decide as bounds.
    """
    # Strictly above: a bound that equals the target has not shown that more is reliable.
    lowers = [certificate.lower for certificate in certificates.values()]
    uppers = [c.upper for c in certificates.values() if c.upper is not None]
    wanted = next(iter(certificates.values())).claim.family
    # One claim makes all bounds of a family, so that all of them have a p-value or none has.
    by_holm = len(lowers) > 1 and wanted is Family.DECISIONS and lowers[0].outer is not None
    adjusted: list[float | None] = [None] * len(lowers)
    if by_holm:
        above, adjusted = _holm(lowers, outer)
        below = _holm(uppers, outer_violation)[0] if outer_violation else [False] * len(lowers)
    else:
        above = [c.lower.value > c.reliability_target for c in certificates.values()]
        below = [
            c.upper is not None and c.upper.value < c.reliability_target
            for c in certificates.values()
        ]
    decided = {}
    for i, (name, certificate) in enumerate(certificates.items()):
        notes = list(certificate.notes)
        upper = certificate.upper
        crossed = upper is not None and certificate.lower.value > upper.value
        # Crossed bounds show that one of them is wrong, and not which. Where Holm decides the
        # bounds are not certified, and their crossing decides nothing.
        conflict = (above[i] and below[i]) or (crossed and not by_holm)
        if conflict:
            notes.append(wording.CONFLICT)
        if len(lowers) > 1 and wanted is Family.DECISIONS and not by_holm:
            notes.append(wording.BOUNDS_INSTEAD)
        decided[name] = replace(
            certificate,
            decision=Decision.UNRESOLVED if conflict else shown_by(above[i], below[i]),
            adjusted_pvalue=adjusted[i],
            n_mechanisms=len(lowers),
            certified=Family.DECISIONS if by_holm else Family.BOUNDS,
            notes=tuple(notes),
        )
    return decided


def _holm(bounds: list[ReliabilityBound], family: Budget) -> tuple[list[bool], list[float | None]]:
    """Return Holm's rejections at the family's outer level, and adjusted p-values."""
    outer = bounds[0].outer
    assert outer is not None  # the caller checked that the bounds have p-values
    pvalues = np.array([bound.pvalue for bound in bounds], dtype=np.float64)
    # The family's level, undivided: Holm itself pays for the number of mechanisms. What was spent
    # before there was a p-value, alpha_R or alpha_Z, was divided among them.
    rejected = holm(pvalues, alpha=float(family[outer]))
    return [bool(r) for r in rejected], [float(a) for a in holm_adjusted(pvalues)]


def shown_by(valid: bool, violated: bool) -> Decision:
    """Return the decision of two directions: both at once can only be an error of one of them."""
    if valid == violated:
        return Decision.UNRESOLVED
    return Decision.VALIDATED if valid else Decision.VIOLATION


def evidence_frame(
    members: Mapping[str, tuple[ReleaseEvidence, ReadingLevels]],
) -> pd.DataFrame:
    """Return the evidence of mechanisms, or members, with a row a release and requirement."""
    need("to_frame()", ["pandas"])
    import pandas as pd

    frames = [_frame(name, evidence, levels) for name, (evidence, levels) in members.items()]
    return pd.concat(frames, ignore_index=True)


def _frame(mechanism: str, evidence: ReleaseEvidence, levels: ReadingLevels) -> pd.DataFrame:
    import pandas as pd

    told = evidence.limits(*levels)
    n_releases, n_requirements = evidence.pvalues.shape
    repeat = np.repeat(np.arange(n_releases), n_requirements)
    tile = np.tile(np.arange(n_requirements), n_releases)
    requirements = evidence.requirements
    return pd.DataFrame(
        {
            "mechanism": mechanism,
            "release": [evidence.releases[r] for r in repeat],
            "requirement": [requirements[j].name for j in tile],
            "n": [evidence.n_records[j] for j in tile],
            "estimate": evidence.estimates.ravel(),
            "lower": told.lower.ravel(),
            "upper": told.upper.ravel(),
            "limit": [requirements[j].limit for j in tile],
            "pvalue": evidence.pvalues.ravel(),
            "violation_pvalue": evidence.violation_pvalues.ravel(),
            "test": [evidence.tests[j].value for j in tile],
        }
    )


def _bound_dict(bound: ReliabilityBound) -> dict[str, Plain]:
    return {
        "value": bound.value,
        "rests_on": bound.rests_on,
        "pvalue": bound.pvalue,
        "level": bound.level,
        "steps": [{"label": label, "value": value} for label, value in bound.steps],
        "budget": bound.budget.to_list(),
    }
