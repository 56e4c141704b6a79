"""How fast one forward pass is: against transformers, and one tree against separate passes.

    python -m readoff.bench.forward --model seeded    the shape of Qwen3.5-0.8B, seeded weights
    python -m readoff.bench.forward --model demo      Qwen2.5-Coder-0.5B, real weights

Both contenders run in turn in one run; transformers in its own process. Nothing is timed before
the numbers have been compared: a red gate ends the run with status 1 and no speed. The last line
of stdout is one JSON document.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import torch
import typer

from readoff.bench.seeded import QWEN35_08B, SeededCheckpoint
from readoff.bench.timing import alternate, ratio, timed
from readoff.bench.transformers_process import TransformersProcess
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import ReadoffError
from readoff.engine.forest import Forest
from readoff.engine.runtime import keep_heap
from readoff.engine.source import resolve

STATE, QUESTIONS, QUESTION = 400, 8, 40
GATE_TOKENS = (64, 100, 128, 200)
GATE = 1.25
"""Our bf16 may be this many times as far from fp32 as transformers' bf16 (root mean square)."""
SHARING_GATE = 1.5
"""One pass over the tree may be this many times as far from separate passes as bf16 from fp32."""


@dataclass(frozen=True)
class Row:
    """One comparison: `slow` over `fast` is the speed-up."""

    workload: str
    fast: str
    fast_ms: float
    slow: str
    slow_ms: float
    speedup: float
    bound: float | None = None


class Bench:
    """One model, both ways, and the comparisons between them."""

    def __init__(self, source: str, repeats: int) -> None:
        keep_heap()
        self.source, self.repeats = source, repeats
        seeded = source == "seeded"
        self.checkpoint: Checkpoint = (
            SeededCheckpoint(QWEN35_08B) if seeded else resolve(source, progress=None)
        )
        self.backbone = self._load(torch.bfloat16)
        self.generator = torch.Generator().manual_seed(0)

    def _load(self, dtype: torch.dtype) -> Backbone:
        config = self.checkpoint.config
        return Backbone.load(config, self.checkpoint, dtype, torch.device("cpu"), pack=True)

    def ids(self, length: int) -> tuple[int, ...]:
        """Random token ids."""
        high = min(self.checkpoint.config.vocab_size, 100_000)
        return tuple(torch.randint(0, high, (length,), generator=self.generator).tolist())

    def run(self, batch: Batch) -> torch.Tensor:
        """One pass and its readout."""
        with torch.inference_mode():
            return self.backbone.readout(self.backbone(batch), batch).logits

    def gate(self, theirs: TransformersProcess) -> dict[str, float]:
        """Distances of both from fp32; raises ReadoffError where ours is too far."""
        texts = [self.ids(length) for length in GATE_TOKENS]
        tree = [[texts[1], self.ids(10 * n)] for n in range(1, 6)]
        exact_model = self._load(torch.float32)
        vocabulary = range(self.checkpoint.config.vocab_size)
        batches = [one(ids, vocabulary) for ids in texts]
        trees = chains(tree)
        with torch.inference_mode():
            exact = torch.stack([exact_model.readout(exact_model(b), b).logits for b in batches])
            exact_tree = exact_model.readout(exact_model(trees), trees).logits
        del exact_model
        ours = rms(torch.stack([self.run(batch) for batch in batches]), exact)
        other = rms(torch.stack([theirs.logits(ids) for ids in texts]), exact)
        together = self.run(trees)
        alone = torch.cat([self.run(chains([chain])) for chain in tree])
        apart, rounding = rms(together, alone), rms(together, exact_tree)
        found = {"ours": ours, "transformers": other, "tree": apart, "tree_rounding": rounding}
        if not ours <= GATE * other or not apart <= SHARING_GATE * rounding:
            raise ReadoffError(f"Red gate, no speed is reported: distances {found}")
        return found

    def against_transformers(self, theirs: TransformersProcess, length: int) -> list[Row]:
        """A state and one question, `length` tokens together."""
        ids = self.ids(length)
        batch = chains([[ids[:-QUESTION], ids[-QUESTION:]]])
        times = alternate(
            {
                "readoff": lambda: timed(lambda: self.run(batch)),
                "transformers, last logits": lambda: theirs.seconds(ids),
                "transformers, plain": lambda: theirs.seconds(ids, whole_head=True),
            },
            self.repeats,
        )
        ours = times.pop("readoff")
        return [
            Row(
                f"{length} tokens",
                "readoff",
                ours.median * 1e3,
                name,
                other.median * 1e3,
                ratio(other, ours),
            )
            for name, other in times.items()
        ]

    def sharing(self) -> Row:
        """Eight questions on one state: one pass against eight."""
        state = self.ids(STATE)
        asked = [[state, self.ids(QUESTION)] for _ in range(QUESTIONS)]
        tree, apart = chains(asked), [chains([chain]) for chain in asked]
        times = alternate(
            {
                "one": lambda: timed(lambda: self.run(tree)),
                "eight": lambda: timed(lambda: [self.run(batch) for batch in apart]),
            },
            self.repeats,
        )
        bound = QUESTIONS * (STATE + QUESTION) / (STATE + QUESTIONS * QUESTION)
        return Row(
            f"{STATE} + {QUESTIONS} x {QUESTION} tokens",
            "one pass",
            times["one"].median * 1e3,
            "eight passes",
            times["eight"].median * 1e3,
            ratio(times["eight"], times["one"]),
            bound,
        )


def one(ids: tuple[int, ...], labels: range = range(32, 40)) -> Batch:
    """A batch of one segment, read at its end."""
    forest = Forest()
    forest.read(forest.add([ids]), labels)
    return forest.batch()


def chains(pieces: list[list[tuple[int, ...]]]) -> Batch:
    """A batch of chains of pieces, each read at its end over eight labels."""
    forest = Forest()
    for chain in pieces:
        forest.read(forest.add(chain), range(32, 40))
    return forest.batch()


def rms(a: torch.Tensor, b: torch.Tensor) -> float:
    """Root mean square difference."""
    return float((a.float() - b.float()).square().mean().sqrt())


def main(
    model: Annotated[Literal["seeded", "demo"], typer.Option(help="Which model.")] = "demo",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 7,
) -> None:
    """Compare, time, print a table; the last line is JSON."""
    bench = Bench(model, repeats)
    with TransformersProcess(model, torch.bfloat16) as theirs:
        try:
            distances = bench.gate(theirs)
        except ReadoffError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from error
        rows = [row for length in (128, 512) for row in bench.against_transformers(theirs, length)]
    rows.append(bench.sharing())
    for row in rows:
        bound = f"  (token bound {row.bound:.1f})" if row.bound else ""
        typer.echo(
            f"{row.workload:<22} {row.fast} {row.fast_ms:8.0f} ms   {row.slow} "
            f"{row.slow_ms:8.0f} ms   {row.speedup:.2f}x{bound}"
        )
    document: dict[str, Any] = {
        "model": model,
        "dtype": "bfloat16",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "repeats": repeats,
        "gate": distances,
        "rows": [asdict(row) for row in rows],
    }
    typer.echo(json.dumps(document))


if __name__ == "__main__":
    typer.run(main)
