"""The convolution segment by segment: its bits don't depend on the other segments."""

from __future__ import annotations

import torch

from readoff.kernels.causal_conv import cpu


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
    """See the contract in the package's docstring."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    zero = seg_start.new_zeros(1)
    for s in seg_depth.argsort(stable=True).tolist():
        start, length = int(seg_start[s]), int(seg_length[s])
        one = slice(s, s + 1)
        own = x[start : start + length].contiguous()
        out[start : start + length] = cpu.causal_conv(
            own, weight, tails, zero, seg_length[one], zero, parent_state[one], state_out[one]
        )
    return out
