"""`Chain`: does an adapter answer alike wherever it is taken?

Base and adapter loaded by `Engine` are the reference. Against it: the merged folder in `Engine`
and in transformers, and the ONNX pack, all in fp32; then the same in bf16, judged by the distance
of bf16 from fp32 in this very run. Every probability of every item counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.data import requests_digest
from readoff.bench.gate import FP32, measured
from readoff.bench.records import Ask
from readoff.engine.answers import Answer, NoulAnswer
from readoff.engine.calibration import probabilities
from readoff.engine.calls import Calls
from readoff.engine.compute import on_compute_thread
from readoff.engine.errors import NumericsError
from readoff.engine.runtime import threads
from readoff.export.merge import merge
from readoff.learn.evaluate.subject import Options, Subject

Answers: TypeAlias = list[Floats]
"""The calibrated probabilities of each question, in the order of its options."""
Tell: TypeAlias = Callable[[str, int, int], None]

BATCH = 16
SCHEMA = 1


@dataclass(frozen=True)
class Link:
    """One way of answering against another. `bound` is the largest |Δp| allowed; `max_dp`,
    `same` (share of equal answers) and `ok` are None where it couldn't run: `note` says why."""

    what: str
    against: str
    precision: str
    bound: float | None
    max_dp: float | None = None
    same: float | None = None
    ok: bool | None = None
    note: str = ""


