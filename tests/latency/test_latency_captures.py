"""The latency curve from a real engine's pages against the clients' own stopwatch."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from support.latency_pages import intervals_seen
from vllm_advisor.ceilings.latency import latency_ceiling
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.latency import LatencyEvidence, LatencySnapshot

LEVELS = (1, 2, 4, 8, 16, 32, 64)


@pytest.fixture(scope="module")
def client(data: Path) -> dict[int, dict[str, float]]:
    """Return what clients measured, by level."""
    with (data / "latency" / "client.csv").open(encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {int(row["concurrency"]): row for row in rows}


@pytest.fixture(scope="module")
def snapshot(data: Path) -> LatencySnapshot:
    """Return the evidence of all levels, one after the other on one server."""
    evidence = LatencyEvidence()
    for intervals in intervals_seen([data / "latency" / f"c{level:02}.jsonl.gz" for level in LEVELS]):
        evidence.observe(intervals)
        last = float(intervals.end_seconds[-1])
    return evidence.snapshot(last)


def _curve_at(snapshot: LatencySnapshot, quantile: float | str, level: int) -> float:
    curve = latency_ceiling(snapshot, SloConfig(tpot="75ms", quantile=quantile)).curve
    at = [point.concurrency for point in curve]
    return float(np.interp(level, at, [point.tpot_seconds for point in curve]))


@pytest.mark.parametrize("level", LEVELS)
def test_mean_tpot_is_the_clients(
    snapshot: LatencySnapshot, client: dict[int, dict[str, float]], level: int
) -> None:
    """Within 5% of the stopwatch from 2 to 32 clients, and within 10% at every level."""
    allowed = 0.05 if 2 <= level <= 32 else 0.10
    assert _curve_at(snapshot, "mean", level) == pytest.approx(client[level]["mean_tpot_s"], rel=allowed)


@pytest.mark.parametrize("level", [2, 4, 8, 16, 32])
def test_p99_tpot_is_the_clients(
    snapshot: LatencySnapshot, client: dict[int, dict[str, float]], level: int
) -> None:
    """Within 15% of the stopwatch from 2 to 32 clients."""
    assert _curve_at(snapshot, 0.99, level) == pytest.approx(client[level]["p99_tpot_s"], rel=0.15)


@pytest.mark.parametrize("below", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_target_between_two_levels_gives_a_ceiling_between_them(
    snapshot: LatencySnapshot, client: dict[int, dict[str, float]], below: int, part: float
) -> None:
    """The drain at the end of each level and the ramp at its start do not fool it."""
    low, high = client[below]["mean_tpot_s"], client[2 * below]["mean_tpot_s"]
    target = low + part * (high - low)
    ceiling = latency_ceiling(snapshot, SloConfig(tpot=f"{target * 1000:.4f}ms", quantile="mean"))
    assert ceiling.sequences is not None
    assert below <= ceiling.sequences <= 2 * below


@pytest.mark.parametrize("below", [2, 4, 8, 16])
def test_a_p99_target_half_way_between_two_levels_gives_a_ceiling_between_them(
    snapshot: LatencySnapshot, client: dict[int, dict[str, float]], below: int
) -> None:
    """The same for the 99th percentile."""
    target = (client[below]["p99_tpot_s"] + client[2 * below]["p99_tpot_s"]) / 2
    ceiling = latency_ceiling(snapshot, SloConfig(tpot=f"{target * 1000:.4f}ms", quantile=0.99))
    assert ceiling.sequences is not None
    assert below <= ceiling.sequences <= 2 * below


def test_throughput_is_the_clients(snapshot: LatencySnapshot, client: dict[int, dict[str, float]]) -> None:
    """Output tokens a second at 8 clients, within 5%."""
    bins = snapshot.stretches
    at = int(np.argmax(np.where(np.abs(bins.concurrency - 8) < 0.5, bins.stretches, 0)))
    assert bins.output_tokens_per_second[at] == pytest.approx(client[8]["output_tokens_per_s"], rel=0.05)
