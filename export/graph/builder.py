"""`Builder`: adds nodes to a graph, named after the module they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

CONTRIB = "com.microsoft"
"""ONNX Runtime's own operators."""

Attribute = int | float | str | Sequence[int] | ir.Graph
Dimension = int | ir.Value


class Builder:
    """Appends nodes below the module path `path`; `within` gives a builder for a child module.

    Values are named like their node, `path/Operator`, numbered from the second of a name on.
    Constants are held once for the whole graph, also those used by loop bodies.
    """

    def __init__(self, path: str = "", parent: Builder | None = None) -> None:
        self.path = path
        self.nodes: list[ir.Node] = [] if parent is None else parent.nodes
        self.weights: dict[str, ir.Value] = {} if parent is None else parent.weights
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = (
            {} if parent is None else parent._constants
        )
        self._names: Counter[str] = Counter() if parent is None else parent._names

    def within(self, name: str) -> Builder:
        """A builder for the child module `name`, whose nodes go to the same graph."""
        return Builder(f"{self.path}.{name}" if self.path else name, self)

    def body(self, name: str) -> Builder:
        """A builder whose nodes are those of a loop body; constants stay in the outer graph."""
        inner = self.within(name)
        inner.nodes = []
        return inner

    def op(
        self,
        kind: str,
        *inputs: ir.Value | None,
        domain: str = "",
        output: str | None = None,
        **attributes: Attribute,
    ) -> ir.Value:
        """A node with one output, which is called `output` where that is given."""
        (value,) = self.ops(kind, *inputs, domain=domain, outputs=[output], **attributes)
        return value

    def ops(
        self,
        kind: str,
        *inputs: ir.Value | None,
        domain: str = "",
        outputs: Sequence[str | None],
        **attributes: Attribute,
    ) -> tuple[ir.Value, ...]:
        """A node with an output for each of `outputs`: its name, or None for one made up."""
        name = self._unique(f"{self.path}/{kind}")
        values = [
            ir.Value(name=given or (name if len(outputs) == 1 else f"{name}.{number}"))
            for number, given in enumerate(outputs)
        ]
        node = ir.node(kind, inputs, dict(attributes), domain=domain, outputs=values, name=name)
        self.nodes.append(node)
        return tuple(values)

    def weight(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """An initializer called `name`; the first tensor of a name stays."""
        if name not in self.weights:
            tensor.name = name
            self.weights[name] = ir.Value(
                name=name,
                const_value=tensor,
                shape=ir.Shape(tensor.shape.numpy()),
                type=ir.TensorType(tensor.dtype),
            )
        return self.weights[name]

    def constant(self, values: ArrayLike, dtype: type[np.generic]) -> ir.Value:
        """A small constant, shared by everyone who needs the same."""
        array: NDArray[np.generic] = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        array = array.reshape(np.shape(values))
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constants.{array.dtype.name}.{len(self._constants)}"
            self._constants[key] = self.weight(name, ir.tensor(array))
        return self._constants[key]

    def ints(self, *values: int) -> ir.Value:
        """A vector of int64."""
        return self.constant(list(values), np.int64)

    def number(self, value: float) -> ir.Value:
        """A scalar of fp32."""
        return self.constant(value, np.float32)

    def vector(self, *parts: Dimension) -> ir.Value:
        """A vector of int64 from numbers and from vectors that are known when the graph runs."""
        if not any(isinstance(part, ir.Value) for part in parts):
            return self.ints(*(part for part in parts if isinstance(part, int)))
        values = [part if isinstance(part, ir.Value) else self.ints(part) for part in parts]
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=0)

    def size(self, x: ir.Value, axis: int) -> ir.Value:
        """How long `x` is along `axis`: a vector of one int64."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def reshape(self, x: ir.Value, *dims: Dimension) -> ir.Value:
        """Reshape; 0 keeps the dimension of that place, -1 is what is left."""
        return self.op("Reshape", x, self.vector(*dims))

    def transpose(self, x: ir.Value, *order: int) -> ir.Value:
        """Axes in a new order."""
        return self.op("Transpose", x, perm=order)

    def unsqueeze(self, x: ir.Value, *axes: int) -> ir.Value:
        """New axes of length one, at these places of the result."""
        return self.op("Unsqueeze", x, self.ints(*axes))

    def slice(self, x: ir.Value, axis: int, start: Dimension, stop: Dimension) -> ir.Value:
        """x[start:stop] along `axis`."""
        return self.op("Slice", x, self.vector(start), self.vector(stop), self.ints(axis))

    def split(self, x: ir.Value, *sizes: Dimension) -> tuple[ir.Value, ...]:
        """Parts of these sizes along the last axis."""
        names = [None] * len(sizes)
        return self.ops("Split", x, self.vector(*sizes), outputs=names, axis=-1)

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Another element type."""
        return self.op("Cast", x, to=dtype.value)

    def row_numbers(self, count: ir.Value) -> ir.Value:
        """0, 1, … for a vector of one int64."""
        stop = self.op("Squeeze", count, self.ints(0))
        return self.op("Range", self.constant(0, np.int64), stop, self.constant(1, np.int64))

    def silu(self, x: ir.Value) -> ir.Value:
        """x · sigmoid(x)."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def _unique(self, name: str) -> str:
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else f"{name}_{count}"
