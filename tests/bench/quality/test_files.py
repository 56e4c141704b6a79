"""What files of labelled data are called."""

from __future__ import annotations

import pytest

from readoff.bench.quality.files import QualityError, names_of


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/mails.jsonl", "b/forms.jsonl"], ["mails", "forms"]),
        (["a/test.jsonl", "b/test.jsonl"], ["a/test.jsonl", "b/test.jsonl"]),
        (
            ["x/a/test.jsonl", "y/a/test.jsonl", "z.jsonl"],
            ["x/a/test.jsonl", "y/a/test.jsonl", "z"],
        ),
        (["a/test.jsonl", "a/test.json"], ["test.jsonl", "test.json"]),
        (["test.jsonl", "a/test.jsonl"], ["test.jsonl", "a/test.jsonl"]),
    ],
)
def test_names_tell_files_apart(paths: list[str], names: list[str]) -> None:
    assert names_of(paths) == names


def test_a_file_that_is_named_twice_is_told() -> None:
    with pytest.raises(QualityError, match=r"a\.jsonl is named twice"):
        names_of(["a.jsonl", "./b.jsonl", "./a.jsonl"])
