"""Rules are resolved once, on development data, and records that had a role are remembered."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyguard.adapters.pipelines import make_estimator
from proxyguard.audit.audit import Audit
from proxyguard.audit.draw import tasks
from proxyguard.audit.reserve import lineage_words
from proxyguard.documents.ledger import Sealed
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError, TargetReused, UnsupportedDesign
from proxyguard.seal.ledger import Stage

Array = NDArray[np.float64]

HEAD = 'format = 1\nname = "{name}"\npurpose = "Are the rules kept?"\n'
SetApart = Callable[..., None]

TARGET = """
[target]
table = "table.csv"
reserve = { rows = 200, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }
"""
PROCEDURE = '\n[procedure]\nlibrary = ["fixed_logistic"]\n'
RISK = """
[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = {limit}
"""
BOOTSTRAP = """
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 3
seeds = { first = 100 }
"""
CLAIM = '\n[claim]\nreliability_target = "0.3"\n'


pytestmark = pytest.mark.usefixtures("draws_here")


def table(rows: int = 400, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    signal = x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows)
    label = np.where(signal > 0.5, "yes", "no")
    return pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label})


def put(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)


def new_audit(root: Path, *parts: str, name: str = "first") -> Audit:
    """Begin an audit of the table in ``root``; several of them share one home."""
    if not (root / "data" / "table.csv").exists():
        put(table(), root / "data" / "table.csv")
    audit = Audit(root / name, home=root / "home", data=[root / "data"], workers=1)
    audit.init(HEAD.replace("{name}", name) + "".join(parts))
    return audit


def sealed_audit(root: Path, *parts: str, name: str = "first") -> Audit:
    """Begin an audit and seal its target."""
    audit = new_audit(root, *parts, name=name)
    audit.seal()
    return audit


def finish(audit: Audit) -> dict[str, Any]:
    """Take the remaining steps, verify, and return the certificate."""
    audit.draw()
    audit.open()
    found = audit.verify()
    assert found.good, found.findings
    return audit.certificate().to_dict()


def requirement_of(registry: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = registry["members"]["target"]["requirements"][index]
    return found


def parts_of(audit: Audit) -> tuple[pd.DataFrame, pd.DataFrame]:
    return (
        pd.read_parquet(audit.folder / "development/0.training.parquet"),
        pd.read_parquet(audit.folder / "development/0.validation.parquet"),
    )


def brier_by_hand(training: pd.DataFrame, validation: pd.DataFrame, seed: int) -> float:
    """Fit the paper's fixed logistic regression and return its mean Brier score."""
    model = make_pipeline(
        StandardScaler(), LogisticRegression(solver="liblinear", max_iter=500, random_state=seed)
    )
    columns = ["first", "second"]
    y = (training["label"] == "yes").to_numpy(dtype=np.float64)
    model.fit(training[columns].to_numpy(), y)
    p = model.predict_proba(validation[columns].to_numpy())[:, 1]
    truth = (validation["label"] == "yes").to_numpy(dtype=np.float64)
    return float(np.mean((p - truth) ** 2))


BY_SITE = TARGET.replace('positive = "yes"', 'positive = "yes"\nexclude = ["site"]')
GROUPED = """
[[requirement]]
name = "risk at b"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.05", round_up = "0.001" }
group = { site = "%s" }
"""


def sites(rows: int = 400) -> pd.DataFrame:
    """Return the table with sites, at one of which the label is mostly noise."""
    frame = table(rows)
    rng = np.random.default_rng(3)
    site = np.where(rng.random(rows) < 0.3, "b", "a")
    coin = np.where(rng.random(rows) < 0.5, "yes", "no")
    return frame.assign(site=site, label=np.where(site == "b", coin, frame["label"]))


def test_development_judges_a_groups_requirement_on_the_groups_own_records(
    tmp_path: Path,
) -> None:
    put(sites(), tmp_path / "data" / "table.csv")
    pilot = '\n[[pilot]]\nname = "p"\ngenerator = "bootstrap"\ndraws = 2\nseeds = { first = 7 }\n'
    audit = sealed_audit(tmp_path, BY_SITE, PROCEDURE, GROUPED % "b", pilot, BOOTSTRAP, CLAIM)
    facts = audit.register().to_dict()["members"]["target"]["facts"]
    training, validation = parts_of(audit)
    own = brier_by_hand(training, validation[validation["site"] == "b"], 0)
    whole = brier_by_hand(training, validation, 0)
    assert own > whole + 0.02
    assert float(facts["risks"]["risk at b"]) == pytest.approx(own, rel=1e-9)
    # A policy that says one half has a Brier score of a quarter on every record.
    assert float(facts["references"]["constant"]["risk at b"]) == pytest.approx(0.25)
    prevalence = (training["label"] == "yes").mean()
    truth = (validation["label"][validation["site"] == "b"] == "yes").to_numpy(dtype=float)
    assert float(facts["references"]["prevalence"]["risk at b"]) == pytest.approx(
        float(np.mean((truth - prevalence) ** 2))
    )
    for mean in facts["pilots"]["p"]["means"].values():
        assert abs(float(mean["risk at b"]) - own) < abs(float(mean["risk at b"]) - whole)
    assert requirement_of(json.loads(audit.folder.read("registry/0.json")))["limit"][
        "value"
    ] == str((Decimal(repr(own)) + Decimal("0.05")).quantize(Decimal("0.001"), ROUND_CEILING))
    finish(audit)


def test_a_limit_from_a_group_that_validation_does_not_have_is_refused(tmp_path: Path) -> None:
    put(sites(), tmp_path / "data" / "table.csv")
    audit = sealed_audit(tmp_path, BY_SITE, PROCEDURE, GROUPED % "c", BOOTSTRAP, CLAIM)
    with pytest.raises(RegistryError, match="no record of the group"):
        audit.register()
    with pytest.raises(RegistryError, match="no record of the group"):
        audit.check()


def up(value: Decimal, step: str) -> Decimal:
    return (value / Decimal(step)).to_integral_value(ROUND_CEILING) * Decimal(step)


@pytest.mark.parametrize("at_most", [None, "0.16"])
def test_a_limit_follows_from_the_risk_of_the_source(tmp_path: Path, at_most: str | None) -> None:
    ceiling = "" if at_most is None else f', at_most = "{at_most}"'
    rule = f'{{ source_validation_plus = "0.05", round_up = "0.001"{ceiling} }}'
    audit = sealed_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", rule), BOOTSTRAP, CLAIM
    )
    registry = audit.register().to_dict()
    limit = requirement_of(registry)["limit"]
    risk = brier_by_hand(*parts_of(audit), seed=0)
    assert float(limit["inputs"]["risk"]) == pytest.approx(risk, abs=1e-12)
    by_hand = up(Decimal(limit["inputs"]["risk"]) + Decimal("0.05"), "0.001")
    if at_most is not None:
        assert by_hand > Decimal(at_most)
        by_hand = Decimal(at_most)
    assert Decimal(limit["value"]) == by_hand
    assert limit["rule"].startswith("source risk plus a budget")
    assert limit["inputs"]["plus"] == "0.05"
    assert limit["inputs"]["step"] == "0.001"
    assert limit["inputs"].get("at_most") == at_most
    developed = audit.journal().ledger.find(Stage.DEVELOPED)[0].body.to_dict()
    assert developed["members"]["target"]["risks"]["risk"] == limit["inputs"]["risk"]
    finish(audit)
    assert (
        audit.folder.registry(audit.journal()).members["target"].to_dict()
        == registry["members"]["target"]
    )


