"""`GgufCheckpoint`: a dense Qwen2/Qwen2.5/Qwen3 model in one GGUF file."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import torch

from readoff.engine.cache import cache_folder
from readoff.engine.checkpoint import Checkpoint, HeadChoice, digest_files
from readoff.engine.compute import on_compute_thread
from readoff.engine.config import Architecture, ModelConfig
from readoff.engine.dequantise import dequantise, is_readable
from readoff.engine.errors import CheckpointError
from readoff.engine.gguf_file import GgufFile, GgufTensor
from readoff.engine.gguf_tokenizer import tokenizer_folder
from readoff.engine.parameters import EMBEDDING, HEAD, Shape, check_parameters

_ARCHITECTURES: dict[str, Architecture] = {"qwen2": "qwen2", "qwen3": "qwen3"}
_TOP = {
    "token_embd.weight": EMBEDDING,
    "output_norm.weight": "model.norm.weight",
    "output.weight": HEAD,
}
# llama.cpp keeps the rows of Qwen's query and key matrices as they are: nothing is permuted.
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SAME_MATRIX = 0.99  # correlation; two quantisations of one matrix exceed it, two matrices don't
_SAMPLE_EVERY = 97  # rows of the vocabulary looked at to tell


class GgufCheckpoint(Checkpoint):
    """A GGUF file, mapped; blocks are dequantised as rows are asked for.

    Converters write a tied model's one matrix twice, the output copy less coarsely. `head` says
    what to make of that: "auto" ties the two when they are quantisations of one matrix (their
    correlation tells) and then reads the finer copy for both; "tie" always does; "untie" keeps
    both as stored, which is what llama.cpp computes. A file with one matrix is tied in any case.
    """

    def __init__(self, path: Path, *, head: HeadChoice = "auto") -> None:
        self.path = path
        file = GgufFile(path)
        metadata = _Metadata(file)
        self._tokenizer_key = file.header_digest
        self._digest: str | None = None
        self._head: HeadChoice = head
        self._stored: dict[str, GgufTensor] = {}
        for tensor in file.tensors.values():
            if not is_readable(tensor.kind):
                raise CheckpointError(
                    f"{path}: {tensor.name} has the unreadable type {tensor.kind}."
                )
            self._stored[_name(tensor.name)] = tensor
        # A private mapping: pages stay the file's, and torch gets memory it believes writable.
        size = path.stat().st_size
        self._bytes = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
        vocab_size = self._vocab_size()
        tied = on_compute_thread(partial(self._tie, head))  # it may compare two matrices
        self.config = metadata.config(vocab_size, tied=tied)
        shapes = {name: tensor.shape for name, tensor in self._stored.items()}
        check_parameters(self.config, shapes, str(path))

    def _vocab_size(self) -> int:
        tensor = self._stored.get(EMBEDDING)
        if tensor is None:
            raise CheckpointError(f"{self.path}: token_embd.weight is missing. Download it again.")
        return tensor.shape[0]

    def _tie(self, head: HeadChoice) -> bool:
        embedding, output = self._stored[EMBEDDING], self._stored.get(HEAD)
        if output is None:
            return True
        if head == "untie" or output.shape != embedding.shape:
            return False
        if head == "auto":
            samples = torch.stack([self._sample(EMBEDDING), self._sample(HEAD)])
            if torch.corrcoef(samples)[0, 1] <= _SAME_MATRIX:
                return False
        if output.row_bytes > embedding.row_bytes:
            self._stored[EMBEDDING] = output
        del self._stored[HEAD]
        return True

    def _sample(self, name: str) -> torch.Tensor:
        tensor = self._stored[name]
        return dequantise(self._raw(tensor)[::_SAMPLE_EVERY].contiguous(), tensor.kind).flatten()

    def _raw(self, tensor: GgufTensor) -> torch.Tensor:
        """The stored bytes, uint8 [rows, row_bytes] (one row for a tensor with one axis)."""
        raw = self._bytes[tensor.offset : tensor.offset + tensor.nbytes]
        return raw.view(-1, tensor.row_bytes)

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        tensor = self._stored[name]
        raw = self._raw(tensor)
        if len(tensor.shape) == 1:
            return dequantise(raw, tensor.kind)[0, start:stop]
        shape: Shape = (stop - start, *tensor.shape[1:])
        return dequantise(raw[start:stop], tensor.kind).view(shape)

    def digest(self) -> str:
        if self._head == "auto":
            return self.weights_digest()
        return hashlib.sha256(f"{self.weights_digest()} head={self._head}".encode()).hexdigest()

    def weights_digest(self) -> str:
        """sha256 of the file itself, the hash that its publisher gives."""
        if self._digest is None:
            self._digest = digest_files([self.path])
        return self._digest

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.path.parent,)

    @property
    def tokenizer_files(self) -> Path:
        """The tokenizer inside the file, written to the user's cache on first use."""
        return tokenizer_folder(self.path, self._tokenizer_key, cache_folder())


