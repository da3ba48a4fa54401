"""What the deployment's page says in words; the same sentences describe its charts to a screen reader."""

from __future__ import annotations

from vllm_advisor.ceilings.advice.case import Flag
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.recommendation import Binding, Recommendation
from vllm_advisor.evidence.lengths import LengthSource
from vllm_advisor.units import format_bytes, format_duration
from vllm_advisor.web.rendering import count, percentile

__all__ = [
    "cap_reason",
    "context_words",
    "latency_words",
    "length_reason",
    "memory_words",
    "occupancy_words",
    "overview_summary",
]

_SAME_RATIO = 0.05
"""A newest number this near to the published one is not worth a sentence."""


def overview_summary(recommendations: list[Recommendation], targets: int, unwell_targets: int) -> str:
    """Say how many deployments there are, how many want other flags, and how their targets are."""
    if not recommendations:
        return "No deployment has been evaluated yet."
    changes = sum(1 for one in recommendations if _wants_a_change(one))
    parts = [
        _plural(len(recommendations), "deployment"),
        f"{changes} would be started with other flags",
    ]
    if targets:
        unwell = f"{unwell_targets:,} of {_plural(targets, 'target')} not well"
        parts.append(unwell if unwell_targets else f"{_plural(targets, 'target')}, all well")
    return " · ".join(parts)


def length_reason(recommendation: Recommendation) -> str:
    """Say where the recommended max-model-len comes from."""
    context, config = recommendation.context, recommendation.deployment.context
    if context.quantile_tokens is None or recommendation.max_model_len.recommended is None:
        return context.reason or "No context lengths have been seen."
    return (
        f"{percentile(config.quantile)} of {count(recommendation.snapshot.context.requests)} requests is "
        f"{count(context.quantile_tokens)} tokens; with {config.margin_ratio:.0%} margin, up to a multiple "
        f"of {count(config.round_up_to_tokens)}.{_held(recommendation.max_model_len)}"
    )


def cap_reason(recommendation: Recommendation) -> str:
    """Say where the recommended max-num-seqs comes from."""
    memory, bounds = recommendation.memory, recommendation.latency_bounds
    held = _held(recommendation.max_num_seqs)
    match recommendation.binding:
        case Binding.LATENCY if recommendation.latency.sequences is None and bounds.at_most is not None:
            return (
                f"The latency ceiling binds: it is not known yet, but is {count(bounds.at_most)} at most. "
                f"Memory would hold {count(memory.sequences)}.{held}"
            )
        case Binding.LATENCY:
            binds = f"The latency ceiling binds: beyond it the {_target(recommendation)} is missed."
            return f"{binds} Memory would hold {count(memory.sequences)}.{held}"
        case Binding.MEMORY if recommendation.deployment.workload == "batch":
            return f"The memory ceiling binds; batch work has no latency target.{held}"
        case _ if recommendation.deployment.workload == "batch" and memory.sequences is not None:
            return f"{_batch_reason(recommendation)}{held}"
        case Binding.MEMORY:
            return f"The memory ceiling binds. Latency would allow {_allowed(recommendation)}.{held}"
    if memory.sequences is None:
        return f"The memory ceiling is not known: {memory.reason or 'no engine reported its pool'}."
    return "The latency ceiling is not known yet: traffic has not reached it."


def _allowed(recommendation: Recommendation) -> str:
    known, least = recommendation.latency.sequences, recommendation.latency_bounds.at_least
    return f"at least {count(least)}" if known is None and least is not None else count(known)


def _batch_reason(recommendation: Recommendation) -> str:
    """Say why batch work stays below the memory ceiling."""
    seen, cap = recommendation.latency.observed_to, recommendation.max_num_seqs
    if seen is None or cap.recommended is None:
        return "No sequences have been seen running yet, and nothing is recommended beyond what was seen."
    if cap.recommended <= seen:
        return (
            "More sequences at once were seen to bring no more throughput; batch work has no latency target."
        )
    room = count(recommendation.memory.expected_sequences)
    return (
        f"At most {_plural(seen, 'sequence')} ran at once, and no more than 1.5 times that is recommended; "
        f"memory is expected to hold {room} of the lengths seen."
    )


def _held(flag: Flag) -> str:
    """Say what the newest evidence alone would give, where the published number is another."""
    if flag.candidate is None or flag.recommended is None:
        return ""
    if abs(flag.candidate - flag.recommended) <= _SAME_RATIO * flag.recommended:
        return ""
    newest = f"The newest evidence alone gives {count(flag.candidate)}"
    return f" {newest}; what is published follows once the difference is more than noise."


