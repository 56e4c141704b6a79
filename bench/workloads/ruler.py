"""Lengths in tokens, and texts that are cut to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from readoff.bench.workloads.lexicon import Dice, Lexicon
from readoff.engine.labels import Alphabet
from readoff.engine.questions import Question
from readoff.engine.template import Template
from readoff.engine.text import Text, render_parts
from readoff.engine.tokenizer import Tokenizer

Shape = Callable[[Sequence[str]], Text]
"""Lays sentences out as a state. More sentences never make a shorter state."""

_DIGITS = 24
_LONGEST = 60  # tokens that a sentence rarely exceeds with what the shape adds to it


class Ruler:
    """Measures states and questions as the default template shows them to the model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode = tokenizer.encode_text
        self._template = Template.load(tokenizer)
        self._alphabet = Alphabet(tokenizer, self._template.cue)

    def text(self, text: str) -> int:
        """Tokens of a text on its own."""
        return len(self._encode(text))

    def state(self, state: Text) -> int:
        """Tokens of a state's parts, without the template's heading."""
        return sum(len(self._encode(f"{part}\n")) for part in render_parts(state))

    def question(self, question: Question) -> int:
        """Tokens of a question with its options and closing words, without the answer cue."""
        labels = self._alphabet.for_question(question).texts
        asked = self._template.question(question, labels)
        return len(self._encode(asked + self._template.closing(question, labels)))

    def fit(self, shape: Shape, source: Iterator[str], target: int, lexicon: Lexicon) -> Text:
        """A state of `target` tokens: sentences from `source`, short ones, then a number.

        The number's digits are a token each in most tokenizers, so the last token is met too
        unless the target is smaller than the shape with one sentence.
        """
        sentences = self._sentences(shape, source, target)
        # Room for the number, so that the short sentences don't take the last tokens.
        room = self.text(lexicon.reference.format(digits="12"))
        for filler in sorted(lexicon.fillers, key=len, reverse=True):
            longer = _extended(sentences, filler, lexicon)
            if self.state(shape(longer)) <= target - room:
                sentences = longer
        return min(
            (shape(sentences), *self._numbered(shape, sentences, target, lexicon)),
            key=lambda state: abs(self.state(state) - target),
        )

    def _sentences(self, shape: Shape, source: Iterator[str], target: int) -> list[str]:
        """As many sentences as fit below `target`, at least one."""
        sentences = [next(source)]
        while (missing := target - self.state(shape(sentences))) >= 0:
            sentences += itertools.islice(source, 1 + missing // _LONGEST)
        while len(sentences) > 1 and self.state(shape(sentences)) > target:
            del sentences[-1]
        return sentences

    def _numbered(
        self, shape: Shape, sentences: list[str], target: int, lexicon: Lexicon
    ) -> Iterator[Text]:
        dice = Dice("digits", *sentences)
        digits = "".join(str(dice.number(1, 9)) for _ in range(_DIGITS))
        one = lexicon.reference.format(digits=digits[0])
        missing = target - self.state(shape(_extended(sentences, one, lexicon)))
        for count in range(max(1, missing - 1), min(missing + 3, _DIGITS) + 1):
            reference = lexicon.reference.format(digits=digits[:count])
            yield shape(_extended(sentences, reference, lexicon))


def _extended(sentences: list[str], more: str, lexicon: Lexicon) -> list[str]:
    """`more` at the end of the last sentence, so that no paragraph is opened for it."""
    return [*sentences[:-1], f"{sentences[-1]}{lexicon.joiner}{more}"]
