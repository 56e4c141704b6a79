"""`Rung`: one way of answering requests, on the same weights and inputs as all the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch

from readoff.bench.records import Ask, Given, Run, Workload
from readoff.bench.rungs.work import Work
from readoff.engine.answers import Answer, NoulAnswer
from readoff.engine.compute import on_compute_thread
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.engine.prompt import Prompt
from readoff.engine.questions import Question
from readoff.engine.runtime import threads
from readoff.engine.serving import Serving

R = TypeVar("R")


class UnavailableError(ReadoffError):
    """A rung can't run here; the message says in one line why, and what to install."""


class Rung(ABC):
    """One contender. `prepare` comes before the clock starts, `answer` times itself.

    `kind` is "json" where an answer is written out token by token, "readout" where probabilities
    are read off. `group` is how many requests it takes at a time. `calls_engine`: it asks the
    engine, which computes on a thread of its own; others are run on that thread as well, since a
    second one that uses OpenMP slows both.
    """

    name: str
    title: str
    kind: Literal["json", "readout"]
    group: int = 1
    calls_engine = False

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._threads: int | None = None
        self.work = Work()

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Load and compile what `workload` needs. Raises UnavailableError.

        Rungs start cold: an engine that keeps prefixes is replaced by one that doesn't.
        """
        cold = engine.serving.cache_bytes == 0
        self._engine = engine if cold else engine.with_serving(Serving(cache_bytes=0))
        self._threads = engine.info()["threads"]

    @abstractmethod
    def answer(self, ask: Ask) -> Run:
        """Answer one request. Adds to `work` what it took, outside the measured time."""

    def answers(self, asks: Sequence[Ask]) -> list[Run]:
        """Answer up to `group` requests; one run each."""
        return [self.answer(ask) for ask in asks]

    def where_it_computes(self, function: Callable[[], R]) -> R:
        """`function()`, on the engine's computing thread unless it asks the engine itself."""
        return function() if self.calls_engine else on_compute_thread(function)

    def restart(self) -> None:
        """Forget what was measured so far: the clock starts now."""
        self.work = Work()

    def modelled(self) -> float | None:
        """`1 + n · t_token / t_prefill` where tokens are generated, else None."""
        return None

    @property
    def engine(self) -> Engine:
        """What `prepare` was given."""
        if self._engine is None:
            raise ReadoffError(f"Rung {self.name} was not prepared: call prepare first.")
        return self._engine

    @contextmanager
    def computing(self) -> Iterator[None]:
        """The engine's number of threads, and no gradients."""
        with threads(self._threads), torch.inference_mode():
            yield


def given_by(question: Question, answer: Answer) -> Given:
    """The engine's answer as a record."""
    if isinstance(answer, NoulAnswer):
        return read(question, (answer.noul, 1.0 - answer.noul))
    return read(question, tuple(answer.probabilities.values()))


def read(question: Question, probabilities: Sequence[float]) -> Given:
    """A record of probabilities in the order of the options: the most probable one is chosen."""
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    return Given(question.options[best], tuple(probabilities))


def card_of(engine: Engine, name: str, question: Question) -> tuple[tuple[float, ...], float]:
    """(prior, temperature) of the decision card for one question."""
    options = len(question.options)
    prior = engine.card.prior_for(question.type, name, options)
    return tuple(prior), engine.card.temperature_for(question.type, name, options)


def shared_pieces(prompts: Sequence[Prompt]) -> int:
    """How many pieces all prompts begin with, the last one never counted."""
    count = 0
    for pieces in zip(*(prompt.pieces[:-1] for prompt in prompts), strict=False):
        if len({piece.ids for piece in pieces}) > 1:
            break
        count += 1
    return count
