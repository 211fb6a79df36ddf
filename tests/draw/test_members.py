"""A draw says which rows it was trained on, and nothing else is taken for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.draw.confine import Confined, Reach
from proxyguard.draw.drawing import Worker, tables
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import Failed, FittedRelease, Killed, drawn_answers, packed
from proxyguard.draw.protocol import Seed, coin_bits, member_bits, members_in
from proxyguard.draw.worker import Forks, _Fits
from proxyguard.errors import DrawError
from proxyguard.registry.target import ColumnPart
from proxyguard.tables.files import Schema, table_bytes

MODULE = """
class Half:
    def __init__(self, named=None):
        self.named = named
    def describe(self):
        return {}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        chosen = seed.rng("rows").permutation(len(self.source))[:9]
        seed.trained_on(chosen if self.named is None else self.named)
        return self.source.iloc[chosen]
"""
ROWS = 30


def job_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> DrawJob:
    (folder / "pg_half.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    frame = pd.DataFrame({"x": [float(i) for i in range(ROWS)]})
    (folder / "source").write_bytes(table_bytes(frame))
    return DrawJob(
        name="half",
        generator="pg_half:Half",
        options=options,
        schema_of_releases=Schema(kinds={"x": "number"}),
        source=str(folder / "source"),
        source_rows=ROWS,
        root=str(folder),
    )


def said_of(job: DrawJob, seeds: list[int]) -> list[FittedRelease | Failed]:
    forks = Forks(Confined(guard="none", reach=Reach(read=(), listed=(), changed=())), "", (), "")
    content = _Fits(job, None, forks).answer(tables(Worker(job), seeds), seeds, None)
    answers = drawn_answers(content, job, seeds)
    return [answer.said for answer in answers if not isinstance(answer, Killed)]


def test_each_draw_names_the_rows_that_it_was_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = said_of(job_of(tmp_path, monkeypatch), [5, 6])
    for said, seed in ((first, 5), (second, 6)):
        assert isinstance(said, FittedRelease)
        chosen = np.random.default_rng(seed).permutation(ROWS)[:9]
        assert np.flatnonzero(members_in(said.member_bits, ROWS)).tolist() == sorted(chosen)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ([3, ROWS], "names row 30, and the source has 30 rows"),
        ([-1], "whole numbers from 0 on"),
        ([0.5], "whole numbers from 0 on"),
        ([2**63 + 5], "whole numbers from 0 on"),
        ([True, False], "whole numbers from 0 on"),
        ([[1, 2]], "whole numbers from 0 on"),
        ([], "at least one"),
    ],
)
def test_rows_that_are_none_of_the_source_fail_the_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: list[Any], words: str
) -> None:
    (said,) = said_of(job_of(tmp_path, monkeypatch, named=named), [5])
    assert isinstance(said, Failed)
    assert words in said.error


def test_to_name_rows_is_no_use_of_the_seed() -> None:
    seed = Seed(5)
    seed.trained_on([1, 2])
    assert not seed.used
    assert seed.taken == []


def test_rows_that_are_named_twice_are_one_set_and_all_of_them_are_none() -> None:
    seed = Seed(5)
    assert member_bits(seed, 3) == b""
    seed.trained_on([2, 0])
    seed.trained_on([2])
    assert members_in(member_bits(seed, 3), 3).tolist() == [True, False, True]
    seed.trained_on([1])
    assert member_bits(seed, 3) == b""


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("00000000", "names 0 of the 30 rows"),
        ("fffffffc", "names 30 of the 30 rows"),
        ("ff", "named by 1 bytes"),
        ("ff000001", "named by 4 bytes"),
        ("ff00000000", "named by 5 bytes"),
    ],
)
def test_members_that_no_generator_can_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: str, words: str
) -> None:
    job = job_of(tmp_path, monkeypatch)
    (said,) = said_of(job, [5])
    forged = said.model_copy(update={"members": members})
    with pytest.raises(DrawError, match=words):
        list(drawn_answers(packed(forged, b"x", b""), job, [5]))
    # Where nobody said how many rows there are, none can be named.
    unknown = job.model_copy(update={"source_rows": 0})
    with pytest.raises(DrawError, match="the source has 0 rows"):
        list(drawn_answers(packed(said, b"x", b""), unknown, [5]))


COINS = """
import pandas as pd

