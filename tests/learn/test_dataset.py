"""Where rows go, and that validation sees nothing of what is trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from readoff.bench.records import state_key
from readoff.learn.dataset import Dataset, load_dataset, split
from readoff.learn.errors import ExampleError

from .rig import ANSWERS, example, row, write_rows

DIGEST = "606408f4585305d10cf1aa3df4075c039193cc85f4cf59a0c607e289ed8db780"
"""Of two plain rows: trainings that were begun must stay resumable."""


def states(data: Dataset) -> tuple[set[object], set[object]]:
    return {r.state for r in data.train}, {r.state for r in data.valid}


def test_a_folder_with_both_files(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl", [row("a"), row("b", split="valid")])
    write_rows(tmp_path / "valid.jsonl", [row("c"), row("d", split="train")])
    assert states(load_dataset([tmp_path])) == ({"a", "d"}, {"b", "c"})
    assert load_dataset([tmp_path]).notes == ()


def test_files(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "one.jsonl", [row("a"), row("b", split="valid")])
    two = write_rows(tmp_path / "two.jsonl", [row("c", source="escalation")])
    assert states(load_dataset([one, two])) == ({"a", "c"}, {"b"})


def test_a_share_is_set_aside(tmp_path: Path) -> None:
    rows = [row(f"state {i // 2}") for i in range(80)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    data = load_dataset([path], seed=1)
    assert len(data.valid) == 4
    assert "4 of 80 rows" in data.notes[0]
    train, valid = ({state_key(r.state) for r in part} for part in (data.train, data.valid))
    assert not train & valid
    again, other = load_dataset([path], seed=1), load_dataset([path], seed=2)
    assert (again.train, again.digest) == (data.train, data.digest)
    assert other.digest != data.digest


def test_groups_and_states_stay_together(tmp_path: Path) -> None:
    """A chain: row i shares its group with one neighbour and its state with the other."""
    rows = [row(f"s{(i + 1) // 2}", group=f"g{i // 2}") for i in range(20)]
    rows += [row(f"alone {i}") for i in range(5)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    for seed in range(5):
        data = load_dataset([path], valid_share=0.3, seed=seed)
        sizes = {sum(r.group is not None for r in part) for part in (data.train, data.valid)}
        assert sizes == {0, 20}


def test_the_digest_is_that_of_what_is_seen(tmp_path: Path) -> None:
    def digest(*rows: dict[str, object]) -> str:
        return load_dataset([write_rows(tmp_path / "x.jsonl", rows)]).digest

    first, valid = row("a"), row("v", split="valid")
    found = digest(first, valid)
    assert found == DIGEST
    assert digest(first | {"x_note": 1}, valid) == found
    assert digest(first | {"weight": 2}, valid) != found
    assert digest(row("b"), valid) != found
    changed = dict(first["answers"]) | {"route": "c"}
    assert digest(first | {"answers": changed}, valid) != found
    assert digest(first | {"family": "f"}, valid) != found


def test_rows_without_weight(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", [row("a"), row("b", weight=0), row("c", split="valid")])
    data = load_dataset([path])
    assert states(data) == ({"a"}, {"c"})
    assert data.notes[0].startswith("1 of 2 rows (train) have a weight of zero")


def test_rows_without_weight_to_validate_with_are_told_of(tmp_path: Path) -> None:
    rows = [row("a"), row("b", split="valid", weight=0), row("c", split="valid")]
    data = load_dataset([write_rows(tmp_path / "r.jsonl", rows)])
    assert states(data) == ({"a"}, {"c"})
    assert data.notes == ("1 of 2 rows (valid) have a weight of zero and were left out.",)


def test_repeated_rows_are_counted(tmp_path: Path) -> None:
    other = row("a", answers=dict(ANSWERS) | {"route": "c"})
    rows = [row("a"), row("a", x_note=1), row("a"), other, row("b"), row("v", split="valid")]
    data = load_dataset([write_rows(tmp_path / "r.jsonl", rows)])
    assert len(data.train) == 5
    assert data.notes[0] == "2 of 5 rows (train) repeat another row, and count again."


def test_answers_that_contradict_each_other_are_counted(tmp_path: Path) -> None:
    other = row("a", answers=dict(ANSWERS) | {"route": "c"})
    rows = [row("a"), other, other | {"weight": 0}, row("b"), row("v", split="valid")]
    data = load_dataset([write_rows(tmp_path / "r.jsonl", rows)])
    assert len(data.notes) == 2  # that a row weighs nothing, and this one
    assert data.notes[1].startswith("1 answer(s) (train) contradict an earlier one")
    assert '(the first: "route", ' in data.notes[1]
    assert "line 2)" in data.notes[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_large_group_is_trained_on(tmp_path: Path, seed: int) -> None:
    rows = [row(f"state {i}", group="large") for i in range(90)] + [row(x) for x in "abc"]
    data = load_dataset([write_rows(tmp_path / "r.jsonl", rows)], seed=seed)
    assert (len(data.train), len(data.valid)) == (90, 3)


def test_the_share_that_bundles_allow() -> None:
    """Sizes of the bundles, the share, and how many rows are set aside."""
    cases: list[tuple[list[int], float, int]] = [
        ([10] * 20, 0.01, 10),  # not one is small enough: the smallest
        ([9, 1], 0.5, 1),  # the larger one stays whatever the order
        ([2] * 20, 0.12, 6),  # 5 wanted: 6 is nearer than 4
        ([50] * 9 + [3], 0.01, 3),  # 5 wanted: 3 is nearer than 53
        ([3] * 10, 0.99, 27),  # one is trained on
    ]
    for sizes, share, aside in cases:
        rows = [
            example(f"{i} {j}", group=f"g{i}") for i, size in enumerate(sizes) for j in range(size)
        ]
        for seed in range(6):
            train, valid = split(rows, share, seed)
            assert (len(train), len(valid)) == (len(rows) - aside, aside), sizes


def test_a_valid_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A broken link and a folder aren't the same as no file."""
    write_rows(tmp_path / "train.jsonl", [row("a"), row("b")])
    valid = tmp_path / "valid.jsonl"
    valid.mkdir()
    with pytest.raises(ExampleError, match=r"valid\.jsonl can't be read"):
        load_dataset([tmp_path])
    valid.rmdir()
    valid.symlink_to("nowhere")
    with pytest.raises(ExampleError, match=r"valid\.jsonl can't be read"):
        load_dataset([tmp_path])


