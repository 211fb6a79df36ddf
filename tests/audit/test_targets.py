"""Every way to a target leads to a certificate that says what the records say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import proxyguard as pg
from proxyguard.audit import draw as drawing
from proxyguard.audit.audit import Audit
from proxyguard.audit.home import load_key_file
from proxyguard.audit.outcome import Registration
from proxyguard.audit.target import Chunk, OpenTarget
from proxyguard.documents.document import FORMAT
from proxyguard.documents.releases import DrawnRelease, DroppedFailure, FailedDraw, read_draw
from proxyguard.errors import ProxyGuardError, RegistryError, TableError
from proxyguard.models.stored import load_model
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.target import Outcome
from proxyguard.seal.ledger import Stage
from proxyguard.seal.sealed_file import SealedFile
from proxyguard.tables.files import table_bytes

Array = NDArray[np.float64]

HEAD = 'format = 1\nname = "small"\npurpose = "Is this target read as declared?"\n'
RESERVE = """
[target]
table = "table.csv"
reserve = { rows = 250, seed = 11 }
outcome = "label"
positive = "yes"
exclude = ["site", "colour"]
"""
PROCEDURE = '\n[procedure]\nlibrary = ["fixed_logistic"]\n'
BRIER = """
[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.10"

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.30"
"""
BOOTSTRAP = """
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 5
seeds = { first = 100 }
"""
CLAIM = '\n[claim]\nreliability_target = "0.3"\n'


@pytest.fixture(autouse=True)
def _draws_here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)


def table(rows: int = 500, seed: int = 1) -> pd.DataFrame:
    """Two features, two columns of categories, and outcomes that follow with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    signal = x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows)
    return pd.DataFrame(
        {
            "first": x[:, 0],
            "second": x[:, 1],
            "site": rng.choice(["a", "b"], size=rows, p=[0.6, 0.4]),
            "colour": rng.choice(["red", "green", "blue"], size=rows),
            "label": np.where(signal > 0, "yes", "no"),
        }
    )


def put(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)


def audit_of(root: Path, declaration: str) -> Audit:
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(declaration)
    return audit


def certified(root: Path, declaration: str) -> Audit:
    """Take every step, and check the folder as a stranger and as who has the key."""
    audit = audit_of(root, declaration)
    assert audit.check().problems == []
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    for with_target in (False, True):
        found = audit.verify(with_target=with_target)
        assert found.good, found.findings
        assert found.unknown == []
    return audit


def opened(audit: Audit, name: str = "target") -> OpenTarget:
    """Decrypt a target with the key that lies in the audit's home."""
    journal = audit.journal()
    sealed = journal.ledger.sealed
    members = audit.folder.registry(journal).declaration.members
    holder = load_key_file(audit.home.target_key_path(sealed.audit))
    own = sealed.members[name]
    key = SealedFile(audit.folder / f"target/{own.index}.sealed").unwrap(holder)
    return OpenTarget(audit.folder, next(m for m in members if m.name == name), own, key)


def evidence_of(audit: Audit, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.folder.read("evidence.json"))["groups"][group]
    return found


def draws_of(audit: Audit, mechanism: str, member: str = "target") -> list[dict[str, Any]]:
    manifest = json.loads(audit.folder.read("releases.json"))
    found: list[dict[str, Any]] = manifest["members"][member][mechanism]["draws"]
    return found


def probabilities(audit: Audit, record: Mapping[str, Any], chunk: Chunk) -> Array:
    """Predict with a stored logistic regression; features in the table's order."""
    model = load_model(audit.folder.store.get(record["model"]), "a model")
    x = chunk.frame[["first", "second"]].to_numpy(dtype=np.float64)
    return np.asarray(model.predict_proba(x)[:, 1])


def hand_losses(audit: Audit) -> tuple[Array, Chunk]:
    """Return the Brier losses of every draw, relative and absolute, by plain arithmetic."""
    chunk = opened(audit).whole()
    y = (chunk.frame["label"] == "yes").to_numpy(dtype=np.float64)
    source = audit.folder.registry(audit.journal()).members["target"].to_dict()["source"]
    base = (probabilities(audit, source, chunk) - y) ** 2
    values = []
    for record in draws_of(audit, "bootstrap"):
        own = (probabilities(audit, record, chunk) - y) ** 2
        values.append(np.stack([own - base, own], axis=1))
    return np.stack(values), chunk


def certify_by_hand(audit: Audit, losses: Array, chunk: Chunk, **choices: Any) -> dict[str, Any]:
    """Certify the losses with the public function and the seed that the audit recorded."""
    member = audit.folder.registry(audit.journal()).declaration.members[0]
    certificate = pg.certify(
        pg.LossArray(losses, chunk.records),
        [
            pg.Requirement(
                name="Brier transfer", low=-1, high=1, limit=0.10, form=pg.Form.RELATIVE
            ),
            pg.Requirement(name="Brier risk", low=0, high=1, limit=0.30),
        ],
        design=member.target.sampling_design,
        seed=int(json.loads(audit.folder.read("evidence.json"))["seed"]),
        reliability_target="0.3",
        **choices,
    )
    return certificate.to_dict()


def assert_same_verdict(audit: Audit, by_hand: dict[str, Any]) -> None:
    """Compare all that the losses decide; names and the basis are the audit's own."""
    (verdict,) = audit.certificate().to_dict()["verdicts"]
    plain = json.loads(json.dumps(by_hand))
    for key in ("decision", "lower", "upper", "reliability_lower", "reliability_upper", "tests",
                "n_records", "n_releases", "certified", "design", "seed"):  # fmt: skip
        assert verdict[key] == plain[key], key


def test_a_reserve_is_scored_as_by_hand(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    assert losses.shape == (5, 250, 2)
    assert len(set(chunk.positions.tolist())) == 250
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], losses.mean(axis=1), rtol=0, atol=1e-12)
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert audit.certificate().predicate.estimand["target"].endswith("at their natural prevalence")


def test_reserved_rows_are_those_of_the_seed_and_the_others_are_development(
    tmp_path: Path,
) -> None:
    frame = table()
    put(frame, tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    chosen = np.random.default_rng(11).choice(500, size=250, replace=False)
    chunk = opened(audit).whole()
    assert sorted(chunk.positions.tolist()) == sorted(chosen.tolist())
    assert chunk.positions.tolist() != sorted(chosen.tolist())  # the sealed order is random
    np.testing.assert_array_equal(chunk.frame["first"], frame["first"].iloc[chunk.positions])
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    rest = frame["first"].drop(index=chosen.tolist())
    assert sorted(training["first"].tolist()) == sorted(rest.tolist())


STRATA = RESERVE.replace("rows = 250, ", "").replace('exclude = ["site", "colour"]', (
    'exclude = ["colour"]\n'
    'design = {{ by = "site", sizes = {{ a = {a}, b = {b} }}, '
    'weights = {{ a = "{wa}", b = "{wb}" }} }}'
))  # fmt: skip


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize(
    ("sizes", "weights", "kind", "test"),
    [
        ((120, 120), ("0.5", "0.5"), "an equal mixture", "bentkus"),
        ((150, 90), ("0.625", "0.375"), "the registered mixture", "bentkus"),
        ((150, 90), ("0.3", "0.7"), "the registered mixture", "betting_fixed"),
        ((150, 90), ("0.5", "0.5"), "an equal mixture", "betting_fixed"),
    ],
)
def test_strata_have_their_sizes_and_their_weights(
    tmp_path: Path, sizes: tuple[int, int], weights: tuple[str, str], kind: str, test: str
) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    target = STRATA.replace("{{", "{").replace("}}", "}")
    for key, value in zip(("{a}", "{b}", "{wa}", "{wb}"), (*sizes, *weights), strict=True):
        target = target.replace(key, str(value))
    audit = certified(tmp_path, HEAD + target + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    strata = np.asarray(chunk.records.strata)
    assert {name: int((strata == name).sum()) for name in ("a", "b")} == dict(
        zip(("a", "b"), sizes, strict=True)
    )
    by_hand = sum(
        float(weight) * losses[:, strata == name].mean(axis=1)
        for name, weight in zip(("a", "b"), weights, strict=True)
    )
    found = evidence_of(audit, "bootstrap")
    np.testing.assert_allclose(found["derived"]["estimates"], by_hand, rtol=0, atol=1e-12)
    assert found["tests"] == [test, test]
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    words = audit.certificate().predicate.estimand["target"]
    assert words == f"{kind} of the strata of 'site' (weights a {weights[0]}, b {weights[1]})"


def test_reserving_strata_reads_the_stratum_column_and_nothing_else(tmp_path: Path) -> None:
    frame = table()
    put(frame, tmp_path / "data" / "table.csv")
    shuffled = frame.assign(
        label=frame["label"].to_numpy()[::-1], first=frame["first"].to_numpy()[::-1]
    )
    put(shuffled, tmp_path / "other" / "data" / "table.csv")
    target = STRATA.replace("{{", "{").replace("}}", "}")
    for mark, value in {"{a}": "100", "{b}": "80", "{wa}": "0.5", "{wb}": "0.5"}.items():
        target = target.replace(mark, value)
    positions = []
    for root in (tmp_path, tmp_path / "other"):
        audit = audit_of(root, HEAD + target + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
        audit.seal()
        sealed = audit.journal().ledger.sealed
        holder = load_key_file(audit.home.target_key_path(sealed.audit))
        own = sealed.members["target"]
        key = SealedFile(audit.folder / "target/0.sealed").unwrap(holder)
        member = audit.folder.declaration().members[0]
        chunk = OpenTarget(audit.folder, member, own, key).whole()
        positions.append(sorted(chunk.positions.tolist()))
    assert positions[0] == positions[1]


def test_a_stratum_with_too_few_records_is_refused_before_anything_is_sealed(
    tmp_path: Path,
) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    target = STRATA.replace("{{", "{").replace("}}", "}")
    for key, value in {"{a}": "100", "{b}": "400", "{wa}": "0.5", "{wb}": "0.5"}.items():
        target = target.replace(key, value)
    audit = audit_of(tmp_path, HEAD + target + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    with pytest.raises(TableError, match="stratum 'b' of 'site' is to give 400 records and has"):
        audit.seal()
    assert not audit.journal().ledger.has(Stage.SEALED)


APART = """
[target]
{source}
outcome = "label"
positive = "yes"
exclude = ["site", "colour"]
{design}
[development]
table = "development.csv"
"""


def declared_apart(tmp_path: Path, source: str, design: str = "") -> str:
    """Write a target that lies in a file of its own, and return its declaration."""
    put(table(260, seed=2), tmp_path / "data" / "target.csv")
    put(table(240, seed=3), tmp_path / "data" / "development.csv")
    text = APART.replace("{source}", source).replace("{design}", design)
    return HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM


def apart(tmp_path: Path, source: str, design: str = "") -> Audit:
    """Certify on a target that lies in a file of its own."""
    return certified(tmp_path, declared_apart(tmp_path, source, design))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('file = "target.csv"\ndesign = { pool = 100 }',
         "260 records cannot come from a pool of 100"),
        ('population = "target.csv"\ndraw = { size = 50, replace = false, seed = 7 }\n'
         "design = { pool = 300 }",
         "the population has 260 records, declared pool 300"),
        ('file = "target.csv"\ndesign = { by = "site", sizes = { a = 90, b = 90 }, '
         'weights = { a = "0.5", b = "0.5" } }',
         "strata of 'site' are not as declared, in records: a "),
        ('file = "target.csv"\ndesign = { by = "site", max_size = 3 }',
         "declared max_size 3"),
    ],
)  # fmt: skip
def test_a_design_that_the_records_do_not_have_is_refused_before_they_are_sealed(
    tmp_path: Path, source: str, message: str
) -> None:
    audit = audit_of(tmp_path, declared_apart(tmp_path, source))
    assert any(message in problem for problem in audit.check().problems)
    with pytest.raises(TableError, match=message):
        audit.seal()
    assert not (tmp_path / "audit" / "ledger.jsonl").exists()


def test_a_target_file_is_used_whole(tmp_path: Path) -> None:
    audit = apart(tmp_path, 'file = "target.csv"')
    losses, chunk = hand_losses(audit)
    assert sorted(chunk.positions.tolist()) == list(range(260))
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], losses.mean(axis=1), rtol=0, atol=1e-12)
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert "'target.csv'" in audit.certificate().predicate.estimand["target"]


