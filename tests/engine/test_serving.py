"""`Serving`: options that can't be meant are refused."""

from __future__ import annotations

from typing import Any

import pytest

from readoff.engine.errors import ReadoffError
from readoff.engine.serving import Serving


def test_the_defaults_and_the_least_values_are_legal() -> None:
    assert Serving().cache_bytes is None
    Serving(cache_bytes=0, max_queue=1, max_wait_ms=0, step_tokens=64, snapshot_every=64)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_bytes", -1),
        ("cache_bytes", 1.0),
        ("cache_bytes", True),
        ("max_queue", 0),
        ("max_queue", None),
        ("step_tokens", 63),
        ("step_tokens", "many"),
        ("max_wait_ms", -0.1),
        ("max_wait_ms", float("nan")),
        ("max_wait_ms", True),
        ("max_wait_ms", "1"),
        ("snapshot_every", 0),
        ("snapshot_every", 100),
        ("snapshot_every", 64.0),
        ("deterministic", 1),
    ],
)
def test_other_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ReadoffError, match=name):
        Serving(**{name: value})
