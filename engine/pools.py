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
        return _keys(self._config, self._kv_slots, self._dtype, self._device)

    def states(self, layer: int) -> States:
        """Fresh states and tails; only slot 0 is set."""
        return _states(self._config, self._state_slots, self._dtype, self._device)


class KeptPools:
    """Pools that outlive a pass: later tokens continue what earlier passes wrote.

    Whoever builds the batches gives out the slots. A slot may be written again once nobody reads
    its old content; a segment never writes the state slot that it starts from.
    """

    def __init__(
        self,
        config: ModelConfig,
        kv_slots: int,
        state_slots: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.kv_slots, self.state_slots = kv_slots, state_slots
        self._kv: dict[int, KV] = {}
        self._states: dict[int, States] = {}
        for layer, kind in enumerate(config.layer_types):
            if kind == "full_attention":
                self._kv[layer] = _keys(config, kv_slots, dtype, device)
            else:
                self._states[layer] = _states(config, state_slots, dtype, device)

    def kv(self, layer: int) -> KV:
        """The same keys and values at every call."""
        return self._kv[layer]

    def states(self, layer: int) -> States:
        """The same states and tails at every call."""
        return self._states[layer]

    @property
    def nbytes(self) -> int:
        """What the pools hold, in bytes."""
        keys = [t for kv in self._kv.values() for t in (kv.k, kv.v)]
        kept = [t for s in self._states.values() for t in (s.recurrent, s.tails)]
        return sum(t.nbytes for t in keys + kept)


def _keys(config: ModelConfig, slots: int, dtype: torch.dtype, device: torch.device) -> KV:
    shape = (slots, config.num_kv_heads, config.head_dim)
    k = torch.empty(shape, dtype=dtype, device=device)
    return KV(k, torch.empty_like(k))


def _states(config: ModelConfig, slots: int, dtype: torch.dtype, device: torch.device) -> States:
    heads, key = config.linear_num_value_heads, config.linear_key_head_dim
    value = config.linear_value_head_dim
    channels = 2 * config.linear_num_key_heads * key + heads * value
    recurrent = torch.empty((slots, heads, key, value), dtype=torch.float32, device=device)
    tails = torch.empty((slots, config.conv_kernel - 1, channels), dtype=dtype, device=device)
    recurrent[0] = 0.0
    tails[0] = 0.0
    return States(recurrent, tails)
