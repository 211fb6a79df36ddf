"""The screen's two tables of the user's own, on made-up files with the columns of the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from reproduction.audits import reproduce
from reproduction.audits.analyse import tallies_of
from reproduction.audits.published import AUDITS
from reproduction.audits.reproduce import declaration, missing_files, names
from reproduction.datasets import columns, domains
from reproduction.datasets.catalog import entry
from reproduction.datasets.prepare import prepare

ROWS, RESERVED = 900, 200
WHOLE = "screen-whole"


def made_up_files(folder: Path) -> None:
    """Write files that have the columns of COMPAS and of Give Me Some Credit, and others."""
    rng = np.random.default_rng(5)
    priors, late = rng.poisson(2, ROWS), rng.poisson(1, ROWS)
    compas = pd.DataFrame({name: rng.integers(0, 4, ROWS) for name in columns.COMPAS})
    for name, domain in domains.COMPAS.items():
        compas[name] = rng.choice(domain, ROWS)
    compas["priors_count"] = priors
    compas["two_year_recid"] = (priors + rng.normal(0, 1, ROWS) > 2).astype(int)
    compas.insert(0, "name", "a person, whom nobody reads")
    credit = pd.DataFrame({name: rng.random(ROWS).round(3) for name in columns.GMSC})
    credit["NumberOfTimes90DaysLate"] = late
    credit["SeriousDlqin2yrs"] = (late + rng.normal(0, 1, ROWS) > 2).astype(int)
    credit.loc[::7, "MonthlyIncome"] = np.nan
    for data, frame in (("compas", compas), ("give_me_some_credit", credit)):
        (file,) = entry(data).files
        (folder / file.path).parent.mkdir(parents=True)
        frame.to_csv(folder / file.path, na_rep="NA", index_label="")


@pytest.mark.whole
def test_the_tables_of_the_user_are_audited_from_their_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_files(tmp_path / "files")
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path / "files"))
    for data in ("compas", "give_me_some_credit"):
        prepare(data, tmp_path / "data" / data)
    text = declaration("screen-user-files")
    # The real files have 7,214 and 150,000 rows; their reserves are a fifth.
    text = re.sub(r"reserve = \{ rows = \d+", f"reserve = {{ rows = {RESERVED}", text)
    audit = pg.Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"])
    audit.init(text)
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    assert audit.verify().good
    tallies = tallies_of(audit)
    assert set(tallies) == {"COMPAS", "Give Me Some Credit"}
    assert all(sum(tally.values()) == 3 for tally in tallies.values())


def test_the_whole_screen_is_one_family_of_the_published_thirty(tmp_path: Path) -> None:
    for name in (WHOLE, f"{WHOLE}-ours"):
        audit = pg.Audit(tmp_path / name, home=tmp_path / "home")
        audit.init(declaration(name))
        declared = audit.folder.declaration()
        assert declared.name == name
        assert sorted(member.name for member in declared.members) == sorted(AUDITS[WHOLE].tallies)
        assert sum(len(member.mechanism) for member in declared.members) == 30
    # Published sizes of the two targets (Tab. real_audit_full).
    sizes = dict(re.findall(r'name = "(COMPAS|Give Me Some Credit)".*?rows = (\d+)',
                            declaration(WHOLE), flags=re.DOTALL))  # fmt: skip
    assert sizes == {"COMPAS": "1443", "Give Me Some Credit": "30000"}


def test_without_the_files_a_run_of_all_leaves_the_screen_out_and_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lacking = missing_files(WHOLE)
    assert lacking == ["compas/compas-scores-two-years.csv", "give_me_some_credit/cs-training.csv"]
    assert all(not missing_files(name) for name in names() if name != WHOLE)
    monkeypatch.setattr(reproduce, "names", lambda: (WHOLE,))
    monkeypatch.setattr(reproduce, "run_all", lambda *given: pytest.fail("it was run"))
    monkeypatch.setattr("sys.argv", ["reproduce", "--out", str(tmp_path / "audits.md")])
    reproduce.main()
    assert f"== {WHOLE} is left out: it needs compas/compas-scores" in capsys.readouterr().out
