"""Models stored as their numbers and models stored by skops give the same audit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import EVIDENCE, RELEASES
from proxyguard.draw.container import MAGIC
from proxyguard.draw.models import load_model, skops_bytes
from proxyguard.draw.store import Store

pytestmark = pytest.mark.usefixtures("module_draws_here")


def stored_models(audit: Audit) -> list[bytes]:
    """Return the bytes of the models of the source and of every draw."""
    manifest = audit.folder.read_json(RELEASES)
    registry = audit.folder.registry(audit.journal())
    addresses = [registry.members["target"].to_dict()["source"]["model"]]
    addresses += [d["model"] for d in manifest["members"]["target"]["bootstrap"]["draws"]]
    return [audit.folder.store.get(address) for address in addresses]


def test_a_folder_with_models_of_skops_opens_and_verifies_with_the_same_evidence(
    at: Callable[[str], Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Store.put

    def by_skops(self: Store, content: bytes) -> str:
        if content.startswith(MAGIC):
            content = skops_bytes(load_model(content, "a model"))
        return put(self, content)

    plain, older = at("certified"), at("sealed")
    monkeypatch.setattr(Store, "put", by_skops)
    older.register()
    older.draw()
    monkeypatch.undo()
    older.open()
    assert {content[:2] for content in stored_models(older)} == {b"PK"}
    assert all(content.startswith(MAGIC) for content in stored_models(plain))
    assert len(stored_models(plain)) == 9  # the source and eight draws
    assert older.folder.read_json(EVIDENCE)["groups"] == plain.folder.read_json(EVIDENCE)["groups"]
    for audit in (plain, older):
        found = audit.verify(with_target=True)
        assert found.good, found.findings


def test_a_changed_byte_of_a_stored_model_is_found(at: Callable[[str], Audit]) -> None:
    audit = at("certified")
    manifest = audit.folder.read_json(RELEASES)
    address = manifest["members"]["target"]["bootstrap"]["draws"][3]["model"]
    place = audit.folder.store.path(address)
    content = bytearray(place.read_bytes())
    content[-40] ^= 1  # in the last number
    place.write_bytes(content)
    found = audit.verify()
    assert [f.place for f in found.findings] == [place.relative_to(audit.folder.path).as_posix()]
