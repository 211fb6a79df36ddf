"""The options that verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from proxyguard.audit.audit import Audit

Folder = Annotated[Path, typer.Argument(help="The audit folder.", metavar="DIR")]
Json = Annotated[bool, typer.Option("--json", help="Print plain values instead of words.")]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home", envvar="PROXYGUARD_HOME", help="Where keys and the lineage store are kept."
    ),
]
Data = Annotated[
    list[Path] | None, typer.Option("--data", help="A folder with the declared files; repeatable.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that draw at once.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="The key file of the target, if not in --home.")
]
AskPassphrase = Annotated[
    bool, typer.Option("--passphrase", help="Ask for the target's passphrase.")
]

audits: list[Audit] = []
"""Those that this command is about, for what is said when it is interrupted."""


def audit_of(
    folder: Path, home: Path | None, data: list[Path] | None, workers: int | None, progress: Any
) -> Audit:
    """Return the audit that a command is about."""
    from proxyguard.audit.audit import Audit

    audits.append(Audit(folder, home=home, data=data or (), workers=workers, progress=progress))
    return audits[-1]


def ask_passphrase(wanted: bool, *, confirm: bool = False) -> str | None:
    """Ask for a passphrase without showing it."""
    if not wanted:
        return None
    words: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm)
    return words
