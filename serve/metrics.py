"""`Metrics`: what Prometheus reads at `/metrics`, in a registry of this server's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from readoff.engine.answers import Answer, ChoiceAnswer, Decision, ScoreAnswer
from readoff.serve.served import Models

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STAGES = ("read", "parse", "engine", "render")
TYPES = ("noul", "choice", "score")

_SECONDS = (5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SHARES = tuple(n / 20 for n in range(1, 21))
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counts and histograms of requests; what engines count themselves is asked for at a scrape."""

    def __init__(self, models: Models) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter(
            "readoff_requests",
            "Requests by route and status.",
            ("route", "status"),
            **own,
        )
        self._stage = Histogram(
            "readoff_stage_seconds",
            "Time of a request's stages: its body read, parsed, answered by the engine (waiting, "
            "computing), rendered.",
            ("stage",),
            buckets=_SECONDS,
            **own,
        )
        self._latency = Histogram(
            "readoff_question_seconds",
            "Time of a whole request, once for each type of question in it.",
            ("type",),
            buckets=_SECONDS,
            **own,
        )
        self._questions = Histogram(
            "readoff_questions", "Questions of a request.", buckets=_COUNTS, **own
        )
        self._confidence = Histogram(
            "readoff_confidence",
            "Confidence of choices and scores; of nouls the larger probability.",
            ("type",),
            buckets=_SHARES,
            **own,
        )
        self._verdicts = Counter(
            "readoff_verdicts",
            "Answers by what the gate made of them: the accept rate.",
            ("model", "accepted"),
            **own,
        )
        self._mass = Histogram(
            "readoff_legal_mass",
            "Legal mass of the answers of sampled requests.",
            ("type",),
            buckets=_SHARES,
            **own,
        )
        self._tokens = Counter(
            "readoff_tokens",
            "Tokens of prompts: computed, or saved because they were cached.",
            ("model", "kind"),
            **own,
        )
        self.in_flight = Gauge("readoff_requests_in_flight", "Requests being answered.", **own)
        self.registry.register(_Engines(models))
        # Looking a label up costs more than counting: those of every request are looked up once.
        self._stages = {stage: self._stage.labels(stage) for stage in STAGES}
        self._latencies = {kind: self._latency.labels(kind) for kind in TYPES}
        self._confidences = {kind: self._confidence.labels(kind) for kind in TYPES}

    def request(self, route: str, status: int) -> None:
        """A request ended."""
        self._requests.labels(route, str(status)).inc()

    def stage(self, stage: str, seconds: float) -> None:
        """One of `STAGES` took so long."""
        self._stages[stage].observe(seconds)

    def answered(self, model: str, decision: Decision, seconds: float) -> None:
        """A request was answered, in so many seconds in all."""
        usage = decision.usage
        self._tokens.labels(model, "computed").inc(usage.computed_tokens)
        self._tokens.labels(model, "saved").inc(usage.cached_tokens)
        self._questions.observe(len(decision))
        for answer in decision.values():
            self._confidences[answer.type].observe(confidence(answer))
            if answer.legal_mass is not None:
                self._mass.labels(answer.type).observe(answer.legal_mass)
        for kind in {answer.type for answer in decision.values()}:
            self._latencies[kind].observe(seconds)
        for verdict in decision.verdicts.values():
            self._verdicts.labels(model, "true" if verdict.accept else "false").inc()

    def expose(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)


def confidence(answer: Answer) -> float:
    """From 0 to 1: the answer's confidence, for a noul the larger probability."""
    if isinstance(answer, ChoiceAnswer | ScoreAnswer):
        return answer.confidence
    return max(answer.noul, 1.0 - answer.noul)


class _Engines(Collector):
    """What every engine counts, read at a scrape."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """The families, a sample a model in each."""
        stats = {m.name: m.engine.stats() for m in self._models.all if m.engine is not None}
        yield _gauge("readoff_ready", "1 when every model is warm.", {"": int(self._models.ready)})
        for name, key, text in (
            ("readoff_queue_depth", "waiting", "Requests that wait for a pass or are in one."),
        ):
            yield _gauge(name, text, _pick(stats, key))
        for name, key, text in (
            ("readoff_passes", "steps", "Forward passes."),
            ("readoff_computed_tokens", "computed_tokens", "Tokens that passes computed."),
            ("readoff_engine_requests", "requests", "Requests that reached the engine."),
            ("readoff_answered", "answered", "Requests that the engine answered."),
            ("readoff_failed", "failed", "Requests that failed in the engine."),
            ("readoff_cancelled", "cancelled", "Requests whose client went away."),
            ("readoff_expired", "expired", "Requests whose deadline passed."),
            ("readoff_rejected", "rejected", "Requests that found the engine's queue full."),
        ):
            yield _counter(name, text, _pick(stats, key))
        yield _gauge(
            "readoff_batch_size",
            "Requests answered per forward pass, since the start (over a window: divide the rates "
            "of readoff_answered_total and readoff_passes_total).",
            {
                name: told["answered"] / told["steps"]
                for name, told in stats.items()
                if told.get("steps") and "answered" in told
            },
        )
        caches = {name: told["cache"] for name, told in stats.items() if "cache" in told}
        keys = sorted({key for told in caches.values() for key in told})
        for key in keys:
            values = _pick(caches, key)
            if key.endswith("_bytes") or key in ("tokens", "snapshots", "pasts"):
                yield _gauge(f"readoff_cache_{key}", f"The prefix cache: {key}.", values)
            else:
                yield _counter(f"readoff_cache_{key}", f"The prefix cache: {key}.", values)


def _pick(stats: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, float]:
    return {
        name: told[key] for name, told in stats.items() if isinstance(told.get(key), int | float)
    }


def _gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    plain = list(values) == [""]
    family = GaugeMetricFamily(name, text, labels=[] if plain else ["model"])
    for model, value in values.items():
        family.add_metric([] if plain else [model], value)
    return family


def _counter(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["model"])
    for model, value in values.items():
        family.add_metric([model], value)
    return family
