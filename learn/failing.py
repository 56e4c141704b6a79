"""How the command lines of `readoff.learn` end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from readoff.engine.errors import ReadoffError
from readoff.engine.extras import advice

EXTRA = "torch,learn"


def exit_with(run: Callable[[], int]) -> NoReturn:
    """Exit with `status(run)`."""
    sys.exit(status(run))


def status(run: Callable[[], int]) -> int:
    """What `run` returns; 1 and one line on stderr for an error or a package that isn't there,
    130 after Ctrl-C."""
    try:
        return run()
    except ReadoffError as error:
        return _failed(" ".join(str(error).split()))
    except ModuleNotFoundError as error:
        told = advice(error, EXTRA)
        if told is None:
            raise
        return _failed(told)
    except KeyboardInterrupt:
        return 130


def _failed(message: str) -> int:
    print(f"readoff: error: {message}", file=sys.stderr)
    return 1
