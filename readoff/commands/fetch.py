"""`readoff fetch`: put a model where later runs find it without a network."""

from __future__ import annotations

from readoff.commands import options
from readoff.commands.download import DEMO_NAMES, demo_model


def fetch(model: options.TorchModel = "demo", revision: options.Revision = None) -> None:
    """Download a model into your cache, and print where it lies.

    The demonstration model is checked against its sha256; once it is there, nothing is
    downloaded again. An interrupted download goes on where it stopped.

    Example:

        readoff fetch --model Qwen/Qwen3-0.6B
    """
    if model in DEMO_NAMES:
        print(demo_model())
        return
    from readoff.engine.source import resolve

    print(resolve(model, revision=revision).folders[0])
