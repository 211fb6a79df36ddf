"""Fitted estimators as bytes: no pickle, the same bytes for the same model.

The pipelines of our own learners are stored as their numbers (`plain`), all others by skops.
skops names its parts by memory address. Here they are numbered in order of appearance. What
else an address would get into is left out: the padding of structured arrays, which holds
whatever was in memory, and where a text vectorizer last met its stop words.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyguard.draw.container import MAGIC
from proxyguard.draw.plain import plain_bytes, plain_model
from proxyguard.errors import SealError, UntrustedCode

_EPOCH = (1980, 1, 1, 0, 0, 0)
TRUSTED = (
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
)
"""Types that our own pipelines contain and skops does not trust by itself."""
UNPACKED = 2**30
"""Bytes of a stored model, unpacked."""
ADDRESS = "_stop_words_id"
"""What scikit-learn's vectorizers call the memory address of the stop words they checked last;
one without it checks them again."""


def model_bytes(estimator: Any) -> bytes:
    """Return an estimator as bytes that depend on its content alone."""
    plain = plain_bytes(estimator)
    return skops_bytes(estimator) if plain is None else plain


def skops_bytes(estimator: Any) -> bytes:
    """Return an estimator as skops bytes that depend on its content alone."""
    import skops.io

    raw = zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator)))
    schema = json.loads(raw.read("schema.json"))
    _forget_addresses(schema)
    numbers: dict[str, str] = {}
    _renumber(schema, numbers)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        members = {_renamed(n, numbers): n for n in raw.namelist() if n != "schema.json"}
        for name in sorted(members, key=lambda n: int(_address(n))):
            content = raw.read(members[name])
            _write(out, name, _clear_padding(content) if name.endswith(".npy") else content)
        _write(out, "schema.json", json.dumps(schema, sort_keys=True).encode())
    return sink.getvalue()


def load_model(content: bytes, name: str, trusted: Sequence[str] = ()) -> Any:
    """Return the estimator; a type outside the allow-list is refused before anything is built."""
    try:
        if content.startswith(MAGIC):
            return plain_model(content)
    except MemoryError:
        raise  # says nothing about the model
    except Exception as error:  # a forged file may break its reader in any way
        raise SealError(f"{name} is no stored model: {error}") from error
    return _load_skops(content, name, {*TRUSTED, *trusted})


def _load_skops(content: bytes, name: str, allowed: set[str]) -> Any:
    import skops.io

    try:
        _check_sizes(content)
        found = set(skops.io.get_untrusted_types(data=content))
        if found - allowed:
            beyond = tuple(sorted(found - allowed))
            raise UntrustedCode(
                f"{name} contains {list(beyond)}, which are not on the list of types that are "
                "trusted here; it is not loaded",
                names=beyond,
            )
        return skops.io.loads(content, trusted=sorted(found))
    except (SealError, MemoryError):
        raise
    except Exception as error:  # a forged file may break its reader in any way
        raise SealError(f"{name} is no stored model: {error!r}") from error


def _check_sizes(content: bytes) -> None:
    """Refuse an archive that unpacks to more than a model, or whose arrays are not what they say.

    A deflated megabyte is a gigabyte of zeros, and numpy makes an array before it reads it.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > UNPACKED:
            raise SealError(f"it unpacks to {unpacked:,} bytes; a model has at most {UNPACKED:,}")
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            with archive.open(info) as file:
                version = np.lib.format.read_magic(file)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, _, kind = read(file)
                if math.prod(shape) * kind.itemsize > info.file_size:
                    raise SealError(f"its array {info.filename} is longer than its file")


def _address(member: str) -> str:
    return member.split(".")[0]


def _renamed(member: str, numbers: dict[str, str]) -> str:
    """Return a part's file name with its address, or its random name, replaced by a number."""
    stem, _, kind = member.partition(".")
    return f"{numbers.setdefault(stem, str(len(numbers)))}.{kind}"


def _forget_addresses(node: Any) -> None:
    """Take the address of the stop words out of every stored mapping that has one."""
    if isinstance(node, list):
        for value in node:
            _forget_addresses(value)
    elif isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, dict) and ADDRESS in content:
            place = list(content).index(ADDRESS)
            del content[ADDRESS], node["key_types"]["content"][place]
        for value in node.values():
            _forget_addresses(value)


def _renumber(node: Any, numbers: dict[str, str]) -> None:
    """Replace memory addresses by numbers in the order in which they are first met."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "__id__" and isinstance(value, int):
                node[key] = int(numbers.setdefault(str(value), str(len(numbers))))
            elif key == "file" and isinstance(value, str):
                node[key] = _renamed(value, numbers)
            else:
                _renumber(value, numbers)
    elif isinstance(node, list):
        for value in node:
            _renumber(value, numbers)


def _clear_padding(content: bytes) -> bytes:
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
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    out.writestr(info, content)
