"""Draw every registered release and freeze them all (the audit's third step)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxyguard.audit.folder import PENDING, RELEASES, AuditFolder, Registry
from proxyguard.audit.home import Home
from proxyguard.audit.jobs import WORKER, draw_job, forbidden_paths
from proxyguard.audit.manifest import check_copies
from proxyguard.audit.predictions import check_predictions
from proxyguard.audit.resolve import MemberDevelopment, Workplace
from proxyguard.draw.pool import draw_all
from proxyguard.errors import DrawError, StageError
from proxyguard.registry.declaration import Member
from proxyguard.registry.target import Outcome, Reading
from proxyguard.seal.canonical import canonical_bytes, digest
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import write_atomic
from proxyguard.seal.table import read_table, read_table_bytes, table_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One mechanism, or one named file, and the seeds it is drawn from."""

    member: str
    mechanism: str
    job: dict[str, Any]
    registered: Mapping[str, Any]  # what the registry says of the mechanism
    seeds: tuple[int, ...]
    timeout: float | None
    stop_on_failure: bool


def draw(place: Workplace, home: Home) -> dict[str, Any]:
    """Draw what is not drawn yet; record the step once everything is frozen."""
    folder = place.folder
    key = home.signing_key()
    with writing(folder.path) as journal:
        if journal.ledger.path is LedgerPath.SEQUENTIAL:
            raise StageError("drawn: this audit draws after its target is opened; run open")
        registry = folder.registry(journal)
        if journal.ledger.has(Stage.DRAWN):
            shutil.rmtree(folder / PENDING, ignore_errors=True)
            manifest: dict[str, Any] = folder.read_json(RELEASES)
            return manifest
        folder.check_files(development_files(journal))
        manifest = draw_manifest(place, registry, journal)
        body = {
            "releases": folder.write_json(RELEASES, manifest),
            "registry": registry.digest,
            "files": {RELEASES: folder.sha256(RELEASES)},
            "time": now(),
        }
        journal.record(Stage.DRAWN, body, key)
        shutil.rmtree(folder / PENDING, ignore_errors=True)
    return manifest


def draw_manifest(place: Workplace, registry: Registry, journal: Journal) -> dict[str, Any]:
    """Draw all tasks and return the manifest of frozen releases."""
    members: dict[str, Any] = {}
    given = _given_releases(registry, journal)
    for task in tasks(place, registry, journal):
        drawn = _draw_task(place, task)
        members.setdefault(task.member, {})[task.mechanism] = drawn
    for member, mechanisms in given.items():
        members.setdefault(member, {}).update(mechanisms)
    manifest = {
        "format": 1,
        "registry": registry.digest,
        "members": members,
        "sources": _source_predictions(place, registry),
    }
    check_copies(registry, manifest)
    return manifest


def _source_predictions(place: Workplace, registry: Registry) -> dict[str, str]:
    """Freeze the source's predictions where they were made elsewhere."""
    found = {}
    for member in registry.declaration.members:
        for mechanism in registry.member(member.name)["mechanisms"].values():
            source = mechanism["options"].get("source")
            if mechanism["generator"] == "predictions" and source is not None:
                path = place.data.find(f"{mechanism['options']['folder']}/{source}")
                frame = read_table(path, Reading())
                found[member.name] = place.folder.store.put(table_bytes(frame))
    return found


def tasks(place: Workplace, registry: Registry, journal: Journal) -> Iterator[Task]:
    """Yield what has to be drawn, in the registered order."""
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"]
    for member in registry.declaration.members:
        resolved = registry.member(member.name)
        if member.target.losses is not None:
            continue
        development = MemberDevelopment(place, member, sealed[member.name])
        for mechanism in member.mechanism:
            one = resolved["mechanisms"][mechanism.name]
            yield Task(
                member=member.name,
                mechanism=mechanism.name,
                job={
                    **job_of(development, one["generator"], one["options"], mechanism.name,
                             mechanism.prepare_seed),
                    "many": one.get("batch", 1),
                },
                registered=one,
                seeds=mechanism.seed_list,
                timeout=None if mechanism.timeout is None else float(mechanism.timeout),
                stop_on_failure=mechanism.on_failure == "stop",
            )  # fmt: skip
        yield from _named_tasks(place, member, development)


def _named_tasks(
    place: Workplace, member: Member, development: MemberDevelopment
) -> Iterator[Task]:
    """Yield the named stand-ins: one file each, with the source's own seed for the procedure."""
    for release in member.release:
        path = place.data.find(release.file)
        options = {
            "path": str(path),
            "read": member.target.read.model_dump(mode="json"),
        }
        if release.lacks:
            options["lacks"] = list(release.lacks)
        seed = 0 if member.procedure is None else member.procedure.seed
        yield Task(
            member=member.name,
            mechanism=release.name,
            job=_without(
                job_of(development, "proxyguard.adapters.files:NamedFile", options,
                       release.name, 0),
                release.lacks,
            ),
            registered={},
            seeds=(seed,),
            timeout=None,
            stop_on_failure=True,
        )  # fmt: skip


