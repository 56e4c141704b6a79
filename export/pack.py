"""`Pack`: a folder with an exported model and all that deciding with it needs.

    model.onnx, model.onnx.data   the graph and its weights (`readoff.export.graph`)
    config.json                   the model's shape, as Hugging Face writes it
    tokenizer.json, …             tokenizer and chat template
    decision.json                 the decision card
    pack.json                     what all this is, and size and digest of each file
    README.md, example.py         for people

`readoff.export.pack_writing` writes one; here it is read. No torch and no onnx in this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from readoff.engine.card import CARD_FILE, Card
from readoff.engine.config import ModelConfig
from readoff.engine.errors import ReadoffError
from readoff.export.errors import PackError
from readoff.export.graph.options import (
    OLDEST_CONTRIB_RUNTIME,
    OLDEST_RUNTIME,
    FixedLabels,
    Flavour,
    GraphOptions,
    LabelBank,
    Precision,
)
from readoff.export.pack_file import PackFile

FORMAT = 1
"""Of pack.json. A newer one is refused; older ones will go on being read."""

PACK_FILE, GRAPH, CONFIG, TOKENIZER = "pack.json", "model.onnx", "config.json", "tokenizer.json"
NEEDED = (GRAPH, CONFIG, TOKENIZER, CARD_FILE)
WEIGHTS = f"{GRAPH}.data"
"""Beside the graph, unless that is small enough to hold them."""
OLDEST_INT4_RUNTIME = "1.18.1"

_NUMBERS = r"\d+(?:\.\d+)*"


@dataclass(frozen=True)
class PackDigests:
    """sha256 of what the graph was made from, as a decision card names them."""

    weights: str
    adapter: str | None
    tokenizer: str
    template: str


@dataclass(frozen=True)
class PackPrompt:
    """The control text at the two ends of every prompt, for those who render one themselves."""

    before: str
    cue: str


@dataclass(frozen=True)
class Pack:
    """A pack that was read and compared with its record.

    `runtime` is the oldest ONNX Runtime that runs it, `readoff` the version that wrote it.
    `parity` are the rows of the check after the export, all with the same columns, `figures` what
    else was measured; both are JSON values for people and nothing depends on them.
    """

    folder: Path
    name: str
    config: ModelConfig
    options: GraphOptions
    runtime: str
    readoff: str
    digests: PackDigests
    prompt: PackPrompt
    parity: Sequence[Mapping[str, Any]] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, PackFile] = field(default_factory=dict)

    @property
    def graph(self) -> Path:
        """The graph's file; its weights lie beside it."""
        return self.folder / GRAPH

    @property
    def card(self) -> Card:
        """The decision card. Raises CardError."""
        return Card.load(self.folder)

    @property
    def nbytes(self) -> int:
        """Of all files together."""
        return sum(file.size for file in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """The content of pack.json."""
        options, config = self.options, self.config
        return {
            "format": FORMAT,
            "readoff": self.readoff,
            "model": {
                "name": self.name,
                "architecture": config.architecture,
                "layers": config.num_layers,
                "hidden_size": config.hidden_size,
                "vocab_size": config.vocab_size,
                "context_length": config.max_position_embeddings,
            },
            "graph": {
                "flavour": options.flavour,
                "precision": options.precision,
                "block": options.block,
                "kept": sorted(options.kept),
                "fine": options.fine,
                "labels": _labels_to_json(options.labels),
            },
            "onnxruntime": self.runtime,
            "digests": asdict(self.digests),
            "prompt": asdict(self.prompt),
            "parity": [dict(row) for row in self.parity],
            "figures": dict(self.figures),
            "files": {name: file.to_json() for name, file in self.files.items()},
        }


def is_pack(source: str | Path) -> bool:
    """Whether a model's source is the folder of a pack, whatever state it is in."""
    try:
        return (Path(source).expanduser() / PACK_FILE).is_file()
    except PermissionError:
        return True  # whatever it is, `read_pack` says that it can't be read
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def read_pack(folder: str | Path, *, verify: bool = False) -> Pack:
    """Open a pack.

    Every file's size and every small file's sha256 are compared with pack.json; of the weights
    some windows are (see `PackFile`), and with `verify` all, which takes about a second a gigabyte.

    Raises PackError: not a pack, a newer or damaged one, a missing or changed file.
    """
    place = Path(folder).expanduser()
    content = _read(place / PACK_FILE)
    _check_format(content, place)
    try:
        files = {name: PackFile.parse(name, e) for name, e in _entry(content, "files").items()}
        weights = (WEIGHTS,) if (place / WEIGHTS).exists() else ()
        for name in (*NEEDED, *weights):
            if name not in files:
                raise PackError(f"The pack {place} records no {name}. Export again.")
        for name, file in files.items():
            file.check(place / name, verify=verify)
        return Pack(
            folder=place,
            name=str(_entry(content, "model")["name"]),
            config=ModelConfig.from_hf(_read(place / CONFIG), str(place / CONFIG)),
            options=_options(_entry(content, "graph")),
            runtime=_version(content["onnxruntime"]),
            readoff=str(content["readoff"]),
            digests=PackDigests(**_entry(content, "digests")),
            prompt=PackPrompt(**_entry(content, "prompt")),
            parity=tuple(content.get("parity", ())),
            figures=_entry(content, "figures"),
            files=files,
        )
    except PackError:
        raise
    except (KeyError, TypeError, ValueError, ReadoffError) as error:
        raise PackError(
            f"The pack {place} can't be understood ({type(error).__name__}: {error}). Export again."
        ) from error


def oldest_runtime(options: GraphOptions) -> str:
    """The oldest ONNX Runtime that a graph with these options was tried on."""
    if options.flavour == "contrib":
        return OLDEST_CONTRIB_RUNTIME
    return OLDEST_INT4_RUNTIME if options.uses_contrib else OLDEST_RUNTIME


def is_older(version: str, needed: str) -> bool:
    """Whether ONNX Runtime's `version` ("1.32.0+cpu") comes before `needed` ("1.32")."""
    return _numbers(version) < _numbers(needed)


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 32, 0) of "1.32.0+cpu"."""
    found = re.match(_NUMBERS, version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return tuple([*numbers, 0, 0, 0][:3])


def _version(value: object) -> str:
    if not isinstance(value, str) or not re.match(_NUMBERS, value):
        raise ValueError(f'"onnxruntime" must be a version, not {value!r}')
    return value


def _check_format(content: Mapping[str, Any], place: Path) -> None:
    found = content.get("format")
    if type(found) is not int or found < 1:
        raise PackError(f"{place / PACK_FILE} has no format number: {place} is no readoff pack.")
    if found > FORMAT:
        raise PackError(
            f"The pack {place} is of format {found}, made by readoff "
            f"{content.get('readoff', '(unknown)')}; this one reads up to {FORMAT}. Update readoff."
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise PackError(
            f"{path.parent} is no pack: it has no {path.name}. `readoff export onnx` writes packs."
        ) from None
    except OSError as error:
        raise PackError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise PackError(f"{path} is not JSON ({error}). Copy the pack again.") from error
    if not isinstance(value, dict):
        raise PackError(f"{path} must hold a JSON object. Copy the pack again.")
    return value


def _entry(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = content.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f'"{name}" must be an object')
    return value


def _options(graph: Mapping[str, Any]) -> GraphOptions:
    flavour: Flavour = _one_of(graph["flavour"], get_args(Flavour))
    precision: Precision = _one_of(graph["precision"], get_args(Precision))
    return GraphOptions(
        flavour=flavour,
        precision=precision,
        labels=_labels(graph["labels"]),
        block=graph["block"],
        kept=frozenset(graph["kept"]),
        fine=graph.get("fine", False) is True,  # older packs don't have it
    )


def _one_of(value: object, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(known)}")
    return value


def _labels(entry: Mapping[str, Any] | None) -> LabelBank | FixedLabels | None:
    if entry is None:
        return None
    if entry["kind"] == "bank":
        return LabelBank(tuple(entry["ids"]))
    return FixedLabels(tuple(entry["ids"]), tuple(entry["prior"]), entry["temperature"])


def _labels_to_json(labels: LabelBank | FixedLabels | None) -> dict[str, Any] | None:
    if labels is None:
        return None
    if isinstance(labels, LabelBank):
        return {"kind": "bank", "ids": list(labels.ids)}
    return {
        "kind": "fixed",
        "ids": list(labels.ids),
        "prior": list(labels.prior),
        "temperature": labels.temperature,
    }
