"""`OnnxEngine`: decides with a deployment pack on ONNX Runtime, where torch isn't installed.

Prompts, labels, card, calibration, debiasing, gate, escalation and scheduling are those of
`readoff.engine`, the same modules; what differs is what runs the model. No torch, transformers or
triton is imported by anything here.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from readoff.engine.calls import Calls
from readoff.engine.card import Card
from readoff.engine.errors import CardError, QuestionError
from readoff.engine.host import check_threads
from readoff.engine.policy import Policy
from readoff.engine.prompt import Renderer
from readoff.engine.serving import Serving
from readoff.export.onnx_worker import OnnxWorker
from readoff.export.pack import Pack, read_pack
from readoff.export.pack_asking import PackAsking
from readoff.export.provider import Provider, choose_provider, loaded_provider
from readoff.export.session import GraphSession, load_runtime

_DTYPES = {"fp32": "float32", "fp16": "float16"}


class OnnxEngine(Calls):
    """A loaded pack. It is asked like `Engine`, and answers alike.

    One thread of its own runs the graph. A state is run once and kept by its token ids, its
    questions, of all callers that ask about it, run together from its past; equal questions run
    once. Long states run in parts, between which requests of a higher priority go first.

    It doesn't measure the legal mass, and keeps no files of prefixes.
    """

    _worker: OnnxWorker

    def __init__(
        self,
        pack: Pack,
        session: GraphSession,
        renderer: Renderer,
        card: Card,
        provider: Provider,
        *,
        thread_count: int | None = None,
        serving: Serving | None = None,
    ) -> None:
        self.pack, self.renderer, self.card, self.provider = pack, renderer, card, provider
        self.name, self.serving = pack.name, serving or Serving()
        self._threads = thread_count
        self._asking = PackAsking(renderer, card, pack)
        self._policy = Policy(card)
        self._worker = OnnxWorker(session, self.serving, device=provider.device, name=self.name)
        weakref.finalize(self, self._worker.close, wait=False).atexit = False

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        card: str | Path | Card | None = None,
        threads: int | None = None,
        provider: str = "auto",
        *,
        cache_bytes: int | None = None,
        max_queue: int = 1024,
        max_wait_ms: float = 0.0,
        step_tokens: int | None = None,
        verify: bool = False,
    ) -> OnnxEngine:
        """Load a pack.

        Args:
            source: the pack's folder.
            card: a decision card, or its path; by default the pack's own.
            threads: CPU threads of a run; None leaves it to ONNX Runtime.
            provider: "auto", "cpu" or "cuda"; `info()["provider"]` says what was taken, and why.
            cache_bytes, max_queue, max_wait_ms: see `Serving`.
            step_tokens: new tokens of one run, about; None is 512.
            verify: compare every byte of the weights with what the pack records, not only some.

        Raises:
            PackError: the folder is no pack, or a damaged or newer one; onnxruntime is missing or
                too old; the provider isn't there.
            CardError: the card belongs to another model.
            ReadoffError: any other of its family, naming what is wrong and what to do.
        """
        check_threads(threads)
        serving = Serving(cache_bytes, max_queue, max_wait_ms, step_tokens)
        pack = read_pack(source, verify=verify)
        chosen = choose_provider(provider, pack)
        found = find_card(pack, card)
        with ThreadPoolExecutor(1) as pool:  # reading the tokenizer takes a third of a second
            loading = pool.submit(
                Renderer.load, pack.folder, found, pack.config.vocab_size, pack.digests.tokenizer
            )
            session = GraphSession(
                pack.graph, pack.config, pack.options, threads=threads, providers=chosen.names
            )
            renderer = loading.result()
        chosen = loaded_provider(chosen, session.session.get_providers()[0], provider)
        return cls(pack, session, renderer, found, chosen, thread_count=threads, serving=serving)

    @property
    def context_length(self) -> int:
        """The longest prompt, in tokens, that the model takes."""
        return self.pack.config.max_position_embeddings

    def warmup(self, progress: Callable[..., None] | None = None) -> None:
        """Run small requests, so that the first real one doesn't pay for first-time setup, and keep
        what is in memory by now out of Python's later garbage collections (`gc.freeze`).

        `progress` is there because `Engine.warmup` has it; there is nothing to tell.
        """
        try:
            self._rehearse()
        except QuestionError:  # other labels were baked in
            if self._worker.cache is not None:
                self.prefill("Nothing has happened yet.")
            gc.collect()
            gc.freeze()

    def stats(self) -> dict[str, Any]:
        """Counts since the engine was made, and what is in use now, as JSON values."""
        return self._worker.stats()

    def clear_cache(self) -> None:
        """Forget every cached state."""
        self._worker.clear()

    def close(self) -> None:
        """End waiting requests with ClosedError, let the run that is under way finish, free what
        is cached."""
        self._worker.close()

    def __enter__(self) -> OnnxEngine:
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
        config, options, template = self.pack.config, self.pack.options, self.renderer.template
        labels = options.labels
        return {
            "model": self.name,
            "architecture": config.architecture,
            "layers": config.num_layers,
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "context_length": self.context_length,
            "device": self.provider.device,
            "dtype": _DTYPES.get(options.precision, options.precision),
            "threads": self._threads,
            "deterministic": False,
            "cache_bytes": self._worker.cache_bytes,
            "template": {
                "id": template.id,
                "order": template.order,
                "verified": template.verified,
                "digest": template.digest,
            },
            "kernels": {"graph": dict(self.provider.reasons)},
            "provider": {"name": self.provider.name, "reasons": dict(self.provider.reasons)},
            "pack": {
                "folder": str(self.pack.folder),
                "readoff": self.pack.readoff,
                "flavour": options.flavour,
                "precision": options.precision,
                "labels": None if labels is None else len(labels.ids),
                "onnxruntime": str(load_runtime().__version__),
            },
        }


def find_card(pack: Pack, card: str | Path | Card | None = None) -> Card:
    """The card given, by itself or by its path, else the pack's own, checked against the digests.

    Raises CardError, also for a card by its path that was fitted to the weights without the adapter
    that the pack was exported with.
    """
    if isinstance(card, Card):
        found = card
    elif card is None:
        found = pack.card
    else:
        if not Path(card).exists():
            raise CardError(f"There is no decision card at {card}.")
        found = Card.load(card)
        if pack.digests.adapter and found.digests.weights and not found.digests.adapter:
            raise CardError(
                f"The card at {card} was fitted to weights without an adapter, and the pack was "
                "exported with one. Leave the card out, or fit one with both."
            )
    found.check(weights=pack.digests.weights, adapter=pack.digests.adapter)
    return found
