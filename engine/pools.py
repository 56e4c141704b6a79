"""Where a forward pass keeps what later tokens need: keys, values, states, convolution tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from readoff.engine.config import ModelConfig


@dataclass(frozen=True)
class KV:
    """One full-attention layer: keys and values, [slots, kv_heads, head_dim] each."""

    k: torch.Tensor
    v: torch.Tensor


@dataclass(frozen=True)
class States:
    """One hybrid layer: recurrent states [slots, value_heads, Dk, Dv] fp32, and convolution tails
    [slots, conv_kernel - 1, channels]. Slot 0 is zeros and never written."""

    recurrent: torch.Tensor
    tails: torch.Tensor


class Pools(Protocol):
    """Storage by layer. Slots are written once, before they are read."""

    def kv(self, layer: int) -> KV:
        """The pools of a full-attention layer."""
        ...

    def states(self, layer: int) -> States:
        """The pools of a hybrid layer."""
        ...


class TransientPools:
    """Pools that live as long as the layer that uses them: for one cold pass, nothing kept.

    Each call makes fresh tensors, so a pass holds the keys of one layer at a time, and gradients
    flow through them.
    """

    def __init__(
        self,
        config: ModelConfig,
        kv_slots: int,
        state_slots: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._config = config
        self._kv_slots, self._state_slots = kv_slots, state_slots
        self._dtype, self._device = dtype, device

    def kv(self, layer: int) -> KV:
        """Fresh, unwritten keys and values."""
        c = self._config
        shape = (self._kv_slots, c.num_kv_heads, c.head_dim)
        k = torch.empty(shape, dtype=self._dtype, device=self._device)
        return KV(k, torch.empty_like(k))

    def states(self, layer: int) -> States:
        """Fresh states and tails; only slot 0 is set."""
        c = self._config
        heads, key, value = c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
        channels = 2 * c.linear_num_key_heads * key + heads * value
        slots, device = self._state_slots, self._device
        recurrent = torch.empty((slots, heads, key, value), dtype=torch.float32, device=device)
        tails = torch.empty((slots, c.conv_kernel - 1, channels), dtype=self._dtype, device=device)
        recurrent[0] = 0.0
        tails[0] = 0.0
        return States(recurrent, tails)
