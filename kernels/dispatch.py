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


class KernelInputError(ValueError):
    """An operator was given tensors that its contract doesn't allow; the message names them."""


@dataclass(frozen=True)
class Site:
    """Where an operator is about to run.

    `grad` says whether gradients are wanted, `layout` how the weight (the second argument) is
    laid out: "plain", "packed" by `readoff.kernels.linear.pack`, or what a weight that isn't a
    tensor says in `site_layout` ("int8", "fp8").
    """

    device: str
    dtype: torch.dtype
    grad: bool = False
    layout: str = "plain"


@dataclass(frozen=True)
class Implementation(Generic[P, R]):
    """One implementation of an operator.

    `serves` says where it may be chosen; `forced`, where there is one, where it may run in
    addition when it is asked for by name.
    """

    name: str
    function: Callable[P, R]
    serves: Callable[[Site], Verdict]
    forced: Callable[[Site], Verdict] | None = None

    def verdict(self, site: Site, by_name: bool) -> Verdict:
        """(whether it runs at `site`, reason); `by_name` when it was asked for."""
        served, reason = self.serves(site)
        if served or not by_name or self.forced is None:
            return served, reason
        return self.forced(site)


class Op(Generic[P, R]):
    """An operator: a contract (its docstring), and the implementations behind it.

    Device and dtype are those of the first argument. `check` looks at shapes, dtypes and layouts
    at every call and never waits for a device; `check_values` looks at what is in the tensors, and
    runs only under READOFF_CHECK=1. Both raise KernelInputError.
    """

    def __init__(
        self,
        name: str,
        implementations: list[Implementation[P, R]],
        check: Callable[P, None] | None = None,
        check_values: Callable[P, None] | None = None,
    ) -> None:
        self.name = name
        self._check, self._check_values = check, check_values
        self.implementations = {i.name: i for i in implementations}
        self.calls: Counter[str] = Counter()
        self._forced: ContextVar[str | None] = ContextVar(f"readoff_{name}", default=None)
        self._chosen: dict[tuple[Site, str | None], Implementation[P, R]] = {}
        OPS[name] = self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        implementation = self.choose(_site(args))
        if self._check is not None:
            self._check(*args, **kwargs)
        if self._check_values is not None and os.environ.get("READOFF_CHECK") == "1":
            self._check_values(*args, **kwargs)
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
            served, reason = implementation.verdict(site, forced is not None)
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
            used = implementation.name == chosen
            served, reason = implementation.verdict(site, used)
            word = "used" if used else "available" if served else "not available"
            told[implementation.name] = f"{word}: {reason}" if reason else word
        return told

    def forced_here(self) -> str | None:
        """What `use` forces in this context."""
        return self._forced.get()

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


def choose(op: str, *tensors: object) -> tuple[str, str]:
    """(implementation, reason) for a call of `op` whose first arguments are `tensors`.

    Raises KeyError for an operator that isn't there, NoImplementationError.
    """
    site = _site(tensors)
    chosen = OPS[op].choose(site)
    return chosen.name, chosen.verdict(site, True)[1]


def forced() -> tuple[tuple[str, str], ...]:
    """(operator, implementation) of every override by `use` in this context."""
    return tuple(
        (name, chosen) for name, op in OPS.items() if (chosen := op.forced_here()) is not None
    )


@contextmanager
def use_all(overrides: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """Put the overrides that `forced` found elsewhere in force here."""
    with ExitStack() as stack:
        for name, implementation in overrides:
            stack.enter_context(OPS[name].use(implementation))
        yield


def always(reason: str = "") -> Callable[[Site], Verdict]:
    """An implementation that runs anywhere."""
    return lambda site: (True, reason)


def by_name_on_cpu(function: Callable[P, R], reason: str) -> Implementation[P, R]:
    """The implementation "fixed": CPU tensors, and only when it is asked for by name."""
    return Implementation(
        "fixed", function, lambda site: (False, "only by name: " + reason), on_cpu(reason)
    )


def on_cpu(reason: str = "") -> Callable[[Site], Verdict]:
    """An implementation for CPU tensors."""
    return lambda site: (
        (True, reason) if site.device == "cpu" else (False, f"{site.device} tensors")
    )


def _site(args: tuple[object, ...]) -> Site:
    first, second = args[0], args[1]
    if not isinstance(first, torch.Tensor):
        raise TypeError("the first argument of an operator is a tensor")
    if isinstance(second, torch.Tensor):
        layout = "packed" if second.is_mkldnn else "plain"
    else:
        layout = getattr(second, "site_layout", "plain")
    return Site(first.device.type, first.dtype, torch.is_grad_enabled(), layout)


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
