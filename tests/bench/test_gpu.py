"""The GPU's bench, tried on a CPU: every line runs, and a wrong kernel stops it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.bench.gpu.__main__ import main
from readoff.bench.gpu.cases import LENGTHS, QUESTIONS, Cases
from readoff.bench.gpu.clock import Budget, BudgetError, Clock, Spread
from readoff.bench.gpu.gate import Check
from readoff.bench.gpu.json_loop import ANSWER
from readoff.bench.gpu.models import SHAPES, TINY, projections, work_of
from readoff.bench.gpu.speeds import rates
from readoff.bench.seeded import SeededOnDevice
from readoff.kernels.dispatch import Implementation, always
from readoff.kernels.pointwise import add_rms_norm, rms_norm

TRIAL = ["--device", "cpu", "--shape", "tiny"]
NOT_NEEDED = (
    *("rich", "typer", "click", "xgrammar", "matplotlib", "jinja2", "tokenizers", "gguf", "peft"),
    *("huggingface_hub", "httpx"),
)


def document(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def test_everything_runs_with_few_packages(tmp_path: Path) -> None:
    """All of it but capturing, in a process where only what a bare GPU machine has can be
    imported."""
    script = (
        f"import sys\nfor name in {NOT_NEEDED!r}: sys.modules[name] = None\n"
        "from readoff.bench.gpu.__main__ import main\n"
        f"sys.exit(main({[*TRIAL, '--out', str(tmp_path / 'gpu.json')]!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = document(done.stdout)
    assert found == json.loads((tmp_path / "gpu.json").read_text())
    assert found["complete"] is True
    assert found["problems"] == []
    model = found["models"]["tiny"]
    assert all(check["ok"] for check in model["gate"])
    gated = {check["name"].split(" ")[0] for check in model["gate"]}
    assert gated >= {"gated_delta", "tree_attention", "causal_conv", "label_readout", "linear"}
    assert gated >= {"captured", "warm,", "token", "unpack,", "norm_rope_write"}
    assert len(model["cases"]) == len(LENGTHS) + 5
    for case in model["cases"]:
        assert case["host"]["p50"] > 0
        assert case["eager"]["p50"] > 0
        assert case["share_of_floor"] > 0
    assert [entry["captured"] for entry in model["json"]] == [True, True]
    assert [entry["passes"] for entry in model["json"]] == [ANSWER, ANSWER]
    assert [entry["reads"] for entry in model["head"]] == [1, 8, 64]
    assert "not available" in model["fp8"]["problem"]
    assert found["ceilings"]["bytes_per_s"] > 0


def test_without_a_gpu_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no CUDA device" in err


def test_an_unknown_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--models", "0.8B,9T"]) == 2
    assert "'9T'" in capsys.readouterr().err


def test_a_wrong_kernel_stops_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = rms_norm.implementations["torch"].function

    def wrong(x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return right(x, *rest) * 1.001

    first = {"wrong": Implementation("wrong", wrong, always())}
    monkeypatch.setattr(rms_norm, "implementations", first | rms_norm.implementations)
    monkeypatch.setattr(rms_norm, "_chosen", {})
    assert main(TRIAL) == 1
    out, err = capsys.readouterr()
    model = document(out)["models"]["tiny"]
    assert {c["name"].split(" ")[0] for c in model["gate"] if not c["ok"]} == {"rms_norm"}
    assert set(model) == {"gate"}
    assert "RED rms_norm" in err


def test_nan_in_the_second_result_is_red(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = add_rms_norm.implementations["torch"].function

    def broken(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = right(*args)
        return first, second * torch.nan

    first = {"broken": Implementation("broken", broken, always())}
    monkeypatch.setattr(add_rms_norm, "implementations", first | add_rms_norm.implementations)
    monkeypatch.setattr(add_rms_norm, "_chosen", {})
    assert main([*TRIAL, "--gate-only"]) == 1
    model = document(capsys.readouterr().out)["models"]["tiny"]
    assert "add_rms_norm" in {c["name"].split(" ")[0] for c in model["gate"] if not c["ok"]}


def test_a_spent_budget_tells_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRIAL, "--time-budget", "0"]) == 0
    found = document(capsys.readouterr().out)
    assert found["complete"] is False
    assert found["problems"] == ["cut short: the time budget of 0 s is spent"]


def test_the_gate_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRIAL, "--gate-only"]) == 0
    found = document(capsys.readouterr().out)
    assert "ceilings" not in found
    assert set(found["models"]["tiny"]) == {"gate", "gate_warmup"}


def test_nan_is_red() -> None:
    assert Check("a", 0.5, 0.5).ok
    assert not Check("a", float("nan"), 0.5).ok
    assert Check("a", 0.6, 0.5).told()["ok"] is False


def test_the_shapes_are_those_of_the_models() -> None:
    """The body of each, as counted elsewhere: 498 million and 3.57 billion."""
    bodies = {name: sum(projections(SHAPES[name].config)) for name in ("0.8B", "4B")}
    assert round(bodies["0.8B"] / 1e6) == 498
    assert round(bodies["4B"] / 1e7) == 357


def test_work_is_counted() -> None:
    cases = Cases(512, scale=20)
    every, last = projections(TINY)
    heads = 4 * TINY.num_heads * TINY.head_dim
    cold = work_of(TINY, cases.single(25).passes, 2.0)
    assert cold.tokens == 25
    assert cold.flops == 2 * (25 * every + last) + heads * 25 * 26 / 2
    warm = work_of(TINY, cases.warm(QUESTIONS).passes, 2.0)
    keys = 20 * 2 + 3  # two questions' tokens below a state of 20
    assert warm.flops == 2 * QUESTIONS * (2 * every + last) + heads * QUESTIONS * keys
    state = 4 * TINY.linear_num_value_heads * TINY.linear_key_head_dim * TINY.linear_value_head_dim
    read = 2 * 2 * TINY.num_kv_heads * TINY.head_dim * 20 + QUESTIONS * state
    rows = 2 * TINY.hidden_size * (2 * QUESTIONS + 8 * QUESTIONS)
    assert warm.bytes == 2 * (every + last) + read + rows


def test_rates_are_shares_of_the_ceilings() -> None:
    work = work_of(TINY, [Cases(512, 20).tree(2)], 2.0)
    ceilings = {"flops_per_s": work.flops * 1e3, "bytes_per_s": work.bytes * 500.0}
    found = rates(work, 4.0, ceilings, 2.0)
    assert found["share_of_matmul"] == pytest.approx(0.25)
    assert found["share_of_bandwidth"] == pytest.approx(0.5)
    assert found["floor_ms"] == pytest.approx(2.0)
    assert found["share_of_floor"] == pytest.approx(0.5)


def test_percentiles_by_rank() -> None:
    found = Spread.of([float(n) for n in range(100, 0, -1)])
    assert (found.p50, found.p95, found.p99, found.count) == (51.0, 96.0, 100.0, 100)
    assert Spread.of([3.0]).p99 == 3.0


def test_a_measurement_stops_at_its_repeats_and_its_budget() -> None:
    calls: list[int] = []
    clock = Clock(torch.device("cpu"), Budget(100.0, 7, 100.0))
    assert clock.host(lambda: calls.append(1), warmups=2).count == 7
    assert len(calls) == 9
    with pytest.raises(BudgetError):
        Clock(torch.device("cpu"), Budget(0.0, 7, 1.0)).host(lambda: None)


def test_weights_on_a_device_are_the_same_in_every_dtype() -> None:
    weights = SeededOnDevice(TINY, torch.device("cpu"))
    wide, narrow = torch.empty(512, 64), torch.empty(512, 64, dtype=torch.bfloat16)
    name = "model.embed_tokens.weight"
    weights.copy_into(name, wide)
    weights.copy_into(name, narrow)
    assert torch.equal(wide.bfloat16(), narrow)
    assert float(wide.std()) == pytest.approx(1 / 8, rel=0.05)
    other = torch.empty(512, 64)
    SeededOnDevice(TINY, torch.device("cpu"), seed=1).copy_into(name, other)
    assert not torch.equal(wide, other)
    norm = torch.empty(32)
    weights.copy_into("model.layers.0.linear_attn.norm.weight", norm)
    assert float(norm.mean()) == pytest.approx(1.0, abs=0.1)
