"""The readout's Triton kernels in the interpreter, against the reference."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.label_readout import Reading, label_readout, log_partition
from readoff.kernels.label_readout import reference as naive

from .forests import relative_error
from .products import guarded, pairs_first

VOCAB = 700
COUNTS = {
    "one": [1],
    "two": [2],
    "255": [255],
    "mixed": [1, 2, 26, 27, 255, 2],
    "padded": [2, 0, 27, 10, 0, 0],
    "none": [0, 0],
}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}

# Both sides compute in fp32 from the same inputs, whatever their dtype; a logit is a sum of up to
# 96 products in another order.
BOUND = 1e-5


def operands(
    counts: list[int], hidden_size: int, dtype: torch.dtype, gap: int = 0
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """(hidden, head, rows, norm_weight), (label_offsets, label_ids, prior, temperature)."""
    torch.manual_seed(11)
    hidden = guarded((torch.randn(9, hidden_size) * 4).to(dtype), gap)
    head = guarded(torch.randn(VOCAB, hidden_size).to(dtype), gap)
    rows = guarded(torch.randint(0, 9, (len(counts),)))
    weight = guarded(torch.randn(hidden_size).to(dtype))
    offsets = guarded(torch.tensor([0, *counts]).cumsum(0))
    ids = torch.cat(
        [torch.zeros(0, dtype=torch.long), *(torch.randperm(VOCAB)[:n] for n in counts)]
    )
    prior, temperature = torch.randn(len(ids)), torch.rand(len(counts)) * 4 + 0.5
    temperature[torch.tensor(counts) == 0] = torch.nan
    return (hidden, head, rows, weight), (offsets, guarded(ids), guarded(prior), temperature)


def read(*args: object) -> Reading:
    """Through the door of the operator, Triton by name."""
    before = label_readout.calls["triton"]
    with label_readout.use("triton"):
        found = label_readout(*args)  # type: ignore[arg-type]
    assert label_readout.calls["triton"] == before + 1
    return found


def equal(found: Reading, wanted: Reading) -> None:
    assert found.best.dtype == torch.int64
    assert torch.equal(found.best, wanted.best)
    for name in ("logits", "probabilities", "confidence", "expected"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert a.dtype == torch.float32
        assert a.shape == b.shape
        if a.numel():
            assert relative_error(a, b) <= BOUND, name


@pairs_first(
    counts=list(COUNTS),
    dtype=list(DTYPES),
    hidden_size=[32, 96],
    plus_one=[False, True],
    ordinal=["none", "some"],
    gap=[0, 8],
)
def test_equals_the_reference(
    counts: str, dtype: str, hidden_size: int, plus_one: bool, ordinal: str, gap: int
) -> None:
    table, labels = operands(COUNTS[counts], hidden_size, DTYPES[dtype], gap)
    scales = None if ordinal == "none" else torch.arange(len(labels[3])) % 2 == 0
    found = read(*table, 1e-6, plus_one, *labels, scales)
    equal(found, naive.label_readout(*table, 1e-6, plus_one, *labels, scales))


def test_ordinal_may_be_left_out() -> None:
    table, labels = operands([2, 10], 32, torch.float32)
    equal(read(*table, 1e-6, False, *labels), naive.label_readout(*table, 1e-6, False, *labels))


def test_padding_label_slots_are_left_alone() -> None:
    """What a captured pass brings: more label slots than labels, filled with anything."""
    table, (offsets, ids, prior, temperature) = operands([2, 3], 32, torch.float32)
    wild = torch.cat([ids, torch.full((40,), 2**40)])
    more = offsets, wild, torch.cat([prior, torch.full((40,), torch.nan)]), temperature
    found = read(*table, 1e-6, False, *more, None)
    real = Reading(found.logits[:5], found.probabilities[:5], *found[2:])
    equal(real, naive.label_readout(*table, 1e-6, False, offsets, ids, prior, temperature))
    assert found.logits[5:].isnan().all()  # as torch.empty made them here
    assert found.probabilities[5:].isnan().all()


def test_the_first_of_equal_labels_is_the_best() -> None:
    """Equal probabilities in one block and across blocks; the prior decides, not the logit."""
    table, _ = operands([2, 2, 2], 32, torch.float32)
    ids, prior = torch.full((60,), 9), torch.zeros(60)
    prior[3:40] = 1.0  # the second question's labels 0 to 36; its labels 37 to 56 are equal
    offsets = torch.tensor([0, 3, 60, 60])
    found = read(*table, 1e-6, False, offsets, ids, prior, torch.ones(3), None)
    assert found.best.tolist() == [0, 37, 0]
    assert found.logits[:3].unique().numel() == 1


def test_logits_far_apart_neither_overflow_nor_vanish() -> None:
    hidden, head = torch.ones(1, 32), torch.tensor([[3e4], [-3e4], [3e4]]).expand(3, 32).clone()
    ids, offsets = torch.tensor([0, 1, 2]), torch.tensor([0, 3])
    labels = offsets, ids, torch.zeros(3), torch.tensor([1e-3])
    found = read(hidden, head, torch.tensor([0]), torch.ones(32), 0.0, False, *labels, None)
    assert found.probabilities.tolist() == [0.5, 0.0, 0.5]
    assert found.logits.tolist() == pytest.approx([9.6e5, -9.6e5, 9.6e5])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_shows_and_spoils_no_other(bad: float) -> None:
    table, labels = operands([3, 4], 32, torch.float32)
    table[2][:] = torch.tensor([2, 5])
    clean = read(*table, 1e-6, False, *labels, None)
    table[0][2, 7] = bad
    found = read(*table, 1e-6, False, *labels, None)
    assert found.probabilities[:3].isnan().all()
    assert 0 <= int(found.best[0]) < 3
    assert torch.equal(found.probabilities[3:], clean.probabilities[3:])
    assert int(found.best[1]) == int(clean.best[1])


@pairs_first(
    questions=[1, 16, 17, 70],
    vocab=[1, 128, 129, 700],
    dtype=list(DTYPES),
    hidden_size=[32, 96],
    plus_one=[False, True],
    gap=[0, 8],
)
def test_the_partition_equals_the_reference(
    questions: int, vocab: int, dtype: str, hidden_size: int, plus_one: bool, gap: int
) -> None:
    (hidden, head, *_), _ = operands([2], hidden_size, DTYPES[dtype], gap)
    weight = torch.randn(hidden_size).to(DTYPES[dtype])
    head, rows = guarded(head[:vocab], gap), torch.randint(0, 9, (questions,))
    found = partition(hidden, head, rows, weight, 1e-6, plus_one)
    wanted = naive.log_partition(hidden, head, rows, weight, 1e-6, plus_one)
    assert found.shape == (questions,)
    # fp16: the normed rows carry 2 x 11 bits, so that the bound of fp32 holds there too.
    assert (found - wanted).abs().max() <= BOUND * wanted.abs().max().clamp(min=1.0)


def test_the_legal_mass_of_everything_is_one() -> None:
    """Both kernels on one fp16 head: label logits and the streamed sum must not drift apart."""
    (hidden, head, rows, weight), _ = operands([2], 96, torch.float16)
    sets = torch.tensor([0, 255, 510, VOCAB])
    labels = sets, torch.arange(VOCAB), torch.zeros(VOCAB), torch.ones(3)
    logits = read(hidden, head, rows.repeat(3), weight, 1e-6, False, *labels, None).logits
    total = partition(hidden, head, rows, weight, 1e-6, False)
    assert float((logits.logsumexp(0) - total[0]).exp()) == pytest.approx(1.0, abs=1e-5)


def partition(*args: object) -> torch.Tensor:
    """Through the door of the operator, Triton by name."""
    before = log_partition.calls["triton"]
    with log_partition.use("triton"):
        found = log_partition(*args)  # type: ignore[arg-type]
    assert log_partition.calls["triton"] == before + 1
    return found
