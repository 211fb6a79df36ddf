"""docs/membership-attacks.md: the paper's attacks (App. V) on our releases, and exact claims."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from math import sqrt
from pathlib import Path

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from reproduction.audits import attack
from reproduction.audits.attack import (
    ATTACKS,
    CEILING,
    LIMITS,
    RATES,
    ClaimEvidence,
    Exact,
    ReleaseResult,
    calibrating,
    decisions,
    needed_means,
)
from reproduction.audits.attacked import BINS, FEW, MECHANISMS, PUBLISHED_TABLES, TABLES
from reproduction.audits.tables import ORDER, table
from reproduction.studies.exposure import DESIGN, EXACT, PAIRED, chance
from reproduction.studies.plotting import LIGHT_GREY, ORANGE, heat, save, sheet, style

FIGURE = "membership-attacks.svg"
HEADINGS = {
    Exact.ADVANTAGE: "at the paper's threshold",
    Exact.EVERYWHERE: "everywhere",
    Exact.TPR: "found at 1 %",
    Exact.AUC: "AUC",
}
PUBLISHED_MECHANISMS = ("AIM, 1", "AIM, 5", "AIM, 10", "TabDDPM")
SAME_FAMILY = 12
"""Releases of the paper's family."""


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class PublishedRow:
    """One row of the paper's table of attacks."""

    generator: str
    table: str
    auc: str
    attack: str
    found: str
    decisions: tuple[int, int, int]


_DOCUMENT = tomllib.loads(
    files("reproduction.audits").joinpath("attacks.toml").read_text(encoding="utf-8")
)
PUBLISHED = TypeAdapter(tuple[PublishedRow, ...]).validate_python(_DOCUMENT["published"])
WORDS = TypeAdapter(dict[str, str]).validate_python(_DOCUMENT["words"])


def _say(paragraph: str, **filled: object) -> str:
    return WORDS[paragraph].format(**filled)


def page(results: Sequence[ReleaseResult]) -> str:
    """Return the page about a whole family of releases."""
    paired = decisions([{n: a.paired for n, a in one.attacks.items()} for one in results])
    exact = {
        kind: decisions([{n: a.exact[kind] for n, a in one.attacks.items()} for one in results])
        for kind in Exact
    }
    parts = [
        _say("introduction", ceiling=CEILING, missing=_missing(results)),
        _say("tables") + _sizes(results),
        _say("mechanisms", few=FEW, bins=BINS),
        _highest(results, paired),
        _say("figures", repetitions=attack.REPETITIONS) + _figures(results),
        _arithmetic(results, paired),
        _exact(results, paired, exact),
        _resolved(results, paired, exact[Exact.ADVANTAGE]),
        _copies(results),
        _say("differs"),
    ]
    return "\n".join(parts)


def _missing(results: Sequence[ReleaseResult]) -> str:
    """Return of which published releases there is none here, in a sentence."""
    attacked = {(one.table, one.mechanism) for one in results}
    left = [
        f"{name} on {TABLES[table].title}"
        for table in PUBLISHED_TABLES
        for name in PUBLISHED_MECHANISMS
        if (table, name) not in attacked
    ]
    if not left:
        return "All twelve published releases have one here."
    return f"Published releases of which none was drawn here: {'; '.join(left)}."


def _title(result: ReleaseResult) -> str:
    return TABLES[result.table].title


def _sizes(results: Sequence[ReleaseResult]) -> str:
    rows = []
    for name, attacked in TABLES.items():
        of_table = {one.mechanism: one for one in results if one.table == name}
        first = list(of_table.values())[-1]
        copied = (
            f"{of_table[mechanism].copied_members:,}" if mechanism in of_table else ""
            for mechanism in MECHANISMS
        )  # fmt: skip
        rows.append((attacked.title, first.columns, f"{first.members:,}", f"{first.reference:,}",
                     f"{first.nonmembers:,}", first.copies, *copied))  # fmt: skip
    columns = (
        "table", "columns", "members", "reference", "nonmembers", "copies",
        *(f"copied members, {name}" for name in MECHANISMS),
    )  # fmt: skip
    return table(columns, rows)


