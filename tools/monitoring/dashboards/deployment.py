"""One deployment: its lengths, latency, engines and KV pool, and how the recommendation came about."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.advice import advice_table
from monitoring.dashboards.frame import DEPLOYMENT_UID, finished, framed, variable
from monitoring.dashboards.panels import RED, YELLOW, Panel, Query, lines, number, states, xy
from monitoring.promql import vllm, vllm_rate
from monitoring.thresholds import ADVICE
from vllm_advisor.sources.families import PREFIXES

__all__ = ["deployment"]

_CHOSEN = '{deployment="$deployment"}'
_ENGINES = '{model_name=~"$model",instance=~"$instance"}'
_ENGINE = "{{instance}} {{engine}}"


def deployment(runbook_base: str) -> Dashboard:
    """Return the dashboard of one deployment."""
    board = framed(
        "vLLM advisor / Deployment",
        DEPLOYMENT_UID,
        "Why a deployment is advised what it is advised: lengths, latency, occupancy and memory.",
    )
    board = board.with_variable(
        variable("deployment", "Deployment", "label_values(vllm_advisor_advice, deployment)")
    )
    models = f"label_values(vllm_advisor_deployment_info{_CHOSEN}, model_name)"
    board = board.with_variable(variable("model", "Model", models))
    running = f"({'|'.join(PREFIXES)})num_requests_running"
    instances = f'label_values({{__name__=~"{running}",model_name=~"$model"}}, instance)'
    board = board.with_variable(variable("instance", "Engine", instances, several=True))
    for title, panels in (
        ("Recommendation", [*_recommendation(), advice_table(_CHOSEN, runbook_base)]),
        ("Context lengths", _lengths()),
        ("Latency", _latency()),
        ("Occupancy", _occupancy()),
        ("KV pool", _pool()),
        ("History", _history()),
    ):
        board = board.with_row(builders.Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return finished(board, _CHOSEN)


def _of(name: str, *matchers: str, by: str = "") -> str:
    chosen = ",".join(('deployment="$deployment"', *matchers))
    return (
        f"max by ({by}) (vllm_advisor_{name}{{{chosen}}})" if by else f"max(vllm_advisor_{name}{{{chosen}}})"
    )


def _recommendation() -> list[Panel]:
    grade = _of("recommendation_grade", 'flag="max_num_seqs"', by="grade")
    return [
        number(
            "Configured max-num-seqs",
            "Sequences that one engine may run at a time, as its flags, its start-up log or its behaviour "
            "tell.",
            Query(_of("configured_max_num_seqs")),
        ),
        number(
            "Recommended max-num-seqs",
            "The lower of the memory ceiling and the latency ceiling.",
            Query(_of("recommended_max_num_seqs")),
        ),
        number(
            "Binding ceiling",
            "The ceiling that the recommended max-num-seqs comes from; none where one of the two is not "
            "known.",
            Query(f"{_of('binding_ceiling', by='ceiling')} == 1", "{{ceiling}}"),
            text=True,
        ),
        number(
            "Configured max-model-len",
            "Tokens of prompt and output that one request may have.",
            Query(_of("configured_max_model_len_tokens")),
        ),
        number(
            "Recommended max-model-len",
            "The high quantile of context length with its margin, rounded up.",
            Query(_of("recommended_max_model_len_tokens")),
        ),
        number(
            "Grade of max-num-seqs",
            "What the recommended max-num-seqs rests on: measured, interpolated, extrapolated, assumed, or "
            "none.",
            Query(f"{grade} == 1", "{{grade}}"),
            text=True,
        ),
    ]


def _lengths() -> list[Panel]:
    return [
        lines(
            "Context lengths against the limit",
            "Prompt and output tokens of a request at quantiles of the window, and --max-model-len (dashed) "
            "as "
            "configured and as recommended. Far under the configured limit: memory is kept for requests that "
            "never come.",
            [
                Query(_of("context_length_tokens", by="quantile"), "quantile {{quantile}}"),
                Query(_of("configured_max_model_len_tokens"), "configured limit"),
                Query(_of("recommended_max_model_len_tokens"), "recommended limit"),
            ],
            logarithmic=True,
        ),
        lines(
            "Requests over the limit",
            "Share of requests that are longer than --max-model-len as configured, and as recommended: they "
            "are "
            "refused or cut.",
            [Query(_of("context_over_limit_ratio", by="limit"), "over what is {{limit}}")],
            unit="percentunit",
        ),
    ]


def _latency() -> list[Panel]:
    curve, target = _of("tpot_seconds", by="concurrency"), _of("tpot_slo_seconds")

    def mark(sequences: str) -> str:
        return f'count_values("concurrency", {sequences}) * 0 + on () group_left () {target}'

    rate = "$__rate_interval"
    decoded = (
        f"({vllm_rate('generation_tokens', rate, selector=_ENGINES)}) - "
        f"({vllm_rate('ttft', rate, suffix='_count', selector=_ENGINES)}) > 0"
    )
    mean = f"({vllm_rate('itl', rate, suffix='_sum', selector=_ENGINES)}) / ({decoded})"
    return [
        xy(
            "Time per output token against concurrency",
            "The curve fitted to the traffic, at the target's statistic; the target; and where on it the "
            "ceilings "
            "and the configured cap lie. Right of the latency ceiling the target is missed.",
            "concurrency",
            "sequences",
            [
                Query(curve, "time per output token"),
                Query(f"{curve} * 0 + on () group_left () {target}", "target"),
                Query(mark(_of("ceiling_sequences", 'ceiling="latency"')), "latency ceiling"),
                Query(mark(_of("ceiling_sequences", 'ceiling="memory"')), "memory ceiling"),
                Query(mark(_of("configured_max_num_seqs")), "configured cap"),
            ],
            unit="s",
        ),
        lines(
            "Time per output token",
            "The 0.99 quantile over the last minutes, the target (dashed), and each engine's mean by its own "
            "counters.",
            [
                Query(_of("tpot_observed_seconds"), "0.99 quantile"),
                Query(target, "target"),
                Query(mean, f"mean of {_ENGINE}"),
            ],
            unit="s",
            width=24,
        ),
    ]


def _occupancy() -> list[Panel]:
    running = f"max without (pid) ({vllm('running', _ENGINES)})"
    waiting = f"max without (pid) ({vllm('waiting', _ENGINES)})"
    used = f"max without (pid) ({vllm('kv_used_ratio', _ENGINES)})"
    return [
        lines(
            "Running and waiting",
            "Sequences on each engine, and the cap on running ones (dashed). Waiting while running lies on "
            "the cap: "
            "the cap binds.",
            [
                Query(running, f"running on {_ENGINE}"),
                Query(waiting, f"waiting for {_ENGINE}"),
                Query(_of("configured_max_num_seqs"), "cap of one engine"),
            ],
        ),
        lines(
            "KV pool in use",
            "Share of each engine's KV pool in use. Low while requests wait: memory is not what they wait "
            "for.",
            [Query(used, _ENGINE)],
            unit="percentunit",
            top=1,
        ),
        lines(
            "What bound the engines",
            "Share of busy time of the last day by what held requests back: memory, latency, the cap, the "
            "token "
            "budget of a step, or nothing.",
            [Query(_of("bound_time_ratio", by="by"), "{{by}}")],
            unit="percentunit",
            width=8,
            top=1,
        ),
        lines(
            "Engine steps at the cap",
            "Share of engine steps of the last day that ran as many sequences as the cap allows.",
            [Query(_of("steps_at_cap_ratio"), "share of steps")],
            unit="percentunit",
            width=8,
            top=1,
        ),
        lines(
            "Preemptions",
            "Sequences that engines put back each second for want of KV blocks; their tokens are computed "
            "again.",
            [Query(vllm_rate("preemptions", "$__rate_interval", selector=_ENGINES), _ENGINE)],
            unit="ops",
            width=8,
        ),
    ]


def _pool() -> list[Panel]:
    error = _of("kv_pool_prediction_error_ratio")
    return [
        lines(
            "KV pool of one engine",
            "Tokens that it holds, as the engine reports and as the arithmetic from model and GPU gives. "
            "No predicted line: no model configuration was given.",
            [Query(_of("kv_pool_tokens", by="source"), "{{source}}")],
        ),
        lines(
            "Sequences that memory holds",
            "The memory ceiling, where every sequence has full length, and how many of the lengths seen "
            "overflow "
            "the pool with a probability below 0.1%.",
            [
                Query(_of("ceiling_sequences", 'ceiling="memory"'), "of full length"),
                Query(_of("memory_ceiling_expected_sequences"), "of the lengths seen"),
            ],
        ),
        number(
            "Arithmetic off by",
            "How far the worked-out KV pool is from the engine's: within 5% they agree.",
            Query(f"abs({error})"),
            unit="percentunit",
            colours={ADVICE.prediction_error_ratio: YELLOW, 2 * ADVICE.prediction_error_ratio: RED},
        ),
        number("KV bytes per token", "Over all ranks.", Query(_of("kv_bytes_per_token")), unit="bytes"),
        number(
            "KV pool in use, median",
            "At the median of the last day's time.",
            Query(_of("kv_pool_used_ratio", 'quantile="0.5"')),
            unit="percentunit",
        ),
        number(
            "KV pool in use, 0.99 quantile",
            "At the 0.99 quantile of the last day's time.",
            Query(_of("kv_pool_used_ratio", 'quantile="0.99"')),
            unit="percentunit",
        ),
        number(
            "Requests in the window",
            "Requests whose lengths the recommended max-model-len rests on.",
            Query(_of("context_requests")),
        ),
        number(
            "Last change",
            "Time since one of the recommended flags last changed.",
            Query(f"time() - {_of('recommendation_changed_timestamp_seconds')}"),
            unit="s",
        ),
    ]


def _history() -> list[Panel]:
    return [
        lines(
            "max-num-seqs",
            "As recommended and as configured, with the ceilings that it comes from. The candidate is what "
            "the evidence says now: it is recommended once it has differed for long enough.",
            [
                Query(_of("recommended_max_num_seqs"), "recommended"),
                Query(_of("candidate_max_num_seqs"), "candidate"),
                Query(_of("configured_max_num_seqs"), "configured cap"),
                Query(_of("ceiling_sequences", by="ceiling"), "{{ceiling}} ceiling"),
            ],
            steps=True,
        ),
        lines(
            "max-model-len",
            "As recommended and as configured. The candidate is what the evidence says now.",
            [
                Query(_of("recommended_max_model_len_tokens"), "recommended"),
                Query(_of("candidate_max_model_len_tokens"), "candidate"),
                Query(_of("configured_max_model_len_tokens"), "configured limit"),
            ],
            steps=True,
            logarithmic=True,
        ),
        states(
            "Advice over time",
            "When each advice was given.",
            Query(f"{_of('advice', by='code')} == 1", "{{code}}"),
            text="given",
        ),
    ]
