"""Fitted models as bytes and back: no pickle, nothing run, the same bytes for the same model.

Models of this package are files of NumPy's format (`npy`). Pipelines of others are stored by
skops, the extra ``proxyguard[pipelines]``. skops names its parts by memory address. Here they
are numbered in order of appearance. What else an address would get into is left out: the
padding of structured arrays, which holds whatever was in memory, and where a text vectorizer
last met its stop words.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Sequence
from importlib import import_module
from typing import IO, Protocol, TypeAlias, cast

import numpy as np

from proxyguard.errors import RegistryError, SealError, UntrustedCode
from proxyguard.models.learned import AdditiveModel, BayesModel, LinearModel, TreeModel
from proxyguard.models.npy import MAGIC, read_content, read_json

Model: TypeAlias = LinearModel | TreeModel | BayesModel | AdditiveModel
# All that is ever built from a file of NumPy's format.
KINDS: dict[str, type[LinearModel] | type[TreeModel] | type[BayesModel] | type[AdditiveModel]] = {
    model.kind: model for model in (LinearModel, TreeModel, BayesModel, AdditiveModel)
}

_EPOCH = (1980, 1, 1, 0, 0, 0)
# Types that scikit-learn's pipelines contain and skops does not trust by itself.
TRUSTED = (
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
)
# Bytes of a stored pipeline, unpacked.
UNPACKED = 2**30
# What scikit-learn's vectorizers call the memory address of the stop words they checked last; one
# without it checks them again.
ADDRESS = "_stop_words_id"


def model_bytes(estimator: object) -> bytes:
    """Return a fitted model as bytes that depend on its content alone.

    Parameters
    ----------
    estimator
        A model of this package, or any fitted estimator that skops can store.

    Raises
    ------
    RegistryError
        If it is somebody else's and skops is not installed.
    """
    if isinstance(estimator, Model):
        return estimator.content().to_bytes()
    return skops_bytes(estimator)


def load_model(content: bytes, name: str, trusted: Sequence[str] = ()) -> object:
    """Return the model that bytes hold; nothing that they name is run or imported unasked.

    Parameters
    ----------
    content
        The bytes, which may come from anybody.
    name
        What messages call them.
    trusted
        Types that a pipeline of skops may contain besides scikit-learn's own.

    Raises
    ------
    SealError
        If they hold no model, or one whose parts do not fit together.
    UntrustedCode
        If they contain a type outside the list, which is then not imported, or need skops, which
        is not installed.
    """
    if not content.startswith(MAGIC):
        return _load_skops(content, name, {*TRUSTED, *trusted})
    try:
        parts = read_content(content)
        if parts.kind not in KINDS:
            raise SealError(f"there is no kind of model called {parts.kind[:80]!r}")
        model = KINDS[parts.kind].of(parts)
        # One model is one file: what is spelt otherwise, or holds more, is a forgery of it.
        if model.content().to_bytes() != content:
            raise SealError("it is not written as its model is, or holds more than that")
    except SealError as error:
        raise SealError(f"{name} is no stored model: {error}") from None
    return model


def skops_bytes(estimator: object) -> bytes:
    """Return an estimator as skops bytes that depend on its content alone."""
    raw = zipfile.ZipFile(io.BytesIO(skops().dumps(estimator)))
    schema = json.loads(raw.read("schema.json"))
    _forget_addresses(schema)
    numbers: dict[str, str] = {}
    _renumber(schema, numbers)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        members = {_renamed(n, numbers): n for n in raw.namelist() if n != "schema.json"}
        for name in sorted(members, key=lambda n: int(n.split(".")[0])):
            content = raw.read(members[name])
            _write(out, name, _clear_padding(content) if name.endswith(".npy") else content)
        _write(out, "schema.json", json.dumps(schema, sort_keys=True).encode())
    return sink.getvalue()


class SkopsIo(Protocol):
    """What is used of `skops.io`."""

    def dumps(self, obj: object) -> bytes:
        """Return an estimator as an archive."""

    def get_untrusted_types(self, *, data: bytes) -> list[str]:
        """Return the types in an archive that skops does not trust by itself."""

    def loads(self, data: bytes, trusted: Sequence[str]) -> object:
        """Return the estimator of an archive."""


def skops() -> SkopsIo:
    """Return skops, or say who needs it and how to get it."""
    try:
        return cast(SkopsIo, import_module("skops.io"))
    except ImportError as error:
        raise RegistryError(
            "pipelines that are not this package's own are stored with skops, which is not "
            "installed; run: pip install 'proxyguard[pipelines]'"
        ) from error


def _load_skops(content: bytes, name: str, allowed: set[str]) -> object:
    try:
        reader = skops()
    except RegistryError as error:  # says nothing against the file: nobody here can read it
        raise UntrustedCode(f"{name}: {error}") from error
    try:
        _check_sizes(content, UNPACKED)
        # skops names the types before it makes anything; `loads` then makes no others.
        needed = set(reader.get_untrusted_types(data=content))
        if needed - allowed:
            beyond = tuple(sorted(needed - allowed))
            raise UntrustedCode(
                f"{name} contains {list(beyond)}, which are not on the list of types that are "
                "trusted here; it is not loaded",
                names=beyond,
            )
        return reader.loads(content, trusted=sorted(needed))
    except (UntrustedCode, MemoryError):
        raise
    except SealError as error:
        raise SealError(f"{name} is no stored model: {error}") from None
    except Exception as error:  # a forged file may break its reader in any way
        raise SealError(f"{name} is no stored model: {error!r}") from error


def _check_sizes(content: bytes, left: int, *, within: bool = False) -> int:
    """Refuse an archive that unpacks to more than a model, or whose arrays are not what they say.

    A deflated megabyte is a gigabyte of zeros, and numpy makes an array before it reads it. A
    sparse matrix is an archive within the archive. What a member is, its first bytes say, and not
    its name, which whoever wrote the file chose. Return the bytes that are left.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        left -= sum(info.file_size for info in archive.infolist())
        if left < 0:
            raise SealError(f"it unpacks to more than {UNPACKED:,} bytes; no model does")
        for info in archive.infolist():
            with archive.open(info) as file:
                start = file.read(len(MAGIC))
                file.seek(0)
                if start.startswith(b"PK"):
                    if within:
                        raise SealError(f"its part {info.filename} is an archive within another")
                    left = _check_sizes(file.read(), left, within=True)
                elif start == MAGIC:
                    _check_array(file, info)
        if not within and "schema.json" in archive.namelist():
            read_json(archive.read("schema.json"))
    return left


