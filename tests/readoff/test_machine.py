"""What `readoff info` knows, with and without torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from readoff.commands import machine
from readoff.kernels.dispatch import OPS


def test_the_facts_are_json_and_complete() -> None:
    facts = machine.describe("cpu", "float32")
    assert json.loads(json.dumps(facts)) == facts
    assert facts["device"] == "cpu"
    assert facts["dtype"] == "float32"
    assert facts["threads"] == torch.get_num_threads()
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["devices"][0] == "cpu"
    assert facts["processor"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_operator_tells_which_implementation_is_used(dtype: str) -> None:
    told = machine.describe("cpu", dtype)["kernels"]
    assert set(told) == set(OPS)
    assert {"linear", "tree_attention", "gated_delta", "label_readout"} <= set(told)
    for op, implementations in told.items():
        words = [why.partition(":")[0] for why in implementations.values()]
        assert words.count("used") == 1, op
        assert set(words) <= {"used", "available", "not available"}


def test_forcing_an_implementation_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_KERNELS", "gated_delta=reference")
    told = machine.describe("cpu", "float32")["kernels"]
    assert told["gated_delta"]["reference"].startswith("used")
    assert not told["gated_delta"]["cpu"].startswith("used")


def test_the_demonstration_model_is_located(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path))
    told = machine.describe()["demo_model"]
    assert told.startswith("not fetched yet")
    assert str(tmp_path) in told
    machine.demo_path().parent.mkdir(parents=True)
    machine.demo_path().touch()
    assert machine.describe()["demo_model"] == str(machine.demo_path())
