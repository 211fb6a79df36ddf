"""What ``pip install proxyguard`` does not bring, and what to type where it is needed.

The package itself needs numpy and scipy: with these `certify`, `certify_releases` and the planner
work. A sealed audit, the command line and what is shown as a page or a table need the extra
``audit``. Nothing of it is imported here, so that whoever lacks it reads one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from proxyguard.errors import MissingExtra

# Modules of the extra ``audit``.
AUDIT = (
    "cryptography", "jinja2", "pandas", "pyarrow", "pydantic", "rfc8785", "rich", "sklearn",
    "threadpoolctl", "typer",
)  # fmt: skip


def need(what: str, modules: Sequence[str] = AUDIT, extra: str = "audit") -> None:
    """See that modules of an extra are installed, without importing them.

    Parameters
    ----------
    what
        What was asked for, as its user knows it: ``"pg.Audit"``.
    modules
        The modules that it needs; all of the extra ``audit`` unless told.
    extra
        The extra that brings them.

    Raises
    ------
    MissingExtra
        A module is not installed; the message says what to type.

    Examples
    --------
    >>> need("a mean", ["math", "statistics"])
    >>> need("a page", ["no_such_module"])
    Traceback (most recent call last):
    proxyguard.errors.MissingExtra: a page needs the extra audit; type: pip install \
"proxyguard[audit]" (not installed here: no_such_module)
    """
    # All are looked for and not the first that an import misses: many people have pandas and
    # pydantic for other reasons, and would fail one module later, in an error of Python's.
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise MissingExtra(what, missing, extra)


def _is_installed(module: str) -> bool:
    # Python refuses to import what stands as None among its modules, and find_spec raises there.
    if module in sys.modules:
        return sys.modules[module] is not None
    return find_spec(module) is not None


def command() -> None:
    """Run ``proxyguard``, or say what to install; what a console script calls."""
    try:
        need("the command proxyguard")
    except MissingExtra as error:
        sys.exit(f"proxyguard: {error}")
    from proxyguard.cli.main import main

    main()
