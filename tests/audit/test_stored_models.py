"""Models stored as their numbers and models stored by skops give the same audit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from models.as_pipeline import as_pipeline
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import EVIDENCE, RELEASES
from proxyguard.models.learned import LinearModel
from proxyguard.models.npy import MAGIC
from proxyguard.models.stored import skops_bytes

pytestmark = pytest.mark.usefixtures("module_draws_here")


def stored_models(audit: Audit) -> list[bytes]:
    """Return the bytes of the models of the source and of every draw."""
    manifest = json.loads(audit.folder.read(RELEASES))
    registry = audit.folder.registry(audit.journal())
    addresses = [registry.members["target"].to_dict()["source"]["model"]]
    addresses += [d["model"] for d in manifest["members"]["target"]["bootstrap"]["draws"]]
    return [audit.folder.store.get(address) for address in addresses]


def test_a_folder_with_models_of_skops_opens_and_verifies_with_the_same_evidence(
    at: Callable[[str], Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_skops(model: LinearModel) -> bytes:
        return skops_bytes(as_pipeline(model))

    plain, other = at("certified"), at("sealed")
    for module in ("draw.drawing", "audit.development"):
        monkeypatch.setattr(f"proxyguard.{module}.model_bytes", by_skops)
    other.register()
    other.draw()
    monkeypatch.undo()
    other.open()
    assert {content[:2] for content in stored_models(other)} == {b"PK"}
    assert all(content.startswith(MAGIC) for content in stored_models(plain))
    assert len(stored_models(plain)) == 9  # the source and eight draws
    assert (
        json.loads(other.folder.read(EVIDENCE))["groups"]
        == json.loads(plain.folder.read(EVIDENCE))["groups"]
    )
    for audit in (plain, other):
        found = audit.verify(with_target=True)
        assert found.good, found.findings
        assert not found.not_checked
    # A verifier without skops cannot judge such a model, and condemns nobody for it.
    monkeypatch.setitem(sys.modules, "skops.io", None)
    found = other.verify(with_target=True)
    assert found.good, found.findings
    assert found.not_checked
    assert all("pip install 'proxyguard[pipelines]'" in words for words in found.not_checked)
    found = plain.verify(with_target=True)
    assert found.good, found.findings
    assert not found.not_checked


def test_a_changed_byte_of_a_stored_model_is_found(at: Callable[[str], Audit]) -> None:
    audit = at("certified")
    manifest = json.loads(audit.folder.read(RELEASES))
    address = manifest["members"]["target"]["bootstrap"]["draws"][3]["model"]
    place = audit.folder.store.path(address)
    content = bytearray(place.read_bytes())
    content[-40] ^= 1
    place.write_bytes(content)
    found = audit.verify()
    assert [f.place for f in found.findings] == [place.relative_to(audit.folder.path).as_posix()]
