"""A step reads and hashes every file of a folder once, and uses the bytes that it hashed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import RELEASES
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import DrawnRelease, ReleaseManifest
from proxyguard.errors import SealError
from proxyguard.seal.storage import FolderFiles
from proxyguard.tables import files

At = Callable[[str], Audit]


class CountedHash:
    """A SHA-256 that says when it is asked for its digest."""

    def __init__(self, inner: Any, count: Counter[str]) -> None:
        self._inner, self._count = inner, count

    def update(self, content: bytes) -> None:
        self._inner.update(content)

    def digest(self) -> bytes:
        self._count[self._inner.hexdigest()] += 1
        return bytes(self._inner.digest())

    def hexdigest(self) -> str:
        return self.digest().hex()


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each digest was computed in this process, wherever and however."""
    count: Counter[str] = Counter()
    plain, of_file = hashlib.sha256, hashlib.file_digest
    monkeypatch.setattr(
        hashlib,
        "sha256",
        lambda *content, **options: CountedHash(plain(*content, **options), count),
    )
    monkeypatch.setattr(
        hashlib, "file_digest", lambda file, kind: CountedHash(of_file(file, kind), count)
    )
    return count


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file but the ledger, whose entries are digested one by one."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "ledger.jsonl"
    }


def more_than_once(
    audit: Audit, hashed: Counter[str], step: Callable[[], object]
) -> dict[str, int]:
    """Return the files of the folder that a step hashed more than once, with how often."""
    hashed.clear()
    step()
    count, files = Counter(hashed), digests(audit.folder.path)
    same = Counter(files.values())  # audit.toml and what was registered of it are the same bytes
    return {name: count[one] for name, one in files.items() if count[one] > same[one]}


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("drawn", "open"),
        ("drawn", "verify"),
        ("certified", "verify"),
        ("certified", "status"),
        ("certified", "report"),
    ],
)
def test_a_step_hashes_every_file_once(at: At, hashed: Counter[str], stage: str, name: str) -> None:
    audit = at(stage)
    assert more_than_once(audit, hashed, getattr(audit, name)) == {}


@pytest.mark.parametrize("name", ["open", "verify"])
def test_a_step_reads_the_records_of_every_release_once(
    at: At, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    audit = at("drawn")
    reads: Counter[str] = Counter()
    plain = files.read_table_bytes

    def counted(content: bytes, what: str) -> pd.DataFrame:
        reads[hashlib.sha256(content).hexdigest()] += 1
        return plain(content, what)

    monkeypatch.setattr(files, "read_table_bytes", counted)
    getattr(audit, name)()
    members = audit.folder.document(ReleaseManifest, RELEASES).members.values()
    draws = [draw for groups in members for group in groups.values() for draw in group.draws]
    releases = [draw.release for draw in draws if isinstance(draw, DrawnRelease)]
    assert [reads[release] for release in releases] == [1] * len(releases) != []


def test_a_release_that_is_swapped_between_two_steps_is_read_again(at: At) -> None:
    audit = at("drawn")
    assert audit.verify().good
    store = audit.folder.path / "store"
    first = min(path for path in store.glob("*/*") if path.read_bytes()[:4] == b"PAR1")
    first.chmod(0o644)
    first.write_bytes(b"swapped")
    assert not audit.verify().good


def test_verify_hashes_every_file_that_the_ledger_vouches_for(at: At, hashed: Counter[str]) -> None:
    audit = at("certified")
    hashed.clear()
    audit.verify()
    count = Counter(hashed)
    reports = {f"report.{kind}" for kind in ("md", "html", "json", "csv")}
    files = digests(audit.folder.path)
    assert {name for name, one in files.items() if not count[one]} == reports


def test_losses_are_computed_again_from_files_that_are_hashed_once(
    at: At, hashed: Counter[str]
) -> None:
    audit = at("certified")
    assert more_than_once(audit, hashed, lambda: audit.verify(with_target=True)) == {}


def test_an_audit_that_is_opened_again_hashes_files_once_and_the_evidence_that_it_computes(
    at: At, hashed: Counter[str]
) -> None:
    audit = at("certified")
    assert more_than_once(audit, hashed, audit.open) == {"evidence.json": 2}


def test_a_file_that_is_swapped_after_it_was_hashed_is_not_what_a_step_uses(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    (tmp_path / "evidence.json").write_bytes(b"checked")
    with files.step():
        digest = files.sha256("evidence.json")
        (tmp_path / "evidence.json").write_bytes(b"swapped")
        assert files.read("evidence.json") == b"checked"
        assert files.sha256("evidence.json") == digest
    assert files.read("evidence.json") == b"swapped"


@pytest.mark.parametrize("first", ["read", "sha256"])
def test_a_file_too_large_to_hold_that_is_swapped_is_refused(tmp_path: Path, first: str) -> None:
    files = FolderFiles(tmp_path, room=4)
    (tmp_path / "table").write_bytes(b"checked")
    with files.step():
        getattr(files, first)("table")
        assert files.read("table") == b"checked"
        assert files.sha256("table") == hashlib.sha256(b"checked").hexdigest()
        (tmp_path / "table").write_bytes(b"swapped")
        with pytest.raises(SealError, match="table was changed while it was read"):
            files.read("table")


def test_a_step_sees_what_it_wrote_itself_and_forgets_it_when_it_ends(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    with files.step():
        files.write("report.md", b"first")
        with files.step():
            assert files.read("report.md") == b"first"
            digest = files.write("report.md", b"second")
        (tmp_path / "report.md").write_bytes(b"third")
        assert files.read("report.md") == b"second"
        assert files.sha256("report.md") == digest == hashlib.sha256(b"second").hexdigest()
    assert files.read("report.md") == b"third"


def test_a_document_that_is_copied_with_another_field_has_another_digest(at: At) -> None:
    registry = at("registered").folder.document(Registry, "registry/0.json")
    other = registry.model_copy(update={"software": {}})
    assert registry.digest != other.digest == Registry.read(other.to_bytes(), "copy").digest
