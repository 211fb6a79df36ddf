"""Audits of neural mechanisms, from the declaration to a stranger who draws again, on a CPU."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from conformance.draws import draw_here
from proxyguard.audit import draw as drawing
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import DECLARATION
from proxyguard.documents.releases import DrawnRelease
from proxyguard.draw.catalog import EXTRAS, TORCH, same_torch
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult
from proxyguard.errors import DrawError

SMALL = {
    "tvae": "epochs = 4, embedding = 8, compress = [16], decompress = [16]",
    "ctgan": "epochs = 2, batch_size = 40",
    "tabddpm": "steps = 30",
}
"""Options with which a network is trained in a moment, and learns little."""
NEURAL = sorted(name for name, extra in EXTRAS.items() if extra == TORCH)


def declared(stages: Path, root: Path, generator: str) -> Audit:
    """Return the small audit with five draws of a neural mechanism, three of them at once."""
    shutil.copytree(stages / "new", root)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    options = f'rows = 120, together = 3, device = "cpu", {SMALL[generator]}'
    place = audit.folder / DECLARATION
    text = place.read_text().replace("draws = 8", "draws = 5").replace('"0.6"', '"0.1"')
    place.write_text(
        text.replace(
            'generator = "bootstrap"',
            f'generator = "{generator}"\noptions = {{ {options} }}\non_failure = "worst_loss"',
        )
    )
    return audit


@pytest.mark.parametrize("generator", NEURAL)
def test_an_audit_of_a_neural_mechanism_is_drawn_together_and_again_by_a_stranger(
    stages: Path, tmp_path: Path, generator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = declared(stages, tmp_path / "work", generator)
    assert audit.check().problems == []
    audit.seal()
    audit.register()
    registry = audit.folder.registry(audit.journal())
    assert registry.software["torch"].startswith("2.")
    mechanism = registry.members["target"].mechanisms["bootstrap"]
    assert mechanism.to_dict()["batch"] == 3
    manifest = audit.draw().manifest
    draws = [d for d in manifest.draws("target", "bootstrap") if isinstance(d, DrawnRelease)]
    # A network that learned next to nothing may give one class alone, of which nothing is learned.
    assert len(draws) >= 2
    said = [draw.computed for draw in manifest.draws("target", "bootstrap") if draw.computed]
    assert len(said) == 5
    assert {facts["device"] for facts in said} == {"cpu"}
    assert sorted(facts["together"] for facts in said) == ["2", "2", "3", "3", "3"]
    audit.open()
    # On the same processor with the same torch a seed drawn alone has the bits of its batch.
    found = audit.verify(redraw=1)
    assert found.good, found.findings
    assert found.complete, found.not_checked
    (again,) = (words for words in found.checked if words.startswith("redraw: "))
    assert again.endswith("the same again")
    report = json.loads((audit.folder / "report.json").read_text())
    assert "How draws were computed" in [table["title"] for table in report["tables"]]
    # Whoever has no torch asks the generator all the same.
    monkeypatch.setitem(sys.modules, "torch", None)
    found = audit.verify()
    assert found.good, found.findings
    assert found.complete, found.not_checked


LEARNED = 'epochs = 120, learning_rate = "0.01"'
"""As much as gives both classes in every draw."""


@pytest.fixture(scope="module")
def networks(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an audit whose two draws of a network are frozen."""
    root = tmp_path_factory.mktemp("networks") / "work"
    audit = declared(stages, root, "tvae")
    place = audit.folder / DECLARATION
    text = place.read_text().replace("epochs = 4", LEARNED).replace("draws = 5", "draws = 2")
    place.write_text(text)
    audit.seal()
    audit.register()
    audit.draw()
    return root


@pytest.fixture
def frozen(networks: Path, tmp_path: Path) -> Audit:
    root = tmp_path / "frozen"
    shutil.copytree(networks, root)
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


@pytest.mark.parametrize(
    ("fact", "lie", "words"),
    [
        (None, None, "has no device and no processor and no torch and no together"),
        ("device", None, "has no device"),
        ("processor", None, "has no processor"),
        ("torch", None, "has no torch"),
        ("together", None, "has no together"),
        ("device", "cuda", "computed on 'cuda', and registered is device = 'cpu'"),
        ("torch", "1.0.0", "computed by torch 1.0.0, and registered is torch 2."),
    ],
)
def test_a_network_is_computed_as_registered_and_says_how(
    frozen: Audit, forge: Any, fact: str | None, lie: str | None, words: str
) -> None:
    def said_otherwise(manifest: dict[str, Any]) -> None:
        draw = forge.draws_of(manifest)[1]
        if fact is None:
            del draw["computed"]
        elif lie is None:
            del draw["computed"][fact]
        else:
            draw["computed"][fact] = lie

    assert frozen.verify().good
    forge.manifest(frozen, said_otherwise)
    (finding,) = frozen.verify().findings
    assert finding.place == "releases.json"
    assert words in finding.problem


