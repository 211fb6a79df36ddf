"""Where a report comes from: ledger, digests, signers, lineage, software."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from math import fsum

from proxyguard.certificate.wording import CHOSEN_AFTER_OPENING
from proxyguard.documents.certificate import ClaimStatusRecord, Predicate
from proxyguard.documents.evidence import GroupEvidence
from proxyguard.documents.ledger import (
    Amended,
    Certified,
    Committed,
    Corrected,
    Developed,
    Deviated,
    Favored,
    Frozen,
    Judged,
    LedgerBody,
    Opened,
    Overlap,
    Registered,
    Rotated,
    Sealed,
)
from proxyguard.documents.registry import DrawnMechanism, Facts, Registry
from proxyguard.documents.releases import AnyDraw, DrawnRelease, GivenRelease
from proxyguard.exact.sequential import sharp_boundary
from proxyguard.registry.parts import ClaimPart
from proxyguard.registry.test import Bound
from proxyguard.report.sources import Sources, Table
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.seal.lineage import worst_met

Entries = Sequence[Entry[LedgerBody]]


def draws_of(sources: Sources) -> dict[str, Sequence[AnyDraw]]:
    """Return every draw by mechanism; those of a sequential audit are in its ledger."""
    if sources.manifest is not None:
        members = sources.manifest.members
        return {
            f"{member}/{name}" if len(members) > 1 else name: group.draws
            for member, mechanisms in members.items()
            for name, group in mechanisms.items()
        }
    bodies = [entry.body for entry in sources.ledger]
    committed = [body.record for body in bodies if isinstance(body, Committed)]
    if not committed:
        return {}
    only = sources.verdicts[0].mechanism if len(sources.verdicts) == 1 else "every candidate"
    return {only: committed}


def health_table(sources: Sources) -> Table:
    """Return how many draws there are, failed, and repeat each other."""
    rows = []
    draws = draws_of(sources)
    for name in sources.in_order(draws):
        records = draws[name]
        made = [draw for draw in records if isinstance(draw, DrawnRelease)]
        sizes = sorted(draw.rows for draw in made)
        chosen = Counter(draw.selected for draw in made if draw.selected)
        rows.append(
            (
                name,
                str(len(records)),
                _words(Counter(draw.status for draw in records), ("drawn", "given")),
                str(_copies(draw.content for draw in made)),
                str(_copies(draw.model for draw in made)),
                "" if not sizes else f"{sizes[0]:,} to {sizes[-1]:,}",
                ", ".join(f"{model} {count}" for model, count in sorted(chosen.items())),
            )
        )
    return Table(
        title="Draws",
        columns=("mechanism", "draws", "not drawn", "same table as another", "same model",
                 "rows of a release", "model chosen"),
        rows=tuple(rows),
        note="A failed draw counts as a release with the worst loss everywhere.",
        section="draws",
    )  # fmt: skip


def guard_table(sources: Sources) -> Table:
    """Return what kept draws from reading the target, and what else they were allowed to read."""
    declared = None if sources.registry is None else sources.registry.declaration
    allowed = {
        mechanism.name: ", ".join(mechanism.allow)
        for mechanisms in (
            ()
            if declared is None
            else (declared.mechanism, *(member.mechanism for member in declared.candidate))
        )
        for mechanism in mechanisms
    }
    rows = []
    draws = draws_of(sources)
    for name in sources.in_order(draws):
        made = [draw for draw in draws[name] if not isinstance(draw, GivenRelease)]
        held = Counter(draw.guard for draw in made if draw.guard)
        if held:
            words = ", ".join(f"{count} by {guard}" for guard, count in sorted(held.items()))
            rows.append((name, words, allowed.get(name.rpartition("/")[2], "")))
    return Table(
        title="What held the draws",
        columns=("mechanism", "draws held", "registered to be read besides"),
        rows=tuple(rows),
        note="Landlock: the kernel let a draw read code, the development part and what is "
        "registered, nothing else. Audit hook: Python refused the target's files, the ledger and "
        "the keys; native code could have read them. The same held others' generators "
        "where a command asked them to describe themselves. The record is the author's.",
        section="draws",
    )


def counts_table(sources: Sources) -> Table:
    """Return what became of the registered draws, as the certificate says it."""
    counts = {} if sources.predicate is None else sources.predicate.draws
    columns = ("registered", "delivered", "failed", "excluded", "used")
    return Table(
        title="What became of the draws",
        columns=("mechanism", *columns),
        rows=tuple(
            (name, *(str(getattr(counts[name], column)) for column in columns))
            for name in sources.in_order(counts)
        ),
        note="A failed draw is used, with every loss at its upper bound. An excluded draw was "
        "taken out by an amendment before the target was opened.",
        section="draws",
    )


STEPS = {
    "developed": "rules and pilots on development data",
    "registered": "registering the claim",
    "amended": "amending it before opening",
    "drawn": "drawing, training on and freezing the releases",
    "opened": "opening the target",
    "scored": "drawing and scoring up to a look",
    "certified": "scoring and certifying",
}


def times_table(ledger: Entries) -> Table:
    """Return how long every kind of step took, from the entry before it to its own."""
    seconds: dict[str, float] = {}
    before: datetime | None = None
    for entry in ledger:
        now = datetime.fromisoformat(entry.body.time)
        if before is not None and entry.stage.value in STEPS:
            took = (now - before).total_seconds()
            seconds[entry.stage.value] = seconds.get(entry.stage.value, 0.0) + took
        before = now
    rows = [(STEPS[stage], f"{took:,.0f} s") for stage, took in seconds.items()]
    return Table(
        title="Times",
        columns=("step", "at the most"),
        rows=tuple(rows),
        note="From one entry of the ledger to the next, waiting included; single draws are not "
        "timed, so that the same seeds leave the same record.",
        section="draws",
    )


def _words(states: Mapping[str, int], fine: tuple[str, ...]) -> str:
    bad = [f"{count} {state}" for state, count in sorted(states.items()) if state not in fine]
    return ", ".join(bad) or "0"


def _copies(values: Iterable[str | None]) -> int:
    """Return how many values are there more than once, beyond the first."""
    counts = Counter(value for value in values if value is not None)
    return sum(count - 1 for count in counts.values())


def failure_table(sources: Sources) -> Table:
    """Return every draw that failed, and why."""
    rows = tuple(
        (name, str(failure.seed), failure.status, failure.error)
        for name, failures in sources.failed.items()
        for failure in failures
    )
    return Table(
        title="Failed draws",
        columns=("mechanism", "seed", "status", "reason"),
        rows=rows,
        note="Every loss of a failed draw counts as its upper bound.",
        section="draws",
    )


def unscored_table(predicate: Predicate | None) -> Table:
    """Return what could not be scored on the target, and how it counted."""
    diagnostics = None if predicate is None else predicate.diagnostics
    rows = tuple(
        (name, release, str(records))
        for name, releases in sorted(({} if diagnostics is None else diagnostics.unscored).items())
        for release, records in releases.items()
    )
    return Table(
        title="Releases that could not be scored everywhere",
        columns=("mechanism", "release", "what happened"),
        rows=rows,
        note="Such a record has the worst loss; the others count as they are.",
        section="draws",
    )


def reference_table(ledger: Entries) -> Table:
    """Return what policies that learn nothing would lose, for judging the limits."""
    rows: list[tuple[str, ...]] = []
    for entry in ledger:
        if not isinstance(entry.body, Developed):
            continue
        rows = []
        for member, facts in entry.body.members.items():
            if not isinstance(facts, Facts):
                continue
            for name, risk in facts.risks.items():
                policies = [
                    f"{policy} {float(losses[name]):.4f}"
                    for policy, losses in facts.references.items()
                ]
                rows.append((member, name, f"{float(risk):.4f}", ", ".join(policies)))
    return Table(
        title="Reference policies on validation data",
        columns=("member", "loss of", "source", "policies that learn nothing"),
        rows=tuple(rows),
        note="A limit that such a policy meets says little. None of this saw the target.",
        section="draws",
    )


def plan_table(sources: Sources) -> Table:
    """Return what was planned beside what happened; empty where no plan was registered."""
    plan = None if sources.registry is None else sources.registry.declaration.plan
    rows: list[tuple[str, ...]] = []
    if plan is not None:
        rows.append(("chance of validation", plan.power, _decisions(sources)))
        rows.append(("share of valid releases", plan.reliability, _intervals(sources)))
        rows.append(("target records", f"{plan.records:,}", _sizes(sources.groups)))
        rows.append(("draws", f"{plan.draws:,}", _releases(sources)))
        for name, margin in plan.margins.items():
            rows.append((f"margin of {name}", margin, _margins(name, sources)))
        if plan.cost is not None:
            rows.append(("cost", plan.cost, "not recorded"))
        rows.append(("where the plan came from", plan.origin, ""))
    return Table(
        title="Plan against outcome",
        columns=("what", "planned", "happened"),
        rows=tuple(rows),
        note="The plan was registered before the target was opened; it decides nothing.",
        section="plan",
    )


def _decisions(sources: Sources) -> str:
    return "; ".join(f"{verdict.mechanism}: {verdict.decision}" for verdict in sources.verdicts)


def _intervals(sources: Sources) -> str:
    words = []
    for verdict in sources.verdicts:
        lower, upper = verdict.reliability_lower, verdict.reliability_upper
        if lower is not None:
            top = 1.0 if upper is None else upper
            words.append(f"{verdict.mechanism}: {lower:.3f} to {top:.3f}")
    return "; ".join(words)


def _sizes(groups: Mapping[str, GroupEvidence]) -> str:
    sizes = sorted({column.n for group in groups.values() for column in group.columns})
    return ", ".join(f"{n:,}" for n in sizes)


def _releases(sources: Sources) -> str:
    groups = sources.groups
    return "; ".join(f"{name}: {len(groups[name].releases):,}" for name in sources.group_names)


def _margins(name: str, sources: Sources) -> str:
    words = []
    for mechanism in sources.group_names:
        group = sources.groups[mechanism]
        if name in group.requirements:
            j = group.requirements.index(name)
            limit = float(group.limits[j])
            estimates = [float(row[j]) for row in group.derived.estimates]
            valid = [limit - estimate for estimate in estimates if estimate < limit]
            if valid:
                words.append(f"{mechanism}: {fsum(valid) / len(valid):.6f}")
    return "; ".join(words) or "no estimate below the limit"


def sequential_table(sources: Sources) -> Table:
    """Return the favorable scores at every registered look that was reached, or each round."""
    bodies = [entry.body for entry in sources.ledger]
    scored = [body for body in bodies if isinstance(body, Favored)]
    rows: list[tuple[str, ...]] = [
        (f"round {body.round}", f"{body.decision} at level {float(body.level):.3g}", body.time)
        for body in bodies
        if isinstance(body, Judged)
    ]
    columns: tuple[str, ...] = ("when", "decision", "time")
    if scored and sources.registry is not None:
        columns = ("when", "favorable scores", "count that validates", "time")
        claim = sources.registry.declaration.claim
        least = dict(look_boundary(claim))
        for look in claim.looks or ():
            reached = look <= len(scored)
            count = sum(body.favorable for body in scored[:look])
            rows.append((f"look at {look} draws", str(count) if reached else "not reached",
                         _least_words(least.get(look), look),
                         scored[look - 1].time if reached else ""))  # fmt: skip
        total = sum(body.favorable for body in scored)
        rows.append((f"ended after {len(scored)} draws", str(total), "", scored[-1].time))
    return Table(
        title="The sequential path",
        columns=columns,
        rows=tuple(rows),
        note="Every release was committed to the ledger before it was scored.",
        section="sequential",
    )


def _least_words(least: int | None, look: int) -> str:
    """Return the count that validates at a look; some looks come too early for any."""
    if least is None:
        return "not recorded"
    return str(least) if least <= look else "none"


def look_boundary(claim: ClaimPart) -> list[tuple[int, int]]:
    """Return (look, least count that validates) of a registered claim with a sharp bound."""
    if claim.bound not in (None, Bound.SHARP):
        return []
    target, threshold = claim.reliability_target, claim.threshold
    if claim.looks is None or target is None or threshold is None:
        return []  # no claim of looks
    return _boundary(tuple(claim.looks), target, threshold, claim.alpha)


@lru_cache(maxsize=8)  # an exact count of paths: seconds at a thousand looks
def _boundary(
    looks: tuple[int, ...], reliability: str, threshold: str, alpha: str
) -> list[tuple[int, int]]:
    found = sharp_boundary(
        looks,
        target=float(Fraction(reliability)),
        kappa=float(Fraction(threshold)),
        alpha=float(Fraction(alpha)),
    )
    if found is None:
        return []
    return [(int(n), int(c)) for n, c in zip(found.looks, found.counts, strict=True)]


def privacy_table(predicate: Predicate | None) -> Table:
    """Return what the releases of private mechanisms cost."""
    return Table(
        title="Privacy",
        columns=("mechanism", "what its releases cost"),
        rows=tuple(
            (name, line)
            for name, lines in sorted(((predicate and predicate.privacy) or {}).items())
            for line in lines
        ),
        note="As the mechanism states it; the audit does not measure privacy.",
        section="privacy",
    )  # fmt: skip


def status_table(predicate: Predicate | None) -> Table:
    """Return the claim's status with its reasons; nothing where nothing was registered."""
    status = None if predicate is None else predicate.claim_status
    return Table(
        title="Claim status",
        columns=("evidence", "target lineage", "registered", "guarantee"),
        rows=()
        if status is None
        else ((status.evidence, status.lineage, status.registered, status.guarantee),),
        section="provenance",
    )


