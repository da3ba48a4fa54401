"""Targets from DNS records (``dns_sd_configs``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
from dns.asyncresolver import Resolver
from dns.exception import DNSException
from dns.resolver import NXDOMAIN, NoAnswer

from vllm_advisor.config_discovery import DnsSdConfig
from vllm_advisor.sources.discovery.found import Found, Listing

__all__ = ["discover"]


async def discover(
    config: DnsSdConfig, _: aiohttp.ClientSession | None, resolver: Resolver | None = None
) -> AsyncGenerator[Listing, None]:
    """Ask every refresh interval; a name that does not exist has no targets, a server that fails is an error.

    A name that fails keeps its own last targets and costs no other's.

    Args:
        config: what to ask for.
        resolver: whom to ask, the machine's name servers unless given.
    """
    known: dict[str, list[Found]] = {}
    while True:
        problems = []
        for name in config.names:
            try:
                known[name] = await _targets(resolver or Resolver(), name, config)
            except (DNSException, OSError) as error:
                problems.append(f"{name}: {str(error) or type(error).__name__}")
        targets = tuple(found for name in config.names for found in known.get(name, ()))
        yield Listing(targets if len(problems) < len(config.names) else None, "; ".join(problems))
        await asyncio.sleep(config.refresh_interval_seconds)


async def _targets(resolver: Resolver, name: str, config: DnsSdConfig) -> list[Found]:
    try:
        records = await resolver.resolve(name, config.type, search=True)
    except (NXDOMAIN, NoAnswer):
        return []
    return [Found(_labels(record, name, config)) for record in records]


def _labels(record: Any, name: str, config: DnsSdConfig) -> dict[str, str]:  # noqa: ANN401 - dnspython's records are untyped
    labels = {"__meta_dns_name": name}
    if config.type == "SRV":
        host = record.target.to_text()
        labels["__meta_dns_srv_record_target"] = host
        labels["__meta_dns_srv_record_port"] = str(record.port)
        return {**labels, "__address__": f"{host.rstrip('.')}:{record.port}"}
    host = f"[{record.address}]" if config.type == "AAAA" else record.address
    return {**labels, "__address__": f"{host}:{config.port}"}
