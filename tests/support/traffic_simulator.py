"""A continuous-batching engine with its own step-time law, to check the latency estimator against.

Event-stepped: runs of decode steps between arrivals, prefills and finishes are taken at once, so that hours
of traffic take about a second. It shares no code with the estimator.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vllm_advisor.sources.engine_sample import EngineSample, Histogram

TTFT_BOUNDS = (0.1, 0.5, 1.0, 5.0, 20.0, math.inf)
TOKEN_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, math.inf)


@dataclass(frozen=True)
class StepLaw:
    """How long one engine step takes: base + per sequence + per token of context + per prefilled token."""

    base_seconds: float
    per_sequence_seconds: float
    per_context_token_seconds: float
    per_prefill_token_seconds: float
    noise_ratio: float = 0.05
    knee_sequences: int | None = None
    """Where the batch becomes compute bound and each further sequence costs three times as much."""
    drift_ratio: float = 0.0
    """Size of slow swings (minutes) of the whole step time."""

    def seconds(self, sequences: int, context_tokens: float, prefill_tokens: float) -> float:
        """Mean duration of a step."""
        beyond = max(0, sequences - self.knee_sequences) if self.knee_sequences else 0
        return (
            self.base_seconds
            + self.per_sequence_seconds * (sequences + 2 * beyond)
            + self.per_context_token_seconds * context_tokens
            + self.per_prefill_token_seconds * prefill_tokens
        )


@dataclass(frozen=True)
class Lengths:
    """Lognormal prompt and output lengths."""

    prompt_median: float
    prompt_sigma: float
    output_median: float
    output_sigma: float
    longest: int = 16000

    def draw(self, rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
        """Draw requests as (prompt, output) tokens."""
        prompts = np.exp(rng.normal(math.log(self.prompt_median), self.prompt_sigma, count))
        outputs = np.exp(rng.normal(math.log(self.output_median), self.output_sigma, count))
        prompts, outputs = (np.clip(x, 1, self.longest).astype(int) for x in (prompts, outputs))
        return list(zip(prompts.tolist(), outputs.tolist(), strict=True))


@dataclass
class Counters:
    """What the engine's page counts."""

    prompt: int = 0
    generation: int = 0
    itl_seconds: float = 0.0
    itl_count: int = 0
    ttft_seconds: float = 0.0
    queue_seconds: float = 0.0
    finished: int = 0
    steps: int = 0
    step_tokens: int = 0
    ttft_counts: list[int] = field(default_factory=lambda: [0] * len(TTFT_BOUNDS))
    prompt_counts: list[int] = field(default_factory=lambda: [0] * len(TOKEN_BOUNDS))
    output_counts: list[int] = field(default_factory=lambda: [0] * len(TOKEN_BOUNDS))
    prompt_finished: int = 0
    output_finished: int = 0


@dataclass(slots=True, order=True)
class _Request:
    finish_step: int
    prompt: int = field(compare=False)
    output: int = field(compare=False)
    arrival: float = field(compare=False)
    scheduled: float = field(compare=False, default=0.0)
    remaining: int = field(compare=False, default=0)
    first: float = field(compare=False, default=0.0)


