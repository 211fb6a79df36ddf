"""What the steps of an audit give back, and that it is what the folder says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import CERTIFICATE, EVIDENCE, RELEASES, registry_name
from proxyguard.documents.certificate import Predicate
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest

At = Callable[[str], Audit]


def test_a_sealed_certificate_speaks_as_a_certificate_in_memory(at: At) -> None:
    certificate = at("certified").certificate()
    (verdict,) = certificate.verdicts
    assert verdict.decision is pg.Decision.VALIDATED
    assert certificate.decisions == {"bootstrap": pg.Decision.VALIDATED}
    assert certificate["bootstrap"] is verdict
    assert verdict.reliability_target == 0.6 < verdict.reliability_lower
    assert verdict.sentence in str(certificate)
    assert certificate.guarantee == "yes"
    assert isinstance(certificate.predicate, Predicate)
    with pytest.raises(KeyError):
        certificate["verdicts"]


def test_its_table_has_the_columns_of_a_certificate_in_memory(at: At) -> None:
    audit = at("certified")
    frame = audit.certificate().to_frame()
    losses = np.zeros((3, 40, 1))
    requirement = pg.Requirement(name="error", low=0, high=1, limit=0.5)
    memory = pg.certify(losses, [requirement], reliability_target=0.5, seed=1)
    assert list(frame.columns) == list(memory.to_frame().columns)
    rows = pd.read_csv(audit.folder / "report.csv")
    assert len(frame) == len(rows) == 8 * 2
    np.testing.assert_array_equal(frame["estimate"], rows["estimate"])
    np.testing.assert_array_equal(frame["violation_pvalue"], rows["violation_pvalue"])
    np.testing.assert_array_equal(frame["n"], rows["n"])


def test_its_page_is_the_report_and_its_cell_has_the_verdict(at: At) -> None:
    audit = at("certified")
    certificate = audit.certificate()
    assert certificate.to_html() == audit.folder.text("report.html")
    cell = certificate._repr_html_()
    assert "pg-fragment" in cell
    assert "bootstrap" in cell
    assert "Not claimed" in cell


def test_a_certificate_that_the_ledger_does_not_vouch_for_is_refused(at: At) -> None:
    audit = at("certified")
    place = audit.folder / CERTIFICATE
    place.write_bytes(place.read_bytes().replace(b"a", b"b", 1))
    with pytest.raises(pg.DigestMismatch, match=CERTIFICATE):
        audit.certificate()


def test_evidence_that_was_exchanged_after_the_certificate_is_refused(at: At) -> None:
    audit = at("certified")
    certificate = audit.certificate()
    other = audit.folder.document(Evidence, EVIDENCE).model_copy(update={"seed": "7"})
    (audit.folder / EVIDENCE).write_bytes(other.to_bytes())
    with pytest.raises(pg.SealError, match=f"{EVIDENCE}: was changed"):
        certificate.to_frame()


def test_a_file_in_the_place_of_a_certificate_is_none_before_it_is_recorded(at: At) -> None:
    # An opening that was interrupted leaves the file, and no step that vouches for it.
    audit, done = at("drawn"), at("certified")
    (audit.folder / CERTIFICATE).write_bytes((done.folder / CERTIFICATE).read_bytes())
    with pytest.raises(pg.StageError, match="no certificate yet"):
        audit.certificate()


def test_steps_give_the_documents_that_they_wrote(at: At) -> None:
    audit = at("new")
    sealing = audit.seal()
    assert sealing.record == audit.journal().ledger.sealed
    assert sealing.record.members["target"].records == 300
    registration = audit.register()
    assert registration.document == audit.folder.document(Registry, registry_name(0))
    assert [(one.member, one.requirement) for one in registration.limits] == [
        ("target", "Brier transfer"),
        ("target", "Brier risk"),
    ]
    assert registration.limits[0].limit == "0.10"
    releases = audit.draw()
    assert releases.manifest == audit.folder.document(ReleaseManifest, RELEASES)
    (frozen,) = releases.mechanisms
    assert (frozen.mechanism, len(frozen.draws), frozen.failed) == ("bootstrap", 8, ())
    certificate = audit.open()
    assert certificate == audit.certificate()
    status = audit.status()
    assert [step.stage for step in status.steps][-1] == "certified"
    assert status.verdicts[0].decision is pg.Decision.VALIDATED


def test_status_builds_no_table_of_the_report(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = at("certified")
    whole = audit.status()

    def refuse(*_: object) -> None:
        raise AssertionError("status needs no table")

    monkeypatch.setattr("proxyguard.report.content._tables", refuse)
    assert audit.status() == whole
    assert whole.verdicts[0].sentence


def test_a_sealed_certificate_of_many_verdicts_is_counted(at: At) -> None:
    certificate = at("certified").certificate()
    (verdict,) = certificate.verdicts
    many = tuple(
        verdict.model_copy(update={"mechanism": f"m{k}", "decision": decision})
        for decision in (pg.Decision.VALIDATED, pg.Decision.UNRESOLVED)
        for k in range(15)
    )
    predicate = certificate.predicate.model_copy(update={"text": None, "verdicts": many})
    text = str(replace(certificate, predicate=predicate))
    assert text.startswith(
        "15 of 30 verdicts validated, 15 unresolved, 0 violations\nUNRESOLVED: m0"
    )
    assert "and 20 more verdicts: .to_frame() has a row for each" in text
    assert len(text.splitlines()) == 22
