"""A target that its author cannot open alone: a steward's grant, or a passphrase."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from proxyguard.audit import seal as sealing
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import GRANT, RELEASES
from proxyguard.audit.grant import grant, read_grant
from proxyguard.audit.home import Home
from proxyguard.cli.main import app
from proxyguard.documents.canonical import digest
from proxyguard.documents.ledger import SealedHeader
from proxyguard.errors import (
    DigestMismatch,
    KeyMissing,
    RegistryError,
    SealError,
    StageError,
    TargetReused,
    VoidGrant,
)
from proxyguard.seal import sealed_file, storage
from proxyguard.seal.crypto import Passphrase, Person, SigningKey, encrypt
from proxyguard.seal.journal import writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.lineage import LineageStore
from proxyguard.seal.sealed_file import SealedFile, seal_table

pytestmark = pytest.mark.usefixtures("module_draws_here")

At = Callable[[str], Audit]
Copy = Callable[[str], Audit]


def audit_of(root: Path) -> Audit:
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)


def steward_key(audit: Audit) -> Path:
    """Return the steward's key, which lies neither in the audit nor in its author's home."""
    return audit.home.root.parent / "steward.pem"


@pytest.fixture(scope="module")
def kept(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small audit sealed for a steward, after each step."""
    root = tmp_path_factory.mktemp("kept")
    shutil.copytree(stages / "new", root / "work")
    audit = audit_of(root / "work")
    SigningKey.create().save(steward_key(audit))
    shutil.copytree(root / "work", root / "new")
    audit.seal(steward=SigningKey.load(steward_key(audit)).identity)
    shutil.copytree(root / "work", root / "sealed")
    audit.register()
    audit.draw()
    shutil.copytree(root / "work", root / "drawn")
    audit.grant(steward_key(audit))
    shutil.copytree(root / "work", root / "granted")
    audit.open()
    shutil.copytree(root / "work", root / "certified")
    return root


@pytest.fixture
def after(kept: Path, tmp_path: Path) -> Copy:
    """Return a fresh copy of the steward's audit after a step."""

    def copy(step: str) -> Audit:
        shutil.copytree(kept / step, tmp_path / step)
        return audit_of(tmp_path / step)

    return copy


def snapshot(audit: Audit) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in audit.folder.path.rglob("*") if p.is_file()}


def test_a_granted_opening_is_attested_by_the_steward(after: Copy) -> None:
    audit = after("certified")
    attestation = audit.certificate().to_dict()["attestation"]
    assert attestation["kind"] == "granted"
    assert attestation["steward"] == SigningKey.load(steward_key(audit)).identity
    assert attestation["steward"][:16] in (audit.folder / "report.md").read_text()
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert "grant: the steward's signature" in found.checked
    assert found.attestation == attestation["words"]
    assert found.unknown == []


def test_the_grant_names_the_registry_the_releases_and_the_head(after: Copy) -> None:
    audit = after("granted")
    grant = json.loads((audit.folder / GRANT).read_bytes())["grant"]
    ledger = audit.journal().ledger
    assert grant["registry"] == ledger.declaration
    assert grant["releases"] == ledger.find(Stage.DRAWN)[0].body.to_dict()["releases"]
    assert grant["head"] == ledger.head
    assert grant["author"] == audit.home.signing_key().identity


