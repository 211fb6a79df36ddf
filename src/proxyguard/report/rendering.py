"""What every page is rendered by: templates, styles, the policy, and what may enter a page."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from proxyguard.report.parts import Table
from proxyguard.report.pictures import look
from proxyguard.report.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONG = 28
"""Letters of a word that a narrow column may break."""
NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( %)?")


def render_page(template: str, **values: Any) -> str:
    """Return a page under a policy that allows its own style and script, and nothing else."""
    from markupsafe import Markup

    css, script = page_css(), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = environment().get_template(template)
    return page.render(css=Markup(css), script=Markup(script), policy=policy, **values)


def render_fragment(**values: Any) -> str:
    """Return a piece of a page with its own style and no script."""
    from markupsafe import Markup

    return environment().get_template("fragment.html.j2").render(
        css=Markup(fragment_css()), **values
    )  # fmt: skip


@cache
def environment() -> Environment:
    """Return where the templates are compiled: escaping always, and no undefined name."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("proxyguard.report"),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    found.filters["column_kinds"] = column_kinds
    return found


def _visible(value: Any) -> Any:
    """Return text without controls that turn or hide writing; what was made as markup stays."""
    from markupsafe import Markup

    plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable(value, keep="\n\t\N{NO-BREAK SPACE}") if plain else value


def page_css() -> str:
    """Return the page's style: the palettes, the looks of marks, the layout."""
    return "\n".join([fragment_css(), _asset("page.css")])


def fragment_css() -> str:
    """Return the style that pages and notebook cells share."""
    return "\n".join(
        [
            f".pg-page, .pg-fragment {{ {look.variables('light')} }}",
            "@media screen and (prefers-color-scheme: dark) {",
            f".pg-page, .pg-fragment {{ {look.variables('dark')} }} }}",
            look.css(),
            _asset("style.css"),
        ]
    )


def column_kinds(table: Table) -> list[Markup]:
    """Return the class of every column: numbers end at one line, long words may be broken."""
    from markupsafe import Markup

    found = []
    for place in range(len(table.columns)):
        cells = [row[place] for row in table.rows]
        kind = ""
        if all(NUMBER.fullmatch(cell) for cell in cells):
            kind = ' class="pg-number"'
        elif any(len(word) > LONG for cell in cells for word in cell.split()):
            kind = ' class="pg-long"'
        found.append(Markup(kind))
    return found


def safe_json(value: Any) -> str:
    """Return JSON that a script element can hold: no character of it can end the element.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _asset(name: str) -> str:
    return files("proxyguard.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
