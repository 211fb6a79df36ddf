"""A table as people have it, and mistakes that people make: what is read, said, and what fails."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from conformance.typed import proxyguard
from proxyguard.audit.register import check_queries
from proxyguard.cli.show import Exit
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.fields import is_day
from proxyguard.trial.demands import number_words
from proxyguard.trial.rows import apart
from trial.tables import people


def hospital(rows: int, seed: int) -> pd.DataFrame:
    """Return records with words for gaps, decimals with a comma, and dates that nobody declared."""
    rng = np.random.default_rng(seed)
    table = people(rows, seed)[["age", "ill"]]
    crp = rng.gamma(2.0, 8.0, size=rows).round(1)
    table["crp"] = pd.Series(crp).astype(str).where(rng.random(rows) > 0.1, "k.A.")
    table["cost"] = [f"{x:,.2f}".translate(str.maketrans(",.", ".,")) for x in 90.0 * crp]
    days = rng.integers(0, 900, size=rows).astype("timedelta64[D]")
    table["admitted"] = pd.Series(np.datetime64("2021-01-01") + days).dt.strftime("%d.%m.%Y")
    return table


SMALL = {"workers": 1, "limits": {"two-way shares": 0.3}}


class Seen:
    """Keeps what it was given, and gives rows of it again; of some draws nothing can be learned."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken

    def describe(self) -> dict[str, str]:
        return {"mechanism": "its rows again"}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        self.source = source

    def draw(self, seed: int) -> pd.DataFrame:
        release = self.source.sample(frac=1.0, replace=True, random_state=int(seed))
        return release.assign(ill="no") if int(seed) < self.broken else release


@pytest.fixture(scope="module")
def compared() -> tuple[pg.Trial, Seen]:
    """Two generators on one table, of which one fails twice."""
    good = Seen()
    trial = pg.try_out(
        hospital(900, 1), generator={"good": good, "bad": Seen(broken=2)}, outcome="ill", draws=6,
        reliability=0.3, **SMALL,  # type: ignore[arg-type]
    )  # fmt: skip
    return trial, good


def test_words_for_gaps_and_dates_are_read_as_such_and_the_page_says_so(
    compared: tuple[pg.Trial, Seen],
) -> None:
    trial, generator = compared
    # The generator is given numbers too: not a category for each of 900 days.
    assert all(generator.source[name].dtype == float for name in ("crp", "cost"))
    assert generator.source["admitted"].dtype == "datetime64[ns]"
    columns = {column.name: column for column in trial.columns}
    assert columns["crp"].kind == "number"
    assert columns["crp"].missing == f"{generator.source['crp'].isna().mean():.1%}" != "0.0%"
    assert '"k.A." is a missing value' in columns["crp"].use
    assert columns["crp"].otherwise == 'crp = { kind = "category" }'
    assert columns["admitted"].kind == "date"
    declared = read_declaration(trial.declaration).members[0].columns
    assert declared["crp"].missing == ("k.A.",)
    assert (declared["cost"].thousands, declared["cost"].decimal) == (".", ",")
    assert declared["admitted"].format == "%d.%m.%Y"
    # And shares are asked of all of them.
    query = read_declaration(trial.declaration).members[0].requirement[-1].query
    assert query is not None
    assert {"crp", "cost", "admitted"} <= set(query.bins or {})


def test_two_generators_are_compared_under_one_error(compared: tuple[pg.Trial, Seen]) -> None:
    trial, _ = compared
    assert set(trial.decisions) == {"good", "bad"}
    assert trial.reliability is None  # bounds do not decide where Holm does
    assert all(verdict.lower is None for verdict in trial.judged)
    assert [said.name for said in trial.conclusions] == ["good", "bad"]
    (first, *_) = trial.requirements
    assert first.makers == ("good",) * 6 + ("bad",) * 6
    assert "good: " in first.seen
    assert "; bad: " in first.seen
    page = trial.to_html()
    assert page.count('<article class="pg-verdict') == 2
    shown = re.sub("<[^>]+>", "", page)  # words that are explained are links
    assert first.of("good") in shown
    assert first.of("bad") in shown
    made = read_declaration(trial.declaration).members[0].mechanism
    assert [m.name for m in made] == ["good", "bad"]
    assert not set(made[0].seed_list) & set(made[1].seed_list)