def stated_table(predicate: Predicate | None) -> Table:
    """Return what stays the author's word, whatever is verified."""
    listed = () if predicate is None else predicate.stated_not_checked
    return Table(
        title="Stated, not checked",
        columns=("about", "the author's word"),
        rows=tuple((stated.about, stated.words) for stated in listed),
        note="Nothing in the folder shows these; verify computes the rest again.",
        section="provenance",
    )


def lineage_table(ledger: Entries) -> Table:
    """Return where target records, or records with their values, were met elsewhere."""
    bodies = [entry.body for entry in ledger]
    met = worst_met(
        [body.lineage for body in bodies if isinstance(body, Sealed | Registered | Opened)]
    )
    rows = tuple(
        (one.audit, one.role, str(one.records), str(one.shared), str(one.twins), one.expected_twins)
        for one in met
    )
    return Table(
        title="Target records met elsewhere",
        columns=("audit", "role", "records", "the same records", "value twins",
                 "expected by coincidence"),
        rows=rows,
        note=_twin_words(met),
        section="provenance",
    )  # fmt: skip


def _twin_words(met: Sequence[Overlap]) -> str:
    """Return what value twins are, and where there are too many of them to be other records."""
    words = "Value twins are records with the same values that no table shows to be the same ones."
    many = [f"{one.role} of {one.audit}" for one in met if one.excess]
    if not many:
        return f"{words} They are no more than coincidence explains, and are not counted as reuse."
    return (
        f"{words} Those in {', '.join(many)} are more than coincidence explains: they are "
        "taken for the same records under another coding."
    )


