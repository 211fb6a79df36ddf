"""Named releases without any mechanism: from losses to verdicts in one Holm family (Theorem 4).

Takes losses, or evidence that an audit wrote down, of members that may each have a target and
requirements of their own; gives one verdict a release, and none on what made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import AnyLosses, evidence_frame, naming, reading_of, shown_by
from proxyguard.errors import RegistryError
from proxyguard.evidence.releases import ReleaseEvidence, gather_evidence
from proxyguard.exact.multiplicity import holm, holm_adjusted, holm_level
from proxyguard.losses.read import as_losses, check_records
from proxyguard.losses.records import Records
from proxyguard.modes.catalog import NO_MECHANISM, Choices, about_mechanism
from proxyguard.modes.claim import Claim
from proxyguard.modes.evidence import Decision
from proxyguard.modes.violation import pooled_violations
from proxyguard.printable import ShownAsPage
from proxyguard.registry.budget import Budget
from proxyguard.registry.design import Design, Iid, as_design
from proxyguard.registry.numbers import as_seed
from proxyguard.registry.requirement import Requirement, as_requirements

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVerdict:
    """The decision on one named release, with its Holm-adjusted p-values for reading."""

    member: str
    release: str
    decision: Decision
    pvalue: float
    adjusted: float
    binding: str  # the requirement with the largest p-value
    violated: tuple[str, ...]  # requirements detected above their limit, the worst first

    @property
    def name(self) -> str:
        """What the release is called beside those of other members."""
        return f"{self.member}/{self.release}"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {
            "member": self.member,
            "release": self.release,
            "decision": self.decision.value,
            "pvalue": self.pvalue,
            "adjusted": self.adjusted,
            "binding": self.binding,
            "violated": list(self.violated),
        }


def decide_releases(
    family: Mapping[str, ReleaseEvidence], *, alpha: Budget, beta: Budget | None
) -> tuple[NamedVerdict, ...]:
    """Validate named releases of one registered family, whatever targets they were audited on.

    Members may have their own source, target, requirements and number of records: one
    Holm family covers them all.

    Guarantee
    ---------
    Paper Theorem 4: with probability at least ``1 - alpha`` no validated release is
    invalid, under any dependence between requirements and releases. Separately, with
    probability at least ``1 - beta``, no requirement is called violated that is met: Holm
    over every release and requirement of the family.
    """
    pvalues = np.concatenate([evidence.release_pvalues for evidence in family.values()])
    recognized = holm(pvalues, alpha=float(alpha.total))
    # p <= alpha/m decides: m p <= alpha, as these are read, may differ in the last place.
    adjusted = holm_adjusted(pvalues)
    violated, _ = _violations(family, beta)
    verdicts: list[NamedVerdict] = []
    for member, evidence in family.items():
        names = [requirement.name for requirement in evidence.requirements]
        # Read once a member: the evidence computes it from all its p-values, so that asking again
        # for every release would cost the square of their number.
        binding = evidence.binding
        for r, release in enumerate(evidence.releases):
            broken = np.flatnonzero(violated[member][r])
            worst = broken[np.argsort(evidence.violation_pvalues[r, broken], kind="stable")]
            index = len(verdicts)
            verdicts.append(
                NamedVerdict(
                    member=member,
                    release=release,
                    decision=shown_by(bool(recognized[index]), broken.size > 0),
                    pvalue=float(pvalues[index]),
                    adjusted=float(adjusted[index]),
                    binding=names[int(binding[r])],
                    violated=tuple(names[j] for j in worst),
                )
            )
    return tuple(verdicts)


def _violations(
    family: Mapping[str, ReleaseEvidence], beta: Budget | None
) -> tuple[dict[str, NDArray[np.bool_]], float | None]:
    if beta is None:
        return {m: np.zeros(e.violation_pvalues.shape, dtype=bool) for m, e in family.items()}, None
    return pooled_violations(
        {m: e.violation_pvalues for m, e in family.items()}, level=float(beta.total)
    )


@dataclass(frozen=True, slots=True, eq=False)
class NamedReleases:
    """One member of a family of named releases, with its own target and requirements.

    Parameters
    ----------
    losses
        Of its releases on its target, as `certify` takes them.
    requirements
        What its releases must satisfy.
    design
        How its target was sampled; iid unless said otherwise.
    records
        What is known of its records, where the losses are a plain array.
    names
        What its releases are called, where the losses are a plain array; numbered unless given.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10)
    >>> NamedReleases(np.zeros((1, 300, 1)), [error]).design
    Iid(with_replacement=False)
    """

    losses: AnyLosses
    requirements: Sequence[Requirement]
    design: Design = field(default_factory=Iid)
    records: Records | None = None
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleaseCertificate(ShownAsPage):
    """Verdicts on named releases: no mechanism, no reliability (Theorem 4).

    `certify_releases` makes it.

    Attributes
    ----------
    verdicts
        One for each release, in the order of the members.
    claim
        The levels at which they were decided.
    evidence
        By member, all that the verdicts looked at.
    seed
        Of the orders and uniforms of the tests.
    seed_given
        Whether the caller gave that seed.
    basis
        Who stands for the order of choices and losses.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> made = certify_releases({"site": NamedReleases(np.zeros((2, 300, 1)), [error])})
    >>> [verdict.name for verdict in made.verdicts]
    ['site/0', 'site/1']
    """

    verdicts: tuple[NamedVerdict, ...]
    claim: Claim
    evidence: Mapping[str, ReleaseEvidence]
    seed: int
    seed_given: bool
    basis: str = wording.ASSERTED

    @property
    def validated(self) -> tuple[str, ...]:
        """The validated releases, as ``member/release``."""
        return tuple(v.name for v in self.verdicts if v.decision is Decision.VALIDATED)

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The different requirements of the family, in order of appearance."""
        seen = {r: None for e in self.evidence.values() for r in e.requirements}
        return tuple(seen)

    @property
    def levels(self) -> tuple[float, float | None]:
        """The levels at which Holm's procedures stopped: for valid releases, for violations."""
        pvalues = np.concatenate([e.release_pvalues for e in self.evidence.values()])
        stop = holm_level(pvalues, alpha=float(self.claim.lower_budget().total))
        return stop, _violations(self.evidence, self.claim.upper_budget())[1]

    @property
    def sentence(self) -> str:
        """What holds of the validated releases, in one sentence."""
        return wording.releases_sentence(self)

    def __str__(self) -> str:
        return wording.releases_text(self)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Plain]:
        """Return the verdicts as plain values, ready for JSON."""
        level, violation_level = self.levels
        return {
            "mode": self.claim.mode,
            "alpha": str(self.claim.alpha),
            "beta": None if self.claim.beta is None else str(self.claim.beta),
            "rests_on": "Theorem 4",
            "level": level,
            "violation_level": violation_level,
            "seed": self.seed,
            "seed_given_by_caller": self.seed_given,
            "basis": self.basis,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "not_claimed": list(wording.not_claimed(self.requirements)),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement.

        Returns
        -------
        pandas.DataFrame
            The columns of `Certificate.to_frame`, of which ``mechanism`` is the member here;
            ``decision``, the verdict on the release; and ``adjusted_pvalue``, Holm's over all
            releases: the least ``alpha`` at which the release is validated.
        """
        frame = evidence_frame({name: (e, self.levels) for name, e in self.evidence.items()})
        rows = [v for v in self.verdicts for _ in self.evidence[v.member].requirements]
        frame["adjusted_pvalue"] = [verdict.adjusted for verdict in rows]
        frame["decision"] = [verdict.decision.value for verdict in rows]
        return frame


def certify_releases(
    losses: AnyLosses | Mapping[str, NamedReleases],
    requirements: Sequence[Requirement] | None = None,
    *,
    names: Sequence[str] | None = None,
    design: Design | None = None,
    records: Records | None = None,
    seed: int | None = None,
    **choices: Unpack[Choices],
) -> ReleaseCertificate:
    """Certify named releases under one Holm family, on one target or each member on its own.

    Parameters
    ----------
    losses
        Of the releases on one target, as `certify` takes them; or by name, members that each have
        a target and requirements of their own.
    requirements, names, design, records
        Of losses on one target, as `NamedReleases` has them.
    seed
        Of the random order and the uniforms of tests that have them; drawn afresh unless given.
    **choices
        Those of `Claim` that make sense without a mechanism: ``alpha``, ``beta``, ``test``.

    Returns
    -------
    ReleaseCertificate
        A verdict on each release.

    Raises
    ------
    RegistryError
        Where a member or a choice is none.
    UnsupportedDesign
        Where no theorem covers a test on its member's design.
    LossError
        Where losses leave their bounds or disagree with their declaration.

    Guarantee
    ---------
    Paper Theorem 4: with probability at least ``1 - alpha`` every validated release meets
    all its requirements on its registered target, under any dependence.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> few, many = (NamedReleases(np.zeros((1, n, 1)), [error]) for n in (10, 300))
    >>> certify_releases({"few records": few, "many records": many}).validated
    ('many records/0',)
    >>> losses = np.repeat([[0.0], [1.0]], 300, axis=1)
    >>> certify_releases(losses, [error], names=["spring", "autumn"]).validated
    ('target/spring',)
    """
    mode = choices.setdefault("mode", NO_MECHANISM)
    if about_mechanism(mode):
        raise RegistryError(f"named releases have no mode {mode!r}; use certify")
    claim = Claim.of(choices)
    members = _members(losses, requirements, names, design, records)
    given, seed = seed is not None, as_seed(seed)
    arrays, readings = {}, {}
    for name, member in members.items():
        with naming(name, family=isinstance(losses, Mapping)):
            about = [r.name for r in as_requirements(member.requirements)]
            arrays[name] = as_losses(member.losses, member.records, about, member.names)
            check_records(arrays[name], as_design(member.design))
    # Stakes aim at Holm's first level over the whole family, so that is counted first.
    n_releases = sum(read.shape[0] for read in arrays.values())
    for name, member in members.items():
        required, sampled = as_requirements(member.requirements), as_design(member.design)
        claim.require_support(sampled, required)
        levels = claim.levels(n_releases=n_releases, n_requirements=len(required))
        readings[name] = reading_of(claim, required, sampled, levels, seed)
    evidence = {}
    for name, reading in readings.items():
        with naming(name, family=isinstance(losses, Mapping)):
            evidence[name] = gather_evidence(arrays[name], reading)
    return certify_release_evidence(claim, evidence, seed=seed, seed_given=given)


def certify_release_evidence(
    claim: Claim,
    evidence: Mapping[str, ReleaseEvidence],
    *,
    seed: int,
    seed_given: bool = True,
    basis: str = wording.ASSERTED,
) -> ReleaseCertificate:
    """Certify named releases from evidence alone.

    Guarantee
    ---------
    Paper Theorem 4, as in `certify_releases`.
    """
    verdicts = decide_releases(evidence, alpha=claim.lower_budget(), beta=claim.upper_budget())
    return ReleaseCertificate(
        verdicts=verdicts,
        claim=claim,
        evidence=evidence,
        seed=seed,
        seed_given=seed_given,
        basis=basis,
    )


def _members(
    losses: AnyLosses | Mapping[str, NamedReleases],
    requirements: Sequence[Requirement] | None,
    names: Sequence[str] | None,
    design: Design | None,
    records: Records | None,
) -> Mapping[str, NamedReleases]:
    """Return the members of a family; losses on one target are the one member of theirs."""
    beside = (requirements, names, design, records)
    if not isinstance(losses, Mapping):
        if requirements is None:
            raise RegistryError(
                "losses on one target need their requirements, certify_releases(losses, "
                "[Requirement(...)]); a family maps names to members, NamedReleases(losses, ...)"
            )
        one = NamedReleases(losses, requirements, as_design(design), records, names)
        return {"target": one}
    if not losses:
        raise RegistryError("a family maps names to members, and needs at least one")
    if any(given is not None for given in beside):
        raise RegistryError(
            "each member of a family has requirements, names, design and records of its own; "
            "give them to NamedReleases(losses, ...)"
        )
    for name, member in losses.items():
        if not isinstance(name, str) or not name or not isinstance(member, NamedReleases):
            raise RegistryError(
                f"{name!r} must be a name and its value a NamedReleases(losses, ...)"
            )
    return losses
