"""The demonstration: two audits of scanned digits, carried out whole in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from proxyguard.audit.audit import Audit
from proxyguard.audit.outcome import SealedCertificate
from proxyguard.progress import Progress


def demo_declaration() -> str:
    """Return the declaration of the demonstration.

    May bootstrap tables stand in for the digits when a reader is trained? Three mechanisms differ
    only in how many rows they draw. Keys and lineage lie in the folder's own ``home``, so that
    nothing outside it is touched.
    """
    return files("proxyguard.audit").joinpath("demo.toml").read_text(encoding="utf-8")


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
    audit = Audit(place / "audit", home=place / "home", data=[data], progress=progress)
    with audit._drawing_soon():
        write_digits(data)
        speak("May resampled tables stand in for scanned digits when a reader of odd and even is")
        speak("trained? Three mechanisms resample all rows, 150 rows, or 15 rows of the real ones.")
        speak("")
        speak("init      a declaration of what is asked, and a signing key")
        audit.init(demo_declaration())
        for problem in audit.check().problems:
            speak(f"problem: {problem}")
        speak("seal      900 of 1,797 records are set aside and encrypted: the target")
        audit.seal()
        speak("register  limits are set on the other records, and the claim is frozen")
        audit.register()
        speak("draw      3 x 30 releases, a reader is trained on each, all are frozen")
        audit.draw()
    speak("open      the target is opened once, every release is scored, the verdicts are signed")
    certificate = audit.open()
    assert certificate is not None  # a fixed audit certifies when it is opened
    return audit.folder.path, certificate, audit.verify().good


def run_exposure_demo(
    place: Path, progress: Progress, say: Callable[[str], None] | None
) -> tuple[Path, SealedCertificate, bool]:
    """Ask, in ``exposure`` of a demonstration's folder, who is given away; verify the answer.

    Parameters
    ----------
    place
        The folder of the demonstration.
    progress, say
        Told what is done.
    """
    speak = say or (lambda text: None)
    data = place / "exposure" / "data"
    audit = Audit(data.parent / "audit", home=data.parent / "home", data=[data], progress=progress)
    with audit._drawing_soon():
        write_coarse_digits(data)
        audit.init(files("proxyguard.audit").joinpath("demo-exposure.toml").read_text("utf-8"))
        speak("Who was in the training rows? Two attacks on copied rows, and on noisy histograms.")
        for problem in audit.check().problems:
            speak(f"problem: {problem}")
        audit.seal()
        audit.register()
        audit.draw()
    certificate = audit.open()
    assert certificate is not None  # a fixed audit certifies when it is opened
    return audit.folder.path, certificate, audit.verify().good


def write_coarse_digits(folder: Path) -> None:
    """Write the digits as 16 blocks of four pixels, each in four shades, and the parity."""
    from sklearn.datasets import load_digits

    folder.mkdir(parents=True)
    pixels, digits = load_digits(return_X_y=True)
    blocks = pixels.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16)  # 0 to 64
    shades = ("blank", "light", "grey", "dark")
    lines = [",".join([*(f"block{k}" for k in range(16)), "parity"])]
    for row, digit in zip(blocks, digits, strict=True):
        words = [shades[min(3, int(ink) // 16)] for ink in row]
        lines.append(",".join([*words, "odd" if digit % 2 else "even"]))
    (folder / "coarse.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_digits(folder: Path) -> None:
    """Write the digits as a table: 64 pixels and whether the digit is odd."""
    from sklearn.datasets import load_digits

    folder.mkdir(parents=True)
    pixels, digits = load_digits(return_X_y=True)
    lines = [",".join([*(f"pixel{i}" for i in range(pixels.shape[1])), "parity"])]
    for row, digit in zip(pixels, digits, strict=True):
        lines.append(",".join([*(f"{int(v)}" for v in row), "odd" if digit % 2 else "even"]))
    (folder / "digits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