def ledger_table(ledger: Entries) -> Table:
    """Return every recorded step with what it says in short."""
    shown = _shortened(ledger)
    return Table(
        title="Ledger",
        columns=("step", "time", "what", "digest of the entry before"),
        rows=tuple(
            (
                entry.stage.value,
                entry.body.time,
                _said(entry.body),
                entry.previous,
            )
            for entry in shown
        ),
        note=""
        if len(shown) == len(ledger)
        else f"{len(ledger) - len(shown)} draws and scores in between are in the folder's ledger.",
        section="provenance",
    )


KEPT = 5
"""Steps that are shown at either end of a long run of draws and scores."""


def _shortened(ledger: Entries) -> list[Entry[LedgerBody]]:
    several = (Stage.DRAWN, Stage.SCORED)
    single = [i for i, entry in enumerate(ledger) if entry.stage in several]
    dropped = set(single[2 * KEPT : -2 * KEPT])
    return [entry for i, entry in enumerate(ledger) if i not in dropped]


def _said(body: LedgerBody) -> str:
    """Return what an entry says, in short."""
    match body:
        case Sealed(steward=who):
            return "target set aside; " + (
                "no steward" if who is None else f"steward {_short(who)}"
            )
        case Developed():
            return "the source fitted and judged on development data"
        case Registered():
            return f"declaration {_short(body.declaration)}, {body.path.value} path"
        case Amended():
            return f"amendment: {body.reason}"
        case Frozen():
            return f"all releases, digest {_short(body.releases)}"
        case Committed():
            return f"{body.record.label}, digest {_short(body.release)}"
        case Opened():
            return "self-attested" if body.grant is None else "granted"
        case Favored():
            return "favorable" if body.favorable else "not favorable"
        case Judged():
            return body.decision
        case Certified():
            return "evidence and certificate"
        case Deviated():
            return f"deviation: {body.reason}"
        case Rotated():
            return f"signing key handed over to {_short(body.successor)}"
        case Corrected():
            return f"corrective certificate ({body.reason}): {_decided(body)}"
    raise TypeError(f"{type(body).__name__} is no step of a ledger")


