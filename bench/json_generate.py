"""The usual way to a decision: ask for JSON, generate it token by token, parse it.

This is the plain loop "as people write it": one chat prompt for each question, greedy
`transformers.generate` with its KV cache, stopped at the closing brace or at a token limit. No
grammar constrains it, so it can fail to be JSON or name no legal option; failures are counted,
not repaired.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria

from readoff.engine.chat import ChatTemplate
from readoff.engine.questions import Choice, Question, Score
from readoff.engine.text import render_entry, render_text

if TYPE_CHECKING:
    from readoff.engine.tokenizer import Tokenizer

MAX_NEW_TOKENS = 64
"""The token limit of one answer: three times what a well-formed one takes."""

Value = str | int | bool


@dataclass(frozen=True)
class Generated:
    """One generated answer. `seconds` holds prompt, generation and parsing; no model loading.

    `value` is the option's name, the level, or the truth value; None when `failure` says why
    nothing could be read.
    """

    text: str
    value: Value | None
    confidence: float | None
    failure: str | None
    prompt_tokens: int
    new_tokens: int
    seconds: float


class JsonGenerator:
    """Answers questions by greedy JSON generation.

    `model` is a transformers causal model, `tokenizer` ours of the same checkpoint.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: Tokenizer, *, max_new_tokens: int = MAX_NEW_TOKENS
    ) -> None:
        self.chat = ChatTemplate.of(tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        ends = [
            tokenizer.added_tokens[name]
            for name in ("<|im_end|>", "<|endoftext|>")
            if name in tokenizer.added_tokens
        ]
        self.config = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=ends[-1] if ends else 0,
        )

    def ask(self, state: Any, question: Question) -> Generated:
        """Generate and parse the answer to one question about `state`."""
        started = time.perf_counter()
        ids = self.tokenizer.encode_control(self.chat.render(messages(state, question)))
        new = self._generate(ids, self.config)
        text = self.tokenizer.decode(new)
        value, confidence, failure = parse(text, question)
        seconds = time.perf_counter() - started
        return Generated(text, value, confidence, failure, len(ids), len(new), seconds)

    def warmup(self) -> None:
        """One prompt and two tokens, so that the first answer pays for no first-time set-up."""
        ids = self.tokenizer.encode_control("Nothing has happened yet.")
        self._generate(ids, GenerationConfig(max_new_tokens=2, do_sample=False, pad_token_id=0))

    @torch.inference_mode()
    def _generate(self, ids: Sequence[int], config: GenerationConfig) -> list[int]:
        """The ids that follow the prompt `ids`."""
        prompt = torch.tensor([ids], device=self.model.device)  # [1, T]
        generate: Any = self.model.generate  # typed as a module by nn.Module.__getattr__
        output = generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=config,
            stopping_criteria=[ClosingBrace(self.tokenizer, len(ids))],
        )
        new: list[int] = output[0, len(ids) :].tolist()
        return new


class ClosingBrace(StoppingCriteria):
    """Stops a batch of one at the first generated token that holds a closing brace."""

    def __init__(self, tokenizer: Tokenizer, prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.prompt_tokens = prompt_tokens

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any
    ) -> torch.BoolTensor:
        last = input_ids[0, -1:].tolist() if input_ids.shape[1] > self.prompt_tokens else []
        stop = "}" in self.tokenizer.decode(last)
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device)  # type: ignore[return-value]


def messages(state: Any, question: Question) -> list[dict[str, str]]:
    """The chat of one question: the state, the question, and the shape of the answer."""
    shape, options = _answer_shape(question)
    asked = "Decide." if question.instructions is None else render_text(question.instructions)
    lines = [render_text(state), "", asked, *options, "", f"Answer with JSON only: {shape}"]
    return [
        {"role": "system", "content": "You answer with one JSON object and nothing else."},
        {"role": "user", "content": "\n".join(lines)},
    ]


def _answer_shape(question: Question) -> tuple[str, list[str]]:
    """(the object to answer with, one line an option)."""
    if isinstance(question, Choice):
        entries = [
            render_entry(f"- {name}" if text is None else f"- {name}:", text)
            for name, text in question.criteria.items()
        ]
        return '{"choice": "<one option>", "confidence": <0 to 1>}', entries
    if isinstance(question, Score):
        entries = [render_entry(f"{i} =", text) for i, text in enumerate(question.criteria)]
        return '{"score": <level>, "confidence": <0 to 1>}', entries
    criteria = (question.criteria or {}).items()
    entries = [render_entry(f"{name}:", text) for name, text in criteria if text is not None]
    return '{"answer": <true or false>, "confidence": <0 to 1>}', entries


def parse(text: str, question: Question) -> tuple[Value | None, float | None, str | None]:
    """(value, confidence, failure) of a generated answer; text around the object is tolerated."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None, None, "no JSON object"
    try:
        answer = json.loads(text[start : end + 1])
    except json.JSONDecodeError as error:
        return None, None, f"not JSON: {error.msg}"
    value, failure = _value(answer, question)
    confidence = answer.get("confidence")
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0 <= confidence <= 1):
        return value, None, failure or "no confidence between 0 and 1"
    return value, float(confidence), failure


def _value(answer: Mapping[str, Any], question: Question) -> tuple[Value | None, str | None]:
    legal: tuple[Value, ...]
    if isinstance(question, Choice):
        key, legal = "choice", question.options
    elif isinstance(question, Score):
        key, legal = "score", tuple(range(len(question.options)))
    else:
        key, legal = "answer", (True, False)
    if key not in answer:
        return None, f"no {key!r} in the object"
    found = answer[key]
    for value in legal:
        if type(found) is type(value) and found == value:
            return value, None
    return None, f"{found!r} is no legal {key}"
