"""Draws that take too long to be made again in every run: made once, kept, and read by audits.

    python -m reproduction.audits.kept [NAME ...] [--draws N] [--jobs N] [--work DIR]
                                       [--training FILE]

An audit with a `draws.toml` beside its declaration says there which mechanism makes its draws,
from which seeds and with which options. Each draw is made from the training part that sealing
wrote, and kept in `draws/NAME/` as a table whose columns are codes into their few values. A draw
that failed is kept as its reason, which no reader takes for a table, so that the audit counts it
as failed. What is there is not made again: a run that was stopped goes on where it was.
`draws.json` has the settings, and for each draw the seconds of processor time, the digest and the
versions of what made it.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ConfigDict, JsonValue, TypeAdapter
from pydantic.dataclasses import dataclass

from proxyguard import ProxyGuardError, RegistryError
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.tables.files import table_bytes
from reproduction.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

    import proxyguard as pg

HERE = Path(__file__).parent
KEPT = HERE / "draws"
"""The folder that declared paths of kept draws start from."""
MANIFEST, TABLE = "draws.json", ".parquet"
PACKAGES = ("proxyguard", "numpy", "opendp", "mbi", "jax", "polars")
IN_WORDS = ("mechanism", "chosen here", "columns in no measured pair", "repeatable", "privacy",
            "packages")  # fmt: skip
"""What a generator tells in words, or what `versions` of each draw has."""
TRAINING = "development/0.training.parquet"

NOTHING_ELSE = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class Recipe:
    """Which mechanism makes the draws of one folder, from which seeds."""

    folder: str
    generator: str
    seeds: tuple[int, ...]
    options: Mapping[str, JsonValue]
    unseen: tuple[str, ...] = ()
    """Columns of the source that number its rows: the mechanism does not get them, and a release
    numbers its own."""


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class KeptDraw:
    """What is known of one draw besides its table."""

    seed: int
    seconds: float
    """Of processor time."""
    sha256: str
    failure: str | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class Manifest:
    """What made the draws of one folder."""

    settings: Mapping[str, Any]
    """As the generator describes itself."""
    draws: tuple[KeptDraw, ...] = ()


MANIFESTS, RECIPES = TypeAdapter(Manifest), TypeAdapter(tuple[Recipe, ...])


def recipes_of(name: str) -> tuple[Recipe, ...]:
    """Return how the draws of an audit are made; none where it draws for itself."""
    path = HERE / name / "draws.toml"
    if not path.exists():
        return ()
    return RECIPES.validate_python(tomllib.loads(path.read_text("utf-8"))["draws"])


def manifest_of(folder: Path) -> Manifest | None:
    """Return what is known of the draws of a folder, if there are any."""
    path = folder / MANIFEST
    return MANIFESTS.validate_json(path.read_bytes()) if path.exists() else None


def path_of(folder: Path, position: int, seed: int) -> Path:
    """Return where the draw of a seed is kept; names are in the order of the seeds."""
    return folder / f"{position:02d}-{seed}{TABLE}"


def missing(recipe: Recipe, kept: Path = KEPT, draws: int | None = None) -> list[int]:
    """Return the seeds, of the first so many, that have no draw yet."""
    wanted = list(enumerate(recipe.seeds))[:draws]
    folder = kept / recipe.folder
    return [seed for i, seed in wanted if not path_of(folder, i, seed).exists()]


def complete(
    recipe: Recipe,
    training: pd.DataFrame,
    kept: Path = KEPT,
    draws: int | None = None,
    jobs: int = 1,
) -> None:
    """Make the draws of a recipe that are not there, of the first so many, some at a time.

    Raises
    ------
    RegistryError
        If draws that are there were made with other settings.
    """
    left = missing(recipe, kept, draws)
    if not left:
        return  # whoever only reads them need not have what makes them
    folder = kept / recipe.folder
    settings = dict(load_generator(recipe.generator, recipe.options).describe())
    manifest = manifest_of(folder) or Manifest(settings=settings)
    if _told(manifest.settings) != _told(settings):
        raise RegistryError(
            f"{folder} has draws that were made with other settings; the recipe says {settings}, "
            f"{MANIFEST} {dict(manifest.settings)}. Take another folder, or remove the draws"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for draw, content in _made(recipe, training, left, jobs):
        others = [known for known in manifest.draws if known.seed != draw.seed]
        order = sorted((*others, draw), key=lambda known: recipe.seeds.index(known.seed))
        manifest = Manifest(settings=settings, draws=tuple(order))
        # Before the table: a table without its facts would never get them.
        write_atomic(folder / MANIFEST, MANIFESTS.dump_json(manifest, indent=1) + b"\n")
        write_atomic(path_of(folder, recipe.seeds.index(draw.seed), draw.seed), content)
        told = draw.failure or "drawn"
        print(f"{recipe.folder}: seed {draw.seed}, {draw.seconds} s, {told}", flush=True)


def _made(
    recipe: Recipe, training: pd.DataFrame, seeds: Sequence[int], jobs: int
) -> Iterator[tuple[KeptDraw, bytes]]:
    """Return each draw with its table, as soon as it is made."""
    if jobs == 1:
        yield from (_draw(recipe, training, seed) for seed in seeds)
        return
    # Spawned: what draws may have started threads, which a fork would not have.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(seeds)), context, max_tasks_per_child=1) as processes:
        waiting = [processes.submit(_draw, recipe, training, seed) for seed in seeds]
        yield from (done.result() for done in as_completed(waiting))


def _draw(recipe: Recipe, training: pd.DataFrame, seed: int) -> tuple[KeptDraw, bytes]:
    """Return one draw with its table, or with the reason why there is none."""
    generator = load_generator(recipe.generator, recipe.options)
    # Sealing leaves excluded columns out of the training part, most likely these too.
    seen = training.drop(columns=list(recipe.unseen), errors="ignore")
    generator.prepare(seen, np.random.default_rng(0))
    begun = process_time()
    failure = None
    try:
        table = generator.draw(Seed(seed))
        content = table_bytes(_numbered(table, training, recipe.unseen))
    except ProxyGuardError as error:
        failure = str(error)
        content = f"the draw failed: {failure}\n".encode()
    draw = KeptDraw(
        seed=seed, seconds=round(process_time() - begun, 1), failure=failure,
        sha256=hashlib.sha256(content).hexdigest(), versions=_versions(),
    )  # fmt: skip
    return draw, content


def _told(settings: Mapping[str, Any]) -> bytes:
    """Return what settings say besides words, which a later version may choose otherwise."""
    return canonical_bytes({name: told for name, told in settings.items() if name not in IN_WORDS})


def _numbered(table: pd.DataFrame, training: pd.DataFrame, unseen: Sequence[str]) -> pd.DataFrame:
    """Return a release with the source's columns, those that number rows counted from 1."""
    numbers = {name: np.arange(1.0, len(table) + 1.0) for name in unseen}
    return table.assign(**numbers)[list(training.columns)]


