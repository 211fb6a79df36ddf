"""What can be said of a page without opening it: its policy, its size, what it may contain."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyguard.report.content import build_report
from proxyguard.report.html import column_kinds, fragment, safe_json, to_html
from proxyguard.report.sources import Sources
from proxyguard.report.sources import table as table_of
from report.synthetic import advice_of, synthetic_sources


def page_of(sources: Sources) -> str:
    return to_html(build_report(sources), sources)


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(synthetic_sources(R=5))


def hash_of(text: str) -> str:
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


def test_the_policy_names_the_page_s_own_style_and_script_and_no_other(page: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.replace("&#39;", "'").split(";"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert rules == {
        "default-src": "'none'", "style-src": hash_of(style), "script-src": hash_of(script),
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_the_policy_comes_before_what_it_rules(page: str) -> None:
    assert page.index("Content-Security-Policy") < page.index("<style>") < page.index("<script")


@pytest.mark.parametrize("word", ["http:", "https:", "url(", "@import", "src=", " style=", "eval("])
def test_nothing_is_fetched_from_anywhere(page: str, word: str) -> None:
    assert word not in page


def test_a_thousand_releases_under_six_requirements_stay_below_two_megabytes() -> None:
    names = [f"requirement {j}" for j in range(6)]
    sources = synthetic_sources(R=1000, n=100, means={"careful": 0.2}, requirements=names)
    assert len(page_of(sources).encode()) < 1_000_000


@given(st.recursive(st.text() | st.integers(), lambda one: st.lists(one, max_size=3)))
def test_embedded_json_is_the_value_and_cannot_end_its_element(value: object) -> None:
    text = safe_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_json(float("nan"))


def test_numbers_end_at_one_line_and_long_words_may_break() -> None:
    table = table_of(
        title="t", columns=("name", "n", "digest", "words"),
        rows=(("a", "1,000", "f" * 64, "1 of 2"), ("b", "0.5 %", "short", "")),
    )  # fmt: skip
    assert [str(kind) for kind in column_kinds(table)] == [
        "", ' class="pg-number"', ' class="pg-long"', "",
    ]  # fmt: skip


def test_a_fragment_escapes_what_users_wrote() -> None:
    table = table_of(title="<b>t</b>", columns=("<i>",), rows=(("<script>alert(1)</script>",),))
    cell = fragment((), [table])
    assert "<b>" not in cell
    assert "<i>" not in cell
    assert "<script" not in cell


def test_a_part_of_the_page_is_there_only_if_the_record_has_it(page: str) -> None:
    assert 'id="resolve"' not in page
    assert 'id="picks">Choose releases' in page
    bare = page_of(synthetic_sources(R=5, picks=False))
    assert 'id="picks">All releases' in bare
    advice = advice_of("hasty", "More <records>.")
    assert "More &lt;records&gt;." in page_of(synthetic_sources(R=5, advice=[advice]))
