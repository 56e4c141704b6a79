"""`Forward`: what other libraries log, as lines of ours."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from readoff.serve.log import Log, where

_OWN = "uvicorn."
"""Loggers whose messages hold nothing of what users send."""


class Forward(logging.Handler):
    """Warnings and errors of Python's loggers.

    A message may quote a user, so of a logger that isn't known to be harmless only its name, the
    place in the code and the message before its values were put in come out.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        error = record.exc_info[1] if record.exc_info else None
        raised = where(error) if error is not None else None
        level = "error" if record.levelno >= logging.ERROR else "warning"
        if record.name.startswith(_OWN):
            self._log("warning", "http", message=record.getMessage().strip(), raised=raised)
            return
        template = record.msg if record.args and isinstance(record.msg, str) else None
        self._log(
            level,
            "logged",
            logger=record.name,
            at=f"{record.pathname}:{record.lineno} {record.funcName}",
            message=template,
            raised=raised,
        )


@contextlib.contextmanager
def forwarding(log: Log) -> Iterator[None]:
    """Meanwhile what the root logger gets, and what `warnings` says, goes to `log` alone."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers = [Forward(log)]
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers = before
