"""Attention of packed query runs over a forest: each run sees its ancestors and, causally, itself.

Contract of every implementation:
    q: [M, query_heads, head_dim], the packed queries.
    k_pool, v_pool: [slots, kv_heads, head_dim], written before the call.
    q_start, q_length: [S] int64, the rows of q that run s holds; runs cover q without overlap.
    kv_start, kv_length: [S] int64, the slots of the run's own keys. The queries are the *last*
        q_length of the kv_length own tokens: query i sees own keys 0 .. kv_length - q_length + i.
        A run of q_length 0 does nothing; what comes out for rows of no run is undefined.
    chain_offsets: [S + 1] int64 and chain_spans: [C, 2] int64 (slot, length): the spans of run s
        are chain_spans[chain_offsets[s]:chain_offsets[s + 1]], its ancestors from the root down.
    scale: factor on q·k. query_heads is a multiple of kv_heads (grouped queries).
    q and the pools share a dtype; their last dimension is dense, the others have any strides.
    Returns [M, query_heads, head_dim] in q's dtype.
"""

from __future__ import annotations

import torch

from readoff.kernels import triton_support
from readoff.kernels.dispatch import Implementation, Op, always, by_name_on_cpu, on_cpu
from readoff.kernels.tree_attention import fixed, gradient
from readoff.kernels.tree_attention.checks import check, check_values
from readoff.kernels.tree_attention.reference import tree_attention as reference

__all__ = ["tree_attention"]

_T = torch.Tensor

tree_attention: Op[[_T, _T, _T, _T, _T, _T, _T, _T, _T, float], _T] = Op(
    "tree_attention",
    [
        triton_support.implementation(
            "tree_attention.triton", "tree_attention", "one launch, online softmax over the chain"
        ),
        Implementation(
            "cpu", gradient.tree_attention, on_cpu("blocked matrix products, no mask tensor")
        ),
        Implementation("torch", gradient.tree_attention, always("blocked matrix products")),
        by_name_on_cpu(fixed.tree_attention, "run by run"),
        Implementation("reference", reference, always("fp32")),
    ],
    check,
    check_values,
)
