"""What a document refuses, by field; and the schemas that are published of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from documents.schemas import KINDS, main
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.certificate import Advice, Subject
from proxyguard.documents.document import Document, NumberText
from proxyguard.documents.evidence import Evidence, FixedEvidence, SequentialEvidence
from proxyguard.documents.ledger import Overlap, Stage, read_body
from proxyguard.documents.releases import DrawnRelease, FailedDraw, GivenRelease, ReleaseManifest
from proxyguard.errors import DocumentError, SealError

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
Value = dict[str, Any]
Edit = Callable[[Value], object]
DIGEST = "ab" * 32


def draw(**changes: object) -> Value:
    return {
        "format": 1, "seed": 100, "status": "drawn", "guard": "audit hook", "rows": 5,
        "content": DIGEST, "stages": ["rows"], "selected": None, "threshold": "0.5",
        "temperature": None, "prepared_at_random": False, "release": DIGEST, "model": None,
        **changes,
    }  # fmt: skip


def manifest(*draws: Value) -> Value:
    return {
        "format": 1,
        "registry": DIGEST,
        "members": {"target": {"bootstrap": {"draws": list(draws or (draw(),))}}},
        "sources": {},
    }


FIRST = "members.target.bootstrap.draws.0"


def first(value: Value) -> Value:
    record: Value = value["members"]["target"]["bootstrap"]["draws"][0]
    return record


BROKEN: dict[str, tuple[Edit, str, str]] = {
    "an unknown key": (lambda v: v.update(comment="x"), "comment", "nothing that this document"),
    "an unknown key of a draw": (
        lambda v: first(v).update(luck="x"), f"{FIRST}.luck", "nothing that this document",
    ),
    "a missing key": (lambda v: v.pop("sources"), "sources", "missing"),
    "a missing key of a draw": (lambda v: first(v).pop("content"), f"{FIRST}.content", "missing"),
    "a text for a number": (
        lambda v: first(v).update(seed="100"), f"{FIRST}.seed", "valid integer, found '100'",
    ),
    "a yes for a number": (lambda v: first(v).update(rows=True), f"{FIRST}.rows", "valid integer"),
    "a number for a text": (lambda v: first(v).update(guard=1), f"{FIRST}.guard", "valid string"),
    "a negative number": (lambda v: first(v).update(rows=-1), f"{FIRST}.rows", "greater than"),
    "a text that is no digest": (
        lambda v: first(v).update(release="../../etc/passwd"), f"{FIRST}.release", "match pattern",
    ),
    "a text that is no number": (
        lambda v: first(v).update(threshold="half"), f"{FIRST}.threshold", "number written as text",
    ),
    "a status that no draw has": (lambda v: first(v).update(status="lucky"), FIRST, "'lucky'"),
    "a list for a mapping": (lambda v: v.update(members=[]), "members", "should be an object"),
    "another format": (lambda v: v.update(format=7), "format", "has format 7; this version"),
    "a default that is spelt out": (lambda v: first(v).update(files=None), "", "spells out"),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "field", "words"), BROKEN.values(), ids=BROKEN)
def test_what_is_not_in_its_form_is_refused_by_file_and_field(
    edit: Edit, field: str, words: str
) -> None:
    value = manifest()
    ReleaseManifest.of(value, "releases.json")
    edit(value)
    with pytest.raises(DocumentError) as refused:
        ReleaseManifest.read(canonical_bytes(value), "releases.json")
    assert (refused.value.file, refused.value.field) == ("releases.json", field)
    assert words in refused.value.problem
    assert str(refused.value).startswith(f"releases.json: {field}")


def test_several_problems_are_named_and_the_rest_is_counted() -> None:
    value = manifest(*(draw(seed=str(k)) for k in range(9)))
    with pytest.raises(DocumentError, match=r"draws\.1\.seed.*draws\.2\.seed.*and 6 more"):
        ReleaseManifest.of(value, "releases.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"format": 1}', b'{"a":1,"a":1}', b"[" * 100_000, b"\xff", b"1e999"]
)
def test_bytes_that_are_no_canonical_json_are_refused(content: bytes) -> None:
    with pytest.raises(SealError, match=r"^releases\.json"):
        ReleaseManifest.read(content, "releases.json")


def test_a_document_is_read_from_a_file_and_written_back_byte_by_byte(tmp_path: Path) -> None:
    given = {"seed": 2, "status": "given", "name": "r2", "column": 1}
    failed = {"seed": 1, "status": "timeout", "error": "more than 1 s", "guard": "audit hook"}
    repeated = draw(again=[draw(), failed])
    value = manifest(repeated, failed, given)
    path = tmp_path / "releases.json"
    path.write_bytes(canonical_bytes(value))
    read = ReleaseManifest.read(path)
    assert read.to_bytes() == path.read_bytes()
    kinds = [type(one) for one in read.members["target"]["bootstrap"].draws]
    assert kinds == [DrawnRelease, FailedDraw, GivenRelease]
    path.write_bytes(b"{}")
    with pytest.raises(DocumentError, match=r"^releases\.json: format: is missing"):
        ReleaseManifest.read(path)


def test_a_draw_that_was_dropped_hides_no_draw_of_its_own() -> None:
    nested = draw(again=[draw(again=[draw()])])
    with pytest.raises(DocumentError, match=r"draws\.0\.again\.0\.again: is nothing"):
        ReleaseManifest.of(manifest(nested), "releases.json")


def test_a_document_cannot_be_changed() -> None:
    read = ReleaseManifest.of(manifest(), "releases.json")
    with pytest.raises(ValueError, match="frozen"):
        read.registry = DIGEST


def test_whole_numbers_stand_for_numbers_and_are_written_as_they_were() -> None:
    plan = {"n": 10, "R": 5, "power": 1, "power_error": 0, "targets": 400, "requirements": 2}
    way = {"mode": "named", "bound": "", "score": "", "test": None}
    sizes = {"format": 1, "sizes": {"m": {**plan, **way}}}
    read = Advice.of(sizes, "advice.json")
    advised = read.sizes["m"]
    assert advised is not None
    assert isinstance(advised.power, float)
    assert read.to_bytes() == canonical_bytes(sizes)


def test_the_form_of_a_document_with_several_is_told_by_its_keys() -> None:
    start = {"format": 1, "registry": DIGEST, "releases": DIGEST, "seed": "1", "nonces": {}}
    later = {**start, "groups": {}, "scores": []}
    fixed = {
        **start, "groups": {}, "excluded": {}, "secondary": {},
        "diagnostics": {"label": "none", "unscored": {}},
    }  # fmt: skip
    assert isinstance(Evidence.of(later, "evidence.json"), SequentialEvidence)
    assert isinstance(Evidence.of(fixed, "evidence.json"), FixedEvidence)
    for stage, body, missing in (
        (Stage.DRAWN, {"record": {}}, "release: is missing"),
        (Stage.DRAWN, {}, "releases: is missing"),
        (Stage.SCORED, {"round": 1}, "decision: is missing"),
        (Stage.SCORED, {}, "favorable: is missing"),
        (Stage.SCORED, [], "should be an object"),
    ):
        with pytest.raises(DocumentError, match=missing):
            read_body(stage, body, "the ledger")


def test_a_reuse_that_is_denied_is_no_overlap() -> None:
    met = {
        "audit": "earlier", "member": "target", "role": "training", "same_table": True,
        "records": 5, "shared": 2, "twins": 0, "expected_twins": "0.0", "excess": False,
        "columns": "all columns", "same_audit": False, "opened": False, "reused": True,
    }  # fmt: skip
    assert Overlap.of(met, "the ledger").reused
    with pytest.raises(DocumentError, match="reused is True by what was met"):
        Overlap.of({**met, "reused": False}, "the ledger")
    assert Overlap.of({**met, "same_audit": True, "reused": False}, "the ledger").leaked


def test_a_key_is_read_by_its_written_name_alone() -> None:
    written = {"name": "evidence", "digest": {"sha256": DIGEST}}
    assert Subject.of(written, "certificate.json").to_dict() == written
    with pytest.raises(DocumentError):
        Subject.of({"name": "evidence", "digests": {"sha256": DIGEST}}, "certificate.json")


def all_documents(kind: type[Document] = Document) -> Iterator[type[Document]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("proxyguard."):
            yield below
            yield from all_documents(below)


def test_every_document_is_frozen_strict_and_closed() -> None:
    kinds = list(all_documents())
    assert len(kinds) > 50
    for kind in kinds:
        config = kind.model_config
        assert (config["extra"], config["frozen"], config["strict"]) == ("forbid", True, True)
        assert kind.__doc__, kind


def test_the_published_schemas_are_current(tmp_path: Path) -> None:
    main([str(tmp_path)])
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    published = {path.name: path.read_text() for path in SCHEMAS.iterdir()}
    words = "run python tests/documents/schemas.py docs/schemas"
    assert set(written) == set(published), words
    for name, text in written.items():
        assert text == published[name], f"{name} is not current; {words}"


@pytest.mark.parametrize("name", [f"{name}.schema.json" for name in KINDS])
def test_every_field_of_every_schema_is_described_and_no_other_key_is_allowed(name: str) -> None:
    schema = json.loads((SCHEMAS / name).read_text())
    objects = [part for part in [schema, *schema.get("$defs", {}).values()] if "properties" in part]
    assert objects
    for part in objects:
        assert part["additionalProperties"] is False
        for field, described in part["properties"].items():
            words = described.get("description", "")
            assert words.endswith("."), f"{part['title']}.{field} has no description"


def test_a_field_without_a_description_would_be_noticed() -> None:
    class Silent(Document):
        """A document that says nothing of its field."""

        told: int = Field(description="A number.")
        untold: int

    properties = Silent.model_json_schema()["properties"]
    assert "description" in properties["told"]
    assert "description" not in properties["untold"]


def test_a_field_is_described_by_the_text_under_it_in_the_nearest_class() -> None:
    class Base(Document):
        """A document."""

        name: int
        """A number."""
        kept: int
        """Another number."""

    class Again(Base):
        """A document that says more of one field."""

        name: int = Field(alias="called")
        """A number, here."""

    properties = Again.model_json_schema()["properties"]
    assert properties["called"]["description"] == "A number, here."
    assert properties["kept"]["description"] == "Another number."


def test_a_field_is_added_in_one_class() -> None:
    class TimedRelease(DrawnRelease):
        """A draw that says how long it took."""

        seconds: NumberText | None = None
        """Seconds that the draw took."""

    before, timed = draw(), draw(seconds="1.5")
    assert TimedRelease.of(before, "releases.json").to_bytes() == canonical_bytes(before)
    assert TimedRelease.of(timed, "releases.json").seconds == "1.5"
    assert TimedRelease.of(timed, "releases.json").to_bytes() == canonical_bytes(timed)
    assert "seconds" in TimedRelease.model_json_schema()["properties"]
    with pytest.raises(DocumentError, match=r"seconds: .*number written as text"):
        TimedRelease.of(draw(seconds="long"), "releases.json")
    with pytest.raises(DocumentError, match="seconds: is nothing that this document says"):
        DrawnRelease.of(timed, "releases.json")
