"""What a certificate says, in plain words, and what it does not say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, log10
from typing import TYPE_CHECKING

from proxyguard.modes.evidence import Decision, ReliabilityBound
from proxyguard.registry.design import (
    Stratified,
    Weighted,
    WeightedClusters,
    clusters_of,
    shares_of,
    tests_excess,
)
from proxyguard.registry.requirement import NONMEMBERS, Form, Requirement, attackers, required
from proxyguard.registry.test import Bound

if TYPE_CHECKING:
    from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
    from proxyguard.certificate.releases import NamedVerdict, ReleaseCertificate
    from proxyguard.certificate.sequential import CandidateStream, SequentialAudit
    from proxyguard.documents.certificate import VerdictRecord
    from proxyguard.evidence.releases import ReleaseEvidence

ASSERTED = "choices asserted by the caller: nothing was registered or sealed before the losses"

CONFLICT = (
    "the two directions contradict each other, the lower bound lying above the upper one; one "
    "of them is in error, or the records are not what was declared, so the claim stays unresolved"
)

BOUNDS_INSTEAD = (
    "these bounds have no p-value for Holm's procedure; the family is certified for simultaneous "
    "bounds, and decided by them"
)

# Verdicts, or requirements, that a text lists; of more than these it has the worst few.
MOST_PRINTED = 20
WORST = 10
# Mechanisms of a family of which each is printed whole.
MOST_WHOLE = 5
# Releases that one sentence has room for.
MOST_NAMED = 5

# In the order in which a summary has them.
_FURTHEST = (Decision.VIOLATION, Decision.UNRESOLVED, Decision.VALIDATED)
ALL_OF_THEM = ".to_frame() has a row for each release and requirement, .to_html() a page"

_NEVER = (
    "that the release resembles the target distribution",
    "anything about losses, limits or subgroups that were not registered",
    "causal transport, or validity of other analyses run on the release",
    "anything about a mechanism that was retuned after the target was opened",
)

_EXPOSURE = (
    "that a release keeps anything secret: exposure is about these members, these attacks and "
    "these releases, and another attack may find what these do not"
)


def not_claimed(requirements: Sequence[Requirement]) -> tuple[str, ...]:
    """Return what this certificate does not establish."""
    forms = {r.form for r in requirements}
    extra = []
    never = (*_NEVER, _EXPOSURE) if Form.EXPOSURE in forms else _NEVER
    if Form.QUERY in forms:  # of what was asked something is claimed
        never = (f"{never[0]} in anything that was not asked of it", *never[1:])
    if forms <= {Form.QUERY, Form.EXPOSURE}:
        asked = "queries" if forms == {Form.QUERY} else "queries and attacks"
        return (f"anything about {asked} that were not registered", *never)
    if Form.ABSOLUTE not in forms:
        extra.append(
            "that the procedure is adequate: the requirements only compare with the source"
        )
    if Form.RELATIVE not in forms:
        extra.append("that the release does as well as the source: no requirement compares the two")
    return (*extra, *never)


def exposure_promises(requirements: Sequence[Requirement]) -> list[str]:
    """Return what requirements about exposure promise, one line for all attacks of each.

    Examples
    --------
    >>> told = Requirement(
    ...     name="a", low=-1, high=1, limit=0.1, form="exposure", attack="dcr",
    ...     promise="no threshold of {attacks} tells members from others",
    ... )
    >>> exposure_promises([told])
    ['no threshold of the attack dcr tells members from others']
    """
    attacks: dict[tuple[str, str | None], list[str]] = {}
    for r in requirements:
        if r.form is Form.EXPOSURE and r.promise is not None:
            attacks.setdefault((r.promise, r.group), []).append(str(r.attack))
    promises = []
    for (promise, group), names in attacks.items():
        # Braces in a column's name are not for us to fill in.
        told = promise.replace("{attacks}", attackers(names))
        promises.append(told if group in (None, NONMEMBERS) else f"{told} ({group})")
    return promises


def exposure_meaning(requirements: Sequence[Requirement]) -> str:
    """Return a sentence on what meeting requirements about exposure is; nothing without any."""
    promises = exposure_promises(requirements)
    if not promises:
        return ""
    return (
        f" Of exposure, a release that meets them promises: {'; '.join(promises)}. That is about "
        "these members, these attacks and these releases."
    )


def required_of(groups: Iterable[ReleaseEvidence]) -> tuple[str, ...]:
    """Return what was required of releases, a sentence for each requirement, each once."""
    said = (line for e in groups for line in required(e.requirements, e.reading.design.over))
    return tuple(dict.fromkeys(said))


def requirements_phrase(requirements: Sequence[Requirement], *, plural: bool) -> str:
    """Return "meet all 3 requirements", or the relative-only form the paper asks for."""
    verb = "meet" if plural else "meets"
    kind = "relative-transfer " if all(r.form is Form.RELATIVE for r in requirements) else ""
    if len(requirements) == 1:
        return f"{verb} the {kind}requirement {requirements[0].name!r}"
    return f"{verb} all {len(requirements)} {kind}requirements"


def confidence(error: Fraction | float) -> str:
    """Return a level as a percentage, rounded down and never to 100 %: ``95 %`` for 1/20."""
    error = Fraction(error)
    # As many digits as the error has, rounded down: 99.99 % must not be printed as 100 %.
    digits = 2 if error >= 1 else max(2, ceil(-log10(error)))
    return f"{_floor(100 * (1 - error), digits)} %"


def percent(share: Fraction | float) -> str:
    """Return a registered share as it was written: ``80 %`` for 0.8."""
    exact_share = Fraction(str(share)) if isinstance(share, float) else share
    return f"{_floor(100 * exact_share, 12)} %"


def at_least(share: float, than: Fraction | float | None = None) -> str:
    """Return a lower bound as a percentage, rounded down.

    Rounds what a reader would see of it, so that 0.57 is 57.0 % and not 56.9 %; with more digits
    where ``than``, which it is compared with, would read alike.

    >>> at_least(0.90003), at_least(0.90003, 0.9)
    ('90.0 %', '90.003 %')
    """
    return _percentage(share, than, up=False)


def at_most(share: float, than: Fraction | float | None = None) -> str:
    """Return an upper bound as a percentage, rounded up; ``than`` as for `at_least`."""
    return _percentage(share, than, up=True)


def _percentage(share: float, than: Fraction | float | None, *, up: bool) -> str:
    other = None if than is None else 100 * _exactly(than)
    return f"{rounded(100 * _exactly(share), 1, up=up, than=other)} %"


def rounded(
    number: Fraction | float, digits: int, *, up: bool, than: Fraction | float | None = None
) -> str:
    """Return a number with so many decimals, or as many as tell it apart from another one.

    Parameters
    ----------
    number
        What is printed; of a double, the decimal that a reader would see.
    digits
        The least number of decimals.
    up
        To which side it is rounded: the one that weakens the claim.
    than
        What a reader compares it with.

    Examples
    --------
    >>> rounded(0.29996, 4, up=True), rounded(0.29996, 4, up=True, than=0.3)
    ('0.3000', '0.29996')
    """
    exact = _exactly(number)
    other = exact if than is None else _exactly(than)
    while True:
        scaled = (ceil if up else floor)(exact * 10**digits)
        shown = Fraction(scaled, 10**digits)
        # A double is a decimal: some number of digits is enough. Equal numbers need none.
        if exact == other or (shown > other if exact > other else shown < other):
            return f"{Decimal(scaled).scaleb(-digits):f}"
        digits += 1


def _exactly(number: Fraction | float) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def _floor(value: Fraction, digits: int) -> str:
    """Return a number rounded down to some digits, without trailing zeros."""
    scaled = value * 10**digits
    whole = scaled.numerator // scaled.denominator
    text = f"{whole // 10**digits}.{whole % 10**digits:0{digits}d}"
    return text.rstrip("0").rstrip(".")


def counted(number: int, noun: str) -> str:
    """Return ``1 release`` or ``2 releases``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def mechanism_sentence(certificate: Certificate) -> str:
    """Return the verdict on a mechanism in one or two sentences."""
    claim = certificate.claim
    meet = requirements_phrase(certificate.evidence.requirements, plural=True)
    meaning = exposure_meaning(certificate.evidence.requirements)
    aim = claim.reliability_target or Fraction(0)
    target = percent(aim)
    family = "" if certificate.n_mechanisms == 1 else ", for all audited mechanisms at once"
    if certificate.decision is Decision.VALIDATED:
        share = (
            f"at least {at_least(certificate.reliability_lower, aim)}"
            if certificate.certifies_bounds
            else f"more than {target}"
        )
        return (
            f"With {confidence(claim.alpha)} confidence{family}, {share} of future releases of "
            f"this mechanism {meet} on the registered target.{meaning}"
        )
    if certificate.decision is Decision.VIOLATION:
        share = (
            f"at most {at_most(certificate.reliability_upper, aim)}"
            if certificate.certifies_bounds
            else f"fewer than {target}"
        )
        return (
            f"With {confidence(claim.beta or Fraction(0))} confidence{family}, {share} of future "
            f"releases of this mechanism {meet} on the registered target; {target} were required."
            f"{meaning}"
        )
    shows = at_least(certificate.reliability_lower, aim)
    known = (
        f" It shows at least {shows}, with {confidence(claim.alpha)} confidence{family}."
        # A family's decisions show no bound, and neither does a bound of nothing.
        if certificate.certifies_bounds and shows != at_least(0.0)
        else ""
    )
    return (
        f"The audit does not settle whether more than {target} of future releases of this "
        f"mechanism {meet} on the registered target.{known} "
        f"That is not evidence of a violation.{meaning}"
    )


