"""What a trial uses up and what it keeps back; mistakes that are found before anything is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from conformance.typed import proxyguard
from proxyguard.cli.show import Exit
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.target import TableReading
from proxyguard.tables.files import read_table
from trial.tables import people

LIMITS = ("--limit", "two-way shares=0.3", "--exclude", "stage", "--exclude", "cost")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a table, the rows that a maker had, and two releases."""
    table = people(1400, 1)
    table.to_csv(tmp_path / "patients.csv", index=False)
    table[:700].to_csv(tmp_path / "given.csv", index=False)
    (tmp_path / "made").mkdir()
    for name, seed in (("s2", 5), ("s10", 6)):
        people(700, seed).to_csv(tmp_path / "made" / f"{name}.csv", index=False)
    return tmp_path


def rows_of(path: Path) -> set[tuple[object, ...]]:
    return set(read_table(path, TableReading()).itertuples(index=False, name=None))


def test_rows_that_are_kept_were_never_looked_at_and_begin_the_audit(work: Path) -> None:
    told = ("--outcome", "ill", "--made-from", "given.csv", *LIMITS)
    done = proxyguard(work, "try", "patients.csv", "made", "--keep", "300", *told)
    assert done.returncode in (Exit.DONE, Exit.UNRESOLVED), done.stderr
    assert "300 rows were kept back, not looked at here and not remembered" in done.stderr
    assert "the other 400 judge" in done.stdout
    kept = work / "try-out" / "kept"
    fresh = rows_of(kept / "fresh.csv")
    assert (kept / ".gitignore").read_text() == "*\n"
    assert {path.name for path in kept.iterdir()} == {".gitignore", "fresh.csv"}
    assert not fresh & rows_of(work / "given.csv")
    assert fresh < rows_of(work / "patients.csv")
    once_more = proxyguard(work, "try", "patients.csv", "made", "--keep", "300", *told)
    assert once_more.returncode == done.returncode, once_more.stderr  # the very same rows
    begun = proxyguard(work, "init", "my-audit", "--from", "try-out")
    assert begun.returncode == Exit.DONE, begun.stderr
    assert "Put first" not in begun.stdout
    assert not (work / "fresh.csv").exists()
    declared = (work / "my-audit" / "audit.toml").read_text()
    assert (
        "# kept/fresh.csv has the rows that were kept back before the trial looked.\n" in declared
    )
    checked = proxyguard(work, "check", "my-audit")
    assert checked.returncode == Exit.DONE, checked.stdout + checked.stderr
    assert "guarantee no" not in checked.stdout
    # They are the only copy: no later trial writes over them.
    again = proxyguard(work, "try", "patients.csv", "made", "--keep", "200", *told)
    assert again.returncode == Exit.ERROR
    assert "try-out/kept/fresh.csv is there already" in again.stderr


def test_rows_that_an_earlier_trial_used_are_kept_and_said_to_be_used(work: Path) -> None:
    told = ("try", "patients.csv", "--generator", "bootstrap", "--draws", "2", "--keep", "300",
            "--home", "home", *LIMITS)  # fmt: skip
    kept = {}
    for out, seed in (("one", "1"), ("same", "1"), ("two", "2")):
        done = proxyguard(work, *told, "--seed", seed, "--out", out)
        assert done.returncode in (Exit.DONE, Exit.UNRESOLVED, Exit.VIOLATION), done.stderr
        kept[out] = rows_of(work / out / "kept" / "fresh.csv")
        if out == "two":
            used = len(kept["two"] - kept["one"])
            said = f"{used} of the 300 rows that were kept are no fresh ones: the trial of 'patie"
            assert said in done.stderr
            assert said in done.stdout
        else:
            assert "no fresh ones" not in done.stderr + done.stdout
    assert kept["one"] == kept["same"]


def test_rows_beside_those_that_were_kept_are_found_before_the_work(work: Path) -> None:
    (work / "try-out" / "kept").mkdir(parents=True)
    (work / "try-out" / "kept" / "other-rows.csv").write_text("of an earlier trial\n")
    told = proxyguard(work, "try", "patients.csv", "--generator", "bootstrap", "--draws", "2",
                      "--keep", "300", "--home", "home", *LIMITS)  # fmt: skip
    assert told.returncode == Exit.ERROR
    assert "try-out/kept/other-rows.csv is there already" in told.stderr
    assert not (work / "home").exists()


class Told:
    """A generator that tells of every draw."""

    def __init__(self) -> None:
        self.drawn = 0

    def describe(self) -> dict[str, str]:
        return {"mechanism": "told"}

    def prepare(self, source: pd.DataFrame, rng: object) -> None:
        self.source = source

    def draw(self, seed: int) -> pd.DataFrame:
        self.drawn += 1
        return self.source


