"""A sealed file opens for its holder alone, and no change of it goes unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.errors import DigestMismatch, KeyMissing, SealError
from proxyguard.seal import crypto, sealed_file
from proxyguard.seal.crypto import (
    Holder,
    KeyFile,
    Passphrase,
    Person,
    Recipient,
    ScryptCost,
    decrypt,
    encrypt,
    unwrap_any,
)
from proxyguard.seal.sealed_file import FORMAT, SealedFile, SealedTable, seal_table

DATA_KEY = bytes(range(100, 132))
HOLDER = KeyFile(bytes(range(32)))
TABLE = pa.table({"x": ["1", "2", "3"], "y": ["a", "b", "c"]})


def person(number: int) -> Person:
    return Person(X25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def public(one: Person) -> str:
    return one.private.public_key().public_bytes_raw().hex()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretch words less: how long it takes is not what these tests are about."""
    monkeypatch.setattr(crypto, "SCRYPT", ScryptCost(n=2**4, r=8, p=1))


HOLDERS: list[tuple[Callable[[], Holder], Callable[[], Holder]]] = [
    (lambda: HOLDER, lambda: KeyFile(bytes(32))),
    (lambda: Passphrase("four words of mine"), lambda: Passphrase("four words of yours")),
    (lambda: person(1), lambda: person(2)),
]
KINDS = ["key", "passphrase", "person"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("own", "other"), HOLDERS, ids=KINDS)
def test_what_was_wrapped_opens_for_its_holder_and_not_for_another_of_the_kind(
    own: Callable[[], Holder], other: Callable[[], Holder]
) -> None:
    wrapped = own().wrap(DATA_KEY)
    assert own().unwrap(wrapped) == DATA_KEY
    assert other().unwrap(wrapped) is None
    assert DATA_KEY.hex() not in wrapped.to_bytes().decode()
    # Nonce, salt and one-time key are fresh: nothing of two wraps can be compared.
    again = own().wrap(DATA_KEY)
    assert again.wrapped != wrapped.wrapped
    assert again.nonce != wrapped.nonce


@pytest.mark.usefixtures("quick")
def test_no_kind_of_holder_opens_what_was_wrapped_for_another_kind() -> None:
    for i, (own, _) in enumerate(HOLDERS):
        wrapped = own().wrap(DATA_KEY)
        assert wrapped.kind == KINDS[i]
        for j, (other, _) in enumerate(HOLDERS):
            assert other().unwrap(wrapped) == (DATA_KEY if i == j else None)


@pytest.mark.usefixtures("quick")
def test_the_right_one_of_several_holders_is_found_and_a_wrong_one_is_told_whom_it_was_for() -> (
    None
):
    own = [make() for make, _ in HOLDERS]
    wraps = [holder.wrap(DATA_KEY) for holder in own]
    for holder in own:
        assert unwrap_any(wraps, holder) == DATA_KEY
    for _, other in HOLDERS:
        with pytest.raises(KeyMissing, match=r"another holder \(key, passphrase, person\)"):
            unwrap_any(wraps, other())


def test_the_words_are_stretched_as_declared() -> None:
    # RFC 7914 asks for N as a power of two; 2**15 with r = 8 takes 32 MiB a guess.
    wrapped = Passphrase("words").wrap(DATA_KEY)
    assert (wrapped.n, wrapped.r, wrapped.p) == (2**15, 8, 1)
    assert Passphrase("words").unwrap(wrapped) == DATA_KEY
    assert (
        Passphrase("words").unwrap(wrapped.model_copy(update={"n": 2})) is None
    )  # weaker than we ever wrap


def test_a_public_key_wraps_for_its_person_and_opens_nothing() -> None:
    anna = person(1)
    recipient = Recipient(public(anna))
    wrapped = recipient.wrap(DATA_KEY)
    assert anna.unwrap(wrapped) == DATA_KEY
    assert recipient.unwrap(wrapped) is None
    with pytest.raises(KeyMissing, match=r"\(person\)"):
        unwrap_any([wrapped], recipient)
    # Named as its recipient, another person still lacks the private key.
    berta = person(2)
    assert berta.unwrap(wrapped.model_copy(update={"public": public(berta)})) is None


