"""The readout of label rows against the product with the whole head.

`python -m readoff.bench.micro.readout`: both at the shapes of two models, for 1, 8 and 64 questions
of four labels, alternating in one run. The last line of stdout is one JSON document. Between two
readouts of the same label rows lies a pass over the whole head, so they come from memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from readoff.bench.report.commit import commit
from readoff.bench.timing import Times, alternate, ratio, timed
from readoff.engine.runtime import choose_device
from readoff.kernels.dispatch import Site
from readoff.kernels.label_readout import label_readout
from readoff.kernels.pointwise import rms_norm

LABELS = 4
EPS = 1e-6
BOUND = 2e-2
"""How far apart probabilities may be: the whole head's logits are rounded to bf16, to 1/128
around 4."""


@dataclass(frozen=True)
class Head:
    """The output embedding of a model, [vocab, hidden]."""

    model: str
    hidden: int
    vocab: int


HEADS = (Head("Qwen3.5-0.8B", 1024, 248_320), Head("Qwen2.5-0.5B", 896, 151_936))
SMALL = (Head("small", 64, 1000),)
BATCHES = (1, 8, 64)

Readout = Callable[[], torch.Tensor]
"""Runs once and gives the probabilities, [N, LABELS]."""


def contenders(weight: torch.Tensor, questions: int) -> dict[str, Readout]:
    """Both readouts of the same `questions` hidden rows, labels drawn for each question apart."""
    vocab, width = weight.shape
    device = weight.device
    hidden = torch.randn(questions, width, device=device).to(weight.dtype)
    norm = torch.ones(width, dtype=weight.dtype, device=device)
    ids = torch.stack([torch.randperm(vocab)[:LABELS] for _ in range(questions)]).to(device)
    rows = torch.arange(questions, device=device)
    offsets = torch.arange(questions + 1, device=device) * LABELS
    prior = torch.zeros(questions * LABELS, device=device)
    temperature = torch.ones(questions, device=device)

    def whole_head() -> torch.Tensor:
        normed = rms_norm(hidden, norm, EPS, False)
        logits = torch.nn.functional.linear(normed, weight)  # [N, vocab]
        scaled = (logits.gather(1, ids).float() - prior.view_as(ids)) / temperature[:, None]
        return scaled.softmax(-1)

    def label_rows() -> torch.Tensor:
        table = (hidden, weight, rows, norm, EPS, False)
        read = label_readout(*table, offsets, ids.flatten(), prior, temperature)
        return read.probabilities.view_as(ids)

    return {"whole_head": whole_head, "label_rows": label_rows}


def measure(
    head: Head, device: torch.device, dtype: torch.dtype, repeats: int
) -> list[dict[str, Any]]:
    """One row for each batch. RuntimeError where the contenders disagree: nothing is timed then."""
    torch.manual_seed(0)
    weight = torch.empty(head.vocab, head.hidden, dtype=dtype, device=device)
    weight.normal_(std=head.hidden**-0.5)  # logits of unit variance
    found = []
    for questions in BATCHES:
        runs = contenders(weight, questions)
        distance = float((runs["whole_head"]() - runs["label_rows"]()).abs().max())
        if not distance <= BOUND:
            raise RuntimeError(f"{head.model}: probabilities are {distance:.2g} apart; not timed.")
        timers = {name: _timer(run, device) for name, run in runs.items()}
        found.append(_row(head, questions, weight, alternate(timers, repeats, warmups=2)))
    return found


def _row(
    head: Head, questions: int, weight: torch.Tensor, times: dict[str, Times]
) -> dict[str, Any]:
    whole, labels = times["whole_head"], times["label_rows"]
    read = questions * LABELS * head.hidden * weight.element_size()
    return {
        "model": head.model,
        "hidden": head.hidden,
        "vocab": head.vocab,
        "questions": questions,
        "labels": LABELS,
        **{
            f"{name}_{what}_ms": round(1e3 * seconds, 4)
            for name, t in times.items()
            for what, seconds in (("p50", t.median), ("p95", t.p95))
        },
        "ratio": round(ratio(whole, labels), 2),
        "whole_head_bytes": weight.nbytes,
        "bytes_not_read": weight.nbytes - read,
        "whole_head_gb_per_s": round(weight.nbytes / whole.median / 1e9, 2),
    }


def _timer(run: Readout, device: torch.device) -> Callable[[], float]:
    """Seconds of one run; on a GPU those of a replayed graph, without the host's launches."""
    if device.type != "cuda":
        return lambda: timed(run)
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return replay


def document(heads: Sequence[Head], device: torch.device, repeats: int) -> dict[str, Any]:
    """Everything measured, and with what."""
    dtype = torch.bfloat16
    with torch.inference_mode():
        cases = [row for head in heads for row in measure(head, device, dtype, repeats)]
    on_gpu = device.type == "cuda"
    return {
        "benchmark": "readout",
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
        "dtype": "bf16",
        "torch": torch.__version__,
        "commit": commit(),
        "repeats": repeats,
        "implementation": label_readout.choose(Site(device.type, dtype)).name,
        "cases": cases,
    }


def table(told: dict[str, Any]) -> str:
    """The cases for people."""
    lines = [
        f"{'model':14} {'questions':>9} {'whole head':>12} {'label rows':>12} {'times':>7}  saved"
    ]
    lines += [
        f"{row['model']:14} {row['questions']:9} {row['whole_head_p50_ms']:9.3f} ms "
        f"{row['label_rows_p50_ms']:9.3f} ms {row['ratio']:7.1f}  "
        f"{row['bytes_not_read'] / 1e6:.0f} of {row['whole_head_bytes'] / 1e6:.0f} MB not read"
        for row in told["cases"]
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m readoff.bench.micro.readout",
        description="Label rows against the whole head.",
    )
    parser.add_argument("--json", action="store_true", help="print the JSON document only")
    parser.add_argument("--small", action="store_true", help="a tiny head, to see that it runs")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--repeats", type=int, default=25)
    asked = parser.parse_args(arguments)
    if asked.repeats < 1:
        parser.error("--repeats must be at least 1")
    told = document(SMALL if asked.small else HEADS, choose_device(asked.device), asked.repeats)
    if not asked.json:
        print(table(told))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
