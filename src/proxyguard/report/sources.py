"""What a report is built from: the documents of a sealed audit, or a certificate in memory.

Both give the same type. What a certificate in memory does not have, a ledger, a registry, draws
on record, is nothing here, and its page says nothing of it.

The parts that a report is made of, and how its numbers are written.

Every number behind a report as rows: one a mechanism, release and requirement.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatch
from math import ceil, floor, isfinite

from proxyguard.certificate import wording
from proxyguard.certificate.mechanism import Certificate, FamilyCertificate
from proxyguard.certificate.releases import ReleaseCertificate
from proxyguard.certificate.wording import at_least, at_most, percent
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
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.ledger import LedgerBody
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.evidence.record import evidence_record
from proxyguard.seal.ledger import Entry

IN_MEMORY = ClaimStatusRecord(
    evidence="losses given by the caller",
    lineage="not known here",
    registered="no",
    guarantee="as far as what the caller asserts is so",
)
"""What there is to say of a claim that nothing was registered or sealed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The error levels that a claim spends, exactly."""

    alpha: Fraction
    beta: Fraction | None
    pooled: bool = False  # whether all mechanisms spend the releases' part of beta together


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A certificate with its evidence, and of a sealed audit the record around it."""

    name: str
    purpose: str
    attestation: str
    status: ClaimStatusRecord
    verdicts: tuple[VerdictRecord, ...]
    not_claimed: tuple[str, ...]
    groups: Mapping[str, GroupEvidence]
    levels: Levels
    family: ReleaseFamily | None = None
    predicate: Predicate | None = None
    registry: Registry | None = None
    manifest: ReleaseManifest | None = None  # none where draws follow the opening
    ledger: Sequence[Entry[LedgerBody]] = ()
    signer: str = ""
    subjects: Mapping[str, str] = field(default_factory=dict)
    head: str = ""  # digest of the ledger's last entry
    advice: Sequence[ReportAdvice] = ()

    @property
    def picks(self) -> PicksRecord | None:
        """The e-values for choosing releases after looking, if a budget was registered."""
        return None if self.predicate is None else self.predicate.picks

    @property
    def failed(self) -> Mapping[str, tuple[Failure, ...]]:
        """The draws that gave no release, by mechanism."""
        return {} if self.predicate is None else self.predicate.failed

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
            for member in self.registry.members.values()
            for resolved in member.requirements
        ]

    def in_order(self, names: Sequence[str] | Mapping[str, object]) -> list[str]:
        """Return names in the order of the verdicts; JSON sorts them, people do not."""
        order = [verdict.mechanism for verdict in self.verdicts]
        return sorted(names, key=lambda name: (order.index(name) if name in order else -1, name))

    def verdict(self, mechanism: str) -> VerdictRecord | None:
        """Return the verdict on a mechanism, if there is one on all of it."""
        return next((one for one in self.verdicts if one.mechanism == mechanism), None)

    def rules(self, group: str) -> dict[str, str]:
        """Return the rule that each limit of a group came from, by declared requirement."""
        if self.registry is None:
            return dict.fromkeys(self.groups[group].requirements, "as given")
        members = self.registry.members
        member = members[group] if group in members else next(iter(members.values()))
        return {resolved.part.name: resolved.limit.rule for resolved in member.requirements}


@singledispatch
def sources_of(value: object) -> Sources:
    """Return what a page of a certificate in memory is built from."""
    raise TypeError(f"{type(value).__name__} has no page of its own")


@sources_of.register
def _(value: Certificate) -> Sources:
    return _mechanisms({value.mechanism: value})


@sources_of.register
def _(value: FamilyCertificate) -> Sources:
    return _mechanisms(value)


@sources_of.register
def _(value: ReleaseCertificate) -> Sources:
    claim = value.claim
    family = value.to_dict()
    del family["verdicts"]
    verdicts = tuple(
        ReleaseVerdict.model_validate(
            {
                **(said := verdict.to_dict()),
                "mechanism": verdict.name,
                "sentence": wording.release_sentence(said, alpha=claim.alpha, beta=claim.beta),
            },
            strict=False,
        )
        for verdict in value.verdicts
    )
    return Sources(
        name="Named releases",
        purpose=_PURPOSE,
        attestation=wording.ASSERTED,
        status=IN_MEMORY,
        verdicts=verdicts,
        not_claimed=wording.not_claimed(value.requirements),
        groups={name: evidence_record(evidence) for name, evidence in value.evidence.items()},
        levels=Levels(alpha=claim.alpha, beta=claim.beta),
        family=ReleaseFamily.model_validate(family, strict=False),
    )


_PURPOSE = "Certified from losses in memory."