def decisions_words(decisions: Collection[Decision], noun: str) -> str:
    """Return how many verdicts there are of each kind.

    >>> decisions_words([Decision.VIOLATION, Decision.VALIDATED], "release")
    '1 of 2 releases validated, 0 unresolved, 1 violation'
    """
    made = Counter(decisions)
    violations = counted(made[Decision.VIOLATION], "violation")
    return (
        f"{made[Decision.VALIDATED]:,} of {counted(len(decisions), noun)} validated, "
        f"{made[Decision.UNRESOLVED]:,} unresolved, {violations}"
    )


def _few(lines: Iterable[str], what: str, where: str = ALL_OF_THEM) -> list[str]:
    """Return lines, or of many the first ones and how to see the others."""
    listed = list(lines)
    if len(listed) <= MOST_PRINTED:
        return listed
    return [*listed[:WORST], f"  and {len(listed) - WORST:,} more {what}: {where}"]


def verdicts_text(
    verdicts: Sequence[Certificate | VerdictRecord], noun: str = "verdict", where: str = ALL_OF_THEM
) -> str:
    """Return verdicts with their sentences; of many their counts and the worst of them.

    Parameters
    ----------
    verdicts
        Of mechanisms or releases, in the order of the declaration.
    noun
        What one of them is about.
    where
        How to see the rest.
    """
    told = [f"{v.decision.upper()}: {v.mechanism}\n{v.sentence}" for v in verdicts]
    if len(verdicts) <= MOST_WHOLE:
        return "\n".join(told)
    worst = sorted(range(len(told)), key=lambda k: _FURTHEST.index(verdicts[k].decision))
    counts = decisions_words([v.decision for v in verdicts], noun)
    return "\n".join([counts, *_few((told[k] for k in worst), f"{noun}s", where)])


