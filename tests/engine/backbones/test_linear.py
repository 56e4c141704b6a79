"""`Linear` in its four layouts, and backbones whose linear layers are kept in 8 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.backbones.linear import Linear
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.errors import ReadoffError
from readoff.engine.loading import (
    check_quantisation,
    is_quantised,
    load_backbone,
    packing_serves,
    quantise_linears,
)
from readoff.kernels.dispatch import OPS
from readoff.kernels.linear import Kind, int8, linear, quantise
from readoff.kernels.linear.cpu import packable
from tests.kernels.forests import relative_error
from tests.models import ARCHITECTURES, Architecture, save_tiny, tiny_model

from .build import backbone_of, logits_of, random_ids

CPU = torch.device("cpu")
needs_vnni = pytest.mark.skipif(not int8.vnni()[0], reason=int8.vnni()[1])


def layer(bias: bool = True) -> tuple[Linear, torch.Tensor]:
    """A layer of two projections with random weights, and its weight."""
    torch.manual_seed(0)
    made = Linear(32, [40, 24], bias=bias)
    for parameter in made.parameters():
        parameter.data.normal_()
    return made, made.weight.detach().clone()


@torch.inference_mode()
def test_a_layer_says_how_it_is_kept() -> None:
    made, weight = layer()
    assert (made.layout, made.is_packed) == ("plain", False)
    assert torch.equal(made.dense(), weight)
    made.pack()
    assert made.is_packed == packable(weight)
    assert made.layout == ("packed" if packable(weight) else "plain")
    assert torch.equal(made.dense(), weight)


@pytest.mark.parametrize("first", ["plain", "packed"])
@pytest.mark.parametrize("kind", ["int8", "fp8"])
@torch.inference_mode()
def test_a_quantised_layer_keeps_8_bits_only(kind: Kind, first: str) -> None:
    made, weight = layer()
    if first == "packed":
        made.pack()
    made.quantise(kind)
    assert (made.layout, made.is_packed) == (kind, False)
    assert made.weight.numel() == 0
    assert torch.equal(made.dense(), quantise(weight, kind).dense())
    x = torch.randn(5, 32)
    with linear.use("reference"):
        found = made(x)
    assert 1e-4 < relative_error(found, torch.nn.functional.linear(x, weight, made.bias)) < 0.1


@needs_vnni
@torch.inference_mode()
def test_the_cpu_multiplies_int8() -> None:
    made, _ = layer()
    made.quantise("int8")
    before = linear.calls.copy()
    x = torch.randn(5, 32)
    found = made(x)
    assert linear.calls - before == {"int8": 1}
    with linear.use("reference"):
        assert relative_error(found, made(x)) <= 5e-7


@needs_vnni
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.inference_mode()
def test_a_loaded_backbone_in_int8(architecture: Architecture, tmp_path: Path) -> None:
    save_tiny(tmp_path, architecture)
    checkpoint = open_checkpoint(tmp_path)
    exact = load_backbone(checkpoint, torch.float32, CPU)
    backbone = load_backbone(checkpoint, torch.float32, CPU, "int8")
    layouts = {name: m.layout for name, m in backbone.named_modules() if isinstance(m, Linear)}
    assert set(layouts.values()) <= {"int8", "packed", "plain"}
    for name, layout in layouts.items():
        assert (layout == "int8") == is_quantised(name, "int8"), name
    chains = [[random_ids(70), random_ids(9, seed=1)], [random_ids(70), random_ids(3, seed=2)]]
    before = OPS["linear"].calls.copy()
    found, wanted = logits_of(backbone, chains), logits_of(exact, chains)
    ran = OPS["linear"].calls - before
    assert ran["int8"] == sum(layout == "int8" for layout in layouts.values())
    # Seven bits and a sign in every operand of every layer: near, and not the same.
    assert 1e-4 < relative_error(found, wanted) < 0.15


@pytest.mark.parametrize("kind", ["int8", "fp8"])
@torch.inference_mode()
def test_kept_layers_give_the_exact_rows_their_share(kind: Kind) -> None:
    """What is named stays as it was, to the bit; everything else changes."""
    backbone = backbone_of(tiny_model("qwen2"), pack=False)
    before = {n: m.dense().clone() for n, m in backbone.named_modules() if isinstance(m, Linear)}
    quantise_linears(backbone, kind)
    same = {
        n: torch.equal(m.dense(), before[n])
        for n, m in backbone.named_modules()
        if isinstance(m, Linear)
    }
    assert same == {name: not is_quantised(name, kind) for name in before}
    assert any(is_quantised(name, kind) for name in before)


def test_what_cannot_be_multiplied_is_refused_before_anything_loads(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen2")
    checkpoint = open_checkpoint(tmp_path)
    with pytest.raises(ReadoffError, match=r"fp8 weights can't be multiplied here.*CUDA"):
        load_backbone(checkpoint, torch.bfloat16, CPU, "fp8")
    with pytest.raises(ReadoffError, match='no quantisation "int4"; use one of int8, fp8'):
        load_backbone(checkpoint, torch.bfloat16, CPU, "int4")  # type: ignore[arg-type]
    with linear.use("reference"):
        assert isinstance(load_backbone(checkpoint, torch.float32, CPU, "fp8"), Backbone)


def test_a_processor_without_the_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with linear.use("plain"), pytest.raises(ReadoffError, match="int8 weights can't"):
        check_quantisation("int8", torch.bfloat16, CPU)


def test_packed_weights_serve_the_fixed_order_too() -> None:
    with linear.use("tiled"):
        assert packing_serves(torch.float32, CPU)
    with linear.use("plain"):
        assert not packing_serves(torch.float32, CPU)
