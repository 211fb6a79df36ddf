"""``python -m reproduction study``: the paper's simulations, with ours beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.show import Json

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from reproduction.studies.run import Progress
    from reproduction.studies.study import Study

app = typer.Typer(no_args_is_help=True, help="Reproduce the paper's simulations.")


@app.command("list")
def list_studies(json: Json = False) -> None:
    """List the studies."""
    from reproduction.studies.catalog import STUDIES

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
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for rows, and figures if matplotlib is installed."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="Where simulated blocks are kept, if not in the user's."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Simulate everything, and keep nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a study and say which published figures it agrees with."""
    from reproduction.studies.cache import default_cache
    from reproduction.studies.catalog import STUDIES
    from reproduction.studies.figures import write_figures
    from reproduction.studies.plotting import has_matplotlib
    from reproduction.studies.report import table, write_rows
    from reproduction.studies.rows import agreement
    from reproduction.studies.run import run_study, workers
    from reproduction.studies.whole_grid import grid_rows

    if methods not in ("paper", "all"):
        raise typer.BadParameter(f"--methods is paper or all, got {methods!r}")
    if name != "all" and name not in STUDIES:
        raise typer.BadParameter(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    if no_cache and cache is not None:
        raise typer.BadParameter("--cache names a folder and --no-cache wants none; choose one")
    chosen = [STUDIES[name]] if name != "all" else [
        study for study in STUDIES.values() if methods == "all" or not study.own
    ]  # fmt: skip
    rows = []
    with show.bars(json) as progress, workers(jobs) as pool:
        for study in chosen:
            rows += run_study(
                study, repetitions=repetitions, seed=seed, pool=pool,
                methods=None if methods == "all" else study.published_methods(),
                progress=progress, cache=None if no_cache else cache or default_cache(),
            )  # fmt: skip
    rows += grid_rows(rows)
    verdict = agreement(rows)
    if out is not None:
        write_rows(out, rows)
        if has_matplotlib():
            write_figures(out, rows)
    if json:
        show.give(
            {
                "rows": [row.to_dict() for row in rows],
                "compared": verdict.compared,
                "differ": [row.to_dict() for row in verdict.differ],
            }
        )
    else:
        for line in table(rows).split("\n"):
            show.say(line)
        show.say(verdict.sentence)
    if not verdict.good:
        raise typer.Exit(show.Exit.ERROR)


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A study's name, or all.")] = "all",
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, help="Of each cell.")] = 200,
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 1,
) -> None:
    """Decide repetitions again through the package, from the losses themselves."""
    from reproduction.studies.catalog import STUDIES
    from reproduction.studies.cross_check import CHECKS, checked_studies
    from reproduction.studies.run import workers

    if name != "all" and name not in CHECKS:
        raise typer.BadParameter(
            f"no study {name!r} has losses to decide from; there are {', '.join(CHECKS)}"
        )
    chosen = checked_studies() if name == "all" else [STUDIES[name]]
    with show.bars(False) as progress, workers(jobs) as pool:
        _check(chosen, repetitions, pool, progress)


def _check(
    studies: Sequence[Study], repetitions: int, pool: Executor | None, progress: Progress | None
) -> None:
    """Say what differs between the studies and the package; anything is an error."""
    from reproduction.studies.cross_check import cross_check, verdict

    found = cross_check(studies, repetitions=repetitions, pool=pool, progress=progress)
    for one in found:
        if one.differ:
            show.say(
                f"{one.study}, cell {one.cell}, {one.method}: {one.metric} differs in "
                f"{one.differ} of {one.repetitions} repetitions"
            )
    show.say(verdict(found))
    if any(one.differ for one in found):
        raise typer.Exit(show.Exit.ERROR)


@app.command("reproduce")
def reproduce(
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 1,
    out: Annotated[
        Path, typer.Option("--out", help="A folder for reproduction.md, figures and rows.")
    ] = Path("docs"),
    repetitions: Annotated[int | None, typer.Option("--repetitions", min=1)] = None,
    check: Annotated[
        int, typer.Option("--check", min=0, help="Repetitions of a cell decided again; 0: none.")
    ] = 200,
) -> None:
    """Run every study and write reproduction.md with its figures.

    A study that has fewer repetitions than --repetitions keeps its own. Then repetitions of every
    cell are decided again by the package, from the losses themselves.
    """
    from reproduction.studies.catalog import STUDIES
    from reproduction.studies.cross_check import checked_studies
    from reproduction.studies.document import Made, write_document
    from reproduction.studies.plotting import need_matplotlib
    from reproduction.studies.rows import agreement
    from reproduction.studies.run import run_study, workers
    from reproduction.studies.whole_grid import grid_rows

    need_matplotlib()  # before minutes are spent, not after
    rows, before = [], sum(os.times()[:4])
    with show.bars(False) as progress, workers(jobs) as pool:
        for study in STUDIES.values():
            least = study.repetitions if repetitions is None else repetitions
            rows += run_study(
                study, repetitions=min(study.repetitions, least), pool=pool, progress=progress
            )
    rows += grid_rows(rows)
    seconds = sum(os.times()[:4]) - before  # the workers have ended, so theirs are in it
    command = "python -m reproduction study reproduce"
    command += "" if out == Path("docs") else f" --out {out}"
    command += "" if repetitions is None else f" --repetitions {repetitions}"
    made = Made.here(command, seconds, rows_folder=(out / "rows").as_posix())
    for place in write_document(out, rows, STUDIES, made):
        show.say(str(place))
    verdict = agreement(rows)
    show.say(verdict.sentence)
    if not verdict.good:
        raise typer.Exit(show.Exit.ERROR)
    if check:
        with show.bars(False) as progress, workers(jobs) as pool:
            _check(checked_studies(), check, pool, progress)