def test_records_drawn_with_replacement_repeat_and_have_the_declared_number(
    tmp_path: Path,
) -> None:
    draw = 'population = "target.csv"\ndraw = { size = 400, replace = true, seed = 7 }'
    audit = apart(tmp_path, draw)
    losses, chunk = hand_losses(audit)
    ids = np.asarray(chunk.records.ids)
    np.testing.assert_array_equal(ids, np.random.default_rng(7).integers(0, 260, size=400))
    assert len(set(ids.tolist())) < 260
    (verdict,) = audit.certificate().to_dict()["verdicts"]
    assert verdict["n_records"] == {"Brier transfer": 400, "Brier risk": 400}
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], losses.mean(axis=1), rtol=0, atol=1e-12)
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert "this empirical population" in audit.certificate().predicate.estimand["target"]


def test_a_sample_without_replacement_is_tested_as_one(tmp_path: Path) -> None:
    audit = apart(tmp_path, 'file = "target.csv"', "design = { pool = 9000 }")
    losses, chunk = hand_losses(audit)
    found = evidence_of(audit, "bootstrap")
    assert found["tests"] == ["betting_fixed", "betting_fixed"]
    np.testing.assert_allclose(
        found["derived"]["estimates"], losses.mean(axis=1), rtol=0, atol=1e-12
    )
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    words = audit.certificate().predicate.estimand["target"]
    assert words == "the pool of 9,000 records that the target was drawn from"


@pytest.mark.parametrize(
    ("weighting", "over"),
    [("cluster", "clusters, each counting once"), ("record", "records, whatever their cluster")],
)
def test_clusters_count_once_or_by_their_records(tmp_path: Path, weighting: str, over: str) -> None:
    rng = np.random.default_rng(5)
    for name, seed, rows in (("target", 2, 260), ("development", 3, 240)):
        frame = table(rows, seed)
        frame["site"] = [f"{name[0]}{k}" for k in rng.integers(0, 60, size=rows)]
        put(frame, tmp_path / "data" / f"{name}.csv")
    design = f'design = {{ by = "site", weighting = "{weighting}", max_size = 20 }}'
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", design)
    text = text.replace('exclude = ["site", "colour"]', 'exclude = ["colour"]')
    audit = certified(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    labels = np.asarray(chunk.records.clusters)
    names = sorted(set(labels.tolist()))
    found = evidence_of(audit, "bootstrap")
    assert [column["n"] for column in found["columns"]] == [len(names)] * 2
    by_hand = (
        np.stack([losses[:, labels == name].mean(axis=1) for name in names]).mean(axis=0)
        if weighting == "cluster"
        else losses.mean(axis=1)
    )
    np.testing.assert_allclose(found["derived"]["estimates"], by_hand, rtol=0, atol=1e-12)
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert audit.certificate().predicate.estimand["target"].endswith(over)


WEIGHTED = RESERVE.replace(
    'exclude = ["site", "colour"]',
    'exclude = ["site", "colour"]\n'
    'design = { weight = "persons", max_weight = "8", origin = "design" }',
)


def test_weights_make_a_claim_per_person_represented(tmp_path: Path) -> None:
    frame = table()
    frame["persons"] = np.random.default_rng(6).choice([0.5, 1.0, 8.0], size=len(frame))
    put(frame, tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + WEIGHTED + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    persons = chunk.frame["persons"].to_numpy()
    by_hand = (losses * persons[None, :, None]).sum(axis=1) / persons.sum()
    found = evidence_of(audit, "bootstrap")
    assert found["tests"] == ["betting", "betting"]
    np.testing.assert_allclose(found["derived"]["estimates"], by_hand, rtol=0, atol=1e-12)
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert audit.certificate().predicate.estimand["target"] == (
        "the persons that the records represent, each record counting by its design weight in "
        "'persons' (at most 8)"
    )


@pytest.mark.parametrize("named", [True, False])
def test_releases_made_elsewhere_need_no_weights(tmp_path: Path, named: bool) -> None:
    frame = table()
    frame["persons"] = np.random.default_rng(6).choice([0.5, 1.0, 8.0], size=len(frame))
    put(frame, tmp_path / "data" / "table.csv")
    claim = named_releases(tmp_path / "data") + RELEASES_CLAIM
    if not named:
        for seed in range(100, 105):
            put(table(240, seed=seed), tmp_path / "data" / "made" / f"{seed}.csv")
        claim = BOOTSTRAP.replace(
            '"bootstrap"\ndraws', '"files"\noptions = { folder = "made", first = 100 }\ndraws'
        )
        claim += CLAIM
    audit = certified(tmp_path, HEAD + WEIGHTED + PROCEDURE + BRIER + claim)
    assert audit.certificate().predicate.estimand["target"].startswith("the persons")


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ("", "'persons' holds the weights: .*record 0 has no finite weight"),
        ("-1.25", "record 0 has a negative weight"),
        ("8.25", "record 0 has a weight above the registered max_weight 8"),
    ],
)
def test_a_weight_that_is_none_is_refused_before_it_is_sealed(
    tmp_path: Path, weight: str, words: str
) -> None:
    frame = table()
    frame["persons"] = ["2"] * len(frame)
    reserved = np.random.default_rng(11).choice(500, size=250, replace=False)
    frame.loc[reserved.min(), "persons"] = weight
    put(frame, tmp_path / "data" / "table.csv")
    audit = audit_of(tmp_path, HEAD + WEIGHTED + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    with pytest.raises(TableError, match=words) as caught:
        audit.seal()
    assert ".25" not in str(caught.value)


def test_given_losses_may_have_weights(tmp_path: Path) -> None:
    losses, names = given_losses()
    persons = np.random.default_rng(6).choice([0.5, 1.0, 8.0], size=220)
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses, releases=np.array(names), persons=persons,
        requirements=np.array(["Brier transfer", "Brier risk"]),
    )  # fmt: skip
    target = GIVEN.replace("{file}", "losses.npz")
    target += 'design = { weight = "persons", max_weight = "8", origin = "design" }\n'
    audit = certified(tmp_path, HEAD + target + BRIER + GIVEN_MECHANISM + CLAIM)
    by_hand = (losses * persons[None, :, None]).sum(axis=1) / persons.sum()
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], by_hand, rtol=0, atol=1e-12)


MISSING = RESERVE.replace(
    'exclude = ["site", "colour"]',
    'exclude = ["site", "colour"]\nmissing_outcomes = "worst"\nread = { missing = ["?"] }',
)


def table_with_gaps() -> pd.DataFrame:
    frame = table()
    frame.loc[np.random.default_rng(9).random(len(frame)) < 0.08, "label"] = "?"
    return frame


def test_missing_outcomes_count_at_either_bound(tmp_path: Path) -> None:
    frame = table_with_gaps()
    put(frame, tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + MISSING + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    lost = (chunk.frame["label"] == "?").to_numpy()
    assert 5 < lost.sum() < 40
    # Which no audit can see: tests that do not rise with every loss rest on it.
    said = audit.certificate().predicate.estimand["target"]
    assert "empirical_bernstein hold where an outcome is missing by its record alone" in said
    losses[:, lost] = np.nan
    found = evidence_of(audit, "bootstrap")
    for j, (low, high) in enumerate(((-1.0, 1.0), (0.0, 1.0))):
        up, down = (np.nan_to_num(losses[:, :, j], nan=fill).mean(axis=1) for fill in (high, low))
        estimates = [row[j] for row in found["derived"]["estimates"]]
        np.testing.assert_allclose(estimates, up, rtol=0, atol=1e-12)
        column = found["columns"][j]
        np.testing.assert_allclose(
            low + np.array(column["mean_low"]) * (high - low), down, rtol=0, atol=1e-12
        )
        assert column["missing"] == [int(lost.sum())] * 5
    # Nobody learns from a row without an outcome.
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert set(training["label"]) == {"yes", "no"}
    member = audit.folder.registry(audit.journal()).declaration.members[0]
    assert member.target.missing_outcomes == "worst"
    report = (audit.folder.path / "report.md").read_text()
    assert "Missing outcomes" in report
    assert f"| bootstrap | Brier risk | {int(lost.sum())} | 250 records |" in report
    by_hand = pg.certify(
        pg.LossArray(losses, chunk.records),
        [
            pg.Requirement(name="Brier transfer", low=-1, high=1, limit=0.10, missing="worst"),
            pg.Requirement(name="Brier risk", low=0, high=1, limit=0.30, missing="worst"),
        ],
        seed=int(json.loads(audit.folder.read("evidence.json"))["seed"]), reliability_target="0.3",
    )  # fmt: skip
    assert_same_verdict(audit, by_hand.to_dict())


OF_FILES = """
[[requirement]]
name = "share of yes"
form = "query"
limit = "0.2"
[requirement.query]
share = { label = "yes" }

[[mechanism]]
name = "files"
generator = "files"
options = { folder = "releases" }
draws = 5
"""


def left_out(root: Path, known: Callable[[pd.DataFrame], pd.DataFrame]) -> Audit:
    """Return an audit of tables with gaps, of which ``known`` gives the rows that are written."""
    tables = {"target": table(260, seed=2), "development": table(240, seed=3)}
    tables |= {f"releases/{k}": table(200, seed=10 + k) for k in range(5)}
    for k, (name, frame) in enumerate(tables.items()):
        frame.loc[np.random.default_rng(k).random(len(frame)) < 0.1, "label"] = ["?", " ? ", ""][
            k % 3
        ]
        put(known(frame), root / "data" / f"{name}.csv")
    declared = 'missing_outcomes = "leave out"\nread = { missing = ["?"] }'
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", declared)
    return certified(root, HEAD + text + PROCEDURE + BRIER + OF_FILES + CLAIM)


def test_what_has_no_outcome_may_be_left_out_of_every_table(tmp_path: Path) -> None:
    audit = left_out(tmp_path / "gaps", lambda frame: frame)
    clean = left_out(tmp_path / "clean", lambda f: f[f["label"].str.strip().isin(["yes", "no"])])
    (sealed,) = audit.journal().ledger.sealed.members.values()
    (other,) = clean.journal().ledger.sealed.members.values()
    assert sealed.unlabelled == 260 - sealed.records > 10
    assert (other.records, other.unlabelled) == (sealed.records, 0)
    # Learned from, asked and judged is what the others would have given.
    found, wanted = (evidence_of(a, "files")["derived"]["estimates"] for a in (audit, clean))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert [d["content"] for d in draws_of(audit, "files")] == [
        d["content"] for d in draws_of(clean, "files")
    ]
    report = (audit.folder.path / "report.md").read_text()
    assert "that have an outcome 'label'" in report
    assert f"{sealed.unlabelled} records without one were left out" in report
    dropped = [draw["unlabelled"] for draw in draws_of(audit, "files")]
    assert [draw["rows"] for draw in draws_of(audit, "files")] == [200 - n for n in dropped]
    assert (
        f"of 5 of 5 releases, rows without an outcome were left out, up to {max(dropped)} of 200"
        in report
    )
    assert "unlabelled" not in draws_of(clean, "files")[0]
    stated = audit.certificate().predicate.stated_not_checked
    assert "records without an outcome" in [one.about for one in stated]
    assert audit.verify().findings == clean.verify().findings == []


def test_check_says_which_releases_hardly_have_an_outcome(tmp_path: Path) -> None:
    tables = {"target": table(260, seed=2), "development": table(240, seed=3)}
    tables |= {f"releases/{k}": table(200, seed=10 + k) for k in range(5)}
    tables["releases/1"].loc[50:, "label"] = None
    for name, frame in tables.items():
        put(frame, tmp_path / "data" / f"{name}.csv")
    declared = 'missing_outcomes = "leave out"'
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", declared)
    audit = audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + OF_FILES + CLAIM)
    (said,) = (line for line in audit.check().warnings if "1.csv" in line)
    assert "1.csv (50 of 200 have it): most rows have no 'label' and are left out" in said


