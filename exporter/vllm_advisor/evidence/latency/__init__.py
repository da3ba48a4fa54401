"""Time per output token against concurrency, learnt from the engines' own pages."""

from vllm_advisor.evidence.latency.evidence import LatencyEvidence
from vllm_advisor.evidence.latency.snapshot import LatencyBins, LatencySnapshot

__all__ = ["LatencyBins", "LatencyEvidence", "LatencySnapshot"]
