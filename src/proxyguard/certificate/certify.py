"""One call from losses to a certificate."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.certificate.block import certify_block
from proxyguard.certificate.collective import certify_collective
from proxyguard.certificate.count import ValidCount, certify_count, certify_count_violation
from proxyguard.certificate.decision import Decision, ReliabilityBound
from proxyguard.certificate.direct import certify_direct, certify_rescaled
from proxyguard.certificate.hybrid import certify_hybrid
from proxyguard.certificate.mechanism import (
    Certificate,
    FamilyCertificate,
    decide,
)
from proxyguard.certificate.named import certify_named
from proxyguard.certificate.releases import pooled_violations
from proxyguard.certificate.sharp import certify_direct_violation, certify_sharp
from proxyguard.certificate.smooth import (
    certify_smooth,
    certify_smooth_rescaled,
    certify_smooth_sharp,
)
from proxyguard.certificate.violation import certify_violation
from proxyguard.errors import LossMismatch, LossOutOfBounds, RegistryError, UnsupportedDesign
from proxyguard.evidence.direct import (
    DirectEvidence,
    score_by_pvalue,
    score_by_slack,
    score_violations,
)
from proxyguard.evidence.evalues import calibrated_evalues, capital_evalues, violation_evalues
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.evidence.smooth import score_by_block, score_by_ramp
from proxyguard.losses.array import LossArray, LossBatches, Losses, as_losses
from proxyguard.losses.cell import Reading
from proxyguard.losses.records import Records
from proxyguard.registry.budget import family_shares
from proxyguard.registry.claim import Bound, Choices, Claim, Mode, Score
from proxyguard.registry.design import Design, Iid
from proxyguard.registry.levels import Levels, local_levels, lower_budget, upper_budget
from proxyguard.registry.requirement import Requirement

if TYPE_CHECKING:
    pass

AnyLosses = ArrayLike | Losses


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
        same target records.
    requirements
        One `Requirement` for each slice of the last axis.
    design
        How the target was sampled; iid unless said otherwise.
    records
        Ids, strata, clusters and subgroups of the records, for plain arrays.
    seed
        Of the random order in which order-dependent tests read the records, of the
        uniforms of `randomized_binomial` and of the blocks. Drawn afresh unless given;
        the certificate records it.
    **choices
        The registered choices of `Claim`: ``reliability_target``, ``alpha``, ``beta``,
        ``mode``, ``bound``, ``test``, ``threshold``, ``family`` and the rest.

    Guarantee
    ---------
    That of the certificate which the mode names; each bound says what it rests on.

    >>> import numpy as np
    >>> losses = np.random.default_rng(1).random((40, 2000, 1)) < 0.05
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> certificate = certify(losses, [error], reliability_target=0.8, alpha=0.05)
    >>> certificate.decision.value, round(certificate.reliability_lower, 3)
    ('validated', 0.918)
    """
    claim = Claim.of(choices)
    if claim.mode is Mode.RELEASES:
        raise RegistryError(
            'mode="releases" makes no claim about a mechanism: use certify_releases'
        )
    requirements = tuple(requirements)
    design = design or Iid()
    claim.require_support(design, requirements)
    seed = secrets.randbits(63) if seed is None else seed
    family = losses if isinstance(losses, Mapping) else {"mechanism": losses}
    if not family:
        raise RegistryError("a family needs at least one mechanism")
    arrays = {name: as_losses(one, records) for name, one in family.items()}
    _check_batches(arrays, claim)
    _same_sizes(arrays)
    shares = family_shares(list(arrays), claim.shares)
    audits = {}
    for name, one in arrays.items():
        try:
            audits[name] = _gather(one, claim, requirements, design, seed, shares[name])
        except LossOutOfBounds as error:
            raise (error.within(name) if isinstance(losses, Mapping) else error) from None
    _same_ids({name: evidence.ids for name, (evidence, _) in audits.items()})
    uppers = _upper_bounds(claim, audits)
    certificates = {}
    for name, (evidence, levels) in audits.items():
        lower, count = _lower_bound(claim, evidence, levels)
        certificates[name] = Certificate(
            mechanism=name,
            decision=Decision.UNRESOLVED,
            claim=claim,
            evidence=evidence,
            lower=lower,
            upper=uppers[name],
            count=count,
            notes=levels.notes,
        )
    decided = decide(certificates, outer=lower_budget(claim), outer_violation=upper_budget(claim))
    return FamilyCertificate(decided) if isinstance(losses, Mapping) else decided["mechanism"]