PILOT_LIMIT = '{ pilot_largest_plus = "0.004", pilot = "small", round_up = "0.005" }'
PILOT = """
[[pilot]]
name = "{name}"
generator = "bootstrap"
options = { rows = {rows} }
draws = 4
seeds = { first = {first} }
"""


def pilot(name: str, rows: int, first: int) -> str:
    text = PILOT.replace("{name}", name).replace("{rows}", str(rows))
    return text.replace("{first}", str(first))


def pilot_risk(audit: Audit, rows: int, seed: int) -> float:
    training, validation = parts_of(audit)
    chosen = np.random.default_rng(seed).integers(0, len(training), size=rows)
    return brier_by_hand(training.iloc[chosen], validation, seed)


def test_a_limit_follows_from_the_worst_pilot(tmp_path: Path) -> None:
    audit = sealed_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", PILOT_LIMIT), 'slack = "0.02"\n',
        pilot("small", 30, 500), BOOTSTRAP, CLAIM,
    )  # fmt: skip
    registry = audit.register().to_dict()
    limit = requirement_of(registry)["limit"]
    largest = max(pilot_risk(audit, 30, seed) for seed in range(500, 504))
    assert float(limit["inputs"]["largest"]) == pytest.approx(largest, abs=1e-12)
    cutoff = up(Decimal(limit["inputs"]["largest"]) + Decimal("0.004"), "0.005")
    assert Decimal(limit["value"]) == up(cutoff + Decimal("0.02"), "0.005")
    assert (
        limit["rule"] == "largest pilot mean plus a margin, rounded up; plus the slack, rounded up"
    )
    assert limit["inputs"] == {
        "largest": limit["inputs"]["largest"], "margin": "0.004", "step": "0.005",
        "slack": "0.02",
    }  # fmt: skip
    assert requirement_of(registry)["slack"] == {"value": "0.02", "rule": "as declared",
                                                 "inputs": {}}  # fmt: skip
    means = (
        audit.journal()
        .ledger.find(Stage.DEVELOPED)[0]
        .body.to_dict()["members"]["target"]["pilots"]
    )
    assert set(means["small"]["means"]) == {"500", "501", "502", "503"}
    finish(audit)


