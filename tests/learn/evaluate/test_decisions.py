"""Reading what is evaluated on, and drawing from it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from readoff.learn.evaluate.decisions import check_apart, joined, only, read_decisions, sample
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.evaluate.slices import slices
from tests.learn.evaluate.made import FAMILIES, labelled, write


def test_every_question_is_told_what_it_is_an_example_of(tmp_path: Path) -> None:
    made = read_decisions([write(tmp_path / "t.jsonl", labelled(12))], ("test",))
    assert len(made) == len(made.rows()) == 18  # three of six families ask two questions
    assert set(made.families) == set(FAMILIES)
    assert set(made.languages) == {"en", "zh"}
    assert made.families[:2] == ("routing", "relevance")
    assert made.places()[2:4] == [(2, "late"), (2, "here")]
    parts = {(part.kind, part.name): int(part.mask.sum()) for part in slices(made, made.rows())}
    assert parts["family", "verification"] == 4
    assert parts["type", "noul"] == 12
    assert sum(n for (kind, _), n in parts.items() if kind == "language") == 18


def test_weights_decide_what_is_evaluated_and_no_more(tmp_path: Path) -> None:
    first, second, third = labelled(3)
    first["weight"] = 0.0
    third["weight"] = {"late": 0.0, "here": 0.25}
    made = read_decisions([write(tmp_path / "t.jsonl", [first, second, third])], ("test",))
    assert [name for _, name in made.places()] == ["use", "here"]
    assert made.rows().weight.tolist() == [1.0, 1.0]


def test_rows_of_another_split_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [*labelled(2), *labelled(1, split="train", start=5)])
    with pytest.raises(EvaluationError, match="line 3 is of the train split"):
        read_decisions([path], ("test",))


def test_nothing_to_evaluate_is_an_error(tmp_path: Path) -> None:
    rows = labelled(1)
    rows[0]["weight"] = 0
    with pytest.raises(EvaluationError, match="no question with a weight"):
        read_decisions([write(tmp_path / "t.jsonl", rows)], ("test",))


def test_a_state_to_fit_on_must_not_be_tested(tmp_path: Path) -> None:
    test = read_decisions([write(tmp_path / "t.jsonl", labelled(6))], ("test",))
    other = write(tmp_path / "v.jsonl", labelled(6, split="valid", start=6))
    check_apart(test, read_decisions([other], ("valid",)))
    same = write(tmp_path / "v.jsonl", labelled(2, split="valid", start=5))
    with pytest.raises(EvaluationError, match=r"^1 state of .* is tested on too"):
        check_apart(test, read_decisions([same], ("valid",)))


def test_a_group_to_fit_on_must_not_be_tested(tmp_path: Path) -> None:
    tested, fitted = labelled(3), labelled(3, split="valid", start=9)
    tested[0]["group"], fitted[1]["group"], fitted[2]["group"] = "ticket 1", "ticket 2", "ticket 1"
    test = read_decisions([write(tmp_path / "t.jsonl", tested)], ("test",))
    check_apart(test, read_decisions([write(tmp_path / "v.jsonl", fitted[:2])], ("valid",)))
    fit = read_decisions([write(tmp_path / "v.jsonl", fitted)], ("valid",))
    assert fit.groups == {"ticket 1", "ticket 2"}
    with pytest.raises(EvaluationError, match=r"^1 group of .* Split by group"):
        check_apart(test, fit)


def test_a_sample_is_made_up_as_its_family_is(tmp_path: Path) -> None:
    made = read_decisions([write(tmp_path / "t.jsonl", labelled(180))], ("test",))
    numbers = sample(made, 10, seed=1)
    assert numbers == sample(made, 10, seed=1) != sample(made, 10, seed=2)
    assert numbers == sorted(set(numbers))
    assert Counter(made.families[i] for i in numbers) == dict.fromkeys(FAMILIES, 10)
    sizes = made.rows().sizes
    kinds = 0
    for family in FAMILIES:
        own = [i for i, name in enumerate(made.families) if name == family]
        had = Counter((int(sizes[i]), made.languages[i]) for i in own)
        drawn = Counter((int(sizes[i]), made.languages[i]) for i in own if i in numbers)
        for kind, count in had.items():
            assert abs(drawn[kind] - count * 10 / len(own)) < 1.0
        kinds += len(had)
    assert kinds > len(FAMILIES)
    assert len(sample(made, 1000, seed=0)) == len(made)
    assert sample(made, 0, seed=0) == []


def test_only_keeps_the_questions_of_a_state_together(tmp_path: Path) -> None:
    made = read_decisions([write(tmp_path / "t.jsonl", labelled(6))], ("test",))
    asks = only(made, {0, 3, 4, 5})
    assert [list(ask.questions) for ask in asks] == [["intent"], ["here"], ["late", "here"]]
    assert all(ask.questions.keys() == ask.targets.keys() for ask in asks)
    assert len(joined([made, made])) == 2 * len(made)
