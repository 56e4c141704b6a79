"""The page at `/`: a person's way of asking. Its files are served as they lie here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Of every file: nothing comes from elsewhere and nothing goes elsewhere, no text becomes code,
no other site frames the page, and a browser asks whether its copy is still good."""


@dataclass(frozen=True)
class File:
    """One file of the page, in memory."""

    content: bytes
    media_type: str
    etag: str


def load_files() -> dict[str, File]:
    """Every file of the page by its name."""
    found = {}
    for entry in resources.files(__name__).iterdir():
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[entry.name] = File(content, media_type, etag)
    return found


FILES = load_files()
router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """The page."""
    return _answer(request, "index.html")


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def part(request: Request, name: str) -> Response:
    """What the page is made of. Raises HTTPException (404) for what it isn't."""
    if name not in FILES or name == "index.html":
        raise HTTPException(404)
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    file = FILES[name]
    headers = HEADERS | {"etag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
