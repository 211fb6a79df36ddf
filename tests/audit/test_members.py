"""Members, reference and calibration rows are divided at sealing, and copies of members counted."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from proxyguard.audit.apart import Bench, Redraw
from proxyguard.audit.audit import Audit
from proxyguard.audit.check import template
from proxyguard.audit.development import MemberDevelopment
from proxyguard.audit.folder import RELEASES, AuditFolder
from proxyguard.audit.manifest import check_members
from proxyguard.audit.members import by_chance
from proxyguard.audit.stated import reading_place
from proxyguard.cli.main import app
from proxyguard.documents.releases import DrawnRelease, ReleaseManifest
from proxyguard.errors import RegistryError, SealError, TableError
from proxyguard.exposure.descriptive import Copies
from proxyguard.registry.declaration import read_declaration
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_text
from proxyguard.tables.files import table_bytes

Value = dict[str, Any]
DECLARATION = """\
format = 1
name = "clinic"
purpose = "Does a release give members away?"

[target]
table = "table.csv"
reserve = { rows = 100, seed = 3 }

[development]
members = "0.6"
reference = "0.3"
calibration = "0.1"
split_seed = 7

[[requirement]]
name = "told apart"
exposure = "advantage everywhere"
attacks = ["dcr"]
limit = "0.30"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 8
seeds = { first = 100 }

[claim]
reliability_target = "0.6"
"""


def patients(rows: int = 300, *, ages: int = 60, seed: int = 1) -> pd.DataFrame:
    """Return patients, of whom fewer different ages make more alike."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 20 + ages, size=rows).astype(float),
            "job": rng.choice(["clerk", "smith", "baker"], size=rows),
            "site": rng.choice(["north", "south"], size=rows, p=[0.7, 0.3]),
        }
    )


def new_audit(root: Path, text: str = DECLARATION, table: pd.DataFrame | None = None) -> Audit:
    (root / "data").mkdir(parents=True)
    (patients() if table is None else table).to_csv(root / "data" / "table.csv", index=False)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(text)
    return audit


@pytest.fixture(scope="module")
def sealed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("members") / "work"
    new_audit(root).seal()
    return root


@pytest.fixture
def sealed(sealed_once: Path, tmp_path: Path) -> Audit:
    root = tmp_path / "work"
    shutil.copytree(sealed_once, root)
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def development_of(audit: Audit) -> MemberDevelopment:
    (member,) = audit.folder.declaration().members
    ledger_member = audit.journal().ledger.sealed.members[member.name]
    return MemberDevelopment(reading_place(audit.folder), member, ledger_member)


def as_rows(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return [tuple(canonical_value(as_text(v)) for v in row) for row in frame.to_numpy().tolist()]


def test_development_is_divided_by_the_registered_shares(sealed: Audit) -> None:
    (member,) = sealed.journal().ledger.sealed.members.values()
    assert member.development == {"training": 120, "reference": 60, "calibration": 20}
    development = development_of(sealed)
    parts = [development.members(), development.reference(), development.calibration()]
    reserved = np.random.default_rng(3).choice(300, size=100, replace=False)
    rest = patients().drop(index=reserved)
    # Each row of the table once: parts neither overlap nor leave a row out.
    assert sorted(as_rows(pd.concat(parts))) == sorted(as_rows(rest))
    assert development.members().equals(development.training())


def test_with_validation_rows_the_shares_are_of_all_rows(tmp_path: Path) -> None:
    text = DECLARATION.replace(
        'members = "0.6"',
        'members = "0.4"\nvalidation = { fraction = "0.2", stratify = false, seed = 2 }',
    )
    sealing = new_audit(tmp_path, text).seal()
    assert sealing.record.members["target"].development == {
        "training": 80, "validation": 40, "reference": 60, "calibration": 20,
    }  # fmt: skip


def test_another_split_seed_gives_other_members(sealed: Audit, tmp_path: Path) -> None:
    other = new_audit(tmp_path / "other", DECLARATION.replace("split_seed = 7", "split_seed = 8"))
    other.seal()
    assert not development_of(other).members().equals(development_of(sealed).members())


def test_too_few_rows_for_the_shares_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="every part needs some"):
        new_audit(tmp_path, table=patients(105)).seal()


