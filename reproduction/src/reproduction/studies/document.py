"""``reproduction.md``: every study's rows beside what was published, in words and tables."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from jinja2 import Environment, StrictUndefined

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the page says of one study; the template puts it into words and order."""

    name: str
    paper: str
    cells: int
    repetitions: str
    compared: int
    differ: int
    shows: str  # for how many rates a planted error would show
    words: Reading
    figure: bool
    seen: str
    whole_grid: str
    differs: str
    common: str
    crossed: str
    abridged: str
    tables: list[str]


def document(
    rows: Sequence[Row], studies: Mapping[str, Study], made: Made, figures: Collection[str]
) -> str:
    """Return the whole document; ``figures`` names the studies that have one beside it."""
    verdict = agreement(rows)
    by_study: dict[str, list[Row]] = {}
    for row in rows:
        by_study.setdefault(row.study, []).append(row)
    # Markdown of our own words and numbers: nothing in it is escaped.
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    source = files(__package__).joinpath("page.md.j2").read_text("utf-8")
    page = environment.from_string(source).render(
        made=made,
        versions=", ".join(f"{name} {number}" for name, number in made.versions.items()),
        verdict=verdict,
        level=LEVEL,
        points=f"{100 * PLANTED:.0f}",
        from_theory=_from_theory(by_study, studies),
        differing=_differing(verdict),
        sections=[
            section(studies[name], own, verdict, figure=name in figures)
            for name, own in by_study.items()
        ],
    )
    return page.rstrip("\n") + "\n"


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


def _from_theory(by_study: Mapping[str, Sequence[Row]], studies: Mapping[str, Study]) -> int:
    """Return how many of the figures are not the paper's but those of our own theory."""
    return sum(
        row.p_agree is not None
        for name, rows in by_study.items()
        if studies[name].own
        for row in rows
    )


def _differing(verdict: Agreement) -> list[str]:
    """Return one line for each published figure that differs, nothing if none does."""
    return [
        f"{row.study}, {cell_words(row.cell)}, {row.method}, {row.metric}: {_value(row)}, "
        f"published {row.published:g}, p {_small(row.p_agree or 0.0)}"
        for row in verdict.differ
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


def section(study: Study, rows: Sequence[Row], verdict: Agreement, *, figure: bool) -> Section:
    """Return what the page says of one study."""
    words = READINGS.get(study.name, Reading(asks=""))
    single = [row for row in rows if not about_grid(row)]
    shown, abridged = shown_cells(study, single)
    rates, shows = detectable(study, rows, verdict.compared)
    common = cell_words(study.cells[0], _constant(study.cells)) if len(study.cells) > 1 else ""
    return Section(
        name=study.name,
        paper=study.paper,
        cells=len(study.cells),
        repetitions=_repetitions(rows),
        compared=sum(row.p_agree is not None for row in rows),
        differ=sum(row.study == study.name for row in verdict.differ),
        shows=f"{shows} of {rates}" if rates else "-",
        words=words,
        figure=figure,
        seen=" ".join(words.see(single)),
        whole_grid=_whole([row for row in rows if about_grid(row)]),
        differs=_differs(study),
        common=common,
        crossed=cross_table(study, single, is_error),
        abridged=abridged,
        tables=tables(study, single, shown, {_key(row) for row in verdict.differ}),
    )


def _whole(rows: Sequence[Row]) -> str:
    """Return what the paper says of all cells at once, beside what is found here."""
    if not rows:
        return ""
    lines = []
    for row in rows:
        beside = "" if row.published is None else f", published {row.published:g}"
        p = "" if row.p_agree is None else f", *p* {_small(row.p_agree)}"
        wide = f"; by itself it agrees at {row.cell[AGREES]}" if AGREES in row.cell else ""
        lines.append(
            f"- {row.metric} ({row.method}; {row.cell[OVER]}): {row.value:g}{beside}{p}{wide}"
        )
    return (
        "Over the whole grid; the tests hold whatever the rates of the single cells are, and see "
        "only large differences:\n\n" + "\n".join(lines)
    )


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
