"""`Subject`: a model that is evaluated. It is identified at once, and loaded when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from readoff.engine.card import Card
from readoff.engine.engine import Engine
from readoff.engine.loading import find_card, load_renderer
from readoff.engine.prompt import Renderer
from readoff.engine.runtime import choose_device, choose_dtype
from readoff.engine.source import bare, resolve
from readoff.learn.evaluate.errors import EvaluationError

CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class Options:
    """How models are run."""

    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None


class Subject:
    """A base, or a base with an adapter. `key` names everything that its logits depend on."""

    def __init__(self, model: str, adapter: Path | None, options: Options) -> None:
        """Raises ReadoffError where model and adapter don't fit or aren't there."""
        self.model, self.adapter, self.options = bare(model), adapter, options
        checkpoint = resolve(self.model, adapter)
        folders = [folder.resolve() for folder in checkpoint.adapter_folders]
        if adapter is None and folders:
            names = ", ".join(folder.name for folder in folders)
            raise EvaluationError(
                f"{model} comes with an adapter ({names}), and an evaluation compares with the "
                "model without one. Give its base."
            )
        if twice := {f for f in folders if folders.count(f) > 1}:
            raise EvaluationError(
                f"The adapter {min(twice)} is in {model} already; merged twice it is another model."
            )
        self.card: Card = find_card(checkpoint)
        self.renderer: Renderer = load_renderer(checkpoint, self.card)
        where = choose_device(options.device)
        self.weights = checkpoint.weights_digest()
        self.adapter_digest = checkpoint.adapter_digest() if adapter is not None else None
        self.dtype = str(choose_dtype(options.dtype, where)).removeprefix("torch.")
        self.key: Mapping[str, object] = {
            "weights": self.weights,
            "adapter": self.adapter_digest,
            "tokenizer": self.renderer.tokenizer.digest,
            "template": self.renderer.template.digest,
            "labels": self.card.labels.to_json(),
            "device": where.type,
            "dtype": self.dtype,
        }
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The model, loaded, with a cache for what the questions of one state share."""
        if self._engine is None:
            how = self.options
            self._engine = Engine.from_pretrained(
                self.model,
                adapter=self.adapter,
                device=how.device,
                dtype=how.dtype,
                threads=how.threads,
                cache_bytes=CACHE_BYTES,
            )
        return self._engine

    def close(self) -> None:
        """Free the weights; `engine` loads them again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
