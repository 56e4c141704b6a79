"""From labelled requests to rows, under every debiasing; rows kept and read again."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from readoff.bench.calibrate.cache import cache_path, load_rows, save_rows
from readoff.bench.calibrate.collect import collect, labelled_rows, relabelled
from readoff.bench.calibrate.data import read_labelled, requests_digest
from readoff.bench.calibrate.rows import PAD, Rows
from readoff.bench.quality.files import QualityError
from readoff.bench.records import Ask, state_key
from readoff.engine.answers import Decision
from readoff.engine.card import Card
from readoff.engine.card_fields import DEBIAS
from readoff.engine.debias import CONTENT_FREE, Priors, Questions, debiased
from readoff.engine.errors import ReadoffError
from readoff.engine.questions import Question
from readoff.engine.text import Text
from tests.engine.test_debias import ANGER, DUE, TEAM, Model

ASKS = [
    Ask("one", {"team": TEAM, "due": DUE}, {"team": {"sales": 1.0}, "due": {"true": 1.0}}, 2.0),
    Ask(
        ["two"],
        {"anger": ANGER, "team": TEAM, "loose": DUE},
        {"anger": {"1": 0.5, "2": 0.5}, "team": {"tech": 1.0}},
    ),
    Ask("one", {"due": DUE}, {"due": {"false": 1.0}}),
]


class Engine:
    """The made-up model of the debiasing tests, behind the method that collecting needs."""

    def __init__(self) -> None:
        self.model = Model()

    def decide_many(
        self, requests: Sequence[tuple[Text, Questions]], *, debias: str
    ) -> list[Decision]:
        assert debias == "none", "what is fitted are raw logits"
        return self.model(requests)


def test_one_row_a_labelled_question() -> None:
    told: list[tuple[int, int]] = []
    rows = collect(Engine(), ASKS, tell=lambda *at: told.append(at))["none"]
    assert rows.fields == ("team", "due", "anger", "team", "due")
    assert rows.types == ("choice", "noul", "score", "choice", "noul")
    assert rows.options[1] == ("true", "false")
    assert rows.sizes.tolist() == [3, 2, 3, 3, 2]
    assert rows.weight.tolist() == [1.0, 1.0, 0.5, 0.5, 0.5], "shares of the largest"
    assert rows.state.tolist() == [0, 0, 1, 1, 0], "equal states share a number"
    assert rows.z[0].tolist() == pytest.approx([2.4, 1.0, -0.5])
    assert rows.z[1].tolist() == [2.5, 0.0, PAD]
    assert rows.target[2].tolist() == [0.0, 0.5, 0.5]
    assert rows.target[1].tolist() == [1.0, 0.0, 0.0]
    assert told == [(0, 3), (3, 3)]


def test_every_mode_comes_from_one_run_and_equals_its_own() -> None:
    engine = Engine()
    found = collect(engine, ASKS, DEBIAS, rotations=2)
    free = [state for state, _ in engine.model.asked if state == CONTENT_FREE]
    assert len(free) == 2 + 1 + 1, "one an order and question"
    assert len(engine.model.asked) == len(free) + len(ASKS)
    for mode in DEBIAS:
        alone = collect(Engine(), ASKS, (mode,), rotations=2)[mode]
        assert found[mode].z == pytest.approx(alone.z, abs=1e-12), mode
        requests: list[tuple[Text, Mapping[str, Question]]] = [(a.state, a.questions) for a in ASKS]
        decided = debiased(Model(), requests, mode, Card(), Priors(), rotations=2)
        p = np.exp(found[mode].z[0] - found[mode].z[0].max())
        team = decided[0]["team"]
        assert list(team.probabilities.values()) == pytest.approx((p / p.sum()).tolist())  # type: ignore[union-attr]


def test_states_are_equal_when_the_model_reads_the_same() -> None:
    assert state_key({"a": 1}) == state_key({"a": 1})
    assert state_key("x") != state_key("y")
    assert state_key(["x"]) != state_key("- x"), "a text and an array are different pieces"


def equal(a: Rows, b: Rows) -> bool:
    same = (a.fields, a.types, a.options) == (b.fields, b.types, b.options)
    columns = ("sizes", "z", "target", "weight", "state")
    return same and all((getattr(a, c) == getattr(b, c)).all() for c in columns)


def test_rows_are_kept_and_read_again(tmp_path: Path) -> None:
    rows = collect(Engine(), ASKS)["none"]
    path = cache_path(tmp_path / "new", {"weights": "w"})
    assert load_rows(path) is None
    save_rows(path, rows)
    found = load_rows(path)
    assert found is not None
    assert equal(found, rows)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_other_keys_are_other_files(tmp_path: Path) -> None:
    keys = [{"weights": "a"}, {"weights": "b"}, {"weights": "a", "adapter": None}, {}]
    assert len({cache_path(tmp_path, key) for key in keys}) == 4
    assert cache_path(tmp_path, {"a": 1, "b": 2}) == cache_path(tmp_path, {"b": 2, "a": 1})


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 cut short", b"no archive at all"])
def test_a_damaged_file_is_no_file(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "logits.npz"
    path.write_bytes(damage)
    assert load_rows(path) is None


def test_files_that_can_not_be_had_are_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReadoffError, match="--out"):
        save_rows(tmp_path / "file" / "logits.npz", collect(Engine(), ASKS)["none"])
    with pytest.raises(ReadoffError, match="can't be read"):
        read_labelled(tmp_path / "none")


def test_rows_of_other_requests_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "logits.npz"
    save_rows(path, collect(Engine(), ASKS)["none"], "these")
    assert load_rows(path, "these") is not None
    assert load_rows(path, "those") is None
    assert load_rows(path) is None


def test_any_flipped_bit_leaves_the_same_rows_or_none(tmp_path: Path) -> None:
    path = tmp_path / "logits.npz"
    rows = collect(Engine(), ASKS)["none"]
    save_rows(path, rows)
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    lost = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[int(generator.integers(len(damaged)))] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reader may warn of what it reads wrongly
            found = load_rows(path)
        lost += found is None
        assert found is None or equal(found, rows)
    assert lost


def test_logits_are_kept_and_labels_are_not() -> None:
    rows = collect(Engine(), ASKS)["none"]
    others = [replace(ask, weight=ask.weight * 3.0 + 1.0) for ask in ASKS]
    found = relabelled(rows, others)
    assert found is not None
    assert np.array_equal(found.z, rows.z)
    assert not np.array_equal(found.weight, rows.weight)
    assert relabelled(rows, ASKS[:-1]) is None
    z = rows.z.copy()
    z[0, 0] = np.nan
    assert relabelled(replace(rows, z=z), ASKS) is None


def test_weights_of_any_size_are_shares_of_the_largest() -> None:
    heavy = [replace(ask, weight=1e308) for ask in ASKS]
    assert labelled_rows(heavy).weight.tolist() == [1.0] * 5


def test_the_digest_is_of_what_is_asked() -> None:
    changed = [replace(ASKS[0], weight=9.0), *ASKS[1:]]
    assert requests_digest(changed) == requests_digest(ASKS)
    changed = [replace(ASKS[0], state="another"), *ASKS[1:]]
    assert len({requests_digest(x) for x in (ASKS, changed, ASKS[1:], ASKS[::-1])}) == 4


QUESTION = {"type": "choice", "criteria": {"billing": None, "sales": None}}


def lines(path: Path, *entries: tuple[object, object]) -> Path:
    made = [
        {"state": f"mail {i}", "questions": {"q": QUESTION}, "answers": {"q": label}, "weight": w}
        for i, (label, w) in enumerate(entries)
    ]
    path.write_text("\n".join(map(json.dumps, made)) + "\n\n")
    return path


def test_what_was_changed_or_left_out_is_told(tmp_path: Path) -> None:
    soft = {"billing": 3, "sales": 1}
    path = lines(tmp_path / "d", (soft, 1), ("sales", 0), ({"billing": 0.25, "sales": 0.75}, 2))
    found = read_labelled(path)
    assert [ask.weight for ask in found.asks] == [1.0, 2.0]
    assert found.asks[0].targets["q"] == {"billing": 0.75, "sales": 0.25}
    assert found.notes == (
        "1 decisions have a weight of zero and were left out.",
        "1 soft labels don't sum to 1; each was divided by its sum.",
    )
    assert read_labelled(lines(tmp_path / "e", ("sales", 1))).notes == ()
    huge = {"billing": 1e308, "sales": 1e308}
    found = read_labelled(lines(tmp_path / "f", (huge, 1)))
    assert found.asks[0].targets["q"] == {"billing": 0.5, "sales": 0.5}
    assert found.notes == ("1 soft labels don't sum to 1; each was divided by its sum.",)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    content = lines(tmp_path / "d", ("sales", 1), ("billing", 1)).read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    found = read_labelled(pipe)
    writer.join()
    assert len(found.asks) == 2


def test_weights_too_far_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(QualityError, match="run from 1e-300 to 1"):
        read_labelled(lines(tmp_path / "d", ("sales", 1e-300), ("billing", 1)))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("tech", 1), "none of the options"),
        (({"billing": -1, "sales": 2}, 1), "not negative"),
        (({"billing": 0, "sales": 0}, 1), "no label has a weight above zero"),
        (("sales", -1), "not negative"),
        (("sales", 0), "no decision with a weight above zero"),
        ((True, 1), "an option's name"),
    ],
)
def test_bad_labels_and_weights_are_refused(
    tmp_path: Path, entry: tuple[object, object], message: str
) -> None:
    with pytest.raises(QualityError, match=message):
        read_labelled(lines(tmp_path / "d", entry))
