"""``reproduction.md``: every study's rows beside what was published, in words and tables."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import proxyguard
from reproduction.studies.crossing import cross_table
from reproduction.studies.figures import write_figures
from reproduction.studies.readings import READINGS
from reproduction.studies.report import write_rows
from reproduction.studies.rows import LEVEL, PLANTED, Agreement, Row, agreement, error_shows
from reproduction.studies.sentences import Reading, cell_words, gains
from reproduction.studies.study import Cell, Status, Study
from reproduction.studies.whole_grid import AGREES, OVER, about_grid

MOST_CELLS, MOST_COLUMNS = 12, 7
"""A grid with more cells is abridged; a table with more methods lists them downwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How the rows of a document were made."""

    command: str
    versions: Mapping[str, str]
    cpu_seconds: float
    rows_folder: str

    @classmethod
    def here(cls, command: str, cpu_seconds: float, rows_folder: str) -> Made:
        """Return the facts of this machine."""
        return cls(
            command=command,
            versions={
                "proxyguard": proxyguard.__version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scipy": scipy.__version__,
            },
            cpu_seconds=cpu_seconds,
            rows_folder=rows_folder,
        )


def document(
    rows: Sequence[Row], studies: Mapping[str, Study], made: Made, figures: Collection[str]
) -> str:
    """Return the whole document; ``figures`` names the studies that have one beside it."""
    verdict = agreement(rows)
    by_study: dict[str, list[Row]] = {}
    for row in rows:
        by_study.setdefault(row.study, []).append(row)
    parts = [_opening(verdict, by_study, studies, made)]
    for name, own in by_study.items():
        parts.append(section(studies[name], own, verdict, figure=name in figures))
    return "\n\n".join(parts) + "\n"


def _opening(
    verdict: Agreement, by_study: Mapping[str, Sequence[Row]], studies: Mapping[str, Study],
    made: Made,
) -> str:  # fmt: skip
    """Return the head: command, versions, verdict, and one line a study."""
    versions = ", ".join(f"{name} {number}" for name, number in made.versions.items())
    lines = [
        "# Reproduction",
        "",
        "The paper's simulations and planning tables, with our methods beside theirs, and studies "
        "of our own. This page and its figures are written by",
        "",
        f"    {made.command}",
        "",
        f"with {versions}, in {made.cpu_seconds:.0f} CPU seconds. Every row behind a table or "
        f"figure is in `{made.rows_folder}/NAME.jsonl` after that command; these files are not "
        "kept in the repository.",
        "",
        f"**{verdict.sentence}**{_from_theory(by_study, studies)}",
        "",
        *_differing(verdict),
        "Each value is an estimate ± its Monte Carlo standard error. Under it stand the published "
        "figure and *p*, the chance of a difference as large if both runs follow one law. Where a "
        "sum gives the exact rate it is there too, and each run is tested against it: *p* is then "
        "the smaller of the two, doubled. Intervals, standard errors and upper limits that the "
        "paper prints beside a rate are functions of the counts compared here and of the "
        "repetitions, and are not compared again. Status of a method: *registered* and *post "
        "hoc* are the paper's; *invalid diagnostic* is a rule without a guarantee, shown for what "
        "goes wrong; *oracle* knows the truth; *ours* is not in the paper. In the figures the "
        "paper's methods are grey and blue, ours orange, diagnostics red, the oracle dashed black, "
        "and black rings and ticks are published figures.",
        "",
        f"How much can hide: the last column says for how many of the compared rates an estimate "
        f"{100 * PLANTED:.0f} points off, up or down, would be reported by Holm's first step over "
        f"all {verdict.compared} figures. It cannot be all: a rate printed from 500 runs is "
        "itself uncertain by up to two points. Other figures are computed and compared to the "
        "last printed digit, or are means with their own errors.",
        "",
        "| study | where it is published | cells | repetitions | compared | differ "
        f"| {100 * PLANTED:.0f}-point error shows |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, own in by_study.items():
        compared = sum(row.p_agree is not None for row in own)
        differ = sum(row.study == name for row in verdict.differ)
        rates, shows = detectable(studies[name], own, verdict.compared)
        lines.append(
            f"| [{name}](#{name}) | {studies[name].paper} | {len(studies[name].cells)} "
            f"| {_repetitions(own)} | {compared} | {differ} "
            f"| {f'{shows} of {rates}' if rates else '-'} |"
        )
    return "\n".join(lines)


def detectable(study: Study, rows: Sequence[Row], family: int) -> tuple[int, int]:
    """Return how many simulated rates are compared, and for how many a planted error shows."""
    by_key = {_key(row): row for row in rows}
    rates = shows = 0
    for (index, method, metric), printed in study.published.items():
        row = by_key.get((study.name, _cell_key(study.cells[index]), method, metric))
        if row is None or row.p_agree is None or not printed.simulated_rate:
            continue
        rates += 1
        shows += error_shows(printed, row.repetitions, row.exact, family)
    return rates, shows


def _from_theory(
    by_study: Mapping[str, Sequence[Row]], studies: Mapping[str, Study]
) -> str:  # fmt: skip
    """Return how many of the figures are not the paper's but those of our own theory."""
    own = sum(
        row.p_agree is not None
        for name, rows in by_study.items()
        if studies[name].own
        for row in rows
    )
    return f" Of these figures {own} are not the paper's: our theory prints them." if own else ""


