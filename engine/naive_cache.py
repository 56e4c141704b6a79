"""`NaiveCache`: the plainest cache that keeps the promises; tests compare others with it."""

from __future__ import annotations

from collections.abc import Sequence

from readoff.engine.prefix_cache import Ids, Node, PrefixCache
from readoff.engine.storage import Room


class NaiveCache(PrefixCache):
    """Whole pieces only, found by looking at each; when room is short everything unpinned goes."""

    def match(self, root: Node, pieces: Sequence[Ids]) -> tuple[int, Node]:
        """See `PrefixCache`."""
        tokens, node = 0, root
        for ids in pieces:
            found = self._find(node, ids)
            if found is None:
                break
            node, tokens = found, tokens + len(ids)
        return tokens, node

    def extend(self, node: Node, ids: Ids) -> Node:
        """See `PrefixCache`."""
        return self._find(node, ids) or self._new(node, ids)

    def make_room(self, spans: Sequence[int], states: int) -> Room | None:
        """See `PrefixCache`."""
        room = self.storage.allocate(spans, states)
        if room is None:
            if not self._could_fit(sum(spans), states):
                return None
            before = self.storage.tokens.used
            self.clear()
            self.counters.evictions += self.storage.tokens.used < before
            self._rearrange(sum(spans), states)
            room = self.storage.allocate(spans, states)
        return room

    def touch(self, node: Node) -> None:
        """See `PrefixCache`."""

    def _find(self, node: Node, ids: Ids) -> Node | None:
        return next((child for child in node.children.values() if child.ids == ids), None)
