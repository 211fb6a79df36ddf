"""What draws depend on is registered: what changes is found before it is certified."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyguard.audit import draw as drawing
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import RELEASES
from proxyguard.cli.main import app
from proxyguard.documents.releases import ReleaseManifest, read_draw
from proxyguard.draw.confine import guard_here
from proxyguard.draw.messages import DrawResult, Failed, Prepared
from proxyguard.errors import DrawError, RegistryError, StageError
from proxyguard.seal.ledger import Stage

Value = dict[str, Any]

DECLARATION = """\
format = 1
name = "sources"
purpose = "Are releases what was registered?"

[target]
table = "table.csv"
reserve = { rows = 60, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.10", round_up = "0.001" }

[[mechanism]]
name = "files"
generator = "files"
options = { folder = "releases", first = 100 }
draws = 5
seeds = { first = 100 }

[claim]
reliability_target = "0.5"
"""
FILES = DECLARATION[DECLARATION.index('generator = "files"') : DECLARATION.index("draws = 5")]


def lines(rows: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    rows_ = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    return ["first,second,label", *rows_]


def put(path: Path, content: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(content) + "\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A table and a folder of five releases."""
    put(tmp_path / "data" / "table.csv", lines(160, 1))
    for i in range(5):
        put(tmp_path / "data" / "releases" / f"{i}.csv", lines(80, 50 + i))
    return tmp_path / "data"


@pytest.fixture
def make(tmp_path: Path, data: Path) -> Callable[..., Audit]:
    """Return an audit that is sealed and registered."""

    def new(text: str = DECLARATION, *, registered: bool = True) -> Audit:
        audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
        audit.init(text)
        audit.seal()
        if registered:
            audit.register()
        return audit

    return new


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    """Draw in this process, without the seconds that starting others takes."""
    monkeypatch.setattr(drawing, "draw_all", draw_here)
    monkeypatch.setattr("proxyguard.audit.sequential.draw_all", draw_here)


class Killed(BaseException):
    """Stands for the end of the process."""


def kill_after(draws: int, audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw, and die once so many draws are kept."""
    real = drawing.draw_all

    def dying(job: Value, seeds: Sequence[int], *, keep: Any, **rest: Any) -> None:
        done = 0

        def kept(*answer: Any) -> None:
            nonlocal done
            if done == draws:
                raise Killed
            keep(*answer)
            done += 1

        real(job, seeds, keep=kept, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(drawing, "draw_all", dying)
        with pytest.raises(Killed):
            audit.draw()


def edit(audit: Audit, old: str, new: str) -> None:
    place = audit.folder / "audit.toml"
    text = place.read_text()
    assert text.count(old) == 1
    place.write_text(text.replace(old, new))


def draws_of(audit: Audit, name: str = "files") -> list[Value]:
    draws: list[Value] = json.loads(audit.folder.read(RELEASES))["members"]["target"][name]["draws"]
    return draws


def assert_verified(audit: Audit) -> None:
    found = audit.verify(with_target=True)
    assert (found.findings, found.unknown) == ([], [])


# Files


@pytest.mark.usefixtures("here")
def test_a_file_replaced_between_two_runs_of_draw_is_not_certified_as_the_old_one(
    make: Callable[..., Audit], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make()
    kill_after(2, audit, monkeypatch)
    put(data / "releases" / "0.csv", lines(80, 99))
    with pytest.raises(DrawError, match=r"releases/0\.csv has digest .*registered was .*amend"):
        audit.draw()
    audit.amend("the first file was a draft")
    with pytest.raises(DrawError, match=r"releases/0\.csv.*draw --again files:100$"):
        audit.draw()
    assert not audit.journal().ledger.has(Stage.DRAWN)
    audit.draw([("files", 100)])
    first, second = draws_of(audit)[:2]
    registered = (
        audit.folder.registry(audit.journal()).members["target"].to_dict()["mechanisms"]["files"]
    )
    assert first["files"] == {"releases/0.csv": registered["files"][0]["sha256"]}
    assert first["content"] == registered["files"][0]["content"]
    assert [one["status"] for one in first["again"]] == ["drawn"]
    assert "again" not in second
    certificate = audit.open().to_dict()
    assert certificate is not None
    guarantee = certificate["claim_status"]["guarantee"]
    assert "the claim was amended after 2 releases were drawn" in guarantee
    assert "draws were made again and came out otherwise: files:100" in guarantee
    assert "draw 100 was dropped and made again" in (audit.folder / "report.md").read_text()
    assert_verified(audit)  # what was dropped is vouched for, too


@pytest.mark.usefixtures("here")
def test_a_draw_made_again_from_the_same_source_costs_nothing_and_is_said(
    make: Callable[..., Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make()
    kill_after(2, audit, monkeypatch)
    audit.draw([(None, 101)])
    entry = audit.journal().ledger.find(Stage.DRAWN)[0]
    assert entry.body.to_dict()["again"] == [{"mechanism": "files", "seed": 101, "same": True}]
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["claim_status"]["guarantee"] == "yes"
    with pytest.raises(StageError, match="frozen, and none of them is drawn again"):
        audit.draw([(None, 101)])


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("status", "failed"), ("content", "f" * 64), ("model", "f" * 64), ("threshold", "0.5"),
        ("temperature", "2.0"), ("selected", "logistic"), ("stages", []), ("files", {}),
        ("prepared_from", {"fit": "f" * 64}), (None, None),
    ],
)  # fmt: skip
def test_a_draw_made_again_is_the_same_only_if_its_model_and_choices_are(
    key: str | None, other: object
) -> None:
    record: Value = {
        "seed": 7, "status": "drawn", "content": "a" * 64, "model": "b" * 64, "threshold": None,
        "temperature": None, "selected": "fixed_logistic", "stages": ["rows"],
        "files": {"a.csv": "c" * 64}, "rows": 9, "guard": "audit hook", "release": "d" * 64,
        "prepared_at_random": False,
    }  # fmt: skip
    dropped = record if key is None else {**record, key: other}
    if key == "status":
        dropped = {"seed": 7, "status": other, "error": "no release", "guard": "audit hook"}
    draws = [{**record, "again": [dropped]}]
    manifest = {
        "format": 1, "registry": "e" * 64, "sources": {},
        "members": {"target": {"files": {"draws": draws}}},
    }  # fmt: skip
    (told,) = ReleaseManifest.of(manifest, "releases.json").again
    assert told.to_dict() == {"mechanism": "files", "seed": 7, "same": key is None}


def test_only_registered_seeds_are_drawn_again(make: Callable[..., Audit]) -> None:
    audit = make()
    for again in ([("files", 99)], [("others", 100)], [(None, 105)]):
        with pytest.raises(RegistryError, match="is no registered draw"):
            audit.draw(again)


@pytest.mark.usefixtures("here")
def test_a_file_replaced_while_draws_run_is_found(
    make: Callable[..., Audit], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make()
    real = drawing.draw_all

    def replacing(*job: Any, **rest: Any) -> None:
        put(data / "releases" / "3.csv", lines(80, 99))
        real(*job, **rest)

    monkeypatch.setattr(drawing, "draw_all", replacing)
    with pytest.raises(DrawError, match=r"seed 103: .*other bytes.*releases/3\.csv has digest"):
        audit.draw()
    kept = sorted(path.stem for path in (audit.folder / "draws").glob("*/*.json"))
    assert kept == ["100", "101", "102"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda folder: (folder / "2.csv").unlink(),
            "5 draws are declared, and .* has 4 files",
        ),
        (
            lambda folder: put(folder / "00.csv", lines(80, 9)),
            "seed 101 stands for releases/00.csv, registered was",
        ),
        (lambda folder: [p.unlink() for p in folder.iterdir()], "'releases' has no file"),
    ],
    ids=["removed", "put before the others", "emptied"],
)
def test_a_folder_whose_seeds_stand_for_other_files_is_not_drawn_from(
    make: Callable[..., Audit], data: Path, change: Callable[[Path], object], words: str
) -> None:
    audit = make()
    change(data / "releases")
    with pytest.raises(DrawError, match=words):
        audit.draw()
    assert [path.name for path in (audit.folder / "draws").iterdir()] == ["stopped"]


def test_more_draws_than_files_are_not_registered(make: Callable[..., Audit]) -> None:
    audit = make(DECLARATION.replace("draws = 5", "draws = 7"), registered=False)
    with pytest.raises(
        RegistryError, match="7 draws are declared, and 'releases' has 5 files; write"
    ):
        audit.register()
    assert any("has 5 files; write draws = 5" in one for one in audit.check().problems)


@pytest.mark.usefixtures("here")
def test_a_stand_in_that_was_replaced_is_not_drawn(
    make: Callable[..., Audit], data: Path, forge: Any
) -> None:
    put(data / "stand-in.csv", lines(80, 70))
    mechanism = DECLARATION[DECLARATION.index("[[mechanism]]") : DECLARATION.index("[claim]")]
    text = DECLARATION.replace(
        mechanism, '[[release]]\nname = "given"\nfile = "stand-in.csv"\n\n'
    ).replace('reliability_target = "0.5"', 'level = "releases"')
    audit = make(text)
    put(data / "stand-in.csv", lines(80, 71))
    with pytest.raises(DrawError, match=r"given: .*stand-in\.csv has digest"):
        audit.draw()
    audit.amend("the right file")
    audit.draw()
    assert audit.verify().good
    # It was not drawn, so that no message calls it by a seed.
    forge.manifest(
        audit, lambda m: m["members"]["target"]["given"]["draws"][0].update(content="f" * 64)
    )
    problems = [finding.problem for finding in audit.verify().findings]
    assert any(p.startswith("given: the release is another than") for p in problems), problems


def test_a_draw_of_a_stand_in_that_stops_says_what_can_still_be_done(
    make: Callable[..., Audit], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(data / "stand-in.csv", [*lines(80, 70), "secret,2,no"])
    head = DECLARATION[: DECLARATION.index("[[mechanism]]")]
    named = '[[release]]\nname = "given"\nfile = "stand-in.csv"\n\n[claim]\nlevel = "releases"\n'
    monkeypatch.setattr("proxyguard.audit.register.faults_of", lambda *_: [])
    audit = make(head + named)
    told = r"^given \(stand-in\.csv\): .* row 81 has none .*proxyguard amend .* init NEW --from"
    with pytest.raises(DrawError, match=told) as error:
        audit.draw()
    assert audit.status().stopped == str(error.value)
    put(data / "stand-in.csv", lines(80, 70))
    audit.amend("the file was mended")
    assert not [words for words in audit.check().warnings if "guarantee" in words]


@pytest.mark.usefixtures("here")
def test_a_stand_in_that_is_no_release_is_mended_before_it_is_registered(
    make: Callable[..., Audit], data: Path
) -> None:
    good, (first, *rest) = lines(80, 70), lines(80, 70)
    put(data / "stand-in.csv", [first, "secret,2,no", *rest])
    head = DECLARATION[: DECLARATION.index("[[mechanism]]")]
    named = '[[release]]\nname = "given"\nfile = "stand-in.csv"\n\n[claim]\nlevel = "releases"\n'
    audit = make(head + named, registered=False)
    told = (
        r"stand-in\.csv, row 1 has none.*Nothing is registered: mend the files; .*init NEW --from"
    )
    with pytest.raises(RegistryError, match=told):
        audit.register()
    assert not audit.journal().ledger.has(Stage.REGISTERED)
    assert any("row 1 has none" in p and "init NEW --from" in p for p in audit.check().problems)
    put(data / "stand-in.csv", good)
    audit.register()
    audit.draw()
    assert audit.verify().good


def test_status_says_what_the_last_draw_stopped_at(
    make: Callable[..., Audit], data: Path, here: None
) -> None:
    put(data / "stand-in.csv", lines(80, 70))
    head = DECLARATION[: DECLARATION.index("[[mechanism]]")]
    named = '[[release]]\nname = "given"\nfile = "stand-in.csv"\n\n[claim]\nlevel = "releases"\n'
    audit = make(head + named)
    assert audit.status().stopped is None
    put(data / "stand-in.csv", lines(80, 71))
    with pytest.raises(DrawError, match="has digest") as error:
        audit.draw()
    assert audit.status().stopped == str(error.value)
    said = " ".join(CliRunner().invoke(app, ["status", str(audit.folder.path)]).output.split())
    assert "The last draw stopped: given: what this rests on is no longer" in said
    put(data / "stand-in.csv", lines(80, 70))
    audit.draw()
    assert audit.status().stopped is None


@pytest.mark.usefixtures("here")
def test_a_file_of_a_sequential_audit_is_compared_before_each_draw(
    make: Callable[..., Audit], data: Path
) -> None:
    claim = 'reliability_target = "0.5"\nmode = "sequential"\nthreshold = "0.01"\nlooks = [4, 5]'
    audit = make(DECLARATION.replace('reliability_target = "0.5"', claim))
    assert audit.open(most=1) is None
    put(data / "releases" / "1.csv", lines(80, 99))
    with pytest.raises(DrawError, match=r"releases/1\.csv has digest .*Restore it"):
        audit.open()
    assert len(audit.journal().ledger.find(Stage.DRAWN)) == 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda record: record["files"].update({"releases/0.csv": "f" * 64}), "another file"),
        (lambda record: record.pop("files"), r"releases/0.csv was not read"),
        (lambda record: record.update(again=[]), "other draws that were made again"),
    ],
    ids=["another digest", "no digest", "drawn again"],
)
def test_a_release_of_another_file_than_was_registered_is_found(
    make: Callable[..., Audit], forge: Any, lie: Callable[[Value], object], words: str
) -> None:
    audit = make()
    audit.draw()
    forge.manifest(audit, lambda value: lie(value["members"]["target"]["files"]["draws"][0]))
    assert words in forge.found_by(audit)


# Code and settings


GENERATOR = '''
import json
import os
from pathlib import Path

from {helper} import share


class Resampled:
    """Some rows of the source."""

    def __init__(self, settings):
        self._settings = settings
        self.prepared_from = {{}}

    def describe(self):
        return {{"rows": json.loads(Path(self._settings).read_text())["rows"]}}

    def prepare(self, source, rng):
        self._source = source

    def draw(self, seed):
        rng = seed.rng("rows")
        return self._source.iloc[rng.integers(len(self._source), size=int(60 * share()))]


def brier(y, p):
    return (y - p) ** 2
'''


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a generator of somebody's own, a helper beside it, and its settings."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "pg_own_helper.py").write_text("def share():\n    return 1.0\n")
    (folder / "pg_own.py").write_text(GENERATOR.format(helper="pg_own_helper"))
    (folder / "settings.json").write_text('{"rows": 60}')
    monkeypatch.syspath_prepend(folder)
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{before}" if before else str(folder))
    yield folder
    for name in ("pg_own", "pg_own_helper"):
        sys.modules.pop(name, None)


def own(code: Path) -> str:
    """Return the declaration of an audit of that generator."""
    options = f'options = {{ settings = "{code / "settings.json"}" }}'
    allow = f'allow = ["{code / "settings.json"}"]'
    return DECLARATION.replace(FILES, f'generator = "pg_own:Resampled"\n{options}\n{allow}\n')


def test_a_generator_that_describes_itself_otherwise_is_not_drawn(
    make: Callable[..., Audit], code: Path
) -> None:
    audit = make(own(code))
    (code / "settings.json").write_text('{"rows": 30}')
    with pytest.raises(DrawError, match=r"rows is 30, registered was 60.*proxyguard amend"):
        audit.draw()
    audit.amend("smaller releases")
    audit.draw()
    assert audit.verify().good


@pytest.mark.parametrize(
    ("described", "named"),
    [
        ('{"rows": float("nan")}', r"value\.rows is nan"),
        ('{3: "rows"}', "a key 3 that is no text"),
        ('{"rows": {1, 2}}', r"value\.rows is a set"),
        ('{"rows": "\\ud800"}', r"value\.rows holds '\\ud800'"),
        ("[1]", "gave a list"),
    ],
)
def test_a_description_that_cannot_be_registered_is_named_with_its_generator_and_key(
    make: Callable[..., Audit], code: Path, described: str, named: str
) -> None:
    text = (code / "pg_own.py").read_text()
    before = '{"rows": json.loads(Path(self._settings).read_text())["rows"]}'
    assert before in text
    (code / "pg_own.py").write_text(text.replace(before, described))
    with pytest.raises(RegistryError, match=rf"pg_own:Resampled.*describe\(\).*{named}"):
        make(own(code))


def test_a_release_whose_name_is_no_text_is_named_before_anything_is_registered(
    make: Callable[..., Audit], data: Path
) -> None:
    releases = os.fsencode(data / "releases")
    os.rename(releases + b"/3.csv", releases + b"/3\xff.csv")
    with pytest.raises(RegistryError, match=r"'3\\udcff.csv'.*rename it"):
        make()


def test_the_drawing_process_asks_the_generator_that_it_loaded(
    make: Callable[..., Audit], code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make(own(code))
    (code / "settings.json").write_text('{"rows": 30}')
    # As if it had changed between the look of the command and that of the process.
    monkeypatch.setattr(drawing, "changes_of", lambda *_: [])
    with pytest.raises(DrawError, match="rows is 30, registered was 60"):
        audit.draw()
    assert not list((audit.folder / "draws").glob("*/*.json"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("module", ["pg_own", "pg_own_helper"])
def test_code_that_changed_after_registration_is_not_drawn_with(
    make: Callable[..., Audit], code: Path, module: str
) -> None:
    audit = make(own(code))
    place = code / f"{module}.py"
    place.write_text(place.read_text() + "\n# another text\n")
    with pytest.raises(DrawError, match=f"the text of module {module} has digest"):
        audit.draw()


@pytest.mark.usefixtures("here")
def test_a_file_that_draws_are_allowed_to_read_is_registered_by_its_digest(
    make: Callable[..., Audit], code: Path
) -> None:
    audit = make(own(code))
    (code / "settings.json").write_text('{"rows": 60, "more": 1}')  # described as before
    with pytest.raises(DrawError, match=r"settings\.json is '[0-9a-f]{64}', registered was"):
        audit.draw()


def test_an_allowed_file_that_changes_while_draws_run_stops_them(
    tmp_path: Path, data: Path, code: Path
) -> None:
    place = code / "pg_own.py"
    slow = "        __import__('time').sleep(0.3)\n        rng = seed.rng"
    place.write_text(place.read_text().replace("        rng = seed.rng", slow))

    def progress(what: str, done: int, total: int) -> None:
        if (what, done) == ("files", 1):
            (code / "settings.json").write_text('{"rows": 60, "more": 1}')  # described as before

    audit = Audit(
        tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1, progress=progress
    )
    audit.init(own(code))
    audit.seal()
    audit.register()
    with pytest.raises(DrawError, match=r"settings\.json is '[0-9a-f]{64}', registered was"):
        audit.draw()
    # The draw that ran while the file changed is not kept either: nobody knows what it read.
    assert [path.stem for path in (audit.folder / "draws").glob("*/*.json")] == ["100"]
    assert not audit.journal().ledger.has(Stage.DRAWN)


@pytest.mark.usefixtures("here")
def test_another_version_of_the_generators_package_is_not_drawn_with(
    make: Callable[..., Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = make()
    monkeypatch.setattr("proxyguard.draw.catalog.package_version", lambda module: "9.9")
    with pytest.raises(DrawError, match=r"version is '9\.9', registered was '"):
        audit.draw()


@pytest.mark.usefixtures("here")
def test_a_function_that_a_generator_calls_is_registered_by_its_text(
    make: Callable[..., Audit], code: Path
) -> None:
    (code / "pg_own.py").write_text(
        "def resample(source, rng):\n    return source.sample(60, replace=True, random_state=rng)\n"
    )
    audit = make(
        DECLARATION.replace(
            FILES, 'generator = "callable"\noptions = { function = "pg_own:resample" }\n'
        )
    )
    (code / "pg_own.py").write_text("def resample(source, rng):\n    return source.head(60)\n")
    with pytest.raises(DrawError, match="the text of module pg_own has digest"):
        audit.draw()


@pytest.mark.usefixtures("here")
def test_a_procedure_named_by_import_path_is_registered_by_its_text(
    make: Callable[..., Audit], code: Path
) -> None:
    (code / "pg_own.py").write_text(
        "from sklearn.linear_model import LogisticRegression\n\n"
        "class Own(LogisticRegression):\n    pass\n"
    )
    audit = make(
        DECLARATION.replace(
            'library = ["fixed_logistic"]',
            'library = ["pg_own:Own"]\ntrusted = ["pg_own.Own"]',
        )
    )
    (code / "pg_own.py").write_text((code / "pg_own.py").read_text() + "\n# another text\n")
    with pytest.raises(DrawError, match="the text of module pg_own has digest"):
        audit.draw()


@pytest.mark.usefixtures("here")
def test_a_loss_whose_code_changed_is_found_before_the_target_is_opened(
    make: Callable[..., Audit], code: Path
) -> None:
    audit = make(
        DECLARATION.replace('loss = "brier"', 'loss = "pg_own:brier"\nlow = "0"\nhigh = "1"')
    )
    audit.draw()
    (code / "pg_own.py").write_text((code / "pg_own.py").read_text() + "\n# another text\n")
    with pytest.raises(DrawError, match=r"the code of pg_own:brier: .*text of module pg_own"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


@pytest.mark.usefixtures("here")
def test_draws_of_two_preparations_are_not_mixed(
    make: Callable[..., Audit], code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (code / "pg_own.py").read_text()
    kept = "        self.prepared_from = {'fit': Path(self._settings).with_name('fit').read_text()}"
    (code / "pg_own.py").write_text(
        text.replace("        self._source = source\n", f"        self._source = source\n{kept}\n")
    )
    (code / "fit").write_text("a" * 64)
    audit = make(own(code))
    kill_after(2, audit, monkeypatch)
    (code / "fit").write_text("b" * 64)
    with pytest.raises(DrawError, match=r"seed 102: it rests on .*one claim is about one prep"):
        audit.draw()


# Copies


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("mend", ["excluded", "removed"])
def test_a_duplicate_is_named_by_file_before_models_are_trained_and_the_audit_goes_on(
    make: Callable[..., Audit], data: Path, monkeypatch: pytest.MonkeyPatch, mend: str
) -> None:
    folder = data / "releases"
    rows = (folder / "1.csv").read_text().splitlines()
    put(folder / "3.csv", [rows[0], *reversed(rows[1:])])  # the same records in another order
    audit = make()
    asked: list[int] = []
    real = drawing.draw_all

    def noted(job: Value, seeds: Sequence[int], **rest: Any) -> None:
        asked.extend(seeds)
        real(job, seeds, **rest)

    monkeypatch.setattr(drawing, "draw_all", noted)
    named = r"releases/1\.csv \(seed 101\) and releases/3\.csv \(seed 103\) hold the same records"
    with pytest.raises(DrawError, match=named):
        audit.draw()
    assert asked == []
    assert any("releases/1.csv and releases/3.csv" in one for one in audit.check().problems)
    if mend == "excluded":
        audit.amend("a copy", [("files", 103)])
    else:
        (folder / "3.csv").unlink()
        edit(audit, "draws = 5", "draws = 4")
        audit.amend("a copy")
    assert not any("the same records" in one for one in audit.check().problems)
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["claim_status"]["guarantee"] == "yes"  # nothing was drawn before
    excluded = int(mend == "excluded")
    assert certificate["draws"]["files"] == {
        "registered": 4 + excluded, "delivered": 4 + excluded, "failed": 0, "excluded": excluded,
        "used": 4,
    }  # fmt: skip
    assert_verified(audit)


def test_draws_that_repeat_go_on_after_one_of_them_is_excluded(
    make: Callable[..., Audit], code: Path
) -> None:
    text = (
        (code / "pg_own.py")
        .read_text()
        .replace('rng = seed.rng("rows")', 'rng = type(seed)(min(seed, 103)).rng("rows")')
    )
    (code / "pg_own.py").write_text(text)
    audit = make(own(code))
    with pytest.raises(DrawError, match=r"seeds 103 and 104 gave the same.*--exclude files:104"):
        audit.draw()
    audit.amend("the generator's last seed repeats", [("files", 104)])
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["draws"]["files"]["used"] == 4
    assert "amended after 5 releases were drawn" in certificate["claim_status"]["guarantee"]
    assert_verified(audit)


# Bad files


BAD: Mapping[str, Callable[[Path], object]] = {
    'lacks the columns "second" of the source': lambda p: put(p, ["first,label", "1,yes"]),
    "1.csv is empty": lambda p: p.write_text(""),
    "1.csv has no record": lambda p: put(p, ["first,second,label"]),
    "column 'first' holds numbers": lambda p: put(p, ["first,second,label", "much,2,yes"]),
}


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize("words", BAD)
def test_a_bad_file_is_a_failed_draw_and_counts(
    make: Callable[..., Audit], data: Path, words: str
) -> None:
    BAD[words](data / "releases" / "1.csv")
    audit = make()
    warnings = [one for one in audit.check().warnings if "counts as failed" in one]
    assert len(warnings) == 1
    assert words in warnings[0]
    assert "files, seed 101: " in warnings[0]
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert certificate["draws"]["files"] == {
        "registered": 5, "delivered": 4, "failed": 1, "excluded": 0, "used": 5,
    }  # fmt: skip
    (failure,) = certificate["failed"]["files"]
    assert failure["seed"] == 101
    assert "1.csv" in failure["error"]
    evidence = json.loads((audit.folder / "evidence.json").read_bytes())["groups"]["files"]
    assert evidence["columns"][0]["mean"][1] == 1.0  # the upper bound of a Brier loss
    report = (audit.folder / "report.md").read_text()
    assert "| files | 5 | 4 | 1 | 0 | 5 |" in report
    assert_verified(audit)


def test_check_names_all_bad_files_at_once_and_draw_stops_where_that_is_declared(
    make: Callable[..., Audit], data: Path
) -> None:
    for i, spoil in enumerate(BAD.values()):
        spoil(data / "releases" / f"{i}.csv")
    text = DECLARATION.replace("draws = 5", 'draws = 5\non_failure = "stop"')
    audit = make(text, registered=False)
    audit.register()
    problems = [one for one in audit.check().problems if 'on_failure = "stop"' in one]
    assert [one.partition(":")[0] for one in problems] == [
        f"files, seed {s}" for s in range(100, 104)
    ]
    done = CliRunner().invoke(app, [
        "draw", str(audit.folder.path), "--home", str(audit.home.root), "--data", str(data),
    ])  # fmt: skip
    assert done.exit_code == 1
    assert not [*(audit.folder / "draws").glob("*/*")]
    said = " ".join(done.output.split()) + str(done.exception)
    with pytest.raises(DrawError, match="4 of 5 files are no releases") as error:
        audit.draw()
    assert all(f"{i}.csv" in str(error.value) for i in range(4)), said


def test_check_names_bad_files_before_anything_is_sealed(tmp_path: Path, data: Path) -> None:
    put(data / "releases" / "2.csv", ["first,label", "1,yes"])
    (data / "releases" / "4.csv").write_text("")
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
    audit.init(DECLARATION)
    found = audit.check()
    assert found.good
    assert [one for one in found.warnings if '2.csv lacks the columns "second"' in one]
    assert [one for one in found.warnings if "4.csv is empty" in one]


def test_check_finds_what_no_draw_of_a_file_could_learn_from(
    make: Callable[..., Audit], data: Path, here: None
) -> None:
    alone = [line for line in lines(80, 51) if not line.endswith("no")]
    put(data / "releases" / "1.csv", alone)
    audit = make()
    (told,) = [one for one in audit.check().warnings if "counts as failed" in one]
    assert told.startswith("files, seed 101: releases/1.csv has one class only")


# What is wrong with a file, and what is told of it; a value of it is not.
WRONG: Mapping[str, Callable[[list[str]], list[str]]] = {
    "column 'first' holds numbers, and a.csv, row 3 and 1 more have none that can be read; the "
    "same of b.csv, row 4; mend it, or write in audit.toml, under [columns], first = { missing":
        lambda all_: all_,
    "column 'second' holds numbers, and a.csv, row 3 has none": lambda all_: all_,
    "c.csv has one class only": lambda all_: [x for x in all_ if not x.endswith("no")],
    "d.csv: column 'second' has missing values, which the learner 'fixed_logistic' does not":
        lambda all_: [*all_, "1,,yes"],
    'e.csv lacks the columns "label" of the source; if it was made without them, write lacks':
        lambda all_: [x.rpartition(",")[0] for x in all_],
    "f.csv has no record": lambda all_: all_[:1],
    "g.csv: 'label' is declared with positive": lambda all_: [*all_, "1,2,kanske"],
}  # fmt: skip


def test_check_finds_all_that_would_stop_the_draw_of_named_releases(
    tmp_path: Path, data: Path
) -> None:
    files = {f"{sign}.csv": spoil(lines(80, 50)) for sign, spoil in zip("abcdefg", [
        lambda all_: [*all_[:3], "secret,secret,yes", "secret,2,no", *all_[5:]],
        lambda all_: [*all_[:4], "secret,2,no", *all_[5:]],
        *list(WRONG.values())[2:],
    ], strict=True)}  # fmt: skip
    named = ""
    for name, content in files.items():
        put(data / name, content)
        named += f'[[release]]\nname = "{name}"\nfile = "{name}"\n\n'
    head = DECLARATION[: DECLARATION.index("[[mechanism]]")]
    told: list[tuple[str, int, int]] = []
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data],
                  progress=lambda *now: told.append(now))  # fmt: skip
    audit.init(head + named + '[claim]\nlevel = "releases"\n')
    problems = audit.check().problems
    for words, problem in zip(WRONG, problems, strict=True):
        assert words in problem
        assert "secret" not in problem
    assert told[-1] == ("reading releases", 7, 7)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_a_failed_draw(
    make: Callable[..., Audit], data: Path
) -> None:
    (data / "releases" / "1.csv").chmod(0)
    audit = make()
    audit.draw()
    assert [one["status"] for one in draws_of(audit)].count("failed") == 1


def test_a_draw_that_failed_because_its_file_could_not_be_read_is_recorded_and_read_again() -> None:
    said = Failed(seed=101, error="not readable", files={"releases/1.csv": None})
    prepared = Prepared(prepared_at_random=False)
    result = DrawResult(said=said, release=b"", model=b"", guard=guard_here(), prepared=prepared)
    made = drawing.made_draw(result, format=1)
    assert made.files == {"releases/1.csv": None}
    assert read_draw(json.loads(made.to_bytes()), "the draw") == made
