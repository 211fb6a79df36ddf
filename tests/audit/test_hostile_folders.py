"""A folder from anybody: each odd file ends in exit 5 with its name, soon and in little memory."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, RELEASES, AuditFolder
from proxyguard.cli import show
from proxyguard.cli.main import main
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.errors import BrokenTable, RegistryError, SealError, TableError
from proxyguard.models.stored import load_model
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.target import TableReading
from proxyguard.seal import storage as inside
from proxyguard.seal.journal import NAME
from proxyguard.seal.ledger import Stage
from proxyguard.seal.sealed_file import SealedFile
from proxyguard.seal.storage import write_atomic
from proxyguard.tables import files

At = Callable[[str], Audit]
Value = dict[str, Any]
MEMORY = 4 * 2**30
SECONDS = 120


def limited() -> None:
    """Let a command have no more memory than a small machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def verified(audit: Audit) -> tuple[int, str]:
    """Verify as a stranger does, with bounds; return the code and all that was said."""
    ended = subprocess.run(
        [sys.executable, "-m", "proxyguard.cli.main", "verify", str(audit.folder.path)],
        capture_output=True, text=True, timeout=SECONDS, preexec_fn=limited, check=False,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def broken(audit: Audit, name: str) -> str:
    """See that the folder is found broken and the file named; return what was said of it."""
    found = audit.verify()
    lines = [f"{one.place}: {one.problem}" for one in found.findings]
    named = [line for line in lines if name in line]
    assert named, lines
    return "\n".join(named)


# What lies in the place of a file


def fifo(place: Path) -> None:
    os.mkfifo(place)


def folder(place: Path) -> None:
    place.mkdir()


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def link(place: Path) -> None:
    outside = place.parents[2] / f"{place.name}.outside"
    outside.write_bytes(CONTENT[place.name])
    place.symlink_to(outside)  # the very bytes, and yet nothing of this folder's


def listening(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(here)


CONTENT: dict[str, bytes] = {}
ODD = {
    "a FIFO": fifo,
    "a folder": folder,
    "a device": device,
    "a link": link,
    "a socket": listening,
}


@pytest.mark.parametrize("name", [NAME, EVIDENCE, CERTIFICATE, RELEASES, "target/0.sealed"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_plain_file_is_named_and_never_waited_for(at: At, kind: str, name: str) -> None:
    audit = at("certified")
    place = audit.folder / name
    CONTENT[place.name] = place.read_bytes()
    place.unlink()
    ODD[kind](place)
    said = broken(audit, name)
    assert any(word in said for word in ("a FIFO", "a folder", "a device", "a link", "a socket"))


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a link", "a socket"])
def test_an_odd_entry_that_nothing_vouches_for_is_found_too(at: At, kind: str) -> None:
    audit = at("sealed")
    CONTENT["notes"] = b"x"
    ODD[kind](audit.folder / "notes")
    assert "plain files alone" in broken(audit, "notes")


def test_a_folder_that_is_a_link_is_found(at: At) -> None:
    audit = at("certified")
    shutil.move(audit.folder / "store", audit.folder.path.parent / "store")
    (audit.folder / "store").symlink_to(audit.folder.path.parent / "store")
    assert "below a link" in broken(audit, "store/")


def test_a_command_line_says_the_same_with_exit_5(at: At) -> None:
    audit = at("certified")
    (audit.folder / EVIDENCE).unlink()
    os.mkfifo(audit.folder / EVIDENCE)
    code, said = verified(audit)
    assert code == show.Exit.BROKEN
    assert f"BAD  {EVIDENCE}: {EVIDENCE} is a FIFO" in said


def test_a_write_does_not_follow_a_link_that_lies_in_wait(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / "report.html.part").symlink_to(precious)
    with pytest.raises(SealError, match=r"report\.html could not be written"):
        write_atomic(tmp_path / "report.html", b"theirs")
    assert precious.read_bytes() == b"mine"


# What the author signed


@pytest.mark.parametrize("name", ["store", "draws"])
def test_nothing_is_drawn_into_a_folder_that_leads_out(at: At, tmp_path: Path, name: str) -> None:
    audit = at("registered")
    outside = tmp_path / "outside"
    place = audit.folder / name
    shutil.move(place, outside) if place.exists() else outside.mkdir()
    before = sorted(outside.rglob("*"))
    place.symlink_to(outside)
    with pytest.raises(SealError, match=f"{name} is a link"):
        audit.draw()
    assert sorted(outside.rglob("*")) == before
    assert not audit.journal().ledger.has(Stage.DRAWN)


@pytest.mark.parametrize("name", ["store", "registry"])
def test_no_write_follows_a_folder_that_became_a_link(tmp_path: Path, name: str) -> None:
    """A step may run for hours after the folder was looked at."""
    outside, folder = tmp_path / "outside", AuditFolder(tmp_path / "audit")
    outside.mkdir()
    folder.path.mkdir()
    (folder / name).symlink_to(outside)
    writes: list[Callable[[], object]] = [
        lambda: folder.write(f"{name}/0.toml", b"text"),
        lambda: folder.write(f"{name}/below/0.json", canonical_bytes({})),
        lambda: folder.store.put(b"object"),
    ]
    for write in writes if name == "store" else writes[:2]:
        with pytest.raises(SealError, match="below a link"):
            write()
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../outside", "store/../../outside", "a//b", "", "x\0y", "./x", "x" * 300],
)
def test_a_ledger_vouches_for_nothing_outside_its_folder(at: At, forge: Any, name: str) -> None:
    audit = at("drawn")
    digest = hashlib.sha256(Path("/etc/passwd").read_bytes()).hexdigest()
    forge.rewrite(audit, drawn=lambda body: body["files"].update({name: digest}))
    assert "is no name of a file" in broken(audit, "files")


@pytest.mark.parametrize("listed", [[], "x", {"audit.toml": 7}, {"audit.toml": "ab"}, None])
def test_a_ledger_lists_its_files_by_digest(at: At, forge: Any, listed: object) -> None:
    audit = at("drawn")
    forge.rewrite(audit, drawn=lambda body: body.update(files=listed))
    assert "(drawn): files" in broken(audit, "ledger")


@pytest.mark.parametrize(
    "address",
    ["../../../../../../etc/passwd", "/etc/passwd", "ab", "A" * 64, 7, ["x"], "é" * 64],
)
def test_an_address_is_a_digest_and_no_path(at: At, forge: Any, address: object) -> None:
    audit = at("drawn")
    forge.manifest(audit, lambda m: forge.draws_of(m)[0].update(release=address))
    assert "bootstrap.draws.0.release: " in broken(audit, "releases")


@pytest.mark.parametrize(
    "malform",
    [
        lambda m: m.update(members=[]),
        lambda m: m.update(members=None),
        lambda m: m.pop("members"),
        lambda m: m["members"].update(target=[1]),
        lambda m: m["members"]["target"].update(bootstrap=None),
        lambda m: m["members"]["target"]["bootstrap"].update(draws={"a": 1}),
        lambda m: m["members"]["target"]["bootstrap"].update(draws=[1, 2]),
        lambda m: m.update(sources=[1]),
    ],
)
def test_a_malformed_manifest_is_named(at: At, forge: Any, malform: Any) -> None:
    audit = at("drawn")
    forge.manifest(audit, malform)
    broken(audit, RELEASES)


DOCUMENTS = {
    "deep": b"[" * 50_000 + b"]" * 50_000,
    "deep within": b'{"format":1,"x":' + b"[" * 600 + b"]" * 600 + b"}",
    "a number of 9000 digits": b'{"format":1,"x":' + b"9" * 9000 + b"}",
    "no number": b'{"format":1,"x":NaN}',
    "too large a number": b'{"format":1,"x":1e999}',
    "half a letter": b'{"format":1,"x":"\\ud800"}',
    "bytes": b"\xff\xfe\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_json_that_no_audit_writes_is_named(at: At, forge: Any, document: bytes) -> None:
    audit = at("drawn")
    (audit.folder / RELEASES).write_bytes(document)
    digest = audit.folder.sha256(RELEASES)
    forge.rewrite(audit, drawn=lambda body: body.update(releases=digest))
    broken(audit, RELEASES)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_ledger_line_that_no_audit_writes_is_named(at: At, document: bytes) -> None:
    audit = at("sealed")
    with open(audit.folder / NAME, "ab") as file:
        file.write(document + b"\n")
    broken(audit, NAME)


def test_a_deep_declaration_is_no_declaration() -> None:
    with pytest.raises(RegistryError, match="no TOML"):
        read_declaration("x = " + "[" * 5_000 + "]" * 5_000)
    with pytest.raises(RegistryError, match="no TOML"):
        read_declaration("format = " + "9" * 9_000)


def test_a_sealed_target_is_found_by_its_number_alone(at: At, forge: Any) -> None:
    audit = at("registered")
    lie = {"index": "../../../../etc/passwd"}
    forge.rewrite(audit, sealed=lambda body: body["members"]["target"].update(lie))
    with pytest.raises(SealError, match=r"\(sealed\): members\.target\.index: "):
        audit.journal()
    assert not audit.verify().good


@pytest.mark.parametrize(
    "command", ["verify", "status", "log", "report", "grant", "check", "register"]
)
def test_a_seal_that_says_nothing_ends_every_command_alike(
    at: At,
    forge: Any,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit = at("sealed")
    author = forge.author(audit)
    forge.write_chain(audit, [(Stage.SEALED, {"author": author.identity})], author)
    given = {"grant": ["--key", str(audit.home.signing_path)]}.get(command, [])
    if command in ("grant", "check", "register"):
        given += ["--home", str(audit.home.root)]
    monkeypatch.setattr(sys, "argv", ["proxyguard", command, str(audit.folder.path), *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5
    said = "".join(capsys.readouterr())
    assert "entry 0 of the ledger (sealed): " in said
    assert "audit: is missing" in said


def test_a_sealed_file_of_no_shape_is_found_before_anything_is_registered(
    at: At, forge: Any
) -> None:
    audit = at("sealed")
    forge.rewrite(audit, sealed=lambda body: body["members"]["target"].update(records=7))
    assert "7 records are recorded, the sealed file has 300" in broken(audit, "target")


def test_a_header_cannot_keep_anybody_counting_chunks(at: At, tmp_path: Path) -> None:
    audit = at("sealed")
    line, rest = (audit.folder / "target/0.sealed").read_bytes().split(b"\n", 1)
    header = json.loads(line)
    header.update(rows=2**24, chunks=2**12 + 1)  # the most that there can be
    place = tmp_path / "0.sealed"
    place.write_bytes(canonical_bytes(header) + b"\n" + rest)
    with pytest.raises(SealError, match="does not end with its last chunk"):
        SealedFile(place).check_shape()


# Sizes


@pytest.mark.parametrize(("name", "size"), [(NAME, 2**30), (EVIDENCE, 2**40), (CERTIFICATE, 2**34)])
def test_a_file_larger_than_an_audit_writes_is_not_read(at: At, name: str, size: int) -> None:
    audit = at("certified")
    os.truncate(audit.folder / name, size)  # of zeros that take no room on the disk
    assert "expected at most" in broken(audit, name)


def test_a_folder_with_too_many_files_is_no_audit(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = at("sealed")
    for number in range(40):
        (audit.folder / f"note {number}").write_bytes(b"")
    monkeypatch.setattr(inside, "FILES", 30)
    assert "more than 30 files" in broken(audit, "files")


def test_a_document_of_too_many_values_is_not_made(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = at("drawn")
    monkeypatch.setattr("proxyguard.documents.document.VALUES", 100)
    assert "more than 100 values" in broken(audit, RELEASES)


def test_a_ledger_of_thousands_of_entries_is_read_soon(at: At, forge: Any) -> None:
    audit = at("sealed")
    chain = forge.steps(audit)
    note = next(body for stage, body in forge.steps(at("registered")) if stage.value == "developed")
    stage = next(stage for stage in type(chain[0][0]) if stage.value == "developed")
    forge.write_chain(
        audit, [*chain, *[(stage, {**note, "files": {}})] * 3_000], forge.author(audit)
    )
    assert len(audit.journal().ledger.entries) == 3_001


def bomb(rows: int) -> bytes:
    """Return a Parquet file of very many equal records, in less than a megabyte."""
    sink = io.BytesIO()
    part = pa.table({"first": pa.array(np.zeros(4_000_000))})
    with pq.ParquetWriter(sink, part.schema, compression="zstd") as writer:
        for _ in range(rows // part.num_rows):
            writer.write_table(part, row_group_size=part.num_rows)
    return sink.getvalue()


def test_eighty_million_rows_in_a_megabyte_are_refused_before_they_are_made(
    at: At, forge: Any
) -> None:
    audit = at("drawn")
    content = bomb(80_000_000)
    assert len(content) < 2**20
    address = audit.folder.store.put(content)
    forge.manifest(audit, lambda m: forge.draws_of(m)[0].update(release=address, rows=2**24))
    code, said = verified(audit)
    assert code == show.Exit.BROKEN
    assert address in said
    assert "80,000,000 cells" in said


def test_a_table_that_nobody_could_read_back_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = files.to_frame(pa.table({"a": [1.0] * 11}))
    content = files.table_bytes(frame)
    monkeypatch.setattr(files, "CELLS", 10)
    with pytest.raises(TableError, match="11 cells"):
        files.table_bytes(frame)
    with pytest.raises(BrokenTable, match="11 cells"):
        files.read_table_bytes(content, "x")


def test_one_long_text_in_every_record_is_held_once() -> None:
    sink = io.BytesIO()
    text = "x" * 1_000_000
    column = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), [text])
    pq.write_table(pa.table({"t": column}), sink, store_schema=False)
    frame = files.read_table_bytes(sink.getvalue(), "x")  # 100 GB, were it written out
    assert frame["t"].iloc[-1] == text


def test_lists_within_a_table_are_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [[0] * 1000] * 10}), sink)
    with pytest.raises(BrokenTable, match="column 'a' holds lists"):
        files.read_table_bytes(sink.getvalue(), "x")


def test_packed_text_is_unpacked_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip

    place = tmp_path / "table.csv.gz"
    place.write_bytes(gzip.compress(b"a\n" + b"1\n" * 100_000))
    monkeypatch.setattr(files, "TEXT", 1000)
    with pytest.raises(TableError, match=r"table\.csv\.gz has more than 1,000 bytes"):
        files.RawTable(place, TableReading())


def test_a_stored_model_is_measured_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxyguard.models.stored.UNPACKED", 10_000)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )

    def archive(name: str, content: bytes) -> bytes:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr(name, content)
        return sink.getvalue()

    sparse = archive("data.npy", bytes(20_000))  # as a sparse matrix is stored
    assert len(sparse) < 1000
    for content, words in (
        (archive("0.npy", header.getvalue()), "longer than its file"),
        (archive("0.bin", header.getvalue()), "longer than its file"),
        (archive("0.npy", bytes(10_001)), "unpacks to"),
        (archive("0.npz", sparse), "unpacks to"),
        (archive("0.npz", archive("data.npy", header.getvalue())), "longer than its file"),
        (archive("0.npz", archive("a.npz", archive("b", b""))), "an archive within another"),
    ):
        with pytest.raises(SealError, match=words):
            load_model(content, "a model")
    monkeypatch.setattr("proxyguard.models.npy.VALUES", 1000)
    with pytest.raises(SealError, match="more than 1,000 values"):
        load_model(archive("schema.json", b"[" + b"[]," * 1000 + b"1]"), "a model")


# Want of memory, of handles or of rights is ours


class NoMemory:
    """Stands for a file that pyarrow has no room for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise pa.ArrowMemoryError("malloc of size 8589934592 failed")


def test_want_of_memory_is_never_a_broken_record(
    at: At, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from proxyguard.cli import main

    audit = at("certified")
    monkeypatch.setattr(pq, "ParquetFile", NoMemory)
    monkeypatch.setattr(pq, "read_table", NoMemory)
    monkeypatch.setattr(sys, "argv", ["proxyguard", "verify", str(audit.folder.path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    assert ended.value.code == show.Exit.ERROR
    assert "too little memory" in said.err
    assert "does not hold" not in said.out


def test_want_of_handles_is_never_a_broken_record(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    audit = at("certified")
    monkeypatch.setattr("proxyguard.seal.storage.FolderFiles.sha256", full)
    with pytest.raises(OSError, match="Too many open files"):
        audit.verify()


def test_every_file_of_a_folder_is_opened_by_one_function() -> None:
    import proxyguard

    root = Path(proxyguard.__file__).parent
    reading = ("read_bytes(", "read_text(", " open(", ".exists()")
    allowed = {  # what lies outside every folder, or is only written
        "home.py", "loss_file.py", "audit.py", "draw.py",
        "apart.py", "demo.py", "__init__.py",
    }  # fmt: skip
    odd = [
        f"{path.name}: {line.strip()}"
        for path in sorted((root / "audit").glob("*.py"))
        if path.name not in allowed
        for line in path.read_text().splitlines()
        if any(word in line for word in reading)
        and "def " not in line
        and 'files("proxyguard.' not in line  # of this package itself
    ]
    assert odd == []
