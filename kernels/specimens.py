"""`Specimen`: one specialisation of a Triton kernel, as it is launched for a model's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Specimen:
    """What the compiler needs to build a kernel without a GPU.

    `name` tells operator, kernel, dtype and the sizes that matter ("tree_attention.attend[bf16,
    D=256]"). `signature`: every argument that isn't a constant to its Triton type ("*bf16", "i32",
    "fp32"). `constants`: every tl.constexpr argument. Pointers, and the integers named in
    `aligned`, are multiples of 16, as they are at launch. `minimum`: the first compute capability
    (80, 89, …) it is for.
    """

    name: str
    kernel: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    aligned: tuple[str, ...] = ()
    num_warps: int = 4
    num_stages: int = 2
    minimum: int = 80
