"""Other analyses of stored evidence, and the comparison of counts with published ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby, product
from math import comb, prod
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

import proxyguard as pg
from proxyguard.audit.decide import groups_of, readings_of
from proxyguard.audit.folder import CERTIFICATE, CORRECTION, EVIDENCE, RELEASES
from proxyguard.certificate.mechanism import certify_evidence, reading_of
from proxyguard.documents.certificate import ReleaseVerdict
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.ledger import Stage
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.evidence.record import read_evidence
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.mean import empirical_bernstein_upper
from proxyguard.modes.catalog import mechanism_claim
from proxyguard.registry.budget import family_shares
from reproduction.audits.published import DIRECT, NAMED, Published
from reproduction.audits.tables import ORDER

Tally = tuple[int, int, int]  # verdicts, in the order of `ORDER`
NOT_REGISTERED = "re-analysis of the same evidence, not registered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The audits of one name."""

    paper: pg.Audit
    ours: pg.Audit | None  # none where its draws are not all made, and nothing here makes them
    original: pg.Audit | None = None  # of an analysis that was withdrawn
    sealed_only: tuple[pg.Audit, ...] = ()
    variants: tuple[pg.Audit, ...] = ()  # one of its models each, or another mechanism

    @property
    def certified(self) -> tuple[pg.Audit, ...]:
        """Those that go all the way."""
        found = (self.paper, self.ours, self.original, *self.variants)
        return tuple(audit for audit in found if audit is not None)

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
    pvalues: tuple[float | None, float | None]  # of the outer tests, lower and upper
    steps: Mapping[str, float]  # numbers on the way to the lower bound, by label


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A published count and ours, with the p-value of an exact two-sided test."""

    audit: str
    mechanism: str
    what: str
    published: tuple[int, int]
    here: tuple[int, int]
    inferred: bool = False  # whether the published count is not printed but follows from a bound
    other: str = ""  # where the pilots chose another configuration: which ones
    tallies: tuple[tuple[Tally, Tally], ...] = ()  # published and here, of each table

    @property
    def pvalue(self) -> float:
        """How likely two samples from one law differ at least as much."""
        if self.tallies:
            return tally_pvalue(self.tallies)
        table = np.array([[k, n - k] for k, n in (self.published, self.here)])
        return float(fisher_exact(table).pvalue)


def tally_pvalue(tables: Sequence[tuple[Tally, Tally]]) -> float:
    """Return the p-value of the exact test that two sides have the same verdicts in each table.

    The Fisher-Freeman-Halton test, over several tables: given how often each verdict falls in
    each table, the sides differ by chance, table by table; outcomes are the published tallies
    summed over tables, and those at most as likely as the one seen count.

    >>> tally_pvalue([((0, 3, 0), (3, 0, 0))])
    0.1
    """
    ways: Counter[tuple[int, ...]] = Counter({(0, 0, 0): 1})
    for theirs, here in tables:
        both = [a + b for a, b in zip(theirs, here, strict=True)]
        own = {
            split: prod(comb(n, k) for n, k in zip(both, split, strict=True))
            for split in product(*(range(n + 1) for n in both))
            if sum(split) == sum(theirs)
        }
        summed: Counter[tuple[int, ...]] = Counter()
        for (one, m), (other, k) in product(ways.items(), own.items()):
            summed[tuple(a + b for a, b in zip(one, other, strict=True))] += m * k
        ways = summed
    seen = ways[tuple(sum(column) for column in zip(*(one for one, _ in tables), strict=True))]
    return sum(count for count in ways.values() if count <= seen) / sum(ways.values())


def analyse(
    audit: pg.Audit,
    choices: Mapping[str, Any],
    *,
    changed: Callable[[pg.Requirement], pg.Requirement] | None = None,
) -> dict[str, Bounds]:
    """Return each mechanism's bounds under another claim, from what the audit wrote down.

    Parameters
    ----------
    audit
        An audit that has its evidence.
    choices
        The claim, as a declaration has it; what it does not say is as registered.
    changed
        What becomes of each requirement, where others than the registered ones are asked for.
    """
    registry = audit.folder.registry(audit.journal())
    evidence = audit.folder.document(Evidence, EVIDENCE)
    groups = groups_of(registry, audit.folder.document(ReleaseManifest, RELEASES))
    seed = int(evidence.seed)
    registered = readings_of(registry, groups, seed)
    declared = registry.declaration.claim
    common = {"reliability_target": declared.reliability_target, "alpha": declared.alpha,
              "beta": declared.beta}  # fmt: skip
    claim = mechanism_claim({**common, **choices})
    shares = family_shares([group.name for group in groups], None)
    audits = {}
    for group in groups:
        reading, _ = registered[group.name]
        record = evidence.groups[group.name]
        requirements = group.requirements
        if changed is not None:
            requirements = tuple(changed(one) for one in requirements)
        levels = claim.levels(
            n_releases=len(group.draws),
            n_requirements=len(group.requirements),
            share=shares[group.name],
        )
        other = evidence_of(
            read_evidence(record, reading).columns,
            reading_of(claim, requirements, reading.design, levels, seed),
            releases=record.releases,
        )
        audits[group.name] = (other, levels)
    family = certify_evidence(claim, audits, basis=NOT_REGISTERED)
    return {name: bounds_of(certificate.to_dict()) for name, certificate in family.items()}


def with_widest_ramp(requirement: pg.Requirement) -> pg.Requirement:
    """Return a requirement whose smooth score falls from the lower end of its loss to its cutoff.

    One record then moves the score as little as any ramp allows: narrower ones are steeper.
    """
    assert requirement.slack is not None  # the score of the paper's direct mode has one
    limit, slack, low = (
        Decimal(repr(x)) for x in (requirement.limit, requirement.slack, requirement.low)
    )
    return replace(requirement, ramp=float(limit - slack - low))


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
        pvalues=(verdict["lower"]["pvalue"], verdict["upper"]["pvalue"]),
        steps={step["label"]: float(step["value"]) for step in lower},
    )


def _step(steps: list[dict[str, Any]], label: str) -> Any:
    return next(step["value"] for step in steps if step["label"] == label)


def measured(audit: pg.Audit, group: str, what: str) -> pd.DataFrame:
    """Return one figure of the evidence of a group, a row a release and a column a requirement."""
    frame = audit.certificate().to_frame()
    own = frame[frame["mechanism"] == group]
    names = own["requirement"].unique()  # in the order of the declaration
    return pd.DataFrame(own[what].to_numpy().reshape(-1, len(names)), columns=names)


def simultaneous_upper(audit: pg.Audit, group: str) -> pd.DataFrame:
    """Return the paper's upper bounds, a row a release: empirical Bernstein's, all at once."""
    registry = audit.folder.registry(audit.journal())
    evidence = audit.folder.document(Evidence, EVIDENCE)
    groups = groups_of(registry, audit.folder.document(ReleaseManifest, RELEASES))
    reading, levels = readings_of(registry, groups, int(evidence.seed))[group]
    record = evidence.groups[group]
    columns = read_evidence(record, reading).columns
    # Both directions of every release and requirement share the error of single releases.
    delta = float(levels.lower.release) / (2 * len(record.releases) * len(columns))
    upper = {}
    for requirement, column in zip(reading.requirements, columns, strict=True):
        assert column.variance is not None  # of losses of single records there is one
        limits = empirical_bernstein_upper(column.mean, column.variance, column.n, delta=delta)
        upper[requirement.name] = requirement.from_unit(limits)
    return pd.DataFrame(upper)


def registered_mode(audit: pg.Audit) -> str:
    """Return the mode that an audit registered."""
    claim = audit.folder.registry(audit.journal()).declaration.claim.to_claim()
    return str(claim.mode)


def certified_bounds(audit: pg.Audit) -> dict[str, Bounds]:
    """Return what the certificate says of each mechanism."""
    return {v.mechanism: bounds_of(v.to_dict()) for v in audit.certificate().verdicts}


def corrected_bounds(audit: pg.Audit) -> dict[str, Bounds]:
    """Return what the corrective certificate says of each mechanism."""
    correction = json.loads(audit.folder.read(CORRECTION))
    return {v["mechanism"]: bounds_of(v) for v in correction["verdicts"]}


def verdicts_of(audit: pg.Audit) -> dict[str, str]:
    """Return the verdict of each mechanism, or named release."""
    return {name: decision.value for name, decision in audit.certificate().decisions.items()}


def tallies_of(audit: pg.Audit) -> dict[str, Counter[str]]:
    """Return how many releases of each member have which verdict."""
    verdicts = [v for v in audit.certificate().verdicts if isinstance(v, ReleaseVerdict)]
    return {
        member: Counter(verdict.decision.value for verdict in own)
        for member, own in groupby(verdicts, key=lambda verdict: verdict.member)
    }


def tallied(verdicts: Mapping[str, int]) -> Tally:
    """Return how many there are of each verdict, in the order of `ORDER`."""
    validated, unresolved, violation = (verdicts.get(one, 0) for one in ORDER)
    return validated, unresolved, violation


def other_configurations(audit: pg.Audit, published: Published) -> dict[str, str]:
    """Return, of roles that fell to another pilot than the published one, which ones."""
    if not published.roles:
        return {}
    registry = audit.folder.registry(audit.journal())
    mechanisms = registry.members[registry.declaration.members[0].name].mechanisms
    return {
        role: f"configuration {mechanisms[role].pilot} here, {theirs} published"
        for role, theirs in published.roles.items()
        if mechanisms[role].pilot != theirs
    }


def compare(name: str, run: Run, published: Published) -> list[Comparison]:
    """Return every published count of an audit beside ours.

    The tallies of tables are compared together: alone, even 0 of 3 and 3 of 3 have p = 0.1.
    """
    found = []
    others = other_configurations(run.paper, published)
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
                           inferred=label in row.inferred, other=others.get(mechanism, ""))
                for label, count, here in pairs
                if count is not None
            ]  # fmt: skip
    return [*found, *_together(name, run, published), *_withdrawn(name, run, published, others)]


def _together(name: str, run: Run, published: Published) -> Iterable[Comparison]:
    """Yield the verdicts of all tables of a screen, published and ours."""
    if not published.tallies:
        return
    here = tallies_of(run.paper)
    pairs = tuple((tallied(own), tallied(here[one])) for one, own in published.tallies.items())
    theirs, ours = (
        (sum(pair[side][0] for pair in pairs), sum(sum(pair[side]) for pair in pairs))
        for side in (0, 1)
    )
    yield Comparison(audit=name, mechanism="all tables", what="validated (all verdicts tested)",
                     published=theirs, here=ours, tallies=pairs)  # fmt: skip


def _withdrawn(
    name: str, run: Run, published: Published, others: Mapping[str, str]
) -> Iterable[Comparison]:
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
            other=others.get(mechanism, ""),
        )
