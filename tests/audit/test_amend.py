"""A claim changes in the open before opening; after it, the record only grows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CERTIFICATE, DECLARATION, EVIDENCE, RELEASES
from proxyguard.certificate.wording import CHOSEN_AFTER_OPENING
from proxyguard.cli import show
from proxyguard.cli.main import app
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.errors import DigestMismatch, ProxyGuardError, RegistryError, StageError
from proxyguard.seal.ledger import Stage

pytestmark = pytest.mark.usefixtures("module_draws_here")

At = Callable[[str], Audit]


def edit(audit: Audit, old: str, new: str) -> None:
    """Change the one place of audit.toml that reads so."""
    place = audit.folder / DECLARATION
    text = place.read_text()
    assert text.count(old) == 1
    place.write_text(text.replace(old, new))


def snapshot(audit: Audit) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}


def report(audit: Audit) -> str:
    return (audit.folder / "report.md").read_text()


# Amendments


def test_every_amendment_names_the_registry_that_it_supersedes(at: At) -> None:
    audit = at("registered")
    edit(audit, 'limit = "0.10"', 'limit = "0.12"')
    audit.amend("the first limit was a typing error")
    edit(audit, 'reliability_target = "0.6"', 'reliability_target = "0.5"')
    audit.amend("fewer draws than planned")
    ledger = audit.journal().ledger
    first, second = ledger.find(Stage.AMENDED)
    registered = ledger.find(Stage.REGISTERED)[0]
    assert first.body.to_dict()["supersedes"] == registered.body.to_dict()["declaration"]
    assert second.body.to_dict()["supersedes"] == first.body.to_dict()["declaration"]
    assert second.body.to_dict()["declaration"] == ledger.declaration
    assert [first.body.to_dict()["reason"], second.body.to_dict()["reason"]] == [
        "the first limit was a typing error", "fewer draws than planned",
    ]  # fmt: skip
    kept = [digest(json.loads(audit.folder.read(f"registry/{i}.json"))) for i in range(3)]
    assert kept == [e.body.to_dict()["declaration"] for e in (registered, first, second)]
    assert audit.verify().good


def test_an_amended_limit_decides_and_the_certificate_tells(at: At) -> None:
    audit = at("drawn")
    edit(audit, 'limit = "0.10"', 'limit = "0.15"')
    value = audit.amend("agreed with the users").to_dict()
    assert value["members"]["target"]["requirements"][0]["limit"]["value"] == "0.15"
    predicate = audit.open().to_dict()
    assert predicate is not None
    assert "Brier transfer: limit 0.15" in predicate["text"]
    assert predicate["claim_status"]["registered"] == "yes; amended 1 times before opening"
    # The releases were drawn before, and their author could look at them.
    assert predicate["claim_status"]["guarantee"].startswith("no: the claim was amended after")
    assert "Amended before opening: agreed with the users" in report(audit)
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert found.unknown == []


def test_an_amended_rule_is_resolved_anew(at: At) -> None:
    audit = at("registered")
    before = json.loads(audit.folder.read("registry/0.json"))["members"]["target"]["requirements"][
        1
    ]
    edit(audit, 'source_validation_plus = "0.10"', 'source_validation_plus = "0.20"')
    after = audit.amend("more room").to_dict()["members"]["target"]["requirements"][1]
    shift = float(after["limit"]["value"]) - float(before["limit"]["value"])
    assert shift == pytest.approx(0.10)


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_amendment_without_a_reason_is_refused(at: At, reason: str) -> None:
    audit = at("registered")
    edit(audit, 'limit = "0.10"', 'limit = "0.12"')
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="give a reason"):
        audit.amend(reason)
    assert snapshot(audit) == before


@pytest.mark.parametrize("stage", ["new", "sealed"])
def test_what_is_not_registered_is_not_amended(at: At, stage: str) -> None:
    audit = at(stage)
    before = snapshot(audit)
    with pytest.raises(StageError, match="registered first"):
        audit.amend("too early")
    assert snapshot(audit) == before


def test_mechanisms_may_be_amended_before_they_are_drawn(at: At) -> None:
    audit = at("registered")
    edit(audit, "draws = 8", "draws = 3")
    audit.amend("draws are expensive")
    audit.draw()
    draws = json.loads(audit.folder.read(RELEASES))["members"]["target"]["bootstrap"]["draws"]
    assert [d["seed"] for d in draws] == [100, 101, 102]
    assert audit.verify().good


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("draws = 8", "draws = 9"),
        ("first = 100", "first = 200"),
        ("thresholds = 51", "thresholds = 41"),
        ('name = "bootstrap"', 'name = "resampling"'),
    ],
)
def test_what_the_drawn_releases_rest_on_is_not_amended(at: At, old: str, new: str) -> None:
    audit = at("drawn")
    edit(audit, old, new)
    before = snapshot(audit)
    with pytest.raises(StageError, match="only limits, claim and excluded draws can change"):
        audit.amend("another mechanism after all")
    assert snapshot(audit) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows = 300", "rows = 301"),
        ("seed = 11", "seed = 13"),
        ('fraction = "0.25"', 'fraction = "0.5"'),
    ],
)
def test_what_was_sealed_is_not_amended(at: At, old: str, new: str) -> None:
    audit = at("registered")
    edit(audit, old, new)
    before = snapshot(audit)
    anew = rf"differ from what was sealed; .*proxyguard init NEW --from {audit.folder.path}/audit"
    with pytest.raises(StageError, match=anew):
        audit.amend("another target after all")
    assert snapshot(audit) == before


def test_a_fixed_audit_does_not_become_a_sequential_one(at: At) -> None:
    audit = at("registered")
    edit(
        audit,
        'reliability_target = "0.6"',
        'reliability_target = "0.6"\nmode = "sequential"\nthreshold = "0.01"\nlooks = [4, 8]',
    )
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="cannot turn a fixed audit into a sequential one"):
        audit.amend("stop early")
    assert snapshot(audit) == before


def test_a_declaration_edited_without_an_amendment_is_found_and_not_opened(at: At) -> None:
    audit = at("drawn")
    edit(audit, 'limit = "0.10"', 'limit = "0.50"')
    assert audit.verify().findings[0].place == DECLARATION
    with pytest.raises(ProxyGuardError, match=r"audit\.toml: was changed"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_an_opened_claim_is_not_amended(at: At) -> None:
    audit = at("certified")
    edit(audit, 'limit = "0.10"', 'limit = "0.50"')
    before = snapshot(audit)
    with pytest.raises(StageError, match="the target has been opened; record a deviation instead"):
        audit.amend("now that the losses are known")
    assert snapshot(audit) == before
    assert DECLARATION in {f.place for f in audit.verify().findings}


# Excluded draws


def test_an_excluded_draw_leaves_the_claim_and_stays_in_the_record(at: At) -> None:
    audit = at("drawn")
    assert (
        len(json.loads(audit.folder.read(RELEASES))["members"]["target"]["bootstrap"]["draws"]) == 8
    )
    audit.amend("its log shows a disk error", exclude=[("bootstrap", 103)])
    predicate = audit.open().to_dict()
    assert predicate is not None
    verdict = predicate["verdicts"][0]
    assert verdict["n_releases"] == 7
    assert "103" not in verdict["adjusted_release_pvalues"]
    assert predicate["excluded"] == {"bootstrap": ["103"]}
    evidence = json.loads(audit.folder.read(EVIDENCE))
    assert "103" not in evidence["groups"]["bootstrap"]["releases"]
    assert evidence["excluded"]["bootstrap"]["releases"] == ["103"]
    assert evidence["excluded"]["bootstrap"]["label"].startswith("descriptive")
    assert "bootstrap: draws 103 are descriptive, by amendment" in report(audit)
    found = audit.verify(with_target=True)
    assert found.good, found.findings


def test_a_draw_excluded_before_drawing_is_drawn_all_the_same(at: At) -> None:
    audit = at("registered")
    audit.amend("this seed was used in a talk", exclude=[("bootstrap", 100)])
    audit.draw()
    draws = json.loads(audit.folder.read(RELEASES))["members"]["target"]["bootstrap"]["draws"]
    assert [d["seed"] for d in draws] == list(range(100, 108))
    predicate = audit.open().to_dict()
    assert predicate is not None
    assert predicate["verdicts"][0]["n_releases"] == 7
    assert audit.verify().good


def test_an_exclusion_that_a_later_amendment_does_not_repeat_is_void_and_said_so(at: At) -> None:
    audit = at("drawn")
    audit.amend("a disk error", exclude=[("bootstrap", 103), ("bootstrap", 104)])
    done = CliRunner().invoke(app, [
        "amend", str(audit.folder.path), "--home", str(audit.home.root), "--reason", "another one",
        "--exclude", "bootstrap:105", "--exclude", "bootstrap:104",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "bootstrap:103 was excluded before and is part of the claim again" in said
    assert "bootstrap:104 was excluded" not in said
    first, second = (e.body.to_dict()["void"] for e in audit.journal().ledger.find(Stage.AMENDED))
    assert (first, second) == ([], [{"mechanism": "bootstrap", "seed": 103}])
    predicate = audit.open().to_dict()
    assert predicate is not None
    assert predicate["excluded"] == {"bootstrap": ["104", "105"]}
    assert predicate["verdicts"][0]["n_releases"] == 6
    assert "the exclusion of draw 103 is void, because this amendment did not" in report(audit)
    assert audit.verify().good


def test_a_ledger_that_hides_which_exclusions_became_void_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    audit.amend("a disk error", exclude=[("bootstrap", 103)])
    audit.amend("all are good after all")
    forge.rewrite(audit, amended=lambda body: body.update(void=[]))
    assert "the ledger names other exclusions that it made void" in forge.found_by(audit)


@pytest.mark.parametrize("draw", [("bootstrap", 99), ("bootstrap", 108), ("copula", 100)])
def test_only_registered_draws_can_be_excluded(at: At, draw: tuple[str, int]) -> None:
    audit = at("drawn")
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="no registered draws"):
        audit.amend("a disk error", exclude=[draw])
    assert snapshot(audit) == before


# Deviations


def test_a_deviation_after_certification_is_in_the_ledger_and_the_report(at: At) -> None:
    audit = at("certified")
    certificate = (audit.folder / CERTIFICATE).read_bytes()
    audit.deviate("one reader saw | the <target> table last year")
    entry = audit.journal().ledger.entries[-1]
    assert entry.stage is Stage.DEVIATED
    assert entry.body.to_dict()["reason"] == "one reader saw | the <target> table last year"
    assert "Deviation recorded after opening: one reader saw" in report(audit)
    html = (audit.folder / "report.html").read_text()
    assert "&lt;target&gt;" in html
    assert "<target>" not in html
    assert (audit.folder / CERTIFICATE).read_bytes() == certificate
    found = audit.verify()
    assert found.good, found.findings


def test_a_deviation_before_certification_costs_the_guarantee(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(*_: object) -> None:
        raise RuntimeError("power cut")

    audit = at("drawn")
    with monkeypatch.context() as patch:
        patch.setattr("proxyguard.audit.open.OpenTarget", power_cut)
        with pytest.raises(RuntimeError, match="power cut"):
            audit.open()  # the opening is recorded, and nothing is scored yet
    audit.deviate("the target table was left in a shared folder")
    predicate = audit.open().to_dict()
    assert predicate is not None
    status = predicate["claim_status"]
    reason = "deviation: the target table was left in a shared folder"
    assert status["guarantee"] == f"no: {reason}"
    assert status["evidence"].endswith("; 1 recorded deviations")
    assert reason in report(audit)
    found = audit.verify()
    assert found.good, found.findings


@pytest.mark.parametrize("stage", ["sealed", "registered", "drawn"])
def test_there_is_nothing_to_deviate_from_before_opening(at: At, stage: str) -> None:
    audit = at(stage)
    before = snapshot(audit)
    with pytest.raises(StageError):
        audit.deviate("too early")
    assert snapshot(audit) == before


def test_a_deviation_without_words_is_refused(at: At) -> None:
    audit = at("certified")
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="give a reason"):
        audit.deviate(" ")
    assert snapshot(audit) == before


# Corrections


def test_a_corrective_certificate_stands_beside_the_registered_one(apart: At) -> None:
    audit = apart("certified")
    before = snapshot(audit)
    found = audit.correct("the records are a sample from a pool", {"pool": 700}).to_dict()
    # The registered test, betting by default, does not cover a pool, and the default for one does.
    assert found["verdicts"][0]["tests"] == dict.fromkeys(
        ("Brier transfer", "Brier risk"), "betting_fixed"
    )
    assert found["corrects"] == audit.journal().ledger.declaration
    after = snapshot(audit)
    for name in (CERTIFICATE, EVIDENCE, RELEASES, DECLARATION, "registry/0.json"):
        assert after[audit.folder / name] == before[audit.folder / name]
    assert json.loads(audit.folder.read("corrections/0.json")) == json.loads(json.dumps(found))
    note = "Corrective certificate (the records are a sample from a pool), which does not replace"
    assert note in report(audit).replace("\\", "")
    assert CHOSEN_AFTER_OPENING in report(audit).replace("\\", "")
    assert audit.journal().ledger.entries[-1].body.to_dict()["decisions"] == {
        "bootstrap": found["verdicts"][0]["decision"]
    }
    verified = audit.verify(with_target=True)
    assert verified.good, verified.findings
    assert verified.unknown == []


def test_a_second_correction_is_a_deviation_and_decides_nothing(
    apart: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = apart("certified")
    value = audit.correct("a pool of 700", {"pool": 700}).to_dict()
    first = (audit.folder / "corrections" / "0.json").read_bytes()

    def looked(*_: object) -> None:
        raise AssertionError("the target was scored again")

    monkeypatch.setattr("proxyguard.audit.open.Opener.rescore", looked)
    found = audit.correct("a pool of 5000, after all", {"pool": 5000}).to_dict()
    assert set(found) == {"deviation", "design"}
    last = audit.journal().ledger.entries[-1]
    assert last.stage is Stage.DEVIATED
    assert set(last.body.to_dict()) == {"reason", "design", "time"}
    assert "decides nothing: a pool of 5000, after all" in last.body.to_dict()["reason"]
    assert [p.name for p in (audit.folder / "corrections").iterdir()] == ["0.json"]
    assert (audit.folder / "corrections" / "0.json").read_bytes() == first
    assert "a pool of 700" in report(audit)
    assert "a pool of 5000" in report(audit)
    assert "**No guarantee remains**: deviation recorded later" in report(audit).replace("\\", "")
    assert audit.verify().good
    # The same design again is the same certificate: a repeated command records nothing.
    before = snapshot(audit)
    assert audit.correct("a pool of 700", {"pool": 700}).to_dict() == json.loads(json.dumps(value))
    assert snapshot(audit) == before


@pytest.mark.parametrize("level", ["mechanism", "releases"])
def test_a_correction_names_no_confidence_of_its_own(apart: At, level: str) -> None:
    audit = apart("new")
    edit(audit, 'limit = "0.10"', 'limit = "0.60"')
    edit(audit, 'source_validation_plus = "0.10"', 'source_validation_plus = "0.60"')
    if level == "releases":
        edit(audit, 'reliability_target = "0.6"', 'level = "releases"')
    audit.run()
    registered = json.dumps(audit.certificate().to_dict())
    assert "95 % confidence" in registered
    found = audit.correct("a pool of 700", {"pool": 700}).to_dict()
    assert {v["decision"] for v in found["verdicts"]} == {"validated"}
    for verdict in found["verdicts"]:
        assert "chosen after the target was opened" in verdict["sentence"]
    said = json.dumps({key: found[key] for key in ("verdicts", "text", "label", "reason")})
    assert re.search(r"\d %|\d confidence", said) is None
    assert audit.verify().good


@pytest.mark.parametrize("registered", [None, "bentkus"])
def test_a_correction_keeps_the_registered_test_where_that_covers_the_design(
    apart: At, registered: str | None
) -> None:
    audit = apart("new")
    test = "hoeffding" if registered is None else registered
    place = audit.folder / DECLARATION
    place.write_text(place.read_text() + f'test = "{test}"\n')
    audit.run()
    found = audit.correct("a pool of 700", {"pool": 700}).to_dict()
    assert set(found["verdicts"][0]["tests"].values()) == {test}
    assert audit.verify().good


def test_the_registered_design_is_no_correction(at: At) -> None:
    audit = at("new")
    place = audit.folder / DECLARATION
    text = place.read_text().replace("reserve = { rows = 300, seed = 11 }", 'file = "target.csv"')
    rows = (audit.folder.path.parent / "data" / "table.csv").read_text().splitlines()
    data = audit.folder.path.parent / "data"
    (data / "target.csv").write_text("\n".join([rows[0], *rows[1:301]]) + "\n")
    (data / "rest.csv").write_text("\n".join([rows[0], *rows[301:]]) + "\n")
    text = text.replace('table = "table.csv"\n', "").replace(
        "[development]", 'design = { pool = 700 }\n\n[development]\ntable = "rest.csv"'
    )
    place.write_text(text)
    audit.run()
    before = snapshot(audit)
    with pytest.raises(RegistryError, match="that is not a correction"):
        audit.correct("the pool, once more", {"pool": 700})
    assert snapshot(audit) == before
    with pytest.raises(TypeError):
        audit.correct("a better test", {"pool": 800}, test="bentkus")  # type: ignore[call-arg]


def test_a_byte_changed_in_a_correction_is_found(apart: At) -> None:
    audit = apart("certified")
    audit.correct("a pool of 700", {"pool": 700})
    place = audit.folder / "corrections" / "0.json"
    content = place.read_bytes()
    for position in (0, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[position] ^= 0x01
        place.write_bytes(bytes(changed))
        assert "corrections/0.json" in {f.place for f in audit.verify().findings}


@pytest.mark.parametrize(
    "design",
    [{"poll": 700}, {"pool": "many"}, {"pool": 100}],  # the target has 300 records
)
def test_a_correction_that_no_theorem_covers_changes_nothing(
    apart: At, design: dict[str, object]
) -> None:
    audit = apart("certified")
    before = snapshot(audit)
    with pytest.raises(RegistryError):
        audit.correct("another design", design)
    assert snapshot(audit) == before


def test_a_correction_needs_a_certificate_and_a_reason(at: At) -> None:
    audit = at("drawn")
    before = snapshot(audit)
    with pytest.raises(StageError, match="no certificate to correct"):
        audit.correct("a pool of 700", {"pool": 700})
    with pytest.raises(RegistryError, match="give a reason"):
        audit.correct("", {"pool": 700})
    assert snapshot(audit) == before


def test_a_correction_keeps_the_rules_of_registration_about_designs(at: At) -> None:
    """A reserve and development are cut from one table, so that neither is a sample of a pool."""
    refused = "a pool is disjoint from development, and a reserve is cut from the same table"
    audit = at("certified")
    before = snapshot(audit)
    with pytest.raises(RegistryError, match=refused):
        audit.correct("the records are a sample from a pool", {"pool": 5000})
    assert snapshot(audit) == before
    new = at("sealed")
    edit(new, 'outcome = "label"', 'outcome = "label"\ndesign = { pool = 5000 }')
    for ask in (new.register, new.check):
        with pytest.raises(RegistryError, match=refused):
            ask()


def test_a_correction_has_no_mark_of_a_verdict(apart: At) -> None:
    audit = apart("certified")
    root = audit.folder.path.parent
    result = CliRunner().invoke(
        app,
        ["correct", str(audit.folder.path), "--home", str(root / "home"), "--data",
         str(root / "data"), "--reason", "a pool", "--design", "{ pool = 700 }"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Under the corrected design the registered rule would" in " ".join(result.output.split())
    assert not [mark for mark in show.MARKS.values() if f"{mark}:" in result.output]


# A population that is sealed, and from which the target is drawn at opening

POPULATION = """\
format = 1
name = "population"
purpose = "Is a draw from a sealed population sound?"