def mechanism_text(certificate: Certificate) -> str:
    """Return the whole certificate as text."""
    evidence, claim = certificate.evidence, certificate.claim
    lines = [
        f"{certificate.decision.value.upper()}: {certificate.mechanism}",
        certificate.sentence,
        "",
        "Required of a release:",
        *_few((f"  {line}" for line in required_of([evidence])), "requirements"),
        "",
        *_bound_lines(
            "lower bound",
            certificate.lower,
            # Printed digits err to the weak side as well: a lower bound down, an upper one up.
            shown=rounded(certificate.lower.value, 4, up=False, than=certificate.claim.target),
            certified=certificate.certifies_bounds,
        ),
    ]
    if certificate.upper is not None:
        lines += _bound_lines(
            "upper bound",
            certificate.upper,
            shown=rounded(certificate.upper.value, 4, up=True, than=certificate.claim.target),
            certified=certificate.certifies_bounds,
        )
        if certificate.certifies_bounds:
            joint = certificate.joint_coverage
            lines.append(
                f"Shown together, the two bounds hold with {confidence(1 - joint)} confidence."
                if joint > 0
                else "Nothing is claimed about the two bounds together."
            )
    if not certificate.certifies_bounds:
        lines.append(
            "Certified here: the familywise decision (Holm over "
            f"{certificate.n_mechanisms} mechanisms), not the bounds."
        )
    if certificate.count is not None:
        count = certificate.count
        lines.append(
            f"Of these {len(count.releases)} releases at least {count.at_least} are valid, with "
            f"{confidence(count.alpha)} confidence."
        )
    tests = dict.fromkeys(test.value for test in evidence.tests)
    unit = "cluster" if clusters_of(evidence.reading.design) else "target record"
    lines += [
        "",
        f"Evidence: {counted(evidence.n_releases, 'release')}, "
        f"{_sizes(evidence.n_records, unit)}, "
        f"{counted(evidence.n_requirements, 'requirement')}, test {', '.join(tests)}, "
        f"mode {claim.mode}, {_design_phrase(evidence)}.",
        *_few(_requirement_lines(certificate), "requirements"),
        "",
        "Not claimed: " + "; ".join(not_claimed(evidence.requirements)) + ".",
        _basis_line(certificate.basis, evidence.reading.seed, certificate.seed_given),
        *(f"Asserted: {words}." for words in claim.assertions()),
        *(f"Note: {note}." for note in certificate.notes),
    ]
    return "\n".join(lines)