ASKED = (
    '{ share = { big = "1" } }', '{ mean = "first", range = ["-2", "2"] }',
    '{ ratio = ["second", "one"], ranges = { second = ["-3", "3"], one = ["0", "1"] } }',
    '{ correlation = ["first", "second"], range = ["-4", "4"] }', '{ share = { label = "yes" } }',
)  # fmt: skip


def test_a_release_answers_with_all_its_rows_also_those_without_an_outcome(tmp_path: Path) -> None:
    tables = {"target": table(260, seed=2), "development": table(240, seed=3)}
    tables |= {f"releases/{k}": table(200, seed=10 + k) for k in range(5)}
    for name, frame in tables.items():
        frame["one"], frame["big"] = 1.0, (frame["first"] > 0.8).astype(int)
        if name != "development":
            # Lost where the first number is large: those who are left are others.
            frame.loc[(frame["first"] > 0.8) & (frame.index % 4 > 0), "label"] = None
        put(frame, tmp_path / "data" / f"{name}.csv")
    declared = 'missing_outcomes = "worst"'
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", declared)
    asked = "".join(
        f'\n[[requirement]]\nname = "q{k}"\nform = "query"\nlimit = "0.4"\nquery = {query}\n'
        for k, query in enumerate(ASKED)
    )
    _, files = OF_FILES.split("\n[[mechanism]]")
    text = HEAD + text + PROCEDURE + BRIER + asked + "\n[[mechanism]]" + files + CLAIM
    audit = certified(tmp_path, text)
    assert [draw["rows"] for draw in draws_of(audit, "files")] == [200] * 5
    moments = json.loads(audit.folder.read("registry/0.json"))["members"]["target"]["facts"]
    shift = {name: [float(x) for x in pair] for name, pair in moments["moments"].items()}

    def answers(frame: pd.DataFrame) -> list[float]:
        x, z = ((frame[c] - shift[c][0]) / shift[c][1] for c in ("first", "second"))
        return [
            frame["big"].mean(), frame["first"].clip(-2, 2).mean(), 0.0,
            (x * z).clip(-4, 4).mean(), (frame["label"] == "yes").mean(),
        ]  # fmt: skip

    wanted = answers(tables["target"])
    found = np.array(evidence_of(audit, "files")["derived"]["estimates"])
    for k in range(5):
        gaps = np.array(wanted) - answers(tables[f"releases/{k}"])
        for j in (0, 1, 3, 4):
            assert found[k][2 + 2 * j] == pytest.approx(gaps[j], abs=1e-6)
    # A ratio is within its limit where a - (c + 0.4) b is below 0, of the whole release's c.
    ratios = [t["second"].clip(-3, 3).mean() for t in tables.values()]
    most = 3 + np.array(ratios[2:]) + 0.4
    wanted_sides = (ratios[0] - np.array(ratios[2:]) - 0.4) / np.maximum(most, 3)
    np.testing.assert_allclose(found[:, 6], wanted_sides, rtol=0, atol=1e-12)
    gaps = max(int(tables[f"releases/{k}"]["label"].isna().sum()) for k in range(5))
    assert (
        audit.certificate()
        .predicate.estimand["target"]
        .endswith(
            f"of 5 of 5 releases, rows without an outcome taught no model, up to {gaps} of 200"
        )
    )
    assert audit.verify().findings == []


def test_check_says_what_missing_outcomes_eat_and_what_weights_do_not_count(
    tmp_path: Path,
) -> None:
    text = strata_of_wards(tmp_path)
    with_persons(tmp_path / "data")
    frame = pd.read_csv(tmp_path / "data" / "development.csv")
    frame.loc[::10, "label"] = None
    put(frame, tmp_path / "data" / "development.csv")
    put(frame.dropna(), tmp_path / "data" / "other.csv")
    within = PERSONS.replace('"design"', '"within strata"')
    text = text.replace('weighting = "record", max_size = 20', within)
    text = text.replace('positive = "yes"', 'positive = "yes"\nmissing_outcomes = "worst"')
    share, _ = OF_FILES.split("\n[[mechanism]]")
    named = '\n[[release]]\nname = "other"\nfile = "other.csv"\n\n[claim]\nlevel = "releases"\n'
    warnings = audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + share + named).check().warnings
    assert [w for w in warnings if "have no 'label'" in w] == [
        f"{name}: 10.0% of the development rows have no 'label'; as many target records at their "
        f"worst put about 0.1 on the mean of every release, of a limit of {limit}"
        for name, limit in (("Brier transfer", "0.1"), ("Brier risk", "0.3"))
    ]
    (weighted,) = (w for w in warnings if "'persons'" in w)
    assert weighted.startswith("other: each record counts once in a release's answers")


# Two files of one survey: target and pilot apart, outcomes that are missing, a model too.
SURVEY = """
format = 1
name = "survey"
purpose = "Do aggregates and a model of older or synthetic files hold on this year's survey?"

[target]
file = "target.csv"
outcome = "employed"
positive = "yes"
missing_outcomes = "worst"
exclude = ["stratum", "psu", "weight"]

[target.design]
by = "stratum"
sizes = { north = 40, south = 40 }
sampled = { north = 80, south = 80 }
[target.design.clusters]
by = "psu"
weighting = "weight"
weight = "weight"
max_weight = "30"
origin = "design"

[development]
table = "pilot.csv"

[procedure]
library = ["default"]

[[requirement]]
name = "employed"
form = "query"
query = { share = { employed = "yes" } }
limit = "0.3"

[[requirement]]
name = "spending per income"
form = "query"
query.ratio = ["spending", "income"]
query.ranges = { spending = ["0", "100"], income = ["0", "100"] }
limit = "0.5"

[[requirement]]
name = "Brier"
loss = "brier"
form = "relative"
limit = "0.2"

[[release]]
name = "older cohort"
file = "cohort.csv"

[[release]]
name = "synthetic"
file = "synthetic.csv"

[claim]
level = "releases"
"""


def test_a_survey_in_two_files_is_an_audit(tmp_path: Path) -> None:
    for k, name in enumerate(("target", "pilot", "cohort", "synthetic")):
        rng = np.random.default_rng(k)
        psu = np.repeat(np.arange(80), 6)  # 40 of either stratum
        income = rng.uniform(20, 90, psu.size).round(2)
        employed = np.where(rng.random(psu.size) < income / 120, "yes", "no").astype(object)
        employed[rng.random(psu.size) < 0.02] = None
        frame = pd.DataFrame({
            "stratum": np.where(psu < 40, "north", "south"), "psu": [f"{name}{c}" for c in psu],
            "weight": rng.choice([1.0, 2.0, 4.0], psu.size), "income": income,
            "spending": (0.7 * income).round(2), "employed": employed,
        })  # fmt: skip
        if name == "synthetic":  # only the target was sampled by these
            frame = frame.drop(columns=["stratum", "psu", "weight"])
        put(frame, tmp_path / "data" / f"{name}.csv")
    audit = certified(tmp_path, SURVEY)
    assert set(evidence_of(audit, "target")["tests"]) == {"betting_fixed"}
    report = (audit.folder.path / "report.md").read_text()
    assert "The share of records known to have employed = yes in a release may differ" in report
    assert "the target's averaged over the persons that records represent" in report
    assert "the release's over its own records, each counting once." in report
    # What tests count are clusters, and neither of two tests that would need a word is used.
    assert "| limit's rule | clusters |" in report.replace("\\", "")
    assert "| 80 clusters |" in report
    assert "missing by its record alone" not in report
    assert "within 0.5 of the release's ratio c" in report


def test_columns_of_the_design_may_be_said_to_be_lacking(tmp_path: Path) -> None:
    lacking = 'lacks = ["stratum", "psu", "weight"]'
    said = SURVEY.replace('"synthetic.csv"', f'"synthetic.csv"\n{lacking}')
    (member,) = read_declaration(said).members
    assert member.spared("synthetic") >= {"stratum", "psu", "weight"}


def test_a_group_in_strata_of_clusters_is_refused_before_anything_is_sealed(tmp_path: Path) -> None:
    said = SURVEY.replace('limit = "0.5"', 'limit = "0.5"\ngroup = { employed = "yes" }')
    said = said.replace('missing_outcomes = "worst"', "")
    words = (
        r"'spending per income': .* the design is StratifiedClusters: .* ratio = \[ABOVE, BELOW\]"
    )
    with pytest.raises(RegistryError, match=words):
        audit_of(tmp_path, said).check()


