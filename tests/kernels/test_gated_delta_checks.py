"""What the delta rule refuses at its door, whichever implementation would run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.gated_delta import gated_delta
from readoff.kernels.gated_delta.checks import check_values

from .forests import Segments, segments
from .test_triton_gated_delta import make, pool


def _segments_of(**changed: torch.Tensor) -> dict[str, Any]:
    s = segments([(5, -1), (3, 0)])
    names = ("seg_start", "seg_length", "seg_depth", "parent_state", "state_out")
    return {**dict(zip(names, s.args(), strict=True)), **changed}


NAMES = ("q", "k", "v", "a", "b", "a_log", "dt_bias")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("q", torch.zeros(8, 16)),
        ("q", torch.zeros(8, 2, 16, dtype=torch.float64)),
        ("q", torch.zeros(8, 16, 2).mT),
        ("k", torch.zeros(8, 1, 16)),
        ("k", torch.zeros(8, 2, 16, dtype=torch.bfloat16)),
        ("v", torch.zeros(7, 4, 16)),
        ("v", torch.zeros(8, 3, 16)),
        ("a", torch.zeros(8, 2)),
        ("b", torch.zeros(4, 8).mT),
        ("a_log", torch.zeros(2)),
        ("dt_bias", torch.zeros(4, dtype=torch.int64)),
        ("states", torch.zeros(4, 4, 16, 8)),
        ("states", torch.zeros(4, 4, 16, 16, dtype=torch.float16)),
        ("states", torch.zeros(4, 4, 16, 16).mT),
        ("seg_length", torch.zeros(3, dtype=torch.int64)),
        ("seg_depth", torch.zeros(2, dtype=torch.int32)),
        ("state_out", torch.zeros(2, 2, dtype=torch.int64)[:, 0]),
        ("seg_wave", torch.zeros(1, dtype=torch.int64)),
        ("parent_state", torch.zeros(2, dtype=torch.int64, device="meta")),
    ],
)
def test_wrong_shapes_are_refused(name: str, wrong: torch.Tensor) -> None:
    given = dict(zip(NAMES, make(8, (2, 4), torch.float32), strict=True))
    given |= {
        "states": pool(4, 4),
        **_segments_of(),
        "seg_wave": torch.zeros(2).long(),
        name: wrong,
    }
    with pytest.raises(KernelInputError, match=rf"^gated_delta: {name} is .*it must"):
        gated_delta(*given.values(), 1)


def test_waves_come_with_their_number() -> None:
    x = make(8, (1, 1), torch.float32)
    with pytest.raises(KernelInputError, match="give both"):
        gated_delta(*x, pool(4, 1), *_segments_of().values(), None, 1)
    with pytest.raises(KernelInputError, match="give both"):
        gated_delta(*x, pool(4, 1), *_segments_of().values(), torch.zeros(2).long())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seg_length": [5, 4]}, r"segment 1 has 4 rows from 5 on; there are 8"),
        ({"seg_length": [-1, 3]}, r"segment 0 has -1 rows"),
        ({"seg_start": [0, 4]}, r"segment 1 shares row 4 with segment 0"),
        ({"parent_state": [0, 4]}, r"segment 1 starts from slot 4 of 4"),
        ({"state_out": [0, 3]}, r"segment 0 writes slot 0; the slots are 1 to 3"),
        ({"state_out": [2, 4]}, r"segment 1 writes slot 4"),
        ({"seg_depth": [-1, 0]}, r"segment 0 has the depth -1"),
        ({"seg_depth": [0, 0]}, r"segment 1 of depth 0 starts from slot 2, which segment 0"),
        ({"state_out": [2, 2]}, r"segment 1 writes slot 2, which segment 0 writes too"),
        ({"seg_wave": [0, 2]}, r"segment 1 has the wave 2 of 2"),
        (
            {"seg_wave": [1, 0]},
            r"segment 1 of wave 0 starts from slot 2, which segment 0 of wave 1",
        ),
    ],
)
def test_wrong_values_are_refused(
    changed: dict[str, list[int]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = make(8, (1, 1), torch.float32)
    given = _segments_of(**{name: torch.tensor(value) for name, value in changed.items()})
    waves = given.pop("seg_wave", torch.tensor([0, 1]))
    monkeypatch.setenv("READOFF_CHECK", "1")
    with pytest.raises(KernelInputError, match=message):
        gated_delta(*x, pool(4, 1), *given.values(), waves, 2)


def test_siblings_may_not_share_a_wave_with_their_parent() -> None:
    s: Segments = segments([(2, -1), (3, 0), (3, 0)])
    x = make(8, (1, 1), torch.float32)
    check_values(*x, pool(5, 1), *s.args(), torch.tensor([0, 0, 1]), 2)
    with pytest.raises(KernelInputError, match="segment 2 of wave 0"):
        check_values(*x, pool(5, 1), *s.args(), torch.tensor([0, 0, 0]), 1)


def test_zeros_stay_zeros() -> None:
    states = pool(4, 1)
    states[0, 0, 0, 0] = 1.0
    x = make(8, (1, 1), torch.float32)
    with pytest.raises(KernelInputError, match="slot 0 of states must be all zeros"):
        check_values(*x, states, *_segments_of().values())