def test_copies_of_members_are_counted_and_said(sealed: Audit, tmp_path: Path) -> None:
    (member,) = sealed.journal().ledger.sealed.members.values()
    reserved = np.random.default_rng(3).choice(300, size=100, replace=False)
    known = set(as_rows(development_of(sealed).members()))
    expected = sum(row in known for row in as_rows(patients().iloc[reserved]))
    assert 0 < expected < 50
    assert member.copies == expected
    root = tmp_path / "shown"
    audit = new_audit(root)
    where = ["--home", str(root / "home"), "--data", str(root / "data")]
    shown = CliRunner().invoke(app, ["seal", str(audit.folder.path), *where])
    assert shown.exit_code == 0, shown.output
    assert f"{expected} of these records have the values of a member" in shown.output


def test_an_excluded_number_of_each_row_hides_no_copy(tmp_path: Path) -> None:
    table = patients().assign(row=[f"row {i}" for i in range(300)])
    text = DECLARATION.replace("[target]\n", '[target]\nexclude = ["row"]\n')
    audit = new_audit(tmp_path, text, table)
    # As many as without that column: the rows are the same, and so is what attacks see of them.
    words = "of 100 target records 34 have the values of a member and are left out; no attack sees"
    assert any(words in fact for fact in audit.check().facts)
    (sealed,) = audit.seal().record.members.values()
    assert sealed.copies == 34


def test_a_copy_is_one_however_its_values_are_written() -> None:
    members = pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "02"]})
    records = pd.DataFrame({"b": ["x", "2.0", "x"], "a": [1.0, np.nan, 1.5], "more": [1, 2, 3]})
    rows = Copies(members)
    assert rows.among(records).tolist() == [True, True, False]
    assert [rows.among(records.iloc[[i]]).item() for i in range(3)] == [True, True, False]


def test_a_target_of_which_most_are_copies_is_not_sealed(tmp_path: Path) -> None:
    audit = new_audit(tmp_path, table=patients(ages=2))
    with pytest.raises(TableError, match="fewer than half are left"):
        audit.seal()
    assert not audit.journal().ledger.entries


STRATA = """\
reserve = { seed = 3 }
design = { by = "site", sizes = { north = 60, south = 40 }, weights = { north = "0.5", \
south = "0.5" } }"""


