"""What every generator adapter owes, and what each of ours does beside it."""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.generator import GeneratorConformance, source
from proxyguard.adapters.files import FileFolder, NamedFile, StoredPredictions, declared_files
from proxyguard.adapters.transforms import Callable, RowBootstrap
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.tables.files import Schema

HELPER = """\
calls = []


def noisy(source, rng, scale=1.0):
    calls.append(len(source))
    source["x"] += scale * rng.normal(size=len(source))  # its own copy, so it may
    return source


def wrong(source, rng):
    return source.to_numpy()
"""


def write_tables(folder: Path, count: int = 3) -> None:
    folder.mkdir()
    for i in range(count):
        rows = "".join(f"{10 * i + k},yes\n" for k in range(4))
        (folder / f"{i}.csv").write_text("x,y\n" + rows)


class TestRowBootstrap(GeneratorConformance):
    stage = "rows of the release"

    def make(self) -> RowBootstrap:
        return RowBootstrap(rows=25)

    def test_every_row_is_a_whole_row_of_the_source(self) -> None:
        release = self.prepared().draw(Seed(3))
        assert len(release) == 25
        assert list(release.index) == list(range(25))
        rows = set(source().itertuples(index=False, name=None))
        assert set(release.itertuples(index=False, name=None)) <= rows

    def test_it_has_as_many_rows_as_the_source_unless_told_otherwise(self) -> None:
        generator = RowBootstrap()
        generator.prepare(source(), np.random.default_rng(0))
        release = generator.draw(Seed(3))
        assert len(release) == len(source())
        assert release["x"].duplicated().any()  # with replacement

    def test_rows_are_drawn_alike(self) -> None:
        generator = RowBootstrap(rows=12_000)
        generator.prepare(source(), np.random.default_rng(0))
        counts = generator.draw(Seed(20260819))["x"].value_counts()
        # Chi-squared with 11 degrees of freedom exceeds 48.87 once in a million (scipy's isf).
        assert len(counts) == 12
        assert float(((counts - 1000.0) ** 2 / 1000.0).sum()) < 48.87

    @pytest.mark.parametrize("rows", [0, -1, 2.0, "3", True])
    def test_a_number_of_rows_that_is_none_is_refused(self, rows: Any) -> None:
        with pytest.raises(RegistryError, match="rows is a whole number of at least 1"):
            RowBootstrap(rows=rows)


class TestCallable(GeneratorConformance):
    stage = "pg_helper:noisy"

    def make(self) -> Callable:
        (self.folder / "pg_helper.py").write_text(HELPER)
        return Callable("pg_helper:noisy", scale=0.5)

    def test_the_function_gets_the_source_the_stream_of_the_seed_and_its_options(self) -> None:
        release = self.prepared().draw(Seed(4))
        noise = np.random.default_rng(4).normal(size=12)
        np.testing.assert_array_equal(release["x"], source()["x"] + 0.5 * noise)
        assert sys.modules["pg_helper"].calls == [12]

    def test_its_settings_name_the_function_and_its_options(self) -> None:
        assert dict(self.make().describe()) == {
            "function": "pg_helper:noisy",
            "options": {"scale": 0.5},
        }

    def test_what_is_no_table_is_refused_by_name(self) -> None:
        self.make()
        generator = Callable("pg_helper:wrong")
        generator.prepare(source(), np.random.default_rng(0))
        with pytest.raises(TypeError, match="pg_helper:wrong returned a ndarray"):
            generator.draw(Seed(1))

    def test_a_function_that_is_not_there_is_refused_when_named(self) -> None:
        self.make()
        with pytest.raises(RegistryError, match="pg_helper:absent"):
            Callable("pg_helper:absent")


class TestFileFolder(GeneratorConformance):
    seeds = (50, 51)
    stage = "the file in releases"

    def make(self) -> FileFolder:
        if not (self.folder / "releases").exists():
            write_tables(self.folder / "releases")
        generator = FileFolder("releases", pattern="*.csv", first=50)
        generator.root = self.folder
        return generator

    def test_a_seed_is_a_file_in_the_order_of_names(self) -> None:
        generator = self.prepared()
        (self.folder / "releases" / "other.txt").write_text("not of the pattern")
        (self.folder / "releases" / "9.csv").mkdir()
        found = [generator.draw(Seed(50 + i))["x"].tolist() for i in range(3)]
        assert found == [[str(10 * i + k) for k in range(4)] for i in range(3)]

    @pytest.mark.parametrize("seed", [0, 49, 53])
    def test_a_seed_without_a_file_is_refused(self, seed: int) -> None:
        with pytest.raises(RegistryError, match=f"seed {seed} stands for file {seed - 50} .*has 3"):
            self.prepared().draw(Seed(seed))

    def test_a_refused_seed_was_taken_for_nothing(self) -> None:
        seed = Seed(49)
        with pytest.raises(RegistryError):
            self.prepared().draw(seed)
        assert seed.taken == []

    def test_a_file_that_lacks_a_column_fails_its_own_draw_and_no_other(self) -> None:
        generator = self.make()
        (self.folder / "releases" / "2.csv").write_text("x,z\n1,2\n")
        generator.prepare(source(), np.random.default_rng(0))
        with pytest.raises(TableError, match=r'releases/2\.csv lacks the columns "y"'):
            generator.draw(Seed(52))
        assert len(generator.draw(Seed(51))) == 4

    def test_a_draw_remembers_the_digest_of_the_bytes_that_it_read(self) -> None:
        seed = Seed(51)
        self.prepared().draw(seed)
        content = (self.folder / "releases" / "1.csv").read_bytes()
        assert seed.files == {"releases/1.csv": hashlib.sha256(content).hexdigest()}

    def test_every_file_is_surveyed_and_what_is_wrong_with_it_is_said(self) -> None:
        generator = self.prepared()
        (self.folder / "releases" / "2.csv").write_text("x,z\n1,2\n")
        schema = Schema(kinds={"x": "number", "y": "text"})
        first, second, third = generator.survey((50, 51, 52), schema)
        assert first.content is not None
        assert first.content != second.content
        assert third.content is None
        assert third.sha256 is not None
        assert third.problem == 'releases/2.csv lacks the columns "y" of the source'

    def test_a_folder_that_is_not_there_is_named(self) -> None:
        generator = FileFolder("absent")
        generator.root = self.folder
        with pytest.raises(RegistryError, match="absent is not there; name the folder"):
            generator.prepare(source(), np.random.default_rng(0))

    def test_files_are_read_as_declared(self) -> None:
        folder = self.folder / "packed"
        folder.mkdir()
        (folder / "a.csv.gz").write_bytes(gzip.compress(b"1;yes\n2;no\n"))
        generator = FileFolder("packed", header=False, columns=("x", "y"), separator=";")
        generator.root = self.folder
        generator.prepare(source(), np.random.default_rng(0))
        assert generator.draw(Seed(0)).to_numpy().tolist() == [["1", "yes"], ["2", "no"]]

    def test_an_option_that_is_no_way_of_reading_is_refused(self) -> None:
        with pytest.raises(RegistryError, match="there is no option colour"):
            FileFolder("releases", colour="red")


