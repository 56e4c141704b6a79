"""`PrefixCache`: what a cache of computed prefixes promises, and its `Node`.

Prompts are chains of pieces, each a tuple of token ids. The cache is a tree of nodes; a path from
a root spells the tokens of a prefix. A node is *pending* from the moment a pass is planned until
its tokens have been computed, then *ready*. Ready nodes are never changed: they may be cut in two,
moved, given a snapshot, or dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from readoff.engine.storage import Room, Storage

Ids = tuple[int, ...]


class Node:
    """Tokens below a parent, and where what was computed from them lies.

    `first`: the position of its first token. `kv`: the first of its `len(ids)` slots, -1 while it
    is pending. `state`: the slot of the snapshot at its end, -1 where there is none. `pins`: how
    many hold on to it. `cut`: it ends inside a piece because a long state was spread over passes.
    """

    __slots__ = (
        "children",
        "cut",
        "first",
        "ids",
        "kv",
        "parent",
        "pins",
        "priority",
        "ready",
        "stamp",
        "state",
    )

    def __init__(self, ids: Ids, parent: Node | None) -> None:
        self.ids = ids
        self.parent = parent
        self.children: dict[Hashable, Node] = {}
        self.first: int = parent.end if parent is not None else 0
        self.kv = -1
        self.state = -1
        self.pins = 0
        self.ready = parent is None
        self.cut = False
        self.priority = 0.0
        self.stamp = 0

    @property
    def end(self) -> int:
        """The position after its last token: the length of the prefix that it completes."""
        return self.first + len(self.ids)

    def path(self) -> Iterator[Node]:
        """The node and its ancestors, the root left out."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


