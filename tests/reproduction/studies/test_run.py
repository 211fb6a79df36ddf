"""A run resumes where it was cut short, repeats at no cost, and believes no damaged block."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyguard.errors import DiskError
from reproduction.cli.study import app
from reproduction.studies import cache as cache_module
from reproduction.studies.cache import BlockCache, DamagedBlock, block_key, default_cache
from reproduction.studies.catalog import STUDIES
from reproduction.studies.rows import Row
from reproduction.studies.run import run_study, workers
from reproduction.studies.study import Outcome, Study, Sums

STUDY = STUDIES["calibration"]
SIZE = {"repetitions": 1100, "cells": (0, 5)}  # three blocks a cell, the last one short
BLOCKS = 6


class Counting:
    """A study's law that counts its blocks and can be stopped before one of them."""

    def __init__(self, study: Study, stop: int | None = None) -> None:
        self.study, self.stop, self.calls = study, stop, 0

    def __call__(
        self, cell: Mapping[str, Any], rng: np.random.Generator, n: int, wanted: frozenset[str]
    ) -> Outcome:
        if self.calls == self.stop:
            raise KeyboardInterrupt
        self.calls += 1
        return self.study.simulate(cell, rng, n, wanted)


def counted(stop: int | None = None) -> tuple[Study, Counting]:
    law = Counting(STUDY, stop)
    return replace(STUDY, simulate=law), law


def plain(rows: list[Row]) -> list[dict[str, Any]]:
    return [row.to_dict() for row in rows]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_rows_are_the_same_with_and_without_a_cache(tmp_path: Path) -> None:
    without = run_study(STUDY, **SIZE)
    first = run_study(STUDY, **SIZE, cache=tmp_path)
    second = run_study(STUDY, **SIZE, cache=tmp_path)
    assert plain(without) == plain(first) == plain(second)
    assert len(files(tmp_path)) == BLOCKS


def test_a_second_run_simulates_nothing(tmp_path: Path) -> None:
    study, law = counted()
    run_study(study, **SIZE, cache=tmp_path)
    assert law.calls == BLOCKS
    run_study(study, **SIZE, cache=tmp_path)
    assert law.calls == BLOCKS


def test_a_kill_between_blocks_loses_only_that_block(tmp_path: Path) -> None:
    stopped, _ = counted(stop=4)
    with pytest.raises(KeyboardInterrupt):
        run_study(stopped, **SIZE, cache=tmp_path)
    assert len(files(tmp_path)) == 4
    study, law = counted()
    rows = run_study(study, **SIZE, cache=tmp_path)
    assert law.calls == BLOCKS - 4
    assert plain(rows) == plain(run_study(STUDY, **SIZE))


def test_other_methods_repetitions_or_seeds_are_other_blocks(tmp_path: Path) -> None:
    study, law = counted()
    run_study(study, repetitions=500, cells=(0,), cache=tmp_path)
    run_study(study, repetitions=400, cells=(0,), cache=tmp_path)
    run_study(study, repetitions=500, cells=(0,), cache=tmp_path, seed=1)
    run_study(study, repetitions=500, cells=(0,), cache=tmp_path, methods=("Holm",))
    assert law.calls == 4


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def change_a_sum(path: Path) -> None:
    content = json.loads(path.read_text())
    content["sums"][0][3] = (1.0 + float.fromhex(content["sums"][0][3])).hex()
    path.write_text(json.dumps(content))


def take_the_place_of_another(path: Path) -> None:
    other = next(one for one in files(path.parent) if one != path)
    path.write_bytes(other.read_bytes())


def hold_no_number(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "sums": [float("nan")]}))


def hold_no_block(path: Path) -> None:
    path.write_text("[]")


def hold_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        change_a_sum,
        take_the_place_of_another,
        hold_no_number,
        hold_no_block,
        hold_no_text,
    ],
)
def test_a_damaged_block_is_computed_again_and_named(damage: Any, tmp_path: Path) -> None:
    expected = plain(run_study(STUDY, **SIZE, cache=tmp_path))
    victim = files(tmp_path)[2]
    before = victim.read_bytes()
    damage(victim)
    study, law = counted()
    with pytest.warns(DamagedBlock, match=victim.name):
        rows = run_study(study, **SIZE, cache=tmp_path)
    assert law.calls == 1
    assert plain(rows) == expected
    assert victim.read_bytes() == before


def test_other_sources_have_other_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, law = counted()
    run_study(study, **SIZE, cache=tmp_path)
    monkeypatch.setattr(cache_module, "source_digest", lambda: "0" * 64)
    run_study(study, **SIZE, cache=tmp_path)
    assert law.calls == 2 * BLOCKS
    assert len(list(tmp_path.iterdir())) == 2


