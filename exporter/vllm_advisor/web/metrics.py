"""The one table of exported metrics, and the page made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from vllm_advisor.ceilings.advice import SEVERITY
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.recommendation import Binding, Recommendation

__all__ = ["PREFIX", "TABLE", "ExportedGauge", "RecommendationCollector"]

PREFIX = "vllm_advisor_"

Value = tuple[tuple[str, ...], float | None]
Values = Callable[[Recommendation], Iterable[Value]]


@dataclass(frozen=True, slots=True)
class ExportedGauge:
    """One exported gauge.

    Args:
        name: without prefix.
        labels: beside ``deployment``.
        values: label values and number of each series; a series whose number is None is absent.
    """

    name: str
    help: str
    values: Values
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type on the page: quantiles are a summary's, and ``promtool check metrics`` holds to that."""
        return "summary" if "quantile" in self.labels else "gauge"


def _one(value: Callable[[Recommendation], float | None]) -> Values:
    return lambda recommendation: [((), value(recommendation))]


def _grades(recommendation: Recommendation) -> Iterator[Value]:
    flags = {
        "max_model_len": recommendation.max_model_len.grade,
        "max_num_seqs": recommendation.max_num_seqs.grade,
    }
    for flag, held in flags.items():
        for grade in Grade:
            yield (flag, grade), float(grade is held)


def _binding(recommendation: Recommendation) -> Iterator[Value]:
    for ceiling in Binding:
        yield (ceiling,), float(ceiling is recommendation.binding)


def _ceilings(recommendation: Recommendation) -> Iterator[Value]:
    yield ("memory",), recommendation.memory.sequences
    yield ("latency",), recommendation.latency.sequences


def _context_quantiles(recommendation: Recommendation) -> Iterator[Value]:
    context = recommendation.context
    yield ("0.5",), context.p50
    yield ("0.9",), context.p90
    yield ("0.99",), context.p99
    yield ("0.999",), context.p999


def _over_limit(recommendation: Recommendation) -> Iterator[Value]:
    yield ("configured",), recommendation.context.over_configured_ratio
    yield ("recommended",), recommendation.context.over_recommended_ratio


def _curve(recommendation: Recommendation) -> Iterator[Value]:
    # At whole numbers: a label that moved with every fit would be a new series each time.
    curve = {round(point.concurrency): point.tpot_seconds for point in recommendation.latency.curve}
    for concurrency, tpot_seconds in curve.items():
        yield (str(concurrency),), tpot_seconds


def _pool(recommendation: Recommendation) -> Iterator[Value]:
    yield ("engine",), recommendation.memory.engine_tokens
    yield ("predicted",), recommendation.memory.predicted_tokens


def _kv_used(recommendation: Recommendation) -> Iterator[Value]:
    for quantile in (0.5, 0.99):
        yield (f"{quantile:g}",), recommendation.snapshot.occupancy.kv_used_ratio(quantile)


def _bound_time(recommendation: Recommendation) -> Iterator[Value]:
    for bound in Bound:
        yield (bound,), recommendation.bound_time.ratio(bound)


def _headroom(recommendation: Recommendation) -> float | None:
    return recommendation.headroom.spare_tokens if recommendation.headroom else None


def _failed_rules(recommendation: Recommendation) -> Iterator[Value]:
    failed = {failure.code for failure in recommendation.failed_rules}
    for code in SEVERITY:
        yield (code,), float(code not in failed)


def _advice(recommendation: Recommendation) -> Iterator[Value]:
    given = {advice.code for advice in recommendation.advice}
    for code, severity in SEVERITY.items():
        yield (code, severity), float(code in given)


def _model(recommendation: Recommendation) -> Iterator[Value]:
    if recommendation.snapshot.model_name is not None:
        yield (recommendation.snapshot.model_name,), 1.0


