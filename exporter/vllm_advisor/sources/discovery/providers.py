"""Every discovery that a deployment configures, each imported only when used."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from importlib import import_module

import aiohttp

from vllm_advisor.config_discovery import Discovery
from vllm_advisor.sources.discovery.found import Listing

__all__ = ["listings"]

_KINDS = ("file_sd", "http_sd", "dns_sd", "kubernetes_sd")


def listings(
    config: Discovery, session: aiohttp.ClientSession
) -> dict[str, Callable[[], AsyncGenerator[Listing, None]]]:
    """Return how each discovery is begun, by a name that tells them apart in the log."""
    found: dict[str, Callable[[], AsyncGenerator[Listing, None]]] = {}
    for kind in _KINDS:
        for index, one in enumerate(getattr(config, f"{kind}_configs")):
            module = import_module(f"vllm_advisor.sources.discovery.{kind}")
            found[f"{kind}_configs[{index}]"] = partial(module.discover, one, session)
    return found
