"""Traces and the engine's histograms of them."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.intervals import Interval, lengths_seen, together
from vllm_advisor.evidence.intervals import Intervals, LengthCounts
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome

TRACES = ("azure_llm_2023_conv.csv.gz", "mooncake_conversation.jsonl.gz")
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def trace_lengths(folder: Path, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return prompt and output tokens of a trace, read without the code under test."""
    with gzip.open(folder / "traces" / name, "rt") as file:
        if name.endswith(".csv.gz"):
            rows = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]
        else:
            parsed = map(json.loads, file)
            rows = [(row["input_length"], row["output_length"]) for row in parsed]
    prompt, output = np.array(rows).T
    return prompt, output


def request(total: int, time_seconds: float, output: int = 1, **more: object) -> LoggedRequest:
    """Return a served request of a total length."""
    return LoggedRequest(
        Outcome.SERVED, time_seconds, prompt_tokens=total - output, output_tokens=output, **more
    )


def engine_edges(max_model_len: int) -> list[float]:
    """Return vLLM's finite bucket edges: 1, 2 and 5 times powers of ten up to the limit."""
    steps = (step * 10**power for power in range(9) for step in (1, 2, 5))
    return [float(edge) for edge in steps if edge <= max_model_len]


def histogram_of(lengths: NDArray[np.int64], max_model_len: int) -> LengthCounts:
    """Return what the engine's histogram of some lengths shows."""
    edges = engine_edges(max_model_len)
    counts = np.bincount(np.searchsorted(edges, lengths, side="left"), minlength=len(edges) + 1)
    return lengths_seen((*edges, np.inf), counts.tolist())


def interval_with(
    prompt: LengthCounts | None, output: LengthCounts | None, start_seconds: float, end_seconds: float
) -> Intervals:
    """Return an interval in which some requests finished."""
    return together(
        Interval(start_seconds, end_seconds, prompt_lengths=prompt, generation_lengths=output, finished=1.0)
    )
