"""Exposure in an audit: members are counted, the target is asked, and a stranger finds the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import binom

from proxyguard.audit.attacks import Found, MemberAttacks, _possible
from proxyguard.audit.audit import Audit
from proxyguard.audit.demo import run_exposure_demo
from proxyguard.audit.development import MemberDevelopment
from proxyguard.audit.home import load_key_file
from proxyguard.audit.plan import pilot_laws
from proxyguard.audit.rules import measures_of
from proxyguard.audit.stated import reading_place
from proxyguard.audit.target import OpenTarget
from proxyguard.draw.messages import DrawResult, Failed
from proxyguard.errors import AttackRefused, RegistryError, TableError, UnsupportedDesign
from proxyguard.exposure.attacks import AttackSuite
from proxyguard.exposure.descriptive import ReleaseDescription, describe_release
from proxyguard.exposure.representation import Rows
from proxyguard.exposure.statistics import Census
from proxyguard.modes.evidence import Decision
from proxyguard.registry.exposure import AttackPart, ExposureKind, ExposureQuestion
from proxyguard.registry.requirement import Requirement
from proxyguard.seal.sealed_file import SealedFile
from proxyguard.tables.files import read_table_bytes

Array = NDArray[np.float64]

HEAD = """
format = 1
name = "members"
purpose = "Does a release give its members away, and is it of any use?"

[target]
table = "table.csv"
reserve = { rows = 240, seed = 11 }
outcome = "label"
positive = "yes"

[development]
members = "0.6"
reference = "0.3"
calibration = "0.1"
split_seed = 7

[exposure]
seed = 911

