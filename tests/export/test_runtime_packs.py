"""Packs of other kinds, cards and labels than the default, in an `OnnxEngine`."""

from __future__ import annotations

import gc
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.engine.card import Card
from readoff.engine.card_fields import Temperature
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.errors import CardError, QuestionError
from readoff.engine.gate import Gate
from readoff.engine.questions import Noul
from readoff.export.graph.options import FixedLabels, GraphOptions, LabelBank
from readoff.export.pack import Pack
from readoff.export.runtime import OnnxEngine
from tests.engine.models_on_disk import ANGER, ASKED, REFUND, STATE, TEAM
from tests.export.graphs import Graph
from tests.export.packs import BOUND, CARD, cached, distance, pack_of, tiny_pack


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pack]:
    return tiny_pack(tmp_path_factory.mktemp("small"), layers=1)


def test_question_first(tmp_path: Path, small: tuple[Path, Pack]) -> None:
    card = replace(CARD, template=replace(CARD.template, order="question-first"))
    pack = pack_of(small[0], tmp_path / "pack", card=card)
    with (
        Engine.from_pretrained(small[0], dtype="fp32", card=card) as torch_engine,
        OnnxEngine.from_pretrained(pack.folder) as engine,
    ):
        for state in (STATE, "another"):
            found, expected = engine.decide(state, ASKED), torch_engine.decide(state, ASKED)
            assert distance(found, expected) <= BOUND
            assert cached(found) >= cached(expected)  # beginnings of 16 tokens and more are shared
        assert engine.prefill(STATE).input_tokens == torch_engine.prefill(STATE).input_tokens


def test_warming_up(small: tuple[Path, Pack]) -> None:
    with OnnxEngine.from_pretrained(small[1].folder) as engine:
        engine.warmup()
        assert engine.stats()["answered"] == 2


@pytest.mark.parametrize("precision", ["fp16", "int8", "int4"])
def test_narrow_packs_decide(tmp_path: Path, precision: Any) -> None:
    """No further from the same graph run over whole prompts than that is from fp32: another order
    of sums moves values across the steps that they are rounded to."""
    options = GraphOptions(precision=precision, block=16)
    source, pack = tiny_pack(tmp_path, "qwen3_5", graph=options)
    whole, exact = (Graph(open_checkpoint(source), o) for o in (options, GraphOptions()))
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        asked = [(p.ids, p.labels.ids) for p in engine.renderer.render(STATE, ASKED)]
        rows = [whole.run([ids], labels=[labels])[0] for ids, labels in asked]
        true = [exact.run([ids], labels=[labels])[0] for ids, labels in asked]
        far = max(abs(a - b).max() for a, b in zip(rows, true, strict=True))
        for _ in ("cold", "warm"):
            found = engine.decide(STATE, ASKED).values()
            read = [np.array(list(answer.logits.values())) for answer in found]
            assert 0 < max(abs(a - b).max() for a, b in zip(read, rows, strict=True)) <= far
        assert engine.info()["dtype"] == {"fp16": "float16"}.get(precision, precision)