TABLE = (
    ExportedGauge(
        "deployment_info",
        "Always 1: the model that a deployment serves, as its engines name it on their pages.",
        _model,
        ("model_name",),
    ),
    ExportedGauge(
        "recommended_max_model_len_tokens",
        "The --max-model-len that the traffic supports.",
        _one(lambda r: r.max_model_len.recommended),
    ),
    ExportedGauge(
        "configured_max_model_len_tokens",
        "The --max-model-len that the engines run with.",
        _one(lambda r: r.max_model_len.configured),
    ),
    ExportedGauge(
        "recommended_max_num_seqs",
        "The --max-num-seqs that memory and latency allow.",
        _one(lambda r: r.max_num_seqs.recommended),
    ),
    ExportedGauge(
        "configured_max_num_seqs",
        "The --max-num-seqs that the engines run with.",
        _one(lambda r: r.max_num_seqs.configured),
    ),
    ExportedGauge(
        "candidate_max_model_len_tokens",
        "What the evidence says of --max-model-len now; it is recommended once it differs for long enough.",
        _one(lambda r: r.max_model_len.candidate),
    ),
    ExportedGauge(
        "candidate_max_num_seqs",
        "What the evidence says of --max-num-seqs now; it is recommended once it differs for long enough.",
        _one(lambda r: r.max_num_seqs.candidate),
    ),
    ExportedGauge(
        "recommendation_grade",
        "What a recommended flag rests on: 1 for the grade that holds.",
        _grades,
        ("flag", "grade"),
    ),
    ExportedGauge(
        "ceiling_sequences",
        "Largest number of sequences on one engine that a ceiling allows.",
        _ceilings,
        ("ceiling",),
    ),
    ExportedGauge(
        "memory_ceiling_expected_sequences",
        "Sequences of the observed lengths that overflow the KV pool with a probability below 0.1%.",
        _one(lambda r: r.memory.expected_sequences),
    ),
    ExportedGauge(
        "binding_ceiling",
        "The ceiling that the recommended max-num-seqs comes from: 1 for the one that binds.",
        _binding,
        ("ceiling",),
    ),
    ExportedGauge(
        "context_length_tokens",
        "Prompt and output tokens of a request, at quantiles of the window.",
        _context_quantiles,
        ("quantile",),
    ),
    ExportedGauge(
        "context_requests",
        "Requests in the window of context lengths.",
        _one(lambda r: r.snapshot.context.requests),
    ),
    ExportedGauge(
        "context_over_limit_ratio",
        "Share of requests longer than a limit.",
        _over_limit,
        ("limit",),
    ),
    ExportedGauge(
        "tpot_seconds",
        "Time per output token at the target's statistic, by concurrency: the fitted curve.",
        _curve,
        ("concurrency",),
    ),
    ExportedGauge(
        "tpot_observed_seconds",
        "Time per output token over the last minutes, 0.99 quantile.",
        _one(lambda r: r.snapshot.latency.tpot_recent_p99_seconds),
    ),
    ExportedGauge(
        "tpot_slo_seconds",
        "The target for the time per output token.",
        _one(lambda r: None if r.deployment.workload == "batch" else r.deployment.slo.tpot_seconds),
    ),
    ExportedGauge(
        "kv_pool_tokens",
        "KV pool of one engine, as it reports it and as worked out.",
        _pool,
        ("source",),
    ),
    ExportedGauge(
        "kv_bytes_per_token",
        "KV cache bytes of one token over all ranks.",
        _one(lambda r: r.memory.bytes_per_token),
    ),
    ExportedGauge(
        "kv_pool_prediction_error_ratio",
        "Worked-out KV pool over the engine's, less one.",
        _one(lambda r: r.memory.error_ratio),
    ),
    ExportedGauge(
        "steps_at_cap_ratio",
        "Share of engine steps with as many sequences running as the cap allows.",
        _one(lambda r: r.snapshot.occupancy.steps_at_cap_ratio(r.max_num_seqs.configured)),
    ),
    ExportedGauge(
        "kv_pool_used_ratio",
        "Share of the KV pool in use, at quantiles of time.",
        _kv_used,
        ("quantile",),
    ),
    ExportedGauge(
        "bound_time_ratio",
        "Share of busy time by what bound the engines: memory, latency, cap, token_budget or not_loaded.",
        _bound_time,
        ("by",),
    ),
    ExportedGauge(
        "memory_headroom_tokens",
        "Tokens of one engine's KV pool left beside the recommended number of full-length sequences.",
        _one(_headroom),
    ),
    ExportedGauge("advice", "1 while an advice is given.", _advice, ("code", "severity")),
    ExportedGauge(
        "advice_rule_successful",
        "0 for a rule of advice that failed instead of answering.",
        _failed_rules,
        ("code",),
    ),
    ExportedGauge(
        "last_evaluation_timestamp_seconds",
        "When the recommendation was last worked out.",
        _one(lambda r: r.snapshot.now_seconds),
    ),
    ExportedGauge(
        "last_observation_timestamp_seconds",
        "When the newest page or log line was from.",
        _one(lambda r: r.snapshot.last_observation_seconds),
    ),
)


class RecommendationCollector(Collector):
    """Turns the newest recommendations into metric families, afresh on each scrape.

    Args:
        recommendations: gives the newest of each deployment, by name.
        changed_seconds: gives when a deployment's flags last changed, by name.
    """

    def __init__(
        self,
        recommendations: Callable[[], Mapping[str, Recommendation]],
        changed_seconds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._recommendations = recommendations
        self._changed_seconds = changed_seconds

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has a series."""
        recommendations = self._recommendations()
        for exported in TABLE:
            family = Metric(PREFIX + exported.name, exported.help, exported.kind)
            for name, recommendation in recommendations.items():
                for values, number in exported.values(recommendation):
                    if number is not None:
                        labels = {"deployment": name} | dict(zip(exported.labels, values, strict=True))
                        family.add_sample(family.name, labels, number)
            if family.samples:
                yield family
        changed = Metric(
            PREFIX + "recommendation_changed_timestamp_seconds",
            "When one of the recommended flags last changed.",
            "gauge",
        )
        for name, seconds in self._changed_seconds().items():
            changed.add_sample(changed.name, {"deployment": name}, seconds)
        if changed.samples:
            yield changed

    def describe(self) -> list[Metric]:
        """Return nothing: what is exported depends on what is known."""
        return []
