"""What the record says around a certificate, in the order of the page: draws, plan, provenance.

Everything is read from the ledger, the registry, the manifest of the draws and the signed
predicate. A table for which the record has nothing, as of a certificate in memory, has no rows
and is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, fsum

from proxyguard.certificate.wording import CHOSEN_AFTER_OPENING
from proxyguard.documents.certificate import (
    ClaimStatusRecord,
    Predicate,
    ReportTable,
    VerdictRecord,
)
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
from proxyguard.documents.registry import DrawnMechanism, Facts
from proxyguard.documents.releases import AnyDraw, DrawnRelease, GivenRelease
from proxyguard.exact.sequential import sharp_boundary
from proxyguard.printable import shortly, some
from proxyguard.registry.parts import ClaimPart
from proxyguard.registry.test import Bound
from proxyguard.report.sources import Entries, Sources, rounding_digits, table
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import worst_met

# Columns that a sentence names.
MOST_TOLD = 12
# The steps whose time is shown, in words.
TIMED_STEPS = {
    Stage.DEVELOPED: "rules and pilots on development data",
    Stage.REGISTERED: "registering the claim",
    Stage.AMENDED: "amending it before opening",
    Stage.DRAWN: "drawing, training on and freezing the releases",
    Stage.OPENED: "opening the target",
    Stage.SCORED: "drawing and scoring up to a look",
    Stage.CERTIFIED: "scoring and certifying",
}

# What stands before the words of a certificate whose guarantee is gone.
WITH_ONE = "With one this would read:"
NO_GUARANTEE = f"No guarantee remains. {WITH_ONE} "

# Steps that are shown at either end of a long run of draws and scores.
KEPT_ENTRIES = 5


def draws_of(sources: Sources) -> dict[str, Sequence[AnyDraw]]:
    """Return every draw by mechanism, in the order of the verdicts; a ledger may have them, too.

    Returns
    -------
    dict of str to sequence of draws
        By mechanism; of several members by ``member/mechanism``. Empty for a certificate in memory.
    """
    if sources.manifest is not None:
        members = sources.manifest.members
        frozen = {
            f"{member}/{name}" if len(members) > 1 else name: group.draws
            for member, mechanisms in members.items()
            for name, group in mechanisms.items()
        }
        return {name: frozen[name] for name in sources.in_order(frozen)}
    committed = [body.record for body in sources.bodies if isinstance(body, Committed)]
    if not committed:
        return {}
    # A stream's draws are its candidates, each with a verdict of its own.
    only = sources.verdicts[0].mechanism if len(sources.verdicts) == 1 else "every candidate"
    return {only: committed}


def maker(sources: Sources) -> str:
    """Return what the rows of tables about draws are: mechanisms, or releases that are named."""
    return "mechanism" if sources.family is None else "release"


def privacy_table(predicate: Predicate | None) -> ReportTable:
    """Return what mechanisms state of the privacy of their releases."""
    stated = {} if predicate is None else predicate.privacy or {}
    return table(
        "Privacy as stated", ("mechanism", "what it states"),
        [(mechanism, line) for mechanism, lines in sorted(stated.items()) for line in lines],
        "Stated by the mechanism; the audit does not measure it.", "privacy",
    )  # fmt: skip


def health_table(sources: Sources) -> ReportTable:
    """Return how many draws there are, failed, and repeat each other.

    A draw that repeats another one's table or model is no second look at the mechanism; nothing
    forbids it, and the reader sees how often it happened.
    """
    rows = []
    for name, draws in draws_of(sources).items():
        made = [draw for draw in draws if isinstance(draw, DrawnRelease)]
        sizes = sorted({draw.rows for draw in made})
        chosen = Counter(draw.selected for draw in made if draw.selected)
        states = Counter(draw.status for draw in draws)
        bad = {state: count for state, count in states.items() if state not in ("drawn", "given")}
        rows.append((
            name, str(len(draws)),
            ", ".join(f"{count} {state}" for state, count in sorted(bad.items())) or "0",
            str(_copies(draw.content for draw in made)), str(_copies(draw.model for draw in made)),
            " to ".join(f"{size:,}" for size in (*sizes[:1], *sizes[1:][-1:])),
            ", ".join(f"{model} ({count:,})" for model, count in sorted(chosen.items())),
        ))  # fmt: skip
    return table(
        "Rows and models",
        (maker(sources), "draws", "not drawn", "same table as another", "same model",
         "rows of a release", "model chosen"),
        rows, "A failed draw counts as a release with the worst loss everywhere.", "draws",
    )  # fmt: skip


def models_of(sources: Sources) -> list[str]:
    """Return which model the procedure really chose, for the source and for every release.

    A library of one model leaves nothing to choose.
    """
    lines = []
    for name, member in sources.members.items():
        source = member.source
        library = () if member.procedure is None else member.procedure.procedure.library
        if source is not None and len(library) > 1:
            of = f" of {name}" if len(sources.members) > 1 else ""
            at = "" if source.threshold is None else f", threshold {float(source.threshold):.4g}"
            listed = ", ".join(library)
            lines.append(f"Model of the source{of}: {source.selected}{at}, chosen from {listed}.")
    for name, draws in draws_of(sources).items() if lines else ():
        chosen = Counter(selected(draws).values())
        if chosen:
            listed = ", ".join(f"{model} for {n:,}" for model, n in sorted(chosen.items()))
            lines.append(f"Model of the releases of {name}: {listed}.")
    return lines


def selected(draws: Sequence[AnyDraw]) -> dict[str, str]:
    """Return which model was chosen for each draw, by its seed as releases are named by it."""
    made = [draw for draw in draws if isinstance(draw, DrawnRelease)]
    return {str(draw.seed): draw.selected for draw in made if draw.selected}


def conditions_of(sources: Sources) -> tuple[str, ...]:
    """Return what a verdict on releases that were made elsewhere is conditional on.

    Nothing in a folder shows how files, predictions or losses came about.
    """
    outside = {
        name
        for member in sources.members.values()
        for name, mechanism in member.mechanisms.items()
        if not isinstance(mechanism, DrawnMechanism) or mechanism.delivered
    }
    return tuple(
        f"{stated.about}: {stated.words} (its author's word; no check of a folder can show it)"
        for stated in (() if sources.predicate is None else sources.predicate.stated_not_checked)
        if stated.about.rpartition("/")[2] in outside
    )


def lineage_of(sources: Sources) -> str:
    """Return where the target's records were met before; nothing where nobody met them."""
    met = any(
        overlap.shared or overlap.twins
        for body in sources.bodies
        if isinstance(body, Sealed | Registered | Opened)
        for overlap in body.lineage
    )
    return sources.status.lineage if met else ""