def _basis_line(basis: str, seed: int, given: bool) -> str:
    if basis != ASSERTED:
        return f"Basis: {basis}."
    return f"Basis: {basis} ({seed_phrase(seed, given)})."


def seed_phrase(seed: int, given: bool) -> str:
    """Return the seed and who chose it."""
    return f"seed {seed}, {'given by the caller' if given else 'drawn afresh'}"


def _design_phrase(evidence: ReleaseEvidence) -> str:
    design = evidence.reading.design
    if isinstance(design, Weighted):
        return (
            "means per person represented, each record counting by its design weight of at most "
            f"{float(design.max_weight):g}"
        )
    clusters = clusters_of(design)
    if isinstance(design, WeightedClusters):
        return (
            "means per person represented, in clusters whose records weigh at most "
            f"{float(design.max_weight):g} together"
        )
    named = re.sub(r"Fraction\((\d+), (\d+)\)", r"\1/\2", repr(design))
    if isinstance(design, Stratified) and clusters is not None and tests_excess(design):
        return f"target declared as {named}, {shares_of(clusters)}"
    return f"target declared as {named}"


def _bound_lines(title: str, bound: ReliabilityBound, *, shown: str, certified: bool) -> list[str]:
    mark = "" if certified else " (not certified)"
    budget = " + ".join(f"{p.symbol} {float(p.amount):.4g}" for p in bound.budget.parts)
    # "at least" steps are bounds themselves: cut, not rounded.
    steps = ", ".join(
        f"{label} {floor(value * 1e6) / 1e6 if 'at least' in label else value:.6g}"
        for label, value in bound.steps
    )
    return [
        f"{title}{mark}: {shown}   [{bound.rests_on}; error {budget}]",
        f"  from {steps}",
    ]


