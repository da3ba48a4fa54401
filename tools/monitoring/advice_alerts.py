"""Alerts on what the advisor advises: the daemon's own thresholds, held for a while, told with numbers."""

from __future__ import annotations

from monitoring.promql import number_of
from monitoring.rule import Alert
from monitoring.thresholds import FLAG_GAP_RATIO, TPOT_CRITICAL_FACTOR
from vllm_advisor.ceilings.advice import SEVERITY, Code, Severity

__all__ = ["ADVICE_ALERTS", "alert_name"]


def alert_name(code: Code) -> str:
    """Return the name of an advice code's alert, such as ``VllmAdvisorCapBindsPoolIdle``."""
    return "VllmAdvisor" + code.title().replace("_", "")


def _given(code: Code) -> str:
    return f'deployment:vllm_advisor_advice:last5m{{code="{code}"}} == 1'


def _on_advice(code: Code, held: str, summary: str, description: str) -> Alert:
    return Alert(alert_name(code), _given(code), held, SEVERITY[code], summary, description)


_DEPLOYMENT = "{{ $labels.deployment }}"
_CAP = number_of("vllm_advisor_configured_max_num_seqs{DEPLOYMENT}", 'printf "%.0f"')
_BEST_CAP = number_of("vllm_advisor_recommended_max_num_seqs{DEPLOYMENT}", 'printf "%.0f"')
_LENGTH = number_of("vllm_advisor_configured_max_model_len_tokens{DEPLOYMENT}", 'printf "%.0f"')
_BEST_LENGTH = number_of("vllm_advisor_recommended_max_model_len_tokens{DEPLOYMENT}", 'printf "%.0f"')
_AT_CAP = number_of("vllm_advisor_steps_at_cap_ratio{DEPLOYMENT}", "humanizePercentage")
_POOL_USED = number_of('vllm_advisor_kv_pool_used_ratio{DEPLOYMENT,quantile="0.99"}', "humanizePercentage")
_BY_LATENCY = number_of('vllm_advisor_ceiling_sequences{DEPLOYMENT,ceiling="latency"}', 'printf "%.0f"')
_BY_MEMORY = number_of('vllm_advisor_ceiling_sequences{DEPLOYMENT,ceiling="memory"}', 'printf "%.0f"')
_TPOT = number_of("vllm_advisor_tpot_observed_seconds{DEPLOYMENT}", "humanizeDuration")
_SLO = number_of("vllm_advisor_tpot_slo_seconds{DEPLOYMENT}", "humanizeDuration")
_OVER_LIMIT = number_of(
    'vllm_advisor_context_over_limit_ratio{DEPLOYMENT,limit="configured"}', "humanizePercentage"
)
_P999 = number_of('vllm_advisor_context_length_tokens{DEPLOYMENT,quantile="0.999"}', 'printf "%.0f"')
_POOL = number_of('vllm_advisor_kv_pool_tokens{DEPLOYMENT,source="engine"}', 'printf "%.0f"')
_POOL_PREDICTED = number_of('vllm_advisor_kv_pool_tokens{DEPLOYMENT,source="predicted"}', 'printf "%.0f"')
_AGE = number_of("deployment:vllm_advisor_evidence_age_seconds:last5m{DEPLOYMENT}", "humanizeDuration")

_BLAME = (
    "{{ with printf `deployment_flag:vllm_advisor_tpot_blame:last5m{deployment=%q}` .Labels.deployment | "
    "query }}"
    '{{ if eq (. | first | label "flag") "max_num_seqs" }}'
    f"--max-num-seqs is to blame: it is {_CAP} and the target is met up to {_BY_LATENCY} sequences."
    "{{ else }}"
    "--max-model-len is to blame: memory binds, and preempted requests are computed again."
    "{{ end }}{{ else }}"
    "Neither flag is known to be to blame: the cap is within the latency ceiling, or that is not known yet."
    "{{ end }}"
)
_TPOT_DESCRIPTION = (
    f"The 0.99 quantile of the time per output token of {_DEPLOYMENT} is {_TPOT}, its target {_SLO}. {_BLAME}"
)

