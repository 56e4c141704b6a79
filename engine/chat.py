"""Renders a checkpoint's chat template in a sandbox of our own.

Chat templates are programs that come with a download. They run in Jinja's immutable sandbox with
the helpers that transformers' `apply_chat_template` documents, and every way they can fail is a
`TemplateError`. What the sandbox can't stop is a template that loops for a very long time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from readoff.engine.errors import TemplateError
from readoff.engine.tokenizer import Tokenizer

_T = TypeVar("_T")
_MAX_OUTPUT = 1_000_000  # characters; a chat of two short messages needs a few hundred
_MARK = "READOFF-USER-TURN"
_SYSTEM_MARK = "READOFF-SYSTEM-TURN"

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false and has_thinking %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""Our own template for tokenizers of the Qwen family that come without one. `has_thinking` is
set where the tokenizer knows `<think>`: there an empty thought switches thinking off."""


@dataclass(frozen=True)
class Frame:
    """The control text around a user's message: `before` it, and `after` it up to the answer."""

    before: str
    after: str


class ChatTemplate:
    """One chat template. `verified` is False for our stand-in, True for the checkpoint's own.

    `variables` are visible to the template besides the messages: the special tokens.
    """

    def __init__(
        self, source: str, variables: Mapping[str, object] | None = None, *, verified: bool = True
    ) -> None:
        self.source = source
        self.verified = verified
        self._variables = dict(variables or {})
        self._compiled = _guarded(lambda: _environment().from_string(source))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> ChatTemplate:
        """The template that came with `tokenizer`, else ChatML, marked unverified.

        Raises TemplateError where there is neither a template nor the tokens ChatML is made of.
        """
        if tokenizer.chat_template is not None:
            return cls(tokenizer.chat_template, tokenizer.special_tokens)
        missing = {"<|im_start|>", "<|im_end|>"} - tokenizer.added_tokens.keys()
        if missing:
            raise TemplateError(
                "The tokenizer has no chat template and no "
                f"{' or '.join(sorted(missing))} token to build one from. Put the model's "
                "chat_template.jinja beside its tokenizer.json."
            )
        return cls(CHATML, {"has_thinking": "<think>" in tokenizer.added_tokens}, verified=False)

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool = True,
        enable_thinking: bool = False,
    ) -> str:
        """The chat as text, as `apply_chat_template(..., tokenize=False)` gives it."""
        context: dict[str, object] = {
            **self._variables,
            "messages": [dict(message) for message in messages],
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            "enable_thinking": enable_thinking,
        }
        return _guarded(lambda: self._generate(context))

    def frame(self, system: str | None) -> Frame:
        """The control text around a user message, thinking switched off.

        The template runs once, with marks in the places of both messages, and is cut at them, so
        no text of a user ever passes through it. Raises TemplateError if a message comes out
        changed, twice or not at all, or if the template lets the model begin with a thought.
        """
        messages = [{"role": "user", "content": _MARK}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": _SYSTEM_MARK})
        text = self.render(messages)
        for mark in (_MARK, *([_SYSTEM_MARK] if system is not None else [])):
            if text.count(mark) != 1:
                raise TemplateError(
                    f"The chat template shows a message {text.count(mark)} times instead of once. "
                    "Use the chat template of an instruction-tuned model."
                )
        before, after = text.split(_MARK)
        if _SYSTEM_MARK in after:
            raise TemplateError("The chat template puts the system message after the user's.")
        if after.rfind("<think>") > after.rfind("</think>"):
            raise TemplateError(
                "The chat template opens <think> without closing it although thinking is switched "
                "off: the first output token would be a thought, not a label. Use a model or a "
                "chat template that can answer without thinking."
            )
        return Frame(before.replace(_SYSTEM_MARK, system or ""), after)

    def _generate(self, context: dict[str, object]) -> str:
        chunks: list[str] = []
        size = 0
        for chunk in self._compiled.generate(context):
            chunks.append(chunk)
            size += len(chunk)
            if size > _MAX_OUTPUT:
                raise SecurityError(f"the output is longer than {_MAX_OUTPUT} characters")
        return "".join(chunks)


def _guarded(run: Callable[[], _T]) -> _T:
    try:
        return run()
    except JinjaError as error:
        raise TemplateError(f"The chat template failed: {error}") from error
    except Exception as error:  # a hostile or broken template can raise anything at all
        raise TemplateError(
            f"The chat template failed with {type(error).__name__}: {error}"
        ) from error


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox, with products that would fill the memory refused as well."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(v) if hasattr(v, "__len__") else abs(v) for v in (left, right)]
        if operator == "**" or sizes[0] * sizes[1] > _MAX_OUTPUT:
            raise SecurityError(f"'{operator}' with operands this large")
        return super().call_binop(context, operator, left, right)


class _PlainNamespace(Namespace):
    """Jinja's `namespace`, less the names with which a template could pose as a Python object."""

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        values = dict(*args, **kwargs)
        for name in values:
            _check_plain(name)
        super().__init__(values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_plain(name)
        super().__setitem__(name, value)


def _check_plain(name: object) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace can't hold the name {name!r}")


class _Generation(Extension):
    """Lets `{% generation %}…{% endgeneration %}` through: it marks text for training only."""

    tags = {"generation"}  # noqa: RUF012 (declared so by the base class)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["namespace"] = _PlainNamespace
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def _raise_exception(message: str) -> None:
    raise JinjaError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own filter this doesn't escape for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
