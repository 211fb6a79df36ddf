"""Pictures are pure functions: their marks, their words, and what must not collide in them."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.certificate.wording import at_least, at_most
from proxyguard.documents.certificate import ReportStep, ReportWaterfall
from proxyguard.report.charts import (
    DOTS,
    binding_picture,
    budget_picture,
    compared_picture,
    drawn_requirements,
    interval_picture,
    pictures_of,
    release_picture,
    score_picture,
    sequential_picture,
    verdict_icon,
    waterfall_picture,
)
from proxyguard.report.content import build_report
from proxyguard.report.evidence import by_room
from proxyguard.report.html import to_html
from proxyguard.report.picture import (
    LOOKS,
    PALETTES,
    WIDTH,
    Circle,
    Line,
    Picture,
    Rect,
    Stroke,
    Writing,
    css,
    decimals,
    shorten,
    text_width,
    ticks,
    to_figure,
    to_icon,
    to_svg,
)
from report.synthetic import synthetic_sources

DECISIONS = ("validated", "unresolved", "violation")


def releases(R: int, *, limit: float = 0.05, seed: int = 1, failed: int = 0) -> Picture:
    """Return a picture of R made releases, some of which have the worst loss."""
    rng = random.Random(seed)
    estimates = [abs(rng.gauss(0.03, 0.012)) for _ in range(R - failed)] + [1.0] * failed
    scores = [int(e < 0.8 * limit) for e in estimates]
    return release_picture("error", limit, [str(r) for r in range(R)], estimates, scores)


def boxes(picture: Picture) -> list[tuple[str, float, float, float, float]]:
    """Return where each text stands: left, top, right, bottom."""
    found = []
    for mark in picture.marks:
        if isinstance(mark, Writing):
            width = text_width(mark.text, mark.size)
            left = mark.x - {"start": 0.0, "middle": width / 2, "end": width}[mark.anchor]
            found.append((mark.text, left, mark.y - 0.75 * mark.size, left + width, mark.y))
    return found


def collisions(picture: Picture) -> list[tuple[str, str]]:
    """Return the texts that lie over each other."""
    return [
        (a[0], b[0])
        for a, b in combinations(boxes(picture), 2)
        if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]
    ]


ALL = {
    "three releases": releases(3),
    "one release": releases(1),
    "thirty releases": releases(30),
    "sixty releases": releases(DOTS),
    "a thousand releases": releases(1000),
    "failed draws": releases(30, failed=2),
    "which binds": binding_picture([("error", 12), ("cost", 3), ("calibration", 0)]),
    "many requirements": binding_picture([(f"a group with a long name {j}", j) for j in range(14)]),
    "scores": score_picture(24, 3, 40, "favorable scores"),
    "budget": budget_picture("Error budget", [(f"m{i}", Fraction(1, 60)) for i in range(3)],
                             Fraction(1, 20)),
    "waterfall": waterfall_picture(
        ReportWaterfall(side="lower", certified=True, steps=(
            ReportStep(label="favorable scores: 24 of 40", change=0.6, after=0.6),
            ReportStep(label="uncertainty of the draws", change=-0.2, after=0.4),
            ReportStep(label="contamination by invalid releases", change=-0.04, after=0.36))),
        0.8),
    "path": sequential_picture("validated", [True] * 60, [(n, int(0.8 * n) + 6)
                               for n in range(20, 301)], 300),
    "a path of one draw": sequential_picture("unresolved", [False], [(1, 1)], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_no_words_collide_or_leave_the_canvas(name: str) -> None:
    picture = ALL[name]
    assert collisions(picture) == []
    for text, left, top, right, bottom in boxes(picture):
        # Bold words are a little wider than the estimate, so a pixel is not argued about.
        assert -1 <= left <= right <= picture.width + 1, text
        assert 0 <= top <= bottom <= picture.height, text


@given(st.sampled_from(DECISIONS), st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.999))
def test_an_interval_s_words_never_collide(
    decision: str, a: float, b: float, target: float
) -> None:
    picture = interval_picture(decision, min(a, b), max(a, b), target)
    assert collisions(picture) == []
    assert all(left >= -1 and right <= WIDTH + 1 for _, left, _, right, _ in boxes(picture))


@pytest.mark.parametrize(
    ("lower", "upper", "target"),
    [
        (0, 1, 0.5),
        (1, 1, 0.999),
        (0, 0, 0.001),
        (0.8, 0.8, 0.8),
        (0.799, None, 0.8),
        (0, 0.01, 0.01),
    ],
)
def test_the_extremes_of_an_interval_stay_readable(
    lower: float, upper: float | None, target: float
) -> None:
    picture = interval_picture("unresolved", lower, upper, target)
    assert collisions(picture) == []
    assert len([m for m in picture.marks if isinstance(m, Line) and m.kind == "target"]) == 1


def test_each_verdict_has_a_shape_of_its_own() -> None:
    shapes = {d: [type(m).__name__ for m in verdict_icon(d).marks] for d in DECISIONS}
    assert shapes == {
        "validated": ["Circle", "Stroke"],
        "unresolved": ["Circle", "Stroke"],
        "violation": ["Rect", "Line", "Line"],
    }
    filled = {d: LOOKS[verdict_icon(d).marks[0].kind].fill for d in DECISIONS}
    assert filled["unresolved"] == "paper"  # an open ring, half of it filled
    assert filled["validated"] == "good"


def test_bounds_are_rounded_so_that_they_claim_less() -> None:
    words = [m.text for m in interval_picture("unresolved", 0.36199, 0.90001, 0.8).marks
             if isinstance(m, Writing)]  # fmt: skip
    assert "between 36.1 % and 90.1 %" in words
    assert at_least(0.57) == at_most(0.57) == "57.0 %"  # as written, though the double lies below
    assert at_least(0.9989999999999999) == "99.8 %"


def test_crossed_bounds_are_called_contradictory() -> None:
    says = interval_picture("unresolved", 0.9, 0.2, 0.5).says
    assert "contradictory: at least 90.0 %, at most 20.0 %" in says


@pytest.mark.parametrize("R", [1, 3, 5, 30, DOTS])
def test_few_releases_have_a_dot_each(R: int) -> None:
    picture = releases(R)
    dots = [m for m in picture.marks if isinstance(m, Circle)]
    crosses = [m for m in picture.marks if isinstance(m, Line) and m.kind == "above"]
    assert len(dots) + len(crosses) / 2 == R
    assert all(mark.tip for mark in dots)


def test_an_estimate_at_its_limit_is_not_below_it() -> None:
    picture = release_picture("e", 0.5, ["a", "b"], [0.5, 0.4], [None, None])
    assert "1 of 2 estimates are below the limit 0.5. " in picture.says
    assert sum(isinstance(m, Circle) for m in picture.marks) == 1


@pytest.mark.parametrize("R", [3, 40, 300])
def test_makers_stand_beside_each_other_on_one_axis_with_one_limit(R: int) -> None:
    rng = random.Random(1)
    makers = {
        name: [(str(r), at + abs(rng.gauss(0.0, 0.01))) for r in range(R)]
        for name, at in (("version 1", 0.01), ("version 2, " + "long " * 9, 0.2))
    }
    # One estimate is in both, and has one height whatever the others of its maker are.
    for listed in makers.values():
        listed.append(("same", 0.05))
    picture = compared_picture("error", 0.1, makers)
    dots = [mark for mark in picture.marks if isinstance(mark, Circle)]
    assert len({mark.y for mark in dots if mark.tip.startswith("same: ")}) == (1 if R < 60 else 0)
    limits = [mark for mark in picture.marks if isinstance(mark, Line) and mark.kind == "limit"]
    middle = [m.x1 for m in picture.marks if isinstance(m, Line) and m.kind == "axis"]
    assert len(limits) == len(middle) == 1
    assert limits[0].x1 < middle[0] < limits[0].x2
    assert collisions(picture) == []
    assert f"version 1: {R + 1} of {R + 1} below the limit 0.1, " in picture.says
    assert f"long : 1 of {R + 1} below the limit 0.1" in picture.says


def test_a_release_is_marked_by_how_it_scored_and_no_interval_is_drawn() -> None:
    picture = release_picture("e", 0.5, ["a", "b", "c"], [0.1, 0.499996, 0.6], [1, 0, 0])
    assert "2 of 3 estimates are below the limit 0.5, 1 favorable" in picture.says
    discs = [(m.kind, m.tip) for m in picture.marks if isinstance(m, Circle)]
    # 0.5000 would read as the limit itself.
    assert discs == [("estimate", "a: 0.1000, scored favorably"),
                     ("unscored", "b: 0.499996, did not score favorably")]  # fmt: skip
    assert sum(isinstance(m, Line) and m.kind == "above" for m in picture.marks) == 2


@pytest.mark.parametrize("R", [DOTS + 1, 1000, 10_000])
def test_many_releases_are_curves_of_few_points(R: int) -> None:
    picture = releases(R)
    paths = [m for m in picture.marks if isinstance(m, Stroke)]
    assert len(picture.marks) < 40
    assert [m.kind for m in paths] == ["curve"]
    assert len(to_svg(picture)) < 6_000


def test_a_curve_shows_the_least_and_the_largest_estimate() -> None:
    one = releases(1000)
    curve = next(m for m in one.marks if isinstance(m, Stroke) and m.kind == "curve")
    heights = [y for _, y in curve.points]
    assert heights == sorted(heights, reverse=True)  # pixels grow downwards
    assert len(heights) == 120
    rng = random.Random(1)
    estimates = sorted(abs(rng.gauss(0.03, 0.012)) for _ in range(1000))
    below = sum(e < 0.05 for e in estimates)
    assert f"{below} of 1,000 estimates are below the limit" in one.says


def test_a_failed_draw_does_not_flatten_the_others() -> None:
    picture = releases(30, failed=2)
    dots = [m.y for m in picture.marks if isinstance(m, Circle)]
    assert max(dots) - min(dots) > 15  # pixels
    assert any(isinstance(m, Writing) and m.text == "2 beyond the scale" for m in picture.marks)


def test_a_budget_adds_up() -> None:
    parts = [("a", Fraction(1, 60)), ("b", Fraction(1, 60)), ("c", Fraction(1, 60))]
    picture = budget_picture("budget", parts, Fraction(1, 20))
    assert picture.says == "a 1/60; b 1/60; c 1/60; sum 0.05 of 0.05."
    bars = [m for m in picture.marks if isinstance(m, Rect) and m.height == 18.0]
    assert sum(m.width + 1.0 for m in bars) == pytest.approx(WIDTH)
    short = budget_picture("budget", parts[:1], Fraction(1, 20))
    rest = [m for m in short.marks if isinstance(m, Rect) and m.kind == "rest" and m.height == 18.0]
    assert rest[0].width == pytest.approx(WIDTH * 2 / 3 - 1.0)


def test_a_waterfall_s_bars_end_where_the_next_begin() -> None:
    bars = [m for m in ALL["waterfall"].marks
            if isinstance(m, Rect) and m.kind in ("bar-2", "loss", "bar")]  # fmt: skip
    ends = [(m.x / WIDTH, (m.x + m.width) / WIDTH) for m in bars]
    assert ends == [pytest.approx(one) for one in ((0, 0.6), (0.4, 0.6), (0.36, 0.4), (0, 0.36))]


def test_few_looks_have_a_mark_each_and_axes_count_whole_draws() -> None:
    picture = sequential_picture("validated", [True, True], [(1, 2), (2, 2), (4, 3)], 4)
    looks = [m for m in picture.marks if isinstance(m, Circle) and m.kind == "look"]
    assert len(looks) == 1  # at one draw no count validates, and the third look is not near
    numbers = [m.text for m in picture.marks if isinstance(m, Writing) and m.text.isdigit()]
    assert numbers == ["0", "1", "2", "0", "1"]  # the height's, then the draws' before the word


def test_a_path_that_validates_ends_on_its_boundary_or_above() -> None:
    picture = ALL["path"]
    path = next(m for m in picture.marks if isinstance(m, Stroke) and m.kind == "path")
    boundary = next(m for m in picture.marks if isinstance(m, Stroke) and m.kind == "boundary")
    assert path.points[-1][1] <= boundary.points[-1][1]
    assert picture.says == (
        "Validated after 60 draws of at most 300: 60 favorable. The boundary was crossed."
    )


@pytest.mark.parametrize("name", ALL)
def test_every_kind_of_mark_has_a_look_in_page_and_figure(name: str) -> None:
    assert {m.kind for m in ALL[name].marks} <= set(LOOKS)
    styled = set(re.findall(r"\.pg-([\w-]+) \{", css()))
    assert {m.kind for m in ALL[name].marks} <= styled


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", PALETTES)
def test_words_and_signs_stand_out_from_the_paper(scheme: str) -> None:
    palette = PALETTES[scheme]
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)  # WCAG 2's own largest value
    for role in ("ink", "muted", "accent", "good", "open", "bad"):
        for ground in ("paper", "wash"):
            assert contrast(palette[role], palette[ground]) >= 4.5  # AA for small words


def test_the_text_alternative_is_escaped_and_complete() -> None:
    picture = release_picture('<b>"', 0.5, ["<i>"], [0.4], [1])
    shown = to_svg(picture)
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert shown.count('role="img"') == 1
    assert "&lt;b&gt;&quot;: all releases against the limit. 1 of 1 estimate" in shown
    assert 'aria-hidden="true"' in to_icon(verdict_icon("validated"))


def test_the_page_s_style_is_not_in_the_picture() -> None:
    assert all("style=" not in to_svg(picture) for picture in ALL.values())


@pytest.mark.parametrize("scheme", PALETTES)
@pytest.mark.parametrize("name", ["thirty releases", "a thousand releases", "path", "budget"])
def test_matplotlib_draws_the_same_picture(name: str, scheme: str) -> None:
    pytest.importorskip("matplotlib")
    picture = ALL[name]
    figure = to_figure(picture, scheme=scheme)
    assert figure.get_size_inches() * 96 == pytest.approx((picture.width, picture.height))
    (axes,) = figure.axes
    words = [m for m in picture.marks if isinstance(m, Writing)]
    assert [t.get_text() for t in axes.texts] == [m.text for m in words]
    drawn = len(axes.patches) + len(axes.lines) + len(axes.texts)
    assert drawn == len(picture.marks)


def test_a_dollar_sign_in_a_name_is_no_formula() -> None:
    pytest.importorskip("matplotlib")
    figure = to_figure(binding_picture([("$\\frac{1}{", 1), ("b", 2)]))
    figure.canvas.draw()


def test_ticks_are_round_and_within() -> None:
    assert ticks(0.0, 0.1) == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1])
    assert ticks(-0.07, 0.1) == pytest.approx([-0.05, 0.0, 0.05, 0.1])
    assert decimals(0.05) == 5
    assert decimals(0.3) == 4


@given(st.text(max_size=80), st.floats(30, 400))
def test_a_shortened_text_fits(text: str, width: float) -> None:
    short = shorten(text, width)
    assert text_width(short, 12.0) <= width or len(short) <= 1


def test_of_many_requirements_those_that_bind_are_drawn() -> None:
    names = [f"group {j}" for j in range(20)]
    sources = synthetic_sources(means={"careful": 0.25}, R=5, requirements=names, spread=0.0)
    report = build_report(sources)
    group = sources.groups["careful"]
    drawn = drawn_requirements(report, group, "careful")
    bind = [j for j, (_, count) in enumerate(report.bindings[0].counts) if count]
    assert len(drawn) == 12
    assert set(bind) <= set(drawn)
    assert {*by_room(group)[:6]} <= set(drawn)  # and not the first that were declared
    pictures = pictures_of(report, sources)
    assert len(pictures["verdicts"]) == 1
    assert sum(p.title.endswith("against the limit") for p in pictures["careful"]) == 12
    assert "Drawn are 12 of 20 requirements" in to_html(report, sources)


def test_pictures_of_the_cells_of_a_query_have_headings_that_tell_them_apart() -> None:
    sides = ("target above release", "target below release")
    cells = [f"two-way shares: age = {a}, ward = all others ({side})"
             for a in ("under 61", "61 and over") for side in sides]  # fmt: skip
    pictures = [release_picture(name, 0.1, ["r"], [0.0], [None]) for name in cells]
    headings = [p.marks[0].text for p in pictures if isinstance(p.marks[0], Writing)]
    assert headings == [
        "age = under 61, ward = all others ↑", "age = under 61, ward = all others ↓",
        "age = 61 and over, ward = all others ↑", "age = 61 and over, ward = all others ↓",
    ]  # fmt: skip
    assert [p.title.partition(": all releases")[0] for p in pictures] == cells


def test_long_headings_have_two_lines_and_keep_both_ends() -> None:
    ends = ("under 1961-01-10", "1961-01-10 and over")
    cells = [f"two-way shares: Geburtsdatum = {a}, Readmission 30d = {b} (target above release)"
             for a in ends for b in ("all others", "no")]  # fmt: skip
    pictures = [release_picture(name, 0.1, ["r.csv"], [0.0], [None]) for name in cells]
    first, *_ = headings = [
        [mark.text for mark in p.marks if isinstance(mark, Writing) and mark.y <= 20.0]
        for p in pictures
    ]
    assert len({*map(tuple, headings)}) == 4
    assert "…" not in "".join(map("".join, headings))
    assert " ".join(first) == "Geburtsdatum = under 1961-01-10, Readmission 30d = all others ↑"
    long = release_picture(f"{'a' * 300} of one", 0.1, ["r"], [0.0], [None]).marks[0]
    assert isinstance(long, Writing)
    assert long.text.startswith("aaaa")


def test_a_picture_names_the_releases_at_its_ends() -> None:
    picture = release_picture("risk", 0.5, ["a.csv", "b.csv", "c.csv"], [0.3, 0.1, 0.2], [None] * 3)
    words = [mark.text for mark in picture.marks if isinstance(mark, Writing)]
    assert "releases by estimate, b.csv to a.csv" in words
