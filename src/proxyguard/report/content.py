"""What a report says, in order, before it becomes Markdown, HTML, JSON or CSV.

How a bound is built, step by step, for every mode: the steps add up to the bound.

Counted share of the releases, less what the draws leave uncertain (the bound if nothing
contaminated the scores), less what invalid releases may have contributed, is the bound. An
upper bound goes the other way. Nothing here is computed that the certificate did not record,
except the bound without contamination, which is for reading.

A report as plain values: everything that its page says, for programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain, canonical_bytes
from proxyguard.documents.certificate import (
    BoundRecord,
    MechanismVerdict,
    ReleaseVerdict,
    ReportAdvice,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.document import FORMAT
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.report import evidence as facts
from proxyguard.report import record
from proxyguard.report.evidence import Binding
from proxyguard.report.sources import (
    COLUMNS,
    SECTIONS,
    Levels,
    Sources,
    Step,
    Table,
    Verdict,
    Waterfall,
    cut,
    evidence_rows,
)

_COUNTED = (
    "recognized releases", "valid releases at least", "valid releases at most",
    "releases with a detected violation",
)  # fmt: skip
"""Counts from which invalid releases were taken out before."""

DIGITS = 9
"""Digits that every machine agrees on."""


def waterfall_of(bound: BoundRecord, *, side: str, certified: bool = True) -> Waterfall | None:
    """Return the steps of a recorded bound; None where it has no count to start from."""
    steps, alpha = _component(bound)
    value = bound.value
    label, count = steps[0] if steps else ("", 0.0)
    releases = dict(steps).get("releases")
    if not releases:
        return None
    share = count if label.startswith("mean") else count / releases
    counted = label.startswith(_COUNTED)
    upper = side == "upper"
    if upper and label.startswith(("violating scores", "releases with a detected")):
        share = 1.0 - share
    middle = value if counted else _without_contamination(steps, alpha, upper)
    # Computed here and not recorded: its last digits are the machine's, and are left out. The
    # guards of both limits differ there too, and neither may pass the bound.
    middle = round(middle, DIGITS)
    middle = min(middle, value) if upper else max(middle, value)
    shown = f"{count:.6g}" if label.startswith("mean") else f"{count:.0f} of {releases:.0f}"
    first = Step(label=f"{label.split(' (')[0]}: {shown}", change=share, after=share)
    if counted:
        last = "contamination: taken out in the count"
    else:
        last = "contamination by " + (
            "valid releases that score as violating" if upper
            else "invalid releases that score favorably"
        )  # fmt: skip
    return Waterfall(
        side=side,
        certified=certified,
        steps=(
            first,
            Step(label="uncertainty of the draws", change=middle - share, after=middle),
            Step(label=last, change=value - middle, after=value),
        ),
    )


def _component(bound: BoundRecord) -> tuple[list[tuple[str, float]], float]:
    """Return the steps and the level of a bound, or of its largest component.

    A bound of several components has a step "x bound" for each, in the order of their levels,
    and the steps of each under "x: ".
    """
    steps = [(step.label, step.value) for step in bound.steps]
    levels = [float(Fraction(share.amount)) for share in bound.budget]
    components = [(label, value) for label, value in steps if label.endswith(" bound")]
    if not components:
        return steps, sum(levels)
    values = [value for _, value in components]
    largest = values.index(max(values))
    prefix = components[largest][0].removesuffix("bound").strip() + ": "
    own = [(label.removeprefix(prefix), v) for label, v in steps if label.startswith(prefix)]
    return own, levels[largest]


def _without_contamination(steps: list[tuple[str, float]], alpha: float, upper: bool) -> float:
    """Return the bound if no release had scored by mistake."""
    values = dict(steps)
    for label in ("score rate at least", "score mean at least"):
        if label in values:
            return values[label]
    if "radius r_{R,B}" in values:
        return max(0.0, values["mean witness"] - values["radius r_{R,B}"])
    count, releases = int(steps[0][1]), int(values["releases"])
    clean = float(clopper_pearson_lower(count, releases, alpha=alpha))
    return 1.0 - clean if upper else clean


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
    advice: tuple[ReportAdvice, ...] = ()  # for unresolved verdicts
    bindings: tuple[Binding, ...] = ()
    picks: str = ""  # the sentence of the budget for choosing releases, if one is registered

    def section(self, name: str) -> tuple[Table, ...]:
        """Return the tables of one section."""
        return tuple(table for table in self.tables if table.section == name)


def build_report(sources: Sources) -> Report:
    """Return the report of a certificate, be it of a sealed audit or in memory."""
    bindings = bindings_of(sources)
    warning = record.lost_guarantee(sources.status, sources.ledger)
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
        guarantee=record.guarantee_of(sources.status, sources.ledger),
        verdicts=verdicts,
        about=tuple(_about(sources)),
        not_claimed=sources.not_claimed,
        tables=_tables(sources, bindings, verdicts),
        verify=_check_words(sources),
        notes=tuple(record.notes_of(sources)),
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
        record.counts_table(sources),
        record.health_table(sources),
        record.guard_table(sources),
        record.times_table(sources.ledger),
        record.failure_table(sources),
        record.unscored_table(sources.predicate),
        record.reference_table(sources.ledger),
        record.plan_table(sources),
        record.sequential_table(sources),
        record.privacy_table(sources.predicate),
        record.status_table(sources.predicate),
        record.stated_table(sources.predicate),
        record.lineage_table(sources.ledger),
        record.digest_table(sources),
        record.generator_table(sources.registry),
        record.software_table(sources),
        record.ledger_table(sources.ledger),
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


def to_json(report: Report, sources: Sources) -> bytes:
    """Return the canonical bytes of a report's values."""
    return canonical_bytes(report_values(report, sources))


def report_values(report: Report, sources: Sources) -> dict[str, Plain]:
    """Return the report, the certificate behind it, and the evidence row by row."""
    return {
        "format": FORMAT,
        **asdict(report),
        "advice": [advised.to_dict() for advised in report.advice],
        "certificate": _certificate(sources),
        "subjects": dict(sources.subjects),
        "signer": sources.signer,
        "head": sources.head,
        "rows": {
            "columns": list(COLUMNS),
            "values": [list(row) for row in evidence_rows(sources)],
        },
    }


def _certificate(sources: Sources) -> Plain:
    """Return what was certified: the signed predicate, or the verdicts that there are."""
    if sources.predicate is not None:
        return sources.predicate.to_dict()
    return {"verdicts": [verdict.to_dict() for verdict in sources.verdicts]}
