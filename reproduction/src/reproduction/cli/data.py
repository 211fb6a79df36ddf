"""``python -m reproduction data``: public data sets, fetched, verified and prepared for audits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyguard.cli import show
from proxyguard.cli.show import Json

if TYPE_CHECKING:
    from reproduction.datasets.catalog import DataSet

app = typer.Typer(no_args_is_help=True, help="Fetch and prepare public data sets.")

Name = Annotated[
    str, typer.Argument(help="A data set's name; see: python -m reproduction data list.")
]


@app.command("list")
def list_data(json: Json = False) -> None:
    """List the data sets, which of them are here, and how their digests begin."""
    from reproduction.datasets.catalog import CATALOG

    if json:
        show.give([_facts(one) for one in CATALOG.values()])
        return
    for one in CATALOG.values():
        show.say(
            f"{one.name:<20} {one.rows:>7} rows  {_where(one):<12}  {_digest(one):<19}  {one.title}"
        )


@app.command("fetch")
def fetch(
    name: Name,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Another address, or a file, with the official content."),
    ] = None,
    json: Json = False,
) -> None:
    """Download a data set, unless it is here already, and verify every file of it."""
    from reproduction.datasets import fetch as files

    with show.bars(json) as progress:
        places = files.fetch(_known(name).name, source=source, progress=progress)
    _give_paths(name, places, json)


@app.command("path")
def path(name: Name, json: Json = False) -> None:
    """Say where the verified files of a data set lie."""
    from reproduction.datasets import fetch as files

    _give_paths(name, files.paths(_known(name).name), json)


@app.command("prepare")
def prepare(
    name: Name,
    out: Annotated[Path, typer.Option("--out", help="The folder for the tables.")],
    form: Annotated[
        str | None, typer.Option("--format", help="csv or parquet; default: what fits.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Your file, where a data set needs one.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the tables of a data set that audits read."""
    from reproduction.datasets.prepare import FORMS
    from reproduction.datasets.prepare import prepare as write

    if form not in (None, *FORMS):
        raise typer.BadParameter(f"--format is csv or parquet, got {form!r}")
    tables = write(_known(name).name, out, form=form, file=file)
    if json:
        show.give(
            [
                {
                    "path": str(one.path),
                    "rows": one.rows,
                    "columns": list(one.columns),
                    "sha256": one.sha256,
                }
                for one in tables
            ]
        )
        return
    for one in tables:
        show.say(f"{one.path}: {one.rows} rows, {len(one.columns)} columns")


def _known(name: str) -> DataSet:
    """Return the data set of this name; another name is an error of usage."""
    from reproduction.datasets.catalog import CATALOG

    if name not in CATALOG:
        raise typer.BadParameter(f"there is no data set {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name]


def _give_paths(name: str, places: tuple[Path, ...], json: bool) -> None:
    if json:
        show.give({"name": name, "paths": [str(place) for place in places]})
        return
    for place in places:
        show.say(str(place))


def _where(one: DataSet) -> str:
    """Return in a word whether a data set is here; files are not verified for it."""
    from reproduction.datasets.catalog import Origin
    from reproduction.datasets.fetch import found

    if one.origin is Origin.SCIKIT_LEARN:
        return "scikit-learn"
    if all(found(file) for file in one.files):
        return "here"
    return "yours to get" if one.origin is Origin.USER else "to fetch"


def _digest(one: DataSet) -> str:
    """Return how the SHA-256 of a data set's content begins, where it is known and only one."""
    known = [one.sha256] if one.sha256 else [file.sha256 for file in one.files]
    if len(known) > 1:
        return f"{len(known)} files"
    return f"sha256 {known[0][:12]}" if known[0] else "no digest"


def _facts(one: DataSet) -> dict[str, Any]:
    """Return a data set as plain values."""
    from reproduction.datasets.fetch import found

    return {
        "name": one.name,
        "title": one.title,
        "about": one.about,
        "rows": one.rows,
        "outcome": one.outcome,
        "positive": one.positive,
        "origin": one.origin.value,
        "page": one.page,
        "address": one.address,
        "licence": one.licence,
        "citation": one.citation,
        "unchecked": list(one.unchecked),
        "sha256": one.sha256,  # of arrays that scikit-learn holds; files have their own
        "files": [
            {
                "path": file.path,
                "rows": file.rows,
                "bytes": file.bytes,
                "sha256": file.sha256,
                "here": None if (place := found(file)) is None else str(place),
            }
            for file in one.files
        ],
    }
