"""Other analyses of stored evidence, and the comparison of counts with published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from published import DIRECT, NAMED, Published
from scipy.stats import fisher_exact

import proxyguard as pg
from proxyguard.audit.decide import groups_of, readings_of
from proxyguard.audit.folder import EVIDENCE, RELEASES
from proxyguard.certificate.certify import certify_evidence, reading_of
from proxyguard.evidence.record import read_evidence
from proxyguard.evidence.releases import evidence_of
from proxyguard.registry.budget import family_shares
from proxyguard.registry.claim import Claim
from proxyguard.registry.design import Iid
from proxyguard.registry.levels import local_levels

NOT_REGISTERED = "re-analysis of the same evidence, not registered"


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

    @property
    def pvalue(self) -> float:
        """How likely two samples from one law differ at least as much."""
        table = [[k, n - k] for k, n in (self.published, self.here)]
        return float(fisher_exact(table).pvalue)


def analyse(audit: pg.Audit, choices: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return each mechanism's bounds under another claim, from what the audit wrote down.

    ``design = "iid"`` reads the records as iid, whatever was registered.
    """
    registry = audit.folder.registry(audit.journal())
    evidence = audit.folder.read_json(EVIDENCE)
    groups = groups_of(registry, audit.folder.read_json(RELEASES))
    seed = int(evidence["seed"])
    registered = readings_of(registry, groups, seed)
    declared = registry.declaration.claim
    common = {"reliability_target": declared.reliability, "alpha": declared.alpha,
              "beta": declared.beta}  # fmt: skip
    own = {key: value for key, value in choices.items() if key != "design"}
    claim = Claim.of({**common, **own})  # type: ignore[typeddict-item]  # checked there
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
        design = Iid() if choices.get("design") == "iid" else reading.design
        other = evidence_of(
            read_evidence(record, reading).columns,
            reading_of(claim, group.requirements, design, levels, seed),
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


def compare(name: str, audit: pg.Audit, published: Published) -> list[Comparison]:
    """Return every published count of an audit beside ours."""
    found = []
    for analysis, what in ((NAMED, "recognized"), (DIRECT, "favorable")):
        if analysis not in published.claims:
            continue
        ours = analyse(audit, published.claims[analysis])
        for mechanism, row in published.rows.items():
            own = ours[mechanism]
            pairs = [(what, getattr(row, what), own.count)]
            if analysis == NAMED:
                pairs.append(("violations", row.violations, own.violations))
            found += [
                Comparison(audit=name, mechanism=mechanism, what=label,
                           published=(count, row.releases), here=(here, own.releases))
                for label, count, here in pairs
                if count is not None
            ]  # fmt: skip
    return found
