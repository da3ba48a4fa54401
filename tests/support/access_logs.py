"""Reading log files and lines in tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs import LineReader, Logged, LoggedRequest, Outcome, ServedBlock

NOW_SECONDS = 1796040000.0
"""Later than every time in the sample logs."""


def log_config(*paths: Path | str, **settings: Any) -> AccessLogConfig:
    """Return the configuration of some files."""
    return AccessLogConfig(paths=tuple(map(str, paths)) or ("*",), **settings)


def read_lines(
    lines: Iterable[bytes], reader: LineReader | None = None
) -> tuple[LineReader, list[LoggedRequest]]:
    """Read whole content; return the reader with its counts, and the requests."""
    reader = reader or LineReader(log_config())
    requests = [request for line in lines for request in reader.read(line, NOW_SECONDS)]
    reader.finish()
    return reader, requests


def served(requests: Iterable[LoggedRequest]) -> list[tuple[int | None, int | None]]:
    """Return prompt and output tokens of the requests that were answered with usage."""
    return [
        (request.prompt_tokens, request.output_tokens)
        for request in requests
        if request.outcome is Outcome.SERVED
    ]


def prompts_of(found: Iterable[Logged]) -> list[int]:
    """Return the prompt lengths of requests and blocks of them."""
    prompts: list[int] = []
    for logged in found:
        if isinstance(logged, ServedBlock):
            prompts += logged.prompt_tokens.tolist()
        elif logged.prompt_tokens:
            prompts.append(logged.prompt_tokens)
    return prompts


def usage_line(prompt: int, output: int, time_seconds: float = NOW_SECONDS, **more: Any) -> bytes:
    """Return a line such as applications write."""
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return json.dumps({"ts": time_seconds, "usage": usage, **more}).encode() + b"\n"
