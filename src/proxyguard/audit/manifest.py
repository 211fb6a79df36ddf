"""The frozen releases: are they the registered ones, each drawn once, none a copy?

What a record says of its release is never taken for it. `open`, `grant` and `verify` read every
stored release once, and what is compared is what its bytes hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from proxyguard.audit.folder import RELEASES, AuditFolder, Registry
from proxyguard.draw.catalog import is_random
from proxyguard.draw.confine import is_guard
from proxyguard.draw.sources import changed_reading
from proxyguard.errors import SealError
from proxyguard.registry.declaration import Member
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Entry, Stage
from proxyguard.tables.content import Schema

FAILED = ("failed", "timeout")
"""Draws that gave no release: every loss of theirs counts as its upper bound."""

_STATED = frozenset({"format", "name", "seed", "status", "guard", "prepared_at_random",
                     "prepared_from", "files", "again"})  # fmt: skip
_KEYS = {
    "drawn": _STATED | {"rows", "content", "stages", "selected", "threshold", "temperature",
                        "predictions", "release", "model"},
    "given": frozenset({"seed", "status", "name", "column"}),
    **dict.fromkeys(FAILED, _STATED | {"error"}),
}  # fmt: skip
"""What the record of a draw may say. The seed of an opening is a digest over all records, so that
a key of no meaning would be a place to try words in until the seed suits."""


def repeats(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Yield what two draws have in common that independent draws have not, and their seeds."""
    seen: dict[tuple[str, str], int] = {}
    for record in records:
        for what, key in (
            ("release", "content"), ("release", "release"), ("fitted procedure", "model"),
        ):  # fmt: skip
            value = record.get(key)
            if value is None:
                continue
            if (key, value) in seen:
                yield what, seen[key, value], record["seed"]
            seen[key, value] = record["seed"]


def randomness(generator: str, records: Iterable[Mapping[str, Any]] = ()) -> str | None:
    """Return what shows that a mechanism declared ``deterministic = true`` is random, or nothing.

    Without randomness every seed gives one release. Otherwise the declaration would be a way
    around the search for copies: one lucky draw, written down under every seed.
    """
    if is_random(generator):
        return f"{generator} takes its seed and is random"
    first: Mapping[str, Any] | None = None
    for record in records:
        if record["status"] != "drawn":
            continue
        if record["prepared_at_random"]:
            return f"its preparation, which seed {record['seed']} rests on, was random"
        first = first or record
        if record["content"] != first["content"]:
            return f"seeds {first['seed']} and {record['seed']} gave different releases"
    return None


def check_declared(generator: str, records: Iterable[Mapping[str, Any]], where: str) -> None:
    """Raise where the draws of a mechanism show randomness that it was declared not to have."""
    problem = randomness(generator, records)
    if problem is not None:
        raise SealError(f"{where} is declared with deterministic = true, and {problem}")


