"""Draw some registered seeds again, and see whether the stored releases are what they give.

Which seeds is the verifier's own choice at random, made after everything was frozen, so that an
author who exchanged one release in twenty is found by a few draws with the odds of that. Every
seed is drawn in a process of its own that has no key, and sees no stored release.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isclose
from secrets import SystemRandom
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from proxyguard.adapters.privacy import privacy_of
from proxyguard.audit.apart import redraw_apart
from proxyguard.audit.data import DataFolders
from proxyguard.audit.folder import RELEASES, AuditFolder, Registry
from proxyguard.audit.resolve import MemberDevelopment, Workplace, fitted_from
from proxyguard.audit.stated import software_versions
from proxyguard.audit.verify import Scope, Verification, step
from proxyguard.draw.catalog import is_ours
from proxyguard.draw.models import load_model
from proxyguard.draw.outcome import features, predict
from proxyguard.errors import SealError, UntrustedCode
from proxyguard.registry.declaration import Member
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Path as LedgerPath
from proxyguard.seal.ledger import Stage

CLOSE = 1e-6
"""How far predictions and thresholds may lie apart that another processor fitted again."""
OTHERS = ("ctgan", "sdv", "smartnoise")
"""Adapters of ours to packages of others: their code is run like any that a folder names."""
EXACT = ("rows", "content", "stages", "prepared_at_random", "selected")
NEAR = ("threshold", "temperature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One recorded draw that a registered seed should give again."""

    member: Member
    mechanism: str
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is called where it is told."""
        return f"redraw: {self.member.name}/{self.mechanism}, seed {self.record['seed']}"


def redraw(
    result: Verification,
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    scope: Scope,
) -> None:
    """Draw ``scope.redraw`` seeds again, chosen at random among all that can be repeated."""
    repeatable: list[Drawn] = []
    recorded = 0
    for member in registry.declaration.members:
        for mechanism, records in _recorded(folder, journal, member):
            recorded += len(records)
            name = f"redraw: {member.name}/{mechanism}"
            why = _not_repeatable(registry, member, mechanism, scope)
            if why is not None:
                result.not_checked.append(f"{name}: {why}")
                continue
            repeatable += [Drawn(member=member, mechanism=mechanism, record=r) for r in records]
    count = min(scope.redraw, len(repeatable))
    if count == 0 or count < min(scope.redraw, recorded):
        result.not_checked.append(
            f"redraw: {count} of the {scope.redraw} seeds that were asked for could be drawn again"
        )
    for drawn in SystemRandom().sample(repeatable, count):
        check = partial(_check, folder, journal, registry, drawn, scope)
        step(result, RELEASES, f"{drawn.name}: the same again", check)


def _recorded(
    folder: AuditFolder, journal: Journal, member: Member
) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the records of every mechanism; tables and candidates from outside have no seed."""
    names = [mechanism.name for mechanism in member.mechanism]
    if journal.ledger.path is LedgerPath.SEQUENTIAL:
        records: list[Mapping[str, Any]] = [
            e.body["record"] for e in journal.ledger.find(Stage.DRAWN)
        ]
        yield from ((name, records) for name in names)
        return
    drawn = folder.read_json(RELEASES)["members"].get(member.name, {})
    yield from ((name, drawn[name]["draws"]) for name in names)


def _not_repeatable(registry: Registry, member: Member, mechanism: str, scope: Scope) -> str | None:
    """Return why a mechanism's seeds are not drawn again, or nothing where they can be."""
    registered = registry.member(member.name)["mechanisms"][mechanism]
    generator = str(registered["generator"])
    if generator == "losses":
        return "its losses were computed elsewhere, from no seed"
    private = privacy_of(registered["describe"])
    if private is not None and not private.seeded:
        return "not repeatable: its noise comes from the system and takes no seed"
    library = () if member.procedure is None else member.procedure.library
    ours = is_ours(generator) and generator not in OTHERS
    if not scope.run_named_code and not (ours and all(is_ours(n, "procedure") for n in library)):
        return "it runs code that is not ours; draw it again with --run-named-code"
    return None


def _check(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    drawn: Drawn,
    scope: Scope,
) -> None:
    """Draw one seed again and compare; another version of a library excuses a difference."""
    seed = int(drawn.record["seed"])
    again = redraw_apart(
        folder, drawn.member.name, drawn.mechanism, seed, scope.data, timeout=scope.timeout
    )
    different = list(_differences(drawn.record, again))
    if not different and drawn.record.get("model") is not None:
        different += _model_differences(folder, journal, registry, drawn, again, scope)
    if not different:
        return
    words = f"{drawn.name}: drawn again, it has another {' and another '.join(different)}"
    other = _other_software(registry)
    if other or drawn.record["status"] == "timeout" or again["status"] == "failed":
        why = other or again.get("error") or "the recorded draw ran out of time"
        raise UntrustedCode(f"{words}; here it could not be repeated as it was: {why}", names=())
    raise SealError(words)


def _differences(record: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[str]:
    if record["status"] != again["status"]:
        yield f"status ({record['status']}, now {again['status']})"
        return
    if record["status"] != "drawn":
        return
    for key in EXACT:
        if record.get(key) != again.get(key):
            yield key.replace("_", " ")
    for key in NEAR:
        if not _near(record.get(key), again.get(key)):
            yield key


def _near(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return first is second
    return isclose(float(first), float(second), rel_tol=CLOSE, abs_tol=CLOSE)


def _model_differences(
    folder: AuditFolder,
    journal: Journal,
    registry: Registry,
    drawn: Drawn,
    again: Mapping[str, Any],
    scope: Scope,
) -> Iterator[str]:
    """Compare two models by their bytes, or else by what they predict for development."""
    content = base64.b64decode(again["model"])
    address = str(drawn.record["model"])
    if hashlib.sha256(content).hexdigest() == address:
        return
    member = drawn.member
    sealed = journal.ledger.find(Stage.SEALED)[0].body["members"][member.name]
    place = Workplace(folder=folder, data=DataFolders((folder.path,)), home="")
    development = MemberDevelopment(place, member, sealed)
    x = features(development.training(), development.features)
    with threadpool_limits(1):
        first, second = (
            predict(fitted_from(drawn.record, load_model(one, "a model", scope.types)), x,
                    development.outcome)
            for one in (folder.store.get(address), content)
        )  # fmt: skip
    if not np.allclose(first, second, rtol=CLOSE, atol=CLOSE):
        yield "model"


def _other_software(registry: Registry) -> str:
    """Return which registered versions are not those here; they may draw or fit otherwise."""
    made, here = registry.value["software"], software_versions()
    other = [f"{name} {made.get(name)} then, {here[name]} here" for name in here
             if made.get(name) != here[name]]  # fmt: skip
    return "; ".join(other)
