"""Several audits side by side, without an invitation to pick the best of them.

Every certificate holds by itself. Which of them a reader looks at, and which he then takes,
no error budget has paid for; the page says so first, keeps the order in which the audits
were given, and ranks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from proxyguard.certificate.wording import confidence
from proxyguard.documents.canonical import Plain
from proxyguard.documents.certificate import (
    MechanismVerdict,
    Report,
    ReportTable,
    ReportVerdict,
    SequentialVerdict,
    VerdictRecord,
)
from proxyguard.errors import RegistryError
from proxyguard.report.record import lost_guarantee
from proxyguard.report.sources import Sources, cut, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One audit of a comparison.

    Attributes
    ----------
    place
        The name of its folder; where that lies on the machine is nobody's business.
    report, sources
        The report, and what it was built from.
    """

    place: str  # the name of its folder, without the way there
    report: Report
    sources: Sources

    @property
    def registry(self) -> str:
        """The digest of its registry, by which audits are told apart."""
        return self.sources.subjects.get("registry", "")

    @property
    def alpha(self) -> Fraction:
        """The error level of its statements of validation."""
        return self.sources.levels.alpha

    @property
    def lost(self) -> str:
        """Why no guarantee remains, or nothing where one does."""
        return lost_guarantee(self.sources.status, self.sources.ledger)


