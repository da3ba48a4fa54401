"""Names of what `rules/vllm-intervals.yml` records: every wanted series of an engine, once a minute."""

from __future__ import annotations

from vllm_advisor.sources.families import FAMILIES, Family, Kind

__all__ = ["RECORDED_NAMES", "page_name", "recorded_names"]

_LEVEL, _OPERATION, _PREFIX = "engine:", ":last1m", "vllm_"
_PARTS = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.TOTALS: ("_sum", "_count")}


def recorded_names(family: Family) -> dict[str, str]:
    """Return the recorded name of each part of a family, such as ``_sum``, under its newest name."""
    return {
        part: f"{_LEVEL}{_PREFIX}{family.names[0]}{part}{_OPERATION}"
        for part in _PARTS.get(family.kind, ("",))
    }


def page_name(name: str) -> str:
    """Return the name that a series has on a page, for one that is recorded or not."""
    return name.removeprefix(_LEVEL).removesuffix(_OPERATION)


RECORDED_NAMES = tuple(name for family in FAMILIES for name in recorded_names(family).values())
"""Every series that is recorded."""