def test_every_source_that_a_study_rests_on_counts(tmp_path: Path) -> None:
    product, paper = tmp_path / "proxyguard", tmp_path / "reproduction"
    for name in (product / "exact/mean.py", product / "cli/main.py", paper / "studies/run.py"):
        name.parent.mkdir(parents=True)
        name.write_text("one = 1\n")

    def digest_now() -> str:
        return cache_module.source_digest.__wrapped__((product, paper))

    first = digest_now()
    (product / "cli/main.py").write_text("one = 2\n")
    assert digest_now() == first
    (product / "exact/mean.py").write_text("one = 2\n")
    second = digest_now()
    assert second != first
    (product / "exact/mean.py").rename(product / "exact/other.py")
    third = digest_now()
    assert third != second
    (paper / "studies/run.py").write_text("one = 2\n")
    assert digest_now() != third


def test_a_key_covers_all_that_the_sums_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    one: dict[str, Any] = {
        "study": "a", "cell": {"n": 1}, "place": 0, "block": 0, "repetitions": 5, "seed": 1,
        "methods": frozenset({"x"}),
    }  # fmt: skip
    others: dict[str, Any] = {
        "study": "b", "cell": {"n": 2}, "place": 1, "block": 1, "repetitions": 6, "seed": 2,
        "methods": frozenset({"x", "y"}),
    }  # fmt: skip
    keys = [block_key(**one), *(block_key(**{**one, k: v}) for k, v in others.items())]
    monkeypatch.setattr(np, "__version__", "0")
    keys.append(block_key(**one))
    assert len(set(keys)) == len(keys) == 9


def test_sums_come_back_to_the_last_bit(tmp_path: Path) -> None:
    kept = BlockCache(tmp_path)
    outcome = {("m", "x"): Sums(3, 0.1 + 0.2, 1e-310), ("a", "y"): Sums(1, 1 / 3, 2e300)}
    kept.put("ab", outcome)
    found = kept.get("ab")
    assert found == outcome
    assert found is not None
    assert list(found) == list(outcome)
    assert kept.get("cd") is None


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DiskError, match="--no-cache"):
        run_study(STUDY, **SIZE, cache=tmp_path / "file")


def test_the_default_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/proxyguard/studies")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/one")
    assert default_cache() == Path("/home/one/.cache/proxyguard/studies")


def test_progress_is_told_block_by_block(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    seen: list[int] = []

    def listen(name: str, done: int, total: int) -> None:
        heard.append((name, done, total))
        seen.append(law.calls)

    study, law = counted()
    run_study(study, **SIZE, progress=listen)
    assert heard == [("calibration", k, BLOCKS) for k in range(1, BLOCKS + 1)]
    assert seen == [1, 2, 3, 4, 5, 6]  # after each block, not after all


def test_processes_change_nothing_and_tell_their_progress(tmp_path: Path) -> None:
    heard: list[int] = []
    expected = plain(run_study(STUDY, **SIZE))
    with workers(2) as pool:
        together = run_study(
            STUDY,
            **SIZE,
            pool=pool,
            cache=tmp_path,
            progress=lambda _, done, total: heard.append(done),
        )
        assert plain(together) == expected
        assert heard == [1, 2, 3, 4, 5, 6]
        assert len(files(tmp_path)) == BLOCKS
        # Another study of the same pool.
        other = STUDIES["target-reuse"]
        assert plain(run_study(other, repetitions=600, pool=pool)) == plain(
            run_study(other, repetitions=600)
        )
    study, law = counted()
    assert plain(run_study(study, **SIZE, cache=tmp_path)) == expected
    assert law.calls == 0


def test_processes_need_a_study_of_the_catalog() -> None:
    study, _ = counted()
    with pytest.raises(ValueError, match="not in the catalog"):
        run_study(study, **SIZE, jobs=2)


def test_no_methods_give_no_rows_and_unknown_ones_are_refused() -> None:
    study, law = counted()
    assert run_study(study, methods=()) == []
    assert law.calls == 0
    with pytest.raises(ValueError, match="no method 'Hulm'"):
        run_study(study, methods=("Hulm",))


def invoke(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["run", "target-reuse", "--json", "--repetitions", "900",
                                    *arguments])  # fmt: skip
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else {}


def test_the_command_keeps_blocks_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    code, without = invoke("--no-cache")
    assert code == 0
    assert files(tmp_path) == []
    assert invoke("--cache", str(tmp_path / "own"))[1] == without
    assert len(files(tmp_path / "own")) == 2
    assert not (tmp_path / "user").exists()
    assert invoke()[1] == without
    assert len(files(tmp_path / "user")) == 2
    code, _ = invoke("--no-cache", "--cache", str(tmp_path / "own"))
    assert code == 2  # a wrong use


def test_a_sound_cache_is_read_in_silence(tmp_path: Path) -> None:
    run_study(STUDY, **SIZE, cache=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_study(STUDY, **SIZE, cache=tmp_path)


def test_an_interrupted_study_does_not_wait_for_what_is_under_way() -> None:
    start = time.monotonic()

    def interrupted() -> None:
        with workers(2) as pool:
            assert pool is not None
            pool.submit(abs, -1).result()
            pool.submit(time.sleep, 300)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - start < 60
    assert active_children() == []
