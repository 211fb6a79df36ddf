"""Who may read the target: the header of the sealed file, and the steward's grant."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from proxyguard.documents.document import Count, Digest, Document, Format, Hex, Identity, PublicKey

NONCE = "Nonce of the encryption of the key."
WRAPPED = "The target's key, encrypted for its holder."


class KeyFileWrap(Document):
    """The target's key, wrapped under a secret in a file."""

    kind: Literal["key"] = Field(description="That its holder has a key file.")
    nonce: Hex = Field(description=NONCE)
    wrapped: Hex = Field(description=WRAPPED)


class PassphraseWrap(Document):
    """The target's key, wrapped under stretched words."""

    kind: Literal["passphrase"] = Field(description="That its holder remembers words.")
    salt: Hex = Field(description="Salt of scrypt.")
    n: Count = Field(description="Cost of scrypt.")
    r: Count = Field(description="Block size of scrypt.")
    p: Count = Field(description="Parallelism of scrypt.")
    nonce: Hex = Field(description=NONCE)
    wrapped: Hex = Field(description=WRAPPED)


class PersonWrap(Document):
    """The target's key, wrapped for a person."""

    kind: Literal["person"] = Field(description="That its holder is a person.")
    public: PublicKey = Field(description="The X25519 key of that person.")
    once: PublicKey = Field(description="The X25519 key that was made for this alone.")
    nonce: Hex = Field(description=NONCE)
    wrapped: Hex = Field(description=WRAPPED)


Wrap = Annotated[KeyFileWrap | PassphraseWrap | PersonWrap, Field(discriminator="kind")]


class SealedHeader(Document):
    """The first line of a sealed file."""

    format: Format = Field(description="The format of this document.")
    rows: Count = Field(description="Records of the file.")
    chunks: Count = Field(description="Encrypted chunks, the salt among them.")
    wraps: tuple[Wrap, ...] = Field(description="The key, for each of its holders.")


class GrantedAgain(Document):
    """Why records were granted that the steward had met before."""

    reason: Annotated[str, Field(pattern=r"\S")] = Field(description="The steward's reason.")
    met: Annotated[str, Field(min_length=1)] = Field(description="Where the records were met.")


class GrantStatement(Document):
    """What a steward grants: one target, for one registry and one set of releases."""

    format: Format = Field(description="The format of this document.")
    registry: Digest = Field(description="The registry that it is for.")
    releases: Digest = Field(description="The releases that it is for.")
    targets: dict[str, Digest] = Field(description="The sealed targets, by member.")
    head: Digest = Field(description="The ledger's head that the steward looked at.")
    keys: dict[str, PersonWrap] = Field(description="The targets' keys for the author, by member.")
    author: Identity = Field(description="The author in force then.")
    steward: Identity = Field(description="The steward.")
    again: GrantedAgain | None = Field(description="Why, if the records were met before.")
    time: str = Field(description="When, by the steward's clock.")


class Grant(Document):
    """`grant.json`: the statement with the steward's signature."""

    grant: GrantStatement = Field(description="What is granted.")
    signature: Hex = Field(description="The steward's signature of its canonical bytes.")