@pytest.mark.parametrize(("change", "words"), [
    (("[claim]", '[claim]\ntest = "binomial"'), "not two-valued; betting_fixed covers it"),
    (("[claim]", '[claim]\ntest = "betting"'), "the design is StratifiedClusters"),
    (("format = 1", "format = 1\ndisclosure = { digits = 2 }"), "leave disclosure out"),
])  # fmt: skip
def test_what_register_would_refuse_of_queries_check_tells_before_the_seal(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    (tmp_path / "data").mkdir()
    for k, name in enumerate(("target", "pilot", "cohort", "synthetic")):
        rng = np.random.default_rng(k)
        psu = np.repeat(np.arange(80), 4)
        put(pd.DataFrame({
            "stratum": np.where(psu < 40, "north", "south"), "psu": [f"{name}{c}" for c in psu],
            "weight": 1.0, "employed": np.where(rng.random(psu.size) < 0.6, "yes", "no"),
            "income": rng.uniform(20, 90, psu.size), "spending": rng.uniform(10, 60, psu.size),
        }), tmp_path / "data" / f"{name}.csv")  # fmt: skip
    brier = SURVEY.index('[[requirement]]\nname = "Brier"')
    queries = SURVEY[:brier] + SURVEY[SURVEY.index("[[release]]") :]
    queries = queries.replace('[procedure]\nlibrary = ["default"]\n', "")
    audit = audit_of(tmp_path, queries.replace(*change))
    told = audit.check()
    assert any(words in problem for problem in told.problems), told.problems
    (audit.folder / "audit.toml").write_text(queries)
    assert audit.check().problems == []


def test_a_reserve_leaves_out_what_has_no_outcome_after_it_was_chosen(tmp_path: Path) -> None:
    put(table_with_gaps(), tmp_path / "data" / "table.csv")
    text = HEAD + MISSING.replace("worst", "leave out") + PROCEDURE + BRIER + BOOTSTRAP + CLAIM
    audit = certified(tmp_path, text)
    (sealed,) = audit.journal().ledger.sealed.members.values()
    assert sealed.records == 250 - (sealed.unlabelled or 0) < 245
    assert audit.verify().findings == []


@pytest.mark.parametrize(
    "design",
    [
        'design = { by = "site", sizes = { a = 5, b = 5 }, weights = { a = "0.5", b = "0.5" } }',
        'design = { by = "site", weighting = "record", max_size = 200 }',
        "design = { pool = 900 }",
    ],
)
def test_sizes_and_weights_of_all_records_do_not_hold_for_those_with_an_outcome(
    design: str,
) -> None:
    text = HEAD + APART.replace("{source}", 'file = "target.csv"').replace(
        "{design}", f'{design}\nmissing_outcomes = "leave out"'
    )
    with pytest.raises(RegistryError, match="iid sample"):
        read_declaration(text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)


def test_a_missing_outcome_is_refused_without_a_word_on_it(tmp_path: Path) -> None:
    put(table_with_gaps(), tmp_path / "data" / "table.csv")
    text = HEAD + MISSING.replace("worst", "refuse") + PROCEDURE + BRIER + BOOTSTRAP + CLAIM
    with pytest.raises(TableError):
        audit_of(tmp_path, text).seal()


@pytest.mark.parametrize(
    ("name", "column", "told"),
    [
        ("target.csv", "first", "target.csv, row 41 has none"),
        ("development.csv", "first", "development.csv, row 41 has none"),
        ("target.csv", "label", "target, row 41: 'label' is not as declared"),
        ("development.csv", "label", "development, row 41: 'label' is not as declared"),
        ("release.csv", "first", "release.csv, row 41 has none"),
        ("release.csv", "label", "release.csv, row 41: 'label' is not as declared"),
    ],
)
def test_a_message_names_the_row_of_its_file_also_where_rows_above_were_left_out(
    tmp_path: Path, name: str, column: str, told: str
) -> None:
    for k, file in enumerate(("target.csv", "development.csv", "release.csv")):
        frame = table(260, seed=2 + k).astype(object)
        frame.loc[frame.index < 30, "label"] = "?"
        if file == name:
            frame.loc[40, column] = "maybe"
        put(frame, tmp_path / "data" / file)
    declared = 'missing_outcomes = "leave out"\nread = { missing = ["?"] }'
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", declared)
    text = text.replace('positive = "yes"', 'classes = ["yes", "no"]')
    release = '\n[[release]]\nname = "given"\nfile = "release.csv"\n\n[claim]\nlevel = "releases"\n'
    text += '\n[columns]\nfirst = { kind = "number" }\n'
    text = HEAD + text + PROCEDURE.replace("fixed_", "") + BRIER + release
    audit = audit_of(tmp_path, text)
    problems = audit.check().problems
    assert any(told in problem for problem in problems), problems
    assert "maybe" not in "".join(problems) or (name, column) != ("target.csv", "label")
    if name == "release.csv":  # and before its digest is registered the same row is named
        audit.seal()
        with pytest.raises(ProxyGuardError, match=f"{told}.*Nothing is registered"):
            audit.register()


def test_missing_outcomes_and_rounding_are_not_covered_together(tmp_path: Path) -> None:
    put(table_with_gaps(), tmp_path / "data" / "table.csv")
    text = HEAD + MISSING + PROCEDURE + BRIER + BOOTSTRAP + CLAIM + "\n[disclosure]\ndigits = 3\n"
    audit = audit_of(tmp_path, text)
    audit.seal()
    with pytest.raises(pg.UnsupportedDesign, match="filled by direction"):
        audit.register()


def test_an_area_of_no_binary_outcome_is_found(tmp_path: Path, forge: Any) -> None:
    losses, names = given_losses()
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses, releases=np.array(names),
        requirements=np.array(["Brier transfer", "Brier risk"]),
    )  # fmt: skip
    target = GIVEN.replace("{file}", "losses.npz")
    audit = certified(tmp_path, HEAD + target + BRIER + GIVEN_MECHANISM + CLAIM)
    assert audit.verify().good

    def lie(evidence: dict[str, Any]) -> None:
        evidence["diagnostics"]["source_auc"]["bootstrap"] = 0.97

    forge.certificate(audit, evidence=lie)
    assert "an AUC of 0.97, which is of a binary outcome alone" in forge.found_by(audit)


def test_given_losses_may_be_missing(tmp_path: Path) -> None:
    losses, names = given_losses()
    losses[:, 3:9] = np.nan
    losses[1, 20, 0] = np.nan
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses, releases=np.array(names),
        requirements=np.array(["Brier transfer", "Brier risk"]),
    )  # fmt: skip
    target = GIVEN.replace("{file}", "losses.npz") + 'missing_outcomes = "worst"\n'
    audit = certified(tmp_path, HEAD + target + BRIER + GIVEN_MECHANISM + CLAIM)
    first, second = evidence_of(audit, "bootstrap")["columns"]
    assert first["missing"] == [6, 7, 6, 6, 6]
    assert second["missing"] == [6] * 5
    up = np.nan_to_num(losses[:, :, 1], nan=1.0).mean(axis=1)
    np.testing.assert_allclose(second["mean"], up, rtol=0, atol=1e-12)


BOTH = (
    'design = {{ by = "site", sizes = {{ a = {a}, b = {b} }}, '
    'weights = {{ a = "0.4", b = "0.6" }}, '
    'clusters = {{ by = "ward", weighting = "record", max_size = 20 }} }}'
)


def strata_of_wards(tmp_path: Path, *, wrong: bool = False) -> str:
    """Write a target of wards, each in one site, and return its declaration."""
    sizes = {}
    for name, seed in (("target", 2), ("development", 3)):
        frame = table(240, seed)
        wards = np.random.default_rng(seed).integers(0, 50, size=240)
        frame["ward"] = [f"{name[0]}{k}" for k in wards]
        frame["site"] = np.where(wards < 20, "a", "b")
        if name == "target":
            sizes = {site: len(set(part["ward"])) for site, part in frame.groupby("site")}
            if wrong:
                frame.loc[frame.index[frame["ward"] == "t3"][0], "site"] = "b"
        put(frame, tmp_path / "data" / f"{name}.csv")
    text = APART.replace("{source}", 'file = "target.csv"').replace(
        "{design}", BOTH.format(**sizes)
    )
    return text.replace('exclude = ["site", "colour"]', 'exclude = ["colour"]')


def test_strata_may_be_sampled_by_clusters(tmp_path: Path) -> None:
    text = strata_of_wards(tmp_path)
    audit = certified(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    wards, sites = np.asarray(chunk.records.clusters), np.asarray(chunk.records.strata)
    weight = {
        site: float(share) / len(set(wards[sites == site].tolist()))
        for site, share in (("a", "0.4"), ("b", "0.6"))
    }
    omega = np.array([weight[site] for site in sites.tolist()])
    by_hand = (losses * omega[None, :, None]).sum(axis=1) / omega.sum()
    found = evidence_of(audit, "bootstrap")
    np.testing.assert_allclose(found["derived"]["estimates"], by_hand, rtol=0, atol=1e-12)
    assert [column["n"] for column in found["columns"]] == [len(set(wards.tolist()))] * 2
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    assert audit.certificate().predicate.estimand["target"] == (
        "the registered mixture of the strata of 'site' (weights a 0.4, b 0.6), each by its "
        "clusters of 'ward', a mean over records, whatever their cluster, with the registered "
        "weights of the strata as their shares of all clusters"
    )


PERSONS = 'weighting = "weight", weight = "persons", max_weight = "60", origin = "design"'


def with_persons(folder: Path) -> None:
    """Write a weight beside every record, in both tables."""
    for name in ("target", "development"):
        frame = pd.read_csv(folder / f"{name}.csv")
        frame["persons"] = np.random.default_rng(6).choice([0.5, 1.0, 4.0], size=len(frame))
        put(frame, folder / f"{name}.csv")


@pytest.mark.parametrize("strata", [True, False])
def test_records_with_weights_may_come_in_clusters(tmp_path: Path, strata: bool) -> None:
    text = strata_of_wards(tmp_path)
    with_persons(tmp_path / "data")
    text = text.replace('weighting = "record", max_size = 20', PERSONS)
    if strata:
        with pytest.raises(
            RegistryError,
            match=r"write sampled in place of weights.* = \{ a = \.\.\., b = \.\.\. \}",
        ):
            read_declaration(HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
        text = text.replace('origin = "design"', 'origin = "within strata"')
    else:
        design = text[text.index("design = { by") :].partition("\n")[0]
        text = text.replace(design, f'design = {{ by = "ward", {PERSONS} }}')
        text = text.replace('exclude = ["colour"]', 'exclude = ["colour", "site"]')
    audit = certified(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    wards, persons = np.asarray(chunk.records.clusters), chunk.frame["persons"].to_numpy()
    omega = persons
    if strata:
        sites = np.asarray(chunk.records.strata)
        count = {site: len(set(wards[sites == site].tolist())) for site in ("a", "b")}
        omega = persons * np.array([{"a": 0.4, "b": 0.6}[g] / count[g] for g in sites.tolist()])
    by_hand = (losses * omega[None, :, None]).sum(axis=1) / omega.sum()
    found = evidence_of(audit, "bootstrap")
    np.testing.assert_allclose(found["derived"]["estimates"], by_hand, rtol=0, atol=1e-12)
    assert [column["n"] for column in found["columns"]] == [len(set(wards.tolist()))] * 2
    assert_same_verdict(audit, certify_by_hand(audit, losses, chunk))
    said = audit.certificate().predicate.estimand["target"]
    assert "the persons that records represent, whatever their cluster, by design weights" in said
    assert ("each weight times the registered weight of its stratum" in said) == strata
    assert "shares of all clusters" not in said  # what weights count already, shares would again


def after_a_pilot(tmp_path: Path, design: str, development: str = "") -> pg.Audit:
    """Return an audit of what a pilot left of a survey: 30 of 60 wards in a, 50 of 60 in b."""
    for name, wards in (("target", {"a": 30, "b": 50}), ("development", {"a": 30, "b": 10})):
        frame = table(240, 2 if name == "target" else 3)
        known = [(site, f"{name[0]}{site}{k}") for site, n in wards.items() for k in range(n)]
        rows = [known[i % len(known)] for i in range(240)]
        frame["site"], frame["ward"] = zip(*rows, strict=True)
        put(frame, tmp_path / "data" / f"{name}.csv")
    with_persons(tmp_path / "data")
    text = APART.replace("{source}", 'file = "target.csv"').replace(
        "{design}", f'design = {{ by = "site", sizes = {{ a = 30, b = 50 }}, {design}, '
        f'clusters = {{ by = "ward", {PERSONS} }} }}',
    )  # fmt: skip
    text = text.replace('exclude = ["site", "colour"]', 'exclude = ["colour"]')
    if development:
        text = text.replace(
            'table = "development.csv"', f'table = "development.csv"\n{development}'
        )
    return audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)


def test_strata_with_design_weights_count_by_what_the_survey_sampled(tmp_path: Path) -> None:
    audit = after_a_pilot(tmp_path, "sampled = { a = 60, b = 60 }")
    assert not [w for w in audit.check().warnings if "sampled" in w]
    (tmp_path / "audit").rename(tmp_path / "unused")
    audit = certified(tmp_path, (tmp_path / "unused" / "audit.toml").read_text())
    losses, chunk = hand_losses(audit)
    sites, persons = np.asarray(chunk.records.strata), chunk.frame["persons"].to_numpy()
    # Of each site half of the survey's clusters; of a as many are left as 30, of b 50.
    omega = persons * np.where(sites == "a", 0.5 / 30, 0.5 / 50)
    by_hand = (losses * omega[None, :, None]).sum(axis=1) / omega.sum()
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], by_hand, rtol=0, atol=1e-12)
    said = audit.certificate().predicate.estimand["target"]
    assert "(sampled by the whole survey a 60, b 60)" in said
    assert "strata with their shares of the clusters that the whole survey sampled, as its" in said
    assert audit.verify().findings == []


