"""``reproduction data`` lists, fetches, finds and prepares; JSON for programs, words for people."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

import proxyguard as pg
import reproduction
from conformance import warm

SOURCES = os.pathsep.join(str(Path(str(one.__file__)).parents[1]) for one in (pg, reproduction))
DATA = os.environ.get("PROXYGUARD_DATA")
CREDIT = """\
"",SeriousDlqin2yrs,RevolvingUtilizationOfUnsecuredLines,age,NumberOfTime30-59DaysPastDueNotWorse,\
DebtRatio,MonthlyIncome,NumberOfOpenCreditLinesAndLoans,NumberOfTimes90DaysLate,\
NumberRealEstateLoansOrLines,NumberOfTime60-89DaysPastDueNotWorse,NumberOfDependents
1,1,0.766,45,2,0.803,9120,13,0,6,0,2
2,0,0.957,40,0,0.122,NA,4,0,0,0,NA
"""

Done = subprocess.CompletedProcess[str]


def data(cache: Path, *arguments: str, folder: str | None = None) -> Done:
    """Run one command with an empty cache and, unless told otherwise, no data folder."""
    environment = {
        **os.environ, "PYTHONPATH": SOURCES, "XDG_CACHE_HOME": str(cache),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    environment.pop("PROXYGUARD_DATA", None)
    if folder is not None:
        environment["PROXYGUARD_DATA"] = folder
    command = [sys.executable, "-m", "reproduction", "data", *arguments]
    return warm.run(command, env=environment, cwd=cache)


def test_the_list_says_what_each_data_set_is_and_whether_it_is_here(tmp_path: Path) -> None:
    listed = json.loads(data(tmp_path, "list", "--json").stdout)
    magic = next(one for one in listed if one["name"] == "magic")
    assert magic["files"][0]["rows"] == 19_020  # UCI's description of the data set
    assert magic["files"][0]["here"] is None
    assert magic["unchecked"]
    words = data(tmp_path, "list").stdout.splitlines()
    assert len(words) == len(listed)
    assert "to fetch" in words[0]
    assert "MAGIC Gamma Telescope" in words[0]
    (tmp_path / "magic").mkdir()
    (tmp_path / "magic" / "magic04.data").write_text("anything")
    assert "here" in data(tmp_path, "list", folder=str(tmp_path)).stdout.splitlines()[0]


def test_every_content_that_is_known_has_its_digest_in_the_list(tmp_path: Path) -> None:
    listed = {one["name"]: one for one in json.loads(data(tmp_path, "list", "--json").stdout)}
    words = {line.split()[0]: line for line in data(tmp_path, "list").stdout.splitlines()}
    # The arrays of scikit-learn as it has them, by a computation of our own.
    bunch = load_breast_cancer()
    arrays = bunch.data.astype("<f8").tobytes() + bunch.target.astype("<i8").tobytes()
    expected = hashlib.sha256(arrays).hexdigest()
    assert listed["wdbc"]["sha256"] == expected
    assert f"sha256 {expected[:12]}" in words["wdbc"]
    assert listed["magic"]["sha256"] is None
    assert listed["magic"]["files"][0]["sha256"][:12] in words["magic"]
    assert "4 files" in words["heart"]  # UCI has one a clinic
    assert "no digest" in words["compas"]  # nothing is known of what users bring


def test_what_is_not_here_is_answered_with_the_command_that_gets_it(tmp_path: Path) -> None:
    done = data(tmp_path, "path", "magic")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("proxyguard: magic/magic04.data is neither in")
    assert done.stderr.rstrip().endswith("run: python -m reproduction data fetch magic")


def test_personal_data_are_refused_with_the_way_to_bring_them(tmp_path: Path) -> None:
    done = data(tmp_path, "fetch", "compas")
    assert done.returncode == 1
    assert "no open licence" in done.stderr
    assert "python -m reproduction data prepare compas --file FILE" in done.stderr


def test_a_file_that_is_not_the_official_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "forged.csv").write_text("ID,X1\n1,2\n")
    done = data(tmp_path, "fetch", "taiwan", "--from", str(tmp_path / "forged.csv"), "--json")
    assert done.returncode == 1
    assert "is not the file of the catalog: promised 2862995 bytes" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in (tmp_path / "proxyguard").rglob("*") if path.is_file()]


def test_a_table_is_prepared_from_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(CREDIT)
    done = data(tmp_path, "prepare", "give_me_some_credit", "--file", "mine.csv", "--out", "out",
                "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    (table,) = json.loads(done.stdout)
    assert table["path"] == "out/give_me_some_credit.csv"
    assert table["rows"] == 2
    written = (tmp_path / table["path"]).read_bytes()
    assert table["sha256"] == hashlib.sha256(written).hexdigest()
    assert written.splitlines()[2] == b"0,0.957,40,0,0.122,,4,0,0,0,"


@pytest.mark.parametrize(
    "arguments",
    [("path", "magik"), ("fetch",), ("prepare", "magic"),
     ("prepare", "magic", "--out", "x", "--format", "xlsx")],
)  # fmt: skip
def test_what_was_typed_wrongly_is_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = data(tmp_path, *arguments)
    assert done.returncode == 2
    assert "Usage: " in done.stderr


@pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "magic").exists(),
    reason="PROXYGUARD_DATA does not name a folder with magic",
)
def test_the_users_folder_is_used_and_nothing_is_fetched(tmp_path: Path) -> None:
    for verb in ("fetch", "path"):
        done = data(tmp_path, verb, "magic", "--json", folder=DATA)
        assert json.loads(done.stdout)["paths"] == [f"{DATA}/magic/magic04.data.gz"]
    done = data(tmp_path, "prepare", "magic", "--out", "out", folder=DATA)
    assert done.stdout == "out/magic.csv: 19020 rows, 11 columns\n"
    assert not (tmp_path / "proxyguard").exists()
