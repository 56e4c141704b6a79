"""A forward pass that holds one layer at a time: for models larger than the memory, run once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from readoff.engine.backbones.decoder import Layer
from readoff.engine.backbones.traits import TRAITS
from readoff.engine.batch import Batch, Readout
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.parameters import EMBEDDING, HEAD
from readoff.engine.pools import TransientPools
from readoff.kernels.label_readout import label_readout

_CPU = torch.device("cpu")


@dataclass
class _Pass:
    """One batch on its way through the layers. `x` and `residual` [T, H] are two summands; the
    rotary `cos` and `sin` are [T, R/2]."""

    batch: Batch
    x: torch.Tensor
    residual: torch.Tensor | None
    cos: torch.Tensor
    sin: torch.Tensor
    pools: TransientPools


@torch.no_grad()
def streamed_readouts(
    checkpoint: Checkpoint,
    batches: Sequence[Batch],
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Readout]:
    """What `Backbone` reads from each of `batches`, in fp32 on the CPU; no legal mass.

    Each layer is loaded, run on one batch after the other and dropped; of embedding and head only
    the rows that the batches need are read. `progress(layers done, layers)` is called after each
    layer.
    """
    config = checkpoint.config
    traits = TRAITS[config.architecture]
    # One layer more, so that none is the last, whose attention is made of other parts.
    open_ended = replace(config, num_layers=config.num_layers + 1)
    passes = [_start(checkpoint, batch) for batch in batches]
    layer: Layer | None = None
    for index in range(config.num_layers):
        kinds = config.layer_types
        if layer is not None and kinds[layer.index] == kinds[index]:
            layer.index = index  # its memory is written again
        else:
            layer = None  # before the next one is made
            layer = Layer(open_ended, traits, index)
        layer.load(checkpoint)
        for one in passes:
            one.x, one.residual = layer(one.x, one.residual, one.batch, one.cos, one.sin, one.pools)
        progress(index + 1, config.num_layers)
    return [_finish(checkpoint, one) for one in passes]


def _start(checkpoint: Checkpoint, batch: Batch) -> _Pass:
    config = checkpoint.config
    half = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32)
    frequency = 1.0 / (config.rope_theta ** (half / config.rotary_dim))
    angle = batch.positions.float()[:, None] * frequency  # [T, R/2]
    ids, places = batch.tokens.unique(return_inverse=True)
    x = _rows(checkpoint, EMBEDDING, ids)[places]  # [T, H]
    pools = TransientPools(config, batch.kv_slots, batch.state_slots, torch.float32, _CPU)
    return _Pass(batch, x, None, angle.cos(), angle.sin(), pools)


def _finish(checkpoint: Checkpoint, one: _Pass) -> Readout:
    config, batch = checkpoint.config, one.batch
    hidden = one.x[batch.rows]  # [N, H]
    if one.residual is not None:
        hidden += one.residual[batch.rows]
    norm = torch.empty(config.hidden_size)
    checkpoint.copy_into("model.norm.weight", norm)
    ids, places = batch.label_ids.unique(return_inverse=True)
    head = _rows(checkpoint, EMBEDDING if config.tie_word_embeddings else HEAD, ids)
    logits, probabilities, *_ = label_readout(
        hidden,
        head,
        torch.arange(len(hidden)),
        norm,
        config.rms_norm_eps,
        TRAITS[config.architecture].plus_one,
        batch.label_offsets,
        places,
        batch.prior,
        batch.temperature,
    )
    return Readout(logits, probabilities, None)


def _rows(checkpoint: Checkpoint, name: str, ids: torch.Tensor) -> torch.Tensor:
    """Rows `ids` of a matrix, [len(ids), H] fp32. An adapter's part is in them."""
    return torch.cat([checkpoint.read_rows(name, i, i + 1).float() for i in ids.tolist()])
