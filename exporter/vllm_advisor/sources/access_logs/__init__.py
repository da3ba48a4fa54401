"""Access logs of gateways, proxies and engines: lines in, requests with their token counts out."""

from vllm_advisor.sources.access_logs.request import LoggedRequest, Outcome, ServedBlock

__all__ = ["LoggedRequest", "Outcome", "ServedBlock"]
