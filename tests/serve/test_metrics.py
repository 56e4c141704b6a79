"""What Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from readoff.engine.answers import Decision, NoulAnswer, Usage, Verdict
from readoff.serve.metrics import Metrics, confidence
from readoff.serve.settings import Settings

from .rig import ASK, BODY, ONE, Borrowed, Held, client_of, models_of


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted(labels.items()))]


def test_a_request_is_counted_everywhere(engine: Borrowed) -> None:
    with client_of(engine, Settings(legal_mass_every=2)) as client:
        used = [client.post(ASK, json=BODY).json()["usage"] for _ in range(4)]
        client.post(ASK, json={})
        client.get("/no/such/path/of/a/stranger")
        text = client.get("/metrics").text
    assert value(text, "readoff_requests_total", route=ASK, status="200") == 4
    assert value(text, "readoff_requests_total", route=ASK, status="422") == 1
    assert value(text, "readoff_requests_total", route="other", status="404") == 1
    assert "stranger" not in text
    for stage in ("read", "parse", "engine", "render"):
        assert value(text, "readoff_stage_seconds_count", stage=stage) == 4
    whole = sum(
        value(text, "readoff_stage_seconds_sum", stage=s)
        for s in ("read", "parse", "engine", "render")
    )
    for kind in ("noul", "choice", "score"):
        assert value(text, "readoff_question_seconds_count", type=kind) == 4
        assert value(text, "readoff_question_seconds_sum", type=kind) >= whole * 0.99
        assert value(text, "readoff_confidence_count", type=kind) == 4
        assert value(text, "readoff_legal_mass_count", type=kind) == 2
    computed = value(text, "readoff_tokens_total", model="tiny", kind="computed")
    saved = value(text, "readoff_tokens_total", model="tiny", kind="saved")
    assert saved == sum(usage["x_cached_tokens"] for usage in used) > 0
    assert computed + saved == sum(usage["input_tokens"] for usage in used)
    assert value(text, "readoff_questions_sum") == 12
    assert value(text, "readoff_ready") == 1


def test_what_engines_count_is_read_at_a_scrape() -> None:
    with client_of(Held()) as client:
        response = client.get("/metrics")
    text = response.text
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert value(text, "readoff_queue_depth", model="tiny") == 3
    assert value(text, "readoff_passes_total", model="tiny") == 2
    assert value(text, "readoff_answered_total", model="tiny") == 8
    assert value(text, "readoff_batch_size", model="tiny") == 4
    assert value(text, "readoff_cache_hits_total", model="tiny") == 5
    assert value(text, "readoff_cache_used_bytes", model="tiny") == 7


def test_the_engines_own_names_are_there(engine: Borrowed) -> None:
    """A name that the engine gives up must be missed here."""
    with client_of(engine) as client:
        client.post(ASK, json=ONE)
        text = client.get("/metrics").text
    names = {name for name, _ in samples(text)}
    assert {
        "readoff_queue_depth",
        "readoff_passes_total",
        "readoff_computed_tokens_total",
        "readoff_answered_total",
        "readoff_cancelled_total",
        "readoff_expired_total",
        "readoff_rejected_total",
        "readoff_batch_size",
        "readoff_cache_used_bytes",
    } <= names
    assert any(name.startswith("readoff_cache_") and name.endswith("_total") for name in names)


def test_the_accept_rate() -> None:
    metrics = Metrics(models_of(Held()))
    answers = {name: NoulAnswer(p, {}) for name, p in (("a", 0.9), ("b", 0.4), ("c", 0.5))}
    verdicts = {"a": Verdict(True), "b": Verdict(False), "c": Verdict(False, "escalation")}
    decision = Decision(answers, Usage(9, 9, 0), 1.0, "tiny", verdicts)
    metrics.answered("tiny", decision, 0.1)
    text = metrics.expose().decode()
    assert value(text, "readoff_verdicts_total", model="tiny", accepted="true") == 1
    assert value(text, "readoff_verdicts_total", model="tiny", accepted="false") == 2


@pytest.mark.parametrize(("p", "sure"), [(0.0, 1.0), (0.2, 0.8), (0.5, 0.5), (0.9, 0.9)])
def test_confidence_of_a_noul(p: float, sure: float) -> None:
    assert confidence(NoulAnswer(p, {})) == pytest.approx(sure)


def test_two_servers_in_a_process_count_apart() -> None:
    first, second = Metrics(models_of(Held())), Metrics(models_of(Held()))
    first.request(ASK, 200)
    assert "readoff_requests_total{" in first.expose().decode()
    assert "readoff_requests_total{" not in second.expose().decode()
