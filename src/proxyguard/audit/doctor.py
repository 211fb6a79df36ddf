"""Is this machine fit for audits?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from proxyguard.audit.home import Home, default_home, processors
from proxyguard.draw.confine import guard_here
from proxyguard.errors import ProxyGuardError
from proxyguard.seal.storage import exclusive, write_atomic


def examine(home: Path | None) -> dict[str, Any]:
    """Return facts about this machine, and what would stand in an audit's way."""
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
    return {"facts": facts, "problems": problems}
