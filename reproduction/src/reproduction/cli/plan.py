"""``python -m reproduction plan``: the paper's planner; ``proxyguard plan`` is ours."""

from __future__ import annotations

from typing import Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.show import Json


def plan(
    rates: Annotated[
        str, typer.Option("--rates", help="Of recognized releases: direct=0.95,named=0.80.")
    ],
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="The limit of one loss in [0, 1].")
    ] = 0.3,
    alpha: Annotated[float, typer.Option("--alpha")] = 0.05,
    record_cost: Annotated[float, typer.Option("--record-cost", min=0)] = 1.0,
    release_cost: Annotated[float, typer.Option("--release-cost", min=0)] = 1.0,
    budget: Annotated[float, typer.Option("--budget", min=0)] = 10_000.0,
    json: Json = False,
) -> None:
    """Print the paper's choice: the largest projected bound, by its own grid and tie rule."""
    from reproduction.studies.paper_planner import PaperGrid

    pairs = dict(piece.partition("=")[::2] for piece in rates.split(","))
    if set(pairs) != {"direct", "named"}:
        raise typer.BadParameter(f"--rates names direct and named, got {rates!r}")
    known = {mode: _number(text, mode) for mode, text in pairs.items()}
    if record_cost <= 0.0:
        raise typer.BadParameter("the paper's planner counts in records: their cost is above 0")
    grid = PaperGrid(budget=budget / record_cost, tolerance=tolerance, alpha=alpha)
    ratio = release_cost / record_cost
    chosen = grid.choose(ratio, known)
    value: dict[str, float | str | None] = {
        "mode": chosen.mode, "n": chosen.n, "releases": chosen.releases, "share": chosen.share,
        "slack": chosen.slack if chosen.mode == "direct" else None,
        "projected_bound": grid.projection(chosen, known[chosen.mode]),
        "cost": chosen.cost(ratio) * record_cost,
    }  # fmt: skip
    if json:
        show.give(value)
        return
    slack = "" if chosen.mode == "named" else f", slack {chosen.slack:g}"
    show.say(
        f"{chosen.mode}: {chosen.n:,} records, {chosen.releases:,} draws, share {chosen.share:g}"
        f"{slack}; projected bound {value['projected_bound']:.3f}, cost {value['cost']:,.10g}"
    )


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{what} is a number, got {text!r}") from None
