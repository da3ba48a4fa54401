"""The status page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from vllm_advisor import __version__
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.web.recommendation_json import vllm_args

__all__ = ["status_page"]


def status_page(recommendations: Sequence[Recommendation], targets: Sequence[dict[str, Any]]) -> str:
    """Render the page: a section for each deployment, and the targets."""
    return _template().render(
        version=__version__,
        deployments=[(recommendation, vllm_args(recommendation)) for recommendation in recommendations],
        targets=targets,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("vllm_advisor.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["count"] = lambda value: "unknown" if value is None else f"{value:,}"
    return environment.get_template("status.html")
