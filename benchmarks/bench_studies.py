"""Time every study at full repetitions, and print its peak memory.

One child process a study, so that memory is its own; CPU time, imports left out. The paper's
methods are timed in full, all methods on a tenth of the repetitions and scaled up, which
overstates what is computed once. Prints ratios, not verdicts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from reproduction.studies.catalog import STUDIES
from reproduction.studies.run import run_study

PUBLISHED = {
    ("collective-grid",): 210.0,
    ("near-boundary", "error-split"): 79.0,
    ("mode-comparison-high-signal",): 68.0,
    ("mode-comparison",): 49.0,
    ("held-out-regrets",): 42.0,
    ("mechanism-calibration",): 29.0,
    ("shared-target",): 20.0,
}
"""Seconds of the published implementation, as given: this script does not run it."""
PUBLISHED_TOTAL = 530.0  # about, with the studies that have no figure of their own
LIMIT, MEMORY_LIMIT = 40.0, 1024
SCALE = 10


def timed(name: str) -> tuple[float, float, float]:
    """Return a study's CPU seconds, paper's methods and all, and peak memory in MiB."""
    study = STUDIES[name]
    start = time.process_time()
    run_study(study, methods=study.published_methods())
    paper = time.process_time() - start
    some = -(-study.repetitions // SCALE)
    run_study(study, repetitions=some)
    every = (time.process_time() - start - paper) * study.repetitions / some
    return paper, every, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_child(name: str) -> tuple[float, float, float]:
    """Return what `timed` measures in a process of its own."""
    child = [sys.executable, __file__, name]
    done = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True)
    paper, every, peak = json.loads(done.stdout)
    return paper, every, peak


def beside(name: str, paper: dict[str, float]) -> str:
    """Return the published figure that ends with this study, and the ratio."""
    for names, published in PUBLISHED.items():
        if names[-1] == name:
            ratio = published / sum(paper[one] for one in names)
            together = f"  (with {', '.join(names[:-1])})" if names[1:] else ""
            return f"{published:11.0f}{ratio:7.0f}x{together}"
    return ""


def main() -> None:
    """Print a line a study and the total; limits in brackets."""
    print("CPU seconds at full repetitions, one process; peak memory in MiB")
    print(f"  {'study':<34}{'paper':>8}{'all':>8}{'MiB':>8}{'published':>11}{'ratio':>8}")
    paper: dict[str, float] = {}
    everything, peak = 0.0, 0.0
    for name in STUDIES:
        paper[name], every, own = in_a_child(name)
        everything, peak = everything + every, max(peak, own)
        line = f"  {name:<34}{paper[name]:8.2f}{every:8.2f}{own:8.0f}"
        print(line + beside(name, paper), flush=True)
    total = sum(paper.values())
    print(f"  {'total, studies of ours included':<34}{total:8.2f}{everything:8.2f}{peak:8.0f}"
          f"{PUBLISHED_TOTAL:11.0f}{PUBLISHED_TOTAL / total:7.0f}x")  # fmt: skip
    print(f"  {'limits':<34}{LIMIT:8.0f}{'':8}{MEMORY_LIMIT:8}")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(timed(sys.argv[1])))
    else:
        main()
