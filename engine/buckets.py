"""`Bucket`: the fixed sizes of one captured forward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from readoff.engine.batch import Batch

TOKENS = (
    *(16, 32, 64, 96, 128, 192, 256, 384, 512, 640, 768),
    *(1024, 1280, 1536, 2048, 3072, 4096),
)
"""Between two sizes at most a third of the rows are padding from 64 tokens on: padded rows go
through every linear layer like any others."""

WAVES = 3
"""Preamble and state, state and first question are one wave each; several requests in one pass
branch once more."""


@dataclass(frozen=True)
class Bucket:
    """How much of everything one captured forward takes. See `Batch` for what is counted.

    `spans` and `read_spans` are the ancestors' spans of all runs and of all read rows together.
    `waves` matters to hybrids only.
    """

    tokens: int
    segments: int
    reads: int
    labels: int
    spans: int
    read_spans: int
    waves: int = WAVES

    def __post_init__(self) -> None:
        assert min(self.tokens, self.segments, self.reads, self.labels, self.waves) >= 1
        assert min(self.spans, self.read_spans) >= 1

    @classmethod
    def of(cls, tokens: int) -> Bucket:
        """The usual sizes beside `tokens`.

        A free segment or read costs a few programs that end at once in every layer, so there are
        no more of them than prompts of this length have: one in 16 tokens, and eight.
        """
        segments = min(tokens, 8 + tokens // 16)
        return cls(
            tokens=tokens,
            segments=segments,
            reads=segments,
            labels=256 + 16 * segments,
            spans=4 * segments,
            read_spans=4 * segments,
        )

    def misfit(self, batch: Batch, hybrid: bool) -> str:
        """What the batch has too much of, or ""."""
        for name, count, most in (
            ("tokens", len(batch.tokens), self.tokens),
            ("segments", len(batch.seg_start), self.segments),
            ("reads", len(batch.rows), self.reads),
            ("labels", len(batch.label_ids), self.labels),
            ("ancestors", len(batch.runs.chain_spans), self.spans),
            ("ancestors of reads", len(batch.read_runs.chain_spans), self.read_spans),
            ("waves", batch.waves if hybrid else 0, self.waves),
        ):
            if count > most:
                return name
        return ""


def buckets_of(sizes: Iterable[int | Bucket]) -> tuple[Bucket, ...]:
    """Buckets from token counts (with the usual sizes beside) or as they are, by ascending size."""
    made = [size if isinstance(size, Bucket) else Bucket.of(size) for size in sizes]
    return tuple(sorted(made, key=lambda b: (b.tokens, b.segments, b.labels)))
