"""Stays in a hospital as it has them: persons who come again, months that follow, two spellings."""

from __future__ import annotations

import io
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.modes.evidence import Decision
from proxyguard.registry.declaration import read_declaration
from trial.tables import people

FOUR = ["J", "Ja", "N", "Nej"]


def stays(rows: int, seed: int, *, first: int, since: str, short: float = 0.0) -> pd.DataFrame:
    """Return stays with the number of a person, of whom some come again, and a number of a stay.

    ``short`` is the share of labels that are written by their first letter.
    """
    rng = np.random.default_rng(seed)
    table = people(rows, seed)[["age", "dose", "site", "ill"]]
    persons = np.arange(first, first + int(0.9 * rows))
    table["Patientnr"] = np.concatenate([persons, rng.choice(persons, rows - len(persons))])
    table["visit"] = rng.permutation(np.arange(7 * first, 7 * first + rows))
    days = rng.integers(0, 300, size=rows).astype("timedelta64[D]")
    table["admitted"] = pd.Series(np.datetime64(since) + days).dt.strftime("%d.%m.%Y")
    said = table["ill"].map({"yes": "Ja", "no": "Nej"})
    table["ill"] = said.where(rng.random(rows) >= short, said.str[0])
    return table.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def real_and_later(short: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = stays(900, 41, first=100_001, since="2022-01-01", short=short)
    return table, stays(900, 42, first=200_001, since="2023-01-01", short=short)


def released(seed: int) -> pd.DataFrame:
    """Return a release of the table's law, whose persons and stays are counted from 1."""
    release = stays(900, seed, first=1, since="2022-01-01")
    return release.assign(Patientnr=range(1, 901), visit=range(1, 901))


GIVEN = {"outcome": "ill", "workers": 1, "limits": {"two-way shares": 0.3}}


@pytest.fixture(scope="module")
def tried() -> pg.Trial:
    """Good releases of stays, judged by those of the year that follows."""
    table, later = real_and_later()
    return pg.try_out(table, [released(43), released(44)], holdout=later, **GIVEN)  # type: ignore[arg-type]


def test_a_number_of_a_person_who_comes_again_is_an_id_and_fails_nothing(tried: pg.Trial) -> None:
    assert tried.decision is Decision.VALIDATED
    (line,) = (note for note in tried.notes if "look like ids" in note)
    assert "visit, Patientnr; --column 'visit = { kind = " in line
    assert {c.name: c.use for c in tried.columns}["Patientnr"] == "left out"
    (again,) = (note for note in tried.notes if "repeats" in note)
    assert "'Patientnr' repeats, with 810 values in 900 rows: rows of one person depend" in again
    # The audit that follows may be declared with them, as its comment says.
    proposed = tried.declaration.replace(
        '# design = { by = "Patientnr"', 'design = { by = "Patientnr"'
    )
    assert proposed != tried.declaration
    proposed = proposed.replace('missing_outcomes = "leave out"', 'missing_outcomes = "refuse"')
    assert read_declaration(proposed).members[0].target.label_columns == ("Patientnr",)


def test_persons_who_also_train_are_counted_among_rows_that_judge_or_are_kept(
    tmp_path: Path,
) -> None:
    table, later = real_and_later()
    later.loc[:39, "Patientnr"] = table.loc[:39, "Patientnr"]
    given = {**GIVEN, "keep": 300, "home": tmp_path / "home", "exclude": ["Patientnr", "visit"]}
    trial = pg.try_out(table, released(43), holdout=later, **given)  # type: ignore[arg-type]
    (content,) = trial.kept.values()
    kept = pd.read_csv(io.BytesIO(content))
    judges = later[~later["visit"].isin(kept["visit"])]["Patientnr"]
    met = int(judges.isin(table["Patientnr"]).sum())
    again = int(kept["Patientnr"].isin([*table["Patientnr"], *judges]).sum())
    assert 0 < met < 40 < again
    said = "\n".join(trial.heading)
    assert f"{met} of 600 rows that judge have a 'Patientnr' of rows that train:" in said
    assert f"{again} of 300 rows that were kept have a 'Patientnr' of rows that train or" in said
    assert "'visit'" not in said


def test_an_id_is_kept_where_the_user_says_what_it_is() -> None:
    table, later = real_and_later()
    kept = pg.try_out(
        table,
        released(43),
        holdout=later,
        columns={"Patientnr": {"kind": "number"}},
        **GIVEN,  # type: ignore[arg-type]
    )
    assert {c.name: c.use for c in kept.columns}["Patientnr"] == "used as a number"


def test_codes_of_which_releases_have_others_are_ids_and_wrong_measures_are_not() -> None:
    rng = np.random.default_rng(0)
    table, later, release = (people(900, seed)[["age", "dose", "ill"]] for seed in (31, 32, 33))
    for k, frame in enumerate((table, later)):
        # Neither called an id nor without gaps; and a measure that differs nearly everywhere.
        frame["bed"] = rng.choice(np.arange(5000), 900, replace=False)[rng.integers(0, 810, 900)]
        frame["income"] = rng.integers(9_000, 90_000, 900) + k
    release["bed"] = np.arange(10_000, 10_900)
    release["income"] = rng.integers(900_000, 9_000_000, 900)
    given = {**GIVEN, "limits": {"two-way shares": 0.1}}
    trial = pg.try_out(table, release, holdout=later, **given)  # type: ignore[arg-type]
    (line,) = (note for note in trial.notes if "look like ids" in note)
    assert "look like ids, of which releases have others: bed; " in line
    # A release whose incomes are a hundred times too large is told, and fails.
    assert any("'income' has nearly no value within the range" in why for why in trial.heading)
    assert trial.decision is Decision.VIOLATION


def test_columns_that_tell_how_the_target_moved_are_told_once_and_not_judged_by_shares(
    tried: pg.Trial,
) -> None:
    (line,) = (why for why in tried.heading if "No share or mean is asked" in why)
    assert "'admitted' (100%: 2022-01-01 to 2022-10-" in line
    assert "--exclude admitted leaves it out of the models, too." in line
    assert "'admitted'" not in tried.requirements[-1].promise
    assert "admitted" in {c.name for c in tried.columns if c.use != "left out"}
    # All of them in one run, of texts as well, with one line to type.
    table, later = real_and_later()
    wards = [("ward", "old ward", "a new one"), ("form", "A", "B")]
    for name, before, after in wards:
        table[name] = np.where(np.arange(900) % 2 > 0, before, f"{before} 2")
        later[name] = np.where(np.arange(900) % 3 > 0, after, f"{after} 2")
    releases = {"r": released(43).assign(**{name: table[name] for name, *_ in wards})}
    both = pg.try_out(table, releases, holdout=later, **GIVEN)  # type: ignore[arg-type]
    (line,) = (why for why in both.heading if "No share or mean is asked" in why)
    assert "--exclude admitted --exclude ward --exclude form leaves" in line
    assert both.decision is Decision.VALIDATED


def test_a_limit_of_shares_that_the_table_itself_misses_is_told_above_the_verdict() -> None:
    table, later = people(900, 34), people(900, 35)
    later["site"] = "north"
    trial = pg.try_out(
        table, people(900, 36), outcome="ill", holdout=later, exclude=["stage", "cost"], workers=1
    )
    (line,) = (why for why in trial.heading if "The table itself misses the limit" in why)
    assert "'site' by " in line
    assert "--exclude site asks nothing of it" in line


def test_two_spellings_of_an_outcome_stop_before_anything_is_used_up(tmp_path: Path) -> None:
    table, later = real_and_later(short=0.05)
    told = list[str]()
    given = {"holdout": later, "home": tmp_path / "home", "tell": told.append, **GIVEN}
    below = table.assign(dose=table["dose"].astype(str).where(table["dose"] > 6.0, "<6"))
    with pytest.raises(pg.RegistryError, match="'J' beside 'Ja', 'N' beside 'Nej'") as stopped:
        pg.try_out(below, released(43), **given)  # type: ignore[arg-type]
    # What else is to be typed is told before that.
    assert any(
        """--column 'dose = { kind = "number", same = { "<6" = "3" } }'""" in t for t in told
    )
    assert not list((tmp_path / "home").glob("*.sqlite"))
    one, several = str(stopped.value).split("--column '")[1:]
    said = tomllib.loads(one.partition("'")[0])
    assert said == {"ill": {"same": {"J": "Ja", "N": "Nej"}}}
    trial = pg.try_out(table, released(43), columns=said, **given)  # type: ignore[arg-type]
    assert trial.decision is Decision.VALIDATED
    assert 'ill = { same = { J = "Ja", N = "Nej" } }' in trial.declaration
    apart = tomllib.loads(several.partition("'")[0])
    with pytest.raises(pg.DrawError, match="no release can be used"):  # it came that far
        pg.try_out(table, released(43).assign(ill="K"), columns=apart, **given)  # type: ignore[arg-type]


def test_a_limit_is_proposed_only_where_these_records_can_settle_it(tried: pg.Trial) -> None:
    rng = np.random.default_rng(5)

    def hardly(rows: int, seed: int) -> pd.DataFrame:
        """Return people of whom the columns hardly tell who is ill."""
        table = people(rows, seed)[["age", "dose", "ill"]]
        guess = rng.random(rows) < 0.15 + 0.1 * (table["age"] > 55)
        return table.assign(ill=np.where(guess, "yes", "no"))

    trial = pg.try_out(hardly(900, 51), hardly(900, 53), holdout=hardly(700, 52), **GIVEN)  # type: ignore[arg-type]
    told = [line for line in trial.heading if "says little here" in line]
    assert not any("--limit" in line for line in told)
    refused = [line for line in told if "cannot tell differences under about" in line]
    assert refused == told
    assert all("700 records cannot tell" in line for line in told)
    assert not any("says little" in line for line in tried.heading)


def test_every_requirement_has_its_own_verdict_and_the_one_in_the_way_is_named() -> None:
    table, later = people(900, 54), people(1200, 55)
    given = {**GIVEN, "exclude": ["stage", "cost"], "limits": {"two-way shares": 0.12}}
    trial = pg.try_out(
        table,
        [people(900, 56), people(900, 57, noise=0.45)],
        holdout=later,
        keep=80,
        **given,  # type: ignore[arg-type]
    )
    said = {requirement.name: requirement.decided for requirement in trial.requirements}
    assert said["error"] == said["Brier"] == "It holds for 1, is missed for 1 of 2 releases."
    assert said["two-way shares"].startswith("It ")
    assert trial.requirements[0].sentence.startswith(f"{said['error']} The error rate")
    assert said["error"] in trial.to_html()
    # 80 kept rows are too few, and it is said which requirement wants how many.
    (size,) = re.findall(r"stands 'error': about ([\d,]+) fresh records would do", trial.power)
    assert 80 < int(size.replace(",", "")) < 5000


def test_it_is_told_before_the_work_that_too_few_rows_are_kept() -> None:
    told = list[str]()
    given = {"workers": 1, "tell": told.append}
    trial = pg.try_out(people(300, 58), people(300, 59), holdout=people(600, 60), keep=90, **given)  # type: ignore[arg-type]
    assert told[0] == (
        "90 rows are kept and 510 judge: an audit on so few may not show what is seen here; --keep "
        "about as many as judge"
    )
    assert any(
        "10 points because fewer than 2,000 rows judge, here 510; else it is 5" in note
        for note in trial.notes
    )


def test_rows_that_were_written_anew_since_are_rows_that_were_looked_at(tmp_path: Path) -> None:
    table, later = people(400, 61), people(400, 62)
    given = {"workers": 1, "home": tmp_path / "home"}
    pg.try_out(table, people(400, 63), holdout=later, **given)  # type: ignore[arg-type]
    # A person mends the texts of a column; a few rows stay as they were.
    anew = later.assign(site=later["site"].str.upper())
    anew[:20] = later[:20]
    again = pg.try_out(table, people(400, 63), holdout=anew, keep=150, **given)  # type: ignore[arg-type]
    told = [line for line in again.weaker if "no fresh ones" in line or "looked at before" in line]
    counts = [re.findall(r"(?:at least )?(\d+) of the (\d+) rows", line)[0] for line in told]
    assert [rows for _, rows in counts] == ["150", "250"]
    assert all(int(met) > 0.9 * int(rows) for met, rows in counts)
    # What was kept is then no row that nothing has seen, and no line says so.
    assert not any("not remembered" in note for note in again.notes)
    assert any(
        "150 rows were kept back as kept/fresh.csv, not looked at in this" in n for n in again.notes
    )
