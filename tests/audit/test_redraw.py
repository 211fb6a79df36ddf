"""Whoever verifies can draw registered seeds again and finds releases that were exchanged."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from proxyguard.audit import redraw as redraw_module
from proxyguard.audit.apart import Redraw, refit_apart, run_apart
from proxyguard.audit.audit import Audit
from proxyguard.audit.development import MemberDevelopment, fit_source
from proxyguard.audit.folder import DECLARATION, RELEASES
from proxyguard.audit.home import software_versions
from proxyguard.cli.main import app
from proxyguard.draw.catalog import EXTRAS, Extra
from proxyguard.draw.processes import child_environment
from proxyguard.models.npy import read_content

At = Callable[[str], Audit]
Value = dict[str, Any]


def few_draws(stages: Path, root: Path, *changes: tuple[str, str]) -> Audit:
    """Return the small audit with two draws, registered."""
    shutil.copytree(stages / "new", root)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    place = audit.folder / DECLARATION
    text = place.read_text().replace("draws = 8", "draws = 2").replace('"0.6"', '"0.1"')
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    place.write_text(text)
    audit.seal()
    audit.register()
    return audit


@pytest.fixture(scope="module")
def kept(
    stages: Path, tmp_path_factory: pytest.TempPathFactory, draw_here: Callable[..., None]
) -> Path:
    root = tmp_path_factory.mktemp("kept") / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyguard.audit.draw.draw_all", draw_here)
        few_draws(stages, root).draw()
    return root


@pytest.fixture(scope="module")
def answers() -> dict[Any, Any]:
    """What each seed gave when it was drawn again, and each release when it was fitted again."""
    return {}


@pytest.fixture
def once(answers: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw each seed again once for all tests: what differs between them is what was stored."""

    def remembered(folder: Any, job: Any, *rest: Any, timeout: float) -> Any:
        if not isinstance(job, Redraw):
            return run_apart(folder, job, *rest, timeout=timeout)
        if job.seed not in answers:
            answers[job.seed] = run_apart(folder, job, *rest, timeout=timeout)
        return answers[job.seed]

    def refitted(folder: Any, member: str, made: Any, release: bytes, *, timeout: float) -> Any:
        key = (made.model_dump_json(), release)
        if key not in answers:
            answers[key] = refit_apart(folder, member, made, release, timeout=timeout)
        return answers[key]

    monkeypatch.setattr("proxyguard.audit.apart.run_apart", remembered)
    monkeypatch.setattr("proxyguard.audit.redraw.refit_apart", refitted)


@pytest.fixture
def drawn(kept: Path, tmp_path: Path) -> Audit:
    root = tmp_path / "work"
    shutil.copytree(kept, root)
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def test_registered_seeds_drawn_again_give_the_stored_releases(drawn: Audit) -> None:
    shown = CliRunner().invoke(app, ["verify", str(drawn.folder.path), "--redraw", "1"])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if "redraw: target/bootstrap" in line]
    assert len(lines) == 1
    assert lines[0].split("seed ")[1].split(":")[0] in ("100", "101")


def another_release(forge: Any, manifest: Value) -> None:
    """Store what seed 101 gave as the draw of seed 100, and the reverse."""
    draws = forge.draws_of(manifest)
    draws[0], draws[1] = {**draws[1], "seed": 100}, {**draws[0], "seed": 101}


def another_model(forge: Any, manifest: Value) -> None:
    draws = forge.draws_of(manifest)
    draws[0]["model"], draws[1]["model"] = draws[1]["model"], draws[0]["model"]


def another_threshold(forge: Any, manifest: Value) -> None:
    for draw in forge.draws_of(manifest):
        draw["threshold"] = "0.99"


def test_a_model_that_predicts_no_class_of_the_outcome_is_another_one(
    drawn: Audit, once: None, forge: Any
) -> None:
    def lie(manifest: Value) -> None:
        for draw in forge.draws_of(manifest):
            content = read_content(drawn.folder.store.get(draw["model"]))
            arrays = {**content.arrays, "classes_": np.array([5.0, 6.0])}
            draw["model"] = drawn.folder.store.put(replace(content, arrays=arrays).to_bytes())

    forge.manifest(drawn, lie)
    found = drawn.verify(redraw=1)
    assert "another model" in found.findings[0].problem


