"""Other analyses of stored evidence, and the comparison of counts with published ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from published import DIRECT, NAMED, Published
from scipy.stats import fisher_exact

import proxyguard as pg
from proxyguard.audit.correct import correction_name
from proxyguard.audit.decide import groups_of, readings_of
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, RELEASES
from proxyguard.certificate.certify import certify_evidence, reading_of
from proxyguard.evidence.record import read_evidence
from proxyguard.evidence.releases import evidence_of
from proxyguard.registry.budget import family_shares
from proxyguard.registry.claim import Claim
from proxyguard.registry.levels import local_levels
from proxyguard.seal.ledger import Stage

NOT_REGISTERED = "re-analysis of the same evidence, not registered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The audits of one name."""

    paper: pg.Audit
    ours: pg.Audit
    original: pg.Audit | None = None  # of an analysis that was withdrawn
    sealed_only: tuple[pg.Audit, ...] = ()
    variants: tuple[pg.Audit, ...] = ()  # the paper's settings with one of its models each

    @property
    def certified(self) -> tuple[pg.Audit, ...]:
        """Those that go all the way."""
        original = [] if self.original is None else [self.original]
        return (self.paper, self.ours, *original, *self.variants)

    @property
    def finished(self) -> bool:
        """Whether every one has its certificate, and the withdrawn one its correction."""
        done = all((audit.folder / CERTIFICATE).exists() for audit in self.certified)
        if self.original is None or not done:
            return done
        return self.original.journal().ledger.has(Stage.CORRECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one analysis says of one mechanism."""

    releases: int
    count: int  # recognized releases, or favorable scores
    lower: float
    violations: int
    upper: float
    decision: str
    local: tuple[float, float]  # bounds at the mechanism's own share of the error


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published count and ours, with the p-value of Fisher's two-sided test."""

    audit: str
    mechanism: str
    what: str
    published: tuple[int, int]
    here: tuple[int, int]
    inferred: bool = False  # whether the published count is not printed but follows from a bound

    @property
    def pvalue(self) -> float:
        """How likely two samples from one law differ at least as much."""
        table = [[k, n - k] for k, n in (self.published, self.here)]
        return float(fisher_exact(table).pvalue)


def analyse(audit: pg.Audit, choices: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return each mechanism's bounds under another claim, from what the audit wrote down."""
    registry = audit.folder.registry(audit.journal())
    evidence = audit.folder.read_json(EVIDENCE)
    groups = groups_of(registry, audit.folder.read_json(RELEASES))
    seed = int(evidence["seed"])
    registered = readings_of(registry, groups, seed)
    declared = registry.declaration.claim
    common = {"reliability_target": declared.reliability, "alpha": declared.alpha,
              "beta": declared.beta}  # fmt: skip
    claim = Claim.of({**common, **choices})  # type: ignore[typeddict-item]  # checked there
    shares = family_shares([group.name for group in groups], None)
    audits = {}
    for group in groups:
        reading, _ = registered[group.name]
        record = evidence["groups"][group.name]
        levels = local_levels(
            claim,
            n_releases=len(group.draws),
            n_requirements=len(group.requirements),
            share=shares[group.name],
        )
        other = evidence_of(
            read_evidence(record, reading).columns,
            reading_of(claim, group.requirements, reading.design, levels, seed),
            releases=tuple(record["releases"]),
            bounds_level=levels.bounds,
        )
        audits[group.name] = (other, levels)
    family = certify_evidence(claim, audits, basis=NOT_REGISTERED)
    return {name: bounds_of(certificate.to_dict()) for name, certificate in family.items()}


def bounds_of(verdict: Mapping[str, Any]) -> Bounds:
    """Return the counts and bounds of a certificate's verdict."""
    lower, upper = verdict["lower"]["steps"], verdict["upper"]["steps"]
    return Bounds(
        releases=int(_step(lower, "releases")),
        count=int(lower[0]["value"]),
        lower=float(verdict["reliability_lower"]),
        violations=int(upper[0]["value"]),
        upper=float(verdict["reliability_upper"]),
        decision=str(verdict["decision"]),
        local=(float(verdict["lower"]["value"]), float(verdict["upper"]["value"])),
    )


def _step(steps: list[dict[str, Any]], label: str) -> Any:
    return next(step["value"] for step in steps if step["label"] == label)


def registered_mode(audit: pg.Audit) -> str:
    """Return the mode that an audit registered."""
    claim = audit.folder.registry(audit.journal()).declaration.claim.to_claim()
    return str(claim.mode.value)


def certified_bounds(audit: pg.Audit) -> dict[str, Bounds]:
    """Return what the certificate says of each mechanism."""
    return {v["mechanism"]: bounds_of(v) for v in audit.certificate()["verdicts"]}


def corrected_bounds(audit: pg.Audit) -> dict[str, Bounds]:
    """Return what the corrective certificate says of each mechanism."""
    correction = audit.folder.read_json(correction_name(0))
    return {v["mechanism"]: bounds_of(v) for v in correction["verdicts"]}


def verdicts_of(audit: pg.Audit) -> dict[str, str]:
    """Return the verdict of each mechanism, or named release."""
    return {v["mechanism"]: v["decision"] for v in audit.certificate()["verdicts"]}


def tallies_of(audit: pg.Audit) -> dict[str, Counter[str]]:
    """Return how many releases of each member have which verdict."""
    verdicts = audit.certificate()["verdicts"]
    return {
        member: Counter(v["decision"] for v in own)
        for member, own in groupby(verdicts, key=lambda v: v["member"])
    }


def compare(name: str, run: Run, published: Published) -> list[Comparison]:
    """Return every published count of an audit beside ours.

    Verdicts of three releases a table are no counts to compare: even 0 of 3 and 3 of 3 have
    p = 0.1 by Fisher's test.
    """
    found = []
    for analysis, what in ((NAMED, "recognized"), (DIRECT, "favorable")):
        if analysis not in published.claims:
            continue
        ours = analyse(run.paper, published.claims[analysis])
        for mechanism, row in published.rows.items():
            own = ours[mechanism]
            pairs = [(what, getattr(row, what), own.count)]
            if analysis == NAMED:
                pairs.append(("violations", row.violations, own.violations))
            found += [
                Comparison(audit=name, mechanism=mechanism, what=label,
                           published=(count, row.releases), here=(here, own.releases),
                           inferred=label in row.inferred)
                for label, count, here in pairs
                if count is not None
            ]  # fmt: skip
    return [*found, *_withdrawn(name, run, published)]


def _withdrawn(name: str, run: Run, published: Published) -> Iterable[Comparison]:
    """Yield the published counts of a withdrawn analysis beside ours."""
    if run.original is None:
        return
    found = certified_bounds(run.original)
    for mechanism, (count, _) in (published.original or {}).items():
        yield Comparison(
            audit=name,
            mechanism=mechanism,
            what="recognized, original analysis",
            published=(count, published.rows[mechanism].releases),
            here=(found[mechanism].count, found[mechanism].releases),
            inferred=True,
        )
