"""From what a user writes after --model, --adapter and --card to models and what loads them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readoff.engine.source import DEMO
from readoff.serve.errors import StartError
from readoff.serve.served import Answering, Models, Served


@dataclass(frozen=True)
class Source:
    """One model to load: its name here, and where it comes from."""

    name: str
    source: str
    adapter: str | None = None
    card: Path | None = None


def parse_sources(
    models: Sequence[str], adapters: Sequence[str] = (), cards: Sequence[str] = ()
) -> list[Source]:
    """`models` are SOURCE or NAME=SOURCE. `adapters` and `cards` are VALUE where there is one
    model, else NAME=VALUE. Raises StartError."""
    named = [_split(model) for model in models or [DEMO]]
    names = [name or _own_name(source) for name, source in named]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise StartError(f'Two models are called "{min(twice)}". Name them: --model NAME=SOURCE.')
    adapter = _by_name(adapters, names, "--adapter")
    card = _by_name(cards, names, "--card")
    made = []
    for name, (_, source) in zip(names, named, strict=True):
        path = Path(card[name]) if name in card else None
        if path is not None and not path.is_file():
            raise StartError(f"There is no decision card {path}.")
        if _is_path(source) and not Path(source).exists():
            raise StartError(f"There is no model at {source}.")
        made.append(Source(name, source, adapter.get(name), path))
    return made


def parse_aliases(aliases: Sequence[str], first: str) -> dict[str, str]:
    """NAME (of the first model) or NAME=MODEL. Raises StartError for one that is empty."""
    made: dict[str, str] = {}
    for given in aliases:
        alias, _, model = given.partition("=")
        if not alias.strip():
            raise StartError(f"--alias {given!r} has no name. Write NAME or NAME=MODEL.")
        if made.setdefault(alias, model or first) != (model or first):
            raise StartError(
                f'The alias "{alias}" is given twice, for "{made[alias]}" and "{model or first}".'
            )
    return made


def served_of(sources: Sequence[Source], aliases: Mapping[str, str] | None = None) -> Models:
    """The models, none of them loaded yet. Raises StartError."""
    made = [Served(s.name, _released(s.source), _description(s)) for s in sources]
    return Models(made, aliases)


def loader_of(source: Source, options: Mapping[str, Any]) -> Callable[[], Answering]:
    """What loads a model, with further options of `open_engine`."""

    def load() -> Answering:
        from readoff.export.opening import open_engine

        return open_engine(source.source, adapter=source.adapter, card=source.card, **options)

    return load


def _split(model: str) -> tuple[str | None, str]:
    """A name holds no slash, so that a path with an = in it stays one."""
    name, sign, source = model.partition("=")
    if not sign or "/" in name or "\\" in name:
        return None, model
    if not name.strip() or not source:
        raise StartError(f"--model {model!r} must be SOURCE or NAME=SOURCE.")
    return name, source


def _own_name(source: str) -> str:
    return source if source == DEMO else Path(source).name or source


def _is_path(source: str) -> bool:
    """Whether it can only be a file or folder: a hub id has one slash and no leading dot."""
    return source.startswith(("/", "./", "../", "~")) or source.endswith(".gguf")


def _by_name(values: Sequence[str], names: Sequence[str], option: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for value in values:
        name, sign, rest = value.partition("=")
        if not (sign and name in names):
            if len(names) > 1:
                raise StartError(
                    f"With several models write {option} NAME=VALUE; {value!r} names none of them."
                )
            name, rest = names[0], value
        if name in made:
            raise StartError(f'{option} is given twice for the model "{name}".')
        made[name] = rest
    return made


def _released(source: str) -> str:
    """The day a model's files were last changed; today where they can't be looked at."""
    path = Path(source)
    try:
        files = [path, *path.glob("*.safetensors"), *path.glob("config.json")]
        stamp = max(file.stat().st_mtime for file in files[1:] or files)
    except OSError:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    return datetime.datetime.fromtimestamp(stamp, datetime.UTC).date().isoformat()


def _description(source: Source) -> str:
    said = f"readoff over {_own_name(source.source)}"
    return said if source.adapter is None else f"{said} with {Path(source.adapter).name}"
