"""Files of data sets: found where they lie, or downloaded; believed when their digest fits.

A file is looked for in ``$PROXYGUARD_DATA``, then in the cache, and is never replaced in the
former. Its digest is computed on every call: the largest file takes 0.09 s, or 0.3 s where it
is compressed, which is less than reading it as a table.

A download goes to a temporary file, is unpacked and verified in memory, and only then are its
files put in their places, each at once. One process works on a data set's folder at a time; a
second one waits, and then finds the files there. What a killed one left behind is removed by
the next and is never read.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxyguard import TableError
from reproduction.datasets.archive import MOST, read_at_most, unpack
from reproduction.datasets.catalog import DataSet, File, Origin, entry
from reproduction.files import LEFTOVER, sweep, write_atomic

Progress = Callable[[str, int, int], None]
TIMEOUT = 60.0
"""Seconds without a byte after which a server is given up."""

_CHUNK = 2**18
_SUFFIXES = ("", ".gz", ".xz")


def cache_folder() -> Path:
    """Return where downloaded files are kept."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "proxyguard" / "data"


def path(name: str, file: str | None = None) -> Path:
    """Return the verified file of a data set, which may be compressed (``.gz``, ``.xz``).

    ``file`` names one where the data set has several.
    """
    chosen = entry(name).file(file) if entry(name).files else None
    if chosen is None:
        raise _without_files(entry(name))
    place = _place(entry(name), chosen)
    _verified(place, chosen, name)
    return place


def paths(name: str) -> tuple[Path, ...]:
    """Return every file of a data set, verified."""
    if not entry(name).files:
        raise _without_files(entry(name))
    return tuple(path(name, file.name) for file in entry(name).files)


def content(name: str, file: str | None = None) -> bytes:
    """Return the uncompressed content of a file: the very bytes whose digest was verified."""
    chosen = entry(name).file(file)
    return _verified(_place(entry(name), chosen), chosen, name)


def found(file: File) -> Path | None:
    """Return where a file lies, unverified: in ``$PROXYGUARD_DATA``, else in the cache."""
    named = os.environ.get("PROXYGUARD_DATA")
    for root in (*([Path(named)] if named else []), cache_folder()):
        for suffix in _SUFFIXES:
            place = root / f"{file.path}{suffix}"
            if place.is_file():
                return place
    return None