def test_a_draw_that_cannot_be_used_is_told_by_its_seed_and_counts_as_the_worst(
    compared: tuple[pg.Trial, Seen],
) -> None:
    trial, _ = compared
    assert set(trial.unusable) == {"0", "1"}
    assert any("'ill' has one value alone" in note for note in trial.notes)
    assert "parquet" not in " ".join([*trial.notes, *trial.sentences])


def test_a_column_is_read_as_the_user_says() -> None:
    # What cannot be read in a release is missing there, and told.
    release = hospital(300, 3)
    release.loc[4, "admitted"] = "30.02.2024"
    trial = pg.try_out(
        hospital(300, 1), release, outcome="ill", holdout=hospital(300, 2),
        columns={"crp": {"kind": "category"}, "cost": {"exclude": True}}, **SMALL,  # type: ignore[arg-type]
    )  # fmt: skip
    columns = {column.name: column for column in trial.columns}
    assert columns["crp"].use.startswith("used as")
    assert "categories" in columns["crp"].use
    assert any("release: 1 value of 'admitted' cannot be read" in note for note in trial.notes)
    assert any(
        note.startswith("read as numbers or dates, though text: admitted like 31.01.2024; --column")
        for note in trial.notes
    )
    with pytest.raises(pg.RegistryError, match="columns\\.crp"):
        pg.try_out(hospital(90, 1), hospital(90, 3), columns={"crp": {"kind": "numbre"}})


def test_a_release_of_plain_numbers_and_dates_is_read_as_an_audit_reads_it() -> None:
    def plain(seed: int) -> pd.DataFrame:
        release = hospital(900, seed)
        release["cost"] = [x.replace(".", "").replace(",", ".") for x in release["cost"]]
        release["admitted"] = pd.to_datetime(release["admitted"], format="%d.%m.%Y").dt.strftime(
            "%Y-%m-%d"
        )
        return release

    told = {
        way: pg.try_out(
            hospital(900, 1), {"r": release}, outcome="ill", holdout=hospital(900, 2), **SMALL,  # type: ignore[arg-type]
        )
        for way, release in (("as the table", hospital(900, 3)), ("plain", plain(3)))
    }  # fmt: skip
    said = [line for trial in told.values() for line in (*trial.notes, *trial.unread)]
    assert not any("cannot be read" in line for line in said)
    assert told["plain"].to_frame().equals(told["as the table"].to_frame())


def test_a_number_that_cannot_be_read_is_missing_in_whatever_column_and_most_stand_on_top() -> None:
    table, usable = people(400, 1), people(400, 3)
    one = usable.assign(age=usable["age"].astype(str).where(usable.index != 5, "old"))
    most = usable.assign(dose=usable["dose"].astype(str) + " mg")
    trial = pg.try_out(
        table, {"one": one, "most": most, "strange site": usable.assign(cost="a lot")},
        outcome="ill", holdout=people(400, 2), exclude=["cost", "stage"], **SMALL,  # type: ignore[arg-type]
    )  # fmt: skip
    assert trial.unusable == {}  # of an excluded column nothing is asked
    assert any(
        note == "one: 1 value of 'age' cannot be read, which counts as missing; an audit would "
        "refuse that release"
        for note in trial.notes
    )
    assert (
        "'dose' cannot be read in 1 release: most of its values are written like "
        in (trial.heading[0])
    )
    assert "mg'" in trial.heading[0]
    assert "plain numbers" in trial.heading[0]
    assert not any("cost" in line for line in (*trial.heading, *trial.notes) if "read" in line)


def test_named_releases_that_cannot_be_used_fail_and_the_others_are_judged() -> None:
    table, usable = people(400, 1), people(400, 3)
    trial = pg.try_out(
        table,
        {
            "usable": usable, "constant": usable.assign(ill="no"),
            "strange": usable.assign(ill=usable["ill"].where(usable.index != 5, "perhaps")),
        },
        outcome="ill", holdout=people(400, 2), **SMALL,  # type: ignore[arg-type]
    )  # fmt: skip
    assert set(trial.unusable) == {"constant", "strange"}
    assert trial.decisions["constant"] is pg.Decision.VIOLATION
    assert "usable" in trial.decisions
    assert "cannot be used" in trial.to_html()
    assert [r.name for r in read_declaration(trial.declaration).members[0].release] == ["usable"]
    with pytest.raises(pg.DrawError, match="constant cannot be used: 'ill' has one value alone"):
        pg.try_out(table, {"constant": usable.assign(ill="no")}, outcome="ill")


