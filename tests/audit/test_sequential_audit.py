"""Draws that follow the opening: each committed before its score, resumed, and decided anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.audit.audit import Audit
from proxyguard.audit.home import load_key_file
from proxyguard.audit.score import Scorer
from proxyguard.audit.sequential import StreamRounds
from proxyguard.audit.target import Batch, Chunk, OpeningSeed, OpenTarget
from proxyguard.documents.canonical import digest
from proxyguard.documents.ledger import read_body
from proxyguard.draw.catalog import EXTRAS, TORCH
from proxyguard.errors import DrawError, RegistryError, SealError, StageError
from proxyguard.models.stored import load_model
from proxyguard.seal.journal import NAME, writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.sealed_file import SealedFile

Array = NDArray[np.float64]

DECLARATION = """\
format = 1
name = "one after the other"
purpose = "Do draws after opening keep their order?"

[target]
table = "table.csv"
reserve = { rows = 200, seed = 11 }
outcome = "label"
positive = "yes"

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "{limit}"
"""
MECHANISM = """
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 6
seeds = { first = 100 }
"""
# Three favorable scores cross at the first look, five at the second (reliability 30 %).
SEQUENTIAL = """
[claim]
mode = "sequential"
reliability_target = "0.3"
threshold = "0.01"
looks = [3, 6]
"""
STREAM = """
[claim]
level = "releases"
mode = "stream"
batch = 60
"""


@pytest.fixture(autouse=True)
def _draws_here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    monkeypatch.setattr("proxyguard.audit.sequential.draw_all", draw_here)


def table(rows: int = 400, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    signal = x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows)
    label = np.where(signal > 0, "yes", "no")
    return pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label})


def put(frame: pd.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)
    return path


def registered(root: Path, *parts: str, limit: str = "0.30") -> Audit:
    put(table(), root / "data" / "table.csv")
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(DECLARATION.replace("{limit}", limit) + "".join(parts))
    assert audit.check().problems == []
    audit.seal()
    audit.register()
    return audit


def assert_verified(audit: Audit) -> None:
    found = audit.verify()
    assert found.good, found.findings
    assert found.unknown == []


def reported(audit: Audit, title: str) -> list[list[str]]:
    """Return the rows of one table of the report."""
    tables = json.loads((audit.folder / "report.json").read_bytes())["tables"]
    (found,) = [one["rows"] for one in tables if one["title"] == title]
    return list(found)


def stages(audit: Audit) -> list[str]:
    return [entry.stage.value for entry in audit.journal().ledger.entries]


def whole_target(audit: Audit) -> tuple[Chunk, OpenTarget]:
    journal = audit.journal()
    sealed = journal.ledger.sealed
    member = audit.folder.registry(journal).declaration.members[0]
    holder = load_key_file(audit.home.target_key_path(sealed.audit))
    key = SealedFile(audit.folder / "target/0.sealed").unwrap(holder)
    target = OpenTarget(audit.folder, member, sealed.members["target"], key)
    return target.whole(), target


def seed_of(audit: Audit, target: OpenTarget) -> int:
    return OpeningSeed.of(audit.journal(), {"target": target.nonce}).value


def losses_by_hand(audit: Audit, chunk: Chunk) -> Array:
    """Return the Brier losses, (draws, records), of every committed draw."""
    x = chunk.frame[["first", "second"]].to_numpy(dtype=np.float64)
    y = (chunk.frame["label"] == "yes").to_numpy(dtype=np.float64)
    rows = []
    for entry in audit.journal().ledger.find(Stage.DRAWN):
        content = audit.folder.store.get(entry.body.to_dict()["record"]["model"])
        rows.append((load_model(content, "a model").predict_proba(x)[:, 1] - y) ** 2)
    return np.stack(rows)


def rewrite(audit: Audit, change: Callable[[Stage, dict[str, Any]], Mapping[str, Any]]) -> None:
    """Write the ledger anew with changed entries, signed by the audit's own author."""
    entries = audit.journal().ledger.entries
    key = audit.home.signing_key()
    (audit.folder / NAME).unlink()
    with writing(audit.folder.path) as journal:
        for entry in entries:
            body = change(entry.stage, entry.body.to_dict())
            journal.record(read_body(entry.stage, body, "changed"), key)