class Chain:
    """An adapter on its way. What is made on it (merged folder, pack) lies in the folder `work`,
    named by what it was made from, and is used again."""

    def __init__(
        self,
        model: str,
        adapter: Path,
        asks: Sequence[Ask],
        work: Path,
        *,
        thread_count: int | None = None,
        tell: Tell = lambda what, done, total: None,
    ) -> None:
        """Raises ReadoffError where model and adapter don't fit."""
        self.model, self.adapter, self.asks, self.work = model, adapter, asks, work
        self._threads, self._tell = thread_count, tell
        self._exact = Subject(model, adapter, Options("cpu", "fp32", thread_count))
        made_from = f"{self._exact.weights} {self._exact.adapter_digest} {self._exact.card}"
        self._digest = hashlib.sha256(made_from.encode()).hexdigest()[:16]

    def run(self, *, bf16: bool = True, onnx: bool = True) -> list[Link]:
        """All links. Raises ReadoffError as the engine, the merge and the export do."""
        reference = self._engine("adapter, fp32", self._exact)
        merged = self._merged()
        plain = Subject(str(merged), None, Options("cpu", "fp32", self._threads))
        base = "base + adapter, Engine"
        links = [
            _link(
                "merged, Engine",
                base,
                "fp32",
                FP32.ours,
                reference,
                self._engine("merged, fp32", plain),
            ),
            _link(
                "merged, transformers",
                base,
                "fp32",
                FP32.transformers,
                reference,
                self._transformers(merged, torch.float32),
            ),
        ]
        if onnx:
            links.append(self._onnx(reference, base))
        if bf16:
            links += self._rounded(reference, merged, base)
        return links

    def _rounded(self, reference: Answers, merged: Path, base: str) -> Iterable[Link]:
        """The links in bf16, and how far bf16 itself is from fp32, which is told and not judged."""
        options = Options("cpu", "bf16", self._threads)
        found = self._engine("adapter, bf16", Subject(self.model, self.adapter, options))
        distance = _largest(reference, found)
        bounds = measured(distance, len(reference))
        told = _link(base, f"{base}, fp32", "bf16", None, reference, found)
        yield told
        again = self._engine("merged, bf16", Subject(str(merged), None, options))
        yield _link("merged, Engine", base, "bf16", bounds.ours, found, again)
        other = self._transformers(merged, torch.bfloat16)
        yield _link("merged, transformers", base, "bf16", bounds.transformers, found, other)

    def _merged(self) -> Path:
        """The merged folder in fp32: what it is rounded to later, the adapter is as well."""
        folder = self.work / f"merged-{self._digest}"
        if not folder.is_dir():
            self._tell("merging", 0, 1)
            self.work.mkdir(parents=True, exist_ok=True)
            merge(self.model, [self.adapter], folder, dtype=torch.float32, progress=False)
            self._tell("merging", 1, 1)
        return folder

    def _engine(self, what: str, subject: Subject) -> Answers:
        try:
            return self._asked(what, subject.engine)
        finally:
            subject.close()

    def _asked(self, what: str, engine: Calls) -> Answers:
        found: Answers = []
        self._tell(what, 0, len(self.asks))
        for start in range(0, len(self.asks), BATCH):
            some = self.asks[start : start + BATCH]
            decisions = engine.decide_many([(a.state, a.questions) for a in some], debias="none")
            found += [_distribution(one) for decision in decisions for _, one in decision.items()]
            self._tell(what, min(start + BATCH, len(self.asks)), len(self.asks))
        return found

    def _onnx(self, reference: Answers, base: str) -> Link:
        """The pack on ONNX Runtime, where both are there."""
        what = "ONNX pack, OnnxEngine"
        missing = [name for name in ("onnx_ir", "onnxruntime") if find_spec(name) is None]
        if missing:
            note = f"not run: {' and '.join(missing)} missing"
            return Link(what, base, "fp32", FP32.transformers, note=note)
        from readoff.export.onnx_export import export_onnx
        from readoff.export.runtime import OnnxEngine

        folder = self.work / f"pack-{self._digest}"
        if not folder.is_dir():
            self._tell("exporting", 0, 1)
            export_onnx(self.model, [self.adapter], folder, threads=self._threads, progress=False)
            self._tell("exporting", 1, 1)
        with OnnxEngine.from_pretrained(
            folder, threads=self._threads, provider="cpu", cache_bytes=0
        ) as engine:
            found = self._asked("ONNX, fp32", engine)
        return _link(what, base, "fp32", FP32.transformers, reference, found)

    def _transformers(self, folder: Path, dtype: torch.dtype) -> Answers:
        """Our prompts through transformers' own model class, one at a time."""
        return on_compute_thread(lambda: self._through_transformers(folder, dtype))

    def _through_transformers(self, folder: Path, dtype: torch.dtype) -> Answers:
        from transformers import AutoModelForCausalLM

        what = f"transformers, {'fp32' if dtype == torch.float32 else 'bf16'}"
        card, renderer = self._exact.card, self._exact.renderer
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        found: Answers = []
        with threads(self._threads), torch.inference_mode():
            for number, ask in enumerate(self.asks):
                self._tell(what, number, len(self.asks))
                prompts = renderer.render(ask.state, ask.questions)
                for (name, question), prompt in zip(ask.questions.items(), prompts, strict=True):
                    ids = torch.tensor([prompt.ids])  # [1, T]
                    logits = model(ids, use_cache=False, logits_to_keep=1).logits[0, -1]
                    z = logits[list(prompt.labels.ids)].double().numpy()
                    size = len(question.options)
                    prior = card.prior_for(question.type, name, size)
                    found.append(
                        probabilities(z, prior, card.temperature_for(question.type, name, size))
                    )
        self._tell(what, len(self.asks), len(self.asks))
        return found

    def document(self, links: Sequence[Link]) -> dict[str, Any]:
        """JSON values."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "adapter": self.adapter.name,
            "digests": {"weights": self._exact.weights, "adapter": self._exact.adapter_digest},
            "items": len(self.asks),
            "questions": sum(len(ask.questions) for ask in self.asks),
            "requests": requests_digest(self.asks),
            "links": [asdict(link) for link in links],
            "ok": passed(links),
        }


def passed(links: Iterable[Link]) -> bool:
    """Whether everything that ran and is judged answers alike."""
    return all(link.ok is not False for link in links)


def table(document: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = [
        f"{document['questions']} questions about {document['items']} states; largest |Δp| over "
        "all options, and the share of equal answers.",
        "",
        "| answered by | against | precision | max Δp | bound | same answer | verdict |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for link in document["links"]:
        verdict = {None: link["note"] or "told", True: "equal", False: "DIFFERS"}[link["ok"]]
        shown = ["–" if link[key] is None else f"{link[key]:.2g}" for key in ("max_dp", "bound")]
        same = "–" if link["same"] is None else f"{link['same']:.1%}"
        cells = [link["what"], link["against"], link["precision"], *shown, same, verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _link(
    what: str, against: str, precision: str, bound: float | None, a: Answers, b: Answers
) -> Link:
    if len(a) != len(b):
        raise NumericsError(f"{what} gave {len(b)} answers, and {against} gave {len(a)}.")
    largest = _largest(a, b)
    if not math.isfinite(largest):
        raise NumericsError(f"{what} ({precision}) gives probabilities that aren't numbers.")
    same = float(np.mean([p.argmax() == q.argmax() for p, q in zip(a, b, strict=True)]))
    ok = None if bound is None else largest <= bound
    return Link(what, against, precision, bound, largest, same, ok)


def _largest(a: Answers, b: Answers) -> float:
    return float(np.max([np.abs(p - q).max() for p, q in zip(a, b, strict=True)]))


def _distribution(answer: Answer) -> Floats:
    if isinstance(answer, NoulAnswer):
        return np.array([answer.noul, 1.0 - answer.noul])
    return np.array(list(answer.probabilities.values()), np.float64)
