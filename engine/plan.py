"""`Plan`: prompts that go through one pass, and the `Batch` of what isn't cached of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readoff.engine.batch import Batch
from readoff.engine.line import Line as Line
from readoff.engine.packing import Placed, Reading, Spans, pack
from readoff.engine.prefix_cache import Ids, Node, PrefixCache

GRID = 64
"""Cuts inside a piece fall on multiples of the delta rule's chunk, where they can."""

MANY = 1 << 30
"""No limit."""


@dataclass(eq=False)
class _Segment:
    """Tokens that the pass computes below `above`: of a pending node, of a leaf (no node), or
    once more of a ready node that has no snapshot (`again`). `goes_on`: others may start from it.
    """

    ids: Ids
    above: Node
    node: Node | None = None
    again: bool = False
    parent: _Segment | None = None
    goes_on: bool = False
    kv: int = -1
    state: int = -1


class Plan:
    """What one pass computes. Prompts are added, `close` finds slots, `batch` makes the tensors;
    then `commit` hands what was computed to the cache, or `abort` leaves it as it was."""

    def __init__(self, cache: PrefixCache) -> None:
        self.cache = cache
        self.tokens = 0
        self.reads: list[Line] = []
        self._read_from: list[tuple[Node, Ids]] = []
        self._leaves: dict[tuple[Node, Ids], None] = {}
        self._bases: dict[Node, bool] = {}  # whether anyone but a resumed prompt starts there
        self._pinned: list[Node] = []
        self._counted: set[Node] = set()
        self._hits: list[bool] = []
        self._order: list[_Segment] = []
        self._segment_of: dict[Node | tuple[Node, Ids], _Segment] = {}

    def cost(self, root: Node, line: Line) -> int:
        """Tokens that would be computed because of `line`."""
        return line.shared - self._start(root, line.pieces) + len(line.leaf)

    def pieces(self, root: Node, line: Line) -> int:
        """How many shared pieces of `line` would be computed because of it, in part or whole."""
        known, at, count = self._start(root, line.pieces), 0, 0
        for ids in line.pieces:
            at += len(ids)
            count += at > known
        return count

    def add(self, root: Node, line: Line, resumed: bool = False) -> int:
        """Add a prompt; if it has a leaf, the next row of the readout is its. Returns the tokens
        that are computed because of it. `resumed`: earlier passes computed parts of it."""
        before = self.tokens
        node = self._extend(root, line.pieces, resumed)
        if line.pieces:
            self._hits.append(node.ready and not resumed)
        if line.leaf:
            key = (node, line.leaf)
            if key not in self._leaves:
                self._leaves[key] = None
                self.tokens += len(line.leaf)
                self._base(node, resumed)
            self.reads.append(line)
            self._read_from.append(key)
        return self.tokens - before

    def add_part(
        self,
        root: Node,
        line: Line,
        tokens: int,
        may_cut: bool = True,
        resumed: bool = False,
        most: int = MANY,
    ) -> tuple[Node, int]:
        """Add about the next `tokens` of a prompt's shared pieces, of `most` pieces at most, and
        nothing to read.

        A piece is cut on the grid if it `may_cut`, else at least the next piece goes in whole.
        Returns the node where the part ends and the tokens that are computed; nobody pins the node
        but the caller, who must do so as soon as the pass was committed.
        """
        before = self.tokens
        known = self._start(root, line.pieces)
        end, at, cut = known + tokens, 0, False
        pieces: list[Ids] = []
        for ids in line.pieces:
            if at + len(ids) > known:
                if most == 0:
                    break
                most -= 1
            whole = at + len(ids) <= end or (not may_cut and at <= known)
            fitting = len(ids) if whole else max(0, end - at) // GRID * GRID * may_cut
            if whole:
                pieces.append(ids)
            elif fitting and at + fitting > known:
                pieces.append(ids[:fitting])
                cut = True
            if not whole:
                break
            at += len(ids)
        node = self._extend(root, pieces, resumed)
        if node.ready:
            self._base(node, resumed)  # a hybrid needs a snapshot there
        node.cut = node.cut or cut
        return node, self.tokens - before

    def close(self) -> bool:
        """Find slots for everything. False where there is no room: then only `abort` is left."""
        self._order = self._depth_first(self._make())
        stateful = [s for s in self._order if s.goes_on] if self.cache.storage.hybrid else []
        room = self.cache.make_room([len(s.ids) for s in self._order], len(stateful))
        if room is None:
            self._order = []
            return False
        for segment, start in zip(self._order, room.spans, strict=True):
            segment.kv = start
        for segment, slot in zip(stateful, room.states, strict=True):
            segment.state = slot
        return True

    def batch(self) -> Batch:
        """The pass's tensors on the CPU. A plan without reads reads one row for nothing."""
        place = {segment: n for n, segment in enumerate(self._order)}
        chains: dict[Node, Spans] = {}
        placed = [
            Placed(
                s.ids,
                s.above.end,
                s.kv,
                self._chain(s.above, chains),
                parent=place[s.parent] if s.parent else -1,
                parent_state=max(s.parent.state if s.parent else s.above.state, 0),
                state_out=s.state,
            )
            for s in self._order
        ]
        readings = []
        for line, key in zip(self.reads, self._read_from, strict=True):
            number, offset = place[self._segment_of[key]], len(line.leaf) - 1
            readings.append(Reading(number, offset, line.labels, line.prior, line.temperature))
        storage = self.cache.storage
        nothing = [Reading(0, 0, (0,), (0.0,))]
        return pack(placed, readings or nothing, storage.tokens.capacity, storage.states.capacity)

    def commit(self) -> None:
        """The pass went through: pending nodes become ready; the others give back their slots."""
        storage = self.cache.storage
        for s in self._order:
            if s.node is not None and not s.again:
                self.cache.commit(s.node, s.kv, s.state)
                continue
            storage.tokens.release(s.kv, len(s.ids))
            if s.state > 0:
                if s.node in self._bases and s.node is not None:
                    self.cache.snapshot(s.node, s.state)  # where a new branch began
                else:
                    storage.states.release(s.state)
        for s in self._order:
            if s.node is not None and s.above.cut and len(s.above.children) == 1:
                self.cache.drop_state(s.above)  # a long state goes on from its newest part
        self._count()
        self._unpin()

    def abort(self) -> None:
        """The pass didn't happen: nothing of it stays."""
        storage = self.cache.storage
        for s in self._order:
            if s.kv >= 0:
                storage.tokens.release(s.kv, len(s.ids))
            if s.state > 0:
                storage.states.release(s.state)
        self.cache.discard_pending()
        self._unpin()

    def _count(self) -> None:
        """What the pass found ready."""
        counters = self.cache.counters
        counters.hits += sum(self._hits)
        counters.misses += len(self._hits) - sum(self._hits)
        ready = {node for base, new in self._bases.items() if new for node in base.path()}
        again = {s.node for s in self._order if s.again}
        counters.saved_tokens += sum(len(node.ids) for node in ready - again)

    def _start(self, root: Node, pieces: Sequence[Ids]) -> int:
        """How many leading tokens of `pieces` need not be computed, or are in this pass anyway."""
        tokens, node = self.cache.match(root, pieces)
        if not self.cache.storage.hybrid or not node.ready:
            return tokens
        while node.parent is not None:
            if (node.state >= 0 and node.end <= tokens) or self._is_counted(node):
                return min(node.end, tokens)
            node = node.parent
        return 0

    def _is_counted(self, node: Node) -> bool:
        """Whether the plan computes a ready node once more. One that was cut in two since then
        left its upper part with itself as the first child."""
        return node in self._counted or next(iter(node.children.values()), None) in self._counted

    def _extend(self, root: Node, pieces: Sequence[Ids], resumed: bool) -> Node:
        self.tokens += sum(map(len, pieces)) - self.cache.match(root, pieces)[0]
        node = root
        for ids in pieces:
            node = self.cache.extend(node, ids)
        if not node.ready:
            self._base(node, resumed)
        return node

    def _base(self, node: Node, resumed: bool) -> None:
        """Hold the deepest ready node above new tokens, and where a hybrid can start from it."""
        while not node.ready:
            node = _above(node)
        if node.parent is None:
            return
        known = node in self._bases
        self._bases[node] = self._bases.get(node, False) or not resumed
        if known:
            return
        self._pin(node)
        while self.cache.storage.hybrid and node.parent is not None and node.state < 0:
            if not self._is_counted(node):
                self.tokens += len(node.ids)
            self._counted.add(node)
            node = node.parent
            self._pin(node)

    def _make(self) -> list[_Segment]:
        """All segments, each linked to the one that it continues."""
        segments = self._segment_of
        for node in self.cache.pending:
            segments[node] = _Segment(node.ids, _above(node), node, goes_on=True)
        for base in self._bases if self.cache.storage.hybrid else ():
            node = base
            while node.parent is not None and node.state < 0 and node not in segments:
                segments[node] = _Segment(node.ids, node.parent, node, again=True, goes_on=True)
                node = node.parent
        for key in self._leaves:
            segments[key] = _Segment(key[1], key[0])
        for segment in segments.values():
            segment.parent = segments.get(segment.above)
        return list(segments.values())

    def _depth_first(self, segments: Sequence[_Segment]) -> list[_Segment]:
        """Parents directly before their first child, so that chains are few, long spans."""
        below: dict[_Segment | None, list[_Segment]] = {}
        for segment in segments:
            below.setdefault(segment.parent, []).append(segment)
        order, stack = [], below.get(None, [])[::-1]
        while stack:
            segment = stack.pop()
            order.append(segment)
            stack += below.get(segment, [])[::-1]
        assert len(order) == len(segments)
        return order

    def _chain(self, node: Node, chains: dict[Node, Spans]) -> Spans:
        """The spans (slot, length) of `node` and its ancestors, root first, neighbours merged."""
        missing = []
        while node.parent is not None and node not in chains:
            missing.append(node)
            node = node.parent
        spans = chains.get(node, ())
        for below in reversed(missing):
            kv = below.kv if below.ready else self._segment_of[below].kv
            length = len(below.ids)
            if spans and sum(spans[-1]) == kv:
                kv, length, spans = spans[-1][0], spans[-1][1] + length, spans[:-1]
            spans = chains[below] = (*spans, (kv, length))
        return spans

    def _pin(self, node: Node) -> None:
        if node.parent is not None:
            self.cache.pin(node)
            self._pinned.append(node)

    def _unpin(self) -> None:
        for node in self._pinned:
            self.cache.unpin(node)
        self._pinned.clear()


def _above(node: Node) -> Node:
    assert node.parent is not None
    return node.parent