def supports(
    requirements: Sequence[Requirement], *, design: Design | None = None, **choices: Unpack[Choices]
) -> list[str]:
    """Return why these choices are not covered on this design; an empty list if they are.

    Walks the very checks of `certify`, before anything is drawn or read.

    >>> error = Requirement(name="error", low=0, high=1, limit=0.10)
    >>> supports([error], reliability_target=0.8, test="binomial")
    ["binomial needs losses declared two_valued, and 'error' is not"]
    """
    return Claim.of(choices).supports(design or Iid(), tuple(requirements))


Audit = tuple[ReleaseEvidence, Levels]


def _gather(
    losses: Losses,
    claim: Claim,
    requirements: tuple[Requirement, ...],
    design: Design,
    seed: int,
    share: Fraction,
) -> Audit:
    levels = local_levels(
        claim, n_releases=losses.shape[0], n_requirements=len(requirements), share=share
    )
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
        block_size=claim.block_size if claim.mode is Mode.BLOCK else None,
    )


def _lower_bound(
    claim: Claim, evidence: ReleaseEvidence, levels: Levels
) -> tuple[ReliabilityBound, ValidCount | None]:
    target, budget = claim.target, levels.lower
    if claim.mode is Mode.NAMED:
        return certify_named(evidence, budget, reliability_target=target), None
    if claim.mode is Mode.COLLECTIVE:
        return certify_collective(
            evidence,
            budget,
            reliability_target=target,
            dependence=claim.dependence,
            combination=claim.combination,
        ), None
    if claim.mode is Mode.DIRECT:
        return _direct_bound(claim, evidence, levels, direct=False), None
    if claim.mode is Mode.HYBRID:
        named = certify_named(evidence, budget, reliability_target=target)
        direct = _direct_bound(claim, evidence, levels, direct=True)
        alpha = named.budget.total + direct.budget.total
        return certify_hybrid(named, direct, alpha=alpha), None
    if claim.mode is Mode.SMOOTH:
        return _smooth_bound(claim, evidence, levels), None
    if claim.mode is Mode.BLOCK:
        size = evidence.reading.block_size
        assert size is not None  # a claim in block mode has one
        return certify_block(score_by_block(evidence, block_size=size), budget), None
    count = _valid_count(claim, evidence, levels)
    return certify_count(count, budget, reliability_target=target), count


def _direct_bound(
    claim: Claim, evidence: ReleaseEvidence, levels: Levels, *, direct: bool
) -> ReliabilityBound:
    budget = levels.direct if direct else levels.lower
    assert budget is not None  # the hybrid has a direct budget
    scores = _scores(claim, evidence, levels)
    if claim.bound is Bound.SHARP:
        return certify_sharp(scores, budget, reliability_target=claim.target)
    bound: Callable[..., ReliabilityBound] = (
        certify_direct if claim.bound is Bound.PAPER else certify_rescaled
    )
    return bound(scores, budget)