@pytest.mark.parametrize("what", ["a file", "a link", "a broken store"])
def test_a_home_that_cannot_remember_is_found_before_anything_is_drawn(
    tmp_path: Path, what: str
) -> None:
    home, generator = tmp_path / "home", Told()
    if what == "a file":
        home.write_text("")
    elif what == "a link":
        (tmp_path / "other").mkdir()
        home.symlink_to(tmp_path / "other")
    else:
        home.mkdir(mode=0o700)
        (home / "lineage.sqlite").write_bytes(b"none" * 100)
        (home / "lineage.key").write_text("00" * 32)
    with pytest.raises(pg.ProxyGuardError, match=r"home|lineage"):
        pg.try_out(people(300, 1), generator=generator, draws=3, home=home, workers=1)
    assert generator.drawn == 0


def test_a_setting_that_would_change_nothing_is_refused() -> None:
    table, made = people(300, 1), people(300, 3)
    given: dict[str, object]
    for given, what in (
        ({"generator": "bootstrap", "independent": True}, "leave --independent out"),
        ({"releases": made, "draws": 5}, "leave --draws out, or name --generator"),
        ({"releases": made, "reliability": "0.5"}, "or say --independent"),
    ):
        with pytest.raises(pg.RegistryError, match=what):
            pg.try_out(table, holdout=people(300, 2), **given)  # type: ignore[arg-type]


def test_a_column_that_is_declared_as_excluded_is_left_out() -> None:
    left_out = {"columns": {"age": {"exclude": True}}, "limits": {"two-way shares": 0.3}}
    trial = pg.try_out(people(600, 1), generator="bootstrap", draws=2, workers=1, **left_out)  # type: ignore[arg-type]
    assert {c.name: c.use for c in trial.columns}["age"] == "left out"
    assert "'age'" not in " ".join(trial.sentences)
    with pytest.raises(pg.RegistryError, match="is the outcome, so it cannot be left out"):
        pg.try_out(people(600, 1), generator="bootstrap", outcome="age", **left_out)  # type: ignore[arg-type]


def test_a_folder_of_somebody_else_has_no_file_of_this_machine_found(work: Path) -> None:
    done = proxyguard(work, "try", "patients.csv", "made", "--holdout", "given.csv", *LIMITS)
    assert done.returncode in (Exit.DONE, Exit.UNRESOLVED, Exit.VIOLATION), done.stderr
    theirs = work / "theirs"
    theirs.mkdir()
    (theirs / "audit.toml").write_bytes((work / "try-out" / "audit.toml").read_bytes())
    for source, missing in (("try-out", 1), ("theirs", 4)):
        begun = proxyguard(work, "init", f"mine/{source}", "--from", source, "--json")
        assert begun.returncode == Exit.DONE, begun.stderr
        # Of its own trial all are found, but for the fresh records: where they were, not copied.
        assert len(json.loads(begun.stdout)["missing"]) == missing
    assert sorted(path.name for path in (work / "mine").iterdir()) == ["theirs", "try-out"]
    (theirs / "audit.toml").unlink()
    os.mkfifo(theirs / "audit.toml")
    fifo = proxyguard(work, "init", "mine/other", "--from", "theirs")
    assert "audit.toml is a FIFO, expected a file" in fifo.stderr


def test_rows_are_kept_from_what_may_judge_and_an_audit_learns_from_the_others() -> None:
    table, holdout = people(600, 1), people(500, 2)
    given = {"limits": {"two-way shares": 0.3}, "workers": 1, "keep": 100}
    drawn = pg.try_out(table, generator="bootstrap", draws=2, **given)  # type: ignore[arg-type]
    assert set(drawn.kept) == {"kept/fresh.csv", "kept/other-rows.csv"}
    assert 'table = "kept/other-rows.csv"' in drawn.declaration
    assert drawn.n_records == 150  # 30 % of the other 500
    held = pg.try_out(table, people(600, 3), holdout=holdout, **given)  # type: ignore[arg-type]
    assert (set(held.kept), held.n_records) == ({"kept/fresh.csv"}, 400)
    with pytest.raises(pg.RegistryError, match="nobody said which those are: give --made-from"):
        pg.try_out(table, people(600, 3), **given)  # type: ignore[arg-type]
    with pytest.raises(pg.TableError, match="of 500 rows that may judge at most 470 can be kept"):
        pg.try_out(table, people(600, 3), holdout=holdout, keep=480)