@pytest.mark.parametrize("mechanisms", [1, 2])
def test_a_slack_is_the_smallest_that_keeps_the_planned_allowance(
    tmp_path: Path, mechanisms: int
) -> None:
    second = BOOTSTRAP.replace('name = "bootstrap"', 'name = "other"').replace("100", "200")
    grid = ["0.14", "0.06", "0.10", "0.12", "0.08"]
    audit = sealed_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", '"0.30"'),
        f"slack = {{ smallest_of = {grid}, allowance = \"0.2\" }}\n",
        BOOTSTRAP, second if mechanisms == 2 else "", CLAIM, 'score = "slack"\n',
    )  # fmt: skip
    slack = requirement_of(audit.register().to_dict())["slack"]

    def allowance(s: float) -> float:
        """Chernoff's ceiling exp(-n KL(limit - s, limit)) over alpha_Z, half of alpha, shared."""
        c, v = 0.30 - s, 0.30
        kl = c * np.log(c / v) + (1 - c) * np.log((1 - c) / (1 - v))
        return float(np.exp(-200 * kl) / (0.05 * 0.5 / mechanisms))

    enough = [text for text in grid if allowance(float(text)) <= 0.2]
    assert 0 < len(enough) < len(grid)
    assert slack["value"] == min(enough, key=float)
    assert slack["inputs"]["n_records"] == "200"
    assert slack["inputs"]["allowance"] == "0.2"
    assert slack["inputs"]["grid"] == ", ".join(grid)
    assert float(slack["inputs"]["alpha_target"]) == 0.05 * 0.5 / mechanisms
    finish(audit)


def test_a_role_may_read_what_its_pilot_may_and_both_are_registered_by_digest(
    tmp_path: Path,
) -> None:
    weights = tmp_path / "weights"
    weights.write_text("first")
    names = ("tiny", "large", "middle")
    pilots = "".join(
        pilot(name, 12 + 40 * i, 500 + 10 * i) + f'allow = ["{weights}"]\n'
        for i, name in enumerate(names)
    )
    mechanism = '\n[[mechanism]]\nname = "best"\nrole = "high"\ndraws = 2\nseeds = { first = 10 }\n'
    audit = sealed_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", '"0.25"'),
        '\n[roles]\npilots = ["tiny", "large", "middle"]\nmoderate = "0.03"\n',
        pilots, mechanism, CLAIM,
    )  # fmt: skip
    member = audit.register().to_dict()["members"]["target"]
    expected = {str(weights): hashlib.sha256(b"first").hexdigest()}
    assert member["mechanisms"]["best"]["allowed"] == expected
    assert {name: member["facts"]["pilots"][name]["allowed"] for name in names} == dict.fromkeys(
        names, expected
    )
    registry = audit.folder.registry(audit.journal())
    (task,) = tasks(audit.place, registry, audit.journal())
    assert task.job.allow == (str(weights),)
    weights.write_text("other")
    with pytest.raises(DrawError, match=r"weights is '[0-9a-f]{64}', registered was"):
        audit.draw()
    weights.write_text("first")
    finish(audit)


