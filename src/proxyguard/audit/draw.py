"""Draw every registered release and freeze them all (the audit's third step)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

from pydantic import TypeAdapter

from proxyguard.adapters.files import FOLDER, NAMED, PATH
from proxyguard.adapters.library import Library
from proxyguard.adapters.networks import LIBRARY
from proxyguard.audit.development import MemberDevelopment, Workplace
from proxyguard.audit.folder import PENDING, RELEASES, AuditFolder
from proxyguard.audit.home import Home, extra_versions
from proxyguard.audit.jobs import draw_job
from proxyguard.audit.manifest import (
    check_predictions,
    named_options,
    predicted_source,
    randomness,
    repeats,
    same_files,
)
from proxyguard.audit.seal import sealed_anew
from proxyguard.audit.status import DRAWING, STOPPED, Drawing
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.document import FORMAT, Format, parse_canonical
from proxyguard.documents.ledger import Frozen
from proxyguard.documents.registry import (
    DrawnMechanism,
    RegisteredMember,
    Registry,
    ReleaseFile,
    StandIn,
)
from proxyguard.documents.releases import (
    DrawGroup,
    DrawnRelease,
    Dropped,
    FailedDraw,
    GivenRelease,
    MadeDraw,
    ReleaseManifest,
    read_draw,
)
from proxyguard.draw.catalog import TORCH, extra_of, is_built_in, same_torch
from proxyguard.draw.job import DrawJob, Survey
from proxyguard.draw.messages import DrawResult, Failed, FittedRelease, in_words
from proxyguard.draw.pool import BatchCheck, draw_all
from proxyguard.draw.sources import (
    allowed_files,
    changed_file,
    changed_files,
    changed_generator,
    changed_procedure,
    changed_reading,
    changed_settings,
    refuse_changes,
)
from proxyguard.errors import (
    DrawError,
    LossMismatch,
    ProxyGuardError,
    RegistryError,
    StageError,
    TableError,
    UnansweredDraw,
)
from proxyguard.registry.declaration import Member
from proxyguard.registry.parts import MechanismPart
from proxyguard.registry.target import Outcome, TableReading
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.storage import now, write_atomic
from proxyguard.tables.files import read_file, read_table, read_table_bytes, table_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One mechanism, or one named file, and the seeds it is drawn from."""

    member: str
    mechanism: str
    job: DrawJob
    registered: DrawnMechanism | StandIn | None  # nothing of a candidate, which comes later
    seeds: tuple[int, ...]
    timeout: float | None
    stop_on_failure: bool
    apart: frozenset[int]  # seeds whose releases may repeat others
    deterministic: bool = False  # declared: every seed gives one release

    @property
    def files(self) -> tuple[ReleaseFile, ...]:
        """The files that its draws read, as they were registered."""
        return () if self.registered is None else self.registered.files or ()


_DROPPED: TypeAdapter[tuple[Dropped, ...]] = TypeAdapter(tuple[Dropped, ...])
# The file that says that all draws of a mechanism failed and are being taken out.
ANEW = "anew"
# A seed to draw again, of one mechanism or of all that have it.
Again = tuple[str | None, int]


def draw(place: Workplace, home: Home, again: Sequence[Again] = ()) -> ReleaseManifest:
    """Draw what is not drawn yet; record the step once everything is frozen.

    Draws of the seeds in ``again`` that wait already are dropped and made again. The record of
    each says what was dropped.
    """
    folder = place.folder
    key = home.signing_key()
    with writing(folder.path) as journal, place.pool:
        if journal.ledger.schedule is Schedule.SEQUENTIAL:
            raise StageError("drawn: this audit draws after its target is opened; run open")
        registry = folder.registry(journal)
        _check_again(registry, again)
        if again and journal.ledger.has(Stage.DRAWN):
            raise StageError("drawn: the releases are frozen, and none of them is drawn again")
        if journal.ledger.has(Stage.DRAWN):
            # A kill after the entry left these; what counts is frozen.
            shutil.rmtree(folder / PENDING, ignore_errors=True)
            return folder.document(ReleaseManifest, RELEASES)
        # Before the first draw: releases of another development part have another source.
        folder.check_files(development_files(journal))
        with _stopping_noted(folder):
            manifest = draw_manifest(place, registry, journal, again)
        # Manifest, entry, and only then the draws that waited go: after a kill at any point nothing
        # is drawn twice.
        written = folder.put(RELEASES, manifest)
        frozen = Frozen(
            releases=written,
            registry=registry.digest,
            again=manifest.again,
            files={RELEASES: written},
            time=now(),
        )
        journal.record(frozen, key)
        shutil.rmtree(folder / PENDING, ignore_errors=True)
    return manifest


