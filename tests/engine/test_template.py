"""The template's words, its frame and its digest."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from readoff.engine import template as module
from readoff.engine.errors import TemplateError
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.template import Template
from tests.tokenizers import qwen, tiny

TEMPLATE = Template.load(tiny())


def test_a_choice_lists_its_options_behind_their_labels() -> None:
    question = Choice(
        instructions="Which team?",
        criteria={"billing": "Invoices", "技术": {"owns": ["bugs"]}, "a: b": None, "x": ""},
    )
    assert TEMPLATE.question(question, "ABCD") == (
        "Question: Which team?\nA. billing: Invoices\nB. 技术:\n  owns:\n    - bugs\n"
        'C. "a: b"\nD. x\n'
    )
    assert TEMPLATE.closing(question, "ABCD") == "Answer with the letter of one option."
    assert TEMPLATE.closing(question, ["AA", "AB"]) == "Answer with the letters of one option."
    assert TEMPLATE.closing(question, ["1", "2"]) == "Answer with the label of one option."


def test_a_score_lists_its_levels() -> None:
    question = Score(instructions={"rate": "anger"}, criteria=["Calm", {"label": "Angry"}])
    assert TEMPLATE.question(question, "01") == (
        "Question:\n  rate: anger\n0. Calm\n1.\n  label: Angry\n"
    )
    assert TEMPLATE.closing(question, "01") == "Answer with the number of one level."
    assert TEMPLATE.closing(question, "ab") == "Answer with the label of one level."


@pytest.mark.parametrize(
    ("criteria", "lines"),
    [
        (None, ""),
        ({}, ""),
        ({"true": None, "false": None}, ""),
        ({"true": "yes"}, "True: yes\n"),
        ({"false": "no"}, "False: no\n"),
        ({"false": "no", "true": "yes"}, "True: yes\nFalse: no\n"),
        ({"true": {"examples": ["a"]}}, "True:\n  examples:\n    - a\n"),
    ],
)
def test_a_noul_says_what_counts(criteria: Any, lines: str) -> None:
    question = Noul(instructions="Spam?", criteria=criteria)
    assert TEMPLATE.question(question, ("True", "False")) == "Question: Spam?\n" + lines
    assert TEMPLATE.closing(question, ("True", "False")) == "Answer True or False."


@pytest.mark.parametrize("instructions", [None, ""])
def test_without_instructions_every_kind_asks_something(instructions: Any) -> None:
    asked = {
        TEMPLATE.question(question, "AB").split("\n")[0]
        for question in (
            Choice(instructions=instructions, criteria={"a": None, "b": None}),
            Score(instructions=instructions, criteria=["a", "b"]),
            Noul(instructions=instructions),
        )
    }
    assert len(asked) == 3
    assert all(line.startswith("Question: ") and line.endswith("?") for line in asked)


@pytest.mark.parametrize(
    ("state", "pieces"),
    [
        ("text", ["State:\ntext\n"]),
        ("", ["State:\n\n"]),
        ("\n text \n", ["State:\n\n text \n\n"]),
        ({"a": 1}, ["State:\na: 1\n"]),
        ([], ["State:\n[]\n"]),
        (["one", {"a": 1, "b": [2]}], ["State:\n- one\n", "- a: 1\n  b:\n    - 2\n"]),
    ],
)
def test_states(state: Any, pieces: list[str]) -> None:
    assert TEMPLATE.state(state) == pieces


@pytest.mark.parametrize("change", [{"id": "x"}, {"version": 2}, {"before": "x"}, {"cue": "x"}])
def test_the_digest_covers_every_field(change: Any) -> None:
    assert dataclasses.replace(TEMPLATE, **change).digest != TEMPLATE.digest


def test_the_digest_covers_the_order_but_not_the_provenance() -> None:
    assert Template.load(tiny(), "question-first").digest != TEMPLATE.digest
    assert dataclasses.replace(TEMPLATE, verified=True).digest == TEMPLATE.digest
    assert Template.load(tiny()).digest == TEMPLATE.digest
    assert Template.load(tiny(thinking=True)).digest != TEMPLATE.digest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_STATE", "Text:\n"),
        ("_SYSTEM", "Judge."),
        ("render_entry", lambda head, value: head),
        ("render_parts", lambda state: ["x"]),
    ],
)
def test_the_digest_covers_the_words_and_the_code(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setattr(module, name, value)
    assert Template.load(tiny()).digest != TEMPLATE.digest


def test_where_the_frame_comes_from_is_known() -> None:
    assert not Template.load(qwen("qwen3.5")).verified
    assert Template.load(qwen("qwen3")).verified


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("sideways",), 'not "sideways"'), (("state-first", "fancy"), 'no template "fancy"')],
)
def test_unknown_names(arguments: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        Template.load(tiny(), *arguments)


@pytest.mark.parametrize(
    ("source", "end"),
    [
        ("{{ messages[0].content }}{{ messages[1].content }}<|im_end|>", "beginning"),
        ("{{ messages[0].content }}<|im_start|>{{ messages[1].content }} Answer:", "answer cue"),
        ("{{ messages[0].content }}\n{{ messages[1].content }}", "answer cue"),
    ],
)
def test_a_frame_that_could_merge_is_refused(source: str, end: str) -> None:
    with pytest.raises(TemplateError, match=f"{end} must end in a newline or a control token"):
        Template.load(tiny(source))
