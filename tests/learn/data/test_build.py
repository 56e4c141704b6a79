"""The data set as a whole: what every row is, and what the splits have in common."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readoff.bench.quality.labels import parse_label
from readoff.bench.workloads.lexicon import FAMILIES
from readoff.engine.wire import parse_request
from readoff.learn.data.build import Options, build
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import normalised
from tests.learn.data.conftest import STATES, Rows

Read = Callable[[Path], Rows]
FIELDS = {"state", "questions", "answers", "weight", "family", "language", "split"} | {
    "group",
    "source",
    "licence",
}
LICENCES = {"clinc150": "CC BY 3.0", "banking77": "CC BY 4.0", "forms": "CC0-1.0"}


def strings(value: Any) -> list[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in strings(item)]


def test_every_row_is_a_legal_request_whose_targets_sum_to_one(built: Path, read: Read) -> None:
    for split, rows in read(built).items():
        for row in rows:
            assert row.keys() == FIELDS
            request = parse_request(row)
            assert row["answers"].keys() == row["weight"].keys() == request.questions.keys()
            assert row["family"].keys() == request.questions.keys()
            for name, question in request.questions.items():
                answer = row["answers"][name]
                target = parse_label(answer, question)
                assert math.isclose(math.fsum(target.values()), 1.0, abs_tol=1e-9)
                if isinstance(answer, dict):
                    assert split == "train"
                    assert math.isclose(math.fsum(answer.values()), 1.0, abs_tol=1e-9)
                assert name.startswith(row["family"][name])


def test_rows_name_their_source_licence_language_and_split(built: Path, read: Read) -> None:
    for split, rows in read(built).items():
        assert {row["split"] for row in rows} == {split}
        assert {row["language"] for row in rows} == {"en", "zh"}
        for row in rows:
            assert LICENCES[row["source"]] == row["licence"]


def test_the_number_of_training_rows_is_the_one_asked_for(built: Path, read: Read) -> None:
    assert len(read(built)["train"]) == STATES


def test_all_families_are_there_in_every_split(built: Path, read: Read) -> None:
    for rows in read(built).values():
        counts = Counter(family for row in rows for family in row["family"].values())
        assert set(counts) == set(FAMILIES)


def test_no_family_dominates_the_training_rows(built: Path, read: Read) -> None:
    counts = Counter(family for row in read(built)["train"] for family in row["family"].values())
    total = sum(counts.values())
    for family in FAMILIES:
        assert 0.07 < counts[family] / total < 0.4, family


def test_splits_share_no_state_and_no_message(built: Path, read: Read, sources: Path) -> None:
    content = json.loads((sources / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    known = {normalised(text) for part in content.values() for text, _ in part}
    groups: dict[str, set[str]] = {}
    texts: dict[str, set[str]] = {}
    for split, rows in read(built).items():
        groups[split] = {row["group"] for row in rows}
        shown = [row["state"] for row in rows]
        # Messages as options count too.
        shown += [
            list(question.get("criteria") or ())
            for row in rows
            for question in row["questions"].values()
        ]
        found = {normalised(text) for item in shown for text in strings(item)}
        texts[split] = found & known
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not groups[one] & groups[other]
        assert not texts[one] & texts[other]
        assert texts[one]


def test_no_group_comes_twice_in_a_split(built: Path, read: Read) -> None:
    for rows in read(built).values():
        groups = [row["group"] for row in rows]
        assert len(groups) == len(set(groups))


def test_nouls_are_as_often_true_as_false(built: Path, read: Read) -> None:
    for family in ("verification", "sufficiency"):
        answers = Counter[str]()
        for row in read(built)["train"]:
            for name, question in row["questions"].items():
                if question["type"] == "noul" and row["family"][name] == family:
                    answer = row["answers"][name]
                    true = answer if isinstance(answer, bool) else answer["true"] > 0.5
                    answers[str(true)] += 1
        assert 0.35 < answers["True"] / answers.total() < 0.65, family


def test_the_right_option_is_in_no_place_of_its_own(built: Path, read: Read) -> None:
    places = []
    for row in read(built)["train"]:
        for name, question in row["questions"].items():
            answer = row["answers"][name]
            if question["type"] == "choice":
                options = list(question["criteria"])
                right = answer if isinstance(answer, str) else max(answer, key=answer.get)
                places.append(options.index(right) / (len(options) - 1))
    assert 0.4 < sum(places) / len(places) < 0.6


def test_weights_are_a_half_for_derived_labels(built: Path, read: Read) -> None:
    for row in read(built)["train"]:
        for name, weight in row["weight"].items():
            assert weight in (0.5, 1.0)
            if row["family"][name] != "routing":
                assert weight == 0.5
    human = [
        weight
        for row in read(built)["train"]
        for name, weight in row["weight"].items()
        if row["family"][name] == "routing"
    ]
    assert sum(weight == 1.0 for weight in human) > 0.85 * len(human)
    assert all(w == 1.0 for row in read(built)["test"] for w in row["weight"].values())


def test_estimated_weights_are_one_minus_the_noise(
    built: Path, sources: Path, tmp_path: Path, read: Read
) -> None:
    out = tmp_path / "set"
    options = Options(sources, out, seed=1, states=STATES, weights="estimated", model=None)
    document = build(options)
    noise: Any = document["noise"]
    assert 0.0 <= noise["sources"]["clinc150"] < 0.3
    fixed, estimated = read(built)["train"], read(out)["train"]
    for before, after in zip(fixed, estimated, strict=True):
        assert before["state"] == after["state"]
        assert before["answers"] == after["answers"]
        for name, weight in after["weight"].items():
            if after["source"] == "forms":
                assert weight == 1.0
            else:
                kind = f"{after['source']}/{after['family'][name]}"
                rates = [r for k, r in noise["kinds"].items() if k.startswith(kind)]
                rates.append(noise["sources"][after["source"]])
                assert any(abs(1.0 - rate - weight) < 2e-4 for rate in rates)


def test_the_same_seed_makes_the_same_files(built: Path, sources: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    build(Options(sources, again, seed=1, states=STATES, model=None))
    build(Options(sources, other, seed=2, states=STATES, model=None))
    for name in ("train.jsonl", "valid.jsonl", "test.jsonl", "data.json"):
        assert (again / name).read_bytes() == (built / name).read_bytes()
    assert (other / "train.jsonl").read_bytes() != (built / "train.jsonl").read_bytes()


def test_data_json_counts_what_is_there(built: Path, read: Read, sources: Path) -> None:
    document = json.loads((built / "data.json").read_text(encoding="utf-8"))
    rows = read(built)
    for split, found in rows.items():
        assert document[split]["rows"] == len(found)
        assert document[split]["questions"] == sum(len(row["questions"]) for row in found)
        families = document[split]["questions_by_family"]
        assert sum(families.values()) == document[split]["questions"]
    assert document["sources"].keys() == {"clinc150", "banking77", "forms"}
    told = {row["source"]: row["licence"] for row in rows["train"]}
    assert told == {name: document["sources"][name]["licence"] for name in told}
    assert document["seed"] == 1


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("clinc150", "clinc150"),
        ("banking77/train.csv", "train.csv"),
        ("bigbench", "bigbench"),
        ("cranfield/cranqrel", "cranqrel"),
    ],
)
def test_a_missing_source_is_named_and_nothing_written(
    sources: Path, tmp_path: Path, gone: str, named: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    path = copy / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(ValueError, match=named):
        build(Options(copy, tmp_path / "out", states=20, model=None))
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}


def test_no_folder_of_sources(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        build(Options(tmp_path / "nowhere", tmp_path / "out", model=None))


def test_too_many_states_for_the_sources(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Ask for fewer states"):
        build(Options(sources, tmp_path / "out", states=5000, model=None))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("states", "seed"), [(0, 0), (10, -1)])
def test_numbers_out_of_range(sources: Path, tmp_path: Path, states: int, seed: int) -> None:
    with pytest.raises(DataError, match="at least 1"):
        build(Options(sources, tmp_path / "out", states=states, seed=seed, model=None))


def test_a_family_left_empty_is_an_error(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is of the family"):
        build(Options(sources, tmp_path / "out", states=1, model=None))


def test_only_some_families(sources: Path, tmp_path: Path, read: Read) -> None:
    few = {"seed": 3, "states": 60, "model": None}
    build(Options(sources, tmp_path / "all", **few))
    build(Options(sources, tmp_path / "some", **few, only=("routing", "relevance")))
    wanted = {}
    for split, rows in read(tmp_path / "all").items():
        wanted[split] = []
        for row in rows:
            names = [n for n, f in row["family"].items() if f in ("routing", "relevance")]
            inner = ("questions", "answers", "weight", "family")
            if names:
                wanted[split].append(row | {k: {n: row[k][n] for n in names} for k in inner})
    assert read(tmp_path / "some") == wanted
    assert all(0 < len(wanted[split]) < 60 for split in wanted)
    told = json.loads((tmp_path / "some" / "data.json").read_text())
    assert told["only"] == ["routing", "relevance"]
    assert told["train"]["questions_by_family"].keys() == {"routing", "relevance"}


def test_a_family_that_there_is_not(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match='no family "gardening"; there are routing'):
        build(Options(sources, tmp_path / "set", only=("gardening",)))
    assert not (tmp_path / "set").exists()


def test_questions_about_a_message_are_tested_in_both_languages(built: Path, read: Read) -> None:
    asked = {
        (re.sub(r"(_\d+)?$", "", name), row["language"])
        for row in read(built)["test"]
        for name in row["questions"]
    }
    for kind in ("relevance_topic", "verification_three_way", "rewriting_pick", "navigation_link"):
        assert {(kind, "en"), (kind, "zh")} <= asked
