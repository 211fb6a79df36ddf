"""What a report says, in order, before it becomes Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

DECISIONS = {"validated": "VALIDATED", "unresolved": "UNRESOLVED", "violation": "VIOLATION"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under a heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One decision with its sentence."""

    name: str
    decision: str
    sentence: str
    lines: tuple[str, ...]


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


def build_report(
    predicate: Mapping[str, Any],
    evidence: Mapping[str, Any],
    registry: Mapping[str, Any],
    ledger: Sequence[Mapping[str, Any]],
    *,
    signer: str,
) -> Report:
    """Return the report of a certified audit."""
    tables = [
        *_requirement_tables(predicate, evidence, registry),
        *_budget_tables(predicate),
        *_draw_tables(predicate),
        *_reference_tables(registry, ledger),
        *_uncertified_tables(predicate),
        _status_table(predicate),
        *_lineage_tables(ledger),
        _ledger_table(ledger),
    ]
    return Report(
        name=predicate["name"],
        purpose=predicate["purpose"],
        attestation=predicate["attestation"]["words"],
        guarantee=_guarantee(predicate, ledger),
        verdicts=tuple(_verdict(v) for v in predicate["verdicts"]),
        about=tuple(_about(predicate)),
        not_claimed=tuple(predicate["not_claimed"]),
        tables=tuple(table for table in tables if table.rows),
        verify=f"proxyguard verify DIR   (signed by {signer})",
        notes=tuple(_notes(predicate, ledger)),
    )


def _guarantee(predicate: Mapping[str, Any], ledger: Sequence[Mapping[str, Any]]) -> str:
    """Return the guarantee as certified, and what was admitted after that."""
    stages = [entry["stage"] for entry in ledger]
    later = stages[stages.index("certified") :].count("deviated") if "certified" in stages else 0
    words = str(predicate["claim_status"]["guarantee"])
    return words if later == 0 else f"{words}; but deviations were recorded later, see the notes"


def _verdict(verdict: Mapping[str, Any]) -> Verdict:
    lines = []
    for side in ("lower", "upper"):
        bound = verdict.get(side)
        if bound is None or "reliability_target" not in verdict:
            continue
        shown = _cut(bound["value"], up=side == "upper")
        certified = verdict.get("certified", "bounds") == "bounds"
        mark = "" if certified else " (not certified by itself: the family's decision is)"
        steps = ", ".join(f"{s['label']} {s['value']:.6g}" for s in bound["steps"])
        lines.append(f"{side} bound {shown}{mark}: {bound['rests_on']}; from {steps}")
    if "reliability_target" in verdict:
        lines.append(
            f"required reliability: more than {verdict['reliability_target']:g}; releases: "
            f"{verdict.get('n_releases', verdict.get('draws'))}"
        )
    if "adjusted" in verdict:
        lines.append(
            f"Holm-adjusted p-value {verdict['adjusted']:.3g}; least certain of "
            f"{verdict['binding']}"
        )
    lines += [f"note: {note}" for note in verdict.get("notes", [])]
    return Verdict(
        name=verdict["mechanism"],
        decision=DECISIONS[verdict["decision"]],
        sentence=verdict["sentence"],
        lines=tuple(lines),
    )


def _about(predicate: Mapping[str, Any]) -> list[str]:
    lines = [f"Means are over {words}." for words in predicate["estimand"].values()]
    order = [v["mechanism"] for v in predicate["verdicts"]]
    redraws = predicate.get("redraws", {})
    for mechanism in sorted(redraws, key=lambda n: order.index(n) if n in order else -1):
        stages = redraws[mechanism]
        redrawn = "; ".join(stages) or "nothing that is known here"
        fixed = "; ".join(predicate["conditional_on"][mechanism])
        lines.append(f"{mechanism}: every draw redraws {redrawn}. Conditional on {fixed}.")
    for mechanism, words in sorted(predicate.get("privacy", {}).items()):
        lines += [f"Privacy of {mechanism}: {line}" for line in words]
    return lines


