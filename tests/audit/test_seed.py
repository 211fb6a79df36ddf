"""The seed of an opening: of the registry, the frozen releases and what the seal kept secret."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import DECLARATION, EVIDENCE
from proxyguard.audit.home import software_versions
from proxyguard.audit.seal import Keeper, seal
from proxyguard.audit.target import OpeningSeed, round_seed

pytestmark = pytest.mark.usefixtures("module_draws_here")

At = Callable[[str], Audit]


def evidence(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.folder.read(EVIDENCE))
    return found


def opened_copy(audit: Audit, root: Path, *, old: str = "", new: str = "") -> dict[str, Any]:
    """Open a copy of a sealed audit, as it is declared or otherwise; return its evidence."""
    shutil.copytree(audit.folder.path.parent, root)
    copy = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    if old:
        place = copy.folder / DECLARATION
        text = place.read_text()
        assert old in text
        place.write_text(text.replace(old, new))
    copy.run()
    assert copy.verify(with_target=True).good
    return evidence(copy)


def test_one_sealed_target_gives_two_claims_two_seeds(at: At, tmp_path: Path) -> None:
    sealed = at("sealed")
    first = opened_copy(sealed, tmp_path / "first")
    again = opened_copy(sealed, tmp_path / "again")
    claim = opened_copy(sealed, tmp_path / "claim", old='limit = "0.10"', new='limit = "0.11"')
    draws = opened_copy(sealed, tmp_path / "draws", old="first = 100", new="first = 300")
    assert len({json.dumps(one["nonces"]) for one in (first, again, claim, draws)}) == 1
    assert first["seed"] == again["seed"]
    assert len({first["seed"], claim["seed"], draws["seed"]}) == 3


def test_other_frozen_releases_give_another_seed(at: At, forge: Any) -> None:
    audit = at("certified")
    journal, nonces = audit.journal(), evidence(audit)["nonces"]
    assert str(OpeningSeed.of(journal, nonces).value) == evidence(audit)["seed"]
    seeds = {evidence(audit)["seed"]}
    for key in ("registry", "releases"):
        before = forge.steps(audit)
        forge.rewrite(audit, opened=lambda body, key=key: body.update({key: "f" * 64}))
        seeds.add(str(OpeningSeed.of(audit.journal(), nonces).value))
        forge.write_chain(audit, before, forge.author(audit))
    # Of several targets, every nonce counts: nobody knows the seed who has not opened them all.
    for second in ("00" * 32, "11" * 32):
        seeds.add(str(OpeningSeed.of(journal, {**nonces, "second": second}).value))
    assert len(seeds) == 5


def test_the_nonce_is_committed_to_by_the_seal_and_revealed_with_the_evidence_only(at: At) -> None:
    before, after = at("drawn"), evidence(at("certified"))
    nonce = after["nonces"]["target"]
    sealed = before.journal().ledger.sealed.members["target"]
    assert sealed.nonce_digest == hashlib.sha256(bytes.fromhex(nonce)).hexdigest()
    for path in before.folder.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert nonce.encode() not in content
            assert bytes.fromhex(nonce) not in content


def other_seed(value: dict[str, Any]) -> None:
    value["seed"] = str(int(value["seed"]) + 1)


def other_nonce(value: dict[str, Any]) -> None:
    value["nonces"]["target"] = "00" * 32


@pytest.mark.parametrize(
    ("lie", "problem"),
    [
        (other_seed, "registry, releases and nonces give"),
        (other_nonce, "not those that were sealed"),
    ],
)
def test_a_seed_that_was_chosen_is_found_without_the_target(
    at: At, forge: Any, lie: Callable[[dict[str, Any]], None], problem: str
) -> None:
    audit = at("certified")
    forge.certificate(audit, evidence=lie)
    assert problem in forge.found_by(audit)


def test_a_correction_has_the_seed_of_the_opening(apart: At) -> None:
    audit = apart("certified")
    corrected = audit.correct("a pool of 700", {"pool": 700}).to_dict()["evidence"]
    assert corrected["registry"] != evidence(audit)["registry"]
    assert (corrected["seed"], corrected["nonces"]) == (
        evidence(audit)["seed"],
        evidence(audit)["nonces"],
    )


def test_every_round_of_a_stream_has_the_seed_of_its_committed_candidate() -> None:
    seeds = {round_seed(seed, release) for seed in (1, 2) for release in ("a" * 64, "b" * 64)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**48 for seed in seeds)


def sealed_by(stages: Path, root: Path, trial: int | None) -> Audit:
    """Return a copy of the small audit that was sealed with an order of this origin."""
    shutil.copytree(stages / "new", root)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    seal(audit.folder, audit.home, audit.place.data, Keeper(), software_versions(), trial)
    return audit


def test_only_a_trial_has_an_order_of_a_seed_and_its_certificate_has_no_guarantee(
    stages: Path, tmp_path: Path
) -> None:
    seeds = {"one": 5, "again": 5, "other": 6, "audit": None, "audit 2": None}
    made = {k: sealed_by(stages, tmp_path / k, seed) for k, seed in seeds.items()}
    # Salt, nonce and the records in their order, in one digest.
    commitments = {
        name: audit.journal().ledger.sealed.members["target"].commitment
        for name, audit in made.items()
    }
    assert commitments["one"] == commitments["again"]
    assert len(set(commitments.values())) == 4
    certificates = {name: made[name].run() for name in ("one", "audit")}
    told = {name: c.to_dict()["claim_status"] for name, c in certificates.items() if c is not None}
    assert told["audit"]["guarantee"] == "yes"
    why = "a trial and no audit: order and uniforms follow from the seed 5, which its author chose"
    assert told["one"]["guarantee"] == f"no: {why}"
    assert "which its author chose" in made["one"].verify().lost
    assert not made["audit"].verify().lost
