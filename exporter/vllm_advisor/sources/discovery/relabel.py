"""Relabelling as Prometheus does it: keep, drop and replace (``relabel_configs``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from vllm_advisor.config_discovery import RelabelConfig

__all__ = ["relabel", "target_name"]

_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


def relabel(labels: Mapping[str, str], steps: Iterable[RelabelConfig]) -> dict[str, str] | None:
    """Return a target's labels after every step, None when one drops it."""
    changed = dict(labels)
    for step in steps:
        value = step.separator.join(changed.get(name, "") for name in step.source_labels)
        match = _compiled(step.regex).fullmatch(value)
        if (step.action == "keep" and match is None) or (step.action == "drop" and match is not None):
            return None
        if step.action == "replace" and match is not None and step.target_label:
            name = _expanded(step.target_label, match)
            changed[name] = _expanded(step.replacement, match)
            if not changed[name]:
                del changed[name]
    return changed


def target_name(labels: Mapping[str, str]) -> str | None:
    """Return the page that labels name: ``host:port``, a URL where that says too little, None for no page."""
    address = labels.get("__address__", "").strip("/")
    scheme = labels.get("__scheme__", "http")
    path = labels.get("__metrics_path__", "/metrics")
    if not address:
        return None
    if "://" in address or (scheme, path) == ("http", "/metrics"):
        return address
    return f"{scheme}://{address}/{path.lstrip('/')}"


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.DOTALL)


def _expanded(template: str, match: re.Match[str]) -> str:
    """Put groups in for ``$1``, ``${1}`` and ``${name}``; a group that is not there is empty."""

    def group(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        try:
            return match[int(name) if name.isdigit() else name] or ""
        except IndexError:
            return ""

    return _REFERENCE.sub(group, template)
