"""The frozen releases: are they the registered ones, each drawn once, none a copy?

What a record says of its release is never taken for it. `open`, `grant` and `verify` read every
stored release once, and what is compared is what its bytes hold.

Predictions on target records: those that were stored elsewhere, and the AUC of any.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from proxyguard.adapters.files import NAMED, PATH, Delivery, NamedFile
from proxyguard.adapters.library import Library
from proxyguard.adapters.networks import DEVICE, LIBRARY, PROCESSOR, TOGETHER
from proxyguard.audit.folder import RELEASES, AuditFolder
from proxyguard.audit.home import DataFolders
from proxyguard.documents.ledger import Frozen, SealedMember
from proxyguard.documents.registry import DrawnMechanism, GivenMechanism, Registry, ReleaseFile
from proxyguard.documents.releases import (
    AnyDraw,
    Draw,
    DrawnRelease,
    FailedDraw,
    GivenRelease,
    MadeDraw,
    ReleaseManifest,
    is_guard,
)
from proxyguard.draw.catalog import TORCH, extra_of, is_random, load_generator, same_torch
from proxyguard.draw.messages import DeliveredFile
from proxyguard.draw.protocol import coin_bits, learnable, members_in
from proxyguard.draw.sources import changed_reading
from proxyguard.errors import DrawError, LossMismatch, SealError, TableError, UnreadValue
from proxyguard.exact.rounding import Array
from proxyguard.registry.declaration import Member
from proxyguard.registry.fields import number
from proxyguard.registry.parts import GIVEN, ReleasePart
from proxyguard.registry.target import Outcome
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry
from proxyguard.tables.files import Schema

if TYPE_CHECKING:
    import pandas as pd


def repeats(draws: Iterable[Draw]) -> Iterator[tuple[str, int, int]]:
    """Yield what two draws have in common that independent draws have not, and their seeds."""
    seen: dict[tuple[str, str], int] = {}
    for draw in draws:
        if not isinstance(draw, DrawnRelease):
            continue
        # Content finds a table that was encoded anew, the address a copy whose recorded content is
        # a lie, the model a copy that was changed where the procedure does not look.
        for what, key, mark in (
            ("release", "content", draw.content),
            ("release", "release", draw.release),
            ("fitted procedure", "model", draw.model),
        ):
            if mark is None:
                continue
            if (key, mark) in seen:
                yield what, seen[key, mark], draw.seed
            seen[key, mark] = draw.seed


def randomness(generator: str, draws: Iterable[Draw] = ()) -> str | None:
    """Return what shows that a mechanism declared ``deterministic = true`` is random, or nothing.

    Without randomness every seed gives one release. Otherwise the declaration would be a way
    around the search for copies: one lucky draw, written down under every seed.
    """
    if is_random(generator):
        return f"{generator} takes its seed and is random"
    first: DrawnRelease | None = None
    for draw in draws:
        if not isinstance(draw, DrawnRelease):
            continue
        if draw.prepared_at_random:
            return f"its preparation, which seed {draw.seed} rests on, was random"
        first = first or draw
        if draw.content != first.content:
            return f"seeds {first.seed} and {draw.seed} gave different releases"
    return None


def check_declared(generator: str, draws: Iterable[Draw], where: str) -> None:
    """Raise where the draws of a mechanism show randomness that it was declared not to have."""
    problem = randomness(generator, draws)
    if problem is not None:
        raise SealError(f"{where} is declared with deterministic = true, and {problem}")


def same_files(
    files: Iterable[ReleaseFile], apart: frozenset[int]
) -> Iterator[tuple[ReleaseFile, ReleaseFile]]:
    """Yield two registered files that hold the same records, but for seeds that may repeat."""
    seen: dict[str, ReleaseFile] = {}
    for file in files:
        if file.content is None or file.seed in apart:
            continue
        if file.content in seen:
            yield seen[file.content], file
        seen[file.content] = file


def _claimed(registry: Registry, mechanism: str, draws: Iterable[AnyDraw]) -> list[AnyDraw]:
    """Return the draws that the claim is about; an excluded one may well repeat another."""
    return [draw for draw in draws if (mechanism, draw.seed) not in registry.left_out]


def release_schema(
    member: Member, kinds: Mapping[str, str], generator: str | None, release: str | None = None
) -> Schema:
    """Return what the releases of a generator hold, or the one named release, by its name."""
    return Schema.of_releases(
        kinds,
        member.target.read.missing,
        member.columns,
        generator=generator,
        lacks=member.spared(release, delivered=exist_already(generator)),
        labelled=member.target.labelled,
    )


def named_options(path: Path, member: Member, lacks: Sequence[str] = ()) -> dict[str, JsonValue]:
    """Return what the generator of a named file is made with."""
    options: dict[str, JsonValue] = {
        PATH: str(path),
        "read": member.target.read.model_dump(mode="json"),
    }
    return {**options, "lacks": list(lacks)} if lacks else options


def named_delivery(
    data: DataFolders, member: Member, release: ReleasePart, kinds: Mapping[str, str]
) -> Delivery:
    """Return a named release as it is now, read as its draw will read it.

    Raises
    ------
    TableError
        There is no such file.
    """
    path = data.find(release.file)
    made = load_generator(NAMED, named_options(path, member, release.lacks))
    assert isinstance(made, NamedFile)
    return made.delivery(member.release_seed, release_schema(member, kinds, NAMED, release.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a file that stands for a release is none."""

    file: DeliveredFile
    words: str
    """What is wrong, with the file."""
    place: str
    """The file, and the row where that is known."""
    alike: str
    """Of faults that are the same in several files, what they have in common."""
    remedy: str = ""
    """What to write in audit.toml before the target is sealed."""

    @classmethod
    def of(cls, file: DeliveredFile, problem: str) -> Fault:
        """Return a fault by its words, which may begin with the file and a row."""
        short = Path(file.name).name
        words = problem if short in problem else f"{file.name}: {problem}"
        at = re.match(rf"({re.escape(file.name)}(?:, row [^:]*)?): (.*)", words)
        place, alike = at.groups() if at else (file.name, words.replace(short, ""))
        return cls(file=file, words=words, place=place, alike=alike)


