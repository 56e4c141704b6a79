"""The sandboxed chat template renderer, with transformers as the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from readoff.engine.chat import CHATML, ChatTemplate, Frame
from readoff.engine.errors import TemplateError
from readoff.engine.tokenizer import Tokenizer
from tests.tokenizers import qwen, qwen_folder, tiny

TURNS = [
    {"role": "system", "content": "Be brief. <|im_end|>"},
    {"role": "user", "content": "Hi {{ 1 + 1 }}\n\n"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes?"},
    {"role": "user", "content": "你好 <tool_response> \\n"},
]
CHATS = [TURNS, TURNS[1:], TURNS[:2], TURNS[1:2]]
MINIMAL = "{{ messages[-1].content }}<|im_end|>"


def compare(tokenizer: Tokenizer, folder: Path) -> None:
    template = ChatTemplate.of(tokenizer)
    assert template.verified
    oracle = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_file=str(folder / "tokenizer.json"),
        chat_template=tokenizer.chat_template,
        **tokenizer.special_tokens,
    )
    for chat in CHATS:
        for prompt in (True, False):
            for thinking in (True, False):
                expected = oracle.apply_chat_template(
                    chat, tokenize=False, add_generation_prompt=prompt, enable_thinking=thinking
                )
                shown = template.render(
                    chat, add_generation_prompt=prompt, enable_thinking=thinking
                )
                assert shown == expected


def test_qwen3_renders_as_in_transformers() -> None:
    compare(qwen("qwen3"), qwen_folder("qwen3"))


def test_the_demonstration_model_renders_as_in_transformers(demo_checkpoint: Path) -> None:
    from readoff.engine.checkpoint import open_checkpoint

    folder = Path(open_checkpoint(demo_checkpoint).tokenizer_files)
    compare(Tokenizer.load(folder), folder)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson }} {{ '<王>' | tojson }}",
        "{{ messages | tojson(indent=2, sort_keys=true) }}",
        "{%- for m in messages %}\n  {%- if loop.first %}{% continue %}{% endif %}\n"
        "  {{ m.role }}\n  {% break %}\n{%- endfor %}",
        "  {% if true %}\n  x\n  {% endif %}\n y\n",
        "{% generation %}{{ messages[0].content }}{% endgeneration %}!",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
        "{{ ns.n }} {{ 'ab' * 3 }} {{ 7 * 6 }} {{ bos_token }} {{ eos_token }} {{ tools }}",
        "{{ strftime_now('%Y') }} {{ dict(a=1) }} {{ messages[0].missing is defined }}",
        "{{ messages[0].content.split('.')[0].strip().startswith('Be') }} {{ range(3) | list }}",
    ],
)
def test_what_templates_use_works_as_in_transformers(tmp_path: Path, source: str) -> None:
    tokenizer = tiny(source)
    oracle = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer._control, chat_template=source, **tokenizer.special_tokens
    )
    expected = oracle.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)
    assert ChatTemplate.of(tokenizer).render(TURNS) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "failed: .*unsafe"),
        ("{{ messages.__init__.__globals__ }}", "failed: .*unsafe"),
        ("{{ raise_exception.__globals__['json'] }}", "failed: .*unsafe"),
        ("{{ '%s' | format(cycler.__init__.__globals__) }}", "failed: .*unsafe"),
        ("{{ '{0.__class__.__mro__}'.format(1) }}", "failed: .*unsafe"),
        ("{% set ns = namespace() %}{% set ns.__call__ = dict %}", "failed: a namespace"),
        ("{% set ns = namespace(__class__=dict) %}", "failed: a namespace"),
        ("{% set _ = messages.append(1) %}", "failed: .*unsafe"),
        ("{% include '/etc/passwd' %}", "failed"),
        ("{{ raise_exception('No system role.') }}", "failed: No system role."),
        ("{% for i in range(10**9) %}x{% endfor %}", "failed"),
        ("{{ 'x' * 10000000000 }}", "operands this large"),
        ("{{ 2 ** 100000000 }}", "operands this large"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "longer than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "failed with RecursionError"),
        ("{{ 1 / 0 }}", "failed with ZeroDivisionError"),
        ("{{ messages[9].content }}", "failed"),
        ("{% if %}", "failed"),
        ("{{ undefined_helper() }}", "failed"),
    ],
)
def test_a_hostile_or_broken_template_is_a_template_error(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        ChatTemplate(source).frame("system")


def test_the_frame_is_the_control_text_around_the_user() -> None:
    frame = ChatTemplate.of(tiny(thinking=True)).frame("Sys")
    assert frame == Frame(
        "<|im_start|>system\nSys<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    )
    assert ChatTemplate.of(tiny()).frame(None) == Frame(
        "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_stand_in_is_marked_unverified_and_needs_its_tokens() -> None:
    assert not ChatTemplate.of(tiny()).verified
    assert ChatTemplate.of(tiny(MINIMAL)).verified
    bare: Any = tiny()
    del bare.added_tokens["<|im_start|>"]
    with pytest.raises(TemplateError, match=r"no <\|im_start\|> token"):
        ChatTemplate.of(bare)


def test_thinking_is_switched_off_where_the_template_can() -> None:
    template = ChatTemplate.of(qwen("qwen3"))
    assert template.frame(None).after.endswith("assistant\n<think>\n\n</think>\n\n")
    on = template.render(TURNS[:2], enable_thinking=True)
    assert on.endswith("assistant\n")


def test_a_template_that_always_thinks_is_refused() -> None:
    source = CHATML + "{{ '<think>\\n' }}"
    with pytest.raises(TemplateError, match="would be a thought, not a label"):
        ChatTemplate(source).frame(None)
    assert ChatTemplate(source + "{{ '</think>' }}").frame(None).after.endswith("</think>")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("fixed text", "0 times"),
        ("{{ messages[-1].content }}{{ messages[-1].content }}", "2 times"),
        ("{{ messages[-1].content | upper | lower }}", "0 times"),
        ("{{ messages[-1].content }}", "0 times"),
        ("{{ messages[-1].content }} {{ messages[0].content }}", "after the user's"),
    ],
)
def test_messages_lost_doubled_changed_or_swapped_are_noticed(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        ChatTemplate(source).frame("system")
