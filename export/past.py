"""`Past`: what the layers of an exported graph carry after some tokens, kept as its pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from readoff.engine.line import Ids
from readoff.export.session import Array


@dataclass(frozen=True, eq=False)
class Past:
    """What `ids` left behind after the tokens of `base`. Never changed once it is made.

    `grown`: keys and values of `ids` alone, [1, len(ids), heads, D], by the name of the graph's
    input; `whole`: states and tails after the last of them, [1, ..]. A past without a `base` has
    no tokens: its `whole` is where every prompt begins, its `grown` has none.
    """

    base: Past | None
    ids: Ids
    grown: Mapping[str, Array]
    whole: Mapping[str, Array] = field(default_factory=dict)
    length: int = field(init=False)
    """Tokens in all."""

    def __post_init__(self) -> None:
        before = 0 if self.base is None else self.base.length
        object.__setattr__(self, "length", before + len(self.ids))

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its own arrays; those of `base` aren't counted."""
        return sum(array.nbytes for part in (self.grown, self.whole) for array in part.values())

    def chain(self) -> list[Past]:
        """From the empty past to this one."""
        found: list[Past] = []
        link: Past | None = self
        while link is not None:
            found.append(link)
            link = link.base
        return found[::-1]

    def arrays(self) -> dict[str, Array]:
        """The graph's inputs: keys and values of all tokens, [1, length, heads, D], and `whole`."""
        links = [link for link in self.chain() if link.ids] or [self]
        if len(links) == 1:
            return {**links[0].grown, **self.whole}
        names = self.grown
        joined = {name: np.concatenate([k.grown[name] for k in links], axis=1) for name in names}
        return {**joined, **self.whole}

    def cut(self, length: int) -> Past:
        """The past of its first `length` tokens, where there is nothing but keys and values."""
        assert not self.whole
        grown = {name: array[:, :length] for name, array in self.grown.items()}
        return Past(self.base, self.ids[:length], grown)

    def after(self, base: Past) -> Past:
        """The same behind another object of the same tokens as its base."""
        assert base.length == self.length - len(self.ids)
        return replace(self, base=base)

    def bare(self) -> Past:
        """Keys and values alone: all of it that those need who go on from a later one."""
        return replace(self, whole={})


def joined(parts: Sequence[Past]) -> Past:
    """Pasts that follow one another as one, with arrays of its own."""
    first, last = parts[0], parts[-1]
    ids = tuple(index for part in parts for index in part.ids)
    # Copied even where there is one part: it may be a view of a run's whole output.
    grown = {name: np.concatenate([p.grown[name] for p in parts], axis=1) for name in last.grown}
    whole = {name: array.copy() for name, array in last.whole.items()}
    return Past(first.base, ids, grown, whole)
