"""What a forward pass would ask of a GPU, counted without one.

Weights and batches are on the "meta" device: shapes without contents. Whatever would have to wait
for a device (`.item()`, `.tolist()`, `nonzero`, a boolean mask, `.cpu()`) needs contents, and
raises. Triton kernels are launched for counting only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import GridExecutor

from readoff.kernels import dispatch

META = torch.device("meta")

Launches = Counter[str]
"""Launches by name: Triton kernels under their own, torch operators as "aten.…"."""

NO_KERNEL = {
    "_unsafe_view",
    "detach",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "scalar_tensor",
}
"""Operators that aren't views, and start nothing on a device all the same: memory, and the number
in `x[0] = 1`, which reaches a GPU as an argument of the kernel that writes it."""


class Counting(TorchDispatchMode):
    """Counts the operators that start a kernel on the device."""

    def __init__(self, launches: Launches) -> None:
        super().__init__()
        self.launches = launches

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with self:  # an operator made of others, as `reshape` is, counts as those
            parts = func.decompose(*args, **(kwargs or {}))
        if parts is not NotImplemented:
            return parts
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if on_device(result) and not (func.is_view or name in NO_KERNEL):
            if name in ("_to_copy", "copy_") and not all(map(on_device, args[:2])):
                raise RuntimeError("a copy from the host, which waits for the device")
            self.launches[f"aten.{name}"] += 1
        return result


def on_device(value: Any) -> bool:
    """Whether it isn't a tensor of the host."""
    return not isinstance(value, torch.Tensor) or value.device == META


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[Launches]:
    """Count what runs on meta tensors inside, as it would on a GPU: all in Triton but `linear`,
    whose product is the library's."""
    launches = Launches()
    true_site, true_tensor = dispatch._site, torch.tensor

    def site(args: tuple[object, ...]) -> dispatch.Site:
        found = true_site(args)
        return replace(found, device="cpu") if found.device == "meta" else found

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        launches[self.fn.__name__] += 1

    def from_values(*args: Any, **kwargs: Any) -> torch.Tensor:
        made = true_tensor(*args, **kwargs)
        assert not on_device(made), "values of the host, for which the device is waited for"
        return made

    with patch.context() as patched:
        patched.setattr(torch, "tensor", from_values)  # it copies behind the mode's back
        patched.setattr(dispatch, "_site", site)  # Triton's interpreter serves the CPU only
        patched.setattr(GridExecutor, "__call__", launch)
        for name in ("empty", "empty_like", "empty_strided"):  # as they are without the NaN
            patched.setattr(torch, name, getattr(torch, name).__wrapped__)
        names = [name for name in dispatch.OPS if name != "linear"]
        with torch.no_grad(), dispatch.use("triton", *names), Counting(launches):
            yield launches