class Engine:
    """One engine; `run_until` moves its clock, `submit` queues a request."""

    def __init__(
        self,
        law: StepLaw,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int = 2048,
        tokens_per_step: int = 1,
        seed: int = 0,
    ) -> None:
        self.law, self.cap, self.budget = law, max_num_seqs, max_num_batched_tokens
        self.tokens_per_step = tokens_per_step
        self.random = random.Random(seed)  # noqa: S311 - a simulation
        self.now, self.step, self.context = 0.0, 0, 0
        self.decoding: list[_Request] = []
        self.prefilling: deque[_Request] = deque()
        self.waiting: deque[_Request] = deque()
        self.counters = Counters()
        self.on_finish: Callable[[float, float, int], None] = lambda *_: None
        self._phase = self.random.uniform(0, 2 * math.pi)
        self._pending: float | None = None

    @property
    def running(self) -> int:
        """Sequences in the batch, prefilling or decoding."""
        return len(self.decoding) + len(self.prefilling)

    def submit(self, prompt: int, output: int, at_seconds: float | None = None) -> None:
        """Queue a request, now or at a time up to the step in progress."""
        self.waiting.append(_Request(0, prompt, output, self.now if at_seconds is None else at_seconds))

    def run_until(self, time_seconds: float) -> None:
        """Run whole steps while they end by the time; the clock then stands just before it, or on it idle."""
        while self.now < time_seconds:
            if self._pending is None:
                self._admit()
            if not self.running:
                self.now = time_seconds
            elif self.prefilling:
                if not self._prefill_step(time_seconds):
                    return
            elif not self._decode_steps(time_seconds):
                return

    def _admit(self) -> None:
        room = self.budget - len(self.decoding) - sum(request.remaining for request in self.prefilling)
        while self.waiting and self.running < self.cap and room > 0:
            request = self.waiting.popleft()
            request.scheduled, request.remaining = self.now, request.prompt
            room -= request.prompt
            self.prefilling.append(request)

    def _disturbed(self, seconds: float, steps: int) -> float:
        law = self.law
        factor = 1.0 + law.noise_ratio * self.random.gauss(0, 1) / math.sqrt(steps)
        if law.drift_ratio:
            swing = math.sin(self.now / 40 + self._phase) + math.sin(self.now / 11 + 2 * self._phase)
            factor *= 1.0 + law.drift_ratio * swing
        return seconds * max(0.3, factor)

    def _prefill_step(self, until: float) -> bool:
        sequences = len(self.decoding)
        room = max(1, self.budget - sequences)
        chunk, done = 0, 0
        taken: list[int] = []
        for request in self.prefilling:
            part = min(request.remaining, room - chunk)
            if part <= 0:
                break
            taken.append(part)
            chunk += part
            done += part == request.remaining
        seconds = self._disturbed(self.law.seconds(sequences + done, self.context, chunk), 1)
        if self.now + seconds > until and self._pending is None:
            self._pending = seconds
            return False
        if self._pending is not None:
            seconds, self._pending = self._pending, None
        self._advance(1, seconds, sequences, chunk)
        for index, part in enumerate(taken):
            self.prefilling[index].remaining -= part
        for _ in range(done):
            self._first_token(self.prefilling.popleft())
        self._finish()
        return True

    def _decode_steps(self, until: float) -> bool:
        sequences = len(self.decoding)
        first = self.law.seconds(sequences, self.context, 0)
        growth = self.law.per_context_token_seconds * sequences * self.tokens_per_step
        left = self.decoding[0].finish_step - self.step
        room = until - self.now
        steps = max(1, min(left, int(room / (first + growth * min(left, room / first) / 2))))
        seconds = self._disturbed(steps * first + growth * steps * (steps - 1) / 2, steps)
        if steps == 1 and self.now + seconds > until and self._pending is None:
            self._pending = seconds
            return False
        if self._pending is not None:
            steps, seconds, self._pending = 1, self._pending, None
        self._advance(steps, seconds, sequences, 0)
        self._finish()
        return True

    def _advance(self, steps: int, seconds: float, sequences: int, chunk: int) -> None:
        counters, per_step = self.counters, self.tokens_per_step
        self.now += seconds
        self.step += steps
        self.context += sequences * steps * per_step
        counters.itl_seconds += sequences * seconds
        counters.itl_count += sequences * steps
        counters.generation += sequences * steps * per_step
        counters.steps += steps
        counters.step_tokens += sequences * steps * per_step + chunk

    def _first_token(self, request: _Request) -> None:
        counters = self.counters
        counters.prompt += request.prompt
        counters.generation += 1
        ttft = self.now - request.arrival
        counters.ttft_seconds += ttft
        _count(counters.ttft_counts, TTFT_BOUNDS, ttft)
        request.first = self.now
        request.finish_step = self.step + math.ceil((request.output - 1) / self.tokens_per_step)
        self.context += request.prompt + 1
        heapq.heappush(self.decoding, request)

    def _finish(self) -> None:
        while self.decoding and self.decoding[0].finish_step <= self.step:
            request = heapq.heappop(self.decoding)
            steps = math.ceil((request.output - 1) / self.tokens_per_step)
            self.context -= request.prompt + 1 + steps * self.tokens_per_step
            counters = self.counters
            counters.finished += 1
            counters.queue_seconds += request.scheduled - request.arrival
            _count(counters.prompt_counts, TOKEN_BOUNDS, request.prompt)
            _count(counters.output_counts, TOKEN_BOUNDS, request.output)
            counters.prompt_finished += request.prompt
            counters.output_finished += request.output
            self.on_finish(request.first, self.now, 1 + steps * self.tokens_per_step)

    def sample(self, *, old_names: bool = False) -> EngineSample:
        """Return the engine's page as the advisor reads it; old versions have no queue and step families."""
        c = self.counters
        return EngineSample(
            engine="0",
            model_name="simulated",
            running=float(self.running),
            waiting=float(len(self.waiting)),
            kv_used_ratio=min(1.0, self.context / 1e6),
            prompt_tokens=float(c.prompt),
            generation_tokens=float(c.generation),
            preemptions=0.0,
            finished=float(c.finished),
            itl_sum=c.itl_seconds,
            itl_count=float(c.itl_count),
            queue_sum=None if old_names else c.queue_seconds,
            queue_count=None if old_names else float(c.finished),
            iteration_sum=None if old_names else float(c.step_tokens),
            iteration_count=None if old_names else float(c.steps),
            ttft=_histogram(TTFT_BOUNDS, c.ttft_counts, c.ttft_seconds),
            prompt_lengths=_histogram(TOKEN_BOUNDS, c.prompt_counts, c.prompt_finished),
            generation_lengths=_histogram(TOKEN_BOUNDS, c.output_counts, c.output_finished),
        )


def _count(counts: list[int], bounds: tuple[float, ...], value: float) -> None:
    counts[next(index for index, bound in enumerate(bounds) if value <= bound)] += 1


def _histogram(bounds: tuple[float, ...], counts: list[int], total: float) -> Histogram:
    cumulative = np.cumsum(counts).astype(float)
    return Histogram(bounds, tuple(cumulative.tolist()), float(total), float(cumulative[-1]))
