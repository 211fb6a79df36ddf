"""Draws on a GPU, in processes that are held; skipped where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

pytestmark = pytest.mark.gpu


def test_a_draw_that_is_held_computes_on_the_gpu_and_starts_it_itself() -> None:
    # In a process of its own: where an earlier test has started CUDA, no fork can use it.
    script = Path(__file__).with_name("confined.py")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("generator", "trained"), [("tvae", "epochs"), ("ctgan", "epochs"), ("tabddpm", "steps")]
)
def test_the_pool_draws_on_the_gpu_many_seeds_at_once_and_the_record_says_so(
    tmp_path: Path, generator: str, trained: str
) -> None:
    for module in ("pandas", "pyarrow", "pydantic"):
        pytest.importorskip(module, reason="a pool needs the extra audit")
    import pandas as pd

    from proxyguard.draw.job import DrawJob
    from proxyguard.draw.messages import DrawResult, FittedRelease
    from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
    from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

    rng = np.random.default_rng(1)
    source = pd.DataFrame({"x": rng.normal(size=300), "y": rng.choice(["yes", "no"], size=300)})
    (tmp_path / "source").write_bytes(table_bytes(source))
    job = DrawJob(
        name=generator,
        generator=generator,
        options={"device": "cuda", "together": 50, trained: 5},
        schema_of_releases=Schema(kinds={"x": "number", "y": "text"}),
        source=str(tmp_path / "source"),
        source_rows=len(source),
        root=str(tmp_path),
        many=50,
    )
    kept: list[DrawResult] = []
    draws = Draws(job=job, seeds=range(60), keep=kept.append)
    with DrawingPool() as pool:
        draw_groups([draws], pool=pool, workers=4, timeout=None)
    said = [result.said for result in kept]
    assert all(isinstance(one, FittedRelease) for one in said), said
    assert {one.computed["device"] for one in said} == {"cuda"}
    # One worker at a time, and so full batches.
    assert sorted({int(one.computed["together"]) for one in said}) == [10, 50]
    assert all(len(read_table_bytes(result.release, "a release")) == 300 for result in kept)