def test_a_pilot_that_sampled_leaves_out_is_refused_before_anything_is_sealed(
    tmp_path: Path,
) -> None:
    audit = after_a_pilot(tmp_path, "sampled = { a = 30, b = 50 }")
    words = (
        r"more clusters than the survey is said to have sampled, in 'site': a 60 \(sampled 30\), "
        r"b 60 \(sampled 50\).* write sampled = \{ a = 60, b = 60 \}, or more .*"
        r'write survey = "another" under \[development\]'
    )
    (problem,) = audit.check().problems
    assert re.search(words, problem)
    with pytest.raises(TableError, match=words):
        audit.seal()


def test_a_pilot_of_another_survey_is_none_of_those_that_were_sampled(tmp_path: Path) -> None:
    audit = after_a_pilot(tmp_path, "sampled = { a = 30, b = 60 }", 'survey = "another"')
    (warning,) = (w for w in audit.seal().warnings if "sampled" in w)
    assert "neither target nor development: b 60 sampled, 10 not here" in warning
    text = HEAD + strata_of_wards(tmp_path) + PROCEDURE + BRIER + BOOTSTRAP + CLAIM
    with pytest.raises(RegistryError, match=r'survey = "another" is of a development table'):
        read_declaration(text.replace("[development]", '[development]\nsurvey = "another"'))


def test_strata_of_the_pilot_alone_are_refused(tmp_path: Path) -> None:
    audit = after_a_pilot(tmp_path, "sampled = { a = 60, b = 60 }")
    frame = pd.read_csv(tmp_path / "data" / "development.csv")
    frame.loc[frame["ward"] == "da3", "site"] = "c"
    put(frame, tmp_path / "data" / "development.csv")
    with pytest.raises(TableError, match="sampled does not name, c: nothing would be claimed"):
        audit.seal()


def test_a_cluster_that_weighs_too_much_is_refused_before_it_is_sealed(tmp_path: Path) -> None:
    text = strata_of_wards(tmp_path).replace('weighting = "record", max_size = 20', PERSONS)
    with_persons(tmp_path / "data")
    text = text.replace('"60"', '"7.25"').replace('"design"', '"within strata"')
    audit = audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    with pytest.raises(TableError, match=r"'persons' holds the weights: .* the cluster of record"):
        audit.seal()


@pytest.mark.parametrize(
    "part",
    [
        'weighting = "weight"', 'weight = "persons"', 'weighting = "record", max_weight = "3"',
        PERSONS.replace('"weight",', '"record",'), PERSONS.replace('"design"', '"calibrated"'),
        PERSONS.replace('"60"', '"0"'), PERSONS.replace('"design"', '"within strata"'),
    ],
)  # fmt: skip
def test_half_a_declaration_of_weights_in_clusters_is_refused(part: str) -> None:
    design = f'design = {{ by = "ward", {part} }}'
    text = HEAD + APART.replace("{source}", 'file = "target.csv"').replace("{design}", design)
    with pytest.raises(
        RegistryError, match=r"all of weighting = \"weight\"|max_weight|calibrated|beside strata"
    ):
        read_declaration(text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)


def test_a_cluster_of_two_strata_is_refused_before_it_is_sealed(tmp_path: Path) -> None:
    text = strata_of_wards(tmp_path, wrong=True)
    audit = audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    with pytest.raises(TableError, match=r"1 clusters of 'ward', .* have records in two strata"):
        audit.seal()


def survey_table(tmp_path: Path, shuffle: int = 0) -> pd.DataFrame:
    """Write a survey of 40 wards in a and 60 in b, of 1 to 9 records each, and return it."""
    rng = np.random.default_rng(31)
    wards = np.repeat(np.arange(100), rng.integers(1, 10, 100))
    frame = table(len(wards), 6)
    frame["ward"] = [f"w{k}" for k in wards]
    frame["site"] = np.where(wards < 40, "a", "b")
    frame["persons"] = rng.choice([0.5, 1.0, 4.0], len(wards))
    if shuffle:
        frame = frame.sample(frac=1.0, random_state=shuffle)
    put(frame, tmp_path / "data" / "table.csv")
    return frame


def of_a_survey(design: str, reserve: str = "seed = 11") -> str:
    """Return a declaration of 30 wards of a and 20 of b, set aside from that table."""
    target = RESERVE.replace("rows = 250, seed = 11", reserve)
    target = target.replace('["site", "colour"]', '["colour"]')
    target += f'design = {{ by = "site", sizes = {{ a = 30, b = 20 }}, {design} }}\n'
    return HEAD + target + PROCEDURE + BRIER + BOOTSTRAP + CLAIM


SURVEYED = f'sampled = {{ a = 40, b = 60 }}, clusters = {{ by = "ward", {PERSONS} }}'


def test_strata_of_clusters_are_reserved_by_whole_clusters_of_each(tmp_path: Path) -> None:
    frame = survey_table(tmp_path)
    audit = certified(tmp_path, of_a_survey(SURVEYED))
    losses, chunk = hand_losses(audit)
    wards, sites = np.asarray(chunk.records.clusters), np.asarray(chunk.records.strata)
    chosen = {site: set(wards[sites == site].tolist()) for site in ("a", "b")}
    assert [len(chosen["a"]), len(chosen["b"])] == [30, 20]
    whole = frame["ward"].isin(chosen["a"] | chosen["b"])
    assert whole.sum() == len(wards)  # no ward was cut
    training = pd.read_parquet(audit.folder / "development/0.training.parquet")
    assert set(training["ward"]) == set(frame["ward"]) - chosen["a"] - chosen["b"]
    omega = chunk.frame["persons"] * np.where(sites == "a", 0.4 / 30, 0.6 / 20)
    by_hand = (losses * omega.to_numpy()[None, :, None]).sum(axis=1) / omega.sum()
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], by_hand, rtol=0, atol=1e-12)
    # The seed chooses the same wards in whatever order rows and sizes stand.
    survey_table(tmp_path / "again", shuffle=3)
    turned = of_a_survey(SURVEYED).replace("{ a = 30, b = 20 }", "{ b = 20, a = 30 }")
    again = audit_of(tmp_path / "again", turned)
    again.seal()
    again.register()
    assert set(np.asarray(opened(again).whole().records.clusters).tolist()) == set(wards.tolist())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("a = 40, b = 60", "a = 40, b = 59"), r"the table has more .* b 60 \(sampled 59\)"),
        (("a = 30, b = 20", "a = 30, b = 60"), r"stratum 'b' of 'site' is to give 60 clusters"),
        (("seed = 11", "rows = 20, seed = 11"), r"leave reserve\.rows out"),
        (("seed = 11", "clusters = 20, seed = 11"), "no other design does"),
    ],
)
def test_what_cannot_be_reserved_by_clusters_of_strata(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    survey_table(tmp_path)
    text = of_a_survey(SURVEYED).replace(*change)
    with pytest.raises((RegistryError, TableError), match=words):
        audit_of(tmp_path, text).seal()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("ward", "", "row 1 has no 'site' or no 'ward', and 1 rows in all"),
        ("site", "b", "is in another stratum of 'site' than the first row of its cluster"),
    ],
)
def test_a_table_whose_clusters_are_not_known_is_not_divided(
    tmp_path: Path, column: str, value: str, words: str
) -> None:
    frame = survey_table(tmp_path)
    assert frame.loc[0, "site"] == "a"
    frame.loc[0, column] = value
    put(frame, tmp_path / "data" / "table.csv")
    with pytest.raises(TableError, match=words):
        audit_of(tmp_path, of_a_survey(SURVEYED)).seal()


def test_more_of_a_survey_than_its_table_has_is_told(tmp_path: Path) -> None:
    survey_table(tmp_path)
    text = of_a_survey(SURVEYED).replace("a = 40, b = 60", "a = 45, b = 60")
    (warning,) = (w for w in audit_of(tmp_path, text).seal().warnings if "sampled" in w)
    assert "a 45 sampled, 5 not here" in warning
    # Without design weights strata count by the population, and the table has no say.
    alike = 'weights = { a = 1, b = 3 }, clusters = { by = "ward" }'
    survey_table(tmp_path / "alike")
    assert not audit_of(tmp_path / "alike", of_a_survey(alike)).check().problems


