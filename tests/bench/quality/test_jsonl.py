"""Labelled decisions as JSON lines: what comes out, what goes back, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.bench.quality.files import QualityError
from readoff.bench.quality.jsonl import read_jsonl, write_jsonl
from readoff.bench.quality.labels import normalised
from readoff.bench.records import Ask
from readoff.engine.questions import Choice, Noul, Score
from readoff.learn.examples import parse_example

TEAM = {"type": "choice", "instructions": "Who?", "criteria": {"billing": "Money", "sales": None}}
ANGER = {"type": "score", "criteria": ["Calm", "Annoyed", "Angry"]}
LATE = {"type": "noul", "instructions": "It is late."}
GOOD: dict[str, Any] = {
    "state": {"text": "Charged twice", "n": 2},
    "questions": {"team": TEAM, "anger": ANGER, "late": LATE},
    "answers": {"team": "billing", "anger": {"1": 3, "2": 1}, "late": False},
    "weight": 2.5,
}


def written(path: Path, *lines: object) -> Path:
    file = path / "data.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


def test_a_line_becomes_a_request_with_targets(tmp_path: Path) -> None:
    (ask,) = read_jsonl(written(tmp_path, GOOD))
    assert ask.state == {"text": "Charged twice", "n": 2}
    assert ask.questions == {
        "team": Choice(instructions="Who?", criteria={"billing": "Money", "sales": None}),
        "anger": Score(criteria=["Calm", "Annoyed", "Angry"]),
        "late": Noul(instructions="It is late."),
    }
    assert ask.targets == {
        "team": {"billing": 1.0},
        "anger": {"1": 0.75, "2": 0.25},
        "late": {"false": 1.0},
    }
    assert ask.weight == 2.5


def test_a_training_row_is_a_decision_a_weight(tmp_path: Path) -> None:
    """`readoff calibrate` and `readoff train` take the same files."""
    weights = dict.fromkeys(GOOD["questions"], 0.5)
    first = next(iter(weights))
    told = {"family": {first: "routing"}, "language": "en", "split": "valid", "licence": "CC0"}
    row = GOOD | told | {"weight": weights | {first: 1.0}, "group": "g", "source": "s"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    asks = list(read_jsonl(tmp_path / "rows.jsonl"))
    assert [ask.weight for ask in asks] == [1.0, 0.5]
    assert [list(ask.questions) for ask in asks] == [[first], list(weights)[1:]]
    assert all(ask.state == GOOD["state"] for ask in asks)
    assert all(ask.targets.keys() == ask.questions.keys() for ask in asks)


def test_weight_is_one_unless_given_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    bare = {key: value for key, value in GOOD.items() if key != "weight"}
    file = written(tmp_path, "", "\ufeff" + json.dumps(bare), "  ", GOOD | {"x_source": "mine"})
    assert [ask.weight for ask in read_jsonl(file)] == [1.0, 2.5]


def test_a_label_of_a_slow_system_weighs_half_as_in_training(tmp_path: Path) -> None:
    bare = {key: value for key, value in GOOD.items() if key != "weight"} | {"source": "escalation"}
    bare["answers"] = GOOD["answers"] | {"anger": 1}
    name = next(iter(GOOD["questions"]))
    file = written(tmp_path, bare, bare | {"weight": 2}, bare | {"weight": {name: 1}})
    weights = [(set(ask.targets), ask.weight) for ask in read_jsonl(file)]
    every = set(GOOD["questions"])
    assert weights == [(every, 0.5), (every, 2.0), ({name}, 1.0), (every - {name}, 0.5)]
    for line, row in zip((bare, bare | {"weight": {name: 1}}), (0.5, 1.0), strict=True):
        assert parse_example(json.dumps(line).encode(), "here").weights[name] == row


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    third = {"late": {"true": 1 / 3, "false": 2 / 3}}
    questions = {"late": Noul(criteria={"true": "später", "false": None})}
    asks = [
        *read_jsonl(written(tmp_path, GOOD)),
        Ask(["步骤", {"goal": "x\ny"}], questions, third, weight=0.0),
    ]
    file = tmp_path / "again.jsonl"
    assert write_jsonl(file, asks) == 2
    assert list(read_jsonl(file)) == asks
    first = file.read_bytes()
    assert "步骤" in first.decode()
    write_jsonl(file, read_jsonl(file))
    assert file.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    found = read_jsonl(written(tmp_path, GOOD, "nonsense"))
    assert next(found).weight == 2.5
    with pytest.raises(QualityError, match="line 2"):
        next(found)


def changed(**fields: object) -> dict[str, Any]:
    return {**GOOD, **fields}


def answered(name: str, label: object) -> dict[str, Any]:
    return changed(answers={**GOOD["answers"], name: label})


BAD = [
    ('{"state": ', "not JSON"),
    ("[1]", "must be a JSON object"),
    ('{"state": "a", "state": "b"}', "key 'state' twice"),
    (changed(state=3), r"state: The state must be a string"),
    (changed(questions={}), "no question"),
    (changed(questions={"late": {"type": "bool"}}), r"questions\.late\.type: .*'bool'"),
    (changed(questions={"team": {**TEAM, "criteria": {"a": None}}}), "2 to 255 options"),
    ({k: v for k, v in GOOD.items() if k != "answers"}, '"answers" must be an object'),
    (changed(answer={}), 'no field "answer"'),
    (changed(answers={"team": "billing"}), 'the question "anger" has no answer'),
    (changed(answers={**GOOD["answers"], "else": 1}), '"else" belongs to no question'),
    (answered("team", "legal"), r'"team": the label "legal" is none of .*\(billing, sales\)'),
    (answered("team", 0), "label of a choice is an option's name, not 0"),
    (answered("team", None), "not null"),
    (answered("anger", 3), r"label 3 is none of the options \(0, 1, 2\)"),
    (answered("anger", -1), "label -1 is none"),
    (answered("anger", "1"), "label of a score is a level's index"),
    (answered("anger", True), "level's index, not true"),
    (answered("anger", 1.0), r"level's index, not 1\.0"),
    (answered("late", "true"), "label of a noul is true or false"),
    (answered("late", 1), "true or false, not 1"),
    (answered("team", {"legal": 1}), 'label "legal" is none'),
    (answered("team", {"billing": -1}), "not negative"),
    (answered("team", {"billing": 0, "sales": 0.0}), "no label has a weight above zero"),
    (answered("team", {}), "no label has a weight above zero"),
    (answered("team", {"billing": "1"}), 'must be a number, not "1"'),
    (answered("team", {"billing": True}), "must be a number, not true"),
    (changed(weight=-0.5), "the weight must be finite and not negative"),
    (changed(weight=None), "the weight must be a number, not null"),
    (changed(weight={"nobody": 1}), 'the weight of "nobody" belongs to no question'),
    (changed(weight={"team": -1}), 'the weight of "team" must be finite and not negative'),
    (changed(weight=10**400), "finite"),
    (json.dumps(GOOD).replace("2.5", "NaN"), "NaN"),
    (json.dumps(GOOD).replace("2.5", "1e999"), "finite"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_a_bad_line_is_named(line: object, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, GOOD, "", line)
    with pytest.raises(QualityError, match=message) as caught:
        list(read_jsonl(file))
    assert f"{file}, line 3" in str(caught.value)
    assert "The request" not in str(caught.value)


def test_only_the_line_of_the_file_is_told(tmp_path: Path) -> None:
    for line, place in (('{"state": "x", ', "at column 16"), ('{"state" "x"}', "at column 10")):
        with pytest.raises(QualityError, match=place) as caught:
            list(read_jsonl(written(tmp_path, GOOD, line, GOOD)))
        assert str(caught.value).count(" line ") == 2, "the file's, and: The line is not JSON"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_bytes(json.dumps(GOOD).encode() + b'\n{"state": "\xff"}\n')
    with pytest.raises(QualityError, match=r"line 2.*not UTF-8"):
        list(read_jsonl(file))


def test_a_file_without_decisions_is_refused(tmp_path: Path) -> None:
    for lines in ([""], [changed(weight=0)]):
        with pytest.raises(QualityError, match="no decision with a weight above zero"):
            list(read_jsonl(written(tmp_path, *lines)))
    with pytest.raises(QualityError, match="No such file"):
        list(read_jsonl(tmp_path / "missing.jsonl"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    before = file.read_bytes()
    (ask,) = read_jsonl(file)
    with pytest.raises(QualityError, match='line 2: the question "team" has no answer'):
        write_jsonl(file, [ask, Ask(ask.state, ask.questions)])
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(QualityError, match="can't be written"):
        write_jsonl(tmp_path / "nowhere" / "data.jsonl", [ask])


WEIGHTS = st.floats(min_value=0.0, allow_infinity=False, allow_nan=False)


@given(st.lists(WEIGHTS, min_size=3, max_size=3).filter(lambda w: max(w) > 0.0))
def test_weights_are_normalised_once(weights: list[float]) -> None:
    question = Score(criteria=["a", "b", "c"])
    target = normalised(dict(zip("012", weights, strict=True)), question)
    assert sum(target.values()) == pytest.approx(1.0)
    assert min(target.values()) > 0.0
    assert normalised(target, question) == target