class TestNamedFile(GeneratorConformance):
    stage = "the stand-in table"
    random = False

    def make(self) -> NamedFile:
        path = self.folder / "stand-in.csv"
        path.write_text("y,x,more\nyes,1,a\nno,2,b\n")
        return NamedFile(str(path), {})

    def test_the_release_is_the_table_whatever_the_seed(self) -> None:
        release = self.prepared().draw(Seed(99))
        assert release.to_numpy().tolist() == [["yes", "1", "a"], ["no", "2", "b"]]

    def test_its_settings_name_the_file_and_not_the_machine(self) -> None:
        settings = dict(self.make().describe())
        assert settings["file"] == "stand-in.csv"
        assert str(self.folder) not in str(settings)

    def test_a_file_that_lacks_a_column_or_is_missing_is_refused(self) -> None:
        path = self.folder / "short.csv"
        path.write_text("x\n1\n")
        for name, told in (("short.csv", 'lacks the columns "y"'), ("absent.csv", "no table at")):
            named = NamedFile(str(self.folder / name), {})
            named.prepare(source(), np.random.default_rng(0))
            with pytest.raises(TableError, match=told):
                named.draw(Seed(0))


class TestStoredPredictions(GeneratorConformance):
    seeds = (0, 1)
    stage = "the file in predictions"

    def make(self) -> StoredPredictions:
        folder = self.folder / "predictions"
        folder.mkdir(exist_ok=True)
        for i in range(2):
            (folder / f"r{i}.csv").write_text(f"position,prediction\n3,0.{i + 1}\n0,0.5\n")
        (folder / "base.csv").write_text("position,prediction\n0,0.9\n")
        generator = StoredPredictions("predictions", source="base.csv")
        generator.root = self.folder
        return generator

    def test_the_file_of_the_source_is_no_release(self) -> None:
        generator = self.prepared()
        assert generator.draw(Seed(0))["prediction"].tolist() == ["0.1", "0.5"]
        assert generator.draw(Seed(1))["prediction"].tolist() == ["0.2", "0.5"]
        with pytest.raises(RegistryError, match="file 2 of 'predictions', which has 2"):
            generator.draw(Seed(2))
        assert generator.describe()["source"] == "base.csv"

    @pytest.mark.parametrize("columns", ["position", "prediction", "row,prediction", "position,p"])
    def test_a_file_without_positions_or_predictions_is_named(self, columns: str) -> None:
        generator = self.make()
        values = ",".join("1" for _ in columns.split(","))
        (self.folder / "predictions" / "r1.csv").write_text(f"{columns}\n{values}\n")
        generator.prepare(source(), np.random.default_rng(0))
        with pytest.raises(TableError, match=r"predictions/r1\.csv needs the columns position"):
            generator.draw(Seed(1))

    def test_one_column_a_class_will_do(self) -> None:
        generator = self.make()
        (self.folder / "predictions" / "r1.csv").write_text("position,class 0,class 1\n0,.5,.5\n")
        generator.prepare(source(), np.random.default_rng(0))
        assert list(generator.draw(Seed(1)).columns) == ["position", "class 0", "class 1"]


def test_a_seed_is_its_number_and_lists_each_stage_once_in_order() -> None:
    seed = Seed(17)
    assert seed == 17
    assert seed.take("one") == 17
    assert seed.rng("two").random() == np.random.default_rng(17).random()
    seed.take("one")
    assert seed.taken == ["one", "two"]
    assert Seed(17).taken == []


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*.csv", "a/../../*", "**", "a\0b", "//"])
def test_a_pattern_names_files_of_its_folder_and_no_others(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "releases").mkdir()
    (tmp_path / "table.csv").write_text("x\n1\n")
    generator = FileFolder("releases", pattern=pattern)
    generator.root = tmp_path
    with pytest.raises(RegistryError, match="is none for names of files"):
        generator.survey([0], None)
    with pytest.raises(RegistryError, match="is none for names of files"):
        declared_files("files", {"folder": "releases", "pattern": pattern}, tmp_path)
