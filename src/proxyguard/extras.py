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

AUDIT = (
    "cryptography", "jinja2", "pandas", "pyarrow", "pydantic", "rfc8785", "rich", "sklearn",
    "threadpoolctl", "typer",
)  # fmt: skip
"""Modules of the extra ``audit``."""


def need(what: str, modules: Sequence[str] = AUDIT) -> None:
    """See that modules of the extra ``audit`` are installed, without importing them.

    Parameters
    ----------
    what
        What was asked for, as its user knows it: ``"pg.Audit"``.
    modules
        The modules that it needs; all of the extra unless told.

    Raises
    ------
    MissingExtra
        A module is not installed; the message says what to type.

    Examples
    --------
    >>> need("a mean", ["math", "statistics"])
    >>> need("a page", ["no_such_module"])
    Traceback (most recent call last):
    proxyguard.errors.MissingExtra: a page needs more than numpy and scipy; type: pip install \
"proxyguard[audit]" (not installed here: no_such_module)
    """
    # All are looked for and not the first that an import misses: many people have pandas and
    # pydantic for other reasons, and would fail one module later, in an error of Python's.
    missing = [name for name in modules if name not in sys.modules and find_spec(name) is None]
    if missing:
        raise MissingExtra(what, missing)


def command() -> None:
    """Run ``proxyguard``, or say what to install; what a console script calls."""
    try:
        need("the command proxyguard")
    except MissingExtra as error:
        sys.exit(f"proxyguard: {error}")
    from proxyguard.cli.main import main

    main()
