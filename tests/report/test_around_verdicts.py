"""What stands around verdicts: conditions, lineage, models chosen, many verdicts, settings."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.documents.certificate import Stated
from proxyguard.documents.ledger import Opened, Overlap
from proxyguard.documents.registry import (
    DrawnMechanism,
    GivenMechanism,
    RegisteredMember,
    RegisteredProcedure,
    Registry,
    ReleaseFile,
    SourceModel,
)
from proxyguard.registry.declaration import Declaration
from proxyguard.registry.parts import ClaimPart, MechanismPart, Procedure
from proxyguard.report.compare import Compared, compare
from proxyguard.report.content import build_report
from proxyguard.report.html import MOST_LISTED, comparison_page, release_lists, to_html, to_markdown
from proxyguard.report.record import conditions_of, lineage_of, models_of
from proxyguard.report.sources import Sources, sources_of, to_csv
from report.synthetic import drawn, entries, manifest_of, synthetic_sources, unmarked


def registered(**changes: Any) -> Registry:
    """Return a registry of one member."""
    said = {
        "requirements": (),
        "mechanisms": {},
        "source": None,
        "procedure": None,
        "stand_ins": {},
        **changes,
    }
    return Registry.model_construct(
        declaration=Declaration.model_construct(claim=ClaimPart(reliability_target="0.8")),
        members={"target": RegisteredMember.model_construct(**said)},
    )


def chosen(*library: str) -> Sources:
    sources = synthetic_sources(R=3)
    name = sources.group_names[0]
    registry = registered(
        source=SourceModel.model_construct(selected=library[0], threshold="0.31"),
        procedure=RegisteredProcedure.model_construct(procedure=Procedure(library=library)),
    )
    draws = [drawn(int(release.rpartition("/")[2]), selected=library[k % len(library)])
             for k, release in enumerate(sources.groups[name].releases)]  # fmt: skip
    return replace(sources, registry=registry, manifest=manifest_of({name: draws}))


def test_the_model_that_was_really_chosen_is_told_for_source_and_releases() -> None:
    sources = chosen("forest", "logistic")
    first, second = models_of(sources)
    assert first == "Model of the source: forest, threshold 0.31, chosen from forest, logistic."
    assert second.endswith(": forest for 2, logistic for 1.")
    shown = release_lists(sources)[0]
    at = shown.columns.index("model chosen")
    assert [row[at] for row in shown.rows] == ["forest", "logistic", "forest"]


def test_releases_that_are_files_are_listed_with_their_files() -> None:
    sources = synthetic_sources(R=3)
    name = sources.group_names[0]
    seeds = [release.rpartition("/")[2] for release in sources.groups[name].releases]
    files = [ReleaseFile.model_construct(name=f"drawn/{s}.csv", seed=int(s)) for s in seeds]
    made = DrawnMechanism.model_construct(generator="files", files=tuple(files))
    shown = release_lists(replace(sources, registry=registered(mechanisms={name: made})))[0]
    assert shown.columns[:2] == ["release", "file"]
    assert [row[1] for row in shown.rows] == [f"drawn/{s}.csv" for s in seeds]


def test_a_library_of_one_model_leaves_nothing_to_tell() -> None:
    sources = chosen("forest")
    assert models_of(sources) == []
    assert "model chosen" not in release_lists(sources)[0].columns


@pytest.mark.parametrize(("mechanism", "words"), [
    (GivenMechanism.model_construct(generator="losses"), "everything about its losses"),
    (DrawnMechanism.model_construct(generator="files"), "that the files are independent draws"),
    (DrawnMechanism.model_construct(generator="bootstrap"), ""),
])  # fmt: skip
def test_independence_of_outside_releases_is_a_condition_beside_the_verdict(
    mechanism: Any, words: str
) -> None:
    sources = synthetic_sources(R=3)
    assert sources.predicate is not None
    stated = (Stated(about="theirs", words=words or "x"), Stated(about="seeds", words="drawn"))
    predicate = sources.predicate.model_copy(update={"stated_not_checked": stated})
    registry = registered(mechanisms={"theirs": mechanism})
    sources = replace(sources, registry=registry, predicate=predicate)
    assert len(conditions_of(sources)) == bool(words)
    assert all(condition.startswith(f"theirs: {words}") for condition in conditions_of(sources))


@pytest.mark.parametrize("conditions", [(), ("theirs: that they are independent",)])
def test_a_condition_stands_in_page_and_text(conditions: tuple[str, ...]) -> None:
    sources = synthetic_sources(R=3)
    report = build_report(sources).model_copy(update={"conditions": conditions})
    for text in (to_html(report, sources), to_markdown(report)):
        assert ("On condition" in text) == bool(conditions)
        assert ("theirs: that they are" in unmarked(text)) == bool(conditions)


@pytest.mark.parametrize(("shared", "twins"), [(0, 0), (3, 0), (0, 2)])
def test_lineage_is_told_where_records_were_met(shared: int, twins: int) -> None:
    overlap = Overlap.model_construct(shared=shared, twins=twins)
    ledger = entries(Opened.model_construct(lineage=(overlap,)))
    sources = replace(synthetic_sources(R=3), ledger=ledger)
    assert bool(lineage_of(sources)) == bool(shared or twins)


def test_of_many_named_releases_the_text_has_some_and_the_csv_all() -> None:
    losses = np.random.default_rng(1).random((80, 60, 1)) * np.linspace(0.2, 1.9, 80)[:, None, None]
    limit = pg.Requirement(name="error", low=0.0, high=2.0, limit=0.5)
    member = pg.NamedReleases(losses=losses, requirements=[limit])
    certificate = pg.certify_releases({"member": member}, seed=1)
    sources = sources_of(certificate)
    report = build_report(sources)
    markdown = to_markdown(report)
    assert markdown.startswith("# Named releases")
    assert "## 80 verdicts: " in markdown
    assert f"{80 - MOST_LISTED} more are in report.csv." in markdown
    assert len(markdown.splitlines()) < 200
    text = str(certificate)
    counts = Counter(str(verdict.decision) for verdict in certificate.verdicts)
    assert text.startswith(
        f"{counts['validated']} of 80 named releases validated, {counts['unresolved']} unresolved, "
        f"{counts['violation']} violations\n"
    )
    assert len(text.splitlines()) < 30
    worst = np.argsort(-losses.mean(axis=(1, 2)))[:10].tolist()
    listed = re.findall(r"^  member/(\d+): violation \(violates 'error': \d", text, re.MULTILINE)
    assert [int(k) for k in listed] == worst
    assert "and 70 more releases: .to_frame() has a row for each" in text
    assert repr(certificate) == text
    page = unmarked(to_html(report, sources))
    # One sentence for each decision, and in the table what tells releases apart.
    assert page.count("this release meets all its requirements") <= 2
    assert ">binding requirement</th>" in page
    decisions = [row["decision"] for row in csv.DictReader(to_csv(sources).decode().splitlines())]
    assert decisions == [verdict.decision.value for verdict in certificate.verdicts]


def declared(name: str, **claim: Any) -> Compared:
    sources = synthetic_sources(R=3, name=name)
    declaration = Declaration.model_construct(
        name=name, purpose=name, claim=ClaimPart(reliability_target="0.8", **claim),
        mechanism=(MechanismPart(name="m", generator="files", draws=2, seeds=(1, 2)),),
    )  # fmt: skip
    registry = Registry.model_construct(
        declaration=declaration,
        members=registered().members,
    )
    sources = replace(sources, registry=registry)
    return Compared(place=name, report=build_report(synthetic_sources(R=3)), sources=sources)


def test_a_comparison_shows_the_settings_that_differ_after_the_verdicts() -> None:
    found = compare([declared("a"), declared("b", mode="named")])
    assert found.settings.columns[0] == "setting"
    rows = {row[0]: row[1:] for row in found.settings.rows}
    assert rows["claim.mode"][1] == "named"
    # What is alike is left out, and so are names and purposes, which always differ.
    assert not {"claim.reliability_target", "mechanism m.draws", "name", "purpose"} & set(rows)
    page = comparison_page(found)
    assert page.index('id="verdict"') < page.index('id="settings"')


def test_audits_of_the_same_settings_say_so() -> None:
    (row,) = compare([declared("a"), declared("b")]).settings.rows
    assert row[1] == "none that is declared"
