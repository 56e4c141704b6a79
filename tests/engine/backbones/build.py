"""Backbones of the tiny models, and passes over token ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch
from readoff.engine.config import ModelConfig
from readoff.engine.forest import Forest

Ids = tuple[int, ...]


class StateDict:
    """The weights of a transformers model, as a backbone loads them."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._tensors = model.state_dict()

    @torch.no_grad()
    def copy_into(self, name: str, dest: torch.Tensor) -> None:
        assert self._tensors[name].shape == dest.shape
        dest.copy_(self._tensors[name])


def backbone_of(
    model: PreTrainedModel, dtype: torch.dtype = torch.float32, pack: bool = True
) -> Backbone:
    config = ModelConfig.from_hf(model.config.to_dict())
    return Backbone.load(config, StateDict(model), dtype, torch.device("cpu"), pack=pack)


def random_ids(length: int, seed: int = 0, vocab: int = 512) -> Ids:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, vocab, (length,), generator=generator).tolist())


def chains_batch(chains: Sequence[Sequence[Ids]], labels: Sequence[int] = range(512)) -> Batch:
    """One read at the end of every chain."""
    forest = Forest()
    for chain in chains:
        forest.read(forest.add(chain), labels)
    return forest.batch()


@torch.no_grad()
def logits_of(backbone: Backbone, chains: Sequence[Sequence[Ids]]) -> torch.Tensor:
    """Full-vocabulary logits at the end of every chain, [N, vocab]."""
    batch = chains_batch(chains, range(backbone.config.vocab_size))
    logits = backbone.readout(backbone(batch), batch).logits
    return logits.view(len(chains), backbone.config.vocab_size)


@torch.no_grad()
def probabilities_of(backbone: Backbone, chains: Sequence[Sequence[Ids]]) -> torch.Tensor:
    """Probabilities of twelve labels at the end of every chain, [N, 12]."""
    batch = chains_batch(chains, range(40, 52))
    return backbone.readout(backbone(batch), batch).probabilities.view(len(chains), 12)