def faults_of(
    delivery: Delivery, member: Member, kinds: Mapping[str, str] | None
) -> Iterator[Fault]:
    """Yield why a file is no release, or nothing could be learned from it, as its draw finds out.

    Parameters
    ----------
    delivery
        The file, as its draw reads it.
    member
        What it stands in for, and what is learned from it.
    kinds
        What the columns of the table hold; where that is not known, features are not looked at.
    """
    file, error, outcome = delivery.file, delivery.error, member.target.predicted
    if isinstance(error, UnreadValue):
        for unread in (error, *error.others):
            yield Fault(
                file=file, words=unread.within(file.name).words, remedy=unread.remedy,
                place=f"{file.name}, {unread.place}", alike=f"{unread.column} {unread.holds}",
            )  # fmt: skip
    elif error is not None:
        yield Fault.of(file, str(error))
    if delivery.records is None or outcome is None or member.procedure is None:
        return
    try:
        records = learnable(delivery.records, outcome)
        features = [name for name in member.features(kinds or ()) if name in records.columns]
        Library(member.procedure, outcome, features, member.columns).taken(records, file.name)
    except (TableError, DrawError) as problem:
        yield Fault.of(file, str(problem))


def exist_already(generator: str | None) -> bool:
    """Return whether a generator hands on what was made elsewhere, a named release among it."""
    return generator in (*GIVEN, NAMED)


def schema_of(registry: Registry, member: Member, name: str, sealed: SealedMember) -> Schema:
    """Return what the releases of a mechanism, or a named release, hold."""
    mechanism = registry.members[member.name].drawn(name)
    generator = NAMED if mechanism is None else mechanism.generator
    return release_schema(member, sealed.kind_of, generator, name)


def _in_force_at(journal: Journal, entry: Entry[Frozen]) -> str:
    """Return the digest of the registry that was in force when an entry was recorded."""
    return [e for e in journal.ledger.claims if e.index < entry.index][-1].body.declaration


def predicted_source(mechanism: DrawnMechanism | GivenMechanism) -> str | None:
    """Return the file of the source's own predictions, where those were made elsewhere."""
    source = mechanism.options.get("source")
    return str(source) if mechanism.generator == "predictions" and source else None


def _check_sources(registry: Registry, manifest: ReleaseManifest) -> None:
    """See that frozen predictions of a source are those that a mechanism registers, and no more."""
    expected = {
        member.name
        for member in registry.declaration.members
        for mechanism in registry.members[member.name].mechanisms.values()
        if predicted_source(mechanism)
    }
    if set(manifest.sources) != expected:
        raise SealError(
            f"{RELEASES}: predictions of the source are frozen for {sorted(manifest.sources)}, "
            f"registered are {sorted(expected)}"
        )


