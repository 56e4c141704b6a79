"""All workloads of a run: seeded, complete, of the lengths they claim."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from readoff.bench.records import Workload
from readoff.bench.workloads.lexicon import FAMILIES
from readoff.bench.workloads.many import many
from readoff.bench.workloads.paper import paper
from readoff.bench.workloads.plan import FULL, LEXICONS, workloads
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.states import SHAPES
from readoff.engine.questions import Question
from readoff.engine.text import check_text
from tests.tokenizers import QWEN, qwen, tiny

PINNED = "e769bcba85b5db46136130a2bc77b7cc1d021fff964c5a4d64aff344d32a3cd2"


def plain(question: Question) -> list[Any]:
    return [question.type, question.instructions, question.criteria]


def written(found: Sequence[Workload]) -> str:
    """Everything in the workloads as one text."""
    return json.dumps(
        [
            [w.name, w.kind, w.language, dict(w.axes)]
            + [[a.state, {k: plain(q) for k, q in a.questions.items()}] for a in w.asks]
            for w in found
        ],
        ensure_ascii=False,
    )


@pytest.fixture(scope="module")
def full() -> list[Workload]:
    """The full run with small search steps, which have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        small = replace(FULL, documents=FULL.documents[:1])
        patch.setattr("readoff.bench.workloads.plan.FULL", small)
        return workloads(qwen("qwen2.5"), seed=0, quick=False)


def test_the_same_seed_gives_the_same_workloads_byte_for_byte() -> None:
    tokenizer = tiny()
    first, again = (written(workloads(tokenizer, seed=7, quick=True)) for _ in range(2))
    assert first == again
    assert written(workloads(tokenizer, seed=8, quick=True)) != first


def test_nothing_depends_on_the_version_of_python() -> None:
    """The texts of one seed, pinned: only a change of the words or of the code may move it."""
    found = written(workloads(tiny(), seed=0, quick=True))
    assert hashlib.sha256(found.encode()).hexdigest() == PINNED


def test_a_quick_run_has_the_first_requests_of_the_full_one(full: list[Workload]) -> None:
    by_name = {w.name: w for w in full}
    quick = workloads(qwen("qwen2.5"), seed=0, quick=True)
    assert {w.language for w in quick} == {"en", "zh"}
    assert {w.kind for w in quick} == {"paper", "many", "search"}
    for workload in quick:
        known = by_name[workload.name]
        assert list(workload.asks) == list(known.asks[: len(workload.asks)])


def test_a_quick_run_is_small() -> None:
    quick = workloads(qwen("qwen2.5"), seed=0, quick=True)
    assert sum(len(a.questions) for w in quick for a in w.asks if w.kind != "search") <= 13


def test_the_full_run_covers_the_grid_in_both_languages(full: list[Workload]) -> None:
    cells = {
        (w.language, w.axes["state_tokens"], w.axes["questions"]) for w in full if w.kind == "many"
    }
    assert cells == {
        (language, tokens, count)
        for language in LEXICONS
        for tokens in (128, 256, 512, 1024, 2048)
        for count in (1, 2, 4, 8, 16, 32)
    }
    steps = {
        (w.language, w.axes["documents"], w.axes["question_first"])
        for w in full
        if w.kind == "search"
    }
    assert steps == {(lang, 5, order) for lang in LEXICONS for order in (0, 1)}
    assert FULL.documents == (5, 20, 100)
    assert len({w.name for w in full}) == len(full)
    assert len(full[0].asks) == FULL.paper_asks


@pytest.mark.parametrize("family", QWEN)
def test_states_have_their_lengths_and_questions_about_forty_tokens(family: str) -> None:
    ruler = Ruler(qwen(family))
    lengths = []
    for lexicon in LEXICONS.values():
        made = [paper(lexicon, ruler, seed=3, asks=6)]
        for tokens in (128, 1024):
            made += many(lexicon, ruler, seed=3, state_tokens=tokens, questions=(32,), asks=3)
        for workload, ask in ((w, a) for w in made for a in w.asks):
            check_text(ask.state, "The state")
            lengths += [ruler.question(question) for question in ask.questions.values()]
            target = workload.axes["state_tokens"]
            assert abs(ruler.state(ask.state) - target) <= 0.02 * target, workload.name
    assert 38 <= sum(lengths) / len(lengths) <= 43
    assert sum(28 <= n <= 56 for n in lengths) >= 0.95 * len(lengths)


def test_a_paper_request_is_one_choice_of_four_to_six_options(full: list[Workload]) -> None:
    for workload in (w for w in full if w.kind == "paper"):
        for ask in workload.asks:
            ((name, question),) = ask.questions.items()
            assert name in FAMILIES
            assert question.type == "choice"
            assert 4 <= len(question.options) <= 6
        assert {next(iter(a.questions)) for a in workload.asks} == set(FAMILIES)
        kinds = {type(a.state) for a in workload.asks}
        assert kinds == {str, dict, list}
        assert len(workload.asks) >= 4 * len(SHAPES)


def test_many_questions_cover_families_and_types_and_differ(full: list[Workload]) -> None:
    for workload in (w for w in full if w.kind == "many" and w.axes["questions"] == 32):
        for ask in workload.asks:
            met = {tuple(name.split("_")[:2]) for name in ask.questions}
            assert met == {(f, t) for f in FAMILIES for t in ("choice", "score", "noul")}
            asked = [json.dumps(plain(q)) for q in ask.questions.values()]
            assert len(set(asked)) == 32


def test_cells_of_one_length_differ_in_the_number_of_questions_only(full: list[Workload]) -> None:
    by_name = {w.name: w for w in full}
    for few, more in zip(
        by_name["many-zh-s256-q4"].asks, by_name["many-zh-s256-q16"].asks, strict=True
    ):
        assert few.state == more.state
        assert list(few.questions.items()) == list(more.questions.items())[:4]


def test_no_pattern_is_left_unfilled(full: list[Workload]) -> None:
    for language in LEXICONS:
        text = "".join(written([w]) for w in full if w.language == language)
        assert re.findall(r"\{[a-zA-Z]+\}", text) == []
        assert re.findall(r"\b[Aa] [aeio]\w+", text) == []
