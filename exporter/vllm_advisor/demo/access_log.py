"""The access log that a gateway before the simulated engine would write: lengths and endings, no text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from vllm_advisor.demo.engine import FinishedRequest

__all__ = ["FIELDS", "AccessLog"]

FIELDS = {
    "time": "ts",
    "model": "model",
    "status": "status",
    "prompt_tokens": "usage.prompt_tokens",
    "completion_tokens": "usage.completion_tokens",
    "max_tokens": "request.max_tokens",
    "finish_reason": "finish_reason",
}
"""Where a line holds what, in the words of the configuration's ``fields``."""


class AccessLog:
    """JSON lines in a file that is set aside once it has grown, as logrotate would."""

    def __init__(self, path: Path, model_name: str, limit_bytes: int = 32_000_000) -> None:
        self._path = path
        self._model_name = model_name
        self._limit_bytes = limit_bytes
        path.touch()

    def write(self, finished: Iterable[FinishedRequest]) -> None:
        """Append a line for each request."""
        if self._path.stat().st_size > self._limit_bytes:
            self._path.replace(self._path.with_suffix(".1"))
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(self._line(one)) + "\n" for one in finished)

    def _line(self, finished: FinishedRequest) -> dict[str, object]:
        request = finished.request
        return {
            "ts": round(finished.end_seconds, 3),
            "model": self._model_name,
            "status": 200,
            "request": {"max_tokens": request.max_tokens},
            "usage": {"prompt_tokens": request.prompt_tokens, "completion_tokens": request.output_tokens},
            "finish_reason": finished.reason,
        }