def test_a_family_that_loses_all_its_rows(tmp_path: Path) -> None:
    rows = [row("a"), row("b", family="rare"), row("c", family="rare", split="valid")]
    rows.append(row("d", family="aside", split="valid"))
    data = load_dataset([write_rows(tmp_path / "r.jsonl", rows)])
    one, other = data.train
    with pytest.raises(ExampleError, match=r'"rare" is empty.*Raise --max-tokens'):
        data.replaced([one], data.valid, ())
    with pytest.raises(ExampleError, match='"aside" is empty'):
        data.replaced(data.train, data.valid[:1], ())
    fewer = data.replaced([one, other], data.valid[1:], ("note",))
    assert (len(fewer.valid), fewer.notes) == (1, ("note",))
    with pytest.raises(ExampleError, match="No row is left to validate with"):
        data.replaced(data.train, [], ())


def test_refused(tmp_path: Path) -> None:
    valid = row("v", split="valid")
    cases = {
        "test split": ([row("a", split="test")], "line 1: a row of the test split"),
        "no weight": ([row("a", weight=0), valid | {"weight": 0}], 'family "none" is empty'),
        "empty family": ([row("a"), row("b", family="dull", weight=0), valid], '"dull" is empty'),
        "same state": ([row("v"), valid], "line 2 is for validation.*same state.*line 1"),
        "same group": (
            [row("a", group="g"), row("b", group="g", split="valid")],
            "line 2 is for validation.*same group.*line 1",
        ),
        "one state": ([row("a"), row("a")], "about one state"),
        "nothing to train on": ([valid], "no row to train on"),
    }
    for name, (rows, message) in cases.items():
        path = write_rows(tmp_path / f"{name}.jsonl", rows)
        with pytest.raises(ExampleError, match=message):
            load_dataset([path])
    (tmp_path / "blank.jsonl").write_text("\n")
    with pytest.raises(ExampleError, match="holds no row"):
        load_dataset([tmp_path / "blank.jsonl"])
    with pytest.raises(ExampleError, match=r"has no train\.jsonl"):
        load_dataset([tmp_path])


def test_a_state_in_json_is_no_text(tmp_path: Path) -> None:
    """Text that looks like an object is another state than the object."""
    path = write_rows(tmp_path / "r.jsonl", [row("a: 1"), row({"a": 1}, split="valid")])
    assert len(load_dataset([path]).valid) == 1
