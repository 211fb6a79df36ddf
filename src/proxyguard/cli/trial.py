"""``proxyguard try``: a first look at releases, with nothing registered and nothing to prepare."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyguard.cli import show
from proxyguard.errors import RegistryError

if TYPE_CHECKING:
    from proxyguard.trial.trial import Trial


def try_(
    real: Annotated[Path, typer.Argument(help="The real table.", metavar="TABLE")],
    releases: Annotated[Path | None, typer.Argument(
        help="What stands in for it: a table, or a folder of them.", metavar="[RELEASES]")] = None,
    outcome: Annotated[str | None, typer.Option(
        "--outcome", help="The column that is predicted; without one, shares and means count.",
    )] = None,
    generator: Annotated[list[str] | None, typer.Option(
        "--generator", help="Draw the releases: a name of ours, or package:Class; several are "
        "compared.")] = None,
    option: Annotated[list[str] | None, typer.Option(
        "--option", help="Of a generator, as epochs=50; of several tvae.epochs=50; repeatable.",
    )] = None,
    made_from: Annotated[Path | None, typer.Option(
        "--made-from", help="The rows that the releases were made from.")] = None,
    holdout: Annotated[Path | None, typer.Option(
        "--holdout", help="Rows that whoever made the releases never saw.")] = None,
    independent: Annotated[bool, typer.Option(
        "--independent", help="The releases are independent draws of one generator.")] = False,
    exposure: Annotated[bool, typer.Option(
        "--exposure", help="Also attack the releases: who was in their rows?")] = False,
    kind: Annotated[str | None, typer.Option(
        "--kind", help="What the outcome is: binary, multiclass or regression.")] = None,
    positive: Annotated[str | None, typer.Option(
        "--positive", help="The label of a yes.")] = None,
    limit: Annotated[list[str] | None, typer.Option(
        "--limit", help="Another limit, as error=0.03; repeatable.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(
        "--exclude", help="A column to leave out; repeatable.")] = None,
    column: Annotated[list[str] | None, typer.Option(
        "--column", help="How a column is read, as a line of [columns]; repeatable.")] = None,
    draws: Annotated[int | None, typer.Option(
        "--draws", min=1, help="Releases that a generator draws; default: 40.")] = None,
    reliability: Annotated[str | None, typer.Option(
        "--reliability",
        help="Of a generator: the share of good releases that is asked for; default: 0.8.",
    )] = None,
    keep: Annotated[int, typer.Option(
        "--keep", min=0, help="Rows that are not looked at and kept for an audit, as "
        "kept/fresh.csv: about as many as judge.",
    )] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of rows and draws.")] = 0,
    out: Annotated[Path, typer.Option(
        "--out", help="The folder that the page is written into.")] = Path("try-out"),
    workers: show.Workers = None,
    home: show.HomeFolder = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Try releases on a table as it is: a page in one command, exploratory, nothing registered.

    The rows that are handed to it are used up: an audit needs others, which --keep sets aside.
    """
    from proxyguard.trial.run import try_out

    _check_out(out, keep)

    # Where the user stands: a console script does not look there for package:Class.
    if any(":" in name for name in generator or ()) and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        show.complain(line)

    with show.bars(json) as progress:
        trial = try_out(
            real, releases, outcome=outcome, generator=generator or None, made_from=made_from,
            holdout=holdout, independent=independent, exposure=exposure, kind=kind,
            positive=positive, limits=dict(_limit(text) for text in limit or ()),
            exclude=exclude or (), columns=columns_of(column or ()), draws=draws,
            options=options_of(option or (), generator or ()), reliability=reliability,
            keep=keep, seed=seed, workers=workers, home=home, out=out, progress=progress,
            tell=None if json else tell,
        )  # fmt: skip
    page = trial.save(out)
    show.answer(json, {**trial.to_dict(), "page": str(page)}, _lines(trial, page, told))
    if trial.judged:
        code = show.verdict_code(trial.decisions.values())
        if code is not show.Exit.DONE:
            raise typer.Exit(code)


def _check_out(out: Path, keep: int) -> None:
    """Find before the work that the page could not be written."""
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir():
        raise RegistryError(f"--out is {out}, and {there} is a file; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RegistryError(f"--out is {out}, and nothing can be written into {there}")


def _limit(text: str) -> tuple[str, str]:
    """Read a limit as it is given to --limit."""
    name, sign, number = text.rpartition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is no NAME=NUMBER, such as error=0.03")
    return name.strip(), number.strip()


def options_of(texts: Sequence[str], generators: Sequence[str]) -> dict[str, object]:
    """Read what is given to --option; of several generators each has its own.

    >>> options_of(["epochs=50", "columns=['a']", "law=normal"], ["tvae"])
    {'epochs': 50, 'columns': ['a'], 'law': 'normal'}
    >>> options_of(["tvae.epochs=50"], ["tvae", "copula"])
    {'tvae': {'epochs': 50}}
    """
    options: dict[str, object] = {}
    for text in texts:
        key, sign, written = (part.strip() for part in text.partition("="))
        if not sign or not key:
            raise typer.BadParameter(f"{text!r} is no KEY=VALUE, such as epochs=50")
        try:
            said: object = tomllib.loads(f"x = {written}")["x"]
        except tomllib.TOMLDecodeError:
            said = written  # a text without quotation marks, as a shell leaves it
        if len(generators) < 2:
            options[key] = said
            continue
        owner, dot, name = key.partition(".")
        if not dot:
            raise typer.BadParameter(
                f"{text!r}: of several generators say which one, such as {generators[0]}.{key}=..."
            )
        own = options.setdefault(owner, {})
        assert isinstance(own, dict)
        own[name] = said
    return options


def columns_of(lines: Sequence[str]) -> dict[str, object]:
    """Read what is given to --column: lines as they stand below ``[columns]``.

    >>> columns_of(['crp = { missing = ["k.A."] }'])
    {'crp': {'missing': ['k.A.']}}
    """
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(
            f"a line of [columns] is NAME = {{ ... }}, such as "
            f"'crp = {{ missing = [\"k.A.\"] }}': {error}"
        ) from None


def _lines(trial: Trial, page: Path, told: Collection[str]) -> Iterable[str]:
    """Yield what the terminal says: what this is, what was seen, where the page is.

    Notes that were told before the work are not told again.
    """
    yield from trial.heading
    yield ""
    yield from trial.decided
    for requirement in trial.requirements:
        yield f"{requirement.name}: {requirement.sentence}"
    yield ""
    yield "What was guessed and what was left out:"
    yield from (f"  {note}" for note in trial.notes if note not in told)
    yield ""
    yield from (
        ["What each column was taken for stands on the page."] if trial.again else _columns(trial)
    )
    yield ""
    yield trial.power
    yield f"Page: {page}"
    yield f"The way on: proxyguard init my-audit --from {page.parent}"


def _columns(trial: Trial) -> Iterable[str]:
    yield "Columns (column, taken for, missing, what it holds, what was done):"
    wide = max(len(column.name) for column in trial.columns)
    for column in trial.columns:
        cells = (column.name.ljust(wide), column.kind.ljust(6), column.missing.rjust(6))
        yield f"  {'  '.join(cells)}  {column.span} ({column.use})"
