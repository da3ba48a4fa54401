"""The OpenAPI document of the API."""

from __future__ import annotations

import copy
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from vllm_advisor import __version__
from vllm_advisor.ceilings.what_if import Change
from vllm_advisor.web.api.requests import FORMATS

__all__ = ["openapi_document"]

_CHANGES = {
    "slo_tpot_ms": "Target for the time per output token, in milliseconds.",
    "slo_quantile": "Statistic that the target is about.",
    "quantile": "Percentile of context lengths that max-model-len follows, as a ratio.",
    "margin": "Margin on that length, as a ratio.",
    "gpus": "GPUs of one engine; tensor-parallel ranks times pipeline stages.",
    "kv_cache_dtype": "Type of the KV cache, as --kv-cache-dtype takes it.",
}


def openapi_document(external_url: str | None) -> dict[str, Any]:
    """Return the document.

    Args:
        external_url: where the daemon is reached, None for the root of wherever it is.
    """
    document = copy.deepcopy(_written())
    document["info"]["version"] = __version__
    document["servers"] = [{"url": (external_url or "/").rstrip("/") or "/"}]
    what_if = document["paths"]["/api/v1/deployments/{name}/what-if"]["get"]
    what_if["parameters"] = [*what_if["parameters"], *_change_parameters()]
    push = document["paths"]["/api/v1/deployments/{name}/requests"]["post"]
    push["parameters"][-1]["schema"]["enum"] = list(FORMATS)
    return document


@cache
def _written() -> dict[str, Any]:
    text = (files("vllm_advisor.web.api") / "openapi.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def _change_parameters() -> list[dict[str, Any]]:
    """Describe the parameters by the very model that reads them."""
    properties = Change.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "description": text, "schema": _not_null(properties[name])}
        for name, text in _CHANGES.items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    (given,) = (one for one in schema["anyOf"] if one != {"type": "null"})
    return dict(given)
