"""A word for every term: asked for by name, on a page of the docs, and where it first occurs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proxyguard.cli import look
from proxyguard.cli.main import app
from proxyguard.errors import RegistryError
from proxyguard.modes.catalog import MODES
from proxyguard.modes.evidence import Decision
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.design import DESIGNS
from proxyguard.registry.exposure import ExposureKind
from proxyguard.registry.parts import ClaimPart
from proxyguard.registry.test import Bound, ComponentTest, Family
from proxyguard.report.content import build_report
from proxyguard.report.glossary import explain, glossary_page, keys, terms
from proxyguard.report.html import explained, to_html
from report.synthetic import synthetic_sources

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"


@pytest.mark.parametrize("name", [
    *(decision.value for decision in Decision),
    *(mode.mode for mode in MODES),
    *(choice.value for kind in (ComponentTest, Bound, Family, ExposureKind) for choice in kind),
    *(design.__name__ for design in DESIGNS),
    *ClaimPart.model_fields, *Declaration.model_fields,
])  # fmt: skip
def test_every_word_of_a_claim_is_explained(name: str) -> None:
    assert explain(name).text.endswith(".")


def asked_names() -> list[str]:
    """Return all that `explain` knows: terms by every name and form, keys alone and in full."""
    words = [name for term in terms() for name in (term.name, *term.also, *term.forms)]
    paths = [path for path, _ in keys()]
    return list(dict.fromkeys([*words, *paths, *(path.rpartition(".")[2] for path in paths)]))


def test_whatever_is_asked_for_is_printed_in_plain_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = asked_names()
    assert len(names) > 400
    for name in names:
        look.explain(name.split())
        printed = capsys.readouterr().out
        # No escape, no mark-up of a docstring, no line that another text was broken in.
        assert not re.search(r"\\|``|\*\*|  |\n\n|<[a-z/]", printed), (name, printed)
        for line in printed.splitlines():
            begins = line[0].isupper() or re.match(r"[a-z_.]+(, [a-z_.]+)* in audit.toml: ", line)
            assert begins, (name, line)
            assert line.endswith("."), (name, line)


def test_a_key_is_told_by_all_that_it_means_and_by_the_term_of_its_name() -> None:
    for path, sentence in keys():
        for name in (path, path.rpartition(".")[2]):
            assert any(
                path in line.partition(" in audit.toml: ")[0] and line.endswith(f": {sentence}")
                for line in explain(name).text.splitlines()
            ), (name, sentence)
    for term in terms():
        assert explain(term.name).text.splitlines()[0] == term.text
    # A key in full is that key alone, whatever else bears its name.
    assert explain("claim.alpha").text == "claim.alpha in audit.toml: Error level of validation."
    assert "luck of the target" in explain("kappa").text
    assert explain("violation_threshold").text.endswith(": Threshold of a violating score.")


def test_no_two_terms_answer_to_one_name_or_form() -> None:
    names = [name.lower() for term in terms() for name in (term.name, *term.also)]
    own = {term.name.lower() for term in terms()}
    again = {name for name in names if names.count(name) > 1}
    assert not again - own  # a term's own name goes before another's further one
    forms = [form.lower() for term in terms() for form in term.forms]
    assert len(set(forms)) == len(forms)
    assert len({term.anchor for term in terms()}) == len(terms())


def test_the_page_of_the_docs_is_current() -> None:
    assert PAGE.read_text("utf-8") == glossary_page(), (
        "python -m proxyguard.report.glossary docs/glossary.md"
    )


def test_a_term_is_asked_for_and_a_slip_is_answered_with_what_is_spelled_alike() -> None:
    shown = CliRunner().invoke(app, ["explain", "favorable", "score"])
    assert shown.output.startswith("A release scores favorably if")
    assert "reliability" in CliRunner().invoke(app, ["explain"]).output
    # The word that a page explains, as it stands there.
    assert explain("relative-transfer") == explain("relative requirement")
    # In the singular or the plural, and the verbs of the command line.
    assert explain("cluster") == explain("clusters")
    assert explain("reserve.row").text == explain("target.reserve.rows").text
    assert explain("amendments") == explain("amendment")
    assert explain("ledgers").text == explain("ledger").text
    amend = CliRunner().invoke(app, ["explain", "amend"])
    assert amend.output.startswith("The command proxyguard amend: Register audit.toml as it")
    grant = CliRunner().invoke(app, ["explain", "grant"]).output.splitlines()
    assert [line.partition(":")[0] for line in grant][1:] == ["The command proxyguard grant"]
    assert "proxyguard rotate-key" in CliRunner().invoke(app, ["explain", "rotate-key"]).output
    with pytest.raises(RegistryError, match="did you mean slack"):
        explain("slak")
    with pytest.raises(RegistryError, match="none is spelled alike"):
        explain("zzzzzz")


def test_a_page_explains_each_term_once_where_it_first_occurs() -> None:
    sources = synthetic_sources(R=12)
    page = to_html(build_report(sources), sources)
    pressed = re.findall(r'<button type="button" class="pg-term" popovertarget="(.*?)">', page)
    meant = re.findall(r'class="pg-meaning" id="(.*?)"', page)
    assert pressed == meant  # each opens its own, once
    assert len(set(pressed)) == len(pressed) > 15
    assert {"term-mechanism", "term-requirement", "term-confidence"} <= set(pressed)


@pytest.mark.parametrize("inside", [
    "<h2>a slack</h2>", "<a href='#'>slack</a>", "<svg><g><text>slack</text></g></svg>",
    "<script type='application/json'>slack</script>", "<td title='a slack'>none</td>",
    "<p>slacken, un-slack, /slack/, slack.py, &slack;</p>",
])  # fmt: skip
def test_headings_pictures_attributes_and_longer_words_are_left_alone(inside: str) -> None:
    page = f"<body><main>{inside}</main></body>"
    assert explained(page) == page


def test_after_what_is_passed_over_words_are_explained_again() -> None:
    page = explained("<main><svg><svg/><g>slack</g></svg><p>The Slack, slack</p></main>slack")
    assert page.count("pg-term") == 1
    assert '">Slack</button>, slack</p>' in page
    assert page.endswith("</main>slack")


def test_no_line_ends_within_a_flag() -> None:
    page = explained(
        "<main><p>A smaller one: --limit a=1, or --limit &#39;two-way shares=0.16&#39;. --kind says"
        "</p><code>init --from</code></main>"
    )
    for flag in ("--limit a=1", "--limit &#39;two-way shares=0.16&#39;", "--kind", "--from"):
        assert f'<span class="pg-flag">{flag}</span>' in page
    assert "span" not in explained("<main><pre><code>init --from</code></pre></main>")


def test_what_looks_like_something_is_no_look_at_draws() -> None:
    assert "<button" not in explained("<main><p>It looks like an id.</p></main>")
    assert "<button" in explained("<main><p>After two looks it ends.</p></main>")
