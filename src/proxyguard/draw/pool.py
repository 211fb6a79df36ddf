"""Worker processes, one compute thread each, and what to do when one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any

from proxyguard.draw.worker import receive
from proxyguard.errors import DrawError

THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
Answer = tuple[dict[str, Any], bytes, bytes]


def draw_all(
    job: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    module: str,
    workers: int,
    timeout: float | None,
    keep: Callable[[dict[str, Any], bytes, bytes], None],
) -> None:
    """Draw every seed and hand each result to ``keep``.

    ``keep`` runs in this process, one result at a time, so that one writer owns the store.
    """
    if not seeds:
        return
    many = int(job.get("many", 1))
    batches = [list(seeds[i : i + many]) for i in range(0, len(seeds), many)]
    todo: Queue[list[int]] = Queue()
    for batch in batches:
        todo.put(batch)
    done: Queue[Answer | Exception | None] = Queue()
    n = max(1, min(workers, len(batches)))
    stop = threading.Event()
    threads = [
        threading.Thread(target=_drive, args=(job, module, timeout, todo, done, stop), daemon=True)
        for _ in range(n)
    ]
    for thread in threads:
        thread.start()
    running = n
    try:
        while running:
            item = done.get()
            if item is None:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                keep(*item)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _drive(
    job: Mapping[str, Any],
    module: str,
    timeout: float | None,
    todo: Queue[list[int]],
    done: Queue[Answer | Exception | None],
    stop: threading.Event,
) -> None:
    """Feed one worker until nothing is left to do."""
    try:
        with _process(job, module) as (process, ready):
            prepared = {"prepared_at_random": bool(ready["prepared_at_random"])}
            while not stop.is_set():
                try:
                    seeds = todo.get_nowait()
                except Empty:
                    break
                for record, release, model in _ask(process, seeds, timeout):
                    done.put(({**record, **prepared}, release, model))
    except Exception as error:
        done.put(error)
    finally:
        done.put(None)


@contextmanager
def _process(
    job: Mapping[str, Any], module: str
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    with subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(dict(job)).encode() + b"\n")
            process.stdin.flush()
            answer = receive(process.stdout)
            if answer is None:
                raise DrawError("a drawing process ended before it was ready; run draw again")
            if answer[0]["status"] != "ready":
                raise DrawError(f"{job['name']}: {answer[0]['error']}")
            yield process, answer[0]
        finally:
            process.stdin.close()
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()


def _ask(
    process: subprocess.Popen[bytes], seeds: list[int], timeout: float | None
) -> Iterator[Answer]:
    assert process.stdin is not None
    assert process.stdout is not None
    limit = None if timeout is None else timeout * len(seeds)
    try:
        process.stdin.write(json.dumps({"seeds": seeds, "timeout": limit}).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _killed(seeds, None) from None
    for _ in seeds:
        answer = receive(process.stdout)
        if answer is None:
            raise _killed(seeds, None)
        if answer[0]["status"] == "killed":
            raise _killed(seeds, answer[0]["signal"])
        yield answer


def _killed(seeds: list[int], number: int | None) -> DrawError:
    how = "ended" if number is None else f"was killed by signal {number}"
    return DrawError(
        f"the process that drew seed {seeds[0]} {how}, for want of memory or by somebody's hand; "
        "what was drawn is kept, run draw again. If it happens each time, register a timeout or "
        "use fewer workers"
    )