@pytest.mark.parametrize("text", ["zz", "00" * 31, "", "ü" * 64])
def test_what_is_no_public_key_is_refused_by_name(text: str) -> None:
    with pytest.raises(SealError, match=r"is no X25519 public key"):
        Recipient(text).wrap(DATA_KEY)


def test_a_changed_wrap_opens_for_nobody() -> None:
    wrapped = HOLDER.wrap(DATA_KEY)
    for field in ("nonce", "wrapped"):
        honest = bytes.fromhex(getattr(wrapped, field))
        for place in range(len(honest)):
            changed = bytearray(honest)
            changed[place] ^= 1
            assert HOLDER.unwrap(wrapped.model_copy(update={field: changed.hex()})) is None


@given(st.binary(max_size=64), st.integers(0, 2**20))
def test_a_chunk_decrypts_to_itself_at_its_own_number_only(plain: bytes, index: int) -> None:
    cipher = encrypt(DATA_KEY, index, plain, b"about")
    assert decrypt(DATA_KEY, index, cipher, b"about", "target") == plain
    for key, number, about in (
        (DATA_KEY[::-1], index, b"about"),
        (DATA_KEY, index + 1, b"about"),
        (DATA_KEY, index, b"another header"),
    ):
        with pytest.raises(SealError, match="target does not decrypt"):
            decrypt(key, number, cipher, about, "target")


def sealed_at(folder: Path, table: pa.Table = TABLE, *, rows: int = 2) -> tuple[Path, SealedTable]:
    sealed = seal_table(table, [HOLDER], rows=rows)
    path = folder / "target.sealed"
    path.write_bytes(sealed.content)
    return path, sealed


def read_all(path: Path, commitment: str) -> pa.Table:
    """Read a sealed file as an opened audit does."""
    file = SealedFile(path)
    key = file.unwrap(HOLDER)
    file.check(key, commitment)
    return pa.concat_tables(list(file.tables(key)))


