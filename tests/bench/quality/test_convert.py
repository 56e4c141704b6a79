"""Converters: one miniature file of each format, made up here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from readoff.bench.quality.convert import CONVERTERS, convert
from readoff.bench.quality.files import QualityError
from readoff.bench.quality.items import Item, balanced
from readoff.bench.quality.jsonl import read_jsonl, write_jsonl
from readoff.bench.records import Ask
from readoff.bench.workloads.lexicon import FAMILIES
from readoff.engine.questions import Choice

ENOUGH = "Which of the following statements is/are sufficient to answer the previous question?"
BIG = {
    "intent_recognition": [("Utterance: Play a waltz.", ["music", "weather"], "music")],
    "metaphor_boolean": [
        ("He is a rock. <--> He is reliable.", ["True", "False"], "True"),
        ("He is a rock. <--> He is made of stone.", ["True", "False"], "False"),
    ],
    "evaluating_information_essentiality": [
        (f"Is Bo tall? {ENOUGH}\n1. Bo is 2 m.\n2. Bo is old.", ["First", "Second"], "First")
    ],
    "question_selection": [
        (f"Short Answer: {n} Context: There are {n} moons.", [f"How many of {n}?", "Who?"], "Who?")
        for n in range(40)
    ],
    "entailed_polarity": [
        ("Fact: Ann forgot to call. Q: Did Ann call?", ["yes", "no"], "no"),
        ("Fact: Ann managed to call. Q: Did Ann call?", ["no", "yes"], "yes"),
    ],
    "analytic_entailment": [
        ("It is red. So it has a colour.", ["entailment", "no-entailment"], "entailment")
    ],
    "presuppositions_as_nli": [
        (
            "Sentence 1: Bo stopped. \nSentence 2: Bo had begun.\n\nThe answer is: ",
            ["entailment", "neutral", "contradiction"],
            "entailment",
        )
    ],
}
DOCUMENTS = """.I 1
.T
flow past a wing .
.A
nobody
.W
flow past a wing .
  the flow was
measured .
.I 2
.T
empty
.W
.I 3
.T
heat
.W
heat in slabs .
.I 4
.W
a third text .
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder laid out like the data's."""
    for folder in ("banking77", "clinc150", "bigbench", "cranfield"):
        (tmp_path / folder).mkdir()
    rows = [f'"Where is card {n}, please?",card_arrival' for n in range(9)]
    (tmp_path / "banking77/test.csv").write_text(
        "\n".join(["text,category", *rows, "How much?,fee"]), encoding="utf-8"
    )
    clinc = {"test": [["hola?", "translate"], ["rain?", "weather"]], "oos_test": [["42?", "oos"]]}
    (tmp_path / "clinc150/data_full.json").write_text(json.dumps(clinc), encoding="utf-8")
    for task, examples in BIG.items():
        entries = [
            {"input": text, "target_scores": {o: float(o == right) for o in options}}
            for text, options, right in examples
        ]
        content = {"name": task, "canary": "GUID", "examples": entries}
        (tmp_path / f"bigbench/{task}.json").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "cranfield/cran.all.1400").write_text(DOCUMENTS, encoding="utf-8")
    queries = ".I 007\r\n.W\r\nhow does air\r\nflow .\r\n.I 009\r\n.W\r\nheat ?\r\n.I\r\n"
    (tmp_path / "cranfield/cran.qry").write_bytes(queries.encode())
    (tmp_path / "cranfield/cranqrel").write_text("1 1 1\n1 2 2\n2 3 4\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", CONVERTERS)
def test_every_data_set_converts_and_can_be_written(name: str, data: Path) -> None:
    asks = convert(name, data)
    assert asks
    for ask in asks:
        ((question, target),) = ask.targets.items()
        assert list(ask.questions) == [question]
        assert set(target) <= set(ask.questions[question].options)
    file = data / "out.jsonl"
    write_jsonl(file, asks)
    assert list(read_jsonl(file)) == asks
    assert convert(name, data, limit=1, seed=5) == convert(name, data, limit=1, seed=5)


def test_the_converters_cover_all_families() -> None:
    assert {family for family, _ in CONVERTERS.values()} == set(FAMILIES)


def only(asks: list[Ask]) -> tuple[object, object]:
    """State and target of the only decision."""
    (ask,) = asks
    (target,) = ask.targets.values()
    return ask.state, dict(target)


def test_inputs_are_taken_apart(data: Path) -> None:
    big = data / "bigbench"
    assert only(convert("intent_recognition", big)) == ("Play a waltz.", {"music": 1.0})
    state, _ = only(convert("evaluating_information_essentiality", big))
    assert state == {"question": "Is Bo tall?", "statements": "1. Bo is 2 m.\n2. Bo is old."}
    assert only(convert("presuppositions_as_nli", big / "presuppositions_as_nli.json")) == (
        {"premise": "Bo stopped.", "hypothesis": "Bo had begun."},
        {"entailment": 1.0},
    )
    assert only(convert("analytic_entailment", big)) == (
        "It is red. So it has a colour.",
        {"true": 1.0},
    )
    facts = {str(a.state): dict(a.targets["answer"]) for a in convert("entailed_polarity", data)}
    assert facts == {"Ann forgot to call.": {"false": 1.0}, "Ann managed to call.": {"true": 1.0}}
    pairs = [(a.state, dict(a.targets["faithful"])) for a in convert("metaphor_boolean", data)]
    assert ({"sentence": "He is a rock.", "paraphrase": "He is reliable."}, {"true": 1.0}) in pairs


