"""`Pace`: the clock of a training, how fast it is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """How far a training is, shown after every pass through the model.

    `step` of the `steps` that are expected is being worked on, or was the last before an
    evaluation; `share` of it is done. `loss` is that of the newest whole step. `speed`: tokens
    trained on a second. `left`: seconds that are likely to remain. None where nothing is known yet.
    """

    what: str
    step: int
    steps: int
    share: float
    loss: float | None
    best: float | None
    speed: float | None
    left: float | None


class Pace:
    """Seconds of work, over all runs of one training; `limit` is what they may come to."""

    def __init__(
        self, steps: int, limit: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.steps, self.limit, self.clock = steps, limit, clock
        self.before = 0.0
        """Seconds of earlier runs."""
        self.evaluation = 0.0
        """Seconds that the last evaluation took."""
        self.longest = 0.0
        """Seconds of the longest step."""
        self.training = 0.0
        """Seconds of all steps of this run."""
        self.tokens = 0
        """Tokens of all steps of this run."""
        self.done = 0
        """Steps of this run."""
        self._begun = clock()

    @property
    def elapsed(self) -> float:
        """Seconds so far."""
        return self.before + self.clock() - self._begun

    @property
    def speed(self) -> float | None:
        """Tokens a second."""
        return self.tokens / self.training if self.training else None

    def stepped(self, seconds: float, tokens: int) -> None:
        """A step is done."""
        self.longest = max(self.longest, seconds)
        self.training += seconds
        self.tokens += tokens
        self.done += 1

    def share(self, step: int) -> float:
        """How much of the training lies before the middle of step number `step`, 0 to 1: by steps,
        or by the clock where that runs out first."""
        planned = (step + 0.5) / max(1, self.steps)
        return planned if self.limit is None else max(planned, self.elapsed / self._for_steps)

    def has_room(self) -> bool:
        """Whether there is time for anything but the last evaluation."""
        return self.limit is None or self.elapsed < self.limit - self.evaluation

    def is_up(self) -> bool:
        """Whether another step and the last evaluation don't fit into the limit."""
        return self.limit is not None and self.elapsed + self.longest > self._for_steps

    def expected(self, step: int) -> int:
        """How many steps it will have taken at its end, as far as the first `step` tell."""
        if self.limit is None or not self.training:
            return self.steps
        more = int((self._for_steps - self.elapsed) * self.done / self.training)
        return min(self.steps, step + max(0, more))

    def left(self, step: int) -> float | None:
        """Seconds until the end, after `step` whole steps."""
        if not self.done:
            return None
        expected = (self.steps - step) * self.training / self.done + self.evaluation
        return (
            expected if self.limit is None else max(0.0, min(expected, self.limit - self.elapsed))
        )

    @property
    def _for_steps(self) -> float:
        assert self.limit is not None
        return max(1e-9, self.limit - self.evaluation)