def _highest(results: Sequence[ReleaseResult], paired: Sequence[str]) -> str:
    rows: list[tuple[object, ...]] = [
        (f"{row.generator} (published)", row.table, row.auc, "", row.attack, row.found, "",
         " / ".join(map(str, row.decisions)))
        for row in PUBLISHED
    ]  # fmt: skip
    for one, decision in zip(results, paired, strict=True):
        name = max(one.attacks, key=lambda name: one.attacks[name].auc)
        best = one.attacks[name]
        counts = " / ".join("1" if decision == kind else "0" for kind in ORDER)
        low, high = np.quantile([figures.auc[0] for figures in best.seeds], (0.025, 0.975))
        found = (
            _interval(np.mean([f.found[k] for f in best.seeds], axis=0)) for k in range(len(RATES))
        )
        rows.append((one.mechanism, _title(one), f"{best.auc:.3f}", f"{low:.3f} to {high:.3f}",
                     name, *found, counts))  # fmt: skip
    columns = ("mechanism", "table", "highest AUC", "over seeds", "attack", "found at 1 %",
               "found at 5 %", "decisions")  # fmt: skip
    return _say("highest", releases=len(results), attacks=_attacks(results)) + table(columns, rows)


def _interval(figure: Sequence[float]) -> str:
    """Return a figure and the ends of its interval."""
    mean, low, high = figure
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _attacks(results: Sequence[ReleaseResult]) -> int:
    return len(results) * len(ATTACKS)


def _figures(results: Sequence[ReleaseResult]) -> str:
    rows = []
    for one in results:
        cells = [
            _interval(np.mean([figures.auc for figures in one.attacks[name].seeds], axis=0))
            for name in ATTACKS
        ]
        rows.append((_title(one), one.mechanism, *cells))
    return table(("table", "mechanism", *ATTACKS), rows)


def _arithmetic(results: Sequence[ReleaseResult], paired: Sequence[str]) -> str:
    sizes = sorted({calibrating_rest(one) for one in results})
    rows = []
    for m in sizes:
        theirs, here = needed_means(m, SAME_FAMILY), needed_means(m, len(results))
        cell = {"claim": DESIGN, "n": m, "advantage": 0.0, "ceiling": CEILING}
        chances = (chance(cell, f"{test}, .05/12") for test in (PAIRED, EXACT))
        rows.append(
            (m, *(f"{mean:.3f}" for mean in (*theirs, *here)), *(f"{c:.2g}" for c in chances))
        )
    columns = ("pairs", "validates at most at, 12 releases", "violation at least at, 48 attacks",
               f"validates, {len(results)}", f"violation, {_attacks(results)}",
               "chance to validate without a leak", "the exact test's chance")  # fmt: skip
    means = [a.paired.statistic for one in results for a in one.attacks.values()]
    here_words = _say(
        "arithmetic_here", releases=len(results), attacks=_attacks(results), low=min(means),
        high=max(means), validated=paired.count("validated"), violations=paired.count("violation"),
    )  # fmt: skip
    least = float(attack.QUANTILE) - 1.0
    return _say("arithmetic", least=least) + table(columns, rows) + "\n" + here_words


def calibrating_rest(result: ReleaseResult) -> int:
    """Return the pairs of the paper's test: nonmembers of a sample that set no threshold."""
    sampled = min(result.nonmembers, LIMITS["nonmembers"])
    return sampled - calibrating(sampled)


