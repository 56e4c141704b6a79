"""Trainable low-rank changes of a frozen backbone's linear layers (LoRA, Hu et al. 2021).

The backbone keeps several projections of a checkpoint in one layer; an adapter has a pair of
matrices for each. So each pair here belongs to one projection under its Hugging Face name, and a
layer multiplies all of its pairs together. The matrices are fp32; the products are in the dtype
of the backbone, as those around them are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from readoff.engine.backbones.attention import Attention
from readoff.engine.backbones.decoder import Backbone, Layer
from readoff.engine.backbones.gated_deltanet import GatedDeltaNet
from readoff.engine.backbones.linear import Linear
from readoff.engine.loading import is_quantised
from readoff.kernels.linear import Kind
from readoff.learn.errors import TrainingError
from readoff.learn.lora_product import Frozen, lora_product

DENSE = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Every linear layer of Qwen2 and Qwen3, and of the attention layers of Qwen3.5."""
DELTA = ("in_proj_qkv", "in_proj_z", "out_proj")
"""Those of the delta rule; in_proj_a and in_proj_b, a row a head, are trained only if named."""
OPTIONAL = ("in_proj_a", "in_proj_b")


@dataclass(frozen=True)
class Projection:
    """One projection of a checkpoint: its module's Hugging Face name, and its rows in a layer."""

    name: str
    start: int
    stop: int

    @property
    def kind(self) -> str:
        """The last part of the name, as `target_modules` has it."""
        return self.name.rpartition(".")[2]


class LoraLinear(nn.Module):
    """A frozen `Linear` plus `scale · B A` for some of its projections.

    `a` holds one [rank, in] and `b` one [rows, rank] fp32 matrix for each of `projections`.
    """

    def __init__(
        self,
        base: Linear,
        projections: Sequence[Projection],
        rank: int,
        alpha: float,
        seed: int,
        quantize: Kind | None = None,
        ahead: bool = True,
    ) -> None:
        """`quantize` multiplies the frozen weight in 8 bits, forward only if `ahead`."""
        super().__init__()
        if base.layout != "plain":
            raise TrainingError(
                f"The weights are {base.layout}, which has no gradient. Load them plain."
            )
        self.sizes = base.sizes
        self.projections = tuple(projections)
        self.rank, self.scale = rank, alpha / rank
        device, inner = base.weight.device, base.weight.shape[1]
        self.frozen = Frozen(base, quantize if ahead else None, quantize)
        self.a = nn.ParameterList(
            _first(p.name, rank, inner, seed).to(device) for p in self.projections
        )
        self.b = nn.ParameterList(
            torch.zeros(p.stop - p.start, rank, device=device) for p in self.projections
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, in] -> [T, sum of sizes]."""
        spans = tuple((p.start, p.stop) for p in self.projections)
        return lora_product(x, self.frozen, spans, self.scale, [*self.a, *self.b])


class Lora:
    """The pairs of one backbone, injected into it. The backbone's own weights stay as they are."""

    def __init__(
        self,
        backbone: Backbone,
        targets: Sequence[str] | None = None,
        rank: int = 16,
        alpha: float = 32.0,
        seed: int = 0,
        quantize: Kind | None = None,
    ) -> None:
        """Wrap the linear layers that hold a projection of `targets` (None: the usual ones).

        `quantize` multiplies their frozen weights in 8 bits, those that `KEPT` names only on the
        way back. Raises TrainingError for a rank or an alpha that is none, and for targets that
        the backbone doesn't have.
        """
        if rank < 1:
            raise TrainingError(f"The rank must be 1 or more, not {rank}.")
        if not (math.isfinite(alpha) and alpha > 0.0):
            raise TrainingError(f"alpha must be a number above 0, not {alpha}.")
        found = [(place, parts) for place in places(backbone) for parts in [place.projections()]]
        kinds = {p.kind for _, parts in found for p in parts}
        usual = tuple(kind for kind in (*DENSE, *DELTA) if kind in kinds)
        self.targets = usual if targets is None else tuple(dict.fromkeys(targets))
        if unknown := sorted(set(self.targets) - kinds):
            raise TrainingError(
                f"This model has no linear layer called {unknown[0]!r}; it has "
                f"{', '.join(sorted(kinds))}."
            )
        if not self.targets:
            raise TrainingError("There is nothing to train: no target modules.")
        self.rank, self.alpha = rank, float(alpha)
        self.layers: list[LoraLinear] = []
        for place, parts in found:
            chosen = [p for p in parts if p.kind in self.targets]
            if chosen:
                ahead = quantize is not None and is_quantised(place.attribute, quantize)
                wrapped = LoraLinear(place.layer, chosen, rank, alpha, seed, quantize, ahead)
                setattr(place.parent, place.attribute, wrapped)
                self.layers.append(wrapped)

    def pairs(self) -> Iterator[tuple[str, nn.Parameter, nn.Parameter]]:
        """(Hugging Face module, A [rank, in], B [out, rank]) of every projection, in layer
        order."""
        for layer in self.layers:
            for projection, a, b in zip(layer.projections, layer.a, layer.b, strict=True):
                yield projection.name, a, b

    def parameters(self) -> list[nn.Parameter]:
        """Every matrix, A before B, in the order of `pairs`."""
        return [matrix for _, a, b in self.pairs() for matrix in (a, b)]

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(p.numel() for p in self.parameters())


@dataclass(frozen=True)
class Place:
    """Where a backbone holds a linear layer, and the checkpoint's names of what is in it."""

    parent: nn.Module
    attribute: str
    names: tuple[str, ...]

    @property
    def layer(self) -> Linear:
        """The layer there."""
        found = getattr(self.parent, self.attribute)
        if not isinstance(found, Linear):
            raise TrainingError("The backbone has an adapter injected already.")
        return found

    def projections(self) -> list[Projection]:
        """The layer's projections from its first row to its last."""
        made, at = [], 0
        for name, size in zip(self.names, self.layer.sizes, strict=True):
            made.append(Projection(name, at, at + size))
            at += size
        return made


def places(backbone: Backbone) -> list[Place]:
    """Every linear layer of a backbone, in layer order; embedding and head are none."""
    found = []
    for layer in backbone.layers:
        assert isinstance(layer, Layer)
        prefix = f"model.layers.{layer.index}"
        mixer: nn.Module = layer.mixer
        if isinstance(mixer, Attention):
            prefix_of = f"{prefix}.self_attn"
            names = {"qkv": ("q_proj", "k_proj", "v_proj"), "o": ("o_proj",)}
            if mixer.last:
                names = {"q": ("q_proj",), "kv": ("k_proj", "v_proj"), "o": ("o_proj",)}
        else:
            assert isinstance(mixer, GatedDeltaNet)
            prefix_of = f"{prefix}.linear_attn"
            mixed = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
            names = {"project": mixed, "out": ("out_proj",)}
        found += [Place(mixer, k, tuple(f"{prefix_of}.{n}" for n in v)) for k, v in names.items()]
        feed = f"{prefix}.mlp"
        found.append(Place(layer.mlp, "gate_up", (f"{feed}.gate_proj", f"{feed}.up_proj")))
        found.append(Place(layer.mlp, "down", (f"{feed}.down_proj",)))
    return found


def _first(name: str, rank: int, inner: int, seed: int) -> torch.Tensor:
    """A at the start, [rank, in], as PEFT draws it, but from the seed and its own name: no matrix
    depends on which others are trained."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    bound = 1.0 / math.sqrt(inner)  # of kaiming_uniform with a = √5
    return (torch.rand(rank, inner, generator=generator) * 2.0 - 1.0) * bound
