"""The gated delta rule token by token: slow, and the oracle for everything else.

In fp32, or in fp64 where the operands are: over some hundred equal keys the recurrence itself loses
2e-5 in fp32, fifty times more than the chunked form does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


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
    heads, dim = v.shape[1], q.shape[2]
    wide = torch.promote_types(v.dtype, torch.float32)
    repeat = heads // q.shape[1]
    q32 = _unit(q).repeat_interleave(repeat, dim=1) * dim**-0.5  # [T, Hv, Dk]
    k32 = _unit(k).repeat_interleave(repeat, dim=1)
    v32 = v.to(wide)
    alpha = (-a_log.to(wide).exp() * F.softplus(a.to(wide) + dt_bias.to(wide))).exp()  # [T, Hv]
    beta = b.to(wide).sigmoid()
    out = torch.zeros(v.shape, dtype=wide, device=v.device)
    for s in seg_depth.argsort(stable=True).tolist():
        state = states[int(parent_state[s])].clone()  # [Hv, Dk, Dv]
        for t in range(int(seg_start[s]), int(seg_start[s] + seg_length[s])):
            state = state * alpha[t, :, None, None]
            known = torch.einsum("hkv,hk->hv", state, k32[t])
            delta = (v32[t] - known) * beta[t, :, None]
            state = state + k32[t, :, :, None] * delta[:, None, :]
            out[t] = torch.einsum("hkv,hk->hv", state, q32[t])
        if int(state_out[s]) >= 0:
            states[int(state_out[s])] = state
    return out.to(q.dtype)


def _unit(x: torch.Tensor) -> torch.Tensor:
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
