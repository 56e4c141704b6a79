"""Which commit of readoff is running, where it runs from a checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def commit(root: Path = ROOT) -> dict[str, Any] | None:
    """{"id", "dirty"}, or None where this is no checkout or there is no git."""
    if not (root / ".git").exists():
        return None
    found = _git(root, "rev-parse", "HEAD")
    if not found:
        return None
    return {"id": found, "dirty": bool(_git(root, "status", "--porcelain"))}


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