def _copies(digests: Iterable[str | None]) -> int:
    """Return how many digests are there more than once, beyond the first."""
    counts = Counter(digest for digest in digests if digest is not None)
    return counts.total() - len(counts)


_GUARDS = {
    "landlock": "Landlock: the kernel let a draw read code, the development part and what is "
    "registered, nothing else.",
    "audit hook": "Audit hook: Python refused the target's files, the ledger and the keys; native "
    "code could have read them.",
}


def guard_table(sources: Sources) -> ReportTable:
    """Return what kept draws from reading the target, and what else they were allowed to read.

    The guards are what the drawing process wrote of itself; what was registered to be read besides
    is the declaration's.
    """
    allowed = {
        m.name: ", ".join(m.allow) for declared in sources.declared for m in declared.mechanism
    }
    rows = []
    for name, draws in draws_of(sources).items():
        # A table that was given ran no code here, so that nothing held it.
        made = [draw for draw in draws if not isinstance(draw, GivenRelease)]
        held = Counter(draw.guard for draw in made if draw.guard)
        if held:
            words = ", ".join(f"{count} by {guard}" for guard, count in sorted(held.items()))
            rows.append((name, words, allowed.get(name.rpartition("/")[2], "")))
    meant = [words for guard, words in _GUARDS.items() if any(guard in row[1] for row in rows)]
    return table(
        "What held the draws", (maker(sources), "draws held", "registered to be read besides"),
        rows, " ".join([*meant, "The record is the author's."]), "draws",
    )  # fmt: skip


