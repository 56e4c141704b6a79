"""A tiny model with an adapter, and labelled rows of six families, shared by the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import models
from tests.adapters import save_adapter
from tests.engine.models_on_disk import save_decider

FAMILIES = ("routing", "relevance", "verification", "rewriting", "sufficiency", "navigation")

Row = dict[str, Any]


def save_pair(folder: Path, architecture: models.Architecture = "qwen2") -> tuple[Path, Path]:
    """(base, adapter), seeded; the adapter moves every answer."""
    base = save_decider(folder / "base", architecture, seed=3, max_position_embeddings=8192)
    save_adapter(folder / "adapter", base, seed=1, target_modules=["q_proj", "down_proj"])
    return folder / "base", folder / "adapter"


def labelled(count: int, *, split: str = "test", start: int = 0) -> list[Row]:
    """`count` rows, one or two questions each, over all families, both languages."""
    return [_row(number, split) for number in range(start, start + count)]


def write(path: Path, rows: list[Row]) -> Path:
    """As JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def _row(number: int, split: str) -> Row:
    family = FAMILIES[number % len(FAMILIES)]
    row: Row = {
        "state": f"Message {number}: the parcel is {'late' if number % 2 else 'here'}.",
        "family": family,
        "language": "zh" if number % 3 == 0 else "en",
        "split": split,
        "source": "made",
    }
    if family in ("routing", "navigation"):
        size = 3 if number % 4 else 5
        options = {f"option {k}": None for k in range(size)}
        row["questions"] = {"intent": {"type": "choice", "criteria": options}}
        row["answers"] = {"intent": f"option {number % size}"}
    elif family == "relevance":
        row["questions"] = {"use": {"type": "score", "criteria": ["none", "some", "much"]}}
        row["answers"] = {"use": number % 3}
    else:
        row["questions"] = {
            "late": {"type": "noul", "instructions": "It is late."},
            "here": {"type": "noul", "instructions": f"It is here, {number}."},
        }
        row["answers"] = {"late": bool(number % 2), "here": not number % 2}
        row["family"] = {"late": family, "here": family}
    return row
