"""`Recorder`: the operators' real arguments, kept while a model runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from readoff.kernels import dispatch
from readoff.kernels.dispatch import OPS, Implementation, Op, always

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Call:
    """One call: the implementation that was chosen, and its arguments as they were before it."""

    op: str
    implementation: str
    args: tuple[Any, ...]


class Recorder:
    """Keeps the first call of every operator for every set of shapes and dtypes."""

    def __init__(self) -> None:
        self.calls: dict[tuple[Any, ...], Call] = {}
        self.count = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Everything that is called in this context goes through the recorder."""
        name = f"recorded {next(_NUMBERS)}"
        for op in OPS.values():
            op.implementations[name] = Implementation(name, self._through(op, name), always())
        try:
            with dispatch.use(name):
                yield
        finally:
            for op in OPS.values():
                del op.implementations[name]

    def _through(self, op: Op[..., Any], name: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            site = dispatch._site(args)
            chosen = next(
                i for i in op.implementations.values() if i.name != name and i.serves(site)[0]
            )
            self.count += 1
            key = (op.name, *(_shape(arg) for arg in args))
            if key not in self.calls and not kwargs:
                self.calls[key] = Call(op.name, chosen.name, tuple(_kept(arg) for arg in args))
            return chosen.function(*args, **kwargs)

        return run


def _shape(arg: Any) -> Any:
    return (tuple(arg.shape), arg.dtype) if isinstance(arg, torch.Tensor) else str(type(arg))


def _kept(arg: Any) -> Any:
    """Weights are kept as they are: nothing writes to them, and copies of them would be large."""
    if isinstance(arg, torch.Tensor) and not isinstance(arg, torch.nn.Parameter):
        return copied(arg)
    return arg


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers with the same strides, so that slices of wider rows stay that."""
    made = torch.empty_strided(
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor)