@dataclass
class CacheCounters:
    """Since the cache was made. `hits` and `misses` count prompts whose whole prefix was ready, or
    wasn't; `saved_tokens` the ready tokens that passes went on from, once a pass; `moved` how often
    the pools were compacted."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    saved_tokens: int = 0
    moved: int = 0


class PrefixCache(ABC):
    """A tree of computed prefixes over a `Storage`. Not thread-safe: one thread plans and runs.

    A pass goes like this: `extend` from a `root`, for each prompt, creates pending nodes where
    nothing is ready; `make_room` finds slots for them; then either `commit` makes each ready, or
    `discard_pending` forgets them all. Nodes that are pinned, or have children, are never dropped.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.counters = CacheCounters()
        self.pending: dict[Node, None] = {}  # in the order they came, each once
        self._pinned: set[Node] = set()
        self._roots: dict[Hashable, Node] = {}

    def root(self, key: Hashable = None) -> Node:
        """The root for everything computed under `key`; other keys share nothing with it."""
        if key not in self._roots:
            self._roots[key] = Node((), None)
        return self._roots[key]

    @abstractmethod
    def match(self, root: Node, pieces: Sequence[Ids]) -> tuple[int, Node]:
        """How many leading tokens of `pieces` have nodes, ready or pending, and the last of these
        nodes, which may reach further than they do."""

    @abstractmethod
    def extend(self, node: Node, ids: Ids) -> Node:
        """The node whose path is that of `node` and then `ids`, which is not empty. What isn't
        there is created, pending; an existing node may be cut where `ids` leave it."""

    @abstractmethod
    def make_room(self, spans: Sequence[int], states: int) -> Room | None:
        """Slots for spans of these lengths and so many states; unpinned nodes are dropped, and
        others moved, until they fit. None, and nothing dropped, where that isn't enough."""

    @abstractmethod
    def touch(self, node: Node) -> None:
        """Say that the ready `node` was used just now."""

    def pin(self, node: Node) -> None:
        """Keep `node`, its snapshot and so its ancestors, until `unpin`."""
        node.pins += 1
        self._pinned.add(node)

    def unpin(self, node: Node) -> None:
        """Let go of what `pin` held."""
        assert node.pins > 0, "unpinned more often than pinned"
        node.pins -= 1
        if not node.pins:
            self._pinned.remove(node)
        if node.ready and node.parent is not None:
            self.touch(node)

    def commit(self, node: Node, kv: int, state: int) -> None:
        """The pending `node` was computed into the slots from `kv` on; its snapshot is in the slot
        `state`, or -1. Parents before children."""
        assert node in self.pending
        assert node.parent is not None
        assert node.parent.ready
        del self.pending[node]
        node.kv, node.state, node.ready = kv, state, True
        self.touch(node)

    def snapshot(self, node: Node, state: int) -> None:
        """Give the ready `node` a snapshot that it lacked."""
        assert node.ready
        assert node.state < 0
        node.state = state
        self.touch(node)

    def drop_state(self, node: Node) -> None:
        """Give up a snapshot. The node stays."""
        if node.state >= 0:
            self.storage.states.release(node.state)
            node.state = -1

    def discard_pending(self) -> None:
        """Forget every pending node; nothing was computed into them."""
        for node in self.pending:
            self._unlink(node)
        self.pending.clear()

    def clear(self) -> None:
        """Drop every node that nobody holds."""
        for node in [n for n in self.nodes() if not n.children]:
            for above in list(node.path()):
                if above.children or above.pins or not above.ready:
                    break
                self._drop(above)

    def forget(self) -> None:
        """Let go of every node, held ones too: what they point to is lost. Plans and jobs that hold
        some unpin them as usual, and find nothing ready."""
        for node in list(self.nodes()):
            node.ready, node.kv, node.state = False, -1, -1
        for root in self._roots.values():
            root.children.clear()
        self.pending.clear()
        self.storage.reset()

    def nodes(self) -> Iterator[Node]:
        """Every node below every root, parents first."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            stack += node.children.values()
            if node.parent is not None:
                yield node

    @property
    def nbytes(self) -> int:
        """What the slots of ready nodes take."""
        held = [n for n in self.nodes() if n.ready]
        return self.storage.size(
            sum(len(n.ids) for n in held), sum(1 for n in held if n.state >= 0)
        )

    def check_integrity(self) -> None:
        """Raise AssertionError unless tree, slots and allocators agree. For tests and debugging."""
        spans: list[tuple[int, int]] = []
        states: list[int] = []
        for node in self.nodes():
            parent = node.parent
            assert parent is not None
            assert node.ids, "an empty node"
            assert node.first == parent.end, "a node that doesn't begin where its parent ends"
            assert parent.children.get(self._key(node.ids)) is node, "a node under a wrong key"
            assert node.pins >= 0
            assert node.ready != (node in self.pending), "neither ready nor pending"
            assert parent.ready or not node.ready, "a ready node below a pending one"
            if node.ready:
                spans.append((node.kv, len(node.ids)))
                if node.state >= 0:
                    states.append(node.state)
            else:
                assert node.kv < 0
                assert node.state < 0
        held = self.storage.tokens.gaps() + spans
        at = 0
        for start, length in sorted(held):
            assert start == at, "slots that overlap, or that nobody holds"
            at += length
        assert at == self.storage.tokens.capacity
        assert len(states) == len(set(states)) == self.storage.states.used, "state slots leaked"
        assert self._pinned >= {n for n in self.nodes() if n.pins}
        assert self.storage.used_bytes <= max(self.storage.budget, self.storage.state_bytes)

    def _key(self, ids: Ids) -> Hashable:
        """Under what a node with `ids` hangs in its parent."""
        return ids

    def _new(self, parent: Node, ids: Ids) -> Node:
        node = Node(ids, parent)
        parent.children[self._key(ids)] = node
        self.pending[node] = None
        return node

    def _unlink(self, node: Node) -> None:
        assert node.parent is not None
        del node.parent.children[self._key(node.ids)]

    def _drop(self, node: Node) -> None:
        """Drop a ready node without children or pins."""
        assert node.ready
        assert not node.children
        assert not node.pins
        self.drop_state(node)
        self.storage.tokens.release(node.kv, len(node.ids))
        self._unlink(node)
        node.kv, node.ready = -1, False

    def _could_fit(self, tokens: int, states: int) -> bool:
        """Whether so many slots fit once all is dropped that nobody holds."""
        held: set[Node] = set()
        for node in (*self._pinned, *self.pending):
            for above in node.path():
                if above in held:
                    break
                held.add(above)
        tokens += sum(len(n.ids) for n in held if n.ready)
        states += sum(1 for n in held if n.pins and n.state >= 0)
        return self.storage.size(tokens, states + 1) <= self.storage.limit

    def _rearrange(self, tokens: int, states: int) -> None:
        """Move all ready nodes to the front of the pools."""
        assert not any(n.kv >= 0 for n in self.pending)
        held = sorted((n for n in self.nodes() if n.ready), key=lambda n: n.kv)
        kept = [n for n in held if n.state >= 0]
        try:
            starts, slots = self.storage.rearrange(
                [(n.kv, len(n.ids)) for n in held], [n.state for n in kept], tokens, states
            )
        except BaseException:
            self.forget()  # some layers were moved, others not
            raise
        for node, start in zip(held, starts, strict=True):
            node.kv = start
        for node, slot in zip(kept, slots, strict=True):
            node.state = slot
        self.counters.moved += 1