def _short(digest: str) -> str:
    return f"{digest[:16]}..."


def _decided(body: Corrected) -> str:
    return "; ".join(f"{name} {decision}" for name, decision in body.decisions.items())


def digest_table(sources: Sources) -> Table:
    """Return who signed and which bytes everything rests on; nothing where nobody signed."""
    rows: list[tuple[str, str]] = []
    if sources.predicate is not None:
        rows = [("signed by", sources.signer), ("ledger, last entry", sources.head)]
        rows += [
            (f"key handed over from {_short(entry.signer)} to", entry.body.successor[:64])
            for entry in sources.ledger
            if isinstance(entry.body, Rotated)
        ]
        steward = sources.predicate.attestation.steward
        rows += [] if steward is None else [("steward", steward)]
        rows += [(f"digest of {name}", sha) for name, sha in sorted(sources.subjects.items())]
        for entry in sources.ledger:
            if isinstance(entry.body, Certified | Corrected):
                rows += [
                    (f"{name} ({entry.stage.value})", sha)
                    for name, sha in sorted(entry.body.files.items())
                ]
    return Table(
        title="Digests and signers",
        columns=("what", "SHA-256 or public key"),
        rows=tuple(rows),
        section="provenance",
    )


def software_table(sources: Sources) -> Table:
    """Return the versions at sealing and at registration."""
    seals = [entry.body.software for entry in sources.ledger if isinstance(entry.body, Sealed)]
    sealed = seals[0] if seals else {}
    registered = {} if sources.predicate is None else sources.predicate.software
    names = sorted({*sealed, *registered})
    return Table(
        title="Software",
        columns=("package", "at sealing", "at registration"),
        rows=tuple((n, sealed.get(n, ""), registered.get(n, "")) for n in names),
        section="provenance",
    )