def stratified(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return an audit of two sites, whose patients all differ by their number."""
    text = DECLARATION.replace("reserve = { rows = 100, seed = 3 }", STRATA)
    return text, table.assign(number=np.arange(len(table)) * 1.5)


def test_every_stratum_has_members(tmp_path: Path) -> None:
    text, table = stratified(patients())
    sealing = new_audit(tmp_path / "some", text, table).seal()
    assert sealing.record.members["target"].copies == 0
    # One row of the second site stays in development, and by this seed is no member.
    few = pd.concat([table[table.site == "north"], table[table.site == "south"][:41]])
    other = text.replace("split_seed = 7", "split_seed = 1")
    with pytest.raises(TableError, match=r"strata \['south'\] of 'site' have no member"):
        new_audit(tmp_path / "none", other, few).seal()


@pytest.mark.parametrize(("label", "told"), [("west", "'west'"), (None, "'no label'")])
def test_members_in_strata_that_the_target_lacks_are_refused_before_anything_is_sealed(
    tmp_path: Path, label: str | None, told: str
) -> None:
    # After the opening their share would have no weight, and every release would be the worst.
    text, table = stratified(patients())
    table.loc[table.index % 10 == 0, "site"] = label
    audit = new_audit(tmp_path, text, table)
    words = rf"of 120 members are in strata of 'site' that the target lacks, \{{{told}: \d+\}}"
    assert any(re.search(words, problem) for problem in audit.check().problems)
    with pytest.raises(TableError, match=words + r".* take rows of these strata out of the table"):
        audit.seal()
    assert not audit.journal().ledger.entries


def test_copies_are_left_out_of_iid_records_alone(tmp_path: Path) -> None:
    text, table = stratified(patients())
    with pytest.raises(TableError, match="covered for iid records alone"):
        new_audit(tmp_path, text, table.drop(columns="number")).seal()


def test_an_audit_without_exposures_counts_no_copies(at: Callable[[str], Audit]) -> None:
    (member,) = at("sealed").journal().ledger.sealed.members.values()
    assert member.copies is None
    assert set(member.development) == {"training", "validation"}


@pytest.mark.parametrize("role", ["reference", "calibration"])
def test_a_changed_part_of_development_is_found(sealed: Audit, role: str) -> None:
    assert sealed.verify().good
    name = f"development/0.{role}.parquet"
    shutil.copy(sealed.folder / "development/0.training.parquet", sealed.folder / name)
    assert any(finding.place == name for finding in sealed.verify().findings)


def test_a_missing_reference_file_is_found(sealed: Audit) -> None:
    (sealed.folder / "development/0.reference.parquet").unlink()
    result = sealed.verify()
    assert not result.complete
    assert result.withheld == ["development/0.reference.parquet"]


@pytest.mark.parametrize(
    ("quantile", "limit", "expected"),
    [("0.95", "0.02", 0.0199), ("0.5", "0.05", 0.0456)],
)
def test_what_finite_members_show_at_a_threshold_is_a_standard_deviation(
    quantile: str, limit: str, expected: float
) -> None:
    text = DECLARATION.replace("advantage everywhere", "advantage").replace("0.30", limit)
    text = text.replace("attacks", f'threshold = {{ quantile = "{quantile}" }}\nattacks')
    (member,) = read_declaration(text).members
    assert by_chance(member.exposures[0], 120).expected == pytest.approx(expected, abs=1e-4)


HALF = """
import numpy as np

class Half:
    def describe(self):
        return {"mechanism": "half of the rows"}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        n = len(self.source)
        rows = seed.rng("rows").permutation(n)[: n // 2]
        seed.trained_on(rows)
        return self.source.iloc[rows].reset_index(drop=True)
"""


@pytest.fixture
def halved(
    stages: Path, tmp_path: Path, draws_here: None, monkeypatch: pytest.MonkeyPatch
) -> Audit:
    """An audit whose draws are trained on half of the rows each."""
    (tmp_path / "pg_halved.py").write_text(HALF)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_halved", raising=False)
    root = tmp_path / "work"
    shutil.copytree(stages / "new", root)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    place = audit.folder / "audit.toml"
    text = place.read_text().replace('"bootstrap"\ndraws = 8', '"pg_halved:Half"\ndraws = 2')
    place.write_text(text.replace('"0.6"', '"0.1"'))
    audit.seal()
    audit.register()
    audit.draw()
    return audit


def draws_of(audit: Audit) -> list[DrawnRelease]:
    manifest = audit.folder.document(ReleaseManifest, RELEASES)
    return [d for d in manifest.draws("target", "bootstrap") if isinstance(d, DrawnRelease)]


def test_a_draw_has_the_members_that_its_generator_named(halved: Audit) -> None:
    development, draws = development_of(halved), draws_of(halved)
    whole = development.members()
    for draw in draws:
        rows = np.random.default_rng(draw.seed).permutation(len(whole))[: len(whole) // 2]
        expected = whole.iloc[np.sort(rows)].reset_index(drop=True)
        assert development.members_of(draw).equals(expected)
        assert draw.members in draw.objects
    assert len({draw.members for draw in draws}) == 2
    # One that says nothing was trained on all rows.
    silent = draws[0].model_copy(update={"members": None})
    assert development.members_of(silent).equals(whole)
    assert halved.verify().good


def run_here(
    folder: AuditFolder, job: Any, secrets: Any, send: Any = lambda out: None, *, timeout: float
) -> Any:
    """Do in this process what named code is asked for in a process of its own."""
    pipe = BytesIO()
    send(pipe)
    pipe.seek(0)
    work = job.begin(Bench(folder, [str(folder / "no home")]), pipe)
    return json.loads(json.dumps(work.run()))


def test_members_that_were_exchanged_are_found(
    halved: Audit, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The generator is asked before: while a folder is verified, none is loaded in this process.
    jobs = [
        Redraw(member="target", mechanism="bootstrap", seed=seed, data=()) for seed in (100, 101)
    ]
    answers = {job.seed: run_here(halved.folder, job, (), timeout=60) for job in jobs}

    def answered(folder: AuditFolder, job: Any, *rest: Any, timeout: float) -> Any:
        if isinstance(job, Redraw):
            return answers[job.seed]
        return run_here(folder, job, *rest, timeout=timeout)

    monkeypatch.setattr("proxyguard.audit.apart.run_apart", answered)
    found = halved.verify(redraw=2, run_named_code=True)
    assert found.good, found.findings
    assert sum(words.startswith("redraw: target/bootstrap") for words in found.checked) == 2
    first, second = draws_of(halved)
    named = [second.members, first.members]

    def exchange(manifest: Value) -> None:
        for draw, members in zip(forge.draws_of(manifest), named, strict=True):
            draw["members"] = members

    forge.manifest(halved, exchange)
    assert halved.verify().good  # nobody can tell without drawing again
    found = halved.verify(redraw=1, run_named_code=True)
    assert ["another members" in finding.problem for finding in found.findings] == [True]


@pytest.mark.parametrize(
    ("bits", "words"),
    [(b"\xff", "named by 1 bytes"), (b"\0" * 38, "names 0 of the 300 rows")],
    ids=["too few bits", "no row"],
)
def test_members_that_are_no_rows_of_the_training_part_are_found(
    halved: Audit, forge: Any, bits: bytes, words: str
) -> None:
    address = halved.folder.store.put(bits)
    forge.manifest(halved, lambda m: forge.draws_of(m)[0].update(members=address))
    assert words in forge.found_by(halved)


GROUP = 'group = { site = "west" }\nlimit = "0.30"'
SECRET = """\
[[requirement]]
name = "age"
exposure = "attribute inference"
attacks = ["age by the nearest row"]
limit = "0.30"

[exposure.attack."age by the nearest row"]
kind = "nearest row"
secret = "SECRET"
known = ["site"]
tolerance = "2"
"""


def checked(root: Path, text: str) -> tuple[list[str], list[str], list[str]]:
    found = new_audit(root, text).check()
    return found.problems, found.warnings, found.facts


def test_check_counts_members_others_and_copies_before_and_after_sealing(
    sealed: Audit, tmp_path: Path
) -> None:
    words = (
        "target: exposure is about 120 members, with 60 reference rows and 20 calibration rows, "
        "and 66 nonmembers: of 100 target records 34 have the values of a member and are left out"
    )
    problems, warnings, facts = checked(tmp_path / "new", DECLARATION)
    assert (problems, warnings) == ([], [])
    assert words in facts
    after = sealed.check()
    assert (after.problems, after.warnings) == ([], [])
    assert words in after.facts


def test_check_refuses_a_target_of_which_most_are_copies(tmp_path: Path) -> None:
    audit = new_audit(tmp_path, table=patients(ages=2))
    assert any("fewer than half are left" in problem for problem in audit.check().problems)


@pytest.mark.parametrize(
    ("exposure", "limit", "words"),
    [
        ("advantage everywhere", "0.08", "often reach about 0.0822, and the limit is 0.08"),
        ("advantage everywhere", "0.083", None),
        ("membership auc", "0.52", "often reach about 0.526, and the limit is 0.52"),
        ("membership auc", "0.53", None),
        ("membership auc", "0.5", "raise the limit"),
    ],
)
def test_check_warns_of_limits_that_finite_members_alone_would_break(
    tmp_path: Path, exposure: str, limit: str, words: str | None
) -> None:
    text = DECLARATION.replace("advantage everywhere", exposure).replace("0.30", limit)
    problems, warnings, _ = checked(tmp_path, text)
    assert problems == []
    told = [warning for warning in warnings if "are themselves a sample" in warning]
    assert [words in warning for warning in told] == [True] * (words is not None)
    assert all("train on at least" in warning for warning in told) is (limit != "0.5")


def test_with_coins_about_half_of_the_training_rows_are_members_of_a_draw(tmp_path: Path) -> None:
    # Between what 120 members show by themselves and what 60 do.
    text = DECLARATION.replace('"0.30"', '"0.10"')
    assert checked(tmp_path / "all", text)[1] == []
    tossed = text.replace("draws = 8", 'draws = 8\ninclusion = "coins"')
    (warning,) = checked(tmp_path / "coins", tossed)[1]
    assert "60 members, about half of 120 by coins, are themselves a sample" in warning
    assert "often reach about 0.116, and the limit is 0.10" in warning
    assert "train on at least 82 members, 164 rows to toss for" in warning


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('limit = "0.30"', GROUP, "no member is in the group of ['told apart']"),
        ("[[mechanism]]", SECRET.replace("SECRET", "wage") + "[[mechanism]]", 'no column "wage"'),
        ("[[mechanism]]", SECRET.replace("SECRET", "job") + "[[mechanism]]", "holds no numbers"),
        ("[claim]", '[claim]\nmode = "smooth"', "judged by a p-value and has no slack"),
        ("[claim]", '[claim]\nmode = "block"\nblock_size = 10', "has no slack"),
        ("[claim]", '[claim]\nscore = "slack"', "judged by a p-value and has no slack"),
        ("[claim]", '[claim]\ntest = "hoeffding"', "takes the binomial test"),
    ],
)
def test_check_refuses_exposures_that_nothing_covers(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    problems, _, _ = checked(tmp_path, DECLARATION.replace(old, new))
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('limit = "0.30"', GROUP, "no member is in the group"),
        ("[[mechanism]]", SECRET.replace("SECRET", "wage") + "[[mechanism]]", "columns ['wage']"),
    ],
)
def test_a_requirement_that_was_changed_after_sealing_is_looked_at_again(
    sealed: Audit, old: str, new: str, words: str
) -> None:
    (sealed.folder / "audit.toml").write_text(DECLARATION.replace(old, new))
    with pytest.raises(TableError, match=re.escape(words)):
        sealed.register()


def test_a_seal_that_says_of_most_records_that_they_are_copies_is_found(
    sealed: Audit, forge: Any, draws_here: None
) -> None:
    sealed.register()
    assert sealed.verify().good
    forge.rewrite(sealed, sealed=lambda body: body["members"]["target"].update(copies=51))
    assert "fewer than half are left" in forge.found_by(sealed)
    forge.rewrite(sealed, sealed=lambda body: body["members"]["target"].pop("copies"))
    assert "copies of members are counted" in forge.found_by(sealed)


def test_fewer_reference_rows_than_were_declared_are_found(sealed: Audit, forge: Any) -> None:
    sealed.register()
    name = "development/0.reference.parquet"
    some = pd.read_parquet(sealed.folder / name)[:10]
    sealed.folder.write(name, table_bytes(some))
    forge.rewrite(
        sealed, sealed=lambda body: body["members"]["target"]["development"].update(reference=10)
    )
    assert "attacks compare with {'reference': 10, 'calibration': 20}" in forge.found_by(sealed)


def test_a_kill_while_sealing_leaves_nothing_unknown(tmp_path: Path) -> None:
    audit = new_audit(tmp_path)
    for role in ("reference", "calibration"):
        audit.folder.write(f"development/0.{role}.parquet", b"")
    assert audit.verify().unknown == []
    audit.seal()
    assert audit.verify().good


def test_check_refuses_members_by_row_beside_a_target_by_cluster(tmp_path: Path) -> None:
    table = patients().assign(site=[f"s{i // 5}" for i in range(300)])
    text = DECLARATION.replace("rows = 100", "clusters = 20")
    text = text.replace("[development]", 'design = { by = "site" }\n\n[development]')
    problems = new_audit(tmp_path, text, table).check().problems
    assert any("members count by row and the target by cluster" in words for words in problems)


@pytest.mark.parametrize(
    "claim",
    [
        'mode = "named"',
        'mode = "direct"',
        'mode = "count"',
        'mode = "hybrid"',
        'mode = "sequential"\nlooks = [40, 80]\nthreshold = "0.005"\nbeta = "0.05"',
    ],
)
def test_modes_that_test_releases_cover_exposures(tmp_path: Path, claim: str) -> None:
    text = DECLARATION.replace("[claim]", f"[claim]\n{claim}")
    problems, _, _ = checked(tmp_path, text.replace("draws = 8", "draws = 80"))
    assert problems == []


def test_the_commented_exposure_of_the_template_can_be_declared() -> None:
    keys = ("members", "reference", "calibration", "split_seed", "[[requirement]]", "name", "limit",
            "exposure", "attacks")  # fmt: skip
    lines = template().splitlines()
    text = "\n".join(
        line[2:] if line.startswith("# ") and line[2:].split(" ")[0] in keys else line
        for line in lines
    )
    (member,) = read_declaration(text).members
    assert [part.name for part in member.exposures] == ["members cannot be told"]
    assert member.development.members == "0.5"


def test_other_limits_beside_the_certificate_keep_their_threshold() -> None:
    text = DECLARATION + '[[secondary]]\nname = "strict"\nlimits = { "told apart" = "0.1" }\n'
    with pytest.raises(RegistryError, match="what is tested there follows from the registered one"):
        read_declaration(text)


def test_a_table_that_no_generator_made_has_no_members_of_its_own(halved: Audit) -> None:
    (draw, _), development = draws_of(halved), development_of(halved)
    check_members(halved.folder, "a table", draw, development.sealed, generated=True)
    with pytest.raises(SealError, match="a table that no generator made"):
        check_members(halved.folder, "a table", draw, development.sealed, generated=False)
