"""`Tracing`: a trace of every request, where an OpenTelemetry exporter is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from readoff.serve.record import Record

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"


class Tracing:
    """Does nothing; see `tracing_of`."""

    def request(
        self, scope: MutableMapping[str, Any], record: Record, route: str, status: int
    ) -> None:
        """A request ended."""

    def close(self) -> None:
        """Send what waits."""


class Traces(Tracing):
    """A span a request, with a child for each of its stages. User text is in none of them."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("readoff")
        self._propagator = TraceContextTextMapPropagator()

    def request(
        self, scope: MutableMapping[str, Any], record: Record, route: str, status: int
    ) -> None:
        """See `Tracing`."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        carrier = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        parent = self._propagator.extract(carrier)
        attributes: dict[str, Any] = {
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": status,
            "readoff.request_id": record.id,
            "readoff.model": record.model,
            "readoff.questions": record.questions,
            "readoff.input_tokens": record.input_tokens,
            "readoff.cached_tokens": record.cached_tokens,
            "error.type": record.error,
        }
        span = self._tracer.start_span(
            f"{scope['method']} {route}",
            context=parent,
            kind=SpanKind.SERVER,
            start_time=record.clock,
            attributes={key: value for key, value in attributes.items() if value is not None},
        )
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        inside = set_span_in_context(span)
        begin = record.clock
        for stage, seconds in record.stages.items():
            end = begin + int(seconds * 1e9)
            self._tracer.start_span(stage, context=inside, start_time=begin).end(end)
            begin = end
        span.end()

    def close(self) -> None:
        """See `Tracing`."""
        self._provider.shutdown()


def tracing_of(environ: Mapping[str, str] = os.environ) -> tuple[Tracing, str | None]:
    """What the environment asks for, and why there are no traces although it asks for some."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Tracing(), None
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if exporter == "none":
        return Tracing(), None
    if exporter != "otlp":
        return (
            Tracing(),
            f"OTEL_TRACES_EXPORTER={exporter} isn't supported: only otlp and none are.",
        )
    if not any(environ.get(name) for name in ENDPOINTS):
        return Tracing(), None
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), HTTP)
    if protocol != HTTP:
        return Tracing(), f"The OTLP protocol {protocol} isn't supported: only {HTTP} is."
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        return Tracing(), (
            f"{error.name} isn't installed: pip install opentelemetry-sdk "
            "opentelemetry-exporter-otlp-proto-http"
        )
    name = environ.get("OTEL_SERVICE_NAME", "readoff")
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider), None
