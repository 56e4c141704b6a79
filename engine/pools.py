"""Where a forward pass keeps what later tokens need: keys, values, states, convolution tails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
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
        self.device = device
        self.generation = 0
        self.config, self._dtype = config, dtype
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

    def grow(self, kv_slots: int, state_slots: int) -> None:
        """More slots; what is in the old ones stays where it is. Layer by layer, so that no more
        than one layer is held twice."""
        keys = torch.arange(self.kv_slots, device=self.device)
        states = torch.arange(self.state_slots, device=self.device)
        self.rearrange(keys, kv_slots, states, state_slots)

    def rearrange(
        self, kv: torch.Tensor, kv_slots: int, states: torch.Tensor, state_slots: int
    ) -> None:
        """Slot i takes what was in slot kv[i] or states[i] (both int64; states[0] is 0), and there
        are so many slots from now on. `generation` counts the times that tensors were replaced."""
        if (kv_slots, state_slots) == (self.kv_slots, self.state_slots):
            for tensor in self._tensors(self._kv):
                tensor[: len(kv)] = tensor[kv]
            for tensor in self._tensors(self._states):
                tensor[: len(states)] = tensor[states]
            return
        self.generation += 1  # before the first: memory may run out between two layers
        for layer, old in self._kv.items():
            keys = _keys(self.config, kv_slots, self._dtype, self.device)
            torch.index_select(old.k, 0, kv, out=keys.k[: len(kv)])
            torch.index_select(old.v, 0, kv, out=keys.v[: len(kv)])
            self._kv[layer] = keys
        for layer, before in self._states.items():
            kept = _states(self.config, state_slots, self._dtype, self.device)
            torch.index_select(before.recurrent, 0, states, out=kept.recurrent[: len(states)])
            torch.index_select(before.tails, 0, states, out=kept.tails[: len(states)])
            self._states[layer] = kept
        self.kv_slots, self.state_slots = kv_slots, state_slots

    def free(self) -> None:
        """Let go of the memory; nothing may use the pools any more."""
        self.generation += 1
        self._kv.clear()
        self._states.clear()

    @property
    def nbytes(self) -> int:
        """What the pools hold, in bytes."""
        return sum(t.nbytes for t in self._tensors(self._kv) + self._tensors(self._states))

    @staticmethod
    def _tensors(layers: Mapping[int, KV] | Mapping[int, States]) -> list[torch.Tensor]:
        return [getattr(held, f.name) for held in layers.values() for f in fields(held)]


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
