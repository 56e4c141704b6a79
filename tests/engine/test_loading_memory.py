"""Loading peaks at no more than 1.3 times the weights, in anonymous memory (mapped files aside)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from readoff.engine.config import ModelConfig
from readoff.engine.parameters import EMBEDDING, parameter_shapes

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is read from Linux's /proc"
)

LIMIT = 1.3

# In an interpreter of its own, so that nothing else's memory is counted.
LOADER = """
import json, sys, threading, time
import torch
from readoff.engine.source import resolve

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

samples = []
done = threading.Event()
def watch():
    while not done.is_set():
        samples.append(anonymous())
        time.sleep(0.002)

source, adapter, dtype = sys.argv[1], sys.argv[2] or None, getattr(torch, sys.argv[3])
torch.ones(1 << 20).to(dtype).sum()  # what torch needs once, whatever is loaded
before = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
checkpoint = resolve(source, adapter)
tensors = {name: torch.empty(checkpoint.shape(name), dtype=dtype) for name in checkpoint.names()}
for name, tensor in tensors.items():
    checkpoint.copy_into(name, tensor)
done.set()
watcher.join()
size = sum(tensor.nbytes for tensor in tensors.values())
print(json.dumps({"weights": size, "peak": max([*samples, anonymous()]) - before}))
"""


def peak_over_weights(source: Path, adapter: Path | None, dtype: str) -> float:
    run = subprocess.run(
        [sys.executable, "-c", LOADER, str(source), str(adapter or ""), dtype],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(run.stdout)
    print(result)
    assert result["weights"] > 100 << 20
    ratio: float = result["peak"] / result["weights"]
    return ratio


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """78 million weights in bf16, half of them in the embedding."""
    path = tmp_path_factory.mktemp("large")
    config = {
        "model_type": "qwen2",
        "vocab_size": 60_000,
        "hidden_size": 640,
        "intermediate_size": 2560,
        "num_hidden_layers": 6,
        "num_attention_heads": 10,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "tie_word_embeddings": True,
    }
    (path / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(0)
    shapes = parameter_shapes(ModelConfig.from_hf(config))
    tensors = {
        name: torch.rand(shape, generator=generator).bfloat16() for name, shape in shapes.items()
    }
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.fixture(scope="module")
def adapter(folder: Path) -> Path:
    """An adapter on every linear layer and on the embedding, with rank 8."""
    path = folder / "adapter"
    path.mkdir()
    config = ModelConfig.from_hf(json.loads((folder / "config.json").read_text()))
    tensors: dict[str, torch.Tensor] = {}
    for name, shape in parameter_shapes(config).items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        if name == EMBEDDING:
            tensors[f"{module}.lora_embedding_A"] = torch.ones(8, shape[0])
            tensors[f"{module}.lora_embedding_B"] = torch.ones(shape[1], 8)
        elif len(shape) == 2:
            tensors[f"{module}.lora_A.weight"] = torch.ones(8, shape[1])
            tensors[f"{module}.lora_B.weight"] = torch.ones(shape[0], 8)
    save_file(tensors, path / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "r": 8,
        "lora_alpha": 8,
        "target_modules": r".*(_proj|embed_tokens)",
    }
    (path / "adapter_config.json").write_text(json.dumps(settings))
    return path


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_folder(folder: Path, dtype: str) -> None:
    assert peak_over_weights(folder, None, dtype) <= LIMIT


def test_a_folder_with_an_adapter(folder: Path, adapter: Path) -> None:
    assert peak_over_weights(folder, adapter, "bfloat16") <= LIMIT


def test_the_demonstration_model(demo_checkpoint: Path) -> None:
    assert peak_over_weights(demo_checkpoint, None, "bfloat16") <= LIMIT
