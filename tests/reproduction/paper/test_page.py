"""The page that reads the paper with the product's names is true, whole, and leads somewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from string import ascii_uppercase

import pytest
import typer.main

from proxyguard.cli.main import app
from reproduction.audits.published import AUDITS
from reproduction.paper import page
from reproduction.paper.page import Place, content, places, slug, state_of
from reproduction.studies.catalog import STUDIES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
AUDITS_TEXT = (DOCS / "audits.md").read_text("utf-8")
WRITTEN = (DOCS / "reading-the-paper.md").read_text("utf-8")


def links(name: str) -> list[str]:
    """Return where the links of a page of docs/ lead, those to other sites left out."""
    found = re.findall(r"\]\(([^)\s]+)\)", (DOCS / name).read_text("utf-8"))
    return sorted({link for link in found if "://" not in link})


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors that the headings of a page have."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), flags=re.MULTILINE)
    return frozenset(slug(heading) for heading in headings)


@pytest.mark.parametrize("name", ["reading-the-paper.md", "related-work.md", "audits.md"])
def test_every_link_leads_to_a_file_and_a_heading_that_exist(name: str) -> None:
    assert links(name)
    for link in links(name):
        file, _, anchor = link.partition("#")
        path = (DOCS / file).resolve() if file else DOCS / name
        assert path.is_file(), link
        assert not anchor or anchor in anchors(path), link


def test_the_page_is_what_its_command_writes_now() -> None:
    made = page.page(AUDITS_TEXT)
    assert made == WRITTEN, "run: make paper"


def test_every_name_of_an_object_is_in_the_product() -> None:
    for one in content()["object"]:
        for name in one["here"]:
            module, _, attribute = name.rpartition(".")
            if "." in module and module.rpartition(".")[2][:1].isupper():  # a member of a class
                module, _, holder = module.rpartition(".")
                attribute = f"{holder}.{attribute}"
            found: object = import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)


def test_published_events_of_budgets_are_those_that_certificates_name() -> None:
    rows = re.findall(r"^\| \w+ \w+ bound \| (\w+) \| ([^|]+) \| ([^|]+) \|$", page.budgets(),
                      flags=re.MULTILINE)  # fmt: skip
    assert [symbol for symbol, _, _ in rows][:6] == [
        "alpha_R", "alpha_M", "alpha_Q", "alpha_Z", "beta_R", "beta_M",
    ]  # fmt: skip
    assert all(published == here for _, published, here in rows[:6])


def test_the_ranges_of_the_light_generator_are_the_published_ones() -> None:
    # Tab. neural_architecture: 4-48 features, corruption .01-.35, ridge .001-.25, nine settings.
    shown = page.architecture()
    for words in ("`hidden` 4 to 48", "`train_noise` 0.01 to 0.35", "`ridge` 0.001 to 0.25",
                  "9 pilots", "thresholds 0.5 and 1/6"):  # fmt: skip
        assert words in shown


def test_the_published_digests_are_listed_each_once() -> None:
    begins = [one["begins"] for one in content()["digest"]]
    assert len(set(begins)) == len(begins) == 17
    assert all(re.fullmatch(r"[0-9a-f]{8}", one) for one in begins)


def test_every_appendix_study_and_audit_of_the_paper_has_a_place() -> None:
    listed = places()
    named = " ".join(one.paper for one in listed)
    spans = [range(ord(a), ord(b) + 1) for a, b in re.findall(r"App\. ([A-Z]) to ([A-Z])", named)]
    letters = {chr(letter) for span in spans for letter in span}
    letters |= set(re.findall(r"\b([A-Z])\b(?=[,;:]| |$)", named))
    assert set(ascii_uppercase[: ascii_uppercase.index("Y") + 1]) <= letters
    studies = {name for one in listed for name in one.studies}
    audits = {name for one in listed for name in one.audits}
    # The paper's studies and audits, those that have published figures, are in the list.
    assert {name for name, study in STUDIES.items() if not study.own} <= (
        studies | {name for name in STUDIES if name.endswith("-pilot")}
    )
    assert {
        name for name, one in AUDITS.items() if one.rows or one.verdicts or one.tallies
    } <= audits
    assert studies <= set(STUDIES)
    assert audits <= set(AUDITS)


def test_a_part_without_words_or_figures_would_be_seen() -> None:
    for one in places():
        assert one.says or one.studies or one.audits, one.paper


def test_an_audit_that_the_page_of_audits_lacks_is_declared_and_not_reproduced() -> None:
    one = Place(paper="", what="", audits=("magic-bootstrap",))
    title = AUDITS["magic-bootstrap"].title
    assert state_of(one, f"# Page\n\n## {title}\n\n") == (
        "reproduced", "[magic-bootstrap](audits.md#magic-row-bootstrap)",
    )  # fmt: skip
    assert state_of(one, "# Page\n") == ("declared", "`magic-bootstrap`")
    two = replace(one, audits=("magic-bootstrap", "taiwan-pilot"))
    assert state_of(two, "## MAGIC, row bootstrap\n")[0] == "reproduced in part"
    words = Place(paper="", what="", says="why", explained=True)
    assert state_of(words, "") == ("explained", "why")


def test_the_picture_of_the_workflow_names_commands_that_exist() -> None:
    picture = (DOCS / "protocol.svg").read_text("utf-8")
    shown = {
        verb
        for text in re.findall(r'class="command"[^>]*>([^<]+)<', picture)
        for verb in text.split(" · ")
    }
    assert len(shown) == 11
    assert shown <= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # a group