def generator_table(registry: Registry | None) -> Table:
    """Return what made the releases: generator, where its code came from, its settings."""
    rows = []
    for member in () if registry is None else registry.members.values():
        for name, mechanism in member.mechanisms.items():
            settings = "; ".join(f"{k} {v}" for k, v in sorted(mechanism.describe.items()))
            code = ("", "")
            if isinstance(mechanism, DrawnMechanism):
                code = mechanism.origin.path, mechanism.origin.version
            rows.append((name, mechanism.generator, *code, settings))
    return Table(
        title="Generators",
        columns=("mechanism", "generator", "code", "version", "settings"),
        rows=tuple(rows),
        section="provenance",
    )


def notes_of(sources: Sources) -> list[str]:
    """Return what was changed, admitted or corrected, in words."""
    notes = []
    for entry in sources.ledger:
        body = entry.body
        if isinstance(body, Amended):
            notes.append(f"Amended before opening: {body.reason}")
            notes += [
                f"{draw.mechanism}: the exclusion of draw {draw.seed} is void, because this "
                "amendment did not repeat it"
                for draw in body.void
            ]
        elif isinstance(body, Frozen):
            notes += [
                f"{draw.mechanism}: draw {draw.seed} was dropped and made again; it came out "
                f"{'the same' if draw.same else 'otherwise'}"
                for draw in body.again
            ]
        elif isinstance(body, Deviated):
            notes.append(f"Deviation recorded after opening: {body.reason}")
        elif isinstance(body, Corrected):
            notes.append(
                f"Corrective certificate ({body.reason}), which does not replace the record: "
                f"{_decided(body)}. {CHOSEN_AFTER_OPENING}"
            )
    excluded = None if sources.predicate is None else sources.predicate.excluded
    for name, releases in (excluded or {}).items():
        notes.append(f"{name}: draws {', '.join(releases)} are descriptive, by amendment")
    return notes


def guarantee_of(status: ClaimStatusRecord, ledger: Entries) -> str:
    """Return the guarantee as certified, and what was admitted after that."""
    words = status.guarantee
    later = _later_deviations(ledger)
    return words if not later else f"{words}; but deviations were recorded later, see the notes"


def lost_guarantee(status: ClaimStatusRecord, ledger: Entries) -> str:
    """Return why no guarantee remains, or nothing where one does."""
    head, _, why = status.guarantee.partition(":")
    reasons = [why.strip() or "as certified"] if head.strip() == "no" else []
    reasons += [f"deviation recorded later: {reason}" for reason in _later_deviations(ledger)]
    return f"No guarantee remains: {'; '.join(reasons)}." if reasons else ""


def _later_deviations(ledger: Entries) -> list[str]:
    """Return the reasons of the deviations that were recorded after the certificate."""
    stages = [entry.stage for entry in ledger]
    first = stages.index(Stage.CERTIFIED) if Stage.CERTIFIED in stages else len(stages)
    return [entry.body.reason for entry in ledger[first:] if isinstance(entry.body, Deviated)]
