"""What a job ends with: its result, or an error of its own."""

from __future__ import annotations

import time
import traceback
from typing import Any

from readoff.engine.errors import ClosedError, DeadlineError, ReadoffError, StepError
from readoff.engine.job import Job


def late() -> DeadlineError:
    """The error of a request that took too long."""
    return DeadlineError(
        "The request wasn't answered before its deadline. Allow more time, or shorten the state."
    )


def finished(job: Job) -> Any:
    """What a job ends with that everything was read for: its result or its exception."""
    if job.expired(time.perf_counter()):
        return late()
    try:
        return job.finish(job)
    except Exception as error:
        return error_of(error)


def error_of(error: BaseException) -> ReadoffError:
    """An exception of each request's own: several threads will raise them. What the pass had in its
    variables is let go of: it may be much."""
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, ReadoffError):
        return error
    made = StepError(f"The pass failed: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def closed() -> ClosedError:
    """The error of a request that a closing engine leaves unanswered."""
    return ClosedError("The engine was closed before this request was answered.")
