"""The drawing process: ``python -m proxyguard.adapters.worker PARENT``.

``PARENT`` is the number of the process that it draws for, and ends with.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Imported here so that every fork has them already, and none has to import them again.
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import sklearn.model_selection  # noqa: F401

import proxyguard.adapters.pipelines  # noqa: F401
from proxyguard.adapters.library import Library
from proxyguard.draw.catalog import is_ours
from proxyguard.draw.processes import end_with_parent
from proxyguard.draw.protocol import Learner
from proxyguard.draw.worker import serve
from proxyguard.models.stored import skops
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.tables.files import read_table_bytes


def make_learner(job: Mapping[str, Any]) -> Learner | None:
    """Return the procedure of a job, where it has one."""
    if job["procedure"] is None:
        return None
    procedure = Procedure.model_validate(job["procedure"])
    if not all(is_ours(name, "procedure") for name in procedure.library):
        skops()  # here and not in every draw: it takes longer to import than a draw takes
    library = Library(
        procedure,
        Outcome.model_validate(job["outcome"]),
        job["features"],
    )
    if library.prepares:
        library.prepare(read_table_bytes(Path(job["source"]).read_bytes(), "the source"))
    return library


def main() -> None:
    """Serve the parent; what a generator prints goes to the error stream."""
    end_with_parent(int(sys.argv[1]), signal.SIGTERM)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(make_learner, sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
