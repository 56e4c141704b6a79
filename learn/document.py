"""training.json: what was trained, on what, how it went, and what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from readoff.learn.dataset import Dataset
from readoff.learn.examples import Example
from readoff.learn.lora import Lora
from readoff.learn.state import Progress
from readoff.learn.trainer import Ending

VERSION = 1


def document(
    progress: Progress,
    ending: Ending,
    dataset: Dataset,
    facts: Mapping[str, Any],
    lora: Lora,
    base: str,
    peak_bytes: int | None,
    adapter: str | None,
) -> dict[str, Any]:
    """Everything as JSON values. Seconds and bytes are plain numbers; `valid.before` is what the
    training began with, `valid.best` the adapter that is stored, whose digest `adapter` is."""
    curve = progress.curve
    trained = [record for record in curve if "loss" in record]
    measured = [record for record in curve if "valid_nll" in record]
    seconds = sum(record["seconds"] for record in trained)
    best = [record for record in measured if progress.best_step and record["step"] > 0]
    return {
        "version": VERSION,
        "ending": ending,
        "base": base,
        "digests": {"adapter": adapter},
        "facts": dict(facts),
        "torch": torch.__version__,
        "trained_numbers": lora.size,
        "target_modules": sorted(lora.targets),
        "data": {
            "train": _counts(dataset.train),
            "valid": _counts(dataset.valid),
            "notes": list(dataset.notes),
        },
        "steps": progress.step,
        "best_step": progress.best_step,
        "tokens": progress.tokens,
        "questions": sum(record["questions"] for record in trained),
        "training_seconds": seconds,
        "seconds": progress.seconds,
        "tokens_per_second": progress.tokens / seconds if seconds else None,
        "peak_bytes": peak_bytes,
        "valid": {
            "before": _valid(measured[0]) if measured and measured[0]["step"] == 0 else None,
            "best": next((_valid(r) for r in best if r["step"] == progress.best_step), None),
        },
        "curve": curve,
    }


def _valid(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nll": record["valid_nll"],
        "brier": record["valid_brier"],
        "accuracy": record["valid_accuracy"],
        "families": record["valid_families"],
    }


def _counts(rows: tuple[Example, ...]) -> dict[str, Any]:
    """How many rows and questions, and of these how many by family, language and source, with the
    sum of their weights."""
    asked = [(row, name) for row in rows for name, w in row.weights.items() if w > 0.0]
    found: dict[str, Any] = {
        "rows": len(rows),
        "questions": len(asked),
        "weight": sum(row.weights[name] for row, name in asked),
    }
    found["families"] = dict(sorted(Counter(row.families[n] for row, n in asked).items()))
    found["languages"] = dict(sorted(Counter(row.language or "" for row, _ in asked).items()))
    found["sources"] = dict(sorted(Counter(row.source or "" for row, _ in asked).items()))
    return found