def _differing(verdict: Agreement) -> list[str]:
    """Return one line for each published figure that differs, nothing if none does."""
    if verdict.good:
        return []
    return [
        f"Published figures that differ (Holm over all of them at {LEVEL:g}):",
        "",
        *(
            f"- {row.study}, {cell_words(row.cell)}, {row.method}, {row.metric}: {_value(row)}, "
            f"published {row.published:g}, p {_small(row.p_agree or 0.0)}"
            for row in verdict.differ
        ),
        "",
    ]


def write_document(
    out: Path, rows: Sequence[Row], studies: Mapping[str, Study], made: Made
) -> list[Path]:
    """Write the figures, the rows and the document that shows them; return the files."""
    drawn = write_figures(out / "reproduction", rows)
    kept = write_rows(out / "rows", rows)
    place = out / "reproduction.md"
    text = document(rows, studies, made, {path.stem for path in drawn})
    place.write_text(text, encoding="utf-8")
    return [place, *drawn, *kept]


def section(study: Study, rows: Sequence[Row], verdict: Agreement, *, figure: bool) -> str:
    """Return the section of one study."""
    words = READINGS.get(study.name, Reading(asks=""))
    whole = [row for row in rows if about_grid(row)]
    rows = [row for row in rows if not about_grid(row)]
    shown, abridged = shown_cells(study, rows)
    same = _constant(study.cells)
    common = cell_words(study.cells[0], same) if len(study.cells) > 1 else ""
    parts = [
        f"## {study.name}",
        f"*{study.paper}.* {words.asks}".strip(),
        *([f"![{study.name}](reproduction/{study.name}.svg)"] if figure else []),
        " ".join(words.see(rows)),
        *_whole(whole),
        *([f"Beware: {words.beware}"] if words.beware else []),
        words.ours,
        f"What differs: {_differs(study)}",
        *([f"In every cell: {common}."] if common else []),
        cross_table(study, rows, is_error),
        *([abridged] if abridged else []),
        *tables(study, rows, shown, {_key(row) for row in verdict.differ}),
    ]
    return "\n\n".join(part for part in parts if part)


def _whole(rows: Sequence[Row]) -> list[str]:
    """Return what the paper says of all cells at once, beside what is found here."""
    if not rows:
        return []
    found = []
    for row in rows:
        beside = "" if row.published is None else f", published {row.published:g}"
        p = "" if row.p_agree is None else f", *p* {_small(row.p_agree)}"
        wide = f"; by itself it agrees at {row.cell[AGREES]}" if AGREES in row.cell else ""
        found.append(
            f"- {row.metric} ({row.method}; {row.cell[OVER]}): {row.value:g}{beside}{p}{wide}"
        )
    return [
        "Over the whole grid; the tests hold whatever the rates of the single cells are, and see "
        "only large differences:\n\n" + "\n".join(found)
    ]


def _differs(study: Study) -> str:
    """Return what differs from the published run; a computed study has no seeds."""
    default = next(f.default for f in fields(Study) if f.name == "differs")
    if study.repetitions == 1 and study.differs == default:
        return "Nothing; these figures are computed, and compared to the last printed digit."
    return study.differs


def tables(
    study: Study, rows: Sequence[Row], shown: Sequence[Cell], differ: Collection[Any]
) -> list[str]:
    """Return one table a metric, or one for all where there is one cell or one method."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    heads = _heads(study, rows)
    entries = {_key(row): _entry(row, _key(row) in differ) for row in rows}
    names = [name for name in study.cells[0] if name not in _constant(study.cells)]

    def entry(cell: Cell, method: str, metric: str) -> str:
        return entries.get((study.name, _cell_key(cell), method, metric), "")

    if len(study.cells) == 1:
        cell = study.cells[0]
        if len(heads) > MOST_COLUMNS:
            lines = [[h, *(entry(cell, method, m) for m in metrics)] for method, h in heads.items()]
            return [_table(["", *metrics], lines)]
        lines = [[m, *(entry(cell, method, m) for method in heads)] for m in metrics]
        return [_table(["", *heads.values()], lines)]
    if len(heads) == 1:
        ((method, head),) = heads.items()
        lines = [[*_values(c, names), *(entry(c, method, m) for m in metrics)] for c in shown]
        return [f"{head.replace('<br>', ', ')}:\n\n" + _table([*names, *metrics], lines)]
    found = []
    for metric in metrics:
        own = {m: h for m, h in heads.items() if any(entry(c, m, metric) for c in shown)}
        if not own:
            continue
        if len(own) <= MOST_COLUMNS:
            top = [*names, *own.values()]
            lines = [[*_values(c, names), *(entry(c, m, metric) for m in own)] for c in shown]
        else:
            top = ["", *(cell_words(cell, names) for cell in shown)]
            lines = [[h, *(entry(c, m, metric) for c in shown)] for m, h in own.items()]
        title = f"**{metric}**\n\n" if len(metrics) > 1 else ""
        found.append(title + _table(top, lines))
    return found


def _heads(study: Study, rows: Sequence[Row]) -> dict[str, str]:
    """Return the methods that have rows, in the study's order, each with its status."""
    there = {row.method for row in rows}
    return {m: f"{m}<br>*{s.value}*" for m, s in study.methods.items() if m in there}


