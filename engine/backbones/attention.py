"""`Attention`: grouped-query attention over the forest, as Qwen2, Qwen3 and Qwen3.5 have it."""

from __future__ import annotations

import torch
from torch import nn

from readoff.engine.backbones.linear import Linear
from readoff.engine.backbones.traits import Traits
from readoff.engine.batch import Batch
from readoff.engine.config import ModelConfig
from readoff.engine.pools import KV
from readoff.engine.weights import Weights
from readoff.kernels.pointwise import norm_rope_write, sigmoid_gate
from readoff.kernels.tree_attention import tree_attention


class Attention(nn.Module):
    """Query, key and value in one product; in the last layer the query apart, for read rows only.

    Qwen3.5's query projection gives each head D query and D gate features, in this order.
    """

    def __init__(self, config: ModelConfig, traits: Traits, last: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = config.num_heads, config.num_kv_heads, config.head_dim
        self.eps, self.traits = config.rms_norm_eps, traits
        query = self.heads * self.dim * (2 if traits.output_gate else 1)
        key = self.kv_heads * self.dim
        hidden, bias = config.hidden_size, config.qkv_bias
        self.last = last
        if last:
            self.q = Linear(hidden, [query], bias)
            self.kv = Linear(hidden, [key, key], bias)
        else:
            self.qkv = Linear(hidden, [query, key, key], bias)
        self.o = Linear(self.heads * self.dim, [hidden])
        self.q_norm = _norm(self.dim) if traits.qk_norm else None
        self.k_norm = _norm(self.dim) if traits.qk_norm else None

    def forward(
        self, x: torch.Tensor, batch: Batch, cos: torch.Tensor, sin: torch.Tensor, kv: KV
    ) -> torch.Tensor:
        """x: [T, H] normed; cos, sin: [T, R/2] fp32. Returns [T, H], in the last layer [N, H]."""
        if self.last:
            rows, runs = batch.rows, batch.read_runs
            query = self.q(x[rows])
            key, value = self.kv(x).split(self.kv.sizes, dim=-1)
        else:
            rows, runs = None, batch.runs
            query, key, value = self.qkv(x).split(self.qkv.sizes, dim=-1)
        gate = None
        query = query.unflatten(-1, (self.heads, -1))
        if self.traits.output_gate:
            query, gate = query.split(self.dim, dim=-1)
        q = norm_rope_write(
            query,
            key.unflatten(-1, (self.kv_heads, self.dim)),
            value.unflatten(-1, (self.kv_heads, self.dim)),
            self.q_norm,
            self.k_norm,
            self.eps,
            self.traits.plus_one,
            cos,
            sin,
            rows,
            kv.k,
            kv.v,
            batch.slots,
        )
        out = tree_attention(
            q,
            kv.k,
            kv.v,
            runs.q_start,
            runs.q_length,
            runs.kv_start,
            runs.kv_length,
            runs.chain_offsets,
            runs.chain_spans,
            self.dim**-0.5,
        )
        if gate is not None:
            out = sigmoid_gate(out, gate)
        result: torch.Tensor = self.o(out.flatten(1))
        return result

    def load(self, prefix: str, weights: Weights) -> None:
        """Fill from `prefix`.q_proj and so on."""
        q, k, v = (f"{prefix}.{name}_proj" for name in "qkv")
        if self.last:
            self.q.load([q], weights)
            self.kv.load([k, v], weights)
        else:
            self.qkv.load([q, k, v], weights)
        self.o.load([f"{prefix}.o_proj"], weights)
        if self.q_norm is not None and self.k_norm is not None:
            weights.copy_into(f"{prefix}.q_norm.weight", self.q_norm)
            weights.copy_into(f"{prefix}.k_norm.weight", self.k_norm)


def _norm(size: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(size), requires_grad=False)
