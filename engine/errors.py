"""The exception family. Every error of the library is a `ReadoffError`.

A message names what was wrong and what to do about it, in one or two sentences.
"""

from __future__ import annotations


class ReadoffError(Exception):
    """Base class of every error that readoff raises on purpose."""


class SourceError(ReadoffError):
    """A model source can't be found, reached or understood."""


class DownloadError(SourceError):
    """A download failed, was cut short, or doesn't match its hash."""


class CheckpointError(SourceError):
    """A checkpoint is incomplete, truncated, or of an unsupported architecture."""


class AdapterError(ReadoffError):
    """A LoRA adapter doesn't fit its base, or uses a feature that isn't supported."""


class CardError(ReadoffError):
    """A decision card (or an imported calibration) is invalid or belongs to another model."""


class TemplateError(ReadoffError):
    """A prompt template, its answer cue and the label alphabet don't work together."""


class QuestionError(ReadoffError, ValueError):
    """A question, its criteria or a state isn't legal."""


class RequestError(ReadoffError, ValueError):
    """A JSON request doesn't follow the wire contract.

    `loc` is the path to the offending field, as in the contract's 422 body.
    """

    def __init__(self, message: str, loc: tuple[str | int, ...] = ("body",)) -> None:
        super().__init__(message)
        self.loc = loc


class ContextError(ReadoffError, ValueError):
    """A prompt is longer than the model's context. Nothing is ever truncated."""

    def __init__(self, message: str, *, limit: int, length: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.length = length


class NumericsError(ReadoffError):
    """The model produced logits that aren't finite numbers."""


class ClosedError(ReadoffError):
    """The engine was closed, or this process was forked from the one that made it."""


class OverloadedError(ReadoffError):
    """Too many requests are waiting. `depth` says how many; try again a little later."""

    def __init__(self, message: str, *, depth: int) -> None:
        super().__init__(message)
        self.depth = depth


class DeadlineError(ReadoffError, TimeoutError):
    """A request wasn't answered before its deadline."""


class BudgetError(ReadoffError):
    """One request needs more memory than the cache may take, or than there is."""


class StepError(ReadoffError):
    """A pass failed for a reason that isn't the request's; `__cause__` is the reason."""


class PrefixFileError(ReadoffError):
    """A file of saved prefixes is damaged, or was made by another model or template."""


class EscalationError(ReadoffError):
    """The endpoint that uncertain answers are escalated to can't be reached, refuses, or gives no
    legal answer."""


class ExportError(ReadoffError):
    """An export can't be made or written: its target, its space on the disk, its base or format."""
