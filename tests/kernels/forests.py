"""Small forests as the tensors that the token-mixing operators take."""

from __future__ import annotations

from dataclasses import dataclass

import torch

Tree = list[tuple[int, int]]
"""(length, parent) by segment, parents first; parent -1 is a root."""

TREES: dict[str, Tree] = {
    "one token": [(1, -1)],
    "one chunk": [(64, -1)],
    "long": [(200, -1)],
    "state and questions": [(65, -1), (3, 0), (1, 0), (40, 0), (63, 0), (64, 0), (70, 0)],
    "deep": [(5, -1), (64, 0), (1, 1), (2, 2), (130, 3), (7, 1)],
    "strangers": [(63, -1), (2, -1), (75, 1), (500, -1), (4, 3), (5, 3)],
    "many short": [(3, -1), *((n, 0) for n in range(1, 20))],
}


@dataclass(frozen=True)
class Segments:
    """The segment tensors of a tree: as `causal_conv` and `gated_delta` take them."""

    start: torch.Tensor
    length: torch.Tensor
    depth: torch.Tensor
    parent_state: torch.Tensor
    state_out: torch.Tensor

    @property
    def tokens(self) -> int:
        return int(self.length.sum())

    @property
    def slots(self) -> int:
        """State slots that are needed, the zero slot and one spare included."""
        return len(self.start) + 2

    def args(self) -> tuple[torch.Tensor, ...]:
        return (self.start, self.length, self.depth, self.parent_state, self.state_out)


def segments(tree: Tree, roots_from: int = 0) -> Segments:
    """Every segment writes its final state to slot 2 + its number; roots read `roots_from`."""
    lengths = torch.tensor([n for n, _ in tree])
    depth: list[int] = []
    for _, parent in tree:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    parents = [roots_from if parent < 0 else parent + 2 for _, parent in tree]
    return Segments(
        start=lengths.cumsum(0) - lengths,
        length=lengths,
        depth=torch.tensor(depth),
        parent_state=torch.tensor(parents),
        state_out=torch.arange(len(tree)) + 2,
    )


def chains(tree: Tree, start: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(chain_offsets, chain_spans) of a tree whose segment s lies in the slots from start[s]."""
    offsets, spans = [0], []
    for _, parent in tree:
        path = []
        while parent >= 0:
            path.append((start[parent], tree[parent][0]))
            parent = tree[parent][1]
        spans += path[::-1]
        offsets.append(len(spans))
    return torch.tensor(offsets), torch.tensor(spans, dtype=torch.long).view(-1, 2)


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """max |found - wanted| / max |wanted|; NaN where anything is NaN."""
    difference = (found.double() - wanted.double()).abs().max()
    return float(difference / wanted.double().abs().max().clamp(min=1e-30))
