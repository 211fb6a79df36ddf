"""A claimed epsilon: coins decide who is trained on, guesses refute it, and nothing confirms it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import beta, binom

from proxyguard.adapters.privacy import PrivacyStatement, privacy_lines
from proxyguard.audit.attacks import best_guesses
from proxyguard.audit.audit import Audit
from proxyguard.draw.messages import DrawResult, Failed
from proxyguard.draw.protocol import coin_bits, members_in
from proxyguard.errors import RegistryError, StageError
from proxyguard.registry.declaration import read_declaration
from proxyguard.tables.files import read_table_bytes

MODULE = '''
"""Generators that coins put rows into, or not."""

import numpy as np
import pandas as pd


def ignore(source, rng):
    """A table that has nothing of the source."""
    label = np.where(rng.random(300) < 0.5, "yes", "no")
    return pd.DataFrame({"first": rng.normal(size=300), "second": rng.normal(size=300),
                         "label": label})


def whole(source, rng):
    """All rows that came, in another order."""
    return source.sample(frac=1.0, random_state=rng)
'''
DRAWS, GUESSES = 4, 100
TEXT = f"""
format = 1
name = "coins"
purpose = "Is an epsilon that somebody claims of this mechanism refuted?"

[target]
table = "table.csv"
reserve = {{ rows = 200, seed = 11 }}
outcome = "label"
positive = "yes"

[development]
members = "0.7"
reference = "0.3"
split_seed = 7

[exposure]
seed = 911
epsilon = {{ claimed = "1.0", delta = "0", attack = "dcr", guesses = {GUESSES}, alpha = "0.05" }}

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.35"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
inclusion = "coins"
draws = {DRAWS}
seeds = {{ first = 100 }}

[claim]
reliability_target = "0.3"
"""
IGNORES = 'generator = "callable"\noptions = { function = "pg_coins:ignore" }'
TWO = """
[[exposure.epsilon]]
claimed = "1.0"
mechanism = "bootstrap"
attack = "dcr"
guesses = 100

