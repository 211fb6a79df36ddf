"""`audit.toml` is read as written, refused by key, and sealed with its defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proxyguard.documents.canonical import digest
from proxyguard.errors import RegistryError
from proxyguard.registry.declaration import declaration_schema, read_declaration
from proxyguard.registry.fields import Ways
from proxyguard.registry.parts import SourceRule
from proxyguard.registry.target import StratifiedDesign
from proxyguard.registry.test import Bound, ComponentTest

TEXT = """
format = 1
name = "magic-bootstrap"
purpose = "May bootstrap releases stand in for the table?"
[target]
table = "magic04.data"
reserve = { rows = 5706, seed = 27072701 }
design = "iid"
outcome = "class"
positive = "h"
[development]
validation = { fraction = "0.2", stratify = true, seed = 27072702 }
[procedure]
library = ["logistic", "forest", "boosting"]
choose = { loss = "cost", false_negative = "5", thresholds = 501 }
[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.04"
[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.05", round_up = "0.001" }
[[mechanism]]
name = "row bootstrap"
generator = "bootstrap"
draws = 30
seeds = { first = 127001 }
[claim]
mode = "direct"
test = "betting"
reliability_target = "0.8"
"""


def test_a_whole_declaration_is_read_as_written() -> None:
    declared = read_declaration(TEXT)
    assert declared.target is not None
    assert declared.target.reserve is not None
    assert declared.target.reserve.rows == 5706
    assert declared.requirement[0].limit == "0.04"
    assert declared.requirement[1].limit == SourceRule(
        source_validation_plus="0.05", round_up="0.001"
    )
    assert declared.mechanism[0].seed_list == tuple(range(127001, 127031))
    assert declared.claim.mode == "direct"
    assert declared.claim.to_claim().bound is Bound.SHARP
    assert declared.claim.test is ComponentTest.BETTING


def test_the_digest_covers_the_value_and_its_defaults_not_the_file() -> None:
    declared = read_declaration(TEXT)
    windows = read_declaration(TEXT.replace("\n", "\r\n"))
    spelt_out = read_declaration(TEXT.replace('mode = "direct"', 'mode = "direct"\nalpha = "0.05"'))
    other = read_declaration(TEXT.replace('limit = "0.04"', 'limit = "0.05"'))
    assert digest(windows.to_dict()) == digest(declared.to_dict())
    assert digest(spelt_out.to_dict()) == digest(declared.to_dict())
    assert digest(other.to_dict()) != digest(declared.to_dict())


def test_a_declaration_cannot_be_changed_once_read() -> None:
    declared = read_declaration(TEXT)
    with pytest.raises(ValueError, match="frozen"):
        declared.claim.alpha = "0.5"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("format = 1", "format = 2", "format: this version reads format = 1, found 2"),
        ("format = 1\n", "", "found none"),
        ('limit = "0.04"', 'limit = "0.04"\nslakc = "0.01"', "slakc: unknown key"),
        (
            "[target]",
            "[target]\ndisclosure = { digits = 3 }",
            "write it at the top, before the first",
        ),
        (
            'limit = "0.04"',
            "limit = 0.04",
            'line 20, [[requirement]] "Brier transfer" limit: is a number, as text',
        ),
        ('limit = "0.04"', 'limit = "four"', 'such as "0.05", got "four"'),
        (
            'reliability_target = "0.8"',
            'reliability_target = "1.8"',
            "[claim] reliability_target: expected a number",
        ),
        ('reliability_target = "0.8"', "", "needs reliability_target"),
        ('mode = "direct"', 'mode = "direkt"', "[claim] mode"),
        ('name = "Brier risk"', 'name = "Brier transfer"', "requirement names must differ"),
        ("draws = 30", "draws = 0", '[[mechanism]] "row bootstrap" draws'),
        ("draws = 30", "draws = true", '[[mechanism]] "row bootstrap" draws'),
        ("seeds = { first = 127001 }", "seeds = [1, 2]", "30 draws need as many seeds, got 2"),
        ("draws = 30\nseeds = { first = 127001 }", "draws = 2\nseeds = [7, 7]", "repeated"),
        ("reserve = { rows = 5706, seed = 27072701 }", "", "name one source"),
        ('table = "magic04.data"', 'table = "a"\nfile = "b"', "name one source"),
        ("[claim]", "[claim", "no TOML"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_key(old: str, new: str, named: str) -> None:
    assert old in TEXT
    with pytest.raises(RegistryError, match=re.escape(named)):
        read_declaration(TEXT.replace(old, new))


@pytest.mark.parametrize("level", ["0." + "9" * 23, "0." + "0" * 330 + "1"])
@pytest.mark.parametrize(
    "key",
    ["reliability_target", "alpha", "beta", "threshold", "violation_threshold", "release_share",
     "target_share", "named_share", "thresholds", "shares", "levels"],
)  # fmt: skip
def test_a_level_that_is_0_or_1_as_a_double_is_refused_by_key(key: str, level: str) -> None:
    """It was registered, and the target opened, before a test could not be computed with it."""
    written = {
        "thresholds": f'["{level}"]',
        "levels": f'["{level}"]',
        "shares": f'{{ a = "{level}" }}',
    }
    text = TEXT.replace('reliability_target = "0.8"\n', "") if key == "reliability_target" else TEXT
    with pytest.raises(RegistryError, match=rf"\[claim\] {key}.*by more than computing can lose"):
        read_declaration(f"{text}{key} = {written.get(key, repr(level))}\n")


def test_a_budget_for_picks_that_vanishes_is_refused_by_key() -> None:
    for line in ('alpha = "1e-400"', 'alpha = "0.01"\nthresholds = ["1e-400"]'):
        with pytest.raises(RegistryError, match=r"\[picks\] .*by more than computing can lose"):
            read_declaration(f"{TEXT}[picks]\n{line}\n")


def test_all_problems_are_named_at_once() -> None:
    text = TEXT.replace("draws = 30", "draws = -1").replace('loss = "brier"', "")
    with pytest.raises(RegistryError) as caught:
        read_declaration(text)
    assert str(caught.value).count("\n") == 3
    assert (
        '[[requirement]] "Brier transfer": a relative or absolute requirement names a loss'
        in str(caught.value)
    )


def test_two_mechanisms_cannot_share_a_seed() -> None:
    second = """
[[mechanism]]
name = "other"
generator = "bootstrap"
draws = 5
seeds = { first = 127030 }
"""
    with pytest.raises(RegistryError, match="seed 127030 is registered for 'row bootstrap'"):
        read_declaration(TEXT + second)


def test_two_folders_of_files_need_no_numbers() -> None:
    folders = "".join(
        f'''
[[mechanism]]
name = "{vendor}"
generator = "files"
options = {{ folder = "{vendor}" }}
draws = 5
'''
        for vendor in "AB"
    )
    _, first, second = read_declaration(TEXT + folders).mechanism
    assert first.seed_list == second.seed_list == (0, 1, 2, 3, 4)


def test_strata_name_their_sizes_and_weights() -> None:
    design = 'design = { by = "class", sizes = { h = 500, g = 500 }, weights = %s }'
    text = TEXT.replace("rows = 5706, ", "")
    declared = read_declaration(text.replace('design = "iid"', design % '{ h = "0.3", g = "0.7" }'))
    assert declared.target is not None
    assert isinstance(declared.target.design, StratifiedDesign)
    for weights in ('{ h = "0.3", g = "0.6" }', '{ h = "0.3" }'):
        with pytest.raises(RegistryError, match=r"\[target\] design"):
            read_declaration(TEXT.replace('design = "iid"', design % weights))


def test_named_releases_have_no_mechanism_and_no_reliability() -> None:
    text = TEXT.replace('reliability_target = "0.8"', 'level = "releases"').replace(
        'mode = "direct"', ""
    )
    assert read_declaration(text).claim.reliability_target is None
    with pytest.raises(RegistryError, match="has none"):
        read_declaration(TEXT.replace('mode = "direct"', 'level = "releases"'))


def test_the_published_schema_names_every_key_and_refuses_others() -> None:
    schema = declaration_schema()
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    objects = [part for part in parts if part.get("type") == "object"]
    assert len(objects) > 10
    assert all(part["additionalProperties"] is False for part in objects)
    assert set(schema["required"]) == {
        "format", "name", "purpose", "claim",
    }  # fmt: skip


def test_the_schema_in_the_docs_is_the_one_that_is_read() -> None:
    place = Path(__file__).parents[2] / "docs" / "schemas" / "audit.schema.json"
    assert json.loads(place.read_text()) == declaration_schema()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("draws = 30", "draws = 1_000_000_000", "draws: is at most 100,000, found"),
        ("thresholds = 501", "thresholds = 1_000_000", "choose.thresholds: is at most 10,001"),
        ("rows = 5706", "rows = 1_000_000_000_000", "reserve.rows: is at most 16,777,216"),
        ("draws = 30", "draws = 30\ntimeout = 1_000_000_000", "timeout: is at most 16,777,216"),
        (
            'mode = "direct"',
            'mode = "block"\nblock_size = 10_000_000_000',
            "block_size: is at most 16,777,216",
        ),
    ],
)
def test_counts_beyond_all_audits_are_refused_by_name_before_anything_is_made(
    old: str, new: str, words: str
) -> None:
    assert old in TEXT
    with pytest.raises(RegistryError, match=words):
        read_declaration(TEXT.replace(old, new))


def test_draws_of_many_mechanisms_are_bounded_together() -> None:
    start = TEXT.index("[[mechanism]]")
    end = TEXT.index("[claim]")
    many = "".join(
        TEXT[start:end]
        .replace("row bootstrap", f"row bootstrap {k}")
        .replace("draws = 30", "draws = 100000")
        .replace("127001", str(k * 100_000))
        for k in range(11)
    )
    with pytest.raises(RegistryError, match="draws: 1,100,000 in all mechanisms and pilots"):
        read_declaration(TEXT[:start] + many + TEXT[end:])


def test_marginals_over_too_many_ways_are_refused_before_they_are_listed() -> None:
    columns = [f"c{k}" for k in range(60)]
    with pytest.raises(ValueError, match=r"30 of 60 columns make 118,264,581,564,861,424 tables"):
        Ways(columns=columns, ways=30)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("Brier tr\N{CYRILLIC SMALL LETTER A}nsfer", "U+0430 CYRILLIC SMALL LETTER A"),
        ("brier transfer", "U+0062 LATIN SMALL LETTER B"),
        ("Brier\N{NO-BREAK SPACE}transfer", "U+00A0 NO-BREAK SPACE"),
        ("Brier trans\N{ZERO WIDTH SPACE}fer", "U+200B ZERO WIDTH SPACE"),
        ("Brier transfer\N{VARIATION SELECTOR-1}", "U+FE00 VARIATION SELECTOR-1"),
        ("Brier trans\N{LATIN SMALL LIGATURE FI}er", None),
        ("Überschuss", None),
        ("Перенос Бриера", None),
    ],
)
def test_names_that_a_reader_takes_for_one_are_refused_with_the_letter_that_differs(
    name: str, point: str | None
) -> None:
    text = TEXT.replace('"Brier risk"', json.dumps(name, ensure_ascii=False))
    if point is None:
        assert [r.name for r in read_declaration(text).requirement] == ["Brier transfer", name]
        return
    with pytest.raises(
        RegistryError, match=f"requirement names must differ to the eye.*{re.escape(point)}"
    ):
        read_declaration(text)


def test_mechanisms_and_releases_are_told_apart_by_the_eye() -> None:
    start, end = TEXT.index("[[mechanism]]"), TEXT.index("[claim]")
    other = (
        TEXT[start:end]
        .replace("row bootstrap", "r\N{CYRILLIC SMALL LETTER O}w bootstrap")
        .replace("127001", "9000")
    )
    with pytest.raises(RegistryError, match=r"mechanism or release names .* U\+043E CYRILLIC"):
        read_declaration(TEXT[:end] + other + TEXT[end:])
