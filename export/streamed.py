"""A forward pass that holds one layer at a time: for models larger than the memory, run once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from readoff.engine.backbones.decoder import Layer
from readoff.engine.backbones.traits import TRAITS
from readoff.engine.batch import Batch, Readout
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.parameters import EMBEDDING, HEAD
from readoff.engine.pools import TransientPools
from readoff.kernels.label_readout import label_readout

_CPU = torch.device("cpu")


@torch.no_grad()
def streamed_readout(
    checkpoint: Checkpoint,
    batch: Batch,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Readout:
    """What `Backbone` reads from `batch`, in fp32 on the CPU; no legal mass.

    Each layer is loaded, run and dropped; of embedding and head only the rows that the batch needs
    are read. `progress(layers done, layers)` is called after each layer.
    """
    config = checkpoint.config
    traits = TRAITS[config.architecture]
    pools = TransientPools(config, batch.kv_slots, batch.state_slots, torch.float32, _CPU)
    half = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32)
    frequency = 1.0 / (config.rope_theta ** (half / config.rotary_dim))
    angle = batch.positions.float()[:, None] * frequency  # [T, R/2]
    cos, sin = angle.cos(), angle.sin()

    ids, places = batch.tokens.unique(return_inverse=True)
    x, residual = _rows(checkpoint, EMBEDDING, ids)[places], None  # [T, H]
    for index in range(config.num_layers):
        layer = Layer(config, traits, index)
        layer.load(checkpoint)
        x, residual = layer(x, residual, batch, cos, sin, pools)
        del layer  # before the next one is made
        progress(index + 1, config.num_layers)
    hidden = x if residual is None else x + residual  # [N, H]

    norm = torch.empty(config.hidden_size)
    checkpoint.copy_into("model.norm.weight", norm)
    labels, places = batch.label_ids.unique(return_inverse=True)
    head = _rows(checkpoint, EMBEDDING if config.tie_word_embeddings else HEAD, labels)
    logits, probabilities, *_ = label_readout(
        hidden,
        head,
        torch.arange(len(hidden)),
        norm,
        config.rms_norm_eps,
        traits.plus_one,
        batch.label_offsets,
        places,
        batch.prior,
        batch.temperature,
    )
    return Readout(logits, probabilities, None)


def _rows(checkpoint: Checkpoint, name: str, ids: torch.Tensor) -> torch.Tensor:
    """Rows `ids` of a matrix, [len(ids), H] fp32. An adapter's part is in them."""
    return torch.cat([checkpoint.read_rows(name, i, i + 1).float() for i in ids.tolist()])
