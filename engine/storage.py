"""`Storage`: pools that grow up to a budget of bytes, and who holds which slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from readoff.engine.config import ModelConfig
from readoff.engine.pools import KeptPools
from readoff.engine.slots import SlotAllocator, SpanAllocator

_FIRST_TOKENS = 1024
_FIRST_STATES = 8


@dataclass(frozen=True)
class Room:
    """Slots that were given out: the first slot of each span asked for, and state slots."""

    spans: tuple[int, ...]
    states: tuple[int, ...]


class Storage:
    """Slots for keys, values and states of one model, within `budget` bytes.

    Pools start small and grow when they must; `Room` is given out whole or not at all. Between
    passes what is held may be moved together (`rearrange`), which also shifts memory from one kind
    of slot to the other. `spare` slots for tokens lie behind all others and are never given out.
    """

    def __init__(
        self,
        config: ModelConfig,
        dtype: torch.dtype,
        device: torch.device,
        budget: int,
        spare: int = 0,
    ) -> None:
        self.budget, self._spare = budget, spare
        self.limit = budget  # less when the last attempt to grow met the end of memory
        full = config.layer_types.count("full_attention")
        linear = len(config.layer_types) - full
        width = dtype.itemsize
        self.token_bytes = full * 2 * config.num_kv_heads * config.head_dim * width
        channels = (
            2 * config.linear_num_key_heads * config.linear_key_head_dim
            + config.linear_num_value_heads * config.linear_value_head_dim
        )
        recurrent = (
            config.linear_num_value_heads
            * config.linear_key_head_dim
            * config.linear_value_head_dim
            * 4
        )
        tails = max(config.conv_kernel - 1, 0) * channels * width
        self.state_bytes = linear * (recurrent + tails)
        self.hybrid = linear > 0
        self.settled = False
        """Whether all of the budget was taken for good: what is moved or grown later costs whoever
        holds on to where the pools lie."""
        self.pools = KeptPools(config, spare, 1, dtype, device)
        self.tokens = SpanAllocator(0)
        self.states = SlotAllocator(1)

    @property
    def nbytes(self) -> int:
        """What the pools occupy now."""
        return self.pools.nbytes

    @property
    def used_bytes(self) -> int:
        """What is held of it, the zero state included."""
        return self.tokens.used * self.token_bytes + (self.states.used + 1) * self.state_bytes

    def size(self, tokens: int, states: int) -> int:
        """Bytes that so many slots take."""
        return tokens * self.token_bytes + states * self.state_bytes

    def fits(self, tokens: int, states: int) -> bool:
        """Whether there are bytes for so many slots more, however they lie."""
        return self.used_bytes + self.size(tokens, states) <= self.limit

    def has_slots(self, tokens: int, states: int) -> bool:
        """Whether so many slots of each kind are free, however they lie, as the pools are cut."""
        return tokens <= self.tokens.free and states <= self.states.free

    def allocate(self, spans: Sequence[int], states: int) -> Room | None:
        """Spans of these lengths, and state slots; None, and nothing given, where they don't fit
        as the pools lie now."""
        self.limit = self.budget
        if not self._reserve(sum(spans), states):
            return None
        starts: list[int] = []
        whole = self.tokens.allocate(sum(spans)) if spans else None
        if whole is not None:  # side by side: one long span for whoever sees them all
            for length in spans:
                starts.append(whole)
                whole += length
        else:
            for length in spans:
                start = self.tokens.allocate(length)
                if start is None:
                    for given, size in zip(starts, spans, strict=False):
                        self.tokens.release(given, size)
                    return None
                starts.append(start)
        slots = [self.states.allocate() for _ in range(states)]
        return Room(tuple(starts), tuple(slot for slot in slots if slot is not None))

    def reserve(self, tokens: int = 512) -> None:
        """Take all of the budget now, with a state for every so many `tokens`: the pools then stay
        where they are (`settled`). A device that has less gives less."""
        unit = self.size(tokens, int(self.hybrid))
        count = (self.budget - self.state_bytes) // unit
        while not self._grow(
            max(0, count * tokens - self.tokens.capacity),
            max(0, count + 1 - self.states.capacity) if self.hybrid else 0,
        ):
            count = count * 7 // 8
        self.settled = True

    def rearrange(
        self, spans: Sequence[tuple[int, int]], states: Sequence[int], tokens: int, more: int
    ) -> tuple[list[int], list[int]]:
        """Move what is held, `spans` (slot, length) and `states`, to the front of the pools.

        The pools are cut anew so that `tokens` and `more` states fit behind it; what the budget
        leaves is shared between both in proportion. Returns the new first slots, in order.
        """
        held = sum(length for _, length in spans)
        kv_slots, state_slots = self._capacities(held + tokens, len(states) + more)
        device = self.pools.device
        order = torch.cat(
            [torch.arange(start, start + n) for start, n in spans] or [torch.arange(0)]
        )
        self.pools.rearrange(
            order.to(device),
            kv_slots + self._spare,
            torch.tensor([0, *states], device=device),
            state_slots,
        )
        self.tokens.reset(kv_slots, held)
        self.states.reset(state_slots, len(states))
        starts, at = [], 0
        for _, length in spans:
            starts.append(at)
            at += length
        return starts, list(range(1, len(states) + 1))

    def reset(self) -> None:
        """Give everything back, whoever holds it; the pools are empty then."""
        device = self.pools.device
        nothing = torch.arange(0, device=device)
        self.pools.rearrange(
            nothing, self._spare, torch.zeros(1, dtype=torch.long, device=device), 1
        )
        self.tokens.reset(0, 0)
        self.states.reset(1, 0)

    def _capacities(self, tokens: int, states: int) -> tuple[int, int]:
        """Slots of both kinds for a need of so many: those there are, or else cut anew, with the
        rest of the budget shared out."""
        if tokens <= self.tokens.capacity and states < self.states.capacity:
            return self.tokens.capacity, self.states.capacity
        need = self.size(tokens, states + 1)
        share = max(1.0, min(2.0, self.limit / need)) if need else 1.0
        kv_slots = int(tokens * share)
        state_slots = int(states * share) + 1
        return max(kv_slots, tokens), state_slots

    def _reserve(self, tokens: int, states: int) -> bool:
        """Grow the pools, if need be and the budget allows, until so many slots are free."""
        short = tokens - self.tokens.free
        if short > 0 and not self._grow(short, 0):
            return False
        short = states - self.states.free
        return short <= 0 or self._grow(0, short)

    def _grow(self, tokens: int, states: int) -> bool:
        """At least so many slots more; twice what there was where the budget has room."""
        had = (self.tokens.capacity, self.states.capacity)
        wanted = [had[0] + tokens, had[1] + states]
        if self.size(*wanted) > self.budget:
            return False
        generous = list(wanted)
        if tokens:
            generous[0] = max(wanted[0], 2 * had[0], _FIRST_TOKENS)
        if states:
            generous[1] = max(wanted[1], 2 * had[1], _FIRST_STATES)
        chosen = generous if self.size(*generous) <= self.budget else wanted
        try:
            self.pools.grow(chosen[0] + self._spare, chosen[1])
        except Exception as error:
            if not out_of_memory(error):
                raise
            self.limit = self.size(*had)  # layers that have grown hold the same in their old slots
            return False
        self.tokens.grow(chosen[0])
        self.states.grow(chosen[1])
        return True


def out_of_memory(error: Exception) -> bool:
    """Whether an exception says that memory ran out, on a CPU or a GPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "not enough memory" in text
    )