def _values(cell: Cell, names: Sequence[str]) -> list[str]:
    found = (cell.get(name, "") for name in names)
    return [f"{v:g}" if isinstance(v, int | float) else str(v) for v in found]


def _table(top: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return lines as a Markdown table."""
    rule = ["---", *["---:"] * (len(top) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (top, rule, *lines))


def _entry(row: Row, differs: bool) -> str:
    """Return a value with what belongs under it."""
    value = f"**{_value(row)}**" if differs else _value(row)
    under = []
    if row.published is not None:
        p = "" if _computed(row) else f", *p* {_small(row.p_agree or 0.0)}"
        under.append(f"published {row.published:g}{p}")
    if row.exact is not None:
        whole = row.exact == round(row.exact) and row.exact >= 10
        under.append(f"exact {row.exact:.0f}" if whole else f"exact {row.exact:.4f}")
    return "<br>".join([value, *under])


def _computed(row: Row) -> bool:
    """Whether a value is computed: without repetitions, or no rate and the same in each."""
    return row.standard_error is None or (row.standard_error == 0.0 and row.wilson is None)


def _value(row: Row) -> str:
    """Return an estimate with its error; where no run or every run says so, that alone.

    An error rate of 0 has its exact 95 % limit beside it.
    """
    if _computed(row):
        return f"{row.value:.6g}"
    if row.value == 0.0 and row.upper95 is not None and is_error(row):
        return f"0 (at most {row.upper95:.4f})"
    if row.wilson is not None and row.value in (0.0, 1.0):
        return f"{row.value:.0f}"
    digits = 4 if abs(row.value) < 10 else 2
    return f"{row.value:.{digits}f} ± {row.standard_error:.{digits}f}"


def _small(p: float) -> str:
    return f"{p:.2f}" if p >= 0.005 else f"{p:.1g}"


def shown_cells(study: Study, rows: Sequence[Row]) -> tuple[list[Cell], str]:
    """Return the cells that the tables show, and a sentence if some are left out.

    A large grid shows the published cells, those where the sharp certificate gains and loses
    most against the paper's best, and the largest error rate of a valid method.
    """
    many = len(study.methods) > MOST_COLUMNS
    if len(study.cells) <= (MOST_COLUMNS if many else MOST_CELLS):
        return list(study.cells), ""
    kept = [study.cells[index] for index, _, _ in study.published]
    metrics = dict.fromkeys(row.metric for row in rows)
    power = next((m for m in ("power", "validated", "violation") if m in metrics), "")
    found = gains([row for row in rows if not is_error(row)], power, _sharp(study))
    kept += [choose(found, key=lambda g: g.size).row.cell for choose in (max, min) if found]
    errors = [
        row
        for row in rows
        if row.status not in (Status.INVALID.value, Status.ORACLE.value) and is_error(row)
    ]
    if errors:
        kept.append(max(errors, key=lambda row: row.value).cell)
    if not study.published:
        kept.append(study.cells[-1])
    shown = [cell for cell in study.cells if cell in kept]
    if len(shown) == len(study.cells):
        return shown, ""
    parts = [
        *(["those with a published figure"] if study.published else ["the last"]),
        *([f"where `{_sharp(study)}` gains and loses most on the paper's best"] if found else []),
        *(["the largest error rate of a valid method"] if errors else []),
    ]
    return shown, f"Shown are {len(shown)} of {len(study.cells)} cells: {'; '.join(parts)}."


def _sharp(study: Study) -> str:
    """Return the sharp certificate that stands for ours: with an exact or a fixed test."""
    ours = [m for m, s in study.methods.items() if s is Status.OURS and "sharp" in m]
    usual = [m for m in ours if m.endswith(("sharp, binomial", "sharp, bentkus"))]
    return next(iter(usual or ours), "")


def is_error(row: Row) -> bool:
    """Whether a rate is one of errors: of something false, or of validating at the target."""
    at_target = row.metric == "validated" and row.cell.get("eta", 1.0) <= 0.8
    return row.metric.startswith("false") or at_target


def _constant(cells: Sequence[Cell]) -> list[str]:
    """Return the parameters that are the same in every cell."""
    return [k for k in cells[0] if len({repr(cell.get(k)) for cell in cells}) == 1]


def _repetitions(rows: Sequence[Row]) -> str:
    """Return the repetitions of a study, the fewest first where methods differ."""
    counts = sorted({row.repetitions for row in rows})
    if counts == [1]:
        return "computed"
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def _key(row: Row) -> tuple[str, str, str, str]:
    return row.study, _cell_key(row.cell), row.method, row.metric


def _cell_key(cell: Cell) -> str:
    """Return the same text for the same parameters in whatever order, as files sort them."""
    return repr(sorted(cell.items()))