def test_releases_may_come_one_by_one() -> None:
    trial = pg.try_out(
        people(400, 1), (people(400, seed) for seed in (3, 4)), outcome="ill",
        holdout=people(400, 2), exclude=["stage", "cost"],
    )  # fmt: skip
    assert list(trial.decisions) == ["release 1", "release 2"]


def test_labels_and_names_may_be_what_we_call_things_ourselves() -> None:
    words = {"yes": "all others", "no": "(missing)"}
    tables = [
        people(300, seed).replace({"ill": words}).rename(columns={"age": "a\x85ge\n[claim]"})
        for seed in (1, 2, 3)
    ]
    trial = pg.try_out(tables[0], tables[2], outcome="ill", holdout=tables[1], **SMALL)  # type: ignore[arg-type]
    # Nothing in what is handed on steers a terminal, and it reads back as it was.
    assert "\x85" not in trial.declaration
    query = read_declaration(trial.declaration).members[0].requirement[-1].query
    assert query is not None
    assert "a\x85ge\n[claim]" in (query.bins or {})


def test_small_numbers_are_told_without_an_exponent() -> None:
    told = [number_words(x) for x in (-6.03e-5, 0.0, 2.5, 0.0667, 15436765.97)]
    assert told == ["-0.00006", "0", "2.5", "0.0667", "15,436,766"]


def test_a_share_of_dates_is_told_by_dates() -> None:
    release = hospital(300, 3).assign(admitted="01.01.2019")
    trial = pg.try_out(hospital(300, 1), release, holdout=hospital(300, 2), workers=1)
    (where,) = trial.requirements[0].where
    assert re.fullmatch(r"admitted = (under )?20\d\d-\d\d-\d\d( and over)?", where)
    # The audit asks by dates, and has them in the names that it records.
    declared = read_declaration(trial.declaration).members[0]
    queries = [part.query for part in declared.requirement if part.query is not None]
    bins = next(query.bins for query in queries if "admitted" in (query.bins or {}))
    assert bins is not None
    assert all(is_day(end) for end in bins["admitted"])
    kinds = {name: "text" for query in queries for name in query.groups or {}}
    kinds |= {name: "number" for query in queries for name in {*query.averaged, *bins}}
    check_queries(declared, kinds)
    hours = declared.columns["admitted"].model_copy(update={"format": "%H:%M"})
    for columns in ({}, {"admitted": hours}):  # a time of day lies before every date
        other = declared.model_copy(update={"columns": columns})
        with pytest.raises(pg.RegistryError, match="bins of 'admitted' are dates, which it has"):
            check_queries(other, kinds)


def test_the_rows_that_were_set_aside_tell_an_id_too() -> None:
    # Of a number that counts, a random part has gaps, and looks like any other number.
    real = people(100, 1).assign(counted=range(100))
    parts = apart(real, drawn_here=True)
    assert len(parts.development) == 70
    assert sorted(pd.concat([parts.development, *parts.beside])["counted"]) == list(range(100))
    assert not apart(real, holdout=people(90, 2)).beside


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outcome": "ill", "positive": "zzz"}, "positive is 'zzz', and 'ill' has 'no' and 'yes'"),
        ({"outcome": "age", "positive": "zzz"}, r"'20', '21', '22', '23' and \d+ more"),
        ({"options": {"epochs": 5}}, "options are those of a generator, and releases are given"),
        ({"exclude": ["agee"]}, 'no column .agee.; did you mean "age"'),
    ],
)
def test_mistakes_are_told_without_what_lies_inside(given: dict[str, object], message: str) -> None:
    with pytest.raises(pg.ProxyGuardError, match=message) as refused:
        pg.try_out(people(300, 1), people(300, 2), **given)  # type: ignore[arg-type]
    assert "parquet" not in str(refused.value)