@pytest.mark.parametrize("against", ["limit", "cutoff"])
def test_roles_follow_from_the_margins_of_the_pilots(tmp_path: Path, against: str) -> None:
    sizes = {"tiny": 12, "large": 150, "middle": 50}
    roles = (
        '\n[roles]\npilots = ["tiny", "large", "middle"]\nmoderate = "0.03"\n'
        f'against = "{against}"\n'
    )
    mechanisms = "".join(
        f'\n[[mechanism]]\nname = "{role} one"\nrole = "{role}"\ndraws = 2\n'
        f"seeds = {{ first = {first} }}\n"
        for role, first in (("high", 10), ("moderate", 20), ("degraded", 30))
    )
    pilots = "".join(
        pilot(name, rows, 500 + 10 * i) for i, (name, rows) in enumerate(sizes.items())
    )
    audit = sealed_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", '"0.25"'), 'slack = "0.05"\n', roles,
        pilots, mechanisms, CLAIM,
    )  # fmt: skip
    registry = audit.register().to_dict()
    margins = {
        name: [
            0.25 - (0.05 if against == "cutoff" else 0.0) - pilot_risk(audit, rows, seed)
            for seed in range(500 + 10 * i, 504 + 10 * i)
        ]
        for i, (name, rows) in enumerate(sizes.items())
    }
    high = max(margins, key=lambda name: float(np.percentile(margins[name], 10)))
    rest = [name for name in margins if name != high]
    degraded = min(rest, key=lambda name: float(np.percentile(margins[name], 90)))
    (moderate,) = [name for name in rest if name != degraded]
    found = registry["members"]["target"]["mechanisms"]
    assert {name: one["pilot"] for name, one in found.items()} == {
        "high one": high, "moderate one": moderate, "degraded one": degraded,
    }  # fmt: skip
    for one in found.values():
        assert one["generator"] == "bootstrap"
        assert one["options"] == {"rows": sizes[one["pilot"]]}
    certificate = finish(audit)
    rows = {
        name: {d["rows"] for d in content["draws"]}
        for name, content in json.loads(audit.folder.read("releases.json"))["members"][
            "target"
        ].items()
    }
    assert rows == {name: {one["options"]["rows"]} for name, one in found.items()}
    assert len(certificate["verdicts"]) == 3


def test_check_warns_where_a_policy_that_learns_nothing_would_pass(tmp_path: Path) -> None:
    audit = new_audit(
        tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", '"0.26"'),
        RISK.replace('"risk"', '"strict"').replace("{limit}", '"0.2"'),
        RISK.replace('"risk"', '"hopeless"').replace("{limit}", '"0.01"'),
        RISK.replace('"risk"', '"transfer"').replace("absolute", "relative")
        .replace("{limit}", '"0.2"'),
        BOOTSTRAP, CLAIM,
    )  # fmt: skip
    unsealed = [w for w in audit.check().warnings if "validation data" in w]
    audit.seal()
    before = audit.journal().ledger.head
    found = audit.check()
    # Before anything is sealed it is told by the same rows.
    assert unsealed == [w for w in found.warnings if "validation data" in w]
    # A limit of .01 is also out of reach for so few records, whatever they show.
    assert found.problems == []
    (hopeless,) = found.hopeless
    assert "200 target records cannot reach" in hopeless
    training, validation = parts_of(audit)
    y = (validation["label"] == "yes").to_numpy(dtype=np.float64)
    share = float((training["label"] == "yes").mean())
    prevalence, source = float(np.mean((share - y) ** 2)), brier_by_hand(training, validation, 0)
    assert 0.2 < prevalence < 0.25  # the limits above are on both sides
    policy = "the {} policy, which learns nothing, has {:.4f} on validation data and would meet"
    assert [w[: w.index(" the limit")] for w in found.warnings if "policy" in w] == [
        f"risk: {policy.format('constant', 0.25)}",
        f"risk: {policy.format('prevalence', prevalence)}",
        f"transfer: {policy.format('constant', 0.25 - source)}",
        f"transfer: {policy.format('prevalence', prevalence - source)}",
    ]
    assert [w for w in found.warnings if "source itself" in w] == [
        f"hopeless: the source itself has {source:.4f} on validation data, not below the limit 0.01"
    ]
    assert f"risk: limit 0.26, source {source:.4f} on validation" in found.facts
    assert audit.journal().ledger.head == before


