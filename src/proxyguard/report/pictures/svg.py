"""A picture as inline SVG: classes for looks, one text alternative, no script, no style."""

from __future__ import annotations

from html import escape

from proxyguard.report.pictures.picture import Circle, Line, Mark, Path, Picture, Rect, Text
from proxyguard.report.printable import printable


def to_svg(picture: Picture) -> str:
    """Return the picture for a page; its words are escaped."""
    size = f'width="{_n(picture.width)}" height="{_n(picture.height)}"'
    box = f'viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"'
    label = _words(f"{picture.title}. {picture.says}")
    body = "".join(_mark(mark) for mark in picture.marks)
    return f'<svg class="pg-picture" role="img" {box} {size} aria-label="{label}">{body}</svg>'


def to_icon(picture: Picture) -> str:
    """Return a picture that stands beside the word it repeats, and is not read out."""
    box = f'viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"'
    body = "".join(_mark(mark) for mark in picture.marks)
    return f'<svg class="pg-icon" aria-hidden="true" focusable="false" {box}>{body}</svg>'


def _mark(mark: Mark) -> str:
    name = f'class="pg-{mark.kind}"'
    if isinstance(mark, Line):
        ends = f'x1="{_n(mark.x1)}" y1="{_n(mark.y1)}" x2="{_n(mark.x2)}" y2="{_n(mark.y2)}"'
        return f"<line {name} {ends}/>"
    if isinstance(mark, Rect):
        box = f'x="{_n(mark.x)}" y="{_n(mark.y)}"'
        size = f'width="{_n(mark.width)}" height="{_n(mark.height)}"'
        return _with_tip("rect", f"{name} {box} {size}", mark.tip)
    if isinstance(mark, Circle):
        place = f'cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.r)}"'
        return _with_tip("circle", f"{name} {place}", mark.tip)
    if isinstance(mark, Path):
        points = "L".join(f"{_n(x)} {_n(y)}" for x, y in mark.points)
        return f'<path {name} d="M{points}{"Z" if mark.closed else ""}"/>'
    return _text(mark, name)


def _text(mark: Text, name: str) -> str:
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" font-size="{_n(mark.size)}"'
    return f"<text {name} {place}{anchor}>{_words(mark.text)}</text>"


def _with_tip(element: str, attributes: str, tip: str) -> str:
    if not tip:
        return f"<{element} {attributes}/>"
    return f"<{element} {attributes}><title>{_words(tip)}</title></{element}>"


def _words(text: str) -> str:
    """Return text that cannot become markup, nor turn or hide writing."""
    return escape(printable(text))


def _n(value: float) -> str:
    """Return a coordinate in tenths, so that every machine writes the same digits."""
    tenths = round(value * 10)
    return str(tenths // 10) if tenths % 10 == 0 else f"{tenths / 10:.1f}"
