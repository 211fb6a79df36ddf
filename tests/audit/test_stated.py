"""What an author states of generators, draws and targets follows, or is listed as unchecked."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxyguard.audit import stated as stated_module
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import DECLARATION, RELEASES
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.errors import SealError
from proxyguard.seal.sealed_file import SealedFile

At = Callable[[str], Audit]
Value = dict[str, Any]


def audit_in(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def mechanism_of(value: Value) -> Value:
    found: Value = value["members"]["target"]["mechanisms"]["bootstrap"]
    return found


def private_words(value: Value) -> None:
    mechanism_of(value)["privacy"] = ["One private fit (epsilon 0.01; unit: one row)."]


def private_words_by_an_accountant(value: Value) -> None:
    mechanism_of(value)["privacy"] = ["epsilon 0.01, by dp-accounting 9.9"]


def private_description(value: Value) -> None:
    promise = {"epsilon": "0.01", "delta": "0", "unit": "one row", "fits": "once"}
    mechanism_of(value)["describe"]["privacy"] = promise


def other_settings(value: Value) -> None:
    mechanism_of(value)["describe"]["rows"] = 10**9


def other_code(value: Value) -> None:
    mechanism_of(value)["origin"]["path"] = "trusted_synthesis:Gold"


def larger_batches(value: Value) -> None:
    mechanism_of(value)["batch"] = 8


def other_procedure(value: Value) -> None:
    value["members"]["target"]["procedure"]["procedure"]["seed"] = 99


def other_pipeline(value: Value) -> None:
    pipelines = value["members"]["target"]["procedure"]["pipelines"]
    pipelines["fixed_logistic"]["path"] = "gold:standard"


def another_pilot(value: Value) -> None:
    mechanism_of(value)["pilot"] = "the best of twenty"


def fewer_features(value: Value) -> None:
    value["members"]["target"]["features"] = ["first"]


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (private_words, "on privacy it is registered that"),
        (private_words_by_an_accountant, "on privacy it is registered that"),
        (private_description, "describe is registered as"),
        (other_settings, "describe is registered as"),
        (other_code, "its code is registered as trusted_synthesis:Gold"),
        (larger_batches, "batch is registered as 8"),
        (other_procedure, "the procedure is registered otherwise than declared"),
        (other_pipeline, "the procedure is registered otherwise than declared"),
        (another_pilot, "was given to pilot 'the best of twenty' by no rule"),
        (fewer_features, "the features are registered as ['first']"),
    ],
)
def test_a_registered_statement_that_does_not_follow_is_found(
    at: At, forge: Any, lie: Callable[[Value], None], words: str
) -> None:
    audit = at("registered")
    assert audit.verify().good
    forge.registry(audit, lie)
    assert words in forge.found_by(audit)


ACCOUNTED = (
    "To release all 8 costs epsilon 8, delta 0 by basic composition, or epsilon {}, delta 1e-06 by "
    "optimal composition (dp-accounting {}, privacy loss distributions)."
)
PROMISE = {"epsilon": "1", "delta": "0", "unit": "one row", "fits": "each draw"}


@pytest.mark.parametrize(
    ("stated", "broken"),
    [
        ([ACCOUNTED.format("7.100", "0.1"), "Not covered: names."], False),
        ([ACCOUNTED.format("7.100", "0.4"), "Not covered: names."], True),
        ([ACCOUNTED.format("7.100", "0.1")], True),
        ([ACCOUNTED.format("7.100", "0.1"), "Not covered: nothing."], True),
        ([ACCOUNTED.format("7.100", "0.1").replace("8", "1"), "Not covered: names."], True),
        (["epsilon 0.01 (dp-accounting 0.1)", "Not covered: names."], True),
        ([ACCOUNTED.format("0.001", "0.1"), "Not covered: names."], True),
        ([ACCOUNTED.format("...", "0.1"), "Not covered: names."], True),
        ([ACCOUNTED.format("7.100", "0.1-reviewed-by-ISO"), "Not covered: names."], True),
        (None, True),
    ],
    ids=["another version", "same version", "a line less", "another line", "another sum",
         "other words", "far less", "no number", "words for a version", "nothing"],
)  # fmt: skip
def test_another_accountant_excuses_its_own_number_on_privacy_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, stated: list[str] | None, broken: bool
) -> None:
    derived = [ACCOUNTED.format("7.000", "0.4"), "Not covered: names."]
    monkeypatch.setattr(stated_module, "privacy_lines", lambda *_, anew: derived)
    registered: Any = SimpleNamespace(describe={"privacy": PROMISE}, privacy=stated)
    mechanism: Any = SimpleNamespace(draws=8, inclusion="all")
    (doubt,) = stated_module._privacy_doubts("target/private", registered, mechanism)
    assert doubt.broken is broken


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda sealed: sealed.update(records=30000), "30000 records are recorded, the sealed"),
        (lambda sealed: sealed.update(estimand="everybody"), "the estimand is 'everybody'"),
        (lambda sealed: sealed["development"].update(training=10**6), "development has"),
        (lambda sealed: sealed["kinds"][0].__setitem__(1, "text"), "the columns are recorded as"),
        (lambda sealed: sealed.update(negative="never"), "'never' is recorded as the other label"),
    ],
)
def test_a_sealed_statement_that_does_not_follow_is_found(
    at: At, forge: Any, lie: Callable[[Value], object], words: str
) -> None:
    audit = at("registered")
    forge.rewrite(audit, sealed=lambda body: lie(body["members"]["target"]))
    assert words in forge.found_by(audit)


def test_a_sealed_file_that_says_it_holds_more_records_is_found(at: At, forge: Any) -> None:
    audit = at("registered")
    place = audit.folder / "target" / "0.sealed"
    line, _, chunks = place.read_bytes().partition(b"\n")
    head = {**json.loads(line), "rows": 30000}
    place.write_bytes(canonical_bytes(head) + b"\n" + chunks)
    forge.rewrite(audit, sealed=lambda body: body["members"]["target"].update(records=30000))
    assert "says that it has 30000 records in 2 chunks" in forge.found_by(audit)


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"!"])
def test_a_sealed_file_of_another_length_has_another_shape(
    at: At, change: Callable[[bytes], bytes]
) -> None:
    place = at("sealed").folder / "target" / "0.sealed"
    SealedFile(place).check_shape()
    place.write_bytes(change(place.read_bytes()))
    with pytest.raises(SealError, match="does not end with its last chunk"):
        SealedFile(place).check_shape()


@pytest.mark.parametrize(
    "lie",
    [
        lambda predicate: predicate["conditional_on"].update(bootstrap=[]),
        lambda predicate: predicate["redraws"].update(bootstrap=["everything there is"]),
        lambda predicate: predicate.update(stated_not_checked=[]),
        lambda predicate: predicate.update(privacy={"bootstrap": ["epsilon 0.01"]}),
    ],
    ids=["nothing it is conditional on", "invented redraws", "nothing unchecked", "privacy"],
)
def test_a_certificate_that_states_more_than_the_record_is_found(
    at: At, forge: Any, lie: Callable[[Value], object]
) -> None:
    audit = at("certified")
    forge.certificate(audit, predicate=lie)
    assert "certificate.json: " in forge.found_by(audit)


def test_diagnostics_that_are_called_certified_are_found(at: At, forge: Any) -> None:
    audit = at("certified")
    label = {"label": "certified by the whole audit"}
    forge.certificate(audit, evidence=lambda evidence: evidence["diagnostics"].update(label))
    assert "the diagnostics are labelled 'certified by" in forge.found_by(audit)


def test_what_is_redrawn_is_derived_and_stands_in_no_manifest(at: At) -> None:
    audit = at("certified")
    content = json.loads(audit.folder.read(RELEASES))["members"]["target"]["bootstrap"]
    assert set(content) == {"draws"}
    certificate = audit.certificate().to_dict()
    assert certificate["redraws"] == {"bootstrap": ["rows of the release", "logistic fit"]}
    assert "the source table" in certificate["conditional_on"]["bootstrap"]


def test_a_draw_that_hides_whether_its_preparation_was_random_is_found(at: At, forge: Any) -> None:
    audit = at("certified")

    def edit(manifest: Value) -> None:
        for draw in forge.draws_of(manifest):
            del draw["prepared_at_random"]

    forge.manifest(audit, edit)
    forge.rewrite(audit, opened=lambda body: body.update(releases=audit.folder.sha256(RELEASES)))
    assert not audit.verify().good


def test_certificate_report_and_terminal_list_what_stays_the_authors_word(at: At) -> None:
    audit = at("certified")
    listed = {one.about: one.words for one in audit.certificate().predicate.stated_not_checked}
    assert {
        "software", "times", "target", "lineage", "statistics", "draws", "draws not kept", "models",
    } <= set(listed)  # fmt: skip
    assert "whether the preparation was random" in listed["draws"]
    assert "when the claim was amended" in listed["draws not kept"]  # pending
    assert "dropped and made again" in listed["draws not kept"]  # again
    for name in ("report.md", "report.html"):
        assert "Stated, not checked" in (audit.folder / name).read_text()
    assert audit.verify().stated == list(listed)


FOREIGN = """\
class Rows:
    def describe(self):
        {spring}
        return {{"mechanism": "rows of the source", "promise": "{promise}"}}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        return self.source.sample(frac=1.0, replace=True, random_state=seed.take("rows"))
