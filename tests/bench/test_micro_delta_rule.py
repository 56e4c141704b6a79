"""The delta rule against other people's: it runs, tells what is missing, times no wrong answer."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from readoff.bench.micro import delta_rule
from readoff.kernels.gated_delta import gated_delta

ONNX = find_spec("onnxruntime") is not None and find_spec("onnx") is not None

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Other packages are imported here, and their warnings aren't ours."""


def small(*more: str) -> int:
    return delta_rule.main(["--small", "--repeats", "2", *more])


def test_the_last_line_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    calls = gated_delta.calls["cpu"]
    assert small() == 0
    assert gated_delta.calls["cpu"] > calls
    lines = capsys.readouterr().out.splitlines()
    told = json.loads(lines[-1])
    assert told["benchmark"] == "delta_rule"
    assert (told["tokens"], told["heads"], told["dim"]) == (70, 2, 16)
    assert told["implementation"] == "cpu"
    assert {"fp32", "bf16", "transformers"} <= set(told["times"])
    assert set(told["times"]) | set(told["missing"]) == {"fp32", "bf16", *delta_rule.AIMS}
    for name, times in told["times"].items():
        assert 0 < times["p50_ms"] <= times["p95_ms"]
        assert 0 <= told["errors"][name] <= delta_rule.BOUNDS["bf16" if name == "bf16" else "fp32"]
    compared = {(row["slow"], row["fast"]) for row in told["ratios"]}
    others = set(told["times"]) - {"fp32", "bf16"}
    assert compared == {(slow, fast) for slow in others for fast in ("fp32", "bf16")}
    assert lines[0] == "70 tokens x 2 heads x 16"


def test_json_is_the_only_output_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert small("--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["repeats"] == 2


@pytest.mark.skipif(not ONNX, reason="onnxruntime and onnx aren't installed")
def test_the_onnx_operator_computes_the_same() -> None:
    x = delta_rule.SMALL.operands()
    runs, missing = delta_rule.contenders(x)
    assert "onnxruntime" not in missing
    errors = delta_rule.gate(x, {"onnxruntime": runs["onnxruntime"]})
    assert errors["onnxruntime"] <= 2e-6


def test_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    importlib.import_module("transformers.models.qwen3_5")
    monkeypatch.setitem(sys.modules, "transformers.models.qwen3_5", None)
    assert small() == 0
    out = capsys.readouterr().out
    told = json.loads(out.splitlines()[-1])
    assert set(told["missing"]) == {"onnxruntime", "transformers"}
    assert set(told["times"]) == {"fp32", "bf16"}
    assert told["ratios"] == []
    assert "onnxruntime could not run: ModuleNotFoundError" in out


def test_nothing_is_timed_under_a_red_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = delta_rule.contenders

    def wrong(x: tuple[torch.Tensor, ...]) -> Any:
        runs, missing = right(x)
        out, state = runs["bf16"]()
        return {**runs, "bf16": lambda: (out * 1.1, state)}, missing

    monkeypatch.setattr(delta_rule, "contenders", wrong)
    monkeypatch.setattr(delta_rule, "alternate", None)
    assert small() == 1
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    told = json.loads(line)
    assert told["gate"] == "red"
    assert told["reason"].startswith("bf16 is 0.")
    assert told["reason"].endswith("nothing was timed.")
    assert "times" not in told
    assert "Red gate" in captured.err


def test_a_wrong_state_is_a_red_gate_too() -> None:
    x = delta_rule.SMALL.operands()
    runs, _ = delta_rule.contenders(x)
    out, state = runs["fp32"]()
    assert delta_rule.gate(x, {"fp32": lambda: (out, state)})["fp32"] <= 2e-6
    with pytest.raises(delta_rule.RedGateError, match="fp32 is"):
        delta_rule.gate(x, {"fp32": lambda: (out, state.mT)})
    for broken in ((out * torch.nan, state), (out, state * torch.nan)):
        with pytest.raises(delta_rule.RedGateError, match="fp32 is nan"):
            delta_rule.gate(x, {"fp32": lambda found=broken: found})


def test_no_repeats_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        delta_rule.main(["--repeats", "0"])
    assert "--repeats must be at least 1" in capsys.readouterr().err
