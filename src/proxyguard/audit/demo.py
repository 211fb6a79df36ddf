"""The demonstration audit: may bootstrap tables stand in for the digits when a reader is trained?

Three mechanisms differ only in how many rows they draw. Everything runs through the sealed
audit, on the digits that scikit-learn ships, with keys and lineage in the folder's own
``home`` so that nothing outside it is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from proxyguard.audit.audit import Audit
from proxyguard.audit.development import Progress
from proxyguard.audit.outcome import SealedCertificate

DECLARATION = """\
format = 1
name = "digits-bootstrap"
purpose = "May bootstrap tables stand in for scanned digits when an odd-or-even reader is trained?"

[target]
table = "digits.csv"
reserve = { rows = 900, seed = 5 }
outcome = "parity"
positive = "odd"
prior_use = "a public teaching set, analysed by many; this is a demonstration"

[development]
validation = { fraction = "0.2", stratify = true, seed = 6 }

[procedure]
library = ["fixed_logistic"]
choose = { loss = "cost", false_negative = "2", thresholds = 501 }

[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.05"

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.06", round_up = "0.001" }

[[requirement]]
name = "decision cost"
loss = "cost"
form = "absolute"
limit = "0.18"

[[mechanism]]
name = "bootstrap, all rows"
generator = "bootstrap"
draws = 40
seeds = { first = 100 }

[[mechanism]]
name = "bootstrap, 150 rows"
generator = "bootstrap"
options = { rows = 150 }
draws = 40
seeds = { first = 200 }

[[mechanism]]
name = "bootstrap, 15 rows"
generator = "bootstrap"
options = { rows = 15 }
draws = 40
seeds = { first = 300 }

[[secondary]]
name = "strict"
limits = { "decision cost" = "0.12" }

[claim]
reliability_target = "0.8"
alpha = "0.05"
beta = "0.05"
family = "bounds"

[picks]
alpha = "0.05"
"""


def run_demo(
    folder: Path, progress: Progress, say: Callable[[str], None] | None
) -> tuple[Path, SealedCertificate, bool]:
    """Run the audit in ``folder``, or beside it where one is there already; verify it."""
    speak = say or (lambda text: None)
    place = folder
    number = 2
    while place.exists():
        place = folder.with_name(f"{folder.name}-{number}")
        number += 1
    if place != folder:
        speak(f"{folder} has an audit already; this one starts afresh in {place}")
    data = place / "data"
    write_digits(data)
    audit = Audit(place / "audit", home=place / "home", data=[data], progress=progress)
    speak("init      a declaration and a signing key")
    audit.init(DECLARATION)
    for problem in audit.check().problems:
        speak(f"problem: {problem}")
    speak("seal      900 of 1,797 records are set aside and encrypted, before any label is read")
    audit.seal()
    for warning in audit.check().warnings:
        speak(f"warning   {warning}")
    speak("register  limits are resolved on development data, and the claim is frozen")
    audit.register()
    speak("draw      3 x 40 releases, a classifier is trained on each, all are frozen")
    audit.draw()
    speak("open      the target is opened once, every release is scored, the certificate is signed")
    certificate = audit.open()
    assert certificate is not None  # a fixed audit certifies when it is opened
    return audit.folder.path, certificate, audit.verify().good


def write_digits(folder: Path) -> None:
    """Write the digits as a table: 64 pixels and whether the digit is odd."""
    from sklearn.datasets import load_digits

    folder.mkdir(parents=True)
    pixels, digits = load_digits(return_X_y=True)
    lines = [",".join([*(f"pixel{i}" for i in range(pixels.shape[1])), "parity"])]
    for row, digit in zip(pixels, digits, strict=True):
        lines.append(",".join([*(f"{int(v)}" for v in row), "odd" if digit % 2 else "even"]))
    (folder / "digits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