def _mechanisms(family: Mapping[str, Certificate]) -> Sources:
    first = next(iter(family.values()))
    return Sources(
        name=first.mechanism if len(family) == 1 else "Family of mechanisms",
        purpose=_PURPOSE,
        attestation=wording.ASSERTED,
        status=IN_MEMORY,
        verdicts=tuple(
            # Release p-values, adjusted for reading, are written beside a sealed verdict alone.
            MechanismVerdict.model_validate(
                {**certificate.to_dict(), "adjusted_release_pvalues": {}}, strict=False
            )
            for certificate in family.values()
        ),
        not_claimed=wording.not_claimed(first.evidence.requirements),
        groups={name: evidence_record(one.evidence) for name, one in family.items()},
        levels=Levels(
            alpha=first.claim.alpha,
            beta=first.claim.beta,
            pooled=bool(first.claim.choices().get("pooled_violations")),
        ),
    )


SECTIONS = (
    "evidence", "picks", "not certified", "draws", "plan", "sequential", "privacy", "provenance",
)  # fmt: skip
"""Where a table belongs, in the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    section: str = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step on the way from a count to a bound: how far it goes, and where it ends."""

    label: str
    change: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """How a bound is built: the first step is what was counted, the last ends at the bound."""

    side: str  # "lower" or "upper"
    certified: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One decision with its sentence, and the numbers that a reader asks for first."""

    name: str
    decision: str
    sentence: str
    lines: tuple[str, ...]
    target: float | None = None
    lower: float | None = None
    upper: float | None = None
    certified: bool = True  # whether the bounds are certified, or only the decision
    binding: str = ""  # the requirement that most releases are held up by
    warning: str = ""  # what a reader must know before the sentence: no guarantee remains
    together: str = ""  # how sure both ends of the interval are, each and together
    waterfalls: tuple[Waterfall, ...] = ()


def cut(value: float | str, *, up: bool) -> str:
    """Return a number with four decimals, rounded so that it claims no more."""
    number = float(value)
    if not isfinite(number):
        return str(value)
    return f"{(ceil if up else floor)(number * 10_000) / 10_000:.4f}"


def amount(text: str | Fraction) -> str:
    """Return a budget's amount as a decimal where it is one, else as a fraction beside it.

    >>> amount("1/40"), amount("1/60")
    ('0.025', '1/60 = 0.016667')
    """
    value = Fraction(text)
    decimal = f"{float(value):.6g}"
    return decimal if Fraction(decimal) == value else f"{value} = {float(value):.5g}"


def range_words(lower: float, upper: float, *, decision: str, target: float) -> str:
    """Return the interval in words, each end rounded so that it claims less.

    A decision is about more, or less, than the target: an end that lies on it says so.
    """
    least, most = f"at least {at_least(lower)}", f"at most {at_most(upper)}"
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
    return f"between {at_least(lower)} and {at_most(upper)}"


Cell = str | float | None
COLUMNS = (
    "mechanism", "release", "requirement", "records", "limit", "estimate", "lower", "upper",
    "pvalue", "violation_pvalue", "test", "release_pvalue", "score", "evalue",
)  # fmt: skip


def to_csv(sources: Sources) -> bytes:
    """Return the rows as CSV (RFC 4180, UTF-8); a cell cannot start a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in evidence_rows(sources):
        writer.writerow([_cell(cell) for cell in row])
    return text.getvalue().encode()


def evidence_rows(sources: Sources) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of `COLUMNS` in the order of the verdicts, releases and requirements."""
    picks = {} if sources.picks is None else sources.picks.mechanisms
    for name in sources.group_names:
        group = sources.groups[name]
        derived = group.derived
        whole = [max(float(pvalue) for pvalue in row) for row in derived.pvalues]
        scores = _scores(name, whole, sources)
        for r, release in enumerate(group.releases):
            for j, requirement in enumerate(group.requirements):
                yield (
                    name,
                    release,
                    requirement,
                    group.columns[j].n if group.columns else None,
                    float(group.limits[j]),
                    derived.estimates[r][j],
                    derived.lower[r][j],
                    derived.upper[r][j],
                    derived.pvalues[r][j],
                    derived.violation_pvalues[r][j],
                    group.tests[j],
                    whole[r],
                    scores[r],
                    _evalue(picks.get(name), r),
                )


def _evalue(picks: PickGroup | None, r: int) -> str | None:
    """Return the recorded e-value of a release, exactly: a whole number, or a fraction."""
    if picks is None:
        return None
    denominator = picks.unit.partition("/")[2]
    return picks.evalues[r] if denominator == "1" else f"{picks.evalues[r]}/{denominator}"


def _scores(name: str, pvalues: list[float], sources: Sources) -> list[int | None]:
    """Return which releases scored favorably, where that is a statement about each of them.

    A score by p-value takes the releases with the smallest p-values, and so does Holm; how
    many they are is recorded.
    """
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


def _cell(cell: Cell) -> Cell:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{cell}"  # a spreadsheet would run it
    return cell
