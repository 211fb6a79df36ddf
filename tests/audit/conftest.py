"""A small audit, built once and copied at whatever step a test starts from."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.draws import draw_groups_here as draw_groups
from conformance.draws import draw_here as draw_in_this_process
from conformance.draws import draw_here_with
from conformance.warm import STARTERS, started_by
from proxyguard.audit.audit import Audit
from proxyguard.audit.decide import groups_of, predicate_of, readings_of, subjects_of
from proxyguard.audit.folder import (
    CERTIFICATE,
    EVIDENCE,
    GRANT,
    RELEASES,
    open_envelope,
    recorded_files,
    sign_statement,
)
from proxyguard.audit.outcome import write_report
from proxyguard.documents.canonical import canonical_bytes, digest
from proxyguard.documents.evidence import Evidence, GroupEvidence
from proxyguard.documents.ledger import Grant
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.errors import SealError
from proxyguard.evidence.record import derived_record, read_evidence
from proxyguard.seal.crypto import SigningKey
from proxyguard.seal.journal import NAME
from proxyguard.seal.ledger import FORMAT, Stage

DECLARATION = """\
format = 1
name = "small"
purpose = "Is this small audit sound?"

[target]
table = "table.csv"
reserve = { rows = 300, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["fixed_logistic"]
choose = { loss = "cost", false_negative = "2", thresholds = 51 }

[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.10"

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.10", round_up = "0.001" }

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 8
seeds = { first = 100 }

[[secondary]]
name = "strict"
limits = { "Brier risk" = "0.10" }

[claim]
reliability_target = "0.6"
"""

STAGES = ("new", "sealed", "registered", "drawn", "certified")


def write_table(path: Path, *, rows: int = 700, seed: int = 1) -> None:
    """Write a table of two features and a label that follows from them, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    lines = ["first,second,label"]
    lines += [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def audit_in(root: Path, **options: object) -> Audit:
    """Return the audit of a folder that has ``audit``, ``home`` and ``data``."""
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1, **options)


@pytest.fixture(scope="module", autouse=True)
def starts_warm() -> Iterator[None]:
    """Let audits start their processes from one that has imported already."""
    with started_by(*STARTERS):
        yield


@pytest.fixture(scope="module", autouse=True)
def advises_soon() -> Iterator[None]:
    """Look less long for the sizes that a report advises.

    What is advised is tested in tests/report; here one audit in three would spend most of its time
    on it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxyguard.report.advice.EFFORT", 20_000)
        patch.setattr("proxyguard.report.advice.REPETITIONS", 40)
        yield


@pytest.fixture
def starts_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start them as the product does."""
    for module in STARTERS:
        monkeypatch.setattr(f"{module}.subprocess", subprocess)


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the small audit after each step."""
    root = tmp_path_factory.mktemp("stages")
    write_table(root / "work" / "data" / "table.csv")
    with started_by(*STARTERS):
        return staged(root)


def put_target_apart(audit: Audit, design: str = "") -> None:
    """Declare the first 300 rows as a target in a file of its own, and develop on the rest.

    Only such a target can turn out to be a sample from a pool: a reserve is cut from the table
    that development is the rest of.
    """
    data = audit.folder.path.parent / "data"
    header, *rows = (data / "table.csv").read_text().splitlines()
    (data / "target.csv").write_text("\n".join([header, *rows[:300]]) + "\n")
    (data / "rest.csv").write_text("\n".join([header, *rows[300:]]) + "\n")
    declaration = audit.folder / "audit.toml"
    text, changed = re.subn(
        r'table = "table.csv"\nreserve = .*', f'file = "target.csv"\n{design}',
        declaration.read_text(),
    )  # fmt: skip
    assert changed == 1
    if "[development]" not in text:
        text = text.replace("[procedure]", "[development]\n\n[procedure]")
    declaration.write_text(text.replace("[development]", '[development]\ntable = "rest.csv"'))


@pytest.fixture(scope="session")
def set_apart() -> Callable[..., None]:
    """Return what puts the target of a new audit into a file of its own."""
    return put_target_apart


@pytest.fixture(scope="session")
def stages_apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy after each step of the small audit whose target is a file of its own."""
    root = tmp_path_factory.mktemp("stages_apart")
    write_table(root / "work" / "data" / "table.csv")
    with started_by(*STARTERS):
        return staged(root, then=put_target_apart)


def staged(root: Path, then: Callable[[Audit], None] = lambda _: None) -> Path:
    """Run the small audit in ``root / "work"`` and keep a copy of it after each step."""
    work = root / "work"
    audit = audit_in(work)
    steps: dict[str, Callable[[], object]] = {
        "new": lambda: (audit.init(DECLARATION), then(audit)),
        "sealed": audit.seal,
        "registered": audit.register,
        "drawn": audit.draw,
        "certified": audit.open,
    }
    for stage in STAGES:
        steps[stage]()
        shutil.copytree(work, root / stage)
    return root


@pytest.fixture
def at(stages: Path, tmp_path: Path) -> Callable[[str], Audit]:
    """Return a fresh copy of the small audit after a step; one call a test."""

    def copy(stage: str) -> Audit:
        root = tmp_path / stage
        shutil.copytree(stages / stage, root)
        return audit_in(root)

    return copy


@pytest.fixture
def apart(stages_apart: Path, tmp_path: Path) -> Callable[[str], Audit]:
    """Return a fresh copy, after a step, of the audit whose target is a file of its own."""

    def copy(stage: str) -> Audit:
        root = tmp_path / f"apart-{stage}"
        shutil.copytree(stages_apart / stage, root)
        return audit_in(root)

    return copy


@pytest.fixture(scope="session")
def draw_here() -> Callable[..., None]:
    """What can stand for ``draw_all`` where starting processes is not what is tested."""
    return draw_in_this_process


@pytest.fixture(scope="session")
def draw_groups_here() -> Callable[..., None]:
    """What can stand for ``draw_groups``."""
    return draw_groups


@pytest.fixture
def draws_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in this process, wherever an audit draws: starting others takes seconds each time."""
    draw_here_with(monkeypatch)


@pytest.fixture(scope="module")
def module_draws_here(stages: Path) -> Iterator[None]:
    """Let all tests of a file, and what they share, draw in this process.

    The small audit of ``stages`` is drawn before, in processes of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        draw_here_with(patch)
        yield


Value = dict[str, Any]
Step = tuple[Stage, Value]
Edit = Callable[[Value], None]


def unchanged(_: Any) -> None:
    """Edit nothing."""


class Forge:
    """What an author can do who lies and signs anew: every chain and signature is valid."""

    @staticmethod
    def author(audit: Audit) -> SigningKey:
        """Return the key that the audit is signed with."""
        return SigningKey.load(audit.home.root / "signing.pem")

    @staticmethod
    def steps(audit: Audit) -> list[Step]:
        """Return the ledger's stages and bodies, as values that can be edited."""
        # As they lie there: a forged ledger need not be one that can be read.
        lines = (audit.folder / NAME).read_bytes().splitlines()
        entries = [json.loads(line)["entry"] for line in lines]
        return [(Stage(entry["stage"]), entry["body"]) for entry in entries]

    @staticmethod
    def write_chain(audit: Audit, chain: list[Step], key: SigningKey) -> None:
        """Write a ledger whose digests and signatures are all valid, whatever its steps are."""
        lines, previous = [], "0" * 64
        for index, (stage, body) in enumerate(chain):
            entry = {
                "format": FORMAT, "index": index, "stage": stage.value, "signer": key.public,
                "body": body, "previous": previous,
            }  # fmt: skip
            content = canonical_bytes(entry)
            lines.append(canonical_bytes({"entry": entry, "signature": key.sign(content)}) + b"\n")
            previous = hashlib.sha256(content).hexdigest()
        (audit.folder / NAME).write_bytes(b"".join(lines))

    @classmethod
    def rewrite(cls, audit: Audit, **edits: Edit) -> None:
        """Change bodies by stage; every recorded file is recorded as it is now."""
        chain = cls.steps(audit)
        for stage, body in chain:
            for name in body.get("files", {}):
                body["files"][name] = audit.folder.sha256(name)
            edits.get(stage.value, unchanged)(body)
        cls.write_chain(audit, chain, cls.author(audit))

    @staticmethod
    def edit_json(audit: Audit, name: str, edit: Edit) -> Value:
        """Change a file of values and return what it holds now."""
        value: Value = json.loads((audit.folder / name).read_bytes())
        edit(value)
        audit.folder.write(name, canonical_bytes(value))
        return value

    @staticmethod
    def draws_of(manifest: Value) -> list[Value]:
        """Return the records of the small audit's draws."""
        draws: list[Value] = manifest["members"]["target"]["bootstrap"]["draws"]
        return draws

    @classmethod
    def registry(cls, audit: Audit, edit: Edit) -> None:
        """Register something else than the declaration resolves to."""
        value = cls.edit_json(audit, "registry/0.json", edit)
        cls.rewrite(audit, registered=lambda body: body.update(declaration=digest(value)))

    @classmethod
    def manifest(cls, audit: Audit, edit: Edit) -> None:
        """Freeze other releases, as if they had been drawn so."""
        cls.edit_json(audit, RELEASES, edit)
        cls.rewrite(audit, drawn=lambda body: body.update(releases=audit.folder.sha256(RELEASES)))

    @staticmethod
    def derive(audit: Audit, evidence: Value, name: str = "bootstrap") -> None:
        """Let all derived numbers follow from the statistics as they are now."""
        record = evidence["groups"][name]
        registry = audit.folder.registry(audit.journal())
        groups = groups_of(registry, audit.folder.document(ReleaseManifest, RELEASES))
        reading = readings_of(registry, groups, int(evidence["seed"]))[name][0]
        stated = GroupEvidence.of(record, EVIDENCE)
        with suppress(SealError):  # of statistics that are of no shape nothing is derived
            record["derived"] = derived_record(read_evidence(stated, reading)).to_dict()

    @classmethod
    def certificate(
        cls,
        audit: Audit,
        *,
        evidence: Edit = unchanged,
        predicate: Edit = unchanged,
        key: SigningKey | None = None,
    ) -> None:
        """Certify other evidence or say other words, with all digests in order."""
        folder = audit.folder
        changed = cls.edit_json(audit, EVIDENCE, evidence)
        journal = audit.journal()
        registry = folder.registry(journal)
        value = open_envelope((folder / CERTIFICATE).read_bytes())[0].to_dict()
        signed = recorded_files(journal.ledger.entries)
        grant = folder.document(Grant, GRANT).grant if GRANT in signed else None
        # Of evidence that has no form nothing follows: then the certificate says what it said.
        with suppress(SealError):
            stated = Evidence.of(changed, EVIDENCE)
            predicted = predicate_of(folder, journal, registry, stated, grant)
            value["predicate"] = predicted.to_dict()
        subjects = subjects_of(journal, registry, folder.sha256(EVIDENCE))
        value["subject"] = [
            {"name": n, "digest": {"sha256": d}} for n, d in sorted(subjects.items())
        ]
        predicate(value["predicate"])
        folder.write(CERTIFICATE, sign_statement(canonical_bytes(value), key or cls.author(audit)))
        cls.rewrite(audit)
        with suppress(SealError):
            write_report(folder, audit.journal())

    @staticmethod
    def found_by(audit: Audit, *, with_target: bool = False) -> str:
        """Return what verify says does not hold; there must be something."""
        found = audit.verify(with_target=with_target)
        assert not found.good
        return "\n".join(f"{one.place}: {one.problem}" for one in found.findings)


@pytest.fixture(scope="session")
def forge() -> type[Forge]:
    """What a lying author can do."""
    return Forge