@contextmanager
def _stopping_noted(folder: AuditFolder) -> Iterator[None]:
    """Leave what draws stopped at for `status`, until they are begun again."""
    (folder / PENDING / STOPPED).unlink(missing_ok=True)
    try:
        yield
    except ProxyGuardError as error:
        (folder / PENDING).mkdir(exist_ok=True)
        write_atomic(folder / PENDING / STOPPED, in_words(str(error)).encode())
        raise


def _check_again(registry: Registry, again: Sequence[Again]) -> None:
    known = registry.declaration.registered_draws
    seeds = {seed for _, seed in known}
    for name, seed in again:
        if seed not in seeds if name is None else (name, seed) not in known:
            raise RegistryError(f"again: {f'{name}:' if name else ''}{seed} is no registered draw")


def draw_manifest(
    place: Workplace, registry: Registry, journal: Journal, again: Sequence[Again] = ()
) -> ReleaseManifest:
    """Draw all tasks and return the manifest of frozen releases."""
    members: dict[str, dict[str, DrawGroup]] = {}
    given = _given_releases(registry, journal)
    waiting = list(tasks(place, registry, journal))
    for task in waiting:  # all mechanisms, before a model is trained for any
        refuse_changes(task.mechanism, changes_of(place, registry, task, task.seeds))
        refuse_files(task.mechanism, task.files, stops=task.stop_on_failure, apart=task.apart)
    for task in waiting:
        dropped = {seed for name, seed in again if name in (None, task.mechanism)}
        drawn = _draw_task(place, registry, task, dropped)
        members.setdefault(task.member, {})[task.mechanism] = DrawGroup(draws=drawn)
    for member, mechanisms in given.items():
        members.setdefault(member, {}).update(mechanisms)
    return ReleaseManifest(
        format=FORMAT,
        registry=registry.digest,
        members=members,
        sources=_source_predictions(place, registry),
    )


def _source_predictions(place: Workplace, registry: Registry) -> dict[str, str]:
    """Freeze the source's predictions where they were made elsewhere."""
    found = {}
    for member in registry.declaration.members:
        for mechanism in registry.members[member.name].mechanisms.values():
            source = predicted_source(mechanism)
            if source is not None and isinstance(mechanism, DrawnMechanism):
                name = f"{mechanism.options[FOLDER]}/{source}"
                path = place.data.find(name)
                content = read_file(path)
                registered = {file.name: file.sha256 for file in mechanism.files or ()}
                # Read once: what is compared here is what is frozen below.
                if hashlib.sha256(content).hexdigest() != registered[name]:
                    refuse_changes(member.name, [f"{name} has other bytes than were registered"])
                frame = read_table(path, TableReading(), content)
                found[member.name] = place.folder.store.put(table_bytes(frame))
    return found


def tasks(place: Workplace, registry: Registry, journal: Journal) -> Iterator[Task]:
    """Yield what has to be drawn, in the registered order."""
    sealed = journal.ledger.sealed.members
    for member in registry.declaration.members:
        resolved = registry.members[member.name]
        if member.target.losses is not None:
            continue
        development = MemberDevelopment(place, member, sealed[member.name])
        for mechanism in member.mechanism:
            yield mechanism_task(development, registry, mechanism)
        yield from _named_tasks(place, member, development, resolved)


def mechanism_task(
    development: MemberDevelopment, registry: Registry, mechanism: MechanismPart
) -> Task:
    """Return what is drawn of a mechanism, at once or one seed after the other."""
    resolved = registry.members[development.member.name]
    registered = resolved.drawn(mechanism.name)
    assert registered is not None  # given losses are not drawn
    drawn_as = registry.declaration.drawn_as(mechanism, registered.pilot)
    return Task(
        member=development.member.name,
        mechanism=mechanism.name,
        job=draw_job(
            development, registered.generator, registered.options, name=mechanism.name,
            prepare_seed=mechanism.prepare_seed, allow=drawn_as.allow, registered=registered,
            learner=resolved.procedure, many=registered.batch,
            may_ignore_seed=mechanism.deterministic, coins=mechanism.inclusion == "coins",
        ),
        registered=registered,
        seeds=mechanism.seed_list,
        timeout=None if mechanism.timeout is None else float(mechanism.timeout),
        stop_on_failure=mechanism.on_failure == "stop",
        apart=seeds_apart(registry, mechanism),
        deterministic=mechanism.deterministic,
    )  # fmt: skip


