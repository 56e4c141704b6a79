"""`train`: from a model, rows and settings to an adapter's folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from readoff.bench.memory import PeakMemory
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.card import Card
from readoff.engine.checkpoint import Checkpoint, digest_files
from readoff.engine.compute import on_compute_thread
from readoff.engine.config import ModelConfig
from readoff.engine.host import check_threads
from readoff.engine.loading import check_quantisation, find_card, load_renderer
from readoff.engine.lora import CONFIG, WEIGHTS, AdaptedCheckpoint
from readoff.engine.prompt import Renderer
from readoff.engine.runtime import choose_dtype, keep_heap, threads
from readoff.engine.source import DEMO, DEMO_BARE, DEMO_BASE, bare, resolve
from readoff.learn.adapter import adapter_config, begin_from, save_config, save_labels
from readoff.learn.dataset import Dataset, load_dataset
from readoff.learn.document import document
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.examples import Example
from readoff.learn.folder import finish, go_on, prepared, replace
from readoff.learn.lora import Lora
from readoff.learn.pace import Tick
from readoff.learn.passes import Lines, check_lengths
from readoff.learn.plan import plan
from readoff.learn.settings import Settings
from readoff.learn.trainer import Ending, Trainer
from readoff.learn.validation import Validator, sample


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is trained: a model (see `resolve`), and how it is run. "demo" means the model without
    the adapter that comes with it.

    `name` is what the adapter says its base is; by default the model's own name. `init` is an
    earlier adapter (folder or hub id) to go on from: its matrices and labels, nothing else of it.
    """

    model: str = DEMO
    revision: str | None = None
    card: Path | None = None
    dtype: str = "auto"
    thread_count: int | None = None
    name: str | None = None
    init: str | None = None

    @property
    def base(self) -> str:
        """base_model_name_or_path: a hub id as it is, a folder or file by its full path."""
        if self.name is not None:
            return self.name
        if self.model in (DEMO, DEMO_BARE):
            return DEMO_BASE
        path = Path(self.model).expanduser()
        return str(path.resolve()) if path.exists() else self.model

    @property
    def base_revision(self) -> str | None:
        """The revision to open `base` at: of a hub id, where it is the model that was trained."""
        on_hub = self.base == self.model and not Path(self.model).expanduser().exists()
        return self.revision if on_hub else None


@dataclass(frozen=True)
class Trained:
    """How a training ended, and what training.json says of it. `notes` are remarks for the user."""

    ending: Ending
    document: dict[str, Any]
    notes: tuple[str, ...]


