"""A whole calibration on made-up rows: card, figures, gate, document, report."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.bench.calibrate import run
from readoff.bench.calibrate.document import document
from readoff.bench.calibrate.fit import Recipe
from readoff.bench.calibrate.gate_fit import Costs
from readoff.bench.calibrate.gates import Cost, Coverage, Risk, fit_gate
from readoff.bench.calibrate.pictures import pictures
from readoff.bench.calibrate.report import page, write_report
from readoff.bench.calibrate.rows import Rows
from readoff.bench.calibrate.run import Calibration, calibrate, card_from, check_labels
from readoff.bench.calibrate.table import Collected, calibration_table, debias_table, flips
from readoff.bench.quality.files import QualityError
from readoff.bench.report import html, markdown
from readoff.engine.card import Card
from readoff.engine.card_fields import DEBIAS, Digests
from readoff.engine.errors import CardError
from readoff.engine.gate import Gate, choose_gate

from .made import drawn, together

ABOUT = {"model": "tiny <model>", "data": "mails.jsonl", "debias": "none"}


def rows() -> Rows:
    return together(
        drawn(160, 4, temperature=3.0, name="team"),
        drawn(160, 2, temperature=0.5, name="due", kind="noul", seed=1),
        drawn(12, 3, temperature=1.0, name="rare", seed=2),
    )


@pytest.fixture(scope="module", autouse=True)
def rough() -> Iterator[None]:
    """Intervals of few resamples: what they are has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "RESAMPLES", 100)
        yield


@pytest.fixture(scope="module")
def made() -> Calibration:
    return calibrate(rows(), Recipe(), gate=Cost(Costs(5.0, 1.0)), notes=["a remark"])


@pytest.fixture(scope="module")
def told(made: Calibration) -> dict[str, Any]:
    return document(made, ABOUT)


def test_parts_are_all_then_types_then_fields(made: Calibration) -> None:
    assert [part.name for part in made.parts] == [
        *("all", "choice", "noul"),
        *('"team"', '"due"', '"rare"'),
    ]
    assert made.parts[0].loss is not None
    assert made.parts[1].loss is None, "no binary choice among them"
    for part in made.parts:
        if part.loss is not None:
            assert part.loss.realised <= part.loss.bound


def test_it_gets_better_out_of_fold(made: Calibration) -> None:
    whole = made.parts[0]
    for before, after in (
        (whole.before.quality.ece, whole.after.quality.ece),
        (whole.before.quality.distribution_nll, whole.after.quality.distribution_nll),
    ):
        assert before is not None
        assert after is not None
        assert after.value < before.value
    assert whole.before.quality.accuracy == whole.after.quality.accuracy
    ways = {name: loss for name, loss, _ in made.recipes}
    assert ways["shrunk between type, options and field (chosen)"] < ways["nothing"]


def test_the_card_is_bound_to_its_model(made: Calibration, tmp_path: Path) -> None:
    card = card_from(Card.default(), made, Digests("w", None, "t"), "template", "both", 2)
    assert card.rotations == 2
    card.save(tmp_path)
    loaded = Card.load(tmp_path)
    assert loaded == card
    assert loaded.debias == "both"
    assert loaded.temperature.find("choice", "team", 4) > 1.5 > loaded.temperature.noul
    gate = choose_gate(None, loaded)
    assert gate is not None
    assert set(gate.by_type) == {"choice", "noul"}
    assert set(gate.by_field) == {"team", "due"}, "the rare one has too few decisions"
    loaded.check(weights="w", tokenizer="t", template="template")
    for wrong in ({"weights": "v"}, {"template": "other"}, {"tokenizer": "u"}):
        with pytest.raises(CardError, match="belongs to another model"):
            loaded.check(**wrong)  # type: ignore[arg-type]


def test_remarks_are_kept(told: dict[str, Any]) -> None:
    assert told["notes"][0] == "a remark"
    assert any('"rare": 12 decisions' in note for note in told["notes"])
    assert any('"rare": 12 decisions are too few' in note for note in told["gate"]["notes"])


