"""What a report is built from, how its numbers are written, and its rows as CSV.

The sources of a report are the documents of a sealed audit, or a certificate in memory. Both are
one type: what a certificate in memory does not have, a ledger, a registry, draws on record, is
nothing here, and its page says nothing of it. Numbers are rounded to the side on which they claim
less. `report.csv` has the numbers behind the page, one row a mechanism, release and requirement.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from fractions import Fraction
from functools import singledispatch
from math import isfinite, nan
from typing import NamedTuple

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate, ReadingLevels
from proxyguard.certificate.releases import ReleaseCertificate
from proxyguard.certificate.wording import at_least, at_most, percent, rounded
from proxyguard.documents.certificate import (
    ClaimStatusRecord,
    Failure,
    MechanismVerdict,
    PickGroup,
    PicksRecord,
    Predicate,
    ReleaseFamily,
    ReleaseVerdict,
    ReportAdvice,
    ReportTable,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import ColumnRecord, GroupEvidence
from proxyguard.documents.ledger import LedgerBody
from proxyguard.documents.registry import RegisteredMember, Registry, ResolvedRequirement
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.evidence.record import evidence_record
from proxyguard.evidence.releases import Limits, ReleaseEvidence
from proxyguard.losses.measure import SIDES
from proxyguard.losses.query import BoundedQuery
from proxyguard.registry.declaration import Candidate, Declaration
from proxyguard.registry.parts import RequirementPart
from proxyguard.seal.ledger import Entry

# What there is to say of a claim that nothing was registered or sealed for.
IN_MEMORY = ClaimStatusRecord(
    evidence="losses given by the caller", lineage="not known here", registered="no",
    guarantee="as far as what the caller asserts is so",
)  # fmt: skip
PURPOSE_IN_MEMORY = "Certified from losses in memory."

# The entries of a ledger, in order.
Entries = Sequence[Entry[LedgerBody]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentLevels:
    """The error levels that a claim spends, exactly."""

    alpha: Fraction
    beta: Fraction | None
    pooled: bool = False  # whether all mechanisms spend the releases' part of beta together


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A certificate with its evidence, and of a sealed audit the record around it.

    Attributes
    ----------
    name, purpose, attestation, status, verdicts, not_claimed
        What the certificate says.
    required
        What was required of a release, a sentence for each requirement.
    groups
        The evidence by the name under which releases were read together.
    levels
        The error levels that the claim spends.
    told
        Of each group, the tests that told its releases apart, turned around.
    family
        Of named releases: what all verdicts have in common.
    predicate, registry, ledger, signer, subjects, head
        Of a sealed audit: what was signed and registered, every entry of the ledger, who signed,
        the digests that the certificate is about, and the digest of the last entry.
    manifest
        The frozen draws; none where draws follow the opening.
    advice
        What would settle each unresolved verdict.
    """

    name: str
    purpose: str
    attestation: str
    status: ClaimStatusRecord
    verdicts: tuple[VerdictRecord, ...]
    required: tuple[str, ...]
    not_claimed: tuple[str, ...]
    groups: Mapping[str, GroupEvidence]
    levels: SpentLevels
    told: Mapping[str, Limits]
    family: ReleaseFamily | None = None
    predicate: Predicate | None = None
    registry: Registry | None = None
    manifest: ReleaseManifest | None = None
    ledger: Entries = ()
    signer: str = ""
    subjects: Mapping[str, str] = field(default_factory=dict)
    head: str = ""
    advice: Sequence[ReportAdvice] = ()

    @property
    def picks(self) -> PicksRecord | None:
        """The e-values for choosing releases after looking, if a budget was registered."""
        return None if self.predicate is None else self.predicate.picks

    @property
    def members(self) -> Mapping[str, RegisteredMember]:
        """The registered sources and targets by name; none of a certificate in memory."""
        return {} if self.registry is None else self.registry.members

    @property
    def declared(self) -> Sequence[Declaration | Candidate]:
        """What declares their targets and mechanisms: the declaration, or each candidate of it."""
        if self.registry is None:
            return ()
        return self.registry.declaration.candidate or (self.registry.declaration,)

    @property
    def failed(self) -> Mapping[str, tuple[Failure, ...]]:
        """The draws that gave no release, by mechanism."""
        return {} if self.predicate is None else self.predicate.failed

    @property
    def bodies(self) -> list[LedgerBody]:
        """What the entries of the ledger say."""
        return [entry.body for entry in self.ledger]

    @property
    def group_names(self) -> list[str]:
        """Under which names releases were read together, in the order of the verdicts."""
        return self.in_order(self.groups)

    @property
    def limits(self) -> list[tuple[str, str]]:
        """Every requirement with its limit, as registered or as given."""
        if self.registry is None:
            return [
                pair
                for group in self.groups.values()
                for pair in zip(group.requirements, group.limits, strict=True)
            ]
        return [
            (resolved.part.name, resolved.limit.value)
            for member in self.members.values()
            for resolved in member.requirements
        ]

    @property
    def exposures(self) -> dict[str, RequirementPart]:
        """The declared requirements about exposure, by name."""
        return {
            resolved.part.name: resolved.part
            for member in self.members.values()
            for resolved in member.requirements
            if resolved.part.exposure is not None
        }

    def in_order(self, names: Sequence[str] | Mapping[str, object]) -> list[str]:
        """Return names in the order of the verdicts; JSON sorts them, people do not."""
        order = [verdict.mechanism for verdict in self.verdicts]
        return sorted(names, key=lambda name: (order.index(name) if name in order else -1, name))

    def verdict(self, mechanism: str) -> VerdictRecord | None:
        """Return the verdict on a mechanism, if there is one on all of it."""
        return next((v for v in self.verdicts if v.mechanism == mechanism), None)

    def rules(self, group: str) -> dict[str, str]:
        """Return the rule that each limit of a group came from, by declared requirement."""
        if self.registry is None:
            return dict.fromkeys(self.groups[group].requirements, "as given")
        return {resolved.part.name: _rule_words(resolved) for resolved in self.resolved(group)}

    def units(self, group: str) -> list[str]:
        """Return what stands behind the numbers of each requirement, " kg"; nothing behind most."""
        named = {
            resolved.part.name: f" {resolved.part.own_unit}"
            # What a ratio is tested by is a share, whatever the ratio is in.
            for resolved in self.resolved(group)
            if resolved.part.own_unit and not resolved.part.is_ratio
        }
        return [by_declared(named, name) for name in self.groups[group].requirements]

    def counted(self, group: str) -> str:
        """Return what a test counts of the targets of a group: records, or whole clusters."""
        if self.registry is None:
            return "records"
        declared = self.registry.declaration
        target = {c.name: c.target for c in declared.candidate}.get(group, declared.target)
        return "records" if target is None or target.clusters is None else "clusters"

    def resolved(self, group: str) -> tuple[ResolvedRequirement, ...]:
        """Return the registered requirements of a group; none of a certificate in memory."""
        # Groups are mechanisms, or of named releases members; one member has all mechanisms.
        member = self.members.get(group) or next(iter(self.members.values()), None)
        return () if member is None else member.requirements