@pytest.mark.parametrize(
    ("design", "claim", "reason"),
    [
        ("iid", 'test = "binomial"', "binomial needs losses declared two_valued"),
        ({"pool": 5000}, 'test = "empirical_bernstein"', "empirical_bernstein is valid for iid"),
        ("iid", 'score = "slack"', "'risk' needs a slack for this score"),
        ("iid", 'mode = "count"\ncalibrator = "capital"\ntest = "bentkus"', "no betting capital"),
        ("iid", 'mode = "named"\nthreshold = "0.01"', "mode named does not use threshold"),
        ("iid", 'test = { other = "bentkus" }', "tests name ['other'], the requirements are"),
    ],
)
def test_a_claim_that_is_not_covered_is_refused_with_the_reason(
    tmp_path: Path, set_apart: SetApart, design: object, claim: str, reason: str
) -> None:
    risk = RISK.replace("{limit}", '"0.3"')
    audit = new_audit(tmp_path, TARGET, PROCEDURE, risk, BOOTSTRAP, CLAIM, claim)
    if design != "iid":
        set_apart(audit, "design = { pool = 5000 }")
    audit.seal()
    assert any(reason in problem for problem in audit.check().problems)
    with pytest.raises(UnsupportedDesign, match=re.escape(reason)):
        audit.register()
    assert not audit.journal().ledger.has(Stage.REGISTERED)


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize(
    ("library", "redrawn"),
    [
        ("logistic", []),
        ("fixed_logistic", ["logistic fit"]),
        ("sklearn.ensemble:RandomForestClassifier", ["RandomForestClassifier fit"]),
    ],
)
def test_what_is_redrawn_is_what_took_a_seed(
    tmp_path: Path, library: str, redrawn: list[str]
) -> None:
    options = "options = { n_estimators = 3 }\n" if ":" in library else ""
    procedure = PROCEDURE.replace("fixed_logistic", library) + options
    two = BOOTSTRAP.replace("draws = 3", "draws = 2")
    audit = sealed_audit(tmp_path, TARGET, procedure, RISK.replace("{limit}", '"0.3"'), two, CLAIM)
    audit.register()
    certificate = finish(audit)
    assert certificate["redraws"]["bootstrap"] == ["rows of the release", *redrawn]
    assert certificate["conditional_on"]["bootstrap"] == [
        "the source table",
        "the generator's preparation, in which nothing was random",
        "the learning procedure and its settings",
        "the validation part of development",
    ]


def test_the_pipelines_say_what_they_take_a_seed_for() -> None:
    stages = {}
    for name in ("logistic", "fixed_logistic", "onehot_logistic", "forest", "boosting"):
        seed = Seed(1)
        make_estimator(name, {}, seed)
        stages[name] = seed.taken
    assert stages == {
        "logistic": [],
        "fixed_logistic": ["logistic fit"],
        "onehot_logistic": ["logistic fit"],
        "forest": ["forest fit"],
        "boosting": ["boosting fit"],
    }


GENERATOR = """
import numpy


class Shifted:
    def __init__(self, at_random):
        self._at_random = at_random

    def describe(self):
        return {"at_random": self._at_random}

    def prepare(self, source, rng):
        self._source = source
        self._shift = rng.normal() if self._at_random else 0.1

    def draw(self, seed):
        rng = seed.rng("which rows") if self._at_random else numpy.random.default_rng(seed)
        table = self._source.iloc[rng.integers(0, len(self._source), len(self._source))].copy()
        table["first"] += self._shift
        return table.reset_index(drop=True)
"""


