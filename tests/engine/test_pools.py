"""`KeptPools`: whoever holds on to where they lie is told that they moved."""

from __future__ import annotations

import pytest
import torch

from readoff.engine import pools
from readoff.engine.pools import KeptPools
from tests.engine.passes_rig import Rig


@pytest.mark.parametrize("kind", ["qwen2", "qwen3_5"])
def test_growth_that_breaks_off_counts_as_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Rig("qwen2" if kind == "qwen2" else "qwen3_5").backbone.config
    kept = KeptPools(config, 64, 4, torch.float32, torch.device("cpu"))
    before = kept.generation
    makers = {name: getattr(pools, name) for name in ("_keys", "_states")}
    made: list[str] = []

    def scarce(name: str) -> None:
        def make(*arguments: object) -> object:
            made.append(name)
            if len(made) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return makers[name](*arguments)

        monkeypatch.setattr(pools, name, make)

    for name in makers:
        scarce(name)
    with pytest.raises(torch.OutOfMemoryError):
        kept.grow(128, 8)
    assert len(made) == 2
    assert kept.generation == before + 1
    assert (kept.kv_slots, kept.state_slots) == (64, 4)


def test_what_was_freed_has_moved() -> None:
    kept = KeptPools(Rig("qwen2").backbone.config, 64, 1, torch.float32, torch.device("cpu"))
    before = kept.generation
    kept.free()
    assert kept.generation == before + 1
