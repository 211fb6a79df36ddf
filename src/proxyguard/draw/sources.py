"""What draws depend on, as it was registered and as it is now.

Settings, code, versions and files are registered as values. The process that draws looks at them
again when it loads the code, the command before the first draw and, at code and files, before and
after each batch: releases of a changed generator, or of a file that was replaced, would be
certified under what was registered before.

What a generator says of itself is plain values (`Described`), so that it can be asked for in
another process. The code of somebody else's generator is loaded where draws are made, held to
what draws may read, and nowhere else: in the process of a command it could read the target and
the keys, and leave what it read where its draws find it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.registry import Origin, RegisteredProcedure, ReleaseFile
from proxyguard.documents.releases import FailedDraw, MadeDraw
from proxyguard.draw.catalog import load_callable, load_generator, origin
from proxyguard.draw.confine import allowed_paths
from proxyguard.draw.job import AskJob, LoadJob, Survey
from proxyguard.draw.messages import DeliveredFile, Loaded, Told
from proxyguard.draw.protocol import Generator, Learner
from proxyguard.errors import DrawError, ProxyGuardError, RegistryError, SealError, TableError
from proxyguard.seal.storage import sha256_plain
from proxyguard.tables.files import read_file

# How many differences a message names.
SHOWN = 8


# How deep described settings may be nested: documents around them are read with bounds.
NESTED = 16

# How a class as most packages have them becomes a generator.
WRAPPER = (
    "; it has fit and sample, so let a class inherit from it, keep source in prepare, and in draw "
    "call self.fit(self.source) and return self.sample(len(self.source), seed), with "
    'seed = int(seed.rng("sample").integers(2**31))'
)


def _deeper(settings: object, limit: int) -> bool:
    """Say whether mappings and lists lie in one another more than ``limit`` deep."""
    if isinstance(settings, Mapping):
        inner: Iterable[object] = settings.values()
    elif isinstance(settings, list | tuple):
        inner = settings
    else:
        return False
    return limit == 0 or any(_deeper(item, limit - 1) for item in inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One generator with its options, as it describes itself.

    What its code is, `origin` reads from the files themselves: that is nobody's word.
    """

    generator: str
    said: Told

    @property
    def describe(self) -> Mapping[str, object]:
        """Its settings."""
        return self.said.describe

    @property
    def files(self) -> Sequence[DeliveredFile] | None:
        """The files that its draws read; nothing if it was not asked, or there are none."""
        return self.said.files

    def __post_init__(self) -> None:
        wrong = []
        for name, setting in self.describe.items():
            try:
                canonical_bytes({name: setting})
            except (SealError, RecursionError) as error:
                wrong.append(str(error))
        if wrong:
            raise RegistryError(
                f"{self.generator}: describe() gave settings that cannot be registered: "
                f"{'; '.join(wrong)}; describe them by text and finite numbers"
            )
        # What can be written may be too deep to be read again, once the target is open.
        if _deeper(self.describe, NESTED):
            raise RegistryError(
                f"{self.generator}: describe() gave settings nested more than {NESTED} deep; "
                "describe them by a flat mapping of names, text and numbers"
            )

    @classmethod
    def by(cls, generator: str, made: Generator, survey: Survey | None = None) -> Described:
        """Ask a generator that was made here."""
        lacking = [
            name for name in ("describe", "prepare", "draw")
            if not callable(getattr(made, name, None))
        ]  # fmt: skip
        if lacking:
            known = callable(getattr(made, "fit", None)) and callable(getattr(made, "sample", None))
            raise RegistryError(
                f"{generator} has no {' and no '.join(lacking)}; a generator is a class with "
                "describe(self), prepare(self, source, rng) and draw(self, seed)"
                + (WRAPPER if known else "")
            )
        settings = made.describe()
        if not isinstance(settings, Mapping):
            raise RegistryError(
                f"{generator}: describe() returns a mapping of settings, and gave a "
                f"{type(settings).__name__}"
            )
        files: Sequence[DeliveredFile] | None = None
        if survey is not None and hasattr(made, "survey"):
            files = made.survey(survey.seeds, survey.schema)
        # As it is: where it is told to another process, whoever reads it says what is wrong.
        said = Told.model_construct(
            status="told",
            describe=dict(settings),
            batch=int(getattr(made, "batch", 32)) if hasattr(made, "draw_many") else 1,
            code=list(getattr(made, "code", ())),
            files=None if files is None else list(files),
        )
        return cls(generator=generator, said=said)

    def origin(self) -> Origin:
        """Return where it comes from, with the further code that it calls, as it is now."""
        return origin(self.generator, also=self.said.code)

    def registered(self) -> dict[str, object]:
        """Return what is registered of it, and what verify asks again, as plain values."""
        origin = self.origin().to_dict()
        return {"describe": dict(self.describe), "origin": origin, "batch": self.said.batch}


def answer(job: AskJob) -> Told | Loaded:
    """Answer, in the process that is confined, what a job asks instead of draws."""
    if isinstance(job, LoadJob):
        return Loaded(problems=[*filter(None, map(_problem, job.names))])
    made = load_generator(job.generator, job.options)
    set_root(made, job.root)
    return Described.by(job.generator, made, job.survey).said


def set_root(generator: Generator, root: str) -> None:
    """Tell a generator that reads files where the paths in its options start."""
    if hasattr(generator, "root"):
        generator.root = Path(root)


def _problem(name: str) -> str | None:
    """Return why an import path cannot be loaded."""
    try:
        load_callable(name)
    except ProxyGuardError as error:
        return str(error)
    except Exception as error:  # of whatever the module does when it is imported
        return f"{name!r} cannot be loaded: {type(error).__name__}: {error}"
    return None


