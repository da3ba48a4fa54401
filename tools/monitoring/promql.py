"""Pieces of PromQL: vLLM's series under every name they have had, and numbers for descriptions."""

from __future__ import annotations

from vllm_advisor.sources.families import FAMILIES, PREFIXES

__all__ = ["last_known", "number_of", "over_time", "vllm", "vllm_rate"]

_NAMES = {family.key: family.names for family in FAMILIES}


def vllm(key: str, selector: str = "") -> str:
    """Return an engine's series under every name it has had; the newest wins where two stand side by side.

    Args:
        key: as in `vllm_advisor.sources.families.FAMILIES`.
        selector: label matchers with their braces.
    """
    return _alternatives(key, "NAME" + selector)


def vllm_rate(key: str, window: str, *, suffix: str = "", selector: str = "") -> str:
    """Return the rate of an engine's counter, the name chosen as by `vllm`.

    Args:
        key: as in `vllm_advisor.sources.families.FAMILIES`.
        window: a range, such as ``5m`` or ``$__rate_interval``.
        suffix: ``_sum`` or ``_count`` of a histogram.
        selector: label matchers with their braces.
    """
    return _alternatives(key, f"rate(NAME{suffix}{selector}[{window}])")


def over_time(key: str, function: str, window: str, *, suffix: str = "") -> str:
    """Return a function over a window of an engine's series, the name chosen as by `vllm`."""
    return _alternatives(key, f"{function}(NAME{suffix}[{window}])")


def last_known(series: str) -> str:
    """Return a gauge's last value, which outlives a lost scrape; equal series of two advisors become one."""
    return f"max without (instance, pod) (last_over_time({series}[5m]))"


def number_of(query: str, how: str) -> str:
    """Return the template of a number in an alert's description, about the alert's own deployment.

    Args:
        query: a selector with ``DEPLOYMENT`` where the matcher of the deployment stands.
        how: a function of Prometheus' templates, such as ``humanizePercentage`` or ``printf "%.0f"``.
    """
    name, _, rest = query.partition("DEPLOYMENT")
    matched = f"{name}deployment=%q{rest}"
    return (
        f"{{{{ with printf `{matched}` $labels.deployment | query }}}}"
        f"{{{{ . | first | value | {how} }}}}{{{{ else }}}}(not known yet){{{{ end }}}}"
    )


def _alternatives(key: str, shape: str) -> str:
    names = (prefix + name for prefix in PREFIXES for name in _NAMES[key])
    return " or ".join(shape.replace("NAME", name) for name in names)