def test_only_the_labels_that_were_exported(tmp_path: Path, small: tuple[Path, Pack]) -> None:
    with OnnxEngine.from_pretrained(small[1].folder) as plain:
        alphabet = plain.renderer.alphabet
        bank = {index for q in (REFUND, TEAM) for index in alphabet.for_question(q).ids}
        expected = plain.decide(STATE, ASKED)
        noul = alphabet.for_question(REFUND).ids
    options = GraphOptions(labels=LabelBank(tuple(sorted(bank))))
    pack = pack_of(small[0], tmp_path / "bank", graph=options)
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        engine.warmup()
        found = engine.decide(STATE, {"team": TEAM, "refund": REFUND})
        assert distance(found, {k: expected[k] for k in ("team", "refund")}) <= 1e-6
        with pytest.raises(QuestionError, match=r"'anger': the pack was exported for 5 labels"):
            engine.decide(STATE, ASKED)
        with pytest.raises(QuestionError, match="Request 1, question 'anger'"):
            engine.decide_many([(STATE, {"team": TEAM}), (STATE, {"anger": ANGER})])
        assert engine.info()["pack"]["labels"] == 5
    # What is baked in is another prior than the card's; the card counts.
    options = GraphOptions(labels=FixedLabels(noul, (3.0, -1.0), 5.0))
    pack = pack_of(small[0], tmp_path / "fixed", graph=options)
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        found = engine.decide(STATE, {"refund": REFUND, "other": Noul()})
        assert distance({"refund": found["refund"]}, {"refund": expected["refund"]}) <= 1e-6
        with pytest.raises(QuestionError, match="one kind of question, of 2 labels"):
            engine.decide(STATE, {"team": TEAM})
        debiased = engine.decide(STATE, {"refund": REFUND}, debias="prior")
        with Engine.from_pretrained(small[0], dtype="fp32") as torch_engine:
            reference = torch_engine.decide(STATE, {"refund": REFUND}, debias="prior")
        assert distance(debiased, reference) <= BOUND


def test_the_terms_of_the_base_come_along(small: tuple[Path, Pack], tmp_path: Path) -> None:
    source = Path(shutil.copytree(small[0], tmp_path / "model"))
    for name in ("LICENSE", "NOTICE", "generation_config.json"):
        (source / name).write_text(f"{{}} {name}")
    made = pack_of(source, tmp_path / "pack")
    assert {"LICENSE", "NOTICE"} <= set(made.files)
    assert "generation_config.json" not in made.files
    assert (made.folder / "NOTICE").read_text() == "{} NOTICE"


def test_cards(tmp_path: Path, small: tuple[Path, Pack]) -> None:
    source, pack = small
    hot = Card(temperature=Temperature(noul=3.0), gate=Gate(0.9).to_json())
    hot.save(tmp_path / "hot.json")
    for card in (hot, tmp_path / "hot.json", str(tmp_path / "hot.json")):
        with (
            Engine.from_pretrained(source, dtype="fp32", card=card) as torch_engine,
            OnnxEngine.from_pretrained(pack.folder, card=card) as engine,
        ):
            expected, found = torch_engine.decide(STATE, ASKED), engine.decide(STATE, ASKED)
            assert distance(found, expected) <= BOUND
            assert found.verdicts == expected.verdicts != {}
    for field in ("weights", "tokenizer"):
        other = replace(hot, digests=replace(hot.digests, **{field: "0" * 64}))
        with pytest.raises(CardError, match=f"its {field} digest is 0000"):
            OnnxEngine.from_pretrained(pack.folder, card=other)
    other = replace(hot, template=replace(hot.template, digest="0" * 64))
    with pytest.raises(CardError, match="its template digest is 0000"):
        OnnxEngine.from_pretrained(pack.folder, card=other)
    with pytest.raises(CardError, match="There is no decision card at"):
        OnnxEngine.from_pretrained(pack.folder, card=tmp_path / "none.json")


def test_a_card_of_the_base_under_an_adapter(tmp_path: Path, small: tuple[Path, Pack]) -> None:
    pack = pack_of(small[0], tmp_path / "pack", adapter="1" * 64)
    based = replace(CARD, digests=replace(CARD.digests, weights=pack.digests.weights))
    based.save(tmp_path / "card.json")
    with pytest.raises(CardError, match="without an adapter"):
        OnnxEngine.from_pretrained(pack.folder, card=tmp_path / "card.json")
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        assert engine.card.digests.adapter == "1" * 64


def test_an_engine_that_nobody_holds_ends_its_thread(small: tuple[Path, Pack]) -> None:
    engine = OnnxEngine.from_pretrained(small[1].folder)
    future = engine.submit(STATE, ASKED)
    thread = engine._worker.scheduler._thread
    assert thread is not None
    del engine
    assert future.result(30)["team"]
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
