"""The routes of the API, one function each."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.sources.sweep_file import sweep_to_document
from vllm_advisor.web.api.answer import json_answer, revalidated_answer
from vllm_advisor.web.api.changes import changes_json
from vllm_advisor.web.api.evidence import TABLES, csv_text, evidence_json
from vllm_advisor.web.api.explain import explain_json
from vllm_advisor.web.api.openapi import openapi_document
from vllm_advisor.web.api.requests import take_requests
from vllm_advisor.web.api.sweep import read_upload
from vllm_advisor.web.api.what_if import change_from_query, what_if_json
from vllm_advisor.web.recommendation_json import document, recommendation_json, vllm_args
from vllm_advisor.web.served import SERVED, ServedDeployment

__all__ = ["api_routes", "find_deployment"]


def api_routes(prefix: str) -> list[web.AbstractRouteDef]:
    """Return every route, below a path."""
    api = f"{prefix}/api/v1"
    one = f"{api}/deployments/{{name}}"
    return [
        web.get(f"{prefix}/openapi.json", _openapi),
        web.get(f"{api}/recommendations", _recommendations),
        web.get(f"{api}/targets", _targets),
        web.get(f"{api}/deployments", _deployments),
        web.get(one, _deployment),
        web.get(f"{one}/explain", _explain),
        web.get(f"{one}/history", _history),
        web.get(f"{one}/what-if", _what_if),
        web.get(f"{one}/evidence", _evidence),
        web.get(f"{one}/evidence/{{table}}.csv", _evidence_csv),
        web.get(f"{one}/sweep", _sweep),
        web.post(f"{one}/sweep", _upload_sweep),
        web.delete(f"{one}/sweep", _forget_sweep),
        web.post(f"{one}/requests", _push_requests),
    ]


def find_deployment(request: web.Request) -> ServedDeployment:
    """Return the deployment that a path names.

    Raises:
        web.HTTPNotFound: there is none, or nothing has been worked out for it yet.
    """
    name = request.match_info["name"]
    deployment = request.app[SERVED].deployments().get(name)
    if deployment is None:
        raise web.HTTPNotFound(text=f"There is no recommendation for a deployment {name!r}.")
    return deployment


async def _openapi(request: web.Request) -> web.Response:
    return json_answer(openapi_document(request.app[SERVED].options.external_url))


async def _recommendations(request: web.Request) -> web.Response:
    recommendations = list(request.app[SERVED].recommendations().values())
    return revalidated_answer(request, document(recommendations), _newest_seconds(recommendations))


async def _targets(request: web.Request) -> web.Response:
    return json_answer({"targets": request.app[SERVED].targets()})


async def _deployments(request: web.Request) -> web.Response:
    recommendations = request.app[SERVED].recommendations()
    return json_answer({"deployments": [_summary(one) for one in recommendations.values()]})


async def _deployment(request: web.Request) -> web.Response:
    recommendation = find_deployment(request).recommendation
    value = recommendation_json(recommendation)
    return revalidated_answer(request, value, recommendation.snapshot.now_seconds)


async def _explain(request: web.Request) -> web.Response:
    return json_answer(explain_json(find_deployment(request).recommendation))


async def _history(request: web.Request) -> web.Response:
    return json_answer({"changes": changes_json(find_deployment(request).history)})


async def _what_if(request: web.Request) -> web.Response:
    deployment = find_deployment(request)
    change = change_from_query(request.query)
    return json_answer(await asyncio.to_thread(what_if_json, deployment, change))


async def _evidence(request: web.Request) -> web.Response:
    return json_answer(evidence_json(find_deployment(request)))


async def _evidence_csv(request: web.Request) -> web.Response:
    deployment, name = find_deployment(request), request.match_info["table"]
    if name not in TABLES:
        raise web.HTTPNotFound(text=f"There is no table {name!r}: the tables are {', '.join(TABLES)}.")
    return web.Response(text=csv_text(TABLES[name](deployment)), content_type="text/csv")


async def _sweep(request: web.Request) -> web.Response:
    sweep = find_deployment(request).pipeline.sweep
    if sweep is None:
        raise web.HTTPNotFound(text="There is no sweep of this deployment.")
    return json_answer(sweep_to_document(sweep))


async def _upload_sweep(request: web.Request) -> web.Response:
    _allow_writes(request)
    deployment = find_deployment(request)
    deployment.pipeline.uploaded_sweep = await read_upload(request)
    return _reevaluated(request)


async def _forget_sweep(request: web.Request) -> web.Response:
    _allow_writes(request)
    find_deployment(request).pipeline.uploaded_sweep = None
    return _reevaluated(request)


async def _push_requests(request: web.Request) -> web.Response:
    _allow_writes(request)
    return json_answer(await take_requests(request))


def _reevaluated(request: web.Request) -> web.Response:
    request.app[SERVED].reevaluate(request.match_info["name"])
    return json_answer(recommendation_json(find_deployment(request).recommendation))


def _allow_writes(request: web.Request) -> None:
    if not request.app[SERVED].options.api_writes:
        raise web.HTTPForbidden(text="The API takes no writes: start with --web.enable-api-writes.")


def _summary(recommendation: Recommendation) -> dict[str, Any]:
    length, cap = recommendation.max_model_len, recommendation.max_num_seqs
    return {
        "deployment": recommendation.deployment.name,
        "workload": recommendation.deployment.workload,
        "model_name": recommendation.snapshot.model_name,
        "vllm_args": vllm_args(recommendation),
        "binding": recommendation.binding,
        "max_model_len": {"recommended": length.recommended, "configured": length.configured},
        "max_num_seqs": {"recommended": cap.recommended, "configured": cap.configured},
        "advice": [advice.code for advice in recommendation.advice],
    }


def _newest_seconds(recommendations: list[Recommendation]) -> float:
    return max((one.snapshot.now_seconds for one in recommendations), default=0.0)
