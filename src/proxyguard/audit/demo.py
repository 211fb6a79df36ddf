"""The demonstration: two audits of scanned digits, carried out whole in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from proxyguard.audit.audit import Audit
from proxyguard.audit.outcome import SealedCertificate
from proxyguard.exact.rounding import Array
from proxyguard.progress import Progress

Say: TypeAlias = Callable[[str], None]
# The audit's folder, what it certifies, and whether the record holds.
Demonstrated: TypeAlias = tuple[Path, SealedCertificate, bool]


def demo_declaration() -> str:
    """Return the declaration of the demonstration.

    May bootstrap tables stand in for the digits when a reader is trained? Three mechanisms differ
    only in how many rows they draw. Keys and lineage lie in the folder's own ``home``, so that
    nothing outside it is touched.
    """
    return files("proxyguard.audit").joinpath("demo.toml").read_text(encoding="utf-8")


def run_demo(folder: Path, progress: Progress, say: Say | None) -> Demonstrated:
    """Run the audit in ``folder``, or beside it where one is there already; verify it."""
    speak = say or _say_nothing
    place = folder
    number = 2
    while place.exists():
        place = folder.with_name(f"{folder.name}-{number}")
        number += 1
    if place != folder:
        speak(f"{folder} has an audit already; this one starts afresh in {place}")
    return carry_out(
        place, demo_declaration(), write_digits, progress, speak,
        {
            "init": (
                "May resampled tables stand in for scanned digits when a reader of odd and even is",
                "trained? Three mechanisms resample all rows, 150 rows, or 15 rows of the real "
                "ones.",
                "",
                "init      a declaration of what is asked, and a signing key",
            ),
            "seal": ("seal      900 of 1,797 records are set aside and encrypted: the target",),
            "register": (
                "register  limits are set on the other records, and the claim is frozen",
            ),
            "draw": (
                "draw      3 x 30 releases, a reader is trained on each, all are frozen",
            ),
            "open": (
                "open      the target is opened once, every release is scored, the verdicts are "
                "signed",
            ),
        },
    )  # fmt: skip


def run_exposure_demo(place: Path, progress: Progress, say: Say | None) -> Demonstrated:
    """Ask, in ``exposure`` of a demonstration's folder, who is given away; verify the answer.

    Parameters
    ----------
    place
        The folder of the demonstration.
    progress, say
        Told what is done.
    """
    declaration = files("proxyguard.audit").joinpath("demo-exposure.toml").read_text("utf-8")
    question = "Who was in the training rows? Two attacks on copied rows, and on noisy histograms."
    return carry_out(
        place / "exposure", declaration, write_coarse_digits, progress, say or _say_nothing,
        {"init": (question,)},
    )  # fmt: skip


def carry_out(
    place: Path,
    declaration: str,
    write: Callable[[Path], None],
    progress: Progress,
    speak: Say,
    words: Mapping[str, Sequence[str]],
) -> Demonstrated:
    """Do every step of one audit, and say before each what there is to say of it.

    Parameters
    ----------
    place
        Where folder, home and data of the audit will lie.
    declaration
        What it asks.
    write
        Writes its table into a folder.
    progress, speak
        Told what is done.
    words
        What is said, by step.
    """
    data = place / "data"
    audit = Audit(place / "audit", home=place / "home", data=[data], progress=progress)

    def tell(step: str) -> None:
        for line in words.get(step, ()):
            speak(line)

    with audit._drawing_soon():
        write(data)
        tell("init")
        audit.init(declaration)
        for problem in audit.check().problems:
            speak(f"problem: {problem}")
        tell("seal")
        audit.seal()
        tell("register")
        audit.register()
        tell("draw")
        audit.draw()
    tell("open")
    certificate = audit.open()
    assert certificate is not None  # a fixed audit certifies when it is opened
    return audit.folder.path, certificate, audit.verify().good


def _say_nothing(text: str) -> None:
    """Say nothing, where nobody is told."""


def write_digits(folder: Path) -> None:
    """Write the digits as a table: 64 pixels and whether the digit is odd."""
    _write_table(folder / "digits.csv", "pixel", lambda row: [f"{int(v)}" for v in row])


def write_coarse_digits(folder: Path) -> None:
    """Write the digits as 16 blocks of four pixels, each in four shades, and the parity."""
    shades = ("blank", "light", "grey", "dark")

    def words(row: Array) -> list[str]:
        blocks = row.reshape(4, 2, 4, 2).sum(axis=(1, 3)).ravel()  # 0 to 64
        return [shades[min(3, int(ink) // 16)] for ink in blocks]

    _write_table(folder / "coarse.csv", "block", words)


def _write_table(path: Path, what: str, words: Callable[[Array], list[str]]) -> None:
    """Write each digit as words of its pixels, with its parity in the last column."""
    from sklearn.datasets import load_digits

    path.parent.mkdir(parents=True)
    pixels, digits = load_digits(return_X_y=True)
    cells = [words(row) for row in pixels]
    lines = [",".join([*(f"{what}{i}" for i in range(len(cells[0]))), "parity"])]
    for row, digit in zip(cells, digits, strict=True):
        lines.append(",".join([*row, "odd" if digit % 2 else "even"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