def check_manifest(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that every registered seed was drawn once for this registry, and nothing else was."""
    manifest = folder.document(ReleaseManifest, RELEASES)
    (entry,) = journal.ledger.find(Frozen)
    frozen, then = entry.body, _in_force_at(journal, entry)
    # An amendment that came after the draws and is recorded before them would hide that they
    # could be looked at: the draws still name the registry that it superseded.
    if not manifest.registry == frozen.registry == then:
        raise SealError(
            "the releases were drawn for another registry: they name "
            f"{manifest.registry[:16]}..., their entry {frozen.registry[:16]}..., "
            f"and in force at that point of the ledger was {then[:16]}..."
        )
    if frozen.releases != folder.sha256(RELEASES):
        raise SealError(f"{RELEASES} is not the one that was recorded")
    # The guarantee is read from the entry: draws that it does not name would cost nothing.
    if frozen.again != manifest.again:
        raise SealError("the ledger names other draws that were made again than the releases")
    members = registry.declaration.members
    unknown = sorted(set(manifest.members) - {member.name for member in members})
    if unknown:
        raise SealError(f"{RELEASES}: {unknown} are no members that draws are of; it was edited")
    _check_sources(registry, manifest)
    for member in members:
        drawn = manifest.members.get(member.name, {})
        expected = {m.name: list(m.seed_list) for m in member.mechanism}
        expected |= {r.name: [member.release_seed] for r in member.release}
        if set(drawn) != set(expected):
            raise SealError(f"drawn were {sorted(drawn)}, registered {sorted(expected)}")
        for name, seeds in expected.items():
            have = [draw.seed for draw in drawn[name].draws]
            # In order and each once: a seed that is missing or twice there is a choice among draws.
            if have != seeds:
                raise SealError(
                    f"{name}: the draws have seeds {have[:5]}..., registered were {seeds[:5]}..."
                )
            sealed = journal.ledger.sealed.members[member.name]
            _check_draws(folder, registry, member, name, drawn[name].draws, sealed)


def _check_draws(
    folder: AuditFolder, registry: Registry, member: Member, name: str,
    draws: Sequence[AnyDraw], sealed: SealedMember,
) -> None:  # fmt: skip
    """Read every release of a mechanism, one at a time, and compare what the bytes hold."""
    # Named releases are no draws of one mechanism, and two of them may hold the same table.
    deterministic = {m.name: m.deterministic for m in member.mechanism}.get(name, True)
    where = f"{member.name}/{name}"
    # Addresses and models first: a plain copy is named as one before its digest is doubted.
    claimed = _claimed(registry, name, draws)
    for what, first, second in () if deterministic else repeats(claimed):
        raise SealError(f"{where}: seeds {first} and {second} have the same {what}")
    if member.target.losses is not None:
        _check_given(where, member, name, draws, sealed)
        return
    for draw in draws:
        if isinstance(draw, MadeDraw) and draw.name is not None:
            # The seed names it; another name would be printed beside its statistics.
            raise SealError(f"{where}, seed {draw.seed}: it is named {draw.name!r} besides")
    placed = [(member.draw_called(name, draw.seed), draw) for draw in draws]
    made = check_stored(folder, registry, member, name, placed, sealed)
    check_files(registry, member, name, made)
    mechanism = registry.members[member.name].drawn(name)
    if deterministic and mechanism is not None:
        check_declared(mechanism.generator, claimed, where)


def _check_given(
    where: str, member: Member, name: str, draws: Sequence[AnyDraw], sealed: SealedMember
) -> None:
    """See that every draw stands for the losses that were sealed for it, and for no others.

    The column decides which losses are read: eight draws that name one are eight copies of it.
    """
    before = takewhile(lambda mechanism: mechanism.name != name, member.mechanism)
    start = sum(mechanism.draws for mechanism in before)
    for column, draw in enumerate(draws, start=start):
        if not isinstance(draw, GivenRelease):
            raise SealError(f"{where}, seed {draw.seed}: it was drawn, and losses are given")
        releases = sealed.releases or ()
        if column >= len(releases) or (draw.column, draw.name) != (column, releases[column]):
            raise SealError(
                f"{where}, seed {draw.seed}: it stands for column {draw.column}, {draw.name!r}, of "
                f"the losses, and its own is column {column} of {list(releases[:3])}..."
            )


def check_files(registry: Registry, member: Member, name: str, draws: Iterable[MadeDraw]) -> None:
    """See that draws were made from the registered files, and all from one preparation."""
    files = registry.members[member.name].files(name)
    contents = {file.seed: file.content for file in files}
    prepared: dict[str, str] | None = None
    for draw in draws:
        where = member.draw_called(name, draw.seed)
        for change in changed_reading(files, draw):
            raise SealError(f"{where}: it was drawn from another file: {change}")
        stated = contents.get(draw.seed)
        if isinstance(draw, DrawnRelease) and stated not in (None, draw.content):
            raise SealError(f"{where}: the release is not what the registered file holds")
        # It may have failed before there was a preparation to rest on.
        if isinstance(draw, FailedDraw) and draw.prepared_from is None:
            continue
        rests_on = draw.prepared_from or {}
        prepared = rests_on if prepared is None else prepared
        if rests_on != prepared:
            raise SealError(f"{where}: it rests on another preparation than the draws before it")


def check_computed(
    registry: Registry, member: Member, name: str, draws: Iterable[MadeDraw]
) -> None:
    """See that draws of a network of ours say how they were computed, and as it is registered.

    Where this differs from a verifier's machine, a draw of other bits is not found to be false. So
    an author may neither leave it out nor name a device or version that was not registered.
    """
    mechanism = registry.members[member.name].drawn(name)
    if mechanism is None or extra_of(mechanism.generator) != TORCH:
        return
    device, registered = mechanism.describe.get(DEVICE), registry.software.get(LIBRARY)
    for draw in draws:
        where, said = f"{name}, seed {draw.seed}", draw.computed or {}
        if isinstance(draw, FailedDraw) and not said:
            continue  # it failed before there was anything to train
        unsaid = [fact for fact in (DEVICE, PROCESSOR, LIBRARY, TOGETHER) if not said.get(fact)]
        if unsaid:
            raise SealError(
                f"{where}: every draw of {mechanism.generator!r} says how it was computed, and "
                f"this has no {' and no '.join(unsaid)}; it was edited, or made by other code"
            )
        if said[DEVICE] not in (("cpu", "cuda") if device == "auto" else (device,)):
            raise SealError(
                f"{where}: it says that it was computed on {said[DEVICE]!r}, and registered is "
                f"device = {device!r}"
            )
        if not same_torch(registered, said[LIBRARY]):
            raise SealError(
                f"{where}: it says that it was computed by torch {said[LIBRARY]}, and registered "
                f"is torch {registered}"
            )


def check_stored(
    folder: AuditFolder, registry: Registry, member: Member, name: str,
    draws: Sequence[tuple[str, AnyDraw]], sealed: SealedMember,
) -> list[MadeDraw]:  # fmt: skip
    """See that draws of a mechanism, each after what errors call it, are what the store holds.

    Returns
    -------
    list
        Those that were made here, which all are.
    """
    schema = schema_of(registry, member, name, sealed)
    mechanism = registry.members[member.name].drawn(name)
    generated = mechanism is not None and not mechanism.delivered
    for where, draw in draws:
        check_content(folder, where, draw, schema)
        check_members(folder, where, draw, sealed, generated=generated, coins=member.tossed(name))
    made = [draw for _, draw in draws if not isinstance(draw, GivenRelease)]
    check_computed(registry, member, name, made)
    return made


def check_content(folder: AuditFolder, where: str, draw: AnyDraw, schema: Schema) -> None:
    """See that a draw was made here, and that its stored release holds what its record says."""
    if isinstance(draw, GivenRelease):
        raise SealError(f"{where}: its status is 'given', which no draw of this kind has")
    if not is_guard(draw.guard):
        raise SealError(
            f"{where}: {draw.guard!r} is no guard that a draw is held by; a draw records "
            '"landlock ABI N" or "audit hook"'
        )
    if isinstance(draw, FailedDraw):
        return
    # From the bytes: a recorded digest could be any, and would hide a copy.
    stored = folder.stored_records(draw.release, where, schema)
    if draw.content != stored.content:
        raise SealError(
            f"{where}: the release is another than its record says: content "
            f"{draw.content[:16]}..., the stored bytes have {stored.content[:16]}..."
        )
    if draw.rows != stored.rows:
        raise SealError(f"{where}: {draw.rows} rows are recorded, stored are {stored.rows}")


def check_members(
    folder: AuditFolder, where: str, draw: AnyDraw, sealed: SealedMember, *,
    generated: bool, coins: bool = False,
) -> None:  # fmt: skip
    """See that the members of a draw are rows of the training part, and named by a generator.

    Parameters
    ----------
    folder
        The audit's folder, whose store has the bits.
    where
        The draw, as an error names it.
    draw
        Its record.
    sealed
        What the ledger says of the training part.
    generated
        Whether a generator made it. A table that exists already says nothing of its members: all
        rows are, and whoever named few of them would choose what it is judged by.
    coins
        Whether the coins of its seed say who its members are.
    """
    if coins and isinstance(draw, DrawnRelease):
        tossed = coin_bits(draw.seed, sealed.development["training"])
        if draw.members != hashlib.sha256(tossed).hexdigest():
            raise SealError(f"{where}: its members are not those that the coins of its seed give")
    if not isinstance(draw, DrawnRelease) or draw.members is None:
        return
    if not generated:
        raise SealError(f"{where}: members are recorded of a table that no generator made")
    try:
        members_in(folder.store.get(draw.members), sealed.development["training"])
    except DrawError as error:
        raise SealError(f"{where}: {error}") from None


# Bins of the probability histograms behind the AUC diagnostic.
BINS = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class PredictionsByRecord:
    """Predictions made elsewhere, sorted by record position."""

    positions: NDArray[np.int64]
    values: Array

    def at(self, wanted: NDArray[np.int64]) -> Array:
        """Return the predictions of these records, NaN where there is none."""
        place = np.minimum(np.searchsorted(self.positions, wanted), self.positions.size - 1)
        known = self.positions[place] == wanted
        found = self.values[place].astype(np.float64)
        found[~known] = np.nan
        return found


def stored_predictions(frame: pd.DataFrame, name: str) -> PredictionsByRecord:
    """Return stored predictions by record position; every position once."""
    values: Array
    if "prediction" in frame.columns:
        values = frame["prediction"].to_numpy(dtype=np.float64)
    else:
        classes = sorted(
            (c for c in frame.columns if str(c).startswith("class ")),
            key=lambda c: int(str(c).split()[1]),
        )
        values = frame[classes].to_numpy(dtype=np.float64)
    positions = frame["position"].to_numpy(dtype=np.int64)
    order = np.argsort(positions, kind="stable")
    # Which of two counts would hang on the order of the rows, and that on their author.
    if positions.size == 0 or np.any(np.diff(positions[order]) == 0):
        raise LossMismatch(f"{name}: there is no prediction, or a record has two")
    return PredictionsByRecord(positions[order], values[order])


def check_predictions(frame: pd.DataFrame, name: str, outcome: Outcome) -> None:
    """Refuse stored predictions that are no probabilities, or no numbers in the range."""
    values = stored_predictions(frame, name).values
    low, high = (0.0, 1.0)
    if outcome.kind == "regression":
        low, high = (number(end) for end in outcome.range or ("0", "1"))
    if (values.ndim == 2) != (outcome.kind == "multiclass"):
        raise LossMismatch(f"{name}: predictions do not fit a {outcome.kind} outcome")
    # Asked in this direction, because NaN fails every comparison.
    if not np.all((values >= low) & (values <= high)):
        raise LossMismatch(f"{name}: predictions must lie in [{low:g}, {high:g}]")


@dataclass(slots=True, kw_only=True, eq=False)
class ProbabilityHistograms:
    """Histograms of predicted probabilities by outcome, for the AUC, which never decides."""

    counts: NDArray[np.int64]  # (2, BINS)

    @classmethod
    def empty(cls) -> ProbabilityHistograms:
        """Return histograms of nothing."""
        return cls(counts=np.zeros((2, BINS), dtype=np.int64))

    def add(self, y: Array, p: Array) -> None:
        """Count some predictions."""
        known = np.isfinite(p)
        y, p = y[known], p[known]
        # A probability of 1 belongs into the last bin.
        place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        for label in (0, 1):
            self.counts[label] += np.bincount(place[(y > 0.5) == bool(label)], minlength=BINS)

    def auc(self) -> float | None:
        """Return the area under the ROC curve, ties in a bin counting one half."""
        negative, positive = self.counts
        total = int(negative.sum()) * int(positive.sum())
        if total == 0:
            return None
        below = np.cumsum(negative) - negative
        return float((positive * (below + 0.5 * negative)).sum() / total)
