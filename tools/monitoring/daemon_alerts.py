"""Alerts on the advisor itself: what it watches, what it reads, and whether it runs."""

from __future__ import annotations

from monitoring.promql import vllm_rate
from monitoring.rule import Alert
from monitoring.thresholds import LOG_LINES_BAD_RATIO, LOG_LINES_MIN_PER_SECOND
from vllm_advisor.ceilings.advice import Severity

__all__ = ["DAEMON_ALERTS"]

_UP = 'up{job=~".*vllm-advisor.*"}'

_BAD_LINES = f"""\
sum without (outcome) (rate(vllm_advisor_log_lines_total{{outcome=~"broken|too_long|in_future"}}[15m]))
/
(sum without (outcome) (rate(vllm_advisor_log_lines_total[15m])) > {LOG_LINES_MIN_PER_SECOND:g})
> {LOG_LINES_BAD_RATIO:g}"""

_SILENT_LOGS = f"""\
sum without (outcome) (rate(vllm_advisor_log_lines_total[15m])) == 0
and
sum without (outcome) (rate(vllm_advisor_log_lines_total[6h])) > 0
and on ()
sum({vllm_rate("finished", "15m")}) > {LOG_LINES_MIN_PER_SECOND:g}"""

_DOWN = f"""\
{_UP} == 0
or
(absent(vllm_advisor_build_info) unless on () {_UP} == 0)"""

DAEMON_ALERTS = (
    Alert(
        "VllmAdvisorTargetDown",
        'deployment:vllm_advisor_targets:last5m{state="down"} > 0',
        "10m",
        Severity.WARNING,
        "An engine gives the advisor no page.",
        "{{ $value }} of the engines of {{ $labels.deployment }} cannot be read; /targets of the advisor "
        "says which, "
        "and why.",
    ),
    Alert(
        "VllmAdvisorLogUnreadable",
        _BAD_LINES,
        "15m",
        Severity.WARNING,
        "Access-log lines cannot be read.",
        "{{ $value | humanizePercentage }} of the access-log lines that {{ $labels.instance }} reads are "
        "broken, too long or dated in the future.",
    ),
    Alert(
        "VllmAdvisorLogSilent",
        _SILENT_LOGS,
        "15m",
        Severity.WARNING,
        "Access logs bring nothing new while the engines answer requests.",
        "{{ $labels.instance }} has read no access-log line for a quarter of an hour, and the engines finish "
        "requests.",
    ),
    Alert(
        "VllmAdvisorDown",
        _DOWN,
        "5m",
        Severity.WARNING,
        "The advisor is down.",
        "Prometheus gets no metrics from vllm-advisor{{ with $labels.instance }} at {{ . }}{{ end }}: "
        "none of its other alerts can fire.",
    ),
    Alert(
        "VllmAdvisorRuleFailed",
        "max without (instance, pod) (last_over_time(vllm_advisor_advice_rule_successful[5m]) == bool 0) == "
        "1",
        "15m",
        Severity.WARNING,
        "A rule of advice failed instead of answering.",
        "The rule {{ $labels.code }} fails for {{ $labels.deployment }}: nobody is told what it looks for. "
        "The advisor's log holds the error.",
    ),
    Alert(
        "VllmAdvisorConfigReloadFailed",
        "last_over_time(vllm_advisor_config_last_reload_successful[5m]) == 0",
        "5m",
        Severity.WARNING,
        "The advisor could not load its new configuration.",
        "{{ $labels.instance }} still runs with its earlier configuration; its log names what is wrong with "
        "the file.",
    ),
)
