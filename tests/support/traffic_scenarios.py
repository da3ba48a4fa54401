"""Hours of varied traffic on simulated engines, each with the ceiling that a closed loop shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from support.intervals import between
from support.traffic_simulator import Engine, Lengths, StepLaw
from vllm_advisor.ceilings.latency import LatencyCeiling, latency_ceiling
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.latency import LatencyEvidence
from vllm_advisor.sources.engine_sample import EngineSample


@dataclass(frozen=True)
class Scenario:
    """Traffic on one engine over some hours."""

    name: str
    law: StepLaw
    lengths: Lengths
    true_ceiling: int
    """The concurrency whose closed-loop statistic is the target."""
    peak_ratio: float
    """Busy-end concurrency over the true ceiling."""
    quantile: float | None = None
    """None for the mean."""
    scrape_seconds: float = 5.0
    hours: float = 3.0
    max_num_seqs: int = 1024
    max_num_batched_tokens: int = 2048
    tokens_per_step: int = 1
    old_names: bool = False
    seed: int = 1

    def engine(self, seed: int, cap: int) -> Engine:
        """Return a fresh engine of this scenario."""
        return Engine(
            self.law,
            max_num_seqs=cap,
            max_num_batched_tokens=self.max_num_batched_tokens,
            tokens_per_step=self.tokens_per_step,
            seed=seed,
        )


def closed_loop(scenario: Scenario, users: int, requests: int) -> tuple[np.ndarray, float]:
    """Return request TPOTs and the request rate of a closed loop at a fixed number of users."""
    rng = np.random.default_rng(scenario.seed + 7919 * users)
    engine = scenario.engine(scenario.seed + users, users)
    lengths = iter(scenario.lengths.draw(rng, 2 * requests + 12 * users))
    tpots: list[float] = []

    def finished(first: float, last: float, output: int) -> None:
        tpots.append((last - first) / (output - 1) if output > 1 else math.nan)
        engine.submit(*next(lengths))

    engine.on_finish = finished
    for _ in range(users):
        engine.submit(*next(lengths))
    warm = 4 * users
    start, begun = 0.0, 0
    while len(tpots) < warm + requests:
        engine.run_until(engine.now + 5.0)
        if len(tpots) <= warm:
            start, begun = engine.now, len(tpots)
    rate = (len(tpots) - begun) / (engine.now - start)
    kept = np.array(tpots[warm:])
    return kept[np.isfinite(kept)], rate


def statistic(tpots: np.ndarray, quantile: float | None) -> float:
    """Return the mean or a quantile of request TPOTs."""
    return float(np.mean(tpots) if quantile is None else np.quantile(tpots, quantile))


def target_seconds(scenario: Scenario, requests: int = 20000) -> float:
    """Return the target whose true ceiling is the scenario's, a quarter of the way to the next one."""
    here, _ = closed_loop(scenario, scenario.true_ceiling, requests)
    tpot = statistic(here, scenario.quantile)
    return tpot * (1 + 0.25 / scenario.true_ceiling)


def pages(scenario: Scenario) -> Iterator[tuple[float, EngineSample]]:
    """Yield (time, sample) of the scenario's diurnal open-loop traffic."""
    rng = np.random.default_rng(scenario.seed)
    peak_users = max(1, round(scenario.peak_ratio * scenario.true_ceiling))
    _, peak_rate = closed_loop(scenario, peak_users, 600 + 10 * peak_users)
    duration = scenario.hours * 3600
    arrivals = _diurnal_arrivals(rng, peak_rate, duration)
    lengths = scenario.lengths.draw(rng, len(arrivals))
    engine = scenario.engine(scenario.seed, scenario.max_num_seqs)
    coming = iter(zip(arrivals.tolist(), lengths, strict=True))
    arrival, length = next(coming)
    for scrape in np.arange(scenario.scrape_seconds, duration, scenario.scrape_seconds).tolist():
        while arrival <= scrape:
            engine.run_until(arrival)
            engine.submit(*length, arrival)
            arrival, length = next(coming, (math.inf, (1, 1)))
        engine.run_until(scrape)
        yield scrape, engine.sample(old_names=scenario.old_names)