def _named_tasks(
    place: Workplace, member: Member, development: MemberDevelopment,
    registered: RegisteredMember,
) -> Iterator[Task]:  # fmt: skip
    """Yield the named stand-ins: one file each, with the source's own seed for the procedure."""
    for release in member.release:
        path = place.data.find(release.file)
        seed = member.release_seed
        yield Task(
            member=member.name,
            mechanism=release.name,
            job=draw_job(
                development, NAMED, named_options(path, member, release.lacks), name=release.name,
                # With fewer columns the fit is not the registered one, and is not compared with it.
                learner=None if release.lacks else registered.procedure, release=release.name,
            ),
            registered=registered.stand_ins[release.name],
            seeds=(seed,),
            timeout=None,
            # A named table that cannot be read is a mistake, and not one of many draws.
            stop_on_failure=True,
            apart=frozenset((seed,)),
        )  # fmt: skip


def refuse_files(
    mechanism: str, files: Sequence[ReleaseFile], *, stops: bool, apart: frozenset[int]
) -> None:
    """Refuse registered files that would stop the draws anyway, by name, before any is drawn.

    ``stops`` says that a failed draw stops the audit, ``apart`` which seeds may repeat others.
    """
    bad = [file.problem for file in files if file.problem is not None]
    if bad and stops:
        raise DrawError(
            f"{mechanism}: {len(bad)} of {len(files)} files are no releases, and on_failure = "
            f'"stop": {"; ".join(bad)}. Mend them and register them with proxyguard amend '
            '--reason WHY, or declare on_failure = "worst_loss"'
        )
    for first, second in same_files(files, apart):
        raise DrawError(
            f"{mechanism}: {first.name} (seed {first.seed}) and {second.name} (seed "
            f"{second.seed}) hold the same records; independent draws would not. Remove one of "
            "the files and amend the number of draws, or leave its draw out: proxyguard amend "
            f"--reason WHY --exclude {mechanism}:{second.seed}. If the mechanism has no "
            "randomness, declare deterministic = true"
        )


def seeds_apart(registry: Registry, mechanism: MechanismPart) -> frozenset[int]:
    """Return the seeds whose releases may repeat others: excluded ones, or all."""
    return frozenset(
        seed
        for seed in mechanism.seed_list
        if mechanism.deterministic or (mechanism.name, seed) in registry.left_out
    )


def changes_of(place: Workplace, registry: Registry, task: Task, seeds: Sequence[int]) -> list[str]:
    """Return in words what the draws of a task depend on and is not as it was registered.

    ``seeds`` are those whose files are looked at. While draws run there are none: each draw says
    which bytes it read, and `changed_reading` compares those.
    """
    member = registry.declaration.member(task.member)
    resolved = registry.members[task.member]
    changes: list[str] = []
    if member.procedure is not None and member.target.predicted is not None:
        learner = Library(member.procedure, member.target.predicted, resolved.features)
        changes += changed_procedure(resolved.procedure, learner)
    if task.job.generator == NAMED:
        for file in task.files if seeds else ():
            changes += changed_file(file, Path(str(task.job.options[PATH])))
        return changes
    registered = task.registered
    assert isinstance(registered, DrawnMechanism)  # named files are dealt with above
    mechanism = next(m for m in member.mechanism if m.name == task.mechanism)
    drawn_as = registry.declaration.drawn_as(mechanism, registered.pilot)
    # Ours are asked here each time. To ask others takes a process: once, for all their files.
    surveyed = seeds if is_built_in(registered.generator) else task.seeds
    survey = Survey(seeds=tuple(surveyed)) if task.files and surveyed else None
    changes += changed_settings(registered.allowed or {}, allowed_files(task.job.allow))
    try:
        described = place.descriptions.of(place, member, drawn_as, survey)
    except (RegistryError, TableError) as error:  # it was registered, and cannot be asked any more
        return [*changes, str(error)]
    changes += changed_generator(registered.describe, registered.origin, described)
    if extra_of(registered.generator) == TORCH:
        # Now, and not when all is drawn: `open` refuses draws of another version.
        made, here = registry.software.get(LIBRARY), extra_versions([registered.generator])[LIBRARY]
        if not same_torch(made, here):
            changes.append(f"torch {made} was registered, and here is {here}")
    if task.files and seeds:
        changes += changed_files(task.files, described.files or (), seeds)
    return changes