def _exact(
    results: Sequence[ReleaseResult],
    paired: Sequence[str],
    exact: dict[Exact, list[str]],
) -> str:
    rows = []
    for k, one in enumerate(results):
        tests = [one.attacks[name].paired for name in ATTACKS]
        cells = [_cell(paired[k], tests)]
        for kind in Exact:
            tests = [one.attacks[name].exact[kind] for name in ATTACKS]
            cells.append(_cell(exact[kind][k], tests, least=kind is Exact.TPR))
        rows.append((_title(one), one.mechanism, *cells))
    members = sorted({one.members for one in results})
    phi = 1.0 - float(attack.QUANTILE)
    noise = ", ".join(f"{sqrt(phi * (1.0 - phi) / n):.3f} ({n:,} members)" for n in members)
    words = _say(
        "exact", seed=attack.CLAIM_SEED, kind="members and nonmembers", ceiling=CEILING,
        everywhere=attack.EVERYWHERE, thresholds=attack.THRESHOLDS, found=attack.FOUND,
        counted=_counted(results), area=attack.AREA, releases=len(results),
        attacks=_attacks(results), level=attack.LEVEL,
        noise=f"{noise} at a threshold with 5 % false alarms, as one standard deviation",
    )  # fmt: skip
    columns = ("table", "mechanism", "the paper's test", *HEADINGS.values())
    return words + table(columns, rows)


def _counted(results: Sequence[ReleaseResult]) -> str:
    """Return how many nonmembers the claim at the paper's threshold counts, by table."""
    of_table = {
        _title(one): next(iter(one.attacks.values())).exact[Exact.ADVANTAGE].n for one in results
    }
    return "; ".join(f"{title}: {n:,}" for title, n in of_table.items())


def _copies(results: Sequence[ReleaseResult]) -> str:
    of_table = {_title(one): (one.copies, one.nonmembers) for one in results if one.copies}
    counts = "; ".join(f"{title}: {copies} of {n:,}" for title, (copies, n) in of_table.items())
    return _say("copies", counts=counts or "none")


def _cell(decision: str, tests: Sequence[ClaimEvidence], *, least: bool = False) -> str:
    """Return a decision, the worst statistic, and the p-value that decides."""
    worst = (min if least else max)(test.statistic for test in tests)
    p = (
        min(test.violation for test in tests) if decision == "violation"
        else max(test.validation for test in tests)
    )  # fmt: skip
    return f"{decision} ({worst:.3f}, p {p_text(p)})"


def p_text(p: float) -> str:
    """Return a p-value for reading.

    >>> p_text(2.2e-308), p_text(0.0123), p_text(1.0)
    ('< 1e-99', '0.012', '1')
    """
    return "< 1e-99" if p < 1e-99 else f"{p:.2g}"


def _resolved(results: Sequence[ReleaseResult], paired: Sequence[str], exact: Sequence[str]) -> str:
    def names(decision: str) -> list[str]:
        return [
            f"{_title(one)}: {one.mechanism}"
            for one, theirs, ours in zip(results, paired, exact, strict=True)
            if theirs == "unresolved" and ours == decision
        ]

    validated, violations = names("validated"), names("violation")
    return _say(
        "resolved", releases=len(results), unresolved=paired.count("unresolved"),
        validated=len(validated), validated_names="; ".join(validated) or "none",
        violations=len(violations), violation_names="; ".join(violations) or "none",
    )  # fmt: skip


def draw_figure(results: Sequence[ReleaseResult], path: Path) -> None:
    """Draw the mean AUC of every release and attack, a panel a table."""
    with style():
        figure, panels = sheet(
            1, len(TABLES), "Mean membership AUC over ten attacker seeds", height=4.2,
            note="0.5: the attack tells nothing. Rows are single releases of the mechanisms here; "
            "a number is the epsilon. An empty row: no release.",
        )  # fmt: skip
        for k, (name, attacked) in enumerate(TABLES.items()):
            values = {
                (one.mechanism, which): result.auc
                for one in results
                if one.table == name
                for which, result in one.attacks.items()
            }
            ax = panels[0][k]
            heat(
                ax, values, colours=(LIGHT_GREY, ORANGE), across=tuple(ATTACKS),
                down=tuple(MECHANISMS)[::-1], middle=0.5, reach=0.5,
                write=lambda mean: f"{mean:.3f}",
            )  # fmt: skip
            ax.set_title(attacked.title)
            ax.tick_params(axis="x", labelsize=7)
            if k:
                ax.set_yticklabels([])
        save(figure, path)


def write_page(results: Sequence[ReleaseResult], path: Path) -> None:
    """Write the page, and its figure beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_figure(results, path.with_name(FIGURE))
    path.write_text(page(results), "utf-8")
