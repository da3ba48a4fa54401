"""Targets from files, JSON or YAML (``file_sd_configs``)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from glob import glob
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from vllm_advisor.config_discovery import FileSdConfig
from vllm_advisor.sources.discovery.found import Found, Listing, targets_of_groups

__all__ = ["discover"]

_LOOK_SECONDS = 1.0

_Mark = tuple[int, int, int]


class _Files:
    """What the files said last, each on its own, so that a bad one costs no other's targets."""

    def __init__(self, config: FileSdConfig) -> None:
        self._patterns = config.files
        self._marks: dict[str, _Mark] = {}
        self._targets: dict[str, list[Found]] = {}

    def read(self, *, again: bool) -> Listing | None:
        """Return every target; None when no file changed since, unless they are to be read again."""
        marks = {path: mark for path in self._paths() if (mark := _mark(path))}
        if marks == self._marks and not again:
            return None
        self._targets = {path: found for path, found in self._targets.items() if path in marks}
        problems = [problem for path in marks if (problem := self._read(path))]
        self._marks = marks
        targets = tuple(target for path in sorted(self._targets) for target in self._targets[path])
        return Listing(targets, "; ".join(problems))

    def _paths(self) -> list[str]:
        found = (glob(pattern, include_hidden=True) for pattern in self._patterns)  # noqa: PTH207 - absolute ones
        return sorted({path for paths in found for path in paths})

    def _read(self, path: str) -> str:
        try:
            document = _document(Path(path))
            self._targets[path] = targets_of_groups(document, {"__meta_filepath": path})
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            return f"{path}: {str(error).splitlines()[0]}"
        return ""


async def discover(config: FileSdConfig, _: aiohttp.ClientSession) -> AsyncGenerator[Listing, None]:
    """Read files whenever one changes, and every refresh interval."""
    files, waited_seconds = _Files(config), 0.0
    while True:
        again = waited_seconds % config.refresh_interval_seconds < _LOOK_SECONDS
        listing = await asyncio.to_thread(files.read, again=again)
        if listing is not None:
            yield listing
        await asyncio.sleep(_LOOK_SECONDS)
        waited_seconds += _LOOK_SECONDS


def _document(path: Path) -> Any:  # noqa: ANN401
    text = path.read_text(encoding="utf-8")
    if path.suffix.lower() == ".json":
        return json.loads(text)
    return yaml.load(text, Loader=yaml.BaseLoader) or []  # noqa: S506 - it makes nothing but texts, as Prometheus does


def _mark(path: str) -> _Mark | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