def _check_array(file: IO[bytes], info: zipfile.ZipInfo) -> None:
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, kind = read(file)
    if math.prod(shape) * kind.itemsize > info.file_size:
        raise SealError(f"its array {info.filename} is longer than its file")


def _renamed(member: str, numbers: dict[str, str]) -> str:
    """Return a part's file name with its address, or its random name, replaced by a number."""
    stem, _, kind = member.partition(".")
    return f"{numbers.setdefault(stem, str(len(numbers)))}.{kind}"


def _forget_addresses(node: object) -> None:
    """Take the address of the stop words out of every stored mapping that has one."""
    if isinstance(node, list):
        for child in node:
            _forget_addresses(child)
    elif isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, dict) and ADDRESS in content:
            position = list(content).index(ADDRESS)
            del content[ADDRESS], node["key_types"]["content"][position]
        for child in node.values():
            _forget_addresses(child)


def _renumber(node: object, numbers: dict[str, str]) -> None:
    """Replace memory addresses by numbers in the order in which they are first met."""
    if isinstance(node, dict):
        for key, child in node.items():
            if key == "__id__" and isinstance(child, int):
                node[key] = int(numbers.setdefault(str(child), str(len(numbers))))
            elif key == "file" and isinstance(child, str):
                node[key] = _renamed(child, numbers)
            else:
                _renumber(child, numbers)
    elif isinstance(node, list):
        for child in node:
            _renumber(child, numbers)


def _clear_padding(content: bytes) -> bytes:
    """Return a stored array with zeros between its fields, where memory left what was there."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean = np.zeros(array.shape, dtype=array.dtype)
    for field in array.dtype.names:
        clean[field] = array[field]
    sink = io.BytesIO()
    np.save(sink, clean, allow_pickle=False)
    return sink.getvalue()


def _write(out: zipfile.ZipFile, name: str, content: bytes) -> None:
    # One date and one mode for every part, or the same model would be another file tomorrow.
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    out.writestr(info, content)
