"""The tokenizer inside a GGUF file, written out as the two files that tokenizers are loaded from.

No torch in this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from readoff.engine.cache import new_folder
from readoff.engine.errors import CheckpointError
from readoff.engine.gguf_file import GgufFile

_VERSION = 1  # of what is written here; part of the cache key

# llama.cpp's token types
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5

# How Qwen2 to Qwen3 split text before merging; "qwen2" is llama.cpp's name for it.
_SPLITS = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}


def tokenizer_folder(path: Path, header_digest: str, cache: Path) -> Path:
    """A folder with tokenizer.json and tokenizer_config.json for the GGUF file at `path`.

    It lies in `cache` under `header_digest`, the hash of the bytes that hold the tokenizer, so a
    file that changes or moves can't meet another's tokenizer. Raises CheckpointError.
    """
    folder = cache / "tokenizers" / f"{header_digest[:32]}-{_VERSION}"
    if not folder.is_dir():
        files = tokenizer_files(GgufFile(path).metadata, str(path))
        try:
            with new_folder(folder) as draft:
                for name, content in files.items():
                    text = json.dumps(content, ensure_ascii=False)
                    (draft / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CheckpointError(
                f"The tokenizer of {path} can't be written to {folder} ({error}). Set "
                "READOFF_CACHE to a folder that can be written."
            ) from None
    return folder


def tokenizer_files(metadata: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The contents of both files, from a GGUF file's metadata."""
    kind, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in _SPLITS:
        raise CheckpointError(
            f"{where}: a tokenizer of kind {kind!r}/{split!r} can't be read, only 'gpt2'/"
            f"{'/'.join(map(repr, _SPLITS))}. Use the model's Hugging Face folder."
        )
    tokens: list[str] = _array(metadata, "tokens", where)
    types: list[int] = _array(metadata, "token_type", where)
    if len(tokens) != len(types):
        raise CheckpointError(f"{where}: {len(tokens)} tokens but {len(types)} token types.")
    vocab: dict[str, int] = {}
    added: list[dict[str, Any]] = []
    for index, (token, token_type) in enumerate(zip(tokens, types, strict=True)):
        if token_type == _NORMAL:
            vocab[token] = index
        elif token_type in (_CONTROL, _USER_DEFINED):
            added.append(_added_token(index, token, special=token_type == _CONTROL))
        elif token_type != _UNUSED:  # unused: padding up to a round size
            raise CheckpointError(f"{where}: token {index} has the unknown type {token_type}.")
    bytes_only = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    pattern = {"Regex": _SPLITS[split]}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False},
                bytes_only,
            ],
        },
        "post_processor": bytes_only,
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": _array(metadata, "merges", where),
        },
    }
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "bos_token": None,  # Qwen puts no token before a text, whatever the file's bos id says
        "eos_token": _special(metadata, "eos_token_id", tokens, where),
        "pad_token": _special(metadata, "padding_token_id", tokens, where),
        "unk_token": None,
        "chat_template": metadata.get("tokenizer.chat_template"),
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"}
            for token in added
        },
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": config}


def _array(metadata: dict[str, Any], name: str, where: str) -> list[Any]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not value:
        raise CheckpointError(f"{where}: tokenizer.ggml.{name} is missing; use a complete file.")
    return value


def _added_token(index: int, content: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _special(metadata: dict[str, Any], name: str, tokens: list[str], where: str) -> str | None:
    index = metadata.get(f"tokenizer.ggml.{name}")
    if index is None:
        return None
    if not isinstance(index, int) or not 0 <= index < len(tokens):
        raise CheckpointError(f"{where}: tokenizer.ggml.{name} is {index!r}, not a token's id.")
    return tokens[index]
