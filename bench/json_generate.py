"""The usual way to a decision: ask for JSON, generate it token by token, parse it.

This is the plain loop "as people write it": one chat prompt for each question, greedy
`transformers.generate` with its KV cache, stopped at the closing brace or at a token limit. No
grammar constrains it, so it can fail to be JSON or name no legal option; failures are counted,
not repaired.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel, StoppingCriteria

from readoff.bench.json_answer import (
    Value,
    is_closed,
    messages,
    parse,
    token_confidence,
    token_limit,
)
from readoff.engine.chat import ChatTemplate
from readoff.engine.questions import Question

if TYPE_CHECKING:
    from readoff.engine.tokenizer import Tokenizer

__all__ = ["ClosingBrace", "Generated", "JsonGenerator", "messages", "parse"]


@dataclass(frozen=True)
class Generated:
    """One generated answer. `seconds` holds prompt, generation and parsing; no model loading.

    `value` is the option's name, the level, or the truth value; None when `failure` says why
    nothing could be read. `token_confidence` is the probability that the unconstrained model gives
    the tokens that spell the value. `first_token_seconds` holds the prompt's share of the time.
    """

    text: str
    value: Value | None
    confidence: float | None
    failure: str | None
    prompt_tokens: int
    new_tokens: int
    seconds: float
    token_confidence: float | None = None
    first_token_seconds: float | None = None


class JsonGenerator:
    """Answers questions by greedy JSON generation.

    `model` is a transformers causal model, `tokenizer` ours of the same checkpoint, and
    `max_new_tokens` None the `token_limit` of each question.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: Tokenizer, *, max_new_tokens: int | None = None
    ) -> None:
        self.chat = ChatTemplate.of(tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self._ends = [
            tokenizer.added_tokens[name]
            for name in ("<|im_end|>", "<|endoftext|>")
            if name in tokenizer.added_tokens
        ]

    def ask(self, state: Any, question: Question) -> Generated:
        """Generate and parse the answer to one question about `state`."""
        started = time.perf_counter()
        ids = self.tokenizer.encode_control(self.chat.render(messages(state, question)))
        seen = Logits()
        new = self._generate(ids, self._config(question), seen)
        text = self.tokenizer.decode(new)
        value, confidence, failure = parse(text, question)
        seconds = time.perf_counter() - started
        first = seen.first - started if seen.first is not None else None
        spelled = token_confidence(new, seen.probabilities(new), self.tokenizer.decode)
        return Generated(
            text, value, confidence, failure, len(ids), len(new), seconds, spelled, first
        )

    def warmup(self) -> None:
        """One prompt and two tokens, so that the first answer pays for no first-time set-up."""
        ids = self.tokenizer.encode_control("Nothing has happened yet.")
        short = GenerationConfig(max_new_tokens=2, do_sample=False, pad_token_id=0)
        self._generate(ids, short, Logits())

    def _config(self, question: Question) -> GenerationConfig:
        ends = self._ends
        return GenerationConfig(
            max_new_tokens=self.max_new_tokens or token_limit(question),
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=ends[-1] if ends else 0,
        )

    @torch.inference_mode()
    def _generate(self, ids: Sequence[int], config: GenerationConfig, seen: Logits) -> list[int]:
        """The ids that follow the prompt `ids`."""
        prompt = torch.tensor([ids], device=self.model.device)  # [1, T]
        generate: Any = self.model.generate  # typed as a module by nn.Module.__getattr__
        output = generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=config,
            logits_processor=[seen],
            stopping_criteria=[ClosingBrace(self.tokenizer, len(ids))],
        )
        new: list[int] = output[0, len(ids) :].tolist()
        return new


class ClosingBrace(StoppingCriteria):
    """Stops a batch of one where its object closes; a brace in a name is none."""

    def __init__(self, tokenizer: Tokenizer, prompt_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.prompt_tokens = prompt_tokens

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any
    ) -> torch.BoolTensor:
        new = input_ids[0, self.prompt_tokens :].tolist()
        stop = "}" in self.tokenizer.decode(new[-1:]) and is_closed(self.tokenizer.decode(new))
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device)  # type: ignore[return-value]


class Logits(LogitsProcessor):
    """Keeps each step's logits as they are, and when the first came; nothing is computed."""

    def __init__(self) -> None:
        self.first: float | None = None
        self._steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        if self.first is None:
            self.first = time.perf_counter()
        self._steps.append(scores)
        return scores

    def probabilities(self, tokens: Sequence[int]) -> list[float]:
        """The probability of each generated token."""
        return [
            float(step[0].float().softmax(-1)[token])
            for step, token in zip(self._steps, tokens, strict=False)
        ]
