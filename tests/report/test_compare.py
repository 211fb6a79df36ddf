"""Several audits side by side: selection is named for what it is, and nothing is ranked."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.errors import RegistryError
from proxyguard.registry.declaration import read_declaration
from proxyguard.report.compare import Compared, compare
from proxyguard.report.content import build_report
from proxyguard.report.html import comparison_markdown, comparison_page
from proxyguard.report.sources import sources_of
from report.synthetic import unmarked

RISK = pg.Requirement(name="risk", low=0, high=1, limit=0.3)


def audit(name: str, mean: float, *, alpha: str = "0.05", limit: float = 0.3,
          target: str = "", place: str = "", guarantee: str = "yes",
          registry: str = "") -> Compared:  # fmt: skip
    losses = np.random.default_rng(3).beta(4 * mean, 4 * (1 - mean), size=(40, 500, 1))
    found = pg.certify(
        {f"{name} mechanism": losses}, [replace(RISK, limit=limit)], reliability_target=0.8,
        alpha=alpha, seed=1,
    )  # fmt: skip
    sources = sources_of(found)
    status = sources.status.model_copy(update={"guarantee": guarantee})
    subjects = {"target:target": target or name, "registry": registry or f"{place}{name}"}
    sources = replace(sources, name=name, status=status, subjects=subjects)
    return Compared(place=place or name, report=build_report(sources), sources=sources)


BAD, GOOD = audit("worst", 0.5), audit("best", 0.15)


def test_the_warning_comes_first_and_names_the_choice() -> None:
    found = compare([BAD, GOOD])
    words = " ".join(found.warning)
    assert "choice made after looking, which no error budget here has paid for" in words
    assert "register them as one family" in words
    assert "90 % confidence" in words  # two errors of 5 %, added
    text = comparison_markdown(found)
    assert text.index("no error budget") < text.index("VALIDATED")
    page = unmarked(comparison_page(found))
    assert page.index("no error budget") < page.index("best mechanism")


def test_the_order_is_the_given_one_and_no_winner_is_marked() -> None:
    for order in ([BAD, GOOD], [GOOD, BAD]):
        found = compare(order)
        names = [one.report.name for one in order]
        assert [audit_name for audit_name, _ in found.verdicts] == names
        assert [row[0] for row in found.tables[0].rows] == names
        text = (comparison_markdown(found) + comparison_page(found)).lower()
        for word in ("winner", "★", "⭐", "🏆", "rank", "recommended"):
            assert word not in text


def test_errors_that_add_up_to_more_than_one_promise_nothing() -> None:
    many = [audit(str(i), 0.2, alpha="0.3") for i in range(4)]
    assert "nothing could be said of all of them together" in " ".join(compare(many).warning)


def test_a_shared_target_is_named() -> None:
    alone = compare([audit("a", 0.2), audit("b", 0.2)])
    shared = compare([audit("a", 0.2, target="t"), audit("b", 0.2, target="t")])
    assert not any("same sealed target" in line for line in alone.warning)
    assert any("same sealed target was used by a and b" in line for line in shared.warning)


def test_other_limits_are_called_different() -> None:
    found = compare([audit("a", 0.2), audit("b", 0.2, limit=0.35)])
    assert found.tables[1].rows == (("risk", "0.3", "0.35", "differs"),)
    same = compare([audit("a", 0.2), audit("b", 0.2)])
    assert same.tables[1].rows[0][-1] == "alike"


def test_audits_of_one_name_are_told_apart_by_their_folders_then_their_registries() -> None:
    found = compare([audit("a", 0.2, place="x"), audit("a", 0.3, place="y")])
    assert [name for name, _ in found.verdicts] == ["a (x)", "a (y)"]
    alike = compare([audit("a", 0.2, registry="1" * 64), audit("a", 0.3, registry="2" * 64)])
    assert [name for name, _ in alike.verdicts] == [
        f"a, audit 1 (registry {'1' * 16})",
        f"a, audit 2 (registry {'2' * 16})",
    ]


def test_one_audit_is_not_counted_twice() -> None:
    with pytest.raises(RegistryError, match="'x' and 'y' are one audit"):
        compare(
            [audit("a", 0.2, place="x", registry="r"), audit("a", 0.2, place="y", registry="r")]
        )


def test_an_audit_without_a_guarantee_is_named_and_left_out_of_what_holds_together() -> None:
    lost = audit("seen", 0.2, guarantee="no: the target was seen before")
    found = compare([lost, audit("a", 0.2), audit("b", 0.2)])
    words = " ".join(found.warning)
    assert "No guarantee remains for seen" in words
    assert "the 2 audits that have one" in words
    assert "hold together with 90 % confidence" in words  # two errors of 5 %, not three
    said = "<strong>No guarantee remains</strong>: the target was seen before."
    assert said in unmarked(comparison_page(found))
    none = compare([lost, audit("too", 0.2, guarantee="no: also seen")])
    assert "hold together with" not in " ".join(none.warning)


def test_every_limit_of_a_requirement_is_listed() -> None:
    one = audit("a", 0.2)
    (group,) = one.sources.groups.values()
    groups = {**one.sources.groups, "second": group.model_copy(update={"limits": ("0.5",)})}
    two = replace(one, sources=replace(one.sources, groups=groups))
    found = compare([two, audit("b", 0.2)])
    assert found.tables[1].rows == (("risk", "0.3, 0.5", "0.3", "differs"),)


def test_every_audit_has_the_command_that_checks_it() -> None:
    found = compare([audit("a", 0.2, place="site-a"), audit("b", 0.2, place="site-b")])
    assert [row[1] for row in found.check.rows] == [
        "proxyguard verify site-a",
        "proxyguard verify site-b",
    ]
    for text in (comparison_page(found), comparison_markdown(found)):
        assert "proxyguard verify site-b" in text


def test_one_audit_is_no_comparison() -> None:
    with pytest.raises(RegistryError, match="at least two audits, got 1"):
        compare([GOOD])


def test_names_cannot_act_on_the_page() -> None:
    hostile: Any = "<script>alert(1)</script>"
    page = comparison_page(compare([audit(hostile, 0.2), GOOD]))
    assert hostile not in page


TEXT = """
format = 1
name = "a"
purpose = "p"
[target]
table = "t.csv"
reserve = { rows = 10, seed = 1 }
outcome = "y"
positive = "1"
read = { missing = MISSING }
[procedure]
library = ["fixed_logistic"]
[[requirement]]
name = "error"
loss = "error"
form = "relative"
limit = "0.05"
[[mechanism]]
name = "NAME"
generator = "bootstrap"
draws = 40
seeds = { first = 1 }
[claim]
reliability_target = "0.8"
"""


def test_settings_come_after_the_verdicts_and_an_entry_of_one_audit_alone_is_one_row() -> None:
    audits = []
    for one, name, missing in ((BAD, "v1.0", '["", "NA"]'), (GOOD, "v1", '["NA"]')):
        declared = read_declaration(TEXT.replace("NAME", name).replace("MISSING", missing))
        registry: Any = SimpleNamespace(declaration=declared, members={})
        audits.append(replace(one, sources=replace(one.sources, registry=registry)))
    found = compare(audits)
    assert set(found.settings.rows) == {
        ("mechanism v1.0", "declared", "not declared"),
        ("target.read.missing", '"", NA', "NA"),
        ("mechanism v1", "not declared", "declared"),
    }
    page = unmarked(comparison_page(found))
    assert page.index("best mechanism") < page.index('id="settings"')