def computed_table(sources: Sources) -> ReportTable:
    """Return how draws were computed, where their generators say it: devices, versions, batches."""
    rows = []
    for name, draws in draws_of(sources).items():
        said = Counter(
            ", ".join(f"{fact} {words}" for fact, words in sorted(draw.computed.items()))
            for draw in draws
            if not isinstance(draw, GivenRelease) and draw.computed
        )
        rows += [(name, str(count), words) for words, count in sorted(said.items())]
    return table(
        "How draws were computed", ("mechanism", "draws", "as the generator says"), rows,
        "The same seed may give other last bits on another device or with another version of a "
        "library; its law is the same. The words are the generator's.",
        "draws",
    )  # fmt: skip


def counts_table(sources: Sources) -> ReportTable:
    """Return what became of the registered draws, as the certificate says it.

    Registered draws are those of the claim; used are all but the excluded ones.
    """
    counts = {} if sources.predicate is None else sources.predicate.draws
    columns = ("registered", "delivered", "failed", "excluded", "used")
    rows = [
        (name, *(str(getattr(counts[name], column)) for column in columns))
        for name in sources.in_order(counts)
    ]
    return table(
        "What became of the draws", ("mechanism", *columns), rows,
        "A failed draw is used, with every loss at its upper bound. An excluded draw was "
        "taken out by an amendment before the target was opened.",
        "draws",
    )  # fmt: skip


def times_table(ledger: Entries) -> ReportTable:
    """Return how long every kind of step took, from the entry before it to its own.

    Parameters
    ----------
    ledger
        The entries in order; the first has nothing before it and is not timed.
    """
    seconds: dict[Stage, float] = {}
    before: datetime | None = None
    for entry in ledger:
        now = datetime.fromisoformat(entry.body.time)
        if before is not None and entry.stage in TIMED_STEPS:
            took = (now - before).total_seconds()
            seconds[entry.stage] = seconds.get(entry.stage, 0.0) + took
        before = now
    return table(
        "Times", ("step", "at the most"),
        [(TIMED_STEPS[stage], f"{max(1, ceil(took)):,} s") for stage, took in seconds.items()],
        "From one entry of the ledger to the next, waiting included; single draws are not "
        "timed, so that the same seeds leave the same record.",
        "draws",
    )  # fmt: skip


def failure_table(sources: Sources) -> ReportTable:
    """Return every draw that failed, and why.

    The reasons are what the drawing process said, which is text of others: pages escape it.
    """
    rows = [
        (name, str(failure.seed), failure.status, failure.error)
        for name, failures in sources.failed.items()
        for failure in failures
    ]
    return table(
        "Failed draws", ("mechanism", "seed", "status", "reason"), rows,
        "Every loss of a failed draw counts as its upper bound.", "draws",
    )  # fmt: skip


UNSCORED = (
    "A record without a prediction has the worst loss. A record that an attack cannot score is "
    "taken for no member, and so is a member that it cannot score; where an attack could not be "
    "made, it tells nothing, for the release or against it. The others count as they are."
)


def unscored_table(predicate: Predicate | None) -> ReportTable:
    """Return what could not be scored on the target, and how it counted.

    Parameters
    ----------
    predicate
        What was signed; None for a certificate in memory, which has no such record.
    """
    diagnostics = None if predicate is None else predicate.diagnostics
    rows = [
        (name, release, str(records))
        for name, releases in sorted(({} if diagnostics is None else diagnostics.unscored).items())
        for release, records in releases.items()
    ]
    return table(
        "Releases that could not be scored everywhere", ("mechanism", "release", "what happened"),
        rows, UNSCORED, "draws",
    )  # fmt: skip


def missing_table(sources: Sources) -> ReportTable:
    """Return how many losses were missing, of requirements that count them at their bounds."""
    rows = []
    for name in sources.group_names:
        group = sources.groups[name]
        # Evidence that was combined over batches has p-values alone.
        pairs = zip(group.requirements, group.columns, strict=True) if group.columns else ()
        for requirement, column in pairs:
            if column.missing is not None:
                least, most = min(column.missing), max(column.missing)
                number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
                rows.append((name, requirement, number, f"{column.n:,} {sources.counted(name)}"))
    return table(
        "Missing outcomes", ("mechanism", "requirement", "missing losses", "counted"), rows,
        "A missing loss counts as its upper bound where validity is claimed, and in estimates, and "
        "as its lower bound where a violation is. A failed draw has none: each loss is the worst.",
        "evidence",
    )  # fmt: skip