# What the comparison calls each audit, in the order given. No mapping: names are their authors',
# and one that is made to look like another's label must not take its place.
Labelled = Sequence[tuple[str, Compared]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a comparison page says.

    Attributes
    ----------
    title
        How many audits stand side by side.
    warning
        What a reader must know before he compares, as paragraphs.
    verdicts
        Every verdict with the label of its audit.
    settings
        Which declared settings differ.
    tables
        Verdicts, requirements, and what each audit rests on.
    check
        How each audit is checked.
    """

    title: str
    warning: tuple[str, ...]
    verdicts: tuple[tuple[str, ReportVerdict], ...]  # audit and verdict, in the given order
    settings: ReportTable
    tables: tuple[ReportTable, ...]
    check: ReportTable

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "title": self.title,
            "warning": self.warning,
            "verdicts": [[audit, verdict.to_dict()] for audit, verdict in self.verdicts],
            "settings": self.settings.to_dict(),
            "tables": [compared.to_dict() for compared in self.tables],
            "check": self.check.to_dict(),
        }


def compare(audits: Sequence[Compared]) -> Comparison:
    """Return the comparison of several certified audits, in the order given.

    Raises
    ------
    RegistryError
        Where there are fewer than two audits, or one stands twice.
    """
    if len(audits) < 2:
        raise RegistryError(f"a comparison needs at least two audits, got {len(audits)}")
    _refuse_repeats(audits)
    labelled = list(zip(_labels(audits), audits, strict=True))
    return Comparison(
        title=f"{len(audits)} audits side by side",
        warning=tuple(_warning(labelled)),
        verdicts=tuple(
            (label, verdict) for label, audit in labelled for verdict in audit.report.verdicts
        ),
        settings=_settings_table(labelled),
        tables=(_verdict_table(labelled), _requirement_table(labelled), _status_table(labelled)),
        check=_check_table(labelled),
    )


def _refuse_repeats(audits: Sequence[Compared]) -> None:
    """Raise where one audit stands twice, which would count its error twice."""
    seen: dict[str, str] = {}
    # A certificate in memory has no registry, and cannot be told from another one.
    for audit in audits:
        if audit.registry and audit.registry in seen:
            raise RegistryError(
                f"{seen[audit.registry]!r} and {audit.place!r} are one audit, of registry "
                f"{audit.registry[:16]}...; name every audit once"
            )
        seen[audit.registry] = audit.place


def _labels(audits: Sequence[Compared]) -> list[str]:
    """Return a name for each audit; where two are alike, with their folders, then registries."""
    names = [audit.report.name for audit in audits]
    labels = [
        f"{name} ({audit.place})" if names.count(name) > 1 else name
        for name, audit in zip(names, audits, strict=True)
    ]
    return [
        f"{name}, audit {k} (registry {audit.registry[:16]})" if labels.count(label) > 1 else label
        for k, (name, label, audit) in enumerate(zip(names, labels, audits, strict=True), start=1)
    ]


def _warning(audits: Labelled) -> list[str]:
    """Return what a reader must know before he compares."""
    lost = [label for label, audit in audits if audit.lost]
    lines = [
        "Each certificate below holds by itself, with its own confidence. Taking the best of "
        "several audits is a choice made after looking, which no error budget here has paid for: "
        "what was luck is taken for the best.",
        *_together(len(audits), [audit for _, audit in audits if not audit.lost]),
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
    shared = _shared_targets(audits)
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
    # By the union bound, whatever the audits share.
    total = sum((audit.alpha for audit in kept), Fraction(0))
    start = f"If {who}, and no others, were meant to be read together from the start, "
    if total < 1:
        return [
            f"{start}then all their statements of validation hold together with "
            f"{confidence(total)} confidence, by adding their errors."
        ]
    return [
        f"{start}nothing could be said of all of them together: their errors add up to 1 or more."
    ]


def _shared_targets(audits: Labelled) -> str:
    """Return which audits have a sealed target in common, by its digest."""
    used: dict[str, list[str]] = {}
    for label, audit in audits:
        for name, digest in audit.sources.subjects.items():
            if name.startswith("target:"):
                used.setdefault(digest, []).append(label)
    return "; ".join(" and ".join(who) for who in used.values() if len(set(who)) > 1)


# Settings that a page has room for.
MOST_SETTINGS = 100
# What stands for an entry of a list, such as a mechanism, as a whole.
DECLARED = "declared"


def _settings_table(audits: Labelled) -> ReportTable:
    """Return the declared settings in which the audits differ, first of all that they say."""
    declared = [
        {} if audit.sources.registry is None
        else dict(_settings(audit.sources.registry.declaration.to_dict(), ()))
        for _, audit in audits
    ]  # fmt: skip
    paths = dict.fromkeys(path for settings in declared for path in settings)
    # An entry that some audit does not have is one row, and not one for each of its settings.
    alone = {
        path for path in paths
        if any(s.get(path) == DECLARED for s in declared) and any(path not in s for s in declared)
    }  # fmt: skip
    rows = [
        (".".join(path), *(s.get(path, "not declared" if path in alone else "") for s in declared))
        for path in paths
        if path not in (("name",), ("purpose",))
        and len({s.get(path) for s in declared}) > 1
        and not any(path[:k] in alone for k in range(1, len(path)))
    ]
    more = len(rows) - MOST_SETTINGS
    return table(
        "Settings that differ", ("setting", *(label for label, _ in audits)),
        rows[:MOST_SETTINGS] or [("", *("none that is declared" for _ in audits))],
        f"{more:,} more differ." if more > 0 else "As declared; all other settings are the same.",
    )  # fmt: skip


def _settings(declared: Plain, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every setting of a declaration; entries of a list are told by their own names."""
    if isinstance(declared, Mapping):
        for key, value in declared.items():
            yield from _settings(value, (*path, key))
    elif isinstance(declared, list | tuple):
        if not any(isinstance(entry, Mapping) for entry in declared):
            yield path, ", ".join(str(entry) or '""' for entry in declared)
            return
        for k, entry in enumerate(declared):
            own = entry.get("name", k) if isinstance(entry, Mapping) else k
            place = (*path[:-1], f"{path[-1]} {own}")
            yield place, DECLARED
            yield from _settings(entry, place)
    elif declared is not None:
        yield path, str(declared)


def _verdict_table(audits: Labelled) -> ReportTable:
    """Return every verdict with what it rests on; no row is marked as the best."""
    rows = []
    for label, audit in audits:
        for verdict in audit.report.verdicts:
            target = "" if verdict.target is None else f"more than {verdict.target:g}"
            rows.append((
                label, verdict.name, verdict.decision, _interval(verdict), target,
                confidence(audit.alpha), *_counted(audit.sources.verdict(verdict.name)),
                verdict.binding,
            ))  # fmt: skip
    return table(
        "Verdicts",
        ("audit", "mechanism", "verdict", "reliability", "required", "confidence", "releases",
         "records", "binding requirement"),
        rows, "In the order given. Confidence is that of each audit alone.",
    )  # fmt: skip


def _counted(verdict: VerdictRecord | None) -> tuple[str, str]:
    """Return how many releases and records a verdict rests on, as far as it says so."""
    if isinstance(verdict, MechanismVerdict):
        return str(verdict.n_releases), str(max(verdict.n_records.values()))
    return (str(verdict.draws) if isinstance(verdict, SequentialVerdict) else "", "")


def _interval(verdict: ReportVerdict) -> str:
    """Return the interval in numbers, each end rounded so that it claims less."""
    if verdict.lower is None or verdict.target is None:
        return ""
    lower = cut(verdict.lower, up=False, than=verdict.target)
    upper = 1.0 if verdict.upper is None else verdict.upper
    return f"{lower} to {cut(upper, up=True, than=verdict.target)}"


def _requirement_table(audits: Labelled) -> ReportTable:
    """Return who required what: verdicts on other requirements are not about the same thing."""
    limits: dict[str, dict[str, dict[str, None]]] = {}  # in the order of the members
    for label, audit in audits:
        for requirement, limit in audit.sources.limits:
            limits.setdefault(requirement, {}).setdefault(label, {})[limit] = None
    labels = [label for label, _ in audits]
    rows = [
        (name, *(", ".join(asked.get(label, ["not required"])) for label in labels),
         "alike" if len({frozenset(asked.get(label, ())) for label in labels}) == 1 else "differs")
        for name, asked in limits.items()
    ]  # fmt: skip
    return table(
        "What was required", ("requirement", *labels, ""), rows,
        "A verdict is about the requirements of its own audit, on its own target.",
    )  # fmt: skip


def _status_table(audits: Labelled) -> ReportTable:
    """Return who attests to each audit, and whether a guarantee remains."""
    return table(
        "What each audit rests on",
        ("audit", "guarantee", "attestation", "registry", "signed by"),
        [
            (label, audit.report.guarantee, audit.report.attestation, audit.registry,
             audit.sources.signer)
            for label, audit in audits
        ],
        section="provenance",
    )  # fmt: skip


def _check_table(audits: Labelled) -> ReportTable:
    """Return the command that checks each audit, without the way to its folder."""
    return table(
        "Check each audit", ("audit", "command, where its folder lies"),
        [(label, f"proxyguard verify {audit.place}") for label, audit in audits],
        "Every audit is checked by itself, offline, from its own folder.", "provenance",
    )  # fmt: skip
