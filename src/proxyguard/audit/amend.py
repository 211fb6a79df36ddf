"""Change a registered claim in the open, while no outcome has been seen."""

from __future__ import annotations

from collections.abc import Set

from proxyguard.audit.home import Home
from proxyguard.audit.lineage import check_lineage
from proxyguard.audit.register import build_registry, schedule_of, write_registry
from proxyguard.audit.resolve import Workplace
from proxyguard.documents.ledger import Amended
from proxyguard.documents.registry import ExcludedDraw, Registry
from proxyguard.errors import RegistryError, StageError
from proxyguard.seal.entropy import now
from proxyguard.seal.journal import writing
from proxyguard.seal.ledger import Stage

Excluded = tuple[str, int]
"""A mechanism and the seed of a draw of it."""


def amend(
    place: Workplace,
    home: Home,
    software: dict[str, str],
    *,
    reason: str,
    exclude: tuple[Excluded, ...] = (),
) -> None:
    """Register `audit.toml` as it stands now in place of what was registered before.

    ``exclude`` takes draws out of the claim before any outcome is seen; they are drawn and
    kept as descriptive. It is the whole list: what an earlier amendment excluded and this one
    does not name is part of the claim again, and the ledger says so.
    """
    folder = place.folder
    text, declaration = folder.declaration_text(), folder.declaration()
    if not reason.strip():
        raise RegistryError("an amendment says why; give a reason")
    key = home.signing_key()
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.REGISTERED):
            raise StageError("amended: the claim must be registered first")
        if journal.ledger.has(Stage.OPENED):
            raise StageError("amended: the target has been opened; record a deviation instead")
        sealed = journal.ledger.sealed.members
        if any(home.lineage.was_opened(member.commitment) for member in sealed.values()):
            raise StageError(
                "amended: the opening of this target has begun and was interrupted; run open"
            )
        before = folder.registry(journal)
        if schedule_of(declaration) is not journal.ledger.schedule:
            raise RegistryError("an amendment cannot turn a fixed audit into a sequential one")
        check_lineage(folder, journal, home)
        drawn = before if journal.ledger.has(Stage.DRAWN) else None
        registry = build_registry(place, declaration, journal, software, drawn)
        registry = registry.model_copy(update={"excluded": _draws(set(exclude))})
        check_excluded(registry)
        if journal.ledger.has(Stage.DRAWN) and drawn_part(registry) != drawn_part(before):
            raise StageError(
                "amended: the releases are drawn; only limits, claim and excluded draws can change"
            )
        index = len(journal.ledger.claims)
        amended = Amended(
            declaration=registry.digest,
            supersedes=before.digest,
            reason=reason,
            void=void_exclusions(before, registry),
            pending=folder.begun_draws(),
            files=write_registry(folder, index, registry, text),
            time=now(),
        )
        journal.record(amended, key)


def void_exclusions(before: Registry, after: Registry) -> tuple[ExcludedDraw, ...]:
    """Return the exclusions that the amendment from one registry to the next did not repeat."""
    return _draws(before.left_out - after.left_out)


def _draws(draws: Set[Excluded]) -> tuple[ExcludedDraw, ...]:
    return tuple(ExcludedDraw(mechanism=name, seed=seed) for name, seed in sorted(draws))


def check_excluded(registry: Registry) -> None:
    """Raise unless an amendment excludes registered draws, each once, and leaves some of each."""
    if registry.left_out and registry.declaration.claim.after_opening:
        raise RegistryError(
            "an audit that draws after opening takes its seeds in their order and leaves none out; "
            "declare other seeds instead"
        )
    if registry.excluded != _draws(registry.left_out):
        raise RegistryError("an amendment lists the draws that it excludes, in order, each once")
    seeds = {
        (mechanism.name, seed)
        for member in registry.declaration.members
        for mechanism in member.mechanism
        for seed in mechanism.seed_list
    }
    unknown = registry.left_out - seeds
    if unknown:
        raise RegistryError(f"no registered draws: {sorted(unknown)}")
    left = {name for name, _ in seeds - registry.left_out}
    empty = {name for name, _ in seeds} - left
    if empty:
        raise RegistryError(f"no draw of {sorted(empty)} would be left; drop the mechanism instead")


def drawn_part(registry: Registry) -> object:
    """Return what the drawn releases depend on."""
    declaration = registry.declaration
    return (
        declaration.mechanism, declaration.release, declaration.procedure,
        [(c.name, c.mechanism, c.release, c.procedure) for c in declaration.candidate],
        {name: (m.mechanisms, m.stand_ins, m.procedure, m.source)
         for name, m in registry.members.items()},
    )  # fmt: skip