def fetch(
    name: str,
    *,
    source: str | Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[Path, ...]:
    """Return every file of a data set, downloaded into the cache where one was missing.

    ``source`` is another address, or a file, that has what the official address gives. A
    damaged file of the cache is replaced; one of ``$PROXYGUARD_DATA`` is an error.
    """
    chosen = entry(name)
    if chosen.origin is Origin.SCIKIT_LEARN:
        raise _without_files(chosen)
    if chosen.origin is Origin.USER:
        raise TableError(_bring(chosen))
    if not all(_is_good(file, name) for file in chosen.files):
        folder = (cache_folder() / chosen.files[0].path).parent
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not all(_is_good(file, name) for file in chosen.files):
                _fetch_into(folder, chosen, source or str(chosen.address), progress)
    return paths(name)


def _fetch_into(folder: Path, chosen: DataSet, source: str | Path, progress: Progress) -> None:
    """Put all files of a data set into the cache, or none."""
    part = folder / f"download{LEFTOVER}"
    local = isinstance(source, Path) or "://" not in source
    if not local:
        _download(str(source), part, chosen.name, progress)
    with (Path(source) if local else part).open("rb") as stream:
        raw = read_at_most(stream, MOST, str(source))
    made = {file: _made(raw, file, chosen.name, source) for file in chosen.files}
    for file, content in made.items():
        write_atomic(cache_folder() / file.path, content)


def _made(raw: bytes, file: File, name: str, source: str | Path) -> bytes:
    """Return a file's content from a download, if it is what the catalog knows."""
    try:
        content = file.recipe(unpack(raw, file.members))
    except TableError as error:
        raise TableError(f"{name}: what came from {source} was refused: {error}") from error
    except ValueError as error:  # a recipe met text that is not of its form
        raise TableError(f"{name}: what came from {source} was refused: {error!r}") from error
    _compare(content, file, f"{name}: {file.name} from {source}", "nothing was kept; try again, "
             "or give another source")  # fmt: skip
    return content


def _place(chosen: DataSet, file: File) -> Path:
    place = found(file)
    if place is None:
        looked = os.environ.get("PROXYGUARD_DATA") or "PROXYGUARD_DATA (not set)"
        remedy = f"run: python -m reproduction data fetch {chosen.name}"
        raise TableError(
            f"{file.path} is neither in {looked} nor in {cache_folder()}; "
            f"{_bring(chosen) if chosen.origin is Origin.USER else remedy}"
        )
    return place


def _bring(chosen: DataSet) -> str:
    (file,) = chosen.files
    return (
        f"{chosen.name} is not fetched ({chosen.licence}): get {file.name} from {chosen.page} "
        f"under its terms, then run: python -m reproduction data prepare {chosen.name} --file FILE"
    )


def _without_files(chosen: DataSet) -> TableError:
    return TableError(
        f"{chosen.name} ships inside scikit-learn and has no file of its own; load it, or run: "
        f"python -m reproduction data prepare {chosen.name}"
    )


def _is_good(file: File, name: str) -> bool:
    """Return whether a file is here and whole; a damaged one of the user's folder is an error."""
    place = found(file)
    if place is None:
        return False
    try:
        _verified(place, file, name)
    except TableError:
        if not place.is_relative_to(cache_folder()):
            raise
        return False
    return True


def _verified(place: Path, file: File, name: str) -> bytes:
    """Return the uncompressed content of a file whose size and digest are the catalog's."""
    try:
        content = unpack(place.read_bytes())
    except (OSError, TableError) as error:
        raise TableError(f"{place} could not be read ({error}); {_mend(place, name)}") from error
    _compare(content, file, str(place), _mend(place, name))
    return content


def _mend(place: Path, name: str) -> str:
    command = f"run: python -m reproduction data fetch {name}"
    return command if place.is_relative_to(cache_folder()) else f"remove it and {command}"


def _compare(content: bytes, file: File, what: str, remedy: str) -> None:
    if file.sha256 is None:
        return
    digest = hashlib.sha256(content).hexdigest()
    if (len(content), digest) != (file.bytes, file.sha256):
        raise TableError(
            f"{what} is not the file of the catalog: promised {file.bytes} bytes with SHA-256 "
            f"{file.sha256}, found {len(content)} with {digest}; {remedy}"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder for one process, waiting for others; no temporary file outlives this.

    The lock lies on the folder itself and ends with the process that holds it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        sweep(folder)
        try:
            yield
        finally:
            sweep(folder)
    finally:
        os.close(handle)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirection only to where a download may come from."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
                         ) -> urllib.request.Request | None:  # fmt: skip
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(address: str) -> None:
    parts = urllib.parse.urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not local:
        raise TableError(
            f"data are fetched over https, or over http from this machine; got {address}"
        )


def _download(address: str, part: Path, name: str, progress: Progress) -> None:
    """Put what an address gives into a file."""
    _check_address(address)
    request = urllib.request.Request(address, headers={"User-Agent": "proxyguard"})
    opener = urllib.request.build_opener(_SafeRedirects)
    done = 0
    try:
        with opener.open(request, timeout=TIMEOUT) as answer, part.open("wb") as sink:
            promised = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(_CHUNK):
                done += len(chunk)
                if done > MOST:
                    raise TableError(f"{address} gives more than the {MOST} bytes allowed")
                sink.write(chunk)
                progress(f"{name}, KiB", done // 1024, max(promised, done) // 1024)
    except (OSError, http.client.HTTPException) as error:
        raise TableError(
            f"{name} could not be fetched from {address} ({error}); try again, or give another "
            "source with --from"
        ) from error
    if done < promised:
        raise TableError(
            f"{name}: {address} promised {promised} bytes and gave {done}; nothing was kept, try "
            "again"
        )
