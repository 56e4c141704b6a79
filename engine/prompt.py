"""Prompts: a state and a question as a chain of pieces, each of which is tokenised on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from readoff.engine.card import Card
from readoff.engine.errors import CheckpointError
from readoff.engine.labels import Alphabet, LabelSet, LabelSpace
from readoff.engine.questions import Question, check_questions
from readoff.engine.template import Template
from readoff.engine.text import Text, check_text
from readoff.engine.tokenizer import Tokenizer

PieceKind: TypeAlias = Literal["preamble", "state", "question", "cue"]


@dataclass(frozen=True)
class Piece:
    """A run of token ids that no token straddles the ends of. Never empty."""

    ids: tuple[int, ...]
    kind: PieceKind


@dataclass(frozen=True)
class Prompt:
    """The pieces of one question's prompt from root to leaf, and the labels to read at its end."""

    pieces: tuple[Piece, ...]
    labels: LabelSet

    @property
    def ids(self) -> tuple[int, ...]:
        """The whole prompt's token ids."""
        return tuple(index for piece in self.pieces for index in piece.ids)

    def __len__(self) -> int:
        return sum(len(piece.ids) for piece in self.pieces)


class Renderer:
    """Makes the prompts of a request.

    State first: preamble, state part(s), question with the cue. Question first: preamble,
    question, state part(s), cue. Raises TemplateError at once if the answer cue and the labels
    don't work together.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: Template, labels: LabelSpace | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.alphabet = Alphabet(tokenizer, template.cue, labels)
        self.alphabet.check()
        self._preamble = Piece(tokenizer.encode_control(template.before), "preamble")
        self._cue_ids = tokenizer.encode_control(template.cue)

    @classmethod
    def load(
        cls, folder: str | Path, card: Card, vocab_size: int, digest: str | None = None
    ) -> Renderer:
        """The tokenizer in `folder` with the template and the labels of `card`, for a model whose
        table has `vocab_size` rows. `digest` is the tokenizer's, where it is known already:
        computing it takes longer than loading.

        Raises TemplateError, CheckpointError for a tokenizer that is missing, unreadable or too
        large for the model, CardError if the card was made for another template or tokenizer.
        """
        tokenizer = Tokenizer.load(folder)
        known = max(tokenizer.vocab_size, *(i + 1 for i in tokenizer.added_tokens.values()), 0)
        if known > vocab_size:
            raise CheckpointError(
                f"The tokenizer knows {known} tokens, but the model's vocabulary has "
                f"{vocab_size}: they don't belong together. Use the model's own tokenizer files."
            )
        template = Template.load(tokenizer, card.template.order, card.template.id)
        card.check(template=template.digest, tokenizer=digest or tokenizer.digest)
        return cls(tokenizer, template, card.labels)

    def render(self, state: Text, questions: Mapping[str, Question]) -> list[Prompt]:
        """One prompt a question, in the order of `questions`; their ids are never shown.

        Equal pieces have equal ids, and the pieces of the state are the same objects in every
        prompt. Raises QuestionError for a state or questions that aren't legal.
        """
        check_text(state, "The state")
        check_questions(questions)
        parts = self._state(state)
        return [self._prompt(parts, question) for question in questions.values()]

    def prefix(self, state: Text) -> Prompt:
        """What every prompt about `state` begins with, and nothing to read: preamble and state,
        or the preamble alone where the question comes first. Raises QuestionError."""
        check_text(state, "The state")
        parts: tuple[Piece, ...] = ()
        if self.template.order == "state-first":
            parts = self._state(state)
        return Prompt((self._preamble, *parts), LabelSet((), ()))

    def _state(self, state: Text) -> tuple[Piece, ...]:
        encode = self.tokenizer.encode_text
        return tuple(Piece(encode(text), "state") for text in self.template.state(state))

    def _prompt(self, state: tuple[Piece, ...], question: Question) -> Prompt:
        labels = self.alphabet.for_question(question)
        encode = self.tokenizer.encode_text
        asked = self.template.question(question, labels.texts)
        closing = self.template.closing(question, labels.texts)
        if self.template.order == "question-first":
            middle = (Piece(encode(asked), "question"), *state)
            leaf = Piece(encode(closing) + self._cue_ids, "cue")
        else:
            middle = state
            leaf = Piece(encode(asked + closing) + self._cue_ids, "question")
        return Prompt((self._preamble, *middle, leaf), labels)
