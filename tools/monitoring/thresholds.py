"""Every number at which a rule or a dashboard changes its mind; advice's own stand in the product."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds

__all__ = [
    "ADVICE",
    "FLAG_GAP_RATIO",
    "FULL_POOL_RATIO",
    "LOG_LINES_BAD_RATIO",
    "LOG_LINES_MIN_PER_SECOND",
    "PLATEAU_RATIO",
    "PREEMPTED_REQUESTS_RATIO",
    "TPOT_CRITICAL_FACTOR",
]

ADVICE = Thresholds()
"""Where advice begins: the alerts that need no advisor use the same numbers."""

FULL_POOL_RATIO = 0.95
"""A KV pool in use to this share has no room for another request."""

PLATEAU_RATIO = 0.95
"""Running requests at this share of their own hour's highest are held by a cap."""

PREEMPTED_REQUESTS_RATIO = 0.01
"""Preemptions for each finished request from which on memory is overbooked."""

FLAG_GAP_RATIO = 0.1
"""Configured and recommended are apart beyond this share of the configured value."""

TPOT_CRITICAL_FACTOR = 2.0
"""Time per output token at this multiple of its target is worth waking a person."""

LOG_LINES_BAD_RATIO = 0.1
"""Share of access-log lines that cannot be read from which on a log's format is wrong."""

LOG_LINES_MIN_PER_SECOND = 0.05
"""Fewer log lines, or finished requests, than this are too few to judge by."""