def _diurnal_arrivals(rng: np.random.Generator, peak_rate: float, duration: float) -> np.ndarray:
    """Poisson arrivals whose rate swings between a quarter of the peak and the peak, with its own bursts."""
    times = np.arange(0.0, duration, 1.0)
    period = duration / 1.5
    rate = peak_rate * (0.62 - 0.38 * np.cos(2 * np.pi * times / period))
    expected = np.concatenate([[0.0], np.cumsum(rate)])
    count = rng.poisson(expected[-1])
    return np.interp(np.sort(rng.uniform(0, expected[-1], count)), expected, np.append(times, duration))


def found_ceiling(scenario: Scenario, slo_seconds: float) -> LatencyCeiling:
    """Return what the advisor makes of a scenario's pages."""
    evidence = LatencyEvidence()
    evidence.observe(between(pages(scenario)))
    slo = SloConfig(tpot=f"{slo_seconds * 1000:.6f}ms", quantile=scenario.quantile or "mean")
    return latency_ceiling(evidence.snapshot(scenario.hours * 3600), slo)


def varied_scenarios(count: int, seed: int) -> Iterator[Scenario]:
    """Yield scenarios over step laws, lengths, noise, scrape intervals, targets, caps, loads and versions."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        ceiling = int(math.exp(rng.uniform(math.log(6), math.log(120))))
        budget = int(rng.choice([2048, 8192]))
        output = float(math.exp(rng.uniform(math.log(30), math.log(500))))
        prompt = float(math.exp(rng.uniform(math.log(80), math.log(5000))))
        prompt = min(prompt, 0.35 * budget * output / ceiling)
        yield Scenario(
            name=f"{seed}-{index}",
            law=_varied_law(rng, index, ceiling, prompt, output),
            lengths=Lengths(prompt, rng.uniform(0.2, 1.1), output, rng.uniform(0.2, 1.0)),
            true_ceiling=ceiling,
            peak_ratio=(1.3, 1.05, 1.6, 0.7, 1.2, 1.0)[index // 2 % 6],
            quantile=(None, 0.99, 0.95, None, 0.99, 0.9)[index % 6],
            scrape_seconds=(1.0, 5.0, 15.0)[index % 3],
            hours=rng.uniform(2, 4),
            max_num_seqs=(1024, 1024, int(1.15 * ceiling) + 1, 256, int(0.8 * ceiling), 1024)[index // 3 % 6],
            max_num_batched_tokens=budget,
            old_names=index % 5 == 0,
            tokens_per_step=2 if index % 11 == 7 else 1,
            seed=100 + index,
        )


def _varied_law(rng: np.random.Generator, index: int, ceiling: int, prompt: float, output: float) -> StepLaw:
    base = rng.uniform(0.008, 0.03)
    per_sequence = base * rng.uniform(0.3, 1.5) / ceiling
    prefill_share = rng.uniform(0.02, 0.4)
    per_prefill = prefill_share * output * (base + per_sequence * ceiling) / (ceiling * prompt)
    return StepLaw(
        base_seconds=base,
        per_sequence_seconds=per_sequence,
        per_context_token_seconds=base * rng.uniform(0.0, 0.8) / (ceiling * (prompt + output)),
        per_prefill_token_seconds=float(np.clip(per_prefill, 2e-6, 1e-4)),
        noise_ratio=rng.uniform(0.02, 0.2),
        knee_sequences=int(ceiling * rng.uniform(0.7, 1.2)) if index % 4 == 0 else None,
        drift_ratio=float(rng.choice([0.0, 0.0, 0.02, 0.05])),
    )
