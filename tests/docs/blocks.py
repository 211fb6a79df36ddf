"""The blocks of code on a page of the site, and how each is tried.

A page is read from top to bottom, as a person would follow it, in an empty folder with a home of
its own:

* ``python``: run, all of a page in one scope; a ``text`` block right below is what it prints.
* ``sh``: run by bash, stopping at the first error; a ``text`` block right below is what it prints,
  with ``...`` for what differs from run to run. A last comment ``# exit code 3`` is how it ends.
* any language with ``title="NAME"``: written to that file, and not run.
* ``toml`` without a title: it parses, and its tables are those of a declaration.
* ``r``: run by Rscript.

``<!-- not run: why -->`` above a block leaves it out. A page with ``<!-- run by TEST -->`` is run
by that test, which knows its name. Blocks without a language are no code.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proxyguard.registry.declaration import declaration_schema

FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<source>.*?)^(?P=indent)```$",
    flags=re.DOTALL | re.MULTILINE,
)
CODE = ("python", "sh", "toml", "r")
RUN_BY = re.compile(r"<!-- run by (\S+) -->")
EXIT = re.compile(r"# exit code (\d+)\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    source: str
    line: int
    title: str | None = None
    not_run: str | None = None
    printed: str | None = None
    """What the page says that it prints."""

    @property
    def is_code(self) -> bool:
        return self.title is not None or self.language in CODE


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of code of a page, each with the output shown right below it."""
    blocks: list[Block] = []
    end = -1
    for match in FENCE.finditer(text):
        source = re.sub(rf"^{match['indent']}", "", match["source"], flags=re.MULTILINE)
        follows = blocks and blocks[-1].is_code and not text[end : match.start()].strip()
        if match["language"] == "text" and follows and match["title"] is None:
            last = blocks.pop()
            blocks.append(Block(**{**vars(last), "printed": source}))
        else:
            line = text.count("\n", 0, match.start()) + 1
            blocks.append(Block(match["language"], source, line, match["title"], match["reason"]))
        end = match.end()
    return [block for block in blocks if block.is_code]


def run_page(text: str, folder: Path) -> Iterator[Block]:
    """Try every block of a page in this empty folder, and yield those that were."""
    scope: dict[str, object] = {"__name__": "__main__"}
    with _inside(folder):
        for block in blocks_of(text):
            if block.not_run is not None:
                continue
            if block.title is not None:
                path = folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.source, encoding="utf-8")
            else:
                TRIES[block.language](block, scope)
            yield block


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with a home of its own, as on a machine that has nothing yet."""
    before, environment = Path.cwd(), dict(os.environ)
    os.environ["PROXYGUARD_HOME"] = str(folder / ".home")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ.pop("PROXYGUARD_DATA", None)  # a page brings what it reads
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


def _try_python(block: Block, scope: dict[str, object]) -> None:
    printed = io.StringIO()
    # Lines as on the page, so that an error leads to the line to mend.
    source = "\n" * block.line + block.source
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "page", "exec"), scope)
    _compare(block, printed.getvalue())


def _try_command(block: Block, program: list[str]) -> None:
    expected = EXIT.search(block.source)
    done = subprocess.run(
        [*program, block.source],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    code = int(expected[1]) if expected else 0
    assert done.returncode == code, (
        f"line {block.line}: ended with {done.returncode}, the page says {code}\n"
        f"{done.stdout}{done.stderr}"
    )
    _compare(block, done.stdout)


def _try_sh(block: Block, scope: dict[str, object]) -> None:
    _try_command(block, ["bash", "-e", "-c"])


def _try_r(block: Block, scope: dict[str, object]) -> None:
    _try_command(block, ["Rscript", "-e"])


def _try_toml(block: Block, scope: dict[str, object]) -> None:
    fragment = tomllib.loads(block.source)
    unknown = set(fragment) - set(declaration_schema()["properties"])
    assert not unknown, f"line {block.line}: audit.toml has no {sorted(unknown)}"


TRIES = {"python": _try_python, "sh": _try_sh, "toml": _try_toml, "r": _try_r}


def _compare(block: Block, printed: str) -> None:
    """Compare what was printed with what the page shows; ``...`` stands for anything."""
    if block.printed is None:
        return
    parts = (re.escape(part) for part in block.printed.rstrip().split("..."))
    assert re.fullmatch(".*?".join(parts), printed.rstrip(), flags=re.DOTALL), (
        f"line {block.line} shows\n{block.printed}\nand printed\n{printed}"
    )
