"""Does work done on a substitute table hold on the real one? Answers with guarantees.

`certify` turns per-record losses of independent releases into a certificate about the
mechanism that made them; `certify_releases` validates named releases; `Audit` is the whole
sealed audit, from a declaration to a certificate that a stranger can check.

The imports of ``__init__.pyi`` are the list of public names, each written ``name as name``; there
is no other. Each is loaded when it is first named, so that a command loads what it needs. numpy and
scipy are enough for all but `Audit` and what it returns, which need the extra ``audit``.
"""

from __future__ import annotations

import ast as _ast
from importlib import import_module as _import_module
from pathlib import Path as _Path

from proxyguard.extras import need as _need

__version__ = "0.1.0"

# Read and not written a second time: type checkers and editors read the same file.
_WHERE = {
    alias.name: str(node.module)
    for node in _ast.parse(_Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, _ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'proxyguard' has no attribute {name!r}")
    if _WHERE[name].startswith(("proxyguard.audit.", "proxyguard.trial.")):
        _need(f"proxyguard.{name}")
    globals()[name] = getattr(_import_module(_WHERE[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
