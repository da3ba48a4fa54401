"""The pages for people."""

from __future__ import annotations

from typing import Any

from aiohttp import hdrs, web

from vllm_advisor.sources.scrape import WELL
from vllm_advisor.web.api.answer import json_answer
from vllm_advisor.web.api.evidence import TABLES
from vllm_advisor.web.api.routes import find_deployment
from vllm_advisor.web.bars import ceiling_bars, memory_bars
from vllm_advisor.web.doors import configuration_text
from vllm_advisor.web.recommendation_json import vllm_args
from vllm_advisor.web.rendering import render
from vllm_advisor.web.served import SERVED, ServedDeployment
from vllm_advisor.web.words import (
    cap_reason,
    context_words,
    latency_words,
    length_reason,
    memory_words,
    occupancy_words,
    overview_summary,
)

__all__ = ["configuration", "deployment", "overview", "targets", "to_prefix"]

_LATEST_CHANGES = 20
_GRADES = (
    ("measured", "It lies within what was observed, with enough samples on each side."),
    ("interpolated", "It lies within what was observed, on fewer samples or a less direct statistic."),
    ("extrapolated", "It lies beyond what was observed, within bounds."),
    ("assumed", "Something it follows from is a default or a prediction."),
    ("none", "The evidence does not carry a number; the advice says what is missing."),
)
_QUANTILES = (0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)


async def overview(request: web.Request) -> web.Response:
    """Show every deployment in a row."""
    served = request.app[SERVED]
    recommendations = list(served.recommendations().values())
    outcomes = [target["outcome"] for target in served.targets()]
    unwell = sum(1 for outcome in outcomes if outcome not in {*WELL, None})
    summary = overview_summary(recommendations, len(outcomes), unwell)
    return _page(render("overview.html", root=".", recommendations=recommendations, summary=summary))


async def deployment(request: web.Request) -> web.Response:
    """Show one deployment with everything it rests on."""
    return _page(render("deployment.html", root="..", **_deployment_values(find_deployment(request))))


async def targets(request: web.Request) -> web.Response:
    """Show how each target's last scrape went; as JSON to whoever does not ask for a page."""
    states = request.app[SERVED].targets()
    if not _is_for_people(request):
        return json_answer({"targets": states})
    return _page(render("targets.html", root=".", page="targets", targets=states, well_outcomes=WELL))


async def configuration(request: web.Request) -> web.Response:
    """Show the configuration in force; as YAML to whoever does not ask for a page."""
    text = configuration_text(request.app[SERVED].config())
    if not _is_for_people(request):
        return web.Response(text=text, content_type="application/yaml")
    return _page(render("config.html", root=".", page="config", configuration=text))


async def to_prefix(request: web.Request) -> web.Response:
    """Send people from the socket's root to the daemon's."""
    url = request.app[SERVED].options.external_url or "/"
    raise web.HTTPFound(url.rstrip("/") + "/")


def _deployment_values(one: ServedDeployment) -> dict[str, Any]:
    recommendation = one.recommendation
    engine = recommendation.deployment.engine
    return {
        "one": recommendation,
        "args": vllm_args(recommendation),
        "tiles": _tiles(one),
        "ceilings": ceiling_bars(recommendation),
        "context_words": context_words(recommendation),
        "tradeoff": TABLES["tradeoff"](one),
        "latency_words": latency_words(recommendation),
        "waterfall": memory_bars(recommendation.prediction),
        "memory_words": memory_words(recommendation),
        "occupancy_words": occupancy_words(recommendation),
        "quantiles": sorted({*_QUANTILES, recommendation.deployment.context.quantile}),
        "gpus": engine.tensor_parallel_size * engine.pipeline_parallel_size,
        "history": one.history[: -_LATEST_CHANGES - 1 : -1],
        "api": f"../api/v1/deployments/{recommendation.deployment.name}",
        "table_names": list(TABLES),
        "grades": _GRADES,
    }


def _tiles(one: ServedDeployment) -> list[dict[str, Any]]:
    recommendation = one.recommendation
    return [
        {
            "flag": "--max-model-len",
            "value": recommendation.max_model_len,
            "unit": "tokens",
            "why": length_reason(recommendation),
        },
        {
            "flag": "--max-num-seqs",
            "value": recommendation.max_num_seqs,
            "unit": "sequences",
            "why": cap_reason(recommendation),
        },
    ]


def _is_for_people(request: web.Request) -> bool:
    return "text/html" in request.headers.get(hdrs.ACCEPT, "")


def _page(text: str) -> web.Response:
    response = web.Response(text=text, content_type="text/html")
    response.headers[hdrs.CACHE_CONTROL] = "no-cache"
    response.headers[hdrs.VARY] = hdrs.ACCEPT
    return response
