"""A declaration that somebody else wrote: what it wants to be put where, and whose code it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxyguard.adapters.files import FOLDER
from proxyguard.audit.home import DataFolders
from proxyguard.draw.catalog import is_ours
from proxyguard.errors import TableError
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.parts import DELIVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What has to be done before the first step of an audit that was declared elsewhere."""

    missing: tuple[str, ...]
    """Tables and folders that are not there, each with what it has to be."""
    named: tuple[str, ...]
    """Code of others that steps will run, by what names it."""
    carried: tuple[tuple[str, str], ...]
    """Code of others that the declaration itself holds, by the mechanism that is made of it."""


def begun(declaration: Declaration, data: DataFolders, beside: Path) -> Begun:
    """Return what a declaration wants.

    Parameters
    ----------
    declaration
        What was begun with.
    data
        Where its tables are looked for.
    beside
        The folder that the audit's folder lies in, as it was typed.
    """
    missing: list[str] = []
    for member in declaration.members:
        for name, what in _tables(member):
            try:
                data.find(name)
            except TableError:
                missing.append(f"{beside / name}: {what}")
    drawn = [*(m for member in declaration.members for m in member.mechanism), *declaration.pilot]
    carried, named = {}, []
    for part in drawn:
        if part.generator == "code":
            carried[part.name] = str(part.options.get("text", ""))
        elif part.generator == "callable":
            named.append(str(part.options.get("function", "")))
        elif part.generator not in (None, "losses") and not is_ours(part.generator):
            named.append(part.generator)
    for member in declaration.members:
        library = () if member.procedure is None else member.procedure.library
        named += [name for name in library if not is_ours(name, "procedure")]
        named += member.measuring_code
    return Begun(
        missing=tuple(dict.fromkeys(missing)),
        named=tuple(dict.fromkeys(named)),
        carried=tuple(carried.items()),
    )


def _tables(member: Member) -> Iterator[tuple[str, str]]:
    """Yield the tables that a member names, and what each has to be."""
    target = member.target
    for name in target.files:
        whole = name == target.table
        yield name, (
            "the real table" if whole
            else "losses that were computed elsewhere" if name == target.losses
            else "records that nobody has looked at, the target"
        )  # fmt: skip
    if member.development.table is not None:
        yield member.development.table, "the real rows that releases stand in for"
    for release in member.release:
        yield release.file, "a release"
    for mechanism in member.mechanism:
        folder = mechanism.options.get(FOLDER)
        if mechanism.generator in DELIVERED and isinstance(folder, str):
            yield folder, "the folder of the releases"