def _requirement_lines(certificate: Certificate) -> Iterable[str]:
    evidence = certificate.evidence
    order = range(evidence.n_requirements)
    for j in order if len(order) <= MOST_PRINTED else sorted(order, key=partial(_room, evidence)):
        requirement = evidence.requirements[j]
        if evidence.n_records[j] == 0:
            yield f"  {requirement.name}: limit {requirement.limit:g}, no record counts"
            continue
        limit, estimates = requirement.limit, evidence.estimates[:, j]
        low = rounded(estimates.min(), 4, up=False, than=limit)
        high = rounded(estimates.max(), 4, up=True, than=limit)
        unit = requirement.unit
        yield (
            f"  {requirement.name}: limit {limit:g}{unit}, estimates {low} to {high}{unit}"
            f"{_missing_phrase(evidence, j)}"
        )


def _room(evidence: ReleaseEvidence, j: int, r: int | None = None) -> float:
    """Return how far below its limit a requirement stays in one release, or in all of them, as a
    share of its range."""
    requirement = evidence.requirements[j]
    if evidence.n_records[j] == 0:
        return -inf
    estimates = evidence.estimates[:, j]
    worst = float(estimates.max() if r is None else estimates[r])
    return (requirement.limit - worst) / (requirement.high - requirement.low)


def _least_room(evidence: ReleaseEvidence, r: int) -> float:
    return min(_room(evidence, j, r) for j in range(evidence.n_requirements))


# Theory section 1: other tests hold whatever made losses missing.
RECORD_BY_RECORD = "where whether a loss is missing depends on its own record alone"


def _missing_phrase(evidence: ReleaseEvidence, j: int) -> str:
    """Return how many losses were missing, and what they counted as, where any may be."""
    missing = evidence.columns[j].missing if evidence.columns else None
    if missing is None:
        return ""
    least, most = int(missing.min()), int(missing.max())
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return (
        f"; {number} losses of a release missing, each at its upper bound where validity is "
        "claimed, and in the estimates, and at its lower bound where a violation is"
        + (
            ""
            if evidence.tests[j].rises
            else f"; {evidence.tests[j].value} holds {RECORD_BY_RECORD}"
        )
    )


def _sizes(n_records: Sequence[int], unit: str) -> str:
    low, high = min(n_records), max(n_records)
    return counted(low, unit) if low == high else f"{low:,} to {counted(high, unit)}"


def family_text(family: FamilyCertificate) -> str:
    """Return the family's certificates one after the other, or of many a summary."""
    if len(family) <= MOST_WHOLE:
        return "\n\n".join(str(certificate) for certificate in family.values())
    where = f"{ALL_OF_THEM}; certificate[NAME] is one of them"
    return verdicts_text(list(family.values()), "mechanism", where)


def releases_sentence(certificate: ReleaseCertificate) -> str:
    """Return what holds of the validated releases, by their names where they are few."""
    validated = certificate.validated
    if not validated:
        return "No release was validated; by itself that is not evidence of a violation."
    names = f" ({', '.join(validated)})" if len(validated) <= MOST_NAMED else ""
    return (
        f"With {confidence(certificate.claim.alpha)} confidence, every validated release{names} "
        f"{_own_requirements(certificate)} on its registered target."
        f"{exposure_meaning(certificate.requirements)}"
    )


