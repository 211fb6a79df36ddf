"""How each kind of mark looks: roles of a palette, in light and dark, for page and matplotlib."""

from __future__ import annotations

from dataclasses import dataclass

PALETTES: dict[str, dict[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "wash": "#f5f5f2",
        "ink": "#1d2024",
        "muted": "#565c64",
        "line": "#cfd3d8",
        "accent": "#1f4e79",
        "good": "#1a6b45",
        "open": "#855800",
        "bad": "#a3241c",
    },
    "dark": {
        "paper": "#15171b",
        "wash": "#1e2127",
        "ink": "#e9eaec",
        "muted": "#a9afb8",
        "line": "#40454d",
        "accent": "#93c0f2",
        "good": "#74d3a4",
        "open": "#e8b955",
        "bad": "#ff9d93",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Fill and stroke by role; an empty role paints nothing."""

    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0  # of the fill
    weight: int = 400  # of words
    halo: bool = False  # words that may lie over marks


LOOKS: dict[str, Look] = {
    "axis": Look(stroke="muted"),
    "grid": Look(stroke="line"),
    "label": Look(fill="ink"),
    "strong": Look(fill="ink", weight=600),
    "quiet": Look(fill="muted"),
    "over": Look(fill="ink", weight=600, halo=True),
    "target": Look(stroke="ink", width=1.6, dash=(5.0, 3.0)),
    "limit": Look(stroke="ink", width=1.6, dash=(5.0, 3.0)),
    "estimate": Look(fill="accent"),
    "above": Look(stroke="bad", width=1.8),
    "whisker": Look(stroke="accent", width=1.1),
    "curve": Look(stroke="accent", width=2.0),
    "bounds": Look(stroke="accent", width=1.1, dash=(3.0, 2.0)),
    "band": Look(fill="accent", opacity=0.16),
    "bar": Look(fill="accent"),
    "bar-2": Look(fill="accent", opacity=0.62),
    "bar-3": Look(fill="accent", opacity=0.34),
    "rest": Look(fill="wash", stroke="line"),
    "loss": Look(fill="muted", opacity=0.55),
    "path": Look(stroke="accent", width=2.0),
    "boundary": Look(stroke="good", width=1.6, dash=(5.0, 3.0)),
    "look": Look(fill="paper", stroke="good", width=1.6),
    "validated": Look(fill="good"),
    "unresolved": Look(fill="open"),
    "violation": Look(fill="bad"),
    "validated-reading": Look(stroke="good", width=1.4, dash=(3.0, 2.0)),
    "unresolved-reading": Look(stroke="open", width=1.4, dash=(3.0, 2.0)),
    "violation-reading": Look(stroke="bad", width=1.4, dash=(3.0, 2.0)),
    "unresolved-ring": Look(fill="paper", stroke="open", width=2.0),
    "sign": Look(stroke="paper", width=2.2),
    "hover": Look(fill="paper", opacity=0.0),
}


def variables(scheme: str) -> str:
    """Return a palette as CSS custom properties."""
    return " ".join(f"--pg-{role}: {colour};" for role, colour in PALETTES[scheme].items())


def css() -> str:
    """Return the rules that give every kind of mark its look."""
    return "\n".join(f".pg-{kind} {{ {_rule(look)} }}" for kind, look in LOOKS.items())


def _rule(look: Look) -> str:
    parts = [f"fill: {_paint(look.fill)};", f"stroke: {_paint(look.stroke)};"]
    if look.stroke:
        parts.append(f"stroke-width: {look.width:g};")
    if look.dash:
        parts.append(f"stroke-dasharray: {' '.join(f'{d:g}' for d in look.dash)};")
    if look.opacity < 1.0:
        parts.append(f"fill-opacity: {look.opacity:g};")
    if look.weight != 400:
        parts.append(f"font-weight: {look.weight};")
    if look.halo:
        parts.append("stroke: var(--pg-paper); stroke-width: 4; paint-order: stroke;")
    return " ".join(parts)


def _paint(role: str) -> str:
    return f"var(--pg-{role})" if role else "none"
