"""Traces: only where an exporter is configured, and without user text."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from readoff.serve.record import Record
from readoff.serve.tracing import Traces, Tracing, tracing_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[tuple[Traces, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    yield traces, exporter
    traces.close()


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"method": "POST", "path": "/v1/systemone", "headers": list(headers)}


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_request_is_a_span_with_a_child_for_each_stage(
    spans: tuple[Traces, InMemorySpanExporter],
) -> None:
    traces, exporter = spans
    record = Record(model="tiny", questions=2, input_tokens=30)
    record.stages = {"read": 0.001, "parse": 0.002, "engine": 0.03}
    record.text = {"state": "secret"}
    traces.request(scope((b"traceparent", PARENT.encode())), record, "/v1/systemone", 200)
    found = by_name(exporter)
    whole = found["POST /v1/systemone"]
    assert found.keys() == {"POST /v1/systemone", "read", "parse", "engine"}
    assert whole.attributes is not None
    assert whole.attributes["readoff.request_id"] == record.id
    assert whole.attributes["readoff.questions"] == 2
    assert whole.parent is not None
    assert f"{whole.parent.span_id:x}" == "b7ad6b7169203331"
    assert whole.context.trace_id == found["engine"].context.trace_id
    engine = found["engine"]
    assert engine.parent is not None
    assert engine.parent.span_id == whole.context.span_id
    assert engine.start_time == record.clock + 3_000_000
    assert engine.end_time == record.clock + 33_000_000
    assert "secret" not in json.dumps([span.to_json() for span in found.values()])


def test_a_fault_of_the_server_is_an_error(spans: tuple[Traces, InMemorySpanExporter]) -> None:
    traces, exporter = spans
    traces.request(scope(), Record(error="internal_error"), "/v1/systemone", 500)
    traces.request(scope(), Record(error="value_error"), "/v1/systemone", 422)
    first, second = exporter.get_finished_spans()
    assert not first.status.is_ok
    assert first.attributes is not None
    assert first.attributes["error.type"] == "internal_error"
    assert second.status.is_unset


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_traced_unless_that_is_configured(environ: dict[str, str]) -> None:
    tracing, problem = tracing_of(environ)
    assert type(tracing) is Tracing
    assert problem is None


def test_a_configured_exporter_is_used() -> None:
    tracing, problem = tracing_of({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"})
    assert isinstance(tracing, Traces)
    assert problem is None
    tracing.close()


def test_without_the_packages_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    tracing, problem = tracing_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert type(tracing) is Tracing
    assert problem is not None
    assert "pip install" in problem


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "only http/protobuf"),
    ],
)
def test_what_is_not_supported_is_said(environ: dict[str, str], said: str) -> None:
    tracing, problem = tracing_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", **environ})
    assert type(tracing) is Tracing
    assert problem is not None
    assert said in problem
