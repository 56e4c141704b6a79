"""Whatever happens, in any order: right answers, a sound cache, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from readoff.engine.batch import Batch
from readoff.engine.errors import BudgetError, StepError
from readoff.engine.job import Job
from readoff.engine.naive_cache import NaiveCache
from readoff.engine.plan import Line
from readoff.engine.prefix_cache import PrefixCache
from readoff.engine.radix_cache import RadixCache
from readoff.engine.storage import Storage
from tests import models

from .passes_rig import KINDS, Rig, cold, gap, ids, line

CUTS = (3, 17, 40, 64, 90, 130)
MAKE: dict[str, Callable[[Storage], PrefixCache]] = {
    "radix": RadixCache,
    "spaced": lambda storage: RadixCache(storage, spacing=64),
    "exact": lambda storage: RadixCache(storage, exact=True),
    "naive": NaiveCache,
}


class Spec(NamedTuple):
    """A path through a small tree of prompts that branch inside their pieces and between them."""

    cut: int
    seed: int
    rest: tuple[tuple[int, int], ...]
    leaf: int

    def line(self) -> Line:
        first = ids(150)[: self.cut] + ids(20, self.seed)
        rest = (ids(length, seed) for length, seed in self.rest)
        return line(first, *rest, leaf=ids(self.leaf, 9))


prompts = st.builds(
    Spec,
    st.sampled_from(CUTS),
    st.integers(1, 2),
    st.lists(st.tuples(st.sampled_from((1, 20, 70)), st.integers(3, 4)), max_size=2).map(tuple),
    st.sampled_from((1, 4, 30)),
)
rounds = st.lists(
    st.tuples(
        st.lists(st.lists(prompts, min_size=1, max_size=3), min_size=1, max_size=4),
        st.sampled_from(("fine", "fine", "fails", "memory", "cancels", "clears")),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=1500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=False,
    phases=(Phase.explicit, Phase.generate),  # an example takes long: none is made smaller
)
@given(
    rounds,
    st.sampled_from(KINDS),
    st.sampled_from(sorted(MAKE)),
    st.sampled_from((64, 200, 4096)),
    st.integers(500, 2000),
    st.integers(5, 12),
)
def test_random_prompts_budgets_failures_and_cancellations(
    script: list[tuple[list[list[Spec]], str]],
    kind: models.Architecture,
    make: str,
    step_tokens: int,
    tokens: int,
    states: int,
) -> None:
    """Every answer equals a cold pass's, with each kind of cache, the naive one too; integrity is
    checked after every pass (by `Rig.step`), and at the end nothing is held."""
    config = Rig(kind, 0).backbone.config
    budget = Storage(config, torch.float32, torch.device("cpu"), 0).size(tokens, states)
    rig = Rig(kind, budget, MAKE[make], step_tokens=step_tokens, exact=make in ("exact", "naive"))
    for asked, event in script:
        jobs = [rig.job(*(spec.line() for spec in specs)) for specs in asked]
        troubles = [event]

        def fault(batch: Batch, troubles: list[str] = troubles) -> None:
            if troubles in (["fails"], ["memory"]):
                raise ValueError("x") if troubles.pop() == "fails" else MemoryError("y")

        rig.fault = fault
        _settle(rig, jobs, event)
    rig.fault = lambda batch: None
    rig.check_clean()


def _settle(rig: Rig, jobs: list[Job], event: str) -> None:
    """Until all jobs are over; then each is right, or has the error that it should have."""
    kind = "qwen3_5" if rig.backbone.config.conv_kernel else "qwen2"
    waiting, ends, failed = list(jobs), dict[Job, Any](), 0
    for turn in range(500):
        if not waiting:
            break
        outcomes = rig.step(waiting)
        ends |= dict(outcomes)
        if event == "cancels" and turn == 0:
            waiting[-1].ticket.cancel()
        if event == "clears":
            rig.kept.clear()
        for job in waiting:
            if job.ticket.cancelled():
                rig.passes.let_go(job)
        waiting = [job for job in waiting if job not in ends and not job.ticket.cancelled()]
    assert not waiting
    for job, end in ends.items():
        if isinstance(end, StepError):
            failed += 1
            continue
        if isinstance(end, BudgetError):  # or more states at once than the budget has
            assert event == "memory" or rig.kept.storage.hybrid
            continue
        for found, asked in zip(end, job.lines, strict=True):
            assert gap(found, cold(kind, asked)) <= 1e-5
    assert (failed > 0) == (event == "fails" and bool(rig.sizes))


def test_naive_and_radix_agree_on_what_is_there() -> None:
    """Without pressure, both compute the same tokens for prompts that share whole pieces."""
    one = [line(ids(30), ids(40, n % 3), leaf=ids(4, n)) for n in range(9)]
    naive, radix = Rig("qwen2", make=NaiveCache), Rig("qwen2")
    for asked in one:
        assert naive.computed(asked) == radix.computed(asked)
    assert naive.kept.counters == radix.kept.counters
    assert naive.kept.nbytes == radix.kept.nbytes > 0
