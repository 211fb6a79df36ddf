"""The README's blocks run, and print what it says they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_blocks_run_in_order_and_print_what_they_show() -> None:
    scope: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for language, source in BLOCKS:
            if language == "python":
                exec(compile(source, "README.md", "exec"), scope)
    shown = "".join(source for language, source in BLOCKS if language == "text")
    assert printed.getvalue() == shown
    assert shown


def test_the_readme_names_only_targets_that_exist() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
    assert named
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in named)