def _versions() -> dict[str, str]:
    known = {}
    for name in PACKAGES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue  # a mechanism that does without it
    return known


def release_table(path: Path) -> pd.DataFrame:
    """Return a table that was written as Parquet: a kept release, or a part of development."""
    import pandas as pd

    return pd.read_parquet(path)


def complete_apart(name: str, audit: pg.Audit, draws: int | None = None) -> None:
    """Make the draws of an audit that are not there, of the first so many, in a process of its own.

    What draws them may start threads, after which this process could not fork to fit and score.
    """
    if any(missing(recipe, draws=draws) for recipe in recipes_of(name)):
        most = [] if draws is None else ["--draws", str(draws)]
        training = ["--training", str(audit.folder.path / TRAINING)]
        command = [sys.executable, "-m", "reproduction.audits.kept", name, *training, *most]
        subprocess.run(command, check=True)


def main() -> None:
    """Make the draws of the named audits that are not there, sealing each audit for its parts."""
    with_draws = sorted(path.parent.name for path in HERE.glob("*/draws.toml"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(with_draws))
    parser.add_argument("--draws", type=int, help="at most so many draws a mechanism")
    parser.add_argument("--jobs", type=int, default=1, help="so many draws at once (1)")
    parser.add_argument("--work", type=Path, default=Path("build/audits"))
    parser.add_argument("--training", type=Path, help="the training part that sealing wrote")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(with_draws))
    if unknown:
        parser.error(f"no draws of {unknown} are kept; there are {', '.join(with_draws)}")
    for name in given.names or with_draws:
        training = given.training or _sealed(name, given.work)
        for recipe in recipes_of(name):
            complete(recipe, release_table(training), draws=given.draws, jobs=given.jobs)


def _sealed(name: str, work: Path) -> Path:
    """Return the training part of an audit in the work folder, which is sealed if it is not."""
    # Here, because what runs the audits completes their draws by this module.
    from reproduction.audits.reproduce import begin_named

    return begin_named(name, work).folder.path / TRAINING


if __name__ == "__main__":
    main()
