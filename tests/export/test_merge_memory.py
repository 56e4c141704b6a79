"""Merging holds less than one and a half weights files of anonymous memory, whatever the model.

Mapped files aside, and what Python and torch take anyhow.
"""

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
from tests import tokenizers
from tests.engine.models_on_disk import CHATML

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is read from Linux's /proc"
)

LIMIT = 1.5

# In an interpreter of its own, so that nothing else's memory is counted.
MERGER = """
import json, sys, threading, time
from pathlib import Path
import torch
from readoff.export.merge import merge

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) * 1024

samples = []
done = threading.Event()
def watch():
    while not done.is_set():
        samples.append(anonymous())
        time.sleep(0.002)

base, adapter, out, shard, warm = sys.argv[1:]
torch.set_num_threads(1)
merge(warm + "/base", [warm + "/adapter"], warm + "/out", progress=False)  # libraries, first uses
before = anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
merged = merge(base, [adapter], out, max_shard_size=int(shard), progress=False)
done.set()
watcher.join()
told = {"weights": merged.nbytes, "files": merged.files, "samples": len(samples)}
print(json.dumps(told | {"peak": max([*samples, anonymous()]) - before}))
"""


def save_base(path: Path, vocab: int, hidden: int, inner: int, layers: int) -> None:
    """A seeded bf16 model of so many numbers, and an adapter of rank 8 on all of its matrices."""
    config = {
        "model_type": "qwen2",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    base, adapter = path / "base", path / "adapter"
    base.mkdir(parents=True)
    adapter.mkdir()
    (base / "config.json").write_text(json.dumps(config))
    tokenizers.save_tiny(base, CHATML)
    generator = torch.Generator().manual_seed(0)
    tensors, changes = {}, {}
    for name, shape in parameter_shapes(ModelConfig.from_hf(config)).items():
        noise = torch.randn(shape, generator=generator) / shape[-1] ** 0.5
        tensors[name] = (noise + float("norm" in name)).bfloat16()
        module = f"base_model.model.{name.removesuffix('.weight')}"
        if name == EMBEDDING:
            changes[f"{module}.lora_embedding_A"] = torch.full((8, shape[0]), 0.01)
            changes[f"{module}.lora_embedding_B"] = torch.full((shape[1], 8), 0.01)
        elif len(shape) == 2:
            changes[f"{module}.lora_A.weight"] = torch.full((8, shape[1]), 0.01)
            changes[f"{module}.lora_B.weight"] = torch.full((shape[0], 8), 0.01)
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    save_file(changes, adapter / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "r": 8,
        "lora_alpha": 8,
        "target_modules": r".*(_proj|embed_tokens)",
    }
    (adapter / "adapter_config.json").write_text(json.dumps(settings))


def peak(folder: Path, shard: int) -> dict[str, int]:
    """What merging `folder`/large into files of `shard` bytes took."""
    save_base(folder / "warm", 512, 128, 256, 1)
    large = folder / "large"
    arguments = [large / "base", large / "adapter", large / "out", shard, folder / "warm"]
    run = subprocess.run(
        [sys.executable, "-c", MERGER, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, int] = json.loads(run.stdout)
    print(told)
    return told


def test_a_model_of_several_files(tmp_path: Path) -> None:
    shard = 100 << 20
    save_base(tmp_path / "large", 60_000, 768, 3072, 5)
    told = peak(tmp_path, shard)
    assert told["weights"] > 200 << 20  # the head is untied by the adapter on the embedding
    assert told["files"] == 3
    assert told["peak"] <= LIMIT * shard


@pytest.mark.slow
def test_a_model_of_more_than_a_gigabyte(tmp_path: Path) -> None:
    shard = 200 << 20
    save_base(tmp_path / "large", 100_000, 1536, 6144, 14)
    told = peak(tmp_path, shard)
    assert told["weights"] > 1_300_000_000
    assert told["peak"] <= LIMIT * shard