def test_two_columns_of_one_name_are_an_error_that_says_so() -> None:
    table = people(90, 1)
    table.columns = ["age", "age", *table.columns[2:]]
    with pytest.raises(pg.TableError, match="the real table with two columns of one name: 'age'"):
        pg.try_out(table, people(90, 2))


@pytest.mark.parametrize("option", ["epochs=5", "bootstrop.epochs=5"])
def test_an_option_of_several_generators_says_whose_it_is(tmp_path: Path, option: str) -> None:
    people(90, 1).to_csv(tmp_path / "t.csv", index=False)
    told = proxyguard(tmp_path, "try", "t.csv", "--generator", "bootstrap", "--generator",
                      "unigram", "--option", option)  # fmt: skip
    assert told.returncode != Exit.DONE
    assert "bootstrap." in told.stderr


def test_options_reach_the_generator(tmp_path: Path) -> None:
    people(300, 1).to_csv(tmp_path / "t.csv", index=False)
    told = proxyguard(tmp_path, "try", "t.csv", "--generator", "bootstrap", "--option", "rows=70",
                      "--draws", "2", "--exclude", "cost", "--json")  # fmt: skip
    assert told.returncode in (Exit.DONE, Exit.UNRESOLVED, Exit.VIOLATION), told.stderr
    declared = (tmp_path / "try-out" / "audit.toml").read_text()
    assert "options = { rows = 70 }" in declared


def test_two_versions_have_one_picture_of_each_requirement() -> None:
    page = pg.try_out(
        people(300, 1), generator={"old": "bootstrap", "new": "copula"}, draws=3, workers=1,
        exclude=["cost", "stage"],
    )  # fmt: skip
    told = re.findall(
        r'aria-label="([^":]+): all releases of each against the limit. old: .* new: ',
        page.to_html(),
    )
    assert told == ["one-way shares (points)", "two-way shares (points)", "means (% of the range)"]


def test_an_audit_on_rows_that_were_tried_is_told_so(tmp_path: Path) -> None:
    people(700, 1).to_csv(tmp_path / "patients.csv", index=False)
    people(600, 2).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "made").mkdir()
    people(700, 5).to_csv(tmp_path / "made" / "s.csv", index=False)
    tried = proxyguard(tmp_path, "try", "patients.csv", "made", "--outcome", "ill", "--holdout",
                       "test.csv", "--limit", "error=0.6")  # fmt: skip
    assert tried.returncode != Exit.ERROR, tried.stderr
    proxyguard(tmp_path, "init", "my-audit", "--from", "try-out")
    # A part of the rows that judged the trial once more, and then others.
    people(600, 2).sample(frac=0.9, random_state=1).to_csv(tmp_path / "fresh.csv", index=False)
    checked = proxyguard(tmp_path, "check", "my-audit")
    assert "guarantee no" in checked.stdout
    assert "trial of 'patients.csv'" in checked.stdout
    people(600, 9).to_csv(tmp_path / "fresh.csv", index=False)
    fresh = proxyguard(tmp_path, "check", "my-audit")
    assert "guarantee no" not in fresh.stdout
    # A limit that anything keeps is not handed on.
    declared = (tmp_path / "my-audit" / "audit.toml").read_text()
    assert "# Left out: 'error': a release that learned nothing keeps its limit 60 of" in declared
    assert "which learns nothing" not in fresh.stdout


def test_an_outcome_of_numbers_may_have_words_for_gaps() -> None:
    tables = [hospital(400, seed) for seed in (1, 2, 3)]
    trial = pg.try_out(tables[0], {"r": tables[2]}, outcome="crp", holdout=tables[1], **SMALL)  # type: ignore[arg-type]
    assert [r.name for r in trial.requirements][:2] == ["absolute", "squared"]
    target = read_declaration(trial.declaration).members[0].target
    assert target.read.missing[-1] == "k.A."
    assert target.missing_outcomes == "leave out"


