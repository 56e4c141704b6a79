"""Choosing an implementation of an operator, and remembering which one ran.

An operator is a list of implementations in order of preference. Each says of a device and a dtype
whether it serves them, and if not why; the first that does is taken. `Op.use` overrides the
choice, `READOFF_KERNELS` does so for a whole process, and `Op.calls` counts what really ran.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

Verdict = tuple[bool, str]
"""(served, reason)."""


class NoImplementationError(LookupError):
    """No implementation of an operator serves a site, or the forced one doesn't."""


@dataclass(frozen=True)
class Site:
    """Where an operator is about to run.

    `grad` says whether gradients are wanted, `layout` how the weight (the second argument) is
    laid out: "plain" or "packed" by `readoff.kernels.linear.pack`.
    """

    device: str
    dtype: torch.dtype
    grad: bool = False
    layout: str = "plain"


@dataclass(frozen=True)
class Implementation(Generic[P, R]):
    """One implementation of an operator."""

    name: str
    function: Callable[P, R]
    serves: Callable[[Site], Verdict]


class Op(Generic[P, R]):
    """An operator: a contract (its docstring), and the implementations behind it.

    Device and dtype are those of the first argument.
    """

    def __init__(self, name: str, implementations: list[Implementation[P, R]]) -> None:
        self.name = name
        self.implementations = {i.name: i for i in implementations}
        self.calls: Counter[str] = Counter()
        self._forced: ContextVar[str | None] = ContextVar(f"readoff_{name}", default=None)
        self._chosen: dict[tuple[Site, str | None], Implementation[P, R]] = {}
        OPS[name] = self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        implementation = self.choose(_site(args))
        self.calls[implementation.name] += 1
        return implementation.function(*args, **kwargs)

    def choose(self, site: Site) -> Implementation[P, R]:
        """The implementation that serves `site`.

        Raises:
            NoImplementationError: no implementation serves it, or the forced one doesn't.
        """
        forced = self._forced.get() or _from_environment(self.name)
        key = (site, forced)
        if key not in self._chosen:
            self._chosen[key] = self._choose(site, forced)
        return self._chosen[key]

    def _choose(self, site: Site, forced: str | None) -> Implementation[P, R]:
        if forced is not None and forced not in self.implementations:
            raise NoImplementationError(
                f"{self.name} has no implementation {forced!r}; "
                f"it has {sorted(self.implementations)}"
            )
        candidates = (
            self.implementations.values() if forced is None else [self.implementations[forced]]
        )
        reasons = []
        for implementation in candidates:
            served, reason = implementation.serves(site)
            if served:
                return implementation
            reasons.append(f"{implementation.name}: {reason}")
        raise NoImplementationError(
            f"no implementation of {self.name} serves {site} ({'; '.join(reasons)})"
        )

    def explain(self, site: Site) -> dict[str, str]:
        """For each implementation in order of preference: why it would or wouldn't be used."""
        chosen = self.choose(site).name
        told = {}
        for implementation in self.implementations.values():
            served, reason = implementation.serves(site)
            word = (
                "used"
                if implementation.name == chosen
                else "available"
                if served
                else "not available"
            )
            told[implementation.name] = f"{word}: {reason}" if reason else word
        return told

    @contextmanager
    def use(self, implementation: str) -> Iterator[None]:
        """Force an implementation in this context (thread or task)."""
        token = self._forced.set(implementation)
        try:
            yield
        finally:
            self._forced.reset(token)


OPS: dict[str, Op[..., Any]] = {}
"""Every operator by name; filled as the operator folders are imported."""


@contextmanager
def use(implementation: str, *names: str) -> Iterator[None]:
    """Force `implementation` for the named operators (all of them when none is named)."""
    with ExitStack() as stack:
        for name in names or tuple(OPS):
            stack.enter_context(OPS[name].use(implementation))
        yield


def always(reason: str = "") -> Callable[[Site], Verdict]:
    """An implementation that runs anywhere."""
    return lambda site: (True, reason)


def on_cpu(reason: str = "") -> Callable[[Site], Verdict]:
    """An implementation for CPU tensors."""
    return lambda site: (
        (True, reason) if site.device == "cpu" else (False, f"{site.device} tensors")
    )


def _site(args: tuple[object, ...]) -> Site:
    first, second = args[0], args[1]
    if not isinstance(first, torch.Tensor):
        raise TypeError("the first argument of an operator is a tensor")
    packed = isinstance(second, torch.Tensor) and second.is_mkldnn
    grad = torch.is_grad_enabled()
    return Site(first.device.type, first.dtype, grad, "packed" if packed else "plain")


def _from_environment(name: str) -> str | None:
    """`READOFF_KERNELS=reference` or `READOFF_KERNELS=tree_attention=reference,linear=plain`."""
    value = os.environ.get("READOFF_KERNELS")
    if not value:
        return None
    general = None
    for item in value.split(","):
        op, _, implementation = item.strip().rpartition("=")
        if op == name:
            return implementation
        if not op:
            general = implementation
    return general
