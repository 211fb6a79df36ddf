"""What a report says and draws of exposure: the claim, a description, and what is not claimed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from proxyguard.documents.certificate import Report, ReportTable
from proxyguard.registry.parts import RequirementPart
from proxyguard.report.charts import pictures_of
from proxyguard.report.content import build_report
from proxyguard.report.exposure import (
    attack_picture,
    curve_picture,
    exposure_pictures,
    figures_of,
    success_picture,
)
from proxyguard.report.html import to_html, to_markdown
from proxyguard.report.picture import (
    LOOKS,
    WIDTH,
    Circle,
    Picture,
    Stroke,
    Writing,
    text_width,
    to_figure,
    to_svg,
)
from proxyguard.report.sources import Sources
from report.synthetic import attack_figures, exposed_sources, synthetic_sources, unmarked


@pytest.fixture(scope="module")
def sources() -> Sources:
    return exposed_sources()


@pytest.fixture(scope="module")
def report(sources: Sources) -> Report:
    return build_report(sources)


def table_of(report: Report, title: str) -> ReportTable:
    (only,) = [table for table in report.tables if table.title == title]
    return only


def test_a_report_without_exposure_has_no_such_section() -> None:
    sources = synthetic_sources(R=3)
    report = build_report(sources)
    assert report.exposure == ()
    assert report.section("exposure") == ()
    assert 'id="exposure"' not in to_html(report, sources)
    assert "## Exposure" not in to_markdown(report)


def test_the_section_says_who_was_left_out_and_what_is_not_claimed(
    report: Report, sources: Sources
) -> None:
    for text in (unmarked(to_html(report, sources)), to_markdown(report).replace("\\", "")):
        assert "3 of 400 target records equal a member in all that attacks see" in text
        assert "these members, these attacks" in text
        assert "Tests over synthetic rows are not valid" in text
        assert "0.6 to 0.9 divided by the square root of the number of members" in text
        assert "At that of 20 thresholds" in text
        assert "unweighted" not in text  # which is said of strata


@pytest.mark.parametrize("form", ["page", "markdown"])
def test_nothing_is_ever_called_private(report: Report, sources: Sources, form: str) -> None:
    text = to_html(report, sources) if form == "page" else to_markdown(report)
    start = text.index('id="exposure"' if form == "page" else "## Exposure")
    assert not re.search(r"\bprivate\b|\bprivacy\b", text[start:], flags=re.IGNORECASE)


def test_the_certified_sentence_stands_in_the_section(report: Report, sources: Sources) -> None:
    page = to_html(report, sources)
    section = page[page.index('id="exposure"') : page.index('id="budget"')]
    careful = next(v for v in report.verdicts if v.name == "careful")
    assert careful.sentence.replace(" %", "\N{NO-BREAK SPACE}%") in section
    assert "only the registered certificate decides" in section


def test_the_table_has_the_widest_gap_and_that_of_a_release_that_knows_nobody(
    report: Report,
) -> None:
    table = table_of(report, "What attacks tell")
    rows = {(row[0], row[1]): row for row in table.rows}
    assert len(table.rows) == 2 * 6
    told = rows["careful", "told apart: dcr"]
    # Found 5 % and flagged .05 - .04 x .95 of others: the widest of the made gaps.
    assert told[5:9] == ("0.050", "0.012", "+0.038", "+0.000")
    assert told[3:5] == ("advantage everywhere", "0.10")
    assert rows["careful", "income"][5:8] == ("0.620", "0.605", "+0.015")


def test_copies_stand_beside_the_warning(report: Report) -> None:
    table = table_of(report, "Copies and distances")
    assert table.rows[0][:4] == ("careful", "4", "7 of 1,600", "1.2 %")
    assert table.note.startswith("Tests over synthetic rows are not valid")


def test_under_a_disclosure_open_rows_stand_for_others() -> None:
    sources = exposed_sources(target=False)
    report = build_report(sources)
    assert {row[-1] for row in table_of(report, "What attacks tell").rows} == {"calibration rows"}
    for picture in exposure_pictures(sources, "careful"):
        assert "target" not in picture.says
        # A ring would have the share of the target's others, which is not written.
        assert "ring" not in picture.says
        assert not any(isinstance(mark, Circle) for mark in picture.marks)
        assert not any(mark.kind == "spread" for mark in picture.marks)


@pytest.mark.parametrize("target", [True, False])
def test_without_calibration_rows_nobody_else_stands_for_others(target: bool) -> None:
    sources = exposed_sources(target=target, calibration=False)
    report = build_report(sources)
    for text in (unmarked(to_html(report, sources)), to_markdown(report).replace("\\", "")):
        assert "Calibration rows (development.calibration) would show them" in text
    for row in table_of(report, "What attacks tell").rows:
        assert row[8] == "not shown"
        assert row[9] == ("target" if target else "not shown")
        assert (row[7] == "not shown") is not target
    drawn = exposure_pictures(sources, "careful")
    assert any("members against others" in picture.title for picture in drawn) is target
    for picture in drawn:
        assert not any(mark.kind == "baseline" for mark in picture.marks)
        if picture.title.endswith(": scores"):
            assert not any(mark.kind == "others" for mark in picture.marks)
            assert "reference" not in picture.says
    assert_words_inside(drawn)


def declared(kind: str, limit: str = "0.10", **more: object) -> RequirementPart:
    return RequirementPart.model_validate(
        {"name": "told", "exposure": kind, "limit": limit, "attacks": ("dcr",), **more}
    )


@pytest.mark.parametrize("certified", [True, False])
def test_the_region_is_shaded_only_where_it_was_certified(
    sources: Sources, certified: bool
) -> None:
    figures = figures_of(sources)["careful"]
    picture = attack_picture(
        figures.attacks[0], declared("advantage everywhere"), figures, certified=certified
    )
    assert any(mark.kind == "band" for mark in picture.marks) is certified
    assert ("Certified" in picture.says) is certified
    # The line runs from limit at the left to 1 - limit at the top.
    (line,) = [mark for mark in picture.marks if mark.kind == "limit"]
    assert to_svg(picture).count("pg-limit") == 1
    left, top = 44.0, 78.0
    side = WIDTH - 10.0 - left
    assert (line.x1, line.y1) == pytest.approx((left, top + 0.9 * side))  # type: ignore[union-attr]
    assert (line.x2, line.y2) == pytest.approx((left + 0.9 * side, top))  # type: ignore[union-attr]


def test_where_no_guarantee_remains_nothing_is_called_certified() -> None:
    sources = exposed_sources(R=30)
    lost = replace(sources, status=sources.status.model_copy(update={"guarantee": "no: seen"}))
    for known, said in ((sources, True), (lost, False)):
        drawn = exposure_pictures(known, "careful")
        assert any("ertified: under" in picture.says for picture in drawn) is said
        assert any(mark.kind == "band" for picture in drawn for mark in picture.marks) is said
    page = to_html(build_report(lost), lost)
    section = page[page.index('id="exposure"') : page.index('id="budget"')]
    assert "No guarantee remains. With one this would read" in unmarked(section)


def test_a_claim_at_one_threshold_shades_nothing_and_has_a_ring(sources: Sources) -> None:
    figures = figures_of(sources)["careful"]
    attack = next(each for each in figures.attacks if each.requirement == "flagged")
    part = declared("advantage", threshold={"quantile": "0.95"})
    picture = attack_picture(attack, part, figures, certified=True)
    assert not any(mark.kind == "band" for mark in picture.marks)
    (ring,) = [mark for mark in picture.marks if isinstance(mark, Circle)]
    assert "8.0 % of members, 5.0 % of others" in ring.tip


def test_a_corner_and_an_area_are_drawn_as_what_they_are(sources: Sources) -> None:
    figures = figures_of(sources)["careful"]
    corner = attack_picture(
        figures.attacks[0], declared("tpr at fpr", fpr="0.01"), figures, certified=True
    )
    assert [mark for mark in corner.marks if mark.kind == "limit" and isinstance(mark, Stroke)]
    area = attack_picture(
        figures.attacks[0], declared("membership auc", "0.55"), figures, certified=True
    )
    assert "area under the curve below 0.55" in area.says
    assert not any(mark.kind in ("limit", "band") for mark in area.marks)


def pictures(sources: Sources) -> list[Picture]:
    return [*exposure_pictures(sources, "careful"), *exposure_pictures(sources, "careless")]


def test_scores_of_an_attack_are_drawn_once(sources: Sources) -> None:
    titles = [picture.title for picture in exposure_pictures(sources, "careful")]
    assert titles.count("dcr: scores") == titles.count("domias: scores") == 1
    assert titles[-1] == "Distance to the release"


def test_words_stay_inside_and_every_look_is_known(sources: Sources) -> None:
    assert_words_inside(pictures(sources))


def assert_words_inside(drawn: list[Picture]) -> None:
    for picture in drawn:
        for mark in picture.marks:
            assert mark.kind in LOOKS
            if isinstance(mark, Writing):
                wide = text_width(mark.text, mark.size)
                start = mark.x - {"start": 0.0, "middle": wide / 2, "end": wide}[mark.anchor]
                assert start >= -1.0, mark.text
                assert start + wide <= WIDTH + 1.0, mark.text


def test_infinite_scores_leave_a_picture_of_the_finite_ones(sources: Sources) -> None:
    figures = figures_of(sources)["careful"]
    none = ("-inf",) * 5
    picture = curve_picture("scores", figures, none, figures.member_distances, "score")
    assert len([mark for mark in picture.marks if isinstance(mark, Stroke)]) == 1
    assert "inf" in picture.says


def test_an_attack_that_succeeds_or_not_is_bars() -> None:
    part = declared("attribute inference", "0.05")
    picture = success_picture(attack_figures("income", "guess", 1), part)
    assert "members 62.0 %; others 60.5 %" in picture.says
    assert "+1.5 points for members; allowed: less than 5" in picture.says


def test_the_pictures_of_exposure_are_among_those_of_a_report(
    report: Report, sources: Sources
) -> None:
    drawn = pictures_of(report, sources)
    assert len(drawn["exposure: careful"]) == len(exposure_pictures(sources, "careful"))
    pytest.importorskip("matplotlib")
    for picture in drawn["exposure: careful"]:
        assert to_figure(picture, scheme="dark").axes