class Interruption(Exception):
    """Stands for a kill."""


def interrupt_scoring(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let the process end, once, where the given score would have been computed."""
    real, calls = Scorer.score, [0]

    def score(self: Scorer, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise Interruption
        return real(self, *arguments)

    monkeypatch.setattr(Scorer, "score", score)


def test_it_stops_at_the_first_look_that_validates(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    certificate = audit.open().to_dict()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    assert verdict["decision"] == "validated"
    assert (verdict["draws"], verdict["favorable"]) == (3, 3)
    assert stages(audit) == [
        "sealed", "developed", "registered", "opened", *["drawn", "scored"] * 3, "certified",
    ]  # fmt: skip
    assert_verified(audit)
    assert certificate["redraws"] == {"bootstrap": ["rows of the release", "logistic fit"]}
    assert certificate["claim_status"]["guarantee"] == "yes"
    path = reported(audit, "The sequential path")
    assert [row[:2] for row in path] == [
        ["look at 3 draws", "3"], ["look at 6 draws", "not reached"], ["ended after 3 draws", "3"],
    ]  # fmt: skip
    assert reported(audit, "Error budget")[-1][-1] == "0.05"


def test_every_draw_is_committed_before_its_score(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    ledger = audit.journal().ledger
    drawn, scored = ledger.find(Stage.DRAWN), ledger.find(Stage.SCORED)
    assert [e.body.to_dict()["record"]["seed"] for e in drawn] == [100, 101, 102]
    for draw, score in zip(drawn, scored, strict=True):
        assert score.index == draw.index + 1
        assert (
            score.body.to_dict()["release"]
            == draw.body.to_dict()["release"]
            == digest(draw.body.to_dict()["record"])
        )
        assert not {"favorable", "statistics"} & set(draw.body.to_dict())


def test_scores_are_those_of_the_public_sequential_audit(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL, limit="0.17")
    certificate = audit.open().to_dict()
    assert certificate is not None
    chunk, target = whole_target(audit)
    losses = losses_by_hand(audit, chunk)
    risk = pg.Requirement(name="risk", low=0, high=1, limit=0.17)
    plan = pg.SequentialPlan(looks=(3, 6), reliability_target=0.3, kappa=0.01)
    score = pg.FavorableScore([risk], threshold="0.01", seed=seed_of(audit, target))
    by_hand = pg.SequentialAudit(plan, score)
    favorable = []
    for row in losses:
        favorable.append(bool(score(pg.LossArray(row[None, :, None], chunk.records))[0]))
        by_hand.add(favorable[-1])
    entries = audit.journal().ledger.find(Stage.SCORED)
    assert [e.body.to_dict()["favorable"] for e in entries] == favorable
    for entry, row in zip(entries, losses, strict=True):
        ((estimate,),) = entry.body.to_dict()["statistics"]["derived"]["estimates"]
        assert estimate == pytest.approx(row.mean(), abs=1e-12)
    (verdict,) = certificate["verdicts"]
    assert by_hand.finished
    for key in ("decision", "sentence", "reliability_lower", "draws", "favorable", "rests_on"):
        assert verdict[key] == by_hand.to_dict()[key]


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    assert audit.open(most=1) is None
    assert stages(audit)[-2:] == ["drawn", "scored"]
    assert_verified(audit)
    assert audit.open(most=1) is None
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["verdicts"][0]["draws"] == 3
    before = (audit.folder / NAME).read_bytes()
    assert audit.open().to_dict() == certificate  # again: the same, and nothing is added
    assert (audit.folder / NAME).read_bytes() == before
    assert_verified(audit)


def test_a_draw_that_was_committed_before_the_end_is_scored_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    interrupt_scoring(monkeypatch, at=2)
    with pytest.raises(Interruption):
        audit.open()
    assert stages(audit)[-3:] == ["drawn", "scored", "drawn"]
    waiting = audit.journal().ledger.entries[-1].digest
    assert_verified(audit)
    audit.open()
    assert_verified(audit)
    ledger = audit.journal().ledger
    assert stages(audit)[4:] == ["drawn", "scored"] * 3 + ["certified"]
    assert ledger.entries[6].digest == waiting
    assert [e.body.to_dict()["record"]["seed"] for e in ledger.find(Stage.DRAWN)] == [100, 101, 102]


def test_it_stops_when_no_look_can_cross_any_more(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL, limit="0.05")
    certificate = audit.open().to_dict()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    # After two unfavorable scores four more cannot make the five that the last look needs.
    assert (verdict["decision"], verdict["draws"], verdict["favorable"]) == ("unresolved", 2, 0)
    assert_verified(audit)
    (advice,) = json.loads((audit.folder / "report.json").read_bytes())["advice"]
    assert "0 of 2 releases have all estimates below their limits" in advice["sentence"]


def test_without_futility_every_registered_draw_is_made(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL, "futility = false\n", limit="0.05")
    certificate = audit.open().to_dict()
    assert certificate is not None
    (verdict,) = certificate["verdicts"]
    assert (verdict["decision"], verdict["draws"], verdict["favorable"]) == ("unresolved", 6, 0)
    assert_verified(audit)


def test_a_score_that_was_flipped_is_found_even_where_its_author_signed_it(
    tmp_path: Path,
) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL, limit="0.05")
    audit.open()
    rewrite(audit, lambda _, body: body)
    assert_verified(audit)  # rewriting alone changes nothing
    rewrite(
        audit,
        lambda stage, body: {**body, "favorable": True} if stage is Stage.SCORED else body,
    )
    found = audit.verify()
    assert ("evidence.json", "score 1 does not follow from its statistics") in [
        (finding.place, finding.problem) for finding in found.findings
    ]


def test_an_edited_score_breaks_its_signature(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    place = audit.folder / NAME
    content = place.read_bytes()
    assert b'"favorable":true' in content
    place.write_bytes(content.replace(b'"favorable":true', b'"favorable":false', 1))
    (finding,) = audit.verify().findings
    assert finding.place == NAME
    assert "does not carry a valid signature" in finding.problem


def test_seeds_out_of_their_order_are_found(tmp_path: Path, forge: Any) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    chain = forge.steps(audit)
    (_, drawn), (_, scored) = chain[4:6]
    drawn["record"]["seed"] = 105  # the last seed is said to have been drawn first
    drawn["release"] = scored["release"] = digest(drawn["record"])
    forge.write_chain(audit, chain, forge.author(audit))
    forge.certificate(audit, evidence=lambda e: e["scores"][0].update(release=drawn["release"]))
    assert "the draws do not have the registered seeds in their order" in forge.found_by(audit)


def test_a_committed_release_that_leaves_its_content_out_is_found(
    tmp_path: Path, forge: Any
) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    chain = forge.steps(audit)
    (_, drawn), (_, scored) = chain[4:6]
    del drawn["record"]["content"]
    drawn["release"] = scored["release"] = digest(drawn["record"])
    forge.write_chain(audit, chain, forge.author(audit))
    assert "(drawn): record.content: is missing" in forge.found_by(audit)


def test_a_committed_draw_of_a_network_that_says_not_how_it_was_computed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    assert_verified(audit)
    # As if its records were of a network, which says it of every draw.
    monkeypatch.setitem(EXTRAS, "bootstrap", TORCH)
    problems = [finding.problem for finding in audit.verify().findings]
    assert any("has no device and no processor and no torch" in words for words in problems)


def test_a_sequential_audit_has_no_draw_of_its_own(tmp_path: Path) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    with pytest.raises(StageError, match="draws after its target is opened; run open"):
        audit.draw()
    with pytest.raises(RegistryError, match=r'an audit with claim\.mode = "stream"'):
        audit.submit(tmp_path / "data" / "table.csv")


def test_a_draw_that_is_a_copy_of_an_earlier_one_stops_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg_repeating.py").write_text(
        "def resample(source, rng):\n"
        "    return source.sample(60, replace=True, random_state=int(rng.integers(2)))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    function = 'generator = "callable"\noptions = { function = "pg_repeating:resample" }'
    audit = registered(tmp_path, MECHANISM.replace('generator = "bootstrap"', function), SEQUENTIAL)
    with pytest.raises(DrawError, match=r"bootstrap/10\d is the same release as bootstrap/10\d"):
        audit.open()
    assert stages(audit)[4:] in (["drawn", "scored"], ["drawn", "scored"] * 2)


def test_files_that_are_copies_are_named_before_the_target_is_opened(tmp_path: Path) -> None:
    for i in range(6):
        put(table(150, seed=i), tmp_path / "data" / "drawn" / f"{i}.csv")
    files = MECHANISM.replace(
        'generator = "bootstrap"',
        'generator = "files"\noptions = { folder = "drawn", first = 100 }',
    )
    audit = registered(tmp_path, files, SEQUENTIAL)
    put(table(150, seed=1), tmp_path / "data" / "drawn" / "2.csv")
    audit.amend("a better file")
    with pytest.raises(DrawError, match=r"drawn/1\.csv \(seed 101\) and drawn/2\.csv"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def candidates(folder: Path) -> list[Path]:
    """Write two good candidates and one whose labels are noise."""
    noise = table(150, seed=22)
    noise["label"] = np.random.default_rng(0).permutation(noise["label"].to_numpy())
    return [
        put(table(150, seed=21), folder / "good.csv"),
        put(noise, folder / "noise.csv"),
        put(table(150, seed=23), folder / "also good.csv"),
        put(table(150, seed=24), folder / "late.csv"),
    ]


def test_a_stream_judges_each_candidate_on_records_of_its_own(tmp_path: Path) -> None:
    audit = registered(tmp_path, STREAM, limit="0.28")
    rounds = [audit.submit(path).to_dict() for path in candidates(tmp_path / "candidates")[:3]]
    assert [r["round"] for r in rounds] == [1, 2, 3]
    levels = [6 * 0.05 / (pi * t) ** 2 for t in (1, 2, 3)]
    np.testing.assert_allclose([float(r["level"]) for r in rounds], levels, rtol=1e-11)
    assert all(float(r["level"]) <= level for r, level in zip(rounds, levels, strict=True))
    assert [r["decision"] for r in rounds] == [
        "validated" if r["pvalue"] <= level else "unresolved"
        for r, level in zip(rounds, levels, strict=True)
    ]
    assert rounds[0]["decision"] == "validated"
    assert rounds[1]["decision"] == "unresolved"
    chunk, target = whole_target(audit)
    losses = losses_by_hand(audit, chunk)
    risk = pg.Requirement(name="risk", low=0, high=1, limit=0.28)
    stream = pg.CandidateStream([risk], seed=seed_of(audit, target))
    for t, entry in enumerate(audit.journal().ledger.find(Stage.SCORED)):
        batch = slice(60 * t, 60 * (t + 1))  # records 0 to 59 of the sealed order, then 60 to 119
        ((estimate,),) = entry.body.to_dict()["statistics"]["derived"]["estimates"]
        assert estimate == pytest.approx(losses[t, batch].mean(), abs=1e-12)
        assert [column["n"] for column in entry.body.to_dict()["statistics"]["columns"]] == [60]
        by_hand = stream.submit(
            losses[t, batch, None],
            pg.Records(ids=chunk.positions[batch], random_order=True),
        )
        assert by_hand.pvalue == pytest.approx(rounds[t]["pvalue"], rel=1e-9)
        assert by_hand.decision.value == rounds[t]["decision"]
    certificate = audit.close().to_dict()
    assert [v["decision"] for v in certificate["verdicts"]] == [r["decision"] for r in rounds]
    assert [v["mechanism"] for v in certificate["verdicts"]] == [r["candidate"] for r in rounds]
    assert stages(audit)[3:] == ["opened", *["drawn", "scored"] * 3, "certified"]
    assert_verified(audit)
    path = reported(audit, "The sequential path")
    assert [row[0] for row in path] == ["round 1", "round 2", "round 3"]
    assert len((audit.folder / "report.csv").read_text().splitlines()) == 1 + 3
    assert audit.close().to_dict() == certificate
    before = (audit.folder / NAME).read_bytes()
    with pytest.raises((SealError, pg.LossMismatch)):
        audit.submit(tmp_path / "candidates" / "late.csv")
    assert (audit.folder / NAME).read_bytes() == before


def test_a_round_counts_its_records_by_their_weights(tmp_path: Path) -> None:
    weights = np.random.default_rng(5).choice([1.0, 4.0], size=400)
    design = (
        'positive = "yes"\ndesign = { weight = "persons", max_weight = "4", origin = "design" }'
    )
    text = DECLARATION.replace('positive = "yes"', design)
    put(table().assign(persons=weights), tmp_path / "data" / "table.csv")
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    audit.init(text.replace("{limit}", "0.28") + STREAM)
    assert audit.check().problems == []
    audit.seal()
    audit.register()
    for path in candidates(tmp_path / "candidates")[:2]:  # tables without weights
        audit.submit(path)
    chunk, _ = whole_target(audit)
    losses = losses_by_hand(audit, chunk)
    persons = chunk.frame["persons"].to_numpy(dtype=np.float64)
    for t, entry in enumerate(audit.journal().ledger.find(Stage.SCORED)):
        batch = slice(60 * t, 60 * (t + 1))
        ((estimate,),) = entry.body.to_dict()["statistics"]["derived"]["estimates"]
        by_hand = np.average(losses[t, batch], weights=persons[batch])
        assert estimate == pytest.approx(by_hand, abs=1e-12)
    audit.close()
    assert_verified(audit)


def test_a_round_that_is_judged_on_records_of_an_earlier_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Any
) -> None:
    audit = registered(tmp_path, STREAM, limit="0.28")
    for path in candidates(tmp_path / "candidates")[:3]:
        audit.submit(path)
    # 200 records are three rounds of 60: the fourth takes the first ones again.
    monkeypatch.setattr(StreamRounds, "records", lambda rule, target, count: Batch(target, 60, 0))
    audit.submit(candidates(tmp_path / "candidates")[3])
    audit.close()
    assert "4 rounds of 60 fresh records take 240, and 200 were sealed" in forge.found_by(audit)


def test_a_stream_can_be_closed_early_and_not_before_anything_was_judged(tmp_path: Path) -> None:
    audit = registered(tmp_path, STREAM)
    with pytest.raises(StageError, match="no candidate was judged yet"):
        audit.close()
    with pytest.raises(StageError, match="takes candidates one by one"):
        audit.open()
    audit.submit(candidates(tmp_path / "candidates")[0])
    assert_verified(audit)
    assert len(audit.close().to_dict()["verdicts"]) == 1
    assert_verified(audit)


def test_a_flipped_verdict_of_a_stream_is_found(tmp_path: Path) -> None:
    audit = registered(tmp_path, STREAM, limit="0.24")
    for path in candidates(tmp_path / "candidates")[:2]:
        audit.submit(path)
    audit.close()
    rewrite(
        audit,
        lambda stage, body: {**body, "decision": "validated"} if stage is Stage.SCORED else body,
    )
    problems = [finding.problem for finding in audit.verify().findings]
    assert any("does not follow from its statistics" in problem for problem in problems)


def test_a_score_that_speaks_of_another_candidate_is_found(tmp_path: Path, forge: Any) -> None:
    audit = registered(tmp_path, STREAM, limit="0.28")
    audit.submit(put(table(200, seed=5), tmp_path / "candidates" / "candidate.csv"))
    audit.close()
    forge.rewrite(
        audit, scored=lambda body: body["statistics"].update(releases=["famous vendor.csv/1"])
    )
    with audit.folder.path.joinpath(NAME).open() as lines:
        scored = [json.loads(line)["entry"]["body"] for line in lines if '"scored"' in line]
    forge.certificate(
        audit, evidence=lambda e: e["scores"][0].update(statistics=scored[0]["statistics"])
    )
    assert "not ['candidate.csv/1']" in forge.found_by(audit)


def test_a_committed_release_under_another_name_is_found(tmp_path: Path, forge: Any) -> None:
    audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
    audit.open()
    chain = forge.steps(audit)
    (_, drawn), (_, scored) = chain[4:6]
    drawn["record"]["name"] = "a certified generator/100"
    drawn["release"] = scored["release"] = digest(drawn["record"])
    forge.write_chain(audit, chain, forge.author(audit))
    forge.certificate(audit, evidence=lambda e: e["scores"][0].update(release=drawn["release"]))
    assert "is named 'a certified generator/100'" in forge.found_by(audit)


def test_the_candidate_that_was_committed_before_the_end_is_judged_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = registered(tmp_path, STREAM)
    first, second, *_ = candidates(tmp_path / "candidates")
    interrupt_scoring(monkeypatch, at=1)
    with pytest.raises(Interruption):
        audit.submit(first)
    assert stages(audit)[-1] == "drawn"
    assert audit.submit(second).to_dict()["candidate"] == "noise.csv/2"
    assert stages(audit)[3:] == ["opened", *["drawn", "scored"] * 2]
    certificate = audit.close().to_dict()
    assert [v["mechanism"] for v in certificate["verdicts"]] == ["good.csv/1", "noise.csv/2"]
    assert_verified(audit)


def test_a_candidate_cannot_be_submitted_again(tmp_path: Path) -> None:
    audit = registered(tmp_path, STREAM)
    first, *_ = candidates(tmp_path / "candidates")
    audit.submit(first)
    copy = put(pd.read_csv(first).iloc[::-1], tmp_path / "candidates" / "copy.csv")
    with pytest.raises(DrawError, match=r"is the same release as good\.csv/1"):
        audit.submit(copy)
    assert stages(audit)[3:] == ["opened", "drawn", "scored"]


def test_a_stream_without_fresh_records_is_over(tmp_path: Path) -> None:
    audit = registered(tmp_path, STREAM.replace("60", "90"))
    paths = candidates(tmp_path / "candidates")
    for path in paths[:2]:
        audit.submit(path)
    with pytest.raises(
        pg.LossMismatch, match="round 3 needs 90 fresh records, and 200 were sealed"
    ):
        audit.submit(paths[2])
    assert stages(audit)[3:] == ["opened", *["drawn", "scored"] * 2]  # it was not committed
    assert len(audit.close().to_dict()["verdicts"]) == 2
    assert_verified(audit)


def test_a_round_that_was_interrupted_is_judged_when_the_stream_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = registered(tmp_path, STREAM)
    first, second, *_ = candidates(tmp_path / "candidates")
    audit.submit(first)
    interrupt_scoring(monkeypatch, at=1)
    with pytest.raises(Interruption):
        audit.submit(second)
    certificate = audit.close().to_dict()
    assert [v["mechanism"] for v in certificate["verdicts"]] == ["good.csv/1", "noise.csv/2"]
    assert_verified(audit)


@pytest.mark.parametrize("mode", ["sequential", "stream"])
def test_what_was_scored_after_opening_is_scored_again_with_the_key(
    tmp_path: Path, mode: str
) -> None:
    if mode == "sequential":
        audit = registered(tmp_path, MECHANISM, SEQUENTIAL)
        audit.open()
    else:
        audit = registered(tmp_path, STREAM)
        for path in candidates(tmp_path / "candidates")[:2]:
            audit.submit(path)
        audit.close()
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert "losses: computed again from the target" in found.checked


def test_a_plan_that_cannot_validate_is_refused_before_it_is_registered(tmp_path: Path) -> None:
    put(table(), tmp_path / "data" / "table.csv")
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    hopeless = SEQUENTIAL.replace('"0.3"', '"0.99"')
    audit.init(DECLARATION.replace("{limit}", "0.30") + MECHANISM + hopeless)
    assert any("register more draws" in problem for problem in audit.check().problems)
    audit.seal()
    with pytest.raises(pg.UnsupportedDesign, match=r"can show a reliability above 0\.99"):
        audit.register()
    assert stages(audit) == ["sealed"]