def test_the_document_is_json_and_complete(told: dict[str, Any]) -> None:
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    whole = told["parts"][0]
    for when in ("before", "after"):
        row = whole[when]
        for key in ("accuracy", "nll", "brier", "ece", "aurc", "width_ece", "classwise_ece"):
            assert row[key] >= 0.0
        assert row["nll_interval"][0] < row["nll"] < row["nll_interval"][1]
        assert row["bins"]
        assert row["curve"][-1][0] == pytest.approx(1.0)
        parts = row["brier_parts"]
        assert row["brier"] == pytest.approx(
            parts["reliability"] - parts["resolution"] + parts["uncertainty"] + parts["within"]
        )
    assert told["states"] == 332


def test_the_report_has_every_part(told: dict[str, Any], tmp_path: Path) -> None:
    drawn_ = list(pictures(told))
    found = page(told, drawn_)
    assert [section.title for section in found.sections] == [
        "Before and after",
        "Pictures",
        "Calibration error in detail",
        "What was fitted",
        "Other ways",
        "The gate",
        "What acting on the score can cost",
        "Notes",
        "How it was measured",
    ]
    for text in (html.render(found), markdown.render(found)):
        assert "tiny <model>" not in text, "what users name is no markup"
        assert "ECE if calibrated" in text
        assert "bound 2·U·ECE" in text
    for one in drawn_:
        ET.fromstring(one.picture.svg)
        assert one.png.startswith(b"\x89PNG")
    paths = write_report(tmp_path, told)
    assert {path.name for path in paths} >= {"report.md", "report.html", "reliability-all.png"}
    assert all(path.stat().st_size for path in paths)


def test_a_gate_by_risk_takes_half_of_the_states_and_says_so() -> None:
    many = drawn(600, 4, temperature=1.5, spread=4.0, per_state=2)
    found = calibrate(many, Recipe("type"), gate=Risk(0.15, 0.1))
    assert found.gate is not None
    assert found.gate.gate.threshold is not None
    assert found.gate.gate.fitted["guaranteed"] is True
    (all_,) = found.gate.thresholds.values()
    assert all_.guaranteed
    assert all_.why == (
        "P(error among accepted > 0.15) ≤ 0.1; tested on one random decision of every state"
    )
    assert all_.risk is not None
    assert all_.risk < 0.15
    assert found.fit.temperatures.found["choice"].count == 300
    assert any("the other 300" in note for note in found.notes)
    told = markdown.render(page(document(found, ABOUT), []))
    assert "is fitted to half of the states" in told
    assert "is fitted to everything" not in told


def test_with_too_few_the_gate_promises_nothing_and_accepts_nothing() -> None:
    found = calibrate(drawn(40, spread=4.0), Recipe("type"), gate=Risk(0.05, 0.05))
    assert found.gate is not None
    assert found.gate.gate.threshold is None
    assert "nothing can be guaranteed with 20 decisions" in found.gate.thresholds["all"].why
    told = document(found, ABOUT)
    assert "accepts nothing" in markdown.render(page(told, []))


def test_a_field_called_as_a_type_is_told_apart_in_the_report() -> None:
    rows = together(drawn(60, name="choice"), drawn(60, name="g", temperature=3.0, seed=1))
    found = document(calibrate(rows, Recipe("field")), ABOUT)
    told = [(one["key"], one["field"]) for one in found["temperatures"]]
    assert told == [("choice", False), ("choice", True), ("g", True)]
    shown = markdown.render(page(found, []))
    assert "\n| choice |" in shown
    assert '\n| "choice" |' in shown


def test_soft_labels_have_no_floor_in_any_report() -> None:
    hard = drawn(60)
    soft = replace(hard, target=np.where(np.arange(60)[:, None] < 9, 0.25, hard.target))
    found = document(calibrate(soft, Recipe("type")), ABOUT)
    assert any(note.startswith("9 labels are soft") for note in found["notes"])
    after = found["parts"][0]["after"]
    floors = ("calibrated_ece", "calibrated_width_ece", "calibrated_classwise_ece")
    assert {after[key] for key in floors} == {None}
    assert {one["expected_low"] for one in after["bins"]} == {None}
    shown = list(pictures(found))
    assert "isn't told" in shown[0].picture.caption
    assert "(–)" in markdown.render(page(found, shown))


