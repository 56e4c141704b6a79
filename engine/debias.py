"""Debiasing without labels: a content-free prior, and options asked about in several orders.

"prior" (contextual calibration, Zhao et al. 2021): what the model answers about a state without
content is its prejudice for this very question; its logits are subtracted. It is measured once a
question. "rotate": a Choice is asked about with its options in K cyclic orders, and the logits of
each option are averaged, which is the geometric mean of the probabilities. The state is shared, so
each order costs the question's tokens only. "both" measures a prior in every order.

Rotation is for Choice alone: the levels of a Score stand in the order of their meaning, and the two
sides of a Noul are read off labels whose place in the prompt is fixed. Under "rotate" those are
asked once; under "both" they get their prior.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from readoff.engine.answers import Answer, Decision, Usage, build_answer
from readoff.engine.calibration import probabilities
from readoff.engine.card import Card
from readoff.engine.card_fields import ROTATIONS as ROTATIONS
from readoff.engine.card_fields import Debias
from readoff.engine.errors import QuestionError
from readoff.engine.questions import Choice, Question, check_questions
from readoff.engine.text import Text

CONTENT_FREE: Text = "N/A"
"""The state that says nothing."""

Logits: TypeAlias = Mapping[str, float]
Questions: TypeAlias = Mapping[str, Question]
Ask: TypeAlias = Callable[[Sequence[tuple[Text, Questions]]], list[Decision]]
"""Requests to decisions whose answers hold raw logits: `decide_many` without any debiasing."""


class Key(str):
    """A question's id of our own, which no field of a card has: a card knows nothing of the orders
    that are not returned. Its repr is what an error calls the question: the user's own id."""

    shown: str

    def __new__(cls, key: str, shown: str) -> Key:
        made = super().__new__(cls, f"\x00{key}")
        made.shown = shown
        return made

    def __repr__(self) -> str:
        return self.shown


@dataclass(frozen=True)
class Expansion:
    """A request's questions, and what is asked in their place.

    `asked` are the questions by a key of our own; `orders` names the keys of each question, the
    order that was given first.
    """

    questions: Questions
    asked: Questions
    orders: Mapping[str, tuple[str, ...]]


def expand(
    questions: Questions, mode: Debias, rotations: int = ROTATIONS, where: str = ""
) -> Expansion:
    """What is asked about the state for `questions` under `mode`. `where` is added to a question's
    id in errors.

    Raises QuestionError for questions that aren't legal, or a number of rotations below 1.
    """
    check_questions(questions)
    if isinstance(rotations, bool) or not isinstance(rotations, int) or rotations < 1:
        raise QuestionError(f"The number of rotations must be 1 or more, not {rotations!r}.")
    asked: dict[str, Question] = {}
    orders: dict[str, tuple[str, ...]] = {}
    for number, (name, question) in enumerate(questions.items()):
        turned: list[Question] = [question]
        if mode in ("rotate", "both") and isinstance(question, Choice):
            turned += [rotated(question, by) for by in shifts(len(question.options), rotations)[1:]]
        shown = f"{name!r}{where}"
        keys = tuple(Key(f"{number}:{order}", shown) for order in range(len(turned)))
        asked |= zip(keys, turned, strict=True)
        orders[name] = keys
    return Expansion(dict(questions), asked, orders)


