"""Compiled kernels go where the environment says, and Triton agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from readoff.engine.kernel_folder import keep_kernels, kernel_folder


def test_where_compiled_kernels_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "x")
    monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.delenv("READOFF_CACHE", raising=False)
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    keep_kernels()
    assert kernel_folder() == tmp_path / "home" / ".triton" / "cache"
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path / "ours"))
    keep_kernels()
    assert kernel_folder() == tmp_path / "ours" / "triton"
    from triton import knobs

    assert Path(knobs.cache.dir) == tmp_path / "ours" / "triton"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "own"))
    keep_kernels()
    assert kernel_folder() == tmp_path / "own"
