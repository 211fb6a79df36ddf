"""A GPU in a process that is held as draws are; torch and numpy are enough to run this.

A machine with a GPU may have neither pandas nor pytest, so this is also a script, from the root of
the repository: ``PYTHONPATH=src python3 tests/neural/confined.py``
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch

from proxyguard.draw.confine import Needs, confine, confine_draw, gpu_devices, guard_here
from proxyguard.draw.processes import Forked, adopt_orphans, in_a_fork
from proxyguard.neural.batched import arithmetic, chosen_device, new_linear
from proxyguard.neural.noise import Purpose, Streams

SEEDS = (4, 9, 2)


def product(device: str) -> torch.Tensor:
    """Return what a layer of three draws gives, computed on a device and brought back."""
    streams = Streams(SEEDS, chosen_device(device))
    rows = streams.normal(Purpose.START, 0, (200, 35))
    return torch.relu(new_linear(streams, 0, 35, 128)(rows)).detach().cpu()


def drawn(secret: str) -> bytes:
    """Return, in the process of one draw, what was computed and what could be read."""
    started = torch.cuda.is_initialized()
    given = product("cuda")
    try:
        read = Path(secret).read_text()
    except OSError as error:
        read = type(error).__name__
    near = float((given - product("cpu")).abs().max())
    facts = {"started before": started, "read": read, "apart": near,
             **arithmetic(torch.device("cuda"))}  # fmt: skip
    return json.dumps(facts).encode()


def held(secret: str, *, gpu: bool) -> bytes:
    """Return what two draws say, one after the other, in forks of a process that is held."""
    adopt_orphans()
    scratch = tempfile.mkdtemp()
    confined = confine(Needs(forbidden=(secret,), reads=(), gpu=gpu), scratch)
    said = []
    for _ in range(2):
        own = tempfile.mkdtemp(dir=scratch)

        def draw(own: str = own) -> bytes:
            confine_draw(confined, own)
            return drawn(secret)

        said.append(_words(in_a_fork(draw, timeout=120.0)))
    return json.dumps(said).encode()


def _words(forked: Forked) -> object:
    return None if forked.made is None else json.loads(forked.made)


def draws_of(secret: Path, *, gpu: bool) -> list[dict[str, object] | None]:
    """Return what two held draws on a GPU say; nothing of one that failed."""
    forked = in_a_fork(partial(held, str(secret), gpu=gpu), timeout=300.0)
    assert forked.made is not None, "the process that is held ended without a word"
    said: list[dict[str, object] | None] = json.loads(forked.made)
    return said


def check(secret: Path) -> list[str]:
    """Return in words what is wrong with draws on the GPU of this machine."""
    wrong = []
    for draw in draws_of(secret, gpu=True):
        if draw is None:
            return ["a draw that may use the GPU gave nothing"]
        if draw["started before"]:
            wrong.append("CUDA was started before the fork")
        if "landlock" in guard_here() and draw["read"] != "PermissionError":
            wrong.append(f"a draw read what it may not: {draw['read']}")
        if not isinstance(draw["apart"], float) or draw["apart"] > 1e-4:
            wrong.append(f"GPU and CPU lie {draw['apart']} apart")
        print(draw)
    # That it is opened by us, and only where it is asked for.
    if "landlock" in guard_here() and draws_of(secret, gpu=False) != [None, None]:
        wrong.append("a draw that may not use the GPU used it")
    return wrong


def main() -> None:
    """Say what this machine has, and end with an error where something is wrong."""
    print(f"torch {torch.__version__}, held by {guard_here()}, devices {gpu_devices()}")
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text("a secret")
        wrong = check(secret)
    sys.exit("; ".join(wrong) or None)


if __name__ == "__main__":
    main()