def by_declared(named: Mapping[str, str], requirement: str) -> str:
    """Return what stands under a requirement, or under the declared one that it belongs to."""
    # One on several targets or groups is registered under the name before these.
    declared = requirement.split(" (target ")[0].split(":")[0]
    return named.get(requirement) or named.get(declared, "")


def _rule_words(resolved: ResolvedRequirement) -> str:
    """Return where a limit came from; that of a ratio is in what is tested, whose limit is 0."""
    if resolved.part.is_ratio:
        apart = resolved.limit.value
        return (
            f"within {apart} of the release's ratio c, tested as the mean of a - (c + {apart}) b, "
            f"or of (c - {apart}) b - a, below 0, as a share of its largest"
        )
    ramp = "" if resolved.ramp is None else f"; ramp: {resolved.ramp.rule}"
    return f"{resolved.limit.rule}{ramp}"


@singledispatch
def sources_of(certificate: object) -> Sources:
    """Return what a page of a certificate in memory is built from.

    Parameters
    ----------
    certificate
        A `Certificate`, a `FamilyCertificate` or a `ReleaseCertificate`.

    Raises
    ------
    TypeError
        Where it is none of these.
    """
    raise TypeError(f"{type(certificate).__name__} has no page of its own")


@sources_of.register
def _(certificate: Certificate) -> Sources:
    return _of_mechanisms({certificate.mechanism: certificate})


