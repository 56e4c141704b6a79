"""The readout of label rows, and the streamed partition function."""

from __future__ import annotations

import pytest
import torch

from readoff.engine.calibration import choice_confidence, score_confidence
from readoff.engine.calibration import probabilities as calibrated
from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.label_readout import Reading, cpu, label_readout, log_partition
from readoff.kernels.label_readout import reference as naive

from .forests import relative_error

HIDDEN, VOCAB = 32, 700


def operands(
    counts: list[int], dtype: torch.dtype = torch.float32
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]:
    torch.manual_seed(5)
    hidden, head = torch.randn(50, HIDDEN).to(dtype), torch.randn(VOCAB, HIDDEN).to(dtype)
    rows = torch.randint(0, 50, (len(counts),))
    offsets = torch.tensor([0, *counts]).cumsum(0)
    ids = torch.cat([torch.randperm(VOCAB)[:n] for n in counts])
    prior, temperature = torch.randn(len(ids)), torch.rand(len(counts)) + 0.5
    return (hidden, head, rows, torch.randn(HIDDEN).to(dtype)), (offsets, ids, prior, temperature)


def implementations() -> list[str]:
    return ["torch", "reference"]


def equal(found: Reading, wanted: Reading, bound: float) -> None:
    assert torch.equal(found.best, wanted.best)
    for name in ("logits", "probabilities", "confidence", "expected"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert a.dtype == torch.float32
        assert a.shape == b.shape
        if a.numel():
            assert relative_error(a, b) <= bound, name


@pytest.mark.parametrize("ordinal", [None, "some"], ids=str)
@pytest.mark.parametrize("plus_one", [False, True])
@pytest.mark.parametrize("counts", [[2], [2, 255, 3, 10, 1], [27, 0, 53, 100, 255, 0]], ids=str)
def test_equals_the_reference(counts: list[int], plus_one: bool, ordinal: str | None) -> None:
    table, labels = operands(counts)
    scales = None if ordinal is None else torch.arange(len(counts)) % 2 == 0
    found = label_readout(*table, 1e-6, plus_one, *labels, scales)
    equal(found, naive.label_readout(*table, 1e-6, plus_one, *labels, scales), 3e-6)


@pytest.mark.parametrize("name", implementations())
def test_confidence_and_level_follow_the_formulas(name: str) -> None:
    counts = [1, 2, 3, 4, 10, 26, 27, 255] * 2
    table, labels = operands(counts)
    ordinal = torch.arange(len(counts)) >= len(counts) // 2
    with label_readout.use(name):
        found = label_readout(*table, 1e-6, False, *labels, ordinal)
    for i in range(len(counts)):
        p = found.probabilities[labels[0][i] : labels[0][i + 1]].double()
        wanted = (score_confidence if ordinal[i] else choice_confidence)(p.tolist())
        assert float(found.confidence[i]) == pytest.approx(wanted, abs=2e-6)
        assert float(found.expected[i]) == pytest.approx(float(p @ torch.arange(len(p)).double()))
        assert int(found.best[i]) == int(p.argmax())


@pytest.mark.parametrize("name", implementations())
def test_the_first_of_equal_labels_is_the_best(name: str) -> None:
    table, _ = operands([2])
    ids = torch.tensor([9, 9, 9, 9, 9])
    labels = torch.tensor([0, 2, 5]), ids, torch.zeros(5), torch.ones(2)
    prior_against_the_first = torch.tensor([1.0, 0, 1, 0, 0])
    rows = (*table[:2], table[2].repeat(2), table[3])
    with label_readout.use(name):
        assert label_readout(*rows, 1e-6, False, *labels).best.tolist() == [0, 0]
        moved = label_readout(*rows, 1e-6, False, *labels[:2], prior_against_the_first, labels[3])
    assert moved.best.tolist() == [1, 1]


@pytest.mark.parametrize("name", implementations())
@pytest.mark.parametrize("counts", [[0], [0, 0], [0, 3, 0]], ids=str)
def test_a_question_without_labels_reads_zero(name: str, counts: list[int]) -> None:
    table, labels = operands(counts)
    with label_readout.use(name):
        found = label_readout(*table, 1e-6, False, *labels, torch.ones(len(counts)) > 0)
    none = torch.tensor(counts) == 0
    for told in found[2:]:
        assert (told[none] == 0).all()
    assert len(found.logits) == len(found.probabilities) == sum(counts)
    assert found.probabilities.isfinite().all()


def test_probabilities_follow_the_formula() -> None:
    table, (offsets, ids, prior, temperature) = operands([3, 5])
    logits, found, *_ = label_readout(*table, 1e-6, False, offsets, ids, prior, temperature)
    for i in range(2):
        at = slice(int(offsets[i]), int(offsets[i + 1]))
        wanted = calibrated(logits[at].tolist(), prior[at].tolist(), float(temperature[i]))
        assert torch.allclose(found[at].double(), torch.tensor(wanted), atol=1e-6)


def test_temperature_two_of_logits_two_and_zero() -> None:
    """Pitfall 13: a fitted temperature that isn't applied. T = 2, logits (2, 0) -> 0.731."""
    hidden = torch.tensor([[1.0, 1.0]])  # unit mean square: the norm leaves it alone
    head = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    _, p, *_ = label_readout(
        hidden,
        head,
        torch.tensor([0]),
        torch.ones(2),
        0.0,
        False,
        torch.tensor([0, 2]),
        torch.tensor([0, 1]),
        torch.zeros(2),
        torch.tensor([2.0]),
    )
    assert float(p[0]) == pytest.approx(0.7310586, abs=1e-6)


@pytest.mark.parametrize("block", [1, 64, 700, 8192])
def test_the_streamed_partition_equals_the_whole(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "VOCABULARY_BLOCK", block)
    table, _ = operands([2, 2, 2])
    found = log_partition(*table, 1e-6, True)
    assert relative_error(found, naive.log_partition(*table, 1e-6, True)) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_partition_of_a_narrow_head_is_not_rounded(dtype: torch.dtype) -> None:
    """Label logits are fp32: their share of a sum of rounded logits could exceed 1."""
    table, _ = operands([255, 3], dtype)
    found = log_partition(*table, 1e-6, False)
    assert relative_error(found, naive.log_partition(*table, 1e-6, False)) <= 1e-6
    # The whole vocabulary as label sets of the size that a question may have.
    sets, everything = [0, 255, 510, VOCAB], torch.arange(VOCAB)
    for i in range(2):
        rows = (*table[:2], table[2][[i]].repeat(3), table[3])
        labels = torch.tensor(sets), everything, torch.zeros(VOCAB), torch.ones(3)
        logits = label_readout(*rows, 1e-6, False, *labels).logits
        assert abs(float(logits.logsumexp(0) - found[i])) <= 1e-5


def test_gradients_reach_head_and_hidden() -> None:
    (hidden, head, rows, norm), labels = operands([2, 5])
    gradients = []
    for function in (label_readout, naive.label_readout):
        leaves = [x.clone().requires_grad_() for x in (hidden, head, norm)]
        _, p, *_ = function(leaves[0], leaves[1], rows, leaves[2], 1e-6, False, *labels)
        (p * torch.linspace(-1, 1, len(p))).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, wanted in zip(*gradients, strict=True):
        assert found is not None
        assert wanted is not None
        assert relative_error(found, wanted) <= 1e-5


def valid() -> dict[str, object]:
    (hidden, head, rows, weight), (offsets, ids, prior, temperature) = operands([2, 3])
    return {
        "hidden": hidden,
        "head": head,
        "rows": rows,
        "norm_weight": weight,
        "eps": 1e-6,
        "plus_one": False,
        "label_offsets": offsets,
        "label_ids": ids,
        "prior": prior,
        "temperature": temperature,
        "ordinal": torch.tensor([True, False]),
    }


WRONG: dict[str, list[object]] = {
    "hidden": [
        torch.zeros(HIDDEN),
        torch.zeros(50, HIDDEN, dtype=torch.float64),
        torch.zeros(HIDDEN, 50).t(),
        torch.zeros(50, HIDDEN, dtype=torch.bfloat16),
    ],
    "head": [
        torch.zeros(VOCAB, HIDDEN + 1),
        torch.zeros(VOCAB),
        torch.zeros(VOCAB, HIDDEN, dtype=torch.bfloat16),
        torch.zeros(HIDDEN, VOCAB).t(),
        torch.zeros(VOCAB, HIDDEN, device="meta"),
    ],
    "rows": [torch.zeros(2, dtype=torch.int32), torch.zeros(2, 1, dtype=torch.long)],
    "norm_weight": [torch.zeros(HIDDEN + 1), torch.zeros(HIDDEN, dtype=torch.long)],
    "eps": [-1.0, float("nan"), float("inf")],
    "label_offsets": [torch.zeros(2, dtype=torch.long), torch.zeros(3, dtype=torch.int32)],
    "label_ids": [torch.zeros(5), torch.zeros(10, dtype=torch.long)[::2], torch.tensor(3)],
    "prior": [torch.zeros(4), torch.zeros(5, dtype=torch.float64), torch.zeros(10)[::2]],
    "temperature": [torch.ones(3), torch.ones(2, dtype=torch.float16), torch.ones(2, 1)],
    "ordinal": [torch.zeros(2), torch.zeros(3, dtype=torch.bool)],
}
WRONG_VALUES: dict[str, list[object]] = {
    "rows": [torch.tensor([0, 50]), torch.tensor([-1, 0])],
    "label_offsets": [
        torch.tensor([1, 2, 5]),
        torch.tensor([0, 3, 2]),
        torch.tensor([0, 2, 6]),
    ],
    "label_ids": [torch.tensor([0, 1, 2, 3, VOCAB]), torch.tensor([0, -1, 2, 3, 4])],
    "prior": [torch.tensor([0, 0, float("nan"), 0, 0])],
    "temperature": [torch.tensor([1.0, x]) for x in (0.0, -1.0, float("nan"), float("inf"))],
}


def _cases(wrong: dict[str, list[object]]) -> list[object]:
    return [
        pytest.param(name, value, id=f"{name} {i}")
        for name, values in wrong.items()
        for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(("name", "value"), _cases(WRONG))
def test_wrong_shapes_dtypes_and_layouts_are_refused(name: str, value: object) -> None:
    args = {**valid(), name: value}
    # Another dtype of hidden is the head's problem, which no longer agrees.
    named = "head" if name == "hidden" and value.dtype == torch.bfloat16 else name  # type: ignore[attr-defined]
    with pytest.raises(KernelInputError, match=rf"^{named} is .*must be"):
        label_readout(*args.values())  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), _cases(WRONG_VALUES))
def test_wrong_values_are_refused_under_the_switch(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_CHECK", "1")
    label_readout(*valid().values())  # type: ignore[arg-type]
    with pytest.raises(KernelInputError, match=rf"^{name}\b"):
        label_readout(*{**valid(), name: value}.values())  # type: ignore[arg-type]


def test_too_many_labels_are_refused_under_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_CHECK", "1")
    table, labels = operands([256])
    with pytest.raises(KernelInputError, match="256 labels; 255 are the most"):
        label_readout(*table, 1e-6, False, *labels)


def test_the_partition_checks_its_arguments_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_CHECK", "1")
    (hidden, head, rows, weight), _ = operands([2])
    with pytest.raises(KernelInputError, match=r"^head is"):
        log_partition(hidden, head[:, 1:], rows, weight, 1e-6, False)
    with pytest.raises(KernelInputError, match=r"^rows goes from 50 to 50; the rows of hidden"):
        log_partition(hidden, head, torch.tensor([50]), weight, 1e-6, False)
