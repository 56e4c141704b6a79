"""`write_pack`: makes a deployment pack of a folder that holds an exported graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from readoff.engine.card import CARD_FILE, Card
from readoff.engine.card_fields import CardTemplate, Digests
from readoff.engine.config import ModelConfig
from readoff.engine.errors import ExportError
from readoff.engine.prompt import Renderer
from readoff.export import pack_example
from readoff.export.graph.options import GraphOptions
from readoff.export.hf_folder import BESIDE, TOKENIZER_FILES, copy_files, write_config
from readoff.export.pack import (
    CONFIG,
    GRAPH,
    PACK_FILE,
    TOKENIZER,
    Pack,
    PackDigests,
    PackPrompt,
    oldest_runtime,
    read_pack,
)
from readoff.export.pack_file import PackFile
from readoff.export.pack_readme import render_readme

README, EXAMPLE = "README.md", "example.py"
_TERMS = tuple(name for name in BESIDE if name.startswith(("LICENSE", "NOTICE")))
"""What the base was given under stays with whatever is made from it."""


def write_pack(
    folder: Path,
    *,
    name: str,
    config: Mapping[str, Any],
    options: GraphOptions,
    tokenizer_files: Path,
    card: Card,
    weights: str,
    adapter: str | None = None,
    parity: Sequence[Mapping[str, Any]] = (),
    figures: Mapping[str, Any] | None = None,
    runtime: str | None = None,
) -> Pack:
    """Complete `folder`, which holds model.onnx and its weights already, to a pack.

    Args:
        folder: usually the draft of `target.new_export`; on an error what is in it is the caller's.
        name: what answers call the model.
        config: the fields of its config.json (`hf_folder.hf_config`).
        tokenizer_files: the folder with its tokenizer and chat template.
        card: the decision card; template and digests are written into it.
        weights, adapter: digests of what the graph was made from (`Checkpoint.weights_digest`).
        parity: the rows of the check after the export; each is a table's row with the same columns.
        figures: what else was measured, as JSON values.
        runtime: the oldest ONNX Runtime; None is what the options' graphs were tried on.

    Raises ExportError where the graph or the tokenizer is missing, CheckpointError and
    TemplateError where config or tokenizer can't be used.
    """
    if not (folder / GRAPH).is_file():
        raise ExportError(f"{folder} holds no {GRAPH} yet; the graph is written before the pack.")
    if not (tokenizer_files / TOKENIZER).is_file():
        raise ExportError(f"{tokenizer_files} has no {TOKENIZER}, which a pack needs.")
    write_config(folder, dict(config))
    copy_files(tokenizer_files, (*TOKENIZER_FILES, *_TERMS), folder)
    shape = ModelConfig.from_hf(config, CONFIG)
    renderer = Renderer.load(folder, card, shape.vocab_size)
    template = renderer.template
    digests = PackDigests(weights, adapter, renderer.tokenizer.digest, template.digest)
    own = replace(
        card,
        template=CardTemplate(card.template.id, digests.template, card.template.order),
        digests=Digests(digests.weights, digests.adapter, digests.tokenizer),
    )
    own.save(folder / CARD_FILE)
    source = Path(pack_example.__file__).read_text(encoding="utf-8")
    (folder / EXAMPLE).write_text(source, encoding="utf-8")
    pack = Pack(
        folder=folder,
        name=name,
        config=shape,
        options=options,
        runtime=runtime or oldest_runtime(options),
        readoff=version("readoff"),
        digests=digests,
        prompt=PackPrompt(template.before, template.cue),
        parity=parity,
        figures=figures or {},
    )
    nbytes = sum(path.stat().st_size for path in folder.glob(f"{GRAPH}*"))
    (folder / README).write_text(render_readme(pack, nbytes), encoding="utf-8")
    names = sorted(path.name for path in folder.iterdir() if path.name != PACK_FILE)
    pack = replace(pack, files={name: PackFile.of(folder / name) for name in names})
    text = json.dumps(pack.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / PACK_FILE).write_text(text + "\n", encoding="utf-8")
    return read_pack(folder)
