"""L2t: the readout as plain transformers gives it, one forward a question."""

from __future__ import annotations

import time

import torch

from readoff.bench.records import Ask, Given, Run, Workload
from readoff.bench.rungs.opponent import Opponent
from readoff.bench.rungs.rung import Rung, card_of, read
from readoff.bench.rungs.work import separate
from readoff.engine.calibration import probabilities
from readoff.engine.engine import Engine


class FirstToken(Rung):
    """The logits after the last token of the very prompts that readoff uses; labels on top.

    `logits_to_keep=1`: the whole head, once. What readoff adds begins above this rung.
    """

    name = "L2t"
    title = "first-token readout, transformers"
    kind = "readout"

    def __init__(self, opponent: Opponent) -> None:
        super().__init__()
        self.opponent = opponent

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Loads the transformers model."""
        super().prepare(engine, workload)
        self.opponent.model(self.name)

    def answer(self, ask: Ask) -> Run:
        """One forward a question."""
        engine, model = self.engine, self.opponent.model(self.name)
        given: dict[str, Given] = {}
        prompts = []
        start = time.perf_counter()
        with self.computing():
            for name, question in ask.questions.items():
                [prompt] = engine.renderer.render(ask.state, {name: question})
                ids = torch.tensor([prompt.ids], device=model.device)
                logits = model(ids, use_cache=False, logits_to_keep=1).logits[0, -1]
                labels = logits[list(prompt.labels.ids)].double().cpu().numpy()
                prior, temperature = card_of(engine, name, question)
                given[name] = read(question, probabilities(labels, prior, temperature).tolist())
                prompts.append(prompt)
        seconds = time.perf_counter() - start
        work = separate(prompts, engine.backbone.config.vocab_size)
        self.work += work
        return Run(given, seconds, work.tokens, 0)
