"""One call from losses to a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate, decide
from proxyguard.errors import LossMismatch, LossOutOfBounds, RegistryError, UnsupportedDesign
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
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
from proxyguard.modes.evidence import Decision
from proxyguard.registry.budget import family_shares
from proxyguard.registry.design import Design, as_design
from proxyguard.registry.numbers import as_seed
from proxyguard.registry.requirement import Requirement, as_requirements

AnyLosses = ArrayLike | Losses
EvidenceAtLevels = tuple[ReleaseEvidence, Levels]


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
    return gather_evidence(
        losses, reading_of(claim, requirements, design, levels, seed), bounds_level=levels.bounds
    ), levels


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
