"""JSON generation as people write it: what is asked, when it stops, what counts as a failure."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from readoff.bench.json_answer import MAX_NEW_TOKENS, is_closed, token_limit
from readoff.bench.json_generate import JsonGenerator, messages, parse
from readoff.engine.questions import Choice, Noul, Question, Score
from tests.models import tiny_model

TEAM = Choice(
    instructions="Which team?", criteria={"billing": "Invoices", "sales": None, "a } b": None}
)
ANGER = Score(criteria=["Calm", "Annoyed", "Angry"])
LATE = Noul(instructions="The parcel is late.", criteria={"true": "It is late"})


class ByteTokenizer:
    """One token a byte; id 0 ends a text."""

    added_tokens: ClassVar[dict[str, int]] = {"<|im_end|>": 0, "<|im_start|>": 1}
    chat_template = None

    def encode_control(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


class Script(torch.nn.Module):
    """A model whose next token is the next byte of a text, whatever it is shown."""

    device = torch.device("cpu")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = list(text.encode())

    def generate(self, ids: torch.Tensor, **options: Any) -> torch.Tensor:
        assert options["generation_config"].do_sample is False
        for token in self.text[: options["generation_config"].max_new_tokens]:
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
            if any(stop(ids, None).all() for stop in options["stopping_criteria"]):
                break
        return ids


def generator(text: str, **options: Any) -> JsonGenerator:
    tokenizer: Any = ByteTokenizer()
    model: Any = Script(text)
    return JsonGenerator(model, tokenizer, **options)


def test_the_answer_is_read_and_generation_stops_at_the_brace() -> None:
    answer = '{"choice": "sales", "confidence": 0.7}'
    found = generator(answer + " and I could go on}").ask("Hello", TEAM)
    assert found.text == answer
    assert (found.value, found.confidence, found.failure) == ("sales", 0.7, None)
    assert found.new_tokens == len(answer)
    turns = messages("Hello", TEAM)
    assert found.prompt_tokens > sum(len(turn["content"]) for turn in turns)
    assert found.seconds > 0


def test_a_brace_in_a_name_ends_nothing() -> None:
    answer = '{"choice": "a } b", "confidence": 0.7}'
    found = generator(answer + " }").ask("Hello", TEAM)
    assert (found.text, found.value, found.failure) == (answer, "a } b", None)


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("{}", True),
        ("}", True),
        ('{"a": "}"', False),
        ('{"a": "\\"}', False),
        ('{"a": "\\\\"}', True),
        ("{'a': 1}", True),
        ('{"a": {"b": 1}', False),
        ('{"a": {"b": 1}}', True),
        ('{"a": "open }', False),
    ],
)
def test_where_an_object_closes(text: str, closed: bool) -> None:
    assert is_closed(text) is closed


def test_a_long_name_can_be_written_out() -> None:
    name = "a very long name of an option indeed, " * 4
    long = Choice(criteria={name: None, "short": None})
    answer = f'{{"choice": "{name}", "confidence": 0.7}}'
    assert len(answer) > MAX_NEW_TOKENS
    assert generator(answer).ask("Hello", long).value == name
    assert token_limit(TEAM) == token_limit(LATE) == MAX_NEW_TOKENS


def test_the_token_limit_makes_a_failure() -> None:
    found = generator("Well, let me think about that", max_new_tokens=10).ask("Hello", TEAM)
    assert (found.text, found.new_tokens) == ("Well, let ", 10)
    assert (found.value, found.failure) == (None, "no JSON object")


@pytest.mark.parametrize(
    ("text", "question", "value"),
    [
        ('{"choice": "billing", "confidence": 1}', TEAM, "billing"),
        ('```json\n{"choice": "a } b", "confidence": 0}\n```', TEAM, "a } b"),
        ('{"score": 2, "confidence": 0.5}', ANGER, 2),
        ('{"answer": false, "confidence": 0.5}', LATE, False),
    ],
)
def test_legal_answers(text: str, question: Question, value: object) -> None:
    found, confidence, failure = parse(text, question)
    assert failure is None
    assert found is value or found == value
    assert type(found) is type(value)
    assert confidence is not None


@pytest.mark.parametrize(
    ("text", "question", "failure"),
    [
        ("billing", TEAM, "no JSON object"),
        ('{"choice": billing}', TEAM, "not JSON"),
        ('{"team": "billing", "confidence": 1}', TEAM, "no 'choice'"),
        ('{"choice": "Billing", "confidence": 1}', TEAM, "'Billing' is no legal choice"),
        ('{"choice": ["billing"], "confidence": 1}', TEAM, "no legal choice"),
        ('{"score": 3, "confidence": 1}', ANGER, "3 is no legal score"),
        ('{"score": "1", "confidence": 1}', ANGER, "'1' is no legal score"),
        ('{"score": true, "confidence": 1}', ANGER, "True is no legal score"),
        ('{"answer": 1, "confidence": 1}', LATE, "1 is no legal answer"),
        ('{"answer": true}', LATE, "no confidence"),
        ('{"answer": true, "confidence": 1.5}', LATE, "no confidence"),
        ('{"answer": true, "confidence": NaN}', LATE, "no confidence"),
        ('{"answer": true, "confidence": true}', LATE, "no confidence"),
    ],
)
def test_failures_are_named(text: str, question: Question, failure: str) -> None:
    _, confidence, found = parse(text, question)
    assert found is not None
    assert failure in found
    assert confidence is None or 0 <= confidence <= 1


def test_the_prompt_names_everything_once() -> None:
    user = messages({"note": "straße"}, TEAM)[1]["content"]
    assert user.count("note: straße") == 1
    assert "\nWhich team?\n- billing: Invoices\n- sales\n- a } b\n" in user
    assert "\n0 = Calm\n1 = Annoyed\n2 = Angry\n" in messages("x", ANGER)[1]["content"]
    assert "\ntrue: It is late\n" in messages("x", LATE)[1]["content"]


def test_the_real_generate_accepts_what_we_pass() -> None:
    """Through transformers' own loop: greedy, bounded, and the same text twice."""
    tokenizer: Any = ByteTokenizer()
    generate = JsonGenerator(tiny_model("qwen2"), tokenizer, max_new_tokens=5)
    generate.tokenizer.decode = lambda ids: "".join(chr(97 + i % 26) for i in ids)  # type: ignore[method-assign]
    first, second = generate.ask("x", ANGER), generate.ask("x", ANGER)
    assert 1 <= first.new_tokens <= 5
    assert first.text == second.text
