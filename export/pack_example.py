"""Decide with a pack's graph alone: onnxruntime, tokenizers and numpy, no readoff.

Usage: python example.py [the pack's folder]
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

OPTIONS = {"A": "billing: money", "B": "sales"}
ASKED = {"team": "Which team?", "mood": "Who is this for?"}


def main(folder: Path) -> None:
    pack = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    before, cue = pack["prompt"]["before"], pack["prompt"]["cue"]  # the chat template's two ends

    def encode(text: str) -> list[int]:  # a stranger's text could forge control tokens here
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    def run(tokens: list[int], past: dict[str, Any], length: int, labels: list[int]) -> Any:
        """New tokens after a past of `length`: probabilities [1, L], and the past with them."""
        feeds: dict[str, Any] = {"tokens": [tokens], "lengths": [len(tokens)]}
        feeds |= {"past_lengths": [length], "label_ids": [labels], "label_counts": [len(labels)]}
        feeds = {name: np.array(values, np.int64) for name, values in feeds.items()}
        feeds["prior"] = np.zeros((1, len(labels)), np.float32)  # subtracted from raw logits
        feeds["temperature"] = np.ones(1, np.float32)  # divides them then
        known = [port.name for port in session.get_inputs()]  # baked labels are no inputs
        names = [port.name for port in session.get_outputs()]
        feeds = {name: value for name, value in (feeds | past).items() if name in known}
        new = dict(zip(names, session.run(names, feeds), strict=True))
        for name, old in past.items():  # keys and values come for the new tokens only
            grown, found = name.endswith((".key", ".value")), new[name.replace("past.", "new.")]
            past = past | {name: np.concatenate([old, found], axis=1) if grown else found}
        return new["probabilities"][0], past, length + len(tokens)

    empty, sizes = {}, {"past_batch": 1, "past": 0}
    for port in session.get_inputs():
        if port.name.startswith("past."):
            kind = np.float16 if port.type == "tensor(float16)" else np.float32
            empty[port.name] = np.zeros([sizes.get(size, size) for size in port.shape], kind)
    options, baked = OPTIONS, pack["graph"]["labels"]
    if baked and baked["kind"] == "fixed":  # its labels, prior and temperature can't be chosen
        letters = [tokenizer.decode([label]).strip() for label in baked["ids"]]
        options = {letter: f"team {number}" for number, letter in enumerate(letters, 1)}
        print("Baked labels:", *letters)
    labels = [encode(cue + letter)[-1] for letter in options]
    told = "\n".join(f"{letter}. {option}" for letter, option in options.items())
    state = encode(before) + encode("State:\nThe invoice was paid twice, and nobody answers.\n")
    _, past, length = run(state, empty, 0, labels)  # the state once
    for name, ask in ASKED.items():
        text = f"Question: {ask}\n{told}\nAnswer with the letter of one option."
        question = encode(text) + encode(cue)
        found, _, _ = run(question, past, length, labels)  # each question from its past
        print(name, *(f"{letter}={p:.6f}" for letter, p in zip(options, found, strict=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
