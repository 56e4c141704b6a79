"""`ChatEscalation`: asks an OpenAI-compatible chat endpoint what the gate turned away.

One question a call, thinking off, the answer constrained to a JSON object that names an option.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from readoff.engine.answers import Answer, stated_answer
from readoff.engine.errors import EscalationError, NumericsError, ReadoffError
from readoff.engine.questions import Choice, Question, Score
from readoff.engine.strict_json import loads
from readoff.engine.text import Text, render_entry, render_text

if TYPE_CHECKING:
    import httpx

PATH = "/v1/chat/completions"
MAX_BODY = 2**20
"""Bytes of an answer; a longer one is nonsense."""

NO_THINKING: Mapping[str, object] = {"chat_template_kwargs": {"enable_thinking": False}}
"""How vLLM, SGLang and llama.cpp are told to leave thinking out. Others take other words, for
example {"reasoning_effort": "none"}, or nothing at all."""


class ChatEscalation:
    """A callable for `decide(escalate=)`. May be called from several threads at once.

    `url` is the server's address, or that of its chat resource; `model` the model's name there;
    `key` a bearer token, whose outer blanks are dropped. `timeout` bounds each wait for
    the network. `extra` goes into each request as it is and replaces what stands there under the
    same name.

    The model names an option and no probabilities, so all of the probability is on that option.
    `self.url` and errors hold neither the key nor the user and the query of the address. Raises
    EscalationError for an address or a key that can't be used.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        max_tokens: int = 256,
        extra: Mapping[str, object] = NO_THINKING,
    ) -> None:
        import httpx  # not at the top: most users never escalate over HTTP

        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            address = httpx.URL("")
        if address.scheme not in ("http", "https") or not address.host:
            # Not shown: what can't be parsed may hold a password anywhere.
            raise EscalationError(
                "The escalation's address is no URL; write it as http://HOST:PORT."
            )
        base = address.path.rstrip("/").removesuffix(PATH).removesuffix("/v1")
        self._address = address.copy_with(path=base + PATH, fragment=None)
        self.url = str(self._address.copy_with(userinfo=b"", query=None))
        self._key = _checked_key(key)
        self.model = model
        self.extra = dict(extra)
        self.max_tokens = max_tokens
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=timeout,
            trust_env=not _loopback(address.host),
        )

    def __call__(self, state: Text, question: Question) -> Answer:
        """The endpoint's answer to one question. Raises EscalationError."""
        try:
            return read(self._post(self.request(state, question)), question)
        except EscalationError as error:
            raise EscalationError(self._hidden(str(error))) from None

    def request(self, state: Text, question: Question) -> dict[str, Any]:
        """The body that is sent."""
        return {
            "model": self.model,
            "messages": messages(state, question),
            "temperature": 0,
            "max_tokens": self.max_tokens,
            "stream": False,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema(question)},
            },
            **self.extra,
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> ChatEscalation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _post(self, body: Mapping[str, Any]) -> object:
        import httpx

        try:
            with self._client.stream("POST", self._address, json=body) as response:
                data = _read(response)
        except httpx.TimeoutException:
            raise EscalationError(f"{self.url} didn't answer in time.") from None
        except httpx.HTTPError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise EscalationError(f"{self.url} can't be reached: {reason}.") from None
        if response.status_code != 200:
            # Hidden before it is cut: half of a key is too much too.
            said = " ".join(self._hidden(data.decode("utf-8", "replace")).split())[:200]
            raise EscalationError(f"{self.url} gave HTTP {response.status_code}: {said}")
        try:
            return loads(data)
        except ReadoffError as error:
            raise EscalationError(f"{self.url} gave no JSON: {error}") from None

    def _hidden(self, text: str) -> str:
        """`text` without the key, which some servers repeat when they refuse it."""
        return text.replace(self._key, "(key)") if self._key else text


def messages(state: Text, question: Question) -> list[dict[str, str]]:
    """The chat of one question."""
    asked = "Decide." if question.instructions is None else render_text(question.instructions)
    lines = [render_text(state), "", asked, *_options(question), ""]
    lines.append(f"Answer with JSON only: {_shape(question)}")
    return [
        {"role": "system", "content": "You decide about a state. You answer with one JSON object."},
        {"role": "user", "content": "\n".join(lines)},
    ]


def schema(question: Question) -> dict[str, Any]:
    """The JSON schema of a legal answer: one entry, one of the question's options."""
    kind: dict[str, Any] = {"type": "boolean"}
    if isinstance(question, Choice):
        kind = {"type": "string", "enum": list(question.options)}
    elif isinstance(question, Score):
        kind = {"type": "integer", "enum": list(range(len(question.options)))}
    return {
        "type": "object",
        "properties": {question.type: kind},
        "required": [question.type],
        "additionalProperties": False,
    }


def read(body: object, question: Question) -> Answer:
    """The answer in a chat completion. Raises EscalationError, saying what is wrong with it."""
    try:
        text = body["choices"][0]["message"]["content"]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        raise EscalationError("The endpoint's answer is no chat completion.") from None
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise EscalationError(f"The endpoint answered no JSON: {str(text)[:80]!r}.") from None
    value = found.get(question.type) if isinstance(found, dict) else None
    legal = isinstance(value, bool) if question.type == "noul" else not isinstance(value, bool)
    option = str(value).lower() if question.type == "noul" else str(value)
    kind = int if isinstance(question, Score) else bool if question.type == "noul" else str
    if not legal or not isinstance(value, kind):
        raise EscalationError(f"The endpoint named no {question.type}: {str(text)[:80]!r}.")
    try:
        return stated_answer(question, option)
    except NumericsError:
        raise EscalationError(f"The endpoint chose {option[:80]!r}, which is no option.") from None


def _options(question: Question) -> list[str]:
    if isinstance(question, Choice):
        pairs = question.criteria.items()
        return [render_entry(f"- {n}" if t is None else f"- {n}:", t) for n, t in pairs]
    if isinstance(question, Score):
        return [render_entry(f"{i} =", text) for i, text in enumerate(question.criteria)]
    sides = (question.criteria or {}).items()
    return [render_entry(f"{name}:", text) for name, text in sides if text is not None]


def _shape(question: Question) -> str:
    value = {"choice": '"<one option>"', "score": "<level>", "noul": "<true or false>"}
    return f'{{"{question.type}": {value[question.type]}}}'


def _read(response: httpx.Response) -> bytes:
    data = bytearray()
    for block in response.iter_bytes():
        data += block
        if len(data) > MAX_BODY:
            raise EscalationError("The endpoint's answer is longer than 1 MB.")
    return bytes(data)


def _checked_key(key: str | None) -> str:
    """The key without outer blanks, "" for none. Errors don't show it."""
    found = "" if key is None else key.strip()
    if not all("!" <= letter <= "~" for letter in found):
        raise EscalationError(
            "The escalation's key holds a character that no HTTP header can carry; it must be "
            "printable ASCII without blanks."
        )
    return found


def _loopback(host: str) -> bool:
    """A proxy named by the environment doesn't lead to this very machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
