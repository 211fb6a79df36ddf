"""From a trial of objects to a certificate, without writing a file by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from trial.tables import people


class Sampled:
    """Rows drawn again; made with a setting, so that its class alone would not make it again."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def describe(self) -> dict[str, object]:
        return {"rows": self.rows}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        self.source = source

    def draw(self, seed: Seed) -> pd.DataFrame:
        return self.source.sample(self.rows, replace=True, random_state=seed.rng("rows"))


LIMITS = {"error": 0.2, "Brier": 0.15, "two-way shares": 0.3}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXYGUARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PROXYGUARD_DATA", raising=False)


def test_frames_become_an_audit_in_one_call(tmp_path: Path) -> None:
    releases = {"a/b": people(500, 2), "second": people(500, 3)}
    releases["second"].loc[4, "ill"] = None
    page = pg.try_out(people(500, 1), releases, outcome="ill", holdout=people(500, 4),
                      limits=LIMITS)  # fmt: skip
    assert set(page.tables) == {"table.parquet", "releases/0001.parquet", "releases/0002.parquet"}
    audit = page.save_audit(tmp_path / "work", fresh=people(500, 5))
    assert audit.check().problems == []
    certificate = audit.run()
    assert certificate is not None
    assert set(certificate.decisions) == {"target/a/b", "target/second"}
    assert audit.verify().good
    with pytest.raises(RegistryError, match="is here already"):
        page.save_audit(tmp_path / "work")
    with pytest.raises(TableError, match="with other records"):
        page.save_audit(tmp_path / "work", fresh=people(500, 6))


@pytest.mark.whole
def test_what_an_object_drew_becomes_files(tmp_path: Path) -> None:
    page = pg.try_out(people(900, 1), Sampled(300), outcome="ill", draws=6, limits=LIMITS)
    audit = page.save_audit(tmp_path / "work", fresh=people(500, 5))
    checked = audit.check()
    assert checked.problems == []
    assert len([*(tmp_path / "work" / "releases").iterdir()]) == 6
    assert "save_audit" in page.to_html()


@pytest.mark.whole
def test_tables_that_are_files_stay_where_they_are(tmp_path: Path) -> None:
    people(500, 1).to_csv(tmp_path / "real.csv", index=False)
    people(500, 2).to_csv(tmp_path / "release.csv", index=False)
    page = pg.try_out(tmp_path / "real.csv", tmp_path / "release.csv", outcome="ill",
                      holdout=people(500, 4), limits=LIMITS)  # fmt: skip
    assert page.tables == {}
    page.save_audit(tmp_path / "work")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["my-audit"]


def test_no_draw_of_the_audit_was_looked_at_and_the_preparation_is_named() -> None:
    page = pg.try_out(people(300, 1), generator="bootstrap", outcome="ill", draws=3, seed=1000,
                      holdout=people(300, 4), limits=LIMITS)  # fmt: skip
    assert page.requirements[0].releases == ("1000", "1001", "1002")
    # Requirements may be taken out of the declaration: its purpose names none.
    assert "is predicted?" not in page.declaration
    assert "seeds = { first = 1003 }" in page.declaration
    assert any("same preparation" in note for note in page.notes)


def test_a_number_beyond_its_range_counts_as_the_end_in_the_audit_as_in_the_trial(
    tmp_path: Path,
) -> None:
    tables = [people(400, seed)[["age", "dose", "cost"]] for seed in range(4)]
    tables[1].loc[3, "cost"] = 2000.0
    tables[2].loc[3, "cost"] = 2000.0
    tables[3].loc[3, "cost"] = 2000.0
    page = pg.try_out(tables[0], {"one": tables[1]}, outcome="cost", holdout=tables[2])
    assert any("records that judge have an outcome beyond the range" in n for n in page.notes)
    assert "moved to its ends" in page.requirements[0].promise
    certificate = page.save_audit(tmp_path / "work", fresh=tables[3]).run()
    assert certificate is not None
