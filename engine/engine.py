"""`Engine`: a state and typed questions in, one forward pass, typed and calibrated answers out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from readoff.engine.answers import Answer, Decision, Usage, build_answer
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Readout
from readoff.engine.card import Card
from readoff.engine.checkpoint import HeadChoice
from readoff.engine.errors import ContextError, NumericsError, QuestionError
from readoff.engine.forest import Forest
from readoff.engine.loading import find_card, load_backbone, load_renderer
from readoff.engine.prompt import Prompt, Renderer
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.runtime import (
    check_threads,
    choose_device,
    choose_dtype,
    explain_kernels,
    keep_heap,
    threads,
)
from readoff.engine.source import DEMO, resolve
from readoff.engine.text import Text
from readoff.kernels.dispatch import Site

Questions: TypeAlias = Mapping[str, Question]

MAX_PASS_TOKENS = 8192
"""`decide_many` starts another pass when the next request would go beyond this many new tokens."""


@dataclass
class _Ask:
    """One request on its way through a pass."""

    questions: Questions
    prompts: list[Prompt]
    segments: set[int] = field(default_factory=set)
    computed: int = 0


class Engine:
    """A loaded decision model.

    `decide` answers any number of typed questions about one state in one forward pass;
    `decide_many` does so for many states. Both may be called from several threads.
    """

    def __init__(
        self,
        backbone: Backbone,
        renderer: Renderer,
        card: Card | None = None,
        *,
        name: str = "model",
        thread_count: int | None = None,
    ) -> None:
        check_threads(thread_count)
        self.backbone = backbone
        self.renderer = renderer
        self.card = card or Card.default()
        self.name = name
        self._threads = thread_count
        if self.device.type == "cpu":
            keep_heap()
        explain_kernels(Site(self.device.type, self.dtype), backbone.layout)  # or an error now

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
        progress: bool | None = None,
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
            threads: CPU threads during a call, given back after it; None leaves the process's
                setting alone. The setting is the process's: threads of yours that use torch for
                the first time during a call start with it.
            head: for GGUF files with two output matrices: "auto", "tie" or "untie".
            progress: show a bar for downloads; None shows it on a terminal.

        Raises:
            ReadoffError: one of its family, naming what is wrong and what to do.
        """
        check_threads(threads)
        where = choose_device(device)
        kind = choose_dtype(dtype, where)
        checkpoint = resolve(source, adapter, revision, head=head, progress=progress)
        found = card if isinstance(card, Card) else find_card(checkpoint, card)
        renderer = load_renderer(checkpoint, found)
        backbone = load_backbone(checkpoint, kind, where)
        name = str(source) if str(source) == DEMO else Path(source).name
        return cls(backbone, renderer, found, name=name, thread_count=threads)

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

    def decide(self, state: Text, questions: Questions, *, legal_mass: bool = False) -> Decision:
        """Answer `questions` about `state` in one forward pass.

        Args:
            state: text, or a JSON object or array.
            questions: `Choice`, `Score` or `Noul` by an id of your own; the model never sees ids.
            legal_mass: also measure how much probability the full vocabulary puts on the legal
                labels (reads the whole output matrix).

        Raises:
            QuestionError: the state or a question isn't legal.
            ContextError: a prompt is longer than the model's context.
            NumericsError: the model gave numbers that aren't finite.
        """
        return self.decide_many([(state, questions)], legal_mass=legal_mass)[0]

    def decide_many(
        self, requests: Sequence[tuple[Text, Questions]], *, legal_mass: bool = False
    ) -> list[Decision]:
        """`decide` for many states, packed into few passes; beginnings they share run once.

        Nothing is computed unless every request is legal. Errors as for `decide`.
        """
        start = time.perf_counter()
        asks = [self._render(number, *request) for number, request in enumerate(requests)]
        decisions: list[Decision] = []
        for forest, group in self._passes(asks):
            answers = self._run(forest, group, legal_mass)
            latency = (time.perf_counter() - start) * 1e3
            start = time.perf_counter()
            for ask, answered in zip(group, answers, strict=True):
                total = sum(len(forest.segments[s].ids) for s in ask.segments)
                usage = Usage(total, ask.computed, total - ask.computed)
                decisions.append(Decision(answered, usage, latency, self.name))
        return decisions

    def warmup(self) -> None:
        """Run one small pass, so that the first real one doesn't pay for first-time setup."""
        questions: Questions = {
            "choice": Choice(criteria={"yes": None, "no": None}),
            "score": Score(criteria=["low", "high"]),
            "noul": Noul(),
        }
        self.decide("Nothing has happened yet.", questions, legal_mass=False)

    def info(self) -> dict[str, Any]:
        """What is loaded and how it runs, as JSON values."""
        config = self.backbone.config
        site = Site(self.device.type, self.dtype)
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
            "template": {
                "id": self.renderer.template.id,
                "order": self.renderer.template.order,
                "verified": self.renderer.template.verified,
                "digest": self.renderer.template.digest,
            },
            "kernels": explain_kernels(site, self.backbone.layout),
        }

    def _render(self, number: int, state: Text, questions: Questions) -> _Ask:
        prompts = self.renderer.render(state, questions)
        for name, prompt in zip(questions, prompts, strict=True):
            if len(prompt) > self.context_length:
                raise ContextError(
                    f"Request {number}, question {name!r}: its prompt has {len(prompt)} tokens and "
                    f"the model takes {self.context_length}. Shorten the state; nothing is ever "
                    "cut off.",
                    limit=self.context_length,
                    length=len(prompt),
                )
        if not prompts:
            raise QuestionError(f"Request {number} has no questions; ask at least one.")
        return _Ask(dict(questions), prompts)

    def _passes(self, asks: list[_Ask]) -> Iterator[tuple[Forest, list[_Ask]]]:
        """Requests grouped into forests of about `MAX_PASS_TOKENS` new tokens."""
        forest, group = Forest(), list[_Ask]()
        for ask in asks:
            size = sum(len(p) for p in {piece.ids for q in ask.prompts for piece in q.pieces})
            if group and forest.tokens + size > MAX_PASS_TOKENS:
                yield forest, group
                forest, group = Forest(), []
            self._plant(forest, ask)
            group.append(ask)
        if group:
            yield forest, group

    def _plant(self, forest: Forest, ask: _Ask) -> None:
        before = forest.tokens
        for (name, question), prompt in zip(ask.questions.items(), ask.prompts, strict=True):
            leaf = forest.add([piece.ids for piece in prompt.pieces])
            ask.segments.update(forest.path(leaf))
            options = len(question.options)
            forest.read(
                leaf,
                prompt.labels.ids,
                self.card.prior_for(question.type, name, options),
                self.card.temperature_for(question.type, name, options),
            )
        ask.computed = forest.tokens - before

    def _run(self, forest: Forest, group: list[_Ask], legal_mass: bool) -> list[dict[str, Answer]]:
        with threads(self._threads), torch.inference_mode():
            batch = forest.batch().to(self.device)
            readout = self.backbone.readout(self.backbone(batch), batch, legal_mass)
            return self._answers(group, readout)

    def _answers(self, group: list[_Ask], readout: Readout) -> list[dict[str, Answer]]:
        logits, probabilities = readout.logits.tolist(), readout.probabilities.double().tolist()
        masses = None if readout.legal_mass is None else readout.legal_mass.tolist()
        at, row = 0, 0
        results: list[dict[str, Answer]] = []
        for ask in group:
            answers: dict[str, Answer] = {}
            for name, question in ask.questions.items():
                here = slice(at, at + len(question.options))
                mass = None if masses is None else masses[row]
                try:
                    answers[name] = build_answer(question, logits[here], probabilities[here], mass)
                except NumericsError as error:
                    narrow = self.dtype != torch.float32
                    hint = f', or {self.dtype} too narrow for them; try dtype="fp32"' * narrow
                    raise NumericsError(
                        f"Question {name!r}: {error} The weights may be damaged{hint}."
                    ) from error
                at, row = here.stop, row + 1
            results.append(answers)
        return results
