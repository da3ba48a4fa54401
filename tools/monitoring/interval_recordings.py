"""What `prometheus: {recorded: true}` reads: each engine's minute, where stores hold too many samples."""

from __future__ import annotations

from monitoring.promql import over_time
from monitoring.rule import Recording
from vllm_advisor.sources.families import FAMILIES
from vllm_advisor.sources.prometheus.recorded import recorded_names

__all__ = ["INTERVAL_RECORDINGS", "INTERVAL_SECONDS"]

INTERVAL_SECONDS = 60
_WINDOW = "1m"
_LEVELS = {"running": "avg_over_time", "waiting": "avg_over_time", "kv_used_ratio": "max_over_time"}
"""Levels are means and maxima of the minute; everything else is what it came to at its end."""

INTERVAL_RECORDINGS = tuple(
    Recording(name, over_time(family.key, _LEVELS.get(family.key, "last_over_time"), _WINDOW, suffix=part))
    for family in FAMILIES
    for part, name in recorded_names(family).items()
)