@sources_of.register
def _(certificate: FamilyCertificate) -> Sources:
    return _of_mechanisms(certificate)


@sources_of.register
def _(certificate: ReleaseCertificate) -> Sources:
    return _in_memory(
        "Named releases", release_verdicts(certificate), certificate.evidence,
        SpentLevels(alpha=certificate.claim.alpha, beta=certificate.claim.beta),
        dict.fromkeys(certificate.evidence, certificate.levels), release_family(certificate),
    )  # fmt: skip


def mechanism_verdict(certificate: Certificate, adjusted: Mapping[str, float]) -> MechanismVerdict:
    """Return the verdict on a mechanism as a document, with the releases' adjusted p-values."""
    said = {**certificate.to_dict(), "adjusted_release_pvalues": adjusted}
    return MechanismVerdict.model_validate(said, strict=False)


def release_verdicts(certificate: ReleaseCertificate) -> tuple[ReleaseVerdict, ...]:
    """Return the verdicts on named releases as documents, each with its sentence."""
    verdicts = []
    for verdict in certificate.verdicts:
        claim = certificate.claim
        asked = certificate.evidence[verdict.member].requirements
        sentence = wording.release_sentence(verdict, asked, alpha=claim.alpha, beta=claim.beta)
        sentence += wording.exposure_meaning(asked)
        known = {**verdict.to_dict(), "mechanism": verdict.name, "sentence": sentence}
        verdicts.append(ReleaseVerdict.model_validate(known, strict=False))
    return tuple(verdicts)


def release_family(certificate: ReleaseCertificate) -> ReleaseFamily:
    """Return what all verdicts on named releases have in common, as a document."""
    said = certificate.to_dict()
    common = {name: said[name] for name in ReleaseFamily.model_fields}
    return ReleaseFamily.model_validate(common, strict=False)


def _of_mechanisms(family: Mapping[str, Certificate]) -> Sources:
    first = next(iter(family.values()))
    pooled = bool(first.claim.choices().get("pooled_violations"))
    return _in_memory(
        first.mechanism if len(family) == 1 else "Family of mechanisms",
        [
            # Release p-values, adjusted for reading, are written beside a sealed verdict alone.
            mechanism_verdict(certificate, {})
            for certificate in family.values()
        ],
        {name: certificate.evidence for name, certificate in family.items()},
        SpentLevels(alpha=first.claim.alpha, beta=first.claim.beta, pooled=pooled),
        {name: certificate.levels for name, certificate in family.items()},
    )


def _in_memory(
    name: str,
    verdicts: Sequence[VerdictRecord],
    evidence: Mapping[str, ReleaseEvidence],
    levels: SpentLevels,
    told_at: Mapping[str, ReadingLevels],
    family: ReleaseFamily | None = None,
) -> Sources:
    return Sources(
        name=name,
        purpose=PURPOSE_IN_MEMORY,
        attestation=wording.ASSERTED,
        status=IN_MEMORY,
        verdicts=tuple(verdicts),
        required=wording.required_of(evidence.values()),
        not_claimed=wording.not_claimed(
            [r for read in evidence.values() for r in read.requirements]
        ),
        groups={group: evidence_record(read) for group, read in evidence.items()},
        levels=levels,
        told={name: read.limits(*told_at[name]) for name, read in evidence.items()},
        family=family,
    )


