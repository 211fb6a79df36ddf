"""Classes and functions of a notebook as text, so that a clean process can draw with them.

Draws run in processes of their own, and whoever verifies an audit has no notebook. So the text of
a class or function is taken from the session, with what it needs of it: imports, other functions
and classes, and plain constants. It stands in the declaration, is sealed and stored with it, and is
all that draws are made from. What cannot be written down is refused, with its name.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import json
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType

from proxyguard.draw.catalog import load_text
from proxyguard.errors import RegistryError
from proxyguard.printable import toml

_POSTPONED = "from __future__ import annotations"
# What has a text of its own.
Defined = type | FunctionType


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeText:
    """A class or function with all that it needs, as text.

    Attributes
    ----------
    name
        What it is called.
    text
        A module that defines it.
    settings
        What it is made, or called, with.
    constants
        The texts of the session that went into it by name: whoever gets the audit reads them.
    """

    name: str
    text: str
    settings: Mapping[str, object] = field(default_factory=dict)
    constants: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, object]:
        """The options of the generator ``code``."""
        return {"name": self.name, "text": self.text, "settings": dict(self.settings)}

    @property
    def toml(self) -> str:
        """The lines that say the same in a ``[[mechanism]]`` of `audit.toml`."""
        told = "# the text is sealed and given on with the audit, every constant in it too"
        if self.constants:
            told += f": {', '.join(self.constants)}"
        lines = [told, 'generator = "code"', f"options.name = {toml(self.name)}"]
        if self.settings:
            lines.append(f"options.settings = {toml(self.settings)}")
        # As it reads, where TOML can hold it so.
        plain = self.text.replace("\n", "").isprintable() and "'''" not in self.text
        lines.append("options.text = " + (f"'''\n{self.text}'''" if plain else toml(self.text)))
        return "\n".join(lines)


def code_of(defined: Defined, **settings: object) -> CodeText:
    """Return a class or function of this session as text, to be declared as a generator.

    The text is sealed, stored and given on with the audit, and so is every constant in it: a
    password or a path that the code names belongs into the environment.

    Parameters
    ----------
    defined
        A class with ``describe``, ``prepare`` and ``draw``, or a function that is called as
        ``function(source, rng, **settings)`` and returns a release.
    **settings
        What it is made, or called, with: plain values.

    Returns
    -------
    CodeText
        Its ``toml`` is what a ``[[mechanism]]`` declares.

    Raises
    ------
    RegistryError
        Where there is no text to be had, or it uses what the session has and text cannot hold; the
        message says which names, and what to write instead.

    Examples
    --------
    In a notebook, ``code_of(MyModel, steps=3).toml`` is written below ``[[mechanism]]``.

    >>> code_of(lambda source, rng: source)
    Traceback (most recent call last):
    proxyguard.errors.RegistryError: a lambda has no name to be registered under; write it with def
    """
    if not isinstance(defined, type | FunctionType):
        raise RegistryError(
            f"a {type(defined).__name__} has no text of its own; give the class or the function, "
            "and what it is made with by name: code_of(MyModel, steps=3)"
        )
    name = defined.__qualname__
    if "<lambda>" in name:
        raise RegistryError("a lambda has no name to be registered under; write it with def")
    if "." in name:
        raise RegistryError(
            f"{name} is defined inside something else, whose names it may use; define it by "
            "itself, at the left margin of a cell"
        )
    if defined.__module__ != "__main__":
        raise RegistryError(
            f"{name} lies in the module {defined.__module__}, which draws can import: declare "
            f'generator = "{defined.__module__}:{name}" (a function: generator = "callable", '
            f'options = {{ function = "{defined.__module__}:{name}" }})'
        )
    gathered = _Gathered(sys.modules["__main__"].__dict__)
    gathered.add(defined)
    if gathered.problems:
        raise RegistryError(
            f"{name} uses what only this session has, and draws run in processes of their own:\n  "
            + "\n  ".join(gathered.problems)
        )
    code = CodeText(
        name=name, text=gathered.text, settings=settings, constants=tuple(gathered.constants)
    )
    try:
        json.dumps(code.options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RegistryError(
            f"{name} is made with {sorted(settings)}, of which not all are plain values ({error}); "
            "give numbers, text, and lists of them, and let the code make the rest"
        ) from None
    load_text(code.text, name)  # now, and not when draws begin
    return code


class _Gathered:
    """The text of a definition and of what it needs, in an order in which it can be run."""

    def __init__(self, session: Mapping[str, object]) -> None:
        self._session = session
        self._imports: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._seen: set[str] = set()
        self._future = False
        self.problems: list[str] = []
        self.constants: list[str] = []

    @property
    def text(self) -> str:
        """All of it, as a module."""
        future = [_POSTPONED] if self._future else []
        head = [*future, *sorted(self._imports.values())]
        return "\n\n\n".join(filter(None, ["\n".join(head), *self._texts.values()])) + "\n"

    def add(self, defined: Defined) -> None:
        """Add a definition, and before it what it names."""
        name = defined.__qualname__
        self._seen.add(name)
        free = _code_of(defined).co_freevars
        if free and not isinstance(defined, type):
            self.problems.append(
                f"{name} is a closure over {', '.join(free)}: pass them as options"
            )
        text, flags = _text_of(defined), _code_of(defined).co_flags
        postponed = bool(flags & __future__.annotations.compiler_flag)
        self._future = self._future or postponed
        # Annotations that nothing evaluates need no names.
        for used in sorted(_outside(f"{_POSTPONED}\n{text}" if postponed else text)):
            if used not in self._seen:
                self._add_name(used, by=name)
        self._texts[name] = text  # after what it needs

    def _add_name(self, name: str, *, by: str) -> None:
        if name not in self._session:
            if not hasattr(builtins, name) and name not in ("__name__", "__doc__"):
                self.problems.append(f"{name}, which {by} uses, is not defined here")
            return
        self._seen.add(name)
        meant = self._session[name]
        here = getattr(meant, "__module__", None) == "__main__"
        if isinstance(meant, ModuleType) and meant.__name__ != "__main__":
            self._imports[name] = _import_line(meant.__name__, name)
        elif isinstance(meant, type | FunctionType) and here and meant.__qualname__ == name:
            self.add(meant)
        elif (path := _importable(meant)) is not None:
            module, attribute = path
            renamed = "" if attribute == name else f" as {name}"
            self._imports[name] = f"from {module} import {attribute}{renamed}"
        elif meant is None or type(meant) in (bool, int, float, str):
            self._texts[name] = f"{name} = {meant!r}"
            if isinstance(meant, str):
                self.constants.append(name)
        else:
            self.problems.append(
                f"{name}, which {by} uses, is a {type(meant).__name__} of this session: make it "
                "inside the class or function, or give it as a setting where it is a plain value"
            )


def _import_line(module: str, name: str) -> str:
    return f"import {module}" if module == name else f"import {module} as {name}"


def _importable(meant: object) -> tuple[str, str] | None:
    """Return the module and the name that lead to something anywhere, if they do."""
    module, name = getattr(meant, "__module__", None), getattr(meant, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not name.isidentifier():
        return None
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not meant:
        return None
    return module, name


def _code_of(defined: Defined) -> CodeType:
    """Return compiled code of a definition, which knows where its text is."""
    if isinstance(defined, type):
        for member in vars(defined).values():
            function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType) and code.co_qualname.startswith(f"{defined.__name__}."):
                return code
        raise RegistryError(
            f"{defined.__name__} has no method of its own by which its text could be found; a "
            "generator has describe, prepare and draw"
        )
    function = inspect.unwrap(defined)
    assert isinstance(function, FunctionType)  # what a decorator wraps
    return function.__code__


def _text_of(defined: Defined) -> str:
    """Return the text of a definition with its decorators, as the session keeps it."""
    code = _code_of(defined)
    lines = linecache.getlines(code.co_filename)
    name = defined.__name__
    if not lines:
        raise RegistryError(
            f"the text of {name} cannot be had: this session keeps none of what is typed. Write it "
            "into a notebook, or into a file, and declare it by import path: "
            f'generator = "file_without_py:{name}"'
        )
    whole = "".join(lines)
    try:
        tree = ast.parse(whole)
    except SyntaxError as error:
        raise RegistryError(
            f"the cell that defines {name} has a line that is no Python ({error.msg}, line "
            f"{error.lineno}); put commands such as %time into another cell"
        ) from None
    for node in _definitions(tree, name):
        first = min(line.lineno for line in (node, *node.decorator_list))
        last = node.end_lineno or first
        if first <= code.co_firstlineno <= last:
            return textwrap.dedent(
                "".join(whole.splitlines(keepends=True)[first - 1 : last])
            ).strip()
    raise RegistryError(
        f"the text of {name} cannot be had: its file or cell was changed since it was run; run it "
        "again"
    )


def _definitions(
    tree: ast.AST, name: str
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and node.name == name:
            yield node


def _outside(text: str) -> set[str]:
    """Return the names that a text uses and does not define."""
    top = symtable.symtable(text, "<code>", "exec")
    here = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    used = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    waiting = list(top.get_children())
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        used |= {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_global() and symbol.is_referenced()
        }
    return used - here
