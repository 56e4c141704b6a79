"""Labels: the single tokens that stand for the options at the first output position."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readoff.engine.errors import CardError, TemplateError
from readoff.engine.questions import Choice, Noul, Question, QuestionType, Score
from readoff.engine.tokenizer import Tokenizer

_SMALLEST = (Choice(criteria={"a": None, "b": None}), Score(criteria=["a", "b"]), Noul())
_RANGE = re.compile(r"([A-Za-z]+|\d)-([A-Za-z]+|\d)")


@dataclass(frozen=True)
class LabelSet:
    """One question's labels in the order of its options: token ids and the texts they spell."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class LabelSpace:
    """The label texts that a checkpoint reads, as its card's "labels" entry spells them.

    `choice` and `score` are ranges such as "A-Z|AA-ZZ", where "|" separates alphabets of longer
    and longer labels, or explicit sequences; `noul` is the pair for true and false.
    """

    choice: str | tuple[str, ...] = "A-Z|AA-ZZ"
    score: str | tuple[str, ...] = "0-9"
    noul: tuple[str, str] = ("True", "False")

    def __post_init__(self) -> None:
        for spec in (self.choice, self.score):
            alphabets(spec)
        if len(self.noul) != 2 or self.noul[0] == self.noul[1] or not all(self.noul):
            raise CardError(f"The labels of a noul must be two different texts, not {self.noul}.")

    @classmethod
    def parse(cls, entry: Mapping[str, object]) -> LabelSpace:
        """From the "labels" object of a card. Raises CardError; missing kinds get defaults."""
        values: dict[str, str | tuple[str, ...]] = {}
        for kind, spec in entry.items():
            if kind not in ("choice", "score", "noul"):
                raise CardError(f'The card\'s labels are for choice, score and noul, not "{kind}".')
            if isinstance(spec, str) and kind != "noul":
                values[kind] = spec
            elif isinstance(spec, list | tuple) and all(isinstance(text, str) for text in spec):
                values[kind] = tuple(spec)
            else:
                raise CardError(f"The card's {kind} labels can't be read: {spec!r}.")
        return cls(**values)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, object]:
        """The card's "labels" object; `parse` reads it back."""
        fields = {"choice": self.choice, "score": self.score, "noul": self.noul}
        return {k: v if isinstance(v, str) else list(v) for k, v in fields.items()}


def alphabets(spec: str | Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The alphabets of a range or a sequence, each of labels of one length, shortest first.

    Raises CardError for an empty or repeated label or a range that can't be read.
    """
    if isinstance(spec, str):
        labels = [text for part in spec.split("|") for text in _expand(part)]
    else:
        labels = list(spec)
    if not labels or not all(labels) or len(set(labels)) != len(labels):
        raise CardError(f"The labels {spec!r} are empty or repeat one another.")
    by_length = sorted({len(text) for text in labels})
    return tuple(tuple(text for text in labels if len(text) == n) for n in by_length)


def _expand(part: str) -> list[str]:
    match = _RANGE.fullmatch(part)
    first, last = match.groups() if match else ("", "")
    if not first or len(first) != len(last) or any(a > b for a, b in zip(first, last, strict=True)):
        raise CardError(f'The label range "{part}" can\'t be read; it should look like "A-Z".')
    spans = [[chr(c) for c in range(ord(a), ord(b) + 1)] for a, b in zip(first, last, strict=True)]
    return ["".join(letters) for letters in itertools.product(*spans)]


class Alphabet:
    """The labels that one tokenizer really reads as single tokens after one answer cue.

    `cue` is the control text that the prompt ends with. A label is usable only if
    `encode(cue + label)` is `encode(cue)` and exactly one id more; a bare look-up in the
    vocabulary would miss that labels merge with what stands before them.
    """

    def __init__(self, tokenizer: Tokenizer, cue: str, space: LabelSpace | None = None) -> None:
        self.space = space or LabelSpace()
        self._tokenizer = tokenizer
        self._cue = cue
        self._cue_ids = tokenizer.encode_control(cue)
        self._sets: dict[tuple[QuestionType, int], LabelSet] = {}
        self._alphabets: dict[tuple[str, ...], dict[str, int]] = {}
        if not self._cue_ids:
            raise TemplateError("The answer cue is empty; it must end the prompt.")

    def for_question(self, question: Question) -> LabelSet:
        """The labels of `question`, in the order of its options. Raises TemplateError."""
        key = (question.type, len(question.options))
        if key not in self._sets:
            self._sets[key] = self._choose(question)
        return self._sets[key]

    def check(self) -> None:
        """Raise TemplateError unless the smallest question of every kind has labels."""
        for question in _SMALLEST:
            self.for_question(question)

    def _choose(self, question: Question) -> LabelSet:
        n = len(question.options)
        if isinstance(question, Choice):
            sizes = []
            for texts in alphabets(self.space.choice):
                usable = self._usable(texts)
                if len(usable) >= n:
                    return _label_set(dict(itertools.islice(usable.items(), n)))
                sizes.append(len(usable))
            raise TemplateError(
                f"{n} options need {n} labels of one token each, and this tokenizer and template "
                f"have {max(sizes)}. Split the options over two questions."
            )
        if isinstance(question, Score):
            texts = alphabets(self.space.score)[0]
            if len(texts) < n:
                raise TemplateError(f"{n} levels need {n} labels, and there are {len(texts)}.")
            return self._all(texts[:n])
        return self._all(self.space.noul)

    def _all(self, texts: Sequence[str]) -> LabelSet:
        """Labels whose meaning is fixed, so that none of them can be replaced or left out."""
        ids = {text: self._single(text) for text in texts}
        missing = [text for text, index in ids.items() if index is None]
        if missing:
            raise TemplateError(
                f"The label {missing[0]!r} is not a single token after this answer cue."
            )
        return _label_set({text: index for text, index in ids.items() if index is not None})

    def _usable(self, texts: tuple[str, ...]) -> dict[str, int]:
        """Those of an alphabet's labels that are one token, with their ids."""
        if texts not in self._alphabets:
            ids = ((text, self._single(text)) for text in texts)
            self._alphabets[texts] = {text: index for text, index in ids if index is not None}
        return self._alphabets[texts]

    def _single(self, label: str) -> int | None:
        """The id of `label` after the cue, or None if it isn't one token."""
        cue = self._cue_ids
        ids = self._tokenizer.encode_control(self._cue + label)
        if ids[: len(cue)] != cue:
            raise TemplateError(
                f"The answer cue merges with its label {label!r}. A cue must end in a newline or "
                "a control token."
            )
        return ids[-1] if len(ids) == len(cue) + 1 else None


def _label_set(labels: Mapping[str, int]) -> LabelSet:
    ids, texts = tuple(labels.values()), tuple(labels)
    if len(set(ids)) != len(ids):
        raise TemplateError(f"Two of the labels {', '.join(texts)} are the same token.")
    return LabelSet(ids, texts)
