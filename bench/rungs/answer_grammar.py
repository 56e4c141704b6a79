"""`AnswerGrammar`: the JSON schema of a question's legal answers, compiled by xgrammar."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from readoff.bench.json_answer import answer_key, legal_values
from readoff.bench.rungs.rung import UnavailableError
from readoff.engine.questions import Question
from readoff.engine.tokenizer import Tokenizer

CONFIDENCES = [step / 100 for step in range(101)]
"""Two decimals, so that a number ends."""


def schema(question: Question) -> dict[str, Any]:
    """The object that the prompt asks for, its values written out."""
    key = answer_key(question)
    return {
        "type": "object",
        "properties": {
            key: {"enum": list(legal_values(question))},
            "confidence": {"enum": CONFIDENCES},
        },
        "required": [key, "confidence"],
        "additionalProperties": False,
    }


class AnswerGrammar:
    """Compiles schemas for one tokenizer; raises UnavailableError without xgrammar."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, rung: str = "L1") -> None:
        try:
            import xgrammar
        except ImportError as error:
            raise UnavailableError(
                f"{rung} needs xgrammar ({error}): pip install 'readoff[bench]'"
            ) from error
        self._xgrammar: Any = xgrammar
        self._vocab_size = vocab_size
        names = [""] * vocab_size
        for text, index in tokenizer.vocabulary().items():
            names[index] = text
        ends = [tokenizer.added_tokens[n] for n in ("<|im_end|>",) if n in tokenizer.added_tokens]
        info = xgrammar.TokenizerInfo(
            names,
            xgrammar.VocabType.BYTE_LEVEL,
            vocab_size=vocab_size,
            stop_token_ids=ends or None,
        )
        self._compiler: Any = xgrammar.GrammarCompiler(info)
        self._compiled: dict[str, Any] = {}

    def start(self, question: Question) -> Constraint:
        """A constraint at the beginning of an answer; the schema is compiled once."""
        text = json.dumps(schema(question))
        if text not in self._compiled:
            self._compiled[text] = self._compiler.compile_json_schema(
                text, any_whitespace=False, separators=(", ", ": ")
            )
        matcher = self._xgrammar.GrammarMatcher(
            self._compiled[text], terminate_without_stop_token=True
        )
        return Constraint(matcher, self._xgrammar.allocate_token_bitmask(1, self._vocab_size))


class Constraint:
    """What may come next in one answer."""

    def __init__(self, matcher: Any, bitmask: Any) -> None:
        self._matcher, self._bitmask = matcher, bitmask

    @property
    def finished(self) -> bool:
        """Whether the answer is complete: its closing brace was accepted."""
        return bool(self._matcher.is_terminated())

    def allowed(self) -> list[int]:
        """The tokens that may come next, ascending."""
        self._matcher.fill_next_token_bitmask(self._bitmask)
        bits = np.unpackbits(self._bitmask.numpy().view(np.uint8), bitorder="little")
        found: list[int] = np.flatnonzero(bits).tolist()
        return found

    def forced(self) -> str:
        """The text that must come next, whatever the model says; "" where there is a choice."""
        return str(self._matcher.find_jump_forward_string())

    def accept(self, token: int) -> bool:
        """Go on by one token; False, changing nothing, if it isn't legal here."""
        return bool(self._matcher.accept_token(token))

    def take_back(self, tokens: int) -> None:
        """Undo the last `tokens` that were accepted."""
        if tokens:
            self._matcher.rollback(tokens)