def reference_table(sources: Sources) -> ReportTable:
    """Return what policies that learn nothing would lose, for judging the limits.

    They were judged on validation data when the rules were developed; of several such steps the
    last one counts.
    """
    developed = [body for body in sources.bodies if isinstance(body, Developed)]
    rows = []
    for member, facts in developed[-1].members.items() if developed else ():
        if isinstance(facts, Facts):
            for name, risk in facts.risks.items():
                policies = ", ".join(
                    f"{policy} {float(losses[name]):.4f}"
                    for policy, losses in facts.references.items()
                )
                rows.append((member, name, f"{float(risk):.4f}", policies))
    return table(
        "Reference policies on validation data",
        ("member", "loss of", "source", "policies that learn nothing"), rows,
        "A limit that such a policy meets says little. None of this saw the target.", "draws",
    )  # fmt: skip


def plan_table(sources: Sources) -> ReportTable:
    """Return what was planned beside what happened; empty where no plan was registered.

    What happened is read from the verdicts and the evidence, never from the plan.
    """
    plan = None if sources.registry is None else sources.registry.declaration.plan
    rows: list[tuple[str, ...]] = []
    if plan is not None:
        groups, verdicts = sources.groups, sources.verdicts
        decisions = "; ".join(f"{verdict.mechanism}: {verdict.decision}" for verdict in verdicts)
        records = sorted({column.n for group in groups.values() for column in group.columns})
        draws = [f"{name}: {len(groups[name].releases):,}" for name in sources.group_names]
        rows = [
            ("chance of validation", plan.power, decisions),
            ("share of valid releases", plan.reliability, _intervals(sources)),
            ("target records", f"{plan.records:,}", ", ".join(f"{n:,}" for n in records)),
            ("draws", f"{plan.draws:,}", "; ".join(draws)),
            *((f"margin of {name}", margin, _margins(name, sources))
              for name, margin in plan.margins.items()),
            *([] if plan.cost is None else [("cost", plan.cost, "not recorded")]),
            ("where the plan came from", plan.origin, ""),
        ]  # fmt: skip
    return table(
        "Plan against outcome", ("what", "planned", "happened"), rows,
        "The plan was registered before the target was opened; it decides nothing.", "plan",
    )  # fmt: skip


def _intervals(sources: Sources) -> str:
    """Return the certified interval of each mechanism that has a lower end."""
    words = []
    for verdict in sources.verdicts:
        lower, upper = verdict.reliability_lower, verdict.reliability_upper
        if lower is not None:
            top = 1.0 if upper is None else upper
            words.append(f"{verdict.mechanism}: {lower:.3f} to {top:.3f}")
    return "; ".join(words)


def _margins(name: str, sources: Sources) -> str:
    """Return the mean margin of the releases below the limit of a requirement, by mechanism."""
    if rounding_digits(sources) is not None:
        return "not told of rounded figures"
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


def sequential_table(sources: Sources) -> ReportTable:
    """Return the favorable scores at every registered look that was reached, or each round.

    Of a sequential audit the looks, of a stream of candidates the rounds. The count that validates
    is computed again from the registered claim, so that a page does not rest on a printed number.
    """
    scored = [body for body in sources.bodies if isinstance(body, Favored)]
    columns: tuple[str, ...] = ("when", "decision", "time")
    rows: list[tuple[str, ...]] = [
        (f"round {body.round}", f"{body.decision} at level {float(body.level):.3g}", body.time)
        for body in sources.bodies
        if isinstance(body, Judged)
    ]
    if scored and sources.registry is not None:
        columns = ("when", "favorable scores", "count that validates", "time")
        claim = sources.registry.declaration.claim
        least = dict(look_boundary(claim))
        for look in claim.looks or ():
            reached = look <= len(scored)
            total = str(sum(body.favorable for body in scored[:look]))
            rows.append((
                f"look at {look} draws", total if reached else "not reached",
                _least_words(least.get(look), look), scored[look - 1].time if reached else "",
            ))  # fmt: skip
        total = str(sum(body.favorable for body in scored))
        rows.append((f"ended after {len(scored)} draws", total, "", scored[-1].time))
    return table(
        "The sequential path", columns, rows,
        "Every release was committed to the ledger before it was scored.", "sequential",
    )  # fmt: skip


