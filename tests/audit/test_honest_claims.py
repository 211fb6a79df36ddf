"""What must not be certified is refused, or said in the claim status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.errors import (
    KeyMissing,
    RegistryError,
    SealError,
    StageError,
    TableError,
    TargetReused,
)
from proxyguard.registry.declaration import read_declaration
from proxyguard.seal.crypto import SigningKey

At = Callable[[str], Audit]
DECLARATION = """
format = 1
name = "honest"
purpose = "Is it?"
[target]
table = "table.csv"
reserve = { %s }
outcome = "label"
positive = "yes"
%s
[development]
validation = { fraction = "0.25", seed = 12 }
[procedure]
library = ["fixed_logistic"]
choose = { loss = "cost", false_negative = "2", thresholds = 51 }
[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.3"
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 4
seeds = { first = 100 }
[claim]
reliability_target = "0.3"
"""


def make(tmp_path: Path, reserve: str, more: str, frame: pd.DataFrame) -> Audit:
    data = tmp_path / "data"
    data.mkdir()
    frame.to_csv(data / "table.csv", index=False)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
    audit.init(DECLARATION % (reserve, more))
    return audit


def visits(patients: int = 60, each: int = 8) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    patient = np.repeat(np.arange(patients), each)
    x = rng.normal(size=patients * each).round(3)
    label = np.where(x + rng.normal(size=x.size) > 0, "yes", "no")
    return pd.DataFrame({"x": x, "patient": [f"p{k}" for k in patient], "label": label})


@pytest.mark.usefixtures("draws_here")
def test_whole_clusters_are_reserved_and_divided(tmp_path: Path) -> None:
    audit = make(tmp_path, "clusters = 20, seed = 3", 'design = { by = "patient" }', visits())
    audit.seal()
    parts = {
        role: set(
            pd.read_parquet(audit.folder / f"development/0.{role}.parquet")["patient"].tolist()
        )
        for role in ("training", "validation")
    }
    assert len(parts["training"]) + len(parts["validation"]) == 40
    assert not parts["training"] & parts["validation"]
    audit.register()
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["verdicts"][0]["n_records"] == {"Brier risk": 20}
    assert audit.verify(with_target=True).good


def test_a_clustered_reserve_names_clusters_and_others_do_not(tmp_path: Path) -> None:
    for reserve, design in (
        ("rows = 100, seed = 3", 'design = { by = "patient" }'),
        ("clusters = 20, seed = 3", ""),
    ):
        with pytest.raises(RegistryError, match="reserves whole clusters"):
            read_declaration(DECLARATION % (reserve, design))


def test_a_table_in_the_audit_folder_is_refused(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "audit"])
    audit.init(DECLARATION % ("rows = 100, seed = 3", ""))
    visits().to_csv(tmp_path / "audit" / "table.csv", index=False)
    with pytest.raises(TableError, match="lies in the audit folder, which is given to others"):
        audit.seal()


def test_an_author_is_no_steward_of_their_own(at: At) -> None:
    audit = at("new")
    own = audit.home.signing_key().identity
    with pytest.raises(RegistryError, match="the steward is a second person"):
        audit.seal(steward=own)
    with pytest.raises(RegistryError, match="128 hexadecimal digits"):
        audit.seal(steward="somebody")


@pytest.mark.usefixtures("draws_here")
def test_a_steward_computes_the_losses_again_and_grants_once(at: At, tmp_path: Path) -> None:
    audit = at("new")
    key = tmp_path / "steward.pem"
    SigningKey.create().save(key)
    audit.seal(steward=SigningKey.load(key).identity)
    audit.register()
    audit.draw()
    steward = Audit(audit.folder.path, home=tmp_path / "steward-home")
    steward.grant(key)
    audit.open()
    assert steward.verify(with_target=True, steward_key=key).good
    with pytest.raises(KeyMissing):
        steward.verify(with_target=True)
    (audit.folder / "grant.json").unlink()
    with pytest.raises((SealError, StageError, TargetReused)):
        steward.grant(key)


def test_a_missing_key_says_nothing_about_the_folder(at: At, tmp_path: Path) -> None:
    stranger = Audit(at("certified").folder.path, home=tmp_path / "stranger")
    assert stranger.verify().good
    with pytest.raises(KeyMissing):
        stranger.verify(with_target=True)


def test_draws_excluded_after_they_were_drawn_cost_the_guarantee(at: At) -> None:
    audit = at("drawn")
    audit.amend("it looked bad", [("bootstrap", 103)])
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["claim_status"]["guarantee"] == (
        "no: the claim was amended after the releases were drawn, which its author could look at"
    )


@pytest.mark.usefixtures("draws_here")
def test_draws_excluded_before_they_are_drawn_cost_nothing(at: At) -> None:
    audit = at("registered")
    audit.amend("its seed fixed the split", [("bootstrap", 103)])
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["claim_status"]["guarantee"] == "yes"
    assert certificate["verdicts"][0]["n_releases"] == 7


def test_losses_from_elsewhere_rest_on_the_authors_word(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    losses = np.random.default_rng(1).random((6, 200, 1)) < 0.05
    np.savez(
        data / "losses.npz", losses=losses.astype(float), releases=[f"r{k}" for k in range(6)],
        requirements=["error"],
    )  # fmt: skip
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data])
    audit.init(
        'format = 1\nname = "given"\npurpose = "Is it?"\n[target]\nlosses = "losses.npz"\n'
        '[[requirement]]\nname = "error"\nloss = "error"\nform = "absolute"\nlimit = "0.2"\n'
        '[[mechanism]]\nname = "m"\ngenerator = "losses"\ndraws = 6\nseeds = { first = 0 }\n'
        '[claim]\nreliability_target = "0.3"\n'
    )
    certificate = audit.run().to_dict()
    assert certificate is not None
    status = certificate["claim_status"]
    assert status["evidence"].startswith("losses made elsewhere")
    assert status["guarantee"].startswith("no: the losses existed before the claim was registered")


def test_missing_values_that_no_model_has_met_are_refused_at_seal(tmp_path: Path) -> None:
    frame = visits()[["x", "label"]]
    audit = make(tmp_path, "rows = 100, seed = 3", "", frame)
    reserved = np.sort(np.random.default_rng(3).choice(len(frame), size=100, replace=False))
    frame.loc[reserved[0], "x"] = np.nan
    frame.to_csv(tmp_path / "data" / "table.csv", index=False)
    with pytest.raises(TableError, match="'x' has missing values and development has none"):
        audit.seal()
    assert not (audit.folder / "ledger.jsonl").exists()
    # A procedure that fills gaps with medians needs none in development to know what to do.
    place = audit.folder / "audit.toml"
    place.write_text(place.read_text().replace('"fixed_logistic"', '"balanced_logistic"'))
    audit.seal()
    assert (audit.folder / "ledger.jsonl").exists()


def test_an_audit_that_cannot_succeed_is_told_so(tmp_path: Path) -> None:
    audit = make(tmp_path, "rows = 100, seed = 3", 'exclude = ["patient"]', visits())
    assert audit.check().good  # .3^4 = .0081 <= .05
    place = audit.folder / "audit.toml"
    place.write_text(
        place.read_text().replace('reliability_target = "0.3"', 'reliability_target = "0.8"')
    )
    assert audit.check().problems == []
    (problem,) = audit.check().hopeless
    # .8^13 = .055 > .05 >= .044 = .8^14
    assert "4 draws cannot validate a reliability above 0.8" in problem
    assert "at least 14 are needed" in problem


def test_columns_that_are_not_there_are_named_before_sealing(tmp_path: Path) -> None:
    audit = make(tmp_path, "rows = 100, seed = 3", 'exclude = ["ghost"]', visits())
    assert any('no column "ghost"' in problem for problem in audit.check().problems)
    with pytest.raises(TableError, match='no column "ghost", which the declaration names'):
        audit.seal()


@pytest.mark.usefixtures("draws_here")
def test_a_secondary_limit_on_a_query_is_applied(tmp_path: Path) -> None:
    audit = make(tmp_path, "rows = 200, seed = 3", 'exclude = ["patient"]', visits())
    place = audit.folder / "audit.toml"
    query = (
        '[[requirement]]\nname = "share"\nform = "query"\nlimit = "0.3"\n'
        'query = { share = { label = "yes" } }\n[[secondary]]\nname = "strict"\n'
        'limits = { share = "0.000001" }\n'
    )
    place.write_text(place.read_text().replace("[[mechanism]]", query + "[[mechanism]]"))
    certificate = audit.run().to_dict()
    assert certificate is not None
    evidence: dict[str, Any] = json.loads((audit.folder / "evidence.json").read_bytes())
    assert evidence["secondary"]["strict"]["bootstrap"]["limits"] == ["0.3", "1e-06", "1e-06"]
    (strict,) = certificate["secondary"]["strict"]["results"].values()
    assert strict["decision"] != "validated"
