"""A class of a notebook draws by its text: sealed, stored, and run by nobody who did not ask."""

from __future__ import annotations

import linecache
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import proxyguard as pg
from audit.conftest import DECLARATION
from proxyguard.audit.audit import Audit
from proxyguard.draw.catalog import is_built_in, is_ours, load_generator, only_our_code

MINE = """\
import numpy as np
import pandas as pd

ROWS = 200

def rows_of(source, rng):
    return source.iloc[rng.integers(0, len(source), ROWS)]

class Mine:
    def __init__(self, shift: float = 0.0):
        self.shift = shift

    def describe(self):
        return {"mechanism": "rows with a shift", "shift": str(self.shift)}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator):
        self.source = source

    def draw(self, seed):
        table = rows_of(self.source, seed.rng("rows")).reset_index(drop=True)
        return table.assign(first=table["first"] + self.shift)

def drawn(source, rng, rows=100):
    return rows_of(source, rng).head(rows).reset_index(drop=True)
"""


class Session:
    """A notebook: cells that are run one after the other, whose text is kept as IPython does."""

    def __init__(self) -> None:
        self.main = ModuleType("__main__")
        self.cells: list[str] = []

    def run(self, text: str, *, kept: bool = True) -> None:
        name = f"<cell {id(self)} {len(self.cells)}>"
        self.cells.append(name)
        if kept:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), vars(self.main))

    def __getitem__(self, name: str) -> Any:
        return vars(self.main)[name]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    notebook = Session()
    monkeypatch.setitem(sys.modules, "__main__", notebook.main)
    yield notebook
    for name in notebook.cells:
        linecache.cache.pop(name, None)


def test_a_class_is_written_down_with_all_that_it_needs(session: Session) -> None:
    session.run(MINE)
    code = pg.code_of(session["Mine"], shift=0.5)
    assert "import numpy as np\nimport pandas as pd\n" in code.text
    assert "def rows_of(" in code.text
    assert "ROWS = 200" in code.text
    assert "def drawn(" not in code.text  # which it does not use
    # Before what uses it: the text is run from the top.
    assert code.text.index("def rows_of") < code.text.index("class Mine")
    assert load_generator("code", code.options).describe()["shift"] == "0.5"


@pytest.mark.parametrize("quotes", ["'''", '"', "\\", "\t", "\x7f", "ä\u202e"])
def test_what_is_declared_reads_back_as_the_same_text(session: Session, quotes: str) -> None:
    returned = "'''a'''" if quotes == "'''" else f"{quotes!r}  # {quotes}"
    session.run(f"def f(source, rng, a=1):\n    return {returned}\n")
    settings = {"a": [1, 2.5, True, quotes], "b c": {"d": "e"}}
    code = pg.code_of(session["f"], **settings)
    assert tomllib.loads(code.toml) == {"generator": "code", "options": code.options}
    assert code.toml.startswith("# the text is sealed and given on with the audit")


def refused(session: Session, text: str, name: str = "f", **settings: object) -> str:
    session.run(text)
    with pytest.raises(pg.RegistryError) as caught:
        pg.code_of(session[name], **settings)
    return str(caught.value)


def test_names_that_only_the_session_has_are_refused_by_name(session: Session) -> None:
    said = refused(
        session,
        "table = {'a': 1}\nmodel = [table]\n"
        "def g():\n    return table\n"
        "def f(source, rng):\n    return g(), model, missing\n",
    )
    assert "table, which g uses, is a dict of this session" in said
    assert "model, which f uses, is a list of this session" in said
    assert "missing, which f uses, is not defined here" in said
    assert "make it inside the class or function" in said


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("f = lambda source, rng: source", "f", "write it with def"),
        ("def make():\n    k = 1\n    def f(source, rng):\n        return k\n    return f\n"
         "f = make()", "f", "at the left margin of a cell"),
        ("class K:\n    class Inner:\n        def draw(self): pass\nf = K.Inner", "f",
         "at the left margin"),
        ("class K:\n    pass\nf = K()", "f", "give the class or the function"),
        ("class f:\n    pass", "f", "no method of its own"),
        ("from json import dumps as f", "f", 'function = "json:dumps"'),
    ],
)  # fmt: skip
def test_what_has_no_text_of_its_own_says_what_to_write(
    session: Session, text: str, name: str, words: str
) -> None:
    assert words in refused(session, text, name)


def test_a_session_that_keeps_no_text_is_told_so(session: Session) -> None:
    session.run("def f(source, rng): return source", kept=False)
    with pytest.raises(pg.RegistryError, match="this session keeps none of what is typed"):
        pg.code_of(session["f"])