def test_what_is_checked_for_a_grant_is_read_once_and_so_is_what_is_granted(
    after: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = after("drawn")
    reads: Counter[str] = Counter()
    plain = storage.open_inside

    def counted(folder: Path, name: str, **most: int) -> io.BufferedReader:
        reads[name] += 1
        return plain(folder, name, **most)

    monkeypatch.setattr(storage, "open_inside", counted)
    audit.grant(steward_key(audit))
    assert reads[RELEASES] == reads["registry/0.json"] == 1
    assert [name for name in reads if name.startswith("store/") and reads[name] > 1] == []


def test_a_grant_that_waits_for_the_opening_is_no_unknown_file(after: Copy) -> None:
    found = after("granted").verify()
    assert found.good
    assert found.unknown == []


def test_opening_before_the_grant_says_whom_to_ask_and_changes_nothing(after: Copy) -> None:
    audit = after("drawn")
    before = snapshot(audit)
    with pytest.raises(StageError, match="sealed for a steward; ask them to run: proxyguard grant"):
        audit.open()
    assert snapshot(audit) == before


def test_the_author_has_no_key_that_opens_the_target(after: Copy, tmp_path: Path) -> None:
    audit = after("drawn")
    assert not (audit.home.root / "targets").exists()
    invented = tmp_path / "invented.key"
    invented.write_text("ab" * 32 + "\n")
    with pytest.raises(StageError, match="sealed for a steward"):
        audit.open(key_file=invented)
    with pytest.raises(StageError, match="sealed for a steward"):
        audit.open(passphrase="open sesame")
    with pytest.raises(SealError, match="not sealed for the steward whose key was given"):
        audit.grant(audit.home.signing_path)
    assert not (audit.folder / GRANT).exists()
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_another_steward_s_key_grants_nothing(after: Copy, tmp_path: Path) -> None:
    audit = after("drawn")
    other = tmp_path / "other.pem"
    SigningKey.create().save(other)
    before = snapshot(audit)
    with pytest.raises(SealError, match="not sealed for the steward whose key was given"):
        audit.grant(other)
    assert snapshot(audit) == before


def test_a_key_that_is_not_there_grants_nothing(after: Copy, tmp_path: Path) -> None:
    audit = after("drawn")
    with pytest.raises(KeyMissing, match="there is no key at"):
        audit.grant(tmp_path / "nowhere.pem")
    assert not (audit.folder / GRANT).exists()


@pytest.mark.parametrize("step", ["granted", "certified"])
def test_a_second_grant_is_refused(after: Copy, step: str) -> None:
    audit = after(step)
    before = snapshot(audit)
    with pytest.raises(StageError, match="a grant is given once"):
        audit.grant(steward_key(audit))
    assert snapshot(audit) == before


def test_a_grant_is_refused_once_the_target_was_opened(after: Copy) -> None:
    audit = after("certified")
    (audit.folder / GRANT).unlink()
    with pytest.raises(SealError, match=r"grant\.json: is missing"):
        audit.grant(steward_key(audit))
    assert not (audit.folder / GRANT).exists()


def test_nothing_is_granted_before_the_releases_are_frozen(after: Copy) -> None:
    audit = after("sealed")
    with pytest.raises(StageError, match="nothing is registered yet"):
        audit.grant(steward_key(audit))
    audit.register()
    with pytest.raises(StageError, match="must be drawn first"):
        audit.grant(steward_key(audit))
    assert not (audit.folder / GRANT).exists()


def test_a_steward_grants_nothing_for_a_folder_that_was_changed(after: Copy) -> None:
    audit = after("drawn")
    place = audit.folder / "releases.json"
    place.write_bytes(place.read_bytes() + b" ")
    with pytest.raises(SealError, match=r"releases\.json: was changed"):
        audit.grant(steward_key(audit))
    assert not (audit.folder / GRANT).exists()


def test_a_target_that_was_sealed_for_nobody_else_takes_no_grant(at: At, tmp_path: Path) -> None:
    audit = at("drawn")
    SigningKey.create().save(tmp_path / "steward.pem")
    with pytest.raises(SealError, match="not sealed for the steward"):
        audit.grant(tmp_path / "steward.pem")
    assert not (audit.folder / GRANT).exists()


def flipped(content: bytes, share: float) -> bytes:
    changed = bytearray(content)
    changed[min(int(share * len(content)), len(content) - 1)] ^= 0x01
    return bytes(changed)


SHARES = (0.0, 0.01, 0.2, 0.4, 0.6, 0.8, 0.99, 1.0)


@pytest.mark.parametrize("share", SHARES)
def test_a_byte_changed_in_the_grant_stops_the_opening(after: Copy, share: float) -> None:
    audit = after("granted")
    place = audit.folder / GRANT
    place.write_bytes(flipped(place.read_bytes(), share))
    with pytest.raises(SealError):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


@pytest.mark.parametrize("share", SHARES)
def test_a_byte_changed_in_the_grant_after_opening_is_found(after: Copy, share: float) -> None:
    audit = after("certified")
    place = audit.folder / GRANT
    place.write_bytes(flipped(place.read_bytes(), share))
    found = audit.verify()
    assert (GRANT, "was changed") in {(f.place, f.problem.split(":")[0]) for f in found.findings}


def test_a_grant_of_another_audit_is_refused(after: Copy, kept: Path) -> None:
    audit = after("new")  # the same declaration and the same steward, sealed once more
    audit.seal(steward=SigningKey.load(steward_key(audit)).identity)
    audit.register()
    audit.draw()
    shutil.copy(kept / "granted" / "audit" / GRANT, audit.folder / GRANT)
    with pytest.raises(
        SealError,
        match="the grant does not cover the registry of this audit; it covers exactly one set",
    ):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_an_author_s_key_that_was_lost_opens_nothing(after: Copy) -> None:
    audit = after("granted")
    audit.home.signing_path.unlink()
    SigningKey.create().save(audit.home.signing_path)
    with pytest.raises(SealError, match="this audit is signed by"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.CERTIFIED)


# A key is handed over in the ledger, and by nothing else


def test_a_rotated_key_signs_the_rest_and_opens_what_was_granted_before(after: Copy) -> None:
    audit = after("granted")
    before = audit.home.signing_key()
    handed = audit.rotate_key()
    heir = audit.home.signing_key()
    assert (handed.before, handed.after) == (before.identity, heir.identity)
    audit.open()  # the target's key was wrapped for the old key, which is kept
    audit.open()  # and again, to see that it is so
    entries = audit.journal().ledger.entries
    assert [(e.stage, e.signer) for e in entries[-2:]] == [
        (Stage.OPENED, heir.public),
        (Stage.CERTIFIED, heir.public),
    ]
    found = audit.verify(with_target=True)
    assert found.good, found.findings
    assert found.signers == (before.public, heir.public)
    assert f"handed over to {heir.public[:16]}" in (audit.folder / "report.md").read_text()


def test_a_key_rotated_before_the_grant_is_the_one_that_it_is_for(after: Copy) -> None:
    audit = after("drawn")
    audit.rotate_key()
    assert audit.grant(steward_key(audit)).author == audit.home.signing_key().identity
    audit.open()
    assert audit.verify().good


def test_a_key_rotated_after_certification_leaves_the_certificate_as_it_was(after: Copy) -> None:
    audit = after("certified")
    certificate = (audit.folder / "certificate.json").read_bytes()
    first = audit.home.signing_key().public
    audit.rotate_key()
    assert audit.verify(with_target=True).good
    audit.open()
    assert (audit.folder / "certificate.json").read_bytes() == certificate
    audit.rotate_key()
    assert len(audit.verify().signers) == 3
    assert audit.verify().signers[0] == first


def test_a_grant_for_a_key_that_is_gone_says_which_key_it_needs(after: Copy) -> None:
    audit = after("granted")
    audit.rotate_key()
    shutil.rmtree(audit.home.root / "retired")
    with pytest.raises(KeyMissing, match=r"needs the private key of .*a rotated one lies in"):
        audit.open()


def test_a_rotation_killed_before_the_keys_changed_places_goes_on(
    after: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = after("drawn")
    before = audit.home.signing_key()

    def killed(home: Home) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Home, "retire", killed)
        with pytest.raises(KeyboardInterrupt):
            audit.rotate_key()
    assert audit.home.signing_key().public == before.public
    assert audit.journal().signer != before.public
    handed = audit.rotate_key()
    assert handed.before == before.identity
    assert audit.home.signing_key().public == audit.journal().signer
    assert len(audit.journal().ledger.find(Stage.ROTATED)) == 1


def test_a_second_audit_of_the_home_is_handed_over_to_the_same_key(after: Copy) -> None:
    audit = after("drawn")
    twin = shutil.copytree(audit.folder.path, audit.folder.path.with_name("second"))
    second = Audit(twin, home=audit.home.root)
    audit.rotate_key()
    second.rotate_key()
    assert second.journal().signers == audit.journal().signers


def test_a_steward_who_becomes_the_author_granted_nothing(after: Copy) -> None:
    audit = after("granted")
    with writing(audit.folder.path) as journal:
        steward = SigningKey.load(steward_key(audit))
        journal.rotate(audit.home.signing_key(), steward, "2026-01-01T00:00:00Z")
    with pytest.raises(SealError, match="nobody else granted the opening"):
        read_grant(audit.folder, audit.journal())


# Passphrases


@pytest.fixture(scope="module")
def worded(stages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small audit sealed under a passphrase, drawn."""
    root = tmp_path_factory.mktemp("worded") / "work"
    shutil.copytree(stages / "new", root)
    audit = audit_of(root)
    audit.seal(passphrase="correct horse battery staple")
    audit.register()
    audit.draw()
    return root


@pytest.fixture
def locked(worded: Path, tmp_path: Path) -> Audit:
    shutil.copytree(worded, tmp_path / "locked")
    return audit_of(tmp_path / "locked")


def test_a_passphrase_opens_what_it_sealed(locked: Audit) -> None:
    assert not (locked.home.root / "targets").exists()
    predicate = locked.open(passphrase="correct horse battery staple").to_dict()
    assert predicate is not None
    assert predicate["attestation"]["kind"] == "self-attested"
    signer = locked.journal().ledger.author
    assert predicate["attestation"]["words"].startswith(
        f"self-attested: the author, {signer[:16]}..., held the target's key"
    )
    assert "steward" not in predicate["attestation"]
    assert locked.verify().good


def test_run_seals_and_opens_with_the_passphrase(
    stages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    shutil.copytree(stages / "new", tmp_path / "run")
    audit = audit_of(tmp_path / "run")
    assert audit.run(passphrase="correct horse battery staple") is not None
    assert not (audit.home.root / "targets").exists()
    assert audit.verify(with_target=True, passphrase="correct horse battery staple").good


def test_run_ends_where_the_steward_grants_and_goes_on_from_there(kept: Path) -> None:
    root = kept / "by run"
    shutil.copytree(kept / "new", root)
    audit = audit_of(root)
    identity = SigningKey.load(root / "steward.pem").identity
    typed = ["run", str(audit.folder.path), "--home", str(root / "home"), "--data",
             str(root / "data"), "--workers", "1"]  # fmt: skip
    first = CliRunner().invoke(app, [*typed, "--steward", identity])
    assert first.exit_code == 3, first.output
    last = first.stdout.splitlines()[-1]
    assert last == f"Next, by the steward: proxyguard grant {audit.folder.path} --key KEY"
    assert not audit.journal().ledger.has(Stage.OPENED)
    with pytest.raises(StageError, match="not for this steward"):
        audit.run(steward=SigningKey.create().identity)
    shown = CliRunner().invoke(
        app, ["grant", str(audit.folder.path), "--key", str(root / "steward.pem"), "--home",
              str(root / "other home")]
    )  # fmt: skip
    assert shown.stdout.splitlines()[-1].endswith(f"proxyguard open {audit.folder.path}")
    second = CliRunner().invoke(app, typed)
    assert second.exit_code in (0, 3, 4), second.output
    assert "self-attested" not in second.stdout
    assert audit.verify().good


def test_a_steward_who_seals_is_named_and_grants_nothing(after: Copy) -> None:
    audit = after("new")
    with pytest.raises(RegistryError, match="give --as-steward or --steward"):
        audit.seal(steward=SigningKey.create().identity, as_steward=True)
    audit.seal(as_steward=True)
    author = audit.journal().ledger.author
    held = f"a steward by their own word, {author[:16]}..., holds the target's key and signs"
    assert audit.status().holder == held
    audit.register()
    audit.draw()
    predicate = audit.open().to_dict()
    assert predicate["attestation"]["kind"] == "self-attested"
    assert predicate["attestation"]["steward"] == author
    assert audit.status().holder is None
    assert "a steward by their own word" in str(audit.status().attestation)
    verified = audit.verify()
    assert verified.good
    assert verified.attestation == predicate["attestation"]["words"]


def test_after_a_wrong_passphrase_the_right_one_still_works(locked: Audit) -> None:
    with pytest.raises(KeyMissing, match="nothing is lost"):
        locked.open(passphrase="correct horse battery stable")
    assert not locked.journal().ledger.has(Stage.CERTIFIED)
    assert not (locked.folder / "evidence.json").exists()
    locked.open(passphrase="correct horse battery staple")
    assert len(locked.journal().ledger.find(Stage.OPENED)) == 1
    assert locked.verify().good


def test_a_target_under_a_passphrase_is_not_opened_without_one(locked: Audit) -> None:
    before = snapshot(locked)
    with pytest.raises(KeyMissing, match="there is no key at"):
        locked.open()
    assert snapshot(locked) == before


def test_the_passphrase_is_written_nowhere(locked: Audit) -> None:
    locked.open(passphrase="correct horse battery staple")
    for place in locked.home.root.parent.rglob("*"):
        if place.is_file():
            assert b"battery staple" not in place.read_bytes(), place


# Records that were granted before


CHANGED: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "the same table": lambda t: t,
    "in another order": lambda t: t.sample(frac=1.0, random_state=4),
    "a row less": lambda t: t.iloc[1:],
    "a column more": lambda t: t.assign(third=np.sqrt(np.arange(len(t)) + 0.5)),
    "a column renamed": lambda t: t.rename(columns={"second": "other"}),
}


@pytest.fixture
def sealed_anew(
    after: Copy, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> Callable[[pd.DataFrame | None, str], Audit]:
    """Return what an author asks next of the steward who granted the small audit."""
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    first = after("granted")
    root = first.folder.path.parent

    def make(table: pd.DataFrame | None, name: str = "anew") -> Audit:
        if table is not None:
            table.to_csv(root / "data" / "next.csv", index=False)
        text = (first.folder / "audit.toml").read_text()
        text = text.replace('name = "small"', f'name = "{name}"')
        text = text.replace('"table.csv"', '"next.csv"' if table is not None else '"table.csv"')
        # The author's own store would say so too; an author can delete it.
        audit = Audit(root / name, home=root / f"{name} home", data=[root / "data"], workers=1)
        audit.init(text)
        audit.seal(steward=SigningKey.load(steward_key(first)).identity)
        audit.register()
        audit.draw()
        return audit

    return make


def memory_of(audit: Audit) -> LineageStore:
    """Return the store of the steward, who granted the small audit from this home."""
    return Home(audit.folder.path.parent / "home").lineage


def ask(audit: Audit, again: str | None = None) -> Any:
    key = audit.folder.path.parent / "steward.pem"
    return grant(audit.folder, key, memory_of(audit), again)


def table_of(audit_root: Path) -> pd.DataFrame:
    return pd.read_csv(audit_root / "drawn" / "data" / "table.csv", dtype=str)


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("change", CHANGED)
def test_records_that_were_granted_are_not_granted_again_in_another_seal(
    kept: Path, sealed_anew: Callable[..., Audit], change: str
) -> None:
    table = None if change == "the same table" else CHANGED[change](table_of(kept))
    audit = sealed_anew(table)
    before = snapshot(audit)
    with pytest.raises(TargetReused, match=r"\d+ in target of 'small', granted before.*--again"):
        ask(audit)
    assert snapshot(audit) == before
    with pytest.raises(TargetReused, match="seen before"):  # a refusal remembers no request
        ask(audit)


def test_granted_again_on_purpose_the_certificate_says_why_and_has_no_guarantee(
    sealed_anew: Callable[..., Audit],
) -> None:
    audit = sealed_anew(None)
    with pytest.raises(RegistryError, match="needs a reason"):
        ask(audit, " ")
    statement = ask(audit, "the first folder was lost in a fire")
    assert statement.again.reason == "the first folder was lost in a fire"
    assert "300 in target of 'small', granted before" in statement.again.met
    predicate = audit.open().to_dict()
    assert predicate is not None
    words = "records were granted again (the first folder was lost in a fire): 300 in target"
    assert words in predicate["attestation"]["words"]
    assert words in predicate["claim_status"]["guarantee"]
    assert predicate["claim_status"]["guarantee"].startswith("no: ")
    assert words in (audit.folder / "report.md").read_text().replace("\\", "")
    found = audit.verify()
    assert found.good, found.findings
    assert words in str(found.attestation)


def test_a_target_that_stood_in_clear_in_a_granted_audit_s_development_is_not_granted(
    kept: Path, sealed_anew: Callable[..., Audit]
) -> None:
    clear = pd.read_parquet(kept / "granted" / "audit" / "development" / "0.training.parquet")
    fresh = pd.DataFrame(
        {"first": np.random.default_rng(8).normal(size=400).round(4),
         "second": np.random.default_rng(9).normal(size=400).round(4),
         "label": ["yes", "no"] * 200}
    )  # fmt: skip
    audit = sealed_anew(pd.concat([clear, fresh], ignore_index=True))
    with pytest.raises(TargetReused, match=r"in training of 'small', granted before"):
        ask(audit)


def test_a_fresh_target_of_the_same_population_is_granted(
    sealed_anew: Callable[..., Audit],
) -> None:
    rng = np.random.default_rng(99)
    x = rng.normal(size=(700, 2)).round(4)
    label = np.where(x.sum(axis=1) + 0.7 * rng.normal(size=700) > 0, "yes", "no")
    audit = sealed_anew(pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "label": label}))
    assert ask(audit).again is None
    predicate = audit.open().to_dict()
    assert predicate is not None
    assert predicate["claim_status"]["guarantee"] == "yes"


def test_a_grant_killed_before_it_is_written_is_given_when_it_is_asked_for_again(
    after: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = after("drawn")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("proxyguard.audit.grant.write_atomic", die)
        with pytest.raises(KeyboardInterrupt):
            audit.grant(steward_key(audit))
    assert not (audit.folder / GRANT).exists()
    # The records are remembered, so no other seal of them is granted meanwhile.
    assert [one.role for one in granted_sets(audit)] == ["target", "training", "validation"]
    assert audit.grant(steward_key(audit)).again is None
    assert len(granted_sets(audit)) == 3
    audit.open()
    assert audit.verify().good


def granted_sets(audit: Audit) -> list[Any]:
    base = sqlite3.connect(audit.home.root / "lineage.sqlite")
    rows = base.execute(
        "select role from roles where audit in (select audit from grants) order by role"
    ).fetchall()
    base.close()
    return [SimpleNamespace(role=role) for (role,) in rows]


def test_a_sealed_file_that_is_not_what_was_committed_to_is_not_granted(
    after: Copy, forge: Any
) -> None:
    # The author seals other records under the commitment, so that the store learns those.
    audit = after("drawn")
    content = (audit.folder / "target" / "0.sealed").read_bytes()
    key = SealedFile(audit.folder / "target" / "0.sealed").unwrap(
        Person(SigningKey.load(steward_key(audit)).exchange)
    )
    header = content.split(b"\n", 1)[0]
    about = hashlib.sha256(header).digest()
    chunks = list(SealedFile(audit.folder / "target" / "0.sealed")._plain(key))
    other = pa.table({"first": [0.0] * 300, "second": [0.0] * 300, "label": ["yes"] * 300,
                      "__position__": list(range(300))})  # fmt: skip
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, other.schema) as writer:
        writer.write_table(other)
    chunks[1] = sink.getvalue()
    sealed = header + b"\n"
    for index, chunk in enumerate(chunks):
        cipher = encrypt(key, index, chunk, about)
        sealed += len(cipher).to_bytes(4, "big") + cipher
    (audit.folder / "target" / "0.sealed").write_bytes(sealed)
    forge.rewrite(audit)
    with pytest.raises(DigestMismatch, match=r"0\.sealed was sealed with digest"):
        audit.grant(steward_key(audit))
    assert not (audit.folder / GRANT).exists()


# What is granted or opened holds


def invent_limit(audit: Audit, forge: Any) -> None:
    """Register a limit that follows from nothing; releases, ledger and signatures agree."""

    def lie(value: dict[str, Any]) -> None:
        for one in value["members"]["target"]["requirements"]:
            if one["part"]["name"] == "Brier risk":
                one["limit"]["value"] = "0.9"

    name = digest(forge.edit_json(audit, "registry/0.json", lie))
    forge.edit_json(audit, RELEASES, lambda manifest: manifest.update(registry=name))
    releases = audit.folder.sha256(RELEASES)
    forge.rewrite(
        audit,
        registered=lambda body: body.update(declaration=name),
        drawn=lambda body: body.update(releases=releases, registry=name),
    )


def test_a_steward_grants_nothing_in_a_folder_that_does_not_hold(after: Copy, forge: Any) -> None:
    audit = after("drawn")
    invent_limit(audit, forge)
    assert "limits do not follow" in forge.found_by(audit)
    with pytest.raises(
        SealError, match=r"not granted: the folder does not hold, registry: .*limit"
    ):
        audit.grant(steward_key(audit))
    assert not audit.folder.has(GRANT)


def test_a_folder_that_does_not_hold_is_not_opened(at: At, forge: Any) -> None:
    audit = at("drawn")
    invent_limit(audit, forge)
    before = snapshot(audit)
    with pytest.raises(SealError, match=r"not opened: the folder does not hold, registry: .*limit"):
        audit.open()
    assert snapshot(audit) == before
    assert not audit.home.lineage.was_opened(
        audit.journal().ledger.sealed.members["target"].commitment
    )


def test_a_steward_counts_the_records_before_granting(
    after: Copy, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = after("new")

    def more_rows(**header: Any) -> SealedHeader:
        return SealedHeader(**{**header, "rows": 4000})

    with monkeypatch.context() as patch:
        patch.setattr(sealed_file, "SealedHeader", more_rows)
        audit.seal(steward=SigningKey.load(steward_key(audit)).identity)
    forge.rewrite(audit, sealed=lambda body: body["members"]["target"].update(records=4000))
    audit.register()
    audit.draw()
    with pytest.raises(SealError, match=r"300 records|4,?000"):
        audit.grant(steward_key(audit))
    assert not audit.folder.has(GRANT)


@pytest.mark.parametrize("beside", [True, False], ids=["a second wrap", "no steward"])
def test_a_target_that_its_author_could_open_before_the_grant_is_refused(
    after: Copy, forge: Any, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    audit = after("new")
    with monkeypatch.context() as patch:
        patch.setattr(
            sealing,
            "seal_table",
            lambda table, holders, **rest: seal_table(
                table, [*(holders if beside else ()), Passphrase("mine")], **rest
            ),
        )
        audit.seal(steward=SigningKey.load(steward_key(audit)).identity)
    audit.register()
    audit.draw()
    problem = "wrapped for 2 holders" if beside else "not wrapped for the steward"
    assert problem in forge.found_by(audit)
    with pytest.raises(SealError, match=f"not granted: .*{problem}"):
        audit.grant(steward_key(audit))
    assert not audit.folder.has(GRANT)


def test_a_file_in_the_grant_s_place_is_found_and_keeps_no_steward_from_granting(
    after: Copy, kept: Path, forge: Any
) -> None:
    audit = after("drawn")
    given = (kept / "granted" / "audit" / GRANT).read_bytes()
    (audit.folder / GRANT).write_bytes(given.replace(b'"time":"2', b'"time":"1'))
    assert f"{GRANT}: {GRANT} does not carry the steward's signature" in forge.found_by(audit)
    with pytest.warns(VoidGrant, match="is replaced: .*signature"):
        audit.grant(steward_key(audit))
    assert audit.verify().good
    audit.open()
    assert audit.verify().good


def test_a_grant_where_nobody_could_grant_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    (audit.folder / GRANT).write_bytes(b"{}")
    assert f"{GRANT}: {GRANT} is here, and no steward was named" in forge.found_by(audit)


def test_a_grant_before_registration_is_an_unknown_file(after: Copy) -> None:
    audit = after("sealed")
    (audit.folder / GRANT).write_bytes(b"{}")
    assert audit.verify().unknown == [GRANT]


def test_status_takes_no_other_file_for_a_grant(after: Copy) -> None:
    audit = after("granted")
    found = audit.status()
    assert (found.next, found.no_grant) == ("open", None)
    (audit.folder / GRANT).write_text('{"grant": "as you like", "signature": "mine"}')
    found = audit.status()
    assert found.next == "grant (by the steward)"
    assert found.no_grant is not None
    shown = CliRunner().invoke(app, ["status", str(audit.folder.path)])
    assert "grant.json is no grant for this folder: grant.json" in " ".join(shown.output.split())