def _name(stored: str) -> str:
    if stored in _TOP:
        return _TOP[stored]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", stored)
    if match is None or match[2] not in _LAYER:
        return stored  # unknown: check_parameters refuses it by this name
    return f"model.layers.{match[1]}.{_LAYER[match[2]]}.{match[3]}"


class _Metadata:
    """The file's metadata as a `ModelConfig`."""

    def __init__(self, file: GgufFile) -> None:
        self.path, self.values = file.path, file.metadata
        self.architecture = str(self.values.get("general.architecture"))
        if self.architecture not in _ARCHITECTURES:
            raise CheckpointError(
                f"{file.path}: the architecture {self.architecture!r} can't be read from GGUF, "
                f"only {' and '.join(_ARCHITECTURES)} (dense). Use a Hugging Face folder."
            )
        if self.values.get("split.count", 1) not in (0, 1):
            raise CheckpointError(
                f"{file.path} is one part of a split GGUF. Join the parts with "
                "`llama-gguf-split --merge` and use the result."
            )
        if self._get("expert_count", 0):
            raise CheckpointError(f"{file.path}: models with experts (MoE) aren't supported.")
        scaling = self._get("rope.scaling.type", "none")
        if scaling != "none":
            raise CheckpointError(
                f"{file.path}: rotary positions of type {scaling!r} aren't supported. Use the "
                "file without scaling."
            )

    def _get(self, key: str, default: Any = None) -> Any:
        return self.values.get(f"{self.architecture}.{key}", default)

    def config(self, vocab_size: int, *, tied: bool) -> ModelConfig:
        hidden, heads = self._get("embedding_length"), self._get("attention.head_count")
        head_dim = self._get("attention.key_length")
        if head_dim is None and isinstance(hidden, int) and isinstance(heads, int) and heads:
            head_dim = hidden // heads
        if self._get("attention.value_length", head_dim) != head_dim:
            raise CheckpointError(f"{self.path}: keys and values of different sizes.")
        if self._get("rope.dimension_count", head_dim) != head_dim:
            raise CheckpointError(f"{self.path}: partial rotary positions aren't supported.")
        epsilon = self._get("attention.layer_norm_rms_epsilon")
        fields = {
            "model_type": self.architecture,
            "vocab_size": vocab_size,
            "hidden_size": hidden,
            "intermediate_size": self._get("feed_forward_length"),
            "num_hidden_layers": self._get("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self._get("attention.head_count_kv"),
            "head_dim": head_dim,
            "max_position_embeddings": self._get("context_length"),
            # stored in fp32: 1e-6 comes back as 9.99999997e-07
            "rms_norm_eps": float(f"{epsilon:.6g}") if isinstance(epsilon, float) else epsilon,
            "rope_theta": self._get("rope.freq_base"),
            "tie_word_embeddings": tied,
        }
        return ModelConfig.from_hf(fields, f"{self.path} (GGUF metadata)")
