"""The facts of development follow from the part that is in the folder, in amendments too."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.rules import resolve_limits
from proxyguard.documents.canonical import digest
from proxyguard.documents.registry import Facts, Registry
from proxyguard.tables.files import read_table_bytes

At = Callable[[str], Audit]
Value = dict[str, Any]

SITES = """\
format = 1
name = "sites"
purpose = "Are the sites right?"

[target]
table = "table.csv"
reserve = { rows = 120, seed = 11 }

[[requirement]]
name = "sites"
form = "query"
limit = "0.15"
query = { marginals = [["site"]] }

[[requirement]]
name = "together"
form = "query"
limit = "1"
query = { correlation = ["x", "y"], range = ["-4", "4"] }

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 8
seeds = { first = 100 }

[claim]
reliability_target = "0.5"
"""


@pytest.fixture(scope="module")
def sites_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where an audit of marginals is registered, and registered again by an amendment."""
    root = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(3)
    sites, x = rng.choice(list("abc"), 400, p=[0.6, 0.3, 0.1]), rng.normal(size=400).round(4)
    y = (2.0 * x + rng.normal(size=400)).round(4)
    lines = [f"{s},{a},{b}" for s, a, b in zip(sites, x.tolist(), y.tolist(), strict=True)]
    (root / "data").mkdir()
    (root / "data" / "table.csv").write_text("\n".join(["site,x,y", *lines]) + "\n")
    audit = sites_in(root)
    audit.init(SITES)
    audit.seal()
    audit.register()
    place = audit.folder / "audit.toml"
    place.write_text(place.read_text().replace("Are the sites", "So are the sites"))
    audit.amend("better words")
    return root


def sites_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


@pytest.fixture
def sites(sites_once: Path, tmp_path: Path) -> Audit:
    shutil.copytree(sites_once, tmp_path / "sites")
    return sites_in(tmp_path / "sites")


def fewer_sites(value: Value) -> None:
    """Let the marginal be over one site of three, with all queries that follow from that."""
    learned_otherwise(value, domains={"site": ["a"]})


WIDER = {"x": ["0.0", "10.0"], "y": ["0.0", "20.0"]}


def wider_scales(value: Value) -> None:
    """Standardise by scales on which any correlation is within its limit."""
    learned_otherwise(value, moments=WIDER)


def learned_otherwise(value: Value, **facts_of: Value) -> None:
    resolved = value["members"]["target"]
    resolved["facts"].update(facts_of)
    registry = Registry.of(value, "registry/0.json")
    declaration, facts = registry.declaration, registry.members["target"].facts
    assert isinstance(facts, Facts)
    resolved["requirements"] = [
        requirement.to_dict()
        for requirement in resolve_limits(declaration.members[0], facts, declaration.claim, 120)
    ]


def test_marginals_registered_and_amended_without_a_lie_hold(sites: Audit) -> None:
    assert sites.verify().good


def test_a_marginal_over_fewer_values_than_development_has_is_found(
    sites: Audit, forge: Any
) -> None:
    first = forge.edit_json(sites, "registry/0.json", fewer_sites)
    second = forge.edit_json(sites, "registry/1.json", fewer_sites)
    forge.rewrite(
        sites,
        developed=lambda body: body["members"]["target"].update(domains={"site": ["a"]}),
        registered=lambda body: body.update(declaration=digest(first)),
        amended=lambda body: body.update(declaration=digest(second), supersedes=digest(first)),
    )
    words = "registry/0.json, facts of target: the values of ['site'] are not those"
    assert words in forge.found_by(sites)


def test_constants_are_the_moments_of_training_and_no_others(sites: Audit, forge: Any) -> None:
    registry = json.loads(sites.folder.read("registry/0.json"))
    training = read_table_bytes(sites.folder.read("development/0.training.parquet"), "training")
    expected = {
        name: [float(f"{f(training[name]):.6g}") for f in (statistics.mean, statistics.stdev)]
        for name in ("x", "y")
    }
    recorded = registry["members"]["target"]["facts"]["moments"]
    assert {name: [float(n) for n in pair] for name, pair in recorded.items()} == expected
    first = forge.edit_json(sites, "registry/0.json", wider_scales)
    second = forge.edit_json(sites, "registry/1.json", wider_scales)
    forge.rewrite(
        sites,
        developed=lambda body: body["members"]["target"].update(moments=WIDER),
        registered=lambda body: body.update(declaration=digest(first)),
        amended=lambda body: body.update(declaration=digest(second), supersedes=digest(first)),
    )
    words = "facts of target: means and deviations are not those of the development part"
    assert words in forge.found_by(sites)


def test_an_amendment_that_rests_on_facts_of_its_own_is_found(sites: Audit, forge: Any) -> None:
    value = forge.edit_json(sites, "registry/1.json", fewer_sites)
    forge.rewrite(sites, amended=lambda body: body.update(declaration=digest(value)))
    words = "registry/1.json, facts of target: the values of ['site'] are not those"
    assert words in forge.found_by(sites)


def invented_policies(facts: Value) -> None:
    facts["references"] = {
        policy: dict.fromkeys(losses, "0.9") for policy, losses in facts["references"].items()
    }
    assert facts["references"]


def an_extra_fact(facts: Value) -> None:
    facts["external review"] = "passed"


def a_pilot_nobody_declared(facts: Value) -> None:
    facts["pilots"] = {"better": {"generator": "bootstrap", "options": {}, "means": {}}}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (invented_policies, "target, reference policies, "),
        (an_extra_fact, "members.target.external review: is nothing that"),
        (a_pilot_nobody_declared, "the pilots are not the declared ones"),
    ],
)
@pytest.mark.parametrize("version", ["as it is", "another"])
def test_a_fact_that_development_does_not_bear_out_is_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str, version: str
) -> None:
    audit = at("registered")

    def edit(value: Value) -> None:
        lie(value["members"]["target"]["facts"])
        if version == "another":  # the author's own word, which excuses no other number
            value["software"]["scikit-learn"] = "0.1"

    forge.rewrite(audit, developed=lambda body: lie(body["members"]["target"]))
    forge.registry(audit, edit)
    assert words in forge.found_by(audit)
