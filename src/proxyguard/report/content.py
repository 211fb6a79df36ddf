"""What a report says, in order, before it becomes Markdown, HTML, JSON or CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.report import evidence as facts
from proxyguard.report import health, provenance
from proxyguard.report.evidence import Binding
from proxyguard.report.parts import DECISIONS, SECTIONS, Table, Verdict, cut, in_order
from proxyguard.report.waterfall import waterfall_of

__all__ = ["DECISIONS", "Binding", "Report", "Sources", "Table", "Verdict", "build_report"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The record that a report is built from, as plain values."""

    predicate: Mapping[str, Any]
    evidence: Mapping[str, Any]
    registry: Mapping[str, Any]
    ledger: Sequence[Mapping[str, Any]]
    signer: str
    manifest: Mapping[str, Any] | None = None  # none where draws follow the opening
    subjects: Mapping[str, str] = field(default_factory=dict)
    head: str = ""  # digest of the ledger's last entry
    advice: Sequence[Mapping[str, Any]] = ()


def build_report(sources: Sources) -> Report:
    """Return the report of a certified audit."""
    predicate = sources.predicate
    bindings = bindings_of(predicate, sources.evidence)
    warning = provenance.lost_guarantee(predicate, sources.ledger)
    claim = sources.registry["declaration"]["claim"]
    verdicts = tuple(
        replace(
            build_verdict(verdict, _binding_words(verdict, bindings)),
            warning=warning,
            together=_together(verdict, claim),
        )
        for verdict in predicate["verdicts"]
    )
    picks = predicate.get("picks")
    return Report(
        name=predicate["name"],
        purpose=predicate["purpose"],
        attestation=predicate["attestation"]["words"],
        guarantee=provenance.guarantee_of(predicate, sources.ledger),
        verdicts=verdicts,
        about=tuple(_about(predicate)),
        not_claimed=tuple(predicate["not_claimed"]),
        tables=_tables(sources, bindings, verdicts),
        verify=f"proxyguard verify .   # in the audit's folder; signed by {sources.signer}",
        notes=tuple(provenance.notes_of(predicate, sources.ledger)),
        advice=tuple(sources.advice),
        bindings=bindings,
        picks="" if picks is None else str(picks["sentence"]),
    )


def _tables(
    sources: Sources, bindings: Sequence[Binding], verdicts: Sequence[Verdict]
) -> tuple[Table, ...]:
    predicate, evidence, registry = sources.predicate, sources.evidence, sources.registry
    ledger = sources.ledger
    draws = health.draw_records(sources.manifest, ledger, predicate)
    tables = [
        *facts.requirement_tables(predicate, evidence, registry),
        facts.binding_table(bindings),
        facts.score_table(predicate),
        facts.step_table(verdicts),
        facts.budget_table(predicate, registry),
        *facts.picks_table(predicate),
        *facts.uncertified_tables(predicate),
        health.counts_table(predicate),
        health.health_table(draws, predicate),
        health.guard_table(draws, predicate, registry),
        health.times_table(sources.ledger),
        health.failure_table(predicate),
        health.unscored_table(predicate),
        health.reference_table(ledger),
        health.plan_table(predicate, evidence, registry),
        health.sequential_table(predicate, registry, ledger),
        health.privacy_table(predicate),
        provenance.status_table(predicate),
        provenance.stated_table(predicate),
        provenance.lineage_table(ledger),
        provenance.digest_table(
            sources.subjects, ledger, signer=sources.signer, head=sources.head,
            steward=predicate["attestation"].get("steward"),
        ),
        provenance.generator_table(registry),
        provenance.software_table(predicate, ledger),
        provenance.ledger_table(ledger),
    ]  # fmt: skip
    shown = [table for table in tables if table.rows]
    return tuple(sorted(shown, key=lambda table: SECTIONS.index(table.section)))


