"""Several audits side by side, without an invitation to pick the best of them.

Every certificate holds by itself. Which of them a reader looks at, and which he then takes,
no error budget has paid for; the page says so first, keeps the order in which the audits
were given, and ranks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import MechanismVerdict, SequentialVerdict, VerdictRecord
from proxyguard.errors import RegistryError
from proxyguard.report.content import Report
from proxyguard.report.record import lost_guarantee
from proxyguard.report.sources import Sources, Table, Verdict, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One audit of a comparison."""

    place: str  # the name of its folder, without the way there
    report: Report
    sources: Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a comparison page says."""

    title: str
    warning: tuple[str, ...]
    verdicts: tuple[tuple[str, Verdict], ...]  # audit and verdict, in the given order
    tables: tuple[Table, ...]
    check: Table

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return asdict(self)


def compare(audits: Sequence[Compared]) -> Comparison:
    """Return the comparison of several certified audits, in the order given."""
    if len(audits) < 2:
        raise RegistryError(f"a comparison needs at least two audits, got {len(audits)}")
    _refuse_repeats(audits)
    labels = _labels(audits)
    return Comparison(
        title=f"{len(audits)} audits side by side",
        warning=tuple(_warning(audits, labels)),
        verdicts=tuple(
            (label, verdict)
            for label, one in zip(labels, audits, strict=True)
            for verdict in one.report.verdicts
        ),
        tables=(
            _verdict_table(audits, labels),
            _requirement_table(audits, labels),
            _status_table(audits, labels),
        ),
        check=_check_table(audits, labels),
    )


def _refuse_repeats(audits: Sequence[Compared]) -> None:
    """Raise where one audit stands twice, which would count its error twice."""
    seen: dict[str, str] = {}
    for one in audits:
        registry = one.sources.subjects.get("registry", "")
        if registry and registry in seen:
            raise RegistryError(
                f"{seen[registry]!r} and {one.place!r} are one audit, of registry "
                f"{registry[:16]}...; name every audit once"
            )
        seen[registry] = one.place


def _labels(audits: Sequence[Compared]) -> list[str]:
    """Return a name for each audit; where two are alike, with their folders, then registries."""
    names = [one.report.name for one in audits]
    labels = [
        f"{name} ({one.place})" if names.count(name) > 1 else name
        for name, one in zip(names, audits, strict=True)
    ]
    return [
        f"{name}, audit {k} (registry {one.sources.subjects.get('registry', '')[:16]})"
        if labels.count(label) > 1
        else label
        for k, (name, label, one) in enumerate(zip(names, labels, audits, strict=True), start=1)
    ]


def _lost(audit: Compared) -> str:
    """Return why no guarantee remains, or nothing where one does."""
    return lost_guarantee(audit.sources.status, audit.sources.ledger)


def _alpha(audit: Compared) -> Fraction:
    return audit.sources.levels.alpha


def _warning(audits: Sequence[Compared], labels: Sequence[str]) -> list[str]:
    kept = [one for one in audits if not _lost(one)]
    lost = [label for label, one in zip(labels, audits, strict=True) if _lost(one)]
    lines = [
        "Each certificate below holds by itself, with its own confidence. Taking the best of "
        "several audits is a choice made after looking, which no error budget here has paid for: "
        "what was luck looks best.",
        *_together(len(audits), kept),
        "To choose among mechanisms with a guarantee, register them as one family, on one sealed "
        "target, and let one budget cover every verdict. Mechanisms of one audit below are such a "
        "family; those of different audits are not.",
    ]
    if lost:
        lines.insert(
            1,
            f"No guarantee remains for {', '.join(lost)}: see why at its verdicts. What it says is "
            "left out of what holds together.",
        )
    shared = _shared_targets(audits, labels)
    if shared:
        lines.append(
            f"The same sealed target was used by {shared}: their errors are not independent, and "
            "that target was open when the later one was decided."
        )
    return lines


def _together(given: int, kept: Sequence[Compared]) -> list[str]:
    """Return what holds for all audits with a guarantee, by adding their errors."""
    if not kept:
        return []
    who = f"these {given} audits" if len(kept) == given else f"the {len(kept)} audits that have one"
    total = sum((_alpha(one) for one in kept), Fraction(0))
    start = f"If {who}, and no others, were meant to be read together from the start, "
    if total < 1:
        return [
            f"{start}then all their statements of validation hold together with "
            f"{confidence(total)} confidence, by adding their errors."
        ]
    return [
        f"{start}nothing could be said of all of them together: their errors add up to 1 or more."
    ]


def _shared_targets(audits: Sequence[Compared], labels: Sequence[str]) -> str:
    used: dict[str, list[str]] = {}
    for label, one in zip(labels, audits, strict=True):
        for name, value in one.sources.subjects.items():
            if name.startswith("target:"):
                used.setdefault(value, []).append(label)
    return "; ".join(" and ".join(who) for who in used.values() if len(set(who)) > 1)


def _verdict_table(audits: Sequence[Compared], labels: Sequence[str]) -> Table:
    rows = []
    for label, one in zip(labels, audits, strict=True):
        for verdict in one.report.verdicts:
            releases, records = _counted(one.sources.verdict(verdict.name))
            rows.append(
                (
                    label,
                    verdict.name,
                    verdict.decision,
                    _interval(verdict),
                    "" if verdict.target is None else f"more than {verdict.target:g}",
                    confidence(_alpha(one)),
                    releases,
                    records,
                    verdict.binding,
                )
            )
    return Table(
        title="Verdicts",
        columns=("audit", "mechanism", "verdict", "reliability", "required", "confidence",
                 "releases", "records", "binding requirement"),
        rows=tuple(rows),
        note="In the order given. Confidence is that of each audit alone.",
    )  # fmt: skip


def _counted(verdict: VerdictRecord | None) -> tuple[str, str]:
    """Return how many releases and records a verdict rests on, as far as it says so."""
    if isinstance(verdict, MechanismVerdict):
        return str(verdict.n_releases), str(max(verdict.n_records.values()))
    return (str(verdict.draws) if isinstance(verdict, SequentialVerdict) else "", "")


def _interval(verdict: Verdict) -> str:
    if verdict.lower is None:
        return ""
    upper = 1.0 if verdict.upper is None else verdict.upper
    words = f"{cut(verdict.lower, up=False)} to {cut(upper, up=True)}"
    return words if verdict.certified else f"{words} (for reading)"


def _requirement_table(audits: Sequence[Compared], labels: Sequence[str]) -> Table:
    """Return who required what: verdicts on other requirements are not about the same thing."""
    limits: dict[str, dict[str, dict[str, None]]] = {}  # in the order of the members
    for label, one in zip(labels, audits, strict=True):
        for requirement, limit in one.sources.limits:
            limits.setdefault(requirement, {}).setdefault(label, {})[limit] = None
    rows = tuple(
        (name, *(", ".join(own.get(label, ["not required"])) for label in labels),
         "alike" if len({frozenset(own.get(label, ())) for label in labels}) == 1 else "differs")
        for name, own in limits.items()
    )  # fmt: skip
    return Table(
        title="What was required",
        columns=("requirement", *labels, ""),
        rows=rows,
        note="A verdict is about the requirements of its own audit, on its own target.",
    )


def _status_table(audits: Sequence[Compared], labels: Sequence[str]) -> Table:
    return Table(
        title="What each audit rests on",
        columns=("audit", "guarantee", "attestation", "registry", "signed by"),
        rows=tuple(
            (label, one.report.guarantee, one.report.attestation,
             one.sources.subjects.get("registry", ""), one.sources.signer)
            for label, one in zip(labels, audits, strict=True)
        ),
        section="provenance",
    )  # fmt: skip


def _check_table(audits: Sequence[Compared], labels: Sequence[str]) -> Table:
    return Table(
        title="Check each audit",
        columns=("audit", "command, where its folder lies"),
        rows=tuple(
            (label, f"proxyguard verify {one.place}")
            for label, one in zip(labels, audits, strict=True)
        ),
        note="Every audit is checked by itself, offline, from its own folder.",
        section="provenance",
    )
