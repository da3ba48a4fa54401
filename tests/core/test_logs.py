"""The shape of what is logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from vllm_advisor.logs import configure_logging


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def test_events_are_json_with_time_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal, an event is one JSON object a line."""
    configure_logging()
    structlog.get_logger().warning("target is not well", target="a:1")
    event = json.loads(capsys.readouterr().err)

    assert {"level": "warning", "msg": "target is not well", "target": "a:1"}.items() <= event.items()
    assert event["ts"].endswith("Z")


def test_what_libraries_log_has_the_same_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """A library's error is JSON too, its traceback inside it; its chatter is left out."""
    configure_logging(level="debug")
    logging.getLogger("apscheduler").info("chatter")
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        logging.getLogger("apscheduler").exception("job failed")
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)

    assert (event["msg"], event["level"]) == ("job failed", "error")
    assert "ZeroDivisionError" in event["exception"]


def test_level_and_logfmt(capsys: pytest.CaptureFixture[str]) -> None:
    """Events below the level are left out; logfmt starts with time, level and message."""
    configure_logging(log_format="logfmt", level="warning")
    structlog.get_logger().info("not this")
    structlog.get_logger().warning("this", n=3)
    line = capsys.readouterr().err

    assert line.startswith("ts=")
    assert line.rstrip().endswith("level=warning msg=this n=3")
