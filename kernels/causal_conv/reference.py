"""Naive fp32 causal convolution: segment by segment, tap by tap."""

from __future__ import annotations

import torch


def causal_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    tails: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_parent: torch.Tensor | None = None,
) -> torch.Tensor:
    """See the contract in the package's docstring; `seg_parent` isn't needed."""
    taps = weight.shape[1]
    out = torch.zeros_like(x)
    for s in seg_depth.argsort(stable=True).tolist():
        rows = slice(int(seg_start[s]), int(seg_start[s] + seg_length[s]))
        past = torch.cat([tails[int(parent_state[s])].to(x.dtype), x[rows]])
        length = rows.stop - rows.start
        y = sum(past[j : j + length].float() * weight[:, j].float() for j in range(taps))
        assert isinstance(y, torch.Tensor)
        out[rows] = (y * torch.sigmoid(y)).to(x.dtype)
        if int(state_out[s]) >= 0:
            tails[int(state_out[s])] = past[length:]
    return out