def _without(job: dict[str, Any], lacks: Sequence[str]) -> dict[str, Any]:
    """Return a job that neither expects nor uses these columns."""
    if not lacks:
        return job
    kinds = {name: kind for name, kind in job["kinds"].items() if name not in lacks}
    return {**job, "kinds": kinds, "features": [f for f in job["features"] if f not in lacks]}


def job_of(
    development: MemberDevelopment, generator: str, options: Mapping[str, Any], name: str,
    prepare_seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the job of a mechanism on its member's development part."""
    return draw_job(
        development.training_name,
        development.validation_name,
        development.place,
        development.member,
        development.kinds,
        [] if development.member.procedure is None else development.features,
        name=name,
        generator=generator,
        options=options,
        prepare_seed=prepare_seed,
        forbidden=forbidden_paths(development.place, development.member),
        validated="validation" in development.sealed["development"],
        allow={m.name: m.allow for m in development.member.mechanism}.get(name, ()),
    )


def _draw_task(place: Workplace, task: Task) -> dict[str, Any]:
    """Draw the seeds of one task that are not pending yet; every result is kept at once."""
    folder = place.folder
    pending = pending_folder(folder, task)
    pending.mkdir(parents=True, exist_ok=True)
    have = {int(path.stem) for path in pending.glob("*.json")}
    done = len(have)
    place.progress(task.mechanism, done, len(task.seeds))

    def keep(record: dict[str, Any], release: bytes, model: bytes) -> None:
        nonlocal done
        if record["status"] != "drawn" and task.stop_on_failure:
            raise DrawError(f"{task.mechanism}, seed {record['seed']}: {record['error']}")
        if record.get("predictions") and task.job["outcome"] is not None:
            outcome = Outcome.model_validate(task.job["outcome"])
            check_predictions(read_table_bytes(release, task.mechanism),
                              f"{task.mechanism}, seed {record['seed']}", outcome)  # fmt: skip
        kept = {"format": 1, **record}
        if record["status"] == "drawn":
            kept["release"] = folder.store.put(release)
            kept["model"] = folder.store.put(model) if model else None
        write_atomic(pending / f"{record['seed']}.json", canonical_bytes(kept))
        done += 1
        place.progress(task.mechanism, done, len(task.seeds))

    draw_all(
        task.job,
        [seed for seed in task.seeds if seed not in have],
        module=WORKER,
        workers=place.workers,
        timeout=task.timeout,
        keep=keep,
    )
    draws = [folder.read_json(str((pending / f"{s}.json").relative_to(folder.path)))
             for s in task.seeds]  # fmt: skip
    if all(d["status"] != "drawn" for d in draws):
        shutil.rmtree(pending)
        raise DrawError(
            f"{task.mechanism}: all {len(draws)} draws failed, the first with: "
            f"{draws[0]['error']}; mend the generator, nothing is recorded"
        )
    return {"draws": draws}


def pending_folder(folder: AuditFolder, task: Task) -> Path:
    """Return where finished draws wait: one place for each thing that a draw depends on.

    An amendment that changes the mechanism leads to another place, so that nothing drawn
    under a superseded claim can be taken for a draw of this one.
    """
    paths = ("source", "validation", "root", "forbidden", "reads", "lists")
    job = {key: value for key, value in task.job.items() if key not in paths}
    files = {
        key: folder.sha256(str(Path(task.job[key]).relative_to(folder.path)))
        for key in ("source", "validation")
        if task.job[key] is not None
    }
    depends = {
        "job": job,
        "files": files,
        "timeout": task.timeout,
        "member": task.member,
        "registered": task.registered,
    }
    return folder / PENDING / digest(depends)


def _given_releases(registry: Registry, journal: Journal) -> dict[str, Any]:
    """Return the releases of losses that were computed elsewhere: names and nothing else."""
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"]
    found: dict[str, Any] = {}
    for member in registry.declaration.members:
        if member.target.losses is None:
            continue
        names = list(sealed[member.name]["releases"])
        place = 0
        for mechanism in member.mechanism:
            own = names[place : place + mechanism.draws]
            found.setdefault(member.name, {})[mechanism.name] = {
                "draws": [
                    {"seed": seed, "status": "given", "name": name, "column": place + i}
                    for i, (seed, name) in enumerate(zip(mechanism.seed_list, own, strict=True))
                ],
            }
            place += mechanism.draws
    return found


def development_files(journal: Journal) -> dict[str, str]:
    """Return the files of development that draws rest on."""
    files = dict(journal.ledger.find(Stage.SEALED)[0].body["files"])
    return {name: value for name, value in files.items() if name.startswith("development/")}
