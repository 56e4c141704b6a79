"""`Opponent`: a transformers model on the engine's weights, loaded when a rung first needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from readoff.bench.rungs.rung import UnavailableError
from readoff.engine.checkpoint import Checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Opponent:
    """One model for all rungs that measure transformers, in the engine's dtype by default.

    It runs in our process, so it profits from the heap that the engine keeps warm.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self.checkpoint = checkpoint
        self.dtype, self.device = dtype, device
        self._model: PreTrainedModel | None = None

    def model(self, rung: str) -> Any:
        """The model, in eval mode. Raises UnavailableError, naming `rung`, without transformers."""
        if self._model is None:
            try:
                from readoff.bench.transformers_model import transformers_model
            except ImportError as error:
                raise UnavailableError(
                    f"{rung} needs transformers ({error}): pip install 'readoff[torch]'"
                ) from error
            self._model = transformers_model(self.checkpoint, dtype=self.dtype, device=self.device)
        return self._model