def test_an_audit_runs_on_the_very_files_that_were_tried(tmp_path: Path) -> None:
    def put(name: str, seed: int, plain: bool = False) -> None:
        table = hospital(700, seed).replace({"ill": {"yes": "größer"}})
        if plain:
            table["cost"] = [x.replace(".", "").replace(",", ".") for x in table["cost"]]
            table.to_csv(tmp_path / name, index=False)
        else:
            table.to_csv(tmp_path / name, index=False, sep=";", encoding="cp1252")

    (tmp_path / "made").mkdir()
    for name, seed in (("export.csv", 1), ("later.csv", 2), ("fresh.csv", 7)):
        put(name, seed)
    for seed in (3, 4):
        put(f"made/s{seed}.csv", seed, plain=True)
    tried = proxyguard(tmp_path, "try", "export.csv", "made", "--outcome", "ill", "--holdout",
                       "later.csv", "--limit", "two-way shares=0.3")  # fmt: skip
    assert tried.returncode in (Exit.DONE, Exit.UNRESOLVED), tried.stderr
    assert "export.csv is no UTF-8 text and is read as Windows-1252" in tried.stdout
    assert "cannot be read" not in tried.stdout
    proxyguard(tmp_path, "init", "my-audit", "--from", "try-out")
    checked = proxyguard(tmp_path, "check", "my-audit")
    assert checked.returncode == Exit.DONE, checked.stdout + checked.stderr
    said = "warning: fresh.csv is no UTF-8 text and is read as Windows-1252"
    assert said in checked.stdout  # so that run says it too
    sealed = proxyguard(tmp_path, "seal", "my-audit")
    assert said in sealed.stdout + sealed.stderr


def _with_words(rows: int, seed: int, *words: str) -> pd.DataFrame:
    """Return records of which some outcomes are written otherwise, and numbers hold words."""
    table = hospital(rows, seed)
    ill = table["ill"].to_numpy(dtype=object)
    ill[:6], ill[6:12], ill[12:15] = "k.A.", "", "Yes"
    crp = table["crp"].to_numpy(dtype=object)
    crp[: len(words)] = words
    return table.assign(ill=ill, crp=crp)


def test_missing_words_of_an_outcome_are_missing_in_every_table_and_the_audit() -> None:
    real, unseen, release = (_with_words(400, seed) for seed in (1, 2, 3))
    with pytest.raises(pg.RegistryError) as told:
        pg.try_out(real, release, outcome="ill", holdout=unseen, kind="binary", **SMALL)  # type: ignore[arg-type]
    line = re.search(r"--column '(.*?)'", str(told.value))
    assert line is not None
    assert line[1] == 'ill = { missing = ["k.A."], fold_case = true }'
    for gaps in (["k.A."], ["k.A.", ""]):
        part = {**tomllib.loads(line[1])["ill"], "missing": gaps}
        trial = pg.try_out(
            real, release, outcome="ill", holdout=unseen, columns={"ill": part}, **SMALL,  # type: ignore[arg-type]
        )  # fmt: skip
        assert not trial.unusable
        for what in ("the table", "the holdout"):
            assert any(f"12 of 400 rows of {what} have no 'ill'" in n for n in trial.notes)
        assert any("12 rows of releases have no 'ill'" in note for note in trial.notes)
        target = read_declaration(trial.declaration).members[0].target
        assert (target.positive, target.missing_outcomes) == ("yes", "leave out")
        assert "k.A." in target.read.missing


def test_every_line_that_is_proposed_is_accepted() -> None:
    # Words that no number is: some only in rows without an outcome, or in those that judge.
    real, release = _with_words(400, 1, "n.b.", "<0,5", *["<1"] * 20), hospital(400, 3)
    unseen = _with_words(400, 2, "> 200")
    trial = pg.try_out(real, release, outcome="age", holdout=unseen, **SMALL)  # type: ignore[arg-type]
    columns = {column.name: column for column in trial.columns}
    assert "of the records have no number" in columns["crp"].use
    assert any(f"--column '{columns['crp'].otherwise}'" in n for n in trial.notes)
    lines = [column.otherwise for column in trial.columns if column.otherwise]
    assert any('"> 200"' in line and '"<0,5"' in line and '"k.A."' in line for line in lines)
    parts = tomllib.loads("\n".join(lines))
    again = pg.try_out(real, release, outcome="age", holdout=unseen, columns=parts, **SMALL)  # type: ignore[arg-type]
    assert {c.name: c.kind for c in again.columns}["crp"] == "number"
