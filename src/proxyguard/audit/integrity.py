"""Does the folder still hold what its ledger vouches for, and nothing else?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxyguard.audit.folder import (
    DECLARATION,
    GRANT,
    RELEASES,
    REPORTS,
    AuditFolder,
    recorded_files,
)
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import SealError
from proxyguard.seal.journal import NAME, Journal
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import entries_inside


def check_folder(folder: AuditFolder, journal: Journal) -> None:
    """Raise at the first file that is missing or has other bytes than were recorded."""
    for name, problem in problems(folder, journal):
        raise SealError(f"{name}: {problem}")


def problems(folder: AuditFolder, journal: Journal) -> Iterator[tuple[str, str]]:
    """Yield every recorded file that is missing or changed."""
    for name, recorded in sorted(vouched_files(folder, journal).items()):
        try:
            if not folder.has(name):
                yield name, "is missing"
            elif (digest := folder.sha256(name)) != recorded:
                changed = f"recorded with digest {recorded[:16]}..., found {digest[:16]}..."
                yield name, f"was changed: {changed}"
        except SealError as error:  # what lies there is no plain file
            yield name, str(error)


def vouched_files(folder: AuditFolder, journal: Journal) -> dict[str, str]:
    """Return every file that the ledger vouches for, directly or through the manifest."""
    files = recorded_files(journal.ledger.entries)
    listed = RELEASES in files and folder.has(RELEASES)
    if listed and folder.sha256(RELEASES) == files[RELEASES]:
        for address in folder.document(ReleaseManifest, RELEASES).objects:
            files[folder.store.name(address)] = address
    return files


def unknown_files(folder: AuditFolder, journal: Journal) -> list[str]:
    """Return the files that nothing vouches for; an unfinished audit may have some of its own."""
    known = set(vouched_files(folder, journal)) | {NAME}
    ledger = journal.ledger
    if not ledger.has(Stage.REGISTERED):
        known.add(DECLARATION)
    elif not ledger.has(Stage.OPENED):
        known.add(GRANT)  # which `verify` then reads; before registration nobody can grant
    certified = ledger.has(Stage.CERTIFIED)
    if certified:
        known |= set(REPORTS)
    found = []
    for name, odd in entries_inside(folder.path):
        if odd is not None:
            continue  # a problem, whoever vouches for it
        if name in known or (not certified and _unfinished(name, ledger.has(Stage.DRAWN))):
            continue
        found.append(name)
    return sorted(found)


def odd_entries(folder: AuditFolder) -> Iterator[tuple[str, str]]:
    """Yield what is neither a plain file nor a folder: audits write nothing else."""
    for name, odd in entries_inside(folder.path):
        if odd is not None:
            yield name, f"is {odd}, and an audit's folder holds plain files alone"


_UNFINISHED = re.compile(
    r"store/[0-9a-f]{2}/[0-9a-f]{64}|draws/[0-9a-f]{64}/[0-9]+\.(json|dropped|ended)|registry/[0-9]+\.(json|toml)"
    r"|development/[0-9]+\.(training|validation)\.parquet|target/[0-9]+\.sealed|releases\.json"
)
"""What a step writes before its entry vouches for it, by name: a page among them is none."""


def _unfinished(name: str, drawn: bool) -> bool:
    """Return whether a file belongs to a step that is still going on."""
    return not drawn and _UNFINISHED.fullmatch(name) is not None
