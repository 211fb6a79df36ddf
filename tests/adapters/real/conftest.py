"""These tests need packages that are no part of the project, and minutes: only when asked for."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("PROXYGUARD_REAL_ADAPTERS") else ["test_*.py"]
