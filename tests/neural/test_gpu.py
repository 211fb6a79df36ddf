"""Draws on a GPU, in processes that are held; skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from neural.confined import check  # noqa: E402 - after the skip

pytestmark = pytest.mark.gpu


def test_a_draw_that_is_held_computes_on_the_gpu_and_starts_it_itself(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    assert check(secret) == []
