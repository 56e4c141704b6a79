"""The row-wise operators against their naive forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from readoff.kernels import pointwise
from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.pointwise import reference as naive

from .forests import relative_error

BOUND = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
T, H, D = 37, 48, 16


def cases(dtype: torch.dtype) -> dict[str, tuple[Any, ...]]:
    torch.manual_seed(6)
    x = (torch.randn(T, H) * 3).to(dtype)
    heads = torch.randn(T, 6, D).to(dtype)
    return {
        "rms_norm": (x, torch.randn(H).to(dtype), 1e-6, False),
        "rms_norm 1+w": (x, torch.randn(H).to(dtype), 1e-6, True),
        "add_rms_norm": (x, x.flip(0), torch.randn(H).to(dtype), 1e-6, True),
        "swiglu": (x, H // 2),
        "gated_rms_norm": (heads, heads.flip(0), torch.randn(D).to(dtype), 1e-6),
        "sigmoid_gate": (x, x.flip(1)),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", cases(torch.float32))
def test_equals_the_naive_form(name: str, dtype: torch.dtype) -> None:
    args = cases(dtype)[name]
    wide = [a.float() if isinstance(a, torch.Tensor) else a for a in args]
    op: Callable[..., Any] = getattr(pointwise, name.split()[0])
    found, wanted = op(*args), getattr(naive, name.split()[0])(*wide)
    if isinstance(found, torch.Tensor):
        found, wanted = (found,), (wanted,)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        assert relative_error(a, b) <= BOUND[dtype]


@pytest.mark.parametrize("normed", [True, False], ids=["normed", "plain"])
@pytest.mark.parametrize("rotary", [D, D // 4], ids=["full", "partial"])
@pytest.mark.parametrize("some_rows", [True, False], ids=["read rows", "all rows"])
def test_norm_rope_write_equals_the_naive_form(normed: bool, rotary: int, some_rows: bool) -> None:
    torch.manual_seed(7)
    rows = torch.tensor([4, 9, 36]) if some_rows else None
    q = torch.randn(T if rows is None else len(rows), 4, D)
    k, v = torch.randn(T, 2, D), torch.randn(T, 2, D)
    weights = (torch.randn(D), torch.randn(D)) if normed else (None, None)
    angle = torch.randn(T, rotary // 2)
    slots = torch.randperm(T + 5)[:T]
    results = []
    for function in (pointwise.norm_rope_write, naive.norm_rope_write):
        pools = torch.zeros(T + 5, 2, D), torch.zeros(T + 5, 2, D)
        turned = function(
            q, k, v, *weights, 1e-6, True, angle.cos(), angle.sin(), rows, *pools, slots
        )
        results.append((turned, *pools))
    for found, wanted in zip(*results, strict=True):
        assert relative_error(found, wanted) <= 2e-6


def test_rotation_keeps_lengths_and_depends_on_distance_only() -> None:
    q, k = torch.randn(1, 1, D), torch.randn(1, 1, D)
    frequency = 1.0 / 10_000 ** (torch.arange(0, D, 2) / D)

    def product(at_q: int, at_k: int) -> float:
        turned = []
        for x, at in ((q, at_q), (k, at_k)):
            angle = at * frequency[None]
            pools = torch.zeros(1, 1, D), torch.zeros(1, 1, D)
            args = (None, None, 1e-6, False, angle.cos(), angle.sin(), None)
            turned.append(pointwise.norm_rope_write(x, x, x, *args, *pools, torch.tensor([0])))
            assert float(turned[-1].norm()) == pytest.approx(float(x.norm()), rel=1e-5)
        return float((turned[0] * turned[1]).sum())

    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-4)


def test_the_gate_takes_heads_as_they_come() -> None:
    """Every other D features of a fused projection, without a copy."""
    x, fused = torch.randn(T, 6, D), torch.randn(T, 6, 2 * D)
    gate = fused.split(D, dim=-1)[1]
    found = pointwise.sigmoid_gate(x, gate)
    wanted = naive.sigmoid_gate(x.flatten(1), gate.flatten(1))
    assert relative_error(found.flatten(1), wanted) <= 2e-6


ROWS, HEADS = torch.zeros(T, H), torch.zeros(T, 6, D)
DOUBLE, HALVES = torch.zeros(T, H, dtype=torch.float64), torch.zeros(T, H).half()
TURNED, SHORT = torch.zeros(H, T).t(), torch.zeros(T - 1, H)
SCALE, LONG = torch.ones(H), torch.ones(H + 1)
HEAD_SCALE, TURNED_HEADS = torch.ones(D), torch.zeros(T, D, 6).mT

WRONG: list[tuple[str, str, tuple[Any, ...]]] = [
    ("rms_norm", "x", (HEADS, SCALE, 1e-6, False)),
    ("rms_norm", "x", (DOUBLE, SCALE, 1e-6, False)),
    ("rms_norm", "x", (TURNED, SCALE, 1e-6, False)),
    ("rms_norm", "weight", (ROWS, LONG, 1e-6, False)),
    ("rms_norm", "weight", (ROWS, SCALE.long(), 1e-6, False)),
    ("rms_norm", "weight", (ROWS, torch.ones(2 * H)[::2], 1e-6, False)),
    ("rms_norm", "eps", (ROWS, SCALE, float("nan"), False)),
    ("add_rms_norm", "residual", (ROWS, SHORT, SCALE, 1e-6, False)),
    ("add_rms_norm", "residual", (ROWS, HALVES, SCALE, 1e-6, False)),
    ("add_rms_norm", "residual", (ROWS, TURNED, SCALE, 1e-6, False)),
    ("add_rms_norm", "weight", (ROWS, ROWS, LONG, 1e-6, False)),
    ("add_rms_norm", "eps", (ROWS, ROWS, SCALE, -1.0, False)),
    ("swiglu", "gate_up", (ROWS, H)),
    ("swiglu", "gate_up", (HEADS, D // 2)),
    ("swiglu", "gate_up", (torch.zeros(T, 0), 0)),
    ("gated_rms_norm", "x", (ROWS, ROWS, SCALE, 1e-6)),
    ("gated_rms_norm", "z", (HEADS, HEADS[:, :5], HEAD_SCALE, 1e-6)),
    ("gated_rms_norm", "z", (HEADS, TURNED_HEADS, HEAD_SCALE, 1e-6)),
    ("gated_rms_norm", "weight", (HEADS, HEADS, SCALE, 1e-6)),
    ("sigmoid_gate", "x", (TURNED, ROWS)),
    ("sigmoid_gate", "x", (torch.zeros(H), ROWS)),
    ("sigmoid_gate", "gate", (HEADS, HEADS.flatten(1))),
    ("sigmoid_gate", "gate", (ROWS, ROWS.to("meta"))),
]


@pytest.mark.parametrize(
    ("name", "argument", "args"), WRONG, ids=[f"{n} {a} {i}" for i, (n, a, _) in enumerate(WRONG)]
)
def test_wrong_operands_are_refused(name: str, argument: str, args: tuple[Any, ...]) -> None:
    op: Callable[..., Any] = getattr(pointwise, name)
    with pytest.raises(KernelInputError, match=rf"^{argument} is .*must be"):
        op(*args)


def written() -> dict[str, Any]:
    """Valid arguments of norm_rope_write."""
    pool = torch.zeros(9, 2, D)
    return {
        "q": torch.zeros(2, 4, D),
        "k": torch.zeros(5, 2, D),
        "v": torch.zeros(5, 2, D),
        "q_weight": torch.ones(D),
        "k_weight": None,
        "eps": 1e-6,
        "plus_one": True,
        "cos": torch.ones(5, D // 4),
        "sin": torch.zeros(5, D // 4),
        "q_rows": torch.tensor([4, 0]),
        "k_pool": pool,
        "v_pool": pool.clone(),
        "slots": torch.tensor([8, 0, 1, 5, 3]),
    }


WRONG_WRITES: list[tuple[str, dict[str, Any]]] = [
    ("q", {"q": torch.zeros(2, 4 * D)}),
    ("q", {"q_rows": None}),
    ("k", {"k": torch.zeros(5, 2, D + 1)}),
    ("k", {"k": torch.zeros(5, 2, D).half()}),
    ("v", {"v": torch.zeros(4, 2, D)}),
    ("q_weight", {"q_weight": torch.ones(D + 1)}),
    ("k_weight", {"k_weight": torch.ones(1, D)}),
    ("eps", {"eps": float("inf")}),
    ("cos", {"cos": torch.ones(5, D)}),
    ("cos", {"cos": torch.ones(5, D // 4).half()}),
    ("cos", {"cos": torch.ones(())}),
    ("sin", {"sin": torch.ones(5, D // 2)}),
    ("q_rows", {"q_rows": torch.tensor([4, 0], dtype=torch.int32)}),
    ("q_rows", {"q_rows": torch.tensor([4, 0, 1])}),
    ("k_pool", {"k_pool": torch.zeros(9, 3, D)}),
    ("k_pool", {"k_pool": torch.zeros(9, 2, D, dtype=torch.long)}),
    ("v_pool", {"v_pool": torch.zeros(8, 2, D)}),
    ("v_pool", {"v_pool": torch.zeros(9, 2, 2 * D)[..., :D]}),
    ("slots", {"slots": torch.arange(4)}),
    ("slots", {"slots": torch.arange(10)[::2]}),
]


@pytest.mark.parametrize(
    ("argument", "wrong"), WRONG_WRITES, ids=[f"{a} {i}" for i, (a, _) in enumerate(WRONG_WRITES)]
)
def test_wrong_writes_are_refused(argument: str, wrong: dict[str, Any]) -> None:
    pointwise.norm_rope_write(*written().values())
    with pytest.raises(KernelInputError, match=rf"^{argument} is .*must be"):
        pointwise.norm_rope_write(*{**written(), **wrong}.values())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"q_rows": torch.tensor([0, 5])}, "^q_rows goes from 0 to 5; the rows of k are 0 to 4"),
        ({"slots": torch.tensor([0, 1, 2, 3, 9])}, "^slots goes from 0 to 9; .* are 0 to 8"),
        ({"slots": torch.tensor([0, 1, 2, 3, -2])}, "^slots goes from -2 to 3"),
        ({"slots": torch.tensor([0, 1, 2, 3, 3])}, "^slots names a slot twice"),
    ],
    ids=str,
)
def test_wrong_rows_and_slots_are_refused_under_the_switch(
    wrong: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_CHECK", "1")
    pointwise.norm_rope_write(*written().values())
    with pytest.raises(KernelInputError, match=words):
        pointwise.norm_rope_write(*{**written(), **wrong}.values())