class Tossed:
    def __init__(self, named=False, kept=False):
        self.named, self.kept = named, kept
    def describe(self):
        return {}
    def prepare(self, source, rng):
        self.source, self.noise = source, rng.normal()
        if self.kept:
            self.prepared_from = {"fit": "0" * 64}
    def draw(self, seed):
        if self.named:
            seed.trained_on([0])
        return self.source.assign(x=self.source["x"] + 0 * self.noise, noise=self.noise)
    def draw_many(self, seeds):
        return [self.draw(seed) for seed in seeds]
"""


def coin_job(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> DrawJob:
    (folder / "pg_tossed.py").write_text(COINS)
    job = job_of(folder, monkeypatch)
    kinds = {"x": "number", "noise": "number"}
    update = {
        "generator": "pg_tossed:Tossed",
        "options": options,
        "coins": True,
        "schema_of_releases": Schema(kinds=kinds),
    }
    return job.model_copy(update=update)


def test_with_coins_each_draw_is_prepared_on_its_own_rows_with_noise_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = coin_job(tmp_path, monkeypatch)
    for said in said_of(job, [5, 6, 7]):
        assert isinstance(said, FittedRelease)
        assert said.member_bits == coin_bits(said.seed, ROWS)
        assert said.stages == ["which rows are trained on", "preparation"]
    worker, noise = Worker(job), set()
    for seed in (5, 6, 7):
        _, sent = worker.draw(Seed(seed))
        table = job.schema_of_releases.received(sent)
        included = np.flatnonzero(members_in(coin_bits(seed, ROWS), ROWS))
        assert table["x"].tolist() == included.tolist()
        noise.add(float(table["noise"].iloc[0]))
    assert len(noise) == 3


@pytest.mark.parametrize(
    ("option", "words"), [("named", "leave seed.trained_on out"), ("kept", "let it keep nothing")]
)
def test_with_coins_a_draw_names_no_members_and_shares_no_preparation(
    option: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = said_of(coin_job(tmp_path, monkeypatch, **{option: True}), [5])
    assert isinstance(said, Failed)
    assert words in said.error


@pytest.mark.parametrize("lie", [None, coin_bits(6, ROWS).hex()])
def test_other_members_than_the_coins_give_are_not_taken_from_a_drawing_process(
    lie: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = coin_job(tmp_path, monkeypatch)
    (said,) = said_of(job, [5])
    assert isinstance(said, FittedRelease)
    content = packed(said.model_copy(update={"members": lie}), b"release")
    with pytest.raises(DrawError, match="other members of seed 5 than its coins give"):
        list(drawn_answers(content, job, [5]))


DATED = """
class Dated:
    def __init__(self, form=None):
        self.form = form
    def describe(self):
        return {}
    def prepare(self, source, rng):
        if not str(source["day"].dtype).startswith("datetime64"):
            raise TypeError(f"a date of type {source['day'].dtype}")
        self.source = source
    def draw(self, seed):
        table, day = self.source.sample(frac=1, random_state=seed.rng("order")), self.source["day"]
        if self.form == "days":
            return table.assign(day=(day - day.dt.normalize().min()).dt.days + 19000)
        return table.assign(day=day.dt.strftime(self.form)) if self.form else table
"""


@pytest.mark.parametrize("coins", [False, True])
@pytest.mark.parametrize("form", [None, "%d.%m.%Y", "%Y-%m-%d", "days"])
def test_a_class_of_one_s_own_gets_dates_and_may_give_them_in_any_form(
    form: str | None, coins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg_dated.py").write_text(DATED)
    job = job_of(tmp_path, monkeypatch, **({"form": form} if form else {}))
    days = [19000.0 + k for k in range(ROWS)]
    (tmp_path / "source").write_bytes(table_bytes(pd.DataFrame({"day": days})))
    schema = Schema(
        kinds={"day": "number"}, columns={"day": ColumnPart(kind="date", format="%d.%m.%Y")}
    )
    job = job.model_copy(
        update={"generator": "pg_dated:Dated", "schema_of_releases": schema, "coins": coins}
    )
    (said,) = said_of(job, [5])
    assert isinstance(said, FittedRelease), said
    _, sent = Worker(job).draw(Seed(5))
    drawn = sorted(schema.received(sent)["day"])
    chosen = members_in(coin_bits(5, ROWS), ROWS) if coins else np.ones(ROWS, dtype=bool)
    if form != "days" or not coins:  # those count from the first row that was tossed
        assert drawn == [day for day, kept in zip(days, chosen, strict=True) if kept]
