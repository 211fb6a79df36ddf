"""Every block of code on the site runs, and prints what its page shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from docs.blocks import RUN_BY, blocks_of, run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))
}
# A page with commands starts a dozen interpreters: `make test` leaves it to `make test-whole`.
WITH_CODE = [
    pytest.param(
        name,
        marks=[pytest.mark.whole] if any(b.language == "sh" for b in blocks_of(text)) else [],
    )
    for name, text in PAGES.items()
    if blocks_of(text) and not RUN_BY.search(text)
]


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    text = PAGES[name]
    if any(block.language == "r" for block in blocks_of(text)) and shutil.which("Rscript") is None:
        pytest.skip("needs R: there is no Rscript on PATH")
    tried = list(run_page(text, tmp_path))
    assert len(tried) == sum(block.not_run is None for block in blocks_of(text))


def test_a_page_that_another_test_runs_is_known_to_it() -> None:
    for name, text in PAGES.items():
        for test in RUN_BY.findall(text):
            assert name in (DOCS.parent / test).read_text("utf-8")


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    left_out = [b for text in PAGES.values() for b in blocks_of(text) if b.not_run is not None]
    assert len(left_out) <= 8
    assert all(len(block.not_run or "") > 10 for block in left_out)


SAMPLE = """
```python
print("one", 1)
```

```text
one ...
```

<!-- not run: it would ask for a passphrase -->
```sh
false
```

```toml title="a/b.toml"
x = 1
```

```sh
cat a/b.toml; exit 3  # exit code 3
```
"""


def test_blocks_are_read_with_titles_reasons_and_output() -> None:
    python, left_out, written, shell = blocks_of(SAMPLE)
    assert python.printed == "one ...\n"
    assert left_out.not_run == "it would ask for a passphrase"
    assert (written.title, written.source) == ("a/b.toml", "x = 1\n")
    assert shell.printed is None


def test_a_sample_page_runs(tmp_path: Path) -> None:
    assert len(list(run_page(SAMPLE, tmp_path))) == 3


@pytest.mark.parametrize(
    "page",
    [
        '```python\nprint("two")\n```\n\n```text\none\n```\n',
        "```sh\nfalse\n```\n",
        "```sh\ntrue  # exit code 3\n```\n",
        "```toml\n[nothing]\nlike = 1\n```\n",
        "```python\n1 / 0\n```\n",
    ],
)
def test_a_page_that_lies_is_noticed(page: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ZeroDivisionError)):
        list(run_page(page, tmp_path))