ADVICE_ALERTS = (
    _on_advice(
        Code.CAP_BINDS_POOL_IDLE,
        "15m",
        "The cap on running sequences holds requests back while the KV pool is idle.",
        f"{_DEPLOYMENT} runs {_AT_CAP} of its engine steps at --max-num-seqs {_CAP} with requests waiting, "
        f"while "
        f"the KV pool is at most {_POOL_USED} in use. Recommended: --max-num-seqs {_BEST_CAP}.",
    ),
    _on_advice(
        Code.CAP_ABOVE_LATENCY_CEILING,
        "1h",
        "The cap on running sequences lies above what the latency target allows.",
        f"{_DEPLOYMENT} runs with --max-num-seqs {_CAP}, and its target of {_SLO} for each output token is "
        f"met up "
        f"to {_BY_LATENCY} sequences. Recommended: --max-num-seqs {_BEST_CAP}.",
    ),
    _on_advice(
        Code.CAP_ABOVE_MEMORY_CEILING,
        "1h",
        "The cap on running sequences lies above what the KV pool holds.",
        f"{_DEPLOYMENT} runs with --max-num-seqs {_CAP}, and its KV pool of {_POOL} tokens holds "
        f"{_BY_MEMORY} "
        f"sequences of full length. Recommended: --max-num-seqs {_BEST_CAP}.",
    ),
    _on_advice(
        Code.MEMORY_BINDS,
        "15m",
        "Requests wait because the KV pool is full.",
        f"The KV pool of {_DEPLOYMENT}, {_POOL} tokens, is {_POOL_USED} in use at the 0.99 quantile of time. "
        f"Configured: --max-model-len {_LENGTH} --max-num-seqs {_CAP}. "
        f"Recommended: --max-model-len {_BEST_LENGTH} --max-num-seqs {_BEST_CAP}.",
    ),
    _on_advice(
        Code.TPOT_SLO_MISSED, "15m", "The time per output token misses its target.", _TPOT_DESCRIPTION
    ),
    Alert(
        alert_name(Code.TPOT_SLO_MISSED),
        f"deployment:vllm_advisor_tpot_over_slo:ratio >= {TPOT_CRITICAL_FACTOR:g}\n"
        "and ignoring (code, severity)\n"
        f"({_given(Code.TPOT_SLO_MISSED)})",
        "15m",
        Severity.CRITICAL,
        "The time per output token is far over its target.",
        _TPOT_DESCRIPTION,
    ),
    _on_advice(
        Code.MAX_MODEL_LEN_OVERSIZED,
        "6h",
        "The limit on context length is far above what the traffic needs.",
        f"{_DEPLOYMENT} runs with --max-model-len {_LENGTH}, and one request in a thousand is longer than "
        f"{_P999} "
        f"tokens. Recommended: --max-model-len {_BEST_LENGTH}.",
    ),
    _on_advice(
        Code.MAX_MODEL_LEN_REJECTING,
        "15m",
        "Requests are refused or cut because they are longer than the limit on context length.",
        f"{_OVER_LIMIT} of the requests of {_DEPLOYMENT} are over --max-model-len {_LENGTH}. "
        f"Recommended: --max-model-len {_BEST_LENGTH}.",
    ),
    _on_advice(
        Code.MAX_TOKENS_REJECTING,
        "15m",
        "Requests are refused or cut for the max_tokens they ask for, not for their length.",
        f"Clients of {_DEPLOYMENT} ask for more output than --max-model-len {_LENGTH} leaves beside their "
        f"prompts; "
        f"of their requests {_OVER_LIMIT} are really longer.",
    ),
    _on_advice(
        Code.KV_POOL_MISMATCH,
        "30m",
        "The engine's KV pool differs from the arithmetic.",
        f"The engine of {_DEPLOYMENT} reports a KV pool of {_POOL} tokens, the arithmetic gives "
        f"{_POOL_PREDICTED}.",
    ),
    _on_advice(
        Code.TRAFFIC_SHAPE_CHANGED,
        "1h",
        "The lengths of requests have changed.",
        f"Requests to {_DEPLOYMENT} are of other lengths than before; at the 0.999 quantile they are {_P999} "
        f"tokens. Configured: --max-model-len {_LENGTH}, recommended: {_BEST_LENGTH}.",
    ),
    _on_advice(
        Code.CONFIGURATION_DIVERGED,
        "30m",
        "The engines of a deployment do not run with what its configuration says, or differ from each other.",
        f"What the advisor was told of {_DEPLOYMENT} and what its engines report are not the same; it goes "
        f"by "
        f"--max-model-len {_LENGTH} and --max-num-seqs {_CAP}.",
    ),
    Alert(
        "VllmAdvisorRecommendationNotApplied",
        f"abs(deployment_flag:vllm_advisor_flag_gap:ratio) > {FLAG_GAP_RATIO:g}\n"
        "and on (deployment, flag)\n"
        'last_over_time(vllm_advisor_recommendation_grade{grade=~"measured|interpolated"}[5m]) == 1',
        "1d",
        Severity.INFO,
        "Configured and recommended flags have been apart for a day.",
        f"The {{{{ $labels.flag }}}} recommended for {_DEPLOYMENT} is {{{{ $value | humanizePercentage }}}} "
        f"away "
        f"from what it runs with. Configured: --max-model-len {_LENGTH} --max-num-seqs {_CAP}. "
        f"Recommended: --max-model-len {_BEST_LENGTH} --max-num-seqs {_BEST_CAP}.",
    ),
    _on_advice(
        Code.EVIDENCE_STALE,
        "15m",
        "Nothing new has been observed of a deployment.",
        f"The newest page or log line of {_DEPLOYMENT} is {_AGE} old.",
    ),
)