def test_labels_are_checked_before_there_are_logits() -> None:
    for bad, message in (
        (drawn(19), "a fit needs 20"),
        (replace(drawn(30), target=np.eye(4)[[0] * 30]), "the same option"),
        (drawn(30, per_state=30), "about one state"),
    ):
        blank = replace(bad, z=np.zeros_like(bad.z))
        with pytest.raises(QualityError, match=message):
            check_labels(blank, None)


def test_halves_that_are_too_small_are_told() -> None:
    with pytest.raises(QualityError, match=r"takes half of the decisions .* and 38 don't leave 20"):
        calibrate(drawn(38), Recipe("type"), gate=Risk(0.1, 0.1))


def test_the_promise_counts_one_decision_a_state() -> None:
    """Ten copies of three states prove no more than three do."""
    few = drawn(30, spread=9.0, per_state=10)
    sure = replace(few, target=np.eye(4)[few.z.argmax(axis=1)])
    p = np.eye(4)[few.z.argmax(axis=1)]
    found = fit_gate(sure, p, Risk(0.5, 0.25), (sure, p))
    assert found.gate.threshold is not None, "three right ones are enough for this"
    found = fit_gate(sure, p, Risk(0.5, 0.1), (sure, p))
    assert "with 3 decisions" in found.thresholds["all"].why
    heavy = replace(sure, weight=np.arange(30) + 1.0)
    assert any("weights were left out" in n for n in fit_gate(heavy, p, Risk(0.5, 0.1)).notes)


def test_a_gate_by_coverage_accepts_that_share_of_every_field() -> None:
    many = together(drawn(100, name="a"), drawn(100, 2, name="b", kind="noul", seed=1))
    p = np.exp(many.z - many.z.max(axis=1, keepdims=True))
    found = fit_gate(many, p / p.sum(axis=1, keepdims=True), Coverage(0.6))
    assert {one.coverage for one in found.thresholds.values()} <= {0.6, 0.605}
    assert found.gate.fitted == {
        "rule": {"kind": "coverage", "share": 0.6},
        "decisions": 200,
        "guaranteed": False,
    }
    assert Gate.parse(json.loads(json.dumps(found.gate.to_json()))) == found.gate


def test_one_field_of_one_type_has_one_part_and_one_threshold() -> None:
    found = calibrate(drawn(60), Recipe("type"), gate=Coverage(0.5))
    assert [part.name for part in found.parts] == ["all"]
    assert found.gate is not None
    assert list(found.gate.thresholds) == ["all"]
    assert found.fit.kappa == math.inf


def test_flips_are_counted_by_option_whatever_its_place() -> None:
    given = drawn(50, 3)
    same = replace(given, z=given.z[:, ::-1].copy(), options=(("2", "1", "0"),) * 50).where(
        np.arange(50) < 20
    )
    assert flips(given, same).value == 0.0
    places = replace(given, options=(("2", "1", "0"),) * 50)
    middle = (given.z.argmax(axis=1) != 1).mean()
    assert flips(given, places).value == pytest.approx(middle)


def test_the_tables_have_a_line_a_family_and_a_line_a_mode() -> None:
    choice = dict.fromkeys(DEBIAS, drawn(60, 3, temperature=2.0, name="intent"))
    noul = dict.fromkeys(DEBIAS, drawn(60, 2, temperature=2.0, name="answer", kind="noul", seed=1))
    tokens = dict.fromkeys(DEBIAS, 100.0)
    found = [
        Collected("intent_recognition", choice, choice, tokens),
        Collected("entailed_polarity", noul, None, tokens),
    ]
    table = calibration_table(found)
    assert [row[0] for row in table.rows] == ["routing", "verification"]
    assert all(len(row) == len(table.head) for row in table.rows)
    modes = [(row[0], row[1]) for row in debias_table(found).rows]
    assert modes == [
        *(("intent_recognition", mode) for mode in DEBIAS),
        ("entailed_polarity", "none"),
        ("entailed_polarity", "prior"),
    ]