@pytest.mark.parametrize("at_random", [True, False])
def test_a_preparation_at_random_is_conditioned_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_random: bool
) -> None:
    (tmp_path / "generator_of_test_rules.py").write_text(GENERATOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    mechanism = BOOTSTRAP.replace(
        'generator = "bootstrap"',
        'generator = "generator_of_test_rules:Shifted"\nprepare_seed = 77\n'
        f"options = {{ at_random = {str(at_random).lower()} }}",
    )
    try:
        audit = sealed_audit(
            tmp_path, TARGET, PROCEDURE, RISK.replace("{limit}", '"0.3"'), mechanism, CLAIM
        )
        registry = audit.register().to_dict()
        certificate = finish(audit)
    finally:
        sys.modules.pop("generator_of_test_rules", None)
    described = registry["members"]["target"]["mechanisms"]["bootstrap"]
    assert described["describe"] == {"at_random": at_random}
    # A generator that uses its seed as a plain number still redraws the release.
    first = "which rows" if at_random else "the release"
    assert certificate["redraws"]["bootstrap"] == [first, "logistic fit"]
    assert certificate["conditional_on"]["bootstrap"][1] == (
        "one preparation of the generator, random and made once from seed 77"
        if at_random
        else "the generator's preparation, in which nothing was random"
    )


WHOLE = (TARGET, PROCEDURE, RISK.replace("{limit}", '"0.3"'), BOOTSTRAP, CLAIM)


def test_a_target_that_was_sealed_before_and_never_opened_is_fresh(tmp_path: Path) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    second = sealed_audit(tmp_path, *WHOLE, name="second")
    second.register()
    assert any("opened first has the guarantee" in words for words in second.check().warnings)
    status = finish(second)["claim_status"]
    assert status["guarantee"] == "yes"
    assert status["evidence"] == "prospective audit of a sealed target"
    assert "200 target records were in target of 'first', not opened then" in status["lineage"]
    (seal,) = second.journal().ledger.find(Sealed)
    same = lineage_words(seal.body.lineage, "first")
    assert "200 target records were in target of another folder called 'first', not" in same
    first.register()
    status = finish(first)["claim_status"]
    assert status["guarantee"].startswith("no: target records shaped something before this audit")


def test_a_target_that_was_opened_before_decides_nothing_more(tmp_path: Path) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    first.register()
    assert finish(first)["claim_status"]["guarantee"] == "yes"
    second = sealed_audit(tmp_path, *WHOLE, name="second")
    second.register()
    status = finish(second)["claim_status"]
    assert status["guarantee"].startswith("no: target records shaped something before this audit")
    assert status["evidence"] == "same-table sensitivity: target records had a role before"
    assert "200 target records were in target of 'first'" in status["lineage"]
    assert "not opened then" not in status["lineage"]


@pytest.mark.parametrize("lost", ["lineage.*", "lineage.sqlite*"])
def test_a_store_that_was_deleted_after_the_seal_makes_nothing_fresh(
    tmp_path: Path, lost: str
) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    first.register()
    finish(first)
    second = sealed_audit(tmp_path, *WHOLE, name="second")
    for path in second.home.root.glob(lost):
        path.unlink()
    assert any("does not know this audit's seal" in warning for warning in second.check().warnings)
    second.register()
    status = finish(second)["claim_status"]
    assert status["guarantee"].startswith("no: target records shaped something before this audit")
    assert "did not know this audit's own seal" in status["guarantee"]
    assert status["evidence"] == "same-table sensitivity: target records had a role before"
    assert "200 target records were in target of 'first'" in status["lineage"]
    assert second.verify().good


def test_a_store_that_lost_a_fresh_target_s_seal_leaves_no_guarantee(tmp_path: Path) -> None:
    audit = sealed_audit(tmp_path, *WHOLE)
    for path in audit.home.root.glob("lineage.*"):
        path.unlink()
    audit.register()
    guarantee = finish(audit)["claim_status"]["guarantee"]
    assert guarantee.startswith("no: the lineage store at the opening did not know this audit's")
    assert audit.verify().good


def test_an_opening_between_registration_and_opening_counts(tmp_path: Path) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    second = sealed_audit(tmp_path, *WHOLE, name="second")
    for audit in (first, second):
        audit.register()
    assert finish(first)["claim_status"]["guarantee"] == "yes"
    assert finish(second)["claim_status"]["guarantee"].startswith("no: ")


def test_shared_records_are_counted_one_by_one(tmp_path: Path) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    first.register()
    finish(first)
    other = [part.replace("seed = 11", "seed = 21").replace("rows = 200", "rows = 150")
             for part in WHOLE]  # fmt: skip
    second = sealed_audit(tmp_path, *other, name="second")
    second.register()
    status = finish(second)["claim_status"]
    earlier = set(np.random.default_rng(11).choice(400, size=200, replace=False).tolist())
    own = set(np.random.default_rng(21).choice(400, size=150, replace=False).tolist())
    counts = {
        role: int(number)
        for number, role in re.findall(
            r"(\d+) target records were in (\w+) of 'first'", status["lineage"]
        )
    }
    assert counts["target"] == len(own & earlier)
    assert counts["training"] + counts["validation"] == len(own - earlier)
    assert status["guarantee"].startswith("no: ")


def test_the_same_table_in_another_file_and_order_is_the_same_table(tmp_path: Path) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    first.register()
    finish(first)
    again = table().sample(frac=1.0, random_state=3)[["label", "second", "first"]]
    again.to_parquet(tmp_path / "data" / "again.parquet", index=False)
    other = [part.replace('"table.csv"', '"again.parquet"') for part in WHOLE]
    second = sealed_audit(tmp_path, *other, name="second")
    second.register()
    status = finish(second)["claim_status"]
    numbers = re.findall(r"(\d+) target records were in \w+ of 'first'", status["lineage"])
    assert sum(int(n) for n in numbers) == 200  # each has one role there, or another
    assert status["guarantee"].startswith("no: ")


def test_prior_use_is_said_by_the_declaration(tmp_path: Path) -> None:
    declared = TARGET.replace('positive = "yes"', 'positive = "yes"\nprior_use = "shown in class"')
    audit = sealed_audit(tmp_path, declared, *WHOLE[1:])
    audit.register()
    status = finish(audit)["claim_status"]
    assert status["guarantee"] == "no: the declaration says: shown in class"
    assert status["evidence"] == "registered audit of records that were analysed before"


APART = """
[target]
file = "target.csv"
outcome = "label"
positive = "yes"
{coincidence}
[development]
table = "development.csv"
validation = { fraction = "0.25", seed = 12 }
"""


@pytest.mark.parametrize("coincidence", ["", 'coincidence = "values are rounded to one digit"'])
def test_target_records_in_another_development_file_are_a_leak(
    tmp_path: Path, coincidence: str
) -> None:
    target = table(200, seed=5)
    leaked = pd.concat([table(150, seed=6), target.iloc[:60]])
    put(target, tmp_path / "data" / "target.csv")
    put(leaked.sample(frac=1.0, random_state=1), tmp_path / "data" / "development.csv")
    parts = (APART.replace("{coincidence}", coincidence), *WHOLE[1:])
    audit = new_audit(tmp_path, *parts)
    if coincidence:
        audit.seal()
        audit.register()
        status = finish(audit)["claim_status"]
        found = re.findall(
            r"(\d+) target records have value twins in (\w+) of this audit", status["lineage"]
        )
        assert {role for _, role in found} == {"training", "validation"}
        assert sum(int(number) for number, _ in found) == 60
        # Registered on the author's word, which the guarantee then rests on.
        assert status["guarantee"].startswith("no: ")
        assert (
            "which coincidence does not explain; the declaration says: values are rounded"
            in (status["guarantee"])
        )
        return
    leak = "records of the target have the values of a training"
    assert any(leak in problem for problem in audit.check().problems)
    with pytest.raises(TargetReused, match=leak):
        audit.seal()
    assert not audit.journal().ledger.has(Stage.SEALED)
    assert not (audit.home.root / "targets").exists()
    assert not (audit.folder / "target").exists()


@pytest.mark.parametrize("copies", [2, 7])
def test_repeating_the_development_rows_does_not_hide_that_the_target_is_among_them(
    tmp_path: Path, copies: int
) -> None:
    target = table(200, seed=5)
    put(target, tmp_path / "data" / "target.csv")
    put(pd.concat([target] * copies), tmp_path / "data" / "development.csv")
    audit = new_audit(tmp_path, APART.replace("{coincidence}", ""), *WHOLE[1:])
    leak = (
        r"\d+ records of the target have the values of a training record \(all columns\), where "
        "two parts of one table would have about 0"
    )
    with pytest.raises(TargetReused, match=leak):
        audit.seal()
    assert any(re.match(leak, problem) for problem in audit.check().problems)


CHANGED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a row less": lambda t: t.iloc[1:],
    "a column more": lambda t: t.assign(third=np.sqrt(np.arange(len(t)) + 0.5)),
    "a column renamed": lambda t: t.rename(columns={"second": "other"}),
}


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("change", CHANGED)
def test_an_opened_target_is_no_fresh_one_with_a_row_less_or_a_column_changed(
    tmp_path: Path, change: str
) -> None:
    first = sealed_audit(tmp_path, *WHOLE)
    first.register()
    assert finish(first)["claim_status"]["guarantee"] == "yes"
    put(CHANGED[change](table().sample(frac=1.0, random_state=3)), tmp_path / "data" / "again.csv")
    other = [part.replace('"table.csv"', '"again.csv"') for part in WHOLE]
    second = new_audit(tmp_path, *other, name="second")
    would = "the certificate would say: guarantee no: "
    assert any(warning.startswith(would) for warning in second.check().warnings)
    assert any(warning.startswith(would) for warning in second.seal().warnings)
    assert any(warning.startswith(would) for warning in second.check().warnings)
    second.register()
    status = finish(second)["claim_status"]
    assert "which coincidence does not explain" in status["guarantee"]
    assert re.search(r"no: \d+ target records have the values of records in", status["guarantee"])
    assert status["evidence"] == "same-table sensitivity: target records had a role before"
    assert second.verify().good


