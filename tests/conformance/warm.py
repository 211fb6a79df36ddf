"""Processes of the product that start warm: as forks of one that has imported already.

Importing what a drawing process, a child of `verify` or a command needs takes longer than what most
tests ask of it. So one process imports it, once for a run of the tests, and forks a copy whenever
one is wanted. The copy then runs the module that was to be run, with the arguments, environment,
import path, folder, session and pipes that `subprocess` would give it, and as a child of whoever
wanted it. Only its libraries are loaded already, and what a command starts starts warm too; tests
that are about how a process starts, and those of single processes in ``tests/draw``, start theirs
cold.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from proxyguard.draw.processes import LINUX, prctl

_SET_CHILD_SUBREAPER = 36
_LOADED = (
    "proxyguard.adapters.worker", "proxyguard.audit.apart", "proxyguard.audit.audit",
    "proxyguard.audit.verify", "proxyguard.audit.verify_claim", "proxyguard.cli.main",
    "proxyguard.exposure.named", "proxyguard.report.html", "proxyguard.trial.page",
    "proxyguard.trial.run",
)  # fmt: skip
_COMMANDS = ("proxyguard.cli.main", "reproduction")
STARTERS = ("proxyguard.draw.pool", "proxyguard.draw.processes")
"""Modules of the product that start processes."""
_MODULES = {*_LOADED, *_COMMANDS}
_MOST = 1 << 18
_STREAMS = ("p2cread", "c2pwrite", "errwrite")
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


@contextmanager
def started_by(*modules: str) -> Iterator[None]:
    """Let these modules start their processes warm."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            names = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
            patch.setattr(f"{module}.subprocess", names)
        yield


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does that captures text."""
    with Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Popen(subprocess.Popen[Any]):
    """A process like any other, except for how it is started."""

    def _execute_child(self, *arguments: Any) -> None:
        cold = super()._execute_child
        given = inspect.signature(cold).bind(*arguments).arguments
        program, *words = [os.fspath(word) for word in given["args"]]
        safe = words[:1] == ["-P"]
        dash, module, *rest = [*words[safe:], "", ""]
        ours = program == sys.executable and dash == "-m" and module in _MODULES
        # Elsewhere nobody adopts orphans; and what runs before a program starts cannot run here.
        if not (LINUX and ours) or given["preexec_fn"] is not None:
            cold(*arguments)
            return
        order = {
            "module": module,
            "arguments": rest[:-2],
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "folder": os.fspath(given["cwd"] or os.getcwd()),
            "safe": safe,
            "session": given["start_new_session"],
        }
        streams = [given[name] for name in _STREAMS]
        inherited = [number if end == -1 else end for number, end in enumerate(streams)]
        self.pid = _server().fork(order, inherited)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _ENDS))


@functools.cache
def _server() -> _Server:
    """Return what forks processes, for as long as this process lives."""
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "conformance.warm"],
            stdin=theirs.fileno(), env=environment,
        )  # fmt: skip
    server = _Server(line, process.wait)
    atexit.register(server.close)
    return server


class _Server:
    """This end of the process that has imported; what it forked goes on when it has ended."""

    def __init__(self, line: socket.socket, ended: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._line = line
        self._ended = ended

    def close(self) -> None:
        """Let it end."""
        self._line.shutdown(socket.SHUT_RDWR)  # a fork of this process may have a copy of it
        self._line.close()
        self._ended()

    def fork(self, order: dict[str, Any], streams: list[int]) -> int:
        """Return the number of a new process, a child of this one."""
        with self._lock:
            # Whoever forks it ends at once, and the kernel gives it to the nearest that adopts.
            prctl(_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._line, [json.dumps(order).encode()], streams)
                return int(self._line.recv(_MOST))
            finally:
                prctl(_SET_CHILD_SUBREAPER, 0)


def serve() -> None:
    """Fork a process for each order, until whoever gives them has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's: it ends with whoever orders
    here = os.environ.pop("PYTHONPATH")
    path = [entry for entry in sys.path if entry != here]
    for module in _LOADED:
        importlib.import_module(module)
    # What is imported stays: a fork that looked through it for garbage would copy all of it.
    gc.collect()
    gc.freeze()
    _answer(socket.socket(fileno=os.dup(0)), path)


def _answer(line: socket.socket, path: list[str]) -> None:
    """Fork a process for each order that comes on this line, until there are no more."""
    while True:
        content, streams, _, _ = socket.recv_fds(line, _MOST, 3)
        if not content:
            return
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            between = os.getpid()
            process = os.fork()
            if process == 0:
                line.close()
                os.close(told), os.close(tell)
                _become(json.loads(content), streams, path, between)
            os.write(tell, str(process).encode())
            os._exit(0)
        os.close(tell)
        os.waitpid(between, 0)  # the process has its new parent when this returns
        with os.fdopen(told, "rb") as number:
            line.send(number.read())
        for stream in streams:
            os.close(stream)


def _beside(path: list[str], streams: list[int]) -> _Server:
    """Return a process beside this one, as warm, that forks those that a command starts."""
    line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = os.fork()
    if process == 0:
        try:
            # Whoever reads what the command prints waits until nobody can write to it.
            for stream in streams:
                os.close(stream)
            line.close()
            _answer(theirs, path)
        finally:
            os._exit(0)
    theirs.close()
    return _Server(line, functools.partial(os.waitpid, process, 0))


def _become(order: dict[str, Any], streams: list[int], path: list[str], between: int) -> NoReturn:
    """Run a module to its end, as ``python -m`` does."""
    code = 1
    beside = None
    try:
        while os.getppid() == between:
            time.sleep(0.0005)
        if order["module"] in _COMMANDS:
            beside = _beside(path, streams)
        if order["session"]:
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        time.tzset()
        tempfile.tempdir = None  # found anew, in this environment
        if "numpy" in sys.modules:  # a process of its own has a seed of its own
            sys.modules["numpy"].random.seed()
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        before = [] if order["safe"] else [order["folder"]]
        named = os.environ.get("PYTHONPATH", "")
        sys.path[:] = [*before, *filter(None, named.split(os.pathsep)), *path]
        importlib.invalidate_caches()
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv[1:] = order["arguments"]
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
        if beside is not None:
            globals()["_server"] = lambda: beside  # never undone: this process ends here
        with started_by(*STARTERS) if beside is not None else contextlib.nullcontext():
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            if beside is not None:
                beside.close()
        finally:
            os._exit(code)


if __name__ == "__main__":
    serve()
