"""`GatedDeltaNet`: the recurrent layer of Qwen3.5 over the forest."""

from __future__ import annotations

import torch
from torch import nn

from readoff.engine.backbones.linear import Linear
from readoff.engine.batch import Batch
from readoff.engine.config import ModelConfig
from readoff.engine.pools import States
from readoff.engine.weights import Weights
from readoff.kernels.causal_conv import causal_conv
from readoff.kernels.gated_delta import gated_delta
from readoff.kernels.pointwise import gated_rms_norm


class GatedDeltaNet(nn.Module):
    """One product for q, k, v, z, b and a; a short convolution; the delta rule; a gated norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.key_heads, self.value_heads = (
            config.linear_num_key_heads,
            config.linear_num_value_heads,
        )
        self.key_dim, self.value_dim = config.linear_key_head_dim, config.linear_value_head_dim
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        self.mixed = (keys, keys, values)
        channels, heads = 2 * keys + values, self.value_heads
        self.eps = config.rms_norm_eps
        self.project = Linear(config.hidden_size, [channels, values, heads, heads])
        self.conv = _parameter(channels, config.conv_kernel)
        self.a_log, self.dt_bias = _parameter(heads), _parameter(heads)
        self.norm = _parameter(self.value_dim)
        self.out = Linear(values, [config.hidden_size])

    def forward(self, x: torch.Tensor, batch: Batch, states: States) -> torch.Tensor:
        """x: [T, H] normed. Returns [T, H]."""
        mixed, z, b, a = self.project(x).split(self.project.sizes, dim=-1)
        segments = (
            batch.seg_start,
            batch.seg_length,
            batch.seg_depth,
            batch.parent_state,
            batch.state_out,
        )
        mixed = causal_conv(mixed, self.conv, states.tails, *segments, batch.seg_parent)
        q, k, v = mixed.split(self.mixed, dim=-1)
        y = gated_delta(
            q.unflatten(-1, (self.key_heads, self.key_dim)),
            k.unflatten(-1, (self.key_heads, self.key_dim)),
            v.unflatten(-1, (self.value_heads, self.value_dim)),
            a,
            b,
            self.a_log,
            self.dt_bias,
            states.recurrent,
            *segments,
            batch.seg_wave,
            batch.waves,
        )
        z = z.unflatten(-1, (self.value_heads, self.value_dim))
        y = gated_rms_norm(y, z, self.norm, self.eps)
        result: torch.Tensor = self.out(y.flatten(1))
        return result

    def load(self, prefix: str, weights: Weights) -> None:
        """Fill from `prefix`.in_proj_qkv and so on."""
        self.project.load([f"{prefix}.in_proj_{name}" for name in ("qkv", "z", "b", "a")], weights)
        weights.copy_into(f"{prefix}.conv1d.weight", self.conv.data[:, None])
        weights.copy_into(f"{prefix}.A_log", self.a_log)
        weights.copy_into(f"{prefix}.dt_bias", self.dt_bias)
        weights.copy_into(f"{prefix}.norm.weight", self.norm)
        self.out.load([f"{prefix}.out_proj"], weights)


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape), requires_grad=False)
