"""Templates, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from vllm_advisor import __version__

__all__ = ["count", "percentile", "render"]


def render(template: str, *, root: str, page: str = "", **values: object) -> str:
    """Render a page.

    Args:
        template: its file.
        root: the way from the page to the daemon's root, ``.`` or ``..``, so that proxies may add to it.
        page: the path that the menu marks as current.
        values: what the template shows.
    """
    return _environment().get_template(template).render(root=root, page=page, version=__version__, **values)


def count(value: float | None) -> str:
    """Write a count with its thousands; what is not known is said, never 0."""
    if value is None:
        return "not known"
    return f"{value:,.1f}" if 0 < value < 10 and value != int(value) else f"{value:,.0f}"


def percentile(quantile: float) -> str:
    """Write a quantile as people speak of it: ``p99.9``."""
    return f"p{quantile * 100:g}"


def _statistic(value: str) -> str:
    return value if value == "mean" else percentile(float(value))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _words(code: str) -> str:
    words = code.replace("_", " ")
    for short in ("kv", "tpot", "slo"):
        words = words.replace(short, short.upper())
    return words[:1].upper() + words[1:]


def _first_of(values: Sequence[Any], number: int) -> list[Any]:
    return list(islice(values, number))


_FILTERS: dict[str, Callable[..., Any]] = {
    "clock": _clock,
    "count": count,
    "first_of": _first_of,
    "iso": _iso,
    "percentile": percentile,
    "statistic": _statistic,
    "words": _words,
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("vllm_advisor.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    return environment