def check_while_drawing(place: Workplace, registry: Registry, task: Task) -> BatchCheck:
    """Return what the pool asks around every batch of a task's draws."""

    def check() -> None:
        refuse_changes(task.mechanism, changes_of(place, registry, task, ()))

    return check


class PendingDraws:
    """The draws of one task that are finished and not frozen yet, each in a file of its own.

    A kill can come between any two writes; what it leaves is what the next run begins with.

    ==========================================  ===================================================
    the last that was written                   what the next run makes of it
    ==========================================  ===================================================
    a release, a model or bits, in the store    draws the seed again: nothing names these bytes
    ``SEED.json``, the record of a draw         has this draw, and goes on with the other seeds
    ``SEED.dropped``, what ``--again`` drops    still has the draw, which can be dropped once more
    ``SEED.ended``, that no answer came         draws the seed again; that it was tried stays there
    ``anew``, that all draws failed             takes out what is left, before it draws anything
    ``drawing.json``, who draws since when      writes its own; nobody but status reads it
    ==========================================  ===================================================
    """

    def __init__(self, place: Workplace, task: Task) -> None:
        self._place, self._task = place, task
        self._path = pending_folder(place.folder, task)
        self._path.mkdir(parents=True, exist_ok=True)
        if (self._path / ANEW).exists():
            self.begin_anew()
        self.draws = {seed: self._read(seed) for seed in task.seeds if self._file(seed).exists()}

    def drop(self, seeds: Set[int]) -> None:
        """Take draws that wait out, and keep what each was beside it: the next one will say so."""
        for seed in seeds & self.draws.keys():
            draw = self.draws.pop(seed)
            dropped = [*(draw.again or ()), draw.model_copy(update={"again": None})]
            # Before the draw goes: a kill in between leaves the draw, and not its absence.
            content = canonical_bytes([document.to_dict() for document in dropped])
            write_atomic(self._path / f"{seed}.dropped", content)
            self._file(seed).unlink()

    def begin(self, registry: str) -> None:
        """Say that drawing goes on, once what waits is known to be of one mechanism."""
        self._refuse_stale()
        task = self._task
        drawing = Drawing(
            registry=registry, member=task.member, mechanism=task.mechanism,
            had=len(self.draws), began=time(),
        )  # fmt: skip
        write_atomic(self._path / DRAWING, drawing.model_dump_json().encode())
        self._tell()
        # Before any is drawn: those that waited may be copies already.
        _refuse_repeats(task, self.draws.values())

    def keep(self, result: DrawResult) -> None:
        """Keep what was made of a seed, unless it is no draw of this mechanism."""
        task, seed = self._task, result.said.seed
        where = f"{task.mechanism}, seed {seed}"
        if task.job.generator == NAMED:  # whose seed is the procedure's, and of no draw
            where = f"{task.mechanism} ({Path(str(task.job.options[PATH])).name})"
        made = made_draw(result, format=FORMAT, again=self._dropped(seed))
        changes = list(changed_reading(task.files, made))
        if changes:
            raise DrawError(
                f"{where}: it was drawn from other bytes than were registered: "
                f"{'; '.join(changes)}. This draw is not kept; restore the file and draw again, or "
                "register it as it is now with proxyguard amend --reason WHY"
            )
        _refuse_other_preparation(where, made, self.draws.values())
        if isinstance(made, DrawnRelease) and made.predictions and task.job.outcome is not None:
            made = _checked_predictions(made, result.release, task.job.outcome)
        if isinstance(made, FailedDraw) and task.stop_on_failure:
            # As one that did not answer, so that the folder remembers the seed.
            remedy = "" if task.job.generator != NAMED else (
                ". Mend the file and register it as it is then, proxyguard amend "
                f"{self._place.folder.path} --reason WHY; to read it otherwise, "
                f"{sealed_anew(self._place.folder)}"
            )  # fmt: skip
            raise UnansweredDraw(seed, f"{where}: {made.error}{remedy}")
        if isinstance(made, DrawnRelease):
            put_objects(self._place.folder, result)
        write_atomic(self._file(seed), made.to_bytes())
        self.draws[seed] = made
        self._tell()
        _refuse_repeats(task, self.draws.values())

    def remember(self, seed: int) -> None:
        """Leave a trace of a seed that ended its process.

        A draw that ends whenever its release is bad would leave none otherwise, and other seeds
        could be registered as if none had been tried.
        """
        write_atomic(self._path / f"{seed}.ended", b"")

    def finished(self) -> tuple[MadeDraw, ...]:
        """Return all draws in the order of their seeds, or begin anew where none gave a release."""
        draws = tuple(self._read(seed) for seed in self._task.seeds)
        errors = [draw.error for draw in draws if isinstance(draw, FailedDraw)]
        if len(errors) == len(draws):
            self.begin_anew()
            raise DrawError(
                f"{self._task.mechanism}: all {len(draws)} draws failed, the first with: "
                f"{errors[0]}; mend the generator and draw again; none of them is kept"
            )
        return draws

    def begin_anew(self) -> None:
        """Take all draws out, of which none gave a release.

        What was dropped before, and which draws ended their process, stays: had it gone with
        these, a generator that fails everywhere could have been the way to forget a release.
        """
        # Said first, and taken back last: after a kill in between the rest goes before anything is
        # drawn, and no failure of the old generator is counted among draws of the mended one.
        write_atomic(self._path / ANEW, b"")
        for seed in self._task.seeds:
            self._file(seed).unlink(missing_ok=True)
        (self._path / ANEW).unlink()

    def _file(self, seed: int) -> Path:
        return self._path / f"{seed}.json"

    def _read(self, seed: int) -> MadeDraw:
        name = self._file(seed).name
        return read_draw(parse_canonical(self._file(seed).read_bytes(), name), name)

    def _dropped(self, seed: int) -> tuple[Dropped, ...] | None:
        """Return what the draws of a seed were that were dropped."""
        path = self._path / f"{seed}.dropped"
        return _DROPPED.validate_json(path.read_bytes()) if path.exists() else None

    def _tell(self) -> None:
        self._place.progress(self._task.mechanism, len(self.draws), len(self._task.seeds))

    def _refuse_stale(self) -> None:
        """Stop where a draw that waits was made from a file as it was before an amendment."""
        task = self._task
        changes = {s: list(changed_reading(task.files, draw)) for s, draw in self.draws.items()}
        stale = {seed: words for seed, words in changes.items() if words}
        if stale:
            seeds = ",".join(str(seed) for seed in sorted(stale))
            raise DrawError(
                f"{task.mechanism}: draws that wait were made from other files than are registered "
                f"now: {'; '.join(w for words in stale.values() for w in words)}. Draw them again "
                f"with proxyguard draw --again {task.mechanism}:{seeds}"
            )


