"""The delta rule of exported graphs against the operator: it runs, and times no wrong answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from readoff.bench.micro import onnx_delta
from readoff.bench.micro.delta_rule import RedGateError
from readoff.bench.seeded import QWEN35_08B

SMALL = replace(
    QWEN35_08B,
    linear_num_key_heads=2,
    linear_num_value_heads=2,
    linear_key_head_dim=16,
    linear_value_head_dim=16,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_delta, "QWEN35_08B", SMALL)


@pytest.mark.usefixtures("small")
def test_the_last_line_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx_delta.main(["--tokens", "70", "--repeats", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = json.loads(lines[-1])
    assert (told["tokens"], told["heads"], told["dim"]) == (70, 2, 16)
    assert set(told["times"]) | set(told["missing"]) == {"chunks", "operator"}
    assert all(error <= onnx_delta.BOUND for error in told["errors"].values())
    assert lines[0] == "70 tokens x 2 heads x 16"
    if not told["missing"]:
        assert told["ratio"] > 0
        assert "times faster (aim 3)" in lines[-2]


@pytest.mark.usefixtures("small")
def test_nothing_is_timed_under_a_red_gate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_delta, "BOUND", 1e-12)
    assert onnx_delta.main(["--tokens", "5", "--repeats", "1"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["gate"] == "red"


def test_equal_keys_are_part_of_the_gate() -> None:
    """A form that is right on random keys alone."""
    runs, _ = onnx_delta.contenders(SMALL, 1)
    right = runs["chunks"]

    def wrong(feeds: Any) -> tuple[Any, Any]:
        mixed = feeds["mixed"]
        out, state = right(feeds)
        return (out * 2 if np.array_equal(mixed[0, 0], mixed[0, 1]) else out), state

    with pytest.raises(RedGateError, match="with equal keys chunks is"):
        onnx_delta.gate(SMALL, 70, {"chunks": wrong})  # type: ignore[dict-item]
