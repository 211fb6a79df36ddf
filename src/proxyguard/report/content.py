"""What a report says, in order, before it becomes Markdown, HTML, JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.documents.certificate import (
    BoundRecord,
    MechanismVerdict,
    ReleaseVerdict,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.report import evidence as facts
from proxyguard.report import health, provenance
from proxyguard.report.evidence import Binding
from proxyguard.report.parts import SECTIONS, Table, Verdict, cut
from proxyguard.report.sources import Levels, Sources
from proxyguard.report.waterfall import waterfall_of

__all__ = ["Binding", "Report", "Sources", "Table", "Verdict", "build_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole report."""

    name: str
    purpose: str
    attestation: str
    guarantee: str
    verdicts: tuple[Verdict, ...]
    about: tuple[str, ...]  # what the claim is about and conditional on
    not_claimed: tuple[str, ...]
    tables: tuple[Table, ...]
    verify: str
    notes: tuple[str, ...] = field(default=())
    advice: tuple[Mapping[str, Any], ...] = ()  # for unresolved verdicts
    bindings: tuple[Binding, ...] = ()
    picks: str = ""  # the sentence of the budget for choosing releases, if one is registered

    def section(self, name: str) -> tuple[Table, ...]:
        """Return the tables of one section."""
        return tuple(table for table in self.tables if table.section == name)


def build_report(sources: Sources) -> Report:
    """Return the report of a certificate, be it of a sealed audit or in memory."""
    bindings = bindings_of(sources)
    warning = provenance.lost_guarantee(sources.status, sources.ledger)
    verdicts = tuple(
        replace(
            build_verdict(verdict, _binding_words(verdict, bindings)),
            warning=warning,
            together=_together(verdict, sources.levels),
        )
        for verdict in sources.verdicts
    )
    return Report(
        name=sources.name,
        purpose=sources.purpose,
        attestation=sources.attestation,
        guarantee=provenance.guarantee_of(sources.status, sources.ledger),
        verdicts=verdicts,
        about=tuple(_about(sources)),
        not_claimed=sources.not_claimed,
        tables=_tables(sources, bindings, verdicts),
        verify=_check_words(sources),
        notes=tuple(provenance.notes_of(sources)),
        advice=tuple(sources.advice),
        bindings=bindings,
        picks="" if sources.picks is None else sources.picks.sentence,
    )


def _check_words(sources: Sources) -> str:
    """Return how a reader checks the page, or that there is nothing to check it against."""
    if sources.predicate is None:
        return "nothing to verify: no folder was sealed; proxyguard init starts an audit that is"
    return f"proxyguard verify .   # in the audit's folder; signed by {sources.signer}"


def _tables(
    sources: Sources, bindings: Sequence[Binding], verdicts: Sequence[Verdict]
) -> tuple[Table, ...]:
    tables = [
        *facts.requirement_tables(sources),
        facts.binding_table(bindings),
        facts.score_table(sources.verdicts),
        facts.step_table(verdicts),
        facts.budget_table(sources),
        *facts.picks_table(sources),
        facts.uncertified_table(sources),
        health.counts_table(sources),
        health.health_table(sources),
        health.guard_table(sources),
        health.times_table(sources.ledger),
        health.failure_table(sources),
        health.unscored_table(sources.predicate),
        health.reference_table(sources.ledger),
        health.plan_table(sources),
        health.sequential_table(sources),
        health.privacy_table(sources.predicate),
        provenance.status_table(sources.predicate),
        provenance.stated_table(sources.predicate),
        provenance.lineage_table(sources.ledger),
        provenance.digest_table(sources),
        provenance.generator_table(sources.registry),
        provenance.software_table(sources),
        provenance.ledger_table(sources.ledger),
    ]
    shown = [table for table in tables if table.rows]
    return tuple(sorted(shown, key=lambda table: SECTIONS.index(table.section)))


def bindings_of(sources: Sources) -> tuple[Binding, ...]:
    """Return which requirement binds, for every mechanism in the order of the verdicts."""
    found = [
        facts.binding_of(
            name, sources.groups[name], facts.failed_releases(name, sources.failed.get(name, ()))
        )
        for name in sources.group_names
    ]
    return tuple(one for one in found if one is not None)


