"""Figures and the reproduction document show the rows they were given, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from typer.testing import CliRunner

from proxyguard.cli import show
from proxyguard.errors import ProxyGuardError
from reproduction.cli.main import app
from reproduction.studies import catalog, plotting
from reproduction.studies.catalog import STUDIES
from reproduction.studies.document import Made, document, shown_cells
from reproduction.studies.figures import FIGURES, differences, draw, read_rows, write_figures
from reproduction.studies.plotting import of, spread, style
from reproduction.studies.readings import READINGS
from reproduction.studies.report import write_rows
from reproduction.studies.rows import Row, agreement
from reproduction.studies.run import run_study
from reproduction.studies.sentences import gains
from reproduction.studies.study import Published, Status

FEW_CELLS = {
    "labels-needed": (2, 3),
    "cost-plan-sensitivity": (2,),
    "worst-case": (0, 1),
    "sequential-draws": (2, 3),
}
"""Cells that stand for the whole where one cell costs a second or more."""
MADE = Made(
    command="python -m reproduction study reproduce",
    versions={"proxyguard": "0.1.0", "python": "3.11.7", "numpy": "2.0.0", "scipy": "1.13.0"},
    cpu_seconds=123.4,
    rows_folder="docs/rows",
)


class FewRows(dict[str, list[Row]]):
    """A few repetitions of every study, run when somebody asks for them."""

    def __missing__(self, name: str) -> list[Row]:
        study = STUDIES[name]
        repetitions = min(study.repetitions, 6)
        self[name] = run_study(study, repetitions=repetitions, cells=FEW_CELLS.get(name))
        return self[name]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    return FewRows()


def row(method: str, value: float, **changes: Any) -> Row:
    """A row of a study that is none of ours."""
    plain: dict[str, Any] = {
        "study": "target-reuse", "cell": {"alpha": 0.05, "n": 500}, "method": method,
        "status": "registered", "metric": "false validation", "value": value,
        "standard_error": 0.01, "wilson": (value / 2, value * 2), "upper95": value * 2,
        "repetitions": 100, "published": None, "exact": None, "p_agree": None,
    }  # fmt: skip
    return Row(**(plain | changes))


def marks(figure: Figure, label: str) -> list[Any]:
    """The artists of a figure that carry this label."""
    return [artist for artist in figure.findobj() if getattr(artist, "get_label", str)() == label]


def heights(figure: Figure, method: str) -> list[float]:
    """The values that the lines of a method go through, in all panels."""
    return [float(y) for line in marks(figure, method) for y in line.get_ydata()]


def overhang(figure: Figure) -> float:
    """How many pixels something drawn sticks out of the page."""
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    out = max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height)
    return float(out * figure.dpi)


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_fits_its_page(name: str, rows: dict[str, list[Row]]) -> None:
    figure = draw(name, rows[name])
    assert figure.get_size_inches()[0] * figure.dpi == 1000
    assert overhang(figure) < 1.0


def test_a_label_off_the_page_would_be_noticed(rows: dict[str, list[Row]]) -> None:
    figure = draw("target-reuse", rows["target-reuse"])
    figure.text(0.98, 0.5, "cut off here")
    assert overhang(figure) > 20.0


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("name", FIGURES)
def test_figures_cope_with_methods_that_were_not_run(name: str, rows: dict[str, list[Row]]) -> None:
    papers = [r for r in rows[name] if r.status != Status.OURS.value]
    ours = {r.method for r in rows[name]} - {r.method for r in papers}
    if not papers:
        pytest.skip("the study has no method of the paper")
    figure = draw(name, papers)
    assert not any(marks(figure, method) for method in ours)


def test_lines_go_through_the_rows(rows: dict[str, list[Row]]) -> None:
    figure = draw("mechanism-calibration", rows["mechanism-calibration"])
    own = rows["mechanism-calibration"]
    for method in ("two-level", "oracle", "sharp, binomial", "plug-in"):
        expected = [
            r.value for m in ("false validation", "power") for r in of(own, m) if r.method == method
        ]
        assert sorted(heights(figure, method)) == sorted(expected)
    printed = [r.published for r in own if r.published is not None]
    assert sorted(heights(figure, "published")) == sorted(printed)


def test_both_axes_of_the_calibration_are_drawn(rows: dict[str, list[Row]]) -> None:
    figure = draw("calibration", rows["calibration"])
    # Cell alpha .05, n 500 stands in the column of levels and in that of sizes.
    expected = [
        r.value
        for r in rows["calibration"]
        if r.method == "Holm"
        for _ in range(2 if (r.cell["alpha"], r.cell["n"]) == (0.05, 500) else 1)
    ]
    assert sorted(heights(figure, "Holm")) == sorted(expected)


def test_bars_are_as_long_as_the_values() -> None:
    own = [
        row("reuse", 0.4, status="invalid diagnostic", published=0.43),
        row("sealed", 0.03),
        row("Holm", 0.0),
    ]
    figure = draw("target-reuse", own)
    (panel,) = figure.axes
    assert [bar.get_width() for bar in panel.patches] == [0.4, 0.03, 0.0]
    assert [text.get_text() for text in panel.texts][:3] == ["0.400", "0.030", "0"]
    assert len(marks(figure, "published")) == 1
    assert panel.patches[0].get_hatch()
    assert not panel.patches[1].get_hatch()


@pytest.mark.whole
def test_maps_hold_the_differences(rows: dict[str, list[Row]]) -> None:
    own = of(rows["mode-comparison"], "validated", eta=0.95)
    expected = differences(own, "direct", ["named"])
    assert len(expected) == 12
    figure = draw("mode-comparison", rows["mode-comparison"])
    field = figure.axes[2].collections[0].get_array()  # the first line, reliability .95
    sizes, releases = (500, 1000, 2000), (30, 100, 250, 1000)
    assert np.ravel(field).tolist() == [expected[n, R] for n in sizes for R in releases]


def test_a_difference_is_to_the_best_of_the_others() -> None:
    cell = {"n": 10, "R": 20}
    own = [row(m, v, cell=cell) for m, v in (("a", 0.9), ("b", 0.5), ("c", 0.7))]
    assert differences(own, "a", ["b", "c"]) == {(10, 20): pytest.approx(0.2)}
    assert differences(own, "a", ["b", "not run"]) == {}


def test_one_method_has_one_look_in_every_figure() -> None:
    ours = plotting.look("sharp, binomial", "ours")
    assert ours.colour == plotting.ORANGE
    assert plotting.look("oracle", "oracle").line == "--"
    assert plotting.look("reuse", "invalid diagnostic").hatch
    assert plotting.look("direct", "registered").colour != ours.colour


def test_the_same_rows_give_the_same_bytes(tmp_path: Path, rows: dict[str, list[Row]]) -> None:
    own = rows["target-reuse"] + rows["release-planning"]
    first = write_figures(tmp_path / "a", own)
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "another", "axes.facecolor": "red"}):
        second = write_figures(tmp_path / "b", own)
    assert [p.name for p in first] == ["target-reuse.svg", "release-planning.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    moved = [replace(r, value=r.value / 2 + 0.01) for r in own]
    third = write_figures(tmp_path / "c", moved)
    assert [p.read_bytes() for p in first] != [p.read_bytes() for p in third]


def test_drawing_leaves_the_settings_of_others_alone() -> None:
    before = mpl.rcParams["font.size"]
    with style():
        assert mpl.rcParams["svg.hashsalt"] == "proxyguard"
    assert mpl.rcParams["font.size"] == before


def test_a_missing_matplotlib_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(ProxyGuardError, match=r'pip install "proxyguard\[plots\]"'):
        draw("target-reuse", [row("sealed", 0.1)])


def test_rows_come_back_from_their_files(tmp_path: Path, rows: dict[str, list[Row]]) -> None:
    own = [*rows["near-boundary"], *rows["sharp-counts"]]
    assert read_rows(write_rows(tmp_path, own)) == own


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.12))
def test_labels_are_a_gap_apart_and_in_order(wanted: Sequence[float], gap: float) -> None:
    placed = spread(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    steps = np.diff([placed[i] for i in order])
    assert (steps >= gap - 1e-9).all()
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in placed)


@pytest.mark.whole
def test_every_study_has_words_and_a_section(rows: dict[str, list[Row]]) -> None:
    assert set(STUDIES) <= set(READINGS)
    everything = [r for name in STUDIES for r in rows[name]]
    text = document(everything, STUDIES, MADE, set(FIGURES))
    for name in STUDIES:
        assert f"\n## {name}\n" in text
        assert (f"](reproduction/{name}.svg)" in text) == (name in FIGURES)
    assert text == document(everything, STUDIES, MADE, set(FIGURES))
    assert agreement(everything).sentence in text
    for promised in (
        "python 3.11.7",
        "numpy 2.0.0",
        "scipy 1.13.0",
        "    python -m reproduction study rep",
        "123 CPU s",
    ):
        assert promised in text
    assert "nan" not in text.lower().split()


@pytest.mark.whole
def test_the_document_does_not_depend_on_where_the_rows_come_from(
    tmp_path: Path, rows: dict[str, list[Row]]
) -> None:
    everything = [r for name in STUDIES for r in rows[name]]
    back = read_rows(write_rows(tmp_path, everything))
    assert document(back, STUDIES, MADE, ()) == document(everything, STUDIES, MADE, ())


def test_a_value_stands_beside_its_published_figure() -> None:
    own = [
        row("reuse", 0.4123, status="invalid diagnostic", published=0.4346, p_agree=0.51,
            exact=0.4406),
        row("sealed", 0.0, wilson=(0.0, 0.04), upper95=0.0295),
    ]  # fmt: skip
    text = document(own, STUDIES, MADE, ())
    assert "0.4123 ± 0.0100<br>published 0.4346, *p* 0.51<br>exact 0.4406" in text
    assert "reuse<br>*invalid diagnostic*" in text
    assert "| 0 (at most 0.0295) |" in text
    assert "| [target-reuse](#target-reuse) | Table target_reuse | 1 | 100 | 1 | 0 |" in text


def test_a_figure_that_differs_is_listed_and_bold() -> None:
    own = [
        row("reuse", 0.9, published=0.4346, p_agree=1e-30),
        row("sealed", 0.03, published=0.0308, p_agree=0.9),
    ]
    text = document(own, STUDIES, MADE, ())
    assert "**1 of 2 published figures differ: target-reuse, reuse, false validation.**" in text
    assert (
        "- target-reuse, alpha 0.05, n 500, reuse, false validation: 0.9000 ± 0.0100, published "
        "0.4346, p 1e-30"
    ) in text
    assert "**0.9000 ± 0.0100**" in text
    assert "**0.0300" not in text


def test_sentences_are_about_the_rows() -> None:
    own = [row("reuse", 0.4), row("sealed", 0.0), row("Holm", 0.0123)]
    text = " ".join(READINGS["target-reuse"].see(own))
    assert all(part in text for part in ("40.0 %", "in 0 %", "1.2 %"))
    assert list(READINGS["target-reuse"].see(own[:2])) == []


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("name", READINGS)
def test_sentences_cope_with_rows_that_are_not_there(name: str, rows: dict[str, list[Row]]) -> None:
    reading = READINGS[name]
    assert isinstance(list(reading.see([])), list)
    own = rows[name] if name in STUDIES else []
    papers = [r for r in own if r.status != Status.OURS.value]
    assert not any("sharp, b" in sentence for sentence in reading.see(papers))


def test_gains_are_over_the_papers_best_valid_method() -> None:
    own = [
        row("named", 0.2), row("direct", 0.5), row("plug-in", 0.9, status="invalid diagnostic"),
        row("oracle", 1.0, status="oracle"), row("sharp", 0.6, status="ours"),
    ]  # fmt: skip
    (found,) = gains(own, "false validation", "sharp")
    assert found.size == pytest.approx(0.1)
    assert (found.row.method, found.best.method) == ("sharp", "direct")
    assert found.clear  # both have a standard error of .01
    assert not replace(found, row=replace(found.row, value=0.52)).clear


def test_a_large_grid_shows_what_was_published_and_the_extremes(
    rows: dict[str, list[Row]],
) -> None:
    study, own = STUDIES["collective-grid"], rows["collective-grid"]
    shown, sentence = shown_cells(study, own)
    assert {"safe": 0.04, "eta": 0.95, "n": 500, "R": 100, "bad": 0.12} in shown
    found = gains(own, "power", "sharp, binomial")
    assert max(found, key=lambda g: g.size).row.cell in shown
    assert min(found, key=lambda g: g.size).row.cell in shown
    assert len(shown) <= 4
    assert f"{len(shown)} of 108 cells" in sentence
    assert shown_cells(STUDIES["rare-group"], rows["rare-group"]) == (
        list(STUDIES["rare-group"].cells), "",
    )  # fmt: skip


def test_the_near_boundary_trap_has_the_exact_rate(rows: dict[str, list[Row]]) -> None:
    # studies facts: exact .0180 where the paper prints .0169; the sum by hand is
    # 1 - (1 - P(Bin(200, .8) >= 175))^5, 175 the least count with a tail of at most .005.
    from scipy.stats import binom

    assert binom.sf(173, 200, 0.8) > 0.005 >= binom.sf(174, 200, 0.8)
    assert f"{1 - (1 - binom.sf(174, 200, 0.8)) ** 5:.4f}" == "0.0180"
    assert "0.0180" in " ".join(READINGS["near-boundary"].see(rows["near-boundary"]))


def test_reproduce_writes_the_document_its_figures_and_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("target-reuse", "release-planning")
    monkeypatch.setattr(catalog, "STUDIES", {name: STUDIES[name] for name in names})
    command = ["study", "reproduce", "--out", str(tmp_path), "--repetitions", "300", "--check", "3"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "All 9 published figures agree" in done.output
    assert "9 results of 1 study were decided again" in done.output  # three of target-reuse
    text = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert (
        f"    python -m reproduction study reproduce --out {tmp_path} --repetitions 300\n" in text
    )
    assert "| 300 |" in text
    assert "| computed |" in text
    for name in names:
        assert (tmp_path / "reproduction" / f"{name}.svg").is_file()
    back = read_rows(tmp_path / "rows" / f"{name}.jsonl" for name in names)
    assert {r.study: r.repetitions for r in back} == {"target-reuse": 300, "release-planning": 1}


def test_reproduce_ends_with_an_error_when_a_figure_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(
        STUDIES["release-planning"],
        published={(0, "named", "least releases"): Published(value=18, digits=0)},
    )
    monkeypatch.setattr(catalog, "STUDIES", {"release-planning": wrong})
    done = CliRunner().invoke(app, ["study", "reproduce", "--out", str(tmp_path)])
    assert done.exit_code == show.Exit.ERROR
    assert "1 of 1 published figures differ" in done.output
    assert (tmp_path / "reproduction.md").is_file()


def test_a_run_that_keeps_its_rows_draws_them_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["study", "run", "release-planning", "--no-cache", "--out"]
    assert CliRunner().invoke(app, [*command, str(tmp_path / "a")]).exit_code == 0
    assert sorted(p.suffix for p in (tmp_path / "a").iterdir()) == [".jsonl", ".svg"]
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    assert CliRunner().invoke(app, [*command, str(tmp_path / "b")]).exit_code == 0
    assert [p.suffix for p in (tmp_path / "b").iterdir()] == [".jsonl"]