def same_files(
    files: Iterable[Mapping[str, Any]], apart: frozenset[int]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield two registered files that hold the same records, but for seeds that may repeat."""
    seen: dict[str, Mapping[str, Any]] = {}
    for one in files:
        if one["content"] is None or one["seed"] in apart:
            continue
        if one["content"] in seen:
            yield seen[one["content"]], one
        seen[one["content"]] = one


_OUTCOME = (
    "status", "content", "rows", "model", "selected", "threshold", "temperature", "stages", "files",
    "prepared_at_random", "prepared_from",
)  # fmt: skip
"""What a verdict can depend on of a draw: one that differs in any of it came out otherwise."""


def drawn_again(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the draws that were dropped and made again, and whether they came out the same."""
    return [
        {
            "mechanism": name,
            "seed": record["seed"],
            "same": all(
                dropped.get(key) == record.get(key)
                for dropped in record["again"]
                for key in _OUTCOME
            ),
        }
        for mechanisms in manifest["members"].values()
        for name, drawn in mechanisms.items()
        for record in drawn["draws"]
        if "again" in record
    ]


def _claimed(
    registry: Registry, mechanism: str, records: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the draws that the claim is about; an excluded one may well repeat another."""
    return [r for r in records if (mechanism, r["seed"]) not in registry.excluded]


def schema_of(registry: Registry, member: Member, name: str, sealed: Mapping[str, Any]) -> Schema:
    """Return what the releases of a mechanism, or a named release, hold."""
    lacks = {r.name: r.lacks for r in member.release}.get(name, ())
    mechanism = registry.member(member.name)["mechanisms"].get(name, {})
    generator = mechanism.get("generator")
    missing = member.target.read.missing
    return Schema.of_releases(sealed["kinds"], missing, generator=generator, lacks=lacks)


def _in_force_at(journal: Journal, entry: Entry) -> str:
    """Return the digest of the registry that was in force when an entry was recorded."""
    steps = [*journal.ledger.find(Stage.REGISTERED), *journal.ledger.find(Stage.AMENDED)]
    return str([e for e in steps if e.index < entry.index][-1].body["declaration"])


def _refuse_unknown(where: str, value: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise SealError(f"{where}: {unknown} is nothing that draws record; it was edited")


def check_record(where: str, record: Mapping[str, Any]) -> None:
    """See that a draw, and those of its seed before it, say nothing else than draws do."""
    _refuse_unknown(where, record, _KEYS[record["status"]])
    for dropped in record.get("again", ()):
        _refuse_unknown(f"{where}, made again", dropped, _KEYS[dropped["status"]] - {"again"})


def _check_sources(registry: Registry, manifest: Mapping[str, Any]) -> None:
    """See that frozen predictions of a source are those that a mechanism registers, and no more."""
    expected = {
        member.name
        for member in registry.declaration.members
        for mechanism in registry.member(member.name)["mechanisms"].values()
        if mechanism["generator"] == "predictions" and mechanism["options"].get("source")
    }
    if set(manifest["sources"]) != expected:
        raise SealError(
            f"{RELEASES}: predictions of the source are frozen for {sorted(manifest['sources'])}, "
            f"registered are {sorted(expected)}"
        )


def check_manifest(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that every registered seed was drawn once for this registry, and nothing else was."""
    manifest = folder.read_json(RELEASES)
    entry = journal.ledger.find(Stage.DRAWN)[0]
    drawn, then = entry.body, _in_force_at(journal, entry)
    # An amendment that came after the draws and is recorded before them would hide that they
    # could be looked at: the draws still name the registry that it superseded.
    if not manifest["registry"] == drawn["registry"] == then:
        raise SealError(
            "the releases were drawn for another registry: they name "
            f"{str(manifest['registry'])[:16]}..., their entry {str(drawn['registry'])[:16]}..., "
            f"and in force at that point of the ledger was {then[:16]}..."
        )
    if drawn["releases"] != folder.sha256(RELEASES):
        raise SealError(f"{RELEASES} is not the one that was recorded")
    if drawn["again"] != drawn_again(manifest):
        raise SealError("the ledger names other draws that were made again than the releases")
    _refuse_unknown(RELEASES, manifest, ("format", "registry", "members", "sources"))
    names = [member.name for member in registry.declaration.members]
    _refuse_unknown(f"{RELEASES}, members", manifest["members"], names)
    _check_sources(registry, manifest)
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"]
    for member in registry.declaration.members:
        found = manifest["members"].get(member.name, {})
        expected = {m.name: list(m.seed_list) for m in member.mechanism}
        seed = 0 if member.procedure is None else member.procedure.seed
        expected |= {r.name: [seed] for r in member.release}
        if set(found) != set(expected):
            raise SealError(f"drawn were {sorted(found)}, registered {sorted(expected)}")
        for name, seeds in expected.items():
            _refuse_unknown(f"{RELEASES}, {name}", found[name], ("draws",))
            have = [d["seed"] for d in found[name]["draws"]]
            if have != seeds:
                raise SealError(
                    f"{name}: the draws have seeds {have[:5]}..., registered were {seeds[:5]}..."
                )
            _check_draws(folder, registry, member, name, found[name]["draws"], sealed[member.name])


def _check_draws(
    folder: AuditFolder, registry: Registry, member: Member, name: str,
    records: list[dict[str, Any]], sealed: Mapping[str, Any],
) -> None:  # fmt: skip
    """Read every release of a mechanism, one at a time, and compare what the bytes hold."""
    deterministic = {m.name: m.deterministic for m in member.mechanism}.get(name, True)
    given = member.target.losses is not None
    # Addresses and models first: a plain copy is named as one before its digest is doubted.
    claimed = _claimed(registry, name, records)
    for what, first, second in (
        ()
        if deterministic
        else repeats({key: r.get(key) for key in ("seed", "release", "model")} for r in claimed)
    ):
        raise SealError(f"{member.name}/{name}: seeds {first} and {second} have the same {what}")
    schema = None if given else schema_of(registry, member, name, sealed)
    computed = [with_content(folder, name, record, schema) for record in records]
    check_files(registry, member, name, computed)
    mechanism = registry.member(member.name)["mechanisms"].get(name)
    if deterministic and mechanism is not None and not given:
        claimed = _claimed(registry, name, computed)
        check_declared(mechanism["generator"], claimed, f"{member.name}/{name}")
    for what, first, second in () if deterministic else repeats(_claimed(registry, name, computed)):
        raise SealError(f"{member.name}/{name}: seeds {first} and {second} have the same {what}")


def check_files(
    registry: Registry, member: Member, name: str, records: Iterable[Mapping[str, Any]]
) -> None:
    """See that draws were made from the registered files, and all from one preparation."""
    resolved = registry.member(member.name)
    registered = {**resolved["mechanisms"], **resolved["stand_ins"]}.get(name, {})
    files = registered.get("files", [])
    contents = {one["seed"]: one["content"] for one in files}
    prepared = None
    for record in records:
        where = f"{name}, seed {record['seed']}"
        if record["status"] == "given":
            continue
        for change in changed_reading(files, record):
            raise SealError(f"{where}: it was drawn from another file: {change}")
        stated = contents.get(record["seed"])
        if record["status"] == "drawn" and stated not in (None, record["content"]):
            raise SealError(f"{where}: the release is not what the registered file holds")
        if record["status"] in FAILED and "prepared_from" not in record:
            continue
        if prepared is None:
            prepared = record.get("prepared_from", {})
        if record.get("prepared_from", {}) != prepared:
            raise SealError(f"{where}: it rests on another preparation than the draws before it")


def with_content(
    folder: AuditFolder, name: str, record: Mapping[str, Any], schema: Schema | None
) -> dict[str, Any]:
    """Return a record with the digest of the records that its stored release holds.

    ``schema`` is of releases that were drawn here; losses that were given have none. What the
    record itself states must be there and agree: one that leaves its content out hides a copy.
    """
    where = f"{name}, seed {record['seed']}"
    status = record["status"]
    if status not in (("given",) if schema is None else ("drawn", *FAILED)):
        raise SealError(f"{where}: its status is {status!r}, which no draw of this kind has")
    check_record(where, record)
    if schema is not None and not is_guard(record.get("guard")):
        raise SealError(
            f"{where}: {record.get('guard')!r} is no guard that a draw is held by; a draw records "
            '"landlock ABI N" or "audit hook"'
        )
    if schema is None or status in FAILED:
        return {**record, "content": None}
    frame = folder.stored_table(record["release"], where)
    content = schema.content(frame)
    stated = record.get("content")
    if stated is None:
        raise SealError(f"{where}: the digest of its content is left out")
    if stated != content:
        raise SealError(
            f"{where}: the release is another than its record says: content {stated[:16]}..., the "
            f"stored bytes have {content[:16]}..."
        )
    if record.get("rows") != len(frame):
        raise SealError(f"{where}: {record.get('rows')} rows are recorded, stored are {len(frame)}")
    return {**record, "content": content}
