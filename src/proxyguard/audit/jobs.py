"""What a drawing process is told: the source, the procedure, and what it may not read.

Such a process is also asked how a generator describes itself. Generators of ours are asked here;
those of others, and procedures and losses that are named by import path, are loaded where they
are held as draws are: without the target, the keys and the home.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyguard.adapters.categorical import kept_folders
from proxyguard.adapters.files import declared_files
from proxyguard.audit.folder import EVIDENCE
from proxyguard.documents.registry import DrawnMechanism, RegisteredProcedure
from proxyguard.draw.answers import Loaded, Told
from proxyguard.draw.catalog import is_built_in, load_generator
from proxyguard.draw.pool import asked
from proxyguard.draw.sources import Described, Survey
from proxyguard.registry.declaration import Member
from proxyguard.registry.parts import Drawn
from proxyguard.seal.journal import NAME

if TYPE_CHECKING:
    from proxyguard.audit.development import Workplace


def draw_job(
    training: str,
    validation: str,
    place: Workplace,
    member: Member,
    kinds: Mapping[str, str],
    features: Sequence[str],
    *,
    name: str,
    generator: str,
    options: Mapping[str, Any],
    prepare_seed: int,
    forbidden: Sequence[str],
    validated: bool,
    allow: Sequence[str] = (),
    registered: DrawnMechanism | None = None,
    learner: RegisteredProcedure | None = None,
    may_ignore_seed: bool = False,
) -> dict[str, Any]:
    """Return the job of one mechanism as plain values.

    ``registered`` is what the registry says of the generator, and ``learner`` of the procedure:
    the drawing process compares both with what it loads. A draw that leaves its seed alone fails
    unless it may.
    """
    root = root_for(place, options)
    reads, lists = declared_files(generator, options, root)
    keeps = kept_folders(generator, options, root)
    return {
        **fit_job(
            training, validation, place, member, kinds, features, forbidden=forbidden,
            validated=validated, allow=allow, learner=learner,
        ),
        "name": name,
        "generator": generator,
        "options": dict(options),
        "predictions": generator == "predictions",
        "root": str(root),
        "prepare_seed": prepare_seed,
        "reads": reads,
        "lists": lists,
        "keeps": keeps,
        "registered": (
            None
            if registered is None
            else {"describe": registered.describe, "origin": registered.origin.to_dict()}
        ),
        "may_ignore_seed": may_ignore_seed,
    }  # fmt: skip


def fit_job(
    training: str,
    validation: str,
    place: Workplace,
    member: Member,
    kinds: Mapping[str, str],
    features: Sequence[str],
    *,
    forbidden: Sequence[str],
    validated: bool,
    allow: Sequence[str] = (),
    learner: RegisteredProcedure | None = None,
) -> dict[str, Any]:
    """Return what the process that fits a member's procedure is told, whatever the generator."""
    predicted = member.target.predicted
    return {
        "generator": None,
        "predictions": False,
        "source": str(place.folder / training),
        "validation": str(place.folder / validation) if validated else None,
        "kinds": dict(kinds),
        "missing": list(member.target.read.missing),
        "procedure": (
            None if member.procedure is None else member.procedure.model_dump(mode="json")
        ),
        "outcome": None if predicted is None else predicted.model_dump(mode="json"),
        "features": list(features),
        "forbidden": list(forbidden),
        "allow": list(allow),
        "learner": None if learner is None else learner.to_dict(),
    }


def root_for(place: Workplace, options: Mapping[str, Any]) -> Path:
    """Return the folder that the paths in a generator's options start from."""
    folder = options.get("folder")
    return place.data.root_of(folder) if isinstance(folder, str) else place.folder.path


def forbidden_paths(place: Workplace, member: Member) -> list[str]:
    """Return what a draw may not open: keys, ledger, scores, and every file with target rows."""
    target = member.target
    paths = [place.home, str(place.folder / "target"), str(place.folder / NAME),
             str(place.folder / EVIDENCE)]  # fmt: skip
    for name in target.files:
        paths += map(str, place.data.spellings(name))
    return paths


class Descriptions:
    """The answers of one command, which starts at most one process for each generator.

    Between two commands a generator may have changed, so nothing is kept for the next. While one
    draws, its workers ask the generators that they loaded.
    """

    def __init__(self) -> None:
        self._told: dict[str, Described] = {}

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
        if is_built_in(generator):
            made = load_generator(generator, drawn.options)
            if hasattr(made, "root"):
                made.root = root_for(place, drawn.options)
            return Described.by(generator, made, survey)
        job = _job(place, member, drawn, survey)
        key = json.dumps(job, sort_keys=True)
        if key not in self._told:
            self._told[key] = Described.told(generator, asked(job, pool=place.pool, kind=Told))
        return self._told[key]


def loading_problems(place: Workplace, member: Member, names: Sequence[str]) -> list[str]:
    """Return why procedures and losses that are named by import path cannot be loaded."""
    if not names:
        return []
    job = {
        **_bare_job(place, member),
        "asks": "load",
        "name": member.name,
        "what": ", ".join(names),
        "names": list(names),
    }
    said: Loaded = asked(job, pool=place.pool, kind=Loaded)
    return list(said.problems)


def _job(place: Workplace, member: Member, drawn: Drawn, survey: Survey | None) -> dict[str, Any]:
    """Return what a process is asked about one generator; the development part is not shown."""
    generator, root = str(drawn.generator), root_for(place, drawn.options)
    reads, lists = declared_files(generator, drawn.options, root)
    return {
        **_bare_job(place, member),
        "asks": "describe",
        "name": drawn.name,
        "what": generator,
        "generator": generator,
        "options": dict(drawn.options),
        "root": str(root),
        "survey": None if survey is None else survey.to_dict(),
        "reads": reads,
        "lists": lists,
        "allow": list(drawn.allow),
    }


def _bare_job(place: Workplace, member: Member) -> Mapping[str, Any]:
    return {
        "generator": None,
        "options": {},
        "procedure": None,
        "source": None,
        "validation": None,
        "forbidden": forbidden_paths(place, member),
        "reads": [],
        "lists": [],
        "keeps": [],
        "allow": [],
    }