# Sections of a page that tables belong to, in the order of the page.
SECTIONS = (
    "evidence", "exposure", "picks", "not certified", "draws", "plan", "sequential", "privacy",
    "provenance",
)  # fmt: skip

TableRows = Sequence[tuple[str, ...]]


def table(
    title: str, columns: Sequence[str], rows: TableRows, note: str = "", section: str = "evidence"
) -> ReportTable:
    """Return rows under a heading, for one section of the page.

    Parameters
    ----------
    title
        Its heading.
    columns
        The heads of its columns.
    rows
        One cell for each column.
    note
        A note below it.
    section
        Where on the page it belongs; one of `SECTIONS`.
    """
    return ReportTable(
        title=title, columns=tuple(columns), rows=tuple(rows), note=note, section=section
    )


def cut(number: float | str, *, up: bool, than: float | None = None) -> str:
    """Return a number with four decimals, or as many as tell it apart, so that it claims no more.

    >>> cut(0.91239, up=False), cut("0.91231", up=True), cut("inf", up=True)
    ('0.9123', '0.9124', 'inf')
    >>> cut(0.29996, up=True, than=0.3)
    '0.29996'
    """
    exact = float(number)
    return rounded(exact, 4, up=up, than=than) if isfinite(exact) else str(number)


def amount(share: str | Fraction) -> str:
    """Return a budget's amount as a decimal where it is one, else as a fraction beside it.

    >>> amount("1/40"), amount("1/60")
    ('0.025', '1/60 = 0.016667')
    """
    exact = Fraction(share)
    decimal = f"{float(exact):.6g}"
    return decimal if Fraction(decimal) == exact else f"{exact} = {float(exact):.5g}"


def range_words(lower: float, upper: float, *, decision: str, target: float) -> str:
    """Return the interval in words, each end rounded so that it claims less.

    A decision is about more, or less, than the target: an end that lies on it says so.

    >>> range_words(0.85, 1.0, decision="validated", target=0.8)
    'at least 85.0 %'
    >>> range_words(0.3, 0.4, decision="violation", target=0.8)
    'between 30.0 % and 40.0 %'
    """
    least, most = f"at least {at_least(lower, target)}", f"at most {at_most(upper, target)}"
    if lower > upper:
        return f"contradictory: {least}, {most}"
    if lower <= 0.0 and upper >= 1.0:
        return "between 0 % and 100 %"
    if upper >= 1.0:
        strict = decision == "validated" and lower <= target
        return f"more than {percent(target)}" if strict else least
    if lower <= 0.0:
        strict = decision == "violation" and upper >= target
        return f"less than {percent(target)}" if strict else most
    return f"between {at_least(lower, target)} and {at_most(upper, target)}"


def rounding_digits(sources: Sources) -> int | None:
    """Return the digits that statistics are rounded to; None where no disclosure is registered."""
    disclosure = None if sources.predicate is None else sources.predicate.disclosure
    return None if disclosure is None else disclosure.digits


class ReleaseAnswer(NamedTuple):
    """What a release answers to a query, and how far above that the target's answer is estimated;
    nothing of a release that does not answer, or where the evidence does not tell."""

    release: float | None
    apart: float | None


class QueryAnswers(NamedTuple):
    """What releases and the target answer to one query, in the query's own unit."""

    query: str
    share: bool
    unit: str  # behind an answer, such as " years"
    limit: float
    answers: tuple[ReleaseAnswer, ...]  # of the releases
    target: float | None
    places: tuple[int, int]  # of its two requirements among those of the group


