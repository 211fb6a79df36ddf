"""What a drawing process is told: the source, the procedure, and what it may not read.

Such a process is also asked how a generator describes itself. Generators of ours are asked here;
those of others, and procedures and losses that are named by import path, are loaded where they
are held as draws are: without the target, the keys and the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from pydantic import JsonValue

from proxyguard.adapters.files import FOLDER, FileFolder, declared_files
from proxyguard.adapters.kept import kept_folders
from proxyguard.audit.folder import EVIDENCE
from proxyguard.audit.manifest import exist_already, release_schema
from proxyguard.documents.registry import DrawnMechanism, RegisteredProcedure
from proxyguard.draw.catalog import is_built_in, load_generator, need_extra
from proxyguard.draw.job import (
    DescribeJob,
    DrawJob,
    FitJob,
    LoadJob,
    RegisteredGenerator,
    Survey,
    line_of,
)
from proxyguard.draw.messages import Loaded, Told
from proxyguard.draw.pool import asked
from proxyguard.draw.protocol import ChecksMachine, ChecksSource
from proxyguard.draw.sources import Described, set_root
from proxyguard.registry.declaration import Member
from proxyguard.registry.parts import Drawn
from proxyguard.seal.journal import NAME
from proxyguard.tables.files import Schema

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.audit.development import MemberDevelopment, Workplace


def draw_job(
    development: MemberDevelopment, generator: str, options: Mapping[str, JsonValue], *,
    name: str, prepare_seed: int = 0, allow: Sequence[str] = (),
    registered: DrawnMechanism | None = None, learner: RegisteredProcedure | None = None,
    release: str | None = None, many: int = 1, may_ignore_seed: bool = False, coins: bool = False,
) -> DrawJob:  # fmt: skip
    """Return the job of one mechanism on its member's development part.

    Parameters
    ----------
    development
        The development part that its draws start from.
    generator, options
        What draws, by name or import path, and what it is made with.
    name
        The mechanism, pilot or stand-in.
    prepare_seed
        Seed of what is done once, before any draw.
    allow
        Patterns of what draws may read besides code.
    registered, learner
        What the registry says of the generator and of the procedure: the drawing process compares
        both with what it loads.
    release
        The name of a stand-in, which may be declared to lack columns.
    many
        How many seeds are drawn at once.
    may_ignore_seed
        Whether a draw that leaves its seed alone is no failure.
    coins
        Whether a coin for each row decides which of them a draw is prepared on.
    """
    place, member = development.place, development.member
    known = (
        None
        if registered is None
        else RegisteredGenerator(describe=registered.describe, origin=registered.origin)
    )
    draws = {
        **generator_fields(place, member, generator, options),
        "keeps": tuple(kept_folders(generator, options, root_for(place, options))),
        "prepare_seed": prepare_seed,
        "registered": known,
        "many": many,
        "may_ignore_seed": may_ignore_seed,
        "coins": coins,
    }
    schema = release_schema(member, development.kinds, generator, release)
    fits = fit_job(development, schema, name=name, allow=allow, learner=learner)
    return DrawJob.model_validate({**dict(fits), **draws})


def fit_job(
    development: MemberDevelopment, schema: Schema, *, name: str = "", allow: Sequence[str] = (),
    learner: RegisteredProcedure | None = None,
) -> FitJob:  # fmt: skip
    """Return what the process that fits a member's procedure is told, by what releases hold."""
    member, folder = development.member, development.place.folder
    features = () if member.procedure is None else development.features
    # As the seal recorded it, not as a file lies there or not.
    validated = "validation" in development.sealed.development
    return FitJob(
        name=name or member.name,
        source=str(folder / development.training_name),
        source_rows=development.sealed.development["training"],
        validation=str(folder / development.validation_name) if validated else None,
        schema_of_releases=schema,
        procedure=member.procedure,
        outcome=member.target.predicted,
        features=tuple(column for column in features if column in schema.kinds),
        allow=tuple(allow),
        learner=learner,
    )


class GeneratorFields(TypedDict):
    """What any process is told that loads a generator: what it is, and what it may not read."""

    forbidden: tuple[str, ...]
    generator: str
    options: dict[str, JsonValue]
    root: str
    reads: tuple[str, ...]
    lists: tuple[str, ...]