def _binding_words(verdict: VerdictRecord, bindings: Sequence[Binding]) -> str:
    """Return what binds a mechanism; a named release says so itself."""
    if isinstance(verdict, ReleaseVerdict):
        return verdict.binding
    binding = next((one for one in bindings if one.mechanism == verdict.mechanism), None)
    return "" if binding is None else binding.requirement


def build_verdict(verdict: VerdictRecord, binding: str = "") -> Verdict:
    """Return one verdict with its numbers."""
    certified = not isinstance(verdict, MechanismVerdict) or verdict.certified == "bounds"
    lines, waterfalls = [], []
    for side, bound in _bounds(verdict):
        shown = cut(bound.value, up=side == "upper")
        mark = "" if certified else " (not certified by itself: the family's decision is)"
        steps = ", ".join(f"{step.label} {step.value:.6g}" for step in bound.steps)
        lines.append(f"{side} bound {shown}{mark}: {bound.rests_on}; from {steps}")
        waterfall = waterfall_of(bound, side=side, certified=certified)
        waterfalls += [] if waterfall is None else [waterfall]
    if isinstance(verdict, MechanismVerdict | SequentialVerdict):
        lines.append(
            f"required reliability: more than {verdict.reliability_target:g}; releases: "
            f"{verdict.draws if isinstance(verdict, SequentialVerdict) else verdict.n_releases}"
        )
    if isinstance(verdict, ReleaseVerdict):
        lines.append(
            f"Holm-adjusted p-value {verdict.adjusted:.3g}; least certain of {verdict.binding}"
        )
    if isinstance(verdict, MechanismVerdict):
        lines += [f"note: {note}" for note in verdict.notes]
    lower, upper = _interval(verdict)
    return Verdict(
        name=verdict.mechanism,
        decision=verdict.decision.upper(),
        sentence=verdict.sentence,
        lines=tuple(lines),
        target=verdict.reliability_target,
        lower=lower,
        upper=upper,
        certified=certified,
        binding=binding,
        waterfalls=tuple(waterfalls),
    )


def _bounds(verdict: VerdictRecord) -> list[tuple[str, BoundRecord]]:
    """Return the recorded bounds of a verdict, with their sides."""
    if not isinstance(verdict, MechanismVerdict):
        return []
    upper = [] if verdict.upper is None else [("upper", verdict.upper)]
    return [("lower", verdict.lower), *upper]


def _interval(verdict: VerdictRecord) -> tuple[float | None, float | None]:
    """Return the ends of the interval: the recorded bounds, or what the verdict says itself."""
    recorded = {side: bound.value for side, bound in _bounds(verdict)}
    lower = recorded.get("lower", verdict.reliability_lower)
    return lower, recorded.get("upper", verdict.reliability_upper)


def _together(verdict: VerdictRecord, levels: Levels) -> str:
    """Return how sure the ends of an interval are, where both say something and are certified."""
    lower, upper = _interval(verdict)
    joint = verdict.joint_coverage if isinstance(verdict, MechanismVerdict) else None
    if joint is None or lower is None or upper is None:
        return ""
    alpha, beta = levels.alpha, levels.beta
    if lower <= 0.0 or upper >= 1.0 or beta is None:
        return ""
    each = (
        f"Each end holds with {confidence(alpha)}"
        if alpha == beta
        else f"The lower end holds with {confidence(alpha)}, the upper with {confidence(beta)}"
    )
    both = (
        f"both together with {confidence(alpha + beta)} confidence"
        if alpha + beta < 1
        else "nothing is claimed about both together"
    )
    return f"{each}, {both}."


def _about(sources: Sources) -> list[str]:
    predicate = sources.predicate
    if predicate is None:
        return []
    lines = [f"Means are over {words}." for words in predicate.estimand.values()]
    for mechanism in sources.in_order(predicate.redraws):
        redrawn = "; ".join(predicate.redraws[mechanism]) or "nothing that is known here"
        fixed = "; ".join(predicate.conditional_on[mechanism])
        lines.append(f"{mechanism}: every draw redraws {redrawn}. Conditional on {fixed}.")
    for mechanism, costs in sorted((predicate.privacy or {}).items()):
        lines += [f"Privacy of {mechanism}: {line}" for line in costs]
    if predicate.disclosure is not None:
        lines.append(f"Disclosure: {predicate.disclosure.words}.")
    return lines
