"""`Trainer`: the loop. Gradients of many passes make one step; evaluations pick the best one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.errors import NumericsError
from readoff.learn.adapter import save_adapter
from readoff.learn.crew import Crew
from readoff.learn.errors import TrainingError
from readoff.learn.examples import Example
from readoff.learn.lora import Lora
from readoff.learn.loss import soft_label_losses
from readoff.learn.pace import Pace, Tick
from readoff.learn.passes import Lines, Pass, shares
from readoff.learn.plan import Step, rate
from readoff.learn.settings import Settings
from readoff.learn.state import Progress, load_state, save_state
from readoff.learn.validation import Validator

Ending: TypeAlias = Literal["finished", "patience", "time", "interrupted"]

SAVE_EVERY = 600.0
"""Seconds after which a state is saved between two evaluations."""


class _StoppedError(Exception):
    """The user interrupted; nothing has changed since the last whole step."""


@dataclass(frozen=True)
class _Added:
    """What one pass adds to the loss, the NLL and the gradients of its step."""

    loss: float
    nll: float
    gradients: tuple[torch.Tensor, ...]


class Trainer:
    """Trains the adapter in a backbone and keeps the best one in a folder.

    Raises NumericsError, naming step and rows, for a loss or a gradient that isn't finite, and
    TrainingError where a file can't be written, the adapter not be stored as is asked for, or the
    time not be enough for a step: the best adapter and the last state stay.
    """

    def __init__(
        self,
        backbone: Backbone,
        lora: Lora,
        examples: Sequence[Example],
        steps: Sequence[Step],
        lines: Lines,
        validator: Validator,
        settings: Settings,
        folder: Path,
        facts: Mapping[str, Any],
        *,
        stop: threading.Event | None = None,
        tell: Callable[[Tick], None] = lambda tick: None,
    ) -> None:
        """`facts` decide whether a saved state is this training's; `stop`, once set, interrupts."""
        self.backbone, self.lora, self.lines, self.validator = backbone, lora, lines, validator
        self.examples, self.steps, self.settings = examples, steps, settings
        self.folder, self.facts = folder, facts
        self.progress = Progress()
        limit = settings.limit_minutes
        self.pace = Pace(len(steps), None if limit is None else 60.0 * limit)
        self.begin: Callable[[], None] | None = None
        """Called once, after the state of the first whole step is written: nothing is before."""
        self._stop, self._tell = stop or threading.Event(), tell
        self._optimizer = torch.optim.AdamW(
            lora.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._saved = self.pace.elapsed
        self._crew = Crew(settings.at_once)

    def resume(self) -> None:
        """Go on from the state in the folder. Raises TrainingError as `load_state` does."""
        self.progress = load_state(self.folder, self.lora, self._optimizer, self.facts)
        self.pace.before = self.progress.seconds

    def run(self) -> Ending:
        """Train to the end of the plan, of the patience or of the time, or until interrupted; in
        the last case the state is saved."""
        try:
            with self._crew:
                return self._run()
        except _StoppedError:
            self.save()
            return "interrupted"

    def save(self) -> None:
        """Write the state once there is a step to go on from. Raises TrainingError."""
        if self.progress.step == 0:
            return
        self.progress.seconds = self._saved = self.pace.elapsed
        save_state(self.folder, self.lora, self._optimizer, self.progress, self.facts)
        if self.begin is not None:
            begin, self.begin = self.begin, None
            begin()

    def _run(self) -> Ending:
        at, settings = self.progress, self.settings
        schedule = self._schedule()
        while True:
            out_of_time = at.step > 0 and self.pace.is_up()
            last = at.step == len(self.steps) or out_of_time
            if not self._is_evaluated() and (last or at.step % settings.eval_every == 0):
                self._evaluate()
                if at.step == 0:
                    self._check_time()
                self.save()
            if at.step == len(self.steps):
                return "finished"
            if out_of_time:
                return "time"
            if 0 < settings.patience <= at.since_best:
                return "patience"
            if self.pace.elapsed - self._saved > SAVE_EVERY:
                self.save()
            self._step(self.steps[at.step], float(schedule.get_last_lr()[0]))
            schedule.step()
            if self.begin is not None:
                self.save()

    def _check_time(self) -> None:
        """Without it one step at the rate of the end, 0, would be made, and change nothing."""
        if not self.pace.has_room():
            raise TrainingError(
                f"{self.settings.limit_minutes:g} minutes leave no time for a step: the validation "
                f"rows alone take {self.pace.evaluation:.0f} s, before and after. Give more time "
                "(--limit-time) or use fewer of them (--eval-rows)."
            )

    def _schedule(self) -> torch.optim.lr_scheduler.LambdaLR:
        for group in self._optimizer.param_groups:
            group["initial_lr"] = self.settings.learning_rate  # what a resumed schedule asks for

        def factor(step: int) -> float:
            return rate(self.pace.share(step), self.settings.warmup)

        return torch.optim.lr_scheduler.LambdaLR(self._optimizer, factor, self.progress.step - 1)

    def _is_evaluated(self) -> bool:
        last = self.progress.curve[-1] if self.progress.curve else {}
        return "valid_nll" in last and last["step"] == self.progress.step

    def _step(self, step: Step, learning_rate: float) -> None:
        """One optimiser step."""
        begun = self.pace.elapsed
        groups = [self.lines.of(self.examples[row], step.epoch) for row in step.rows]
        shared, alone = shares(groups, self.settings.micro_tokens, self._crew.size)
        parts = [*alone, *shared]
        weight = math.fsum(line.weight for lines in groups for line in lines)
        self._optimizer.zero_grad(set_to_none=True)
        loss, nll, tokens, whole = 0.0, 0.0, 0, sum(part.tokens for part in parts)
        self._show("training", 0.0)
        work = partial(self._gradient, weight=weight)
        with closing(self._crew.map(work, shared)) as at_once:
            # In the order of the parts, whichever was done first: equal bits.
            for part, added in zip(parts, chain(map(work, alone), at_once), strict=True):
                self._add(added.gradients)
                loss, nll, tokens = loss + added.loss, nll + added.nll, tokens + part.tokens
                if tokens < whole:
                    self._show("training", tokens / whole)
        clip = torch.nn.utils.clip_grad_norm_
        norm = float(clip(self.lora.parameters(), self.settings.clip))
        if not math.isfinite(norm):
            rows = [self.examples[row].where for row in step.rows]
            raise NumericsError(
                f"The gradient of step {self.progress.step + 1} isn't a finite number "
                f"({_listed(rows)}). Try a lower learning rate, or fp32."
            )
        self._optimizer.step()
        seconds = self.pace.elapsed - begun
        self.pace.stepped(seconds, tokens)
        at = self.progress
        at.step, at.tokens = at.step + 1, at.tokens + tokens
        record = {"step": at.step, "loss": loss, "nll": nll, "rate": learning_rate, "norm": norm}
        questions = sum(map(len, groups))
        at.curve.append({**record, "questions": questions, "tokens": tokens, "seconds": seconds})
        self._show("training", 0.0)

    def _gradient(self, part: Pass, weight: float) -> _Added:
        """Of one pass. Runs on a thread of the crew, or on the caller's with all threads."""
        hidden = self.backbone(part.batch)
        logits = self.backbone.readout(hidden, part.batch).logits
        losses = soft_label_losses(
            logits, part.targets, part.batch.label_offsets, self.settings.brier_weight
        )
        share = part.weights / weight
        loss = (share * losses.total).sum()
        if not torch.isfinite(loss):
            bad = losses.total.isfinite().logical_not().nonzero().flatten().tolist()
            rows = sorted({part.lines[i].example.where for i in bad})
            raise NumericsError(
                f"The loss of step {self.progress.step + 1} isn't a finite number "
                f"({_listed(rows)}). Try a lower learning rate, or fp32."
            )
        gradients = torch.autograd.grad(loss, self.lora.parameters())
        return _Added(float(loss.detach()), float((share * losses.nll.detach()).sum()), gradients)

    def _add(self, gradients: Sequence[torch.Tensor]) -> None:
        """To those of the step."""
        for matrix, gradient in zip(self.lora.parameters(), gradients, strict=True):
            if matrix.grad is None:
                matrix.grad = gradient.contiguous()
            else:
                matrix.grad += gradient

    def _evaluate(self) -> None:
        """Measure; keep the adapter if it is the best so far. Step 0, where it does nothing yet,
        is measured too, to compare with."""
        at, begun = self.progress, self.pace.elapsed
        found = self.validator.measure(lambda done, of: self._show("validating", done / of))
        self.pace.evaluation = self.pace.elapsed - begun
        if at.step and (at.best is None or found.nll < at.best):
            save_adapter(self.folder, self.lora, self.settings.stored)
            at.best, at.best_step, at.since_best = found.nll, at.step, 0
        elif at.step:
            at.since_best += 1
        record = {"step": at.step, "valid_nll": found.nll, "valid_brier": found.brier}
        record |= {"valid_accuracy": found.accuracy, "seconds": self.pace.evaluation}
        at.curve.append({**record, "valid_families": found.families})

    def _show(self, what: str, share: float) -> None:
        """Tell how far it is. Raises _StoppedError where the user wants no more."""
        at = self.progress
        losses = [record["loss"] for record in at.curve[-2:] if "loss" in record]
        self._tell(
            Tick(
                what=what,
                step=at.step,
                steps=self.pace.expected(at.step),
                share=share,
                loss=losses[-1] if losses else None,
                best=at.best,
                speed=self.pace.speed,
                left=self.pace.left(at.step),
            )
        )
        if self._stop.is_set():
            raise _StoppedError


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 3
    return f"{', '.join(names[:3])}{f' and {more} more' if more > 0 else ''}"
