"""Follows one deployment's access logs into its evidence, and takes lines that are pushed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import structlog

from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import AccessLogConfig, AccessLogFormat
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import REJECTED, LineReader, Logged, LogTail, Outcome
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["LogFollower"]

_AT_ONCE_BYTES = 1 << 20
"""Read in one go, so that a stop never waits long."""

log = structlog.get_logger()


class LogFollower:
    """The access logs of one deployment.

    What was read and how far belong together: `lock` is held while they differ.

    Args:
        pipeline: takes the requests.
        state: what an earlier one gave; a log that is no longer configured is left out of it.
    """

    def __init__(self, pipeline: DeploymentPipeline, state: Mapping[str, Any] | None = None) -> None:
        self.lock = asyncio.Lock()
        self._pipeline = pipeline
        self._tails = {
            "\n".join(log.paths): LogTail(log, (state or {}).get("\n".join(log.paths)))
            for log in pipeline.config.access_logs
        }
        self._pushed = Recent(REMEMBERED)
        self._reported: set[tuple[str, Outcome]] = set()
        self._closed = False
        self._following: asyncio.Task[None] | None = None

    def follow(self, clock: SteadyClock, telemetry: Telemetry) -> None:
        """Begin to read what is new, unless that still goes on."""
        if self._tails and (self._following is None or self._following.done()):
            self._following = asyncio.create_task(self._follow(clock, telemetry))

    def state(self) -> dict[str, Any]:
        """Return how far every log was read, as plain JSON values."""
        return {paths: tail.state() for paths, tail in self._tails.items()}

    async def stop(self) -> None:
        """Stop reading; what was read stands in the evidence."""
        if self._following:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def push(
        self, lines: bytes, form: AccessLogFormat, now_seconds: float, telemetry: Telemetry
    ) -> Counter[Outcome] | None:
        """Take in lines that a log shipper sends; a request among the last thousands sent counts once.

        Args:
            lines: whole ones; what they leave without its end is broken.
            form: their format, read as the access log of that format is where one is configured.
            now_seconds: epoch seconds, for lines without a time.
            telemetry: counts the lines.

        Returns:
            Lines by outcome; None where the follower was closed before it came to them.
        """
        async with self.lock:
            if self._closed:
                return None
            reader = LineReader(self._like(form), self._pushed)
            for logged in await asyncio.to_thread(_read, reader, lines, now_seconds):
                self._pipeline.observe_request(logged)
        outcomes = +reader.counts
        self._count(outcomes, "pushed", telemetry)
        return outcomes

    def _like(self, form: AccessLogFormat) -> AccessLogConfig:
        configured = (log for log in self._pipeline.config.access_logs if log.format == form)
        return next(configured, None) or AccessLogConfig(paths=("pushed",), format=form)

    def close(self) -> None:
        """Give every file back, and take no more lines."""
        self._closed = True
        for tail in self._tails.values():
            tail.close()

    async def _follow(self, clock: SteadyClock, telemetry: Telemetry) -> None:
        for paths, tail in self._tails.items():
            while await self._read(paths, tail, clock.now_seconds(), telemetry):
                pass

    async def _read(self, paths: str, tail: LogTail, now_seconds: float, telemetry: Telemetry) -> bool:
        """Read some lines; return whether there were any."""
        reading = asyncio.create_task(self._take_in(paths, tail, now_seconds, telemetry))
        return await asyncio.shield(reading)

    async def _take_in(self, paths: str, tail: LogTail, now_seconds: float, telemetry: Telemetry) -> bool:
        async with self.lock:
            before = tail.counts.copy()
            requests = await asyncio.to_thread(tail.poll, now_seconds, limit_bytes=_AT_ONCE_BYTES)
            for request in requests:
                self._pipeline.observe_request(request)
        new = tail.counts - before
        self._count(new, paths, telemetry)
        return bool(new)

    def _count(self, outcomes: Mapping[Outcome, int], paths: str, telemetry: Telemetry) -> None:
        """Count lines, and tell the first time that some of these files cannot be used."""
        for outcome, lines in outcomes.items():
            telemetry.log_lines.labels(outcome).inc(lines)
        for outcome in REJECTED:
            if outcomes.get(outcome) and (paths, outcome) not in self._reported:
                self._reported.add((paths, outcome))
                log.warning(
                    "access-log lines are left out, more of the kind are only counted",
                    deployment=self._pipeline.config.name,
                    files=paths.replace("\n", ", "),
                    outcome=str(outcome),
                    lines=outcomes[outcome],
                )


def _read(reader: LineReader, lines: bytes, now_seconds: float) -> list[Logged]:
    found = reader.read_block(lines, 0, now_seconds)
    reader.finish()
    return found