[[exposure.epsilon]]
claimed = "9.0"
delta = "0.00001"
mechanism = "bootstrap"
attack = "nearest-neighbour ratio"
guesses = 40
"""


def audit_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def new_audit(root: Path, text: str = TEXT) -> Audit:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 2)).round(4)
    label = np.where(x[:, 0] + 0.7 * rng.normal(size=600) > 0, "yes", "no")
    (root / "data").mkdir(parents=True)
    frame = pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label})
    frame.to_csv(root / "data" / "table.csv", index=False)
    audit = audit_in(root)
    audit.init(text)
    return audit


def certified(root: Path, text: str = TEXT) -> Audit:
    audit = new_audit(root, text)
    found = audit.check()
    assert found.problems == []
    audit.run()
    for with_target in (False, True):
        verified = audit.verify(with_target=with_target)
        assert verified.good, verified.findings
    return audit


def recorded(audit: Audit) -> list[dict[str, Any]]:
    found = audit.certificate().predicate.to_dict()["epsilon"]
    assert isinstance(found, list)
    return found


def draws_of(audit: Audit) -> list[dict[str, Any]]:
    members = json.loads(audit.folder.read("releases.json"))["members"]["target"]
    found: list[dict[str, Any]] = members["bootstrap"]["draws"]
    return found


def training(audit: Audit) -> pd.DataFrame:
    return read_table_bytes(audit.folder.read("development/0.training.parquet"), "training")


@pytest.fixture(scope="module", autouse=True)
def _draws_here(module_draws_here: None) -> None:
    """Draw in this process: starting others is not what is tested."""


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copying")
    certified(root)
    return root


@pytest.fixture
def again(copying: Path, tmp_path: Path) -> Callable[[], Audit]:
    """Return a copy of that audit, to be tampered with."""

    def copy() -> Audit:
        shutil.copytree(copying, tmp_path / "copy")
        return audit_in(tmp_path / "copy")

    return copy


def test_a_coin_of_its_own_puts_each_row_into_each_draw_and_releases_have_no_other(
    copying: Path,
) -> None:
    audit = audit_in(copying)
    rows = training(audit)
    masks = []
    for draw in draws_of(audit):
        mask = members_in(audit.folder.store.get(draw["members"]), len(rows))
        np.testing.assert_array_equal(
            mask, members_in(coin_bits(draw["seed"], len(rows)), len(rows))
        )
        release = read_table_bytes(audit.folder.store.get(draw["release"]), "release")
        included = set(map(tuple, rows[mask].itertuples(index=False)))
        assert set(map(tuple, release.itertuples(index=False))) <= included
        assert len(release) == mask.sum()
        assert "which rows are trained on" in draw["stages"]
        assert not draw["prepared_at_random"]
        masks.append(mask)
    assert len({mask.tobytes() for mask in masks}) == DRAWS


def test_coins_are_fair_and_independent_between_rows_and_draws() -> None:
    n = 400
    tossed = np.array([members_in(coin_bits(seed, n), n) for seed in range(2000)], dtype=float)
    # Every count within five standard deviations; the number of rows in a draw varies as it must.
    assert np.all(np.abs(tossed.mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(2000))
    assert abs(tossed.sum(axis=1).var() / (n / 4) - 1) < 5 * np.sqrt(2 / 2000)
    neighbours = np.corrcoef(tossed[:-1].ravel(), tossed[1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(tossed.size)
    # Not the stream that a generator or an attack gets from the same seed.
    for seed in range(20):
        same = np.mean(tossed[seed] == (np.random.default_rng(seed).random(n) < 0.5))
        assert abs(same - 0.5) < 5 * 0.5 / np.sqrt(n)


def test_a_bootstrap_is_refuted_with_the_numbers_that_one_finds_by_hand(copying: Path) -> None:
    audit = audit_in(copying)
    (record,) = recorded(audit)
    rows = training(audit)
    reference = read_table_bytes(audit.folder.read("development/0.reference.parquet"), "r")
    numbers = reference[["first", "second"]]

    def points(frame: pd.DataFrame) -> Any:
        scaled = (frame[["first", "second"]] - numbers.mean()) / numbers.std(ddof=0)
        labels = [(frame["label"] == each).to_numpy(float) for each in ("no", "yes")]
        return np.column_stack([scaled.to_numpy(), *labels])

    most = least = 0
    for draw in draws_of(audit):
        release = read_table_bytes(audit.folder.store.get(draw["release"]), "release")
        scores = -cdist(points(rows), points(release)).min(axis=1)
        mask = members_in(coin_bits(draw["seed"], len(rows)), len(rows))
        order = np.argsort(scores)
        out, tied = order[: GUESSES // 2], np.flatnonzero(scores > -1e-9)
        # Released rows are all at distance nothing, and all were in.
        assert mask[tied].all()
        assert tied.size >= GUESSES // 2
        most += GUESSES // 2 + int(np.sum(~mask[out]))
        least += GUESSES // 2
    assert record["right"] == most > least
    guesses = DRAWS * GUESSES
    assert (record["guesses"], record["coins"]) == (guesses, DRAWS * len(rows))
    e = np.exp(1.0)
    np.testing.assert_allclose(
        record["pvalue"], binom.sf(most - 1, guesses, e / (1 + e)), rtol=1e-6
    )
    rate = beta.ppf(0.05, most, guesses - most + 1)
    np.testing.assert_allclose(record["lower"], np.log(rate / (1 - rate)), rtol=1e-6)
    assert record["refuted"]
    assert record["sentence"].startswith("Refuted, at error level 0.05: that bootstrap has epsilon")


def test_the_report_says_it_and_calls_nothing_private(copying: Path) -> None:
    audit = audit_in(copying)
    (record,) = recorded(audit)
    page = audit.folder.read("report.md").decode()
    assert record["sentence"] in page
    assert "Claimed epsilons" in page
    assert "is private" not in page


def test_a_release_that_ignores_its_rows_is_not_refuted_and_that_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pg_coins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    audit = new_audit(tmp_path, TEXT.replace('generator = "bootstrap"', IGNORES))
    audit.run()
    (record,) = recorded(audit)
    assert not record["refuted"]
    assert abs(record["right"] / record["guesses"] - 0.5) < 0.15
    assert "This proves nothing" in record["sentence"]


def test_failed_draws_have_no_right_guess_and_excluded_ones_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    def failing(*job: Any, keep: Callable[..., None], **settings: Any) -> None:
        def kept(result: DrawResult) -> None:
            if result.said.seed == 101:
                said = Failed(seed=101, status="failed", error="no memory")
                result = replace(result, said=said, release=b"", model=b"")
            keep(result)

        draw_here(*job, keep=kept, **settings)

    (tmp_path / "pg_coins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", failing)
    all_rows = IGNORES.replace("ignore", "whole")
    audit = new_audit(tmp_path, TEXT.replace('generator = "bootstrap"', all_rows))
    audit.seal()
    audit.register()
    audit.amend(reason="left out before it is drawn", exclude=[("bootstrap", 102)])
    audit.draw()
    audit.open()
    (record,) = recorded(audit)
    # All rows that were in are released, so that each guess about a draw that worked is right.
    assert record["right"] == (DRAWS - 1) * GUESSES
    assert record["guesses"] == DRAWS * GUESSES
    assert audit.verify().good


def test_several_claims_share_the_error_and_delta_is_counted(tmp_path: Path) -> None:
    head, _, tail = TEXT.partition("epsilon = {")
    text = head + "\n" + TWO + tail.partition("\n")[2]
    first, second = recorded(certified(tmp_path, text))
    assert first["refuted"]
    assert not second["refuted"]
    guesses, e = first["guesses"], np.exp(1.0)
    alone = binom.sf(first["right"] - 1, guesses, e / (1 + e))
    np.testing.assert_allclose(first["pvalue"], 2 * alone, rtol=1e-6)
    assert second["delta"] == "0.00001"
    assert second["guesses"] == DRAWS * 40


@pytest.mark.parametrize("what", ["right", "refuted", "sentence", "lower"])
def test_another_outcome_than_the_guesses_give_is_found(
    again: Callable[[], Audit], forge: Any, what: str
) -> None:
    audit = again()
    lies = {"right": 210, "refuted": False, "sentence": "It is fine.", "lower": 0.5}

    def lie(predicate: dict[str, Any]) -> None:
        predicate["epsilon"][0][what] = lies[what]

    forge.certificate(audit, predicate=lie)
    assert what in forge.found_by(audit)


def test_an_epsilon_that_is_left_out_of_the_certificate_is_found(
    again: Callable[[], Audit], forge: Any
) -> None:
    audit = again()
    forge.certificate(audit, predicate=lambda predicate: predicate.pop("epsilon"))
    assert "certificate.json" in forge.found_by(audit)


def test_without_development_what_was_guessed_is_told_as_not_seen(
    again: Callable[[], Audit],
) -> None:
    audit = again()
    for place in (audit.folder / "development").iterdir():
        place.unlink()
    found = audit.verify()
    assert found.good
    assert any(line.startswith("epsilon: how often coins") for line in found.not_checked)
    assert any("how often coins were guessed" in line for line in found.not_checked[:2])
    assert found.decisions  # the rest of the certificate is decided anew


def test_an_epsilon_that_is_left_out_is_found_without_development_too(
    again: Callable[[], Audit], forge: Any
) -> None:
    audit = again()
    forge.certificate(audit, predicate=lambda predicate: predicate.pop("epsilon"))
    for place in (audit.folder / "development").iterdir():
        place.unlink()
    assert "certificate.json" in forge.found_by(audit)


@pytest.fixture
def drawn(tmp_path: Path) -> Audit:
    audit = new_audit(tmp_path)
    audit.seal()
    audit.register()
    audit.draw()
    assert audit.verify().good
    return audit


@pytest.mark.parametrize("members", ["others", "all"])
def test_members_that_the_coins_did_not_choose_are_found(
    drawn: Audit, forge: Any, members: str
) -> None:
    other = drawn.folder.store.put(coin_bits(999, len(training(drawn))))

    def lie(value: dict[str, Any]) -> None:
        if members == "all":
            forge.draws_of(value)[0].pop("members")
        else:
            forge.draws_of(value)[0]["members"] = other

    forge.manifest(drawn, lie)
    assert "not those that the coins of its seed give" in forge.found_by(drawn)


def test_an_attack_cannot_be_chosen_once_the_coins_can_be_compared(drawn: Audit) -> None:
    text = TEXT.replace('attack = "dcr"', 'attack = "nearest-neighbour ratio"')
    (drawn.folder / "audit.toml").write_text(text)
    with pytest.raises(StageError, match="the releases are drawn"):
        drawn.amend(reason="a better attack")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('inclusion = "coins"\n', "", 'write inclusion = "coins" in the .*bootstrap'),
        ('attack = "dcr"', 'attack = "share in radius"', "could know the coins"),
        ('attack = "dcr"', 'attack = "none such"', "no attack 'none such'"),
        ('claimed = "1.0"', 'claimed = "-1"', "claimed >= 0"),
        ('delta = "0"', 'delta = "1"', "delta < 1"),
        ("guesses = 100", "guesses = 101", "101 is odd"),
        ('claimed = "1.0"', 'claimed = "1.0", mechanism = "other"', r"one of \['bootstrap'\]"),
        ('generator = "bootstrap"', 'generator = "files"', "no coin of ours"),
        ('inclusion = "coins"', 'inclusion = "coins"\ndeterministic = true', "leave deterministic"),
        (
            'generator = "bootstrap"',
            'generator = "copula"\noptions = { train_rows = 50, bootstrap = true }',
            "coins choose the training rows: leave train_rows and bootstrap out",
        ),
    ],
)
def test_what_cannot_be_tested_is_refused_with_what_to_write(
    old: str, new: str, words: str
) -> None:
    read_declaration(TEXT)
    with pytest.raises(RegistryError, match=words):
        read_declaration(TEXT.replace(old, new))


def test_an_attack_of_others_is_refused_because_it_could_toss_the_coins_again() -> None:
    text = TEXT.replace('attack = "dcr"', 'attack = "ours"')
    text = text.replace("[procedure]", '[exposure.attack.ours]\nkind = "pg:Attack"\n[procedure]')
    with pytest.raises(RegistryError, match="could know the coins"):
        read_declaration(text)


def test_more_guesses_than_rows_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    audit = new_audit(tmp_path, TEXT.replace("guesses = 100", "guesses = 500"))
    audit.seal()
    with pytest.raises(RegistryError, match="500 guesses about each draw, and there are 280"):
        audit.register()


def test_one_private_fit_that_is_kept_for_all_draws_is_refused(tmp_path: Path) -> None:
    kept = """generator = "categorical"