def test_an_audit_of_frames_has_the_rows_that_were_kept(tmp_path: Path) -> None:
    page = pg.try_out(
        people(600, 1), {"a": people(600, 3)}, holdout=people(500, 2), keep=120, workers=1
    )
    audit = page.save_audit(tmp_path / "work")
    assert audit.check().problems == []
    assert len(rows_of(tmp_path / "work" / "kept" / "fresh.csv")) == 120
    assert (tmp_path / "work" / "kept" / ".gitignore").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--limit", "eror=0.1"), "limits has ['eror'], and what is required here is"),
        (("--exclude", "ill"), "'ill' is the outcome, so it cannot be left out as well"),
        (("--out", "patients.csv"), "--out is patients.csv, and patients.csv is a file"),
        (("--generator", "bootstrap"), "both releases and a generator are given"),
        (("--outcome", "empty"), "has a value of 'empty': there is nothing to predict"),
        (("--outcome", "coded"), '--column \'coded = { kind = "number", missing = ["code a"'),
    ],
)
def test_a_mistake_is_told_and_uses_no_record_up(
    work: Path, typed: tuple[str, ...], said: str
) -> None:
    table = read_table(work / "patients.csv", TableReading())
    coded = table["cost"].where(table.index % 3 > 0, "code a")
    table.assign(empty="", coded=coded).to_csv(work / "patients.csv", index=False)
    release = people(700, 5)
    release.assign(empty="", coded=release["cost"]).to_csv(work / "made" / "s2.csv", index=False)
    told = proxyguard(work, "try", "patients.csv", "made/s2.csv", "--outcome", "ill", "--home",
                      "home", *typed)  # fmt: skip
    assert told.returncode == Exit.ERROR, told.stdout
    assert said in " ".join(told.stderr.split())
    assert not any(p.is_file() for p in (work / "home").rglob("*"))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("try", ".", "made"), ". is a folder, expected a table; name a file"),
        (("try", "x.json", "made"), "x.json is no table that is read here, expected is one of"),
        (("try", "patients.csv"), "give what stands in for the table: releases"),
    ],
)
def test_what_is_no_table_is_told_plainly(work: Path, typed: tuple[str, ...], said: str) -> None:
    (work / "x.json").write_text("[]")
    told = proxyguard(work, *typed)
    assert told.returncode == Exit.ERROR
    assert said in " ".join(told.stderr.split())


def test_a_verb_that_is_misspelt_is_asked_about_once(work: Path) -> None:
    told = proxyguard(work, "tri", "patients.csv")
    assert told.stderr.lower().count("did you mean") == 1


def test_all_that_is_wrong_with_releases_is_told_at_once(work: Path) -> None:
    people(99, 8).drop(columns="ill").to_csv(work / "made" / "no-label.csv", index=False)
    (work / "made" / "empty.csv").write_text("")
    (work / "made" / "twin.csv").write_bytes((work / "made" / "s2.csv").read_bytes())
    told = proxyguard(work, "try", "patients.csv", "made", "--outcome", "ill", "--made-from",
                      "given.csv", "--independent")  # fmt: skip
    assert told.returncode == Exit.ERROR
    said = " ".join(told.stderr.split())
    assert "3 of 5 releases cannot be used as they are" in said
    for words in ("empty.csv is empty", "no-label.csv has no column 'ill'", "same records"):
        assert words in said


def test_progress_names_the_files_that_the_user_has() -> None:
    told: list[str] = []
    pg.try_out(
        people(300, 1), {"mine.csv": people(300, 3)}, holdout=people(300, 2), workers=1,
        progress=lambda what, done, total: told.append(what),
    )  # fmt: skip
    assert "mine.csv" in told
    assert not any(name.isdigit() for name in told)


class Fixed:
    """A generator that leaves its seed alone."""

    def describe(self) -> dict[str, str]:
        return {"mechanism": "the same"}

    def prepare(self, source: pd.DataFrame, rng: object) -> None:
        self.source = source

    def draw(self, seed: int) -> pd.DataFrame:
        return self.source


def test_a_generator_without_randomness_is_told_in_words_of_a_trial(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pg.ProxyGuardError) as refused:
        pg.try_out(people(300, 1), generator=Fixed, draws=3, workers=1)
    assert "declare deterministic" not in str(refused.value)
    assert "amend" not in str(refused.value)
    assert "give its one release as a table" in str(refused.value)


