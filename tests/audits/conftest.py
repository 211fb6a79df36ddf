"""The scripts of audits/ can be imported by the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "audits"))
