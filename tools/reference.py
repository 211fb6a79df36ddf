"""Pages of the site that nobody writes: made from the schema, the commands and the docstrings.

MkDocs runs this as a hook (`hooks:` in mkdocs.yml). Made at every build and kept nowhere, so that
none of them can be out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Pages of the repository that stand outside of docs/, by their address on the site.
FROM_ROOT = {"PAPER.md": "PAPER.md", "CHANGELOG.md": "CHANGELOG.md"}
DECISIONS = "Decisions"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every decision record in the navigation; there is one more every few weeks."""
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for section in config.nav or []:
        for pages in section.values():
            for entry in pages if isinstance(pages, list) else []:
                if isinstance(entry, dict) and DECISIONS in entry:
                    entry[DECISIONS] = [f"decisions/{path.name}" for path in records]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    for address, text in pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links out of docs/ to the page that such a file has on the site."""
    depth = page.file.src_uri.count("/")
    for name, address in FROM_ROOT.items():
        up = "../" * depth
        markdown = markdown.replace(f"](../{up}{name}", f"]({up}{address}")
    return markdown


def pages() -> dict[str, str]:
    """Return every page that is made here, by its address."""
    made = {address: (ROOT / name).read_text("utf-8") for name, address in FROM_ROOT.items()}
    return {
        **made,
        "reference/audit-toml.md": declaration_page(),
        "reference/commands.md": command_page(),
        "reference/python.md": python_page(),
    }


# -- audit.toml -----------------------------------------------------------------------------------


def declaration_page() -> str:
    """Return every key of audit.toml, table by table, from the schema that editors use."""
    from proxyguard.registry.declaration import declaration_schema

    schema: dict[str, Any] = declaration_schema()
    tables: dict[str, Any] = schema["$defs"]
    lines = [
        "# Every key of `audit.toml`",
        "",
        "Made from the schema that `proxyguard schema` prints: an editor with it completes keys "
        'and marks mistakes. Numbers that decide are written as text, `"0.05"`, so that they are '
        "exact. A key that is not here is refused.",
        "",
        "## The file itself",
        "",
        *_keys(schema, tables),
    ]
    for name, table in sorted(tables.items(), key=lambda item: _title(item[0])):
        if table.get("type") == "object" and table.get("properties"):
            lines += ["", f"## {_title(name)}", "", _sentence(table), "", *_keys(table, tables)]
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    """Return a table's name in words, as in links: SourceRule is "source rule"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Part")).lower()


def _anchor(name: str) -> str:
    return _title(name).replace(" ", "-")


def _sentence(table: Mapping[str, Any]) -> str:
    return _prose(str(table.get("description", "")))


def _prose(text: str) -> str:
    """Return a docstring as Markdown: double ticks are code."""
    return text.replace("``", "`").strip()