def releases_text(certificate: ReleaseCertificate) -> str:
    """Return the verdicts on named releases as text."""
    claim, verdicts = certificate.claim, list(certificate.verdicts)
    requirements = certificate.requirements
    lines = [
        decisions_words([v.decision for v in verdicts], "named release"),
        certificate.sentence,
        "",
        "Required of a release:",
        *_few((f"  {line}" for line in required_of(certificate.evidence.values())), "requirements"),
        "",
    ]
    rows = {
        f"{member}/{release}": (evidence, r)
        for member, evidence in certificate.evidence.items()
        for r, release in enumerate(evidence.releases)
    }
    if len(verdicts) > MOST_PRINTED:
        lines.append("The furthest from validated:")
        verdicts.sort(key=lambda v: (_FURTHEST.index(v.decision), _least_room(*rows[v.name])))
    lines += _few((_named_line(v, *rows[v.name]) for v in verdicts), "releases")
    if claim.beta is not None:
        lines.append(f"Violations are called with {confidence(claim.beta)} confidence, separately.")
    lines += [
        "",
        "[Theorem 4; Holm over the registered releases]",
        "Not claimed: anything about fresh releases of a mechanism; "
        + "; ".join(not_claimed(requirements))
        + ".",
        _basis_line(certificate.basis, certificate.seed, certificate.seed_given),
    ]
    return "\n".join(lines)


def _named_line(verdict: NamedVerdict, evidence: ReleaseEvidence, r: int) -> str:
    names = verdict.violated or (verdict.binding,)
    places = {requirement.name: j for j, requirement in enumerate(evidence.requirements)}
    said = ", ".join(_of_limit(evidence, r, places[name]) for name in names[:MOST_NAMED])
    said += f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    certain = f"adjusted p {verdict.adjusted:.3g}; least certain of"
    how = "violates" if verdict.violated else certain
    return f"  {verdict.name}: {verdict.decision.value} ({how} {said})"


def _of_limit(evidence: ReleaseEvidence, r: int, j: int) -> str:
    """Return a requirement with what was estimated of a release beside its limit."""
    requirement = evidence.requirements[j]
    if evidence.n_records[j] == 0:
        return f"{requirement.name!r}: no record counts"
    limit, unit = requirement.limit, requirement.unit
    estimate = rounded(float(evidence.estimates[r, j]), 4, up=True, than=limit)
    return f"{requirement.name!r}: {estimate}{unit}, limit {limit:g}{unit}"


def violated_words(violated: Sequence[str], requirements: Sequence[Requirement]) -> str:
    """Return what is violated as it was declared: of many cells how many, and the worst.

    Parameters
    ----------
    violated
        The names of violated requirements, the worst first.
    requirements
        All of them.
    """
    cells: dict[str, dict[str, None]] = {}
    declared = {}
    for r in requirements:
        name, _, cell = r.name.partition(" (target ")[0].partition(": ")
        # A name of one's own may have a colon; cells and attacks have the declared one before it.
        declared[r.name] = name if cell and r.form in (Form.QUERY, Form.EXPOSURE) else r.name
        cells.setdefault(declared[r.name], {})[cell] = None
    broken: dict[str, list[str]] = {}
    for name in violated:
        broken.setdefault(declared[name], []).append(name)
    told = []
    for name, names in broken.items():
        worst = names[0].partition(" (target ")[0].removeprefix(f"{name}: ")
        many = f"{name} ({len(names):,} of {len(cells[name]):,}; worst: {worst})"
        told.append(many if len(cells[name]) > 1 else names[0])
    return f"{', '.join(told[:-1])} and {told[-1]}" if told[1:] else told[0]


def release_sentence(
    verdict: NamedVerdict,
    requirements: Sequence[Requirement],
    *,
    alpha: Fraction | str,
    beta: Fraction | str | None,
) -> str:
    """Return the verdict on one named release in a sentence or two."""
    at_once = "confidence, for all named releases at once, this release"
    if verdict.decision is Decision.VALIDATED:
        sure = confidence(Fraction(alpha))
        return f"With {sure} {at_once} meets all its requirements on its registered target."
    if verdict.decision is Decision.VIOLATION:
        sure = confidence(Fraction(0 if beta is None else beta))
        return f"With {sure} {at_once} violates {violated_words(verdict.violated, requirements)}."
    return (
        "The audit does not settle whether this release meets its requirements; it is least "
        f"certain of {verdict.binding!r}. That is not evidence of a violation."
    )