def _least_words(least: int | None, look: int) -> str:
    """Return the count that validates at a look; some looks come too early for any."""
    if least is None:
        return "not recorded"
    return str(least) if least <= look else "none"


def look_boundary(claim: ClaimPart) -> list[tuple[int, int]]:
    """Return (look, least count that validates) of a registered claim with a sharp bound.

    Parameters
    ----------
    claim
        The registered claim.

    Returns
    -------
    list of (int, int)
        Empty where the claim has no looks, or a bound other than the sharp one.
    """
    target, threshold = claim.reliability_target, claim.threshold
    if claim.bound not in (None, Bound.SHARP) or claim.looks is None:
        return []
    if target is None or threshold is None:
        return []
    return _boundary(tuple(claim.looks), target, threshold, claim.alpha)


@lru_cache(maxsize=8)  # an exact count of paths: seconds at a thousand looks
def _boundary(
    looks: tuple[int, ...], reliability: str, threshold: str, alpha: str
) -> list[tuple[int, int]]:
    target, kappa, level = (float(Fraction(text)) for text in (reliability, threshold, alpha))
    boundary = sharp_boundary(looks, target=target, kappa=kappa, alpha=level)
    if boundary is None:
        return []
    return [(int(n), int(c)) for n, c in zip(boundary.looks, boundary.counts, strict=True)]


def epsilon_table(predicate: Predicate | None) -> ReportTable:
    """Return what became of claimed privacy parameters."""
    records = () if predicate is None else predicate.epsilon or ()
    return table(
        "Claimed epsilons",
        ("mechanism", "claimed epsilon, delta", "attack", "right guesses", "p-value",
         "epsilon at least", "what follows"),
        [
            (r.mechanism, f"{r.claimed}, {r.delta}", r.attack, f"{r.right:,} of {r.guesses:,}",
             f"{r.pvalue:.3g}", f"{floor(1000 * r.lower) / 1000:.3f}", r.sentence)
            for r in records
        ],
        "A coin for each row decided who was trained on. Many right guesses refute a claimed "
        "epsilon; few prove nothing, and no guesses confirm one.",
        "privacy",
    )  # fmt: skip


def status_table(predicate: Predicate | None) -> ReportTable:
    """Return the claim's status with its reasons; nothing where nothing was registered."""
    status = None if predicate is None else predicate.claim_status
    return table(
        "Claim status", ("evidence", "target lineage", "registered", "guarantee"),
        [] if status is None
        else [(status.evidence, status.lineage, status.registered, status.guarantee)],
        section="provenance",
    )  # fmt: skip


def stated_table(predicate: Predicate | None) -> ReportTable:
    """Return what stays the author's word, whatever is verified."""
    listed = () if predicate is None else predicate.stated_not_checked
    return table(
        "Stated, not checked", ("about", "the author's word"),
        [(shortly(stated.about), stated.words) for stated in listed],
        "Nothing in the folder shows these; verify computes the rest again.", "provenance",
    )  # fmt: skip


def lineage_table(ledger: Entries) -> ReportTable:
    """Return where target records, or records with their values, were met elsewhere.

    Parameters
    ----------
    ledger
        The entries; sealing, registering and opening each say what they met, and the worst of these
        is shown.
    """
    bodies = [entry.body for entry in ledger]
    met = worst_met(
        [body.lineage for body in bodies if isinstance(body, Sealed | Registered | Opened)]
    )
    return table(
        "Target records met elsewhere",
        ("audit", "role", "records", "the same records", "value twins", "expected from repeats"),
        [
            (o.audit, o.role, str(o.records), str(o.shared), str(o.twins), o.expected_twins)
            for o in met
        ],
        _twin_words(met), "provenance",
    )  # fmt: skip