def invented_stages(forge: Any, manifest: Value) -> None:
    for draw in forge.draws_of(manifest):
        draw["stages"] = ["everything there is"]


def invented_random_preparation(forge: Any, manifest: Value) -> None:
    for draw in forge.draws_of(manifest):
        draw["prepared_at_random"] = True


def invented_failures(forge: Any, manifest: Value) -> None:
    draws = forge.draws_of(manifest)
    for i, draw in enumerate(draws):
        draws[i] = {"format": 1, "seed": draw["seed"], "status": "failed", "error": "no luck",
                    "prepared_at_random": False, "guard": draw["guard"]}  # fmt: skip


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (another_release, "another content"),
        (another_model, "another model"),
        (another_threshold, "another threshold"),
        (invented_stages, "another stages"),
        (invented_random_preparation, "another prepared at random"),
        (invented_failures, "another status (failed, now drawn)"),
    ],
)
def test_a_draw_that_its_seed_does_not_give_is_found(
    drawn: Audit, once: None, forge: Any, lie: Callable[[Any, Value], None], words: str
) -> None:
    forge.manifest(drawn, lambda manifest: lie(forge, manifest))
    assert drawn.verify().good  # nobody can tell without drawing again
    found = drawn.verify(redraw=1)
    assert [finding.place for finding in found.findings] == [RELEASES]
    assert words in found.findings[0].problem


def without(key: str) -> Callable[[Value], Value]:
    return lambda answer: {name: answer[name] for name in answer if name != key}


@pytest.mark.reduced(cases=7)
@pytest.mark.parametrize(
    ("task", "change", "words"),
    [
        ("refit", without("model"), "wrong or missing: model"),
        ("refit", lambda answer: {**answer, "model": ""}, "wrong or missing: model"),
        ("refit", lambda answer: {**answer, "model": "AAAA"}, "cannot predict"),
        ("refit", lambda answer: {**answer, "threshold": ["0.5"]}, "wrong or missing: threshold"),
        ("refit", lambda answer: {**answer, "threshold": "much"}, "wrong or missing: threshold"),
        ("refit", lambda answer: {**answer, "seed": 999}, "it answered 999"),
        ("redraw", lambda answer: {**answer, "seed": 999}, "it answered 999"),
        ("redraw", without("prepared_at_random"), "wrong or missing: prepared_at_random"),
        ("redraw", without("table"), "wrong or missing: table"),
        ("redraw", lambda answer: {**answer, "table": "AAAA"}, "it gave no table"),
        ("redraw", lambda answer: [answer], "it answered nothing that could be compared"),
        ("source", without("model"), "wrong or missing: model"),
        ("source", lambda answer: {**answer, "status": "failed"}, "wrong or missing"),
        ("source", lambda answer: {"status": "failed", "error": ""}, "could not be fitted again"),
    ],
)
def test_an_answer_of_named_code_that_is_not_whole_confirms_nothing(
    drawn: Audit, forge: Any, monkeypatch: pytest.MonkeyPatch, children: dict[Any, Any],
    task: str, change: Callable[[Value], Any], words: str,
) -> None:  # fmt: skip
    # Only the models were exchanged: whoever compares none finds everything as it was.
    forge.manifest(drawn, lambda manifest: another_model(forge, manifest))

    def run(folder: Any, job: Any, *rest: Any, timeout: float) -> Any:
        key = job.model_dump_json()
        if key not in children:
            children[key] = run_apart(folder, job, *rest, timeout=timeout)
        return change(children[key]) if job.task == task else children[key]

    monkeypatch.setattr("proxyguard.audit.apart.run_apart", run)
    found = drawn.verify(redraw=1)
    told = [one for one in found.not_checked if words in one]
    assert len(told) == 1, (found.not_checked, found.findings)
    begins = "refit: the source" if task == "source" else "redraw: target/bootstrap"
    assert told[0].startswith(begins)
    assert not any(one.startswith(begins) for one in found.checked)
    assert found.findings == [] or task == "source"


@pytest.fixture(scope="module")
def children() -> dict[Any, Any]:
    """What the child of each job answered."""
    return {}


