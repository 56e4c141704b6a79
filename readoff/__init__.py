"""readoff: decisions read off the logits of the legal labels, in one forward pass.

`import readoff` is light: each name below is imported from its module on first use, so that
questions, answers and calibration work where torch isn't installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readoff.engine.answers import (
        ChoiceAnswer,
        Decision,
        NoulAnswer,
        ScoreAnswer,
        Usage,
        Verdict,
    )
    from readoff.engine.card import Card
    from readoff.engine.engine import Engine
    from readoff.engine.errors import (
        AdapterError,
        BudgetError,
        CardError,
        CheckpointError,
        ClosedError,
        ContextError,
        DeadlineError,
        DownloadError,
        EscalationError,
        ExportError,
        NumericsError,
        OverloadedError,
        PrefixFileError,
        QuestionError,
        ReadoffError,
        RequestError,
        SourceError,
        StepError,
        TemplateError,
    )
    from readoff.engine.escalation_http import ChatEscalation
    from readoff.engine.gate import Gate
    from readoff.engine.questions import Choice, Noul, Score
    from readoff.engine.serving import Serving
    from readoff.export.errors import PackError
    from readoff.export.opening import open_engine
    from readoff.export.runtime import OnnxEngine

__version__ = "0.1.0"

__all__ = [
    "AdapterError",
    "BudgetError",
    "Card",
    "CardError",
    "ChatEscalation",
    "CheckpointError",
    "Choice",
    "ChoiceAnswer",
    "ClosedError",
    "ContextError",
    "DeadlineError",
    "Decision",
    "DownloadError",
    "Engine",
    "EscalationError",
    "ExportError",
    "Gate",
    "Noul",
    "NoulAnswer",
    "NumericsError",
    "OnnxEngine",
    "OverloadedError",
    "PackError",
    "PrefixFileError",
    "QuestionError",
    "ReadoffError",
    "RequestError",
    "Score",
    "ScoreAnswer",
    "Serving",
    "SourceError",
    "StepError",
    "TemplateError",
    "Usage",
    "Verdict",
    "__version__",
    "open_engine",
]

_HOMES = {
    "Card": "engine.card",
    "ChatEscalation": "engine.escalation_http",
    "Choice": "engine.questions",
    "ChoiceAnswer": "engine.answers",
    "Decision": "engine.answers",
    "Engine": "engine.engine",
    "Gate": "engine.gate",
    "Noul": "engine.questions",
    "NoulAnswer": "engine.answers",
    "OnnxEngine": "export.runtime",
    "PackError": "export.errors",
    "Score": "engine.questions",
    "ScoreAnswer": "engine.answers",
    "Serving": "engine.serving",
    "Usage": "engine.answers",
    "Verdict": "engine.answers",
    "open_engine": "export.opening",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'readoff' has no attribute {name!r}")
    module = importlib.import_module(f"readoff.{_HOMES.get(name, 'engine.errors')}")
    value = getattr(module, name)
    globals()[name] = value  # the next look-up finds it at once
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