def test_it_is_said_before_the_work_that_the_holdout_is_used_up(work: Path) -> None:
    held, told = people(300, 2), list[str]()
    given = {"outcome": "ill", "workers": 1, "tell": told.append}
    pg.try_out(people(300, 1), people(300, 3), holdout=held, **given)  # type: ignore[arg-type]
    assert told == [
        "all 300 rows of the holdout are used up by this trial, and an audit needs others: "
        "--keep N sets N of them aside first, not looked at"
    ]
    told.clear()
    pg.try_out(people(300, 1), people(300, 3), holdout=held, keep=100, **given)  # type: ignore[arg-type]
    assert not any("--keep N" in line for line in told)


def test_exposure_needs_no_holdout_where_the_rows_made_from_are_known(work: Path) -> None:
    table = people(1200, 1)
    told: list[str] = []
    trial = pg.try_out(
        table, {"copies": table[:500], "other": people(500, 7)}, made_from=table[:500],
        exposure=True, workers=1, limits={"two-way shares": 0.3}, tell=told.append,
    )  # fmt: skip
    assert trial.requirements[-1].name == "exposure"
    assert trial.decisions["copies"] is pg.Decision.VIOLATION
    line = "exposure takes 210 of these 700 rows for its attacks to compare with, so 490 judge"
    assert line in told
    assert line in trial.notes
    assert trial.n_records == 490


def test_an_audit_finds_the_tables_of_its_trial_where_they_were_and_refuses_what_it_saw(
    work: Path,
) -> None:
    """In folders of their own, from another one, and in a home that knows nothing of the trial."""
    (work / "data").mkdir()
    for name in ("patients.csv", "given.csv", "made"):
        (work / name).rename(work / "data" / name)
    people(500, 12).to_csv(work / "data" / "test.csv", index=False)
    (work / "elsewhere").mkdir()
    tried = proxyguard(
        work / "elsewhere", "try", "../data/patients.csv", "../data/made", "--made-from",
        "../data/given.csv", "--holdout", "../data/test.csv", "--outcome", "ill", "--home",
        "../home", *LIMITS,
    )  # fmt: skip
    assert tried.returncode in (Exit.DONE, Exit.UNRESOLVED, Exit.VIOLATION), tried.stderr
    begun = proxyguard(work, "init", "audits/first", "--from", "elsewhere/try-out")
    assert begun.returncode == Exit.DONE, begun.stderr
    declared = (work / "audits" / "first" / "audit.toml").read_text()
    for line in ('table = "given.csv"', 'file = "made/s2.csv"', 'file = "made/s10.csv"'):
        assert line in declared
    assert "Put first" in begun.stdout
    assert begun.stdout.count(".csv: ") == 1  # the fresh records alone
    people(500, 13).to_csv(work / "audits" / "fresh.csv", index=False)
    checked = proxyguard(work, "check", "audits/first")
    assert checked.returncode == Exit.DONE, checked.stdout + checked.stderr
    # Shuffled, and in a home of somebody who never saw the trial.
    people(500, 12).sample(frac=1.0).to_csv(work / "audits" / "fresh.csv", index=False)
    other = ("--data", "data", "--home", "other-home")
    refused = proxyguard(work, "check", "audits/first", *other)
    assert refused.returncode == Exit.ERROR
    assert "has the records of 'test.csv', which were looked at before" in refused.stdout
    sealed = proxyguard(work, "seal", "audits/first", *other)
    assert "has the records of 'test.csv'" in " ".join(sealed.stderr.split())


def test_a_coarse_table_has_no_digest_that_could_be_tried() -> None:
    few = [people(200, seed)[["site", "ill"]] for seed in (1, 2, 3)]
    coarse = pg.try_out(few[0], few[1], holdout=few[2], workers=1)
    assert "seen = " not in coarse.declaration
    fine = pg.try_out(people(200, 1), people(200, 2), holdout=people(200, 3), workers=1)
    assert fine.declaration.count("seen = {") == 1


def test_what_decides_nothing_is_left_out_of_the_audit_and_named() -> None:
    rng = np.random.default_rng(0)

    def rare(seed: int) -> pd.DataFrame:
        table = people(900, seed)[["age", "dose", "ill"]]
        return table.assign(ill=np.where(rng.random(900) < 0.02, "yes", "no"))

    page = pg.try_out(rare(1), rare(2), outcome="ill", holdout=rare(3), workers=1)
    (member,) = read_declaration(page.declaration).members
    assert [part.name for part in member.requirement] == ["two-way shares"]
    for name in ("error", "Brier"):
        line = f"# Left out: '{name}': a release that learned nothing keeps its limit"
        assert page.declaration.count(line) == 1
    assert sum("The audit that follows leaves it out." in line for line in page.heading) == 2
    assert [requirement.name for requirement in page.requirements][:2] == ["error", "Brier"]
