"""The fleet: a row for each deployment, configured against recommended."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.advice import advice_table
from monitoring.dashboards.frame import DEPLOYMENT_UID, FLEET_UID, finished, framed, variable
from monitoring.dashboards.panels import RED, YELLOW, Column, Link, Panel, Query, lines, number, table_of
from monitoring.thresholds import ADVICE

__all__ = ["fleet"]

_CHOSEN = '{deployment=~"$deployment"}'
_TO_DEPLOYMENT = Link(
    "Look into ${__value.text}",
    f"/d/{DEPLOYMENT_UID}?${{datasource:queryparam}}&var-deployment=${{__value.raw}}&${{__url_time_range}}",
)


def fleet(runbook_base: str) -> Dashboard:
    """Return the dashboard of all deployments."""
    board = framed(
        "vLLM advisor / Fleet", FLEET_UID, "Configured against recommended flags of every deployment."
    )
    deployments = "label_values(vllm_advisor_advice, deployment)"
    board = board.with_variable(variable("deployment", "Deployment", deployments, several=True))
    for panel in _numbers():
        board = board.with_panel(panel)
    board = board.with_panel(_deployments()).with_panel(advice_table(_CHOSEN, runbook_base))
    board = board.with_panel(
        lines(
            "Engine steps at the cap",
            "Share of engine steps that ran as many sequences as --max-num-seqs allows. High beside an idle "
            "KV "
            "pool: throughput that nobody gets.",
            [Query(_by_deployment("vllm_advisor_steps_at_cap_ratio"), "{{deployment}}")],
            unit="percentunit",
            top=1,
        )
    )
    board = board.with_panel(
        lines(
            "KV pool in use",
            "The 0.99 quantile of time of the share of the KV pool in use, over the last day.",
            [Query(_by_deployment("vllm_advisor_kv_pool_used_ratio", 'quantile="0.99"'), "{{deployment}}")],
            unit="percentunit",
            top=1,
        )
    )
    return finished(board, _CHOSEN)


def _by_deployment(name: str, *matchers: str) -> str:
    chosen = ",".join(('deployment=~"$deployment"', *matchers))
    return f"max by (deployment) ({name}{{{chosen}}})"


def _numbers() -> list[Panel]:
    def advised(severity: str) -> Query:
        matchers = f'deployment=~"$deployment",severity="{severity}"'
        return Query(
            f"count(max by (deployment, code) (vllm_advisor_advice{{{matchers}}}) == 1) or vector(0)"
        )

    down = _by_deployment("vllm_advisor_targets", 'state="down"')
    age = f"max(time() - {_by_deployment('vllm_advisor_last_observation_timestamp_seconds')})"
    return [
        number(
            "Deployments",
            "Deployments that the advisor watches.",
            Query(f"count({_by_deployment('vllm_advisor_advice')})"),
        ),
        number(
            "Warnings",
            "Advice of severity warning that is given now, over all deployments.",
            advised("warning"),
            colours={1: YELLOW},
        ),
        number("Notes", "Advice of severity info that is given now, over all deployments.", advised("info")),
        number(
            "Engines not read",
            "Engines whose page the advisor cannot read; its /targets says which, and why.",
            Query(f"sum({down})"),
            colours={1: RED},
        ),
        number(
            "Oldest evidence",
            "Time since the newest page or log line of the deployment that was heard of least lately.",
            Query(age),
            unit="s",
            colours={ADVICE.stale_seconds: RED},
        ),
        number(
            "Advisor",
            "The version of vllm-advisor that answers.",
            Query("max by (version) (vllm_advisor_build_info)", "{{version}}"),
            text=True,
        ),
    ]


def _graded(flag: str, label: str) -> str:
    grades = f'vllm_advisor_recommendation_grade{{deployment=~"$deployment",flag="{flag}"}} == 1'
    return f'max by (deployment, {label}) (label_replace({grades}, "{label}", "$1", "grade", "(.*)"))'


def _deployments() -> Panel:
    def value(title: str, name: str, *matchers: str, unit: str = "locale") -> Column:
        return Column(title, Query(_by_deployment(name, *matchers)), unit)

    binding = f"max by (deployment, ceiling) (vllm_advisor_binding_ceiling{_CHOSEN} == 1)"
    advised = f"sum by (deployment) (max by (deployment, code) (vllm_advisor_advice{_CHOSEN}))"
    return table_of(
        "Deployments",
        "Both flags as configured and as recommended, the ceiling that the recommended max-num-seqs comes "
        "from, "
        "and what each number rests on. An empty cell: the evidence does not carry a number.",
        [
            Column("Deployment", "deployment", link=_TO_DEPLOYMENT),
            value("max-num-seqs", "vllm_advisor_configured_max_num_seqs"),
            value("recommended max-num-seqs", "vllm_advisor_recommended_max_num_seqs"),
            Column("binding ceiling", "ceiling"),
            Column("grade of max-num-seqs", "seqs_grade"),
            value("max-model-len", "vllm_advisor_configured_max_model_len_tokens"),
            value("recommended max-model-len", "vllm_advisor_recommended_max_model_len_tokens"),
            Column("grade of max-model-len", "len_grade"),
            value("memory ceiling", "vllm_advisor_ceiling_sequences", 'ceiling="memory"'),
            value("latency ceiling", "vllm_advisor_ceiling_sequences", 'ceiling="latency"'),
            value("TPOT p99", "vllm_advisor_tpot_observed_seconds", unit="s"),
            value("TPOT target", "vllm_advisor_tpot_slo_seconds", unit="s"),
            Column("advice", Query(advised), colours={1: YELLOW}),
        ],
        of_labels=[
            Query(binding),
            Query(_graded("max_model_len", "len_grade")),
            Query(_graded("max_num_seqs", "seqs_grade")),
        ],
    )
