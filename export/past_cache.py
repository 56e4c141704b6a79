"""`PastCache`: pasts by the token ids that they stand for, the least recently used dropped first.

A tree with an edge for every piece of a prompt. Ids are compared, never their hashes alone, and a
past is never changed. What a running job continues from may be dropped meanwhile: the job holds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from readoff.engine.line import Ids
from readoff.export.past import Past

SHORTEST = 16
"""Tokens that a piece must share with a cached one for these to be taken from it."""


@dataclass
class PastCounters:
    """Since the engine was made: look-ups that found all of a prompt's pieces, those that didn't,
    tokens that didn't have to be computed, and pasts that were dropped."""

    hits: int = 0
    misses: int = 0
    saved_tokens: int = 0
    evictions: int = 0


@dataclass(eq=False)
class _Node:
    """The end of a piece. Without a past where a longer run went over it."""

    parent: _Node | None = None
    piece: Ids = ()
    children: dict[Ids, _Node] = field(default_factory=dict)
    past: Past | None = None


@dataclass(eq=False)
class _Entry:
    """A past that is held: by its node, or (`node` None) only because `users` others go on from
    it."""

    node: _Node | None
    users: int = 0


class PastCache:
    """Holds pasts of `budget` bytes at most. `empty` is the past of no tokens. One thread's.

    Each past goes on from another (`Past.base`); that one stays as long as any of them does.
    """

    def __init__(self, empty: Past, budget: int) -> None:
        self.empty, self.budget = empty, budget
        self.counters = PastCounters()
        self.used = 0
        self._root = _Node(past=empty)
        self._entries: OrderedDict[Past, _Entry] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def tokens(self) -> int:
        """Tokens that the pasts stand for, each piece once."""
        return sum(len(past.ids) for past in self._entries)

    def find(self, pieces: Sequence[Ids]) -> tuple[Past, int]:
        """The longest past at the end of one of `pieces`, and how many of them it covers."""
        node, found, count = self._root, self.empty, 0
        for number, piece in enumerate(pieces, 1):
            below = node.children.get(piece)
            if below is None:
                break
            node = below
            if node.past is not None:
                found, count = node.past, number
        for link in found.chain()[::-1]:  # the end first: a beginning outlives what it is part of
            if link in self._entries:
                self._entries.move_to_end(link)
        return found, count

    def part(self, base: Past, ids: Ids) -> Past | None:
        """A past of the first of `ids` after `base`, from the cached one that shares most of them.
        None where none shares enough.

        Only for models whose past is keys and values alone: a state can't be taken apart.
        """
        best, length = None, SHORTEST - 1
        for past in self._entries:
            if past.base is base:
                shared = _shared(past.ids, ids)
                if shared > length:
                    best, length = past, shared
        return None if best is None else best.cut(length)

    def put(self, pieces: Sequence[Ids], past: Past) -> None:
        """Keep `past`, which is that of all of `pieces`, and drop others where there is no room.

        Where an equal one is there already, that stays.
        """
        node = self._root
        for piece in pieces:
            node = node.children.setdefault(piece, _Node(node, piece))
        if node.past is not None:
            return
        node.past = past
        self._hold(past, node)
        while self.used > self.budget and self._drop_one():
            pass

    def clear(self) -> None:
        """Drop all."""
        self._root = _Node(past=self.empty)
        self._entries.clear()
        self.used = 0

    def check(self) -> None:
        """For tests: every count agrees with the tree."""
        assert self.used == sum(past.nbytes for past in self._entries)
        users = dict.fromkeys(self._entries, 0)
        for past in self._entries:
            if past.base in users:
                users[past.base] += 1
        assert users == {past: entry.users for past, entry in self._entries.items()}
        assert all(e.node is None or e.node.past is past for past, e in self._entries.items())
        assert all(e.node is not None or e.users for e in self._entries.values())

    def _hold(self, past: Past, node: _Node) -> None:
        """Count `past`, and those that it goes on from and that are no longer there."""
        for link in past.chain()[1:]:
            if link in self._entries:
                continue
            self._entries[link] = _Entry(None)
            self.used += link.nbytes
            below = self._entries.get(link.base) if link.base is not None else None
            if below is not None:
                below.users += 1
        self._entries[past].node = node

    def _drop_one(self) -> bool:
        """Drop the least recently used past that no other goes on from."""
        for past, entry in self._entries.items():
            if not entry.users:
                self._drop(past, entry)
                self.counters.evictions += 1
                return True
        return False

    def _drop(self, past: Past, entry: _Entry) -> None:
        """Drop a past, and those that only it went on from and that no prompt ends with."""
        node = entry.node
        if node is not None:
            node.past = None
            while node.parent is not None and not node.children and node.past is None:
                node.parent.children.pop(node.piece)
                node = node.parent
        link: Past | None = past
        while link is not None:
            del self._entries[link]
            self.used -= link.nbytes
            link = link.base
            below = self._entries.get(link) if link is not None else None
            if below is None:
                return
            below.users -= 1
            if below.users or below.node is not None:
                return


def _shared(a: Ids, b: Ids) -> int:
    """How many leading ids are equal."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
