"""A hub on this machine: one repository, served from a folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = "org/name"
SILENT = "org/silent"
"""A repository that takes every question and never answers."""

_COMMIT = "b" * 40


class _Handler(BaseHTTPRequestHandler):
    files: Path
    closing: threading.Event

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.strip("/").split("?")[0]
        files = {file.name: file for file in self.files.iterdir() if file.is_file()}
        name = path.rpartition("/")[2]
        if path.startswith(SILENT):
            self.closing.wait(30)
        if path.startswith(f"api/models/{REPOSITORY}/revision/"):
            siblings = [{"rfilename": file} for file in files]
            self.answer_json({"id": REPOSITORY, "sha": _COMMIT, "siblings": siblings})
        elif path.startswith(f"api/models/{REPOSITORY}/tree/"):
            entries = [
                {"type": "file", "path": file, "oid": "c", "size": where.stat().st_size}
                for file, where in files.items()
            ]
            self.answer_json(entries)
        elif path.startswith(f"{REPOSITORY}/resolve/") and name in files:
            self.answer(files[name].read_bytes(), "application/octet-stream")
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer_json(self, value: object) -> None:
        self.answer(json.dumps(value).encode(), "application/json")

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", _COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def running_hub(files: Path) -> Iterator[str]:
    """Serve the files of a folder as the repository "org/name"; gives the hub's address."""
    closing = threading.Event()
    handler = type("Handler", (_Handler,), {"files": files, "closing": closing})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            closing.set()
            server.shutdown()
            thread.join()
