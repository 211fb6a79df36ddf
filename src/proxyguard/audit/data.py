"""Where declared files are looked for: the data folders given, then beside the audit folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proxyguard.errors import TableError


@dataclass(frozen=True, slots=True)
class DataFolders:
    """The folders that declared paths may start from, first match wins."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, audit: Path, given: Sequence[Path] = ()) -> DataFolders:
        """Return those given, then ``$PROXYGUARD_DATA``, then the folder that the audit lies in."""
        named = os.environ.get("PROXYGUARD_DATA")
        return cls((*given, *([Path(named)] if named else []), audit.resolve().parent))

    def find(self, name: str) -> Path:
        """Return the file or folder of a declared path, also where only ``name.gz`` exists."""
        for root in self.roots:
            for place in (root / name, root / f"{name}.gz"):
                if place.exists():
                    return place
        looked = ", ".join(str(root) for root in self.roots)
        raise TableError(
            f"there is no {name!r} in {looked}; put it there, or name its folder with --data or "
            "PROXYGUARD_DATA"
        )

    def spellings(self, name: str) -> list[Path]:
        """Return every file that a declared path could stand for, compressed or not."""
        plain = name.removesuffix(".gz")
        places = (root / text for root in self.roots for text in (plain, f"{plain}.gz"))
        return [place for place in places if place.exists()]

    def root_of(self, name: str) -> Path:
        """Return the folder that a declared path starts from."""
        for root in self.roots:
            if (root / name).exists():
                return root
        return self.roots[0]
