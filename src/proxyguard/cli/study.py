"""``proxyguard study``: the paper's simulations, with ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.options import Json

app = typer.Typer(no_args_is_help=True, help="Reproduce the paper's simulations.")


@app.command("list")
def list_studies(json: Json = False) -> None:
    """List the studies."""
    from proxyguard.studies.catalog import STUDIES

    if json:
        show.give(
            [
                {
                    "name": s.name,
                    "paper": s.paper,
                    "cells": len(s.cells),
                    "repetitions": s.repetitions,
                    "methods": {name: status.value for name, status in s.methods.items()},
                }
                for s in STUDIES.values()
            ]
        )
        return
    for study in STUDIES.values():
        show.say(f"{study.name:<24} {len(study.cells):>4} cells x {study.repetitions:>6}  "
                 f"{study.paper}")  # fmt: skip


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(help="A study's name, or all.")],
    methods: Annotated[str, typer.Option("--methods", help="paper or all.")] = "all",
    repetitions: Annotated[int | None, typer.Option("--repetitions", min=1)] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0)] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 1,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for the rows.")] = None,
    json: Json = False,
) -> None:
    """Run a study and say which published figures it agrees with."""
    from proxyguard.studies.catalog import STUDIES
    from proxyguard.studies.report import table, write_rows
    from proxyguard.studies.rows import agreement
    from proxyguard.studies.run import run_study

    if methods not in ("paper", "all"):
        raise typer.BadParameter(f"--methods is paper or all, got {methods!r}")
    if name != "all" and name not in STUDIES:
        raise typer.BadParameter(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    rows = []
    with show.bars(json) as progress:
        for study in STUDIES.values() if name == "all" else (STUDIES[name],):
            rows += run_study(
                study, repetitions=repetitions, seed=seed, jobs=jobs,
                methods=None if methods == "all" else study.published_methods(),
                progress=progress,
            )  # fmt: skip
    verdict = agreement(rows)
    if out is not None:
        write_rows(out, rows)
    if json:
        show.give(
            {
                "rows": [row.to_dict() for row in rows],
                "compared": verdict.compared,
                "differ": [row.to_dict() for row in verdict.differ],
            }
        )
    else:
        show.say(table(rows))
        show.say(verdict.sentence)
    if not verdict.good:
        raise typer.Exit(show.ERROR)
