"""Engines found by themselves: files, HTTP, DNS and Kubernetes, with Prometheus' labels and relabelling."""

from __future__ import annotations

from vllm_advisor.sources.discovery.found import Found, Listing
from vllm_advisor.sources.discovery.providers import listings
from vllm_advisor.sources.discovery.relabel import relabel, target_name

__all__ = ["Found", "Listing", "listings", "relabel", "target_name"]
