"""Where compiled kernels stay between processes. No torch here."""

from __future__ import annotations

import os
from pathlib import Path


def kernel_folder() -> Path:
    """TRITON_CACHE_DIR, else READOFF_CACHE/triton, else Triton's own default."""
    own = os.environ.get("TRITON_CACHE_DIR")
    if own:
        return Path(own)
    ours = os.environ.get("READOFF_CACHE")
    if ours:
        return Path(ours).expanduser() / "triton"
    return Path(os.environ.get("TRITON_HOME") or Path.home()) / ".triton" / "cache"


def keep_kernels() -> None:
    """Have Triton use `kernel_folder` in this process: READOFF_CACHE means nothing to it."""
    if os.environ.get("READOFF_CACHE"):
        os.environ.setdefault("TRITON_CACHE_DIR", str(kernel_folder()))
