"""Everything there is to measure on a GPU, in one run of some minutes.

    python -m readoff.bench.gpu                     Qwen3.5-0.8B and 4B shapes, bf16 and FP8
    python -m readoff.bench.gpu --quick             0.8B, few repeats
    python -m readoff.bench.gpu --device cpu --shape tiny     tries every line without a GPU

First the gate, for every model; while it is red no speed is measured, and the status is 1. Then
ceilings of this device and, model by model: the cases eager and captured, a written JSON answer on
the same weights, the readout against the whole head, FP8. The last line of stdout is one JSON
document; when the time is spent, or at the first SIGTERM or Ctrl-C, it holds what there is by then.
Needs torch, triton, transformers, safetensors and numpy only. Without CUDA the status is 2.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from readoff.bench.gpu.clock import Budget, BudgetError
from readoff.bench.gpu.document import hardware, say
from readoff.bench.gpu.models import SHAPES
from readoff.bench.gpu.session import RedGateError, Session

DEFAULT_BUDGET = 480.0


def main(argv: Sequence[str] | None = None) -> int:
    """0, 1 for a red gate or an error, 2 where there is no CUDA device."""
    options = _parser().parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        say("There is no CUDA device here. --device cpu --shape tiny tries the bench itself.")
        return 2
    device = torch.device(options.device)
    names = [options.shape] if options.shape else options.models.split(",")
    unknown = [name for name in names if name not in SHAPES]
    if unknown:
        say(f"Unknown model {unknown[0]!r}; there are {', '.join(SHAPES)}.")
        return 2
    if options.quick:
        names = names[:1]
    if device.type == "cpu":
        budget = Budget(options.time_budget, 1, 0.0)
    else:
        budget = Budget(options.time_budget, *((30, 0.5) if options.quick else (200, 1.0)))
    document: dict[str, Any] = {
        "bench": "gpu",
        "hardware": hardware(device),
        "quick": options.quick,
        "models": {},
        "problems": [],
        "complete": False,
    }
    before = signal.signal(signal.SIGTERM, _interrupt)
    session = Session(document, budget, device, [SHAPES[name] for name in names], options.out)
    status = 0
    try:
        session.run(gate_only=options.gate_only)
        document["complete"] = not document["problems"]
    except RedGateError as error:
        say(str(error))
        status = 1
    except (BudgetError, KeyboardInterrupt) as error:
        document["problems"].append(f"cut short: {error or type(error).__name__}")
    except Exception as error:  # what was measured before it is worth having
        document["problems"].append(f"{type(error).__name__}: {error}")
        say(f"{type(error).__name__}: {error}")
        status = 1
        if options.trace:
            raise
    finally:
        signal.signal(signal.SIGTERM, before)
        document["seconds"] = budget.spent
        session.save()
        print(json.dumps(document), flush=True)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m readoff.bench.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--models", default="0.8B,4B", help="which, in order (0.8B,4B)")
    parser.add_argument("--shape", help="one model only; tiny for a trial")
    parser.add_argument("--quick", action="store_true", help="the first model, few repeats")
    parser.add_argument("--gate-only", action="store_true", help="no speeds at all")
    parser.add_argument("--out", type=Path, help="also keep the document here, as it grows")
    parser.add_argument("--time-budget", type=float, default=DEFAULT_BUDGET, help="seconds (480)")
    parser.add_argument("--trace", action="store_true", help="raise errors with their traceback")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


if __name__ == "__main__":
    sys.exit(main())
