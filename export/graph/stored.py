"""`Stored`: initializers that are read from the checkpoint when the file is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO, Any

import numpy as np
import onnx_ir as ir
import torch
from numpy.typing import NDArray

from readoff.engine.checkpoint import LARGE_BLOCK, Checkpoint, row_blocks
from readoff.engine.parameters import Shape

Array = NDArray[Any]


class Stored(ir.LazyTensor):
    """A tensor that `blocks` yields in pieces along its first axis, each time it is wanted.

    Written to a file it never exists as a whole, where the pieces are small.
    """

    def __init__(
        self, blocks: Callable[[], Iterable[Array]], dtype: ir.DataType, shape: Shape
    ) -> None:
        super().__init__(self._whole, dtype, ir.Shape(shape))
        self.blocks = blocks

    def _whole(self) -> ir.TensorProtocol:
        return ir.tensor(np.concatenate(list(self.blocks())))

    def tofile(self, file: IO[bytes]) -> None:
        """Write the little-endian bytes."""
        for block in self.blocks():
            file.write(block.astype(block.dtype.newbyteorder("<"), copy=False).tobytes())


class Tensors:
    """The tensors of a checkpoint as initializers, in fp32 or fp16."""

    def __init__(self, checkpoint: Checkpoint, half: bool = False) -> None:
        self.checkpoint = checkpoint
        self.dtype = ir.DataType.FLOAT16 if half else ir.DataType.FLOAT
        self._numpy: type[np.generic] = np.float16 if half else np.float32

    def read(self, name: str) -> torch.Tensor:
        """A whole tensor in fp32."""
        made = torch.empty(self.checkpoint.shape(name))
        self.checkpoint.copy_into(name, made)
        return made

    def rows(self, name: str) -> Iterable[Array]:
        """A tensor in fp32, some rows at a time."""
        for start, stop in row_blocks(self.checkpoint.shape(name), LARGE_BLOCK):
            yield self.checkpoint.read_rows(name, start, stop).float().numpy()

    def picked(self, name: str, ids: tuple[int, ...]) -> Stored:
        """The rows `ids` of a matrix, [len(ids), columns] fp32."""

        def blocks() -> Iterable[Array]:
            for i in ids:
                yield self.checkpoint.read_rows(name, i, i + 1).float().numpy()

        return Stored(blocks, ir.DataType.FLOAT, (len(ids), self.checkpoint.shape(name)[1]))

    def table(self, name: str) -> Stored:
        """A matrix whose rows are looked up, as it is stored: [rows, columns]."""

        def blocks() -> Iterable[Array]:
            return (block.astype(self._numpy) for block in self.rows(name))

        return Stored(blocks, self.dtype, self.checkpoint.shape(name))

    def transposed(self, name: str) -> Stored:
        """The weight of a linear layer as MatMul takes it: [in, out]."""
        out_features, in_features = self.checkpoint.shape(name)

        def blocks() -> Iterable[Array]:
            yield np.ascontiguousarray(self.read(name).numpy().T).astype(self._numpy)

        return Stored(blocks, self.dtype, (in_features, out_features))

    def small(self, name: str, shape: Shape, change: Callable[[Array], Array]) -> Stored:
        """A small tensor, changed and reshaped: [shape] fp32."""

        def blocks() -> Iterable[Array]:
            yield change(self.read(name).numpy()).reshape(shape).astype(np.float32)

        return Stored(blocks, ir.DataType.FLOAT, shape)

    def vector(self, name: str, plus: float = 0.0) -> Stored:
        """A bias or the weight of a norm, with `plus` added: [n] fp32."""
        return self.small(name, self.checkpoint.shape(name), lambda x: x + np.float32(plus))
