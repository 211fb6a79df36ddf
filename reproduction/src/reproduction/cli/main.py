"""The verbs of ``python -m reproduction``; ``make audits`` runs the audits."""

from __future__ import annotations

import typer

from reproduction.cli import data, plan, study

app = typer.Typer(
    name="python -m reproduction",
    help="The paper's simulations, planner and data sets, with ours beside them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(plan.plan)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")
