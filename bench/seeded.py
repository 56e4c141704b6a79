"""Seeded random weights of true shapes, for models whose real weights can't be reached."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from pathlib import Path

import torch

from readoff.engine.checkpoint import Checkpoint
from readoff.engine.config import ModelConfig
from readoff.engine.parameters import parameter_shapes

QWEN35_08B = ModelConfig(
    architecture="qwen3_5",
    vocab_size=248_320,
    hidden_size=1024,
    intermediate_size=3584,
    num_layers=24,
    num_heads=8,
    num_kv_heads=2,
    head_dim=256,
    rms_norm_eps=1e-6,
    rope_theta=1e7,
    rotary_dim=64,
    qkv_bias=False,
    tie_word_embeddings=True,
    max_position_embeddings=32_768,
    layer_types=("linear_attention", "linear_attention", "linear_attention", "full_attention") * 6,
    linear_num_key_heads=16,
    linear_num_value_heads=16,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    conv_kernel=4,
    dtype="bfloat16",
)
"""Qwen3.5-0.8B, the text part."""

QWEN35_4B = replace(
    QWEN35_08B,
    hidden_size=2560,
    intermediate_size=9216,
    num_layers=32,
    num_heads=16,
    num_kv_heads=4,
    layer_types=QWEN35_08B.layer_types[:4] * 8,
    linear_num_value_heads=32,
)
"""Qwen3.5-4B, the text part."""

TINY_HYBRID = replace(
    QWEN35_08B,
    vocab_size=512,
    hidden_size=64,
    intermediate_size=128,
    num_layers=4,
    num_heads=4,
    head_dim=32,
    rotary_dim=8,
    layer_types=QWEN35_08B.layer_types[:4],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=16,
    linear_value_head_dim=16,
)
"""A hybrid so small that what surrounds the forward pass can be measured."""

BLOCK = 1 << 24
"""Numbers that `SeededOnDevice` makes at a time: 64 MiB beside the weights."""


class SeededCheckpoint(Checkpoint):
    """Random weights that depend on the seed and the tensor's name only.

    Every parameter is random, norms and gates included, at a scale that keeps activations near 1.
    """

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        self.config = config
        self.seed = seed

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Each row has a generator of its own, so any split gives the same numbers."""
        shape = parameter_shapes(self.config)[name]
        made = torch.empty(stop - start, *shape[1:])
        generator = torch.Generator()
        for row in range(start, stop) if len(shape) > 1 else (-1,):
            generator.manual_seed(zlib.crc32(f"{self.seed} {name} {row}".encode()))
            if row < 0:
                made = torch.randn(shape, generator=generator)[start:stop]
            else:
                made[row - start].normal_(generator=generator)
        return scaled(self.config, name, made, shape)

    def digest(self) -> str:
        """The seed: nothing is stored."""
        return f"seed {self.seed}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """None."""
        return ()

    @property
    def tokenizer_files(self) -> Path:
        """There are none."""
        raise FileNotFoundError("seeded weights have no tokenizer")


class SeededOnDevice:
    """Random weights made where they are used: billions of parameters in seconds on a GPU.

    They depend on the seed, the tensor's name and the kind of device; in a narrow dtype they are
    the same numbers, rounded.
    """

    def __init__(self, config: ModelConfig, device: torch.device, seed: int = 0) -> None:
        self.config, self.seed = config, seed
        self._shapes = parameter_shapes(config)
        self._generator = torch.Generator(device)

    @torch.no_grad()
    def copy_into(self, name: str, dest: torch.Tensor) -> None:
        """See `Weights`."""
        shape = self._shapes[name]
        assert dest.shape == shape
        self._generator.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
        rows = max(1, BLOCK // math.prod(shape[1:]))
        for part in dest.split(rows):
            noise = torch.randn(part.shape, generator=self._generator, device=dest.device)
            part.copy_(scaled(self.config, name, noise, shape))


def scaled(
    config: ModelConfig, name: str, noise: torch.Tensor, shape: tuple[int, ...]
) -> torch.Tensor:
    """Standard normal `noise` at the scale that the tensor `name` of `shape` has."""
    plus_one = config.architecture == "qwen3_5" and ".linear_attn." not in name
    if name.endswith("A_log"):
        return noise.sigmoid() * 4.0 - 2.0
    if name.endswith("dt_bias"):
        return noise * 0.5 - 2.0
    if "norm" in name:
        return noise * 0.1 + (0.0 if plus_one else 1.0)
    if name.endswith("bias"):
        return noise * 0.1
    return noise / math.sqrt(shape[-1])
