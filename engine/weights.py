"""`Weights`: the part of a checkpoint that a backbone loads from."""

from __future__ import annotations

from typing import Protocol

import torch


class Weights(Protocol):
    """Named tensors that are copied into memory the caller has prepared."""

    def copy_into(self, name: str, dest: torch.Tensor) -> None:
        """Fill `dest` with the tensor `name`, converted to dest's dtype.

        Raises:
            CheckpointError: the tensor is missing, has another shape, or can't be read.
        """
        ...