def test_a_fresh_target_beside_a_development_table_that_was_used_before_is_fresh(
    tmp_path: Path,
) -> None:
    put(table(200, seed=6), tmp_path / "data" / "development.csv")
    for number, name in enumerate(("first", "second")):
        put(table(200, seed=20 + number), tmp_path / "data" / "target.csv")
        audit = sealed_audit(tmp_path, APART.replace("{coincidence}", ""), *WHOLE[1:], name=name)
        assert not any("guarantee" in warning for warning in audit.check().warnings)
        audit.register()
        assert finish(audit)["claim_status"]["guarantee"] == "yes"


def test_a_target_that_is_the_development_file_is_a_leak(tmp_path: Path) -> None:
    put(table(200, seed=5), tmp_path / "data" / "target.csv")
    put(table(200, seed=5), tmp_path / "data" / "development.csv")
    declared = APART.replace("{coincidence}", 'coincidence = "none"')
    audit = new_audit(tmp_path, declared, *WHOLE[1:])
    with pytest.raises(TargetReused, match="150 records of the target are also in training"):
        audit.seal()


def test_a_sealed_copy_is_checked_without_the_table(tmp_path: Path) -> None:
    audit = sealed_audit(tmp_path, *WHOLE)
    (tmp_path / "data" / "table.csv").unlink()
    assert not audit.check().problems


