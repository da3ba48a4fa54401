"""Logging of the daemon: structlog, to stderr, for people at a terminal and for machines elsewhere."""

from __future__ import annotations

import logging
import os
import sys

import structlog

__all__ = ["FORMATS", "LEVELS", "configure_logging"]

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "console", "logfmt", "json")


def configure_logging(*, log_format: str = "auto", level: str = "info") -> None:
    """Set up logging.

    Args:
        log_format: one of `FORMATS`; ``auto`` is ``console`` at a terminal and ``json`` elsewhere.
        level: one of `LEVELS`.
    """
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(threshold, logging.WARNING), stream=sys.stderr, format="%(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            *_renderers(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _renderers(log_format: str) -> list[structlog.typing.Processor]:
    if log_format == "console":
        colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        return [structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="ts")]
    rename = structlog.processors.EventRenamer("msg")
    if log_format == "logfmt":
        return [rename, structlog.processors.LogfmtRenderer(key_order=["ts", "level", "msg"])]
    return [rename, structlog.processors.JSONRenderer()]
