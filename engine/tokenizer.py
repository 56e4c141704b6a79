"""A checkpoint's tokenizer, once for our own text and once for the user's.

Source of the two-tokenizer method: the tokenizers library can be told to leave *special* tokens
alone in text, but added tokens that aren't marked special (`<think>`, `<tool_call>`) still come
out. A second tokenizer that was never told about added tokens can't produce any.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock

import tokenizers

from readoff.engine.errors import CheckpointError, TemplateError

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")
_MEMO_BUDGET = 4_000_000  # characters plus ids; some tens of megabytes at most


class Tokenizer:
    """Text to token ids and back.

    `added_tokens` maps each added token to its id; `chat_template` is the Jinja source that came
    with the checkpoint, or None; `special_tokens` maps bos_token, eos_token, … to their text.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        chat_template: str | None = None,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._control = backend
        self._text = tokenizers.Tokenizer(backend.model)
        if backend.normalizer is not None:
            self._text.normalizer = backend.normalizer
        if backend.pre_tokenizer is not None:
            self._text.pre_tokenizer = backend.pre_tokenizer
        self._memo = _Memo(_MEMO_BUDGET)
        self.chat_template = chat_template
        self.special_tokens: dict[str, str] = dict(special_tokens or {})
        self.added_tokens: dict[str, int] = {
            token.content: index for index, token in backend.get_added_tokens_decoder().items()
        }
        # Ids that plain text could reach after all, because the vocabulary itself holds them.
        self._forgeable = frozenset(self.added_tokens.values()).intersection(
            self._text.get_vocab(with_added_tokens=False).values()
        )

    @classmethod
    def load(cls, folder: str | Path) -> Tokenizer:
        """Load tokenizer.json and what stands beside it. Raises CheckpointError."""
        path = Path(folder) / "tokenizer.json"
        try:
            backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(
                f"{folder} has no tokenizer.json. Save the tokenizer beside the weights with "
                "transformers' save_pretrained."
            ) from None
        except Exception as error:  # the library raises bare Exception for a bad file
            raise CheckpointError(f"{path} is not a readable tokenizer: {error}") from error
        config = _read_json(Path(folder) / "tokenizer_config.json")
        return cls(backend, _chat_template(Path(folder), config), _special_tokens(config))

    def encode_control(self, text: str) -> tuple[int, ...]:
        """Ids of text that we wrote: added tokens in it become control tokens."""
        return tuple(self._control.encode(text, add_special_tokens=False).ids)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Ids of text that a user wrote: never a control token, whatever it spells. Memoised."""
        known = self._memo.get(text)
        if known is not None:
            return known
        ids = tuple(self._text.encode(text, add_special_tokens=False).ids)
        if self._forgeable and not self._forgeable.isdisjoint(ids):
            raise TemplateError(
                "This tokenizer turns plain text into a control token, which is not safe to use."
            )
        self._memo.put(text, ids)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens spelled out."""
        return self._control.decode(list(ids), skip_special_tokens=False)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included. The model's table may have unused rows more."""
        return self._control.get_vocab_size(with_added_tokens=True)

    def vocabulary(self) -> dict[str, int]:
        """Every token to its id, added ones included, in the vocabulary's own spelling of bytes.

        Made anew at each call. `decode` would lose tokens that are parts of a character.
        """
        return self._control.get_vocab(with_added_tokens=True)

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that turns text into ids, however its file was formatted."""
        parts = json.loads(self._control.to_str())
        shape = {k: parts.get(k) for k in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        text = json.dumps(shape)  # the library writes every field and token in a fixed order
        return hashlib.sha256(text.encode()).hexdigest()


class _Memo:
    """Least recently used texts and their ids, bounded by their summed size. Thread-safe."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._entries: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> tuple[int, ...] | None:
        with self._lock:
            ids = self._entries.get(text)
            if ids is not None:
                self._entries.move_to_end(text)
            return ids

    def put(self, text: str, ids: tuple[int, ...]) -> None:
        size = len(text) + len(ids)
        if size > self._budget:
            return
        with self._lock:
            if text in self._entries:
                return
            self._entries[text] = ids
            self._used += size
            while self._used > self._budget:
                old, dropped = self._entries.popitem(last=False)
                self._used -= len(old) + len(dropped)


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object.")
    return content


def _chat_template(folder: Path, config: Mapping[str, object]) -> str | None:
    """The default chat template, looked for in the places and the order that transformers uses."""
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        try:
            return jinja.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(
                f"{jinja} can't be read as UTF-8 text ({error}). Save it as UTF-8."
            ) from error
    legacy = _read_json(folder / "chat_template.json")
    for source in (config.get("chat_template"), legacy.get("chat_template")):
        if isinstance(source, str):
            return source
        if isinstance(source, list):  # several named templates
            for entry in source:
                if isinstance(entry, dict) and entry.get("name") == "default":
                    template = entry.get("template")
                    return template if isinstance(template, str) else None
    return None


def _special_tokens(config: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _SPECIAL:
        value = config.get(name)
        if isinstance(value, dict):  # an added token with its flags
            value = value.get("content")
        if isinstance(value, str):
            found[name] = value
    return found
