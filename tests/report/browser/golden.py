"""What the page looks like at three sizes, and how alike two pictures of it are.

Write the images anew, after looking at what changed, with

    PYTHONPATH=src:tests python tests/report/browser/golden.py
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).with_name("golden")
SHOTS = {
    "phone": (390, 4400, "light"),
    "tablet": (820, 2600, "light"),
    "desktop": (1280, 2400, "light"),
    "dark": (1280, 2400, "dark"),
}
"""Width, height and scheme of every image: the verdicts and the pictures of one mechanism."""
WORDS_DOWN_TO = 1300
"""Images with words are kept of the first screens only; they are large."""

FONTS = '.pg-page { --pg-sans: "DejaVu Sans"; --pg-serif: "DejaVu Serif"; }'
"""One machine's system font is not another's; these come with fonts-dejavu-core."""

NO_WORDS = """
.pg-page * { color: transparent !important; text-decoration-color: transparent !important; }
svg text { visibility: hidden; }
"""
"""Marks alone are compared closely: no rasteriser draws a box or a disc much otherwise."""

MARKS, WORDS = 8.0, 12.0
"""The mean differences, of 255, that one tile may show in marks, and in blurred words."""
MARK_TILE, WORD_TILE = 8, 32


def shoot(browser: Browser, path: Path, shot: str, css: str = "", *, words: bool = True) -> bytes:
    """Return a picture of the page's upper part; ``css`` is added to its style."""
    width, height, scheme = SHOTS[shot]
    height = min(height, WORDS_DOWN_TO) if words else height
    viewport = {"width": width, "height": height}
    # The page's own policy would refuse the added style.
    context = browser.new_context(viewport=viewport, color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path.as_uri())
    page.add_style_tag(content=FONTS + css + ("" if words else NO_WORDS))
    image = page.screenshot()
    context.close()
    return image


def marks_apart(found: bytes, golden: bytes) -> float:
    """Return how far two pictures without words differ, in the tile where they differ most."""
    return _apart(found, golden, MARK_TILE, blur=0.0)


def words_apart(found: bytes, golden: bytes) -> float:
    """Return how far two blurred pictures differ: a word may move a little, and not be lost."""
    return _apart(found, golden, WORD_TILE, blur=4.0)


def _apart(found: bytes, golden: bytes, tile: int, *, blur: float) -> float:
    from PIL import Image, ImageFilter

    a, b = (
        np.asarray(
            Image.open(BytesIO(one)).convert("RGB").filter(ImageFilter.GaussianBlur(blur)),
            dtype=np.int16,
        )
        for one in (found, golden)
    )
    if a.shape != b.shape:
        return 255.0
    apart = np.abs(a - b).max(axis=2)
    rows, columns = (size - size % tile for size in apart.shape)
    tiles = apart[:rows, :columns].reshape(rows // tile, tile, columns // tile, tile)
    return float(tiles.mean(axis=(1, 3)).max())


def kept(shot: str, kind: str) -> Path:
    """Return where an image is kept."""
    return FOLDER / f"{shot}-{kind}.png"


def small(image: bytes, *, words: bool) -> bytes:
    """Return an image to be kept: of words with few colours, of marks as it is."""
    from PIL import Image

    shown = Image.open(BytesIO(image)).convert("RGB")
    if words:
        shown = shown.quantize(96, dither=Image.Dither.NONE)
    out = BytesIO()
    shown.save(out, format="PNG", optimize=True)
    return out.getvalue()


def write() -> None:
    """Write every image anew."""
    from report.browser.chromium import chromium
    from report.browser.conftest import page_of
    from report.synthetic import synthetic_sources

    page = FOLDER / "page.html"
    FOLDER.mkdir(exist_ok=True)
    page.write_text(page_of(synthetic_sources(R=30)), encoding="utf-8")
    with chromium() as browser:
        for shot in SHOTS:
            for kind in ("words", "marks"):
                words = kind == "words"
                image = small(shoot(browser, page, shot, words=words), words=words)
                kept(shot, kind).write_bytes(image)
                sys.stdout.write(f"{shot} {kind}: {len(image):,} bytes\n")
    page.unlink()


if __name__ == "__main__":
    write()
