"""The check after an export: what it runs, what it finds, what it lets through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate
from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.loading import load_renderer
from readoff.engine.prompt import Renderer
from readoff.export.errors import ParityError
from readoff.export.graph.model import build_model
from readoff.export.graph.options import FixedLabels, Flavour, GraphOptions, LabelBank, Precision
from readoff.export.graph.save import to_bytes
from readoff.export.parity import BOUNDS, Parity, check, reference, require
from readoff.export.probes import LENGTHS, parity_probes, question_probes
from readoff.export.session import GraphSession
from tests.engine.models_on_disk import ASKED, STATE, save_decider
from tests.models import ARCHITECTURES, Architecture

Spoil = Callable[[ir.Model], None]


class Subject:
    """A decider and its renderer."""

    def __init__(self, folder: Path, architecture: Architecture) -> None:
        save_decider(folder, architecture)
        self.checkpoint: Checkpoint = open_checkpoint(folder)
        self.renderer: Renderer = load_renderer(self.checkpoint, Card.default())

    def check(
        self, options: GraphOptions | None = None, spoil: Spoil = lambda model: None
    ) -> Parity:
        options = options or GraphOptions()
        model = build_model(self.checkpoint, options)
        spoil(model)
        session = GraphSession(to_bytes(model), self.checkpoint.config, options, threads=1)
        return check(self.checkpoint, session, parity_probes(self.renderer, options, 1024))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def every(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return Subject(tmp_path_factory.mktemp("model"), request.param)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return Subject(tmp_path_factory.mktemp("model"), "qwen3_5")


@pytest.mark.parametrize("flavour", ["standard", "contrib"])
def test_fp32(every: Subject, flavour: Flavour) -> None:
    parity = every.check(GraphOptions(flavour=flavour))
    require(parity, GraphOptions())
    assert parity.logit < 1e-4
    assert all(answer.same for answer in parity.answers)


@pytest.mark.parametrize("flavour", ["standard", "contrib"])
@pytest.mark.parametrize("precision", ["fp16", "int8", "int4"])
def test_narrow_precisions(every: Subject, flavour: Flavour, precision: Precision) -> None:
    options = GraphOptions(flavour=flavour, precision=precision)
    parity = every.check(options)
    require(parity, options)
    assert parity.probability > 1e-5


def test_what_is_run(one: Subject) -> None:
    parity = one.check()
    rows = parity.table()
    new = {(r["past"], r["tokens"], r["rows"]) for r in rows if r["what"] == "text"}
    assert new == {(past, n, rows) for past in (0, 70) for n in LENGTHS for rows in (1, 3)}
    pasts = {(r["past"], r["rows"]) for r in rows if r["what"] == "questions"}
    assert pasts == {(n, rows) for n in LENGTHS for rows in (1, 3)}
    again = [(r["past"], r["rows"]) for r in rows if r["what"] == "one token repeated"]
    assert again == [(0, 1), (0, 3), (200, 1), (200, 3)]
    assert rows[-1]["what"] == "all"
    assert rows[-1]["rows"] == len(parity.answers) == 17 * (1 + 3)
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    repeated = [c.probe for c in parity.cases if c.probe.what == "one token repeated"]
    assert all(len(set(row.tokens)) == 1 for probe in repeated for row in probe.rows)
    three = [case.probe for case in parity.cases if len(case.probe.rows) == 3]
    assert all(len({row.temperature for row in probe.rows}) == 3 for probe in three[:15])
    assert len({len(row.tokens) for row in three[4].rows}) == 3


FAULTS = [
    ("model.norm.weight", 1.01),
    ("model.layers.3.self_attn.k_norm.weight", 1.01),
    ("model.layers.0.linear_attn.dt_bias", 1.01),
    ("model.layers.1.mlp.down_proj.weight", 1.01),
]


@pytest.mark.parametrize(("name", "factor"), FAULTS)
def test_a_fault_of_one_percent_is_found(one: Subject, name: str, factor: float) -> None:
    def spoil(model: ir.Model) -> None:
        value = model.graph.initializers[name]
        assert value.const_value is not None
        value.const_value = ir.tensor(value.const_value.numpy() * np.float32(factor), name=name)

    parity = one.check(spoil=spoil)
    assert parity.failures()
    assert not parity.table()[-1]["passed"]
    with pytest.raises(ParityError, match=r"doesn't decide like the model: a logit differs by"):
        require(parity, GraphOptions())


def test_a_state_that_is_lost_is_found(one: Subject) -> None:
    """Only runs with a past show it."""

    def spoil(model: ir.Model) -> None:
        node = next(n for n in model.graph if n.name == "model.layers.0.linear_attn/Expand")
        value = node.outputs[0]
        zero = ir.Value(
            name="zero",
            const_value=ir.tensor(np.zeros((), np.float32), name="zero"),
            shape=ir.Shape(()),
            type=ir.TensorType(ir.DataType.FLOAT),
        )
        model.graph.initializers["zero"] = zero
        users = list(value.uses())
        lost = ir.node("Mul", [value, zero], name="lost")
        model.graph.insert_after(node, lost)
        for use in users:
            use.node.replace_input_with(use.idx, lost.outputs[0])

    parity = one.check(spoil=spoil)
    assert parity.failures()
    for case in parity.cases:
        bad = not case.to_json(parity.bounds)["passed"]
        assert bad == bool(case.probe.past)


def test_bounds_of_narrow_precisions_are_kept(one: Subject) -> None:
    parity = one.check(GraphOptions(precision="int8"))
    bounds = BOUNDS["int8"]
    assert not parity.failures()
    told = {
        "a probability differs": replace(bounds, probability=parity.probability / 2),
        "the mean": replace(bounds, mean=parity.mean / 2),
        "of the answers are the same": replace(bounds, same=1.1),
    }
    for message, narrower in told.items():
        wrong = replace(parity, bounds=narrower)
        (failure,) = wrong.failures()
        assert message in failure
        with pytest.raises(ParityError, match=r"doesn't bear int8; choose a wider"):
            require(wrong, GraphOptions(precision="int8"))


def test_fp32_must_have_every_best_label(one: Subject) -> None:
    parity = one.check()
    answer = parity.cases[0].answers[0]
    order = answer.found[1].argsort()
    swapped = answer.found[1].copy()
    swapped[order[-2:]] = swapped[order[-1:-3:-1]]
    wrong = replace(answer, found=(answer.found[0], swapped))
    case = replace(parity.cases[0], answers=(wrong,))
    assert "a row has another best label" in Parity((case,), BOUNDS["fp32"]).failures()


def test_a_check_of_nothing_is_no_check(one: Subject) -> None:
    assert parity_probes(one.renderer, GraphOptions(), 0) == []
    with pytest.raises(ParityError, match="too short"):
        require(Parity((), BOUNDS["fp32"]), GraphOptions())
    fitting = parity_probes(one.renderer, GraphOptions(), 100)
    assert fitting
    assert all(len(probe) <= 100 for probe in fitting)


@pytest.mark.parametrize(
    "labels", [LabelBank(tuple(range(40, 90))), FixedLabels((70, 65, 90), (0.3, 0.0, -0.2), 1.7)]
)
def test_baked_labels_are_checked_too(one: Subject, labels: LabelBank | FixedLabels) -> None:
    options = GraphOptions(labels=labels)
    parity = one.check(options)
    require(parity, options)
    assert len(parity.cases) == 34
    if isinstance(labels, FixedLabels):
        assert {answer.row.labels for answer in parity.answers} == {labels.ids}
        assert {answer.row.temperature for answer in parity.answers} == {1.7}


def test_shared_beginnings_are_computed_once_and_rows_keep_their_order(one: Subject) -> None:
    """More tokens than one pass of the reference takes, asked for twice."""
    probes = parity_probes(one.renderer, GraphOptions(), 1024)
    twice = reference(one.checkpoint, [*probes, *probes])
    half = len(twice) // 2
    alone = [pair for probe in probes for pair in reference(one.checkpoint, [probe])]
    assert len(alone) == half
    for first, second, single in zip(twice[:half], twice[half:], alone, strict=True):
        for one_of, other, third in zip(first, second, single, strict=True):
            np.testing.assert_allclose(one_of, third, atol=1e-5)
            np.testing.assert_allclose(other, third, atol=1e-5)


@pytest.mark.parametrize("order", ["state-first", "question-first"])
def test_questions_of_a_request(one: Subject, order: str) -> None:
    card = Card(template=CardTemplate(order=order))
    renderer = load_renderer(one.checkpoint, card)
    probes = question_probes(renderer, card, STATE, ASKED)
    assert [len(probe.rows) for probe in probes] == ([3] if order == "state-first" else [1, 1, 1])
    prompts = renderer.render(STATE, ASKED)
    chains = [probe.past + row.tokens for probe in probes for row in probe.rows]
    assert chains == [prompt.ids for prompt in prompts]
    assert [row.labels for p in probes for row in p.rows] == [p.labels.ids for p in prompts]
