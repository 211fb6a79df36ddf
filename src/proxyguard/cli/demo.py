"""The demonstration: a whole audit with three mechanisms and three verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.options import Json


def demo(
    folder: Annotated[
        Path, typer.Option("--dir", help="Where the demonstration is put.", metavar="DIR")
    ] = Path("demo-audit"),
    json: Json = False,
) -> None:
    """Run a whole audit on embedded data: one mechanism validated, one not, one in between."""
    from proxyguard.audit.demo import run_demo

    with show.bars(json) as progress:
        place, certificate, good = run_demo(folder, progress, None if json else show.say)
    if json:
        show.give({"folder": str(place), "verified": good, "certificate": certificate.to_dict()})
        return
    show.say()
    show.show_outcome(place, certificate)
    show.say()
    show.say(f"Report:  {place / 'report.html'}")
    show.say(f"Check:   proxyguard verify {place}   -> {'everything holds' if good else 'BROKEN'}")
    if not good:
        raise typer.Exit(show.Exit.BROKEN)