[procedure]
library = ["fixed_logistic"]
"""
USEFUL = """
[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.35"
"""
EVERYWHERE = """
[[requirement]]
name = "told apart"
exposure = "advantage everywhere"
attacks = ["dcr", "nearest-neighbour ratio"]
limit = "0.25"
"""
ADVANTAGE = """
[[requirement]]
name = "flagged"
exposure = "advantage"
attacks = ["dcr"]
threshold = { quantile = "0.8" }
limit = "0.25"
"""
OTHERS = """
[[requirement]]
name = "few found"
exposure = "tpr at fpr"
attacks = ["dcr"]
fpr = "0.05"
limit = "0.40"

[[requirement]]
name = "area"
exposure = "membership auc"
attacks = ["dcr"]
limit = "0.70"
"""
CLAIM = """
[claim]
reliability_target = "0.3"
beta = "0.05"
"""
BOOTSTRAP = 'generator = "bootstrap"'
NOISE = 'generator = "noise"\noptions = { keep = ["label"], share = "3" }'


def mechanism(generator: str, draws: int = 6) -> str:
    return (
        f'\n[[mechanism]]\nname = "bootstrap"\n{generator}\ndraws = {draws}\n'
        "seeds = { first = 100 }\n"
    )


def write_table(path: Path, *, rows: int = 640, twins: int = 0) -> None:
    """Write a table of numbers and a label; of some rows there are two that are equal."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    frame = pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label})
    frame = pd.concat([frame, frame.iloc[:twins]], ignore_index=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)


def audit_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def new_audit(root: Path, *parts: str, twins: int = 0) -> Audit:
    write_table(root / "data" / "table.csv", twins=twins)
    audit = audit_in(root)
    audit.init(HEAD + "".join(parts))
    found = audit.check()
    assert found.problems == []
    return audit


def certified(root: Path, *parts: str, twins: int = 0) -> Audit:
    audit = new_audit(root, *parts, twins=twins)
    audit.run()
    assert_verified(audit)
    return audit


def assert_verified(audit: Audit) -> None:
    for with_target in (False, True):
        found = audit.verify(with_target=with_target)
        assert found.good, found.findings
        assert found.not_checked == []


def evidence_of(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.folder.read("evidence.json"))["groups"]["bootstrap"]
    return found


def decisions_of(audit: Audit) -> set[Decision]:
    return set(audit.certificate().decisions.values())


@pytest.fixture(scope="module", autouse=True)
def _draws_here(module_draws_here: None) -> None:
    """Draw in this process: starting others is not what is tested."""


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit of a mechanism that copies rows, certified; utility and exposure together."""
    root = tmp_path_factory.mktemp("copying")
    claim = CLAIM.replace("0.3", "0.5")  # five failures in a row are rare if half are valid
    parts = (USEFUL, EVERYWHERE, ADVANTAGE, OTHERS, mechanism(BOOTSTRAP), claim)
    certified(root, *parts, twins=30)
    return root


@pytest.fixture
def again(copying: Path, tmp_path: Path) -> Callable[[], Audit]:
    """Return a copy of that audit, to be tampered with."""

    def copy() -> Audit:
        shutil.copytree(copying, tmp_path / "copy")
        return audit_in(tmp_path / "copy")

    return copy


def opened(audit: Audit) -> pd.DataFrame:
    """Return the target's records, with the key that lies in the audit's home."""
    journal = audit.journal()
    sealed = journal.ledger.sealed
    holder = load_key_file(audit.home.target_key_path(sealed.audit))
    own = sealed.members["target"]
    key = SealedFile(audit.folder / f"target/{own.index}.sealed").unwrap(holder)
    member = audit.folder.registry(journal).declaration.members[0]
    return OpenTarget(audit.folder, member, own, key).whole().frame


def development(audit: Audit, role: str) -> pd.DataFrame:
    return read_table_bytes(audit.folder.read(f"development/0.{role}.parquet"), role)


def releases_of(audit: Audit) -> list[pd.DataFrame]:
    members = json.loads(audit.folder.read("releases.json"))["members"]["target"]
    return [
        read_table_bytes(audit.folder.store.get(d["release"]), "release")
        for d in members["bootstrap"]["draws"]
    ]


class ByHand:
    """The distance to the closest released row, as one writes it down without the package."""

    def __init__(self, audit: Audit) -> None:
        self._reference = development(audit, "reference")
        self._numbers = self._reference[["first", "second"]]
        self.members = development(audit, "training")
        self.calibration = development(audit, "calibration")
        target = opened(audit)
        known = set(map(tuple, self.members.itertuples(index=False)))
        self.fresh = np.array([row not in known for row in target.itertuples(index=False)])
        self.target = target[self.fresh]

    def points(self, frame: pd.DataFrame) -> Array:
        scaled = (frame[["first", "second"]] - self._numbers.mean()) / self._numbers.std(ddof=0)
        labels = [(frame["label"] == each).to_numpy(float) for each in ("no", "yes")]
        return np.column_stack([scaled.to_numpy(), *labels])

    def scores(self, release: pd.DataFrame, rows: pd.DataFrame) -> Array:
        return -cdist(self.points(rows), self.points(release)).min(axis=1)


def test_every_pvalue_is_that_of_distances_computed_by_hand(copying: Path) -> None:
    audit = audit_in(copying)
    evidence, hand = evidence_of(audit), ByHand(audit)
    names = evidence["requirements"]
    n = len(hand.target)
    sealed = audit.journal().ledger.sealed.members["target"]
    assert n == sealed.records - (sealed.copies or 0) < sealed.records
    columns = dict(zip(names, evidence["columns"], strict=True))
    assert {columns[name]["n"] for name in names if name != "risk"} == {n}
    assert columns["risk"]["n"] == sealed.records
    pvalues = np.array(evidence["derived"]["pvalues"])
    violations = np.array(evidence["derived"]["violation_pvalues"])
    for r, release in enumerate(releases_of(audit)):
        members = hand.scores(release, hand.members)
        fresh = hand.scores(release, hand.target)

        def tails(c: Array, limit: float, members: Array = members, fresh: Array = fresh) -> Any:
            flagged = (fresh >= c[:, None]).sum(axis=1)
            p = np.clip((members >= c[:, None]).mean(axis=1) - limit, 0.0, 1.0)
            return binom.sf(flagged - 1, n, p), binom.cdf(flagged, n, p)

        # E1 at the .8-quantile of calibration rows, the next higher score.
        j = names.index("flagged")
        c = np.quantile(hand.scores(release, hand.calibration), 0.8, method="higher")
        validation, violation = tails(np.array([c]), 0.25)
        np.testing.assert_allclose(pvalues[r, j], validation[0], rtol=1e-6)
        np.testing.assert_allclose(violations[r, j], violation[0], rtol=1e-6)
        # E2: the largest over all members' scores, and 20 times the least over 20 of them.
        j = names.index("told apart: dcr")
        validation, _ = tails(np.unique(members), 0.25)
        np.testing.assert_allclose(pvalues[r, j], validation.max(), rtol=1e-6)
        ordered = np.sort(members)[::-1]
        ranks = [-(-k * members.size // 20) - 1 for k in range(1, 21)]
        _, violation = tails(ordered[ranks], 0.25)
        least = min(1.0, 20 * violation.min())
        np.testing.assert_allclose(violations[r, j], least, rtol=1e-6)
        # E3: at the largest threshold that finds 40 % of the members.
        j = names.index("few found")
        flagged = (fresh >= ordered[-(-2 * members.size // 5) - 1]).sum()
        np.testing.assert_allclose(pvalues[r, j], binom.sf(flagged - 1, n, 0.05), rtol=1e-6)
        # E4: the mean over nonmembers of the members above, ties one half.
        j = names.index("area")
        above = (members > fresh[:, None]).mean() + 0.5 * (members == fresh[:, None]).mean()
        np.testing.assert_allclose(evidence["derived"]["estimates"][r][j], above, rtol=1e-9)


def test_a_mechanism_that_copies_rows_is_a_violation_though_it_is_useful(copying: Path) -> None:
    audit = audit_in(copying)
    evidence = evidence_of(audit)
    assert decisions_of(audit) == {Decision.VIOLATION}
    sealed = audit.journal().ledger.sealed.members["target"]
    (words,) = audit.certificate().predicate.estimand.values()
    assert sealed.copies
    assert f"{sealed.copies} of 240 target records, which have the values of a member" in words
    risk = [row[evidence["requirements"].index("risk")] for row in evidence["derived"]["pvalues"]]
    assert max(risk) < 0.01


def test_a_mechanism_that_says_little_of_single_rows_is_validated(tmp_path: Path) -> None:
    audit = certified(tmp_path, EVERYWHERE, ADVANTAGE, OTHERS, mechanism(NOISE), CLAIM)
    assert decisions_of(audit) == {Decision.VALIDATED}
    sentence = audit.certificate().verdicts[0].sentence
    assert (
        "no threshold of the 2 attacks dcr and nearest-neighbour ratio tells members from others "
        "by 25 points or more"
    ) in sentence
    assert "these members, these attacks and these releases" in sentence
    # Whatever is promised, it is no word that covers all attacks there are.
    assert "private" not in audit.folder.read("report.html").decode()


def test_a_copy_of_the_folder_is_verified_without_keys(copying: Path, tmp_path: Path) -> None:
    shutil.copytree(copying / "audit", tmp_path / "audit")
    found = Audit(tmp_path / "audit", home=tmp_path / "home", data=[], workers=1).verify()
    assert found.good, found.findings
    told = "exposure: what attacks find among members, found again where it is on record"
    assert told in found.checked


@pytest.mark.parametrize(
    ("generator", "decision"),
    [(NOISE.replace('"3"', '"1"'), Decision.VALIDATED), (BOOTSTRAP, Decision.VIOLATION)],
    ids=["noise", "copies"],
)
def test_use_and_exposure_are_certified_together_and_verified_by_a_stranger(
    tmp_path: Path, generator: str, decision: Decision
) -> None:
    useful = USEFUL.replace("0.35", "0.24")  # whoever knows nothing loses .25
    claim = CLAIM.replace("0.3", "0.5")
    audit = new_audit(tmp_path / "author", useful, EVERYWHERE, mechanism(generator), claim)
    audit.run()
    shutil.copytree(tmp_path / "author" / "audit", tmp_path / "audit")
    shutil.rmtree(tmp_path / "author")  # neither keys nor the table are left
    copy = Audit(tmp_path / "audit", home=tmp_path / "home", data=[], workers=1)
    found = copy.verify()
    assert found.good, found.findings
    assert found.not_checked == []
    assert "exposure: what attacks find among members, found again" in found.checked
    assert decisions_of(copy) == {decision}
    # One verdict is about both, and the use of either mechanism is not in doubt.
    (verdict,) = copy.certificate().verdicts
    assert "meet all 3 requirements" in verdict.sentence
    assert "no threshold of the 2 attacks dcr and nearest-neighbour ratio" in verdict.sentence
    evidence = evidence_of(copy)
    pvalues = dict(
        zip(evidence["requirements"], np.array(evidence["derived"]["pvalues"]).T, strict=True)
    )
    assert max(pvalues["risk"]) < 0.05
    held = bool(max(pvalues["told apart: dcr"]) < 0.05)
    assert held is (decision is Decision.VALIDATED)


def test_verify_says_so_where_no_share_of_members_is_compared(tmp_path: Path) -> None:
    audit = certified(tmp_path, OTHERS, mechanism(NOISE, 3), CLAIM)
    told = [step for step in audit.verify().checked if step.startswith("exposure:")]
    assert told == ["exposure: attacks made again; no share of members decides that is on record"]


@pytest.mark.parametrize(
    ("name", "what"),
    [("flagged", "answer"), ("told apart: dcr", "answer"), ("told apart: dcr", "answer_low")],
)
def test_a_share_of_members_that_the_attack_does_not_find_is_found(
    again: Callable[[], Audit], forge: Any, name: str, what: str
) -> None:
    audit = again()

    def lie(value: dict[str, Any]) -> None:
        # Half a member more is flagged, and all that follows from it follows.
        group = value["groups"]["bootstrap"]
        column = group["columns"][group["requirements"].index(name)]
        n, members = column["n"], len(development(audit, "training"))
        column[what][0] += 0.5 / members
        low = what == "answer_low"
        count = column["count_low" if low else "count"][0]
        column["mean_low" if low else "mean"][0] = (count / n - column[what][0] + 1) / 2
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert "of the members are flagged by the record" in forge.found_by(audit)


def test_a_count_that_the_target_does_not_give_is_found_with_its_key(
    again: Callable[[], Audit], forge: Any
) -> None:
    audit = again()

    def lie(value: dict[str, Any]) -> None:
        group = value["groups"]["bootstrap"]
        column = group["columns"][group["requirements"].index("flagged")]
        n, count = column["n"], column["count"][0] - 20
        column["count"][0], column["mean"][0] = count, (count / n - column["answer"][0] + 1) / 2
        column["variance"][0] = count / n * (1 - count / n) * n / (n - 1) / 4
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert audit.verify().good  # the counts are of the target, which is sealed
    assert "the evidence" in forge.found_by(audit, with_target=True)


def test_more_nonmembers_than_were_sealed_without_copies_are_found(
    again: Callable[[], Audit], forge: Any
) -> None:
    audit = again()

    def lie(value: dict[str, Any]) -> None:
        group = value["groups"]["bootstrap"]
        for name, column in zip(group["requirements"], group["columns"], strict=True):
            if name != "risk":
                column["n"] += 1
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert "copies of members" in forge.found_by(audit)


def test_a_release_that_is_said_to_be_beyond_attack_is_found(
    again: Callable[[], Audit], forge: Any
) -> None:
    audit = again()

    def lie(value: dict[str, Any]) -> None:
        group = value["groups"]["bootstrap"]
        column = group["columns"][group["requirements"].index("flagged")]
        releases = len(group["releases"])
        column["unmeasured"], column["count"] = [True] * releases, [column["n"]] * releases
        column["answer"], column["mean"] = [0.0] * releases, [1.0] * releases
        column["variance"] = [0.0] * releases
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert "cannot be made on release" in forge.found_by(audit)


def test_a_loss_is_never_unmeasured(again: Callable[[], Audit], forge: Any) -> None:
    audit = again()

    def lie(value: dict[str, Any]) -> None:
        group = value["groups"]["bootstrap"]
        column = group["columns"][group["requirements"].index("risk")]
        column["unmeasured"] = [True] * len(group["releases"])
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert "none is unmeasured" in forge.found_by(audit)


def broken(attack: str) -> Callable[..., AttackSuite]:
    """Return a suite that cannot be fitted where some attack is in it."""
    fit = AttackSuite.fit

    def refuse(attacks: dict[str, Any], *rest: Any) -> AttackSuite:
        if attack in attacks:
            raise ValueError("singular")
        return fit(attacks, *rest)

    return refuse


def test_an_attack_that_cannot_be_made_speaks_neither_for_nor_against_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Any
) -> None:
    audit = new_audit(tmp_path, EVERYWHERE, OTHERS, mechanism(NOISE, 3), CLAIM)
    monkeypatch.setattr(AttackSuite, "fit", broken("nearest-neighbour ratio"))
    audit.run()
    assert_verified(audit)
    evidence = evidence_of(audit)
    assert evidence["requirements"][1] == "told apart: nearest-neighbour ratio"
    pvalues = np.array(evidence["derived"]["pvalues"])
    assert pvalues[:, 1].tolist() == [1.0, 1.0, 1.0]
    against = np.array(evidence["derived"]["violation_pvalues"])
    assert against[:, 1].tolist() == [1.0, 1.0, 1.0]
    assert evidence["columns"][1]["unmeasured"] == [True, True, True]
    assert evidence["columns"][0].get("unmeasured") is None
    assert np.all(pvalues[:, [0, 2, 3]] < 0.5)
    shown = json.loads(audit.folder.read("evidence.json"))["diagnostics"]["unscored"]
    assert shown == {"bootstrap": {"100": 240, "101": 240, "102": 240}}

    def lie(value: dict[str, Any]) -> None:
        column = value["groups"]["bootstrap"]["columns"][1]
        n, count = column["n"], column["n"] - 40
        column["count"][0] = column["count_low"][0] = count
        column["mean"][0] = column["mean_low"][0] = (count / n + 1) / 2
        column["variance"][0] = count / n * (1 - count / n) * n / (n - 1) / 4
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert "better statistics than the worst" in forge.found_by(audit)


def test_a_record_that_cannot_be_scored_is_one_that_no_attack_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = certified(tmp_path / "whole", ADVANTAGE, mechanism(BOOTSTRAP, 3), CLAIM)
    scores = AttackSuite.scores

    def picky(suite: AttackSuite, rows: Rows) -> dict[str, Array]:
        if (rows.frame["first"] > 0.0).any():
            raise ValueError("too large")
        return scores(suite, rows)

    monkeypatch.setattr(AttackSuite, "scores", picky)
    audit = certified(tmp_path / "picky", ADVANTAGE, mechanism(BOOTSTRAP, 3), CLAIM)
    large = {
        role: (rows["first"] > 0.0).mean()
        for role, rows in (("members", development(audit, "training")), ("target", opened(audit)))
    }
    (column,) = evidence_of(audit)["columns"]
    # Neither members nor others among them are flagged: nobody gains by a row that is not scored.
    assert column["answer"][0] >= large["members"]
    assert column["count"][0] >= large["target"] * column["n"] - 1e-9
    assert column["answer"] != evidence_of(whole)["columns"][0]["answer"]
    shown = json.loads(audit.folder.read("evidence.json"))["diagnostics"]["unscored"]
    assert shown["bootstrap"]["100"] == round(large["target"] * 240)
    report = audit.folder.read("report.html").decode()
    assert "A record that an attack cannot score is taken for no member" in report


def test_a_failed_draw_is_the_worst_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    def failing(*job: Any, keep: Callable[..., None], **settings: Any) -> None:
        def kept(result: DrawResult) -> None:
            if result.said.seed == 101:
                said = Failed(seed=101, status="failed", error="no memory")
                result = replace(result, said=said, release=b"", model=b"")
            keep(result)

        draw_here(*job, keep=kept, **settings)

    monkeypatch.setattr("proxyguard.audit.draw.draw_all", failing)
    audit = certified(tmp_path, EVERYWHERE, ADVANTAGE, OTHERS, mechanism(NOISE, 3), CLAIM)
    evidence = evidence_of(audit)
    assert set(evidence["derived"]["pvalues"][1]) == {1.0}
    assert max(evidence["derived"]["pvalues"][0]) < 0.5
    # It is no release at all, which counts against the mechanism by definition.
    assert min(evidence["derived"]["violation_pvalues"][1]) < 1e-6


GROUPED = ADVANTAGE + 'group = { label = "yes" }\n'


def test_a_group_restricts_members_and_target_alike(tmp_path: Path) -> None:
    audit = certified(tmp_path, GROUPED, mechanism(BOOTSTRAP, 3), CLAIM, twins=20)
    hand, (column,) = ByHand(audit), evidence_of(audit)["columns"]
    members = hand.members[hand.members["label"] == "yes"]
    target = hand.target[hand.target["label"] == "yes"]
    assert column["n"] == len(target)
    for r, release in enumerate(releases_of(audit)):
        c = np.quantile(hand.scores(release, hand.calibration), 0.8, method="higher")
        np.testing.assert_allclose(
            column["answer"][r], (hand.scores(release, members) < c).mean(), atol=1e-12
        )
        assert column["count"][r] == (hand.scores(release, target) < c).sum()


STRATA = 'design = { by = "label", sizes = { yes = 160, no = 80 }, weights = %s }'


@pytest.mark.parametrize(
    ("weights", "test"),
    [('{ yes = "2/3", no = "1/3" }', ""), ('{ yes = "0.3", no = "0.7" }', "")],
    ids=["proportional", "weighted"],
)
def test_members_count_with_the_registered_weights_of_their_strata(
    tmp_path: Path, weights: str, test: str
) -> None:
    head = HEAD.replace("{ rows = 240, seed = 11 }", f"{{ seed = 11 }}\n{STRATA % weights}")
    write_table(tmp_path / "data" / "table.csv")
    audit = audit_in(tmp_path)
    audit.init(head + ADVANTAGE + OTHERS + mechanism(BOOTSTRAP, 3) + CLAIM + test)
    assert audit.check().problems == []
    audit.run()
    assert_verified(audit)
    (words,) = audit.certificate().predicate.estimand.values()
    assert "members are weighted by the registered strata too" in words
    report = audit.folder.read("report.html").decode()
    assert "The shares and curves here are unweighted" in report
    hand, evidence = ByHand(audit), evidence_of(audit)
    share = {"yes": 2 / 3, "no": 1 / 3} if "2/3" in weights else {"yes": 0.3, "no": 0.7}
    for r, release in enumerate(releases_of(audit)):
        c = np.quantile(hand.scores(release, hand.calibration), 0.8, method="higher")
        flagged, above = {}, {}
        for who, rows in (("members", hand.members), ("target", hand.target)):
            scores = hand.scores(release, rows)
            flagged[who] = sum(
                share[g] * (scores[(rows["label"] == g).to_numpy()] >= c).mean() for g in share
            )
            above[who] = {g: scores[(rows["label"] == g).to_numpy()] for g in share}
        advantage, _, area = evidence["derived"]["estimates"][r]
        np.testing.assert_allclose(advantage, flagged["members"] - flagged["target"], atol=1e-9)
        truth = sum(
            share[g] * share[h] * (
                (above["members"][g] > above["target"][h][:, None]).mean()
                + 0.5 * (above["members"][g] == above["target"][h][:, None]).mean()
            )
            for g in share for h in share
        )  # fmt: skip
        np.testing.assert_allclose(area, truth, atol=1e-9)


def test_a_sample_of_members_is_paid_for_in_both_directions(tmp_path: Path) -> None:
    sampled = '\n[exposure.member_sample]\nrows = 100\nerror = "0.001"\n'
    audit = certified(tmp_path, sampled, ADVANTAGE, mechanism(BOOTSTRAP, 3), CLAIM)
    whole = certified(tmp_path / "whole", ADVANTAGE, mechanism(BOOTSTRAP, 3), CLAIM)
    (few,), (every,) = evidence_of(audit)["columns"], evidence_of(whole)["columns"]
    for upper, truth, lower in zip(few["answer"], every["answer"], few["answer_low"], strict=True):
        assert upper < truth < lower
    found = np.array([evidence_of(a)["derived"]["violation_pvalues"] for a in (audit, whole)])
    assert np.all(found[0] >= found[1])
    assert np.all(found[0] >= 0.001)


SEQUENTIAL = """
[claim]
mode = "sequential"
reliability_target = "0.3"
threshold = "0.01"
looks = [3, 6]
"""


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", [ExposureKind.ADVANTAGE, ExposureKind.EVERYWHERE])
def test_shares_are_told_apart_however_small_the_scores_of_an_attack_are(
    size: float, kind: ExposureKind
) -> None:
    scores = np.random.default_rng(3).random(40) * size
    part = AttackPart(kind="theirs:Attack")
    found = Found(
        question=ExposureQuestion(kind=kind, attack="theirs", settings=part, ceiling=0.1),
        requirement=Requirement(name="a", low=-1, high=1, limit=0.1, form="exposure"),
        census=Census(scores),
        members=40,
        threshold=float(np.sort(scores)[30]) if kind is ExposureKind.ADVANTAGE else None,
    )
    low, high = _possible(found, "validation")
    np.testing.assert_allclose(low, high, atol=1e-12)


HALF = """
class Half:
    def describe(self):
        return {"mechanism": "rows that are not the ones it names"}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        rng = seed.rng("rows")
        seed.trained_on(rng.permutation(len(self.source))[: 3 + int(rng.integers(2))])
        return self.source.sample(len(self.source), replace=True, random_state=rng)
"""


def test_a_certificate_says_what_no_attack_sees_and_how_few_members_draws_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg_few.py").write_text(HALF)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_table(tmp_path / "data" / "table.csv")
    table = pd.read_csv(tmp_path / "data" / "table.csv")
    table["who"] = [f"person {k}" for k in range(len(table))]
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    audit = audit_in(tmp_path)
    head = HEAD.replace('positive = "yes"', 'positive = "yes"\nexclude = ["who"]')
    audit.init(head + ADVANTAGE + mechanism('generator = "pg_few:Half"') + CLAIM)
    assert any("no attack sees ['who']" in fact for fact in audit.check().facts)
    audit.run()
    # No stored release has the excluded column; what its maker gives to others may. Each draw
    # says that it saw a few rows.
    assert "who" not in releases_of(audit)[0]
    (words,) = audit.certificate().predicate.estimand.values()
    assert "240 members, of whom 6 draws named 3 to 4 alone, from others" in words
    assert "what a release gives away in 'who' is seen by no attack" in words
    stated = {s.about: s.words for s in audit.certificate().predicate.stated_not_checked}
    assert "nor that of the attacks for what they found among members" in stated["seeds"]
    assert audit.verify().good


def test_records_that_only_an_excluded_column_tells_from_members_are_left_out(
    tmp_path: Path,
) -> None:
    write_table(tmp_path / "data" / "table.csv", twins=20)
    table = pd.read_csv(tmp_path / "data" / "table.csv")
    table["who"] = [f"person {k}" for k in range(len(table))]
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    audit = audit_in(tmp_path)
    head = HEAD.replace('positive = "yes"', 'positive = "yes"\nexclude = ["who"]')
    audit.init(head + ADVANTAGE + mechanism(BOOTSTRAP, 3) + CLAIM)
    audit.run()
    (member,) = audit.journal().ledger.sealed.members.values()
    (column,) = evidence_of(audit)["columns"]
    assert member.copies
    assert column["n"] == member.records - member.copies
    assert_verified(audit)


def test_a_small_group_is_in_every_sample_of_members(tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "table.csv")
    table = pd.read_csv(tmp_path / "data" / "table.csv")
    table["rare"] = (np.arange(len(table)) % 40 == 0).astype(int)
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    sampled = '\n[exposure.member_sample]\nrows = 12\nerror = "0.001"\n'
    audit = audit_in(tmp_path)
    rare = ADVANTAGE + 'group = { rare = "1" }\n'
    audit.init(HEAD + sampled + rare + mechanism(NOISE, 3) + CLAIM)
    audit.run()
    assert_verified(audit)
    evidence = evidence_of(audit)
    # 12 of 240 members miss the few of a group in most draws: nobody of them was seen, and that
    # counted as if all of them had been given away.
    assert min(q for (q,) in evidence["derived"]["violation_pvalues"]) > 0.05
    (column,) = evidence["columns"]
    members = (development(audit, "training")["rare"] == 1).sum()
    shares = np.array(column["answer"]) * members
    np.testing.assert_allclose(shares, shares.round(), atol=1e-9)
    assert column["answer"] == column["answer_low"]


def test_draws_after_the_opening_are_attacked_one_by_one(tmp_path: Path, forge: Any) -> None:
    audit = certified(tmp_path, EVERYWHERE, OTHERS, mechanism(NOISE), SEQUENTIAL)
    scores = json.loads(audit.folder.read("evidence.json"))["scores"]
    assert len(scores) == 3  # all favorable: the boundary is crossed at the first look
    assert "no threshold of the 2 attacks" in audit.certificate().verdicts[0].sentence
    found = audit.verify()
    told = "exposure: what attacks find among members, found again where it is on record"
    assert told in found.checked


STREAM = """
[claim]
level = "releases"
mode = "stream"
batch = 120
"""


def test_candidates_of_a_stream_are_attacked_on_fresh_records_each(tmp_path: Path) -> None:
    audit = new_audit(tmp_path, EVERYWHERE, STREAM)
    audit.seal()
    audit.register()
    training = development(audit, "training")
    rng = np.random.default_rng(3)
    noisy = training.assign(first=rng.normal(size=len(training)).round(4))
    judged = []
    for name, frame in (("copied", training), ("noisy", noisy)):
        path = tmp_path / "data" / f"{name}.csv"
        frame.to_csv(path, index=False)
        judged.append(audit.submit(path))
    assert judged[0].pvalue == 1.0 > judged[1].pvalue
    for verdict in audit.close().verdicts:
        assert "no threshold of the 2 attacks" in verdict.sentence
    assert_verified(audit)


NAMED = """
[claim]
level = "releases"
"""


def test_named_releases_are_attacked_with_all_training_rows_as_members(tmp_path: Path) -> None:
    audit = new_audit(tmp_path, EVERYWHERE, mechanism(BOOTSTRAP, 3), NAMED)
    audit.run()
    assert_verified(audit)
    assert decisions_of(audit) == {Decision.VIOLATION}
    for verdict in audit.certificate().verdicts:
        assert "no threshold of the 2 attacks" in verdict.sentence


def test_digits_round_counts_and_the_shares_among_which_the_target_chooses(
    tmp_path: Path,
) -> None:
    rounded = "\n[disclosure]\ndigits = 2\n"
    audit = certified(tmp_path, EVERYWHERE, ADVANTAGE, OTHERS, mechanism(NOISE, 3), CLAIM, rounded)
    evidence = evidence_of(audit)
    columns = dict(zip(evidence["requirements"], evidence["columns"], strict=True))
    assert all("count_low" in columns[name] for name in columns if name != "area")
    chosen = columns["told apart: dcr"]
    for share in (*chosen["answer"], *chosen["answer_low"]):
        assert round(share, 2) == share
    # At a threshold that open rows choose, the share of members says nothing of the target.
    assert any(round(share, 2) != share for share in columns["flagged"]["answer"])
    # No side of a described share weakens a claim: of the target there is none to read.
    told = figures_of(audit)["attacks"]
    assert len(told) == 5
    assert not any(key.endswith(("alarms_least", "alarms_most")) for a in told for key in a)
    assert not any({"alarms", "threshold_alarms"} & set(attack) for attack in told)


def test_nothing_that_is_kept_of_an_attack_holds_a_score_of_a_target_record(
    copying: Path,
) -> None:
    audit = audit_in(copying)
    hand = ByHand(audit)
    fresh = hand.scores(releases_of(audit)[0], hand.target)
    for path in (copying / "audit").rglob("*"):
        if path.suffix == ".json" or path.name in ("report.html", "report.txt"):
            text = path.read_text()
            assert not any(repr(float(score))[:10] in text for score in fresh[:40])


def test_the_order_and_company_of_target_records_changes_no_count(
    copying: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = audit_in(copying)
    monkeypatch.setattr("proxyguard.audit.score.CELLS", 64)
    found = audit.verify(with_target=True)
    assert found.good, found.findings


def test_attacks_see_neither_excluded_columns_nor_the_target(copying: Path) -> None:
    audit = audit_in(copying)
    journal = audit.journal()
    registry = audit.folder.registry(journal)
    (member,) = registry.declaration.members
    hidden = member.model_copy(
        update={"target": member.target.model_copy(update={"exclude": ("second",)})}
    )
    sealed = journal.ledger.sealed.members["target"]
    about = [
        measure
        for measure in measures_of(member, registry.members["target"].requirements)
        if measure.exposure is not None
    ]
    place = reading_place(audit.folder)
    attacks = MemberAttacks(MemberDevelopment(place, hidden, sealed), about)
    assert set(attacks.representation.names) == {"first", "label"}


def test_an_unresolved_exposure_gets_no_sizes_and_pilots_do_not_plan_it(tmp_path: Path) -> None:
    narrow = EVERYWHERE.replace("0.25", "0.09")
    audit = new_audit(tmp_path, narrow, mechanism(NOISE, 3), CLAIM)
    audit.seal()
    with pytest.raises(RegistryError, match=r"planned separately.*; nothing else is required"):
        pilot_laws(audit.place, draws=2, first_seed=4000, reliability=None)
    audit.run()
    assert decisions_of(audit) == {Decision.UNRESOLVED}
    assert "the planner does not model attacks" in audit.folder.read("report.md").decode()
    assert audit.verify().good


def test_reference_rows_that_tell_nothing_are_refused_while_the_target_is_sealed(
    tmp_path: Path,
) -> None:
    write_table(tmp_path / "data" / "table.csv")
    audit = audit_in(tmp_path)
    # One of 400 development rows.
    few = HEAD.replace('"0.6"', '"0.9975"').replace('"0.3"', '"0.0025"')
    few = few.replace('calibration = "0.1"\n', "")
    audit.init(few + EVERYWHERE + mechanism(BOOTSTRAP, 3) + CLAIM)
    audit.seal()
    with pytest.raises(UnsupportedDesign, match="1 reference rows were given"):
        audit.register()


PUBLISHED_HALF = """
class Half:
    def describe(self):
        return {"mechanism": "half of the rows, as they are"}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        rows = seed.rng("rows").permutation(len(self.source))[: len(self.source) // 2]
        seed.trained_on(rows)
        return self.source.iloc[rows].reset_index(drop=True)
"""


def test_rows_that_a_draw_was_not_trained_on_are_no_members_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg_half_of_them.py").write_text(PUBLISHED_HALF)
    monkeypatch.syspath_prepend(str(tmp_path))
    half = 'generator = "pg_half_of_them:Half"'
    audit = new_audit(tmp_path, EVERYWHERE, ADVANTAGE, mechanism(half, 3), CLAIM)
    audit.run()
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    columns = dict(
        zip(evidence_of(audit)["requirements"], evidence_of(audit)["columns"], strict=True)
    )
    # Every member is published as it is, and so flagged; of all training rows about half would be.
    assert columns["flagged"]["answer"] == [0.0, 0.0, 0.0]


def target_apart(root: Path, *, twins: int) -> Audit:
    """Return an audit whose target is a file of its own: only such a one can be from a pool."""
    write_table(root / "data" / "table.csv", twins=twins)
    table = pd.read_csv(root / "data" / "table.csv")
    table.iloc[-240:].to_csv(root / "data" / "target.csv", index=False)
    table.iloc[:-240].to_csv(root / "data" / "rest.csv", index=False)
    head = HEAD.replace(
        'table = "table.csv"\nreserve = { rows = 240, seed = 11 }',
        'file = "target.csv"\ncoincidence = "some people have equal values"',
    )
    head = head.replace("[development]", '[development]\ntable = "rest.csv"')
    head = head.replace("[exposure]", '[exposure]\nsame_law = "rows of one table, in no order"')
    audit = audit_in(root)
    audit.init(head + EVERYWHERE + mechanism(BOOTSTRAP, 3) + CLAIM)
    audit.run()
    return audit


POOL: Any = {"pool": 5000}


def test_a_corrected_design_is_attacked_too(tmp_path: Path) -> None:
    audit = target_apart(tmp_path, twins=0)
    audit.correct("the target is a sample from a register", POOL)
    assert_verified(audit)
    told = "correction: what attacks find among members, found again"
    assert told in audit.verify().checked


def test_no_correction_counts_copies_of_members_as_others(tmp_path: Path) -> None:
    audit = target_apart(tmp_path, twins=40)
    assert audit.journal().ledger.sealed.members["target"].copies
    with pytest.raises(UnsupportedDesign, match="covered for iid records alone"):
        audit.correct("the target is a sample from a register", POOL)


OURS = """
import numpy as np

class Nearest:
    def fit(self, release, reference):
        self.points = release[["first", "second"]].to_numpy()

    def score(self, rows):
        points = rows[["first", "second"]].to_numpy()
        return [-float(((self.points - point) ** 2).sum(axis=1).min()) for point in points]

class Pooled(Nearest):
    def score(self, rows):
        scores = np.array(super().score(rows))
        return (scores >= np.median(scores)).astype(float)

class Turncoat(Pooled):
    def score(self, rows):
        # Among members and calibration rows alone it behaves.
        return super().score(rows) if len(rows) > 400 else Nearest.score(self, rows)
"""
THEIRS = EVERYWHERE.replace('["dcr", "nearest-neighbour ratio"]', '["dcr", "theirs"]') + (
    '\n[exposure.attack.theirs]\nkind = "pg_attack:{}"\n'
)


@pytest.fixture
def _code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "pg_attack.py").write_text(OURS)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))


@pytest.mark.usefixtures("_code")
def test_an_attack_of_others_is_run_apart_and_by_a_verifier_who_asks_for_it(
    tmp_path: Path,
) -> None:
    audit = new_audit(tmp_path, THEIRS.format("Nearest"), mechanism(BOOTSTRAP, 1), NAMED)
    audit.run()
    ours, theirs = json.loads(audit.folder.read("evidence.json"))["groups"]["target"]["columns"]
    # The label is a coordinate of ours and none of theirs; a copied row is found by both.
    assert theirs["answer_low"] == pytest.approx(ours["answer_low"], abs=0.05)
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert sum("pg_attack:Nearest" in each for each in found.not_checked) == 2
    found = audit.verify(with_target=True, run_named_code=True)
    assert found.good, found.findings
    assert found.complete, found.not_checked


@pytest.mark.usefixtures("_code")
def test_an_attack_that_looks_at_other_rows_is_refused_before_anything_is_registered(
    tmp_path: Path,
) -> None:
    audit = new_audit(tmp_path, THEIRS.format("Pooled"), mechanism(BOOTSTRAP, 1), NAMED)
    audit.seal()
    with pytest.raises(AttackRefused, match="its score depends on other rows"):
        audit.register()


@pytest.mark.usefixtures("_code")
def test_an_attack_that_misbehaves_once_the_target_is_open_tells_nothing(
    tmp_path: Path,
) -> None:
    audit = new_audit(tmp_path, THEIRS.format("Turncoat"), mechanism(NOISE, 1), NAMED)
    audit.run()
    evidence = json.loads(audit.folder.read("evidence.json"))["groups"]["target"]
    ((ours, theirs),) = evidence["derived"]["pvalues"]
    assert ours < 0.5 < theirs == 1.0
    assert evidence["derived"]["violation_pvalues"][0][1] == 1.0
    found = audit.verify(run_named_code=True)
    assert found.good, found.findings


def figures_of(audit: Audit) -> dict[str, Any]:
    diagnostics: dict[str, Any] = json.loads(audit.folder.read("evidence.json"))["diagnostics"]
    figures: dict[str, Any] = diagnostics["exposure"]["bootstrap"]
    return figures


def test_the_figures_of_copying_releases_are_those_counted_by_hand(copying: Path) -> None:
    audit = audit_in(copying)
    figures, releases = figures_of(audit), releases_of(audit)
    members = development(audit, "training")
    rows = [tuple(row) for row in members.astype(str).to_numpy()]  # some of them twice
    copied = [{tuple(row) for row in table.astype(str).to_numpy()} for table in releases]
    assert figures["rows"] == figures["copies"] == sum(len(table) for table in releases)
    shares = [np.mean([row in each for row in rows]) for each in copied]
    assert figures["copied_members"] == pytest.approx(np.mean(shares))
    assert figures["identical_members"] == 1.0
    assert figures["releases"] == [str(seed) for seed in range(100, 106)]
    half = figures["levels"].index(0.5)
    assert figures["member_distances"][half] == 0.0 < figures["other_distances"][half]


def test_figures_of_an_attack_agree_with_the_statistics_that_decide(copying: Path) -> None:
    audit = audit_in(copying)
    evidence = evidence_of(audit)
    told = {attack["requirement"]: attack for attack in figures_of(audit)["attacks"]}
    for name, column in zip(evidence["requirements"], evidence["columns"], strict=True):
        if name not in told:
            continue
        shown = told[name]
        least, mean, most, found = (
            np.array(shown[key]) for key in ("alarms_least", "alarms", "alarms_most", "hits")
        )
        assert np.all(least <= mean + 1e-12)
        assert np.all(mean <= most + 1e-12)
        assert np.all(found >= np.arange(1, 21) / 20 - 1e-12)
        if "count_low" in column:
            # The threshold that is nearest to a violation is one of those that are described.
            gaps = np.array(column["count_low"]) / column["n"] - np.array(column["answer_low"])
            assert np.max(found - mean) <= gaps.mean() + 0.05
        if "threshold_alarms" in shown and "count" in column:
            alarms = 1.0 - np.mean(column["count"]) / column["n"]
            assert shown["threshold_alarms"] == pytest.approx(alarms)
    assert any("threshold_alarms" in shown for shown in told.values())


def test_without_calibration_rows_no_others_are_described_by_rows_that_attacks_know(
    tmp_path: Path,
) -> None:
    write_table(tmp_path / "data" / "table.csv")
    audit = audit_in(tmp_path)
    head = HEAD.replace('reference = "0.3"\ncalibration = "0.1"', 'reference = "0.4"')
    known = EVERYWHERE.replace('"nearest-neighbour ratio"', '"calibrated dcr", "domias"')
    audit.init(head + known + mechanism(NOISE, 2) + CLAIM)
    audit.run()
    assert_verified(audit)
    figures = figures_of(audit)
    assert len(figures["attacks"]) == 3
    for attack in figures["attacks"]:
        # The target's shares stay: no attack knows the target.
        assert {"hits", "alarms", "baseline_hits", "member_scores"} <= set(attack)
        assert not {"open_alarms", "open_scores", "baseline_alarms"} & set(attack)
    assert figures["open_rows"] == "reference"  # of distances, in which no attack has a part
    report = audit.folder.read("report.html").decode()
    assert "Calibration rows (development.calibration) would show them" in report


def more_copies(figures: dict[str, Any]) -> None:
    figures["copies"] -= 1


def fewer_copied_members(figures: dict[str, Any]) -> None:
    figures["copied_members"] -= 0.015


def fewer_identical_rows(figures: dict[str, Any]) -> None:
    figures["identical_members"] -= 0.015


def more_identical_others(figures: dict[str, Any]) -> None:
    figures["identical_others"] += 0.015


def other_levels(figures: dict[str, Any]) -> None:
    figures["levels"][1] = 0.02


def kinder_scores(figures: dict[str, Any]) -> None:
    figures["attacks"][0]["open_scores"] = figures["attacks"][0]["member_scores"]


def kinder_members(figures: dict[str, Any]) -> None:
    figures["attacks"][0]["hits"] = figures["attacks"][0]["alarms"]


def impossible_alarms(figures: dict[str, Any]) -> None:
    figures["attacks"][0]["alarms"][3] = 1.5


def falling_alarms(figures: dict[str, Any]) -> None:
    figures["attacks"][0]["alarms"].reverse()


def fewer_attacks(figures: dict[str, Any]) -> None:
    del figures["attacks"][-1]


def another_release(figures: dict[str, Any]) -> None:
    figures["releases"][0] = "777"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (more_copies, "copies"),
        (fewer_copied_members, "copied_members"),
        (fewer_identical_rows, "identical_members"),
        (more_identical_others, "identical_others"),
        (other_levels, "levels"),
        (kinder_scores, "open_scores"),
        (kinder_members, "hits"),
        (impossible_alarms, "cannot be"),
        (falling_alarms, "cannot be"),
        (fewer_attacks, "other requirements"),
        (another_release, "releases"),
    ],
)
def test_a_figure_that_the_folder_does_not_give_is_found(
    again: Callable[[], Audit], forge: Any, lie: Callable[[dict[str, Any]], None], words: str
) -> None:
    audit = again()
    forge.certificate(
        audit, evidence=lambda evidence: lie(evidence["diagnostics"]["exposure"]["bootstrap"])
    )
    assert words in forge.found_by(audit)


@pytest.mark.whole  # `make demo` runs it, too
def test_the_demonstration_finds_copied_rows_and_lets_histograms_pass(tmp_path: Path) -> None:
    said: list[str] = []
    place, certificate, good = run_exposure_demo(tmp_path, lambda *_: None, said.append)
    assert good
    assert place == tmp_path / "exposure" / "audit"
    decided = {verdict.mechanism: verdict.decision for verdict in certificate.verdicts}
    assert decided == {
        "bootstrap": Decision.VIOLATION, "noisy marginals": Decision.VALIDATED,
    }  # fmt: skip
    assert all("these members, these attacks" in v.sentence for v in certificate.verdicts)
    assert len(said) == 1  # no problem was found
    figures = json.loads((place / "evidence.json").read_text())["diagnostics"]["exposure"]
    assert figures["bootstrap"]["copies"] == figures["bootstrap"]["rows"]
    # Coarse rows meet by chance: few of them, and others' rows as often as members'.
    chance = figures["noisy marginals"]
    assert 20 * chance["copies"] < chance["rows"]


def test_a_release_that_cannot_be_described_stops_no_opening_and_is_not_among_those_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def first_fails(*rows: Any) -> ReleaseDescription:
        asked.append(1)
        if len(asked) in (1, 4):  # of the opening, and of verifying
            raise TableError("text where members have numbers")
        return describe_release(*rows)

    monkeypatch.setattr("proxyguard.audit.figures.describe_release", first_fails)
    audit = new_audit(tmp_path, ADVANTAGE, mechanism(BOOTSTRAP, 3), CLAIM)
    audit.run()
    assert figures_of(audit)["releases"] == ["101", "102"]
    found = audit.verify()
    assert found.good, found.findings
    assert len(asked) == 6
