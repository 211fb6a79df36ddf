"""How the browser of these tests is found and started."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def missing() -> str:
    """Return why no browser can be started; empty if one can."""
    if find_spec("playwright") is None:
        return "playwright is not installed: make test installs it"
    if shutil.which("chromium") is None:
        return "there is no chromium: apt-get install chromium, as .ci/run does"
    return ""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()