def parts(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return the header line, and the chunks with their four bytes of length."""
    end = content.index(b"\n") + 1
    header, chunks = content[:end], []
    while end < len(content):
        size = 4 + int.from_bytes(content[end : end + 4], "big")
        chunks.append(content[end : end + size])
        end += size
    return header, chunks


@pytest.mark.parametrize("rows", [1, 2, 3, 4096])
def test_a_sealed_table_comes_back_in_its_order_chunk_by_chunk(tmp_path: Path, rows: int) -> None:
    path, sealed = sealed_at(tmp_path, rows=rows)
    file = SealedFile(path)
    assert file.rows == 3
    assert file.unwrap(HOLDER) == sealed.key
    assert file.salt(sealed.key) == sealed.salt
    tables = list(file.tables(sealed.key))
    assert [table.num_rows for table in tables] == [min(rows, 3 - i) for i in range(0, 3, rows)]
    assert read_all(path, sealed.commitment).equals(TABLE)


def test_a_table_without_records_is_sealed_too(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path, TABLE.slice(0, 0))
    file = SealedFile(path)
    file.check(sealed.key, sealed.commitment)
    assert (file.rows, list(file.tables(sealed.key))) == (0, [])


def test_nothing_of_a_record_can_be_read_without_the_key(tmp_path: Path) -> None:
    secret = "a value that must not be seen"
    path, sealed = sealed_at(tmp_path, pa.table({"x": [secret]}))
    assert secret.encode() not in sealed.content
    assert sealed.key.hex().encode() not in sealed.content
    assert sealed.salt not in sealed.content
    with pytest.raises(KeyMissing):
        SealedFile(path).unwrap(KeyFile(bytes(32)))
    with pytest.raises(SealError, match=r"target\.sealed does not decrypt"):
        SealedFile(path).salt(bytes(32))


def test_the_commitment_is_the_digest_of_the_digests_of_salt_and_chunks(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    _, chunks = parts(path.read_bytes())
    about = hashlib.sha256(path.read_bytes().split(b"\n")[0]).digest()
    plain = [decrypt(sealed.key, i, chunk[4:], about, "") for i, chunk in enumerate(chunks)]
    assert plain[0] == sealed.salt
    total = b"".join(hashlib.sha256(chunk).digest() for chunk in plain)
    assert sealed.commitment == hashlib.sha256(total).hexdigest()


def test_one_table_sealed_twice_has_two_commitments_and_no_byte_alike_but_the_header() -> None:
    one, other = seal_table(TABLE, [HOLDER]), seal_table(TABLE, [HOLDER])
    assert one.salt != other.salt
    assert one.key != other.key
    assert one.commitment != other.commitment
    for mine, theirs in zip(parts(one.content)[1], parts(other.content)[1], strict=True):
        assert mine[4:] != theirs[4:]


def test_another_table_than_the_one_committed_to_is_a_mismatch(tmp_path: Path) -> None:
    _, committed = sealed_at(tmp_path)
    path, _ = sealed_at(tmp_path)
    with pytest.raises(DigestMismatch, match=r"target\.sealed was sealed with digest"):
        read_all(path, committed.commitment)


def test_every_flipped_byte_of_a_ciphertext_is_noticed(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    header, chunks = parts(sealed.content)
    place = len(header)
    for chunk in chunks:
        for inside in range(4, len(chunk)):
            changed = bytearray(sealed.content)
            changed[place + inside] ^= 1
            path.write_bytes(changed)
            with pytest.raises(SealError, match="does not decrypt"):
                read_all(path, sealed.commitment)
        place += len(chunk)


def test_a_header_with_any_byte_flipped_opens_no_record(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    header, _ = parts(sealed.content)
    for place in range(len(header)):
        changed = bytearray(sealed.content)
        changed[place] ^= 1
        path.write_bytes(changed)
        # With the data key itself, whatever became of its wraps.
        with pytest.raises((SealError, KeyError)):
            list(SealedFile(path).tables(sealed.key))


def test_a_changed_number_of_records_or_holder_in_the_header_is_noticed(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    header, chunks = parts(sealed.content)
    fields = SealedFile(path).header.to_dict()
    edits: list[dict[str, Any]] = [{"rows": 4}, {"chunks": 2}, {"wraps": [], "more": 1}]
    for edit in edits:
        line = canonical_bytes({**fields, **edit}) + b"\n"
        assert line != header
        path.write_bytes(line + b"".join(chunks))
        with pytest.raises(SealError, match=r"does not decrypt|more: is nothing that"):
            list(SealedFile(path).tables(sealed.key))


def test_chunks_in_another_order_are_noticed(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path, rows=1)
    header, chunks = parts(sealed.content)
    assert len(chunks) == 4
    for i, j in pairwise(range(4)):
        swapped = list(chunks)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        path.write_bytes(header + b"".join(swapped))
        with pytest.raises(SealError, match="does not decrypt"):
            read_all(path, sealed.commitment)


def test_a_chunk_of_another_sealed_file_of_the_same_key_is_noticed(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    header, chunks = parts(sealed.content)
    about = hashlib.sha256(b"another header").digest()
    foreign = encrypt(sealed.key, 1, b"records of another file", about)
    chunks[1] = len(foreign).to_bytes(4, "big") + foreign
    path.write_bytes(header + b"".join(chunks))
    with pytest.raises(SealError, match="does not decrypt"):
        read_all(path, sealed.commitment)


def test_a_file_cut_short_anywhere_is_noticed(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    for size in range(len(sealed.content)):
        path.write_bytes(sealed.content[:size])
        with pytest.raises(SealError):
            read_all(path, sealed.commitment)


@pytest.mark.parametrize("more", [b"\x00", b"\n", b"\x00\x00\x00\x00"])
def test_a_byte_after_the_last_chunk_is_noticed(tmp_path: Path, more: bytes) -> None:
    path, sealed = sealed_at(tmp_path)
    path.write_bytes(sealed.content + more)
    with pytest.raises(SealError, match="goes on after its last chunk"):
        read_all(path, sealed.commitment)


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    _, chunks = parts(sealed.content)
    newer = canonical_bytes({**SealedFile(path).header.to_dict(), "format": FORMAT + 1})
    path.write_bytes(newer + b"\n" + b"".join(chunks))
    with pytest.raises(SealError, match=f"format {FORMAT + 1}; this version reads {FORMAT}"):
        SealedFile(path)


@pytest.mark.parametrize("content", [b"", b"no header\n", b"{\n", b"\xff\xfe\n", b"{}\n"])
def test_a_file_that_is_no_sealed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "target.sealed"
    path.write_bytes(content)
    with pytest.raises(SealError, match=r"target\.sealed"):
        SealedFile(path)


def test_a_header_in_another_form_of_the_same_value_was_edited(tmp_path: Path) -> None:
    path, sealed = sealed_at(tmp_path)
    path.write_bytes(sealed.content.replace(b'{"chunks":', b'{ "chunks":', 1))
    with pytest.raises(SealError, match="not in canonical form"):
        SealedFile(path)


def test_a_missing_sealed_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SealError, match=r"target\.sealed is missing"):
        SealedFile(tmp_path / "target.sealed")


def batch_bytes(table: pa.Table, **options: Any) -> bytes:
    """Return a table as one stream of Arrow messages."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def twice_the_same_bytes() -> bytes:
    """Return a batch of two columns that both lie where the first one does."""
    honest = batch_bytes(pa.table({"x": np.arange(1000.0), "y": np.arange(1000.0)}))
    shared = honest.replace(
        # Buffers of a batch are pairs (offset, length); the second column begins at 8000.
        (8000).to_bytes(8, "little") + (8000).to_bytes(8, "little"),
        (0).to_bytes(8, "little") + (8000).to_bytes(8, "little"),
    )
    assert shared != honest
    body = np.arange(1000.0).tobytes()
    short = shared.replace(body + body, body)
    # The length of the body, in the batch's message.
    return short.replace((16000).to_bytes(8, "little"), (8000).to_bytes(8, "little"))


ZEROS = pa.table({"x": pa.array(np.zeros(1_000_000))})
BOMBS: dict[str, tuple[bytes, int, str]] = {
    "compressed": (batch_bytes(ZEROS, compression="zstd"), 1_000_000, "is compressed"),
    "dictionary": (
        batch_bytes(pa.table({"x": pa.array(["long" * 99] * 9).dictionary_encode()})),
        9,
        "one plain batch",
    ),
    "runs": (
        batch_bytes(pa.table({"x": pa.RunEndEncodedArray.from_arrays([4096], pa.array([1.0]))})),
        4096,
        "neither numbers nor text",
    ),
    "nulls": (batch_bytes(pa.table({"x": pa.nulls(4096)})), 4096, "neither numbers nor text"),
    "too many records": (batch_bytes(ZEROS.slice(0, 4097)), 4097, "at most 4,096"),
    "shared bytes": (twice_the_same_bytes(), 1000, "no more than its own"),
    "more than the header says": (batch_bytes(TABLE), 2, "promises 2 records"),
    "fewer than the header says": (batch_bytes(TABLE), 4, "promises 4 records"),
    "no stream": (b"what an author likes", 3, "holds no records|one plain batch"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_chunk_that_its_author_made_to_grow_is_refused_before_it_is_unpacked(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk, rows, words = BOMBS[name]
    monkeypatch.setattr(sealed_file, "_chunks", lambda table, rows: iter([chunk]))
    header = ZEROS.slice(0, rows)
    path, sealed = sealed_at(tmp_path, header, rows=max(1, rows))
    file = SealedFile(path)
    file.check(sealed.key, sealed.commitment)  # its author commits to what they like
    before = pa.total_allocated_bytes()
    with pytest.raises(SealError, match=words):
        list(file.tables(sealed.key))
    assert pa.total_allocated_bytes() - before < 2**20


@pytest.mark.parametrize("rows", ["3", -1, True, None, [3]])
def test_a_header_that_counts_no_records_is_refused(tmp_path: Path, rows: object) -> None:
    path, _ = sealed_at(tmp_path)
    _, chunks = parts(path.read_bytes())
    fields = {**SealedFile(path).header.to_dict(), "rows": rows}
    path.write_bytes(canonical_bytes(fields) + b"\n" + b"".join(chunks))
    with pytest.raises(SealError, match=r"target\.sealed: rows: "):
        SealedFile(path)


def test_a_file_of_more_records_than_a_target_has_is_read_where_that_was_asked_for(
    tmp_path: Path,
) -> None:
    table = pa.table({"position": np.zeros(2**24 + 1, dtype=np.int8)})
    path = tmp_path / "records.sealed"
    path.write_bytes(seal_table(table, [HOLDER]).content)
    with pytest.raises(SealError, match=r"16,777,217 records; at most 16,777,216"):
        SealedFile(path)
    file = SealedFile(path, most=None)
    file.check_shape()
    assert file.rows == table.num_rows