def test_out_of_scope_is_an_intent(data: Path) -> None:
    asks = {str(a.state): a for a in convert("clinc150", data)}
    assert asks["42?"].targets == {"intent": {"oos": 1.0}}
    assert asks["42?"].questions["intent"].options == ("translate", "weather", "oos")


def test_cranfield_counts_queries_by_position_and_turns_its_codes_round(data: Path) -> None:
    found = {}
    for ask in convert("cranfield", data):
        state: Any = ask.state
        found[state["query"], state["document"]["text"]] = dict(ask.targets["usefulness"])
    assert found == {
        ("how does air flow .", "the flow was measured ."): {"4": 1.0},  # without its title
        ("how does air flow .", "heat in slabs ."): {"0": 1.0},
        ("how does air flow .", "a third text ."): {"0": 1.0},
        ("heat ?", "heat in slabs ."): {"1": 1.0},
        ("heat ?", "the flow was measured ."): {"0": 1.0},
        ("heat ?", "a third text ."): {"0": 1.0},
    }


def test_the_right_question_is_not_always_at_one_place(data: Path) -> None:
    places = Counter(
        a.questions["question"].options.index("Who?") for a in convert("question_selection", data)
    )
    assert min(places[0], places[1]) >= 10
    even = convert("question_selection", data, limit=20)
    assert Counter(a.questions["question"].options.index("Who?") for a in even) == {0: 10, 1: 10}


def test_sampling_is_balanced_and_seeded(data: Path) -> None:
    asks = convert("banking77", data, limit=4)
    assert Counter(next(iter(a.targets["intent"])) for a in asks) == {"card_arrival": 3, "fee": 1}
    states = [
        tuple(str(a.state) for a in convert("banking77", data, limit=4, seed=s)) for s in (1, 2)
    ]
    assert states[0] != states[1]
    assert len(convert("banking77", data)) == 10


def test_a_short_round_favours_no_stratum() -> None:
    items = [
        Item(Ask(f"{s}{n}", {"q": Choice(criteria={"a": None, "b": None})}), s)
        for s in range(5)
        for n in range(20)
    ]
    firsts = Counter(str(a.state)[0] for seed in range(300) for a in balanced(items, 2, seed))
    assert len(firsts) == 5
    assert min(firsts.values()) > 80  # 120 expected, standard deviation below 9


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("nothing", None, "", 'no data set "nothing"; there is banking77'),
        ("banking77", "banking77/test.csv", "a,b\n1,2\n", 'no columns "text" and "category"'),
        ("banking77", "banking77/test.csv", "text,category\na\n", "row 1: no text or no category"),
        ("clinc150", "clinc150/data_full.json", "[" * 100_000, "nested too deeply"),
        ("banking77", "banking77/test.csv", None, "has no test.csv or banking77/test.csv"),
        ("clinc150", "clinc150/data_full.json", '{"test": [["a"]]}', '"test", row 1'),
        ("clinc150", "clinc150/data_full.json", "{", "not JSON"),
        ("cranfield", "cranfield/cranqrel", "1 1\n", "line 1: not three numbers"),
        ("cranfield", "cranfield/cranqrel", "1 1 9\n", "code 9 is not 1 to 4"),
        ("cranfield", "cranfield/cranqrel", "3 1 1\n", "names a query or a document"),
        ("cranfield", "cranfield/cran.qry", "nothing", "no record that begins"),
        ("metaphor_boolean", "bigbench/metaphor_boolean.json", '{"name": "x"}', "is not the"),
        (
            "metaphor_boolean",
            "bigbench/metaphor_boolean.json",
            '{"name": "metaphor_boolean", "examples": [{"input": "a", "target_scores": {"a": 0}}]}',
            "example 1 doesn't have exactly one right option",
        ),
        (
            "metaphor_boolean",
            "bigbench/metaphor_boolean.json",
            '{"name": "metaphor_boolean", "examples": '
            '[{"input": "a", "target_scores": {"True": 0, "False": 1}}]}',
            "an example has no '<-->'",
        ),
    ],
)
def test_bad_data_is_named(
    name: str, file: str | None, content: str | None, message: str, data: Path
) -> None:
    if file is not None and content is None:
        (data / file).unlink()
    elif file is not None and content is not None:
        (data / file).write_text(content, encoding="utf-8")
    with pytest.raises(QualityError, match=message):
        convert(name, data)


def test_a_path_or_a_limit_that_makes_no_sense_is_refused(data: Path) -> None:
    with pytest.raises(QualityError, match="does not exist"):
        convert("clinc150", data / "missing")
    with pytest.raises(QualityError, match="at least 1"):
        convert("clinc150", data, limit=0)
    with pytest.raises(QualityError, match="must be the folder"):
        convert("cranfield", data / "cranfield" / "cran.qry")
