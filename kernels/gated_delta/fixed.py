"""The delta rule segment by segment: its bits don't depend on the other segments."""

from __future__ import annotations

import torch

from readoff.kernels.gated_delta import cpu


def gated_delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    states: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_wave: torch.Tensor | None = None,
    waves: int | None = None,
) -> torch.Tensor:
    """See the contract in the package's docstring."""
    out = torch.empty(v.shape, dtype=q.dtype, device=q.device)
    zero = seg_start.new_zeros(1)
    for s in seg_depth.argsort(stable=True).tolist():
        rows = slice(int(seg_start[s]), int(seg_start[s]) + int(seg_length[s]))
        one = slice(s, s + 1)
        out[rows] = cpu.gated_delta(
            q[rows].contiguous(),
            k[rows].contiguous(),
            v[rows].contiguous(),
            a[rows].contiguous(),
            b[rows].contiguous(),
            a_log,
            dt_bias,
            states,
            zero,
            seg_length[one],
            zero,
            parent_state[one],
            state_out[one],
        )
    return out