[target]
population = "population.csv"
draw = { size = 200, replace = true, seed = 21 }
outcome = "label"
positive = "yes"

[development]
table = "source.csv"

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.22"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 4
seeds = { first = 100 }

[claim]
reliability_target = "0.4"
"""


def write_records(path: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(6)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    lines = ["first,second,label"]
    lines += [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drawn audit whose target is drawn from a sealed population when it is opened."""
    root = tmp_path_factory.mktemp("population") / "work"
    (root / "data").mkdir(parents=True)
    write_records(root / "data" / "population.csv", rows=500, seed=1)
    write_records(root / "data" / "source.csv", rows=300, seed=2)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(POPULATION)
    audit.seal()
    audit.register()
    audit.draw()
    return root


@pytest.fixture
def population(populated: Path, tmp_path: Path) -> Audit:
    root = tmp_path / "population"
    shutil.copytree(populated, root)
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def records_of(audit: Audit) -> int:
    size: int = json.loads(audit.folder.read(EVIDENCE))["groups"]["bootstrap"]["columns"][0]["n"]
    return size


def test_a_population_is_scored_on_as_many_records_as_were_registered(population: Audit) -> None:
    population.open()
    assert records_of(population) == 200
    assert population.verify(with_target=True).good


def test_the_size_of_a_draw_from_a_population_may_be_amended(population: Audit) -> None:
    edit(population, "size = 200", "size = 350")
    population.amend("the plan needs more records")
    predicate = population.open().to_dict()
    assert predicate is not None
    assert records_of(population) == 350
    assert predicate["claim_status"]["registered"] == "yes; amended 1 times before opening"
    found = population.verify(with_target=True)
    assert found.good, found.findings


def test_the_population_itself_may_not_be_amended(population: Audit) -> None:
    edit(population, 'population = "population.csv"', 'population = "source.csv"')
    before = snapshot(population)
    with pytest.raises(StageError, match="differ from what was sealed"):
        population.amend("an easier population")
    assert snapshot(population) == before


def test_a_registry_left_by_hand_is_not_taken_for_an_amendment(at: At) -> None:
    audit = at("drawn")
    value = json.loads(audit.folder.read("registry/0.json"))
    value["members"]["target"]["requirements"][0]["limit"]["value"] = "0.50"
    audit.folder.write("registry/1.json", canonical_bytes(value))
    assert audit.verify().unknown == ["registry/1.json"]
    audit.folder.write("registry/0.json", canonical_bytes(value))
    with pytest.raises(DigestMismatch, match=r"registry/0\.json"):
        audit.open()
