"""Sizes that serve the requests of their length."""

from __future__ import annotations

from readoff.engine.buckets import TOKENS, Bucket, buckets_of


def test_buckets_ascend_and_serve_a_request_of_their_length() -> None:
    made = buckets_of([64, 16, Bucket.of(32)])
    assert [b.tokens for b in made] == [16, 32, 64]
    for bucket in buckets_of(TOKENS):
        asks = min(64, bucket.tokens // 40)  # questions of 40 tokens on a state
        assert bucket.segments >= asks + 2
        assert bucket.labels >= 255 + 8 * asks
    assert list(TOKENS) == sorted(set(TOKENS))