def _draw_task(
    place: Workplace, registry: Registry, task: Task, again: Set[int]
) -> tuple[MadeDraw, ...]:
    """Draw the seeds of one task that are not pending yet; every result is kept at once."""
    pending = PendingDraws(place, task)
    pending.drop(again)
    pending.begin(registry.digest)
    try:
        draw_all(
            task.job,
            [seed for seed in task.seeds if seed not in pending.draws],
            pool=place.pool,
            workers=place.workers,
            timeout=task.timeout,
            keep=pending.keep,
            check=check_while_drawing(place, registry, task),
        )
    except UnansweredDraw as error:
        pending.remember(error.seed)
        raise
    return pending.finished()


def made_draw(
    result: DrawResult, *, name: str | None = None, format: Format | None = None,
    again: tuple[Dropped, ...] | None = None,
) -> MadeDraw:  # fmt: skip
    """Return what is recorded of a draw, with the places that its bytes will have in the store.

    Parameters
    ----------
    result
        What the drawing process answered.
    name
        What the draw is called, where it is not called by its seed.
    format
        The format of a draw that waits in a file of its own.
    again
        What the draws of this seed were that were dropped before.
    """
    said, prepared = result.said, result.prepared
    files, rests_on = said.files or None, prepared.prepared_from or None
    if isinstance(said, Failed):
        return FailedDraw(
            seed=said.seed, status=said.status, error=said.error, files=files, name=name,
            guard=result.guard, prepared_at_random=prepared.prepared_at_random,
            prepared_from=rests_on, computed=said.computed or None, format=format, again=again,
        )  # fmt: skip
    return DrawnRelease(
        seed=said.seed, status="drawn", rows=said.rows, content=said.content,
        stages=tuple(said.stages), files=files, selected=said.selected,
        threshold=said.threshold, temperature=said.temperature,
        predictions=True if said.predictions else None, name=name, guard=result.guard,
        prepared_at_random=prepared.prepared_at_random, prepared_from=rests_on,
        release=hashlib.sha256(result.release).hexdigest(),
        model=hashlib.sha256(result.model).hexdigest() if result.model else None,
        members=hashlib.sha256(said.member_bits).hexdigest() if said.members else None,
        computed=said.computed or None, unlabelled=said.unlabelled or None,
        format=format, again=again,
    )  # fmt: skip