def _twin_words(met: Sequence[Overlap]) -> str:
    """Return what value twins are, and where there are too many of them to be other records."""
    words = "Value twins are records with the same values that no table shows to be the same ones."
    many = [f"{overlap.role} of {overlap.audit}" for overlap in met if overlap.excess]
    if not many:
        return (
            f"{words} Two parts of one table whose values repeat as often have as many: they are "
            "not counted as reuse."
        )
    return (
        f"{words} Those in {', '.join(many)} are more than repeated values explain: they are "
        "taken for the same records under another coding."
    )


def ledger_table(ledger: Entries) -> ReportTable:
    """Return every recorded step with what it says in short.

    Of many draws and scores those in the middle are left out, and the note says how many; the
    ledger in the folder has them all.
    """
    # A sequential audit writes two entries a draw; thousands of them would bury the other steps.
    several = [i for i, entry in enumerate(ledger) if entry.stage in (Stage.DRAWN, Stage.SCORED)]
    dropped = set(several[2 * KEPT_ENTRIES : -2 * KEPT_ENTRIES])
    rows = [
        (entry.stage.value, entry.body.time, _said(entry.body), entry.previous)
        for i, entry in enumerate(ledger)
        if i not in dropped
    ]
    return table(
        "Ledger", ("step", "time", "what", "digest of the entry before"), rows,
        f"{len(dropped)} draws and scores in between are in the folder's ledger."
        if dropped else "",
        "provenance",
    )  # fmt: skip


def _said(body: LedgerBody) -> str:
    """Return what an entry says, in short.

    Raises
    ------
    TypeError
        Where a body has no words here: a new kind of entry needs its case.
    """
    match body:
        case Sealed(steward=None):
            return "target set aside; no steward"
        case Sealed(steward=str(who)):
            return f"target set aside; steward {_short(who)}"
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
    """Return the beginning of a digest or key; the page has it whole in another table."""
    return f"{digest[:16]}..."


def _decided(body: Corrected) -> str:
    """Return what a correction says of each mechanism."""
    return "; ".join(f"{name} {decision}" for name, decision in body.decisions.items())


def digest_table(sources: Sources) -> ReportTable:
    """Return who signed and which bytes everything rests on; nothing where nobody signed.

    Keys that were handed over stand here with their successors, so that a reader can follow who
    signed which part of the ledger.
    """
    rows: list[tuple[str, str]] = []
    if sources.predicate is not None:
        # Subjects and files are sorted: a statement may list them in any order.
        steward = sources.predicate.attestation.steward
        rows = [
            ("signed by", sources.signer),
            ("ledger, last entry", sources.head),
            *((f"key handed over from {_short(entry.signer)} to", entry.body.successor[:64])
              for entry in sources.ledger if isinstance(entry.body, Rotated)),
            *([] if steward is None else [("steward", steward)]),
            *((f"digest of {name}", sha) for name, sha in sorted(sources.subjects.items())),
            *((f"{name} ({entry.stage.value})", sha)
              for entry in sources.ledger if isinstance(entry.body, Certified | Corrected)
              for name, sha in sorted(entry.body.files.items())),
        ]  # fmt: skip
    return table(
        "Digests and signers", ("what", "SHA-256 or public key"), rows, section="provenance"
    )


def software_table(sources: Sources) -> ReportTable:
    """Return the versions at sealing and at registration.

    A package that only one of both steps knows has an empty cell for the other.
    """
    # There is one sealing in a ledger, and none for a certificate in memory.
    seals = [body.software for body in sources.bodies if isinstance(body, Sealed)]
    sealed: Mapping[str, str] = seals[0] if seals else {}
    registered = {} if sources.predicate is None else sources.predicate.software
    names = sorted({*sealed, *registered})
    return table(
        "Software", ("package", "at sealing", "at registration"),
        [(name, sealed.get(name, ""), registered.get(name, "")) for name in names],
        section="provenance",
    )  # fmt: skip


def generator_table(sources: Sources) -> ReportTable:
    """Return what made the releases: generator, where its code came from, its settings.

    Tables that were given and not drawn have no code and no version.
    """
    rows = []
    for member in sources.members.values():
        for name, mechanism in member.mechanisms.items():
            settings = "; ".join(f"{k} {v}" for k, v in sorted(mechanism.describe.items()))
            code = ("", "")
            if isinstance(mechanism, DrawnMechanism):
                code = mechanism.origin.path, mechanism.origin.version
            rows.append((name, mechanism.generator, *code, settings))
    return table(
        "Generators", ("mechanism", "generator", "code", "version", "settings"), rows,
        section="provenance",
    )  # fmt: skip


