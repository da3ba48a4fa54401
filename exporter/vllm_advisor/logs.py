"""Logging of the daemon: structlog, to stderr, for people at a terminal and for machines elsewhere."""

from __future__ import annotations

import logging
import os
import sys

import structlog
from structlog.typing import Processor

__all__ = ["FORMATS", "LEVELS", "configure_logging"]

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "console", "logfmt", "json")

_ENRICH: list[Processor] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    structlog.processors.format_exc_info,
]


def configure_logging(*, log_format: str = "auto", level: str = "info") -> None:
    """Set up logging.

    Args:
        log_format: one of `FORMATS`; ``auto`` is ``console`` at a terminal and ``json`` elsewhere.
        level: one of `LEVELS`.
    """
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    threshold = logging.getLevelNamesMapping()[level.upper()]
    renderers = _renderers(log_format)
    structlog.configure(
        processors=[*_ENRICH, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _route_libraries(renderers, max(threshold, logging.WARNING))


def _route_libraries(renderers: list[Processor], threshold: int) -> None:
    """Give what libraries log the same shape; below a warning it is of no use to an operator."""
    handler = logging.StreamHandler(sys.stderr)
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_ENRICH, processors=[drop_meta, *renderers])
    )
    logging.basicConfig(level=threshold, handlers=[handler], force=True)


def _renderers(log_format: str) -> list[Processor]:
    if log_format == "console":
        colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        return [structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="ts")]
    rename = structlog.processors.EventRenamer("msg")
    if log_format == "logfmt":
        return [rename, structlog.processors.LogfmtRenderer(key_order=["ts", "level", "msg"])]
    return [rename, structlog.processors.JSONRenderer()]
