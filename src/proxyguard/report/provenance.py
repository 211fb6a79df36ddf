"""Where a report comes from: ledger, digests, signers, lineage, software."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxyguard.certificate.wording import CHOSEN_AFTER_OPENING
from proxyguard.documents.ledger import Overlap
from proxyguard.report.parts import Table
from proxyguard.seal.lineage import worst_met

Ledger = Sequence[Mapping[str, Any]]


def status_table(predicate: Mapping[str, Any]) -> Table:
    """Return the claim's status with its reasons."""
    status = predicate["claim_status"]
    return Table(
        title="Claim status",
        columns=("evidence", "target lineage", "registered", "guarantee"),
        rows=((status["evidence"], status["lineage"], status["registered"], status["guarantee"]),),
        section="provenance",
    )


def stated_table(predicate: Mapping[str, Any]) -> Table:
    """Return what stays the author's word, whatever is verified."""
    listed = predicate.get("stated_not_checked", ())
    return Table(
        title="Stated, not checked",
        columns=("about", "the author's word"),
        rows=tuple((str(one["about"]), str(one["words"])) for one in listed),
        note="Nothing in the folder shows these; verify computes the rest again.",
        section="provenance",
    )


def lineage_table(ledger: Ledger) -> Table:
    """Return where target records, or records with their values, were met elsewhere."""
    met = worst_met(
        [
            [Overlap.of(one, "the ledger") for one in entry["body"]["lineage"]]
            for entry in ledger
            if "lineage" in entry["body"]
        ]
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


def ledger_table(ledger: Ledger) -> Table:
    """Return every recorded step with what it says in short."""
    shown = _shortened(ledger)
    return Table(
        title="Ledger",
        columns=("step", "time", "what", "digest of the entry before"),
        rows=tuple(
            (
                entry["stage"],
                str(entry["body"].get("time", "")),
                _said(entry["stage"], entry["body"]),
                entry["previous"],
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


def _shortened(ledger: Ledger) -> list[Mapping[str, Any]]:
    single = [i for i, entry in enumerate(ledger) if entry["stage"] in ("drawn", "scored")]
    dropped = set(single[2 * KEPT : -2 * KEPT])
    return [entry for i, entry in enumerate(ledger) if i not in dropped]


def _said(stage: str, body: Mapping[str, Any]) -> str:
    if stage == "sealed":
        who = body.get("steward")
        return f"target set aside; {'steward ' + who[:16] + '...' if who else 'no steward'}"
    if stage == "registered":
        return f"declaration {body['declaration'][:16]}..., {body['path']} path"
    if stage == "amended":
        return f"amendment: {body['reason']}"
    if stage == "drawn":
        name = body.get("record", {}).get("name", "all releases")
        return f"{name}, digest {body.get('release', body.get('releases', ''))[:16]}..."
    if stage == "scored":
        word = body.get("decision") or ("favorable" if body["favorable"] else "not favorable")
        return str(word)
    if stage == "opened":
        return "granted" if body.get("grant") else "self-attested"
    if stage == "deviated":
        return f"deviation: {body['reason']}"
    if stage == "rotated":
        return f"signing key handed over to {body['successor'][:16]}..."
    if stage == "corrected":
        decisions = "; ".join(f"{n} {d}" for n, d in body["decisions"].items())
        return f"corrective certificate ({body['reason']}): {decisions}"
    return {"developed": "the source fitted and judged on development data",
            "certified": "evidence and certificate"}.get(stage, "")  # fmt: skip


def digest_table(
    subjects: Mapping[str, str], ledger: Ledger, *, signer: str, head: str, steward: str | None
) -> Table:
    """Return who signed and which bytes everything rests on."""
    rows = [("signed by", signer), ("ledger, last entry", head)]
    rows += [
        (f"key handed over from {entry['signer'][:16]}... to", entry["body"]["successor"][:64])
        for entry in ledger
        if entry["stage"] == "rotated"
    ]
    if steward is not None:
        rows.append(("steward", steward))
    rows += [(f"digest of {name}", value) for name, value in sorted(subjects.items())]
    for entry in ledger:
        for name, value in sorted(entry["body"].get("files", {}).items()):
            if entry["stage"] in ("certified", "corrected"):
                rows.append((f"{name} ({entry['stage']})", value))
    return Table(
        title="Digests and signers",
        columns=("what", "SHA-256 or public key"),
        rows=tuple(rows),
        section="provenance",
    )


def software_table(predicate: Mapping[str, Any], ledger: Ledger) -> Table:
    """Return the versions at sealing and at registration."""
    seals = [entry["body"].get("software", {}) for entry in ledger if entry["stage"] == "sealed"]
    sealed: Mapping[str, str] = seals[0] if seals else {}
    registered = predicate["software"]
    names = sorted({*sealed, *registered})
    return Table(
        title="Software",
        columns=("package", "at sealing", "at registration"),
        rows=tuple((n, sealed.get(n, ""), registered.get(n, "")) for n in names),
        section="provenance",
    )


def generator_table(registry: Mapping[str, Any]) -> Table:
    """Return what made the releases: generator, where its code came from, its settings."""
    rows = []
    for member in registry["members"].values():
        for name, one in member.get("mechanisms", {}).items():
            origin = one.get("origin") or {}
            settings = "; ".join(f"{k} {v}" for k, v in sorted(one.get("describe", {}).items()))
            rows.append((name, str(one.get("generator")), str(origin.get("path", "")),
                         str(origin.get("version", "")), settings))  # fmt: skip
    return Table(
        title="Generators",
        columns=("mechanism", "generator", "code", "version", "settings"),
        rows=tuple(rows),
        section="provenance",
    )


def notes_of(predicate: Mapping[str, Any], ledger: Ledger) -> list[str]:
    """Return what was changed, admitted or corrected, in words."""
    notes = []
    for entry in ledger:
        body = entry["body"]
        if entry["stage"] == "amended":
            notes.append(f"Amended before opening: {body['reason']}")
            notes += [
                f"{one['mechanism']}: the exclusion of draw {one['seed']} is void, because this "
                "amendment did not repeat it"
                for one in body.get("void", [])
            ]
        elif entry["stage"] == "drawn":
            notes += [
                f"{one['mechanism']}: draw {one['seed']} was dropped and made again; it came out "
                f"{'the same' if one['same'] else 'otherwise'}"
                for one in body.get("again", [])
            ]
        elif entry["stage"] == "deviated":
            notes.append(f"Deviation recorded after opening: {body['reason']}")
        elif entry["stage"] == "corrected":
            notes.append(
                f"Corrective certificate ({body['reason']}), which does not replace the record: "
                + "; ".join(f"{n} {d}" for n, d in body["decisions"].items())
                + f". {CHOSEN_AFTER_OPENING}"
            )
    for name, releases in predicate.get("excluded", {}).items():
        notes.append(f"{name}: draws {', '.join(releases)} are descriptive, by amendment")
    return notes


def guarantee_of(predicate: Mapping[str, Any], ledger: Ledger) -> str:
    """Return the guarantee as certified, and what was admitted after that."""
    words = str(predicate["claim_status"]["guarantee"])
    later = _later_deviations(ledger)
    return words if not later else f"{words}; but deviations were recorded later, see the notes"


def lost_guarantee(predicate: Mapping[str, Any], ledger: Ledger) -> str:
    """Return why no guarantee remains, or nothing where one does."""
    head, _, why = str(predicate["claim_status"]["guarantee"]).partition(":")
    reasons = [why.strip() or "as certified"] if head.strip() == "no" else []
    reasons += [f"deviation recorded later: {reason}" for reason in _later_deviations(ledger)]
    return f"No guarantee remains: {'; '.join(reasons)}." if reasons else ""


def _later_deviations(ledger: Ledger) -> list[str]:
    """Return the reasons of the deviations that were recorded after the certificate."""
    stages = [entry["stage"] for entry in ledger]
    first = stages.index("certified") if "certified" in stages else len(stages)
    return [str(e["body"]["reason"]) for e in ledger[first:] if e["stage"] == "deviated"]
