"""Is this machine fit for audits?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit.home import Home, default_home, processors
from proxyguard.draw.confine import guard_here
from proxyguard.errors import ProxyGuardError
from proxyguard.seal.storage import exclusive, write_atomic

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """Facts about a machine, and what would stand in an audit's way."""

    facts: dict[str, str]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {"facts": dict(self.facts), "problems": list(self.problems)}


def examine(home: Path | None) -> Fitness:
    """Return what this machine has, for an audit."""
    from proxyguard.audit.stated import software_versions

    place = Home(default_home() if home is None else home)
    facts: dict[str, str] = {f"version of {k}": v for k, v in software_versions().items()}
    facts["home"] = str(place.root)
    facts["processors"] = str(processors())
    facts["draws are held by"] = guard_here()
    problems = []
    if place.signing_path.exists():
        try:
            facts["signing key"] = place.signing_key().public
        except ProxyGuardError as error:
            problems.append(str(error))
    else:
        facts["signing key"] = "none yet; init makes one"
    try:
        _ = place.lineage
        facts["lineage store"] = "readable"
    except (ProxyGuardError, OSError) as error:
        problems.append(f"the lineage store cannot be used: {error}")
    try:
        with tempfile.TemporaryDirectory() as folder, exclusive(Path(folder)):
            write_atomic(Path(folder) / "try", b"try")
        facts["disk"] = "files can be locked, flushed and replaced"
    except (ProxyGuardError, OSError) as error:
        problems.append(f"files cannot be locked or replaced safely: {error}")
    return Fitness(facts=facts, problems=tuple(problems))
