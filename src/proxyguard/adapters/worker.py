"""The process that drawing processes are forked from.

Run as ``python -m proxyguard.adapters.worker PARENT``: ``PARENT`` is the number of the process that
they draw for, and all of them end with it. What every draw and every fit needs is imported here,
once for all of them, and nobody else's code. Where nothing can be forked it is run as
``python -m proxyguard.adapters.worker draws`` or ``fits``, for one job.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pandas  # noqa: F401 - so that every fork has it already, and none imports it again
import pyarrow.parquet  # noqa: F401 - likewise: tables come and go as Parquet
import sklearn.model_selection  # noqa: F401 - likewise: a procedure may divide a release

import proxyguard.adapters.pipelines  # likewise: every fit by scikit-learn
import proxyguard.adapters.transforms  # noqa: F401 - likewise: the generators that most name
from proxyguard.adapters.library import Library
from proxyguard.draw.catalog import is_ours
from proxyguard.draw.job import FitJob
from proxyguard.draw.protocol import Learner
from proxyguard.draw.worker import fork_workers, serve_spawned
from proxyguard.models.stored import skops
from proxyguard.tables.files import read_table_bytes


def make_learner(job: FitJob) -> Learner | None:
    """Return the procedure of a job, where it has one."""
    if job.procedure is None or job.outcome is None:
        return None
    if not all(is_ours(name, "procedure") for name in job.library):
        skops()  # here and not in every draw: it takes longer to import than a draw takes
    library = Library(job.procedure, job.outcome, job.features, job.schema_of_releases.columns)
    if library.prepares:
        # From the training part: what the fits of all releases share may depend on none of them.
        library.prepare(read_table_bytes(Path(job.source).read_bytes(), "the source"))
    return library


if __name__ == "__main__":
    # What is imported stays: a fork that looked through it for garbage would copy all of it.
    gc.freeze()
    if sys.argv[1] in ("draws", "fits"):
        serve_spawned(sys.argv[1] == "draws", make_learner)
    else:
        fork_workers(int(sys.argv[1]), make_learner)
    # Whoever wanted draws waits for this end, and there is nothing in memory worth tidying up.
    os._exit(0)
