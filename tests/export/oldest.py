"""Runs in another interpreter, under an old ONNX Runtime: a graph on given feeds.

`python oldest.py RUNTIME_FOLDER GRAPH FEEDS.npz OUT.npz`; prints the runtime's version.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The command."""
    folder, graph, feeds, out = sys.argv[1:]
    sys.path.insert(0, folder)
    from importlib import import_module

    numpy, runtime = import_module("numpy"), import_module("onnxruntime")
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    with numpy.load(feeds) as stored:
        found = session.run(["logits", "probabilities"], dict(stored))
    numpy.savez(out, logits=found[0], probabilities=found[1])
    print(runtime.__version__)


if __name__ == "__main__":
    main()