def generator_fields(
    place: Workplace, member: Member, generator: str, options: Mapping[str, JsonValue]
) -> GeneratorFields:
    """Return the fields that all jobs have in common which load a generator."""
    root = root_for(place, options)
    # By name: the target's table may lie in the same folder.
    reads, lists = declared_files(generator, options, root)
    return GeneratorFields(
        forbidden=forbidden_paths(place, member),
        generator=generator,
        options=dict(options),
        root=str(root),
        reads=tuple(reads),
        lists=tuple(lists),
    )


def folder_of(place: Workplace, drawn: Drawn) -> FileFolder:
    """Return what reads the files of a folder, which are the draws of ``files``."""
    made = load_generator("files", drawn.options)
    set_root(made, str(root_for(place, drawn.options)))
    assert isinstance(made, FileFolder)
    return made


def root_for(place: Workplace, options: Mapping[str, object]) -> Path:
    """Return the folder that the paths in a generator's options start from."""
    folder = options.get(FOLDER)
    return place.data.root_of(folder) if isinstance(folder, str) else place.folder.path


def forbidden_paths(place: Workplace, member: Member) -> tuple[str, ...]:
    """Return what a draw may not open: keys, ledger, scores, and every file with target rows."""
    target = member.target
    # Ledger and evidence too: an audit that draws after its opening has scores by then, and a
    # draw that knew them could follow them.
    paths = [place.home, str(place.folder / "target"), str(place.folder / NAME),
             str(place.folder / EVIDENCE)]  # fmt: skip
    for name in target.files:
        # A compressed copy beside the table may have the same rows.
        paths += map(str, place.data.spellings(name))
    return tuple(paths)


class Descriptions:
    """The answers of one command, which starts at most one process for each generator.

    Between two commands a generator may have changed, so nothing is kept for the next. While one
    draws, its workers ask the generators that they loaded.
    """

    def __init__(self) -> None:
        self._told: dict[bytes, Described] = {}

    def of(
        self, place: Workplace, member: Member, drawn: Drawn, survey: Survey | None = None
    ) -> Described:
        """Return how a generator describes itself, with the files that it reads if they are asked.

        Raises
        ------
        RegistryError
            It cannot be loaded, made or described.
        DrawError
            Its process ended, took too long, or answered something else.
        """
        generator = str(drawn.generator)
        # Ours run here, and are asked each time: their files may have changed since.
        if is_built_in(generator):
            made = load_generator(generator, drawn.options)
            # After what is wrong with the declaration itself. Whoever asks here will draw; who
            # verifies asks the generator alone, and needs no extra.
            need_extra(generator)
            set_root(made, str(root_for(place, drawn.options)))
            return Described.by(generator, made, survey)
        job = DescribeJob(
            name=drawn.name,
            allow=tuple(drawn.allow),
            **generator_fields(place, member, generator, drawn.options),
            survey=survey,
        )
        # The whole question: other options or another survey may have another answer.
        key = line_of(job)
        if key not in self._told:
            said = asked(job, pool=place.pool, kind=Told)
            self._told[key] = Described(generator=generator, said=said)
        return self._told[key]


def check_source(member: Member, drawn: Drawn, source: pd.DataFrame) -> None:
    """Refuse a source that a generator of ours could not draw from, before anything is frozen.

    It is asked about the columns that draws get: an excluded one is in no source of theirs.

    Raises
    ------
    RegistryError
        An option names a column, a category or a number of rows that the source has not.
    """
    generator = str(drawn.generator)
    if is_built_in(generator):
        made = load_generator(generator, drawn.options)
        if isinstance(made, ChecksSource):
            spared = member.spared(delivered=exist_already(generator))
            made.check_source(source[[name for name in source.columns if name not in spared]])


def check_machine(drawn: Drawn) -> None:
    """Refuse this machine where a generator of ours asks for a device that it has not.

    Raises
    ------
    RegistryError
        There is no such device.
    """
    generator = str(drawn.generator)
    if is_built_in(generator):
        made = load_generator(generator, drawn.options)
        if isinstance(made, ChecksMachine):
            made.check_machine()


def loading_problems(place: Workplace, member: Member, names: Sequence[str]) -> list[str]:
    """Return why procedures and losses that are named by import path cannot be loaded."""
    if not names:
        return []
    job = LoadJob(name=member.name, forbidden=forbidden_paths(place, member), names=tuple(names))
    return list(asked(job, pool=place.pool, kind=Loaded).problems)