def answers_of(sources: Sources, name: str) -> list[QueryAnswers]:
    """Return the answers to every query of a group, as far as its evidence tells them.

    A release's answer stands beside the statistics, or in the ends of its losses, and the target's
    is that and the difference: all of it can be read from `evidence.json`.

    Parameters
    ----------
    sources
        What the report is built from; a certificate in memory knows no queries.
    name
        The mechanism, or the group of named releases.
    """
    group, told = sources.groups[name], []
    places = {requirement: j for j, requirement in enumerate(group.requirements)}
    for resolved in sources.resolved(name) if group.columns else ():
        limit, unit = float(resolved.limit.value), f" {resolved.part.own_unit}".rstrip()
        for recorded in resolved.queries:
            above, below = (places.get(f"{recorded.name}{side}") for side in SIDES)
            if above is None or below is None:
                continue  # of another group
            query = BoundedQuery.of(recorded, {})
            answers = [
                _answer(query, group.columns[above], r, (row[above], row[below]), limit)
                for r, row in enumerate(group.derived.estimates)
            ]
            if query.per is not None and rounding_digits(sources) is not None:
                # Of two rounded excesses the ratio would be far less certain than either.
                answers = [ReleaseAnswer(answer.release, None) for answer in answers]
            target = next((c + d for c, d in answers if c is not None and d is not None), None)
            share, places_of = bool(query.cell), (above, below)
            told.append(
                QueryAnswers(query.name, share, unit, limit, tuple(answers), target, places_of)
            )
    return told


def _answer(
    query: BoundedQuery, column: ColumnRecord, r: int, estimates: Sequence[float | str],
    limit: float,
) -> ReleaseAnswer:  # fmt: skip
    above, below = (float(estimate) for estimate in estimates)
    width = 1.0 if query.per is not None else query.high - query.low
    # One of them is below 0 where a release answers: without an answer both are the worst.
    if min(above, below) >= width or (column.answer is None and column.ends is None):
        return ReleaseAnswer(None, None)
    answer = None if column.answer is None else float(column.answer[r])
    if column.ends is not None:
        low, high = (width * (2.0 * float(end[r]) - 1.0) for end in column.ends)
        answer = query.answer_of(low, high, limit)
    if answer is None or query.per is None:
        # Rounded, the two are further apart than the answers: the larger one is that of the test.
        return ReleaseAnswer(answer, above if above >= below else -below)
    over, under = query.parts_of(answer, (above, below), limit)
    return ReleaseAnswer(answer, over / under - answer if under > 0.0 else None)


CsvCell = str | float | None
# As frames of certificates have them, and what is said of a release in all of its rows.
COLUMNS = (
    "mechanism", "release", "requirement", "n", "estimate", "lower", "upper", "limit", "pvalue",
    "violation_pvalue", "test", "release_pvalue", "adjusted_pvalue", "score", "evalue", "decision",
    "release_answer", "target_answer",
)  # fmt: skip
# Significant digits of what is written for reading: beyond them machines differ.
WRITTEN_DIGITS = 9


