"""L2: our backbone and the whole head, one pass a question."""

from __future__ import annotations

import time

import torch

from readoff.bench.records import Ask, Given, Run
from readoff.bench.rungs.rung import Rung, card_of, read
from readoff.bench.rungs.work import separate
from readoff.engine.calibration import probabilities
from readoff.engine.forest import Forest
from readoff.engine.prompt import Prompt
from readoff.kernels.pointwise import rms_norm


class WholeHead(Rung):
    """Every row of the head is multiplied at the last token, then the labels are gathered."""

    name = "L2"
    title = "readoff, whole head"
    kind = "readout"

    def answer(self, ask: Ask) -> Run:
        """One pass a question."""
        engine = self.engine
        given: dict[str, Given] = {}
        prompts = []
        start = time.perf_counter()
        with self.computing():
            for name, question in ask.questions.items():
                [prompt] = engine.renderer.render(ask.state, {name: question})
                logits = self.logits(prompt)
                labels = logits[list(prompt.labels.ids)].double().cpu().numpy()
                prior, temperature = card_of(engine, name, question)
                given[name] = read(question, probabilities(labels, prior, temperature).tolist())
                prompts.append(prompt)
        seconds = time.perf_counter() - start
        work = separate(prompts, engine.backbone.config.vocab_size)
        self.work += work
        return Run(given, seconds, work.tokens, 0)

    def logits(self, prompt: Prompt) -> torch.Tensor:
        """The last token's logits over the whole vocabulary, [vocab]."""
        forest = Forest()
        forest.read(forest.add([piece.ids for piece in prompt.pieces]), prompt.labels.ids)
        backbone = self.engine.backbone
        batch = forest.batch().to(self.engine.device)
        norm = (backbone.norm, backbone.config.rms_norm_eps, backbone.traits.plus_one)
        hidden = rms_norm(backbone(batch), *norm)  # [1, H]
        return torch.nn.functional.linear(hidden, backbone.head)[0].float()