def refuse_changes(what: str, changes: Sequence[str]) -> None:
    """Stop where something that draws depend on is no longer what was registered.

    Parameters
    ----------
    what
        What depends on it, as the error names it.
    changes
        The differences in words; where there are none, nothing happens.

    Raises
    ------
    DrawError
        If there are any.
    """
    if changes:
        more = f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        raise DrawError(
            f"{what}: what this rests on is no longer what was registered: "
            f"{'; '.join(changes[:SHOWN])}{more}. Restore it, or, before the target is opened, "
            "register it as it is now with proxyguard amend --reason WHY"
        )


def changed_generator(
    describe: Mapping[str, object], registered: Origin, described: Described
) -> Iterator[str]:
    """Yield in words what a generator has otherwise than when it was registered."""
    yield from changed_settings(describe, described.describe)
    yield from changed_origin(registered, described.origin())


def changed_procedure(
    registered: RegisteredProcedure | None, learner: Learner | None
) -> Iterator[str]:
    """Yield in words what a learning procedure has otherwise than when it was registered."""
    if registered is None or learner is None:
        return
    present = learner.describe()
    for name, before in registered.pipelines.items():
        # One that is gone is told below: the settings list the library.
        if name in present.pipelines:
            yield from changed_origin(before, present.pipelines[name])
    yield from changed_settings(
        *({"procedure": known.procedure.model_dump(mode="json"), "features": list(known.features)}
          for known in (registered, present))
    )  # fmt: skip


def changed_settings(
    registered: Mapping[str, object], present: Mapping[str, object]
) -> Iterator[str]:
    """Yield in words which settings of a description differ, compared as they are written."""
    for name in sorted({*registered, *present}):
        if name not in present:
            yield f"the setting {name!r} is gone"
        elif name not in registered:
            yield f"the setting {name!r} is new"
        # By digest: to Python True equals 1, and another setting would pass for the registered one.
        elif digest(registered[name]) != digest(present[name]):
            yield f"{name} is {present[name]!r}, registered was {registered[name]!r}"


def changed_origin(registered: Origin, present: Origin) -> Iterator[str]:
    """Yield in words where a name leads to other code, or to another version of it."""
    versions = (known.model_dump(mode="json", exclude={"code"}) for known in (registered, present))
    yield from changed_settings(*versions)
    before, now = registered.code, present.code
    for module in sorted({*before, *now}):
        if module not in now:
            yield f"module {module} is not used any more"
        elif module not in before:
            yield f"module {module} is used now"
        elif before[module] != now[module]:
            yield (
                f"the text of module {module} has digest {now[module][:16]}..., registered was "
                f"{before[module][:16]}..."
            )


def allowed_files(patterns: Sequence[str]) -> dict[str, str]:
    """Return the digests of the files that draws are allowed to read besides code.

    Devices hold nothing to digest, and what lies in a folder is its author's word.
    """
    paths = sorted({Path(name) for name in allowed_paths(patterns)})
    return {str(path): _digest_of(path) for path in paths if path.is_file()}


# Nanoseconds after which a further change of a file shows in its time of change, on any disk.
_SETTLED = 2_000_000_000
_KNOWN: dict[Path, tuple[tuple[int, ...], str]] = {}


def _digest_of(path: Path) -> str:
    """Return the digest of a file, which is read again only where it may have changed.

    The weights of a model are asked for around every batch. The kernel sets the time of change,
    and no program can set it back; of a file that has just changed it says too little.
    """
    # Before the bytes are read: of a file that is replaced meanwhile the next look sees another
    # state, and reads it again.
    facts = path.stat()
    state = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    known = _KNOWN.get(path)
    if known is not None and known[0] == state:
        return known[1]
    began = time.time_ns()
    digest_now = sha256_plain(path)
    if began - facts.st_ctime_ns > _SETTLED:
        _KNOWN[path] = (state, digest_now)
    return digest_now


def changed_files(
    registered: Sequence[ReleaseFile], files: Iterable[DeliveredFile], seeds: Sequence[int]
) -> Iterator[str]:
    """Yield in words which files of these seeds are others than were registered."""
    present = {file.seed: file for file in files}
    for before in registered:
        # A file that stands beside the draws concerns every batch.
        if before.seed is not None and before.seed not in seeds:
            continue
        file = present.get(before.seed)
        if file is None or file.name != before.name:
            stands = "no file" if file is None else file.name
            yield f"seed {before.seed} stands for {stands}, registered was {before.name}"
        elif file.sha256 != before.sha256:
            yield f"{file.name} {_digests(file.sha256, before.sha256)}"


def changed_file(registered: ReleaseFile, path: Path) -> Iterator[str]:
    """Yield in words that a named file is another than was registered."""
    try:
        present = hashlib.sha256(read_file(path)).hexdigest()
    except TableError:
        present = None
    if present != registered.sha256:
        yield f"{path.name} {_digests(present, registered.sha256)}"


def changed_reading(registered: Sequence[ReleaseFile], draw: MadeDraw) -> Iterator[str]:
    """Yield in words where a draw was made from other bytes than were registered for its seed."""
    if isinstance(draw, FailedDraw) and draw.status == "timeout":
        return  # its process was ended, and told nothing
    expected = {file.name: file.sha256 for file in registered if file.seed == draw.seed}
    read = draw.files or {}
    for name in sorted({*expected, *read}):
        if name not in read:
            yield f"{name} was not read"
        elif name not in expected:
            yield f"{name} was read, which is not registered for this seed"
        elif read[name] != expected[name]:
            yield f"{name} {_digests(read[name], expected[name])}"


def _digests(present: str | None, registered: str | None) -> str:
    now = "cannot be read" if present is None else f"has digest {present[:16]}..."
    before = "not readable" if registered is None else f"{registered[:16]}..."
    return f"{now}, registered was {before}"
