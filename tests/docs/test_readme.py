"""The README is short, and every file that it leads to is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_fits_three_screens_and_begins_with_try() -> None:
    assert len(README.splitlines()) <= 130
    heads = re.findall(r"^## (.+)$", README, flags=re.MULTILINE)
    assert heads[0] == "A table in, a page out"
    assert "proxyguard try" in README.split("## ")[1]


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
