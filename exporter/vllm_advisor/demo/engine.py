"""Continuous batching as vLLM does it, one scheduler step after another, on a clock given from outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from vllm_advisor.demo.counters import EngineCounters

__all__ = ["Engine", "EngineSettings", "FinishedRequest", "Request", "StepLaw"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request: when it comes, and how long it will turn out to be."""

    arrival_seconds: float
    prompt_tokens: int
    output_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """A request that was answered in full, with the time of its last token."""

    request: Request
    end_seconds: float

    @property
    def reason(self) -> str:
        """What vLLM calls the reason for the end."""
        return "length" if self.request.output_tokens >= self.request.max_tokens else "stop"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What `vllm serve` was started with, and the pool it found."""

    model_name: str = "demo-chat"
    max_model_len_tokens: int = 131_072
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    block_size_tokens: int = 16
    num_gpu_blocks: int = 40_960

    @property
    def kv_pool_tokens(self) -> int:
        """Tokens the KV pool holds."""
        return self.num_gpu_blocks * self.block_size_tokens


@dataclass(frozen=True, slots=True)
class StepLaw:
    """How long one step takes: a constant, and what each sequence, cached token and prefilled token adds.

    The defaults are some fifteen times as quick as a large GPU, so that a minute of the demo holds a quarter
    of an hour of steps.
    """

    base_seconds: float = 1.3e-3
    sequence_seconds: float = 16e-6
    context_token_seconds: float = 2.6e-9
    prefill_token_seconds: float = 0.65e-6

    def seconds(self, sequences: int, context_tokens: int, prefill_tokens: int) -> float:
        """Return the duration of a step."""
        return (
            self.base_seconds
            + self.sequence_seconds * sequences
            + self.context_token_seconds * context_tokens
            + self.prefill_token_seconds * prefill_tokens
        )


@dataclass(slots=True)
class _Sequence:
    request: Request
    scheduled_seconds: float
    to_prefill_tokens: int
    first_token_seconds: float = 0.0


class Engine:
    """The scheduler's state and what it has counted.

    A request is admitted once the pool can hold it whole, so nothing is ever preempted; there is no prefix
    cache. Simulating a step costs the same whatever the number of decoding sequences, since each one's last
    step is known beforehand.

    Args:
        settings: the flags and the pool.
        law: how long a step takes.
        jitter: gives the factor by which the next step differs from the law.
        start_seconds: the clock's first reading.
    """

    def __init__(
        self, settings: EngineSettings, law: StepLaw, jitter: Callable[[], float], start_seconds: float
    ) -> None:
        self.settings = settings
        self.clock_seconds = start_seconds
        self.counters = EngineCounters(settings.max_model_len_tokens)
        self._law = law
        self._jitter = jitter
        self._queue: deque[Request] = deque()
        self._prefilling: deque[_Sequence] = deque()
        self._decoding: list[tuple[int, int, _Sequence]] = []
        self._ticket = count()
        self._reserved_tokens = 0
        self._context_tokens = 0
        self._finished: list[FinishedRequest] = []

    @property
    def running(self) -> int:
        """Sequences in the batch, prefilling or decoding."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Requests not yet admitted."""
        return len(self._queue)

    @property
    def kv_used_ratio(self) -> float:
        """Share of the KV pool that holds tokens of running sequences."""
        return self._context_tokens / self.settings.kv_pool_tokens

    def submit(self, request: Request) -> None:
        """Queue a request; those submitted later must not arrive earlier."""
        self._queue.append(request)

    def advance_to(self, now_seconds: float) -> list[FinishedRequest]:
        """Run every step that starts before a time, and return the requests that these finished."""
        while self.clock_seconds < now_seconds:
            self._admit()
            if self.running:
                self._step()
            else:
                arrival_seconds = self._queue[0].arrival_seconds if self._queue else now_seconds
                self.clock_seconds = min(arrival_seconds, now_seconds)
        finished, self._finished = self._finished, []
        return finished

    def _admit(self) -> None:
        while self._queue and self._queue[0].arrival_seconds <= self.clock_seconds and self._has_room():
            request = self._queue.popleft()
            self._reserved_tokens += request.prompt_tokens + request.output_tokens
            self._prefilling.append(_Sequence(request, self.clock_seconds, request.prompt_tokens))
            self.counters.queue_seconds.observe(self.clock_seconds - request.arrival_seconds)
            self.counters.prefix_query_tokens += request.prompt_tokens

    def _has_room(self) -> bool:
        request = self._queue[0]
        needed_tokens = self._reserved_tokens + request.prompt_tokens + request.output_tokens
        return self.running < self.settings.max_num_seqs and needed_tokens <= self.settings.kv_pool_tokens

    def _step(self) -> None:
        decoding = len(self._decoding)
        prefilled_tokens, prefilled = self._prefill(self.settings.max_num_batched_tokens - decoding)
        seconds = self._jitter() * self._law.seconds(
            decoding + len(prefilled), self._context_tokens, prefilled_tokens
        )
        self.clock_seconds += seconds
        self._context_tokens += prefilled_tokens + decoding + len(prefilled)
        self._count_step(seconds, decoding, prefilled)
        for sequence in prefilled:
            self._start_decoding(sequence)
        while self._decoding and self._decoding[0][0] <= self.counters.steps:
            self._finish(heappop(self._decoding)[2])

    def _prefill(self, budget_tokens: int) -> tuple[int, list[_Sequence]]:
        """Spend a step's budget on the first prompts; return the tokens spent and the prompts now whole."""
        spent_tokens, whole = 0, []
        while self._prefilling and spent_tokens < budget_tokens:
            sequence = self._prefilling[0]
            chunk_tokens = min(sequence.to_prefill_tokens, budget_tokens - spent_tokens)
            sequence.to_prefill_tokens -= chunk_tokens
            spent_tokens += chunk_tokens
            if sequence.to_prefill_tokens == 0:
                whole.append(self._prefilling.popleft())
        return spent_tokens, whole

    def _count_step(self, seconds: float, decoding: int, prefilled: list[_Sequence]) -> None:
        prompt_tokens = sum(sequence.request.prompt_tokens for sequence in prefilled)
        generated_tokens = decoding + len(prefilled)
        counters = self.counters
        counters.steps += 1
        counters.prompt_tokens += prompt_tokens
        counters.generation_tokens += generated_tokens
        counters.token_gap_seconds.observe(seconds, decoding)
        if generated_tokens:
            counters.step_tokens.observe(prompt_tokens + generated_tokens)

    def _start_decoding(self, sequence: _Sequence) -> None:
        sequence.first_token_seconds = self.clock_seconds
        self.counters.first_token_seconds.observe(self.clock_seconds - sequence.request.arrival_seconds)
        last_step = self.counters.steps + sequence.request.output_tokens - 1
        heappush(self._decoding, (last_step, next(self._ticket), sequence))

    def _finish(self, sequence: _Sequence) -> None:
        request, counters = sequence.request, self.counters
        length_tokens = request.prompt_tokens + request.output_tokens
        self._reserved_tokens -= length_tokens
        self._context_tokens -= length_tokens
        finished = FinishedRequest(request, self.clock_seconds)
        self._finished.append(finished)
        decode_seconds = self.clock_seconds - sequence.first_token_seconds
        later_tokens = request.output_tokens - 1
        counters.finished[finished.reason] += 1
        counters.request_prompt_tokens.observe(request.prompt_tokens)
        counters.request_generation_tokens.observe(request.output_tokens)
        counters.request_max_tokens.observe(request.max_tokens)
        counters.request_tpot_seconds.observe(decode_seconds / later_tokens if later_tokens else 0.0)
        counters.request_seconds.observe(self.clock_seconds - request.arrival_seconds)
        counters.inference_seconds.observe(self.clock_seconds - sequence.scheduled_seconds)
        counters.prefill_seconds.observe(sequence.first_token_seconds - sequence.scheduled_seconds)
        counters.decode_seconds.observe(decode_seconds)