def to_csv(sources: Sources) -> bytes:
    """Return the rows as CSV (RFC 4180, UTF-8); a cell cannot start a formula.

    Parameters
    ----------
    sources
        What the report is built from; the rows are those of the evidence.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in evidence_rows(sources):
        writer.writerow([_harmless(cell) for cell in row])
    return text.getvalue().encode()


def evidence_rows(sources: Sources) -> Iterator[tuple[CsvCell, ...]]:
    """Yield the rows of `COLUMNS` in the order of the verdicts, releases and requirements.

    A cell that has nothing to say is None: records of a collective claim, a limit that no test
    says, a score that is no statement about single releases, an e-value without a budget for picks.
    Numbers have few digits; evidence.json has all of them.
    """
    picks = {} if sources.picks is None else sources.picks.mechanisms
    adjusted = _adjusted(sources)
    decided = {verdict.mechanism: str(verdict.decision) for verdict in sources.verdicts}
    for name in sources.group_names:
        group, told = sources.groups[name], sources.told[name]
        derived = group.derived
        whole = [max(float(pvalue) for pvalue in row) for row in derived.pvalues]
        scores = scores_of(name, sources)
        asked = {j: answers for answers in answers_of(sources, name) for j in answers.places}
        for r, release in enumerate(group.releases):
            about = (
                few_digits(whole[r], up=True), adjusted.get((name, release)), scores[r],
                _evalue(picks.get(name), r),
                decided.get(name) or decided.get(release) or decided.get(f"{name}/{release}"),
            )  # fmt: skip
            for j, requirement in enumerate(group.requirements):
                limit = float(group.limits[j])
                yield (
                    name, release, requirement, group.columns[j].n if group.columns else None,
                    few_digits(derived.estimates[r][j], than=limit),
                    few_digits(told.lower[r, j], up=False, than=limit),
                    few_digits(told.upper[r, j], up=True, than=limit), limit,
                    few_digits(derived.pvalues[r][j], up=True),
                    few_digits(derived.violation_pvalues[r][j], up=True), group.tests[j], *about,
                    few_digits(asked[j].answers[r].release if j in asked else None),
                    few_digits(asked[j].target if j in asked else None),
                )  # fmt: skip


def few_digits(
    number: float | str | None, *, up: bool | None = None, than: float | None = None
) -> float | None:
    """Return a number with the digits that are written; None of what is none.

    What lies on one side of ``than``, or on it, stays there, if need be with all digits.

    >>> few_digits(-0.08399999999999996), few_digits(1.23456789012e-7, up=True)
    (-0.084, 1.2345679e-07)
    >>> few_digits(0.3, than=0.1 + 0.2), few_digits(0.1 + 0.2, than=0.3)
    (0.3, 0.30000000000000004)
    """
    exact = nan if number is None else float(number)
    if not isfinite(exact):
        return None
    rounding = {None: ROUND_HALF_EVEN, True: ROUND_CEILING, False: ROUND_FLOOR}[up]
    # The decimal that a reader would see is rounded: 0.05 stays what it is.
    short = float(Context(prec=WRITTEN_DIGITS, rounding=rounding).create_decimal(repr(exact)))
    if than is None or (exact < than, exact > than) == (short < than, short > than):
        return short
    return exact


def _adjusted(sources: Sources) -> dict[tuple[str, str], float | None]:
    """Return Holm's p-values over all releases, by group and release, where they are recorded."""
    adjusted: dict[tuple[str, str], float] = {}
    for verdict in sources.verdicts:
        if isinstance(verdict, ReleaseVerdict):
            adjusted[verdict.member, verdict.release] = verdict.adjusted
        elif isinstance(verdict, MechanismVerdict):
            pairs = verdict.adjusted_release_pvalues.items()
            adjusted |= {(verdict.mechanism, release): pvalue for release, pvalue in pairs}
    return {of: few_digits(pvalue, up=True) for of, pvalue in adjusted.items()}


def _evalue(picks: PickGroup | None, r: int) -> str | None:
    """Return the recorded e-value of a release, exactly: a whole number, or a fraction."""
    if picks is None:
        return None
    # The unit is one over this: e-values are recorded as whole numbers of it.
    denominator = picks.unit.partition("/")[2]
    return picks.evalues[r] if denominator == "1" else f"{picks.evalues[r]}/{denominator}"


def scores_of(name: str, sources: Sources) -> list[int | None]:
    """Return which releases of a group scored favorably: 1 or 0, None where that is no statement.

    A score by p-value takes the releases with the smallest p-values, and so does Holm; how
    many they are is recorded.
    """
    group = sources.groups[name]
    pvalues = [max(float(pvalue) for pvalue in row) for row in group.derived.pvalues]
    verdict = sources.verdict(name)
    count: float | None = None
    if isinstance(verdict, SequentialVerdict):
        count = verdict.favorable
    elif isinstance(verdict, MechanismVerdict):
        labels = ("favorable scores (release p-value", "recognized releases (Holm)")
        count = next((s.value for s in verdict.lower.steps if s.label.startswith(labels)), None)
    if count is None:
        return [None] * len(pvalues)
    order = sorted(range(len(pvalues)), key=lambda r: (pvalues[r], r))
    favorable = set(order[: int(count)])
    return [int(r in favorable) for r in range(len(pvalues))]


def _harmless(cell: CsvCell) -> CsvCell:
    """Return what is written for a cell: a name that a spreadsheet would run stays a name."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{cell}"
    return cell
