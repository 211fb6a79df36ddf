"""The site is built strictly: every page is in the navigation, every inner link leads somewhere."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.whole,
    # Of MkDocs: it reads the theme's metadata by a name that Python 3.14 will drop.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


class _Requests(HTMLParser):
    """What a page asks for when it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        asked = named.get("href") if tag == "link" else named.get("src")
        if asked and re.match(r"(https?:)?//", asked) and named.get("rel") != "canonical":
            self.outside.append(asked)


def _pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.rglob("*.html")):
        yield str(path.relative_to(site)), path.read_text("utf-8")


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    for name, html in _pages(site):
        reader = _Requests()
        reader.feed(html)
        assert not reader.outside, f"{name} asks for {reader.outside}"


def test_the_reference_has_every_key_command_and_name(site: Path) -> None:
    import proxyguard as pg
    from proxyguard.cli.main import app
    from proxyguard.registry.declaration import declaration_schema

    keys = (site / "reference/audit-toml.html").read_text("utf-8")
    schema = declaration_schema()
    tables = [schema, *schema["$defs"].values()]
    for table in tables:
        for key in table.get("properties", {}):
            assert f"<code>{key}</code>" in keys
    commands = (site / "reference/commands.html").read_text("utf-8")
    for command in app.registered_commands:
        verb = command.name or command.callback.__name__.replace("_", "-")
        assert re.search(rf'<h2 id="{verb}">', commands), verb
    names = (site / "reference/python.html").read_text("utf-8")
    for name in pg.__all__:
        assert f"<code>pg.{name}</code>" in names


@pytest.mark.parametrize(("link", "stops"), [("index.md", False), ("gone.md", True)])
def test_a_link_that_leads_nowhere_stops_the_build(link: str, stops: bool, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Page\n\n[link]({link})\n", encoding="utf-8")
    config = load_config(
        str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(tmp_path / "site"),
        nav=[{"Page": "index.md"}], hooks=[],
    )  # fmt: skip
    with pytest.raises(Abort) if stops else contextlib.nullcontext():
        build(config)