def train(
    source: Source,
    data: Sequence[Path],
    out: Path,
    settings: Settings | None = None,
    *,
    resume: bool = False,
    force: bool = False,
    stop: threading.Event | None = None,
    tell: Callable[[Tick], None] = lambda tick: None,
    note: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Train a LoRA adapter for the decisions in `data` and write it to the folder `out`.

    `resume` goes on from the state of an unfinished training there, `force` replaces what is
    there. `stop`, once set, ends it after the pass that is running, state saved. Until the first
    step is done nothing is written and nothing replaced: what ends it before leaves `out` as it
    was.

    Raises ReadoffError: ExampleError for the rows, TrainingError for folder and state,
    NumericsError where the loss isn't finite, and whatever the model's loading has to say.
    """
    settings = settings or Settings()
    check_threads(source.thread_count)
    dataset = load_dataset(data, valid_share=settings.valid_share, seed=settings.seed)
    checkpoint = resolve(bare(source.model), revision=source.revision)
    begun = None if source.init is None else _begun(source)
    card = find_card(begun or checkpoint, source.card)
    renderer = load_renderer(checkpoint, card)
    _check_rank(settings.rank, checkpoint.config)
    dataset = _within_limit(dataset, renderer, settings, checkpoint.config.max_position_embeddings)
    for text in dataset.notes:
        note(text)
    opened = _Opened(checkpoint, begun, card, renderer, dataset)
    read = [*(begun or checkpoint).folders, *data]
    with prepared(out, read, resume=resume, force=force):
        work = partial(_train, source, opened, out, settings, resume, stop, tell)
        return on_compute_thread(work)


@dataclass(frozen=True)
class _Opened:
    """What is known before the weights are loaded. `begun`: the base with an adapter to go on
    from."""

    checkpoint: Checkpoint
    begun: AdaptedCheckpoint | None
    card: Card
    renderer: Renderer
    dataset: Dataset


def _train(
    source: Source,
    opened: _Opened,
    out: Path,
    settings: Settings,
    resume: bool,
    stop: threading.Event | None,
    tell: Callable[[Tick], None],
) -> Trained:
    device = torch.device("cpu")
    dtype = choose_dtype(source.dtype, device)
    checkpoint, begun, dataset = opened.checkpoint, opened.begun, opened.dataset
    if settings.quantize is not None:
        check_quantisation(settings.quantize, dtype, device)
    with threads(source.thread_count), PeakMemory(0.05) as memory:
        keep_heap()
        backbone = Backbone.load(checkpoint.config, checkpoint, dtype, device)
        low_rank = (settings.targets, settings.rank, settings.alpha, settings.seed)
        lora = Lora(backbone, *low_rank, settings.quantize)
        if begun is not None:
            begin_from(begun.folder, lora)
        facts = {
            **settings.to_json(),
            "init": None if begun is None else begun.adapter_digest(),
            "data": dataset.digest,
            "base": checkpoint.digest(),
            "config": _digest_of(checkpoint.config),
            "tokenizer": opened.renderer.tokenizer.digest,
            "template": opened.renderer.template.digest,
            "labels": opened.card.labels.to_json(),
            "dtype": str(dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
        }
        trainer = _trainer(
            backbone, lora, dataset, opened.renderer, out, settings, facts, stop, tell
        )
        config = adapter_config(lora, source.base, source.base_revision)

        def describe() -> None:
            save_config(out, config)
            save_labels(out, opened.card)

        def begin() -> None:
            replace(out)
            describe()

        if resume:
            trainer.resume()
            go_on(out, trainer.progress.best_step)
            describe()
        else:
            trainer.begin = begin
        ending = trainer.run()
    at = trainer.progress
    adapter = digest_files([out / CONFIG, out / WEIGHTS]) if at.best_step else None
    made = document(at, ending, dataset, facts, lora, source.base, memory.peak, adapter)
    return Trained(ending, made, finish(out, made, ending) if at.step else ())


def _begun(source: Source) -> AdaptedCheckpoint:
    """The base with the adapter to go on from, which fits it and was trained on it."""
    checkpoint = resolve(bare(source.model), source.init, source.revision)
    assert isinstance(checkpoint, AdaptedCheckpoint)
    return checkpoint


def _trainer(
    backbone: Backbone,
    lora: Lora,
    dataset: Dataset,
    renderer: Renderer,
    out: Path,
    settings: Settings,
    facts: dict[str, Any],
    stop: threading.Event | None,
    tell: Callable[[Tick], None],
) -> Trainer:
    validator = Validator(
        backbone,
        lora,
        sample(dataset.valid, settings.eval_rows, settings.seed),
        Lines(renderer),
        micro_tokens=settings.micro_tokens,
        stored=settings.stored,
    )
    steps = plan(
        dataset.train,
        batch=settings.batch,
        epochs=settings.epochs,
        seed=settings.seed,
        max_steps=settings.max_steps,
    )
    permute = settings.seed if settings.permute else None
    lines = Lines(renderer, hard=settings.hard, permute=permute)
    return Trainer(
        backbone,
        lora,
        dataset.train,
        steps,
        lines,
        validator,
        settings,
        out,
        facts,
        stop=stop,
        tell=tell,
    )


def _within_limit(
    dataset: Dataset, renderer: Renderer, settings: Settings, context: int
) -> Dataset:
    """The rows whose prompts are short enough for the settings and for the model, which takes
    `context` tokens; ExampleError for the first one that isn't, unless they are to be skipped."""
    parts: list[tuple[Example, ...]] = []
    notes = list(dataset.notes)
    lines = Lines(renderer)
    limit = min(settings.max_tokens, context)
    by_model = context < settings.max_tokens
    what = "as the model takes" if by_model else "as --max-tokens allows"
    for name, rows in (("train", dataset.train), ("valid", dataset.valid)):
        kept, long = check_lengths(rows, lines, limit, skip=settings.skip_long or by_model)
        parts.append(tuple(kept))
        if long and not settings.skip_long:
            raise ExampleError(
                f"{long[0]}: the prompt has more than {limit} tokens, as many {what} "
                "(max_position_embeddings). Shorten the state, or leave such rows out with "
                "--skip-long; nothing is ever cut off."
            )
        if long:
            some = f"{', '.join(long[:3])}{', …' * (len(long) > 3)}"
            notes.append(
                f"{len(long)} of {len(rows)} rows ({name}) have a prompt of more than "
                f"{limit} tokens, as many {what}, and were skipped: {some}"
            )
    return dataset.replaced(parts[0], parts[1], tuple(notes))


def _check_rank(rank: int, config: ModelConfig) -> None:
    """TrainingError where no matrix of the model has such a rank, and no memory might either."""
    if rank > config.hidden_size:
        raise TrainingError(
            f"A rank of {rank} is more than this model's matrices have: {config.hidden_size} at "
            "most. 16 is usual."
        )


def _digest_of(config: ModelConfig) -> str:
    """sha256 of what the weights alone don't say about how the model computes."""
    return hashlib.sha256(json.dumps(asdict(config), sort_keys=True).encode()).hexdigest()