def test_a_target_record_without_a_cluster_is_refused_before_it_is_sealed(tmp_path: Path) -> None:
    for name, seed in (("target", 2), ("development", 3)):
        frame = table(200, seed)
        frame["site"] = [f"{name[0]}{k % 40}" for k in range(200)]
        if name == "target":
            frame.loc[7, "site"] = " "
        put(frame, tmp_path / "data" / f"{name}.csv")
    text = APART.replace("{source}", 'file = "target.csv"')
    text = text.replace("{design}", 'design = { by = "site" }')
    text = text.replace('exclude = ["site", "colour"]', 'exclude = ["colour"]')
    audit = audit_of(tmp_path, HEAD + text + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    with pytest.raises(TableError, match="1 records have no label in 'site'"):
        audit.seal()


GIVEN = """
[target]
losses = "{file}"
"""
GIVEN_MECHANISM = BOOTSTRAP.replace('"bootstrap"', '"losses"').replace('name = "losses"', (
    'name = "bootstrap"'
))  # fmt: skip


def given_losses() -> tuple[Array, list[str]]:
    rng = np.random.default_rng(8)
    own = rng.uniform(0.0, 0.3, size=(5, 220))
    return np.stack([own - rng.uniform(0.0, 0.3, size=220), own], axis=2), list("vwxyz")


@pytest.mark.parametrize("test", ["bentkus", "betting"])
def test_losses_computed_elsewhere_say_the_same_as_npz_and_as_parquet(
    tmp_path: Path, test: str
) -> None:
    losses, names = given_losses()
    records = [f"record {i}" for i in range(220)]
    long = pd.DataFrame(
        {
            "release": np.repeat(names, 220),
            "record": records * 5,
            "Brier transfer": losses[:, :, 0].ravel(),
            "Brier risk": losses[:, :, 1].ravel(),
        }
    )
    # The first row of every release stays ahead: releases are named as they appear.
    order = np.concatenate([np.arange(0, 1100, 220), np.random.default_rng(3).permutation(1100)])
    long = long.iloc[list(dict.fromkeys(order.tolist()))]
    found = {}
    for kind in ("npz", "parquet"):
        root = tmp_path / kind
        (root / "data").mkdir(parents=True)
        np.savez(
            root / "data" / "losses.npz",
            losses=losses,
            releases=np.array(names),
            requirements=np.array(["Brier transfer", "Brier risk"]),
        )
        long.to_parquet(root / "data" / "losses.parquet", index=False)
        target = GIVEN.replace("{file}", f"losses.{kind}")
        claim = f'{CLAIM}test = "{test}"\n'
        audit = certified(root, HEAD + target + BRIER + GIVEN_MECHANISM + claim)
        derived = evidence_of(audit, "bootstrap")["derived"]
        np.testing.assert_allclose(derived["estimates"], losses.mean(axis=1), rtol=0, atol=1e-12)
        assert evidence_of(audit, "bootstrap")["releases"] == names
        found[kind] = derived
        chunk = opened(audit).whole()
        assert chunk.given is not None
        assert_same_verdict(audit, certify_by_hand(audit, chunk.given, chunk, test=test))
    if test == "bentkus":  # the other reads the records in a random order of each sealing
        np.testing.assert_allclose(found["npz"]["pvalues"], found["parquet"]["pvalues"], rtol=1e-12)


def test_given_losses_beyond_their_bounds_are_refused_before_they_are_sealed(
    tmp_path: Path,
) -> None:
    losses, names = given_losses()
    losses[2, 7, 1] = 1.5
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses, releases=np.array(names),
        requirements=np.array(["Brier transfer", "Brier risk"]),
    )  # fmt: skip
    target = GIVEN.replace("{file}", "losses.npz")
    audit = audit_of(tmp_path, HEAD + target + BRIER + GIVEN_MECHANISM + CLAIM)
    words = "Brier risk: release x, record 7 (from 0) has a value outside its bounds, declared are"
    assert any(words in problem for problem in audit.check().problems)
    with pytest.raises(TableError, match=re.escape(words)):
        audit.seal()
    assert not (tmp_path / "audit" / "ledger.jsonl").exists()


def test_given_losses_may_be_stratified(tmp_path: Path) -> None:
    losses, names = given_losses()
    site = np.array(["a"] * 100 + ["b"] * 120)
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "losses.npz",
        losses=losses, releases=np.array(names), site=site,
        requirements=np.array(["Brier transfer", "Brier risk"]),
    )  # fmt: skip
    target = GIVEN.replace("{file}", "losses.npz") + (
        'design = { by = "site", sizes = { a = 100, b = 120 }, weights = { a = "0.2", b = "0.8" } }'
    )
    audit = certified(tmp_path, HEAD + target + BRIER + GIVEN_MECHANISM + CLAIM)
    by_hand = 0.2 * losses[:, :100].mean(axis=1) + 0.8 * losses[:, 100:].mean(axis=1)
    derived = evidence_of(audit, "bootstrap")["derived"]
    np.testing.assert_allclose(derived["estimates"], by_hand, rtol=0, atol=1e-12)


