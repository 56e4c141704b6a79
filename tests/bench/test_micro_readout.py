"""The measurement of what label rows save: it runs, counts bytes, and refuses to time nonsense."""

from __future__ import annotations

import json

import pytest
import torch

from readoff.bench.micro import readout
from readoff.kernels.label_readout import label_readout


def test_the_last_line_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    calls = label_readout.calls.total()
    assert readout.main(["--small", "--device", "cpu", "--repeats", "2"]) == 0
    assert label_readout.calls.total() > calls
    lines = capsys.readouterr().out.splitlines()
    told = json.loads(lines[-1])
    assert told["benchmark"] == "readout"
    assert told["implementation"] == "torch"
    assert [row["questions"] for row in told["cases"]] == [1, 8, 64]
    for row in told["cases"]:
        assert row["whole_head_bytes"] == 1000 * 64 * 2
        assert row["bytes_not_read"] == (1000 - 4 * row["questions"]) * 64 * 2
        assert 0 < row["whole_head_p50_ms"] <= row["whole_head_p95_ms"]
        assert row["ratio"] > 0
    assert len(lines) == 1 + len(told["cases"]) + 1
    assert "not read" in lines[1]


def test_json_is_the_only_output_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    readout.main(["--small", "--json", "--device", "cpu", "--repeats", "1"])
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["repeats"] == 1


def test_no_repeats_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        readout.main(["--small", "--repeats", "0"])
    assert "--repeats must be at least 1" in capsys.readouterr().err


def test_nothing_is_timed_where_the_contenders_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    right = readout.contenders

    def wrong(weight: torch.Tensor, questions: int) -> dict[str, readout.Readout]:
        runs = right(weight, questions)
        return {**runs, "label_rows": lambda: runs["whole_head"]().flip(-1)}

    monkeypatch.setattr(readout, "contenders", wrong)
    with pytest.raises(RuntimeError, match=r"small: probabilities are .* apart; not timed"):
        readout.main(["--small", "--device", "cpu"])
