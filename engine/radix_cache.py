"""`RadixCache`: prefixes shared token by token, dropped by what they are worth.

What a node is worth is the arithmetic that it saves for each byte that it holds. Its priority is
that plus a clock, which is set to the priority of whatever was dropped last (GreedyDual-Size, Cao
and Irani 1997): between nodes of equal worth the least recently used goes first, and no node stays
for ever because it was dear once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count

from readoff.engine.prefix_cache import Ids, Node, PrefixCache
from readoff.engine.storage import Room, Storage

SHORTEST_RUN = 16
"""Two pieces that begin with fewer equal tokens share nothing: a segment has its own price."""

_SLACK = 8
"""Compaction frees one part in so many of the budget, so that the next one isn't soon."""


class RadixCache(PrefixCache):
    """A radix tree over token ids.

    `exact`: pieces are shared whole or not at all, so that every answer is computed from the same
    segments whatever the cache holds. `flops(first, length)` is the arithmetic of tokens at these
    positions. `spacing`: new nodes end after at most so many tokens (a multiple of 64), so that
    hybrids have snapshots inside long states.
    """

    def __init__(
        self,
        storage: Storage,
        flops: Callable[[int, int], float] = lambda first, length: float(length),
        *,
        exact: bool = False,
        spacing: int | None = None,
    ) -> None:
        super().__init__(storage)
        assert spacing is None or spacing % 64 == 0
        self.exact = exact
        self._spacing = spacing if storage.hybrid and not exact else None
        self._flops = flops
        self._clock = 0.0
        self._stamps = count(1)
        self._heap: list[tuple[float, int, Node]] = []
        self._tidy_at = 1024

    def match(self, root: Node, pieces: Sequence[Ids]) -> tuple[int, Node]:
        """See `PrefixCache`."""
        tokens, node, inside = 0, root, 0  # inside: ids of `node` that matched
        for ids in pieces:
            at = 0
            while at < len(ids):
                rest = ids[at:] if at else ids
                below = node.ids[inside:]
                if not below:
                    child = self._child(node, rest)
                    if child is None:
                        return tokens + at, node
                    node, inside, below = child, 0, child.ids
                elif not self._leads(below, rest):  # `extend` would cut here
                    return tokens + at, node
                common = _common(below, rest)
                inside, at = inside + common, at + common
                if common < len(below) and at < len(ids):
                    return tokens + at, node
            tokens += len(ids)
        return tokens, node

    def extend(self, node: Node, ids: Ids) -> Node:
        """See `PrefixCache`."""
        at = 0
        while at < len(ids):
            rest = ids[at:] if at else ids
            child = self._child(node, rest)
            if child is None:
                return self._spaced(node, rest)
            common = _common(child.ids, rest)
            node = child if common == len(child.ids) else self._cut(child, common)
            at += common
        return node

    def _child(self, node: Node, rest: Ids) -> Node | None:
        """The child in which a piece that goes on with `rest` may go on."""
        child = node.children.get(self._key(rest))
        if child is None and node.children and not self.exact:
            for length in range(min(len(rest), SHORTEST_RUN) - 1, 0, -1):
                child = node.children.get(self._key(rest[:length]))
                if child is not None:
                    return child  # a short one, all of which `rest` begins with
        return child

    def _leads(self, below: Ids, rest: Ids) -> bool:
        """Whether `_child` would find an only child with the ids `below`."""
        if self._key(below) == self._key(rest):
            return True
        short = len(below) < SHORTEST_RUN and not self.exact
        return short and rest[: len(below)] == below

    def _spaced(self, node: Node, ids: Ids) -> Node:
        while self._spacing is not None and len(ids) > self._spacing:
            node, ids = self._new(node, ids[: self._spacing]), ids[self._spacing :]
        return self._new(node, ids)

    def make_room(self, spans: Sequence[int], states: int) -> Room | None:
        """See `PrefixCache`."""
        tokens, settled = sum(spans), self.storage.settled
        if not settled or self.storage.has_slots(tokens, states):
            room = self.storage.allocate(spans, states)
            if room is not None:
                return room
        if not self._could_fit(tokens, states):
            return None
        while not self.storage.fits(tokens, states):
            if not self._evict():
                return None
        # Captured passes know where the pools lie: rather forget some more than move those.
        while settled and not self.storage.has_slots(tokens, states) and self._evict():
            pass
        room = self.storage.allocate(spans, states)
        if room is None:
            limit = self.storage.limit
            need = self.storage.size(tokens, states) + limit // _SLACK
            while self.storage.used_bytes + need > limit and self._evict():
                pass
            self._rearrange(tokens, states)
            room = self.storage.allocate(spans, states)
        return room

    def touch(self, node: Node) -> None:
        """See `PrefixCache`."""
        node.priority = self._clock + self._worth(node)
        node.stamp = next(self._stamps)
        heapq.heappush(self._heap, (node.priority, node.stamp, node))
        if len(self._heap) > self._tidy_at:
            self._tidy()

    def _worth(self, node: Node) -> float:
        """Arithmetic saved by a byte. A snapshot saves all tokens since the one before it."""
        if not self.storage.hybrid:
            return self._flops(node.first, len(node.ids)) / self.storage.size(len(node.ids), 0)
        if node.state < 0:
            return 0.0
        first = node.first
        above = node.parent
        while above is not None and above.parent is not None and above.state < 0:
            first, above = above.first, above.parent
        held = self.storage.size(0 if node.children else len(node.ids), 1)
        return self._flops(first, node.end - first) / held

    def _evict(self) -> bool:
        """Drop the cheapest node, or the cheapest snapshot of one with children."""
        while self._heap:
            priority, stamp, node = heapq.heappop(self._heap)
            if node.stamp != stamp or not node.ready or node.pins:
                continue  # used since, dropped, or held: `unpin` will bring it back
            if node.children:
                if node.state < 0 or not self.storage.hybrid:
                    continue  # comes back when its last child goes
                self.drop_state(node)
            else:
                parent = node.parent
                self._drop(node)
                if parent is not None and parent.parent is not None and not parent.children:
                    self._back(parent)
            self.counters.evictions += 1
            self._clock = max(self._clock, priority)
            return True
        return False

    def _back(self, node: Node) -> None:
        """A node that lost its last child may be dropped from now on, at its old priority; in a
        hybrid without a snapshot it is worth nothing any more."""
        if self.storage.hybrid and node.state < 0:
            node.priority = min(node.priority, self._clock)
        node.stamp = next(self._stamps)
        heapq.heappush(self._heap, (node.priority, node.stamp, node))

    def _tidy(self) -> None:
        """Throw out entries that later ones replaced."""
        self._heap = [e for e in self._heap if e[2].stamp == e[1] and e[2].ready]
        heapq.heapify(self._heap)
        self._tidy_at = 1024 + 2 * len(self._heap)

    def _cut(self, node: Node, length: int) -> Node:
        """Cut `node` after `length` tokens. It stays the lower part; returns the upper one."""
        parent = node.parent
        assert parent is not None
        assert 0 < length < len(node.ids)
        self._unlink(node)
        upper = Node(node.ids[:length], parent)
        parent.children[self._key(upper.ids)] = upper
        node.ids, node.parent, node.first = node.ids[length:], upper, node.first + length
        upper.children[self._key(node.ids)] = node
        if node.ready:
            upper.ready, upper.kv, node.kv = True, node.kv, node.kv + length
            upper.priority = node.priority
        else:
            self.pending[upper] = None
        return upper

    def _key(self, ids: Ids) -> Hashable:
        return ids if self.exact or len(ids) < SHORTEST_RUN else ids[:SHORTEST_RUN]


def _common(one: Ids, other: Ids) -> int:
    """How many leading ids are equal."""
    if one is other or one == other:
        return len(one)
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    low, high = 0, shorter  # equal up to low, different somewhere before high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
