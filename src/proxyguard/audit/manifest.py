"""The frozen releases: are they the registered ones, each drawn once, none a copy?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxyguard.audit.folder import RELEASES, AuditFolder, Registry
from proxyguard.draw.content import content_digest
from proxyguard.errors import DrawError, SealError
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Stage
from proxyguard.seal.table import read_table_bytes


def check_copies(registry: Registry, manifest: Mapping[str, Any]) -> None:
    """Stop when two draws gave the same release or the same model, by content."""
    for name, what, first, second in copies(registry, manifest):
        raise DrawError(
            f"{name}: seeds {first} and {second} gave the same {what}; independent draws would "
            "not. Does the generator use its seed? If the mechanism has no randomness, declare "
            "deterministic = true"
        )


def copies(registry: Registry, manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, int, int]]:
    """Yield mechanisms with two equal draws, what is equal, and the two seeds."""
    for member in registry.declaration.members:
        for mechanism in member.mechanism:
            drawn = manifest["members"].get(member.name, {}).get(mechanism.name)
            if drawn is None or mechanism.deterministic:
                continue
            for what, key in (
                ("release", "content"), ("release", "release"), ("fitted procedure", "model"),
            ):  # fmt: skip
                seen: dict[str, int] = {}
                for record in drawn["draws"]:
                    value = record.get(key)
                    if value is None:
                        continue
                    if value in seen:
                        yield f"{member.name}/{mechanism.name}", what, seen[value], record["seed"]
                    seen[value] = record["seed"]


def check_manifest(folder: AuditFolder, registry: Registry, journal: Journal) -> None:
    """See that every registered seed was drawn once for this registry, and nothing else was."""
    manifest = folder.read_json(RELEASES)
    drawn = journal.ledger.find(Stage.DRAWN)[0].body
    known = {registry.digest, *(e.body["supersedes"] for e in journal.ledger.find(Stage.AMENDED))}
    if manifest["registry"] not in known or drawn["registry"] != manifest["registry"]:
        raise SealError("the releases were drawn for another registry")
    if drawn["releases"] != folder.sha256(RELEASES):
        raise SealError(f"{RELEASES} is not the one that was recorded")
    for member in registry.declaration.members:
        found = manifest["members"].get(member.name, {})
        expected = {m.name: list(m.seed_list) for m in member.mechanism}
        seed = 0 if member.procedure is None else member.procedure.seed
        expected |= {r.name: [seed] for r in member.release}
        if set(found) != set(expected):
            raise SealError(f"drawn were {sorted(found)}, registered {sorted(expected)}")
        for name, seeds in expected.items():
            have = [d["seed"] for d in found[name]["draws"]]
            if have != seeds:
                raise SealError(
                    f"{name}: the draws have seeds {have[:5]}..., registered were {seeds[:5]}..."
                )
    for name, what, first, second in copies(registry, manifest):
        raise SealError(f"{name}: seeds {first} and {second} have the same {what}")
    for mechanisms in manifest["members"].values():
        for name, content in mechanisms.items():
            for record in content["draws"]:
                check_content(folder, name, record)


def check_content(folder: AuditFolder, name: str, record: Mapping[str, Any]) -> None:
    """See that a frozen release holds the records that its digest of content is of."""
    if "content" not in record:
        return
    frame = read_table_bytes(folder.store.get(record["release"]), name)
    if content_digest(frame) != record["content"]:
        raise SealError(f"{name}, seed {record['seed']}: the release is another")
