"""`GenerationTimes`: what reading a prompt costs a generator, and what each token after it."""

from __future__ import annotations

import statistics


class GenerationTimes:
    """Collected over answers: seconds up to the first token, seconds and number of the others."""

    def __init__(self) -> None:
        self._prefill: list[float] = []
        self._token: list[float] = []
        self._count: list[int] = []

    def add(self, prefill: float, rest: float, tokens: int) -> None:
        """One answer. `tokens` are those after the first."""
        self._prefill.append(prefill)
        self._count.append(tokens)
        if tokens:
            self._token.append(rest / tokens)

    @property
    def prefill(self) -> float:
        """Seconds up to the first token, median."""
        return statistics.median(self._prefill)

    @property
    def token(self) -> float:
        """Seconds of one further token, median; 0 where there was none."""
        return statistics.median(self._token) if self._token else 0.0

    @property
    def tokens(self) -> float:
        """Tokens after the first, mean."""
        return statistics.fmean(self._count)

    def modelled(self) -> float | None:
        """`1 + n · t_token / t_prefill`: how many times as long as its prompt's pass alone a
        generated answer takes. None before anything was timed."""
        if not self._prefill or self.prefill <= 0:
            return None
        return 1.0 + self.tokens * self.token / self.prefill