"""


@pytest.fixture
def foreign(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> Audit:
    """The small audit with a generator of somebody else's, registered."""
    (tmp_path / "pg_rows.py").write_text(FOREIGN.format(spring="", promise="none"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_rows", raising=False)
    shutil.copytree(stages / "new", tmp_path / "work")
    audit = audit_in(tmp_path / "work")
    place = audit.folder / DECLARATION
    place.write_text(
        place.read_text().replace('generator = "bootstrap"', 'generator = "pg_rows:Rows"')
    )
    audit.seal()
    audit.register()
    return audit


def test_a_generator_of_somebody_elses_is_asked_where_that_is_wanted(
    foreign: Audit, forge: Any, tmp_path: Path
) -> None:
    found = foreign.verify()
    assert found.good, found.findings
    assert ["pg_rows:Rows alone could tell" in words for words in found.not_checked] == [True]
    assert foreign.verify(run_named_code=True).complete
    forge.registry(foreign, lambda value: mechanism_of(value)["describe"].update(promise="all"))
    assert foreign.verify().good
    assert "describe is registered as" in "".join(
        one.problem for one in foreign.verify(run_named_code=True).findings
    )


def test_code_that_moved_on_since_is_not_checked_and_no_broken_folder(
    foreign: Audit, tmp_path: Path
) -> None:
    code = tmp_path / "pg_rows.py"
    code.write_text(FOREIGN.format(spring="", promise="version 2"))
    found = foreign.verify(run_named_code=True)
    assert found.good, found.findings
    assert any(
        "the code of pg_rows:Rows is not the one that was audited (changed: pg_rows)" in words
        for words in found.not_checked
    ), found.not_checked
