"""Count what makes a code base hard to live in: ``python tests/house/counts.py [FOLDER]``.

Everything is read from the syntax tree and the tokens, nothing is imported or run. The goals are
what comparable packages reach (python-tuf, httpx, dp_accounting); `test_counts` holds the present
figures, which may only move towards them.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "src" / "proxyguard"

# Names that say only that something is bound.
FILLER = frozenset({"found", "one", "own", "place", "part", "value"})
# Methods of a mapping that take a key; "text".get does not exist, so a constant argument is one.
BY_KEY = frozenset({"get", "pop", "setdefault"})
# Where documents are read: the one place at which a mapping has no type yet.
DOOR = "documents"


@dataclass(frozen=True)
class Counts:
    """What was counted in one or more files; counts of several files add up.

    Attributes
    ----------
    files
        Files.
    lines
        All lines.
    code
        Lines with code, without docstrings, comments and blanks.
    docstrings
        Lines of docstrings.
    comments
        Lines with nothing but a comment.
    keys
        Accesses by a constant text: ``x["key"]``, ``x.get("key")``.
    bindings
        Names that are bound: assigned, looped over, taken as an argument.
    filler
        Bindings with a name that says nothing.
    untyped
        Uses of ``Any`` outside the door.
    """

    files: int = 0
    lines: int = 0
    code: int = 0
    docstrings: int = 0
    comments: int = 0
    keys: int = 0
    bindings: int = 0
    filler: int = 0
    untyped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @property
    def docstring_share(self) -> float:
        """Lines of docstrings among all lines."""
        return self.docstrings / self.lines

    @property
    def comment_share(self) -> float:
        """Lines of comments among all lines."""
        return self.comments / self.lines

    @property
    def keys_per_thousand(self) -> float:
        """Accesses by constant text in 1,000 lines."""
        return 1000 * self.keys / self.lines

    @property
    def filler_share(self) -> float:
        """Bindings whose name says nothing, among all."""
        return self.filler / self.bindings if self.bindings else 0.0


def count_source(source: str, at_door: bool = False) -> Counts:
    """Return the counts of one file's text."""
    tree = ast.parse(source)
    docstrings = set(_docstring_lines(tree))
    comments, code = _lines_of_tokens(source)
    names = list(_bound_names(tree))
    return Counts(
        files=1,
        lines=len(source.splitlines()),
        code=len(code - docstrings),
        docstrings=len(docstrings),
        comments=len(comments - code),
        keys=_count_keys(tree),
        bindings=len(names),
        filler=sum(name in FILLER for name in names),
        untyped=0 if at_door else _count_any(tree),
    )


def count_files(root: Path) -> dict[str, Counts]:
    """Return the counts of each folder under ``root``; files of ``root`` itself are ``.``."""
    folders: dict[str, Counts] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        folder = parts[0] if len(parts) > 1 else "."
        counts = count_source(path.read_text(encoding="utf-8"), at_door=folder == DOOR)
        folders[folder] = folders.get(folder, Counts()) + counts
    return folders


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, ast.If | ast.For | ast.While | ast.With):
            continue
        for first, statement in enumerate(body):
            # An attribute's docstring stands under it in a class; everywhere else it comes first.
            if first and not isinstance(node, ast.ClassDef):
                break
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield from range(statement.lineno, (statement.end_lineno or 0) + 1)


def _lines_of_tokens(source: str) -> tuple[set[int], set[int]]:
    """Return the lines that have a comment, and those that have anything else."""
    nothing = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    comments: set[int] = set()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in nothing:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments, code


def _count_keys(tree: ast.Module) -> int:
    # Literal["x"] and "np.ndarray" in an annotation are types and no keys.
    types = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.Subscript) and _name(outer.value) in {"Literal", "Annotated"}
        for node in ast.walk(outer)
    }
    return sum(_is_key(node) for node in ast.walk(tree) if id(node) not in types)


def _is_key(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_text(node.slice)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in BY_KEY
        and bool(node.args)
        and _is_text(node.args[0])
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _count_any(tree: ast.Module) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))


def main(root: Path) -> None:
    """Print the counts of each folder, and of all."""
    print(
        f"{'':14}{'files':>6}{'lines':>8}{'code':>8}{'docstr':>8}{'comment':>9}"
        f"{'keys/1000':>11}{'filler':>8}{'Any':>6}"
    )
    folders = count_files(root)
    total = sum(folders.values(), Counts())
    for folder, counts in [*folders.items(), ("all", total)]:
        print(
            f"{folder:14}{counts.files:6}{counts.lines:8}{counts.code:8}"
            f"{counts.docstring_share:8.1%}{counts.comment_share:9.1%}"
            f"{counts.keys_per_thousand:11.1f}{counts.filler_share:8.1%}{counts.untyped:6}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PRODUCT)