CHOSEN_AFTER_OPENING = (
    "The design was chosen after the target was opened, so this has no confidence level of its own."
)


def corrective_sentence(decision: Decision, subject: str) -> str:
    """Return what a corrective certificate says of a ``mechanism`` or a named ``release``.

    It names no level: whoever chose the design knew what each choice would give.
    """
    would = {
        Decision.VALIDATED: f"would validate this {subject}",
        Decision.VIOLATION: f"would find a violation by this {subject}",
        Decision.UNRESOLVED: f"would leave this {subject} unresolved, which is not evidence of a "
        "violation",
    }[decision]
    return f"Under the corrected design the registered rule {would}. {CHOSEN_AFTER_OPENING}"


def sequential_sentence(audit: SequentialAudit) -> str:
    """Return the verdict of a sequential audit so far."""
    plan = audit.plan
    sure = f"With {confidence(plan.alpha)} confidence, at every look at once,"
    aim = plan.reliability_target
    target = percent(aim)
    if audit.decision is Decision.VALIDATED:
        # Crossing rejects eta <= level, so that eta lies above it; a limit may be eta itself.
        word = "more than" if plan.bound is Bound.SHARP else "at least"
        return (
            f"{sure} {word} {at_least(audit.reliability_lower, aim)} of future releases of this "
            "mechanism meet the requirements on the registered target."
        )
    if audit.finished:
        return (
            f"The audit ended after {audit.draws} draws without settling whether more than "
            f"{target} of future releases meet the requirements on the registered target. "
            "That is not evidence of a violation."
        )
    return (
        f"After {audit.draws} of at most {plan.looks[-1]} draws it is open whether more than "
        f"{target} of future releases meet the requirements on the registered target."
    )


def sequential_text(audit: SequentialAudit) -> str:
    """Return a sequential audit as text."""
    plan = audit.plan
    budget = " + ".join(f"{p.symbol} {float(p.amount):.4g}" for p in plan.budget.parts)
    shown = rounded(audit.reliability_lower, 4, up=False, than=plan.reliability_target)
    return "\n".join(
        [
            f"{audit.decision.value.upper()} after {audit.draws} draws",
            audit.sentence,
            f"lower bound: {shown}   [{audit.rests_on}; error {budget}]",
            f"  from favorable scores {audit.favorable}, draws {audit.draws}, kappa "
            f"{plan.kappa:g}, {len(plan.looks)} registered looks up to {plan.looks[-1]} draws",
            f"Basis: {ASSERTED}.",
        ]
    )


def stream_text(stream: CandidateStream) -> str:
    """Return a candidate stream as text, one line a round."""
    lines = [
        f"With {confidence(stream.alpha)} confidence, every candidate validated in this stream "
        f"{requirements_phrase(stream.requirements, plural=False)} on the registered target, "
        "however long the search goes on.",
    ]
    lines += ["Required of a candidate:", *(f"  {line}" for line in required(stream.requirements))]
    lines += [
        f"  round {r.number}: {r.decision.value} (p {r.pvalue:.3g}, level {r.level:.3g})"
        for r in stream.rounds
    ]
    lines += [
        "[Proposition 19; a fresh batch of target records each round]",
        "Not claimed: " + "; ".join(not_claimed(stream.requirements)) + ".",
        f"Basis: {ASSERTED} (seed {stream.seed}).",
    ]
    return "\n".join(lines)


def _own_requirements(certificate: ReleaseCertificate) -> str:
    sets = {evidence.requirements for evidence in certificate.evidence.values()}
    if len(sets) == 1:
        return requirements_phrase(next(iter(sets)), plural=False)
    relative = [
        name
        for name, evidence in certificate.evidence.items()
        if all(r.form is Form.RELATIVE for r in evidence.requirements)
    ]
    only = f" (relative transfer only: {', '.join(relative)})" if relative else ""
    return f"meets all its own requirements{only}"