def bindings_of(predicate: Mapping[str, Any], evidence: Mapping[str, Any]) -> tuple[Binding, ...]:
    """Return which requirement binds, for every mechanism in the order of the verdicts."""
    groups = facts.groups_in(evidence)
    found = [
        facts.binding_of(name, groups[name], facts.failed_releases(predicate, name))
        for name in in_order(list(groups), predicate)
    ]
    return tuple(one for one in found if one is not None)


def _binding_words(verdict: Mapping[str, Any], bindings: Sequence[Binding]) -> str:
    """Return what binds a mechanism; a named release says so itself."""
    if "binding" in verdict:
        return str(verdict["binding"])
    own = {one.mechanism: one for one in bindings}.get(verdict["mechanism"])
    return "" if own is None else own.requirement


def build_verdict(verdict: Mapping[str, Any], binding: str = "") -> Verdict:
    """Return one verdict with its numbers, from the plain values of a certificate."""
    certified = verdict.get("certified", "bounds") == "bounds"
    lines, waterfalls = [], []
    for side in ("lower", "upper"):
        bound = verdict.get(side)
        if bound is None or "reliability_target" not in verdict:
            continue
        shown = cut(bound["value"], up=side == "upper")
        mark = "" if certified else " (not certified by itself: the family's decision is)"
        steps = ", ".join(f"{s['label']} {s['value']:.6g}" for s in bound["steps"])
        lines.append(f"{side} bound {shown}{mark}: {bound['rests_on']}; from {steps}")
        found = waterfall_of(bound, side=side, certified=certified)
        waterfalls += [] if found is None else [found]
    if "reliability_target" in verdict:
        lines.append(
            f"required reliability: more than {verdict['reliability_target']:g}; releases: "
            f"{verdict.get('n_releases', verdict.get('draws'))}"
        )
    if "adjusted" in verdict:
        lines.append(
            f"Holm-adjusted p-value {verdict['adjusted']:.3g}; least certain of "
            f"{verdict['binding']}"
        )
    lines += [f"note: {note}" for note in verdict.get("notes", [])]
    return Verdict(
        name=verdict["mechanism"],
        decision=DECISIONS[verdict["decision"]],
        sentence=verdict["sentence"],
        lines=tuple(lines),
        target=verdict.get("reliability_target"),
        lower=_shown(verdict, "lower"),
        upper=_shown(verdict, "upper"),
        certified=certified,
        binding=binding,
        waterfalls=tuple(waterfalls),
    )


def _together(verdict: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    """Return how sure the ends of an interval are, where both say something and are certified."""
    lower, upper = (_shown(verdict, side) for side in ("lower", "upper"))
    if verdict.get("joint_coverage") is None or lower is None or upper is None:
        return ""
    if lower <= 0.0 or upper >= 1.0 or claim.get("beta") is None:
        return ""
    alpha, beta = Fraction(claim["alpha"]), Fraction(claim["beta"])
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


def _shown(verdict: Mapping[str, Any], side: str) -> float | None:
    """Return a bound of the interval: the recorded one, or a sequential audit's own."""
    bound = verdict.get(side)
    if bound is not None:
        return float(bound["value"])
    value = verdict.get(f"reliability_{side}")
    return None if value is None else float(value)


def _about(predicate: Mapping[str, Any]) -> list[str]:
    lines = [f"Means are over {words}." for words in predicate["estimand"].values()]
    redraws = predicate.get("redraws", {})
    for mechanism in in_order(list(redraws), predicate):
        redrawn = "; ".join(redraws[mechanism]) or "nothing that is known here"
        fixed = "; ".join(predicate["conditional_on"][mechanism])
        lines.append(f"{mechanism}: every draw redraws {redrawn}. Conditional on {fixed}.")
    for mechanism, words in sorted(predicate.get("privacy", {}).items()):
        lines += [f"Privacy of {mechanism}: {line}" for line in words]
    if "disclosure" in predicate:
        lines.append(f"Disclosure: {predicate['disclosure']['words']}.")
    return lines
