"""The files that draws may read are known by what is in them, however they are named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from proxyguard.draw.confine import allowed_paths
from proxyguard.draw.sources import allowed_files
from proxyguard.errors import DrawError


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_in_the_home_folder_is_digested_as_it_is_opened_to_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model.bin").write_text("weights")
    assert allowed_paths(["~/model.*"]) == [str(tmp_path / "model.bin")]
    assert allowed_files(["~/model.*"]) == {str(tmp_path / "model.bin"): digest("weights")}


def test_a_pattern_that_nothing_matches_is_not_registered(tmp_path: Path) -> None:
    with pytest.raises(DrawError, match="is registered, and nothing is there"):
        allowed_files([str(tmp_path / "model.*")])


def test_a_file_of_the_same_size_and_age_is_read_again_once_it_changed(tmp_path: Path) -> None:
    place = tmp_path / "model.bin"
    place.write_text("first")
    facts = place.stat()
    assert allowed_files([str(place)]) == {str(place): digest("first")}
    place.write_text("other")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert allowed_files([str(place)]) == {str(place): digest("other")}