def _notes(predicate: Mapping[str, Any], ledger: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    for entry in ledger:
        body = entry["body"]
        if entry["stage"] == "amended":
            notes.append(f"Amended before opening: {body['reason']}")
        elif entry["stage"] == "deviated":
            notes.append(f"Deviation recorded after opening: {body['reason']}")
        elif entry["stage"] == "corrected":
            notes.append(
                f"Corrective certificate ({body['reason']}), which does not replace the record: "
                + "; ".join(f"{n} {d}" for n, d in body["decisions"].items())
            )
    for name, releases in predicate.get("excluded", {}).items():
        notes.append(f"{name}: draws {', '.join(releases)} are descriptive, by amendment")
    return notes


def _requirement_tables(
    predicate: Mapping[str, Any], evidence: Mapping[str, Any], registry: Mapping[str, Any]
) -> list[Table]:
    members = registry["members"]
    tables = []
    order = [v["mechanism"] for v in predicate["verdicts"]]  # JSON sorts names, people do not
    for name in sorted(evidence["groups"], key=lambda n: order.index(n) if n in order else -1):
        group = evidence["groups"][name]
        derived = group["derived"]
        own = members[name] if name in members else next(iter(members.values()))
        rules = {one["part"]["name"]: one["limit"]["rule"] for one in own["requirements"]}
        rows = []
        for j, requirement in enumerate(group["requirements"]):
            estimates = [row[j] for row in derived["estimates"]]
            declared = requirement.split(" (target ")[0]
            rule = rules.get(requirement) or rules.get(declared.split(":")[0], "")
            rows.append(
                (
                    requirement,
                    f"{float(group['limits'][j]):g}",
                    rule,
                    str(group["columns"][j]["n"]) if group["columns"] else "",
                    _cut(min(estimates), up=False),
                    _cut(sum(estimates) / len(estimates), up=True),
                    _cut(max(estimates), up=True),
                    _cut(max(row[j] for row in derived["upper"]), up=True),
                    group["tests"][j],
                )
            )
        tables.append(
            Table(
                title=f"Requirements: {name}",
                columns=("requirement", "limit", "limit's rule", "records", "least", "mean",
                         "largest", "largest upper bound", "test"),
                rows=tuple(rows),
                note="Estimates over the releases. Upper bounds hold for all releases and "
                "requirements at once; they are for reading and decide nothing.",
            )
        )  # fmt: skip
    return tables


def _budget_tables(predicate: Mapping[str, Any]) -> list[Table]:
    rows = []
    for verdict in predicate["verdicts"]:
        for side in ("lower", "upper"):
            bound = verdict.get(side)
            for part in (bound or {}).get("budget", []):
                rows.append((verdict["mechanism"], side, part["symbol"], part["event"],
                             part["amount"]))  # fmt: skip
    return [
        Table(
            title="Error budget",
            columns=("mechanism", "bound", "part", "pays for", "amount"),
            rows=tuple(rows),
        )
    ]


def _draw_tables(predicate: Mapping[str, Any]) -> list[Table]:
    rows = [
        (name, str(one["seed"]), one["status"], one["error"])
        for name, failures in predicate.get("failed", {}).items()
        for one in failures
    ]
    return [
        Table(
            title="Failed draws",
            columns=("mechanism", "seed", "status", "reason"),
            rows=tuple(rows),
            note="Every loss of a failed draw counts as its upper bound.",
        )
    ]


def _reference_tables(
    registry: Mapping[str, Any], ledger: Sequence[Mapping[str, Any]]
) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for entry in ledger:
        if entry["stage"] != "developed":
            continue
        rows = []
        for member, facts in entry["body"]["members"].items():
            for name, risk in facts.get("risks", {}).items():
                policies = [
                    f"{policy} {float(losses[name]):.4f}"
                    for policy, losses in facts.get("references", {}).items()
                ]
                rows.append((member, name, f"{float(risk):.4f}", ", ".join(policies)))
    return [
        Table(
            title="Reference policies on validation data",
            columns=("member", "loss of", "source", "policies that learn nothing"),
            rows=tuple(rows),
            note="A limit that such a policy meets says little. None of this saw the target.",
        )
    ]


def _uncertified_tables(predicate: Mapping[str, Any]) -> list[Table]:
    rows = []
    for name, spec in predicate.get("secondary", {}).items():
        for mechanism, result in spec["results"].items():
            bounds = ", ".join(
                f"{side} {_cut(result[side], up=side == 'upper')}"
                for side in ("lower", "upper")
                if result.get(side) is not None
            )
            rows.append((f"secondary {name!r}", mechanism, result["decision"], bounds))
    diagnostics = predicate.get("diagnostics") or {"auc": {}, "source_auc": {}}
    for name, values in diagnostics["auc"].items():
        known = [v for v in values.values() if v is not None]
        source = diagnostics["source_auc"].get(name)
        if known:
            rows.append(
                (
                    "AUC",
                    name,
                    f"mean {sum(known) / len(known):.4f}",
                    "" if source is None else f"source {source:.4f}",
                )
            )
    return [
        Table(
            title="Not certified",
            columns=("what", "mechanism", "result", ""),
            rows=tuple(rows),
            note="Computed on the same target. Only the registered certificate decides.",
        )
    ]


def _status_table(predicate: Mapping[str, Any]) -> Table:
    status = predicate["claim_status"]
    return Table(
        title="Claim status",
        columns=("evidence", "target lineage", "registered", "guarantee"),
        rows=((status["evidence"], status["lineage"], status["registered"], status["guarantee"]),),
    )


def _lineage_tables(ledger: Sequence[Mapping[str, Any]]) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for entry in ledger:
        if entry["stage"] == "opened":
            rows = [
                (
                    one["audit"], one["role"], str(one["records"]), str(one["shared"]),
                    str(one["twins"]), one["expected_twins"],
                )
                for one in entry["body"]["lineage"]
            ]  # fmt: skip
    return [
        Table(
            title="Target records met elsewhere",
            columns=("audit", "role", "records", "the same records", "value twins",
                     "expected by coincidence"),
            rows=tuple(rows),
            note="Value twins are other records with the same values; they are not reuse.",
        )
    ]  # fmt: skip


def _ledger_table(ledger: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        title="Ledger",
        columns=("step", "time", "digest of the entry before"),
        rows=tuple(
            (entry["stage"], str(entry["body"].get("time", "")), entry["previous"])
            for entry in ledger
        ),
    )


def _cut(value: float | str, *, up: bool) -> str:
    """Return a number with four decimals, rounded so that it claims no more."""
    number = float(value)
    return f"{(ceil if up else floor)(number * 10_000) / 10_000:.4f}"