def lenient_words(sources: Sources) -> list[str]:
    """Return which limits a policy that learns nothing meets, on validation data."""
    developed = [body for body in sources.bodies if isinstance(body, Developed)]
    limits = {
        name: float(limit)
        for group in sources.groups.values()
        for name, limit in zip(group.requirements, group.limits, strict=True)
    }
    notes = []
    for name, member in sources.members.items():
        facts = developed[-1].members.get(name) if developed else None
        if not isinstance(facts, Facts):
            continue
        for part in (r.part for r in member.requirements):
            if part.name not in limits or part.name not in facts.risks:
                continue
            base = float(facts.risks[part.name]) if part.form == "relative" else 0.0
            met = [p for p, lost in facts.references.items()
                   if float(lost[part.name]) - base < limits[part.name]]  # fmt: skip
            if met:
                notes.append(
                    f"Meeting {part.name!r} says little: a model that learns nothing and always "
                    f"answers alike ({', '.join(met)}) would meet its limit too"
                )
    return notes


def clear_words(sealed: Sealed) -> list[str]:
    """Return which records lie in the folder in clear, a sentence for each member."""
    return [
        f"{name}: development/ holds {sum(member.development.values()):,} records in clear, "
        f"with the columns {some([column for column, _ in member.kinds], MOST_TOLD)}: whoever "
        "gets the folder gets them"
        for name, member in sealed.members.items()
        if member.development
    ]


def notes_of(sources: Sources) -> list[str]:
    """Return what was changed, admitted or corrected, in words.

    Returns
    -------
    list of str
        Limits that say little, what stands in the folder in clear, amendments, exclusions that
        became void, draws made again, deviations, corrections, and which draws are only
        descriptive: in the order of the ledger, exclusions last.
    """
    notes = lenient_words(sources)
    for body in sources.bodies:
        if isinstance(body, Sealed):
            notes += clear_words(body)
        elif isinstance(body, Amended):
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
    """Return the guarantee as certified, and what was admitted after that.

    Parameters
    ----------
    status
        What the certificate says.
    ledger
        The entries, among them those after the certificate.
    """
    later = "; but deviations were recorded later, see the notes"
    return f"{status.guarantee}{later if _later_deviations(ledger) else ''}"


def lost_guarantee(status: ClaimStatusRecord, ledger: Entries) -> str:
    """Return why no guarantee remains, or nothing where one does.

    Parameters
    ----------
    status
        What the certificate says of the claim: ``no``, or ``no: reason``, where none remained.
    ledger
        The entries of the ledger: a deviation recorded after the certificate ends it too.
    """
    # The certificate writes "no" or "no: reason"; whatever else it says is a guarantee.
    head, _, why = status.guarantee.partition(":")
    reasons = [why.strip() or "as certified"] if head.strip() == "no" else []
    reasons += [f"deviation recorded later: {reason}" for reason in _later_deviations(ledger)]
    return f"No guarantee remains: {'; '.join(reasons)}." if reasons else ""


def shown_verdicts(verdicts: tuple[VerdictRecord, ...], lost: str) -> tuple[VerdictRecord, ...]:
    """Return verdicts as they are shown: without a guarantee each sentence says so first.

    Parameters
    ----------
    verdicts
        As they were certified.
    lost
        Why no guarantee remains, as `lost_guarantee` says it; nothing changes where one does.
    """
    if not lost:
        return verdicts
    return tuple(v.model_copy(update={"sentence": NO_GUARANTEE + v.sentence}) for v in verdicts)


def _later_deviations(ledger: Entries) -> list[str]:
    """Return the reasons of the deviations that were recorded after the certificate."""
    stages = [entry.stage for entry in ledger]
    # A deviation before the certificate is in its claim status already.
    first = stages.index(Stage.CERTIFIED) if Stage.CERTIFIED in stages else len(stages)
    return [entry.body.reason for entry in ledger[first:] if isinstance(entry.body, Deviated)]
