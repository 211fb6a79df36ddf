"""What every document has in common: one form, one way in, one way out.

A document is read by `Document.read` and written by `Document.to_bytes`, and nowhere else. What
is not exactly in its form, to the last byte, is a `DocumentError` that names the file and the
path of the field: a verifier reports it as a finding, and whatever fails after that is a fault
of this package and not of the folder.

Rules
 * a key that is not known is refused, never ignored: in a record that is signed, a key of no
   meaning is a place to hide something in, or to try words in until a digest suits
 * a field without a default is always written, if only as ``null``
 * a field with a default is left out where it has that default, so that one value has one form
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from json import loads
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from proxyguard.documents.canonical import canonical_bytes, digest, is_written, read_plainly
from proxyguard.errors import DocumentError, SealError
from proxyguard.registry.fields import FORMAT as FORMAT
from proxyguard.registry.fields import DescribedModel
from proxyguard.registry.fields import Format as Format
from proxyguard.registry.numbers import MOST_RECORDS

# Values of a document: a file of brackets takes twenty times its size in memory.
VALUES = 20_000_000
# Problems of one document that an error names.
SHOWN = 3


def _number(text: str) -> str:
    try:
        float(text)
    except ValueError:
        raise ValueError("expected a number written as text") from None
    return text


# A SHA-256, in hexadecimal digits.
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# An Ed25519 or X25519 public key, in hexadecimal digits.
PublicKey = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# A person: the public key that they sign with, and then the one that they read with.
Identity = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]
# Bytes, in hexadecimal digits.
Hex = Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]
# A number of records, draws or files, no greater than there can be.
Amount = Annotated[int, Field(ge=0, le=MOST_RECORDS)]
# A whole number that counts nothing, such as a seed.
Whole = Annotated[int, Field(ge=0)]
# A number as text, so that it is sealed as it was written.
NumberText = Annotated[str, AfterValidator(_number)]
# A number with one decimal, as text.
OneDecimal = Annotated[str, Field(pattern=r"^([0-9]+\.[0-9]|inf|nan)$")]
# Files of the audit's folder by name, with the digest of their bytes.
Files = dict[str, Digest]


class Document(DescribedModel):
    """A document of an audit, or a part of one: frozen, strict, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    @classmethod
    def read(cls, source: bytes | Path, name: str = "", *, known: str | None = None) -> Self:
        """Return the document that bytes, or a file, hold.

        Parameters
        ----------
        source
            The bytes of a document, or the path of one. What comes from a stranger's folder is
            read by `AuditFolder`, which opens plain files only, and passed on as bytes.
        name
            What errors call it; of a path, the file's name if nothing is given.
        known
            The digest of the bytes, where the caller has computed it: being canonical, they
            have the document's own.

        Raises
        ------
        DocumentError
            Where a field is missing, unknown, of another type or beyond its range, or the bytes
            are not the canonical ones.
        """
        if isinstance(source, Path):
            name, source = name or source.name, source.read_bytes()
        document = cls._held(parse_canonical(source, name), source, name)
        if known is not None:
            document.__dict__["digest"] = known  # where `cached_property` keeps it
        return document

    @classmethod
    def of(cls, plain: object, name: str) -> Self:
        """Return the document that plain values, as JSON has them, stand for.

        Raises
        ------
        DocumentError
            Naming the first fields that are not what they have to be.
        """
        return cls._held(plain, canonical_bytes(plain), name)

    @classmethod
    def _held(cls, plain: object, content: bytes, name: str) -> Self:
        """Return the document of plain values, of which these are the canonical bytes."""
        kind = cls._kind(plain)
        # Through bytes: pydantic reads JSON by JSON's own types, and Python's by looser rules.
        try:
            document = kind.model_validate_json(content)
        except ValidationError as error:
            raise _refusal(error, plain, name) from None
        # A default that is spelt out reads alike, and would give one document two digests.
        if not is_written(document.to_dict(), content):
            raise DocumentError(
                name, "", "spells out what is left out where it is so; it was edited"
            )
        return document

    @classmethod
    def _kind(cls, plain: object) -> type[Self]:
        """Return which subclass plain values are of; a document with several forms says here."""
        return cls

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        return self.model_dump(mode="json", by_alias=True)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes (RFC 8785): what is written, digested and signed."""
        return canonical_bytes(self.to_dict())

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical bytes."""
        return digest(self.to_dict())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other fields, which has a digest of its own."""
        copy = super().model_copy(update=update, deep=deep)
        # Pydantic copies what is remembered too, and a changed document has another digest.
        copy.__dict__.pop("digest", None)
        return copy

    @model_serializer(mode="wrap")
    def _leave_out_defaults(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = written(self)
        for name, key, default in _defaults(type(self)):
            if getattr(self, name) == default:
                values.pop(key)
        return values


@cache  # asked for each part of each document that is read or written
def _defaults(kind: type[Document]) -> list[tuple[str, str, object]]:
    """Return the fields of a class that have a default: name, key in a document, default."""
    return [
        (name, field.alias or name, field.get_default(call_default_factory=True))
        for name, field in kind.model_fields.items()
        if not field.is_required()
    ]


def parse_canonical(content: bytes, name: str) -> Any:
    """Return the value of a JSON document, which must be in canonical form.

    Parameters
    ----------
    content
        The bytes, which may come from anybody.
    name
        What errors call them.

    Raises
    ------
    SealError
        If they are no JSON, are spelt in another way than we write it, or hold more values or
        deeper ones than a document of an audit.
    """
    # Counted before they are parsed: two bytes can be a list, which takes 56 in memory.
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > VALUES:
        raise SealError(f"{name} has more than {VALUES:,} values; no document of an audit has")
    with suppress(ValueError, RecursionError):  # said below in our own words
        return read_plainly(content)
    try:
        plain = loads(content)
        again = canonical_bytes(plain)
    except RecursionError:
        raise SealError(f"{name} is nested deeper than a document of ours; it was edited") from None
    except ValueError:  # which a text that is no UTF-8 raises too
        raise SealError(f"{name} is no JSON; it was edited") from None
    except SealError as error:
        raise SealError(f"{name}: {error}") from error
    # JSON readers take the last of two equal keys, or the first: only one spelling says one thing.
    if again != content:
        raise SealError(f"{name} is not in canonical form; it was edited")
    return plain


def _refusal(error: ValidationError, plain: object, name: str) -> DocumentError:
    """Return the error that says which fields are not what they have to be."""
    problems = error.errors(include_url=False)
    described = [(_path(problem["loc"], plain), _words(problem)) for problem in problems]
    first, words = described[0]
    more = [f"{path}: {said}" for path, said in described[1:SHOWN]]
    if len(described) > SHOWN:
        more.append(f"and {len(described) - SHOWN} more")
    return DocumentError(name, first, "; ".join([words, *more]))


def _words(problem: Mapping[str, Any]) -> str:
    """Return what is wrong with one field; of what stands there no more than a line is shown."""
    kind, given = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return "is nothing that this document says; it was edited"
    if kind == "literal_error" and problem["loc"][-1] == "format":
        return f"has format {given!r}; this version reads {problem['ctx']['expected']}"
    if kind == "missing":
        return "is missing; whoever wrote the document left it out"
    said = str(problem["msg"]).removeprefix("Value error, ")
    scalar = given is None or isinstance(given, str | int | float | bool)
    return f"{said[:1].lower()}{said[1:]}" + (f", found {str(given)[:80]!r}" if scalar else "")


def _path(location: tuple[int | str, ...], plain: object) -> str:
    """Return where in a document a problem is; the names of alternatives are left out of it."""
    path: list[str] = []
    for depth, step in enumerate(location):
        inside = isinstance(plain, dict) and step in plain
        inside |= isinstance(plain, list) and isinstance(step, int) and step < len(plain)
        missing = isinstance(plain, dict) and depth == len(location) - 1
        if inside or missing:
            path.append(str(step)[:80])
        if inside:
            plain = plain[step]  # type: ignore[index]  # by the line above
    return ".".join(path)
