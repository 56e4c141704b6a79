"""Training beside frozen weights in 8 bits: what is multiplied, how near it is, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from readoff.engine.backbones.linear import Linear
from readoff.engine.errors import ReadoffError
from readoff.kernels.dispatch import use
from readoff.kernels.linear import int8, linear, quantise
from readoff.kernels.linear.quantised import quantise_rows
from readoff.learn.errors import TrainingError
from readoff.learn.lora import Lora, LoraLinear, Projection
from readoff.learn.settings import Settings
from tests.engine.models_on_disk import save_decider

from .rig import example, gradients, lines_of, load, randomise
from .trainings import ADAPTER, SMALL, curve, run

needs_vnni = pytest.mark.skipif(not int8.vnni()[0], reason=int8.vnni()[1])


def rounded(x: torch.Tensor) -> torch.Tensor:
    """What 8 bits and a scale for each row keep of x."""
    values, scales = quantise_rows(x, "int8")
    return values.float() * scales[:, None]


@needs_vnni
@pytest.mark.parametrize("ahead", [True, False])
def test_a_layer_is_the_product_of_rounded_numbers(ahead: bool) -> None:
    torch.manual_seed(0)
    base = Linear(24, (10, 6))
    torch.nn.init.normal_(base.weight)
    w = base.weight.detach().clone()
    parts = [Projection("q_proj", 0, 10), Projection("k_proj", 10, 16)]
    layer = LoraLinear(base, parts, 3, 6.0, 0, "int8", ahead)
    for b in layer.b:
        torch.nn.init.normal_(b)
    x = torch.randn(40, 24, requires_grad=True)
    g = torch.randn(40, 16)
    before = linear.calls.copy()
    y = layer(x)
    y.backward(g)
    products = linear.calls - before
    assert products["int8"] == 1 + ahead
    assert base.layout == ("int8" if ahead else "packed")

    pairs = [2.0 * b @ a for a, b in zip(layer.a, layer.b, strict=True)]
    change = torch.cat(pairs).detach()  # [16, 24]
    wanted = rounded(x.detach()) @ rounded(w).t() if ahead else x.detach() @ w.t()
    torch.testing.assert_close(y.detach(), wanted + x.detach() @ change.t(), rtol=1e-4, atol=1e-4)
    back = rounded(g) @ rounded(w.t()).t() + g @ change
    torch.testing.assert_close(x.grad, back, rtol=1e-4, atol=1e-4)
    # The matrices that are trained, and their gradients, are never rounded.
    torch.testing.assert_close(layer.a[0].grad, 2.0 * layer.b[0].t() @ g[:, :10].t() @ x.detach())
    torch.testing.assert_close(layer.b[1].grad, 2.0 * g[:, 10:].t() @ (x.detach() @ layer.a[1].t()))


@needs_vnni
@pytest.mark.parametrize("architecture", ["qwen2", "qwen3_5"])
def test_gradients_are_those_of_the_reference(architecture: str, tmp_path: Path) -> None:
    save_decider(tmp_path, architecture)
    backbone, renderer = load(tmp_path)
    groups = lines_of(renderer, [example("Paid twice."), example(["First part.", "then"])])
    lora = Lora(backbone, rank=2, quantize="int8")
    randomise(lora)
    before = linear.calls.copy()
    found = gradients(backbone, lora, groups)
    assert (linear.calls - before)["int8"] == _expected(lora)
    with use("reference", "linear"):
        wanted = gradients(backbone, lora, groups)
    assert (linear.calls - before)["int8"] == _expected(lora)
    plain, _ = load(tmp_path)
    exact = Lora(plain, rank=2)
    randomise(exact)
    one, other, unrounded = (
        torch.cat([g.flatten() for g in grads.values()])
        for grads in (found, wanted, gradients(plain, exact, groups))
    )
    # Both add in another order, and a sum that ends on the other side of a half is a whole step of
    # the next product's 127: 0.01 here. Not rounding at all is twenty times as far.
    assert (one - other).norm() <= 0.03 * other.norm()
    assert (unrounded - other).norm() >= 0.2 * other.norm()


def _expected(lora: Lora) -> int:
    """Every layer forward but the last ones of the MLPs; back every layer but the first, since
    there is nothing to train before it."""
    ahead = sum(layer.projections[0].kind != "down_proj" for layer in lora.layers)
    return ahead + len(lora.layers) - 1


@needs_vnni
def test_a_task_is_learnt_and_said_how(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    save_decider(model, "qwen2", layers=2)
    settings = replace(SMALL, quantize="int8", epochs=5, eval_every=10)
    found = [run(model, data, tmp_path / name, settings) for name in ("one", "two")]
    told = found[0].document
    assert told["facts"]["quantize"] == "int8"
    assert told["valid"]["best"]["nll"] < 0.7 * told["valid"]["before"]["nll"]
    assert curve(found[0]) == curve(found[1])
    one, two = ((tmp_path / name / ADAPTER).read_bytes() for name in ("one", "two"))
    assert one == two


def test_no_product_in_8_bits(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_chosen", {})
    monkeypatch.setattr(int8, "vnni", lambda: (False, "the processor has no AVX512-VNNI"))
    with pytest.raises(ReadoffError, match="no AVX512-VNNI"):
        run(model, data, tmp_path / "out", replace(SMALL, quantize="int8"))
    assert not (tmp_path / "out").exists()


def test_another_width_is_refused() -> None:
    with pytest.raises(TrainingError, match='not in "fp8"'):
        Settings(quantize="fp8")


def test_weights_that_are_turned_are_rounded_by_column() -> None:
    w = torch.randn(5, 7)
    turned = quantise(w.t(), "int8")
    assert turned.shape == (7, 5)
    torch.testing.assert_close(turned.dense(), rounded(w.t()))
