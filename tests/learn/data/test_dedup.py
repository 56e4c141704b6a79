"""What is there twice, or nearly, in the sources or in the evaluation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from readoff.learn.data.clinc150 import clinc150
from readoff.learn.data.dedup import deduplicated, evaluation_texts, near
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import Message, Source, Split
from tests.learn.data import fabricated

LONG = "please tell me how many days it will take until the new card arrives at home"


def source(**splits: list[tuple[str, str]]) -> Source:
    found: dict[Split, list[Message]] = {"train": [], "valid": [], "test": []}
    for name, pairs in splits.items():
        found[name] = [Message(*pair) for pair in pairs]  # type: ignore[index]
    return Source("clinc150", "CC BY 3.0", found, "")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (LONG, True),
        (LONG.upper() + "?!", True),
        ("home at arrives card new the until take will it days many how me tell please", False),
        (LONG.replace("please tell me how many", "how many please tell me"), True),
        (LONG.replace("home", "homes"), True),
        (LONG.replace("home", "work soon"), True),
        ("please tell me how many calories are in a slice of bread", False),
    ],
)
def test_near(text: str, same: bool) -> None:
    words_equal = sorted(text.lower().strip("?!").split()) == sorted(LONG.split())
    found = near([Message(text, "a")], [LONG, "something else altogether"])
    assert found.tolist() == [same or words_equal]


def test_near_is_jaccard_of_runs() -> None:
    # 5-letter runs of "  abcdefgh  " and of the same with one letter more at the end.
    ours, theirs = "  abcdefghijklmnopqrstuvwxyz  ", "  abcdefghijklmnopqrstuvwxyza  "
    runs = [{text[i : i + 5] for i in range(len(text) - 4)} for text in (ours, theirs)]
    similar = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    found = near([Message(ours.strip(), "a")], [theirs.strip()])
    assert found.tolist() == [similar >= 0.8]


def test_near_with_nothing_to_compare() -> None:
    assert near([], ["a"]).tolist() == []
    assert near([Message("a", "b")], []).tolist() == [False]


def test_copies_are_dropped_from_the_split_that_counts_less() -> None:
    sources = {
        "clinc150": source(
            train=[
                (LONG, "a"),
                ("one of valid here", "a"),
                ("seen in bigbench today", "a"),
                ("kept by train", "a"),
                ("Kept, by train!", "a"),
            ],
            valid=[("one of valid here", "a"), ("in the other test", "a"), ("own valid", "a")],
            test=[(LONG + "!", "a"), ("seen in bigbench today", "a")],
        ),
        "banking77": source(
            train=[("another train one", "b")],
            valid=[("another valid two", "b")],
            test=[("in the other test", "b")],
        ),
    }
    left, dropped = deduplicated(sources, ["Seen in BIG-bench today", "seen in bigbench today"])
    texts = {
        split: [message.text for message in messages]
        for split, messages in left["clinc150"].splits.items()
    }
    assert texts["train"] == ["kept by train"]
    assert texts["valid"] == ["one of valid here", "own valid"]
    assert texts["test"] == [LONG + "!", "seen in bigbench today"]
    found = dropped["clinc150"]
    assert (found.twice, found.in_evaluation, found.in_another_split) == (1, 1, 3)
    assert found.by_split == {"train": 4, "valid": 1, "test": 0}


def test_a_message_with_two_intents_goes() -> None:
    splits = {
        "train": [("both", "a"), ("Both", "b"), ("one here", "a")],
        "valid": [("two there", "a")],
        "test": [("three anywhere", "a")],
    }
    left, dropped = deduplicated({"clinc150": source(**splits)}, [])
    assert [message.text for message in left["clinc150"].splits["train"]] == ["one here"]
    assert dropped["clinc150"].of_two_intents == 2


def test_a_split_of_which_nothing_is_left_is_an_error() -> None:
    splits = {name: [("the same words", "a")] for name in ("train", "valid", "test")}
    with pytest.raises(DataError, match="no messages left to train on"):
        deduplicated({"clinc150": source(**splits)}, [])


def test_planted_copies_of_the_evaluation_go(sources: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    before, _ = deduplicated({"clinc150": clinc150(copy)}, evaluation_texts(copy))
    planted = [message.text for message in before["clinc150"].splits["train"][:3]]
    for text in planted:
        fabricated.plant_in_bigbench(copy, text)
    after, dropped = deduplicated({"clinc150": clinc150(copy)}, evaluation_texts(copy))
    left = [message.text for message in after["clinc150"].splits["train"]]
    assert not set(planted) & set(left)
    assert dropped["clinc150"].in_evaluation == 3
    assert len(left) == len(before["clinc150"].splits["train"]) - 3