options = { outcome = "label", domains = { label = ["no", "yes"], first = ["0"], second = ["0"] }, \
floor = ["first", "second"], rows = 100, epsilon = "1", noise = "system", folder = "fit" }"""
    audit = new_audit(tmp_path, TEXT.replace('generator = "bootstrap"', kept))
    audit.seal()
    with pytest.raises(RegistryError, match="keeps one private fit for all draws"):
        audit.register()


def test_words_on_privacy_count_a_fit_for_every_draw() -> None:
    one = PrivacyStatement(epsilon=Fraction(1), delta=Fraction(0), unit="one row", fits="once")
    assert "all releases together cost the same" in privacy_lines(one, 4)[0]
    assert "Each of 4 draws is a private fit of its own" in privacy_lines(one, 4, anew=True)[0]


def test_rows_with_one_score_are_guessed_in_an_order_that_is_not_the_tables() -> None:
    guessed = best_guesses(np.zeros(1000), 500, "911 7")
    assert (guessed == 1).sum() == (guessed == -1).sum() == 250
    assert 60 < (guessed[:500] == 1).sum() < 190
    np.testing.assert_array_equal(guessed, best_guesses(np.zeros(1000), 500, "911 7"))
    assert np.any(guessed != best_guesses(np.zeros(1000), 500, "911 8"))
    scores = np.arange(10.0)
    assert best_guesses(scores, 4, "").tolist() == [-1, -1, 0, 0, 0, 0, 0, 0, 1, 1]
