"""Raw samples through Prometheus' query API, which Thanos, Mimir and VictoriaMetrics speak too."""

from __future__ import annotations

import math

import aiohttp

from vllm_advisor.config_discovery import PrometheusConfig
from vllm_advisor.sources.http_client import AnswerError, HttpClient, TooLargeError, TooSlowError
from vllm_advisor.sources.page_layout import WANTED_NAMES
from vllm_advisor.sources.prometheus.matrix import Matrix, read_matrix
from vllm_advisor.sources.prometheus.recorded import RECORDED_NAMES

__all__ = ["StoreApi", "TooMuchError"]

_LIMIT_BYTES = 32_000_000
"""Some million samples; read, they take four times as much."""
_TOO_MUCH_STATUSES = frozenset({413, 422})
_TOO_SLOW_STATUSES = frozenset({503, 504})


class TooMuchError(AnswerError):
    """The store refuses to give so much at once."""


class StoreApi:
    """One store, asked for the samples of one deployment's engines."""

    def __init__(self, session: aiohttp.ClientSession, config: PrometheusConfig) -> None:
        self._client = HttpClient(session, config, timeout_seconds=config.timeout_seconds)
        self._url = f"{config.url}/api/v1/query"
        names = "|".join(RECORDED_NAMES if config.recorded else WANTED_NAMES)
        self._selector = f'{{__name__=~"{names}",{config.selector}}}'

    async def samples(self, start_seconds: float, end_seconds: float) -> Matrix:
        """Return every wanted sample in a stretch of time; a few from just before may be among them.

        Raises:
            AnswerError: the store does not give them; `TooMuchError` when a shorter stretch will do, and
                `TooSlowError` when it might.
        """
        milliseconds = math.ceil((end_seconds - start_seconds) * 1000)
        form = {"query": f"{self._selector}[{milliseconds}ms]", "time": f"{end_seconds:.3f}"}
        try:
            answer = await self._client.post(self._url, form, limit_bytes=_LIMIT_BYTES)
        except AnswerError as error:
            if isinstance(error, TooLargeError) or error.status in _TOO_MUCH_STATUSES:
                raise TooMuchError(str(error), status=error.status) from error
            if error.status in _TOO_SLOW_STATUSES:
                raise TooSlowError(str(error), status=error.status) from error
            raise
        try:
            return read_matrix(answer)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"the answer is no query result: {error}") from error
