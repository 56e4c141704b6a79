"""ONNX Runtime's contrib operator GatedDeltaNet as a callable; needs onnxruntime and onnx."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

DOMAIN = "com.microsoft"
_INPUTS = ("query", "key", "value", "", "decay", "beta", "initial_state", "a_log", "dt_bias")
"""In the operator's order; "" is one left out."""


def onnx_delta_rule(
    x: tuple[torch.Tensor, ...],
) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """A run of the operator on q, k, v [T, H, D], a, b [T, H], a_log, dt_bias [H], all fp32.

    It starts from zeros and returns the outputs [T, H, D] and the final state [H, Dk, Dv]; the
    operator itself keeps states with the value dimension first. Norms and gates are its own. It
    has as many threads as torch, which stop spinning when a run ends: they'd steal time from
    whatever is timed next. Raises ImportError without the packages, and whatever ONNX Runtime
    raises where it lacks the operator.
    """
    onnxruntime = import_module("onnxruntime")  # optional, and without types

    _, heads, dim = x[0].shape
    values = dict(zip((n for n in _INPUTS if n and n != "initial_state"), x, strict=True))
    values["initial_state"] = torch.zeros(1, heads, dim, dim)
    feeds = {name: value.contiguous().numpy() for name, value in values.items()}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(
        _model({name: list(value.shape) for name, value in feeds.items()}),
        options,
        providers=["CPUExecutionProvider"],
    )

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        out, state = session.run(None, feeds)
        return torch.from_numpy(out), torch.from_numpy(state)[0].mT

    return run


def _model(shapes: dict[str, list[int]]) -> bytes:
    onnx = import_module("onnx")
    helper = import_module("onnx.helper")

    def told(name: str, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    node = helper.make_node(
        "GatedDeltaNet",
        _INPUTS,
        ["output", "final_state"],
        domain=DOMAIN,
        gate_activation="softplus",
        beta_activation="sigmoid",
        qk_l2_norm=1,
    )
    outputs = [told("output", shapes["value"]), told("final_state", shapes["initial_state"])]
    graph = helper.make_graph(
        [node], "delta_rule", [told(name, shape) for name, shape in shapes.items()], outputs
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    serialised: bytes = model.SerializeToString()
    return serialised