def _keys(table: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    required = set(table.get("required", ()))
    yield "| key | what it takes | left out | what it says |"
    yield "|---|---|---|---|"
    for key, entry in table.get("properties", {}).items():
        default = "must be given" if key in required else _default(entry.get("default"))
        words = " ".join(_prose(str(entry.get("description", ""))).split())
        yield f"| `{key}` | {_kind(entry, tables)} | {default} | {_cell(words)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(default: object) -> str:
    match default:
        case None | [] | {}:
            return "none"
        case bool():
            return f"`{str(default).lower()}`"
        case str():
            return f'`"{default}"`'
        case _:
            return f"`{default}`"


def _kind(entry: Mapping[str, Any], tables: Mapping[str, Any]) -> str:
    """Return what a key takes, in words, with a link where it is a table of its own."""
    if "$ref" in entry:
        name = entry["$ref"].rpartition("/")[2]
        target = tables[name]
        link = f"[{_title(name)}](#{_anchor(name)})"
        return link if target.get("properties") else _kind(target, tables)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in entry:
            kinds = (_kind(choice, tables) for choice in entry[key] if choice.get("type") != "null")
            return " or ".join(dict.fromkeys(kinds))
    if "const" in entry:
        return f'`"{entry["const"]}"`' if isinstance(entry["const"], str) else f"`{entry['const']}`"
    if "enum" in entry:
        return ", ".join(f'`"{choice}"`' for choice in entry["enum"])
    match entry.get("type"):
        case "array":
            inner = entry.get("items") or (entry.get("prefixItems") or [{}])[0]
            return f"list of {_kind(inner, tables)}"
        case "object":
            inner = entry.get("additionalProperties")
            return f"table of {_kind(inner, tables)}" if isinstance(inner, dict) else "table"
        case "string":
            return "text"
        case "integer":
            return "whole number"
        case "number":
            return "number"
        case "boolean":
            return "`true` or `false`"
        case _:
            return "any value"


# -- commands -------------------------------------------------------------------------------------


def command_page() -> str:
    """Return every command with its arguments and options, as `--help` has them."""
    from proxyguard.cli.main import app

    group = typer.main.get_command(app)
    context = click.Context(group, info_name="proxyguard")  # type: ignore[arg-type]
    lines = ["# Every command", "", _prose(str(group.epilog or "")), ""]
    for name in group.list_commands(context):  # type: ignore[attr-defined]
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        lines += ["", f"## {name}", "", _prose(inspect.cleandoc(command.help or "")), ""]
        lines += _parameters(command)
    return "\n".join(lines) + "\n"


def _parameters(command: click.Command) -> Iterator[str]:
    rows = [
        (
            ", ".join(f"`{text}`" for text in (*parameter.opts, *parameter.secondary_opts))
            if parameter.param_type_name == "option"
            else f"`{(parameter.name or '').upper()}`",
            " ".join(_prose(str(getattr(parameter, "help", "") or "")).split()),
        )
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    ]
    if rows:
        yield "| argument or option | |"
        yield "|---|---|"
        yield from (f"| {names} | {_cell(words)} |" for names, words in rows)


# -- the public API -------------------------------------------------------------------------------


def python_page() -> str:
    """Return every public name with its signature and docstring."""
    package = import_module("proxyguard")
    lines = ["# Python", "", "`import proxyguard as pg`: this is public, and nothing else is.", ""]
    for name in sorted(package.__all__, key=str.lower):
        lines += _entry(f"pg.{name}", getattr(package, name), level=2)
    return "\n".join(lines) + "\n"


def _entry(name: str, thing: object, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`"
    yield ""
    if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        try:
            yield f"```text\n{name.rpartition('.')[2]}{_signature(thing)}\n```"
            yield ""
        except ValueError:
            pass  # some classes made elsewhere have none; the docstring says what they take
    yield numpydoc(inspect.getdoc(thing) or "")
    yield ""
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for member, value in vars(thing).items():
            documented = inspect.getdoc(value) if not member.startswith("_") else None
            called = inspect.isfunction(value) or isinstance(value, property | classmethod)
            if documented and called:
                yield from _entry(f"{name.rpartition('.')[2]}.{member}", _plain(value), level + 1)


def _plain(member: object) -> object:
    return member.__func__ if isinstance(member, classmethod) else member


def _signature(thing: Any) -> str:
    text = str(inspect.signature(thing)).replace("'", "")  # annotations are texts
    return text if len(text) < 90 else text.replace("(", "(\n    ", 1).replace(", ", ",\n    ")


def numpydoc(docstring: str) -> str:
    """Return a numpydoc docstring as Markdown: sections as bold lines, examples as code.

    Parameters
    ----------
    docstring
        The text, without its common indent.
    """
    lines, result, code = docstring.splitlines(), [], False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        prompt = line.lstrip().startswith((">>>", "..."))
        if code and not line.strip():
            result.append("```")
            code = False
        if prompt and not code:
            result += ["", "```pycon"]
            code = True
        if code:
            result.append(line)
        elif following and set(following) == {"-"}:
            result += ["", f"**{line}**", ""]
        elif line and set(line) == {"-"}:
            continue
        elif line and line[0] != " " and following.startswith("    ") and following.strip():
            result += ["", f"`{line}`"]  # a parameter; its words follow, indented
        elif line.startswith("    "):
            lead = ":   " if result and result[-1].startswith("`") else "    "
            result.append(lead + _prose(line))
        else:
            result.append(_prose(line) if line.strip() else "")
    if code:
        result.append("```")
    return "\n".join(result)