def put_objects(folder: AuditFolder, result: DrawResult) -> None:
    """Store a release, its model, and which rows it was trained on where it named some."""
    folder.store.put(result.release)
    if result.model:
        folder.store.put(result.model)
    if isinstance(result.said, FittedRelease) and result.said.members is not None:
        folder.store.put(result.said.member_bits)


def _refuse_other_preparation(where: str, draw: MadeDraw, others: Iterable[MadeDraw]) -> None:
    """Stop where what was prepared once, such as a private fit that is kept, was replaced."""
    for other in others:
        if other.prepared_from != draw.prepared_from:
            raise DrawError(
                f"{where}: it rests on {draw.prepared_from}, and draws that wait on "
                f"{other.prepared_from}: one claim is about one preparation. Put back what "
                "the draws that wait were made from; this draw is not kept"
            )


def _refuse_repeats(task: Task, draws: Iterable[MadeDraw]) -> None:
    """Stop as soon as two draws are the same, or differ where none may; what was drawn is kept."""
    if task.deterministic and isinstance(task.registered, DrawnMechanism):
        problem = randomness(task.registered.generator, draws)
        if problem is not None:
            raise DrawError(
                f"{task.member}/{task.mechanism} is declared with deterministic = true, and "
                f"{problem}; take that out of audit.toml, then proxyguard amend --reason WHY"
            )
    for what, first, second in repeats(draw for draw in draws if draw.seed not in task.apart):
        raise DrawError(
            f"{task.member}/{task.mechanism}: seeds {first} and {second} gave the same {what}; "
            "independent draws would not. Does the generator use its seed? If the mechanism has no "
            "randomness, declare deterministic = true; to leave one of them out: proxyguard amend "
            f"--reason WHY --exclude {task.mechanism}:{second}"
        )


def _checked_predictions(draw: DrawnRelease, release: bytes, outcome: Outcome) -> MadeDraw:
    """Return the draw, or a failed one where the file holds no usable predictions."""
    (name,) = draw.files or {}
    try:
        check_predictions(read_table_bytes(release, name), name, outcome)
    except LossMismatch as error:
        return draw.without_release(in_words(str(error)))
    return draw


def pending_folder(folder: AuditFolder, task: Task) -> Path:
    """Return where finished draws wait: one place for each thing that a draw depends on.

    An amendment that changes the mechanism leads to another place, so that nothing drawn
    under a superseded claim can be taken for a draw of this one.
    """
    job = task.job
    paths = {"source", "validation", "root", "forbidden", "reads", "lists", "keeps"}
    files = [folder.sha256(str(Path(path).relative_to(folder.path))) for path in job.development]
    # Without the files of the draws: each record says what it was read from, so that one file
    # that is registered anew costs one draw and not all of them.
    known = {} if task.registered is None else task.registered.to_dict()
    registered = {key: value for key, value in known.items() if key != "files"}
    depends = {
        "job": job.model_dump(mode="json", exclude=paths),
        "files": files,
        "timeout": task.timeout,
        "member": task.member,
        "registered": registered,
    }
    return folder / PENDING / digest(depends)


def _given_releases(registry: Registry, journal: Journal) -> dict[str, dict[str, DrawGroup]]:
    """Return the releases of losses that were computed elsewhere: names and nothing else."""
    sealed = journal.ledger.sealed.members
    found: dict[str, dict[str, DrawGroup]] = {}
    for member in registry.declaration.members:
        if member.target.losses is None:
            continue
        names = list(sealed[member.name].releases or ())
        place = 0
        for mechanism in member.mechanism:
            own = names[place : place + mechanism.draws]
            given = tuple(
                GivenRelease(seed=seed, status="given", name=name, column=place + i)
                for i, (seed, name) in enumerate(zip(mechanism.seed_list, own, strict=True))
            )
            found.setdefault(member.name, {})[mechanism.name] = DrawGroup(draws=given)
            place += mechanism.draws
    return found


def development_files(journal: Journal) -> dict[str, str]:
    """Return the files of development that draws rest on."""
    files = journal.ledger.sealed.files
    return {name: value for name, value in files.items() if name.startswith("development/")}
