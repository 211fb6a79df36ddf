"""Time what the sealed audit adds: drawing against fitting alone, scoring against predicting.

Runs the demonstration's declaration in a temporary folder and prints ratios, not verdicts.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from threadpoolctl import threadpool_limits

from proxyguard.adapters.library import Library
from proxyguard.audit.audit import Audit
from proxyguard.audit.decide import groups_of, readings_of
from proxyguard.audit.demo import demo_declaration, write_digits
from proxyguard.audit.development import load_fitted
from proxyguard.audit.folder import RELEASES
from proxyguard.audit.open import Opener
from proxyguard.audit.target import OpeningSeed
from proxyguard.documents.releases import DrawnRelease, ReleaseManifest
from proxyguard.draw.protocol import Seed, features, outcomes, predict
from proxyguard.tables.files import read_table_bytes


def main() -> None:
    """Print the ratios of one audit."""
    with TemporaryDirectory() as work:
        root = Path(work)
        write_digits(root / "data")
        audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
        audit.init(demo_declaration())
        audit.seal()
        audit.register()
        start = time.perf_counter()
        audit.draw()
        drawing = time.perf_counter() - start
        audit.open()
        fitting = plain_fits(audit)
        scoring, predicting = passes(audit)
    print("demonstration audit: 120 draws, 900 target records, 3 requirements, one worker")
    print(f"  fitting 120 models        {fitting:7.2f} s")
    print(f"  draw, fit, freeze         {drawing:7.2f} s   ratio {drawing / fitting:.1f}")
    print(f"  120 predictions and means {predicting:7.2f} s")
    print(f"  open's scoring pass       {scoring:7.2f} s   ratio {scoring / predicting:.1f}")


def plain_fits(audit: Audit) -> float:
    """Return the time of the procedure alone on the same releases."""
    registry = audit.folder.registry(audit.journal())
    (member,) = registry.declaration.members
    assert member.procedure is not None
    assert member.target.predicted is not None
    features_read = registry.members[member.name].features
    learner = Library(member.procedure, member.target.predicted, features_read)
    manifest = audit.folder.document(ReleaseManifest, RELEASES)
    draws = [
        draw
        for group in manifest.members[member.name].values()
        for draw in group.draws
        if isinstance(draw, DrawnRelease)
    ]
    tables = [audit.folder.stored_table(draw.release, draw.label) for draw in draws]
    validation = read_table_bytes(
        (audit.folder / "development/0.validation.parquet").read_bytes(), "validation"
    )
    start = time.perf_counter()
    with threadpool_limits(1):
        for draw, table in zip(draws, tables, strict=True):
            learner.fit(table, validation, Seed(draw.seed))
    return time.perf_counter() - start


def passes(audit: Audit) -> tuple[float, float]:
    """Return the time of the scoring pass and of plain predictions and means."""
    journal = audit.journal()
    registry = audit.folder.registry(journal)
    manifest = audit.folder.document(ReleaseManifest, RELEASES)
    opener = Opener(audit.place, audit.home)
    (member,) = registry.declaration.members
    target = opener.target(journal, member, None)
    seed = OpeningSeed.of(journal, {member.name: target.nonce}).value
    groups = groups_of(registry, manifest)
    readings = readings_of(registry, groups, seed)
    start = time.perf_counter()
    for group in groups:
        scorer = opener.scorer(registry, group, target, manifest.sources)
        scorer.score(group.name, group.draws, [readings[group.name][0]])
    scoring = time.perf_counter() - start
    outcome = member.target.predicted
    assert outcome is not None
    start = time.perf_counter()
    chunk = target.whole()
    x = features(chunk.frame, registry.members[member.name].features)
    y = outcomes(chunk.frame[outcome.column], outcome, "target")
    with threadpool_limits(1):
        for group in groups:
            for draw in group.draws:
                assert isinstance(draw, DrawnRelease)
                assert draw.model is not None
                p = predict(load_fitted(audit.folder, draw.model, draw, ()), x, outcome)
                np.mean((p - y) ** 2)
    return scoring, time.perf_counter() - start


if __name__ == "__main__":
    main()