def _scores(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> DirectEvidence:
    if claim.score is Score.SLACK:
        return score_by_slack(evidence, bound=claim.bound)
    return score_by_pvalue(evidence, threshold=levels.threshold)


def _smooth_bound(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> ReliabilityBound:
    scores = score_by_ramp(evidence, seed=evidence.reading.seed)
    if claim.bound is Bound.SHARP:
        return certify_smooth_sharp(scores, levels.lower, reliability_target=claim.target)
    if claim.bound is Bound.RESCALED:
        return certify_smooth_rescaled(scores, levels.lower)
    return certify_smooth(scores, levels.lower)


def _valid_count(claim: Claim, evidence: ReleaseEvidence, levels: Levels) -> ValidCount:
    evalues: Sequence[float | Fraction]
    if claim.calibrator == "capital":
        evalues = capital_evalues(evidence)
    else:
        thresholds = claim.thresholds or (Fraction(levels.threshold),)
        evalues = calibrated_evalues(evidence, thresholds=thresholds)
    return ValidCount(releases=evidence.releases, evalues=evalues, alpha=levels.lower["alpha_Z"])


def _upper_bounds(claim: Claim, audits: Mapping[str, Audit]) -> dict[str, ReliabilityBound | None]:
    """Return the violation bound of each mechanism: Holm where releases are named, else direct."""
    if claim.beta is None:
        return dict.fromkeys(audits)
    target = claim.target
    if claim.mode in (Mode.NAMED, Mode.COLLECTIVE, Mode.HYBRID):
        violated = _holm_violations(claim, audits)
        return {
            name: certify_violation(violated[name], _upper(levels), reliability_target=target)
            for name, (_, levels) in audits.items()
        }
    if claim.mode is Mode.COUNT:
        return {
            name: certify_count_violation(
                violation_evalues(evidence, thresholds=(Fraction(levels.violation_threshold),)),
                _upper(levels),
                reliability_target=target,
            )
            for name, (evidence, levels) in audits.items()
        }
    return {
        name: certify_direct_violation(
            score_violations(evidence, threshold=levels.violation_threshold),
            _upper(levels),
            reliability_target=target,
        )
        for name, (evidence, levels) in audits.items()
    }


def _holm_violations(claim: Claim, audits: Mapping[str, Audit]) -> dict[str, Any]:
    pvalues = {name: evidence.violation_pvalues for name, (evidence, _) in audits.items()}
    family = upper_budget(claim)
    assert family is not None  # the caller checked beta
    if claim.pooled_violations:
        return pooled_violations(pvalues, level=float(family["beta_R"]))
    # Within one mechanism at its local level, a union bound over mechanisms.
    found: dict[str, Any] = {}
    for name, (_, levels) in audits.items():
        found |= pooled_violations({name: pvalues[name]}, level=float(_upper(levels)["beta_R"]))
    return found


def _upper(levels: Levels) -> Any:
    assert levels.upper is not None  # set whenever the claim has a violation direction
    return levels.upper


def _check_batches(arrays: Mapping[str, Losses], claim: Claim) -> None:
    """Separate batches belong to collective mode, and shared records do not."""
    for name, one in arrays.items():
        if isinstance(one, LossBatches) and claim.mode is not Mode.COLLECTIVE:
            raise UnsupportedDesign(
                f"{name!r} has separate batches of records; mode {claim.mode.value} scores all "
                "releases on one shared target, use collective mode"
            )
        if (
            claim.mode is Mode.COLLECTIVE
            and isinstance(one, LossArray)
            and one.records.ids is not None
            and one.shape[0] > 1
        ):
            raise UnsupportedDesign(
                f"{name!r} scores {one.shape[0]} releases on the same record ids, so its release "
                "p-values are not independent: give each release its own batch (LossBatches)"
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


def _same_ids(family: Mapping[str, NDArray[Any] | None]) -> None:
    """Refuse a family whose members list other records, or the same ones in another order."""
    given = [(name, ids) for name, ids in family.items() if ids is not None]
    for name, ids in given[1:]:
        first, expected = given[0]
        if not np.array_equal(ids, expected):
            place = int(np.argmax(ids != expected))
            raise LossMismatch(
                f"record {place} is {ids.tolist()[place]!r} in {name!r} and "
                f"{expected.tolist()[place]!r} in {first!r}; mechanisms of one family must list "
                "the same records in one order"
            )
