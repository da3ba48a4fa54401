"""A metrics store as a source: the engines' raw samples through the query API, as pages again."""

from __future__ import annotations

from vllm_advisor.sources.prometheus.api import StoreApi, TooMuchError
from vllm_advisor.sources.prometheus.matrix import Matrix
from vllm_advisor.sources.prometheus.pages import StoredPages, StoredStretch
from vllm_advisor.sources.prometheus.stretch_length import StretchLength

__all__ = ["Matrix", "StoreApi", "StoredPages", "StoredStretch", "StretchLength", "TooMuchError"]
