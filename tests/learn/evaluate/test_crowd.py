"""JSON answers written in lockstep are those written one by one; what is written is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from readoff.bench.records import Workload
from readoff.bench.rungs.strong_json import StrongJson
from readoff.learn.evaluate import stated
from readoff.learn.evaluate.crowd import MAX_NEW_TOKENS, CrowdJson
from readoff.learn.evaluate.decisions import read_decisions
from readoff.learn.evaluate.stated import json_answers
from readoff.learn.evaluate.subject import Options, Subject
from tests import models
from tests.learn.evaluate.made import labelled, save_pair, write

pytest.importorskip("xgrammar")


@pytest.mark.parametrize("architecture", models.ARCHITECTURES)
def test_a_crowd_writes_what_each_would_alone(
    architecture: models.Architecture, tmp_path: Path
) -> None:
    base, _ = save_pair(tmp_path, architecture)
    asks = read_decisions([write(tmp_path / "t.jsonl", labelled(6))], ("test",)).asks
    engine = Subject(str(base), None, Options("cpu", "fp32")).engine
    alone = StrongJson(jump=True, max_new_tokens=MAX_NEW_TOKENS)
    alone.prepare(engine, Workload("w", "quality", "en", asks))
    expected = [alone.where_it_computes(lambda ask=ask: alone.answer(ask).given) for ask in asks]
    found = CrowdJson(engine, asks).write(asks)
    assert [set(one) for one in found] == [set(ask.questions) for ask in asks]
    for one, other in zip(found, expected, strict=True):
        for name, given in other.items():
            assert (one[name].value, one[name].stated) == (given.value, given.stated)
            assert one[name].token_confidence == pytest.approx(given.token_confidence, abs=1e-4)
    assert len({given.value for one in found for given in one.values()}) > 2


def test_answers_are_kept_and_a_torn_line_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stated, "LINES", 3)
    base, _ = save_pair(tmp_path)
    subject = Subject(str(base), None, Options("cpu", "fp32"))
    asks = read_decisions([write(tmp_path / "t.jsonl", labelled(6))], ("test",)).asks
    kept = tmp_path / "kept"
    first = json_answers(subject, asks, kept)
    [file] = kept.iterdir()
    whole = file.read_text()
    assert whole.count("\n") >= 3
    file.write_text(whole[:-20])
    written: list[int] = []
    write_batch = CrowdJson.write

    def counted(self: CrowdJson, some: list[object]) -> object:
        written.append(len(some))
        return write_batch(self, some)  # type: ignore[arg-type]

    monkeypatch.setattr(CrowdJson, "write", counted)
    assert json_answers(subject, asks, kept) == first
    assert len(written) == 1
    assert file.read_text() == whole
    assert json_answers(subject, asks, kept) == first
    assert len(written) == 1