def test_records_of_one_person_on_both_sides_are_told_with_the_line_to_type(
    tmp_path: Path,
) -> None:
    frame = table()
    frame["PatNr"] = [f"P{k // 2:05d}" for k in range(len(frame))]
    put(frame, tmp_path / "data" / "table.csv")
    told = [w for w in new_audit(tmp_path, *WHOLE).check().warnings if "repeat one" in w]
    assert len(told) == 1
    line, reserve = 'design = { by = "PatNr" }', "reserve = { clusters = "
    assert f"{line}, {reserve}" in told[0]
    lines = re.findall(r"design = {.*?}|reserve = {.*?}", told[0])
    clustered = TARGET.replace("reserve = { rows = 200, seed = 11 }", "\n".join(lines))
    obeyed = new_audit(tmp_path, clustered, *WHOLE[1:], name="obeyed").check()
    assert not any("repeat one" in warning for warning in obeyed.warnings)
    assert not [problem for problem in obeyed.problems if "PatNr" in problem]


def test_a_person_in_two_files_is_told_by_a_count_also_where_the_id_is_excluded(
    tmp_path: Path,
) -> None:
    frame = table(500)
    first, second = frame.iloc[:300].copy(), frame.iloc[300:].copy()
    first["who"] = [f"A-{k}" for k in range(300)]
    second["who"] = [f"A-{k}" for k in range(293, 493)]
    second.iloc[-1, -1] = "A-491"
    declared = TARGET.replace('table = "table.csv"', 'file = "fresh.csv"').replace(
        "reserve = { rows = 200, seed = 11 }", 'exclude = ["who"]'
    )
    declared = declared.replace("[development]", '[development]\ntable = "table.csv"')

    def told() -> tuple[list[str], list[str]]:
        put(first, tmp_path / "data" / "table.csv")
        put(second, tmp_path / "data" / "fresh.csv")
        found = new_audit(tmp_path, declared, *WHOLE[1:], name=f"{len(second)}").check()
        return [[w for w in said if "'who'" in w] for said in (found.warnings, found.facts)]

    ((warning,), _) = told()
    assert (
        "id: 0 records repeat one in development, 1 in the target, and 7 of the target" in warning
    )
    assert 'leave the records of these persons out of "fresh.csv", and write under' in warning
    assert "A-" not in warning
    second = second.iloc[7:-1]
    warnings, (fact,) = told()
    assert warnings == []
    assert "0 in the target, and 0 of the target have one that development has" in fact