def test_a_cell_with_a_command_of_the_notebook_is_told(session: Session) -> None:
    session.run("def f(source, rng):\n    return source\n")
    name = session.cells[0]
    lines = ["%time f\n", "def f(source, rng):\n", "    return source\n"]
    linecache.cache[name] = (1, None, lines, name)
    with pytest.raises(pg.RegistryError, match="a line that is no Python"):
        pg.code_of(session["f"])


def test_settings_are_plain_values(session: Session) -> None:
    said = refused(session, "def f(source, rng, t=None): return t", "f", t=object())
    assert "not all are plain values" in said


def test_definitions_that_need_each_other_and_other_spellings_are_found(session: Session) -> None:
    session.run(
        "from __future__ import annotations\n"
        "import functools, math as m\nfrom statistics import mean as average\n"
        "def noted(function):\n"
        "    @functools.wraps(function)\n"
        "    def inner(*a, **k):\n        return function(*a, **k)\n"
        "    return inner\n"
        "def even(n): return n == 0 or odd(n - 1)\n"
        "def odd(n): return n != 0 and even(n - 1)\n"
        "@noted\n"
        "def f(source: NoSuchName, rng):\n"
        "    return [m.floor(average([x])) for x in (1, 2) if even(x)]\n"
    )
    code = pg.code_of(session["f"])
    assert code.text.startswith("from __future__ import annotations\nfrom statistics import mean")
    session.main.__dict__.clear()  # nothing of the session is left
    from proxyguard.draw.catalog import load_text

    assert load_text(code.text, "f")(None, None) == [2]


def test_a_text_is_code_of_others(session: Session) -> None:
    assert not is_ours("code")
    assert not is_built_in("code")
    session.run("def f(source, rng): return source\n")
    options = pg.code_of(session["f"]).options
    with only_our_code(), pytest.raises(pg.UntrustedCode, match="is not run here"):
        load_generator("code", options)


@pytest.mark.parametrize(
    ("text", "words"),
    [("import no_such_module_anywhere", "cannot be run: ModuleNotFoundError"),
     ("f = 3", "no class and no function 'f'"), ("def f(", "cannot be run: SyntaxError")],
)  # fmt: skip
def test_a_text_that_does_not_work_is_told_as_one(text: str, words: str) -> None:
    with pytest.raises(pg.RegistryError, match=words) as caught:
        load_generator("code", {"name": "f", "text": text})
    assert len(str(caught.value)) < 300  # and not with all of the text


def declared(code: pg.CodeText) -> str:
    return DECLARATION.replace('generator = "bootstrap"', code.toml).replace(
        "draws = 8", "draws = 3"
    )


@pytest.fixture
def audited(session: Session, at: Callable[[str], Audit], monkeypatch: pytest.MonkeyPatch) -> Audit:
    """An audit whose mechanism is a class of a notebook, drawn."""
    session.run(MINE)
    audit = at("new")
    (audit.folder.path / "audit.toml").write_text(declared(pg.code_of(session["Mine"], shift=0.1)))
    monkeypatch.undo()
    assert not audit.check().problems
    audit.seal()
    audit.register()
    audit.draw()
    return audit


def test_draws_come_from_the_text_that_was_registered(audited: Audit) -> None:
    registry = audited.folder.registry(audited.journal())
    mechanism = registry.members["target"].drawn("bootstrap")
    assert mechanism is not None
    assert "class Mine:" in str(mechanism.options["text"])
    assert {"numpy", "pandas"} <= set(mechanism.origin.also or {})
    group = audited.folder.document(pg_manifest(), "releases.json").members["target"]["bootstrap"]
    assert [(draw.seed, draw.rows, draw.stages[0]) for draw in group.draws] == [
        (100 + k, 200, "rows") for k in range(3)
    ]
    audited.open()
    folder = audited.folder.path
    # A stranger runs none of it, is told so, and can ask for it.
    verified = audited.verify()
    assert verified.good
    assert any("code" in line or "Mine" in line for line in verified.not_checked)
    # Another text is another mechanism: neither the declaration nor the registry may be edited.
    declaration = folder / "audit.toml"
    declaration.write_text(declaration.read_text().replace("ROWS = 200", "ROWS = 201"))
    assert not audited.verify().good


@pytest.mark.whole
def test_verify_runs_the_text_where_that_is_asked(audited: Audit) -> None:
    audited.open()
    asked = audited.verify(run_named_code=True, redraw=1)
    assert asked.good
    assert asked.complete, asked.not_checked


def pg_manifest() -> Any:
    from proxyguard.documents.releases import ReleaseManifest

    return ReleaseManifest


def test_a_script_is_a_session_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MINE + "\nimport proxyguard as pg\nprint(pg.code_of(drawn, rows=7).toml)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert tomllib.loads(done.stdout)["options"]["settings"] == {"rows": 7}