def exchanged(forge: Any, manifest: dict[str, Any], **said: str) -> None:
    """Store what each of two seeds gave as the draw of the other, and say how it was computed."""
    draws = forge.draws_of(manifest)
    first, second = draws[0]["seed"], draws[1]["seed"]
    draws[0], draws[1] = {**draws[1], "seed": first}, {**draws[0], "seed": second}
    for draw in draws:
        draw["computed"] |= said


def test_a_false_release_of_a_network_is_found_whatever_batch_it_names(
    frozen: Audit, forge: Any
) -> None:
    forge.manifest(frozen, lambda manifest: exchanged(forge, manifest, together="50"))
    found = frozen.verify(redraw=2)
    assert len(found.findings) == 2
    assert all("another content" in finding.problem for finding in found.findings)


def test_a_false_release_of_a_network_that_names_another_processor_is_not_confirmed(
    frozen: Audit, forge: Any
) -> None:
    forge.manifest(frozen, lambda manifest: exchanged(forge, manifest, processor="x86_64 none"))
    found = frozen.verify(redraw=2)
    assert not any(words.startswith("redraw: ") for words in found.checked)
    assert found.good, found.findings
    *told, count = found.not_checked
    assert len(told) == 2
    assert all("processor x86_64 none then" in words for words in told)
    assert count.startswith("redraw: 0 of the 2 seeds")


def test_a_network_is_not_drawn_with_another_torch_than_is_registered(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = declared(stages, tmp_path / "work", "tvae")
    audit.seal()
    audit.register()
    monkeypatch.setattr("proxyguard.audit.home.installed_version", lambda name: "1.0.0")
    with pytest.raises(DrawError, match=r"torch 2\..* was registered, and here is 1\.0\.0"):
        audit.draw()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2.13.0", "2.13.0+cu130", True),
        ("2.13.0+cpu", "2.13.0+cu130", True),
        ("2.13.0", "2.13.1", False),
        (None, "2.13.0", False),
    ],
)
def test_builds_of_one_torch_are_the_same_version(
    first: str | None, second: str, same: bool
) -> None:
    assert same_torch(first, second) is same


def test_without_torch_check_says_what_to_install(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = declared(stages, tmp_path / "work", "tvae")
    monkeypatch.setitem(sys.modules, "torch", None)
    (problem,) = audit.check().problems
    assert 'pip install "proxyguard[torch]"' in problem
    assert "pip install torch==2.13.0" in problem


def test_draws_that_a_kill_left_are_kept_and_the_rest_are_the_same(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "work"
    audit = declared(stages, root, "tvae")
    place = audit.folder / DECLARATION
    # Enough to give both classes: in this process a draw that fails would end the run.
    place.write_text(place.read_text().replace("epochs = 4", LEARNED))
    audit.seal()
    audit.register()
    shutil.copytree(root, tmp_path / "whole")

    def dying(
        job: DrawJob, seeds: Sequence[int], *, keep: Callable[..., None], **rest: Any
    ) -> None:
        kept: list[DrawResult] = []

        def keep_two(result: DrawResult) -> None:
            if len(kept) == 2:
                raise KeyboardInterrupt
            kept.append(result)
            keep(result)

        draw_here(job, seeds, keep=keep_two, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(drawing, "draw_all", dying)
        with pytest.raises(KeyboardInterrupt):
            audit.draw()
    left = sorted((audit.folder / "draws").rglob("*.json"))
    assert len(left) == 2
    written = [path.stat().st_mtime_ns for path in left]
    resumed = audit.draw().manifest.draws("target", "bootstrap")
    assert [path.stat().st_mtime_ns for path in left if path.exists()] in ([], written)
    places = {"home": tmp_path / "whole" / "home", "data": [tmp_path / "whole" / "data"]}
    whole = Audit(tmp_path / "whole" / "audit", workers=1, **places).draw().manifest
    again = whole.draws("target", "bootstrap")
    assert [draw.seed for draw in resumed] == [draw.seed for draw in again]
    contents = [
        [draw.content for draw in made if isinstance(draw, DrawnRelease)]
        for made in (resumed, again)
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) >= 2