def test_predictions_made_elsewhere_give_what_fitting_gives(tmp_path: Path) -> None:
    text = APART.replace("{source}", 'file = "target.csv"')
    # A test that does not depend on the order of the records, which each sealing draws anew.
    text = HEAD + text.replace("{design}", "") + BRIER
    claim = CLAIM + 'test = "bentkus"\n'
    put(table(260, seed=2), tmp_path / "data" / "target.csv")
    put(table(240, seed=3), tmp_path / "data" / "development.csv")
    fitted = certified(tmp_path, text + PROCEDURE + BOOTSTRAP + claim)
    chunk = opened(fitted).whole()
    folder = tmp_path / "other" / "data" / "predictions"
    source = fitted.folder.registry(fitted.journal()).members["target"].to_dict()["source"]
    for name, record in [
        ("source", source),
        *((f"release-{r['seed']}", r) for r in draws_of(fitted, "bootstrap")),
    ]:
        p = probabilities(fitted, record, chunk)
        frame = pd.DataFrame({"position": chunk.positions, "prediction": p})
        put(frame.sort_values("prediction"), folder / f"{name}.csv")
    for name in ("target", "development"):
        content = (tmp_path / "data" / f"{name}.csv").read_text()
        (tmp_path / "other" / "data" / f"{name}.csv").write_text(content)
    given = """
[[mechanism]]
name = "bootstrap"
generator = "predictions"
options = { folder = "predictions", source = "source.csv", first = 100 }
draws = 5
seeds = { first = 100 }
"""
    stored = certified(tmp_path / "other", text + given + claim)
    first, second = (evidence_of(a, "bootstrap") for a in (fitted, stored))
    assert first["releases"] == second["releases"]
    for key in ("pvalues", "violation_pvalues", "estimates"):
        np.testing.assert_allclose(
            np.array(first["derived"][key], dtype=np.float64),
            np.array(second["derived"][key], dtype=np.float64),
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
    verdicts = [a.certificate().to_dict()["verdicts"][0] for a in (fitted, stored)]
    assert verdicts[0]["decision"] == verdicts[1]["decision"]
    assert verdicts[0]["reliability_lower"] == verdicts[1]["reliability_lower"]
    diagnostics = [a.certificate().to_dict()["diagnostics"] for a in (fitted, stored)]
    assert diagnostics[0]["auc"] == diagnostics[1]["auc"]
    assert diagnostics[0]["source_auc"] == diagnostics[1]["source_auc"]


def opened_on_predictions(folder: Path, predictions: list[NDArray[np.float64]]) -> Audit:
    """Return an opened audit of predictions that were made elsewhere, one file a draw."""
    put(table(260, seed=2), folder / "data" / "target.csv")
    put(table(240, seed=3), folder / "data" / "development.csv")
    for index, values in enumerate(predictions):
        frame = pd.DataFrame({"position": np.arange(values.size), "prediction": values})
        put(frame, folder / "data" / "predictions" / f"{index}.csv")
    text = APART.replace("{source}", 'file = "target.csv"').replace("{design}", "")
    given = f"""
[[mechanism]]
name = "given"
generator = "predictions"
options = {{ folder = "predictions" }}
draws = {len(predictions)}
seeds = {list(range(len(predictions)))}
"""
    risk = BRIER[BRIER.index("[[requirement]]", 5) :]
    audit = audit_of(folder, HEAD + text + risk + given + CLAIM)
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()
    return audit


def test_a_record_without_a_prediction_counts_as_the_worst_loss(tmp_path: Path) -> None:
    audit = opened_on_predictions(tmp_path, [np.linspace(0.1 * i, 1, 259) for i in range(2)])
    evidence = json.loads(audit.folder.read("evidence.json"))
    assert evidence["diagnostics"]["unscored"] == {"given": {"0": 1, "1": 1}}
    assert audit.verify().good


def test_predictions_that_are_none_are_a_failed_draw_of_an_audit_that_holds(
    tmp_path: Path,
) -> None:
    beyond = [np.linspace(0.1 * i, 1 + (i == 2), 260) for i in range(3)]  # the last goes beyond 1
    audit = opened_on_predictions(tmp_path, beyond)
    assert [r["status"] for r in draws_of(audit, "given")] == ["drawn", "drawn", "failed"]
    assert audit.verify().good


def test_predictions_that_are_none_keep_what_is_known_of_their_draw() -> None:
    frame = pd.DataFrame({"position": [0, 1], "prediction": [0.5, 1.5]})
    drawn = DrawnRelease(
        seed=7, status="drawn", guard="audit hook", rows=2, content="0" * 64, stages=("fit",),
        selected=None, threshold=None, temperature=None, prepared_at_random=True, predictions=True,
        release="1" * 64, model=None, files={"7.csv": "2" * 64}, format=FORMAT, name="seven",
        prepared_from={"fit": "3" * 64},
        again=(DroppedFailure(seed=7, status="timeout", error="too slow", guard="audit hook"),),
    )  # fmt: skip
    outcome = Outcome(column="label", positive="yes")
    failed = drawing._checked_predictions(drawn, table_bytes(frame), outcome)
    assert isinstance(failed, FailedDraw)
    assert (failed.status, failed.error) == ("failed", "7.csv: predictions must lie in [0, 1]")
    kept = {
        "seed",
        "guard",
        "files",
        "format",
        "name",
        "prepared_at_random",
        "prepared_from",
        "again",
        "computed",
    }
    assert kept | {"status", "error"} == set(FailedDraw.model_fields)
    assert {key: getattr(failed, key) for key in kept} == {key: getattr(drawn, key) for key in kept}
    assert read_draw(failed.to_dict(), "7.json") == failed
    frame["prediction"] = 0.5
    assert drawing._checked_predictions(drawn, table_bytes(frame), outcome) is drawn


RELEASES_CLAIM = '\n[claim]\nlevel = "releases"\n'


def named_releases(folder: Path) -> str:
    """Write three named stand-ins, one of them with noise for labels."""
    put(table(240, seed=21), folder / "good.csv")
    put(table(240, seed=22), folder / "also good.csv")
    noise = table(240, seed=23)
    noise["label"] = np.random.default_rng(0).permutation(noise["label"].to_numpy())
    put(noise, folder / "noise.csv")
    return "".join(
        f'\n[[release]]\nname = "{name}"\nfile = "{name}.csv"\n'
        for name in ("good", "also good", "noise")
    )


def test_named_files_are_judged_each_by_itself(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    releases = named_releases(tmp_path / "data")
    tight = BRIER.replace('limit = "0.30"', 'limit = "0.20"')
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + tight + releases + RELEASES_CLAIM)
    certificate = audit.certificate().to_dict()
    decisions = {v["release"]: v["decision"] for v in certificate["verdicts"]}
    assert decisions == {"good": "validated", "also good": "validated", "noise": "violation"}
    assert certificate["level"] == "releases"
    assert {v["mechanism"] for v in certificate["verdicts"]} == {
        "target/good", "target/also good", "target/noise",
    }  # fmt: skip
    found = evidence_of(audit, "target")
    assert set(found["releases"]) == set(decisions)
    report = (audit.folder.path / "report.md").read_text()
    assert "nothing is drawn again" in report
    assert "every draw redraws" not in report
    chunk = opened(audit).whole()
    assert chunk.y is not None
    for name, row in zip(found["releases"], found["derived"]["estimates"], strict=True):
        (record,) = draws_of(audit, name)
        own = np.mean((probabilities(audit, record, chunk) - chunk.y) ** 2)
        assert row[1] == pytest.approx(own, abs=1e-12)


def test_a_stand_in_without_some_features_is_judged_by_what_it_has(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    put(table(240, seed=21).drop(columns=["second"]), tmp_path / "data" / "narrow.csv")
    release = '\n[[release]]\nname = "narrow"\nfile = "narrow.csv"\n'
    text = HEAD + RESERVE + PROCEDURE + BRIER + release + "{lacks}" + RELEASES_CLAIM
    silent = audit_of(tmp_path, text.replace("{lacks}", ""))
    silent.seal()
    with pytest.raises(RegistryError, match=r'lacks the columns "second".*lacks = \["second"\]'):
        silent.register()
    other = tmp_path / "other"
    put(table(), other / "data" / "table.csv")
    put(table(240, seed=21).drop(columns=["second"]), other / "data" / "narrow.csv")
    audit = certified(other, text.replace("{lacks}", 'lacks = ["second"]\n'))
    found = evidence_of(audit, "target")
    chunk = opened(audit).whole()
    assert chunk.y is not None
    # By hand: logistic regression on the one feature that the table has.
    narrow = table(240, seed=21)
    model = make_pipeline(
        StandardScaler(), LogisticRegression(solver="liblinear", max_iter=500, random_state=0)
    ).fit(narrow[["first"]].to_numpy(), narrow["label"] == "yes")
    p = model.predict_proba(chunk.frame[["first"]].to_numpy())[:, 1]
    assert found["derived"]["estimates"][0][1] == pytest.approx(np.mean((p - chunk.y) ** 2))
    with pytest.raises(RegistryError, match="'narrow' lacks \\['label'\\]"):
        audit_of(tmp_path / "third", text.replace("{lacks}", 'lacks = ["label"]\n')).check()


@pytest.mark.parametrize(
    "query", ['share = { second = "1" }', 'mean = "second"\nrange = ["0", "1"]',
              'marginals = [["first", "second"]]'],
)  # fmt: skip
def test_a_stand_in_must_have_the_columns_that_a_query_asks_for(tmp_path: Path, query: str) -> None:
    release = '\n[[release]]\nname = "narrow"\nfile = "narrow.csv"\nlacks = ["second"]\n'
    asked = (
        '\n[[requirement]]\nname = "asked"\nform = "query"\nlimit = "0.1"\n'
        f"[requirement.query]\n{query}\n"
    )
    with pytest.raises(RegistryError, match="'narrow' lacks \\['second'\\]"):
        audit_of(tmp_path, HEAD + RESERVE + asked + release + RELEASES_CLAIM).check()


def test_draws_of_a_mechanism_may_be_named_releases(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + BRIER + BOOTSTRAP + RELEASES_CLAIM)
    names = [f"bootstrap/{seed}" for seed in range(100, 105)]
    assert [v["release"] for v in audit.certificate().to_dict()["verdicts"]] == names


def test_candidates_with_their_own_targets_are_one_family(tmp_path: Path) -> None:
    parts = []
    for index, name in enumerate(("north", "south")):
        put(table(460, seed=30 + index), tmp_path / "data" / f"{name}.csv")
        for kind in ("one", "two"):
            put(table(200, seed=40 + index + 2 * (kind == "two")),
                tmp_path / "data" / f"{name}-{kind}.csv")  # fmt: skip
        text = RESERVE.replace("[target]", "[candidate.target]").replace("table.csv", f"{name}.csv")
        text = f'\n[[candidate]]\nname = "{name}"\n' + text
        text += PROCEDURE.replace("[procedure]", "[candidate.procedure]")
        text += BRIER.replace("[[requirement]]", "[[candidate.requirement]]")
        for kind in ("one", "two"):
            text += f'\n[[candidate.release]]\nname = "{kind}"\nfile = "{name}-{kind}.csv"\n'
        parts.append(text)
    audit = certified(tmp_path, HEAD + "".join(parts) + RELEASES_CLAIM)
    certificate = audit.certificate().to_dict()
    assert [v["mechanism"] for v in certificate["verdicts"]] == [
        "north/one", "north/two", "south/one", "south/two",
    ]  # fmt: skip
    assert set(certificate["estimand"]) == {"north", "south"}
    assert certificate["estimand"]["north"] != certificate["estimand"]["south"]
    # Holm over all four p-values together, not over the two of each target.
    values = []
    for member in ("north", "south"):
        chunk = opened(audit, member).whole()
        assert chunk.y is not None
        assert len(chunk.positions) == 250
        for row, kind in zip(
            evidence_of(audit, member)["derived"]["estimates"], ("one", "two"), strict=True
        ):
            (record,) = draws_of(audit, kind, member)
            own = np.mean((probabilities(audit, record, chunk) - chunk.y) ** 2)
            assert row[1] == pytest.approx(own, abs=1e-12)
        values += np.max(evidence_of(audit, member)["derived"]["pvalues"], axis=1).tolist()
    order = np.argsort(values)
    adjusted = np.empty(4)
    running = 0.0
    for place, index in enumerate(order.tolist()):
        running = max(running, min(1.0, (4 - place) * values[index]))
        adjusted[index] = running
    found = [v["adjusted"] for v in certificate["verdicts"]]
    np.testing.assert_allclose(found, adjusted, rtol=1e-9)


def test_files_of_a_folder_are_the_draws_in_the_order_of_their_names(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    for i in range(4):
        put(table(200, seed=50 + i), tmp_path / "data" / "drawn" / f"{i}.csv")
    mechanism = """
[[mechanism]]
name = "files"
generator = "files"
options = { folder = "drawn", pattern = "*.csv", first = 10 }
draws = 4
seeds = { first = 10 }
"""
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + BRIER + mechanism + CLAIM)
    draws = draws_of(audit, "files")
    assert [d["seed"] for d in draws] == [10, 11, 12, 13]
    for i, draw in enumerate(draws):
        release = pd.read_parquet(audit.folder.store.path(draw["release"]))
        np.testing.assert_array_equal(release["first"], table(200, seed=50 + i)["first"])
    redraws = audit.certificate().to_dict()["redraws"]["files"]
    assert redraws[0] == "the file in drawn, drawn by whoever made it"


def test_several_classes(tmp_path: Path) -> None:
    frame = table()
    frame["label"] = np.where(frame["first"] > 0.6, "high", frame["label"])
    put(frame, tmp_path / "data" / "table.csv")
    target = RESERVE.replace('positive = "yes"', 'classes = ["no", "yes", "high"]')
    procedure = PROCEDURE.replace("fixed_logistic", "logistic")
    requirements = "".join(
        f'\n[[requirement]]\nname = "{name}"\nloss = "{name}"\nform = "{form}"\nlimit = "0.5"\n'
        for name, form in (("brier", "relative"), ("error", "absolute"), ("log", "absolute"))
    )
    audit = certified(tmp_path, HEAD + target + procedure + requirements + BOOTSTRAP + CLAIM)
    chunk = opened(audit).whole()
    x = chunk.frame[["first", "second"]].to_numpy(dtype=np.float64)
    y = np.array([["no", "yes", "high"].index(v) for v in chunk.frame["label"]])
    hot = np.eye(3)[y]

    def losses(record: Mapping[str, Any]) -> Array:
        model = load_model(audit.folder.store.get(record["model"]), "a model")
        p = model.predict_proba(x)
        right = np.clip(p[np.arange(y.size), y], 1e-6, 1 - 1e-6)
        return np.array(
            [
                np.mean(((p - hot) ** 2).sum(axis=1) / 2),
                np.mean(p.argmax(axis=1) != y),
                np.mean(np.log(right) / np.log(1e-6)),
            ]
        )

    source = losses(audit.folder.registry(audit.journal()).members["target"].to_dict()["source"])
    found = evidence_of(audit, "bootstrap")
    assert found["tests"] == ["betting", "binomial", "betting"]
    for row, record in zip(
        found["derived"]["estimates"], draws_of(audit, "bootstrap"), strict=True
    ):
        by_hand = losses(record) - source * np.array([1.0, 0.0, 0.0])
        np.testing.assert_allclose(row, by_hand, rtol=0, atol=1e-12)


def test_a_number_as_outcome(tmp_path: Path) -> None:
    frame = table()
    rng = np.random.default_rng(4)
    noise = rng.normal(size=len(frame))
    frame["label"] = np.clip(5 + frame["first"] + 0.3 * noise, 0, 10).round(3)
    put(frame, tmp_path / "data" / "table.csv")
    target = RESERVE.replace('positive = "yes"', 'range = ["0", "10"]')
    procedure = PROCEDURE.replace("fixed_logistic", "sklearn.linear_model:LinearRegression")
    requirements = "".join(
        f'\n[[requirement]]\nname = "{name}"\nloss = "{name}"\nform = "{form}"\nlimit = "0.2"\n'
        for name, form in (("squared", "relative"), ("absolute", "absolute"))
    )
    requirements += (
        '\n[[requirement]]\nname = "upper"\nloss = "pinball"\nquantile = "0.9"\n'
        'form = "absolute"\nlimit = "0.2"\n'
    )
    audit = certified(tmp_path, HEAD + target + procedure + requirements + BOOTSTRAP + CLAIM)
    chunk = opened(audit).whole()
    x = chunk.frame[["first", "second"]].to_numpy(dtype=np.float64)
    y = chunk.frame["label"].to_numpy(dtype=np.float64)

    def losses(record: Mapping[str, Any]) -> Array:
        model = load_model(audit.folder.store.get(record["model"]), "a model")
        gap = (np.clip(model.predict(x), 0, 10) - y) / 10
        pinball = np.where(gap < 0, -0.9 * gap, 0.1 * gap)
        return np.array([np.mean(gap**2), np.mean(np.abs(gap)), np.mean(pinball)])

    source = losses(audit.folder.registry(audit.journal()).members["target"].to_dict()["source"])
    for row, record in zip(
        evidence_of(audit, "bootstrap")["derived"]["estimates"],
        draws_of(audit, "bootstrap"),
        strict=True,
    ):
        by_hand = losses(record) - source * np.array([1.0, 0.0, 0.0])
        np.testing.assert_allclose(row, by_hand, rtol=0, atol=1e-12)


def test_a_loss_in_the_outcomes_own_unit_is_judged_as_its_share_of_the_range(
    tmp_path: Path,
) -> None:
    frame = table()
    noise = np.random.default_rng(4).normal(size=len(frame))
    frame["label"] = np.clip(20 + 4 * frame["first"] + noise, 0, 40).round(3)
    rows = (  # limits and slacks as shares of the range, and in kg and squared kg
        ("squared", "relative", "0.05", "80", "0.01", "16"),
        ("absolute", "absolute", "0.15", "6", "0.05", "2"),
        ("pinball", "absolute", "0.15", "6", "0.05", "2"),
    )
    audits = []
    for name, unit in (("shares", ""), ("kg", 'unit = "kg"\n')):
        put(frame, tmp_path / name / "data" / "table.csv")
        target = RESERVE.replace('positive = "yes"', 'range = ["0", "40"]')
        procedure = PROCEDURE.replace("fixed_logistic", "sklearn.linear_model:LinearRegression")
        requirements = "".join(
            f'\n[[requirement]]\nname = "{loss}"\nloss = "{loss}"\nform = "{form}"\n'
            f'limit = "{own if unit else share}"\nslack = "{less if unit else part}"\n{unit}'
            + ('quantile = "0.9"\n' if loss == "pinball" else "")
            for loss, form, share, own, part, less in rows
        )
        # By a test that reads no order: the order follows from what is registered.
        claim = CLAIM + 'score = "slack"\ntest = "empirical_bernstein"\n'
        audits.append(
            certified(tmp_path / name, HEAD + target + procedure + requirements + BOOTSTRAP + claim)
        )
    shares, own = (evidence_of(audit, "bootstrap") for audit in audits)
    factors = np.array([40.0**2, 40.0, 40.0])
    expected = np.array(shares["derived"]["estimates"]) * factors
    np.testing.assert_allclose(own["derived"]["estimates"], expected, rtol=1e-9)
    np.testing.assert_allclose(
        own["derived"]["pvalues"], shares["derived"]["pvalues"], rtol=1e-9, atol=1e-300
    )
    page, text = (audits[1].folder.read(name).decode() for name in ("report.html", "report.md"))
    text = text.replace("\\", "")
    for said in (
        "by less than 80 squared kg (on a scale from 0 to 1600 squared kg)",
        "must stay below 6 kg (on a scale from 0 to 40 kg)",
        "(cutoff of its score: 4 kg)",
    ):
        assert said in page
        assert said in text
    assert "absolute (limit 6 kg)" in page
    assert "below the limit 6 kg" in page
    assert "| absolute | 6 kg | " in text
    assert [limit.unit for limit in Registration.of(audits[1].folder).limits] == [
        "squared kg", "kg", "kg",
    ]  # fmt: skip


def test_a_loss_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_losses_of_test_targets.py").write_text(
        "import numpy as np\n"
        "def gain(outcome, predicted):\n"
        "    return -2.0 * np.abs(np.asarray(outcome) - np.asarray(predicted))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    put(table(), tmp_path / "data" / "table.csv")
    requirements = "".join(
        f'\n[[requirement]]\nname = "{form}"\nloss = "own_losses_of_test_targets:gain"\n'
        f'form = "{form}"\nlimit = "{limit}"\nlow = "-2"\nhigh = "0"\n'
        for form, limit in (("relative", "0.4"), ("absolute", "-0.2"))
    )
    try:
        audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + requirements + BOOTSTRAP + CLAIM)
    finally:
        sys.modules.pop("own_losses_of_test_targets", None)
    chunk = opened(audit).whole()
    assert chunk.y is not None
    source = audit.folder.registry(audit.journal()).members["target"].to_dict()["source"]
    base = np.mean(-2 * np.abs(chunk.y - probabilities(audit, source, chunk)))
    for row, record in zip(
        evidence_of(audit, "bootstrap")["derived"]["estimates"],
        draws_of(audit, "bootstrap"),
        strict=True,
    ):
        own = np.mean(-2 * np.abs(chunk.y - probabilities(audit, record, chunk)))
        np.testing.assert_allclose(row, [own - base, own], rtol=0, atol=1e-12)


QUERIES = """
[[requirement]]
name = "mean of first"
form = "query"
query = { mean = "first", range = ["-1.5", "1.5"] }
limit = "0.6"

[[requirement]]
name = "red at a"
form = "query"
query = { share = { site = "a", colour = "red" } }
limit = "0.2"

[[requirement]]
name = "tables"
form = "query"
query = { marginals = [["site"], ["site", "colour"]] }
limit = "0.25"
"""


def test_queries_compare_the_target_with_what_each_release_answers(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + RESERVE + QUERIES + BOOTSTRAP + CLAIM)
    target = opened(audit).whole().frame
    found = evidence_of(audit, "bootstrap")
    cells = [("site", ("a",)), ("site", ("b",))]
    assert len(found["requirements"]) == 2 * (1 + 1 + len(cells) + 6)

    def answers(frame: pd.DataFrame) -> dict[str, float]:
        site, colour = frame["site"], frame["colour"]
        shares = {
            f"tables: site = {s}, colour = {c}": float(np.mean((site == s) & (colour == c)))
            for s in ("a", "b")
            for c in ("blue", "green", "red")
        }
        return {
            "mean of first": float(np.mean(np.clip(frame["first"], -1.5, 1.5))),
            "red at a": shares["tables: site = a, colour = red"],
            "tables: site = a": float(np.mean(site == "a")),
            "tables: site = b": float(np.mean(site == "b")),
            **shares,
        }

    truth = answers(target)
    for row, draw in zip(found["derived"]["estimates"], draws_of(audit, "bootstrap"), strict=True):
        release = answers(pd.read_parquet(audit.folder.store.path(draw["release"])))
        by_hand = {}
        for name, value in truth.items():
            by_hand[f"{name} (target above release)"] = value - release[name]
            by_hand[f"{name} (target below release)"] = release[name] - value
        assert dict(zip(found["requirements"], row, strict=True)) == pytest.approx(
            by_hand, abs=1e-12
        )


def test_a_subgroup_counts_its_own_records_only(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    requirements = BRIER + (
        '\n[[requirement]]\nname = "at b"\nloss = "brier"\nform = "absolute"\nlimit = "0.35"\n'
        'group = { site = "b" }\n'
    )
    audit = certified(tmp_path, HEAD + RESERVE + PROCEDURE + requirements + BOOTSTRAP + CLAIM)
    losses, chunk = hand_losses(audit)
    inside = (chunk.frame["site"] == "b").to_numpy()
    found = evidence_of(audit, "bootstrap")
    assert found["tests"] == ["betting"] * 3
    assert [column["n"] for column in found["columns"]] == [250, 250, int(inside.sum())]
    by_hand = losses[:, inside, 1].mean(axis=1)
    own = [row[2] for row in found["derived"]["estimates"]]
    np.testing.assert_allclose(own, by_hand, rtol=0, atol=1e-12)
    certificate = pg.certify(
        pg.LossArray(np.concatenate([losses, losses[:, :, 1:]], axis=2), chunk.records),
        [
            pg.Requirement(
                name="Brier transfer", low=-1, high=1, limit=0.10, form=pg.Form.RELATIVE
            ),
            pg.Requirement(name="Brier risk", low=0, high=1, limit=0.30),
            pg.Requirement(name="at b", low=0, high=1, limit=0.35, group="site = b"),
        ],
        seed=int(json.loads(audit.folder.read("evidence.json"))["seed"]),
        reliability_target="0.3",
    )
    assert_same_verdict(audit, certificate.to_dict())
    np.testing.assert_allclose(
        found["derived"]["pvalues"], certificate.evidence.pvalues, rtol=1e-12
    )


BLOCKS = """
[target]
table = "table.csv"
reserve = { seed = 11 }
design = { by = "label", sizes = { no = 80, yes = 70 }, weights = { no = "0.5", yes = "0.5" } }
outcome = "label"
positive = "yes"
exclude = ["site", "colour"]
[development]
blocks = { training = { no = 60, yes = 50 }, validation = { no = 40, yes = 30 } }
"""


def test_blocks_deal_out_training_validation_and_target_stratum_by_stratum(tmp_path: Path) -> None:
    whole = table()
    put(whole, tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + BLOCKS + PROCEDURE + BRIER + BOOTSTRAP + CLAIM)
    (sealed,) = audit.journal().ledger.sealed.members.values()
    assert sealed.records == 150
    assert sealed.development == {"training": 110, "validation": 70}
    # By hand: the rows of a class are shuffled, no before yes, and dealt out in this order.
    rng, taken = np.random.default_rng(11), set()
    for label, sizes in (("no", (60, 40)), ("yes", (50, 30))):
        rows = rng.permutation(np.flatnonzero(whole["label"] == label))
        for role, begin, end in (("training", 0, sizes[0]), ("validation", sizes[0], sum(sizes))):
            part = pd.read_parquet(audit.folder / f"development/0.{role}.parquet")
            own = part[part["label"] == label]["first"].tolist()
            assert own == whole.iloc[np.sort(rows[begin:end])]["first"].tolist()
        taken |= set(rows[: sum(sizes)])
    assert len(taken) == 180


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("no = 60", "no = 600", TableError, r"is to give 600 \+ 40 \+ 80 records and has"),
        ("{ no = 60, yes = 50 }", "{ no = 60 }", RegistryError, "name the strata"),
        ("reserve = { seed = 11 }", "reserve = { rows = 150, seed = 11 }", None, ""),
        ('design = { by = "label", sizes = { no = 80, yes = 70 }, weights = { no = "0.5", '
         'yes = "0.5" } }\n', "", RegistryError, "need a stratified target|reserve needs rows"),
        ("validation = { no = 40, yes = 30 } }",
         'validation = { no = 40, yes = 30 } }\nvalidation = { fraction = "0.2", seed = 1 }',
         RegistryError, "leave table and validation out"),
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_dealt_are_refused(
    tmp_path: Path, old: str, new: str, error: type[Exception] | None, message: str
) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    assert old in BLOCKS
    audit = audit_of(
        tmp_path, HEAD + BLOCKS.replace(old, new) + PROCEDURE + BRIER + BOOTSTRAP + CLAIM
    )
    if error is None:
        audit.seal()
        return
    with pytest.raises(error, match=message):
        audit.seal()


PRIVATE = """
[target]
table = "table.csv"
reserve = { rows = 250, seed = 11 }
outcome = "label"
positive = "yes"

[procedure]
library = ["onehot_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.45"

[[mechanism]]
name = "private"
generator = "categorical"
draws = 5
seeds = { first = 100 }
prepare_seed = 3
[mechanism.options]
outcome = "label"
rows = 200
epsilon = "2"
noise = "seeded"
[mechanism.options.domains]
label = ["no", "yes"]
site = ["a", "b"]
colour = ["red", "green", "blue"]
"""


def test_a_private_mechanism_says_what_its_releases_cost(tmp_path: Path) -> None:
    put(table()[["site", "colour", "label"]], tmp_path / "data" / "table.csv")
    audit = certified(tmp_path, HEAD + PRIVATE + CLAIM)
    (words,) = audit.certificate().to_dict()["privacy"].values()
    assert words[0].startswith("Not private against whoever knows the seed")
    assert "One private fit (epsilon 2" in words[1]
    assert "is sampled 5 times" in words[1]
    assert "all releases together cost the same epsilon 2" in words[1]
    assert sum("whoever knows the seed" in line for line in words) == 1
    page = (audit.folder / "report.md").read_text()
    assert "| private | One private fit" in page
