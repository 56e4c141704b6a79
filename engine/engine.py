"""`Engine`: a state and typed questions in, one forward pass, typed and calibrated answers out."""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from readoff.engine.asking import Asking
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.calls import Calls
from readoff.engine.card import Card
from readoff.engine.checkpoint import HeadChoice
from readoff.engine.compute import on_compute_thread
from readoff.engine.host import check_threads
from readoff.engine.loading import find_card, load_backbone, load_renderer
from readoff.engine.policy import Policy
from readoff.engine.prompt import Renderer
from readoff.engine.runtime import choose_device, choose_dtype, explain_kernels, keep_heap
from readoff.engine.serving import Serving
from readoff.engine.source import DEMO, resolve
from readoff.engine.worker import Progress, Worker
from readoff.kernels.dispatch import Site, forced
from readoff.kernels.linear import Kind


class Engine(Calls):
    """A loaded decision model.

    `decide` answers any number of typed questions about one state in one forward pass;
    `decide_many` does so for many states; `submit` and `adecide` don't block. All may be called
    from many threads and tasks: one thread of the engine's own runs the passes, each for as many
    callers as fit, and what their prompts have in common, with one another or with earlier ones,
    is computed once.

    An engine is also a context manager; `close` ends its thread and frees what it cached.
    """

    _worker: Worker

    def __init__(
        self,
        backbone: Backbone,
        renderer: Renderer,
        card: Card | None = None,
        *,
        name: str = "model",
        thread_count: int | None = None,
        serving: Serving | None = None,
    ) -> None:
        check_threads(thread_count)
        self.backbone = backbone
        self.renderer = renderer
        self.card = card or Card.default()
        self.name = name
        self.serving = serving or Serving()
        self._threads = thread_count
        if self.device.type == "cpu":
            keep_heap()
        explain_kernels(Site(self.device.type, self.dtype), backbone.layout)  # or an error now
        narrow = self.dtype != torch.float32
        hint = f', or {self.dtype} too narrow for them; try dtype="fp32"' * narrow
        self._asking = Asking(renderer, self.card, self.context_length, name, hint, forced)
        self._policy = Policy(self.card)
        template, tokenizer = renderer.template, renderer.tokenizer
        self._worker = Worker(
            backbone,
            self.serving,
            thread_count=thread_count,
            name=name,
            made_of=lambda: {"template": template.digest, "tokenizer": tokenizer.digest},
        )
        weakref.finalize(self, self._worker.close, wait=False).atexit = False

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path = DEMO,
        adapter: str | Path | None = None,
        card: str | Path | Card | None = None,
        revision: str | None = None,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "auto",
        threads: int | None = None,
        *,
        head: HeadChoice = "auto",
        quantize: Kind | None = None,
        progress: bool | None = None,
        cache_bytes: int | None = None,
        max_queue: int = 1024,
        max_wait_ms: float = 0.0,
        step_tokens: int | None = None,
        snapshot_every: int | None = None,
        deterministic: bool = False,
    ) -> Engine:
        """Load a model.

        Args:
            source: "demo" (the demonstration model, downloaded on first use), a Hugging Face
                folder, a hub id, a GGUF file, or a LoRA adapter's folder or hub id.
            adapter: a LoRA adapter (folder or hub id) to merge into `source`.
            card: a decision card, or its path; by default the one beside the weights.
            revision: the hub revision of `source`.
            device: "auto", "cpu" or "cuda".
            dtype: "auto", "fp32", "bf16" or "fp16".
            threads: CPU threads during a pass, given back after it; None leaves the process's
                setting alone. The setting is the process's: threads of yours that use torch for
                the first time during a pass start with it.
            head: for GGUF files with two output matrices: "auto", "tie" or "untie".
            quantize: "int8" or "fp8" keeps most linear layers in 8 bits and multiplies them so:
                faster where the device has such products, and less exact (docs/numerics.md).
            progress: show a bar for downloads; None shows it on a terminal.
            cache_bytes, max_queue, max_wait_ms, step_tokens, snapshot_every, deterministic: see
                `Serving`.

        Raises:
            ReadoffError: one of its family, naming what is wrong and what to do.
        """
        check_threads(threads)
        serving = Serving(
            cache_bytes, max_queue, max_wait_ms, step_tokens, snapshot_every, deterministic
        )
        where = choose_device(device)
        kind = choose_dtype(dtype, where)
        checkpoint = resolve(source, adapter, revision, head=head, progress=progress)
        found = card if isinstance(card, Card) else find_card(checkpoint, card)
        renderer = load_renderer(checkpoint, found)
        load = partial(load_backbone, checkpoint, kind, where, quantize)
        backbone = on_compute_thread(load) if where.type == "cpu" else load()
        name = str(source) if str(source) == DEMO else Path(source).name
        return cls(backbone, renderer, found, name=name, thread_count=threads, serving=serving)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.backbone.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are stored and multiplied in."""
        return self.backbone.embedding.dtype

    @property
    def context_length(self) -> int:
        """The longest prompt, in tokens, that the model takes."""
        return self.backbone.config.max_position_embeddings

    def warmup(self, progress: Progress = lambda done, of, capture: None) -> None:
        """Run small passes, so that the first real one doesn't pay for first-time setup, and keep
        what is in memory by now out of Python's later garbage collections (`gc.freeze`).

        On a GPU the forward pass is captured first, in a minute at most; `progress(done, of,
        capture)` is called after each of its sizes.
        """
        self._worker.warmup(progress)
        self._rehearse()

    def with_serving(self, serving: Serving) -> Engine:
        """Another engine over the same weights, with a cache and a thread of its own."""
        return Engine(
            self.backbone,
            self.renderer,
            self.card,
            name=self.name,
            thread_count=self._threads,
            serving=serving,
        )

    def stats(self) -> dict[str, Any]:
        """Counts since the engine was made, and what is in use now, as JSON values."""
        return self._worker.stats()

    def clear_cache(self) -> None:
        """Forget every cached prefix."""
        self._worker.clear()

    def save_prefixes(self, path: str | Path) -> int:
        """Write what is cached to a file, so that a later engine can start warm. Returns the
        number of tokens. Raises ReadoffError where it can't be written."""
        return self._worker.save(Path(path))

    def load_prefixes(self, path: str | Path) -> int:
        """Read what `save_prefixes` wrote, as far as it fits. Returns the number of tokens.

        Raises PrefixFileError where the file is damaged or from another model, dtype or template;
        then nothing is changed.
        """
        return self._worker.load(Path(path))

    def close(self) -> None:
        """End waiting requests with ClosedError, let the running pass finish, free the cache."""
        self._worker.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def info(self) -> dict[str, Any]:
        """What is loaded and how it runs, as JSON values."""
        config = self.backbone.config
        template, captured = self.renderer.template, self._worker.captured
        return {
            "model": self.name,
            "architecture": config.architecture,
            "layers": config.num_layers,
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "context_length": self.context_length,
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": self._threads or torch.get_num_threads(),
            "deterministic": self.serving.deterministic,
            "cache_bytes": self._worker.cache_bytes,
            "template": {
                "id": template.id,
                "order": template.order,
                "verified": template.verified,
                "digest": template.digest,
            },
            "kernels": self._worker.explain(),
            **({"captured": captured.explain()} if captured is not None else {}),
        }
