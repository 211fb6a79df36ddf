"""What a report says, in order, before it becomes Markdown, HTML, JSON or CSV.

`build_report` puts the verdicts, the tables of `evidence` and `record`, and the advice together.
How a bound is built is shown as steps that add up to it: the counted share of the releases, less
what the draws leave uncertain (the bound if nothing contaminated the scores), less what invalid
releases may have contributed. An upper bound goes the other way. Nothing here is computed that the
certificate did not record, except the bound without contamination, which is for reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain, canonical_bytes
from proxyguard.documents.certificate import (
    BoundRecord,
    MechanismVerdict,
    ReleaseVerdict,
    Report,
    ReportBinding,
    ReportStep,
    ReportTable,
    ReportVerdict,
    ReportWaterfall,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.document import FORMAT
from proxyguard.exact.binomial import clopper_pearson_lower
from proxyguard.report import evidence, exposure, record
from proxyguard.report.sources import SECTIONS, Sources, SpentLevels, cut

# Counts from which invalid releases were taken out before.
_COUNTED = (
    "recognized releases", "valid releases at least", "valid releases at most",
    "releases with a detected violation",
)  # fmt: skip
# Digits that every machine agrees on.
AGREED_DIGITS = 9

Side = Literal["lower", "upper"]


def waterfall_of(
    bound: BoundRecord, *, side: Side, certified: bool = True
) -> ReportWaterfall | None:
    """Return the steps of a recorded bound; None where it has no count to start from.

    Parameters
    ----------
    bound
        The bound with the numbers that it was built from.
    side
        Which bound it is; an upper one starts from what the counted share leaves.
    certified
        Whether the bound is certified by itself, or only the family's decision.

    Returns
    -------
    ReportWaterfall or None
        What was counted, what the draws leave, and the bound; the changes add up to it.
    """
    steps, alpha = _component(bound)
    label, count = steps[0] if steps else ("", 0.0)
    releases = dict(steps).get("releases")
    if not releases:
        return None
    mean, counted, upper = label.startswith("mean"), label.startswith(_COUNTED), side == "upper"
    share = count if mean else count / releases
    if upper and label.startswith(("violating scores", "releases with a detected")):
        share = 1.0 - share
    middle = bound.value if counted else _without_contamination(steps, alpha, upper)
    # Computed here and not recorded: its last digits are the machine's, and are left out. The
    # guards of both limits differ there too, and neither may pass the bound.
    middle = round(middle, AGREED_DIGITS)
    middle = min(middle, bound.value) if upper else max(middle, bound.value)
    shown = f"{count:.6g}" if mean else f"{count:.0f} of {releases:.0f}"
    by = "valid releases that score as violating" if upper else (
        "invalid releases that score favorably"
    )  # fmt: skip
    last = "contamination: taken out in the count" if counted else f"contamination by {by}"
    path = (
        (f"{label.split(' (')[0]}: {shown}", 0.0, share),
        ("uncertainty of the draws", share, middle),
        (last, middle, bound.value),
    )
    built = tuple(
        ReportStep(label=words, change=after - before, after=after) for words, before, after in path
    )
    return ReportWaterfall(side=side, certified=certified, steps=built)


def _component(bound: BoundRecord) -> tuple[list[tuple[str, float]], float]:
    """Return the steps and the level of a bound, or of its largest component.

    A bound of several components has a step "x bound" for each, in the order of their levels,
    and the steps of each under "x: ".
    """
    steps = [(step.label, step.value) for step in bound.steps]
    levels = [float(Fraction(share.amount)) for share in bound.budget]
    components = [(label, limit) for label, limit in steps if label.endswith(" bound")]
    if not components:
        return steps, sum(levels)
    limits = [limit for _, limit in components]
    largest = limits.index(max(limits))
    prefix = components[largest][0].removesuffix("bound").strip() + ": "
    inside = [(label.removeprefix(prefix), v) for label, v in steps if label.startswith(prefix)]
    return inside, levels[largest]


def _without_contamination(steps: list[tuple[str, float]], alpha: float, upper: bool) -> float:
    """Return the bound if no release had scored by mistake."""
    numbers = dict(steps)
    for label in ("score rate at least", "score mean at least"):
        if label in numbers:
            return numbers[label]
    radius = numbers.get("radius r_{R,B}")
    if radius is not None:
        return max(0.0, numbers["mean witness"] - radius)
    count, releases = int(steps[0][1]), int(numbers["releases"])
    clean = float(clopper_pearson_lower(count, releases, alpha=alpha))
    return 1.0 - clean if upper else clean


def build_report(sources: Sources) -> Report:
    """Return the report of a certificate, be it of a sealed audit or in memory.

    Parameters
    ----------
    sources
        What `sources_of` makes of a certificate in memory, or of an audit's folder.

    Returns
    -------
    Report
        The same for the same sources, whenever and wherever it is built.
    """
    bindings = evidence.bindings_of(sources)
    verdicts = verdicts_of(sources, bindings)
    return Report(
        name=sources.name,
        purpose=sources.purpose,
        attestation=sources.attestation,
        guarantee=record.guarantee_of(sources.status, sources.ledger),
        verdicts=verdicts,
        required=sources.required,
        conditions=record.conditions_of(sources),
        lineage=record.lineage_of(sources),
        about=tuple(_about(sources)),
        not_claimed=sources.not_claimed,
        tables=_tables(sources, bindings, verdicts),
        verify=_check_words(sources),
        notes=tuple(record.notes_of(sources)),
        advice=tuple(sources.advice),
        bindings=bindings,
        exposure=exposure.exposure_words(sources) if sources.exposures else (),
        picks="" if sources.picks is None else sources.picks.sentence,
    )


def verdicts_of(sources: Sources, bindings: Sequence[ReportBinding]) -> tuple[ReportVerdict, ...]:
    """Return every verdict as the report shows it; `status` wants them without the tables."""
    warning = record.lost_guarantee(sources.status, sources.ledger)
    return tuple(
        build_verdict(
            verdict, _binding_words(verdict, bindings), warning, _together(verdict, sources.levels)
        )
        for verdict in record.shown_verdicts(sources.verdicts, warning)
    )


def _check_words(sources: Sources) -> str:
    """Return how a reader checks the page, or that there is nothing to check it against."""
    if sources.predicate is None:
        return "nothing to verify: no folder was sealed; proxyguard init starts an audit that is"
    return f"proxyguard verify .   # in the audit's folder; signed by {sources.signer}"


def _tables(
    sources: Sources, bindings: Sequence[ReportBinding], verdicts: Sequence[ReportVerdict]
) -> tuple[ReportTable, ...]:
    """Return every table that has rows, in the order of the page."""
    exposed = bool(sources.exposures)
    tables = [
        *(
            make(sources, name)
            for name in sources.group_names
            for make in (evidence.answer_table, evidence.requirement_table)
        ),
        evidence.binding_table(bindings),
        evidence.step_table(verdicts),
        evidence.budget_table(sources),
        *([exposure.attack_table(sources), exposure.copy_table(sources)] if exposed else []),
        evidence.picks_table(sources),
        evidence.uncertified_table(sources),
        record.missing_table(sources),
        record.counts_table(sources),
        record.health_table(sources),
        record.guard_table(sources),
        record.computed_table(sources),
        record.times_table(sources.ledger),
        record.failure_table(sources),
        record.unscored_table(sources.predicate),
        record.reference_table(sources),
        record.plan_table(sources),
        record.sequential_table(sources),
        record.privacy_table(sources.predicate),
        record.epsilon_table(sources.predicate),
        record.status_table(sources.predicate),
        record.stated_table(sources.predicate),
        record.lineage_table(sources.ledger),
        record.digest_table(sources),
        record.generator_table(sources),
        record.software_table(sources),
        record.ledger_table(sources.ledger),
    ]
    # Sorted is stable: within a section the order is the one above.
    shown = [table for table in tables if table.rows]
    return tuple(sorted(shown, key=lambda table: SECTIONS.index(table.section)))


def _binding_words(verdict: VerdictRecord, bindings: Sequence[ReportBinding]) -> str:
    """Return what binds a mechanism; a named release says so itself."""
    if isinstance(verdict, ReleaseVerdict):
        return verdict.binding
    return next((b.requirement for b in bindings if b.mechanism == verdict.mechanism), "")


def build_verdict(
    verdict: VerdictRecord, binding: str = "", warning: str = "", together: str = ""
) -> ReportVerdict:
    """Return one verdict with the numbers that a reader asks for first.

    Parameters
    ----------
    verdict
        What was decided.
    binding
        The requirement that most releases are held up by.
    warning
        What a reader must know before the sentence: that no guarantee remains.
    together
        How sure both ends of the interval are, each and together.
    """
    certified = not isinstance(verdict, MechanismVerdict) or verdict.certified == "bounds"
    mark = "" if certified else " (not certified by itself: the family's decision is)"
    lines, waterfalls = [], []
    for side, bound in _bounds(verdict):
        shown = cut(bound.value, up=side == "upper", than=verdict.reliability_target)
        steps = ", ".join(f"{step.label} {step.value:.6g}" for step in bound.steps)
        lines.append(f"{side} bound {shown}{mark}: {bound.rests_on}; from {steps}")
        waterfall = waterfall_of(bound, side=side, certified=certified)
        waterfalls += [] if waterfall is None else [waterfall]
    if isinstance(verdict, MechanismVerdict | SequentialVerdict):
        releases = verdict.draws if isinstance(verdict, SequentialVerdict) else verdict.n_releases
        target = f"{verdict.reliability_target:g}"
        lines.append(f"required reliability: more than {target}; releases: {releases}")
    if isinstance(verdict, ReleaseVerdict):
        adjusted = f"{verdict.adjusted:.3g}"
        lines.append(f"Holm-adjusted p-value {adjusted}; least certain of {verdict.binding}")
    if isinstance(verdict, MechanismVerdict):
        lines += [f"note: {note}" for note in verdict.notes]
    lower, upper = verdict.reliability_lower, verdict.reliability_upper
    return ReportVerdict.model_validate({
        "name": verdict.mechanism, "decision": verdict.decision.upper(),
        "sentence": verdict.sentence, "lines": tuple(lines),
        "target": verdict.reliability_target, "lower": lower, "upper": upper,
        "certified": certified, "binding": binding, "warning": warning, "together": together,
        "waterfalls": tuple(waterfalls),
    })  # fmt: skip


def _bounds(verdict: VerdictRecord) -> list[tuple[Side, BoundRecord]]:
    """Return the recorded bounds of a verdict, with their sides."""
    if not isinstance(verdict, MechanismVerdict):
        return []
    bounds: list[tuple[Side, BoundRecord]] = [("lower", verdict.lower)]
    return bounds if verdict.upper is None else [*bounds, ("upper", verdict.upper)]


def _together(verdict: VerdictRecord, levels: SpentLevels) -> str:
    """Return how sure the ends of an interval are, where both say something and are certified."""
    lower, upper = verdict.reliability_lower, verdict.reliability_upper
    joint = verdict.joint_coverage if isinstance(verdict, MechanismVerdict) else None
    alpha, beta = levels.alpha, levels.beta
    if joint is None or lower is None or upper is None or beta is None:
        return ""
    # An end at 0 or 1 holds always; to say how sure it is would mislead.
    if lower <= 0.0 or upper >= 1.0:
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


NO_COMPARISON = (
    "Verdicts on several mechanisms are no comparison of them: of two, the one with the higher "
    "bound may be the worse one."
)


def _cell_words(sources: Sources) -> Iterator[str]:
    """Yield how cells are made, where a requirement is about the cells of tables."""
    asked = [r.part.query for m in sources.members.values() for r in m.requirements]
    if any(query is not None and query.marginals is not None for query in asked):
        yield (
            "Of cells: numbers are split at the declared bins, and texts that the declared groups "
            "do not name, missing ones among them, are 'all others'; a record with a missing "
            "number is in no cell of its column."
        )


def _about(sources: Sources) -> list[str]:
    """Return what the claim is about: what is redrawn, what is fixed, and what it costs.

    What is not redrawn is conditioned upon, and the page says which it is.
    """
    predicate = sources.predicate
    if predicate is None:
        return []
    lines = [f"Means are over {words}." for words in predicate.estimand.values()]
    lines += record.models_of(sources)
    named = {name for member in sources.members.values() for name in member.stand_ins}
    drawn = [name for name in sources.in_order(predicate.redraws) if name not in named]
    if len(drawn) < len(predicate.redraws):
        lines.append(
            "Of named releases nothing is drawn again: what is said of one is about that table, "
            "and not about what made it. Conditional on the source table; the learning procedure "
            "and its settings."
        )
    alike: dict[str, list[str]] = {}
    for mechanism in drawn:
        redrawn = "; ".join(predicate.redraws[mechanism]) or "nothing that is known here"
        fixed = "; ".join(predicate.conditional_on[mechanism])
        said = f"every draw redraws {redrawn}. Conditional on {fixed}."
        alike.setdefault(said, []).append(mechanism)
    lines += [f"{'; '.join(names)}: {said}" for said, names in alike.items()]
    if predicate.privacy:
        lines.append(
            "Privacy is as the mechanism states it (Privacy as stated, below); the audit does not "
            "measure it."
        )
    lines += [record.sentence for record in predicate.epsilon or ()]
    lines += _cell_words(sources)
    if len(drawn) > 1:
        lines.append(NO_COMPARISON)
    if predicate.disclosure is not None:
        lines.append(f"Disclosure: {predicate.disclosure.words}.")
    return lines


def to_json(report: Report, sources: Sources) -> bytes:
    """Return the canonical bytes of a report's values.

    Parameters
    ----------
    report
        What `build_report` made of the sources.
    sources
        What it was made of.
    """
    return canonical_bytes(report_values(report, sources))


def report_values(report: Report, sources: Sources) -> dict[str, Plain]:
    """Return the report and the certificate behind it; `report.csv` has the evidence by rows."""
    verdicts: Plain = {"verdicts": [verdict.to_dict() for verdict in sources.verdicts]}
    return {
        "format": FORMAT,
        **report.to_dict(),
        # What was certified: the signed predicate, or the verdicts that there are.
        "certificate": verdicts if sources.predicate is None else sources.predicate.to_dict(),
        "subjects": dict(sources.subjects),
        "signer": sources.signer,
        "head": sources.head,
    }
