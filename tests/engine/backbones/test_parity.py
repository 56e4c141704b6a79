"""The backbones against transformers, every parameter randomised."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from readoff.engine.forest import Forest
from readoff.kernels.dispatch import OPS, use
from tests.kernels.forests import relative_error
from tests.models import tiny_model

from .build import backbone_of, chains_batch, logits_of, random_ids

LENGTHS = (1, 2, 3, 4, 5, 63, 64, 65, 200)

MODELS: dict[str, dict[str, Any]] = {
    "qwen2": {"architecture": "qwen2"},
    "qwen2 untied": {"architecture": "qwen2", "tied": False},
    "qwen3": {"architecture": "qwen3"},
    "qwen3 untied": {"architecture": "qwen3", "tied": False, "layers": 2},
    "qwen3.5": {"architecture": "qwen3_5", "layers": 8},
    "qwen3.5 untied": {"architecture": "qwen3_5", "tied": False},
    "qwen3.5 as many value as key heads": {"architecture": "qwen3_5", "value_heads": 2},
    "qwen3.5 ends in a recurrent layer": {"architecture": "qwen3_5", "layers": 6},
}
TRUE_HEADS: dict[str, Any] = {
    "architecture": "qwen3_5",
    "hidden": 128,
    "head_dim": 64,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}
MODELS["qwen3.5, 16 value heads"] = TRUE_HEADS | {"value_heads": 16}
MODELS["qwen3.5, 32 value heads"] = TRUE_HEADS | {"value_heads": 32}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("pack", [True, False], ids=["packed", "plain"])
def test_logits_equal_transformers_in_fp32(options: dict[str, Any], pack: bool) -> None:
    model = tiny_model(**options)
    backbone = backbone_of(model, pack=pack)
    ran = OPS["linear"].calls.copy()
    for length in LENGTHS:
        ids = random_ids(length, seed=length)
        with torch.no_grad():
            wanted = model(torch.tensor([ids])).logits[0]
            forest = Forest()
            leaf = forest.add([ids])
            for offset in range(length):  # every position, not only the last one
                forest.read(leaf, range(512), offset=offset)
            batch = forest.batch()
            found = backbone.readout(backbone(batch), batch).logits.view(length, 512)
        assert relative_error(found, wanted) <= 1e-4
    ran = OPS["linear"].calls - ran
    assert set(ran) == {"onednn" if backbone.layout == "packed" else "plain"}


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen3_5"])
def test_the_references_alone_equal_transformers(architecture: Any) -> None:
    """The same pass with every operator's naive form: the slow road is right as well."""
    model = tiny_model(architecture)
    backbone = backbone_of(model, pack=False)
    ids = random_ids(70)
    with use("reference"):
        found = logits_of(backbone, [[ids[:30], ids[30:]]])
    with torch.no_grad():
        wanted = model(torch.tensor([ids])).logits[0, -1:]
    assert relative_error(found, wanted) <= 1e-4


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen3_5"])
def test_bf16_is_no_further_from_fp32_than_transformers_bf16(architecture: Any) -> None:
    """The stated bound: root mean square error at most 1.25 times that of transformers in bf16."""
    model = tiny_model(architecture)
    chains = [[random_ids(n, seed=n)] for n in (5, 64, 100, 200)]
    wanted = logits_of(backbone_of(model), chains)
    rounded = model.to(torch.bfloat16)
    exact = logits_of(backbone_of(rounded), chains)  # fp32 arithmetic on the rounded weights
    assert relative_error(exact, wanted) > 1e-4  # so that there is something to compare
    ours = logits_of(backbone_of(rounded, torch.bfloat16), chains)
    with torch.no_grad():
        theirs = torch.stack([rounded(torch.tensor([c[0]])).logits[0, -1] for c in chains])
    error_of_ours = (ours - exact).square().mean().sqrt()
    error_of_theirs = (theirs.float() - exact).square().mean().sqrt()
    assert error_of_ours <= 1.25 * error_of_theirs


def test_fp16_stays_near_fp32() -> None:
    for architecture in ("qwen2", "qwen3", "qwen3_5"):
        model = tiny_model(architecture)  # type: ignore[arg-type]
        chains = [[random_ids(100), random_ids(7)]]
        wanted = logits_of(backbone_of(model), chains)
        found = logits_of(backbone_of(model, torch.float16), chains)
        assert relative_error(found, wanted) <= 2e-2


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen3_5"])
def test_gradients_equal_those_of_transformers(architecture: Any) -> None:
    model = tiny_model(architecture)
    backbone = backbone_of(model, pack=False).requires_grad_()
    ids = random_ids(70)
    batch = chains_batch([[ids[:64], ids[64:]]])
    out = backbone.readout(backbone(batch), batch).logits
    out.logsumexp(0).backward()
    model.requires_grad_()
    model(torch.tensor([ids])).logits[0, -1].logsumexp(0).backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    embedding = backbone.embedding.grad
    assert embedding is not None
    assert relative_error(embedding, wanted["model.embed_tokens.weight"]) <= 1e-4
    for index, layer in enumerate(backbone.layers):
        pairs = {"input_norm": "input_layernorm", "mlp.down": "mlp.down_proj"}
        for ours, theirs in pairs.items():
            module = layer.get_submodule(ours) if "." in ours else layer
            name = "weight" if "." in ours else ours
            found = getattr(module, name).grad
            assert relative_error(found, wanted[f"model.layers.{index}.{theirs}.weight"]) <= 1e-4


def test_the_last_layer_computes_read_rows_only() -> None:
    """Of 200 tokens one is read: the last layer's query, output and MLP see one row."""
    from readoff.engine.backbones.decoder import Layer

    backbone = backbone_of(tiny_model("qwen3"), pack=False)
    rows: dict[str, int] = {}

    def watch(name: str) -> Any:
        def hook(module: torch.nn.Module, args: tuple[torch.Tensor, ...], out: Any) -> None:
            rows[name] = len(args[0])

        return hook

    last = backbone.layers[-1]
    assert isinstance(last, Layer)
    for name in ("mixer.q", "mixer.kv", "mixer.o", "mlp.gate_up", "mlp.down"):
        last.get_submodule(name).register_forward_hook(watch(name))
    logits_of(backbone, [[random_ids(200)]])
    assert rows == {"mixer.q": 1, "mixer.kv": 200, "mixer.o": 1, "mlp.gate_up": 1, "mlp.down": 1}


def test_legal_mass_is_the_share_of_the_full_softmax() -> None:
    model = tiny_model("qwen2", tied=False)
    backbone = backbone_of(model)
    chains = [[random_ids(9)], [random_ids(9), random_ids(4, seed=1)]]
    batch = chains_batch(chains, [3, 5, 8])
    partition = OPS["log_partition"].calls["torch"]
    with torch.no_grad():
        hidden = backbone(batch)
        assert backbone.readout(hidden, batch).legal_mass is None
        assert OPS["log_partition"].calls["torch"] == partition  # the full head was left alone
        found = backbone.readout(hidden, batch, legal_mass=True).legal_mass
        whole = [tuple(i for piece in chain for i in piece) for chain in chains]
        full = [model(torch.tensor([ids])).logits[0, -1].softmax(-1) for ids in whole]
    assert found is not None
    wanted = torch.stack([p[[3, 5, 8]].sum() for p in full])
    assert relative_error(found, wanted) <= 1e-4