@pytest.mark.parametrize("other", ["numpy", "arithmetic"])
def test_with_other_versions_or_kernels_a_difference_is_not_checked_and_no_lie(
    other: str, drawn: Audit, once: None, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge.manifest(drawn, lambda manifest: another_threshold(forge, manifest))
    here = {**software_versions(), other: "99.0"}
    monkeypatch.setattr("proxyguard.audit.redraw.software_versions", lambda: here)
    found = drawn.verify(redraw=1)
    assert found.good
    assert any(other in words and "99.0 here" in words for words in found.not_checked)


ARITHMETIC = "from proxyguard.audit.home import software_versions as s; print(s()['arithmetic'])"


def test_what_draws_again_computes_with_the_kernels_of_who_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = set()
    for kernels in ("Nehalem", "Haswell"):  # OpenBLAS knows both on every x86
        monkeypatch.setenv("OPENBLAS_CORETYPE", kernels)
        child = child_environment(str(tmp_path))
        assert child["OPENBLAS_CORETYPE"] == kernels
        again = subprocess.run(
            [sys.executable, "-c", ARITHMETIC],
            env=child,
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(again.stdout)
    assert len(said) == (2 if platform.machine() == "x86_64" else 1)


FOREIGN = """\
class Rows:
    def describe(self):
        return {}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        return self.source.sample(frac=1.0, replace=True, random_state=seed.take("rows"))
"""
NOISE = """\
class Noise:
    def describe(self):
        return {"privacy": {"epsilon": "1", "delta": "0", "unit": "one row", "fits": "once"}}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        return self.source.sample(frac=1.0, replace=True, random_state=seed.take("rows"))
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FOREIGN, "it runs code that is not ours"),
        (NOISE, "not repeatable: its noise comes from the system"),
    ],
    ids=["foreign", "noise"],
)
def test_what_cannot_be_drawn_again_is_said(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    draw_here: Callable[..., None], text: str, words: str,
) -> None:  # fmt: skip
    name = "Rows" if text is FOREIGN else "Noise"
    (tmp_path / "pg_redrawn.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_redrawn", raising=False)
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    change = ('generator = "bootstrap"', f'generator = "pg_redrawn:{name}"')
    audit = few_draws(stages, tmp_path / "work", change)
    audit.draw()
    found = audit.verify(redraw=1)
    assert found.good, found.findings
    assert any(words in one for one in found.not_checked)
    assert not any(one.startswith("redraw: ") for one in found.checked)
    # Its models are fitted again all the same, from the stored releases.
    assert any(one.startswith("refit: target/bootstrap, seed 10") for one in found.checked)
    if text is FOREIGN:
        found = audit.verify(redraw=1, run_named_code=True)
        assert found.good, found.findings
        assert found.complete
        assert any(one.startswith("redraw: target/bootstrap, seed") for one in found.checked)
        # Nothing in the folder is broken by a version of the generator that came later.
        (tmp_path / "pg_redrawn.py").write_text(text.replace("frac=1.0", "frac=0.9"))
        found = audit.verify(redraw=1, run_named_code=True)
        assert found.good, found.findings
        assert any("is not the one that was audited" in one for one in found.not_checked)


# In this process it is computed on the device that the environment names, and in the process that
# draws again, which has an environment of its own, on a CPU, where it gives what `here` says.
OTHER_BITS = """\
import os


class Bits:
    def __init__(self, here):
        self.here = here

    def describe(self):
        return {"here": self.here}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        device = os.environ.get("PG_TOY_DEVICE")
        seed.computed(device=device or "cpu", together=2 if device else 1)
        release = self.source.sample(frac=1.0, replace=True, random_state=seed.take("rows"))
        if "PG_TOY_DEVICE" in os.environ:
            return release
        if self.here == "other bits":
            return release.assign(first=release["first"] * (1 + 1e-7))
        if self.here == "other labels":
            return release.assign(label=release["label"].map({"yes": "no", "no": "yes"}))
        if self.here == "one class":
            return release.assign(label="yes")
        if self.here == "failure":
            raise ValueError("no number came out")
        return release
"""


@pytest.fixture
def toy(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> Callable[..., Audit]:
    """Return what draws two releases on a device."""
    (tmp_path / "pg_redrawn.py").write_text(OTHER_BITS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_redrawn", raising=False)
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)

    def drawn_on(device: str, here: str) -> Audit:
        monkeypatch.setenv("PG_TOY_DEVICE", device)
        declared = f'generator = "pg_redrawn:Bits"\noptions = {{ here = "{here}" }}'
        audit = few_draws(stages, tmp_path / "work", ('generator = "bootstrap"', declared))
        audit.draw()
        return audit

    return drawn_on


def test_other_bits_of_another_device_are_not_checked_however_alike_their_losses_are(
    toy: Callable[..., Audit],
) -> None:
    found = toy("cuda", "other bits").verify(redraw=1, run_named_code=True)
    assert found.good, found.findings
    assert not any(words.startswith("redraw: ") for words in found.checked)
    told, count = found.not_checked
    assert "computed otherwise here (device cuda then, cpu here; together 2 then, 1 here)" in told
    assert "the mean losses on development were compared: that of 'Brier" in told
    assert "lies 0.0000 of its range apart, at most 0.02" in told
    assert "Another release with like losses would pass this too" in told
    assert "what the two expose is not compared" in told
    # (1 - q)^K counts what was compared by its content.
    assert count.startswith("redraw: 0 of the 1 seeds")


def test_other_bits_of_the_same_device_are_a_lie(toy: Callable[..., Audit]) -> None:
    found = toy("cpu", "other bits").verify(redraw=1, run_named_code=True)
    assert [finding.place for finding in found.findings] == [RELEASES]
    assert "drawn again, it has another content" in found.findings[0].problem


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ("other labels", "of its range apart, more than 0.02"),
        ("one class", "Nothing could be learned from it here: DrawError: the release has one"),
        ("failure", "another status (drawn, now failed)"),
    ],
)
def test_what_another_device_makes_of_a_seed_and_is_far_away_confirms_nothing(
    toy: Callable[..., Audit], here: str, words: str
) -> None:
    found = toy("cuda", here).verify(redraw=1, run_named_code=True)
    assert found.good, found.findings
    assert not any(told.startswith("redraw: ") for told in found.checked)
    told, count = found.not_checked
    assert words in told
    assert count.startswith("redraw: 0 of the 1 seeds")


def test_a_failure_on_another_device_that_does_not_come_again_is_no_lie(
    toy: Callable[..., Audit], forge: Any
) -> None:
    audit = toy("cuda", "nothing")

    def failed_there(manifest: Value) -> None:
        invented_failures(forge, manifest)
        for draw in forge.draws_of(manifest):
            draw["computed"] = {"device": "cuda", "together": "2"}

    forge.manifest(audit, failed_there)
    found = audit.verify(redraw=1, run_named_code=True)
    assert found.good, found.findings
    told, _ = found.not_checked
    assert "another status (failed, now drawn)" in told
    assert "device cuda then, cpu here" in told


def test_what_only_the_record_says_of_how_a_draw_was_computed_excuses_nothing(
    drawn: Audit, once: None, forge: Any
) -> None:
    def computed_elsewhere(manifest: Value) -> None:
        another_release(forge, manifest)
        for draw in forge.draws_of(manifest):
            draw["computed"] = {"device": "cuda"}

    forge.manifest(drawn, computed_elsewhere)
    found = drawn.verify(redraw=1)
    assert "another content" in found.findings[0].problem


@pytest.mark.parametrize(
    ("then", "here", "words"),
    [
        ({"device": "cpu", "together": "50"}, {"device": "cpu", "together": "1"}, ""),
        ({"device": "cuda", "together": "50"}, {"device": "cuda", "together": "1"},
         "together 50 then, 1 here"),
        ({"device": "cpu", "torch": "2.13.0"}, {"device": "cpu", "torch": "2.14.0"},
         "torch 2.13.0 then, 2.14.0 here"),
        ({}, {"device": "cpu"}, "device unsaid then, cpu here"),
        ({"device": "cuda"}, {}, ""),
    ],
)  # fmt: skip
def test_a_batch_changes_no_bit_on_a_cpu_and_may_elsewhere(
    then: dict[str, str], here: dict[str, str], words: str
) -> None:
    assert redraw_module._computed_otherwise(then, here) == words


def test_torch_belongs_to_the_versions_of_an_audit_that_needs_it_and_of_no_other(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = few_draws(stages, tmp_path / "plain")
    assert "torch" not in plain.folder.registry(plain.journal()).software
    monkeypatch.setitem(EXTRAS, "bootstrap", Extra("toy", ("pytest",), "pytest"))
    audit = few_draws(stages, tmp_path / "work")
    registry = audit.folder.registry(audit.journal())
    assert registry.software["pytest"] == pytest.__version__
    (member,) = registry.declaration.members
    chosen = redraw_module.Repeatable(
        member=member, mechanism="bootstrap", record=None, draws=True, fits=False
    )
    assert redraw_module._other_software(registry, chosen) == ""
    monkeypatch.setattr("proxyguard.audit.home.installed_version", lambda name: "99")
    assert "pytest" in redraw_module._other_software(registry, chosen)
    assert "pytest" not in redraw_module._other_software(registry)


@pytest.mark.parametrize(
    ("lie", "words"),
    [(another_model, "another model"), (another_threshold, "another threshold")],
)
def test_models_are_fitted_again_where_only_their_author_can_draw(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    draw_here: Callable[..., None], forge: Any, lie: Callable[[Any, Value], None], words: str,
) -> None:  # fmt: skip
    (tmp_path / "pg_redrawn.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_redrawn", raising=False)
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    change = ('generator = "bootstrap"', 'generator = "pg_redrawn:Rows"')
    audit = few_draws(stages, tmp_path / "work", change)
    audit.draw()
    forge.manifest(audit, lambda manifest: lie(forge, manifest))
    assert audit.verify().good
    found = audit.verify(redraw=1)
    assert [finding.place for finding in found.findings] == [RELEASES]
    assert "fitted again, it has" in found.findings[0].problem
    assert words in found.findings[0].problem


def test_delivered_files_are_read_again_where_the_verifier_has_them(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    root = tmp_path / "work"
    rows = (stages / "new" / "data" / "table.csv").read_text().splitlines()
    (tmp_path / "given" / "drawn").mkdir(parents=True)
    for index in range(2):
        part = rows[1 + 100 * index : 400 + 100 * index]
        (tmp_path / "given" / "drawn" / f"{index}.csv").write_text("\n".join([rows[0], *part]))
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    monkeypatch.setenv("PROXYGUARD_DATA", str(tmp_path / "given"))
    files = 'generator = "files"\noptions = { folder = "drawn", first = 100 }'
    audit = few_draws(stages, root, ('generator = "bootstrap"', files))
    audit.draw()
    found = audit.verify(redraw=1)
    assert found.good, found.findings
    assert found.complete, found.not_checked
    monkeypatch.delenv("PROXYGUARD_DATA")
    found = audit.verify(redraw=1)
    assert found.good, found.findings
    assert any("could not be run here" in one for one in found.not_checked)


def test_seeds_that_were_not_drawn_again_are_said_where_there_are_none(
    at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = at("drawn")
    monkeypatch.setattr(redraw_module, "_recorded", lambda *_: iter(()))
    found = audit.verify(redraw=3)
    assert not found.complete
    assert any("0 of the 3 seeds" in words for words in found.not_checked)


def test_before_registration_nothing_can_be_drawn_again(at: Any) -> None:
    found = at("sealed").verify(redraw=3)
    assert found.not_checked == ["redraw: nothing is drawn yet"]


def test_a_source_that_was_fitted_to_other_labels_is_fitted_again_and_found(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    # The risks follow from the stored model, and every release is better than this source: all
    # that is computed from the record holds.
    read = MemberDevelopment.training

    def turned(development: MemberDevelopment) -> pd.DataFrame:
        table = read(development)
        return table.assign(label=table["label"].map({"yes": "no", "no": "yes"}))

    def fit_poorly(development: MemberDevelopment) -> Any:
        with monkeypatch.context() as lie:
            lie.setattr(MemberDevelopment, "training", turned)
            return fit_source(development)

    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    with monkeypatch.context() as lie:
        lie.setattr("proxyguard.audit.development.fit_source", fit_poorly)
        audit = few_draws(stages, tmp_path / "work")
    audit.draw()
    audit.open()
    assert audit.verify(with_target=True).good
    (stated,) = (
        one.words for one in audit.certificate().predicate.stated_not_checked
        if one.about == "models"
    )  # fmt: skip
    assert "the source's model was fitted to the training part" in stated
    found = audit.verify(redraw=1)
    assert [f.place for f in found.findings] == ["registry"]
    assert "the source of target: fitted again to the training part" in found.findings[0].problem
