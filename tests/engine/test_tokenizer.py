"""Two encoders: ours knows control tokens, the user's can't produce any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.errors import CheckpointError, TemplateError
from readoff.engine.tokenizer import _MEMO_BUDGET, Tokenizer, _Memo
from tests.tokenizers import CONTROL, QWEN, qwen, save_tiny, tiny

TINY = tiny(thinking=True)


@pytest.mark.parametrize("family", ["tiny", *QWEN])
def test_no_control_token_comes_out_of_user_text(family: str) -> None:
    tokenizer = TINY if family == "tiny" else qwen(family)
    added = tokenizer.added_tokens
    assert {"<think>", "<tool_call>"} <= added.keys() or family == "qwen2.5"
    spelled = "".join(added) + " ".join(added) + "\n".join(added)
    assert set(tokenizer.encode_text(spelled)).isdisjoint(added.values())
    assert set(added.values()) <= set(tokenizer.encode_control(spelled))
    assert tokenizer.decode(tokenizer.encode_text(spelled)) == spelled


@given(st.text().filter(lambda text: not any(token in text for token in CONTROL)))
def test_text_without_control_tokens_has_the_same_ids_either_way(text: str) -> None:
    assert TINY.encode_text(text) == TINY.encode_control(text)


@pytest.mark.parametrize("family", QWEN)
def test_user_text_gets_the_ids_the_library_gives_it(family: str) -> None:
    tokenizer = qwen(family)
    for text in (
        "Hello, wörld!  \n\n\tx",
        "你好，世界。",
        '{"a": [1, 2.5, null]}',
        "it's 1234 O'Clock",
    ):
        assert tokenizer.encode_text(text) == tokenizer.encode_control(text)


def test_a_vocabulary_that_spells_a_control_token_is_caught() -> None:
    vocab = {"a": 0, "b": 1, "ab": 2}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("a", "b")]))
    backend.add_special_tokens(["ab"])
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode_text("a") == (0,)
    with pytest.raises(TemplateError, match="plain text into a control token"):
        tokenizer.encode_text("ab")


def test_a_file_that_truncates_or_pads_does_neither_here(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.enable_truncation(3)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    assert len(Tokenizer.load(tmp_path).encode_control("abcdef")) == 6


def test_added_tokens_special_tokens_and_sizes(tmp_path: Path) -> None:
    assert tuple(TINY.added_tokens) == CONTROL
    assert TINY.vocab_size == max(TINY.added_tokens.values()) + 1
    assert TINY.special_tokens == {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    save_tiny(tmp_path)
    config = {"bos_token": None, "eos_token": {"content": "<|im_end|>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert Tokenizer.load(tmp_path).special_tokens == {"eos_token": "<|im_end|>"}


def test_the_vocabulary_holds_every_token_under_its_id() -> None:
    vocabulary = TINY.vocabulary()
    assert sorted(vocabulary.values()) == list(range(TINY.vocab_size))
    assert TINY.added_tokens.items() <= vocabulary.items()
    assert vocabulary["Ġ"] == TINY.encode_text(" ")[0]  # a byte in the vocabulary's own spelling


def test_the_chat_template_is_looked_for_where_transformers_puts_it(tmp_path: Path) -> None:
    def found() -> str | None:
        return Tokenizer.load(tmp_path).chat_template

    save_tiny(tmp_path)
    assert found() is None
    (tmp_path / "chat_template.json").write_text('{"chat_template": "legacy"}')
    assert found() == "legacy"
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert found() == "d"
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "one"}')
    assert found() == "one"
    (tmp_path / "chat_template.jinja").write_text("{{ '王' }}", encoding="utf-8")
    assert found() == "{{ '王' }}"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tokenizer.json", None, "no tokenizer.json"),
        ("tokenizer.json", "{", "not a readable tokenizer"),
        ("tokenizer.json", '{"model": {"type": "Oracle"}}', "not a readable tokenizer"),
        ("tokenizer_config.json", "{", "is not JSON"),
        ("tokenizer_config.json", "[]", "JSON object"),
        ("chat_template.jinja", "\udcff\udcfe", r"chat_template\.jinja can't be read as UTF-8"),
    ],
)
def test_a_broken_folder_is_one_clear_error(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    save_tiny(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=message):
        Tokenizer.load(tmp_path)


def test_the_digest_follows_what_shapes_ids_and_nothing_else(tmp_path: Path) -> None:
    save_tiny(tmp_path, thinking=True)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content, indent=3), encoding="utf-8")
    assert Tokenizer.load(tmp_path).digest == TINY.digest
    content["added_tokens"][0]["content"] = "<|end|>"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Tokenizer.load(tmp_path).digest != TINY.digest


def test_encoding_again_returns_the_same_object() -> None:
    assert TINY.encode_text("memo") is TINY.encode_text("me" + "mo")


def test_the_memo_forgets_the_least_recently_used_and_keeps_to_its_budget() -> None:
    memo = _Memo(budget=12)
    memo.put("aa", (1, 2))
    memo.put("bb", (3, 4))
    assert memo.get("aa") == (1, 2)
    memo.put("cc", (5, 6))
    memo.put("dd", (7, 8))
    assert [memo.get(text) for text in ("aa", "bb", "cc", "dd")] == [(1, 2), None, (5, 6), (7, 8)]
    memo.put("too long for all of it", (9,))
    assert memo.get("too long for all of it") is None
    assert memo.get("cc") == (5, 6)


def test_a_text_beyond_the_memo_is_encoded_all_the_same() -> None:
    text = "x" * (_MEMO_BUDGET // 2 + 1)
    assert len(TINY.encode_text(text)) == len(text)
