"""Slots of the pools: contiguous spans for keys and values, single ones for states."""

from __future__ import annotations

from bisect import bisect_left, insort


class SpanAllocator:
    """Hands out contiguous spans of `capacity` slots, the tightest gap first."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self._starts: list[int] = [0] if capacity else []  # of the gaps, ascending
        self._gaps: dict[int, int] = {0: capacity} if capacity else {}

    @property
    def free(self) -> int:
        """Slots that nobody holds, in however many gaps."""
        return sum(self._gaps.values())

    @property
    def used(self) -> int:
        """Slots that are held."""
        return self.capacity - self.free

    def allocate(self, length: int) -> int | None:
        """The first slot of a span of `length` > 0, or None where no gap is that long."""
        assert length > 0
        fitting = [(size, start) for start, size in self._gaps.items() if size >= length]
        if not fitting:
            return None
        size, start = min(fitting)
        self._remove(start)
        if size > length:
            self._add(start + length, size - length)
        return start

    def release(self, start: int, length: int) -> None:
        """Give a span back; neighbouring gaps become one."""
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == start + length:
            length += self._remove(start + length)
        if at > 0:
            before = self._starts[at - 1]
            if before + self._gaps[before] == start:
                length += self._remove(before)
                start = before
        self._add(start, length)

    def reset(self, capacity: int, used: int) -> None:
        """Start anew: the first `used` of `capacity` slots are held, the rest is one gap."""
        assert 0 <= used <= capacity
        self.capacity = capacity
        self._starts = [used] if used < capacity else []
        self._gaps = {used: capacity - used} if used < capacity else {}

    def grow(self, capacity: int) -> None:
        """More slots at the end."""
        added, end = capacity - self.capacity, self.capacity
        assert added >= 0
        self.capacity = capacity
        if added:
            self.release(end, added)

    def gaps(self) -> list[tuple[int, int]]:
        """(first slot, length) of every gap, in order."""
        return [(start, self._gaps[start]) for start in self._starts]

    def _add(self, start: int, length: int) -> None:
        insort(self._starts, start)
        self._gaps[start] = length

    def _remove(self, start: int) -> int:
        del self._starts[bisect_left(self._starts, start)]
        return self._gaps.pop(start)


class SlotAllocator:
    """Hands out single slots 1 .. capacity - 1; slot 0 is never given out."""

    def __init__(self, capacity: int = 1) -> None:
        self.capacity = capacity
        self._free = list(range(capacity - 1, 0, -1))

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Slots that are held, slot 0 not counted."""
        return self.capacity - 1 - len(self._free)

    def allocate(self) -> int | None:
        """A slot, or None."""
        return self._free.pop() if self._free else None

    def release(self, slot: int) -> None:
        """Give a slot back."""
        assert 0 < slot < self.capacity
        self._free.append(slot)

    def reset(self, capacity: int, used: int) -> None:
        """Start anew: slots 1 .. used are held."""
        assert 0 <= used < capacity
        self.capacity = capacity
        self._free = list(range(capacity - 1, used, -1))

    def grow(self, capacity: int) -> None:
        """More slots at the end."""
        assert capacity >= self.capacity
        self._free[:0] = range(capacity - 1, self.capacity - 1, -1)
        self.capacity = capacity
