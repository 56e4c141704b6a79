"""`Served`: a model that a server answers with, and `Models`: all of them, by name and alias."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from readoff.engine.answers import Decision
from readoff.engine.asking import Questions
from readoff.engine.echo import echo
from readoff.engine.text import Text
from readoff.serve.errors import HttpError, StartError, overloaded, unavailable
from readoff.serve.settings import PUBLIC_ALIAS


class Answering(Protocol):
    """What a server needs of an engine."""

    async def adecide(
        self,
        state: Text,
        questions: Questions,
        *,
        legal_mass: bool = False,
        deadline_ms: float | None = None,
    ) -> Decision:
        """See `readoff.Engine.adecide`."""

    def warmup(self) -> None:
        """See `readoff.Engine.warmup`."""

    def stats(self) -> dict[str, Any]:
        """See `readoff.Engine.stats`."""

    def info(self) -> dict[str, Any]:
        """See `readoff.Engine.info`."""

    def close(self) -> None:
        """See `readoff.Engine.close`."""


@dataclass(eq=False)
class Served:
    """One model: `engine` is None until it is loaded and warm.

    `running`: its requests that were admitted and aren't over. `seconds`: about how long one takes.
    `has_mass`: whether it can measure the legal mass.
    """

    name: str
    released: str = ""
    description: str = ""
    engine: Answering | None = None
    running: int = 0
    seconds: float = 0.1
    has_mass: bool = True
    _count: int = field(default=0, repr=False)

    def admit(self, limit: int) -> Answering:
        """Count a request in, and return the engine for it. Raises HttpError: 503 while the model
        loads, 429 when `limit` requests are here."""
        if self.engine is None:
            raise unavailable(f'The model "{self.name}" is still loading.')
        if self.running >= limit:
            raise overloaded(self.running, self.seconds)
        self.running += 1
        return self.engine

    def leave(self, seconds: float | None) -> None:
        """Count a request out; `seconds` is what it took, if it was answered."""
        self.running -= 1
        if seconds is not None:
            self.seconds += 0.1 * (seconds - self.seconds)

    def open(self, engine: Answering) -> None:
        """`engine` is loaded and warm."""
        self.has_mass = "pack" not in engine.info()  # a pack's graph has no whole vocabulary
        self.engine = engine

    def samples_mass(self, every: int) -> bool:
        """Whether this request's legal mass is measured for the metrics: one in `every`."""
        self._count += 1
        return self.has_mass and every > 0 and self._count % every == 0


class Models:
    """The models of a server. The first is the default, and what `jev-latest` means.

    `aliases` maps further names to models. Raises StartError for a name that is taken or means
    nothing.
    """

    def __init__(self, models: Sequence[Served], aliases: Mapping[str, str] | None = None) -> None:
        if not models:
            raise StartError("A server needs a model.")
        self.all = list(models)
        self.started = time.perf_counter()
        self.draining = threading.Event()
        self._names: dict[str, Served] = {}
        for model in models:
            if model.name in self._names:
                raise StartError(
                    f'Two models are called "{model.name}". Name them: --model NAME=SOURCE.'
                )
            self._names[model.name] = model
        for alias, name in (aliases or {}).items():
            if alias in self._names:
                raise StartError(f'The alias "{alias}" is a name already.')
            if name not in self._names:
                raise StartError(f'The alias "{alias}" stands for "{name}", but there is none.')
            self._names[alias] = self._names[name]
        self._names.setdefault(PUBLIC_ALIAS, self.all[0])

    @property
    def ready(self) -> bool:
        """Whether every model is loaded and warm, and the server isn't about to stop."""
        return all(model.engine for model in self.all) and not self.draining.is_set()

    def find(self, name: str | None) -> Served:
        """The model of that name or alias; the first for None. Raises HttpError (400)."""
        if name is None:
            return self.all[0]
        found = self._names.get(name)
        if found is None:
            known = ", ".join(f'"{known}"' for known in self._names)
            raise HttpError(
                400, "api_usage_error", f"There is no model {echo(name)!r} here. Ask {known}."
            )
        return found

    def names(self) -> list[str]:
        """Every name and alias."""
        return list(self._names)

    def listing(self) -> dict[str, Any]:
        """The body of `GET /v1/models`."""
        return {
            "models": [
                {
                    "name": name,
                    "description": model.description
                    if name == model.name
                    else f"An alias of {model.name}.",
                    "release_date": model.released,
                }
                for name, model in self._names.items()
            ]
        }

    def close(self) -> None:
        """End every engine."""
        for model in self.all:
            engine, model.engine = model.engine, None
            if engine is not None:
                engine.close()
