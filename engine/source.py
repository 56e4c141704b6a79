"""`resolve`: from what a user writes for a model to an open checkpoint.

A source is "demo" (the demonstration model with the adapter that readoff brings along), "demo-base"
(the same model as its makers published it), a model folder, a .gguf file, a hub id, or an adapter
(folder or hub id), whose base is looked up in its adapter_config.json. An adapter that `readoff
train` recorded to be trained on the demonstration model's file is opened on just that file. What
lies on the disk wins over the hub.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from readoff.adapters import DEMO as DEMO_ADAPTER
from readoff.engine.adapter_record import recorded
from readoff.engine.checkpoint import Checkpoint, HeadChoice, open_checkpoint
from readoff.engine.errors import AdapterError, SourceError
from readoff.engine.fetch import DEMO as DEMO_FILE
from readoff.engine.fetch import fetch_demo, is_offline
from readoff.engine.lora import CONFIG, AdaptedCheckpoint, read_adapter_config
from readoff.engine.progress import Progress
from readoff.engine.safetensors_checkpoint import INDEX, SINGLE

DEMO = "demo"
DEMO_BARE = "demo-base"
DEMO_BASE = "Qwen/Qwen2.5-Coder-0.5B-Instruct"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILES = [
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
    "generation_config.json",
    "adapter_config.json",
    "decision.json",
    "calibration.json",
    "label_space.json",
]
_EXAMPLES = (
    'Give "demo", "demo-base", a folder with config.json and safetensors files, a .gguf file, an '
    'adapter folder, or a hub id such as "Qwen/Qwen2.5-0.5B-Instruct".'
)
_MAX_DEPTH = 8  # of adapters whose base is an adapter again

Snapshot = Callable[[str, str | None], Path]


def resolve(
    source: str | Path = DEMO,
    adapter: str | Path | None = None,
    revision: str | None = None,
    *,
    head: HeadChoice = "auto",
    progress: Progress | bool | None = None,
    snapshot: Snapshot | None = None,
) -> Checkpoint:
    """Open `source`, with `adapter` (a folder, a hub id, or "demo" for the one that comes with
    readoff) merged in last; in the model "demo" it takes the place of that one.

    `revision` is the hub revision of `source`; a base named by an adapter uses the revision that
    the adapter recorded. `head` concerns GGUF files. `snapshot` replaces the hub in tests. The
    result's `folders` say where cards and calibrations may lie, an adapter's folder first.
    Raises SourceError (CheckpointError, DownloadError) or AdapterError, also where `adapter` names
    a base of another name than `source` has on the hub.
    """
    find = snapshot or hub_snapshot
    opened: list[str] = []  # the source, and the bases below it

    def open_any(name: str, revision: str | None, depth: int) -> Checkpoint:
        opened.append(name)
        if name in (DEMO, DEMO_BARE):
            return open_checkpoint(fetch_demo(progress), head=head)
        path = _locate(name, revision, find)
        if not (path / CONFIG).is_file() or any((path / file).exists() for file in (SINGLE, INDEX)):
            return open_checkpoint(path, head=head)
        config = read_adapter_config(path)
        if config.base is None:
            raise AdapterError(
                f"{path / CONFIG} doesn't say which base it belongs to "
                "(base_model_name_or_path). Give the base as the source and this as the adapter."
            )
        if depth >= _MAX_DEPTH:
            raise AdapterError(f"{path}: adapters on adapters go deeper than {_MAX_DEPTH}.")
        base = _base_of(path, config.base)
        beside = recorded(path)
        if base == DEMO_BASE and beside is not None and beside[0] == DEMO_FILE.sha256:
            base = DEMO_BARE
        try:
            below = open_any(base, config.base_revision, depth + 1)
        except SourceError as error:
            raise type(error)(
                f"The base {config.base!r} of the adapter {path} can't be opened: {error}"
            ) from error
        return AdaptedCheckpoint(below, path)

    checkpoint = open_any(str(source), revision, 0)
    if adapter is None and str(source) == DEMO:
        return AdaptedCheckpoint(checkpoint, DEMO_ADAPTER)
    if adapter is not None:
        named = str(adapter) == DEMO  # as for models, the name wins; ./demo is a folder
        folder = DEMO_ADAPTER if named else _locate(str(adapter), None, find)
        _check_names(opened, folder)
        checkpoint = AdaptedCheckpoint(checkpoint, folder)
    return checkpoint


def bare(source: str) -> str:
    """The source without the adapter that readoff brings along, to train on or to compare with."""
    return DEMO_BARE if source == DEMO else source


def _check_names(opened: list[str], adapter_folder: Path) -> None:
    """AdapterError if the adapter's base has another name than each of the models opened.

    Sizes alone can't tell: an adapter for the coder fits the plain model of the same size. A
    folder or file says nothing about what it holds, so that it is never a misfit.
    """
    base = read_adapter_config(adapter_folder).base
    names = [DEMO_BASE if name in (DEMO, DEMO_BARE) else name for name in opened]
    if base is None or not all(map(_is_hub_name, [_base_of(adapter_folder, base), *names])):
        return
    if _model_of(base) not in map(_model_of, names):
        raise AdapterError(
            f"The adapter {adapter_folder} was trained on {base!r}, and the source is "
            f"{names[0]!r}. Give {base!r} as the source; if the two really are the same model, "
            "give the source as a local folder or file."
        )


def _is_hub_name(name: str) -> bool:
    return _HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def _model_of(name: str) -> str:
    return name.rpartition("/")[2].lower().removesuffix("-gguf")


def _base_of(adapter_folder: Path, base: str) -> str:
    """A relative base path is meant from the adapter's folder, or from where we are."""
    beside = adapter_folder / Path(base).expanduser()
    return str(beside) if beside.exists() else base


