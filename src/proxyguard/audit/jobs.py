"""What a drawing process is told: the source, the procedure, and what it may not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyguard.adapters.categorical import kept_folders
from proxyguard.adapters.files import declared_files
from proxyguard.audit.folder import EVIDENCE
from proxyguard.registry.declaration import Member
from proxyguard.seal.journal import NAME

WORKER = "proxyguard.adapters.worker"
"""The module that a drawing process runs."""

if TYPE_CHECKING:
    from proxyguard.audit.resolve import Workplace


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
    registered: Mapping[str, Any] | None = None,
    learner: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the job of one mechanism as plain values.

    ``registered`` is what the registry says of the generator, and ``learner`` of the procedure:
    the drawing process compares both with what it loads.
    """
    root = root_for(place, options)
    reads, lists = declared_files(generator, options, root)
    keeps = kept_folders(generator, options, root)
    return {
        "name": name,
        "generator": generator,
        "options": dict(options),
        "predictions": generator == "predictions",
        "root": str(root),
        "source": str(place.folder / training),
        "validation": str(place.folder / validation) if validated else None,
        "prepare_seed": prepare_seed,
        "kinds": dict(kinds),
        "missing": list(member.target.read.missing),
        "procedure": (
            None if member.procedure is None else member.procedure.model_dump(mode="json")
        ),
        "outcome": (
            None
            if member.target.predicted is None
            else member.target.predicted.model_dump(mode="json")
        ),
        "features": list(features),
        "forbidden": list(forbidden),
        "allow": list(allow),
        "reads": reads,
        "lists": lists,
        "keeps": keeps,
        "registered": (
            None
            if registered is None
            else {"describe": registered["describe"], "origin": registered["origin"]}
        ),
        "learner": None if learner is None else dict(learner),
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
    for name in (target.table, target.file, target.population, target.losses):
        if name is not None:
            paths += map(str, place.data.spellings(name))
    return paths