def context_words(recommendation: Recommendation) -> str:
    """Say what the context lengths are and what both limits mean for them."""
    context, snapshot = recommendation.context, recommendation.snapshot.context
    if context.p50 is None:
        return "No request with token counts has been seen yet."
    source = "access logs" if snapshot.source is LengthSource.ACCESS_LOG else "the engine's histograms"
    quantiles = ", ".join(
        f"{name} {count(tokens)}"
        for name, tokens in (
            ("p50", context.p50),
            ("p90", context.p90),
            ("p99", context.p99),
            ("p99.9", context.p999),
        )
    )
    length = recommendation.max_model_len
    seen = f"{count(snapshot.requests)} requests, from {source}."
    words = f"{seen} Prompt and output together: {quantiles} tokens."
    if length.recommended is not None and length.configured is not None:
        words += (
            f" Today's limit is {count(length.configured)}, the recommended one {count(length.recommended)}: "
            f"{_share(context.over_recommended_ratio)} of the requests seen were longer."
        )
    return words


def latency_words(recommendation: Recommendation) -> str:
    """Say where the curve meets the target, and what that rests on."""
    latency = recommendation.latency
    if not latency.curve:
        return "No decoding has been seen yet, so there is no curve."
    words = (
        f"Seen up to {_plural(latency.observed_to or 0, 'sequence')} at once. The {_target(recommendation)} "
    )
    if latency.sequences is None:
        return words + "is not crossed by what was seen, so the latency ceiling is not known."
    words += f"is met up to {_plural(latency.sequences, 'sequence')}"
    if latency.low is not None and latency.high is not None:
        words += f", between {count(latency.low)} and {count(latency.high)}"
    return f"{words} ({latency.grade})."


def memory_words(recommendation: Recommendation) -> str:
    """Say how large the pool is, by arithmetic and by the engine, and how many sequences it holds."""
    memory = recommendation.memory
    length = recommendation.max_model_len.recommended or recommendation.max_model_len.configured
    words = []
    if memory.engine_tokens is not None:
        words.append(f"The engine reports a KV pool of {count(memory.engine_tokens)} tokens.")
    if memory.predicted_tokens is not None:
        words.append(f"Arithmetic gives {count(memory.predicted_tokens)}{_off(memory.error_ratio)}.")
    if memory.bytes_per_token is not None:
        words.append(f"A token takes {count(memory.bytes_per_token)} bytes over all GPUs.")
    if memory.sequences is not None and length is not None:
        words.append(f"That holds {_plural(memory.sequences, 'sequence')} of {count(length)} tokens.")
    if memory.predicted_tokens is None and recommendation.prediction is None:
        words.append("With engine.model_config and engine.gpu_memory the pool is worked out and compared.")
    headroom = recommendation.headroom
    if headroom is not None:
        spare = f", {format_bytes(headroom.spare_bytes)}" if headroom.spare_bytes else ""
        words.append(
            f"Beside the recommended flags {count(headroom.spare_tokens)} tokens{spare} stay unclaimed."
        )
    return " ".join(words) or "No engine has reported its KV pool."


def occupancy_words(recommendation: Recommendation) -> str:
    """Say how full the engines were."""
    seen, cap = recommendation.snapshot.occupancy, recommendation.max_num_seqs.configured
    if not seen.observed_seconds:
        return "Nothing has been seen yet."
    words = f"At most {count(seen.greatest_running)} sequences ran on one engine at once"
    at_cap = seen.steps_at_cap_ratio(cap)
    if at_cap is not None:
        words += f"; {at_cap:.1%} of engine steps ran at the cap of {count(cap)}"
    used = seen.kv_used_ratio(0.99)
    if used is not None:
        words += f". The KV pool was at most {used:.0%} in use for 99% of the time"
    return f"{words}. {_plural(int(seen.preemptions), 'sequence')} preempted."


def _target(recommendation: Recommendation) -> str:
    latency, slo = recommendation.latency, recommendation.deployment.slo
    assumed = " (assumed: none is configured)" if slo.tpot_is_assumed else ""
    return f"{latency.statistic} target of {format_duration(latency.slo_tpot_seconds)} a token{assumed}"


def _wants_a_change(recommendation: Recommendation) -> bool:
    flags = (recommendation.max_model_len, recommendation.max_num_seqs)
    return any(
        flag.recommended is not None and flag.grade is not Grade.NONE and flag.recommended != flag.configured
        for flag in flags
    )


def _share(ratio: float | None) -> str:
    if ratio is None:
        return "an unknown share"
    return "none" if ratio == 0 else f"{ratio:.2%}"


def _off(error_ratio: float | None) -> str:
    if error_ratio is None:
        return ""
    return f", {abs(error_ratio):.1%} {'more' if error_ratio > 0 else 'less'}"


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
