"""The prompt template: our words, in the frame of the checkpoint's chat template.

Every piece of text it makes begins with something other than a newline and ends with one (or is
followed by control text), so that encoding the pieces one by one gives the same ids as encoding
the whole prompt: tokenizers of the Qwen family never merge across a newline unless another one,
or blanks and another one, follow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, cast

from readoff.engine.chat import ChatTemplate
from readoff.engine.errors import TemplateError
from readoff.engine.questions import NOUL_OPTIONS, Choice, Noul, Question, Score
from readoff.engine.text import Text, render_entry, render_name, render_parts
from readoff.engine.tokenizer import Tokenizer

Order: TypeAlias = Literal["state-first", "question-first"]

_SYSTEM = "Read the state and answer the question about it. Reply with one label and nothing else."
_STATE = "State:\n"


@dataclass(frozen=True)
class Template:
    """How a state and a question become text.

    `before` and `cue` are the control text at the two ends of every prompt. `verified` says
    whether they come from the checkpoint's own chat template.
    """

    id: str
    version: int
    order: Order
    verified: bool
    before: str
    cue: str

    @classmethod
    def load(
        cls, tokenizer: Tokenizer, order: str = "state-first", template_id: str = "default"
    ) -> Template:
        """The template called `template_id`, in the frame of the tokenizer's chat template.

        Raises TemplateError for an unknown template or order, a chat template that can't be used,
        and a frame whose ends could merge with the text beside them.
        """
        if template_id not in _VERSIONS:
            known = ", ".join(_VERSIONS)
            raise TemplateError(f'There is no template "{template_id}"; there is {known}.')
        if order not in ("state-first", "question-first"):
            raise TemplateError(f'The order is "state-first" or "question-first", not "{order}".')
        chat = ChatTemplate.of(tokenizer)
        frame = chat.frame(_SYSTEM)
        for end, text in (("beginning", frame.before), ("answer cue", frame.after)):
            if not _closed(tokenizer, text):
                raise TemplateError(
                    f"The chat template's {end} must end in a newline or a control token, or it "
                    f"merges with what follows; it ends with {text[-20:]!r}."
                )
        version = _VERSIONS[template_id]
        kind = cast(Order, order)
        return cls(template_id, version, kind, chat.verified, frame.before, frame.after)

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that shapes the tokens of a prompt.

        The words and the layout are covered by hashing a specimen of each kind, so a change in
        this code changes the digest even where nobody thought of raising the version.
        """
        shape = [self.id, self.version, self.order, self.before, self.cue, _specimens(self)]
        return hashlib.sha256(json.dumps(shape).encode()).hexdigest()

    def state(self, state: Text) -> list[str]:
        """The text of each part of the state. A longer array begins with a shorter one's parts."""
        first, *rest = render_parts(state)
        return [f"{_STATE}{first}\n", *(f"{part}\n" for part in rest)]

    def question(self, question: Question, labels: Sequence[str]) -> str:
        """The text of a question and its options, each behind its label."""
        return "\n".join([_ask(question), *_options(question, labels)]) + "\n"

    def closing(self, question: Question, labels: Sequence[str]) -> str:
        """The last words before the answer cue. They end where control text begins."""
        first = labels[0]
        if isinstance(question, Choice):
            letters = "letter" if len(first) == 1 else "letters"
            return f"Answer with the {letters if first.isalpha() else 'label'} of one option."
        if isinstance(question, Score):
            return f"Answer with the {'number' if first.isdigit() else 'label'} of one level."
        return f"Answer {first} or {labels[1]}."


_VERSIONS = {"default": 1}
_DEFAULT_ASK = {
    "choice": "Which option fits the state?",
    "score": "Which level fits the state?",
    "noul": "Is this true of the state?",
}


def _ask(question: Question) -> str:
    given = question.instructions
    return render_entry("Question:", _DEFAULT_ASK[question.type] if _absent(given) else given)


def _options(question: Question, labels: Sequence[str]) -> list[str]:
    if isinstance(question, Choice):
        lines = []
        for label, (name, description) in zip(labels, question.criteria.items(), strict=True):
            head = f"{label}. {render_name(name)}"
            lines.append(head if _absent(description) else render_entry(f"{head}:", description))
        return lines
    if isinstance(question, Score):
        pairs = zip(labels, question.criteria, strict=True)
        return [render_entry(f"{label}.", level) for label, level in pairs]
    given = question.criteria or {}
    sides = [(label, given.get(key)) for label, key in zip(labels, NOUL_OPTIONS, strict=True)]
    return [render_entry(f"{label}:", text) for label, text in sides if not _absent(text)]


def _absent(text: Text | None) -> bool:
    return text is None or text == ""


def _closed(tokenizer: Tokenizer, text: str) -> bool:
    """Whether nothing that follows `text` can merge with its end."""
    if text.endswith("\n"):
        return True
    ids = tokenizer.encode_control(text)
    return bool(ids) and ids[-1] in tokenizer.added_tokens.values()


def _specimens(template: Template) -> list[object]:
    deep: Text = {"a": [1, "x\ny", {"b c": None, "": "2"}], "d: e": [[], {}], "f": " ", "g": '"h"'}
    asked: list[tuple[Question, Sequence[str]]] = [
        (Choice(instructions=deep, criteria={"p": None, "q\n": "r", "s": deep}), "ABC"),
        (Choice(criteria={str(i): None for i in range(27)}), [f"L{i}" for i in range(27)]),
        (Score(criteria=["t", deep]), "01"),
        (Noul(instructions="u\nv", criteria={"true": "w", "false": deep}), ("True", "False")),
        (Noul(), ("True", "False")),
    ]
    states: list[Text] = ["text", deep, ["one", deep], []]
    words: list[object] = [template.state(state) for state in states]
    for question, labels in asked:
        words += [template.question(question, labels), template.closing(question, labels)]
    return words