def shifts(options: int, rotations: int = ROTATIONS) -> tuple[int, ...]:
    """By how many places the options are rotated, evenly spread, 0 first.

    With as many rotations as options every option stands once in every place.
    """
    count = min(options, rotations)
    return tuple(step * options // count for step in range(count))


def rotated(question: Choice, by: int) -> Choice:
    """The same choice, beginning with its option number `by`."""
    options = list(question.criteria.items())
    return Choice(instructions=question.instructions, criteria=dict([*options[by:], *options[:by]]))


def merged_logits(
    expansion: Expansion,
    name: str,
    logits: Mapping[str, Logits],
    priors: Mapping[str, Logits],
    mode: Debias,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(raw logits, content-free prior) of question `name`, float64 [L] in the order of its options.

    `logits` and `priors` are by key, each by option name. `mode` may be weaker than the one that
    `expansion` was made for: from "both" everything else can be had. Without a measured prior the
    second is zeros; else its mean is zero.
    """
    keys = expansion.orders[name] if mode in ("rotate", "both") else expansion.orders[name][:1]
    options = expansion.questions[name].options

    def mean(source: Mapping[str, Logits]) -> NDArray[np.float64]:
        # Averaging raw logits is averaging log-probabilities: they differ by a constant an order.
        rows = [[source[key][option] for option in options] for key in keys]
        found: NDArray[np.float64] = np.mean(np.array(rows, np.float64), axis=0)
        return found

    z = mean(logits)
    if mode not in ("prior", "both"):
        return z, np.zeros_like(z)
    b = mean(priors)
    return z, b - b.mean()


def merge(
    expansion: Expansion,
    answers: Mapping[str, Answer],
    priors: Mapping[str, Logits],
    card: Card,
    mode: Debias,
) -> dict[str, Answer]:
    """The answers to the questions from those to what was asked in their place.

    `p = softmax((z - b - prior) / T)`: z the mean raw logits, b the content-free prior, T the
    card's temperature. The card's own prior counts where nothing was measured in its place, and
    where it was fitted under this very mode. The answer's `logits` are z, its `legal_mass` the
    mean over the orders; choice, score and confidence follow from the probabilities returned.
    """
    logits = {key: answer.logits for key, answer in answers.items()}
    found: dict[str, Answer] = {}
    for name, question in expansion.questions.items():
        z, b = merged_logits(expansion, name, logits, priors, mode)
        if mode not in ("prior", "both") or card.debias == mode:
            b = b + np.array(card.prior_for(question.type, name, len(z)))
        p = probabilities(z, b, card.temperature_for(question.type, name, len(z)))
        masses = [answers[key].legal_mass for key in expansion.orders[name]]
        known = [mass for mass in masses if mass is not None]
        mass = sum(known) / len(known) if known else None
        found[name] = build_answer(question, z.tolist(), p.tolist(), mass)
    return found


class Priors:
    """Content-free logits by question, least recently used ones dropped. For several threads.

    They belong to one model with one template and one set of labels, so an engine has its own.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Logits] = OrderedDict()

    def get(self, question: Question) -> Logits | None:
        """The logits by option name, if they were measured."""
        key = fingerprint(question)
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, question: Question, logits: Logits) -> None:
        """Keep what was measured."""
        with self._lock:
            self._found[fingerprint(question)] = dict(logits)
            while len(self._found) > self._limit:
                self._found.popitem(last=False)


def fingerprint(question: Question) -> str:
    """sha256 of all that the model reads of a question, the order of its options included."""
    criteria = question.criteria
    entries = list(criteria.items()) if isinstance(criteria, Mapping) else criteria
    shown = json.dumps([question.type, question.instructions, entries], default=_plain)
    return hashlib.sha256(shown.encode()).hexdigest()


def debiased(
    ask: Ask,
    requests: Sequence[tuple[Text, Questions]],
    mode: Debias,
    card: Card,
    priors: Priors,
    rotations: int = ROTATIONS,
) -> list[Decision]:
    """`ask` with debiasing: the same requests, the same order, the same questions.

    What `priors` lacks is asked in the same call. Its tokens count in the usage of the request that
    needed it first. `latency_ms` of a single request is that of everything.
    """
    started = time.perf_counter()
    many = len(requests) > 1
    expansions = [
        expand(questions, mode, rotations, f" of request {number}" if many else "")
        for number, (_, questions) in enumerate(requests)
    ]
    sent: list[tuple[Text, Questions]] = [
        (state, e.asked) for (state, _), e in zip(requests, expansions, strict=True)
    ]
    known, missing = _measured(expansions, priors) if mode in ("prior", "both") else ({}, [])
    sent += [(CONTENT_FREE, {key: question}) for _, key, question in missing]
    decisions = ask(sent)
    extra = [Usage(0, 0, 0) for _ in requests]
    free = decisions[len(requests) :]
    for (owner, key, question), decision in zip(missing, free, strict=True):
        known[fingerprint(question)] = decision[key].logits
        priors.put(question, decision[key].logits)
        extra[owner] = _sum(extra[owner], decision.usage)
    wall = (time.perf_counter() - started) * 1e3
    made = []
    for expansion, decision, more in zip(expansions, decisions, extra, strict=False):
        own = {key: known[fingerprint(q)] for key, q in expansion.asked.items()} if known else {}
        answers = merge(expansion, decision.answers, own, card, mode)
        latency = wall if len(requests) == 1 else decision.latency_ms
        made.append(Decision(answers, _sum(decision.usage, more), latency, decision.model))
    return made


def _measured(
    expansions: Sequence[Expansion], priors: Priors
) -> tuple[dict[str, Logits], list[tuple[int, Key, Question]]]:
    """(what is known by fingerprint, (request, key, question) of what has to be asked)."""
    known: dict[str, Logits] = {}
    missing: dict[str, tuple[int, Key, Question]] = {}
    for number, expansion in enumerate(expansions):
        for name, question in expansion.asked.items():
            key, found = fingerprint(question), priors.get(question)
            if found is not None:
                known[key] = found
            elif key not in known:
                shown = f"{name!r} (about the content-free state {CONTENT_FREE!r})"
                missing.setdefault(key, (number, Key("free", shown), question))
    return known, list(missing.values())


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        a.input_tokens + b.input_tokens,
        a.computed_tokens + b.computed_tokens,
        a.cached_tokens + b.cached_tokens,
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} isn't JSON")
