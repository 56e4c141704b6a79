"""result.json: what its rows hold, that it is written whole or not at all, what load refuses."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.bench.records import Gate, RungReport, Speedup
from readoff.bench.report.files import line, write_all
from readoff.bench.report.result import Result, clean, load, rung_row, write_text
from readoff.engine.errors import ReadoffError

from . import samples


def test_a_row_holds_what_the_acceptance_reads() -> None:
    row = rung_row(samples.report("paper-en", "L4"), "state shared", {})
    assert (row["name"], row["workload"], row["gate"]) == ("L4", "paper-en", "ok")
    assert row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
    assert row["speedup_vs_L0"] == pytest.approx(7.75)
    assert row["speedup_vs_L1"] == pytest.approx(3.875)
    low, high = row["speedup_vs_L0_interval"]
    assert low < row["speedup_vs_L0"] < high


def test_rates_are_of_the_measured_seconds() -> None:
    report = RungReport(
        name="L4",
        workload="w",
        seconds=(1.0, 2.0, 3.0),
        decisions=12,
        tokens_computed=600,
        tokens_generated=0,
        failures=0,
        gate=Gate("L3", 1.0, 0.1, 0.01, False),
        speedups={"L0": Speedup(2.0, 1.5, 2.5)},
        bytes_moved=12e9,
        flops=6e12,
    )
    row = rung_row(report, "t", {"bytes_per_s": 4e9, "flops_per_s": 1e13})
    assert row["p50_ms"] == 2000
    assert row["decisions_per_s"] == 2
    assert (row["bytes_per_s"], row["bytes_per_s_share"]) == (2e9, 0.5)
    assert (row["flops_per_s"], row["flops_per_s_share"]) == (1e12, 0.1)
    assert (row["gate"], row["speedup_vs_L1"]) == ("red", None)
    assert row["seconds"] == [1.0, 2.0, 3.0]


def test_a_rung_without_times_has_no_numbers() -> None:
    row = rung_row(RungReport("L4", "w", (), 0, 0, 0, 0, None), "", {})
    assert [row[key] for key in ("p50_ms", "p99_ms", "decisions_per_s", "bytes_per_s")] == [
        None
    ] * 4
    assert row["gate"] == "none"


def test_the_document_is_json_that_any_parser_takes(tmp_path: Path) -> None:
    result = samples.result()
    result.notes.append("naïve")
    result.ceilings["odd"] = float("nan")
    text = line(result.document())
    assert "\n" not in text
    assert text.isascii()
    parsed = json.loads(text, parse_constant=pytest.fail)
    assert parsed["ceilings"]["odd"] is None
    assert parsed["complete"] is True


def test_clean_makes_plain_values() -> None:
    given = {"a": (1, np.float64(2.5)), 3: Path("x"), "b": {"c": float("inf")}, "d": np.bool_(True)}
    assert clean(given) == {"a": [1, 2.5], "3": "x", "b": {"c": None}, "d": True}


def test_files_are_read_back(tmp_path: Path) -> None:
    document = samples.document()
    paths = write_all(tmp_path / "new" / "folder", document)
    assert [path.name for path in paths] == ["result.json", "report.md", "report.html"]
    assert load(paths[0]) == document
    assert sorted(p.name for p in paths[0].parent.iterdir()) == sorted(p.name for p in paths)


def test_a_full_disk_is_one_clear_message_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReadoffError, match=r"No space left on device.*--out"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReadoffError, match="can't be written"):
        write_text(tmp_path / "file" / "result.json", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "no list of rungs"),
        ('{"rungs": 1}', "no list of rungs"),
        ('{"rungs": []}', "schema None"),
        ('{"schema": 1, "rungs": [{"name": "L0"}]}', "without name, workload or seconds"),
        ('{"schema": 1, "rungs": [{"name": "a", "workload": "b", "seconds": ["x"]}]}', "without"),
        ('{"schema": 1, "rungs": [{"name": "a", "workload": "b", "seconds": [0]}]}', "without"),
    ],
)
def test_what_is_no_result_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(ReadoffError, match=message):
        load(path)


def test_a_missing_result_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReadoffError, match="can't be read"):
        load(tmp_path / "none.json")


def test_an_unfinished_run_says_why() -> None:
    result = Result(dict(samples.ABOUT), stopped="Red gate: rung L4 …")
    document = result.document()
    assert document["complete"] is False
    assert document["stopped"].startswith("Red gate")
