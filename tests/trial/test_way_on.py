"""From a trial of objects to a certificate, without writing a file by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from conformance.typed import environment
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.registry.declaration import read_declaration
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


SCRIPT = """
import json
from pathlib import Path
import numpy as np
import pandas as pd
import proxyguard as pg

SHARE = 0.5

class Sampled:
    def __init__(self, rows):
        self.rows = rows

    def describe(self):
        return {"rows": self.rows}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        return self.source.sample(self.rows, replace=SHARE > 0, random_state=seed.rng("rows"))

def table(rows, seed):
    x = np.random.default_rng(seed).normal(size=rows)
    return pd.DataFrame({"x": x, "ill": np.where(x > 0, "yes", "no")})

if __name__ == "__main__":
    page = pg.try_out(table(700, 1), generator=Sampled, options={"rows": 300}, outcome="ill",
                      draws=12, reliability="0.5", holdout=table(600, 2))
    audit = page.save_audit("work", fresh=table(600, 3))
    checked = audit.check()
    print(json.dumps({"notes": page.notes, "problems": checked.problems,
                      "decisions": [d.value for d in audit.run().decisions.values()],
                      "tables": sorted(page.tables)}))
"""


def test_the_audit_of_a_class_is_of_that_class_and_not_of_what_it_drew(tmp_path: Path) -> None:
    named = pg.try_out(people(300, 1), generator=Sampled, options={"rows": 100}, draws=2,
                       holdout=people(300, 2))  # fmt: skip
    assert f'generator = "{Sampled.__module__}:Sampled"' in named.declaration
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=environment(tmp_path / "home"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert said["problems"] == []
    assert said["decisions"] == ["validated"]
    assert said["tables"] == ["table.parquet"]
    assert not any("object of yours" in note for note in said["notes"])
    (drawn,) = read_declaration(
        (tmp_path / "work" / "my-audit" / "audit.toml").read_text()
    ).members[0].mechanism  # fmt: skip
    assert drawn.generator == "code"
    assert (drawn.options["name"], drawn.options["settings"]) == ("Sampled", {"rows": 300})
    assert "SHARE = 0.5" in str(drawn.options["text"])


def test_what_no_other_process_can_make_says_why_its_audit_is_of_files() -> None:
    class Here(Sampled):
        """A class inside something else, whose names it may use."""

    for generator, options, why in (
        (Sampled(100), {}, "it is made already; give its class"),
        (Here, {"rows": 100}, "is defined inside something else"),
    ):
        page = pg.try_out(people(300, 1), generator=generator, options=options, draws=2,
                          holdout=people(300, 2))  # fmt: skip
        assert 'generator = "files"' in page.declaration
        (note,) = (note for note in page.notes if "object of yours" in note)
        assert "the audit that follows is of files that it drew" in note
        assert why in note
