"""`make_app`: the ASGI application of a server."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from readoff.engine import wire
from readoff.engine.echo import echo
from readoff.engine.errors import ReadoffError
from readoff.serve.body import GoneError
from readoff.serve.dialects import DECISIONS, SYSTEMONE, Dialect, dialect_of
from readoff.serve.docs_page import docs_page
from readoff.serve.endpoint import Endpoint
from readoff.serve.errors import HttpError, failure_of, unavailable
from readoff.serve.front import App, Front
from readoff.serve.keys import Keys
from readoff.serve.log import Log, where
from readoff.serve.metrics import CONTENT_TYPE, Metrics
from readoff.serve.openapi import openapi
from readoff.serve.page import router
from readoff.serve.record import GONE, record_of
from readoff.serve.served import Models
from readoff.serve.settings import Settings
from readoff.serve.tracing import Tracing

_READ = ["GET", "HEAD"]

DIALECTS: dict[str, Dialect] = {"/v1/systemone": SYSTEMONE, "/v1/decisions": DECISIONS}


def make_app(
    models: Models,
    settings: Settings | None = None,
    *,
    keys: Keys | None = None,
    log: Log | None = None,
    tracing: Tracing | None = None,
) -> App:
    """The application, ready to be run by any ASGI server; see `readoff.serve.server` for ours,
    which adds the limits that an application can't set."""
    settings = settings or Settings()
    metrics = Metrics(models)
    app = FastAPI(
        title="readoff",
        version=version("readoff"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for path, dialect in DIALECTS.items():
        endpoint = Endpoint(dialect, models, settings, metrics)
        app.add_api_route(path, _asks(endpoint), methods=["POST"], response_model=None)
    keys = keys or Keys()
    _add_pages(app, models, metrics)
    _add_documents(app, openapi(models.names(), settings, keys=len(keys) > 0))
    for kind in (HTTPException, HttpError, ReadoffError, GoneError, Exception):
        app.add_exception_handler(kind, _as_failure)
    routes = {getattr(r, "path", ""): getattr(r, "path", "") for r in app.routes}
    return Front(app, models, keys, metrics, log or Log("none"), tracing or Tracing(), routes)


def _asks(endpoint: Endpoint) -> Any:
    async def ask(request: Request) -> Response:
        content = await endpoint.answer(request.scope, request.receive)
        return Response(content, media_type="application/json")

    return ask


def _add_pages(app: FastAPI, models: Models, metrics: Metrics) -> None:
    @app.api_route("/v1/models", methods=_READ)
    async def list_models() -> Response:
        return JSONResponse(models.listing())

    @app.api_route("/health/live", methods=_READ)
    async def live() -> Response:
        return JSONResponse({"status": "live"})

    @app.api_route("/health/ready", methods=_READ)
    async def ready() -> Response:
        if models.draining.is_set():
            raise unavailable("The server is about to stop.")
        if not models.ready:
            waiting = [model.name for model in models.all if model.engine is None]
            raise unavailable(f"Still loading: {', '.join(waiting)}.")
        return JSONResponse({"status": "ready", "models": [model.name for model in models.all]})

    @app.api_route("/metrics", methods=_READ)
    async def scrape() -> Response:
        return Response(metrics.expose(), media_type=CONTENT_TYPE)


def _add_documents(app: FastAPI, document: dict[str, Any]) -> None:
    data, page = wire.dumps(document).encode(), docs_page(document).encode()

    @app.api_route("/openapi.json", methods=_READ)
    async def schema() -> Response:
        return Response(data, media_type="application/json")

    @app.api_route("/docs", methods=_READ)
    async def docs() -> Response:
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    app.include_router(router)


async def _as_failure(request: Request, error: Exception) -> Response:
    """An error's answer, in the dialect of the path."""
    record = record_of(request.scope)
    if isinstance(error, GoneError):
        record.gone = True
        return Response(status_code=GONE)
    failure = _of_router(request, error) if isinstance(error, HTTPException) else failure_of(error)
    record.error = failure.kind
    if failure.status >= 500 and not isinstance(error, HttpError):
        record.raised = where(error)
    status, content = dialect_of(request.url.path).failure(failure)
    text = wire.dumps(content).encode("utf-8", "backslashreplace")
    return Response(text, status, dict(failure.headers), media_type="application/json")


def _of_router(request: Request, error: HTTPException) -> HttpError:
    """What the router says (no such path, no such method) as an error of ours."""
    message = f"There is no {echo(request.url.path)} here."
    if error.status_code == 405:
        message = f"{request.method} isn't possible here."
    return HttpError(
        error.status_code, "api_usage_error", message, headers=dict(error.headers or {})
    )