def _locate(name: str, revision: str | None, find: Snapshot) -> Path:
    """The folder or file that `name` means, downloaded if it is a hub id."""
    if not name.strip():
        raise SourceError(f"The name of the model is empty. {_EXAMPLES}")
    path = Path(name).expanduser()
    if path.is_file() and path.suffix.lower() != ".gguf":
        raise SourceError(f"{name!r} is a file, but not a .gguf file. {_EXAMPLES}")
    if path.is_file():
        return path
    if path.is_dir():
        models = sorted(path.glob("*.gguf"))
        alone = not any((path / known).exists() for known in ("config.json", CONFIG))
        if not (alone and models):
            return path
        if len(models) > 1:
            names = ", ".join(file.name for file in models[:5])
            raise SourceError(f"{name!r} holds several GGUF files ({names}). Name one of them.")
        return models[0]
    if name and _HUB_ID.fullmatch(name) and not name.lower().endswith(".gguf"):
        return find(name, revision)
    raise SourceError(
        f"{name!r} is no folder or file here (looked in {Path.cwd()}) and has not the form of a "
        f"hub id. {_EXAMPLES}"
    )


def hub_snapshot(repository: str, revision: str | None) -> Path:
    """Download the files of a hub repository that we read, into the hub's own cache.

    Offline (READOFF_OFFLINE, HF_HUB_OFFLINE or no network) whatever is in that cache is used.
    Raises SourceError.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=_FILES,
                etag_timeout=5,
                local_files_only=is_offline(),
            )
        )
    except GatedRepoError:
        problem = "needs permission: accept its terms on the hub and log in with `hf auth login`"
    except RepositoryNotFoundError:
        problem = "doesn't exist on the hub, or is private (log in with `hf auth login`)"
    except RevisionNotFoundError:
        problem = f"has no revision {revision!r}"
    except LocalEntryNotFoundError:
        problem = "isn't in the local cache, and the hub can't be reached (or is switched off)"
    except HFValidationError as error:
        problem = f"isn't a valid hub id ({error})"
    except Exception as error:  # the transport's errors, and disk errors
        problem = f"can't be downloaded ({type(error).__name__}: {str(error)[:200]})"
    raise SourceError(
        f"{repository!r} is no folder or file here (looked in {Path.cwd()}), and as a hub id it "
        f"{problem}. {_EXAMPLES}"
    )
