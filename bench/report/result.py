"""result.json: everything a run measured, as one document."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from readoff.bench.records import Gate, RungReport, Workload
from readoff.bench.report.document import OPPONENTS
from readoff.engine.errors import ReadoffError

SCHEMA = 1


@dataclass
class Result:
    """A run's findings as they come in; `document` at any time is what a report is made from.

    `about` holds what is known before anything is measured (settings, machine, versions, model,
    commit, seed). `complete` becomes True at the end only; `stopped` says what came in between.
    """

    about: Mapping[str, Any]
    ceilings: dict[str, float] = field(default_factory=dict)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    rungs: list[dict[str, Any]] = field(default_factory=list)
    quality: list[dict[str, Any]] = field(default_factory=list)
    opponents: list[dict[str, Any]] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = False
    stopped: str | None = None

    def add_workload(self, workload: Workload) -> None:
        """Tell of a workload that is about to run."""
        self.workloads.append(
            {
                "name": workload.name,
                "kind": workload.kind,
                "language": workload.language,
                "requests": len(workload.asks),
                "axes": dict(workload.axes),
            }
        )

    def add_rung(self, report: RungReport, title: str = "", **more: Any) -> None:
        """Keep what a rung did; `more` goes into its row as it is."""
        self.rungs.append(rung_row(report, title, self.ceilings) | more)

    def document(self) -> dict[str, Any]:
        """JSON values only, without NaN or Infinity."""
        made = {
            "schema": SCHEMA,
            "complete": self.complete,
            "stopped": self.stopped,
            **self.about,
            "seconds": self.seconds,
            "ceilings": self.ceilings,
            "targets": self.targets,
            "workloads": self.workloads,
            "rungs": self.rungs,
            "quality": self.quality,
            "opponents": self.opponents,
            "notes": self.notes,
        }
        cleaned: dict[str, Any] = clean(made)
        return cleaned


def rung_row(report: RungReport, title: str, ceilings: Mapping[str, float]) -> dict[str, Any]:
    """A rung on a workload: percentiles, throughput, speed-ups, shares of the ceilings."""
    seconds = np.asarray(report.seconds, dtype=float)
    total = float(seconds.sum())
    row: dict[str, Any] = {
        "name": report.name,
        "title": title,
        "workload": report.workload,
        "requests": len(seconds),
        "decisions": report.decisions,
        **percentiles(report.seconds),
        "decisions_per_s": report.decisions / total if total else None,
        "tokens_computed": report.tokens_computed,
        "tokens_generated": report.tokens_generated,
        "failures": report.failures,
        "gate": gate_word(report.gate),
        "gate_detail": None if report.gate is None else asdict(report.gate),
    }
    for name in OPPONENTS:
        found = report.speedups.get(name)
        row[f"speedup_vs_{name}"] = None if found is None else found.ratio
        row[f"speedup_vs_{name}_interval"] = None if found is None else [found.low, found.high]
    for key, amount, ceiling in (
        ("bytes_per_s", report.bytes_moved, "bytes_per_s"),
        ("flops_per_s", report.flops, "flops_per_s"),
    ):
        rate = None if amount is None or not total else amount / total
        row[key] = rate
        most = ceilings.get(ceiling)
        row[f"{key}_share"] = None if rate is None or not most else rate / most
    row["peak_bytes"] = report.peak_bytes
    row["seconds"] = [float(value) for value in report.seconds]
    return row


def percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    """p50, p95 and p99 in milliseconds; None where nothing was measured."""
    points = (50, 95, 99)
    if not len(seconds):
        return {f"p{point}_ms": None for point in points}
    found = np.percentile(np.asarray(seconds, dtype=float) * 1e3, points)
    return {f"p{point}_ms": float(value) for point, value in zip(points, found, strict=True)}


def gate_word(gate: Gate | None) -> str:
    """ "ok", "red", or "none" where there was nothing to compare."""
    return "none" if gate is None else "ok" if gate.ok else "red"


def clean(value: Any) -> Any:
    """`value` as JSON values: what isn't a finite number becomes null."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old one or the new one, never a part.

    Raises ReadoffError with what to do when the folder can't be written to or the disk is full.
    """
    draft = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError as error:
        raise ReadoffError(
            f"{path} can't be written ({error.strerror or error}). "
            "Free some space there, or name another folder with --out."
        ) from error
    finally:
        if draft:
            Path(draft).unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """Read a result.json. Raises ReadoffError, saying what is wrong with it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadoffError(f"{path} can't be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError) as error:
        raise ReadoffError(f"{path} is not JSON ({error}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("rungs"), list):
        raise ReadoffError(f"{path} is no result of readoff bench: it has no list of rungs.")
    if found.get("schema") != SCHEMA:
        raise ReadoffError(
            f"{path} has schema {found.get('schema')!r} and this readoff reads {SCHEMA}; "
            "measure again."
        )
    for row in found["rungs"]:
        seconds = row.get("seconds") if isinstance(row, dict) else None
        names = isinstance(row, dict) and {"name", "workload"} <= row.keys()
        if not names or not isinstance(seconds, list) or not all(map(_positive, seconds)):
            raise ReadoffError(f"{path} has a rung without name, workload or seconds.")
    return found


def _positive(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value < math.inf  # type: ignore[operator]
