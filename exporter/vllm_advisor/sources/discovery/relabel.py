"""Relabelling as Prometheus does it (``relabel_configs``).

Meaning: Prometheus' configuration page and its ``model/relabel/relabel.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import md5
from urllib.parse import urlencode

from vllm_advisor.config_discovery import RelabelConfig, python_regex

__all__ = ["relabel", "target_name"]

_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)
_PARAMETER = "__param_"

Labels = dict[str, str]


def relabel(found: Mapping[str, str], steps: Iterable[RelabelConfig]) -> Labels | None:
    """Return a target's labels after every step, None when one drops it."""
    labels: Labels | None = dict(found)
    for step in steps:
        labels = _after(step, labels) if labels is not None else None
    return labels


def target_name(labels: Mapping[str, str]) -> str | None:
    """Return the page that labels name: ``host:port``, a URL where that says too little, None for no page."""
    address = labels.get("__address__", "").strip("/")
    scheme = labels.get("__scheme__", "http")
    path = labels.get("__metrics_path__", "/metrics")
    given = {name.removeprefix(_PARAMETER): labels[name] for name in labels if name.startswith(_PARAMETER)}
    query = f"?{urlencode(sorted(given.items()))}" if given else ""
    if not address:
        return None
    if "://" in address or (scheme, path, query) == ("http", "/metrics", ""):
        return address
    return f"{scheme}://{address}/{path.lstrip('/')}{query}"


def _after(step: RelabelConfig, labels: Labels) -> Labels | None:
    """Return the labels after one step, None when it drops the target."""
    value = step.separator.join(labels.get(name, "") for name in step.source_labels)
    regex, target = _compiled(step.regex), step.target_label or ""
    match step.action:
        case "keep" | "drop":
            return labels if (step.action == "keep") == bool(regex.fullmatch(value)) else None
        case "keepequal" | "dropequal":
            return labels if (step.action == "keepequal") == (labels.get(target, "") == value) else None
        case "labeldrop" | "labelkeep":
            is_kept = step.action == "labelkeep"
            return {name: labels[name] for name in labels if bool(regex.fullmatch(name)) == is_kept}
        case "labelmap":
            matches = [(found, labels[name]) for name in labels if (found := regex.fullmatch(name))]
            return labels | {_expanded(step.replacement, found): text for found, text in matches}
        case "replace":
            found = regex.fullmatch(value)
            if found is None:
                return labels
            return _with(labels, _expanded(target, found), _expanded(step.replacement, found))
    return _with(labels, target, _computed(step, value))


def _computed(step: RelabelConfig, value: str) -> str:
    match step.action:
        case "lowercase":
            return value.lower()
        case "uppercase":
            return value.upper()
    digest = md5(value.encode(), usedforsecurity=False).digest()
    return str(int.from_bytes(digest[8:], "big") % (step.modulus or 1))


def _with(labels: Labels, name: str, value: str) -> Labels:
    """Return labels with one more, or without it where its value is empty."""
    others = {key: labels[key] for key in labels if key != name}
    return others | {name: value} if value else others


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(python_regex(regex), re.DOTALL)


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
