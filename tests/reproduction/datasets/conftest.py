"""A server on this machine that answers as told, and a tiny data set that lies on it."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reproduction.datasets.catalog import CATALOG, DataSet, File

CONTENT = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500))


@dataclass
class Answer:
    """What the server says under one path."""

    body: bytes
    promised: int | None = None  # bytes, where the header lies
    status: int = 200
    location: str | None = None
    hold: threading.Event | None = None  # the body is sent when this is set


@dataclass
class Server:
    """Paths and answers, and the paths that were asked for."""

    root: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    busy: threading.Event = field(default_factory=threading.Event)

    def put(self, path: str, body: bytes = b"", **rest: Any) -> str:
        """Return the address under which an answer now lies."""
        self.answers[path] = Answer(body, **rest)
        return f"{self.root}{path}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    here = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here.asked.append(self.path)
            answer = here.answers.get(self.path, Answer(b"", status=404))
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            length = len(answer.body) if answer.promised is None else answer.promised
            self.send_header("Content-Length", str(length))
            self.end_headers()
            here.busy.set()
            if answer.hold is not None:
                answer.hold.wait(timeout=60)
            self.wfile.write(answer.body)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        here.root = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield here
        listening.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no other place where files could be found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROXYGUARD_DATA", raising=False)
    return tmp_path / "cache" / "proxyguard" / "data"


def zipped(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


@pytest.fixture
def pack() -> Callable[[dict[str, bytes]], bytes]:
    """A function that makes zip archives."""
    return zipped


def tiny_file(**changes: Any) -> File:
    facts = {
        "path": "tiny/tiny.csv",
        "rows": 500,
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "members": ("inner.zip", "folder/tiny.csv"),
    }
    return File(**(facts | changes))  # type: ignore[arg-type]


@pytest.fixture
def tiny(server: Server, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """A data set in a zip in a zip on the server, known to the catalog while a test runs."""
    inner = zipped({"folder/tiny.csv": CONTENT, "other.txt": b"nothing"})
    address = server.put("/tiny.zip", zipped({"inner.zip": inner, "readme": b"hello"}))
    one = DataSet(
        name="tiny", title="Tiny", about="For tests.", rows=500, outcome="b", positive="1",
        files=(tiny_file(),), page="https://example.org", address=address,
        licence="none", citation="none",
    )  # fmt: skip
    monkeypatch.setitem(CATALOG, "tiny", one)
    return one
